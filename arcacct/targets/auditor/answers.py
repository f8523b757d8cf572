"""
What AUDITOR said, and what that means for us.

Its own client takes everything but RECORD_EXISTS for success. Here only an empty 200 is one, and RECORD_EXISTS is an
answer of its own: whoever sent the record, it is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from arcacct.publishing.plugin import Answer, Outcome, classify_status, error_text

RECORD_EXISTS = "RECORD_EXISTS"
"""The body of the 500 for a record that is there, or for several of which one is."""
UNEXPECTED_ERROR = "UNEXPECTED_ERROR"
"""The body of the 500 for whatever its database says."""

_ADVICE = {
    401: "check targeturl: this is not what AUDITOR answers",
    403: "ask AUDITOR's administrator to put the common name (CN) of this host's certificate into write_access_cn",
    404: "check targeturl: it is https://HOST:PORT, without /record",
    None: "check targeturl: this is not what AUDITOR answers",
}


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge what AUDITOR answered to a request that brings records.

    `ACCEPTED` with status 500: a record is there already (of several, the others are not stored).
    """
    said = error_text(body)
    if status == 200 and not body.strip():
        return Answer(Outcome.ACCEPTED, 200)
    if status == 500 and said == RECORD_EXISTS:
        return Answer(Outcome.ACCEPTED, 500, RECORD_EXISTS)
    if status == 500 and said == UNEXPECTED_ERROR:
        # The database's: a value that it cannot hold, or a fault of its own, and nothing tells which.
        return Answer(Outcome.RECORDS_REFUSED, 500, said, outcome_known=False)
    if status == 400 and b"<" not in body:
        return Answer(Outcome.RECORDS_REFUSED, 400, said)
    return classify_status(status, headers, said, _ADVICE)


def classify_read(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge what it answered to a question: 200 with an answer, or why there is none; nothing is changed by asking."""
    if status == 200:
        return Answer(Outcome.ACCEPTED, 200)
    return classify_status(status, headers, error_text(body), _ADVICE)


def classify_probe(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge what it answered to a question for its health: 200, or 403 where it lets certain certificates alone in.

    (Its rule for such a question has another path than the question, so nobody may ask it then.)
    """
    if status in {200, 403}:
        return Answer(Outcome.ACCEPTED, status)
    answer = classify_status(status, headers, error_text(body), _ADVICE)
    return answer._replace(kind=Outcome.NOT_AUTHORISED_OR_MISCONFIGURED) if answer.kind == Outcome.TOO_LARGE else answer
