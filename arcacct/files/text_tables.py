"""Tables in text files of other programs and of people: the output of `mysql --batch`, and CSV."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from arcacct.errors import InputError
from arcacct.files.safe_open import read_regular

_ESCAPES = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\0": "\0"}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)


def read_text(path: str, most_bytes: int, advice: str, *, errors: str = "strict") -> str:
    """
    Return the content of a regular file in UTF-8, without a byte order mark.

    ``advice``: what to do if it has more bytes than ``most_bytes``; ``errors``: of the decoder. Raises InputError for a
    file that cannot be read, is larger, or is not UTF-8.
    """
    try:
        content = read_regular(path, most_bytes)
    except OSError as error:
        todo = advice if error.errno == errno.EFBIG else "give a regular file that this user may read"
        raise InputError(f"{path}: cannot be read: {error.strerror}; {todo}") from error
    try:
        return content.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from error


def batch_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """
    Yield the number of each line that `mysql --batch` or `mariadb --batch` printed, and its cells, still escaped.

    A line ends at LF alone, so CR is a part of the last cell; if every line ends in CR LF, the file was converted for
    Windows. There are no quotes. Raises ValueError if the last line has no end. Source: ``safe_put_field`` and
    ``print_tab_data`` of the client.
    """
    lines = text.count("\n")
    if text and not text.endswith("\n"):
        raise ValueError(f"line {lines + 1}: it has no end, so the file was truncated; copy it again")
    end = "\r\n" if text.count("\r\n") == lines else "\n"
    at = 0
    for number in range(1, lines + 1):
        until = text.index(end, at)
        yield number, text[at:until].split("\t")
        at = until + len(end)


def unescaped(cell: str) -> str:
    r"""
    Return the text of a cell of `batch_rows`: the client escapes backslash, tab, LF and NUL, and prints all else as is.

    Raises ValueError for a backslash before another character: the client prints one only with ``--raw``. NULL and the
    text ``NULL`` look the same.
    """
    if "\\" not in cell:
        return cell
    wrong = next((found[0] for found in _ESCAPE.finditer(cell) if found[0] not in _ESCAPES), None)
    if wrong is not None:
        raise ValueError(f"{wrong} is not an escape of `mysql --batch`; export without --raw")
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], cell)


def csv_rows(text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """
    Yield the number of the first line of each row of CSV, and its cells (RFC 4180; lines end at LF or CR LF).

    A cell that starts with a quote ends at the next single one; quotes within other cells and backslashes are text.
    Empty lines are left out. Raises ValueError for a quote without an end, and for text after the end.
    """
    mark = re.escape(delimiter)
    cell = re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"{mark}\n][^{mark}\n]*?)??)({mark}|\r?\n|\Z)')
    line, row = 1, list[str]()
    start = at = 0
    while at < len(text) or row:
        found = cell.match(text, at)
        if found is None:
            number = line + text.count("\n", start, at)
            raise ValueError(f"line {number}: a quote has no end, or text follows it; export the table again")
        quoted, plain, end = found.groups()
        row.append(plain or "" if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if end != delimiter:
            if row != [""]:
                yield line, row
            line += text.count("\n", start, at)
            start, row = at, []
