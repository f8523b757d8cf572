"""
The fields of APEL's text records and what its parser and its database accept of each (apel 3.1 to 3.5).
"""

from __future__ import annotations

from typing import NamedTuple

from arcacct.sandbox.instants import iso_instant
from arcacct.sandbox.ssm import Crashed, MessageRejected

INT4 = 2**31 - 1
INT8 = 2**63 - 1
BENCHMARK_LIMIT = 10**7 - 0.001
BENCHMARKS = ("hepscore23", "hepspec", "si2k")
"""Benchmark types that APEL knows, the one it prefers first."""

TEXT, INT, FLOAT, TIME, BENCHMARK, IGNORED = "text", "int", "float", "time", "benchmark", "ignored"
WHOLE = "whole"
"""A whole number of any size: another check looks at it before the database can."""

Value = str | int | float | dict[str, float] | None


class Field(NamedTuple):
    """A field of a record; `largest` is characters of a text, or the largest number of the column."""

    kind: str
    largest: float = 255
    needed: bool = False
    """Refused by the parser, or by the database, if missing or null."""
    signed: bool = False
    """Numbers below zero are accepted."""


_KEYS = {"Site": Field(TEXT, needed=True), "SubmitHost": Field(TEXT)}
_WHO = {name: Field(TEXT) for name in ("GlobalUserName", "VO", "VOGroup", "VORole")}
_WHERE = {"InfrastructureDescription": Field(TEXT, 100)}
_OLD_TIMES = {"UpdateTime": Field(IGNORED)}

JOB = {
    **_KEYS,
    **_WHO,
    **_WHERE,
    **_OLD_TIMES,
    "SubmitHostType": Field(IGNORED),
    "MachineName": Field(TEXT),
    "Queue": Field(TEXT, 100),
    "LocalJobId": Field(TEXT, needed=True),
    "LocalUserId": Field(TEXT),
    "FQAN": Field(TEXT),
    "WallDuration": Field(INT, INT4, needed=True),
    "CpuDuration": Field(INT, INT4, needed=True),
    "Processors": Field(INT, INT4),
    "NodeCount": Field(INT, INT4),
    "StartTime": Field(TIME, needed=True),
    "EndTime": Field(TIME, needed=True),
    "InfrastructureType": Field(TEXT, 20),
    "MemoryReal": Field(INT, INT4),
    "MemoryVirtual": Field(INT, INT4),
    "ServiceLevelType": Field(TEXT, 50),
    "ServiceLevel": Field(FLOAT, BENCHMARK_LIMIT, signed=True),
}
JOB_04 = {**JOB, "ServiceLevel": Field(BENCHMARK, BENCHMARK_LIMIT, signed=True)}

_MONTH = {
    **_KEYS,
    **_WHO,
    **_WHERE,
    **_OLD_TIMES,
    "Month": Field(WHOLE, needed=True),
    "Year": Field(WHOLE, needed=True),
    "EarliestEndTime": Field(TIME),
    "LatestEndTime": Field(TIME),
    "WallDuration": Field(INT, INT8, needed=True),
    "CpuDuration": Field(INT, INT8, needed=True),
    "NumberOfJobs": Field(INT, INT4, needed=True),
    # Optional for the parser, NOT NULL without default in the database; of a job they have no sign, here they have.
    "NodeCount": Field(INT, INT4, needed=True, signed=True),
    "Processors": Field(INT, INT4, needed=True, signed=True),
}
SUMMARY = {
    **_MONTH,
    "InfrastructureType": Field(TEXT, 20),
    "ServiceLevelType": Field(TEXT, 50),
    "ServiceLevel": Field(FLOAT, BENCHMARK_LIMIT, needed=True, signed=True),
}
SUMMARY_04 = {
    **SUMMARY,
    "ServiceLevel": Field(BENCHMARK, BENCHMARK_LIMIT, needed=True, signed=True),
}
NORMALISED = {
    **_MONTH,
    "Infrastructure": Field(TEXT, 20),
    "ServiceLevelType": Field(TEXT, 50),
    "NormalisedWallDuration": Field(INT, INT8, needed=True),
    "NormalisedCpuDuration": Field(INT, INT8, needed=True),
}
NORMALISED_04 = {
    **NORMALISED,
    "NormalisedWallDuration": Field(BENCHMARK, INT8, needed=True),
    "NormalisedCpuDuration": Field(BENCHMARK, INT8, needed=True),
}
SYNC = {
    **_KEYS,
    # Neither the count nor the month of a sync record is looked at.
    "NumberOfJobs": Field(INT, INT8, needed=True, signed=True),
    "Month": Field(INT, INT4, needed=True, signed=True),
    "Year": Field(INT, INT4, needed=True, signed=True),
}


