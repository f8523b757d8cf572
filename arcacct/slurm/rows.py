"""
The rows of `sacct --parsable2`, out of lines that users may have broken.

sacct prints names, comments and command lines as they are, so a delimiter or a line end in one of them makes more
fields, or two lines, of one row. A line with the right number of fields is a row. Of other lines, columns whose values
have a proven shape (a number, a time, a state, an id) show where the others are: any other column may hold the
delimiter. The line is used if exactly one reading is possible, else it is rejected alone. Lines without the delimiter
are noise.

That is for accidents. Who knows the delimiter can give a job a name that is another row: what is proof against that is
a delimiter that nobody knew (as `command` uses), or JSON. With such a delimiter the number of fields decides alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from arcacct.errors import InputError
from arcacct.records.slurm_formats import is_secret

LONGEST_LINE = 1024 * 1024
HORIZON = 64 * 1024
"""Bytes of lines that one text may be spread over: what a comment in Slurm's database may have."""
_MOST_LINES = 50
_MOST_DELIMITERS = 200
"""A text with more than these is not put together again: trying would take too long."""
_ADVICE = "print it with --json or another --delimiter, or use `arcacct import slurm --run`"

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
    "AllocTRES ReqTRES TRESUsageInTot": r"(?:[\w/:.-]+=[^,=\s]+(?:,[\w/:.-]+=[^,=\s]+)*)?",
    "Layout": r"(?:[A-Z][A-Za-z]*)?",
    "Cluster": r"[\w.-]*",
    "NodeList": r"None assigned|[\w.,\[\]-]*",
}
_SHAPES = {name: re.compile(shape, re.ASCII) for names, shape in _KINDS.items() for name in names.split(" ")}
"""What a value of a column looks like, where that is proven. Any other column may hold the delimiter."""
NEEDED = ("JobIDRaw", "State", "Submit", "Start", "End")
"""Columns without which nothing can be accounted."""
_words = re.compile(r"\w+").findall
_TEXTS = _words(
    "AdminComment Comment Container Extra FailedNode JobName StdErr StdIn StdOut SubmitLine SystemComment WorkDir"
)
"""Columns whose texts may have line ends."""
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
    """A line that is no row, or of which it is not certain which."""

    reason: str
    lines: tuple[str, ...]
    number: int
    job: str
    """JobIDRaw, as far as it is known; else empty."""


