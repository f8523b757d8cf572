"""What holds for every command: help, wrong input, exit codes, tracebacks, pipes, completion."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing

import arex_corpus as corpus
import click
import installed
import pytest
from installed import ARCACCT, run_arcacct

import arcacct as package
from arcacct import entry_points, errors
from arcacct.cli.main import COMMANDS, GROUP, arcacct
from arcacct.config.paths import STATUS_FOLDERS

ARC_CONF = """\
[common]
hostname = ce.example.org
x509_host_cert = {0}/hostcert.pem
x509_host_key = {0}/hostkey.pem
x509_cert_dir = {0}
[arex]
controldir = {0}/control
"""
TARGET = """
[arex/jura/sgas:x]
targeturl = https://localhost:1/sgas
"""


def names(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words that call a command and each one below it that is not hidden."""
    if not isinstance(command, click.Group):
        return [path]
    ctx = click.Context(command)
    below = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
    return [path, *(words for name, found in below if not found.hidden for words in names(found, (*path, name)))]


@pytest.fixture
def home(tmp_path):
    """A host with a configuration, an empty control directory and no credentials."""
    (tmp_path / "control").mkdir()
    (tmp_path / "arc.conf").write_text(ARC_CONF.format(tmp_path))
    (tmp_path / "arcacct.conf").write_text(f"[arcacct]\ndatabase = {tmp_path}/accounting.db\n")
    return tmp_path


def test_version() -> None:
    """--version prints the name and the version of the package."""
    done = run_arcacct("--version", cwd="/")

    assert (done.returncode, done.stdout) == (0, f"arcacct, version {package.__version__}\n")


@pytest.mark.parametrize("words", names(arcacct), ids=" ".join)
def test_help_everywhere(words, capsys, monkeypatch) -> None:
    """-h and --help of every command print how it is called, on stdout, no wider than a terminal, and end with 0."""
    from arcacct.cli.main import main

    monkeypatch.setenv("COLUMNS", "80")
    said = []
    for option in ("-h", "--help"):
        with pytest.raises(SystemExit) as end:
            main([*words, option])
        assert end.value.code == 0
        said.append(capsys.readouterr())

    assert said[0] == said[1]
    assert said[0].err == ""
    assert said[0].out.startswith(" ".join(("Usage:", "arcacct", *words)))
    # The values that an option takes are one word, which nothing can break.
    assert not [line for line in said[0].out.splitlines() if len(line) > 100 and not line.startswith("  -")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["publsh"], ["No such command 'publsh'", "Did you mean", "'publish'", "`arcacct --help`"], id="unknown"
        ),
        pytest.param(["stat"], ["(Did you mean one of: 'stats', 'status'?)", "`arcacct --help`"], id="two are near"),
        pytest.param(["frobnicate"], ["No such command 'frobnicate'; see `arcacct --help`"], id="none is near"),
        pytest.param(["version"], ["'version' is not a command; did you mean `arcacct --version`?"], id="an option"),
        pytest.param(
            ["publish", "--since", "2999-01"], ["--since", "2999-01-01T00:00:00Z is in the future"], id="future"
        ),
        pytest.param(["db", "backp"], ["Did you mean 'backup'?", "`arcacct db --help`"], id="near below a group"),
        pytest.param(["db", "frobnicate"], ["No such command 'frobnicate'", "`arcacct db --help`"], id="below a group"),
        pytest.param(["--frob", "publish"], ["No such option '--frob'", "`arcacct --help`"], id="global option"),
        pytest.param(["publish", "--frob"], ["No such option '--frob'", "`arcacct publish --help`"], id="option"),
        pytest.param(
            ["job", "--only"],
            ["'--only' requires an argument: info, events, transfers or why; see `arcacct job --help`"],
            id="no value of some",
        ),
        pytest.param(["db", "prune", "--before"], ["argument; see `arcacct db prune --help`"], id="no value"),
        pytest.param(["publish", "--dry-run=1"], ["a value; see `arcacct publish --help`"], id="value of a flag"),
        pytest.param(["--config"], ["requires an argument; see `arcacct --help`"], id="no value of a global option"),
        pytest.param(["stats", "--database", "x"], ["--database belongs before the command"], id="global option late"),
        pytest.param(["publish", "extra"], ["extra", "`arcacct publish --help`"], id="argument too many"),
        pytest.param(["record", "c"], ["Missing argument 'JOBID'", "`arcacct record --help`"], id="argument missing"),
        pytest.param(["publish", "--since", "tea"], ["'tea' is not a time; write 2026-11-20"], id="not a time"),
        pytest.param(["status", "--warn-spool", "tea"], ["'tea' is not a limit; write a number"], id="no limit"),
        pytest.param(["stats", "--by", "vo", "--top", "tea"], ["'tea' is not a number; see"], id="no whole number"),
        pytest.param(["record", "c", "j", "DONE"], ["'DONE'", "'FINISHED'"], id="not a state"),
        pytest.param(["stats", "--end-from", "9" * 19], ["is not a time; write 2026-11-20"], id="beyond all times"),
    ],
)
def test_wrong_command_line_is_one_line(tmp_path, arguments, words) -> None:
    """Exit code 64, nothing on stdout, and one line that says what is wrong and where help is."""
    done = installed.arcacct(*arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("arcacct: ")
    assert done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in words)


