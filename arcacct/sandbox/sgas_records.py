"""
Usage records as the SGAS server reads them: XML in, one row of its database a record.

The rules are the server's, not the schema's: order does not matter, unknown elements are passed over, attributes
count only with their namespace, the last of a repeated element wins except where it adds up (sgas-ur-car 1.5). Each
of them is read, though: a number or a time that is empty fails wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree as ET

from arcacct.sandbox.iso8601 import duration_s, sgas_instant
from arcacct.targets.common import Form
from arcacct.targets.sgas.usage_record import NAMESPACES, RULES

Value = TypeVar("Value")

_UNITS = {unit + "B": 1024**power for power, unit in enumerate(("", "K", "M", "G", "T", "P", "E"))}
_BIT_UNITS = {unit + "b" for unit in ("", "K", "M", "G", "T", "P", "E")}
_METRICS = ("total", "average", "min", "max")
_MEMORY_TYPES = ("shared", "physical", "dedicated")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class UnreadableRecord(Exception):
    """The server fails before it reaches its database: 500 without a word why."""


class DatabaseRefuses(Exception):
    """The database (or its driver) refuses a value: 500 with its text."""


class Memory(NamedTuple):
    bytes: int
    metric: str
    type: str
    """Empty unless shared, physical or dedicated: ARC's `virtual` is lost."""


class FileTransfer(NamedTuple):
    kind: str
    """``download`` or ``upload``."""
    url: str
    size_bytes: int | None
    start_time: int | None
    end_time: int | None
    bypass_cache: bool | None
    from_cache: bool | None


class Row(NamedTuple):
    """What the server's database holds of a job: times in UTC seconds, durations in seconds, None for NULL."""

    record_id: str | None = None
    create_time: int | None = None
    global_job_id: str | None = None
    local_job_id: str | None = None
    local_user: str | None = None
    global_user_name: str | None = None
    vo_type: str | None = None
    vo_issuer: str | None = None
    vo_name: str | None = None
    vo_attributes: tuple[tuple[str | None, str | None], ...] = ()
    job_name: str | None = None
    charge: int | None = None
    status: str | None = None
    wall_duration: int | None = None
    cpu_duration: int | None = None
    node_count: int | None = None
    processors: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    submit_time: int | None = None
    project_name: str | None = None
    submit_host: str | None = None
    machine_name: str = ""
    host: str | None = None
    queue: str | None = None
    memory: tuple[Memory, ...] = ()
    user_time: int | None = None
    kernel_time: int | None = None
    exit_code: int | None = None
    major_page_faults: int | None = None
    runtime_environments: tuple[str | None, ...] = ()
    transfers: tuple[FileTransfer, ...] = ()


def read(document: bytes) -> list[Row]:
    """
    The rows of a posted document.

    Raises UnreadableRecord for what makes the real server fail before its database (not UTF-8, not well-formed, another
    root or child, no MachineName, ...) and DatabaseRefuses where the value breaks in the driver.
    """
    try:
        # The server decodes first and parses text: the declared encoding counts for nothing.
        text = re.sub(r"^<\?xml[^>]*\?>", "", document.decode("utf-8"))
        root = ET.fromstring(text)  # noqa: S314  only what this machine's own publisher sends
    except (UnicodeDecodeError, ET.ParseError, ValueError) as error:
        raise UnreadableRecord(str(error)) from error
    if root.tag == _qualified("urf:JobUsageRecord"):
        return [_row(root)]
    if root.tag != _qualified("urf:UsageRecords"):
        raise UnreadableRecord(f"root element {root.tag}")
    if any(child.tag != _qualified("urf:JobUsageRecord") for child in root):
        raise UnreadableRecord("a child that is no JobUsageRecord")
    return [_row(record) for record in root]


def _row(record: ET.Element) -> Row:
    columns: dict[str, Any] = {
        column: _last(record, RULES[column].element, _READ[column])
        if column in _READ
        else _text(record, RULES[column].element)
        for column in _BY_ITSELF
    }
    if not columns["machine_name"]:
        raise UnreadableRecord("no MachineName")
    if columns["local_job_id"] is None and record.find(RULES["local_job_id"].element, NAMESPACES) is not None:
        raise UnreadableRecord("an empty LocalJobId")
    longest = int(RULES["host"].most)
    if len(host := columns["host"] or "") > longest:
        columns["host"] = host[: longest - 1] + "$"
    if record.find("urf:Processors", NAMESPACES) is None:
        # The server takes a lone NodeCount for the processors.
        columns["node_count"], columns["processors"] = None, columns["node_count"]
    row = Row(
        **columns,
        **_identity(record),
        **_virtual_organisation(record),
        cpu_duration=_cpu(_each(record, "urf:CpuDuration", duration_s)),
        memory=tuple(_memory(element) for element in record.findall("urf:Memory", NAMESPACES)),
        exit_code=_exit_code(record),
        runtime_environments=tuple(element.text for element in record if element.tag in _ENVIRONMENTS),
        transfers=tuple(_transfers(record)),
    )
    odd = row.local_job_id
    if odd is None or (len(odd) <= RULES["local_job_id"].most and not odd.startswith("/")):
        return row
    # A long LocalJobId, or one like a path, is dropped, and the record gets another identity (sgas-ur-car 1.4).
    return row._replace(local_job_id=None, record_id=row.global_job_id or f"{row.machine_name}:{row.create_time}")


