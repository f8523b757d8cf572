"""
Monthly usage, kept up to date in short transactions; jobs packed for targets; earlier versions of changed records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.records import packing, reader
from arcacct.records.hold_decisions import judge_former, settle
from arcacct.records.model import UsageCell
from arcacct.records.reader import LAST_SECOND, auth_groups_of, unescaped, unescaped_name

# The sums that `stats` is answered from: finer than the monthly cells that summaries are made of, and advanced with
# them.
#
# A job counts in one row of each kind, and JobUsageShares remembers which, so that corrections are exact and pruned
# jobs stay counted.


class BreakdownKind(NamedTuple):
    """One of the ways in which UsageBreakdown sums jobs; jobs of each are told apart by cores and benchmark, too."""

    number: int
    contribution: str
    """The column of JobUsageShares that has the row."""
    period: str
    """Of a row of Slice, in SQL: its month (202611) or its day (since 1970)."""
    extra_columns: frozenset[str]
    """The further columns that its rows are told apart by."""


_BOTH = frozenset({"VOID", "FQAN", "EndpointID", "QueueID", "StatusID", "Project"})
OF_MONTHS = BreakdownKind(1, "MonthID", "Slice.Month", _BOTH | {"UserID"})
OF_DAYS = BreakdownKind(2, "DayID", "CAST(Slice.EndTime / 86400 AS INTEGER)", _BOTH)
OF_HOSTS = BreakdownKind(3, "HostID", "Slice.Month", frozenset({"Host", "StatusID"}))
_KINDS = (OF_MONTHS, OF_DAYS, OF_HOSTS)
_UNTOLD = {
    "UserID": "0", "VOID": "0", "FQAN": "''", "EndpointID": "0", "QueueID": "0", "StatusID": "0", "Project": "''",
    "Host": "''",
}  # fmt: skip
"""The columns that not every kind tells apart, each with what it has where that is so."""

USED = "QueueID, StatusID, Project, Host, StageIn, StageOut"
"""What Slice has of a record for these sums, beside what the monthly cells need."""
_LARGEST = 2**53
_NOW = f"""
    SELECT RecordID, QueueID, StatusID,
           coalesce((SELECT InfoValue FROM JobExtraInfo AS Extra
                      -- The plus keeps SQLite off the index of InfoKey, which has all records under one key.
                      WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'projectname'
                      ORDER BY Extra.rowid LIMIT 1), '') AS Project,
           coalesce((SELECT substr(InfoValue, 1, instr(InfoValue || ':', ':') - 1) FROM JobExtraInfo AS Extra
                      WHERE Extra.RecordID = AAR.RecordID AND +InfoKey IN ('nodenames', 'nodename')
                      ORDER BY Extra.rowid LIMIT 1), '') AS Host,
           CASE WHEN StageInVolume BETWEEN 0 AND {_LARGEST} THEN StageInVolume ELSE 0 END AS StageIn,
           CASE WHEN StageOutVolume BETWEEN 0 AND {_LARGEST} THEN StageOutVolume ELSE 0 END AS StageOut
      FROM AAR
