"""
One run of one target: its start, then pending messages, then new or requested records, then the sync message.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import cache, partial
from threading import Event
from typing import NamedTuple

from arcacct.database import incarnation, schema
from arcacct.database.connection import Connection, DatabaseError, translated
from arcacct.database.incarnation import MEANING, DatabaseMismatch
from arcacct.errors import ArcacctError, FiguresHeld
from arcacct.publishing import cursors, held, kept_records, ledger, selection, sent, summaries, target_months
from arcacct.publishing.answers import RunDeadline
from arcacct.publishing.context import RunContext, RunSummary
from arcacct.publishing.cursors import Cursor, selections, set_selection
from arcacct.publishing.delivery import Delivery
from arcacct.publishing.former_publisher import former_publisher
from arcacct.publishing.ledger import COUNTS, LedgerGap
from arcacct.publishing.plugin import ReceiverRows, Sender, TargetPlugin
from arcacct.publishing.records import RecordRouter, add_held, add_logged, add_period, release_absent, zero_records
from arcacct.publishing.safeguard import DecreaseGuard
from arcacct.publishing.selection import first_start
from arcacct.publishing.senders import LazySender
from arcacct.publishing.sent import published_jobs, published_sums
from arcacct.publishing.target_months import KEPT, LOWER
from arcacct.records import reader, usage
from arcacct.times import Month, iso, month_bounds, month_name, month_of, months_between, next_month, recent_months
from arcacct.wording import count_of

# The start of a target: where jura-ng stopped, where it was under another name, or where our own recording started.


def open_cursor(ctx: RunContext, since: int | None) -> Cursor:
    """
    Return the cursor of a target. Create it for a new target, and reset it for another incarnation of the database.

    ``since`` (UTC seconds) resets it, too, if it is earlier than the target's start.
    """
    found = cursors.cursor(ctx.publishing, ctx.block)
    if found is None:
        start, why = first_start(ctx.publishing, ctx.accounting, ctx.plugin, ctx.former, since)
        ctx.summary.note(
            f"new target: `arcacct publish` sends jobs that ended since {iso(start)} ({why}; change it with --since"
            " TIME)"
        )
    else:
        # A lost or older ledger may not know the start that it had.
        remembered = selection.remembered_start(ctx.accounting, ctx.block)
        start = min(one for one in (found.start_end_time, since, remembered) if one is not None)
        if found.incarnation != ctx.incarnation or incarnation.highest_seq(ctx.accounting) < found.last_seq:
            ctx.summary.note(MEANING[DatabaseMismatch.ACCOUNTING_OTHER])
        elif cursors.is_damaged(ctx.publishing, ctx.block):
            ctx.summary.note(ledger.DAMAGED)
        elif start == found.start_end_time:
            return found
    begun = Cursor(ctx.block, ctx.incarnation, 0, start, found and found.last_success)
    cursors.set_cursor(ctx.publishing, begun, in_doubt=found is None and incarnation.is_successor(ctx.publishing))
    return begun


def continue_former_name(plugin: TargetPlugin, publishing: Connection, summary: RunSummary) -> None:
    """Give a new target the history of the only unconfigured one that went to the same receiver, if there is one."""
    configured, block = {one.block for one in plugin.settings.targets}, plugin.target.block
    kind = block.partition(":")[0]
    candidates = [
        former
        for former, destination in sent.destinations(publishing).items()
        if destination == plugin.target.url and former not in configured and former.startswith(f"{kind}:")
    ]
    if len(candidates) == 1:
        (old,) = candidates
        summary.note(f"continues where [{old}] stopped: it went to the same receiver and is no longer configured")
        cursors.rename_target(publishing, old, block)


# One run of one target: unanswered messages, then new or requested records, then the sync message.


class Period(NamedTuple):
    """``[from_s, before_s)`` of EndTime, UTC seconds."""

    from_s: int
    before_s: int

    def has(self, month: Month) -> bool:
        """Whether the whole month is in the period."""
        start_s, before_s = month_bounds(*month)
        return self.from_s <= start_s and before_s <= self.before_s


class TargetResult(NamedTuple):
    """The result of one target's run."""

    target: str
    summary: RunSummary
    error: ArcacctError | None
    skipped: str | None = None
    """Why nothing was done: the run is not due yet."""


