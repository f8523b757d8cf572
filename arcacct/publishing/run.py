"""
`arcacct publish` and `arcacct republish`: every target on its own, each continuing where it stopped (DESIGN section 5).

fence -> what began and has no answer -> records after the target's last Seq (or the months they touch) -> sync.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from arcacct.config.paths import Places
from arcacct.config.settings import Settings
from arcacct.database import access, incarnation, schema
from arcacct.database.connection import Connection
from arcacct.database.location import spools
from arcacct.errors import StoreBusy
from arcacct.publishing import ledger
from arcacct.publishing.instants import DAY_S
from arcacct.publishing.lanes import ReceiverThread, in_use, run_all
from arcacct.publishing.locks import beginning, lock_targets, publisher, publishing_lock
from arcacct.publishing.plug import TargetPlugin
from arcacct.publishing.selection import note_bare_ids
from arcacct.publishing.target_run import AS_CONFIGURED, Databases, Period, RunOptions, TargetResult, TargetRun
from arcacct.publishing.this_run import RunSummary
from arcacct.records import hold_decisions, usage

__all__ = ["Period", "RunOptions", "TargetResult", "publish", "publishing_lock", "republish"]
Work = Callable[[TargetRun, int], TargetResult]


def publish(
    settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions = AS_CONFIGURED
) -> list[TargetResult]:
    """
    Send what is new to each of some targets, side by side; one that is slow, hangs or fails costs the others nothing.

    Raises StoreError when a database refuses before anything is sent, StoreBusy when one is being replaced; everything
    about one target is in its Outcome, also that another process publishes to it. They are in the targets' order.
    """
    return _each(settings, plugins, options, lambda run, horizon: run.publish(horizon))


def republish(
    settings: Settings, plugins: Sequence[TargetPlugin], period: Period, options: RunOptions = AS_CONFIGURED
) -> list[TargetResult]:
    """
    Send the records of a period again; summaries as whole months. Cursors stay where they are.

    Raises as `publish`. Interrupted, it can be repeated: the receivers know what to do with a repeat.
    """
    return _each(settings, plugins, options, lambda run, horizon: run.republish(period, horizon))


def _each(settings: Settings, plugins: Sequence[TargetPlugin], options: RunOptions, work: Work) -> list[TargetResult]:
    here = settings.places
    if options.dry_run:
        # Of the databases just as they are, with no lock.
        both = Databases(access.read_accounting(here), access.read_publishing(here))
        with closing(both.accounting), closing(both.publishing), access.translating(here.database):
            horizon = incarnation.highest_seq(both.accounting)
            return [work(TargetRun(plugin, both, options), horizon) for plugin in plugins]
    # Before the locks: where no database is begun, no directory for it is made either.
    access.refuse_unasked(here)
    with publisher(here), ExitStack() as locks:
        lanes, outcomes = _receiver_threads(settings, plugins, locks)
        if lanes or not plugins:
            both = Databases(access.open_accounting(here), access.open_publishing(here))
            with in_use(here, both), access.translating(here.publishing_database):
                # What is set aside in a spool no sweep will find again.
                for complaint in _drained(here, both.accounting):
                    options.complain(complaint)
                usage.update_monthly(both.accounting, here)
                usage.update_breakdown(both.accounting, here)
                access.shrink_page_cache(both.accounting)
                with beginning(here):
                    horizon = incarnation.begin_run(both.accounting, both.publishing, here).horizon
                    note_bare_ids(both.accounting, both.publishing, here)
                # What was recorded since is below the fence, too.
                hold_decisions.settle(both.accounting, here)
                # Each thread releases its own locks when it is done, not earlier.
                locks.pop_all()
                run_all(settings, lanes, options, lambda run: work(run, horizon))
                ledger.forget_bytes(both.publishing, int(time.time()) + 1 - settings.keep_messages_days * DAY_S)
                usage.delete_delivered(both.accounting, here, _passed_by_all(settings, both))
    outcomes += [outcome for lane in lanes for outcome in lane.outcomes]
    names = [plugin.target.name for plugin in plugins]
    return sorted(outcomes, key=lambda outcome: names.index(outcome.target))


def _drained(here: Places, con: Connection) -> list[str]:
    """Record what waits in the spools, which is new, too; what of it could not be used."""
    complaints: list[str] = []
    if any(map(_has_something, spools(here))):
        from arcacct.arex.sweep import drain  # noqa: PLC0415  hooks record nearly all by themselves

        drain(here, con, complaints)
    return complaints


def _has_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except FileNotFoundError:
        return False
    except OSError:
        # Whoever drains it says what is wrong with it.
        return True


def _passed_by_all(settings: Settings, both: Databases) -> int:
    """The place in the log up to which every configured target is done with records; 0 if one has not begun."""
    life = schema.incarnation(both.accounting)
    sound = [one.block for one in settings.targets if not ledger.is_damaged(both.publishing, one.block)]
    if len(sound) < len(settings.targets):
        return 0
    cursors = [ledger.cursor(both.publishing, block) for block in sound]
    return min((one.last_seq if one and one.incarnation == life else 0 for one in cursors), default=0)


def _receiver_threads(
    settings: Settings, plugins: Sequence[TargetPlugin], locks: ExitStack
) -> tuple[list[ReceiverThread], list[TargetResult]]:
    """The targets by receiver, locked; and the outcomes of those that another process publishes to."""
    by_receiver: dict[str, list[TargetPlugin]] = {}
    for plugin in plugins:
        by_receiver.setdefault(plugin.target.url, []).append(plugin)
    lanes, outcomes = [], []
    for same in by_receiver.values():
        try:
            held = locks.enter_context(lock_targets(settings.places, [plugin.target for plugin in same]))
            lanes.append(ReceiverThread(same, held))
        except StoreBusy as error:
            outcomes += [TargetResult(plugin.target.name, RunSummary(), error) for plugin in same]
    return lanes, outcomes
