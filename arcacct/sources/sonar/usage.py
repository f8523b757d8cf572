"""Calculate the usage of nodes and of sampled jobs from samples, hour by hour."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Literal, NamedTuple, TypeVar

from arcacct.database.connection import Connection
from arcacct.records.batch_jobs import LocalID
from arcacct.records.states import THREADS_OF_NODE
from arcacct.sources.sonar.nodes import Names
from arcacct.sources.sonar.samples import CommandShare, Counters, GPUShare, JobSnapshot, Reading, SampledKey
from arcacct.sources.sonar.spans import Spans, sampled_job

# From snapshots to usage: the use by the processes of a job between its samples, and statistics of the readings of a
# node.
#
# Each function takes a whole series of snapshots in order of time, and the snapshot before it. So the result does not
# depend on the order in which they arrived, or on repeated ones.


HOUR_S = 3600
NEW_JOB_GAP_S = 2 * 3600
"""Samples of a process group that are further apart belong to two jobs (the seed does not fix the number)."""

_CADENCES = 3
_MOST_COMMANDS = 100
"""The most commands that are stored for a job in an hour. A job may start any number of them."""
_COUNTERS = frozenset(("cpu_busy_s", "read_kib", "written_kib", "busy_ms"))


class Use(NamedTuple):
    """The total use by a job since the previous snapshot."""

    cpu_s: int
    read_kib: int
    written_kib: int

    def plus(self, more: tuple[int, int, int]) -> Use:
        """Return the sum with more use."""
        return Use(self.cpu_s + more[0], self.read_kib + more[1], self.written_kib + more[2])


class GPUUse(NamedTuple):
    """The use of one GPU by a job."""

    samples: int
    occupied_s: float
    busy_s: float
    energy_j: float | None
    peak_memory_kib: int
    card_index: int | None
    memory_util_percent: float | None
    """Mean of the samples that have it."""


class CommandUse(NamedTuple):
    """The use by a job's processes with one command name."""

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
    """Whether these are the first snapshots of the job on the node."""
    use: Use
    peak_memory_kib: int
    peak_virtual_memory_kib: int
    peak_processes: int
    peak_threads: int
    cancelled_kib: int
    in_container: bool
    cards: dict[str, GPUUse]
    cpu_avg_percent: float | None
    """
    This field and the following ones are ``None``, or empty, unless details are stored. Means are over the samples.
    """
    cpu_util_percent: float | None
    peak_cpu_util_percent: float | None
    commands: dict[str, CommandUse]
    unusable: tuple[int, ...] = ()
    """The times of snapshots with an impossible CPU time."""


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
    """The growth of a counter, or the energy of a power in J."""
    text: str | None


def job_use(
    snapshots: Sequence[tuple[int, JobSnapshot]],
    before: tuple[int, JobSnapshot] | None,
    longest_s: float,
    *,
    group: bool,
) -> JobUse:
    """
    Return the use by a job over its snapshots on one node. ``before`` is the snapshot before them.

    ``longest_s`` is the result of `longest_step`. ``group``: the job is a process group, whose number belongs to
    another job after a long gap.
    """
    if group and before is not None and snapshots[0][0] - before[0] > NEW_JOB_GAP_S:
        before = None
    shots = [shot for _, shot in snapshots]
    use = Use(0, 0, 0)
    unusable = []
    since = None if before is None else before[0]
    earlier = {} if before is None else before[1].processes
    for at, shot in snapshots:
        now = shot.processes if since is None else possible(earlier, shot.processes, at - since)
        if now is not shot.processes:
            unusable.append(at)
        use = use.plus(_growth(earlier, now))
        since, earlier = at, now
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
        tuple(unusable),
    )


