"""The manual and etc/ say what the program does: commands, options, files, callouts and queries exist and work."""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator

import arex_corpus as corpus
import click
import manual
import pytest
from campaigns import sample

from arcacct.arex.sweep import sweep
from arcacct.cli.main import COMMANDS, arcacct
from arcacct.config import options
from arcacct.config.parser import Conf, load
from arcacct.config.settings import examine
from arcacct.database import access
from arcacct.database.schema import PUBLISHING, SOURCES, create_views, in_memory
from arcacct.files.directories import resource
from arcacct.sources.features.reader import KEYS
from arcacct.targets import kinds

ROOT = manual.ROOT
START = ("venv/bin/arcacct demo", "venv/bin/pytest")
"""How the two commands for a fresh machine end."""
SERVICES = tuple(
    f"arcacct-{name}"
    for name in (
        "publish",
        "sweep",
        "metrics",
        "backup",
        "snapshot",
        "check",
        "prune",
        "export",
        "import-slurm",
        "import-htcondor",
        "import-gridengine",
        "import-pbs",
        "import-lsf",
    )
)


def prose(text: str | None = None) -> str:
    """A text, or the manual, without fenced blocks and without the names of tests."""
    text = manual.text() if text is None else text
    text = re.sub("<!-- differences: begin -->.*?<!-- differences: end -->", "", text, flags=re.DOTALL)
    return manual.without_blocks(text)


def inline(text: str | None = None) -> list[str]:
    """Everything between single backquotes, outside blocks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def shell_lines() -> list[str]:
    return [line for block in manual.blocks() if block.language == "sh" for line in block.text.splitlines()]


def command_lines(text: str | None = None) -> list[str]:
    """Every ``arcacct ...`` of a text, or of the manual: from blocks (the parts of && lists) and from inline code."""
    lines = [line for block in manual.blocks(text) if block.language in ("sh", "") for line in block.text.splitlines()]
    ends = re.compile(r"( 2?(<|>|>>|>&) ?\S+)*( &)?$")
    parts = [ends.sub("", part.strip()) for line in lines for part in re.split(r"&&|\|\|| \| ", line)]
    return sorted({part for part in [*parts, *inline(text)] if re.match(r"(\S*/bin/)?arcacct( |$)", part)})


def commands(group: click.Group = arcacct, name: str = "arcacct") -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, in the order of --help, groups before what is in them."""
    context = click.Context(group)
    for short in group.list_commands(context):
        command = group.get_command(context, short)
        assert command is not None
        yield f"{name} {short}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {short}")


def options_of(command: click.Command) -> dict[str, click.Option]:
    found = [param for param in command.params if isinstance(param, click.Option)]
    return {name: option for option in found for name in (*option.opts, *option.secondary_opts)}


def understand(words: list[str]) -> None:
    """Walk a command line as click would; raises AssertionError at the first word it would not know."""
    command: click.Command = arcacct
    words = words[1:]
    arguments: list[str] = []
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            continue
        if word.startswith("-") and word != "-":
            option = options_of(command).get(word)
            assert option is not None, f"{command.name} has no option {word}"
            values = 0 if option.is_flag else option.nargs
            assert len(words) >= values, f"{word} of {command.name} needs {values} values"
            words = words[values:]
        elif isinstance(command, click.Group):
            inner = command.get_command(click.Context(command), word)
            assert inner is not None, f"{command.name} has no command {word}"
            command = inner
        else:
            arguments.append(word)
    known = [param for param in command.params if isinstance(param, click.Argument)]
    most = len(known) if all(param.nargs == 1 for param in known) else len(arguments)
    assert len(arguments) <= most, f"{command.name} takes no {arguments[most:]}"


@pytest.mark.parametrize("line", command_lines())
def test_every_command_line_of_the_manual_is_understood(line: str) -> None:
    """The manual shows no command and no option that the program does not have."""
    understand(shlex.split(line, comments=True))


