"""`arcacct db move DIR`: the same life in another place, whatever interrupts it."""

from __future__ import annotations

import grp
import os
import pathlib
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest
import stored_jobs
from installed import arcacct, configured
from job_files import JOB, Files, events, lay
from recording_host import Host

from arcacct.arex.sweep import sweep
from arcacct.config.paths import places
from arcacct.database import location, moving, schema
from arcacct.database.access import open_accounting
from arcacct.errors import ConfigError, StoreBusy


@pytest.fixture
def site(host: Host) -> Host:
    """A host with three old jobs, an event in the spool, and a ledger."""
    configure(host, "")
    with closing(open_accounting(host.places)) as con:
        stored_jobs.add(con, host.places, *map(stored_jobs.job, (1, 2, 3)))
    spooled(host, "SUBMIT")
    return host


def configure(host: Host, ours: str) -> None:
    """A configuration that names the control directory, with these lines in [arcacct]."""
    host.configure(ours)
    host.conf.write_text(f"[common]\n[lrms]\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={host.control}\n")


def spooled(host: Host, state: str) -> None:
    """An event that waits."""
    lay(host.control, Files(state))
    host.call(state)


def run(host: Host, *words: object) -> subprocess.CompletedProcess[str]:
    """One command with the configuration that there is now."""
    return arcacct("--config", host.conf, *words)


def life(path: str | pathlib.Path) -> str:
    with closing(sqlite3.connect(path)) as con:
        return schema.incarnation(con)


def jobs(path: str | pathlib.Path) -> int:
    with closing(sqlite3.connect(path)) as con:
        return int(con.execute("SELECT count(*) FROM AAR").fetchone()[0])


def test_everything_is_in_the_new_place(site: Host, tmp_path) -> None:
    """Same life, same jobs, the spool too; stdout is the line for the configuration, and with it all continues."""
    before, new = life(site.database), tmp_path / "new"
    key = site.database.parent / "pseudonyms.key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    assert run(site, "db", "backup", tmp_path / "backups").returncode == 0
    backup = [one for one in run(site, "metrics").stdout.splitlines() if "backup" in one and one[0] != "#"]
    assert backup

    done = run(site, "db", "move", new, "--yes")

    assert (done.returncode, done.stdout) == (0, f"database={new}/accounting.db\n")
    assert sorted(os.listdir(new)) == ["accounting.db", "care.json", "pseudonyms.key", "publishing.db", "spool"]
    assert stat.S_IMODE((new / "pseudonyms.key").stat().st_mode) == 0o600
    assert (life(new / "accounting.db"), jobs(new / "accounting.db")) == (before, 3)
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in new.glob("*.db")} == {0o600}
    note = location.read(site.places)
    assert note is not None
    assert note == (f"{new}/accounting.db", before, (site.places.directory,))
    assert sorted(path.name.partition(".db.moved.")[0] for path in site.database.parent.glob("*.moved.*Z")) == [
        "accounting", "publishing",
    ]  # fmt: skip
    assert site.spool == []
    assert not os.path.exists(site.places.maintenance)

    configure(site, done.stdout)
    assert run(site, "sweep").stdout.startswith("1 event from the spool")
    assert (JOB, "SUBMIT") in events(str(new / "accounting.db"))
    assert set(backup) <= set(run(site, "metrics").stdout.splitlines())
    assert run(site, "db", "check").returncode == 0


def test_the_old_configuration_is_refused_and_loses_nothing(site: Host, tmp_path) -> None:
    """Commands name the new place and begin nothing; the launcher spools where it did, and that is drained."""
    new = tmp_path / "new"
    run(site, "db", "move", new, "--yes")

    for words in (("sweep",), ("db", "init"), ("db", "optimize")):
        done = run(site, *words)
        assert done.returncode == 78
        assert f"set database={new}/accounting.db" in done.stderr
    assert f"set database={new}/accounting.db" in run(site, "stats").stderr
    lay(site.control, Files())
    assert site.call() == ""
    assert not site.database.exists()

    configure(site, f"database={new}/accounting.db")
    assert run(site, "sweep").stdout.startswith("2 events from the spool")
    assert site.spool == []


