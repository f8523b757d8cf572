"""What the launcher spools becomes the rows that the job's files say, whoever records it and when."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from disturbed_host import LIFE, job_files
from installed import ARCACCT, arcacct
from job_files import DIAG, JOB, NOON_NS, Files, cleaned, events, lay, moved_to_hashed, remove, rows
from recorder_service import Service, drained, recorder
from recording_host import LAUNCHER, PROJECT, Gate, Host, until, waiting

from arcacct.arex import resident, spool_replay
from arcacct.arex.control_files import read_job
from arcacct.arex.resident import LOCK, RecorderLock
from arcacct.arex.sweep import record_event, sweep
from arcacct.database.access import open_accounting
from arcacct.database.connection import make_durable
from arcacct.health.checks import judge
from arcacct.health.facts import OK, Thresholds, look


def beside(host: Host) -> Host:
    """Another host, whose rows are recorded directly from the job's files."""
    (host.control.parent / "other").mkdir()
    return Host(host.control.parent / "other")


def record(host: Host, state: str = "FINISHED", job_id: str = JOB) -> None:
    """Record an event without launcher and spool."""
    with closing(open_accounting(host.places)) as con:
        record_event(host.places, read_job(str(host.control), job_id, state), con)


def play(host: Host, other: Host, shell: tuple[str, ...], *, failed: bool = False, hashed: bool = False) -> None:
    """The life of a job, which is cleaned: the launcher runs on a host, and the other one has the rows."""
    for step, state in enumerate(LIFE):
        for one in (host, other):
            lay(one.control, job_files(JOB, state, step, failed=failed))
            if hashed:
                moved_to_hashed(one.control)
        assert host.call(state, shell=shell, waits=False) == ""
        record(other, state)
        if state == "FINISHED":
            cleaned(host.control)
        elif hashed:
            for one in (host, other):
                cleaned(one.control)


def age(host: Host, seconds: float) -> None:
    """The events of a host are older than they are."""
    for path in host.spool:
        os.utime(path, (path.stat().st_mtime - seconds,) * 2)


@pytest.mark.parametrize("hashed", [False, True], ids=["ARC 6", "ARC 7"])
@pytest.mark.parametrize("failed", [False, True], ids=["completed", "failed"])
def test_a_cleaned_job_is_recorded_whole(host: Host, shell: tuple[str, ...], hashed: bool, failed: bool) -> None:
    """No recorder runs, and nothing is left of the job when the sweep comes: all is in the spool but some times."""
    other = beside(host)
    play(host, other, shell, failed=failed, hashed=hashed)
    until(lambda: not any(name.startswith(".tmp-") for name in waiting(host.places.spool)))

    report = host.sweep()

    assert (report.spooled, report.complaints) == (5, ())
    assert host.spool == []
    ours, theirs = rows(str(host.database)), rows(str(other.database))
    assert {**ours, "JobEvents": []} == {**theirs, "JobEvents": []}
    # The time of a state that the job has left is when the launcher ran.
    assert [row[:2] for row in ours["JobEvents"]] == [row[:2] for row in theirs["JobEvents"]]
    assert [row for row in ours["JobEvents"] if row[1] == "FINISHED"] == [
        row for row in theirs["JobEvents"] if row[1] == "FINISHED"
    ]


def test_next_to_a_recorder_all_times_are_those_of_a_rex(host: Host, shell: tuple[str, ...]) -> None:
    """Each state is in the database in a moment, with the time of the status file."""
    other = beside(host)
    with recorder(host):
        for step, state in enumerate(LIFE):
            for one in (host, other):
                lay(one.control, job_files(JOB, state, step))
            host.call(state, shell=shell)
            record(other, state)
            if state == "FINISHED":
                cleaned(host.control)
            drained(host)

    assert rows(str(host.database)) == rows(str(other.database))


