"""Backup while others write, restore, upgrade and optimize."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import job_files
import pytest
import stored_jobs
from attackers import THEM, theirs
from campaigns import sample
from control_directory import set_up
from full_disk import on_small_disk
from recording_host import LAUNCHER, Host, until

from arcacct.config.paths import Places, places
from arcacct.database import schema, upkeep
from arcacct.database.access import initialise, open_accounting
from arcacct.database.connection import ACCOUNTING_SCHEMA, open_database
from arcacct.database.schema import ACCOUNTING, in_memory, incarnation, upgrades
from arcacct.errors import InputError, SchemaError, StoreBusy, StoreError

RELEASED = pathlib.Path(__file__).parent.parent / "data" / "released" / "0.2.0"


@pytest.fixture
def here(tmp_path) -> Places:
    """A database with three finished jobs, and an empty ledger."""
    found = places(None, set_up(tmp_path / "control"))
    initialise(found)
    with closing(open_accounting(found)) as con:
        stored_jobs.add(con, found, *map(stored_jobs.job, (1, 2, 3)))
    return found


def job_ids(path: str) -> list[str]:
    with closing(sqlite3.connect(path)) as con:
        return [job_id for (job_id,) in con.execute("SELECT JobID FROM AAR ORDER BY JobID")]


def life(path: str) -> str:
    with closing(sqlite3.connect(path)) as con:
        return incarnation(con)


def in_background(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process, which says `ready` when it is."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
WRITER = """
import sys; sys.path[:0] = [sys.argv[2]]
import stored_jobs
from arcacct.config.paths import places
from arcacct.database.access import open_accounting
here = places(None, sys.argv[1]); con = open_accounting(here); print("ready", flush=True)
for number in range(1000, 1000 + int(sys.argv[3])): stored_jobs.add(con, here, stored_jobs.job(number))
"""


def killed_writer(here: Places) -> None:
    """A process that wrote a job and was killed: it is in the WAL alone."""
    code = WRITER + "\nimport os; os.kill(os.getpid(), 9)"
    in_background(code, here.controldir, SUPPORT, "1").communicate()
    assert os.path.getsize(here.database + "-wal") > 0


def test_a_backup_while_others_write(here, tmp_path) -> None:
    """It is whole: every job in it with its children and its place in the log, and the writers lose nothing."""
    process = in_background(WRITER, here.controldir, SUPPORT, "300")
    copies = []
    while process.poll() is None:
        copies.append(upkeep.backups(here, str(tmp_path / f"b{len(copies)}"))[0])
    process.communicate()
    assert process.returncode == 0

    assert copies
    for copy in copies:
        with closing(sqlite3.connect(copy.path)) as con:
            jobs, logged = con.execute("SELECT count(*), (SELECT count(*) FROM FinishedLog) FROM AAR").fetchone()
            extra = con.execute("SELECT count(*) FROM JobExtraInfo").fetchone()[0]
        assert (logged, extra) == (jobs, 2 * jobs)
        assert stat.S_IMODE(os.stat(copy.path).st_mode) == 0o600
    assert len(job_ids(here.database)) == 303


def test_a_backup_has_both_databases(here, tmp_path) -> None:
    """Accounting and ledger, each with the time in its name; nothing else is left in the directory."""
    copies = upkeep.backups(here, str(tmp_path / "backups"))

    names = [os.path.basename(copy.path) for copy in copies]
    assert [name.partition("-")[0] for name in names] == ["accounting", "publishing"]
    assert sorted(os.listdir(tmp_path / "backups")) == sorted(names)
    assert job_ids(copies[0].path) == job_ids(here.database)


def test_a_backup_of_a_damaged_database_is_refused(here, tmp_path) -> None:
    """A copy of damage is no backup."""
    damage(here.database)

    with pytest.raises(StoreError, match=r"damaged|malformed"):
        upkeep.backups(here, str(tmp_path / "backups"))
    assert os.listdir(tmp_path / "backups") == []


def damage(path: str) -> None:
    """Rubbish over the pages behind the first ones."""
    with open(path, "r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * (os.path.getsize(path) - 8 * 4096))


def test_a_backup_on_a_full_disk_leaves_nothing(here, tmp_path) -> None:
    """The complaint names the file; no half copy stays that somebody could take for a whole one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    code = (
        "import os, sys; from arcacct.config.paths import places; from arcacct.database import upkeep as maintain\n"
        "from arcacct.errors import StoreError\n"
        "try: maintain.backups(places(None, sys.argv[1]), sys.argv[2])\n"
        "except StoreError as error: print(error, os.listdir(sys.argv[2]))"
    )

    out = on_small_disk(disk, 64, code, here.controldir, str(disk))

    assert "the backup failed" in out
    assert "accounting-" in out
    assert out.endswith("[]\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom users attack")
