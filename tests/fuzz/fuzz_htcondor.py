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

from fuzz.batch import GOOD, Imports, is_there_or_kept
from fuzz.damage import NUMBERS, damaged, damaged_json
from htcondor_files import BEGIN, HISTORY, JSON, LONG, NOW, ad

from arcacct.resources import LARGEST, LATEST_S
from arcacct.sources.htcondor.history import HistoryForm
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE

_REAL_ADS = json.loads(JSON.read_text(encoding="utf-8"))
_TEXTS = ('"a\nb"', '"a\n\n*** Offset = 0\n"', '"a\\"', '"', '"x\\"y"', '"Größe"', '"\0"', "{ 1 }", "[ a = 1 ]", "")


def _good(number: int) -> str:
    return ad(GOOD + number, QDate=BEGIN + number)


def _json(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(_REAL_ADS[0]))
    found |= {"GlobalJobId": f"ce#{GOOD + number}.0#{BEGIN}", "ClusterId": GOOD + number, "QDate": BEGIN + number}
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


def _check_good(con: sqlite3.Connection, count: int) -> None:
    query = "SELECT wall_s, core_count, submit_time FROM JobValues WHERE local_job_id = ?"
    for number in range(GOOD, GOOD + count):
        is_there_or_kept(con, query, f"{number}.0", (60, 2, BEGIN + number - GOOD), b"%d" % number)


_IMPORTS = Imports(
    HTCONDOR_SOURCE,
    HistoryForm(),
    NOW,
    "HTCondorProgress",
    "HTCondorJobs",
    "RecordID IS NULL OR NOT (min(SubmitTime, StartTime, EndTime, Wall, Cluster, Proc) >= 0 AND CPUs > 0"
    f" AND max(SubmitTime, EndTime) < {LATEST_S} AND StartTime <= EndTime AND Wall <= EndTime - StartTime + 600"
    f" AND ifnull(CPUUser, 0) BETWEEN 0 AND {LARGEST} AND ifnull(MaxRSS, 0) BETWEEN 0 AND {LARGEST})",
    _check_good,
)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """A history, JSON, and a whole file with faults."""
    _IMPORTS.tried(files, {"history": 8, "json": 4}, "json", work)