@pytest.mark.parametrize("kind", ["running", "killed", "absent"])
def test_clients_that_clean_at_once(host: Host, kind: str) -> None:
    """Forty jobs whose client deletes everything as soon as FINISHED returns: all complete, with usage."""
    jobs = [f"Job{number:03}" for number in range(40)]
    service = None if kind == "absent" else Service(host).ready()

    def life(job_id: str) -> None:
        for state in LIFE:
            # Like A-REX, just before the callout.
            lay(host.control, job_files(job_id, state)._replace(mtime_ns=time.time_ns()), job_id)
            assert host.call(state, job_id, waits=False) == ""
        remove(host.control, job_id)

    with ThreadPoolExecutor(3) as pool:
        for number, _done in enumerate(pool.map(life, jobs)):
            if kind == "killed" and service is not None and number % 10 == 9:
                service.end(signal.SIGKILL)
                service.start()
    until(lambda: not any(name.startswith(".tmp-") for name in waiting(host.places.spool)))
    if service is not None:
        drained(host)
        service.end()
    else:
        assert host.sweep().complaints == ()

    assert host.spool == []
    assert not os.path.exists(f"{host.places.spool}/unusable")
    with closing(sqlite3.connect(host.database)) as con:
        assert con.execute("SELECT DISTINCT status, wall_s FROM v1_jobs").fetchall() == [("completed", 61)]
    found = events(str(host.database))
    assert sorted(event for event in found if event[1] in LIFE) == sorted(
        (one, state) for one in jobs for state in LIFE
    )


def test_a_copy_that_was_stopped_for_long(host: Host, tmp_path: pathlib.Path, shell: tuple[str, ...]) -> None:
    """The recorder took the event by its name after ten minutes; the process that copies then writes it again."""
    other = beside(host)
    lay(other.control, Files())
    record(other)
    gate = Gate(tmp_path / "bin", "stat")
    lay(host.control, Files())
    host.call(shell=shell, waits=False, PATH=gate.path)
    gate.waits()
    cleaned(host.control)
    age(host, 590)
    host.sweep()
    assert len(host.spool) == 1
    age(host, 20)
    host.sweep()
    assert not [path for path in host.spool if path.name.startswith(".tmp-")]

    gate.open()
    until(lambda: host.spool)
    until(lambda: not host.spool[0].name.startswith(".tmp-"))
    host.sweep()

    assert host.spool == []
    ours, theirs = rows(str(host.database)), rows(str(other.database))
    assert ours == theirs


def test_an_event_waits_for_the_copy_of_its_job(host: Host, tmp_path: pathlib.Path) -> None:
    """Without .local it is not judged while the files of its job are being copied, however old it is."""
    gate = Gate(tmp_path / "bin", "stat")
    lay(host.control, Files("SUBMIT"))
    host.call("SUBMIT")
    age(host, 3600)
    lay(host.control, Files())
    host.call(waits=False, PATH=gate.path)
    cleaned(host.control)
    for _ in range(2):
        report = host.sweep()
        assert (report.spooled, report.complaints) == (0, ())
    gate.open()
    until(lambda: not any(path.name.startswith(".tmp-") for path in host.spool))

    assert host.sweep().spooled == 2
    assert {(JOB, "SUBMIT"), (JOB, "FINISHED")} <= {*events(str(host.database))}


def test_an_event_that_no_one_explains_waits_ten_minutes(host: Host) -> None:
    """Then it is kept for people, and `doctor` says what it is and what to do with it, at any time."""
    lay(host.control, Files("SUBMIT"))
    host.call("SUBMIT")
    cleaned(host.control)
    age(host, 590)
    assert (host.sweep().complaints, len(host.spool)) == ((), 1)
    age(host, 20)

    (complaint,) = host.sweep().complaints

    assert f"job {JOB} has no .local and no record" in complaint
    assert "`arcacct doctor` says what to do with it" in complaint
    assert host.spool == []
    (kept,) = pathlib.Path(host.places.spool, "unusable").iterdir()
    host.conf.write_text(f"[common]\n[arex]\ncontroldir={host.control}\n")
    for _ in range(2):
        said = arcacct("--config", host.conf, "doctor", "--offline").stdout
        assert f"{kept}: {JOB} SUBMIT at " in said
        assert f"mv {kept} {host.places.spool}/" in said
    lay(host.control, Files())
    record(host)
    assert (
        f"is recorded (`arcacct job {JOB}`): remove the file"
        in arcacct("--config", host.conf, "doctor", "--offline").stdout
    )


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        (f"4711-SUBMIT-{JOB}", b"version=9\nnew=yes\n", "another program, or a newer arcacct, wrote it"),
        ("1-core", b"version=2\n", "it is not an event of arcacct"),
        (f"4711-FINISHED-{JOB}", b"version=2\ncontrol", "it is incomplete, and only its name can be used"),
    ],
)
def test_what_is_in_unusable_is_explained(host: Host, name: str, content: bytes, what: str) -> None:
    """Whatever a file is, `doctor` has a line for it."""
    unusable = pathlib.Path(host.places.spool, "unusable")
    unusable.mkdir(parents=True)
    (unusable / name).write_bytes(content)
    host.conf.write_text(f"[common]\n[arex]\ncontroldir={host.control}\n")

    assert what in arcacct("--config", host.conf, "doctor", "--offline").stdout


