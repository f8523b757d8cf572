"""
As much of DER as certificates' names and signed messages need: tag, length, value.

Only definite lengths and one-byte tags: all that DER (and what OpenSSL and `cryptography` write) has here.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

INTEGER = 0x02
OCTET_STRING = 0x04
OID = 0x06
UTF8_STRING = 0x0C
SEQUENCE = 0x30
SET = 0x31
CONTEXT_0 = 0xA0


class Item(NamedTuple):
    """One element: its tag, what it holds, and all its bytes with tag and length."""

    tag: int
    content: bytes
    whole: bytes


def items(data: bytes) -> Iterator[Item]:
    """
    The elements that follow each other in `data`.

    ValueError if the bytes end inside one, or a length is indefinite (BER, which DER forbids).
    """
    position = 0
    while position < len(data):
        begin, length = _length(data, position + 1)
        end = begin + length
        if end > len(data):
            raise ValueError(f"an element at byte {position} needs {end - len(data)} bytes more than there are")
        yield Item(data[position], data[begin:end], data[position:end])
        position = end


def item(data: bytes, tag: int) -> Item:
    """The first element of `data`, which must have this tag; else ValueError."""
    first = next(items(data), None)
    if first is None or first.tag != tag:
        raise ValueError(
            f"expected an element with tag {tag:#04x}, found {'none' if first is None else hex(first.tag)}"
        )
    return first


def encode(tag: int, content: bytes) -> bytes:
    """An element of this tag."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(digits))) + digits + content


def encode_oid(dotted: str) -> bytes:
    """An object identifier, e.g. ``2.5.4.3``."""
    first, second, *rest = (int(part) for part in dotted.split("."))
    return encode(OID, b"".join(_base128(arc) for arc in (first * 40 + second, *rest)))


def decode_oid(content: bytes) -> str:
    """The dotted form of an object identifier's content."""
    arcs: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2) if arcs else 0
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:]))) if arcs else ""


def _length(data: bytes, position: int) -> tuple[int, int]:
    """Where the content begins and how long it is."""
    if position >= len(data):
        raise ValueError("an element without a length")
    first = data[position]
    if first < 0x80:
        return position + 1, first
    count = first & 0x7F
    if count == 0 or position + 1 + count > len(data):
        raise ValueError("an indefinite or broken length")
    return position + 1 + count, int.from_bytes(data[position + 1 : position + 1 + count], "big")


def _base128(value: int) -> bytes:
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F | 0x80)
    return bytes(reversed(digits))
