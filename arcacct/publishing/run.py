"""
`arcacct publish` and `arcacct republish`: every target on its own, each continuing where it stopped (DESIGN section 5).

fence -> what began and has no answer -> records after the target's last Seq (or the months they touch) -> sync.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from arcacct.arex.sweep import drain
from arcacct.conf.settings import Settings
from arcacct.db import lives, opening
from arcacct.errors import StoreBusy
from arcacct.jobs import cells
from arcacct.publishing import ledger
from arcacct.publishing.instants import DAY_S
from arcacct.publishing.lanes import Lane, in_use, run_all
from arcacct.publishing.locks import beginning, lock_targets, publisher, publishing_lock
from arcacct.publishing.plug import Plug
from arcacct.publishing.target_run import AS_CONFIGURED, Databases, Outcome, Period, TargetRun, Wishes
from arcacct.publishing.this_run import Tally

__all__ = ["Outcome", "Period", "Wishes", "publish", "publishing_lock", "republish"]
Work = Callable[[TargetRun, int], Outcome]


def publish(settings: Settings, plugs: Sequence[Plug], wishes: Wishes = AS_CONFIGURED) -> list[Outcome]:
    """
    Send what is new to each of some targets, side by side; one that is slow, hangs or fails costs the others nothing.

    Raises StoreError when a database refuses before anything is sent, StoreBusy when one is being replaced; everything
    about one target is in its Outcome, also that another process publishes to it. They are in the targets' order.
    """
    return _each(settings, plugs, wishes, lambda run, horizon: run.publish(horizon))


def republish(
    settings: Settings, plugs: Sequence[Plug], period: Period, wishes: Wishes = AS_CONFIGURED
) -> list[Outcome]:
    """
    Send the records of a period again; summaries as whole months. Cursors stay where they are.

    Raises as `publish`. Interrupted, it can be repeated: the receivers know what to do with a repeat.
    """
    return _each(settings, plugs, wishes, lambda run, horizon: run.republish(period, horizon))


def _each(settings: Settings, plugs: Sequence[Plug], wishes: Wishes, work: Work) -> list[Outcome]:
    here = settings.places
    if wishes.dry_run:
        # Of the databases just as they are, with no lock.
        both = Databases(opening.read_accounting(here), opening.read_publishing(here))
        with closing(both.accounting), closing(both.publishing), opening.translating(here.database):
            horizon = lives.highest_seq(both.accounting)
            return [work(TargetRun(plug, both, wishes), horizon) for plug in plugs]
    # Before the locks: where no database is begun, no directory for it is made either.
    opening.refuse_unasked(here)
    with publisher(here), ExitStack() as locks:
        lanes, outcomes = _lanes(settings, plugs, locks)
        if lanes or not plugs:
            both = Databases(opening.open_accounting(here), opening.open_publishing(here))
            with in_use(here, both), opening.translating(here.publishing_database):
                # What waits in the spool is new, too; what is set aside there no sweep will find again.
                complaints: list[str] = []
                drain(here, both.accounting, complaints)
                for complaint in complaints:
                    wishes.complain(complaint)
                cells.advance(both.accounting, here)
                cells.refine(both.accounting, here)
                opening.read_once(both.accounting)
                with beginning(here):
                    horizon = lives.begin_run(both.accounting, both.publishing, here).horizon
                # Each lane gives its own back, as soon as it is done and not before.
                locks.pop_all()
                run_all(settings, lanes, wishes, lambda run: work(run, horizon))
                ledger.forget_bytes(both.publishing, int(time.time()) - settings.keep_messages_days * DAY_S)
    outcomes += [outcome for lane in lanes for outcome in lane.outcomes]
    names = [plug.target.name for plug in plugs]
    return sorted(outcomes, key=lambda outcome: names.index(outcome.target))


def _lanes(settings: Settings, plugs: Sequence[Plug], locks: ExitStack) -> tuple[list[Lane], list[Outcome]]:
    """The targets by receiver, locked; and the outcomes of those that another process publishes to."""
    by_receiver: dict[str, list[Plug]] = {}
    for plug in plugs:
        by_receiver.setdefault(plug.target.url, []).append(plug)
    lanes, outcomes = [], []
    for same in by_receiver.values():
        try:
            held = locks.enter_context(lock_targets(settings.places, [plug.target for plug in same]))
            lanes.append(Lane(same, held))
        except StoreBusy as error:
            outcomes += [Outcome(plug.target.name, Tally(), error) for plug in same]
    return lanes, outcomes
