"""What a release says of itself: the changelog, what is supported, how schemas change. Costs a second."""

from __future__ import annotations

import ast
import datetime as dt
import pathlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import arcacct
from arcacct.database.connection import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA
from arcacct.export.dataset import VERSION

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ("CHANGELOG.md", "SECURITY.md", *(f"docs/project/{name}.md" for name in ("releasing", "schema", "support")))
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
MOST_WORDS = 30
"""Of a line of the changelog, with its mark."""
NEWER = {
    r"\bRETURNING\b": "3.35",
    r"\bDROP COLUMN\b": "3.35",
    r"\bAS (NOT )?MATERIALIZED\b": "3.35",
    r"\b(sign|sqrt|power|pow|log10|log2|exp|ceil|ceiling|floor|mod|pi|trunc)\(": "3.35",
    r"\)\s*STRICT\b|, STRICT\b": "3.37",
    r"->>": "3.38",
    r"\b(unixepoch|format|auto)\(": "3.38",
    r"\b(RIGHT|FULL)( OUTER)? JOIN\b": "3.39",
    r"\bIS (NOT )?DISTINCT FROM\b": "3.39",
    r"\b(unhex|timediff|octet_length|string_agg|concat|concat_ws|jsonb?_pretty|unistr)\(": "3.41",
}
"""What SQL has from which SQLite on, of all that came after the oldest that is supported."""


class Release(NamedTuple):
    """An entry of the changelog."""

    version: str
    date: str
    text: str


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads(text_of("pyproject.toml"))["project"]
    return found


def entries() -> dict[str, str]:
    """Each entry of the changelog by its heading, as in ``0.2.0 - 2026-11-24``, or ``Unreleased``."""
    found = re.split(r"^## ", text_of("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    return {entry.partition("\n")[0]: entry for entry in found}


def releases() -> list[Release]:
    """Each release of the changelog, without what is not released yet."""
    return [Release(*head.split(" - "), entry) for head, entry in entries().items() if head != "Unreleased"]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_the_program_is_the_last_release_or_on_the_way_to_the_next() -> None:
    """Two states with one version cannot be told apart as packages, so between releases the version says so."""
    last, (version, dev, _number) = releases()[0].version, arcacct.__version__.partition(".dev")
    assert (numbers(version) > numbers(last)) if dev else (version == last)


def test_releases_stand_in_their_order() -> None:
    """Newest first, by number and by day, each with a day."""
    found = releases()
    dates = [dt.date.fromisoformat(one.date) for one in found]

    assert dates == sorted(dates, reverse=True)
    assert [numbers(one.version) for one in found] == sorted({numbers(one.version) for one in found}, reverse=True)


@pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
def test_a_release_has_the_sections_of_keep_a_changelog(release) -> None:
    """Those that it has, in the usual order, none twice and none empty."""
    found = re.findall(r"^### (.*)\n\n(.)", release.text, re.MULTILINE)
    titles = [title for title, _ in found]

    assert titles == [title for title in SECTIONS if title in titles]
    assert len(titles) == release.text.count("\n### ")
    assert {first for _, first in found} == {"*"}


@pytest.mark.parametrize("head", [head for head in entries() if not head.startswith(("0.1.0", "0.2.0"))])
def test_each_change_is_one_short_line(head) -> None:
    """An administrator reads all of an entry before an upgrade; a link leads to the details."""
    _, *lines = entries()[head].partition("\n### ")[2].splitlines() or [""]
    lines = [re.sub(r"\]\([^)]*\)", "]", line) for line in lines if line and line[0] != "#"]

    assert [line for line in lines if not line.startswith("* ") or len(line.split()) > MOST_WORDS] == []


def test_the_upgrade_from_0_2_comes_before_all_changes() -> None:
    """First the change that breaks queries, then ten reasons to upgrade and five steps."""
    (entry,) = [entry for entry in entries().values() if "**To upgrade from 0.2.0**" in entry]
    before = entry.partition("\n### ")[0]
    places = re.findall(r"^(?:(\d+)\. )?\*\*(One incompatible|Highlights|To upgrade)?", before, re.MULTILINE)

    assert [number or heading for number, heading in places] == [
        *("One incompatible", "Highlights", *map(str, range(1, 11))),
        *("To upgrade", *map(str, range(1, 6))),
    ]


def test_the_last_release_names_the_schemas() -> None:
    """Whether there is an upgrade of databases, and a way back, is the first thing that an administrator asks."""
    found = re.search(
        r"^Schemas: accounting (\d+) \(.*\), publishing (\d+) \(.*\)\. Dataset of many CEs: v(\d+)\.$",
        releases()[0].text,
        re.MULTILINE,
    )

    # The checkout may have scripts that no release has yet.
    assert [int(number) for number in found.groups()] <= [ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, VERSION]


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower().replace("`", "")).strip().replace(" ", "-") for head in heads}


