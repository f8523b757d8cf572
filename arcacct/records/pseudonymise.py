"""Replace names of users by pseudonyms: in jobs that ended long ago (`names_kept_months`), or for one user."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeGuard

from arcacct.config.paths import Places
from arcacct.database import access
from arcacct.database.connection import ACCOUNTING_SCHEMA, Connection, open_database
from arcacct.database.durable import transaction
from arcacct.database.location import PSEUDONYMS
from arcacct.database.schema import note, noted
from arcacct.records import retention, usage
from arcacct.records.pseudonyms import GLOB, KEPT_ATTRIBUTES, PSEUDONYM, Names, fqan_without_names, site_names
from arcacct.records.recorder import name_id
from arcacct.records.retention import Alone, PruneOptions
from arcacct.records.texts import escaped, unescaped
from arcacct.times import month_bounds

_SLICE = 100
_OF_USER_AND_JOB = (("UserName", "JobName"), (), "GroupName")
_RUNS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str | None]] = {
    "GridEngineRecords": (("Owner", "DeletedBy", "JobName"), ("SubmitCmdLine", "Cwd"), "GroupName"),
    "SlurmRuns": _OF_USER_AND_JOB,
    "HTCondorJobs": (("UserName", "JobName", "UserDN", "TokenSubject"), ("TokenID",), "Account"),
    "BatchRuns": _OF_USER_AND_JOB,
}
"""By table: columns that get a pseudonym, emptied columns, and the group, which may have the account's name."""
_SONAR = (("UserName", "JobName"), (), None)
_SAMPLED = (("UserName",), (), None)
_CHILDREN = ("AuthTokenAttributes", "JobExtraInfo", "DataTransfers", *_RUNS)
_SUMS = ("Summaries", "NormalisedSummaries")
_PLACE_OF_USER = 4
"""Index of the user in the keys of sums, which are JSON lists (`targets.apel.summaries.SummaryKey`)."""
_USER_OF_RECORD = 3
"""Index of the user in the names of job records (`targets.apel.target.APELRecords`); other targets store none."""


class Scope(NamedTuple):
    """The users and jobs whose names are replaced."""

    ended_before: int
    """UTC seconds, the first of a month: jobs that ended later keep their names."""
    user_dn: str | None = None
    """``None``: all users."""
    targets: tuple[str, ...] = ()
    """The blocks of the configured targets: records that one of them has not received yet keep their names."""
    present: Collection[str] = ()
    """Jobs that the control directory still has."""
    user_key: str = ""
    """The user in the keys of sums, in the form in which APEL stores a name; upper and lower case are equal."""


class Plan(NamedTuple):
    """The changes that `pseudonymise` would make."""

    jobs: int
    rows: tuple[tuple[str, int], ...]
    """``(table, rows)`` for each table with names of these jobs."""
    left: tuple[tuple[str, int], ...]
    """``(reason, jobs)``: jobs that make their whole month keep its names."""


def plan(con: Connection, publishing: Connection, scope: Scope) -> Plan:
    """Return what `pseudonymise` would do now, without changing anything."""
    free, left = [], Counter[str]()
    for month in _months(con, scope):
        reasons = _reasons(con, publishing, month, scope)
        left.update(reasons)
        free += [] if reasons else [month]
    unfinished = f"SELECT count(*) FROM AAR JOIN Users ON Users.ID = UserID WHERE EndTime <= 0 AND {_IS_ASKED}"
    left["in progress"] = _count(con, unfinished, _asked(scope)) if scope.user_dn is not None else 0
    chosen = " OR ".join(f"EndTime >= {begin} AND EndTime < {end}" for begin, end in map(_bounds, free)) or "0"
    records = f"SELECT RecordID FROM AAR WHERE ({chosen}) AND {_TO_DO}"
    rows = Counter[str]()
    for table in ("AAR", *_CHILDREN):
        rows[table] = _count(con, f"SELECT count(*) FROM {table} WHERE RecordID IN ({records})", _asked(scope))
    named = f"MonthlyUsage JOIN Users ON Users.ID = UserID WHERE Month IN ({_listed(free)}) AND {_IS_ASKED}"
    rows["MonthlyUsage"] = _count(con, f"SELECT count(*) FROM {named}", _asked(scope))
    rows["SentSummaries"] = len(_sum_keys(publishing, scope, free))
    rows["SentNames"] = len(_sent_names(publishing, scope, free))
    rows["Messages"] = len(list(_messages_to_forget(publishing, scope)))
    return Plan(rows["AAR"], tuple((+rows).items()), tuple(sorted((+left).items())))


