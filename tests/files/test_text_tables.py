"""Tables of other programs: each text comes back from the writer's grammar, and no other character ends a line."""

from __future__ import annotations

import csv
import io

import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from receiver_rows import batch

from arcacct.files.text_tables import batch_rows, csv_rows, unescaped

# Whatever a line, a cell or a quote could be taken for is more frequent than chance would have it.
ODD = st.sampled_from('\\\t\n\r\0",;NtnN0x\x0b\x0c\x1c\x85\u2028\u2029')
CELLS = st.text(st.one_of(ODD, st.characters(codec="utf-8")))
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=6)
)
NAMES = ["Site", "VO", "Role", "Group"]


@settings(max_examples=examples(500))
@given(TABLES)
def test_every_cell_of_the_clients_output_comes_back(table) -> None:
    """Written as its source says; the header is of our own names."""
    header = NAMES[: len(table[0])]

    rows = list(batch_rows(batch(header, table)))

    assert [[unescaped(cell) for cell in row] for _line, row in rows] == [header, *table]
    assert [line for line, _row in rows] == list(range(1, len(table) + 2))


@settings(max_examples=examples(500))
@given(TABLES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from(",;"))
def test_every_cell_of_csv_comes_back(table, end, in_quotes, delimiter) -> None:
    """Written by Python's writer; each row has the number of its first line."""
    file = io.StringIO(newline="")
    starts, rows = [], [row for row in table if any(row)]
    for row in rows:
        starts.append(file.getvalue().count("\n") + 1)
        # The writer puts no quotes around CR, which would be a part of the line's end there.
        quoting = csv.QUOTE_ALL if in_quotes or row[-1].endswith("\r") else csv.QUOTE_MINIMAL
        csv.writer(file, lineterminator=end, quoting=quoting, delimiter=delimiter).writerow(row)

    assert list(csv_rows(file.getvalue(), delimiter)) == list(zip(starts, rows, strict=True))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("\n\r\n\n", []),
        ("a,b", [(1, ["a", "b"])]),
        ("a,", [(1, ["a", ""])]),
        (",\r\n", [(1, ["", ""])]),
        ('"a\n""b""\r\nc",d\r\n\ne', [(1, ['a\n"b"\r\nc', "d"]), (5, ["e"])]),
        ('a"b, "c",d""\n', [(1, ['a"b', ' "c"', 'd""'])]),
        ("a\u2028\x85\f\v\r,\\N,\\\\\n", [(1, ["a\u2028\x85\f\v\r", "\\N", "\\\\"])]),
    ],
)
def test_csv_ends_where_its_writer_ends_it(text, rows) -> None:
    """Quotes only at the beginning of a cell; a backslash is a character."""
    assert list(csv_rows(text)) == rows


@pytest.mark.parametrize(("text", "line"), [('a,"b\nc', 1), ('a\n"b"c\n', 2), ('a\n"b\nc" ,d\n', 2), ('"' * 999, 1)])
def test_a_broken_quote_is_named_by_its_line(text, line) -> None:
    """Whatever follows could be anything."""
    with pytest.raises(ValueError, match=f"line {line}: a quote has no end, or text follows it"):
        list(csv_rows(text))


def test_a_long_quote_takes_neither_time_nor_memory() -> None:
    """Neither with its end, nor without."""
    assert list(csv_rows(f'"{"a" * 2**22}""\n"')) == [(1, [f'{"a" * 2**22}"\n'])]
    with pytest.raises(ValueError, match="line 1"):
        list(csv_rows(f'"{"a" * 2**22}'))


@pytest.mark.parametrize("cell", ["\\", "a\\", "\\N", "\\x", "\\\\\\", "\\\n", "\\r"])
def test_an_escape_that_the_client_does_not_write_is_refused(cell) -> None:
    """The text was written by something else, and what else in it means something else no one knows."""
    with pytest.raises(ValueError, match="is not an escape of `mysql --batch`"):
        unescaped(cell)
