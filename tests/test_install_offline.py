"""
The recipe of docs/howto/install-offline.md, letter for letter: collected with a network, installed without one.

Needs PyPI, and root for a network of its own. Costs 20 s and a download of 11 MB.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import arcacct

pytestmark = pytest.mark.campaign

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs" / "howto" / "install-offline.md"
QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}


def recipe(title: str) -> str:
    """The first commands below a heading, as a person types them."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n.*?^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def shell(commands: str, folder: pathlib.Path, *before: str, **variables: str) -> subprocess.CompletedProcess[str]:
    # The python3 that the tests run with.
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin" / "python3").is_symlink():
        (folder / "bin" / "python3").symlink_to(getattr(sys, "_base_executable", sys.executable))
    return subprocess.run(
        [*before, "sh", "-ec", commands],
        cwd=folder,
        env={**os.environ, **QUIET, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes a network of its own")
def test_wheels_that_were_collected_install_without_a_network(tmp_path) -> None:
    """A program that runs, from the wheels alone; and without them nothing."""
    here = tmp_path / "connected"
    ignored = shutil.ignore_patterns(".git", "venv", "__pycache__", ".*_cache", "data", "site", "dist")
    shutil.copytree(ROOT, here, ignore=ignored)
    collected = shell(recipe("Collect"), here)
    if re.search("(?i)temporary failure in name resolution|failed to establish a new connection", collected.stderr):
        pytest.skip("PyPI cannot be reached")
    assert collected.returncode == 0, collected.stderr

    ce = tmp_path / "ce"
    ce.mkdir()
    shutil.copy(here / "wheels.tar", ce)
    alone = ("unshare", "--net")
    # What this machine has set for pip would be places to look at, too.
    none = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}
    done = shell(recipe("Install").replace("/opt/arcacct", f"{ce}/opt"), ce, *alone, **none)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"arcacct, version {arcacct.__version__}"), (
        done.stderr
    )
    assert (ce / "etc" / "arcacct-hook").is_file()

    for wheel in (ce / "wheels").glob("click-*.whl"):
        wheel.unlink()
    again = recipe("Install").replace("/opt/arcacct", f"{ce}/again").replace("tar -xf wheels.tar", ":")
    done = shell(again, ce, *alone, **none)
    assert done.returncode != 0
    assert "No matching distribution found for click" in done.stderr
