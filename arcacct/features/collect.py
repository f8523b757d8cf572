"""Putting the features that jobs' wrappers have saved into the jobs' records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db.engine import Connection
from arcacct.db.opening import translating, writing
from arcacct.features.reader import Features
from arcacct.features.rows import finished_since, remember, take_features
from arcacct.features.saved import place_of, saved
from arcacct.jobs.rejected import Quarantine, Reject, drop, fault, is_of_record


class Collected(NamedTuple):
    """What became of the saved features of some jobs."""

    looked_at: int
    found: int
    changed: int
    complaints: tuple[str, ...]


SOURCE = "features"
"""Of the quarantine of imports."""


def collect(
    con: Connection, here: Places, pattern: str, job_ids: Sequence[str] = (), *, retry: bool = False
) -> Collected:
    """
    Take the features of these jobs, or of all that became final since the last time, from where they were saved.

    ``retry``: of those jobs instead whose features could not be used before; one that has none now stays rejected.
    Raises UsageError for a pattern without a place for the job's id, StoreError and its kinds; what is wrong with one
    job is a complaint, and its features are among the rejected records.
    """
    place_of(pattern, "0")
    quarantine = Quarantine(con, SOURCE)
    with translating(here.database):
        waiting = {kept.position: kept.rejected_id for kept, _content in quarantine.waiting()} if retry else {}
        todo: list[tuple[int | None, str]] = [(None, job_id) for job_id in waiting or job_ids]
        if not todo and not retry:
            todo = [*finished_since(con)]
    found = changed = 0
    complaints: list[str] = []
    for seq, job_id in todo:
        path = place_of(pattern, job_id)
        try:
            features = saved(path)
            if features is None and retry:
                complaints.append(f"{path}: nothing is saved there now: still rejected")
                continue
            with writing(con, here):
                told: list[str] = []
                changed += features is not None and _take(con, job_id, features, told)
                _looked_at(con, quarantine, path, job_id, seq)
                drop(con, [waiting[job_id]] if retry else [])
        except Exception as error:
            quarantine.forget()
            if not is_of_record(error):
                raise
            why = fault(error)
            complaints.append(why.reason if why.reason.startswith(path) else f"{path}: {why.reason}")
            with writing(con, here):
                _looked_at(con, quarantine, path, job_id, seq)
                quarantine.keep([Reject(path, job_id, why, f"{path}\0{job_id}".encode("utf-8", "surrogateescape"))])
            continue
        if features is not None:
            found += 1
            complaints += [f"{features.location}: {text}" for text in features.warnings]
            complaints += told
    return Collected(len(todo), found, changed, tuple(complaints))


def _looked_at(con: Connection, quarantine: Quarantine, path: str, job_id: str, seq: int | None) -> None:
    """What was rejected of this job before is outdated; and the next time begins behind it."""
    drop(con, quarantine.at(path).get(job_id, []))
    if seq is not None:
        remember(con, seq)


def _take(con: Connection, job_id: str, features: Features, complaints: list[str]) -> bool:
    taken = take_features(con, job_id, features.values, features.for_accounting())
    if taken is None:
        complaints.append(f"{job_id}: there is no record of this job; run `arcacct sweep` first")
        return False
    if taken.complaint:
        complaints.append(taken.complaint)
    return taken.changed
