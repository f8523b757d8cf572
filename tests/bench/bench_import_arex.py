"""
What `arcacct import arex` costs: a database of A-REX (schema version 1) with --jobs jobs is made, then imported twice.

    python tests/bench/bench_import_arex.py --jobs 100000

A job has 2 FQANs, 9 events, 1 run time environment, 2 transfers and 8 extra values, as those of a busy CE have.
Nothing of ARC's reads one database into another, so there is no peer: the figure to compare with is the budget,
1,000,000 jobs in minutes with flat memory.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))

SCHEMA = TESTS / "data" / "arex" / "accounting.sql"
FIRST_S = 1_700_000_000
_CHUNK = 10_000


def make(path: pathlib.Path, jobs: int) -> None:
    """A database as A-REX 6 leaves it, closed and in rollback-journal mode."""
    con = sqlite3.connect(path)
    con.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    for statement in SCHEMA.read_text().split(";\n"):
        if statement.strip().startswith("CREATE"):
            con.execute(statement)
    con.execute("INSERT INTO Endpoints VALUES (1, 'org.nordugrid.arcrest', 'https://ce.example.org:443/arex')")
    con.executemany("INSERT INTO Queues VALUES (?, ?)", [(1, "main"), (2, "long")])
    con.executemany(
        "INSERT INTO Users VALUES (?, ?)", [(n, f"/DC=org/DC=example/O=Grid/CN=User {n}") for n in range(1, 201)]
    )
    con.executemany("INSERT INTO WLCGVOs VALUES (?, ?)", [(1, "atlas"), (2, "alice")])
    con.executemany("INSERT INTO Status VALUES (?, ?)", [(1, "in-progress"), (2, "completed"), (3, "failed"), (4, "")])
    for start in range(1, jobs + 1, _CHUNK):
        _fill(con, range(start, min(start + _CHUNK, jobs + 1)))
    con.commit()
    con.close()


def _fill(con: sqlite3.Connection, numbers: range) -> None:
    def at(seconds: int) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))

    aar, tokens, events, rtes, transfers, extra = [], [], [], [], [], []
    for n in numbers:
        job, start, end = f"{n * 2654435761 % 2**32:08x}DmABFKDmABFKDmABFKDm86LKDm{n:018d}", FIRST_S + n * 20, 0
        end = start + 3600
        dimensions = (1, 1 + n % 2, 1 + n % 200, 1 + n % 2, 2 + (n % 20 == 0))
        usage = (1, 8, 2_000_000, 2_500_000, 3500, 26_000, 300, 0, 10_000_000, 5_000_000)
        aar.append((n, job, str(n), *dimensions, 0, start, end, *usage))
        tokens += [(n, "mainfqan", "/atlas/Role=production"), (n, "vomsfqan", "/atlas")]
        times = [start, start + 1, start + 60, start + 62, end - 30, end, start + 63, end - 40, start + 2]
        names = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "FINISHING", "FINISHED", "LRMSSTART", "LRMSEND")
        events += [(n, key, at(when)) for key, when in zip((*names, "DTRDOWNLOADSTART"), times, strict=True)]
        rtes.append((n, "ENV/PROXY"))
        transfers += [(n, f"https://se.example.org/in/{n}", 10_000_000, start + 2, start + 40, 10)]
        transfers += [(n, f"https://se.example.org/out/{n}", 5_000_000, end - 20, end - 10, 20)]
        extra += [
            (n, key, value)
            for key, value in (
                ("benchmark", "HEPSPEC:12.26"),
                ("clienthost", "192.0.2.7:45678"),
                ("jobname", f"job {n}"),
                ("localuser", "atlas01:atlas"),
                ("lrms", "slurm"),
                ("nodenames", ":".join(["wn1.example.org"] * 8)),
                ("systemsoftware", "AlmaLinux 9"),
                ("wninstance", "none"),
            )
        ]
    con.executemany(f"INSERT INTO AAR VALUES ({','.join('?' * 21)})", aar)
    con.executemany("INSERT INTO AuthTokenAttributes VALUES (?, ?, ?)", tokens)
    con.executemany("INSERT INTO JobEvents VALUES (?, ?, ?)", events)
    con.executemany("INSERT INTO RunTimeEnvironments VALUES (?, ?)", rtes)
    con.executemany("INSERT INTO DataTransfers VALUES (?, ?, ?, ?, ?, ?)", transfers)
    con.executemany("INSERT INTO JobExtraInfo VALUES (?, ?, ?)", extra)
    con.commit()


def run(controldir: pathlib.Path, label: str, jobs: int) -> None:
    """One import in a process of its own, and what it took."""
    config = controldir / "arc.conf"
    config.write_text(f"[common]\n[arex]\ncontroldir={controldir}\n")
    command = [sys.executable, __file__, "--worker", str(controldir)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{label}: {wall:.1f} s wall, {cpu:.1f} s CPU, {jobs / cpu:,.0f} jobs per CPU second; {out}")


def worker(controldir: str) -> None:
    """The import itself."""
    from zoneinfo import ZoneInfo

    from arcacct.conf.places import places
    from arcacct.store import accounting, import_arex

    held = 0.0
    real = accounting.writing_much

    class Timed:
        """How long the queue of writers was held at most."""

        def __init__(self, con, here):
            self.turn = real(con, here)

        def __enter__(self):
            con = self.turn.__enter__()
            self.started = time.monotonic()
            return con

        def __exit__(self, *error):
            nonlocal held
            self.turn.__exit__(*error)
            held = max(held, time.monotonic() - self.started)

    accounting.writing_much = Timed
    here = places(None, controldir)
    con = accounting.open_accounting(here)
    report = import_arex.import_arex(here, con, f"{controldir}/accounting/accounting.db", ZoneInfo("UTC"))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{report.added} added, {report.changed} changed; peak memory {peak_mib:.0f} MiB;"
        f" the queue held for {held * 1000:.0f} ms at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--dir", help="make the databases here (a copy of A-REX's and ours: 5 kB a job)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-bench-", dir=options.dir))
    try:
        (directory / "accounting").mkdir()
        make(directory / "accounting" / "accounting.db", options.jobs)
        size_mb = os.path.getsize(directory / "accounting" / "accounting.db") / 1e6
        print(f"{options.jobs:,} jobs, {size_mb:,.0f} MB")
        run(directory, "first import", options.jobs)
        run(directory, "again, nothing new", options.jobs)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
