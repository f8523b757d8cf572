r"""
Text for APEL's messages: ASCII lines of ``Key: value``.

SSM decodes every message as ASCII outside any guard: one other byte stops the receiver and is delivered again for
ever. It also turns control characters and Unicode line ends into new lines, and the loader splits records at any
``%%``. All of these are written as ``\xHH``, one for each byte of UTF-8, as OpenSSL prints them in a name.
"""

from __future__ import annotations

import re
from functools import lru_cache

END = "%%\n"
"""The end of a record."""

_BYTE = {byte: f"\\x{byte:02X}" for byte in range(256)}
_PLAIN = {byte: chr(byte) for byte in range(0x20, 0x7F)}
_WRITTEN = {**_BYTE, **_PLAIN}
_CUT_ESCAPE = re.compile(r"\\(?:x[0-9A-F]?)?\Z")
_NO_VALUE = {"", "none", "null"}


def utf8_bytes(text: str) -> bytes:
    """The bytes behind a text; half a surrogate pair stands for one raw byte that was not UTF-8, else for itself."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def ascii_text(text: str) -> str:
    """The text in printable ASCII, with nothing in it that a receiver would take for something else."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_WRITTEN.__getitem__, utf8_bytes(text)))
    if "%%" in text:
        text = text.replace("%%", "%\\x25")
    if "pkcs7-mime" in text:
        # SSM takes a message with application/pkcs7-mime anywhere in it for an encrypted one.
        text = text.replace("pkcs7-mime", "pkcs7\\x2Dmime")
    return text


@lru_cache(maxsize=16384)
def field(text: str | None, limit: int) -> str | None:
    """
    A value as APEL will store it: printable ASCII, at most `limit` characters, no blanks around it.

    None for what APEL takes for nothing: an empty text, ``none`` and ``null``.
    """
    if text is None:
        return None
    value = ascii_text(text).strip()
    if len(value) > limit:
        value = cut(value, limit)
    return None if value.lower() in _NO_VALUE else value


def cut(value: str, limit: int) -> str:
    """The beginning of an escaped text, without half an escape at its end."""
    return _CUT_ESCAPE.sub("", value[:limit]).rstrip()


def folded(text: str | None) -> str | None:
    """A value as MySQL compares it in a key: without case and without blanks at the end."""
    return None if text is None else text.rstrip(" ").lower()


def record_text(fields: list[tuple[str, object]]) -> str:
    """One record, its end included; what is unknown (None) is left out."""
    return "".join([f"{key}: {value}\n" for key, value in fields if value is not None]) + END
