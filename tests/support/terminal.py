"""Programs on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence


def on_a_terminal(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What reaches the terminal of a person who gives a command."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:
            pass  # how Linux says that no one writes any more
    os.close(ours)
    return seen.decode().replace("\r\n", "\n")
