"""
The sources by name: the built-in ones and those of other packages.

Another package adds a batch system by an entry point of the group `GROUP`. The name of the entry point is that of the
command (`import NAME`). Its object is a module with ``SOURCE``, a `LogSource` of `sources.engine.batch_runs`; of the
optional part for telemetry a `TelemetrySource`. Installed packages are searched only for a name that is not built in,
for `import --help`, and where a database has telemetry.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from arcacct import entry_points
from arcacct.database.schema import sources_of
from arcacct.records.batch_systems import BATCH_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click

    from arcacct.config.settings import Settings
    from arcacct.database.connection import Connection
    from arcacct.sources.engine.batch_runs import LogSource
    from arcacct.sources.engine.runs import SourceType

GROUP = "arcacct.sources"
TELEMETRY = "sonar"
"""The name of the source of telemetry, also for its views."""
_OTHERS = ("arex", "features", "rejected")
"""Further words after `arcacct import`, and names of sources. A package may not use these names."""
_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_TEXTS = ("place_option", "file_help", "example")
"""The texts that the command of a source needs."""


class TelemetrySource(NamedTuple):
    """A source that measures jobs of others: it has a command of its own, and may be imported before the jobs."""

    command: click.Command
    join: Callable[[Connection, Settings], int]
    """Adds the telemetry of earlier imports to new records; returns the number of records where it cannot."""


def batch_source(name: str) -> SourceType[Any] | None:
    """
    Return the batch system with this name; ``None`` if there is none.

    Raises ConfigError for an installed source that cannot be used.
    """
    if name in BATCH_SYSTEMS:
        found: SourceType[Any] = import_module(f"arcacct.sources.{name}.importer").SOURCE
        return found
    other = None if name in (*_OTHERS, TELEMETRY) else installed(name)
    return None if isinstance(other, TelemetrySource) else other


def join_telemetry(con: Connection, settings: Settings) -> int:
    """
    Add telemetry that came before its records to them; return the number of records where it cannot be added.

    Without telemetry in the database, or without the part that reads it, there is nothing to add.
    """
    source = installed(TELEMETRY) if TELEMETRY in sources_of(con) else None
    return source.join(con, settings) if isinstance(source, TelemetrySource) else 0


@cache
def installed(name: str) -> LogSource | TelemetrySource | None:
    """Return the source that a package has registered; ``None``: none has. Raises ConfigError if it cannot be used."""

    def use(module: Any) -> tuple[LogSource | TelemetrySource, str]:
        return module.SOURCE, next(_wrong(name, module.SOURCE), "")

    return entry_points.load(GROUP, name, f"import {name}", use)


def _wrong(name: str, source: LogSource | TelemetrySource) -> Iterator[str]:
    """Yield the reasons why a source cannot have this name, or cannot be used."""
    if name == TELEMETRY and isinstance(source, TelemetrySource):
        return
    # Import these only for a source of another package. Other commands do not need them.
    from arcacct.records.enrichment import SOURCES  # noqa: PLC0415
    from arcacct.records.states import UNKNOWN  # noqa: PLC0415
    from arcacct.sources.engine.batch_runs import LogSource  # noqa: PLC0415

    if name in (*BATCH_SYSTEMS, *_OTHERS):
        yield f"{name} is built in"
    if not _NAME.fullmatch(name):
        yield f"{name!r} is not a name of a source: use lower-case letters and digits, a letter first"
    yield from (f"JobIDs of {one.title} begin with {name}" for one in BATCH_SYSTEMS.values() if one.kind == name)
    if name in SOURCES or name == UNKNOWN:
        yield f"{name} is another source of values"
    if not isinstance(source, LogSource):
        yield f"SOURCE is a {type(source).__name__}, not a LogSource"
        return
    for field in ("name", "source", "kind"):
        if (value := getattr(source.system, field)) != name:
            # So two sources never have the same JobIDs, with any installed packages.
            yield f"{field} of its BatchSystem is {value!r}: it must be {name!r}, which no other source has"
    if not source.system.lrms_names or any(one != one.lower() for one in source.system.lrms_names):
        yield "lrms_names of its BatchSystem must be names in small letters"
    yield from (f"SOURCE has no {field}" for field in _TEXTS if not getattr(source, field, ""))
