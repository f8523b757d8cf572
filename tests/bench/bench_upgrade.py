"""
What an upgrade from 0.2.0 costs, and how much room it needs: the databases of a CE that used all of it.

Each job has all its rows, and telemetry of four hours; some were not measured, or have values that cannot be true. The
source of 0.2.0 publishes all in sums, a quarter also as records, and holds months since a filter was mistyped. Then its
databases are upgraded as the packages do it, while jobs end: their events must be recorded afterwards. Who
publishes or sweeps meanwhile has to come again. At last 0.2.0 restores the copies that the upgrade made.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from bench_publish import ARCACCT
from control_directory import set_up
from figures import Cost, Figure, cost_of, cpu_of
from generate import insert
from job_files import Files, lay

from arcacct.config.paths import Places, places
from arcacct.errors import StoreBusy
from arcacct.files.directories import resource

SIZES = {"smoke": 300, "small": 20_000, "large": 1_000_000}
FORMER = pathlib.Path(__file__).resolve().parents[1] / "packages" / "data" / "former.tar.xz"
TARGET = "[arcacct/directory:{0}]\npath={1}/{0}\ngocdb_name=BENCH\napel_messages={0}\n"
FILTERS = {"individual": "vofilter=atlas\n", "summaries": ""}
"""A quarter of the jobs is published as records, and all are in sums."""
FORMER_STARTS = "import sys; sys.path.insert(0, sys.argv.pop(1)); from arcacct.cli import main; main()"
SAMPLE_S = 0.02
EACH_S = 0.2
"""From the end of one job to that of the next."""
TELEMETRY = """
    INSERT INTO Clusters VALUES (1, 'slurm.example.org');
    INSERT INTO NodeNames SELECT RecordID, 1, printf('wn%03d.example.org', RecordID) FROM AAR WHERE RecordID <= 500;
    INSERT INTO SampledJobs SELECT RecordID, 1, CAST(LocalJobID AS INTEGER), 0, 0, 0 FROM AAR;
    CREATE TEMP TABLE Hours AS SELECT value AS Number FROM json_each('[0, 1, 2, 3]');
    INSERT INTO JobUsage
      SELECT RecordID, RecordID % 500 + 1, EndTime / 3600 * 3600 - 3600 * Number, 'atlasprd', 12, EndTime / 3600 * 3600,
             EndTime, 0, 3600 * CPUCount, 100000, 200000, 2000000, 4000000, 9, 30, 0, 0, 95.5, 96.5, 100.0
        FROM AAR CROSS JOIN Hours;
    INSERT INTO JobCardUsage
      SELECT RecordID, RecordID % 500 + 1, EndTime / 3600 * 3600 - 3600 * Number, 'GPU-' || RecordID % 500, 12, 3600.0,
             3000.0, 900000.0, 16000000, 0, 40.0
        FROM AAR CROSS JOIN Hours WHERE RecordID % 10 = 0;
    INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples, CPUS, PeakMemory, ReadKiB, WrittenKiB)
      SELECT RecordID, 1, CAST(LocalJobID AS INTEGER), 48, 3600, 2000000, 400000, 800000 FROM AAR;
    INSERT INTO RejectedRecords
      SELECT RecordID, 'sonar', '', 'samples.jsonl', RecordID, randomblob(32), 'no time', 0, 1, EndTime, 2000,
             randomblob(2000)
        FROM AAR WHERE RecordID % 1000 = 0;
    INSERT INTO DBConfig SELECT 'SONAR_ENRICHED_SEQ', max(Seq) FROM FinishedLog;
"""
"""Rows of 0.2.0 for each job, which has them: hours with samples, a tenth on a GPU, and what an import rejected."""
UNMEASURED = """
    UPDATE AAR SET UsedWalltime = 0, UsedCPUUserTime = 0, UsedCPUKernelTime = 0, UsedMemory = 0, UsedVirtMem = 0
     WHERE RecordID % 100 = 1
