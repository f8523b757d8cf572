"""Which page a name means, which pages have words, and what the manual says of an exit code."""

from __future__ import annotations

import pytest

from arcacct.cli.manual_pages import Manual, Page, Section, any_of, exit_code, load, near
from arcacct.errors import StoreError
from arcacct.files import directories


def names(found: list[tuple[Page, Section]]) -> list[tuple[str, str]]:
    return [(page.name, section.heading) for page, section in found]


def test_pages_have_an_order_and_titles(manual) -> None:
    """As the sections of the site, each section by name, and index first."""
    assert [title for title, _pages in manual.by_folder()] == ["To begin", "How to", "Reference", "The project"]
    assert [page.name for page in manual.pages][:4] == ["index", "tutorial", "howto/install", "howto/install-arc7"]
    assert [page.title for page in manual.pages][-2:] == ["Whose word holds", "project/limits"]


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("install", "howto/install"),
        ("howto/install", "howto/install"),
        ("howto/install.md", "howto/install"),
        ("Install-ARC7", "howto/install-arc7"),
        ("install-", None),
        ("howto", None),
    ],
)
def test_a_page_has_a_name(manual, name, page) -> None:
    found = manual.named(name)
    assert (found and found.name) == page


def test_two_pages_of_one_name_are_distinguished() -> None:
    manual = Manual((Page("index", ""), Page("howto/ask", "# a"), Page("reference/ask", "# b")))

    assert manual.named("ask") is None
    assert [manual.topic(page) for page in manual.pages] == ["index", "howto/ask", "reference/ask"]
    assert manual.named("reference/ask") == manual.pages[2]


def test_a_beginning_of_a_name(manual) -> None:
    assert [page.name for page in manual.beginning("TUT")] == ["tutorial"]
    assert [page.name for page in manual.beginning("inst")] == ["howto/install", "howto/install-arc7"]
    assert [page.name for page in manual.beginning("reference/w")] == ["reference/words"]


def test_words_are_found_with_their_headings(manual) -> None:
    """In any case, at the beginning of a word, also in code; pages that say what to do before the reference."""

    def found(text: str) -> list[tuple[str, str]]:
        return names(manual.search(any_of(text)))

    assert found("SPOOL") == [("howto/install-arc7", "Install beside ARC 7"), ("reference/words", "Order")]
    assert found("pool") == found("--") == found("generated") == []
    assert found("--dry-run")[0] == ("howto/install", "Install on a CE")
    assert found("mind the step")[0] == ("howto/install", "Is all well")


def test_a_page_has_a_problem_in_its_first_paragraph() -> None:
    """It counts more than headings and other text; a table is no paragraph."""
    other = Page("howto/other", "# Lost\n\nAbout.\n\n## Lost\n\nlost lost lost\n")
    wanted = Page("howto/wanted", "# A\n\nUse this page when a file\nis lost.\n\nMore.\n\n## B\n\nText.\n")
    table = Page("howto/table", "# A\n\n| lost |\n|---|\n| lost |\n")
    found = Manual((other, table, wanted)).search(any_of("lost"))
    assert [page.name for page, _section in found] == ["howto/wanted", "howto/other", "howto/table"]
    assert (wanted.lead, table.lead) == ("Use this page when a file\nis lost.", "")


def test_a_page_answers_by_the_part_that_has_the_words() -> None:
    """Where only its first paragraph has them, that is shown, and not the shortest part of the page."""
    page = Page("howto/page", "# A\n\nUse this page when a clock\nis wrong.\n\n## B\n\nText.\n\n## C\n\nkeys keys\n")

    assert names(Manual((page,)).search(any_of("wrong clock"))) == [("howto/page", "A")]
    assert names(Manual((page,)).search(any_of("wrong keys"))) == [("howto/page", "C")]


def test_commands_are_found_where_they_are_typed(manual) -> None:
    """Whole commands, with what is below them."""
    assert [page for page, _heading in names(manual.search('"arcacct db"'))] == ["howto/install"]
    assert [page for page, _heading in names(manual.search('"arcacct db init"'))] == ["howto/install"]
    assert names(manual.search('"arcacct d"')) == []


def test_code_is_no_heading() -> None:
    text = "# One\n\n````sh\n# no\n```\n# no\n````\n\n## Two {#two}\n~~~\n# no\n~~~\n### [Three](x.md) `c` ##\n"
    page = Page("x", text)

    assert [section.heading for section in page.sections()] == ["", "One", "Two", "Three c"]


@pytest.mark.parametrize(("wanted", "row"), [("69", "`69`"), ("EX_UNAVAILABLE", "`69`"), ("tempfail", "75")])
def test_an_exit_code_is_a_row_of_its_table(manual, wanted, row) -> None:
    """By its number or by the name that sysexits.h gives it."""
    found = exit_code(manual, wanted)

    assert [line for line in found.splitlines() if line.startswith(f"| {row} |")]
    assert "| code | meaning |" in found
    assert found.count("\n|") == 3


def test_an_exit_code_of_several_commands_is_explained_for_each(manual) -> None:
    """In the words of their own tables; a number in the middle of a sentence is none."""
    found = exit_code(manual, "0")

    assert found.index("## Exit codes") < found.index("all is well") < found.index("## Of status") < found.index("fine")
    assert "all agree" in found
    assert "all agree" not in exit_code(manual, "2")
    assert "critical" in exit_code(manual, "2")
    assert "all agree" not in exit_code(manual, "75")


def test_a_part_has_a_heading(manual) -> None:
    """The whole of it or how it ends: what an option, an alert or a metric is called."""
    assert [(page.name, part.heading) for page, part in manual.headed("SETTLE")] == [
        ("reference/options", "arcacct settle"),
        ("reference/options", "sgas settle"),
    ]
    assert [part.text.strip() for _page, part in manual.headed("arcacct settle")] == [
        "How long a failed job is held back."
    ]
    assert manual.headed("ettle") == manual.headed("arcacct sett") == []


@pytest.mark.parametrize("wanted", ["7", "3", "all", "refuses"])
def test_what_is_no_exit_code_has_no_row(manual, wanted) -> None:
    assert exit_code(manual, wanted) == ""


def test_without_pages_it_is_said_what_is_missing(tmp_path, monkeypatch) -> None:
    """A damaged installation; a folder of that name of somebody else's is no manual."""
    monkeypatch.setattr(directories, "_PACKAGE", str(tmp_path / "arcacct"))
    for _ in range(2):
        with pytest.raises(StoreError, match="the pages of the manual are missing; install arcacct again"):
            load()
        (tmp_path / "docs").mkdir(exist_ok=True)
        (tmp_path / "docs" / "theirs.md").write_text("# Theirs\n")


def test_a_damaged_letter_costs_a_letter(manual, tmp_path) -> None:
    (tmp_path / "docs" / "howto" / "torn.md").write_bytes(b"# Torn\n\nThe \xff rest.\n")

    assert (page := load().named("torn")) is not None
    assert "rest." in page.text


def test_near_names() -> None:
    assert near("PUBLSH", ["publish", "republish", "publish", "db"]) == ["publish", "republish"]
    assert near("xyz", ["publish"]) == []
