"""Records that are held back from a target: until they are settled, or because somebody refuses them."""

from __future__ import annotations

import time
from _sqlite3 import Connection
from collections.abc import Iterable, Sequence

from arcacct.store.ledger import Held, hold, transaction
from arcacct.store.sent import MANY


def held_to_send(
    con: Connection, target: str, ended_before: int, *, after: str = "", size: int = 500
) -> list[tuple[str, str]]:
    """
    ``(JobID, state)`` of held records whose time has come (``held`` that ended before then) or that are to be retried.

    A page of them, by JobID, from behind ``after``.
    """
    return con.execute(
        "SELECT JobID, State FROM HeldRecords WHERE Target = ? AND JobID > ?"
        " AND (State = 'retry' OR (State = 'held' AND EndTime <= ?)) ORDER BY JobID LIMIT ?",
        (target, after, ended_before, size),
    ).fetchall()


def held_months(con: Connection, target: str, ended_before: int) -> set[tuple[int, int]]:
    """The months of EndTime of what `held_to_send` gives."""
    rows = con.execute(
        "SELECT DISTINCT CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),"
        " CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER) FROM HeldRecords WHERE Target = ?"
        " AND (State = 'retry' OR (State = 'held' AND EndTime <= ?)) AND EndTime BETWEEN 1 AND 253402300799",
        (target, ended_before),
    )
    return {(year, month) for year, month in rows}


def release(con: Connection, target: str, job_ids: Iterable[str]) -> None:
    """These records are not held back any more: they no longer exist, or the receiver has them."""
    with transaction(con):
        con.executemany(
            "DELETE FROM HeldRecords WHERE Target = ? AND JobID = ? AND State <> 'dropped'",
            [(target, job_id) for job_id in job_ids],
        )


def hold_only(con: Connection, target: str, held: Sequence[Held], periods: Iterable[tuple[int, float]]) -> int:
    """
    Of a target that is sent sums: exactly these jobs are set aside, of all that ended in some periods.

    Returns how many of them were not set aside before.
    """
    now = int(time.time())
    job_ids = {one.record.job_id for one in held}
    with transaction(con):
        before = states(con, target, list(job_ids))
        for job_id in quarantined(con, target, periods):
            if job_id not in job_ids:
                con.execute("DELETE FROM HeldRecords WHERE Target = ? AND JobID = ?", (target, job_id))
        for one in held:
            hold(con, target, one, now)
    return len(job_ids - before.keys())


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
    row = con.execute(
        "SELECT min(EndTime) FROM ("
        "SELECT EndTime FROM HeldRecords WHERE Target = ?1 AND State IN ('held', 'quarantined', 'retry')"
        " UNION ALL SELECT EndTime FROM Messages JOIN MessageRecords USING (MessageID)"
        " WHERE Target = ?1 AND State = 'sending')",
        (target,),
    ).fetchone()
    return None if row[0] is None else int(row[0])
