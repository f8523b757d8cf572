"""
What each receiver would refuse, found before it is sent.

A receiver refuses whole batches: SGAS rolls the transaction back, APEL drops the message and tells nobody. So each
record is measured by the receiver's own rules first. What can be repaired without changing what is accounted
(a name cut, an optional value left out) is repaired and noted; the rest is refused with the reason, alone.

Sources of the rules: column widths and converters of SGAS's schema and parser; CarParser, the record classes and the
database procedures of APEL 2.5; XML 1.0 section 2.2 for characters.
"""

from __future__ import annotations

from calendar import timegm
from typing import NamedTuple

from arcacct.jobs.fqan import FQAN, parsed_fqan
from arcacct.jobs.identity import has_value, machine_host
from arcacct.targets.acceptance_rules import (
    LARGEST_EXACT,
    Verdict,
    ahead,
    benchmark_problem,
    changed,
    count_note,
    cut_local_user,
    cut_texts,
    job_refusal,
    known_count,
    looks_sound,
    note_characters,
    note_cuts,
    outside,
    repair_amounts,
    repair_hosts,
    repair_times,
    shared_texts_sound,
)
from arcacct.targets.apel import text as apel_text
from arcacct.targets.apel.messages import LONG, QUEUE, APELOptions, apel_local_job_id
from arcacct.targets.sgas.usage_record import LARGEST_INT4, UROptions, local_job_id, record_id
from arcacct.targets.xml import LAST_SECOND, has_forbidden, iso_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from arcacct.benchmark import Benchmark
    from arcacct.jobs.aar import AAR, Transfer, UsageCell

__all__ = ["CellVerdict", "Verdict", "accept_cell", "accept_for_apel_job", "accept_for_car", "accept_for_sgas"]

_LARGEST_INT8 = 2**63 - 1
_LARGEST_SMALLINT = 2**15 - 1

_SGAS_WIDTHS = (("job_name", 1000), ("user_dn", 1000), ("vo", 1000), ("queue", 200), ("project", 200))
_SGAS_RECORD_ID, _SGAS_MACHINE, _SGAS_LOCAL_USER, _SGAS_GROUP = 1000, 200, 100, 100
_SGAS_ENVIRONMENT, _SGAS_URL = 512, 2500


class CellVerdict(NamedTuple):
    """A usage cell as it may be summed."""

    cell: UsageCell
    notes: tuple[str, ...] = ()
    """What was repaired: cells that differ in nothing else have one key at the receiver."""
    refusal: str | None = None
    not_before: int | None = None
    """UTC seconds: the refusal is only about this host's clock, and holds until then; None: it holds for good."""


def accept_for_sgas(aar: AAR, options: UROptions, now: int) -> Verdict:
    """Measure a job by SGAS's rules; `now` in seconds, for ends in the future."""
    if (
        looks_sound(aar, now)
        and all(map(_transfer_sound, aar.transfers))
        and all(name.isprintable() and 0 < len(name) <= _SGAS_ENVIRONMENT for name in aar.run_time_environments)
        and _plain_host(machine_host(aar.endpoint_url, options.host))
        and (not aar.local_job_id or local_job_id(aar, options) is not None)
    ):
        return Verdict(aar)
    return sgas_verdict(aar, options, now)


def accept_for_car(aar: AAR, options: APELOptions, now: int) -> Verdict:
    """Measure a job by the rules of APEL's XML parser, its database and the CAR schema."""
    if looks_sound(aar, now) and _apel_looks_sound(aar, options.localid_prefix):
        return Verdict(aar)
    return apel_verdict(aar, options.localid_prefix, options.default_benchmark, now)


def accept_for_apel_job(aar: AAR, options: APELOptions, now: int) -> Verdict:
    """Measure a job by the rules of APEL's individual job records, v0.3 and v0.4."""
    if looks_sound(aar, now) and _apel_looks_sound(aar, options.localid_prefix):
        return Verdict(aar)
    return apel_verdict(aar, options.localid_prefix, options.default_benchmark, now, repair_apel_job)


def _transfer_sound(transfer: Transfer) -> bool:
    return (
        0 < len(transfer.url) <= _SGAS_URL
        and transfer.url.isprintable()
        and 0 <= transfer.size_bytes <= _LARGEST_INT8
        and 0 <= transfer.start_time <= LAST_SECOND >= transfer.end_time >= 0
    )


def _plain_host(host: str | None) -> bool:
    return host is not None and len(host) <= _SGAS_MACHINE and host.isascii() and host.isprintable()


