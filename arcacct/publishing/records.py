"""Selects the records for a target's batches: new ones, held ones that are due, and those of a period."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple

from arcacct.database import incarnation
from arcacct.publishing import held, kept_records, ledger, sent, target_months
from arcacct.publishing.batches import UNFORESEEN, RecordBatcher, batched, withdrawal
from arcacct.publishing.context import RunContext
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.delivery import Delivery, DeliveryBatch, MessagePart
from arcacct.publishing.ledger import SentRecord, SentVersion
from arcacct.publishing.plugin import bare
from arcacct.publishing.selection import surplus, surplus_records
from arcacct.publishing.sent import is_same
from arcacct.records import reader, usage
from arcacct.records.model import AAR
from arcacct.records.pseudonyms import closed_months, pseudonymised
from arcacct.records.reader import Page
from arcacct.records.states import FINAL
from arcacct.times import LAST_SECOND, Month, month_bounds, month_name, month_of
from arcacct.wording import count_of

TWIN = (
    "the receiver would treat it as job {}, which has the same id in the batch system and the same end: one would"
    " replace the other. Sums (apel_messages=summaries) count both, from the first month with nothing published"
)


class RecordRouter(RecordBatcher):
    """
    Routes each record to the format in which its month is published, or to the target's own if nothing of it was.

    A record whose month is published as sums is part of a sum. Zeros are sent in the target's own format: all formats
    of job records share a table.
    """

    def __init__(
        self, ctx: RunContext, delivery: Delivery, *, republish: bool = False, waiting: Set[int] | None = None
    ) -> None:
        """Prepare for a target that is or ever was sent records. ``waiting``: `kept_records.take_over`."""
        self._waiting = waiting or frozenset()
        self._is_noted = waiting is not None
        self._before = ledger.last_message(ctx.publishing)
        jobs = set(filter(ctx.plugin.has_records, ctx.message_formats))
        main = ctx.plugin.message_format if ctx.plugin.message_format in jobs else min(jobs)
        super().__init__(ctx, ctx.plugin.records(main), delivery, republish=republish)
        self._is_one_family = ctx.message_formats == {main}
        self._others = {
            kind: RecordBatcher(ctx, ctx.plugin.records(kind), delivery, republish=republish, moves_cursor=False)
            for kind in sorted(jobs - {main})
        }

    def batcher(self, end_time: object) -> RecordBatcher | None:
        """Return the batcher for a record with this end time; ``None`` if a sum of its month has it."""
        if self._is_one_family:
            return self
        known = reader.is_time(end_time)
        kind = self._ctx.message_format_of(month_of(end_time)) if known else self._ctx.plugin.message_format  # type: ignore[arg-type]
        return self._others.get(kind, self if self._ctx.plugin.has_records(kind) else None)

    def zero_out_previous(self, doubt_seq: int, ended_from: int, ended_before: int = LAST_SECOND) -> None:
        """
        Send zeros for the previous key of every job that changed after a place in the log, and report how many.

        It is for a ledger that lacks what was sent after that place. Keys that the ledger or the database has are
        skipped.
        """
        ctx, count = self._ctx, 0
        if ctx.plugin.keeps_first:
            return
        family = ctx.plugin.any_records()
        keys = {
            family.key(bare(one.job_id, one.end_time, one.local_job_id)): one
            for one in usage.former_keys(ctx.accounting, doubt_seq)
            if ended_from <= one.end_time < ended_before and self.batcher(one.end_time) is not None
        }
        job_ids = list({one.job_id for one in keys.values()})
        records = reader.by_job_id(ctx.accounting, job_ids)
        there = {family.key(aar) for aar in records.values() if _is_published(ctx, aar)}
        there |= {one.key for known in _versions(ctx, job_ids).values() for one in known}
        # Zeros for a receiver's own row have its names.
        ended, last = (ended_from, ended_before), ledger.last_message(ctx.publishing)
        total_ids = {one.key: one.total_id for one in sent.zeroed(ctx.publishing, ctx.block, ended, last)}
        for key, one in keys.items():
            if key not in there:
                record = SentRecord(one.job_id, 0, 0, one.end_time, b"", key, total_id=total_ids.get(key))
                self.withdraw(record, records.get(one.job_id))
                count += 1
        if count:
            self._summary.note(f"zeros sent for {count_of(count, 'key')} that the receiver may still have")

    def _neutralise_groups(self) -> None:
        """
        Send a record with zeros to each group that has lost its last job, at a receiver that never deletes a group.

        The receiver sums the records of a group. Without a record it keeps the group's former sum (INVARIANTS 18). The
        record has the names of the group, an ID that no batch system gives, and a second at the start of the month as
        its start and end. Its key is always the same, so a group never has two of them.
        """
        ctx, family = self._ctx, self._family
        if not ctx.plugin.groups_records:
            return
        for total_id, year, month in sent.empty_groups(ctx.publishing, ctx.block):
            end_time = month_bounds(year, month)[0] + 1
            names = ledger.sent_names(ctx.publishing, total_id)
            # A month in the future by this host's clock waits: the receiver would refuse the message.
            if len(names) > ledger.PLACE and end_time <= int(time.time()):
                job_id, key = family.group_record(names, end_time)
                self.withdraw(SentRecord(job_id, 0, 0, end_time, b"", key, total_id=total_id))
        self.flush()

    def _expect_former_groups(self, months: Iterable[Month]) -> None:
        """
        Note the groups that had jobs before and have none now, of months whose names the ledger does not have.

        The sums of the accounting database know them: a former program or a lost ledger did not store names.
        """
        ctx, family, now = self._ctx, self._family, int(time.time())
        of_records = [month for month in months if ctx.plugin.has_records(ctx.message_format_of(month))]
        if not ctx.plugin.groups_records or not of_records:
            return
        groups = []
        for cell in usage.emptied_cells(ctx.accounting, of_records):
            if ctx.plugin.target.wants(cell.vo):
                with suppress(*UNFORESEEN):
                    groups.append((family.names_of_cell(cell, now), (cell.year, cell.month)))
        ledger.expect_groups(ctx.publishing, ctx.block, groups)

    def take_back(self, months: Collection[Month]) -> None:
        """
        Cancel invalid usage: send zeros to groups without jobs, and again to the invalid keys of ``months``.

        The months in which this run has sent zeros are included.
        """
        self.flush()
        if self._keeps_first:
            return
        months = {*months, *self._summary.withdrawn}
        is_in_doubt = incarnation.uncertain_after_seq(self._ctx.publishing, self._ctx.block) is not None
        unnamed = months if is_in_doubt else months & sent.months_without_names(self._ctx.publishing, self._ctx.block)
        self._expect_former_groups(unnamed)
        self._neutralise_groups()
        closed = closed_months(self._ctx.accounting)
        for month in sorted(months - closed):
            self._repeat_zeros(*month_bounds(*month))
        for month in sorted(self._summary.withdrawn):
            # Another job may have the key by now: then nothing is too many.
            if found := surplus(self._ctx.accounting, self._ctx.publishing, self._ctx.plugin, month):
                text = f"{month_name(month)}: usage is right, {found} at the receiver: it never deletes a record"
                self._summary.note(text)

    def _repeat_zeros(self, ended_from: int, ended_before: int) -> None:
        """
        Send zeros again for the invalid keys of a period, unless this run has just done so.

        The receiver may have lost the zeros that it accepted, or have got an older message since. A key that another
        job has now is skipped. The ledger has the zeros already, so it stores no records for them.
        """
        ctx, now = self._ctx, int(time.time())
        # The receiver would refuse an end in the future by this host's clock.
        ended = ended_from, min(ended_before, now)
        gone = surplus_records(ctx.accounting, ctx.publishing, ctx.plugin, ended, self._before)
        records = reader.by_job_id(ctx.accounting, list({one.job_id for one in gone}))
        for one in gone:
            part = withdrawal(ctx.publishing, ctx.plugin, self._family, one, records.get(one.job_id), now)
            if part is not None:
                self._collect(part[0], None, None)
        self.flush()

    def key_collisions(self, records: Sequence[AAR]) -> dict[str, str]:
        """
        Return the new records that the receiver would take for another job, with that job's JobID.

        APEL's key is the local ID and the end time. Of several jobs with one key the sent one stays; if none was sent,
        the one recorded first is sent. A job that is not sent does not block others.
        """
        ctx, wants = self._ctx, self._ctx.plugin.target.wants
        if not ctx.plugin.keys_may_collide:
            return {}
        key = ctx.plugin.any_records().key
        records = [aar for aar in records if wants(aar.vo)]
        ends = Counter([aar.end_time for aar in records])
        own_ids = {aar.record_id for aar in records}
        seconds = reader.seconds_of_others(ctx.accounting, ends, own_ids)
        others = reader.ended_at(ctx.accounting, seconds, besides=own_ids) if seconds else []
        ends.update(end_time for *_name, end_time in others)
        same = defaultdict[str, list[AAR]](list)
        # A key contains the end time: only jobs that end in the same second need their keys made.
        for aar in records if max(ends.values(), default=0) > 1 else ():
            if ends[aar.end_time] > 1:
                same[key(aar)].append(aar)
        rivals = defaultdict[str, list[str]](list)
        for _record_id, job_id, local_job_id, end_time in others:
            rivals[key(bare(job_id, end_time, local_job_id))].append(job_id)
        found: dict[str, str] = {}
        for one, ours in same.items():
            if len(ours) > 1 or rivals[one]:
                found |= self._taken_for(one, ours, rivals[one])
        return found

    def _taken_for(self, key: str, ours: Sequence[AAR], rivals: Sequence[str]) -> dict[str, str]:
        """Return those records with a key that another job blocks, by JobID with that job's JobID."""
        ctx, family = self._ctx, self._ctx.plugin.any_records()
        for job_id, known in _versions(ctx, rivals).items():
            if any(one.key == key for one in known):
                return dict.fromkeys((aar.job_id for aar in ours), job_id)
        states = held.states(ctx.publishing, ctx.block, [*rivals, *(aar.job_id for aar in ours)])

        def goes(aar: AAR) -> bool:
            state = states.get(aar.job_id)
            if aar.job_id in rivals:
                return ctx.plugin.target.wants(aar.vo) and state not in ("quarantined", "dropped")
            try:
                return not aar.held and state != "dropped" and family.accept(aar, int(time.time())).refusal is None
            except UNFORESEEN:
                return False

        candidates = [*reader.by_job_id(ctx.accounting, rivals).values(), *ours]
        first = min(filter(goes, candidates), key=lambda aar: aar.record_id, default=None)
        return {} if first is None else {one.job_id: first.job_id for one in ours if one.record_id > first.record_id}

    def _deliver(self, *, ahead: bool) -> None:
        """Deliver the other formats first and store which months wait, before the cursor may move."""
        for batcher in self._others.values():
            batcher.flush()
        ctx = self._ctx
        if self._is_noted and not all(one.places <= self._waiting for one in ctx.guard.kept.values()):
            kept_records.forget(ctx.publishing, ctx.block)
            self._is_noted = False
        if ctx.guard.has_kept_more():
            ctx.guard.hold_blocked_months()
            target_months.set_held(ctx.publishing, ctx.block, ctx.guard.held.values())
        super()._deliver(ahead=ahead)


