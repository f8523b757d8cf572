"""What corrected benchmarks would change, as a table: by month and VO, before, after, difference."""

from __future__ import annotations

from collections.abc import Iterable

from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.publishing import safeguard
from arcacct.publishing.ledger_rows import month_name
from arcacct.records.benchmarks import MonthRating
from arcacct.targets import plugins

COLUMNS = ("month", "vo", "type", "jobs", "before_h", "after_h", "difference_h")
"""Hours are core hours times benchmark; a job whose type changes is in a row of each type."""
_MILLIONTHS_OF_HOURS = 3600 * 10**6


def rows(changes: Iterable[MonthRating]) -> list[tuple[str | int | float | None, ...]]:
    """The rows, in the order of the changes."""
    return [
        (
            one.month,
            one.vo,
            one.type,
            one.jobs,
            *(round(amount / _MILLIONTHS_OF_HOURS, 3) for amount in (one.before, one.after, one.after - one.before)),
        )
        for one in changes
    ]


def counted_twice(settings: Settings, publishing: Connection, changes: Iterable[MonthRating]) -> list[str]:
    """
    The targets and months, as people read them, whose receiver would count corrected jobs twice.

    APEL sums job records by benchmark as well, and keeps a sum that no job is left in; nothing we send takes it back.
    (What was sent as sums is: their keys go with zeros.)
    """
    changed = {one.month for one in changes}
    found = []
    for plugin in plugins(settings):
        if not plugin.one_format_per_month:
            continue
        sent = {
            month_name(month): known.message_format
            for month, known in safeguard.published(publishing, plugin.target.block).items()
        }
        names = [name for name in sorted(changed) if name in sent and plugin.has_records(sent[name])]
        if names:
            found.append(f"{plugin.target.name}: {', '.join(names)}")
    return found
