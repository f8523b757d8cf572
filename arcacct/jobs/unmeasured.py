"""
What the site wants done about jobs of which nobody measured the wall time: ``missing_wall_time=`` in [arcacct].

``zero``: they are published with 0, and counted. ``wait``: they are held (`holds`) until the wall time is known or an
operator decides; the recorder does that itself for the jobs of the control directory. ``lrms``: the wall time is the
time between the start and the end of the run, by the batch system's clock; without both it is published as 0.

A choice applies to what no publisher has read yet, so that it changes no published figure.
"""

from __future__ import annotations

from arcacct.config.paths import LRMS, WAIT, Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.jobs.filling import enrich, present
from arcacct.jobs.holds import hold_unmeasured
from arcacct.jobs.packing import event_seconds
from arcacct.jobs.states import COMPLETED, DERIVED, FAILED, UNKNOWN

_APPLIED = "ARCACCT_MISSING_WALL_TIME"
"""DBConfig: the choice, and the place in the log up to which it was applied."""
_SLICE = 200
_FOUND = (
    "SELECT RecordID FROM FinishedLog CROSS JOIN FieldSources USING (RecordID) CROSS JOIN AAR USING (RecordID)"
    " CROSS JOIN Status ON Status.ID = +StatusID WHERE Seq > ? AND Seq <= ?"
    f" AND Field = 'wall_s' AND Source = '{UNKNOWN}' AND Status.Name IN ('{COMPLETED}', '{FAILED}') ORDER BY Seq"
)


def settle(con: Connection, here: Places) -> None:
    """
    Do what the site wants about the jobs without a wall time that were recorded since the last call.

    In slices of a transaction each; interrupted, the next call starts again. Jobs that ran and failed count, too. One
    that vanished (aborted) does not: it is published only if something was measured.
    """
    choice = here.rules.missing_wall_time
    known, _, place = (noted(con, _APPLIED) or "").partition(" ")
    if choice not in (WAIT, LRMS):
        if known:
            with writing(con, here):
                con.execute("DELETE FROM DBConfig WHERE KeyName = ?", (_APPLIED,))
        return
    first = int(place) if known == choice else int(con.execute("SELECT Horizon FROM Fence").fetchone()[0])
    (last,) = con.execute("SELECT max(Seq) FROM FinishedLog").fetchone()
    if known == choice and (last or 0) <= first:
        return
    record_ids = [record_id for (record_id,) in con.execute(_FOUND, (first, last))]
    for start in range(0, len(record_ids), _SLICE):
        with writing(con, here):
            for record_id in record_ids[start : start + _SLICE]:
                if choice == WAIT:
                    hold_unmeasured(con, record_id)
                else:
                    _derive(con, record_id)
    with writing(con, here):
        note(con, _APPLIED, f"{choice} {max(last or 0, first)}")


def _derive(con: Connection, record_id: int) -> None:
    """The wall time of a record from its events, if it has both; workers may date them in local time, both alike."""
    events = dict(present(con, record_id).events)
    try:
        wall_s = event_seconds(events["LRMSEND"]) - event_seconds(events["LRMSSTART"])
    except (KeyError, TypeError, ValueError):
        return
    if wall_s >= 0:
        enrich(con, record_id, DERIVED, {"wall_s": wall_s})