def is_known(here: Places, con: Connection, publishing: Connection, user_dn: str) -> bool:
    """Whether any data of a user exists, under the DN or, from an earlier call, under its pseudonym."""
    stored = [escaped(user_dn)]
    if os.path.exists(os.path.join(here.directory, PSEUDONYMS)):
        stored.append(site_names(here).of(user_dn))
    # Users of pruned jobs are in sums.
    rows = con.execute(
        "SELECT Name FROM Users WHERE instr(Name, ?) OR Name IN (SELECT value FROM json_each(?))",
        (stored[0], json.dumps(stored)),
    )
    users = {name for (name,) in rows}
    if users:
        # If the text is only a part of another user's DN, it occurs in texts, too, but is not a user.
        return not users.isdisjoint(stored)
    forms = _spellings(user_dn)
    texts = [(con, "ImportQuarantine", column) for column in ("Content", "Reason")]
    texts += [(publishing, *one) for one in (("SentSummaries", "Key"), *_QUOTES)]
    return any(_has_text(*one, forms) for one in texts) or any(_messages_to_forget(publishing, Scope(0, user_dn)))


def _has_text(con: Connection, table: str, column: str, forms: Sequence[str]) -> bool:
    kind = "BLOB" if column == "Content" else "TEXT"
    where = " OR ".join([f"instr({column}, CAST(? AS {kind}))"] * len(forms))
    return con.execute(f"SELECT 1 FROM {table} WHERE {where} LIMIT 1", forms).fetchone() is not None


def pseudonymise(
    here: Places,
    con: Connection,
    publishing: Connection,
    scope: Scope,
    *,
    alone: Alone,
    progress: Callable[[int], None] = lambda _jobs: None,
    stopping: Callable[[], bool] = lambda: False,
) -> int:
    """
    Replace the names of a scope; returns the number of changed jobs.

    Other processes can write between two slices. When ``stopping`` returns True, it ends before the next slice, and the
    next call continues. ``alone`` keeps publishers out. Raises StoreError and its subclasses.
    """
    names = site_names(here)
    for one in (con, publishing):
        one.execute("PRAGMA secure_delete = ON")
    usage.update_monthly(con, here)
    usage.update_breakdown(con, here, everything=True)
    done = 0
    for month in _months(con, scope):
        with alone():
            if _reasons(con, publishing, month, scope):
                continue
            with access.writing(con, here):
                con.execute("INSERT OR IGNORE INTO PseudonymisedMonths VALUES (?)", (month,))
        while some := _next(con, month, scope):
            if stopping():
                return done
            with alone(), access.writing(con, here):
                _forget_records(con, names, some)
                usage.recount(con, [record_id for record_id, _user in some])
            done += len(some)
            progress(done)
        usage.update_breakdown(con, here, everything=True)
        with alone(), access.writing(con, here):
            _rename_sums(con, names, month, scope)
    with alone():
        with access.writing(con, here):
            _forget_others(con, names, scope)
            _drop_unused_names(con)
        # This includes the months of an earlier call that was stopped.
        closed = [month for (month,) in con.execute("SELECT Month FROM PseudonymisedMonths")]
        _forget_sent(publishing, names, scope, [one for one in closed if _bounds(one)[1] <= scope.ended_before])
        for (path,) in con.execute("SELECT Path FROM Archives").fetchall():
            if os.path.exists(path):
                _forget_in_archive(path, names, scope, closed)
    return done


_TO_DO = (
    "EndTime > 0 AND NOT EXISTS (SELECT 1 FROM PseudonymisedRecords WHERE PseudonymisedRecords.RecordID = AAR.RecordID)"
    " AND (:user IS NULL OR UserID = (SELECT ID FROM Users WHERE Name = :user))"
)
_IS_ASKED = f"Users.Name <> '' AND Users.Name NOT GLOB '{GLOB}' AND (:user IS NULL OR Users.Name = :user)"


