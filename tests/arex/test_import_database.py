"""Taking over the jobs of a database that A-REX writes."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from zoneinfo import ZoneInfo

import arex_writer
import job_files
import pytest
from arex_writer import FIRST_S, Writer, job_id
from control_directory import set_up

from arcacct.arex.control_files import read_job
from arcacct.arex.import_database import ImportReport, arex_databases, import_arex, retry_rejected
from arcacct.arex.sweep import record_event
from arcacct.config.paths import Places, places
from arcacct.database import incarnation
from arcacct.database.access import open_accounting
from arcacct.database.schema import note_delivered
from arcacct.errors import InputError, StoreBusy
from arcacct.records import reader
from arcacct.records.rejected import listed

UTC = ZoneInfo("UTC")
END = FIRST_S + 100


@pytest.fixture
def here(tmp_path) -> Places:
    return places(None, set_up(tmp_path / "control"))


@pytest.fixture
def con(here) -> Iterator[sqlite3.Connection]:
    with closing(open_accounting(here)) as con:
        yield con


@pytest.fixture
def path(tmp_path) -> pathlib.Path:
    return tmp_path / "accounting.db"


@pytest.fixture
def arex(path) -> Iterator[Writer]:
    """A-REX's writer, and its database in rollback-journal mode."""
    with closing(arex_writer.create(path)) as con:
        con.execute("PRAGMA synchronous = OFF")
        yield Writer(con)


def finished(arex: Writer, *numbers: int, end_s: int = END) -> None:
    for number in numbers:
        arex.accept(number)
        arex.event(number, "PREPARING", FIRST_S + number + 1)
        arex.event(number, "INLRMS", FIRST_S + number + 2)
        arex.finish(number, end_s)


def run(here: Places, con: sqlite3.Connection, path: pathlib.Path) -> ImportReport:
    return import_arex(here, con, str(path), UTC)


def statuses(con: sqlite3.Connection) -> dict[str, str]:
    return dict(con.execute("SELECT JobID, Name FROM AAR JOIN Status ON Status.ID = StatusID"))


def everything(con: sqlite3.Connection) -> tuple[object, ...]:
    return job_files.rows(con), job_files.finished_log(con)


def test_jobs_are_taken_over_once(here, con, path, arex) -> None:
    """Every job with all its rows, and one entry in the log for each that is finished; again: nothing at all."""
    finished(arex, 1, 2, 3)
    arex.accept(4)

    first = run(here, con, path)
    before, changes = everything(con), con.total_changes
    second = run(here, con, path)

    assert (first.added, first.unfinished) == (4, 1)
    assert job_files.rows(con) == job_files.rows(str(path))
    assert [record_id for _seq, record_id in job_files.finished_log(con)] == [1, 2, 3]
    assert second.looked_at == 0
    assert (everything(con), con.total_changes) == (before, changes)


def test_records_say_where_they_came_from(here, con, path, arex) -> None:
    """RecordSources has A-REX's database and its path."""
    finished(arex, 1)

    run(here, con, path)

    assert con.execute("SELECT Source, Origin FROM RecordSources").fetchall() == [("arex", os.path.realpath(path))]


def test_a_job_in_progress_is_followed_up(here, con, path, arex) -> None:
    """Its end is taken over by the first import after it, and logged once."""
    arex.accept(1)
    run(here, con, path)
    assert statuses(con) == {job_id(1): "in-progress"}

    arex.finish(1, END)
    report = run(here, con, path)

    assert (report.added, report.changed, report.unfinished) == (0, 1, 0)
    assert job_files.rows(con) == job_files.rows(str(path))
    assert len(job_files.finished_log(con)) == 1


def test_an_end_without_events_is_found_too(here, con, path, arex) -> None:
    """A-REX was killed while it wrote the end: the record is final, and no event says so."""
    arex.accept(1)
    run(here, con, path)

    arex.con.execute(f"UPDATE AAR SET StatusID = {arex.name('Status', 'failed')}, EndTime = 1700000000")
    report = run(here, con, path)

    assert (report.changed, report.unfinished) == (1, 0)
    assert statuses(con) == {job_id(1): "failed"}


