"""
APEL's individual job messages, v0.3 and v0.4 (benchmark dictionary), and what a site may choose about APEL.

The dialect ``server`` writes what APEL's loader takes today; ``seed`` writes the format's document to the letter,
which the loader refuses (``Infrastructure`` in a job record), so it is for files only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from arcacct.benchmark import FALLBACK, Benchmark, parsed_benchmark
from arcacct.config.values import LocalJobs
from arcacct.errors import InputError
from arcacct.records.batch_jobs import BareIDs, name_before
from arcacct.records.model import AAR, FQAN, VOs, has_value, machine_host, parsed_fqan, start_time, vo_name
from arcacct.targets.apel.rules import DESCRIPTION, LONG, QUEUE, derived
from arcacct.targets.apel.text import END, field, folded, lines
from arcacct.targets.ascii import ascii_text
from arcacct.targets.local_jobs import local_job_values
from arcacct.targets.parts import values

JOB_HEADERS = {version: f"APEL-individual-job-message: {version}\n" for version in ("v0.3", "v0.4")}


class APELOptions(NamedTuple):
    """What a site may choose about its messages, in every format: so all of them name things alike."""

    site: str
    """The name of the site in GOCDB."""
    lrms_host: str | None = None
    """SubmitHost and MachineName, and in XML recordId, of jobs without an endpoint."""
    localid_prefix: str = ""
    """Put before each batch system's job id: it tells the CEs of a site apart whose ids could be the same."""
    bare_ids: BareIDs = ()
    """The other schedds, clusters and cells of this database put their names before it, too."""
    vomsless_vo: VOs = VOs()
    vo_groups: tuple[str, ...] = ()
    """The first is the group of jobs without VOMS attributes."""
    start_time_source: str = "submit"
    default_benchmark: Benchmark = FALLBACK
    """For jobs that have none."""
    local_group_prefix: str = ""
    """Put before the VO of local jobs, for portals that cannot tell them from grid jobs otherwise."""
    dialect: str = "server"
    """``server`` or ``seed``; of texts alone."""
    arc_version: str | None = None
    """In XML alone."""
    local_jobs: tuple[LocalJobs, ...] = ()
    """What is said of jobs that came without ARC; none: ``own``."""


class JobKey(NamedTuple):
    """What APEL's JobRecords replaces by, as MySQL compares it."""

    site: str
    local_job_id: str
    end_time: int


class Membership(NamedTuple):
    """A user's VO as APEL splits it; None is unknown."""

    fqan: str | None
    """None also where the server would make another VO, group or role of it than these."""
    vo: str | None
    group: str | None
    role: str | None


def individual_job(aar: AAR, options: APELOptions, version: str = "v0.3") -> str:
    """One job record, its end included; the record must have passed `acceptance`."""
    shared = [make(aar, options) for make in JOB_PARTS[version]]
    return written(aar, shared, apel_local_job_id(aar, options))


_WRITTEN = values(
    "submit_time", "end_time", "node_count", "core_count", "memory_kib", "virtual_memory_kib", "wall_s", "cpu_user_s",
    "cpu_kernel_s",
)  # fmt: skip


def written(aar: AAR, shared: Sequence[Any], local_id: str) -> str:
    """A record, of its parts as `JOB_PARTS` makes them and what is the job's own."""
    submitted, ended, nodes, cores, memory_kib, virtual_kib, wall_s, user_s, kernel_s = _WRITTEN(aar)
    (_, hosts, infrastructure, source), user, level, _ = shared
    started = submitted if source == "submit" else start_time(aar, "lrms")
    real = f"MemoryReal: {memory_kib}\n" if memory_kib else ""
    virtual = f"MemoryVirtual: {virtual_kib}\n" if virtual_kib else ""
    return (
        f"{hosts}LocalJobId: {local_id}\n{user}"
        f"WallDuration: {wall_s}\nCpuDuration: {user_s + kernel_s}\nProcessors: {cores}\nNodeCount: {nodes}\n"
        f"StartTime: {started}\nEndTime: {ended}\n{infrastructure}"
        f"{real}{virtual}{level}{END}"
    )