def possible(earlier: dict[str, Counters], now: dict[str, Counters], seconds: int) -> dict[str, Counters]:
    """
    Return the counters of now, with the earlier ones of a process whose CPU time grew by more than a node can give.

    A process without earlier counters is left out.
    """
    most_s = seconds * THREADS_OF_NODE
    odd = {
        key
        for key, one in now.items()
        if one[1] > most_s and _added_by(earlier.get(key), one, group="/" in key)[0] > most_s
    }
    if not odd:
        return now
    usable = {key: one for key, one in now.items() if key not in odd}
    return usable | {key: earlier[key] for key in odd if key in earlier}


def _percents(shots: Iterable[JobSnapshot]) -> tuple[float | None, float | None, float | None]:
    """Return the mean of the use by all processes over their lives, and mean and peak of their use at the samples."""
    told = [list(shot.commands.values()) for shot in shots if shot.commands]
    averages = [sum(one.cpu_avg_percent for one in shares) for shares in told]
    utils = [[one.cpu_util_percent for one in shares if one.cpu_util_percent is not None] for shares in told]
    sums = [sum(one) for one in utils if one]
    return _mean(averages), _mean(sums), max(sums, default=None)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _commands(shots: Iterable[JobSnapshot]) -> dict[str, CommandUse]:
    """Return the commands of a job by name. Of too many, only those with the most use are returned."""
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
    Return how much the processes of a job added to their counters between two snapshots.

    A parent's counters include the child's after it has waited for the child. The known use of the child is subtracted,
    so it is not counted twice. A counter that shrank belongs to a new process with the same pid, or to a rolled-up
    group that lost members.
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
    """Return the use that one process, or a rolled-up group, added."""
    if old is None:
        return now[1:]
    cpu, read, written = now[1] - old[1], now[2] - old[2], now[3] - old[3]
    if cpu >= 0 and read >= 0 and written >= 0:
        return cpu, read, written
    return (max(0, cpu), max(0, read), max(0, written)) if group else now[1:]


def _survivor(parent: int, earlier: dict[str, Counters], now: dict[str, Counters]) -> str | None:
    """Return the nearest living ancestor in the job. It has waited for all processes between. ``None`` without one."""
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
    Return the longest time in seconds between two samples that is not a gap: three sampling intervals, at most two
    hours.

    ``times``: the times of the samples, in order. The sampling interval is the median of their intervals.
    """
    steps = [late - early for early, late in pairwise(times) if late > early]
    return min(_CADENCES * median(steps), NEW_JOB_GAP_S) if steps else 0


def _steps(times: Sequence[int], before: int | None, longest_s: float) -> list[float]:
    """
    Return the seconds that each sample covers: since the sample before it.

    The use in a gap is unknown, so a sample after a gap covers 0 seconds. So does the first sample of all.
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
    Return the measures of a node's readings: mean and extremes of values, growth of counters.

    ``earlier``: the readings before them. The last of these starts the first interval.
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
    """Return the growth of a counter. It restarts at 0 when the node boots."""
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
    # The kernel's boot time may vary by a second between two reads.
    return float(reading.get("", {}).get("boot", 0.0))


# The hours of nodes and of sampled jobs: the points in them, and the resulting sums.
#
# The counters of an hour's samples are stored, compressed, as long as late samples may come (two weeks). When one is
# added, the sums are made again from all of them, so order and repetition do not matter. The next hour is made again
# too, because its first interval starts with the last sample of this one.
#
# An hour of a batch job has sums for each run of the number (`spans`). When another run becomes known, an hour that it
# divides is made again. An hour within the run, or a closed hour, is only assigned to it.


KEPT_S = 14 * 86400
"""An hour accepts further samples for this long after its last change."""

Json = Any
Point = tuple[int, Json]
"""A time and the data of that time."""
Added = Counter[str] | Literal[False]
"""The unusable values of added points, by field; False: they came too late, the hour is closed."""
T = TypeVar("T")