def test_a_backup_is_written_nowhere_else(here, public_dir) -> None:
    """Where everybody may write, somebody has put links under all names of the next seconds: none is followed."""
    public_dir.chmod(0o1777)
    victim = public_dir / "victim"
    for later_s in range(60):
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + later_s))
        (public_dir / f"accounting-{now}.db.partial").symlink_to(victim)
    copies = upkeep.backups(here, str(public_dir))
    assert not victim.exists()
    assert [os.path.islink(copy.path) for copy in copies] == [False, False]
    assert job_ids(copies[0].path) == job_ids(here.database)
    assert [name for name in os.listdir(public_dir) if name.startswith(".")] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
def test_a_backup_in_a_directory_of_another_user(here, public_dir) -> None:
    """He could put another database in its place, and root would restore it; the owner of the database could anyway."""
    place = theirs(public_dir / "backups")
    with pytest.raises(StoreError, match=f"{place}: other users can replace"):
        upkeep.backups(here, str(place))
    assert os.listdir(place) == []
    os.chown(here.directory, THEM.pw_uid, THEM.pw_gid)
    assert len(upkeep.backups(here, str(place))) == 2


def test_a_restore_brings_the_backup_back_in_a_new_life(here, tmp_path) -> None:
    """The jobs of the backup, another incarnation; the old database is kept next to it, whole."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, stored_jobs.job(4))
    before = life(here.database)

    done = upkeep.restore(here, copy)

    assert job_ids(here.database) == [f"STORED{number:06d}" for number in (1, 2, 3)]
    assert life(here.database) not in (before, life(copy))
    assert done.kept is not None
    assert len(job_ids(done.kept)) == 4
    assert stat.S_IMODE(os.stat(here.database).st_mode) == 0o600
    assert not os.path.exists(here.maintenance)
    assert sorted(name for name in os.listdir(here.directory) if name.startswith("restore")) == []
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, stored_jobs.job(5))


def test_a_backup_of_another_ce_is_refused_where_jobs_were_published(here, tmp_path) -> None:
    """Its jobs would be sent as this CE's. A backup of any life of this database is taken, also if it was lost."""
    other = places(None, set_up(tmp_path / "other"))
    initialise(other)
    theirs = upkeep.backups(other, str(tmp_path / "theirs"))[0].path
    ours = upkeep.backups(here, str(tmp_path / "ours"))[0].path
    upkeep.restore(here, ours)
    with closing(sqlite3.connect(here.publishing_database)) as con, con:
        con.execute(
            "INSERT INTO Targets (Target, Incarnation, LastSeq, StartEndTime) VALUES ('t', ?, 0, 0)",
            (life(here.database),),
        )
        con.execute("INSERT INTO DBConfig VALUES ('ACCOUNTING_LIVES', ?)", (f"{life(ours)} {life(here.database)}",))
    before = job_ids(here.database)

    with pytest.raises(InputError, match=r"not a backup of the database that .* belongs to, maybe of another CE"):
        upkeep.restore(here, theirs)
    assert job_ids(here.database) == before
    os.truncate(here.database, 5000)
    upkeep.restore(here, ours)
    assert job_ids(here.database) == before


