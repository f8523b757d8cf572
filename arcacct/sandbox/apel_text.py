"""
APEL's text messages: a header line, then records whose lines are ``key: value``, parted by ``%%`` (apel 3.1, 3.2).
"""

from __future__ import annotations

import calendar
import datetime as dt
from typing import NamedTuple

from arcacct.sandbox import apel_fields as fields
from arcacct.sandbox.ssm import Crashed, MessageRejected
from arcacct.targets.apel import rules
from arcacct.targets.rules import FUTURE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcacct.sandbox.apel_fields import Value
    from arcacct.targets.rules import Rule

JOBS, SUMMARIES, NORMALISED_SUMMARIES, SYNCS = "job_records", "summaries", "normalised_summaries", "sync_records"


class LoadedRecord(NamedTuple):
    """A record and the table it goes to."""

    table: str
    values: dict[str, Value]


class _Family(NamedTuple):
    """What a header announces: the table, the fields, and the check of a whole record."""

    table: str
    rules: Mapping[str, Rule]
    check: Callable[[dict[str, Value], float], None]


def read(text: str, now: float) -> list[LoadedRecord]:
    """
    The records of a message, judged at `now` (UTC seconds).

    MessageRejected or Crashed if one of them is bad: then none of them counts.
    """
    if not text:
        # The loader takes the first line away without asking whether there is one.
        raise Crashed("IndexError: an empty message")
    header, _, rest = text.partition("\n")
    family = _family(header)
    return [_record(family, chunk, now) for chunk in rest.split("%%") if chunk.strip()]


def _family(header: str) -> _Family:
    kind, colon, version = header.partition(":")
    kind = kind.strip()
    exact = version.strip(": ")
    if not colon:
        raise MessageRejected(f"Header not recognised: {header}")
    if kind == "APEL-individual-job-message":
        return _Family(JOBS, rules.JOB_04, _job_04) if exact == "v0.4" else _Family(JOBS, rules.JOB, _job)
    if kind == "APEL-sync-message":
        return _Family(SYNCS, rules.SYNC, lambda _values, _now: None)
    # These need their blank and their exact version.
    family = _EXACT.get(header.strip())
    if family is None:
        raise MessageRejected(f"Message type not recognised: {header}")
    return family


def _record(family: _Family, chunk: str, now: float) -> LoadedRecord:
    texts: dict[str, str] = {}
    for line in chunk.splitlines():
        if not line.strip():
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise MessageRejected(f"A line without a colon: {line}")
        texts[key.strip()] = value.strip()
    values = fields.read(family.rules, texts)
    family.check(values, now)
    return LoadedRecord(family.table, values)


def check_job(values: dict[str, Value], now: float) -> None:
    """What APEL asks of any job record, and what it makes of VO and missing counts; raises MessageRejected."""
    start, end = int_of(values, "StartTime"), int_of(values, "EndTime")
    if end < start:
        raise MessageRejected("EndTime is before StartTime.")
    if end > now + FUTURE_S:
        raise MessageRejected("EndTime is more than two days in the future.")
    fields.check_benchmark_type(values["ServiceLevelType"])
    if values["FQAN"] != "None":
        values["VO"], values["VOGroup"], values["VORole"] = parse_fqan(str(values["FQAN"]))
    for count in ("Processors", "NodeCount"):
        values[count] = values[count] or 0


def parse_fqan(text: str) -> tuple[str, str, str]:
    """VO, group and role of the first FQAN of a list; what does not begin with a slash is a VO as it stands."""
    first = text.partition(";")[0]
    if not first.startswith("/"):
        return first, "None", "None"
    parts = first.strip("/").split("/")
    group = [part for part in parts if not part.startswith(("Role=", "Capability="))]
    role = next((part for part in parts if part.startswith("Role=")), "None")
    return parts[0], "/" + "/".join(group), role


def int_of(values: dict[str, Value], name: str) -> int:
    """A whole number which the record is known to have."""
    value = values[name]
    assert isinstance(value, int | float)
    return int(value)


def _job(values: dict[str, Value], now: float) -> None:
    if values["ServiceLevelType"] == "None" and values["ServiceLevel"] is None:
        values["ServiceLevelType"], values["ServiceLevel"] = "custom", 1.0
    if values["ServiceLevel"] is None:
        raise MessageRejected("ServiceLevelType without ServiceLevel")
    check_job(values, now)


def _job_04(values: dict[str, Value], now: float) -> None:
    fields.one_benchmark(values, "ServiceLevel")
    values["ServiceLevel"] = round(float(str(values["ServiceLevel"])), 3)
    check_job(values, now)


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


def _summary_04(values: dict[str, Value], now: float) -> None:
    fields.one_benchmark(values, "ServiceLevel")
    values["ServiceLevel"] = round(float(str(values["ServiceLevel"])), 3)
    _month(values, now)


def _normalised_04(values: dict[str, Value], now: float) -> None:
    names = ("NormalisedWallDuration", "NormalisedCpuDuration")
    fields.one_benchmark(values, *names)
    for name in names:
        values[name] = int_of(values, name)
    _month(values, now)


_EXACT = {
    "APEL-summary-job-message: v0.2": _Family(SUMMARIES, rules.SUMMARY, _month),
    "APEL-summary-job-message: v0.3": _Family(NORMALISED_SUMMARIES, rules.NORMALISED, _month),
    "APEL-summary-job-message: v0.4": _Family(SUMMARIES, rules.SUMMARY_04, _summary_04),
    "APEL-normalised-summary-message: v0.4": _Family(NORMALISED_SUMMARIES, rules.NORMALISED_04, _normalised_04),
}