class Where(NamedTuple):
    """Where a job was sent."""

    place: tuple[str, str]
    """Where APEL counts it."""
    hosts: str
    infrastructure: str
    """Two parts of its record."""
    start_time_source: str


def where(aar: AAR, options: APELOptions) -> Where:
    """
    The parts of a record that tell where the job was sent.

    In the dialect ``seed`` local jobs are told by Infrastructure and SubmitHostType.
    """
    site, submitted_to = field(options.site, LONG), submit_host(aar.endpoint_url, options)
    kind = infrastructure(aar.endpoint_url)
    said = local_job_values(aar, options.local_jobs, options.start_time_source)
    if options.dialect == "seed":
        host_type = "CE-ID" if aar.endpoint_url else "LRMS"
        found = ("Site", site), ("Infrastructure", kind), ("SubmitHostType", host_type), ("SubmitHost", submitted_to)
        return Where(place(aar.endpoint_url, options), lines(found), "", said.start_time_source)
    machine = field(machine_host(aar.endpoint_url, options.lrms_host), LONG)
    description = field(said.infrastructure or (f"ARC-{aar.lrms.upper()}" if aar.lrms else "ARC"), DESCRIPTION)
    queue = field(aar.queue, QUEUE)
    return Where(
        place(aar.endpoint_url, options),
        lines([("Site", site), ("SubmitHost", submitted_to), ("MachineName", machine), ("Queue", queue)]),
        lines([("InfrastructureDescription", description), ("InfrastructureType", kind)]),
        said.start_time_source,
    )


def user_lines(aar: AAR, options: APELOptions) -> str:
    """The part of a record that tells whose the job was; in the dialect ``seed`` there are no fields but the FQAN."""
    member = member_of(aar, options)
    if options.dialect == "seed":
        parsed = parsed_fqan(aar.fqans[0]) if aar.fqans else None
        # Of a local job no FQAN that would hide the site's prefix, since there is no field for a VO.
        hides_prefix = options.local_group_prefix and not aar.endpoint_url
        member = Membership(None if parsed is None or hides_prefix else _whole_fqan(parsed), None, None, None)
    return lines(
        [
            ("LocalUserId", field((aar.local_user or "").partition(":")[0], LONG)),
            ("GlobalUserName", field(aar.user_dn, LONG)),
            ("FQAN", member.fqan),
            # With an FQAN the server derives these three from it and ignores ours.
            ("VO", member.vo if member.fqan is None else None),
            ("VOGroup", member.group if member.fqan is None else None),
            ("VORole", member.role if member.fqan is None else None),
        ]
    )


def level_lines(aar: AAR, options: APELOptions, version: str) -> str:
    """The part of a record that tells what a core of the node was worth."""
    worth = benchmark_of(aar.benchmark, options.default_benchmark)
    return lines(service_level(worth.type, worth.value, "v0.3" if options.dialect == "seed" else version))


def not_sent(_aar: AAR, _options: APELOptions) -> str:
    """What is judged and not sent."""
    return ""


JOB_PARTS: dict[str, dict[Callable[[AAR, APELOptions], Any], tuple[str, ...]]] = {
    version: {
        where: ("endpoint_url", "endpoint_type", "queue", "lrms", "status"),
        user_lines: ("local_user", "user_dn", "vo", "fqans", "auth_groups", "project", "endpoint_url"),
        partial(level_lines, version=version): ("benchmark", "wn_instance"),
        not_sent: ("node_names",),
    }
    for version in JOB_HEADERS
}
"""By version: the parts of a record that come back with many jobs, and the values that each is made of or judged by."""


def service_level(kind: str | None, value: str | None, version: str) -> list[tuple[str, object]]:
    """A benchmark: since v0.4 a dictionary."""
    if version == "v0.4":
        return [("ServiceLevel", f"{{{kind}: {value}}}")]
    return [("ServiceLevelType", kind), ("ServiceLevel", value)]


