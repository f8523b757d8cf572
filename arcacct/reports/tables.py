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

# What a report consists of: tables of named rows and columns with units, which every form of it is made from.


Value = int | float | str | None
"""``None``: not known."""
TIDY = ("section", "key", "metric", "unit", "value", "estimated")
"""The columns of the CSV."""


class Column(NamedTuple):
    """One figure of each row."""

    name: str
    """With its unit, as in the CSV."""
    title: str
    """For people."""
    unit: str = ""
    is_estimated: bool = False
    """Computed from an assumption, and not measured: every form marks it."""


class Row(NamedTuple):
    """What a row is about, and its figures in the order of the columns."""

    key: str
    values: tuple[Value, ...]


class Table(NamedTuple):
    """A section of the report."""

    name: str
    title: str
    key: str
    """What its rows are about."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    total: Row | None = None
    notes: tuple[str, ...] = ()
    """Notes for reading it; also why it is empty."""
    naming: int = 0
    """So many of the first columns tell, with the key, what a row is about: no two rows have the same."""
    is_detail: bool = False
    """For programs and charts: too long for people."""

    def column(self, name: str) -> int:
        """The place of a column."""
        return next(place for place, column in enumerate(self.columns) if column.name == name)

    def row(self, key: str, figures: Mapping[str, Any]) -> Row:
        """A row of figures by the names of their columns."""
        return Row(key, tuple(figures[column.name] for column in self.columns))

    def number(self, row: Row, column: str) -> float:
        """A figure of a row; 0 where it is not known."""
        value = row.values[self.column(column)]
        return value if isinstance(value, int | float) else 0

    def filled(
        self, rows: Iterable[tuple[str, Mapping[str, Any]]], *most: str, notes: Iterable[str] = (), empty: str = ""
    ) -> Table:
        """
        With these rows: those with the most of the columns ``most`` together first, else as they come.

        ``empty`` is the only note where there is none.
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
    A name as people write it, for display alone: ``Mar\xC3\xADa`` is María.

    Escapes are decoded once, and a text that was taken for Latin-1 on the way and encoded a second time is taken back.
    What is no UTF-8 stays as it is.
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
    """Whether the month is published, in a sentence."""

    text: str
    is_well: bool


class Report(NamedTuple):
    """All that is said of a month."""

    site: str
    month: Month
    written_s: int
    """UTC seconds."""
    tables: tuple[Table, ...]
    verdict: Verdict | None = None
    """``None``: not requested."""
    basis: str = ""
    """What the figures rest on, in one line: how many jobs were measured, and have a benchmark."""
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


# What the records of a month say that no kept sum tells: how jobs failed, energy, what changed.
#
# Each question reads the records that end in the month, by the index of their ends, and none of another month.


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
    """As telemetry knows it of the job."""
    host: str | None
    """Of jobs without a CPU model: the node that the batch system named first."""
    core_s: float
    measured_core_s: float
    """Of jobs whose energy the batch system measured."""
    energy_j: float | None
    gpu_energy_j: float | None
    """Of GPUs of the other jobs."""


class Changes(NamedTuple):
    """What was logged since a moment, of jobs that end in a month now."""

    recorded: int
    """New ones."""
    corrected: int
    """Those that were finished before, and were otherwise."""


def failures(con: Connection, start_s: int, before_s: int) -> Iterator[Failed]:
    """The jobs that failed or were aborted, by how; reads every record of the time."""
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
    """What jobs drew; reads every record of the time, ``with_hosts`` also the nodes of those without telemetry."""
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
    """By the name of a node, without its domain: the CPU model that telemetry saw last before a moment."""
    rows = con.execute(
        "SELECT Name, CPUModel FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID WHERE CPUModel <> ''"
        " ORDER BY ValidFrom >= ? DESC, ValidFrom, Name",
        (before_s,),
    )
    return {name.partition(".")[0]: model for name, model in rows}


def last_seq(con: Connection) -> int:
    """The place of what was logged last."""
    return int(
        con.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()[0]
    )


def changes(con: Connection, seq: int, start_s: int, before_s: int) -> Changes:
    """What was logged after a place; reads all that was logged after it."""
    every, corrected = con.execute(
        "SELECT count(*), count(CASE WHEN EXISTS (SELECT 1 FROM PreviousVersions"
        " WHERE PreviousVersions.RecordID = AAR.RecordID AND PreviousVersions.Seq > ?1) THEN 1 END)"
        " FROM FinishedLog CROSS JOIN AAR USING (RecordID)"
        " WHERE FinishedLog.Seq > ?1 AND +EndTime >= ?2 AND +EndTime < ?3",
        (seq, start_s, before_s),
    ).fetchone()
    return Changes(every - corrected, corrected)


# The content of the last report of a month, to show later changes: a small file next to the databases.
#
# Two reports of the same data are one: the second compares with what the first compared with, so it says the same.


Figures = dict[str, list[float]]
"""By VO (of usage) or place (of publishing): its figures."""
_LARGEST_BYTES = 2**24


class PreviousReport(NamedTuple):
    """What a report said of its month."""

    written_s: int
    incarnation: str
    seq: int
    """Of FinishedLog: what was logged later was recorded or changed later. Of this incarnation alone."""
    usage: Figures
    """By VO: jobs, core hours, CPU hours."""
    places: Figures
    """By target: jobs that it was given; empty when publishing was not compared."""


class ReportHistory(NamedTuple):
    """The reports of a month that were remembered."""

    last: PreviousReport | None = None
    before: PreviousReport | None = None
    """One that said something else."""


