"""Jobs whose files are gone have what A-REX's own database says of them; A-REX notices nothing."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import arex_corpus as corpus
import arex_writer
import pytest
from arex_writer import FIRST_S, Writer
from control_directory import set_up
from job_files import Files, lay, remove, rows, statuses
from recording_host import LAUNCHER, until

from arcacct.arex import spool_replay
from arcacct.arex.control_files import read_job
from arcacct.arex.import_database import import_arex
from arcacct.arex.sweep import record_event, sweep
from arcacct.arex.sweep_context import Gap
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting

LIFE = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")
HOUR_S = 3600
FIRST = arex_writer.job_id(1)


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    """A host with a control directory that A-REX has set up, and that has no jobs any more."""
    (tmp_path / "control" / "accounting").mkdir(parents=True)
    return places(None, set_up(tmp_path / "control"))


@pytest.fixture
def arex(control: pathlib.Path) -> Iterator[Writer]:
    """A-REX's own writer."""
    with closing(arex_writer.create(control / "accounting" / "accounting.db")) as con:
        yield Writer(con)


def launched(here: Places, job_id: str, *states: str) -> None:
    """The launcher alone has run for these states: the words of its call are in the spool."""
    for state in states or LIFE:
        # Without one a call for ACCEPTED is about no job.
        status = pathlib.Path(here.controldir, "accepting", f"job.{job_id}.status")
        if state == "ACCEPTED":
            status.write_text(state)
        command = ["sh", LAUNCHER, here.controldir, job_id, state]
        done = subprocess.run(command, env={}, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        status.unlink(missing_ok=True)
    until(lambda: not any(name.startswith(".tmp-") for name in waiting(here)))
    aged(here, 601)


def waiting(here: Places) -> list[str]:
    """Events in the spool."""
    folder = pathlib.Path(here.spool)
    return sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.exists() else []


def aged(here: Places, seconds: int) -> None:
    """Let the events of the spool be so old."""
    when = time.time_ns() - seconds * 10**9
    for name in waiting(here):
        os.utime(pathlib.Path(here.spool, name), ns=(when, when))


def hooked(here: Places, con: sqlite3.Connection, state: str, ago_s: int, job_id: str = FIRST) -> None:
    """The hook has recorded a state of a job, and then all files of the job went away."""
    control = pathlib.Path(here.controldir)
    lay(control, Files(state, time.time_ns() - ago_s * 10**9), job_id)
    record_event(here, read_job(here.controldir, job_id, state), con)
    remove(control, job_id)


def rollback(_data: pathlib.Path, target: pathlib.Path) -> None:
    with closing(sqlite3.connect(target / "accounting.db")) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())


def version_2(_data: pathlib.Path, target: pathlib.Path) -> None:
    with closing(sqlite3.connect(target / "accounting_v2.db")) as con:
        con.executescript((corpus.AREX7 / "accounting_v2.sql").read_text())


def real_wal(data: pathlib.Path, target: pathlib.Path) -> None:
    for name in ("accounting.db", "accounting.db-wal", "accounting.db-shm"):
        shutil.copy(data / "arex" / name, target / name)


def real_version_2(data: pathlib.Path, target: pathlib.Path) -> None:
    shutil.copy(data / "arex7" / "accounting_v2.db", target / "accounting_v2.db")


