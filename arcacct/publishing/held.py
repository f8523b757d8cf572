"""Records that a target does not get yet: until they are settled, or because somebody rejects them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from arcacct.config.options import Target
from arcacct.database import schema
from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.errors import InputError
from arcacct.publishing import ledger_rows
from arcacct.publishing.ledger import HeldRecord, hold
from arcacct.publishing.ledger_rows import Month, iso
from arcacct.publishing.sent import MANY, versions
from arcacct.records.reader import LAST_SECOND

_WAITING = "WAITING_RECORDS "
"""Noted with the target's block behind it."""


class RetryThresholds(NamedTuple):
    """By what one run tells whether the time of a held record has come."""

    settled_at: int
    """Failed jobs that ended later may still be resumed; UTC seconds."""
    now: int
    run: int
    """The number of the run: what the receiver refused in it is not tried again in it."""


class Circumstances(NamedTuple):
    """By what a run decides about a record, beside the record itself and what the receiver has of it."""

    of: list[object]
    """Values of JSON: any other one may change any decision."""
    months: Collection[Month]
    """The months with something published."""
    kind_of: Callable[[Month], str]
    """The kind of messages of such a month."""


class RefusalHistory(NamedTuple):
    """How often a receiver has refused a record."""

    state: str
    refusals: int
    """In so many runs ..."""
    run: int
    """... of which this was the last."""


class QuarantineEntry(NamedTuple):
    """One record that is not sent to a target, and why."""

    target: str
    job_id: str
    record_id: int
    end_time: int
    state: str
    reason: str
    attempts: int
    since_s: int
    next_try_s: int | None
    """When it is tried again by itself; ``None``: once it is settled, or not by itself."""
    refusals: int
    """In so many runs the receiver refused it."""

    @property
    def retry_text(self) -> str:
        """What to say of another try: ``tried again from 2026-11-20T10:30:00Z``; empty if there is none."""
        if self.next_try_s is None or self.state not in ("held", "quarantined"):
            return ""
        return f"tried again from {iso(self.next_try_s)}" if self.next_try_s else "tried again with the next run"


# A time at which it was tried that lies ahead was noted by a clock that was wrong, and so was the next.
_IS_DUE = (
    "(State = 'retry' OR (State = 'held' AND NextTry IS NULL AND EndTime <= :settled_at)"
    " OR (State IN ('held', 'quarantined') AND RefusedRun < :run"
    " AND (NextTry <= :now OR (NextTry > 0 AND Tried > :now))))"
)


def held_to_send(
    con: Connection, target: str, due: RetryThresholds, *, refused: bool, after: str = ""
) -> list[tuple[str, str]]:
    """
    ``(JobID, state)`` of held records whose time has come, or that are to be retried.

    A page of them, by JobID, from behind ``after``: of those that the receiver has ``refused``, or of the others.
    """
    return con.execute(
        f"SELECT JobID, State FROM HeldRecords WHERE Target = :target AND JobID > :after AND {_IS_DUE}"
        " AND (Refusals > 0) = :refused ORDER BY JobID LIMIT :size",
        {**due._asdict(), "target": target, "after": after, "refused": refused, "size": MANY},
    ).fetchall()


def held_months(con: Connection, target: str, due: RetryThresholds) -> set[tuple[int, int]]:
    """The months of EndTime of what `held_to_send` gives."""
    rows = con.execute(
        "SELECT DISTINCT CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),"
        " CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER) FROM HeldRecords WHERE Target = :target"
        f" AND {_IS_DUE} AND EndTime BETWEEN 1 AND {LAST_SECOND}",
        {**due._asdict(), "target": target},
    )
    return set(rows)


class RetrySummary(NamedTuple):
    """Held records that are tried again by themselves, for one kind of reason."""

    records: int
    next_s: int
    """When the first of them is tried again, UTC seconds; in the past: with the next run."""
    since_s: int
    """Since when the first of them waits."""


def job_ids(con: Connection, target: str) -> list[str]:
    """Every job with a record that is held back from a target, whatever its state."""
    return [job_id for (job_id,) in con.execute("SELECT JobID FROM HeldRecords WHERE Target = ?", (target,))]


