r"""
A strict reader of APEL's text messages, written from the receiver's observed rules and from nothing of ours.

It is stricter than the server where leniency would hide a fault: no duplicate keys, no empty messages, and what the
database refuses is refused here.
"""

from __future__ import annotations

import re
from calendar import timegm
from typing import Any

INT = 2**31 - 1
BIGINT = 2**63 - 1
EXACT_VERSIONS = {
    ("APEL-individual-job-message", "v0.3"): "job",
    ("APEL-individual-job-message", "v0.4"): "job04",
    ("APEL-summary-job-message", "v0.2"): "summary",
    ("APEL-summary-job-message", "v0.3"): "normalised",
    ("APEL-summary-job-message", "v0.4"): "summary04",
    ("APEL-normalised-summary-message", "v0.4"): "normalised04",
    ("APEL-sync-message", "v0.1"): "sync",
}

_TEXT = {"Site", "SubmitHost", "GlobalUserName", "VO", "VOGroup", "VORole"}
_JOB = {
    **dict.fromkeys(_TEXT | {"MachineName", "LocalJobId", "LocalUserId", "FQAN"}, ("text", 255)),
    "Queue": ("text", 100),
    "InfrastructureDescription": ("text", 100),
    "InfrastructureType": ("text", 20),
    **dict.fromkeys(
        (
            "WallDuration",
            "CpuDuration",
            "Processors",
            "NodeCount",
            "StartTime",
            "EndTime",
            "MemoryReal",
            "MemoryVirtual",
        ),
        ("int", INT),
    ),
}
_SUMMARY = {
    **dict.fromkeys(_TEXT, ("text", 255)),
    **dict.fromkeys(("WallDuration", "CpuDuration"), ("int", BIGINT)),
    **dict.fromkeys(
        ("Month", "Year", "NumberOfJobs", "NodeCount", "Processors", "EarliestEndTime", "LatestEndTime"), ("int", INT)
    ),
}
_LEVEL = {"ServiceLevelType": ("benchmark", 50), "ServiceLevel": ("decimal", 10**7)}
_NORMALISED = ("NormalisedWallDuration", "NormalisedCpuDuration")
FIELDS: dict[str, dict[str, tuple[str, int]]] = {
    "job": {**_JOB, **_LEVEL},
    "job04": {**_JOB, "ServiceLevel": ("dictionary", 10**7)},
    "summary": {**_SUMMARY, "InfrastructureType": ("text", 20), **_LEVEL},
    "summary04": {**_SUMMARY, "InfrastructureType": ("text", 20), "ServiceLevel": ("dictionary", 10**7)},
    "normalised": {**_SUMMARY, "Infrastructure": ("text", 20), **dict.fromkeys(_NORMALISED, ("int", BIGINT))},
    "normalised04": {
        **_SUMMARY,
        "Infrastructure": ("text", 20),
        **dict.fromkeys(_NORMALISED, ("dictionary", BIGINT)),
    },
    "sync": {
        "Site": ("text", 255),
        "SubmitHost": ("text", 255),
        **dict.fromkeys(("NumberOfJobs", "Month", "Year"), ("int", INT)),
    },
}
_JOB_NEEDS = {"Site", "LocalJobId", "WallDuration", "CpuDuration", "StartTime", "EndTime", "ServiceLevel"}
_SUMMARY_NEEDS = {"Site", "Month", "Year", "WallDuration", "CpuDuration", "NumberOfJobs", "NodeCount", "Processors"}
NEEDS = {
    "job": _JOB_NEEDS | {"ServiceLevelType"},
    "job04": _JOB_NEEDS,
    "summary": _SUMMARY_NEEDS | {"ServiceLevelType", "ServiceLevel"},
    "summary04": _SUMMARY_NEEDS | {"ServiceLevel"},
    "normalised": _SUMMARY_NEEDS | set(_NORMALISED),
    "normalised04": _SUMMARY_NEEDS | set(_NORMALISED),
    "sync": {"Site", "SubmitHost", "NumberOfJobs", "Month", "Year"},
}
KEYS = {
    "job": ("Site", "LocalJobId", "EndTime"),
    "job04": ("Site", "LocalJobId", "EndTime"),
    **dict.fromkeys(
        ("summary", "summary04", "normalised", "normalised04"),
        (
            "Site",
            "Month",
            "Year",
            "GlobalUserName",
            "VO",
            "VORole",
            "VOGroup",
            "SubmitHost",
            "InfrastructureType",
            "Infrastructure",
            "ServiceLevelType",
            "ServiceLevel",
            "NodeCount",
            "Processors",
        ),
    ),
    "sync": ("Site", "SubmitHost", "Month", "Year"),
}


