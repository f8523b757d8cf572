"""
Our own database with values in it that its columns are not for: an operator's SQL, an old program, a bad import.

Of three jobs one gets them, before anything is published or after, or both. What must hold: the other two arrive
everywhere with what they used and are in every sum with it, the third is told to be what it is, and no command ends in
an error of ours.
"""

from __future__ import annotations

import base64
import json
import pathlib
import random
import sqlite3
from functools import lru_cache
from typing import Any

from fuzz.command import arcacct, steers
from fuzz.damage import NUMBERS, TEXTS
from fuzz.site_of_targets import GOOD, WALL_S, begin, database_of, lay_good, publish_to_all

VICTIM = "mmVictim"
BYTES = (b"", b"7", b"\xff\xfe", b"\0" * 300)
CHILDREN = ("AuthTokenAttributes", "JobEvents", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo")
NAMES = {"Users": "UserID", "WLCGVOs": "VOID", "Queues": "QueueID", "Endpoints": "EndpointID"}
MEASURES = ("UsedWalltime", "UsedCPUUserTime", "UsedCPUKernelTime", "CPUCount", "NodeCount", "StageInVolume")
QUEUE = "good"
"""Of the jobs that are whole: a row of its own in sums by queue."""
COMMANDS = (
    ("republish", "--from", "2026-11-20", "--to", "2026-11-21", "--target", "directory:individual", "--yes"),
    ("republish", "--from", "2026-11-20", "--to", "2026-11-21", "--target", "directory:summaries", "--yes"),
    ("job", "info", VICTIM),
    ("job", "info", "-o", "json", VICTIM),
    ("job", "events", VICTIM),
    ("job", "transfers", VICTIM),
    ("job", "--only", "why", VICTIM),
    ("quarantine", "list"),
    ("metrics",),
    ("stats",),
    ("stats", "-o", "json"),
    ("stats", "--by", "month,vo,user,host,project,benchmark", "--details"),
    ("db", "check"),
)
"""What is asked besides of a database like this; each try asks two."""


def made(chance: random.Random) -> dict[str, bytes]:
    changes = [[_change(chance) for _ in range(chance.choice((0, 1, 1, 2)))] for _ in range(2)]
    asked = chance.sample(COMMANDS, 2)
    return {"changes.json": json.dumps(changes).encode(), "asked.json": json.dumps(asked).encode()}


def _change(chance: random.Random) -> list[Any]:
    table, column = _place(chance)
    # As many texts and bytes as numbers: a column of numbers is for none of them.
    value: Any = chance.choice((chance.choice(NUMBERS), chance.choice(TEXTS), chance.choice(BYTES), None))
    if value == 2**53:
        # The largest that counts: with any other it would make a sum that no receiver takes, and that is said.
        value -= 2**50
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(min(value, 10**300))
    if isinstance(value, bytes):
        return [table, column, "blob", base64.b64encode(value).decode()]
    if isinstance(value, str) and chance.random() < 0.3:
        # Text that is no UTF-8, which Python itself would not write.
        return [table, column, "text", base64.b64encode(value.encode("utf-8", "surrogatepass") + b"\xc3").decode()]
    return [table, column, "value", value]


def _place(chance: random.Random) -> tuple[str, str]:
    """A table and a column: rather one that sums, places and refusals are made from."""
    kind = chance.random()
    if kind < 0.15:
        return "AAR", "EndTime"
    if kind < 0.35:
        return "AAR", chance.choice(MEASURES)
    if kind < 0.5:
        return "AAR", chance.choice(sorted(NAMES.values()))
    table = chance.choice(("AAR",) * 4 + CHILDREN + tuple(NAMES))
    return table, chance.choice([name for name in _columns()[table] if name != "RecordID" or chance.random() < 0.1])


@lru_cache
def _columns() -> dict[str, list[str]]:
    schema = pathlib.Path(__file__).parents[2] / "schema" / "accounting"
    con = sqlite3.connect(":memory:")
    con.executescript(min(schema.glob("*.sql")).read_text())
    return {
        table: [row[1] for row in con.execute(f"PRAGMA table_info({table})")] for table in ("AAR", *CHILDREN, *NAMES)
    }


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    lay_good(begin(work), VICTIM)
    conf = ("--config", str(work / "arc.conf"))
    arcacct(*conf, "sweep", allowed=(0,))
    _set_apart(work)
    for changes in json.loads(files["changes.json"]):
        _make(work, changes)
        publish_to_all(work)
    told = arcacct(*conf, "status", allowed=(0, 1, 2, 3))
    assert not steers(told.out + told.err), told
    _check_sums(conf)
    for command in json.loads(files["asked.json"]):
        # 74: the check of a database whose tables do not fit together.
        told = arcacct(*conf, *command, allowed=(0, 1, 2, 3, 64, 65, 69, *((74,) if command[0] == "db" else ())))
        assert not steers(told.err), told
        if command[:2] == ["job", "info"]:
            assert told.code == 0 or b"JobID" in files["changes.json"], told


def _set_apart(work: pathlib.Path) -> None:
    """A queue of their own for the jobs that are whole."""
    con = sqlite3.connect(database_of(work), isolation_level=None)
    con.execute("INSERT INTO Queues (Name) VALUES (?)", (QUEUE,))
    con.execute(f"UPDATE AAR SET QueueID = last_insert_rowid() WHERE JobID IN ('{GOOD[0]}', '{GOOD[1]}')")
    con.close()


def _check_sums(conf: tuple[str, ...]) -> None:
    """The sums of jobs that are whole are what they were."""
    told = arcacct(*conf, "stats", "--by", "queue", "--format", "json", allowed=(0,))
    [found] = [row for row in json.loads(told.out) if row["queue"] == QUEUE]
    assert (found["jobs"], found["wall_s"]) == (len(GOOD), len(GOOD) * WALL_S), found


def _make(work: pathlib.Path, changes: list[list[Any]]) -> None:
    con = sqlite3.connect(database_of(work), isolation_level=None)
    con.execute("PRAGMA foreign_keys = OFF")
    for table, column, kind, value in changes:
        content = base64.b64decode(value) if kind in {"blob", "text"} else value
        given = "CAST(? AS TEXT)" if kind == "text" else "?"
        if table in NAMES:
            where = f"ID = (SELECT {NAMES[table]} FROM AAR WHERE JobID = '{VICTIM}')"
        else:
            where = f"RecordID = (SELECT RecordID FROM AAR WHERE JobID = '{VICTIM}')"
        try:
            con.execute(f"UPDATE OR IGNORE {table} SET {column} = {given} WHERE {where}", (content,))
        except (sqlite3.Error, UnicodeEncodeError):
            # The schema or its triggers refuse this one.
            continue
    con.close()