def _apel_looks_sound(aar: AAR, prefix: str) -> bool:
    return (
        has_value(aar.local_job_id)
        and apel_local_job_id(aar, prefix) == f"{prefix}{aar.local_job_id}"
        and aar.job_id.isascii()
        and shared_texts_sound(aar.endpoint_url)
    )


def sgas_verdict(aar: AAR, options: UROptions, now: int) -> Verdict:
    """All of SGAS's rules, one after the other."""
    refusal = job_refusal(aar, LARGEST_EXACT) or _sgas_refusal(aar, options)
    if refusal:
        return Verdict(aar, (), refusal)
    if verdict := ahead(aar, now):
        return verdict
    notes: list[str] = []
    for repair in (repair_times, repair_amounts, repair_hosts, note_characters):
        aar = repair(aar, notes)
    aar = cut_texts(aar, _SGAS_WIDTHS, notes)
    aar = _repair_sgas(aar, options, notes)
    return Verdict(aar, tuple(notes))


def apel_verdict(
    aar: AAR, prefix: str, default: Benchmark, now: int, *repairs_of_format: Callable[[AAR, list[str]], AAR]
) -> Verdict:
    """All of APEL's rules for a job, then those of one format."""
    refusal = job_refusal(aar, LARGEST_INT4) or _apel_refusal(aar)
    if refusal:
        return Verdict(aar, (), refusal)
    if verdict := ahead(aar, now):
        return verdict
    notes: list[str] = []
    if note := _benchmark_note(aar.benchmark, default):
        notes.append(note)
        aar = aar._replace(benchmark=None)
    by_job_id = apel_local_job_id(aar._replace(local_job_id=None), prefix)
    if aar.local_job_id and apel_local_job_id(aar, prefix) == by_job_id:
        notes.append("LocalJobId: the batch system's id is too long or means nothing to APEL: the JobID is used")
    for repair in (repair_times, repair_amounts, repair_hosts, note_characters, note_apel_cuts, *repairs_of_format):
        aar = repair(aar, notes)
    return Verdict(aar, tuple(notes))


def _sgas_refusal(aar: AAR, options: UROptions) -> str | None:
    machine = machine_host(aar.endpoint_url, options.host)
    if not machine:
        return "no MachineName: the job has no endpoint, set lrms_host"
    if len(machine) > _SGAS_MACHINE or not machine.isprintable():
        return f"MachineName {machine[:60]!r}... is longer than {_SGAS_MACHINE} characters or not printable"
    if len(record_id(aar, options)) > _SGAS_RECORD_ID:
        return f"recordId is longer than {_SGAS_RECORD_ID} characters"
    return None


def _apel_refusal(aar: AAR) -> str | None:
    if len(apel_text.ascii_text(aar.job_id)) > LONG or not has_value(aar.job_id):
        return f"JobID is longer than {LONG} characters or means nothing to APEL"
    return None


