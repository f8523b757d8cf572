"""Monthly usage, kept up to date in short transactions; earlier versions of changed records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from arcacct.config.paths import Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.records.hold_decisions import judge_former, settle
from arcacct.records.model import UsageCell
from arcacct.records.reader import LARGEST_EXACT, auth_groups_of
from arcacct.records.texts import unescaped, unescaped_name
from arcacct.times import LAST_SECOND

# The sums that `stats` reads. They are finer than the monthly cells, from which summaries are made, and are updated
# after them.
#
# A job counts in one row of each kind. JobUsageShares has these rows, so that corrections are exact and pruned jobs
# stay counted.


class BreakdownKind(NamedTuple):
    """One kind of sums in UsageBreakdown; the key of every kind includes cores and benchmark."""

    number: int
    contribution: str
    """The column of JobUsageShares with the ID of the job's row."""
    period: str
    """SQL for the period of a row of Slice: its month (202611) or its day (since 1970)."""
    extra_columns: frozenset[str]
    """The further columns of its key."""


_BOTH = frozenset({"VOID", "FQAN", "EndpointID", "QueueID", "StatusID", "Project"})
OF_MONTHS = BreakdownKind(1, "MonthID", "Slice.Month", _BOTH | {"UserID"})
OF_DAYS = BreakdownKind(2, "DayID", "CAST(Slice.EndTime / 86400 AS INTEGER)", _BOTH)
OF_HOSTS = BreakdownKind(3, "HostID", "Slice.Month", frozenset({"Host", "StatusID"}))
_KINDS = (OF_MONTHS, OF_DAYS, OF_HOSTS)
_UNTOLD = {
    "UserID": "0", "VOID": "0", "FQAN": "''", "EndpointID": "0", "QueueID": "0", "StatusID": "0", "Project": "''",
    "Host": "''",
}  # fmt: skip
"""The columns that are not in the key of every kind, each with its value in the other kinds."""

USED = "QueueID, StatusID, Project, Host, StageIn, StageOut"
"""The columns of Slice for these sums, in addition to those for the monthly cells."""
_NOW = f"""
    SELECT RecordID, QueueID, StatusID,
           coalesce((SELECT InfoValue FROM JobExtraInfo AS Extra
                      -- The plus keeps SQLite off the index of InfoKey, which has all records under one key.
                      WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'projectname'
                      ORDER BY Extra.rowid LIMIT 1), '') AS Project,
           coalesce((SELECT substr(InfoValue, 1, instr(InfoValue || ':', ':') - 1) FROM JobExtraInfo AS Extra
                      WHERE Extra.RecordID = AAR.RecordID AND +InfoKey IN ('nodenames', 'nodename')
                      ORDER BY Extra.rowid LIMIT 1), '') AS Host,
           CASE WHEN StageInVolume BETWEEN 0 AND {LARGEST_EXACT} THEN StageInVolume ELSE 0 END AS StageIn,
           CASE WHEN StageOutVolume BETWEEN 0 AND {LARGEST_EXACT} THEN StageOutVolume ELSE 0 END AS StageOut
      FROM AAR
"""
"""SQL for these columns of each record, as `stats` counts them."""
_FINER_AMOUNTS = ("Wall", "Cpu", "StageIn", "StageOut", "NoWall", "NoCpu", "CoreRest", "CpuUnpaired", "CoreUnpaired")
"""
The amounts of a job. NoWall, NoCpu: 1 if not measured. CoreRest: its core seconds less wall time times cores.
CpuUnpaired, CoreUnpaired: its CPU time and core seconds if its wall time or CPU time is unknown.
"""


def _key(kind: BreakdownKind) -> dict[str, str]:
    """Return the SQL value of each key column for a row of Slice."""
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


