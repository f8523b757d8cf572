"""One run of one target: what began and has no answer, then what is new or asked for, then the sync message."""

from __future__ import annotations

import time
from _sqlite3 import Connection, DatabaseError
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from arcacct.conf.settings import Settings
from arcacct.conf.targets import Target
from arcacct.errors import ArcacctError
from arcacct.publish import changeover, monthly
from arcacct.publish.batches import JobBatcher, Limits
from arcacct.publish.delivery import Deliverer, Delivery
from arcacct.publish.families import JobFamily, family_of
from arcacct.publish.feed import Task, add_held, add_logged, add_period
from arcacct.publish.plan import Plan
from arcacct.publish.position import iso, position
from arcacct.publish.senders import Sender, max_bytes_of, sender_of
from arcacct.publish.sums import months_between, recent_months
from arcacct.publish.tally import Tally
from arcacct.store import cells, held, ledger, query, sent
from arcacct.store.ledger import Cursor


class Period(NamedTuple):
    """``[from_s, before_s)`` of EndTime, UTC seconds."""

    from_s: int
    before_s: int


class Outcome(NamedTuple):
    """What one target's run came to."""

    target: str
    tally: Tally
    error: ArcacctError | None
    skipped: str | None = None
    """Why nothing was done: not due yet."""


class Wishes(NamedTuple):
    """How a run is wanted."""

    now: bool = False
    """Whether to ignore urdelivery_frequency."""
    since: int | None = None
    """Send jobs that ended at this time or later, also those from before the target was known."""
    dry_run: bool = False
    """Send nothing, remember nothing: only count."""
    write_to: str | None = None
    """With ``dry_run``: a directory for the exact bytes."""
    make_sender: Callable[[Target], Sender] = sender_of
    watch: Callable[[str, Tally], None] = lambda _target, _tally: None
    """Told of each message that was answered: the target's name and what was done so far."""
    announce: Callable[[str, str], None] = lambda _target, _note: None
    """Told what a target's run has to say, when it is about to do it."""


AS_CONFIGURED = Wishes()


class Databases(NamedTuple):
    """Both databases."""

    accounting: Connection
    publishing: Connection


