"""
The ids that batch systems give their jobs, as numbers: so that two programs that write one job differently agree.

=======================  =====================================================================
``123``                  Slurm (also of an array's element), Grid Engine, LSF
``123.4``                Grid Engine: a task of an array; HTCondor: cluster and process
``123.ce.example.org``   Torque; HTCondor as A-REX has it
``123[4]``, ``123[4].x``  LSF and Torque: a task of an array
``123_4``                Slurm, as it shows an element of an array, which has a number of its own
=======================  =====================================================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

_INDEX = "0|[1-9][0-9]{0,17}"
_FORM = re.compile(
    r"(?P<number>[1-9][0-9]{0,17})"
    rf"(?:\.(?P<task>{_INDEX})|\[(?P<index>{_INDEX})\]|_(?P<element>{_INDEX}))?"
    r"(?:\.(?P<host>[A-Za-z][A-Za-z0-9._-]*))?",
    re.ASCII,
)


class LocalID(NamedTuple):
    """A job of a batch system."""

    number: int
    """Of an element that Slurm shows, that of its array."""
    task: int = 0
    """Index in an array; 0: none, or the first of those that count from 0."""
    is_element: bool = False
    """Whether it is Slurm's way to show an element, of which this is not the number."""


def local_id(text: str | None) -> LocalID | None:
    """The job that a text names, ``None`` when that cannot be told."""
    match = _FORM.fullmatch(text or "")
    if match is None:
        return None
    task = match["task"] or match["index"] or match["element"]
    # Index 0 would be no task for those who have 0 for none.
    if match["index"] and not int(match["index"]):
        return None
    return LocalID(int(match["number"]), int(task or 0), match["element"] is not None)


def spellings(job: LocalID) -> list[tuple[str, str]]:
    """The texts that name a job, each a range of them: the first, and what is behind the last."""
    if job.is_element:
        return [_one(f"{job.number}_{job.task}")]
    if job.task:
        array = f"{job.number}[{job.task}]"
        return [_one(f"{job.number}.{job.task}"), (array, f"{array}~")]
    # A host begins with a letter; digits there are tasks of an array, or HTCondor's processes.
    return [_one(str(job.number)), _one(f"{job.number}.0"), (f"{job.number}.A", f"{job.number}.~")]


def tasks_of(number: int) -> tuple[str, str]:
    """The texts that name tasks of an array, as Grid Engine writes them: the first, and what is behind the last."""
    return f"{number}.1", f"{number}.:"


def _one(text: str) -> tuple[str, str]:
    return text, f"{text}\0"


def contradict(one: str, other: str) -> bool:
    """
    Whether two ids are of different jobs.

    Who names the array alone does not contradict who names the task. Where one is in no form that is known, they are
    compared up to the first point, behind which one may have a host.
    """
    known, told = local_id(one), local_id(other)
    if known is None or told is None:
        return one.partition(".")[0] != other.partition(".")[0]
    is_other_task = bool(known.task and told.task) and known.task != told.task
    return known.is_element != told.is_element or known.number != told.number or is_other_task
