"""An AUDITOR server: how it reads a record, its answers, and the content of its database (version 0.11.0)."""

from __future__ import annotations

import json
import operator
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from urllib.parse import unquote

from arcacct.sandbox.http_server import Arrival, HTTPAnswer, HTTPRequest, Journal, Receiver, Surroundings
from arcacct.targets.auditor.options import LARGEST_AMOUNT, LARGEST_BODY, LONGEST_NAME

# How AUDITOR reads a record, and what it refuses.


Value = TypeVar("Value")


class UnexpectedError(Exception):
    """Only the database refuses this, without a reason."""


class Score(NamedTuple):
    """The value of a component."""

    name: str
    value: float


class Component(NamedTuple):
    """An amount of a resource that a job had."""

    name: str
    amount: int
    scores: tuple[Score, ...]


class StoredRecord(NamedTuple):
    """A record in the database; times in UTC."""

    record_id: str
    meta: dict[str, tuple[str, ...]] | None
    components: tuple[Component, ...]
    start_time: datetime
    stop_time: datetime | None

    @property
    def runtime_s(self) -> int | None:
        """Whole seconds, by the server's own calculation."""
        return None if self.stop_time is None else int((self.stop_time - self.start_time).total_seconds())

    def json(self) -> str:
        """Return the record in the server's JSON."""
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
    Return a posted record; unknown fields are ignored.

    Raises ValueError if the server refuses it, UnexpectedError if its database does.
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
    """Return the changed record and its new value; only its end counts. Raises as `read`."""
    begin = {"start_time": _field(sent, "stop_time"), "meta": None}
    return name(_field(sent, "record_id")), read({**sent, **begin})


def name(text: Any) -> str:
    """A name by the server's rules, for ids, keys, values, components and scores. Raises as `read`."""
    found = _typed(text, str, "a string")
    if not found.strip():
        raise ValueError("the name is blank")
    # The closest to graphemes in the standard library.
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
    """Return a time of RFC 3339, of any zone but with one. Raises ValueError."""
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


# An AUDITOR server: its answers, and the content of its database (version 0.11.0). An existing record is a separate
# error, 500 with the body RECORD_EXISTS, and all the others of its request are refused. With an option of the server it
# is not an error, and the others are still lost. Only the end of a record can change, and nothing is ever deleted.


RECORD_EXISTS, UNEXPECTED_ERROR = b"RECORD_EXISTS", b"UNEXPECTED_ERROR"
_POSTS = ("/record", "/records")
"""The paths that take a record, and several."""

_COMPARE = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le, "equals": operator.eq}
_PART = re.compile(r"\[([^\[\]]*)\]")
_SORTED_BY = ("start_time", "stop_time", "runtime", "record_id")


class AuditorAccess(NamedTuple):
    """Permissions by the common name of the certificate: the server's ``tls_config`` and ``rbac_config``."""

    write: frozenset[str] = frozenset()
    """``write_access_cn``: may send records, and read none."""
    read: frozenset[str] = frozenset()
    """``read_access_cn``."""


