"""Values that no one told: 0 in A-REX's tables and at receivers, NULL in the views, counted in the sums."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from job_files import DIAG, JOB, LOCAL, NOON_NS, STATISTICS
from slurm_files import CASES, SlurmHost, arc_job, row, table

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts
from arcacct.config.paths import JobRules
from arcacct.database.schema import ACCOUNTING, ensure, in_memory
from arcacct.records import usage
from arcacct.records.enrichment import enrich
from arcacct.records.model import Job
from arcacct.records.reader import logged_after
from arcacct.records.recorder import record
from arcacct.records.writer import JobWriter

FRONT_END = b"runtimeenvironments=ENV/PROXY;\nexitcode=0\n"
"""What A-REX's front end alone writes into .diag."""
STARTED = b"LRMSStartTime=20261120111000Z\n"
END = 1_780_000_000
_COLUMNS = "wall_s, cpu_s, cpu_user_s, cpu_kernel_s"
_STORED = "SELECT UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime FROM AAR"


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[SlurmHost]:
    found = SlurmHost(tmp_path)
    with closing(found.con):
        yield found


def finished(con: sqlite3.Connection, diag: bytes | None, *, failed: bool = False, after_s: int = 0) -> None:
    """Record the end of the job with this .diag."""
    files = JobFiles("/control", JOB, "FINISHED")
    files.event_ns = NOON_NS + after_s * 10**9
    files.local, files.diag, files.statistics, files.failed = LOCAL, diag, STATISTICS, failed
    record(con, job_facts(files, JobRules("HEPSPEC:12.26")))


def shown(con: sqlite3.Connection) -> tuple[object, ...]:
    return tuple(con.execute(f"SELECT {_COLUMNS} FROM v1_jobs").fetchone())


def counted(con: sqlite3.Connection) -> tuple[int, ...]:
    """Jobs, those without wall time, and those without CPU time, as the month has them; the sums are what they say."""
    names = "jobs, jobs_without_wall, jobs_without_cpu"
    return tuple(con.execute(f"SELECT {names} FROM v1_usage_by_month").fetchone())


@pytest.mark.parametrize("diag", [None, FRONT_END], ids=["no .diag", "the front end's lines"])
def test_a_completed_job_without_a_measurement_is_unknown(con: sqlite3.Connection, diag: bytes | None) -> None:
    """A-REX's columns have A-REX's 0."""
    finished(con, diag)

    assert shown(con) == (None, None, None, None)
    assert con.execute(_STORED).fetchone() == (0, 0, 0)
    assert counted(con) == (1, 1, 1)
    ((_seq, aar),) = logged_after(con, 0, 2**62).records
    assert aar.unknown == ("cpu_kernel_s", "cpu_user_s", "wall_s")
    assert (aar.has_wall, aar.has_cpu, aar.wall_s, aar.cpu_s) == (False, False, 0, 0)
    assert aar.job_id == JOB


@pytest.mark.parametrize(
    ("diag", "failed", "expected"),
    [
        (DIAG, False, (61, 61, 59, 2 - 1)),
        (b"WallTime=0.04s\nUserTime=0.00s\nKernelTime=0.00s\n", False, (0, 0, 0, 0)),
        (b"WallTime=100s\n", False, (100, None, None, None)),
        (b"UserTime=5s\n", False, (None, 5, 5, 0)),
        (None, True, (0, 0, 0, 0)),
        (FRONT_END, True, (0, 0, 0, 0)),
        (STARTED, True, (None, None, None, None)),
    ],
    ids=["measured", "measured 0", "no CPU", "no wall", "never ran", "never ran, .diag", "ran and failed"],
)
def test_what_is_reported_is_known(con: sqlite3.Connection, diag: bytes | None, failed: bool, expected) -> None:
    """A measured 0 is 0, and so is what a job used that never ran."""
    finished(con, diag, failed=failed)

    assert shown(con) == (*expected[:1], None if expected[1] is None else expected[2] + expected[3], *expected[2:])


@pytest.mark.parametrize(
    ("diag", "expected"), [(DIAG, (61, 60, 59, 1)), (b"WallTime=0.04s\nUserTime=0.01s\nKernelTime=0s\n", (0, 0, 0, 0))]
)
def test_what_is_reported_late_is_known_then(con: sqlite3.Connection, diag: bytes, expected) -> None:
    """The same end, read once more; also where A-REX's columns stay as they are."""
    finished(con, None)
    con.execute("UPDATE UsageCursor SET Seq = (SELECT max(Seq) FROM FinishedLog)")
    finished(con, diag)

    assert shown(con) == expected
    assert con.execute("SELECT count(*) FROM FieldSources").fetchone() == (0,)
    # The sums count it again.
    assert con.execute("SELECT Seq > (SELECT Seq FROM UsageCursor) FROM FinishedLog").fetchone() == (1,)
    assert counted(con) == (1, 0, 0)


