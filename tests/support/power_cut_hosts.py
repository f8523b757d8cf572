"""
Hosts on which the power is cut while something of ours runs, and what is lost of their jobs afterwards.

Each scenario prepares a host, traces one command on it, and judges any number of cuts: the disk is as the cut leaves
it, the next sweep (or run) does its work, and every job must be there as on a host where nothing ever happened.

What is traced is a command of ours, or the `rounds` of a scenario: this module as a program plays them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from typing import Any, NamedTuple

import spool_0_2 as spool
from disturbed_host import BENCHMARK, LIFE, job_files
from installed import ARCACCT
from job_files import Files, lay, rows
from power_cuts import Cut, Trace
from recording_host import LAUNCHER, Host

from arcacct.arex.control_files import job_file, read_job, status_files
from arcacct.arex.sweep import record_event
from arcacct.cli.main import main
from arcacct.config.paths import Places
from arcacct.database.access import open_accounting
from arcacct.errors import ArcacctError
from arcacct.records.integrity import check

JUDGED_S = 700
"""Seconds: events of this age that are not whole never will be."""

Jobs = dict[str, dict[str, Any]]
"""What is known of each job: its rows by table."""


class Loss(NamedTuple):
    """Something that is not as it must be."""

    kind: str
    """``missing``, ``unfinished``, ``aborted``, ``different``, ``never made``, ``damaged``, ``stuck``..."""
    about: str
    """A job, or a question that the database did not stand."""


class Scenario(ABC):
    """A command on a host that was traced, ready to be cut."""

    trace: Trace
    here: Places
    """Where the databases are after the cut."""

    def cuts(self, count: int, rule: str, seed: int) -> list[Cut]:
        """Cuts of this scenario, chosen by a seed."""
        return self.trace.cuts(count, rule, seed)

    def losses(self, cut: Cut) -> list[Loss]:
        """What is lost after a cut and all that is done about it afterwards."""
        self.trace.restore(cut)
        try:
            lost = self.after(cut)
            problems = [one.question for one in check(self.here) if one.problems]
        except (ArcacctError, sqlite3.Error) as error:
            return [Loss("damaged", str(error))]
        return [*(Loss("damaged", question) for question in problems), *lost]

    @abstractmethod
    def after(self, cut: Cut) -> list[Loss]:
        """Do what is done after a cut; what is lost then."""


# -- recording


def jobs_in(database: pathlib.Path) -> Jobs:
    """
    Every job with all of its rows; of an event its name alone, once.

    Some times only the launcher can know. An event that the cut left without its content has the time of its file,
    which `Recording.after` makes older.
    """
    jobs: Jobs = {}
    for table, found in rows(str(database)).items():
        for job_id, *values in found:
            kept = tuple(values[:1] if table == "JobEvents" else values)
            known = jobs.setdefault(str(job_id), {}).setdefault(table, [])
            if table != "JobEvents" or kept not in known:
                known.append(kept)
    for tables in jobs.values():
        for values in tables.values():
            values.sort(key=repr)
    return jobs


def jobs_of(count: int) -> dict[str, bool]:
    """So many jobs, and whether each failed."""
    return {f"Job{number:02}": number % 5 == 0 for number in range(count)}


def plain_files(job_id: str, state: str, *, failed: bool) -> Files:
    """The control files of a job in a state."""
    return job_files(job_id, state, LIFE.index(state), failed=failed)


def record(here: Places, jobs: Mapping[str, bool], files: Callable[..., Files]) -> None:
    """Record jobs to their end as a recorder that is killed, which closes nothing."""
    con = open_accounting(here)
    for job_id, failed in jobs.items():
        for state in LIFE:
            lay(pathlib.Path(here.controldir), files(job_id, state, failed=failed), job_id)
            record_event(here, read_job(here.controldir, job_id, state), con)


def run(conf: pathlib.Path, arguments: Sequence[str], codes: Collection[int] = (0,)) -> None:
    """Run a command, which must end with one of these exit codes."""
    try:
        main(["--config", str(conf), *arguments])
    except SystemExit as end:
        if int(end.code or 0) not in codes:
            raise ArcacctError(f"{' '.join(arguments)}: exit code {end.code}") from None


def in_child(work: Callable[[], object]) -> None:
    """Do some work in a process that ends without closing anything; the program ends where it fails."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:  # noqa: BLE001  it has to end here
            print(repr(error), file=sys.stderr)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        sys.exit("a part of the rounds failed")


