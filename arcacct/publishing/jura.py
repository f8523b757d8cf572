"""How far jura-ng came with each target, read from its own publishing.db when arcacct takes over."""

from __future__ import annotations

import os
from contextlib import closing

from arcacct.config.settings import Settings
from arcacct.database.connection import DatabaseError, connect


def published_until(settings: Settings, block: str) -> int | None:
    """When the last job ended that jura-ng published to a target, UTC seconds; ``None``: it never did."""
    if not os.path.exists(settings.jura_database):
        return None
    return jura_end_times(settings.jura_database).get(block)


def jura_end_times(path: str) -> dict[str, int]:
    """
    LastEndTime by TargetID of jura-ng's database; empty when there is none or it cannot be read.

    SQLite opens a copy: a lock on the file could stop a jura-ng that still runs.
    """
    # Once in the life of a target.
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="arcacct-") as folder:
        copy = os.path.join(folder, "publishing.db")
        try:
            for suffix in ("", "-wal"):
                if os.path.exists(path + suffix):
                    shutil.copyfile(path + suffix, copy + suffix)
            if not os.path.exists(copy):
                return {}
            with closing(connect(copy)) as con:
                rows = con.execute("SELECT TargetID, LastEndTime FROM AccountingTargets")
                return {str(name): int(end) for name, end in rows}
        except (OSError, DatabaseError, ValueError):
            return {}