def _identity(record: ET.Element) -> dict[str, Any]:
    identity = next(reversed(record.findall("urf:RecordIdentity", NAMESPACES)), None)
    create_time = None if identity is None else identity.get(_qualified("urf:createTime"))
    if identity is None or create_time is None:
        raise UnreadableRecord("no urf:createTime")
    return {"record_id": identity.get(_qualified("urf:recordId")), "create_time": sgas_instant(create_time)}


def _virtual_organisation(record: ET.Element) -> dict[str, Any]:
    found = record.findall("urf:UserIdentity/vo:VO", NAMESPACES)
    # Of what is there twice the server keeps the last.
    names = [vo for vo in found if _text(vo, "vo:Name")]
    if not names:
        return {}  # without a name the server drops everything about the VO
    vo = names[-1]
    return {
        "vo_name": _text(vo, "vo:Name"),
        "vo_type": vo.get(_qualified("vo:type")),
        "vo_issuer": _text(vo, "vo:Issuer"),
        "vo_attributes": tuple(
            # Several groups of one attribute run together, and are too long for the column together.
            (
                "".join(element.text or "" for element in attribute.findall("vo:Group", NAMESPACES)) or None,
                _text(attribute, "vo:Role"),
            )
            for attribute in vo.findall("vo:Attribute", NAMESPACES)
        ),
    }


def _cpu(values: list[int | None]) -> int | None:
    if len(values) > 1 and None in values:
        raise UnreadableRecord("one CpuDuration of several cannot be read")
    return sum(value for value in values if value is not None) if values and None not in values else None


def _memory(element: ET.Element) -> Memory:
    unit, metric = element.get(_qualified("urf:storageUnit"), ""), element.get(_qualified("urf:metric"), "total")
    try:
        value = int(element.text or "")
    except ValueError as error:
        raise UnreadableRecord(f"Memory {element.text!r}") from error
    if unit in _BIT_UNITS:
        raise DatabaseRefuses("invalid input syntax for type bigint")
    if metric not in _METRICS:
        raise DatabaseRefuses("'SgasMemory' object has no attribute 'metric'")
    kind = element.get(_qualified("urf:type"), "")
    return Memory(value * _UNITS.get(unit, 1), metric, kind if kind in _MEMORY_TYPES else "")


def _transfers(record: ET.Element) -> Iterator[FileTransfer]:
    kinds = {_qualified("tr:FileDownload"): "download", _qualified("tr:FileUpload"): "upload"}
    for element in record.findall("tr:FileTransfers/*", NAMESPACES):
        if element.tag in kinds:
            if not len(element):
                raise DatabaseRefuses("lower bound of FOR loop cannot be null")
            url = _text(element, "tr:URL")
            if not url:
                raise DatabaseRefuses('null value in column "job_transfer_url" violates not-null constraint')
            yield FileTransfer(
                kinds[element.tag],
                url,
                _last(element, "tr:Size", _integer),
                _last(element, "tr:StartTime", sgas_instant),
                _last(element, "tr:EndTime", sgas_instant),
                _last(element, "tr:BypassCache", _boolean),
                _last(element, "tr:RetrievedFromCache", _boolean),
            )


def _charge(content: str) -> int:
    try:
        return int(float(content))
    except (ValueError, OverflowError) as error:
        raise UnreadableRecord(f"Charge {content!r}") from error


def _exit_code(record: ET.Element) -> int | None:
    if len(record.findall("sgas:ExitCode", NAMESPACES)) > 1:
        raise UnreadableRecord("more than one ExitCode")
    try:
        code = _last(record, "sgas:ExitCode", int)
    except ValueError as error:
        raise UnreadableRecord("ExitCode") from error
    return None if code is None else code & 0xFF


def _integer(content: str) -> int | None:
    try:
        return int(content)
    except ValueError:
        return None


def _boolean(content: str) -> bool | None:
    return _BOOLEANS.get(content.lower())


def _text(parent: ET.Element, path: str) -> str | None:
    """The text of the last such element, which may be empty."""
    return next((element.text for element in reversed(parent.findall(path, NAMESPACES))), None)


def _last(parent: ET.Element, path: str, read: Callable[[str], Value]) -> Value | None:
    """What `read` makes of the last such element; it looks at the others, too."""
    values = _each(parent, path, read)
    return values[-1] if values else None


def _each(parent: ET.Element, path: str, read: Callable[[str], Value]) -> list[Value]:
    """What `read` makes of such elements, of which none may be empty."""
    found = []
    for element in parent.findall(path, NAMESPACES):
        if not element.text:
            raise UnreadableRecord(f"an empty {element.tag}")
        found.append(read(element.text))
    return found


def _qualified(name: str) -> str:
    """A name with its namespace as ElementTree writes it: attributes without one do not count."""
    prefix, _, local = name.partition(":")
    return f"{{{NAMESPACES[prefix]}}}{local}"


_ENVIRONMENTS = {_qualified("sgas:RuntimeEnvironment"), _qualified("arc:RuntimeEnvironment")}
_COMPOSED = {"record_id", "create_time", "vo_name", "vo_type", "vo_issuer", "cpu_duration", "memory"}
_BY_ITSELF = {column: RULES[column].form for column in Row._fields if column in RULES.keys() - _COMPOSED}
"""Columns that are the last of one element of the record."""
_READ_AS: dict[Form, Callable[[str], Any]] = {
    Form.INTEGER: _integer,
    Form.DURATION: duration_s,
    Form.TIME: sgas_instant,
}
_READ = {column: _READ_AS[form] for column, form in _BY_ITSELF.items() if form in _READ_AS} | {"charge": _charge}
