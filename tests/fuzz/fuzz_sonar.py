"""Damaged telemetry among good: files of envelopes, imported whole and in pieces, again, and retried."""

from __future__ import annotations

import gzip
import json
import pathlib
import random
import sqlite3
from typing import Any

from fuzz.damage import damaged, damaged_json
from fuzz.database import differing, dump, opened
from sonar_site import REAL_FILES, SERIES, objects
from sonar_versions import VERSIONS, everything

from arcacct.sources.sonar import Telemetry
from arcacct.sources.sonar_files import telemetry
from arcacct.store.sonar import import_telemetry, retry_rejected
from arcacct.store.sonar_site import Site

_SERIES = [json.dumps(one).replace('"node":', '"cluster":"good","node":', 1).encode() for one in objects(SERIES)]


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


def _dump(con: sqlite3.Connection) -> dict[str, list[Any]]:
    """Every row, without the times since when a field of a job is known: a report of another run may move them."""
    found = dump(con)
    columns = [row[1] for row in con.execute("PRAGMA table_info(SlurmJobs)")]
    kept = ", ".join(name for name in columns if name != "FieldTimes")
    found["SlurmJobs"] = sorted(con.execute(f"SELECT {kept} FROM SlurmJobs"), key=repr)
    return found


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Every good envelope is in the database with its sums; a second import and a retry change nothing."""
    [(name, content)] = files.items()
    (work / name).write_bytes(content)
    with opened(work / "ours") as (here, con):
        report = import_telemetry(con, here, Site(), telemetry([str(work / name)]))
        jobs = con.execute(
            "SELECT local_job_id, wall_s, core_count FROM v1_jobs WHERE job_id LIKE 'sonar:good:%'"
        ).fetchall()
        sums = con.execute(
            "SELECT cpu_s, peak_memory_kib, samples FROM v1_sampled_jobs WHERE cluster = 'good' AND job_id = 4242"
        ).fetchall()
        assert sorted(jobs) == [(str(9000 + number), 1800, 2) for number in range(4)], jobs
        assert sums == [(30, 207684, 8)], sums
        found = _dump(con)
        assert bool(report.rejected) == bool(found["RejectedRecords"])
        assert report.unreadable == 0

        import_telemetry(con, here, Site(), telemetry([str(work / name)]))
        again = _dump(con)
        assert again == found, differing(found, again)
        retry_rejected(con, here, Site())
        retried = _dump(con)
        assert retried == found, differing(found, retried)
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