def test_an_end_that_is_being_written_waits(here, con, path, arex) -> None:
    """Without its benchmark a job would be published wrong: it is taken when A-REX has written all of it."""
    import time

    now = int(time.time())
    arex.accept(1)
    arex.con.execute(f"UPDATE AAR SET StatusID = {arex.name('Status', 'completed')}, EndTime = {now}")
    assert run(here, con, path).unfinished == 1
    assert statuses(con) == {}

    arex.con.execute("INSERT INTO JobExtraInfo VALUES (1, 'benchmark', 'HEPSPEC:12.26')")
    arex.event(1, "FINISHED", now)
    report = run(here, con, path)

    assert (report.added, report.unfinished) == (1, 0)
    assert con.execute("SELECT InfoValue FROM JobExtraInfo").fetchall() == [("HEPSPEC:12.26",)]


def test_a_resumed_job_is_changed(here, con, path, arex) -> None:
    """Its second end replaces the first; the children that A-REX repeats are there once."""
    arex.accept(1)
    arex.finish(1, END, "failed")
    run(here, con, path)

    arex.event(1, "INLRMS", END + 10)
    arex.finish(1, END + 60, "completed")
    report = run(here, con, path)

    assert report.changed == 1
    assert statuses(con) == {job_id(1): "completed"}
    assert con.execute("SELECT EndTime FROM AAR").fetchone() == (END + 60,)
    assert len(job_files.rows(con)["JobExtraInfo"]) == 3
    assert len(job_files.rows(con)["RunTimeEnvironments"]) == 1
    assert len(job_files.finished_log(con)) == 1


def test_a_restart_that_repeats_children_changes_nothing(here, con, path, arex) -> None:
    """A-REX writes the same end once more when it starts again: the record is not logged as changed."""
    finished(arex, 1)
    run(here, con, path)
    before = job_files.finished_log(con)

    arex.finish(1, END)
    report = run(here, con, path)

    assert report.looked_at == 1
    assert report.changed == 0
    assert job_files.finished_log(con) == before


def test_a_lost_record_is_left_out_and_named(here, con, path, arex) -> None:
    """INTERNAL jobs have no status and no end in A-REX's database."""
    finished(arex, 1)
    arex.accept(2)
    arex.con.execute(f"UPDATE AAR SET StatusID = {arex.name('Status', '')} WHERE RecordID = 2")

    report = run(here, con, path)

    assert len(report.lost) == 1
    assert job_id(2) in report.lost[0][0]
    assert list(statuses(con)) == [job_id(1)]


def test_a_new_database_at_the_same_place(here, con, path, arex) -> None:
    """Somebody moved A-REX's database away: the numbers begin again, and no job of the new one is missed."""
    finished(arex, 1, 2, 3)
    run(here, con, path)
    os.rename(path, f"{path}.old")

    with closing(arex_writer.create(path)) as new:
        other = Writer(new)
        for number in (1, 2):
            other.accept(number)
            new.execute(f"UPDATE AAR SET JobID = 'NEW{number}' WHERE RecordID = {number}")
            other.finish(number, END)
    report = run(here, con, path)

    assert report.added == 2
    assert set(statuses(con)) == {job_id(1), job_id(2), job_id(3), "NEW1", "NEW2"}


def test_a_moved_database_changes_nothing(here, con, path, arex) -> None:
    """A copy elsewhere has the same jobs."""
    finished(arex, 1, 2)
    run(here, con, path)
    before = everything(con)
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())

    report = run(here, con, copy)

    assert (report.looked_at, report.added, report.changed) == (2, 0, 0)
    assert everything(con) == before


