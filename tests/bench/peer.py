"""ARC's own accounting programs, unmodified, from Debian's packages: unpacked into a folder, not installed."""

from __future__ import annotations

import functools
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

PACKAGES = ("nordugrid-arc-arex", "nordugrid-arc-arcctl", "libarccommon3v5")


@functools.cache
def arc_root() -> pathlib.Path | None:
    """Where ARC's files lie; ``None`` when the packages are not to be had (then ours alone are shown)."""
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        return None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-peer-"))
    found = subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, capture_output=True, check=False)
    if found.returncode != 0:
        return None
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    return folder / "root"


def jura(root: pathlib.Path, arc_conf: pathlib.Path) -> list[str]:
    """The command of ARC's publisher."""
    return [sys.executable, str(root / "usr/lib/arc/jura-ng"), "-c", str(arc_conf), "-d", "INFO"]


def environment(root: pathlib.Path) -> dict[str, str]:
    """What it needs to find its own modules."""
    return {"PYTHONPATH": str(root / "usr/lib/python3/dist-packages"), "ARC_LOCATION": str(root / "usr")}


def publish_everything(controldir: pathlib.Path, targets: list[str]) -> None:
    """Tell jura-ng that it published these targets up to 1970, so that it sends all there is."""
    con = sqlite3.connect(controldir / "accounting" / "publishing.db")
    con.execute(
        "CREATE TABLE IF NOT EXISTS AccountingTargets (TargetID TEXT UNIQUE NOT NULL, LastEndTime INTEGER NOT NULL,"
        " LastReport INTEGER NOT NULL)"
    )
    con.executemany("INSERT OR REPLACE INTO AccountingTargets VALUES (?, 1, 0)", [(target,) for target in targets])
    con.commit()
    con.close()
