"""A host below a directory, on which arcacct is installed by pip as the manual says; no root is needed."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import sysconfig
from contextlib import suppress

import first_month
import forked_program
import systemctl
from installed import ARCACCT

ROOT = pathlib.Path(__file__).parents[2]
_PLACES = re.compile(r"(?<![\w.])/(?=(?:opt|etc|usr/local)/)")
"""Before a place of the host: in the test it lies below a directory."""
_NEEDS_NO_NETWORK = {
    "PIP_NO_DEPS": "1",
    "PIP_NO_BUILD_ISOLATION": "0",
    "PIP_NO_INDEX": "1",
    "PIP_IGNORE_INSTALLED": "1",
}
"""What pip would fetch is where these tests run."""


class PipRoad(first_month.Road):
    """Each line runs in a checkout, with the places of this host."""

    example = "/usr/share/arcacct.conf.example"

    def __init__(self, root: pathlib.Path, arc: int, *, by_pip: bool) -> None:
        """``by_pip``: install the program, too, instead of taking the one that runs the tests."""
        super().__init__(root, arc)
        self.by_pip = by_pip
        for folder in ("opt", "etc/systemd/system", "usr/local/sbin", "usr/share", "bin"):
            (root / folder).mkdir(parents=True)
        self.at(self.example).symlink_to(ROOT / "etc" / "arcacct.conf.example")
        systemctl.install(root / "bin" / "systemctl", str(root))
        self.setup_options = f" --launcher {root}/usr/local/libexec/arcacct-hook"
        other = ("ARC", "PYTHON", "PIP", "LANG", "LC_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(other)}
        path = os.pathsep.join([str(root / "bin"), str(root / "usr/local/sbin"), os.environ["PATH"]])
        # An A-REX that this machine has is not the one of this host.
        arc = {"ARC_CONFIG": f"{root}/etc/arc.conf", "ARC_LOCATION": f"{root}/usr"}
        self.environ = {**kept, **_NEEDS_NO_NETWORK, **arc, "PATH": path}

    def named(self, path: str) -> str:
        return str(self.at(path))

    def here(self, text: str) -> str:
        """A text of the manual, or of a file that comes with the program, with the places of this host."""
        return _PLACES.sub(f"{self.root}/", text).replace("python3.11 ", f"{sys.executable} ")

    def shell(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", *map(self.here, words)], cwd=ROOT, env=self.environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def type(self, line: str) -> tuple[int, str]:
        program, *words = self.here(line).split()
        if self.by_pip or program != "arcacct":
            return super().type(line)
        done = forked_program.run(ARCACCT, words, self.environ)
        return done.returncode, done.stdout + done.stderr

    def install(self) -> None:
        """By steps 1 and 2 of the page; what pip would have fetched is taken from here."""
        page = "howto/install"
        if not self.by_pip:
            self.at("/opt/arcacct").symlink_to(sys.prefix)
        for _language, block in first_month.blocks(first_month.section(page, "1. Install the program")):
            for line in block.splitlines():
                if self.by_pip or line.startswith("ln "):
                    self.do(line)
                if self.by_pip and " -m venv " in line:
                    (folder,) = self.at("/opt/arcacct/lib").glob("python3*/site-packages")
                    (folder / "elsewhere.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.do_page(first_month.section(page, "2. Install the launcher"))

    def record_by_hand(self) -> None:
        """By steps 3 to 5; for ARC 7 with what its own page says instead of step 4."""
        self.do_page(first_month.section("howto/install", "3. Create the databases"))
        if self.arc == 6:
            part = first_month.section("howto/install", "4. Add the callouts")
            self.add_callouts("".join(self.here(text) for language, text in first_month.blocks(part) if not language))
        else:
            part = first_month.section("howto/install-arc7", "Step 4")
            # A-REX's own program.
            part = re.sub("(?m)^arcctl .*\n", "", part)
        self.do_page(part)
        if self.arc == 7:
            # What a copy of etc/ names is the place of a real host.
            callouts = self.at("/etc/arc.conf.d/arcacct.conf")
            callouts.write_text(self.here(callouts.read_text()))
            self.do("systemctl restart arc-arex")
        self.do_page(first_month.section("howto/install", "5. Start the sweep"))

    def end_services(self) -> None:
        """End what `systemctl` started and runs on."""
        for file in self.at("/run").glob("*.pid"):
            # One that ended by itself is what a test is about to complain of.
            with suppress(ProcessLookupError):
                os.killpg(int(file.read_text()), signal.SIGTERM)
