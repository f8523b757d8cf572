"""
Damaged output of sacct: tables with broken rows between good ones, JSON with damaged jobs, whole outputs with faults.

A good job is there with its figures, or its lines are in the quarantine; a second import and a retry change nothing.
"""

from __future__ import annotations

import json
import pathlib
import random
import sqlite3
from typing import Any

from fuzz.damage import NUMBERS, damaged, damaged_json
from fuzz.database import differing, dump, opened
from slurm_files import BEGIN, COLUMNS, JSON, TABLE, row, table

from arcacct.config.paths import Places
from arcacct.records.slurm_formats import LATEST_S
from arcacct.resources import LARGEST
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.sources.slurm.sacct import OutputForm

_GOOD = 900_000
"""Numbers of jobs that no damage makes: those of the real outputs are small."""
_UNCOMPARED = ("SlurmProgress",)
_REAL_JOBS = json.loads(JSON.read_text(encoding="utf-8"))["jobs"]
_REAL_LINES = TABLE.read_bytes().splitlines()
_TEXTS = ("a|b", "a\nb", "|", "\n", "a||||||||||b", 'x"y', "\x1f", "Größe", "1|2|3\n4|5|6", "\udcff", "\0", "=cmd")


def _row(number: int, **values: object) -> list[str]:
    """A good job, and its step."""
    own = _GOOD + number
    times = {"Submit": BEGIN + number, "Start": BEGIN + 10 + number, "End": BEGIN + 70 + number}
    return [row(own, **(times | values)), row(f"{own}.batch", **times, MaxRSS="4M", SystemCPU="")]


def _json(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(_REAL_JOBS[0]))
    found |= {"job_id": _GOOD + number, "cluster": "testgrid"}
    found["state"]["current"] = "COMPLETED"
    found["time"] |= {"submission": BEGIN + number, "start": BEGIN + 10, "end": BEGIN + 70, "elapsed": 60}
    found["tres"]["allocated"] = [{"type": "cpu", "name": None, "id": 1, "count": 2}]
    return found


def made(chance: random.Random) -> dict[str, bytes]:
    """Good jobs in a table and in JSON, among others that are damaged; and a whole output with faults."""
    lines = [line.encode() for number in range(8) for line in _row(number)]
    for _ in range(chance.randint(1, 8)):
        lines.insert(2 * chance.randint(0, len(lines) // 2), _bad(chance))
    jobs: list[Any] = [_json(number) for number in range(4)]
    for _ in range(chance.randint(1, 6)):
        jobs.insert(chance.randint(0, len(jobs)), damaged_json(chance, chance.choice(_REAL_JOBS)))
    whole = chance.choice((TABLE.read_bytes(), table(*_row(1), *_row(2))))
    return {
        "table": b"\n".join([COLUMNS.encode(), *lines]) + b"\n",
        "json": json.dumps({"errors": [], "jobs": jobs}).encode(),
        "whole": damaged(chance, whole),
        "cut": b"%d" % chance.randint(0, 4000),
    }


def _bad(chance: random.Random) -> bytes:
    way = chance.random()
    number = chance.randint(1, 500)
    if way < 0.3:
        return row(number, JobName=chance.choice(_TEXTS)).encode("utf-8", "surrogateescape")
    if way < 0.6:
        column = chance.choice(COLUMNS.split("|"))
        return row(number, **{column: chance.choice(NUMBERS)}).encode("utf-8", "surrogatepass")
    if way < 0.8:
        return row(number).encode()[: chance.randint(0, 90)]
    return damaged(chance, chance.choice((row(number).encode(), chance.choice(_REAL_LINES))))


def _import(here: Places, con: sqlite3.Connection, path: pathlib.Path) -> RunsReport:
    work = _work(here, con)
    work.files([str(path)])
    work.finish()
    return work.report


def _work(here: Places, con: sqlite3.Connection) -> RunsImport[Any]:
    policy = BatchPolicy(BatchSite(), BEGIN + 86_400, 0)
    return RunsImport(SLURM_SOURCE, here, con, policy, OutputForm(), lambda _text: None)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Each output alone; cut and then whole it is what it is at once."""
    for name in ("table", "json", "whole"):
        path = work / name
        path.write_bytes(files[name])
        with opened(work / f"{name}-world") as (here, con):
            report = _import(here, con, path)
            _check(con)
            if name != "whole":
                assert report.unreadable == 0
                _check_good(con, 8 if name == "table" else 4)
            found = dump(con, *_UNCOMPARED)
            _import(here, con, path)
            _unchanged(con, found)
            _work(here, con).retry()
            _unchanged(con, found)
    with opened(work / "cut-world") as (here, con):
        path = work / "json"
        path.write_bytes(files["json"][: int(files["cut"])])
        _import(here, con, path)
        path.write_bytes(files["json"])
        _import(here, con, path)
        _check_good(con, 4)


def _unchanged(con: sqlite3.Connection, before: dict[str, list[Any]]) -> None:
    after = dump(con, *_UNCOMPARED)
    assert after == before, differing(before, after)


def _check_good(con: sqlite3.Connection, count: int) -> None:
    """What is there has its own figures, what is not is kept."""
    query = "SELECT wall_s, core_count, submit_time, end_time - submit_time FROM v1_jobs WHERE local_job_id = ?"
    kept = b"\n".join(bytes(content) for (content,) in con.execute("SELECT Content FROM ImportQuarantine"))
    for number in range(count):
        found = con.execute(query, (str(_GOOD + number),)).fetchall()
        if found:
            assert [one[:3] for one in found] == [(60, 2, BEGIN + number)], (number, found)
        else:
            assert b"%d|" % (_GOOD + number) in kept, number


def _check(con: sqlite3.Connection) -> None:
    """No number that is none of Slurm's came in, and no text that some readers of a database cut."""
    rows = con.execute("SELECT * FROM SlurmRuns").fetchall()
    assert not any(isinstance(value, str) and "\0" in value for one in rows for value in one)
    wrong = (
        f"NOT (min(SubmitTime, StartTime, EndTime, Elapsed, CPUs, JobID) >= 0 AND max(SubmitTime, EndTime) < {LATEST_S}"
        " AND StartTime <= EndTime AND Elapsed <= EndTime - StartTime + 1"
        f" AND ifnull(CPUUs, 0) BETWEEN 0 AND {LARGEST})"
    )
    found = con.execute(f"SELECT * FROM SlurmRuns WHERE {wrong}").fetchall()
    assert not found, found
    assert con.execute("SELECT count(*) FROM SlurmRuns WHERE RecordID IS NULL").fetchone() == (0,)
