"""
Realistic accounting databases of any size, from a seed: users, VOs, FQANs, events, transfers, extras, months.

Children are what A-REX records for an average job of a WLCG site: 9 events, 7 extras, 2 tokens, 1 environment,
1 transfer; heavy jobs have sixteen nodes and twenty transfers. Very large databases may leave them out: then a job is
its AAR, its place in the log and its usage.
"""

from __future__ import annotations

import argparse
import calendar
import contextlib
import itertools
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from arcacct.config.paths import Places, places
from arcacct.database import access, schema
from arcacct.database.connection import Connection, open_database
from arcacct.records import usage
from arcacct.records.texts import event_time

FIRST_END = calendar.timegm((2026, 7, 1, 0, 0, 0))
DAYS = 100
VOS = ["atlas", "cms", "bio.example.org", "belle"]
USERS = 200
CHUNK = 20_000


class Look(NamedTuple):
    """What the jobs of a database look like."""

    children: bool = True
    plain: bool = False
    """Without what ARC's programs cannot publish (``&`` and ``<`` in names: they do not escape XML)."""
    heavy: bool = False
    """Each with sixteen nodes and twenty transfers."""
    new: bool = False
    """They ended since the begin of last month, and no sums have them yet."""
    seed: int = 1
    """Another one makes other jobs."""

    @property
    def nodes(self) -> int:
        return 16 if self.heavy else 1

    @property
    def transfers(self) -> int:
        return 20 if self.heavy else 1

    @property
    def options(self) -> list[str]:
        """On the command line of this file."""
        wanted = {"--no-children": not self.children, "--plain": self.plain, "--heavy": self.heavy, "--new": self.new}
        return ["--seed", str(self.seed), *(name for name, is_wanted in wanted.items() if is_wanted)]


USUAL = Look()


def generate(folder: pathlib.Path, jobs: int, look: Look = USUAL) -> Places:
    """
    The same as `fill` in a process of its own.

    (A program's peak memory is at least that of the process that started it: a benchmark has to stay small.)
    """
    subprocess.run([sys.executable, __file__, str(folder), str(jobs), *look.options], check=True)
    return places(None, str(folder))


def fill(folder: pathlib.Path, jobs: int, look: Look = USUAL) -> Places:
    """A database of finished jobs in ``folder``, in the order in which a CE records them; returns its places."""
    # As A-REX sets one up; the commands begin no database elsewhere.
    (folder / "finished").mkdir(parents=True, exist_ok=True)
    here = places(None, str(folder))
    con = access.open_accounting(here)
    insert(con, jobs, look)
    if not look.new:
        usage.update_monthly(con, here)
        usage.update_breakdown(con, here, everything=True)
    con.execute("ANALYZE")
    con.close()
    return here


def insert(con: Connection, jobs: int, look: Look = USUAL) -> None:
    """Finished jobs into an empty database, also one of 0.2: rows of A-REX's tables and of the log, but no usage."""
    # As if every job had been recorded from the first: its months are whole.
    con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    _names(con, plain=look.plain)
    con.execute("PRAGMA synchronous = OFF")
    con.execute("PRAGMA cache_size = -200000")
    # What the triggers would log row by row, and the indexes would take up row by row, is done at once.
    with _without(con, "trigger"), _without(con, "index"):
        rows = _jobs(jobs, random.Random(look.seed), *(_since_last_month() if look.new else ()))
        while chunk := list(itertools.islice(rows, CHUNK)):
            con.execute("BEGIN")
            _insert(con, chunk, look)
            con.execute("COMMIT")
            access.write_back(con)
        con.execute("INSERT INTO FinishedLog (RecordID) SELECT RecordID FROM AAR ORDER BY RecordID")
        con.execute("UPDATE RecordCount SET Records = ?", (jobs,))


@contextlib.contextmanager
def _without(con: Connection, kind: str) -> Iterator[None]:
    """The database without its triggers or indexes for a while."""
    made = con.execute("SELECT name, sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL", (kind,)).fetchall()
    for name, _sql in made:
        con.execute(f"DROP {kind} {name}")
    yield
    for _name, sql in made:
        con.execute(sql)


def add_jobs(here: Places, jobs: int, *, seed: int = 2) -> None:
    """More finished jobs on top, as hooks record them: through the triggers, cells not advanced."""
    con = open_database(here.database, schema.ACCOUNTING.schema)
    now = int(time.time())
    last = con.execute("SELECT max(RecordID) FROM AAR").fetchone()[0]
    con.execute("BEGIN IMMEDIATE")
    for record_id, job in enumerate(_jobs(jobs, random.Random(seed)), last + 1):
        new = (record_id, f"new{seed}x{record_id:020d}", *job[2:10], now - 60, *job[11:])
        _insert(con, [new], USUAL)
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


def _since_last_month() -> tuple[int, int]:
    """The begin of last month, UTC seconds, and the seconds from then until an hour ago."""
    now = int(time.time())
    year, month, *_ = time.gmtime(now)
    first_end = calendar.timegm((year - (month == 1), (month - 2) % 12 + 1, 1, 0, 0, 0))
    return first_end, now - 3600 - first_end


