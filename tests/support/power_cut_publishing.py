"""The power is cut while something is published: the receivers keep what they got, the site what is on its disk."""

from __future__ import annotations

import bisect
import functools
import pathlib
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from power_cut_hosts import Loss, Scenario, played
from power_cuts import Cut, Trace
from publishing_rig import TARGETS, some, written
from publishing_site import Job, Site, at_apel, at_sgas, truth, write

from arcacct.cli.main import main
from arcacct.config.parser import load
from arcacct.config.paths import Places
from arcacct.config.settings import settings
from arcacct.database import access
from arcacct.database.access import open_accounting
from arcacct.sandbox import Sandbox
from arcacct.sandbox.smime import Crashed
from arcacct.targets import kinds

KINDS = ("sgas", "jobs", "summaries", "dirq", "directory")
JOBS = 24
ROUNDS = 3
LONGER = 6
_SITES = {"jobs": "SITE", "summaries": "SUMS"}
_FOLDERS = {"dirq": "outgoing", "directory": "plain"}


def _configuration() -> str:
    """One target of each kind, each with a name of its own."""
    blocks = []
    for kind in KINDS:
        block = re.sub(r"(?<=[:])\w+(?=\])", kind, TARGETS[kind], count=1)
        block = re.sub("gocdb_name=.*", f"gocdb_name={_SITES.get(kind, kind.upper())}", block)
        blocks.append(block.replace("outgoing", _FOLDERS.get(kind, "")))
    return "".join(blocks)


