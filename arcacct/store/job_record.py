"""One job with all its children, under arcctl's JSON keys; on our database and on A-REX's."""

from __future__ import annotations

from _sqlite3 import Connection
from typing import Any

from arcacct.records.arcctl import when

_COLUMNS = (
    "RecordID, JobID, LocalJobID, EndpointID, Interface, URL, QueueID, Queues.Name, UserID, Users.Name, VOID,"
    " WLCGVOs.Name, StatusID, Status.Name, ExitCode, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem,"
    " UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume"
)
_KEYS = (
    *("RecordID", "JobID", "LocalJobID", "EndpointID", "Interface", "EndpointURL", "QueueID", "Queue", "UserID"),
    *("UserSN", "VOID", "WLCGVO", "StatusID", "Status", "ExitCode", "SubmitTime", "EndTime", "NodeCount", "CPUCount"),
    *("UsedMemory", "UsedVirtMem", "UsedWalltime", "UsedCPUUserTime", "UsedCPUKernelTime", "UsedCPUTime"),
    *("UsedScratch", "StageInVolume", "StageOutVolume"),
)
_TRANSFER_TYPES = {11: "cache_input", 20: "output"}


def arcctl_record(con: Connection, record_id: int) -> dict[str, Any]:
    """
    A record as ``arcctl accounting job info -o json`` has it, in its order; times as text, UTC.

    Texts are as stored. The record has to exist.
    """
    row = con.execute(
        f"SELECT {_COLUMNS} FROM AAR JOIN Endpoints ON Endpoints.ID = EndpointID JOIN Queues ON Queues.ID = QueueID"
        " JOIN Users ON Users.ID = UserID JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Status ON Status.ID = StatusID"
        " WHERE RecordID = ?",
        (record_id,),
    ).fetchone()
    values = [*row[:24], row[22] + row[23], *row[24:]]
    values[15:17] = when(row[15]), when(row[16])
    return dict(zip(_KEYS, values, strict=True)) | _children(con, record_id)


def _children(con: Connection, record_id: int) -> dict[str, Any]:
    def rows(columns: str, table: str, order: str = "rowid") -> list[tuple[Any, ...]]:
        return con.execute(
            f"SELECT {columns} FROM {table} WHERE RecordID = ? ORDER BY {order}", (record_id,)
        ).fetchall()

    return {
        "AuthTokenAttributes": [list(row) for row in rows("AttrKey, AttrValue", "AuthTokenAttributes")],
        "JobEvents": [list(row) for row in rows("EventKey, EventTime", "JobEvents", "EventTime, rowid")],
        "RunTimeEnvironments": [name for (name,) in rows("RTEName", "RunTimeEnvironments")],
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
        "JobExtraInfo": dict(rows("InfoKey, InfoValue", "JobExtraInfo")),
    }
