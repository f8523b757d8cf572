"""The whole story of one job, for `arcacct job why`: seen, recorded, sent, answered, or why not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.arex.control_files import is_hashed, job_file, status_files
from arcacct.asking.sent_texts import SentText, SentTexts
from arcacct.config.options import Target
from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.publishing import cursors, held, ledger_rows, safeguard
from arcacct.publishing.ledger_rows import iso
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.sent import is_same
from arcacct.records import hold_decisions, reader, unfinished
from arcacct.records.model import AAR
from arcacct.records.reader import FoundJob
from arcacct.records.states import ABORTED, NOT_MEASURED
from arcacct.targets import plugins
from arcacct.wording import count_of

_SUFFIXES = ("local", "diag", "statistics", "failed")
_OLDER = "an older version of the record"
_CARRIED = "Messages.Kind, Origin, State, Created, Answered, AnswerCode, Answer, ReceiverID"


class StatusFileSeen(NamedTuple):
    """How the recorder last saw the job's status file."""

    state: str
    event_s: int
    swept: bool
    """Whether a sweep has read the job's files since."""


class SentInMessage(NamedTuple):
    """One message that carried a job, or a sum that it is part of."""

    message_id: int
    position: int
    """Of its record; 0 for sums."""
    kind: str
    origin: str
    state: str
    created_s: int
    answered_s: int | None
    answer_code: int | None
    answer: str | None
    receiver_id: str | None
    zeros: bool
    """Whether it took back what was sent before."""
    notes: str | None
    digest: bytes | None
    """Of the record as it was sent; ``None`` for sums."""


class _Counted(NamedTuple):
    """The last message with the sum that a job is counted in."""

    message: SentInMessage
    key: str
    notes: tuple[str, ...]
    """What was repaired of the job for it."""


def why(
    settings: Settings, accounting: Connection, publishing: Connection, found: FoundJob, *, with_texts: bool = False
) -> Iterator[str]:
    """
    The story in lines, in the order in which things happened.

    ``with_texts``: with what each message said of the job.
    """
    aar = reader.by_record_id(accounting, [found.record_id]).get(found.record_id)
    if aar is None:
        yield f"record {found.record_id}: the database does not know its status; see `arcacct db check`"
        yield from _in_the_ledger(settings, accounting, publishing, found.job_id, with_texts=with_texts)
        return
    yield f"job {aar.job_id}"
    yield f"  in the batch system: {aar.local_job_id or 'no id'}"
    yield f"  user {aar.user_dn or 'unknown'}, VO {aar.vo or 'none'}"
    record = f"{aar.status}, submitted {iso(aar.submit_time)}"
    if aar.end_time:
        # The sum of CPU times; of what are no numbers what stands there.
        both = aar.cpu_user_s, aar.cpu_kernel_s
        cpu = str(sum(both)) if {int}.issuperset(map(type, both)) else " + ".join(map(str, both))
        record = (
            f"{aar.status}, exit code {aar.exit_code}, submitted {iso(aar.submit_time)},"
            f" ended {iso(aar.end_time)}, wall {aar.wall_s} s, CPU {cpu} s, {count_of(aar.core_count, 'core')} on"
            f" {count_of(aar.node_count, 'node')}, benchmark {aar.benchmark or 'unknown'}"
        )
    yield f"  record {found.record_id}: {record}"
    for field, note in notes_of(accounting, found.record_id):
        yield f"  left out: {field}: {note}"
    yield from _implausible(accounting, found.record_id)
    controldir = settings.places.controldir
    hashed = is_hashed(controldir, aar.job_id)
    files = [(suffix, job_file(controldir, aar.job_id, suffix, hashed=hashed)) for suffix in _SUFFIXES]
    there = [f".{suffix}" for suffix, path in files if os.path.lexists(path)]
    there += [
        path.removeprefix(f"{controldir}/")
        for path in status_files(controldir, aar.job_id, "", hashed=hashed)
        if os.path.exists(path)
    ]
    yield f"  control directory: {', '.join(there) if there else 'no files of this job any more'}"
    seen = status_file_seen(accounting, found.record_id)
    if seen is not None:
        swept = "and its files were read by a sweep" if seen.swept else "not yet confirmed by a sweep"
        if seen.state == unfinished.ON_HOLD and not aar.end_time:
            yield f"  last event at {iso(seen.event_s)}; its files are gone, and nothing tells what it used:"
            yield f"  {unfinished.REMEDIES}"
        else:
            yield f"  last state recorded: {seen.state} at {iso(seen.event_s)}, {swept}"
    yield "events (UTC)"
    for when, event in events_of(accounting, found.record_id):
        yield f"  {when}  {event}"
    seq = seq_of(accounting, found.record_id)
    yield "publishing"
    if seq is None:
        yield "  not final yet: nothing is published before the job has ended"
        return
    yield f"  became final, or changed last, as number {seq} of FinishedLog"
    if not settings.targets:
        yield "  no targets are configured"
    for plugin in plugins(settings):
        texts = SentTexts(plugin, accounting, publishing) if with_texts else None
        sent = messages_of(publishing, plugin.target.block, aar.job_id)
        yield from _records_sent(plugin, sent, aar, texts)
        yield from _beside_records(plugin, publishing, aar, seq, sent, texts)