@pytest.mark.parametrize(
    "lay_database", [rollback, version_2, real_wal, pytest.param(real_version_2, marks=pytest.mark.campaign)]
)
def test_jobs_that_only_the_launcher_saw_are_whole(
    here: Places, con: sqlite3.Connection, tmp_path: pathlib.Path, request: pytest.FixtureRequest, lay_database
) -> None:
    """Every job that was cleaned before the first sweep is recorded as an import of A-REX's database would."""
    data = request.getfixturevalue("test_data") if lay_database.__name__.startswith("real") else pathlib.Path()
    folder = pathlib.Path(here.controldir, "accounting")
    lay_database(data, folder)
    path = next(folder.glob("accounting*.db"))
    other = places(None, set_up(tmp_path / "other"))
    with closing(open_accounting(other)) as imported:
        # In a process of its own: one process reads a file in one way only.
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("arcacct*"))
        import_arex(other, imported, str(copy / path.name))
        wanted = rows(imported)
    ended = {row[0] for row in wanted["AAR"] if row[10]}
    assert len(ended) > 30
    for state in LIFE:
        for job_id in ended:
            launched(here, str(job_id), state)

    report = sweep(here, con)

    assert report.complaints == ()
    assert report.found == {Gap.TAKEN: len(ended)}
    found = rows(con)
    assert found == {table: [row for row in rows if row[0] in ended] for table, rows in wanted.items()}
    assert waiting(here) == []
    assert sweep(here, con).found == {}


def test_parity_with_arex(here: Places, con: sqlite3.Connection) -> None:
    """Every column and child row is what A-REX wrote; of the job that A-REX has lost itself the events are told."""
    rollback(pathlib.Path(), pathlib.Path(here.controldir, "accounting"))
    lost = corpus.names()["internal"]
    with closing(corpus.arex_database()) as arex:
        theirs, transfers = corpus.records(arex), corpus.children(arex, "DataTransfers")
    for job_id in theirs:
        launched(here, job_id)
    aged(here, 590)
    assert sweep(here, con).found == {}
    aged(here, 601)

    complaints = sweep(here, con).complaints

    assert corpus.records(con) == {job_id: row for job_id, row in theirs.items() if job_id != lost}
    ours = corpus.children(con, "DataTransfers")
    assert {job_id: set(found) for job_id, found in ours.items()} == {job_id: set(transfers[job_id]) for job_id in ours}
    assert [lost in text for text in complaints] == [True] * len(LIFE)
    assert waiting(here) == []


def test_a_job_that_vanished_has_the_end_that_arex_recorded(
    here: Places, con: sqlite3.Connection, arex: Writer
) -> None:
    """Neither aborted nor without usage: the hook saw it run, A-REX saw it end. What the hook recorded stays."""
    arex.accept(1)
    arex.event(1, "PREPARING", FIRST_S + 1)
    hooked(here, con, "INLRMS", HOUR_S)
    arex.end(1)

    report = sweep(here, con)

    assert report.found == {Gap.TAKEN: 1}
    assert statuses(con) == [(FIRST, "completed", FIRST_S + 61)]
    found = rows(con)
    assert found["AAR"][0][15] == 50
    assert (FIRST, "PREPARING") in [row[:2] for row in found["JobEvents"]]
    assert found["RunTimeEnvironments"] == [(FIRST, "ENV/PROXY")]
    assert con.execute("SELECT Source FROM RecordSources").fetchall() == [("arex",)]


def wait(con: sqlite3.Connection, seconds: int) -> None:
    """Let sweeps have missed jobs, and the last events of others be, that much longer ago."""
    con.execute("UPDATE StatusFiles SET MTimeNs = MTimeNs - ? WHERE Size = -1", (seconds * 10**9,))
    con.execute("UPDATE StatusFiles SET EventNs = EventNs - ? WHERE Size IS NULL", (seconds * 10**9,))


