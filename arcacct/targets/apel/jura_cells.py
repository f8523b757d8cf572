"""What jura-ng read of A-REX's database, month by month: the jobs that it published, grouped as its messages need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arcacct.arex.own_database import ArexDatabase
from arcacct.database.connection import Connection
from arcacct.records.states import SQL_BY_ITSELF
from arcacct.targets.apel.jura_keys import JuraCell, JuraCount


class End(NamedTuple):
    """What makes the key of a job record; texts as A-REX wrote them."""

    vo: str
    job_id: str
    local_job_id: str
    """Empty where the batch system gave none."""
    end_time: int


_WANTED = f"EndTime >= ? AND EndTime < ? AND Status.Name IN {SQL_BY_ITSELF}"
"""jura-ng publishes jobs that ended in one of these ways, and no others."""
_NAMES = """
      JOIN Users ON Users.ID = UserID JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Endpoints ON Endpoints.ID = EndpointID
      JOIN Status ON Status.ID = StatusID
"""
_FQAN_AND_BENCHMARK = {
    1: (
        "ifnull(AttrValue, '')",
        "ifnull(InfoValue, '')",
        # A job that was resumed has a benchmark for each of its ends, so a row for each: jura-ng 6 counts them all.
        """
        LEFT JOIN JobExtraInfo ON JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'benchmark'
        LEFT JOIN AuthTokenAttributes ON AuthTokenAttributes.RecordID = AAR.RecordID AND AttrKey = 'mainfqan'
        """,
    ),
    2: (
        "ifnull(FQANs.Name, '')",
        "ifnull(Benchmarks.Name, '')",
        "LEFT JOIN FQANs ON FQANs.ID = FQANID LEFT JOIN Benchmarks ON Benchmarks.ID = BenchmarkID",
    ),
}
_PAGE = 5000


def cells(database: ArexDatabase, year: int, month: int, period: tuple[int, int]) -> list[JuraCell]:
    """
    The jobs with ``period[0] <= EndTime < period[1]``, which is that month, in the order that `jura_keys.sums` wants.

    Reads in one transaction, which holds up no writer where SQLite reads the file as it lives.
    """
    fqan, benchmark, join = _FQAN_AND_BENCHMARK[database.version]
    rows = _readable(database.con).execute(
        "SELECT Users.Name, WLCGVOs.Name, Interface, URL, NodeCount, CPUCount,"
        f" {fqan} AS Fqan, {benchmark} AS Benchmark, count(*), sum(UsedWalltime),"
        " sum(UsedCPUUserTime + UsedCPUKernelTime), min(EndTime), max(EndTime)"
        f" FROM AAR {_NAMES} {join} WHERE {_WANTED}"
        " GROUP BY UserID, VOID, EndpointID, NodeCount, CPUCount, Benchmark, Fqan"
        " ORDER BY UserID, VOID, EndpointID, NodeCount, CPUCount,"
        # By number where benchmarks have numbers, as the program that wrote it sorts them.
        f" {'Benchmark' if database.version == 1 else 'FQANID, BenchmarkID'}, Fqan",
        period,
    )
    return [JuraCell(year, month, *row) for row in rows]


def counts(database: ArexDatabase, year: int, month: int, period: tuple[int, int]) -> list[tuple[str, JuraCount]]:
    """``(vo, count)``: the jobs of a month by endpoint, and within it by VO."""
    rows = _readable(database.con).execute(
        f"SELECT WLCGVOs.Name, Interface, URL, count(*) FROM AAR {_NAMES} WHERE {_WANTED}"
        " GROUP BY EndpointID, VOID ORDER BY EndpointID",
        period,
    )
    return [(vo, JuraCount(year, month, *row)) for vo, *row in rows]


def ends(database: ArexDatabase, period: tuple[int, int]) -> Iterator[list[End]]:
    """The jobs of a period, page by page."""
    con = _readable(database.con)
    first, record_id = period[0], 0
    while rows := con.execute(
        # CROSS: by the index of ends, or every page sorts all that is left.
        "SELECT EndTime, AAR.RecordID, WLCGVOs.Name, JobID, ifnull(LocalJobID, '') FROM AAR"
        " CROSS JOIN WLCGVOs ON WLCGVOs.ID = VOID CROSS JOIN Status ON Status.ID = StatusID"
        f" WHERE {_WANTED} AND (EndTime > ? OR AAR.RecordID > ?) ORDER BY EndTime, AAR.RecordID LIMIT ?",
        (first, period[1], first, record_id, _PAGE),
    ).fetchall():
        yield [End(vo, job_id, local_job_id, end) for end, _record, vo, job_id, local_job_id in rows]
        first, record_id = rows[-1][:2]


def ended_again(database: ArexDatabase, period: tuple[int, int]) -> list[str]:
    """JobIDs of the jobs of a period that ended more than once: a record may have been sent for an earlier end."""
    rows = _readable(database.con).execute(
        f"SELECT JobID FROM AAR JOIN Status ON Status.ID = StatusID JOIN JobEvents USING (RecordID) WHERE {_WANTED}"
        " AND EventKey = 'FINISHED' GROUP BY RecordID HAVING count(DISTINCT EventTime) > 1",
        period,
    )
    return [job_id for (job_id,) in rows]


def _readable(con: Connection) -> Connection:
    """Names that are no UTF-8 must not stop it: bytes that are no text are escaped, as everywhere."""
    con.text_factory = lambda content: content.decode("utf-8", "backslashreplace")
    return con
