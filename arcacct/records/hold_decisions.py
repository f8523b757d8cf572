"""
Held records with impossible values, operators' decisions about them, and jobs without a measured wall time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from arcacct.config.paths import LRMS, WAIT, Places
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.errors import InputError
from arcacct.records import holds, states
from arcacct.records.enrichment import enrich, present
from arcacct.records.holds import AS_REPORTED, HELD, PUBLISHED, hold_unmeasured
from arcacct.records.states import COMPLETED, DERIVED, FAILED, UNKNOWN, ImplausibleValue
from arcacct.records.texts import escaped, event_seconds, unescaped

# Lists, counts and decisions of the records that are or were held for impossible values (`holds`).
#
# Records that are older than the holds are judged here, once. Those that a receiver may have do not change there.


_UNJUDGED = "ARCACCT_UNJUDGED"
"""
Key in DBConfig for records that are older than the holds: the last judged RecordID, the last RecordID to judge, and the
position in the log up to which a receiver may have them.
"""
_PAGE = 500
"""Records that are judged in one transaction."""
_SLICE = 200


class ImplausibleRecord(NamedTuple):
    """A record with impossible values."""

    record_id: int
    job_id: str
    end_time: int
    state: str
    """HELD, one of DECISIONS, or PUBLISHED (`holds`)."""
    values: tuple[ImplausibleValue, ...]
    since_s: int
    decided_s: int | None
    decided_by: str | None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The distinct reasons."""
        return tuple(dict.fromkeys(one[0] for one in self.values))

    @property
    def text(self) -> str:
        """``wall-beyond-life (wall_s 100000, at most 430)``, and so on."""
        return "; ".join(map(value_text, self.values))


class Decision(NamedTuple):
    """A past decision about a record."""

    decided_s: int
    decided_by: str
    state: str


class ImplausibleFilter(NamedTuple):
    """A choice of records; a field that is not set does not restrict it."""

    states: tuple[str, ...] = ()
    reason: str | None = None
    ended_from: int | None = None
    ended_before: int | None = None
    """UTC seconds."""
    job_ids: tuple[str, ...] = ()


def value_text(one: ImplausibleValue) -> str:
    """``wall-beyond-life (wall_s 100000, at most 430)``."""
    reason, field, bound, reported = one
    if field == "end_time" and bound is not None:
        return f"{reason} ({field} {reported}, submitted {bound})"
    return f"{reason} ({field} {reported}{'' if bound is None else f', at most {bound}'})"


EVERYTHING = ImplausibleFilter()


def held_records(con: Connection, asked: ImplausibleFilter = EVERYTHING) -> Iterator[ImplausibleRecord]:
    """Yield the chosen records, by the end of their jobs."""
    lists = {"states": json.dumps(asked.states), "job_ids": json.dumps([*map(escaped, asked.job_ids)])}
    rows = con.execute(
        # CROSS: SQLite starts from the few held records.
        "SELECT RecordID, JobID, EndTime, State, Doubts, Since, Decided, DecidedBy FROM RecordHolds"
        " CROSS JOIN AAR USING (RecordID) WHERE (:states = '[]' OR State IN (SELECT value FROM json_each(:states)))"
        " AND (:reason IS NULL OR instr(' ' || Reasons || ' ', ' ' || :reason || ' '))"
        " AND (:ended_from IS NULL OR EndTime >= :ended_from) AND (:ended_before IS NULL OR EndTime < :ended_before)"
        " AND (:job_ids = '[]' OR JobID IN (SELECT value FROM json_each(:job_ids))) ORDER BY EndTime, RecordID",
        asked._asdict() | lists,
    )
    for record_id, job_id, end_time, state, lines, *when in rows:
        yield ImplausibleRecord(record_id, unescaped(job_id), end_time, state, holds.parsed_values(lines), *when)


def decisions(con: Connection, record_id: int) -> list[Decision]:
    """Return all decisions about a record, the oldest first; also those that were revoked."""
    query = "SELECT Decided, DecidedBy, State FROM HoldDecisions WHERE RecordID = ? ORDER BY rowid"
    return [Decision(*row) for row in con.execute(query, (record_id,))]


def why_held(reasons: Iterable[str]) -> str:
    """Return why records are held, as a part of a sentence: impossible values, or no measured wall time."""
    kinds = {reason == states.NOT_MEASURED for reason in reasons}
    if kinds == {True}:
        return "until their wall time is known"
    return "because values cannot be true or are unknown" if True in kinds else "because values cannot be true"


class Counts(NamedTuple):
    """The number of records in a state that have impossible values."""

    records: int = 0
    by_reason: tuple[tuple[str, int], ...] = ()
    """A record with two reasons is counted for both."""

    @property
    def text(self) -> str:
        """``2 wall-beyond-life, 1 cpu-beyond-cores``."""
        return ", ".join(f"{count} {reason}" for reason, count in self.by_reason)

    @property
    def why(self) -> str:
        """Why they are held, as a part of a sentence."""
        return why_held([reason for reason, _count in self.by_reason])


NONE = Counts()


def counts(con: Connection, ended_from: int | None = None, ended_before: int | None = None) -> dict[str, Counts]:
    """
    Count records with impossible values, by state. Fast: reads only RecordHolds and its records.

    ``ended_from``, ``ended_before``: only jobs that ended in this time, UTC seconds.
    """
    where = "" if ended_from is None else " CROSS JOIN AAR USING (RecordID) WHERE EndTime >= ? AND EndTime < ?"
    rows = con.execute(
        f"SELECT State, Reasons, count(*) FROM RecordHolds{where} GROUP BY 1, 2",
        () if ended_from is None else (ended_from, ended_before),
    )
    records: Counter[str] = Counter()
    by_reason: dict[str, Counter[str]] = {}
    for state, reasons, count in rows:
        records[state] += count
        for reason in reasons.split():
            by_reason.setdefault(state, Counter())[reason] += count
    return {state: Counts(records[state], tuple(sorted(found.items()))) for state, found in by_reason.items()}


