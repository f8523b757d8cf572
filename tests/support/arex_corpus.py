"""The control directory of a real A-REX, laid out again with its times and owners, and what A-REX recorded of it."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from control_directory import set_up

from arcacct.arex.control_files import job_file, read_job
from arcacct.arex.sweep import record_event, sweep
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting

AREX = pathlib.Path(__file__).parents[1] / "data" / "arex"
"""A-REX 6.17."""
AREX7 = AREX.with_name("arex7")
"""A-REX 7.0.0."""
DEFAULT_BENCHMARK = "HEPSPEC:11.11"
"""[lrms] benchmark of that site."""


class Control(NamedTuple):
    """A control directory laid out for a test."""

    path: pathlib.Path
    owners: dict[int, str]
    """``user:group`` of each file by inode, as it was on the CE."""

    def owner(self, stat: os.stat_result) -> str:
        return self.owners[stat.st_ino]


def place(target: pathlib.Path, controldir: pathlib.Path | None = None) -> Places:
    """Our places for a control directory, with the corpus' benchmark."""
    here = places(None, set_up(controldir or target))
    here.rules.default_benchmark = DEFAULT_BENCHMARK
    return here


def rebuild(target: pathlib.Path, corpus: pathlib.Path = AREX) -> Control:
    """Copy the control directory and give each file its time back; owners are kept next to it."""
    shutil.copytree(corpus / "control", target, copy_function=shutil.copyfile, dirs_exist_ok=True)
    owners = {}
    for line in (corpus / "files.tsv").read_text().splitlines()[1:]:
        path, mtime, owner, _mode = line.split("\t")
        file = target / path.removeprefix("control/")
        if path.startswith("control/") and file.is_file():
            seconds, _, fraction = mtime.partition(".")
            ns = int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))
            os.utime(file, ns=(ns, ns))
            owners[file.stat().st_ino] = owner
    return Control(target, owners)


def rebuild_hashed(target: pathlib.Path) -> Control:
    """The same directory as ARC 7 would keep it: files in ``jobs/abc/def/...``, status files without ``job.``."""
    control = rebuild(target)
    for old in [*target.glob("job.*"), *target.glob("*/job.*.status")]:
        move_to_hashed(target, old)
    return control


def move_to_hashed(control: pathlib.Path, old: pathlib.Path) -> None:
    """Move a file of a job to where ARC 7 keeps it; owner, times and inode stay."""
    _job, job_id, suffix = old.name.split(".")
    if suffix == "status":
        new = old.parent / f"{job_id}.status"
    else:
        new = pathlib.Path(job_file(str(control), job_id, suffix, hashed=True))
    new.parent.mkdir(parents=True, exist_ok=True)
    old.rename(new)


class HookCall(NamedTuple):
    """One call of the state-change hook as it happened."""

    time: str
    job_id: str
    state: str
    snapshot: pathlib.Path


def hook_calls() -> list[HookCall]:
    """Every hook call of the corpus in the order in which A-REX made them."""
    calls = []
    for hook in AREX.glob("snapshots/*/*/HOOK.txt"):
        lines = dict(
            line.partition("=")[::2] for line in hook.read_text().splitlines() if line.startswith(("time=", "arg"))
        )
        calls.append(HookCall(lines["time"], lines["arg1"], lines["arg2"], hook.parent))
    return sorted(calls)


def lay_out(call: HookCall, control: Control, *, hashed: bool = False) -> None:
    """Put a job's files as they were at a hook call, with the times and owners of HOOK.txt."""
    remove(call.job_id, control)
    stats = _stats(call.snapshot / "HOOK.txt")
    for source in call.snapshot.rglob("job.*"):
        name = str(source.relative_to(call.snapshot))
        file = control.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, file)
        mtime_ns, owner = stats[name]
        os.utime(file, ns=(mtime_ns, mtime_ns))
        control.owners[file.stat().st_ino] = owner
        if hashed:
            move_to_hashed(control.path, file)


def remove(job_id: str, control: Control) -> None:
    """Remove the files of a job, in either layout."""
    for old in [*control.path.glob(f"job.{job_id}.*"), *control.path.glob(f"*/*{job_id}.status")]:
        old.unlink()
    shutil.rmtree(pathlib.Path(job_file(str(control.path), job_id, "", hashed=True)), ignore_errors=True)


def swept(control: Control) -> sqlite3.Connection:
    """Our database after one sweep over a control directory."""
    here = place(control.path)
    con = open_accounting(here)
    report = sweep(here, con, owner=control.owner)
    assert report.complaints == ()
    return con


def replayed(control: Control, *, hashed: bool = False) -> sqlite3.Connection:
    """Our database after every hook call of the corpus, in A-REX's order."""
    here = place(control.path)
    con = open_accounting(here)
    for call in hook_calls():
        lay_out(call, control, hashed=hashed)
        record_event(here, read_job(here.controldir, call.job_id, call.state, control.owner), con)
    return con


def _stats(hook: pathlib.Path) -> dict[str, tuple[int, str]]:
    stats = {}
    for line in hook.read_text().splitlines():
        if line.startswith("file="):
            path, rest = line.removeprefix("file=").split(" size=")
            day, clock, zone = rest.split("mtime=")[1].split(" owner=")[0].split(" ")
            seconds, _, fraction = clock.partition(".")
            epoch = int(datetime.fromisoformat(f"{day}T{seconds}{zone}").timestamp())
            name = path.removeprefix("/var/spool/arc/control/")
            stats[name] = (epoch * 10**9 + int(fraction), rest.split("owner=")[1].split(" ")[0])
    return stats


