"""What AUDITOR reads of a record, and what it refuses to."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from arcacct.targets.auditor.options import LARGEST_AMOUNT, LONGEST_NAME

Value = TypeVar("Value")


class UnexpectedError(Exception):
    """What only the database refuses, in no words."""


class Score(NamedTuple):
    """What a component is worth."""

    name: str
    value: float


class Component(NamedTuple):
    """So much of something that a job had."""

    name: str
    amount: int
    scores: tuple[Score, ...]


class StoredRecord(NamedTuple):
    """A record as the database has it; times in UTC."""

    record_id: str
    meta: dict[str, tuple[str, ...]] | None
    components: tuple[Component, ...]
    start_time: datetime
    stop_time: datetime | None

    @property
    def runtime_s(self) -> int | None:
        """Whole seconds, by the server's own reckoning."""
        return None if self.stop_time is None else int((self.stop_time - self.start_time).total_seconds())

    def json(self) -> str:
        """The record as the server gives it out."""
        shown = {
            "record_id": self.record_id,
            "meta": self.meta,
            "components": [
                one._asdict() | {"scores": [score._asdict() for score in one.scores]} for one in self.components
            ],
            "start_time": _written(self.start_time),
            "stop_time": None if self.stop_time is None else _written(self.stop_time),
            "runtime": self.runtime_s,
        }
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def read(sent: Any) -> StoredRecord:
    """
    A posted record; fields that nobody knows are passed over.

    Raises ValueError for what the server refuses, UnexpectedError for what its database does.
    """
    stop_time = _field(sent, "stop_time", optional=True)
    return StoredRecord(
        name(_field(sent, "record_id")),
        _meta(_field(sent, "meta", optional=True)),
        tuple(map(_component, array(_field(sent, "components")))),
        instant(_field(sent, "start_time")),
        None if stop_time is None else instant(stop_time),
    )


def read_update(sent: Any) -> tuple[str, StoredRecord]:
    """The record that is changed, and what it is changed to; only its end counts. Raises as `read`."""
    begin = {"start_time": _field(sent, "stop_time"), "meta": None}
    return name(_field(sent, "record_id")), read({**sent, **begin})


def name(text: Any) -> str:
    """A name by the server's rules, for ids, keys, values, components and scores. Raises as `read`."""
    found = _typed(text, str, "a string")
    if not found.strip():
        raise ValueError("the name is blank")
    # As near to graphemes as the standard library comes.
    if sum(not unicodedata.combining(character) for character in found) > LONGEST_NAME:
        raise ValueError(f"the name is longer than {LONGEST_NAME}")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise ValueError("lone leading surrogate in hex escape") from None
    if "\0" in found:
        raise UnexpectedError
    return found


def instant(text: Any) -> datetime:
    """A time of RFC 3339, of any zone but with one. Raises ValueError."""
    found = datetime.fromisoformat(_typed(text, str, "a time"))
    if found.tzinfo is None:
        raise ValueError("premature end of input")
    return found.astimezone(UTC)


def _meta(sent: Any) -> dict[str, tuple[str, ...]] | None:
    if sent is None:
        return None
    return {name(key): tuple(map(name, array(values))) for key, values in _typed(sent, dict, "a map").items()}


def _component(sent: Any) -> Component:
    amount = _field(sent, "amount")
    if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= LARGEST_AMOUNT:
        raise ValueError(f"invalid value {amount}, expected i64 of 0 or more")
    return Component(name(_field(sent, "name")), amount, tuple(map(_score, array(_field(sent, "scores")))))


def _score(sent: Any) -> Score:
    value = _field(sent, "value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"invalid value {value}, expected f64 of 0 or more")
    return Score(name(_field(sent, "name")), float(value))


def _field(sent: Any, key: str, *, optional: bool = False) -> Any:
    value = _typed(sent, dict, "a map").get(key)
    if value is None and not optional:
        raise ValueError(f"missing field `{key}`")
    return value


def array(sent: Any) -> list[Any]:
    """An array. Raises ValueError."""
    return _typed(sent, list, "a sequence")


def _typed(sent: Any, kind: type[Value], what: str) -> Value:
    if not isinstance(sent, kind):
        raise ValueError(f"invalid type, expected {what}")  # noqa: TRY004  as the server has it
    return sent


def _written(when: datetime) -> str:
    return when.isoformat().replace("+00:00", "Z")
