"""APEL's individual job messages (v0.3 and v0.4): text in ASCII, and the rules of APEL's loader for each field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from arcacct.benchmark import FALLBACK, Benchmark, parsed_benchmark
from arcacct.config.values import LocalJobs
from arcacct.errors import InputError
from arcacct.publishing.ledger import Names
from arcacct.records.batch_jobs import BareIDs, name_before
from arcacct.records.model import AAR, FQAN, VOs, has_value, machine_host, parsed_fqan, start_time, vo_name
from arcacct.targets.common import INT4, INT8, Breach, Care, Form, Rule, ascii_text, local_job_values, spelt

# Text for APEL's messages: lines of ``Key: value`` in ASCII (`targets.common`).


END = "%%\n"
"""The end of a record."""

_HARMLESS = bytes((9, 10, *range(32, 127)))
# SSM treats a message that contains these words anywhere as encrypted.
_LOOKS_ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime")


@lru_cache(maxsize=16384)
def field(text: str | None, limit: int) -> str | None:
    """
    Return a value as APEL will store it: printable ASCII, at most `limit` characters, no blanks around it.

    None for a text that APEL treats as missing: empty, ``none`` and ``null``.
    """
    if text is None:
        return None
    value = spelt(text, limit)
    return value if has_value(value) else None


def folded(text: str | None) -> str | None:
    """Return a value as MySQL compares it in a key: without case and without blanks at the end."""
    return None if text is None else text.rstrip(" ").lower()


def record_text(fields: Iterable[tuple[str, object]]) -> str:
    """Return one record, with its end; unknown values (None) are left out."""
    return lines(fields) + END


def lines(fields: Iterable[tuple[str, object]]) -> str:
    """Return a part of a record."""
    return "".join([f"{key}: {value}\n" for key, value in fields if value is not None])


def ssm_text(text: str) -> bytes:
    """
    The bytes of a message as SSM reads them: ASCII, lines ended by LF, tabs, and no other control character.

    SSM's receiver reads messages as ASCII before it acknowledges them: one other byte stops the central queue for
    everyone. So each writer of a message checks here last, even if the record was already checked. Raises InputError
    with the place of a forbidden byte; records are escaped before (`acceptance`).
    """
    if not text.strip():
        raise InputError("message for APEL: it is empty, which SSM rejects; nothing should have been sent")
    try:
        data = text.encode("ascii")
    except UnicodeEncodeError as exc:
        where = _place(text, exc.start)
        raise InputError(f"message for APEL: {where} is {text[exc.start]!r}, and only ASCII may be sent") from exc
    # A carriage return alone breaks the signature; SSM makes line breaks of VT, FF, FS, GS and RS.
    controls = set(data.translate(None, _HARMLESS).decode())
    for found in (*controls, *(word for word in _LOOKS_ENCRYPTED if word in text)):
        raise InputError(f"message for APEL: {_place(text, text.index(found))} is {found!r}, which SSM cannot carry")
    return data


def _place(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, character {offset - text.rfind(chr(10), 0, offset)}"


# The rules of APEL's loader for each kind of record: its parser, the procedures and the columns of its database
# (MariaDB).  A field that a kind of record does not have makes APEL reject the message; so does one bad record. It
# sends no report.


LONG, QUEUE, DESCRIPTION, INFRASTRUCTURE = 255, 100, 100, 20
"""Characters of its columns of text; ours are ASCII."""

BENCHMARK_TYPES = ("hepscore23", "hepspec", "si2k")
"""In any case; the first of these in a dictionary counts."""

_LEVEL = 10**7 - 0.001
"""The largest that DECIMAL(10,3) holds."""


def _text(most: int, care: Care = Care.OURS, value: str = "", *, needed: bool = False) -> Rule:
    return Rule(Form.TEXT, most, care, value, needed)


def _number(most: float, care: Care, value: str, *, needed: bool = True, least: float = 0) -> Rule:
    return Rule(Form.INTEGER, most, care, value, needed, least, source="procedure")


_TIME = Rule(Form.TIME, math.inf, Care.OTHERWISE, least=-math.inf, source="parser")
_IGNORED = Rule(Form.IGNORED, math.inf, breach=Breach.LOST, source="parser")
_DECIMAL = Rule(Form.DECIMAL, _LEVEL, Care.OTHERWISE, "benchmark", least=-_LEVEL)
_DICTIONARY = _DECIMAL._replace(form=Form.BENCHMARK)

JOB = {
    "Site": _text(LONG, needed=True),
    "GlobalUserName": _text(LONG, Care.CUT, "user_dn"),
    "VO": _text(LONG, Care.CUT, "vo"),
    "VOGroup": _text(LONG),
    "VORole": _text(LONG),
    # If it were cut, it would lose its role: VO, group and role replace it.
    "FQAN": _text(LONG, Care.OTHERWISE, "fqans"),
    "SubmitHost": _text(LONG, Care.CUT, "endpoint_url"),
    "SubmitHostType": _IGNORED,
    "MachineName": _text(LONG),
    "Queue": _text(QUEUE, Care.CUT, "queue"),
    # If it were cut, two jobs could become one: the JobID replaces it, and is refused if it is too long itself.
    "LocalJobId": _text(LONG, Care.OTHERWISE, "local_job_id", needed=True),
    "LocalUserId": _text(LONG, Care.CUT, "local_user"),
    "WallDuration": _number(INT4, Care.REFUSE, "wall_s"),
    "CpuDuration": _number(INT4, Care.REFUSE, "cpu_s"),
    "Processors": _number(INT4, Care.UNKNOWN, "core_count", needed=False),
    "NodeCount": _number(INT4, Care.UNKNOWN, "node_count", needed=False),
    "StartTime": _TIME._replace(value="submit_time", needed=True),
    "EndTime": _TIME._replace(care=Care.REFUSE, value="end_time", needed=True),
    "InfrastructureDescription": _text(DESCRIPTION),
    "InfrastructureType": _text(INFRASTRUCTURE),
    "MemoryReal": _number(INT4, Care.LARGEST, "memory_kib", needed=False),
    "MemoryVirtual": _number(INT4, Care.LARGEST, "virtual_memory_kib", needed=False),
    "ServiceLevelType": _text(50),
    "ServiceLevel": _DECIMAL,
    "UpdateTime": _IGNORED,
}
"""An individual job message of any version except v0.4, and a CAR, whose elements go to the same columns."""

JOB_04 = {**JOB, "ServiceLevel": _DICTIONARY}

_MONTH = {
    "Site": _text(LONG, needed=True),
    "Month": _number(math.inf, Care.REFUSE, "month", least=-math.inf),
    "Year": _number(math.inf, Care.REFUSE, "year", least=-math.inf),
    "GlobalUserName": _text(LONG, Care.CUT, "user_dn"),
    "VO": _text(LONG, Care.CUT, "vo"),
    "VOGroup": _text(LONG, Care.CUT, "fqan"),
    "VORole": _text(LONG),
    "SubmitHost": _text(LONG, Care.CUT, "endpoint_url"),
    "InfrastructureDescription": _text(DESCRIPTION),
    # Not NULL and without default in the database; jobs have no sign here, sums have one.
    "NodeCount": _number(INT4, Care.UNKNOWN, "node_count", least=-INT4),
    "Processors": _number(INT4, Care.UNKNOWN, "core_count", least=-INT4),
    "EarliestEndTime": _TIME._replace(value="earliest_end_time"),
    "LatestEndTime": _TIME._replace(value="latest_end_time"),
    "WallDuration": _number(INT8, Care.REFUSE, "wall_s"),
    "CpuDuration": _number(INT8, Care.REFUSE, "cpu_s"),
    "NumberOfJobs": _number(INT4, Care.REFUSE, "jobs"),
    "UpdateTime": _IGNORED,
}
SUMMARY = {
    **_MONTH,
    "InfrastructureType": _text(INFRASTRUCTURE),
    "ServiceLevelType": _text(50),
    "ServiceLevel": _DECIMAL._replace(needed=True),
}
SUMMARY_04 = {**SUMMARY, "ServiceLevel": _DICTIONARY._replace(needed=True)}
NORMALISED = {
    **_MONTH,
    "Infrastructure": _text(INFRASTRUCTURE),
    "ServiceLevelType": _text(50),
    "NormalisedWallDuration": _number(INT8, Care.OURS, ""),
    "NormalisedCpuDuration": _number(INT8, Care.OURS, ""),
}
_NORMALISED_DICTIONARY = Rule(Form.BENCHMARK, INT8, needed=True)
NORMALISED_04 = {
    **NORMALISED,
    "NormalisedWallDuration": _NORMALISED_DICTIONARY,
    "NormalisedCpuDuration": _NORMALISED_DICTIONARY,
}

SYNC = {
    "Site": _text(LONG, needed=True),
    "SubmitHost": _text(LONG),
    # Neither the count nor the month of a sync record is checked.
    "NumberOfJobs": _number(INT8, Care.OURS, "", least=-INT8),
    "Month": _number(INT4, Care.OURS, "", least=-INT4),
    "Year": _number(INT4, Care.OURS, "", least=-INT4),
}


def derived(fqan: str) -> tuple[str, str | None, str | None]:
    """
    Return VO, group and role that the server derives from the first of some FQANs; a text without a leading slash is a
    VO.
    """
    first = fqan.partition(";")[0]
    if not first.startswith("/"):
        return first, None, None
    parts = first.strip("/").split("/")
    group = "/".join(part for part in parts if not part.startswith(("Role=", "Capability=")))
    return parts[0], f"/{group}", next((part for part in parts if part.startswith("Role=")), None)


def rounded(amount: int, unit: int) -> int:
    """Return a quotient rounded to the nearest number, halves up, as in MySQL; exact for any size."""
    return (2 * amount + unit) // (2 * unit)


# APEL's individual job messages, v0.3 and v0.4 (benchmark dictionary), and the site's choices for APEL. The dialect
# ``server`` writes what APEL's loader accepts today. ``seed`` follows the format's document exactly, which the loader
# refuses (``Infrastructure`` in a job record), so it is for files only.


JOB_HEADERS = {version: f"APEL-individual-job-message: {version}\n" for version in ("v0.3", "v0.4")}


class APELOptions(NamedTuple):
    """The site's choices for its messages, the same in every format, so that all of them use the same names."""

    site: str
    """The name of the site in GOCDB."""
    lrms_host: str | None = None
    """SubmitHost and MachineName, and in XML recordId, of jobs without an endpoint."""
    localid_prefix: str = ""
    """Put before each batch system's job id: it distinguishes the CEs of a site whose ids could be the same."""
    bare_ids: BareIDs = ()
    """The other schedds, clusters and cells of this database put their names before it, too."""
    vomsless_vo: VOs = VOs()
    vo_groups: tuple[str, ...] = ()
    """The first is the group of jobs without VOMS attributes."""
    start_time_source: str = "submit"
    default_benchmark: Benchmark = FALLBACK
    """The benchmark for jobs that have none."""
    local_group_prefix: str = ""
    """Put before the VO of local jobs, for portals that cannot distinguish them from grid jobs otherwise."""
    dialect: str = "server"
    """``server`` or ``seed``; only for texts."""
    local_jobs: tuple[LocalJobs, ...] = ()
    """The description of jobs that came without ARC; default: ``own``."""


