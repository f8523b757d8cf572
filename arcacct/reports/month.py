"""The tables of a month: usage, pledge, failures, users, GPUs, energy, publishing, changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.benchmark import SUBSTITUTE_SHOWN, parsed_benchmark
from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.database.schema import incarnation
from arcacct.health.databases import Basis, basis
from arcacct.queries.questions import Selection, first_end_s, waits, walltimes
from arcacct.queries.usage import UsageTable, before_recording, usage
from arcacct.queries.verify import verify
from arcacct.queries.verify_report import MonthReport
from arcacct.records.hold_decisions import NONE, counts
from arcacct.records.holds import HELD, PUBLISHED
from arcacct.records.pseudonyms import Names, site_names
from arcacct.records.states import FAILED
from arcacct.reports import tables as reports_tables
from arcacct.reports.capacity import installed
from arcacct.reports.tables import (
    J_PER_KWH,
    Column,
    EnergyModel,
    PreviousReport,
    Report,
    ReportHistory,
    Table,
    Value,
    Verdict,
    energies,
    grid,
)
from arcacct.reports.trends import NO_VO, Recording, first_month, last_months, over_time, sizes, use_of_pledge, waiting
from arcacct.times import Month, iso, month_bounds
from arcacct.wording import count_of

_HOUR_S = 3600
_DAY_S = 86_400
_LARGEST_SAMPLE = 25_000
"""Jobs whose waiting times are read: nine events of each. The rank is exact to a third of a per cent."""
_EXAMPLES = 3
"""Number of differences shown per place; `arcacct verify` shows all."""
_CODES = {0: "it ran and ended with 0", 1: "exit code 1 or unknown"}
"""A-REX's codes of a job that did not fail, and of one whose failure is unknown."""
_SIGNALS = range(129, 161), range(257, 289)
"""Exit codes of jobs that a signal ended: of a shell, and of PBS and Torque, which add 256."""
_LEAST_H = 0.1
"""Less than that comes from rounding."""

_USAGE = {
    "jobs": Column("jobs", "Jobs", "jobs"),
    "failed_jobs": Column("failed_jobs", "Failed", "jobs"),
    "core_hours": Column("core_hours", "Core hours", "h"),
    "cpu_hours": Column("cpu_hours", "CPU hours", "h"),
    "hs06_hours": Column("hs06_hours", "HS06 hours", "HS06 h"),
    "hepscore23_hours": Column("hepscore23_hours", "HEPscore23 hours", "HEPscore23 h"),
    "cpu_efficiency": Column("cpu_efficiency", "Efficiency", "ratio"),
    "jobs_without_wall": Column("jobs_without_wall", "Without wall time", "jobs"),
    "jobs_without_cpu": Column("jobs_without_cpu", "Without CPU time", "jobs"),
}
"""With the names and values of `arcacct stats`; CPU hours are its cpu_s."""


class ReportRequest(NamedTuple):
    """The requested parts of the report."""

    month: Month
    pledge: str | None = None
    """The pledge file."""
    is_pseudonymous: bool = False
    users: int = 10
    """The number of users to list, by usage."""
    with_publishing: bool = True
    """Compare the month with the receivers' data, which reads every job of it."""


class ReportData(NamedTuple):
    """A report, and the data to store about it."""

    report: Report
    history: ReportHistory
    current: PreviousReport
    is_unchanged: bool


Ask = Callable[[Sequence[str]], UsageTable]
"""Usage of the month by these, with details."""


