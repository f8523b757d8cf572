"""Another user who changes a directory of his own in a tight loop, while a test does something in it as root."""

from __future__ import annotations

import os
import pathlib
import pwd
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from campaigns import examples

TRIES = examples(10_000)
THEM = pwd.getpwnam("nobody")
SECRET = "root_alone_may_read_this"


def tries(wanted: int, met: Collection[object], kinds: int) -> Iterator[int]:
    """So many, and more until so many kinds of results were met: on a busy machine an attacker may have had no turn."""
    for number in range(100 * TRIES):
        if number >= wanted and len(met) >= kinds:
            return
        yield number


_SWAP = """
exchange = ctypes.CDLL(None).renameat2
# RENAME_EXCHANGE: there is no moment without either.
print("ready" if exchange(-100, b"one", -100, b"other", 2) == 0 else "cannot", flush=True)
while True:
    exchange(-100, b"one", -100, b"other", 2)
"""
_SNATCH = """
exchange = ctypes.CDLL(None).renameat2
os.symlink(sys.argv[4], "bait")
os.symlink("bait", "probe")
print("ready" if exchange(-100, b"bait", -100, b"probe", 2) == 0 else "cannot", flush=True)
os.rename("probe", "bait")
number = 0
while True:
    # In one step: what was just made is away, and the link stands in its place.
    if exchange(-100, b"made", -100, b"bait", 2):
        continue
    number += 1
    for _ in range(number % 400):
        pass
    os.rename("bait", f"away{number}")
    os.rename("made", "bait")
"""
_RELINK = """
print("ready", flush=True)
while True:
    for name in os.listdir("."):
        if os.path.islink(name):
            continue
        try:
            os.unlink(name)
            os.symlink(sys.argv[4], name)
        except OSError:
            pass
"""


@contextmanager
def _attacker(script: str, place: pathlib.Path, *arguments: object) -> Iterator[None]:
    # Imported first: the interpreter may lie where only root can read.
    start = "import ctypes, os, sys\nos.chdir(sys.argv[1])\nos.setgroups([])\nos.setgid(int(sys.argv[2]))\n"
    start += "os.setuid(int(sys.argv[3]))\n"
    command = [sys.executable, "-I", "-S", "-c", start + script, place, THEM.pw_gid, THEM.pw_uid, *arguments]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if said == "cannot\n":
                pytest.skip(f"the file system of {place} cannot exchange two names")
            assert said == "ready\n"
            yield
            assert process.poll() is None, "the attacker has given up"
        finally:
            process.kill()


def swapping(place: pathlib.Path) -> AbstractContextManager[None]:
    """While it runs, ``one`` and ``other`` in ``place`` change their names, over and over."""
    return _attacker(_SWAP, place)


def snatching(place: pathlib.Path, target: pathlib.Path) -> AbstractContextManager[None]:
    """While it runs, whatever is called ``made`` in ``place`` becomes a link to ``target``, which then goes."""
    return _attacker(_SNATCH, place, target)


def relinking(place: pathlib.Path, target: pathlib.Path) -> AbstractContextManager[None]:
    """While it runs, every file that appears in ``place`` is exchanged for a link to ``target``."""
    return _attacker(_RELINK, place, target)


def theirs(path: pathlib.Path) -> pathlib.Path:
    """A directory of the attacker."""
    path.mkdir()
    os.chown(path, THEM.pw_uid, THEM.pw_gid)
    return path


def secret_of_root(directory: pathlib.Path) -> pathlib.Path:
    """A directory of root's, where a file of its own has a text that no one else may read."""
    directory.mkdir(mode=0o700)
    secret = directory / "site_key"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    return secret
