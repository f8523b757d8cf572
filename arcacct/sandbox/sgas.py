"""
An SGAS server (LUTS behind nginx): what it answers and what its database would hold (sgas-ur-car section 1).

One transaction a POST: either every record of a document is stored or none. A record that is there already is
passed over, so the first one wins, and the answer looks the same but for the number of the row, which is the old one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

from arcacct.sandbox import sgas_records
from arcacct.sandbox.journal import Journal
from arcacct.sandbox.sgas_records import DatabaseRefuses, Row, UnreadableRecord
from arcacct.sandbox.wire import Arrival, HTTPAnswer, HTTPRequest, Peer, Receiver
from arcacct.targets.common import INT2, INT4, INT8
from arcacct.targets.sgas.usage_record import RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.sandbox import Sandbox

PATH = "/sgas/ur"
LARGEST_BODY = 2 * 1024 * 1024
"""nginx's client_max_body_size in the server's sample configuration."""

PROCESSING_FAILED = "<html><head><title>Processing Failed</title></head><body><b>Processing Failed</b></body></html>"
UNAVAILABLE = "Database currently unavailable. Please try again later."
NULL = "null"
"""The body of a 200 whose result the server lost with its database connection; the rows were committed."""


class DayOfMachine(NamedTuple):
    """What is counted apart."""

    inserted_on: str
    """The day on which the server stored the records, ``YYYY-MM-DD`` in UTC."""
    machine_name: str


class Aggregate(NamedTuple):
    """The usage of a day and machine."""

    jobs: int
    cpu_s: int
    wall_s: int
    """Times the processors of each job; a job without any counts as of one."""


class StoredRow(NamedTuple):
    """A record with the number of its row and the day of its insertion, ``YYYY-MM-DD`` in UTC."""

    row_id: int
    row: Row
    inserted_on: str

    @property
    def counted_in(self) -> DayOfMachine:
        """Where the aggregates count it."""
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
        """The server's, in UTC seconds: the aggregates are by the day of insertion."""
        self._lock = threading.Lock()
        self._stored: dict[str, StoredRow] = {}
        self._counted: dict[DayOfMachine, Aggregate] = {}
        self._queue: set[DayOfMachine] = set()
        self._last_row = 0

    @classmethod
    def beside(cls, box: Sandbox) -> Self:
        """A server to which the sandbox's computing element may report any machine."""
        sgas = cls(box.journal)
        sgas.rights[box.client.subject] = "jobinsert:all"
        return sgas

    def address(self, port: int) -> str:
        return f"SGAS https://localhost:{port}{PATH}"

    def block(self, box: Sandbox) -> list[str]:
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
        """What the server shows by day of insertion and machine (uraggregated), as of the last update."""
        with self._lock:
            return dict(self._counted)

    @property
    def outdated_aggregates(self) -> set[DayOfMachine]:
        """What the next update will count anew (uraggregated_update)."""
        with self._lock:
            return set(self._queue)

    def update_aggregates(self) -> None:
        """
        Do what the server's periodic task does: count what is queued anew from all rows, and empty the queue.

        A record that comes is not counted: its day of insertion and machine are put into the queue. What nobody queues
        keeps its old count, even if its rows are gone.
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
        Do what the server's administrator would, in one transaction; how many records were there to be deleted.

        Their days and machines are queued, then runtime environments, transfers and rows go; the next update mends
        the aggregates.
        """
        with self._lock:
            found = set(record_ids) & self._stored.keys()
            self._queue.update(self._stored[record_id].counted_in for record_id in found)
            for record_id in found:
                del self._stored[record_id]
        return len(found)

    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        peer = request.peer
        # nginx's, to a client without a good certificate.
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
            rows = sgas_records.read(body)
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
            # The job it has, to the server: same global id, or one that equals the record id.
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
    """What the database's columns refuse; raises DatabaseRefuses with its words."""
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
