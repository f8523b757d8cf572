"""An SGAS server (LUTS behind nginx): how it reads usage records, its answers, and the content of its database."""

from __future__ import annotations

import calendar
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self, TypeVar
from xml.etree import ElementTree as ET

from arcacct.sandbox.http_server import Arrival, HTTPAnswer, HTTPRequest, Journal, Peer, Receiver, Surroundings
from arcacct.targets.common import INT2, INT4, INT8, Form
from arcacct.targets.sgas.usage_record import NAMESPACES, RULES

# Times and durations as the receivers read them: each is lenient in its own way.


_DURATION = "P(?:{0}Y)?(?:{0}M)?(?:{0}W)?(?:{0}D)?(?:T(?:{0}H)?(?:{0}M)?(?:{1}S)?)?"
_SGAS_DURATION = re.compile("[+-]?" + _DURATION.format(*2 * [r"(\d+(?:[.,]\d+)?)"]))
_APEL_DURATION = re.compile(_DURATION.format(r"(\d+)", r"(\d+(?:\.\d+)?)"))
_UNITS_S = (31_536_000, 2_592_000, 604_800, 86_400, 3600, 60, 1)
_INSTANT = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)(?:(?P<between>[T ])(\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def duration_s(text: str) -> int | None:
    """
    Seconds of an ISO 8601 duration as SGAS reads it: decimals in any part, parts of a second dropped.

    None for an unreadable text, and for years or months: the server then stores NULL.
    """
    match = _SGAS_DURATION.fullmatch(text)
    if match is None or match[1] or match[2]:
        return None
    parts = [float((part or "0").replace(",", ".")) for part in match.groups()]
    total = sum(value * unit for value, unit in zip(parts, _UNITS_S, strict=True))
    return -int(total) if text.startswith("-") else int(total)


def apel_duration_s(text: str) -> int:
    """Seconds of an ISO 8601 duration in a CAR; only seconds may have decimals, which are rounded. ValueError."""
    match = _APEL_DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not an ISO 8601 duration: {text!r}")
    return round(sum(float(part or 0) * unit for part, unit in zip(match.groups(), _UNITS_S, strict=True)))


def sgas_instant(text: str) -> int | None:
    """UTC seconds of a date and time as SGAS reads it (one `T`; no zone means UTC); None if it stores NULL."""
    match = _INSTANT.fullmatch(text)
    if match is None or match["between"] != "T":
        return None
    zone = match["zone"] or "Z"
    # Without the colon the server ignores the minutes of the zone.
    return _seconds(match, zone if ":" in zone else zone[:3])


def iso_instant(text: str) -> int:
    """UTC seconds of a date and time in a CAR: `T` or a blank between, a date alone, no zone means UTC. ValueError."""
    match = _INSTANT.fullmatch(text)
    instant = None if match is None else _seconds(match, match["zone"] or "Z")
    if instant is None:
        raise ValueError(f"not an ISO 8601 date and time: {text!r}")
    return instant


def _seconds(match: re.Match[str], zone: str) -> int | None:
    year, month, day, _, hour, minute, second, _ = match.groups()
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= calendar.monthrange(int(year), int(month))[1]):
        return None
    fields = (int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    if fields[3] > 24 or fields[4] > 59 or fields[5] > 60:
        return None
    digits = zone[1:].replace(":", "")
    offset_s = int(digits[:2] or 0) * 3600 + int(digits[2:] or 0) * 60
    return calendar.timegm(fields) - (-offset_s if zone[0] == "-" else offset_s)


# Usage records as the SGAS server reads them: XML in, one row of its database a record.  The rules are the server's,
# not the schema's: order does not matter, unknown elements are ignored, attributes count only with their namespace, the
# last of a repeated element counts unless they are summed (sgas-ur-car 1.5). But each of them is read: an empty number
# or time fails in any place.


Value = TypeVar("Value")

_UNITS = {unit + "B": 1024**power for power, unit in enumerate(("", "K", "M", "G", "T", "P", "E"))}
_BIT_UNITS = {unit + "b" for unit in ("", "K", "M", "G", "T", "P", "E")}
_METRICS = ("total", "average", "min", "max")
_MEMORY_TYPES = ("shared", "physical", "dedicated")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class UnreadableRecord(Exception):
    """The server fails before it reaches its database: 500 without a reason."""


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
    """The data of a job in the server's database: times in UTC seconds, durations in seconds, None for NULL."""

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

    Raises UnreadableRecord if the real server would fail before its database (not UTF-8, not well-formed, another root
    or child, no MachineName, ...), and DatabaseRefuses if the driver would refuse a value.
    """
    try:
        # The server decodes first and parses text: the declared encoding is ignored.
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
        # The server uses a lone NodeCount as the processors.
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
    # The server keeps the last of two.
    names = [vo for vo in found if _text(vo, "vo:Name")]
    if not names:
        return {}  # Without a name the server drops everything about the VO.
    vo = names[-1]
    return {
        "vo_name": _text(vo, "vo:Name"),
        "vo_type": vo.get(_qualified("vo:type")),
        "vo_issuer": _text(vo, "vo:Issuer"),
        "vo_attributes": tuple(
            # Several groups of one attribute are joined, and are together too long for the column.
            (
                "".join(element.text or "" for element in attribute.findall("vo:Group", NAMESPACES)) or None,
                _text(attribute, "vo:Role"),
            )
            for attribute in vo.findall("vo:Attribute", NAMESPACES)
        ),
    }


def _cpu(values: list[int | None]) -> int | None:
    if len(values) > 1 and None in values:
        raise UnreadableRecord("one of several CpuDuration values cannot be read")
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
    """Return the result of `read` for the last such element; it reads the others, too."""
    values = _each(parent, path, read)
    return values[-1] if values else None


def _each(parent: ET.Element, path: str, read: Callable[[str], Value]) -> list[Value]:
    """The result of `read` for such elements; each must have a text."""
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


# An SGAS server (LUTS behind nginx): its answers and the content of its database (sgas-ur-car section 1). Each POST is
# one transaction: either every record of a document is stored or none. An existing record is ignored, so the first one
# stays. The answer is the same except for the number of the row, which is the old one.


PATH = "/sgas/ur"
LARGEST_BODY = 2 * 1024 * 1024
"""nginx's client_max_body_size in the server's sample configuration."""

PROCESSING_FAILED = "<html><head><title>Processing Failed</title></head><body><b>Processing Failed</b></body></html>"
UNAVAILABLE = "Database currently unavailable. Please try again later."
NULL = "null"
"""The body of a 200 whose result the server lost with its database connection; the rows were committed."""


class DayOfMachine(NamedTuple):
    """The key of an aggregate."""

    inserted_on: str
    """The day on which the server stored the records, ``YYYY-MM-DD`` in UTC."""
    machine_name: str


class Aggregate(NamedTuple):
    """The usage of a day and machine."""

    jobs: int
    cpu_s: int
    wall_s: int
    """Times the processors of each job; a job without a number counts as one."""


class StoredRow(NamedTuple):
    """A record with the number of its row and the day of its insertion, ``YYYY-MM-DD`` in UTC."""

    row_id: int
    row: Row
    inserted_on: str

    @property
    def counted_in(self) -> DayOfMachine:
        """Return the key of its aggregate."""
        return DayOfMachine(self.inserted_on, self.row.machine_name)


class SGAS(Receiver):
    """The server with its database: `records` by record id."""

    endpoint, title, documents = "sgas", "SGAS", "sgas"

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.rights: dict[str, str] = {}
        """The authz file: subject (RFC 2253) to ``jobinsert``, ``jobinsert:all`` or ``jobinsert:machine_name=a;b``."""
        self.check_depth = 2
        """How many labels of MachineName must be those of the certificate's name, under plain ``jobinsert``."""
        self.largest_body = LARGEST_BODY
        self.ignored_repeats = 0
        """Records that came again and changed nothing."""
        self.clock: Callable[[], float] = time.time
        """The server's, in UTC seconds: aggregates are by the day of insertion."""
        self._lock = threading.Lock()
        self._stored: dict[str, StoredRow] = {}
        self._counted: dict[DayOfMachine, Aggregate] = {}
        self._queue: set[DayOfMachine] = set()
        self._last_row = 0

    @classmethod
    def beside(cls, box: Surroundings) -> Self:
        """A server to which the sandbox's computing element may report any machine."""
        sgas = cls(box.journal)
        sgas.rights[box.client.subject] = "jobinsert:all"
        return sgas

    def address(self, port: int) -> str:
        return f"SGAS https://localhost:{port}{PATH}"

    def block(self, box: Surroundings) -> list[str]:
        return ["[arex/jura/sgas:sandbox]", f"targeturl = {box.sgas_url}", *box.credentials]

    def totals(self) -> list[str]:
        """A line for each day of a machine, after another update of the aggregates."""
        self.update_aggregates()
        return [
            f"SGAS {machine} {day}: jobs {count.jobs}, wall {count.wall_s} s, CPU {count.cpu_s} s"
            for (day, machine), count in sorted(self.aggregates.items())
        ]

    @property
    def records(self) -> dict[str, Row]:
        """The database: each record by its id."""
        with self._lock:
            return {record_id: stored.row for record_id, stored in self._stored.items()}

    @property
    def row_ids(self) -> dict[str, int]:
        """The number of each record's row, which no other row ever had or gets."""
        with self._lock:
            return {record_id: stored.row_id for record_id, stored in self._stored.items()}

    @property
    def aggregates(self) -> dict[DayOfMachine, Aggregate]:
        """Return the server's data by day of insertion and machine (uraggregated), as of the last update."""
        with self._lock:
            return dict(self._counted)

    @property
    def outdated_aggregates(self) -> set[DayOfMachine]:
        """Return the keys that the next update will count again (uraggregated_update)."""
        with self._lock:
            return set(self._queue)

    def update_aggregates(self) -> None:
        """
        Do the same as the server's periodic task: count the queued keys again from all rows, and empty the queue.

        A new record is not counted: its day of insertion and machine go to the queue. A day outside the queue keeps its
        old count, even if its rows are gone.
        """
        with self._lock:
            rows: dict[DayOfMachine, list[Row]] = {}
            for one in self._stored.values():
                rows.setdefault(one.counted_in, []).append(one.row)
            for where in self._queue:
                self._counted.pop(where, None)
                if there := rows.get(where):
                    cpu_s = sum(row.cpu_duration or 0 for row in there)
                    wall = (
                        (row.wall_duration or 0) * (1 if row.processors is None else row.processors) for row in there
                    )
                    self._counted[where] = Aggregate(len(there), cpu_s, sum(wall))
            self._queue.clear()

    def delete_records(self, record_ids: Iterable[str]) -> int:
        """
        Delete records as the server's administrator would, in one transaction; returns their number.

        Their days and machines are queued, then runtime environments, transfers and rows are removed. The next update
        corrects the aggregates.
        """
        with self._lock:
            found = set(record_ids) & self._stored.keys()
            self._queue.update(self._stored[record_id].counted_in for record_id in found)
            for record_id in found:
                del self._stored[record_id]
        return len(found)

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        peer = request.peer
        # The answer of nginx to a client without a good certificate.
        if peer is None:
            return _html(400, "400 No required SSL certificate was sent")
        if not peer.not_before <= time.time() <= peer.not_after:
            return _html(400, "400 The SSL certificate error")
        if refusal := self._refusal(request):
            return refusal
        if request.method == "GET":
            href = f"https://{request.headers.get('host', 'localhost')}{PATH}"
            body = f"<services><service><name>Registration</name><href>{href}</href></service></services>"
            return HTTPAnswer(200, body.encode(), "text/xml")
        if len(request.body) > self.largest_body:
            return _html(413, "413 Request Entity Too Large")
        file = self.journal.keep("sgas", f"{self.journal.number('sgas')}.xml", request.body)
        return self._insert(peer, request.body, file)

    def delivers(self, request: HTTPRequest) -> bool:
        return request.method == "POST" and request.path == PATH

    def _refusal(self, request: HTTPRequest) -> HTTPAnswer | None:
        """To all but POST and the list of services."""
        method, path = request.method, request.path
        if path not in {PATH, "/sgas"}:
            return _html(404, "No Such Resource")
        if method not in {"GET", "HEAD", "POST"}:
            return _html(501, "Method Not Implemented")
        if self.delivers(request) or (method, path) == ("GET", "/sgas"):
            return None
        allowed = (("Allow", "HEAD, POST" if path == PATH else "GET, HEAD"),)
        return _html(405, "Method Not Allowed")._replace(headers=allowed)

    def _insert(self, peer: Peer, body: bytes, file: str) -> HTTPAnswer:
        if peer.subject not in self.rights:
            said = f"Rejecting job usage insert for {peer.subject}. No insert rights."
            return HTTPAnswer(403, said.encode(), arrivals=(Arrival("sgas", None, file, said),))
        rows: list[Row] | None = None
        status, said, verdict = 200, "", "stored"
        try:
            rows = read(body)
            self._check_machines(peer, rows)
            with self._lock:
                said = json.dumps(self._commit(rows))
        except _NotAllowed as refusal:
            status, said, verdict = 406, str(refusal), str(refusal)
        except UnreadableRecord as error:
            status, said, verdict = 500, PROCESSING_FAILED, f"refused: {error}"
        except DatabaseRefuses as error:
            status, said, verdict = 500, str(error), f"refused: {error}"
        records = None if rows is None else len(rows)
        return HTTPAnswer(status, said.encode(), arrivals=(Arrival("sgas", records, file, verdict.partition("\n")[0]),))

    def _check_machines(self, peer: Peer, rows: list[Row]) -> None:
        """406 if a machine is not this client's to report; the words name every machine of the document."""
        _, _, limit = self.rights[peer.subject].partition(":")
        machines = sorted({row.machine_name for row in rows})
        if limit == "all" or not machines or self.check_depth == 0:
            return
        if limit.startswith("machine_name="):
            fine = set(limit.removeprefix("machine_name=").split(";")).issuperset(machines)
        else:
            labels = peer.common_name.removeprefix("host/").split(".")
            if len(labels) < 2:
                raise UnreadableRecord("the certificate's common name has no domain")
            domain = labels[-self.check_depth :]
            fine = all(machine.split(".")[-len(domain) :] == domain for machine in machines)
        if not fine:
            names = ",".join(machines)
            raise _NotAllowed(f"Subject {peer.subject} is not allowed to perform insertion for machines: {names}")

    def _commit(self, rows: list[Row]) -> dict[str, str]:
        """Store all rows or none; the answer's dictionary: one key a record id, the number of its row as text."""
        staged: dict[str, StoredRow] = {}
        changed: list[StoredRow] = []
        repeats = 0
        today = time.strftime("%Y-%m-%d", time.gmtime(self.clock()))
        for row in rows:
            check(row)
            record_id = str(row.record_id)
            old = staged.get(record_id) or self._stored.get(record_id)
            # The existing job, for the server: same global id, or one that equals the record id.
            if old is not None and row.global_job_id in {old.row.global_job_id, row.record_id} - {None}:
                repeats += 1
                staged.setdefault(record_id, old)
                continue
            if old is not None:
                if old.row.runtime_environments or old.row.transfers:
                    raise DatabaseRefuses('update or delete on table "usagedata" violates foreign key constraint')
                changed.append(old)
            # As in PostgreSQL, the number is used up even if the transaction fails.
            self._last_row += 1
            staged[record_id] = StoredRow(self._last_row, row, today)
            changed.append(staged[record_id])
        self._stored.update(staged)
        self._queue.update(stored.counted_in for stored in changed)
        self.ignored_repeats += repeats
        return {record_id: str(stored.row_id) for record_id, stored in staged.items()}


class _NotAllowed(Exception):
    """A client without the right to insert for these machines."""


def check(row: Row) -> None:
    """Check a row against the database's columns; raises DatabaseRefuses with its words."""
    for column, value in _stored_values(row):
        rule = RULES[column]
        if rule.needed and value is None:
            raise DatabaseRefuses(f'null value in column "{column}" violates not-null constraint')
        if isinstance(value, str):
            if len(value) > rule.most:
                raise DatabaseRefuses(
                    f"value too long for type character varying({rule.most})\nCONTEXT:  PL/pgSQL function urcreate"
                )
        elif value is not None and not rule.least <= value <= rule.most:
            raise DatabaseRefuses(f"{_COLUMN_TYPES[rule.most]} out of range")


_COLUMN_TYPES: dict[float, str] = {INT2: "smallint", INT4: "integer", INT8: "bigint"}


def _stored_values(row: Row) -> Iterator[tuple[str, str | int | None]]:
    """Each value of a row with the name of its column in the table of rules, that of a list for each of its parts."""
    yield from ((column, getattr(row, column)) for column in RULES if column in _PLAIN)
    for group, role in row.vo_attributes:
        yield from (("vo_group", group), ("vo_role", role))
    yield from (("memory", memory.bytes) for memory in row.memory)
    yield from (("runtime_environment", environment) for environment in row.runtime_environments)
    for transfer in row.transfers:
        yield from (("transfer_url", transfer.url), ("transfer_size", transfer.size_bytes))


_PLAIN = set(Row._fields) - {"memory"}


def _html(status: int, title: str) -> HTTPAnswer:
    return HTTPAnswer(status, f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>".encode())
