"""
Realistic accounting databases of any size, from a seed: users, VOs, FQANs, events, transfers, extras, months.

Children are what A-REX records for an average job of a WLCG site: 9 events, 7 extras, 2 tokens, 1 environment,
1 transfer. Very large databases may leave them out: then a job is its AAR, its place in the log and its usage.
"""

from __future__ import annotations

import calendar
import pathlib
import random
import time
from collections.abc import Iterator

from arcacct.conf.places import Places, places
from arcacct.store import accounting, cells, schema
from arcacct.store.connect import Connection, open_database
from arcacct.store.recorder import event_time

FIRST_END = calendar.timegm((2026, 7, 1, 0, 0, 0))
DAYS = 100
VOS = ["atlas", "cms", "bio.example.org", "belle"]
USERS = 200
CHUNK = 20_000


def generate(folder: pathlib.Path, jobs: int, *, children: bool = True, seed: int = 1, plain: bool = False) -> Places:
    """
    A database of finished jobs in ``folder``, in the order in which a CE records them; returns its places.

    ``plain`` leaves out what ARC's programs cannot publish (``&`` and ``<`` in names: they do not escape XML).
    """
    here = places(None, str(folder))
    con = accounting.open_accounting(here)
    _names(con, plain=plain)
    triggers = con.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    indexes = con.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall()
    con.execute("PRAGMA synchronous = OFF")
    # What the triggers would log row by row is written at once, as a bulk load would.
    for name, _sql in triggers:
        con.execute(f"DROP TRIGGER {name}")
    rows = _jobs(jobs, random.Random(seed))
    for _ in range(0, jobs, CHUNK):
        con.execute("BEGIN")
        for number, job in zip(range(CHUNK), rows, strict=False):
            _insert(con, job, children=children, plain=plain)
            del number
        con.execute("COMMIT")
    con.execute("INSERT INTO FinishedLog (RecordID) SELECT RecordID FROM AAR ORDER BY RecordID")
    for _name, sql in triggers:
        con.execute(sql)
    del indexes
    cells.advance(con, here)
    con.execute("ANALYZE")
    con.close()
    return here


def add_jobs(here: Places, jobs: int, *, seed: int = 2) -> None:
    """More finished jobs on top, as hooks record them: through the triggers, cells not advanced."""
    con = open_database(here.database, schema.ACCOUNTING.schema)
    now = int(time.time())
    last = con.execute("SELECT max(RecordID) FROM AAR").fetchone()[0]
    con.execute("BEGIN IMMEDIATE")
    for number, job in enumerate(_jobs(jobs, random.Random(seed)), 1):
        record_id = last + number
        _insert(con, (record_id, f"new{seed}x{record_id:020d}", *job[2:10], now - 60, *job[11:]), children=True)
    con.execute("COMMIT")
    con.close()


def _names(con: Connection, *, plain: bool) -> None:
    lab = "Lab" if plain else "Lab & Co <x>"
    con.execute("BEGIN")
    con.executemany(
        "INSERT INTO Users (Name) VALUES (?)",
        [(f"/DC=org/DC=example/O={lab}/CN=User {number}",) for number in range(USERS)],
    )
    con.executemany("INSERT INTO WLCGVOs (Name) VALUES (?)", [(vo,) for vo in VOS])
    con.executemany("INSERT INTO Queues (Name) VALUES (?)", [("short",), ("long",), ("gpu",)])
    con.execute(
        "INSERT INTO Endpoints (Interface, URL) VALUES ('org.nordugrid.arcrest', 'https://ce.example.org:443/arex')"
    )
    con.execute("COMMIT")


def _jobs(jobs: int, rng: random.Random) -> Iterator[tuple]:
    """AAR rows; end times rise as they do on a CE."""
    for number in range(1, jobs + 1):
        user = rng.randrange(USERS)
        cores = rng.choice((1, 1, 1, 4, 8, 8, 16))
        wall = int(rng.expovariate(1 / 14_000)) + 30
        end = FIRST_END + number * DAYS * 86400 // jobs + rng.randrange(60)
        failed = rng.random() < 0.08
        yield (
            number, f"{rng.getrandbits(200):054x}"[:54], str(10_000_000 + number), 1, rng.randrange(3) + 1, user + 1,
            user % len(VOS) + 1, 3 if failed else 2, int(failed), end - wall - rng.randrange(7200), end,
            1 if cores < 16 else 2, cores, rng.randrange(200_000, 16_000_000), rng.randrange(200_000, 32_000_000), wall,
            int(wall * cores * rng.uniform(0.3, 0.98)), rng.randrange(60), rng.randrange(10**9), rng.randrange(10**9),
            rng.randrange(10**9),
        )  # fmt: skip


def _insert(con: Connection, job: tuple, *, children: bool, plain: bool = False) -> None:
    con.execute(f"INSERT INTO AAR VALUES ({', '.join('?' * 21)})", job)
    if not children:
        return
    record_id, end = job[0], job[10]
    vo = VOS[job[6] - 1]
    submitted = job[9]
    con.executemany(
        "INSERT INTO AuthTokenAttributes VALUES (?, ?, ?)",
        [(record_id, "mainfqan", f"/{vo}/Role=production"), (record_id, "vomsfqan", f"/{vo}")],
    )
    con.executemany(
        "INSERT INTO JobEvents VALUES (?, ?, ?)",
        [
            (record_id, key, event_time(when))
            for key, when in (
                ("ACCEPTED", submitted), ("PREPARING", submitted + 1), ("SUBMIT", submitted + 5),
                ("INLRMS", submitted + 6), ("FINISHING", end - 20), ("FINISHED", end),
                ("LRMSSTART", end - job[15] - 20), ("LRMSEND", end - 20), ("DTRDOWNLOADSTART", submitted + 1),
            )
        ],
    )  # fmt: skip
    con.executemany(
        "INSERT INTO JobExtraInfo VALUES (?, ?, ?)",
        [
            (record_id, "benchmark", "HEPscore23:12.5" if record_id % 3 and not plain else "HEPSPEC:10.1"),
            (record_id, "clienthost", "192.0.2.7:41234"),
            (record_id, "jobname", f"analysis {record_id}" if plain else f"analysis {record_id} a<b & c"),
            (record_id, "localuser", f"{vo[:5]}prd:{vo[:5]}"),
            (record_id, "lrms", "slurm"),
            # jura-ng reads `nodename`, A-REX writes `nodenames`: with both each program has its hosts.
            (record_id, "nodenames", f"wn{record_id % 500:03d}.example.org"),
            (record_id, "systemsoftware", "AlmaLinux 9.6"),
        ],
    )
    con.execute("INSERT INTO RunTimeEnvironments VALUES (?, 'ENV/PROXY')", (record_id,))
    con.execute(
        "INSERT INTO DataTransfers VALUES (?, ?, ?, ?, ?, 10)",
        (
            record_id,
            f"https://se.example.org/data/{record_id}{'' if plain else '?a=1&b=2'}",
            job[19],
            submitted + 1,
            submitted + 4,
        ),
    )
