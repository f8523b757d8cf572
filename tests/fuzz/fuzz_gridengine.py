"""
Damaged accounting files of Grid Engine, colon-separated and JSON: at once, in pieces, again, and retried.

Errors of our own that no one has found yet are made by hand: what they hit is kept, comes with a retry, and costs
nothing else.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import random
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from fuzz.damage import NUMBERS, damaged, damaged_json
from fuzz.database import differing, dump, opened
from gridengine_files import BEGIN, COLON, JSON_90, JSON_91, World, ran

from arcacct.files import follow
from arcacct.records import rejected
from arcacct.sources.gridengine import accounting_file
from arcacct.sources.gridengine.accounting_file import LATEST_US, record
from arcacct.sources.gridengine.record import Record

_LINES = {
    path: [line for line in path.read_bytes().splitlines() if line and not line.startswith(b"#")]
    for path in (COLON, JSON_90, JSON_91)
}
_GOOD = 900_000
"""Numbers of jobs that no damage makes: those of the real files are small."""
_UNCOMPARED = ("GridEngineFiles", "GridEngineProgress")
_LONGEST_LINE = 32 * 1024
_LONGEST_KEPT = 8 * 1024
_US = 1_000_000
_WHOLE = ("job_number", "task_number", "slots", "submission_time", "start_time", "end_time", "failed", "exit_status")
_FROM_COLON = {"slots": 34, "submission_time": 8, "start_time": 9, "end_time": 10, "failed": 11, "exit_status": 12}
"""Where a line has what a hostile number hurts most in."""


def _good(number: int) -> bytes:
    if number % 2:
        return ran(_GOOD + number, 1, 10, 11 + number, cpu="4.25", slots="3").rstrip(b"\n")
    return json.dumps(_json(_GOOD + number, number + 1)).encode()


def _json(number: int, wall_s: int, **more: Any) -> dict[str, Any]:
    line = json.loads(_LINES[JSON_91][0])
    line |= {"job_number": number, "task_number": 0, "slots": 3, "failed": 0, "exit_status": 0}
    line |= {"submission_time": 1795168001000000, "start_time": 1795168010000000, "pe_taskid": "NONE"}
    line["end_time"] = line["start_time"] + wall_s * _US
    line["usage"]["eusage"]["cpu"] = 4.25
    line["usage"]["rusage"] |= {"ru_wallclock": wall_s, "ru_utime": 0.5, "ru_stime": 0.5}
    return {**line, **more}


def _odd() -> list[bytes]:
    """Whole records that look odd: texts that are no UTF-8, zeros of a crash, colons, what a site added."""
    number = iter(range(_GOOD + 10, _GOOD + 30))

    def colons(**fields: Any) -> bytes:
        return ran(next(number), 1, 10, 20, cpu="4.25", slots="3", **fields).rstrip(b"\n")

    def braces(**more: Any) -> bytes:
        return json.dumps(_json(next(number), 10, **more)).encode()

    usage = _json(0, 10)["usage"]
    return [
        colons(job_name="ODD").replace(b"ODD", b"\xe9\xff\x1b[2J"),
        colons(job_name="a\0b"),
        bytes(64) + braces(),
        colons(category="-l h_rt=24:00:00 -l a:b"),
        colons() + b"\r",
        braces(job_name="\ud800 \0 \udcff"),
        braces(job_name="ODD").replace(b"ODD", b"\xff\xfe"),
        braces(usage=usage | {"site": {"large": 10**30, "small": -(2**63) - 1, "half": "\ud83d"}}, new=10**20),
    ]


def _unusable() -> list[bytes]:
    """Lines that are no records, whatever is done about them."""
    number = iter(range(_GOOD + 50, _GOOD + 90))

    def colons(**fields: Any) -> bytes:
        return ran(next(number), 1, 10, 20, **fields).rstrip(b"\n")

    def braces(**more: Any) -> bytes:
        return json.dumps(_json(next(number), 10, **more)).encode()

    return [
        colons(slots=2**31),
        colons(slots=-1),
        colons(exit_status="1e999"),
        colons(failed=2**31),
        colons(task_number=2**56),
        colons(priority="x"),
        b":".join(colons().split(b":")[:42]),
        colons().replace(b":%d:" % (BEGIN + 20), b":%d:" % ((BEGIN + 20) * _US)),
        colons().replace(b":%d:" % (BEGIN + 1), b":%d:" % ((BEGIN + 1) * 1000)),
        braces(end_time=10**18),
        braces(end_time=-1),
        braces(slots=[3]),
        braces(slots=2**31),
        braces(job_number=2**56 + 99),
        braces(usage=None),
        braces(failed=10**400),
        braces(new="MARK").replace(b'"MARK"', b"9" * 5000),
        braces(new="MARK").replace(b'"MARK"', b"NaN"),
        braces(new="MARK").replace(b'"MARK"', b"[" * 3000 + b"]" * 3000),
        braces(exit_status="MARK").replace(b'"MARK"', b"1e999"),
    ]


_ODD, _UNUSABLE = _odd(), _unusable()
_FAULTS = [ran(_GOOD + 40, 1, 10, 20).rstrip(b"\n"), json.dumps(_json(_GOOD + 41, 10)).encode()]
"""What errors of ours are to hit: in storing, in reading."""


def made(chance: random.Random) -> dict[str, bytes]:
    """
    Good lines in their order, in either form, and damaged ones between them; and where the file is cut in two.

    ``spoilt`` is a good line that is none before somebody corrects it, ``packed`` the file compressed and cut.
    """
    lines = [_good(number) for number in range(8)]
    more = [*chance.sample(_ODD, 2), *chance.sample(_UNUSABLE, 2), *(_bad(chance) for _ in range(chance.randint(1, 8)))]
    if chance.random() < 0.3:
        more += _FAULTS
    if chance.random() < 0.1:
        more.append(b"x" * chance.randint(_LONGEST_LINE, 3 * _LONGEST_LINE))
    for line in more:
        lines.insert(chance.randint(0, len(lines)), line)
    content = b"\n".join(lines) + b"\n"
    files = {"accounting": content, "first": b"%d" % chance.randint(0, len(content))}
    if chance.random() < 0.3:
        files["spoilt"] = _good(chance.randrange(8))
    if chance.random() < 0.2:
        packed = gzip.compress(content, 1, mtime=0)
        files["packed"] = packed[: chance.randint(20, len(packed) - 1)]
    return files


def _bad(chance: random.Random) -> bytes:
    path = chance.choice(sorted(_LINES))
    line = chance.choice(_LINES[path])
    if path is COLON and chance.random() < 0.3:
        parts = line.split(b":")
        parts[chance.choice(sorted(_FROM_COLON.values()))] = b"%d" % int(chance.choice(NUMBERS[:-3]))
        return b":".join(parts)
    if path is not COLON and chance.random() < 0.7:
        found = json.loads(line)
        if chance.random() < 0.3:
            return json.dumps(found | {chance.choice(_WHOLE): chance.choice(NUMBERS)}).encode()
        return json.dumps(damaged_json(chance, found)).encode()
    return damaged(chance, line).replace(b"\n", b" ")


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """
    Every good record is a job with its sums, what is none is in the quarantine.

    A second import, one of another copy and a retry change nothing; pieces are the whole.
    """
    path = work / "accounting"
    path.write_bytes(files["accounting"])
    lines = files["accounting"].split(b"\n")
    with _small(), opened(work / "ours") as (here, con):
        world = World(here, con)
        report = world.take(path)
        _check(con, lines)
        found = dump(con, *_UNCOMPARED)
        assert report.rejected >= len(found["ImportQuarantine"]) >= bool(report.rejected)
        assert (report.unreadable, report.failed_jobs) == (0, 0), world.said
        _check_rejected(con, lines)
        _check_bounds(con, found["GridEngineRecords"])
        for again in (lambda: world.take(path), lambda: world.work().retry()):
            again()
            after = dump(con, *_UNCOMPARED)
            assert after == found, differing(found, after)
        # Of a job with two records that contradict each other the nodes may be others when it is made again.
        _copy(world, work / "copy", lines)
        world.work().again()
        _check(con, lines)
        told = {row[4] for row in found["ImportQuarantine"]}
    with _small():
        _in_pieces(files, path, work / "pieces", told)
        if set(_FAULTS) <= set(lines):
            _with_faults(files["accounting"], path, work / "faults", told)
        if "packed" in files:
            _packed(files, path, work)


@contextmanager
def _small() -> Iterator[None]:
    """Long lines of some KiB: what is to be told of them does not depend on how long is too long."""
    sizes = {"LONGEST_LINE": _LONGEST_LINE, "_BEGINNING": _LONGEST_KEPT + 1, "CHUNK_BYTES": 16 * 1024}
    with patch.multiple(follow, **sizes), patch.object(rejected, "LONGEST_BYTES", _LONGEST_KEPT):
        yield


def _check(con: sqlite3.Connection, lines: list[bytes]) -> None:
    jobs = con.execute(
        "SELECT local_job_id, ifnull(wall_s, 0), cpu_s, core_count FROM JobValues WHERE length(local_job_id) = 6"
        f" AND local_job_id BETWEEN '{_GOOD}' AND '{_GOOD + 29}' ORDER BY 1"
    ).fetchall()
    there = [(str(_GOOD + number), number + 1, 4, 3) for number in range(8) if _good(number) in lines]
    there += [(str(_GOOD + 10 + number), 10, 4, 3) for number, line in enumerate(_ODD) if line in lines]
    assert jobs == there, jobs


def _check_rejected(con: sqlite3.Connection, lines: list[bytes]) -> None:
    """What is no record is kept as it came, within bounds."""
    kept = {bytes(content).rstrip(b"\n") for (content,) in con.execute("SELECT Content FROM ImportQuarantine")}
    for line in lines:
        if line in _UNUSABLE or len(line) >= _LONGEST_LINE:
            assert (line + b"\n")[:_LONGEST_KEPT].rstrip(b"\n") in kept, line[:300]
    numbers = f"BETWEEN {_GOOD + 50} AND {_GOOD + 89}"
    assert not con.execute(f"SELECT JobNumber FROM GridEngineRecords WHERE JobNumber {numbers}").fetchall()
    for size, content in con.execute("SELECT Bytes, Content FROM ImportQuarantine"):
        assert len(content) == min(size, _LONGEST_KEPT), size


def _check_bounds(con: sqlite3.Connection, records: list[Any]) -> None:
    """No number that is none of Grid Engine's came in, and no text that some readers of a database cut."""
    assert not any(isinstance(value, str) and "\0" in value for row in records for value in row)
    of_records = (
        f"NOT (min(SubmissionTimeUs, StartTimeUs, EndTimeUs, JobNumber, TaskNumber, Slots) >= 0 AND Slots < {2**31}"
        f" AND max(SubmissionTimeUs, StartTimeUs, EndTimeUs) <= {LATEST_US} AND JobNumber < {2**56})"
    )
    found = con.execute(f"SELECT * FROM GridEngineRecords WHERE {of_records}").fetchall()
    assert not found, found
    durations = con.execute("SELECT min(UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) FROM AAR").fetchall()
    assert all(isinstance(least, int) and least >= 0 for (least,) in durations), durations


