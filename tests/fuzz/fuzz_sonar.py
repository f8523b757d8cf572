"""Damaged telemetry among good: files of envelopes, imported whole and in pieces, again, and retried."""

from __future__ import annotations

import gzip
import json
import pathlib
import random
import shutil
import sqlite3
import tempfile
from typing import Any

from fuzz.command import arcacct
from fuzz.damage import damaged, damaged_json
from sonar_site import REAL_FILES, SERIES, objects
from sonar_versions import VERSIONS, everything

from arcacct.sources.sonar import Telemetry

_SERIES = [json.dumps(one).replace('"node":', '"cluster":"good","node":', 1).encode() for one in objects(SERIES)]
_KEPT = "DBConfig", "sqlite_sequence"
_template: list[pathlib.Path] = []


def _good(number: int) -> bytes:
    """A finished job that nothing else is like."""
    job = {
        "job_id": 9000 + number,
        "job_state": "COMPLETED",
        "submit_time": "2026-11-20T09:59:00Z",
        "start_time": "2026-11-20T10:00:00Z",
        "end_time": "2026-11-20T10:30:00Z",
        "allocated_resources": "cpu=2,node=1",
        "nodes": ["c1-[1-2]"],
    }
    attributes = {"time": "2026-11-20T11:00:00Z", "cluster": "good", "slurm_jobs": [job]}
    return json.dumps({"meta": {"producer": "sonar"}, "data": {"type": "job", "attributes": attributes}}).encode()


def made(chance: random.Random) -> dict[str, bytes]:
    """Lines: good ones in their order, and damaged ones, of any version, between them."""
    lines = [*_SERIES, *map(_good, range(4))]
    for _ in range(chance.randint(1, 6)):
        lines.insert(chance.randint(0, len(lines)), _bad(chance).replace(b"good", b"evil"))
    content = b"\n".join(lines) + b"\n"
    if chance.random() < 0.1:
        return {"telemetry.json.gz": gzip.compress(content, 1, mtime=0)}
    return {"telemetry.json": content}


def _bad(chance: random.Random) -> bytes:
    one: Any = chance.choice(everything(chance.choice(VERSIONS)))
    if chance.random() < 0.5:
        one = chance.choice(objects(chance.choice(REAL_FILES)))
    if chance.random() < 0.7:
        one = damaged_json(chance, one)
    line = json.dumps(one).encode()
    return damaged(chance, line).replace(b"\n", b" ") if chance.random() < 0.5 else line


def _database(work: pathlib.Path) -> pathlib.Path:
    """An empty database, made once."""
    if not _template:
        folder = pathlib.Path(tempfile.mkdtemp())
        arcacct("--database", str(folder / "accounting.db"), "db", "init")
        with sqlite3.connect(folder / "accounting.db") as con:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _template.append(folder / "accounting.db")
    (work / "ours").mkdir(mode=0o700)
    shutil.copy(_template[0], work / "ours" / "accounting.db")
    return work / "ours" / "accounting.db"


def _dump(database: pathlib.Path) -> dict[str, list[Any]]:
    con = sqlite3.connect(database)
    con.text_factory = bytes
    try:
        tables = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        names = [name.decode() for (name,) in tables if name.decode() not in _KEPT]
        return {name: sorted(con.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
    finally:
        con.close()


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Every good envelope is in the database with its sums; a second import and a retry change nothing."""
    [(name, content)] = files.items()
    (work / name).write_bytes(content)
    database = _database(work)
    words = ("--database", str(database), "import", "sonar", "--records")
    done = arcacct(*words, str(work / name), allowed=(0, 65))
    found = _dump(database)
    con = sqlite3.connect(database)
    jobs = con.execute(
        "SELECT local_job_id, wall_s, core_count FROM v1_jobs WHERE job_id LIKE 'sonar:good:%'"
    ).fetchall()
    sums = con.execute(
        "SELECT cpu_s, peak_memory_kib, samples FROM v1_sampled_jobs WHERE cluster = 'good' AND job_id = 4242"
    ).fetchall()
    con.close()
    assert sorted(jobs) == [(str(9000 + number), 1800, 2) for number in range(4)], jobs
    assert sums == [(30, 207684, 8)], sums
    assert (done.code == 65) == bool(found["RejectedRecords"]), done.err

    arcacct(*words, str(work / name), allowed=(0, 65))
    again = _dump(database)
    assert again == found, [table for table in found if again[table] != found[table]]
    arcacct(*words, "--retry", allowed=(0, 65))
    retried = _dump(database)
    assert retried == found, [table for table in found if retried[table] != found[table]]
    if not name.endswith(".gz"):
        _in_pieces(content)


def _in_pieces(content: bytes) -> None:
    """However the bytes come, the same is told of them."""
    chance = random.Random(len(content))
    whole, pieces = Telemetry(), Telemetry()
    expected = [*whole.feed(content), *whole.feed(b"", final=True)]
    told, position = [], 0
    while position < len(content):
        size = chance.choice((1, 100, 5000, 50_000))
        told += pieces.feed(content[position : position + size])
        position += size
    told += pieces.feed(b"", final=True)
    assert repr(told) == repr(expected)
