"""
The hours of nodes and of sampled jobs: what was seen in them, and what that comes to.

The counters of an hour's samples are kept, packed, as long as late samples may come (two weeks); the sums are made of
all of them anew whenever one is added, so order and repetition do not matter. The hour after is made anew too: its
first interval begins with the last sample of this one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from arcacct.db.engine import Connection
from arcacct.sonar.hardware import Names
from arcacct.sonar.samples import CardShare, CommandShare, JobSnapshot, Reading, SampledKey
from arcacct.sonar.use import job_use, longest_step, node_use

KEPT_S = 14 * 86400
"""How long after its last change an hour takes further samples."""

Json = Any
Point = tuple[int, Json]
"""Time and what was seen then."""
T = TypeVar("T")


class _Series(NamedTuple):
    """What is seen of nodes, or of jobs on nodes, hour by hour."""

    con: Connection
    points: str
    """The table of what was seen ..."""
    usage: str
    """... and that of what it comes to."""
    columns: tuple[str, ...]
    own: tuple[int, ...]
    measure: Callable[[int, list[Point], list[Point]], None]
    """Writes what an hour comes to: of its points, and of those of the last hour before it."""

    def _one(self, what: str, table: str, condition: str, hour: int) -> Any:
        where = "".join(f"{column} = ? AND " for column in self.columns)
        row = self.con.execute(f"SELECT {what} FROM {table} WHERE {where}{condition}", (*self.own, hour)).fetchone()
        return None if row is None else row[0]

    def _load(self, hour: int) -> dict[str, Json]:
        packed = self._one("Points", self.points, "Hour = ?", hour)
        found: dict[str, Json] = {} if packed is None else json.loads(zlib.decompress(packed))
        return found

    def add(self, hour: int, points: Mapping[int, Json], now: int) -> bool:
        """Add to an hour; False when it is closed and they came too late."""
        stored = self._load(hour)
        if not stored and self._one("1", self.usage, "Hour = ?", hour) is not None:
            return False
        # Through JSON, so that what was stored and what is new compare.
        fresh = json.loads(json.dumps({str(at): point for at, point in points.items()}))
        merged = stored | {at: fuller(stored.get(at), value) for at, value in fresh.items()}
        if merged == stored:
            return True
        packed = zlib.compress(json.dumps(merged, separators=(",", ":")).encode(), 1)
        columns = (*self.columns, "Hour", "Written", "Points")
        self.con.execute(
            f"INSERT OR REPLACE INTO {self.points} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            (*self.own, hour, now, packed),
        )
        self._measure(hour, merged)
        following = self._one("Hour", self.points, "Hour > ? ORDER BY Hour LIMIT 1", hour)
        if following is not None:
            self._measure(following, self._load(following))
        return True

    def _measure(self, hour: int, points: dict[str, Json]) -> None:
        earlier = self._one("Hour", self.points, "Hour < ? ORDER BY Hour DESC LIMIT 1", hour)
        self.measure(hour, _in_order(points), _in_order(self._load(earlier)) if earlier is not None else [])


def add_node_points(
    con: Connection, hour: int, points: dict[int, Reading], *, names: Names, cluster: str, node: str, now: int
) -> bool:
    """Add readings to an hour of a node; False when the hour is closed and they came too late."""
    node_id = names.node(cluster, node)

    def measure(hour: int, readings: list[Point], earlier: list[Point]) -> None:
        con.execute("DELETE FROM NodeUsage WHERE NodeID = ? AND Hour = ?", (node_id, hour))
        con.executemany(
            "INSERT INTO NodeUsage (NodeID, Hour, Device, Measure, Samples, CoveredS, Mean, Low, High, Increase, Text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(node_id, hour, *one) for one in node_use(readings, earlier)],
        )

    return _Series(con, "NodePoints", "NodeUsage", ("NodeID",), (node_id,), measure).add(hour, points, now)


def add_job_points(
    con: Connection,
    hour: int,
    points: dict[int, JobSnapshot],
    *,
    names: Names,
    cluster: str,
    node: str,
    key: SampledKey,
    now: int,
) -> bool:
    """Add snapshots to an hour of a job on a node; False when the hour is closed and they came too late."""
    own = names.job(cluster, node, key)

    def measure(hour: int, points: list[Point], earlier: list[Point]) -> None:
        shots = [(at, _snapshot(value)) for at, value in points]
        before = (earlier[-1][0], _snapshot(earlier[-1][1])) if earlier else None
        longest_s = longest_step([at for at, _ in (*earlier, *points)])
        use = job_use(shots, before, longest_s, group=bool(key.epoch))
        con.execute(
            "INSERT OR REPLACE INTO JobUsage (SampledJobID, NodeID, Hour, UserName, Samples, FirstTime, LastTime,"
            " Starts, CPUS, ReadKiB, WrittenKiB, PeakMemory, PeakVirtMem, PeakProcesses, PeakThreads, CancelledKiB,"
            f" InContainer, CPUAvgPercent, CPUUtilPercent, PeakCPUUtilPercent) VALUES ({', '.join('?' * 20)})",
            (*own, hour, shots[-1][1].user, *use[:4], *use.use, *use[5:11], *use[12:15]),
        )
        con.execute("DELETE FROM JobCardUsage WHERE SampledJobID = ? AND NodeID = ? AND Hour = ?", (*own, hour))
        con.executemany(
            "INSERT INTO JobCardUsage (SampledJobID, NodeID, Hour, UUID, Samples, OccupiedS, BusyS, EnergyJ,"
            " PeakMemory, CardIndex, MemoryUtilPercent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*own, hour, uuid, *card) for uuid, card in sorted(use.cards.items())],
        )
        con.execute("DELETE FROM JobCommandUsage WHERE SampledJobID = ? AND NodeID = ? AND Hour = ?", (*own, hour))
        con.executemany(
            "INSERT INTO JobCommandUsage (SampledJobID, NodeID, Hour, Command, Samples, PeakProcesses, PeakMemory,"
            " CPUAvgPercent, CPUUtilPercent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*own, hour, command, *one) for command, one in sorted(use.commands.items())],
        )

    return _Series(con, "JobPoints", "JobUsage", ("SampledJobID", "NodeID"), own, measure).add(hour, points, now)


def _snapshot(value: list[Json]) -> JobSnapshot:
    # What an older program kept is shorter.
    shot = JobSnapshot(*value)
    commands = {command: CommandShare(*share) for command, share in shot.commands.items()}
    return shot._replace(cards={uuid: CardShare(*share) for uuid, share in shot.cards.items()}, commands=commands)


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


def _weight(value: Json) -> tuple[int, str]:
    text = json.dumps(value, sort_keys=True)
    return len(text), text


def _in_order(points: dict[str, Json]) -> list[Point]:
    return sorted(((int(at), value) for at, value in points.items()), key=lambda point: point[0])