class Auditor(Receiver):
    """The server with its database: `records` by record id."""

    endpoint, title, documents = "auditor", "AUDITOR", "auditor"
    demands_certificate = True

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.access: AuditorAccess | None = None
        """``None``: every client may do everything, as over plain HTTP."""
        self.ignores_repeats = False
        """``ignore_record_exists_error`` of its configuration."""
        self.largest_body = LARGEST_BODY
        self.repeats = 0
        """Requests with an existing record."""
        self._lock = threading.Lock()
        self._stored: dict[str, StoredRecord] = {}

    @classmethod
    def beside(cls, box: Surroundings) -> Self:
        """Return a server to which the sandbox's computing element may write, and that it may read."""
        auditor = cls(box.journal)
        names = frozenset({box.client.dn.rpartition("/CN=")[2]})
        auditor.access = AuditorAccess(names, names)
        return auditor

    def address(self, port: int) -> str:
        return f"AUDITOR https://localhost:{port}"

    def block(self, box: Surroundings) -> list[str]:
        words = [f"targeturl = {box.auditor_url}", "site_id = SANDBOX-SITE"]
        return ["[arcacct/auditor:sandbox]", *words, *box.credentials]

    def totals(self) -> list[str]:
        """A line for each month: how many records, and how long they ran."""
        jobs: Counter[str] = Counter()
        runtime_s: Counter[str] = Counter()
        for record in self.records.values():
            month = record.stop_time.strftime("%Y-%m") if record.stop_time else "unfinished"
            jobs[month] += 1
            runtime_s[month] += record.runtime_s or 0
        return [f"AUDITOR {month}: records {jobs[month]}, runtime {runtime_s[month]} s" for month in sorted(jobs)]

    @property
    def records(self) -> dict[str, StoredRecord]:
        """The database: each record by its id."""
        with self._lock:
            return dict(self._stored)

    def forget(self, *record_ids: str) -> None:
        """Remove records as an administrator does in the database, by hand: the server itself deletes nothing."""
        with self._lock:
            for record_id in record_ids:
                del self._stored[record_id]

    def delivers(self, request: HTTPRequest) -> bool:
        return request.method in {"POST", "PUT"} and request.path in _POSTS

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        if not self._may(request):
            return HTTPAnswer(403)
        if request.method == "GET":
            return self._read(request)
        if not self.delivers(request) or (request.method == "PUT" and request.path != "/record"):
            return HTTPAnswer(404)
        if len(request.body) > self.largest_body:
            return HTTPAnswer(413, b"JSON payload is larger than allowed")
        file = self.journal.keep("auditor", f"{self.journal.number('auditor')}.json", request.body)
        count, answer = self._write(request)
        verdict = "stored" if answer.status == 200 else answer.body.decode() or f"refused: {answer.status}"
        return answer._replace(arrivals=(Arrival("auditor", count, file, verdict),))

    def _may(self, request: HTTPRequest) -> bool:
        # Over plain HTTP there are no certificates, and no authentication.
        if self.access is None or request.peer is None:
            return True
        if request.method == "GET":
            # The server's own rule has another path, so no client may request its health.
            return request.path != "/health_check" and request.peer.common_name in self.access.read
        return request.peer.common_name in self.access.write

    def _read(self, request: HTTPRequest) -> HTTPAnswer:
        if request.path == "/health_check":
            return HTTPAnswer(200)
        if request.path == "/records":
            try:
                found = select(self.records.values(), request.query)
            except NoQuery as error:
                return HTTPAnswer(400, str(error).encode(), "text/plain")
            # One object after the other, without an array.
            return _json("".join(record.json() for record in found))
        folder, _, name = request.path.rpartition("/")
        if folder != "/record":
            return HTTPAnswer(404)
        record_id = unquote(name)
        if len(record_id) > LONGEST_NAME:
            return _json("null")
        record = self.records.get(record_id)
        return HTTPAnswer(500, UNEXPECTED_ERROR, "text/plain") if record is None else _json(record.json())

    def _write(self, request: HTTPRequest) -> tuple[int | None, HTTPAnswer]:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return None, HTTPAnswer(400, b"Content type error", "text/plain")
        try:
            sent = json.loads(request.body)
            if request.method == "PUT":
                return 1, self._update(*read_update(sent))
            records = list(map(read, array(sent) if request.path == "/records" else [sent]))
        except UnexpectedError:
            return None, HTTPAnswer(500, UNEXPECTED_ERROR, "text/plain")
        except ValueError as error:
            return None, HTTPAnswer(400, f"Json deserialize error: {error}".encode(), "text/plain")
        return len(records), self._insert(records)

    def _insert(self, records: list[StoredRecord]) -> HTTPAnswer:
        """Store all or none."""
        new = {record.record_id: record for record in records}
        with self._lock:
            if len(new) == len(records) and not new.keys() & self._stored.keys():
                self._stored |= new
                return HTTPAnswer(200)
            self.repeats += 1
        return HTTPAnswer(200) if self.ignores_repeats else HTTPAnswer(500, RECORD_EXISTS, "text/plain")

    def _update(self, record_id: str, end: StoredRecord) -> HTTPAnswer:
        with self._lock:
            if record_id not in self._stored:
                return HTTPAnswer(404)
            self._stored[record_id] = self._stored[record_id]._replace(stop_time=end.stop_time)
        return HTTPAnswer(200)


