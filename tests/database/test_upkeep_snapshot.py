"""Copies for readers: whole, of one moment, exchanged at once, and no one else's file is touched."""

from __future__ import annotations

import fcntl
import grp
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest
import stored_jobs
from attackers import THEM, theirs
from control_directory import set_up
from full_disk import on_small_disk
from installed import arcacct
from other_users import acting_as

from arcacct.config.paths import Places, places
from arcacct.database import durable, upkeep
from arcacct.database.access import leave_open, open_accounting, open_publishing
from arcacct.database.moving import snapshots
from arcacct.errors import ArcacctError, ConfigError, InputError, SchemaError, StoreBusy, StoreError

NAMES = ["accounting.db", "publishing.db"]
SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")


@pytest.fixture
def here(tmp_path) -> Places:
    """Three jobs in a database in use, and a ledger."""
    found = places(None, set_up(tmp_path / "control"))
    con = open_accounting(found)
    for number in range(3):
        stored_jobs.add(con, found, stored_jobs.job(number))
    leave_open(con, found.database)
    leave_open(open_publishing(found), found.publishing_database)
    return found


@pytest.fixture
def folder(tmp_path) -> str:
    return str(tmp_path / "snapshot")


def jobs(path: str, options: str = "mode=ro&immutable=1") -> int:
    with closing(sqlite3.connect(f"file:{path}?{options}", uri=True)) as con:
        return con.execute("SELECT count(*) FROM v1_jobs").fetchone()[0]


def add(here: Places, number: int) -> None:
    con = open_accounting(here)
    stored_jobs.add(con, here, stored_jobs.job(number))
    leave_open(con, here.database)


