"""Text for APEL's messages: lines of ``Key: value`` in ASCII (`targets.ascii`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from arcacct.errors import InputError
from arcacct.targets.ascii import spelt

END = "%%\n"
"""The end of a record."""

_NO_VALUE = {"", "none", "null"}
_HARMLESS = bytes((9, 10, *range(32, 127)))
# SSM takes a message that contains these words for an encrypted one, wherever they stand.
_LOOKS_ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime")


@lru_cache(maxsize=16384)
def field(text: str | None, limit: int) -> str | None:
    """
    A value as APEL will store it: printable ASCII, at most `limit` characters, no blanks around it.

    None for what APEL takes for nothing: an empty text, ``none`` and ``null``.
    """
    if text is None:
        return None
    value = spelt(text, limit)
    return None if value.lower() in _NO_VALUE else value


def folded(text: str | None) -> str | None:
    """A value as MySQL compares it in a key: without case and without blanks at the end."""
    return None if text is None else text.rstrip(" ").lower()


def record_text(fields: Iterable[tuple[str, object]]) -> str:
    """One record, its end included; what is unknown (None) is left out."""
    return lines(fields) + END


def lines(fields: Iterable[tuple[str, object]]) -> str:
    """A part of a record."""
    return "".join([f"{key}: {value}\n" for key, value in fields if value is not None])


def ssm_text(text: str) -> bytes:
    """
    The bytes of a message as SSM reads them: ASCII, lines ended by LF, tabs, and no other control character.

    SSM's receiver reads messages as ASCII before it acknowledges them: one other byte stops the central queue for
    everyone. So whoever writes a message asks here last, also where the record was already checked.
    Raises InputError with the place of what must not be there; records are escaped before (`acceptance`).
    """
    if not text.strip():
        raise InputError("message for APEL: it is empty, which SSM rejects; nothing should have been sent")
    try:
        data = text.encode("ascii")
    except UnicodeEncodeError as exc:
        where = _place(text, exc.start)
        raise InputError(f"message for APEL: {where} is {text[exc.start]!r}, and only ASCII may be sent") from exc
    # A carriage return alone breaks the signature; SSM makes line breaks of VT, FF, FS, GS and RS.
    controls = set(data.translate(None, _HARMLESS).decode())
    for found in (*controls, *(word for word in _LOOKS_ENCRYPTED if word in text)):
        raise InputError(f"message for APEL: {_place(text, text.index(found))} is {found!r}, which SSM cannot carry")
    return data


def _place(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, character {offset - text.rfind(chr(10), 0, offset)}"
