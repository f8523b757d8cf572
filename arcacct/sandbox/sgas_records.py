"""
Usage records as the SGAS server reads them: XML in, one row of its database a record.

The rules are the server's, not the schema's: order does not matter, unknown elements are passed over, attributes
count only with their namespace, the last of a repeated element wins except where it adds up (sgas-ur-car 1.5). Each
of them is read, though: a number or a time that is empty fails wherever it stands.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree as ET

from arcacct.sandbox.instants import duration_s, sgas_instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Value = TypeVar("Value")

URF = "{http://schema.ogf.org/urf/2003/09/urf}"
VO = "{http://www.sgas.se/namespaces/2009/05/ur/vo}"
SGAS = "{http://www.sgas.se/namespaces/2009/07/ur}"
TR = "{http://www.sgas.se/namespaces/2010/10/filetransfer}"
ARC = "{http://www.nordugrid.org/ws/schemas/ur-arc}"
DEISA = "{http://rmis.deisa.org/acct}"

LONGEST_HOST = 2700
LONGEST_LOCAL_JOB_ID = 120

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
    if root.tag == f"{URF}JobUsageRecord":
        return [_row(root)]
    if root.tag != f"{URF}UsageRecords":
        raise UnreadableRecord(f"root element {root.tag}")
    if any(child.tag != f"{URF}JobUsageRecord" for child in root):
        raise UnreadableRecord("a child that is no JobUsageRecord")
    return [_row(record) for record in root]


def _row(record: ET.Element) -> Row:
    row = Row(
        **_identity(record),
        **_usage(record),
        charge=_last_read(record, f"{URF}Charge", _charge),
        host=_host(_text(record, "Host")),
        machine_name=_machine_name(record),
        memory=tuple(_memory(element) for element in record.findall(f"{URF}Memory")),
        exit_code=_exit_code(record.findall(f"{SGAS}ExitCode")),
        major_page_faults=_last_read(record, f"{SGAS}MajorPageFaults", _integer),
        runtime_environments=tuple(
            element.text
            for element in record
            if element.tag in {f"{SGAS}RuntimeEnvironment", f"{ARC}RuntimeEnvironment"}
        ),
        transfers=tuple(_transfers(record)),
    )
    return _without_odd_local_job_id(row)


def _identity(record: ET.Element) -> dict[str, Any]:
    identity = _only(record, "RecordIdentity")
    create_time = identity.get(f"{URF}createTime") if identity is not None else None
    if create_time is None:
        raise UnreadableRecord("no urf:createTime")
    job, user = _only(record, "JobIdentity"), _only(record, "UserIdentity")
    local_job_id = _last(job, f"{URF}LocalJobId")
    if local_job_id is not None and not local_job_id.text:
        raise UnreadableRecord("an empty LocalJobId")
    return {
        "record_id": identity.get(f"{URF}recordId") if identity is not None else None,
        "create_time": sgas_instant(create_time),
        "global_job_id": _text(job, "GlobalJobId"),
        "local_job_id": _text(job, "LocalJobId"),
        "local_user": _text(user, "LocalUserId"),
        "global_user_name": _text(user, "GlobalUserName"),
        "job_name": _text(record, "JobName"),
        "status": _text(record, "Status"),
        "project_name": _text(record, "ProjectName"),
        "submit_host": _text(record, "SubmitHost"),
        "queue": _text(record, "Queue"),
        **_virtual_organisation(user),
    }


def _virtual_organisation(user: ET.Element | None) -> dict[str, Any]:
    found = [] if user is None else user.findall(f"{VO}VO")
    names = [vo for vo in found if vo.findtext(f"{VO}Name")]
    if not names:
        return {}  # without a name the server drops everything about the VO
    vo = names[-1]
    return {
        "vo_name": vo.findtext(f"{VO}Name"),
        "vo_type": vo.get(f"{VO}type"),
        "vo_issuer": vo.findtext(f"{VO}Issuer"),
        "vo_attributes": tuple(
            (_groups(attribute), _last_read(attribute, f"{VO}Role", _optional))
            for attribute in vo.findall(f"{VO}Attribute")
        ),
    }


def _groups(attribute: ET.Element) -> str | None:
    """The group; several of one attribute run together, and are too long for the column together."""
    return "".join(element.text or "" for element in attribute.findall(f"{VO}Group")) or None


def _usage(record: ET.Element) -> dict[str, Any]:
    nodes = _last_read(record, f"{URF}NodeCount", _integer)
    processors = _last_read(record, f"{URF}Processors", _integer)
    if record.find(f"{URF}Processors") is None:
        nodes, processors = None, nodes  # the server takes a lone NodeCount for the processors
    return {
        "wall_duration": _last_read(record, f"{URF}WallDuration", _duration),
        "cpu_duration": _cpu(record.findall(f"{URF}CpuDuration")),
        "user_time": _last_read(record, f"{SGAS}UserTime", _duration),
        "kernel_time": _last_read(record, f"{SGAS}KernelTime", _duration),
        "node_count": nodes,
        "processors": processors,
        "start_time": _last_read(record, f"{URF}StartTime", _instant),
        "end_time": _last_read(record, f"{URF}EndTime", _instant),
        "submit_time": _last_read(record, f"{DEISA}SubmitTime", _instant),
    }


def _without_odd_local_job_id(row: Row) -> Row:
    """A long LocalJobId, or one like a path, is dropped, and the record gets another identity (sgas-ur-car 1.4)."""
    odd = row.local_job_id
    if odd is None or (len(odd) <= LONGEST_LOCAL_JOB_ID and not odd.startswith("/")):
        return row
    return row._replace(local_job_id=None, record_id=row.global_job_id or f"{row.machine_name}:{row.create_time}")


def _cpu(elements: list[ET.Element]) -> int | None:
    values = [_duration(element) for element in elements]
    if len(values) > 1 and None in values:
        raise UnreadableRecord("one CpuDuration of several cannot be read")
    return sum(value for value in values if value is not None) if values and None not in values else None


def _duration(element: ET.Element) -> int | None:
    return duration_s(_content(element))


def _memory(element: ET.Element) -> Memory:
    unit, metric = element.get(f"{URF}storageUnit", ""), element.get(f"{URF}metric", "total")
    try:
        value = int(element.text or "")
    except ValueError as error:
        raise UnreadableRecord(f"Memory {element.text!r}") from error
    if unit in _BIT_UNITS:
        raise DatabaseRefuses("invalid input syntax for type bigint")
    if metric not in _METRICS:
        raise DatabaseRefuses("'SgasMemory' object has no attribute 'metric'")
    kind = element.get(f"{URF}type", "")
    return Memory(value * _UNITS.get(unit, 1), metric, kind if kind in _MEMORY_TYPES else "")


def _transfers(record: ET.Element) -> Iterator[FileTransfer]:
    for parent in record.findall(f"{TR}FileTransfers"):
        for element in parent:
            if element.tag not in {f"{TR}FileDownload", f"{TR}FileUpload"}:
                continue
            if not len(element):
                raise DatabaseRefuses("lower bound of FOR loop cannot be null")
            yield _transfer(element)


def _transfer(element: ET.Element) -> FileTransfer:
    url = _last_read(element, f"{TR}URL", _optional)
    if not url:
        raise DatabaseRefuses('null value in column "job_transfer_url" violates not-null constraint')
    return FileTransfer(
        "download" if element.tag == f"{TR}FileDownload" else "upload",
        url,
        _last_read(element, f"{TR}Size", _integer),
        _last_read(element, f"{TR}StartTime", _instant),
        _last_read(element, f"{TR}EndTime", _instant),
        _last_read(element, f"{TR}BypassCache", _boolean),
        _last_read(element, f"{TR}RetrievedFromCache", _boolean),
    )


def _machine_name(record: ET.Element) -> str:
    name = _text(record, "MachineName")
    if not name:
        raise UnreadableRecord("no MachineName")
    return name


def _host(name: str | None) -> str | None:
    return name[: LONGEST_HOST - 1] + "$" if name is not None and len(name) > LONGEST_HOST else name


def _charge(element: ET.Element) -> int:
    try:
        return int(float(_content(element)))
    except (ValueError, OverflowError) as error:
        raise UnreadableRecord(f"Charge {element.text!r}") from error


def _exit_code(elements: list[ET.Element]) -> int | None:
    if len(elements) > 1:
        raise UnreadableRecord("more than one ExitCode")
    try:
        return int(_content(elements[0])) & 0xFF if elements else None
    except ValueError as error:
        raise UnreadableRecord("ExitCode") from error


def _integer(element: ET.Element) -> int | None:
    try:
        return int(_content(element))
    except ValueError:
        return None


def _boolean(element: ET.Element) -> bool | None:
    return _BOOLEANS.get(_content(element).lower())


def _instant(element: ET.Element) -> int | None:
    return sgas_instant(_content(element))


def _content(element: ET.Element) -> str:
    """The text of an element that must not be empty."""
    if not element.text:
        raise UnreadableRecord(f"an empty {element.tag}")
    return element.text


def _optional(element: ET.Element) -> str | None:
    return element.text


def _text(parent: ET.Element | None, name: str) -> str | None:
    element = _last(parent, URF + name)
    return None if element is None else element.text


def _only(parent: ET.Element, name: str) -> ET.Element | None:
    return _last(parent, URF + name)


def _last_read(parent: ET.Element, tag: str, read: Callable[[ET.Element], Value]) -> Value | None:
    """What `read` makes of the last such element; it looks at the others, too."""
    values = [read(element) for element in parent.findall(tag)]
    return values[-1] if values else None


def _last(parent: ET.Element | None, tag: str) -> ET.Element | None:
    found = [] if parent is None else parent.findall(tag)
    return found[-1] if found else None
