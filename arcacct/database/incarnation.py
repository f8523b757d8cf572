"""
Checks which two databases belong together (INVARIANTS 11): each stores the other's identity, so an old, lost or foreign
one is noticed.
"""

from __future__ import annotations

import json
import time
from calendar import timegm
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from sqlite3 import Connection
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.database import location, schema
from arcacct.database.access import is_trial, writing
from arcacct.database.connection import make_durable
from arcacct.database.durable import transaction
from arcacct.database.schema import note, noted
from arcacct.errors import ConfigError

_LAST_ROW = "LAST_ROW "
_NAMES = "NAMES "
_LEDGER_LOST = "LEDGER_LOST"
_LOST_RUNS = "LOST_RUNS"
_DOUBT_FENCE = "DOUBT_FENCE"
_FORGOTTEN = "FORGOTTEN"
"""From an older program: the period for which neither database knows what was published."""
RESTORED, _COMPARED = "ARCACCT_RESTORED", "compared"
"""Noted in a restored ledger, until the next run."""
_UNSURE = "UNSURE_MONTHS"
"""
In accounting.db: the ledger's knowledge of uncertain months (`_UNSURE_COLUMNS`) as JSON, in case the ledger is lost.
"""
_UNSURE_COLUMNS = "Target, Year, Month, UncertainJobs, UncertainSince, Answered, IsEarlier"
_CERTAIN = "UPDATE TargetMonths SET UncertainSince = NULL, UncertainJobs = NULL, Answered = NULL, IsEarlier = 0"
_ANY_ROW = 2**63 - 1


class DatabaseMismatch(Enum):
    """A mismatch of the two databases, and its consequence, for people."""

    LEDGER_OLD = (
        "publishing.db is an older copy: messages since the copy are unknown. Their records are sent again, which"
        " has no effect if they had arrived, and zeros are sent for doubtful keys"
    )
    LEDGER_LOST = (
        "publishing.db was lost: earlier messages are unknown. All records since the target's start are sent again,"
        " which has no effect if they had arrived, and zeros are sent for doubtful keys"
    )
    ACCOUNTING_OLD = (
        "accounting.db is an older copy: new messages are compared with earlier ones, and no published"
        " figure falls because of it"
    )
    ACCOUNTING_OTHER = (
        "the accounting database was restored or newly created: new messages are compared with earlier ones,"
        " and no published figure falls because of it"
    )
    FOREIGN = (
        "publishing.db is the ledger of another accounting database: publishing from both would cancel what that one"
        " sent. Restore the files that belong together (`arcacct db restore`), or, if this is intended,"
        " run `arcacct db init --new-life`"
    )


MEANING = {doubt: doubt.value for doubt in DatabaseMismatch}


class IncarnationState(NamedTuple):
    """The knowledge of the two databases about each other."""

    incarnation: str
    incarnation_history: frozenset[str]
    """The accounting database's own incarnation and the earlier ones that it continues."""
    passed: int
    """How many fences the accounting database has passed, and the Seq of FinishedLog at the last one."""
    horizon: int
    ledger_of: str | None
    """The ledger that accounting.db knows, and its number of started runs."""
    runs_of: int
    ledger: str
    runs: int
    fences: int | None
    """How many fences of accounting.db the ledger knows."""
    target_incarnations: frozenset[str]
    """The incarnations of accounting.db in the ledger's targets."""
    known_incarnations: frozenset[str]
    """Those, and all that it has ever met, with their predecessors."""
    restored: bool
    """publishing.db came from a backup, and nothing was published since."""
    compared: bool
    """It was compared with the ledger that it replaced: `TargetMonths` has the additional knowledge of that one."""
    previous_incarnation: str | None
    """The incarnation of accounting.db at the last run that it knows."""
    last_run: int | None
    """When the last run known to the ledger ended, UTC seconds."""
    fences_noted: int
    """The number of fences in the note of the place; 0: unknown."""
    is_behind: bool
    """Whether a target was sent more of this incarnation of accounting.db than the database has logged."""


class Fence(NamedTuple):
    """The content of a fence."""

    horizon: int
    """The highest Seq that is on disk."""
    passed: int
    """How many fences this database has seen: a repeated number reveals an older copy."""