# The records that wait for the months that are held, by their places in FinishedLog: a run looks at these again.
#
# The list has all of them up to the cursor, or there is none. It is deleted before the cursor passes a record that
# must be added, and written at the end of a run that dealt with everything. Without it the whole log is read.


def waiting(con: Connection, target: str, circumstances: Circumstances) -> frozenset[int] | None:
    """The list of a target; ``None``: there is none, or the list was made under other circumstances."""
    found = schema.noted(con, f"{_WAITING}{target}")
    if found is None:
        return None
    noted = json.loads(found)
    is_current = noted["of"] == circumstances.of and all(
        circumstances.kind_of((year, month)) == kind for year, month, kind in noted["kinds"]
    )
    return frozenset(accumulate(noted["steps"])) if is_current else None


def set_waiting(con: Connection, target: str, circumstances: Circumstances, places: Iterable[int]) -> None:
    """Write the list of a target."""
    rising = sorted(places)
    # The distances are short numbers where many wait.
    steps = [place - before for before, place in pairwise([0, *rising])]
    kinds = [(*month, circumstances.kind_of(month)) for month in sorted(circumstances.months)]
    with transaction(con):
        schema.note(con, f"{_WAITING}{target}", json.dumps({"of": circumstances.of, "kinds": kinds, "steps": steps}))


def forget_waiting(con: Connection, target: str) -> None:
    """Delete the list of a target: the next run reads the whole log if a month is held."""
    key = f"{_WAITING}{target}"
    if schema.noted(con, key) is not None:
        with transaction(con):
            con.execute("DELETE FROM DBConfig WHERE KeyName = ?", (key,))


def retry_summaries(con: Connection, target: str) -> tuple[RetrySummary | None, RetrySummary | None]:
    """What waits since the receiver refused it and that is not believed yet; and what waits for its time to come."""
    rows = con.execute(
        "SELECT Refusals > 0, count(*), min(NextTry), min(Since) FROM HeldRecords"
        " WHERE Target = ? AND State = 'held' AND NextTry IS NOT NULL GROUP BY Refusals > 0",
        (target,),
    ).fetchall()
    found = {bool(refused): RetrySummary._make(values) for refused, *values in rows}
    return found.get(True), found.get(False)


def refusals(con: Connection, target: str, job_id: str) -> RefusalHistory | None:
    """How often the receiver refused a record that is set aside; ``None``: it is not."""
    row = con.execute(
        "SELECT State, Refusals, RefusedRun FROM HeldRecords WHERE Target = ? AND JobID = ?", (target, job_id)
    ).fetchone()
    return None if row is None else RefusalHistory._make(row)


def newly_quarantined(con: Connection, target: str, held: Sequence[HeldRecord]) -> list[HeldRecord]:
    """Those that do not go by themselves soon, and that nobody was told of yet; before they are noted."""
    before = states(con, target, [one.record.job_id for one in held if one.state != "held"])
    return [one for one in held if one.state != "held" and before.get(one.record.job_id) not in (one.state, "dropped")]


def unhold(con: Connection, target: str, job_ids: Iterable[str]) -> None:
    """These records are not held back any more: they no longer exist, or the receiver has them."""
    with transaction(con):
        con.executemany(
            "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ? AND State <> 'dropped'",
            [(target, job_id) for job_id in job_ids],
        )


def hold_only(con: Connection, target: str, held: Sequence[HeldRecord], periods: Iterable[tuple[int, float]]) -> int:
    """
    Of a target that is sent sums: exactly these jobs are set aside, of all that ended in some periods.

    Returns how many of them are quarantined and were not before.
    """
    now = int(time.time())
    job_ids = {one.record.job_id for one in held}
    with transaction(con):
        new = len(newly_quarantined(con, target, held))
        for job_id in quarantined(con, target, periods):
            if job_id not in job_ids:
                con.execute("DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?", (target, job_id))
        for one in held:
            hold(con, target, one, now)
    return new


def quarantined(con: Connection, target: str, periods: Iterable[tuple[int, float]]) -> list[str]:
    """JobIDs of the records set aside that ended in some periods, but for those that an operator dropped."""
    found: list[str] = []
    for period in periods:
        rows = con.execute(
            "SELECT JobID FROM HeldRecords WHERE Target = ? AND EndTime >= ? AND EndTime < ? AND State <> 'dropped'",
            (target, *period),
        )
        found += [job_id for (job_id,) in rows]
    return found