class JobKey(NamedTuple):
    """The key of APEL's JobRecords, as MySQL compares it."""

    site: str
    local_job_id: str
    end_time: int


class Membership(NamedTuple):
    """A user's VO with its parts at APEL; None is unknown."""

    fqan: str | None
    """None also if the server would derive another VO, group or role from it."""
    vo: str | None
    group: str | None
    role: str | None


_WRITTEN = attrgetter(
    "submit_time", "end_time", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s",
    "cpu_kernel_s",
)  # fmt: skip


def written(aar: AAR, shared: Sequence[Any], local_id: str) -> str:
    """Return one job record, with its end, from its parts by `JOB_PARTS`; the job must have been accepted."""
    submitted, ended, nodes, cores, memory_kib, virtual_kib, wall_s, user_s, kernel_s = _WRITTEN(aar)
    (_, _, source, (hosts, infrastructure, level)), (_, user), _ = shared
    started = submitted if source == "submit" else start_time(aar, "lrms")
    real = f"MemoryReal: {memory_kib}\n" if memory_kib else ""
    virtual = f"MemoryVirtual: {virtual_kib}\n" if virtual_kib else ""
    return (
        f"{hosts}LocalJobId: {local_id}\n{user}"
        f"WallDuration: {wall_s}\nCpuDuration: {user_s + kernel_s}\nProcessors: {cores}\nNodeCount: {nodes}\n"
        f"StartTime: {started}\nEndTime: {ended}\n{infrastructure}"
        f"{real}{virtual}{level}{END}"
    )


