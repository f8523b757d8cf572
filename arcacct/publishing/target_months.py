"""
The ledger's row of each month of a target (table TargetMonths), and what operators decided about months.

A run reads all rows of its target once, at its start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.times import Month, iso
from arcacct.wording import sanitise_line


class MonthFormat(NamedTuple):
    """A month with something sent to a target."""

    message_format: str
    """The kind of its messages: ``summaries``, ``car``, ..."""
    seq: int | None
    """For sums: the place in FinishedLog up to which they were made; ``None``: an older program did not note it."""
    incarnation: str | None
    """For sums: the incarnation of the accounting database of `seq`; ``''``: the sum has been retracted."""
    sent: int | None
    """For sums: the time of sending, UTC seconds."""


class MonthSnapshot(NamedTuple):
    """The sums of a month at a place in FinishedLog of one incarnation of the accounting database."""

    year: int
    month: int
    message_format: str
    seq: int
    incarnation: str


class HeldMonth(NamedTuple):
    """A month that is not sent, since the receiver's figures would fall without an explanation."""

    year: int
    month: int
    cause: str
    published_jobs: int
    found_jobs: int
    since_s: int = 0
    remedy: str = ""
    """The way to end the hold, as text; empty: the jobs, the configuration, or an accepted decrease."""


class UncertainMonth(NamedTuple):
    """A month for which the ledger may not know the receiver's figures, since both databases were restored."""

    jobs: int | None
    """The number of jobs that were sent, by the replaced ledger; ``None``: unknown."""
    answered_s: int | None
    """UTC seconds: when an operator accepted the database's figures, or its jobs were back; ``None``: it is held."""
    is_earlier: int = 0
    """Whether it is earlier than the restore concerns, and was asked about only since something touched it."""


class Refusal(NamedTuple):
    """The sums of one kind of a month that the receiver refused."""

    reason: str
    """The receiver's text."""
    refusals: int
    """The number of consecutive runs with the refusal."""
    run: int
    """The number of the last of these runs."""


class TargetMonth(NamedTuple):
    """The ledger's data about a month of a target."""

    format: MonthFormat | None
    """``None``: nothing of it was published."""
    held: HeldMonth | None
    uncertain: UncertainMonth | None
    is_unfinished: bool
    """Whether the receiver's figures are unknown, since it refused a sum: the next run sends them."""
    refused: Mapping[str, Refusal]
    """The sums that the receiver refused in the last run, by kind of message."""


class AcceptedDecreases(NamedTuple):
    """The decreases that operators accepted for a target."""

    open: frozenset[Month]
    """Months that may fall in this run."""
    ever: frozenset[Month]
    """Months of this accounting database incarnation that may be sent although the database lacks their start."""


def load(con: Connection, target: str) -> dict[Month, TargetMonth]:
    """Return the ledger's rows of a target, by month in that order."""
    rows = con.execute(
        "SELECT Year, Month, Kind, Seq, Incarnation, Sent, Cause, PublishedJobs, FoundJobs, HeldSince, Remedy,"
        " UncertainJobs, Answered, IsEarlier, UncertainSince, IsUnfinished, Refusals FROM TargetMonths"
        # Rows without a target are of every target: a lost ledger may have known these months. A row of its own counts.
        " WHERE Target IN ('', ?) ORDER BY Year, Month, Target",
        (target,),
    )
    found: dict[Month, TargetMonth] = {}
    for year, month, *values in rows:
        *unsure, since, is_unfinished, refusals = values[9:]
        of_all = found.get((year, month))
        found[year, month] = TargetMonth(
            None if values[0] is None else MonthFormat._make(values[:4]),
            None if values[4] is None else HeldMonth(year, month, *values[4:9]),
            UncertainMonth._make(unsure) if since is not None else of_all and of_all.uncertain,
            bool(is_unfinished),
            {kind: Refusal._make(one) for kind, one in json.loads(refusals).items()},
        )
    return found


def kinds(con: Connection, target: str) -> dict[Month, str]:
    """Return the kind of messages of every month with something published to a target."""
    return {month: one.format.message_format for month, one in load(con, target).items() if one.format is not None}


def held(known: Mapping[Month, TargetMonth]) -> dict[Month, HeldMonth]:
    """Return the held months of a target."""
    return {month: one.held for month, one in known.items() if one.held is not None}


def uncertain(known: Mapping[Month, TargetMonth]) -> dict[Month, UncertainMonth]:
    """Return the months for which the ledger may not know the figures of the target's receiver."""
    return {month: one.uncertain for month, one in known.items() if one.uncertain is not None}


