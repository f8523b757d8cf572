"""
APEL's text messages: a header line, then records whose lines are ``key: value``, parted by ``%%`` (apel 3.1, 3.2).
"""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Mapping
from typing import NamedTuple

from arcacct.sandbox.iso8601 import iso_instant
from arcacct.sandbox.ssm import Crashed, MessageRejected
from arcacct.targets.apel import messages
from arcacct.targets.apel.messages import BENCHMARK_TYPES
from arcacct.targets.common import FUTURE_S, Form, Rule

JOBS, SUMMARIES, NORMALISED_SUMMARIES, SYNCS = "job_records", "summaries", "normalised_summaries", "sync_records"

Value = str | int | float | dict[str, float] | None


class LoadedRecord(NamedTuple):
    """A record and the table it goes to."""

    table: str
    values: dict[str, Value]


class _Family(NamedTuple):
    """What a header announces: the table, the fields, and the checks of a whole record."""

    table: str
    rules: Mapping[str, Rule]
    checks: tuple[Callable[[dict[str, Value], float], None], ...] = ()


def read(text: str, now: float) -> list[LoadedRecord]:
    """
    The records of a message, judged at `now` (UTC seconds).

    MessageRejected or Crashed if one of them is bad: then none of them counts.
    """
    if not text:
        # The loader takes the first line away without asking whether there is one.
        raise Crashed("IndexError: an empty message")
    header, _, rest = text.partition("\n")
    kind, colon, version = map(str.strip, header.partition(":"))
    if not colon:
        raise MessageRejected(f"Header not recognised: {header}")
    if kind == "APEL-individual-job-message":
        family = _JOB_04 if version.strip(": ") == "v0.4" else _JOB
    elif kind == "APEL-sync-message":
        family = _Family(SYNCS, messages.SYNC)
    elif header.strip() in _EXACT:
        family = _EXACT[header.strip()]
    else:
        raise MessageRejected(f"Message type not recognised: {header}")
    return [_record(family, chunk, now) for chunk in rest.split("%%") if chunk.strip()]


def _record(family: _Family, chunk: str, now: float) -> LoadedRecord:
    texts: dict[str, str] = {}
    for line in chunk.splitlines():
        if not line.strip():
            continue
        key, colon, value = map(str.strip, line.partition(":"))
        if not colon:
            raise MessageRejected(f"A line without a colon: {line}")
        texts[key] = value
    values = read_fields(family.rules, texts)
    for check in family.checks:
        check(values, now)
    return LoadedRecord(family.table, values)


def read_fields(rules: Mapping[str, Rule], texts: dict[str, str]) -> dict[str, Value]:
    """
    The values of one record, by the names of its fields; text that is null becomes ``'None'``, as APEL stores it.

    What the record names comes first, in its order, then what it leaves out.

    Raises MessageRejected for an unknown field, a missing one, or a value that parser or database refuse.
    """
    unknown = next((name for name in texts if name not in rules), None)
    if unknown is not None:
        raise MessageRejected(f"Unknown field: {unknown}")
    values: dict[str, Value] = {}
    for name in dict.fromkeys((*texts, *rules)):
        rule, text = rules[name], texts.get(name)
        if rule.form is Form.IGNORED:
            continue
        if text is None or text.lower() in {"none", "null", ""}:
            # A missing dictionary of benchmarks is found out later, and worse; an empty one here.
            if rule.needed or (rule.form is Form.BENCHMARK and text is not None):
                raise MessageRejected(f"Mandatory field {name} not specified.")
            values[name] = "None" if rule.form is Form.TEXT else None
        else:
            values[name] = _value(name, rule, text)
    return values


def benchmark(name: str, text: str) -> dict[str, float]:
    """``{TYPE: value, ...}``, braces optional, no quotes: the type APEL takes (lower case) with its value."""
    found: dict[str, str] = {}
    for part in text.strip().removeprefix("{").removesuffix("}").split(","):
        key, colon, value = map(str.strip, part.partition(":"))
        if not colon or key in found:
            raise MessageRejected(f"{name}: not a dictionary of benchmarks: {text}")
        found[key] = value
    lowered = {key.lower(): value for key, value in found.items()}
    chosen = next((kind for kind in BENCHMARK_TYPES if kind in lowered), None)
    if chosen is None:
        raise MessageRejected(f"{name}: no known benchmark in {text}")
    return {chosen: _number(name, lowered[chosen], float, "number")}


def one_benchmark(values: dict[str, Value], *names: str) -> None:
    """
    Put the value of a benchmark dictionary in place of it, and its type into ServiceLevelType, in lower case.

    The record is read from top to bottom: a ServiceLevelType below the dictionaries stays as it is, one above has to
    name their type in lower case. Raises MessageRejected for that, or if the dictionaries name different types.
    """
    types: set[str] = set()
    for name in names:
        chosen = values[name]
        if not isinstance(chosen, dict):
            # The loader looks the dictionary up without asking whether it came.
            raise Crashed(f"KeyError: {name}")
        types.update(chosen)
        values[name] = next(iter(chosen.values()))
    given = values["ServiceLevelType"]
    order = list(values)
    if given != "None" and order.index("ServiceLevelType") < max(map(order.index, names)):
        types.add(str(given))
    if len(types) > 1:
        raise MessageRejected("Mixture of benchmark types detected")
    if given == "None":
        values["ServiceLevelType"] = types.pop()