class _Series(NamedTuple):
    """The data of nodes, or of jobs on nodes, hour by hour."""

    con: Connection
    points: str
    """The table of the points."""
    usage: str
    """The table of the usage."""
    columns: tuple[str, ...]
    own: tuple[int, ...]
    measure: Callable[[int, list[Point], list[Point]], Sequence[int]]
    """
    Writes the usage of an hour from its points and the points of the previous stored hour. Returns the times of points
    with an impossible CPU time.
    """

    def _one(self, what: str, table: str, condition: str, hour: int) -> Any:
        where = "".join(f"{column} = ? AND " for column in self.columns)
        row = self.con.execute(f"SELECT {what} FROM {table} WHERE {where}{condition}", (*self.own, hour)).fetchone()
        return None if row is None else row[0]

    def _load(self, hour: int) -> dict[str, Json]:
        packed = self._one("Points", self.points, "Hour = ?", hour)
        found: dict[str, Json] = {} if packed is None else json.loads(zlib.decompress(packed))
        return found

    def add(self, hour: int, points: Mapping[int, Json], now: int) -> Added:
        """Add points to an hour."""
        stored = self._load(hour)
        if not stored and self._one("1", self.usage, "Hour = ?", hour) is not None:
            return False
        # Convert through JSON, so that stored and new values can be compared.
        fresh = json.loads(json.dumps({str(at): point for at, point in points.items()}))
        merged = stored | {at: fuller(stored.get(at), value) for at, value in fresh.items()}
        if merged == stored:
            return Counter()
        packed = zlib.compress(json.dumps(merged, separators=(",", ":")).encode(), 1)
        columns = (*self.columns, "Hour", "Written", "Points")
        self.con.execute(
            f"INSERT OR REPLACE INTO {self.points} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            (*self.own, hour, now, packed),
        )
        unusable = len(self._measure(hour, merged))
        if unusable and stored:
            # Some may have been counted.
            unusable -= len(self._measure(hour, stored))
            self._measure(hour, merged)
        following = self._one("Hour", self.points, "Hour > ? ORDER BY Hour LIMIT 1", hour)
        if following is not None:
            self._measure(following, self._load(following))
        return Counter(cpu_time=unusable) if unusable > 0 else Counter()

    def again(self, hour: int) -> bool:
        """Write the usage of an hour again. Return False when the hour is closed."""
        points = self._load(hour)
        if points:
            self._measure(hour, points)
        return bool(points)

    def _measure(self, hour: int, points: dict[str, Json]) -> Sequence[int]:
        earlier = self._one("Hour", self.points, "Hour < ? ORDER BY Hour DESC LIMIT 1", hour)
        return self.measure(hour, _in_order(points), _in_order(self._load(earlier)) if earlier is not None else [])


def add_node_points(
    con: Connection, hour: int, points: dict[int, Reading], *, names: Names, cluster: str, node: str, now: int
) -> Added:
    """Add readings to an hour of a node."""
    node_id = names.node(cluster, node)

    def measure(hour: int, readings: list[Point], earlier: list[Point]) -> Sequence[int]:
        con.execute("DELETE FROM NodeUsage WHERE NodeID = ? AND Hour = ?", (node_id, hour))
        con.executemany(
            "INSERT INTO NodeUsage (NodeID, Hour, Device, Measure, Samples, CoveredS, Mean, Low, High, Increase, Text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(node_id, hour, *one) for one in node_use(readings, earlier)],
        )
        return ()

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
) -> Added:
    """
    Add snapshots to an hour of a job on a node.

    Until `divide` handles the number, the whole hour belongs to the run of its first samples, or of the samples before
    it.
    """
    return _of_job(con, names.job(cluster, node, key), None, group=bool(key.epoch)).add(hour, points, now)


_USES = ("JobUsage", "JobGPUUsage", "JobCommandUsage")
_OWN = "SampledJobID = ? AND NodeID = ?"


