"""An option that several commands have means the same for each of them."""

from __future__ import annotations

import pathlib
import re
import sqlite3
from contextlib import closing

import click
import commands_page
import conf_files
import in_process
import pytest
from control_directory import set_up
from stored_jobs import add, job

from arcacct.cli.main import FORMER
from arcacct.cli.options import Parsed
from arcacct.cli.tables import FORMATS
from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting

PLANS = {
    "sweep": ["sweep"],
    "switch": ["switch"],
    "publish": ["publish"],
    "republish": ["republish", "--from", "2026-01", "--to", "2027-01"],
    "db benchmark": [
        "db",
        "benchmark",
        "--from",
        "2026-01",
        "--to",
        "2027-01",
        "--replace",
        "HEPSPEC:12.26",
        "--as",
        "HEPSPEC:12",
    ],
    "db forget": ["db", "forget", "/DC=org/CN=User 0"],
    "db prune": ["db", "prune", "--before", "2026-10"],
}
"""A command line of each command that shows what it would do."""
ASKS = {
    **{path: PLANS[path] for path in ("db benchmark", "db forget", "db prune")},
    "db move": ["db", "move", "{folder}/elsewhere"],
    "db restore": ["db", "restore", "{folder}/backup/accounting.db"],
    "import rejected": ["import", "rejected", "--drop-all"],
    "quarantine decide": ["quarantine", "decide", "--as", "reported", "--month", "2026-05"],
    "quarantine drop": ["quarantine", "drop", "--all"],
}
"""
A command line of each command that asks for confirmation, and needs --yes without a terminal; `setup` and `switch` need
another site (`test_setup`, `test_switch`).
"""
RANGES = {
    "republish": ["republish"],
    "stats": ["stats", "--by", "month"],
    "fleet stats": ["fleet", "stats", "/none", "--by", "month"],
    "db benchmark": ["db", "benchmark"],
}
"""A command line of each command with a range of time."""


def commands_with(flag: str) -> dict[str, click.Option]:
    """Each command that has an option, by its words."""
    found = {}
    for ctx in commands_page.contexts():
        for one in ctx.command.params:
            if isinstance(one, click.Option) and flag in one.opts and not one.hidden:
                found[ctx.command_path.removeprefix("arcacct ")] = one
    return found


@pytest.fixture
def site(tmp_path: pathlib.Path) -> str:
    """The configuration of a CE with a target, a job and one that is held, and nothing published."""
    target = f"[arcacct/directory:d]\npath={tmp_path}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
    arc = f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={set_up(tmp_path / 'control')}\n[lrms]\nlrms=slurm\n"
    (tmp_path / "outgoing").mkdir()
    conf = conf_files.write(tmp_path, target, arc)
    here = places(load(conf, {}))
    with closing(open_accounting(here)) as con:
        add(con, here, job(0), job(1)._replace(wall_s=100_000))
    return str(conf)


