"""
The one gate for text that others wrote. On the hook's path.

Any grid user writes the .diag of his job and most of its .local. What passes here costs a bounded time, memory and
place in the database, whatever was written; what is left out is noted. The limits are far above what real jobs need.
"""

MOST_FILE_BYTES = 1 << 20
"""Of a longer file the lines at its beginning and at its end are read: A-REX writes what matters there."""
MOST_LINE_BYTES = 1 << 16
MOST_VALUE_BYTES = 900
"""As stored. A longer key takes SQLite a page of its own in each index (it keeps 1,002 bytes in place)."""
MOST_JOB_BYTES = 72 << 10
"""All rows of a job with their entries in indexes; pages that are not full come on top."""
MOST_ROWS = {
    "auth_tokens": (200, 12 << 10),
    "auth_groups": (200, 2 << 10),
    "run_time_environments": (100, 8 << 10),
    "node_names": (5000, 16 << 10),
    "transfers": (1000, MOST_JOB_BYTES),
}
"""Of what a job may have several: the most that is kept, and how many bytes of the database that may take."""
MOST_LRMS_EVENTS = 4
"""Runs in the batch system of which start and end are kept, the last ones: readers take the last."""

CUT_MARK = "..."
"""How a value ends that was cut."""
_LEFT_OUT = b"\narcacct left out "
"""How the line begins that stands for the middle of a file. It says nothing to those who parse the file."""
_HALF = MOST_FILE_BYTES // 2 - 64
_SMALL_BYTES, _FEW_ROWS = 8 << 10, 20
"""Files and rows that cannot add up to a limit: most jobs are let through without any sum."""
_SURELY_SHORT = MOST_VALUE_BYTES // 4
"""No character takes more than four bytes as stored."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class InputLimiter:
    """What one job may still have stored, and what was left out so far."""

    __slots__ = ("_is_small", "left_bytes", "notes")

    def __init__(self, size: int) -> None:
        """``size``: bytes of all files of the job."""
        self._is_small = size <= _SMALL_BYTES
        self.left_bytes = MOST_JOB_BYTES
        self.notes: dict[str, str] = {}
        """What was left out, by field: a column of v1_jobs, what a job has several of, or a control file."""

    def lines(self, name: str, content: bytes) -> "Iterable[str]":
        """The lines of a control file, as `lines_of`, of one that is too long with a note."""
        if self._is_small and _LEFT_OUT not in content:
            return lines_of(content)
        content = beginning_and_end(content)
        if _LEFT_OUT in content:
            # The job may have written such a line itself: nothing but numbers is taken from it.
            said = content.partition(_LEFT_OUT)[2][:40].partition(b"\n")[0].split()
            left_out, size = (int(word) if word.isdigit() else 0 for word in [*said, b"", b"", b""][:3:2])
            self.notes[name] = f"{left_out} of {size} bytes not read, in the middle"
        return lines_of(content)

    def text(self, field: str, value: str, copies: int = 1) -> str:
        """A value as it may be stored, in a table and its indexes so many times."""
        if len(value) > _SURELY_SHORT and stored_bytes(value) > MOST_VALUE_BYTES:
            self.notes[field] = f"cut from {stored_bytes(value)} bytes"
            value = cut(value)
        self.left_bytes -= copies * len(value)
        return value

    def most(self, field: str, sizes: "Iterable[int]", found: int) -> int:
        """How many of ``found`` rows may be stored; ``sizes`` are theirs in the database."""
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
    """A file as it is, or of a longer one the whole lines of its beginning and its end, and between them what lacks."""
    size = len(content)
    return content if size <= MOST_FILE_BYTES else joined(content[:_HALF], content[-_HALF:], size)


def joined(beginning: bytes, end: bytes, size: int) -> bytes:
    """Whole lines of two pieces of a file of ``size`` bytes. (A line that is cut in two would be half a number.)"""
    beginning = beginning[:_HALF]
    beginning = beginning[: beginning.rfind(b"\n") + 1]
    end = end[end.find(b"\n") + 1 :] if b"\n" in end else b""
    left_out = size - len(beginning) - len(end)
    return b"%s%s%d of %d bytes\n%s" % (beginning, _LEFT_OUT, left_out, size, end)


def whole_lines(content: bytes) -> bytes:
    """A file whose middle was left out by the launcher, which knows no lines: without the two that are cut in two."""
    beginning, mark, rest = content.partition(_LEFT_OUT)
    if not mark:
        return content
    said, _, end = rest.partition(b"\n")
    return b"%s%s%s\n%s" % (beginning[: beginning.rfind(b"\n") + 1], mark, said, end[end.find(b"\n") + 1 :])


def end_of(size: int) -> tuple[int, int]:
    """Where the end of a file of ``size`` bytes, which is too long, begins that is read, and its length."""
    return max(size - _HALF, _HALF), _HALF


def lines_of(content: bytes) -> "Iterable[str]":
    r"""
    Lines as text; bytes that are not UTF-8 become ``\xHH``, which loses nothing and is what OpenSSL writes.

    Of an endless line the beginning.
    """
    if len(content) <= MOST_LINE_BYTES:
        return content.decode("utf-8", "backslashreplace").replace("\0", "").split("\n")
    return _lines_of_many(content)


def _lines_of_many(content: bytes) -> "Iterable[str]":
    """The lines with a value, a piece of the file at a time: a list of all may take sixty times the file."""
    start = 0
    while start < len(content):
        end = start + MOST_LINE_BYTES
        stop = len(content) if end >= len(content) else content.rfind(b"\n", start, end)
        piece = content[start : end if stop < 0 else stop]
        lines = piece.decode("utf-8", "backslashreplace").replace("\0", "").split("\n")
        # No other line says anything in any of the files.
        yield from [line for line in lines if "=" in line]
        after = content.find(b"\n", end) if stop < 0 else stop
        start = len(content) if after < 0 else after + 1


def stored_bytes(text: str) -> int:
    """How long a text is in the database, where a few characters become ``%HH``."""
    if text.isascii() and text.isprintable() and "%" not in text and "'" not in text and "#" not in text:
        return len(text)
    return len(text.encode("utf-8")) + 2 * sum(map(text.count, "%'#\r\b"))


def cut(text: str) -> str:
    """The beginning of a text that is too long to be stored."""
    text = text[:MOST_VALUE_BYTES]
    while (excess := stored_bytes(text) + len(CUT_MARK) - MOST_VALUE_BYTES) > 0:
        text = text[: -max(excess // 4, 1)]
    return text + CUT_MARK