def test_alone_it_explains_itself(tmp_path) -> None:
    """Without a command it shows the help, on stderr, since that was no use of it."""
    done = run_arcacct(cwd=tmp_path)

    assert (done.returncode, done.stdout) == (64, "")
    assert all(f"  {name}" in done.stderr for name in COMMANDS)


def no_job(home):
    return ["record", f"{home}/control", "J1", "ACCEPTED"]


def not_a_database(home):
    (home / "accounting.db").write_text("three words only\n" * 100)
    return ["sweep"]


def damaged_for_a_question(home):
    not_a_database(home)
    return ["stats"]


def newer_database(home):
    with closing(sqlite3.connect(home / "accounting.db")) as con, con:
        con.execute("CREATE TABLE DBConfig (KeyName TEXT, KeyValue TEXT)")
        con.execute("INSERT INTO DBConfig VALUES ('ARCACCT_SCHEMA', '99')")
    return ["sweep"]


def no_certificate(home):
    (home / "arcacct.conf").write_text(f"[arcacct]\ndatabase = {home}/accounting.db\n{TARGET}")
    return ["publish"]


def no_configuration(home):
    (home / "arc.conf").unlink()
    return ["publish"]


def wrong_configuration(home):
    (home / "arcacct.conf").write_text("[arcacct]\nsettle = soon\n")
    return ["publish"]


def unknown_target(home):
    return ["publish", "--target", "apel:x"]


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (unknown_target, 64, "apel:x"),
        (no_job, 65, "J1"),
        (not_a_database, 74, "accounting.db"),
        (damaged_for_a_question, 74, "accounting.db: file is not a database; it is damaged"),
        (newer_database, 74, "99"),
        (no_certificate, 77, "hostcert.pem"),
        (no_configuration, 78, "arc.conf: no such file"),
        (wrong_configuration, 78, "arcacct.conf:2: [arcacct] settle"),
    ],
)
def test_errors_are_one_line_and_a_code(home, spoil, code, words) -> None:
    """Whatever is wrong: the exit code of its kind, one line that names the place, no traceback."""
    done = run_arcacct("--config", f"{home}/arc.conf", *spoil(home), cwd=home)

    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert [line.startswith("arcacct: ") for line in done.stderr.splitlines()].count(True) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "question",
    [["job", "--only", "why"], ["stats", "--filter-user"], ["quarantine", "retry"], ["import", "arex"]],
    ids=" ".join,
)
def test_a_name_that_is_no_text_is_a_wrong_command_line(home, question) -> None:
    """Linux gives any bytes to a program, and has files with such names; no database can be asked for them."""
    with closing(sqlite3.connect(home / "control" / os.fsdecode(b"caf\xe9"))) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
    for folder in STATUS_FOLDERS:
        (home / "control" / folder).mkdir(exist_ok=True)
    assert run_arcacct("--config", f"{home}/arc.conf", "db", "init", cwd=home).returncode == 0
    done = run_arcacct("--config", f"{home}/arc.conf", *question, f"{home}/control/caf\udce9", cwd=home)

    assert done.returncode == 64, done.stderr
    assert done.stderr.startswith(f"arcacct: '{home}/control/caf\\udce9': not UTF-8")
    assert done.stderr.count("\n") == 1


