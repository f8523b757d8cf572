"""From nothing to a verified first month on a clean Debian, by the commands as they are printed."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import first_month
import pytest
import systemctl
from package_hosts import ON_REQUEST, Host, Packages
from pip_hosts import PipRoad
from rpm_hosts import ON_REQUEST as ON_REQUEST_RPM
from rpm_hosts import rpm

pytestmark = ON_REQUEST
PAGE = "howto/install-packages"


class PackageRoad(first_month.Road):
    """Each line runs on a host of its own, on which arcacct is installed from a package."""

    example = "/usr/share/arcacct/arcacct.conf.example"

    def __init__(self, ce: Host, arc: int, package: pathlib.Path) -> None:
        super().__init__(ce.path, arc)
        self.ce, self.package = ce, package
        systemctl.install(self.at("/usr/bin/systemctl"))

    def shell(self, *words: str) -> subprocess.Popen[str]:
        return self.ce.shell(*words)

    def install(self) -> None:
        """By the page's line for Debian; an .rpm by rpm, since Debian has no dnf."""
        if self.package.suffix == ".rpm":
            done = rpm(self.ce, "-i", self.package)
            assert done.returncode == 0, done.stdout
            return
        (line,) = re.findall("^apt-get install .+$", first_month.section(PAGE, "Install\n"), re.MULTILINE)
        shutil.copyfile(self.package, self.at(line.rpartition("./")[2]))
        self.do(line)

    def record_by_hand(self) -> None:
        """By "After installing": for ARC 6 the lines go into arc.conf, for ARC 7 a file is copied."""
        part = first_month.section(PAGE, "After installing")
        (lines,) = re.findall(r"\*\*A-REX 6\*\*: copy the lines of `([^`]+)`", part)
        for language, block in first_month.blocks(part):
            for line in block.splitlines() if language == "sh" else ():
                if self.arc == 6 and "/arc.conf.d/" in line:
                    self.add_callouts(self.at(lines).read_text())
                else:
                    self.do(line)


def by_pip(folder: pathlib.Path, arc: int) -> first_month.Figures:
    """The figures of the month where arcacct was installed from a checkout."""
    road = PipRoad(folder / "host", arc, by_pip=False)
    try:
        return first_month.first_month(road, folder / "box", by_setup=True)
    finally:
        road.end_services()


@pytest.mark.parametrize(
    ("suite", "kind", "arc", "by_setup"),
    [
        pytest.param("bookworm", "deb", 6, False, marks=pytest.mark.xdist_group("bookworm")),
        pytest.param("bookworm", "rpm", 7, True, marks=[*ON_REQUEST_RPM, pytest.mark.xdist_group("bookworm")]),
        pytest.param("trixie", "deb", 6, True, marks=pytest.mark.xdist_group("trixie")),
        pytest.param("trixie", "deb", 7, False, marks=pytest.mark.xdist_group("trixie")),
    ],
)
def test_a_package_leads_from_nothing_to_a_verified_month(
    packages: Packages,
    make_host: Callable[[str], Host],
    tmp_path: pathlib.Path,
    once: Callable[[str, Callable[[pathlib.Path], Any]], Any],
    suite: str,
    kind: str,
    arc: int,
    by_setup: bool,
) -> None:
    """Recorded by the page's steps, or by those that `arcacct setup` prints; the figures are those of the other way."""
    road = PackageRoad(make_host(suite), arc, getattr(packages, kind))
    found = first_month.first_month(road, tmp_path / "box", by_setup=by_setup)
    assert [*found] == once(f"first-month-{arc}", lambda folder: by_pip(folder, arc))
