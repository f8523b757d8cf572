"""Being somebody else for a moment, for tests that run as root."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_HERE = pathlib.Path(__file__).resolve()
REACHABLE = pytest.mark.skipif(
    not all(path.stat().st_mode & 0o001 for path in _HERE.parents),
    reason="other users cannot reach this checkout, because a directory above it is closed to them",
)
"""For tests in which another user runs a file of the checkout."""


@pytest.fixture
def public_dir() -> Iterator[pathlib.Path]:
    """A directory that other users can reach (pytest's own are for one user)."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@contextmanager
def acting_as(name: str, *, groups: tuple[int, ...] = ()) -> Iterator[None]:
    """Touch files with the rights of another user."""
    user = pwd.getpwnam(name)
    own = os.getgroups()
    os.setgroups(groups)
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(own)