def incarnation_state(
    accounting: Connection, publishing: Connection, *, rehearsing: bool = False, fences_noted: int = 0
) -> IncarnationState:
    """
    The state in both, read-only, and the number of fences in the place file.

    Neither accounting.db nor the note knows the ledger of a rehearsal.
    """
    ours = dict(accounting.execute("SELECT KeyName, KeyValue FROM DBConfig").fetchall())
    theirs = dict(publishing.execute("SELECT KeyName, KeyValue FROM DBConfig").fetchall())
    horizon, passed = accounting.execute("SELECT Horizon, Passed FROM Fence").fetchone()
    lives = frozenset(one for (one,) in publishing.execute("SELECT DISTINCT Incarnation FROM Targets") if one)
    fences = theirs.get("FENCES_PASSED")
    life = schema.incarnation(accounting)
    (last_run,) = publishing.execute("SELECT max(LastRun) FROM Targets").fetchone()
    (reached,) = publishing.execute(
        "SELECT max(min(LastSeq, LastSeqAgain)) FROM Targets WHERE Incarnation = ?", (life,)
    ).fetchone()
    return IncarnationState(
        incarnation=life,
        incarnation_history=schema.incarnation_history(accounting),
        passed=int(passed),
        horizon=int(horizon),
        ledger_of=None if rehearsing else ours.get("LEDGER_INCARNATION"),
        runs_of=0 if rehearsing else int(ours.get("LEDGER_RUNS", 0)),
        ledger=theirs.get("ARCACCT_INCARNATION", ""),
        runs=int(theirs.get("RUNS", 0)),
        fences=None if fences is None else int(fences),
        target_incarnations=lives,
        known_incarnations=lives.union(theirs.get(location.LEDGER_INCARNATIONS, "").split()),
        restored=RESTORED in theirs,
        compared=theirs.get(RESTORED) == _COMPARED,
        previous_incarnation=None if rehearsing else ours.get("LEDGER_LIFE"),
        last_run=last_run,
        fences_noted=0 if rehearsing else fences_noted,
        is_behind=reached is not None and reached > highest_seq(accounting),
    )


def mismatches(what: IncarnationState) -> list[DatabaseMismatch]:
    """Return the mismatches between the two."""
    found = []
    if what.target_incarnations and not what.known_incarnations & what.incarnation_history:
        found.append(DatabaseMismatch.FOREIGN)
    if what.ledger_of is not None and what.ledger_of != what.ledger:
        found.append(DatabaseMismatch.LEDGER_OLD if what.target_incarnations else DatabaseMismatch.LEDGER_LOST)
    elif what.runs_of > what.runs or what.restored or what.fences_noted > (what.fences or what.fences_noted):
        found.append(DatabaseMismatch.LEDGER_OLD)
    # An older program noted no fences: only its messages show how far it came.
    fences = max(what.fences or 0, what.fences_noted)
    if what.incarnation in what.known_incarnations and (what.is_behind or what.passed < fences):
        found.append(DatabaseMismatch.ACCOUNTING_OLD)
    elif (
        what.target_incarnations
        and what.incarnation not in what.target_incarnations
        and DatabaseMismatch.FOREIGN not in found
    ):
        found.append(DatabaseMismatch.ACCOUNTING_OTHER)
    return found