@pytest.mark.parametrize(("seconds", "taken"), [(50, False), (70, True)])
def test_an_event_that_is_not_whole(host: Host, seconds: int, taken: bool) -> None:
    """It is left for a minute, since the launcher may be writing it. Then its name and its time are the event."""
    lay(host.control, Files("SUBMIT", time.time_ns() - 100 * 10**9))
    host.call("SUBMIT")
    (event,) = host.spool
    content = event.read_bytes()
    event.write_bytes(content[:-3])
    age(host, seconds)

    assert host.sweep().spooled == taken
    assert [path.name for path in host.spool] == ([] if taken else [event.name])


def test_a_whole_copy_without_its_name(host: Host) -> None:
    """The process that copies was killed before it could give the event its name."""
    lay(host.control, Files())
    host.call()
    (event,) = host.spool
    event.rename(event.with_name(f".tmp-{event.name}"))
    cleaned(host.control)
    assert (host.sweep().spooled, len(host.spool)) == (0, 1)
    age(host, 70)

    assert host.sweep().spooled == 1
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]
    assert host.spool == []


def test_a_copy_that_is_finished_while_its_name_is_recorded(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name was read when it was not whole: the whole event, which the process wrote meanwhile, stays."""
    lay(host.control, Files())
    host.call()
    (event,) = host.spool
    whole = event.read_bytes()
    event.unlink()
    torn = event.with_name(f".tmp-{event.name}")
    torn.touch()
    cleaned(host.control)
    lay(host.control, Files("SUBMIT"))
    host.sweep()
    remove(host.control)
    age(host, 700)

    def finished(database: str) -> None:
        if torn.exists():
            torn.write_bytes(whole)
            torn.rename(event)
        make_durable(database)

    monkeypatch.setattr(spool_replay, "make_durable", finished)
    assert host.sweep().spooled == 1
    assert host.spool == [event]
    monkeypatch.undo()
    host.sweep()

    assert host.spool == []
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


@pytest.mark.parametrize("ahead_s", [0.5, 30])
def test_a_file_server_whose_clock_is_ahead(host: Host, ahead_s: float) -> None:
    """An event from the near future is young: it is neither judged nor taken by its name."""
    lay(host.control, Files("SUBMIT"))
    host.call("SUBMIT")
    cleaned(host.control)
    torn = pathlib.Path(host.places.spool, ".tmp-1-FINISHED-Other")
    torn.touch()
    age(host, -ahead_s)

    assert (host.sweep().complaints, len(host.spool)) == ((), 2)


def test_a_spool_that_cannot_be_read_stops_no_other(host: Host) -> None:
    """Events of the other spool are recorded; what the unreadable one could explain is not judged."""
    second = host.control.parent / "second"
    second.write_text("not a directory")
    host.configure(f"spool_fallback={second}")
    lay(host.control, Files("SUBMIT"), "Unknown")
    host.call("SUBMIT", "Unknown")
    remove(host.control, "Unknown")
    lay(host.control, Files())
    host.call()
    age(host, 3600)

    report = host.sweep(str(host.conf))

    assert report.spooled == 1
    (complaint,) = report.complaints
    assert complaint.startswith(f"{second}: cannot read the spool: Not a directory")
    assert [path.name.partition("-")[2] for path in host.spool] == ["SUBMIT-Unknown"]
    assert [row[0] for row in rows(str(host.database))["AAR"]] == [JOB]


def test_a_dry_run_foresees_what_a_sweep_does(host: Host) -> None:
    """Also for an event that only a later one of its job explains."""
    for state in ("SUBMIT", "FINISHED"):
        lay(host.control, Files(state))
        host.call(state)
    cleaned(host.control)
    age(host, 3600)
    with closing(open_accounting(host.places)) as con:
        foreseen = sweep(host.places, con, dry_run=True)

    assert (foreseen.spooled, foreseen.complaints) == (2, ())
    assert len(host.spool) == 2
    assert host.sweep()[:1] == foreseen[:1]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_what_another_user_prepared_in_a_shared_spool(host: Host) -> None:
    """His copy keeps no event waiting, and a directory of his gets none."""
    spool = pathlib.Path(host.places.spool)
    spool.mkdir()
    spool.chmod(0o1777)
    (spool / "unusable").mkdir()
    (spool / f".tmp-1-FINISHED-{JOB}").touch()
    for name in ("unusable", f".tmp-1-FINISHED-{JOB}"):
        os.chown(spool / name, 65534, 65534)
    lay(host.control, Files("SUBMIT"))
    host.call("SUBMIT", waits=False)
    cleaned(host.control)
    age(host, 3600)

    stranger, refused = sorted(host.sweep().complaints)

    assert "a file of user 65534" in stranger
    assert "it cannot be moved to spool/unusable" in refused
    assert "belongs to user 65534" in refused
    assert list((spool / "unusable").iterdir()) == []


def test_a_recorder_that_cannot_use_the_database_says_why(host: Host) -> None:
    """For `arcacct status`: an upgrade of another installation, for example, is not seen in the spool alone."""
    service = Service(host).ready()
    assert service.end() == 0
    with closing(sqlite3.connect(host.database)) as con, con:
        (schema,) = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone()
        con.execute("UPDATE DBConfig SET KeyValue = '999' WHERE KeyName = 'ARCACCT_SCHEMA'")
    service.start()

    def reason() -> str:
        seen = resident.seen(host.places)
        return "" if seen is None or seen.process != service.process.pid else seen.reason

    try:
        until(lambda: bool(reason()))
        assert "schema version 999" in reason()
        with closing(sqlite3.connect(host.database)) as con, con:
            con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_SCHEMA'", (schema,))
        service.ready()
    finally:
        assert service.end() == 0


def test_a_lock_that_cannot_be_taken_leaves_nothing_open(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server without locks: each try ends with the error, and with no open file."""
    lock = RecorderLock(host.places)
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(37, "No locks available")))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="No locks available"):
            lock.hold()

    assert len(os.listdir("/proc/self/fd")) == before


