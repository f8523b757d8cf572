"""
Damaged logs of PBS and LSF: broken lines between good ones, whole files with faults.

A good job is there with its figures; a second import and a retry change nothing.
"""

from __future__ import annotations

import pathlib
import random
import sqlite3

from batch_files import BEGIN, DATA, NOW
from fuzz.batch import GOOD, Imports
from fuzz.damage import NUMBERS, damaged

from arcacct.resources import LARGEST
from arcacct.sources.engine.batch_runs import LogForm, LogSource
from arcacct.sources.lsf.importer import SOURCE as LSF
from arcacct.sources.pbs.importer import SOURCE as PBS

_LOGS = {
    "pbs": (DATA / "pbs" / "torque-20261102", DATA / "pbs" / "pbspro-20261102"),
    "lsf": (DATA / "lsf" / "lsb.acct",),
}
_SOURCES: dict[str, LogSource] = {"pbs": PBS, "lsf": LSF}


def _good(name: str, number: int) -> bytes:
    begin = BEGIN + number
    if name == "lsf":
        line = _LOGS["lsf"][0].read_bytes().splitlines(keepends=True)[0]
        return line.replace(b"386", b"%d" % (GOOD + number)).replace(b"%d" % (BEGIN + 3604), b"%d" % (BEGIN + 64))
    return (
        f"11/02/2026 10:00:00;E;{GOOD + number}.srv;user=a group=g jobname=j queue=q ctime={begin} qtime={begin} "
        f"etime={begin} start={BEGIN + 4} exec_host=n1/0 session=1 end={BEGIN + 64} Exit_status=0 "
        "resources_used.cput=00:00:50 resources_used.walltime=00:01:00\n"
    ).encode()


def _bad(chance: random.Random, name: str) -> bytes:
    line = chance.choice(chance.choice(_LOGS[name]).read_bytes().splitlines(keepends=True))
    if chance.random() < 0.5:
        places = [place for place, letter in enumerate(line) if letter in b"= "]
        start = chance.choice(places) + 1
        end = next((place for place in places if place > start), len(line) - 1)
        line = line[:start] + str(chance.choice(NUMBERS)).encode("utf-8", "surrogatepass") + line[end:]
        return line.replace(b"\n", b" ").rstrip() + b"\n"
    return damaged(chance, line).replace(b"\n", b" ") + b"\n"


def made(chance: random.Random) -> dict[str, bytes]:
    """Good jobs of one of both, with damaged lines between; and a whole log with faults."""
    name = chance.choice(sorted(_SOURCES))
    lines = [_good(name, number) for number in range(8)]
    for _ in range(chance.randint(1, 8)):
        lines.insert(chance.randint(0, len(lines)), _bad(chance, name))
    return {
        "name": name.encode(),
        "lines": b"".join(lines),
        "whole": damaged(chance, chance.choice(_LOGS[name]).read_bytes()),
        "cut": b"%d" % chance.randint(0, 4000),
    }


def _check_good(con: sqlite3.Connection, count: int) -> None:
    query = (
        "SELECT Wall, CPUs, EndTime FROM BatchRuns JOIN AAR USING (RecordID, EndTime) WHERE JobNumber = ? AND Task = -1"
    )
    for number in range(count):
        found = con.execute(query, (GOOD + number,)).fetchall()
        assert found == [(60, 1, BEGIN + 64)], (number, found)


_WRONG = (
    "(RecordID IS NULL AND IsFinal) OR NOT (min(SubmitTime, StartTime, JobNumber) >= 0 AND StartTime <= EndTime"
    f" AND ifnull(CPUs, 1) > 0 AND ifnull(Wall, 0) BETWEEN 0 AND {LARGEST}"
    f" AND ifnull(CPUUser, 0) BETWEEN 0 AND {LARGEST})"
)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Lines, and a whole log with faults."""
    source = _SOURCES[files["name"].decode()]
    imports = Imports(source, LogForm(), NOW, "BatchProgress", "BatchRuns", _WRONG, _check_good)
    imports.tried(files, {"lines": 8}, "lines", work)
