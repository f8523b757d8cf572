"""
`arcacct publish` and `arcacct republish`: every target on its own, each continuing where it stopped (DESIGN section 5).

fence -> what began and has no answer -> records after the target's last Seq (or the months they touch) -> sync.
"""

from __future__ import annotations

import fcntl
import os
import time
from _sqlite3 import Connection
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from arcacct.conf.settings import Settings
from arcacct.conf.targets import SGASTarget, Target
from arcacct.errors import ArcacctError, StoreBusy
from arcacct.publish.batches import JobBatcher, batched, digest
from arcacct.publish.delivery import Deliverer, Delivery, Tally
from arcacct.publish.families import JobFamily, SummaryFamily, apel_options, family_of, wants
from arcacct.publish.plan import Plan
from arcacct.publish.senders import Sender, max_bytes_of, sender_of
from arcacct.publish.sums import Month, months_between, recent_months, send_sync, summary_texts
from arcacct.records.aar import AAR
from arcacct.store import accounting, fence, jura, ledger, query, schema
from arcacct.store.ledger import Cursor
from arcacct.store.spool import private_directory
from arcacct.sweep import drain

DAY_S = 86400

Watch = Callable[[str, Tally], None]
"""Told of each message that is about to be sent: the target's name and what was done so far."""


class Outcome(NamedTuple):
    """What one target's run came to."""

    target: str
    tally: Tally
    error: ArcacctError | None
    skipped: str | None = None
    """Why nothing was done: not due yet."""


class Period(NamedTuple):
    """``[from_s, before_s)`` of EndTime, UTC seconds."""

    from_s: int
    before_s: int


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
    watch: Watch = lambda _target, _tally: None


AS_CONFIGURED = Wishes()


class Databases(NamedTuple):
    """Both databases."""

    accounting: Connection
    publishing: Connection


@contextmanager
def publishing_lock(path: str) -> Iterator[None]:
    """Only one publisher at a time; raises StoreBusy at once when another is at work."""
    private_directory(os.path.dirname(path))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreBusy(f"{path}: another arcacct is publishing; wait until it is done") from None
        yield
    finally:
        os.close(fd)


def publish(settings: Settings, targets: Sequence[Target], wishes: Wishes = AS_CONFIGURED) -> list[Outcome]:
    """
    Send what is new to each of the targets; one that fails never stops the next.

    Raises StoreError when a database refuses, StoreBusy when another publisher is at work; everything about one
    target is in its Outcome.
    """
    with _databases(settings, dry_run=wishes.dry_run) as (both, horizon):
        return [TargetRun(settings, target, both, wishes).publish(horizon) for target in targets]


def republish(
    settings: Settings, targets: Sequence[Target], period: Period, wishes: Wishes = AS_CONFIGURED
) -> list[Outcome]:
    """
    Send the records of a period again; summaries as whole months. Cursors stay where they are.

    Raises as `publish`. Interrupted, it can be repeated: both receivers know what to do with a repeat.
    """
    with _databases(settings, dry_run=wishes.dry_run) as (both, _horizon):
        return [TargetRun(settings, target, both, wishes).republish(period) for target in targets]


@contextmanager
def _databases(settings: Settings, *, dry_run: bool) -> Iterator[tuple[Databases, int]]:
    """The databases and the horizon: behind lock and fence, or for a dry run just as they are."""
    here = settings.places
    if dry_run:
        both = Databases(accounting.read_accounting(here), accounting.read_publishing(here))
        with closing(both.accounting), closing(both.publishing):
            yield both, query.highest_seq(both.accounting)
        return
    with publishing_lock(here.publishing_lock):
        both = Databases(accounting.open_accounting(here), accounting.open_publishing(here))
        with closing(both.accounting), closing(both.publishing):
            # What waits in the spool is new, too; its complaints are the sweep's to report.
            drain(here, both.accounting, [])
            yield both, fence.pass_fence(both.accounting, here)


