"""
A month in the life of a CE: its jobs, accidents and repairs, day by day, with the real .deb in Debian 12 and 13.

The host has a clock of its own (libfaketime), and its receivers follow it. The month is the last one that is over.
Every day jobs of a real A-REX end again, with times and usage of that day, and Slurm's accounting has them, too. What
each place must have is the sum of what was written into the control directory and into the output of sacct.
"""

from __future__ import annotations

import calendar
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import systemctl
from arex_corpus import HookCall, hook_calls, names
from fake_sacct import SCRIPT
from launcher_calls import Calls
from package_hosts import CONTROL, LAUNCHER, ON_REQUEST, Host, Packages
from recording_host import until, waiting

from arcacct.sandbox import CE, Sandbox

pytestmark = ON_REQUEST
DAY_S = 86_400
CASES = ("exit7", "multicore", "staging", "unicode", "rte", "multinode")
"""Jobs of the corpus that run again each day."""
UNMEASURED = "rte"
"""The case whose .diag lacks wall and CPU time, as without GNU time on the node: Slurm has them."""
LOCAL_USER = "/DC=org/DC=example/CN=Alice"
TARGETS = f"""
[arcacct]
map = owner alice vo=atlas user={LOCAL_USER}

[arex/jura/sgas:s]
targeturl = {{0.sgas_url}}

[arex/jura/apel:a]
targeturl = {{0.ams_url}}
authn_port = {{0.authn_port}}
urdelivery_frequency = 43200
ca_system = no
gocdb_name = EXAMPLE-SITE

[arcacct/auditor:r]
targeturl = {{0.auditor_url}}
site_id = EXAMPLE-SITE
"""
DISK_BYTES = 4 * 2**30
"""Of the disk with the control directory: sparse, and far above the limits of the status."""


class Clock:
    """The time of the host and of its receivers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = time.time
        self.ahead_s = 0.0
        monkeypatch.setattr(time, "time", lambda: self._real() + self.ahead_s)

    @property
    def now_s(self) -> int:
        """UTC seconds."""
        return int(time.time())

    def set(self, now_s: int, file: pathlib.Path | None = None) -> None:
        """Make it this time (UTC seconds), on the host by the file that libfaketime reads there."""
        self.ahead_s = now_s - self._real()
        if file is not None:
            file.write_text(f"{self.ahead_s:+.3f}\n")


class Used(NamedTuple):
    """Jobs and what they used."""

    jobs: int = 0
    wall_s: int = 0
    cpu_s: int = 0


class Job(NamedTuple):
    """A job that runs on a day."""

    case: str
    """The id of the corpus' job; empty: the job came to Slurm without A-REX."""
    job_id: str
    number: int
    """In Slurm."""
    accepted_s: int
    vo: str
    cores: int
    wall_s: int
    cpu_s: int
    is_measured: bool = True
    exit_code: int = 0

    @property
    def times(self) -> dict[str, int]:
        """When it reached each state."""
        after = {"ACCEPTED": 0, "PREPARING": 10, "SUBMIT": 30, "FINISHING": self.wall_s + 50}
        return {state: self.accepted_s + s for state, s in {**after, "FINISHED": self.wall_s + 60}.items()}

    def written(self, content: bytes) -> bytes:
        """A file of the corpus' job as A-REX would have written it for this one."""
        began_s = self.accepted_s + 40
        usage = {"WallTime": f"{self.wall_s}.00s", "UserTime": f"{self.cpu_s - 2}.00s", "KernelTime": "2.00s"}
        values = {
            **(usage if self.is_measured else dict.fromkeys(usage)),
            "walltime": None,
            "Processors": self.cores,
            "LRMSStartTime": time.strftime("%Y%m%d%H%M%SZ", time.gmtime(began_s)),
            "LRMSEndTime": time.strftime("%Y%m%d%H%M%SZ", time.gmtime(began_s + self.wall_s)),
            "starttime": time.strftime("%Y%m%d%H%M%SZ", time.gmtime(self.accepted_s)),
            "lrms": "slurm",
            "localid": self.number,
        }
        text = content.replace(self.case.encode(), self.job_id.encode())
        text = text.replace(b"2026-11-20", time.strftime("%Y-%m-%d", time.gmtime(self.accepted_s)).encode())
        for name, value in values.items():
            line = b"" if value is None else f"{name}={value}\n".encode()
            text = re.sub(rf"(?m)^{name}=.*\n".encode(), line, text)
        return text

    @property
    def row(self) -> dict[str, str]:
        """What sacct says of it, times in seconds."""
        began_s = self.accepted_s + 40
        values = {
            "JobIDRaw": self.number,
            "JobID": self.number,
            "Cluster": "example",
            "State": "FAILED" if self.exit_code else "COMPLETED",
            "Submit": self.accepted_s + 35,
            "Start": began_s,
            "End": began_s + self.wall_s,
            "ElapsedRaw": self.wall_s,
            "AllocCPUS": self.cores,
            "NCPUS": self.cores,
            "NNodes": 1,
            "AllocTRES": f"cpu={self.cores},node=1",
            "ExitCode": f"{self.exit_code}:0",
            "TotalCPU": _clock_time(self.cpu_s),
            "UserCPU": _clock_time(self.cpu_s - 2),
            "SystemCPU": _clock_time(2),
            "Suspended": "00:00:00",
            "User": "griduser" if self.case else "alice",
            "Account": "grid",
            "JobName": "job",
            "NodeList": "wn01",
        }
        return {name: str(value) for name, value in values.items()}


