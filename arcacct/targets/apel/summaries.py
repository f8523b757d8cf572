"""APEL's summaries and sync messages, from monthly usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from arcacct.benchmark import TYPES, Benchmark
from arcacct.records.model import UsageCell
from arcacct.targets.apel import messages
from arcacct.targets.apel.messages import LONG, APELOptions, benchmark_of, field, folded, rounded, submit_host
from arcacct.times import HOUR_S

SUMMARY_HEADERS = {
    "summaries": "APEL-summary-job-message: v0.2\n",
    "summaries-v03": "APEL-summary-job-message: v0.3\n",
    "summaries-v04": "APEL-summary-job-message: v0.4\n",
    "normalised-v04": "APEL-normalised-summary-message: v0.4\n",
}
"""By kind; summaries-v03 and normalised-v04 carry normalised durations."""

SYNC_HEADER = "APEL-sync-message: v0.1\n"

_NORMALISED = ("summaries-v03", "normalised-v04")
_MILLION = 10**6


class SummaryKey(NamedTuple):
    """
    The key of APEL's summary tables. Equal keys overwrite each other, for any kind of message.

    A plain tuple of texts, numbers and None: ``SummaryKey(*json.loads(json.dumps(key)))`` is the key again.
    """

    table: str
    """``Summaries`` or ``NormalisedSummaries``."""
    site: str | None
    year: int
    month: int
    user: str | None
    vo: str | None
    group: str | None
    role: str | None
    submit_host: str | None
    infrastructure: str | None
    benchmark_type: str | None
    """None in v0.3, which carries no type."""
    benchmark_value: str | None
    """None in NormalisedSummaries."""
    node_count: int
    processors: int


class Summary(NamedTuple):
    """One summary record: a key, its spelling, and the sums."""

    key: SummaryKey
    spelling: SummaryKey
    """The key in the letters that are sent."""
    jobs: int
    wall_s: int
    cpu_s: int
    normalised_wall: int
    """Seconds times benchmark, in millionths: rounded once, after summing."""
    normalised_cpu: int
    earliest_end_time: int | None
    latest_end_time: int | None


class SyncKey(NamedTuple):
    """The key of APEL's SyncRecords."""

    site: str | None
    submit_host: str | None
    year: int
    month: int


class Sync(NamedTuple):
    """The number of jobs of a site with one SubmitHost in a month."""

    key: SyncKey
    spelling: SyncKey
    jobs: int


def summaries(cells: Iterable[UsageCell], options: APELOptions, kind: str = "summaries") -> list[Summary]:
    """
    One summary for each key of the receiver, in the order of the keys; cells must have passed `acceptance`.

    It does not depend on the order of the cells: if one key has several spellings, the alphabetically first is sent.
    """
    groups: dict[SummaryKey, list[tuple[Benchmark, UsageCell]]] = {}
    spellings: dict[SummaryKey, SummaryKey] = {}
    for cell in cells:
        benchmark = benchmark_of(cell.benchmark, options.default_benchmark)
        spelt = spelling(cell, options, kind)
        key = folded_key(spelt)
        spellings[key] = min(spellings[key], spelt, key=_order) if key in spellings else spelt
        groups.setdefault(key, []).append((benchmark, cell))
    return [summed(key, spellings[key], groups[key]) for key in sorted(groups, key=_order)]


def spelling(cell: UsageCell, options: APELOptions, kind: str = "summaries") -> SummaryKey:
    """The names of a cell as they are sent; it must have passed `acceptance`."""
    benchmark = benchmark_of(cell.benchmark, options.default_benchmark)
    member = messages.membership(cell.vo, cell.fqan, cell.auth_groups, cell.endpoint_url, options)
    normalised = kind in _NORMALISED
    return SummaryKey(
        table="NormalisedSummaries" if normalised else "Summaries",
        site=field(options.site, LONG),
        year=cell.year,
        month=cell.month,
        user=field(cell.user_dn, LONG),
        vo=member.vo,
        group=member.group,
        role=member.role,
        submit_host=submit_host(cell.endpoint_url, options),
        infrastructure=messages.infrastructure(cell.endpoint_url),
        benchmark_type=None if kind == "summaries-v03" else benchmark.type,
        benchmark_value=None if normalised else benchmark.value,
        node_count=cell.node_count,
        processors=cell.core_count,
    )


_folded = lru_cache(maxsize=16384)(folded)


def folded_key(spelling: SummaryKey) -> SummaryKey:
    """The key as MySQL compares it."""
    table, *values = spelling
    return SummaryKey._make([table, *[_folded(value) if type(value) is str else value for value in values]])


class JuraCell(NamedTuple):
    """The jobs of a month with the same values of all that either version groups by; texts as A-REX wrote them."""

    user_dn: str
    vo: str
    """Empty for a user without VO."""
    interface: str
    endpoint_url: str
    node_count: int
    core_count: int
    fqan: str
    """The main FQAN; empty when there is none."""
    benchmark: str
    """``TYPE:VALUE``; empty when there is none."""
    jobs: int
    """Rows of the benchmark, not records: a resumed job has one for each of its ends."""
    wall_s: int
    cpu_s: int
    earliest_end_time: int
    latest_end_time: int