def begin_run(accounting: Connection, publishing: Connection, here: Places) -> Fence:
    """
    Start a run of publishing: each database notes the other, and the fence makes the accounting database durable.

    An older copy of the accounting database starts its own incarnation here, and after an older ledger every target has
    a doubt. Raises ConfigError for two databases that do not belong together. If this is killed at any point, the next
    run notices the same.
    """
    rehearsing = here.rehearsal is not None
    what = incarnation_state(accounting, publishing, rehearsing=rehearsing, fences_noted=location.fence(here))
    found = mismatches(what)
    if DatabaseMismatch.FOREIGN in found:
        raise ConfigError(f"{here.publishing_database}: {MEANING[DatabaseMismatch.FOREIGN]}")
    with transaction(publishing):
        if DatabaseMismatch.LEDGER_OLD in found or DatabaseMismatch.LEDGER_LOST in found:
            publishing.execute(
                "UPDATE Targets SET UncertainAfterSeq = min(coalesce(UncertainAfterSeq, LastSeq), LastSeq)"
            )
            note(publishing, _LEDGER_LOST, int(time.time()))
            in_doubt_after = noted(publishing, _DOUBT_FENCE)
            fences = what.fences or 0
            note(publishing, _DOUBT_FENCE, fences if in_doubt_after is None else min(fences, int(in_doubt_after)))
            if not rehearsing:
                # Its months in doubt, as accounting.db stores them.
                publishing.executemany(
                    f"INSERT INTO TargetMonths ({_UNSURE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET Answered = coalesce(Answered, excluded.Answered), (UncertainSince,"
                    " UncertainJobs, IsEarlier) = (coalesce(UncertainSince, excluded.UncertainSince),"
                    " CASE WHEN UncertainSince IS NULL THEN excluded.UncertainJobs ELSE UncertainJobs END,"
                    " CASE WHEN UncertainSince IS NULL THEN excluded.IsEarlier ELSE IsEarlier END)",
                    json.loads(noted(accounting, _UNSURE) or "[]"),
                )
        _note_unsure(accounting, publishing, what, found)
        runs = max(what.runs, what.runs_of if what.ledger_of == what.ledger else 0) + 1
        note(publishing, "RUNS", runs)

    def note_the_ledger() -> None:
        if not rehearsing:
            note(accounting, "LEDGER_INCARNATION", what.ledger)
            note(accounting, "LEDGER_RUNS", runs)
            if DatabaseMismatch.LEDGER_OLD in found or DatabaseMismatch.LEDGER_LOST in found:
                note(accounting, _LOST_RUNS, what.runs_of)
        if DatabaseMismatch.ACCOUNTING_OLD in found:
            schema.new_incarnation(accounting, seq=what.horizon)
        if not rehearsing:
            note(accounting, "LEDGER_LIFE", schema.incarnation(accounting))
            unsure = publishing.execute(
                f"SELECT {_UNSURE_COLUMNS} FROM TargetMonths WHERE UncertainSince IS NOT NULL ORDER BY 1, 2, 3"
            ).fetchall()
            note(accounting, _UNSURE, json.dumps(unsure))
            accounting.execute("DELETE FROM DBConfig WHERE KeyName = ?", (_FORGOTTEN,))

    # Never fewer than the ledger knows: a copy that was recognised must not be taken for an older one again.
    passed = raise_fence(accounting, here, note_the_ledger, at_least=max(what.fences or 0, what.fences_noted))
    with transaction(publishing):
        note(publishing, "FENCES_PASSED", passed.passed)
        note(
            publishing,
            location.LEDGER_INCARNATIONS,
            " ".join(sorted(what.known_incarnations | schema.incarnation_history(accounting))),
        )
        publishing.execute("DELETE FROM DBConfig WHERE KeyName = ?", (RESTORED,))
    if not rehearsing and not is_trial(accounting):
        # After both databases, so that it is never ahead of them.
        location.note_fence(here, schema.incarnation(accounting), passed.passed)
    return passed


def compare_ledgers(con: Connection) -> None:
    """
    Note in a ledger the additional knowledge of the ledger that it will replace, attached as ``Replaced``.

    A month is affected by the restore if the replaced ledger sent a receiver other data for it. Its sums are copied
    with their keys, so that zeros can be sent for them; no message of ours has them (MessageID 0). Nothing is stored if
    the replaced ledger is not a later state of the same one. Inside the caller's transaction.
    """
    mine, theirs = (
        dict(con.execute(f"SELECT KeyName, KeyValue FROM {name}.DBConfig").fetchall()) for name in ("main", "Replaced")
    )
    newer = int(theirs.get("RUNS", 0)) >= int(mine.get("RUNS", 0))
    if not newer or mine.get("ARCACCT_INCARNATION") != theirs.get("ARCACCT_INCARNATION"):
        return
    # If the program before this one wrote the other ledger last, it is as that program left it.
    totals, sums, months = "PublishedTotals", "SentSummaries", "TargetMonths"
    if int(theirs["ARCACCT_SCHEMA"]) == schema.PUBLISHING.oldest:
        totals, sums, months = "Given", "SumKeys", "Months"
    given = " UNION ALL ".join(
        f"SELECT Target, Year, Month, {sign}Jobs AS Jobs, {sign}coalesce(Wall, 0) AS Wall, {had} * Jobs AS Had"
        f" FROM {table}"
        for sign, had, tables in (
            ("-", 0, ("PublishedTotals", "SentSummaries")),
            ("", 1, (f"Replaced.{totals}", f"Replaced.{sums}")),
        )
        for table in (tables[0], f"{tables[1]} WHERE Kind <> 'sync' AND NOT IsAdopted")
    )
    con.execute(
        "INSERT INTO TargetMonths (Target, Year, Month, UncertainJobs, UncertainSince)"
        f" SELECT Target, Year, Month, sum(Had), ? FROM ({given}) GROUP BY Target, Year, Month"
        " HAVING sum(Jobs) <> 0 OR sum(Wall) <> 0 ON CONFLICT DO UPDATE SET UncertainJobs = excluded.UncertainJobs,"
        " UncertainSince = excluded.UncertainSince, Answered = NULL, IsEarlier = 0",
        (int(time.time()),),
    )
    of_touched = (
        "WHERE Kind IS NOT NULL AND (Target, Year, Month) IN (SELECT Target, Year, Month FROM main.TargetMonths"
        " WHERE UncertainSince IS NOT NULL AND Answered IS NULL)"
    )
    columns = "Target, Kind, Key, Year, Month, Jobs, Wall, Site, SubmitHost, IsAdopted"
    con.execute(
        f"INSERT OR REPLACE INTO SentSummaries ({columns}, MessageID) SELECT {columns}, 0 FROM Replaced.{sums}"
        f" {of_touched}"
    )
    columns = "Target, Year, Month, Kind, Seq, Incarnation, Sent"
    con.execute(
        f"INSERT INTO TargetMonths ({columns}) SELECT {columns} FROM Replaced.{months} {of_touched}"
        " ON CONFLICT DO UPDATE SET Kind = excluded.Kind, Seq = excluded.Seq, Incarnation = excluded.Incarnation,"
        " Sent = excluded.Sent"
    )
    note(con, RESTORED, _COMPARED)