def _asked(scope: Scope) -> dict[str, object]:
    """Return the parameter of the SQL conditions: the user as stored."""
    return {"user": None if scope.user_dn is None else escaped(scope.user_dn)}


def _count(con: Connection, query: str, asked: dict[str, object]) -> int:
    return int(con.execute(query, asked).fetchone()[0])


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _bounds(month: int) -> tuple[int, int]:
    """Return the first second of a month such as 202611, and that of the next month, UTC seconds."""
    return month_bounds(*divmod(month, 100))


def _months(con: Connection, scope: Scope) -> list[int]:
    """Return the months with names of a scope, for stored and pruned jobs."""
    rows = con.execute(
        "SELECT DISTINCT CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER) FROM AAR"
        f" WHERE EndTime < :before AND {_TO_DO} UNION SELECT DISTINCT Month FROM MonthlyUsage"
        f" JOIN Users ON Users.ID = UserID WHERE Jobs > 0 AND {_IS_ASKED}"
        " AND Month < CAST(strftime('%Y%m', :before, 'unixepoch') AS INTEGER) ORDER BY 1",
        {**_asked(scope), "before": scope.ended_before},
    )
    return [month for (month,) in rows]


def _reasons(con: Connection, publishing: Connection, month: int, scope: Scope) -> Counter[str]:
    """
    Return why a month must keep its names, with the number of jobs for each reason.

    The jobs of all users count, since the month's sums are closed as a whole.
    """
    begin, end = _bounds(month)
    options = PruneOptions(end, "", scope.targets, (), scope.present)
    found = Counter(
        reason
        for page in retention.candidates(con, end, begin)
        for _one, reason in retention.judged(con, publishing, page, options)
        if reason is not None
    )
    return found | Counter(retention.not_taken_back(con, publishing, (begin, end), options))


def _next(con: Connection, month: int, scope: Scope) -> list[tuple[int, str]]:
    """Return the next records of a month, each with its user as stored."""
    begin, end = _bounds(month)
    return con.execute(
        f"SELECT RecordID, Users.Name FROM AAR JOIN Users ON Users.ID = +UserID"
        f" WHERE EndTime >= :begin AND EndTime < :end AND {_TO_DO} LIMIT {_SLICE}",
        {**_asked(scope), "begin": begin, "end": end},
    ).fetchall()


def _forget_records(con: Connection, names: Names, records: Sequence[tuple[int, str]]) -> None:
    """Replace the names in records and all their rows, inside the caller's transaction; keeps their log positions."""
    ids = _listed(record_id for record_id, _user in records)
    places = con.execute(f"SELECT Seq, RecordID FROM FinishedLog WHERE RecordID IN ({ids})").fetchall()
    con.execute(f"DELETE FROM FinishedLog WHERE RecordID IN ({ids})")
    for record_id, user in records:
        _forget_one(con, names, record_id, user)
    con.execute(f"INSERT OR IGNORE INTO PseudonymisedRecords SELECT RecordID FROM AAR WHERE RecordID IN ({ids})")
    # The triggers have logged these changes, but they must not reach a receiver.
    con.execute(f"DELETE FROM FinishedLog WHERE RecordID IN ({ids})")
    con.executemany("INSERT INTO FinishedLog (Seq, RecordID) VALUES (?, ?)", places)


