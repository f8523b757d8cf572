"""What AUDITOR says, and what is made of it: nothing that its own client takes for success is one here."""

from __future__ import annotations

import pytest

from arcacct.publishing.answers import Kind
from arcacct.targets.auditor.answers import classify, classify_read

JUDGED = {
    "stored": (200, b"", Kind.ACCEPTED, True),
    "it is there": (500, b"RECORD_EXISTS", Kind.ACCEPTED, True),
    "a fault of its database": (500, b"UNEXPECTED_ERROR", Kind.RECORDS_REFUSED, False),
    "a balancer's fault": (500, b"<html>Internal Server Error</html>", Kind.TRY_LATER, False),
    "another word": (500, b"RECORD_EXISTS?", Kind.TRY_LATER, False),
    "no record": (400, b"Json deserialize error: missing field `record_id` at line 1", Kind.RECORDS_REFUSED, True),
    "somebody else's 400": (400, b"<html>Bad Request</html>", Kind.WE_ARE_REFUSED, True),
    "no right": (403, b"", Kind.WE_ARE_REFUSED, True),
    "not there": (404, b"", Kind.WE_ARE_REFUSED, True),
    "a conflict, which it does not know": (409, b"", Kind.WE_ARE_REFUSED, True),
    "too large": (413, b"JSON payload (3 bytes) is larger than allowed", Kind.TOO_LARGE, True),
    "away": (503, b"", Kind.TRY_LATER, True),
    "lost behind a balancer": (504, b"", Kind.TRY_LATER, False),
    "created, as it never says": (201, b"", Kind.WE_ARE_REFUSED, False),
    "a page of somebody else's": (200, b"<html>Welcome</html>", Kind.WE_ARE_REFUSED, False),
    "the word with a wrong status": (200, b"RECORD_EXISTS", Kind.WE_ARE_REFUSED, False),
}


@pytest.mark.parametrize(("status", "body", "kind", "known"), JUDGED.values(), ids=JUDGED)
def test_an_answer_to_records(status, body, kind, known) -> None:
    answer = classify(status, {}, body)
    assert (answer.kind, answer.status, answer.outcome_known) == (kind, status, known)


def test_who_may_not_write_is_told_whom_to_ask() -> None:
    assert "write_access_cn" in classify(403, {}, b"").advice


def test_an_answer_to_a_question() -> None:
    """Whatever it shows is an answer; of a record that is not there it says only that something failed."""
    assert classify_read(200, {}, b"{}").kind == Kind.ACCEPTED
    assert classify_read(500, {}, b"UNEXPECTED_ERROR").kind == Kind.TRY_LATER
    assert classify_read(403, {}, b"").kind == Kind.WE_ARE_REFUSED
