"""The cores of the site on each day: by its configuration, else by the telemetry of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.config.values import InstalledCores
from arcacct.database.connection import Connection
from arcacct.wording import count_of

DAY_S = 86_400


class Capacity(NamedTuple):
    """The installed cores by day (since 1970), and their source."""

    cores: dict[int, int]
    """Days with unknown cores are missing."""
    source: str
    """For people."""
    lacking: str = ""
    """What to do to know those of other days."""


_LACKING = "write cores=NUMBER into [arcacct], or import Sonar's telemetry of the cluster and of every node of it"


def installed(configured: Sequence[InstalledCores], con: Connection, start_s: int, before_s: int) -> Capacity:
    """
    Return the cores on each day of a period: from ``cores`` lines if there is any, else from the nodes that Sonar
    reports.
    """
    days = range(start_s // DAY_S, -(-before_s // DAY_S))
    if not configured:
        return _of_telemetry(con, days)
    known = {day: one.cores for day in days for one in configured if one.valid.has(day * DAY_S)}
    return Capacity(known, "cores= of [arcacct]", "write cores= for these days into [arcacct]")


def _of_telemetry(con: Connection, days: range) -> Capacity:
    """
    A node counts from the first to the last day on which the batch system listed it, whatever its state.

    A day is known if the hardware of every node of it is.
    """
    listed = con.execute(
        "SELECT ClusterID, Name, min(ValidFrom), max(LastSeen) FROM ClusterNodes GROUP BY ClusterID, Name"
    ).fetchall()
    if not listed:
        return Capacity({}, "telemetry", _LACKING)
    hardware: dict[tuple[int, str], list[tuple[int, int]]] = {}
    threads = 1
    for cluster, name, valid_from, cores, per_core in con.execute(
        "SELECT ClusterID, Name, ValidFrom, Sockets * CoresPerSocket, ThreadsPerCore FROM Nodes"
        " JOIN NodeNames ON NodeNames.ID = NodeID ORDER BY ValidFrom"
    ):
        hardware.setdefault((cluster, _short(name)), []).append((valid_from // DAY_S, cores))
        threads = max(threads, per_core)
    first, last = min(row[2] for row in listed) // DAY_S, max(row[3] for row in listed) // DAY_S
    cores, unknown = _Steps(), _Steps()
    missing = set()
    for cluster, name, from_s, until_s in listed:
        span = range(max(from_s // DAY_S, days.start), min(until_s // DAY_S + 1, days.stop))
        if not span:
            continue
        known = hardware.get((cluster, _short(name)), [])
        if not known or not all(count > 0 for _day, count in known):
            missing.add(name)
            unknown.add(span, 1)
            continue
        # Before its first report, a node counts as in that report.
        begins = [days.start, *(day for day, _count in known[1:])]
        for (_day, count), begin, end in zip(known, begins, [*begins[1:], days.stop], strict=True):
            cores.add(range(max(begin, span.start), min(end, span.stop)), count)
    holes = unknown.on(days)
    found = {day: count for day, count in cores.on(days).items() if count and not holes[day] and first <= day <= last}
    source = "telemetry (sockets times cores per socket of the nodes that the batch system lists)"
    if threads > 1:
        source += f"; cores have {threads} threads: if jobs are given threads, write cores=NUMBER into [arcacct]"
    lacking = _LACKING
    if missing:
        few = ", ".join(sorted(missing)[:3])
        lacking = f"the cores of {count_of(len(missing), 'node')} are not known ({few}); {_LACKING}"
    return Capacity(found, source, lacking)


def _short(name: str) -> str:
    return name.partition(".")[0]


class _Steps:
    """A sum by day, of amounts that hold for some days."""

    def __init__(self) -> None:
        self._changes: dict[int, int] = {}

    def add(self, days: range, amount: int) -> None:
        if days:
            self._changes[days.start] = self._changes.get(days.start, 0) + amount
            self._changes[days.stop] = self._changes.get(days.stop, 0) - amount

    def on(self, days: Iterable[int]) -> dict[int, int]:
        found, total = {}, 0
        for day in days:
            total += self._changes.get(day, 0)
            found[day] = total
        return found
