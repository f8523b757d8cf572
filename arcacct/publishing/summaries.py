"""The monthly summaries and sync messages of one target's run."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.database import incarnation, schema
from arcacct.database.access import one_moment
from arcacct.database.connection import Connection
from arcacct.database.location import spools
from arcacct.publishing import cursors, held, sent, target_months
from arcacct.publishing.batches import batched
from arcacct.publishing.context import RunContext, RunSummary
from arcacct.publishing.delivery import Delivery, DeliveryBatch, MessagePart
from arcacct.publishing.ledger import COUNTS, HeldRecord, SentRecord, SentSum
from arcacct.publishing.plugin import MonthlySummaries, TargetPlugin
from arcacct.publishing.sent import NOTHING, Amount, CountingKey, published, totals
from arcacct.publishing.target_months import HeldMonth, MonthSnapshot
from arcacct.records import reader, unfinished, usage
from arcacct.records.model import AAR, UsageCell
from arcacct.records.pseudonyms import closed_months
from arcacct.records.usage import Counted
from arcacct.records.writer import known_jobs
from arcacct.times import LAST_SECOND, Month, iso, month_bounds, month_name, next_month
from arcacct.wording import cause_of, count_of

# Messages of monthly sums: whole months of usage, and zeros under keys that are no longer valid.


_SHOWN = 10
"""The highest number of kinds of repairs that a run reports."""


class Summed(NamedTuple):
    """The sums of some months, ready to be sent."""

    sums: list[tuple[str, SentSum]]
    """The text of each, and the ledger's note of it."""
    refused: list[UsageCell]
    """Cells that the receiver would refuse: their jobs are held."""


def summed(plugin: TargetPlugin, family: MonthlySummaries, cells: Iterable[UsageCell], summary: RunSummary) -> Summed:
    """Return the summaries of the cells of whole months. A part of a month would lower the receiver's figures."""
    now = int(time.time())
    sound: list[UsageCell] = []
    refused: list[UsageCell] = []
    by_cause: dict[tuple[Month, str], tuple[int, str]] = {}
    repaired: Counter[tuple[Month, str]] = Counter()
    for cell in cells:
        if not plugin.target.wants(cell.vo):
            continue
        # SQLite stores a fraction in an integer column.
        is_whole = type(cell.wall_s) is int and type(cell.cpu_s) is int
        whole = cell if is_whole else cell._replace(wall_s=int(cell.wall_s), cpu_s=int(cell.cpu_s))
        verdict = family.accept(whole, now)
        if verdict.refusal is None:
            sound.append(verdict.cell)
            for note in verdict.notes:
                repaired[cell[:2], note] += cell.jobs
        else:
            refused.append(cell)
            cause = (cell[:2], cause_of(verdict.refusal))
            jobs, refusal = by_cause.get(cause, (0, verdict.refusal))
            by_cause[cause] = jobs + cell.jobs, refusal
    for (month, _cause), (jobs, refusal) in sorted(by_cause.items()):
        summary.note(f"{month_name(month)}: {count_of(jobs, 'job')} not sent: {refusal}")
    for (month, note), jobs in sorted(repaired.items())[:_SHOWN]:
        summary.note(f"{month_name(month)}: {count_of(jobs, 'job')}: {note}")
    if len(repaired) > _SHOWN:
        summary.note(f"and {len(repaired) - _SHOWN} more repairs of this kind; `arcacct job` shows them")
    for note in family.notes(sound):
        summary.note(note)
    return Summed(family.sums(sound), refused)


