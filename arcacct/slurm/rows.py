"""
The rows of `sacct --parsable2`, out of lines that users may have broken.

sacct prints names, comments and command lines as they are, so a delimiter or a line end in one of them makes more
fields, or two lines, of one row. Whatever reading of such lines is possible is tried: a row is used where all possible
readings say the same, and set aside where they do not, with what stands around a line that has no place.

That is for accidents. Who knows the delimiter can give a job a name that is another row: what is proof against that is
a delimiter that nobody knew (as `command` uses), or JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from arcacct.errors import InputError

LONGEST_LINE = 1024 * 1024
HORIZON = 64 * 1024
"""Bytes of lines that one text may be spread over: what a comment in Slurm's database may have."""
_MOST_LINES = 50
_OF_LINE = 64
"""Bytes that Python keeps of a line besides its text, at least."""
_MOST_DELIMITERS = 200
"""A text with more than these is not put together again: trying would take too long."""

_HEADER = re.compile(r"([A-Za-z]+)([^A-Za-z]+)[A-Za-z]")
_INSTANT = r"[0-9]{1,12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{5,8}(?:[+-][0-9:]{4,6}|Z)?|None|Unknown|"
_DURATION = r"[0-9:.-]+|INVALID|UNLIMITED|Partition_Limit|"
_KINDS = {
    "JobID": r"[0-9]+(?:_(?:[0-9]+|\[[^\]\s]*\])|\+[0-9]+)?(?:\.[A-Za-z0-9_+-]+)?",
    "JobIDRaw": r"[0-9]+(?:\.[A-Za-z0-9_+-]+)?",
    "State": r"[A-Z_]+\+?(?: by -?[0-9]+)?|",
    "Submit Eligible Start End": _INSTANT,
    "Elapsed CPUTime TotalCPU UserCPU SystemCPU Suspended AveCPU MinCPU Timelimit": _DURATION,
    "Reserved Planned ResvCPU PlannedCPU": _DURATION,
    "ElapsedRaw CPUTimeRAW TimelimitRaw ResvCPURAW PlannedCPURAW": r"[0-9]+|[A-Z]\w*|",
    "AllocCPUS NCPUS NNodes ReqCPUS": r"[0-9]+",
    "AllocNodes ReqNodes NTasks UID GID AssocID QOSRAW DBIndex WCKeyID Priority ReservationId": r"-?[0-9]*",
    "ExitCode DerivedExitCode": r"[0-9]+:[0-9]+|",
    "MaxRSS AveRSS MaxVMSize AveVMSize": r"[0-9.]*[KMGTPE]?",
    "NodeList": r"None assigned|\S*",
    "Reason": r"[^\n]*",
}
_SHAPES = {name: re.compile(shape) for names, shape in _KINDS.items() for name in names.split(" ")}
"""What a field of a column looks like, where that is narrow; else it is a word without blanks, or a text."""
_WORD = re.compile(r"\S*")
_words = re.compile(r"\w+").findall
_TEXTS = _words(
    "AdminComment Comment Container Extra FailedNode JobName StdErr StdIn StdOut SubmitLine SystemComment WorkDir"
)
"""Columns in which a text may have delimiters and line ends."""
COLUMNS = _words(
    "JobID JobIDRaw Cluster State Submit Start End Elapsed ElapsedRaw Suspended ExitCode AllocCPUS NCPUS NNodes JobName"
    " AllocTRES TotalCPU UserCPU SystemCPU TRESUsageInTot MaxRSS MaxVMSize Partition User Group Account QOS WCKey"
    " NodeList"
)
"""The columns that are used, of those that sacct has; a text stands between others, so that its end is seen."""
_CANONICAL = {name.lower(): name for name in (*COLUMNS, *_SHAPES, *_TEXTS)}


class TableHeader(NamedTuple):
    """The first line of an output."""

    columns: tuple[str, ...]
    delimiter: str
    line: str


class TableRow(NamedTuple):
    """One row, by column; all lines that it was on, and the number of the first."""

    values: dict[str, str]
    lines: tuple[str, ...]
    number: int


