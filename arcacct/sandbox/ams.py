"""An ARGO Messaging Service and its authentication service: publish, subscribe, pull, acknowledge."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime as dt
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from arcacct.sandbox.apel import APEL
from arcacct.sandbox.http_server import Arrival, HTTPAnswer, HTTPRequest, Receiver, Surroundings

# An ARGO Messaging Service: publish, subscribe, pull, acknowledge, with the texts of the real service (apel section 1).
# Messages stay permanently, one list per topic; a subscription is an offset into it. Each topic may have a reader
# (here: APEL's receiver), which gets every message at once.


LARGEST_MESSAGE = 1_500_000
"""Bytes of the stored JSON (base64, attributes, layout): the limit of the real server's producer."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,3})\d*)?Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_PATH = re.compile(
    r"/v1/projects/(?P<project>[^/:]+)/(?P<kind>topics|subscriptions)(?:/(?P<name>[^/:]+)(?::(?P<verb>\w+))?)?"
)
_ROLES = {"publish": "publisher", "pull": "consumer", "acknowledge": "consumer"}
_ADMIN = "project_admin"
"""The role that may do everything; other users need the role of each action."""

NOT_FOUND = HTTPAnswer(404, b"404 page not found\n", "text/plain; charset=utf-8")
"""A path or a method that the service does not know."""

Kept = TypeVar("Kept")

_EMPTY = HTTPAnswer(200, b"", "application/json")


