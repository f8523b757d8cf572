"""``arcacct`` as pip installed it, run as from a shell."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sysconfig

ARCACCT = os.path.join(sysconfig.get_path("scripts"), "arcacct")


def run_arcacct(
    *arguments: str, cwd: str | pathlib.Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it in a directory; ``env`` is added to the environment."""
    return subprocess.run(
        [ARCACCT, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
