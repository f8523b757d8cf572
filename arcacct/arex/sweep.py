"""
What the hook missed: drain the spool, then compare the control directory with the database (DESIGN section 4).

Files are read outside the queue of writers and recorded in slices, so that no hook waits for the sweep. Nothing grows
with the number of jobs: names are taken from the directory as they come, and looked up some hundred at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from arcacct.arex import spooled
from arcacct.arex.control_files import owner_of
from arcacct.arex.draining import drain_all
from arcacct.arex.reconciling import reconcile
from arcacct.arex.sweeping import Gap, Owner, Progress, SweepReport, SweepRun, printable
from arcacct.arex.vanished import Unfinished, give_up
from arcacct.arex.witness import ArexLookup
from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.database.location import spools
from arcacct.database.schema import note
from arcacct.errors import InputError
from arcacct.records import unfinished, usage

__all__ = ["Gap", "Owner", "Progress", "SweepReport", "drain", "sweep"]


def sweep(
    here: Places,
    con: Connection,
    *,
    owner: Owner = owner_of,
    progress: Progress | None = None,
    dry_run: bool = False,
    take_vanished: bool = True,
    stopping: Callable[[], bool] = lambda: False,
    goes_on: bool = False,
    given_up: Sequence[str] = (),
) -> SweepReport:
    """
    Drain the spool, walk the control directory, record what the database lacks.

    ``progress`` is told how many jobs of the directory are done. A ``dry_run`` takes everything back and leaves the
    spool alone. ``take_vanished=False``: jobs without files may be in another control directory. With ``stopping`` it
    ends between two slices as soon as that is true; the next sweep goes on. ``goes_on``: this process will sweep again.
    ``given_up`` are jobs on hold (`vanished.give_up`). Raises StoreError when the database
    refuses and InputError when the control directory cannot be read; anything about one job is a complaint.
    """
    run = SweepRun(here, con, owner, dry_run, stopping, goes_on=goes_on)
    with ArexLookup(run) as arex_lookup:
        drained = drain_all(run, arex_lookup)
        unfinished = Unfinished.of(run) if take_vanished else Unfinished({})
        try:
            jobs, looked_at = reconcile(run, unfinished, progress)
        except OSError as error:
            raise InputError(
                f"{error.filename or here.controldir}: cannot read the control directory: {error.strerror}; "
                "run as the user of A-REX, and check [arex] controldir"
            ) from error
        if not stopping():
            unfinished.settle(run, arex_lookup)
    if given_up:
        give_up(run, given_up)
    if not dry_run and not stopping():
        # Whoever commits next would have to do it with the queue waiting.
        run.write_back()
        left = spooled.look(spools(here))
        with run.writing():
            save_sweep(con, run.ends)
            spooled.save_status(con, left)
        with access.translating(here.database):
            usage.update_monthly(con, here)
            usage.update_breakdown(con, here)
            # Whoever publishes does it as well, up to where everybody is: where nobody does, packs would stay for ever.
            usage.delete_delivered(con, here, 0)
    return SweepReport(drained, jobs, looked_at, dict(run.found), tuple(map(printable, run.complaints)))


def save_sweep(con: Connection, ends: Mapping[int, int] | None = None) -> None:
    """A sweep is at its end; ``ends``: what it found (`SweepRun.ends`). Inside the caller's transaction."""
    now = int(time.time())
    note(con, "ARCACCT_LAST_SWEEP", now)
    unfinished.add_ends(con, ends or {}, now)


def drain(here: Places, con: Connection, complaints: list[str]) -> int:
    """The first half of a sweep alone: record every event of the spool; returns how many."""
    run = SweepRun(here, con, owner_of)
    try:
        with ArexLookup(run) as arex_lookup:
            return drain_all(run, arex_lookup)
    finally:
        complaints += map(printable, run.complaints)