def played(scenario: type[Scenario], *words: object) -> list[str]:
    """The command that plays the rounds of a scenario, each part in a process of its own."""
    return [sys.executable, __file__, scenario.__module__, scenario.__name__, *map(str, words)]


def compared(found: Jobs, wanted: Jobs) -> list[Loss]:
    """What is lost of the jobs that there must be."""
    lost = [Loss("never made", job_id) for job_id in sorted(found.keys() - wanted.keys())]
    for job_id, tables in sorted(wanted.items()):
        if job_id not in found:
            lost.append(Loss("missing", job_id))
        elif found[job_id] != tables:
            status, ought = (one["AAR"][0][6] for one in (found[job_id], tables))
            kind = "unfinished" if status == "in-progress" else str(status) if status != ought else "different"
            lost.append(Loss(kind, job_id))
    return lost


class Recording(Scenario):
    """
    A host whose jobs are recorded: by a recorder, by a sweep that drains the spool, or by one that reads the directory.

    ``control``: whether A-REX still has the job's files after the cut. Where it has not, those of jobs are gone whose
    events had been taken from it: for a client that is the moment from which it may clean its job.
    """

    JOBS = 24
    files = staticmethod(plain_files)
    """The control files of a job in a state."""

    def __init__(self, directory: pathlib.Path, *, control: bool) -> None:
        (directory / "ce").mkdir()
        (directory / "well").mkdir()
        self.host = Host(directory / "ce")
        self.well = Host(directory / "well")
        self.control = control
        self.marks = self.host.control.parent / "marks"
        self.marks.mkdir()
        self.jobs = jobs_of(self.JOBS)
        for host in (self.host, self.well):
            host.places.rules.default_benchmark = BENCHMARK
            host.conf.write_text(f"{host.conf.read_text()}[arex]\ncontroldir={host.control}\n")
        self.here = self.host.places
        self.trace = Trace.of(self.host.control.parent, *self.command())
        self.wanted = self.make_wanted()

    @abstractmethod
    def command(self) -> tuple[list[str], dict[str, str]]:
        """Prepare the host; the command that is traced, and what is added to its environment."""

    def make_wanted(self) -> Jobs:
        """What must be known of the jobs in the end: every state of each."""
        for job_id in self.jobs:
            self.record(self.well, job_id, LIFE)
        return jobs_in(self.well.database)

    def may_be_gone(self, cut: Cut) -> Iterable[str]:
        """The jobs whose control files a client may have removed by the time of the cut."""
        done = {os.path.basename(str(call.arguments[0])) for call in self.trace.calls[: cut.after] if self._marks(call)}
        return done & self.jobs.keys()

    def _marks(self, call: Any) -> bool:
        return call.method == "make" and os.path.dirname(call.arguments[0]) == str(self.marks)

    def record(self, host: Host, job_id: str, states: Iterable[str]) -> None:
        """Let a recorder have recorded some states, and lay down the control files of the last."""
        with closing(open_accounting(host.places)) as con:
            for state in states:
                self.lay(host, job_id, state)
                record_event(host.places, read_job(str(host.control), job_id, state), con)

    def lay(self, host: Host, job_id: str, state: str) -> None:
        lay(host.control, self.files(job_id, state, failed=self.jobs[job_id]), job_id)

    def clean(self, host: Host, job_id: str) -> None:
        """What A-REX does when a client cleans a job."""
        control = str(host.control)
        suffixes = ("local", "diag", "statistics", "failed")
        paths = [job_file(control, job_id, suffix) for suffix in suffixes]
        for path in (*paths, *(path for state in LIFE for path in status_files(control, job_id, state))):
            pathlib.Path(path).unlink(missing_ok=True)

    def go_on(self, cut: Cut) -> None:
        """What A-REX does after a cut that it had not done before."""

    def after(self, cut: Cut) -> list[Loss]:
        pathlib.Path(self.host.places.maintenance).unlink(missing_ok=True)
        self.go_on(cut)
        if not self.control:
            for job_id in self.may_be_gone(cut):
                self.clean(self.host, job_id)
        self.host.sweep()
        # What the cut left of an event is judged after ten minutes.
        for path in self.host.spool:
            os.utime(path, (path.stat().st_mtime - JUDGED_S,) * 2)
        self.host.sweep()
        stuck = [Loss("stuck", path.name) for path in self.host.spool]
        return [*stuck, *compared(jobs_in(self.host.database), self.wanted)]


