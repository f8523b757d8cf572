"""
What AUDITOR shows of a record when it is asked for it, through TLS and a real session.

A record that is there is the one that was sent, by its values, or the ledger is given that it is another one, or that
it is unknown where the answer is no record. Comparing it costs time and memory in proportion to the answer.
"""

from __future__ import annotations

import json
import pathlib
import random
from contextlib import closing
from datetime import datetime
from typing import Any

from fuzz.cost import in_proportion, repeated
from fuzz.damage import damaged, damaged_json
from fuzz.fuzz_answers import GIVEN_MARK, receiver

from arcacct.publishing.answers import Outcome
from arcacct.publishing.ledger import KEPT, OTHER, Message, SentRecord
from arcacct.publishing.transport import TimeoutPolicy, Transport
from arcacct.targets.auditor.record import DOCUMENT
from arcacct.targets.auditor.sender import AuditorSender

_GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "auditor.json"
_TEXT = DOCUMENT.cut(_GOLDEN.read_text(encoding="utf-8"))[0]
_SENT: dict[str, Any] = json.loads(_TEXT)
_UNITS = (
    "[", "]", "[],", '["a"],', '{"a":', "{}", "}", "1,", "1", '"2024-01-02T10:30:00Z",', '"', "\\", ",", "null", "é",
)  # fmt: skip
_LARGEST = 3_000_000
"""Bytes: below what a session reads of an answer."""
_LEVELS = 8
"""Of an answer that is compared."""


def made(chance: random.Random) -> dict[str, bytes]:
    way = chance.random()
    if way < 0.2:
        return {"body": damaged(chance, json.dumps(_spelt_otherwise(chance)).encode())}
    if way < 0.5:
        return {"body": json.dumps(damaged_json(chance, _spelt_otherwise(chance))).encode()}
    if way < 0.6:
        return {"body": json.dumps(_spelt_otherwise(chance)).encode()}
    depth = chance.choice((0, 3, 60, 300, 900))
    value = "[" * depth + repeated(chance, _UNITS) * chance.choice((1, 1, 5)) + "]" * depth
    name = chance.choice((*_SENT, "runtime"))
    body = json.dumps(_SENT | {name: "HERE"}).replace('"HERE"', value)
    return {"body": body.encode()[:_LARGEST]}


def _spelt_otherwise(chance: random.Random) -> dict[str, Any]:
    """The same record as a server may write it."""
    found = json.loads(_TEXT)
    for one in found["components"]:
        one["amount"] = float(one["amount"])
    chance.shuffle(found["components"])
    for values in found["meta"].values():
        chance.shuffle(values)
    found["stop_time"] = found["stop_time"].replace("Z", chance.choice(("Z", "+00:00", ".000Z")))
    return {name: found[name] for name in chance.sample(sorted(found), len(found))} | {"runtime": 7}


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    body = files["body"]
    says, context, _signer = receiver()
    said = ((b"500 Error", b"RECORD_EXISTS"), (b"200 OK", body), (b"200 OK", b""))
    says.answers = [
        b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status, GIVEN_MARK, len(text), text)
        for status, text in said
    ]
    session = Transport(context(), timeouts=TimeoutPolicy(connect_s=10, read_s=10, backoff_s=()))
    with closing(session), in_proportion(len(body)):
        sender = AuditorSender(f"https://localhost:{says.port}", session)
        sent = (SentRecord("job", 1, 1, 1, b"d", _SENT["record_id"]),)
        message = Message(
            1, DOCUMENT.message_format, "publish", 1, "", None, "", 1, sender.pack(DOCUMENT.join([_TEXT])), sent
        )
        answer = sender.send(message)
    assert answer.kind == Outcome.ACCEPTED, answer
    assert answer.text.isprintable(), answer
    assert len(answer.text) <= 600, answer
    row = answer.receiver_rows.get(_SENT["record_id"])
    assert row in _expected(body), answer
    # The end alone is put right.
    is_put_right = len(says.answers) == 0
    assert is_put_right == (
        row is None and not _same(json.loads(body.decode("utf-8-sig")).get("stop_time"), _SENT["stop_time"])
    )


def _expected(body: bytes) -> set[str | None]:
    """What the ledger may be given of the record: nothing, of the one that was sent."""
    if len(body) > 4 * len(_TEXT) + 4_096:
        return {OTHER}
    try:
        there = json.loads(body.decode("utf-8-sig"), parse_constant=int)
    except (ValueError, RecursionError):
        # It may also be too deep.
        return {KEPT, OTHER}
    if _levels(there) > _LEVELS:
        return {OTHER}
    if not isinstance(there, dict):
        return {KEPT}
    is_same = all(_same(there.get(name), value) for name, value in _SENT.items() if name != "stop_time")
    return {None} if is_same else {OTHER}


def _levels(value: Any, most: int = _LEVELS + 1) -> int:
    """How many, up to so many."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None or not most else 1 + max((_levels(one, most - 1) for one in inside), default=0)


def _same(one: Any, other: Any) -> bool:
    """Whether two values mean the same: arrays and members in any order, times in any zone."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        left = list(other)
        for value in one:
            place = next((number for number, found in enumerate(left) if _same(value, found)), None)
            if place is None:
                return False
            del left[place]
        return not left
    if isinstance(one, str) and isinstance(other, str):
        return one == other or (_time(one) is not None and _time(one) == _time(other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
