"""
Our own database with values in it that its columns are not for: an operator's SQL, an old program, a bad import.

Of three jobs one gets them, before anything is published or after, or both. What must hold: the other two arrive
everywhere with what they used, and no command ends in an error of ours.
"""

from __future__ import annotations

import base64
import json
import pathlib
import sqlite3
from functools import lru_cache
from typing import Any

from fuzz.command import arcacct
from fuzz.damage import NUMBERS, TEXTS
from fuzz.site_of_targets import begin, database_of, lay_good, publish_to_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random

VICTIM = "mmVictim"
CHILDREN = ("AuthTokenAttributes", "JobEvents", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo")
NAMES = {"Users": "UserID", "WLCGVOs": "VOID", "Queues": "QueueID", "Endpoints": "EndpointID"}
COMMANDS = (
    ("status",),
    ("republish", "--from", "2026-11-20", "--to", "2026-11-21", "--target", "directory:individual", "--yes"),
)


def made(chance: random.Random) -> dict[str, bytes]:
    changes = [[_change(chance) for _ in range(chance.randint(0, 2))] for _ in range(2)]
    return {"changes.json": json.dumps(changes).encode()}


def _change(chance: random.Random) -> list[Any]:
    table = chance.choice(("AAR",) * 6 + CHILDREN + tuple(NAMES))
    column = chance.choice([name for name in _columns()[table] if name != "RecordID" or chance.random() < 0.1])
    value: Any = chance.choice((*NUMBERS, *TEXTS, None, b"", b"\xff\xfe", b"\0" * 300))
    if value == 2**53:
        # The largest that counts: with any other it would make a sum that no receiver takes, and that is said.
        value -= 2**50
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(min(value, 10**300))
    if isinstance(value, bytes):
        return [table, column, "blob", base64.b64encode(value).decode()]
    if isinstance(value, str) and chance.random() < 0.2:
        # Text that is no UTF-8, which Python itself would not write.
        return [table, column, "text", base64.b64encode(value.encode("utf-8", "surrogatepass") + b"\xc3").decode()]
    return [table, column, "value", value]


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
    for changes in json.loads(files["changes.json"]):
        _make(work, changes)
        publish_to_all(work)
    for command in COMMANDS:
        arcacct(*conf, *command, allowed=(0, 1, 2, 3, 64, 65, 69))


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
