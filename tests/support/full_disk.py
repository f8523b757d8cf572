"""A disk that fills up: a small tmpfs that only one process of a test sees."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def own_file_system(options: str) -> Iterator[pathlib.Path]:
    """
    A file system of its own in memory, mounted with these options.

    Skips the test where this is not allowed.
    """
    directory = tempfile.mkdtemp(prefix="arcacct-test-")
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory]
    mounted = subprocess.run(command, capture_output=True, check=False)
    try:
        if mounted.returncode != 0:
            pytest.skip("needs the right to mount a file system")
        yield pathlib.Path(directory)
        subprocess.run(["umount", directory], check=True)
    finally:
        os.rmdir(directory)


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