class Refusal(Exception):
    """An error answer."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.answer = error(code, status, message)


def pretty(value: object, code: int = 200) -> HTTPAnswer:
    """Return JSON, indented by three blanks."""
    return HTTPAnswer(code, json.dumps(value, indent=3).encode(), "application/json; charset=utf-8")


def error(code: int, status: str, message: str) -> HTTPAnswer:
    """Return an error in the form of the service and its authn."""
    return pretty({"error": {"code": code, "message": message, "status": status}}, code)


def read_object(body: bytes, complaint: str) -> dict[str, Any]:
    """The JSON object of a request; 400 with this message if it is not an object."""
    value = None
    with contextlib.suppress(ValueError):
        value = json.loads(body)
    if not isinstance(value, dict):
        raise Refusal(400, "INVALID_ARGUMENT", complaint)
    return value


def field(body: dict[str, Any], name: str, default: Any) -> Any:
    """Return a member of an object by its name, in upper or lower case: the real server is written in Go."""
    return next((value for key, value in body.items() if key.lower() == name.lower()), default)


@dataclasses.dataclass(slots=True)
class Topic:
    """Messages as stored: messageId (the offset), attributes, data, publishTime."""

    messages: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    times_ms: list[int] = dataclasses.field(default_factory=list)
    is_deleted: bool = False

    def store(self, message: dict[str, Any]) -> str:
        """Append a message; return its id."""
        now_ms = time.time_ns() // 1_000_000
        offset = str(len(self.messages))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ms // 1000)) + f".{now_ms % 1000:03d}Z"
        self.messages.append({"messageId": offset, "attributes": {}, "data": "", **message, "publishTime": stamp})
        self.times_ms.append(now_ms)
        return offset


@dataclasses.dataclass(slots=True)
class Subscription:
    """An offset into a topic, and the pulled messages that are not yet acknowledged."""

    name: str
    topic_name: str
    topic: Topic
    ack_deadline_s: int
    offset: int
    created_on: str
    pulled_until: int | None = None
    """One above the highest pulled offset; None: no message waits for an acknowledgement."""
    pulled_at: float = 0.0

    def describe(self) -> dict[str, Any]:
        """Return the subscription in the form of the service."""
        return {
            "name": f"/{self.name}",
            "topic": f"/{self.topic_name}",
            "pushConfig": {"type": "", "pushEndpoint": "", "maxMessages": 0, "retryPolicy": {}, "verified": False},
            "ackDeadlineSeconds": self.ack_deadline_s,
            "createdOn": self.created_on,
        }

    def pull(self, request: HTTPRequest) -> HTTPAnswer:
        """The next messages; not acknowledged ones come again. Numbers in the request must be text (apel 1.5)."""
        if self.topic.is_deleted:
            raise Refusal(409, "CONFLICT", "Subscription's topic doesn't exist")
        complaint = "Invalid Pull Parameters Arguments"
        options = read_object(request.body, complaint)
        most, at_once = field(options, "maxMessages", "1"), field(options, "returnImmediately", "false")
        if not (isinstance(most, str) and isinstance(at_once, str) and most.isdecimal()):
            raise Refusal(400, "INVALID_ARGUMENT", complaint)
        begin = self.offset
        messages = self.topic.messages[begin : begin + max(1, int(most))]
        if messages:
            self.pulled_until, self.pulled_at = begin + len(messages), time.monotonic()
        received = [{"ackId": f"{self.name}:{message['messageId']}", "message": message} for message in messages]
        return pretty({"receivedMessages": received})

    def acknowledge(self, request: HTTPRequest) -> HTTPAnswer:
        """Move past the highest of these messages: all earlier ones count as acknowledged too."""
        ids = field(read_object(request.body, "Invalid ack parameter"), "ackIds", None)
        if not isinstance(ids, list) or not ids or not all(isinstance(one, str) for one in ids):
            raise Refusal(400, "INVALID_ARGUMENT", "Invalid ack parameter")
        parts = [one.rpartition(":") for one in ids]
        if not all(name == self.name and offset.isdecimal() for name, _, offset in parts):
            raise Refusal(400, "INVALID_ARGUMENT", "Invalid ack id")
        highest = max(int(offset) for *_, offset in parts)
        if self.pulled_until is None:
            return error(500, "INTERNAL_SERVER_ERROR", "no ack pending")
        if not self.offset <= highest < self.pulled_until:
            return error(500, "INTERNAL_SERVER_ERROR", "wrong ack")
        if time.monotonic() - self.pulled_at > self.ack_deadline_s:
            return error(408, "TIMEOUT", "ack timeout")
        self.offset, self.pulled_until = highest + 1, None
        return pretty({})

    def modify_ack_deadline(self, request: HTTPRequest) -> HTTPAnswer:
        """Give the reader from 0 to 600 seconds between pulling and acknowledging."""
        complaint = "Invalid ackDeadlineSeconds(needs value between 0 and 600) Arguments"
        seconds = field(read_object(request.body, complaint), "ackDeadlineSeconds", None)
        if not isinstance(seconds, int) or not 0 <= seconds <= 600:
            raise Refusal(400, "INVALID_ARGUMENT", complaint)
        self.ack_deadline_s = seconds
        return _EMPTY

    def offsets(self, _request: HTTPRequest) -> HTTPAnswer:
        """Return the first and last offset of the topic, and that of the subscription."""
        return pretty({"max": len(self.topic.messages), "min": 0, "current": self.offset})

    def modify_offset(self, request: HTTPRequest) -> HTTPAnswer:
        """Move to another offset in the topic."""
        offset = field(read_object(request.body, "Invalid Offset Arguments"), "offset", None)
        if not isinstance(offset, int) or not 0 <= offset <= len(self.topic.messages):
            raise Refusal(400, "INVALID_ARGUMENT", "Offset out of bounds")
        self.offset, self.pulled_until = offset, None
        return _EMPTY

    def time_to_offset(self, request: HTTPRequest) -> HTTPAnswer:
        """The first message published at this time or later; 409 if there is none."""
        match = _TIME.fullmatch(request.query.get("time", ""))
        if match is None:
            raise Refusal(400, "INVALID_ARGUMENT", "Time is not in valid Zulu format.")
        second = dt.datetime.fromisoformat(f"{match[1]}T{match[2]}Z")
        wanted_ms = int(second.timestamp()) * 1000 + int((match[3] or "0").ljust(3, "0"))
        offset = next((n for n, at_ms in enumerate(self.topic.times_ms) if at_ms >= wanted_ms), None)
        if offset is None:
            raise Refusal(409, "CONFLICT", "Timestamp is out of bounds for the subscription's topic/partition")
        return pretty({"offset": offset})

    def shown(self, _request: HTTPRequest) -> HTTPAnswer:
        """Return the token in an answer."""
        return pretty(self.describe())


class AMS(Receiver):
    """The service: projects with topics and subscriptions, and who may use them (`tokens`: token to roles)."""

    endpoint, title, documents = "ams", "the messaging service", "apel"
    wants_certificate = False  # The real service identifies its clients by their token alone.

    def __init__(self, project: str, topic: str) -> None:
        self.tokens: dict[str, frozenset[str]] = {}
        self.projects: dict[str, dict[str, Topic]] = {project: {topic: Topic()}}
        self.subscriptions: dict[str, dict[str, Subscription]] = {project: {}}
        self.readers: dict[tuple[str, str], APEL] = {}
        """By (project, topic): the reader that gets each message at once."""
        self.largest_message = LARGEST_MESSAGE
        self._lock = threading.Lock()

    @classmethod
    def beside(cls, box: Surroundings) -> Self:
        """A service with the sandbox's topic."""
        return cls(box.project, box.topic)

    def address(self, port: int) -> str:
        return f"AMS https://localhost:{port}"

    def block(self, box: Surroundings) -> list[str]:
        return [
            "[arex/jura/apel:sandbox]",
            f"targeturl = {box.ams_url}",
            f"authn_port = {box.authn_port}",
            f"project = {box.project}",
            f"topic = {box.topic}",
            "gocdb_name = SANDBOX-SITE",
            *box.credentials,
            f"# For a sender that encrypts, which arcacct does not: {box.apel_certificate.cert_path}",
        ]

    def totals(self) -> list[str]:
        """A line for each month of a site at the readers of the topics."""
        return [
            f"APEL {site} {year}-{month:02d}: jobs {total.jobs}, wall {total.wall_s} s, CPU {total.cpu_s} s,"
            f" normalised wall {total.normalised_wall_s} s, normalised CPU {total.normalised_cpu_s} s"
            for reader in self.readers.values()
            for (site, year, month), total in reader.totals().items()
        ]

    def new_token(self, roles: frozenset[str] = frozenset({_ADMIN})) -> str:
        """A token with these roles (``publisher``, ``consumer``, ``project_admin``)."""
        token = secrets.token_hex(20)
        self.tokens[token] = roles
        return token

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        if (request.method, request.path) == ("GET", "/v1/status"):
            return pretty({"status": "ok", "push_enabled": False, "push_functionality": "disabled"})
        match = _PATH.fullmatch(request.path)
        if match is None:
            return NOT_FOUND
        project, name = match["project"], match["name"]
        what = (request.method, match["kind"], match["verb"], name is not None)
        if what not in _ACTIONS and what not in _ASKED:
            return NOT_FOUND
        try:
            self._admit(request, match)
            with self._lock:
                if what in _ASKED:
                    return _ASKED[what](_found(self.subscriptions[project], name, "Subscription"), request)
                return _ACTIONS[what](self, request, project, name)
        except Refusal as refusal:
            return refusal.answer

    def delivers(self, request: HTTPRequest) -> bool:
        return request.method == "POST" and request.path.endswith(":publish")

    def text(self, request: HTTPRequest) -> str:
        """Return the readable text of a request: the messages of a publication, decoded from base64."""
        try:
            messages = json.loads(request.body)["messages"] if self.delivers(request) else []
            return "\n".join(base64.b64decode(message["data"]).decode("ascii", "replace") for message in messages)
        except (ValueError, TypeError, KeyError):
            return ""

    def messages(self, project: str, topic: str) -> list[dict[str, Any]]:
        """Every message ever stored on a topic, in order."""
        with self._lock:
            return list(self.projects[project][topic].messages)

    def _admit(self, request: HTTPRequest, match: re.Match[str]) -> None:
        """Names, project, token, role, in this order (apel 1.2, 1.3); raises Refusal."""
        if not _NAME.fullmatch(match["project"]):
            raise Refusal(400, "INVALID_ARGUMENT", "Invalid project name")
        if match["name"] is not None and not _NAME.fullmatch(match["name"]):
            raise Refusal(400, "INVALID_ARGUMENT", f"Invalid {match['kind'].removesuffix('s')} name")
        if match["project"] not in self.projects:
            raise Refusal(404, "NOT_FOUND", "project doesn't exist")
        # The header has priority; the key in the URL counts only if the header is empty.
        roles = self.tokens.get(request.headers.get("x-api-key") or request.query.get("key", ""))
        if roles is None:
            raise Refusal(401, "UNAUTHORIZED", "Unauthorized")
        if roles.isdisjoint({_ADMIN, _ROLES.get(match["verb"], _ADMIN)}):
            raise Refusal(403, "FORBIDDEN", "Access to this resource is forbidden")

    def publish(self, request: HTTPRequest, project: str, name: str) -> HTTPAnswer:
        topic = _found(self.projects[project], name, "Topic")
        reader = self.readers.get((project, name))
        ids: list[str] = []
        arrivals: list[Arrival] = []
        for message in _messages(request.body):
            # One by one, as the real one sends them to its broker: messages before a refusal stay.
            if len(json.dumps(message, indent=3)) > self.largest_message:
                too_large = error(413, "INVALID_ARGUMENT", "Message size is too large")
                return too_large._replace(arrivals=(*arrivals, Arrival("apel", None, None, "too large")))
            ids.append(topic.store(message))
            if reader is not None:
                arrivals.append(reader.receive(message.get("data", ""), message.get("attributes", {}).get("empaid")))
        return pretty({"messageIds": ids})._replace(arrivals=tuple(arrivals))

    def create_topic(self, _request: HTTPRequest, project: str, name: str) -> HTTPAnswer:
        if name in self.projects[project]:
            raise Refusal(409, "ALREADY_EXISTS", "Topic already exists")
        self.projects[project][name] = Topic()
        return pretty(_topic_json(project, name))

    def get_topic(self, _request: HTTPRequest, project: str, name: str) -> HTTPAnswer:
        _found(self.projects[project], name, "Topic")
        return pretty(_topic_json(project, name))

    def delete_topic(self, _request: HTTPRequest, project: str, name: str) -> HTTPAnswer:
        _found(self.projects[project], name, "Topic").is_deleted = True
        del self.projects[project][name]
        return _EMPTY

    def list_topics(self, _request: HTTPRequest, project: str, _name: str) -> HTTPAnswer:
        return _listed("topics", [_topic_json(project, name) for name in self.projects[project]])

    def create_subscription(self, request: HTTPRequest, project: str, name: str) -> HTTPAnswer:
        body = read_object(request.body, "Invalid Subscription Arguments")
        reference = re.fullmatch(r"/?projects/([\w-]+)/topics/([\w-]+)", str(field(body, "topic", "")))
        if reference is None:
            raise Refusal(400, "INVALID_ARGUMENT", "Invalid Topic name")
        if reference[1] not in self.projects:
            raise Refusal(404, "NOT_FOUND", "project doesn't exist")
        topic = _found(self.projects[reference[1]], reference[2], "Topic")
        if name in self.subscriptions[project]:
            raise Refusal(409, "ALREADY_EXISTS", "Subscription already exists")
        deadline = field(body, "ackDeadlineSeconds", 0)
        self.subscriptions[project][name] = Subscription(
            f"projects/{project}/subscriptions/{name}",
            f"projects/{reference[1]}/topics/{reference[2]}",
            topic,
            ack_deadline_s=deadline if isinstance(deadline, int) and deadline else 10,
            offset=len(topic.messages),  # A new subscription does not get the existing messages.
            created_on=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )
        return self.subscriptions[project][name].shown(request)

    def delete_subscription(self, _request: HTTPRequest, project: str, name: str) -> HTTPAnswer:
        _found(self.subscriptions[project], name, "Subscription")
        del self.subscriptions[project][name]
        return _EMPTY

    def list_subscriptions(self, _request: HTTPRequest, project: str, _name: str) -> HTTPAnswer:
        return _listed("subscriptions", [one.describe() for one in self.subscriptions[project].values()])


