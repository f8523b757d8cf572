"""
EMI compute accounting records as APEL's server reads them (sgas-ur-car 2c).

Elements are found by name in their namespace at any depth, the first of each counts; attributes only with the
namespace. Memory, the record's identity and everything about status are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.dom import minidom
from xml.parsers.expat import ExpatError

from arcacct.sandbox.apel_text import JOBS, LoadedRecord, check_job, read_fields
from arcacct.sandbox.iso8601 import apel_duration_s, iso_instant
from arcacct.sandbox.ssm import MessageRejected
from arcacct.targets.apel.messages import JOB

CAR = "http://eu-emi.eu/namespaces/2012/11/computerecord"
_TEXTS = (
    *("Site", "SubmitHost", "MachineName", "Queue", "LocalJobId", "LocalUserId", "GlobalUserName"),
    *("Processors", "NodeCount"),
)
_GROUP_ATTRIBUTES = {"FQAN": "FQAN", "VOGroup": "group", "VORole": "role"}
AUR = "http://eu-emi.eu/namespaces/2012/11/aggregatedcomputerecord"


def read(text: str, now: float) -> list[LoadedRecord]:
    """The job records of an XML message at `now`; MessageRejected if one of them is bad, or if it is no CAR."""
    try:
        document = minidom.parseString(text.encode())  # noqa: S318  only what this machine's own publisher sends
    except ExpatError as error:
        raise MessageRejected(f"XML not well-formed: {error}") from error
    # The first node, not the root: a comment before the root hides it from APEL.
    namespace = getattr(document.firstChild, "namespaceURI", None)
    if namespace == AUR:
        raise MessageRejected("Aggregated usage record not yet supported.")
    if namespace != CAR:
        raise MessageRejected("XML format not recognised.")
    records = document.getElementsByTagNameNS(CAR, "UsageRecord")
    if not records:
        raise MessageRejected("No usage record in the message")
    return [_record(record, now) for record in records]


def _record(record: minidom.Element, now: float) -> LoadedRecord:
    level = next(_elements(record, "ServiceLevel"), None)
    infrastructure = next(_elements(record, "Infrastructure"), None)
    groups = list(_elements(record, "GroupAttribute"))
    texts = {
        **{name: _text(record, name) for name in _TEXTS},
        **{name: _converted(_text(record, name), iso_instant) for name in ("StartTime", "EndTime")},
        "VO": _text(record, "Group"),
        **{
            name: next((_content(one) for one in groups if _attribute(one, "type") == kind), None)
            for name, kind in _GROUP_ATTRIBUTES.items()
        },
        "WallDuration": _converted(_text(record, "WallDuration"), apel_duration_s),
        "CpuDuration": _converted(_cpu(record), apel_duration_s),
        "InfrastructureDescription": _attribute(infrastructure, "description"),
        "InfrastructureType": _attribute(infrastructure, "type"),
        # Without any ServiceLevel the record is taken for one of an own unit, which the next check refuses.
        "ServiceLevelType": "custom" if level is None else _attribute(level, "type"),
        "ServiceLevel": "1" if level is None else _content(level),
    }
    values = read_fields(JOB, {name: text for name, text in texts.items() if text is not None})
    if values["ServiceLevel"] is None or values["ServiceLevelType"] == "None":
        raise MessageRejected("ServiceLevel without value or type")
    check_job(values, now)
    return LoadedRecord(JOBS, values)


def _cpu(record: minidom.Element) -> str | None:
    durations = list(_elements(record, "CpuDuration"))
    total = [one for one in durations if _attribute(one, "usageType") == "all"]
    if len(total) > 1:
        raise MessageRejected("Mandatory field CpuDuration not specified.")
    return _content((total or durations)[0]) if durations else None


def _converted(text: str | None, convert: Callable[[str], int]) -> str | None:
    try:
        return None if not text else str(convert(text))
    except ValueError as error:
        raise MessageRejected(str(error)) from error


def _text(record: minidom.Element, name: str) -> str | None:
    return next((_content(element) for element in _elements(record, name)), None)


def _elements(record: minidom.Element, name: str) -> Iterator[minidom.Element]:
    return iter(record.getElementsByTagNameNS(CAR, name))


def _attribute(element: minidom.Element | None, name: str) -> str | None:
    return None if element is None else element.getAttributeNS(CAR, name) or None


def _content(element: minidom.Element) -> str:
    return "".join(node.data for node in element.childNodes if isinstance(node, minidom.Text)).strip()
