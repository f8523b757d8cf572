"""The whole history of one job: seen, recorded, sent, answered, or why not; and the texts that a receiver was sent."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from arcacct.arex.control_files import is_hashed, job_file, status_files
from arcacct.config.options import Target
from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.publishing import cursors, held, ledger_rows, sent, target_months
from arcacct.publishing.batches import UNFORESEEN, withdrawal
from arcacct.publishing.context import RunSummary
from arcacct.publishing.ledger import SentRecord, SentSum
from arcacct.publishing.plugin import RecordFormat, TargetPlugin
from arcacct.publishing.selection import bare_ids
from arcacct.publishing.sent import SentMessage, is_same
from arcacct.publishing.summaries import summed
from arcacct.records import hold_decisions, reader, unfinished, usage
from arcacct.records.model import AAR
from arcacct.records.reader import FoundJob
from arcacct.records.states import ABORTED, NOT_MEASURED
from arcacct.records.texts import unescaped
from arcacct.targets import plugins
from arcacct.times import DAY_S, Month, iso, month_name, month_of
from arcacct.wording import count_of

# The text about a job or a sum that a receiver was sent, for `arcacct job --sent`. The bytes of a message are kept
# until it is answered, and some longer (`keep_messages`). For the others the ledger has the SHA-256 of the text: a
# message that is rebuilt from the present records and has this digest is the one that was sent.


KEPT = "byte for byte as it was sent: the ledger has the message"
MADE_AGAIN = "byte for byte as it was sent: the message was rebuilt, with the SHA-256 of the sent one"
AS_IT_IS = (
    "as the record is: this is the sent version; its bytes cannot be compared: other records of the message, values"
    " that the receiver does not store, the configuration or the program have changed"
)
AS_IT_IS_THERE = (
    "as the record is: this is the version that the receiver kept; the message may have contained another, and cannot"
    " be rebuilt"
)
SUM_AS_IT_IS = (
    "as the sum is now, with the same jobs and wall time as sent; the message cannot be rebuilt to compare its bytes"
)
_UNKNOWN = "unknown: {why}, and the bytes of the message are not kept; {advice}"
_ADVICE = "keep_messages=DAYS in [arcacct] keeps those of later messages"
_ADVICE_OF_DAYS = "keep_messages={days} in [arcacct] keeps them for {days} days"

_RUN_S = 600
"""So long before a message was written down its texts may have been made; or longer, up to a day, if ..."""
_HASHED_BYTES = 1_000_000_000
"""... and at most this many bytes are hashed to find out: a second or two."""
_FAR_S = 221_845_392_000
_FAR_SECONDS = 10**10
"""A time from the year 9000 on: so unlikely that no name of a job contains it."""


class SentText(NamedTuple):
    """A text that was sent, or why it is unknown."""

    how: str
    """How certain the text is, in words."""
    text: str | None


class _Whole(NamedTuple):
    """All the texts of a message as it was sent."""

    message: SentMessage
    how: str
    texts: list[str]
    """None: it is not stored, and cannot be rebuilt."""


class SentTexts:
    """The texts that one target was sent; caches those of the last message."""

    def __init__(self, plugin: TargetPlugin, accounting: Connection, publishing: Connection) -> None:
        self._plugin = plugin
        plugin.bare_ids = bare_ids(accounting, publishing)
        self._accounting = accounting
        self._publishing = publishing
        self._last: _Whole | None = None
        days = plugin.settings.keep_messages_days
        self._advice = _ADVICE_OF_DAYS.format(days=days) if days else _ADVICE

    def of_record(self, message_id: int, position: int, aar: AAR | None) -> SentText:
        """
        Return the record of a job at a position of a message; ``aar``: the present record, ``None`` if there is none.
        """
        message, how, texts = self._whole(message_id)
        if texts:
            return SentText(how, texts[list(message.records).index(position)])
        record = message.records[position]
        if aar is not None and is_same(aar, record.digest):
            text = self._text(self._plugin.records(message.message_format), record, aar, message.created_s)
            if text is not None:
                # The earlier version of such a receiver, from before the ledger noted the kept version.
                kept = self._plugin.keeps_first and record.replaced_id is not None
                return SentText(AS_IT_IS_THERE if kept else AS_IT_IS, text)
        return self._unknown("its record is gone" if aar is None else "the record changed since")

    def of_sum(self, message_id: int, key: str) -> SentText:
        """Return the sum with a key of the ledger in the last message that has it."""
        message, how, texts = self._whole(message_id)
        family = self._plugin.sums(message.message_format)
        for text in texts:
            if family.stands_under(text, key):
                return SentText(how, text)
        noted = next(one for one in message.sums if one.key == key)
        found = self._sums(message.message_format, [noted]).get(key)
        if found is not None and (found[1].jobs, found[1].wall_s) == (noted.jobs, noted.wall_s):
            return SentText(SUM_AS_IT_IS, found[0])
        return self._unknown("the sum changed since")

    def _unknown(self, why: str) -> SentText:
        return SentText(_UNKNOWN.format(why=why, advice=self._advice), None)

    def _whole(self, message_id: int) -> _Whole:
        if self._last is None or self._last.message.message_id != message_id:
            message = sent.message(self._publishing, message_id)
            self._last = self._kept(message) or self._made_again(message) or _Whole(message, "", [])
        return self._last

    def _kept(self, message: SentMessage) -> _Whole | None:
        if message.data is None:
            return None
        try:
            text = self._plugin.text_of(message.data)
        except ValueError:
            return None
        texts = self._plugin.envelope(message.message_format).cut(text)
        if sha256(text.encode()).hexdigest() != message.digest or len(texts) != message.record_count:
            return None
        return _Whole(message, KEPT, texts)

    def _made_again(self, message: SentMessage) -> _Whole | None:
        """Return the message, if a text from the present data has its digest, for any creation time."""
        # The creation time of a record is only in its text: an unguessable time is its placeholder.
        stand_in = _FAR_S + secrets.randbelow(_FAR_SECONDS)
        if message.sums:
            texts = [text for text, _one in self._sums(message.message_format, message.sums).values()]
        else:
            texts = self._texts_of_records(message, stand_in)
        if len(texts) != message.record_count:
            return None
        try:
            pieces = self._plugin.envelope(message.message_format).join(texts).encode().split(iso(stand_in).encode())
        except UnicodeEncodeError:
            return None
        longest_s = min(max(_RUN_S, _HASHED_BYTES // sum(map(len, pieces))), DAY_S) if len(pieces) > 1 else 0
        for made_s in range(message.created_s, message.created_s - longest_s - 1, -1):
            if sha256(iso(made_s).encode().join(pieces)).hexdigest() == message.digest:
                return _Whole(message, MADE_AGAIN, [text.replace(iso(stand_in), iso(made_s)) for text in texts])
        return None

    def _texts_of_records(self, message: SentMessage, now: int) -> list[str]:
        """Return the texts as they would be sent now, in their order; none if one of them would not be sent."""
        records = message.records.values()
        there = reader.by_job_id(self._accounting, list({one.job_id for one in records}))
        family, texts = self._plugin.records(message.message_format), []
        for record in records:
            text = self._text(family, record, there.get(record.job_id), now)
            if text is None:
                return []
            texts.append(text)
        return texts

    def _text(self, family: RecordFormat, record: SentRecord, aar: AAR | None, now: int) -> str | None:
        """A record in the way in which it was sent: with zeros, to replace another, or as it is."""
        try:
            if not record.digest:
                names = self._publishing, self._plugin, family
                made = None if self._plugin.keeps_first else withdrawal(*names, record, aar, now)
                return None if made is None else made[0]
            if aar is None:
                return None
            verdict = family.accept(aar, now)
            if verdict.refusal is not None:
                return None
            if record.notes is not None and record.notes == self._plugin.replacement_note:
                return family.replacement(verdict.aar, now, record.digest)
            return family.text(verdict.aar, now)
        except UNFORESEEN:
            return None

    def _sums(self, kind: str, wanted: Sequence[SentSum]) -> dict[str, tuple[str, SentSum]]:
        """Return, by key in the order of sending, the present sums of some keys, or the zeros that were sent."""
        family = self._plugin.summaries(kind)
        keys = {one.key for one in wanted}
        if not any(one.jobs for one in wanted):
            return {one.key: (family.zero(one.key), one) for one in wanted}
        months: set[Month] = {(one.year, one.month) for one in wanted}
        sums = summed(self._plugin, family, usage.usage_cells(self._accounting, sorted(months)), RunSummary()).sums
        return {one.key: (text, one) for text, one in sums if one.key in keys}


# The changes of a record since a receiver got it, for operators who must make room there.


class ChangedField(NamedTuple):
    """A value of a record that differs at a receiver, as texts."""

    name: str
    was: str
    now: str

    def __str__(self) -> str:
        """Return the text for people."""
        return f"{self.name}: was {self.was}, is {self.now}"


class ChangedRecord(NamedTuple):
    """The known part of the difference."""

    fields: tuple[ChangedField, ...]
    is_all: bool
    """Whether this is the whole difference: with the former values, the record has the digest of the sent version."""

    @property
    def text(self) -> str:
        """One line for people."""
        if not self.fields:
            return "changed in a value whose previous version is not stored"
        more = "" if self.is_all else "; perhaps also in values whose previous version is not stored"
        return f"{'; '.join(map(str, self.fields))}{more}"


_FORMER = (
    "SELECT LocalJobID, WLCGVOs.Name, URL, EndTime, Wall, Cpu FROM PreviousVersions"
    " LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID LEFT JOIN Endpoints ON Endpoints.ID = EndpointID"
    " WHERE PreviousVersions.RecordID = ? ORDER BY Seq, PreviousVersions.rowid"
)


def changed_since_sent(
    accounting: Connection, publishing: Connection, target: str, job_id: str, *, keeps_first: bool = True
) -> ChangedRecord | None:
    """
    Return how a record differs from the receiver's version; ``None``: nothing to compare.

    ``keeps_first``: whether that is the first version that it got, instead of the last. The former values are those
    that the databases keep: end, wall and CPU time, VO, endpoint, id in the batch system.
    """
    aar = reader.by_job_id(accounting, [job_id]).get(job_id)
    versions = sent.versions(publishing, target, [job_id], keeps_first=keeps_first).get(job_id, [])
    if aar is None or not versions:
        return None
    there = versions[0]
    former = aar._replace(end_time=there.end_time, wall_s=there.wall_s if there.total_id else aar.wall_s)
    for local_job_id, vo, url, end_time, wall_s, cpu_s in accounting.execute(_FORMER, (aar.record_id,)):
        if end_time == former.end_time and wall_s == former.wall_s:
            # The first log entry with the end and the wall time that were sent.
            former = former._replace(
                local_job_id=unescaped(local_job_id) if local_job_id else None,
                vo=unescaped(vo) if vo else None,
                endpoint_url=unescaped(url) if url else None,
                cpu_user_s=cpu_s - aar.cpu_kernel_s,
            )
            break
    fields = [
        ChangedField(name, show(was), show(now))
        for name, was, now, show in (
            ("end", former.end_time, aar.end_time, iso),
            ("wall time", former.wall_s, aar.wall_s, _seconds),
            ("CPU time", former.cpu_user_s + former.cpu_kernel_s, aar.cpu_user_s + aar.cpu_kernel_s, _seconds),
            ("VO", former.vo, aar.vo, _name_or_none),
            ("endpoint", former.endpoint_url, aar.endpoint_url, _name_or_none),
            ("id in the batch system", former.local_job_id, aar.local_job_id, _name_or_none),
        )
        if was != now
    ]
    return ChangedRecord(tuple(fields), is_same(AAR._make(former), there.digest))


def _seconds(value: object) -> str:
    return f"{value} s"


def _name_or_none(value: object) -> str:
    return str(value or "none")


# The whole history of one job, for `arcacct job`: seen, recorded, sent, answered, or why not.


_SUFFIXES = ("local", "diag", "statistics", "failed")
_OLDER = "an older version of the record"
_CARRIED = "Messages.Kind, Origin, State, Created, Answered, AnswerCode, Answer, ReceiverID"


class SentInMessage(NamedTuple):
    """One message that carried a job, or a sum that it is part of."""

    message_id: int
    position: int
    """The position of its record; 0 for sums."""
    kind: str
    origin: str
    state: str
    created_s: int
    answered_s: int | None
    answer_code: int | None
    answer: str | None
    receiver_id: str | None
    zeros: bool
    """Whether it cancelled earlier usage."""
    notes: str | None
    digest: bytes | None
    """The digest of the sent record; ``None`` for sums."""


def why(
    settings: Settings, accounting: Connection, publishing: Connection, found: FoundJob, *, with_texts: bool = False
) -> Iterator[str]:
    """
    Return the history in lines, in order of time.

    ``with_texts``: with the content of each message about the job.
    """
    aar = reader.by_record_id(accounting, [found.record_id]).get(found.record_id)
    if aar is None:
        yield f"record {found.record_id}: the database does not know its status; see `arcacct db check`"
        yield from _in_the_ledger(settings, accounting, publishing, found.job_id, with_texts=with_texts)
        return
    yield f"job {aar.job_id}"
    yield f"  in the batch system: {aar.local_job_id or 'no id'}"
    yield f"  user {aar.user_dn or 'unknown'}, VO {aar.vo or 'none'}"
    submitted = f"submitted {iso(aar.submit_time) if aar.submit_time else 'at an unknown time'}"
    record = f"{aar.status}, {submitted}"
    if aar.end_time:
        # The sum of CPU times; values that are not numbers are unchanged.
        both = aar.cpu_user_s, aar.cpu_kernel_s
        cpu = sum(both) if {int}.issuperset(map(type, both)) else " + ".join(map(str, both))
        record = (
            f"{aar.status}, exit code {aar.exit_code}, {submitted}, ended {iso(aar.end_time)},"
            f" wall {f'{aar.wall_s} s' if aar.has_wall else 'unknown'},"
            f" CPU {f'{cpu} s' if aar.has_cpu else 'unknown'}, {count_of(aar.core_count, 'core')} on"
            f" {count_of(aar.node_count, 'node')}, benchmark {aar.benchmark or 'unknown'}"
        )
    yield f"  record {found.record_id}: {record}"
    for field, note in notes_of(accounting, found.record_id):
        yield f"  left out: {field}: {note}"
    yield from _implausible(accounting, found)
    controldir = settings.places.controldir
    hashed = is_hashed(controldir, aar.job_id)
    files = [(suffix, job_file(controldir, aar.job_id, suffix, hashed=hashed)) for suffix in _SUFFIXES]
    there = [f".{suffix}" for suffix, path in files if os.path.lexists(path)]
    there += [
        path.removeprefix(f"{controldir}/")
        for path in status_files(controldir, aar.job_id, "", hashed=hashed)
        if os.path.exists(path)
    ]
    yield f"  control directory: {', '.join(there) if there else 'no files of this job are left'}"
    seen = status_file_seen(accounting, found.record_id)
    if seen is not None:
        state, event_s, is_swept = seen
        swept = "and its files were read by a sweep" if is_swept else "not yet confirmed by a sweep"
        if state == unfinished.VANISHED and not aar.end_time:
            yield f"  last event at {iso(event_s)}; its files are gone, and its usage is unknown:"
            yield f"  {unfinished.REMEDIES}"
        else:
            yield f"  last state recorded: {state} at {iso(event_s)}, {swept}"
    yield "events (UTC)"
    for when, event in events_of(accounting, found.record_id):
        yield f"  {when}  {event}"
    seq = seq_of(accounting, found.record_id)
    yield "publishing"
    if seq is None:
        yield "  not final yet: nothing is published before the job ends"
        return
    yield f"  became final, or last changed, as number {seq} of FinishedLog"
    if not settings.targets:
        yield "  no targets are configured"
    for plugin in plugins(settings):
        texts = SentTexts(plugin, accounting, publishing) if with_texts else None
        sent = messages_of(publishing, plugin.target.block, aar.job_id)
        yield from _records_sent(plugin, sent, aar, texts)
        yield from _beside_records(plugin, accounting, publishing, aar, seq, sent, texts)


def _implausible(con: Connection, found: FoundJob) -> Iterator[str]:
    """Return the impossible values of a record, and the decision about them."""
    held = next(hold_decisions.held_records(con, hold_decisions.ImplausibleFilter(job_ids=(found.job_id,))), None)
    if held is None:
        return
    what = "not measured" if held.reasons == (NOT_MEASURED,) else "reported, and cannot be true"
    yield f"  {what}: {held.text}"
    for one in hold_decisions.decisions(con, found.record_id):
        yield f"  {iso(one.decided_s)}: {one.decided_by} decided: {one.state}"
    yield f"  {_COUNTED_AS[held.state]}"


_COUNTED_AS = {
    "held": "held: not counted and not sent until a decision with `arcacct quarantine decide`",
    "unknown": "counted with these values as unknown",
    "bound": "counted with these values at their bounds, or as unknown without a bound",
    "reported": "counted as reported",
    "excluded": "excluded: not counted and not sent",
    "published": "published before values were checked, so counted as reported",
}


def was_sent(publishing: Connection, job_id: str) -> bool:
    """Whether the ledger knows a JobID."""
    return bool(ledger_rows.of_jobs(publishing, "JobID", [job_id], "1"))


def why_gone(
    settings: Settings, accounting: Connection, publishing: Connection, job_id: str, *, with_texts: bool = False
) -> Iterator[str]:
    """The remaining history of a job that only the ledger knows."""
    yield f"job {job_id}"
    yield "  record: deleted or pruned; the ledger has what was sent"
    yield from _in_the_ledger(settings, accounting, publishing, job_id, with_texts=with_texts)


def _in_the_ledger(
    settings: Settings, accounting: Connection, publishing: Connection, job_id: str, *, with_texts: bool
) -> Iterator[str]:
    """Return what was sent about a job without a record."""
    yield "publishing"
    for plugin in plugins(settings):
        texts = SentTexts(plugin, accounting, publishing) if with_texts else None
        sent = messages_of(publishing, plugin.target.block, job_id)
        yield from _records_sent(plugin, sent, None, texts)
        yield from _set_aside(plugin, held.held_entries(publishing, target=plugin.target.block, job_id=job_id))


def _records_sent(
    plugin: TargetPlugin, sent: Sequence[SentInMessage], aar: AAR | None, texts: SentTexts | None
) -> Iterator[str]:
    for one in sent:
        yield f"  {plugin.target.name}: {_message(one, aar)}"
        if texts is not None:
            yield from _lines(texts.of_record(one.message_id, one.position, aar))


def _lines(sent: SentText) -> Iterator[str]:
    yield f"    its text: {sent.how}"
    if sent.text is not None:
        for line in sent.text.removesuffix("\n").split("\n"):
            yield f"      {line}"


def _set_aside(plugin: TargetPlugin, aside: Iterable[held.HeldEntry]) -> Iterator[str]:
    for one in aside:
        more = (
            f"tried {count_of(one.attempts + 1, 'time')}" if one.attempts else "",
            f"the receiver rejected it in {count_of(one.refusals, 'run')}" if one.refusals else "",
            one.retry_text,
        )
        reason = "; ".join(filter(None, (one.reason, *more)))
        yield f"  {plugin.target.name}: {one.state} since {iso(one.since_s)}: {reason}"


def _beside_records(
    plugin: TargetPlugin,
    accounting: Connection,
    con: Connection,
    aar: AAR,
    seq: int,
    sent: Sequence[SentInMessage],
    texts: SentTexts | None,
) -> Iterator[str]:
    """Sums that count the job, and why it is in no message."""
    target = plugin.target
    counted = None if plugin.has_records(plugin.message_format) else _counted(con, plugin, aar)
    if counted is not None:
        message, key, notes = counted
        repaired = f"; repaired: {'; '.join(notes)}" if notes else ""
        yield f"  {target.name}: counted in a sum of its month: {_message(message, aar)}{repaired}"
        if texts is not None:
            yield from _lines(texts.of_sum(message.message_id, key))
    aside = held.held_entries(con, target=target.block, job_id=aar.job_id)
    yield from _set_aside(plugin, aside)
    if any(one.state == "correction" for one in aside):
        changed = changed_since_sent(accounting, con, target.block, aar.job_id)
        if changed is not None:
            yield f"  {target.name}: {changed.text}"
    if not aside and counted is None and not any(one.state in ("accepted", "sending") for one in sent):
        month = month_of(aar.end_time) if reader.is_time(aar.end_time) else None
        if month is not None and month in target_months.held(target_months.load(con, target.block)):
            reason = f"{month_name(month)} is on hold; `arcacct status` shows the cause and the solution"
        elif aar.held:
            why = hold_decisions.why_held(aar.held.split())
            reason = f"held, {why} ({aar.held}); decide with `arcacct quarantine decide`"
        else:
            reason = _reason(target, con, aar, seq)
        yield f"  {target.name}: not sent: {reason}"


def _message(one: SentInMessage, aar: AAR | None) -> str:
    what = f"message {one.message_id} ({one.kind}, {one.origin}) of {iso(one.created_s)}"
    if one.state == "sending":
        answer = "no answer yet: the next run sends it again"
    elif one.answered_s is not None:
        code = f" with HTTP {one.answer_code}" if one.answer_code else ""
        answer = f"{one.state}{code} at {iso(one.answered_s)}"
    else:
        answer = one.state
    details = [
        f"receiver's id {one.receiver_id}" if one.receiver_id else "",
        f"the receiver said: {one.answer}" if one.answer else "",
        "with zeros, to cancel what was sent before" if one.zeros else "",
        f"repaired: {one.notes}" if one.notes and not one.zeros else "",
        "" if one.zeros or aar is None or one.digest is None or is_same(aar, one.digest) else _OLDER,
    ]
    return "; ".join([f"{what}: {answer}", *(detail for detail in details if detail)])


def _counted(con: Connection, plugin: TargetPlugin, aar: AAR) -> tuple[SentInMessage, str, tuple[str, ...]] | None:
    """Return the last message with the sum that includes a job, the sum's key, and the repairs of the job."""
    if not reader.is_time(aar.end_time):
        return None
    family = plugin.summaries(plugin.message_format)
    verdict = family.accept(reader.cell_of(aar), aar.end_time)
    if verdict.refusal is not None or not plugin.target.wants(aar.vo):
        return None
    ((_text, one),) = family.sums([verdict.cell])
    found = message_of_sum(con, plugin.target.block, one.key)
    return None if found is None else (found, one.key, verdict.notes)