_ACTIONS: dict[tuple[str, str, str | None, bool], Callable[[AMS, HTTPRequest, str, str], HTTPAnswer]] = {
    ("POST", "topics", "publish", True): AMS.publish,
    ("PUT", "topics", None, True): AMS.create_topic,
    ("GET", "topics", None, True): AMS.get_topic,
    ("DELETE", "topics", None, True): AMS.delete_topic,
    ("GET", "topics", None, False): AMS.list_topics,
    ("PUT", "subscriptions", None, True): AMS.create_subscription,
    ("DELETE", "subscriptions", None, True): AMS.delete_subscription,
    ("GET", "subscriptions", None, False): AMS.list_subscriptions,
}
_ASKED = {
    ("GET", "subscriptions", None, True): Subscription.shown,
    ("POST", "subscriptions", "pull", True): Subscription.pull,
    ("POST", "subscriptions", "acknowledge", True): Subscription.acknowledge,
    ("POST", "subscriptions", "modifyAckDeadline", True): Subscription.modify_ack_deadline,
    ("POST", "subscriptions", "modifyOffset", True): Subscription.modify_offset,
    ("GET", "subscriptions", "offsets", True): Subscription.offsets,
    ("GET", "subscriptions", "timeToOffset", True): Subscription.time_to_offset,
}
"""The default answer of a subscription."""