def zeros(
    ctx: RunContext, known: Sequence[tuple[str, SentSum]], kept: Collection[str]
) -> Iterator[tuple[str, list[MessagePart]]]:
    """
    Yield, by kind of message, zeros for every key that the receiver was ever sent and that is no longer valid.

    ``known`` are all sums that it was sent, ``kept`` the keys that are sent now. Zeros are repeated: the receiver may
    have lost the earlier ones, or got an older message since. Only new zeros are reported, when they are yielded. A key
    of another kind gets zeros of that kind.
    """
    gone: dict[str, list[SentSum]] = {}
    for kind, old in known:
        if old.key not in kept:
            gone.setdefault(kind, []).append(old)
    for kind, sums in gone.items():
        new = [one for one in sums if one.jobs]
        if new:
            months = sorted({(one.year, one.month) for one in new})
            what = count_of(len(new), "record")
            ctx.summary.note(
                f"{', '.join(map(month_name, months))}: {what} of {'sync' if kind == COUNTS else kind} sent again with"
                " zeros: published before, and now no job has that user, VO, role, SubmitHost, benchmark, nodes and"
                " cores"
            )
        family = ctx.plugin.sums(kind)
        yield kind, [MessagePart(family.zero(one.key), sum=one._replace(jobs=0, wall_s=0)) for one in sums]


# Jobs that have ended with unknown usage: without them no sum is complete.


def unsettled(here: Places, con: Connection, month: Month) -> Iterator[tuple[str, str]]:
    """
    Yield the jobs with unknown usage that ended in a month (UTC): job ID, and a text with the facts and what to do.

    These are jobs on hold, and jobs without a record whose event FINISHED a sweep moved to `unusable`.
    """
    start, end = month_bounds(*month)
    for job_id, job in unfinished.held_jobs(con).items():
        ended_s = job.finished_s or job.event_ns // 10**9
        if start <= ended_s < end:
            yield (
                job_id,
                f"ended at {iso(ended_s)}, its files are gone, and its usage is unknown: {unfinished.REMEDIES}",
            )
    # The unusable events FINISHED of that month. Their names contain all that is needed (`arex.spool`).
    set_aside = {}
    for spool in spools(here):
        folder = os.path.join(spool, "unusable")
        with suppress(OSError):
            for name in sorted(filter(str.isascii, os.listdir(folder))):
                when, _pid, state, job_id = [*name.split("-", 3), "", "", ""][:4]
                if state == "FINISHED" and when.isdecimal() and start <= int(when[:10]) < end:
                    set_aside[job_id] = os.path.join(folder, name)
    for job_id, path in set_aside.items():
        if not known_jobs(con, [job_id]):
            yield job_id, f"has ended, and its state is unknown: check {path}, and remove it afterwards"


# The sums of one target's run: whole months of summaries, and the counts of every month.


Live = tuple[str, SentSum]
"""The kind of message, and a sum that the receiver has from it."""


