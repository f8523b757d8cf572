"""The installed hook as A-REX runs it: it records, or spools, says so in one line, and exits 0."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager

import pytest
from hook_host import HOOK, PROJECT, Host
from job_files import JOB, LOCAL, NOON_NS, Files, events, lay, rows

from arcacct.arex.control_files import job_file
from arcacct.database.upkeep import start_new_incarnation
from arcacct.files.directories import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that the hook said."""
    assert done.stderr.startswith("arcacct-record: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_job_is_recorded(host: Host) -> None:
    """Each state change becomes rows; nothing is said and nothing spooled."""
    for number, state in enumerate(("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")):
        lay(host.control, Files(state, NOON_NS + number * 10**9))
        assert host.run(state).stderr == ""

    assert sorted(key for _job, key in events(str(host.database))) == [
        "ACCEPTED", "FINISHED", "FINISHING", "PREPARING", "SUBMIT",
    ]  # fmt: skip
    assert [(row[0], row[7], row[10]) for row in rows(str(host.database))["AAR"]] == [
        (JOB, "completed", NOON_NS // 10**9 + 4)
    ]
    assert host.spool == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["/control"],
        ["/control", JOB],
        ["/control", "../etc/passwd", "FINISHED"],
        ["/control", "", "FINISHED"],
        ["/control", JOB, "BROKEN"],
        ["/control", JOB, "finished"],
        ["/control", "\x1b]0;x\x07", "\x9b31m\u202e"],
        ["/control", JOB, "FINISHED", "/etc/arc.conf", "more"],
    ],
    ids=["none", "one", "two", "path as id", "empty id", "unknown state", "small letters", "a title", "too many"],
)
def test_wrong_arguments_are_told_and_harmless(arguments: list[str]) -> None:
    """A callout line with a slip in it does not fail the jobs of the site: usage on stderr, exit 0."""
    done = subprocess.run([HOOK, *arguments], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")
    assert "usage: arcacct-record CONTROLDIR JOBID STATE [CONF]" in one_line(done)
    assert done.stderr.removesuffix("\n").isprintable()


def test_deleted_needs_nothing(tmp_path: pathlib.Path) -> None:
    """DELETED makes no row: it is no error and needs no database, no configuration, no files."""
    done = subprocess.run([HOOK, str(tmp_path), JOB, "DELETED"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def _no_database(host: Host) -> None:
    for path in host.database.parent.iterdir():
        if path.is_file():
            path.unlink()


def _foreign(host: Host) -> None:
    _no_database(host)
    with closing(sqlite3.connect(host.database)) as con:
        con.execute("CREATE TABLE Theirs (A)")
        con.commit()


def _corrupt(host: Host) -> None:
    _no_database(host)
    host.database.write_bytes(b"SQLite format 3\0" + b"\xff" * 8192)


def _newer(host: Host) -> None:
    with closing(sqlite3.connect(host.database)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '999' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()


def _older(host: Host) -> None:
    with closing(sqlite3.connect(host.database)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '1' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()


def _maintenance(host: Host) -> None:
    pathlib.Path(host.places.maintenance).touch()


def _no_local(host: Host) -> None:
    pathlib.Path(job_file(str(host.control), JOB, "local")).unlink()


def _directory_as_local(host: Host) -> None:
    _no_local(host)
    os.mkdir(job_file(str(host.control), JOB, "local"))


def _broken_configuration(host: Host) -> None:
    host.configure("deadline=soon")


def _no_configuration(host: Host) -> None:
    host.conf.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (_no_database, "no such database; create it with `arcacct db init`"),
        (_foreign, "not a database of arcacct"),
        (_corrupt, "it is damaged or not a database"),
        (_newer, "schema version 999; this program supports"),
        (_older, "schema version 1; this program needs"),
        (_maintenance, "database maintenance is running"),
        (_no_local, "has no .local to read"),
        (_directory_as_local, "Is a directory"),
        (_broken_configuration, "'soon' is not a time"),
        (_no_configuration, "no such file"),
    ],
)
def test_what_the_database_cannot_take_is_spooled(host: Host, break_it: object, reason: str) -> None:
    """Whatever is wrong, the hook exits 0, says in one line why and where the event is, and the event is there."""
    lay(host.control, Files())
    assert callable(break_it)
    break_it(host)

    line = one_line(host.run())

    (event,) = host.spool
    assert f"{JOB} FINISHED: spooled as {event}: " in line
    assert reason in line
    assert oct(event.stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize("break_it", [_no_database, _maintenance, _no_configuration, _broken_configuration, _no_local])
def test_a_sweep_records_what_was_spooled_as_the_hook_would_have(tmp_path: pathlib.Path, break_it: object) -> None:
    """A life that was partly spooled ends in the rows of one that was recorded, although its files are gone."""
    (tmp_path / "well").mkdir()
    (tmp_path / "ill").mkdir()
    well, ill = Host(tmp_path / "well"), Host(tmp_path / "ill")
    assert callable(break_it)
    for host in (well, ill):
        for number, state in enumerate(("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")):
            lay(host.control, Files(state, NOON_NS + number * 10**9, failed=b"no" if state == "FINISHED" else None))
            if host is ill and number >= 2 and (break_it is not _no_local or state == "FINISHING"):
                break_it(ill)
            host.run(state)
    assert [path.name.split("-")[2] for path in ill.spool][-1] in ("FINISHED", "FINISHING")
    pathlib.Path(ill.places.maintenance).unlink(missing_ok=True)
    if break_it is not _no_local:
        shutil.rmtree(ill.control / "finished")
        pathlib.Path(job_file(str(ill.control), JOB, "local")).unlink()

    if break_it is _no_database:
        start_new_incarnation(ill.places)

    report = ill.sweep()

    assert report.complaints == ()
    assert ill.spool == []
    assert rows(str(ill.database)) == _without_lost(rows(str(well.database)), break_it)


def _without_lost(found: dict[str, list[tuple[object, ...]]], break_it: object) -> dict[str, list[tuple[object, ...]]]:
    """With the database its first two events were lost: nobody has the time of PREPARING any more."""
    if break_it is _no_database:
        found["JobEvents"] = [row for row in found["JobEvents"] if row[1] != "PREPARING"]
    return found


HOLDER = """
import sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""
QUEUE_HOLDER = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""
LOCAL_HOLDER = """
import fcntl, os, sys
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(script: str, path: str) -> Iterator[None]:
    """Another process holds a lock on the path."""
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield
        holder.communicate()


@pytest.mark.parametrize(
    ("script", "what", "reason"),
    [
        (HOLDER, "database", "database is locked"),
        (QUEUE_HOLDER, "queue_lock", "not done after 0.3 s"),
        (LOCAL_HOLDER, "local", "not done after 0.3 s"),
    ],
    ids=["database", "queue of the hooks", ".local"],
)
def test_the_hook_waits_no_longer_than_its_deadline(host: Host, script: str, what: str, reason: str) -> None:
    """What somebody else keeps locked beyond deadline= is spooled; after that a sweep has it all."""
    host.configure("deadline=0.3")
    lay(host.control, Files())
    path = job_file(str(host.control), JOB, "local") if what == "local" else getattr(host.places, what)

    with held(script, path):
        line = one_line(host.run())

    assert f"{JOB} FINISHED: spooled as " in line
    assert reason in line
    assert len(host.spool) == 1
    host.sweep()
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


def test_after_one_timeout_the_next_hooks_spool_at_once(host: Host) -> None:
    """A burst of events costs A-REX one deadline, not one each; what waits has its files with it."""
    host.configure("deadline=0.3")
    lay(host.control, Files())

    with held(QUEUE_HOLDER, host.places.queue_lock):
        lines = [one_line(host.run()) for _ in range(4)]

    assert "not done after 0.3 s" in lines[0]
    assert [line.count("a hook was too slow just now") for line in lines] == [0, 1, 1, 1]
    assert all(b"file=local" in path.read_bytes() for path in host.spool)
    pathlib.Path(host.places.breaker).write_text("1\n")
    assert host.run().stderr == ""


SHM_HOLDER = """
import fcntl, os, sys
# SQLite's eight locks, without the one by which it knows that somebody uses the file.
fcntl.lockf(os.open(sys.argv[1] + "-shm", os.O_RDWR), fcntl.LOCK_SH, 8, 120)
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_deadline_holds_while_sqlite_waits_in_c(host: Host) -> None:
    """A reader's lock on -shm makes SQLite sleep where no signal handler runs: the alarm ends the process instead."""
    host.configure("deadline=1")
    lay(host.control, Files("SUBMIT"))
    # There is a -shm as soon as somebody has used the database.
    assert host.run("SUBMIT").stderr == ""
    lay(host.control, Files())
    launcher = ("/bin/sh", resource("etc", "arcacct-hook"))
    environment = {"PATH": "/usr/bin:/bin", "ARCACCT_RECORD": HOOK}

    with held(SHM_HOLDER, str(host.database)):
        done = host.run(program=launcher, environment=environment)
        again = host.run(program=launcher, environment=environment)

    # 128 + ALRM.
    assert "failed (142)" in done.stderr
    assert again.stderr == ""
    assert len(host.spool) == 2
    shutil.rmtree(host.control / "finished")
    host.sweep()
    assert [row[7] for row in rows(str(host.database))["AAR"]] == ["completed"]


SLOW_DISK = """
#include <time.h>
static int nap(void) { struct timespec left = {20, 0}; while (nanosleep(&left, &left)) {} return 0; }
int fsync(int fd) { return nap(); }
int fdatasync(int fd) { return nap(); }
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_a_disk_whose_syncs_take_for_ever_is_waited_for_once(host: Host, tmp_path: pathlib.Path) -> None:
    """The only sync of a hook is that of a new WAL: it ends with the deadline, and the events behind it are spooled."""
    source, slow = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(SLOW_DISK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(slow), str(source)], check=True)
    host.configure("deadline=1")
    launcher = ("/bin/sh", resource("etc", "arcacct-hook"))
    environment = {"PATH": "/usr/bin:/bin", "ARCACCT_RECORD": HOOK, "LD_PRELOAD": str(slow)}
    jobs = [f"Job{number}" for number in range(5)]
    said = []
    for job_id in jobs:
        lay(host.control, Files(), job_id)
        said.append(host.run("FINISHED", job_id, program=launcher, environment=environment).stderr)

    assert "failed (142)" in said[0]
    assert said[1:] == [""] * 4
    assert len(host.spool) == 5
    shutil.rmtree(host.control / "finished")
    assert host.sweep().complaints == ()
    assert [row[0] for row in rows(str(host.database))["AAR"]] == jobs


@pytest.mark.campaign
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_hooks_hardly_ever_sync(host: Host, tmp_path: pathlib.Path) -> None:
    """In the processes that A-REX waits for at most one in twenty syncs; the WAL is written back all the same."""
    trace, largest, syncs = tmp_path / "trace", 0, 0
    calls = "trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs"
    strace = ["strace", "-qq", "-o", str(trace), "-e", calls]
    if subprocess.run([*strace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace may not trace here")
    lives = [f"Job{number:02}" for number in range(20)]
    for job_id in lives:
        for step, state in enumerate(("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")):
            lay(host.control, Files(state, NOON_NS + step * 10**9), job_id)
            host.run(state, job_id, program=(*strace, HOOK))
            # The other lines are of children that ended meanwhile.
            syncs += trace.read_text().count("sync(")
            largest = max(largest, os.path.getsize(f"{host.database}-wal"))

    assert syncs <= 5
    assert len({row[0] for row in rows(str(host.database))["AAR"]}) == 20
    with closing(sqlite3.connect(host.database)) as con:
        assert con.execute("SELECT count(*) FROM DBConfig WHERE KeyName = 'ARCACCT_LAST_CHECKPOINT'").fetchone() == (1,)
    print(f"100 hooks: {syncs} syncs, -wal at most {largest} bytes")


def test_a_child_that_writes_back_holds_nothing_of_arex(host: Host) -> None:
    """A-REX waits for the end of the hook's pipes: whoever goes on behind it has let go of them, and of its session."""
    for number in range(60):
        lay(host.control, Files(), f"Job{number:02}")
    begun, children = os.open(os.devnull, os.O_RDONLY), 0
    os.set_inheritable(begun, True)
    try:
        for number in range(60):
            # communicate() ends with the last who has the pipe.
            done = subprocess.run(
                [HOOK, str(host.control), f"Job{number:02}", "FINISHED", str(host.conf)],
                capture_output=True,
                pass_fds=(begun,),
                check=True,
            )
            assert done.stderr == b""
            children += os.path.exists(os.path.join(host.places.directory, "checkpoint.lock"))
    finally:
        os.close(begun)

    assert children > 0


def test_the_deadline_holds_when_the_alarm_is_blocked(host: Host) -> None:
    """A signal mask that blocks SIGALRM is inherited from whoever starts the hook: it is opened again."""
    host.configure("deadline=0.3")
    lay(host.control, Files())
    blocked = (
        "import os,signal,sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]);"
        " os.execv(sys.argv[1], sys.argv[1:])"
    )

    with held(QUEUE_HOLDER, host.places.queue_lock):
        line = one_line(host.run(program=(sys.executable, "-c", blocked, HOOK)))

    assert "not done after 0.3 s" in line


def test_an_event_that_waits_its_turn_is_recorded(host: Host) -> None:
    """A queue that moves within the deadline makes no spool file."""
    lay(host.control, Files())
    command = [HOOK, str(host.control), JOB, "FINISHED", str(host.conf)]

    with held(QUEUE_HOLDER, host.places.queue_lock):
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE)
    _, stderr = waiting.communicate()

    assert (waiting.returncode, stderr) == (0, b"")
    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]


@ROOT
def test_an_unreadable_local_is_spooled(public_dir: pathlib.Path) -> None:
    """A hook that runs as the wrong user says which file it may not read; the event waits for a sweep that may."""
    host = Host(public_dir)
    lay(host.control, Files())
    local = job_file(str(host.control), JOB, "local")
    os.chmod(local, 0)
    _give(host.control.parent, "nobody", keep=local)

    line = one_line(host.run(user="nobody"))

    assert f"Permission denied: '{local}'" in line
    assert len(host.spool) == 1
    assert host.sweep().complaints == ()
    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]


def _give(directory: pathlib.Path, user: str, keep: str = "") -> None:
    number = pwd.getpwnam(user).pw_uid
    for path in (directory, *directory.rglob("*")):
        if str(path) != keep:
            os.chown(path, number, -1)


@ROOT
def test_another_user_than_root_may_run_everything(public_dir: pathlib.Path) -> None:
    """Where A-REX and the database belong to one user who is not root, the hook records as that user."""
    host = Host(public_dir)
    lay(host.control, Files())
    _give(public_dir, "nobody")

    assert host.run(user="nobody").stderr == ""

    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]
    owners = {path.owner() for path in host.database.parent.iterdir()}
    assert owners == {"nobody"}