def _jobs(jobs: int, rng: random.Random, first_end: int | None = None, span_s: int | None = None) -> Iterator[tuple]:
    """AAR rows; end times rise as they do on a CE."""
    first_end = FIRST_END if first_end is None else first_end
    span_s = DAYS * 86400 if span_s is None else span_s
    for number in range(1, jobs + 1):
        user = rng.randrange(USERS)
        cores = rng.choice((1, 1, 1, 4, 8, 8, 16))
        wall = int(rng.expovariate(1 / 14_000)) + 30
        end = first_end + number * span_s // jobs + rng.randrange(60)
        failed = rng.random() < 0.08
        yield (
            number, f"{rng.getrandbits(200):054x}"[:54], str(10_000_000 + number), 1, rng.randrange(3) + 1, user + 1,
            user % len(VOS) + 1, 3 if failed else 2, int(failed), end - wall - rng.randrange(7200), end,
            1 if cores < 16 else 2, cores, rng.randrange(200_000, 16_000_000), rng.randrange(200_000, 32_000_000), wall,
            int(wall * cores * rng.uniform(0.3, 0.98)), rng.randrange(60), rng.randrange(10**9), rng.randrange(10**9),
            rng.randrange(10**9),
        )  # fmt: skip


def _insert(con: Connection, jobs: list[tuple], look: Look) -> None:
    con.executemany(f"INSERT INTO AAR VALUES ({', '.join('?' * 21)})", jobs)
    if not look.children:
        return
    for table, made in (
        ("AuthTokenAttributes", _tokens), ("JobEvents", _events), ("JobExtraInfo", _extra),
        ("RunTimeEnvironments", _rtes), ("DataTransfers", _transfers),
    ):  # fmt: skip
        rows = [(job[0], *row) for job in jobs for row in made(job, look)]
        con.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _tokens(job: tuple, _look: Look) -> list[tuple]:
    vo = VOS[job[6] - 1]
    return [("mainfqan", f"/{vo}/Role=production"), ("vomsfqan", f"/{vo}")]


def _events(job: tuple, _look: Look) -> list[tuple]:
    submitted, end = job[9], job[10]
    times = (
        ("ACCEPTED", submitted), ("PREPARING", submitted + 1), ("SUBMIT", submitted + 5), ("INLRMS", submitted + 6),
        ("FINISHING", end - 20), ("FINISHED", end), ("LRMSSTART", end - job[15] - 20), ("LRMSEND", end - 20),
        ("DTRDOWNLOADSTART", submitted + 1),
    )  # fmt: skip
    return [(key, event_time(when)) for key, when in times]


def _extra(job: tuple, look: Look) -> list[tuple]:
    record_id, vo = job[0], VOS[job[6] - 1]
    return [
        ("benchmark", "HEPscore23:12.5" if record_id % 3 and not look.plain else "HEPSPEC:10.1"),
        ("clienthost", "192.0.2.7:41234"),
        ("jobname", f"analysis {record_id}" if look.plain else f"analysis {record_id} a<b & c"),
        ("localuser", f"{vo[:5]}prd:{vo[:5]}"),
        ("lrms", "slurm"),
        # jura-ng reads `nodename`, A-REX writes `nodenames`: with both each program has its hosts.
        ("nodenames", ":".join(f"wn{(record_id + node) % 500:03d}.example.org" for node in range(look.nodes))),
        ("systemsoftware", "AlmaLinux 9.6"),
    ]


def _rtes(_job: tuple, _look: Look) -> list[tuple]:
    return [("ENV/PROXY",)]


def _transfers(job: tuple, look: Look) -> list[tuple]:
    url = f"https://se.example.org/data/{job[0]}{'' if look.plain else '?a=1&b=2'}"
    first = (url, job[19], job[9] + 1, job[9] + 4, 10)
    return [first, *((f"{url}/{part}", 10**6, job[10] - 9, job[10] - 5, 20) for part in range(1, look.transfers))]


def _main() -> None:
    parser = argparse.ArgumentParser(description="An accounting database of made-up jobs in a folder.")
    parser.add_argument("folder", type=pathlib.Path, help="a control directory that does not exist yet")
    parser.add_argument("jobs", type=int, help="how many")
    parser.add_argument(
        "--no-children", dest="children", action="store_false", help="without events, transfers, attributes"
    )
    parser.add_argument("--plain", action="store_true", help="without what ARC's programs cannot publish")
    parser.add_argument("--heavy", action="store_true", help="with sixteen nodes and twenty transfers each")
    parser.add_argument("--new", action="store_true", help="ended since the begin of last month, and in no sums yet")
    parser.add_argument("--seed", type=int, default=USUAL.seed, help="another one makes other jobs")
    args = vars(parser.parse_args())
    fill(args.pop("folder"), args.pop("jobs"), Look(**args))


if __name__ == "__main__":
    _main()
