"""The reference in docs/reference/ says all that the program has, and nothing that it has not."""

from __future__ import annotations

import inspect
import pathlib
import re
from contextlib import closing
from importlib import import_module

import arex_corpus as corpus
import click
import commands_page
import conf_files
import in_process
import manual
import measured
import options_page
import pytest
import reference_tables
import spoken
import sql_contract
from generated import Part

from arcacct.cli.config import VERDICTS
from arcacct.cli.progress import STOPPED
from arcacct.cli.targets import MOST_SEVERE_FIRST
from arcacct.config.options import options_of
from arcacct.config.paths import places
from arcacct.database.schema import ACCOUNTING, PUBLISHING, in_memory
from arcacct.errors import ArcacctError
from arcacct.queries import portal
from arcacct.targets import FOLDERS, kinds

PARTS = (
    Part("reference/commands", "commands", commands_page.markdown),
    Part("reference/options", "options", options_page.markdown),
    Part("reference/metrics", "metrics", reference_tables.metrics),
    Part("reference/metrics", "alerts", reference_tables.alerts),
    Part("reference/messages", "doubts", reference_tables.doubts),
    Part("reference/units", "units", reference_tables.units),
    Part("reference/dataset", "dataset", reference_tables.dataset),
    Part("reference/messages", "causes", reference_tables.causes),
    Part("reference/messages", "rules", reference_tables.rules),
    Part("reference/views", "views", reference_tables.views),
    Part("reference/precedence", "precedence", reference_tables.precedence),
    Part("reference/fields", "fields", reference_tables.fields),
    Part("howto/implausible", "bounds", reference_tables.bounds),
    Part("howto/upgrade", "former", reference_tables.former),
    Part("howto/features", "keys", reference_tables.keys),
    Part("project/architecture", "imports", reference_tables.imports),
    *measured.parts(),
)


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_what_is_made_from_the_program_is_of_this_program(part: Part) -> None:
    """Word for word; ``ARCACCT_WRITE_DOCS=1 python -m pytest tests/test_reference_pages.py`` writes all of it again."""
    assert part.in_page() == part.text()


