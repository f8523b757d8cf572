"""
Damaged histories of HTCondor: files with broken ads between good ones, JSON with damaged ads, whole files with faults.

A good job is there with its figures, or its ad is in the quarantine; a second import and a retry change nothing.
"""

from __future__ import annotations

import json
import pathlib
import random
import sqlite3
from typing import Any

from fuzz.damage import NUMBERS, damaged, damaged_json
from fuzz.database import differing, dump, opened
from htcondor_files import BEGIN, HISTORY, JSON, LONG, NOW, ad

from arcacct.config.paths import Places
from arcacct.resources import LARGEST, LATEST_S
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.htcondor.history import HistoryForm
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE

_GOOD = 900_000
"""Numbers of jobs that no damage makes: those of the real outputs are small."""
_UNCOMPARED = ("HTCondorProgress",)
_REAL_ADS = json.loads(JSON.read_text(encoding="utf-8"))
_TEXTS = ('"a\nb"', '"a\n\n*** Offset = 0\n"', '"a\\"', '"', '"x\\"y"', '"Größe"', '"\0"', "{ 1 }", "[ a = 1 ]", "")


def _good(number: int) -> str:
    return ad(_GOOD + number, QDate=BEGIN + number)


def _json(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(_REAL_ADS[0]))
    found |= {"GlobalJobId": f"ce#{_GOOD + number}.0#{BEGIN}", "ClusterId": _GOOD + number, "QDate": BEGIN + number}
    found |= {"JobStartDate": BEGIN + 10, "CompletionDate": BEGIN + 70, "EnteredCurrentStatus": BEGIN + 70}
    return found | {"RemoteWallClockTime": 60.0, "CpusProvisioned": 2}


def made(chance: random.Random) -> dict[str, bytes]:
    """Good jobs in a history file and in JSON, among others that are damaged; and a whole file with faults."""
    ads = [(_good(number).encode(), True) for number in range(8)]
    for _ in range(chance.randint(1, 8)):
        ads.insert(chance.randint(0, len(ads)), (_bad(chance), chance.random() < 0.7))
    text = b""
    for one, has_end in ads:
        start = len(text)
        text += one
        if has_end:
            text += b'*** Offset = %d Owner = "x"\n' % start
    objects: list[Any] = [_json(number) for number in range(4)]
    for _ in range(chance.randint(1, 6)):
        objects.insert(chance.randint(0, len(objects)), damaged_json(chance, chance.choice(_REAL_ADS)))
    return {
        "history": text,
        "json": json.dumps(objects, indent=1).encode(),
        "whole": damaged(chance, chance.choice((HISTORY, JSON, LONG)).read_bytes()),
        "cut": b"%d" % chance.randint(0, 4000),
    }


def _bad(chance: random.Random) -> bytes:
    way = chance.random()
    number = chance.randint(1, 500)
    name = chance.choice([line.partition(" ")[0] for line in ad().splitlines()])
    if way < 0.3:
        return ad(number, **{name: chance.choice(_TEXTS)}).encode("utf-8", "surrogateescape")
    if way < 0.6:
        return ad(number, **{name: chance.choice(NUMBERS)}).encode("utf-8", "surrogatepass")
    if way < 0.8:
        return ad(number).encode()[: chance.randint(0, 300)]
    return damaged(chance, ad(number).encode())


def _work(here: Places, con: sqlite3.Connection) -> RunsImport[Any]:
    policy = BatchPolicy(BatchSite(), NOW, 0)
    return RunsImport(HTCONDOR_SOURCE, here, con, policy, HistoryForm(), lambda _text: None)


def _import(here: Places, con: sqlite3.Connection, path: pathlib.Path) -> RunsReport:
    work = _work(here, con)
    work.files([str(path)])
    work.finish()
    return work.report


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Each file alone; cut and then whole it is what it is at once."""
    for name in ("history", "json", "whole"):
        path = work / name
        path.write_bytes(files[name])
        with opened(work / f"{name}-world") as (here, con):
            _import(here, con, path)
            _check(con)
            if name != "whole":
                _check_good(con, 8 if name == "history" else 4)
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
    query = "SELECT wall_s, core_count, submit_time FROM JobValues WHERE local_job_id = ?"
    kept = b"\n".join(bytes(content) for (content,) in con.execute("SELECT Content FROM ImportQuarantine"))
    for number in range(count):
        found = con.execute(query, (f"{_GOOD + number}.0",)).fetchall()
        if found:
            assert found == [(60, 2, BEGIN + number)], (number, found)
        else:
            assert b"%d" % (_GOOD + number) in kept, number


def _check(con: sqlite3.Connection) -> None:
    """No number that is none of HTCondor's came in, and no text that some readers of a database cut."""
    rows = con.execute("SELECT * FROM HTCondorJobs").fetchall()
    assert not any(isinstance(value, str) and "\0" in value for one in rows for value in one)
    wrong = (
        "NOT (min(SubmitTime, StartTime, EndTime, Wall, Cluster, Proc) >= 0 AND CPUs > 0"
        f" AND max(SubmitTime, EndTime) < {LATEST_S} AND StartTime <= EndTime AND Wall <= EndTime - StartTime + 600"
        f" AND ifnull(CPUUser, 0) BETWEEN 0 AND {LARGEST} AND ifnull(MaxRSS, 0) BETWEEN 0 AND {LARGEST})"
    )
    found = con.execute(f"SELECT * FROM HTCondorJobs WHERE {wrong}").fetchall()
    assert not found, found
    assert con.execute("SELECT count(*) FROM HTCondorJobs WHERE RecordID IS NULL").fetchone() == (0,)