def uncertain_before(known: Mapping[Month, TargetMonth]) -> Month | None:
    """
    Return a month; an earlier month is uncertain if nothing has touched it since both databases were restored.

    The databases could not be compared with anything. Late jobs of any earlier month may have been sent unknown to the
    ledger. ``None``: this never happened.
    """
    first = (month for month, one in uncertain(known).items() if one.jobs is None and not one.is_earlier)
    return min(first, default=None)


def untouched(known: Mapping[Month, TargetMonth], months: Iterable[Month]) -> set[Month]:
    """Return those of these months that are uncertain, and that nothing has touched since the restore."""
    first, touched = uncertain_before(known), uncertain(known)
    return {month for month in months if first is not None and month < first and month not in touched}


def unfinished(con: Connection, target: str) -> set[Month]:
    """Return the months with a refused sum. The receiver's figures are unknown, and the next run sends them."""
    return set(con.execute("SELECT Year, Month FROM TargetMonths WHERE Target = ? AND IsUnfinished", (target,)))


# What a run writes. A function that says so belongs to the caller's transaction.


def _put(
    con: Connection, target: str, columns: str, rows: Iterable[Sequence[object]], *, keep: Collection[str] = ()
) -> None:
    """
    Write some ``columns`` of months, in the caller's transaction. ``keep``: columns whose earlier values stay.

    ``rows``: year and month, then the values of the columns.
    """
    changes = [
        f"{one} = {f'coalesce({one}, excluded.{one})' if one in keep else f'excluded.{one}'}"
        for one in columns.split(", ")
    ]
    con.executemany(
        f"INSERT INTO TargetMonths (Target, Year, Month, {columns}) VALUES (?, ?, ?{', ?' * len(changes)})"
        f" ON CONFLICT (Target, Year, Month) DO UPDATE SET {', '.join(changes)}",
        [(target, *row) for row in rows],
    )


def set_format(con: Connection, target: str, months: Iterable[Month], message_format: str) -> None:
    """Note in which kind of messages months without an earlier kind are sent. The caller has a transaction."""
    _put(con, target, "Kind", ((*month, message_format) for month in months), keep=("Kind",))


def set_sums(con: Connection, target: str, proofs: Iterable[MonthSnapshot], now: int) -> None:
    """Note up to which place in the log the sums of months are made. The caller has a transaction."""
    _put(con, target, "Kind, Seq, Incarnation, Sent", ((*proof, now) for proof in proofs), keep=("Kind",))


def refuse(
    con: Connection, target: str, message_format: str, months: Iterable[Month], reason: str, run: int, *, is_open: bool
) -> int:
    """
    Note that the receiver refused a sum of some months; return in how many consecutive runs it has, this one included.

    ``is_open``: whether the months are unfinished now. The caller has a transaction.
    """
    known, most = load(con, target), 0
    nothing = TargetMonth(None, None, None, is_unfinished=False, refused={})
    for month in months:
        one = known.get(month, nothing)
        before = one.refused.get(message_format)
        count = 1 if before is None else before.refusals + (before.run != run)
        refused = {**one.refused, message_format: Refusal(sanitise_line(reason), count, run)}
        row = (*month, is_open or one.is_unfinished, json.dumps(refused, ensure_ascii=False))
        _put(con, target, "IsUnfinished, Refusals", [row])
        most = max(most, count)
    return most


def finish(con: Connection, target: str, months: Iterable[Month], run: int) -> None:
    """Note that the receiver has these months completely, except those with a sum that it refused in this run."""
    with transaction(con):
        con.executemany(
            "UPDATE TargetMonths SET IsUnfinished = 0 WHERE Target = ? AND Year = ? AND Month = ? AND NOT EXISTS"
            " (SELECT 1 FROM json_each(Refusals) WHERE key <> 'sync' AND json_extract(value, '$[2]') = ?)",
            [(target, *month, run) for month in months],
        )


def set_held(con: Connection, target: str, months: Iterable[HeldMonth], looked_at: Iterable[Month] = ()) -> None:
    """
    Store the held months of a target. Other months among those ``looked_at`` are released.

    A month that was held before keeps its start time.
    """
    with transaction(con):
        _set_held(con, target, months, looked_at)


