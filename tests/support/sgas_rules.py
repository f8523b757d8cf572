"""
A reader of usage records by SGAS's own rules, written from the receiver's observed behaviour: what it stores of a
document, or why it would answer 500. PostgreSQL's column widths are part of it.
"""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

URF = "http://schema.ogf.org/urf/2003/09/urf"
VO = "http://www.sgas.se/namespaces/2009/05/ur/vo"
TR = "http://www.sgas.se/namespaces/2010/10/filetransfer"
ARC = "http://www.nordugrid.org/ws/schemas/ur-arc"
SGAS = "http://www.sgas.se/namespaces/2009/07/ur"
DEISA = "http://rmis.deisa.org/acct"

SMALLINT, INT4, INT8 = 2**15 - 1, 2**31 - 1, 2**63 - 1
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Refused(Exception):
    """SGAS would answer 500 and roll the whole batch back."""


def parse(document: bytes) -> list[dict[str, Any]]:
    """The rows of a document; raises Refused where SGAS would."""
    try:
        root = etree.fromstring(document.decode("utf-8").encode("utf-8"))
    except (UnicodeDecodeError, etree.XMLSyntaxError) as error:
        raise Refused(f"not well-formed: {error}") from error
    if root.tag != f"{{{URF}}}UsageRecords":
        raise Refused(f"root {root.tag}")
    for child in root:
        if child.tag != f"{{{URF}}}JobUsageRecord":
            raise Refused(f"child {child.tag}")
    return [_row(record) for record in root]


def without_addresses(root: etree._Element) -> etree._Element:
    """
    The document as the schema can judge it: its pattern for SubmitHost takes host names, and SGAS does not enforce it.

    An address is taken out, so that all the rest is still checked; that it is stored has tests of its own.
    """
    for element in root.findall(f".//{{{URF}}}SubmitHost"):
        if re.fullmatch(r"[0-9.]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*", element.text or ""):
            element.getparent().remove(element)
    return root


def _row(record: etree._Element) -> dict[str, Any]:
    row: dict[str, Any] = {"voattributes": [], "memory": [], "environments": [], "transfers": []}
    _identity(record, row)
    _texts(record, row)
    _numbers(record, row)
    _extensions(record, row)
    return row


def _texts(record: etree._Element, row: dict[str, Any]) -> None:
    for name, column, width in (
        ("GlobalJobId", "global_job_id", 1000),
        ("LocalUserId", "local_user", 100),
        ("GlobalUserName", "global_user_name", 1000),
        ("JobName", "job_name", 1000),
        ("Status", "status", 100),
        ("ProjectName", "project", 200),
        ("SubmitHost", "submit_host", 200),
        ("MachineName", "machine_name", 200),
        ("Queue", "queue", 200),
    ):
        elements = record.findall(f".//{{{URF}}}{name}")
        row[column] = _width(elements[-1].text, width, name) if elements else None
    hosts = record.findall(f"{{{URF}}}Host")
    row["host"] = hosts[-1].text if hosts else None
    if not row["machine_name"]:
        raise Refused("no MachineName")


def _identity(record: etree._Element, row: dict[str, Any]) -> None:
    identity = record.find(f"{{{URF}}}RecordIdentity")
    if identity is None or f"{{{URF}}}createTime" not in identity.attrib:
        raise Refused("no createTime")
    row["record_id"] = _width(identity.get(f"{{{URF}}}recordId"), 1000, "recordId")
    row["create_time"] = _time(identity.get(f"{{{URF}}}createTime"))
    if not row["record_id"]:
        raise Refused("no recordId")
    local = record.find(f".//{{{URF}}}LocalJobId")
    row["local_job_id"] = None if local is None else local.text
    if local is not None and not local.text:
        raise Refused("LocalJobId is empty")
    if local is not None and (len(local.text) > 120 or local.text.startswith("/")):
        raise Refused("SGAS would rename the record")


