"""
What `arcacct import arex` costs: a database of A-REX (schema version 1) is made, then imported twice.

A job has 2 FQANs, 9 events, 1 run time environment, 2 transfers and 8 extra values, as those of a busy CE have.
Nothing of ARC's reads one database into another, so the peer of the second import is the first; the budget is
1,000,000 jobs in minutes with flat memory.
"""

from __future__ import annotations

import os
import pathlib
import sqlite3
import sys
import tempfile
import time

from figures import Cost, Figure, cost_of

TESTS = pathlib.Path(__file__).parent.parent
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
SIZES = {"smoke": 500, "small": 20_000, "large": 1_000_000}
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


def bench(size: str) -> list[Figure]:
    """The figures."""
    jobs = SIZES[size]
    first, second = _twice(jobs)
    smaller, _again = _twice(jobs // 10)
    return [
        Figure(f"import arex: CPU, {jobs:,} jobs", first.cpu_s, "s", note=_note(first)),
        Figure("import arex: jobs per CPU second", jobs / first.cpu_s, "1/s"),
        Figure("import arex: peak memory", first.peak_mib, "MiB", smaller.peak_mib, "peer: of a tenth of the jobs"),
        Figure("import arex: CPU, nothing new", second.cpu_s, "s", first.cpu_s, f"peer: the first; {_note(second)}"),
    ]


def _twice(jobs: int) -> tuple[Cost, Cost]:
    """The first import of so many jobs, and one that finds nothing new."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "accounting").mkdir()
        make(folder / "accounting" / "accounting.db", jobs)
        (folder / "arc.conf").write_text(f"[common]\n[arex]\ncontroldir={folder}\n")
        return _import(folder), _import(folder)


def _import(folder: pathlib.Path) -> Cost:
    """One import in a process of its own."""
    source = folder / "accounting" / "accounting.db"
    command = [ARCACCT, "--config", str(folder / "arc.conf"), "import", "arex", str(source), "--timezone", "UTC"]
    return cost_of(command, log=folder / "log")


def _note(cost: Cost) -> str:
    return f"{cost.wall_s:.1f} s wall" + ("" if cost.exit_code == 0 else f", FAILED with {cost.exit_code}")
