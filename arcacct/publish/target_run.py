"""One run of one target: what began and has no answer, then what is new or asked for, then the sync message."""

from __future__ import annotations

import time
from _sqlite3 import Connection
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import NamedTuple

from arcacct.conf.settings import Settings
from arcacct.conf.targets import SGASTarget, Target
from arcacct.errors import ArcacctError
from arcacct.publish.batches import JobBatcher, Limits, batched
from arcacct.publish.delivery import Deliverer, Delivery, Part, Tally
from arcacct.publish.families import (
    APEL_JOB_KINDS,
    DOCUMENTS,
    SYNC,
    JobFamily,
    SummaryFamily,
    apel_options,
    family_of,
    job_family,
    wants,
)
from arcacct.publish.plan import Plan
from arcacct.publish.position import first_position, iso, renamed_from
from arcacct.publish.senders import Sender, max_bytes_of, sender_of
from arcacct.publish.sums import (
    Month,
    month_bounds,
    month_name,
    months_between,
    recent_months,
    summary_sums,
    sync_parts,
    zeros,
    zeros_note,
)
from arcacct.records import acceptance
from arcacct.records.aar import AAR, UsageCell
from arcacct.store import ledger, query, schema
from arcacct.store.ledger import Cursor, Held, SentRecord, Version

