"""Which database is damaged, when SQLite, or what came out of a database, made a command fail."""

from __future__ import annotations

import os
import time
from _sqlite3 import DatabaseError, connect
from contextlib import closing

from arcacct.db.connect import opened, translated, uri
from arcacct.errors import StoreError

_PATIENCE_S = 20.0
_STEPS = 100_000


def blamed(error: Exception) -> StoreError | None:
    """
    What to say of an error that nobody expected, if a database that this process has opened is to blame.

    SQLite's own errors are about one of them even when none is found damaged.
    """
    paths = [path for path in opened if os.path.isfile(path)]
    for path in paths:
        problem = _problem(path)
        if problem is not None:
            return problem
    if not isinstance(error, DatabaseError):
        return None
    return translated(error, " or ".join(paths) or "database")


def _problem(path: str) -> StoreError | None:
    """What is wrong with the pages of a database; ``None`` for nothing that is found in a moment."""
    end = time.monotonic() + _PATIENCE_S
    try:
        with closing(connect(uri(path, "ro"), timeout=1.0, uri=True)) as con:
            con.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
            found = str(con.execute("PRAGMA quick_check(1)").fetchone()[0])
    except (DatabaseError, UnicodeDecodeError) as error:
        if "interrupted" in str(error) or "locked" in str(error):
            return None
        return translated(error, path)
    return None if found == "ok" else translated(DatabaseError(f"malformed: {found}"), path)