def _of_job(con: Connection, own: tuple[int, int], spans: Spans | None, *, group: bool) -> _Series:
    """Return the hours of a job on a node (``own``). ``spans``: the runs among which they are divided."""

    def measure(hour: int, points: list[Point], earlier: list[Point]) -> Sequence[int]:
        last = [(at, _snapshot(value)) for at, value in earlier[-2:]]
        before = last[-1] if last else None
        if len(last) > 1:
            (at, one), (later, other) = last
            before = later, other._replace(processes=possible(one.processes, other.processes, later - at))
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
        # Only the run of the first sample can be the run of the previous sample.
        before = before if follows else None
        unusable: list[int] = []
        for start, shots in of_runs.items():
            use = job_use(shots, before, longest_s, group=group)
            write((*own, hour, start), shots[-1][1].user, use)
            unusable += use.unusable
            before = None
        return unusable

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
    """The part of an hour on a node that belongs to a run. ``start`` is the start of the run."""

    node_id: int
    hour: int
    start: int
    first_time: int
    last_time: int


_MOST_ZONES = 100
"""The most zones in one statement. SQLite before 3.32 takes 999 values."""


def divide(con: Connection, cluster_id: int, job: LocalID, spans: Spans) -> int:
    """Assign the samples of a number to its known runs. Return the number of samples outside all runs."""
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
    """Whether each piece is in a zone of its run, which is nearly always true."""
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
    """Assign the samples of all hours on one node, in order of time."""
    series = _of_job(con, own, spans, group=False)
    before = (-1, -1)
    """The run of the last sample of the previous hour: as stored, and as it must be."""
    for hour, some in groupby(pieces, key=lambda one: one.hour):
        known = list(some)
        wanted = [(spans.at(one.first_time), spans.at(one.last_time)) for one in known]
        # If so, the first interval of the hour continues the same run as before.
        follows = (before[0] == known[0].start) == (before[1] == wanted[0][0])
        are_whole = all(spans.is_one(one.first_time, one.last_time) for one in known)
        is_right = are_whole and all(one.start == start for one, (start, _) in zip(known, wanted, strict=True))
        moves = follows and are_whole and len(known) == 1 and wanted[0][0]
        before = known[-1].start, wanted[-1][1]
        if (is_right and follows) or (not moves and series.again(hour)):
            continue
        for one, (start, end) in zip(known, wanted, strict=True):
            # A closed hour that cannot be divided stays unchanged.
            new = start or end
            if new and one.start not in (start, end) and new not in {other.start for other in known}:
                _give(con, (*own, hour), one.start, new)


def _give(con: Connection, hour: tuple[int, int, int], old: int, new: int) -> None:
    """Assign the part of an hour that belongs to one run to another run."""
    for table in _USES:
        con.execute(
            f"UPDATE {table} SET RunStart = ? WHERE SampledJobID = ? AND NodeID = ? AND Hour = ? AND RunStart = ?",
            (new, *hour, old),
        )


def _snapshot(value: list[Json]) -> JobSnapshot:
    # A value that an older version stored is shorter.
    shot = JobSnapshot(*value)
    commands = {command: CommandShare(*share) for command, share in shot.commands.items()}
    return shot._replace(cards={uuid: GPUShare(*share) for uuid, share in shot.cards.items()}, commands=commands)


def forget_points(con: Connection, now: int) -> None:
    """Close the hours whose last change is more than two weeks ago. An hour stays open while the next one is open."""
    for table, own in (("NodeSamples", ("NodeID",)), ("JobSamples", ("SampledJobID", "NodeID"))):
        same = " AND ".join(f"Later.{column} = {table}.{column}" for column in own)
        con.execute(
            f"DELETE FROM {table} WHERE Written < ?1 AND NOT coalesce((SELECT Written >= ?1 FROM {table} AS Later"
            f" WHERE {same} AND Later.Hour > {table}.Hour ORDER BY Later.Hour LIMIT 1), 0)",
            (now - KEPT_S,),
        )


def fuller(one: T | None, other: T) -> T:
    """Return the more complete of two samples of the same second. The order of the arguments does not matter."""
    return other if one is None or one == other else max(one, other, key=_weight)


def _weight(value: Json) -> tuple[int, str]:
    text = json.dumps(value, sort_keys=True)
    return len(text), text


def _in_order(points: dict[str, Json]) -> list[Point]:
    return sorted(((int(at), value) for at, value in points.items()), key=lambda point: point[0])