def test_debug_shows_where_an_error_came_from(home) -> None:
    """With --debug the traceback comes before the same line, and the exit code is the same."""
    quiet = run_arcacct("--config", "nowhere", "publish", cwd=home)
    done = run_arcacct("--debug", "--config", "nowhere", "publish", cwd=home)

    assert done.returncode == quiet.returncode == 78
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith(quiet.stderr)
    assert "Traceback" not in quiet.stderr


def test_the_drawing_of_the_errors_is_true() -> None:
    """The tree in the docstring of arcacct.errors names every error with its exit code and its parent."""
    drawn = re.findall(r"^ *([│├└─ ]*)(\w+) +(\d\d)  ", errors.__doc__ or "", re.MULTILINE)
    path: list[type[BaseException]] = []
    for lines, name, code in drawn:
        error = getattr(errors, name)
        depth = len(lines) // 4
        assert error.exit_code == int(code), name
        assert error.__bases__ == (path[depth - 1] if depth else Exception,), name
        path[depth:] = [error]

    assert {name for _, name, _ in drawn} == {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)
    }


def test_reader_that_goes_away_is_no_error(tmp_path) -> None:
    """`arcacct ... | head`: when no one reads any more it ends quietly."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([ARCACCT, "--help"], stdout=write_end, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(write_end)

    assert (done.returncode, done.stderr) == (0, b"")


def test_output_that_cannot_be_written_is_an_error(tmp_path) -> None:
    """On a full disk the output is lost and that is said, once."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([ARCACCT, "--help"], stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False)

    assert (done.returncode, done.stderr) == (
        74,
        b"arcacct: system: No space left on device; free space on that disk (df)\n",
    )


ENDING = """
import atexit, sys, threading
from arcacct.cli.main import main

class Taken:
    def __del__(self):
        print("taken apart", flush=True)

kept = Taken()
atexit.register(print, "at exit")
threading.Thread(target=lambda: [threading.main_thread().join(), print("thread")]).start()
sys.argv = ["arcacct", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("line", "code"), [("hostname=ce", 0), ("[arex/jura/sgas:s]\ntargeturl=ftp://nowhere", 78)])
def test_a_command_ends_when_its_work_and_output_are_done(tmp_path, line, code) -> None:
    """Threads and exit functions have their time, and all is printed; no one waits until the memory is empty."""
    conf = tmp_path / "arc.conf"
    conf.write_text(f"[arex]\ncontroldir={tmp_path}\n[common]\n{line}\n")
    done = subprocess.run(
        [sys.executable, "-c", ENDING, "--config", conf, "config", "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines()[-2:] == ["thread", "at exit"]


def test_output_that_is_lost_at_the_end_is_an_error() -> None:
    """What is not printed at once fails at the latest when the program ends."""
    program = "import sys, arcacct.cli.main as main; main._run = lambda _args: sys.stdout.write('x') * 0; main.main()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert (done.returncode, done.stderr.count(b"No space left on device")) == (74, 1), done.stderr


def test_an_endless_statement_is_refused(home) -> None:
    """SQL from standard input has a limit: `arcacct query - < /dev/zero` would fill the memory."""
    database = home / "accounting.db"
    assert run_arcacct("--database", str(database), "db", "init", cwd=home).returncode == 0
    command = [sys.executable, "-m", "arcacct", "--database", str(database), "query", "--format", "csv", "-"]
    for blanks, expected in ((10**6 - 8, (0, "1\n1\n", "")), (10**6 - 7, (65, "", "more than 1000000 characters"))):
        done = subprocess.run(
            command, input=" " * blanks + "SELECT 1", capture_output=True, encoding="utf-8", cwd=home, check=False
        )
        code, out, err = expected
        assert (done.returncode, done.stdout, err in done.stderr) == (code, out, True), done.stderr


def complete(*words: str) -> list[str]:
    """What bash is offered for the last of the words."""
    env = {"_ARCACCT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = run_arcacct(cwd="/", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("closed", "said"), [("<&-", True), (">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)])
def test_closed_streams_are_no_error(tmp_path, closed, said) -> None:
    """As some daemons start programs: what cannot be printed is left out, and the work is done."""
    database = tmp_path / "accounting.db"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}', ARCACCT, "--database", database, "db", "init"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, bool(done.stdout), done.stderr) == (0, said, b"")
    with closing(sqlite3.connect(database)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_bash_completes_commands_and_options() -> None:
    """Commands, subcommands and options are completed."""
    assert complete("arcacct", "pub") == ["publish"]
    assert complete("arcacct", "config", "") == ["check", "show"]
    assert {"--to", "--target"} <= set(complete("arcacct", "republish", "--t"))
    assert set(complete("arcacct", "")) == set(COMMANDS)


def test_no_name_is_completed_that_a_shell_would_run(tmp_path) -> None:
    """A shell writes a completion into the line as it is: with return, root would run what a user is called."""
    names = ["/CN=$(id)", "/CN=`id`", "/CN=a;id", "/CN=a|id", "/CN=a&id", "/CN=a>b", "/CN=*", "/CN=O'Neill", "/CN=\\$x"]
    database = tmp_path / "accounting.db"
    with closing(sqlite3.connect(database)) as con, con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
        con.executemany("INSERT INTO Users (Name) VALUES (?)", [(name,) for name in [*names, "/CN=Żółć Jane-1"]])
        known = {name for (name,) in con.execute("SELECT Name FROM Users WHERE Name <> ''")}

    offered = set(complete("arcacct", "--database", str(database), "stats", "--filter-user", ""))

    assert "/CN=Żółć Jane-1" in offered
    assert offered == {name for name in known if not set(name) & set("$`;|&<>*?[](){}!#~'\"\\")}


def test_bash_learns_how_to_complete() -> None:
    """The script that is sourced in bash defines the completion of arcacct."""
    done = run_arcacct(cwd="/", env={"_ARCACCT_COMPLETE": "bash_source"})

    assert done.returncode == 0
    assert "complete -o nosort -F _arcacct_completion arcacct" in done.stdout


def test_python_runs_the_package() -> None:
    """`python -m arcacct` is the same program."""
    done = subprocess.run([sys.executable, "-m", "arcacct", "--version"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"arcacct, version {package.__version__}\n", "")


# Commands of optional parts and of other packages: registered by entry points, next to those of the core.


HELLO = """
import click