"""
IMPOSSIBLE = "UPDATE AAR SET UsedWalltime = 4294967295 WHERE RecordID % 1000 = 2"


SWEEP, PUBLISH = ("sweep",), ("publish", "--now", "--since", "2026-01-01")


class Upgrade(NamedTuple):
    """What `db upgrade` cost."""

    parts: dict[str, Cost]
    whole: Cost
    most_mb: float


class Meanwhile:
    """Jobs that end one after the other in a thread of its own, from the first callout until `end`."""

    def __init__(self, here: Places) -> None:
        self.ended = 0
        self.slowest_s = 0.0
        self.exit_codes: dict[tuple[str, ...], int] = {}
        """Of a sweep and a run of the publisher while the databases are under maintenance."""
        self._here = here
        self._is_enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        launcher = resource("etc", "arcacct-hook")
        while not self._is_enough.wait(EACH_S):
            self.ended += 1
            name = f"meanwhile{self.ended:08d}"
            lay(pathlib.Path(self._here.controldir), Files(), name)
            begun = time.monotonic()
            subprocess.run([launcher, self._here.controldir, name, "FINISHED"], check=True)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
            for words in (SWEEP, PUBLISH):
                if words not in self.exit_codes and os.path.exists(self._here.maintenance):
                    exit_code = run(self._here, *words).exit_code
                    # The upgrade may have ended before the command looked.
                    if os.path.exists(self._here.maintenance):
                        self.exit_codes[words] = exit_code

    def end(self) -> None:
        self._is_enough.set()
        self._thread.join()


def bench(size: str) -> list[Figure]:
    """CPU and time of each part, and room; the notes say what was lost or failed."""
    jobs = SIZES[size]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        return list(_figures(former_ce(folder, jobs), folder / "former", jobs))


def former_ce(folder: pathlib.Path, jobs: int) -> Places:
    """A CE whose jobs 0.2.0 has recorded and published."""
    site, former = folder / "site", folder / "former"
    with tarfile.open(FORMER) as archive:
        archive.extractall(former, filter="data")
    here = places(None, set_up(site))
    (site / "arc.conf").write_text(
        f"[common]\nhostname=ce.example.org\n[lrms]\nlrms=slurm\n[arex]\ncontroldir={site}\n"
    )
    targets = ""
    for kind, vofilter in FILTERS.items():
        (folder / kind).mkdir()
        targets += TARGET.format(kind, folder) + vofilter
    (site / "arcacct.conf").write_text(targets)
    done = [run(here, "db", "init", former=former)]
    with contextlib.closing(sqlite3.connect(here.database, isolation_level=None)) as con:
        insert(con, jobs)
        for text in (UNMEASURED, IMPOSSIBLE, TELEMETRY):
            con.executescript(f"BEGIN; {text}; COMMIT")
        con.execute("ANALYZE")
    done.append(run(here, *PUBLISH, former=former))
    # The last target is that of the sums.
    (site / "arcacct.conf").write_text(targets + "vofilter=mistyped\n")
    done.append(run(here, *PUBLISH, former=former))
    (site / "arcacct.conf").write_text(targets)
    # Sums by day and host are brought up to date.
    done.append(run(here, "db", "upgrade", former=former))
    # The first run sets records aside, if there are enough jobs; the second one holds months.
    assert [cost.exit_code for cost in done] in ([0, 0, 69, 0], [0, 65, 69, 0]), (site / "log").read_text()[-2000:]
    return here


def run(here: Places, *words: str, former: pathlib.Path | None = None) -> Cost:
    """A command of this program, or of the former one that was unpacked there."""
    start = [ARCACCT] if former is None else [sys.executable, "-c", FORMER_STARTS, str(former)]
    site = pathlib.Path(here.controldir)
    return cost_of([*start, "--config", str(site / "arc.conf"), *words], log=site / "log")


def _figures(here: Places, former: pathlib.Path, jobs: int) -> Iterator[Figure]:
    named = f"{jobs:,} jobs"
    yield from _of(f"{named}, backup by 0.2.0", run(here, "db", "backup", f"{former}/backup", former=former))
    before = _room(here)
    meanwhile = Meanwhile(here)
    try:
        upgrade = _upgraded(here)
    finally:
        meanwhile.end()
    for part, cost in upgrade.parts.items():
        yield from _of(f"{named}, {part}", cost)
    yield from _of(f"{named}, whole upgrade", upgrade.whole)
    after = _room(here)
    yield from _of(f"{named}, first sweep after the upgrade", run(here, *SWEEP))
    recorded = _count(here) - jobs
    # The records that were set aside are tried again.
    yield from _of(f"{named}, first publish after the upgrade", run(here, *PUBLISH), 65)
    folder = pathlib.Path(here.directory)
    copies = [path for name in ("publishing", "accounting") for path in folder.glob(f"{name}.db.before-schema-*")]
    back = [run(here, "db", "restore", "--yes", str(path), former=former) for path in copies]
    failed = "" if len(back) == 2 and _count(here) == jobs else f", FAILED with {_count(here):,} jobs"
    yield from _of(f"{named}, 0.2.0 restores both copies", Cost(*map(sum, zip(*back, strict=True))))
    for database in ("accounting.db", "publishing.db"):
        yield Figure(f"{named}, {database}: size before", before[database], "MB", note=failed)
        yield Figure(f"{named}, {database}: size after", after[database], "MB")
    both = sum(before.values())
    yield Figure(f"{named}: size of both databases", both, "MB")
    yield Figure(f"{named}: free space needed", upgrade.most_mb - both, "MB")
    yield Figure(f"{named}: copies that stay", sum(path.stat().st_size for path in copies) / 1e6, "MB")
    yield Figure(f"{named}: peak memory", upgrade.whole.peak_mib, "MiB")
    note = "" if recorded == meanwhile.ended else f"FAILED: {recorded} recorded"
    if {*meanwhile.exit_codes.values()} - {StoreBusy.exit_code}:
        note += f", FAILED: a sweep and a publish meanwhile ended with {meanwhile.exit_codes}"
    yield Figure(f"{named}, callouts meanwhile: number", meanwhile.ended, "", note=note)
    yield Figure(f"{named}, callouts meanwhile: longest wait", meanwhile.slowest_s * 1e3, "ms")


def _of(named: str, cost: Cost, *fine: int) -> Iterator[Figure]:
    note = "" if cost.exit_code in (0, *fine) else f"FAILED with {cost.exit_code}"
    yield Figure(f"{named}: CPU", cost.cpu_s, "s", note=note)
    yield Figure(f"{named}: time", cost.wall_s, "s")


def _upgraded(here: Places) -> Upgrade:
    """Run `db upgrade`, and look again and again at what it is doing, as its files tell."""
    parts: dict[str, Cost] = {}
    most_mb, cpu_s, peak_mib = 0.0, 0.0, 0.0
    begun = then = time.monotonic()
    site = pathlib.Path(here.controldir)
    with open(site / "log", "ab") as log:
        command = [ARCACCT, "--config", str(site / "arc.conf"), "db", "upgrade"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while True:
            time.sleep(SAMPLE_S)
            found = _part(os.listdir(here.directory))
            former_s, cpu_s = cpu_s, cpu_of(process.pid)
            peak_mib = _peak_mib(process.pid) or peak_mib
            most_mb = max(most_mb, sum(_room(here).values()) + _without_name_mb(process.pid))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            now = time.monotonic()
            known = parts.get(found, Cost(0, 0, 0, 0))
            parts[found] = known._replace(cpu_s=known.cpu_s + cpu_s - former_s, wall_s=known.wall_s + now - then)
            then = now
            if pid:
                break
        process.returncode = os.waitstatus_to_exitcode(status)
    whole = Cost(usage.ru_utime + usage.ru_stime, then - begun, peak_mib, process.returncode)
    return Upgrade(parts, whole, most_mb)


def _part(names: list[str]) -> str:
    """What `db upgrade` is doing, by the names next to the databases."""
    database = "publishing.db" if any(name.startswith("publishing.db.before-") for name in names) else "accounting.db"
    if any(name.endswith(".partial") for name in names):
        return f"copy of {database}"
    if "maintenance" in names:
        return f"schema of {database}"
    return "sums" if database == "publishing.db" else "start"


def _room(here: Places) -> dict[str, float]:
    """MB of each file next to the databases; a database has its WAL."""
    found: defaultdict[str, float] = defaultdict(float)
    with os.scandir(here.directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found[entry.name.removesuffix("-wal")] += entry.stat().st_size / 1e6
    return found


def _without_name_mb(pid: int) -> float:
    """Temporary files of SQLite."""
    found = 0
    for path in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(path).endswith(" (deleted)"):
                found += path.stat().st_size
    return found / 1e6


def _peak_mib(pid: int) -> float:
    """Of a process until now; 0 when it has ended. (That of its usage is at least the peak of who started it.)"""
    found = re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def _count(here: Places) -> int:
    with contextlib.closing(sqlite3.connect(here.database)) as con:
        return int(con.execute("SELECT count(*) FROM AAR").fetchone()[0])


if __name__ == "__main__":
    from figures import table

    print(table(bench("small")))
