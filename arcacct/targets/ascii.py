r"""
Text in ASCII for receivers that read nothing else.

What is not printable is written as ``\xHH``, one for each byte of UTF-8, as OpenSSL prints it in a name.

SSM decodes every message as ASCII outside any guard: one other byte stops the receiver and is delivered again for
ever. It also turns control characters and Unicode line ends into new lines, and APEL's loader splits records at any
``%%``. Records for other receivers are measured by it, too: what is plain to APEL is plain to all of them.
"""

from __future__ import annotations

import re
from hashlib import sha256

NAME = 255
"""Characters that receivers have for the names they sum by."""
_DIGITS = 12
"""Of a digest: of a million long names two are the same with a chance of 1 in 500."""
_CUT_ESCAPE = re.compile(r"\\(?:x[0-9A-F]?)?\Z")

_WRITTEN = {byte: chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02X}" for byte in range(256)}


def ascii_text(text: str) -> str:
    """The text in printable ASCII, with nothing in it that a receiver would take for something else."""
    if not (text.isascii() and text.isprintable()):
        # Half a surrogate pair stands for one raw byte that was not UTF-8, else for itself.
        try:
            encoded = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            encoded = text.encode("utf-8", "surrogatepass")
        text = "".join(map(_WRITTEN.__getitem__, encoded))
    if "%%" in text:
        text = text.replace("%%", "%\\x25")
    if "pkcs7-mime" in text:
        # SSM takes a message with application/pkcs7-mime anywhere in it for an encrypted one.
        text = text.replace("pkcs7-mime", "pkcs7\\x2Dmime")
    return text


def spelt(text: str, limit: int) -> str:
    """
    The same, of at most so many characters, without blanks around it.

    One that is longer is cut, with no half escape. A name that receivers sum by (a user, group or host) then ends in a
    digest of the whole, but for its case, which they do not look at: two that begin alike stay two. What has less room
    than `NAME` is no such name.
    """
    value = ascii_text(text).strip()
    if len(value) <= limit:
        return value
    end = f"~{sha256(value.lower().encode()).hexdigest()[:_DIGITS]}" if limit >= NAME else ""
    return _CUT_ESCAPE.sub("", value[: limit - len(end)]).rstrip() + end
