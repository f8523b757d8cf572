"""JSON of others: read as the standard library reads it, with limits of depth and one pass over the text."""

from __future__ import annotations

import json
import math
import random
import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory import cost_of

from arcacct.errors import InputError
from arcacct.files.json_reader import BeyondBoundsError, Found, Objects, Reader, Scan, parsed

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


# JSON out of streams: the same however they are divided, and work in proportion to what is read, whatever that is.


BETWEEN, BEGINS = r"[ \t\r\n]*", r"^(?=\{)|(?=\{\s*\"meta\"\s*:)"
"""As Sonar's."""
LINES = st.lists(
    st.sampled_from(
        [
            *('{"a": 1}\n', '{"meta": {"b": [{}, {"c": "x"}]}}\n', '{\n"a": [\n{}\n]\n}\n', '{"d": "}{\\"]"}'),
            *('{"a": [\n', '{"meta": [', '{"a": "so', '{"e": [1,\n{"f": 2},\n', "]}\n", "}", "]", ",", '"', "\\", "\n"),
            *("x", '{"g": tru', "sonar: warning\n", "[1, 2]\n", '{"h": %s}\n' % ("9" * 5_000), '{"i": NaN}\n', "é"),
        ]
    ),
    max_size=12,
)


def read(*pieces: str, most: int = 1_000_000) -> list[tuple[Found, str]]:
    """What a stream of these pieces has, each with its text."""
    stream = Objects(BETWEEN, BEGINS, most)
    found = [(one, stream.text) for piece in pieces for one in stream.feed(piece)]
    return found + [(one, stream.text) for one in stream.feed("", final=True)]


def good(found: list[tuple[Found, str]]) -> list[str]:
    return [text for one, text in found if one.value is not None]


def simply_read(text: str) -> list[str]:
    """The good objects of a text, each looked for from wherever one may begin."""
    found, place = [], 0
    decoder = json.JSONDecoder(parse_int=float)
    while place < len(text):
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n"))
        try:
            end = decoder.raw_decode(text, place)[1] if text[place : place + 1] == "{" else None
        except ValueError:
            end = None
        if end is None:
            following = re.compile(BEGINS, re.MULTILINE).search(text, place + 1)
            place = following.start() if following else len(text)
        else:
            found.append(text[place:end])
            place = end
    return found


@given(LINES, st.lists(st.integers(1, 40), max_size=8))
@example(['{"meta":{"a":"so{"meta":{"b":1}}\n'] * 2, [])
@example(['{"a":[\n'] * 3 + ['{"b":1}\n', "x", "]}"], [3])
def test_the_same_objects_however_a_stream_is_divided(lines: list[str], sizes: list[int]) -> None:
    text = "".join(lines)
    pieces, place = [], 0
    for size in sizes:
        pieces.append(text[place : place + size])
        place += size

    found = read(*pieces, text[place:])

    assert good(found) == simply_read(text)
    assert "".join("".join(part for _, part in found).split()) == "".join(text.split())


def test_what_comes_complete_is_given_at_once() -> None:
    """A stream is followed while it is written: neither an object nor what follows damage waits for more."""
    stream = Objects(BETWEEN, BEGINS, 1_000_000)
    came = [[one.value for one in stream.feed(piece)] for piece in ('{"a":', " 1", "}", "\nno", "ise\n", '{"b": 2}')]

    assert came == [[], [], [{"a": 1}], [], [], [None, {"b": 2}]]


def test_an_object_that_is_too_long_costs_itself() -> None:
    """It is not held as a whole, and is one piece of damage, however long it is."""
    long = '{"a": [%s]}\n' % ("1, " * 400_000 + "1")
    whole = '{"b": 1}\n' + long * 3 + '{"c": 1}\n'
    found = read(*(whole[start : start + 5_000] for start in range(0, len(whole), 5_000)), most=100_000)

    assert good(found) == ['{"b": 1}', '{"c": 1}']
    assert [one.fault for one, _ in found if one.is_too_long] == ["longer than 100000 characters"] * 3
    assert len(found) == 5


def test_damage_without_an_end_is_reported_once() -> None:
    whole = "x{" * 3_000_000 + '\n{"a": 1}\n'
    found = read(*(whole[start : start + 100_000] for start in range(0, len(whole), 100_000)))

    assert [one.value for one, _ in found] == [None, {"a": 1}]


def test_what_is_nested_too_deeply_loses_its_deep_part() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    ((one, _), (other, _)) = read(f'{{"a": 1, "b": {deep}, "c": 2}}\n{{"d": {"9" * 9_000}}}')

    assert one.value is not None
    assert other.value is not None
    assert (one.value["a"], one.value["c"], str(one.value["b"]).count("[")) == (1, 2, 31)
    assert str(other.value["d"]) == "nan"