class Draining(Recording):
    """`arcacct sweep` drains a spool that 0.2 filled; jobs are known to the database up to different states."""

    def command(self) -> tuple[list[str], dict[str, str]]:
        for number, job_id in enumerate(self.jobs):
            recorded = (0, 4, 1)[number % 3]
            self.record(self.host, job_id, LIFE[:recorded])
            for state in LIFE[recorded:]:
                self.lay(self.host, job_id, state)
                self.spool(job_id, state)
            if not self.control:
                self.clean(self.host, job_id)
        return [ARCACCT, "--config", str(self.host.conf), "sweep"], {}

    def spool(self, job_id: str, state: str) -> None:
        """As the hook of 0.2 did while the database was away."""
        spool.write(self.host.places.spool, read_job(str(self.host.control), job_id, state))

    def may_be_gone(self, cut: Cut) -> Iterable[str]:
        return ()


class DrainingLaunched(Draining):
    """The same after the launcher filled the spool."""

    JOBS = 12

    def spool(self, job_id: str, state: str) -> None:
        assert self.host.call(state, job_id) == ""


class DrainingByPublish(Draining):
    """`arcacct publish` drains the spool before it looks for what is new; no job is one that its target wants."""

    def command(self) -> tuple[list[str], dict[str, str]]:
        super().command()
        outgoing = self.host.control.parent / "outgoing"
        outgoing.mkdir()
        target = f"[arcacct/directory:d]\npath={outgoing}\ngocdb_name=SITE\nvofilter=nobody\n"
        (self.host.conf.parent / "arcacct.conf").write_text(target)
        return [ARCACCT, "--config", str(self.host.conf), "publish", "--now", "--since", "2024-06-01"], {}


_EACH = """
import ctypes, os, subprocess, sys
launcher, control, marks, *jobs = sys.argv[1:]
# The process that copies becomes ours.
ctypes.CDLL(None).prctl(36, 1)
for job in jobs:
    subprocess.run(["/bin/sh", launcher, control, job, "FINISHED"], check=True)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        os.mkdir(f"{marks}/{job}")
"""


class Launchers(Recording):
    """
    Callouts of jobs that have finished, one after the other, without a recorder.

    A launcher has handed over its event when the process has ended that copies the job's files and syncs the copy:
    A-REX does not wait for it, and no client cleans its job so soon.
    """

    JOBS = 10

    def command(self) -> tuple[list[str], dict[str, str]]:
        for job_id in self.jobs:
            self.record(self.host, job_id, LIFE[:-1])
            self.lay(self.host, job_id, "FINISHED")
        words = [LAUNCHER, str(self.host.control), str(self.marks)]
        return [sys.executable, "-I", "-c", _EACH, *words, *self.jobs], {}