def _note_unsure(
    accounting: Connection, publishing: Connection, what: IncarnationState, found: list[DatabaseMismatch]
) -> None:
    """
    Store the months whose data at receivers are unknown, because both databases are old copies.

    Where the ledger was not compared with the one that it replaced: those that runs sent since, which is also the month
    before each. Where accounting.db is not a copy, it knows what to send again, and nothing is unsure.
    """
    now = int(time.time())
    span = noted(accounting, _FORGOTTEN)
    if span is not None:
        # Of an earlier program; records that were accepted since then were answered.
        begun, ended = map(int, span.split())
        _insert_unsure(publishing, begun, ended, now)
        publishing.execute(
            "UPDATE TargetMonths SET Answered = (SELECT max(Decided) FROM MonthDecisions AS Accepted WHERE"
            " (Accepted.Target, Accepted.Year, Accepted.Month) = (TargetMonths.Target, TargetMonths.Year,"
            " TargetMonths.Month) AND Decision = 'lower') WHERE UncertainSince = ?",
            (now,),
        )
    if not _both_are_old(what, found):
        if what.restored:
            publishing.execute(f"{_CERTAIN} WHERE Answered IS NULL AND UncertainJobs IS NOT NULL")
        return
    if what.compared:
        return
    since = what.last_run
    if since is None:
        # The time of the backup with which this incarnation started, by its last job.
        sql = "SELECT max(EndTime) FROM FinishedLog JOIN AAR USING (RecordID) WHERE Seq <= ? AND EndTime <= ?"
        seq = what.horizon if DatabaseMismatch.ACCOUNTING_OLD in found else schema.incarnation_start_seq(accounting)
        (since,) = accounting.execute(sql, (seq, now)).fetchone()
    begin = time.gmtime(since or 0)
    _insert_unsure(publishing, timegm((begin.tm_year, begin.tm_mon, 1, 0, 0, 0)) - 1, now, now)