def apel_local_job_id(aar: AAR, options: APELOptions) -> str:
    """
    LocalJobId in the same letters in every format for APEL: beside site and end what it knows a job by.

    The batch system's id, after the site's prefix and the place's name, or the JobID where there is none. The JobID
    also replaces ids that mean "nothing" there, or are longer than the column: cut, two jobs could become one.
    """
    own, prefix = aar.local_job_id, _before_id(aar, options)
    if own and not prefix and own.isdecimal() and own.isascii() and len(own) <= LONG:
        # Most batch systems count their jobs, and this is asked of each job more than once.
        return own
    if has_value(aar.local_job_id):
        local = ascii_text(f"{prefix}{aar.local_job_id}").strip()
        if len(local) <= LONG and has_value(local):
            return local
    return field(aar.job_id, LONG) or ""


def _before_id(aar: AAR, options: APELOptions) -> str:
    return options.localid_prefix + name_before(aar.job_id, aar.end_time, options.bare_ids)


def job_key(aar: AAR, options: APELOptions) -> JobKey:
    """What APEL replaces by: a second record with this key overwrites the first, another key adds a job."""
    local_job_id = apel_local_job_id(aar, options)
    return JobKey(folded(field(options.site, LONG)) or "", folded(local_job_id) or "", aar.end_time)


def zeroed_job(aar: AAR, key: JobKey, options: APELOptions) -> AAR:
    """
    The job as it must be sent to take an earlier key's usage back: APEL has no message to delete a record.

    `aar` is the job as it is known now; `key` what was sent for it before (another end, another id or prefix).
    """
    before = folded(ascii_text(_before_id(aar._replace(end_time=key.end_time), options))) or ""
    zeros = aar._replace(
        local_job_id=key.local_job_id.removeprefix(before),
        end_time=key.end_time,
        submit_time=min(aar.submit_time, key.end_time),
        lrms_start_time=None,
        wall_s=0,
        cpu_user_s=0,
        cpu_kernel_s=0,
        memory_kib=0,
        virtual_memory_kib=0,
    )
    if folded(apel_local_job_id(zeros, options)) == key.local_job_id:
        return zeros
    # It was named by its JobID, or has another prefix: APEL reads it from where none is put before it.
    return zeros._replace(job_id=key.local_job_id, local_job_id=None)


def benchmark_of(text: str | None, default: Benchmark) -> Benchmark:
    """The benchmark of a job or cell; raises InputError for one that APEL does not know."""
    benchmark = parsed_benchmark(text)
    if benchmark is not None:
        return benchmark
    if text:
        raise InputError(f"benchmark {text!r} cannot be published to APEL")
    return default


def infrastructure(endpoint_url: str | None) -> str:
    """Jobs without a grid endpoint are local: APEL keeps the two apart in its summaries."""
    return "grid" if endpoint_url else "local"


def submit_host(endpoint_url: str | None, options: APELOptions) -> str | None:
    """
    The CE's id, or the batch system's host for local jobs: the same in records, summaries and sync.

    An id that means nothing to APEL is none: a count of jobs of nowhere would spoil its whole message.
    """
    return field(endpoint_url, LONG) or field(options.lrms_host, LONG)


@lru_cache(maxsize=4096)
def place(endpoint_url: str | None, options: APELOptions) -> tuple[str, str]:
    """Where APEL counts a job: site and SubmitHost as they are sent; ``''`` for what is not."""
    return field(options.site, LONG) or "", submit_host(endpoint_url, options) or ""


def member_of(aar: AAR, options: APELOptions) -> Membership:
    """The `membership` of a job's user."""
    return membership(aar.vo, aar.fqans[0] if aar.fqans else None, aar.auth_groups, aar.endpoint_url, options)


@lru_cache(maxsize=4096)
def membership(
    vo: str | None, fqan: str | None, auth_groups: tuple[str, ...], endpoint_url: str | None, options: APELOptions
) -> Membership:
    """
    VO, group and role of a user, the same in job records, CAR and summaries; from the main FQAN where there is one.

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
    """The FQAN, with a role in any case; None if it would have to be cut and lose the role at the server."""
    value = ascii_text(str(parsed._replace(role=parsed.role or "NULL"))).strip()
    return value if len(value) <= LONG else None