def _forget_one(con: Connection, names: Names, record_id: int, stored_user: str) -> None:
    user = unescaped(stored_user)
    extra = con.execute(
        "SELECT rowid, InfoKey, InfoValue FROM JobExtraInfo WHERE RecordID = ?", (record_id,)
    ).fetchall()
    accounts = {str(value).partition(":")[0] for _row, key, value in extra if key == "localuser" and value}
    swap = _Swap(names, {user, stored_user}, accounts)
    for row, key, value in extra:
        _set(con, "JobExtraInfo", "InfoValue", row, value, _of_extra(names, swap, key, value))
    for row, key, value in con.execute(
        "SELECT rowid, AttrKey, AttrValue FROM AuthTokenAttributes WHERE RecordID = ?", (record_id,)
    ).fetchall():
        kept = key in KEPT_ATTRIBUTES
        new = fqan_without_names(names.of, value) if kept else names.of(str(value or ""))
        _set(con, "AuthTokenAttributes", "AttrValue", row, value, swap(new) if kept else new)
    for row, url in con.execute("SELECT rowid, URL FROM DataTransfers WHERE RecordID = ?", (record_id,)).fetchall():
        _set(con, "DataTransfers", "URL", row, url, swap(url))
    if user:
        con.execute("UPDATE AAR SET UserID = ? WHERE RecordID = ?", (name_id(con, "Users", names.of(user)), record_id))
    for table, columns in _RUNS.items():
        _forget_accounts(con, names, table, columns, "RecordID = ?", (record_id,))
    own = con.execute("SELECT ClusterID, JobID, Task FROM JobTelemetry WHERE RecordID = ?", (record_id,)).fetchone()
    if own is not None:
        # Batch systems reuse numbers: rows of earlier and later jobs do not change.
        life = con.execute(
            "SELECT SubmitTime - ?1, EndTime + ?1 FROM AAR WHERE RecordID = ?2", (_CLOCKS_S, record_id)
        ).fetchone()
        reported = "ClusterID = ? AND JobID = ? AND EndTime BETWEEN ? AND ?"
        _forget_accounts(con, names, "SlurmJobs", _SONAR, reported, (*own[:2], *life))
        sampled = (
            "SampledJobID IN (SELECT ID FROM SampledJobs WHERE ClusterID = ? AND JobID = ? AND Task = ? AND Epoch = 0)"
            " AND Hour BETWEEN ? AND ?"
        )
        _forget_accounts(con, names, "JobUsage", _SAMPLED, sampled, (*own, *life))
        # Rows that wait for late samples have account and commands, too. The job is over, so no samples will come.
        for table in ("JobCommandUsage", "JobSamples"):
            con.execute(f"DELETE FROM {table} WHERE {sampled}", (*own, *life))


_CLOCKS_S = 86400
"""Seconds; a batch system reuses a number only after a longer time."""


def _forget_accounts(
    con: Connection,
    names: Names,
    table: str,
    columns: tuple[tuple[str, ...], tuple[str, ...], str | None],
    where: str,
    values: tuple[object, ...],
) -> None:
    named, emptied, group = columns
    # The group first, while the account has its name.
    conditions = ({} if group is None else {group: f"{group} = {named[0]}"}) | {one: f"{one} <> ''" for one in named}
    for column, condition in conditions.items():
        found = f"SELECT DISTINCT {column} FROM {table} WHERE {where} AND {condition}"
        for (name,) in con.execute(found, values).fetchall():
            change = f"UPDATE {table} SET {column} = ? WHERE {where} AND {column} = ?"
            con.execute(change, (names.of(str(name)), *values, name))
    for column in emptied:
        con.execute(f"UPDATE {table} SET {column} = NULL WHERE {where} AND {column} IS NOT NULL", values)


class _Swap:
    """Replaces names within texts: a DN anywhere, an account only as a separate word."""

    def __init__(self, names: Names, users: Iterable[str], accounts: Iterable[str]) -> None:
        self._names = names
        self._users = sorted((one for one in users if len(one) > 3), key=len, reverse=True)
        words = "|".join(re.escape(one) for one in accounts if len(one) > 2 and not PSEUDONYM.fullmatch(one))
        self._accounts = re.compile(rf"(?<![\w.-])(?:{words})(?![\w.-])") if words else None

    def __call__(self, text: object) -> object:
        if not isinstance(text, str):
            return text
        for user in self._users:
            text = text.replace(user, self._names.of(unescaped(user)))
        return text if self._accounts is None else self._accounts.sub(lambda found: self._names.of(found[0]), text)


def _of_extra(names: Names, swap: _Swap, key: str, value: object) -> object:
    if key == "localuser":
        user, colon, group = str(value or "").partition(":")
        return f"{names.of(user)}{colon}{names.of(group) if group == user else group}"
    return names.of(str(value)) if key in ("clienthost", "jobname") and value else swap(value)