@ROOT
def test_a_user_who_may_do_nothing_harms_nothing(public_dir: pathlib.Path) -> None:
    """When neither database nor spool can be written the hook says so, names the sweep, and exits 0."""
    host = Host(public_dir)
    lay(host.control, Files())

    line = one_line(host.run(user="nobody"))

    assert f"{JOB} FINISHED: not recorded (" in line
    assert "not spooled (" in line
    assert "`arcacct sweep` finds it" in line
    assert host.sweep().recorded == 1


@pytest.fixture
def small_disk() -> Iterator[pathlib.Path]:
    """A file system of 3 MB."""
    directory = tempfile.mkdtemp(prefix="arcacct-test-")
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", directory], capture_output=True, check=False
    )
    try:
        if not mounted or mounted.returncode != 0:
            pytest.skip("needs the right to mount a small file system")
        yield pathlib.Path(directory)
        subprocess.run(["umount", directory], check=True)
    finally:
        os.rmdir(directory)


def _fill(file: BinaryIO) -> None:
    while True:
        file.write(b"x" * 4096)


@ROOT
def test_a_full_disk_is_told(small_disk: pathlib.Path) -> None:
    """With no room for a row nothing breaks: one line, exit 0, a sound database; the sweep has the event later."""
    host = Host(small_disk)
    lay(host.control, Files())
    host.run("ACCEPTED")
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        _fill(file)

    line = one_line(host.run())

    # How much a tmpfs has left for a small file when it has refused a large one depends on the kernel.
    spooled = list(pathlib.Path(host.places.spool).iterdir())
    assert "full" in line or "No space" in line
    assert (f"{JOB} FINISHED: spooled as" in line) == bool(spooled)
    assert (f"{JOB} FINISHED: not recorded (" in line and "not spooled (" in line) == (not spooled)
    filler.unlink()
    report = host.sweep()
    assert report.recorded + report.spooled >= 1
    assert (JOB, "FINISHED") in events(str(host.database))
    with closing(sqlite3.connect(host.database)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_an_empty_environment_is_enough(host: Host) -> None:
    """A-REX gives a hook no PATH, no HOME, no locale: it needs none."""
    lay(host.control, Files())

    assert host.run(environment={}).stderr == ""

    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
def test_no_umask_opens_or_locks_anything(host: Host, umask: int) -> None:
    """Files that the hook makes are its user's alone, and usable by the next hook, under any umask."""
    lay(host.control, Files())
    assert host.run("ACCEPTED", umask=umask).stderr == ""
    assert host.run("FINISHED", umask=umask).stderr == ""
    _maintenance(host)
    host.run("FINISHED", umask=umask)

    modes = {path.name: oct(path.stat().st_mode)[-3:] for path in (*host.database.parent.iterdir(), *host.spool)}
    assert modes.pop("spool") == "700"
    assert modes.pop("maintenance")
    assert set(modes.values()) == {"600"}
    assert {"queue.lock", "accounting.db-wal", "accounting.db-shm"} <= set(modes)


def test_a_relative_control_directory_is_one(host: Host) -> None:
    """A control directory may be given relative to where the hook is started; the spool has it absolute."""
    lay(host.control, Files())
    command = [HOOK, "control", JOB, "FINISHED", "arc.conf"]
    done = subprocess.run(command, cwd=host.control.parent, capture_output=True, text=True, check=False)
    _maintenance(host)
    again = subprocess.run(command, cwd=host.control.parent, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert again.returncode == 0
    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]
    assert f"controldir={host.control}\n".encode() in host.spool[0].read_bytes()


def test_the_configuration_counts(tmp_path: pathlib.Path) -> None:
    """database= of arcacct.conf and the benchmark of arc.conf hold in the hook."""
    from arcacct.config.paths import places
    from arcacct.database.access import initialise

    (tmp_path / "new").mkdir()
    host = Host(tmp_path / "new", created=False)
    elsewhere = str(tmp_path / "elsewhere" / "a.db")
    host.configure(f"database={elsewhere}")
    initialise(places(None, str(host.control), elsewhere))
    lay(host.control, Files(diag=b""))

    assert host.run().stderr == ""

    assert not host.database.exists()
    assert (JOB, "benchmark", "HEPSPEC:11.11") in rows(elsewhere)["JobExtraInfo"]


def test_the_database_is_left_for_readers(host: Host) -> None:
    """The hook ends without closing: -wal and -shm stay for those who may only read."""
    lay(host.control, Files())
    host.run()

    assert {path.name for path in host.database.parent.glob("accounting.db*")} == {
        "accounting.db", "accounting.db-wal", "accounting.db-shm",
    }  # fmt: skip


def test_closed_standard_files_do_not_matter(host: Host) -> None:
    """Started without stdin, stdout and stderr the hook records, and its complaints harm no file."""
    lay(host.control, Files())
    closing_all = "import os,sys; [os.close(fd) for fd in (0, 1, 2)]; os.execv(sys.argv[1], sys.argv[1:])"

    host.run(program=(sys.executable, "-c", closing_all, HOOK))
    _maintenance(host)
    host.run("FINISHING", program=(sys.executable, "-c", closing_all, HOOK))

    assert events(str(host.database)) == [(JOB, "ACCEPTED"), (JOB, "FINISHED")]
    assert len(host.spool) == 1
    with closing(sqlite3.connect(host.database)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)


HEAVY = {
    "_collections_abc",
    "argparse",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "json",
    "logging",
    "pathlib",
    "re",
    "site",
    "sqlite3",
    "subprocess",
    "typing",
}


def imported(host: Host) -> list[str]:
    """Every module that the hook imports after the interpreter's own start, run as an installed arcacct-record runs."""
    start = f"import sys; sys.path.append({PROJECT!r}); import arcacct.arex.hook; arcacct.arex.hook.main()"
    command = [sys.executable, "-I", "-S", "-X", "importtime", "-c", start]
    command += [str(host.control), JOB, "FINISHED", str(host.conf)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return names[names.index("arcacct") :]


@pytest.mark.parametrize("spooled", [False, True], ids=["recording", "spooling"])
def test_the_hook_imports_next_to_nothing(host: Host, spooled: bool) -> None:
    """No third-party module and none of the costly ones of the library, whether it records a whole job or spools it."""
    lay(host.control, Files())
    if spooled:
        _maintenance(host)

    names = imported(host)

    assert "arcacct.arex.hook" in names
    assert ("arcacct.arex.spool" in names) is spooled
    foreign = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names | {"arcacct"}}
    assert foreign == set()
    # What the spool is written with.
    costly = HEAVY - {"_collections_abc"} if spooled else HEAVY | {"os"}
    assert {name.partition(".")[0] for name in names} & costly == set()


def test_fifty_hooks_at_once_lose_nothing(host: Host) -> None:
    """However many jobs end together, each is recorded or, on a slow host, spooled and recorded by the sweep."""
    jobs = [f"Job{number:03}" for number in range(50)]
    for job_id in jobs:
        lay(host.control, Files(local=LOCAL.replace(b"first", job_id.encode())), job_id)
    running = [
        subprocess.Popen([HOOK, str(host.control), job_id, "FINISHED", str(host.conf)], stderr=subprocess.PIPE)
        for job_id in jobs
    ]
    answers = [(process.communicate()[1], process.returncode) for process in running]

    assert {code for _stderr, code in answers} == {0}
    recorded = {str(row[0]) for row in rows(str(host.database))["AAR"]}
    waiting = {path.name.rpartition("-")[2] for path in host.spool}
    assert recorded | waiting == set(jobs)
    shutil.rmtree(host.control / "finished")
    host.sweep()
    assert sorted(str(row[0]) for row in rows(str(host.database))["AAR"]) == jobs
    with closing(sqlite3.connect(host.database)) as con:
        assert con.execute("SELECT count(*), count(DISTINCT RecordID) FROM FinishedLog").fetchone() == (50, 50)
