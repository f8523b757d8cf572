"""
APEL's individual job messages, v0.3 and v0.4 (benchmark dictionary), and what a site may choose about APEL.

The dialect ``server`` writes what APEL's loader takes today; ``seed`` writes the format's document to the letter,
which the loader refuses (``Infrastructure`` in a job record), so it is for files only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from arcacct.benchmark import FALLBACK, Benchmark, parsed_benchmark
from arcacct.errors import InputError
from arcacct.jobs.aar import AAR
from arcacct.jobs.fqan import FQAN, VOs, parsed_fqan
from arcacct.jobs.identity import has_value, machine_host, start_time, vo_name
from arcacct.targets.apel.rules import DESCRIPTION, LONG, QUEUE, derived
from arcacct.targets.apel.text import field, folded, record_text
from arcacct.targets.ascii import ascii_text

JOB_HEADERS = {version: f"APEL-individual-job-message: {version}\n" for version in ("v0.3", "v0.4")}


class APELOptions(NamedTuple):
    """What a site may choose about its messages, in every format: so all of them name things alike."""

    site: str
    """The name of the site in GOCDB."""
    lrms_host: str | None = None
    """SubmitHost and MachineName, and in XML recordId, of jobs without an endpoint."""
    localid_prefix: str = ""
    """Put before each batch system's job id: it tells the CEs of a site apart whose ids could be the same."""
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
    benchmark = benchmark_of(aar.benchmark, options.default_benchmark)
    if options.dialect == "seed":
        return _seed_job(aar, benchmark, options)
    member = member_of(aar, options)
    return record_text(
        [
            ("Site", field(options.site, LONG)),
            ("SubmitHost", submit_host(aar.endpoint_url, options)),
            ("MachineName", field(machine_host(aar.endpoint_url, options.lrms_host), LONG)),
            ("Queue", field(aar.queue, QUEUE)),
            *_user(aar, member, options),
            *_usage(aar, options),
            ("InfrastructureDescription", field(f"ARC-{aar.lrms.upper()}" if aar.lrms else "ARC", DESCRIPTION)),
            ("InfrastructureType", infrastructure(aar.endpoint_url)),
            *_memory(aar),
            *service_level(benchmark.type, benchmark.value, version),
        ]
    )


def _seed_job(aar: AAR, benchmark: Benchmark, options: APELOptions) -> str:
    """The fields of the format's document and no others; local jobs are told by Infrastructure and SubmitHostType."""
    parsed = parsed_fqan(aar.fqans[0]) if aar.fqans else None
    # Of a local job no FQAN that would hide the site's prefix, since there is no field for a VO.
    hides_prefix = options.local_group_prefix and not aar.endpoint_url
    fqan_only = Membership(None if parsed is None or hides_prefix else _whole_fqan(parsed), None, None, None)
    return record_text(
        [
            ("Site", field(options.site, LONG)),
            ("Infrastructure", infrastructure(aar.endpoint_url)),
            ("SubmitHostType", "CE-ID" if aar.endpoint_url else "LRMS"),
            ("SubmitHost", submit_host(aar.endpoint_url, options)),
            *_user(aar, fqan_only, options),
            *_usage(aar, options),
            *_memory(aar),
            *service_level(benchmark.type, benchmark.value, "v0.3"),
        ]
    )


def _user(aar: AAR, member: Membership, options: APELOptions) -> list[tuple[str, object]]:
    return [
        ("LocalJobId", apel_local_job_id(aar, options.localid_prefix)),
        ("LocalUserId", field((aar.local_user or "").partition(":")[0], LONG)),
        ("GlobalUserName", field(aar.user_dn, LONG)),
        ("FQAN", member.fqan),
        # With an FQAN the server derives these three from it and ignores ours.
        ("VO", member.vo if member.fqan is None else None),
        ("VOGroup", member.group if member.fqan is None else None),
        ("VORole", member.role if member.fqan is None else None),
    ]


def _usage(aar: AAR, options: APELOptions) -> list[tuple[str, object]]:
    return [
        ("WallDuration", aar.wall_s),
        ("CpuDuration", aar.cpu_s),
        ("Processors", aar.core_count),
        ("NodeCount", aar.node_count),
        ("StartTime", start_time(aar, options.start_time_source)),
        ("EndTime", aar.end_time),
    ]


def _memory(aar: AAR) -> list[tuple[str, object]]:
    return [("MemoryReal", aar.memory_kib or None), ("MemoryVirtual", aar.virtual_memory_kib or None)]


def service_level(kind: str | None, value: str | None, version: str) -> list[tuple[str, object]]:
    """A benchmark: since v0.4 a dictionary."""
    if version == "v0.4":
        return [("ServiceLevel", f"{{{kind}: {value}}}")]
    return [("ServiceLevelType", kind), ("ServiceLevel", value)]


def apel_local_job_id(aar: AAR, prefix: str) -> str:
    """
    LocalJobId in the same letters in every format for APEL: beside site and end what it knows a job by.

    The batch system's id, after the site's prefix, or the JobID where there is none. The JobID also replaces ids that
    mean "nothing" there, or are longer than the column: cut, two jobs could become one.
    """
    own = aar.local_job_id
    if own and not prefix and own.isdecimal() and own.isascii() and len(own) <= LONG:
        # Most batch systems count their jobs, and this is asked of each job more than once.
        return own
    if has_value(aar.local_job_id):
        local = ascii_text(f"{prefix}{aar.local_job_id}").strip()
        if len(local) <= LONG and has_value(local):
            return local
    return field(aar.job_id, LONG) or ""


def job_key(aar: AAR, site: str, localid_prefix: str) -> JobKey:
    """What APEL replaces by: a second record with this key overwrites the first, another key adds a job."""
    local_job_id = apel_local_job_id(aar, localid_prefix)
    return JobKey(folded(field(site, LONG)) or "", folded(local_job_id) or "", aar.end_time)


def neutral_job(aar: AAR, key: JobKey, localid_prefix: str) -> AAR:
    """
    The job as it must be sent to take an earlier key's usage back: APEL has no message to delete a record.

    `aar` is the job as it is known now; `key` what was sent for it before (another end, another id or prefix).
    """
    prefix = folded(ascii_text(localid_prefix)) or ""
    zeros = aar._replace(
        local_job_id=key.local_job_id.removeprefix(prefix),
        end_time=key.end_time,
        submit_time=min(aar.submit_time, key.end_time),
        lrms_start_time=None,
        wall_s=0,
        cpu_user_s=0,
        cpu_kernel_s=0,
        memory_kib=0,
        virtual_memory_kib=0,
    )
    if folded(apel_local_job_id(zeros, localid_prefix)) == key.local_job_id:
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
