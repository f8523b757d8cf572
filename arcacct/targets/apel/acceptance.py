"""Check jobs and sums against APEL's rules before sending: APEL drops a bad message without a report."""

from __future__ import annotations

from collections.abc import Mapping

from arcacct.benchmark import Benchmark
from arcacct.publishing.plugin import Acceptance, CellAcceptance
from arcacct.records.model import AAR, UsageCell, has_value
from arcacct.targets import verdicts
from arcacct.targets.apel import messages
from arcacct.targets.apel.messages import APELOptions, apel_local_job_id
from arcacct.targets.common import EXACT, Care, Rule, ascii_text, iso_time, spelt
from arcacct.times import month_bounds


def _limits(table: Mapping[str, Rule], care: Care) -> tuple[tuple[str, int], ...]:
    """The values with this care and the largest that is sent of each."""
    return tuple((rule.value, min(int(rule.most), EXACT)) for rule in table.values() if rule.care is care)


_CUT_OF_JOB, _CUT_OF_CELL = _limits(messages.JOB, Care.CUT), _limits(messages.SUMMARY, Care.CUT)
_LARGEST = _limits(messages.JOB, Care.LARGEST)
_WALL_S, _CPU_S = int(messages.JOB["WallDuration"].most), int(messages.JOB["CpuDuration"].most)
_JOBS = int(messages.SUMMARY["NumberOfJobs"].most)
_LONG = int(messages.JOB["LocalJobId"].most)


def accept_for_apel_job(aar: AAR, options: APELOptions, now: int) -> Acceptance:
    """
    Check a job by the rules of APEL's individual job records, v0.3 and v0.4.

    Memory beyond the column becomes its largest value; APEL does not read the memory of XML.
    """
    verdict = accept_for_car(aar, options, now)
    if verdict.refusal is not None:
        return verdict
    aar, notes = verdict.aar, list(verdict.notes)
    for name, largest in _LARGEST:
        kib = getattr(aar, name)
        if kib > largest:
            notes.append(f"{name} {kib}: APEL holds {largest}")
            aar = verdicts.changed(aar, **{name: largest})
    return Acceptance(aar, tuple(notes))


def accept_for_car(aar: AAR, options: APELOptions, now: int) -> Acceptance:
    """Check a job by the rules of APEL's parsers, its database and the CAR schema."""
    default = options.default_benchmark
    refusal = verdicts.job_refusal(aar, _WALL_S, _CPU_S)
    if not refusal and (len(ascii_text(aar.job_id)) > _LONG or not has_value(aar.job_id)):
        refusal = f"JobID is longer than {_LONG} characters, or APEL reads it as empty"
    if verdict := verdicts.refused(aar, refusal, now):
        return verdict
    notes: list[str] = []
    if note := _benchmark_note(aar.benchmark, default):
        notes.append(note)
        aar = aar._replace(benchmark=None)
    by_job_id = apel_local_job_id(aar._replace(local_job_id=None), options)
    if aar.local_job_id and apel_local_job_id(aar, options) == by_job_id:
        notes.append("LocalJobId: the batch system's id is too long, or APEL reads it as empty: the JobID is used")
    aar = verdicts.repair_texts(verdicts.repair_values(aar, notes), notes)
    verdicts.note_cuts(aar._replace(local_user=(aar.local_user or "").partition(":")[0]), _CUT_OF_JOB, notes)
    longest = int(messages.JOB["FQAN"].most)
    if aar.fqans and len(ascii_text(aar.fqans[0])) > longest:
        notes.append(f"main FQAN: longer than {longest} characters: VO, group and role are sent, each cut to {_LONG}")
    return Acceptance(aar, tuple(notes))


def ids_sound(job_id: str, own_id: str | None, local_id: str) -> bool:
    """
    Whether a job's JobID needs no escape, and the job is sent under the batch system's id if it has one (``own_id``).

    ``local_id``: the id that is sent.
    """
    return spelt(job_id, _LONG) == job_id and has_value(job_id) and not (own_id and local_id == job_id)


def accept_cell(cell: UsageCell, options: APELOptions, now: int) -> CellAcceptance:
    """Check a usage cell by the rules of APEL's summary records."""
    if not (1 <= cell.month <= 12 and 1970 <= cell.year <= 9999):
        return CellAcceptance(cell, (), f"{cell.year}-{cell.month} is not a month")
    if refusal := verdicts.outside(
        ("jobs", cell.jobs, _JOBS), ("wall time", cell.wall_s, EXACT), ("CPU time", cell.cpu_s, EXACT)
    ):
        return CellAcceptance(cell, (), refusal)
    # APEL still counts the first second of the next month to it.
    first, last = month_bounds(cell.year, cell.month)
    if first > now:
        refusal = f"month {cell.year}-{cell.month:02d} is in the future by this host's clock ({iso_time(now)})"
        return CellAcceptance(cell, (), refusal, first)
    notes: list[str] = []
    if cell.benchmark and (note := _benchmark_note(cell.benchmark, options.default_benchmark)):
        notes.append(note)
        cell = cell._replace(benchmark=None)
    nodes, cores = (
        verdicts.known_count("node count", cell.node_count, notes),
        verdicts.known_count("core count", cell.core_count, notes),
    )
    if (nodes, cores) != (cell.node_count, cell.core_count):
        cell = cell._replace(node_count=nodes, core_count=cores)
    earliest = min(max(cell.earliest_end_time, first), last)
    latest = max(min(cell.latest_end_time, last), earliest)
    if (earliest, latest) != (cell.earliest_end_time, cell.latest_end_time):
        notes.append("earliest and latest end are outside the month: set to its bounds")
        cell = cell._replace(earliest_end_time=earliest, latest_end_time=latest)
    verdicts.note_cuts(cell, _CUT_OF_CELL, notes)
    return CellAcceptance(cell, tuple(notes))


def _benchmark_note(benchmark: str | None, default: Benchmark) -> str | None:
    """Return the note about jobs that are summed with the site's default benchmark; ``None``: they have one."""
    if not benchmark:
        return f"no benchmark: {default} is used"
    problem = verdicts.benchmark_problem(benchmark)
    return None if problem is None else f"{problem}: {default} is used"
