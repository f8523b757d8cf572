"""What sacct says of a span of time, job by job, to be compared with what is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from arcacct.errors import InputError
from arcacct.files.follow import Reader
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.import_quarantine import Fault
from arcacct.records.imports import BatchSite
from arcacct.records.slurm_formats import new_delimiter
from arcacct.slurm.command import SacctCommand, windows
from arcacct.slurm.local_jobs import local_job
from arcacct.slurm.output import OutputForm, read
from arcacct.slurm.record import SlurmRun
from arcacct.wording import count_of


def of_file(path: str, form: OutputForm, start: int, end: int) -> Iterator[Figures]:
    """
    The runs of an output that ended at or after ``start`` and before ``end``, UTC seconds.

    Raises InputError when it cannot be read, and after the rest when some of it cannot be used: what is compared with
    it would be no measure.
    """
    with Reader(path) as reader:
        try:
            yield from _figures([(reader.chunks(), form)], start, end)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        if reader.complaint:
            raise InputError(reader.complaint)


def of_sacct(command: SacctCommand, form: OutputForm, start: int, end: int) -> Iterator[Figures]:
    """The same, by asking sacct."""
    delimiter = new_delimiter()
    outputs = ((command.ask(window, delimiter), form._replace(delimiter=delimiter)) for window in windows(start, end))
    yield from _figures(outputs, start, end)


def _figures(outputs: Iterable[tuple[Iterable[bytes], OutputForm]], start: int, end: int) -> Iterator[Figures]:
    seen: set[tuple[str, int, int]] = set()
    bad = 0
    for chunks, form in outputs:
        for one in (told.what for told in read(chunks, form)):
            if isinstance(one, Fault):
                bad += 1
            elif isinstance(one, SlurmRun) and start <= one.end_time < end and one.key not in seen:
                seen.add(one.key)
                yield of_run(one)
    if bad:
        raise InputError(f"{count_of(bad, 'entry')} not usable; `arcacct import slurm` says why")


def of_run(run: SlurmRun) -> Figures:
    """What is compared of a run."""
    return figures(local_job(run, BatchSite()))
