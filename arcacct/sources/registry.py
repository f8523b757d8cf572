"""
The sources by name: the built-in ones and those of other packages.

Another package adds a batch system by an entry point of the group `GROUP`. The name of the entry point is that of the
command (`import NAME`). Its object is a module with ``SOURCE``, a `LogSource` of `sources.engine.batch_runs`. Installed
packages are searched only for a name that is not built in, and for `import --help`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from arcacct import entry_points
from arcacct.records.batch_systems import BATCH_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arcacct.sources.engine.batch_runs import LogSource
    from arcacct.sources.engine.runs import SourceType

GROUP = "arcacct.sources"
_OTHERS = ("arex", "features", "rejected", "sonar")
"""Further words after `arcacct import`, and names of sources. A package may not use these names."""
_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_TEXTS = ("place_option", "file_help", "example")
"""The texts that the command of a source needs."""


def batch_source(name: str) -> SourceType[Any] | None:
    """
    Return the batch system with this name; ``None`` if there is none.

    Raises ConfigError for an installed source that cannot be used.
    """
    if name in BATCH_SYSTEMS:
        found: SourceType[Any] = import_module(f"arcacct.sources.{name}.importer").SOURCE
        return found
    return None if name in _OTHERS else installed(name)


@cache
def installed(name: str) -> LogSource | None:
    """Return the source of another package; ``None`` if no package has it. Raises ConfigError if it cannot be used."""

    def use(module: Any) -> tuple[LogSource, str]:
        return module.SOURCE, next(_wrong(name, module.SOURCE), "")

    return entry_points.load(GROUP, name, f"import {name}", use)


def _wrong(name: str, source: LogSource) -> Iterator[str]:
    """Yield the reasons why a source cannot have this name, or cannot be used."""
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
        yield f"SOURCE is a {type(source).__name__}, no LogSource"
        return
    for field in ("name", "source", "kind"):
        if (value := getattr(source.system, field)) != name:
            # So two sources never have the same JobIDs, with any installed packages.
            yield f"{field} of its BatchSystem is {value!r}: it must be {name!r}, which no other source has"
    if not source.system.lrms_names or any(one != one.lower() for one in source.system.lrms_names):
        yield "lrms_names of its BatchSystem must be names in small letters"
    yield from (f"SOURCE has no {field}" for field in _TEXTS if not getattr(source, field, ""))
