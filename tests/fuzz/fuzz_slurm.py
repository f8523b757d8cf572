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

from fuzz.batch import GOOD, Imports, is_there_or_kept
from fuzz.damage import NUMBERS, damaged, damaged_json
from slurm_files import BEGIN, COLUMNS, JSON, NOW, TABLE, row, table

from arcacct.records.slurm_formats import LATEST_S
from arcacct.resources import LARGEST
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.sources.slurm.sacct import OutputForm

_REAL_JOBS = json.loads(JSON.read_text(encoding="utf-8"))["jobs"]
_REAL_LINES = TABLE.read_bytes().splitlines()
_TEXTS = ("a|b", "a\nb", "|", "\n", "a||||||||||b", 'x"y', "\x1f", "Größe", "1|2|3\n4|5|6", "\udcff", "\0", "=cmd")


def _row(number: int, **values: object) -> list[str]:
    """A good job, and its step."""
    own = GOOD + number
    times = {"Submit": BEGIN + number, "Start": BEGIN + 10 + number, "End": BEGIN + 70 + number}
    return [row(own, **(times | values)), row(f"{own}.batch", **times, MaxRSS="4M", SystemCPU="")]


def _json(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(_REAL_JOBS[0]))
    found |= {"job_id": GOOD + number, "cluster": "testgrid"}
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


def _check_good(con: sqlite3.Connection, count: int) -> None:
    query = "SELECT wall_s, core_count, submit_time FROM v1_jobs WHERE local_job_id = ?"
    for number in range(GOOD, GOOD + count):
        is_there_or_kept(con, query, str(number), (60, 2, BEGIN + number - GOOD), b"%d|" % number)


_IMPORTS = Imports(
    SLURM_SOURCE,
    OutputForm(),
    NOW,
    "SlurmProgress",
    "SlurmRuns",
    "RecordID IS NULL OR NOT (min(SubmitTime, StartTime, EndTime, Elapsed, CPUs, JobID) >= 0"
    f" AND max(SubmitTime, EndTime) < {LATEST_S} AND StartTime <= EndTime AND Elapsed <= EndTime - StartTime + 1"
    f" AND ifnull(CPUUs, 0) BETWEEN 0 AND {LARGEST})",
    _check_good,
)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """A table, JSON, and a whole output with faults."""
    _IMPORTS.tried(files, {"table": 8, "json": 4}, "json", work)
