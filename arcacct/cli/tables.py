"""Rows for people and programs: an aligned table, CSV or JSON, written as they come."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from unicodedata import combining, east_asian_width

import click

from arcacct.cli.console import block, data, print_line
from arcacct.cli.options import Decorator, in_order
from arcacct.wording import sanitise_line, strip_control

FORMATS = ("table", "csv", "spreadsheet", "json")
_LONGEST_CELL = 1000
"""Characters of a cell of a table: the other formats have all of it. One name must not widen every line."""
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Characters that a spreadsheet reads as the start of a formula, or skips before one; full-width ones, too."""
_LOOKED_AT = 500
"""So many rows decide how wide the columns of a table are ..."""
_LOOKED_AT_CHARACTERS = 2_000_000
"""... and fewer when they have more than this."""

_MEANINGS = {
    "nagios": "output of a monitoring plug-in, with performance data",
    "qacct": "qacct's table",
    "spreadsheet": "CSV that is safe in a spreadsheet",
}
"""Formats that their names do not explain."""
LISTED = ("text", "csv", "spreadsheet", "json")
"""A list that people read as lines."""
TOLD = ("text", "json")
"""An answer that is not a list."""


def format_option(
    words: Sequence[str] = FORMATS,
    what: str = "a list of objects",
    former: Sequence[str] = (),
    start: str = "Output format.",
) -> Decorator:
    """
    Return the option for the output format of a command: one of ``words``; the first is the default.

    ``what``: the content of the JSON. ``former``: words that are also options, as in 0.2.0. ``start``: the start of the
    help.
    """
    meanings = _MEANINGS | {"json": what}
    listed = "; ".join(f"{word}: {meanings[word]}" for word in words if word in meanings)
    return in_order(
        click.option(
            "--format", "form", type=click.Choice(words), default=words[0], show_default=True, help=f"{start} {listed}."
        ),
        *(
            click.option(f"--{word}", "form", flag_value=word, hidden=True, help=f"As --format {word}.")
            for word in former
        ),
    )


def show(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """Print the rows in one of FORMATS."""
    out = print_line if form == "table" else data
    for line in lines(columns, rows, form):
        out(line)


def show_object(value: object) -> None:
    """Print an object that is not a list of rows, as JSON."""
    block(json.dumps(value, indent=1), data)


def lines(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> Iterator[str]:
    """The rows in one of FORMATS, line by line without line ends."""
    return {"table": _table, "csv": _csv, "spreadsheet": _spreadsheet, "json": _json}[form](columns, rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    coming = iter(rows)
    texts: list[list[str]] = []
    kinds: list[set[bool | None]] = [set() for _column in columns]
    room = _LOOKED_AT_CHARACTERS
    for row in itertools.islice(coming, _LOOKED_AT):
        # Keep the cells, not the values: a value may have megabytes, and its cell one word.
        texts.append([_text(value) for value in row])
        for kind, value in zip(kinds, row, strict=True):
            kind.add(None if value is None else isinstance(value, int | float))
        room -= sum(map(len, texts[-1]))
        if room < 0:
            break
    widths = [max(map(_width, column)) for column in zip(columns, *texts, strict=True)]
    right = [True in kind and False not in kind for kind in kinds]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for cell, width, to_right in zip(cells, widths, right, strict=True):
            blanks = " " * (width - _width(cell))
            padded.append(blanks + cell if to_right else cell + blanks)
        return "  ".join(padded).rstrip()

    yield line(columns)
    yield "  ".join("-" * width for width in widths)
    for text in texts:
        yield line(text)
    for row in coming:
        yield line([_text(value) for value in row])


def _width(text: str) -> int:
    """The columns of a terminal: signs of East Asia take two, marks over the letter before them none."""
    if text.isascii():
        return len(text)
    return sum(not combining(letter) and 1 + (east_asian_width(letter) in "WF") for letter in text)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        # One row is one line, for any name of a job, without control characters for terminals. Of a long text, keep
        # only what can appear in the cell, with all characters before it that may be hidden.
        value = value[: 50 * _LONGEST_CELL]
        shown = strip_control(value)
        return shown if len(shown) <= _LONGEST_CELL else sanitise_line(value, _LONGEST_CELL)
    return str(value)


def _spreadsheet(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """
    CSV whose texts stay texts: a spreadsheet would execute a job name such as ``=HYPERLINK(...)``.

    All texts are in quotes: where a semicolon separates cells, it would start a cell with the following text.
    """
    safe = ([_no_formula(value) for value in row] for row in rows)
    return _csv([_no_formula(name) for name in columns], safe, csv.QUOTE_NONNUMERIC)


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return strip_control(f"'{value}" if value.startswith(_FORMULA) else value)


def _csv(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], quoting: Literal[0, 2] = csv.QUOTE_MINIMAL
) -> Iterator[str]:
    buffer = io.StringIO()
    # Any character of the line end makes the writer quote a text: most readers would end a line at a bare CR.
    writer = csv.writer(buffer, lineterminator="\r\n", quoting=quoting)
    for row in itertools.chain([columns], rows):
        writer.writerow(base64.b64encode(value).decode() if isinstance(value, bytes) else value for value in row)
        yield buffer.getvalue().removesuffix("\r\n")
        buffer.seek(0)
        buffer.truncate()


def _json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    def encoded(value: bytes) -> dict[str, bool | str]:
        # The form that sqlite-utils writes and reads.
        return {"$base64": True, "encoded": base64.b64encode(value).decode()}

    pending = "["
    for row in rows:
        yield pending if pending == "[" else f"{pending},"
        pending = json.dumps(dict(zip(columns, row, strict=True)), default=encoded, ensure_ascii=False)
        if not pending.isprintable():
            # A terminal may show it: every invisible character becomes \u....
            pending = "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in pending)
    if pending == "[":
        yield "[]"
        return
    yield pending
    yield "]"
