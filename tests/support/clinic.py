"""A site for `arcacct doctor`: everything in order, so that a test can break one thing."""

from __future__ import annotations

import os
import pathlib
import shutil
import time
from contextlib import closing
from typing import Any

from control_directory import set_up

from arcacct.arex.sweep import save_sweep
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.config.review import STATES
from arcacct.database import access, upkeep
from arcacct.files.directories import resource
from arcacct.health.doctor import examine
from arcacct.health.doctor_checks import Process, Site
from arcacct.health.facts import OK, Check
from arcacct.records import recorder
from arcacct.records.states import StateChange, Usage
from arcacct.sandbox import CE, Sandbox
from arcacct.sandbox.authority import Credential

DAY_S = 86_400
OPTIONS = "timeout=600,onsuccess=pass,onfailure=log,ontimeout=log"
SGAS = "[arex/jura/sgas:s]\ntargeturl={sgas}\n"
APEL = "[arex/jura/apel:a]\ntargeturl={ams}\nauthn_port={authn}\nca_system=no\ngocdb_name=SITE\n"
AUDITOR = "[arcacct/auditor:r]\ntargeturl={auditor}\nsite_id=SITE\n"
ALL = SGAS + APEL + AUDITOR
MOUNTS = "36 1 8:1 / / rw,relatime - {kind} /dev/sda1 rw\n"


class Clinic:
    """A CE below a directory, with callouts, a launcher, a database with jobs of today, a backup and targets."""

    def __init__(self, path: pathlib.Path, box: Sandbox | None = None, targets: str = "") -> None:
        self.path = path
        self.box = box
        self.credential: Credential | None = None
        self.control = pathlib.Path(set_up(path / "control"))
        self.launcher = path / "libexec" / "arcacct-hook"
        if box is not None:
            # The sandbox's own ends in ninety days; by its name the receivers know this one, too.
            self.credential = box.authority.issue(
                CE, not_after=int(time.time()) + 400 * DAY_S + DAY_S // 2, directory=str(path / "host"), rsa_key=False
            )
        self.in_order(targets)
        self.here: Places = places(load(str(self.conf), {}))
        access.initialise(self.here)

    def in_order(self, targets: str = "") -> None:
        """Configuration and launcher as they ought to be, whatever was done to them."""
        self.targets = targets
        self.common = ""
        self.ours = ""
        self.processes = [Process(4242, ())]
        self.lines = [f"statecallout={state} {OPTIONS} {self.launcher} %C %I %S" for state in STATES]
        shutil.rmtree(self.launcher.parent, ignore_errors=True)
        self.launcher.parent.mkdir()
        self.install()
        self.mounted("ext4")
        self.configure()

    @property
    def conf(self) -> pathlib.Path:
        return self.path / "arc.conf"

    def install(self, **settings: str) -> None:
        """Put the launcher there, with some of its lines edited."""
        with open(resource("etc", "arcacct-hook"), encoding="ascii") as file:
            text = file.read()
        for name, value in settings.items():
            lines = text.split("\n")
            (number,) = [number for number, line in enumerate(lines) if line.startswith(f"{name}=${{")]
            lines[number] = f"{name}={value}"
            text = "\n".join(lines)
        self.put(text)

    def put(self, text: str, mode: int = 0o755) -> None:
        """Another launcher."""
        self.launcher.write_text(text)
        self.launcher.chmod(mode)

    def mounted(self, kind: str) -> None:
        """Everything is on this kind of file system."""
        (self.path / "mountinfo").write_text(MOUNTS.format(kind=kind))

    def configure(self) -> None:
        """Write arc.conf and arcacct.conf as the attributes say."""
        words = {}
        common = "[common]\nhostname=ce.example.org\n"
        if self.box is not None and self.credential is not None:
            box = self.box
            words = {"sgas": box.sgas_url, "ams": box.ams_url, "authn": box.authn_port, "auditor": box.auditor_url}
            common += f"x509_host_key={self.credential.key_path}\nx509_host_cert={self.credential.cert_path}\n"
            common += "" if "x509_cert_dir" in self.common else f"x509_cert_dir={box.ca_dir}\n"
        callouts = "\n".join(self.lines)
        self.conf.write_text(
            f"{common}{self.common}[lrms]\nlrms=fork\nbenchmark=HEPSPEC:10.2\n[arex]\ncontroldir={self.control}\n{callouts}\n"
        )
        ours = self.path / "arcacct.conf"
        ours.write_text(f"[arcacct]\n{self.ours}\n{self.targets.format(**words) if words else self.targets}")
        for file in (self.conf, ours):
            file.chmod(0o644)

    def live(self, jobs: int = 3, *, ended_s: int = 600) -> None:
        """Some jobs have ended lately, a sweep has run, a backup was made."""
        now = int(time.time())
        with closing(access.open_accounting(self.here)) as con, access.writing(con, self.here):
            for number in range(jobs):
                for state in ("PREPARING", "SUBMIT", "FINISHING", "FINISHED"):
                    recorder.record(con, change(f"job{number}", state, now - ended_s))
            save_sweep(con)
        (self.control / "finished" / "job.job0.status").write_text("FINISHED\n")
        upkeep.backups(self.here, os.path.join(self.here.directory, "backups"))

    @property
    def around(self) -> dict[str, Any]:
        """What of this machine the doctor is to see."""
        return {
            "processes": lambda: self.processes,
            "mounts": str(self.path / "mountinfo"),
            "run_time_conf": str(self.path / "arched-arex.cfg"),
        }

    def site(self, limit_s: float = 60.0, launcher: str | None = None) -> Site:
        """As the doctor sees it, or `setup` with a launcher for callouts that are not written yet."""
        return Site(load(str(self.conf), {}), launcher=launcher, limit_s=limit_s, **self.around)

    def verdicts(self, *, offline: bool = True, limit_s: float = 180.0, question_s: float = 60.0) -> list[Check]:
        """Everything that is said."""
        return list(examine(self.site(question_s), limit_s=limit_s, offline=offline))

    def wrong(self, **how: float) -> list[Check]:
        """What is said and is not ok; without that no one was asked where no one was to be."""
        found = [one for one in self.verdicts(**how) if one.severity != OK]  # type: ignore[arg-type]
        return [one for one in found if one.subject != "receivers"]


def change(job_id: str, state: str, ended_s: int) -> StateChange:
    """What a callout reports of a job that ended at this time, or will."""
    facts = StateChange(job_id, state, (ended_s - 10 + STATES.index(state)) * 10**9, None)
    facts.known = True
    facts.queue, facts.user_dn, facts.vo = "main", "/DC=org/CN=Ada", "atlas"
    facts.submit_time = ended_s - 100
    facts.extra = {"benchmark": "HEPSPEC:10.0"}
    if state == "FINISHED":
        usage = facts.usage = Usage()
        usage.status, usage.end_time, usage.exit_code = "completed", ended_s, 0
        usage.wall_s, usage.cpu_user_s, usage.node_count, usage.core_count = 60, 50, 1, 1
    return facts