def _json(text: str) -> HTTPAnswer:
    return HTTPAnswer(200, text.encode(), "application/json")


class NoQuery(ValueError):
    """An invalid query."""


def select(records: Iterable[StoredRecord], query: Mapping[str, str]) -> list[StoredRecord]:
    """
    Return the records for ``GET /records?...``, in the server's order.

    Raises NoQuery. It copies the server's behaviour, even where that is unexpected.
    """
    tests: list[Test] = []
    order, descending, limit = "stop_time", False, None
    bounds: dict[str, dict[str, Any]] = {}
    for key, value in query.items():
        what, parts = key.partition("[")[0], _PART.findall(key)
        try:
            if what in ("start_time", "stop_time", "runtime") and len(parts) == 1:
                bounds.setdefault(what, {})[parts[0]] = int(value) if what == "runtime" else instant(value)
            elif what == "record_id":
                tests.append(lambda record, wanted=value: record.record_id == wanted)  # type: ignore[misc]
            elif what == "meta" and len(parts) == 3:
                tests.append(_meta_test(parts[0], parts[1], value))
            elif what == "component" and len(parts) == 2:
                # Only the first one is checked.
                tests.append(
                    lambda record, name=parts[0], compare=_COMPARE[parts[1]], amount=int(value): any(  # type: ignore[misc]
                        one.name == name and compare(one.amount, amount) for one in record.components[:1]
                    )
                )
            elif what == "sort_by" and parts[0] in ("asc", "desc") and value in _SORTED_BY:
                order, descending = value, parts[0] == "desc"
            elif what == "limit":
                limit = int(value)
            else:
                raise NoQuery(f"unknown field `{key}`")
        except (ValueError, KeyError, IndexError) as error:
            raise NoQuery(f"Query deserialize error: {error}") from error
    for what, given in bounds.items():
        tests += _within(what, given)
    found = [record for record in records if all(test(record) for test in tests)]
    # Records without an end come last, as PostgreSQL sorts them.
    found.sort(key=lambda record: ((value := _value(record, order)) is None, value or 0), reverse=descending)
    return found[:limit]


def _within(what: str, given: dict[str, Any]) -> Iterable[Test]:
    """Tests of a time or the runtime. Two lower or two upper bounds, or an equal time, and nothing is tested."""
    if not given.keys() <= _COMPARE.keys():
        raise NoQuery("unknown operator")
    if {"gt", "gte"} <= given.keys() or {"lt", "lte"} <= given.keys() or (what != "runtime" and "equals" in given):
        return
    for name, bound in given.items():
        yield lambda record, compare=_COMPARE[name], bound=bound: (  # type: ignore[misc]
            (value := _value(record, what)) is not None and compare(value, bound)
        )


def _meta_test(key: str, how: str, value: str) -> Test:
    """Whether a value is among those of a key; several lines for one key have all to hold."""
    if how not in ("c", "dnc"):
        raise NoQuery(f"unknown field `{how}`")
    return lambda record: (value in (record.meta or {}).get(key, ())) is (how == "c")


def _value(record: StoredRecord, what: str) -> Any:
    return record.runtime_s if what == "runtime" else getattr(record, what)


if TYPE_CHECKING:
    Test = Callable[[StoredRecord], bool]
