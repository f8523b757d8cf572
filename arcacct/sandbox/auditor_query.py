"""AUDITOR's query, ``GET /records?...``, with its traps: each is what the server does, whatever was meant."""

from __future__ import annotations

import operator
import re

from arcacct.sandbox.auditor_records import instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from arcacct.sandbox.auditor_records import StoredRecord

    Test = Callable[[StoredRecord], bool]

_COMPARE = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le, "equals": operator.eq}
_PART = re.compile(r"\[([^\[\]]*)\]")
_SORTED_BY = ("start_time", "stop_time", "runtime", "record_id")


class NoQuery(ValueError):
    """What is no query."""


def select(records: Iterable[StoredRecord], query: Mapping[str, str]) -> list[StoredRecord]:
    """The records that a query asks for, in the order in which they are given out. Raises NoQuery."""
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
                tests.append(_meta(parts[0], parts[1], value))
            elif what == "component" and len(parts) == 2:
                tests.append(_first_component(parts[0], _COMPARE[parts[1]], int(value)))
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
    found.sort(key=lambda record: _sort_key(record, order), reverse=descending)
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


def _meta(key: str, how: str, value: str) -> Test:
    """Whether a value is among those of a key; several lines for one key have all to hold."""
    if how not in ("c", "dnc"):
        raise NoQuery(f"unknown field `{how}`")
    return lambda record: (value in (record.meta or {}).get(key, ())) is (how == "c")


def _first_component(name: str, compare: Callable[[Any, Any], bool], amount: int) -> Test:
    """Of a record's components only the first is looked at."""
    return lambda record: any(one.name == name and compare(one.amount, amount) for one in record.components[:1])


def _value(record: StoredRecord, what: str) -> Any:
    return record.runtime_s if what == "runtime" else getattr(record, what)


def _sort_key(record: StoredRecord, order: str) -> tuple[bool, Any]:
    # What has no end comes last, as PostgreSQL sorts it.
    value = _value(record, order)
    return value is None, 0 if value is None else value
