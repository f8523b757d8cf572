"""How records become messages, and which of them are sent, held back or taken back: without a receiver."""

from __future__ import annotations

import pathlib
import time

import pytest
from kept_batches import APEL, REPLACING, SGAS, Kept, aar, floor_of, this_run
from ledger_rows import MAY

from arcacct.publishing.batches import RecordBatcher, batched, wire_size
from arcacct.publishing.delivery import MessagePart
from arcacct.publishing.ledger import SentVersion
from arcacct.publishing.plugin import bare
from arcacct.publishing.sent import Amount, CountingKey, digest_of
from arcacct.records.model import AAR
from arcacct.records.states import FAILED

SETS = 20
"""So many messages are written down together ..."""
SET_HELD = 1000
"""... or so many records that are held back."""


def batcher(path: pathlib.Path, target: str = SGAS, **options: bool) -> tuple[RecordBatcher, Kept]:
    """Batches of a target of records."""
    ctx, kept = this_run(path, target.format(path=path)), Kept()
    return RecordBatcher(ctx, ctx.plugin.records(ctx.plugin.message_format), kept, **options), kept


def version(one: AAR, of: RecordBatcher, **values: object) -> SentVersion:
    """What the receiver has of a job if it was sent as it is."""
    return SentVersion(of._family.key(one), digest_of()(one), one.end_time)._replace(**values)


@pytest.mark.parametrize(("text", "size"), [("", 0), ("a\nb\n", 6), ("ä\n", 4), ("数", 3)])
def test_line_ends_grow_on_the_wire(text: str, size: int) -> None:
    """Bytes, and one more for each line."""
    assert wire_size(text) == size == len(text.replace("\n", "\r\n").encode())
    assert wire_size(text, crlf=False) == len(text.encode())


@pytest.mark.parametrize(
    ("max_count", "max_bytes", "sizes"),
    [
        (None, 18, [3, 3, 1]),
        (None, 17, [2, 2, 2, 1]),
        (2, 100, [2, 2, 2, 1]),
        (None, 1, [1] * 7),
        (None, 42, [7]),
        (None, 41, [6, 1]),
    ],
)
def test_texts_are_cut_by_count_and_bytes(max_count: int | None, max_bytes: int, sizes: list[int]) -> None:
    """Into as few as there can be, in order; a text that is too large goes alone."""
    parts = [MessagePart(f"{number}abc\n") for number in range(7)]
    assert {wire_size(part.text) for part in parts} == {6}
    batches = batched(parts, max_count, max_bytes)
    assert [len(batch) for batch in batches] == sizes
    assert [part for batch in batches for part in batch] == parts


def test_a_bare_job_used_nothing() -> None:
    """One core of one node, and zeros: that is what takes a record back."""
    one = bare("one", MAY, "41")
    numbers = {name: value for name, value in one._asdict().items() if isinstance(value, int) and value}
    assert numbers == {"end_time": MAY, "exit_code": 1, "node_count": 1, "core_count": 1}
    assert (one.job_id, one.local_job_id, one.status) == ("one", "41", FAILED)


@pytest.mark.parametrize("spare", [0, -1])
@pytest.mark.parametrize(("target", "crlf"), [(SGAS, False), (APEL.format(path="/tmp"), True)], ids=["sgas", "apel"])
def test_a_message_is_as_large_as_it_may_be(tmp_path: pathlib.Path, spare: int, target: str, crlf: bool) -> None:
    """To the byte, with what stands around the records; only what S/MIME signs has line ends of two bytes."""
    ctx, kept = this_run(tmp_path, target), Kept()
    family = ctx.plugin.records(ctx.plugin.message_format)
    jobs = [aar(f"job{number}") for number in range(6)]
    text = family.text(jobs[0], int(time.time()))
    assert "\n" in text
    size = wire_size(text, crlf=crlf)
    ctx.plugin.max_bytes = size * 3 + len(family.envelope.head) + len(family.envelope.tail) + spare
    batches = RecordBatcher(ctx, family, kept)
    for _ in range(2):
        for one in jobs:
            batches.add(one, 1)
        batches.flush()
    assert kept.sizes == ([3] * 4 if spare == 0 else [2] * 6)


