"""
The text of a message for SSM, checked once more before it leaves.

SSM's receiver reads messages as ASCII before it acknowledges them: one other byte stops the central queue for
everyone. So whoever writes a message asks here last, also where the record was already checked.
"""

from __future__ import annotations

from arcacct.errors import InputError


def ssm_text(text: str) -> bytes:
    """
    The bytes of a message as SSM reads them: ASCII, lines ended by LF, tabs, and no other control character.

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


_HARMLESS = bytes((9, 10, *range(32, 127)))
# SSM takes a message that contains these words for an encrypted one, wherever they stand.
_LOOKS_ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime")


def _place(text: str, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, character {offset - text.rfind(chr(10), 0, offset)}"
