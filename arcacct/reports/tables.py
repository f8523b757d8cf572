"""The parts of a report: tables with units, facts of a month, the last report, pledges, energy and carbon."""

from __future__ import annotations

import json
import math
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from arcacct.config.paths import Places
from arcacct.config.values import CPUWatts
from arcacct.database.connection import Connection
from arcacct.database.location import REPORTS, own_as
from arcacct.errors import InputError
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import private
from arcacct.files.text_tables import csv_rows, read_text
from arcacct.records.states import SQL_ABORTED, SQL_FAILED
from arcacct.records.texts import unescaped
from arcacct.times import Month
from arcacct.wording import count_of

# The content of a report: tables of named rows and columns with units. Every form of the report is made from them.


Value = int | float | str | None
"""``None``: unknown."""
TIDY = ("section", "key", "metric", "unit", "value", "estimated")
"""The columns of the CSV."""


class Column(NamedTuple):
    """One figure of each row."""

    name: str
    """With its unit, for the CSV."""
    title: str
    """For people."""
    unit: str = ""
    is_estimated: bool = False
    """Computed from an assumption, not measured: every form marks it."""


class Row(NamedTuple):
    """The names of a row, and its figures in the order of the columns."""

    key: str
    values: tuple[Value, ...]


class Table(NamedTuple):
    """A section of the report."""

    name: str
    title: str
    key: str
    """The subject of its rows."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    total: Row | None = None
    notes: tuple[str, ...] = ()
    """Notes for reading it; also why it is empty."""
    naming: int = 0
    """The first columns that, with the key, identify a row: no two rows have the same values in them."""
    is_detail: bool = False
    """For programs and charts: too long for people."""

    def column(self, name: str) -> int:
        """Return the position of a column."""
        return next(place for place, column in enumerate(self.columns) if column.name == name)

    def row(self, key: str, figures: Mapping[str, Any]) -> Row:
        """A row of figures by the names of their columns."""
        return Row(key, tuple(figures[column.name] for column in self.columns))

    def number(self, row: Row, column: str) -> float:
        """Return a figure of a row; 0 if it is unknown."""
        value = row.values[self.column(column)]
        return value if isinstance(value, int | float) else 0

    def filled(
        self, rows: Iterable[tuple[str, Mapping[str, Any]]], *most: str, notes: Iterable[str] = (), empty: str = ""
    ) -> Table:
        """
        Return the table with these rows: the largest sums of the columns ``most`` first, else in their order.

        ``empty`` is the only note if there is no row.
        """
        made = [self.row(key, figures) for key, figures in rows]
        if most:
            made.sort(
                key=lambda row: (
                    -sum(self.number(row, name) for name in most),
                    row.key,
                    *map(str, row.values[: self.naming]),
                )
            )
        return self._replace(rows=tuple(made), notes=tuple(notes) if made or not empty else (empty,))


_ESCAPED = re.compile(r"(?:\\x[0-9A-Fa-f]{2})+")


def readable(name: str) -> str:
    r"""
    Return a name as people write it, only for display: ``Mar\xC3\xADa`` is María.

    Escapes are decoded once, and a text that was read as Latin-1 and encoded a second time is corrected. A text that is
    not UTF-8 does not change.
    """

    def decoded(found: re.Match[str]) -> str:
        data = bytes.fromhex(found[0].replace("\\x", ""))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return found[0]
        try:
            return text.encode("latin-1").decode()
        except UnicodeError:
            return text

    return _ESCAPED.sub(decoded, name)


class Verdict(NamedTuple):
    """Whether the month is published, as a sentence."""

    text: str
    is_well: bool


class Report(NamedTuple):
    """The content of a report of a month."""

    site: str
    month: Month
    written_s: int
    """UTC seconds."""
    tables: tuple[Table, ...]
    verdict: Verdict | None = None
    """``None``: not requested."""
    basis: str = ""
    """The basis of the figures, in one line: how many jobs were measured, and have a benchmark."""
    first_end_s: int = 0
    """The end of the first recorded job, UTC seconds: days before it are unknown."""

    @property
    def month_name(self) -> str:
        """YYYY-MM."""
        return f"{self.month[0]:04d}-{self.month[1]:02d}"

    def table(self, name: str) -> Table:
        """The table of a section."""
        return next(table for table in self.tables if table.name == name)


def tidy(report: Report) -> Iterator[tuple[Value, ...]]:
    """One row for each figure of all tables, with the columns TIDY."""
    for table in report.tables:
        for row in (*table.rows, *(() if table.total is None else (table.total._replace(key="(all)"),))):
            key = " ".join((row.key, *map(str, row.values[: table.naming])))
            for column, value in zip(table.columns, row.values, strict=True):
                yield table.name, key, column.name, column.unit, value, "yes" if column.is_estimated else "no"


# Values from the records of a month that no kept sum has: failures of jobs, energy, changes. Each query reads the
# records that end in the month, by the index of their ends, and none of another month.


_HOST = (
    "(SELECT substr(InfoValue, 1, instr(InfoValue || ':', ':') - 1) FROM JobExtraInfo AS Extra"
    " WHERE Extra.RecordID = Used.RecordID AND +InfoKey IN ('nodenames', 'nodename') ORDER BY Extra.rowid LIMIT 1)"
)
_KNOWN = "(SELECT max({}) FROM KnownAccelerators AS Known WHERE Known.RecordID = Used.RecordID)"
_VO = "(SELECT Name FROM WLCGVOs WHERE ID = VOID)"


class Failed(NamedTuple):
    """Jobs that failed in the same way."""

    status: str
    exit_code: int
    has_run: bool
    slurm_state: str | None
    gridengine_failure: str | None
    jobs: int
    core_s: float


class EnergyUse(NamedTuple):
    """Usage of the jobs of a day, VO and CPU; energy in J, ``None``: not measured."""

    day: int
    """Since 1970."""
    vo: str | None
    cpu_model: str | None
    """From the telemetry of the job."""
    host: str | None
    """For jobs without a CPU model: the node that the batch system named first."""
    core_s: float
    measured_core_s: float
    """Core time of jobs whose energy the batch system measured."""
    energy_j: float | None
    gpu_energy_j: float | None
    """GPU energy of the other jobs."""


class Changes(NamedTuple):
    """The log entries since a time, for jobs that now end in a month."""

    recorded: int
    """New jobs."""
    corrected: int
    """Jobs that had finished before, with other values."""


def failures(con: Connection, start_s: int, before_s: int) -> Iterator[Failed]:
    """Count the jobs that failed or were aborted, by kind of failure; reads every record of the period."""
    rows = con.execute(
        "SELECT Name, ExitCode, HasRun, State, Failure, count(*), sum(UsedWalltime * 1.0 * CPUCount + CoreRest) FROM"
        " (SELECT Status.Name, ExitCode, CPUCount, UsedWalltime, CoreRest, UsedWalltime > 0 OR EXISTS"
        " (SELECT 1 FROM JobEvents WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART') AS HasRun,"
        " (SELECT State FROM SlurmRuns WHERE SlurmRuns.RecordID = AAR.RecordID ORDER BY RunNo DESC LIMIT 1) AS State,"
        " (SELECT Meaning FROM GridEngineRecords JOIN GridEngineFailures USING (Failed)"
        " WHERE GridEngineRecords.RecordID = AAR.RecordID AND PeTaskID IS NULL AND Failed <> 0"
        " ORDER BY RecordNo DESC LIMIT 1) AS Failure"
        " FROM AccountedAAR AS AAR"
        f" CROSS JOIN Status ON Status.ID = StatusID AND Status.Name IN ({SQL_FAILED}, {SQL_ABORTED})"
        " WHERE EndTime >= ? AND EndTime < ?) GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5",
        (start_s, before_s),
    )
    for status, exit_code, has_run, state, failure, jobs, core_s in rows:
        yield Failed(status, exit_code, bool(has_run), state, failure, jobs, core_s or 0)


def has_measurements(con: Connection) -> bool:
    """Whether telemetry, or the energy or GPUs of any job, is known."""
    asked = "SELECT 1 FROM (SELECT 1 FROM JobTelemetry LIMIT 1) UNION ALL SELECT 1 FROM JobAccelerators LIMIT 1"
    return con.execute(asked).fetchone() is not None


def drawn(con: Connection, start_s: int, before_s: int, *, with_hosts: bool) -> Iterator[EnergyUse]:
    """
    Return the energy of jobs; reads every record of the period, ``with_hosts`` also the nodes of those without
    telemetry.
    """
    host = f"CASE WHEN CPUModel IS NULL THEN {_HOST} END" if with_hosts else "NULL"
    rows = con.execute(
        f"SELECT Day, {_VO}, CPUModel, Host, sum(CoreS), sum(CASE WHEN EnergyJ IS NULL THEN 0 ELSE CoreS END),"
        " sum(EnergyJ), sum(CASE WHEN EnergyJ IS NULL THEN GPUEnergyJ END) FROM"
        " (SELECT CAST(EndTime / 86400 AS INTEGER) AS Day, VOID, Wall * 1.0 * CPUCount + CoreRest AS CoreS, CPUModel,"
        f" {host} AS Host, {_KNOWN.format('EnergyJ')} AS EnergyJ, {_KNOWN.format('GPUEnergyJ')} AS GPUEnergyJ"
        " FROM RecordUsage AS Used LEFT JOIN JobTelemetry ON JobTelemetry.RecordID = Used.RecordID"
        " WHERE EndTime >= ? AND EndTime < ?) GROUP BY Day, VOID, CPUModel, Host ORDER BY 1, 2, 3, 4",
        (start_s, before_s),
    )
    for day, vo, model, node, *amounts in rows:
        yield EnergyUse(day, unescaped(vo) or None, model, None if node is None else unescaped(node), *amounts)


def cpu_models(con: Connection, before_s: int) -> dict[str, str]:
    """Return, by the name of a node without its domain, the last CPU model in telemetry before a time."""
    rows = con.execute(
        "SELECT Name, CPUModel FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID WHERE CPUModel <> ''"
        " ORDER BY ValidFrom >= ? DESC, ValidFrom, Name",
        (before_s,),
    )
    return {name.partition(".")[0]: model for name, model in rows}


def last_seq(con: Connection) -> int:
    """Return the position of the last log entry."""
    return int(
        con.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()[0]
    )


def changes(con: Connection, seq: int, start_s: int, before_s: int) -> Changes:
    """Return the log entries after a position."""
    every, corrected = con.execute(
        "SELECT count(*), count(CASE WHEN EXISTS (SELECT 1 FROM PreviousVersions"
        " WHERE PreviousVersions.RecordID = AAR.RecordID AND PreviousVersions.Seq > ?1) THEN 1 END)"
        " FROM FinishedLog CROSS JOIN AAR USING (RecordID)"
        " WHERE FinishedLog.Seq > ?1 AND +EndTime >= ?2 AND +EndTime < ?3",
        (seq, start_s, before_s),
    ).fetchone()
    return Changes(every - corrected, corrected)


# The content of the last report of a month, to show later changes: a small file next to the databases.  Two reports of
# the same data count as one: the second compares with the same report as the first, so it has the same content.


Figures = dict[str, list[float]]
"""By VO (of usage) or place (of publishing): its figures."""
_LARGEST_BYTES = 2**24


class PreviousReport(NamedTuple):
    """The content of an earlier report of its month."""

    written_s: int
    incarnation: str
    seq: int
    """The Seq of FinishedLog: later entries were recorded or changed later. Only for this incarnation."""
    usage: Figures
    """By VO: jobs, core hours, CPU hours."""
    places: Figures
    """By target: the jobs that it was sent; empty if publishing was not compared."""


class ReportHistory(NamedTuple):
    """The stored reports of a month."""

    last: PreviousReport | None = None
    before: PreviousReport | None = None
    """The last one with other content."""


def _path(here: Places) -> str:
    return f"{here.directory}/{REPORTS}"


def former(here: Places, month: str) -> ReportHistory:
    """Return the stored reports of a month (YYYY-MM); nothing if the file is missing, unreadable or damaged."""
    found = _read(here).get(month)
    with suppress(TypeError, ValueError, AttributeError):
        last, before = found or (None, None)
        return ReportHistory(_said(last), _said(before))
    return ReportHistory()


def _said(one: Any) -> PreviousReport | None:
    if one is None:
        return None
    written_s, incarnation, seq, usage, places = one
    for figures in (usage, places):
        for name, numbers in figures.items():
            if not isinstance(name, str) or not all(isinstance(number, int | float) for number in numbers):
                raise TypeError(name)
    return PreviousReport(int(written_s), str(incarnation), int(seq), usage, places)


def compared_with(known: ReportHistory, now: PreviousReport, *, is_unchanged: bool) -> PreviousReport | None:
    """Return the report to compare with; ``is_unchanged``: no job of the month was logged since the last one."""
    if known.last is not None and is_unchanged and _same(known.last, now):
        return known.before
    return known.last


def _same(last: PreviousReport, now: PreviousReport) -> bool:
    return last.usage == now.usage and (last.places == now.places or not now.places)


def save(here: Places, month: str, known: ReportHistory, now: PreviousReport, *, is_unchanged: bool) -> None:
    """Store the content of this report. Raises OSError if this user may not write."""
    if known.last is not None and is_unchanged and _same(known.last, now):
        return
    every = _read(here)
    # If a report did not compare the places, those of the report before it stay.
    said = now if now.places or known.last is None else now._replace(places=known.last.places)
    every[month] = [said, known.last]
    path = _path(here)
    temporary = f"{path}.{os.getpid()}"
    try:
        # The rest of a killed process.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with open(temporary, "xb", opener=private) as file:
            file.write(json.dumps(every, sort_keys=True).encode())
            own_as(file.fileno(), here.directory)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _read(here: Places) -> dict[str, Any]:
    try:
        with open(_path(here), "rb") as file:
            found = parsed(file.read(_LARGEST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


# The pledges of a site to its VOs, from a file: ``vo,from,hours,kind``. Hours per month, from a month (YYYY-MM) on,
# until another line of the same VO and kind starts.


PLEDGE_HEADER = ("vo", "from", "hours", "kind")
KINDS = {"core": "core_hours", "cpu": "cpu_hours", "hs06": "hs06_hours", "hepscore23": "hepscore23_hours"}
"""The kinds of pledges, and the column of usage for each."""
_WLCG_YEAR = 4
"""WLCG's pledges are for years from April to March."""
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


