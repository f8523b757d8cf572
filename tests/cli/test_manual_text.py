"""Pages as text: what of Markdown is shown how, and what fits a terminal."""

from __future__ import annotations

import pytest

from arcacct.cli.manual_pages import Page
from arcacct.cli.manual_text import Piece, rendered


def shown(manual, name: str, width: int = 80) -> str:
    lines = rendered(manual.named(name), manual, width)
    return "\n".join("".join(piece.text for piece in line) for line in lines) + "\n"


def of_text(manual, text: str, width: int = 80) -> str:
    lines = rendered(Page("howto/x", text), manual, width)
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def test_a_page_is_text(manual) -> None:
    """Headings, lists, code, links, a note, a table; no comment and no sign that only a site needs."""
    assert (
        shown(manual, "install")
        == """\
Install on a CE
===============

Run `arcacct db init`, then look at it (below: Is all well). Never use `cp`;
read Whose word holds (`arcacct help words`), the example
(etc/arcacct.conf.example) and https://example.org/docs, or a site
(https://example.org/site).

 1. First
 2. Second: `arcacct publish --dry-run`

        echo "a line of code that is longer than any terminal of eighty columns is wide, and must stay one line" > file
        # no heading

 * outer
    * inner, with words enough for a second line of its own at a width of forty

a    b
--------
`x`  one

Is all well
-----------

  | Before you go
  |
  | Mind the step.
  |
  | And this.

After it.
"""
    )


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize("name", ["install", "words", "exit-codes"])
def test_lines_fit_but_for_code(manual, name, width) -> None:
    """Paragraphs, lists and tables; what is longer than a line is one word, or code."""
    long = [line for line in shown(manual, name, width).splitlines() if len(line) > width]

    assert [line for line in long if not line.startswith("    ") or "echo" not in line] == []


def test_a_table_without_room_is_folded(manual) -> None:
    """Columns share the width; words too long for their column are folded, and nothing is cut off."""
    folded = shown(manual, "words", 60).splitlines()[6:]
    words = "".join("".join(folded).split())
    wide = "".join("".join(shown(manual, "words", 1000).splitlines()[6:]).split()).replace("-", "")
    assert max(map(len, folded)) <= 60
    assert sorted(words.replace("-", "")) == sorted(wide)


def test_headings_and_strong_words_are_distinguished(manual) -> None:
    lines = rendered(manual.named("install"), manual, 80)

    assert lines[0] == (Piece("Install on a CE", strong=True),)
    assert Piece("Never", strong=True) in {piece for line in lines for piece in line}
    assert not any(piece.strong for line in lines for piece in line if "arcacct" in piece.text)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a <b>bold</b> word<br>next <!-- hidden --> end", "a bold word\nnext  end"),
        ("<div class='x'>\nwords\n</div>\n\nmore", "words\n\nmore"),
        ("![a drawing](x.png)", "[picture: a drawing]"),
        ("[`code`](install.md)", "`code` (`arcacct help install`)"),
        ("## Of it\n\n[it](#of-it), [that](#of-it), [none](#nowhere)", "Of it\n-----\n\nit, that (below: Of it), none"),
        ("[gone](nowhere.md)", "gone (howto/nowhere.md)"),
        ("[schema/x.sql](../../schema/x.sql)", "schema/x.sql"),
        ("## Name {#id}", "Name\n----"),
        ("### Third", "Third"),
        ('=== "ARC 6"\n    one\n\n=== "ARC 7"\n    two\n', "  | ARC 6\n  |\n  | one\n\n  | ARC 7\n  |\n  | two"),
        ("!!! note\n    text\nafter", "  | Note\n  |\n  | text\n\nafter"),
        ("```\n!!! note\n    text\n```", "    !!! note\n        text"),
        ("a&nbsp;b &lt;c&gt; \\*d\\*", "a\xa0b <c> *d*"),
        ("> quoted", "  | quoted"),
        ("7. seven\n8. eight", " 7. seven\n 8. eight"),
        ("", ""),
    ],
)
def test_pieces_of_markdown(manual, text, made) -> None:
    assert of_text(manual, text).strip("\n") == made
