"""Whether system calls can be traced here, for the tests that need strace."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def _reason() -> str:
    """Why strace cannot be used here; empty when it can."""
    if not shutil.which("strace"):
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-o", os.devnull, "-e", "inject=uname:error=EIO", "true"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else f"strace may not trace here: {done.stderr.decode()[:80]}"


REASON = _reason()
strace_only = pytest.mark.skipif(bool(REASON), reason=REASON or "strace works")
