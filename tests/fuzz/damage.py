"""Ways to damage real input: bytes, lines and JSON values."""

from __future__ import annotations

import random
from typing import Any

TOKENS = (
    b"", b"\0", b"\n", b"\r\n", b"\r", b" ", b"\t", b"=", b":", b";", b",", b"/", b"%", b"%00", b"%zz", b"\\", b'"',
    b"'", b"-1", b"0", b"1e999", b"nan", b"inf", b"4294967296", b"9007199254740993", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775809", b"9" * 400, b"9" * 5000, b"\x1b]0;title\x07", b"\x1b[2J",
    b"\xc2\x9b31m", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\xff\xfe", b"\xf0\x9f\x9a\x80", b"<!--",
    b"]]>", b"&amp;", b"../../etc/passwd", b"A" * 300, b"x" * 70_000,
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 255, 256, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30,
    10**400, 0.5, 1e308, -1e-320,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "\n", "None assigned", "(null)", "\x1b]0;title\x07\x1b[2J", "\x9b31m", "\u202e\u2028\ufeff",
    "\ud800", "żółć 🚀", "=1+1", "%41%zz", "a" * 300, "n[1-999999999]", "9" * 5000, "-1", "1e5",
    "2026-13-45T99:99:99Z", "9999-12-31T23:59:59Z",
)  # fmt: skip


def damaged(chance: random.Random, data: bytes, *, times: int = 3) -> bytes:
    """Some bytes with one to ``times`` faults: flipped, cut, doubled, moved, replaced by what often hurts."""
    for _ in range(chance.randint(1, times)):
        data = chance.choice(_WAYS)(chance, data)
    return data


def _flipped(chance: random.Random, data: bytes) -> bytes:
    if not data:
        return chance.choice(TOKENS)
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]


def _span(chance: random.Random, data: bytes) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, min(len(data), start + chance.choice((0, 1, 2, 4, 8, 16, 64, 256, 4096)))


def _without(chance: random.Random, data: bytes) -> bytes:
    start, end = _span(chance, data)
    return data[:start] + data[end:]


def _doubled(chance: random.Random, data: bytes) -> bytes:
    start, end = _span(chance, data)
    return data[:end] + data[start:end] * chance.choice((1, 2, 50)) + data[end:]


def _replaced(chance: random.Random, data: bytes) -> bytes:
    start, end = _span(chance, data)
    return data[:start] + chance.choice(TOKENS) + data[end:]


def _random(chance: random.Random, data: bytes) -> bytes:
    start, end = _span(chance, data)
    return data[:start] + chance.randbytes(end - start) + data[end:]


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randint(0, len(data))]


def _lines(chance: random.Random, data: bytes) -> bytes:
    """Lines in another order, one twice, or one with another's end."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    way = chance.randrange(3)
    if way == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif way == 1:
        lines.insert(one, lines[other])
    else:
        lines[one] = lines[one][: len(lines[one]) // 2] + lines[other][len(lines[other]) // 2 :]
    return b"".join(lines)


def _value(chance: random.Random, data: bytes) -> bytes:
    """One field of a line (``key=value``, ``a:b:c``) replaced."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    number = chance.randrange(len(lines))
    body = lines[number].rstrip(b"\r\n")
    rest = lines[number][len(body) :]
    mark = chance.choice((b"=", b":", b",", b";"))
    parts = body.split(mark)
    parts[chance.randrange(len(parts))] = chance.choice(TOKENS)
    lines[number] = mark.join(parts) + rest
    return b"".join(lines)


_WAYS = (_flipped, _without, _doubled, _replaced, _random, _cut, _lines, _value, _value, _value)


def damaged_json(chance: random.Random, value: Any, *, times: int = 3) -> Any:
    """A JSON value with one to ``times`` faults somewhere in it; the value itself is left as it is."""
    for _ in range(chance.randint(1, times)):
        value = _fault(chance, value)
    return value


def _fault(chance: random.Random, value: Any) -> Any:
    deeper = isinstance(value, dict | list) and value and chance.random() < 0.85
    if not deeper:
        return _instead(chance, value)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        return [*value[:place], *_element(chance, value[place]), *value[place + 1 :]]
    key = chance.choice(sorted(value))
    way = chance.random()
    if way < 0.1:
        return {name: one for name, one in value.items() if name != key}
    if way < 0.15:
        return {**value, chance.choice(TEXTS): value[key]}
    return {**value, key: _fault(chance, value[key])}


def _element(chance: random.Random, value: Any) -> list[Any]:
    way = chance.random()
    if way < 0.1:
        return []
    if way < 0.2:
        return [value, value]
    return [_fault(chance, value)]


def _instead(chance: random.Random, value: Any) -> Any:
    """Another value in the place of one: of its own kind, or of any other."""
    deep: Any = []
    for _ in range(chance.choice((2, 50))):
        deep = [deep]
    same = NUMBERS if isinstance(value, int | float) else TEXTS
    return chance.choice(
        (
            chance.choice(same),
            chance.choice(same),
            chance.choice(NUMBERS),
            chance.choice(TEXTS),
            None,
            True,
            [],
            {},
            [value],
            {"": value},
            deep,
        )
    )
