"""Records that are held back from a target: until a cause ends, or because an operator dropped them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from arcacct.config.options import Target
from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.errors import InputError
from arcacct.publishing import ledger_rows
from arcacct.publishing.ledger import HeldRecord, hold
from arcacct.publishing.sent import MANY, versions
from arcacct.times import DAY_S, LAST_SECOND, Month, iso, month_of


class RetryThresholds(NamedTuple):
    """The thresholds by which one run decides whether a held record is due."""

    settled_at: int
    """Failed jobs that ended after this time may still be resumed; UTC seconds."""
    now: int
    run: int
    """The number of the run. A record that the receiver refused in this run is not tried again in it."""


class RefusalHistory(NamedTuple):
    """How often a receiver has refused a record."""

    state: str
    refusals: int
    """The number of runs with a refusal."""
    run: int
    """The number of the last of these runs."""


class HeldEntry(NamedTuple):
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
    """When it is tried again automatically; ``None``: after it is settled, or never automatically."""
    refusals: int
    """The number of runs in which the receiver refused it."""

    @property
    def retry_text(self) -> str:
        """Return when it is tried again: ``tried again from 2026-11-20T10:30:00Z``; empty if it is not."""
        if self.next_try_s is None or self.state not in ("held", "quarantined"):
            return ""
        return f"tried again from {iso(self.next_try_s)}" if self.next_try_s else "tried again with the next run"


# A last try in the future was noted by a wrong clock, and so was the next try.
_IS_DUE = (
    "(State = 'retry' OR (State = 'held' AND NextTry IS NULL AND EndTime <= :settled_at)"
    " OR (State IN ('held', 'quarantined') AND RefusedRun < :run"
    " AND (NextTry <= :now OR (NextTry > 0 AND Tried > :now))))"
)


def held_to_send(
    con: Connection, target: str, due: RetryThresholds, *, refused: bool, after: str = ""
) -> list[tuple[str, str]]:
    """
    Return ``(JobID, state)`` of held records that are due or marked for a retry.

    Returns one page, ordered by JobID, of the JobIDs greater than ``after``. ``refused`` selects the records that the
    receiver has refused; otherwise the others are returned.
    """
    return con.execute(
        f"SELECT JobID, State FROM HeldRecords WHERE Target = :target AND JobID > :after AND {_IS_DUE}"
        " AND (Refusals > 0) = :refused ORDER BY JobID LIMIT :size",
        {**due._asdict(), "target": target, "after": after, "refused": refused, "size": MANY},
    ).fetchall()


def held_months(con: Connection, target: str, due: RetryThresholds) -> set[Month]:
    """Return the months (UTC) in which the records of `held_to_send` ended."""
    rows = con.execute(
        f"SELECT DISTINCT EndTime / {DAY_S} FROM HeldRecords WHERE Target = :target AND {_IS_DUE}"
        f" AND EndTime BETWEEN 1 AND {LAST_SECOND}",
        {**due._asdict(), "target": target},
    )
    return {month_of(day * DAY_S) for (day,) in rows}


class RetrySummary(NamedTuple):
    """Held records that are tried again automatically, for one kind of reason."""

    records: int
    next_s: int
    """When the first of them is tried again, UTC seconds; a time in the past means the next run."""
    since_s: int
    """Since when the first of them waits, UTC seconds."""


def job_ids(con: Connection, target: str) -> list[str]:
    """Return every job with a record that is held back from a target, in any state."""
    return [job_id for (job_id,) in con.execute("SELECT JobID FROM HeldRecords WHERE Target = ?", (target,))]


def decided(con: Connection, target: str) -> list[str]:
    """Return the jobs that an operator wants sent with the next run, or never."""
    rows = con.execute("SELECT JobID FROM HeldRecords WHERE Target = ? AND State IN ('retry', 'dropped')", (target,))
    return [job_id for (job_id,) in rows]


def retry_summaries(con: Connection, target: str) -> tuple[RetrySummary | None, RetrySummary | None]:
    """Summarise the held records with a next try: first those that the receiver refused, then the others."""
    rows = con.execute(
        "SELECT Refusals > 0, count(*), min(NextTry), min(Since) FROM HeldRecords"
        " WHERE Target = ? AND State = 'held' AND NextTry IS NOT NULL GROUP BY Refusals > 0",
        (target,),
    ).fetchall()
    found = {bool(refused): RetrySummary._make(values) for refused, *values in rows}
    return found.get(True), found.get(False)


def refusals(con: Connection, target: str, job_id: str) -> RefusalHistory | None:
    """Return how often the receiver refused a held record; ``None`` if the record is not held."""
    row = con.execute(
        "SELECT State, Refusals, RefusedRun FROM HeldRecords WHERE Target = ? AND JobID = ?", (target, job_id)
    ).fetchone()
    return None if row is None else RefusalHistory._make(row)


def newly_held(con: Connection, target: str, held: Sequence[HeldRecord]) -> list[HeldRecord]:
    """Return the records that are not retried soon and were not reported before. Call it before they are stored."""
    before = states(con, target, [one.record.job_id for one in held if one.state != "held"])
    return [one for one in held if one.state != "held" and before.get(one.record.job_id) not in (one.state, "dropped")]


def unhold(con: Connection, target: str, job_ids: Iterable[str]) -> None:
    """Release records that no longer exist or that the receiver has. Dropped records stay dropped."""
    with transaction(con):
        _release(con, target, job_ids)


def _release(con: Connection, target: str, job_ids: Iterable[str]) -> None:
    con.executemany(
        "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ? AND State <> 'dropped'",
        [(target, job_id) for job_id in job_ids],
    )


def hold_only(con: Connection, target: str, held: Sequence[HeldRecord], known: Collection[str]) -> int:
    """
    Hold exactly these jobs, of those ``known`` before (`held_within`), for a target that is sent sums.

    Returns how many of them are quarantined and were not before.
    """
    now = int(time.time())
    with transaction(con):
        new = len(newly_held(con, target, held))
        _release(con, target, {*known}.difference(one.record.job_id for one in held))
        for one in held:
            hold(con, target, one, now)
    return new


def held_within(con: Connection, target: str, periods: Iterable[tuple[int, float]]) -> set[str]:
    """Return the JobIDs of the held records that ended in some periods, except dropped ones."""
    asked = "SELECT JobID FROM HeldRecords WHERE Target = ? AND EndTime >= ? AND EndTime < ? AND State <> 'dropped'"
    return {job_id for period in periods for (job_id,) in con.execute(asked, (target, *period))}


def states(con: Connection, target: str, job_ids: Sequence[str]) -> dict[str, str]:
    """Return the state in HeldRecords of those jobs that are held back from the target."""
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
    """Return the earliest EndTime, UTC seconds, of a target's held and unanswered records; ``None``: no such record."""
    unanswered = ledger_rows.of_messages("EndTime", "Messages.Target = ?1 AND State = 'sending'")
    row = con.execute(
        "SELECT min(EndTime) FROM ("
        "SELECT EndTime FROM HeldRecords WHERE Target = ?1 AND State IN ('held', 'quarantined', 'retry')"
        f" UNION ALL {unanswered})"
        # HeldRecords can contain an end that is not a time.
        " WHERE EndTime BETWEEN 1 AND ?2",
        (target, LAST_SECOND),
    ).fetchone()
    return None if row[0] is None else int(row[0])