def test_a_name_that_is_no_text(here, con, path, arex) -> None:
    r"""Bytes that are not UTF-8 become \xHH, as when they are read from the control directory."""
    finished(arex, 1)
    arex.con.execute("UPDATE JobExtraInfo SET InfoValue = CAST(x'4dff' AS TEXT) WHERE InfoKey = 'jobname'")

    run(here, con, path)

    names = con.execute("SELECT InfoValue FROM JobExtraInfo WHERE InfoKey = 'jobname'").fetchall()
    assert names == [("M\\xff",)]


def recorded(here: Places, con: sqlite3.Connection, state: str = "FINISHED", **changed: object) -> None:
    """Our hook records the job of `job_files` in a state."""
    job_files.lay(pathlib.Path(here.controldir), job_files.Files(state=state)._replace(**changed))
    record_event(here, read_job(here.controldir, job_files.JOB, state), con)


def theirs(arex: Writer, *, exit_code: int = 0, end_s: int = job_files.NOON_S, status: str = "completed") -> None:
    """The same job as A-REX has it."""
    arex.accept(1)
    arex.con.execute(f"UPDATE AAR SET JobID = '{job_files.JOB}'")
    arex.event(1, "INLRMS", job_files.NOON_S - 100)
    arex.finish(1, end_s, status)
    arex.con.execute(f"UPDATE AAR SET ExitCode = {exit_code}")


def test_what_we_recorded_stays(here, con, path, arex) -> None:
    """Our recorder saw the job's files: A-REX's other values are listed, and ours are kept."""
    recorded(here, con)
    before = everything(con)[1], job_files.rows(con)["AAR"], job_files.rows(con)["JobExtraInfo"]
    theirs(arex, exit_code=9)

    report = run(here, con, path)

    assert (report.added, report.changed, report.completed, report.differing) == (0, 0, 0, 1)
    assert "ExitCode is 0 here, 9 there" in report.differences[0].what
    assert (everything(con)[1], job_files.rows(con)["AAR"], job_files.rows(con)["JobExtraInfo"]) == before


def test_an_event_without_a_hook_is_added(here, con, path, arex) -> None:
    """ARC 6 has no hook for INLRMS: A-REX's own row tells when the job started to run; the others are ours."""
    recorded(here, con)
    assert (job_files.JOB, "INLRMS") not in job_files.events(con)
    theirs(arex)

    run(here, con, path)

    assert job_files.events(con).count((job_files.JOB, "INLRMS")) == 1
    assert job_files.events(con).count((job_files.JOB, "FINISHED")) == 1


@pytest.mark.parametrize("is_delivered", [True, False])
def test_the_times_of_a_record_that_receivers_have_stay(here, con, path, arex, is_delivered) -> None:
    """A record that changes without an entry in the log is never sent again; one that waits for a target is sent so."""
    recorded(here, con)
    if is_delivered:
        note_delivered(con, incarnation.highest_seq(con))
    con.execute("DELETE FROM JobEvents WHERE EventKey IN ('SUBMIT', 'LRMSSTART')")
    theirs(arex)
    for key in ("SUBMIT", "LRMSSTART"):
        arex.event(1, key, job_files.NOON_S - 200)

    assert run(here, con, path).changed == 0

    ((_seq, aar),) = reader.logged_after(con, 0, 99).records
    told = None if is_delivered else job_files.NOON_S - 200
    assert (aar.lrms_submit_time, aar.lrms_start_time) == (told, told)


@pytest.mark.parametrize("first", ["SUBMIT", "FINISHED"])
def test_an_end_that_our_recorder_missed_is_completed(here, con, path, arex, first) -> None:
    """The hook was away when the job ended, for the first time or again: A-REX has it."""
    recorded(here, con, first, failed=b"upload failed")
    theirs(arex, end_s=job_files.NOON_S + 500)

    report = run(here, con, path)

    assert report.completed == 1
    assert statuses(con) == {job_files.JOB: "completed"}
    assert con.execute("SELECT EndTime FROM AAR").fetchone() == (job_files.NOON_S + 500,)
    assert len(job_files.finished_log(con)) == 1
    assert run(here, con, path).completed == 0