class Candidate(NamedTuple):
    """A job whose record may be sent or taken back, with all that is known of it."""

    seq: int
    """The place of its record in FinishedLog; 0: it was not read from the log."""
    job_id: str
    aar: AAR | None
    """Its record; ``None``: the database has none, or the record must not be published and never was."""
    versions: Sequence[SentVersion] = ()
    """The receiver's versions of the job."""
    state: str | None = None
    """The state in which the record is held back from the target."""
    twin: str | None = None
    """Another job that the receiver would take for this one."""
    is_closed: bool = False
    """Whether the names of the user were replaced by a pseudonym."""


class Fate(Enum):
    """The treatment of a job in a run."""

    NEW = "send a record to a receiver that has none"
    SEND = "send the record, if the receiver lacks this version"
    QUARANTINE = "hold it back: the receiver would take it for another job"
    RETRACT = "take back what the receiver has"
    IN_SUM = "take back its records: its month is published as sums"
    LEAVE = "leave the receiver unchanged"


def gather(ctx: RunContext, router: RecordRouter, jobs: Sequence[tuple[int, str, AAR | None]]) -> list[Candidate]:
    """
    Return what is known of each job: one set of queries for a page.

    ``jobs``: place in the log, JobID and record. A missing record is looked up if the receiver has the job.
    """
    job_ids = [job_id for _seq, job_id, _aar in jobs]
    versions = _versions(ctx, job_ids)
    lacking = [job_id for _seq, job_id, aar in jobs if aar is None and job_id in versions]
    found = reader.by_job_id(ctx.accounting, lacking) if lacking else {}
    records = [found.get(job_id) if aar is None else aar for _seq, job_id, aar in jobs]
    closed = pseudonymised(ctx.accounting, [aar.record_id for aar in records if aar is not None])
    states = held.states(ctx.publishing, ctx.block, job_ids)
    unknown = [aar for aar in records if aar is not None and not versions.get(aar.job_id)]
    twins = router.key_collisions(
        [aar for aar in unknown if aar.record_id not in closed and reader.is_publishable(aar)]
    )
    for job_id in [job_id for job_id, state in states.items() if state == "retry" and job_id in versions]:
        # The receiver has room now: what it had no longer counts.
        versions[job_id] = [one._replace(digest=b"", notes=None) for one in versions[job_id]]
    return [
        Candidate(
            seq, job_id, aar, versions.get(job_id, ()), states.get(job_id), twins.get(job_id),
            is_closed=aar is not None and aar.record_id in closed,
        )
        for (seq, job_id, _aar), aar in zip(jobs, records, strict=True)
    ]  # fmt: skip