@pytest.mark.parametrize(
    ("former", "new"),
    [
        (("--month", "2026-05"), ("--from", "2026-05", "--to", "2026-06")),
        (("--week", "2026-W19"), ("--from", "2026-W19", "--to", "2026-W20")),
        (("--year", "last"), ("--from", "last-year", "--to", "this-year")),
    ],
    ids=" ".join,
)
def test_a_former_option_does_the_same_and_says_what_to_write(
    former: tuple[str, ...], new: tuple[str, ...], site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line on stderr; no help and no completion shows it."""
    before, after = (
        in_process.said(capsys, "--config", site, "stats", "--by", "vo", *words) for words in (former, new)
    )

    assert (before.returncode, before.stdout) == (after.returncode, after.stdout) == (0, after.stdout)
    line, rest = before.stderr.split("\n", 1)
    assert re.fullmatch(rf"{former[0]} is deprecated; write `--from .*", line)
    assert rest == after.stderr
    assert former[0] not in in_process.said(capsys, "stats", "--help").stdout
    assert former[0] not in commands_with(former[0])


@pytest.mark.parametrize("words", FORMER)
def test_former_words_run_and_are_not_shown(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a line on stderr for all but arcctl's, which stay; the line is not in the help."""
    done = in_process.said(capsys, *words.split(), "--help")

    new = FORMER[words].new
    assert (done.returncode, done.stderr) == (0, f"`{words}` is deprecated; write {new}\n" if new else "")
    assert f"arcacct {FORMER[words].runs.partition(' -')[0]} " in done.stdout
    assert words not in {ctx.command_path.removeprefix("arcacct ") for ctx in commands_page.contexts()}


def state(site: str) -> list[object]:
    """The jobs as they are recorded, the messages in the ledger and those of the target."""
    here = places(load(site, {}))
    found: list[object] = [str(path) for path in sorted(pathlib.Path(site).parent.joinpath("outgoing").rglob("*"))]
    with closing(sqlite3.connect(here.database)) as con:
        found += con.execute("SELECT * FROM v1_jobs ORDER BY job_id")
    if pathlib.Path(here.publishing_database).exists():
        with closing(sqlite3.connect(here.publishing_database)) as con:
            found += con.iterdump()
    return found


def test_a_plan_has_the_same_two_names_everywhere() -> None:
    """It is one switch, which says that nothing changes, nothing is sent or nothing is written."""
    found = commands_with("--plan")
    assert found.keys() == commands_with("--dry-run").keys() == PLANS.keys()
    for path, option in found.items():
        assert (option.opts, option.is_flag, option.default in (None, False)) == (
            ["--plan", "--dry-run"],
            True,
            False,
        ), path
        assert re.search("; (change|send|write) nothing.$", option.help or ""), path


@pytest.mark.parametrize("path", PLANS)
def test_a_plan_changes_nothing_also_without_a_question(
    path: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By either name; --yes answers a question, and does not turn a plan into the act."""
    before = state(site)
    yes = ["--yes"] if path in commands_with("--yes") else []
    told = []
    for words in (["--plan"], ["--dry-run"], ["--plan", *yes]):
        done = in_process.said(capsys, "--config", site, *PLANS[path], *words)
        told.append((done.returncode, re.sub("[0-9]+", "N", done.stdout + done.stderr)))
        assert state(site) == before, words
    assert len({*told}) == 1
    if path in ("publish", "db benchmark"):
        in_process.said(capsys, "--config", site, *PLANS[path], *yes)
        assert state(site) != before


def test_yes_is_the_same_answer_everywhere() -> None:
    """A switch, whose help says when the command asks."""
    for path, option in commands_with("--yes").items():
        assert option.is_flag, path
        assert re.fullmatch(r"(With --[-a-z]+( or --[-a-z]+)*: d|D)o not ask for confirmation\.", option.help or ""), (
            path
        )


@pytest.mark.parametrize("path", ASKS)
def test_a_question_needs_a_terminal_or_yes(path: str, site: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without both nothing changes. Only `republish` does not ask then, as its page of the manual says."""
    assert commands_with("--yes").keys() == ASKS.keys() | {"republish", "setup", "switch"}
    folder = pathlib.Path(site).parent
    for words in (["publish"], ["db", "backup", folder / "backup"]):
        in_process.said(capsys, "--config", site, *words)
    before = state(site)
    command = [word.format(folder=folder) for word in ASKS[path]]
    done = in_process.said(capsys, "--config", site, *command)
    assert (done.returncode, state(site)) == (64, before), done.stderr
    assert done.stderr.endswith("not a terminal: pass --yes to proceed\n")


def test_a_format_is_one_of_the_same_words_everywhere() -> None:
    """Its first word is for people, and rows as CSV are there also for a spreadsheet."""
    for path, option in commands_with("--format").items():
        assert isinstance(option.type, click.Choice), path
        words = option.type.choices
        assert {*words} <= {*FORMATS, "text", "nagios", "qacct"}, path
        assert (option.name, option.default) == ("form", words[0]), path
        assert words[0] in ("table", "text", "qacct"), path
        assert ("csv" in words) == ("spreadsheet" in words), path


def test_a_range_of_time_is_the_same_everywhere() -> None:
    """--from and --to are times, and a command has both."""
    found = commands_with("--from")
    assert found.keys() == commands_with("--to").keys() == RANGES.keys()
    for path, option in [*found.items(), *commands_with("--to").items()]:
        assert (option.metavar, isinstance(option.type, Parsed) and option.type.name) == ("TIME", "time"), path


@pytest.mark.parametrize("path", RANGES)
def test_a_range_that_ends_before_it_starts_is_an_error(
    path: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same way for a text that is no time."""
    for first, last in (("2026-11", "2026-10"), ("teatime", "2026-10"), ("2026-10", "teatime")):
        done = in_process.said(capsys, "--config", site, *RANGES[path], "--from", first, "--to", last)
        assert (done.returncode, done.stdout) == (64, ""), done.stderr