class Noise(NamedTuple):
    """A line without the delimiter: blank, or something that another program printed."""

    line: str
    number: int


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
        self._width = len(header.columns)
        self._closed = header.line.endswith(header.delimiter)
        self._counts_alone = is_secret(header.delimiter)
        # sacct takes names in whatever letters.
        self._names = [_CANONICAL.get(name.lower(), name) for name in header.columns]
        self._shapes = [None if self._counts_alone else _SHAPES.get(name) for name in self._names]
        self._has_line_ends = [name in _TEXTS for name in self._names]
        self._used = [name in COLUMNS for name in self._names]
        self._needed = [(place, one) for place, one in enumerate(self._shapes) if one and self._names[place] in NEEDED]

    def of(self, lines: Iterable[tuple[int, str]]) -> Iterator[TableRow | Misfit | Noise]:
        """Every row of some numbered lines (without their ends), and what is none; bounded memory."""
        coming = iter(lines)
        ahead: deque[tuple[int, str]] = deque()
        while ahead or (ahead := deque(islice(coming, 1))):
            number, line = ahead.popleft()
            row = self._alone(number, line)
            if row is not None:
                yield row
            elif self._delimiter not in line:
                yield Noise(line, number)
            else:
                yield self._broken(number, line, ahead, coming)

    def _fields(self, line: str) -> list[str]:
        fields = line.split(self._delimiter)
        if self._closed and fields[-1] == "":
            fields.pop()
        return fields

    def _alone(self, number: int, line: str) -> TableRow | None:
        """A line that is a row by itself, as nearly all are."""
        fields = self._fields(line)
        if len(fields) != self._width or not all(shape.fullmatch(fields[place]) for place, shape in self._needed):
            return None
        return TableRow(dict(zip(self._names, fields, strict=True)), (line,), number)

    def _broken(
        self, number: int, line: str, ahead: deque[tuple[int, str]], coming: Iterator[tuple[int, str]]
    ) -> TableRow | Misfit:
        """The row that a line is, or is with lines behind it, which are taken then; else what is wrong with it."""
        lines = [line]
        length = len(line)
        values = self._put_together(line)
        goes_on = self._begun(line) is not None
        while values is None and goes_on and len(lines) < _MOST_LINES and length <= HORIZON:
            if len(lines) > len(ahead):
                ahead.extend(islice(coming, 1))
            if len(lines) > len(ahead):
                break
            _, own = ahead[len(lines) - 1]
            # What is, or begins as, a row of its own is no part of this one.
            if self._alone(number, own) is not None or (self._begun(own) or 0) > 1:
                break
            lines.append(own)
            length += len(own)
            values = self._put_together("\n".join(lines))
        if values is None:
            return Misfit(self._wrong(line), (line,), number, self._job(line))
        for _ in lines[1:]:
            ahead.popleft()
        return TableRow(values, tuple(lines), number)

    def _begun(self, line: str) -> int | None:
        """How many proven values are before the first text that may have line ends; ``None``: it begins no row."""
        proven = 0
        for field, shape, is_text in zip(self._fields(line), self._shapes, self._has_line_ends, strict=False):
            if is_text:
                break
            if shape is not None and not shape.fullmatch(field):
                return None
            proven += shape is not None and field != ""
        return proven

    def _wrong(self, line: str) -> str:
        fields = self._fields(line)
        if len(fields) == self._width:
            at = next(at for at, shape in self._needed if not shape.fullmatch(fields[at]))
            return f"{self._names[at]}: {fields[at][:40]!r} is not what stands there"
        wrong = f"{len(fields)} fields where the header names {self._width}"
        if len(fields) > self._width and not self._counts_alone:
            return f"{wrong}, and it is not certain which of them hold the delimiter: {_ADVICE}"
        return wrong

    def _job(self, line: str) -> str:
        place = self._names.index("JobIDRaw") if "JobIDRaw" in self._names else self._width
        fields = self._fields(line)
        if place >= len(fields) or not (self._counts_alone or all(self._shapes[: place + 1])):
            return ""
        if len(fields) != self._width and self._begun(line) is None:
            return ""
        return fields[place] if _SHAPES["JobIDRaw"].fullmatch(fields[place]) else ""

    def _put_together(self, text: str) -> dict[str, str] | None:
        """
        The values of a row of which texts have delimiters or line ends; ``None`` if it is none, or not certain.

        Column by column: how many fields too many may have been in the columns before it.
        """
        fields = self._fields(text)
        extra = len(fields) - self._width
        most = 0 if self._counts_alone else _MOST_DELIMITERS
        ways = self._ways(fields, extra) if 0 <= extra <= most else []
        values = {}
        for place, (begins, ends) in enumerate(pairwise(ways)):
            if not self._used[place]:
                continue
            readings: set[str] = set()
            for one in begins:
                furthest = self._furthest(fields, place, one, extra)
                spans = (fields[place + one : place + other + 1] for other in ends if one <= other <= furthest)
                readings.update(map(self._delimiter.join, spans))
                if len(readings) > 1:
                    return None
            values[self._names[place]] = readings.pop()
        return values or None

    def _furthest(self, fields: Sequence[str], place: int, before: int, extra: int) -> int:
        """How many of the ``extra`` fields a column may leave behind it, if ``before`` are before; -1: it cannot be."""
        shape = self._shapes[place]
        if shape is not None:
            return before if shape.fullmatch(fields[place + before]) else -1
        if self._has_line_ends[place]:
            return extra
        whole = (at for at in range(before, extra + 1) if "\n" in fields[place + at])
        return next(whole, extra + 1) - 1

    def _ways(self, fields: Sequence[str], extra: int) -> list[list[int]]:
        """
        How many of the ``extra`` fields may stand before each column, and behind the last; empty: there is no way.

        Forward what can be reached so that each value looks as it should, then backward what leads to the end.
        """
        forward = [[0]]
        for place in range(self._width):
            reached: list[int] = []
            for before in forward[-1]:
                first = max(before, reached[-1] + 1) if reached else before
                reached.extend(range(first, self._furthest(fields, place, before, extra) + 1))
            forward.append(reached)
        if not forward[-1] or forward[-1][-1] != extra:
            return []
        ways = [[extra]]
        for place in reversed(range(self._width)):
            after = ways[-1]
            good = []
            for before in forward[place]:
                at = bisect_left(after, before)
                if at < len(after) and after[at] <= self._furthest(fields, place, before, extra):
                    good.append(before)
            ways.append(good)
        return ways[::-1]
