"""A month as A-REX's own database has it, for `arcacct verify`: no job and no hour may be there and not here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import NamedTuple

from arcacct.arex import own
from arcacct.arex.database import opened
from arcacct.arex.importing import Archives, import_lock, settled_before
from arcacct.arex.own import Ended
from arcacct.arex.sweeping import batches
from arcacct.conf.places import Places
from arcacct.db import opening
from arcacct.db.engine import Connection
from arcacct.jobs.states import ABORTED, IN_PROGRESS
from arcacct.jobs.writing import known_jobs
from arcacct.publishing.instants import Month, iso, month_bounds

_PATIENCE_S = 20.0
_LOOKED_UP_JOBS = 500
_TODO = "`arcacct import arex` takes it over"


class ArexMonth(NamedTuple):
    """What was found."""

    jobs: int
    wall_s: int
    cpu_s: int
    missing: list[tuple[str, str]]
    """Jobs that A-REX has otherwise, by id, with what is missing here and what to do."""
    notes: list[str]
    """What is no difference, but worth to be known."""


def arex_month(here: Places, con: Connection, month: Month, wall_s: Mapping[str, int]) -> ArexMonth | None:
    """
    Compare a month (of end times, UTC) with ours, ``wall_s`` by job id; ``None`` where A-REX keeps no database.

    Raises ArcacctError when A-REX's database cannot be read now.
    """
    paths = own.own_databases(here)
    if not paths:
        return None
    found = ArexMonth(0, 0, 0, [], [])
    archived = 0
    seen: set[str] = set()
    with closing(Archives(con)) as archives:
        for path in paths:
            for page in _pages(here, path, month):
                ended = {job_id: one for job_id, one in page.items() if job_id not in seen}
                if len(paths) > 1:
                    seen.update(ended)
                found = found._replace(
                    jobs=found.jobs + len(ended),
                    wall_s=found.wall_s + sum(one.wall_s for one in ended.values()),
                    cpu_s=found.cpu_s + sum(one.cpu_s for one in ended.values()),
                )
                for job_id, one in ended.items():
                    if wall_s.get(job_id, one.wall_s) < one.wall_s:
                        text = f"wall {one.wall_s} s, in the database {wall_s[job_id]} s"
                        found.missing.append((job_id, f"{text}; `arcacct job info` shows what ours is from"))
                absent = [(job_id, one) for job_id, one in ended.items() if job_id not in wall_s]
                for some in map(dict, batches(absent, _LOOKED_UP_JOBS)):
                    put_away = archives.archived(con, {job_id: one.end_time for job_id, one in some.items()})
                    archived += len(put_away)
                    found.missing.extend(_absent(con, some, put_away))
    if archived:
        found.notes.append(f"{archived} of its jobs are in an archive of `arcacct db prune`: no difference")
    return found


def _pages(here: Places, path: str, month: Month) -> Iterator[dict[str, Ended]]:
    with ExitStack() as stack:
        if os.access(here.directory, os.W_OK):
            workspace = here.directory
            stack.enter_context(import_lock(os.path.join(workspace, "import.lock")))
        else:
            workspace = stack.enter_context(tempfile.TemporaryDirectory(prefix="arcacct-"))
        database = stack.enter_context(opened(path, workspace, patience_s=_PATIENCE_S))
        with opening.translating(path):
            yield from own.ended_between(database, *month_bounds(*month), settled_before())


def _absent(con: Connection, ended: Mapping[str, Ended], archived: set[str]) -> Iterator[tuple[str, str]]:
    """Of jobs that do not end in this month here: those that do not end at all, and are not put away either."""
    known = known_jobs(con, list(ended))
    for job_id, one in ended.items():
        ours = known.get(job_id)
        if ours is None and job_id not in archived:
            yield job_id, f"ended there at {iso(one.end_time)}, and is not in the database: {_TODO}"
        elif ours is not None and ours.status in (IN_PROGRESS, ABORTED):
            yield job_id, f"ended there at {iso(one.end_time)}, and is {ours.status} in the database: {_TODO}"
