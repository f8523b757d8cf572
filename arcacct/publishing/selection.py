"""By what a target selects jobs and names them at its receiver: a change of it is a cause to be named, and no proof."""

from __future__ import annotations

from arcacct.db import lives
from arcacct.db.engine import Connection
from arcacct.publishing.floor import changes
from arcacct.publishing.plug import Plug


def names_of(plug: Plug) -> dict[str, object]:
    """The part of a selection that names jobs at the receiver: under other names it would have them twice."""
    selection = plug.selection()
    return {name: selection[name] for name in plug.names}


def of_records(plug: Plug) -> dict[str, object]:
    """The part that decides whether a record of a job goes to a target, and under what key."""
    selection = plug.selection()
    return {name: selection[name] for name in plug.record_names}


def names_in_doubt(accounting: Connection, publishing: Connection, plug: Plug) -> str:
    """
    Why nothing may be sent to a target, with the ways out; empty if it may.

    Without the ledger of before nobody knows what a receiver has, and under other names it would have that twice.
    """
    if lives.doubt_seq(publishing, plug.target.block) is None:
        return ""
    now = names_of(plug)
    others = [one for one in lives.remembered(accounting, plug.target.block) if one != now]
    if not others:
        return ""
    return (
        f"nothing is sent: what was sent before is not known any more{changes(others[-1], now)}, and the receiver would"
        " have jobs under both names; put publishing.db back (`arcacct db restore`) or mend the configuration;"
        " `arcacct publish --accept-lower YYYY-MM`, of any month, goes on all the same"
    )