def links(page: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)]+)\)", text_of(page)) if not link.startswith("https://")]


@pytest.mark.parametrize(("page", "link"), [(page, link) for page in PAGES for link in links(page)])
def test_links_of_these_pages_lead_somewhere(page, link) -> None:
    """To a file, and to a heading in it."""
    file, _, anchor = link.partition("#")
    there = (ROOT / page).parent / file if file else ROOT / page

    assert there.is_file(), link
    assert not anchor or anchor in anchors(there), link


def supported() -> list[str]:
    """The versions of Python in the classifiers."""
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project()["classifiers"]]
    return [one[1] for one in named if one]


def test_supported_pythons_are_those_of_the_package() -> None:
    """The page, the classifiers, what pip asks for, and what ruff takes for the oldest are one."""
    rows = re.findall(r"^\| (3\.\d+) \| ", text_of("docs/project/support.md").partition("## SQLite")[0], re.MULTILINE)

    assert rows == supported()
    assert project()["requires-python"] == f">={rows[0]}"
    assert [f"3.{minor}" for minor in range(int(rows[0][2:]), int(rows[-1][2:]) + 1)] == rows
    ruff = tomllib.loads(text_of("pyproject.toml"))["tool"]["ruff"]["target-version"]
    assert ruff == f"py{rows[0].replace('.', '')}"


def test_the_matrix_knows_each_supported_python() -> None:
    """It names each one, as found or as not found."""
    done = subprocess.run([ROOT / "tests" / "matrix", "--list"], capture_output=True, text=True, check=True)
    told = re.findall(r"^matrix: (?:there is no Python|found \S+) (3\.\d+)", done.stdout, re.MULTILINE)

    assert sorted(told, key=numbers) == supported()


def statements() -> Iterator[tuple[str, str]]:
    """``(place, text)`` of whatever may be SQL for SQLite: our scripts, and every text of the program."""
    for path in [path for path in (ROOT / "schema").rglob("*.sql") if path.parent.name != "fleet"]:
        yield path.name, re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "arcacct").rglob("*.py")):
        if "fleet" in path.parts:
            # DuckDB's, Spark's and PostgreSQL's.
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.search(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\b", text):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_no_statement_needs_a_newer_sqlite() -> None:
    """EL 9 has 3.34.1: what came later is used nowhere."""
    assert "| SQLite | 3.34 |" in text_of("docs/project/support.md")
    found = list(statements())
    assert len(found) > 300
    late = [
        f"{place}: {word} is of SQLite {version}"
        for place, text in found
        for word, version in NEWER.items()
        if re.search(word, text)
    ]

    assert late == []


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", text_of("docs/project/schema.md")))))
def test_each_rule_of_schemas_has_its_test(name) -> None:
    """The page names the tests that hold what it says."""
    assert any(
        re.search(rf"^    def {name}\(|^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in (ROOT / "tests").rglob("test_*.py")
    )
