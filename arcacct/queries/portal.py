"""
The jobs of a month compared with a receiver's data, and an export of the EGI accounting portal compared with the
database.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from arcacct.benchmark import FALLBACK, parsed_benchmark
from arcacct.database.access import scratch
from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.files.json_reader import parsed
from arcacct.files.text_tables import csv_rows, read_text
from arcacct.publishing.ledger import UNKNOWN_DIGEST
from arcacct.publishing.sent import SentVersionAtEnd
from arcacct.records.model import AAR, UsageCell, has_value
from arcacct.records.reader import Ended
from arcacct.records.usage import Pruned
from arcacct.times import HOUR_S, Month, month_name
from arcacct.wording import count_of

# The jobs of a month, and the receiver's data about them, on disk: a month of a large site would fill the memory.
# Queries about many jobs are in the order of their ids, in which both sides are read from end to end.


_TABLES = """
    CREATE TABLE Jobs (
      Number INTEGER PRIMARY KEY, JobID TEXT, RecordID INTEGER, EndTime INTEGER, VO INTEGER, Wall, Cpu, Digests BLOB);
    CREATE TABLE Seen (JobID TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE Noted (Place TEXT, Cause TEXT, JobID TEXT);
"""
_SENT = """
    DROP TABLE IF EXISTS Sent;
    CREATE TABLE Sent (Place INTEGER PRIMARY KEY, Key TEXT, JobID TEXT, Digest BLOB, Wall);
    DROP TABLE IF EXISTS Otherwise;
"""
_JOB = "Jobs.JobID, RecordID, EndTime, Jobs.Wall, Cpu"
_SLICE = 500
_LARGEST = 2**63 - 1


class MonthJob(NamedTuple):
    """The compared values of a job."""

    job_id: str
    record_id: int
    end_time: int
    wall_s: int
    cpu_s: int


class JobSums(NamedTuple):
    """Sums of some jobs."""

    jobs: int = 0
    wall_s: int = 0
    cpu_s: int = 0

    def plus(self, jobs: int, wall_s: int, cpu_s: int) -> JobSums:
        """Return the sums with further jobs."""
        return JobSums(self.jobs + jobs, self.wall_s + wall_s, self.cpu_s + cpu_s)


class NotedJobs(NamedTuple):
    """The jobs of a VO that a place lacks, for one cause."""

    vo: str | None
    place: str
    cause: str
    jobs: int
    wall_s: float
    cpu_s: float
    example: str
    """The JobID of one of them."""


class MonthJobs:
    """The jobs of a month in the database, in the order of their ends."""

    def __init__(self, con: Connection) -> None:
        self._con = con
        self._vos: dict[str | None, int] = {}
        self._amounts: list[list[int]] = []
        self.pruned = 0
        """How many of the jobs are in an archive: these count, but have no names."""

    @classmethod
    @contextmanager
    def of(
        cls,
        pages: Iterable[Sequence[AAR] | Sequence[Ended]],
        *,
        digests: Sequence[Callable[[AAR], bytes]] | None,
        closed: Callable[[Sequence[int]], Collection[int]] = lambda _record_ids: (),
    ) -> Iterator[MonthJobs]:
        """
        Read the records in pages.

        `sent` needs ``digests``: the functions for those in the ledger (`sent.digests_in`). ``closed``: returns which
        of some records are never sent again (`records.pseudonyms`), even if they change.
        """
        with scratch(_TABLES) as con:
            found = cls(con)
            con.execute("BEGIN")
            for page in pages:
                found._add(page, digests, closed([aar.record_id for aar in page]))
            con.execute("CREATE INDEX Jobs_JobID ON Jobs (JobID, VO, Digests)")
            con.execute("COMMIT")
            yield found

    def _add(
        self,
        page: Sequence[AAR] | Sequence[Ended],
        digests: Sequence[Callable[[AAR], bytes]] | None,
        closed: Collection[int],
    ) -> None:
        rows = []
        for aar in page:
            wall_s, cpu_s = aar.wall_s, aar.cpu_s
            vo = self._count(aar.vo, 1, wall_s, cpu_s)
            # Each digest is found in all of them together: none is a part of two others. For closed records, any
            # version was sent.
            found = None
            if digests is not None and isinstance(aar, AAR) and aar.record_id not in closed:
                found = b"".join([digest(aar) for digest in digests])
            rows.append((aar.job_id, aar.record_id, aar.end_time, vo, _kept(wall_s), _kept(cpu_s), found))
        self._con.executemany(
            "INSERT INTO Jobs (JobID, RecordID, EndTime, VO, Wall, Cpu, Digests) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )

    def _count(self, name: str | None, jobs: int, wall_s: int, cpu_s: int) -> int:
        """Add to the sums of a VO; its number."""
        vo = self._vos.get(name)
        if vo is None:
            vo = self._vos[name] = len(self._vos)
            self._amounts.append([0, 0, 0])
        amount = self._amounts[vo]
        amount[0] += jobs
        amount[1] += wall_s
        amount[2] += cpu_s
        return vo

    def add_pruned(self, pruned: Iterable[Pruned]) -> None:
        """Count the remaining data of archived jobs."""
        for one in pruned:
            self._count(*one)
            self.pruned += one.jobs

    @property
    def vos(self) -> Collection[str | None]:
        """The VOs of the jobs; ``None``: jobs without one."""
        return self._vos.keys()

    def amount(self, vos: Collection[str | None]) -> JobSums:
        """Return the sums of the jobs of these VOs."""
        total = JobSums()
        for vo in vos:
            total = total.plus(*self._amounts[self._vos[vo]])
        return total

    def wanted(self, vos: Collection[str | None]) -> Iterator[MonthJob]:
        """The jobs of these VOs, by their ends."""
        return map(
            _job, self._con.execute(f"SELECT {_JOB} FROM Jobs WHERE VO IN ({self._numbers(vos)}) ORDER BY Number")
        )

    def find(self, job_ids: Iterable[str]) -> dict[str, MonthJob]:
        """Return those of these jobs that are in the month, by id, some hundred at once."""
        names = tuple(job_ids)
        rows = self._con.execute(f"SELECT {_JOB} FROM Jobs WHERE JobID IN ({','.join('?' * len(names))})", names)
        return {job.job_id: job for job in map(_job, rows)}

    def _numbers(self, vos: Iterable[str | None]) -> str:
        return ",".join(str(self._vos[vo]) for vo in vos)

    def first_seen(self, job_ids: Sequence[str]) -> set[str]:
        """Return those of these ids that were in no earlier call."""
        known: set[str] = set()
        for start in range(0, len(job_ids), _SLICE):
            some = job_ids[start : start + _SLICE]
            known.update(
                job_id
                for (job_id,) in self._con.execute(
                    f"SELECT JobID FROM Seen WHERE JobID IN ({','.join('?' * len(some))})", some
                )
            )
        new = set(job_ids) - known
        self._con.executemany("INSERT INTO Seen VALUES (?)", [(job_id,) for job_id in new])
        return new

    def note(self, place: str, cause: str, job_ids: Iterable[str]) -> None:
        """Store why a place lacks these jobs."""
        rows = ((place, cause, job_id) for job_id in job_ids)
        self._con.executemany("INSERT INTO Noted VALUES (?, ?, ?)", rows)

    def example(self, vo: str | None) -> str:
        """Return the JobID of the first job of one of `vos`; all jobs may be in an archive."""
        return next((job.job_id for job in self.wanted([vo])), "a pruned job")

    def by_vo(self, job_ids: Iterable[str]) -> dict[str | None, int]:
        """Count these jobs by VO, each once."""
        self._con.execute("CREATE TEMP TABLE Asked (JobID TEXT PRIMARY KEY) WITHOUT ROWID")
        self._con.executemany("INSERT OR IGNORE INTO Asked VALUES (?)", ((job_id,) for job_id in job_ids))
        rows = self._con.execute("SELECT VO, count(*) FROM Asked CROSS JOIN Jobs USING (JobID) GROUP BY VO").fetchall()
        self._con.execute("DROP TABLE Asked")
        names = {number: vo for vo, number in self._vos.items()}
        return {names[vo]: count for vo, count in rows}

    def noted(self) -> list[NotedJobs]:
        """Return the noted jobs of the month, each once for a place and cause."""
        names = {number: vo for vo, number in self._vos.items()}
        rows = self._con.execute(
            "SELECT VO, Place, Cause, count(*), total(Wall), total(Cpu), min(Jobs.JobID)"
            " FROM (SELECT DISTINCT Place, Cause, JobID FROM Noted) AS Why JOIN Jobs ON Jobs.JobID = Why.JobID"
            " GROUP BY VO, Place, Cause ORDER BY Place, Cause"
        )
        return [NotedJobs(names[vo], *values) for vo, *values in rows]

    def sent(
        self, versions: Iterable[SentVersionAtEnd], unanswered: Collection[str], vos: Collection[str | None]
    ) -> ReceiverSide:
        """
        Return the receiver's data, from all records of the month that it was ever sent, in that order.

        The last version of each key counts, except zeros (without digest) and keys that are ``unanswered``. ``vos`` are
        those that the target wants. Replaces the result of an earlier call.
        """
        con, wanted = self._con, self._numbers(vos)
        con.executescript(_SENT)
        con.execute("BEGIN")
        con.executemany("INSERT INTO Sent (Key, JobID, Digest, Wall) VALUES (?, ?, ?, ?)", versions)
        con.execute("CREATE INDEX Sent_Key ON Sent (Key)")
        self._keep_last("Key")
        con.execute("DELETE FROM Sent WHERE length(Digest) = 0")
        con.executemany("DELETE FROM Sent WHERE Key = ?", ((key,) for key in unanswered))
        con.execute("DROP INDEX Sent_Key")
        con.execute("CREATE INDEX Sent_JobID ON Sent (JobID, Digest)")
        self._keep_last("JobID")
        con.execute(
            # Both indexes from end to end: by the positions of the records SQLite would look up each job separately.
            f"CREATE TABLE Otherwise AS SELECT Place, Sent.JobID, Number, VO IN ({wanted}) AS IsWanted"
            " FROM Sent INDEXED BY Sent_JobID LEFT JOIN Jobs INDEXED BY Jobs_JobID ON Jobs.JobID = Sent.JobID"
            # The digest of an unknown version is one byte, which a digest may contain.
            f" WHERE NOT ifnull(VO IN ({wanted}) AND (Digests IS NULL OR (Digest <> ? AND instr(Digests, Digest))), 0)",
            (UNKNOWN_DIGEST,),
        )
        con.execute("COMMIT")
        return ReceiverSide(con, wanted)

    def _keep_last(self, column: str) -> None:
        """Keep the last of several rows with the same value in an index, in the place of the first."""
        self._con.execute(
            f"CREATE TABLE Again AS SELECT {column} AS Name, min(Place) AS First, max(Place) AS Last FROM Sent"
            f" GROUP BY {column} HAVING count(*) > 1"
        )
        self._con.execute(
            "INSERT OR REPLACE INTO Sent SELECT First, Key, JobID, Digest, Wall FROM Again JOIN Sent ON Place = Last"
        )
        self._con.execute(
            f"DELETE FROM Sent WHERE Place IN (SELECT Place FROM Again JOIN Sent ON {column} = Name"
            " WHERE Place <> First)"
        )
        self._con.execute("DROP TABLE Again")


class ReceiverSide:
    """A receiver's data of a month, next to the jobs of the database; valid until the next receiver is requested."""

    def __init__(self, con: Connection, vos: str) -> None:
        self._con = con
        self._vos = vos
        self._look()

    def _look(self) -> None:
        con = self._con
        (self.jobs,) = con.execute("SELECT count(*) FROM Sent").fetchone()
        self.differing, self.gone = con.execute(
            "SELECT count(*), count(*) FILTER (WHERE Number IS NULL) FROM Otherwise"
        ).fetchone()
        """Jobs that differ at the receiver; and those of them that the month lacks, by their names."""

    def drop(self, job_ids: Iterable[str]) -> None:
        """Note that these jobs are in another month at the receiver."""
        for table in ("Sent", "Otherwise"):
            self._con.executemany(f"DELETE FROM {table} WHERE JobID = ?", [(job_id,) for job_id in job_ids])
        self._look()

    @property
    def wall_s(self) -> int:
        """The wall time that was sent."""
        return sum(wall_s for (wall_s,) in self._con.execute("SELECT Wall FROM Sent"))

    def missing(self) -> Iterator[MonthJob]:
        """Return the jobs that the target wants and the receiver lacks, by their ends."""
        rows = self._con.execute(
            f"SELECT {_JOB} FROM Jobs WHERE VO IN ({self._vos})"
            " AND NOT EXISTS (SELECT 1 FROM Sent WHERE Sent.JobID = Jobs.JobID) ORDER BY Number"
        )
        return map(_job, rows)

    def otherwise(self) -> Iterator[tuple[str, MonthJob | None, bool]]:
        """Return what the receiver has without need, or in another version: JobID, the job, whether it is wanted."""
        for job_id, is_wanted, *row in self._con.execute(
            f"SELECT Otherwise.JobID, IsWanted, {_JOB} FROM Otherwise LEFT JOIN Jobs USING (Number) ORDER BY Place"
        ):
            yield job_id, None if row[0] is None else _job(row), bool(is_wanted)


def _job(row: Sequence[Any]) -> MonthJob:
    return MonthJob(*row[:3], *(int(kept) if isinstance(kept, str) else kept for kept in row[3:]))


def _kept(number: float) -> float | str:
    """A sum as SQLite takes it, which knows no whole numbers above 2**63."""
    return str(number) if isinstance(number, int) and abs(number) > _LARGEST else number


# Compare an export of the EGI accounting portal with the database: by VO, in jobs or in hours, and why they differ.
# Only the portal shows APEL's final result: every earlier answer is only a promise.


_NAMES_OF_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NO_ROW = re.compile(r"\s*(total|percent(age)?|%|[xy]legend|var)?\s*", re.IGNORECASE)
_NO_VO = "no VO"
_ALL = "in all"
_SHOWN = 5
_MOST_BYTES = 8 * 2**20
_TOO_MUCH = 1e18

NOT_SENT = "not sent yet"
HELD = "held"
ASIDE = "quarantined"
FILTERED = "not selected"
BEFORE = "before the target began"
CHANGED = "changed since it was sent"
LATER = "sent after the export was made"
GONE = "sent, but no longer in the database"
SITE = "another site name"
BENCHMARK = "another benchmark"
LESS = "less at the portal"
MORE = "more at the portal"
ONLY_THERE = "at the portal only"
NOT_THERE = "not at the portal at all"

TODO = {
    NOT_SENT: "the next `arcacct publish` sends them",
    HELD: "`arcacct status` shows the cause, `arcacct publish --accept-lower MONTH` sends them",
    ASIDE: "`arcacct quarantine list` shows the reasons",
    FILTERED: "no target of this portal selects this VO: check vofilter=, then `arcacct republish`",
    BEFORE: "`arcacct republish` sends them",
    CHANGED: "the next `arcacct publish` sends the correction",
    LATER: "the portal counts once a day: compare with a newer export",
    GONE: "a correction sends zeros for them, or `arcacct job JOBID` shows them",
    SITE: "export the table of the site in gocdb_name=",
    BENCHMARK: "`arcacct stats --by benchmark` shows what is recorded, `arcacct db benchmark --plan` a correction",
    LESS: "not arrived, or not summarised yet: wait a day, then `arcacct republish`",
    MORE: "another CE or program of the site, or counted twice under two keys",
    ONLY_THERE: "another CE or program of the site, or published before under another VO",
    NOT_THERE: "sent under another VO, or a rejected message: `arcacct republish`",
}
"""Each cause of a difference, with what to do about it or where to look next."""


class Export(NamedTuple):
    """The data of one month in an export."""

    measure: str
    """A name of `MEASURES`."""
    values: dict[str, float]
    """By the name of the row or column, as written there: usually a VO."""

    @property
    def total(self) -> float:
        """The total of all names."""
        return sum(self.values.values())


class PortalContext(NamedTuple):
    """The known facts about the way to the portal, to find causes."""

    noted: Sequence[NotedJobs] = ()
    """Jobs that a target lacks, or no longer has, by VO; places are targets and causes of `TODO`."""
    resent: Mapping[str, int] = {}
    """By VO in lower case: jobs that were sent (perhaps again) since the export."""
    sites: Sequence[str] = ()
    """The names of the site at the portal."""
    unselected: Mapping[str, str] = {}
    """By VO in lower case that no target selects: JobID of one of its jobs."""
    surplus: Mapping[str, int] = {}
    """By VO in lower case: job records with zeros, which the portal counts as jobs."""
    same_jobs: Sequence[str] = ()
    """VOs in lower case with the same number of jobs at the portal, by another export."""


class PortalRow(NamedTuple):
    """A VO in an export and here; amounts are jobs, or hours."""

    name: str
    there: float | None
    """``None``: it has no row."""
    here: float
    causes: tuple[str, ...]
    """Why they differ; empty: they agree."""


class Compared(NamedTuple):
    """An export compared with the database; amounts are jobs, or hours."""

    measure: str
    found: float
    ours: float
    rows: list[PortalRow]
    differences: list[str]
    """In words, one for each cause, with what to do."""


MEASURES: dict[str, Callable[[UsageCell], float]] = {
    "jobs": lambda cell: float(cell.jobs),
    "wall hours": lambda cell: cell.wall_s / HOUR_S,
    "CPU hours": lambda cell: cell.cpu_s / HOUR_S,
    "core hours": lambda cell: cell.wall_s * max(cell.core_count, 1) / HOUR_S,
}
"""The measures of the portal's tables (also normalised hours), and the matching value of a usage cell."""
_NORMALISED = "normalised "
_SAME_RATIO = 0.005


def compare_portal(path: str, month: Month, cells: Sequence[UsageCell], known: PortalContext | None = None) -> Compared:
    """
    Compare one export with the usage cells of the same month. Raises InputError for a file without such a table.

    Hours are rounded there: they agree if they differ by less than one hour for each VO.
    """
    known = known or PortalContext()
    table = read_portal(path, month)
    jobs: Counter[str] = Counter()
    ours: dict[str, float] = {}
    for cell in cells:
        amount = MEASURES[table.measure.removeprefix(_NORMALISED)](cell)
        if table.measure.startswith(_NORMALISED):
            amount *= (parsed_benchmark(cell.benchmark) or FALLBACK).normalised(1) / 10**6
        name = folded_vo(cell.vo)
        ours[name] = ours.get(name, 0.0) + amount
        jobs[name] += cell.jobs
    found = {folded_vo(name): value for name, value in table.values.items()}
    total = sum(ours.values())
    if ours and not ours.keys() & found.keys():
        # A table by another dimension, such as sites: only a sum can be compared.
        sites = [found[site.casefold()] for site in known.sites if site.casefold() in found]
        found = {_ALL: sum(sites) if sites else table.total}
        expected = total + (sum(known.surplus.values()) if table.measure == "jobs" else 0)
        rows = [_row(_ALL, found[_ALL], total, table.measure, [] if sites or not known.sites else [SITE], expected)]
        return Compared(table.measure, found[_ALL], total, rows, _texts(rows, known, table.measure, jobs))
    ratio = _common_ratio(table.measure, found, ours, known)
    rows = []
    for name in sorted(found.keys() | ours.keys()):
        there, here = found.get(name), ours.get(name, 0.0)
        causes = _known_causes(name, there or 0.0, here, known)
        if name in ratio:
            causes = [BENCHMARK]
        expected = here + (known.surplus.get(name, 0) if table.measure == "jobs" else 0)
        rows.append(_row(name, there, here, table.measure, causes, expected))
    return Compared(table.measure, table.total, total, rows, _texts(rows, known, table.measure, jobs))


def folded_vo(vo: str | None) -> str:
    """Return a VO in the form for comparison. APEL and its portal write ``None`` for jobs without one."""
    return (vo if vo and has_value(vo) else _NO_VO).casefold()


def _row(
    name: str, there: float | None, here: float, measure: str, causes: Sequence[str], expected: float
) -> PortalRow:
    if abs((there or 0.0) - expected) < (0.5 if measure == "jobs" else 1.0):
        return PortalRow(name, there, here, ())
    return PortalRow(name, there, here, tuple(causes) or (_cause(there, here),))


def _cause(there: float | None, here: float) -> str:
    """Return the cause that the two figures alone show."""
    if there is None:
        return NOT_THERE
    if not here:
        return ONLY_THERE
    return LESS if there < here else MORE


def _known_causes(name: str, there: float, here: float, known: PortalContext) -> list[str]:
    """Why a VO may have more or less at the portal than here, as far as it is known here."""
    if name in known.unselected:
        return [FILTERED]
    of_vo = dict.fromkeys(one.cause for one in known.noted if folded_vo(one.vo) == name)
    if there > here:
        return [cause for cause in of_vo if cause in (GONE, CHANGED)]
    found = [cause for cause in of_vo if cause != GONE]
    return [*found, LATER] if known.resent.get(name) else found


def _common_ratio(
    measure: str, found: Mapping[str, float], ours: Mapping[str, float], known: PortalContext
) -> Mapping[str, float]:
    """
    The VOs whose normalised hours differ by a benchmark, each with its portion at the portal.

    Their jobs are all there, as another export says; or all VOs, more than one of them, have the same portion.
    """
    if not measure.startswith(_NORMALISED):
        return {}
    ratios = {name: found[name] / ours[name] for name in found.keys() & ours.keys() if ours[name] and found[name]}
    same = {name: ratio for name, ratio in ratios.items() if name in known.same_jobs}
    if same:
        return same
    spread = max(ratios.values(), default=1.0) / min(ratios.values(), default=1.0) - 1
    return ratios if len(ratios) > 1 and spread < _SAME_RATIO and not known.noted else {}


def _texts(rows: Iterable[PortalRow], known: PortalContext, measure: str, jobs: Mapping[str, int]) -> list[str]:
    """One text for each cause: what to do, the VOs with both figures, and an example."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        figures = f"{row.name} {row.there or 0:.0f}, in the database {row.here:.0f}"
        for cause in row.causes:
            groups.setdefault(cause, []).append(figures + _example(row, cause, known, measure, jobs))
    return [
        f"{cause} ({TODO[cause]}): {'; '.join(names[:_SHOWN])}"
        f"{f'; and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''}"
        for cause, names in groups.items()
    ]


def _example(row: PortalRow, cause: str, known: PortalContext, measure: str, jobs: Mapping[str, int]) -> str:
    """Return how much of a difference a cause explains, and one of its jobs."""
    if cause == FILTERED:
        return f" (job {known.unselected[row.name]})"
    if cause == LATER:
        return f" (up to {known.resent[row.name]} of its {count_of(jobs.get(row.name, 0), 'job')})"
    if cause == BENCHMARK and row.there is not None:
        return f" ({row.there / row.here:.4f} of it)"
    told = [one for one in known.noted if folded_vo(one.vo) == row.name and one.cause == cause]
    if not told:
        return ""
    texts = []
    for one in told:
        hours = (one.cpu_s if "CPU" in measure else one.wall_s) / HOUR_S
        of_time = "" if measure == "jobs" else f" of {hours:.0f} {'CPU' if 'CPU' in measure else 'wall'} h"
        texts.append(f"{count_of(one.jobs, 'job')}{of_time} by {one.place}, as {one.example}")
    return f" ({', '.join(texts)})"


def read_portal(path: str, month: Month) -> Export:
    """
    Return the data of a month in an export.

    One dimension of the table must be months. Rows and columns of totals and percentages are ignored; the title has the
    measure of the table, by default jobs. Raises InputError if the file has no such table.
    """
    rows = _rows(path)
    for number, header in enumerate(rows):
        places = [place for place, cell in enumerate(header) if _month_of(cell) == month]
        if places and number + 1 < len(rows) and (places[0] > 0 or (len(header) > 1 and _month_of(header[1]))):
            below = [row for row in rows[number + 1 :] if len(row) > places[0] and not _NO_ROW.fullmatch(row[0])]
            found = _by_name(((row[0], row[places[0]]) for row in below), path)
            return Export(_measure(rows[: number + 1]), found)
    for number, row in enumerate(rows):
        if number and _month_of(row[0]) == month:
            # Months may be directly above it: the header is above them.
            above = number - 1
            while above > 0 and _month_of(rows[above][0]) is not None:
                above -= 1
            names = rows[above]
            cells = zip(names[1:], row[1:], strict=False)
            named = ((name or "all", cell) for name, cell in cells if not _NO_ROW.fullmatch(name) or not name)
            found = _by_name(named, path)
            return Export(_measure(rows[: above + 1]), found)
    raise InputError(
        f"{path}: no {month_name(month)} in it; export a table of the number of jobs with months on one side"
    )


def _by_name(cells: Iterable[tuple[str, str]], path: str) -> dict[str, float]:
    """The amounts by name. Raises InputError for a name that comes twice: one amount would hide the other."""
    found: dict[str, float] = {}
    for name, cell in cells:
        if folded_vo(name) in map(folded_vo, found):
            raise InputError(f"{path}: {name[:40]!r} appears twice; export one table, with one row for each name")
        found[name] = _number(cell, path)
    return found


def _rows(path: str) -> list[list[str]]:
    """The rows of a CSV export, or of one in JSON with the same rows. Raises InputError for anything else."""
    text = read_text(path, _MOST_BYTES, "export one table from the portal, as CSV or JSON")
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return _rows_of(parsed(text))
        except ValueError as error:
            raise InputError(f"{path}: no table in this JSON: {error}; export it from the portal as CSV") from error
    delimiter = ";" if text.count(";") > text.count(",") else ","
    try:
        return [[cell.strip() for cell in row] for _line, row in csv_rows(text, delimiter) if any(row)]
    except ValueError as error:
        raise InputError(f"{path}, {error}") from None


def _rows_of(found: object) -> list[list[str]]:
    """
    Rows of JSON: a list of objects whose first value is a name, or an object of names with an object for each.

    The measure of the table may be next to it, as any text. Raises ValueError.
    """
    title: list[str] = []
    if isinstance(found, dict):
        title = [value for value in found.values() if isinstance(value, str)]
        lists = [value for value in found.values() if isinstance(value, list)]
        named = {name: value for name, value in found.items() if isinstance(value, dict)}
        found = lists[0] if lists else [{"id": name, **value} for name, value in named.items()]
    objects = [one for one in found if isinstance(one, dict) and one] if isinstance(found, list) else []
    if not objects:
        raise ValueError("it has no list of objects")
    title += [str(one["var"]) for one in objects if isinstance(one.get("var"), str)]
    columns = list(dict.fromkeys(key for one in objects for key in one))
    names = [column for column in columns if _month_of(column) is None]
    first = next((name for name in ("id", "vo", "VO", "name", "Date", "date") if name in names), names[:1] and names[0])
    if not first:
        raise ValueError("its rows have no names")
    columns = [first, *(column for column in columns if column != first)]
    rows = [["" if one.get(column) is None else str(one[column]).strip() for column in columns] for one in objects]
    return [[" ".join(title)], columns, *rows]


def _measure(above: Sequence[Sequence[str]]) -> str:
    """Return the measure of a table, by the words of its title and of its header's first cell."""
    title = " ".join([*(" ".join(row) for row in above[:-1]), above[-1][0] if above else ""]).lower()
    normalised = _NORMALISED if re.search("norm|hepspec|hs06|hepscore|hs23", title) else ""
    if re.search(r"number of jobs|njobs|\bjobs\b", title):
        return "jobs"
    if re.search("processors|cores?|multi", title) and re.search("elap|wall|hours", title):
        return f"{normalised}core hours"
    if "cpu" in title:
        return f"{normalised}CPU hours"
    if re.search("elap|wall", title):
        return f"{normalised}wall hours"
    return "jobs"


def _month_of(text: str) -> Month | None:
    """``2026-11``, ``11/2026``, ``Nov 2026``, ``November 2026``; ``None`` for anything else."""
    found = re.fullmatch(r"(\d{4})[-/](\d{1,2})", text)
    if found:
        return int(found[1]), int(found[2])
    found = re.fullmatch(r"(\d{1,2})[-/](\d{4})", text)
    if found:
        return int(found[2]), int(found[1])
    found = re.fullmatch(r"([A-Za-z]{3})[a-z]*\.?[ -](\d{4})", text)
    if found and found[1].lower() in _NAMES_OF_MONTHS:
        return int(found[2]), _NAMES_OF_MONTHS.index(found[1].lower()) + 1
    return None


def _number(text: str, path: str) -> float:
    plain = text.replace(",", "").replace(" ", "").replace("\N{NO-BREAK SPACE}", "")
    try:
        number = float(plain or "0")
    except ValueError:
        number = math.nan
    if not 0 <= number < _TOO_MUCH:
        raise InputError(f"{path}: {text[:40]!r} is not an amount; export the table without units")
    return number
