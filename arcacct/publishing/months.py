"""Months as the ledger keeps them: the family each is in, those that are held, and what operators accepted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.publishing.instants import Month
from arcacct.wording import sanitise_line


class MonthFormat(NamedTuple):
    """A month of which a target was sent something."""

    message_format: str
    """The messages it is published in: ``summaries``, ``car``, ..."""
    seq: int | None
    """Of sums: up to where in FinishedLog they were made; ``None``: by an older program, which did not note it."""
    incarnation: str | None
    """Of sums: the incarnation of the accounting database of `seq`; ``''``: the sum was retracted since."""
    sent: int | None
    """Of sums: when, UTC seconds."""


class HeldMonth(NamedTuple):
    """A month that is not sent, since the receiver's figures would fall and nothing explains it."""

    year: int
    month: int
    cause: str
    published_jobs: int
    found_jobs: int
    since_s: int = 0


class AcceptedDecreases(NamedTuple):
    """What operators said about the months of a target."""

    open: frozenset[Month]
    """May fall in this run."""
    ever: frozenset[Month]
    """Of this life of the accounting database: may be sent although the database does not have their beginning."""


def published(con: Connection, target: str) -> dict[Month, MonthFormat]:
    """Every month of which the target was sent something."""
    rows = con.execute("SELECT Year, Month, Kind, Seq, Incarnation, Sent FROM Months WHERE Target = ?", (target,))
    return {(year, month): MonthFormat._make(values) for year, month, *values in rows}


def held(con: Connection, target: str | None = None) -> dict[str, list[HeldMonth]]:
    """The months that are held, by target; of one target, or of all."""
    rows = con.execute(
        "SELECT Target, Year, Month, Cause, GivenJobs, FoundJobs, Since FROM HeldMonths WHERE ?1 IS NULL OR Target = ?1"
        " ORDER BY Target, Year, Month",
        (target,),
    )
    found: dict[str, list[HeldMonth]] = {}
    for name, *values in rows:
        found.setdefault(name, []).append(HeldMonth._make(values))
    return found


def held_month(con: Connection, target: str, month: Month) -> HeldMonth | None:
    """A month of a target if it is held."""
    return next((one for one in held(con, target).get(target, ()) if (one.year, one.month) == month), None)


def set_held(con: Connection, target: str, months: Iterable[HeldMonth], looked_at: Iterable[Month] | None) -> None:
    """
    From now on these months of a target are held, and of those ``looked_at`` no other (``None``: of all).

    A month that was held before keeps the time since when.
    """
    now = int(time.time())
    holding = list(months)
    with transaction(con):
        rows = con.execute("SELECT Year, Month, Since FROM HeldMonths WHERE Target = ?", (target,)).fetchall()
        before = {(year, month): since for year, month, since in rows}
        gone = before.keys() if looked_at is None else before.keys() & set(looked_at)
        con.executemany(
            "DELETE FROM HeldMonths WHERE Target = ? AND Year = ? AND Month = ?", [(target, *month) for month in gone]
        )
        con.executemany(
            "INSERT OR REPLACE INTO HeldMonths (Target, Year, Month, Cause, GivenJobs, FoundJobs, Since)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(target, *one[:5], before.get((one.year, one.month), now)) for one in holding],
        )


def accept(con: Connection, target: str, months: Iterable[Month], incarnation: str, who: str) -> None:
    """An operator accepts that figures of these months fall, once, to what the database has in this life of it."""
    now = int(time.time())
    with transaction(con):
        con.executemany(
            "INSERT INTO AcceptedMonths (Target, Year, Month, Incarnation, Accepted, Who, IsOpen)"
            " VALUES (?, ?, ?, ?, ?, ?, 1)",
            [(target, *month, incarnation, now, sanitise_line(who)) for month in months],
        )