def test_the_time_of_an_event(host: Host) -> None:
    """The status file's, if it still has the state and is not younger than the event; else that of the event's file."""
    for job_id, written_s, status_s, state, wanted_s in (
        ("Same", 1000, 990, "SUBMIT", 990),
        ("Again", 1000, 1010, "SUBMIT", 1000),
        ("Later", 1000, 990, "FINISHING", 1000),
    ):
        lay(host.control, Files("SUBMIT", NOON_NS), job_id)
        host.call("SUBMIT", job_id)
        (event,) = host.spool
        os.utime(event, ns=(NOON_NS + written_s * 10**9,) * 2)
        remove(host.control, job_id)
        lay(host.control, Files(state, NOON_NS + status_s * 10**9), job_id)
        host.drain()
        (at,) = [row[2] for row in rows(str(host.database))["JobEvents"] if row[:2] == (job_id, "SUBMIT")]
        assert at == time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOON_NS // 10**9 + wanted_s)), job_id


def test_an_event_that_is_recorded_already_is_the_same(host: Host) -> None:
    """A sweep has seen the state in the second before the launcher ran, and then the job has moved on: one event."""
    now_ns = time.time_ns()
    lay(host.control, Files("SUBMIT", now_ns - 10**9))
    host.sweep()
    host.call("SUBMIT")
    lay(host.control, Files("FINISHING", now_ns + 10**9))
    host.drain()

    assert events(str(host.database)).count((JOB, "SUBMIT")) == 1


@pytest.mark.parametrize(("late_s", "is_same"), [(-6, False), (-5, True), (0, True), (5, True), (6, False)])
def test_an_event_within_five_seconds_of_a_recorded_one_is_the_same(host: Host, late_s: int, is_same: bool) -> None:
    """No job is in a state again after five seconds, and a callout is not later than that."""
    begin_ns = NOON_NS - 100 * 10**9
    lay(host.control, Files("SUBMIT", begin_ns))
    host.sweep()
    host.call("SUBMIT")
    (event,) = host.spool
    os.utime(event, ns=(begin_ns + late_s * 10**9,) * 2)
    lay(host.control, Files("FINISHING", begin_ns + 60 * 10**9))
    host.drain()

    assert events(str(host.database)).count((JOB, "SUBMIT")) == (1 if is_same else 2)