class RunOptions(NamedTuple):
    """The options of a run."""

    now: bool = False
    """Whether to ignore urdelivery_frequency."""
    since: int | None = None
    """Send jobs that ended at this time or later, also those from before the target was known."""
    dry_run: bool = False
    """Send nothing and store nothing about it: show what a run would do if each receiver accepted everything."""
    write_to: str | None = None
    """With ``dry_run``: a directory for the exact bytes of the messages."""
    accept_lower: tuple[Month, ...] = ()
    """Months that may fall, with any figures: an operator says so."""
    receiver_rows: Sequence[str] = ()
    """Files with rows of the receiver's tables (`TargetPlugin.receiver_rows`), for a republish."""
    accept_names: bool = True
    """Whether ``accept_lower`` also accepts other names: it does if it is given for one target, not for all at once."""
    former_names: str | None = None
    """``move`` or ``keep``: what happens to months that the receiver has under former names of the site."""
    who: str = ""
    """The name of the operator who accepts."""
    make_sender: Callable[[TargetPlugin], Sender] = lambda plugin: LazySender(plugin.target, plugin.sender)
    watch: Callable[[str, RunSummary], None] = lambda _target, _summary: None
    """Called at each answered message with the target's name and its summary so far."""
    announce: Callable[[str, str], None] = lambda _target, _note: None
    """Called with the notes of a target's run, before it does what they announce."""
    complain: Callable[[str], None] = lambda _complaint: None
    """Called with each unusable entry of the spool, as in a sweep."""


AS_CONFIGURED = RunOptions()


class Databases(NamedTuple):
    """Both databases."""

    accounting: Connection
    publishing: Connection


