"""Hooks that run while arcacct is being upgraded: each exits 0, and each event is stored or spooled."""

from __future__ import annotations

import ast
import compileall
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest
from hook_host import HOOK, PROJECT, Host
from job_files import LOCAL, Files, lay, rows

from arcacct.arex import hook
from arcacct.files.directories import resource

LAUNCHER = resource("etc", "arcacct-hook")


class Environment:
    """A Python environment with nothing but arcacct in it, laid out as pip does."""

    def __init__(self, directory: pathlib.Path) -> None:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.record = directory / "bin" / "arcacct-record"
        self.packages = directory / "lib" / version / "site-packages"
        self._new = directory / "new"
        shutil.copytree(os.path.join(PROJECT, "arcacct"), self._new, ignore=shutil.ignore_patterns("__pycache__"))
        self.packages.mkdir(parents=True)
        self.record.parent.mkdir()
        (directory / "bin" / "python3").symlink_to(sys.executable)
        self.install()

    def uninstall(self) -> None:
        """As pip does: programs and package are moved away first, then removed."""
        self.record.unlink()
        aside = self.packages / "~rcacct"
        (self.packages / "arcacct").rename(aside)
        shutil.rmtree(aside)

    def install(self) -> None:
        """As pip does: one file after the other, the programs last."""
        target = self.packages / "arcacct"
        for source in sorted(self._new.rglob("*.py")):
            path = target / source.relative_to(self._new)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)
        shutil.copyfile(HOOK, self.record)
        self.record.chmod(0o755)

    def compile(self) -> None:
        """As pip does."""
        assert compileall.compile_dir(self.packages, quiet=1)

    def append(self, module: str, line: str) -> None:
        """Another version of a module."""
        with (self.packages / "arcacct" / module).open("a") as file:
            file.write(f"{line}\n")

    def hurt(self, module: str) -> None:
        """A module of which only the first half has been written so far."""
        path = self.packages / "arcacct" / module
        text = path.read_text()
        path.write_text(text[: len(text) // 2])


def launch(host: Host, environment: Environment, job_id: str) -> subprocess.CompletedProcess[str]:
    """The launcher as A-REX starts it."""
    return subprocess.run(
        [LAUNCHER, str(host.control), job_id, "FINISHED", str(host.conf)],
        env={"ARCACCT_RECORD": str(environment.record)},
        capture_output=True,
        text=True,
        check=False,
    )


def lay_job(host: Host, job_id: str) -> None:
    lay(host.control, Files(local=LOCAL.replace(b"first", job_id.encode())), job_id)


def kept(host: Host) -> set[str]:
    """The jobs whose event is stored or spooled."""
    recorded = {str(row[0]) for row in rows(str(host.database))["AAR"]}
    return recorded | {path.name.rpartition("-")[2] for path in host.spool}


def test_hooks_during_upgrades(host: Host, tmp_path: pathlib.Path) -> None:
    """While the package is replaced again and again no hook fails and no event is lost."""
    environment = Environment(tmp_path / "venv")
    upgraded = threading.Event()
    failures: list[str] = []
    jobs: list[str] = []

    def hooks() -> None:
        while not upgraded.is_set() or len(jobs) < 20:
            jobs.append(f"Job{len(jobs):04}")
            lay_job(host, jobs[-1])
            done = launch(host, environment, jobs[-1])
            if done.returncode != 0:
                failures.append(f"{jobs[-1]}: {done.returncode} {done.stderr}")

    running = threading.Thread(target=hooks)
    running.start()
    try:
        for _ in range(12):
            environment.uninstall()
            environment.install()
    finally:
        upgraded.set()
        running.join()

    assert failures == []
    assert kept(host) == set(jobs)
    assert host.sweep().complaints == ()
    assert {row[0] for row in rows(str(host.database))["AAR"]} == set(jobs)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "module",
    [
        "__init__.py",
        "arex/hook.py",
        "errors.py",
        "config/parser.py",
        "config/paths.py",
        "arex/control_files.py",
        "arex/job_facts.py",
        "database/connection.py",
        "records/recorder.py",
        "arex/spool.py",
    ],
)
@pytest.mark.parametrize("maintained", [False, True], ids=["recording", "spooling"])
def test_a_half_written_module_loses_nothing(host: Host, tmp_path: pathlib.Path, module: str, maintained: bool) -> None:
    """Whichever file the upgrade has just begun to write, the event is stored or spooled, by hook or by launcher."""
    environment = Environment(tmp_path / "venv")
    environment.hurt(module)
    if maintained:
        pathlib.Path(host.places.maintenance).touch()
    lay_job(host, "Job1")

    done = launch(host, environment, "Job1")

    assert done.returncode == 0, done.stderr
    assert kept(host) == {"Job1"}


def test_a_module_that_was_replaced_is_the_one_that_runs(host: Host, tmp_path: pathlib.Path) -> None:
    """What Python compiled from an earlier source is not used, wherever in the hook the module stands."""
    environment = Environment(tmp_path / "venv")
    environment.compile()
    for number, module in enumerate(("errors.py", "arex/control_files.py", "database/connection.py")):
        lay_job(host, f"Job{number}")
        assert launch(host, environment, f"Job{number}").stderr == ""
        environment.append(module, "raise RuntimeError('this is the new one')")

        assert "this is the new one" in launch(host, environment, f"Job{number}").stderr
        environment.install()
        environment.compile()


@pytest.mark.parametrize(
    ("state", "needed"),
    [("SUBMIT", hook._NEEDED), ("FINISHED", hook._NEEDED_AT_THE_END)],
    ids=["before the end", "at the end"],
)
@pytest.mark.parametrize("together", [True, False], ids=["loaded together", "imported"])
def test_the_modules_that_are_loaded_together_are_those_that_are_needed(
    host: Host, tmp_path: pathlib.Path, state: str, needed: tuple[str, ...], together: bool
) -> None:
    """The list of them is right: the import system has nothing left to find, and it would find no others."""
    environment = Environment(tmp_path / "venv")
    environment.compile()
    lay(host.control, Files(state), "Job1")
    code = (
        f"import posix, sys; sys.path.append({str(environment.packages)!r}); from arcacct.arex import hook\n"
        f"hook._NEEDED = hook._NEEDED_AT_THE_END = {needed if together else ()}\n"
        "posix._exit = lambda code: print(*[name for name in sys.modules if name.startswith('arcacct.')],"
        " '-', *[name for name in sys.modules if name.startswith('arcacct.') and sys.modules[name].__spec__])\n"
        "hook.main()"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, host.control, "Job1", state, host.conf],
        capture_output=True,
        text=True,
        check=True,
    )

    loaded, _, found = done.stdout.strip().partition(" - ")
    assert done.stderr == ""
    assert set(loaded.split()) == {
        "arcacct.arex",
        "arcacct.arex.hook",
        *(f"arcacct.{name.rstrip('/').replace('/', '.')}" for name in needed)
    }  # fmt: skip
    assert found.split() == (["arcacct.arex", "arcacct.arex.hook"] if together else loaded.split())


