"""
Asking sacct itself: in windows of time, with everything fixed that its output depends on.

The fields are divided by what nobody can know beforehand, so that no name of a job can pretend to be a row.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from arcacct.errors import InputError
from arcacct.jobs.sacct import environment
from arcacct.slurm.rows import COLUMNS

DAY_S = 86_400
WINDOW_S = DAY_S
"""So much is asked for at once: slurmdbd holds all of an answer in memory."""
OVERLAP_S = DAY_S
"""Asked for again each time: rows of jobs come to the database late."""
TIMEOUT_S = 600.0
_CHUNK_BYTES = 256 * 1024
_MOST_COMPLAINT = 2000


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

        Raises InputError when it cannot be started, fails, or takes too long; what came before is good.
        """
        arguments = [self.program, "--allusers", "--duplicates", "--parsable2", f"--delimiter={delimiter}"]
        arguments += [f"--starttime={_text(window.start)}", f"--endtime={_text(window.end)}"]
        arguments.append(f"--format={','.join(COLUMNS)}")
        with tempfile.TemporaryFile() as complaints:
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env=environment(),
                    start_new_session=True,
                )
            except OSError as error:
                raise InputError(f"{self.program}: cannot be started: {error.strerror or error}") from error
            try:
                yield from self._output(process)
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired as error:
                raise InputError(f"{self.program}: no end after {self.timeout_s:g} s") from error
            finally:
                _end(process)
            complaints.seek(0)
            said = " ".join(complaints.read(_MOST_COMPLAINT).decode("utf-8", "backslashreplace").split())
            if code:
                raise InputError(f"{self.program}: exit code {code}: {said or 'it does not say why'}")

    def _output(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        assert process.stdout is not None
        until = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise InputError(f"{self.program}: no end after {self.timeout_s:g} s")
                # What is done with it meanwhile is not its time.
                chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
                if not chunk:
                    return
                before = time.monotonic()
                yield chunk
                until += time.monotonic() - before


def windows(start: int, end: int) -> Iterator[Window]:
    """A span in pieces; a job that ran at a border is in both."""
    while start < end:
        yield Window(start, min(start + WINDOW_S, end))
        start += WINDOW_S


def _text(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and what it started, if it goes on."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    process.wait()
