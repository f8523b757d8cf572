"""The installed command line, run as people run it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from control_directory import set_up

ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")


def arcacct(
    *arguments: object, environment: dict[str, str] | None = None, cwd: pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed program; no traceback may ever reach a user."""
    if not os.access(ARCACCT, os.X_OK):
        pytest.skip(f"{ARCACCT} is not installed")
    done = subprocess.run(
        [ARCACCT, *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", **(environment or {})},
        cwd=cwd,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def configured(directory: pathlib.Path, ours: str = "") -> pathlib.Path:
    """An arc.conf whose control directory is beside it, and an arcacct.conf with these lines."""
    control = directory / "control"
    set_up(control)
    conf = directory / "arc.conf"
    conf.write_text(f"[arex]\ncontroldir={control}\n")
    (directory / "arcacct.conf").write_text(f"[arcacct]\n{ours}\n")
    return conf
