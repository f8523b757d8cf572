"""The sweep: whatever the hook missed is found, once, and what cannot be used is told."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import sqlite3
import time
from contextlib import closing

import pytest
import spool_0_2 as spool
from control_directory import set_up
from job_files import JOB, LOCAL, NOON_NS, NOON_S, Files, events, finished_log, lay, rows, statuses

from arcacct.arex.control_files import job_file, read_job
from arcacct.arex.sweep import record_event, sweep
from arcacct.arex.sweep_context import Gap, SweepReport
from arcacct.config.paths import Places, places
from arcacct.errors import InputError, StoreBusy, StoreError
from arcacct.files.directories import private_directory


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    """The places of a fresh host."""
    (tmp_path / "control").mkdir()
    return places(None, set_up(tmp_path / "control"))


def test_every_job_of_the_directory_is_recorded(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Jobs in every state are found, each with the event of its state, finished ones with what they used."""
    lay(control, Files("ACCEPTED"), "A")
    lay(control, Files("INLRMS"), "B")
    lay(control, Files("FINISHED"), "C")
    lay(control, Files("FINISHED", failed=b""), "D")

    report = sweep(here, con)

    assert report == SweepReport(spooled=0, jobs=4, looked_at=4, found={Gap.NEW_JOB: 4}, complaints=())
    assert statuses(con) == [
        ("A", "in-progress", 0),
        ("B", "in-progress", 0),
        ("C", "completed", NOON_S),
        ("D", "failed", NOON_S),
    ]
    assert ("B", "INLRMS") in events(con)


