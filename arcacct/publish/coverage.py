"""Months that jura-ng published part of and that this database knows only in part: their sums are not ours to send."""

from __future__ import annotations

from collections.abc import Iterable

from arcacct.publish.feed import Task
from arcacct.publish.sums import Month, month_bounds, month_name
from arcacct.store import jura, schema


def known_in_part(task: Task, months: Iterable[Month]) -> set[Month]:
    """
    Those of the months that began before the database has every job and that jura-ng published from its own.

    APEL replaces a sum by the next one: that of a part of a month would lower what the receiver has of it.
    """
    stopped = jura.jura_end_times(task.settings.jura_database).get(task.target.block)
    if stopped is None:
        return set()
    since = schema.complete_since(task.accounting)
    return {month for month in months if month_bounds(*month)[0] < min(since, stopped + 1)}


def say_known_in_part(task: Task, months: Iterable[Month]) -> None:
    """What to do about such months."""
    for month in sorted(months):
        task.tally.note(
            f"{month_name(month)}: its sums are not sent: jura-ng published jobs of this month that this database does"
            " not have, and the receiver's figures would go down; `arcacct import arex` brings those jobs"
        )
