"""Targets that are directories: a block [arcacct/directory:NAME]."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from arcacct.config import values
from arcacct.config.options import TargetKind, choice, plain
from arcacct.errors import use_as
from arcacct.files.directories import unseen
from arcacct.targets.apel.options import CONTENT, PACE, APELContent


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTarget(APELContent):
    """Unsigned messages as files, for a site's own ``ssmsend``."""

    path: str
    layout: str
    """``dirq`` or ``directory``."""

    @property
    def url(self) -> str:
        """The directory as a URL."""
        return f"file://{self.path}"

    @property
    def receiver(self) -> tuple[object, ...]:
        """One ``ssmsend`` may serve several sites."""
        return (os.path.realpath(self.path), self.gocdb_name.casefold())

    def wrong(self) -> Iterator[tuple[str, str]]:
        """A directory that is not there, or not ours to write to."""
        if unseen(self.path) or (os.path.isdir(self.path) and not os.access(self.path, os.W_OK, effective_ids=True)):
            yield "path", f"this user may not write to the directory {self.path}; {use_as(self.path)}"
        elif not os.path.isdir(self.path):
            yield "path", f"{self.path} is not a directory; create it"


KIND = TargetKind(
    "arcacct/directory",
    "directory",
    (
        plain("path", values.path, required=True),
        choice("layout", "dirq", "dirq", "directory"),
        *CONTENT,
        choice("apel_dialect", "server", "server", "seed"),
        *PACE,
    ),
    DirectoryTarget,
)