def _implausible(con: Connection, record_id: int) -> Iterator[str]:
    """Which values of a record cannot be true, and what was decided."""
    held = hold_decisions.held_record(con, record_id)
    if held is None:
        return
    what = "nobody measured" if held.reasons == (NOT_MEASURED,) else "reported, and cannot be true"
    yield f"  {what}: {held.text}"
    for one in hold_decisions.decisions(con, record_id):
        yield f"  {iso(one.decided_s)}: {one.decided_by} decided: {one.state}"
    yield f"  {_COUNTED_AS[held.state]}"


_COUNTED_AS = {
    "held": "held: in no figure and at no receiver until `arcacct quarantine decide` settles it",
    "unknown": "counted with these values as unknown",
    "bound": "counted with these values at their bounds, or as unknown where there is none",
    "reported": "counted as reported",
    "excluded": "excluded: in no figure and at no receiver",
    "published": "published before values were checked, so counted as reported",
}


def was_sent(publishing: Connection, job_id: str) -> bool:
    """Whether the ledger knows a JobID."""
    return bool(ledger_rows.of_jobs(publishing, "JobID", [job_id], "1"))


def why_gone(
    settings: Settings, accounting: Connection, publishing: Connection, job_id: str, *, with_texts: bool = False
) -> Iterator[str]:
    """What is left of the story of a job that only the ledger knows."""
    yield f"job {job_id}"
    yield "  record: none any more; it was deleted, or pruned, and the ledger has what was sent of it"
    yield from _in_the_ledger(settings, accounting, publishing, job_id, with_texts=with_texts)


def _in_the_ledger(
    settings: Settings, accounting: Connection, publishing: Connection, job_id: str, *, with_texts: bool
) -> Iterator[str]:
    """What was sent of a job without a record."""
    yield "publishing"
    for plugin in plugins(settings):
        texts = SentTexts(plugin, accounting, publishing) if with_texts else None
        sent = messages_of(publishing, plugin.target.block, job_id)
        yield from _records_sent(plugin, sent, None, texts)
        yield from _set_aside(plugin, held.quarantine_entries(publishing, target=plugin.target.block, job_id=job_id))


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


def _set_aside(plugin: TargetPlugin, aside: Iterable[held.QuarantineEntry]) -> Iterator[str]:
    for one in aside:
        again = f"; {one.retry_text}" if one.retry_text else ""
        yield f"  {plugin.target.name}: {one.state} since {iso(one.since_s)}: {one.reason}{again}"