def held_entries(con: Connection, *, target: str | None = None, job_id: str | None = None) -> list[HeldEntry]:
    """Return the held records of all targets or one, and of all jobs or one, by target and end time."""
    asked = {f"{column} = ?": value for column, value in (("Target", target), ("JobID", job_id)) if value is not None}
    rows = con.execute(
        "SELECT Target, JobID, RecordID, EndTime, State, Reason, Attempts, Since, NextTry, Refusals FROM HeldRecords"
        f" WHERE {' AND '.join(asked) or '1'} ORDER BY Target, EndTime, JobID",
        tuple(asked.values()),
    )
    return [HeldEntry._make(row) for row in rows]


def any_held(con: Connection, target: str, ended: tuple[int, int]) -> bool:
    """Whether any record with ``ended[0] <= EndTime < ended[1]`` is held back."""
    asked = "SELECT 1 FROM HeldRecords WHERE Target = ? AND EndTime >= ? AND EndTime < ? LIMIT 1"
    return con.execute(asked, (target, *ended)).fetchone() is not None


def outdated(con: Connection, target: Target) -> list[str]:
    """
    Return the keys of the records that need a correction, at a receiver that keeps the first version.

    Raises InputError if nothing is quarantined as a correction.
    """
    aside = [one.job_id for one in held_entries(con, target=target.block) if one.state == "correction"]
    known = versions(con, target.block, aside, keeps_first=True)
    keys = sorted({version.key for found in known.values() for version in found})
    if not keys:
        raise InputError(f"{target.name}: nothing is quarantined as a correction; see `arcacct quarantine list`")
    return keys


def change_state(con: Connection, target: str | None, job_ids: Sequence[str], state: str) -> int:
    """
    Mark held records as ``retry`` or ``dropped``; return how many.

    Without job IDs it marks all records except dropped ones and those that are not settled yet.

    Raises InputError for a job that is not held.
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