@click.command()
@click.option("--name", default="world", help="Who.")
def hello(name):
    "Greet a user."
    click.echo(f"hello {name}")
    return 3
"""


def install(folder: pathlib.Path, package: str, points: dict[str, str], text: str = HELLO) -> None:
    """Put a package there as an installer does: its module, and the metadata that names its commands."""
    (folder / f"{package}.py").write_text(text)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")


def run(packages: pathlib.Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, that finds what is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "arcacct", *arguments],
        env={**os.environ, "PYTHONPATH": str(packages), **environment},
        text=True,
        capture_output=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_command_of_another_package_runs_and_is_listed(tmp_path) -> None:
    """With its options, its exit code, its line in the help and its completion, like any of ours."""
    install(tmp_path, "greetings", {"hello": "greetings:hello"})

    done = run(tmp_path, "hello", "--name", "you")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello you\n", "")
    assert "\n  hello       Greet a user.\n" in run(tmp_path, "--help").stdout
    words = {"_ARCACCT_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    assert run(tmp_path, COMP_WORDS="arcacct hel", **words).stdout == "plain,help\nplain,hello\n"
    assert "Did you mean 'hello'?" in run(tmp_path, "hullo").stderr


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("greetings:goodbye", "cannot be loaded: AttributeError"),
        ("nothing_of_this_name:hello", "cannot be loaded: ModuleNotFoundError"),
        ("greetings", "cannot be used: it is a module, not a command of click; report it"),
    ],
)
def test_a_command_that_cannot_be_used_costs_no_other(tmp_path, value, said) -> None:
    """To call it is one error of the configuration; the help names it on stderr and lists the others."""
    install(tmp_path, "greetings", {"hello": "greetings:hello", "broken": value})

    done = run(tmp_path, "broken")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (78, "", 1)
    assert f"command broken: the entry point arcacct.commands of {value} {said}" in done.stderr
    shown = run(tmp_path, "--help")
    assert (shown.returncode, shown.stderr) == (0, done.stderr)
    assert "\n  hello " in shown.stdout
    assert "\n  broken" not in shown.stdout
    assert run(tmp_path, "hello").returncode == 3


def test_no_package_replaces_a_command(tmp_path) -> None:
    """The core's own stay; for one of a part only a person knows which is meant."""
    install(tmp_path, "greetings", {"publish": "greetings:hello", "fleet": "greetings:hello"})

    assert run(tmp_path, "publish", "--help").stdout.startswith("Usage: arcacct publish")
    done = run(tmp_path, "fleet")
    assert (done.returncode, "only one package may have this name" in done.stderr) == (78, True)


