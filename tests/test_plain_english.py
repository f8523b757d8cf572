"""The manual, the messages, the help, the docstrings and the comments are in plain English (docs/project/style.md)."""

from __future__ import annotations

import ast
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator

import manual
import pytest

ROOT = manual.ROOT
QUOTES = "docs/project/style.md"
"""The style guide shows the words to avoid."""
UNIX_USER = "nobody"
"""A value in messages, not a word."""
LONGEST = 35
"""Words of a sentence. The guide says 20; this catches only sentences that are clearly too long."""
AVOID = (
    r"whoever|nobody|gravest|begun|of which|that which",
    r"mend(?:s|ed|ing)?",
    r"told|tells? of|cannot be told",
    r"go(?:es|ing)? on(?! hold)|went on",
    r"ha(?:s|ve|d) to be",
    r"by (?:itself|themselves)",
    r"set aside",
    r"stands? (?:in|on|at|for|here|there|beside|below|behind)",
    r"what (?:came|comes|becomes|became|is left) of|what stands|whose word|ends? well",
    r"(?<!there )(?:is|are|was|were) (?-i:none)(?: of)?(?=[.,;:)]|$)",
    r"beside|cannot look|at each look|of no other|(?:is|was) not any more",
    r"for ever|upon|hence|thereof|lest|whence|amiss|for want of|no longer one's",
    r"letter (?:by|for) letter|a life|second life|one's own|all is well",
    r"(?:any|every|some)body's|somebody else|as ever|but for|in earnest|in vain|for trial|what tells",
    r"pass(?:es|ed)? over|h[eo]lds? up|puts? back|lies (?:in|below|behind|outside)|out of the way|is there already",
    r"(?:made|written|built|examined|sent|begins?|done|read) anew|any more(?=[.,;:)]|$)",
    # An inversion: "Who wants this does that."
    r"(?:(?<=\. )|(?<=^))Who (?:wants|has|needs|may|can|reads|does|asks)(?=[^?]*\.)",
)
NOUN = r"what (?:is|was|are|were)(?! wrong| new| installed| needed)"
"""A clause in the place of a noun: "what is missing" for "the missing records". Headings and questions may start so."""


def _compiled(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?![\w-])", re.IGNORECASE | re.MULTILINE)


WORDS = _compiled(*AVOID)
WORDS_OF_PAGES = _compiled(*AVOID, rf"(?-i:{NOUN})")
GENERATED = re.compile(r"<!-- ([\w ./-]+): begin -->.*?<!-- \1: end -->", re.DOTALL)


def pages() -> list[pathlib.Path]:
    """The manual, and the pages at the top level."""
    return sorted({*manual.pages(), *ROOT.glob("*.md")} - {ROOT / QUOTES})


def prose(text: str) -> str:
    """A page without blocks of code, generated parts, comments, inline code and the targets of links."""
    text = re.sub(r"<!--.*?-->", "", GENERATED.sub("", text), flags=re.DOTALL)
    # Code within the text is one word; a block may stand in a list.
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "`code`", text))


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page's paragraphs and lists, one by one. A cell of a table is not one."""
    for line in prose(text).splitlines():
        if not line.lstrip().startswith(("|", "#")):
            yield from re.split(r"(?<=[.?!:;])\s", line)


def texts_of_source(text: str) -> Iterator[tuple[int, str]]:
    """``(line, text)`` of each string and comment of a Python file: messages, help, docstrings, comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != UNIX_USER:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def findings(path: pathlib.Path) -> list[str]:
    """Each place of a file that is not plain English, with its line where it is known."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        found = [f"{one[0]!r}" for one in WORDS_OF_PAGES.finditer(prose(text))]
        return found + [f"{len(one.split())} words: {one}" for one in sentences(text) if len(one.split()) > LONGEST]
    parts = texts_of_source(text) if path.suffix == ".py" else enumerate(text.splitlines(), 1)
    return [
        f"line {line}: {one[0]!r}" for line, part in parts for one in WORDS.finditer(re.sub(r"`[^`\n]*`", "", part))
    ]


def units() -> list[str]:
    """What is checked as one: each page, each folder of the package, and etc/."""
    folders = sorted({f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "arcacct").rglob("*.py")})
    return [*(str(path.relative_to(ROOT)) for path in pages()), *folders, "etc/"]


def files(unit: str) -> list[pathlib.Path]:
    """The files of a unit."""
    if unit == "etc/":
        return sorted(path for path in (ROOT / unit).rglob("*") if path.is_file() and path.suffix != ".json")
    return sorted((ROOT / unit).glob("*.py")) if unit.endswith("/") else [ROOT / unit]


@pytest.mark.parametrize("unit", units())
def test_it_is_plain_english(unit: str) -> None:
    """There is no word of the list and no endless sentence."""
    found = [f"{path.relative_to(ROOT)}: {one}" for path in files(unit) for one in findings(path)]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("It goes on by itself.", True),
        ("Whoever reads it is told.", True),
        ("Who wants to change it begins here.", True),
        ("The gravest counts.", True),
        ("Who wants this?", False),
        ("See what is wrong.", False),
        ("It resumes automatically.", False),
        ("The job goes on hold.", False),
        ("`nobody` runs it, and recommended values are tolden.", False),
        ("```\nnobody\n```\n", False),
        (" ".join(["word"] * 40) + ".", True),
    ],
)
def test_the_check_finds_what_it_should(tmp_path: pathlib.Path, text: str, is_found: bool) -> None:
    """Words as they are meant, not within others nor within code."""
    page = tmp_path / "page.md"
    page.write_text(text + "\n", encoding="utf-8")
    source = tmp_path / "source.py"
    source.write_text(f"# {text.splitlines()[0]}\n", encoding="utf-8")

    assert bool(findings(page)) == is_found
    assert bool(findings(source)) == (is_found and "word word" not in text)
