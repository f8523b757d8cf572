from __future__ import annotations

import base64
import json
import time

import pytest
from argo_ams_library import AmsMessage, AmsServiceException, ArgoMessagingService
from sandbox_clients import Connection, publication, sign, sync_message

from arcacct.sandbox.ams import AMS
from arcacct.sandbox.http_server import HTTPRequest

TOPIC = "/v1/projects/accounting/topics/gLite-APEL"
SUBSCRIPTION = "/v1/projects/accounting/subscriptions/reader"


class Client:
    """The service without a port, asked with a token."""

    def __init__(self) -> None:
        self.ams = AMS("accounting", "gLite-APEL")
        self.token = self.ams.new_token()

    def ask(self, method, path, body=None, *, token=None, query=None):
        """Status and JSON (or text) of an answer."""
        content = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        headers = {"x-api-key": self.token if token is None else token}
        answer = self.ams.answer(HTTPRequest(method, path, query or {}, headers, content, None))
        try:
            return answer.status, json.loads(answer.body)
        except ValueError:
            return answer.status, answer.body.decode()

    def publish(self, *texts):
        """Publish texts, each as a message."""
        return self.ask("POST", f"{TOPIC}:publish", publication(*(text.encode() for text in texts)))

    def subscribe(self, **body):
        """A subscription to the topic."""
        return self.ask("PUT", SUBSCRIPTION, {"topic": "projects/accounting/topics/gLite-APEL", **body})

    def pull(self, most="10"):
        """The ids to acknowledge, and the texts, of what is pulled."""
        status, body = self.ask("POST", f"{SUBSCRIPTION}:pull", {"maxMessages": most, "returnImmediately": "true"})
        assert status == 200, body
        received = body["receivedMessages"]
        return [one["ackId"] for one in received], [
            base64.b64decode(one["message"]["data"]).decode() for one in received
        ]


@pytest.fixture
def client() -> Client:
    return Client()


def test_the_official_client_reads_back_what_was_published(sandbox, monkeypatch):
    """The AMS library subscribes, pulls and acknowledges what was published over our ports, byte for byte."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", sandbox.ca_file)
    reader = ArgoMessagingService(
        endpoint=sandbox.ams_url.removeprefix("https://"), token=sandbox.token, project="accounting"
    )
    reader.create_sub("reader", "gLite-APEL")
    message = sign(sandbox.client, sync_message().encode())
    with Connection(sandbox, "ams") as connection:
        answer = connection.ask("POST", f"{TOPIC}:publish", publication(message), x_api_key=sandbox.token)
    assert answer.text == '{\n   "messageIds": [\n      "0"\n   ]\n}'
    ((ack_id, pulled),) = reader.pull_sub("reader", return_immediately=True)
    assert pulled.get_data() == message
    assert pulled.get_attr() == {"empaid": "20260101/0123456789abcd"}
    assert reader.pull_sub("reader", return_immediately=True)  # not acknowledged: it comes again
    assert reader.ack_sub("reader", [ack_id])
    assert reader.pull_sub("reader", return_immediately=True) == []
    assert reader.getoffsets_sub("reader") == {"max": 1, "min": 0, "current": 1}
    assert len(sandbox.apel.sync_records) == 1


def test_the_official_client_finds_its_way(sandbox, monkeypatch):
    """Topics, subscriptions, offsets and status answer as the library expects."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", sandbox.ca_file)
    endpoint = sandbox.ams_url.removeprefix("https://")
    ams = ArgoMessagingService(endpoint=endpoint, token=sandbox.token, project="accounting")
    assert ams.status()["status"] == "ok"
    assert ams.has_topic("gLite-APEL")
    assert not ams.has_topic("other")
    ams.create_topic("other")
    ams.create_sub("reader", "other", ackdeadline=20)
    assert ams.has_sub("reader")
    ams.publish("other", [AmsMessage(data="one", attributes={"a": "b"}), AmsMessage(data="two")])
    assert [message.get_data() for message in ams.pullack_sub("reader", 5, return_immediately=True)] == [b"one", b"two"]
    ams.modifyoffset_sub("reader", 0)
    assert ams.getoffsets_sub("reader", "current") == 0
    ams.delete_sub("reader")
    ams.delete_topic("other")
    with pytest.raises(AmsServiceException) as gone:
        ams.publish("gLite-APELL", [AmsMessage(data="x")])
    assert gone.value.code == 404


