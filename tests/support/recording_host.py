"""A host on which A-REX calls the launcher, and what a recorder would record of it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress

import psutil
import pytest
from control_directory import set_up
from job_files import JOB

import arcacct
from arcacct.arex.sweep import drain, sweep
from arcacct.arex.sweep_context import SweepReport
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting
from arcacct.files.directories import resource

LAUNCHER = resource("etc", "arcacct-hook")
PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(arcacct.__file__)))
SHELLS = {
    name: (str(shutil.which(name)), *words)
    for name, *words in (("dash",), ("bash", "--posix"), ("busybox", "sh"))
    if shutil.which(name)
}
"""Each shell that may be /bin/sh somewhere, as a command."""
PATIENCE_S = 600.0
"""How long a busy machine may take for what takes a moment."""


def until(what: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until something is true, and fail when it does not become so."""
    end = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def waiting(spool: str) -> list[str]:
    """The events in a spool, also those that are not whole yet."""
    names = os.listdir(spool) if os.path.isdir(spool) else []
    return sorted(name for name in names if name.removeprefix(".tmp-")[:1].isdigit())


def has_ended(session: int) -> bool:
    """Whether no process of a session is left, not even the one that copies; a zombie has ended."""
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return False
    return True


class Gate:
    """A program of the launcher that waits until it may start."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        folder.mkdir()
        self._began, self._opened = folder / "began", folder / "opened"
        program = folder / name
        program.write_text(
            f'#!/bin/sh\n: >"{self._began}"\nwhile [ ! -e "{self._opened}" ]; do /bin/sleep 0.01; done\n'
            f'exec {shutil.which(name)} "$@"\n'
        )
        program.chmod(0o755)
        self.path = f"{folder}:/usr/bin:/bin"
        """PATH for the launcher."""

    def waits(self) -> None:
        """Wait until the program has started."""
        until(self._began.exists)

    def open(self) -> None:
        """Let the program continue."""
        self._opened.touch()


class Host:
    """A control directory, our databases, and the launcher as A-REX starts it."""

    def __init__(self, directory: pathlib.Path, *, created: bool = True) -> None:
        self.control = directory / "control"
        set_up(self.control)
        self.conf = directory / "arc.conf"
        self.configure("")
        self.places: Places = places(None, str(self.control))
        self.places.rules.default_benchmark = "HEPSPEC:11.11"
        if created:
            initialise(self.places)

    @property
    def database(self) -> pathlib.Path:
        return pathlib.Path(self.places.database)

    @property
    def spool(self) -> list[pathlib.Path]:
        """The events that wait, also those that are not whole yet."""
        return [pathlib.Path(self.places.spool, name) for name in waiting(self.places.spool)]

    def configure(self, ours: str) -> None:
        """Write arc.conf and, next to it, arcacct.conf with these lines."""
        self.conf.write_text("[common]\n[lrms]\nbenchmark=HEPSPEC:11.11\n")
        (self.conf.parent / "arcacct.conf").write_text(f"[arcacct]\n{ours}\n")

    def call(
        self,
        state: str = "FINISHED",
        job_id: str = JOB,
        *,
        shell: tuple[str, ...] = ("/bin/sh",),
        waits: bool = True,
        **environment: str,
    ) -> str:
        """
        One callout of A-REX; return what the launcher said. It never fails, so that is checked here once for all.

        ``waits``: until the copy of a finished job's files is whole.
        """
        done = subprocess.run(
            [*shell, LAUNCHER, str(self.control), job_id, state],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", **environment},
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        if waits:
            until(lambda: not any(path.name.startswith(".tmp-") for path in self.spool))
        return done.stderr

    def run(self, state: str = "FINISHED", job_id: str = JOB) -> None:
        """One callout, and what the recorder does with its event."""
        assert self.call(state, job_id) == ""
        self.drain()

    def drain(self) -> list[str]:
        """Record what waits, as the recorder does between its sweeps; return the complaints."""
        complaints: list[str] = []
        here = places(load(str(self.conf), {}), str(self.control))
        with closing(open_accounting(here)) as con:
            drain(here, con, complaints)
        return complaints

    def sweep(self, conf: str | None = None) -> SweepReport:
        """One sweep of everything; with ``conf`` by that configuration."""
        here = self.places if conf is None else places(load(conf, {}), str(self.control))
        with closing(open_accounting(here)) as con:
            return sweep(here, con)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    """A host with a database."""
    return Host(tmp_path)


@pytest.fixture(params=SHELLS.values(), ids=SHELLS)
def shell(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Each shell that may be /bin/sh somewhere."""
    found: tuple[str, ...] = request.param
    return found