def test_a_job_that_is_resumed_within_seconds(host: Host) -> None:
    """It is in a state twice, and each of the two events is one."""
    for late_s in (0, 3):
        lay(host.control, Files("FINISHING"))
        host.call("FINISHING")
        (event,) = (path for path in host.spool if path.stat().st_mtime > NOON_NS / 10**9 + 60)
        at_ns = NOON_NS + late_s * 10**9
        os.utime(event, ns=(at_ns, at_ns))
    lay(host.control, Files("FINISHED", NOON_NS + 9 * 10**9))
    host.call()
    cleaned(host.control)
    host.sweep()

    assert events(str(host.database)).count((JOB, "FINISHING")) == 2


def test_order_and_repeats_do_not_matter(host: Host) -> None:
    """All events of a life wait, some twice, and are recorded as ever."""
    other = beside(host)
    for step, state in enumerate((*LIFE, *LIFE[::-1])):
        if step < len(LIFE):
            for one in (host, other):
                lay(one.control, Files(state, NOON_NS + step * 10**9))
            record(other, state)
        host.call(state)
    host.drain()

    ours, theirs = rows(str(host.database)), rows(str(other.database))
    assert {**ours, "JobEvents": []} == {**theirs, "JobEvents": []}
    assert sorted({row[1] for row in ours["JobEvents"]}) == sorted({row[1] for row in theirs["JobEvents"]})


@pytest.mark.parametrize(("first", "then"), [(100, 150), (0, 0)], ids=["a part", "nothing"])
def test_a_rex_writes_local_again_while_it_is_copied(
    host: Host, tmp_path: pathlib.Path, shell: tuple[str, ...], first: int, then: int
) -> None:
    """The launcher finds only a part of .local, and then all of it. The client cleans the job before it is recorded."""
    other = beside(host)
    for one in (host, other):
        lay(one.control, Files())
    record(other)
    local = host.control / f"job.{JOB}.local"
    gate, patience = Gate(tmp_path / "bin", "stat"), Gate(tmp_path / "patience", "sleep")
    with open(local, "r+b", buffering=0) as file:
        content = file.read()
        file.truncate(0)
        file.seek(0)
        file.write(content[:first])
        host.call(shell=shell, waits=False, PATH=f"{tmp_path}/patience:{gate.path}")
        gate.waits()
        file.write(content[first:then])
        gate.open()
        patience.waits()
        file.write(content[then:])
        patience.open()
    until(lambda: not any(path.name.startswith(".tmp-") for path in host.spool))
    cleaned(host.control)
    host.drain()

    assert rows(str(host.database)) == rows(str(other.database))


def test_a_rex_is_slow_to_write_local_again(host: Host) -> None:
    """The launcher has only a part of .local: the recorder waits for A-REX's lock."""
    other = beside(host)
    for one in (host, other):
        lay(one.control, Files())
    record(other)
    with recorder(host), open(host.control / f"job.{JOB}.local", "r+b", buffering=0) as local:
        fcntl.lockf(local, fcntl.LOCK_EX)
        content = local.read()
        local.seek(0)
        local.truncate(0)
        local.write(content[:40])
        host.call(waits=False)
        until(lambda: any(not path.name.startswith(".tmp-") for path in host.spool))
        local.write(content[40:])
        fcntl.lockf(local, fcntl.LOCK_UN)
        drained(host)

    assert rows(str(host.database)) == rows(str(other.database))


def test_a_rex_stops_while_files_are_copied(host: Host, tmp_path: pathlib.Path) -> None:
    """Its unit sends SIGTERM to all of its processes, and the client cleans the job: it is recorded whole."""
    other = beside(host)
    for one in (host, other):
        lay(one.control, Files(diag=b"nodename=wn1\n" * 250_000 + DIAG))
    record(other)
    gate = Gate(tmp_path / "bin", "stat")
    process = subprocess.Popen(
        ["/bin/sh", LAUNCHER, str(host.control), JOB, "FINISHED"], env={"PATH": gate.path}, start_new_session=True
    )
    assert process.wait() == 0
    gate.waits()
    os.killpg(process.pid, signal.SIGTERM)
    cleaned(host.control)
    gate.open()
    until(lambda: not any(path.name.startswith(".tmp-") for path in host.spool))
    host.drain()

    assert rows(str(host.database)) == rows(str(other.database))


