"""
`arcacct config check` and a real A-REX agree: what it passes starts A-REX, and what it refuses does not.

Runs on request (ARCACCT_LIVE=1), as root, on a Debian host that may be thrown away.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import debian_root
import live_arex
import live_arex7
import pytest

pytestmark = live_arex.ON_REQUEST

OPTIONS = "timeout=10,onsuccess=pass,onfailure=log,ontimeout=log"
LINES = {
    "a state of A-REX 7": f"statecallout=INLRMS {OPTIONS} {{launcher}} %C %I %S",
    "no options": "statecallout=FINISHED {launcher} %C %I %S",
    "no state": f"statecallout=RUNNING {OPTIONS} {{launcher}} %C %I %S",
    "a warning": "statecallout=FINISHED timeout=4 {launcher} %C %I %S",
}
STARTS = {6: {"a warning"}, 7: {"a state of A-REX 7", "a warning"}}
"""With which of the lines each release of A-REX starts."""

Check = Callable[[], subprocess.CompletedProcess[str]]


@contextmanager
def arex_6() -> Iterator[tuple[live_arex.LiveCE, str, Check, Callable[[str], object]]]:
    """A CE, its launcher, what `config check` says, and what writes a further line."""
    live_arex.install_packages()
    home = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-live-", dir="/var/tmp"))
    home.chmod(0o755)
    ce = live_arex.LiveCE(home)
    ce.prepare()
    text = ce.conf.read_text()
    program = os.path.join(os.path.dirname(sys.executable), "arcacct")

    def write(line: str) -> None:
        ce.conf.write_text(text.replace("[arex]\n", f"[arex]\n{line}\n", 1))

    write("")
    yield ce, str(home / "arcacct-hook"), lambda: ce.run([program, "config", "check"], check=False), write


@contextmanager
def arex_7() -> Iterator[tuple[live_arex.LiveCE, str, Check, Callable[[str], object]]]:
    """The same in a root."""
    root = debian_root.debian_root(live_arex7.SUITE, live_arex7.PACKAGES)
    try:
        ce = live_arex7.LiveCE7(root)
        ce.prepare()
        yield (
            ce,
            live_arex7.LAUNCHER,
            lambda: ce.arcacct("config", "check", check=False),
            lambda line: ce.configure("60-line.conf", f"[arex]\n{line}\n"),
        )
    finally:
        root.end_processes()


def starts(ce: live_arex.LiveCE) -> bool:
    """Whether A-REX runs ten seconds after its start script was called."""
    pid = ce.home / "arex.pid"
    pid.unlink(missing_ok=True)
    with open(ce.home / "start.log", "a") as output:
        done = subprocess.run(
            [*ce.prefix, "/usr/share/arc/arc-arex-start"],
            env=ce.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    time.sleep(10)
    lives = done.returncode == 0 and pid.exists() and os.path.exists(f"/proc/{pid.read_text().strip()}")
    ce.stop()
    return lives


@pytest.mark.parametrize("release", [6, 7])
def test_config_check_and_arex_agree(release: int) -> None:
    """Of the shipped lines, and of lines with each fault."""
    with {6: arex_6, 7: arex_7}[release]() as (ce, launcher, check, write):
        passed = check()
        assert (passed.returncode, starts(ce)) == (0, True), passed.stdout
        for name, line in LINES.items():
            write(line.format(launcher=launcher))
            found = check()
            assert (name, found.returncode == 0, starts(ce)) == (name, name in STARTS[release], name in STARTS[release])
        write("")
        assert (check().returncode, starts(ce)) == (0, True)