def _value(name: str, rule: Rule, text: str) -> Value:
    if rule.form is Form.TEXT:
        if len(text) > rule.most:
            raise MessageRejected(f"Data too long for column {name}: {len(text)} characters of {rule.most}")
        return text
    if rule.form is Form.INTEGER:
        return int(_in_range(name, rule, _number(name, text, int, "integer")))
    if rule.form is Form.TIME:
        return _number(name, text, _seconds, "time")
    if rule.form is Form.BENCHMARK:
        return {kind: _in_range(name, rule, round(value, 3)) for kind, value in benchmark(name, text).items()}
    return _in_range(name, rule, round(_number(name, text, float, "number"), 3))


def _in_range(name: str, rule: Rule, value: float) -> float:
    if not rule.least <= value <= rule.most:
        raise MessageRejected(f"Out of range value for column {name}: {value}")
    return value


def _number(name: str, text: str, convert: Callable[[str], float], what: str) -> float:
    try:
        return convert(text)
    except ValueError as error:
        raise MessageRejected(f"{name}: {text!r} is no {what}") from error


def _seconds(text: str) -> int:
    return int(text) if text.lstrip("+-").isdecimal() else iso_instant(text)


def check_job(values: dict[str, Value], now: float) -> None:
    """What APEL asks of any job record, and what it makes of VO and missing counts; raises MessageRejected."""
    start, end = int_of(values, "StartTime"), int_of(values, "EndTime")
    if end < start:
        raise MessageRejected("EndTime is before StartTime.")
    if end > now + FUTURE_S:
        raise MessageRejected("EndTime is more than two days in the future.")
    kind = values["ServiceLevelType"]
    if str(kind).lower() not in BENCHMARK_TYPES:
        raise MessageRejected(f"ScalingFactorUnit {kind} not valid")
    if values["FQAN"] != "None":
        derived = messages.derived(str(values["FQAN"]))
        values |= zip(("VO", "VOGroup", "VORole"), ("None" if one is None else one for one in derived), strict=True)
    for count in ("Processors", "NodeCount"):
        values[count] = values[count] or 0


def int_of(values: dict[str, Value], name: str) -> int:
    """A whole number which the record is known to have."""
    value = values[name]
    assert isinstance(value, int | float)
    return int(value)


def _job(values: dict[str, Value], _now: float) -> None:
    if values["ServiceLevelType"] == "None" and values["ServiceLevel"] is None:
        values["ServiceLevelType"], values["ServiceLevel"] = "custom", 1.0
    if values["ServiceLevel"] is None:
        raise MessageRejected("ServiceLevelType without ServiceLevel")


def _level(values: dict[str, Value], _now: float) -> None:
    one_benchmark(values, "ServiceLevel")
    values["ServiceLevel"] = round(float(str(values["ServiceLevel"])), 3)


def _month(values: dict[str, Value], now: float) -> None:
    month, year = int_of(values, "Month"), int_of(values, "Year")
    try:
        begin = calendar.timegm(dt.date(year, month, 1).timetuple())
    except OverflowError as error:
        raise Crashed(f"OverflowError: Month {month} of year {year}") from error
    except ValueError as error:
        raise MessageRejected(f"Month {month} of year {year}") from error
    if begin > now:
        raise MessageRejected("The month begins in the future.")
    end = calendar.timegm((year + month // 12, month % 12 + 1, 1, 0, 0, 0))
    earliest, latest = values["EarliestEndTime"], values["LatestEndTime"]
    for instant in (earliest, latest):
        if isinstance(instant, int) and not begin <= instant <= end:
            raise MessageRejected("EarliestEndTime or LatestEndTime outside the month")
    if isinstance(earliest, int) and isinstance(latest, int) and earliest > latest:
        raise MessageRejected("EarliestEndTime is after LatestEndTime.")


def _normalised(values: dict[str, Value], _now: float) -> None:
    names = ("NormalisedWallDuration", "NormalisedCpuDuration")
    one_benchmark(values, *names)
    for name in names:
        values[name] = int_of(values, name)


_JOB = _Family(JOBS, messages.JOB, (_job, check_job))
_JOB_04 = _Family(JOBS, messages.JOB_04, (_level, check_job))
# These need their blank and their exact version.
_EXACT = {
    "APEL-summary-job-message: v0.2": _Family(SUMMARIES, messages.SUMMARY, (_month,)),
    "APEL-summary-job-message: v0.3": _Family(NORMALISED_SUMMARIES, messages.NORMALISED, (_month,)),
    "APEL-summary-job-message: v0.4": _Family(SUMMARIES, messages.SUMMARY_04, (_level, _month)),
    "APEL-normalised-summary-message: v0.4": _Family(
        NORMALISED_SUMMARIES, messages.NORMALISED_04, (_normalised, _month)
    ),
}