def _set(con: Connection, table: str, column: str, row: int, old: object, new: object) -> None:
    if new != old:
        con.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))


def _rename_sums(con: Connection, names: Names, month: int, scope: Scope) -> None:
    """Replace the remaining names in the sums of a month: those of pruned jobs, which have no records."""
    for table, period in (("MonthlyUsage", "Month"), ("UsageBreakdown", "Kind = 1 AND Period")):
        number = _NUMBERS_OF_SUMS[table]
        keys = (key for key in usage.KEYS[table] if key not in ("UserID", "FQAN"))
        same = " AND ".join(f"There.{key} = Here.{key}" for key in keys)
        rows = con.execute(
            f"SELECT {number}, Users.Name, FQAN FROM {table} JOIN Users ON Users.ID = UserID"
            f" WHERE {period} = :month AND Jobs > 0 AND {_IS_ASKED}",
            {**_asked(scope), "month": month},
        ).fetchall()
        for cell, user, fqan in rows:
            new = (name_id(con, "Users", names.of(unescaped(user))), fqan_without_names(names.of, fqan))
            there = con.execute(
                f"SELECT There.{number} FROM {table} AS Here JOIN {table} AS There ON {same}"
                f" WHERE Here.{number} = ? AND There.UserID = ? AND There.FQAN = ?",
                (cell, *new),
            ).fetchone()
            if there is None:
                con.execute(f"UPDATE {table} SET UserID = ?, FQAN = ? WHERE {number} = ?", (*new, cell))
            else:
                _merge(con, table, number, cell, there[0])
        con.execute(
            f"DELETE FROM {table} WHERE {period} = :month AND Jobs = 0 AND EXISTS"
            f" (SELECT 1 FROM Users WHERE Users.ID = UserID AND {_IS_ASKED})",
            {**_asked(scope), "month": month},
        )


_NUMBERS_OF_SUMS = {"MonthlyUsage": "CellID", "UsageBreakdown": "FinerID"}
"""The ID column of a sum."""


def _merge(con: Connection, table: str, number: str, cell: int, there: int) -> None:
    """Add a sum to the one that now has the same key, and delete the first."""
    added = ", ".join(
        f"{one} = {one} + (SELECT {one} FROM {table} WHERE {number} = :old)" for one in usage.AMOUNTS[table]
    )
    both = {"old": cell, "new": there}
    con.execute(f"UPDATE {table} SET {added} WHERE {number} = :new", both)
    if table == "MonthlyUsage":
        con.execute(
            "UPDATE MonthlyUsage SET Earliest = min(Earliest, (SELECT Earliest FROM MonthlyUsage WHERE CellID = :old)),"
            " Latest = max(Latest, (SELECT Latest FROM MonthlyUsage WHERE CellID = :old)) WHERE CellID = :new",
            both,
        )
    column = "CellID" if table == "MonthlyUsage" else "MonthID"
    con.execute(f"UPDATE JobUsageShares SET {column} = :new WHERE {column} = :old", both)
    con.execute(f"DELETE FROM {table} WHERE {number} = :old", both)


def _forget_others(con: Connection, names: Names, scope: Scope) -> None:
    """Replace or delete names outside of records. For all users by age; for one user, rejected records with the DN."""
    if scope.user_dn is None:
        before = scope.ended_before
        for table, columns in _RUNS.items():
            ended = f"EndTimeUs < 1000000 * {before}" if table == "GridEngineRecords" else f"EndTime < {before}"
            _forget_accounts(con, names, table, columns, f"RecordID IS NULL AND {ended}", ())
        _forget_accounts(con, names, "SlurmJobs", _SONAR, "EndTime < ?", (before,))
        _forget_accounts(con, names, "JobUsage", _SAMPLED, "Hour < ?", (before,))
        con.execute("DELETE FROM JobCommandUsage WHERE Hour < ?", (before,))
        con.execute("DELETE FROM ImportQuarantine WHERE Rejected < ?", (before,))
        return
    for form in _spellings(scope.user_dn):
        con.execute(
            "DELETE FROM ImportQuarantine WHERE instr(Content, CAST(? AS BLOB)) OR instr(Reason, ?)", (form, form)
        )