def test_figures_of_performance_and_limits_are_measured() -> None:
    """Neither page has a figure of its own, which no one would measure again."""
    for page in ("explanation/performance", "project/limits"):
        text = re.sub(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", "", manual.read(page), flags=re.DOTALL)

        assert re.findall(r"\d[\d.,]* (?:[mu]?s|seconds|[kMG]i?B|bytes|%|times)\b", text) == []


OPTION = re.compile(r"`(-[\w-]+)")


def sections(page: str) -> dict[str, str]:
    """The text below each heading of a page."""
    parts = re.split(r"^#+ (.+)$", manual.read(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The rows of all tables of a text, without their headers, as cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(cells) if set("".join(row)) == {"-"}]
    return [row for number, row in enumerate(cells) if number not in rules and number + 1 not in rules]


def test_every_command_is_in_the_reference_and_no_other() -> None:
    """A section for each, with all of its options, arguments and examples. Another section may explain options."""
    found = sections("reference/commands")
    known = {ctx.command_path: ctx.command for ctx in commands_page.contexts()}
    explained = {
        heading: {name for row in rows(text) for name in OPTION.findall(row[0])} for heading, text in found.items()
    }

    assert found.keys() == {*known, "Commands", commands_page.COMMON}
    for path, command in known.items():
        text, names = found[path], [*explained[path]]
        for heading, listed in re.findall(r"^(?:Options of )?\[([^]]+)\]\(#[\w-]+\): (`-.+)$", text, re.MULTILINE):
            names += OPTION.findall(listed)
            assert {*OPTION.findall(listed)} <= explained[heading]
            text += found[heading]
        assert sorted(names) == sorted(
            name for one in commands_page.options(command) for name in (*one.opts, *one.secondary_opts)
        )
        for param in command.params:
            if isinstance(param.type, click.Choice) and not getattr(param, "hidden", False):
                assert all(word in text for word in param.type.choices)


def test_every_option_is_in_the_reference_and_no_other() -> None:
    """A heading for each option of each block."""
    words = {kind: kinds()[kind].word if kind in kinds() else kind for kind in options_of(kinds())}
    known = {f"{words[kind]} {spec.name}" for kind, specs in options_of(kinds()).items() for spec in specs}

    headings = [re.fullmatch(r"([\w/]+) (\w+(?:, \w+)?)", heading) for heading in sections("reference/options")]

    assert {f"{one[1]} {name}" for one in headings if one for name in one[2].split(", ")} == known


def coded(page: str, heading: str) -> set[str]:
    """What stands first in the rows of a section, without its backquotes."""
    first = [row[0] for row in rows(sections(page)[heading])]
    assert len({*first}) == len(first)
    return {cell.strip("`") for cell in first}


def of_verify() -> set[str]:
    """How far a row is proof, of each kind of target and of a portal; and why a portal differs."""
    folders = (*FOLDERS.values(), "auditor")
    of_targets = {import_module(f"arcacct.targets.{folder}.target").PLUGIN.confirmation_level for folder in folders}
    return of_targets | {"confirmed"} | {*portal.TODO}


def states() -> set[str]:
    """Those that the ledger knows of records that are set aside, and of messages."""
    with closing(in_memory(PUBLISHING)) as con:
        tables = con.execute("SELECT sql FROM sqlite_master WHERE name IN ('HeldRecords', 'Messages')").fetchall()
    return {
        state
        for (sql,) in tables
        for listed in re.findall(r"State IN \((.*?)\)", sql)
        for state in listed.strip("'").split("', '")
    }


MESSAGES = {
    "arcacct status": spoken.subjects,
    "arcacct doctor": lambda: {*VERDICTS},
    "arcacct verify": of_verify,
    "Where a record stands": states,
    "In A-REX's log": spoken.of_launcher,
    "arcacct sweep": spoken.of_sweeps,
    "Why a job was not sent": spoken.not_sent,
    "Why a record is refused": spoken.refusals,
    "What is sent otherwise": spoken.repairs,
    "Why a record of an import is left out": spoken.of_imports,
}


@pytest.mark.parametrize("heading", MESSAGES)
def test_every_message_is_in_the_reference_and_no_other(heading: str) -> None:
    """As the source has it, with ``*`` for each value."""
    assert coded("reference/messages", heading) == {text.replace("`", "") for text in MESSAGES[heading]()}


def test_everything_that_the_doctor_looks_at_is_in_the_manual() -> None:
    """By the name that its verdicts have."""
    text = manual.read("howto/before-it-goes-live") + sections("reference/messages")["arcacct doctor"]

    assert not [thing for thing in spoken.things() if f"`{thing}`" not in text]


def error_codes(kind: type[ArcacctError] = ArcacctError) -> set[int]:
    """The exit codes of a class of errors and of all below it."""
    return {kind.exit_code}.union(*(error_codes(below) for below in kind.__subclasses__()))


def test_every_exit_code_is_in_the_reference_and_no_other() -> None:
    """Those of the tree of errors, of what was well, and of what was stopped."""
    found = sections("reference/exit-codes")["All commands"]

    assert {row[0] for row in rows(found)} == {f"`{code}`" for code in {0, STOPPED} | error_codes()}
    assert f"in the order {', '.join(map(str, MOST_SEVERE_FIRST))}." in found


REACHED = {
    0: "tests/sandbox/test_commands.py::test_demo_succeeds",
    64: "tests/queries/test_lrms.py::test_usage",
    65: "tests/cli/test_queries.py::test_a_statement_that_takes_too_much_is_ended",
    69: "tests/stories/test_no_figure_falls.py::test_the_command_accepts",
    70: "tests/health/test_checks.py::test_an_error_of_our_own",
    74: "tests/health/test_checks.py::test_backups_and_checks",
    75: "tests/publishing/test_run.py::test_a_byte_now_and_then_costs_the_others_nothing",
    77: "tests/health/test_doctor.py::test_errors_decide_the_exit_code",
    78: "tests/health/test_checks.py::test_a_configuration_that_is_away",
    130: "tests/publishing/test_run.py::test_an_interrupt_does_not_wait_for_a_receiver",
}
"""A test of each code, in which a command exits with it."""


def test_every_exit_code_is_met_by_a_test() -> None:
    """The test is there, and has the code in it."""
    assert REACHED.keys() == {0, STOPPED} | error_codes()
    for code, name in REACHED.items():
        file, _, function = name.partition("::")
        text = (manual.ROOT / file).read_text(encoding="utf-8")
        (body,) = re.findall(rf"^def {function}\(.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert re.search(rf"code\b.* == \(?{code}\b", body), name


def test_every_command_with_codes_of_its_own_is_in_the_reference_and_no_other() -> None:
    """A command that decides on its exit code returns a number."""
    named = [name for row in rows(sections("reference/exit-codes")["Single commands"]) for name in row[0].split(", ")]
    callbacks = {ctx.command_path: ctx.command.callback for ctx in commands_page.contexts()}
    deciding = [
        path
        for path, callback in callbacks.items()
        if callback is not None and inspect.signature(callback).return_annotation == "int"
    ]

    assert sorted(name.strip("`") for name in named) == sorted(deciding)


VARIABLE = re.compile(r"`(_?[A-Z][A-Z_]+)`")


def test_every_environment_variable_is_in_the_reference_and_no_other() -> None:
    """Those that the program asks for by name, and those of the launcher."""
    asked = {text for one in spoken.environment() for text in one}
    launcher = (manual.ROOT / "etc" / "arcacct-hook").read_text(encoding="ascii")
    found = [row[0] for text in sections("reference/environment").values() for row in rows(text)]

    assert {name for cell in found for name in VARIABLE.findall(cell)} == asked | {
        *re.findall(r"\bARCACCT_[A-Z_]+", launcher)
    }


def test_every_variable_of_the_tests_is_in_the_manual_and_no_other() -> None:
    """Where developers look for them."""
    files = [path.read_text(encoding="utf-8") for path in (manual.ROOT / "tests").rglob("*.py")]
    scripts = [manual.ROOT / name for name in (".ci/run", "tests/matrix")]
    files += [script.read_text(encoding="utf-8") for script in scripts if script.exists()]
    asked = {
        name
        for text in files
        for name in re.findall(
            r"(?:environ(?:\.get\(|\[)\"|^WRITE = \"|\$\{)(ARCACCT_(?!CONFIG)\w+)", text, re.MULTILINE
        )
    }
    told = set(re.findall(r"\bARCACCT_[A-Z_]+", manual.read("project/developing")))

    # The program's own, which tests set.
    assert asked - set(re.findall(r"\bARCACCT_[A-Z_]+", manual.read("reference/environment"))) <= told
    assert not [name for name in told if not any(name in text for text in files)]


def test_every_file_that_is_made_is_in_the_reference() -> None:
    """The places of the databases, and what the source names next to them."""
    here = places(None, "/controldir")
    found = [getattr(here, name) for name in dir(here)]
    made = {value for value in found if isinstance(value, str) and value.startswith("/controldir/")}
    made |= {f"{here.directory}/{name}" for name in spoken.beside_databases()}
    section = sections("reference/files")
    told = {f"{here.directory}/{name}" for row in rows(section["Databases directory"]) for name in names_of(row[0])}
    told |= {
        name.replace("<controldir>", "/controldir") for row in rows(section["Elsewhere"]) for name in names_of(row[0])
    }

    assert made - {here.directory} <= told
    # What has a time or a number in its name is made of these.
    of_databases = {
        name for name in told if name.startswith(here.directory) and not re.search(r"\.db[-.]|\.PID$|/\.new-", name)
    }
    assert of_databases <= made | {f"{here.directory}/spool/{name}" for name in ("unusable", ".recorder")}


def test_what_commands_leave_is_in_the_reference(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the control directory nothing appears that the manual does not name; it is for its owner only."""
    control = pathlib.Path(corpus.rebuild(tmp_path / "control").path)
    (tmp_path / "out").mkdir()
    target = f"[arcacct/directory:out]\npath = {tmp_path}/out\ngocdb_name = EXAMPLE-SITE\napel_messages = individual\n"
    conf = conf_files.write(tmp_path, target)
    there, before = control / "accounting", set(control.rglob("*"))
    for command in ("db init", "sweep", "publish", "db backup", "report --month 2026-11"):
        assert in_process.said(capsys, "--config", conf, *command.split()).returncode == 0
    (copy,) = there.glob("arcacct/backups/accounting-*")
    assert in_process.said(capsys, "--config", conf, "db", "restore", copy, "--yes").returncode == 0
    assert in_process.said(capsys, "--config", conf, "db", "move", tmp_path / "new", "--yes").returncode == 0

    section = sections("reference/files")
    known = [f"arcacct/{name}" for row in rows(section["Databases directory"]) for name in names_of(row[0])]
    known += [
        name.removeprefix("<controldir>/accounting/") for row in rows(section["Elsewhere"]) for name in names_of(row[0])
    ]
    forms = [re.escape(name).replace("TIME", r"\d{8}T\d{6}Z(-wal|-shm)?") for name in known]
    made = {path for path in control.rglob("*") if path not in {*before, there, there / "arcacct"}}
    assert len(made) > 10
    for path in made:
        name = path.relative_to(there).as_posix()
        assert any(re.fullmatch(rf"{form}(/.*)?", name) for form in forms), name
        assert path.stat().st_mode & 0o077 == (0o044 if path.name == "care.json" else 0), name


def names_of(cell: str) -> list[str]:
    """The names between backquotes."""
    return re.findall(r"`([^`]+)`", cell)


def test_every_view_is_introduced_and_no_other() -> None:
    """The page about SQL says of each view what it has a row for."""
    named = re.findall(r"`(v1_\w+)`", "".join(row[0] for row in rows(manual.read("reference/sql"))))
    views = {view for kind in (ACCOUNTING, PUBLISHING) for view in sql_contract.documented(kind)}

    assert sorted(named) == sorted(views)


@pytest.mark.parametrize("page", [path.relative_to(manual.DOCS).as_posix() for path in manual.pages()[1:]])
def test_every_row_of_a_table_is_one_on_the_site(page: str) -> None:
    """No table falls apart because of a bar, a missing rule or a line before it."""
    markdown = pytest.importorskip("markdown", reason="mkdocs is not installed (the extra `docs` has it)")
    text = (manual.DOCS / page).read_text(encoding="utf-8")
    lines = [line for line in manual.without_blocks(text).splitlines() if line.startswith("|")]
    html = markdown.markdown(text, extensions=["tables", "fenced_code"])

    assert html.count("<tr>") == sum(not re.fullmatch(r"[|: -]+", line) for line in lines)
    for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL):
        assert "|" not in re.sub(r"<code>.*?</code>", "", row)