def _reason(target: Target, con: Connection, aar: AAR, seq: int) -> str:
    position = cursors.cursor(con, target.block)
    if not target.wants(aar.vo):
        return f"its VO is not selected by the target (vofilter={', '.join(target.vofilter)})"
    if position is None:
        return "nothing was published to this target yet"
    if reader.is_time(aar.end_time) and aar.end_time < position.start_end_time:
        begun = iso(position.start_end_time)
        return f"it ended before this target's start, {begun}; `publish --since` or `republish` send it"
    if aar.status == ABORTED and not reader.is_publishable(aar):
        return "it is aborted and used nothing: it vanished unfinished, or was killed before A-REX accepted it"
    if seq > position.last_seq:
        return "it waits for the next run"
    return "reason unknown to the ledger; `arcacct republish` sends it"


def status_file_seen(con: Connection, record_id: int) -> tuple[str, int, bool] | None:
    """
    The last state recorded, its time, and whether a sweep has read the job's files since.

    ``None`` for records of other sources.
    """
    row: tuple[str, int, bool] | None = con.execute(
        "SELECT State, EventNs / 1000000000, ifnull(Size, -1) >= 0 FROM StatusFiles WHERE RecordID = ?", (record_id,)
    ).fetchone()
    return row


def notes_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """Return ``(field, note)`` of all omissions from a record."""
    return con.execute(
        "SELECT Field, Note FROM TruncationNotes WHERE RecordID = ? ORDER BY Field", (record_id,)
    ).fetchall()