class Part(NamedTuple):
    """A part of a record."""

    names: tuple[str | None, ...]
    """The names in it by which APEL groups jobs."""
    lines: str


class Where(NamedTuple):
    """The place where a job was sent, and the benchmark of a core of the node."""

    names: tuple[str, str, str]
    """Site, submit host and infrastructure: APEL groups jobs by them."""
    level_names: tuple[str, str]
    """Type and value of the benchmark: APEL groups jobs by them."""
    start_time_source: str
    texts: tuple[str, ...]
    """The parts of its record, in the order of the format."""


def where(aar: AAR, options: APELOptions, version: str) -> Where:
    """
    Return the parts of a record about the place where the job was sent, and the benchmark of a core of the node.

    In the dialect ``seed`` Infrastructure and SubmitHostType mark local jobs.
    """
    names = site, host, kind = (*place(aar.endpoint_url, options), infrastructure(aar.endpoint_url))
    worth = benchmark_of(aar.benchmark, options.default_benchmark)
    said = local_job_values(aar, options.local_jobs, options.start_time_source)
    if options.dialect == "seed":
        hosts = [
            ("Site", site or None),
            ("Infrastructure", kind),
            ("SubmitHostType", "CE-ID" if aar.endpoint_url else "LRMS"),
            ("SubmitHost", host or None),
        ]
        described: list[tuple[str, object]] = []
    else:
        hosts = [
            ("Site", site or None),
            ("SubmitHost", host or None),
            ("MachineName", field(machine_host(aar.endpoint_url, options.lrms_host), LONG)),
            ("Queue", field(aar.queue, QUEUE)),
        ]
        words = said.infrastructure or (f"ARC-{aar.lrms.upper()}" if aar.lrms else "ARC")
        described = [("InfrastructureDescription", field(words, DESCRIPTION)), ("InfrastructureType", kind)]
    level = service_level(worth.type, worth.value, is_dictionary=version == "v0.4" and options.dialect != "seed")
    return Where(
        names, (worth.type, worth.value), said.start_time_source, (lines(hosts), lines(described), lines(level))
    )