def send_summaries(
    ctx: RunContext,
    kind: str,
    months: Set[Month],
    delivery: Delivery,
    *,
    horizon: int,
    seq: int | None = None,
    logged: Sequence[str] = (),
) -> None:
    """
    Send whole months of one kind, and retract what was published under keys that are no longer valid.

    Months whose figures would fall without proof are left as they are. So are months in the future by this host's
    clock: their jobs wait. ``horizon`` is the place in FinishedLog up to which the sums are. ``logged`` are jobs that
    were logged since the last run and have values that no sum can contain, or that end in future months. A ledger in
    doubt does not know every key that was published.
    """
    family, coming = ctx.plugin.summaries(kind), next_month(int(time.time()))
    closed = closed_months(ctx.accounting) & months
    for month in sorted(closed):
        ctx.summary.note(
            f"{month_name(month)}: no longer sent: names of users were replaced by pseudonyms (`arcacct db forget`),"
            " and sent records stay"
        )
    wanted = sorted(month for month in months - closed if month_bounds(*month)[0] < coming)
    for month in sorted(months - closed - {*wanted}):
        ctx.summary.note(f"{month_name(month)}: is in the future by this host's clock: it is not sent")
        # It stays as it is: at the receiver, and held or not.
        if (was_held := target_months.held(ctx.known).get(month)) is not None:
            ctx.guard.hold(was_held)
    ever = {month: _ever_sent(ctx, month) for month in wanted}
    live = {month: [one for one in sums if one[1].jobs > 0] for month, sums in ever.items()}
    with one_moment(ctx.accounting):
        made, refused = summed(ctx.plugin, family, usage.usage_cells(ctx.accounting, wanted), ctx.summary)
        new: dict[Month, list[SentSum]] = {month: [] for month in wanted}
        for _text, one in made:
            new[one.year, one.month].append(one)
        allowed = [
            month
            for month in wanted
            if month not in ctx.guard.held
            and not _stays(ctx, family, month, live[month], new[month])
            and not _would_decrease(ctx, family, month, live[month], new[month])
            and not _misses_the_beginning(ctx, month, live[month])
        ]
    _hold_months_of_others(ctx, allowed, live)
    allowed = [month for month in allowed if month not in ctx.guard.held]
    _hold_refused(ctx, family, allowed, [cell for cell in refused if cell[:2] in allowed], logged)
    known = [one for month in allowed for one in ever[month]]
    if incarnation.uncertain_after_seq(ctx.publishing, ctx.block) is not None:
        # Add the sums that these months no longer have: a lost ledger may have had them.
        emptied = [family.accept(cell, int(time.time())) for cell in usage.emptied_cells(ctx.accounting, allowed)]
        sound = [verdict.cell for verdict in emptied if verdict.refusal is None]
        known += [(kind, one) for _text, one in family.sums(sound)]
    for former, taken in zeros(ctx, known, {one.key for month in allowed for one in new[month]}):
        delivery.deliver(DeliveryBatch(ctx.plugin.envelope(former), batched(taken, *ctx.limits)))
    parts = [MessagePart(text, sum=one) for text, one in made if (one.year, one.month) in allowed]
    proofs = [MonthSnapshot(*month, kind, horizon, ctx.incarnation) for month in allowed if live[month] or new[month]]
    delivery.deliver(DeliveryBatch(family.envelope, batched(parts, *ctx.limits), seq, proofs=proofs))
    target_months.finish(ctx.publishing, ctx.block, allowed, ctx.run)


def _ever_sent(ctx: RunContext, month: Month) -> list[Live]:
    """Return the sums of a month that the receiver was ever sent, and those in its own tables."""
    known = [one for one in sent.all_sums(ctx.publishing, ctx.block, *month) if one[0] != COUNTS]
    keys = {one.key for _kind, one in known}
    return known + [
        (kind, one)
        for kind, one in ctx.at_receiver.sums
        if kind != COUNTS and (one.year, one.month) == month and one.key not in keys
    ]


def zero_sums(ctx: RunContext, delivery: Delivery) -> None:
    """Send zeros for sums in the receiver's own tables, for months that are published as records of jobs."""
    found = [
        (kind, one)
        for kind, one in ctx.at_receiver.sums
        if kind != COUNTS and ctx.plugin.has_records(ctx.message_format_of((one.year, one.month)))
    ]
    for kind, taken in zeros(ctx, found, ()):
        delivery.deliver(DeliveryBatch(ctx.plugin.envelope(kind), batched(taken, *ctx.limits)))


def _misses_the_beginning(ctx: RunContext, month: Month, live: Sequence[Live]) -> bool:
    """
    Whether the database lacks the start of a month and no operator has accepted that.

    Another program may have published the rest. APEL replaces a sum by the next one, and the sum of a part is lower.
    """
    cause = None if month in ctx.months else _begun_later(ctx, month)
    jobs = 0 if cause is None else jobs_here(ctx, month)
    return cause is not None and bool(jobs or live) and ctx.guard.is_incomplete(month, jobs, cause)


