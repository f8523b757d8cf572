"""Jobs that have ended and of which nobody knows what they used: no sum that leaves them out is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from arcacct.config.paths import Places
from arcacct.database.connection import Connection
from arcacct.database.location import spools
from arcacct.publishing.instants import Month, iso, month_bounds
from arcacct.records import unfinished
from arcacct.records.writer import known_jobs


def unsettled(here: Places, con: Connection, month: Month) -> Iterator[tuple[str, str]]:
    """
    Those that ended in a month (UTC), by job id, each with what is known and what to do.

    Jobs on hold; and jobs without any record whose event FINISHED a sweep has set aside.
    """
    start, end = month_bounds(*month)
    for job_id, job in unfinished.on_hold(con).items():
        ended_s = job.finished_s or job.event_ns // 10**9
        if start <= ended_s < end:
            yield (
                job_id,
                f"ended at {iso(ended_s)}, its files are gone, and nothing tells what it used: {unfinished.REMEDIES}",
            )
    # The events FINISHED of the time that could not be used: their names say it all (`arex.spool`).
    set_aside = {}
    for spool in spools(here):
        folder = os.path.join(spool, "unusable")
        names: list[str] = []
        with suppress(OSError):
            names = sorted(name for name in os.listdir(folder) if name.isascii())
        for name in names:
            when, _pid, state, job_id = [*name.split("-", 3), "", "", ""][:4]
            if state == "FINISHED" and when.isdecimal() and start <= int(when[:10]) < end:
                set_aside[job_id] = os.path.join(folder, name)
    for job_id, path in set_aside.items():
        if not known_jobs(con, [job_id]):
            yield (
                job_id,
                f"has ended, and nothing more is known of it: look at {path}, and remove it when that is settled",
            )