def _count(table: str, number: str, contribution: str, amounts: Sequence[str], sign: str, also: str = "") -> str:
    """
    Return SQL that adds (``+``) or subtracts (``-``) the contributions of a slice in JobUsageShares to a table's sums.

    ``number``: the table's ID; ``contribution``: its column of JobUsageShares; ``also``: further assignments.
    """
    changed = ", ".join(f"{column} = {table}.{column} {sign} Part.{column}" for column in ("Jobs", *amounts))
    summed = ", ".join(f"sum(JobUsageShares.{column}) AS {column}" for column in amounts)
    return (
        f"UPDATE {table} SET {changed}{also} FROM (SELECT {contribution} AS {number}, count(*) AS Jobs, {summed}"
        " FROM Slice CROSS JOIN JobUsageShares USING (RecordID) GROUP BY 1) AS Part"
        f" WHERE {table}.{number} = Part.{number}"
    )


def _count_finer(kind: BreakdownKind, sign: str) -> str:
    return _count("UsageBreakdown", "FinerID", kind.contribution, _FINER_AMOUNTS, sign)


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


# Monthly usage cells: updated in short transactions by the commands that write, never by the recorder (INVARIANTS 6).
#
# They have their own position in FinishedLog, which moves in the same transaction, and do not depend on deliveries.


Month = tuple[int, int]

_SLICE_S = 0.03
_FIRST_SLICE, _LARGEST_SLICE = 500, 20_000
_AT_ONCE = 1_000

_KEY = "Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups"
_SAME_KEY = " AND ".join(f"MonthlyUsage.{column} = Slice.{column}" for column in _KEY.split(", "))
_OF_RECORD = ("Wall", "Cpu", "NoWall", "NoCpu", "CoreRest")
"""
The amounts of a record, as columns of RecordUsage. NoWall, NoCpu: 1 if not measured. CoreRest: core seconds less wall
time times cores.
"""
_USED = f"EndTime, {', '.join(_OF_RECORD)}"
_AMOUNTS = (*_OF_RECORD, "CpuUnpaired", "CoreUnpaired")
"""
The summed amounts, as columns of JobUsageShares and MonthlyUsage. CpuUnpaired, CoreUnpaired: CPU time and core seconds
of jobs whose wall time or CPU time is unknown: the efficiency leaves them out.
"""
KEYS = {"MonthlyUsage": _KEY.split(", "), "UsageBreakdown": [*_key(OF_MONTHS)]}
AMOUNTS = {"MonthlyUsage": ("Jobs", *_AMOUNTS), "UsageBreakdown": ("Jobs", *_FINER_AMOUNTS)}
"""The key and the summed amounts of these tables, as their columns."""

_ADVANCE = (
    "DELETE FROM Slice",
    "INSERT INTO Slice (RecordID) SELECT RecordID FROM FinishedLog WHERE Seq > :first AND Seq <= :last",
    # Not a LEFT JOIN: for it, SQLite would compute the usage of every record.
    f"""
    UPDATE Slice SET ({_KEY}, {_USED}) =
      (SELECT {_KEY}, {_USED} FROM RecordUsage WHERE RecordUsage.RecordID = Slice.RecordID)
    """,
    # Subtract the earlier contributions of the records ...
    _count("MonthlyUsage", "CellID", "CellID", _AMOUNTS, "-", ", ChangedSeq = :last"),
    *(_count_finer(kind, "-") for kind in _KINDS),
    "DELETE FROM JobUsageShares WHERE RecordID IN (SELECT RecordID FROM Slice)",
    # ... and add the current ones. A deleted record has no month and contributes nothing.
    f"""
    INSERT OR IGNORE INTO MonthlyUsage ({_KEY}, ChangedSeq)
    SELECT DISTINCT {_KEY}, :last FROM Slice WHERE Month IS NOT NULL
    """,
    f"""
    INSERT INTO JobUsageShares (RecordID, CellID, EndTime, {", ".join(_AMOUNTS)})
    SELECT RecordID, CellID, EndTime, {", ".join(f"Slice.{one}" for one in _OF_RECORD)},
           (Slice.NoWall OR Slice.NoCpu) * Slice.Cpu,
           (Slice.NoWall OR Slice.NoCpu) * min(Slice.Wall * Slice.CPUCount + Slice.CoreRest, {LARGEST_EXACT})
      FROM Slice JOIN MonthlyUsage ON {_SAME_KEY}
    """,
    _count("MonthlyUsage", "CellID", "CellID", _AMOUNTS, "+", ", ChangedSeq = :last"),
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
    # These values of a pruned job are no longer known.
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
    *(_count_finer(kind, "+") for kind in _KINDS),
)


