"""Rows for people and for programs: an aligned table, CSV or JSON; written as they come, so memory stays flat."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

FORMATS = ("table", "csv", "json")
_LOOKED_AT = 500
"""So many rows decide how wide the columns of a table are ..."""
_LOOKED_AT_CHARACTERS = 2_000_000
"""... and fewer when they have more than this."""

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Aligned for people, CSV with a header line, or JSON: a list of objects.",
)


def lines(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> Iterator[str]:
    """The rows in one of FORMATS, line by line without line ends."""
    return {"table": _table, "csv": _csv, "json": _json}[form](columns, rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    coming = iter(rows)
    texts: list[list[str]] = []
    kinds: list[set[bool | None]] = [set() for _column in columns]
    room = _LOOKED_AT_CHARACTERS
    for row in itertools.islice(coming, _LOOKED_AT):
        # The cells are kept and not the values: a value may have megabytes, and its cell one word.
        texts.append([_text(value) for value in row])
        for kind, value in zip(kinds, row, strict=True):
            kind.add(None if value is None else isinstance(value, int | float))
        room -= sum(map(len, texts[-1]))
        if room < 0:
            break
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    right = [True in kind and False not in kind for kind in kinds]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    yield line(columns)
    yield "  ".join("-" * width for width in widths)
    for text in texts:
        yield line(text)
    for row in coming:
        yield line([_text(value) for value in row])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str):
        # One row, one line, whatever a job is called; and nothing that steers a terminal.
        return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in value)
    return str(value)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in itertools.chain([columns], rows):
        writer.writerow(base64.b64encode(value).decode() if isinstance(value, bytes) else value for value in row)
        yield buffer.getvalue().removesuffix("\n")
        buffer.seek(0)
        buffer.truncate()


def _json(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    pending = "["
    for row in rows:
        yield pending if pending == "[" else f"{pending},"
        pending = json.dumps(dict(zip(columns, row, strict=True)), default=_encoded, ensure_ascii=False)
    if pending == "[":
        yield "[]"
        return
    yield pending
    yield "]"


def _encoded(value: bytes) -> dict[str, Any]:
    # As sqlite-utils writes and reads it.
    return {"$base64": True, "encoded": base64.b64encode(value).decode()}
