"""An exchange ends: however little a receiver says at a time, and however much."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import pytest
from dripping_receiver import ANSWERS, HANDSHAKE, TUNNEL, DrippingReceiver, dripping
from publishing_fixtures import authority, host, naps, receiver, session, session_of
from scripted_receiver import Say, say

from arcacct.http_client import LARGEST_RESPONSE
from arcacct.publishing.answers import Outcome, RunDeadline
from arcacct.publishing.transport import Request
from arcacct.targets.apel.ams import classify_ams

__all__ = ["authority", "host", "naps", "receiver", "session", "session_of"]

STORED = {"messageIds": ["1"]}
QUICK_S = 1.0
LONG_S = 600.0


def post(receiver, body: bytes = b"{}") -> Request:
    return Request("POST", f"{receiver.url}/x", {"Content-Type": "application/json"}, body)


@pytest.fixture
def started():
    """Receivers that are stopped at the end."""
    found = []
    yield lambda receiver: found.append(receiver) or receiver
    for one in found:
        one.stop()


@pytest.fixture
def brief(session_of):
    """A session whose single waits are long and whose exchanges are short."""
    return session_of(backoff_s=(), read_s=LONG_S, exchange_s=QUICK_S)


@pytest.mark.parametrize("where", ANSWERS)
def test_an_answer_that_never_ends_is_given_up(brief, host, started, where):
    """A byte now and then, anywhere in an answer, does not keep us: the work may have been done."""
    answer = brief.request(post(started(dripping(host, where))), classify_ams)
    assert (answer.kind, answer.status, answer.outcome_known) == (Outcome.TRY_LATER, None, False)
    assert "no complete answer within 1 s (exchange_timeout); the receiver may have processed it" in answer.text


def test_a_receiver_that_hardly_reads_is_given_up(brief, host, started):
    """So is one that takes our body byte by byte."""
    slow = started(dripping(host, "body", slow=True))
    answer = brief.request(post(slow, b"x" * 20_000_000), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, False)
    assert "exchange_timeout" in answer.text


def test_a_handshake_that_never_ends_is_given_up(session_of, started):
    """Before the request there is nothing that may have been done."""
    session = session_of(backoff_s=(), read_s=LONG_S, exchange_s=QUICK_S)
    session._timeouts = session._timeouts._replace(connect_s=LONG_S)
    answer = session.request(post(started(DrippingReceiver(None, HANDSHAKE, deaf=True))), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert "exchange_timeout" in answer.text


def test_a_proxy_that_never_ends_is_given_up(session_of, receiver, started):
    """Nor is there while a proxy connects us."""
    proxy = started(DrippingReceiver(None, TUNNEL))
    session = session_of(backoff_s=(), proxy=f"http://127.0.0.1:{proxy.port}", read_s=LONG_S, exchange_s=QUICK_S)
    session._timeouts = session._timeouts._replace(connect_s=LONG_S)
    answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert "exchange_timeout" in answer.text


def test_what_was_given_up_does_not_touch_the_next_exchange(brief, host, started):
    """The next one has all its time, and a connection of its own."""
    receiver = started(dripping(host, "body"))
    receiver.drips = 1
    receiver.script = [say(200, STORED)] * 2
    assert brief.request(post(receiver), classify_ams).kind == Outcome.TRY_LATER
    brief._timeouts = brief._timeouts._replace(exchange_s=LONG_S)
    assert brief.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert brief.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert receiver.connections == 2


@pytest.mark.parametrize("where", ["100 Continue", "trailers"])
def test_a_flood_is_cut(session_of, host, started, where):
    """What comes fast and never ends is counted: neither headers nor trailers cost us time or memory."""
    session = session_of(backoff_s=(), read_s=LONG_S, exchange_s=LONG_S)
    answer = session.request(post(started(dripping(host, where, pause_s=0))), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, False)
    assert "more bytes arrived than any response has" in answer.text


def test_large_headers_do_not_cost_memory(session_of, host, started):
    """A hundred headers of 64 kB are no answer."""
    receiver = started(dripping(host, "headers", pause_s=0))
    receiver.drip = receiver.drip._replace(endless=b"X: " + b"x" * 60_000 + b"\r\n")
    answer = session_of(backoff_s=()).request(post(receiver), classify_ams)
    assert "more bytes arrived than any response has" in answer.text


def test_a_body_may_take_as_long_as_its_answer(session_of, host, started):
    """How long connecting may take says nothing about a large body on a slow line."""
    receiver = started(dripping(host, "body"))
    receiver.drips = 0
    converse, receiver._converse = receiver._converse, lambda *how: time.sleep(1.0) or converse(*how)
    receiver.script = [say(200, STORED)]
    session = session_of(backoff_s=(), read_s=LONG_S)
    session._timeouts = session._timeouts._replace(connect_s=0.5)
    assert session.request(post(receiver, b"x" * 20_000_000), classify_ams).kind == Outcome.ACCEPTED


# --- a run's time


def test_nothing_starts_when_the_run_is_over(session, receiver):
    """A target that has used up its time is left until the next run, and says so."""
    session.set_deadline(RunDeadline(0.0))
    answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert "run_timeout" in answer.text
    assert receiver.heard == []


def test_no_wait_outlives_the_run(session, receiver, naps):
    """Waits between tries count: one that would not end in time is left to the next run."""
    session.set_deadline(RunDeadline(3.0))
    receiver.script = [say(503, b"busy", Retry_After="20"), say(200, STORED)]
    answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.text) == (Outcome.TRY_LATER, "busy")
    assert naps == []


def test_an_exchange_ends_with_its_run(session_of, host, started):
    """What is left of a run is all that an exchange has."""
    session = session_of(backoff_s=(), read_s=LONG_S, exchange_s=LONG_S)
    session.set_deadline(RunDeadline(QUICK_S))
    answer = session.request(post(started(dripping(host, "body"))), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, False)
    assert "run_timeout" in answer.text


# --- memory


BOMB_BYTES = 100_000_000


def bomb(layers: int = 1) -> bytes:
    """Zeros, packed by so many layers of gzip."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b"\0" * 1_000_000) for _ in range(BOMB_BYTES // 1_000_000)) + packer.flush()
    for _ in range(layers - 1):
        packed = gzip.compress(packed)
    return packed


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("status", "encoding", "layers"),
    [
        pytest.param(200, "gzip", 1, id="gzip"),
        pytest.param(307, "gzip", 1, id="redirect"),
        pytest.param(200, "gzip, gzip", 2, id="gzip twice"),
        pytest.param(200, "deflate", 1, id="deflate"),
    ],
)
def test_a_bomb_costs_bounded_memory(session_of, receiver, status, encoding, layers):
    """A small answer that unpacks to a hundred megabytes is unpacked as far as answers may go."""
    headers = (("Content-Encoding", encoding), ("Location", "https://localhost/elsewhere"))
    receiver.script = [Say(status, bomb(layers), headers)]
    session = session_of(backoff_s=())
    tracemalloc.start()
    try:
        answer = session.request(post(receiver), classify_ams)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.kind != Outcome.ACCEPTED
    assert peak < 6 * LARGEST_RESPONSE


def test_an_answer_that_is_packed_all_the_same_is_understood(session, receiver):
    """Some balancers pack what they send, whatever was asked for."""
    text = b'{"messageIds": ["1"]}'
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = {
        "gzip": gzip.compress(text),
        "x-gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "Deflate": raw.compress(text) + raw.flush(),
    }
    receiver.script = [Say(200, data, (("Content-Encoding", encoding),)) for encoding, data in packed.items()]
    for _encoding in packed:
        assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED


def test_nothing_packed_is_nothing(session, receiver):
    """A refusal without a word stays one."""
    receiver.script = [Say(403, b"", (("Content-Encoding", "gzip"),))]
    assert session.request(post(receiver), classify_ams).status == 403


def test_only_the_first_of_many_packed_parts_is_the_answer(session, receiver):
    """
    Seen: 4 MB of empty parts of gzip kept a run for minutes, beyond all its limits.

    To look for the next part, what is left is copied each time.
    """
    parts = gzip.compress(b'{"messageIds": ["1"]}') + gzip.compress(b", or nothing at all") + gzip.compress(b"") * 1000
    receiver.script = [Say(200, parts, (("Content-Encoding", "gzip"),))]
    assert session.request(post(receiver), classify_ams).receiver_id == "1"