def test_what_an_earlier_end_did_not_tell_says_nothing_of_the_next(con: sqlite3.Connection) -> None:
    finished(con, None)
    finished(con, DIAG, after_s=60)
    assert shown(con) == (61, 60, 59, 1)
    finished(con, FRONT_END, after_s=120)
    assert shown(con) == (None, None, None, None)


def test_an_event_twice_changes_nothing(con: sqlite3.Connection) -> None:
    finished(con, FRONT_END)
    before = con.total_changes
    finished(con, FRONT_END)

    assert con.total_changes == before


def test_sacct_without_a_column_of_cpu_time(host: SlurmHost) -> None:
    """Its jobs have none, and are counted; what tells it later makes it known."""
    host.take(CASES / "x2.txt")
    assert host.rows("SELECT wall_s, cpu_s, core_count, node_count FROM v1_jobs") == [(3600, None, 4, None)]
    assert host.value("SELECT UsedCPUUserTime + UsedCPUKernelTime FROM AAR") == 0
    assert counted(host.con) == (1, 0, 1)
    assert usage.differences(host.con) == []

    header, job = (CASES / "x2.txt").read_text(encoding="utf-8").splitlines()
    host.take(f"{header}|TotalCPU\n{job}|02:00:00\n".encode())
    assert host.rows("SELECT wall_s, cpu_s FROM v1_jobs") == [(3600, 7200)]
    assert counted(host.con) == (1, 0, 0)
    assert usage.differences(host.con) == []


def test_cores_that_slurm_does_not_know(host: SlurmHost) -> None:
    """They are not 4 billion; a receiver is sent one."""
    host.take(table(row(AllocCPUS=4294967294)))

    assert host.rows("SELECT core_count, wall_s FROM v1_jobs") == [(None, 60)]
    assert host.rows("SELECT cpus, core_s, elapsed_s FROM v1_slurm_runs") == [(None, None, 60)]
    ((_seq, aar),) = logged_after(host.con, 0, 2**62).records
    assert (aar.core_count, aar.unknown) == (1, ("core_count",))
    host.take(table(row(AllocCPUS=8)))
    assert host.rows("SELECT core_count FROM v1_jobs") == [(8,)]


def test_a_job_of_arc_gets_what_the_batch_system_measured(host: SlurmHost) -> None:
    """Of a job that was recorded without .diag."""
    arc_job(host)
    host.con.execute("INSERT INTO FieldSources SELECT RecordID, value, 'unknown' FROM AAR, json_each(?)",
                     ('["wall_s", "cpu_user_s", "cpu_kernel_s"]',))  # fmt: skip
    assert shown(host.con) == (None, None, None, None)
    host.take(table(row()))

    assert shown(host.con) == (60, 100, 100, 0)
    assert counted(host.con) == (1, 0, 0)


def test_a_source_may_tell_that_it_is_0(con: sqlite3.Connection) -> None:
    """Where A-REX's table has 0 already."""
    JobWriter(con, "sacct", "grid").write([Job("j1", "completed", END - 100, END, wall_s=90)])
    assert shown(con) == (90, None, None, None)
    enrich(con, 1, "arex", {"cpu_user_s": 0, "cpu_kernel_s": 0})

    assert shown(con) == (90, 0, 0, 0)


def test_a_job_in_progress_has_no_unknown_values(con: sqlite3.Connection) -> None:
    JobWriter(con, "sacct", "grid").write([Job("j1", "in-progress", END - 100)])

    assert con.execute("SELECT count(*) FROM FieldSources").fetchone() == (0,)


def test_records_of_0_2_are_distinguished_by_what_they_have(tmp_path: pathlib.Path) -> None:
    """An upgrade finds those without any measurement; no record is logged as changed, and all sums agree."""
    path = str(tmp_path / "x.db")
    with closing(in_memory(ACCOUNTING, ACCOUNTING.oldest)) as old:
        _add(old, "completed", 0, 0)
        _add(old, "completed", 100, 50)
        _add(old, "completed", 0, 0, memory=1000)
        _add(old, "failed", 0, 0)
        _add(old, "failed", 0, 0, has_started=True)
        _add(old, "completed", 60, 0, source="sacct")
        _add(old, "completed", 60, 0, source="gridengine")
        _add(old, "completed", 30, 7, source="htcondor", cores=8)
        _add(old, "completed", 30, 7, source="arex", cores=8)
        log = old.execute("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq").fetchall()
        _sum_up(old)
        old.execute("VACUUM INTO ?", (path,))

    ensure(path, ACCOUNTING)

    with closing(sqlite3.connect(path)) as old:
        assert old.execute("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq").fetchall() == log
        found = old.execute("SELECT wall_s, cpu_s FROM v1_jobs ORDER BY job_id").fetchall()
        measured = [(None, None), (100, 50), (0, 0), (0, 0), (None, None), (60, None), (60, 0), (30, None), (30, 7)]
        assert found == measured
        amounts = "Jobs, NoWall, NoCpu, CpuUnpaired, CoreUnpaired"
        cells = old.execute(f"SELECT CPUCount, {amounts}, ChangedSeq FROM MonthlyUsage").fetchall()
        assert cells == [(1, 7, 2, 3, 0, 60, 7), (8, 2, 0, 1, 7, 240, 7)]
        summed = ", ".join(f"sum({amount})" for amount in amounts.split(", "))
        for kind in (1, 2, 3):
            found = old.execute(f"SELECT {summed} FROM UsageBreakdown WHERE Kind = ?", (kind,)).fetchone()
            assert found == (9, 2, 4, 7, 300)
        assert usage.differences(old) == []