@pytest.mark.parametrize("name", sorted({word.split()[0] for word in inline() if word.startswith("--")}))
def test_every_option_of_the_manual_exists(name: str) -> None:
    """An option that is mentioned alone belongs to some command."""
    known = {option for _, command in commands() for option in options_of(command)} | set(options_of(arcacct))
    assert name in known | {"--help"}


@pytest.mark.parametrize("name", sorted({word for word in inline() if re.fullmatch(r"\w+=(\S+)?", word)}))
def test_every_setting_of_the_manual_exists(name: str) -> None:
    """``option=value`` in the manual is an option of the configuration, of a callout, of a unit, or of ``.local``."""
    known = {spec.name for specs in options.options_of(kinds()).values() for spec in specs}
    callout = {"statecallout", "timeout", "onsuccess", "onfailure", "ontimeout"}
    with open(resource("etc", "arcacct-hook"), encoding="utf-8") as launcher:
        variables = set(re.findall(r"(?m)^([a-z]+)=\$\{ARCACCT_", launcher.read()))
    others = {"auth", "user", "User", "ExecStart", "ExecStartPost", "immutable", "mode", "key", "from", "to"}
    others |= {"AWS_REQUEST_CHECKSUM_CALCULATION", "CgroupJobIdPaths", "infer_schema_length", "KEY", *KEYS}
    assert name.partition("=")[0] in known | callout | variables | others


def test_every_command_is_mentioned_outside_the_reference() -> None:
    """A user meets every command in the text, not only in the list."""
    pages = [path for path in manual.pages() if path != manual.page("reference/commands")]
    lines = " ".join(command_lines("\n".join(path.read_text(encoding="utf-8") for path in pages)))
    for name in COMMANDS:
        assert f"arcacct {name}" in lines


def start_commands() -> list[str]:
    return [line for line in shell_lines() if line.startswith("python3 -m venv venv && ")]


def test_there_are_two_commands_to_start() -> None:
    """One installs and runs the demo, one installs and runs the tests, and they come first."""
    assert [line.endswith(end) for line, end in zip(start_commands(), START, strict=True)] == [True, True]
    assert shell_lines()[:2] == start_commands()


def test_ci_runs_the_commands_to_start() -> None:
    """What the manual tells to type on a fresh machine is what CI runs."""
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("this checkout has no .ci/run")
    text = script.read_text(encoding="utf-8")
    # The script takes each from the manual by its end.
    ends = [end.strip("'") for end in re.findall(r"\$\(readme_command ('[^']+'|\w+)\)", text)]
    assert sorted(line for end in ends for line in start_commands() if line.endswith(f"venv/bin/{end}")) == sorted(
        start_commands()
    )


FILE = re.compile(r"(?:etc|schema|tests|arcacct|\.ci)/[\w.-]+(?:/[\w.-]+)*")


def named_files() -> list[str]:
    words = [word for line in [*shell_lines(), *inline()] for word in line.split()]
    return sorted({word for word in words if FILE.fullmatch(word)})


@pytest.mark.parametrize("name", named_files())
def test_every_file_of_the_manual_exists(name: str) -> None:
    """A file or folder of the project that the manual names is there."""
    if name.startswith(".ci/") and not (ROOT / ".ci" / "run").exists():
        pytest.skip("this checkout has no .ci/run")
    assert (ROOT / name).exists()


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.+)$", manual.without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def links() -> list[tuple[str, str]]:
    """``(page, link)`` of each link from a page of the manual to another, or within it."""
    return [
        (path.relative_to(ROOT).as_posix(), link)
        for path in manual.pages()
        for link in re.findall(r"\]\(([^)]+)\)", manual.without_blocks(path.read_text(encoding="utf-8")))
        if "://" not in link
    ]


@pytest.mark.parametrize(("page", "link"), links())
def test_every_link_of_the_manual_leads_somewhere(page: str, link: str) -> None:
    """The page is there, and has the heading."""
    name, _, anchor = link.partition("#")
    path = (ROOT / page).parent / name if name else ROOT / page

    assert path.is_file()
    assert not anchor or anchor in anchors(path)