"""
"""That of each record, as `stats` counts it."""
_FINER_AMOUNTS = ("Wall", "Cpu", "StageIn", "StageOut", "NoWall", "NoCpu", "WallNoCpu")
"""What a job adds; NoWall, NoCpu: 1 where nobody measured that; WallNoCpu: its clock time without CPU time."""


def _key(kind: BreakdownKind) -> dict[str, str]:
    """What the row for a row of Slice has in each column of its key."""
    told = {column: f"Slice.{column}" if column in kind.extra_columns else untold for column, untold in _UNTOLD.items()}
    return {
        "Kind": str(kind.number),
        "Period": kind.period,
        **told,
        "CPUCount": "Slice.CPUCount",
        "Benchmark": "Slice.Benchmark",
    }


def _row_of(kind: BreakdownKind) -> str:
    same = " AND ".join(f"UsageBreakdown.{column} = {value}" for column, value in _key(kind).items())
    return f"(SELECT FinerID FROM UsageBreakdown WHERE {same})"


def _count(kind: BreakdownKind, sign: str) -> str:
    """Add (``+``) what the records of a slice contribute by JobUsageShares, or take it out (``-``)."""
    changed = ", ".join(
        f"{column} = UsageBreakdown.{column} {sign} Part.{column}" for column in ("Jobs", *_FINER_AMOUNTS)
    )
    summed = ", ".join(f"sum(JobUsageShares.{column}) AS {column}" for column in _FINER_AMOUNTS)
    return (
        f"UPDATE UsageBreakdown SET {changed} FROM (SELECT {kind.contribution} AS FinerID, count(*) AS Jobs, {summed}"
        " FROM Slice CROSS JOIN JobUsageShares USING (RecordID) GROUP BY 1) AS Part"
        " WHERE UsageBreakdown.FinerID = Part.FinerID"
    )


TAKE_OUT = tuple(_count(kind, "-") for kind in _KINDS)
"""What the records of a slice have contributed, before it changes."""
PUT_IN = (
    # Of a job that is pruned nobody knows these any more.
    f"""
    UPDATE Slice SET ({USED}) = (SELECT {USED} FROM ({_NOW}) AS Now WHERE Now.RecordID = Slice.RecordID)
    """,
    """
    UPDATE Slice SET QueueID = 0, StatusID = 0, Project = '', Host = '', StageIn = 0, StageOut = 0
     WHERE QueueID IS NULL
    """,
    *(
        f"INSERT OR IGNORE INTO UsageBreakdown ({', '.join(key)}) SELECT DISTINCT {', '.join(key.values())} FROM Slice"
        for key in map(_key, _KINDS)
    ),
    f"""
    UPDATE JobUsageShares SET ({", ".join(kind.contribution for kind in _KINDS)}, StageIn, StageOut) =
      (SELECT {", ".join(map(_row_of, _KINDS))}, Slice.StageIn, Slice.StageOut
         FROM Slice WHERE Slice.RecordID = JobUsageShares.RecordID)
     WHERE RecordID IN (SELECT RecordID FROM Slice)
    """,
    *(_count(kind, "+") for kind in _KINDS),
)
"""The contributions of a slice that are in the monthly cells and in no finer one."""


def _told(values: Iterable[str]) -> str:
    return " || ' ' || ".join(f"ifnull({value}, 'none')" for value in values)


_ROWS_OF_RECORD = (
    "SELECT 'record ' || RecordID || ': is in the finer cells, with volumes, ' || Kept || ', belongs into '"
    " || ifnull(Live, 'none')"
    f" FROM (SELECT RecordID, {_told((*(kind.contribution for kind in _KINDS), 'StageIn', 'StageOut'))} AS Kept,"
    f" (SELECT {_told((*map(_row_of, _KINDS), 'Slice.StageIn', 'Slice.StageOut'))}"
    f" FROM (SELECT * FROM RecordUsage JOIN ({_NOW}\n) USING (RecordID)) AS Slice"
    " WHERE Slice.RecordID = JobUsageShares.RecordID) AS Live FROM JobUsageShares"
    " WHERE MonthID IS NOT NULL AND EXISTS (SELECT 1 FROM AAR WHERE AAR.RecordID = JobUsageShares.RecordID)"
    " AND NOT EXISTS (SELECT 1 FROM FinishedLog WHERE FinishedLog.RecordID = JobUsageShares.RecordID"
    " AND Seq > (SELECT Seq FROM UsageCursor))) WHERE Kept IS NOT Live"
)


def _wrong_sums(kind: BreakdownKind) -> str:
    summed = ", ".join(f"sum({column}) AS {column}" for column in _FINER_AMOUNTS)
    return (
        "SELECT 'finer cell ' || FinerID || ': sums are not those of its jobs' FROM UsageBreakdown"
        f" LEFT JOIN (SELECT {kind.contribution} AS FinerID, count(*) AS Jobs, {summed} FROM JobUsageShares GROUP BY 1)"
        f" AS Part USING (FinerID) WHERE Kind = {kind.number} AND"
        f" (UsageBreakdown.Jobs, {', '.join(f'UsageBreakdown.{column}' for column in _FINER_AMOUNTS)})"
        f" IS NOT (ifnull(Part.Jobs, 0), {', '.join(f'ifnull(Part.{column}, 0)' for column in _FINER_AMOUNTS)})"
    )


DIFFERENCES = " UNION ALL ".join((_ROWS_OF_RECORD, *map(_wrong_sums, _KINDS)))
"""Where the finer cells are not what a recount of the records gives, in words; those that wait are left out."""


# Monthly usage cells: advanced in short transactions by the commands that write, never by the hook (INVARIANTS 6).
#
# They move with their own position in FinishedLog, in one transaction with it, and independent of what is delivered.


Month = tuple[int, int]

_SLICE_S = 0.03
_FIRST_SLICE, _LARGEST_SLICE = 500, 20_000
_AT_ONCE = 1_000

_KEY = "Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups"
_SAME_KEY = " AND ".join(f"MonthlyUsage.{column} = Slice.{column}" for column in _KEY.split(", "))
_OF_RECORD = ("Wall", "Cpu", "NoWall", "NoCpu")
"""What a record contributes, by the columns of RecordUsage; NoWall, NoCpu: 1 where nobody measured that."""
_USED = f"EndTime, {', '.join(_OF_RECORD)}"
_AMOUNTS = (*_OF_RECORD, "WallNoCpu")
"""What is summed, by the columns of JobUsageShares and MonthlyUsage; WallNoCpu: clock time of jobs without CPU time."""

_COUNT = f"""
    UPDATE MonthlyUsage SET Jobs = MonthlyUsage.Jobs {{0}} Part.Jobs,
                     {", ".join(f"{one} = MonthlyUsage.{one} {{0}} Part.{one}" for one in _AMOUNTS)}, ChangedSeq = :last
      FROM (SELECT CellID, count(*) AS Jobs, {", ".join(f"sum(JobUsageShares.{one}) AS {one}" for one in _AMOUNTS)}
              FROM Slice CROSS JOIN JobUsageShares USING (RecordID) GROUP BY CellID) AS Part
     WHERE MonthlyUsage.CellID = Part.CellID
