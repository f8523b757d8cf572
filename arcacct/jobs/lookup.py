"""Finding a job by what a person has at hand: its id or URL, its id in the batch system, or how its id begins."""

from __future__ import annotations

from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.jobs.reading import unescaped
from arcacct.jobs.recorder import escaped

_MOST_NAMED = 5


class FoundJob(NamedTuple):
    """A record of the database."""

    record_id: int
    job_id: str


def find_job(con: Connection, text: str) -> FoundJob:
    """
    The job with this JobID, this LocalJobID, or the only one whose JobID begins so; of a URL the last part counts.

    Raises InputError when there is none, or more than one (the first few are named).
    """
    if "://" in text:
        text = text.rpartition("/")[2]
    for condition in ("JobID = ?", "LocalJobID = ?"):
        found = _rows(con, condition, (escaped(text),))
        if found:
            return _only(found, text)
    if text:
        # A range instead of LIKE: it uses the index and knows no wildcards.
        found = _rows(con, "JobID >= ? AND JobID < ?", (escaped(text), escaped(text) + "\U0010ffff"))
    if not found:
        raise InputError(f"{text}: no such job; give its id, its id in the batch system or how its id begins")
    return _only(found, text)


def _rows(con: Connection, condition: str, values: tuple[str, ...]) -> list[FoundJob]:
    rows = con.execute(
        f"SELECT RecordID, JobID FROM AAR WHERE {condition} ORDER BY RecordID DESC LIMIT {_MOST_NAMED + 1}", values
    )
    return [FoundJob(record_id, unescaped(job_id)) for record_id, job_id in rows]


def _only(found: list[FoundJob], text: str) -> FoundJob:
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.job_id for one in found[:_MOST_NAMED])
    more = ", ..." if len(found) > _MOST_NAMED else ""
    raise InputError(f"{text}: several jobs: {names}{more}; give the whole id")
