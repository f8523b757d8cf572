"""A disk that fills up: a small tmpfs that only one process of a test sees."""

from __future__ import annotations

import subprocess
import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pathlib


def on_small_disk(directory: pathlib.Path, kilobytes: int, code: str, *arguments: str) -> str:
    """
    Run Python code with a small disk mounted on a directory; what it prints.

    Skips the test where this is not allowed.
    """
    mount = f"mount -t tmpfs -o size={kilobytes}k none {directory}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace here: a full disk cannot be had")
    shell = f'{mount} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", shell, "sh", sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
