"""The output of another program, piece by piece, with a time limit and the reason when it fails."""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from arcacct.errors import InputError

_CHUNK_BYTES = 256 * 1024
_MOST_COMPLAINT = 2000


def printed(
    arguments: Sequence[str], env: Mapping[str, str], timeout_s: float, *, is_silent: bool = False
) -> Iterator[bytes]:
    """
    Yield the output of a program as it arrives; ``arguments`` starts with its name or path.

    Raises InputError if it cannot be started, fails, or takes longer than ``timeout_s`` (without the time of the
    caller); the output before that is good. A program that ``is_silent`` on success also fails with anything on its
    standard error, whatever its exit code.
    """
    program = arguments[0]
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            advice = "; install the program on this host, or give its path" if error.errno == errno.ENOENT else ""
            raise InputError(f"{program}: cannot be started: {error.strerror or error}{advice}") from error
        try:
            yield from _output(process, program, timeout_s)
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{program}: did not end after {timeout_s:g} s") from error
        finally:
            _end(process)
        complaints.seek(0)
        said = " ".join(complaints.read(_MOST_COMPLAINT).decode("utf-8", "backslashreplace").split())
        if code:
            raise InputError(f"{program}: exit code {code}: {said or 'without a message'}")
        if said and is_silent:
            raise InputError(f"{program}: exit code 0, but with the message: {said}")


def _output(process: subprocess.Popen[bytes], program: str, timeout_s: float) -> Iterator[bytes]:
    assert process.stdout is not None
    until = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, until - time.monotonic())):
                raise InputError(f"{program}: did not end after {timeout_s:g} s")
            chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
            if not chunk:
                return
            before = time.monotonic()
            yield chunk
            until += time.monotonic() - before


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and its child processes, if it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    process.wait()
