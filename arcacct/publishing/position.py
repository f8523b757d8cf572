"""Where a target begins: where jura-ng stopped, where it was under another name, or where our own recording began."""

from __future__ import annotations

from arcacct.database import incarnation, schema
from arcacct.database.incarnation import MEANING, DatabaseMismatch
from arcacct.publishing import jura, ledger, sent
from arcacct.publishing.instants import DAY_S, iso
from arcacct.publishing.ledger import Cursor
from arcacct.publishing.this_run import RunContext


def open_cursor(ctx: RunContext, since: int | None) -> Cursor:
    """
    Where a target stands; begun when it is new, begun anew in another life of the accounting database.

    ``since`` makes it begin anew, too, if it asks for earlier jobs than the target has known.
    """
    found = ledger.cursor(ctx.publishing, ctx.block) or _taken_over(ctx)
    if found is None:
        start, why = _start(ctx, since)
        ctx.summary.note(f"new target: jobs that ended since {iso(start)} are sent ({why}; --since TIME changes that)")
        begun = Cursor(ctx.block, ctx.incarnation, 0, start, last_success=None)
    elif found.incarnation != ctx.incarnation or incarnation.highest_seq(ctx.accounting) < found.last_seq:
        ctx.summary.note(MEANING[DatabaseMismatch.ACCOUNTING_OTHER])
        start = found.start_end_time if since is None else min(since, found.start_end_time)
        begun = found._replace(incarnation=ctx.incarnation, last_seq=0, start_end_time=start)
    elif ledger.is_damaged(ctx.publishing, ctx.block):
        ctx.summary.note(ledger.DAMAGED)
        begun = found._replace(last_seq=0)
    elif since is not None and since < found.start_end_time:
        begun = found._replace(start_end_time=since, last_seq=0)
    else:
        return found
    if not ctx.dry_run:
        ledger.set_cursor(ctx.publishing, begun, in_doubt=found is None and incarnation.is_successor(ctx.publishing))
    return begun


def _taken_over(ctx: RunContext) -> Cursor | None:
    """The cursor of the only target that went to the same receiver and is not configured any more: its other name."""
    configured = {one.block for one in ctx.plugin.settings.targets}
    kind = ctx.block.partition(":")[0]
    candidates = [
        block
        for block, destination in sent.destinations(ctx.publishing).items()
        if destination == ctx.plugin.target.url and block not in configured and block.startswith(f"{kind}:")
    ]
    if len(candidates) != 1:
        return None
    (old,) = candidates
    ctx.summary.note(f"goes on where [{old}] stopped: it went to the same receiver and is not configured any more")
    found = ledger.cursor(ctx.publishing, old)
    if not ctx.dry_run:
        ledger.rename_target(ctx.publishing, old, ctx.block)
    return None if found is None else found._replace(target=ctx.block)


def _start(ctx: RunContext, since: int | None) -> tuple[int, str]:
    """
    A day before jura-ng stopped (repeats are harmless), else when our own recording began; or as it is wished.

    What was imported from before then was another program's to publish.
    """
    if since is not None:
        return since, "as --since says"
    stopped = ledger.jura_end_time(ctx.publishing, ctx.block)
    if stopped is None:
        stopped = jura.jura_end_times(ctx.plugin.settings.jura_database).get(ctx.block)
    if stopped is not None:
        return max(0, stopped - DAY_S), f"a day before jura-ng stopped at {iso(stopped)}"
    return schema.created(ctx.accounting), "when the database was made, and recording began"