def month_report(
    settings: Settings, accounting: Connection, publishing: Connection, asked: ReportRequest, written_s: int
) -> ReportData:
    """
    Return the report of a month (of end times, UTC), at the time of writing (UTC seconds).

    Raises InputError for an unusable file of the site, StoreError if a database cannot be read.
    """
    start_s, before_s = month_bounds(*asked.month)
    name = f"{asked.month[0]:04d}-{asked.month[1]:02d}"
    pseudonyms = site_names(settings.places) if asked.is_pseudonymous else None
    model = EnergyModel(settings.cpu_watts, settings.core_watts, settings.pue, settings.carbon_intensity)
    known = reports_tables.former(settings.places, name)
    seq = reports_tables.last_seq(accounting)

    def ask(by: Sequence[str]) -> UsageTable:
        return usage(accounting, Selection(from_s=start_s, before_s=before_s), by, details=True)

    by_vo = usage_by(ask, "vo", Table("vo", "Usage by VO", "VO", ()))
    by_vo = by_vo._replace(notes=(*by_vo.notes, *_implausible(accounting, start_s, before_s)))
    if why := before_recording(accounting, start_s, before_s):
        by_vo = by_vo._replace(notes=(*by_vo.notes, f"The month may be incomplete: {why}."))
    by_day_and_vo = by_day_with_vo(ask, start_s)

    def ask_of(selection: Selection, by: Sequence[str]) -> UsageTable:
        return usage(accounting, selection, by, details=False, exact=True)

    first = first_month(asked.month)
    # An import of later jobs has also covered this month.
    lacking = [
        one for one in last_months(asked.month, 24) if before_recording(accounting, month_bounds(*one)[0], written_s)
    ]
    recorded = Recording(first_end_s(accounting) or 0, frozenset(lacking))
    capacity = installed(settings.cores, accounting, month_bounds(*first)[0], before_s)
    over = over_time(ask_of, asked.month, capacity, written_s, recorded)
    tables = [
        by_vo,
        over.history,
        *use_of_pledge(ask_of, asked.month, asked.pledge, recorded),
        over.year,
        over.utilisation,
        usage_by(ask, "day", BY_DAY),
        by_day_and_vo.table,
        *_of_jobs(accounting, ask, start_s, before_s, int(_all(by_vo, "jobs"))),
        _failures(accounting, start_s, before_s, by_vo),
        top_users(ask, asked.users, pseudonyms),
        *_energy(accounting, start_s, before_s, model, by_vo, by_day_and_vo),
    ]
    rests_on = basis(accounting, [asked.month])
    tables.append(_rated(rests_on))
    places, published, verdict = _publishing(settings, accounting, publishing, asked)
    tables.append(published)
    usage_of = {row.key: [by_vo.number(row, one) for one in ("jobs", "core_hours", "cpu_hours")] for row in by_vo.rows}
    said = PreviousReport(written_s, incarnation(accounting), seq, usage_of, places)
    logged = None
    if known.last is not None and known.last.incarnation == said.incarnation:
        logged = reports_tables.changes(accounting, known.last.seq, start_s, before_s)
    is_unchanged = logged is not None and not any(logged)
    compared = reports_tables.compared_with(known, said, is_unchanged=is_unchanged)
    tables.append(_changes(accounting, said, compared, start_s, before_s))
    report = Report(
        settings.hostname,
        asked.month,
        written_s,
        tuple(tables),
        verdict,
        str(rests_on) if rests_on.jobs or rests_on.held else "",
        recorded.first_end_s,
    )
    return ReportData(report, known, said, is_unchanged)


