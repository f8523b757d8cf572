"""EMI compute accounting records (CAR 1.2) for APEL, in ASCII, valid against car_v1.2.xsd."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from arcacct import __version__
from arcacct.publishing.ledger import Names
from arcacct.records.model import AAR, is_domain_name, job_record_id, machine_host, start_time
from arcacct.targets.apel import messages
from arcacct.targets.apel.messages import LONG, QUEUE, APELOptions, Part, Where, field, infrastructure, member_of, place
from arcacct.targets.common import INT4, LocalJobValues, element, escape, hosts, iso_time, local_job_values

_NAMESPACE = "http://eu-emi.eu/namespaces/2012/11/computerecord"
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<UsageRecords xmlns="{_NAMESPACE}" xmlns:urf="{_NAMESPACE}">\n'
TAIL = "</UsageRecords>\n"
"""A document is HEAD, records, TAIL; all ASCII. No comment before the root: APEL looks at the first node only."""

_SHARED, _PHYSICAL = (f' urf:metric="max" urf:storageUnit="KB" urf:type="{kind}"' for kind in ("Shared", "Physical"))

# RFC 2253, section 3: a type of attribute, by keyword or number, and its value. The schema has one word for such names
# and one for all others, such as subjects of tokens (`https://issuer/subject`), and requires one of the two.
_RFC_2253 = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|(?:[Oo][Ii][Dd]\.)?[0-9]+(?:\.[0-9]+)+) *=")


_NO_ACCOUNT = "nobody"


_CAR_VALUES = attrgetter(
    "job_id", "job_name", "exit_code", "submit_time", "end_time", "node_count", "core_count", "memory_kib",
    "virtual_memory_kib", "wall_s", "cpu_user_s", "cpu_kernel_s", "lrms_submit_time", "lrms_start_time",
)  # fmt: skip


def car_record(aar: AAR, shared: Sequence[Any], local_id: str, created: str) -> str:
    """
    Return one UsageRecord for the inside of a document, from its parts by `SHARED` and the job's own values.

    The job must have passed `acceptance`. ``created``: the time, as text.
    """
    (
        job_id, job_name, code, submit_time, end_time, nodes, cores, memory_kib, virtual_kib, wall_s, user_s, kernel_s,
        lrms_submit, lrms_start,
    ) = _CAR_VALUES(aar)  # fmt: skip
    (_, _, source, (id_head, status, infrastructure, level, places)), (_, user), hosts = shared
    submitted = iso_time(submit_time)
    started = submitted if source == "submit" else iso_time(start_time(aar, "lrms"))
    # CAR names three instants: created, queued, and eligible to run (we know when the payload started).
    queued = f'<TimeInstant urf:type="Qtime">{iso_time(lrms_submit)}</TimeInstant>' if lrms_submit else ""
    eligible = f'<TimeInstant urf:type="Etime">{iso_time(lrms_start)}</TimeInstant>' if lrms_start else ""
    job_name = job_name or ""
    # The parts are in SSM's form; a job's own texts rarely need another form.
    own = f"{id_head}{job_id} {local_id} {job_name}"
    is_plain = _carried(escape(own)) == own
    if not is_plain:
        job_id, local_id, job_name = map(escape, (job_id, local_id, job_name))
    text = (
        f'<UsageRecord><RecordIdentity urf:recordId="{id_head}{job_id}" urf:createTime="{created}"/>'
        f"<JobIdentity><GlobalJobId>{job_id}</GlobalJobId><LocalJobId>{local_id}</LocalJobId></JobIdentity>{user}"
        f"{f'<JobName>{job_name}</JobName>' if job_name else ''}{status}"
        f"{f'<ExitStatus>{code}</ExitStatus>' if -INT4 <= code <= INT4 else ''}{infrastructure}"
        f'<WallDuration>PT{wall_s}S</WallDuration><CpuDuration urf:usageType="all">PT{user_s + kernel_s}S</CpuDuration>'
        f'<CpuDuration urf:usageType="user">PT{user_s}S</CpuDuration>'
        f'<CpuDuration urf:usageType="system">PT{kernel_s}S</CpuDuration>{level}'
        f"{f'<Memory{_SHARED}>{virtual_kib}</Memory>' if virtual_kib > 0 else ''}"
        f"{f'<Memory{_PHYSICAL}>{memory_kib}</Memory>' if memory_kib > 0 else ''}"
        f'<TimeInstant urf:type="Ctime">{submitted}</TimeInstant>'
        f"{queued}{eligible}"
        f"{f'<NodeCount>{nodes}</NodeCount>' if nodes > 0 else ''}"
        f"{f'<Processors>{cores}</Processors>' if cores > 0 else ''}"
        f"<EndTime>{iso_time(end_time)}</EndTime><StartTime>{started}</StartTime>{places}{hosts}</UsageRecord>\n"
    )
    return text if is_plain else _carried(text)


def _carried(text: str) -> str:
    """XML as SSM carries it, in ASCII and with nothing that it takes for something else."""
    if not text.isascii():
        text = text.encode("ascii", "xmlcharrefreplace").decode("ascii")
    if "\x7f" in text:
        # XML may contain DEL unchanged, a message for SSM may not.
        text = text.replace("\x7f", "&#127;")
    # SSM treats a message with application/pkcs7-mime anywhere in it as encrypted.
    return text.replace("pkcs7-mime", "pkcs7&#45;mime") if "pkcs7-mime" in text else text


def car_place(aar: AAR, options: APELOptions) -> Where:
    """
    Return the parts of a record that are the same for most jobs of a queue, so there are few.

    Its texts: the start of the record's id before the JobID, the status, the infrastructure with the middleware, the
    benchmark, and the places.
    """
    worth = messages.benchmark_of(aar.benchmark, options.default_benchmark)
    said = local_job_values(aar, options.local_jobs, options.start_time_source)
    texts = (
        escape(job_record_id(aar._replace(job_id=""), options.lrms_host)),
        f"<Status>{escape(aar.status)}</Status>",
        _infrastructure(said, aar) + _middleware(said),
        _level(worth.type, worth.value),
        _places(aar.endpoint_url, aar.queue, options),
    )
    names = (*place(aar.endpoint_url, options), infrastructure(aar.endpoint_url))
    return Where(names, (worth.type, worth.value), said.start_time_source, tuple(map(_carried, texts)))


def user_identity(aar: AAR, options: APELOptions) -> Part:
    """
    Return the identity with VO, group and role. APEL derives all three from the FQAN; only without one it reads the
    types group and role.

    ``vo-group`` and ``vo-role`` are the names in the CAR document, which no program reads.
    """
    member = member_of(aar, options)
    user, _, group = (aar.local_user or "").partition(":")
    names, account = messages.user_names(aar, member), field(user, LONG) or _NO_ACCOUNT
    found = _carried(
        f"<UserIdentity>{_user(names[0])}"
        f"{element('Group', member.vo)}{_attribute('FQAN', member.fqan)}{_attribute('vo-group', member.group)}"
        f"{_attribute('vo-role', None if member.role == 'Role=NULL' else member.role)}"
        f"{'' if member.fqan else _attribute('group', member.group) + _attribute('role', member.role)}"
        f"{_attribute('ProjectName', aar.project)}"
        f"<LocalUserId>{escape(account)}</LocalUserId>{element('LocalGroup', group)}</UserIdentity>"
    )
    return Part(names, found)


def _user(name: str | None) -> str:
    notation = "rfc2253" if _RFC_2253.match(name or "") else "opensslCompat"
    return element("GlobalUserName", name, f' urf:type="{notation}"')


def _level(kind: str, value: str) -> str:
    return f'<ServiceLevel urf:type="{kind}">{value}</ServiceLevel>'


def zero_record(names: Names, local_id: str, end_time: int, created: str) -> str:
    """Return a record without usage under the names that were sent for a key: it cancels the usage under that key."""
    site, host, kind, user, vo, group, role, level_type, level, nodes, cores = names
    texts = [None if one is None else str(one) for one in (site, host, user, vo, group, role)]
    site, host, user, vo, group, role = texts
    ended, local_id = iso_time(end_time), escape(local_id)
    return _carried(
        f'<UsageRecord><RecordIdentity urf:recordId="{escape(host or site or "")}:{local_id}:{end_time}"'
        f' urf:createTime="{created}"/><JobIdentity><LocalJobId>{local_id}</LocalJobId></JobIdentity>'
        f"<UserIdentity>{_user(user)}{element('Group', vo)}{_attribute('group', group)}{_attribute('role', role)}"
        f"<LocalUserId>{_NO_ACCOUNT}</LocalUserId></UserIdentity><Status>completed</Status>"
        f'<Infrastructure urf:type="{kind}" urf:description="ARC"/><WallDuration>PT0S</WallDuration>'
        f'<CpuDuration urf:usageType="all">PT0S</CpuDuration>{_level(str(level_type), str(level))}'
        f"{f'<NodeCount>{nodes}</NodeCount>' if nodes else ''}{f'<Processors>{cores}</Processors>' if cores else ''}"
        f"<EndTime>{ended}</EndTime><StartTime>{ended}</StartTime><MachineName/>{element('SubmitHost', host or None)}"
        f'<Queue urf:description="execution"/><Site urf:type="gocdb">{escape(site or "")}</Site></UsageRecord>\n'
    )


def _attribute(kind: str, text: str | None) -> str:
    return element("GroupAttribute", text, f' urf:type="{kind}"')


def _infrastructure(said: LocalJobValues, aar: AAR) -> str:
    """Return the infrastructure: jura-ng's text for ARC's jobs; cut to APEL's column of 100."""
    words = said.infrastructure or (f"JURA-ARC-{aar.lrms.upper()}" if aar.lrms else "JURA-ARC")
    description = escape(field(words, messages.DESCRIPTION) or "")
    return f'<Infrastructure urf:type="{infrastructure(aar.endpoint_url)}" urf:description="{description}"/>'


