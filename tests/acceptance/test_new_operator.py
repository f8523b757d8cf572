"""A new operator, given only the manual: from nothing to a rehearsed publish, by the commands as they are printed."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager

import arex_corpus as corpus
import manual

ROOT = pathlib.Path(__file__).parents[2]
ELSEWHERE = re.compile(r"(?<![\w.])/(?=(?:opt|etc|usr/local)/)")
"""Before a place of the host: in the test it lies below a directory."""
NEEDS_NO_NETWORK = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_IGNORE_INSTALLED": "1"}
"""What pip would fetch is where these tests run."""
SYSTEMCTL = """#!/bin/sh
# Of systemd only what an operator asks: units that are not installed cannot be enabled.
for unit; do :; done
[ "$unit" = daemon-reload ] || [ -e "$UNITS/$unit" ] || { echo "Unit $unit not found." >&2; exit 5; }
"""


class Host:
    """A host with an A-REX that has run jobs, and nothing of arcacct; its places are those below a directory."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        for folder in ("opt", "etc/systemd/system", "usr/local/sbin", "bin"):
            (root / folder).mkdir(parents=True)
        self.control = corpus.rebuild(root / "control").path
        self.arc_conf = root / "etc/arc.conf"
        self.arc_conf.write_text(
            "[common]\nhostname=ce.example.org\n[lrms]\nlrms=fork\nbenchmark=HEPSPEC:11.11\n"
            f"[arex]\ncontroldir={self.control}\n"
        )
        systemctl = root / "bin/systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARC", "PYTHON", "PIP"))}
        path = os.pathsep.join([str(root / "bin"), str(root / "usr/local/sbin"), os.environ["PATH"]])
        units = str(root / "etc/systemd/system")
        self.environ = {**kept, **NEEDS_NO_NETWORK, "PATH": path, "UNITS": units, "ARC_CONFIG": str(self.arc_conf)}

    def here(self, text: str) -> str:
        """A text of the manual, or of a file that comes with the program, with the places of this host."""
        return ELSEWHERE.sub(f"{self.root}/", text).replace("python3.11 ", f"{sys.executable} ")

    def run(self, line: str, *codes: int, **environ: str) -> str:
        """What a command line, as printed, says in a checkout; asserts its exit code (0 if none is given)."""
        done = subprocess.run(
            ["bash", "-c", self.here(line)], cwd=ROOT, env={**self.environ, **environ}, text=True, capture_output=True,
            check=False,
        )  # fmt: skip
        assert done.returncode in (codes or (0,)), f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def take_over_libraries(self) -> None:
        """Into the environment of step 1: what pip would have fetched."""
        (folder,) = (self.root / "opt/arcacct/lib").glob("python3*/site-packages")
        (folder / "elsewhere.pth").write_text(sysconfig.get_path("purelib") + "\n")


def steps() -> dict[str, list[tuple[str, str]]]:
    """The blocks ``(language, text)`` of each step of the page "Install on a CE", by its heading."""
    section = manual.read("howto/install")
    parts = re.split(r"^## (\d\. .+)$", section, flags=re.MULTILINE)[1:]
    blocks = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return {title: blocks.findall(part) for title, part in zip(parts[::2], parts[1::2], strict=True)}


@contextmanager
def sandbox(host: Host, directory: pathlib.Path) -> Iterator[str]:
    """`arcacct sandbox`, running; gives the configuration that it prints."""
    command = ["arcacct", "sandbox", "--dir", str(directory)]
    with subprocess.Popen(command, env=host.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as box:
        assert box.stdout is not None
        assert box.stderr is not None
        # Its configuration is written as a whole before the first word about where it listens.
        box.stderr.readline()
        os.set_blocking(box.stdout.fileno(), False)
        try:
            yield box.stdout.read()
        finally:
            box.terminate()
            box.communicate()


def test_the_manual_leads_from_nothing_to_a_rehearsed_publish(tmp_path) -> None:
    """Each step as it stands there, in its order; then a rehearsal, whose receivers have all the jobs."""
    host = Host(tmp_path)
    assert [title[:2] for title in steps()] == [f"{number}." for number in range(1, 8)]
    for title, blocks in steps().items():
        if title.startswith("6."):
            break
        for language, text in blocks:
            if language != "sh":
                assert "statecallout=" in text
                with host.arc_conf.open("a") as conf:
                    conf.write(host.here(text))
                continue
            for line in text.splitlines():
                host.run(line)
                if " -m venv " in line:
                    host.take_over_libraries()
        if title.startswith("2."):
            # "If it has to be elsewhere, edit the line record= of the launcher."
            launcher = tmp_path / "usr/local/libexec/arcacct-hook"
            launcher.write_text(host.here(launcher.read_text()))

    # What A-REX and systemd do then.
    callout = next(line for line in host.arc_conf.read_text().splitlines() if line.startswith("statecallout=FINISHED"))
    job_id = next((host.control / "finished").iterdir()).name.split(".")[1]
    values = {"%C": str(host.control), "%I": job_id, "%S": "FINISHED"}
    words = [values.get(word, word) for word in shlex.split(callout.partition(" ")[2].partition(" ")[2])]
    subprocess.run(words, env=host.environ, check=True)
    assert '"jobs": 1' in host.run("arcacct stats --by month --format json")
    unit = (tmp_path / "etc/systemd/system/arcacct-sweep.service").read_text()
    host.run(next(line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")))
    assert '"jobs": 35' in host.run("arcacct stats --by month --format json")

    # "Rehearsing": a configuration of its own, and the same commands as step 6.
    with sandbox(host, tmp_path / "rehearsal") as configuration:
        rehearsal = tmp_path / "rehearsal.conf"
        rehearsal.write_text(configuration)
        own = {"ARCACCT_CONFIG": str(rehearsal)}
        host.run("arcacct config check", **own)
        host.run("arcacct publish --dry-run --since 2026-11-01", 69, **own)
        host.run("arcacct publish --since 2026-11-01", 69, **own)
        said = host.run("arcacct publish --accept-lower 2026-11", **own)
        assert "sent" in said
        story = host.run(f"arcacct job why {job_id}", **own)
    assert "accepted with HTTP 200" in story
    assert len(list((tmp_path / "rehearsal/received/sgas").iterdir())) == 1
    # Of all that the site's own ledger knows nothing.
    assert "message" not in host.run(f"arcacct job why {job_id}")