def _add(
    con: sqlite3.Connection,
    status: str,
    wall_s: int,
    cpu_s: int,
    *,
    memory: int = 0,
    has_started: bool = False,
    source: str | None = None,
    cores: int = 1,
) -> None:
    """A record as a former program left it."""
    for table_, columns in (("Endpoints", "'', ''"), ("Queues", "''"), ("Users", "''"), ("WLCGVOs", "''")):
        con.execute(f"INSERT OR IGNORE INTO {table_} SELECT 1, {columns} WHERE NOT EXISTS (SELECT 1 FROM {table_})")
    con.execute("INSERT OR IGNORE INTO Status (Name) VALUES (?)", (status,))
    number = con.execute("SELECT count(*) + 1 FROM AAR").fetchone()[0]
    con.execute(
        "INSERT INTO AAR SELECT ?1, 'j' || ?1, ?1, 1, 1, 1, 1, ID, 0, ?2, ?2 + 200, 1, ?7, ?3, ?3, ?4, ?5, 0, 0, 0, 0"
        " FROM Status WHERE Name = ?6",
        (number, END - 200, memory, wall_s, cpu_s, status, cores),
    )
    if has_started:
        con.execute("INSERT INTO JobEvents VALUES (?, 'LRMSSTART', '2026-05-28 20:00:00')", (number,))
    if source is not None:
        con.execute("INSERT INTO RecordSources VALUES (?, ?, 'grid')", (number, source))
    if source == "sacct":
        texts = "ShownID, NodeList, QPartition, UserName, GroupName, Account, QOS, WCKey, JobName, AllocTRES"
        con.execute(
            "INSERT INTO SlurmRuns (RecordID, Cluster, JobID, SubmitTime, State, StartTime, EndTime, Elapsed, CPUs,"
            f" CPUUs, CPUKernelUs, {texts})"
            " SELECT ?, 'grid', 1, 1, 'COMPLETED', 1, 61, 60, 1, 0, 0, '', '', '', '', '', '', '', '', '', ''",
            (number,),
        )
    if source == "htcondor":
        texts = "Hosts, UserName, Account, Project, JobName, QueueName, UserDN, VO, FQAN, Benchmark"
        con.execute(
            "INSERT INTO HTCondorJobs (RecordID, Schedd, Cluster, Proc, Queued, SubmitTime, JobStatus, StartTime,"
            f" EndTime, Wall, CPUs, {texts})"
            " VALUES (?, 'grid', 1, 0, 1, 1, 4, 1, 31, 30, 8, '', '', '', '', '', '', '', '', '', '')",
            (number,),
        )


def _sum_up(con: sqlite3.Connection) -> None:
    """The sums of 0.2."""
    key = "Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups"
    con.execute(
        f"INSERT INTO Cells ({key}, Jobs, Wall, Cpu, Earliest, Latest, ChangedSeq) SELECT {key}, count(*),"
        f" sum(Wall), sum(Cpu), min(EndTime), max(EndTime), 7 FROM RecordUsage GROUP BY {key}"
    )
    con.execute(
        "INSERT INTO Contributions (RecordID, CellID, EndTime, Wall, Cpu, StageIn, StageOut)"
        " SELECT RecordID, CellID, EndTime, RecordUsage.Wall, RecordUsage.Cpu, 0, 0"
        " FROM RecordUsage JOIN Cells USING (CPUCount)"
    )
    for kind, column, period, (user, other) in (
        (1, "MonthID", "Month", (1, 1)),
        (2, "DayID", "RecordUsage.EndTime / 86400", (0, 1)),
        (3, "HostID", "Month", (0, 0)),
    ):
        con.execute(
            "INSERT INTO FinerCells (Kind, Period, UserID, VOID, FQAN, EndpointID, QueueID, StatusID, Project, Host,"
            f" CPUCount, Benchmark, Jobs, Wall, Cpu) SELECT {kind}, {period}, {user}, {other}, '', {other}, {other},"
            f" StatusID, '', '', RecordUsage.CPUCount, '', count(*), sum(Wall), sum(Cpu)"
            " FROM RecordUsage JOIN AAR USING (RecordID) GROUP BY StatusID, RecordUsage.CPUCount"
        )
        con.execute(
            f"UPDATE Contributions SET {column} = (SELECT FinerID FROM FinerCells JOIN AAR USING (StatusID, CPUCount)"
            f" WHERE Kind = {kind} AND AAR.RecordID = Contributions.RecordID)"
        )
    con.execute("UPDATE CellsPosition SET Seq = (SELECT max(Seq) FROM FinishedLog)")