def fate(ctx: RunContext, router: RecordRouter, job: Candidate) -> tuple[Fate, RecordBatcher]:
    """
    Decide what happens to a job, and in which format.

    Whether figures may change is left to the safeguard, which knows the months.
    """
    aar = job.aar
    if aar is None:
        return Fate.RETRACT, router
    if not reader.is_publishable(aar):
        # The end of a resumed job decides.
        return Fate.RETRACT if aar.held or aar.status in FINAL else Fate.LEAVE, router
    # Records with pseudonyms stay at the receiver as they were sent: the pseudonyms are no correction.
    if job.is_closed or job.state == "dropped":
        return Fate.LEAVE, router
    if not ctx.plugin.target.wants(aar.vo):
        return Fate.RETRACT, router
    batcher = router.batcher(aar.end_time)
    if job.twin is not None:
        what = Fate.QUARANTINE
    elif batcher is None:
        what = Fate.IN_SUM
    else:
        what = Fate.SEND if job.versions or job.state is not None else Fate.NEW
    return what, batcher or router


def route(ctx: RunContext, router: RecordRouter, jobs: Sequence[tuple[int, str, AAR | None]]) -> list[str]:
    """
    Send, hold, take back or leave the jobs of a page, in their order.

    Returns the JobIDs of held records that need no sending: the receiver has this version, or the target excludes the
    job.
    """
    settled: list[str] = []
    for (what, batcher), some in groupby(gather(ctx, router, jobs) if jobs else (), partial(fate, ctx, router)):
        if what is Fate.NEW:
            batcher.add_new([(one.seq, one.aar) for one in some if one.aar is not None])
        elif what is not Fate.LEAVE:
            settled += [one.job_id for one in some if not act(ctx, batcher, one, what) and one.state is not None]
    return settled


