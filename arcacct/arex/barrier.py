"""
What is wrong with one job is told, with the file that it is about, and stops no other.

A fault of the database is everybody's: it ends the sweep, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from arcacct.arex.sweeping import SweepRun
from arcacct.db import opening
from arcacct.errors import ArcacctError, StoreError

LATER = "the job is looked at again by the next sweep"

T = TypeVar("T")
R = TypeVar("R")


def printable(text: str) -> str:
    r"""A text that any terminal and file takes: bytes of a name that are not UTF-8, and control characters, as \xHH."""
    if text.isprintable():
        return text
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def reason(error: Exception, path: str) -> str:
    """What is said of an error: the file, ``path`` if it names none, and what is wrong with it."""
    if isinstance(error, ArcacctError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return f"{path}: unforeseen {type(error).__name__}: {error}; please report it"


def is_of_one_job(error: Exception) -> bool:
    """Whether an error is about the job at hand; else it is about the database or this process, and ends the sweep."""
    if isinstance(error, StoreError):
        return opening.refuses_values(error)
    return not isinstance(error, MemoryError)


def attempt(run: SweepRun, job_id: str, path: str, work: Callable[[], T]) -> T | None:
    """
    What ``work`` returns; ``None`` when something is wrong with this one job, which is told.

    ``path`` is the file at hand. Raises StoreError when the database is at fault.
    """
    try:
        return work()
    except Exception as error:
        if not is_of_one_job(error):
            raise
        complain(run, job_id, path, error)
        return None


def complain(run: SweepRun, job_id: str, path: str, error: Exception) -> None:
    """Tell what is wrong with a job of the control directory."""
    run.complaints.append(f"{job_id}: {reason(error, path)}; {LATER}")


def record_each(
    run: SweepRun, items: list[T], record: Callable[[list[T]], R], wrong: Callable[[T, Exception], None]
) -> list[R]:
    """
    ``record`` a slice in one transaction, or when one of its items spoils that, each item in one of its own.

    Returns what ``record`` returned each time that it was committed; ``wrong`` is told of each item that cannot be
    recorded, outside of any transaction. Raises StoreError when the database is at fault.
    """
    try:
        with run.recording(len(items)):
            done = record(items)
    except Exception as error:
        if not is_of_one_job(error):
            raise
        if len(items) == 1:
            wrong(items[0], error)
            return []
    else:
        return [done]
    return [done for item in items for done in record_each(run, [item], record, wrong)]