class TargetRun:
    """
    One run of one target. Errors of the target go into its result; errors of the databases are raised.

    Once ``stopping`` is set, nothing more is sent.
    """

    def __init__(
        self, plugin: TargetPlugin, both: Databases, options: RunOptions, stopping: Event | None = None
    ) -> None:
        self._plugin = plugin
        self._target = plugin.target
        self._both = both
        self._options = options
        self._stopping = stopping or Event()
        self.summary = RunSummary(lambda note: options.announce(plugin.target.name, note))
        """The results so far."""
        plugin.bare_ids = selection.bare_ids(*both)
        self._selection = selection.in_use(both.accounting, plugin)
        self._walked = False
        """Whether the log was read from its start."""
        self._is_whole = False
        """Whether everything was handled and answered, except for months that the safeguard holds."""

    def publish(self, horizon: int) -> TargetResult:
        """Send what is new up to ``horizon``, a place in the log."""
        ctx, block = self._begun(), self._target.block
        start = open_cursor(ctx, self._options.since)
        due = (start.last_success or 0) + self._target.urdelivery_frequency_s
        # A last success in the future was noted by a wrong clock.
        options = self._options
        wanted = options.now or options.accept_lower or options.former_names or options.since is not None
        if not wanted and (start.last_success or 0) <= time.time() < due:
            skipped = f"not due before {iso(due)} (urdelivery_frequency)"
            return TargetResult(self._target.name, self.summary, None, skipped)
        # A receiver's refusal is believed when a later run gets it again.
        ctx = ctx._replace(run=cursors.begin_run(ctx.publishing, ctx.block))
        self.summary.not_selected = selection.not_selected(ctx.accounting, self._plugin)
        error = self._attempt(ctx, "publish", lambda delivery: self._send_new(ctx, delivery, start, horizon))
        target_months.end_run(ctx.publishing, block, ctx.guard.held.values(), ctx.run, is_whole=self._is_whole)
        if self._is_whole:
            self._prove(ctx)
            if ctx.guard.held and self._has_records(ctx):
                kept_records.note(ctx)
        self._finish(ctx, error)
        return TargetResult(self._target.name, self.summary, error)

    def republish(self, period: Period, horizon: int) -> TargetResult:
        """Send a period again. The cursor does not move."""
        ctx = self._begun()
        open_cursor(ctx, self._options.since)
        # A receiver's refusal is believed when a later run gets it again.
        ctx = ctx._replace(run=cursors.begin_run(ctx.publishing, ctx.block))
        # A republish finds records by their end times: it does not know the places of those that it keeps.
        kept_records.forget(ctx.publishing, self._target.block)
        error = self._attempt(ctx, "republish", lambda delivery: self._send_again(ctx, delivery, period, horizon))
        # A month with nothing published needs no alarm once it is no longer requested.
        holding = [one for one in ctx.guard.held.values() if (one.year, one.month) in ctx.months]
        target_months.set_held(
            ctx.publishing, self._target.block, holding, self._healed(ctx, period) if self._is_whole else ()
        )
        return TargetResult(self._target.name, self.summary, error)

    def _healed(self, ctx: RunContext, period: Period) -> list[Month]:
        """
        Return the held months that were sent again completely, if the receiver has all their jobs.

        If the receiver has more jobs than the database, a later run must look for deleted ones.
        """
        published = Counter[Month]()
        for place, amount in sent.published(ctx.publishing, ctx.block):
            published[place.year, place.month] += amount.jobs
        return [
            month
            for month in target_months.held(ctx.known)
            if period.has(month) and month not in ctx.guard.held and published[month] == summaries.jobs_here(ctx, month)
        ]

    def _begun(self) -> RunContext:
        """Return the context of the run, from the present ledger. It first stores an operator's acceptance."""
        publishing, block = self._both.publishing, self._target.block
        life = schema.incarnation(self._both.accounting)
        # A target under another name begins with what the ledger has under the former one.
        if cursors.cursor(publishing, block) is None:
            continue_former_name(self._plugin, publishing, self.summary)
        names = selection.former_names(publishing, self._plugin)
        if self._options.former_names == "keep":
            target_months.decide(publishing, block, names, KEPT, self._options.who)
        elif self._options.former_names is not None:
            self._options = self._options._replace(
                accept_lower=(*self._options.accept_lower, *names),
                accept_names=self._options.accept_names and bool(self._options.accept_lower),
            )
        if self._options.accept_lower:
            target_months.decide(publishing, block, self._options.accept_lower, LOWER, self._options.who, life)
        guard = DecreaseGuard(
            accepted=target_months.accepted(publishing, block, life),
            life_seq=schema.incarnation_start_seq(self._both.accounting),
            selection=self._selection,
            proven=selections(publishing, block)[0],
            given_jobs=published_jobs(publishing, block),
            given_sums=published_sums(publishing, block),
            folded=self._plugin.folded,
        )
        known = target_months.load(publishing, block)
        published = {month: one.format for month, one in known.items() if one.format is not None}
        kinds = selection.remembered_kinds(self._both.accounting, self._plugin)
        former = former_publisher(self._plugin, publishing)
        both = self._both
        return RunContext(
            self._plugin, *both, self.summary, guard, published, life, former, kinds, former_names=names, known=known
        )

    def _attempt(self, ctx: RunContext, origin: str, work: Callable[[Delivery], None]) -> ArcacctError | None:
        """Do the work with a sender to the target. An error ends only this target's run."""
        try:
            with ExitStack() as ending:
                ending.callback(self.summary.report_records)
                sender = ending.enter_context(closing(self._options.make_sender(self._plugin)))
                transport = self._target.transport_options
                # A republish has no time limit: no next run would continue it.
                ends = None if origin == "republish" or transport is None else transport.run_timeout_s
                sender.set_deadline(RunDeadline(ends, self._stopping))
                watch = partial(self._options.watch, self._target.name, self.summary)
                delivery = Delivery(ctx, sender, origin, self._unknown(), watch)
                ending.callback(delivery.stop)
                delivery.resume()
                work(delivery)
                delivery.settle()
        except ArcacctError as error:
            return error
        except DatabaseError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  internal errors are stored in the ledger, too
            return fault_of(error, self._plugin.settings.places.publishing_database)
        self._is_whole = True
        return ctx.guard.error()

    def _unknown(self) -> LedgerGap | None:
        """Return what an older ledger may lack about a receiver that keeps the first version; ``None``: nothing."""
        accounting, publishing = self._both
        doubt = incarnation.uncertain_after_seq(publishing, self._target.block)
        if not self._plugin.keeps_first or (doubt is None and not incarnation.is_successor(publishing)):
            return None
        # A record that was not sent again when the loss was found (held, for example) may be sent at any time.
        changed = cache(lambda: {one.job_id for one in usage.former_keys(accounting, doubt or 0)})
        return LedgerGap(incarnation.last_row(accounting, self._target.block), changed)

    def _send_new(self, ctx: RunContext, delivery: Delivery, start: Cursor, horizon: int) -> None:
        block = self._target.block
        self._refuse_other_names(ctx)
        # Read it again: resent messages may have moved the cursor.
        start = cursors.cursor(ctx.publishing, block) or start
        holding = {*target_months.held(ctx.known)}
        ctx.summary.implausible = reader.count_held(ctx.accounting, start.last_seq, horizon)
        touched: set[Month] = set()
        if target_months.uncertain_before(ctx.known) is not None:
            # What a backup has was logged before: it touches nothing.
            after = max(start.last_seq, schema.incarnation_start_seq(ctx.accounting))
            touched = reader.months_logged_after(ctx.accounting, after, horizon, ended_from=start.start_end_time)
            touched |= usage.months_changed_after(ctx.accounting, after) | holding
            touched |= held.held_months(ctx.publishing, block, ctx.retry_thresholds)
        self._hold_unsure(ctx, target_months.uncertain(ctx.known), touched)
        kept = target_months.decisions(ctx.publishing, block, KEPT)
        names = {month: some for month, some in ctx.former_names.items() if month not in kept}
        ctx.guard.hold_former_names(names, self._target.name)
        walked, chosen = selections(ctx.publishing, block)[1], self._plugin.record_selection()
        is_changed = walked is not None and walked != chosen
        # Read the whole log if the selection has changed or something is held. Held or accepted sums are checked
        # separately; held records are found in the log or in the list of waiting records.
        walks = self._walked = is_changed or (self._has_records(ctx) and bool(holding or self._options.accept_lower))
        # Store the selection with which the log is read, before the cursor moves. After a failed run the cursor has
        # passed records that this selection excludes: another selection must start again.
        if is_changed or (walked is None and start.last_seq == 0):
            set_selection(ctx.publishing, block, "FullScanSelection", {} if is_changed else chosen)
        doubt = incarnation.uncertain_after_seq(ctx.publishing, block)
        if doubt is not None:
            self.summary.note("publishing.db was lost, or is an older copy: the records sent since then are sent again")
            release_absent(ctx)
            if left := selection.unresolved_selection(ctx.accounting, self._plugin):
                self.summary.note(left)
        begin = start._replace(last_seq=0) if walks else start
        logged = reader.months_logged_after(ctx.accounting, begin.last_seq, horizon, ended_from=start.start_end_time)
        by_kind = self._months_of_sums(ctx, start, logged, holding, doubt)
        waiting = None
        if walks and not is_changed and doubt is None and not ctx.guard.accepted.open:
            waiting = kept_records.take_over(ctx, start.last_seq)
        if waiting is None:
            kept_records.forget(ctx.publishing, block)
        router = RecordRouter(ctx, delivery, waiting=waiting) if self._has_records(ctx) else None
        self._say_families(ctx)
        # Send sums before records: the records move the cursor, and every touched month must be handled by then.
        for kind in sorted(by_kind, key=lambda kind: kind == self._plugin.message_format):
            odd = [
                *reader.without_measure(ctx.accounting, begin.last_seq, horizon),
                *reader.logged_ended_from(ctx.accounting, begin.last_seq, horizon, next_month(int(time.time()))),
            ]
            seq = horizon if router is None and kind == self._plugin.message_format else None
            summaries.send_summaries(ctx, kind, by_kind[kind], delivery, horizon=horizon, seq=seq, logged=odd)
        if router is not None:
            if doubt is not None:
                router.zero_out_previous(doubt, start.start_end_time)
            add_held(ctx, router)
            add_logged(ctx, router, begin, horizon, waiting, start.last_seq)
            router.take_back(logged | recent_months(int(time.time())))
            ctx.guard.hold_blocked_months()
        summaries.send_sync(ctx, delivery)

    def _hold_unsure(self, ctx: RunContext, concerned: Collection[Month], touched: Collection[Month] = ()) -> None:
        """
        Hold the months whose figures at the receiver are unknown, until they are accepted or their jobs are back.

        These are the uncertain months among those ``concerned``, and earlier ones that something has ``touched`` since
        both databases were restored with nothing to compare. At a receiver that keeps the first version no figure can
        fall.
        """
        if self._plugin.keeps_first:
            return
        unsure = {
            month: one.jobs
            for month, one in target_months.uncertain(ctx.known).items()
            if one.answered_s is None and month in concerned
        }
        back = []
        for month, jobs in {**unsure, **dict.fromkeys(target_months.untouched(ctx.known, touched))}.items():
            here = summaries.jobs_here(ctx, month)
            if jobs is not None and here >= jobs:
                back.append(month)
            else:
                ctx.guard.hold_unknown(month, jobs, here)
        if back:
            target_months.resolve_uncertain(ctx.publishing, ctx.block, back)

    def _say_families(self, ctx: RunContext) -> None:
        """Report which recent months keep another kind of messages than the configured one."""
        for month in sorted(recent_months(int(time.time())) & ctx.months.keys()):
            if (kind := ctx.message_format_of(month)) != self._plugin.message_format:
                self.summary.note(
                    f"{month_name(month)} was published as {kind} and stays so: a month has one kind of message;"
                    f" {self._plugin.message_format} applies from the first month without published records"
                )

    def _refuse_other_names(self, ctx: RunContext) -> None:
        """Raise FiguresHeld if the receiver's data under other names are unknown and no operator has accepted that."""
        why = selection.names_in_doubt(ctx.accounting, ctx.publishing, self._plugin)
        if why and not (self._options.accept_lower and self._options.accept_names):
            raise FiguresHeld(why)
        # Store the names before anything is sent under them, so that a kill cannot lose them. An operator's acceptance
        # is kept, whatever else is held.
        self._remember_names(ctx, alone=bool(why))

    def _remember_names(self, ctx: RunContext, *, alone: bool = False, whole: bool = False) -> None:
        """Store the names and the kinds of months in accounting.db (`to_remember`). A ledger in doubt may lack some."""
        accounting, publishing, block = ctx.accounting, ctx.publishing, ctx.block
        start = cursors.cursor(publishing, block)
        assert start is not None
        is_known = self._options.since is not None or selection.is_start_known(accounting, publishing, block)
        start_s = start.start_end_time if is_known else None
        kinds = None
        if self._plugin.kind_option and (whole or incarnation.uncertain_after_seq(publishing, block) is None):
            kinds = {**ctx.remembered_kinds, **target_months.kinds(publishing, block)}
        names = selection.to_remember(accounting, self._plugin, alone=alone, whole=whole, start=start_s, kinds=kinds)
        incarnation.save_names(accounting, self._plugin.settings.places, block, names)

    def _has_records(self, ctx: RunContext) -> bool:
        """Whether the target is or ever was sent records of jobs."""
        return any(map(self._plugin.has_records, ctx.message_formats))

    def _sums_by_kind(self, ctx: RunContext, months: Iterable[Month]) -> dict[str, set[Month]]:
        """Return those of some months that are published as sums, by kind of message."""
        by_kind: dict[str, set[Month]] = {}
        for month in months:
            if not self._plugin.has_records(kind := ctx.message_format_of(month)):
                by_kind.setdefault(kind, set()).add(month)
        return by_kind

    def _months_of_sums(
        self, ctx: RunContext, start: Cursor, logged: set[Month], holding: set[Month], doubt: int | None
    ) -> dict[str, set[Month]]:
        """Return the months whose sums are sent now, by kind of message; ``logged``: those with records to look at."""
        # The kinds that accounting.db has, for a ledger that was lost.
        in_sums = set[Month]().union(*self._sums_by_kind(ctx, {*ctx.months, *ctx.remembered_kinds}).values())
        sends_records = self._plugin.has_records(self._plugin.message_format)
        if sends_records and not in_sums:
            return {}
        # A job that moved to another month also changed the old month, even if the run that sent it there failed.
        if doubt is None:
            left = usage.months_changed_after(ctx.accounting, start.last_seq) & in_sums
        else:
            # A lost ledger may have had months that no longer have jobs.
            changed = usage.months_changed_after(ctx.accounting, min(doubt, start.last_seq))
            left = {month for month in changed if month_bounds(*month)[1] > start.start_end_time}
        elsewhere = {month for month in in_sums & ctx.months.keys() if ctx.months[month].incarnation != ctx.incarnation}
        unknown = target_months.unfinished(ctx.publishing, self._target.block)
        # A month that ended before the target's start was another program's to publish.
        recent = {
            month
            for month in recent_months(int(time.time()))
            if month in ctx.months or month_bounds(*month)[1] > start.start_end_time
        }
        # A job that our own rules left out may be allowed now.
        again = held.held_months(ctx.publishing, self._target.block, ctx.retry_thresholds)
        wanted = logged | left | elsewhere | unknown | holding | recent | again | {*self._options.accept_lower}
        wanted -= target_months.untouched(ctx.known, wanted)
        if self._walked:
            # Another selection may have skipped their jobs.
            wanted |= logged
        nothing: dict[str, set[Month]] = {} if sends_records else {self._plugin.message_format: set()}
        return nothing | self._sums_by_kind(ctx, wanted)

    def _prove(self, ctx: RunContext) -> None:
        """Store the present selection as proven: everything was handled and answered."""
        block = self._target.block
        in_doubt = incarnation.uncertain_after_seq(ctx.publishing, block) is not None
        # Nothing was sent for a held month, not even the zeros for keys in doubt.
        is_proven = not ctx.guard.held
        if in_doubt and not self._options.accept_lower:
            is_proven = is_proven and not selection.unresolved_selection(ctx.accounting, self._plugin)
        if is_proven or not in_doubt:
            self._remember_names(ctx, whole=is_proven)
        if is_proven and in_doubt:
            incarnation.clear_uncertain(ctx.publishing, block)
        proven, before = selections(ctx.publishing, block)
        if self._walked or before is None:
            set_selection(ctx.publishing, block, "FullScanSelection", self._plugin.record_selection())
        if proven != self._selection and not ctx.guard.held:
            set_selection(ctx.publishing, block, "LastGoodSelection", self._selection)

    def _send_again(self, ctx: RunContext, delivery: Delivery, period: Period, horizon: int) -> None:
        concerned = self._months_of(ctx, period)
        if not self._options.receiver_rows:
            self._refuse_other_names(ctx)
            self._hold_unsure(ctx, concerned)
        else:
            # The receiver's own tables have names and keys that the ledger may lack.
            ctx = ctx._replace(at_receiver=self._rows(ctx, period))
        before = ledger.last_message(ctx.publishing)
        # A lost ledger does not know what was sent before, whichever command finds that first.
        doubt = incarnation.uncertain_after_seq(ctx.publishing, ctx.block)
        by_kind = self._sums_by_kind(ctx, concerned)
        for kind, months in sorted(by_kind.items()):
            summaries.send_summaries(ctx, kind, months, delivery, horizon=horizon)
        summaries.zero_sums(ctx, delivery)
        router = RecordRouter(ctx, delivery, republish=True) if self._has_records(ctx) else None
        zero_records(ctx, delivery)
        if router is not None:
            if doubt is not None:
                router.zero_out_previous(doubt, *period)
            add_period(ctx, router, *period)
            router.take_back(concerned)
            ctx.guard.hold_blocked_months()
            if self.summary.corrections:
                self.summary.note(
                    f"{count_of(self.summary.corrections, 'record')} corrected since the receiver got the first "
                    "version, which it keeps:"
                    " `arcacct quarantine list` says what to do about each"
                )
        left = sum((one.year, one.month) in ctx.guard.held for kind, one in ctx.at_receiver.sums if kind != COUNTS)
        if left:
            self.summary.note(
                f"{count_of(left, 'row')} of months on hold not changed at the receiver: accept the months, then give"
                " the same files again"
            )
        if ctx.at_receiver.sums or ledger.has_later_message(ctx.publishing, self._target.block, before):
            again = set(filter(period.has, concerned)).union(*by_kind.values())
            summaries.send_sync(ctx, delivery, months=concerned, again=again)

    def _months_of(self, ctx: RunContext, period: Period) -> set[Month]:
        """
        Return the months of a period.

        The last one only if the period has more of it than its first second, or a job ended in that second: arcctl's
        ``-e 2026-12-01`` includes that second, and means the end of November.
        """
        found = months_between(*period)
        last_s = period.before_s - 1
        month = month_of(last_s)
        is_first_second = period.from_s < last_s == month_bounds(*month)[0]
        if is_first_second and next(reader.ended_between(ctx.accounting, last_s, period.before_s), None) is None:
            found.discard(month)
        return found

    def _rows(self, ctx: RunContext, period: Period) -> ReceiverRows:
        """Return the rows of a period under SubmitHosts of this CE, from the files of the receiver's tables."""
        found = self._plugin.receiver_rows(self._options.receiver_rows, reader.endpoint_urls(ctx.accounting))
        for host, rows in sorted(found.others.items()):
            ctx.summary.note(f"{count_of(rows, 'row')} of SubmitHost {host or 'none'} ignored: it is not of this CE")
        for place, rows in found.unread.items():
            ctx.summary.note(
                f"{count_of(rows, 'row')} that cannot be read ignored: no cell is a SubmitHost of this CE; the first"
                f" is {place}"
            )
        concerned = self._months_of(ctx, period)
        unsendable = [place for month, place in found.unsendable if month in concerned]
        if unsendable:
            ctx.summary.note(
                f"{count_of(len(unsendable), 'row')} of this CE not cancelled: a name in it cannot be sent, so only"
                f" the receiver's administrator can delete it; the first is {unsendable[0]}"
            )
        in_records = {month for month in concerned if self._plugin.has_records(ctx.message_format_of(month))}
        ours, sums, doubled = self._plugin.folded(self._plugin.site), [], Counter[Month]()
        for kind, one in found.sums:
            month = (one.year, one.month)
            # In APEL, zeros in the table of summaries override the job records of the same names.
            if kind != COUNTS and month in in_records and self._plugin.folded(one.site) == ours:
                doubled[month] += 1
            elif month in concerned:
                sums.append((kind, one))
        for month, count in sorted(doubled.items()):
            ctx.summary.note(
                f"{month_name(month)}: the receiver has {count_of(count, 'sum')} for it in addition to our job records:"
                " only its administrator can delete them"
            )
        records = [one for one in found.records if period.from_s <= one.end_time < period.before_s]
        site_of, pruned_s = self._plugin.any_records().site_of, usage.pruned_before(ctx.accounting)
        pruned = [one for one in records if one.end_time < pruned_s and self._plugin.folded(site_of(one.key)) == ours]
        if pruned:
            ctx.summary.note(
                f"{count_of(len(pruned), 'record')} not cancelled: they ended before jobs of `arcacct db prune`,"
                " and may be of jobs in an archive"
            )
        left = len(found.records) - len(records)
        left += sum((one.year, one.month) not in concerned for kind, one in found.sums if kind != COUNTS)
        if left:
            ctx.summary.note(f"{count_of(left, 'row')} of other months ignored")
        return found._replace(sums=sums, records=[one for one in records if one not in pruned])

    def _finish(self, ctx: RunContext, error: ArcacctError | None) -> None:
        """Close the run. Jura's last end time is set to just before the earliest undelivered record."""
        block = self._target.block
        # A lost ledger has no row numbers until everything was sent again: keep the earlier note until then.
        if self._plugin.returns_row_ids and incarnation.uncertain_after_seq(ctx.publishing, block) is None:
            row = ledger.highest_row(ctx.publishing, block, self._plugin.message_format)
            incarnation.note_last_row(ctx.accounting, self._plugin.settings.places, block, row)
        reached = cursors.cursor(ctx.publishing, block)
        assert reached is not None
        unhandled = reader.earliest_unhandled_end(ctx.accounting, reached.last_seq, ended_from=reached.start_end_time)
        undelivered = held.earliest_undelivered_end(ctx.publishing, block)
        waiting = [end for end in (unhandled, undelivered) if end is not None]
        last_end = min(waiting) - 1 if waiting else reader.latest_end(ctx.accounting)
        cursors.finish_run(ctx.publishing, block, error=error, last_end_time=last_end)


def fault_of(error: BaseException, database: str) -> ArcacctError:
    """Return the error that ends one target's run as an `ArcacctError`; ``database``: the path in errors of SQLite."""
    if isinstance(error, ArcacctError):
        return error
    fault = (
        translated(error, database)
        if isinstance(error, DatabaseError)
        else ArcacctError(f"internal error: {type(error).__name__}: {error}; please report it")
    )
    fault.__cause__ = error
    return fault
