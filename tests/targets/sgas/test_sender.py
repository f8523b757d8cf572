"""Inserting documents at SGAS: where to, as what, and what counts as a receipt."""

from __future__ import annotations

import pytest
from scripted_receiver import Say, say

from arcacct.publishing.answers import Outcome
from arcacct.targets.sgas.sender import SGASSender

DOCUMENT = '<?xml version="1.0" encoding="UTF-8"?>\n<UsageRecords>J\u00f6rg \u20ac</UsageRecords>'.encode()
IDS = {"ur-1": "one", "ur-2": "two"}
BOTH = say(200, {"ur-1": "101", "ur-2": "102"}, Content_Type="text/html")
FAILED = say(500, b"<html><title>Processing Failed</title></html>")


@pytest.fixture
def client(receiver, session):
    """What inserts at a scripted receiver."""
    return SGASSender(f"{receiver.url}/sgas/ur", session).insert


def test_a_document_is_inserted(client, receiver):
    """The bytes are posted as UTF-8 XML, and the receipt names the records."""
    receiver.script = [BOTH]
    answer = client(DOCUMENT, IDS)
    assert answer.kind == Outcome.ACCEPTED
    assert answer.record_ids == {"ur-1", "ur-2"}
    heard = receiver.heard[0]
    assert (heard.method, heard.path, heard.body) == ("POST", "/sgas/ur", DOCUMENT)
    assert heard.headers["content-type"] == "application/xml; charset=UTF-8"
    assert heard.headers["content-length"] == str(len(DOCUMENT))


def test_null_is_asked_again(client, receiver):
    """SGAS's lost result is repeated with the same bytes until it gives a receipt."""
    receiver.script = [say(200, b"null"), BOTH]
    answer = client(DOCUMENT, IDS)
    assert answer.kind == Outcome.ACCEPTED
    assert [heard.body for heard in receiver.heard] == [DOCUMENT, DOCUMENT]


def test_permanent_null_is_left_for_later(client, receiver):
    """Without a receipt the records do not count as sent, but may have been stored."""
    receiver.script = [say(200, b"null")] * 3
    answer = client(DOCUMENT, IDS)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, False)


def test_a_refusal_that_passes_is_no_refusal(client, receiver):
    """SGAS's 500 is repeated once before it is believed."""
    receiver.script = [FAILED, BOTH]
    assert client(DOCUMENT, IDS).kind == Outcome.ACCEPTED


def test_a_refusal_that_stays_is_about_the_records(client, receiver):
    """The second 500 means that some record of the batch is bad."""
    receiver.script = [FAILED, FAILED, BOTH]
    answer = client(DOCUMENT, IDS)
    assert (answer.kind, answer.text, answer.outcome_known) == (Outcome.RECORDS_REFUSED, "Processing Failed", True)
    assert len(receiver.heard) == 2


def test_a_lost_answer_is_asked_again(client, receiver):
    """SGAS ignores what it has, so a repeat after a lost answer brings the receipt."""
    receiver.script = [Say(hang_up=True), BOTH]
    assert client(DOCUMENT, IDS).kind == Outcome.ACCEPTED


def test_a_receipt_without_a_record_is_none_for_it(client, receiver):
    """What SGAS does not name was not stored; what it names was."""
    receiver.script = [say(200, {"ur-1": "101"})] * 2
    answer = client(DOCUMENT, IDS)
    assert (answer.kind, answer.record_ids) == (Outcome.RECORDS_REFUSED, {"ur-1"})


def test_documents_share_a_connection(client, receiver):
    """Two hundred batches of records cost one TLS handshake."""
    receiver.script = [BOTH] * 200
    for _ in range(200):
        client(DOCUMENT, IDS)
    assert receiver.connections == 1
