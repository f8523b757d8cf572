"""qacct's questions, asked of the database or of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from arcacct.database.connection import Connection, connect
from arcacct.errors import InputError
from arcacct.files.follow import FileTailer, Overlong
from arcacct.records.rejected import Fault
from arcacct.sources.gridengine.accounting_file import Origin, read
from arcacct.sources.gridengine.importer import column
from arcacct.sources.gridengine.record import STORED, Record, failed_text
from arcacct.times import DAY_S
from arcacct.wording import Causes, count_of

# qacct's questions: the records, the columns to sum by, and qacct's table, identical to the character.
#
# Sums are over records, not jobs, as in qacct. So the wall clock of the tasks of parallel jobs counts as well. Two
# values are extra: wall clock times slots, which counts no task twice, and the efficiency from it.


_US = 1_000_000


class Column(NamedTuple):
    """A column that records can be summed by."""

    title: str
    field: str
    """The field of a record."""
    meaning: str
    unknown: str | int = "NONE"
    """The text or number that qacct shows for an unknown value."""


COLUMNS: dict[str, Column] = {
    "host": Column("HOST", "hostname", "execution host"),
    "queue": Column("CLUSTER QUEUE", "qname", "cluster queue, or queue@host"),
    "group": Column("GROUP", "group", "group of the owner"),
    "owner": Column("OWNER", "owner", "account that the job ran under"),
    "project": Column("PROJECT", "project", "project"),
    "department": Column("DEPARTMENT", "department", "department"),
    "pe": Column("PE", "granted_pe", "parallel environment"),
    "slots": Column("SLOTS", "slots", "number of slots", 0),
    "ar": Column("AR", "arid", "advance reservation", 0),
    "account": Column("ACCOUNT", "account", "account string (qsub -A)"),
}
"""The columns, in qacct's order."""


class Question(NamedTuple):
    """The records to select, and the columns to sum by."""

    by: tuple[str, ...] = ()
    """Names of COLUMNS. The result has them in qacct's order."""
    wanted: tuple[tuple[str, str], ...] = ()
    """``(column, shell pattern)``. All of them must match."""
    from_s: int | None = None
    """Only records that started (or, with ``on_end``, ended) at or after this time."""
    until_s: int | None = None
    """Only records that started (or ended) at or before this time."""
    on_end: bool = False
    masters: bool = False
    """Only the records of jobs themselves, not of tasks of parallel jobs."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to sum by, in qacct's order."""
        return tuple(name for name in COLUMNS if name in self.by)


class Sum(NamedTuple):
    """The sum of some records."""

    records: int = 0
    wallclock_s: float = 0.0
    utime_s: float = 0.0
    stime_s: float = 0.0
    cpu_s: float = 0.0
    memory_gib_s: float = 0.0
    io_gib: float = 0.0
    iow_s: float = 0.0
    slot_wallclock_s: float = 0.0
    """Wall clock times slots, of the records of jobs themselves."""

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU time over wall clock times slots; ``None`` where nothing ran."""
        return round(self.cpu_s / self.slot_wallclock_s, 4) if self.slot_wallclock_s else None


Row = tuple[tuple[str | int, ...], Sum]


def window(from_s: int | None, until_s: int | None, days: int | None, now: int) -> tuple[int | None, int | None]:
    """Return the start and end of the period, as qacct combines -b, -e and -d. With both -b and -e, -d is ignored."""
    if days is None or (from_s is not None and until_s is not None):
        return from_s, until_s
    if from_s is not None:
        return from_s, from_s + days * DAY_S
    if until_s is not None:
        return until_s - days * DAY_S, until_s
    return now - days * DAY_S, None


def table(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return the rows with all values: the columns to sum by, the sums, the efficiency."""
    return [
        (*key, *(value if isinstance(value, int) else round(value, 6) for value in total), total.cpu_efficiency)
        for key, total in rows
    ]


def table_columns(question: Question) -> tuple[str, ...]:
    """The names of the columns of `table`."""
    return (*question.columns, *Sum._fields, "cpu_efficiency")


