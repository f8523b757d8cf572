"""JSON of others: read as the standard library reads it, with limits of depth and one pass over the text."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcacct.files.json_reader import BeyondBoundsError, Scan, parsed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def nested(levels: int) -> str:
    """Arrays in arrays, with other brackets in strings."""
    return '["]]]", ' * levels + "1" + "]" * levels


def levels_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels_of, value.values()), default=0)
    return 1 + max(map(levels_of, value), default=0) if isinstance(value, list) else 0


@given(VALUES, st.booleans())
def test_good_json_is_read_as_it_was_written(value: object, indented: bool) -> None:
    text = json.dumps(value, indent=1 if indented else None)

    assert parsed(text) == value
    assert parsed(text.encode()) == value


@given(VALUES, st.integers(1, 5))
def test_the_limit_is_exact(value: object, limit: int) -> None:
    text = json.dumps([value] * 3)

    if levels_of(value) + 1 <= limit:
        assert parsed(text, most_depth=limit) == [value] * 3
    else:
        with pytest.raises(BeyondBoundsError):
            parsed(text, most_depth=limit)


@pytest.mark.parametrize("levels", [65, 1_000, 100_000])
def test_what_is_nested_too_deeply_is_refused_whatever_its_strings_hold(levels: int) -> None:
    assert parsed(nested(64)) is not None
    for text in (nested(levels), nested(levels)[:-levels], '{"a":' * levels):
        with pytest.raises(BeyondBoundsError, match="more than 64 levels"):
            parsed(text)


def test_what_is_longer_than_expected_is_not_parsed() -> None:
    assert parsed("[1, 2]", most_length=6) == [1, 2]
    for text in ("[1, 2] ", b"[1, 2] ", "[" * 7):
        with pytest.raises(BeyondBoundsError, match="JSON of 7 "):
            parsed(text, most_length=6)


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": NaN}', "-Infinity", "[1,]", "{} {}", "", '"a\nb"', "9" * 5_000, '{"a": "' + "[" * 90),
        *(b"\xff", b'{"a": "\xff"}', "[" * 70 + "\\", "]" * 70, '"' + "[" * 70, "[1" + ", [2]" * 70 + ' "\n"]'),
    ],
)
def test_anything_else_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(text)


def test_a_byte_order_mark_is_no_damage_and_numbers_stay_as_python_reads_them() -> None:
    assert parsed(b'\xef\xbb\xbf{"a": 1e999}') == {"a": math.inf}


@given(VALUES, st.integers(0, 1), st.randoms())
def test_the_end_is_found_however_the_text_is_divided(value: object, too_many: int, chance: random.Random) -> None:
    whole = [value, '\\"]}', {"\\": "["}]
    text = json.dumps(whole)
    places = sorted(chance.choices(range(len(text)), k=chance.randrange(6)))
    scan = Scan(levels_of(whole) - too_many)

    *before, last = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]

    assert [scan.end(piece) for piece in before] == [None] * len(before)
    assert scan.end(f"{last}]]") == len(last)
    assert scan.is_too_deep == bool(too_many)