def test_a_recorder_that_ends_leaves_nothing(host: Host) -> None:
    """By SIGTERM in the middle of callouts: each event is recorded by it, by the next one, or waits."""
    jobs = [f"Job{number:02}" for number in range(30)]
    service = Service(host).ready()
    for number, job_id in enumerate(jobs):
        lay(host.control, Files(), job_id)
        host.call("FINISHED", job_id)
        if number % 10 == 5:
            assert service.end() == 0
            assert host.spool == []
            assert not service.lives()
        if number % 10 == 7:
            service.start()
            service.ready()
    assert service.end() == 0

    assert host.spool == []
    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == jobs


def test_a_killed_recorder_holds_no_lock(host: Host) -> None:
    """What it left waits for the next one."""
    with recorder(host) as service:
        service.pause()
        lay(host.control, Files())
        host.call()
        service.end(signal.SIGKILL)
        assert len(host.spool) == 1
        assert not service.lives()
        service.start()
        drained(host)

    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def test_of_two_recorders_one_has_the_lock(host: Host) -> None:
    """The second takes over when the first is killed; both may run."""
    with recorder(host) as first:
        second = Service(host)
        try:
            lay(host.control, Files(), "A")
            host.call("FINISHED", "A")
            drained(host)
            assert first.lives()
            first.end(signal.SIGKILL)
            second.ready()
            lay(host.control, Files(), "B")
            host.call("FINISHED", "B")
            drained(host)
        finally:
            assert second.end() == 0

    assert [row[0] for row in rows(str(host.database))["AAR"]] == ["A", "B"]


def test_a_spool_that_was_moved_away(host: Host) -> None:
    """The lock is in the spool that there is, not in the one that was."""
    with recorder(host) as service:
        shutil.move(host.places.spool, f"{host.places.spool}.away")
        lay(host.control, Files())
        host.call()
        drained(host)
        until(lambda: os.path.exists(f"{host.places.spool}/{LOCK}"))
        assert service.lives()

    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def _told(host: Host) -> tuple[int, str]:
    """What status says of the recorder."""
    (check,) = [one for one in judge(look(host.places, None), Thresholds()) if one.subject == "recorder service"]
    return check.severity, check.detail


def test_status_tells_whether_a_recorder_runs(host: Host) -> None:
    """None, one that runs, one that was killed, one that was ended."""
    none = (OK, "no recorder runs: events wait for the next sweep")
    assert _told(host) == none
    with recorder(host) as service:
        assert _told(host) == (OK, f"process {service.process.pid} records what state callouts report, within a second")
        service.end(signal.SIGKILL)
        assert _told(host) == none


def test_a_changed_configuration_is_read(host: Host) -> None:
    """One that cannot be used lets events wait."""
    with recorder(host) as service:
        lay(host.control, Files(diag=b"WallTime=10s\nexitcode=0\n"), "A")
        host.call("FINISHED", "A")
        drained(host)
        text = host.conf.read_text()
        host.conf.write_text(text.replace("11.11", "broken"))
        until(lambda: "is not a benchmark" in service.said)
        lay(host.control, Files(diag=b"WallTime=10s\nexitcode=0\n"), "B")
        host.call("FINISHED", "B")
        host.conf.write_text(text.replace("11.11", "22.22"))
        drained(host)

    with closing(sqlite3.connect(host.database)) as con:
        query = (
            "SELECT InfoValue FROM AAR JOIN JobExtraInfo USING (RecordID) WHERE InfoKey = 'benchmark' ORDER BY JobID"
        )
        assert [benchmark for (benchmark,) in con.execute(query)] == ["HEPSPEC:11.11", "HEPSPEC:22.22"]