def _found(kept: dict[str, Kept], name: str, what: str) -> Kept:
    if name not in kept:
        raise Refusal(404, "NOT_FOUND", f"{what} doesn't exist")
    return kept[name]


def _messages(body: bytes) -> list[dict[str, Any]]:
    """The messages of a publication; 400 unless attributes are text to text and each message has data or attributes."""
    messages = field(read_object(body, "Invalid Message Arguments"), "messages", None)
    if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
        raise Refusal(400, "INVALID_ARGUMENT", "Invalid Message Arguments")
    return [
        {name: field(message, name, None) for name in ("attributes", "data") if field(message, name, None)}
        for message in messages
    ]


def _is_message(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    attributes, data = field(message, "attributes", {}), field(message, "data", "")
    texts = isinstance(attributes, dict) and all(isinstance(value, str) for value in attributes.values())
    return texts and isinstance(data, str) and bool(attributes or data)


def _topic_json(project: str, name: str) -> dict[str, str]:
    return {"name": f"/projects/{project}/topics/{name}", "created_on": "2026-01-01T00:00:00Z"}


def _listed(kind: str, found: Sequence[object]) -> HTTPAnswer:
    return pretty({kind: found, "nextPageToken": "", "totalSize": len(found)})


# The service that issues a token of the messaging service for a host certificate (argo-api-authn; apel 1.1).


_AUTHN_PATH = re.compile(r"/v1/service-types/(?P<service>[^/:]+)/hosts/(?P<host>[^/:]+):(?P<method>\w+)")


class Authn(Receiver):
    """Bindings of host certificates (slash DN) to tokens, for the messaging service on `hosts`."""

    endpoint, title = "authn", "the service that gives tokens"

    def __init__(self, hosts: frozenset[str]) -> None:
        self.hosts = hosts
        self.bindings: dict[str, str] = {}
        self.asked = 0
        """How many tokens were issued."""

    @classmethod
    def beside(cls, _box: Surroundings) -> Self:
        """Return a service for a host without other names than the loopback address."""
        return cls(frozenset({"localhost", "127.0.0.1"}))

    def address(self, port: int) -> str:
        """Return the port: the address of the service is based on that of the messaging service."""
        return f"authn port {port}"

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        match = _AUTHN_PATH.fullmatch(request.path)
        if match is None or request.method != "GET":
            return NOT_FOUND
        peer, now = request.peer, time.time()
        if peer is None:
            return error(400, "BAD REQUEST", "No certificate provided")
        if not peer.not_before <= now <= peer.not_after:
            why = "has expired" if now > peer.not_after else "is not active yet"
            return error(403, "ACCESS_FORBIDDEN", f"Your certificate {why}")
        token = self.bindings.get(peer.dn)
        for what, is_known in (
            ("Service-type", match["service"] == "ams"),
            ("Host", match["host"] in self.hosts),
            ("Auth method", match["method"] == "authx509"),
            ("Binding", token is not None),
        ):
            if not is_known:
                return error(404, "NOT FOUND", f"{what} was not found")
        self.asked += 1
        return HTTPAnswer(200, json.dumps({"token": token}).encode(), "application/json; charset=utf-8")