def _set_held(con: Connection, target: str, months: Iterable[HeldMonth], looked_at: Iterable[Month]) -> None:
    holding, now = {(one.year, one.month): one for one in months}, int(time.time())
    con.executemany(
        "UPDATE TargetMonths SET (Cause, PublishedJobs, FoundJobs, HeldSince, Remedy) = (NULL, NULL, NULL, NULL, NULL)"
        " WHERE Target = ? AND Year = ? AND Month = ?",
        [(target, *month) for month in {*looked_at} - holding.keys()],
    )
    rows = [(*one[:5], now, one.remedy) for one in holding.values()]
    _put(con, target, "Cause, PublishedJobs, FoundJobs, HeldSince, Remedy", rows, keep=("HeldSince",))


def end_run(con: Connection, target: str, holding: Iterable[HeldMonth], run: int, *, is_whole: bool) -> None:
    """
    Store what a run decided about months: it holds these, and an accepted decrease was used or not needed.

    A whole run has checked every month, and forgets the refusals of earlier runs: the receiver has these sums now.
    After another run, an acceptance stays open for a month that is held.
    """
    with transaction(con):
        con.execute(
            "UPDATE TargetMonths SET AcceptedFor = NULL WHERE Target = ? AND (? OR Cause IS NULL)", (target, is_whole)
        )
        if is_whole:
            con.execute(
                "UPDATE TargetMonths SET Refusals = (SELECT json_group_object(key, json(value)) FROM"
                " json_each(Refusals) WHERE json_extract(value, '$[2]') = ?) WHERE Target = ? AND Refusals <> '{}'",
                (run, target),
            )
        _set_held(con, target, holding, held(load(con, target)) if is_whole else ())


# What operators decided. Every decision is kept.


LOWER, KEPT, SWITCHED, DECLINED = "lower", "kept", "switched", "declined"
"""
The decisions about a month, as in schema/publishing/20_figures.sql: its figures may fall; it stays under a former name;
what jura-ng sent of it was taken over, or was not.
"""


class Decision(NamedTuple):
    """An operator's decision about a month, except decreases."""

    what: str
    who: str
    when_s: int

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.what} by {self.who} at {iso(self.when_s)}"


def decide(con: Connection, target: str, months: Collection[Month], what: str, who: str, incarnation: str = "") -> None:
    """
    Store an operator's decision about some months.

    `LOWER` accepts one decrease of these months to the figures of this ``incarnation`` of the accounting database.
    Their figures at the receiver are no longer uncertain.
    """
    now = int(time.time())
    with transaction(con):
        con.executemany(
            "INSERT INTO MonthDecisions (Target, Year, Month, Decision, Incarnation, Decided, Who)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(target, *month, what, incarnation, now, sanitise_line(who)) for month in months],
        )
        if what == LOWER:
            _put(con, target, "AcceptedFor", ((*month, incarnation) for month in months))
            _resolve(con, target, months)


def decisions(con: Connection, target: str, *what: str) -> dict[Month, Decision]:
    """Return the last decision of some kinds on each month of a target."""
    rows = con.execute(
        "SELECT Year, Month, Decision, Who, Decided FROM MonthDecisions WHERE Target = ? AND Decision IN"
        f" ({', '.join('?' * len(what))}) ORDER BY DecisionID",
        (target, *what),
    )
    return {(year, month): Decision(*values) for year, month, *values in rows}


def accepted(con: Connection, target: str, incarnation: str) -> AcceptedDecreases:
    """Return what was accepted for a target and this incarnation of the accounting database."""
    asked = (
        "TargetMonths WHERE Target = ? AND AcceptedFor = ?",
        "MonthDecisions WHERE Target = ? AND Incarnation = ? AND Decision = 'lower'",
    )
    return AcceptedDecreases._make(
        frozenset(con.execute(f"SELECT Year, Month FROM {one}", (target, incarnation))) for one in asked
    )


def resolve_uncertain(con: Connection, target: str, months: Iterable[Month]) -> None:
    """Note that the database's figures of these months are right for the target, and end this reason to hold."""
    with transaction(con):
        _resolve(con, target, months)


def _resolve(con: Connection, target: str, months: Iterable[Month]) -> None:
    known, now = load(con, target), int(time.time())
    asked = {**dict.fromkeys(untouched(known, months), UncertainMonth(None, None, 1)), **uncertain(known)}
    rows = [
        (*month, one.jobs, now, now, one.is_earlier)
        for month in months
        if (one := asked.get(month)) is not None and one.answered_s is None
    ]
    _put(con, target, "UncertainJobs, UncertainSince, Answered, IsEarlier", rows, keep=("UncertainSince",))
