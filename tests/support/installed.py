"""The installed command line, run as people run it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import forked_program
import pytest
from control_directory import set_up

ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")


def arcacct(
    *arguments: object, environment: dict[str, str] | None = None, cwd: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed program; no traceback may ever reach a user."""
    if not os.access(ARCACCT, os.X_OK):
        pytest.skip(f"{ARCACCT} is not installed")
    given = {"PATH": "/usr/bin:/bin", **(environment or {})}
    words = [*map(str, arguments)]
    if forked_program.may_run(given):
        done = forked_program.run(ARCACCT, words, given, cwd)
    else:
        done = subprocess.run(
            [ARCACCT, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=given, cwd=cwd, check=False
        )
    assert "Traceback" not in done.stderr
    return done


def run_arcacct(
    *arguments: str, cwd: str | pathlib.Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Start it as from a shell, in a directory; ``env`` is added to the environment of this process."""
    return subprocess.run(
        [ARCACCT, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def configured(directory: pathlib.Path, ours: str = "") -> pathlib.Path:
    """An arc.conf whose control directory is next to it, and an arcacct.conf with these lines."""
    control = directory / "control"
    set_up(control)
    conf = directory / "arc.conf"
    conf.write_text(f"[arex]\ncontroldir={control}\n")
    (directory / "arcacct.conf").write_text(f"[arcacct]\n{ours}\n")
    return conf
