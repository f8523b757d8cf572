"""
A strict reader of usage records: what the sandbox's SGAS stores of a document, less what only its leniency lets pass
and what would be stored as nothing or counted wrongly.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from arcacct.sandbox import sgas
from arcacct.sandbox.sgas import DatabaseRefuses, Row, UnreadableRecord
from arcacct.targets.sgas.usage_record import NAMESPACES

_RENAMED = {
    "wall_duration": "wall_s",
    "cpu_duration": "cpu_s",
    "project_name": "project",
    "vo_attributes": "voattributes",
    "runtime_environments": "environments",
    "start_time": "StartTime",
    "user_time": "UserTime",
    "kernel_time": "KernelTime",
}
_FORMS = {
    ".//urf:WallDuration | .//urf:CpuDuration | .//sgas:UserTime | .//sgas:KernelTime": r"PT(\d+H)?(\d+M)?(\d+S)?",
    ".//urf:StartTime | .//urf:EndTime | .//deisa:SubmitTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    ".//urf:NodeCount | .//urf:Processors | .//urf:Memory | .//tr:Size": r"\d+",
}


class Refused(Exception):
    """SGAS would answer 500 and roll the whole batch back, or store something else."""


def parse(document: bytes) -> list[dict[str, Any]]:
    """The rows of a document, by the names of the tests; raises Refused where SGAS would."""
    try:
        rows = sgas.read(document)
        for row in rows:
            sgas.check(row)
    except (UnreadableRecord, DatabaseRefuses) as error:
        raise Refused(str(error)) from error
    root = etree.fromstring(document, etree.XMLParser(huge_tree=True))
    return [_row(row, record) for row, record in zip(rows, root, strict=True)]


def without_addresses(root: etree._Element) -> etree._Element:
    """
    The document as the schema can judge it: its pattern for SubmitHost takes host names, and SGAS does not enforce it.

    An address is taken out, so that all the rest is still checked; that it is stored has tests of its own.
    """
    for element in root.findall(".//urf:SubmitHost", NAMESPACES):
        if re.fullmatch(r"[0-9.]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*", element.text or ""):
            element.getparent().remove(element)
    return root


def _row(row: Row, record: etree._Element) -> dict[str, Any]:
    for path, form in _FORMS.items():
        for element in record.xpath(path, namespaces=NAMESPACES):
            _require(bool(re.fullmatch(form, element.text or "")), f"{element.tag}: {element.text}")
    for element in record.iterfind("urf:CpuDuration", NAMESPACES):
        _require(element.get(f"{{{NAMESPACES['urf']}}}usageType") in ("user", "system"), "CPU counted twice")
    identity = record.find("urf:RecordIdentity", NAMESPACES).get(f"{{{NAMESPACES['urf']}}}recordId")
    _require(bool(identity) and row.record_id == identity, "SGAS would rename the record")
    _require(row.node_count != 0 and row.processors != 0, "a count of 0 makes the wall time 0")
    _require(None not in {row.wall_duration, row.cpu_duration, row.start_time, row.end_time, row.submit_time}, "NULL")
    _require(min(row.wall_duration, row.cpu_duration) >= 0, "less than nothing was used")
    attributes = record.find(".//vo:Attribute", NAMESPACES)
    _require(row.vo_name is not None or attributes is None, "VO without a name: all of it would be dropped")
    stored = {_RENAMED.get(column, column): value for column, value in row._asdict().items()}
    return {
        **stored,
        "voattributes": list(row.vo_attributes),
        "environments": list(row.runtime_environments),
        "memory": [(memory.bytes, memory.type) for memory in row.memory],
        "transfers": [(f"File{one.kind.title()}", one.url, one.size_bytes, one.from_cache) for one in row.transfers],
    }


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise Refused(words)