def act(ctx: RunContext, batcher: RecordBatcher, job: Candidate, what: Fate) -> bool:
    """Do with a job what was decided. Return False if nothing needs sending."""
    seq, aar, known = job.seq, job.aar, job.versions
    if aar is not None and what is Fate.SEND:
        return batcher.add(aar, seq, known)
    if aar is not None and what is Fate.QUARANTINE:
        batcher.quarantine(aar, seq, TWIN.format(job.twin))
        return True
    if aar is not None and what is Fate.IN_SUM:
        # A sum of this version replaces its record.
        known = [one for one in known if not is_same(aar, one.digest)]
    # If only the selection excludes the job, its record is publishable.
    unwanted = aar is not None and reader.is_publishable(aar)
    if ctx.guard.blocks_retraction(aar, seq, known, unwanted=unwanted):
        return True
    return not batcher.retract(job.job_id, aar, job.versions)


def add_logged(
    ctx: RunContext,
    router: RecordRouter,
    position: Cursor,
    horizon: int,
    waiting: Collection[int] | None = None,
    reached: int = 0,
) -> None:
    """
    Add the records that were logged after the cursor, in that order. Retract those that must no longer be published.

    ``waiting`` (`kept_records.take_over`): up to the place ``reached``, only these records and the held ones are
    checked.
    """
    deleted = list(dict.fromkeys(usage.deleted_jobs(ctx.accounting, position.last_seq, horizon)))
    there = reader.by_job_id(ctx.accounting, deleted)
    _release(ctx, route(ctx, router, [(0, job_id, None) for job_id in deleted if job_id not in there]))
    for page in _pages(ctx, position, horizon, waiting, reached):
        jobs: list[tuple[int, str, AAR | None]] = [(seq, aar.job_id, aar) for seq, aar in page.records]
        # Release a held record that is again the version that the receiver has.
        _release(ctx, route(ctx, router, [*jobs, *((seq, job_id, None) for seq, job_id in page.others)]))
        router.passed(page.last_seq)


