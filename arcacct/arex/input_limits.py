"""
The one gate for text that others wrote.

Any grid user writes the .diag of his job and most of its .local. Whatever he writes, the text that passes here costs
bounded time, memory and database space. Omissions are noted. The limits are far above the needs of real jobs.
"""

from __future__ import annotations

from collections.abc import Iterable

MOST_FILE_BYTES = 1 << 20
"""Only the lines at the start and the end of a longer file are read: A-REX writes the important ones there."""
MOST_LINE_BYTES = 1 << 16
MOST_VALUE_BYTES = 900
"""Bytes as stored. A longer key takes a page of its own in each index of SQLite (it keeps 1,002 bytes in place)."""
MOST_JOB_BYTES = 72 << 10
"""All rows of a job with their entries in indexes, in bytes. Partly filled pages come on top."""
MOST_ROWS = {
    "auth_tokens": (200, 12 << 10),
    "auth_groups": (200, 2 << 10),
    "run_time_environments": (100, 8 << 10),
    "node_names": (5000, 16 << 10),
    "transfers": (1000, MOST_JOB_BYTES),
}
"""For repeated values of a job: the highest number that is kept, and their highest size in the database in bytes."""
MOST_LRMS_EVENTS = 4
"""The highest number of batch system runs with start and end. The last ones are kept: readers use the last."""

CUT_MARK = "..."
"""The end of a value that was cut."""
_LEFT_OUT = b"\narcacct left out "
"""The start of the line that replaces the middle of a file. Parsers of the file ignore it."""
_HALF = MOST_FILE_BYTES // 2 - 64
_SMALL_BYTES, _FEW_ROWS = 8 << 10, 20
"""Files and rows that are too small to reach a limit: most jobs pass without any sum."""
_SURELY_SHORT = MOST_VALUE_BYTES // 4
"""The most bytes of a character as stored."""


class InputLimiter:
    """Counts the storage that one job has left, and notes what was left out."""

    def __init__(self, size: int) -> None:
        """Start a job; ``size``: bytes of all its files."""
        self._is_small = size <= _SMALL_BYTES
        self.left_bytes = MOST_JOB_BYTES
        self.notes: dict[str, str] = {}
        """The omissions, by field: a column of v1_jobs, a kind of repeated value, or a control file."""

    def lines(self, name: str, content: bytes) -> Iterable[str]:
        """Return the lines of a control file as `lines_of`, and note an omission if the file is too long."""
        if self._is_small and _LEFT_OUT not in content:
            return lines_of(content)
        content = beginning_and_end(content)
        if _LEFT_OUT in content:
            # The job may have written such a line: only numbers are taken from it.
            said = content.partition(_LEFT_OUT)[2][:40].partition(b"\n")[0].split()
            left_out, size = (int(word) if word.isdigit() else 0 for word in [*said, b"", b"", b""][:3:2])
            self.notes[name] = f"{left_out} of {size} bytes in the middle not read"
        return lines_of(content)

    def text(self, field: str, value: str, copies: int = 1) -> str:
        """Return a value as it may be stored; ``copies``: how often it is stored, in a table and its indexes."""
        if len(value) > _SURELY_SHORT and stored_bytes(value) > MOST_VALUE_BYTES:
            self.notes[field] = f"cut from {stored_bytes(value)} bytes"
            value = cut(value)
        self.left_bytes -= copies * len(value)
        return value

    def most(self, field: str, sizes: Iterable[int], found: int) -> int:
        """Return how many of ``found`` rows may be stored; ``sizes``: their bytes in the database."""
        if self._is_small and found <= _FEW_ROWS:
            return found
        rows, left = MOST_ROWS[field]
        left = min(left, self.left_bytes)
        kept = 0
        for size in sizes:
            if kept == rows or size > left:
                break
            left -= size
            self.left_bytes -= size
            kept += 1
        if kept < found:
            self.notes[field] = f"{kept} of {found} kept"
        return kept


def beginning_and_end(content: bytes) -> bytes:
    """Return a file unchanged; of a longer one the whole lines at its start and end, with a line about the omission."""
    size = len(content)
    return content if size <= MOST_FILE_BYTES else joined(content[:_HALF], content[-_HALF:], size)


def joined(beginning: bytes, end: bytes, size: int) -> bytes:
    """Join the whole lines of two pieces of a file of ``size`` bytes. (Half of a line could be half of a number.)"""
    beginning = beginning[:_HALF]
    beginning = beginning[: beginning.rfind(b"\n") + 1]
    end = end[end.find(b"\n") + 1 :] if b"\n" in end else b""
    left_out = size - len(beginning) - len(end)
    return b"%s%s%d of %d bytes\n%s" % (beginning, _LEFT_OUT, left_out, size, end)


def whole_lines(content: bytes) -> bytes:
    """Remove the two incomplete lines around the part that the launcher left out: it cuts without regard to lines."""
    beginning, mark, rest = content.partition(_LEFT_OUT)
    if not mark:
        return content
    said, _, end = rest.partition(b"\n")
    return b"%s%s%s\n%s" % (beginning[: beginning.rfind(b"\n") + 1], mark, said, end[end.find(b"\n") + 1 :])


def end_of(size: int) -> tuple[int, int]:
    """Return the offset and the length of the end that is read of a file of ``size`` bytes, which is too long."""
    return max(size - _HALF, _HALF), _HALF


def lines_of(content: bytes) -> Iterable[str]:
    r"""
    Return lines as text. Bytes that are not UTF-8 become ``\xHH``, which loses nothing and is what OpenSSL writes.

    Of an overlong line only the start is returned.
    """
    if len(content) <= MOST_LINE_BYTES:
        return content.decode("utf-8", "backslashreplace").replace("\0", "").split("\n")
    return _lines_of_many(content)


def _lines_of_many(content: bytes) -> Iterable[str]:
    """Yield the lines with a value, piece by piece: a list of all lines may take sixty times the size of the file."""
    start = 0
    while start < len(content):
        end = start + MOST_LINE_BYTES
        stop = len(content) if end >= len(content) else content.rfind(b"\n", start, end)
        piece = content[start : end if stop < 0 else stop]
        lines = piece.decode("utf-8", "backslashreplace").replace("\0", "").split("\n")
        # Only lines with "=" have a meaning in these files.
        yield from [line for line in lines if "=" in line]
        after = content.find(b"\n", end) if stop < 0 else stop
        start = len(content) if after < 0 else after + 1


def stored_bytes(text: str) -> int:
    """Return the length of a text in the database in bytes, where a few characters become ``%HH``."""
    if text.isascii() and text.isprintable() and "%" not in text and "'" not in text and "#" not in text:
        return len(text)
    return len(text.encode("utf-8")) + 2 * sum(map(text.count, "%'#\r\b"))


def cut(text: str) -> str:
    """Return the start of a text that is too long to be stored."""
    text = text[:MOST_VALUE_BYTES]
    while (excess := stored_bytes(text) + len(CUT_MARK) - MOST_VALUE_BYTES) > 0:
        text = text[: -max(excess // 4, 1)]
    return text + CUT_MARK