def _of_jobs(con: Connection, ask: Ask, start_s: int, before_s: int, jobs: int) -> tuple[Table, Table, Table]:
    """How long the jobs waited, how many cores they had, and how long they ran."""
    one_of = max(1, jobs // _LARGEST_SAMPLE)
    found = walltimes(con, start_s, before_s)
    by_walltime = [(name, count, core_s / _HOUR_S) for name, (count, core_s) in found.items()]
    by_walltime_table = sizes("walltime", "Wall time of jobs", "Wall time", by_walltime)
    lacking = jobs - sum(count for _name, count, _core_h in by_walltime)
    if lacking > 0:
        note = f"Of {count_of(lacking, 'job')} that `arcacct db prune` archived, the wall time is not kept."
        by_walltime_table = by_walltime_table._replace(notes=(*by_walltime_table.notes, note))
    return (
        waiting(waits(con, start_s, before_s, one_of=one_of), jobs - max(0, lacking), one_of),
        job_sizes(ask),
        by_walltime_table,
    )


def job_sizes(ask: Ask) -> Table:
    """Jobs by their cores."""
    rows = [
        (None if of["cores"] is None else str(of["cores"]), int(_whole(of["jobs"])), _whole(of["core_hours"]))
        for of in ask(("cores",)).named()
    ]
    return sizes("cores", "Cores of jobs", "Cores", rows)


def _implausible(con: Connection, start_s: int, before_s: int) -> Iterator[str]:
    """Note what these figures lack, and include, of jobs with impossible values."""
    found = counts(con, start_s, before_s)
    held, published = found.pop(HELD, NONE), found.pop(PUBLISHED, NONE)
    if held.records:
        yield f"Not in these figures: {count_of(held.records, 'job')} held, {held.why} ({held.text})."
    if published.records:
        jobs = count_of(published.records, "job")
        yield f"In these figures: {jobs} with values that cannot be true, published before they were checked."
    for state, decided in sorted(found.items()):
        yield f"{count_of(decided.records, 'job')} with values that cannot be true: decided as {state}."


def usage_by(ask: Ask, by: str, table: Table) -> Table:
    """Return a table of usage with a total; the VOs with the most core hours come first."""
    table = table._replace(columns=tuple(_USAGE.values()))
    found, total = ask((by,)), ask(())
    named = ((_name(of[by]), of | {"cpu_hours": _hours(of["cpu_s"])}) for of in found.named())
    table = table.filled(named, *(("core_hours",) if by == "vo" else ()), empty="No job ended in this month.")
    if total.lacking.jobs and total.lacking.benchmark == total.lacking.jobs:
        notes = (f"No job has a benchmark: there are no normalised figures, and {SUBSTITUTE_SHOWN} is sent.",)
        table = table._replace(notes=notes)
    for of in total.named() if table.rows else ():
        table = table._replace(total=table.row("All", of | {"cpu_hours": _hours(of["cpu_s"])}))
    return table


def _rated(found: Basis) -> Table:
    """Note the benchmarks that normalise the hours, and since when: this shows a change within the month."""
    names = ("jobs", "core_hours", "jobs_without_wall", "jobs_without_cpu")
    columns = (*map(_USAGE.__getitem__, names), Column("first_end", "First end"), Column("last_end", "Last end"))
    rows = (
        (
            one.benchmark or f"none ({SUBSTITUTE_SHOWN} is sent)",
            {
                "jobs": one.jobs,
                "core_hours": _hours(one.core_s),
                "jobs_without_wall": one.without_wall,
                "jobs_without_cpu": one.without_cpu,
                "first_end": iso(one.first_end_s),
                "last_end": iso(one.last_end_s),
            },
        )
        for one in found.rated
    )
    notes = [f"{found}." if found.jobs else "No job ended in this month."]
    kinds = [one.benchmark for one in found.rated if one.benchmark is not None]
    if len(kinds) > 1:
        notes.append(
            f"Jobs of this month have {len(kinds)} benchmarks: nodes or queues differ, or the benchmark was changed"
            " between these ends."
        )
    notes += [
        f"{one} is outside the range of a core; see `arcacct config check`." for one in kinds if not _is_sound(one)
    ]
    return Table("benchmark", "Measurements and benchmarks", "Benchmark", columns).filled(rows, notes=notes)


def _is_sound(benchmark: str) -> bool:
    found = parsed_benchmark(benchmark)
    return found is not None and found.is_plausible


def _hours(seconds: Value) -> Value:
    return None if seconds is None else round(_whole(seconds) / _HOUR_S, 3)


def _whole(value: Value) -> float:
    return value if isinstance(value, int | float) else 0


def _name(vo: Value) -> str:
    return NO_VO if vo is None else str(vo)


BY_DAY = Table("day", "Usage by day (of the end, UTC)", "Day", ())


class ByDayAndVO(NamedTuple):
    """The usage on each day by each VO."""

    table: Table
    parts: tuple[reports_tables.EnergyUse, ...]
    """The same for jobs without a measurement."""


def by_day_with_vo(ask: Ask, start_s: int) -> ByDayAndVO:
    """Return the table for the chart; ``start_s``: the start of the month."""
    found = ask(("day", "vo"))
    columns = tuple(_USAGE[name] for name in ("jobs", "core_hours"))
    rows, parts = [], []
    for of in found.named():
        rows.append((f"{of['day']} {_name(of['vo'])}", of))
        day, vo = start_s // _DAY_S + int(str(of["day"])[-2:]) - 1, of["vo"]
        core_s = _whole(of["core_hours"]) * _HOUR_S
        parts.append(
            reports_tables.EnergyUse(day, None if vo is None else str(vo), None, None, core_s, 0.0, None, None)
        )
    table = Table("day_vo", "Usage by day and VO", "Day and VO", columns, is_detail=True)
    return ByDayAndVO(table.filled(rows), tuple(parts))


def _failures(con: Connection, start_s: int, before_s: int, by_vo: Table) -> Table:
    jobs: dict[str, list[float]] = {}
    found = 0
    for one in reports_tables.failures(con, start_s, before_s):
        sums = jobs.setdefault(f"{one.status}: {_reason(one)}", [0, 0.0])
        sums[0] += one.jobs
        found += one.jobs if one.status == FAILED else 0
        sums[1] += one.core_s
    columns = (_USAGE["jobs"], Column("core_hours", "Core hours lost", "h"))
    rows = [(key, {"jobs": int(count), "core_hours": _hours(core_s)}) for key, (count, core_s) in jobs.items()]
    note = "Exit codes and states come from the records; A-REX's texts about single jobs are not stored."
    notes = [note] if rows else ["No job failed." if by_vo.rows else "No job ended in this month."]
    lacking = int(_all(by_vo, "failed_jobs")) - found
    if lacking > 0:
        notes = [note, f"The reason of {lacking} archived by `arcacct db prune` is unknown."]
    return Table("failure", "Failures by reason", "Reason", columns).filled(rows, "jobs", notes=notes)


def _reason(one: reports_tables.Failed) -> str:
    """Return the reason in words; the batch system's text has priority over the exit code."""
    if one.slurm_state and one.slurm_state.split()[0] not in ("COMPLETED", "FAILED"):
        return f"Slurm says {one.slurm_state.split()[0]}"
    if one.gridengine_failure:
        return f"Grid Engine says: {one.gridengine_failure}"
    if not one.has_run:
        return "it did not run"
    if one.exit_code in _CODES:
        return _CODES[one.exit_code]
    for codes in _SIGNALS:
        if one.exit_code in codes:
            return f"exit code {one.exit_code} (signal {one.exit_code - codes.start + 1})"
    return f"exit code {one.exit_code}"


def top_users(ask: Ask, most: int, pseudonyms: Names | None) -> Table:
    """Return the users with the most usage."""
    found = ask(("user", "vo"))
    names = ("jobs", "core_hours", "cpu_hours", "cpu_efficiency", "jobs_without_wall", "jobs_without_cpu")
    columns = (Column("vo", "VO"), *(_USAGE[name] for name in names))
    ranked = []
    for of in found.named():
        dn = of["user"]
        shown = "(no name)" if dn is None else str(dn) if pseudonyms is None else pseudonyms.of(str(dn))
        ranked.append((shown, of | {"vo": _name(of["vo"]), "cpu_hours": _hours(of["cpu_s"])}))
    notes = ["Names are replaced by pseudonyms of this site."] if pseudonyms is not None else []
    if len(ranked) > most:
        notes.append(f"Top {most} of {len(ranked)} users.")
    table = Table("user", "Top users", "User", columns, naming=1).filled(ranked, "core_hours", notes=notes)
    return table._replace(rows=table.rows[:most])


def _energy(
    con: Connection, start_s: int, before_s: int, model: EnergyModel, by_vo: Table, by_day_and_vo: ByDayAndVO
) -> tuple[Table, Table]:
    """Return GPU hours and energy by VO, if there is a measurement or the site's table has a value."""
    models = reports_tables.cpu_models(con, before_s) if model.cpu_watts else {}
    if models or reports_tables.has_measurements(con):
        parts = list(reports_tables.drawn(con, start_s, before_s, with_hosts=bool(models)))
    else:
        # All cores have the same value: the kept sums are enough.
        parts = list(by_day_and_vo.parts)
    drawn = _drawn(parts, model, models)
    lacking_h = _all(by_vo, "core_hours") - sum(one.core_s for one in parts) / _HOUR_S
    if drawn.rows and lacking_h > _LEAST_H:
        note = f"{lacking_h:.1f} core hours are of jobs that `arcacct db prune` archived: their energy is missing."
        drawn = drawn._replace(notes=(*drawn.notes, note))
    return _gpus(con, start_s, before_s), drawn


def _all(table: Table, column: str) -> float:
    return 0.0 if table.total is None else table.number(table.total, column)


def _gpus(con: Connection, start_s: int, before_s: int) -> Table:
    """As in `arcacct stats` with measurements."""
    columns = (
        Column("gpu_hours", "GPU hours allocated", "h"),
        Column("gpu_busy_hours", "Busy", "h"),
        Column("gpu_energy_kwh", "Energy of GPUs", "kWh"),
    )
    found = usage(con, Selection(from_s=start_s, before_s=before_s), ("vo",), details=False, measured=True)
    rows = [(_name(of["vo"]), of) for of in found.named() if any(of[column.name] for column in columns)]
    note = "No GPU is known: telemetry and the batch system's own accounting have none."
    return Table("gpu", "GPUs", "VO", columns).filled(rows, "gpu_hours", empty=note)


def _kwh(joules: float | None) -> Value:
    return None if joules is None else round(joules / J_PER_KWH, 3)


def _drawn(parts: Sequence[reports_tables.EnergyUse], model: EnergyModel, cpu_models: dict[str, str]) -> Table:
    columns = (
        Column("measured_kwh", "Measured", "kWh"),
        Column("estimated_kwh", "Estimated", "kWh", is_estimated=True),
        Column("site_kwh", "With PUE", "kWh", is_estimated=True),
        Column("carbon_kg", "Carbon", "kg CO2e", is_estimated=True),
    )
    table = Table("energy", "Energy and carbon", "VO", columns)
    found = energies(parts, model, cpu_models, grid(model.carbon_intensity))
    if not any(one.measured_j or one.estimated_j for one in found.values()):
        note = "unknown: not measured, and neither cpu_watts nor core_watts of [arcacct] estimates it."
        return table._replace(notes=(note,))
    rows = []
    for vo, one in found.items():
        energy_j = one.measured_j + one.estimated_j
        figures = {
            # Neither a measurement nor an estimate is 0.
            "measured_kwh": _kwh(one.measured_j or None),
            "estimated_kwh": _kwh(one.estimated_j or None),
            "site_kwh": None if model.pue is None else _kwh(energy_j * model.pue),
            "carbon_kg": None if one.carbon_g is None else round(one.carbon_g / 1000, 3),
        }
        rows.append((_name(vo), figures))
    total = table.row("All", {column.name: _sum(of[column.name] for _vo, of in rows) for column in columns})
    whole = sum((one.unknown_core_s for one in found.values()), 0.0), sum(one.uncharged_j for one in found.values())
    table = table.filled(rows, "measured_kwh", "estimated_kwh", notes=_method(model, *whole))
    return table._replace(total=total)


def _sum(values: Iterable[Value]) -> Value:
    known = [value for value in values if isinstance(value, int | float)]
    return round(sum(known), 3) if known else None


def _method(model: EnergyModel, unknown_core_s: float, uncharged_j: float) -> list[str]:
    """Describe how the figures were made."""
    notes = ["Measured: the energy of the job by the batch system, else that of its GPUs by telemetry."]
    if model.estimates:
        known = "watts per core of its CPU model (cpu_watts)" if model.cpu_watts else ""
        rest = "" if model.core_watts is None else f"{model.core_watts:g} W per core (core_watts)"
        others = f"{known}, of others {rest}" if known and rest else known or rest
        notes.append(f"Estimated: core hours of jobs without measured cores, times {others}.")
    if unknown_core_s:
        notes.append(f"{unknown_core_s / _HOUR_S:.1f} core hours are on CPUs with unknown watts: they are missing.")
    if model.pue is None:
        notes.append("No PUE is configured: cooling and supply are not in these figures.")
    else:
        notes.append(f"With PUE: both, times {model.pue:g}.")
    if model.carbon_intensity is None:
        notes.append("No carbon intensity is configured, so the carbon is not known.")
    else:
        what = (
            "the grid's mean intensity of the day on which the job ended (carbon_intensity)"
            if model.carbon_intensity.startswith("/")
            else f"{model.carbon_intensity} g CO2e per kWh (carbon_intensity)"
        )
        notes.append(f"Carbon: energy{'' if model.pue is None else ' with PUE'} times {what}.")
        if uncharged_j:
            notes.append(
                f"{uncharged_j / J_PER_KWH:.3f} kWh were used before the table of intensities starts: their carbon"
                " is missing."
            )
    return notes


def _publishing(
    settings: Settings, accounting: Connection, publishing: Connection, asked: ReportRequest
) -> tuple[reports_tables.Figures, Table, Verdict | None]:
    """
    Return the result of `arcacct verify` for the month: every place that has it, and whether it agrees with the
    database.
    """
    columns = (
        Column("jobs", "Jobs", "jobs"),
        Column("wall_hours", "Wall hours", "h"),
        Column("cpu_hours", "CPU hours", "h"),
        Column("agrees", "Agrees"),
        Column("differences", "Differences", "count"),
        Column("proof", "Known by"),
    )
    table = Table("publishing", "Publishing and completeness", "Place", columns)
    if not asked.with_publishing:
        return {}, table._replace(notes=("Not compared, by --skip-verify.",)), None
    report = verify(settings, accounting, publishing, asked.month)
    try:
        counts: dict[str, int] = {}
        examples = []
        for one in report.differences:
            counts[one.source] = counts.get(one.source, 0) + 1
            # Texts about a record may name its user.
            if counts[one.source] <= _EXAMPLES and not asked.is_pseudonymous:
                examples.append(f"{one.source}: {f'{one.job_id}: ' if one.job_id else ''}{one.text}")
        rows = [
            (
                one.name,
                {
                    "jobs": one.jobs,
                    "wall_hours": _hours(one.wall_s),
                    "cpu_hours": _hours(one.cpu_s),
                    "agrees": one.answer,
                    "differences": counts.get(one.name, 0),
                    "proof": one.proof or None,
                },
            )
            for one in report.sources
        ]
        verdict = _verdict(settings, report)
        notes = [verdict.text, *examples]
        if sum(counts.values()) > len(examples):
            notes.append(f"`arcacct verify {asked.month[0]:04d}-{asked.month[1]:02d} --all` shows every difference.")
        places = {one.name: [one.jobs] for one in report.sources if one.proof and one.jobs is not None}
    finally:
        report.close()
    given = {name: [float(one) for one in jobs] for name, jobs in places.items()}
    return given, table.filled(rows, notes=notes), verdict


def _verdict(settings: Settings, report: MonthReport) -> Verdict:
    """Return the verdict: the month is good if every receiver was sent everything in the database."""
    if settings.jura_targets and not settings.allow_jura:
        text = "A-REX's jura-ng publishes (it has targets in arc.conf), and arcacct does not: what it sent is unknown."
        return Verdict(text, is_well=False)
    if not report.agrees:
        text = "The receivers' data are unknown: see below how to find out."
        if report.differs:
            text = "NOT all places agree with the database."
        elif unknown := report.sources[0].unknown:
            text = f"The month may be incomplete: {unknown}."
        return Verdict(text, is_well=False)
    if settings.targets:
        return Verdict("Every receiver has the same jobs as the database.", is_well=True)
    if not settings.publishes:
        return Verdict("This site publishes nothing, by its configuration (publishes=no).", is_well=True)
    return Verdict("No target is configured: nothing of this month is published.", is_well=False)


def _changes(con: Connection, now: PreviousReport, before: PreviousReport | None, start_s: int, before_s: int) -> Table:
    """Return the changes since the former report: usage by VO, and jobs by receiver."""
    columns = (
        Column("jobs_then", "Jobs then", "jobs"),
        Column("jobs_now", "Jobs now", "jobs"),
        Column("core_hours_then", "Core hours then", "h"),
        Column("core_hours_now", "Core hours now", "h"),
    )
    table = Table("change", "What changed since the last report", "VO or place", columns)
    if before is None:
        return table._replace(notes=("This is the first report of this month.",))
    rows: list[tuple[str, dict[str, Value]]] = []
    for name in sorted({*now.usage, *before.usage}):
        was, is_now = before.usage.get(name, [0, 0.0, 0.0]), now.usage.get(name, [0, 0.0, 0.0])
        if was != is_now:
            hours = {"core_hours_then": was[1], "core_hours_now": is_now[1]}
            rows.append((name, {"jobs_then": int(was[0]), "jobs_now": int(is_now[0]), **hours}))
    for name in sorted({*now.places, *before.places}) if now.places else ():
        was, is_now = before.places.get(name, [0.0]), now.places.get(name, [0.0])
        if was != is_now:
            jobs = {"jobs_then": int(was[0]), "jobs_now": int(is_now[0])}
            rows.append((f"given to {name}", {**jobs, "core_hours_then": None, "core_hours_now": None}))
    notes = [f"Compared with the report of {iso(before.written_s)}."]
    if before.incarnation == now.incarnation:
        logged = reports_tables.changes(con, before.seq, start_s, before_s)
        if any(logged):
            late, corrected = _jobs(logged.recorded), _jobs(logged.corrected)
            notes.append(f"Since then {late} recorded late or completed, {corrected} corrected.")
    else:
        notes.append("The database was restored since then: it is unknown which jobs are new.")
    if not rows:
        notes.append("No figure has changed.")
    return table.filled(rows, notes=notes)


def _jobs(count: int) -> str:
    return f"{count_of(count, 'job')} {'was' if count == 1 else 'were'}"
