"""A target of any kind with its receiver, for the conformance suite, and another target that nothing is wrong with."""

from __future__ import annotations

import pathlib
import time
from typing import Any

from publishing_site import AUDITOR, CARS, QUICK, SGAS, SUMMARIES, Job, Site, at_apel, at_auditor, at_sgas, jobs, truth

from arcacct.config.parser import load
from arcacct.config.settings import settings
from arcacct.publishing.target_run import TargetResult
from arcacct.sandbox import Sandbox, apel
from arcacct.targets import kinds

HTTP = ("sgas", "cars", "jobs", "summaries", "auditor")
ONE_OF_EACH = ("sgas", "cars", "summaries", "auditor")
BATCH = 4
SLOW_S = 0.3
USERS = 3
"""So many sums the jobs of the suite make; a batch of sums holds two."""
OTHER = "[arcacct/directory:other]\npath={path}/other\ngocdb_name=OTHER\napel_messages=individual\n"
TARGETS = {
    "sgas": f"{SGAS}urbatchsize={BATCH}\n",
    "cars": f"{CARS}urbatchsize={BATCH}\n",
    "jobs": f"{CARS.replace('=urs', '=individual')}urbatchsize={BATCH}\n",
    "summaries": f"{SUMMARIES}urbatchsize=2\n",
    "auditor": f"{AUDITOR}urbatchsize={BATCH}\n",
    "dirq": f"[arcacct/directory:d]\npath={{path}}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
    f"urbatchsize={BATCH}\n",
}
TARGETS["directory"] = f"{TARGETS['dirq']}layout=directory\n"


def some(count: int, first: int = 0) -> list[Job]:
    """Jobs of a few users."""
    return [
        job._replace(user_dn=f"/DC=org/CN=User {number % USERS}", wall_s=100 + number)
        for number, job in enumerate(jobs(count, first), first)
    ]


class Rig:
    """A target of one kind with its receiver, and a second target that nothing is ever wrong with."""

    def __init__(self, kind: str, path: pathlib.Path, box: Sandbox) -> None:
        self.kind = kind
        self.box = box
        self.endpoint = kind if kind in {"sgas", "auditor"} else "ams"
        (path / "outgoing").mkdir()
        (path / "other").mkdir()
        self.path = path
        self.site = Site(path, box, TARGETS[kind] + OTHER)
        self.jobs: list[Job] = []

    def record(self, count: int) -> None:
        """More jobs."""
        new = some(count, len(self.jobs))
        self.jobs += new
        self.site.record(*new)

    def publish(self, **options: Any) -> TargetResult:
        """A run of both targets; the other one must have gone on."""
        first, other = self.site.publish_all(**options)
        assert other.error is None
        assert at_apel(written(self.path / "other")) == truth(self.jobs, by_lrms=True)
        return first

    def received(self) -> dict[Any, Any]:
        """What the receiver has, to be compared with `wanted`."""
        if self.kind == "sgas":
            return at_sgas(self.box.sgas.records)
        if self.kind == "auditor":
            return at_auditor(self.box.auditor.records)
        if self.kind == "summaries":
            sums = self.box.apel.hybrid.values()
            return {row["GlobalUserName"]: (row["NumberOfJobs"], row["WallDuration"]) for row in sums}
        if self.kind in {"dirq", "directory"}:
            return at_apel(written(self.path / "outgoing"))
        return at_apel(self.box.apel.job_records)

    def wanted(self, found: list[Job]) -> dict[Any, Any]:
        """What the receiver ought to have of some jobs."""
        if self.kind != "summaries":
            return truth(found, by_lrms=self.kind not in {"sgas", "auditor"})
        sums: dict[str, tuple[int, int]] = {}
        for job in found:
            number, wall_s = sums.get(job.user_dn, (0, 0))
            sums[job.user_dn] = (number + 1, wall_s + job.wall_s)
        return sums

    def assert_all_is_delivered(self) -> None:
        """The receiver has all of the database, the ledger knows it, and nothing waiting."""
        assert self.received() == self.wanted(self.jobs)
        assert self.box.apel.rejected == []
        assert self.site.audit() == []
        block = "arcacct/directory:d" if self.kind in {"dirq", "directory"} else self.site.settings.targets[0].block
        assert self.site.ledger("SELECT State FROM Messages WHERE Target = ? AND State = 'sending'", block) == []
        assert self.site.ledger("SELECT * FROM HeldRecords WHERE Target = ?", block) == []
        (highest,) = self.site.database("SELECT max(Seq) FROM FinishedLog")[0]
        assert self.site.ledger("SELECT LastSeq, LastError FROM Targets WHERE Target = ?", block) == [(highest, None)]
        last = self.site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", block)
        assert last == [(max(job.end_time for job in self.jobs),)]
        accepted = {
            job
            for (job,) in self.site.ledger(
                "SELECT JobID FROM SentRecords JOIN Messages USING (MessageID) WHERE Target = ? AND State = 'accepted'",
                block,
            )
        }
        assert accepted == (set() if self.kind == "summaries" else {job.job_id for job in self.jobs})


def written(folder: pathlib.Path) -> dict[Any, Any]:
    """APEL's table of jobs after it took every message of an outgoing directory, in the order of their names."""
    table = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        for record in apel.read(file.read_text("ascii").strip()):
            if record.table == "job_records":
                table[apel.key(record)] = record.values
    return table


def reconfigure(rig: Rig, config: str) -> None:
    (rig.path / "arc.conf").write_text(config)
    rig.site.settings = settings(load(str(rig.path / "arc.conf"), {}), kinds())


def repair(rig: Rig) -> None:
    """The receiver is what it should be again, and so is our configuration."""
    rig.box.faults.clear()
    if rig.site.timeouts != QUICK:
        time.sleep(SLOW_S)  # what the receiver still works on would overwrite what is newer
    rig.site.timeouts = QUICK
    if hasattr(rig, "good_config"):
        reconfigure(rig, rig.good_config)