def test_the_official_client_gets_its_token(sandbox, monkeypatch):
    """The token comes from authn for the host certificate, on a port of its own."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", sandbox.ca_file)
    ams = ArgoMessagingService(
        endpoint="localhost",
        project="accounting",
        cert=sandbox.client.cert_path,
        key=sandbox.client.key_path,
        authn_port=sandbox.authn_port,
    )
    assert ams.token == sandbox.token


REFUSED = {
    "project's name": ("POST", "/v1/projects/a.b/topics/gLite-APEL:publish", 400, "Invalid project name"),
    "topic's name": ("POST", "/v1/projects/accounting/topics/a.b:publish", 400, "Invalid topic name"),
    "project": ("POST", "/v1/projects/other/topics/gLite-APEL:publish", 404, "project doesn't exist"),
    "topic": ("POST", "/v1/projects/accounting/topics/other:publish", 404, "Topic doesn't exist"),
    "subscription": ("GET", SUBSCRIPTION, 404, "Subscription doesn't exist"),
    "topic to look at": ("GET", "/v1/projects/accounting/topics/other", 404, "Topic doesn't exist"),
    "topic again": ("PUT", TOPIC, 409, "Topic already exists"),
}


@pytest.mark.parametrize(("method", "path", "status", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_there(client, method, path, status, words):
    """Each refusal has the real service's status and words."""
    found, body = client.ask(method, path, publication(b"x"))
    assert (found, body["error"]["code"], body["error"]["message"]) == (status, status, words)


@pytest.mark.parametrize(("method", "path"), [("GET", f"{TOPIC}:publish"), ("POST", "/v1/nowhere"), ("GET", "/")])
def test_wrong_paths_and_methods_are_plain_text(client, method, path):
    """The service's router answers by itself."""
    assert client.ask(method, path) == (404, "404 page not found\n")


def test_tokens(client):
    """A wrong token is 401, one without the role 403, and a project that is not there comes before both."""
    assert client.ask("POST", f"{TOPIC}:publish", publication(b"x"), token="wrong")[0] == 401
    assert client.ask("POST", f"{TOPIC}:publish", publication(b"x"), token="")[0] == 401
    reader = client.ams.new_token(frozenset({"consumer"}))
    status, body = client.ask("POST", f"{TOPIC}:publish", publication(b"x"), token=reader)
    assert (status, body["error"]["message"]) == (403, "Access to this resource is forbidden")
    assert client.ask("GET", "/v1/projects/other/topics", token="wrong")[0] == 404
    assert client.ask("GET", "/v1/status", token="wrong")[0] == 200


def test_the_header_wins_over_the_key_in_the_url(client):
    """The key counts only where the header is empty."""
    key = {"key": client.token}
    assert client.ask("POST", f"{TOPIC}:publish", publication(b"x"), token="", query=key)[0] == 200
    assert client.ask("POST", f"{TOPIC}:publish", publication(b"x"), token="wrong", query=key)[0] == 401


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        "[]",
        {},
        {"messages": {}},
        {"messages": [{"attributes": {"empaid": 5}, "data": "eA=="}]},
        {"messages": [{}]},
        {"messages": [{"data": 5}]},
    ],
    ids=["no json", "a list", "no messages", "messages that are none", "a number", "an empty message", "no text"],
)
def test_bodies_that_cannot_be_published(client, body):
    """400 with the real service's words."""
    status, answer = client.ask("POST", f"{TOPIC}:publish", body)
    assert (status, answer["error"]["message"]) == (400, "Invalid Message Arguments")
    assert answer["error"]["status"] == "INVALID_ARGUMENT"


def test_what_else_can_be_published(client):
    """Nothing at all, attributes without data, unknown keys, data that is no base64."""
    assert client.ask("POST", f"{TOPIC}:publish", {"messages": []}) == (200, {"messageIds": []})
    odd = {"messages": [{"attributes": {"a": "b"}}, {"data": "%%%", "messageId": "99", "colour": "blue"}]}
    assert client.ask("POST", f"{TOPIC}:publish", odd) == (200, {"messageIds": ["0", "1"]})
    assert client.ams.messages("accounting", "gLite-APEL")[1]["messageId"] == "1"


def test_a_message_too_large_leaves_those_before_it(client):
    """413, and the messages ahead of the large one are stored: publishing is not atomic."""
    status, body = client.publish("small", "x" * 1_200_000, "after")
    assert (status, body["error"]["message"]) == (413, "Message size is too large")
    assert len(client.ams.messages("accounting", "gLite-APEL")) == 1


