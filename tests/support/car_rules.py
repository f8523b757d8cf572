"""
A reader of compute accounting records by the rules of APEL's XML parser and database, written from their observed
behaviour: what lands in JobRecords, or why the whole message is put aside.
"""

from __future__ import annotations

import re
from typing import Any
from xml.dom import minidom
from xml.parsers.expat import ExpatError

NAMESPACE = "http://eu-emi.eu/namespaces/2012/11/computerecord"
INT4 = 2**31 - 1
_DURATION = re.compile(r"PT(\d+)S")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_TEXTS = {
    "Site": 255,
    "SubmitHost": 255,
    "MachineName": 255,
    "Queue": 100,
    "LocalJobId": 255,
    "LocalUserId": 255,
    "GlobalUserName": 255,
}


class Rejected(Exception):
    """The receiver would put the whole message aside."""


def parse(text: str) -> list[dict[str, Any]]:
    """The job records of a message; raises Rejected where the receiver would."""
    if not text.isascii() or "application/pkcs7-mime" in text or "application/x-pkcs7-mime" in text:
        raise Rejected("SSM does not pass this on")
    try:
        document = minidom.parseString("\n".join(text.splitlines()).strip())
    except ExpatError as error:
        raise Rejected(f"not well-formed: {error}") from error
    if document.firstChild.namespaceURI != NAMESPACE:
        raise Rejected("XML format not recognised")
    records = document.getElementsByTagNameNS(NAMESPACE, "UsageRecord")
    if not records:
        raise Rejected("no records")
    return [_record(record) for record in records]


def _all(record: minidom.Element, name: str) -> list[minidom.Element]:
    return list(record.getElementsByTagNameNS(NAMESPACE, name))


def _fits(text: str, width: int) -> bool:
    """The database names no charset: where its own is latin1, another character refuses the whole message."""
    return len(text) <= width and max(text) <= "\xff"


def _content(element: minidom.Element) -> str | None:
    text = "".join(node.data for node in element.childNodes)
    return None if text.strip().lower() in ("", "none", "null") else text


def _attribute(element: minidom.Element, name: str) -> str:
    return element.getAttributeNS(NAMESPACE, name)


def _record(record: minidom.Element) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, width in _TEXTS.items():
        found = _all(record, name)
        row[name] = _content(found[0]) if found else None
        if row[name] is not None and not _fits(row[name], width):
            raise Rejected(f"{name}: the column does not hold {row[name][:40]!r}")
    for name in ("Site", "LocalJobId"):
        if row[name] is None:
            raise Rejected(f"Mandatory field {name} not specified.")
    row.update(_membership(record))
    row.update(_usage(record))
    row.update(_times(record))
    infrastructure = _all(record, "Infrastructure")[0]
    row["InfrastructureType"] = _attribute(infrastructure, "type")
    row["InfrastructureDescription"] = _attribute(infrastructure, "description")
    if row["InfrastructureType"] not in ("grid", "local") or not _fits(row["InfrastructureDescription"], 100):
        raise Rejected("Infrastructure")
    return row


def _membership(record: minidom.Element) -> dict[str, Any]:
    attributes = {_attribute(element, "type"): _content(element) for element in _all(record, "GroupAttribute")}
    fqan = attributes.get("FQAN")
    if fqan is None:
        groups = _all(record, "Group")
        vo = _content(groups[0]) if groups else None
        found = {"FQAN": None, "VO": vo, "VOGroup": attributes.get("group"), "VORole": attributes.get("role")}
        if not all(_fits(text or " ", 255) for text in found.values()):
            raise Rejected(f"the columns do not hold {found}")
        return found
    if not _fits(fqan, 255):
        raise Rejected("FQAN: the column does not hold it")
    parts = fqan.strip("/").split("/")
    role = next((part for part in parts if part.startswith("Role=")), None)
    group = "/" + "/".join(part for part in parts if "=" not in part)
    return {"FQAN": fqan, "VO": parts[0], "VOGroup": group, "VORole": role}


def _usage(record: minidom.Element) -> dict[str, Any]:
    everything = [element for element in _all(record, "CpuDuration") if _attribute(element, "usageType") == "all"]
    if len(everything) != 1:
        raise Rejected("one CpuDuration of usageType all is needed")
    row: dict[str, Any] = {
        "WallDuration": _seconds(_all(record, "WallDuration")[0]),
        "CpuDuration": _seconds(everything[0]),
    }
    for name in ("Processors", "NodeCount"):
        found = _all(record, name)
        row[name] = int(_content(found[0]) or "") if found else 0
        if not 0 <= row[name] <= INT4:
            raise Rejected(name)
    level = _all(record, "ServiceLevel")[0]
    row["ServiceLevelType"] = _attribute(level, "type")
    row["ServiceLevel"] = float(_content(level) or "nan")
    if row["ServiceLevelType"].lower() not in ("si2k", "hepspec", "hepscore23"):
        raise Rejected(f"ServiceLevel type {row['ServiceLevelType']!r}")
    if not 0 < row["ServiceLevel"] < 10**7:
        raise Rejected("ServiceLevel")
    return row


def _seconds(element: minidom.Element) -> int:
    match = _DURATION.fullmatch(_content(element) or "")
    if match is None or int(match[1]) > INT4:
        raise Rejected("duration")
    return int(match[1])


def _times(record: minidom.Element) -> dict[str, str]:
    times = {name: _content(_all(record, name)[0]) or "" for name in ("StartTime", "EndTime")}
    if not all(_TIME.fullmatch(text) for text in times.values()) or times["EndTime"] < times["StartTime"]:
        raise Rejected(f"times {times}")
    return times