def _copy(world: World, path: pathlib.Path, lines: list[bytes]) -> None:
    """The same records in another order and file: each is known."""
    ours = [*map(_good, range(8)), *_ODD]
    path.write_bytes(b"".join(line + b"\n" for line in reversed(lines) if line in ours))
    assert world.take(path).taken.new == 0


def _in_pieces(files: dict[str, bytes], path: pathlib.Path, folder: pathlib.Path, told: set[str]) -> None:
    """The same file while it is written: what is imported of it in two goes is what is imported in one."""
    content, first, spoilt = files["accounting"], int(files["first"]), files.get("spoilt")
    before = content if spoilt is None else content.replace(spoilt, spoilt.replace(b":", b";"))
    with opened(folder) as (here, con):
        world = World(here, con)
        path.write_bytes(before[:first])
        world.take(path)
        path.write_bytes(content)
        world.take(path)
        _check(con, content.split(b"\n"))
        kept = {row[4] for row in dump(con)["ImportQuarantine"]}
        assert kept == told or (spoilt is not None and told < kept)
        # Cut by somebody, and put back.
        path.write_bytes(content[: first // 2])
        world.take(path)
        path.write_bytes(content)
        world.take(path)
        _check(con, content.split(b"\n"))


def _with_faults(content: bytes, path: pathlib.Path, folder: pathlib.Path, told: set[str]) -> None:
    """Errors of our own cost what they hit; once they are repaired a retry brings it."""
    path.write_bytes(content)
    hit = f"SELECT count(*) FROM v1_jobs WHERE local_job_id IN ('{_GOOD + 40}', '{_GOOD + 41}')"
    with opened(folder) as (here, con):
        world = World(here, con)
        with _faults(con):
            world.take(path)
            _check(con, content.split(b"\n"))
            kept = {bytes(content).rstrip(b"\n") for (content,) in con.execute("SELECT Content FROM ImportQuarantine")}
            assert set(_FAULTS) <= kept
            assert world.value(hit) == 0
            before = dump(con, *_UNCOMPARED)
            world.work().retry()
            after = dump(con, *_UNCOMPARED)
            assert after == before, differing(before, after)
        world.work().retry()
        assert world.value(hit) == 2
        assert {row[4] for row in dump(con)["ImportQuarantine"]} == told
        _check(con, content.split(b"\n"))


@contextmanager
def _faults(con: sqlite3.Connection) -> Iterator[None]:
    """Errors that the program is not known to have: only one made by hand shows that another costs no more."""
    con.execute(
        f"CREATE TEMP TRIGGER fault BEFORE INSERT ON main.AAR WHEN NEW.LocalJobID = '{_GOOD + 40}'"
        " BEGIN SELECT RAISE(ABORT, 'a fault of ours'); END"
    )
    with patch.object(accounting_file, "record", _faulty_record):
        yield
    con.execute("DROP TRIGGER fault")


def _faulty_record(line: bytes, *told: Any) -> Record | None:
    if line.rstrip(b"\n") == _FAULTS[1]:
        raise KeyError("a fault of ours")
    return record(line, *told)


def _packed(files: dict[str, bytes], path: pathlib.Path, work: pathlib.Path) -> None:
    """What can be read of a compressed file that is cut is imported, and the rest with the whole file."""
    plain = zlib.decompressobj(-15).decompress(files["packed"][10:])
    packed = work / "accounting.0.gz"
    packed.write_bytes(files["packed"])
    path.write_bytes(files["accounting"])
    with opened(work / "packed") as (here, con):
        world = World(here, con)
        assert world.take(packed).unreadable == 1
        _check(con, plain[: plain.rfind(b"\n") + 1].split(b"\n"))
        world.take(path)
        _check(con, files["accounting"].split(b"\n"))
