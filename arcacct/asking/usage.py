"""Usage by whatever is asked: from the monthly sums where these know the answer, else from every job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from arcacct.asking import questions
from arcacct.asking.questions import MONTHLY, Selection
from arcacct.asking.reading import is_ours
from arcacct.asking.usage_table import NEEDS, usage_table
from arcacct.db.engine import Connection


class UsageTable(NamedTuple):
    """An answer."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def usage(
    con: Connection, selection: Selection, by: Sequence[str], *, details: bool, active: bool = False
) -> UsageTable:
    """
    One row for each combination of what is asked ``by`` (of usage_table.NEEDS), sorted.

    Finished jobs as they are published count; with ``active``, a state in the selection or in ``by``, all jobs do.
    """
    keys: tuple[str, ...] = tuple(dict.fromkeys(NEEDS[name] for name in by))
    months = _months(selection)
    if months is not None and not details and not active and set(keys) <= set(MONTHLY) and is_ours(con):
        found = usage_table(questions.monthly_parts(con, selection, keys, months), keys, by, details=False)
    else:
        everything = active or bool(selection.states) or "status" in by
        counted = questions.parts(con, selection, keys, everything=everything)
        found = usage_table(counted, keys, by, details=details)
    columns = tuple(found[0]) if found else (*by, *usage_table([_NOTHING], (), (), details=details)[0])
    return UsageTable(columns, [tuple(row.values()) for row in found])


_NOTHING = questions.UsagePart((), 1, None, 0, 0, 0, 0, 0, 0)


def _months(selection: Selection) -> tuple[str | None, str | None] | None:
    """The whole months ``[first, before)`` that a selection means; ``None`` when it asks for more than months tell."""
    bare = Selection(from_s=selection.from_s, before_s=selection.before_s, users=selection.users, vos=selection.vos)
    if selection != bare:
        return None
    bounds = []
    for seconds in (selection.from_s, selection.before_s):
        if seconds is not None and time.gmtime(seconds)[2:6] != (1, 0, 0, 0):
            return None
        bounds.append(None if seconds is None else time.strftime("%Y-%m", time.gmtime(seconds)))
    return bounds[0], bounds[1]