def _middleware(said: LocalJobValues) -> str:
    if said.middleware is not None:
        name, product = escape(said.middleware), escape(said.middleware.upper())
        return name and f'<Middleware urf:name="{name}" urf:description="{product}, arcacct {__version__}"/>'
    return f'<Middleware urf:name="arc" urf:description="NorduGrid ARC, arcacct {__version__}"/>'


def _places(endpoint_url: str | None, queue: str | None, options: APELOptions) -> str:
    """
    Return the elements for where the job was sent.

    CAR wants no SubmitHost for local jobs, but APEL counts jobs by it and compares with the sync message:
    without one they would seem lost, so it is the batch system's host.
    """
    host = machine_host(endpoint_url, options.lrms_host) or ""
    return (
        f"<MachineName>{host if is_domain_name(host) else ''}</MachineName>"
        f"{element('SubmitHost', messages.submit_host(endpoint_url, options))}"
        f'<Queue urf:description="execution">{escape(field(queue, QUEUE) or "")}</Queue>'
        f'<Site urf:type="gocdb">{escape(field(options.site, LONG) or "")}</Site>'
    )


def host_elements(aar: AAR, _options: APELOptions) -> str:
    """Return a Host for each node that has a name."""
    return _carried("".join(hosts(aar.node_names)))


SHARED: dict[Callable[[AAR, APELOptions], Any], tuple[str, ...]] = {
    # The kind of node is not sent, only judged.
    car_place: ("endpoint_url", "endpoint_type", "queue", "lrms", "status", "benchmark", "wn_instance"),
    user_identity: ("local_user", "user_dn", "vo", "fqans", "auth_groups", "project", "endpoint_url"),
    host_elements: ("node_names",),
}
"""The parts of a record that many jobs share, and the values of each."""
