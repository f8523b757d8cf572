"""
What sacct printed, as runs of jobs: tables and JSON, read piece by piece.

What cannot be used comes with everything that is needed to read it again: it stands for itself, header and all.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain
from typing import NamedTuple

from arcacct.errors import InputError
from arcacct.records.import_quarantine import Fault, fault_of
from arcacct.slurm import json_form
from arcacct.slurm.record import NoUsage, SacctPart, SacctUse, SlurmRun, run_of
from arcacct.slurm.rows import LONGEST_LINE, Misfit, Noise, TableHeader, TableRow, TableRows, header_of
from arcacct.slurm.table import check, part


class OutputForm(NamedTuple):
    """What an output does not say of itself."""

    delimiter: str | None = None
    """``None``: what stands behind the first name in its header."""
    zone: tzinfo | None = None
    """Of times without an offset; ``None``: this machine's."""
    cluster: str | None = None
    """What the cluster is called here; ``None``: as Slurm calls it."""


class ParsedJob(NamedTuple):
    """One job of an output, or a line of it that is no job's."""

    what: SlurmRun | NoUsage | Fault | Noise
    position: str
    content: str
    """The same job as an output of its own; as far as LONGEST_LINE."""
    length: int
    """How long all of that is, in bytes."""
    is_line: bool = False
    """Whether it is a line that no job is known of, or of a step whose job is read without it."""
    unusable: frozenset[str] = frozenset()
    """Columns (as tables have them) with a value that cannot be used, and that accounting can do without."""


def read(chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedJob]:
    """
    Every job of an output, in its order. Bounded memory.

    Raises InputError when it is none, or ends before its end; what came before is good.
    """
    coming = iter(chunks)
    begun: list[bytes] = []
    for chunk in coming:
        begun.append(chunk)
        if chunk.strip():
            break
    whole = chain(begun, coming)
    if b"".join(begun).lstrip().startswith(b"{"):
        return _json(whole, form)
    return _table(whole, form)


def _json(chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedJob]:
    for number, one in enumerate(json_form.elements(chunks, LONGEST_LINE), 1):
        what: SlurmRun | NoUsage | Fault
        unusable = set(one.unusable)
        try:
            what = one.fault or run_of(*json_form.parts(one, unusable), form.cluster, unusable)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs this job alone
            what = fault_of(error)
        content, length = _bounded(f'{{"jobs": [{one.text}]}}')
        length += one.length - len(one.text)
        yield ParsedJob(what, f"job {number}", content, length, unusable=frozenset(unusable))


def _bounded(content: str) -> tuple[str, int]:
    """As much of a text as is kept, and how long it is in bytes."""
    return content[:LONGEST_LINE], len(content.encode("utf-8", "surrogateescape"))


def _table(chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedJob]:
    lines = _lines(chunks)
    first = next(lines, None)
    if first is None:
        raise InputError("it is empty: not even the header of sacct is there")
    header = header_of(first[1], form.delimiter)
    check(header)
    jobs = _Jobs(header, form)
    for row in TableRows(header).of(lines):
        yield from jobs.take(row)
    yield from jobs.end()


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Numbered lines; one that is longer than any row is cut, and fits nowhere then."""
    decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
    rest = ""
    number = 0
    for chunk in chunks:
        *lines, rest = (rest + decode(chunk)).split("\n")
        for line in lines:
            number += 1
            yield number, line[:LONGEST_LINE]
        rest = rest[:LONGEST_LINE]
    if rest:
        yield number + 1, rest


class _Jobs:
    """Rows of jobs, each with the rows of its steps behind it."""

    def __init__(self, header: TableHeader, form: OutputForm) -> None:
        self._header = header
        self._form = form
        self._empty()

    def _empty(self) -> None:
        self._job: SacctPart | None = None
        self._steps = SacctUse()
        self._fault: Fault | None = None
        self._unusable: set[str] = set()
        self._number = 0
        self._job_id = 0
        self._lines: list[str] = []
        self._length = 0
        self._whole = True

    def take(self, row: TableRow | Misfit | Noise) -> Iterator[ParsedJob]:
        """One more row; the job before it, if it is another one's. A bad line costs nothing but itself."""
        if isinstance(row, Noise):
            yield ParsedJob(row, f"line {row.number}", row.line, len(row.line), is_line=True)
            return
        if isinstance(row, Misfit):
            yield from self._take_misfit(row)
            return
        unusable: set[str] = set()
        try:
            one = part(row.values, self._form.zone, unusable)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs this row alone
            number = row.values["JobIDRaw"]
            yield from self._take_misfit(Misfit(fault_of(error).reason, row.lines, row.number, number))
            return
        if not one.step or one.run.job_id != self._job_id:
            yield from self.end()
            self._job_id = one.run.job_id
        self._add(row)
        self._unusable |= unusable
        if one.step:
            self._steps = self._steps.plus(one.use)
        else:
            self._job = one

    def _take_misfit(self, row: Misfit) -> Iterator[ParsedJob]:
        number, _, step = row.job.partition(".")
        # A number may be longer than any of Slurm's, and than Python reads.
        job_id = int(number[:20] or -1)
        if number and (not step or (self._fault is not None and job_id == self._job_id)):
            if not step:
                yield from self.end()
            self._add(row)
            self._fault = self._fault or Fault(row.reason)
            self._job_id = job_id
            return
        content, length = _bounded("".join(f"{line}\n" for line in (self._header.line, *row.lines)))
        yield ParsedJob(Fault(row.reason), f"line {row.number}", content, length, is_line=True)

    def _add(self, row: TableRow | Misfit) -> None:
        if not self._number:
            self._number = row.number
            self._length = len(self._header.line) + 1
        for line in row.lines:
            self._length += len(line) + 1
            self._whole &= self._length <= LONGEST_LINE
            if self._whole:
                self._lines.append(line)

    def end(self) -> Iterator[ParsedJob]:
        """The job that is complete now."""
        if not self._number:
            return
        what: SlurmRun | NoUsage | Fault
        try:
            if self._fault is not None:
                what = self._fault
            elif self._job is None:
                what = Fault(f"steps of job {self._job_id}, whose own row is not before them")
            else:
                what = run_of(self._job, self._steps, self._form.cluster, self._unusable)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs this job alone
            what = fault_of(error)
        content, length = _bounded("".join(f"{line}\n" for line in (self._header.line, *self._lines)))
        length = length if self._whole else LONGEST_LINE + 1
        yield ParsedJob(what, f"line {self._number}", content, length, unusable=frozenset(self._unusable))
        self._empty()
