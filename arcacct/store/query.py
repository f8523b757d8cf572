"""
Reading records as the values of `records.aar`: in commit order, by end time, and summed by month.

Readers page in short transactions (INVARIANTS 7); ARC's percent-escapes are undone here.
"""

from __future__ import annotations

import re
import time
from _sqlite3 import Connection
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.records.aar import AAR, Transfer, UsageCell

PAGE_RECORDS = 500
_LARGEST = 2**53
"""What is larger is no measurement: it would make the sum of a whole month overflow (INVARIANTS 6)."""

_TRANSFER_KINDS = {10: "input", 11: "cached_input", 20: "output"}
_FINAL = "('completed', 'failed', 'aborted')"
# A job that vanished unfinished is published only when the batch system measured something.
_PUBLISHABLE = (
    f"Status.Name IN {_FINAL} AND NOT (Status.Name = 'aborted'"
    " AND UsedWalltime = 0 AND UsedCPUUserTime = 0 AND UsedCPUKernelTime = 0)"
)
_RECORD = """
    AAR.RecordID, JobID, LocalJobID, Interface, URL, Queues.Name, Users.Name, WLCGVOs.Name, Status.Name, ExitCode,
    SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime,
    UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume
"""
_NAMES = """
    JOIN Endpoints ON Endpoints.ID = EndpointID
    JOIN Queues ON Queues.ID = QueueID
    JOIN Users ON Users.ID = UserID
    JOIN WLCGVOs ON WLCGVOs.ID = VOID
    JOIN Status ON Status.ID = StatusID
"""
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")


class Logged(NamedTuple):
    """A record at its place in FinishedLog."""

    seq: int
    aar: AAR


class Page(NamedTuple):
    """Some records in commit order, and how far that took us (also when none of them was wanted)."""

    records: list[Logged]
    last_seq: int


def unescaped(text: str) -> str:
    """A text of the shared tables without A-REX's percent-escapes."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) if "%" in text else text


def highest_seq(con: Connection) -> int:
    """The highest Seq that FinishedLog ever had."""
    row = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()
    return int(row[0]) if row else 0


def logged_after(
    con: Connection, seq: int, horizon: int, *, ended_from: int = 0, size: int = PAGE_RECORDS
) -> Page | None:
    """
    The next records with ``seq < Seq <= horizon`` that ended at ``ended_from`` or later; ``None`` when there are none.

    Deleted records and aborted ones without usage are passed over.
    """
    con.execute("BEGIN")
    try:
        row = con.execute(
            "SELECT max(Seq), count(*) FROM (SELECT Seq FROM FinishedLog WHERE Seq > ? AND Seq <= ?"
            " ORDER BY Seq LIMIT ?)",
            (seq, horizon, size),
        ).fetchone()
        if not row[1]:
            return None
        last = int(row[0])
        main = con.execute(
            f"SELECT Seq, {_RECORD} FROM FinishedLog JOIN AAR ON AAR.RecordID = FinishedLog.RecordID {_NAMES}"
            f" WHERE Seq > ? AND Seq <= ? AND EndTime >= ? AND {_PUBLISHABLE} ORDER BY Seq",
            (seq, last, ended_from),
        ).fetchall()
        children = _Children(con, "FinishedLog", "Seq > ? AND Seq <= ?", (seq, last))
        return Page([Logged(values[0], children.record(values[1:])) for values in main], last)
    finally:
        con.execute("COMMIT")


def ended_between(
    con: Connection, ended_from: int, ended_before: int, *, size: int = PAGE_RECORDS
) -> Iterator[list[AAR]]:
    """Pages of the publishable records with ``ended_from <= EndTime < ended_before``, by end time."""
    position = (ended_from, 0)
    while True:
        con.execute("BEGIN")
        try:
            # The plus keeps SQLite on the index of EndTime: the one of StatusID would walk the whole table.
            main = con.execute(
                f"SELECT {_RECORD} FROM AAR {_NAMES.replace('= StatusID', '= +StatusID')}"
                " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime >= ? AND EndTime < ?"
                f" AND {_PUBLISHABLE} ORDER BY EndTime, AAR.RecordID LIMIT ?",
                (*position, ended_from, ended_before, size),
            ).fetchall()
            ids = ",".join(str(int(values[0])) for values in main)
            children = _Children(con, "AAR", f"AAR.RecordID IN ({ids})", ())
        finally:
            con.execute("COMMIT")
        if not main:
            return
        yield [children.record(values) for values in main]
        position = (main[-1][11], main[-1][0])


def by_record_id(con: Connection, record_ids: Sequence[int]) -> dict[int, AAR]:
    """These records, whatever their status; those that no longer exist are left out."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    con.execute("BEGIN")
    try:
        main = con.execute(f"SELECT {_RECORD} FROM AAR {_NAMES} WHERE AAR.RecordID IN ({ids})").fetchall()
        children = _Children(con, "AAR", f"AAR.RecordID IN ({ids})", ())
    finally:
        con.execute("COMMIT")
    return {values[0]: children.record(values) for values in main}