def _repair_sgas(aar: AAR, options: UROptions, notes: list[str]) -> AAR:
    aar = cut_local_user(aar, _SGAS_LOCAL_USER, notes)
    if aar.local_job_id and local_job_id(aar, options) is None:
        # Sent, it would make SGAS give the record another id.
        notes.append("LocalJobId: longer than 120 characters or begins with a slash: left out")
    if aar.node_count > _LARGEST_SMALLINT:
        notes.append(f"node count {aar.node_count}: SGAS holds {_LARGEST_SMALLINT}")
        aar = aar._replace(node_count=_LARGEST_SMALLINT)
    problem = benchmark_problem(aar.benchmark)
    if problem:
        notes.append(f"{problem}: left out")
    if any(len(fqan) > _SGAS_GROUP // 2 for fqan in aar.fqans):
        aar = aar._replace(fqans=tuple(_cut_fqan(fqan, notes) for fqan in aar.fqans))
    if aar.run_time_environments:
        aar = aar._replace(run_time_environments=_environments(aar.run_time_environments, notes))
    if aar.transfers:
        aar = aar._replace(transfers=_transfers(aar.transfers, notes))
    return aar


def _cut_fqan(text: str, notes: list[str]) -> str:
    """Group and role have columns of 100; in jura-ng's style the role is written with its key."""
    parsed = parsed_fqan(text)
    if parsed is None:
        return text
    room = _SGAS_GROUP - len("/Role=")
    role = None if parsed.role is None else parsed.role[:room]
    cut = FQAN(parsed.group[:_SGAS_GROUP].rstrip("/"), role, parsed.capability)
    if cut == parsed:
        return text
    notes.append(f"VOMS attribute {text[:60]!r}...: cut to {_SGAS_GROUP} characters")
    return str(cut)


def _environments(names: tuple[str, ...], notes: list[str]) -> tuple[str, ...]:
    good = tuple(name[:_SGAS_ENVIRONMENT] for name in names if _visible(name))
    if good != names:
        notes.append(f"run-time environments: empty ones left out, others cut to {_SGAS_ENVIRONMENT} characters")
    return good


def _transfers(transfers: tuple[Transfer, ...], notes: list[str]) -> tuple[Transfer, ...]:
    good = tuple(
        transfer._replace(url=transfer.url[:_SGAS_URL])
        for transfer in transfers
        if _visible(transfer.url) and _transfer_sound(transfer._replace(url="possible"))
    )
    if good != transfers:
        notes.append(f"transfers: impossible ones left out, URLs cut to {_SGAS_URL} characters")
    return good


def _visible(text: str) -> bool:
    """Whether something is left of a text when XML's forbidden characters are gone."""
    return bool(text) and (text.isprintable() or any(not has_forbidden(character) for character in text))


def note_apel_cuts(aar: AAR, notes: list[str]) -> AAR:
    """Note what APEL's formats cut to its columns, or send in parts."""
    names = (
        ("user_dn", aar.user_dn, LONG),
        ("vo", aar.vo, LONG),
        ("endpoint_url", aar.endpoint_url, LONG),
        ("queue", aar.queue, QUEUE),
        ("local_user", (aar.local_user or "").partition(":")[0], LONG),
    )
    note_cuts(names, notes)
    if aar.fqans and len(apel_text.ascii_text(aar.fqans[0])) > LONG:
        notes.append(f"main FQAN: longer than {LONG} characters: VO, group and role are sent, each cut to {LONG}")
    return aar


def repair_apel_job(aar: AAR, notes: list[str]) -> AAR:
    """Memory beyond its column is taken to the largest that it holds; the XML's memory is not read."""
    for name in ("memory_kib", "virtual_memory_kib"):
        kib = getattr(aar, name)
        if kib > LARGEST_INT4:
            notes.append(f"{name} {kib}: APEL holds {LARGEST_INT4}")
            aar = changed(aar, **{name: LARGEST_INT4})
    return aar


def accept_cell(cell: UsageCell, options: APELOptions, now: int) -> CellVerdict:
    """Measure a usage cell by the rules of APEL's summary records."""
    refusal = _cell_refusal(cell)
    if refusal:
        return CellVerdict(cell, (), refusal)
    begin = _month(cell.year, cell.month)[0]
    if begin > now:
        refusal = f"month {cell.year}-{cell.month:02d} has not begun by this host's clock ({iso_time(now)})"
        return CellVerdict(cell, (), refusal, begin)
    notes: list[str] = []
    if cell.benchmark and (note := _benchmark_note(cell.benchmark, options.default_benchmark)):
        notes.append(note)
        cell = cell._replace(benchmark=None)
    if (nodes := known_count(cell.node_count)) != cell.node_count:
        notes.append(count_note("node count", cell.node_count))
    if (cores := known_count(cell.core_count)) != cell.core_count:
        notes.append(count_note("core count", cell.core_count))
    cell = cell._replace(node_count=nodes, core_count=cores)
    first, last = _month(cell.year, cell.month)
    earliest = min(max(cell.earliest_end_time, first), last)
    latest = max(min(cell.latest_end_time, last), earliest)
    if (earliest, latest) != (cell.earliest_end_time, cell.latest_end_time):
        notes.append("earliest and latest end lie outside the month: taken to its bounds")
        cell = cell._replace(earliest_end_time=earliest, latest_end_time=latest)
    note_cuts(tuple((name, getattr(cell, name), LONG) for name in ("user_dn", "vo", "fqan", "endpoint_url")), notes)
    return CellVerdict(cell, tuple(notes))


def _benchmark_note(benchmark: str | None, default: Benchmark) -> str | None:
    """What to say of a job, or jobs, that are summed with the site's default benchmark; ``None``: they have one."""
    if not benchmark:
        return f"no benchmark: {default} is used"
    problem = benchmark_problem(benchmark)
    return None if problem is None else f"{problem}: {default} is used"


def _cell_refusal(cell: UsageCell) -> str | None:
    if not (1 <= cell.month <= 12 and 1970 <= cell.year <= 9999):
        return f"{cell.year}-{cell.month} is not a month"
    bounds = (
        ("jobs", cell.jobs, LARGEST_INT4),
        ("wall time", cell.wall_s, LARGEST_EXACT),
        ("CPU time", cell.cpu_s, LARGEST_EXACT),
    )
    return outside(bounds)


def _month(year: int, month: int) -> tuple[int, int]:
    """The first second of a month and the first of the next, which APEL still counts to it."""
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return timegm((year, month, 1, 0, 0, 0)), timegm((*following, 1, 0, 0, 0))
