"""By what a target selects jobs and names them at its receiver: a change of it is a cause to be named, and no proof."""

from __future__ import annotations

from arcacct.conf.settings import Settings
from arcacct.conf.targets import SGASTarget, Target
from arcacct.db import lives
from arcacct.db.engine import Connection
from arcacct.publishing.floor import changes

_NAMES = ("gocdb_name", "lrms_host", "localid_prefix", "apel_messages")
_OF_RECORDS = ("vofilter", "gocdb_name", "lrms_host", "localid_prefix")


def selection_of(target: Target, settings: Settings) -> dict[str, object]:
    """The options, with their values as JSON has them, that decide which jobs go to a target and under what keys."""
    found: dict[str, object] = {
        "vofilter": sorted(target.vofilter),
        "lrms_host": settings.lrms_host,
        "localid_prefix": getattr(target, "localid_prefix", None) or "",
        "vomsless_vo": ", ".join(f"{rule.authgroup or ''} {rule.name}".strip() for rule in target.vomsless_vo),
        "vo_group": list(target.vo_group),
    }
    if not isinstance(target, SGASTarget):
        found |= {
            "gocdb_name": target.gocdb_name,
            "apel_messages": target.apel_messages,
            "local_group_prefix": settings.local_group_prefix or "",
            "benchmark": settings.places.rules.default_benchmark,
        }
    return found


def names_of(selection: dict[str, object]) -> dict[str, object]:
    """The part that names jobs at the receiver: under other names it would have them twice."""
    return {name: selection[name] for name in _NAMES if name in selection}


def of_records(selection: dict[str, object]) -> dict[str, object]:
    """The part that decides whether a record of a job goes to a target, and under what key."""
    return {name: selection[name] for name in _OF_RECORDS if name in selection}


def names_in_doubt(accounting: Connection, publishing: Connection, target: Target, settings: Settings) -> str:
    """
    Why nothing may be sent to a target, with the ways out; empty if it may.

    Without the ledger of before nobody knows what a receiver has, and under other names it would have that twice.
    """
    if lives.doubt_seq(publishing, target.block) is None:
        return ""
    now = names_of(selection_of(target, settings))
    others = [one for one in lives.remembered(accounting, target.block) if one != now]
    if not others:
        return ""
    return (
        f"nothing is sent: what was sent before is not known any more{changes(others[-1], now)}, and the receiver would"
        " have jobs under both names; put publishing.db back (`arcacct db restore`) or mend the configuration;"
        " `arcacct publish --accept-lower YYYY-MM`, of any month, goes on all the same"
    )
