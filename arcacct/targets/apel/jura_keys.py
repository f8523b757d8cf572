"""
What jura-ng sent to APEL, by its own rules: the keys of its summaries, sync records and job records.

APEL never deletes: where ours have other keys, jura-ng's rows stay beside them and their jobs count twice. The rules
are those of jura-ng 6.17 and 7.0, faults included; they take values as A-REX wrote them, percent-escapes and all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.targets.apel.messages import JobKey
from arcacct.targets.apel.rules import LONG
from arcacct.targets.apel.summaries import Summary, SummaryKey, Sync, SyncKey, folded_key, summed
from arcacct.targets.apel.text import field, folded

VERSIONS = (6, 7)
"""The jura-ng of ARC 6 and that of ARC 7."""

_TYPES = {6: ("Si2k", "HEPSPEC"), 7: ("Si2k", "HEPSPEC", "HEPscore23")}
"""Benchmark types that each takes, in these letters alone; anything else is HEPSPEC 1.0."""
_FALLBACK = ("HEPSPEC", "1.0")
_PATH = re.compile(r"(?:/[\w.-]+)+")
_WORD = re.compile(r"[\w.-]+")
_PLAIN_HOSTS = ("org.ogf.glue.emies.activitycreation", "org.nordugrid.gridftpjob")
"""Interfaces whose SubmitHost is the bare URL in version 7, too."""

_LETTERS = "dginoru."


class JuraCell(NamedTuple):
    """The jobs of a month that agree in everything that either version groups by; texts as A-REX wrote them."""

    year: int
    month: int
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
    """Rows of the benchmark, not records: a job that was resumed has one for each of its ends."""
    wall_s: int
    cpu_s: int
    earliest_end_time: int
    latest_end_time: int


class JuraCount(NamedTuple):
    """The jobs of a month that came by one endpoint."""

    year: int
    month: int
    interface: str
    endpoint_url: str
    jobs: int


class JuraSum(NamedTuple):
    """One summary as jura-ng sent it, and the keys that it may have had in an earlier run."""

    summary: Summary
    earlier: tuple[SummaryKey, ...] = ()


def sums(cells: Iterable[JuraCell], site: str, version: int) -> list[JuraSum]:
    """
    The summaries that jura-ng sent of these cells, in its order: of two with one key APEL keeps the later.

    ``cells`` are in the order of month, user, VO, endpoint, nodes, cores, benchmark. Version 6 does not tell FQANs
    apart: the job that ended last lends its own to all that share the rest, so earlier runs may have sent another.
    """
    groups: dict[tuple[object, ...], list[JuraCell]] = {}
    for cell in cells:
        what = (*cell[:8], cell.benchmark, "" if version == 6 else cell.fqan)
        groups.setdefault(what, []).append(cell)
    found = []
    for group in groups.values():
        last = max(group, key=lambda cell: cell.latest_end_time)
        benchmark = parsed_benchmark(":".join(_service_level(last.benchmark, version)))
        # Of a value that APEL's loader refuses nothing got there.
        if benchmark is not None:
            spelling = _spelling(last, site, version)
            key = _key(spelling, benchmark)
            keys = dict.fromkeys(_key(_spelling(cell, site, version), benchmark) for cell in group)
            summary = summed(key, spelling, [(benchmark, cell) for cell in group])
            found.append(JuraSum(summary, tuple(one for one in keys if one != key)))
    return found


def _spelling(cell: JuraCell, site: str, version: int) -> SummaryKey:
    """The values in the letters that were sent; None where a line was left out."""
    kind, value = _service_level(cell.benchmark, version)
    group, role = _group_and_role(cell.fqan, version)
    # Version 6 sends empty values of a user without VO, version 7 no lines.
    nobody = not cell.vo and version != 6
    return SummaryKey(
        table="Summaries",
        site=site,
        year=cell.year,
        month=cell.month,
        user=cell.user_dn,
        vo=None if nobody else cell.vo,
        group=None if nobody else group or f"/{cell.vo}",
        role=None if nobody else role or "Role=NULL",
        submit_host=_submit_host(cell.interface, cell.endpoint_url, version),
        infrastructure="grid",
        benchmark_type=kind,
        benchmark_value=value,
        node_count=cell.node_count,
        processors=cell.core_count,
    )


def _key(spelling: SummaryKey, benchmark: Benchmark) -> SummaryKey:
    """What APEL made of it: an empty text is none, and a number is a number however it is written."""
    stored = (field(value, LONG) if isinstance(value, str) else value for value in spelling)
    return folded_key(SummaryKey._make(stored)._replace(table=spelling.table, benchmark_value=benchmark.value))


def _group_and_role(fqan: str, version: int) -> tuple[str | None, str | None]:
    """
    ``/atlas/Role=production``: the group ``/atlas/Role`` and no role in version 6, ``/Role=production`` in 7.

    (A role with its slash is a word of its own to APEL.)
    """
    path, mark, role = (fqan, "", "") if version == 6 else fqan.partition("/Role=")
    group = _PATH.match(path)
    word = _WORD.match(role)
    if group is None or not mark or word is None or group.end() < len(path):
        return group and group[0], None
    return group[0], f"{mark}{word[0]}"


def _service_level(benchmark: str, version: int) -> tuple[str, str]:
    """Type and value in the letters that were sent."""
    kind, colon, value = benchmark.partition(":")
    return (kind, value) if colon and ":" not in value and kind in _TYPES[version] else _FALLBACK


def _submit_host(interface: str, url: str, version: int) -> str:
    """
    Version 7 puts the interface before the URL, ``arcrest:https://...``, in summaries and sync records alike.

    (It takes more off the interface than ``org.nordugrid.``, namely all its letters: ``internal`` becomes ``ternal``.)
    """
    if version == 6 or interface in _PLAIN_HOSTS:
        return url
    return f"{interface.lstrip(_LETTERS)}:{url}"


def syncs(counts: Iterable[JuraCount], site: str, version: int) -> list[Sync]:
    """The sync records that jura-ng sent, in its order: of two with one key APEL keeps the later."""
    found = []
    for count in counts:
        host = _submit_host(count.interface, count.endpoint_url, version)
        spelling = SyncKey(site, host, count.year, count.month)
        key = spelling._replace(site=folded(field(site, LONG)), submit_host=folded(field(host, LONG)))
        found.append(Sync(key, spelling, count.jobs))
    return found


def job_key(job_id: str, local_job_id: str, end_time: int, site: str) -> JobKey:
    """
    What APEL knows a job record of jura-ng by, the same in both versions: the JobID where the batch system gave none.

    Ours are equal for one and the same job, unless the two databases have another end or another id of it.
    """
    return JobKey(folded(field(site, LONG)) or "", folded(field(local_job_id or job_id, LONG)) or "", end_time)


def service_level_of_job(benchmark: str, version: int) -> Benchmark | None:
    """
    The ServiceLevel of a job record; None where it could not be read.

    Version 7.0 looks for the benchmark where version 6 of the database had it, and sends HEPSPEC 1.0 for every job.
    """
    return parsed_benchmark(":".join(_FALLBACK if version != 6 else _service_level(benchmark, version)))