class Pledge(NamedTuple):
    """The pledge to a VO in a month."""

    vo: str
    kind: str
    hours: float
    year_month: int
    """
    The first month of the pledge's year, 1 to 12: April, as for WLCG, if a line of it starts in April; else the month
    of its first line.
    """


def pledges(path: str, month: Month) -> list[Pledge]:
    """
    The pledges valid in a month, by VO and kind; the first line may have the names of the columns.

    Empty lines and lines that start with # are ignored. Raises InputError with the number of a line that is wrong.
    """
    found: dict[tuple[str, str], tuple[Month, float]] = {}
    lines = set[tuple[str, str, Month]]()
    for number, fields in _lines(path, PLEDGE_HEADER):
        if len(fields) != len(PLEDGE_HEADER):
            right = f"write {','.join(PLEDGE_HEADER)}, as atlas,2026-04,120000,core"
            raise _wrong(path, number, f"{_wrong_columns(fields)} {right}")
        vo, begins, hours, kind = fields
        match = _MONTH.fullmatch(begins)
        if match is None:
            raise _wrong(path, number, f"{begins!r} is not a month; write it like 2026-11")
        if kind not in KINDS:
            raise _wrong(path, number, f"{kind!r} is not a kind of hours; write one of {', '.join(KINDS)}")
        if not vo:
            raise _wrong(path, number, "no VO is named; write its name in the first column")
        start = int(match[1]), int(match[2])
        amount = _hours(hours)
        if amount is None:
            raise _wrong(path, number, f"{hours!r} is not an amount; write hours a month, as 120000")
        if (vo, kind, start) in lines:
            raise _wrong(path, number, f"VO {vo!r} has a pledge of {kind} from {begins} already; remove one of the two")
        lines.add((vo, kind, start))
        known = found.get((vo, kind))
        if start <= month and (known is None or known[0] < start):
            found[vo, kind] = start, amount
    year_months: dict[tuple[str, str], int] = {}
    for vo, kind, (_year, number) in sorted(lines, key=lambda line: (line[2][1] != _WLCG_YEAR, line)):
        year_months.setdefault((vo, kind), number)
    return [Pledge(vo, kind, amount, year_months[vo, kind]) for (vo, kind), (_start, amount) in sorted(found.items())]