class Rejected(Exception):
    """The receiver would put the whole message aside."""


def parse(text: str, now: int) -> tuple[str, list[dict[str, Any]]]:
    """The kind of a message and its records; raises Rejected where the receiver would."""
    if not text.isascii():
        raise Rejected("not ASCII: the receiver's daemon stops")
    if "application/pkcs7-mime" in text or "application/x-pkcs7-mime" in text:
        raise Rejected("taken for an encrypted message")
    if "\r" in text.replace("\r\n", ""):
        raise Rejected("a bare CR breaks the signature")
    body = "\n".join(text.strip().splitlines())
    header, _, rest = body.partition("\n")
    name, colon, version = header.partition(":")
    kind = EXACT_VERSIONS.get((name, version.strip())) if colon else None
    if kind is None:
        raise Rejected(f"unknown header {header!r}")
    records = [_record(kind, chunk, now) for chunk in rest.split("%%") if chunk.strip()]
    if not records:
        raise Rejected("no records")
    return kind, records


def key_of(kind: str, record: dict[str, Any]) -> tuple[Any, ...]:
    """What the server replaces by, compared as MySQL does."""
    values = [record.get(name) for name in KEYS[kind]]
    if kind == "normalised04":
        values.append(record[_NORMALISED[0]][0])
    return tuple(value.rstrip(" ").lower() if isinstance(value, str) else value for value in values)


def unescaped(value: str) -> str:
    r"""The text behind ``\xHH`` escapes."""
    return re.sub(rb"\\x([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), value.encode("ascii")).decode(
        "utf-8", "surrogateescape"
    )


def _record(kind: str, chunk: str, now: int) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for line in chunk.strip().splitlines():
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not colon:
            raise Rejected(f"no colon in {line!r}")
        if key not in FIELDS[kind]:
            raise Rejected(f"unknown field {key}")
        if key in record:
            raise Rejected(f"{key} twice")
        if value.lower() in ("", "none", "null"):
            continue
        record[key] = _value(key, value, *FIELDS[kind][key])
    missing = NEEDS[kind] - set(record)
    if missing:
        raise Rejected(f"{sorted(missing)} missing")
    _check(kind, record, now)
    return record


def _value(key: str, value: str, kind: str, limit: int) -> Any:
    if kind == "text":
        if len(value) > limit:
            raise Rejected(f"{key} longer than {limit}")
        return value
    if kind == "int":
        if not re.fullmatch("[0-9]+", value) or int(value) > limit:
            raise Rejected(f"{key}: {value} is not an integer in 0..{limit}")
        return int(value)
    if kind == "benchmark":
        if value.lower() not in ("hepscore23", "hepspec", "si2k"):
            raise Rejected(f"benchmark type {value}")
        return value
    if kind == "decimal":
        return _decimal(key, value, limit)
    match = re.fullmatch(r"\{([A-Za-z0-9]+): ([0-9.]+)\}", value)
    if match is None or match[1].lower() not in ("hepscore23", "hepspec", "si2k"):
        raise Rejected(f"{key}: {value} is not a benchmark dictionary")
    return match[1].lower(), _decimal(key, match[2], limit)


def _decimal(key: str, value: str, limit: int) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]{1,3})?", value) or not float(value) < limit:
        raise Rejected(f"{key}: {value} does not fit DECIMAL(10,3)")
    return float(value)


def _check(kind: str, record: dict[str, Any], now: int) -> None:
    if kind in ("job", "job04"):
        if record["EndTime"] < record["StartTime"]:
            raise Rejected("EndTime before StartTime")
        if record["EndTime"] > now + 2 * 86400:
            raise Rejected("EndTime in the future")
    level = record.get("ServiceLevel")
    if level is not None and (level[1] if isinstance(level, tuple) else level) <= 0:
        raise Rejected("ServiceLevel is not positive")
    if "Month" in record:
        _check_month(record, now)
    if kind == "normalised04" and record[_NORMALISED[0]][0] != record[_NORMALISED[1]][0]:
        raise Rejected("mixture of benchmark types")


def _check_month(record: dict[str, Any], now: int) -> None:
    year, month = record["Year"], record["Month"]
    if not 1 <= month <= 12:
        raise Rejected(f"month {month}")
    first = timegm((year, month, 1, 0, 0, 0))
    last = timegm((year + month // 12, month % 12 + 1, 1, 0, 0, 0))
    if first > now:
        raise Rejected("month in the future")
    ends = [record[name] for name in ("EarliestEndTime", "LatestEndTime") if name in record]
    if ends != sorted(ends) or not all(first <= end <= last for end in ends):
        raise Rejected(f"ends {ends} outside {year}-{month}")
