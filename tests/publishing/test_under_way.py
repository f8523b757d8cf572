"""Sending while the next messages are made: what the ledger does not know yet is one message at most."""

from __future__ import annotations

import queue
import sqlite3
from contextlib import closing

import pytest
from publishing_rig import BATCH, repair

from arcacct.errors import TargetBusy
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.ledger import Message
from arcacct.publishing.senders import SendAhead


class Receiver:
    """A way out whose receiver answers what a test tells it to."""

    destination = "nowhere"

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.answers: queue.Queue[Answer | Exception] = queue.Queue()

    def send(self, message: Message) -> Answer:
        self.sent.append(message.message_id)
        answer = self.answers.get(timeout=30)
        if isinstance(answer, Exception):
            raise answer
        return answer


OK = Answer(Outcome.ACCEPTED, 200)


def begun(receiver: Receiver, count: int = 3) -> SendAhead:
    """Some messages on their way."""
    messages = [
        Message(number, "ur", "publish", None, "nowhere", None, "", 1, b"", ()) for number in range(1, count + 1)
    ]
    return SendAhead(receiver, messages)


def wait_for_one(under_way: SendAhead) -> tuple[Message, Answer]:
    """The next that was accepted."""
    while True:
        found = under_way.accepted()
        if found is not None:
            return found


def test_the_next_waits_for_the_ledger() -> None:
    """No message is sent before the answer to the last one is in the ledger."""
    receiver = Receiver()
    under_way = begun(receiver)
    receiver.answers.put(OK)
    receiver.answers.put(OK)
    message, _answer = wait_for_one(under_way)
    assert (message.message_id, receiver.sent) == (1, [1])
    under_way.resume()
    assert wait_for_one(under_way)[0].message_id == 2
    under_way.stop()
    assert receiver.sent == [1, 2]
    assert (len(under_way.answers), under_way.noted) == (2, 1)


def test_what_is_not_accepted_ends_it() -> None:
    """After an answer that asks for a decision nothing more is sent."""
    receiver = Receiver()
    under_way = begun(receiver)
    receiver.answers.put(Answer(Outcome.TRY_LATER, 503))
    under_way.stop()
    assert receiver.sent == [1]
    assert under_way.accepted() is None
    assert [answer.status for answer in under_way.answers] == [503]


def test_a_fault_is_kept_for_who_waits() -> None:
    """What sending raises is told to the run, which is in another thread."""
    receiver = Receiver()
    under_way = begun(receiver)
    receiver.answers.put(ValueError("broken"))
    under_way.stop()
    assert (str(under_way.error), under_way.answers) == ("broken", [])


@pytest.mark.parametrize("rig", ["sgas", "jobs"], indirect=True)
def test_what_was_never_sent_may_still_be_corrected(rig) -> None:
    """When a target stops us, only the message that was tried is kept: the others are made anew, as things are then."""
    rig.record(6 * BATCH)
    rig.box.faults.answer(rig.endpoint, 503, "later", containing="4job00005", times=None)

    assert isinstance(rig.publish().error, TargetBusy)
    tried = rig.site.ledger(
        "SELECT JobID FROM SentRecords JOIN Messages USING (MessageID) WHERE State = 'sending' ORDER BY JobID"
    )
    assert tried == [(f"job{number:05d}",) for number in range(BATCH, 2 * BATCH)]
    assert rig.received() == rig.wanted(rig.jobs[:BATCH])

    with closing(sqlite3.connect(rig.site.settings.places.database)) as con, con:
        con.execute("UPDATE AAR SET UsedWalltime = 7 WHERE JobID = 'job00020'")
    rig.jobs[20] = rig.jobs[20]._replace(wall_s=7)
    repair(rig)
    assert rig.publish().error is None
    assert rig.site.held() == {}
    assert rig.received() == rig.wanted(rig.jobs)