def test_what_was_put_away_within_the_same_second_stays(here, tmp_path) -> None:
    """Three restores in a row keep three databases, also the first, which alone has the newest job."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, stored_jobs.job(4))

    kept = [upkeep.restore(here, copy).kept for _ in range(3)]

    assert len(set(kept)) == 3
    assert [len(job_ids(str(path))) for path in kept] == [4, 3, 3]


def test_a_restore_takes_the_old_wal_away(here, tmp_path) -> None:
    """What a killed process left in the WAL belongs to the old database: over the new one it would be damage."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    killed_writer(here)

    upkeep.restore(here, copy)

    with closing(sqlite3.connect(here.database)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(job_ids(here.database)) == 3


def test_a_damaged_database_is_restored(here, tmp_path) -> None:
    """That is what a backup is for."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    damage(here.database)

    upkeep.restore(here, copy)

    assert len(job_ids(here.database)) == 3


def test_a_lost_database_is_restored(here, tmp_path) -> None:
    """Also when there is nothing to put away."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    os.unlink(here.database)

    assert upkeep.restore(here, copy).kept is None
    assert len(job_ids(here.database)) == 3


def test_the_ledger_is_restored(here, tmp_path) -> None:
    """The kind is told by what is in the file."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[1].path

    assert upkeep.restore(here, copy).database == here.publishing_database


def test_a_backup_of_an_older_version_is_taken_forward(here, tmp_path) -> None:
    """As by an upgrade."""
    old = old_database(tmp_path / "old.db")

    done = upkeep.restore(here, str(old))

    assert done.scripts == tuple(upgrades(ACCOUNTING))
    open_database(here.database, ACCOUNTING_SCHEMA).close()


def old_database(path: pathlib.Path) -> pathlib.Path:
    """An empty database of arcacct 0.2."""
    with closing(in_memory(ACCOUNTING, ACCOUNTING.oldest)) as made, closing(sqlite3.connect(path)) as con:
        made.backup(con)
        con.execute("PRAGMA journal_mode = WAL")
    return path


def newer(here: Places, path: pathlib.Path) -> None:
    shutil.copy(here.database, path)
    with closing(sqlite3.connect(path)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '999' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()


def unreleased(_here: Places, path: pathlib.Path) -> None:
    with closing(sqlite3.connect(old_database(path))) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '25' WHERE KeyName = 'ARCACCT_SCHEMA'")
        con.commit()


def foreign(_here: Places, path: pathlib.Path) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("CREATE TABLE Things (Name TEXT)")


def archive(here: Places, path: pathlib.Path) -> None:
    shutil.copy(here.database, path)
    with closing(sqlite3.connect(path)) as con:
        con.execute("INSERT INTO DBConfig VALUES ('ARCACCT_ARCHIVE', '1')")
        con.commit()


def damaged(here: Places, path: pathlib.Path) -> None:
    shutil.copy(here.database, path)
    damage(str(path))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        pytest.param(newer, SchemaError, "schema version 999", id="newer"),
        pytest.param(unreleased, SchemaError, "schema version 25; it is of no release, and", id="unreleased"),
        pytest.param(foreign, SchemaError, "not a database of arcacct", id="not ours"),
        pytest.param(archive, SchemaError, "an archive of pruned jobs", id="an archive"),
        pytest.param(damaged, StoreError, "malformed|damaged", id="damaged"),
        pytest.param(lambda _here, path: path.write_text("x" * 500), StoreError, "not a database", id="text"),
        pytest.param(lambda _here, _path: None, InputError, "no such file", id="missing"),
        pytest.param(lambda _here, path: path.mkdir(), InputError, "a directory; give a backup", id="directory"),
    ],
)
def test_what_is_no_good_backup_is_refused(here, tmp_path, make, error, message) -> None:
    """The database stays as it is."""
    bad = tmp_path / "bad.db"
    make(here, bad)
    before = life(here.database)

    with pytest.raises(error, match=message):
        upkeep.restore(here, str(bad))
    assert life(here.database) == before
    assert not os.path.exists(here.maintenance)


def test_the_database_is_no_backup_of_itself(here) -> None:
    """Nor is a file that somebody uses."""
    with pytest.raises(InputError, match="the database itself"):
        upkeep.restore(here, here.database)


CRAFTED = {
    "trigger": "CREATE TRIGGER Evil AFTER INSERT ON JobEvents BEGIN UPDATE AAR SET UsedWalltime = 10; END",
    "view": "CREATE VIEW Evil AS SELECT 1",
    "index": "CREATE INDEX Evil ON AAR(hex(JobID))",
    "another-trigger": (
        "DROP TRIGGER FinishedLog_AAR_update; CREATE TRIGGER FinishedLog_AAR_update AFTER UPDATE ON AAR BEGIN"
        " DELETE FROM AAR; END"
    ),
    "another-view": "DROP VIEW v1_jobs; CREATE VIEW v1_jobs AS SELECT 1",
    "another-table": "ALTER TABLE Queues ADD COLUMN More TEXT DEFAULT 'x'",
    "no-trigger": "DROP TRIGGER FinishedLog_AAR_update",
    "endless-settings": (
        "DROP TABLE DBConfig; CREATE VIEW DBConfig AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT 'A' AS KeyName, i AS KeyValue FROM n"
    ),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_backup_is_refused(here, tmp_path, name) -> None:
    """A trigger or a view that is none of ours would be run as root; the database stays what it was."""
    (copy, *_rest) = upkeep.backups(here, str(tmp_path / "safe"))
    with closing(sqlite3.connect(copy.path)) as con:
        con.executescript(CRAFTED[name])
    before = os.stat(here.database).st_ino

    with pytest.raises(SchemaError, match=re.escape(copy.path)):
        upkeep.restore(here, copy.path)

    assert os.stat(here.database).st_ino == before


def test_a_table_of_the_site_and_statistics_are_let_through(here, tmp_path) -> None:
    """No one runs them."""
    (copy, *_rest) = upkeep.backups(here, str(tmp_path / "safe"))
    with closing(sqlite3.connect(copy.path)) as con:
        con.executescript("CREATE TABLE Notes (Text); ANALYZE")

    assert upkeep.restore(here, copy.path).kept is not None


@pytest.mark.parametrize("kind", ["accounting", "publishing"])
def test_a_backup_of_the_first_release_is_restored(here, tmp_path, kind) -> None:
    """What its scripts made is what ours of that version make."""
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as con:
        con.executescript((RELEASED / f"{kind}.sql").read_text())

    assert upkeep.restore(here, str(old)).scripts


def test_a_restore_waits_only_for_a_limited_time(here, tmp_path) -> None:
    """A process that has the old database open would go on writing it: it is named, and nothing is changed."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    code = (
        "import sqlite3, sys; con = sqlite3.connect(sys.argv[1]); con.execute('SELECT * FROM AAR').fetchone()\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, here.database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    before = life(here.database)

    with pytest.raises(StoreBusy, match=rf"in use by .*\({process.pid}\)"):
        upkeep.restore(here, copy, patience_s=0)
    process.communicate("")

    assert life(here.database) == before
    assert not os.path.exists(here.maintenance)
    upkeep.restore(here, copy, patience_s=0)


def test_events_during_a_restore_are_not_lost(host, tmp_path) -> None:
    """Each event waits in the spool; after the sweep every job is there once."""
    copy = upkeep.backups(host.places, str(tmp_path / "backups"))[0].path
    names = [f"JOB{number}" for number in range(8)]
    for name in names:
        job_files.lay(host.control, job_files.Files(), name)
    code = (
        "import subprocess, sys\n"
        "print('ready', flush=True)\n"
        "launcher, control, *names = sys.argv[1:]\n"
        "for name in names: subprocess.run([launcher, control, name, 'FINISHED'], check=True)"
    )
    process = in_background(code, LAUNCHER, str(host.control), *names)
    restored = 0
    while process.poll() is None:
        upkeep.restore(host.places, copy)
        restored += 1
    process.communicate()
    assert process.returncode == 0
    until(lambda: not any(path.name.startswith(".tmp-") for path in host.spool))

    host.sweep()

    assert restored > 0
    assert [row[0] for row in job_files.rows(str(host.database))["AAR"]] == names
    assert host.spool == []


def test_events_during_an_upgrade_are_not_lost(tmp_path, monkeypatch) -> None:
    """The launcher puts each into the spool, and others are told to come again; the next sweep records them."""
    ce = Host(tmp_path, created=False)
    os.makedirs(ce.places.directory)
    old_database(ce.database)
    names = ["JOB0", "JOB1"]
    make_backup = schema.backup

    def jobs_end(con: sqlite3.Connection, path: str) -> None:
        for name in names:
            job_files.lay(ce.control, job_files.Files(), name)
            ce.call("FINISHED", name)
        # Without it the next line would never end.
        assert os.path.exists(ce.places.maintenance)
        with pytest.raises(StoreBusy, match=r"maintenance is running .*upgrade"):
            open_accounting(ce.places)
        make_backup(con, path)

    monkeypatch.setattr(schema, "backup", jobs_end)

    report = ce.sweep()

    assert report.complaints == ()
    assert [row[0] for row in job_files.rows(str(ce.database))["AAR"]] == names
    assert ce.spool == []


@pytest.mark.parametrize("renames", sample(range(4), 2))
def test_a_restore_that_is_killed_is_repeated(here, tmp_path, renames) -> None:
    """Killed between any two renames: no command makes an empty database, and the next restore is whole."""
    copy = upkeep.backups(here, str(tmp_path / "backups"))[0].path
    killed_writer(here)
    code = (
        "import os, sys; from arcacct.config.paths import places\n"
        "from arcacct.database import upkeep as maintain\n"
        "count = 0; real = os.rename\n"
        "def rename(*names):\n"
        "    global count; count += 1\n"
        "    if count > int(sys.argv[3]): os.kill(os.getpid(), 9)\n"
        "    real(*names)\n"
        "maintain.os.rename = rename\n"
        "maintain.restore(places(None, sys.argv[1]), sys.argv[2])"
    )
    process = subprocess.run([sys.executable, "-c", code, here.controldir, copy, str(renames)], check=False)
    assert process.returncode == -9

    if not os.path.exists(here.database):
        with pytest.raises(StoreError, match="interrupted"):
            open_accounting(here)
    upkeep.restore(here, copy)

    assert len(job_ids(here.database)) == 3
    with closing(sqlite3.connect(here.database)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.campaign
def test_an_upgrade_that_is_killed_goes_on(tmp_path) -> None:
    """Killed before any statement of a script: the next one ends with the same schema, and the jobs are there."""
    here = places(None, set_up(tmp_path / "control"))
    os.makedirs(here.directory)
    fresh = places(None, set_up(tmp_path / "fresh"))
    open_accounting(fresh).close()
    code = (
        "import os, sys, threading, time; from arcacct.database import schema\n"
        "threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), 9)).start()\n"
        "schema.ensure(sys.argv[1], schema.ACCOUNTING); os._exit(0)"
    )
    killed = 0
    for wait_ms in range(0, 40, 5):
        shutil.rmtree(here.directory)
        os.makedirs(here.directory)
        old_database(pathlib.Path(here.database))
        with closing(sqlite3.connect(here.database)) as con:
            con.execute("INSERT INTO Queues (Name) VALUES ('kept')")
            con.commit()
        done = subprocess.run([sys.executable, "-c", code, here.database, str(wait_ms / 1000)], check=False)
        killed += done.returncode == -9

        open_accounting(here).close()

        with closing(sqlite3.connect(here.database)) as con, closing(sqlite3.connect(fresh.database)) as other:
            query = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
            assert con.execute(query).fetchall() == other.execute(query).fetchall()
            assert con.execute("SELECT Name FROM Queues").fetchall() == [("kept",)]
        assert not os.path.exists(here.maintenance)
        backups = [name for name in os.listdir(here.directory) if ".before-schema-" in name]
        assert backups
    assert killed > 0


def test_a_shrunk_database_is_small_and_whole(here) -> None:
    """The room of deleted rows is given back; the log's numbers are never used twice."""
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, *(stored_jobs.job(number) for number in range(100, 900)))
        con.execute("DELETE FROM JobExtraInfo")
        con.execute("DELETE FROM AAR WHERE RecordID > 3")
        highest = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        before, after = upkeep.shrink(here, con)
        upkeep.optimize(here, con)

        assert after < before
        assert con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone() == highest
    assert len(job_ids(here.database)) == 3
    assert not os.path.exists(here.maintenance)
