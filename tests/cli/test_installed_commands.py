"""Commands of optional parts and of other packages: registered by entry points, beside those of the core."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

from arcacct import entry_points
from arcacct.cli.main import COMMANDS, GROUP, OF_PARTS

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
        ("greetings", "cannot be used: it is a module, no command of click; report it"),
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


def test_a_part_that_is_not_installed_has_no_command(tmp_path) -> None:
    """Neither in the help nor by its name, and no other command fails for it."""
    (tmp_path / "arcacct-0.1.dist-info").mkdir()

    shown = run(tmp_path, "--help").stdout.partition("\nCommands:\n")[2].partition("\n\n")[0]
    listed = [line.split()[0] for line in shown.splitlines() if line[2:3].strip()]
    assert listed == [name for name in COMMANDS if name not in OF_PARTS]
    for name in ("fleet", "node"):
        done = run(tmp_path, name, "--help")
        assert (done.returncode, f"No such command '{name}'" in done.stderr) == (64, True)
    done = run(tmp_path, "import", "sonar", "--help")
    assert (done.returncode, done.stderr) == (64, "arcacct: No such command 'sonar'; see `arcacct import --help`\n")


def test_this_environment_has_the_entry_points_of_the_project() -> None:
    """After a change of them in pyproject.toml run `pip install -e .` again: else commands are missing."""
    project = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))

    for group, points in project["project"]["entry-points"].items():
        if group.startswith("arcacct."):
            assert set(points) <= set(entry_points.names(group))