def test_back_again(site: Host, tmp_path) -> None:
    """The first place is a place like any other; both are drained as long as the note knows them."""
    before = life(site.database)
    for target in (tmp_path / "new", site.database.parent):
        done = run(site, "db", "move", target, "--yes")
        assert done.returncode == 0, done.stderr
        configure(site, done.stdout)

    note = location.read(site.places)
    assert note is not None
    assert note.former == (str(tmp_path / "new"),)
    assert (life(site.database), jobs(site.database)) == (before, 3)
    assert run(site, "sweep").returncode == 0


def test_an_event_of_the_same_name_stays_where_it_is(site: Host, tmp_path) -> None:
    """Process IDs return: the name of an event may be that of another one in the new spool. Both are recorded."""
    (event,) = site.spool
    (tmp_path / "new" / "spool").mkdir(parents=True)
    other = tmp_path / "new" / "spool" / event.name
    other.write_bytes(event.read_bytes())
    at_ns = event.stat().st_mtime_ns - 3600 * 10**9
    os.utime(other, ns=(at_ns, at_ns))

    done = run(site, "db", "move", tmp_path / "new", "--yes")
    assert done.returncode == 0, done.stderr
    configure(site, done.stdout)

    assert run(site, "sweep").stdout.startswith("2 events from the spool")


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ("new", 64, "give the absolute path"),
        ("{tmp}/control/accounting", 78, "this is the file that A-REX writes"),
        ("{tmp}/control", 78, "{tmp}/control: A-REX writes its own files into this directory"),
        ("{tmp}/control/accepting", 78, "A-REX writes its own files"),
        ("{tmp}/control/finished/new", 78, "A-REX writes its own files"),
        ("{tmp}/control/delegations", 78, "A-REX writes its own files"),
        ("{tmp}/link/jobs", 78, "A-REX writes its own files"),
        ("{tmp}/control/accounting/arcacct", 64, "the database is already there"),
        ("{tmp}/taken", 64, "publishing.db: already contains a database"),
        ("{tmp}/arc.conf", 64, "not a directory"),
        ("{tmp}/no/where", 64, "no such directory"),
    ],
)
def test_a_place_that_cannot_be_meant(site: Host, tmp_path, where: str, code: int, words: str) -> None:
    """It is refused with the reason before anything is changed."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "publishing.db").touch()
    (tmp_path / "link").symlink_to(tmp_path / "control")

    done = run(site, "db", "move", where.format(tmp=tmp_path), "--yes")

    assert (done.returncode, done.stdout) == (code, "")
    assert words.format(tmp=tmp_path) in done.stderr
    assert jobs(site.database) == 3


@pytest.mark.parametrize(
    "command",
    [
        ["db", "backup"],
        ["db", "snapshot"],
        ["export", "--site", "S"],
        ["publish", "--write-to"],
        ["republish", "--from", "2026-11", "--to", "2026-12", "--write-to"],
        ["db", "prune", "--before", "2026-11", "--archive"],
    ],
    ids=" ".join,
)
def test_no_command_writes_where_arex_writes(site: Host, tmp_path, command: list[str]) -> None:
    """Copies, archives and messages belong into no directory whose files A-REX makes and removes."""
    conf = tmp_path / "arcacct.conf"
    conf.write_text(f"{conf.read_text()}[arcacct/directory:out]\npath={tmp_path}\ngocdb_name=S\n")
    folder = tmp_path / "control" / "accepting"
    before = sorted(folder.iterdir())

    done = run(site, *command, folder / "archive.db" if command[1] == "prune" else folder)

    assert done.returncode == 78
    assert done.stderr.splitlines()[-1] == (
        f"arcacct: {folder}: A-REX writes its own files into this directory of the control directory; choose a"
        " directory outside"
    )
    assert sorted(folder.iterdir()) == before


def test_there_must_be_something_to_move(tmp_path) -> None:
    """A host without a database gets no directories, here or there."""
    done = arcacct("--config", configured(tmp_path), "db", "move", tmp_path / "new", "--yes")

    assert done.returncode == 74
    assert "no such database; create it with `arcacct db init`" in done.stderr
    assert not (tmp_path / "control" / "accounting").exists()


def test_it_asks_first(site: Host, tmp_path) -> None:
    """Without a terminal --yes must be said."""
    assert run(site, "db", "move", tmp_path / "new").returncode == 64
    assert not (tmp_path / "new").exists()


def test_who_uses_the_database_is_waited_for(site: Host, tmp_path) -> None:
    """A process that would go on writing the old one is named, and nothing is changed."""
    code = (
        "import sqlite3, sys; con = sqlite3.connect(sys.argv[1]); con.execute('SELECT * FROM AAR').fetchone()\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(site.database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(StoreBusy, match=rf"in use by .*\({process.pid}\)"):
            moving.move(site.places, str(tmp_path / "new"), patience_s=0)
        process.communicate("")

    assert run(site, "sweep").returncode == 0
    assert not os.path.exists(site.places.maintenance)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to a group")
def test_the_group_reads_in_the_new_place(site: Host, tmp_path) -> None:
    """read_group= holds for the directory and both databases."""
    configure(site, "read_group=users")

    assert run(site, "db", "move", tmp_path / "new", "--yes").returncode == 0

    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o750
    for path in (tmp_path / "new", *(tmp_path / "new").glob("*.db")):
        assert grp.getgrgid(path.stat().st_gid).gr_name == "users"


def test_without_a_note_nothing_is_moved(site: Host, tmp_path) -> None:
    """Where no note can be kept, the old configuration would start again: the move is refused."""
    os.unlink(site.places.place_note)
    os.mkdir(site.places.place_note)

    done = run(site, "db", "move", tmp_path / "new", "--yes")

    assert done.returncode == 74
    assert jobs(site.database) == 3
    assert not (tmp_path / "new" / "accounting.db").exists()


KILLED = """
import os, sys
count = 0
def counted(real):
    def call(*args, **kwargs):
        global count
        count += 1
        if count > int(sys.argv[4]): os.kill(os.getpid(), 9)
        return real(*args, **kwargs)
    return call
