"""The house stays as it was built: directions of imports, who writes what, help for everything."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import campaigns
import click
import pytest
from imports_of import imports_of, sources

from arcacct.cli.main import COMMANDS, arcacct
from arcacct.publishing.plugin import TargetPlugin
from arcacct.targets import FOLDERS, kinds

ROOT = pathlib.Path(__file__).parent.parent


def commands(command: click.Command, name: str = "arcacct") -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, by full name."""
    yield name, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for below in command.list_commands(ctx):
            found = command.get_command(ctx, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


ALL_COMMANDS = dict(commands(arcacct))


def run_python(code: str) -> list[str]:
    """The lines that a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_imports_point_one_way() -> None:
    """Every contract of import-linter in pyproject.toml is kept: layers, who opens databases, who speaks HTTP."""
    pytest.importorskip("importlinter", reason="import-linter is not installed (the extra `test` has it)")
    linter = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", linter, "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


SPEAKERS = {
    "arex": {"import_database", "own_database", "reconcile"},
    "export": {"jobs"},
    "fleet": {"duckdb_engine", "postgresql"},
    "health": {"databases"},
    "publishing": {
        *("audit", "cursors", "former_publisher", "held", "kept_records", "ledger", "ledger_rows"),
        *("sent", "target_months"),
    },
    "queries": {"arcctl", "job_history", "portal", "questions"},
    "reports": {"capacity", "tables"},
    "sources.engine": {"imports", "runs"},
    "sources.features": {"collect"},
    "sources.gridengine": {"importer", "qacct"},
    "sources.slurm": {"importer"},
    "sources.sonar": {"importer", "jobs", "nodes", "spans", "usage"},
    "targets.apel": {"jura"},
}
"""The modules with SQL, next to what it is about, in each folder that has any; all of database and records may."""


def test_sql_stands_where_it_is_looked_for() -> None:
    """No other module runs a statement, not even on a connection that it was given."""
    found = {
        module.removeprefix("arcacct.")
        for module, path in sources().items()
        # A wheel also has the portal's plugin for Datasette, in etc/.
        if not module.startswith(("arcacct.database.", "arcacct.etc.", "arcacct.records."))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("execute", "executemany", "executescript", "cursor")
        if not _is_ledger_cursor(node)
    }

    assert found == {f"{folder}.{module}" for folder, modules in SPEAKERS.items() for module in modules}


def test_one_module_opens_network_connections() -> None:
    """Besides the sandbox, whose receivers listen, `http_client` alone has sockets and the libraries of HTTP."""
    of_network = {"http", "httplib2", "httpx", "requests", "socket", "socketserver", "urllib3"}
    found = {
        (module.removeprefix("arcacct."), name)
        for module, path in sources().items()
        if not module.startswith("arcacct.sandbox.")
        for name in imports_of(path)
        if name.partition(".")[0] in of_network or name.startswith("urllib.request")
    }

    assert {module for module, _name in found} == {"config.values", "http_client"}
    # This host's name.
    values = sources()["arcacct.config.values"].read_text(encoding="utf-8")
    assert re.findall(r"socket\.(\w+)", values) == ["getfqdn"]


_OF_JOBS = (
    *("AAR", "AuthTokenAttributes", "JobEvents", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo"),
    *("RecordSources", "FieldSources", "StatusFiles", "AuthGroups", "TruncationNotes"),
)
_WRITES = re.compile(r"\b(?:INTO|REPLACE\s+INTO|UPDATE(?:\s+OR\s+\w+)?|DELETE\s+FROM)\s+(\w+)")


def test_one_room_writes_records() -> None:
    """Records and what is theirs are inserted, changed and deleted by `records` alone, whoever tells of them."""
    found = set()
    for module, path in sources().items():
        texts = list(_texts(ast.parse(path.read_text(encoding="utf-8"))))
        written = {table for text in texts for table in _WRITES.findall(text)}
        # A table whose name is filled in may be any that the module names.
        if written & {*_OF_JOBS} or ("FILLED_IN" in written and {*texts} & {*_OF_JOBS}):
            found.add(module.removeprefix("arcacct.").partition(".")[0])

    assert found == {"records"}


def test_statuses_are_listed_once() -> None:
    """What a job may end as stands in `records.states`, also for SQL: no other module spells it."""
    spelt = re.compile(r"^(in-progress|completed|failed|aborted)$|'(in-progress|completed|failed|aborted)'")
    found = {
        f"{module}: {text}"
        for module, path in sources().items()
        if not module.startswith("arcacct.sandbox.")
        for text in _texts(ast.parse(path.read_text(encoding="utf-8")))
        if spelt.search(text)
    }
    # Of A-REX's job files and of Grid Engine's fields one is called so, too.
    others = ("arex.control_files", "arex.spool", "queries.job_history", "sources.gridengine.")

    found = {line for line in found if not line.startswith(tuple(f"arcacct.{name}" for name in others))}
    assert {line.partition(":")[0] for line in found} == {"arcacct.records.states"}, found


def _texts(tree: ast.Module) -> Iterator[str]:
    """Every text of a module; in f-strings FILLED_IN stands for what is filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "FILLED_IN" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_ledger_cursor(node: ast.Attribute) -> bool:
    # `cursors.cursor(...)` is how far a target came.
    return isinstance(node.value, ast.Name) and node.value.id in ("cursors", "former_publisher", "publishing_cursors")


KINDS_OF_TARGETS = {*kinds(), *FOLDERS.values(), "auditor"}
KINDS_OF_MESSAGES = {"ur", "car", "individual", "summaries"}


def test_nobody_names_a_kind_of_target() -> None:
    """Who publishes and who asks knows targets by their plugs: a folder more is a kind more, and nothing else."""
    found = {
        f"{module}: {node.value}"
        for module, path in sources().items()
        if module.startswith(("arcacct.health.", "arcacct.publishing.", "arcacct.queries."))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in KINDS_OF_TARGETS | KINDS_OF_MESSAGES
    }
    users = {
        module
        for module, path in sources().items()
        if not module.startswith(("arcacct.targets.", "arcacct.sandbox."))
        for name in imports_of(path)
        if name.startswith(tuple(f"arcacct.targets.{folder}." for folder in (*FOLDERS.values(), "auditor")))
    }

    assert found == set()
    # Taking over from jura-ng is about APEL alone.
    assert users == {"arcacct.cli.switch"}


def test_the_table_of_targets_names_every_folder() -> None:
    """Each folder is found by its block, has a plug of its own, and says the same block itself; AUDITOR is a part."""
    folders = {path.parent.name for name, path in sources().items() if name.startswith("arcacct.targets.")} - {
        "targets"
    }
    found = kinds()

    every = {**FOLDERS, "arcacct/auditor": "auditor"}
    assert {kind.block: folder for kind, folder in zip(found.values(), every.values(), strict=True)} == every
    assert folders == set(every.values())
    assert all(issubclass(import_module(f"arcacct.targets.{folder}.target").PLUGIN, TargetPlugin) for folder in folders)


def test_there_is_one_way_out() -> None:
    """
    Only `cli.console` writes to a terminal: what passes there is fit for it.

    The lean way of `arcacct node sample` writes JSON, and never to a terminal.
    """
    writers = {
        f"{module}: {ast.unparse(node)}"
        for module, path in sources().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _writes_out(node)
    }

    assert {line.partition(":")[0] for line in writers} == {"arcacct.cli.console", "arcacct.sources.sonar.sampler"}


def _writes_out(call: ast.Call) -> bool:
    """Whether a call prints, or writes to the standard streams by any other name."""
    name = ast.unparse(call.func)
    first = ast.unparse(call.args[0]) if call.args else ""
    return (
        name
        in {
            "print",
            "click.echo",
            "click.secho",
            "click.confirm",
            "click.prompt",
            "click.pause",
            "click.echo_via_pager",
        }
        or name.startswith(("sys.stdout.", "sys.stderr.", "traceback.print", "warnings.warn", "logging.basic"))
        or (name in {"os.write", "posix.write"} and first in {"1", "2"})
    ) and not name.endswith((".isatty", ".fileno"))


def test_importing_the_package_imports_nothing() -> None:
    """`import arcacct` loads one module."""
    loaded = run_python("import sys; old = set(sys.modules); import arcacct; print(*sorted(set(sys.modules) - old))")

    assert loaded == ["arcacct"]


def test_help_imports_no_command() -> None:
    """`arcacct --help` loads no command, so it stays quick however many there are."""
    loaded = run_python(
        "import sys, io\n"
        "old, sys.stdout, out = set(sys.modules), io.StringIO(), sys.stdout\n"
        "from arcacct.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'publish' in sys.stdout.getvalue()\n"
        "sys.stdout = out\n"
        "print(*sorted(set(sys.modules) - old), sep='\\n')"
    )

    ours = {"arcacct", "arcacct.cli", "arcacct.cli.console", "arcacct.cli.main", "arcacct.entry_points"}
    ours |= {"arcacct.errors", "arcacct.wording"}
    assert {name for name in loaded if name.startswith("arcacct")} == ours
    assert not {"cryptography", "psutil", "requests", "rich", "sqlite_utils", "urllib3"} & set(loaded)


def test_what_a_command_may_need_is_not_imported_before() -> None:
    """What every command imports leaves out what few of them use: `shutil` alone is a hundredth of a second."""
    loaded = run_python("import sys; import arcacct.cli.main; print(*sorted(sys.modules), sep='\\n')")

    assert not {"rich", "shutil", "lzma", "arcacct.cli.help"} & set(loaded)


def test_a_command_runs_with_its_garbage_collected() -> None:
    """`etc/arcacct` loads the program without looking for garbage; a command that continues for hours has some."""
    enabled = run_python(
        "import gc, io, sys\n"
        "gc.disable()\n"
        "sys.stdout, out = io.StringIO(), sys.stdout\n"
        "from arcacct.cli.main import main\n"
        "try: main(['publish', '--help'])\n"
        "except SystemExit as end: assert not end.code\n"
        "sys.stdout = out\n"
        "print(gc.isenabled())"
    )

    assert enabled == ["True"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_the_command_says(name) -> None:
    """`arcacct --help` shows for each command the first sentence of its own help."""
    assert ALL_COMMANDS[f"arcacct {name}"].get_short_help_str(limit=200) == COMMANDS[name]


def test_every_command_is_in_the_table() -> None:
    """No command is left out of `arcacct --help`: all that any module defines are found from there."""
    defined = {name for path in sources().values() for name in _commands(path)}

    assert set(COMMANDS) <= defined
    assert defined - {name.rpartition(" ")[2] for name in ALL_COMMANDS} == {"arcacct"} - {*ALL_COMMANDS}


def _commands(path: pathlib.Path) -> Iterator[str]:
    """Names of commands and groups that a module defines next to any group of its own."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in ("click.command", "click.group"):
                named = decorator.args[0] if decorator.args else None
                yield str(named.value) if isinstance(named, ast.Constant) else node.name.rstrip("_").replace("_", "-")


@pytest.mark.parametrize("name", ALL_COMMANDS)
def test_every_command_and_option_has_help(name) -> None:
    """Nothing on the command line is left unexplained, and each command shows how it is typed."""
    command = ALL_COMMANDS[name]
    silent = [option.opts for option in command.params if isinstance(option, click.Option) and not option.help]

    assert command.help
    assert "Examples:" in (command.epilog or "")
    assert not silent


def test_each_rig_has_its_line() -> None:
    """The page of tests/support/ names each module there once, and no other."""
    page = (ROOT / "tests/support/README.md").read_text(encoding="utf-8")
    rows = [line.rpartition(" | ")[2] for line in page.splitlines() if line.startswith("| ")]
    named = re.findall(r"`(\w+)`", " ".join(rows))

    assert sorted(named) == sorted(path.stem for path in (ROOT / "tests/support").glob("*.py"))


@pytest.mark.parametrize("most", [1, 4, 5, 7, 30])
def test_a_plain_run_plays_each_row_of_crossed_tables(monkeypatch, most) -> None:
    """The same ones each time, so that the processes of a run agree; a campaign plays each with each."""
    tables = ("abc", range(5), [True, False])
    monkeypatch.setattr(campaigns, "has_campaigns", lambda: False)
    played = campaigns.cross(most, *tables)
    assert played == campaigns.cross(most, *tables)
    assert len({*played}) <= len(played) == most
    for column, table in zip(zip(*played, strict=True), tables, strict=True):
        assert {*column} <= {*table}
        assert len({*column}) >= min(most, len(table))

    monkeypatch.setattr(campaigns, "has_campaigns", lambda: True)
    assert len({*campaigns.cross(most, *tables)}) == 30


KINDS = ("acceptance", "bench", "etc", "fuzz", "packages", "schema", "stories")
"""Folders of tests that are not of one module; those of the project itself are at the top."""


def test_each_test_is_called_like_its_module() -> None:
    """`tests/X/test_Y.py` tests `arcacct/X/Y.py`; what else is of that module is in `test_Y_ASPECT.py` next to it."""
    lost = []
    for path in sorted((ROOT / "tests").glob("*/**/test_*.py")):
        folder = path.parent.relative_to(ROOT / "tests")
        words = path.stem.split("_")[1:]
        owners = ["_".join(words[: number + 1]) for number in range(len(words))]
        if folder.parts[0] not in KINDS and not any(
            (ROOT / "arcacct" / folder / f"{owner}.py").exists() and path.with_name(f"test_{owner}.py").exists()
            for owner in owners
        ):
            lost.append(str(path.relative_to(ROOT)))

    assert lost == []