"""
_ADVANCE = (
    "DELETE FROM Slice",
    "INSERT INTO Slice (RecordID) SELECT RecordID FROM FinishedLog WHERE Seq > :first AND Seq <= :last",
    # Not a LEFT JOIN: SQLite would make up the usage of every record for it.
    f"""
    UPDATE Slice SET ({_KEY}, {_USED}) =
      (SELECT {_KEY}, {_USED} FROM RecordUsage WHERE RecordUsage.RecordID = Slice.RecordID)
    """,
    # What the records contributed before ...
    _COUNT.format("-"),
    *TAKE_OUT,
    "DELETE FROM JobUsageShares WHERE RecordID IN (SELECT RecordID FROM Slice)",
    # ... and what they contribute now; a deleted record has no month and contributes nothing.
    f"""
    INSERT OR IGNORE INTO MonthlyUsage ({_KEY}, ChangedSeq)
    SELECT DISTINCT {_KEY}, :last FROM Slice WHERE Month IS NOT NULL
    """,
    f"""
    INSERT INTO JobUsageShares (RecordID, CellID, EndTime, {", ".join(_AMOUNTS)})
    SELECT RecordID, CellID, EndTime, {", ".join(f"Slice.{one}" for one in _OF_RECORD)}, Slice.NoCpu * Slice.Wall
      FROM Slice JOIN MonthlyUsage ON {_SAME_KEY}
    """,
    _COUNT.format("+"),
    """
    UPDATE MonthlyUsage
       SET Earliest = (SELECT min(EndTime) FROM JobUsageShares WHERE JobUsageShares.CellID = MonthlyUsage.CellID),
           Latest = (SELECT max(EndTime) FROM JobUsageShares WHERE JobUsageShares.CellID = MonthlyUsage.CellID)
     WHERE ChangedSeq = :last
    """,
    "UPDATE UsageCursor SET Seq = :last",
)
_REFINE = (
    "DELETE FROM Slice",
    f"""
    INSERT INTO Slice (RecordID, {_KEY}, {_USED})
    SELECT RecordID, {_KEY}, EndTime, {", ".join(f"JobUsageShares.{one}" for one in _OF_RECORD)}
      FROM (SELECT * FROM JobUsageShares WHERE MonthID IS NULL ORDER BY RecordID LIMIT :size) AS JobUsageShares
     CROSS JOIN MonthlyUsage USING (CellID)
    """,
    *PUT_IN,
)


class Pruned(NamedTuple):
    """Usage of a VO that is left of pruned jobs; times are seconds."""

    vo: str | None
    jobs: int
    wall_s: int
    cpu_s: int


def update_monthly(con: Connection, here: Places) -> int:
    """
    Bring the monthly cells up to the end of FinishedLog, in slices of some 30 ms; returns how many records that took.

    Raises StoreError and SQLite's errors; interrupted anywhere, the next call goes on. What an older program recorded
    is judged first (`implausible`): what no publisher has read of it may be held. So may jobs without a wall time.
    """
    judge_former(con, here)
    settle(con, here)
    return _in_slices(con, here, _advance)


def update_breakdown(con: Connection, here: Places, *, everything: bool = False) -> int:
    """
    Bring what the monthly cells have into the finer ones that `stats` reads; slices, result and errors of
    `update_monthly`.

    Not ``everything`` at once, but so much that nothing waits for long: a command that has just recorded ten thousand
    jobs is to be done. What waits costs who asks, who then reads its records.
    """
    waiting = con.execute("SELECT count(*) FROM JobUsageShares WHERE MonthID IS NULL").fetchone()[0]
    return (
        _in_slices(con, here, _refine, most=waiting if everything else max(_AT_ONCE, waiting // 10)) if waiting else 0
    )


def _in_slices(
    con: Connection, here: Places, work: Callable[[Connection, int], int], *, most: int | None = None
) -> int:
    """Do the work for some records at a time, until there are fewer than it would have taken."""
    con.execute(f"CREATE TEMP TABLE IF NOT EXISTS Slice (RecordID INTEGER PRIMARY KEY, {_KEY}, {_USED}, {USED})")
    size, total = _FIRST_SLICE, 0
    while True:
        begun = time.monotonic()
        with writing(con, here):
            wanted = size if most is None else min(size, most - total)
            count = work(con, wanted)
        total += count
        if count < wanted or total == most:
            return total
        elapsed = time.monotonic() - begun
        size = max(50, min(_LARGEST_SLICE, int(wanted * _SLICE_S / max(elapsed, 1e-4))))


def _advance(con: Connection, size: int) -> int:
    """The next records of the log."""
    first = position(con)
    last, count = con.execute(
        "SELECT max(Seq), count(*) FROM (SELECT Seq FROM FinishedLog WHERE Seq > ? ORDER BY Seq LIMIT ?)", (first, size)
    ).fetchone()
    for statement in _ADVANCE if count else ():
        con.execute(statement, {"first": first, "last": last})
    return int(count)


def _refine(con: Connection, size: int) -> int:
    """The next contributions that are not in the finer cells."""
    for statement in _REFINE:
        con.execute(statement, {"size": size})
    return int(con.execute("SELECT count(*) FROM Slice").fetchone()[0])


def recount(con: Connection, record_ids: Iterable[int]) -> None:
    """
    Bring records that were counted already into the sums where they belong now; the finer ones follow by
    `update_breakdown`.

    Inside the caller's transaction, behind an `update_monthly`: no place in the log is moved, and no month is changed
    by it.
    """
    con.execute("DELETE FROM Slice")
    con.executemany("INSERT INTO Slice (RecordID) VALUES (?)", [(record_id,) for record_id in record_ids])
    for statement in _ADVANCE[2:-1]:
        con.execute(statement, {"last": _NOWHERE})
    con.execute("UPDATE MonthlyUsage SET ChangedSeq = 0 WHERE ChangedSeq = ?", (_NOWHERE,))


_NOWHERE = -1
"""A place that no log has."""


def position(con: Connection) -> int:
    """The Seq up to which the cells are."""
    return int(con.execute("SELECT Seq FROM UsageCursor").fetchone()[0])


def months_changed_after(con: Connection, seq: int) -> set[Month]:
    """The months in which anything changed after ``seq``, also those that a job left."""
    rows = con.execute(
        """
        SELECT Month FROM MonthlyUsage WHERE ChangedSeq > :seq
        UNION
        SELECT Month FROM FinishedLog CROSS JOIN RecordUsage USING (RecordID)
         WHERE Seq > :seq AND Seq > (SELECT Seq FROM UsageCursor)
        UNION
        SELECT Month FROM FinishedLog CROSS JOIN JobUsageShares USING (RecordID) CROSS JOIN MonthlyUsage USING (CellID)
         WHERE Seq > :seq AND Seq > (SELECT Seq FROM UsageCursor)
        """,
        {"seq": seq},
    )
    return {(month // 100, month % 100) for (month,) in rows}


# LEFT: a name that is missing must not make jobs disappear from their sum.
_NAMED = """
    SELECT Month, Users.Name, WLCGVOs.Name, FQAN, URL, NodeCount, CPUCount, Benchmark, Jobs, Wall, Cpu,
           Earliest, Latest, AuthGroups, NoWall, NoCpu
      FROM {cells}
      LEFT JOIN Users ON Users.ID = UserID
      LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID
      LEFT JOIN Endpoints ON Endpoints.ID = EndpointID
     WHERE {chosen}
