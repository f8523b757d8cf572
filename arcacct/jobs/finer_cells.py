"""
The sums that `stats` is answered from: finer than the monthly cells that summaries are made of, and advanced with them.

A job counts in one row of each kind, and Contributions remembers which, so that corrections are exact and pruned jobs
stay counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class BreakdownKind(NamedTuple):
    """One of the ways in which FinerCells sums jobs; jobs of each are told apart by cores and benchmark, too."""

    number: int
    contribution: str
    """The column of Contributions that has the row."""
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
_AMOUNTS = ("Wall", "Cpu", "StageIn", "StageOut", "NoWall", "NoCpu", "WallNoCpu")
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
    same = " AND ".join(f"FinerCells.{column} = {value}" for column, value in _key(kind).items())
    return f"(SELECT FinerID FROM FinerCells WHERE {same})"


def _count(kind: BreakdownKind, sign: str) -> str:
    """Add (``+``) what the records of a slice contribute by Contributions, or take it out (``-``)."""
    changed = ", ".join(f"{column} = FinerCells.{column} {sign} Part.{column}" for column in ("Jobs", *_AMOUNTS))
    summed = ", ".join(f"sum(Contributions.{column}) AS {column}" for column in _AMOUNTS)
    return (
        f"UPDATE FinerCells SET {changed} FROM (SELECT {kind.contribution} AS FinerID, count(*) AS Jobs, {summed}"
        " FROM Slice CROSS JOIN Contributions USING (RecordID) GROUP BY 1) AS Part"
        " WHERE FinerCells.FinerID = Part.FinerID"
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
        f"INSERT OR IGNORE INTO FinerCells ({', '.join(key)}) SELECT DISTINCT {', '.join(key.values())} FROM Slice"
        for key in map(_key, _KINDS)
    ),
    f"""
    UPDATE Contributions SET ({", ".join(kind.contribution for kind in _KINDS)}, StageIn, StageOut) =
      (SELECT {", ".join(map(_row_of, _KINDS))}, Slice.StageIn, Slice.StageOut
         FROM Slice WHERE Slice.RecordID = Contributions.RecordID)
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
    " WHERE Slice.RecordID = Contributions.RecordID) AS Live FROM Contributions"
    " WHERE MonthID IS NOT NULL AND EXISTS (SELECT 1 FROM AAR WHERE AAR.RecordID = Contributions.RecordID)"
    " AND NOT EXISTS (SELECT 1 FROM FinishedLog WHERE FinishedLog.RecordID = Contributions.RecordID"
    " AND Seq > (SELECT Seq FROM CellsPosition))) WHERE Kept IS NOT Live"
)


def _wrong_sums(kind: BreakdownKind) -> str:
    summed = ", ".join(f"sum({column}) AS {column}" for column in _AMOUNTS)
    return (
        "SELECT 'finer cell ' || FinerID || ': sums are not those of its jobs' FROM FinerCells"
        f" LEFT JOIN (SELECT {kind.contribution} AS FinerID, count(*) AS Jobs, {summed} FROM Contributions GROUP BY 1)"
        f" AS Part USING (FinerID) WHERE Kind = {kind.number} AND"
        f" (FinerCells.Jobs, {', '.join(f'FinerCells.{column}' for column in _AMOUNTS)})"
        f" IS NOT (ifnull(Part.Jobs, 0), {', '.join(f'ifnull(Part.{column}, 0)' for column in _AMOUNTS)})"
    )


DIFFERENCES = " UNION ALL ".join((_ROWS_OF_RECORD, *map(_wrong_sums, _KINDS)))
"""Where the finer cells are not what a recount of the records gives, in words; those that wait are left out."""
