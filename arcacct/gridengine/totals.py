"""
qacct's questions: which records, summed by what; and its table, character for character.

Sums are over records, not jobs, so the wall clock of tasks of parallel jobs counts as well; that is how qacct counts.
What it lacks is beside it: wall clock times slots, where tasks do not count twice, and the efficiency made from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from arcacct.gridengine.record import Record

DAY_S = 86_400
_US = 1_000_000


class Column(NamedTuple):
    """Something that records can be summed by."""

    title: str
    field: str
    """Of a record."""
    meaning: str
    unknown: str | int = "NONE"
    """What qacct shows for what is unknown."""

    def of(self, record: Record) -> str | int:
        """Its value in a record."""
        return getattr(record, self.field) or self.unknown


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
"""In the order of qacct's columns."""


class Question(NamedTuple):
    """Which records, summed by what."""

    by: tuple[str, ...] = ()
    """Names of COLUMNS; in whatever order they are asked for, they come in qacct's."""
    wanted: tuple[tuple[str, str], ...] = ()
    """``(column, shell pattern)``; all have to match."""
    from_s: int | None = None
    """Begun (or, with ``on_end``, ended) at this time or later."""
    until_s: int | None = None
    """... at this time or before."""
    on_end: bool = False
    masters: bool = False
    """Only the records of jobs themselves, not of tasks of parallel jobs."""

    def asks_for(self, record: Record) -> bool:
        """Whether a record is one of those."""
        when = (record.end_time_us if self.on_end else record.start_time_us) // _US
        return (
            (self.from_s is None or when >= self.from_s)
            and (self.until_s is None or when <= self.until_s)
            and not (self.masters and record.pe_taskid is not None)
            and all(_matches(record, column, pattern) for column, pattern in self.wanted)
        )

    def key(self, record: Record) -> tuple[str | int, ...]:
        """What a record is summed by."""
        return tuple([COLUMNS[name].of(record) for name in self.columns])

    @property
    def columns(self) -> tuple[str, ...]:
        """What is asked by, in qacct's order."""
        return tuple(name for name in COLUMNS if name in self.by)


class Sum(NamedTuple):
    """Some records together."""

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

    def plus(self, record: Record) -> Sum:
        """The sum with one more record."""
        wall = record.ru_wallclock_s
        return Sum(
            self.records + 1,
            self.wallclock_s + wall,
            self.utime_s + record.ru_utime_s,
            self.stime_s + record.ru_stime_s,
            self.cpu_s + (record.cpu_s or 0.0),
            self.memory_gib_s + (record.mem_gib_s or 0.0),
            self.io_gib + (record.io_gib or 0.0),
            self.iow_s + (record.iow_s or 0.0),
            self.slot_wallclock_s + (wall * record.slots if record.pe_taskid is None else 0.0),
        )

    @property
    def cpu_efficiency(self) -> float | None:
        """CPU time over wall clock times slots; ``None`` where nothing ran."""
        return round(self.cpu_s / self.slot_wallclock_s, 4) if self.slot_wallclock_s else None


Row = tuple[tuple[str | int, ...], Sum]


def window(from_s: int | None, until_s: int | None, days: int | None, now: int) -> tuple[int | None, int | None]:
    """Begin and end of the time that is asked for, as qacct combines -b, -e and -d (which is ignored beside both)."""
    if days is None or (from_s is not None and until_s is not None):
        return from_s, until_s
    if from_s is not None:
        return from_s, from_s + days * DAY_S
    if until_s is not None:
        return until_s - days * DAY_S, until_s
    return now - days * DAY_S, None


def sums(records: Iterable[Record], question: Question) -> list[Row]:
    """One row for each combination of what is asked by, sorted; a single one if nothing is, also without records."""
    found: dict[tuple[str | int, ...], Sum] = {} if question.by else {(): Sum()}
    for record in records:
        if question.asks_for(record):
            key = question.key(record)
            found[key] = found.get(key, Sum()).plus(record)
    return sorted(found.items())


def table(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The rows with all that is known: the columns asked by, the sums, the efficiency."""
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
    """How wide qacct makes a column: as the longest value, or the one that is asked for, and a blank."""
    if name in ("slots", "ar"):
        return 5 if wanted is not None else 6
    texts = [str(value) for value in values] or [wanted or ""]
    return max(len(COLUMNS[name].title), *map(len, texts)) + 1


def _matches(record: Record, column: str, pattern: str) -> bool:
    value = str(COLUMNS[column].of(record))
    if column == "host":
        value, pattern = value.lower(), pattern.lower()
    if column == "queue" and fnmatchcase(f"{value}@{record.hostname}", pattern):
        return True
    return value == pattern or fnmatchcase(value, pattern)
