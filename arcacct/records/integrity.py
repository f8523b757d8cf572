"""Check the accounting database: pages, references, schema, change feed and monthly usage."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.database import access, durable
from arcacct.database import incarnation as database_incarnation
from arcacct.database.connection import CHECK_SHOWS, Connection, DatabaseError, is_damage, open_for_reading
from arcacct.database.integrity import pages, references, schema, tables, use_of_pages
from arcacct.database.schema import ACCOUNTING, PUBLISHING, DatabaseKind, incarnation
from arcacct.errors import StoreError
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import private
from arcacct.records import usage
from arcacct.records.recorder import CHILDREN
from arcacct.records.states import SQL_FINAL
from arcacct.wording import count_of

_SHOWN = 10
_SLICE_RECORDS = 100_000
_LARGEST_CHARACTERS = 2**24
_KEPT_S = 3600
"""How many seconds the answers of a stopped check are reused; they do not show later damage."""


class Checked(NamedTuple):
    """One question and its answer."""

    database: str
    question: str
    problems: tuple[str, ...]
    """Empty: no problems."""
    parts: int
    earlier: int
    """Parts that an earlier, stopped check has answered; they are not asked again."""
    begun_s: int
    """Start of that earlier check, or without such parts of this one, UTC seconds."""


Ask = Callable[[], list[str]]
"""Answers one part of a question in its own read transaction; returns the problems."""


Audits = Callable[[Connection, Connection], Mapping[str, Mapping[str, Ask]]]
"""Returns further questions for the accounting and the publishing database, by text; each has parts by name."""


class _Question(NamedTuple):
    """A question to a database, with parts by name."""

    database: str
    text: str
    parts: Mapping[str, Ask]


def check(
    here: Places,
    *,
    anew: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    stopping: Callable[[], bool] = lambda: False,
    audits: Audits = lambda _accounting, _publishing: {},
) -> Iterator[Checked]:
    """
    Ask all questions, one after the other, and yield the answers. Changes no database; other processes can write.

    ``progress`` is called after each part with the number of finished and of all parts. When ``stopping`` returns True,
    the check ends before the next part. The next check of the same databases within an hour continues there, unless it
    is ``anew``. ``audits``: further questions to the ledger, if it exists. Raises StoreError when a database cannot be
    opened or read at all.
    """
    access.require(here)
    with ExitStack() as stack:
        questions: list[_Question] = []
        files: list[list[object]] = []
        opened: list[Connection] = []
        last_seq = 0
        for path, kind in ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING)):
            if kind is ACCOUNTING or os.path.exists(path):
                try:
                    with access.translating(path):
                        con = stack.enter_context(closing(open_for_reading(path, kind.schema)))
                        opened.append(con)
                        questions += _questions(path, con, kind)
                        files.append(_file(path, con, kind))
                        if kind is ACCOUNTING:
                            # Queries find what cannot be read.
                            with suppress(DatabaseError):
                                last_seq = database_incarnation.highest_seq(con)
                        else:
                            questions += [
                                _Question(path, text, parts) for text, parts in audits(opened[0], con).items()
                            ]
                except StoreError as error:
                    if CHECK_SHOWS not in str(error):
                        raise
                    # Nothing in it can be queried.
                    advice = "restore a backup with `arcacct db restore FILE`"
                    raise StoreError(str(error).replace(CHECK_SHOWS, advice)) from error
        memory = _Memory(here, files, last_seq, anew=anew)
        damaged: set[str] = set()
        done, parts = 0, sum(len(question.parts) for question in questions)
        for question in questions:
            problems: list[str] = []
            earlier = 0
            for name, ask in question.parts.items():
                if stopping():
                    memory.keep()
                    if damaged or problems:
                        durable.log_done(here.directory, durable.CHECK, is_well=False)
                    return
                what = f"{question.database}: {question.text}: {name}"
                earlier += what in memory.earlier
                with access.translating(question.database):
                    problems += memory.answer(what, ask, [] if question.database in damaged else sorted(damaged))
                done += 1
                progress(done, parts)
            damaged |= {question.database} if problems else set()
            shown = _few(list(dict.fromkeys(problems)))
            yield Checked(question.database, question.text, shown, len(question.parts), earlier, memory.begun_s)
        memory.forget()
        durable.log_done(here.directory, durable.CHECK, is_well=not damaged)


def _questions(path: str, con: Connection, kind: DatabaseKind) -> Iterator[_Question]:
    names = tables(con)
    of_pages = {name: partial(pages, con, name) for name in ("sqlite_schema", *names)}
    yield _Question(path, "pages and indexes (integrity_check)", of_pages)
    yield _Question(path, "use of pages: each once", {"": partial(use_of_pages, con)})
    yield _Question(path, "references between tables", {name: partial(references, con, name) for name in names})
    yield _Question(path, "schema, compared with a new database", {"": partial(schema, con, kind)})
    if kind is ACCOUNTING:
        highest = 0
        with suppress(DatabaseError):
            (highest,) = con.execute("SELECT ifnull(max(RecordID), 0) FROM AAR").fetchone()
        # The first and the last slice have no outer bound, so that they include rows below and above all records.
        bounds = ["", *range(_SLICE_RECORDS, highest, _SLICE_RECORDS), ""]
        slices = list(pairwise(bounds))
        orphans = {
            f"{table} from {low}": partial(_orphans, con, table, low, high)
            for table in (*CHILDREN, "TruncationNotes", "AuthGroups")
            for low, high in slices
        }
        yield _Question(path, "rows without a record", orphans)
        log = {f"from {low}": partial(_unlogged, con, low, high) for low, high in slices}
        yield _Question(path, "log of finished records", {**log, "numbers": partial(_log, con)})
        yield _Question(path, "usage cells, compared with a recount", {"": partial(usage.differences, con)})


def _file(path: str, con: Connection, kind: DatabaseKind) -> list[object]:
    """Return values that differ if the file, its incarnation or its schema changes."""
    status = os.stat(path)
    (version,) = con.execute("PRAGMA schema_version").fetchone()
    return [status.st_dev, status.st_ino, version, incarnation(con) if kind is ACCOUNTING else ""]


class _Memory:
    """
    The parts without problems of a stopped check, in a file next to the database.

    New records do not invalidate them. Otherwise a stopped check of a database in use would always start again. Parts
    with problems are asked again, since they may have been repaired.
    """

    def __init__(self, here: Places, files: list[list[object]], last_seq: int, *, anew: bool) -> None:
        self._path = os.path.join(here.directory, "check.json")
        self._files, self._last_seq = files, last_seq
        self._sound: list[str] = []
        self.earlier: frozenset[str] = frozenset()
        self.begun_s = int(time.time())
        # A file with other content is not from this program, and is ignored.
        with suppress(OSError, ValueError, KeyError, TypeError), open(self._path, encoding="utf-8") as file:
            found = parsed(file.read(_LARGEST_CHARACTERS))
            is_same = found["files"] == files and found["last_seq"] <= last_seq
            if is_same and not anew and 0 <= self.begun_s - found["begun_s"] < _KEPT_S:
                self.begun_s, self.earlier = found["begun_s"], frozenset(found["sound"])

    def answer(self, what: str, ask: Ask, others: Sequence[str]) -> list[str]:
        """The problems of one part; ``others``: damaged databases while that of the question has no problem so far."""
        try:
            problems = [] if what in self.earlier else ask()
        except (DatabaseError, UnicodeDecodeError) as error:
            if not is_damage(error):
                raise
            # Known damage is not repeated: the pages were checked first. A check of the ledger reads the accounting
            # database, too.
            why = f", since {' and '.join(others)} is damaged" if others else ""
            problems = [f"not checked{why}: {error}"]
        if not problems:
            self._sound.append(what)
        return problems

    def keep(self) -> None:
        """Write the file; if that is impossible, the next check starts from the first part."""
        found = {"files": self._files, "last_seq": self._last_seq, "begun_s": self.begun_s}
        found["sound"] = sorted({*self.earlier, *self._sound})
        with suppress(OSError), open(self._path, "w", encoding="utf-8", opener=private) as file:
            json.dump(found, file)

    def forget(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)


def _few(problems: list[str]) -> tuple[str, ...]:
    if len(problems) <= _SHOWN:
        return tuple(problems)
    return (*problems[:_SHOWN], f"... and {len(problems) - _SHOWN} more")


def _between(column: str, low: object, high: object) -> str:
    """Return a condition for ``low <= column < high``; an empty value means no bound."""
    bounds = [f"{column} >= {low}" if low else "", f"{column} < {high}" if high else ""]
    return " AND ".join(filter(None, bounds)) or "1"


def _orphans(con: Connection, table: str, low: object, high: object) -> list[str]:
    (count,) = con.execute(
        f"SELECT count(*) FROM {table} LEFT JOIN AAR ON AAR.RecordID = {table}.RecordID WHERE AAR.RecordID IS NULL"
        f" AND {_between(f'{table}.RecordID', low, high)}"
    ).fetchone()
    return [f"{table}: {count_of(count, 'row')} without a record{f' (from {low} on)' if low else ''}"] if count else []


def _unlogged(con: Connection, low: object, high: object) -> list[str]:
    """Find final records that are not in the log."""
    return [
        f"record {record_id} ({job_id}) is {status} and not in FinishedLog, so it is not published"
        for record_id, job_id, status in con.execute(
            "SELECT AAR.RecordID, JobID, Name FROM AAR JOIN Status ON Status.ID = +StatusID"
            " LEFT JOIN FinishedLog ON FinishedLog.RecordID = AAR.RecordID"
            f" WHERE Name IN {SQL_FINAL} AND Seq IS NULL AND {_between('AAR.RecordID', low, high)}"
        )
    ]


def _log(con: Connection) -> list[str]:
    """Find numbers of the log that are not below the next one."""
    problems: list[str] = []
    highest, given_out, horizon = con.execute(
        "SELECT ifnull(max(Seq), 0), ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'), 0),"
        " (SELECT Horizon FROM Fence) FROM FinishedLog"
    ).fetchone()
    if highest > given_out:
        problems.append(f"FinishedLog has Seq {highest}, but the next one would be {given_out + 1}")
    if horizon > given_out:
        problems.append(f"published up to Seq {horizon}, but the next one would be {given_out + 1}: an older copy?")
    return problems