def _stays(
    ctx: RunContext, family: MonthlySummaries, month: Month, live: Sequence[Live], new: Sequence[SentSum]
) -> bool:
    """Whether the receiver has a month under a former name, and the jobs of the database, so that nothing is sent."""
    names = ctx.former_names.get(month, ())
    # The month may not fall, and no name was mistyped.
    if not names or month in ctx.guard.accepted.open or any(map(ctx.guard.was_mistyped, names)):
        return False
    given = _without_site(family, (one for _kind, one in live if not one.is_adopted))
    found = _without_site(family, new)
    for key in given.keys() | found.keys():
        had, has = given.get(key, NOTHING), found.get(key, NOTHING)
        if had.jobs != has.jobs or had.wall_s not in (has.wall_s, None):
            return False
    ctx.summary.note(f"{month_name(month)} stays under the name {' and '.join(names)}")
    return True


def _hold_months_of_others(ctx: RunContext, months: Iterable[Month], live: Mapping[Month, Sequence[Live]]) -> None:
    """Hold the months for which jura-ng may have sent sums, if no operator has decided about them."""
    former = ctx.former
    if former is None:
        return
    amounts = {
        month: (sum(one.jobs for _kind, one in live[month]), jobs_here(ctx, month))
        for month in filter(former.is_open, months)
    }
    found = {month: amount for month, amount in amounts.items() if any(amount)}
    for month, (given, jobs) in found.items():
        ctx.guard.hold(HeldMonth(*month, former.cause, given, jobs, remedy=former.remedy(found)))


def jobs_here(ctx: RunContext, month: Month) -> int:
    """Return the number of jobs of a month that the database has for the target, including pruned ones."""
    counted = usage.counted_until(ctx.accounting, month, LAST_SECOND)
    return sum(one.jobs for one in counted if ctx.plugin.target.wants(one.vo))


def _begun_later(ctx: RunContext, month: Month) -> str | None:
    """Return why a month that was not published yet may lack jobs; ``None`` if it does not."""
    until = None if ctx.former is None else ctx.former.until_s
    since = schema.complete_since(ctx.accounting, until)
    if month_bounds(*month)[0] >= since:
        return None
    if since == schema.complete_since(ctx.accounting):
        return f"the database was created at {iso(since)} and may lack the month's earlier jobs"
    return (
        f"A-REX's own database was newly created: its first job ended at {iso(since)}, but jura-ng published jobs until"
        f" {iso(until)}; also import the former one (`arcacct import arex FILE`)"
    )


def _would_decrease(
    ctx: RunContext, family: MonthlySummaries, month: Month, live: Sequence[Live], new: Sequence[SentSum]
) -> bool:
    known = ctx.months.get(month)
    if not live or known is None:
        return False
    ours = [one for _kind, one in live if not one.is_adopted]
    given, found = _amounts(ours), _amounts(new)
    if known.incarnation != ctx.incarnation:
        # In another incarnation of the database only jobs from before the sending prove anything: new jobs must not
        # hide that old ones are missing.
        until = LAST_SECOND if known.sent is None else known.sent
        seq = schema.incarnation_start_seq(ctx.accounting)
        found = _placed(ctx, family, month, usage.counted_until(ctx.accounting, month, until))
        back = _placed(ctx, family, month, usage.cells_of_changed(ctx.accounting, month, seq, until))
    else:
        seq = known.seq or 0
        changed = usage.cells_of_changed(ctx.accounting, month, seq, LAST_SECOND)
        back = _amounts(one for _text, one in summed(ctx.plugin, family, changed, RunSummary()).sums)
    # The amounts that changed or were deleted in the month after that place in the log.
    left = _placed(ctx, family, month, usage.left_since(ctx.accounting, month, seq))
    # A record that changed and still counts explains only the difference.
    came_back = [(place, Amount(-amount.jobs, -(amount.wall_s or 0))) for place, amount in back.items()]
    if ctx.guard.would_decrease(month, given, found, totals([*left.items(), *came_back])):
        return True
    # Another filter excludes published VOs, however many jobs the other VOs have by now.
    for vo in dict.fromkeys(family.vo_of(one.key) for one in ours) if ctx.guard.filter_changed else ():
        had, has = (_amounts(one for one in sums if family.vo_of(one.key) == vo) for sums in (ours, new))
        if ctx.guard.would_decrease(month, had, has, left):
            return True
    return False


