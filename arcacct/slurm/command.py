"""
Asking sacct itself: in windows of time, with everything fixed that its output depends on.

The fields are divided by what nobody can know beforehand, so that no name of a job can pretend to be a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from arcacct.files.subprocess import printed
from arcacct.records.slurm_formats import environment
from arcacct.slurm.rows import COLUMNS

DAY_S = 86_400
WINDOW_S = DAY_S
"""So much is asked for at once: slurmdbd holds all of an answer in memory."""
OVERLAP_S = DAY_S
"""Asked for again each time: rows of jobs come to the database late."""
TIMEOUT_S = 600.0


class Window(NamedTuple):
    """A span of time, in UTC seconds."""

    start: int
    end: int


class SacctCommand(NamedTuple):
    """How sacct is called."""

    program: str = "sacct"
    """Its name or path."""
    timeout_s: float = TIMEOUT_S
    """How long it may take for a window."""

    def ask(self, window: Window, delimiter: str) -> Iterator[bytes]:
        """
        What it prints of all jobs of a window, with their steps and all their runs, piece by piece.

        Raises InputError when it cannot be started, fails, takes too long, or prints to its standard error; what came
        before is good.
        """
        arguments = [self.program, "--allusers", "--duplicates", "--parsable2", f"--delimiter={delimiter}"]
        arguments += [f"--starttime={_text(window.start)}", f"--endtime={_text(window.end)}"]
        arguments.append(f"--format={','.join(COLUMNS)}")
        # It ends with 0 also when its database did not answer.
        return printed(arguments, environment(), self.timeout_s, is_silent=True)


def windows(start: int, end: int) -> Iterator[Window]:
    """A span in pieces; a job that ran at a border is in both."""
    while start < end:
        yield Window(start, min(start + WINDOW_S, end))
        start += WINDOW_S


def _text(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
