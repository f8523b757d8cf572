"""One job with all its children, under arcctl's JSON keys; on our database and on A-REX's, of ARC 6 or ARC 7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arcacct.arex.own_database import tokens_of_version_1, tokens_of_version_2, with_benchmark
from arcacct.asking.arcctl import ArcctlJob, when
from arcacct.database.connection import Connection
from arcacct.records.reader import plain_text
from arcacct.records.row_mapping import Row, schema_version

_COLUMNS = (
    "RecordID, JobID, LocalJobID, EndpointID, Interface, URL AS EndpointURL, QueueID, Queues.Name AS Queue, UserID,"
    " Users.Name AS UserSN, VOID, WLCGVOs.Name AS WLCGVO, FQANID, FQANs.Name AS FQAN, StatusID, Status.Name AS Status,"
    " ExitCode, BenchmarkID, Benchmarks.Name AS Benchmark, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory,"
    " UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime,"
    " UsedCPUUserTime + UsedCPUKernelTime AS UsedCPUTime, UsedScratch, StageInVolume, StageOutVolume"
)
_VALUES = {column.rpartition(" ")[2]: column for column in _COLUMNS.split(", ")}
"""arcctl's keys in its order, and where their values are."""
_OF_VERSION_2 = ("FQANID", "FQAN", "BenchmarkID", "Benchmark")
# LEFT: a name that is missing must not make the job disappear.
_NAMES = (
    " FROM AAR LEFT JOIN Endpoints ON Endpoints.ID = EndpointID LEFT JOIN Queues ON Queues.ID = QueueID"
    " LEFT JOIN Users ON Users.ID = UserID LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID"
    " LEFT JOIN Status ON Status.ID = StatusID"
)
_NAMES_2 = " LEFT JOIN FQANs ON FQANs.ID = FQANID LEFT JOIN Benchmarks ON Benchmarks.ID = BenchmarkID"
_TRANSFER_TYPES = {11: "cache_input", 20: "output"}


def arcctl_record(con: Connection, record_id: int, arcctl: int | None = None) -> ArcctlJob:
    """
    A record as ``arcctl accounting job info -o json`` has it, in its order; times as text, UTC.

    ``arcctl`` is the version to answer like, 6 or 7; without it, that of the database. Texts are as stored; FQANID and
    BenchmarkID are ``None`` where the database has no such numbers. The record has to exist.
    """
    version = schema_version(con)
    arcctl = arcctl or version + 5
    known = {key: column for key, column in _VALUES.items() if version != 1 or key not in _OF_VERSION_2}
    row = con.execute(
        f"SELECT {', '.join(known.values())}{_NAMES}{_NAMES_2 if version != 1 else ''} WHERE RecordID = ?",
        (record_id,),
    ).fetchone()
    found: ArcctlJob = dict.fromkeys(_VALUES)
    found |= dict(zip(known, map(_printable, row), strict=True))

    def rows(columns: str, table: str) -> list[tuple[Any, ...]]:
        children = con.execute(f"SELECT {columns} FROM {table} WHERE RecordID = ? ORDER BY rowid", (record_id,))
        return [tuple(map(_printable, row)) for row in children]

    tokens: Sequence[Row] = rows("AttrKey, AttrValue", "AuthTokenAttributes")
    found |= {
        # Its place among the keys; the rows are below.
        "AuthTokenAttributes": None,
        "JobEvents": [list(row) for row in rows("EventKey, EventTime", "JobEvents")],
        "RunTimeEnvironments": [plain_text(name) for (name,) in rows("RTEName", "RunTimeEnvironments")],
        "DataTransfers": [
            {
                "url": url,
                "size": size,
                "timestart": when(start),
                "timeend": when(end),
                "type": _TRANSFER_TYPES.get(kind, "input"),
            }
            for url, size, start, end, kind in rows(
                "URL, FileSize, TransferStart, TransferEnd, TransferType", "DataTransfers"
            )
        ],
        "JobExtraInfo": {plain_text(key): value for key, value in rows("InfoKey, InfoValue", "JobExtraInfo")},
    }
    found |= {key: when(found[key]) for key in ("SubmitTime", "EndTime")}
    if version == 1 and arcctl != 6:
        # What ARC 7 has elsewhere: the first FQAN and the benchmark of a record of version 1.
        found["FQAN"], tokens = tokens_of_version_2(tokens)
        found["Benchmark"] = found["JobExtraInfo"].pop("benchmark", "")
    elif version != 1 and arcctl == 6:
        tokens = tokens_of_version_1(tokens, found["FQAN"])
        extra: list[Row] = list(found["JobExtraInfo"].items())
        found["JobExtraInfo"] = {str(key): value for key, value in with_benchmark(extra, found["Benchmark"])}
    found["AuthTokenAttributes"] = [list(row) for row in tokens]
    if arcctl == 6:
        found["JobEvents"].sort(key=lambda event: event[1])
        return {key: value for key, value in found.items() if key not in _OF_VERSION_2}
    return found


def _printable(value: object) -> object:
    """SQLite keeps bytes in any column; neither people nor JSON can read them."""
    return plain_text(value) if isinstance(value, bytes) else value