def _placed(
    ctx: RunContext, family: MonthlySummaries, month: Month, counted: Iterable[Counted | UsageCell]
) -> dict[CountingKey, Amount]:
    return totals(
        (CountingKey(*family.site_and_host(one.endpoint_url), *month), Amount(one.jobs, one.wall_s))
        for one in counted
        if ctx.plugin.target.wants(one.vo)
    )


def _without_site(family: MonthlySummaries, sums: Iterable[SentSum]) -> dict[str, Amount]:
    return totals((family.without_site(one.key), Amount(one.jobs, one.wall_s)) for one in sums)


def _amounts(sums: Iterable[SentSum]) -> dict[CountingKey, Amount]:
    return totals(
        (CountingKey(one.site, one.submit_host, one.year, one.month), Amount(one.jobs, one.wall_s)) for one in sums
    )


def send_sync(
    ctx: RunContext, delivery: Delivery, *, months: Set[Month] | None = None, again: Set[Month] | None = None
) -> None:
    """
    Send how many jobs of each month and submit host the receiver was given, by the ledger. It is the last step of a
    run.

    The database's numbers would be wrong: late, held and filtered jobs are not at the receiver, and it compares with
    its own. A ledger in doubt does not know which counts were sent since. ``months``: only these; ``None``: all.
    ``again``: only these were sent again as a whole; ``None``: the run sent everything that the ledger may lack.
    """
    counts = ctx.plugin.counts
    if counts is None:
        return
    known = sent.sums_of_kind(ctx.publishing, ctx.block, COUNTS)
    keys = {one.key for one in known}
    at_receiver = [one for kind, one in ctx.at_receiver.sums if kind == COUNTS and one.key not in keys]
    certain = {one.key for one in known if one.jobs > 0 and not one.is_adopted} | {one.key for one in at_receiver}
    known += at_receiver
    given = [(place, amount.jobs) for place, amount in published(ctx.publishing, ctx.block)]
    doubt = incarnation.uncertain_after_seq(ctx.publishing, ctx.block)
    if doubt is not None:
        # Add the months and hosts that jobs have left since: a lost ledger may have had counts of them.
        places = usage.former_places(ctx.accounting, doubt)
        given += [(CountingKey(*counts.site_and_host(url), year, month), 0) for url, year, month in places]
    found = counts.counts(given)
    new, live = [one for _text, one in found], [one for one in known if one.jobs > 0]
    wanted = {(one.year, one.month) for one in (*known, *new)}
    wanted -= {*target_months.unfinished(ctx.publishing, ctx.block), *target_months.untouched(ctx.known, wanted)}
    if months is not None:
        wanted &= months
    if again is not None and doubt is not None:
        wanted -= {(one.year, one.month) for one in new} - again
    counted = {month for month in wanted if month not in ctx.guard.held and _may_count(ctx, month, new, live, certain)}
    parts = [MessagePart(text, sum=one) for text, one in found if (one.year, one.month) in counted]
    gone = [(COUNTS, one) for one in known if (one.year, one.month) in counted]
    for _kind, taken in zeros(ctx, gone, {one.key for one in new if (one.year, one.month) in counted}):
        parts = [*taken, *parts]
    delivery.deliver(DeliveryBatch(counts.envelope, batched(parts, *ctx.limits)))


