"""Asking condor_history itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from arcacct.files.subprocess import printed

TIMEOUT_S = 600.0
OVERLAP_S = 11 * 86_400
"""Asked for again each time: a job may stay in the queue for ten days after its end, until its output was fetched."""


class HistoryCommand(NamedTuple):
    """How condor_history is called."""

    program: str = "condor_history"
    """Its name or path."""
    timeout_s: float = TIMEOUT_S
    schedd: str | None = None
    """The schedd to ask; ``None``: the history of this host."""

    def ask(self, since: int, attributes: Sequence[str]) -> Iterator[bytes]:
        """
        What it prints of all jobs that ended at or after ``since``, UTC seconds, piece by piece.

        As JSON, in which no text of a user can pretend to be an attribute. Raises InputError when it cannot be started,
        fails, or takes too long; what came before is good.
        """
        arguments = [self.program, "-json", "-attributes", ",".join(attributes)]
        # Not -since: it ends at the first older job, and jobs leave the queue in another order than they end.
        arguments += ["-constraint", f"EnteredCurrentStatus >= {since}"]
        if self.schedd is not None:
            arguments += ["-name", self.schedd]
        return printed(arguments, {**os.environ, "LC_ALL": "C"}, self.timeout_s)
