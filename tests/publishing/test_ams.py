"""Publishing to AMS: the token, one message a request, and what is never said aloud."""

from __future__ import annotations

import base64
import json
import logging
import re
import subprocess
import time

import argo_ams_library
import pytest
from scripted_receiver import Say, say

from arcacct.errors import CredentialError, TargetBusy, TargetRefuses
from arcacct.publishing.answers import Outcome, error_of
from arcacct.publishing.transport import Transport
from arcacct.sandbox import Sandbox
from arcacct.targets.apel.ams import MAX_ENCODED_BYTES, AMSSender, Signer, new_empaid
from arcacct.tls import tls_context

TOKEN = "t0ken-0123456789abcdef"
GIVEN = say(200, {"token": TOKEN})
STORED = say(200, {"messageIds": ["18"]})
UNAUTHORIZED = say(401, {"error": {"code": 401, "message": "Unauthorized", "status": "UNAUTHORIZED"}})
NAME = "20250131/0123456789abcd"


@pytest.fixture
def client(receiver, session, host):
    """A client whose AMS and authn are one scripted receiver."""
    return AMSSender(f"{receiver.url}{PUBLISH[5:]}", f"{receiver.url}{GET_TOKEN[4:]}", session, Signer(*host))


def asked(receiver) -> list[str]:
    return [f"{heard.method} {heard.path}" for heard in receiver.heard]


GET_TOKEN = "GET /v1/service-types/ams/hosts/localhost:authx509"
PUBLISH = "POST /v1/projects/accounting/topics/gLite-APEL:publish"


def test_a_message_is_published(client, receiver):
    """One request for the token, one for the message, in the form of AMS's interface."""
    receiver.script = [GIVEN, STORED]
    answer = client.publish(b"signed \xff bytes", NAME)
    assert (answer.kind, answer.receiver_id) == (Outcome.ACCEPTED, "18")
    assert asked(receiver) == [GET_TOKEN, PUBLISH]
    published = receiver.heard[1]
    assert published.headers["content-type"] == "application/json"
    assert published.headers["x-api-key"] == TOKEN
    (message,) = json.loads(published.body)["messages"]
    assert message["attributes"] == {"empaid": NAME}
    assert base64.b64decode(message["data"], validate=True) == b"signed \xff bytes"


def test_a_token_serves_a_whole_run(client, receiver):
    """The authn service is asked once, and one connection carries everything."""
    receiver.script = [GIVEN, STORED, STORED, STORED]
    for _ in range(3):
        assert client.publish(b"x", new_empaid()).kind == Outcome.ACCEPTED
    assert asked(receiver) == [GET_TOKEN, PUBLISH, PUBLISH, PUBLISH]
    assert receiver.connections == 1


def test_a_refused_token_is_fetched_anew_once(client, receiver):
    """A token rotated during the run costs one more request and no message."""
    receiver.script = [GIVEN, STORED, UNAUTHORIZED, say(200, {"token": "newer"}), STORED, STORED]
    for _ in range(3):
        assert client.publish(b"x", NAME).kind == Outcome.ACCEPTED
    assert asked(receiver) == [GET_TOKEN, PUBLISH, PUBLISH, GET_TOKEN, PUBLISH, PUBLISH]
    assert [heard.headers.get("x-api-key") for heard in receiver.heard[-2:]] == ["newer", "newer"]


def test_a_token_refused_twice_is_the_administrators_business(client, receiver):
    """A second 401 ends it, as a matter of credentials."""
    receiver.script = [GIVEN, UNAUTHORIZED, GIVEN, UNAUTHORIZED, STORED]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.status, answer.about_credentials) == (Outcome.TOKEN_REFUSED, 401, True)
    assert len(receiver.heard) == 4


def test_no_token_no_message(client, receiver):
    """If the certificate is not mapped, authn's answer is the answer, and nothing was sent."""
    receiver.script = [say(404, {"error": {"message": "Binding was not found", "code": 404}})]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.text, answer.outcome_known) == (
        Outcome.NOT_AUTHORISED_OR_MISCONFIGURED,
        "Binding was not found",
        True,
    )
    assert "GOCDB" in answer.advice
    assert asked(receiver) == [GET_TOKEN]


def test_a_silent_authn_leaves_no_doubt(client, receiver):
    """Whatever happens while asking for a token, no message was sent."""
    receiver.script = [Say(hang_up=True)] * 3
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)


def test_authn_that_fails_after_a_401_leaves_no_doubt(client, receiver):
    """A message refused for its token was not stored, whatever becomes of the next token."""
    receiver.script = [GIVEN, UNAUTHORIZED, *[Say(hang_up=True)] * 3]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)


def test_doubt_from_before_a_401_stays(client, receiver):
    """A lost answer followed by 401 and another 401 may still have stored the message."""
    receiver.script = [GIVEN, Say(hang_up=True), UNAUTHORIZED, GIVEN, UNAUTHORIZED]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.outcome_known) == (Outcome.TOKEN_REFUSED, False)


def test_a_busy_ams_is_tried_again_with_the_same_message(client, receiver, naps):
    """The repeat after a 503 is the same request, byte for byte."""
    receiver.script = [GIVEN, say(503), STORED]
    assert client.publish(b"x", NAME).kind == Outcome.ACCEPTED
    assert receiver.heard[1] == receiver.heard[2]
    assert len(naps) == 1


