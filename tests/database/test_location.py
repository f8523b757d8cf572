"""Nothing starts a second life unasked: a lost database, one that `database=` leaves behind, and `arcacct db move`."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import stat
import subprocess
from contextlib import closing

import conf_files
import pytest
import stored_jobs
from campaigns import cross
from control_directory import set_up
from in_process import said
from installed import arcacct, configured
from job_files import Files, lay
from recording_host import Host

from arcacct.config.paths import Places, places
from arcacct.database import location, schema
from arcacct.database.access import open_accounting
from arcacct.database.location import LocationFile
from arcacct.errors import ConfigError

ENDED = "2026-05-01"
"""Before the jobs ended."""


class CE:
    """A host that publishes sums to a directory, with three jobs recorded and published."""

    def __init__(self, path: pathlib.Path, capture: pytest.CaptureFixture[str]) -> None:
        self.path, self.capture = path, capture
        self.here: Places = places(None, str(path / "control"))
        set_up(path / "control")
        (path / "out").mkdir()
        self.configure("")
        assert self.run("db", "init").returncode == 0
        with closing(open_accounting(self.here)) as con:
            stored_jobs.add(con, self.here, *map(stored_jobs.job, (1, 2, 3)))
        assert self.run("publish", "--since", ENDED, "--accept-lower", ENDED[:7]).returncode == 0
        self.messages = len(self.sent)

    def configure(self, ours: str) -> None:
        """Write the configuration again, with these lines in [arcacct]."""
        target = conf_files.DIRECTORY.replace("/var/spool/apel/outgoing", str(self.path / "out"))
        self.conf = conf_files.write(self.path, f"[arcacct]\n{ours}\n{target}apel_messages = summaries\n")

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """One command with this configuration."""
        return said(self.capture, "--config", self.conf, *words)

    @property
    def sent(self) -> list[pathlib.Path]:
        """The messages that were ever written."""
        return [path for path in (self.path / "out").rglob("*") if path.is_file()]

    def lose(self) -> None:
        """The accounting database is gone, the ledger stands."""
        for suffix in ("", "-wal", "-shm"):
            pathlib.Path(self.here.database + suffix).unlink(missing_ok=True)


@pytest.fixture
def ce(tmp_path, capfd) -> CE:
    """A host that has published."""
    return CE(tmp_path, capfd)


def jobs(path: str | pathlib.Path) -> int:
    """How many jobs a database has."""
    with closing(sqlite3.connect(path)) as con:
        return int(con.execute("SELECT count(*) FROM AAR").fetchone()[0])


def forget(ce: CE) -> None:
    """As 0.1 left it: no note of the place."""
    pathlib.Path(ce.here.place_note).unlink(missing_ok=True)


WRITING = [
    ("sweep",),
    ("sweep", "--dry-run"),
    ("publish", "--since", ENDED),
    ("republish", "--from", ENDED, "--to", "2026-06-01", "--yes"),
    ("db", "init"),
    ("import", "arex", "x.db"),
]


@pytest.mark.parametrize(("words", "noted"), cross(len(WRITING), WRITING, [True, False]))
def test_a_lost_database_is_not_begun_anew(ce: CE, words, noted: bool) -> None:
    """Every command that would begin an empty one refuses with the ways out, and nothing is sent."""
    ce.lose()
    if not noted:
        forget(ce)

    done = ce.run(*words)

    assert (done.returncode, done.stdout) == (78, "")
    for way in ("db restore FILE", "db init --new-life", "import arex", "database="):
        assert way in done.stderr
    assert not os.path.exists(ce.here.database)
    assert len(ce.sent) == ce.messages


@pytest.mark.parametrize(("words", "noted"), cross(len(WRITING), WRITING, [True, False]))
def test_a_database_that_is_configured_elsewhere_is_not_begun(ce: CE, words, noted: bool) -> None:
    """`database=` changed by hand: both paths are named, no second database is made, nothing is sent."""
    elsewhere = ce.path / "elsewhere" / "accounting.db"
    ce.configure(f"database={elsewhere}")
    if not noted:
        forget(ce)

    done = ce.run(*words)

    assert (done.returncode, done.stdout) == (78, "")
    assert f"database={ce.here.database}" in done.stderr
    assert str(elsewhere) in done.stderr
    assert "db move" in done.stderr
    assert not elsewhere.exists()
    assert len(ce.sent) == ce.messages


def test_the_command_line_counts_like_the_configuration(ce: CE) -> None:
    """`--database` of a file that is not there starts none either."""
    done = ce.run("--database", ce.path / "other.db", "sweep")

    assert done.returncode == 78
    assert not (ce.path / "other.db").exists()


def of_another_host(ce: CE) -> pathlib.Path:
    """A database that was made for another control directory."""
    other = ce.path / "other"
    other.mkdir()
    assert arcacct("--config", configured(other), "db", "init").returncode == 0
    return other / "control" / "accounting" / "arcacct" / "accounting.db"


def test_two_databases_of_one_directory_are_refused(ce: CE) -> None:
    """Both exist: neither is taken for the right one."""
    elsewhere = of_another_host(ce)
    ce.configure(f"database={elsewhere}")

    done = ce.run("sweep")

    assert done.returncode == 78
    assert str(elsewhere) in done.stderr
    assert ce.here.database in done.stderr


def test_maintenance_by_hand_ends_by_hand(ce: CE) -> None:
    """Status names the file, since no command removes it."""
    open(ce.here.maintenance, "x").close()

    said = ce.run("status").stdout

    assert "if you created the file `maintenance` next to the database, remove it" in said


def test_the_directory_that_was_emptied(ce: CE) -> None:
    """Database and ledger are both lost: the note remembers that there was one."""
    shutil.rmtree(ce.here.directory)

    assert ce.run("sweep").returncode == 78
    assert not os.path.exists(ce.here.directory)


def test_reading_says_the_same_ways_out(ce: CE) -> None:
    """Commands that only read keep their exit code, and say what brings the database back."""
    ce.lose()
    for words in (("query", "SELECT 1"), ("stats",), ("verify", "2026-05"), ("db", "backup"), ("db", "upgrade")):
        done = ce.run(*words)

        assert done.returncode == 74, words
        assert "no such database" in done.stderr
        assert "db restore FILE" in done.stderr


def test_a_new_life_is_the_operators_word(ce: CE) -> None:
    """It continues from what the ledger and the note know, says what that means, and is noted."""
    before = location.read(ce.here)
    ce.lose()

    done = ce.run("db", "init", "--new-life")

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"{ce.here.database}: created"
    assert "continues the lost database: published months are held until" in done.stderr
    assert "run `arcacct import arex` and `arcacct sweep`" in done.stderr
    assert before is not None
    with closing(sqlite3.connect(ce.here.database)) as con:
        assert schema.incarnation(con) != before.incarnation
        assert schema.incarnation_history(con) == {schema.incarnation(con), before.incarnation}
        assert schema.incarnation_start_seq(con) == 0
        assert location.read(ce.here) == LocationFile(ce.here.database, schema.incarnation(con))
    assert os.listdir(ce.here.directory).count("maintenance") == 0
    again = ce.run("db", "init", "--new-life")
    assert (again.returncode, again.stderr) == (0, "")
    assert ce.run("sweep").returncode == 0


def test_a_new_life_where_another_database_is_noted(ce: CE) -> None:
    """The operator may also go on in another place, with a database that is there or not."""
    elsewhere = ce.path / "elsewhere" / "accounting.db"
    ce.configure(f"database={elsewhere}")
    old = location.read(ce.here)
    assert old is not None

    done = ce.run("db", "init", "--new-life")

    assert done.returncode == 0
    assert ce.run("sweep").returncode == 0
    with closing(sqlite3.connect(elsewhere)) as con:
        assert old.incarnation in schema.incarnation_history(con)
    ce.configure("")
    assert f"database={elsewhere}" in ce.run("sweep").stderr
    back = ce.run("db", "init", "--new-life")
    assert (back.returncode, jobs(ce.here.database)) == (0, 3)
    assert ce.run("sweep").returncode == 0


def test_a_new_life_on_a_new_host_is_a_life(tmp_path) -> None:
    """Where there was nothing before, the word makes no difference."""
    done = arcacct("--config", configured(tmp_path), "db", "init", "--new-life")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(": created\n") == 2


def test_an_empty_file_is_no_database(ce: CE) -> None:
    """As a full disk or a careless redirection leaves it; the WAL of the lost one does not come back either."""
    ce.lose()
    pathlib.Path(ce.here.database).touch()
    pathlib.Path(ce.here.database + "-wal").write_bytes(b"what was lost")

    for words in (("stats",), ("db", "check")):
        done = ce.run(*words)
        assert (done.returncode, done.stdout) == (74, "")
        assert f"{ce.here.database}: no such database; " in done.stderr
        assert "db restore FILE" in done.stderr
    assert ce.run("sweep").returncode == 78
    assert ce.run("db", "init", "--new-life").returncode == 0
    assert ce.run("db", "check").returncode == 0


def test_a_restore_continues_from_what_it_replaces(ce: CE) -> None:
    """The backup's life and the one it replaces are former lives; the new one starts where the backup ended."""
    backup = ce.run("db", "backup", ce.path / "safe").stdout.partition(": ")[0]
    with closing(sqlite3.connect(ce.here.database)) as con:
        first, made = schema.incarnation(con), created(con)
    assert ce.run("db", "restore", backup, "--yes").returncode == 0
    with closing(sqlite3.connect(ce.here.database)) as con:
        second = schema.incarnation(con)
    with closing(open_accounting(ce.here)) as con:
        stored_jobs.add(con, ce.here, *map(stored_jobs.job, (4, 5)))

    assert ce.run("db", "restore", backup, "--yes").returncode == 0

    with closing(sqlite3.connect(ce.here.database)) as con:
        third = schema.incarnation(con)
        assert schema.incarnation_history(con) == {first, second, third}
        assert schema.incarnation_start_seq(con) == 3
        assert created(con) == made
    assert location.read(ce.here) == LocationFile(ce.here.database, third)


