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

import debian_root
import package_hosts
import pytest

ON_REQUEST = [
    *package_hosts.ON_REQUEST,
    pytest.mark.skipif(not shutil.which("rpm") or not shutil.which("cpio"), reason="needs rpm and cpio"),
]
SUITE = "bookworm"
_OUTSIDE = """
hostname "$2" && mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" || exit 125
root=$1
shift 2
exec rpm --root "$root" --dbpath /var/lib/rpm --nodeps --force-debian "$@"
"""


def rpm(ce: package_hosts.Host, *words: str | os.PathLike[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Call rpm on this host; it may fail. What it and its scriptlets said, on either stream, is in ``stdout``."""
    outside = ("unshare", "--mount", "--uts", "sh", "-c", _OUTSIDE, "sh", ce.path, debian_root.HOSTNAME)
    return debian_root.said(*outside, *words, **environment)


def files(ce: package_hosts.Host) -> set[str]:
    """Every file, link and directory of this host, without what rpm writes for itself."""
    return {name for name in ce.files() if not name.startswith("var/lib/rpm")}


def ask(package: pathlib.Path, *words: str) -> list[str]:
    """The lines that rpm answers about a package that is not installed."""
    done = subprocess.run(["rpm", *words, "-p", package], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return done.stdout.splitlines()