def test_a_vo_that_only_we_know_stays_with_the_end_of_arex(here, con, path, arex) -> None:
    """A rule that only arcacct.conf has told it when the job started; A-REX has the end, and no VO."""
    recorded(here, con, "SUBMIT")
    theirs(arex)
    arex.con.execute(f"UPDATE AAR SET VOID = {arex.name('WLCGVOs', '')}")

    assert run(here, con, path).completed == 1

    assert con.execute("SELECT Name, EndTime FROM AAR JOIN WLCGVOs ON ID = VOID").fetchone() == (
        "atlas",
        job_files.NOON_S,
    )


def test_a_job_that_vanished_is_completed(here, con, path, arex) -> None:
    """A sweep called it aborted at its last event: A-REX knows how it ended."""
    recorded(here, con, "SUBMIT")
    con.execute(
        "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'aborted'), EndTime = ?", (job_files.NOON_S,)
    )
    theirs(arex, end_s=job_files.NOON_S)

    assert run(here, con, path).completed == 1
    assert statuses(con) == {job_files.JOB: "completed"}
    assert con.execute("SELECT UsedWalltime FROM AAR").fetchone() == (50,)


def test_our_recorder_has_the_last_word(here, con, path, arex) -> None:
    """Imported first and recorded later: the record becomes ours, and a repeated import leaves it alone."""
    theirs(arex, exit_code=9)
    run(here, con, path)
    recorded(here, con)
    before = everything(con)

    arex.event(1, "FINISHED", job_files.NOON_S)
    report = run(here, con, path)

    assert report.differing == 1
    assert everything(con) == before


def test_another_zone_puts_the_events_right(here, con, path, arex) -> None:
    """An import with the wrong zone is repaired by one that looks at all again: a copy, with the right one."""
    arex.accept(1)
    arex.event(1, "INLRMS", FIRST_S + 3600)
    arex.con.execute("UPDATE AAR SET SubmitTime = 0")
    run(here, con, path)
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())

    import_arex(here, con, str(copy), ZoneInfo("Asia/Kolkata"))

    times = [when for key, when in con.execute("SELECT EventKey, EventTime FROM JobEvents") if key == "INLRMS"]
    assert times == ["2026-11-20 05:50:00"]


def test_a_database_of_arc_7(here, con, tmp_path) -> None:
    """FQAN and benchmark stand in the record there; ours are where ARC 6 has them. Numbers keep their sign."""
    path = tmp_path / "accounting_v2.db"
    with closing(arex_writer.create(path, 2)) as there:
        there.executescript("""
            INSERT INTO Endpoints VALUES (1, 'org.nordugrid.arcrest', 'https://ce.example.org/arex');
            INSERT INTO Queues VALUES (1, 'main'); INSERT INTO Users VALUES (1, '/CN=A');
            INSERT INTO WLCGVOs VALUES (2, 'atlas'); INSERT INTO Status VALUES (1, 'in-progress'), (2, 'failed');
            INSERT INTO FQANs VALUES (2, '/atlas/Role=production');
            INSERT INTO Benchmarks VALUES (2, 'HEPscore23:17.5');
            INSERT INTO AAR (RecordID, JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, FQANID, StatusID, ExitCode,
              BenchmarkID, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime,
              UsedCPUUserTime, UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume)
            VALUES (1, 'J7', '5', 1, 1, 1, 2, 2, 2, -9, 2, 1795170000, 1795170060, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
            INSERT INTO AuthTokenAttributes VALUES (1, 'vomsfqan', '/atlas/Role=production'), (1, 'vomsfqan', '/atlas'),
              (1, 'issuer', 'https://iam.example.org');
            INSERT INTO JobExtraInfo VALUES (1, 'jobname', 'seven'), (1, 'lrms', 'slurm');
            INSERT INTO JobEvents VALUES (1, 'ACCEPTED', '2026-11-20 10:20:00'), (1, 'FINISHED', '2026-11-20 10:21:00');
        """)

    report = run(here, con, path)

    found = job_files.rows(con)
    assert report.added == 1
    assert found["AAR"][0][5:9] == ("/CN=A", "atlas", "failed", -9)
    assert [row[1:] for row in con.execute("SELECT * FROM AuthTokenAttributes ORDER BY rowid")] == [
        ("mainfqan", "/atlas/Role=production"),
        ("vomsfqan", "/atlas"),
        ("issuer", "https://iam.example.org"),
    ]
    assert [row[1:] for row in found["JobExtraInfo"]] == [
        ("benchmark", "HEPscore23:17.5"),
        ("jobname", "seven"),
        ("lrms", "slurm"),
    ]


