"""A host on which A-REX runs the installed hook."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from contextlib import closing

import pytest
from control_directory import set_up
from job_files import JOB

import arcacct
from arcacct.arex.sweep import sweep
from arcacct.arex.sweep_context import SweepReport
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting

HOOK = os.path.join(os.path.dirname(sys.executable), "arcacct-record")


PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(arcacct.__file__)))


def _interpreter_for(user: str) -> str:
    """A Python that somebody else may run: ours may stand where only root may go."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            command = [python, "-c", "import arcacct.arex.hook, _sqlite3, sys; sys.exit(sys.version_info < (3, 11))"]
            environment = {"PYTHONPATH": PROJECT}
            if subprocess.run(command, user=user, extra_groups=(), env=environment, check=False).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip(f"{user} may run no Python that knows arcacct")


class Host:
    """A control directory, our databases, and the hook as A-REX starts it."""

    def __init__(self, directory: pathlib.Path, *, created: bool = True) -> None:
        self.control = directory / "control"
        set_up(self.control)
        self.conf = directory / "arc.conf"
        self.configure("")
        self.places: Places = places(None, str(self.control))
        if created:
            initialise(self.places)

    @property
    def database(self) -> pathlib.Path:
        return pathlib.Path(self.places.database)

    @property
    def spool(self) -> list[pathlib.Path]:
        """The events that wait, oldest first."""
        folder = pathlib.Path(self.places.spool)
        return sorted(path for path in folder.iterdir() if path.is_file()) if folder.exists() else []

    def configure(self, ours: str) -> None:
        """Write arc.conf and, beside it, arcacct.conf with these lines."""
        self.conf.write_text("[common]\n[lrms]\nbenchmark=HEPSPEC:11.11\n")
        (self.conf.parent / "arcacct.conf").write_text(f"[arcacct]\n{ours}\n")

    def run(
        self,
        state: str = "FINISHED",
        job_id: str = JOB,
        *,
        program: tuple[str, ...] = (HOOK,),
        environment: dict[str, str] | None = None,
        umask: int = 0o022,
        user: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """One call of the hook; it never fails, so that is checked here once for all."""
        environment = {"PATH": "/usr/bin:/bin"} if environment is None else environment
        if user is not None:
            program = (_interpreter_for(user), "-c", "from arcacct.arex.hook import main; main()")
            environment = {**environment, "PYTHONPATH": PROJECT}
        done = subprocess.run(
            [*program, str(self.control), job_id, state, str(self.conf)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=environment,
            umask=umask,
            user=user,
            extra_groups=None if user is None else (),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        return done

    def sweep(self, conf: str | None = None) -> SweepReport:
        """One sweep of everything; with ``conf`` by that configuration."""
        here = places(None if conf is None else load(conf, {}), str(self.control))
        here.rules.default_benchmark = "HEPSPEC:11.11"
        with closing(open_accounting(here)) as con:
            return sweep(here, con)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    """A host with a database."""
    if not os.access(HOOK, os.X_OK):
        pytest.skip(f"{HOOK} is not installed")
    return Host(tmp_path)