class _Children:
    """The children of the records that a condition on FinishedLog or AAR selects, by RecordID."""

    def __init__(self, con: Connection, table: str, condition: str, values: tuple[int, ...]) -> None:
        def rows(child: str, columns: str, more: str = "") -> Iterable[tuple[int, str, str]]:
            return con.execute(
                f"SELECT {child}.RecordID, {columns} FROM {table} JOIN {child} ON {child}.RecordID = {table}.RecordID"
                f" WHERE {condition} {more} ORDER BY {child}.rowid",
                values,
            )

        self.fqans: dict[int, list[str]] = {}
        for record_id, key, value in rows("AuthTokenAttributes", "AttrKey, AttrValue"):
            fqans = self.fqans.setdefault(record_id, [])
            if key == "mainfqan":
                fqans.insert(0, unescaped(value))
            elif key == "vomsfqan":
                fqans.append(unescaped(value))
        self.extra: dict[int, dict[str, str]] = {}
        for record_id, key, value in rows("JobExtraInfo", "InfoKey, InfoValue"):
            if value:
                self.extra.setdefault(record_id, {}).setdefault(key, unescaped(value))
        self.rtes: dict[int, dict[str, None]] = {}
        for record_id, name, _ in rows("RunTimeEnvironments", "RTEName, NULL"):
            self.rtes.setdefault(record_id, {})[unescaped(name)] = None
        self.events: dict[int, dict[str, int]] = {}
        for record_id, key, seconds in rows(
            "JobEvents",
            "EventKey, CAST(strftime('%s', EventTime) AS INTEGER)",
            "AND EventKey IN ('SUBMIT', 'LRMSSTART', 'LRMSEND')",
        ):
            # Of a job that ran twice the last run counts.
            self.events.setdefault(record_id, {})[key] = int(seconds or 0)
        self.transfers: dict[int, list[Transfer]] = {}
        for record_id, url, *numbers in rows(
            "DataTransfers", "URL, FileSize, TransferStart, TransferEnd, TransferType"
        ):
            size, start, end, kind = (int(number) for number in numbers)
            transfer = Transfer(unescaped(url), size, start, end, _TRANSFER_KINDS.get(kind, "input"))
            self.transfers.setdefault(record_id, []).append(transfer)

    def record(self, values: tuple[object, ...]) -> AAR:
        """A row of AAR, names resolved, with its children."""
        record_id, job_id, local_job_id, interface, url, queue, user_dn, vo, *rest = values
        assert isinstance(record_id, int)
        extra = self.extra.get(record_id, {})
        events = self.events.get(record_id, {})
        return AAR._make(
            (
                record_id,
                unescaped(str(job_id)),
                *(
                    unescaped(str(text)) if text else None
                    for text in (local_job_id, interface, url, queue, user_dn, vo)
                ),
                *rest,
                tuple(self.fqans.get(record_id, ())),
                extra.get("jobname"),
                extra.get("lrms"),
                _node_names(extra),
                extra.get("clienthost"),
                extra.get("localuser"),
                extra.get("projectname"),
                extra.get("systemsoftware"),
                extra.get("wninstance"),
                extra.get("benchmark"),
                tuple(self.rtes.get(record_id, ())),
                tuple(self.transfers.get(record_id, ())),
                events.get("SUBMIT"),
                events.get("LRMSSTART"),
                events.get("LRMSEND"),
            )
        )