def test_our_own_database_is_no_source(here, con) -> None:
    """No one imports a database into itself."""
    with pytest.raises(InputError, match="the database to import into"):
        run(here, con, here.database)


def test_one_import_at_a_time(here, con, path, arex) -> None:
    """A second one says so and leaves at once."""
    import fcntl

    finished(arex, 1)
    with open(os.path.join(here.directory, "import.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(StoreBusy, match="another import"):
            run(here, con, path)


def test_the_databases_of_a_control_directory(tmp_path) -> None:
    """That of ARC 6, that of ARC 7, both after an upgrade; none is an error that says what to give."""
    (tmp_path / "accounting").mkdir()
    with pytest.raises(InputError, match="give its path"):
        arex_databases(str(tmp_path))
    for name in ("accounting_v2.db", "accounting.db"):
        (tmp_path / "accounting" / name).touch()

    assert [os.path.basename(one) for one in arex_databases(str(tmp_path))] == ["accounting.db", "accounting_v2.db"]


@pytest.mark.parametrize("mode", ["rollback", "wal"])
def test_nothing_of_arex_is_lost_while_we_import(here, con, path, mode) -> None:
    """A-REX writes as fast as it can and we import again and again: each row it wrote is there, and in ours, too."""
    process = arex_writer.start(path, mode, 60, 0.02)
    imports = 0
    while imports < 5:
        with suppress(StoreBusy):
            import_arex(here, con, str(path), UTC, patience_s=0.5)
            imports += 1
    told = arex_writer.believed(process)

    with closing(sqlite3.connect(path)) as there:
        counts = [there.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("AAR", "JobEvents")]
        assert there.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert told["lost"] == 0
    assert counts == [told["jobs"], told["events"]]
    assert told["jobs"] >= 60
    last_import(here, path)
    assert job_files.rows(con) == job_files.rows(str(path))
    assert len(job_files.finished_log(con)) == told["jobs"]


def last_import(here: Places, path: pathlib.Path) -> None:
    """The import that a timer starts after A-REX has stopped."""
    code = "import sys; from arcacct.cli.main import main; main(sys.argv[1:])"
    options = ["import", "arex", str(path), "--timezone", "UTC", "--controldir", here.controldir]
    subprocess.run([sys.executable, "-c", code, *options], check=True, capture_output=True)


def test_the_emulated_arex_loses_rows_to_a_reader(path) -> None:
    """The emulation does what A-REX does: a reader in its way at one COMMIT costs it that row and all later ones."""
    with closing(arex_writer.create(path)) as con, closing(sqlite3.connect(path, isolation_level=None)) as reader:
        writer = Writer(con, wait=lambda: reader.execute("COMMIT"))
        finished(writer, 1)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM AAR").fetchone()
        writer.event(1, "CLEANED", END)
        finished(writer, 2)

    with closing(sqlite3.connect(path)) as there:
        assert there.execute("SELECT JobID FROM AAR").fetchall() == [(job_id(1),)]
        assert there.execute("SELECT count(*) FROM JobEvents WHERE EventKey = 'CLEANED'").fetchone() == (0,)
    assert writer.lost > 1


def test_an_interrupted_import_continues(here, path, arex, con) -> None:
    """Killed between any two slices: the next import ends with the same rows as one that was left alone."""
    finished(arex, *range(1, 81))
    code = (
        "import os, sys; from arcacct.config.paths import places\n"
        "from arcacct.database import access\nfrom arcacct.arex import import_database\n"
        "here = places(None, sys.argv[1]); con = access.open_accounting(here)\n"
        "slices = 0\n"
        "def die(con):\n"
        "    global slices; slices += 1\n"
        "    if slices > int(sys.argv[3]): os.kill(os.getpid(), 9)\n"
        "access.write_back = die\n"
        "import_database._PAGE = import_database._WRITE_BACK = 10\n"
        "import_database.import_arex(here, con, sys.argv[2])"
    )
    for slices in (0, 1, 2):
        command = [sys.executable, "-c", code, here.controldir, str(path), str(slices)]
        assert subprocess.run(command, check=False).returncode == -9

    report = run(here, con, path)

    assert 0 < report.added < 80
    assert job_files.rows(con) == job_files.rows(str(path))
    assert len(job_files.finished_log(con)) == 80
    assert not [name for name in os.listdir(here.directory) if name.startswith("arex-copy")]


REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON AAR WHEN new.LocalJobID = {} BEGIN SELECT RAISE(ABORT, ''); END"


def test_a_record_that_cannot_be_stored_is_rejected_alone(here, con, path, arex) -> None:
    """Its neighbours of the same slice are taken over; with the cause gone a retry takes it, without A-REX's file."""
    finished(arex, *range(1, 41))
    number = arex.con.execute("SELECT LocalJobID FROM AAR ORDER BY RecordID LIMIT 1 OFFSET 16").fetchone()[0]
    con.execute(REFUSE.format(repr(number)))
    report = import_arex(here, con, str(path), UTC)

    assert (report.added, report.rejected, report.looked_at) == (39, 1, 40)
    assert report.complaints == (("record 17", "the database does not allow its values"),)
    [kept] = listed(con, "arex")
    assert (kept.file, kept.position) == (str(path), "record 17")
    assert import_arex(here, con, str(path), UTC).looked_at == 0

    con.execute("DROP TRIGGER refuse")
    path.unlink()
    _report, done = retry_rejected(here, con, UTC)
    assert (done.tried, done.good, listed(con)) == (1, 1, [])
    jobs = con.execute("SELECT count(*), count(DISTINCT wall_s) FROM v1_jobs WHERE status = 'completed'").fetchone()
    assert jobs == (40, 1)
    events = "SELECT min(n), max(n) FROM (SELECT count(*) AS n FROM v1_job_events GROUP BY job_id)"
    assert con.execute(events).fetchone() == (4, 4)


def test_a_rejected_record_that_comes_again_is_rejected_no_longer(here, con, path, arex) -> None:
    """It has changed at A-REX's: the import looks at it again, and what was kept of it is outdated."""
    finished(arex, 1, 2)
    number = arex.con.execute("SELECT LocalJobID FROM AAR WHERE RecordID = 2").fetchone()[0]
    con.execute(REFUSE.format(repr(number)))
    assert import_arex(here, con, str(path), UTC).rejected == 1
    con.execute("DROP TRIGGER refuse")
    arex.con.execute("INSERT INTO JobEvents VALUES (2, 'FINISHED', '2027-01-01 10:00:00')")
    arex.con.commit()
    report = import_arex(here, con, str(path), UTC)

    assert (report.added, report.rejected, listed(con)) == (1, 0, [])


def test_a_number_that_no_column_holds_stays_too_large(here, con, path, arex) -> None:
    """A-REX writes unsigned numbers: SQLite makes a REAL of -1, and a wall time of 0 would be published for it."""
    finished(arex, 1, 2)
    with closing(sqlite3.connect(path)) as theirs, theirs:
        theirs.execute(f"UPDATE AAR SET UsedWalltime = {2**64 - 1} WHERE RecordID = 1")
    run(here, con, path)

    assert con.execute("SELECT JobID, Reasons FROM RecordHolds JOIN AAR USING (RecordID)").fetchall() == [
        (job_id(1), "out-of-range")
    ]
    assert con.execute("SELECT wall_s FROM v1_jobs WHERE job_id = ?", (job_id(1),)).fetchone() == (None,)
