"""Packages are built once, whichever worker needs them first; each test has a host of its own."""

from __future__ import annotations

import fcntl
import json
import pathlib
import shutil

import pytest
from package_hosts import Host, Packages, build_all, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Packages:
    """What this tree builds, and the version before."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "arcacct-packages"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "made.json"
        if not made.exists():
            made.write_text(json.dumps([str(path) for path in build_all(folder)]))
    return Packages(*map(pathlib.Path, json.loads(made.read_text())))


@pytest.fixture
def make_host(tmp_path: pathlib.Path) -> Iterator[Callable[[str], Host]]:
    """A clean host of a Debian suite; nothing of it runs on, and nothing is left."""
    made: list[Host] = []

    def make(suite: str) -> Host:
        made.append(host(suite, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.end_processes()
        shutil.rmtree(one.path)
