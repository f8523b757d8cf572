"""OGF usage records (GFD.98) for SGAS, and the rules of SGAS's server for each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from arcacct import __version__
from arcacct.benchmark import parsed_benchmark
from arcacct.config.values import LocalJobs
from arcacct.publishing.sent import digest_of
from arcacct.records import model
from arcacct.records.model import AAR, FQAN, Transfer, VOs, is_address, machine_host, parsed_fqan, start_time, vo_name
from arcacct.secrecy import without_credentials
from arcacct.targets import common
from arcacct.targets.common import INT2, INT4, INT8, Breach, Care, Form, Rule, carried, element, escape, hosts, iso_time

# The rules of SGAS's server: the columns of its database (PostgreSQL), and its parser before them.


NAMESPACES = {
    "urf": "http://schema.ogf.org/urf/2003/09/urf",
    "vo": "http://www.sgas.se/namespaces/2009/05/ur/vo",
    "tr": "http://www.sgas.se/namespaces/2010/10/filetransfer",
    "arc": "http://www.nordugrid.org/ws/schemas/ur-arc",
    "sgas": "http://www.sgas.se/namespaces/2009/07/ur",
    "deisa": "http://rmis.deisa.org/acct",
}
"""Namespaces of elements and attributes that the server reads; it ignores all others."""


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
    # Also a path that starts with a slash. The column would hold 500.
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
    # The last of several is kept; as many whole names are joined as fit.
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
"""By the column of the database; the last of a repeated element counts, but durations of CPU are summed."""


# OGF usage records (GFD.98) for SGAS, with the extensions that SGAS reads.  Order of elements: the schema with
# extensions at the end of UserIdentity and of the record. Texts are joined from f-strings, not built as trees: this
# gives six times the records per second, and every text goes through one escape.


_NAMED = NAMESPACES | {"logger": "http://www.sgas.se/namespaces/2010/08/logger"}
_DECLARED = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in _NAMED.items())
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<UsageRecords xmlns="{NAMESPACES["urf"]}"{_DECLARED}>\n'
TAIL = "</UsageRecords>\n"
"""A document is HEAD, records, TAIL: callers that batch by bytes add up ``len(record.encode())``."""

_SCRATCH = ' urf:storageUnit="B" urf:metric="total" urf:type="scratch"'
_NETWORK = ' urf:storageUnit="B" urf:metric="total"'
_PHYSICAL = ' urf:storageUnit="KB" urf:metric="max" urf:type="physical"'
_VIRTUAL = {kind: f' urf:storageUnit="KB" urf:metric="max" urf:type="{kind}"' for kind in ("shared", "virtual")}
_LOGGER = f'<logger:LoggerName logger:version="{__version__}">arcacct</logger:LoggerName>'
# SGAS would cut one more, and mark it as cut.
_LONGEST_JOINED_HOSTS = int(RULES["host"].most) - 1
_LONGEST_SUBMIT_HOST = RULES["submit_host"].most
_LONGEST_LOCAL_ID = RULES["local_job_id"].most
_LARGEST_SPLIT_CPU_S = min(RULES["user_time"].most, RULES["kernel_time"].most)


class UROptions(NamedTuple):
    """The site's choices for its usage records; the defaults continue those of jura-ng."""

    host: str | None = None
    """``lrms_host``, else the host's own name: MachineName and recordId of jobs without an endpoint."""
    localid_prefix: str = ""
    vomsless_vo: VOs = VOs()
    vo_groups: tuple[str, ...] = ()
    """Groups that are added to every VO."""
    start_time_source: str = "submit"
    """``submit`` or ``lrms``."""
    vo_style: str = "arc"
    """``arc``: ``/Role=production``, NULL kept, as jura-ng; ``doc``: ``production``, no NULL, as SGAS documents it."""
    host_style: str = "multi"
    """``multi``: a Host each, the primary last because SGAS keeps the last; ``joined``: all in one, invalid."""
    memory_type: str = "shared"
    """``shared`` or ``virtual`` (jura-ng's value, which SGAS does not store)."""
    local_jobs: tuple[LocalJobs, ...] = ()
    """The description of jobs that came without ARC; default: ``own``."""


_STORED = (
    "job_id", "local_job_id", "endpoint_url", "queue", "user_dn", "vo", "status", "exit_code", "submit_time",
    "end_time", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s", "cpu_kernel_s",
    "fqans", "job_name", "node_names", "client_host", "local_user", "project", "run_time_environments", "transfers",
)  # fmt: skip
_DIGEST, _DIGEST_WITH_START = digest_of(_STORED), digest_of((*_STORED, "lrms_start_time"))


