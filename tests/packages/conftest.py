"""Packages are built once, whichever worker needs them first; each test has a host of its own."""

from __future__ import annotations

import fcntl
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from package_hosts import Host, Packages, build_all, host


@pytest.fixture(scope="session")
def once(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Callable[[str, Callable[[pathlib.Path], Any]], Any]:
    """Make something in a folder of a name, unless another worker did; what it returned, as JSON keeps it."""
    base = tmp_path_factory.getbasetemp()

    def make(name: str, maker: Callable[[pathlib.Path], Any]) -> Any:
        folder = (base if worker_id == "master" else base.parent) / name
        folder.mkdir(exist_ok=True)
        with open(folder / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = folder / "made.json"
            if not made.exists():
                made.write_text(json.dumps(maker(folder)))
        return json.loads(made.read_text())

    return make


@pytest.fixture(scope="session")
def packages(once: Callable[[str, Callable[[pathlib.Path], Any]], Any]) -> Packages:
    """What this tree builds, and the version before."""
    made = once("arcacct-packages", lambda folder: [str(path) for path in build_all(folder)])
    return Packages(*map(pathlib.Path, made))


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