def _insert_unsure(con: Connection, since: int, until: int, now: int) -> None:
    """
    Mark the months from one moment to another as uncertain, for each target; those that were answered before are asked
    again.
    """
    first, last = (one.tm_year * 12 + one.tm_mon - 1 for one in map(time.gmtime, (since, until)))
    months = [(number // 12, number % 12 + 1, now) for number in range(first, last + 1)]
    con.executemany(f"{_CERTAIN} WHERE Year = ? AND Month = ?", [one[:2] for one in months])
    targets = con.execute("SELECT Target FROM Targets").fetchall() or [("",)]
    con.executemany(
        "INSERT INTO TargetMonths (Target, Year, Month, UncertainSince) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET UncertainSince = excluded.UncertainSince",
        [(target, *one) for (target,) in targets for one in months],
    )


def _both_are_old(what: IncarnationState, found: list[DatabaseMismatch]) -> bool:
    """Whether both databases are old copies: neither has what the other lost."""
    if DatabaseMismatch.LEDGER_OLD not in found and DatabaseMismatch.LEDGER_LOST not in found:
        return False
    if what.previous_incarnation is None:
        return DatabaseMismatch.ACCOUNTING_OTHER in found or DatabaseMismatch.ACCOUNTING_OLD in found
    return DatabaseMismatch.ACCOUNTING_OLD in found or what.previous_incarnation != what.incarnation


def raise_fence(con: Connection, here: Places, also: Callable[[], None] = lambda: None, *, at_least: int = 0) -> Fence:
    """
    Commit one real row with an fsync: after it, all earlier commits are on disk.

    With synchronous=NORMAL a power cut may lose the last commits; their Seq would be issued again for other jobs, while
    the publisher's cursor is already past them. (It also syncs before the turn, so that the sync in the turn, for which
    others wait, has almost nothing to write.) ``also`` runs in the same transaction; the number of fences continues
    from ``at_least``.
    """
    make_durable(here.database)
    con.execute("PRAGMA synchronous = FULL")
    try:
        with writing(con, here):
            horizon = highest_seq(con)
            con.execute("UPDATE Fence SET Horizon = ?, Passed = max(Passed, ?) + 1", (horizon, at_least))
            (passed,) = con.execute("SELECT Passed FROM Fence").fetchone()
            also()
    finally:
        con.execute("PRAGMA synchronous = NORMAL")
    return Fence(horizon, int(passed))


def highest_seq(con: Connection) -> int:
    """The highest Seq that FinishedLog ever had."""
    row = con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()
    return int(row[0]) if row else 0


def is_successor(con: Connection) -> bool:
    """Whether there was a ledger with more knowledge: then a target without a cursor may not be new."""
    return noted(con, _LEDGER_LOST) is not None


def may_lack(con: Connection, since_s: int) -> bool:
    """Whether a former ledger may have had messages of ``since_s`` (UTC seconds) or later that this one lacks."""
    found_s = noted(con, _LEDGER_LOST)
    # An older program noted 1, and no time.
    return found_s is not None and (found_s == "1" or since_s < int(found_s))


def uncertain_after_seq(con: Connection, target: str) -> int | None:
    """Return the Seq after which the ledger does not know what the target was sent; ``None``: it knows everything."""
    row = con.execute("SELECT UncertainAfterSeq FROM Targets WHERE Target = ?", (target,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def uncertain_fence(con: Connection) -> int:
    """
    Return the fence of accounting.db after which the ledger does not know what a target in doubt was sent; 0: no fence
    is known.
    """
    return int(noted(con, _DOUBT_FENCE) or 0)


def fences_passed(con: Connection) -> int:
    """How many fences accounting.db has passed: the number of its last run."""
    (passed,) = con.execute("SELECT Passed FROM Fence").fetchone()
    return int(passed)


def saved_names(con: Connection, target: str) -> list[dict[str, object]]:
    """Return the names and the filter with which a target was published to, by accounting.db; the latest come last."""
    return list(json.loads(noted(con, f"{_NAMES}{target}") or "[]"))


def save_names(con: Connection, here: Places, target: str, names: Sequence[Mapping[str, object]]) -> None:
    """Store the present and former names of a target, in case the ledger is lost."""
    if here.rehearsal is None and names != saved_names(con, target):
        with writing(con, here):
            note(con, f"{_NAMES}{target}", json.dumps(names, sort_keys=True))


def last_row(con: Connection, target: str) -> int:
    """
    Return the highest number that a receiver (SGAS) gave to a record, by accounting.db; 0: none.

    A number up to there that a lost ledger does not know belongs to an older record of the receiver. The highest number
    is unknown if the last run before the loss did not finish.
    """
    row, run = (noted(con, f"{_LAST_ROW}{target}") or "0 0").split()
    lost = noted(con, _LOST_RUNS)
    return int(row) if lost is None or int(run) >= int(lost) else _ANY_ROW


def note_last_row(con: Connection, here: Places, target: str, row: int) -> None:
    """Note at the end of a run the highest number that the receiver gave to a record, in this ledger or a lost one."""
    if here.rehearsal is None:
        run, known = noted(con, "LEDGER_RUNS"), (noted(con, f"{_LAST_ROW}{target}") or "0").split()[0]
        row = max(row, int(known))
        with writing(con, here):
            note(con, f"{_LAST_ROW}{target}", f"{row} {run}")


def clear_uncertain(con: Connection, target: str) -> None:
    """Note that everything in doubt for a target was sent again or cancelled."""
    with transaction(con):
        con.execute("UPDATE Targets SET UncertainAfterSeq = NULL WHERE Target = ?", (target,))
        con.execute(
            "DELETE FROM DBConfig WHERE KeyName = ? AND NOT EXISTS (SELECT 1 FROM Targets WHERE UncertainAfterSeq"
            " IS NOT NULL)",
            (_DOUBT_FENCE,),
        )