def test_full_messages_are_delivered_ahead(tmp_path: pathlib.Path) -> None:
    """Together, when they are so many, while more records come; each moves the cursor as far as it reaches."""
    batches, kept = batcher(tmp_path, f"{SGAS}urbatchsize=2\n")
    for number in range(1, 4 * SETS + 2):
        assert batches.add(aar(f"job{number}"), number)
        assert len(kept.consignments) == number // (2 * SETS)
    assert kept.listened == 4 * SETS + 1
    batches.flush()
    assert [(len(what.batches), what.seq, what.ahead) for what in kept.consignments] == [
        *((SETS, 2 * SETS, True), (SETS, 4 * SETS, True)),
        (1, 4 * SETS + 1, False),
    ]
    assert set(kept.sizes[:-1]) == {2}


def test_large_messages_are_delivered_ahead(tmp_path: pathlib.Path) -> None:
    """By their bytes, before they are many."""
    batches, kept = batcher(tmp_path, f"{SGAS}urbatchsize=100\n")
    one = aar(user_dn=f"/CN={'x' * 900}")
    for _ in range(SETS * 100):
        if not kept.consignments:
            batches.add(one, 1)
    (what,) = kept.consignments
    sizes = [sum(wire_size(part.text) for part in batch) for batch in what.batches]
    assert len(sizes) < SETS
    assert sum(sizes[:-1]) < 700_000 <= sum(sizes)


def test_what_is_held_back_is_delivered_ahead(tmp_path: pathlib.Path) -> None:
    """Of a database full of bad records not all wait in memory."""
    batches, kept = batcher(tmp_path)
    for number in range(SET_HELD):
        assert not kept.consignments
        batches.add(aar(f"job{number}", wall_s=-1), number)
    assert [(len(what.held), what.ahead) for what in kept.consignments] == [(SET_HELD, True)]


@pytest.mark.parametrize(("options", "seq"), [({}, 7), ({"moves_cursor": False}, None), ({"republish": True}, None)])
def test_who_moves_the_cursor(tmp_path: pathlib.Path, options: dict[str, bool], seq: int | None) -> None:
    """The last Seq that was added, set aside or passed; not of a period that is sent again."""
    batches, kept = batcher(tmp_path, **options)
    batches.add(aar(), 7)
    batches.flush()
    batches.quarantine(aar("two"), 8, "why")
    batches.flush()
    batches.passed(9)
    batches.flush()
    assert [what.seq for what in kept.consignments] == ([7, 8, 9] if seq else [None] * 3)
    assert [(one.record.job_id, one.state, one.reason) for one in kept.held] == [("two", "quarantined", "why")]


def test_a_record_that_is_there_is_sent_again_only_on_purpose(tmp_path: pathlib.Path) -> None:
    """The very version, under its key."""
    batches, kept = batcher(tmp_path)
    there = version(aar(), batches)
    assert not batches.add(aar(), 8, [there])
    batches.flush()
    assert kept.records == []
    (tmp_path / "again").mkdir()
    again, kept = batcher(tmp_path / "again", republish=True)
    assert again.add(aar(), 0, [there])
    again.flush()
    assert [one.job_id for one in kept.records] == ["one"]


def test_a_job_of_the_future_waits_for_its_time(tmp_path: pathlib.Path) -> None:
    """Held until the receiver takes it, and counted."""
    batches, kept = batcher(tmp_path)
    end_time = int(time.time()) + 864_000
    batches.add(aar(end_time=end_time), 1)
    batches.flush()
    assert [(one.state, one.next_try is not None and one.next_try < end_time) for one in kept.held] == [("held", True)]
    assert batches._summary.ahead == 1


def test_a_record_that_cannot_be_written_is_quarantined(tmp_path: pathlib.Path) -> None:
    """With what was wrong, and tried again another day; its neighbours go."""
    batches, kept = batcher(tmp_path)
    batches.add(aar(fqans=(3,)), 1)
    batches.add(aar("two"), 2)
    batches.flush()
    assert [(one.state, one.reason.startswith("cannot be written: ")) for one in kept.held] == [("quarantined", True)]
    assert kept.held[0].next_try is not None
    assert [one.job_id for one in kept.records] == ["two"]


def test_repairs_are_noted(tmp_path: pathlib.Path) -> None:
    """With the record; of one that needed none nothing."""
    batches, kept = batcher(tmp_path)
    batches.add(aar(), 1)
    batches.add(aar("two", queue="q" * 300), 2)
    batches.flush()
    assert [one.notes for one in kept.records] == [None, "queue: cut from 300 to 200 characters"]