def digest(aar: AAR, options: UROptions) -> bytes:
    """
    Return the digest of the values that SGAS stores.

    It ignores benchmark, kind of node, disk, network and most times, so a change of only these is no correction.
    """
    # The start of a job without an endpoint may be that of the batch system, with any value of the option (`where`).
    has_start = options.start_time_source == "lrms" or not aar.endpoint_url
    return _DIGEST_WITH_START(aar) if has_start else _DIGEST(aar)


class Where(NamedTuple):
    """The place, environment and result of a job."""

    machine: str
    id_head: str
    """The start of the record's id, before the JobID."""
    start_time_source: str
    texts: tuple[str, ...]
    """The same in XML: status, service levels, MachineName, queue and project, environments with the logger's name."""


def where(aar: AAR, options: UROptions) -> Where:
    """The parts of a record that are the same for most jobs of a queue: of these there are few."""
    id_head = model.job_record_id(aar._replace(job_id=""), options.host)
    machine = machine_host(aar.endpoint_url, options.host) or ""
    source = common.local_job_values(aar, options.local_jobs, options.start_time_source).start_time_source
    texts = (
        escape(id_head),
        f"<Status>{escape(aar.status)}</Status>",
        _service_levels(aar.benchmark, aar.wn_instance),
        f"<MachineName>{escape(machine)}</MachineName>",
        element("Queue", aar.queue) + element("ProjectName", aar.project),
        "".join([element("arc:RuntimeEnvironment", name) for name in aar.run_time_environments]) + _LOGGER,
    )
    return Where(machine, id_head, source, texts)


_WRITTEN = attrgetter(
    "job_id", "job_name", "exit_code", "submit_time", "end_time", "node_count", "core_count", "memory_kib",
    "virtual_memory_kib", "wall_s", "cpu_user_s", "cpu_kernel_s", "scratch_bytes", "stage_in_bytes", "stage_out_bytes",
    "client_host", "transfers", "lrms_submit_time", "lrms_start_time", "lrms_end_time",
)  # fmt: skip


