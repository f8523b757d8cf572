"""What SGAS's server takes: the columns of its database (PostgreSQL), and what its parser does before them."""

from __future__ import annotations

from arcacct.targets.rules import INT2, INT4, INT8, Breach, Care, Form, Rule

NAMESPACES = {
    "urf": "http://schema.ogf.org/urf/2003/09/urf",
    "vo": "http://www.sgas.se/namespaces/2009/05/ur/vo",
    "tr": "http://www.sgas.se/namespaces/2010/10/filetransfer",
    "arc": "http://www.nordugrid.org/ws/schemas/ur-arc",
    "sgas": "http://www.sgas.se/namespaces/2009/07/ur",
    "deisa": "http://rmis.deisa.org/acct",
}
"""Of elements and attributes that the server reads; it passes over all others."""


def _text(most: int, element: str = "", care: Care = Care.OURS, value: str = "", *, needed: bool = False) -> Rule:
    return Rule(Form.TEXT, most, care, value, needed, element=element)


def _number(most: int, element: str = "", care: Care = Care.OURS, value: str = "", form: Form = Form.INTEGER) -> Rule:
    return Rule(form, most, care, value, least=-most - 1, element=element)


def _time(element: str, *, needed: bool = False, breach: Breach = Breach.LOST) -> Rule:
    return Rule(Form.TIME, INT8, needed=needed, breach=breach, source="parser", element=element)


RULES = {
    "record_id": _text(1000, "urf:RecordIdentity/@urf:recordId", Care.REFUSE, "job_id", needed=True),
    "create_time": _time("urf:RecordIdentity/@urf:createTime", needed=True, breach=Breach.REFUSED),
    "global_job_id": _text(1000, "urf:JobIdentity/urf:GlobalJobId", Care.REFUSE, "job_id"),
    # Also one that begins with a slash. The column would hold 500.
    "local_job_id": _text(120, "urf:JobIdentity/urf:LocalJobId", Care.OTHERWISE, "local_job_id")._replace(
        breach=Breach.RENAMED, source="parser"
    ),
    "job_name": _text(1000, "urf:JobName", Care.CUT, "job_name"),
    "global_user_name": _text(1000, "urf:UserIdentity/urf:GlobalUserName", Care.CUT, "user_dn"),
    "local_user": _text(100, "urf:UserIdentity/urf:LocalUserId", Care.CUT, "local_user"),
    "vo_name": _text(1000, "urf:UserIdentity/vo:VO/vo:Name", Care.CUT, "vo"),
    "vo_type": _text(100, "urf:UserIdentity/vo:VO/@vo:type"),
    "vo_issuer": _text(1000, "urf:UserIdentity/vo:VO/vo:Issuer"),
    "vo_group": _text(100, "urf:UserIdentity/vo:VO/vo:Attribute/vo:Group", Care.CUT, "fqans"),
    "vo_role": _text(100, "urf:UserIdentity/vo:VO/vo:Attribute/vo:Role", Care.CUT, "fqans"),
    "status": _text(100, "urf:Status", Care.REFUSE, "status"),
    "queue": _text(200, "urf:Queue", Care.CUT, "queue"),
    "project_name": _text(200, "urf:ProjectName", Care.CUT, "project"),
    "submit_host": _text(200, "urf:SubmitHost", Care.OTHERWISE, "client_host"),
    "machine_name": _text(200, "urf:MachineName", Care.REFUSE, "endpoint_url", needed=True),
    # The last of several is kept; whole names are joined, as many as fit.
    "host": Rule(Form.TEXT, 2700, breach=Breach.CUT, source="procedure", element="urf:Host"),
    "charge": _number(INT4, "urf:Charge"),
    "wall_duration": _number(INT4, "urf:WallDuration", Care.REFUSE, "wall_s", Form.DURATION),
    "cpu_duration": _number(INT8, "urf:CpuDuration", Care.REFUSE, "cpu_s", Form.DURATION),
    "user_time": _number(INT4, "sgas:UserTime", Care.OTHERWISE, "cpu_user_s", Form.DURATION),
    "kernel_time": _number(INT4, "sgas:KernelTime", Care.OTHERWISE, "cpu_kernel_s", Form.DURATION),
    "node_count": _number(INT2, "urf:NodeCount", Care.LARGEST, "node_count"),
    "processors": _number(INT4, "urf:Processors", Care.UNKNOWN, "core_count"),
    "memory": _number(INT8, "urf:Memory", Care.UNKNOWN, "memory_kib"),
    "major_page_faults": _number(INT4, "sgas:MajorPageFaults"),
    "start_time": _time("urf:StartTime"),
    "end_time": _time("urf:EndTime"),
    "submit_time": _time("deisa:SubmitTime"),
    "runtime_environment": _text(512, "arc:RuntimeEnvironment", Care.CUT, "run_time_environments", needed=True),
    "transfer_url": _text(2500, "tr:FileTransfers/tr:FileDownload/tr:URL", Care.CUT, "transfers", needed=True),
    "transfer_size": _number(INT8, "tr:FileTransfers/tr:FileDownload/tr:Size", Care.OTHERWISE, "transfers"),
}
"""By what the database calls the column; of a repeated element the last counts, but durations of CPU are added up."""