def user_part(aar: AAR, options: APELOptions) -> Part:
    """Return the part of a record about the user; in the dialect ``seed`` the FQAN is the only field."""
    member = member_of(aar, options)
    names = user_names(aar, member)
    if options.dialect == "seed":
        parsed = parsed_fqan(aar.fqans[0]) if aar.fqans else None
        # For a local job no FQAN, which would hide the site's prefix, since there is no field for a VO.
        hides_prefix = options.local_group_prefix and not aar.endpoint_url
        member = Membership(None if parsed is None or hides_prefix else _whole_fqan(parsed), None, None, None)
    found = lines(
        [
            ("LocalUserId", field((aar.local_user or "").partition(":")[0], LONG)),
            ("GlobalUserName", names[0]),
            ("FQAN", member.fqan),
            # With an FQAN the server derives these three from it and ignores ours.
            ("VO", member.vo if member.fqan is None else None),
            ("VOGroup", member.group if member.fqan is None else None),
            ("VORole", member.role if member.fqan is None else None),
        ]
    )
    return Part(names, found)


def user_names(aar: AAR, member: Membership) -> tuple[str | None, str | None, str | None, str | None]:
    """User, VO, group and role, by which APEL groups jobs."""
    return field(aar.user_dn, LONG), member.vo, member.group, member.role


def not_sent(_aar: AAR, _options: APELOptions) -> str:
    """Check values that are not sent."""
    return ""


_OF_WHERE = ("endpoint_url", "endpoint_type", "queue", "lrms", "status", "benchmark", "wn_instance")
JOB_PARTS: dict[str, dict[Callable[[AAR, APELOptions], Any], tuple[str, ...]]] = {
    version: {
        # The kind of node is not sent, but judged.
        partial(where, version=version): _OF_WHERE,
        user_part: ("local_user", "user_dn", "vo", "fqans", "auth_groups", "project", "endpoint_url"),
        not_sent: ("node_names",),
    }
    for version in JOB_HEADERS
}
"""By version: the parts of a record that many jobs share, and the values that each is made from or judged by."""


def zero_record(names: Names, local_id: str, end_time: int, version: str, dialect: str) -> str:
    """
    Return a record without usage under the names that were sent for a key: it cancels the usage under that key.

    APEL has no message to delete a record. Names that no sum has are left out.
    """
    site, host, kind, user, vo, group, role, level_type, level, nodes, cores = names
    is_seed = dialect == "seed"
    return record_text(
        [
            ("Site", site),
            ("Infrastructure", kind if is_seed else None),
            ("SubmitHost", host or None),
            ("LocalJobId", local_id),
            ("GlobalUserName", user),
            ("FQAN", f"{group}/{role}" if is_seed and group and role else None),
            ("VO", None if is_seed else vo),
            ("VOGroup", None if is_seed else group),
            ("VORole", None if is_seed else role),
            ("WallDuration", 0),
            ("CpuDuration", 0),
            ("Processors", cores),
            ("NodeCount", nodes),
            ("StartTime", end_time),
            ("EndTime", end_time),
            ("InfrastructureType", None if is_seed else kind),
            *service_level(str(level_type), str(level), is_dictionary=version == "v0.4" and not is_seed),
        ]
    )


