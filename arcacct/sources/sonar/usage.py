"""The usage that follows from samples, hour by hour, of nodes and of sampled jobs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Any, NamedTuple, TypeVar

from arcacct.database.connection import Connection
from arcacct.records.batch_jobs import LocalID
from arcacct.sources.sonar.nodes import Names
from arcacct.sources.sonar.samples import CommandShare, Counters, GPUShare, JobSnapshot, Reading, SampledKey
from arcacct.sources.sonar.spans import Spans, sampled_job

# From snapshots to use: what the processes of a job used between its samples, what the readings of a node come to.
#
# Every function is of a whole row of snapshots in the order of their times and of the one before it, so the result does
# not depend on the order in which they came here, nor on how often.


HOUR_S = 3600
NEW_JOB_GAP_S = 2 * 3600
"""Two samples of a process group that are further apart are of two jobs (the seed leaves the number open)."""

_CADENCES = 3
_MOST_COMMANDS = 100
"""That are kept of a job in an hour: a job may start as many as it likes."""
_COUNTERS = frozenset(("cpu_busy_s", "read_kib", "written_kib", "busy_ms"))


class Use(NamedTuple):
    """What a job used, in total, since the snapshot before."""

    cpu_s: int
    read_kib: int
    written_kib: int

    def plus(self, more: tuple[int, int, int]) -> Use:
        """The sum with some more."""
        return Use(self.cpu_s + more[0], self.read_kib + more[1], self.written_kib + more[2])


class GPUUse(NamedTuple):
    """What a job used of one GPU."""

    samples: int
    occupied_s: float
    busy_s: float
    energy_j: float | None
    peak_memory_kib: int
    card_index: int | None
    memory_util_percent: float | None
    """Mean of the samples that tell it."""


class CommandUse(NamedTuple):
    """What a job ran under one name."""

    samples: int
    peak_processes: int
    peak_memory_kib: int
    cpu_avg_percent: float
    cpu_util_percent: float | None


class JobUse(NamedTuple):
    """A job on a node over some snapshots."""

    samples: int
    first_time: int
    last_time: int
    starts: bool
    """Whether these are the first snapshots of the job there."""
    use: Use
    peak_memory_kib: int
    peak_virtual_memory_kib: int
    peak_processes: int
    peak_threads: int
    cancelled_kib: int
    in_container: bool
    cards: dict[str, GPUUse]
    cpu_avg_percent: float | None
    """This and what follows is ``None``, or empty, unless details are kept; means are those of the samples."""
    cpu_util_percent: float | None
    peak_cpu_util_percent: float | None
    commands: dict[str, CommandUse]


class Measure(NamedTuple):
    """One measure of one device over some readings."""

    device: str
    measure: str
    samples: int
    covered_s: float
    mean: float | None
    low: float | None
    high: float | None
    increase: float | None
    """Of a counter how much it grew; of a power what it comes to in J."""
    text: str | None


def job_use(
    snapshots: Sequence[tuple[int, JobSnapshot]],
    before: tuple[int, JobSnapshot] | None,
    longest_s: float,
    *,
    group: bool,
) -> JobUse:
    """
    What a job used over its snapshots on one node, after the one ``before`` them.

    ``longest_s`` as of `longest_step`. ``group``: a process group, whose number is another job's after a long gap.
    """
    if group and before is not None and snapshots[0][0] - before[0] > NEW_JOB_GAP_S:
        before = None
    shots = [shot for _, shot in snapshots]
    use = Use(0, 0, 0)
    earlier: dict[str, Counters] = before[1].processes if before is not None else {}
    for shot in shots:
        use = use.plus(_growth(earlier, shot.processes))
        earlier = shot.processes
    return JobUse(
        len(shots),
        snapshots[0][0],
        snapshots[-1][0],
        before is None,
        use,
        max(shot.memory_kib for shot in shots),
        max(shot.virtual_memory_kib for shot in shots),
        max(shot.process_count for shot in shots),
        max(shot.thread_count for shot in shots),
        max(shot.cancelled_kib for shot in shots),
        any(shot.in_container for shot in shots),
        _cards(snapshots, before, longest_s),
        *_percents(shots),
        _commands(shots),
    )


def _percents(shots: Iterable[JobSnapshot]) -> tuple[float | None, float | None, float | None]:
    """Mean of what all processes used over their lives; mean and peak of what they used at the moment."""
    told = [list(shot.commands.values()) for shot in shots if shot.commands]
    averages = [sum(one.cpu_avg_percent for one in shares) for shares in told]
    utils = [[one.cpu_util_percent for one in shares if one.cpu_util_percent is not None] for shares in told]
    sums = [sum(one) for one in utils if one]
    return _mean(averages), _mean(sums), max(sums, default=None)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _commands(shots: Iterable[JobSnapshot]) -> dict[str, CommandUse]:
    """What a job ran, by name: of many those that used most."""
    found: dict[str, list[CommandShare]] = {}
    for shot in shots:
        for command, share in shot.commands.items():
            found.setdefault(command, []).append(share)
    uses = {
        command: CommandUse(
            len(shares),
            max(one.processes for one in shares),
            max(one.memory_kib for one in shares),
            sum(one.cpu_avg_percent for one in shares) / len(shares),
            _mean([one.cpu_util_percent for one in shares if one.cpu_util_percent is not None]),
        )
        for command, shares in found.items()
    }
    most = sorted(uses, key=lambda command: (-uses[command].cpu_avg_percent * uses[command].samples, command))
    return {command: uses[command] for command in most[:_MOST_COMMANDS]}


def _growth(earlier: dict[str, Counters], now: dict[str, Counters]) -> Use:
    """
    How much the processes of a job added to their counters between two snapshots.

    A parent's counters take over the child's when it has waited for it: what is known of the child is not counted
    twice. A counter that shrank is another process with the pid of the first, or a rolled-up group that lost members.
    """
    cpu = read = written = 0
    for key, counters in now.items():
        added = _added_by(earlier.get(key), counters, group="/" in key)
        cpu += added[0]
        read += added[1]
        written += added[2]
    left: dict[str, Use] = {}
    for key in earlier.keys() - now.keys():
        heir = _survivor(earlier[key][0], earlier, now)
        if heir is not None:
            left[heir] = left.get(heir, Use(0, 0, 0)).plus(earlier[key][1:])
    for heir, inherited in left.items():
        own = _added_by(earlier[heir], now[heir], group=False)
        cpu -= min(own[0], inherited[0])
        read -= min(own[1], inherited[1])
        written -= min(own[2], inherited[2])
    return Use(cpu, read, written)


def _added_by(old: Counters | None, now: Counters, *, group: bool) -> tuple[int, int, int]:
    """What one process, or a rolled-up group, added."""
    if old is None:
        return now[1:]
    cpu, read, written = now[1] - old[1], now[2] - old[2], now[3] - old[3]
    if cpu >= 0 and read >= 0 and written >= 0:
        return cpu, read, written
    return (max(0, cpu), max(0, read), max(0, written)) if group else now[1:]


def _survivor(parent: int, earlier: dict[str, Counters], now: dict[str, Counters]) -> str | None:
    """The nearest ancestor in the job that still lives: it has waited for all between."""
    for _ in range(64):
        key = str(parent)
        if key in now and key in earlier:
            return key
        if key not in earlier:
            return None
        parent = earlier[key][0]
    return None


def longest_step(times: Sequence[int]) -> float:
    """
    The longest time between two samples that is no gap: three sampling intervals, and no more than two hours.

    ``times``: when samples were taken, in order; the median of their intervals is the sampling interval.
    """
    steps = [late - early for early, late in pairwise(times) if late > early]
    return min(_CADENCES * median(steps), NEW_JOB_GAP_S) if steps else 0


def _steps(times: Sequence[int], before: int | None, longest_s: float) -> list[float]:
    """
    The seconds that each of some times stands for: back to the one before it.

    What happened in a gap is unknown, so a time behind one stands for nothing, and so does the first of all.
    """
    steps = [late - early for early, late in pairwise([times[0] if before is None else before, *times])]
    return [float(step) if step <= longest_s else 0.0 for step in steps]


def _cards(
    snapshots: Sequence[tuple[int, JobSnapshot]], before: tuple[int, JobSnapshot] | None, longest_s: float
) -> dict[str, GPUUse]:
    if not any(shot.cards for _, shot in snapshots):
        return {}
    steps = _steps([time for time, _ in snapshots], before[0] if before is not None else None, longest_s)
    found: dict[str, GPUUse] = {}
    for (_, shot), step in zip(snapshots, steps, strict=True):
        for uuid, share in shot.cards.items():
            old = found.get(uuid, GPUUse(0, 0.0, 0.0, None, 0, None, None))
            found[uuid] = GPUUse(
                old.samples + 1,
                old.occupied_s + step,
                old.busy_s + share.util_percent / 100 * step,
                old.energy_j if share.power_w is None else (old.energy_j or 0.0) + share.power_w * step,
                max(old.peak_memory_kib, share.memory_kib),
                old.card_index if share.card_index is None else share.card_index,
                None,
            )
    return {uuid: one._replace(memory_util_percent=_memory_util(snapshots, uuid)) for uuid, one in found.items()}


def _memory_util(snapshots: Sequence[tuple[int, JobSnapshot]], uuid: str) -> float | None:
    shares = [shot.cards[uuid].memory_util_percent for _, shot in snapshots if uuid in shot.cards]
    return _mean([one for one in shares if one is not None])


def node_use(readings: Sequence[tuple[int, Reading]], earlier: Sequence[tuple[int, Reading]]) -> list[Measure]:
    """
    What the readings of a node come to: means and extremes of what goes up and down, growth of what is counted.

    ``earlier``: those before them, of which the last one is the beginning of the first interval.
    """
    names = sorted({(device, measure) for _, reading in readings for device, own in reading.items() for measure in own})
    return [_measured(readings, earlier, *name) for name in names if name[1] != "boot"]


def _measured(
    readings: Sequence[tuple[int, Reading]], earlier: Sequence[tuple[int, Reading]], device: str, measure: str
) -> Measure:
    rows = [(time, reading) for time, reading in readings if measure in reading.get(device, ())]
    before = earlier[-1] if earlier and measure in earlier[-1][1].get(device, ()) else None
    values = [reading[device][measure] for _, reading in rows]
    times = [time for time, _ in rows]
    longest_s = longest_step([*(time for time, reading in earlier if measure in reading.get(device, ())), *times])
    steps = _steps(times, before[0] if before is not None else None, longest_s)
    told = Measure(device, measure, len(rows), sum(steps), None, None, None, None, None)
    if isinstance(values[-1], str):
        return told._replace(text=values[-1])
    if measure in _COUNTERS:
        return told._replace(increase=_rise(rows, before, device, measure))
    numbers = [float(value) for value in values]
    if measure == "power_w":
        told = told._replace(increase=sum(power * step for power, step in zip(numbers, steps, strict=True)))
    return told._replace(mean=sum(numbers) / len(numbers), low=min(numbers), high=max(numbers))


def _rise(rows: Iterable[tuple[int, Reading]], before: tuple[int, Reading] | None, device: str, measure: str) -> float:
    """The growth of a counter that begins at 0 again when the node boots."""
    total = 0.0
    earlier = before[1] if before is not None else None
    for _, reading in rows:
        value = float(reading[device][measure])
        if earlier is not None:
            old = float(earlier[device][measure])
            rebooted = abs(_boot(reading) - _boot(earlier)) > 2 or value < old
            total += value if rebooted else value - old
        earlier = reading
    return total


def _boot(reading: Reading) -> float:
    # The kernel's boot time may jitter by a second between two reads.
    return float(reading.get("", {}).get("boot", 0.0))


# The hours of nodes and of sampled jobs: what was seen in them, and what that comes to.
#
# The counters of an hour's samples are kept, packed, as long as late samples may come (two weeks); the sums are made of
# all of them anew whenever one is added, so order and repetition do not matter. The hour after is made anew too: its
# first interval begins with the last sample of this one.
#
# An hour of a batch job has sums for each run of the number (`spans`). When another run becomes known, an hour that it
# divides is made anew; one that it holds whole, or that is closed, is only given to it.


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

    return _Series(con, "NodeSamples", "NodeUsage", ("NodeID",), (node_id,), measure).add(hour, points, now)


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


_USES = ("JobUsage", "JobGPUUsage", "JobCommandUsage")
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
            "INSERT INTO JobGPUUsage (SampledJobID, NodeID, Hour, RunStart, UUID, Samples, OccupiedS, BusyS, EnergyJ,"
            " PeakMemory, CardIndex, MemoryUtilPercent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*key, uuid, *card) for uuid, card in sorted(use.cards.items())],
        )
        con.executemany(
            "INSERT INTO JobCommandUsage (SampledJobID, NodeID, Hour, RunStart, Command, Samples, PeakProcesses,"
            " PeakMemory, CPUAvgPercent, CPUUtilPercent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*key, command, *one) for command, one in sorted(use.commands.items())],
        )

    return _Series(con, "JobSamples", "JobUsage", ("SampledJobID", "NodeID"), own, measure)


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
    for table, own in (("NodeSamples", ("NodeID",)), ("JobSamples", ("SampledJobID", "NodeID"))):
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
