"""
Usage by whatever is asked: from sums that are kept where these know the answer, else from the jobs.

Jobs, hours, normalised hours, efficiency. Sums are of integers, so they do not depend on the order of the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from arcacct.asking import questions
from arcacct.asking.questions import Selection, UsagePart, whole
from arcacct.asking.reading import is_ours
from arcacct.benchmark import parsed_benchmark
from arcacct.db.engine import Connection
from arcacct.jobs.fqan import parsed_fqan

NEEDS = {
    "month": "month",
    "day": "day",
    "vo": "vo",
    "group": "fqan",
    "role": "fqan",
    "user": "user_dn",
    "queue": "queue",
    "endpoint": "endpoint_url",
    "status": "status",
    "host": "node_names",
    "project": "project",
    "benchmark": "benchmark",
    "infrastructure": "endpoint_url",
}
"""What can be asked by, and the stored value that it is made from."""
_HOUR_S = 3600


class UsageTable(NamedTuple):
    """An answer."""

    columns: tuple[str, ...]
    rows: list[tuple[str | int | float | None, ...]]


@dataclass(slots=True)
class UsageSum:
    """A sum under way."""

    jobs: int = 0
    wall_s: int = 0
    cpu_s: int = 0
    core_s: int = 0
    hs06_millionths: int = 0
    hepscore23_millionths: int = 0
    failed_jobs: int = 0
    stage_in_bytes: int = 0
    stage_out_bytes: int = 0

    def add(self, part: UsagePart) -> None:
        """Add some jobs."""
        wall_s, cpu_s, core_count = part.wall_s, part.cpu_s, part.core_count
        if not type(wall_s) is type(cpu_s) is type(core_count) is int:
            # Of a database that somebody else made: SQLite holds anything in a column of numbers.
            wall_s, cpu_s, core_count = whole(wall_s), whole(cpu_s), whole(core_count)
        core_s = wall_s * core_count
        self.jobs += part.jobs
        self.wall_s += wall_s
        self.cpu_s += cpu_s
        self.core_s += core_s
        self.failed_jobs += part.failed_jobs
        self.stage_in_bytes += whole(part.stage_in_bytes)
        self.stage_out_bytes += whole(part.stage_out_bytes)
        benchmark = parsed_benchmark(part.benchmark)
        if benchmark is not None and benchmark.type == "HEPscore23":
            self.hepscore23_millionths += benchmark.normalised(core_s)
        elif benchmark is not None:
            # HEPSPEC is HS06; Si2k is converted as APEL's server does.
            self.hs06_millionths += benchmark.normalised(core_s)

    def row(self, *, details: bool) -> dict[str, int | float | None]:
        """The numbers that are shown; the efficiency is CPU time over core time, ``None`` without core time."""
        shown: dict[str, int | float | None] = {
            "jobs": self.jobs,
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "core_hours": round(self.core_s / _HOUR_S, 3),
            "hs06_hours": round(self.hs06_millionths / (_HOUR_S * 10**6), 3),
            "hepscore23_hours": round(self.hepscore23_millionths / (_HOUR_S * 10**6), 3),
            "cpu_efficiency": round(self.cpu_s / self.core_s, 4) if self.core_s else None,
        }
        if details:
            shown |= {name: getattr(self, name) for name in ("failed_jobs", "stage_in_bytes", "stage_out_bytes")}
        return shown


def usage(
    con: Connection, selection: Selection, by: Sequence[str], *, details: bool, active: bool = False
) -> UsageTable:
    """
    One row for each combination of what is asked ``by`` (of NEEDS), sorted by it.

    Finished jobs as they are published count; with ``active``, a state in the selection or in ``by``, all jobs do.
    """
    keys = tuple(dict.fromkeys(NEEDS[name] for name in by))
    everything = active or bool(selection.states) or "status" in by
    kept = questions.kept_parts(con, selection, keys, details=details, everything=everything) if is_ours(con) else None
    parts = questions.parts(con, selection, keys, everything=everything) if kept is None else kept
    places = [(name, keys.index(NEEDS[name])) for name in by]
    sums: dict[tuple[str | None, ...], UsageSum] = {}
    for part in parts:
        shown = tuple(_shown(name, part.key[place]) for name, place in places)
        sums.setdefault(shown, UsageSum()).add(part)
    known = sorted(
        (shown for shown, found in sums.items() if found.jobs),
        key=lambda shown: [(text is not None, text or "") for text in shown],
    )
    rows = [(*shown, *sums[shown].row(details=details).values()) for shown in known]
    return UsageTable((*by, *UsageSum().row(details=details)), rows)


def _shown(name: str, stored: str | None) -> str | None:
    if name in ("group", "role"):
        found = parsed_fqan(stored) if stored else None
        role = None if found is None or found.role == "NULL" else found.role
        return role if name == "role" else None if found is None else found.group
    if name == "infrastructure":
        return "grid" if stored else "local"
    if name == "host" and stored:
        # The node that the batch system named first: one job, one host.
        return stored.split(":")[0]
    if name == "benchmark":
        benchmark = parsed_benchmark(stored)
        return stored if benchmark is None else str(benchmark)
    return stored