def test_what_a_killed_pip_leaves_costs_no_command(tmp_path) -> None:
    """While pip replaces a package, the former metadata have another name: both copies register the same commands."""
    install(tmp_path, "greetings", {"hello": "greetings:hello"})
    shutil.copytree(tmp_path / "greetings-1.0.dist-info", tmp_path / "~reetings-1.0.dist-info")

    assert run(tmp_path, "hello").stdout == "hello world\n"
    assert run(tmp_path, "--help").stdout.count("  hello ") == 1


def test_metadata_of_an_older_version_hide_no_command(tmp_path) -> None:
    """`pip install --ignore-installed` leaves them in the folder; those in a later folder count no more."""
    install(tmp_path, "greetings", {"hello": "greetings:hello"})
    (tmp_path / "greetings-0.9.dist-info").mkdir()
    later = tmp_path / "later"
    later.mkdir()
    install(later, "greetings", {"hello": "greetings:hello", "farewell": "greetings:hello"})

    found = {word: run(tmp_path, word, PYTHONPATH=f"{tmp_path}:{later}").returncode for word in ("hello", "farewell")}
    assert found == {"hello": 3, "farewell": 64}


def test_commands_of_the_core_look_through_no_package() -> None:
    """To find the packages costs a listing of every folder of modules: only a command that may be theirs pays it."""
    text = "from arcacct import entry_points\ndef refused(): raise AssertionError\nentry_points._registered = refused\n"
    program = f"{text}from arcacct.cli.main import main\nmain()\n"
    asked = [("--version",), ("publish", "--help"), ("record", "--help"), ("stats", "--help"), ("import", "lsf", "-h")]
    codes = [
        subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False).returncode
        for words in (*asked, ("fleet", "--help"))
    ]

    assert codes == [*[0 for _ in asked], 70]


@pytest.mark.parametrize("group", ["config", "features", "fleet", "import"])
def test_the_help_of_a_group_cuts_no_sentence(tmp_path, group) -> None:
    """It says what each command is for in full, also in several lines."""
    assert not re.search(r"\w\.\.\.", run(tmp_path, group, "--help").stdout.partition("\nCommands:\n")[2])


def test_a_part_that_is_not_installed_is_named(tmp_path) -> None:
    """Its command is not in the help; an error says what to install. No other command fails for it."""
    (tmp_path / "arcacct-0.1.dist-info").mkdir()

    shown = run(tmp_path, "--help").stdout.partition("\nCommands:\n")[2].partition("\n\n")[0]
    listed = [line.split()[0] for line in shown.splitlines() if line[2:3].strip()]
    assert listed == [name for name in COMMANDS if name not in entry_points.PARTS[GROUP]]
    said = "is in an optional part that is not installed; install arcacct again (in a checkout: `pip install -e .`)"
    for words in (["fleet"], ["node"], ["import", "sonar"]):
        done = run(tmp_path, *words, "--help")
        assert (done.returncode, done.stderr) == (64, f"arcacct: command {words[-1]} {said}\n")
        completed = {"COMP_WORDS": " ".join(["arcacct", *words, ""]), "COMP_CWORD": str(len(words) + 1)}
        assert run(tmp_path, _ARCACCT_COMPLETE="bash_complete", **completed).stderr == ""

    (tmp_path / "arc.conf").write_text("[common]\n")
    (tmp_path / "arcacct.conf").write_text("[arcacct/auditor:eu]\n")
    done = run(tmp_path, "--config", str(tmp_path / "arc.conf"), "config", "check")
    assert (done.returncode, f"arcacct.conf:1: [arcacct/auditor:eu]: {said}\n" in done.stdout) == (78, True)


def test_this_environment_has_the_entry_points_of_the_project() -> None:
    """After a change of them in pyproject.toml run `pip install -e .` again: else commands are missing."""
    project = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))

    for group, points in project["project"]["entry-points"].items():
        if group.startswith("arcacct."):
            assert set(points) <= set(entry_points.names(group))
            assert sorted(points) == sorted(entry_points.PARTS[group])
