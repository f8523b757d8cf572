"""
The hours of nodes and of sampled jobs: what was seen in them, and what that comes to.

The counters of an hour's samples are kept, packed, as long as late samples may come (two weeks); the sums are made of
all of them anew whenever one is added, so order and repetition do not matter. The hour after is made anew too: its
first interval begins with the last sample of this one.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, TypeVar

from arcacct.db.engine import Connection
from arcacct.sonar.samples import CardShare, JobKey, JobSnapshot, Reading
from arcacct.sonar.use import job_use, node_use

KEPT_S = 14 * 86400
"""How long after its last change an hour takes further samples."""

Json = Any
T = TypeVar("T")


def add_node_points(con: Connection, node_id: int, hour: int, points: dict[int, Reading], now: int) -> bool:
    """Add readings to an hour of a node; False when the hour is closed and they came too late."""
    stored = _load(con, "NodePoints", "NodeID = ?", (node_id,), hour)
    if not stored and _closed(con, "NodeUsage", "NodeID = ?", (node_id,), hour):
        return False
    merged = _merged(stored, {str(at): reading for at, reading in points.items()})
    if merged == stored:
        return True
    con.execute(
        "INSERT OR REPLACE INTO NodePoints (NodeID, Hour, Written, Points) VALUES (?, ?, ?, ?)",
        (node_id, hour, now, _packed(merged)),
    )
    _measure_node(con, node_id, hour)
    following = _beside(con, "NodePoints", "NodeID = ?", (node_id,), hour, after=True)
    if following is not None:
        _measure_node(con, node_id, following)
    return True


def _measure_node(con: Connection, node_id: int, hour: int) -> None:
    key: tuple[object, ...] = (node_id,)
    readings: list[tuple[int, Reading]] = _in_order(_load(con, "NodePoints", "NodeID = ?", key, hour))
    earlier = _beside(con, "NodePoints", "NodeID = ?", key, hour, after=False)
    before = _in_order(_load(con, "NodePoints", "NodeID = ?", key, earlier))[-1] if earlier is not None else None
    con.execute("DELETE FROM NodeUsage WHERE NodeID = ? AND Hour = ?", (node_id, hour))
    con.executemany(
        "INSERT INTO NodeUsage (NodeID, Hour, Device, Measure, Samples, CoveredS, Mean, Low, High, Increase, Text)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(node_id, hour, *measure) for measure in node_use(readings, before)],
    )


def add_job_points(
    con: Connection, job: tuple[int, int, JobKey], hour: int, points: dict[int, JobSnapshot], now: int
) -> bool:
    """Add snapshots to an hour of a job on a node; False when the hour is closed and they came too late."""
    job_id, node_id, key = job
    where, own = "SampledJobID = ? AND NodeID = ?", (job_id, node_id)
    stored = _load(con, "JobPoints", where, own, hour)
    if not stored and _closed(con, "JobUsage", where, own, hour):
        return False
    # Through JSON, so that what was stored and what is new compare.
    fresh = json.loads(json.dumps({str(at): shot for at, shot in points.items()}))
    merged = _merged(stored, fresh)
    if merged == stored:
        return True
    con.execute(
        "INSERT OR REPLACE INTO JobPoints (SampledJobID, NodeID, Hour, Written, Points) VALUES (?, ?, ?, ?, ?)",
        (*own, hour, now, _packed(merged)),
    )
    _measure_job(con, own, hour, key, merged)
    following = _beside(con, "JobPoints", where, own, hour, after=True)
    if following is not None:
        _measure_job(con, own, following, key, _load(con, "JobPoints", where, own, following))
    return True


def _measure_job(con: Connection, own: tuple[int, int], hour: int, key: JobKey, points: dict[str, Json]) -> None:
    where = "SampledJobID = ? AND NodeID = ?"
    earlier = _beside(con, "JobPoints", where, own, hour, after=False)
    before = None
    if earlier is not None:
        at, last = _in_order(_load(con, "JobPoints", where, own, earlier))[-1]
        before = at, _snapshot(last)
    shots = [(at, _snapshot(value)) for at, value in _in_order(points)]
    use = job_use(shots, before, group=bool(key.epoch))
    con.execute(
        "INSERT OR REPLACE INTO JobUsage (SampledJobID, NodeID, Hour, UserName, Samples, FirstTime, LastTime, Starts,"
        " CPUS, ReadKiB, WrittenKiB, PeakMemory, PeakVirtMem, PeakProcesses, PeakThreads, CancelledKiB, InContainer)"
        f" VALUES ({', '.join('?' * 17)})",
        (*own, hour, shots[-1][1].user, *use[:4], *use.use, *use[5:11]),
    )
    con.execute(f"DELETE FROM JobCardUsage WHERE {where} AND Hour = ?", (*own, hour))
    con.executemany(
        "INSERT INTO JobCardUsage (SampledJobID, NodeID, Hour, UUID, Samples, OccupiedS, BusyS, EnergyJ, PeakMemory)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*own, hour, uuid, *card) for uuid, card in sorted(use.cards.items())],
    )


def _snapshot(value: list[Json]) -> JobSnapshot:
    shot = JobSnapshot._make(value)
    return shot._replace(cards={uuid: CardShare._make(share) for uuid, share in shot.cards.items()})


def forget_points(con: Connection, now: int) -> None:
    """Close the hours that changed last two weeks ago; one is kept while the hour after it is still open."""
    for table, own in (("NodePoints", ("NodeID",)), ("JobPoints", ("SampledJobID", "NodeID"))):
        same = " AND ".join(f"Later.{column} = {table}.{column}" for column in own)
        con.execute(
            f"DELETE FROM {table} WHERE Written < ?1 AND NOT coalesce((SELECT Written >= ?1 FROM {table} AS Later"
            f" WHERE {same} AND Later.Hour > {table}.Hour ORDER BY Later.Hour LIMIT 1), 0)",
            (now - KEPT_S,),
        )


def fuller(one: T | None, other: T) -> T:
    """Of two samples of the same second the one that says more, whichever came first."""
    return other if one is None or one == other else max(one, other, key=_weight)


def _merged(stored: dict[str, Json], fresh: dict[str, Json]) -> dict[str, Json]:
    return stored | {at: fuller(stored.get(at), value) for at, value in fresh.items()}


def _weight(value: Json) -> tuple[int, str]:
    text = json.dumps(value, sort_keys=True)
    return len(text), text


def _packed(points: dict[str, Json]) -> bytes:
    return zlib.compress(json.dumps(points, separators=(",", ":")).encode(), 1)


def _load(con: Connection, table: str, where: str, own: tuple[object, ...], hour: int) -> dict[str, Json]:
    row = con.execute(f"SELECT Points FROM {table} WHERE {where} AND Hour = ?", (*own, hour)).fetchone()
    found: dict[str, Json] = json.loads(zlib.decompress(row[0])) if row is not None else {}
    return found


def _closed(con: Connection, table: str, where: str, own: tuple[object, ...], hour: int) -> bool:
    return con.execute(f"SELECT 1 FROM {table} WHERE {where} AND Hour = ?", (*own, hour)).fetchone() is not None


def _beside(con: Connection, table: str, where: str, own: tuple[object, ...], hour: int, *, after: bool) -> int | None:
    """The next hour that has points, or the one before."""
    comparison, order = (">", "ASC") if after else ("<", "DESC")
    row = con.execute(
        f"SELECT Hour FROM {table} WHERE {where} AND Hour {comparison} ? ORDER BY Hour {order} LIMIT 1", (*own, hour)
    ).fetchone()
    return None if row is None else int(row[0])


def _in_order(points: dict[str, Json]) -> list[tuple[int, Json]]:
    return sorted(((int(at), value) for at, value in points.items()), key=lambda point: point[0])
