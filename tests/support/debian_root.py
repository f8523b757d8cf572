"""
A Debian of its own below a directory, made by debootstrap, in which a test may install and start what it likes.

Needs root. What is mounted for a command is mounted in a namespace of that command alone: when the last process in it
has ended nothing is left, however the test ended.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

HOSTNAME = "ce.example.org"
PLACE = pathlib.Path(os.environ.get("ARCACCT_LIVE_ROOTS", "/var/tmp/arcacct-live"))
"""Where roots are made, and found again by the next run: some 600 MB each."""
_ENTER = """
hostname "$2" && mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" || exit 125
root=$1
shift 2
exec chroot "$root" "$@"
"""
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "DEBIAN_FRONTEND": "noninteractive",
}
_MADE = ".arcacct-live"
"""A file of the root that says which packages it has: it is written last."""


def said(*command: str | os.PathLike[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing of our environment; it may fail. What it said, on either stream, is in ``stdout``."""
    return subprocess.run(
        command,
        env={**_ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )


class DebianRoot:
    """A root directory and its commands."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @property
    def prefix(self) -> list[str]:
        """What stands before a command for it to run in this root, with /proc and /dev, as host ce.example.org."""
        return ["unshare", "--mount", "--uts", "sh", "-c", _ENTER, "sh", str(self.path), HOSTNAME]

    def does(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the root; it may fail. What it said, on either stream, is in ``stdout``."""
        return said(*self.prefix, *command, **environment)

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the root; fails with what it said."""
        done = self.does(*command, **environment)
        assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}"
        return done

    def shell(self, *words: str) -> subprocess.Popen[str]:
        """Start a shell in the root; what it prints, on either stream, comes from ``stdout``."""
        return subprocess.Popen(
            [*self.prefix, "sh", *words],
            env=_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def processes(self) -> Iterator[int]:
        """The processes that have this root."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "root") == str(self.path):
                    yield int(process.name)
            except OSError:
                continue

    def end_processes(self) -> None:
        """Kill what still runs in this root."""
        end = time.monotonic() + 30
        while left := list(self.processes()):
            assert time.monotonic() < end, f"processes that do not end: {left}"
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)


def debian_root(
    suite: str,
    packages: tuple[str, ...],
    *,
    name: str | None = None,
    include: tuple[str, ...] = ("ca-certificates", "python3", "openssl", "procps"),
) -> DebianRoot:
    """
    A root of this suite with these packages: the one of an earlier run, if it has them, else a new one.

    ``name`` is that of its directory, where it is not the suite's; ``include`` is what it is made with.
    """
    root = DebianRoot((PLACE / (name or suite)).resolve())
    made = root.path / _MADE
    wanted = "\n".join(packages)
    if made.exists() and made.read_text() == wanted:
        root.end_processes()
        return root
    if root.path.exists():
        root.end_processes()
        shutil.rmtree(root.path)
    root.path.mkdir(parents=True)
    # Its own mounts go with it, too.
    bootstrap = ["unshare", "--mount", "debootstrap", "--variant=minbase"]
    subprocess.run([*bootstrap, f"--include={','.join(include)}", suite, root.path], check=True)
    # No service is started, and the host knows its own name: A-REX's package asks for it.
    policy = root.path / "usr" / "sbin" / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    (root.path / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n127.0.0.1 {HOSTNAME} ce\n")
    shutil.copyfile("/etc/resolv.conf", root.path / "etc" / "resolv.conf")
    if packages:
        root.run("apt-get", "update", "-q")
        install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
        root.run(*install)
    made.write_text(wanted)
    return root


def clean(suite: str) -> DebianRoot:
    """A root of this suite with Python and nothing else, to make copies of; whoever comes first makes it."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with open(PLACE / f"packages-{suite}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return debian_root(suite, (), name=f"packages-{suite}", include=("python3",))


if __name__ == "__main__":
    # For whoever wants them to be there before any test: `python3 tests/support/debian_root.py bookworm trixie`.
    for suite in sys.argv[1:]:
        print(suite, clean(suite).run("python3", "--version").stdout, end="")
