"""From intent to answer: what the ledger says after each, with a receiver that answers as a test tells it."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

import pytest
from kept_batches import APEL, SGAS, aar, this_run
from ledger_rows import MAY

from arcacct.errors import InputError, TargetBusy, TargetRefuses
from arcacct.publishing import cursors, held, ledger, target_months
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.context import RunSummary
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.delivery import HOUR_S, LARGE_BYTES, WEEK_S, Delivery, DeliveryBatch, MessagePart, _refused
from arcacct.publishing.held import RefusalHistory
from arcacct.publishing.ledger import OTHER, HeldRecord, Message, SentRecord
from arcacct.publishing.plugin import Sender, TargetPlugin
from arcacct.publishing.senders import PlannedSender
from arcacct.publishing.target_months import MonthSnapshot
from arcacct.records.model import UsageCell
from arcacct.times import DAY_S, iso

OK = Answer(Outcome.ACCEPTED, 200)
REFUSED = Answer(Outcome.RECORDS_REFUSED, 500, "no such thing")
BUSY = Answer(Outcome.TRY_LATER, 503, "later")
NOT_OURS = Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 406, "not yours", about_group=True)
NEVER_SENT = Answer(Outcome.TOO_LARGE)
DEADLINE_S = 60


class Receiver(Sender):
    """Takes what none of ``faults`` is about: a word of the text, with what it answers then, or raises."""

    destination = "nowhere"

    def __init__(self, **faults: Answer | Exception) -> None:
        self.faults = faults
        self.sent: list[str] = []
        self.delay_s = 0.0

    def send(self, message: Message) -> Answer:
        """As it was told."""
        text = self.unpack(message.data)
        self.sent.append(" ".join(record.job_id for record in message.records))
        time.sleep(self.delay_s)
        for word, answer in self.faults.items():
            if self.is_about(word, text):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return OK

    def is_about(self, word: str, text: str) -> bool:
        """Whether a text has a job of this name, or a user."""
        return f">{word}<" in text or f"CN={word}\n" in text


class Squeamish(Receiver):
    """A way on which one record, or sum, cannot go."""

    def pack(self, text: str) -> bytes:
        """As if a rule had been forgotten."""
        if self.is_about("c", text):
            raise InputError("cannot be carried")
        return super().pack(text)


class OfOne:
    """Deliveries to one target."""

    def __init__(self, path: pathlib.Path, **faults: Answer | Exception) -> None:
        self.path = path
        self.ctx = this_run(path, SGAS, run=1)
        self.con = self.ctx.publishing
        self.family = self.ctx.plugin.records("ur")
        self.receiver = Receiver(**faults)
        self.watched = 0
        cursors.set_cursor(self.con, Cursor(self.ctx.block, "life", 0, 1, None))
        self.begin()

    def begin(self, run: int = 1, origin: str = "publish") -> None:
        """Another run of the target."""
        self.ctx = self.ctx._replace(run=run)
        self.delivery = Delivery(self.ctx, self.receiver, origin, None, self._watch)

    def _watch(self) -> None:
        self.watched += 1

    def part(self, name: str) -> MessagePart:
        """The text of a job."""
        one = aar(name)
        record = SentRecord(name, 1, 1, one.end_time, b"d", self.family.key(one), None, ("", "ce"), 50)
        return MessagePart(self.family.text(one, 0), record)

    def consignment(self, *messages: str, seq: int | None = None, ahead: bool = False) -> DeliveryBatch:
        """Messages of jobs with blanks between their names."""
        batches = [[self.part(name) for name in names.split()] for names in messages]
        return DeliveryBatch(self.family.envelope, batches, seq, ahead=ahead)

    def deliver(self, *messages: str, **values: object) -> None:
        """Them, one after the other."""
        self.delivery.deliver(self.consignment(*messages, **values))

    def deliver_all(self, *messages: str, **values: object) -> None:
        """A whole run of them."""
        self.deliver(*messages, **values)
        self.delivery.settle()

    def states(self) -> dict[str, str]:
        """Of each job, that of its last message."""
        rows = self.con.execute(
            "SELECT JobID, State FROM SentRecords JOIN Messages USING (MessageID) ORDER BY MessageID"
        )
        return dict(rows.fetchall())

    def aside(self) -> dict[str, str]:
        """The state of each job that is set aside."""
        return {one.job_id: one.state for one in held.held_entries(self.con)}

    @property
    def last_seq(self) -> int:
        """Where the cursor stands."""
        found = cursors.cursor(self.con, self.ctx.block)
        assert found is not None
        return found.last_seq


@pytest.fixture
def make(tmp_path: pathlib.Path) -> Callable[..., OfOne]:
    """A target with its receiver."""

    def made(**faults: Answer | Exception) -> OfOne:
        return OfOne(tmp_path, **faults)

    return made


def test_what_was_taken_is_in_the_ledger_when_it_is_delivered(make: Callable[..., OfOne]) -> None:
    """In order, counted, and the last message moves the cursor."""
    one = make()
    one.deliver("a b", "c", seq=7)
    assert one.receiver.sent == ["a b", "c"]
    assert one.states() == dict.fromkeys("abc", "accepted")
    assert (one.last_seq, one.watched) == (7, 2)
    (count,) = one.ctx.summary.sent.values()
    assert (count.messages, count.records) == (2, 3)


def test_nothing_to_send_moves_the_cursor(make: Callable[..., OfOne]) -> None:
    """At once, with what is held back or proven, or with nothing at all."""
    one = make()
    one.deliver(seq=3)
    assert one.last_seq == 3
    record = one.part("bad").record
    assert record is not None
    aside = HeldRecord(record, "quarantined", "why")
    for seq in (4, 5):
        one.delivery.deliver(one.consignment(seq=seq)._replace(held=[aside]))
        assert (one.last_seq, one.aside()) == (seq, {"bad": "quarantined"})
    assert (one.ctx.summary.quarantined, one.ctx.summary.notes) == (1, ["bad: not sent: why"])
    one.delivery.deliver(one.consignment(seq=6)._replace(proofs=[MonthSnapshot(2026, 5, "summaries", 6, "life")]))
    assert one.last_seq == 6
    assert one.con.execute("SELECT Seq FROM TargetMonths").fetchall() == [(6,)]
    one.deliver()
    assert one.last_seq == 6


def test_what_is_sent_ahead_is_heard_meanwhile(make: Callable[..., OfOne]) -> None:
    """Each answer is in the ledger, and told, before the next message is sent."""
    one = make()
    one.deliver("a", "b", "c", ahead=True, seq=9)
    deadline = time.monotonic() + DEADLINE_S
    while one.last_seq != 9 and time.monotonic() < deadline:
        one.delivery.collect_answers()
        assert len(one.receiver.sent) <= one.watched + 1
    assert (one.last_seq, one.watched) == (9, 3)
    assert one.states() == dict.fromkeys("abc", "accepted")
    one.delivery.settle()
    assert one.receiver.sent == ["a", "b", "c"]


def test_what_is_sent_ahead_is_heard_before_more_is_sent(make: Callable[..., OfOne]) -> None:
    """In order, whoever waits for it: the next delivery, or the end of the run."""
    one = make()
    one.deliver("a", "b", ahead=True, seq=1)
    one.deliver("c", "d", ahead=True, seq=2)
    assert one.states() == {"a": "accepted", "b": "accepted", "c": "sending", "d": "sending"}
    one.delivery.settle()
    assert one.states() == dict.fromkeys("abcd", "accepted")
    assert (one.receiver.sent, one.last_seq) == (["a", "b", "c", "d"], 2)


def test_a_run_that_stops_waits_for_the_message_that_is_being_sent(make: Callable[..., OfOne]) -> None:
    """Its answer is noted, and the rest waits for the next run."""
    one = make()
    one.receiver.delay_s = 0.2
    one.deliver("a", "b", ahead=True, seq=1)
    one.delivery.stop()
    assert one.states() == {"a": "accepted", "b": "sending"}
    assert (one.last_seq, one.watched) == (0, 1)
    one.delivery.stop()
    one.delivery.settle()
    assert one.receiver.sent == ["a"]


def test_a_fault_of_sending_ahead_is_raised(make: Callable[..., OfOne]) -> None:
    """By who waits for the answers; what it was sending stays in the ledger."""
    one = make(a=ValueError("a fault of ours"))
    one.deliver("a", "b", ahead=True)
    deadline = time.monotonic() + DEADLINE_S
    while not one.receiver.sent and time.monotonic() < deadline:
        one.delivery.collect_answers()
    with pytest.raises(ValueError, match="a fault of ours"):
        one.delivery.settle()
    assert one.receiver.sent == ["a"]
    assert one.states() == {"a": "sending", "b": "sending"}


@pytest.mark.parametrize("ahead", [False, True])
def test_a_target_that_stops_us_keeps_what_was_tried(make: Callable[..., OfOne], ahead: bool) -> None:
    """And only that: what was never sent comes from the log again."""
    one = make(b=BUSY)
    with pytest.raises(TargetBusy, match="HTTP 503: later"):
        one.deliver_all("a", "b", "c", ahead=ahead, seq=9)
    assert one.states() == {"a": "accepted", "b": "sending"}
    assert one.con.execute("SELECT AnswerCode, Answer FROM Messages WHERE State = 'sending'").fetchall() == [
        (503, "later")
    ]
    assert one.last_seq == 0


def test_what_had_no_answer_is_sent_before_anything_newer(make: Callable[..., OfOne]) -> None:
    """Byte for byte; refused now it may have arrived then, until it is refused in the same words once more."""
    one = make(a=BUSY)
    with pytest.raises(TargetBusy):
        one.deliver("a", seq=1)
    one.receiver.faults["a"] = REFUSED
    one.begin(2)
    with pytest.raises(TargetBusy, match="may have arrived"):
        one.delivery.resume()
    assert one.states() == {"a": "sending"}
    one.begin(3)
    one.delivery.resume()
    one.deliver("b", seq=2)
    one.delivery.settle()
    assert one.receiver.sent == ["a", "a", "a", "b"]
    assert (one.states(), one.aside()) == ({"a": "refused", "b": "accepted"}, {"a": "held"})
    assert (one.ctx.summary.resent, one.ctx.summary.refused_once, one.last_seq) == (2, 1, 2)


def test_a_refused_message_is_cut_down_to_the_record(make: Callable[..., OfOne]) -> None:
    """The others are taken, in order, and are the evidence against it; the cursor moves with the last."""
    one = make(c=REFUSED)
    one.deliver("a b c d e", seq=5)
    one.delivery.settle()
    assert one.receiver.sent == ["a b c d e", "a b", "c d e", "c", "d e"]
    assert one.states() == {**dict.fromkeys("abde", "accepted"), "c": "refused"}
    assert (one.aside(), one.last_seq) == ({"c": "held"}, 5)


def test_the_only_record_that_is_refused_is_not_quarantined(make: Callable[..., OfOne]) -> None:
    """Nothing tells whether it or the server is at fault; what was taken before is, where a repeat does no harm."""
    one = make(a=REFUSED)
    with pytest.raises(TargetBusy, match="nothing else was accepted since"):
        one.deliver_all("a", seq=1)
    assert (one.states(), one.aside()) == ({"a": "sending"}, {})
    assert one.con.execute("SELECT AnswerCode, Answer FROM Messages").fetchall() == [(500, "no such thing")]

    other = make(b=REFUSED)
    other.deliver("a", seq=1)
    other.deliver("b", seq=2)
    other.delivery.settle()
    assert other.receiver.sent == ["a", "b", "a"]
    assert (other.states(), other.aside(), other.last_seq) == ({"a": "accepted", "b": "refused"}, {"b": "held"}, 2)


def test_a_record_against_which_there_is_evidence_is_quarantined_at_once(make: Callable[..., OfOne]) -> None:
    """Its neighbour was taken since both were refused; or no message can be so large."""
    one = make(b=REFUSED)
    one.deliver("a b", seq=2)
    assert (one.states(), one.aside(), one.last_seq) == ({"a": "accepted", "b": "refused"}, {"b": "held"}, 2)
    other = make(c=NEVER_SENT)
    other.deliver("c", seq=3)
    assert (other.states(), other.aside(), other.last_seq) == ({"c": "refused"}, {"c": "quarantined"}, 3)
    assert (other.receiver.sent, other.ctx.summary.quarantined) == (["c"], 1)


def test_many_refusals_in_a_row_are_the_servers(make: Callable[..., OfOne]) -> None:
    """Unless it takes again what it took before."""
    names = ["a", "b", "c", "d"]
    one = make(**dict.fromkeys(names, REFUSED))
    with pytest.raises(TargetRefuses, match="it rejected 3 records one by one and accepted none"):
        one.deliver(*names)
    assert (one.receiver.sent, one.aside()) == (["a", "b", "c"], {})

    other = make(**dict.fromkeys(names, REFUSED))
    other.deliver("good")
    other.deliver(*names)
    other.delivery.settle()
    assert other.aside() == dict.fromkeys(names, "held")


def test_what_no_message_can_carry_is_quarantined_alone(make: Callable[..., OfOne]) -> None:
    """Whatever it was packed with goes, in order."""
    one = make()
    one.receiver = Squeamish()
    one.begin()
    one.deliver("a b c d", "e", seq=5)
    assert one.receiver.sent == ["a b", "d", "e"]
    ((aside),) = held.held_entries(one.con)
    assert (aside.job_id, aside.state, aside.reason) == ("c", "quarantined", "cannot be carried")
    assert aside.next_try_s is not None
    assert one.last_seq == 5


@pytest.mark.parametrize(
    ("answer", "n_bytes", "before", "state", "wait_s", "count"),
    [
        (REFUSED, 10, None, "held", 0, 1),
        (REFUSED, 10, RefusalHistory("held", 1, 4), "held", 0, 1),
        (REFUSED, 10, RefusalHistory("held", 1, 3), "believed", WEEK_S, 2),
        (REFUSED, 10, RefusalHistory("quarantined", 2, 4), "believed", WEEK_S, 2),
        (REFUSED, 10, RefusalHistory("quarantined", 1, 4), "believed", WEEK_S, 1),
        (NEVER_SENT, 10, None, "believed", None, 0),
        (Answer(Outcome.TOO_LARGE, 413), LARGE_BYTES, RefusalHistory("held", 1, 3), "believed", WEEK_S, 2),
        (Answer(Outcome.TOO_LARGE, 413), LARGE_BYTES - 1, RefusalHistory("held", 1, 3), "held", HOUR_S, 2),
        (Answer(Outcome.TOO_LARGE, 413), 10, RefusalHistory("held", 3, 3), "held", 4 * HOUR_S, 4),
        (Answer(Outcome.TOO_LARGE, 413), 10, RefusalHistory("held", 40, 3), "held", DAY_S, 41),
        (Answer(Outcome.TOO_LARGE, 413), 10, RefusalHistory("quarantined", 2, 3), "quarantined", DAY_S, 3),
        (Answer(Outcome.TOO_LARGE, 413), 10, None, "held", 0, 1),
    ],
)
def test_when_a_refusal_is_believed(
    answer: Answer, n_bytes: int, before: RefusalHistory | None, state: str, wait_s: int | None, count: int
) -> None:
    """In run 4: when a later run hears it again, and never that a small record is too large."""
    record = SentRecord("one", 1, 1, 1, b"d")
    begun = int(time.time())
    found = _refused(record, answer, n_bytes, before, 4, "believed")
    ended = int(time.time())
    assert (found.state, found.refusals) == (state, count)
    assert found.refused_run == (4 if count else 0)
    if wait_s is None:
        assert found.next_try is None
    else:
        assert found.next_try is not None
        assert begun + wait_s <= found.next_try <= ended + wait_s
    assert found.reason == f"rejected by the receiver: {answer.text or f'HTTP {answer.status}'}"


def test_limits_of_belief() -> None:
    """An hour, a week, and what web servers take."""
    assert (HOUR_S, WEEK_S, LARGE_BYTES) == (3600, 604_800, 500_000)


class Renewing(Receiver):
    """Has another certificate than yesterday: what was packed is sent in other bytes."""

    def renewed(self, data: bytes) -> bytes:
        """A blank more behind it."""
        return data + b" "


def test_bytes_that_are_renewed_are_those_of_the_ledger(make: Callable[..., OfOne]) -> None:
    """What is sent is what the ledger has, whoever signed it before; what needs nothing is left alone."""
    one = make(a=BUSY)
    with pytest.raises(TargetBusy):
        one.deliver("a")
    for receiver, more in ((Receiver(), 0), (Renewing(), 1)):
        (before,) = ledger.pending_messages(one.con, one.ctx.block)
        receiver.faults = {"a": BUSY}
        one.receiver = receiver
        one.begin(2)
        with pytest.raises(TargetBusy):
            one.delivery.resume()
        (after,) = ledger.pending_messages(one.con, one.ctx.block)
        assert after.data == before.data + b" " * more


def test_a_machine_that_is_not_ours_holds_nobody_else_up(make: Callable[..., OfOne]) -> None:
    """What is of its group is held, also what comes later, unsent; the run ends with what the receiver said."""
    one = make(a=NOT_OURS)

    def of_group(*names: str) -> list[MessagePart]:
        return [one.part(name)._replace(authorisation_group="ce2") for name in names]

    mixed = [of_group("a"), [one.part("b")], of_group("c")]
    one.delivery.deliver(one.consignment(seq=3)._replace(batches=mixed))
    one.delivery.deliver(one.consignment(seq=4)._replace(batches=[of_group("d"), [one.part("e")]], ahead=True))
    with pytest.raises(TargetRefuses, match="not yours"):
        one.delivery.settle()
    assert one.receiver.sent == ["a", "b", "e"]
    assert one.aside() == dict.fromkeys("acd", "held")
    assert {one.reason for one in held.held_entries(one.con)} == {
        "the receiver rejects records of this machine from us: not yours"
    }
    assert one.last_seq == 4


@pytest.mark.parametrize("origin", ["publish", "republish"])
def test_what_is_sent_again_leaves_what_it_may_not_send(make: Callable[..., OfOne], origin: str) -> None:
    """And counts no correction that was counted before; what is new is held, or waits for room there."""
    is_new = origin == "publish"
    one = make(a=NOT_OURS)
    key = one.part("b").record.key  # type: ignore[union-attr]
    one.receiver.faults["b"] = OK._replace(receiver_rows={key: OTHER})
    one.begin(origin=origin)
    for name in "ac":
        part = one.part(name)._replace(authorisation_group="ce2")
        one.delivery.deliver(one.consignment()._replace(batches=[[part], [one.part("b")]]))
    assert one.aside() == ({"a": "held", "c": "held"} if is_new else {}) | {"b": "correction"}
    assert one.receiver.sent == ["a", "b", "b"]
    assert (one.ctx.summary.corrections, one.ctx.summary.quarantined) == ((2, 2) if is_new else (0, 0))
    note = "2 records, as b: sent, and the receiver kept its older version; quarantined"
    assert one.ctx.summary.notes == [note] * is_new


def test_a_replacement_that_is_refused_is_a_correction(make: Callable[..., OfOne]) -> None:
    """What the receiver has of the job stays there; anything else that is believed is quarantined, and told once."""
    one = make(a=REFUSED, b=REFUSED)
    one.ctx.plugin.replacement_note = "replaces"
    for run in (1, 2, 3):
        one.begin(run)
        parts = [one.part(name) for name in "abc"]
        assert parts[0].record is not None
        parts[0] = parts[0]._replace(record=parts[0].record._replace(notes="replaces"))
        one.delivery.deliver(one.consignment()._replace(batches=[[part] for part in parts]))
        one.delivery.settle()
        assert one.aside() == ({"a": "held", "b": "held"} if run == 1 else {"a": "correction", "b": "quarantined"})
        assert (one.ctx.summary.refused_once, one.ctx.summary.quarantined) == (2, 0 if run == 1 else 2)
    notes = one.ctx.summary.notes
    assert [note.partition(":")[0] for note in notes] == ["a", "b", "b"]
    assert notes[0].endswith("the next run sends it again alone, and quarantines it if it is rejected again")


def test_a_refusal_that_no_one_believes_says_when_it_is_tried_again(make: Callable[..., OfOne]) -> None:
    """Of a small record that is called too large, run after run."""
    one = make(a=Answer(Outcome.TOO_LARGE, 413, "too large"))
    for run in (1, 2):
        one.begin(run)
        one.deliver_all("a", "b")
    (aside,) = held.held_entries(one.con)
    assert aside.next_try_s is not None
    assert one.ctx.summary.notes[-1].endswith(
        f"the same in 2 runs, implausible for a small record: sent again from {iso(aside.next_try_s)}"
    )


def test_a_sum_that_is_refused_is_sent_by_each_run(tmp_path: pathlib.Path) -> None:
    """And counted as what it is from the second run on that hears it; its neighbours are taken."""
    ctx = this_run(tmp_path, APEL.replace("individual", "summaries").format(path=tmp_path))
    cursors.set_cursor(ctx.publishing, Cursor(ctx.block, "life", 0, 1, None))
    family = ctx.plugin.summaries("summaries")
    cell = UsageCell(2026, 5, "/CN=c", "atlas", None, None, 1, 1, None, 3, 60, 50, MAY, MAY)
    cells = [cell._replace(user_dn=f"/CN={name}") for name in "abc"]
    batch = [MessagePart(text, sum=one) for text, one in family.sums(cells)]
    receiver = Receiver(b=REFUSED)
    for run in (1, 2):
        ctx = ctx._replace(run=run, summary=RunSummary())
        delivery = Delivery(ctx, receiver, "publish", None, lambda: None)
        delivery.deliver(DeliveryBatch(family.envelope, [batch]))
        delivery.settle()
        assert len(receiver.sent) == 5 * run
        assert (ctx.summary.refused_once, ctx.summary.quarantined) == ((1, 0) if run == 1 else (0, 1))
        again = "the next run sends it again" if run == 1 else "the same in 2 runs; each run sends it again"
        assert ctx.summary.notes == [f"a record of a summaries message: rejected: no such thing; {again}"]
    (month,) = target_months.load(ctx.publishing, ctx.block).values()
    assert [one.refusals for one in month.refused.values()] == [2]
    assert target_months.unfinished(ctx.publishing, ctx.block) == {(2026, 5)}


def test_a_sum_that_no_message_can_carry_is_reported(tmp_path: pathlib.Path) -> None:
    """Alone; the others go."""
    ctx = this_run(tmp_path, APEL.replace("individual", "summaries").format(path=tmp_path))
    cursors.set_cursor(ctx.publishing, Cursor(ctx.block, "life", 0, 1, None))
    family = ctx.plugin.summaries("summaries")
    cell = UsageCell(2026, 5, "/CN=a", "atlas", None, None, 1, 1, None, 3, 60, 50, MAY, MAY)
    batch = [MessagePart(text, sum=one) for text, one in family.sums([cell, cell._replace(user_dn="/CN=c")])]
    delivery = Delivery(ctx, Squeamish(), "publish", None, lambda: None)
    delivery.deliver(DeliveryBatch(family.envelope, [batch], seq=3))
    assert (ctx.summary.notes, ctx.summary.quarantined) == (["a sum: not sent: cannot be carried"], 1)
    assert [one.messages for one in ctx.summary.sent.values()] == [1]


@pytest.mark.parametrize("written", [False, True])
def test_a_plan_counts_and_writes_what_would_be_sent(make: Callable[..., OfOne], written: bool) -> None:
    """To the byte, under names in order, for this user alone; what has no answer yet goes first."""
    one = make(a=BUSY)
    with pytest.raises(TargetBusy):
        one.deliver("a")
    directory = pathlib.Path(one.path, "plan")
    made: list[Receiver] = []

    def make_sender(_plugin: TargetPlugin) -> Sender:
        made.append(Receiver())
        return made[-1]

    def planned() -> Delivery:
        sender = PlannedSender(make_sender, str(directory) if written else None, one.ctx.plugin)
        return Delivery(one.ctx._replace(summary=RunSummary()), sender, "publish", None, lambda: None)

    plan = planned()
    plan.resume()
    what = one.consignment("b c", "d", seq=9)
    plan.deliver(what)
    texts = [what.envelope.join([part.text for part in batch]) for batch in what.batches]
    assert plan._summary.resent == 1
    assert [count.messages for count in plan._summary.sent.values()] == [3]
    assert [count.records for count in plan._summary.sent.values()] == [4]
    assert (len(made), sum(len(one.sent) for one in made)) == (written, 0)
    if written:
        found = {path.name: path.read_text() for path in directory.iterdir()}
        assert [found[f"sgas-one-000{number}-ur"] for number in (2, 3)] == texts
        assert directory.stat().st_mode & 0o777 == 0o700
        with pytest.raises(InputError, match="sgas-one-0001-ur: cannot write: File exists; give an empty directory"):
            planned().deliver(what)
