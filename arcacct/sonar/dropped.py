"""How many values of telemetry could not be used and were taken as absent, by field, since the database began."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted

_KEY = "SONAR_DROPPED"
"""Of DBConfig: a JSON object; its names are those of the format, so it stays small."""


def dropped(con: Connection) -> Counter[str]:
    """The counts by field."""
    return Counter(json.loads(noted(con, _KEY) or "{}"))


def add_dropped(con: Connection, counts: Mapping[str, int]) -> None:
    """Count some more, inside the caller's transaction."""
    if counts:
        note(con, _KEY, json.dumps(dropped(con) + Counter(counts), sort_keys=True))
