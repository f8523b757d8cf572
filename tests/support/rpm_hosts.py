"""
The real `rpm` on the hosts of `package_hosts`: Debian has it, and it does with a package what it does on EL.

It runs outside the host with ``--root``, and enters it for the scriptlets, as an installer does. The host's Debian 12
has /usr/bin/python3.11, which the package needs; dpkg installed it, so rpm is told not to look (``--nodeps``).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from contextlib import contextmanager

import debian_root
import package_hosts
import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ON_REQUEST = [
    *package_hosts.ON_REQUEST,
    pytest.mark.skipif(not shutil.which("rpm") or not shutil.which("cpio"), reason="needs rpm and cpio"),
]
SUITE = "bookworm"
RUN_TIME_FILE = "/run/arched-arex.cfg"
"""What A-REX's start script leaves of the configuration that A-REX was started with."""
_OUTSIDE = """
hostname "$2" && mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" || exit 125
root=$1
shift 2
exec rpm --root "$root" --dbpath /var/lib/rpm --nodeps --force-debian "$@"
"""
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def rpm(ce: package_hosts.Host, *words: str | os.PathLike[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Call rpm on this host; it may fail. What it and its scriptlets said, on either stream, is in ``stdout``."""
    return subprocess.run(
        ["unshare", "--mount", "--uts", "sh", "-c", _OUTSIDE, "sh", ce.path, debian_root.HOSTNAME, *words],
        env={**_ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )


def files(ce: package_hosts.Host) -> set[str]:
    """Every file, link and directory of this host, without what rpm writes for itself."""
    return {name for name in ce.files() if not name.startswith("var/lib/rpm")}


def ask(package: pathlib.Path, *words: str) -> list[str]:
    """The lines that rpm answers about a package that is not installed."""
    done = subprocess.run(["rpm", *words, "-p", package], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout.splitlines()


@contextmanager
def running_arex(ce: package_hosts.Host) -> Iterator[None]:
    """A process by the name of A-REX's runs, started with the configuration that the host has now."""
    shutil.copyfile(ce.inside("/etc/arc.conf"), ce.inside(RUN_TIME_FILE))
    ce.run("cp", "/usr/bin/sleep", "/tmp/arched")
    process = subprocess.Popen([*ce.prefix, "/tmp/arched", "infinity"])
    try:
        while pathlib.Path(f"/proc/{process.pid}/comm").read_text() != "arched\n":
            assert process.poll() is None
        yield
    finally:
        process.kill()
        process.wait()
        ce.inside(RUN_TIME_FILE).unlink()