def states(con: Connection, target: str, job_ids: Sequence[str]) -> dict[str, str]:
    """The state in HeldRecords of those of the jobs that are held back from the target."""
    found: dict[str, str] = {}
    if con.execute("SELECT 1 FROM HeldRecords WHERE Target = ? LIMIT 1", (target,)).fetchone() is None:
        return found
    for start in range(0, len(job_ids), MANY):
        some = job_ids[start : start + MANY]
        found |= dict(
            con.execute(
                f"SELECT JobID, State FROM HeldRecords WHERE Target = ? AND JobID IN ({','.join('?' * len(some))})",
                (target, *some),
            ).fetchall()
        )
    return found


def earliest_undelivered_end(con: Connection, target: str) -> int | None:
    """The earliest EndTime of a record that is held back from a target, or that it has not answered for."""
    unanswered = ledger_rows.of_messages("EndTime", "Messages.Target = ?1 AND State = 'sending'")
    row = con.execute(
        "SELECT min(EndTime) FROM ("
        "SELECT EndTime FROM HeldRecords WHERE Target = ?1 AND State IN ('held', 'quarantined', 'retry')"
        f" UNION ALL {unanswered})"
        # Of a record whose end is no time it is kept here as it is.
        " WHERE EndTime BETWEEN 1 AND ?2",
        (target, LAST_SECOND),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def quarantine_entries(
    con: Connection, *, target: str | None = None, job_id: str | None = None
) -> list[QuarantineEntry]:
    """What is set aside, of all targets or one, of all jobs or one; by target and end time."""
    asked = {f"{column} = ?": value for column, value in (("Target", target), ("JobID", job_id)) if value is not None}
    rows = con.execute(
        "SELECT Target, JobID, RecordID, EndTime, State, Reason, Attempts, Since, NextTry, Refusals FROM HeldRecords"
        f" WHERE {' AND '.join(asked) or '1'} ORDER BY Target, EndTime, JobID",
        tuple(asked.values()),
    )
    return [QuarantineEntry._make(row) for row in rows]


def any_quarantined(con: Connection, target: str, ended: tuple[int, int]) -> bool:
    """Whether anything with ``ended[0] <= EndTime < ended[1]`` is set aside."""
    asked = "SELECT 1 FROM HeldRecords WHERE Target = ? AND EndTime >= ? AND EndTime < ? LIMIT 1"
    return con.execute(asked, (target, *ended)).fetchone() is not None


def outdated(con: Connection, target: Target) -> list[str]:
    """
    By what a receiver that keeps the first version of a record knows those of which there are corrections.

    Raises InputError when nothing is quarantined as a correction.
    """
    aside = [one.job_id for one in quarantine_entries(con, target=target.block) if one.state == "correction"]
    known = versions(con, target.block, aside, keeps_first=True)
    keys = sorted({version.key for found in known.values() for version in found})
    if not keys:
        raise InputError(f"{target.name}: nothing is quarantined as a correction; see `arcacct quarantine list`")
    return keys


def change_state(con: Connection, target: str | None, job_ids: Sequence[str], state: str) -> int:
    """
    Mark records that are set aside as ``retry`` or ``dropped``; returns how many.

    No job ids: all but dropped ones, and those that are not settled yet.

    Raises InputError for a job that is not set aside.
    """
    statement = "UPDATE HeldRecords SET State = ?1 WHERE (?2 IS NULL OR Target = ?2) AND "
    with transaction(con):
        if not job_ids:
            unsettled = "(State IN ('quarantined', 'correction') OR (State = 'held' AND NextTry IS NOT NULL))"
            return con.execute(statement + unsettled, (state, target)).rowcount
        changed = 0
        for job_id in job_ids:
            records = con.execute(f"{statement}JobID = ?3", (state, target, job_id)).rowcount
            if not records:
                at = f" at {target}" if target else ""
                raise InputError(f"{job_id}: not quarantined{at}; see `arcacct quarantine list`")
            changed += records
        return changed