def qacct_lines(question: Question, rows: list[Row]) -> Iterator[str]:
    """The rows as qacct prints them."""
    if not question.by:
        yield "Total System Usage"
    wanted = dict(question.wanted)
    widths = [
        _width(name, wanted.get(name), [key[place] for key, _ in rows]) for place, name in enumerate(question.columns)
    ]
    titles = [COLUMNS[name].title.ljust(width) for name, width in zip(question.columns, widths, strict=True)]
    header = "".join(titles) + (
        f"{'WALLCLOCK':>13} {'UTIME':>13} {'STIME':>13} {'CPU':>13} {'MEMORY':>18} {'IO':>18} {'IOW':>18}"
    )
    yield header
    yield "=" * len(header)
    for key, total in rows:
        cells = [f"{value:5}" if isinstance(value, int) else value for value in key]
        yield "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + (
            f"{total.wallclock_s:13.0f} {total.utime_s:13.3f} {total.stime_s:13.3f} {total.cpu_s:13.3f}"
            f" {total.memory_gib_s:18.3f} {total.io_gib:18.3f} {total.iow_s:18.3f}"
        )


def _width(name: str, wanted: str | None, values: list[str | int]) -> int:
    """Return the width of a column in qacct: the longest value, or the requested value, plus one blank."""
    if name in ("slots", "ar"):
        return 5 if wanted is not None else 6
    texts = [str(value) for value in values] or [wanted or ""]
    return max(len(COLUMNS[name].title), *map(len, texts)) + 1


# Answer qacct's questions from the records in the database.


_VALUES = {name: f"coalesce({column(one.field)}, {one.unknown!r})" for name, one in COLUMNS.items()}
_SUMS = (
    "count(*), total(RuWallclock), total(RuUtime), total(RuStime), total(Cpu), total(Mem), total(Io), total(Iow),"
    " total(CASE WHEN PeTaskID IS NULL THEN RuWallclock * Slots ELSE 0 END)"
)
_IN_SHORT = (
    *("job_number", "task_number", "pe_taskid", "job_name", "owner", "qname", "hostname", "slots"),
    *("submission_time_iso", "start_time_iso", "end_time_iso", "failed_text", "exit_status"),
    *("ru_wallclock_s", "cpu_s", "maxvmem_bytes", "job_id"),
)


class Tasks(NamedTuple):
    """A range of tasks of array jobs: ``N[-M[:STEP]]``."""

    first: int
    last: int
    step: int


def database_sums(con: Connection, question: Question) -> list[Row]:
    """Return one sorted row for each combination of the columns to sum by; without columns one row."""
    where, values = _where(question)
    columns = "".join(f"{_VALUES[name]}, " for name in question.columns)
    numbers = ", ".join(str(place) for place in range(1, len(question.columns) + 1))
    rows = con.execute(
        f"SELECT {columns}{_SUMS} FROM GridEngineRecords WHERE {where}"
        + (f" GROUP BY {numbers} ORDER BY {numbers}" if numbers else ""),
        values,
    )
    width = len(question.columns)
    return [(row[:width], Sum._make(row[width:])) for row in rows]


def records(
    con: Connection, job: str, tasks: Tasks | None, question: Question, *, everything: bool
) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
    """
    Return columns and rows of the records of a job number, or of every job with a matching name, in order of time.

    ``everything``: all columns of v1_gridengine_records, not only a few. Raises InputError when there are no records.
    """
    where, values = _of_job(con, job, tasks, question)
    condition = f"record_no IN (SELECT RecordNo FROM GridEngineRecords WHERE {where})"
    all_columns = con.execute("SELECT name FROM pragma_table_info('v1_gridengine_records')")
    columns = tuple(name for (name,) in all_columns) if everything else _IN_SHORT
    rows = con.execute(
        f"SELECT {', '.join(columns)} FROM v1_gridengine_records WHERE {condition}"
        " ORDER BY job_number, task_number, coalesce(start_time, submission_time, 0), end_time, pe_taskid IS NULL",
        values,
    )
    return columns, rows


def _of_job(
    con: Connection, job: str, tasks: Tasks | None, question: Question, place: str = "of Grid Engine"
) -> tuple[str, list[object]]:
    """Return the condition for the records of a job. Raises InputError when there are none."""
    where, values = _where(question)
    if job.isascii() and job.isdecimal():
        where, values = f"{where} AND JobNumber = ?", [*values, int(job)]
    else:
        where, values = f"{where} AND (JobName = ? OR JobName GLOB ?)", [*values, job, _glob(job)]
    if tasks is not None:
        where += " AND TaskNumber BETWEEN ? AND ? AND (TaskNumber - ?) % ? = 0"
        values += [tasks.first, tasks.last, tasks.first, tasks.step]
    if con.execute(f"SELECT 1 FROM GridEngineRecords WHERE {where} LIMIT 1", values).fetchone() is None:
        which = "" if tasks is None else f", with a task from {tasks.first} to {tasks.last} in steps of {tasks.step}"
        raise InputError(f"{job}: no record {place} has this job number or name{which}")
    return where, values


