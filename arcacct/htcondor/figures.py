"""What HTCondor's history says of a span of time, job by job, to be compared with what is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from arcacct.errors import InputError
from arcacct.files.follow import Reader
from arcacct.htcondor.command import OVERLAP_S, HistoryCommand
from arcacct.htcondor.local_jobs import local_job
from arcacct.htcondor.output import HistoryForm, read
from arcacct.htcondor.record import CondorJob
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.import_quarantine import Fault
from arcacct.records.imports import BatchSite
from arcacct.wording import count_of


def of_file(path: str, form: HistoryForm, start: int, end: int) -> Iterator[Figures]:
    """
    The jobs of a history that ended at or after ``start`` and before ``end``, UTC seconds.

    Raises InputError when it cannot be read, and after the rest when some of it cannot be used: what is compared with
    it would be no measure.
    """
    with Reader(path) as reader:
        try:
            yield from _figures(reader.chunks(), form, start, end)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if reader.complaint:
            raise InputError(reader.complaint)


def of_history(command: HistoryCommand, form: HistoryForm, start: int, end: int) -> Iterator[Figures]:
    """The same, by asking condor_history."""
    yield from _figures(command.ask(max(0, start - OVERLAP_S), form.attributes), form, start, end)


def _figures(chunks: Iterable[bytes], form: HistoryForm, start: int, end: int) -> Iterator[Figures]:
    seen: set[tuple[str, int, int, int]] = set()
    bad = 0
    for one in (told.what for told in read(chunks, form)):
        if isinstance(one, Fault):
            bad += 1
        elif isinstance(one, CondorJob) and start <= one.end_time < end and one.key not in seen:
            seen.add(one.key)
            yield of_job(one)
    if bad:
        raise InputError(f"{count_of(bad, 'job')} not usable; `arcacct import htcondor` says why")


def of_job(job: CondorJob) -> Figures:
    """What is compared of a job."""
    # A job of A-REX's says so, and then its host may be called otherwise than the schedd.
    return figures(local_job(job, BatchSite()))._replace(place="" if job.queue else job.schedd)