def test_the_packages_that_are_not_run_do_nothing() -> None:
    """The hook makes them without their __init__: there is nothing but a docstring in it."""
    names = {name for name in hook._NEEDED if name.endswith("/")}
    bodies = [ast.parse(pathlib.Path(PROJECT, "arcacct", name, "__init__.py").read_text()).body for name in names]

    assert len(names) == 3
    assert all(len(body) == 1 and isinstance(body[0], ast.Expr) for body in bodies)


def test_the_program_can_be_a_link(host: Host, tmp_path: pathlib.Path) -> None:
    """A link to arcacct-record in another directory finds the environment that it belongs to."""
    environment = Environment(tmp_path / "venv")
    link = tmp_path / "arcacct-record"
    link.symlink_to(environment.record)
    lay_job(host, "Job1")

    done = subprocess.run([link, host.control, "Job1", "FINISHED", host.conf], env={}, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert [row[0] for row in rows(str(host.database))["AAR"]] == ["Job1"]


def test_what_is_in_the_callers_environment_does_not_matter(host: Host, tmp_path: pathlib.Path) -> None:
    """Python's own variables and modules in the working directory do not reach a hook that runs as root."""
    environment = Environment(tmp_path / "venv")
    trap = tmp_path / "trap"
    (trap / "arcacct").mkdir(parents=True)
    for name in ("posix.py", "fcntl.py", "sitecustomize.py", "arcacct/__init__.py"):
        (trap / name).write_text("raise SystemExit('trapped')\n")
    lay_job(host, "Job1")

    done = subprocess.run(
        [environment.record, host.control, "Job1", "FINISHED", host.conf],
        env={"PYTHONPATH": str(trap), "PYTHONSTARTUP": str(trap / "posix.py"), "PYTHONHOME": str(trap)},
        cwd=trap,
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert [row[0] for row in rows(str(host.database))["AAR"]] == ["Job1"]