def _node_names(extra: dict[str, str]) -> tuple[str, ...]:
    """The distinct names, in order: A-REX writes one per slot, under `nodenames` (jura reads `nodename`)."""
    text = extra.get("nodenames") or extra.get("nodename") or ""
    return tuple(dict.fromkeys(name for name in text.split(":") if name))


def usage_cells(con: Connection, ended_from: int, ended_before: int) -> list[UsageCell]:
    """
    The publishable jobs with ``ended_from <= EndTime < ended_before``, summed by all that a summary is keyed by.

    Months are those of EndTime in UTC. Durations that are no measurement count as 0.
    """
    rows = con.execute(
        f"""
        SELECT CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),
               CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER),
               Users.Name, WLCGVOs.Name,
               (SELECT AttrValue FROM AuthTokenAttributes AS Token
                 WHERE Token.RecordID = AAR.RecordID AND AttrKey = 'mainfqan' LIMIT 1) AS MainFQAN,
               URL, NodeCount, CPUCount,
               (SELECT InfoValue FROM JobExtraInfo AS Extra
                 WHERE Extra.RecordID = AAR.RecordID AND InfoKey = 'benchmark' LIMIT 1) AS Benchmark,
               count(*),
               sum(CASE WHEN UsedWalltime BETWEEN 0 AND {_LARGEST} THEN UsedWalltime ELSE 0 END),
               sum(CASE WHEN UsedCPUUserTime BETWEEN 0 AND {_LARGEST} THEN UsedCPUUserTime ELSE 0 END)
               + sum(CASE WHEN UsedCPUKernelTime BETWEEN 0 AND {_LARGEST} THEN UsedCPUKernelTime ELSE 0 END),
               min(EndTime), max(EndTime)
          FROM AAR {_NAMES.replace("= StatusID", "= +StatusID")}
         WHERE EndTime >= ? AND EndTime < ? AND {_PUBLISHABLE}
         GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
        """,
        (ended_from, ended_before),
    )
    return [
        UsageCell._make(
            (
                year,
                month,
                *(unescaped(text) if text else None for text in (user_dn, vo, fqan, url)),
                node_count,
                core_count,
                unescaped(benchmark) if benchmark else None,
                *numbers,
            )
        )
        for year, month, user_dn, vo, fqan, url, node_count, core_count, benchmark, *numbers in rows
    ]


def cell_of(aar: AAR) -> UsageCell:
    """The cell of a single job."""
    when = time.gmtime(aar.end_time)
    wall_s, cpu_s = (value if 0 <= value <= _LARGEST else 0 for value in (aar.wall_s, aar.cpu_s))
    return UsageCell(
        when.tm_year,
        when.tm_mon,
        aar.user_dn,
        aar.vo,
        aar.fqans[0] if aar.fqans else None,
        aar.endpoint_url,
        aar.node_count,
        aar.core_count,
        aar.benchmark,
        1,
        wall_s,
        cpu_s,
        aar.end_time,
        aar.end_time,
    )


def months_logged_after(con: Connection, seq: int, horizon: int, *, ended_from: int = 0) -> set[tuple[int, int]]:
    """The ``(year, month)`` of EndTime of each record that became final or changed after ``seq``."""
    return {
        (int(year), int(month))
        for year, month in con.execute(
            "SELECT DISTINCT strftime('%Y', EndTime, 'unixepoch'), strftime('%m', EndTime, 'unixepoch')"
            " FROM FinishedLog JOIN AAR ON AAR.RecordID = FinishedLog.RecordID"
            " WHERE Seq > ? AND Seq <= ? AND EndTime >= ?",
            (seq, horizon, ended_from),
        )
    }


def earliest_unhandled_end(con: Connection, seq: int, *, ended_from: int = 0) -> int | None:
    """The smallest EndTime of a record that became final after ``seq``; ``None`` when there is none."""
    row = con.execute(
        "SELECT min(EndTime) FROM FinishedLog JOIN AAR ON AAR.RecordID = FinishedLog.RecordID"
        " WHERE Seq > ? AND EndTime >= ?",
        (seq, ended_from),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def latest_end(con: Connection) -> int | None:
    """The largest EndTime of a finished record."""
    row = con.execute("SELECT max(EndTime) FROM AAR").fetchone()
    return int(row[0]) if row[0] else None
