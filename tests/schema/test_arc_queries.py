"""Queries that people have written for ARC's own tables give the same on ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import arex_corpus as corpus
import pytest

FINISHED = "JOIN Status ON Status.ID = StatusID AND Status.Name IN ('completed', 'failed')"
# Jobs that we record otherwise on purpose (the manual's table of differences): never ended in A-REX, or an odd URL.
SAME = "JobID NOT IN ({jobs})"
QUERIES = {
    "jobs and walltime per VO": f"""
        SELECT WLCGVOs.Name, count(*), sum(UsedWalltime), sum(UsedCPUUserTime + UsedCPUKernelTime)
          FROM AAR {FINISHED} JOIN WLCGVOs ON WLCGVOs.ID = VOID WHERE {SAME} GROUP BY 1 ORDER BY 1""",
    "jobs per user": f"""
        SELECT Users.Name, count(*), max(EndTime) FROM AAR {FINISHED} JOIN Users ON Users.ID = UserID
         WHERE {SAME} GROUP BY 1 ORDER BY 1""",
    "jobs per queue": f"""
        SELECT Queues.Name, Status.Name, count(*) FROM AAR {FINISHED} JOIN Queues ON Queues.ID = QueueID
         WHERE {SAME} GROUP BY 1, 2 ORDER BY 1, 2""",
    "efficiency": f"""
        SELECT JobID, round(1.0 * (UsedCPUUserTime + UsedCPUKernelTime) / (UsedWalltime * CPUCount), 4)
          FROM AAR {FINISHED} WHERE UsedWalltime > 0 AND {SAME} ORDER BY 1""",
    "failures by exit code": f"""
        SELECT ExitCode, count(*) FROM AAR JOIN Status ON Status.ID = StatusID
         WHERE Status.Name = 'failed' AND {SAME} GROUP BY 1 ORDER BY 1""",
    "volumes of transfers": f"""
        SELECT TransferType, count(*), sum(FileSize) FROM DataTransfers JOIN AAR USING (RecordID)
         WHERE {SAME} GROUP BY 1 ORDER BY 1""",
    "most fetched files": f"""
        SELECT URL, count(DISTINCT JobID) FROM DataTransfers JOIN AAR USING (RecordID)
         WHERE TransferType IN (10, 11) AND {SAME} GROUP BY 1 ORDER BY 2 DESC, 1""",
    "roles": f"""
        SELECT AttrValue, count(*) FROM AuthTokenAttributes JOIN AAR USING (RecordID) {FINISHED}
         WHERE AttrKey = 'mainfqan' AND {SAME} GROUP BY 1 ORDER BY 1""",
    "benchmarks": f"""
        SELECT InfoValue, count(DISTINCT JobID) FROM JobExtraInfo JOIN AAR USING (RecordID) {FINISHED}
         WHERE InfoKey = 'benchmark' AND {SAME} GROUP BY 1 ORDER BY 1""",
    "environments": f"""
        SELECT RTEName, count(DISTINCT JobID) FROM RunTimeEnvironments JOIN AAR USING (RecordID)
         WHERE {SAME} GROUP BY 1 ORDER BY 1""",
    "memory": f"""
        SELECT JobID, UsedMemory, UsedVirtMem FROM AAR {FINISHED} WHERE UsedMemory > 0 AND {SAME}
         ORDER BY UsedMemory DESC, JobID LIMIT 10""",
    "monthly": f"""
        SELECT strftime('%Y-%m', EndTime, 'unixepoch') AS Month, CPUCount, count(*), sum(UsedWalltime * CPUCount)
          FROM AAR {FINISHED} WHERE {SAME} GROUP BY 1, 2 ORDER BY 1, 2""",
    "time in the queue": f"""
        SELECT JobID, strftime('%s', max(Start.EventTime)) - SubmitTime FROM AAR {FINISHED}
          JOIN JobEvents AS Start ON Start.RecordID = AAR.RecordID AND Start.EventKey = 'LRMSSTART'
         WHERE {SAME} GROUP BY JobID ORDER BY JobID""",
    "interfaces": f"""
        SELECT Interface, URL, count(*) FROM AAR {FINISHED} JOIN Endpoints ON Endpoints.ID = EndpointID
         WHERE {SAME} GROUP BY 1, 2 ORDER BY 1, 2""",
}
DIFFERENT = ("internal", "oddurl", "hookexp-fail-FINISHING", "tz", "flaky", "clean", "killrun")


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_for_arc_s_tables_gives_the_same(unchanged, name) -> None:
    """The statement runs unchanged on A-REX's database and on unchanged, and the rows are equal."""
    names = corpus.names()
    jobs = ", ".join(f"'{names[different]}'" for different in DIFFERENT)
    statement = QUERIES[name].format(jobs=jobs)
    with closing(corpus.arex_database()) as arex, closing(sqlite3.connect(unchanged.database)) as con:
        expected = arex.execute(statement).fetchall()

        assert expected
        assert con.execute(statement).fetchall() == expected