def seq_of(con: Connection, record_id: int) -> int | None:
    """The record's place in FinishedLog; ``None`` while it is not final."""
    rows = con.execute("SELECT Seq FROM FinishedLog WHERE RecordID = ?", (record_id,))
    return next((int(seq) for (seq,) in rows), None)


def events_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """``(time, event)`` of a job, oldest first; times as text, UTC."""
    return con.execute(
        "SELECT EventTime, EventKey FROM JobEvents WHERE RecordID = ? ORDER BY EventTime, rowid", (record_id,)
    ).fetchall()


def messages_of(con: Connection, target: str, job_id: str) -> list[SentInMessage]:
    """Every message to a target that carried a job's record, oldest first."""
    carried = f"Messages.MessageID, Position, {_CARRIED}, length(Record.Digest) = 0, Notes, Record.Digest"
    return list(map(SentInMessage._make, ledger_rows.of_jobs(con, carried, [job_id], "Target = ?", target)))


def message_of_sum(con: Connection, target: str, key: str) -> SentInMessage | None:
    """The last message to a target with a sum of this key."""
    row = con.execute(
        f"SELECT Messages.MessageID, 0, {_CARRIED}, Jobs = 0, NULL, NULL FROM Messages JOIN SentSummaries USING"
        " (MessageID)"
        " WHERE SentSummaries.Target = ? AND Key = ?",
        (target, key),
    ).fetchone()
    return None if row is None else SentInMessage._make(row)
