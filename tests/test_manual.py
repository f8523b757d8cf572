"""The form of the manual: the front page is short, each page has its place, and all read well as text and as a site."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import manual
import pytest

PAGES = [path.relative_to(manual.ROOT).as_posix() for path in manual.pages()]
BESIDE = [path.name for path in sorted(manual.ROOT.glob("*.md")) if path != manual.README]
"""What stands at the top level next to the front page: how to contribute, what changed, whom to tell of dangers."""
LONGEST_README = 200
"""Lines. Whoever meets the project reads one page; all else is in docs/."""


def prose(page: str) -> str:
    """A page without fenced blocks, and without what stands between backquotes."""
    text = manual.without_blocks((manual.ROOT / page).read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "``", text)


def test_the_readme_is_one_page() -> None:
    """It says what this is, how to try it, and where to go on."""
    text = manual.README.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= LONGEST_README
    for road in ("Administrator", "Operator", "Analyst"):
        (links,) = re.findall(rf"^\*\*{road}\*\*.*?\n\n((?:\d\. .*\n)+)", text, re.MULTILINE)
        assert 4 <= len(links.splitlines()) <= 7, road
        assert f"## {road}\n" in manual.read("index")


def test_each_page_has_its_place_in_the_manual() -> None:
    """Each page of docs/ stands once in the order of the site; a new one must be put where one looks for it."""
    text = (manual.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = re.search(r"^nav:\n(.*?)^\w", text, re.MULTILINE | re.DOTALL)
    assert nav is not None
    placed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", nav[1], re.MULTILINE)

    assert sorted(placed) == [page.removeprefix("docs/") for page in PAGES if page != "README.md"]


@pytest.mark.parametrize("page", [*PAGES, *BESIDE])
def test_a_page_is_in_good_form(page: str) -> None:
    """One title, headings without a step left out and told apart, no bare address, no blanks at the end of a line."""
    whole = (manual.ROOT / page).read_text(encoding="utf-8")
    headings = re.findall(r"^(#+) (.+)$", manual.without_blocks(whole), re.MULTILINE)
    levels = [len(marks) for marks, _ in headings]
    names = [name for _, name in headings]

    assert whole.startswith("# ")
    assert levels.count(1) == 1
    assert all(later <= before + 1 for before, later in itertools.pairwise(levels))
    # Each version that changed has its "Added" and "Changed".
    assert page == "CHANGELOG.md" or sorted(names) == sorted(set(names))
    assert [line for line in whole.splitlines() if line != line.rstrip()] == []
    assert whole.endswith("\n")
    assert not whole.endswith("\n\n")
    assert re.findall(r"(?<![(<])\bhttps?://\S+", prose(page)) == []
    assert "\t" not in manual.without_blocks(whole)


@pytest.mark.parametrize("page", BESIDE)
def test_links_next_to_the_manual_lead_somewhere(page: str) -> None:
    """Those of the manual are looked up with its pages; these name files of the project, too."""
    whole = prose(page)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", whole) if ":" not in link]

    assert [link for link in links if not (manual.ROOT / link.partition("#")[0]).exists()] == []


def failures() -> list[str]:
    """The tests of the table of what can fail, each as ``file::function``."""
    page = manual.read("explanation/what-can-be-lost")
    table = manual.between(page, "<!-- failures: begin -->", "<!-- failures: end -->")
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    named = [re.findall(r"`([^`]+)`", row[-1]) for row in rows]
    assert all(named), "a failure without a test"
    return [name for row in named for name in row]


@pytest.mark.parametrize("name", failures())
def test_every_failure_of_the_manual_has_its_test(name: str) -> None:
    """The manual names the test of each promise that nothing is lost, and it is there."""
    file, _, function = name.partition("::")

    assert f"def {function}(" in (manual.ROOT / file).read_text(encoding="utf-8")


def abroad() -> list[str]:
    """The addresses outside that the manual links to."""
    texts = (prose(page) for page in [*PAGES, *BESIDE])
    return sorted({link for text in texts for link in re.findall(r"\]\((\w+:[^)]+)\)", text)})


@pytest.mark.parametrize("link", abroad())
def test_a_link_that_leads_outside(link: str) -> None:
    """It is of a public host, and encrypted. ``ARCACCT_ASK_LINKS=1`` asks whether it is there; CI asks no one."""
    parts = urllib.parse.urlsplit(link)

    assert parts.scheme == "https"
    assert parts.hostname is not None
    assert re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.hostname)
    # Where arcacct will be published no one knows yet: what is of the project is linked to as a file.
    assert "arcacct" not in link
    assert not parts.hostname.endswith((".example", "example.org", "example.com", ".invalid", ".local"))
    if os.environ.get("ARCACCT_ASK_LINKS"):
        asked = urllib.request.Request(
            link, headers={"User-Agent": "Mozilla/5.0 (arcacct: looks whether links lead somewhere)"}
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert answer.status == 200


def test_nothing_is_misspelt() -> None:
    """Neither in the manual nor in the code, by the list of codespell; exceptions stand in pyproject.toml."""
    pytest.importorskip("codespell_lib", reason="codespell is not installed (the extra `docs` has it)")

    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--quiet-level", "3"],
        cwd=manual.ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert (done.stdout, done.returncode) == ("", 0)
