"""The results of a comparison of a month: sources, findings, differences and deviations."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from arcacct.queries.portal import Compared

_IN_MEMORY_BYTES = 1_000_000
"""Bytes of reports on single jobs in memory; more goes to disk."""
UNTIL_PORTAL = "unknown until compared with the portal"


class Source(NamedTuple):
    """The data of one place about the month; ``None`` is unknown there."""

    name: str
    jobs: int | None = None
    wall_s: int | None = None
    cpu_s: int | None = None
    agrees: bool = True
    proof: str = ""
    """How far a receiver's figures are known: ``stored`` (it named each record), ``handed to AMS``, ``written``."""
    unknown: str = ""
    """Why it is unknown whether it agrees, and how to find out; only if it does not differ."""
    not_selected: int = 0
    """Jobs of the database that ``vofilter`` excludes from this target: no difference, but always reported."""
    surplus: str = ""
    """How many records without usage a receiver that never deletes counts as jobs; empty: none."""

    @property
    def answer(self) -> str:
        """``yes``, ``NO`` or ``unknown``, with what is not selected."""
        if not self.agrees or self.unknown:
            return "NO" if not self.agrees else "unknown"
        yes = f"usage yes, {self.surplus}" if self.surplus else "yes"
        return f"{yes}, {self.not_selected} not selected by vofilter" if self.not_selected else yes


class Deviation(NamedTuple):
    """A value of a place that differs from the database, and why."""

    source: str
    job_id: str | None
    """``None``: not known by job."""
    text: str


Finding = tuple[str | None, str]
"""A difference at a place: job id (``None``: not known by job) and text."""


class Differences:
    """Deviations in the order of discovery; very many are stored on disk."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115  as long as it is asked
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Deviation]:
        self._file.seek(0)
        return (Deviation(*json.loads(line)) for line in self._file)

    def append(self, one: Deviation) -> None:
        """Add one."""
        self._file.write(json.dumps(one).encode("ascii") + b"\n")
        self._count += 1

    def close(self) -> None:
        """Release the space on disk."""
        self._file.close()


class MonthReport:
    """The whole comparison; close it at the end."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.portals: list[tuple[str, Compared]] = []
        """Each export by its name in ``sources``."""
        self.differences = Differences()

    @property
    def agrees(self) -> bool:
        """Whether every place certainly agrees with the database."""
        return all(source.agrees and not source.unknown for source in self.sources)

    @property
    def differs(self) -> bool:
        """Whether some place certainly differs."""
        return not all(source.agrees for source in self.sources)

    def settle(self) -> None:
        """Note that the portal agrees with the database: this also settles what only the portal could show."""
        self.sources = [
            source._replace(unknown="") if source.unknown.startswith(UNTIL_PORTAL) else source
            for source in self.sources
        ]

    def add_deviations(self, place: str, found: Iterable[Finding]) -> bool:
        """Note the differences at a place; return whether there are any."""
        before = len(self.differences)
        for one in found:
            self.differences.append(Deviation(place, *one))
        return len(self.differences) > before

    def add(self, source: Source, found: Iterable[Finding] = (), *notes: str) -> None:
        """
        Add one place, which agrees if nothing was ``found``.

        ``notes`` are no differences, but useful to know.
        """
        differs = self.add_deviations(source.name, found)
        self.sources.append(source._replace(agrees=source.agrees and not differs))
        self.add_deviations(source.name, ((None, text) for text in notes))

    def close(self) -> None:
        """Release the space on disk."""
        self.differences.close()
