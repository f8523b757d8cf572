"""Topics and subscriptions of the messaging service: a list of messages, and offsets into it (apel 1.5)."""

from __future__ import annotations

import calendar
import datetime as dt
import re
import time
from dataclasses import dataclass
from dataclasses import field as member

from arcacct.sandbox.ams_answers import Refusal, error, field, pretty, read_object
from arcacct.sandbox.wire import HTTPAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,3})\d*)?Z")


@dataclass(slots=True)
class Topic:
    """Messages as stored: messageId (the offset), attributes, data, publishTime."""

    messages: list[dict[str, Any]] = member(default_factory=list)
    times_ms: list[int] = member(default_factory=list)

    def store(self, message: dict[str, Any]) -> str:
        """Append a message; its id."""
        now_ms = time.time_ns() // 1_000_000
        offset = str(len(self.messages))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ms // 1000)) + f".{now_ms % 1000:03d}Z"
        self.messages.append({"messageId": offset, "attributes": {}, "data": "", **message, "publishTime": stamp})
        self.times_ms.append(now_ms)
        return offset


@dataclass(slots=True)
class Subscription:
    """An offset into a topic, and what was pulled from there and not yet acknowledged."""

    name: str
    topic_name: str
    topic: Topic
    ack_deadline_s: int
    offset: int
    created_on: str
    pulled_until: int | None = None
    """One above the highest offset pulled; None: nothing waits for an acknowledgement."""
    pulled_at: float = 0.0


def describe(subscription: Subscription) -> dict[str, Any]:
    """The subscription as the service tells it."""
    return {
        "name": f"/{subscription.name}",
        "topic": f"/{subscription.topic_name}",
        "pushConfig": {"type": "", "pushEndpoint": "", "maxMessages": 0, "retryPolicy": {}, "verified": False},
        "ackDeadlineSeconds": subscription.ack_deadline_s,
        "createdOn": subscription.created_on,
    }


def pull(subscription: Subscription, body: bytes) -> HTTPAnswer:
    """The next messages; not acknowledged ones come again. Numbers in the request must be text (apel 1.5)."""
    complaint = "Invalid Pull Parameters Arguments"
    wishes = read_object(body, complaint)
    most, at_once = field(wishes, "maxMessages", "1"), field(wishes, "returnImmediately", "false")
    if not (isinstance(most, str) and isinstance(at_once, str) and most.isdecimal()):
        raise Refusal(400, "INVALID_ARGUMENT", complaint)
    begin = subscription.offset
    messages = subscription.topic.messages[begin : begin + max(1, int(most))]
    if messages:
        subscription.pulled_until, subscription.pulled_at = begin + len(messages), time.monotonic()
    received = [{"ackId": f"{subscription.name}:{message['messageId']}", "message": message} for message in messages]
    return pretty({"receivedMessages": received})


def acknowledge(subscription: Subscription, body: bytes) -> HTTPAnswer:
    """Move behind the highest of these messages: everything before it counts as acknowledged too."""
    ids = field(read_object(body, "Invalid ack parameter"), "ackIds", None)
    if not isinstance(ids, list) or not ids or not all(isinstance(one, str) for one in ids):
        raise Refusal(400, "INVALID_ARGUMENT", "Invalid ack parameter")
    highest = max(_acknowledged(subscription, one) for one in ids)
    if subscription.pulled_until is None:
        return error(500, "INTERNAL_SERVER_ERROR", "no ack pending")
    if not subscription.offset <= highest < subscription.pulled_until:
        return error(500, "INTERNAL_SERVER_ERROR", "wrong ack")
    if time.monotonic() - subscription.pulled_at > subscription.ack_deadline_s:
        return error(408, "TIMEOUT", "ack timeout")
    subscription.offset, subscription.pulled_until = highest + 1, None
    return pretty({})


def modify_ack_deadline(subscription: Subscription, body: bytes) -> HTTPAnswer:
    """Give the reader from 0 to 600 seconds between pulling and acknowledging."""
    complaint = "Invalid ackDeadlineSeconds(needs value between 0 and 600) Arguments"
    seconds = field(read_object(body, complaint), "ackDeadlineSeconds", None)
    if not isinstance(seconds, int) or not 0 <= seconds <= 600:
        raise Refusal(400, "INVALID_ARGUMENT", complaint)
    subscription.ack_deadline_s = seconds
    return HTTPAnswer(200, b"", "application/json")


def offsets(subscription: Subscription) -> HTTPAnswer:
    """Where the topic begins and ends, and where the subscription stands."""
    return pretty({"max": len(subscription.topic.messages), "min": 0, "current": subscription.offset})


def modify_offset(subscription: Subscription, body: bytes) -> HTTPAnswer:
    """Stand elsewhere in the topic."""
    offset = field(read_object(body, "Invalid Offset Arguments"), "offset", None)
    if not isinstance(offset, int) or not 0 <= offset <= len(subscription.topic.messages):
        raise Refusal(400, "INVALID_ARGUMENT", "Offset out of bounds")
    subscription.offset, subscription.pulled_until = offset, None
    return HTTPAnswer(200, b"", "application/json")


def time_to_offset(subscription: Subscription, text: str) -> HTTPAnswer:
    """The first message published at this time or later; 409 if there is none."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Refusal(400, "INVALID_ARGUMENT", "Time is not in valid Zulu format.")
    day = dt.datetime.strptime(f"{match[1]} {match[2]}", "%Y-%m-%d %H:%M:%S")
    wanted_ms = calendar.timegm(day.timetuple()) * 1000 + int((match[3] or "0").ljust(3, "0"))
    offset = next((n for n, at_ms in enumerate(subscription.topic.times_ms) if at_ms >= wanted_ms), None)
    if offset is None:
        raise Refusal(409, "CONFLICT", "Timestamp is out of bounds for the subscription's topic/partition")
    return pretty({"offset": offset})


def _acknowledged(subscription: Subscription, ack_id: str) -> int:
    """The offset in an ackId of this subscription, e.g. ``projects/P/subscriptions/S:12``."""
    name, _, offset = ack_id.rpartition(":")
    if name != subscription.name or not offset.isdecimal():
        raise Refusal(400, "INVALID_ARGUMENT", "Invalid ack id")
    return int(offset)