def _lines(path: str, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """
    Yield the number and the fields of each line of a CSV file that people wrote, without comments and header.

    Raises InputError.
    """
    lines = read_text(path, _LARGEST_BYTES, "remove lines of former years").split("\n")
    text = "\n".join("" if line.lstrip().startswith("#") else line for line in lines)
    try:
        for number, row in csv_rows(text):
            fields = [field.strip() for field in row]
            if fields != [""] and tuple(map(str.lower, fields)) != header:
                yield number, fields
    except ValueError as error:
        raise InputError(f"{path}, {error}") from None


def _wrong_columns(fields: Sequence[str]) -> str:
    for name, separator in (("semicolon", ";"), ("tab", "\t")):
        if ",".join(fields).count(separator) == len(PLEDGE_HEADER) - 1:
            return f"the separator is a {name}; it must be a comma:"
    return f"{count_of(len(fields), 'column')};"


def _hours(text: str) -> float | None:
    try:
        hours = float(text)
    except ValueError:
        return None
    return hours if math.isfinite(hours) and hours >= 0 else None


def _wrong(path: str, number: int, text: str) -> InputError:
    return InputError(f"{path}:{number}: {text}")


# Energy and carbon of jobs: measured if a source has a measurement, else the core time times watts of the site's table.
# The energy is that of machines. The site's PUE adds cooling and supply; the grid's intensity gives the emissions of a
# kWh.


INTENSITY_HEADER = ("time", "gco2e_per_kwh")
J_PER_KWH = 3_600_000
_DAY_S = 86_400
_STEP_S = 1800
"""Grids publish their intensity for half hours at the finest."""


class EnergyModel(NamedTuple):
    """The site's values for its machines, its building and its grid."""

    cpu_watts: tuple[CPUWatts, ...] = ()
    core_watts: float | None = None
    """Watts of cores of a CPU that no line names; ``None``: their energy is unknown."""
    pue: float | None = None
    carbon_intensity: str | None = None
    """A number of g CO2e per kWh, or the path of a table by time."""

    @property
    def estimates(self) -> bool:
        """Whether the energy of any job can be computed without a measurement."""
        return self.core_watts is not None or bool(self.cpu_watts)

    def watts(self, model: str | None) -> float | None:
        """Return W per core of a CPU model, from the first line that matches; ``None``: unknown."""
        for one in self.cpu_watts if model else ():
            if fnmatchcase(model or "", one.pattern):
                return one.watts
        return self.core_watts


class Energy(NamedTuple):
    """The energy of the jobs of a VO."""

    measured_j: float = 0.0
    estimated_j: float = 0.0
    carbon_g: float | None = None
    """With the PUE; ``None``: the intensity is unknown for all parts."""
    unknown_core_s: float = 0.0
    """Core time whose energy is neither measured nor estimated."""
    uncharged_j: float = 0.0
    """Energy at times with unknown intensity."""

    def plus(self, other: Energy) -> Energy:
        """Return the sum of both."""
        known = [carbon for carbon in (self.carbon_g, other.carbon_g) if carbon is not None]
        return Energy(
            self.measured_j + other.measured_j,
            self.estimated_j + other.estimated_j,
            sum(known) if known else None,
            self.unknown_core_s + other.unknown_core_s,
            self.uncharged_j + other.uncharged_j,
        )


class Grid:
    """The intensity of the grid, in g CO2e per kWh, as steps: each value is valid until the next."""

    def __init__(self, steps: Sequence[tuple[int, float]]) -> None:
        """``steps``: UTC seconds and values, sorted; the first may be at any time."""
        self._times = [time_s for time_s, _value in steps]
        self._values = [value for _time_s, value in steps]

    def of_day(self, day: int) -> float | None:
        """Return the mean of the known part of a day (since 1970); ``None`` before the first step."""
        found = []
        for at in range(day * _DAY_S, (day + 1) * _DAY_S, _STEP_S):
            place = bisect_right(self._times, at)
            if place:
                found.append(self._values[place - 1])
        return math.fsum(found) / len(found) if found else None


def grid(intensity: str | None) -> Grid:
    """
    Read the intensity of the grid: a number for all times, or a CSV file ``time,gco2e_per_kwh``.

    Times are ISO 8601, UTC without a zone. Raises InputError with the number of the wrong line.
    """
    if intensity is None:
        return Grid([])
    if not intensity.startswith("/"):
        return Grid([(-(2**62), float(intensity))])
    steps: dict[int, float] = {}
    for number, fields in _lines(intensity, INTENSITY_HEADER):
        try:
            written, value = fields
            when = datetime.fromisoformat(written)
            amount = float(value)
        except ValueError:
            when, amount = None, -1.0
        if when is None or not (math.isfinite(amount) and amount >= 0):
            right = f"{','.join(INTENSITY_HEADER)}, as 2026-11-20T10:00,312"
            raise InputError(f"{intensity}:{number}: no time and amount; write {right}")
        steps[int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())] = amount
    return Grid(sorted(steps.items()))