_LAST_SECOND = 2**62


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
    """Told of each message that is about to be sent: the target's name and what was done so far."""
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
        self._settings = settings
        self._target = target
        self._both = both
        self._wishes = wishes
        self._tally = Tally(lambda note: wishes.announce(target.name, note))
        self._family = family_of(target, settings)
        self._limits = Limits(target.urbatchsize, max_bytes_of(target))

    def publish(self, horizon: int) -> Outcome:
        """What is new up to ``horizon``."""
        position = self._position()
        due = (position.last_success or 0) + self._target.urdelivery_frequency_s
        if not self._wishes.now and due > time.time():
            return self._outcome(None, f"not due before {iso(due)} (urdelivery_frequency)")
        error = self._attempt("publish", lambda delivery: self._send_new(delivery, position, horizon))
        if not self._wishes.dry_run:
            self._finish(error)
        return self._outcome(error)

    def republish(self, period: Period) -> Outcome:
        """A period again, the cursor untouched."""
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

    def _send_new(self, delivery: Deliverer, position: Cursor, horizon: int) -> None:
        # Read again: the cursor may have moved with what was sent again.
        position = ledger.cursor(self._both.publishing, self._target.block) or position
        touched = query.months_logged_after(
            self._both.accounting, position.last_seq, horizon, ended_from=position.start_end_time
        )
        if isinstance(self._family, JobFamily):
            self._leave_sums(self._family, touched, delivery)
            self._send_new_jobs(self._family, position, horizon, delivery)
        else:
            self._send_summaries(self._family, touched | recent_months(int(time.time())), delivery, seq=horizon)
        self._send_sync(delivery)

    def _send_again(self, delivery: Deliverer, period: Period) -> None:
        months = months_between(*period)
        if isinstance(self._family, JobFamily):
            self._leave_sums(self._family, months, delivery)
            batcher = self._batcher(self._family, delivery, republish=True)
            self._add_all(batcher, period)
            batcher.flush()
            if self._tally.corrections:
                self._tally.note(
                    f"{self._tally.corrections} records differ from what the receiver got first, which it keeps:"
                    " `arcacct quarantine list` says what to do about each"
                )
        else:
            self._send_summaries(self._family, months, delivery, seq=None)
        self._send_sync(delivery)

    def _batcher(self, family: JobFamily, delivery: Deliverer, *, republish: bool = False) -> JobBatcher:
        return JobBatcher(
            family, delivery, self._tally, self._limits, settle_s=self._target.settle_s, republish=republish
        )

    def _send_new_jobs(self, family: JobFamily, position: Cursor, horizon: int, delivery: Deliverer) -> None:
        """Held records whose time has come, then what was logged after the cursor."""
        batcher = self._batcher(family, delivery)
        self._add_held(batcher)
        seq = position.last_seq
        while page := query.logged_after(self._both.accounting, seq, horizon, ended_from=position.start_end_time):
            job_ids = [one.aar.job_id for one in page.records]
            known = self._versions(job_ids)
            unwanted = ledger.dropped(self._both.publishing, self._target.block, job_ids)
            for logged in page.records:
                if wants(self._target, logged.aar.vo) and logged.aar.job_id not in unwanted:
                    batcher.add(logged.aar, logged.seq, known.get(logged.aar.job_id, ()))
            seq = page.last_seq
            batcher.passed(seq)
        batcher.flush()

    def _versions(self, job_ids: list[str]) -> dict[str, list[Version]]:
        return ledger.versions(self._both.publishing, self._target.block, job_ids)

    def _add_held(self, batcher: JobBatcher) -> None:
        settled = int(time.time()) - self._target.settle_s
        held = ledger.held_to_send(self._both.publishing, self._target.block, settled)
        records = query.by_record_id(self._both.accounting, [one.record.record_id for one in held])
        gone = [one.record.job_id for one in held if one.record.record_id not in records]
        known = self._versions([one.record.job_id for one in held])
        for one in held:
            aar = records.get(one.record.record_id)
            if aar is not None:
                # Who says "retry" has made room for it at the receiver: what that had before does not matter.
                batcher.add(aar, one.record.seq, () if one.state == "retry" else known.get(aar.job_id, ()))
        if gone and not self._wishes.dry_run:
            ledger.release(self._both.publishing, self._target.block, gone)

    def _add_all(self, batcher: JobBatcher, period: Period) -> None:
        for page in query.ended_between(self._both.accounting, *period):
            known = self._versions([aar.job_id for aar in page])
            for aar in page:
                if wants(self._target, aar.vo):
                    batcher.add(aar, 0, known.get(aar.job_id, ()))

    def _leave_sums(self, family: JobFamily, months: Iterable[Month], delivery: Deliverer) -> None:
        """
        The target got summaries of these months before: take them back, and send each job of the months instead.

        APEL adds up jobs and summaries of one month, so both together would count double.
        """
        for month in sorted(months):
            live = [
                (kind, one)
                for kind, one in ledger.live_sums(self._both.publishing, self._target.block, *month)
                if kind != SYNC.kind
            ]
            if not live:
                continue
            self._tally.note(
                f"{month_name(month)} was published as {live[0][0]} before: its {len(live)} sums are sent again"
                f" with zeros, and every job of the month as a {family.document.kind} record"
            )
            self._send_zeros(live, [], delivery)
            batcher = self._batcher(family, delivery, republish=True)
            self._add_all(batcher, Period(*month_bounds(*month)))
            batcher.flush()

    def _send_summaries(
        self, family: SummaryFamily, months: Iterable[Month], delivery: Deliverer, *, seq: int | None
    ) -> None:
        """Whole months; what was published of them under keys that no longer hold is taken back first."""
        assert not isinstance(self._target, SGASTarget)
        cells: list[UsageCell] = []
        live = []
        for month in sorted(months):
            cells += query.usage_cells(self._both.accounting, *month_bounds(*month))
            self._leave_jobs(month, delivery)
            live += ledger.live_sums(self._both.publishing, self._target.block, *month)
        sums = summary_sums(self._target, family, cells, self._tally)
        self._hold_refused(family, sums.refused)
        self._send_zeros([(kind, one) for kind, one in live if kind != SYNC.kind], sums.parts, delivery)
        delivery.deliver(family.document, batched(sums.parts, *self._limits), seq, [])

    def _leave_jobs(self, month: Month, delivery: Deliverer) -> None:
        """The target got this month's jobs as records of their own before: take them back with zeros."""
        assert not isinstance(self._target, SGASTarget)
        kinds = ledger.job_kinds_sent(self._both.publishing, self._target.block)
        for kind in sorted(kinds & set(APEL_JOB_KINDS)):
            live = ledger.live_versions(self._both.publishing, self._target.block, [kind], month_bounds(*month))
            if not live:
                continue
            self._tally.note(
                f"{month_name(month)}: {len(live)} jobs were published as {kind} records before: they are sent again"
                " with zeros, and summaries from now on; the receiver counts these jobs twice, their usage once"
            )
            batcher = self._batcher(job_family(kind, self._target, self._settings), delivery, republish=True)
            records = query.by_record_id(self._both.accounting, [one.record_id for one in live])
            for one in live:
                batcher.neutralise(records.get(one.record_id) or _vanished(one), one)
            batcher.flush()

    def _send_zeros(self, live: list[tuple[str, ledger.SentSum]], current: list[Part], delivery: Deliverer) -> None:
        dialect = "server" if isinstance(self._target, SGASTarget) else self._target.apel_dialect
        for kind, parts in zeros(live, current, dialect).items():
            self._tally.note(zeros_note(kind, parts))
            delivery.deliver(DOCUMENTS[kind], batched(parts, *self._limits), None, [])

    def _hold_refused(self, family: SummaryFamily, refused: list[UsageCell]) -> None:
        """Name each job that is left out of the summaries."""
        held = []
        now = int(time.time())
        for month in sorted({(cell.year, cell.month) for cell in refused}):
            for page in query.ended_between(self._both.accounting, *month_bounds(*month)):
                for aar in page:
                    refusal = acceptance.accept_cell(query.cell_of(aar), family.options, now).refusal
                    if refusal is not None and wants(self._target, aar.vo):
                        record = SentRecord(aar.job_id, aar.record_id, 0, aar.end_time, b"")
                        held.append(Held(record, "quarantined", refusal))
        self._tally.quarantined += len(held)
        if not self._wishes.dry_run:
            ledger.hold_only(self._both.publishing, self._target.block, held)

    def _send_sync(self, delivery: Deliverer) -> None:
        """The counts of every month with jobs; last in every run."""
        if isinstance(self._target, SGASTarget):
            return
        cells = query.usage_cells(self._both.accounting, 1, _LAST_SECOND)
        parts = sync_parts(self._target, apel_options(self._target, self._settings), cells)
        months = ledger.months_of(self._both.publishing, self._target.block, SYNC.kind)
        live = [
            (kind, one)
            for month in months
            for kind, one in ledger.live_sums(self._both.publishing, self._target.block, *month)
            if kind == SYNC.kind
        ]
        gone = zeros(live, parts, self._target.apel_dialect).get(SYNC.kind, [])
        if gone:
            self._tally.note(zeros_note(SYNC.kind, gone))
        delivery.deliver(SYNC, batched([*gone, *parts], *self._limits), None, [])

    def _position(self) -> Cursor:
        """Where the target stands; begun when it is new, begun anew in another life of the accounting database."""
        con, block = self._both.publishing, self._target.block
        life = schema.incarnation(self._both.accounting)
        since = self._wishes.since
        found = ledger.cursor(con, block) or self._taken_over(con)
        if found is None:
            position = first_position(con, self._settings, self._target, life, since, self._tally)
        elif found.incarnation != life or query.highest_seq(self._both.accounting) < found.last_seq:
            self._tally.note("the accounting database was restored: what is sent is compared with what was sent before")
            position = found._replace(incarnation=life, last_seq=0)
        elif since is not None and since < found.start_end_time:
            position = found._replace(start_end_time=since, last_seq=0)
        else:
            return found
        if not self._wishes.dry_run:
            ledger.set_cursor(con, position)
        return position

    def _taken_over(self, con: Connection) -> Cursor | None:
        """The cursor that this target had under another name."""
        old = renamed_from(con, self._settings, self._target)
        if old is None:
            return None
        self._tally.note(f"goes on where [{old}] stopped: it went to the same receiver and is not configured any more")
        found = ledger.cursor(con, old)
        if not self._wishes.dry_run:
            ledger.rename_target(con, old, self._target.block)
        return found

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


def _do(work: Callable[[Deliverer], None], delivery: Deliverer) -> None:
    delivery.resume()
    work(delivery)
    delivery.settle_suspects()


def _vanished(record: SentRecord) -> AAR:
    """A job that the database no longer has, as far as its neutral record needs it."""
    nothing = (None, None, None, None, None, None)
    return AAR(record.record_id, record.job_id, *nothing, "failed", 1, 0, record.end_time, 1, 1, *([0] * 8))  # type: ignore[arg-type]
