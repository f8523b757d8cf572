"""A target that is reached without TLS: the same limits, and nothing else goes that way."""

from __future__ import annotations

from contextlib import closing

import pytest
from scripted_receiver import Say, ScriptedReceiver, say

from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.transport import Request, TimeoutPolicy, Transport


@pytest.fixture
def plain():
    """A receiver that knows no TLS."""
    server = ScriptedReceiver(None)
    yield server
    server.stop()


@pytest.fixture
def in_clear(naps):
    """A session that uses none."""
    how = TimeoutPolicy(connect_s=5.0, read_s=5.0, backoff_s=(1.0,))
    with closing(Transport(None, proxy="http://127.0.0.1:9", timeouts=how)) as session:
        yield session


def accept(status, _headers, body) -> Answer:
    return Answer(Outcome.ACCEPTED, status, body.decode())


def post(plain, scheme: str = "http") -> Request:
    return Request("POST", f"{scheme}://localhost:{plain.port}/record", {}, b"{}")


def test_messages_share_one_connection(in_clear, plain) -> None:
    """Also without TLS, and past the proxy that is for others."""
    plain.script = [say(200, b"stored")] * 20
    for _ in range(20):
        assert in_clear.request(post(plain), accept)[:3] == (Outcome.ACCEPTED, 200, "stored")
    assert (plain.connections, plain.heard[0].body) == (1, b"{}")


@pytest.mark.parametrize(
    "step", [Say(hang_up=True), Say(reset=True), Say(200, b"stor", cut=True)], ids=["hung-up", "reset", "cut"]
)
def test_a_lost_answer_is_asked_for_again(in_clear, plain, naps, step) -> None:
    """What may have arrived is sent once more, and known to have been in doubt if that fails, too."""
    plain.script = [step, say(200, b"stored")]
    assert in_clear.request(post(plain), accept).text == "stored"
    plain.script = [step, step]
    answer = in_clear.request(post(plain), accept)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, False)
    assert naps == [1.0, 1.0]


def test_a_closed_port_is_known_to_have_done_nothing(in_clear, plain) -> None:
    """Nothing was sent where no one listens."""
    plain.stop()
    answer = in_clear.request(post(plain), accept)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert answer.text.endswith("connection refused")


def test_an_answer_has_its_time(plain) -> None:
    """All of an exchange ends with its time."""
    plain.script = [Say(silent=True)]
    how = TimeoutPolicy(connect_s=5.0, read_s=5.0, exchange_s=0.2, backoff_s=())
    with closing(Transport(None, timeouts=how)) as session:
        answer = session.request(post(plain), accept)
    assert (answer.kind, "exchange_timeout" in answer.text) == (Outcome.TRY_LATER, True)


def test_nothing_else_goes_that_way(in_clear, plain) -> None:
    """A session that uses no TLS has none to offer."""
    assert in_clear.request(post(plain, "https"), accept).kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert plain.heard == []
