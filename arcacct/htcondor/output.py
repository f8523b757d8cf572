"""What a history has, as jobs: each with all that is needed to read it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.htcondor import classads
from arcacct.htcondor.record import ATTRIBUTES, UNFINISHED, CondorJob, NoUse, Scores, job_of
from arcacct.records.import_quarantine import Fault, fault_of


class HistoryForm(NamedTuple):
    """What a history does not say of itself."""

    schedd: str | None = None
    """What the schedd is called here; ``None``: as HTCondor calls it."""
    scores: Scores | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """What is read of each ad."""
        return ATTRIBUTES if self.scores is None else (*ATTRIBUTES, self.scores.attribute)


class ParsedJob(NamedTuple):
    """One ad of a history."""

    what: CondorJob | NoUse | Fault
    position: str
    content: bytes
    """The same ad as a history of its own; as far as classads.KEPT."""
    length: int
    """How long all of that is, in bytes."""
    unusable: frozenset[str] = frozenset()
    """Attributes with a value that cannot be used, and that accounting can do without."""


def read(chunks: Iterable[bytes], form: HistoryForm) -> Iterator[ParsedJob]:
    """
    Every ad of a history file or of what condor_history printed, in its order. Bounded memory.

    Raises InputError when it is none.
    """
    wanted = frozenset(name.lower() for name in form.attributes)
    for told in classads.read(chunks, wanted):
        what: CondorJob | NoUse | Fault
        unusable: set[str] = set()
        if isinstance(told.what, Fault):
            what = told.what
        elif told.what is None:
            what = NoUse(UNFINISHED)
        else:
            try:
                what = job_of(told.what, unusable, form.schedd, form.scores)
            except Exception as error:  # noqa: BLE001  whatever it is, it costs this job alone
                what = fault_of(error)
        yield ParsedJob(what, told.position, told.content, told.length, frozenset(unusable))