def _clock_time(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _calls() -> dict[str, list[HookCall]]:
    """A-REX's calls of the launcher for each case, by the id of the corpus' job."""
    ids = names()
    found: dict[str, list[HookCall]] = {ids[name]: [] for name in CASES}
    for call in hook_calls():
        if call.job_id in found:
            found[call.job_id].append(call)
    return found


CALLS = _calls()


def jobs_of(day: int, midnight_s: int) -> list[Job]:
    """The jobs of a day; no two have the same usage."""
    made = []
    for order, (case, calls) in enumerate(CALLS.items()):
        (local,) = calls[-1].snapshot.glob("*.local")
        (diag,) = calls[-1].snapshot.glob("*.diag")
        voms = re.search(rb"(?m)^voms=/([^/\n]+)", local.read_bytes())
        cores = int(re.search(rb"(?m)^Processors=(\d+)", diag.read_bytes())[1])
        exit_code = int(re.search(rb"(?m)^exitcode=(\d+)", diag.read_bytes())[1])
        wall_s = 1000 * (order + 1) + 10 * day
        made.append(
            Job(
                case,
                f"{case[:-4]}d{day:03d}",
                100 * day + order + 1,
                midnight_s + 600 * order,
                voms[1].decode() if voms else "",
                cores,
                wall_s,
                wall_s * cores - 7 * (order + 1) - day,
                is_measured=case != names()[UNMEASURED],
                exit_code=exit_code,
            )
        )
    wall_s = 500 + day
    return [*made, Job("", "", 100 * day + 99, midnight_s + 6000, "atlas", 2, wall_s, wall_s + 11)]


def used(jobs: Sequence[Job]) -> dict[str, Used]:
    """What jobs used, by VO."""
    found: dict[str, Used] = {}
    for job in jobs:
        add(found, job.vo, 1, job.wall_s, job.cpu_s)
    return found


def add(found: dict[str, Used], vo: str, *values: int) -> None:
    """Add jobs, wall and CPU time of a VO to a sum."""
    found[vo] = Used(*map(sum, zip(found.get(vo, Used()), values, strict=True)))


@contextmanager
def own_disk(image: pathlib.Path, place: pathlib.Path) -> Iterator[None]:
    """A disk of its own, mounted at a place: the doctor would not take one in memory for a disk."""
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    place.mkdir(parents=True)
    if subprocess.run(["mount", "-o", "loop", image, place], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a loop device")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


class Lights(NamedTuple):
    """What `arcacct status` and `arcacct doctor` have to say."""

    status: int = 0
    """Its exit code."""
    doctor: int = 0
    """Its exit code."""
    subject: str = ""
    """What is not well, as the first line of `status` names it."""


GREEN = Lights()


class DatedHost(Host):
    """A host whose programs see the time that a file tells, once libfaketime is there."""

    @property
    def prefix(self) -> list[str]:
        library = next(self.path.glob("usr/lib/*/faketime/libfaketime.so.1"), None)
        if library is None:
            return super().prefix
        # The times of files are the real ones: each event is recorded while its job's status file has the time.
        options = ("FAKETIME_NO_CACHE=1", "NO_FAKE_STAT=1", "DONT_FAKE_MONOTONIC=1")
        return [*super().prefix, "env", *options, f"LD_PRELOAD=/{library.relative_to(self.path)}"]


class Site:
    """The CE with its A-REX and Slurm, its receivers and its clock, and the jobs that have run."""

    def __init__(self, ce: Host, box: Sandbox, clock: Clock, first_s: int) -> None:
        self.ce, self.box, self.clock, self.first_s = ce, box, clock, first_s
        self.day = 0
        self.jobs: list[Job] = []
        self.sent = dict.fromkeys(("SGAS", "APEL", "AUDITOR"), 0)
        """How many of the jobs each receiver must have."""
        self.has_recorder = False

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command that has to end with this code; what it says."""
        done = self.ce.does(*words)
        assert done.returncode == code, f"day {self.day}: {' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def begin(self, day: int, hour: int = 18) -> None:
        """Make it the evening, or another hour, of a day of the month; 0 is the day before."""
        self.day = day
        self.clock.set(self.first_s + (day - 1) * DAY_S + hour * 3600, self.ce.inside("/etc/faketimerc"))

    def date(self, day: int) -> str:
        """A day of the month as commands take it."""
        return time.strftime("%Y-%m-%d", time.gmtime(self.first_s + (day - 1) * DAY_S))

    @property
    def month(self) -> str:
        return self.date(1)[:7]

    @property
    def spool(self) -> pathlib.Path:
        return self.ce.inside(f"{CONTROL}/accounting/arcacct/spool")

    # A-REX and Slurm.

    def new_jobs(self) -> list[Job]:
        """The jobs of this day; A-REX cleans those of three days ago."""
        made = jobs_of(self.day, self.first_s + (self.day - 1) * DAY_S)
        self.jobs += made
        for job in self.jobs:
            if job.accepted_s < self.clock.now_s - 3 * DAY_S:
                self.clean(job)
        return [job for job in made if job.case]

    def play(self, jobs: Sequence[Job]) -> None:
        """A-REX runs jobs, and calls the launcher as its configuration said when it was started."""
        running = self.ce.inside(systemctl.RUNNING).read_text()
        commands = dict(re.findall(r"^statecallout=(\w+) \S+ (.+)$", running, re.MULTILINE))
        with self.ce.shell() as arex:
            assert arex.stdin
            assert arex.stdout
            for calls in zip(*(CALLS[job.case] for job in jobs), strict=True):
                for job, call in zip(jobs, calls, strict=True):
                    self.lay_out(job, call)
                    words = {"%C": CONTROL, "%I": job.job_id, "%S": call.state}
                    command = [words.get(word, word) for word in commands[call.state].split()]
                    arex.stdin.write(f"{' '.join(command)} 2>/dev/null; echo ended with $?\n")
                    arex.stdin.flush()
                    assert arex.stdout.readline() == "ended with 0\n", (self.day, call)
                self.record(call.state)
            arex.stdin.close()
        until(lambda: not list(self.spool.glob(".tmp-*")))

    def restart_arex(self, word: str = "") -> None:
        """Start A-REX with the callouts of the package, and a word of 0.2 before their arguments."""
        self.ce.call_out()
        conf = self.ce.inside("/etc/arc.conf")
        conf.write_text(conf.read_text().replace(f"{LAUNCHER} ", f"{LAUNCHER} {word}"))
        self.run("systemctl", "restart", "arc-arex")

    def record(self, state: str) -> None:
        """The recorder takes what came; without one each event of the spool gets the time of the host's clock."""
        if self.has_recorder:
            until(lambda: not waiting(str(self.spool)))
            return
        for event in self.spool.glob(f"*-{state}-*") if state != "FINISHED" else ():
            os.utime(event, (self.clock.now_s,) * 2)

    def lay_out(self, job: Job, call: HookCall | None = None) -> None:
        """Put the files of a job as they were at a call, or in the end."""
        call = call or CALLS[job.case][-1]
        self.clean(job)
        for source in call.snapshot.rglob("job.*"):
            name = str(source.relative_to(call.snapshot)).replace(job.case, job.job_id)
            file = self.ce.inside(CONTROL) / name
            file.write_bytes(job.written(source.read_bytes()))
            os.utime(file, (job.times[call.state],) * 2)

    def clean(self, job: Job) -> None:
        """Remove the files of a job."""
        control = self.ce.inside(CONTROL)
        for old in (*control.glob(f"job.{job.job_id}.*"), *control.glob(f"*/job.{job.job_id}.status")):
            old.unlink()

    def start_recorder(self) -> None:
        """Start the service; it has taken what was in the spool when this returns."""
        self.run("systemctl", "start", "arcacct-recorder.service")
        self.has_recorder = True
        until(lambda: not waiting(str(self.spool)))

    # The timers of arcacct, what they lead to, and what tells of it.

    def work(self, *, publish: int = 0) -> None:
        """Sweep, import Slurm's accounting and publish, which ends with this code."""
        self.run("arcacct", "sweep")
        rows = [job.row for job in self.jobs if job.accepted_s > self.clock.now_s - 3 * DAY_S]
        self.ce.inside("/var/lib/slurm/rows.json").write_text(json.dumps(rows))
        since = ("--since", self.date(1)) if self.day == 1 else ()
        self.run("arcacct", "import", "slurm", "--run", *since)
        self.run("arcacct", "publish", code=publish)

    def assert_figures(self, *down: str) -> None:
        """The database and each receiver that is not down have each job once; the others what they had."""
        for name in self.sent:
            self.sent[name] = self.sent[name] if name in down else len(self.jobs)
        printed = self.run("arcacct", "stats", "--from", self.date(1), "--by", "vo", "--format", "json")
        recorded = {one["vo"] or "": Used(one["jobs"], one["wall_s"], one["cpu_s"]) for one in json.loads(printed)}
        assert recorded == used(self.jobs), f"day {self.day}"
        for name, found in self.received().items():
            assert found == used(self.jobs[: self.sent[name]]), f"day {self.day}: {name}"

    def received(self) -> dict[str, dict[str, Used]]:
        """What each receiver has, by VO."""
        found: dict[str, dict[str, Used]] = {name: {} for name in self.sent}
        for row in self.box.sgas.records.values():
            add(found["SGAS"], row.vo_name or "", 1, row.wall_duration or 0, row.cpu_duration or 0)
        for row in self.box.apel.hybrid.values():
            vo = "" if row["VO"] == "None" else str(row["VO"])
            add(found["APEL"], vo, *(row[name] for name in ("NumberOfJobs", "WallDuration", "CpuDuration")))
        for record in self.box.auditor.records.values():
            (cpu_s,) = (one.amount for one in record.components if one.name == "TotalCPU")
            voms = (record.meta or {}).get("voms", ("",))[0]
            add(found["AUDITOR"], voms.lstrip("/").partition("/")[0], 1, record.runtime_s or 0, cpu_s)
        return found

    def assert_lights(self, lights: Lights = GREEN) -> None:
        """`arcacct status` and `arcacct doctor` say that all is well, or what is not."""
        said = self.run("arcacct", "status", code=lights.status)
        assert said.partition("\n")[0].partition(": ")[2] == lights.subject, f"day {self.day}\n{said}"
        self.run("arcacct", "doctor", "--timeout", "600", code=lights.doctor)


def install_around(ce: Host, box: Sandbox, clock: Clock) -> None:
    """What a CE has before arcacct comes: certificates, systemd, sacct, and a clock that can be set."""
    ce.run("apt-get", "update", "-q")
    ce.run("apt-get", "install", "-q", "-y", "--no-install-recommends", "libfaketime")
    # Its clock_nanosleep fails where the monotonic clock is the real one. Programs find the C library's once the symbol
    # has another name; that is the first of the two texts.
    (library,) = ce.path.glob("usr/lib/*/faketime/libfaketime.so.1")
    library.write_bytes(library.read_bytes().replace(b"\0clock_nanosleep\0", b"\0xlock_nanosleep\0", 1))
    systemctl.install(ce.inside("/usr/bin/systemctl"))
    security = ce.inside("/etc/grid-security")
    shutil.copytree(box.ca_dir, security / "certificates")
    host = box.authority.issue(CE, not_after=clock.now_s + 300 * DAY_S, directory=str(security / "made"))
    shutil.move(host.cert_path, security / "hostcert.pem")
    shutil.move(host.key_path, security / "hostkey.pem")
    slurm = ce.inside("/var/lib/slurm")
    slurm.mkdir()
    (slurm / "behaviour.py").write_text("")
    places = {"asked": "/var/lib/slurm/asked", "behaviour": "/var/lib/slurm/behaviour.py"}
    sacct = ce.inside("/usr/bin/sacct")
    sacct.write_text(SCRIPT.format(python="/usr/bin/python3", rows="/var/lib/slurm/rows.json", **places))
    sacct.chmod(0o755)


def last_month(now_s: int) -> tuple[int, int]:
    """When the last month started that is over for three days (UTC seconds), and how many days it had."""
    year, month = time.gmtime(now_s - 3 * DAY_S)[:2]
    year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return calendar.timegm((year, month, 1, 0, 0, 0)), calendar.monthrange(year, month)[1]


@contextmanager
def full(disk: pathlib.Path) -> Iterator[None]:
    """A disk without a free block."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    subprocess.run(["fallocate", "-l", str(free.f_bavail * free.f_frsize), ballast], capture_output=True, check=False)
    assert os.statvfs(disk).f_bavail == 0
    try:
        yield
    finally:
        ballast.unlink()


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param("bookworm", marks=pytest.mark.xdist_group("bookworm")),
        pytest.param("trixie", marks=pytest.mark.xdist_group("trixie")),
    ],
)
def test_a_month_in_the_life_of_a_ce(
    packages: Packages,
    make_host: Callable[[str], Host],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    suite: str,
) -> None:
    """
    Every day each job is counted once everywhere, and status and doctor are green when all is well, and only then.

    The version before is upgraded to this one, the recorder dies, the host restarts, no one makes backups, APEL does
    not answer for days, a disk fills up, AUDITOR refuses, and SGAS loses its data. In the end the month is verified,
    reported and sent again.
    """
    clock = Clock(monkeypatch)
    first_s, days = last_month(clock.now_s)
    ce = DatedHost(make_host(suite).path)
    disk = ce.inside("/var/spool/arc")
    clock.set(first_s - DAY_S // 2)
    with Sandbox(str(tmp_path / "box")) as box, own_disk(tmp_path / "disk", disk):
        site = Site(ce, box, clock, first_s)
        ce.become_a_ce()
        install_around(ce, box, clock)
        # The evening before the month: the version before is installed.
        site.begin(0)
        site.run("dpkg", "-i", ce.bring(packages.former_deb))
        with ce.inside("/etc/arcacct.conf").open("a") as file:
            file.write(TARGETS.format(box))
        site.restart_arex("spool-only ")
        site.run("arcacct", "db", "init")
        site.run("arcacct", "sweep")
        site.assert_lights()
        for day in range(1, days + 1):
            site.begin(day)
            a_day(site, packages, disk)
        # Jobs of the next month do not count in this one.
        for day in (days + 1, days + 2, days + 3):
            site.begin(day)
            site.play(site.new_jobs())
            site.work()
            site.assert_lights()
        end_of_month(site, days)
        ce.end_processes()


def a_day(site: Site, packages: Packages, disk: pathlib.Path) -> None:
    """What happens on a day of the month; in the end all is counted, and the lights are right."""
    box = site.box
    jobs = site.new_jobs()
    down: tuple[str, ...] = ()
    code, lights = 0, GREEN
    if site.day in (6, 15, 21, 28):
        site.begin(site.day, 12)
        site.run("arcacct", "db", "backup", "/var/backups/arcacct")
        site.begin(site.day)
    elif site.day in (13, 14):
        lights = Lights(1, 0, "backup")
    elif site.day in (16, 17, 18, 19, 20):
        # After a day it is a warning, after three it is critical.
        down, code = ("APEL",), 75
        lights = Lights(0, 75) if site.day == 16 else Lights(1 if site.day < 19 else 2, 75, "apel:a")
    elif site.day in (24, 25):
        # It refuses records only: the doctor's question is answered, and the last run is a warning.
        down, code, lights = ("AUDITOR",), 69, Lights(1, 0, "auditor:r")
    if site.day == 16:
        box.faults.answer("ams", 503, times=None)
    elif site.day == 24:
        box.faults.answer("auditor", 403, times=None)
    elif site.day in (21, 26):
        box.faults.clear()

    if site.day == 10:
        upgrade(site, jobs, packages)
    elif site.day in (11, 12):
        play_without_recorder(site, jobs)
    elif site.day == 22:
        play_on_full_disk(site, jobs, disk)
    else:
        site.play(jobs)
    site.work(publish=code)
    if site.day == 27:
        # No one can see that from here: SGAS' administrator asks for all of it again.
        box.sgas.delete_records(list(box.sgas.records))
        assert not site.received()["SGAS"]
        month = ("--from", site.date(1), "--to", site.date(site.day + 1))
        site.run("arcacct", "republish", *month, "--target", "sgas:s", "--yes")
    site.assert_figures(*down)
    site.assert_lights(lights)


def upgrade(site: Site, jobs: Sequence[Job], packages: Packages) -> None:
    """The package is upgraded while jobs end, and a recorder is there from now on."""
    for job in jobs:
        site.lay_out(job)
    with Calls(site.ce, [job.job_id for job in jobs]) as calls:
        said = site.run("dpkg", "-i", site.ce.bring(packages.deb))
    assert calls.count > len(jobs)
    assert "upgraded to schema" in said
    site.run("systemctl", "enable", "arcacct-recorder.service")
    site.start_recorder()


def play_without_recorder(site: Site, jobs: Sequence[Job]) -> None:
    """The recorder is killed, the next day the whole host; jobs end before it is back."""
    site.run("arcacct", "sweep")
    site.has_recorder = False
    if site.day == 11:
        os.kill(int(site.ce.inside("/run/arcacct-recorder.service.pid").read_text()), signal.SIGKILL)
    else:
        site.ce.end_processes()
        site.restart_arex()
    site.play(jobs)
    site.assert_lights(Lights(1, 0, "recorder service"))
    site.start_recorder()


def play_on_full_disk(site: Site, jobs: Sequence[Job], disk: pathlib.Path) -> None:
    """Half of the jobs end on a disk without a free block; then somebody makes room."""
    before, after = jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]
    # Before a day without a run is over, which is a warning of its own.
    site.begin(site.day, 12)
    site.play(before)
    for job in after:
        site.lay_out(job)
    site.run("arcacct", "sweep")
    with full(disk):
        for job in after:
            site.run(LAUNCHER, CONTROL, job.job_id, "FINISHED")
        site.ce.does("arcacct", "sweep")
        site.ce.does("arcacct", "publish", "--now")
        site.assert_lights(Lights(2, 74, "disk"))
    site.begin(site.day)


def end_of_month(site: Site, days: int) -> None:
    """The month is verified and reported; then all of it is sent again, and nothing has changed."""
    jobs = [job for job in site.jobs if job.accepted_s < site.first_s + days * DAY_S]
    month = Used(len(jobs), sum(job.wall_s for job in jobs), sum(job.cpu_s for job in jobs))
    for _ in range(2):
        found = json.loads(site.run("arcacct", "verify", site.month, "--format", "json"))
        places = {one["name"]: Used(one["jobs"], one["wall_s"], one["cpu_s"]) for one in found["sources"]}
        for name in ("database", "sgas:s", "auditor:r"):
            assert places[name] == month, name
        assert places["apel:a summaries"][:2] == month[:2]
        assert places["apel:a sync"].jobs == month.jobs
        site.run("arcacct", "report", "--month", site.month, "--csv", "/tmp/month.csv")
        with site.ce.inside("/tmp/month.csv").open(newline="") as file:
            rows = {(row["section"], row["key"], row["metric"]): row["value"] for row in csv.DictReader(file)}
        for vo, usage in used(jobs).items():
            assert rows["vo", vo or "(no VO)", "jobs"] == str(usage.jobs)
            assert float(rows["vo", vo or "(no VO)", "cpu_hours"]) == pytest.approx(usage.cpu_s / 3600, abs=1e-3)
        before = site.received()
        site.run("arcacct", "republish", "--from", site.date(1), "--to", site.date(days + 1), "--yes")
        assert site.received() == before
    site.assert_figures()
    site.assert_lights()
    site.run("arcacct", "db", "check")