def test_a_snapshot_needs_nothing_next_to_it(here, folder) -> None:
    """Both databases, also what is in the WAL alone; no WAL of their own, read-only, for their owner, of one second."""
    assert os.path.getsize(f"{here.database}-wal") > 0

    made = snapshots(here, folder)

    assert [os.path.basename(one.path) for one in made] == sorted(os.listdir(folder)) == NAMES
    marks = set()
    for one in made:
        assert one.size_bytes == os.path.getsize(one.path)
        assert stat.S_IMODE(os.stat(one.path).st_mode) == 0o400
        with closing(sqlite3.connect(f"file:{one.path}?mode=ro", uri=True)) as con:
            assert con.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            marks |= set(con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SNAPSHOT'"))
    assert len(marks) == 1
    assert jobs(made[0].path) == jobs(made[0].path, "mode=ro") == 3
    assert sorted(os.listdir(folder)) == NAMES
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


@pytest.mark.parametrize("words", [("stats", "--by", "vo"), ("query", "SELECT count(*) FROM v1_jobs")])
def test_a_reader_asks_a_snapshot_without_a_configuration(here, folder, words) -> None:
    """`--database` with the snapshot suffices, also for commands that read A-REX's own database as well."""
    snapshots(here, folder)

    done = arcacct("--database", f"{folder}/accounting.db", *words, "--format", "csv")

    assert (done.returncode, done.stderr) == (0, "")
    assert "3" in done.stdout.splitlines()[-1].split(",")


def test_who_has_the_last_one_open_keeps_it(here, folder) -> None:
    """The exchange is a rename: a reader continues in the old one, the next one gets the new."""
    (made, _ledger) = snapshots(here, folder)
    with closing(sqlite3.connect(f"file:{made.path}?mode=ro", uri=True)) as reader:
        assert reader.execute("SELECT count(*) FROM AAR").fetchone() == (3,)
        add(here, 3)
        snapshots(here, folder)
        assert reader.execute("SELECT count(*) FROM v1_jobs").fetchone() == (3,)
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert jobs(made.path) == 4
    assert sorted(os.listdir(folder)) == NAMES


def test_a_snapshot_while_others_write(here, folder) -> None:
    """Each is whole, every job with its children and its place in the log; the writer loses nothing."""
    code = (
        "import sys; sys.path[:0] = [sys.argv[2]]\n"
        "import stored_jobs\n"
        "from arcacct.config.paths import places\n"
        "from arcacct.database.access import open_accounting\n"
        "here = places(None, sys.argv[1]); con = open_accounting(here); print('ready', flush=True)\n"
        "for number in range(1000, 1200): stored_jobs.add(con, here, stored_jobs.job(number))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, here.controldir, SUPPORT], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        made = 0
        while writer.poll() is None or not made:
            (copy, _ledger) = snapshots(here, folder)
            made += 1
            with closing(sqlite3.connect(f"file:{copy.path}?mode=ro", uri=True)) as con:
                found, logged = con.execute("SELECT count(*), (SELECT count(*) FROM FinishedLog) FROM AAR").fetchone()
                extra = con.execute("SELECT count(*) FROM JobExtraInfo").fetchone()[0]
            assert (logged, extra) == (found, 2 * found)
    assert writer.returncode == 0
    assert jobs(here.database, "mode=ro") == 203


def test_both_are_of_one_moment(here, folder) -> None:
    """A ledger never tells of a job that the other does not have, whoever writes between any two steps."""
    code = (
        "import sys; sys.path[:0] = [sys.argv[3]]\n"
        "import stored_jobs\n"
        "from arcacct.config.paths import places\n"
        "from arcacct.database import moving as snapshot\n"
        "from arcacct.database.access import open_accounting, open_publishing\n"
        "here = places(None, sys.argv[1]); con, ledger = open_accounting(here), open_publishing(here); number = 3\n"
        "def audited(event, _values):\n"
        "    global number\n"
        "    if event == 'sqlite3.connect':\n"
        "        stored_jobs.add(con, here, stored_jobs.job(number)); number += 1\n"
        "        ledger.execute('INSERT OR REPLACE INTO DBConfig VALUES (?, ?)', ('TOLD', number))\n"
        "sys.addaudithook(audited)\n"
        "snapshot.snapshots(here, sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", code, here.controldir, folder, SUPPORT], check=True)

    recorded = jobs(f"{folder}/accounting.db")
    with closing(sqlite3.connect(f"file:{folder}/publishing.db?mode=ro", uri=True)) as con:
        ((told,),) = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'TOLD'").fetchall()
    assert 3 < int(told) <= recorded < jobs(here.database, "mode=ro")
    # Nor is the other one as much later as it takes to copy the ledger.
    assert recorded == int(told) + 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
def test_the_group_reads_and_nobody_else(here, public_dir) -> None:
    """The directory is made for read_group=, and so are the files; a member needs no -wal, nor any right to write."""
    group = grp.getgrgid(THEM.pw_gid).gr_name
    folder = public_dir / "snapshot"
    here.read_group = group
    made = snapshots(here, str(folder))

    assert [oct(os.stat(path).st_mode)[-4:] for path in (folder, *(one.path for one in made))] == [
        "0750",
        "0440",
        "0440",
    ]
    with acting_as("daemon", groups=(THEM.pw_gid,)):
        assert jobs(made[0].path) == jobs(made[0].path, "mode=ro") == 3
        assert sorted(os.listdir(folder)) == NAMES
    with acting_as("daemon"), pytest.raises(sqlite3.OperationalError, match="unable to open"):
        jobs(made[0].path)
    os.chmod(folder, 0o755)
    with acting_as("daemon"), pytest.raises(sqlite3.OperationalError, match="unable to open"):
        jobs(made[0].path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
def test_a_directory_of_another_user(here, public_dir) -> None:
    """He could show the readers another database."""
    place = theirs(public_dir / "snapshot")

    with pytest.raises(StoreError, match=f"{place}: other users can replace"):
        snapshots(here, str(place))
    assert os.listdir(place) == []


def test_what_is_no_snapshot_is_not_replaced(here, tmp_path) -> None:
    """The directory of the database itself, a backup under that name, any file, a link."""
    before = os.stat(here.database)
    (tmp_path / "link").symlink_to(here.controldir)
    for inside in (here.controldir, f"{here.controldir}/delegations/new", str(tmp_path / "link/finished")):
        with pytest.raises(ConfigError, match=re.escape(f"{inside}: A-REX writes its own files into this directory")):
            snapshots(here, inside)
    assert not os.path.exists(f"{here.controldir}/delegations")
    with pytest.raises(StoreError, match="is the directory of the databases themselves"):
        snapshots(here, here.directory)
    assert os.path.samestat(os.stat(here.database), before)
    (backup, _ledger) = upkeep.backups(here, str(tmp_path / "backups"))
    (tmp_path / "other").mkdir()
    for make, name in (
        (lambda path: os.link(backup.path, path), "accounting.db"),
        (lambda path: open(path, "w").close(), "accounting.db"),
        (lambda path: os.symlink(backup.path, path), "accounting.db"),
        (os.mkdir, "publishing.db"),
        # They would be taken for those of the new file.
        (lambda path: shutil.copy(f"{here.database}-wal", path), "accounting.db-wal"),
        (lambda path: open(path, "w").close(), "publishing.db-journal"),
    ):
        path = str(tmp_path / "other" / name)
        make(path)
        with pytest.raises(StoreError, match=re.escape(f"{path}: not a snapshot")):
            snapshots(here, str(tmp_path / "other"))
        assert os.listdir(tmp_path / "other") == [name]
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)


def test_a_full_disk_leaves_the_last_one(here, folder, tmp_path) -> None:
    """It says how much is needed, and the readers go on with what they have."""
    disk = tmp_path / "disk"
    disk.mkdir()
    code = (
        "import os, resource, shutil, sys; from arcacct.config.paths import places\n"
        "from arcacct.database import moving as snapshot\n"
        "from arcacct.errors import StoreError\n"
        "here = places(None, sys.argv[1])\n"
        "def made(*options):\n"
        "    try: snapshot.snapshots(here, sys.argv[2])\n"
        "    except StoreError as error: print(error, os.listdir(sys.argv[2]))\n"
    )
    # What is asked for beforehand may be gone a moment later.
    late = "made(); shutil.disk_usage = lambda path: shutil._ntuple_diskusage(10**12, 0, 10**12); made()\n"

    (known,) = on_small_disk(disk, 100_000, f"{code}made()", here.controldir, str(disk)).splitlines()
    (_known, unknown) = on_small_disk(disk, 64, code + late, here.controldir, str(disk)).splitlines()

    assert re.fullmatch(rf"{disk}: 102 MB are free and 13\d MB are needed; free space \[\]", known)
    assert re.search(r"the backup failed: .*disk.*\[\]$", unknown)

    # In the middle of a copy, next to the last one.
    snapshots(here, folder)
    add(here, 3)
    limited = "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); made()"
    done = subprocess.run([sys.executable, "-c", code + limited, here.controldir, folder], capture_output=True,
                          text=True, check=True)  # fmt: skip
    assert re.search(r"the backup failed: .*\['accounting.db', 'publishing.db'\]$", done.stdout.strip())
    assert jobs(f"{folder}/accounting.db") == 3


@pytest.mark.parametrize("name", ["database", "publishing_database"])
@pytest.mark.parametrize(("version", "todo"), [(1, "run `arcacct db upgrade`"), (99, "install the version of arcacct")])
def test_of_another_version(here, folder, name, version, todo) -> None:
    """Readers see what this program knows; a snapshot takes no database forward."""
    snapshots(here, folder)
    add(here, 3)
    with closing(sqlite3.connect(getattr(here, name))) as con, con:
        con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_SCHEMA'", (version,))

    with pytest.raises(SchemaError, match=f"schema version {version}; .*{todo}"):
        snapshots(here, folder)
    assert jobs(f"{folder}/accounting.db") == 3
    assert sorted(os.listdir(folder)) == NAMES


@pytest.mark.campaign
def test_killed_anywhere_the_last_one_is_whole(here, folder) -> None:
    """Before every system call that makes, renames or removes a file; the next one clears what was left."""
    code = (
        "import os, signal, sys; from arcacct.config.paths import places\n"
        "from arcacct.database import schema, moving as snapshot\n"
        "here = places(None, sys.argv[1]); left = int(sys.argv[3])\n"
        "def audited(event, _values):\n"
        "    global left\n"
        "    if event in ('os.rename', 'os.remove', 'os.mkdir', 'os.rmdir', 'os.chmod', 'sqlite3.connect'):\n"
        "        left -= 1\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(audited)\n"
        "snapshot.snapshots(here, sys.argv[2])\n"
    )
    snapshots(here, folder)
    wanted = {3}
    for steps in range(1, 100):
        add(here, 100 + steps)
        wanted.add(jobs(here.database, "mode=ro"))
        done = subprocess.run([sys.executable, "-c", code, here.controldir, folder, str(steps)], check=False)
        for name in NAMES:
            with closing(sqlite3.connect(f"file:{folder}/{name}?mode=ro", uri=True)) as con:
                assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert jobs(f"{folder}/accounting.db") in wanted
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert steps > 9
    assert done.returncode == 0
    # In the middle of a copy: the kernel ends who writes too large a file.
    ended = "import resource, signal\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    ended += "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
    ended += f"signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n{code}"
    done = subprocess.run([sys.executable, "-c", ended, here.controldir, folder, "99"], check=False)
    assert done.returncode == -signal.SIGXFSZ
    assert len(os.listdir(folder)) == 3
    assert jobs(f"{folder}/accounting.db") == max(wanted)
    snapshots(here, folder)
    assert jobs(f"{folder}/accounting.db") == max(wanted)
    assert sorted(os.listdir(folder)) == NAMES


def test_two_at_once(here, folder) -> None:
    """The second one waits for another day."""
    snapshots(here, folder)
    other = os.open(folder, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(StoreBusy, match="another process makes a snapshot there"):
        snapshots(here, folder)
    os.close(other)
    assert len(snapshots(here, folder)) == 2


def test_a_damaged_database_leaves_the_last_one(here, folder) -> None:
    """A copy of damage is shown to no one."""
    (made, _ledger) = snapshots(here, folder)
    with closing(sqlite3.connect(here.database)) as con:
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    with open(here.database, "r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * (os.path.getsize(here.database) - 8 * 4096))

    with pytest.raises(StoreError, match=f"{here.database}: .*(damaged|malformed)"):
        snapshots(here, folder)
    assert jobs(made.path) == 3
    assert sorted(os.listdir(folder)) == NAMES


def test_damage_that_only_a_check_finds(here, folder) -> None:
    """A value that cannot be there: each page is as it should."""
    (made, _ledger) = snapshots(here, folder)
    add(here, 3)
    with closing(sqlite3.connect(here.database)) as con, con:
        con.executescript(
            "CREATE TABLE One (Value); INSERT INTO One VALUES (NULL); PRAGMA writable_schema = ON;"
            "UPDATE sqlite_master SET sql = 'CREATE TABLE One (Value NOT NULL)' WHERE name = 'One'"
        )
    with pytest.raises(StoreError, match=f"{here.database}: it is damaged: NULL value in One.Value; the last snapshot"):
        snapshots(here, folder)
    assert jobs(made.path) == 3


def test_a_snapshot_is_no_backup(here, folder) -> None:
    """It is read-only, and one without a WAL that stands under a fixed name is gone tomorrow."""
    (made, _ledger) = snapshots(here, folder)

    with pytest.raises(SchemaError, match="a snapshot for readers, not a backup"):
        upkeep.restore(here, made.path)


def test_the_ledger_of_a_lost_life_goes(here, folder) -> None:
    """What is shown belongs together: where there is no ledger any more, no old one is shown next to the new jobs."""
    snapshots(here, folder)
    # Nor one that was copied by who was killed then.
    shutil.copytree(folder, f"{folder}/.new-snapshot")
    for suffix in ("", "-wal", "-shm"):
        os.unlink(f"{here.publishing_database}{suffix}")

    assert [os.path.basename(one.path) for one in snapshots(here, folder)] == os.listdir(folder) == ["accounting.db"]


def test_it_is_remembered_of_which_life_it_is(here, folder) -> None:
    """When, where, and of which life; what was remembered before stays."""
    upkeep.backups(here, f"{folder}-backups")
    snapshots(here, folder)

    found = durable.last_done(here.directory)
    with closing(sqlite3.connect(here.database)) as con:
        (life,) = con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_INCARNATION'").fetchone()
    assert found[durable.SNAPSHOT][1:] == (True, life, f"{folder}/accounting.db")
    assert abs(found[durable.SNAPSHOT].at_s - time.time()) < 600
    assert found[durable.BACKUP][1:] == (True, "", "")
    shutil.rmtree(folder)
    assert set(durable.last_done(here.directory)) == {durable.BACKUP}


def test_a_directory_that_cannot_be(here, tmp_path) -> None:
    """One line that names it."""
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below"):
        with pytest.raises((StoreError, InputError), match=str(tmp_path / "file")) as found:
            snapshots(here, str(tmp_path / path))
        assert isinstance(found.value, ArcacctError)