def test_a_second_sweep_reads_nothing(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Jobs whose status file is the one that was read are not read again, and nothing changes."""
    for job_id in "ABC":
        lay(control, Files("FINISHED", NOON_NS - 10**15), job_id)
    sweep(here, con)
    before = rows(con)

    report = sweep(here, con)

    assert (report.jobs, report.looked_at, report.recorded) == (3, 0, 0)
    assert rows(con) == before


@pytest.mark.parametrize("how", ["in place", "another file", "another folder"])
def test_a_status_file_that_changed_is_read_again(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, how: str
) -> None:
    """A rewrite in place, a file of the same name, time and size, and a move are all noticed."""
    lay(control, Files("FINISHED", NOON_NS - 10**15, failed=b""))
    sweep(here, con)
    status = control / "finished" / f"job.{JOB}.status"
    pathlib.Path(job_file(str(control), JOB, "failed")).unlink()
    if how == "in place":
        status.write_text("FINISHED")
    elif how == "another file":
        status.unlink()
        status.write_text("FINISHED")
        os.utime(status, ns=(NOON_NS - 10**15, NOON_NS - 10**15))
    else:
        status.rename(control / "restarting" / status.name)

    sweep(here, con)

    assert statuses(con)[0][1] == "completed"


def test_a_young_job_is_looked_at_again(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """What a callout after ours adds to a job that has just finished is found, though its status file stays."""
    lay(control, Files("FINISHED", time.time_ns()))
    sweep(here, con)
    assert statuses(con)[0][1] == "completed"

    pathlib.Path(job_file(str(control), JOB, "failed")).write_text("failed by a later callout")
    pathlib.Path(job_file(str(control), JOB, "local")).write_bytes(LOCAL + b"projectname=p\n")
    report = sweep(here, con)

    assert (report.looked_at, report.recorded) == (1, 1)
    assert statuses(con)[0][1] == "failed"
    assert (JOB, "projectname", "p") in rows(con)["JobExtraInfo"]


def test_what_the_hook_recorded_is_no_news(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """The sweep reads each job once after the hook, and finds nothing to record; the log does not move."""
    lay(control, Files("FINISHED"))
    record_event(here, read_job(str(control), JOB, "FINISHED"), con)
    log = finished_log(con)

    report = sweep(here, con)

    assert (report.looked_at, report.recorded) == (1, 0)
    assert finished_log(con) == log


def test_a_resumed_job_is_found(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A job that failed, was resumed and ended well between two sweeps ends as completed, with one set of children."""
    lay(control, Files("FINISHED", NOON_NS, failed=b""))
    sweep(here, con)
    lay(control, Files("FINISHED", NOON_NS + 100 * 10**9, statistics=b""))
    sweep(here, con)

    found = rows(con)
    assert statuses(con) == [(JOB, "completed", NOON_S + 100)]
    assert found["DataTransfers"] == []
    assert len(found["RunTimeEnvironments"]) == 2
    assert len(finished_log(con)) == 1


def test_jobs_are_recorded_in_slices(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Many jobs take many short transactions, progress is told for each, and none is lost."""
    for number in range(95):
        lay(control, Files("FINISHED"), f"Job{number}")
    told: list[tuple[int, int]] = []

    report = sweep(here, con, progress=lambda done, jobs: told.append((done, jobs)))

    assert report.recorded == 95
    assert told == [(number + 1, 95) for number in range(95)]


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        pytest.param(Files(local=None), "has a status file but no .local", id="no .local"),
        pytest.param(Files(local=b""), "has a status file but no .local", id="empty .local"),
        pytest.param(
            Files(status=b"NONSENSE"), "not a status file of A-REX (its content is 'NONSENSE')", id="unknown state"
        ),
        pytest.param(Files(status=b"\xff\xfe\n"), "not a status file of A-REX", id="bytes"),
    ],
)
def test_a_job_that_cannot_be_used_is_reported_and_the_rest_continues(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, files: Files, complaint: str
) -> None:
    """One complaint with the job and the reason; every other job is recorded; the next sweep looks again."""
    lay(control, Files(), "A")
    lay(control, files, "B")
    lay(control, Files(), "C")

    report = sweep(here, con)

    assert [job_id for job_id, _status, _end in statuses(con)] == ["A", "C"]
    (text,) = report.complaints
    assert text.startswith("B: ")
    assert complaint in text
    lay(control, Files(), "B")
    assert sweep(here, con).complaints == ()
    assert len(statuses(con)) == 3


def test_an_unreadable_file_is_reported(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A control file that cannot be read is named; the job is not recorded half."""
    lay(control, Files(diag=None))
    os.mkdir(job_file(str(control), JOB, "diag"))

    report = sweep(here, con)

    assert f"job.{JOB}.diag" in report.complaints[0] or "directory" in report.complaints[0]
    assert statuses(con) == []


LONG_AGO_S = NOON_S - 1_000_000
DELETED = (
    LOCAL.replace(b"starttime=20261120110000Z", b"starttime=20261108210000Z")
    + b"lifetime=604800\ncleanuptime=20261115221320Z\n"
)
"""What .local says of a job that ended LONG_AGO_S and whose results A-REX has thrown away a week later."""
DELETED_NS = (LONG_AGO_S + 604_800) * 10**9


def test_a_deleted_job_that_no_one_recorded_has_its_end(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """Of a job that A-REX has deleted the end is the moment from which its life time ran, the rest what is left."""
    lay(control, Files("DELETED", DELETED_NS, local=DELETED, statistics=None, failed=b""))

    report = sweep(here, con)

    assert report.found == {Gap.NEW_JOB: 1}
    assert statuses(con) == [(JOB, "failed", LONG_AGO_S)]
    assert sweep(here, con).looked_at == 0


@pytest.mark.parametrize(
    "local",
    [
        pytest.param(LOCAL, id="no times"),
        pytest.param(LOCAL + b"lifetime=<\ncleanuptime=20261127120000Z\n", id="life time of an xRSL job"),
        pytest.param(LOCAL + b"lifetime=604800\ncleanuptime=20200101000000Z\n", id="before it began"),
        pytest.param(LOCAL + b"lifetime=60\ncleanuptime=20261220120000Z\n", id="after it was deleted"),
    ],
)
def test_a_deleted_job_without_times_ended_when_it_was_deleted(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, local: bytes
) -> None:
    """When .local does not tell the end, the deletion is the latest moment that it can have been."""
    lay(control, Files("DELETED", NOON_NS + 10**9, local=local))

    sweep(here, con)

    assert statuses(con) == [(JOB, "completed", NOON_S + 1)]


def test_a_deleted_job_changes_no_record(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """What was recorded at its end knows more than the files that are left; they are read once."""
    lay(control, Files("FINISHED", LONG_AGO_S * 10**9))
    record_event(here, read_job(str(control), JOB, "FINISHED"), con)
    before, log = rows(con), finished_log(con)
    lay(control, Files("DELETED", DELETED_NS, local=DELETED, statistics=None))

    first, second = sweep(here, con), sweep(here, con)

    assert (rows(con), finished_log(con)) == (before, log)
    assert (first.looked_at, first.recorded, second.looked_at) == (1, 0, 0)


def test_a_deleted_job_without_files_makes_nothing(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """Without .local there is nothing left to learn, and nothing to complain about."""
    lay(control, Files("DELETED", local=None))

    report = sweep(here, con)

    assert (report.complaints, statuses(con)) == ((), [])


def test_a_status_file_that_is_being_written_makes_no_complaint(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """A status file that is still empty is A-REX at work: the next sweep has it."""
    lay(control, Files())
    status = control / "finished" / f"job.{JOB}.status"
    status.write_bytes(b"")

    assert sweep(here, con).complaints == ()
    status.write_bytes(b"FINISHED")
    assert sweep(here, con).recorded == 1


def test_a_wrong_control_directory_is_an_error(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A control directory that is not there does not look like a site without jobs."""
    control.rename(control.parent / "elsewhere")

    with pytest.raises(InputError, match=r"control: cannot read the control directory: No such file"):
        sweep(here, con)


def test_a_locked_database_is_busy_and_nothing_is_lost(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """When the database stays locked the sweep ends with StoreBusy, and what it would have drained is still there."""
    lay(control, Files())
    spool.write(here.spool, read_job(str(control), JOB, "FINISHED"))
    con.execute("PRAGMA busy_timeout = 50")
    with closing(sqlite3.connect(here.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="database is locked"):
            sweep(here, con)

    assert len(os.listdir(here.spool)) == 1
    assert sweep(here, con).spooled == 1


def spooled(here: Places, control: pathlib.Path, state: str, at_ns: int = NOON_NS, **files: bytes | None) -> str:
    """An event that the hook has put into the spool."""
    lay(control, Files(state, at_ns, **files))  # type: ignore[arg-type]
    return spool.write(here.spool, read_job(str(control), JOB, state))


def test_the_spool_is_drained_in_any_order(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Events of a job that was resumed, drained together, end in its last state; their files are gone after."""
    spooled(here, control, "ACCEPTED", NOON_NS)
    spooled(here, control, "FINISHED", NOON_NS + 5 * 10**9, failed=b"")
    spooled(here, control, "FINISHED", NOON_NS + 9 * 10**9)
    for path in control.glob("job.*"):
        path.unlink()
    shutil.rmtree(control / "finished")

    report = sweep(here, con)

    assert (report.spooled, report.jobs, report.complaints) == (3, 0, ())
    assert os.listdir(here.spool) == []
    assert statuses(con) == [(JOB, "completed", NOON_S + 9)]
    assert [row[2] for row in rows(con)["JobEvents"] if row[1] == "FINISHED"] == [
        "2026-11-20 12:00:05",
        "2026-11-20 12:00:09",
    ]


def test_an_event_is_removed_only_when_it_is_committed(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep that is killed between commit and removal leaves the file; the next changes nothing and removes it."""
    path = spooled(here, control, "FINISHED")
    content = pathlib.Path(path).read_bytes()
    sweep(here, con)
    pathlib.Path(path).write_bytes(content)
    before, log = rows(con), finished_log(con)

    assert sweep(here, con).spooled == 1

    assert (rows(con), finished_log(con)) == (before, log)
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "incomplete"),
        (b"\xff\x00 rubbish", "truncated or not a spool file"),
        (b"version=99\n", "spool version=99; this program supports 2"),
        (b"version=1\ncontroldir=/c\njobid=J\nstate=SUBMIT\ntime=1e9\n", "is not a time"),
    ],
    ids=["empty", "rubbish", "newer", "no time"],
)
def test_a_file_that_is_no_event_becomes_unusable(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, content: bytes, reason: str
) -> None:
    """It is told once, kept for a person to look at, and stops neither its neighbours nor the next sweep."""
    spooled(here, control, "FINISHED")
    path = pathlib.Path(here.spool, "1-2-SUBMIT-J")
    path.write_bytes(content)
    os.utime(path, (1, 1))

    report = sweep(here, con)

    (complaint,) = report.complaints
    assert complaint.startswith(f"{here.spool}/unusable/1-2-SUBMIT-J: ")
    assert reason in complaint
    assert pathlib.Path(here.spool, "unusable", "1-2-SUBMIT-J").read_bytes() == content
    assert statuses(con) == [(JOB, "completed", NOON_S)]
    assert sweep(here, con).complaints == ()


def test_an_event_of_an_unknown_job_becomes_unusable(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """Without .local and without a record there is no telling whose job it was."""
    os.utime(spooled(here, control, "SUBMIT", local=None), (1, 1))
    shutil.rmtree(control / "processing")

    (complaint,) = sweep(here, con).complaints

    assert f"job {JOB} has no .local and no record" in complaint


@pytest.mark.parametrize("cut", [None, 400, 0], ids=["whole", "torn", "empty"])
def test_what_a_killed_hook_had_written_is_recorded(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, cut: int | None
) -> None:
    """A spool file without its name is an event: with all its files if it is whole, and else by what it was called."""
    path = pathlib.Path(spooled(here, control, "FINISHED"))
    begun = path.with_name(f".tmp-{path.name}")
    path.rename(begun)
    os.truncate(begun, begun.stat().st_size if cut is None else cut)
    assert sweep(here, con, dry_run=True).spooled == 0
    os.utime(begun, (time.time() - (61 if cut is None else 601),) * 2)
    if cut is None:
        for left in (*control.glob("job.*"), *control.glob("finished/*")):
            left.unlink()

    report = sweep(here, con)

    assert (report.spooled, report.complaints) == (1, ())
    assert statuses(con) == [(JOB, "completed", NOON_S)]
    assert os.listdir(here.spool) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_event_that_the_database_refuses_is_reported_once(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, dry_run: bool
) -> None:
    """It is set aside, with the reason that is its own, and its neighbour is recorded."""
    refused = pathlib.Path(spooled(here, control, "FINISHED")).name
    lay(control, Files("FINISHED"), "Other")
    spool.write(here.spool, read_job(str(control), "Other", "FINISHED"))
    for left in (*control.glob("job.*"), *control.glob("finished/*")):
        left.unlink()
    con.execute(
        f"CREATE TRIGGER Refuses BEFORE INSERT ON AAR WHEN new.JobID = '{JOB}'"
        " BEGIN SELECT RAISE(ABORT, 'no such job wanted'); END"
    )

    report = sweep(here, con, dry_run=dry_run)

    (complaint,) = report.complaints
    assert refused in complaint
    assert "no such job wanted" in complaint
    assert report.spooled == 1


def test_what_neither_hook_nor_launcher_made_is_left_alone(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """A pipe does not hold the sweep up, a link leads nowhere; each is named, and its neighbours are recorded."""
    spooled(here, control, "FINISHED")
    folder = pathlib.Path(here.spool)
    os.mkfifo(folder / f"1-1-SUBMIT-{JOB}")
    (folder / f"2-1-SUBMIT-{JOB}").symlink_to("/etc/passwd")
    (folder / f"3-1-SUBMIT-{JOB}").mkdir()

    report = sweep(here, con)

    assert report.spooled == 1
    assert [text.partition(":")[0] for text in report.complaints] == [
        f"{folder}/{number}-1-SUBMIT-{JOB}" for number in (1, 2, 3)
    ]
    assert all("not touched" in text for text in report.complaints)
    assert sorted(os.listdir(folder)) == [f"{number}-1-SUBMIT-{JOB}" for number in (1, 2, 3)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_event_of_somebody_else_is_left_alone(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """A file of a user who is neither root nor the spool's owner is no word of A-REX's."""
    path = spooled(here, control, "FINISHED")
    os.chown(path, 65534, 65534)

    (complaint,) = sweep(here, con).complaints

    assert complaint.startswith(f"{path}: a file of user 65534")
    assert os.path.exists(path)


@pytest.mark.parametrize("in_run_2", ["PREPARING", "FINISHED"])
def test_run_2_is_not_accounted_under_the_end_of_run_1(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, in_run_2: str
) -> None:
    """An event without its files, of a job that was resumed meanwhile, only says that the earlier run ended."""
    private_directory(here.spool)
    lines = f"version=1\ncontroldir={control}\njobid={JOB}\nstate=FINISHED\ntime={NOON_S}\n"
    pathlib.Path(here.spool, f"{NOON_S}-1-FINISHED-{JOB}").write_text(lines)
    lay(control, Files(in_run_2, NOON_NS + 3600 * 10**9))

    sweep(here, con)

    ended = in_run_2 == "FINISHED"
    assert statuses(con) == [(JOB, "completed" if ended else "in-progress", NOON_S + 3600 if ended else 0)]
    assert len(finished_log(con)) == ended


def test_a_file_that_is_being_written_is_left_alone(here: Places, con: sqlite3.Connection) -> None:
    """A .tmp- file of a hook at work is not touched; one without a name or a word in it goes after a day."""
    private_directory(here.spool)
    young, old = pathlib.Path(here.spool, ".tmp-1"), pathlib.Path(here.spool, ".tmp-2")
    young.touch()
    old.touch()
    os.utime(old, (time.time() - 100_000,) * 2)

    assert sweep(here, con).complaints == ()
    assert os.listdir(here.spool) == [".tmp-1"]


def test_an_event_of_another_version_is_kept_though_it_never_got_its_name(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """A newer version was killed while it spooled: what this one cannot read it sets aside, however old, and tells."""
    path = spooled(here, control, "FINISHED")
    content = pathlib.Path(path).read_bytes().replace(b"version=1", b"version=9")
    os.unlink(path)
    begun = pathlib.Path(here.spool, f".tmp-{os.path.basename(path)}")
    begun.write_bytes(content)
    os.utime(begun, (time.time() - 100_000,) * 2)

    (complaint,) = sweep(here, con).complaints

    aside = pathlib.Path(here.spool, "unusable", begun.name)
    assert complaint.startswith(f"{aside}: ")
    assert aside.read_bytes() == content


def test_the_launchers_time_is_not_the_one_of_a_later_state(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """An event of the launcher keeps its own time when the job has meanwhile come into the same state once more."""
    private_directory(here.spool)
    lines = f"version=1\ncontroldir={control}\njobid={JOB}\nstate=FINISHING\ntime={NOON_S}\n"
    pathlib.Path(here.spool, f"{NOON_S}-1-FINISHING-{JOB}").write_text(lines)
    lay(control, Files("FINISHING", NOON_NS + 60 * 10**9))

    sweep(here, con)

    assert [row[2] for row in rows(con)["JobEvents"] if row[1] == "FINISHING"] == [
        "2026-11-20 12:00:00",
        "2026-11-20 12:01:00",
    ]


@pytest.mark.parametrize(("later_ns", "is_same"), [(0, True), (999_999_999, True), (10**9, False), (5 * 10**9, False)])
def test_a_status_file_of_the_launchers_second_is_that_of_the_event(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, later_ns: int, is_same: bool
) -> None:
    """The launcher of 0.2 cut its time to seconds: the state may have started later in that second, not in the next."""
    private_directory(here.spool)
    lines = f"version=1\ncontroldir={control}\njobid={JOB}\nstate=FINISHING\ntime={NOON_S}\n"
    pathlib.Path(here.spool, f"{NOON_S}-1-FINISHING-{JOB}").write_text(lines)
    lay(control, Files("FINISHING", NOON_NS + later_ns))

    sweep(here, con)

    assert len([row for row in rows(con)["JobEvents"] if row[1] == "FINISHING"]) == (1 if is_same else 2)


def test_two_sweeps_at_once_record_once(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Sweeps that run side by side trip over nothing and record each job once."""
    import subprocess
    import sys

    for number in range(60):
        lay(control, Files("FINISHED"), f"Job{number:02}")
        spool.write(here.spool, read_job(str(control), f"Job{number:02}", "FINISHED"))
    script = (
        "import sys; from arcacct.config.paths import places; from arcacct.database.access import open_accounting;"
        "from arcacct.arex.sweep import sweep; here = places(None, sys.argv[1]);"
        "print(sweep(here, open_accounting(here)).complaints)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(control)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]

    assert [process.communicate() for process in running] == [(b"()\n", b"")] * 3
    assert [job_id for job_id, _status, _end in statuses(con)] == [f"Job{number:02}" for number in range(60)]
    assert len(finished_log(con)) == 60
    assert os.listdir(here.spool) == []


NOT_UTF_8 = b"job.\xff\xfe\x1b[31m.status"


def test_a_name_that_is_not_utf_8_stops_nothing(here: Places, con: sqlite3.Connection, control: pathlib.Path) -> None:
    """Such a status file is told in a form that any terminal takes; every other job is recorded."""
    lay(control, Files(), "A")
    with open(os.fsencode(control / "finished") + b"/" + NOT_UTF_8, "wb") as file:
        file.write(b"FINISHED")
    lay(control, Files(), "C")

    report = sweep(here, con)

    assert sorted(job_id for job_id, _status, _end in statuses(con)) == ["A", "C"]
    (text,) = report.complaints
    assert f"{control}/finished/job.\\xff\\xfe\\x1b[31m.status: not a status file of A-REX" in text
    text.encode("ascii")


@pytest.mark.parametrize("suffix", ["local", "diag", "statistics"])
def test_what_the_system_says_names_the_file(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, suffix: str
) -> None:
    """An error of a read, which knows a descriptor alone (here EISDIR), is told with the path."""
    lay(control, Files(), "A")
    lay(control, Files())
    path = pathlib.Path(job_file(str(control), JOB, suffix))
    path.unlink()
    path.mkdir()

    report = sweep(here, con)

    assert [job_id for job_id, _status, _end in statuses(con)] == ["A"]
    assert report.complaints == (f"{JOB}: {path}: Is a directory; the next sweep checks the job again",)


def test_no_locks_names_the_file(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server without a lock service (ENOLCK) is told by the file: without a lock no .local is read."""

    def no_locks(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    lay(control, Files())
    monkeypatch.setattr("fcntl.lockf", no_locks)

    (text,) = sweep(here, con).complaints

    assert text.startswith(f"{JOB}: {control}/job.{JOB}.local: No locks available")


YEAR_2445_S = 15_000_000_000
"""The file system has this time, and in nanoseconds it is more than a column of the database holds."""


def test_one_job_that_spoils_a_transaction_is_told_and_the_others_are_recorded(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """Values that SQLite cannot take are those of one job: its neighbours in the same transaction are recorded."""
    for number in range(5):
        lay(control, Files(), f"Job{number}")
    status = control / "finished" / "job.Job2.status"
    os.utime(status, (YEAR_2445_S, YEAR_2445_S))
    if status.stat().st_mtime != YEAR_2445_S:
        pytest.skip("the file system keeps no such time")

    report = sweep(here, con)

    assert sorted(job_id for job_id, _status, _end in statuses(con)) == ["Job0", "Job1", "Job3", "Job4"]
    assert report.found == {Gap.NEW_JOB: 4}
    (text,) = report.complaints
    assert text.startswith(f"Job2: {status}: ")
    os.utime(status, ns=(NOON_NS, NOON_NS))
    assert sweep(here, con).found == {Gap.NEW_JOB: 1}


def test_a_row_that_the_database_refuses_is_one_jobs_fault(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """A constraint that a single record violates takes back that record alone."""
    con.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON AAR WHEN new.JobID = 'Job1' BEGIN SELECT raise(ABORT, 'no'); END"
    )
    for number in range(3):
        lay(control, Files(), f"Job{number}")

    report = sweep(here, con)

    assert sorted(job_id for job_id, _status, _end in statuses(con)) == ["Job0", "Job2"]
    assert len(report.complaints) == 1


def test_a_fault_of_the_database_still_ends_the_sweep(
    here: Places, con: sqlite3.Connection, control: pathlib.Path
) -> None:
    """A table that is missing is nothing that one job could help."""
    lay(control, Files())
    con.execute("DROP TABLE DataTransfers")

    with pytest.raises(StoreError, match="no such table"):
        sweep(here, con)


@pytest.fixture
def elsewhere(here: Places) -> pathlib.Path:
    """A directory of root's that the user who owns the spool would like something in."""
    path = pathlib.Path(here.directory, "elsewhere")
    path.mkdir()
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_unusable_files_stay_in_the_spool(here: Places, con: sqlite3.Connection, elsewhere: pathlib.Path) -> None:
    """In a spool that belongs to another user a link has the name of the folder: nothing goes where it leads."""
    private_directory(here.spool)
    damaged = pathlib.Path(here.spool, f"{NOON_NS}-1-FINISHED-{JOB}")
    damaged.write_text("what he would like to have there\n")
    pathlib.Path(here.spool, "unusable").symlink_to(elsewhere)
    for path in (here.controldir, here.spool, damaged):
        os.chown(path, 65534, 65534)

    (complaint,) = sweep(here, con).complaints

    assert complaint.startswith(f"{damaged}: ")
    assert "cannot be moved to spool/unusable" in complaint
    assert "symbolic link" in complaint
    assert os.listdir(elsewhere) == []
    assert damaged.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_second_name_of_a_file_is_no_event(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    """A hard link to a file of root's in another user's spool is neither read nor told what is in it."""
    secret = elsewhere / "secret"
    secret.write_text("root alone may read this")
    path = spooled(here, control, "FINISHED")
    os.unlink(path)
    os.link(secret, path)
    for folder in (here.controldir, here.spool):
        os.chown(folder, 65534, 65534)

    (complaint,) = sweep(here, con).complaints

    assert (
        complaint
        == f"{path}: a file of user 0 that has another name elsewhere; it is not touched: check who created it"
    )
    assert secret.stat().st_nlink == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_spool_of_a_stranger_is_not_believed(
    here: Places, con: sqlite3.Connection, control: pathlib.Path, elsewhere: pathlib.Path
) -> None:
    """Somebody was first to make the directory of spool_fallback=: no job of his, and no file read that he names."""
    (elsewhere / f"job.{JOB}.local").write_text("subject=/CN=root alone may read this\n")
    path = spooled(here, control, "FINISHED")
    event = pathlib.Path(path)
    lines = event.read_bytes().partition(b"file=")[0]
    event.write_bytes(lines.replace(str(control).encode(), str(elsewhere).encode()))
    shutil.rmtree(control / "finished")
    for path_of_his in (here.spool, path):
        os.chown(path_of_his, 65534, 65534)

    (complaint,) = sweep(here, con).complaints

    assert complaint.startswith(f"{here.spool}: it belongs to user 65534, ")
    assert event.exists()
    assert statuses(con) == []