def test_a_subscription_starts_at_the_end(client):
    """Messages older than the subscription are not seen by it."""
    client.publish("old")
    status, body = client.subscribe(ackDeadlineSeconds=0)
    assert (status, body["name"], body["ackDeadlineSeconds"]) == (200, "/projects/accounting/subscriptions/reader", 10)
    assert client.pull() == ([], [])
    client.publish("new")
    assert client.pull()[1] == ["new"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"topic": "gLite-APEL"}, 400, "Invalid Topic name"),
        ({"topic": "projects/accounting/topics/other"}, 404, "Topic doesn't exist"),
        ({"topic": "projects/other/topics/gLite-APEL"}, 404, "project doesn't exist"),
    ],
)
def test_subscriptions_to_nothing(client, body, status, words):
    """A topic must be named in full, and to exist."""
    found, answer = client.subscribe(**body)
    assert (found, answer["error"]["message"]) == (status, words)


def test_a_subscription_cannot_be_made_twice(client):
    """409 the second time."""
    client.subscribe()
    assert client.subscribe()[1]["error"]["status"] == "ALREADY_EXISTS"


def test_the_highest_acknowledgement_counts(client):
    """Acknowledging a message acknowledges all before it; pulled ones behind it come again."""
    client.subscribe()
    client.publish("a", "b", "c")
    ids, _ = client.pull()
    assert client.ask("POST", f"{SUBSCRIPTION}:acknowledge", {"AckIDs": [ids[1]]}) == (200, {})
    assert client.pull()[1] == ["c"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("nonsense", 400, "Invalid ack parameter"),
        ({}, 400, "Invalid ack parameter"),
        ({"ackIds": ["projects/accounting/subscriptions/other:0"]}, 400, "Invalid ack id"),
        ({"ackIds": ["0"]}, 400, "Invalid ack id"),
        ({"ackIds": ["projects/accounting/subscriptions/reader:7"]}, 500, "wrong ack"),
    ],
)
def test_acknowledgements_that_are_wrong(client, body, status, words):
    """Each has the real service's words."""
    client.subscribe()
    client.publish("a")
    client.pull()
    found, answer = client.ask("POST", f"{SUBSCRIPTION}:acknowledge", body)
    assert (found, answer["error"]["message"]) == (status, words)


def test_acknowledging_nothing_and_too_late(client):
    """Without a pull nothing is pending; past the deadline the acknowledgement times out."""
    client.subscribe()
    client.publish("a")
    one = {"ackIds": ["projects/accounting/subscriptions/reader:0"]}
    assert client.ask("POST", f"{SUBSCRIPTION}:acknowledge", one)[1]["error"]["message"] == "no ack pending"
    client.pull()
    assert client.ask("POST", f"{SUBSCRIPTION}:modifyAckDeadline", {"ackDeadlineSeconds": 0})[0] == 200
    status, answer = client.ask("POST", f"{SUBSCRIPTION}:acknowledge", one)
    assert (status, answer["error"]["message"]) == (408, "ack timeout")


@pytest.mark.parametrize(
    "body", [{"maxMessages": 1, "returnImmediately": "true"}, {"maxMessages": "1", "returnImmediately": True}]
)
def test_pulling_with_numbers_is_refused(client, body):
    """The real service wants text where one would write numbers."""
    client.subscribe()
    status, answer = client.ask("POST", f"{SUBSCRIPTION}:pull", body)
    assert (status, answer["error"]["message"]) == (400, "Invalid Pull Parameters Arguments")


def test_pulling_from_a_topic_that_is_gone(client):
    """409 once the topic was deleted."""
    client.subscribe()
    client.ask("DELETE", TOPIC)
    assert client.ask("POST", f"{SUBSCRIPTION}:pull", {"maxMessages": "1", "returnImmediately": "true"})[0] == 409


@pytest.mark.parametrize(
    ("verb", "body", "words"),
    [
        (
            "modifyAckDeadline",
            {"ackDeadlineSeconds": 601},
            "Invalid ackDeadlineSeconds(needs value between 0 and 600) Arguments",
        ),
        ("modifyOffset", {"offset": 2}, "Offset out of bounds"),
        ("modifyOffset", {"offset": -1}, "Offset out of bounds"),
    ],
)
def test_bounds(client, verb, body, words):
    """Deadlines up to ten minutes, offsets within the topic."""
    client.subscribe()
    client.publish("a")
    assert client.ask("POST", f"{SUBSCRIPTION}:{verb}", body)[1]["error"]["message"] == words


def test_the_offset_of_a_time(client):
    """The first message at or after a time; 409 when there is none."""
    client.subscribe()
    client.publish("a")
    path = f"{SUBSCRIPTION}:timeToOffset"
    assert client.ask("GET", path, query={"time": "2019-09-02T13:39:11.100Z"}) == (200, {"offset": 0})
    later = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 100))
    assert client.ask("GET", path, query={"time": later})[0] == 409
    assert client.ask("GET", path, query={"time": "yesterday"})[0] == 400