def summed(key: SummaryKey, spelling: SummaryKey, cells: Sequence[tuple[Benchmark, UsageCell | JuraCell]]) -> Summary:
    """Return the summary of cells with one key, each with its benchmark."""
    jobs = wall_s = cpu_s = normalised_wall = normalised_cpu = 0
    ends: list[int] = []
    for benchmark, cell in cells:
        jobs += cell.jobs
        wall_s += cell.wall_s
        cpu_s += cell.cpu_s
        normalised_wall += benchmark.normalised(cell.wall_s)
        normalised_cpu += benchmark.normalised(cell.cpu_s)
        ends += cell.earliest_end_time, cell.latest_end_time
    return Summary(key, spelling, jobs, wall_s, cpu_s, normalised_wall, normalised_cpu, min(ends[::2]), max(ends[1::2]))


def _order(key: SummaryKey | SyncKey) -> tuple[object, ...]:
    """A total order over keys with unknown parts."""
    return tuple(["" if value is None else value for value in key]) if None in key else key


def zero_summary(key: SummaryKey) -> Summary:
    """Return a summary without jobs, to set a sent key that no longer exists to zero: APEL has no delete message."""
    return Summary(key, key, 0, 0, 0, 0, 0, None, None)


def summary_record(summary: Summary, kind: str = "summaries", dialect: str = "server") -> str:
    """Return one summary record, with its end."""
    key = summary.spelling
    is_normalised = kind in _NORMALISED
    # Seconds; in the seed's dialect of v0.3 hours, each rounded to the nearest number.
    unit = HOUR_S if dialect == "seed" and kind == "summaries-v03" else 1
    level = messages.service_level(key.benchmark_type, key.benchmark_value, is_dictionary=kind == "summaries-v04")
    normalised: dict[str, object] = {}
    if is_normalised:
        normalised["NormalisedWallDuration"] = rounded(summary.normalised_wall, unit * _MILLION)
        normalised["NormalisedCpuDuration"] = rounded(summary.normalised_cpu, unit * _MILLION)
    if kind == "normalised-v04":
        normalised = {name: f"{{{key.benchmark_type}: {value}}}" for name, value in normalised.items()}
    return messages.record_text(
        [
            ("Site", key.site),
            ("Month", key.month),
            ("Year", key.year),
            ("GlobalUserName", key.user),
            ("VO", key.vo),
            ("VOGroup", key.group),
            ("VORole", key.role),
            ("SubmitHost", key.submit_host),
            ("Infrastructure" if is_normalised else "InfrastructureType", key.infrastructure),
            *(() if is_normalised else level),
            # The tables have no default for these two: leaving them out rejects the whole message.
            ("NodeCount", key.node_count),
            ("Processors", key.processors),
            ("EarliestEndTime", summary.earliest_end_time),
            ("LatestEndTime", summary.latest_end_time),
            ("WallDuration", rounded(summary.wall_s, unit)),
            ("CpuDuration", rounded(summary.cpu_s, unit)),
            *normalised.items(),
            ("NumberOfJobs", summary.jobs),
        ]
    )


def mixed_benchmarks(cells: Iterable[UsageCell], options: APELOptions) -> dict[tuple[int, int], tuple[str, ...]]:
    """
    Return months (year, month) whose cells have more than one benchmark type, with the types, APEL's preferred one
    first. v0.3 has no type, so such a month is published as if all had the first one: report it before sending.
    """
    found: dict[tuple[int, int], set[str]] = {}
    for cell in cells:
        found.setdefault((cell.year, cell.month), set()).add(
            benchmark_of(cell.benchmark, options.default_benchmark).type
        )
    return {month: tuple(sorted(types, key=TYPES.index)) for month, types in found.items() if len(types) > 1}


def syncs(given: Iterable[tuple[SyncKey, int]]) -> list[Sync]:
    """Return one sync record for each site, SubmitHost and month, with the jobs that the receiver was sent, by key."""
    merged: dict[SyncKey, Sync] = {}
    for place, jobs in given:
        spelling = place._replace(site=place.site or None, submit_host=place.submit_host or None)
        key = spelling._replace(site=folded(spelling.site), submit_host=folded(spelling.submit_host))
        old = merged.get(key, Sync(key, spelling, 0))
        merged[key] = Sync(key, min(old.spelling, spelling, key=_order), old.jobs + jobs)
    return sorted(merged.values(), key=lambda sync: _order(sync.key))


def sync_record(sync: Sync) -> str:
    """Return one sync record, with its end."""
    key = sync.spelling
    return messages.record_text(
        [
            ("Site", key.site),
            ("SubmitHost", key.submit_host),
            ("NumberOfJobs", sync.jobs),
            ("Month", key.month),
            ("Year", key.year),
        ]
    )
