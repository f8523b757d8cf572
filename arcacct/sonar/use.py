"""
From snapshots to use: what the processes of a job used between its samples, what the readings of a node come to.

Every function is of a whole row of snapshots in the order of their times and of the one before it, so the result does
not depend on the order in which they came here, nor on how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from arcacct.sonar.samples import CommandShare, Counters, JobSnapshot, Reading

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
