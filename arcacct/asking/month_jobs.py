"""
The jobs of a month, and what a receiver has of them, on disk: a month of a large site would fill the memory.

What is asked of many jobs at once is asked in the order of their ids, in which both sides are read from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from arcacct.database.access import scratch
from arcacct.database.connection import Connection
from arcacct.publishing.sent import SentVersionAtEnd, digests_of
from arcacct.records.model import AAR
from arcacct.records.usage import Pruned

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
    """What is compared of a job."""

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
        """With some more."""
        return JobSums(self.jobs + jobs, self.wall_s + wall_s, self.cpu_s + cpu_s)


class NotedJobs(NamedTuple):
    """The jobs of a VO that a place has not, for one cause."""

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
        """How many of the jobs are in an archive: these count, and are known by no name."""

    @classmethod
    @contextmanager
    def of(
        cls,
        pages: Iterable[Sequence[AAR]],
        *,
        with_digests: bool,
        closed: Callable[[Sequence[int]], Collection[int]] = lambda _record_ids: (),
    ) -> Iterator[MonthJobs]:
        """
        Of records in pages; without their digests nobody can ask `sent`.

        ``closed``: which of some records are never sent again (`records.pseudonyms`), whatever they are since.
        """
        with scratch(_TABLES) as con:
            found = cls(con)
            con.execute("BEGIN")
            for page in pages:
                found._add(page, with_digests, closed([aar.record_id for aar in page]))
            con.execute("CREATE INDEX Jobs_JobID ON Jobs (JobID, VO, Digests)")
            con.execute("COMMIT")
            yield found

    def _add(self, page: Sequence[AAR], with_digests: bool, closed: Collection[int]) -> None:
        rows = []
        for aar in page:
            wall_s, cpu_s = aar.wall_s, aar.cpu_s
            vo = self._count(aar.vo, 1, wall_s, cpu_s)
            # Any version of the digest is found in all of them together: none is a part of two others.
            # Of those that are closed any one was sent.
            has_digests = with_digests and aar.record_id not in closed
            digests = b"".join(digests_of(aar)) if has_digests else None
            rows.append((aar.job_id, aar.record_id, aar.end_time, vo, _kept(wall_s), _kept(cpu_s), digests))
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
        """Count what is left of jobs that are in an archive."""
        for one in pruned:
            self._count(*one)
            self.pruned += one.jobs

    @property
    def vos(self) -> Collection[str | None]:
        """The VOs of the jobs; ``None``: jobs without one."""
        return self._vos.keys()

    def amount(self, vos: Collection[str | None]) -> JobSums:
        """The sums of the jobs of these VOs."""
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
        """Those of these jobs that are in the month, by id; some hundred at once."""
        names = tuple(job_ids)
        rows = self._con.execute(f"SELECT {_JOB} FROM Jobs WHERE JobID IN ({','.join('?' * len(names))})", names)
        return {job.job_id: job for job in map(_job, rows)}

    def _numbers(self, vos: Iterable[str | None]) -> str:
        return ",".join(str(self._vos[vo]) for vo in vos)

    def first_seen(self, job_ids: Sequence[str]) -> set[str]:
        """Which of these ids were in no earlier call."""
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
        """Remember why a place has not got these jobs."""
        rows = ((place, cause, job_id) for job_id in job_ids)
        self._con.executemany("INSERT INTO Noted VALUES (?, ?, ?)", rows)

    def example(self, vo: str | None) -> str:
        """The JobID of the first job of one of `vos`; all of it may be in an archive."""
        return next((job.job_id for job in self.wanted([vo])), "a pruned job")

    def by_vo(self, job_ids: Iterable[str]) -> dict[str | None, int]:
        """How many of these jobs, each counted once, each VO has."""
        self._con.execute("CREATE TEMP TABLE Asked (JobID TEXT PRIMARY KEY) WITHOUT ROWID")
        self._con.executemany("INSERT OR IGNORE INTO Asked VALUES (?)", ((job_id,) for job_id in job_ids))
        rows = self._con.execute("SELECT VO, count(*) FROM Asked CROSS JOIN Jobs USING (JobID) GROUP BY VO").fetchall()
        self._con.execute("DROP TABLE Asked")
        names = {number: vo for vo, number in self._vos.items()}
        return {names[vo]: count for vo, count in rows}

    def noted(self) -> list[NotedJobs]:
        """What was noted of jobs that are in the month, each of them once for a place and cause."""
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
        What a receiver has, from all that it was ever sent of the month, in that order.

        Of each key the last version counts; none with zeros (without digest), or whose key is ``unanswered``. ``vos``
        are those that the target wants. Takes the place of what was asked before.
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
            # Both indexes from end to end: by the places of the records SQLite would look up each job anew.
            f"CREATE TABLE Otherwise AS SELECT Place, Sent.JobID, Number, VO IN ({wanted}) AS IsWanted"
            " FROM Sent INDEXED BY Sent_JobID LEFT JOIN Jobs INDEXED BY Jobs_JobID ON Jobs.JobID = Sent.JobID"
            f" WHERE NOT ifnull(VO IN ({wanted}) AND (Digests IS NULL OR instr(Digests, Digest)), 0)"
        )
        con.execute("COMMIT")
        return ReceiverSide(con, wanted)

    def _keep_last(self, column: str) -> None:
        """Of rows with the same value, which an index leads to, the last one stays, in the place of the first."""
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
    """What a receiver has of a month, beside the jobs of the database; until the next receiver is asked for."""

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
        """Jobs that it has otherwise than the month; and those of them that the month has not, by their names."""

    def drop(self, job_ids: Iterable[str]) -> None:
        """These jobs are in another month at the receiver."""
        for table in ("Sent", "Otherwise"):
            self._con.executemany(f"DELETE FROM {table} WHERE JobID = ?", [(job_id,) for job_id in job_ids])
        self._look()

    @property
    def wall_s(self) -> int:
        """As it was sent."""
        return sum(wall_s for (wall_s,) in self._con.execute("SELECT Wall FROM Sent"))

    def missing(self) -> Iterator[MonthJob]:
        """The jobs that the target wants and the receiver has not, by their ends."""
        rows = self._con.execute(
            f"SELECT {_JOB} FROM Jobs WHERE VO IN ({self._vos})"
            " AND NOT EXISTS (SELECT 1 FROM Sent WHERE Sent.JobID = Jobs.JobID) ORDER BY Number"
        )
        return map(_job, rows)

    def otherwise(self) -> Iterator[tuple[str, MonthJob | None, bool]]:
        """What the receiver has and should not, or in another version: JobID, the job, and whether it is wanted."""
        for job_id, is_wanted, *row in self._con.execute(
            f"SELECT Otherwise.JobID, IsWanted, {_JOB} FROM Otherwise LEFT JOIN Jobs USING (Number) ORDER BY Place"
        ):
            yield job_id, None if row[0] is None else _job(row), bool(is_wanted)


def _job(row: Sequence[Any]) -> MonthJob:
    return MonthJob(*row[:3], *map(_number, row[3:]))


def _kept(number: float) -> float | str:
    """A sum as SQLite takes it, which knows no whole numbers above 2**63."""
    return str(number) if isinstance(number, int) and abs(number) > _LARGEST else number


def _number(kept: float | str) -> float:
    return int(kept) if isinstance(kept, str) else kept