def service_level(kind: str | None, value: str | None, *, is_dictionary: bool) -> list[tuple[str, object]]:
    """Return a benchmark: since v0.4 a dictionary."""
    if is_dictionary:
        return [("ServiceLevel", f"{{{kind}: {value}}}")]
    return [("ServiceLevelType", kind), ("ServiceLevel", value)]


def apel_local_job_id(aar: AAR, options: APELOptions) -> str:
    """
    Return the LocalJobId, identical in every format for APEL: with site and end, it is APEL's key of a job.

    It is the batch system's id, after the site's prefix and the place's name, or the JobID if there is none. The JobID
    also replaces ids that mean "nothing" there, or are longer than the column: if they were cut, two jobs could become
    one.
    """
    own, prefix = aar.local_job_id, options.localid_prefix
    if options.bare_ids:
        prefix += name_before(aar.job_id, aar.end_time, options.bare_ids)
    if own and not prefix and own.isdecimal() and own.isascii() and len(own) <= LONG:
        # Most batch systems count their jobs, and this is called more than once for each job.
        return own
    if has_value(own):
        local = ascii_text(f"{prefix}{own}").strip()
        if len(local) <= LONG and has_value(local):
            return local
    return field(aar.job_id, LONG) or ""


def job_key(aar: AAR, options: APELOptions) -> JobKey:
    """Return APEL's key of a job: a second record with this key overwrites the first, another key adds a job."""
    local_job_id = apel_local_job_id(aar, options)
    return JobKey(folded(field(options.site, LONG)) or "", folded(local_job_id) or "", aar.end_time)


def benchmark_of(text: str | None, default: Benchmark) -> Benchmark:
    """Return the benchmark of a job or cell; raises InputError for one that APEL does not know."""
    benchmark = parsed_benchmark(text)
    if benchmark is not None:
        return benchmark
    if text:
        raise InputError(f"benchmark {text!r} cannot be published to APEL")
    return default


def infrastructure(endpoint_url: str | None) -> str:
    """Return the infrastructure. Jobs without a grid endpoint are local: APEL separates the two in its summaries."""
    return "grid" if endpoint_url else "local"


def submit_host(endpoint_url: str | None, options: APELOptions) -> str | None:
    """
    Return the CE's id, or the batch system's host for local jobs: the same in records, summaries and sync.

    An id that means nothing to APEL counts as missing: a count without a host would spoil its whole message.
    """
    return field(endpoint_url, LONG) or field(options.lrms_host, LONG)


@lru_cache(maxsize=4096)
def place(endpoint_url: str | None, options: APELOptions) -> tuple[str, str]:
    """Return where APEL counts a job: site and SubmitHost as they are sent; ``''`` for a missing one."""
    return field(options.site, LONG) or "", submit_host(endpoint_url, options) or ""


def member_of(aar: AAR, options: APELOptions) -> Membership:
    """The `membership` of a job's user."""
    return membership(aar.vo, aar.fqans[0] if aar.fqans else None, aar.auth_groups, aar.endpoint_url, options)


@lru_cache(maxsize=4096)
def membership(
    vo: str | None, fqan: str | None, auth_groups: tuple[str, ...], endpoint_url: str | None, options: APELOptions
) -> Membership:
    """
    Return VO, group and role of a user, the same in job records, CAR and summaries; from the main FQAN if there is one.

    Without a role it is ``Role=NULL``, as jura-ng's summaries had it and ours have: those months keep their keys.
    Without an FQAN the group is the site's ``vo_group``, else the VO itself.
    """
    parsed = parsed_fqan(fqan) if fqan else None
    name = vo_name(vo, fqan, auth_groups, options.vomsless_vo)
    if not name:
        return Membership(None, None, None, None)
    prefix = "" if endpoint_url else options.local_group_prefix
    if parsed is None:
        group = options.vo_groups[0] if options.vo_groups else f"/{name}"
        return Membership(None, field(prefix + name, LONG), field(group, LONG), "Role=NULL")
    role = field(f"Role={parsed.role or 'NULL'}", LONG)
    member = Membership(_whole_fqan(parsed), field(prefix + name, LONG), field(parsed.group, LONG), role)
    return member if member.fqan and derived(member.fqan) == member[1:] else member._replace(fqan=None)


def _whole_fqan(parsed: FQAN) -> str | None:
    """The FQAN, always with a role; None if it is too long and would lose the role at the server."""
    value = ascii_text(str(parsed._replace(role=parsed.role or "NULL"))).strip()
    return value if len(value) <= LONG else None