class TargetRun:
    """One run of one target. Errors of the target become part of the Outcome; those of the databases are raised."""

    def __init__(self, settings: Settings, target: Target, both: Databases, wishes: Wishes) -> None:
        self._target = target
        self._wishes = wishes
        self._tally = Tally(lambda note: wishes.announce(target.name, note))
        self._family = family_of(target, settings)
        limits = Limits(target.urbatchsize, max_bytes_of(target))
        self._task = Task(
            settings, target, both.accounting, both.publishing, self._tally, limits, dry_run=wishes.dry_run
        )

    def publish(self, horizon: int) -> Outcome:
        """What is new up to ``horizon``."""
        start = position(self._task, self._wishes.since)
        due = (start.last_success or 0) + self._target.urdelivery_frequency_s
        # A success that lies ahead was noted by a clock that was wrong.
        if not self._wishes.now and (start.last_success or 0) <= time.time() < due:
            return self._outcome(None, f"not due before {iso(due)} (urdelivery_frequency)")
        error = self._attempt("publish", lambda delivery: self._send_new(delivery, start, horizon))
        if not self._wishes.dry_run:
            self._finish(error)
        return self._outcome(error)

    def republish(self, period: Period) -> Outcome:
        """A period again, the cursor untouched."""
        position(self._task, self._wishes.since)
        return self._outcome(self._attempt("republish", lambda delivery: self._send_again(delivery, period)))

    def _outcome(self, error: ArcacctError | None, skipped: str | None = None) -> Outcome:
        return Outcome(self._target.name, self._tally, error, skipped)

    def _attempt(self, origin: str, work: Callable[[Deliverer], None]) -> ArcacctError | None:
        """Do the work with an open way to the target; an error ends this target's run only."""
        try:
            if self._wishes.dry_run:
                _do(work, self._plan())
                return None
            with closing(self._wishes.make_sender(self._target)) as sender:
                _do(work, self._delivery(sender, origin))
        except ArcacctError as error:
            return error
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001  a fault of ours about one target must not keep the others waiting
            fault = ArcacctError(f"internal error: {type(error).__name__}: {error}; please report it")
            fault.__cause__ = error
            return fault
        return None

    def _plan(self) -> Deliverer:
        return Plan(
            self._task.publishing,
            self._target.block,
            self._tally,
            lambda: self._wishes.make_sender(self._target),
            self._wishes.write_to,
        )

    def _delivery(self, sender: Sender, origin: str) -> Deliverer:
        return Delivery(
            self._task.publishing,
            self._target.block,
            sender,
            self._tally,
            origin=origin,
            watch=lambda: self._wishes.watch(self._target.name, self._tally),
        )

    def _send_new(self, delivery: Deliverer, start: Cursor, horizon: int) -> None:
        task, family = self._task, self._family
        # Read again: the cursor may have moved with what was sent again.
        start = ledger.cursor(task.publishing, self._target.block) or start
        touched = query.months_logged_after(task.accounting, start.last_seq, horizon, ended_from=start.start_end_time)
        counts = monthly.sync_counts(task)
        if isinstance(family, JobFamily):
            waiting = held.held_months(task.publishing, self._target.block, task.settled_at)
            changeover.to_jobs(task, family, touched | waiting | monthly.changed_months(task, counts), delivery)
            batcher = JobBatcher(family, delivery, self._tally, task.limits, settle_s=self._target.settle_s)
            add_held(task, batcher)
            add_logged(task, batcher, start, horizon)
            batcher.flush()
        else:
            logged = query.without_measure(task.accounting, start.last_seq, horizon)
            # A job that moved to another month changed the old one, too, whatever came of the run that sent it there.
            left = cells.months_changed_after(task.accounting, start.last_seq)
            left &= sent.months_of_sums(task.publishing, self._target.block)
            months = touched | left | recent_months(int(time.time()))
            monthly.send_summaries(task, family, months, counts, delivery, seq=horizon, logged=logged)
        monthly.send_sync(task, counts, delivery)

    def _send_again(self, delivery: Deliverer, period: Period) -> None:
        task, family = self._task, self._family
        months, counts = months_between(*period), monthly.sync_counts(task)
        if isinstance(family, JobFamily):
            changeover.to_jobs(task, family, months | monthly.changed_months(task, counts), delivery)
            batcher = JobBatcher(family, delivery, self._tally, task.limits, republish=True)
            add_period(task, batcher, *period)
            batcher.flush()
            if self._tally.corrections:
                self._tally.note(
                    f"{self._tally.corrections} records differ from what the receiver got first, which it keeps:"
                    " `arcacct quarantine list` says what to do about each"
                )
        else:
            monthly.send_summaries(task, family, months, counts, delivery, seq=None)
        monthly.send_sync(task, counts, delivery)

    def _finish(self, error: ArcacctError | None) -> None:
        """Close the run; jura's watermark is just before the earliest record that is not delivered."""
        task, block = self._task, self._target.block
        reached = ledger.cursor(task.publishing, block)
        assert reached is not None
        unhandled = query.earliest_unhandled_end(task.accounting, reached.last_seq, ended_from=reached.start_end_time)
        undelivered = held.earliest_undelivered_end(task.publishing, block)
        waiting = [end for end in (unhandled, undelivered) if end is not None]
        ledger.finish_run(
            task.publishing,
            block,
            error=None if error is None else str(error),
            last_end_time=min(waiting) - 1 if waiting else query.latest_end(task.accounting),
        )


def _do(work: Callable[[Deliverer], None], delivery: Deliverer) -> None:
    try:
        delivery.resume()
        work(delivery)
        delivery.settle()
    finally:
        delivery.stop()
