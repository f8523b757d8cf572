"""Add the features that job wrappers saved to the records of the jobs."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.config.paths import Places
from arcacct.database.access import translating, writing
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.errors import InputError, UsageError
from arcacct.files.safe_open import open_parent
from arcacct.records.batch_jobs import contradict
from arcacct.records.enrichment import FEATURES, enrich
from arcacct.records.rejected import RejectedRecord, RejectedRecords, fault, forget, is_of_record
from arcacct.records.texts import escaped, unescaped
from arcacct.sources.features.reader import NAME, Features, doubted, values_in

# Features that job wrappers saved: a copy of the directory, or one file with a ``key=value`` on each line.
#
# Jobs can write to these places (`files.safe_open`), so only valid values are used.


PLACE = "{jobid}"
_LARGEST_FILE = 256 * 1024


def place_of(pattern: str, job_id: str) -> str:
    """
    Return the path of the saved features of a job.

    Raises UsageError for a pattern without a place for the job ID, InputError for an ID that leads to another
    directory.
    """
    if PLACE not in pattern:
        raise UsageError(f"{pattern!r} names one place for all jobs; write {PLACE} where the id belongs")
    if not {"", ".", ".."}.isdisjoint(job_id.split("/")) or "\0" in job_id:
        raise InputError(f"{job_id!r} cannot be part of a path, so its features are not read")
    return os.path.abspath(pattern.replace(PLACE, job_id))


def saved(path: str) -> Features | None:
    """Return the saved features, ``None`` if there are none. Raises InputError when they cannot be read."""
    try:
        folder, name = open_parent(path)
        with folder:
            kind = folder.lstat(name).st_mode
            if stat.S_ISDIR(kind):
                with folder.open(name) as place:
                    return doubted(path, *values_in(place))
            if not stat.S_ISREG(kind):
                raise InputError(f"{path}: neither a directory nor a file")
            content = folder.read(name, _LARGEST_FILE, for_all=True)
            if len(content) == _LARGEST_FILE:
                # The last line may be incomplete.
                content = content[: content.rfind(b"\n") + 1]
            found = []
            for line in content.decode("ascii", "replace").splitlines():
                name, equals, value = line.partition("=")
                # `grep -r . "$JOBFEATURES"` writes the path and a colon.
                if not equals:
                    name, _, value = line.rpartition(":")
                name = name.rpartition("/")[2].strip()
                if NAME.fullmatch(name) and value.strip():
                    found.append((name, value.strip()))
            return doubted(path, found, [])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from error


# Write the features that job wrappers saved to the records of the jobs.


class Collected(NamedTuple):
    """The results of collecting the saved features of some jobs."""

    looked_at: int
    found: int
    changed: int
    complaints: tuple[str, ...]
    not_rejected: tuple[str, ...] = ()
    """Jobs of a retry without rejected features."""


SOURCE = "features"
"""The source in the quarantine of imports."""
_CURSOR = "FEATURES_SEQ"
_LONGEST_EXTRA = 1000
_MOST_EXTRA = 100
_LIMIT = Decimal(10_000_000)


def collect(
    con: Connection, here: Places, pattern: str, job_ids: Sequence[str] = (), *, retry: bool = False
) -> Collected:
    """
    Add the saved features of these jobs, or of all jobs that became final or changed since the last call, to their
    records.

    ``retry``: only jobs whose features could not be used before. A job without saved features stays rejected. Raises
    UsageError for a pattern without a place for the job ID, StoreError and its subclasses. A fault of one job is a
    complaint, and its features are among the rejected records.
    """
    place_of(pattern, "0")
    quarantine = RejectedRecords(con, SOURCE)
    with translating(here.database):
        waiting = {kept.position: kept.rejected_id for kept, _content in quarantine.waiting()} if retry else {}
        wanted = [one for one in waiting if not job_ids or one in job_ids] if retry else job_ids
        todo: list[tuple[int | None, str]] = [(None, job_id) for job_id in wanted]
        if not todo and not retry:
            # Jobs that became final, or changed, since the last search for features.
            todo = [
                (seq, unescaped(job_id))
                for seq, job_id in con.execute(
                    "SELECT Seq, JobID FROM FinishedLog JOIN AAR USING (RecordID) WHERE Seq > ? ORDER BY Seq",
                    (int(noted(con, _CURSOR) or 0),),
                )
            ]
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
                if features is not None:
                    taken = take_features(con, job_id, features.values, features.for_accounting())
                    changed += taken.changed
                    told += [taken.complaint] if taken.complaint else []
                _looked_at(con, quarantine, path, job_id, seq)
                forget(con, [waiting[job_id]] if retry else [])
        except Exception as error:
            quarantine.forget()
            if not is_of_record(error):
                raise
            why = fault(error)
            complaints.append(why.reason if why.reason.startswith(path) else f"{path}: {why.reason}")
            with writing(con, here):
                _looked_at(con, quarantine, path, job_id, seq)
                quarantine.keep(
                    [RejectedRecord(path, job_id, why, f"{path}\0{job_id}".encode("utf-8", "surrogateescape"))]
                )
            continue
        if features is not None:
            found += 1
            complaints += [f"{features.location}: {text}" for text in features.warnings]
            complaints += told
    not_rejected = tuple(one for one in job_ids if one not in waiting) if retry else ()
    return Collected(len(todo), found, changed, tuple(complaints), not_rejected)


def _looked_at(con: Connection, quarantine: RejectedRecords, path: str, job_id: str, seq: int | None) -> None:
    """Remove earlier rejections of this job, and move the cursor past it."""
    forget(con, quarantine.at(path).get(job_id, []))
    if seq is not None:
        note(con, _CURSOR, seq)


class Taken(NamedTuple):
    """The result of adding the features of a job."""

    changed: bool
    complaint: str | None


def take_features(con: Connection, job_id: str, values: dict[str, str], extra: dict[str, str]) -> Taken:
    """
    Write the features of a job to its record.

    ``hs06_job`` divided by ``allocated_cpu`` becomes its benchmark, with the source ``features`` in FieldSources.
    Features of another job (``job_id`` is not our LocalJobID) are not used.
    """
    row = con.execute("SELECT RecordID, LocalJobID FROM AAR WHERE JobID = ?", (escaped(job_id),)).fetchone()
    if row is None:
        return Taken(False, f"{job_id}: this job has no record; run `arcacct sweep` first")
    record_id, local_job_id = row[0], unescaped(row[1] or "")
    theirs = values.get("job_id")
    if theirs and local_job_id and all(contradict(theirs, one) for one in _names(con, record_id, local_job_id)):
        return Taken(False, f"{job_id}: the features are of job {theirs}, the record is of {local_job_id}; left out")
    told = {"benchmark": benchmark_of(values)}
    told |= {key: value[:_LONGEST_EXTRA] for key, value in sorted(extra.items())[:_MOST_EXTRA]}
    return Taken(enrich(con, record_id, FEATURES, told).changed, None)


def _names(con: Connection, record_id: int, local_job_id: str) -> list[str]:
    """Return the batch system's names of a job. An element of a Slurm array has two names."""
    shown = con.execute("SELECT InfoValue FROM JobExtraInfo WHERE RecordID = ? AND InfoKey = 'arrayid'", (record_id,))
    return [local_job_id, *(unescaped(one) for (one,) in shown)]


def benchmark_of(values: dict[str, str]) -> str | None:
    """Return HS06 of one core of a job; ``None`` when its features do not give it, or give an impossible value."""
    try:
        value = Decimal(values["hs06_job"]) / Decimal(values["allocated_cpu"])
    except (KeyError, InvalidOperation, ZeroDivisionError):
        return None
    if not Decimal("0.0005") <= value < _LIMIT:
        return None
    return str(Benchmark("HEPSPEC", int((value * 1000).to_integral_value(ROUND_HALF_UP))))