def test_a_program_that_was_replaced_ends(host: Host, tmp_path: pathlib.Path) -> None:
    """It has parts of the old version: it ends, so that its service starts with the new one, and leaves the lock."""
    shutil.copytree(f"{PROJECT}/arcacct", tmp_path / "lib" / "arcacct")
    if os.path.isdir(f"{PROJECT}/schema"):
        # A wheel has it in the package.
        shutil.copytree(f"{PROJECT}/schema", tmp_path / "lib" / "schema")
    start = "import sys; sys.argv[0] = 'arcacct'; from arcacct.__main__ import main; main()"
    service = Service(host, program=(sys.executable, "-P", "-c", start), PYTHONPATH=str(tmp_path / "lib"))
    service.ready()
    new = tmp_path / "lib" / "arcacct" / "new"
    shutil.copy(tmp_path / "lib" / "arcacct" / "__init__.py", new)
    new.rename(tmp_path / "lib" / "arcacct" / "__init__.py")

    until(lambda: service.process.poll() is not None)
    assert service.end() == 75
    assert "was replaced by another version" in service.said
    assert not service.lives()


def _maintained(host: Host) -> object:
    path = pathlib.Path(host.places.maintenance)
    path.touch()
    return path.unlink


def _torn(host: Host) -> object:
    sound = host.database.with_name("sound")
    host.database.rename(sound)
    host.database.write_bytes(b"no database at all, but long enough to look at" * 100)
    return lambda: sound.rename(host.database)


def _away(host: Host) -> object:
    sound = host.database.with_name("sound")
    host.database.rename(sound)
    return lambda: sound.rename(host.database)


@pytest.mark.parametrize("spoil", [_maintained, _torn, _away])
def test_while_it_cannot_record_events_wait(host: Host, spoil: object) -> None:
    """Work on the database, a damaged one or none: it says so, and records all that waits afterwards."""
    assert callable(spoil)
    with recorder(host) as service:
        restore = spoil(host)
        until(lambda: service.said)
        for step, state in enumerate(LIFE):
            lay(host.control, job_files(JOB, state, step))
            assert host.call(state) == ""
        assert len(host.spool) == 5
        cleaned(host.control)
        restore()
        drained(host)

    assert {key for _job, key in events(str(host.database))} >= {*LIFE}
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def test_the_disk_of_its_database_is_full(tmp_path: pathlib.Path) -> None:
    """Events wait in the launcher's spool on another disk, and all is recorded once the disk has room again."""
    host = Host(tmp_path, created=False)
    disk = tmp_path / "disk"
    disk.mkdir()
    host.configure(f"database={disk}/accounting.db")
    mount = ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=4m none {disk} && exec "$@"', "sh")
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace here: a full disk cannot be had")
    begin = f'"{ARCACCT}" --config {host.conf} db init >/dev/null && exec "$@"'
    service = Service(host, program=(*mount, "sh", "-c", begin, "sh", ARCACCT))
    seen = pathlib.Path(f"/proc/{service.process.pid}/root{disk}")
    jobs = [f"Job{number:02}" for number in range(40)]
    try:
        until((seen / "accounting.db").exists)
        host.places.spool = str(host.control / "accounting" / "arcacct" / "spool")
        lay(host.control, Files(), jobs[0])
        host.call("FINISHED", jobs[0])
        drained(host)
        with suppress(OSError), open(seen / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        for job_id in jobs[1:]:
            lay(host.control, Files(), job_id)
            host.call("FINISHED", job_id)
            remove(host.control, job_id)
        # Its write-ahead log has room for some events.
        until(lambda: "disk" in service.said and "full" in service.said)
        assert host.spool != []
        (seen / "filler").unlink()
        drained(host)
        copy = shutil.copytree(seen, tmp_path / "copy")
    finally:
        service.end()

    assert [(row[0], row[7]) for row in rows(str(copy / "accounting.db"))["AAR"]] == [
        (job_id, "completed") for job_id in jobs
    ]


def test_a_hundred_at_once(host: Host) -> None:
    """Callouts of a hundred jobs together: each ends well and is recorded."""
    jobs = [f"Job{number:03}" for number in range(100)]
    for job_id in jobs:
        lay(host.control, Files(), job_id)
    with recorder(host):
        running = [
            subprocess.Popen(
                ["/bin/sh", LAUNCHER, str(host.control), job_id, "FINISHED"], env={"PATH": "/usr/bin:/bin"}
            )
            for job_id in jobs
        ]
        assert [process.wait() for process in running] == [0] * 100
        until(lambda: len(rows(str(host.database))["AAR"]) == 100)

    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == jobs