def _beside_records(
    plugin: TargetPlugin, con: Connection, aar: AAR, seq: int, sent: Sequence[SentInMessage], texts: SentTexts | None
) -> Iterator[str]:
    """Sums that count the job, and why it is in no message."""
    target = plugin.target
    counted = None if plugin.has_records(plugin.message_format) else _counted(con, plugin, aar)
    if counted is not None:
        repaired = f"; repaired: {'; '.join(counted.notes)}" if counted.notes else ""
        yield f"  {target.name}: counted in a sum of its month: {_message(counted.message, aar)}{repaired}"
        if texts is not None:
            yield from _lines(texts.of_sum(counted.message.message_id, counted.key))
    aside = held.quarantine_entries(con, target=target.block, job_id=aar.job_id)
    yield from _set_aside(plugin, aside)
    if not aside and counted is None and not any(one.state in ("accepted", "sending") for one in sent):
        month = ledger_rows.month_of(aar.end_time) if reader.is_time(aar.end_time) else None
        if month is not None and safeguard.held_month(con, target.block, month) is not None:
            reason = f"{ledger_rows.month_name(month)} is held; `arcacct status` says why and what to do"
        elif aar.held:
            why = hold_decisions.why_held(aar.held.split())
            reason = f"held, {why} ({aar.held}); `arcacct quarantine decide` settles it"
        else:
            reason = _reason(target, con, aar, seq)
        yield f"  {target.name}: not sent: {reason}"


def _message(one: SentInMessage, aar: AAR | None) -> str:
    what = f"message {one.message_id} ({one.kind}, {one.origin}) of {iso(one.created_s)}"
    if one.state == "sending":
        answer = "no answer yet: it is sent again by the next run"
    elif one.answered_s is not None:
        code = f" with HTTP {one.answer_code}" if one.answer_code else ""
        answer = f"{one.state}{code} at {iso(one.answered_s)}"
    else:
        answer = one.state
    details = [
        f"receiver's id {one.receiver_id}" if one.receiver_id else "",
        f"the receiver said: {one.answer}" if one.answer else "",
        "with zeros, to take back what was sent before" if one.zeros else "",
        f"repaired: {one.notes}" if one.notes and not one.zeros else "",
        "" if one.zeros or aar is None or one.digest is None or is_same(aar, one.digest) else _OLDER,
    ]
    return "; ".join([f"{what}: {answer}", *(detail for detail in details if detail)])


def _counted(con: Connection, plugin: TargetPlugin, aar: AAR) -> _Counted | None:
    if not reader.is_time(aar.end_time):
        return None
    family = plugin.summaries(plugin.message_format)
    verdict = family.accept(reader.cell_of(aar), aar.end_time)
    if verdict.refusal is not None or not plugin.target.wants(aar.vo):
        return None
    ((_text, one),) = family.sums([verdict.cell])
    found = message_of_sum(con, plugin.target.block, one.key)
    return None if found is None else _Counted(found, one.key, verdict.notes)


def _reason(target: Target, con: Connection, aar: AAR, seq: int) -> str:
    position = cursors.cursor(con, target.block)
    if not target.wants(aar.vo):
        return f"its VO is not among those of the target (vofilter={', '.join(target.vofilter)})"
    if position is None:
        return "nothing was published to this target yet"
    if reader.is_time(aar.end_time) and aar.end_time < position.start_end_time:
        begun = iso(position.start_end_time)
        return f"it ended before this target's time, {begun}; `publish --since` or `republish` send it"
    if aar.status == ABORTED and not reader.is_publishable(aar):
        return "it vanished unfinished, and the batch system measured nothing"
    if seq > position.last_seq:
        return "it waits for the next run"
    return "the ledger does not know why; `arcacct republish` sends it"


def status_file_seen(con: Connection, record_id: int) -> StatusFileSeen | None:
    """The last state recorded; ``None`` for records of other sources."""
    row = con.execute(
        "SELECT State, EventNs / 1000000000, ifnull(Size, -1) >= 0 FROM StatusFiles WHERE RecordID = ?", (record_id,)
    ).fetchone()
    return None if row is None else StatusFileSeen._make(row)


def notes_of(con: Connection, record_id: int) -> list[tuple[str, str]]:
    """``(field, note)`` of all that was left out of a record."""
    return con.execute("SELECT Field, Note FROM RecordNotes WHERE RecordID = ? ORDER BY Field", (record_id,)).fetchall()


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
        f"SELECT Messages.MessageID, 0, {_CARRIED}, Jobs = 0, NULL, NULL FROM Messages JOIN SumKeys USING (MessageID)"
        " WHERE SumKeys.Target = ? AND Key = ?",
        (target, key),
    ).fetchone()
    return None if row is None else SentInMessage._make(row)