from arcacct.config.paths import places
from arcacct.database import moving
for name in ("rename", "unlink", "mkdir", "fsync", "rmdir"): setattr(os, name, counted(getattr(os, name)))
moving.move(places(None, sys.argv[1], sys.argv[2]), sys.argv[3])
print(count)
"""


def killed(site: Host, new: pathlib.Path, steps: int) -> subprocess.CompletedProcess[str]:
    """A move that dies before the step of this number."""
    command = [sys.executable, "-c", KILLED, str(site.control), str(site.database), str(new), str(steps)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.campaign
def test_killed_at_any_moment_one_place_is_complete(tmp_path) -> None:
    """
    Before every rename, unlink, mkdir and sync: the place that is noted has everything, another configuration is
    refused, a callout of the old one loses nothing, and the same command continues to the end.
    """
    for steps in range(1000):
        folder = tmp_path / str(steps)
        folder.mkdir()
        host = Host(folder)
        configure(host, "")
        with closing(open_accounting(host.places)) as con:
            stored_jobs.add(con, host.places, *map(stored_jobs.job, (1, 2, 3)))
        spooled(host, "SUBMIT")
        before, new = life(host.database), folder / "new"
        done = killed(host, new, steps)
        assert done.returncode in (-9, 0), done.stderr

        note = location.read(host.places)
        assert note is not None
        assert (life(note.database), jobs(note.database)) == (before, 3)
        other = next(path for path in (host.database, new / "accounting.db") if str(path) != note.database)
        with pytest.raises(ConfigError, match=r"both exist|no such database"):
            open_accounting(places(None, str(host.control), str(other)))
        lay(host.control, Files("FINISHED"))
        host.call("FINISHED")

        if done.returncode:
            assert killed(host, new, 1000).returncode == 0
        here = places(None, str(host.control), str(new / "accounting.db"))
        assert sorted(path.name for path in new.iterdir() if "-" not in path.name) == [
            "accounting.db", "publishing.db", "spool",
        ]  # fmt: skip
        with closing(open_accounting(here)) as con:
            assert sweep(here, con).complaints == ()
        assert {(JOB, "SUBMIT"), (JOB, "FINISHED")} <= set(events(here.database))
        assert (life(here.database), jobs(here.database)) == (before, 4)
        assert host.spool == []
        if not done.returncode:
            break
    assert steps > 20