def _glob(pattern: str) -> str:
    """Return a pattern of a shell as one of SQLite."""
    return pattern.replace("[!", "[^")


def _where(question: Question) -> tuple[str, list[object]]:
    conditions = ["1"]
    values: list[object] = []
    when = "EndTimeUs" if question.on_end else "StartTimeUs"
    if question.from_s is not None:
        conditions.append(f"{when} >= ?")
        values.append(question.from_s * _US)
    if question.until_s is not None:
        conditions.append(f"{when} < ?")
        values.append((question.until_s + 1) * _US)
    if question.masters:
        conditions.append("PeTaskID IS NULL")
    for name, pattern in question.wanted:
        value = f"CAST({_VALUES[name]} AS TEXT)"
        if name == "queue":
            conditions.append(f"({value} = ? OR {value} GLOB ? OR {value} || '@' || coalesce(Hostname, '') GLOB ?)")
            values += [pattern, _glob(pattern), _glob(pattern)]
        else:
            # Host names do not depend on upper or lower case.
            is_host = name == "host"
            conditions.append("(lower({0}) = ? OR lower({0}) GLOB ?)" if is_host else "({0} = ? OR {0} GLOB ?)")
            conditions[-1] = conditions[-1].format(value)
            text = pattern.lower() if is_host else pattern
            values += [text, _glob(text)]
    return " AND ".join(conditions), values


# The same questions about files, without an import.


ALL_COLUMNS = (*STORED, "usage")
"""All values of a record. `usage` holds those without a field."""
_TIMES = {name: f"{name.removesuffix('_us')}_iso" for name in ("submission_time_us", "start_time_us", "end_time_us")}
_BLOCK = "=" * 62


class FileRecords:
    """
    The records of some files in a temporary database, each line as often as it is there: ``con`` can be asked.

    ``say`` gets messages about bad lines, one for each reason, and about files that cannot be read.
    """

    def __init__(self, paths: Sequence[str], say: Callable[[str], None]) -> None:
        self._paths = paths
        self._say = say
        self.bad_lines = 0
        self.unreadable = 0
        self.con = connect("")
        self.con.execute(f"CREATE TABLE GridEngineRecords ({', '.join(map(column, ALL_COLUMNS))})")
        marks = ", ".join("?" * len(ALL_COLUMNS))
        rows = (_row(one) for path in paths for one in self._file(path))
        self.con.executemany(f"INSERT INTO GridEngineRecords VALUES ({marks})", rows)

    def of_job(self, job: str, tasks: Tasks | None, question: Question) -> Iterator[tuple[Any, ...]]:
        """Return the same records as `records`, in ALL_COLUMNS, in the order of the files."""
        where, values = _of_job(self.con, job, tasks, question, f"in {', '.join(self._paths)}")
        return self.con.execute(f"SELECT * FROM GridEngineRecords WHERE {where} ORDER BY rowid", values)

    def _cannot_read(self, complaint: str) -> None:
        self._say(complaint)
        self.unreadable += 1

    def _file(self, path: str) -> Iterator[Record]:
        causes = Causes()
        for reader in FileTailer([path], self._cannot_read).once():
            for lines in reader.lines():
                if isinstance(lines, Overlong):
                    reader.position = lines.after
                    continue
                before, reader.position = reader.position.lines, reader.position.after(lines)
                for one in read(lines, Origin()):
                    if isinstance(one.what, Record):
                        yield one.what
                    elif isinstance(one.what, Fault):
                        self.bad_lines += 1
                        number = before + int(one.position.removeprefix("line "))
                        causes.add(f"{reader.path}:{number}", f"{one.what.reason}; left out")
            for line in causes.take():
                self._say(line)
            if reader.left_bytes:
                self._say(
                    f"{reader.path}: the last line is incomplete ({count_of(reader.left_bytes, 'byte')}): left out"
                )


def _row(record: Record) -> tuple[Any, ...]:
    usage = (f"{group}.{name}={value}" if group else f"{name}={value}" for group, name, value in record.custom)
    return (*record[1:-3], ", ".join(usage) or None)


def block(row: tuple[Any, ...]) -> Iterator[str]:
    """Yield the lines of a record as qacct lists it, one for each value. Times are UTC. The names include the units."""
    yield _BLOCK
    for name, value in zip(ALL_COLUMNS, row, strict=True):
        if name in _TIMES:
            when = datetime.fromtimestamp(value / _US, UTC) if value else None
            yield f"{_TIMES[name]:<22}{'-/-' if when is None else when.isoformat(sep=' ')}"
        elif value is not None:
            yield f"{name:<22}{failed_text(value) if name == 'failed' else value}"
