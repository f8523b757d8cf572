r"""
EMI compute accounting records (CAR 1.2) for APEL, valid against car_v1.2.xsd.

Pure ASCII, since SSM decodes messages as ASCII. What APEL stores is spelt as in its text messages, ``\xHH`` for each
byte of UTF-8 and cut to its columns: a user is one user in every family, and a database in latin1 takes any name (it
refuses a whole message for one character that it lacks). What APEL does not store (job name, project, local group,
the JobID, versions) is for other readers and keeps its characters, as references.
"""

from __future__ import annotations

import re
from functools import lru_cache

from arcacct import __version__
from arcacct.jobs.aar import AAR
from arcacct.jobs.identity import is_domain_name, job_record_id, machine_host, start_time
from arcacct.targets.apel.messages import (
    APELOptions,
    Membership,
    apel_local_job_id,
    benchmark_of,
    infrastructure,
    member_of,
    submit_host,
)
from arcacct.targets.apel.rules import DESCRIPTION, LONG, QUEUE
from arcacct.targets.apel.text import field
from arcacct.targets.rules import INT4
from arcacct.targets.xml import duration, element, escape, hosts, instant, iso_time, positive

_NAMESPACE = "http://eu-emi.eu/namespaces/2012/11/computerecord"
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<UsageRecords xmlns="{_NAMESPACE}" xmlns:urf="{_NAMESPACE}">\n'
TAIL = "</UsageRecords>\n"
"""A document is HEAD, records, TAIL; all ASCII. No comment before the root: APEL looks at the first node only."""

_SHARED, _PHYSICAL = (f' urf:metric="max" urf:storageUnit="KB" urf:type="{kind}"' for kind in ("Shared", "Physical"))

# RFC 2253, section 3: a type of attribute, by keyword or number, and its value. The schema has one word for such names
# and one for all others, the subjects of tokens among them (`https://issuer/subject`), and wants one of the two.
_RFC_2253 = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|(?:[Oo][Ii][Dd]\.)?[0-9]+(?:\.[0-9]+)+) *=")


def car(aar: AAR, options: APELOptions, create_time: int) -> str:
    """One UsageRecord for the inside of a document; the record must have passed `acceptance`."""
    benchmark = benchmark_of(aar.benchmark, options.default_benchmark)
    code = aar.exit_code
    text = (
        f'<UsageRecord><RecordIdentity urf:recordId="{escape(job_record_id(aar, options.lrms_host))}"'
        f' urf:createTime="{iso_time(create_time)}"/>'
        f"<JobIdentity><GlobalJobId>{escape(aar.job_id)}</GlobalJobId>"
        f"<LocalJobId>{escape(apel_local_job_id(aar, options.localid_prefix))}</LocalJobId></JobIdentity>"
        f"{_user_identity(aar.local_user, aar.user_dn, aar.project, member_of(aar, options))}"
        f"{element('JobName', aar.job_name)}<Status>{escape(aar.status)}</Status>"
        f"{f'<ExitStatus>{code}</ExitStatus>' if -INT4 <= code <= INT4 else ''}"
        f"{_infrastructure(aar.lrms, aar.endpoint_url)}{_middleware(options.arc_version)}"
        f"<WallDuration>{duration(aar.wall_s)}</WallDuration>"
        f'<CpuDuration urf:usageType="all">{duration(aar.cpu_s)}</CpuDuration>'
        f'<CpuDuration urf:usageType="user">{duration(aar.cpu_user_s)}</CpuDuration>'
        f'<CpuDuration urf:usageType="system">{duration(aar.cpu_kernel_s)}</CpuDuration>'
        f'<ServiceLevel urf:type="{benchmark.type}">{benchmark.value}</ServiceLevel>'
        f"{positive('Memory', aar.virtual_memory_kib, _SHARED)}{positive('Memory', aar.memory_kib, _PHYSICAL)}"
        # CAR names three instants: created, queued, and eligible to run (we know when the payload started).
        f'<TimeInstant urf:type="Ctime">{iso_time(aar.submit_time)}</TimeInstant>'
        f"{instant('Qtime', aar.lrms_submit_time)}{instant('Etime', aar.lrms_start_time)}"
        f"{positive('NodeCount', aar.node_count)}{positive('Processors', aar.core_count)}"
        f"<EndTime>{iso_time(aar.end_time)}</EndTime>"
        f"<StartTime>{iso_time(start_time(aar, options.start_time_source))}</StartTime>"
        f"{_places(aar.endpoint_url, aar.queue, options)}{_hosts(aar.node_names)}</UsageRecord>\n"
    )
    if not text.isascii():
        text = text.encode("ascii", "xmlcharrefreplace").decode("ascii")
    if "\x7f" in text:
        # XML may hold DEL as it stands, a message for SSM may not.
        text = text.replace("\x7f", "&#127;")
    # SSM takes a message with application/pkcs7-mime anywhere in it for an encrypted one.
    return text.replace("pkcs7-mime", "pkcs7&#45;mime") if "pkcs7-mime" in text else text