_BESIDE_A_RECORDER = """
import ctypes, os, subprocess, sys, time
launcher, control, marks, conf, arcacct, spool, later, *jobs = sys.argv[1:]
ctypes.CDLL(None).prctl(36, 1)
recorder = subprocess.Popen([arcacct, "--config", conf, "sweep", "--follow", "--interval", "3600"])
while not os.path.exists(f"{spool}/.recorder") or not os.path.getsize(f"{spool}/.recorder"):
    assert recorder.poll() is None
    time.sleep(0.01)
for job in jobs:
    os.unlink(f"{control}/processing/job.{job}.status")
    for name in os.listdir(f"{later}/{job}"):
        os.rename(f"{later}/{job}/{name}", f"{control}/finished/{name}" if ".status" in name else f"{control}/{name}")
    subprocess.run(["/bin/sh", launcher, control, job, "FINISHED"], check=True)
    while any(name.endswith(job) for name in os.listdir(spool)):
        time.sleep(0.01)
    os.mkdir(f"{marks}/{job}")
recorder.terminate()
code = recorder.wait()
try:
    while True:
        os.wait()
except ChildProcessError:
    sys.exit(code)
"""


class BesideARecorder(Launchers):
    """
    Callouts next to a recorder, which records each event and removes it.

    That is when an event is handed over.
    """

    def command(self) -> tuple[list[str], dict[str, str]]:
        super().command()
        later = self.host.control.parent / "later"
        for job_id in self.jobs:
            # Else the recorder's first sweep finds that they have ended.
            (later / job_id).mkdir(parents=True)
            for path in (*self.host.control.glob(f"job.{job_id}.*"), *self.host.control.glob(f"*/job.{job_id}.status")):
                shutil.move(path, later / job_id)
            self.lay(self.host, job_id, "FINISHING")
        words = [LAUNCHER, str(self.host.control), str(self.marks)]
        words += [str(self.host.conf), ARCACCT, self.host.places.spool, str(later)]
        return [sys.executable, "-I", "-c", _BESIDE_A_RECORDER, *words, *self.jobs], {}

    def go_on(self, cut: Cut) -> None:
        gone = () if self.control else self.may_be_gone(cut)
        for job_id in self.jobs.keys() - set(gone):
            pathlib.Path(self.host.control, "processing", f"job.{job_id}.status").unlink(missing_ok=True)
            self.lay(self.host, job_id, "FINISHED")


class Sweeping(Recording):
    """`arcacct sweep` of a directory of jobs of which no event, or not the last one, has told; some have vanished."""

    VANISHED = 4

    def command(self) -> tuple[list[str], dict[str, str]]:
        for host in (self.well, self.host):
            self.fill(host)
        return [ARCACCT, "--config", str(self.host.conf), "sweep"], {}

    def fill(self, host: Host) -> None:
        for number, job_id in enumerate(self.jobs):
            vanished = number < self.VANISHED
            self.record(host, job_id, LIFE[:3] if vanished or number % 2 else ())
            self.lay(host, job_id, "FINISHED")
            if vanished:
                self.clean(host, job_id)

    def make_wanted(self) -> Jobs:
        self.well.sweep()
        wanted = jobs_in(self.well.database)
        ended = Counter(tables["AAR"][0][6] for tables in wanted.values())
        failed = sum(self.jobs.values()) - sum([*self.jobs.values()][: self.VANISHED])
        completed = len(self.jobs) - self.VANISHED - failed
        assert dict(ended) == {"aborted": self.VANISHED, "failed": failed, "completed": completed}
        return wanted


class Swept(Sweeping):
    """The same once the sweep has ended: from then on jobs may be cleaned."""

    def cuts(self, count: int, rule: str, seed: int) -> list[Cut]:
        return self.trace.cuts(count, rule, seed, first=len(self.trace.calls))

    def may_be_gone(self, cut: Cut) -> Iterable[str]:
        return self.jobs


def _play(module: str, name: str, *words: str) -> None:
    for part in getattr(import_module(module), name).rounds(*words):
        in_child(part)


if __name__ == "__main__":
    _play(*sys.argv[1:])
