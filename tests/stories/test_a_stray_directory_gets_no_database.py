"""A directory that A-REX has not set up gets no database, whatever command is given."""

from __future__ import annotations

import os
import pathlib

import conf_files
import pytest
from control_directory import set_up
from installed import arcacct
from job_files import Files, lay

DATA = pathlib.Path(__file__).parent.parent / "data"
GRIDENGINE = DATA / "gridengine" / "accounting.ocs91-synthetic.jsonl"
SONAR = DATA / "sonar" / "real-sample-all-load.json"
WRITING = (
    "sweep", "sweep --dry-run", "publish", "republish --from 2026-10-01 --to 2026-11-01", "db init",
    "db init --new-life", "db optimize", "db restore {conf} --yes", "import arex", f"import gridengine {GRIDENGINE}",
    f"import sonar {SONAR}", "features record --pattern /tmp/{{jobid}}", "quarantine retry Job1", "quarantine list",
)  # fmt: skip
READING = (
    "publish --dry-run", "republish --from 2026-10-01 --to 2026-11-01 --plan", "db check", "db backup", "db upgrade",
    "db prune --before 2026-01-01 --yes", "verify 2026-10", "stats", "job info Job1", "job Job1", "job --only why Job1",
    "query SELECT+1",
)  # fmt: skip


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> str:
    """A host whose arc.conf names a directory without anything in it, with a target to publish to."""
    (tmp_path / "control").mkdir()
    (tmp_path / "out").mkdir()
    return conf_files.write(tmp_path, conf_files.DIRECTORY.replace("/var/spool/apel/outgoing", f"{tmp_path}/out"))


def words(command: str, conf: str) -> list[str]:
    """The words of a command line; + stands for a blank inside of one."""
    return [word.replace("+", " ") for word in command.format(conf=conf).split()]


def made(directory: pathlib.Path) -> list[str]:
    """Everything that there is next to the configuration."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.suffix != ".conf")


@pytest.mark.parametrize("command", WRITING)
def test_no_command_creates_a_database_there(tmp_path: pathlib.Path, conf: str, command: str) -> None:
    """It says which directory that is, which line names it, and what to do; nothing is made."""
    done = arcacct("--config", conf, *words(command, conf))

    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"arcacct: {tmp_path}/control: not a control directory of A-REX")
    assert f"the path is from {conf}:5: [arex] controldir." in done.stderr
    for way in ("--config", "[arex] controldir", "--controldir", "database=", "--database"):
        assert way in done.stderr
    assert made(tmp_path) == ["control", "out"]


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_says_so_too(tmp_path: pathlib.Path, conf: str, command: str) -> None:
    """Not that the database should be created; and it makes nothing either."""
    done = arcacct("--config", conf, *words(command, conf))

    assert done.returncode == 74
    assert f"{tmp_path}/control: not a control directory of A-REX" in done.stderr
    assert made(tmp_path) == ["control", "out"]


@pytest.mark.parametrize("command", ["status", "metrics"])
def test_monitoring_says_so_too(tmp_path: pathlib.Path, conf: str, command: str) -> None:
    """As a critical database."""
    done = arcacct("--config", conf, command)

    assert "CRITICAL" in done.stdout or 'arcacct_check{subject="database"} 2' in done.stdout
    assert made(tmp_path) == ["control", "out"]


def test_a_directory_that_is_not_there(tmp_path: pathlib.Path) -> None:
    """As on a host where the usual one is not used; --controldir names the right one."""
    conf = conf_files.write(tmp_path, arc="[arex]\n")
    if os.path.isdir("/var/spool/arc/jobstatus"):
        pytest.skip("this host has a control directory")

    done = arcacct("--config", conf, "sweep", "--dry-run")
    given = arcacct("--config", conf, "sweep", "--controldir", f"{tmp_path}/nowhere")
    right = arcacct("--config", conf, "sweep", "--controldir", set_up(tmp_path / "right"))

    assert (done.returncode, given.returncode, right.returncode) == (78, 78, 0)
    assert done.stderr.startswith("arcacct: /var/spool/arc/jobstatus: no such control directory")
    assert "the path is from ARC's default, because [arex] controldir is not set" in done.stderr
    assert "the path is from the command line" in given.stderr


def test_a_control_directory_that_stands_only_in_arc_conf_d(tmp_path: pathlib.Path) -> None:
    """
    It is swept, and no second database is made.

    (Seen: commands started an empty one below ARC's default directory and said "nothing new", exit 0.)
    """
    control = pathlib.Path(set_up(tmp_path / "control"))
    lay(control, Files())
    conf = conf_files.write(tmp_path, arc="[common]\nhostname = ce.example.org\n[arex]\n")
    (tmp_path / "arc.conf.d").mkdir()
    (tmp_path / "arc.conf.d" / "10-site.conf").write_text(f"[arex]\ncontroldir = {control}\n")

    done = arcacct("--config", conf, "sweep")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"1 job in {control}, 1 read, 1 recorded: 1 never seen\n")
    assert (control / "accounting" / "arcacct" / "accounting.db").exists()


@pytest.mark.parametrize("how", ["database=", "--database"])
@pytest.mark.parametrize("command", [f"import gridengine {GRIDENGINE}", f"import sonar {SONAR}", "publish", "db init"])
def test_a_host_without_arex_continues_to_work(tmp_path: pathlib.Path, conf: str, command: str, how: str) -> None:
    """With a database elsewhere nothing is asked of a control directory, and nothing is put there."""
    os.rmdir(tmp_path / "control")
    database = tmp_path / "ours" / "accounting.db"
    given = ["--database", str(database)]
    if how == "database=":
        conf, given = conf_files.write(tmp_path, f"[arcacct]\ndatabase = {database}\n"), []

    done = arcacct("--config", conf, *given, *words(command, conf))

    assert done.returncode == 0, done.stderr
    assert database.exists()
    assert not (tmp_path / "control").exists()


def test_a_database_that_is_there_is_used(tmp_path: pathlib.Path, conf: str) -> None:
    """Folders that are away for a moment (a mount point) stop no question, and no work on what there is."""
    set_up(tmp_path / "control")
    assert arcacct("--config", conf, "db", "init").returncode == 0
    for folder in ("accepting", "processing", "finished", "restarting"):
        os.rmdir(tmp_path / "control" / folder)

    assert arcacct("--config", conf, "stats").returncode == 0
    assert arcacct("--config", conf, "publish").returncode == 0


@pytest.mark.parametrize("there", ["accepting", "finished", "accounting/accounting_v2.db"])
def test_what_arex_leaves_makes_a_control_directory(tmp_path: pathlib.Path, conf: str, there: str) -> None:
    """A copy may lack the folders that were empty; a database of A-REX's own is a sign, too."""
    path = tmp_path / "control" / there
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"") if path.suffix else path.mkdir()

    assert arcacct("--config", conf, "db", "init").returncode == 0


def test_config_check_warns(tmp_path: pathlib.Path, conf: str) -> None:
    """A-REX may not have been started yet, so it is no error."""
    with open(conf, "a", encoding="utf-8") as file:
        file.write("[lrms]\nbenchmark=HEPSPEC:12.26\n")
    done = arcacct("--config", conf, "config", "check")

    assert (done.returncode, done.stdout) == (0, "")
    assert f"{tmp_path}/control (from {conf}:5: [arex] controldir): not a control directory of A-REX" in done.stderr
    set_up(tmp_path / "control")
    assert "control directory" not in arcacct("--config", conf, "config", "check").stderr