# Users come back with every job: a site has thousands of jobs for each combination.
@lru_cache(maxsize=4096)
def _user_identity(local_user: str | None, user_dn: str | None, project: str | None, member: Membership) -> str:
    """
    With VO, group and role. APEL derives all three from the FQAN; only without one it reads the types group and role.

    ``vo-group`` and ``vo-role`` are what the CAR document names, and what nobody reads.
    """
    user, _, group = (local_user or "").partition(":")
    name, account = field(user_dn, LONG), field(user, LONG) or "nobody"
    notation = ' urf:type="rfc2253"' if _RFC_2253.match(name or "") else ' urf:type="opensslCompat"'
    return (
        f"<UserIdentity>{element('GlobalUserName', name, notation)}"
        f"{element('Group', member.vo)}{_attribute('FQAN', member.fqan)}{_attribute('vo-group', member.group)}"
        f"{_attribute('vo-role', None if member.role == 'Role=NULL' else member.role)}"
        f"{'' if member.fqan else _attribute('group', member.group) + _attribute('role', member.role)}"
        f"{_attribute('ProjectName', project)}"
        f"<LocalUserId>{escape(account)}</LocalUserId>{element('LocalGroup', group)}</UserIdentity>"
    )


def _attribute(kind: str, text: str | None) -> str:
    return element("GroupAttribute", text, f' urf:type="{kind}"')


@lru_cache(maxsize=256)
def _infrastructure(lrms: str | None, endpoint_url: str | None) -> str:
    """jura-ng's words, cut to APEL's column of 100."""
    description = field(f"JURA-ARC-{lrms.upper()}" if lrms else "JURA-ARC", DESCRIPTION)
    return f'<Infrastructure urf:type="{infrastructure(endpoint_url)}" urf:description="{escape(description or "")}"/>'


@lru_cache(maxsize=16)
def _middleware(arc_version: str | None) -> str:
    version = f' urf:version="{escape(arc_version)}"' if arc_version else ""
    product = escape(f"NorduGrid ARC {arc_version}" if arc_version else "NorduGrid ARC")
    return f'<Middleware urf:name="arc"{version} urf:description="{product}, arcacct {__version__}"/>'


@lru_cache(maxsize=1024)
def _places(endpoint_url: str | None, queue: str | None, options: APELOptions) -> str:
    """
    Where the job was sent.

    CAR wants no SubmitHost for local jobs, but APEL counts jobs by it and compares with the sync message:
    without one they would seem lost, so it is the batch system's host.
    """
    host = machine_host(endpoint_url, options.lrms_host) or ""
    return (
        f"<MachineName>{host if is_domain_name(host) else ''}</MachineName>"
        f"{element('SubmitHost', submit_host(endpoint_url, options))}"
        f'<Queue urf:description="execution">{escape(field(queue, QUEUE) or "")}</Queue>'
        f'<Site urf:type="gocdb">{escape(field(options.site, LONG) or "")}</Site>'
    )


@lru_cache(maxsize=4096)
def _hosts(names: tuple[str, ...]) -> str:
    return "".join(hosts(names))