"""


def usage_cells(con: Connection, months: Iterable[Month] | None = None) -> list[UsageCell]:
    """The cells of some months, or all: the present, also where the cells are not up to date."""
    chosen = "Jobs > 0" if months is None else f"Jobs > 0 AND {_in(months)}"
    return _cells(con.execute(_NAMED.format(cells=_present(con), chosen=chosen)))


def _present(con: Connection) -> str:
    """The table, or the view, of the cells as they are now: the view takes its time to find that nothing changed."""
    tail = con.execute("SELECT 1 FROM FinishedLog WHERE Seq > (SELECT Seq FROM UsageCursor) LIMIT 1").fetchone()
    return "CurrentUsage" if tail else "MonthlyUsage"


class RatedJobs(NamedTuple):
    """Jobs of some months with the same benchmark."""

    benchmark: str | None
    """``TYPE:VALUE`` as recorded."""
    jobs: int
    without_wall: int
    without_cpu: int
    core_s: int
    first_end_s: int
    last_end_s: int


def by_benchmark(con: Connection, months: Iterable[Month]) -> list[RatedJobs]:
    """The jobs of some months by their benchmark, in the order in which the first of each ended."""
    rows = con.execute(
        "SELECT Benchmark, sum(Jobs), sum(NoWall), sum(NoCpu), sum(Wall * max(CPUCount, 1)), min(Earliest), max(Latest)"
        f" FROM {_present(con)} WHERE Jobs > 0 AND {_in(months)} GROUP BY Benchmark ORDER BY 6, 1"
    )
    return [RatedJobs(unescaped_name(benchmark), *rest) for benchmark, *rest in rows]


def _in(months: Iterable[Month]) -> str:
    return f"Month IN ({','.join(str(year * 100 + month) for year, month in months)})"


def _cells(rows: Iterable[Any]) -> list[UsageCell]:
    return [
        UsageCell(
            month // 100, month % 100, unescaped_name(user_dn), unescaped_name(vo), unescaped_name(fqan),
            unescaped_name(url), nodes, cores, unescaped_name(benchmark), jobs, wall_s, cpu_s, first, last,
            auth_groups_of(groups), *lacks,
        )
        for month, user_dn, vo, fqan, url, nodes, cores, benchmark, jobs, wall_s, cpu_s, first, last, groups, *lacks
        in rows
    ]  # fmt: skip


class Counted(NamedTuple):
    """Jobs of one month, VO and endpoint."""

    vo: str | None
    endpoint_url: str | None
    jobs: int
    wall_s: int


def jobs_by_month(con: Connection) -> dict[Month, int]:
    """How many jobs each month has, pruned ones too, as of the last time that the cells were brought up to date."""
    rows = con.execute(
        "SELECT Month / 100, Month % 100, sum(Jobs) FROM MonthlyUsage GROUP BY Month HAVING sum(Jobs) > 0"
    )
    return {(year, month): jobs for year, month, jobs in rows}


def counted_until(con: Connection, month: Month, ended_until: int) -> list[Counted]:
    """The jobs of a month that ended up to then, pruned ones too; the cells have to be up to date."""
    rows = con.execute(
        "SELECT WLCGVOs.Name, URL, count(*), sum(JobUsageShares.Wall) FROM MonthlyUsage CROSS JOIN JobUsageShares"
        " USING (CellID)"
        " LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
        " WHERE Month = ? AND EndTime <= ? GROUP BY VOID, EndpointID",
        (month[0] * 100 + month[1], ended_until),
    )
    return [Counted(unescaped_name(vo), unescaped_name(url), jobs, wall_s) for vo, url, jobs, wall_s in rows]


def pruned(con: Connection, month: Month) -> list[Pruned]:
    """What the cells count of jobs of a month that `arcacct db prune` moved into an archive, by VO."""
    rows = con.execute(
        # What was deleted since the cells were brought up to date counts no more.
        "SELECT WLCGVOs.Name, count(*), sum(Gone.Wall), sum(Gone.Cpu) FROM MonthlyUsage"
        " CROSS JOIN JobUsageShares AS Gone USING (CellID) LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID WHERE Month = ?"
        " AND NOT EXISTS (SELECT 1 FROM AAR WHERE AAR.RecordID = Gone.RecordID)"
        " AND NOT EXISTS (SELECT 1 FROM FinishedLog WHERE FinishedLog.RecordID = Gone.RecordID"
        " AND Seq > (SELECT Seq FROM UsageCursor)) GROUP BY VOID",
        (month[0] * 100 + month[1],),
    )
    return [Pruned(unescaped_name(vo), *sums) for vo, *sums in rows]


def cells_of_changed(con: Connection, month: Month, seq: int, ended_until: int) -> list[UsageCell]:
    """What the finished records that changed after a place in FinishedLog are now, of a month and up to an end."""
    changed = (
        f"(SELECT {_KEY}, count(*) AS Jobs, {', '.join(f'sum({one}) AS {one}' for one in _OF_RECORD)},"
        " min(EndTime) AS Earliest, max(EndTime) AS Latest"
        f" FROM (SELECT DISTINCT RecordID FROM PreviousVersions WHERE Seq > {int(seq)})"
        " CROSS JOIN RecordUsage USING (RecordID)"
        f" WHERE Month = {month[0] * 100 + month[1]} AND EndTime <= {int(ended_until)} GROUP BY {_KEY})"
    )
    return _cells(con.execute(_NAMED.format(cells=changed, chosen="Jobs > 0")))


def emptied_cells(con: Connection, months: Iterable[Month]) -> list[UsageCell]:
    """The cells of some months that every job has left, as they were called: what may have been published of them."""
    emptied = _cells(con.execute(_NAMED.format(cells="MonthlyUsage", chosen=f"Jobs = 0 AND {_in(months)}")))
    return [one._replace(wall_s=0, cpu_s=0, earliest_end_time=0, latest_end_time=0) for one in emptied]


def _amounts_of(table: str) -> str:
    return " || ".join(f"' ' || {table}.{one}" for one in _OF_RECORD)


def differences(con: Connection) -> list[str]:
    """Where the cells are not what a recount of the records gives, in words; for `db check`."""
    rows = con.execute(
        f"""
        SELECT 'record ' || RecordID || ': counted as ' || coalesce(Kept, 'nothing')
               || ', is ' || coalesce(Live, 'nothing')
          FROM (
            SELECT AAR.RecordID,
                   (SELECT MonthlyUsage.CellID || ' ' || EndTime || {_amounts_of("JobUsageShares")}
                      FROM JobUsageShares JOIN MonthlyUsage USING (CellID)
                     WHERE JobUsageShares.RecordID = AAR.RecordID) AS Kept,
                   (SELECT MonthlyUsage.CellID || ' ' || EndTime || {_amounts_of("Slice")}
                      FROM RecordUsage AS Slice JOIN MonthlyUsage ON {_SAME_KEY}
                     WHERE Slice.RecordID = AAR.RecordID) AS Live
              FROM AAR WHERE NOT EXISTS
                (SELECT 1 FROM FinishedLog WHERE RecordID = AAR.RecordID AND Seq > (SELECT Seq FROM UsageCursor)))
         WHERE Kept IS NOT Live
        UNION ALL
        SELECT 'cell ' || CellID || ': sums are not those of its jobs'
          FROM MonthlyUsage LEFT JOIN (
            SELECT CellID, count(*) AS N, {", ".join(f"sum({one}) AS Sum{one}" for one in _AMOUNTS)},
                   min(EndTime) AS First, max(EndTime) AS Last
              FROM JobUsageShares GROUP BY CellID) USING (CellID)
         WHERE (Jobs, {", ".join(_AMOUNTS)}, Earliest, Latest)
            IS NOT (coalesce(N, 0), {", ".join(f"coalesce(Sum{one}, 0)" for one in _AMOUNTS)}, First, Last)
        UNION ALL
        SELECT 'records: counted as ' || Records || ', are ' || Found
          FROM RecordCount, (SELECT count(*) AS Found FROM AAR) WHERE Records <> Found
        UNION ALL
        {DIFFERENCES}
        """
    )
    return [text for (text,) in rows]


# Which finished jobs are packed (table PackedJobs): those that some target still has to have.
#
# Packs are made with the final status. Here those are let go that every target is past, and those made that are
# missing, in slices of one short transaction each. Without a pack a record is read from the tables: nothing here is
# needed for what is published, and it may end anywhere.


MOST = 1_000_000
"""Of so many places of the log, the last, there may be packs: some 500 MB, where nothing is ever published."""
_BEGIN = "ARCACCT_PACKS_AFTER"
"""DBConfig: the place in the log up to which no record is packed."""
_SLICE, _PAGE = 5000, 200


def delete_delivered(con: Connection, here: Places, seq: int) -> None:
    """Delete the packs of records that were logged up to ``seq``, or very long ago; raises StoreError."""
    (highest,) = con.execute("SELECT coalesce(max(Seq), 0) FROM FinishedLog").fetchone()
    until = min(max(seq, highest - MOST), highest)
    while _begin(con) < until:
        with writing(con, here):
            first = _begin(con)
            (last,) = con.execute(
                "SELECT coalesce(max(Seq), ?2) FROM"
                " (SELECT Seq FROM FinishedLog WHERE Seq > ?1 AND Seq <= ?2 ORDER BY Seq LIMIT ?3)",
                (first, until, _SLICE),
            ).fetchone()
            con.execute(
                "DELETE FROM PackedJobs WHERE RecordID IN (SELECT RecordID FROM FinishedLog WHERE Seq > ? AND Seq"
                " <= ?)",
                (first, last),
            )
            note(con, _BEGIN, last)


def pack_logged(con: Connection, here: Places, seq: int, horizon: int) -> int:
    """Pack what was logged with ``seq < Seq <= horizon`` and is not; returns of how many records. Raises StoreError."""
    total, place = 0, seq
    while True:
        with writing(con, here):
            lacking = con.execute(
                "SELECT FinishedLog.Seq FROM FinishedLog LEFT JOIN PackedJobs"
                " ON PackedJobs.RecordID = FinishedLog.RecordID AND PackedJobs.Seq = FinishedLog.Seq AND Version = ?"
                " WHERE FinishedLog.Seq > ? AND FinishedLog.Seq <= ? AND PackedJobs.RecordID IS NULL"
                " ORDER BY FinishedLog.Seq LIMIT ?",
                (packing.VERSION, place, horizon, _PAGE),
            ).fetchall()
            if not lacking:
                return total
            # In one transaction: what changed between reading and packing would be packed as it was.
            places = [one for (one,) in lacking]
            packs = [(one.aar.record_id, reader.pack_of(one.aar)) for one in reader.logged_at(con, places)]
            made = [(record_id, pack) for record_id, pack in packs if pack is not None]
            packing.keep(con, made)
            if seq < _begin(con):
                note(con, _BEGIN, seq)
        total += len(made)
        place = places[-1]


def _begin(con: Connection) -> int:
    return int(noted(con, _BEGIN) or 0)


# What finished records were before they changed or were deleted: why published figures may fall.


class FormerKey(NamedTuple):
    """What a receiver may still have a job under: it was this before it changed."""

    job_id: str
    local_job_id: str | None
    end_time: int


def left_since(con: Connection, month: Month, seq: int) -> list[Counted]:
    """What changed or was deleted in a month after a place in FinishedLog, as it was there: it may have that less."""
    year, number = month
    rows = con.execute(
        # The first change after that place tells what the record was at it. The plus keeps SQLite on the index of Seq:
        # by RecordID it would walk through every change that ever was.
        """
        SELECT WLCGVOs.Name, Endpoints.URL, count(*), sum(Wall) FROM (
          SELECT VOID, EndpointID, EndTime, Wall, min(rowid) FROM PreviousVersions WHERE Seq > ? GROUP BY +RecordID)
          LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID
          LEFT JOIN Endpoints ON Endpoints.ID = EndpointID
         WHERE strftime('%Y-%m', EndTime, 'unixepoch') = ?
         GROUP BY VOID, EndpointID
        """,
        (seq, f"{year:04d}-{number:02d}"),
    )
    return [Counted(unescaped_name(vo), unescaped_name(url), jobs, wall_s) for vo, url, jobs, wall_s in rows]


def former_keys(con: Connection, seq: int) -> list[FormerKey]:
    """What records were before each change after a place in FinishedLog, oldest first."""
    rows = con.execute(
        "SELECT JobID, LocalJobID, EndTime FROM PreviousVersions WHERE Seq > ? AND EndTime BETWEEN 1 AND ?"
        " ORDER BY Seq, rowid",
        (seq, LAST_SECOND),
    )
    return [
        FormerKey(unescaped(job_id), unescaped_name(local_job_id), end_time) for job_id, local_job_id, end_time in rows
    ]


def former_places(con: Connection, seq: int) -> set[tuple[str | None, int, int]]:
    """The endpoint, year and month that records had before they changed, after a place in FinishedLog."""
    rows = con.execute(
        "SELECT DISTINCT URL, CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),"
        " CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER)"
        " FROM PreviousVersions LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
        " WHERE Seq > ? AND EndTime BETWEEN 1 AND ?",
        (seq, LAST_SECOND),
    )
    return {(unescaped_name(url), year, month) for url, year, month in rows}


def deleted_jobs(con: Connection, seq: int, horizon: int) -> list[str]:
    """JobIDs of records that were deleted with ``seq < Seq <= horizon`` (pruned ones leave no trace here)."""
    # CROSS: from what is new, or of the whole log from what changed in it, since SQLite would look at every record.
    first, second = ("FinishedLog", "PreviousVersions") if seq else ("PreviousVersions", "FinishedLog")
    rows = con.execute(
        f"SELECT DISTINCT PreviousVersions.JobID FROM {first}"
        f" CROSS JOIN {second} ON PreviousVersions.RecordID = FinishedLog.RecordID"
        " LEFT JOIN AAR ON AAR.RecordID = FinishedLog.RecordID"
        " WHERE FinishedLog.Seq > ? AND FinishedLog.Seq <= ? AND AAR.RecordID IS NULL",
        (seq, horizon),
    )
    return [unescaped(job_id) for (job_id,) in rows]


def pruned_before(con: Connection) -> int:
    """The end before which finished jobs may be in an archive of `db prune`, UTC seconds; 0: none is."""
    return int(con.execute("SELECT coalesce(max(EndedBefore), 0) FROM Archives").fetchone()[0])