def _drop_unused_names(con: Connection) -> None:
    used = " UNION ".join(f"SELECT UserID FROM {table}" for table in ("AAR", "MonthlyUsage", "UsageBreakdown"))
    con.execute(f"DELETE FROM Users WHERE ID NOT IN ({used})")


def _spellings(user_dn: str) -> list[str]:
    """Return the forms of a DN in messages and rejected records: plain, escaped by A-REX, in XML, JSON and ASCII."""
    forms = (
        user_dn,
        escaped(user_dn),
        user_dn.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
        json.dumps(user_dn)[1:-1],
        json.dumps(user_dn, ensure_ascii=False)[1:-1],
    )
    return list(dict.fromkeys(forms))


def _forget_sent(publishing: Connection, names: Names, scope: Scope, months: Sequence[int]) -> None:
    """Remove names from the ledger: bytes of messages, keys of sums, and answers of receivers that quote a name."""
    with transaction(publishing):
        for target, old, new in _sum_keys(publishing, scope, months, names):
            publishing.execute(
                "UPDATE OR REPLACE SentSummaries SET Key = ? WHERE Target = ? AND Key = ?", (new, target, old)
            )
        for names_id, values in _sent_names(publishing, scope, months):
            values[_USER_OF_RECORD] = names.of(values[_USER_OF_RECORD])
            _rename_totals(publishing, months, names_id, json.dumps(values, ensure_ascii=False, separators=(",", ":")))
        publishing.execute("DELETE FROM SentNames WHERE NamesID NOT IN (SELECT NamesID FROM PublishedTotals)")
        gone = _messages_to_forget(publishing, scope)
        publishing.executemany("DELETE FROM MessageBytes WHERE MessageID = ?", [(one,) for one in gone])
        if scope.user_dn is None:
            publishing.execute(
                "UPDATE Messages SET Answer = NULL WHERE Created < ? AND State <> 'accepted'", (scope.ended_before,)
            )
            return
        for form in _spellings(scope.user_dn):
            for table, column in _QUOTES:
                publishing.execute(
                    f"UPDATE {table} SET {column} = replace({column}, ?1, ?2) WHERE instr({column}, ?1)",
                    (form, names.of(scope.user_dn)),
                )


_QUOTES = (
    ("Messages", "Answer"), ("HeldRecords", "Reason"), ("Targets", "LastError"), ("TargetMonths", "Refusals"),
    ("SentRecords", "Notes"),
)  # fmt: skip


def _sum_keys(
    publishing: Connection, scope: Scope, months: Sequence[int], names: Names | None = None
) -> list[tuple[str, str, str]]:
    """Return target, key and new key of the sums with names; without ``names`` the new key is the old one."""
    found = []
    for target, key in publishing.execute(
        f"SELECT Target, Key FROM SentSummaries WHERE Kind <> 'sync' AND Year * 100 + Month IN ({_listed(months)})"
    ):
        values = json.loads(key)
        user = values[_PLACE_OF_USER] if values[0] in _SUMS else None
        if _is_wanted(user, scope):
            values[_PLACE_OF_USER] = user if names is None else names.of(user)
            found.append((target, key, json.dumps(values)))
    return found


def _is_wanted(user: str | None, scope: Scope) -> TypeGuard[str]:
    """Whether a name in the ledger is of a scope, and no pseudonym."""
    if not user or PSEUDONYM.fullmatch(user):
        return False
    # An older program cut long names without a digest.
    return scope.user_dn is None or user.casefold() in {
        scope.user_dn.casefold().rstrip()[:_LONGEST_USER],
        scope.user_key.casefold(),
    }


def _sent_names(publishing: Connection, scope: Scope, months: Sequence[int]) -> list[tuple[int, list[Any]]]:
    """Return the names under which job records of some months were sent, with their numbers, if a user is wanted."""
    rows = publishing.execute(
        "SELECT DISTINCT NamesID, Names FROM SentNames JOIN PublishedTotals USING (NamesID)"
        f" WHERE Year * 100 + Month IN ({_listed(months)})"
    )
    found = ((names_id, json.loads(names)) for names_id, names in rows)
    return [
        (names_id, names)
        for names_id, names in found
        if len(names) > _USER_OF_RECORD and _is_wanted(names[_USER_OF_RECORD], scope)
    ]


