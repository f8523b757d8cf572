"""
When a receiver's refusal of a record is believed: when it is repeated in a later run.

A server, or a balancer before it, that answers 500 or 413 now and then says nothing about a record. Until a refusal is
believed the record is held, and sent again without new neighbours. Not even one that is believed is the last word:
servers are mended, and one small message a week costs nobody anything.
"""

from __future__ import annotations

from arcacct.publishing.answers import Answer, Kind
from arcacct.publishing.held import Refused
from arcacct.publishing.ledger import Held, SentRecord

HOUR_S, DAY_S, WEEK_S = 3600, 86_400, 604_800

LARGE_BYTES = 500_000
"""
A single record below this size is too large for no receiver: AMS takes 1,000,000 bytes of base64, which are 735,000 of
text, and web servers 1 MB or more unless they are told otherwise.
"""


def is_believable(answer: Answer, n_bytes: int) -> bool:
    """Whether an answer to a message of one record may be about that: a 413 only where it is large."""
    return answer.kind != Kind.TOO_LARGE or answer.status is None or n_bytes >= LARGE_BYTES


def refused(
    record: SentRecord, answer: Answer, n_bytes: int, before: Refused | None, run: int, now: int, believed: str
) -> Held:
    """
    What becomes of a record that the receiver refused alone, in a message of so many bytes.

    ``before`` is what is known of earlier refusals, ``run`` the number of this run, ``now`` in UTC seconds;
    ``believed`` the state of a record whose refusal is believed.
    """
    words = f"refused by the receiver: {words_of(answer)}"
    count = 1 if before is None else before.refusals + (before.run != run)
    was_believed = before is not None and before.state == "quarantined"
    # Without a status it was never sent: no message can be that large.
    if answer.status is None and answer.kind == Kind.TOO_LARGE:
        return Held(record, believed, words)
    if is_believable(answer, n_bytes) and (count > 1 or was_believed):
        return Held(record, believed, words, now + WEEK_S, count, run)
    if was_believed:
        return Held(record, "quarantined", words, now + DAY_S, count, run)
    wait_s = 0 if count == 1 else min(DAY_S, HOUR_S << min(count - 2, 8))
    return Held(record, "held", words, now + wait_s, count, run)


def words_of(answer: Answer) -> str:
    """The receiver's words, or its status where it said nothing."""
    return answer.text or f"HTTP {answer.status}"