def written(
    aar: AAR,
    shared: Sequence[Any],
    local_id: str | None,
    created: str,
    options: UROptions,
    global_job_id: str | None = None,
) -> str:
    """
    Return one JobUsageRecord for the inside of a document, from its parts by `SHARED` and the job's own values.

    It is well-formed with any texts. ``created``: the time, as text. Under another ``global_job_id`` SGAS treats it as
    another job with the same record id, and replaces its row.
    """
    (
        job_id, job_name, exit_code, submit_time, end_time, nodes, cores, memory_kib, virtual_kib, wall_s, user_s,
        kernel_s, scratch_bytes, stage_in_bytes, stage_out_bytes, client_host, transfers, lrms_submit, lrms_start,
        lrms_end,
    ) = _WRITTEN(aar)  # fmt: skip
    (_, _, source, (id_head, status, node, machine, queue, environments)), user, hosts = shared
    host = model.client_host_name(client_host) if client_host else ""
    client = submit_host(host) if 0 < len(host) <= _LONGEST_SUBMIT_HOST else ""
    local_id, job_name = local_id or "", job_name or ""
    names = f"{job_id}{local_id}{job_name}"
    if escape(names) != names:
        job_id, local_id, job_name = map(escape, (job_id, local_id, job_name))
    submitted = iso_time(submit_time)
    started = submitted if source == "submit" else iso_time(start_time(aar, "lrms"))
    queued = f'<TimeInstant urf:type="lrmssubmit">{iso_time(lrms_submit)}</TimeInstant>' if lrms_submit else ""
    began = f'<TimeInstant urf:type="lrmsstart">{iso_time(lrms_start)}</TimeInstant>' if lrms_start else ""
    ended = f'<TimeInstant urf:type="lrmsend">{iso_time(lrms_end)}</TimeInstant>' if lrms_end else ""
    moved_bytes = stage_in_bytes + stage_out_bytes
    staging, files = _moved(transfers) if transfers else ("", "")
    # SGAS keeps user and kernel time only from its own elements, in columns of four bytes.
    split_cpu = (
        ""
        if user_s > _LARGEST_SPLIT_CPU_S or kernel_s > _LARGEST_SPLIT_CPU_S
        else f"<sgas:UserTime>PT{user_s}S</sgas:UserTime><sgas:KernelTime>PT{kernel_s}S</sgas:KernelTime>"
    )
    return (
        f'<JobUsageRecord><RecordIdentity urf:recordId="{id_head}{job_id}" urf:createTime="{created}"/>'
        f"<JobIdentity><GlobalJobId>{escape(global_job_id) if global_job_id else job_id}</GlobalJobId>"
        f"{f'<LocalJobId>{local_id}</LocalJobId>' if local_id else ''}</JobIdentity>{user}"
        f"{f'<JobName>{job_name}</JobName>' if job_name else ''}{status}"
        # These are between Status and WallDuration, distinguished by type. There are no zeros among them.
        f"{f'<Disk{_SCRATCH}>{scratch_bytes}</Disk>' if scratch_bytes > 0 else ''}"
        f"{f'<Memory{_VIRTUAL[options.memory_type]}>{virtual_kib}</Memory>' if virtual_kib > 0 else ''}"
        f"{f'<Memory{_PHYSICAL}>{memory_kib}</Memory>' if memory_kib > 0 else ''}"
        f"{f'<Network{_NETWORK}>{moved_bytes}</Network>' if moved_bytes > 0 else ''}{staging}"
        f'<TimeInstant urf:type="submit">{submitted}</TimeInstant>'
        f"{queued}{began}{ended}{node}"
        # No CpuDuration of usageType "all": SGAS adds up what it finds. No zero counts: it multiplies by Processors.
        f"<WallDuration>PT{wall_s}S</WallDuration>"
        f'<CpuDuration urf:usageType="user">PT{user_s}S</CpuDuration>'
        f'<CpuDuration urf:usageType="system">PT{kernel_s}S</CpuDuration>'
        f"{f'<NodeCount>{nodes}</NodeCount>' if nodes > 0 else ''}"
        f"{f'<Processors>{cores}</Processors>' if cores > 0 else ''}"
        f"<EndTime>{iso_time(end_time)}</EndTime><StartTime>{started}</StartTime>"
        f"{machine}{client}{queue}{hosts}"
        # Values without an element in GFD.98, in the namespaces that SGAS reads.
        f"<deisa:SubmitTime>{submitted}</deisa:SubmitTime>"
        f"{split_cpu}<sgas:ExitCode>{exit_code}</sgas:ExitCode>{environments}{files}</JobUsageRecord>\n"
    )


def local_job_id(local_id: str | None, options: UROptions) -> str | None:
    """Return the LocalJobId as it is sent, or None if SGAS would drop it and rename the record."""
    if not local_id:
        return None
    text = options.localid_prefix + local_id
    if len(text) > _LONGEST_LOCAL_ID or ("/" in text and carried(text).startswith("/")):
        return None
    return text


def user_identity(aar: AAR, options: UROptions) -> str:
    """The UserIdentity, or an empty text without a user."""
    user = (aar.local_user or "").partition(":")[0]
    own = element("LocalUserId", user) + element("GlobalUserName", aar.user_dn)
    inside = own + _virtual_organisation(aar, options)
    return f"<UserIdentity>{inside}</UserIdentity>" if inside else ""


def _virtual_organisation(aar: AAR, options: UROptions) -> str:
    """The SGAS VO extension: without a name SGAS would drop all of it."""
    vos = options.vomsless_vo
    name = vo_name(aar.vo, aar.fqans[0] if aar.fqans else None, aar.auth_groups, vos)
    if not (name and escape(name)):
        return ""
    issuer = None
    if not aar.fqans:
        # The issuer that the site names. For a VO that was chosen when the job was recorded, only the name was kept.
        rule = vos.rule(aar.vo, aar.auth_groups) or next((one for one in vos.rules if one.name == aar.vo), None)
        issuer = rule.issuer if rule else None
    parsed = [fqan for fqan in map(parsed_fqan, aar.fqans) if fqan is not None]
    known = {fqan.group for fqan in parsed}
    extra = [FQAN(group) for group in dict.fromkeys(options.vo_groups) if group not in known]
    attributes = "".join(_attribute(fqan, options.vo_style) for fqan in [*parsed, *extra])
    return f'<vo:VO vo:type="voms"><vo:Name>{escape(name)}</vo:Name>{element("vo:Issuer", issuer)}{attributes}</vo:VO>'


