"""Values that nobody told: 0 in A-REX's tables and at receivers, NULL in the views, counted in the sums."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import counted_jobs
import pytest
import stored_jobs
from job_files import DIAG, JOB, LOCAL, NOON_NS, STATISTICS
from slurm_files import CASES, SlurmHost, arc_job, row, table

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts
from arcacct.config.paths import JobRules, places
from arcacct.database.access import initialise, open_accounting
from arcacct.database.schema import ACCOUNTING, SOURCES, create_views, ensure, in_memory, upgrades
from arcacct.records import usage
from arcacct.records.enrichment import enrich
from arcacct.records.model import Job
from arcacct.records.reader import logged_after
from arcacct.records.recorder import record
from arcacct.records.writer import JobWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

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
def test_what_is_told_is_known(con: sqlite3.Connection, diag: bytes | None, failed: bool, expected) -> None:
    """A measured 0 is 0, and so is what a job used that never ran."""
    finished(con, diag, failed=failed)

    assert shown(con) == (*expected[:1], None if expected[1] is None else expected[2] + expected[3], *expected[2:])


@pytest.mark.parametrize(
    ("diag", "expected"),
    [(DIAG, (61, 60, 59, 1)), (b"WallTime=0.04s\nUserTime=0.01s\nKernelTime=0s\n", (0, 0, 0, 0))],
)
def test_what_is_told_late_is_known_then(con: sqlite3.Connection, diag: bytes, expected) -> None:
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


BEFORE = next(number for number, path in upgrades(ACCOUNTING) if "unknown_values" in path) - 1


def test_records_from_before_are_told_apart_by_what_they_have(tmp_path) -> None:
    """An upgrade finds those without any measurement; no record is logged as changed, and the sums agree."""
    path = str(tmp_path / "x.db")
    with closing(in_memory(ACCOUNTING, BEFORE)) as old:
        _add(old, "completed", 0, 0)
        _add(old, "completed", 100, 50)
        _add(old, "completed", 0, 0, memory=1000)
        _add(old, "failed", 0, 0)
        _add(old, "failed", 0, 0, has_started=True)
        _add(old, "completed", 60, 0, source="sacct")
        _add(old, "completed", 60, 0, source="gridengine")
        log = old.execute("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq").fetchall()
        _sum_up(old)
        old.execute("VACUUM INTO ?", (path,))

    ensure(path, ACCOUNTING)

    with closing(sqlite3.connect(path)) as old:
        assert old.execute("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq").fetchall() == log
        found = old.execute("SELECT wall_s, cpu_s FROM v1_jobs ORDER BY job_id").fetchall()
        assert found == [(None, None), (100, 50), (0, 0), (0, 0), (None, None), (60, None), (60, 0)]
        assert counted(old) == (7, 2, 3)
        assert old.execute("SELECT Jobs, NoWall, NoCpu, CoreUnpaired, ChangedSeq FROM MonthlyUsage").fetchall() == [
            (7, 2, 3, 60, 7)
        ]
        assert usage.differences(old) == []


SUMS = ("MonthlyUsage", "JobUsageShares", "UsageBreakdown")


def test_sums_of_schema_33_have_the_times_that_no_efficiency_has(tmp_path: pathlib.Path) -> None:
    """Its upgrade makes the sums of a new database of the same jobs: counted, waiting, of several runs and pruned."""
    here = places(None, str(tmp_path / "control"), str(tmp_path / "new.db"))
    initialise(here)
    path = str(tmp_path / "old.db")
    with closing(open_accounting(here)) as con, closing(in_memory(ACCOUNTING, 33)) as old:
        counted_jobs.add(con, here)
        usage.update_breakdown(con, here, everything=True)
        con.execute("DELETE FROM AAR WHERE RecordID % 2")
        con.execute("DELETE FROM FinishedLog WHERE RecordID % 2")
        JobWriter(con, "pbs", "server").write([stored_jobs.job(number)._replace(wall_s=None) for number in (60, 61)])
        usage.update_monthly(con, here)
        assert con.execute("SELECT count(*), sum(MonthID IS NULL) FROM JobUsageShares").fetchone() == (15, 2)
        new = {table_: con.execute(f"SELECT * FROM {table_} ORDER BY 1").fetchall() for table_ in SUMS}
        for table_, rows in new.items():
            columns = [name for _cid, name, *_rest in con.execute(f"PRAGMA table_info({table_})")][:-1]
            into = ", ".join("WallNoCpu" if name == "CoreUnpaired" else name for name in columns)
            old.executemany(
                f"INSERT INTO {table_} ({into}) VALUES ({', '.join('?' * len(columns))})", [row[:-1] for row in rows]
            )
        old.execute("UPDATE JobUsageShares SET WallNoCpu = NoCpu * Wall")
        # No script makes all views of a new database: those of one of schema 33 read each other, as now.
        create_views(con, *SOURCES)
        for view, sql in con.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'"):
            old.execute(f"DROP VIEW IF EXISTS {view}")
            old.execute(sql)
        for table_, number, jobs in (
            ("MonthlyUsage", "CellID", "CellID"),
            ("UsageBreakdown", "FinerID", "CASE Kind WHEN 1 THEN MonthID WHEN 2 THEN DayID ELSE HostID END"),
        ):
            part = f"SELECT sum(WallNoCpu) FROM JobUsageShares AS Job WHERE {table_}.{number} = {jobs}"
            old.execute(f"UPDATE {table_} SET WallNoCpu = ifnull(({part}), 0)")
        old.execute("VACUUM INTO ?", (path,))

    ensure(path, ACCOUNTING)

    with closing(sqlite3.connect(path)) as old:
        assert {table_: old.execute(f"SELECT * FROM {table_} ORDER BY 1").fetchall() for table_ in SUMS} == new
        assert old.execute("SELECT count(*) FROM FinishedLog").fetchone() == (0,)
    unpaired = [row[-1] for row in new["JobUsageShares"]]
    assert len(unpaired) - unpaired.count(0) == 3


def _add(
    con: sqlite3.Connection,
    status: str,
    wall_s: int,
    cpu_s: int,
    *,
    memory: int = 0,
    has_started: bool = False,
    source: str | None = None,
) -> None:
    """A record as a former program left it."""
    for table_, columns in (("Endpoints", "'', ''"), ("Queues", "''"), ("Users", "''"), ("WLCGVOs", "''")):
        con.execute(f"INSERT OR IGNORE INTO {table_} SELECT 1, {columns} WHERE NOT EXISTS (SELECT 1 FROM {table_})")
    con.execute("INSERT OR IGNORE INTO Status (Name) VALUES (?)", (status,))
    number = con.execute("SELECT count(*) + 1 FROM AAR").fetchone()[0]
    con.execute(
        "INSERT INTO AAR SELECT ?1, 'j' || ?1, ?1, 1, 1, 1, 1, ID, 0, ?2, ?2 + 200, 1, 1, ?3, ?3, ?4, ?5, 0, 0, 0, 0"
        " FROM Status WHERE Name = ?6",
        (number, END - 200, memory, wall_s, cpu_s, status),
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


def _sum_up(con: sqlite3.Connection) -> None:
    """The monthly sums of a former program, all of one cell."""
    key = "Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups"
    con.execute(
        f"INSERT INTO Cells ({key}, Jobs, Wall, Cpu, Earliest, Latest, ChangedSeq) SELECT {key}, count(*),"
        " sum(Wall),"
        f" sum(Cpu), min(EndTime), max(EndTime), 7 FROM RecordUsage GROUP BY {key}"
    )
    con.execute(
        "INSERT INTO Contributions (RecordID, CellID, EndTime, Wall, Cpu)"
        " SELECT RecordID, 1, EndTime, Wall, Cpu FROM RecordUsage"
    )
    con.execute("UPDATE CellsPosition SET Seq = (SELECT max(Seq) FROM FinishedLog)")
