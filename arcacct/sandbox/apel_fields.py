"""
What APEL's parser and its database make of each field of a record, by the table of its rules (apel 3.1 to 3.5).
"""

from __future__ import annotations

from arcacct.sandbox.iso8601 import iso_instant
from arcacct.sandbox.ssm import Crashed, MessageRejected
from arcacct.targets.apel.rules import BENCHMARK_TYPES
from arcacct.targets.rules import Form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcacct.targets.rules import Rule

Value = str | int | float | dict[str, float] | None


def read(rules: Mapping[str, Rule], texts: dict[str, str]) -> dict[str, Value]:
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
        key, colon, value = part.partition(":")
        if not colon or key.strip() in found:
            raise MessageRejected(f"{name}: not a dictionary of benchmarks: {text}")
        found[key.strip()] = value.strip()
    lowered = {key.lower(): value for key, value in found.items()}
    chosen = next((kind for kind in BENCHMARK_TYPES if kind in lowered), None)
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
    if str(kind).lower() not in BENCHMARK_TYPES:
        raise MessageRejected(f"ScalingFactorUnit {kind} not valid")


def _value(name: str, rule: Rule, text: str) -> Value:
    if rule.form is Form.TEXT:
        if len(text) > rule.most:
            raise MessageRejected(f"Data too long for column {name}: {len(text)} characters of {rule.most}")
        return text
    if rule.form is Form.INTEGER:
        return int(_in_range(name, rule, _int(name, text)))
    if rule.form is Form.TIME:
        return _time(name, text)
    if rule.form is Form.BENCHMARK:
        return {kind: _in_range(name, rule, round(value, 3)) for kind, value in benchmark(name, text).items()}
    return _in_range(name, rule, round(_float(name, text), 3))


def _in_range(name: str, rule: Rule, value: float) -> float:
    if not rule.least <= value <= rule.most:
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