def _numbers(record: etree._Element, row: dict[str, Any]) -> None:
    row["wall_s"] = _amount(_duration(record.find(f"{{{URF}}}WallDuration")), INT4)
    cpu = record.findall(f"{{{URF}}}CpuDuration")
    if any(element.get(f"{{{URF}}}usageType") == "all" for element in cpu):
        raise Refused("usageType all would be counted twice")
    row["cpu_s"] = _amount(sum(_duration(element) for element in cpu), INT8)
    for name, limit in (("NodeCount", SMALLINT), ("Processors", INT4)):
        element = record.find(f"{{{URF}}}{name}")
        row[name] = None if element is None else _amount(int(element.text), limit)
        if row[name] == 0:
            raise Refused(f"{name} 0 makes the wall time 0")
    for name in ("StartTime", "EndTime"):
        row[name] = _time(record.findtext(f"{{{URF}}}{name}"))
    for element in record.findall(f"{{{URF}}}Memory"):
        kind = element.get(f"{{{URF}}}type")
        if element.get(f"{{{URF}}}metric") not in ("total", "average", "min", "max"):
            raise Refused("metric of Memory")
        size = _amount(int(element.text) * {"KB": 1024, "B": 1}[element.get(f"{{{URF}}}storageUnit")], INT8)
        row["memory"].append((size, kind if kind in ("shared", "physical", "dedicated") else ""))


def _extensions(record: etree._Element, row: dict[str, Any]) -> None:
    row["vo_name"] = _width(record.findtext(f".//{{{VO}}}Name"), 1000, "vo:Name")
    row["vo_issuer"] = _width(record.findtext(f".//{{{VO}}}Issuer"), 1000, "vo:Issuer")
    for attribute in record.findall(f".//{{{VO}}}Attribute"):
        pair = (attribute.findtext(f"{{{VO}}}Group"), attribute.findtext(f"{{{VO}}}Role"))
        row["voattributes"].append(tuple(_width(text, 100, "vo:Attribute") for text in pair))
    if row["voattributes"] and not row["vo_name"]:
        raise Refused("VO without a name: all of it would be dropped")
    row["submit_time"] = _time(record.findtext(f"{{{DEISA}}}SubmitTime"))
    for name in ("UserTime", "KernelTime"):
        element = record.find(f"{{{SGAS}}}{name}")
        row[name] = None if element is None else _amount(_duration(element), INT4)
    exit_code = record.findtext(f"{{{SGAS}}}ExitCode")
    row["exit_code"] = None if exit_code is None else int(exit_code) & 0xFF
    for element in record.findall(f"{{{ARC}}}RuntimeEnvironment"):
        if not element.text:
            raise Refused("RuntimeEnvironment is empty")
        row["environments"].append(_width(element.text, 512, "RuntimeEnvironment"))
    for element in record.findall(f"{{{TR}}}FileTransfers/*"):
        url = element.findtext(f"{{{TR}}}URL")
        if not url:
            raise Refused("transfer without a URL")
        size = _amount(int(element.findtext(f"{{{TR}}}Size")), INT8)
        cached = element.findtext(f"{{{TR}}}RetrievedFromCache")
        row["transfers"].append((etree.QName(element).localname, _width(url, 2500, "URL"), size, cached))


def _width(text: str | None, limit: int, name: str) -> str | None:
    if text is not None and len(text) > limit:
        raise Refused(f"{name}: value too long for type character varying({limit})")
    return text


def _amount(number: int, limit: int) -> int:
    if not 0 <= number <= limit:
        raise Refused(f"{number} out of range")
    return number


def _duration(element: etree._Element | None) -> int:
    match = _DURATION.fullmatch(element.text or "") if element is not None else None
    if match is None:
        raise Refused("a duration is missing or would be stored as nothing")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _time(text: str | None) -> str:
    if text is None or not _TIME.fullmatch(text):
        raise Refused(f"time {text!r} would be stored as nothing")
    return text