def why_not(one: ImplausibleRecord, state: str) -> str | None:
    """Return why this decision about a record is impossible; ``None``: it is possible."""
    if state != AS_REPORTED:
        return None
    for reason, field, bound, reported in one.values:
        text = str(reported)
        # Sums may include a CPU time that is too large for a record, if the job's cores allow it.
        may_be_sent = field == "cpu_s" and bound is not None and text.isdecimal() and int(text) <= bound
        if reason == states.OUT_OF_RANGE and not may_be_sent:
            return f"{field} {reported} does not fit into the columns of receivers: decide unknown, bound or excluded"
        if reason == states.END_IMPOSSIBLE:
            return f"end_time {reported} belongs to no month: only excluded is possible until the record is corrected"
    return None


def decide(con: Connection, here: Places, records: Sequence[ImplausibleRecord], state: str, by: str) -> int:
    """
    Decide about records, in slices of one transaction each; HELD revokes decisions. Returns how many changed.

    Raises InputError before any change if the decision is impossible for one of them.
    """
    refused = [f"{one.job_id}: {why}" for one in records if (why := why_not(one, state)) is not None]
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise InputError(f"{refused[0]}{more}")
    done = 0
    for start in range(0, len(records), _SLICE):
        with writing(con, here):
            for one in records[start : start + _SLICE]:
                done += holds.decide(con, one.record_id, state, by)
    return done


def judge_former(con: Connection, here: Places, stopping: Callable[[], bool] = lambda: False) -> int:
    """
    Judge the records that are older than the holds; returns how many have impossible values.

    Holds the records that no publisher has read. Only marks those that a receiver may have (PUBLISHED), so that an
    upgrade changes nothing there. A page is one transaction; after an interruption the next call resumes.
    """
    found = 0
    while (text := noted(con, _UNJUDGED)) is not None and not stopping():
        done, last, horizon = map(int, text.split())
        with writing(con, here):
            rows = con.execute(
                f"SELECT {holds.VALUES}, (SELECT Seq FROM FinishedLog WHERE FinishedLog.RecordID = AAR.RecordID)"
                f" {holds.FROM} WHERE AAR.RecordID > ? AND AAR.RecordID <= ? ORDER BY AAR.RecordID LIMIT {_PAGE}",
                (done, last),
            ).fetchall()
            for row in rows:
                is_judged = con.execute("SELECT 1 FROM RecordHolds WHERE RecordID = ?", row[:1]).fetchone()
                if is_judged is None and (implausible := holds.judged(row[:-1])):
                    state = PUBLISHED if (row[-1] or 0) <= horizon else HELD
                    holds.hold(con, row[0], implausible, (row[5], row[6]), state)
                    found += 1
            if len(rows) < _PAGE:
                con.execute("DELETE FROM DBConfig WHERE KeyName = ?", (_UNJUDGED,))
            else:
                note(con, _UNJUDGED, f"{rows[-1][0]} {last} {horizon}")
    return found


# The site's choice for jobs without a measured wall time: ``missing_wall_time=`` in [arcacct].
#
# ``zero``: they are published with 0, and counted. ``wait``: they are held (`holds`) until the wall time is known or an
# operator decides; for jobs of the control directory the recorder does this. ``lrms``: the wall time is the time from
# the start to the end of the run, by the batch system's clock; without both it is published as 0.
#
# A choice applies only to records that no publisher has read yet, so it changes no published figure.


_APPLIED = "ARCACCT_MISSING_WALL_TIME"
"""Key in DBConfig: the choice, and the position in the log up to which it was applied."""
_FOUND = (
    "SELECT RecordID FROM FinishedLog CROSS JOIN FieldSources USING (RecordID) CROSS JOIN AAR USING (RecordID)"
    " CROSS JOIN Status ON Status.ID = +StatusID WHERE Seq > ? AND Seq <= ?"
    f" AND Field = 'wall_s' AND Source = '{UNKNOWN}' AND Status.Name IN ('{COMPLETED}', '{FAILED}') ORDER BY Seq"
)


def settle(con: Connection, here: Places) -> None:
    """
    Apply the site's choice to the jobs without a wall time that were recorded since the last call.

    In slices of one transaction each; after an interruption the next call starts again. Failed jobs are included.
    Vanished (aborted) jobs are not: they are published only if something was measured.
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
    apply = hold_unmeasured if choice == WAIT else _derive
    for start in range(0, len(record_ids), _SLICE):
        with writing(con, here):
            for record_id in record_ids[start : start + _SLICE]:
                apply(con, record_id)
    with writing(con, here):
        note(con, _APPLIED, f"{choice} {max(last or 0, first)}")


def _derive(con: Connection, record_id: int) -> None:
    """Set a record's wall time from its start and end, if it has both. Workers may date both in local time."""
    events = dict(present(con, record_id).events)
    try:
        wall_s = event_seconds(events["LRMSEND"]) - event_seconds(events["LRMSSTART"])
    except (KeyError, TypeError, ValueError):
        return
    if wall_s >= 0:
        enrich(con, record_id, DERIVED, {"wall_s": wall_s})
