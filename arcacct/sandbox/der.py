"""
As much of DER as certificates' names and S/MIME messages need: tag, length, value.

`cryptography` signs messages and encrypts them, but verifies no signature, and opens no envelope before its version 44;
OpenSSL's program need not be there. Only definite lengths and one-byte tags: all that DER has here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
        if position + 1 >= len(data):
            raise ValueError("an element without a length")
        begin, size = position + 2, data[position + 1]
        if size >= 0x80:
            digits = size & 0x7F
            begin, size = begin + digits, int.from_bytes(data[begin : begin + digits], "big")
            if digits == 0 or begin > len(data):
                raise ValueError("an indefinite or broken length")
        end = begin + size
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


def content_info(encoded: bytes, kind: str, words: str) -> list[Item]:
    """The parts of a message of CMS (RFC 5652 section 3); ValueError if it is not of this kind, in `words`."""
    found, wrapped = items(item(encoded, SEQUENCE).content)
    if oid(found.content) != kind:
        raise ValueError(f"not {words}")
    return list(items(item(wrapped.content, SEQUENCE).content))


def encode(tag: int, content: bytes) -> bytes:
    """An element of this tag."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(digits))) + digits + content


def oid(content: bytes) -> str:
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
