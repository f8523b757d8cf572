"""Where a target begins: where jura-ng stopped, where it was under another name, or today."""

from __future__ import annotations

import time
from _sqlite3 import Connection

from arcacct.conf.settings import Settings
from arcacct.conf.targets import Target
from arcacct.publish.delivery import Tally
from arcacct.store import jura, ledger
from arcacct.store.ledger import Cursor

DAY_S = 86400


def iso(seconds: int) -> str:
    """``2026-11-20T10:30:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def first_position(
    con: Connection, settings: Settings, target: Target, incarnation: str, since: int | None, tally: Tally
) -> Cursor:
    """The cursor of a target that never published; says what it begins with."""
    start, why = _start(con, settings, target, since)
    tally.note(f"new target: jobs that ended since {iso(start)} are sent ({why}; --since TIME changes that)")
    return Cursor(target.block, incarnation, 0, start, last_success=None)


def renamed_from(con: Connection, settings: Settings, target: Target) -> str | None:
    """The target of the ledger that went to the same receiver and is not configured any more, if it is only one."""
    configured = {one.block for one in settings.targets}
    kind = target.block.partition(":")[0]
    candidates = [
        block
        for block, destination in ledger.destinations(con).items()
        if destination == target.url and block not in configured and block.startswith(f"{kind}:")
    ]
    return candidates[0] if len(candidates) == 1 else None


def _start(con: Connection, settings: Settings, target: Target, since: int | None) -> tuple[int, str]:
    """A day before jura-ng stopped (repeats are harmless), else the beginning of today; or as it is wished."""
    if since is not None:
        return since, "as wished"
    stopped = ledger.jura_end_time(con, target.block)
    if stopped is None:
        stopped = jura.jura_end_times(settings.jura_database).get(target.block)
    if stopped is not None:
        return max(0, stopped - DAY_S), f"a day before jura-ng stopped at {iso(stopped)}"
    seconds = int(time.time())
    return seconds - seconds % DAY_S, "the beginning of today"