def callouts(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("statecallout=")]


def test_the_callouts_of_the_manual_are_those_of_etc() -> None:
    """Both have the same lines, one for each state of A-REX 6 that changes a record."""
    lines = callouts(manual.read("howto/install"))
    assert lines == callouts((ROOT / "etc" / "arc.conf.statecallout").read_text(encoding="ascii"))
    states = [line.partition("=")[2].split()[0] for line in lines]
    assert states == ["ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED"]


def test_the_callouts_for_arc_7_are_those_and_inlrms() -> None:
    """The file for /etc/arc.conf.d has every line that the one for A-REX 6 has, also the one that that one may not."""
    text = (ROOT / "etc" / "arc.conf.statecallout").read_text(encoding="ascii")
    ready = (ROOT / "etc" / "arc.conf.d" / "arcacct.conf").read_text(encoding="ascii")

    assert sorted(callouts(ready)) == sorted(callouts(text.replace("#statecallout=", "statecallout=")))
    assert "[arex]" in ready.splitlines()
    assert [line for line in callouts(ready) if " INLRMS " in line.replace("=", " ")]


def differences() -> list[str]:
    """The tests of the table of differences, each as ``file::function``."""
    table = manual.between(
        manual.read("reference/differences-from-arex"), "<!-- differences: begin -->", "<!-- differences: end -->"
    )
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    named = [re.findall(r"`([^`]+)`", row[-1]) for row in rows]
    assert all(named), "a difference without a test"
    return [name if "::" in name else f"tests/acceptance/test_differences.py::{name}" for row in named for name in row]


@pytest.mark.parametrize("name", differences())
def test_every_difference_from_arex_has_its_test(name: str) -> None:
    """The manual names the test of each intended difference, and it is there."""
    file, _, function = name.partition("::")
    assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def configuration(folder: pathlib.Path, arex: str, ours: str) -> Conf:
    (folder / "arc.conf").write_text(f"[common]\nhostname = ce.example.org\n[arex]\n{arex}\n", encoding="utf-8")
    (folder / "arcacct.conf").write_text(ours, encoding="utf-8")
    return load(str(folder / "arc.conf"), {})


@pytest.mark.parametrize("file", ["arc.conf.statecallout", "arc.conf.d/arcacct.conf"])
def test_config_check_has_nothing_against_our_files(tmp_path: pathlib.Path, file: str) -> None:
    """The callouts harm no job, and the example of arcacct.conf has no mistake."""
    from arcacct.config.check import check_text
    from arcacct.config.review import Release

    lines = "\n".join(callouts((ROOT / "etc" / file).read_text(encoding="ascii")))
    ours = (ROOT / "etc" / "arcacct.conf.example").read_text(encoding="ascii")
    conf = configuration(tmp_path, lines, ours)
    settings, problems = examine(conf, kinds())
    assert problems == []
    assert settings is not None
    assert [target.name for target in settings.targets] == ["sgas:example", "apel:egi"]
    assert [problem for problem in check_text(conf, kinds(), Release(0)) if problem.option == "statecallout"] == [
        problem for problem in check_text(conf, kinds(), Release(0)) if "the launcher does not exist" in problem.text
    ]


def queries() -> list[tuple[str, str]]:
    """``(database, statement)`` of each query."""
    found = [block.text.split("\n", 1) for block in manual.blocks() if block.language == "sql"]
    return [(first.removeprefix("-- "), statement) for first, statement in found]


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, sqlite3.Connection]:
    """The database that a sweep makes of a real control directory, and an empty ledger."""
    control = corpus.rebuild(tmp_path_factory.mktemp("docs") / "control")
    here = corpus.place(control.path)
    con = access.open_accounting(here)
    sweep(here, con, owner=control.owner)
    create_views(con, *SOURCES)
    return {"accounting.db": con, "publishing.db": in_memory(PUBLISHING)}