class Pruned(NamedTuple):
    """Usage of a VO by pruned jobs; durations are in seconds."""

    vo: str | None
    jobs: int
    wall_s: int
    cpu_s: int


def update_monthly(con: Connection, here: Places) -> int:
    """
    Update the monthly cells to the end of FinishedLog, in slices of about 30 ms; returns the number of records.

    First judges the records of older versions, and holds those with impossible values that no publisher has read
    (`judge_former`). Also applies the site's choice for jobs without a wall time (`settle`). After an interruption the
    next call continues. Raises StoreError and SQLite's errors.
    """
    judge_former(con, here)
    settle(con, here)
    return _in_slices(con, here, _advance)


def update_breakdown(con: Connection, here: Places, *, everything: bool = False) -> int:
    """
    Add the contributions in the monthly cells to the finer cells that `stats` reads.

    Slices, result and errors are as for `update_monthly`. Without ``everything`` it adds only a part, so that a command
    that has just recorded ten thousand jobs ends soon, but enough that no contribution waits for long. Queries must
    read the records of waiting contributions.
    """
    waiting = con.execute("SELECT count(*) FROM JobUsageShares WHERE MonthID IS NULL").fetchone()[0]
    return (
        _in_slices(con, here, _refine, most=waiting if everything else max(_AT_ONCE, waiting // 10)) if waiting else 0
    )


def _in_slices(
    con: Connection, here: Places, work: Callable[[Connection, int], int], *, most: int | None = None
) -> int:
    """Call ``work`` for slices of records until none remain, or until ``most`` are done; returns their number."""
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
    """Add the next records of the log to the monthly cells; returns their number."""
    first = position(con)
    last, count = con.execute(
        "SELECT max(Seq), count(*) FROM (SELECT Seq FROM FinishedLog WHERE Seq > ? ORDER BY Seq LIMIT ?)", (first, size)
    ).fetchone()
    for statement in _ADVANCE if count else ():
        con.execute(statement, {"first": first, "last": last})
    return int(count)


def _refine(con: Connection, size: int) -> int:
    """Add the next contributions to the finer cells; returns their number."""
    for statement in _REFINE:
        con.execute(statement, {"size": size})
    return int(con.execute("SELECT count(*) FROM Slice").fetchone()[0])


def recount(con: Connection, record_ids: Iterable[int]) -> None:
    """
    Move counted records to their current monthly cells; `update_breakdown` then updates the finer ones.

    Inside the caller's transaction, after `update_monthly`. It does not change the position in the log, and does not
    mark a month as changed.
    """
    con.execute("DELETE FROM Slice")
    con.executemany("INSERT INTO Slice (RecordID) VALUES (?)", [(record_id,) for record_id in record_ids])
    for statement in _ADVANCE[2:-1]:
        con.execute(statement, {"last": _NOWHERE})
    con.execute("UPDATE MonthlyUsage SET ChangedSeq = 0 WHERE ChangedSeq = ?", (_NOWHERE,))


_NOWHERE = -1
"""A position that does not occur in the log."""


def position(con: Connection) -> int:
    """Return the Seq up to which the cells are updated."""
    return int(con.execute("SELECT Seq FROM UsageCursor").fetchone()[0])


def months_changed_after(con: Connection, seq: int) -> set[Month]:
    """Return the months that changed after ``seq``, including those that a job left."""
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


# LEFT: jobs with a missing name must stay in their sum.
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
    """Return the current cells of these months, or of all, even if the stored cells are not up to date."""
    chosen = "Jobs > 0" if months is None else f"Jobs > 0 AND {_in(months)}"
    return _cells(con.execute(_NAMED.format(cells=_present(con), chosen=chosen)))


def _present(con: Connection) -> str:
    """Return the table of the cells if it is up to date, else the slower view of the current cells."""
    tail = con.execute("SELECT 1 FROM FinishedLog WHERE Seq > (SELECT Seq FROM UsageCursor) LIMIT 1").fetchone()
    return "CurrentUsage" if tail else "MonthlyUsage"


class RatedJobs(NamedTuple):
    """Jobs with the same benchmark."""

    benchmark: str | None
    """``TYPE:VALUE`` as recorded."""
    jobs: int
    without_wall: int
    without_cpu: int
    core_s: int
    first_end_s: int
    last_end_s: int


def by_benchmark(con: Connection, months: Iterable[Month]) -> list[RatedJobs]:
    """Return the jobs of these months by benchmark, in the order of their first ends."""
    rows = con.execute(
        "SELECT Benchmark, sum(Jobs), sum(NoWall), sum(NoCpu), sum(Wall * max(CPUCount, 1) + CoreRest), min(Earliest),"
        " max(Latest)"
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
    """Return the number of jobs per month, including pruned ones, as of the last update of the cells."""
    rows = con.execute(
        "SELECT Month / 100, Month % 100, sum(Jobs) FROM MonthlyUsage GROUP BY Month HAVING sum(Jobs) > 0"
    )
    return {(year, month): jobs for year, month, jobs in rows}


def endpoint_urls(con: Connection) -> set[str | None]:
    """
    Return the endpoints of the jobs in the cells, including pruned ones, as of the last update of the cells.

    ``None`` or empty: jobs without an endpoint.
    """
    rows = con.execute(
        "SELECT DISTINCT URL FROM (SELECT DISTINCT EndpointID FROM MonthlyUsage WHERE Jobs > 0)"
        " LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
    )
    return {unescaped_name(url) for (url,) in rows}


def counted_until(con: Connection, month: Month, ended_until: int) -> list[Counted]:
    """
    Return the jobs of a month with an end up to ``ended_until`` (UTC seconds), including pruned ones.

    The cells must be up to date.
    """
    rows = con.execute(
        "SELECT WLCGVOs.Name, URL, count(*), sum(JobUsageShares.Wall) FROM MonthlyUsage CROSS JOIN JobUsageShares"
        " USING (CellID)"
        " LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
        " WHERE Month = ? AND EndTime <= ? GROUP BY VOID, EndpointID",
        (month[0] * 100 + month[1], ended_until),
    )
    return [Counted(unescaped_name(vo), unescaped_name(url), jobs, wall_s) for vo, url, jobs, wall_s in rows]


def pruned(con: Connection, month: Month) -> list[Pruned]:
    """Return the usage in the cells, by VO, of a month's jobs that `arcacct db prune` moved into an archive."""
    rows = con.execute(
        # Records that were deleted since the last update of the cells do not count.
        "SELECT WLCGVOs.Name, count(*), sum(Gone.Wall), sum(Gone.Cpu) FROM MonthlyUsage"
        " CROSS JOIN JobUsageShares AS Gone USING (CellID) LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID WHERE Month = ?"
        " AND NOT EXISTS (SELECT 1 FROM AAR WHERE AAR.RecordID = Gone.RecordID)"
        " AND NOT EXISTS (SELECT 1 FROM FinishedLog WHERE FinishedLog.RecordID = Gone.RecordID"
        " AND Seq > (SELECT Seq FROM UsageCursor)) GROUP BY VOID",
        (month[0] * 100 + month[1],),
    )
    return [Pruned(unescaped_name(vo), *sums) for vo, *sums in rows]


def has_imported(con: Connection, from_s: int, before_s: int) -> bool:
    """Whether a job that is not of the control directory ended in ``[from_s, before_s)``, UTC seconds."""
    ended = "SELECT 1 FROM AAR JOIN RecordSources USING (RecordID) WHERE EndTime >= ? AND EndTime < ?"
    return bool(con.execute(f"SELECT EXISTS ({ended})", (from_s, before_s)).fetchone()[0])


def cells_of_changed(con: Connection, month: Month, seq: int, ended_until: int) -> list[UsageCell]:
    """Return a month's cells of only the records that changed after ``seq`` and ended up to ``ended_until``."""
    changed = (
        f"(SELECT {_KEY}, count(*) AS Jobs, {', '.join(f'sum({one}) AS {one}' for one in _OF_RECORD)},"
        " min(EndTime) AS Earliest, max(EndTime) AS Latest"
        f" FROM (SELECT DISTINCT RecordID FROM PreviousVersions WHERE Seq > {int(seq)})"
        " CROSS JOIN RecordUsage USING (RecordID)"
        f" WHERE Month = {month[0] * 100 + month[1]} AND EndTime <= {int(ended_until)} GROUP BY {_KEY})"
    )
    return _cells(con.execute(_NAMED.format(cells=changed, chosen="Jobs > 0")))


def emptied_cells(con: Connection, months: Iterable[Month]) -> list[UsageCell]:
    """Return the empty cells of these months: their keys may have been published before all their jobs left."""
    emptied = _cells(con.execute(_NAMED.format(cells="MonthlyUsage", chosen=f"Jobs = 0 AND {_in(months)}")))
    return [one._replace(wall_s=0, cpu_s=0, earliest_end_time=0, latest_end_time=0) for one in emptied]


def _amounts_of(table: str) -> str:
    return " || ".join(f"' ' || {table}.{one}" for one in _OF_RECORD)


def differences(con: Connection) -> list[str]:
    """Return the differences between the cells and a recount of the records, in words, for `db check`."""
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
        {" UNION ALL ".join((_ROWS_OF_RECORD, *map(_wrong_sums, _KINDS)))}
        """
    )
    return [text for (text,) in rows]


# Earlier versions of finished records that changed or were deleted. They explain why published figures fall.


class FormerKey(NamedTuple):
    """The values of a job before a change, under which a receiver may still have it."""

    job_id: str
    local_job_id: str | None
    end_time: int


def left_since(con: Connection, month: Month, seq: int) -> list[Counted]:
    """Return the former jobs of a month that changed or were deleted after ``seq``: its sums may be lower by them."""
    year, number = month
    rows = con.execute(
        # The first change after that position has the record's values at it. The plus keeps SQLite on the index of Seq:
        # by RecordID it would read all changes that are stored.
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
    """Return the values of records before each change after ``seq``, the oldest first."""
    rows = con.execute(
        "SELECT JobID, LocalJobID, EndTime FROM PreviousVersions WHERE Seq > ? AND EndTime BETWEEN 1 AND ?"
        " ORDER BY Seq, rowid",
        (seq, LAST_SECOND),
    )
    return [
        FormerKey(unescaped(job_id), unescaped_name(local_job_id), end_time) for job_id, local_job_id, end_time in rows
    ]


def former_places(con: Connection, seq: int) -> set[tuple[str | None, int, int]]:
    """Return the endpoint, year and month of records before each change after ``seq``."""
    rows = con.execute(
        "SELECT DISTINCT URL, CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),"
        " CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER)"
        " FROM PreviousVersions LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
        " WHERE Seq > ? AND EndTime BETWEEN 1 AND ?",
        (seq, LAST_SECOND),
    )
    return {(unescaped_name(url), year, month) for url, year, month in rows}


def deleted_jobs(con: Connection, seq: int, horizon: int) -> list[str]:
    """Return the JobIDs of records that were deleted with ``seq < Seq <= horizon``, without pruned ones."""
    # CROSS: SQLite would read every record. It must start from the new log entries, or for the whole log from changes.
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
    """Return the end before which jobs may be in an archive of `db prune`, UTC seconds; 0: no archive exists."""
    return int(con.execute("SELECT coalesce(max(EndedBefore), 0) FROM Archives").fetchone()[0])