def _rename_totals(publishing: Connection, months: Sequence[int], names_id: int, text: str) -> None:
    """Give the totals of some months other names, inside the caller's transaction."""
    publishing.execute(
        "INSERT OR IGNORE INTO SentNames (Names, Site, SubmitHost) SELECT ?, Site, SubmitHost FROM SentNames"
        " WHERE NamesID = ?",
        (text, names_id),
    )
    (new,) = publishing.execute("SELECT NamesID FROM SentNames WHERE Names = ?", (text,)).fetchone()
    moved = publishing.execute(
        "SELECT Old.PublishedTotalID, New.PublishedTotalID FROM PublishedTotals AS Old LEFT JOIN PublishedTotals AS New"
        " ON (New.Target, New.Year, New.Month, New.NamesID) = (Old.Target, Old.Year, Old.Month, ?)"
        f" WHERE Old.NamesID = ? AND Old.Year * 100 + Old.Month IN ({_listed(months)})",
        (new, names_id),
    ).fetchall()
    for old_id, there in moved:
        if there is None:
            publishing.execute("UPDATE PublishedTotals SET NamesID = ? WHERE PublishedTotalID = ?", (new, old_id))
            continue
        # A late job of the user was sent after the month's other names had been replaced.
        for column in ("PublishedTotalID", "ReplacedID"):
            publishing.execute(f"UPDATE SentRecords SET {column} = ? WHERE {column} = ?", (there, old_id))
        publishing.execute(
            "UPDATE PublishedTotals SET (Jobs, Wall, IsSent) = (SELECT PublishedTotals.Jobs + Old.Jobs,"
            " PublishedTotals.Wall + Old.Wall, max(PublishedTotals.IsSent, Old.IsSent) FROM PublishedTotals AS Old"
            " WHERE Old.PublishedTotalID = ?) WHERE PublishedTotalID = ?",
            (old_id, there),
        )
        publishing.execute("DELETE FROM PublishedTotals WHERE PublishedTotalID = ?", (old_id,))


_LONGEST_USER = 255
"""The most characters of a name that APEL stores."""


def _messages_to_forget(publishing: Connection, scope: Scope) -> Iterator[int]:
    """Yield the answered messages with stored bytes that are old, or that contain the user."""
    forms = [] if scope.user_dn is None else [form.encode() for form in _spellings(scope.user_dn)]
    for message_id, created, is_packed, data in publishing.execute(
        "SELECT Messages.MessageID, Created, IsPacked, Bytes FROM Messages JOIN MessageBytes USING (MessageID)"
        " WHERE State <> 'sending'"
    ).fetchall():
        if scope.user_dn is None:
            if created < scope.ended_before:
                yield message_id
            continue
        plain = data
        with suppress(zlib.error):
            plain = zlib.decompress(data) if is_packed else data
        if any(form in plain for form in forms):
            yield message_id


def _forget_in_archive(path: str, names: Names, scope: Scope, months: Sequence[int]) -> None:
    """Replace the names in an archive of pruned jobs."""
    with closing(open_database(path, ACCOUNTING_SCHEMA)) as con, access.translating(path):
        con.execute("PRAGMA secure_delete = ON")
        for month in months:
            while some := _next(con, month, scope):
                with transaction(con):
                    _forget_records(con, names, some)
        with transaction(con):
            _drop_unused_names(con)
        overwrite(con)


def overwrite(con: Connection) -> None:
    """Rewrite the ledger or an archive, so that its free pages contain no deleted data."""
    con.execute("VACUUM")
    con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


_FORGOT = "ARCACCT_FORGOT_AT"
"""Key in DBConfig: the time of the last search for names of old jobs, UTC seconds."""


def is_due(con: Connection, now: int) -> bool:
    """Whether the daily search for names of old jobs is due; ``now``: UTC seconds."""
    return now - int(noted(con, _FORGOT) or 0) >= 86400


def note_done(con: Connection, here: Places, now: int) -> None:
    """Store the time of a complete search, UTC seconds."""
    with access.writing(con, here):
        note(con, _FORGOT, now)