ODD = [
    {},
    {"wall_s": -1},
    {"endpoint_url": "https://other.example.org/arex"},
    {"status": FAILED, "end_time": int(time.time()) - 1000},
    {"status": FAILED},
    {"end_time": int(time.time()) + 10**6},
    {"wall_s": "much"},
    {"job_name": "<\x1b>"},
]


@pytest.mark.parametrize("options", [{}, {"republish": True}, {"moves_cursor": False}])
@pytest.mark.parametrize(
    "target", [f"{SGAS}urbatchsize=3\nsettle=3600\n", REPLACING, f"{APEL}urbatchsize=7\nsettle=3600\n"]
)
def test_new_records_go_together_as_they_go_one_by_one(
    tmp_path: pathlib.Path, target: str, options: dict[str, bool]
) -> None:
    """Odd ones among them, in any order, and those of a month that is published under another site's name."""
    where = {CountingKey("another", "ce.example.org", 2026, 6): Amount(3, 180)}
    records = [(number, aar(f"job{number}", **ODD[number * 7 // 3 % 11 % len(ODD)])) for number in range(1, 200)]
    records += [(number, aar(f"job{number}", end_time=MAY + 40 * 86_400)) for number in range(200, 230)]
    found = []
    for together in (True, False):
        ctx, kept = this_run(tmp_path / str(together), target.format(path=tmp_path)), Kept()
        ctx = ctx._replace(guard=floor_of(where))
        batches = RecordBatcher(ctx, ctx.plugin.records(ctx.plugin.message_format), kept, **options)
        batches._now = int(time.time()) // 100 * 100
        if together:
            batches.add_new(records[:90])
            batches.add_new(records[90:])
        else:
            for seq, record in records:
                batches.add(record, seq)
        batches.flush()
        ctx.guard.hold_blocked_months()
        # Answers are collected now and then, in which case the next message is sent.
        assert kept.listened >= len(records) // 32
        found.append((kept.consignments, ctx.guard.held, ctx.summary.ahead, ctx.summary.notes))
    assert found[0] == found[1]
    assert kept.held
    assert len(kept.records) > 50
    assert list(ctx.guard.held) == [(2026, 6)]


@pytest.mark.parametrize("target", [SGAS, APEL])
def test_what_was_sent_is_taken_back(tmp_path: pathlib.Path, target: str) -> None:
    """By zeros of the same key, or by the receiver's administrator; what was never sent needs neither."""
    batches, kept = batcher(tmp_path, target)
    assert batches.retract("one", None, [])
    there = version(aar(), batches, total_id=3, wall_s=50)
    is_done = batches.retract("one", None, [there])
    batches.flush()
    found = [one.record for one in kept.held] if target == SGAS else kept.records
    assert is_done is (target == APEL)
    assert [(one.seq, one.digest, one.key, one.replaced_id, one.replaced_wall_s) for one in found] == [
        (0, b"", there.key, 3, 50)
    ]
    assert batches._summary.corrections == (target == SGAS)
    assert [note.startswith("one: ") for note in batches._summary.notes] == [True]


@pytest.mark.parametrize("target", [SGAS, REPLACING, APEL])
def test_a_newer_version_goes_where_it_replaces(tmp_path: pathlib.Path, target: str) -> None:
    """As it is at APEL, in a form of its own or not at all at SGAS; a second time in the form it went in."""
    batches, kept = batcher(tmp_path, target)
    there = version(aar(wall_s=40), batches, total_id=3, wall_s=40)
    assert batches.add(aar(), 8, [there])
    batches.flush()
    replaced = batches._plugin.replacement_note
    if target == SGAS:
        assert (kept.records, [one.state for one in kept.held]) == ([], ["correction"])
        assert batches._summary.corrections == 1
        return
    ((notes, replaced_id, replaced_s),) = [(one.notes, one.replaced_id, one.replaced_wall_s) for one in kept.records]
    assert (replaced_id, replaced_s, notes == replaced) == (3, 40, target == REPLACING)
    if target == REPLACING:
        (tmp_path / "again").mkdir()
        again, kept = batcher(tmp_path / "again", REPLACING, republish=True)
        for noted in (replaced, None):
            again.add(aar(), 0, [version(aar(), again, notes=noted)])
        again.add(aar("two"), 0)
        again.flush()
        assert [one.notes for one in kept.records] == [replaced, None, None]