def arex_database(path: str = ":memory:") -> sqlite3.Connection:
    """What A-REX 6 itself recorded, in a file or in memory."""
    con = sqlite3.connect(path)
    con.executescript((AREX / "accounting.sql").read_text())
    return con


def arex7_database(path: str = ":memory:") -> sqlite3.Connection:
    """What A-REX 7 itself recorded, in a file or in memory."""
    con = sqlite3.connect(path)
    con.executescript((AREX7 / "accounting_v2.sql").read_text())
    return con


class Period(NamedTuple):
    """A time of A-REX 7's run, with a configuration of its own."""

    vomsless_vo: str
    """A line of [arex/jura]; empty: none."""
    authtokenmap: str
    """A line of [arex]; empty: ARC's default."""
    jobs: frozenset[str]


PERIODS = (
    Period("", "", frozenset()),
    Period("vomsless_vo = dteam.example.org", "", frozenset({"68298b8d9869", "6892a1499869"})),
    Period(
        "vomsless_vo = tokens dteam.example.org",
        "authtokenmap = sub:user,wlcg.groups:group",
        frozenset({"6a1decfe9869", "6a1d5b735cff"}),
    ),
)
"""The run of A-REX 7; whatever is not named ran in the first."""


def place7(folder: pathlib.Path, period: Period, ours: str = "") -> Places:
    """Our places for a control directory ``control`` next to arc.conf as it was then; ``ours`` is arcacct.conf."""
    text = (AREX7 / "arc.conf").read_text()
    text = text.replace("controldir = /var/spool/arc/control", f"controldir = {set_up(folder / 'control')}")
    text = text.replace("[arex/jura]\n", f"[arex/jura]\n{period.vomsless_vo}\n")
    text = text.replace("[arex]\n", f"[arex]\n{period.authtokenmap}\n")
    (folder / "arc.conf").write_text(text)
    (folder / "arcacct.conf").write_text(ours)
    return places(load(str(folder / "arc.conf"), {}))


def swept7(folder: pathlib.Path, con: sqlite3.Connection | None = None, ours: str = "") -> sqlite3.Connection:
    """Our database after a sweep at the end of each period, over the jobs that there were then."""
    control = rebuild(folder / "control", AREX7)
    away = folder / "later"
    away.mkdir()
    for job_id in _LATER:
        _files7(control.path, job_id).rename(away / job_id)
        (control.path / "finished" / f"{job_id}.status").rename(away / f"{job_id}.status")
    for period in PERIODS:
        here = place7(folder, period, ours)
        con = con or open_accounting(here)
        for job_id in period.jobs:
            back = _files7(control.path, job_id)
            back.parent.mkdir(parents=True, exist_ok=True)
            (away / job_id).rename(back)
            (away / f"{job_id}.status").rename(control.path / "finished" / f"{job_id}.status")
        assert sweep(here, con, owner=control.owner).complaints == ()
    assert con is not None
    return con


def hooked7(folder: pathlib.Path, con: sqlite3.Connection) -> None:
    """The last call of the hook for each job that ended, under the configuration of its time."""
    control = rebuild(folder / "control", AREX7)
    ended = {path.name.removesuffix(".status") for path in (control.path / "finished").iterdir()}
    for period in PERIODS:
        here = place7(folder, period)
        for job_id in sorted(period.jobs or ended - _LATER):
            record_event(here, read_job(here.controldir, job_id, "FINISHED", control.owner), con)


_LATER = frozenset().union(*(period.jobs for period in PERIODS))


def _files7(control: pathlib.Path, job_id: str) -> pathlib.Path:
    return pathlib.Path(job_file(str(control), job_id, "local", hashed=True)).parent


AAR_QUERY = """
    SELECT JobID, LocalJobID, Endpoints.Interface, Endpoints.URL, Queues.Name, Users.Name, WLCGVOs.Name, Status.Name,
           ExitCode, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime,
           UsedCPUKernelTime, UsedScratch, StageInVolume, StageOutVolume
    FROM AAR
    JOIN Endpoints ON Endpoints.ID = EndpointID JOIN Queues ON Queues.ID = QueueID JOIN Users ON Users.ID = UserID
    JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Status ON Status.ID = StatusID
"""

CHILDREN = {
    "AuthTokenAttributes": "AttrKey, AttrValue",
    "RunTimeEnvironments": "RTEName",
    "DataTransfers": "URL, FileSize, TransferStart, TransferEnd, TransferType",
    "JobExtraInfo": "InfoKey, InfoValue",
    "JobEvents": "EventKey, EventTime",
}


def records(con: sqlite3.Connection) -> dict[str, tuple[object, ...]]:
    """Every AAR by job id, names resolved."""
    return {row[0]: row[1:] for row in con.execute(AAR_QUERY)}


def children(con: sqlite3.Connection, table: str) -> dict[str, list[tuple[object, ...]]]:
    """The rows of a child table by job id, in the order in which they were written."""
    rows: dict[str, list[tuple[object, ...]]] = {job_id: [] for (job_id,) in con.execute("SELECT JobID FROM AAR")}
    for job_id, *row in con.execute(
        f"SELECT JobID, {CHILDREN[table]} FROM {table} JOIN AAR USING (RecordID) ORDER BY {table}.rowid"
    ):
        rows[job_id].append(tuple(row))
    return rows


def names() -> dict[str, str]:
    """The job id of each case of the corpus."""
    cases = {}
    for line in (AREX / "jobs.tsv").read_text().splitlines():
        name, job_id, *_rest = line.split("\t")
        cases[name] = job_id
    return cases


def each_job(check: Callable[[str], None], skip: set[str]) -> Iterator[str]:
    """Run a check on every job id that is not an intended difference."""
    for name, job_id in names().items():
        if job_id and name not in skip:
            check(job_id)
            yield name
