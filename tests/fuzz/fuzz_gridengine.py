"""Damaged accounting files of Grid Engine, colon-separated and JSON: at once, in pieces, again, and retried."""

from __future__ import annotations

import json
import pathlib
import random
import sqlite3

from fuzz.damage import damaged, damaged_json
from fuzz.database import differing, dump, opened
from gridengine_files import COLON, JSON_90, JSON_91, World, ran

_LINES = {
    path: [line for line in path.read_bytes().splitlines() if line and not line.startswith(b"#")]
    for path in (COLON, JSON_90, JSON_91)
}
_GOOD = 900_000
"""Numbers of jobs that no damage makes: those of the real files are small."""
_UNCOMPARED = ("GridEngineFiles", "GridEngineProgress")


def made(chance: random.Random) -> dict[str, bytes]:
    """Good lines in their order, in either form, and damaged ones between them; and where the file is cut in two."""
    lines = [_good(number) for number in range(8)]
    for _ in range(chance.randint(1, 8)):
        lines.insert(chance.randint(0, len(lines)), _bad(chance))
    content = b"\n".join(lines) + b"\n"
    return {"accounting": content, "first": b"%d" % chance.randint(0, len(content))}


def _good(number: int) -> bytes:
    if number % 2:
        return ran(_GOOD + number, 1, 10, 11 + number, cpu="4.25", slots="3").rstrip(b"\n")
    line = json.loads(_LINES[JSON_91][0])
    line |= {"job_number": _GOOD + number, "task_number": 0, "slots": 3, "failed": 0, "exit_status": 0}
    line |= {"submission_time": 1795168001000000, "start_time": 1795168010000000, "pe_taskid": "NONE"}
    line["end_time"] = line["start_time"] + (number + 1) * 1_000_000
    line["usage"]["eusage"]["cpu"] = 4.25
    line["usage"]["rusage"] |= {"ru_wallclock": number + 1, "ru_utime": 0.5, "ru_stime": 0.5}
    return json.dumps(line).encode()


def _bad(chance: random.Random) -> bytes:
    path = chance.choice(sorted(_LINES))
    line = chance.choice(_LINES[path])
    if path is not COLON and chance.random() < 0.6:
        return json.dumps(damaged_json(chance, json.loads(line))).encode()
    return damaged(chance, line).replace(b"\n", b" ")


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Every good record is a job with its sums; a second import and a retry change nothing; pieces are the whole."""
    path = work / "accounting"
    path.write_bytes(files["accounting"])
    with opened(work / "ours") as (here, con):
        world = World(here, con)
        report = world.take(path)
        _check(con)
        found = dump(con, *_UNCOMPARED)
        assert bool(report.bad_lines) == bool(found["RejectedRecords"])
        assert (report.unreadable, report.failed_jobs) == (0, 0), world.said
        for again in (lambda: world.take(path), lambda: world.work().retry()):
            again()
            after = dump(con, *_UNCOMPARED)
            assert after == found, differing(found, after)
        # Of a job with two records that contradict each other the nodes may be others when it is made again.
        world.work().again()
        _check(con)
    _in_pieces(files, path, work / "pieces", {row[5] for row in found["RejectedRecords"]})


def _check(con: sqlite3.Connection) -> None:
    jobs = con.execute(
        "SELECT local_job_id, ifnull(wall_s, 0), cpu_s, core_count FROM v1_jobs WHERE length(local_job_id) = 6"
        f" AND local_job_id BETWEEN '{_GOOD}' AND '{_GOOD + 7}' ORDER BY 1"
    ).fetchall()
    assert jobs == [(str(_GOOD + number), number + 1, 4, 3) for number in range(8)], jobs


def _in_pieces(files: dict[str, bytes], path: pathlib.Path, folder: pathlib.Path, rejected: set[bytes]) -> None:
    """The same file while it is written: what is imported of it in two goes is what is imported in one."""
    content, first = files["accounting"], int(files["first"])
    with opened(folder) as (here, con):
        world = World(here, con)
        path.write_bytes(content[:first])
        world.take(path)
        path.write_bytes(content)
        world.take(path)
        _check(con)
        assert {row[5] for row in dump(con)["RejectedRecords"]} == rejected