def _pages(
    ctx: RunContext, position: Cursor, horizon: int, waiting: Collection[int] | None, reached: int
) -> Iterator[Page]:
    """Yield the pages of the log that may need sending or retracting (`add_logged`)."""
    con, seq, ended_from = ctx.accounting, position.last_seq, position.start_end_time
    places: set[int] = set()
    if waiting is not None:
        places.update(reader.places_of(con, held.job_ids(ctx.publishing, ctx.block), seq, reached))
        places.update(place for place in waiting if place <= reached)
        seq = reached
    after = _places_by_end(ctx, seq, horizon, ended_from)
    rising = sorted(places | (after or set()))
    for start in range(0, len(rising), reader.PAGE_RECORDS):
        yield reader.logged_among(con, rising[start : start + reader.PAGE_RECORDS], ended_from=ended_from)
    if after is not None:
        # The records between need nothing.
        yield Page([], reader.highest_place(con, horizon), [])
    while after is None and (page := reader.logged_after(con, seq, horizon, ended_from=ended_from)):
        yield page
        seq = page.last_seq


def _places_by_end(ctx: RunContext, seq: int, horizon: int, ended_from: int) -> set[int] | None:
    """
    Return the places after ``seq`` of all records that may need sending or retracting; ``None``: reading the log is
    faster.

    These are the jobs that ended in the target's time, those that it was ever sent, and the held ones. Other records in
    the log need nothing. (A new target has few jobs, however long the log is.)
    """
    con, most = ctx.accounting, (horizon - seq) // 2
    ended = reader.ended_from_up_to(con, ended_from, most)
    if ended >= most or not sent.fewer_records_than(ctx.publishing, ctx.block, most - ended):
        return None
    known = [*sent.jobs_of(ctx.publishing, ctx.block), *held.job_ids(ctx.publishing, ctx.block)]
    return {*reader.places_ended_from(con, seq, horizon, ended_from), *reader.places_of(con, known, seq, horizon)}


def add_held(ctx: RunContext, router: RecordRouter) -> None:
    """
    Add the held records that are due, page by page.

    Records that the receiver refused before go last and in their own messages, so that they cannot delay others.
    """
    due = ctx.retry_thresholds
    for refused in (False, True):
        page = [("", "")]
        while page := held.held_to_send(ctx.publishing, ctx.block, due, refused=refused, after=page[-1][0]):
            found = reader.by_job_id(ctx.accounting, [job_id for job_id, _state in page])
            # The receiver's administrator deleted the record of a job that must no longer be published.
            for job_id, state in page:
                if state == "retry" and ctx.plugin.keeps_first and not _is_published(ctx, found.get(job_id)):
                    ledger.removed(ctx.publishing, ctx.block, job_id)
            # A record that is held for impossible values waits for a decision, whatever else it waits for.
            waiting = {job_id for job_id, aar in found.items() if aar.held}
            settled = route(
                ctx, router, [(0, job_id, found.get(job_id)) for job_id, _state in page if job_id not in waiting]
            )
            # Flush before the log is read, which may have the same records again: the ledger must have these by then.
            router.flush()
            _release(ctx, settled)


def _is_published(ctx: RunContext, aar: AAR | None) -> bool:
    return aar is not None and reader.is_publishable(aar) and ctx.plugin.target.wants(aar.vo)