class TargetRun:
    """One run of one target."""

    def __init__(self, settings: Settings, target: Target, both: Databases, wishes: Wishes) -> None:
        self._settings = settings
        self._target = target
        self._both = both
        self._wishes = wishes
        self._tally = Tally()
        self._family = family_of(target, settings)

    def publish(self, horizon: int) -> Outcome:
        """What is new up to ``horizon``."""
        position = self._position()
        due = (position.last_success or 0) + self._target.urdelivery_frequency_s
        if not self._wishes.now and due > time.time():
            return self._outcome(None, f"not due before {_iso(due)} (urdelivery_frequency)")
        error = self._attempt("publish", lambda delivery, limit: self._send_new(delivery, limit, position, horizon))
        if not self._wishes.dry_run:
            self._finish(error)
        return self._outcome(error)

    def republish(self, period: Period) -> Outcome:
        """A period again, the cursor untouched."""
        self._position()
        return self._outcome(
            self._attempt("republish", lambda delivery, limit: self._send_again(delivery, limit, period))
        )

    def _outcome(self, error: ArcacctError | None, skipped: str | None = None) -> Outcome:
        return Outcome(self._target.name, self._tally, error, skipped)

    def _attempt(self, origin: str, work: Callable[[Deliverer, int], None]) -> ArcacctError | None:
        """Do the work with an open way to the target; an error ends this target's run only."""
        try:
            if self._wishes.dry_run:
                _run(work, self._plan(), max_bytes_of(self._target))
                return None
            sender = self._wishes.make_sender(self._target)
            with closing(sender):
                _run(work, self._delivery(sender, origin), max_bytes_of(self._target))
        except ArcacctError as error:
            return error
        return None

    def _plan(self) -> Deliverer:
        return Plan(
            self._both.publishing,
            self._target.block,
            self._tally,
            lambda: self._wishes.make_sender(self._target),
            self._wishes.write_to,
        )

    def _delivery(self, sender: Sender, origin: str) -> Deliverer:
        return Delivery(
            self._both.publishing,
            self._target.block,
            sender,
            self._tally,
            origin=origin,
            watch=lambda: self._wishes.watch(self._target.name, self._tally),
        )

    def _send_new(self, delivery: Deliverer, max_bytes: int, position: Cursor, horizon: int) -> None:
        # Read again: the cursor may have moved with what was sent again.
        position = ledger.cursor(self._both.publishing, self._target.block) or position
        if isinstance(self._family, JobFamily):
            batcher = self._batcher(self._family, delivery, max_bytes, moves_cursor=True)
            self._send_new_jobs(position, horizon, batcher)
        else:
            months = recent_months(int(time.time())) | query.months_logged_after(
                self._both.accounting, position.last_seq, horizon, ended_from=position.start_end_time
            )
            self._send_summaries(self._family, months, delivery, max_bytes, seq=horizon)
        self._send_sync(delivery, max_bytes)

    def _send_again(self, delivery: Deliverer, max_bytes: int, period: Period) -> None:
        if isinstance(self._family, JobFamily):
            batcher = self._batcher(self._family, delivery, max_bytes, moves_cursor=False)
            for page in query.ended_between(self._both.accounting, *period):
                for aar in page:
                    if wants(self._target, aar.vo):
                        batcher.add(aar, 0)
            batcher.flush()
        else:
            self._send_summaries(self._family, months_between(*period), delivery, max_bytes, seq=None)
        self._send_sync(delivery, max_bytes)

    def _batcher(self, family: JobFamily, delivery: Deliverer, max_bytes: int, *, moves_cursor: bool) -> JobBatcher:
        return JobBatcher(
            family,
            delivery,
            self._tally,
            max_count=self._target.urbatchsize,
            max_bytes=max_bytes,
            moves_cursor=moves_cursor,
        )

    def _send_new_jobs(self, position: Cursor, horizon: int, batcher: JobBatcher) -> None:
        sent = ledger.sent_since_cursor_moved(self._both.publishing, self._target.block)
        seq = position.last_seq
        while page := query.logged_after(self._both.accounting, seq, horizon, ended_from=position.start_end_time):
            delivered = self._delivered([one.aar for one in page.records]) if position.rebuilding else {}
            for logged in page.records:
                aar = logged.aar
                is_sent = logged.seq in sent or (aar.job_id in delivered and delivered[aar.job_id] == digest(aar))
                if not is_sent and wants(self._target, aar.vo):
                    batcher.add(aar, logged.seq)
            seq = page.last_seq
            batcher.passed(seq)
        batcher.flush()

    def _delivered(self, records: list[AAR]) -> dict[str, bytes]:
        job_ids = [aar.job_id for aar in records]
        return ledger.delivered_digests(self._both.publishing, self._target.block, job_ids)

    def _send_summaries(
        self, family: SummaryFamily, months: set[Month], delivery: Deliverer, max_bytes: int, *, seq: int | None
    ) -> None:
        assert not isinstance(self._target, SGASTarget)
        texts = summary_texts(self._target, family, self._both.accounting, months, self._tally)
        delivery.deliver(family.document, batched(texts, self._target.urbatchsize, max_bytes), seq, [])

    def _send_sync(self, delivery: Deliverer, max_bytes: int) -> None:
        if not isinstance(self._target, SGASTarget):
            options = apel_options(self._target, self._settings)
            send_sync(self._target, options, self._both.accounting, delivery, max_bytes)

    def _position(self) -> Cursor:
        """Where the target stands; begun when it is new, begun anew in another life of the accounting database."""
        con, block = self._both.publishing, self._target.block
        life = schema.incarnation(self._both.accounting)
        found = ledger.cursor(con, block)
        if found is None:
            start, why = self._first_end_time()
            self._tally.notes.append(f"new target: jobs that ended since {_iso(start)} are sent ({why})")
            position = Cursor(block, life, 0, start, rebuilding=False, last_success=None)
        elif found.incarnation != life or query.highest_seq(self._both.accounting) < found.last_seq:
            self._tally.notes.append("the accounting database was restored: comparing with what was sent before")
            position = found._replace(incarnation=life, last_seq=0, rebuilding=True)
        elif self._wishes.since is not None and self._wishes.since < found.start_end_time:
            position = found._replace(start_end_time=self._wishes.since, last_seq=0, rebuilding=True)
        else:
            return found
        if not self._wishes.dry_run:
            ledger.set_cursor(con, position)
        return position

    def _first_end_time(self) -> tuple[int, str]:
        """A day before jura-ng stopped (repeats are harmless), else the beginning of today; or as it is wished."""
        if self._wishes.since is not None:
            return self._wishes.since, "--since"
        stopped = ledger.jura_end_time(self._both.publishing, self._target.block)
        if stopped is None:
            stopped = jura.jura_end_times(self._settings.jura_database).get(self._target.block)
        if stopped is not None:
            return max(0, stopped - DAY_S), f"a day before jura-ng stopped at {_iso(stopped)}"
        seconds = int(time.time())
        return seconds - seconds % DAY_S, "today"

    def _finish(self, error: ArcacctError | None) -> None:
        """Close the run; jura's watermark is just before the earliest record that is not delivered."""
        position = ledger.cursor(self._both.publishing, self._target.block)
        assert position is not None
        unhandled = query.earliest_unhandled_end(
            self._both.accounting, position.last_seq, ended_from=position.start_end_time
        )
        held = ledger.earliest_held_end(self._both.publishing, self._target.block)
        waiting = [end for end in (unhandled, held) if end is not None]
        ledger.finish_run(
            self._both.publishing,
            self._target.block,
            error=None if error is None else str(error),
            last_end_time=min(waiting) - 1 if waiting else query.latest_end(self._both.accounting),
        )


def _run(work: Callable[[Deliverer, int], None], delivery: Deliverer, max_bytes: int) -> None:
    delivery.resume()
    work(delivery, max_bytes)
    delivery.settle_suspects()


def _iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