class Publishing(Scenario):
    """
    Jobs are recorded and `arcacct publish` sends them, some rounds in a row; what was recorded is not synced.

    After the cut the sweep records what the database has lost, in another order, and for every second cut some jobs
    have become longer meanwhile; another run follows.
    """

    def __init__(self, directory: pathlib.Path, box: Sandbox) -> None:
        self.box = box
        _empty(box)
        root = directory / "site"
        root.mkdir()
        for folder in _FOLDERS.values():
            (root / folder).mkdir()
        self.site = Site(root, box, _configuration())
        self.here = self.site.settings.places
        self.jobs = some(JOBS)
        # As a site that recorded every job from the first: its months are whole.
        self.site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
        self.states: list[tuple[float, Any]] = [(0.0, _state(box))]
        """What the receivers had, and since when."""
        watched = [server.receiver for name, server in box.servers.items() if name != "authn"]
        for receiver in watched:
            receiver.answer = self._watching(receiver.answer)
        try:
            self.trace = Trace.of(root, played(Publishing, root))
        finally:
            for receiver in watched:
                del receiver.answer

    def _watching(self, work: Any) -> Any:
        def watched(request: Any) -> Any:
            answer = work(request)
            self.states.append((time.time(), _state(self.box)))
            return answer

        return watched

    def cuts(self, count: int, rule: str, seed: int) -> list[Cut]:
        """Half of them while a message is under way: just before its answer is known on this side, or just after."""
        chance = random.Random(seed)
        begun = [call.at_s for call in self.trace.calls]
        arrivals = [bisect.bisect(begun, when) for when, _state in self.states[1:]]
        return [
            cut._replace(after=min(chance.choice(arrivals) + chance.randrange(4), len(begun))) if number % 2 else cut
            for number, cut in enumerate(self.trace.cuts(count, rule, seed))
        ]

    @staticmethod
    def rounds(site: str) -> Iterator[Callable[[], object]]:
        """What is traced: some jobs are recorded, and published."""
        here = settings(load(f"{site}/arc.conf", {}), kinds()).places
        jobs, size = some(JOBS), JOBS // ROUNDS
        for first in range(0, JOBS, size):
            yield functools.partial(_record, here, jobs[first : first + size])
            yield functools.partial(main, ["--config", f"{site}/arc.conf", "publish", "--now", "--since", "2024-06-01"])

    def after(self, cut: Cut) -> list[Loss]:
        chance = random.Random(cut.seed)
        _restore(self.box, self._state_at(cut, chance))
        jobs = self.jobs
        if cut.seed % 2:
            longer = set(chance.sample(range(len(jobs)), LONGER))
            jobs = [job._replace(wall_s=job.wall_s + (1000 if at in longer else 0)) for at, job in enumerate(jobs)]
        self.site.record(*chance.sample(jobs, len(jobs)))
        outcomes = self.site.publish_all()
        errors = [Loss("refused", f"{one.target}: {one.error}") for one in outcomes if one.error is not None]
        sending = self.site.ledger("SELECT Target FROM Messages WHERE State = 'sending'")
        held = self.site.ledger(
            "SELECT Target FROM HeldRecords WHERE State <> 'correction' UNION"
            " SELECT Target FROM TargetMonths WHERE Cause IS NOT NULL"
        )
        return [*errors, *(Loss("stuck", target) for (target,) in (*sending, *held)), *self._received(jobs)]

    def _state_at(self, cut: Cut, chance: random.Random) -> Any:
        """
        What the receivers had at a cut.

        What was sent between the last call before it and the next one may have been sent before the cut or not.
        """
        calls = self.trace.calls
        begun_s = calls[cut.after - 1].at_s if cut.after else 0.0
        next_s = calls[cut.after].at_s if cut.after < len(calls) else float("inf")
        sure = sum(when <= begun_s for when, _state in self.states)
        possible = sum(when < next_s for when, _state in self.states)
        return self.states[chance.randint(sure, possible) - 1][1]

    def _received(self, jobs: list[Job]) -> list[Loss]:
        """What differs at the receivers from the jobs that there are."""
        tables = self.box.apel
        of_jobs = truth(jobs, by_lrms=True)
        sums = {
            (row["GlobalUserName"], row["Site"]): (row["NumberOfJobs"], row["WallDuration"])
            for row in tables.summaries.values()
        }
        wanted_sums: dict[tuple[str, str], tuple[int, int]] = {}
        for job in jobs:
            number, wall_s = wanted_sums.get((job.user_dn, _SITES["summaries"]), (0, 0))
            wanted_sums[job.user_dn, _SITES["summaries"]] = number + 1, wall_s + job.wall_s
        months = {(row["Site"], row["NumberOfJobs"]) for row in tables.sync_records.values()}
        pairs = {
            "sgas": self._at_sgas(jobs),
            "jobs": (at_apel(tables.job_records), of_jobs),
            "summaries": (sums, wanted_sums),
            "sync": (months, {(site, len(jobs)) for site in _SITES.values()}),
            **{kind: (_written(self.site.path / folder), of_jobs) for kind, folder in _FOLDERS.items()},
        }
        lost = [Loss("not as sent", name) for name, (found, wanted) in pairs.items() if found != wanted]
        counts = {"sgas": len(self.box.sgas.records), "jobs": len(tables.job_records)}
        return [*lost, *(Loss("twice", name) for name, count in counts.items() if count > len(jobs))]

    def _at_sgas(self, jobs: list[Job]) -> tuple[Any, Any]:
        """What SGAS has, and ought to have: it keeps the first version of a record, and then a correction is listed."""
        found, wanted = at_sgas(self.box.sgas.records), truth(jobs)
        first = truth(self.jobs)
        corrections = {
            job_id for (job_id,) in self.site.ledger("SELECT JobID FROM HeldRecords WHERE State = 'correction'")
        }
        return found, {job_id: first[job_id] if job_id in corrections else one for job_id, one in wanted.items()}


def _written(folder: pathlib.Path) -> Any:
    """What APEL would have after it took all files; of those that no one can read, the complaint."""
    try:
        return at_apel(written(folder))
    except (Crashed, ValueError) as torn:
        return str(torn)


def _state(box: Sandbox) -> Any:
    return dict(box.sgas._stored), {name: dict(table) for name, table in box.apel._tables.items()}


def _restore(box: Sandbox, state: Any) -> None:
    stored, tables = state
    box.sgas._stored = dict(stored)
    for name, table in tables.items():
        box.apel._tables[name] = dict(table)


def _empty(box: Sandbox) -> None:
    _restore(box, ({}, {name: {} for name in box.apel._tables}))


def _record(here: Places, jobs: list[Job]) -> None:
    """Record jobs as a recorder that is killed, which closes nothing."""
    con = open_accounting(here)
    for job in jobs:
        with access.writing(con, here):
            write(con, job)