def release_absent(ctx: RunContext) -> None:
    """
    Release held records of jobs that are no longer in the database: they were pruned or deleted after an older ledger.

    Otherwise an operator could make room at a receiver for a correction that cannot be sent.
    """
    job_ids = [one.job_id for one in held.held_entries(ctx.publishing, target=ctx.block)]
    for start in range(0, len(job_ids), sent.MANY):
        some = job_ids[start : start + sent.MANY]
        there = reader.by_job_id(ctx.accounting, some)
        _release(ctx, [job_id for job_id in some if job_id not in there])


def add_period(ctx: RunContext, router: RecordRouter, ended_from: int, ended_before: int) -> None:
    """Add every record that ended in a period, except those that an operator dropped."""
    left = 0
    for page in reader.ended_between(ctx.accounting, ended_from, ended_before):
        left += len(pseudonymised(ctx.accounting, [aar.record_id for aar in page]))
        route(ctx, router, [(0, aar.job_id, aar) for aar in page if ctx.plugin.target.wants(aar.vo)])
    for absent in _absent(ctx, (ended_from, ended_before)):
        route(ctx, router, absent)
    if left:
        ctx.summary.note(
            f"{count_of(left, 'job')} not sent again: the names of the users were replaced by pseudonyms (`arcacct db"
            " forget`), and sent records stay"
        )


def _absent(ctx: RunContext, ended: tuple[int, int]) -> Iterator[list[tuple[int, str, AAR | None]]]:
    """
    Yield the jobs that do not count in a period, but have a record with ``ended[0] <= EndTime < ended[1]`` at the
    receiver.

    They ended in another period, or are held, not selected or deleted. A job that is missing without a reason in the
    log stays.
    """
    deleted = {*usage.deleted_jobs(ctx.accounting, 0, reader.LARGEST_EXACT)}
    done: set[str] = set()
    there = sent.sent_versions(ctx.publishing, ctx.block, ctx.plugin.record_formats, ended)
    job_ids = (one.job_id for one in there if one.digest)
    while some := list(dict.fromkeys(islice(job_ids, sent.MANY))):
        records = reader.by_job_id(ctx.accounting, some)
        absent = {
            job_id: records.get(job_id)
            for job_id in some
            if job_id not in done
            and (job_id in records or job_id in deleted)
            and not (
                _is_published(ctx, records.get(job_id))
                and reader.is_time(records[job_id].end_time)
                and ended[0] <= records[job_id].end_time < ended[1]
            )
        }
        done.update(absent)
        yield [(0, job_id, aar) for job_id, aar in absent.items()]


def zero_records(ctx: RunContext, delivery: Delivery) -> None:
    """
    Send zeros for records that are in the receiver's own tables and that we do not publish.

    The ledger notes them under the job that has such a local ID and end here, under any name of the site; without one
    under the local ID.
    """
    rows, family = ctx.at_receiver.records, ctx.plugin.any_records()
    ended = reader.ended_at(ctx.accounting, {one.end_time for one in rows}) if rows else []
    here = {
        family.key(bare(job_id, end_time, local_job_id)): job_id for _record_id, job_id, local_job_id, end_time in ended
    }
    found = []
    for one in rows:
        if one.key not in here or not ctx.plugin.has_records(ctx.message_format_of(month_of(one.end_time))):
            # In the key of today, the site may have another name than in that of the row.
            today = family.key(bare(one.job_id, one.end_time, one.job_id))
            zeros = one._replace(job_id=here.get(today, one.job_id))
            found.append(withdrawal(ctx.publishing, ctx.plugin, family, zeros, None, int(time.time())))
    parts = [MessagePart(*part) for part in found if part is not None]
    if parts:
        ctx.summary.note(f"zeros sent for {count_of(len(parts), 'record')} that the receiver has and we do not publish")
        delivery.deliver(DeliveryBatch(family.envelope, batched(parts, *ctx.limits)))


def _versions(ctx: RunContext, job_ids: Sequence[str]) -> dict[str, list[SentVersion]]:
    return sent.versions(ctx.publishing, ctx.block, job_ids, keeps_first=ctx.plugin.keeps_first)


def _release(ctx: RunContext, job_ids: Sequence[str]) -> None:
    if job_ids:
        held.unhold(ctx.publishing, ctx.block, job_ids)