def _path(here: Places) -> str:
    return f"{here.directory}/{REPORTS}"


def former(here: Places, month: str) -> ReportHistory:
    """What is remembered of a month (YYYY-MM); nothing where the file is missing, unreadable or damaged."""
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
    """The report to compare with; ``is_unchanged``: no job of the month was logged since the last one."""
    if known.last is not None and is_unchanged and _same(known.last, now):
        return known.before
    return known.last


def _same(last: PreviousReport, now: PreviousReport) -> bool:
    return last.usage == now.usage and (last.places == now.places or not now.places)


def save(here: Places, month: str, known: ReportHistory, now: PreviousReport, *, is_unchanged: bool) -> None:
    """Keep what this report says. Raises OSError where this user may not write."""
    if known.last is not None and is_unchanged and _same(known.last, now):
        return
    every = _read(here)
    # The places of a report that did not ask for them are those of the one before.
    said = now if now.places or known.last is None else now._replace(places=known.last.places)
    every[month] = [said, known.last]
    path = _path(here)
    temporary = f"{path}.{os.getpid()}"
    try:
        # What a killed process left.
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


# What a site has promised to its VOs, from a file of the site's: ``vo,from,hours,kind``.
#
# Hours a month, from a month (YYYY-MM) on until another line of the same VO and kind begins.


PLEDGE_HEADER = ("vo", "from", "hours", "kind")
KINDS = {"core": "core_hours", "cpu": "cpu_hours", "hs06": "hs06_hours", "hepscore23": "hepscore23_hours"}
"""What can be promised, and the column of usage that it is compared with."""
_WLCG_YEAR = 4
"""WLCG's pledges are for years from April to March."""
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


class Pledge(NamedTuple):
    """What is promised to a VO in a month."""

    vo: str
    kind: str
    hours: float
    year_month: int
    """
    The month, 1 to 12, with which the year of the pledge begins: April, as WLCG's, if a line of it does; else that of
    its first line.
    """


def pledges(path: str, month: Month) -> list[Pledge]:
    """
    The pledges valid in a month, by VO and kind; the first line may have the names of the columns.

    Empty lines and lines that begin with # are passed over. Raises InputError with the number of a line that is wrong.
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


# Energy and carbon of jobs: measured where a source measured, else the core time times watts of the site's table.
#
# Joules of machines; what cooling and supply take on top is the site's PUE, what a kWh emits the grid's intensity.


INTENSITY_HEADER = ("time", "gco2e_per_kwh")
J_PER_KWH = 3_600_000
_DAY_S = 86_400
_STEP_S = 1800
"""Grids publish their intensity for half hours at the finest."""


class EnergyModel(NamedTuple):
    """What the site says of its machines, its building and its grid."""

    cpu_watts: tuple[CPUWatts, ...] = ()
    core_watts: float | None = None
    """Of cores of a CPU that no line names; ``None``: their energy is not known."""
    pue: float | None = None
    carbon_intensity: str | None = None
    """A number of g CO2e per kWh, or the path of a table by time."""

    @property
    def estimates(self) -> bool:
        """Whether the energy of any job can be computed without a measurement."""
        return self.core_watts is not None or bool(self.cpu_watts)

    def watts(self, model: str | None) -> float | None:
        """W per core of a CPU model: of the first line that matches; ``None``: not known."""
        for one in self.cpu_watts if model else ():
            if fnmatchcase(model or "", one.pattern):
                return one.watts
        return self.core_watts


class Energy(NamedTuple):
    """What the jobs of a VO drew."""

    measured_j: float = 0.0
    estimated_j: float = 0.0
    carbon_g: float | None = None
    """With the PUE; ``None``: the intensity is not known of any part."""
    unknown_core_s: float = 0.0
    """Core time whose energy is neither measured nor estimated."""
    uncharged_j: float = 0.0
    """Energy at times with unknown intensity."""

    def plus(self, other: Energy) -> Energy:
        """Both together."""
        known = [carbon for carbon in (self.carbon_g, other.carbon_g) if carbon is not None]
        return Energy(
            self.measured_j + other.measured_j,
            self.estimated_j + other.estimated_j,
            sum(known) if known else None,
            self.unknown_core_s + other.unknown_core_s,
            self.uncharged_j + other.uncharged_j,
        )


class Grid:
    """The intensity of the grid, in g CO2e per kWh, as steps: each value holds until the next."""

    def __init__(self, steps: Sequence[tuple[int, float]]) -> None:
        """``steps``: UTC seconds and values, sorted; the first may be at any time."""
        self._times = [time_s for time_s, _value in steps]
        self._values = [value for _time_s, value in steps]

    def of_day(self, day: int) -> float | None:
        """The mean of a day (since 1970), of the part of it that is known; ``None`` before the first step."""
        found = []
        for at in range(day * _DAY_S, (day + 1) * _DAY_S, _STEP_S):
            place = bisect_right(self._times, at)
            if place:
                found.append(self._values[place - 1])
        return math.fsum(found) / len(found) if found else None


def grid(intensity: str | None) -> Grid:
    """
    What is known of the grid: a number for all times, or a CSV file ``time,gco2e_per_kwh``.

    Times are ISO 8601, UTC unless a zone is written. Raises InputError with the number of the line that is wrong.
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
    By VO: what its jobs drew, and emitted.

    The energy that the batch system measured is that of the whole job, GPUs included; of other jobs the cores are
    estimated, and what telemetry measured of their GPUs is added. A job counts on the day on which it ended.
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
