"""
The hours of nodes and of sampled jobs: what was seen in them, and what that comes to.

The counters of an hour's samples are kept, packed, as long as late samples may come (two weeks); the sums are made of
all of them anew whenever one is added, so order and repetition do not matter. The hour after is made anew too: its
first interval begins with the last sample of this one.

An hour of a batch job has sums for each run of the number (`spans`). When another run becomes known, an hour that it
divides is made anew; one that it holds whole, or that is closed, is only given to it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from arcacct.database.connection import Connection
from arcacct.records.batch_jobs import LocalID
from arcacct.sonar.hardware import Names
from arcacct.sonar.samples import CommandShare, GPUShare, JobSnapshot, Reading, SampledKey
from arcacct.sonar.spans import Spans, sampled_job
from arcacct.sonar.use import JobUse, job_use, longest_step, node_use

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

    def again(self, hour: int) -> bool:
        """Write anew what an hour comes to; False when it is closed."""
        points = self._load(hour)
        if points:
            self._measure(hour, points)
        return bool(points)

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
    """
    Add snapshots to an hour of a job on a node; False when the hour is closed and they came too late.

    Until `divide` looks at the number the hour belongs as a whole to the run that had its first samples, or those
    before.
    """
    return _of_job(con, names.job(cluster, node, key), None, group=bool(key.epoch)).add(hour, points, now)


_USES = ("JobUsage", "JobCardUsage", "JobCommandUsage")
_OWN = "SampledJobID = ? AND NodeID = ?"


def _of_job(con: Connection, own: tuple[int, int], spans: Spans | None, *, group: bool) -> _Series:
    """The hours of a job on a node (``own``); ``spans``: the runs among which they are divided."""

    def measure(hour: int, points: list[Point], earlier: list[Point]) -> None:
        before = (earlier[-1][0], _snapshot(earlier[-1][1])) if earlier else None
        of_runs: dict[int, list[tuple[int, JobSnapshot]]] = {}
        if spans is None:
            query = f"SELECT RunStart FROM JobUsage WHERE {_OWN} AND"
            last = con.execute(f"{query} Hour < ? ORDER BY Hour DESC, LastTime DESC LIMIT 1", (*own, hour)).fetchone()
            first = con.execute(f"{query} Hour = ? ORDER BY FirstTime LIMIT 1", (*own, hour)).fetchone() or last
            of_runs[first[0] if first else 0] = [(at, _snapshot(value)) for at, value in points]
            follows = first == last
        else:
            for at, value in points:
                of_runs.setdefault(spans.at(at), []).append((at, _snapshot(value)))
            follows = before is not None and spans.at(before[0]) == spans.at(points[0][0])
        for table in _USES:
            con.execute(f"DELETE FROM {table} WHERE {_OWN} AND Hour = ?", (*own, hour))
        longest_s = longest_step([at for at, _ in (*earlier, *points)])
        # Only the run of the first sample may be that of the last one before.
        before = before if follows else None
        for start, shots in of_runs.items():
            write((*own, hour, start), shots[-1][1].user, job_use(shots, before, longest_s, group=group))
            before = None

    def write(key: tuple[int, int, int, int], user: str, use: JobUse) -> None:
        con.execute(
            "INSERT INTO JobUsage (SampledJobID, NodeID, Hour, RunStart, UserName, Samples, FirstTime, LastTime,"
            " Starts, CPUS, ReadKiB, WrittenKiB, PeakMemory, PeakVirtMem, PeakProcesses, PeakThreads, CancelledKiB,"
            f" InContainer, CPUAvgPercent, CPUUtilPercent, PeakCPUUtilPercent) VALUES ({', '.join('?' * 21)})",
            (*key, user, *use[:4], *use.use, *use[5:11], *use[12:15]),
        )
        con.executemany(
            "INSERT INTO JobCardUsage (SampledJobID, NodeID, Hour, RunStart, UUID, Samples, OccupiedS, BusyS, EnergyJ,"
            " PeakMemory, CardIndex, MemoryUtilPercent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*key, uuid, *card) for uuid, card in sorted(use.cards.items())],
        )
        con.executemany(
            "INSERT INTO JobCommandUsage (SampledJobID, NodeID, Hour, RunStart, Command, Samples, PeakProcesses,"
            " PeakMemory, CPUAvgPercent, CPUUtilPercent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*key, command, *one) for command, one in sorted(use.commands.items())],
        )

    return _Series(con, "JobPoints", "JobUsage", ("SampledJobID", "NodeID"), own, measure)


class _Piece(NamedTuple):
    """What a run has of an hour on a node; ``start`` is that of the run."""

    node_id: int
    hour: int
    start: int
    first_time: int
    last_time: int


_MOST_ZONES = 100
"""Of one statement; SQLite before 3.32 takes 999 values."""


def divide(con: Connection, cluster_id: int, job: LocalID, spans: Spans) -> int:
    """Give the samples of a number to its known runs; returns how many samples no run holds."""
    sampled = sampled_job(con, cluster_id, job)
    if not _is_divided(con, sampled, spans):
        rows = con.execute(
            "SELECT NodeID, Hour, RunStart, FirstTime, LastTime FROM JobUsage WHERE SampledJobID = ?"
            " ORDER BY NodeID, Hour, FirstTime",
            (sampled,),
        ).fetchall()
        for node_id, pieces in groupby(map(_Piece._make, rows), key=lambda one: one.node_id):
            _divide(con, (sampled, node_id), pieces, spans)
    (outside,) = con.execute(
        "SELECT coalesce(sum(Samples), 0) FROM JobUsage WHERE SampledJobID = ? AND RunStart = 0", (sampled,)
    ).fetchone()
    return int(outside)


def _is_divided(con: Connection, sampled: int, spans: Spans) -> bool:
    """Whether each piece lies in a zone of its run, as nearly always."""
    zones = list(spans.zones())
    if len(zones) > _MOST_ZONES:
        return False
    rights = " OR ".join(["(RunStart = ? AND FirstTime >= ? AND LastTime < ?)"] * len(zones))
    values = [value for since, until, start in zones for value in (start, since, until)]
    (found,) = con.execute(
        f"SELECT EXISTS (SELECT 1 FROM JobUsage WHERE SampledJobID = ? AND NOT ({rights}))", (sampled, *values)
    ).fetchone()
    return not found


def _divide(con: Connection, own: tuple[int, int], pieces: Iterable[_Piece], spans: Spans) -> None:
    """The same for all hours of a node, in order of time."""
    series = _of_job(con, own, spans, group=False)
    before = (-1, -1)
    """The run of the last sample of the hour before: as it is stored, and as it must be."""
    for hour, some in groupby(pieces, key=lambda one: one.hour):
        known = list(some)
        wanted = [(spans.at(one.first_time), spans.at(one.last_time)) for one in known]
        # Then its first interval is that of the same run as before.
        follows = (before[0] == known[0].start) == (before[1] == wanted[0][0])
        are_whole = all(spans.is_one(one.first_time, one.last_time) for one in known)
        is_right = are_whole and all(one.start == start for one, (start, _) in zip(known, wanted, strict=True))
        moves = follows and are_whole and len(known) == 1 and wanted[0][0]
        before = known[-1].start, wanted[-1][1]
        if (is_right and follows) or (not moves and series.again(hour)):
            continue
        for one, (start, end) in zip(known, wanted, strict=True):
            # A closed hour stays as it is where it cannot be divided.
            new = start or end
            if new and one.start not in (start, end) and new not in {other.start for other in known}:
                _give(con, (*own, hour), one.start, new)


def _give(con: Connection, hour: tuple[int, int, int], old: int, new: int) -> None:
    """What one run has of an hour is another's."""
    for table in _USES:
        con.execute(
            f"UPDATE {table} SET RunStart = ? WHERE SampledJobID = ? AND NodeID = ? AND Hour = ? AND RunStart = ?",
            (new, *hour, old),
        )


def _snapshot(value: list[Json]) -> JobSnapshot:
    # What an older program kept is shorter.
    shot = JobSnapshot(*value)
    commands = {command: CommandShare(*share) for command, share in shot.commands.items()}
    return shot._replace(cards={uuid: GPUShare(*share) for uuid, share in shot.cards.items()}, commands=commands)


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
