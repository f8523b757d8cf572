"""Selects the records for a target's batches: new ones, held ones that are due, and those of a period."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from contextlib import suppress
from itertools import groupby, islice
from typing import NamedTuple

from arcacct.database import incarnation
from arcacct.database.connection import Connection
from arcacct.publishing import held, kept_records, ledger, sent, target_months
from arcacct.publishing.batches import UNFORESEEN, RecordBatcher, bare, batched, withdrawal
from arcacct.publishing.context import RunContext
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.delivery import DeliveryBatch, MessagePart, MessageSink
from arcacct.publishing.ledger import SentRecord, SentVersion
from arcacct.publishing.ledger_rows import Month, month_bounds, month_name, month_of
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.selection import remembered_kinds
from arcacct.publishing.sent import ZeroedKey, is_same
from arcacct.records import reader, usage
from arcacct.records.model import AAR, Row, column, record_of
from arcacct.records.pseudonyms import closed_months, pseudonymised
from arcacct.records.reader import Logged, Page
from arcacct.wording import count_of

_RECORD_ID, _JOB_ID, _VO, _END_TIME = map(column, ("record_id", "job_id", "vo", "end_time"))

Versions = dict[str, list[SentVersion]]
"""The receiver's versions of each job."""


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
        self,
        ctx: RunContext,
        delivery: MessageSink,
        *,
        republish: bool = False,
        waiting: Set[int] | None = None,
    ) -> None:
        """Prepare for a target that is or ever was sent records. ``waiting``: `kept_records.take_over`."""
        self._ctx = ctx
        self._waiting = waiting or frozenset()
        self._is_noted = waiting is not None
        self._before = ledger.last_message(ctx.publishing)
        jobs = set(filter(ctx.plugin.has_records, ctx.message_formats))
        main = ctx.plugin.message_format if ctx.plugin.message_format in jobs else min(jobs)
        self._is_one_family = ctx.message_formats == {main}
        self._others = {
            kind: RecordBatcher(ctx, ctx.plugin.records(kind), delivery, republish=republish, moves_cursor=False)
            for kind in sorted(jobs - {main})
        }
        super().__init__(ctx, ctx.plugin.records(main), delivery, republish=republish)

    def _at(self, end_time: object) -> RecordBatcher | None:
        """Return the batcher for a record with this end time; ``None`` if a sum of its month has it."""
        if self._is_one_family:
            return self
        known = reader.is_time(end_time)
        kind = self._ctx.message_format_of(month_of(end_time)) if known else self._ctx.plugin.message_format  # type: ignore[arg-type]
        if kind in self._others:
            return self._others[kind]
        return self if self._ctx.plugin.has_records(kind) else None

    def add(self, aar: AAR, seq: int, known: Sequence[SentVersion] = ()) -> bool:
        """Add one record, as `RecordBatcher.add`."""
        batcher = self._at(aar.end_time)
        if batcher is self:
            return super().add(aar, seq, known)
        if batcher is not None:
            return batcher.add(aar, seq, known)
        self.passed(seq)
        changed = [one for one in known if not is_same(aar, one.digest)]
        if self._ctx.guard.blocks_retraction(aar, seq, changed, unwanted=False):
            return True
        return not self.retract(aar.job_id, aar, known)

    def add_new(self, records: Sequence[Logged]) -> None:
        """Add new records, as `RecordBatcher.add_new`."""
        if self._is_one_family:
            super().add_new(records)
            return
        for one in records:
            self.add(one.aar, one.seq)

    def zero_out_previous(self, doubt_seq: int, ended_from: int, ended_before: int = reader.LAST_SECOND) -> None:
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
            if ended_from <= one.end_time < ended_before and self._at(one.end_time) is not None
        }
        job_ids = list({one.job_id for one in keys.values()})
        records = reader.by_job_id(ctx.accounting, job_ids)
        there = {family.key(aar) for aar in records.values() if _is_published(ctx, aar)}
        there |= {one.key for known in _versions(ctx, job_ids).values() for one in known}
        # Zeros for a receiver's own row have its names.
        ended, last = (ended_from, ended_before), ledger.last_message(ctx.publishing)
        total_ids = {one.key: one.total_id for one in sent.zeroed_keys(ctx.publishing, ctx.block, ended, last)}
        for key, one in keys.items():
            if key not in there:
                record = SentRecord(one.job_id, 0, 0, one.end_time, b"", key, total_id=total_ids.get(key))
                self.withdraw(record, records.get(one.job_id))
                count += 1
        if count:
            self._summary.note(f"{count_of(count, 'key')} that the receiver may have from before sent with zeros")

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
        for group in sent.empty_groups(ctx.publishing, ctx.block):
            end_time = month_bounds(group.year, group.month)[0] + 1
            names = ledger.sent_names(ctx.publishing, group.total_id)
            # A month in the future by this host's clock waits: the receiver would refuse the message.
            if len(names) > ledger.PLACE and end_time <= int(time.time()):
                job_id, key = family.group_record(names, end_time)
                self.withdraw(SentRecord(job_id, 0, 0, end_time, b"", key, total_id=group.total_id))
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
        Send what takes back invalid usage: zeros to groups without jobs, and again to the invalid keys of ``months``.

        The months in which this run has sent zeros are included.
        """
        self.flush()
        if self._keeps_first:
            return
        months = {*months, *self._summary.withdrawn}
        is_in_doubt = incarnation.uncertain_after_seq(self._con, self._ctx.block) is not None
        unnamed = months if is_in_doubt else months & sent.months_without_names(self._con, self._ctx.block)
        self._expect_former_groups(unnamed)
        self._neutralise_groups()
        closed = closed_months(self._ctx.accounting)
        for month in sorted(months - closed):
            self._repeat_zeros(*month_bounds(*month))
        for month in sorted(self._summary.withdrawn):
            # Another job may have the key by now: then nothing is too many.
            if found := surplus(self._ctx.accounting, self._con, self._ctx.plugin, month):
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
        parts = []
        for one in gone:
            record = SentRecord(one.job_id, 0, 0, one.end_time, b"", one.key, total_id=one.total_id)
            part = withdrawal(ctx.publishing, ctx.plugin, self._family, record, records.get(one.job_id), now)
            if part is not None:
                parts.append(MessagePart(part[0]))
        self.flush()
        self._delivery.deliver(DeliveryBatch(self._family.envelope, batched(parts, *ctx.limits)))

    def quarantine(self, aar: AAR, seq: int, reason: str) -> None:
        """Quarantine a record, as `RecordBatcher.quarantine`."""
        batcher = self._at(aar.end_time)
        if batcher is None or batcher is self:
            super().quarantine(aar, seq, reason)
        else:
            batcher.quarantine(aar, seq, reason)

    def key_collisions(self, rows: Sequence[Row]) -> dict[str, str]:
        """
        Return the new records that the receiver would take for another job, with that job's JobID.

        APEL's key is the local ID and the end time. Of several jobs with one key the sent one stays; if none was sent,
        the one recorded first is sent. A job that is not sent does not block others.
        """
        ctx, wants = self._ctx, self._ctx.plugin.target.wants
        if not ctx.plugin.keys_may_collide:
            return {}
        key = ctx.plugin.any_records().key
        rows = [row for row in rows if wants(row[_VO])]
        ends = Counter([row[_END_TIME] for row in rows])
        own_ids = {row[_RECORD_ID] for row in rows}
        seconds = reader.seconds_of_others(ctx.accounting, ends, own_ids)
        others = reader.ended_at(ctx.accounting, seconds, besides=own_ids) if seconds else []
        ends.update(end_time for *_name, end_time in others)
        same: dict[str, list[AAR]] = {}
        # A key contains the end time: only jobs that end in the same second need their keys made.
        for row in rows if max(ends.values(), default=0) > 1 else ():
            if ends[row[_END_TIME]] > 1:
                aar = record_of(row, None)
                same.setdefault(key(aar), []).append(aar)
        rivals: dict[str, list[str]] = {one: [] for one in same}
        for _record_id, job_id, local_job_id, end_time in others:
            other = key(bare(job_id, end_time, local_job_id))
            if other in same:
                rivals[other].append(job_id)
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


def add_logged(
    ctx: RunContext,
    router: RecordRouter,
    position: Cursor,
    horizon: int,
    waiting: Collection[int] | None = None,
    reached: int = 0,
) -> None:
    """
    Add what was logged after the cursor, in that order. Retract what must not be published any more.

    ``waiting`` (`kept_records.take_over`): up to the place ``reached``, only these records and the held ones are
    checked.
    """
    _retract_deleted(ctx, router, position.last_seq, horizon)
    seq, ended_from = position.last_seq, position.start_end_time
    if waiting is not None:
        aside = reader.places_of(ctx.accounting, held.job_ids(ctx.publishing, ctx.block), seq, reached)
        _add_places(ctx, router, {*aside, *(place for place in waiting if place <= reached)}, ended_from)
        seq = reached
    places = _places_by_end(ctx, seq, horizon, ended_from)
    if places is not None:
        _add_places(ctx, router, places, ended_from)
        router.passed(reader.highest_place(ctx.accounting, horizon))
        return
    while page := reader.logged_after(ctx.accounting, seq, horizon, ended_from=ended_from):
        _add_page(ctx, router, page)
        seq = page.last_seq
        router.passed(seq)


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
    return {
        *reader.places_ended_from(con, seq, horizon, ended_from),
        *reader.places_of(con, known, seq, horizon),
    }


def _add_places(ctx: RunContext, router: RecordRouter, places: Iterable[int], ended_from: int) -> None:
    rising = sorted(places)
    for start in range(0, len(rising), reader.PAGE_RECORDS):
        some = rising[start : start + reader.PAGE_RECORDS]
        page = reader.logged_among(ctx.accounting, some, ended_from=ended_from)
        _add_page(ctx, router, page)
        router.passed(page.last_seq)


def _add_page(ctx: RunContext, router: RecordRouter, page: Page) -> None:
    # Records with pseudonyms stay at the receiver as they were sent: the pseudonyms are no correction.
    closed = pseudonymised(ctx.accounting, [row[_RECORD_ID] for _seq, row, _digest in page.records])
    if closed:
        page = page._replace(records=[one for one in page.records if one.row[_RECORD_ID] not in closed])
    job_ids = [*(row[_JOB_ID] for _seq, row, _digest in page.records), *(job_id for _seq, job_id in page.others)]
    known = _versions(ctx, job_ids)
    aside = held.states(ctx.publishing, ctx.block, job_ids)
    twins = router.key_collisions([row for _seq, row, _digest in page.records if not known.get(row[_JOB_ID])])
    odd, wants = known.keys() | aside.keys() | twins.keys(), ctx.plugin.target.wants
    settled: list[str] = []
    # Consecutive records that the receiver does not have take the fast path.
    for is_new, records in groupby(page.records, lambda one: one[1][_JOB_ID] not in odd and wants(one[1][_VO])):
        if is_new:
            router.add_new([*records])
            continue
        settled += [
            aar.job_id
            for seq, aar in ((one.seq, one.aar) for one in records)
            if aside.get(aar.job_id) != "dropped"
            and _add(ctx, router, seq, aar, known.get(aar.job_id, []), twins.get(aar.job_id))
        ]
    settled += _add_others(ctx, router, page, known)
    # Release a held record that is again the version that the receiver has.
    _release(ctx, [job_id for job_id in settled if job_id in aside])


def _add(
    ctx: RunContext, router: RecordRouter, seq: int, aar: AAR, known: Sequence[SentVersion], twin: str | None = None
) -> bool:
    """
    Add or retract one record. Return True if nothing needs sending: the receiver has it, or the target excludes it.

    ``twin`` is another job that the receiver would take for this one.
    """
    if ctx.plugin.target.wants(aar.vo):
        if twin is not None:
            router.quarantine(aar, seq, TWIN.format(twin))
            return False
        return not router.add(aar, seq, known)
    if known and ctx.guard.blocks_retraction(aar, seq, known, unwanted=True):
        return False
    return router.retract(aar.job_id, aar, known)


def _add_others(ctx: RunContext, router: RecordRouter, page: Page, known: Versions) -> list[str]:
    """Retract records that must not be published, if they were; return the JobIDs with nothing left to do."""
    records = reader.by_job_id(ctx.accounting, [job_id for _seq, job_id in page.others if known.get(job_id)])
    settled = []
    for seq, job_id in page.others:
        aar, versions = records.get(job_id), known.get(job_id, [])
        if aar is not None and reader.is_publishable(aar):
            # It ended before the target's time, and a republish sent it.
            gone = _add(ctx, router, seq, aar, versions)
        else:
            forbidden = ctx.guard.blocks_retraction(None, seq, versions, unwanted=False)
            gone = not forbidden and router.retract(job_id, aar, versions)
        if gone:
            settled.append(job_id)
    return settled


def _retract_deleted(ctx: RunContext, router: RecordRouter, seq: int, horizon: int) -> None:
    job_ids = usage.deleted_jobs(ctx.accounting, seq, horizon)
    there = reader.by_job_id(ctx.accounting, job_ids)
    gone = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in there]
    known = _versions(ctx, gone)
    _release(ctx, [job_id for job_id in gone if router.retract(job_id, None, known.get(job_id, []))])


def add_held(ctx: RunContext, router: RecordRouter) -> None:
    """
    Add the held records that are due, page by page.

    Records that the receiver refused before go last and in their own messages, so that they cannot delay others.
    """
    due = ctx.retry_thresholds
    for refused in (False, True):
        page = [("", "")]
        while page := held.held_to_send(ctx.publishing, ctx.block, due, refused=refused, after=page[-1][0]):
            job_ids = [job_id for job_id, _state in page]
            found = reader.by_job_id(ctx.accounting, job_ids)
            # The receiver's administrator deleted the record of a job that must not be published any more.
            for job_id, state in page:
                if state == "retry" and ctx.plugin.keeps_first and not _is_published(ctx, found.get(job_id)):
                    ledger.removed(ctx.publishing, ctx.block, job_id)
            # A record that is held for impossible values waits for a decision, whatever else it waits for.
            job_ids = [job_id for job_id in job_ids if job_id not in found or not found[job_id].held]
            records = {job_id: found[job_id] for job_id in job_ids if job_id in found}
            known = _versions(ctx, job_ids)
            twins = router.key_collisions([aar for job_id, aar in records.items() if not known.get(job_id)])
            for job_id, state in page:
                # "retry" means that the receiver has room now: its old version no longer counts.
                if state == "retry":
                    known[job_id] = [one._replace(digest=b"", notes=None) for one in known.get(job_id, [])]
            settled = [
                job_id
                for job_id in job_ids
                if job_id not in records
                or _add(ctx, router, 0, records[job_id], known.get(job_id, []), twins.get(job_id))
            ]
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
    job_ids = [one.job_id for one in held.quarantine_entries(ctx.publishing, target=ctx.block)]
    for start in range(0, len(job_ids), sent.MANY):
        some = job_ids[start : start + sent.MANY]
        there = reader.by_job_id(ctx.accounting, some)
        _release(ctx, [job_id for job_id in some if job_id not in there])


def add_period(ctx: RunContext, router: RecordRouter, ended_from: int, ended_before: int) -> None:
    """Add every record that ended in a period, except those that an operator dropped."""
    left = 0
    for whole in reader.ended_between(ctx.accounting, ended_from, ended_before):
        closed = pseudonymised(ctx.accounting, [aar.record_id for aar in whole])
        left += len(closed)
        page = [aar for aar in whole if aar.record_id not in closed]
        job_ids = [aar.job_id for aar in page]
        known = _versions(ctx, job_ids)
        aside = held.states(ctx.publishing, ctx.block, job_ids)
        twins = router.key_collisions([aar for aar in page if not known.get(aar.job_id)])
        for aar in page:
            if aside.get(aar.job_id) != "dropped" and ctx.plugin.target.wants(aar.vo):
                _add(ctx, router, 0, aar, known.get(aar.job_id, []), twins.get(aar.job_id))
    _retract_absent(ctx, router, (ended_from, ended_before))
    if left:
        ctx.summary.note(
            f"{count_of(left, 'job')} not sent again: the names of the users were replaced by pseudonyms (`arcacct db"
            " forget`), and sent records stay"
        )


def _retract_absent(ctx: RunContext, router: RecordRouter, ended: tuple[int, int]) -> None:
    """
    Retract what the receiver has with ``ended[0] <= EndTime < ended[1]`` of jobs that do not count in that period.

    They ended in another period, or are held, not selected or deleted. A job that is missing without a reason in the
    log stays.
    """
    deleted = {*usage.deleted_jobs(ctx.accounting, 0, reader.LARGEST_EXACT)}
    done: set[str] = set()
    there = sent.sent_versions(ctx.publishing, ctx.block, ctx.plugin.record_formats, ended)
    job_ids = (one.job_id for one in there if one.digest)
    while some := list(dict.fromkeys(islice(job_ids, sent.MANY))):
        records = reader.by_job_id(ctx.accounting, some)
        absent = [
            job_id
            for job_id in some
            if job_id not in done
            and (job_id in records or job_id in deleted)
            and not (
                _is_published(ctx, records.get(job_id))
                and reader.is_time(records[job_id].end_time)
                and ended[0] <= records[job_id].end_time < ended[1]
            )
        ]
        done.update(absent)
        for job_id, versions in _versions(ctx, absent).items():
            aar = records.get(job_id)
            if _is_published(ctx, aar):
                assert aar is not None
                _add(ctx, router, 0, aar, versions)
            elif not ctx.guard.blocks_retraction(aar, 0, versions, unwanted=aar is not None and not aar.held):
                router.retract(job_id, aar, versions)


def surplus_records(
    accounting: Connection, publishing: Connection, plugin: TargetPlugin, ended: tuple[int, int], last_message: int
) -> list[ZeroedKey]:
    """
    Return the records with zeros that a receiver has in addition to those of jobs, each key once (`sent.zeroed_keys`).

    A receiver that replaces records never deletes one, and counts each as a job. A key that another job has now is left
    out.
    """
    if plugin.keeps_first:
        return []
    gone = {one.key: one for one in sent.zeroed_keys(publishing, plugin.target.block, ended, last_message)}
    key = plugin.any_records().key
    others = [
        job_id
        for _record_id, job_id, local_job_id, end_time in (
            reader.ended_at(accounting, {one.end_time for one in gone.values()}) if gone else ()
        )
        if key(bare(job_id, end_time, local_job_id)) in gone
    ]
    there = sent.versions(publishing, plugin.target.block, others, keeps_first=False)
    held_by_others = {one.key for known in there.values() for one in known}
    return [one for one in gone.values() if one.key not in held_by_others]


class Surplus(NamedTuple):
    """How many `surplus_records` a receiver has in a month."""

    jobs: int
    is_minimum: bool
    """Whether there may be more: a lost ledger may have known them, or the month has sums, where 0 means unknown."""

    def __bool__(self) -> bool:
        return self.jobs > 0 or self.is_minimum

    def __str__(self) -> str:
        if not self.is_minimum:
            return f"{count_of(self.jobs, 'job')} too many"
        return f"{self.jobs} or more jobs too many" if self.jobs else "number of jobs unknown"


def surplus(accounting: Connection, publishing: Connection, plugin: TargetPlugin, month: Month) -> Surplus:
    """
    Count the `surplus_records` of a month.

    In a month of sums, a receiver may show a sum of the same names instead of a record, so the number is unknown.
    """
    ended = month_bounds(*month)
    jobs = len(surplus_records(accounting, publishing, plugin, ended, ledger.last_message(publishing)))
    kinds = {**remembered_kinds(accounting, plugin), **target_months.kinds(publishing, plugin.target.block)}
    has_sent_records = plugin.groups_records and any(map(plugin.has_records, {plugin.message_format, *kinds.values()}))
    may_be_more = has_sent_records and incarnation.may_lack(publishing, ended[0])
    if not plugin.has_records(kinds.get(month, plugin.message_format)):
        return Surplus(0, jobs > 0 or may_be_more)
    return Surplus(jobs, may_be_more)


def zero_records(ctx: RunContext, delivery: MessageSink) -> None:
    """
    Send zeros for records that are in the receiver's own tables and that we do not publish.

    The ledger notes them under the job that has such a local ID and end here, under any name of the site; without one
    under the local ID.
    """
    rows = ctx.at_receiver.records
    family = (
        ctx.plugin.records(ctx.plugin.message_format)
        if ctx.plugin.has_records(ctx.plugin.message_format)
        else ctx.plugin.any_records()
    )
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
        ctx.summary.note(
            f"{count_of(len(parts), 'record')} that the receiver has and we do not publish sent with zeros"
        )
        delivery.deliver(DeliveryBatch(family.envelope, batched(parts, *ctx.limits)))


def _versions(ctx: RunContext, job_ids: Sequence[str]) -> Versions:
    return sent.versions(ctx.publishing, ctx.block, job_ids, keeps_first=ctx.plugin.keeps_first)


def _release(ctx: RunContext, job_ids: Sequence[str]) -> None:
    if job_ids:
        held.unhold(ctx.publishing, ctx.block, job_ids)
