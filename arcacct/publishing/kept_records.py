"""
The records of a target that hold months: kept at the receiver, or waiting here.

A run notes their places in FinishedLog and what they add up to. A later run checks those of a month again if anything
has changed that they depend on, and takes over the sums of other months. Either the note has all of them up to the
cursor, or there is no note: it is deleted before the cursor passes a record that must be added, and written at the end
of a run that handled everything. Without it the whole log is read.
"""

from __future__ import annotations

import json
from collections.abc import Set
from typing import TYPE_CHECKING

from arcacct import __version__
from arcacct.database import schema
from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.publishing import cursors, held
from arcacct.publishing.sent import KeptRecords
from arcacct.records.pseudonyms import count_pseudonymised
from arcacct.records.reader import are_logged, places_of

if TYPE_CHECKING:
    from arcacct.publishing.context import RunContext

_KEY = "WAITING_RECORDS "
"""The prefix of a note; the target's block follows."""


def take_over(ctx: RunContext, reached: int) -> Set[int] | None:
    """
    Give the guard of a run the noted records of the months for which nothing has changed.

    Returns the places of the other noted records: they must be checked again. ``None``: all records must be checked,
    since there is no note, or it was written under other circumstances. ``reached``: the cursor.
    """
    found = schema.noted(ctx.publishing, f"{_KEY}{ctx.block}")
    if found is None:
        return None
    of, kinds, upto, months = json.loads(found)
    if of != _circumstances(ctx) or reached < upto:
        return None
    if any(ctx.message_format_of((year, month)) != kind for year, month, kind in kinds):
        return None
    # An operator has decided about these.
    decided = places_of(ctx.accounting, held.decided(ctx.publishing, ctx.block), 0, reached)
    again: set[int] = set()
    for year, month, published, values, spans in months:
        one = KeptRecords(**values, noted=[(first, last) for first, last in spans])
        is_same = published == ctx.guard.amounts((year, month)) and are_logged(ctx.accounting, spans)
        if is_same and not any(map(one.is_noted, decided)):
            ctx.guard.kept[year, month] = one
        else:
            again.update(*(range(first, last + 1) for first, last in spans))
    return again


def note(ctx: RunContext) -> None:
    """Note the records that hold months at the end of a run that handled everything."""
    reached = cursors.cursor(ctx.publishing, ctx.block)
    assert reached is not None
    kinds = [(*month, ctx.message_format_of(month)) for month in ctx.months]
    months = []
    for month, one in sorted(ctx.guard.kept.items()):
        values = {name: value for name, value in vars(one).items() if name not in ("noted", "places")}
        months.append((*month, ctx.guard.amounts(month), values, one.spans()))
    text = json.dumps((_circumstances(ctx), kinds, reached.last_seq, months))
    with transaction(ctx.publishing):
        schema.note(ctx.publishing, f"{_KEY}{ctx.block}", text)


def _circumstances(ctx: RunContext) -> list[object]:
    """Return on what the verdict on every record depends, as JSON values, apart from its month and the log."""
    # Pseudonyms change nothing in the log.
    pseudonyms = count_pseudonymised(ctx.accounting)
    return [__version__, ctx.incarnation, ctx.plugin.message_format, ctx.guard.mistyped_sites, pseudonyms]


def forget(con: Connection, target: str) -> None:
    """Delete the note of a target: the next run reads the whole log if a month is held."""
    key = f"{_KEY}{target}"
    if schema.noted(con, key) is not None:
        with transaction(con):
            con.execute("DELETE FROM DBConfig WHERE KeyName = ?", (key,))