@pytest.mark.parametrize(
    ("step", "error"),
    [
        pytest.param(say(403, {"error": {"message": "Your certificate has expired"}}), CredentialError, id="expired"),
        pytest.param(say(404, {"error": {"message": "Host was not found"}}), TargetRefuses, id="host"),
        pytest.param(say(500, {"error": {"message": "Internal Error: x"}}), TargetBusy, id="busy"),
    ],
)
def test_a_token_that_is_not_given_is_an_error(client, receiver, step, error):
    """Nothing is sent then, and the answer is what authn's refusal means."""
    receiver.script = [step] * 3
    assert isinstance(error_of(client.publish(b"x", NAME)), error)
    assert set(asked(receiver)) == {GET_TOKEN}


def test_the_token_is_never_said_aloud(client, receiver, caplog, capfd):
    """Not in logs at DEBUG, not in answers that quote our request, not in what is printed of a client."""
    caplog.set_level(logging.DEBUG)
    quoted = [TOKEN, TOKEN.upper(), base64.b64encode(TOKEN.encode()).decode(), TOKEN[:12], "x" * 480 + TOKEN]
    receiver.script = [GIVEN, *(say(400, f"Bad header: x-api-key: {one}".encode()) for one in quoted)]
    answers = [client.publish(b"x", NAME) for _ in quoted]
    assert {answer.kind for answer in answers} == {Outcome.NOT_AUTHORISED_OR_MISCONFIGURED}
    assert not [one for one in answers if re.search(f"(?i){TOKEN[:8]}|{quoted[2][:8]}", one.text)]
    said = [*map(repr, answers), repr(client), client.destination, caplog.text, *capfd.readouterr()]
    assert not any(TOKEN in text for text in said)
    assert not any(TOKEN in heard.path for heard in receiver.heard)


def test_a_message_that_ams_would_refuse_for_its_size_is_not_sent(client, receiver):
    """The limit of a megabyte holds for the base64 text, to the byte."""
    receiver.script = [GIVEN, STORED]
    most = MAX_ENCODED_BYTES // 4 * 3
    assert client.publish(b"x" * (most + 1), NAME).kind == Outcome.TOO_LARGE
    assert receiver.heard == []
    assert client.publish(b"x" * most, NAME).kind == Outcome.ACCEPTED
    (message,) = json.loads(receiver.heard[1].body)["messages"]
    assert len(message["data"]) == MAX_ENCODED_BYTES


def test_message_names_are_unique_and_begin_with_the_day():
    """An empaid is the UTC day and fourteen hexadecimal digits, and no two are the same."""
    names = {new_empaid(1_735_689_599) for _ in range(1000)}
    assert len(names) == 1000
    assert all(re.fullmatch(r"20241231/[0-9a-f]{14}", name) for name in names)
    assert new_empaid(1_735_689_600).startswith("20250101/")


def test_a_name_that_ams_would_store_unescaped_is_a_mistake(client):
    """AMS writes attributes without escapes, so quotes in them are refused here."""
    with pytest.raises(ValueError, match="empaid"):
        client.publish(b"x", 'a"b')


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """The receivers of APEL, as they answer when they are well."""
    with Sandbox(str(tmp_path_factory.mktemp("sandbox"))) as running:
        yield running


def sandbox_client(sandbox, credential) -> tuple[AMSSender, Transport]:
    session = Transport(tls_context(*credential, ca_dir=sandbox.ca_dir))
    publish = f"{sandbox.ams_url}/v1/projects/{sandbox.project}/topics/{sandbox.topic}:publish"
    token = f"https://localhost:{sandbox.authn_port}/v1/service-types/ams/hosts/localhost:authx509"
    return AMSSender(publish, token, session, Signer(*sandbox.client)), session


def test_the_official_client_reads_what_we_published(sandbox, tmp_path):
    """The AMS library pulls our message with its name and its bytes, and the signature verifies."""
    library = argo_ams_library.ArgoMessagingService(endpoint="localhost", project=sandbox.project, token=sandbox.token)
    library.port = sandbox.servers["ams"].port
    library.endpoint = f"localhost:{library.port}"
    verify = {"verify": sandbox.ca_file}
    library.create_sub("reader", sandbox.topic, **verify)
    client, session = sandbox_client(sandbox, sandbox.client)
    signed = Signer(*sandbox.client).sign("APEL-sync-message: v0.1\nSite: SANDBOX\n%%\n")
    answer = client.publish(signed, NAME)
    ((_, message),) = library.pull_sub("reader", num=1, return_immediately=True, **verify)
    session.close()
    assert answer.kind == Outcome.ACCEPTED
    assert message.get_msgid() == answer.receiver_id
    assert message.get_attr() == {"empaid": NAME}
    assert message.get_data() == signed
    opened = ["openssl", "smime", "-verify", "-CApath", sandbox.ca_dir, "-purpose", "any"]
    assert b"SANDBOX" in subprocess.run(opened, input=signed, capture_output=True, check=True).stdout


def test_an_expired_certificate_gets_no_token(sandbox):
    """The authn service says what is wrong with a certificate, and that is what the administrator reads."""
    expired = sandbox.authority.issue("late.example.org", stem="late", not_after=int(time.time()) - 60, rsa_key=False)
    client, session = sandbox_client(sandbox, expired)
    answer = client.publish(b"x", NAME)
    session.close()
    assert (answer.kind, answer.about_credentials) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True)
    assert "expired" in answer.text


def test_a_rotated_token_is_noticed(sandbox):
    """A token that AMS made invalid between two messages is replaced without a word."""
    client, session = sandbox_client(sandbox, sandbox.client)
    signed = Signer(*sandbox.client).sign("APEL-sync-message: v0.1\nSite: SANDBOX\n%%\n")
    assert client.publish(signed, new_empaid()).kind == Outcome.ACCEPTED
    sandbox.rotate_token()
    assert client.publish(signed, new_empaid()).kind == Outcome.ACCEPTED
    session.close()
