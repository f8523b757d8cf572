"""What AUDITOR says, and what is made of it: nothing that its own client takes for success is one here."""

from __future__ import annotations

import pytest

from arcacct.publishing.answers import Outcome
from arcacct.targets.auditor.sender import classify

JUDGED = {
    "stored": (200, b"", Outcome.ACCEPTED, True),
    "it is there": (500, b"RECORD_EXISTS", Outcome.ACCEPTED, True),
    "a fault of its database": (500, b"UNEXPECTED_ERROR", Outcome.RECORDS_REFUSED, False),
    "a balancer's fault": (500, b"<html>Internal Server Error</html>", Outcome.TRY_LATER, False),
    "another word": (500, b"RECORD_EXISTS?", Outcome.TRY_LATER, False),
    "no record": (400, b"Json deserialize error: missing field `record_id` at line 1", Outcome.RECORDS_REFUSED, True),
    "somebody else's 400": (400, b"<html>Bad Request</html>", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "no right": (403, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "not there": (404, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "a conflict, which it does not know": (409, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "too large": (413, b"JSON payload (3 bytes) is larger than allowed", Outcome.TOO_LARGE, True),
    "away": (503, b"", Outcome.TRY_LATER, True),
    "lost behind a balancer": (504, b"", Outcome.TRY_LATER, False),
    "created, as it never says": (201, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False),
    "a page of somebody else's": (200, b"<html>Welcome</html>", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False),
    "the word with a wrong status": (200, b"RECORD_EXISTS", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False),
}


@pytest.mark.parametrize(("status", "body", "kind", "known"), JUDGED.values(), ids=JUDGED)
def test_an_answer_to_records(status, body, kind, known) -> None:
    answer = classify(status, {}, body)
    assert (answer.kind, answer.status, answer.outcome_known) == (kind, status, known)


def test_who_may_not_write_is_told_whom_to_ask() -> None:
    assert "write_access_cn" in classify(403, {}, b"").advice
