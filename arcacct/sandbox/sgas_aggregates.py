"""
What an SGAS server counts by day and machine (the tables uraggregated and uraggregated_update).

Nothing is counted when a record comes: its day of insertion and machine are put into a queue, and a task that runs now
and then counts the rows of what is queued anew. What nobody queues keeps its old count, even if its rows are gone.
"""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from arcacct.sandbox.sgas_records import Row


class DayOfMachine(NamedTuple):
    """What is counted apart."""

    inserted_on: str
    """The day on which the server stored the records, ``YYYY-MM-DD`` in UTC."""
    machine_name: str


class Aggregate(NamedTuple):
    """The usage of a day and machine."""

    jobs: int
    cpu_s: int
    wall_s: int
    """Times the processors of each job; a job without any counts as of one."""


class StoredRecord(NamedTuple):
    """A record with the number of its row and the day of its insertion, ``YYYY-MM-DD`` in UTC."""

    row_id: int
    row: Row
    inserted_on: str

    @property
    def counted_in(self) -> DayOfMachine:
        """Where the aggregates count it."""
        return DayOfMachine(self.inserted_on, self.row.machine_name)


class Aggregates:
    """`counted`: what the server shows. `queue`: what has to be counted anew."""

    def __init__(self) -> None:
        self.counted: dict[DayOfMachine, Aggregate] = {}
        self.queue: set[DayOfMachine] = set()

    def update(self, stored: Iterable[StoredRecord]) -> None:
        """Count what is queued anew from all rows of the database, and empty the queue."""
        rows: dict[DayOfMachine, list[Row]] = {}
        for one in stored:
            rows.setdefault(one.counted_in, []).append(one.row)
        for where in self.queue:
            self.counted.pop(where, None)
            if where in rows:
                self.counted[where] = _count(rows[where])
        self.queue.clear()


def _count(rows: list[Row]) -> Aggregate:
    return Aggregate(
        len(rows),
        sum(row.cpu_duration or 0 for row in rows),
        sum((row.wall_duration or 0) * (1 if row.processors is None else row.processors) for row in rows),
    )
