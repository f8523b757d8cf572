"""Putting the features that jobs' wrappers have saved into the jobs' records."""

from __future__ import annotations

from _sqlite3 import Connection
from collections.abc import Sequence
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.errors import InputError
from arcacct.node.feature_reader import Features
from arcacct.node.feature_saved import place_of, saved
from arcacct.store.accounting import translating, writing
from arcacct.store.features import finished_since, remember, take_features


class Collected(NamedTuple):
    """What became of the saved features of some jobs."""

    looked_at: int
    found: int
    changed: int
    complaints: tuple[str, ...]


def collect(con: Connection, here: Places, pattern: str, job_ids: Sequence[str] = ()) -> Collected:
    """
    Take the features of these jobs, or of all that became final since the last time, from where they were saved.

    Raises UsageError for a pattern without a place for the job's id; what is wrong with one job is a complaint.
    """
    place_of(pattern, "0")
    with translating(here.database):
        todo = [(None, job_id) for job_id in job_ids] or finished_since(con)
    found = changed = 0
    complaints: list[str] = []
    for seq, job_id in todo:
        features = _features(pattern, job_id, complaints)
        if features is not None:
            found += 1
            complaints += [f"{features.location}: {text}" for text in features.warnings]
        with writing(con, here):
            changed += features is not None and _take(con, job_id, features, complaints)
            if seq is not None:
                remember(con, seq)
    return Collected(len(todo), found, changed, tuple(complaints))


def _features(pattern: str, job_id: str, complaints: list[str]) -> Features | None:
    try:
        return saved(place_of(pattern, job_id))
    except InputError as error:
        complaints.append(str(error))
        return None


def _take(con: Connection, job_id: str, features: Features, complaints: list[str]) -> bool:
    taken = take_features(con, job_id, features.values, features.for_accounting())
    if taken is None:
        complaints.append(f"{job_id}: there is no record of this job; run `arcacct sweep` first")
        return False
    if taken.complaint:
        complaints.append(taken.complaint)
    return taken.changed