HOSTILE = {
    "800 objects without an end, and numbers": """'{"a":[\\n' * 800 + '1,' * 1_000_000""",
    "objects without an end": """'{"a":[\\n' * 300_000""",
    "objects in objects without an end": """'{"meta":[{},\\n' * 150_000""",
    "damage in 800 objects": """'{"a":[\\n' * 800 + '{},\\n' * 500_000 + 'x' + ']}' * 800""",
    "long numbers": """('{"n":' + '9' * 5_000 + ',"b":[\\n') * 400""",
    "deep in strings": """('{"meta":' + '[' * 1100 + '"') * 1_800""",
    "deep objects in one without an end": """'{"a":[\\n' * 1500 + '{"b":[\\n{"c":[1,\\nx]},\\n' * 90_000""",
    "good objects before one without an end": """('{"d":' + '['*1200 + ']'*1200 + '}\\n{"m":1} {"f":[\\n') * 800""",
    "damage without an object": """'x{' * 1_000_000""",
    "quotes": """'{"a":"' + '\\\\"' * 1_000_000""",
    "a string in many pieces": """'{"a":"' + 'x' * 8_000_000""",
}


@pytest.mark.campaign
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_time_and_memory_are_in_proportion(text: str) -> None:
    """2 MB of each take a second or two, and took minutes or hours: objects are not tried again and again."""
    code = f"""
from arcacct.files.json_reader import Objects
text = {text}
stream = Objects({BETWEEN!r}, {BEGINS!r}, 1 << 26)
for start in range(0, len(text), 4096):
    for found in stream.feed(text[start : start + 4096]):
        pass
assert [one.value for one in stream.feed('\\n{{"good": 1}}\\n', final=True)][-1:] == [{{"good": 1}}]
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=20).peak_kib < 200 * 1024


def reader(*pieces: str, kept: int = 1_000) -> Reader:
    return Reader([piece.encode() for piece in pieces], kept)


@given(st.lists(st.integers(1, 9), max_size=30))
def test_values_of_a_document_however_it_is_divided(sizes: list[int]) -> None:
    value = {"a": [1, -2.5e3, 12345678], "é": {"x": '\\"]}', "y": [[], {}]}, "n": None, "t": True}
    text = f" {json.dumps(value, ensure_ascii=False, indent=1)} {json.dumps(7)}, "
    pieces, place = [], 0
    for size in sizes:
        pieces.append(text[place : place + size])
        place += size
    one = reader(*pieces, text[place:])
    found = {}
    one.expect("{")
    while not one.skip("}"):
        name = one.value(10)
        one.expect(":")
        found[name] = one.value(1_000)
        one.skip(",")

    assert found == value
    assert (one.value(1), one.skip(",")) == (7, True)
    assert one.is_at_end()
    assert one.passed == len(text)


def test_a_value_beyond_its_bounds_is_passed() -> None:
    """It is not held, and the next one is read."""
    deep = "[" * 100_000 + "]" * 100_000
    one = reader('["abcdefgh', 'ijk", 12', "345, ", *("[1, 2, 3" * 9, "]" * 9), deep, ', "good"]')
    one.expect("[")
    for most, reason in ((12, "longer than 12"), (4, "longer than 4"), (50, "longer than 50")):
        with pytest.raises(BeyondBoundsError, match=reason):
            one.value(most)
        one.skip(",")
    with pytest.raises(BeyondBoundsError, match="nested too deeply"):
        one.value(1_000_000)
    one.expect(",")

    assert one.value(10) == "good"


@pytest.mark.parametrize(
    "text", ["", "[1", '{"a', "nonsense ", ", ", '"a\nb"', '[{"a": "b\n"}]', "[1, x] ", '{"a"} '], ids=repr
)
def test_a_damaged_document_is_one_error(text: str) -> None:
    with pytest.raises(InputError, match=r"truncated|damaged"):
        reader(text).value(1_000)


def test_text_is_kept_as_far_as_wanted() -> None:
    one = reader("[1, ", '{"a": 1', "23}", "]")
    one.expect("[")
    one.value(9)
    one.expect(",")
    one.keep()
    one.value(99)

    assert one.kept == ' {"a": 123}'

    few = reader('{"a":', '"' + "x" * 5_000, 'x"}', kept=10)
    few.keep()
    few.value(9_000)

    assert few.kept == '{"a":"xxxx'
