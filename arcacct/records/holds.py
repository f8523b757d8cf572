"""Held records: no figure and no receiver includes them until an operator decides (table RecordHolds)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from arcacct.database.connection import Connection
from arcacct.records import states
from arcacct.records.states import ImplausibleValue

HELD = "held"
AS_UNKNOWN, AS_BOUND, AS_REPORTED, EXCLUDED = "unknown", "bound", "reported", "excluded"
DECISIONS = (AS_UNKNOWN, AS_BOUND, AS_REPORTED, EXCLUDED)
PUBLISHED = "published"
"""State of records that are older than the holds and that a receiver may have: they do not change."""

_COLUMNS = {"node_count": "NodeCount", "core_count": "CPUCount", "wall_s": "UsedWalltime"}
_COLUMNS |= {"cpu_user_s": "UsedCPUUserTime", "cpu_kernel_s": "UsedCPUKernelTime", "benchmark": "Benchmark"}
"""The column of RecordHolds with the replacement of a value, by field of v1_jobs."""
OVERRIDDEN, OVERRIDES = tuple(_COLUMNS), tuple(_COLUMNS.values())
"""Fields of an AAR, and the columns."""
_OVERRIDES = ", ".join(OVERRIDES)
_INSERT = (
    f"INSERT INTO RecordHolds (RecordID, Reasons, Doubts, State, IsHeld, Since, {_OVERRIDES})"
    f" VALUES (?, ?, ?, ?, ?, ?{', ?' * len(_COLUMNS)})"
)
_UPDATE = (
    f"UPDATE RecordHolds SET (Reasons, Doubts, State, IsHeld, Decided, DecidedBy, {_OVERRIDES})"
    f" = (?, ?, ?, ?, ?, ?{', ?' * len(_COLUMNS)}) WHERE RecordID = ?"
)


def _is_marked(field: str, *sources: str) -> str:
    """Return the SQL of whether a value of a record has one of these sources."""
    names = ", ".join(f"'{source}'" for source in sources)
    return (
        "EXISTS (SELECT 1 FROM FieldSources AS Marked WHERE Marked.RecordID = AAR.RecordID"
        f" AND Field = '{field}' AND Marked.Source IN ({names}))"
    )


_HAS_NO_WALL = _is_marked("wall_s", states.UNKNOWN)
VALUES = f"""
    AAR.RecordID, Status.Name, SubmitTime, EndTime,
    CASE WHEN UsedWalltime = 0 AND (RecordSources.Source IS '{states.OF_AREX[-1]}' OR {_HAS_NO_WALL})
         THEN NULL ELSE UsedWalltime END,
    UsedCPUUserTime, UsedCPUKernelTime,
    CASE WHEN {_is_marked("core_count", states.UNKNOWN)} THEN 0 ELSE AAR.CPUCount END,
    CASE WHEN {_is_marked("node_count", states.UNKNOWN, "default")} THEN 0 ELSE AAR.NodeCount END, RecordSources.Source,
    (SELECT InfoValue FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
      ORDER BY Extra.rowid LIMIT 1),
    EXISTS (SELECT 1 FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID
               AND +InfoKey IN ('nodenames', 'nodename')),
    CASE WHEN SubmitTime = 0 THEN
      (SELECT CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents
        WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART' ORDER BY JobEvents.rowid DESC LIMIT 1) END,
    CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
                         AND Field IN ('wall_s', 'lrms_end_time')) THEN
      (SELECT CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents
        WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND' ORDER BY JobEvents.rowid DESC LIMIT 1) END,
    {_HAS_NO_WALL} AND EXISTS (SELECT 1 FROM RecordHolds WHERE RecordHolds.RecordID = AAR.RecordID
                                  AND instr(Reasons, '{states.NOT_MEASURED}'))
"""
FROM = """
    FROM AAR JOIN Status ON Status.ID = +StatusID LEFT JOIN RecordSources ON RecordSources.RecordID = AAR.RecordID
"""
"""The columns and tables that `judged` needs."""


def judged(row: Sequence[Any]) -> tuple[ImplausibleValue, ...]:
    """Return the impossible values of a record, from its `VALUES`; empty for a job that has not ended."""
    _record_id, status, submit, end, wall_s, user_s, kernel_s, cores, nodes, source, benchmark, has_nodes, *rest = row
    if status not in states.FINAL:
        return ()
    cores, nodes = states.known_counts(cores, nodes, source, has_nodes=bool(has_nodes))
    # A-REX dates its own events. Workers date those of the batch system, some in local time: these only fill gaps.
    start, until, is_awaited = [one or 0 for one in rest]
    found = states.implausible_values(submit, end, wall_s, user_s, kernel_s, cores, nodes, benchmark, start, until)
    return (*found, states.AWAITED) if is_awaited else found


def judge(con: Connection, record_ids: Iterable[int]) -> None:
    """Hold the records that have impossible values now, and release those that no longer have any."""
    ids = ",".join(str(int(record_id)) for record_id in record_ids)
    for row in con.execute(f"SELECT {VALUES} {FROM} WHERE AAR.RecordID IN ({ids})").fetchall():
        found = judged(row)
        if found:
            hold(con, row[0], found, (row[5], row[6]))
        else:
            unhold(con, row[0])


def hold_unmeasured(con: Connection, record_id: int) -> None:
    """Hold a record with an unknown wall time until the wall time is known; inside the caller's transaction."""
    row = con.execute(f"SELECT {VALUES} {FROM} WHERE AAR.RecordID = ? AND {_HAS_NO_WALL}", (record_id,)).fetchone()
    if row is not None:
        found = judged(row)
        hold(con, record_id, found if states.AWAITED in found else (*found, states.AWAITED), (row[5], row[6]))


def hold(
    con: Connection, record_id: int, found: tuple[ImplausibleValue, ...], cpu: tuple[Any, Any], state: str = HELD
) -> None:
    """
    Hold a record for its impossible values; an earlier decision about exactly the same values stays valid.

    Inside the caller's transaction. Call it before writing the final status of a job that ends, and after changing a
    job that has ended: then the log has what receivers may have got. ``cpu``: user and kernel time as reported, in
    seconds.
    """
    lines = _lines(found)
    row = con.execute(
        f"SELECT Doubts, State, Decided, DecidedBy, {_OVERRIDES} FROM RecordHolds WHERE RecordID = ?", (record_id,)
    ).fetchone()
    if row is None:
        kept = (_reasons(found), lines, state, _is_held(state), int(time.time()), *_overriding(found, cpu, state))
        con.execute(_INSERT, (record_id, *kept))
        return
    decided: tuple[Any, ...] = (None, None)
    if row[0] == lines:
        state, decided = row[1], row[2:4]
    values = _overriding(found, cpu, state)
    if row != (lines, state, *decided, *values):
        con.execute(_UPDATE, (_reasons(found), lines, state, _is_held(state), *decided, *values, record_id))


def unhold(con: Connection, record_id: int) -> None:
    """Release a record without impossible values. Call it after the record's change, in the same transaction."""
    con.execute("DELETE FROM RecordHolds WHERE RecordID = ?", (record_id,))


def decide(con: Connection, record_id: int, state: str, by: str) -> bool:
    """
    Store an operator's decision about a held record: one of DECISIONS, or HELD to revoke the decision.

    Inside the caller's transaction. It puts the record into the log again, so that every target sees it. Returns False
    if this was decided already, or if the record is no longer held.
    """
    row = con.execute(
        "SELECT Doubts, State, AAR.UsedCPUUserTime, AAR.UsedCPUKernelTime FROM RecordHolds JOIN AAR USING (RecordID)"
        " WHERE RecordID = ?",
        (record_id,),
    ).fetchone()
    if row is None or row[1] == state:
        return False
    lines, _state, user_s, kernel_s = row
    found = parsed_values(lines)
    now = int(time.time())
    values = _overriding(found, (user_s, kernel_s), state)
    decided = (None, None) if state == HELD else (now, by)
    con.execute(_UPDATE, (_reasons(found), lines, state, _is_held(state), *decided, *values, record_id))
    con.execute("INSERT INTO HoldDecisions VALUES (?, ?, ?, ?, ?)", (record_id, now, by, state, _reasons(found)))
    return True


def _is_held(state: str) -> int:
    return int(state in (HELD, EXCLUDED))


def _overriding(found: tuple[ImplausibleValue, ...], cpu: tuple[Any, Any], state: str) -> tuple[Any, ...]:
    """Return the replacements of the reported values, in the order of `OVERRIDES`."""
    if state in (AS_REPORTED, PUBLISHED):
        return (None,) * len(_COLUMNS)
    values = states.overrides(found, cpu, take_bound=state == AS_BOUND)
    return tuple([values.get(field) for field in _COLUMNS])


def _reasons(found: tuple[ImplausibleValue, ...]) -> str:
    return " ".join(dict.fromkeys([reason for reason, *_rest in found]))


def _lines(found: tuple[ImplausibleValue, ...]) -> str:
    return "\n".join(
        f"{reason}\t{field}\t{'' if bound is None else bound}\t{_shown(reported)}"
        for reason, field, bound, reported in found
    )


_LONGEST_SHOWN = 60


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, (int, float, str)) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def parsed_values(lines: str) -> tuple[ImplausibleValue, ...]:
    """Parse RecordHolds.Doubts; the reported values are texts."""
    found = []
    for line in lines.split("\n"):
        reason, field, bound, reported = line.split("\t", 3)
        found.append((reason, field, int(bound) if bound else None, reported))
    return tuple(found)