def _may_count(
    ctx: RunContext, month: Month, counts: Sequence[SentSum], live: Sequence[SentSum], certain: Collection[str]
) -> bool:
    """
    Whether the counts of a month are known. They are not if another program, or a lost ledger, published a part of it.

    ``counts``: those to send, ``live``: those that the receiver has, ``certain``: the keys of those that are known.
    """
    ours, there = ([one for one in found if (one.year, one.month) == month] for found in (counts, live))
    sums = ctx.months.get(month)
    if (sums is not None and sums.seq is not None) or month in ctx.guard.accepted.ever:
        return True
    if {one.key for one in ours or there} <= {*certain}:
        return True
    jobs = sum(one.jobs for one in ours)
    if cause := _begun_later(ctx, month):
        return bool(ours) and not ctx.guard.is_incomplete(month, jobs, cause)
    begin, end = month_bounds(*month)
    name = month_name(month)
    is_known = any(one.key in certain for one in there)
    if not is_known and (gone := sum(vo.jobs for vo in usage.pruned(ctx.accounting, month))):
        # Pruned jobs were sent. Only a lost ledger or the ledger of a new target has no count of their month.
        ctx.summary.note(
            f"{name}: no count is sent: {count_of(gone, 'job')} of it in an archive of `arcacct db prune`, and"
            " publishing.db does not record what was sent of them;"
            f" `arcacct publish --accept-lower {name}` sends the count of the others"
        )
        return False
    reached = cursors.cursor(ctx.publishing, ctx.block)
    before = 0 if reached is None else min(end, reached.start_end_time)
    if before <= begin or not jobs:
        return before <= begin
    vos = ctx.plugin.target.vofilter
    others = sent.not_sent_again(ctx.publishing, ctx.accounting, ctx.block, (begin, before), vos)
    if others:
        ctx.summary.note(
            f"{name}: no count is sent: it is unknown whether the receiver has {count_of(others, 'job')} that ended"
            f" before {iso(before)}, when the target started; `arcacct republish` of the month sends them and counts"
            " all"
        )
    return not others


def _hold_refused(
    ctx: RunContext,
    family: MonthlySummaries,
    months: Sequence[Month],
    refused: Sequence[UsageCell],
    logged: Sequence[str],
) -> None:
    """Hold each job that the summaries leave out or include without its usage, with the reason."""
    now = int(time.time())
    periods: list[tuple[int, float]] = [month_bounds(*month) for month in sorted({cell[:2] for cell in refused})]
    periods.append((LAST_SECOND + 1, math.inf))
    pages = (page for period in periods for page in reader.ended_between(ctx.accounting, *period))
    # A job that ends in the future is in none of the months, and its values may be corrected at any time.
    known = held.held_within(ctx.publishing, ctx.block, [*(month_bounds(*month) for month in months), (now, math.inf)])
    others = reader.by_job_id(ctx.accounting, [*logged, *known]).values()
    found = (_left_out(ctx, family, aar, now) for aar in chain(chain.from_iterable(pages), others))
    aside = {one.record.job_id: one for one in found if one is not None}
    ctx.summary.ahead += sum(one.state == "held" for one in aside.values() if one.record.job_id not in known)
    ctx.summary.quarantined += held.hold_only(ctx.publishing, ctx.block, list(aside.values()), known)


def _left_out(ctx: RunContext, family: MonthlySummaries, aar: AAR, now: int) -> HeldRecord | None:
    """Return a job to hold, with the reason, if it is in no sum, or is included without its usage."""
    if aar.held or not ctx.plugin.target.wants(aar.vo):
        return None
    reason: str | None
    not_before: int | None = None
    end_time = aar.end_time
    # SQLite accepts any value in a number column.
    measured: tuple[object, ...] = (aar.wall_s, aar.cpu_user_s, aar.cpu_kernel_s)
    if not reader.is_time(end_time):
        # Give it an end after all months: it is in no month, and is found again once its end is corrected.
        reason, end_time = f"EndTime {end_time} is not a time", LAST_SECOND + 1
    elif not all(isinstance(value, int) and 0 <= value <= reader.LARGEST_EXACT for value in measured):
        reason = "a duration that cannot have been measured: it is counted as 0"
    else:
        _cell, _notes, reason, not_before = family.accept(reader.cell_of(aar), now)
    if reason is None:
        return None
    record = SentRecord(aar.job_id, aar.record_id, 0, end_time, b"")
    return HeldRecord(record, "quarantined" if not_before is None else "held", reason, not_before)