class Misfit(NamedTuple):
    """Lines that are no row, or of which it is not certain which."""

    reason: str
    lines: Sequence[str]
    number: int
    job: str
    """JobIDRaw, as far as it can be told; else empty."""


def header_of(line: str, delimiter: str | None = None) -> TableHeader:
    """The columns that a first line names; ``delimiter`` if it has letters. Raises InputError when it is no header."""
    if delimiter is None:
        match = _HEADER.match(line)
        delimiter = match[2] if match else ""
    columns = tuple(line.removesuffix(delimiter).split(delimiter)) if delimiter else ()
    if not delimiter.strip(" ") or len(columns) < 2 or not all(name.isascii() and name.isalpha() for name in columns):
        raise InputError("its first line is no header of sacct: print it with --parsable2, and with its header")
    if len(set(columns)) < len(columns):
        raise InputError("its header names a column twice")
    return TableHeader(columns, delimiter, line)


class TableRows:
    """The rows of one output, line by line."""

    def __init__(self, header: TableHeader) -> None:
        self._delimiter = header.delimiter
        self._columns = header.columns
        self._width = len(header.columns)
        self._closed = header.line.endswith(header.delimiter)
        # sacct takes names in whatever letters.
        self._names = [_CANONICAL.get(name.lower(), name) for name in header.columns]
        self._shapes = [_SHAPES.get(name, _WORD) for name in self._names]
        self._is_text = [name in _TEXTS for name in self._names]
        self._checked = [(place, self._shapes[place]) for place, free in enumerate(self._is_text) if not free]
        self._used = [name in COLUMNS for name in self._names]

    def of(self, lines: Iterable[tuple[int, str]]) -> Iterator[TableRow | Misfit]:
        """Every row of some numbered lines (without their ends), and what is none; bounded memory."""
        stretch: list[tuple[int, str]] = []
        left = length = 0
        before: TableRow | None = None
        for number, line in lines:
            row = self._alone(number, line)
            if row is not None and not stretch:
                if before is not None:
                    yield before
                before = row
                continue
            if not stretch:
                stretch = [] if before is None else [(before.number, before.lines[0])]
                length = sum(len(one) for _, one in stretch)
                before = None
            stretch.append((number, line))
            # An empty line is something to keep, too.
            length += len(line) + _OF_LINE
            left = HORIZON if row is None else left - len(line)
            if left <= 0 or length > 4 * LONGEST_LINE:
                yield from self._resolved(stretch)
                stretch = []
        if before is not None:
            yield before
        yield from self._resolved(stretch)

    def _alone(self, number: int, line: str) -> TableRow | None:
        """A line that is a row by itself, as nearly all are."""
        fields = line.split(self._delimiter)
        if self._closed and fields[-1] == "":
            fields.pop()
        if len(fields) != self._width:
            return None
        if not all(shape.fullmatch(fields[place]) for place, shape in self._checked):
            return None
        return TableRow(dict(zip(self._names, fields, strict=True)), (line,), number)

    def _may_begin(self, line: str) -> bool:
        """Whether a line begins as a row does: with what stands before the first text, as far as it goes."""
        for field, shape, is_text in zip(line.split(self._delimiter), self._shapes, self._is_text, strict=False):
            if is_text:
                break
            if not shape.fullmatch(field):
                return False
        return True

    def _resolved(self, stretch: Sequence[tuple[int, str]]) -> list[TableRow | Misfit]:
        """
        The rows of lines of which some are broken.

        A line that is not even the beginning of a row is what is left of one before it: the last broken one, else the
        one just before. All that stands between is in doubt, and set aside as one.
        """
        found: list[TableRow | Misfit] = []
        place = 0
        while place < len(stretch):
            row, count = self._next(stretch, place)
            place += count
            line = row.lines[0]
            is_short = line.count(self._delimiter) + 1 < self._width
            if isinstance(row, Misfit) and is_short and not self._may_begin(line):
                broken = (
                    at for at in reversed(range(len(found))) if isinstance(found[at], Misfit) or found[at].lines[1:]
                )
                first = next(broken, max(0, len(found) - 1))
                doubtful = found[first:]
                del found[first:]
                # Lines of which thousands are left of one row are added to one list.
                lines = doubtful[0].lines if doubtful and isinstance(doubtful[0].lines, list) else []
                lines += (line for one in (*doubtful, row) if one.lines is not lines for line in one.lines)
                row = row._replace(lines=lines, number=doubtful[0].number if doubtful else row.number)
            found.append(row)
        return [one._replace(lines=tuple(one.lines)) if isinstance(one, Misfit) else one for one in found]

    def _next(self, stretch: Sequence[tuple[int, str]], place: int) -> tuple[TableRow | Misfit, int]:
        """The row that begins at a line, and how many lines it has."""
        number, line = stretch[place]
        row = self._alone(number, line)
        if row is not None:
            return row, 1
        if self._may_begin(line):
            lines: list[str] = []
            for _, own in stretch[place : place + _MOST_LINES]:
                lines.append(own)
                values = self._put_together("\n".join(lines))
                if values is not None and lines[1:] and self._alone(number, own) is not None:
                    reason = "it may go on in the next line, which may be a row as well: it is not certain which"
                    return Misfit(reason, tuple(lines), number, self._job(line)), len(lines)
                if values is not None:
                    return TableRow(values, tuple(lines), number), len(lines)
                if (lines[1:] and self._alone(number, own) is not None) or sum(map(len, lines)) > HORIZON:
                    break
        fields = line.split(self._delimiter)
        wrong = f"{len(fields)} fields where the header names {self._width}"
        if len(fields) == self._width:
            at = next(at for at, shape in self._checked if not shape.fullmatch(fields[at]))
            wrong = f"{self._names[at]}: {fields[at][:40]!r} is not what stands there"
        return Misfit(wrong, (line,), number, self._job(line)), 1

    def _job(self, line: str) -> str:
        fields = line.split(self._delimiter)
        place = self._names.index("JobIDRaw") if "JobIDRaw" in self._names else len(fields)
        if any(self._is_text[:place]) or place >= len(fields) or not self._shapes[place].fullmatch(fields[place]):
            return ""
        return fields[place]

    def _put_together(self, text: str) -> dict[str, str] | None:
        """
        The values of a row of which texts have delimiters or line ends; ``None`` if it is none, or not certain.

        Column by column: how many fields too many may have been in the texts before it, so that it looks as it should.
        """
        fields = text.split(self._delimiter)
        if self._closed and fields[-1] == "":
            fields.pop()
        extra = len(fields) - self._width
        ways = self._ways(fields, extra) if 0 <= extra <= _MOST_DELIMITERS else []
        values = {}
        for place, (begins, ends) in enumerate(pairwise(ways)):
            spans = [(one, other) for one in begins for other in ends if one <= other]
            if not self._is_text[place]:
                spans = [(one, other) for one, other in spans if one == other]
            readings = {self._delimiter.join(fields[place + one : place + other + 1]) for one, other in spans}
            if len(readings) == 1:
                values[self._names[place]] = readings.pop()
            elif self._used[place]:
                return None
        return values or None

    def _ways(self, fields: Sequence[str], extra: int) -> list[set[int]]:
        """
        How many of the ``extra`` fields may stand before each column, and behind the last; empty: there is no way.

        Forward what can be reached so that each field looks as it should, then backward what leads to the end.
        """
        forward = [{0}]
        for place, (shape, is_text) in enumerate(zip(self._shapes, self._is_text, strict=True)):
            if is_text:
                forward.append(set(range(min(forward[-1], default=extra + 1), extra + 1)))
            else:
                forward.append({before for before in forward[-1] if shape.fullmatch(fields[place + before])})
        if extra not in forward[-1]:
            return []
        ways = [{extra}]
        for reached, is_text in zip(reversed(forward[:-1]), reversed(self._is_text), strict=True):
            most = max(ways[-1])
            ways.append({before for before in reached if before <= most} if is_text else reached & ways[-1])
        return ways[::-1]