@pytest.mark.parametrize(("database", "statement"), queries())
def test_every_query_of_the_manual_runs(
    databases: dict[str, sqlite3.Connection], database: str, statement: str
) -> None:
    """A query can be copied as it is; on a database with jobs it finds some unless it asks for what is not there."""
    databases[database].execute(statement).fetchall()
    # The jobs are of the day before.
    rows = databases[database].execute(statement.replace("'now'", "'2026-11-21'")).fetchall()
    # The reader fills in an id; there are no longer jobs, no event that only the hook sees, no telemetry, nothing held.
    others = ("the id of the job", "wall_s > 3600", "lrms_submit_time", "nodes_energy_j", "v1_held_values")
    assert rows or database == "publishing.db" or any(words in statement for words in others)


def test_the_way_to_unescape_in_sql_is_right(databases: dict[str, sqlite3.Connection]) -> None:
    """The expression of the manual gives back what the job said."""
    (expression,) = {word for word in inline() if word.startswith("replace(")}
    con = databases["accounting.db"]
    names = [name for (name,) in con.execute(f"SELECT {expression} FROM Users WHERE Name LIKE '%\\%27%' ESCAPE '\\'")]
    assert names
    assert all("'" in name and "%27" not in name for name in names)
    assert con.execute(f"SELECT {expression} FROM (SELECT '100%25 %2527' AS Name)").fetchone() == ("100% %27",)


@pytest.mark.parametrize("name", sample([f"{name}.{kind}" for name in SERVICES for kind in ("service", "timer")], 8))
def test_systemd_accepts_the_units(name: str, tmp_path: pathlib.Path) -> None:
    """``systemd-analyze verify`` has no complaint about a unit, its program aside."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze here")
    for file in (ROOT / "etc" / "systemd").iterdir():
        text = file.read_text(encoding="ascii").replace("/opt/arcacct/bin/arcacct", "/bin/true")
        (tmp_path / file.name).write_text(text, encoding="ascii")
    done = subprocess.run(
        [program, "verify", str(tmp_path / name)], check=False, capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if "arcacct" in line]
    assert complaints == []


@pytest.mark.parametrize("name", SERVICES)
def test_the_units_run_what_the_program_has(name: str) -> None:
    """The services run a command of the program, where the manual installs it."""
    text = (ROOT / "etc" / "systemd" / f"{name}.service").read_text(encoding="ascii")
    (line,) = re.findall(r"^ExecStart=(?:/bin/sh -c 'exec )?(.+?)'?$", text, re.MULTILINE)
    assert line.startswith("/opt/arcacct/bin/arcacct ")
    # What the shell puts in.
    understand(shlex.split(re.sub(r'"?\$\$\(.+\)"?', "WORD", line)))
    assert f"/{line.split()[0].lstrip('/')}".removesuffix("/bin/arcacct") in manual.text()


@pytest.mark.parametrize("name", SERVICES)
def test_the_units_wait_for_the_clock(name: str) -> None:
    """A host that comes up with a clock from the past would date events wrongly and hold records as of the future."""
    text = (ROOT / "etc" / "systemd" / f"{name}.service").read_text(encoding="ascii")
    for option in ("Wants", "After"):
        assert "time-sync.target" in re.findall(rf"^{option}=(.+)$", text, re.MULTILINE)[0].split()


def test_the_map_names_what_is_there() -> None:
    """Each file and folder that CONTRIBUTING.md and the page of the architecture name exists."""
    for page, least in (("CONTRIBUTING.md", 40), ("docs/project/architecture.md", 30)):
        text = (ROOT / page).read_text(encoding="utf-8")
        named = re.findall(r"`((?:arcacct|etc|schema|tests)/[\w./-]*)`", text)

        assert len(named) > least
        assert not [path for path in named if not (ROOT / path).exists()]