def _attribute(fqan: FQAN, style: str) -> str:
    role, capability = fqan.role, fqan.capability
    if style == "doc":
        role = None if role == "NULL" else role
        capability = None if capability == "NULL" else capability
    else:
        role = role and f"/Role={role}"
        capability = capability and f"/Capability={capability}"
    inside = element("vo:Group", fqan.group) + element("vo:Role", role) + element("vo:Capability", capability)
    return f"<vo:Attribute>{inside}</vo:Attribute>"


def _service_levels(benchmark: str | None, kind: str | None) -> str:
    """Return the benchmark of a core of the node, and the kind of node."""
    parsed = parsed_benchmark(benchmark)
    instance = f'<ServiceLevel urf:type="wninstance">{escape(kind)}</ServiceLevel>' if kind else ""
    level = "" if parsed is None else f'<ServiceLevel urf:type="{parsed.type}">{parsed.value}</ServiceLevel>'
    return instance + level


@lru_cache(maxsize=4096)
def submit_host(host: str) -> str:
    """
    Return the host or address that a client connected from; nothing for another text.

    SGAS stores addresses unchanged; the schema's pattern accepts only names, and IPv4 addresses that look like names.
    """
    return element("SubmitHost", host if model.is_domain_name(host) or is_address(host) else None)


def host_elements(aar: AAR, options: UROptions) -> str:
    """Return a Host for each node, or one for all."""
    names = aar.node_names
    if options.host_style == "joined":
        # As many whole names as fit into SGAS's column.
        joined = ",".join(dict.fromkeys(name for name in names if name))
        if len(joined) > _LONGEST_JOINED_HOSTS:
            joined = joined[:_LONGEST_JOINED_HOSTS].rpartition(",")[0]
        return element("Host", joined)
    found = hosts(names)
    return "".join([*found[1:], *found[:1]])


SHARED: dict[Callable[[AAR, UROptions], Any], tuple[str, ...]] = {
    where: (
        "endpoint_url", "endpoint_type", "lrms", "queue", "project", "status", "wn_instance", "benchmark",
        "run_time_environments",
    ),
    user_identity: ("local_user", "user_dn", "vo", "fqans", "auth_groups"),
    host_elements: ("node_names",),
}  # fmt: skip
"""The parts of a record that many jobs share, and the values of each."""


def _moved(transfers: Sequence[Transfer]) -> tuple[str, str]:
    """
    How long data staging lasted, from the first request to the last byte, in each direction; and the file transfers.

    SGAS refuses a transfer without a URL, and an element that holds nothing else. User, password and query of a URL are
    left out.
    """
    parts: list[str] = []
    began_in = ended_in = began_out = ended_out = alike = None
    before = behind = ""
    urls = "".join([one[0] for one in transfers])
    is_plain = escape(urls) == urls and "@" not in urls and "?" not in urls
    for url, size_bytes, started, finished, kind in transfers:
        # Most files of a job are moved together: everything except name and size is made once.
        if alike != (alike := (started, finished, kind)):
            behind = f"</tr:Size><tr:StartTime>{iso_time(started)}</tr:StartTime><tr:EndTime>{iso_time(finished)}"
            if kind == "output":
                began_out = started if began_out is None or started < began_out else began_out
                ended_out = finished if ended_out is None or finished > ended_out else ended_out
                before, behind = "<tr:FileUpload><tr:URL>", f"{behind}</tr:EndTime></tr:FileUpload>"
            else:
                began_in = started if began_in is None or started < began_in else began_in
                ended_in = finished if ended_in is None or finished > ended_in else ended_in
                cached = "true" if kind == "cached_input" else "false"
                before = "<tr:FileDownload><tr:URL>"
                behind += f"</tr:EndTime><tr:RetrievedFromCache>{cached}</tr:RetrievedFromCache></tr:FileDownload>"
        if escaped := url if is_plain else escape(without_credentials(url)):
            parts.append(f"{before}{escaped}</tr:URL><tr:Size>{size_bytes}{behind}")
    staging = _lasted("stagein", began_in, ended_in) + _lasted("stageout", began_out, ended_out)
    return staging, f"<tr:FileTransfers>{''.join(parts)}</tr:FileTransfers>" if parts else ""


def _lasted(name: str, began: int | None, ended: int | None) -> str:
    if began is None or ended is None:
        return ""
    return f'<TimeDuration urf:type="{name}">PT{ended - began if ended > began else 0}S</TimeDuration>'