def energies(
    parts: Iterable[EnergyUse], model: EnergyModel, cpu_models: Mapping[str, str], known: Grid
) -> dict[str | None, Energy]:
    """
    Return the energy and the emissions of jobs, by VO.

    The energy that the batch system measured is that of the whole job, GPUs included; for other jobs the cores are
    estimated, and the telemetry of their GPUs is added. A job counts on the day on which it ended.
    """
    found: dict[str | None, Energy] = {}
    intensities: dict[int, float | None] = {}
    for part in parts:
        cpu = part.cpu_model or cpu_models.get((part.host or "").partition(".")[0])
        watts = model.watts(None if cpu is None else cpu.partition(";")[0])
        rest_s = part.core_s - part.measured_core_s
        measured_j = (part.energy_j or 0.0) + (part.gpu_energy_j or 0.0)
        estimated_j = rest_s * watts if watts is not None else 0.0
        energy_j = measured_j + estimated_j
        if part.day not in intensities:
            intensities[part.day] = known.of_day(part.day)
        intensity = intensities[part.day]
        carbon_g = None if intensity is None else energy_j / J_PER_KWH * (model.pue or 1.0) * intensity
        one = Energy(
            measured_j, estimated_j, carbon_g, rest_s if watts is None else 0.0, energy_j if intensity is None else 0.0
        )
        found[part.vo] = found.get(part.vo, Energy()).plus(one)
    return found