def test_a_job_that_is_in_progress_there_is_waited_for(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """However long it ran: A-REX may still write its end; an hour after the job went away it never will."""
    arex.accept(1)
    hooked(here, con, "INLRMS", 50 * HOUR_S)

    assert sweep(here, con).found == {}
    assert statuses(con) == [(FIRST, "in-progress", 0)]
    wait(con, HOUR_S // 2)
    assert sweep(here, con).found == {}

    wait(con, HOUR_S // 2)
    report = sweep(here, con)

    assert (report.found, report.complaints) == ({Gap.VANISHED: 1}, ())
    assert statuses(con)[0][1] == "aborted"


def test_a_job_that_arex_never_had_is_aborted_as_ever(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """A submission that was refused leaves no record there: there is nothing to wait for."""
    arex.accept(2)
    hooked(here, con, "ACCEPTED", HOUR_S // 2)

    assert sweep(here, con).found == {Gap.VANISHED: 1}


def test_an_end_that_is_being_written_is_waited_for(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """A-REX writes it in five transactions; a record taken in between would lack its benchmark."""
    now = int(time.time())
    arex.accept(1)
    status = arex.name("Status", "completed")
    arex.exec(f"UPDATE AAR SET StatusID = {status}, EndTime = {now}, UsedWalltime = 3500 WHERE RecordID = 1")
    launched(here, FIRST)

    assert sweep(here, con).complaints == ()
    assert (statuses(con), len(waiting(here))) == ([], len(LIFE))

    arex.event(1, "FINISHED", now)
    assert sweep(here, con).found == {Gap.TAKEN: 1}
    assert waiting(here) == []


def test_events_of_a_job_in_progress_there_give_it_a_record(
    here: Places, con: sqlite3.Connection, arex: Writer
) -> None:
    """User and VO are A-REX's, the events the launcher's; its end is taken when it is written."""
    arex.accept(1)
    launched(here, FIRST, "ACCEPTED", "PREPARING")

    assert sweep(here, con).complaints == ()
    assert statuses(con) == [(FIRST, "in-progress", 0)]
    assert rows(con)["AAR"][0][5] == "/DC=org/CN=User 1"

    arex.end(1)
    launched(here, FIRST, "FINISHED")
    wait(con, HOUR_S)
    sweep(here, con)
    wait(con, HOUR_S)
    sweep(here, con)

    assert statuses(con) == [(FIRST, "completed", FIRST_S + 61)]


def test_a_finished_job_is_never_aborted(here: Places, con: sqlite3.Connection) -> None:
    """Without anybody who knows what it used it stays in progress, is told once, and comes back with its files."""
    hooked(here, con, "INLRMS", 2 * HOUR_S)
    launched(here, FIRST, "FINISHED")
    aged(here, HOUR_S)

    report = sweep(here, con)

    (text,) = report.complaints
    assert text.startswith(f"{FIRST}: it has ended, its files in {here.controldir} are gone, and its usage is unknown")
    assert "`arcacct import arex FILE`" in text
    assert "`arcacct sweep --give-up JOBID`" in text
    assert (report.found, statuses(con)) == ({}, [(FIRST, "in-progress", 0)])
    again = sweep(here, con)
    assert (again.complaints, again.found) == ((), {})

    lay(pathlib.Path(here.controldir), Files("FINISHED"), FIRST)
    assert sweep(here, con).found == {Gap.NEW_END: 1}
    assert statuses(con)[0][1] == "completed"


def on_hold(here: Places, con: sqlite3.Connection) -> int:
    """A job that has ended and of which nothing tells what it used; returns when it ended."""
    hooked(here, con, "INLRMS", 2 * HOUR_S)
    launched(here, FIRST, "FINISHED")
    aged(here, HOUR_S)
    assert len(sweep(here, con).complaints) == 1
    ((end,),) = con.execute("SELECT strftime('%s', EventTime) FROM JobEvents WHERE EventKey = 'FINISHED'").fetchall()
    return int(end)


def test_a_backup_of_arexs_database_settles_it(here: Places, con: sqlite3.Connection, tmp_path: pathlib.Path) -> None:
    """An import completes a job on hold."""
    on_hold(here, con)
    with closing(arex_writer.create(tmp_path / "backup.db")) as backup:
        writer = Writer(backup)
        writer.accept(1)
        writer.end(1)

    assert import_arex(here, con, str(tmp_path / "backup.db")).completed == 1

    assert statuses(con) == [(FIRST, "completed", FIRST_S + 61)]
    assert sweep(here, con).complaints == ()


@pytest.mark.parametrize("word", [FIRST, "all"])
def test_somebody_may_give_it_up(here: Places, con: sqlite3.Connection, word: str) -> None:
    """Then it is aborted at the end that A-REX told; a job that no sweep has put on hold is refused."""
    end = on_hold(here, con)

    report = sweep(here, con, given_up=(word,))

    assert (report.found, report.complaints) == ({Gap.GIVEN_UP: 1}, ())
    assert statuses(con) == [(FIRST, "aborted", end)]
    (text,) = sweep(here, con, given_up=(FIRST,)).complaints
    assert text.startswith(f"{FIRST}: not given up")


def test_giving_up_is_rehearsed(here: Places, con: sqlite3.Connection) -> None:
    """A dry run says so and changes nothing."""
    on_hold(here, con)
    before = rows(con)

    assert sweep(here, con, given_up=("all",), dry_run=True).found == {Gap.GIVEN_UP: 1}

    assert rows(con) == before


def test_a_dry_run_takes_nothing(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """It says what would be taken; database, spool and directory are as before."""
    arex.accept(1)
    arex.end(1)
    launched(here, FIRST)
    before = con.execute("SELECT * FROM DBConfig").fetchall(), waiting(here), sorted(os.listdir(here.directory))

    assert sweep(here, con, dry_run=True).found[Gap.TAKEN] == 1

    assert statuses(con) == []
    names = [name for name in sorted(os.listdir(here.directory)) if not name.endswith(".lock")]
    assert (con.execute("SELECT * FROM DBConfig").fetchall(), waiting(here), names) == before


def test_a_sweep_with_nothing_to_ask_never_touches_arexs_database(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, arex: Writer
) -> None:
    """Whatever is recorded from files: no one opens or reads A-REX's file."""
    arex.accept(1)
    lay(control, Files("FINISHED"), "A")
    lay(control, Files("INLRMS"), "B")
    launched(here, "B", "INLRMS")
    script = (
        "import sys\n"
        "from arcacct.config.paths import places; from arcacct.database.access import open_accounting\n"
        "from arcacct.arex.sweep import sweep\n"
        "sys.addaudithook(lambda event, args: event in ('open', 'sqlite3.connect')"
        " and '/accounting/accounting.db' in str(args[0]) and print(event, args))\n"
        "here = places(None, sys.argv[1]); print(sweep(here, open_accounting(here)).found)"
    )

    command = [sys.executable, "-c", script, here.controldir]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "{'job': 1}\n"


def began(con: sqlite3.Connection, when_s: int) -> None:
    """Recording started then."""
    con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", (when_s,))


def looked(con: sqlite3.Connection, ago_s: int) -> None:
    """The last look for jobs without any event was so long ago."""
    now = int(time.time())
    con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_AREX_LOOKED'", (now - ago_s,))


def test_jobs_of_which_no_event_was_seen(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """They were cleaned between two sweeps. They are looked for every ten minutes, those in progress once they end."""
    began(con, FIRST_S)
    for number in (1, 2):
        arex.accept(number)
    arex.end(1)

    assert sweep(here, con).found == {Gap.TAKEN: 1}
    assert statuses(con) == [(FIRST, "completed", FIRST_S + 61)]
    assert rows(con)["AAR"][0][15] == 50
    end_s = int(time.time()) - 2 * HOUR_S
    arex.event(2, "INLRMS", end_s - 60)
    arex.finish(2, end_s)
    assert sweep(here, con).found == {}
    looked(con, 601)
    assert sweep(here, con).found == {Gap.TAKEN: 1}
    looked(con, 601)
    assert sweep(here, con).found == {}
    assert statuses(con) == [(FIRST, "completed", FIRST_S + 61), (arex_writer.job_id(2), "completed", end_s)]


def test_a_database_that_is_away_is_not_taken_for_read(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """Its jobs are found once it is back, however old they are by then."""
    began(con, FIRST_S)
    arex.accept(1)
    arex.end(1)
    accounting = pathlib.Path(here.controldir, "accounting")
    (accounting / "accounting.db").rename(accounting / "away")
    assert sweep(here, con).found == {}

    (accounting / "away").rename(accounting / "accounting.db")
    assert sweep(here, con).found == {Gap.TAKEN: 1}


@pytest.mark.parametrize("why", ["another program's", "deleted here", "in an archive", "its event may be in a spool"])
def test_other_jobs_are_not_looked_for(
    here: Places, con: sqlite3.Connection, arex: Writer, tmp_path: pathlib.Path, why: str
) -> None:
    """Jobs from before recording started, jobs that an operator deleted or pruned, and jobs of a moment ago."""
    end_s = int(time.time()) - (300 if why == "its event may be in a spool" else 2 * HOUR_S)
    began(con, end_s + 1 if why == "another program's" else FIRST_S)
    arex.accept(1)
    arex.finish(1, end_s)
    if why in ("deleted here", "in an archive"):
        assert sweep(here, con).found == {Gap.TAKEN: 1}
        looked(con, 601)
    if why == "in an archive":
        con.execute("INSERT INTO Archives VALUES (?, ?, 1, 0)", (str(tmp_path / "away.db"), end_s + 1))
    con.execute("DELETE FROM AAR")

    assert sweep(here, con).found == {}
    assert statuses(con) == []


def test_where_arex_writes_none_nobody_is_asked(here: Places, con: sqlite3.Connection, arex: Writer) -> None:
    """With arex_writes_no_accounting=yes the file is not A-REX's, whatever it is: as without one."""
    arex.accept(1)
    arex.end(1)
    here.arex_accounting = False
    launched(here, FIRST, "FINISHED")

    (text,) = sweep(here, con).complaints

    assert "has no .local and no record" in text


def test_our_own_database_is_never_asked(control: pathlib.Path, here: Places) -> None:
    """``database=`` may be the very path that A-REX uses elsewhere."""
    ours = places(None, str(control))
    ours.database = str(control / "accounting" / "accounting.db")
    ours.directory = str(control / "accounting")
    ours.spool = str(control / "accounting" / "arcacct" / "spool")
    with closing(open_accounting(ours)) as con:
        launched(ours, FIRST, "FINISHED")

        (text,) = sweep(ours, con).complaints

    assert "has no .local and no record" in text


@pytest.mark.parametrize(("age_s", "told", "left"), [(60, 0, True), (2 * HOUR_S, 1, True), (25 * HOUR_S, 1, False)])
def test_a_database_that_cannot_be_read_is_waited_for(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, age_s: int, told: int, left: bool
) -> None:
    """A day at most, however long the job ran; it is told once it matters, and never stops the sweep."""
    (control / "accounting" / "accounting.db").write_bytes(b"no database")
    hooked(here, con, "INLRMS", 50 * HOUR_S, "Gone")
    launched(here, FIRST, "FINISHED")
    lay(control, Files(), "Other")
    assert sweep(here, con).complaints == ()
    aged(here, age_s)
    wait(con, age_s)

    report = sweep(here, con)

    assert "Other" in [job_id for job_id, _status, _end in statuses(con)]
    assert len(report.complaints) == told
    assert (len(waiting(here)) == 1) == left
    assert (dict(row[:2] for row in statuses(con))["Gone"] == "in-progress") == left
    if told and left:
        assert "accounting.db: not an SQLite database" in report.complaints[0]
        assert "2 jobs without files: waiting" in report.complaints[0]


def test_a_database_that_takes_long_to_read_is_left_alone_for_a_while(
    here: Places, con: sqlite3.Connection, arex: Writer
) -> None:
    """A moment that A-REX did not leave cost seconds: the next sweeps do not try again, and the job is not given up."""
    arex.accept(1)
    arex.end(1)
    hooked(here, con, "INLRMS", 2 * HOUR_S)
    arex.con.execute("BEGIN IMMEDIATE")
    arex.con.execute("UPDATE AAR SET ExitCode = 7")

    assert sweep(here, con).complaints == ()
    arex.con.execute("ROLLBACK")
    assert sweep(here, con).found == {}

    assert statuses(con) == [(FIRST, "in-progress", 0)]
    con.execute("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_ASK_AREX_AFTER'")
    assert sweep(here, con).found == {Gap.TAKEN: 1}


def test_a_host_that_was_upgraded_has_two_databases(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, arex: Writer
) -> None:
    """Jobs of ARC 6 are in the one, jobs of ARC 7 in the other; the same job in both has its end."""
    arex.accept(1)
    arex.end(1)
    arex.accept(2)
    version_2(pathlib.Path(), control / "accounting")
    with closing(sqlite3.connect(control / "accounting" / "accounting_v2.db")) as there:
        (other,) = there.execute("SELECT JobID FROM AAR WHERE EndTime > 0 ORDER BY RecordID LIMIT 1").fetchone()
        there.execute(
            "UPDATE AAR SET JobID = ? WHERE RecordID = (SELECT max(RecordID) FROM AAR WHERE EndTime > 0)",
            (arex_writer.job_id(2),),
        )
        there.commit()
    jobs = [FIRST, arex_writer.job_id(2), other]
    for job_id in jobs:
        launched(here, job_id, "FINISHED")

    report = sweep(here, con)

    assert (report.found, report.complaints) == ({Gap.TAKEN: 3}, ())
    assert sorted(job_id for job_id, _status, end in statuses(con) if end) == sorted(jobs)


def test_a_service_leaves_a_database_alone_that_no_one_uses(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, arex: Writer
) -> None:
    """One in WAL mode: copied once, the same process could not read it in place when A-REX is back."""
    arex.accept(1)
    arex.end(1)
    arex.con.execute("PRAGMA journal_mode = WAL")
    arex.con.close()
    launched(here, FIRST, "FINISHED")

    assert sweep(here, con, goes_on=True).found == {}
    assert len(waiting(here)) == 1

    with closing(sqlite3.connect(control / "accounting" / "accounting.db")) as back:
        back.execute("SELECT count(*) FROM AAR").fetchone()
        assert sweep(here, con, goes_on=True).found == {Gap.TAKEN: 1}


def test_a_pruned_job_does_not_come_back(
    here: Places, con: sqlite3.Connection, arex: Writer, tmp_path: pathlib.Path
) -> None:
    """An old event of a job that is in an archive is no reason to count it twice."""
    arex.accept(1)
    arex.end(1)
    import_arex(here, con, f"{here.controldir}/accounting/accounting.db")
    con.execute("INSERT INTO Archives VALUES (?, ?, 1, 0)", (str(tmp_path / "away.db"), FIRST_S + 10**6))
    con.execute("DELETE FROM AAR")
    launched(here, FIRST, "FINISHED")
    aged(here, HOUR_S)

    assert len(sweep(here, con).complaints) == 1

    assert statuses(con) == []


def test_arex_loses_no_row_while_it_is_asked(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweeps ask again and again while A-REX writes in rollback-journal mode: every job and event of A-REX is there."""
    # Events are not judged that early, but A-REX's database is to be asked while it is written.
    monkeypatch.setattr(spool_replay, "_JUDGED_S", 0)
    path = control / "accounting" / "accounting.db"
    process = arex_writer.start(path, "rollback", 100, 0.005)
    taken = 0
    for number in range(1, 13):
        launched(here, arex_writer.job_id(number), "FINISHED")
        aged(here, 0)
        con.execute("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_ASK_AREX_AFTER'")
        taken += sweep(here, con).found.get(Gap.TAKEN, 0)
    believed = arex_writer.believed(process)
    con.execute("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_ASK_AREX_AFTER'")
    # Those that were in progress there have been recorded as that, with an event of a moment ago.
    wait(con, HOUR_S)
    taken += sweep(here, con).found.get(Gap.TAKEN, 0)

    assert believed["lost"] == 0
    with closing(sqlite3.connect(path)) as there:
        assert there.execute("SELECT count(*) FROM AAR").fetchone()[0] == believed["jobs"]
        assert there.execute("SELECT count(*) FROM JobEvents").fetchone()[0] == believed["events"]
    assert statuses(con) == [(arex_writer.job_id(n), "completed", FIRST_S + n + 60) for n in range(1, 13)]
    assert waiting(here) == []
    assert taken > 0
