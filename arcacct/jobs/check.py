"""Is the database whole? Its pages, its references, its schema, its log of finished records and its cells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from arcacct.conf.places import Places
from arcacct.db import opening
from arcacct.db.connect import open_for_reading
from arcacct.db.engine import Connection
from arcacct.db.integrity import pages, references, schema
from arcacct.db.schema import ACCOUNTING, PUBLISHING
from arcacct.jobs import cells
from arcacct.jobs.statuses import SQL_FINAL

_SHOWN = 10
CHILDREN = ("AuthTokenAttributes", "JobEvents", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo")


class Checked(NamedTuple):
    """One question and its answer."""

    database: str
    question: str
    problems: tuple[str, ...]
    """Empty when all is well."""


def check(here: Places) -> Iterator[Checked]:
    """
    Ask everything, one question after the other; nothing is changed, and others go on writing.

    Raises StoreError when a database cannot be opened or read at all.
    """
    opening.require(here)
    for path, kind in ((here.database, ACCOUNTING), (here.publishing_database, PUBLISHING)):
        if kind is PUBLISHING and not os.path.exists(path):
            continue
        with closing(open_for_reading(path, kind.schema)) as con, opening.translating(path):
            yield Checked(path, "pages and indexes (integrity_check)", _few(pages(con)))
            yield Checked(path, "references between tables", _few(references(con)))
            yield Checked(path, "schema, compared with a new database", _few(schema(con, kind)))
            if kind is ACCOUNTING:
                yield Checked(path, "rows without a record", _few(_orphans(con)))
                yield Checked(path, "log of finished records", _few(_log(con)))
                yield Checked(path, "usage cells, compared with a recount", _few(cells.differences(con)))


def _few(problems: list[str]) -> tuple[str, ...]:
    if len(problems) <= _SHOWN:
        return tuple(problems)
    return (*problems[:_SHOWN], f"... and {len(problems) - _SHOWN} more")


def _orphans(con: Connection) -> list[str]:
    problems = []
    for table in (*CHILDREN, "RecordNotes", "AuthGroups"):
        count = con.execute(
            f"SELECT count(*) FROM {table} LEFT JOIN AAR ON AAR.RecordID = {table}.RecordID WHERE AAR.RecordID IS NULL"
        ).fetchone()[0]
        if count:
            problems.append(f"{table}: {count} rows belong to no record")
    return problems


def _log(con: Connection) -> list[str]:
    """Every final record is in the log, and numbers that were given out are below the one to come."""
    problems = [
        f"record {record_id} ({job_id}) is {status} and not in FinishedLog: nobody publishes it"
        for record_id, job_id, status in con.execute(
            "SELECT AAR.RecordID, JobID, Name FROM AAR JOIN Status ON Status.ID = StatusID"
            " LEFT JOIN FinishedLog ON FinishedLog.RecordID = AAR.RecordID"
            f" WHERE Name IN {SQL_FINAL} AND Seq IS NULL"
        )
    ]
    highest, given_out, horizon = con.execute(
        "SELECT ifnull(max(Seq), 0), ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'), 0),"
        " (SELECT Horizon FROM Fence) FROM FinishedLog"
    ).fetchone()
    if highest > given_out:
        problems.append(f"FinishedLog has Seq {highest}, but the next one would be {given_out + 1}")
    if horizon > given_out:
        problems.append(f"published up to Seq {horizon}, but the next one would be {given_out + 1}: an older copy?")
    return problems
