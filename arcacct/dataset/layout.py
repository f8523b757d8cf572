"""
Where the files of a dataset stand, below its directory or URL.

::

    jobs/v1/site=S/year=YYYY/month=MM/ce=HOST/part-<digest>.parquet       and each other of `TABLES`
    manifests/v1/site=S/year=YYYY/month=MM/ce=HOST.json                   which parts count, one for each partition
    exports/v1/site=S/ce=HOST.json                                        how far the export of a CE came; for it alone

A partition is a month of a CE: the jobs that ended in it, by UTC. What no manifest names is not part of the dataset.
"""

from __future__ import annotations

import calendar
import re
from typing import NamedTuple

from arcacct.errors import InputError

VERSION = 1
"""Of the dataset: of the layout, and of what columns mean. A column more is no other version."""
TABLES = ("jobs", "events", "transfers", "attributes", "accelerators")
MANIFESTS = f"manifests/v{VERSION}"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_MONTH_OF = (rf"site=({_NAME.pattern})", "year=((?!0000)[0-9]{4})", "month=(0[1-9]|1[0-2])")
_MANIFEST = re.compile("/".join((MANIFESTS, *_MONTH_OF, rf"ce=({_NAME.pattern})\.json")), re.ASCII)
_PART = re.compile(r"part-[0-9a-f]{16}\.parquet", re.ASCII)
_VERSION = "v[0-9]{1,9}"
_NAMES = {
    **dict.fromkeys(TABLES, (_VERSION, *_MONTH_OF, f"ce={_NAME.pattern}", _PART.pattern)),
    "manifests": (_VERSION, *_MONTH_OF, rf"ce={_NAME.pattern}\.json"),
    "exports": (_VERSION, _MONTH_OF[0], rf"ce={_NAME.pattern}\.json"),
}
"""By the first part of a path, how the others look: the last one is a file, the others are folders."""


class Partition(NamedTuple):
    """A month of a CE."""

    site: str
    year: int
    month: int
    ce: str

    def __str__(self) -> str:
        """For messages."""
        return f"{self.site}, {self.ce}, {self.year:04d}-{self.month:02d}"

    @property
    def bounds(self) -> tuple[int, int]:
        """The first second of the month, UTC, and that of the next one."""
        first = calendar.timegm((self.year, self.month, 1, 0, 0, 0))
        # No calendar has the month behind the last of the year 9999.
        return first, first + calendar.monthrange(self.year, self.month)[1] * 86_400

    @property
    def manifest(self) -> str:
        """The path of its manifest."""
        return f"{MANIFESTS}/site={self.site}/year={self.year:04d}/month={self.month:02d}/ce={self.ce}.json"

    def folder(self, table: str) -> str:
        """Where the parts of one of `TABLES` stand."""
        return f"{table}/v{VERSION}/site={self.site}/year={self.year:04d}/month={self.month:02d}/ce={self.ce}"

    def part(self, table: str, file: str) -> str:
        """The path of a part that its manifest names."""
        return f"{self.folder(table)}/{file}"


def partition_of(path: str) -> Partition | None:
    """The partition that a file is the manifest of, by its path below the dataset; ``None`` if it is none."""
    match = _MANIFEST.fullmatch(path)
    return None if match is None else Partition(match[1], int(match[2]), int(match[3]), match[4])


def names_in(folder: str) -> tuple[re.Pattern[str], bool] | None:
    """
    How the names in a folder of the dataset look, and whether they are files or folders; ``None``: it has none.

    Whatever else is in the folder is not part of the dataset.
    """
    first, *rest = folder.split("/")
    names = _NAMES.get(first, ())
    if len(rest) >= len(names):
        return None
    return re.compile(names[len(rest)], re.ASCII), len(rest) == len(names) - 1


def position_path(site: str, ce: str) -> str:
    """Where the export of a CE notes how far it came."""
    return f"exports/v{VERSION}/site={site}/ce={ce}.json"


def part_name(sha256: str) -> str:
    """What a part with these bytes is called."""
    return f"part-{sha256[:16]}.parquet"


def is_part_name(name: str) -> bool:
    """Whether a part may be called so."""
    return _PART.fullmatch(name) is not None


def key_name(name: str, what: str) -> str:
    """
    The name of a site or a CE, as it stands in paths.

    Raises InputError for one that not every file system and engine takes: ``what`` tells where it is from.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{what}: {name!r} cannot be the name of a directory everywhere; use letters, digits, dots, dashes and _"
        )
    return name