def accepted(con: Connection, target: str, incarnation: str) -> AcceptedDecreases:
    """What was accepted of a target, in this life of the accounting database."""
    rows = con.execute(
        "SELECT Year, Month, IsOpen FROM AcceptedMonths WHERE Target = ? AND Incarnation = ?", (target, incarnation)
    ).fetchall()
    return AcceptedDecreases(
        frozenset((year, month) for year, month, is_open in rows if is_open),
        frozenset((year, month) for year, month, _is_open in rows),
    )


def close_accepted(con: Connection, target: str, *, but: Iterable[Month] = ()) -> None:
    """What was accepted (``but`` for these) was used, or nothing needed it: the next fall has to be accepted anew."""
    with transaction(con):
        open_months = con.execute(
            "SELECT DISTINCT Year, Month FROM AcceptedMonths WHERE Target = ? AND IsOpen", (target,)
        ).fetchall()
        con.executemany(
            "UPDATE AcceptedMonths SET IsOpen = 0 WHERE Target = ? AND Year = ? AND Month = ? AND IsOpen",
            [(target, *month) for month in set(open_months) - set(but)],
        )


class UncertainMonth(NamedTuple):
    """A month of which the ledger may not know what the receiver has, since both databases were put back."""

    jobs: int | None
    """Given, as the ledger that was replaced says; ``None``: nobody knows."""
    answered_s: int | None
    """When an operator accepted what the database has, or its jobs were back, UTC seconds; ``None``: it is held."""


def uncertain_months(con: Connection, target: str) -> dict[Month, UncertainMonth]:
    """The months of which the ledger may not know what the target's receiver has."""
    rows = con.execute(
        "SELECT Year, Month, Jobs, Answered FROM UnsureMonths WHERE Target IN ('', ?) ORDER BY Target", (target,)
    )
    return {(year, month): UncertainMonth._make(values) for year, month, *values in rows}


def uncertain_before(con: Connection, target: str) -> Month | None:
    """
    The month before which the ledger knows no month that nothing touched since both databases were put back.

    Nothing was left to compare them with: of an earlier month late jobs may have been sent, and nobody knows of which.
    ``None``: that never happened.
    """
    row = con.execute(
        "SELECT Year, Month FROM UnsureMonths WHERE Target IN ('', ?) AND Jobs IS NULL AND NOT IsEarlier"
        " ORDER BY Year, Month LIMIT 1",
        (target,),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def resolve_uncertain(con: Connection, target: str, months: Iterable[Month]) -> None:
    """What the database has of these months is what counts at the target's receiver: they are held no more for that."""
    now, known, first = int(time.time()), uncertain_months(con, target), uncertain_before(con, target)
    nobody_knows = UncertainMonth(None, None)
    with transaction(con):
        con.executemany(
            "INSERT INTO UnsureMonths (Target, Year, Month, Jobs, Since, Answered, IsEarlier)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) ON CONFLICT (Target, Year, Month)"
            " DO UPDATE SET Answered = excluded.Answered",
            [
                (target, *month, one.jobs, now, month not in known)
                for month in months
                if (one := known.get(month, nobody_knows)).answered_s is None
                and (month in known or (first is not None and month < first))
            ],
        )


def selections(con: Connection, target: str) -> tuple[dict[str, object] | None, dict[str, object] | None]:
    """By what the target selected when nothing was held last, and when the log was last gone through as a whole."""
    row = con.execute("SELECT Selection, Walked FROM Targets WHERE Target = ?", (target,)).fetchone()
    proven, walked = row or (None, None)
    return None if proven is None else json.loads(proven), None if walked is None else json.loads(walked)


def set_selection(con: Connection, target: str, column: str, selection: Mapping[str, object]) -> None:
    """Note by what the target selects now, in ``Selection`` or ``Walked``."""
    with transaction(con):
        con.execute(
            f"UPDATE Targets SET {column} = ? WHERE Target = ?", (json.dumps(selection, sort_keys=True), target)
        )