def read(fields: dict[str, Field], texts: dict[str, str]) -> dict[str, Value]:
    """
    The values of one record, by the names of its fields; text that is null becomes ``'None'``, as APEL stores it.

    What the record names comes first, in its order, then what it leaves out.

    Raises MessageRejected for an unknown field, a missing one, or a value that parser or database refuse.
    """
    unknown = next((name for name in texts if name not in fields), None)
    if unknown is not None:
        raise MessageRejected(f"Unknown field: {unknown}")
    values: dict[str, Value] = {}
    for name in dict.fromkeys((*texts, *fields)):
        field, text = fields[name], texts.get(name)
        if field.kind == IGNORED:
            continue
        if text is None or text.lower() in {"none", "null", ""}:
            # A missing dictionary of benchmarks is found out later, and worse; an empty one here.
            if field.needed or (field.kind == BENCHMARK and text is not None):
                raise MessageRejected(f"Mandatory field {name} not specified.")
            values[name] = "None" if field.kind == TEXT else None
        else:
            values[name] = _value(name, field, text)
    return values


def benchmark(name: str, text: str) -> dict[str, float]:
    """``{TYPE: value, ...}``, braces optional, no quotes: the type APEL takes (lower case) with its value."""
    found: dict[str, str] = {}
    for part in text.strip().removeprefix("{").removesuffix("}").split(","):
        key, colon, value = part.partition(":")
        if not colon or key.strip() in found:
            raise MessageRejected(f"{name}: not a dictionary of benchmarks: {text}")
        found[key.strip()] = value.strip()
    lowered = {key.lower(): value for key, value in found.items()}
    chosen = next((kind for kind in BENCHMARKS if kind in lowered), None)
    if chosen is None:
        raise MessageRejected(f"{name}: no known benchmark in {text}")
    return {chosen: _float(name, lowered[chosen])}


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
    if given != "None" and not _below(values, "ServiceLevelType", names):
        types.add(str(given))
    if len(types) > 1:
        raise MessageRejected("Mixture of benchmark types detected")
    if given == "None":
        values["ServiceLevelType"] = types.pop()


def _below(values: dict[str, Value], name: str, others: tuple[str, ...]) -> bool:
    order = list(values)
    return order.index(name) > max(order.index(other) for other in others)


def check_benchmark_type(kind: Value) -> None:
    """MessageRejected unless it is one of Si2k, HEPSPEC, HEPscore23, in whatever case."""
    if str(kind).lower() not in BENCHMARKS:
        raise MessageRejected(f"ScalingFactorUnit {kind} not valid")


def _value(name: str, field: Field, text: str) -> Value:
    if field.kind == TEXT:
        if len(text) > field.largest:
            raise MessageRejected(f"Data too long for column {name}: {len(text)} characters of {field.largest}")
        return text
    if field.kind == WHOLE:
        return _int(name, text)
    if field.kind == INT:
        return int(_in_range(name, field, _int(name, text)))
    if field.kind == TIME:
        return _time(name, text)
    if field.kind == BENCHMARK:
        return {kind: _in_range(name, field, round(value, 3)) for kind, value in benchmark(name, text).items()}
    return _in_range(name, field, round(_float(name, text), 3))


def _in_range(name: str, field: Field, value: float) -> float:
    if not (-field.largest if field.signed else 0) <= value <= field.largest:
        raise MessageRejected(f"Out of range value for column {name}: {value}")
    return value


def _int(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise MessageRejected(f"{name}: {text!r} is no integer") from error


def _float(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise MessageRejected(f"{name}: {text!r} is no number") from error


def _time(name: str, text: str) -> int:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else iso_instant(text)
    except ValueError as error:
        raise MessageRejected(f"{name}: {text!r} is no time") from error