def created(con: sqlite3.Connection) -> str:
    """When a database was made."""
    return str(con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_CREATED'").fetchone()[0])


def test_a_restore_of_a_lost_database_continues_from_the_note(ce: CE) -> None:
    """What was there is gone, but its life is known; the restore is allowed, and commands work again."""
    backup = ce.run("db", "backup", ce.path / "safe").stdout.partition(": ")[0]
    assert ce.run("db", "restore", backup, "--yes").returncode == 0
    lost = location.read(ce.here)
    assert lost is not None
    ce.lose()

    assert ce.run("db", "restore", backup, "--yes").returncode == 0

    with closing(sqlite3.connect(ce.here.database)) as con:
        assert lost.incarnation in schema.incarnation_history(con)
    assert ce.run("sweep").returncode == 0


def test_a_restore_into_another_place_is_refused(ce: CE) -> None:
    """A second database would begin there, too."""
    backup = ce.run("db", "backup", ce.path / "safe").stdout.partition(": ")[0]
    ce.configure(f"database={ce.path}/elsewhere/accounting.db")

    done = ce.run("db", "restore", backup, "--yes")

    assert done.returncode == 78
    assert not (ce.path / "elsewhere" / "accounting.db").exists()


def test_the_place_of_an_older_version_is_noted(ce: CE) -> None:
    """The first sweep after an upgrade notes where the database is."""
    forget(ce)

    assert ce.run("sweep").returncode == 0

    note = location.read(ce.here)
    assert note is not None
    assert note.database == ce.here.database
    assert stat.S_IMODE(os.stat(ce.here.place_note).st_mode) == 0o600


def test_files_that_were_moved_by_hand_are_known(ce: CE) -> None:
    """The same life in another place, with nothing in the old one: it is noted and continues."""
    (ce.path / "elsewhere").mkdir()
    for name in ("accounting.db", "publishing.db"):
        with closing(sqlite3.connect(os.path.join(ce.here.directory, name))) as con:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.rename(os.path.join(ce.here.directory, name), ce.path / "elsewhere" / name)
    ce.configure(f"database={ce.path}/elsewhere/accounting.db")

    assert ce.run("sweep").returncode == 0

    note = location.read(ce.here)
    assert note is not None
    assert (note.database, note.former) == (f"{ce.path}/elsewhere/accounting.db", (ce.here.directory,))


def test_a_stranger_in_the_place_of_a_lost_database_is_refused(ce: CE) -> None:
    """A database that was made elsewhere does not go on from the one that is noted and gone."""
    stranger = of_another_host(ce)
    ce.lose()
    ce.configure(f"database={stranger}")

    done = ce.run("sweep")

    assert done.returncode == 78
    assert "not the database that" in done.stderr


def test_a_note_that_is_none_is_reported(ce: CE) -> None:
    """Whoever edits it is told what to do; nothing is guessed."""
    pathlib.Path(ce.here.place_note).write_text("hello\n")

    done = ce.run("sweep")

    assert done.returncode == 78
    assert f"{ce.here.place_note}: the lines database= and incarnation= are missing" in done.stderr


def test_a_host_without_a_control_directory_gets_no_note(tmp_path) -> None:
    """`--database` alone is enough, as before."""
    conf = configured(tmp_path)
    shutil.rmtree(tmp_path / "control")

    assert arcacct("--config", conf, "--database", tmp_path / "a.db", "db", "init").returncode == 0
    assert not (tmp_path / "control").exists()


def test_events_wait_while_the_database_is_missing(host: Host) -> None:
    """No recorder starts one; once the database is back, the sweep drains the event."""
    lay(host.control, Files())
    kept = host.database.with_name("kept.db")
    with closing(sqlite3.connect(host.database)) as con:
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.rename(host.database, kept)

    assert host.call() == ""
    with pytest.raises(ConfigError, match="the database is missing; refusing to create an empty one"):
        host.drain()

    assert not host.database.exists()
    os.rename(kept, host.database)
    assert host.sweep().spooled == 1


@pytest.mark.parametrize("words", ["publish --dry-run", f"republish --plan --from {ENDED} --to 2026-06-01"])
def test_a_plan_on_a_copy_of_the_database_takes_no_event(host: Host, tmp_path, capfd, words) -> None:
    """It refuses the copy as the run does: an event that the copy recorded would be lost to the database."""
    host.configure(conf_files.DIRECTORY.replace("/var/spool/apel/outgoing", str(tmp_path)))
    host.conf.write_text(f"[arex]\ncontroldir={host.control}\n")
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(host.database)) as con:
        con.execute("VACUUM INTO ?", (str(copy),))
    lay(host.control, Files())
    host.call()

    done = said(capfd, "--config", host.conf, "--database", copy, *words.split())

    assert (done.returncode, str(host.database) in done.stderr) == (78, True)
    assert (jobs(copy), host.sweep().spooled) == (0, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
def test_the_note_is_written_into_no_other_file(ce: CE, tmp_path) -> None:
    """Root notes the place in a directory of A-REX's user, who has put a link where the note is started."""
    victim = tmp_path / "of_root"
    victim.write_text("mine")
    folder = pathlib.Path(ce.here.place_note).parent
    folder.mkdir(exist_ok=True)
    os.chown(folder, 65534, 65534)
    (folder / f".arcacct.place.{os.getpid()}").symlink_to(victim)
    location.write(ce.here, LocationFile(ce.here.database, "life"))
    assert (victim.read_text(), victim.stat().st_uid) == ("mine", 0)
    assert os.stat(ce.here.place_note).st_uid == 65534
    (folder / "link").symlink_to(victim)
    location.own_as(str(folder / "link"), str(folder))
    assert victim.stat().st_uid == 0
