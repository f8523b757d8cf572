"""
Damaged telemetry among good: envelopes, and elements of good envelopes; imported whole, in pieces, again, and retried.

Errors of our own that no one has found yet are made by hand: what they hit is kept, comes with a retry, and costs
nothing else.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import random
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from fuzz.damage import damaged, damaged_json
from fuzz.database import differing, dump, opened
from sonar_site import REAL_FILES, SERIES, objects, sample, sysinfo_of
from sonar_versions import VERSIONS, everything, jobs

from arcacct.config.paths import Places
from arcacct.records.rejected import LONGEST_BYTES, MOST_OF_A_FILE
from arcacct.resources import LARGEST
from arcacct.sources.sonar import envelopes
from arcacct.sources.sonar.envelopes import TelemetryStream
from arcacct.sources.sonar.fields import Strict
from arcacct.sources.sonar.importer import Importer, SonarReport
from arcacct.sources.sonar.jobs import Site

_SERIES = [json.dumps(one).replace('"node":', '"cluster":"good","node":', 1).encode() for one in objects(SERIES)]
_AT = "2026-11-20T11:00:00Z"
_FLOOD = MOST_OF_A_FILE + 100
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_HARD = {"@long": "8" * 5000, "@deep": "[" * 20_000 + "]" * 20_000}
"""Values that Python's own reader of JSON gives up at, by what stands for them until an envelope is text."""
_LISTS = ("slurm_jobs", "jobs", "processes", "errors", "partitions", "cards")
_SAMPLED = "SELECT 1 FROM v1_sampled_jobs WHERE job_id = CAST(? AS INTEGER) AND (cpu_s, peak_memory_kib) = (30, 1000)"
_FINDS = {
    "slurm_jobs": "SELECT 1 FROM v1_jobs WHERE local_job_id = ? AND wall_s = 1800 AND core_count = 2",
    "jobs": _SAMPLED,
    "processes": _SAMPLED,
    "errors": "SELECT 1 FROM v1_producer_errors WHERE detail = ?",
    "partitions": "SELECT 1 FROM ClusterPartitions WHERE Name = ?",
    "cards": "SELECT 1 FROM NodeGPUs WHERE UUID = ?",
}
"""Where the good element of a list is found by its number, with what it used."""
_NO_PROCESSES = (None, 7, "x", [], {"pid": -1}, {"pid": "7"}, {"pid": [7]}, {"pid": 9, "ppid": {}}, {"pid": 2**53 + 1})
_TOLD = (
    "* FROM v1_slurm_jobs",
    "* FROM v1_sampled_jobs",
    "* FROM v1_node_usage",
    "cluster, node, valid_from, cpu_model FROM v1_nodes",
    "* FROM v1_producer_errors",
    "* FROM v1_jobs",
    "Content FROM ImportQuarantine",
)


def _text(*envelopes: dict[str, Any]) -> list[bytes]:
    return [json.dumps(one).encode() for one in envelopes]


def _envelope(kind: str, **attributes: Any) -> dict[str, Any]:
    attributes = {"time": _AT, "cluster": "good"} | attributes
    return {"meta": {"producer": "sonar"}, "data": {"type": kind, "attributes": attributes}}


def _job(job_id: int) -> dict[str, Any]:
    """A finished job that nothing else is like."""
    return {
        "job_id": job_id,
        "job_state": "COMPLETED",
        "submit_time": "2026-11-20T09:59:00Z",
        "start_time": "2026-11-20T10:00:00Z",
        "end_time": "2026-11-20T10:30:00Z",
        "allocated_resources": "cpu=2,node=1",
        "nodes": ["c1-[1-2]"],
    }


def _entry(job: int, cpu_s: int) -> dict[str, Any]:
    """A job of a sample."""
    process = {"pid": 7, "ppid": 1, "cmd": "a", "cpu_time": cpu_s, "resident_memory": 1000}
    return {"job": job, "user": "ada", "processes": [process]}


def _sample(second: int, cpu_s: int, user: str = "ada") -> dict[str, Any]:
    return sample(second, _entry(0, cpu_s)["processes"], job=9300, cluster="good", node="f", user=user)


_GOOD = [json.dumps(_envelope("job", slurm_jobs=[_job(9000 + number)])).encode() for number in range(4)]
_FAULTS = _text(
    sysinfo_of(cluster="fault"),
    _envelope("job", cluster="fault", slurm_jobs=[_job(1)]),
    _sample(60, 20, user="fault"),
    _envelope("job", cluster="fault", slurm_jobs=[_job(2)]),
)
"""What errors of ours are to hit: in reading, in storing, in storing with others, in making a record."""
_BESIDE = _text(_sample(0, 10), _sample(120, 30))
"""What the third of them is stored with."""


def made(chance: random.Random) -> dict[str, bytes]:
    """Lines: good ones in their order, some with damaged elements, and damaged ones, of any version, between them."""
    lines = [*_SERIES, *_GOOD, *(_mixed(chance, number) for number in range(chance.randint(1, 3)))]
    rare = chance.random()
    if rare > 0.7:
        lines += [*_FAULTS, *_BESIDE]
        chance.shuffle(lines)
    for _ in range(chance.randint(1, 6)):
        lines.insert(chance.randint(0, len(lines)), _bad(chance).replace(b"good", b"evil"))
    if rare < 0.02:
        lines += [b"{%d" % number for number in range(_FLOOD)]
    elif rare < 0.04:
        lines.insert(chance.randint(0, len(lines)), b'{"data":"%s"}' % (b"x" * (LONGEST_BYTES + 100)))
    content = b"\n".join(lines) + b"\n"
    if 0.04 < rare < 0.2:
        return {"telemetry.json.gz": _packed(chance, content)}
    return {"telemetry.json": content}


def _packed(chance: random.Random, content: bytes) -> bytes:
    """Whole, cut, or with a checksum that is another's."""
    packed = gzip.compress(content, 1, mtime=0)
    damage = chance.randrange(3)
    if damage == 0:
        return packed[: chance.randint(20, len(packed) - 1)]
    return packed if damage == 1 else packed[:-8] + bytes(8)


def _bad(chance: random.Random) -> bytes:
    one: Any = chance.choice(everything(chance.choice(VERSIONS)))
    if chance.random() < 0.5:
        one = chance.choice(objects(chance.choice(REAL_FILES)))
    if chance.random() < 0.7:
        one = damaged_json(chance, one)
    line = json.dumps(one).encode()
    return damaged(chance, line).replace(b"\n", b" ") if chance.random() < 0.5 else line


def _mixed(chance: random.Random, number: int) -> bytes:
    """A good envelope with a list in it of which one element is good, and the others are not."""
    where = chance.choice(_LISTS)
    good = 9100 + number
    own = 8000 + 100 * number
    elements = [_broken(chance, _element(chance, where, own + place)) for place in range(chance.randint(1, 3))]
    if where == "processes":
        elements = chance.choices(_NO_PROCESSES, k=2)
    elements.insert(chance.randint(0, len(elements)), _good_element(where, good))
    envelope = _around(where, number, elements)
    envelope["meta"] = {"mixed": where, "good": good}
    text = json.dumps(envelope)
    for mark, value in _HARD.items():
        text = text.replace(f'"{mark}"', value)
    return text.encode()


def _good_element(where: str, good: int) -> dict[str, Any]:
    entry = _entry(good, 30)
    elements: dict[str, dict[str, Any]] = {
        "slurm_jobs": _job(good),
        "jobs": entry,
        "processes": entry["processes"][0],
        "errors": {"time": _AT, "cluster": "good", "node": "n", "detail": str(good)},
        "partitions": {"name": str(good), "nodes": ["c1-[1-2]"]},
        "cards": {"index": 1, "uuid": str(good), "model": "MI250"},
    }
    return elements[where]


def _element(chance: random.Random, where: str, own: int) -> dict[str, Any]:
    """A whole element of a kind: what becomes of it when it is damaged can be told by its number."""
    if where == "slurm_jobs":
        reports = [job for one in jobs(chance.choice(VERSIONS)) for job in one["data"]["attributes"]["slurm_jobs"]]
        return chance.choice([job for job in reports if len(job) > 9]) | {"job_id": own}
    return _good_element(where, own)


def _broken(chance: random.Random, element: dict[str, Any]) -> Any:
    if chance.random() < 0.15:
        return element | {chance.choice(sorted(element)): chance.choice(sorted(_HARD))}
    return damaged_json(chance, element)


def _around(where: str, number: int, elements: list[Any]) -> dict[str, Any]:
    if where == "errors":
        return {"errors": elements}
    if where == "slurm_jobs":
        return _envelope("job", slurm_jobs=elements)
    if where == "partitions":
        return _envelope("cluster", slurm=True, partitions=elements)
    if where == "cards":
        return sysinfo_of(cluster="good", node=f"cards{number}", cards=elements)
    entries = elements if where == "jobs" else [_entry(9100 + number, 30) | {"processes": elements}]
    return _envelope("sample", node=f"mixed{number}", jobs=entries)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """
    What is good is in the database with its sums, what is not in the quarantine or counted, and nothing harmful in any.

    A second import and a retry change nothing.
    """
    [(name, content)] = files.items()
    path = work / name
    path.write_bytes(content)
    plain, is_whole = _unpacked(content)
    lines = plain.split(b"\n")
    with opened(work / "ours") as (here, con):
        report = _import(con, here, path)
        assert report.unreadable == (not is_whole)
        _check_good(con, lines)
        if any(one["meta"]["mixed"] == "processes" for one in _mixed_of(lines)):
            assert report.dropped["processes"], "left out without a word"
        found = _dump(con)
        _check_rejected(found["ImportQuarantine"], report, plain)
        _check_parts(con, lines)
        _check_harmless(found)
        assert not found["ImportQuarantine"] or report.rejected
        told = _told(con)

        _import(con, here, path)
        again = _dump(con)
        assert again == found, differing(found, again)
        Importer(con, here, Site(details=True), keeps=False).retry()
        retried = _dump(con)
        assert retried == found, differing(found, retried)
    if set(_FAULTS) <= set(lines):
        _with_faults(work, path, lines, told)
    if not name.endswith(".gz"):
        _in_pieces(content)


def _import(con: sqlite3.Connection, here: Places, path: pathlib.Path) -> SonarReport:
    run = Importer(con, here, Site(details=True))
    run.files([str(path)])
    return run.report


def _unpacked(content: bytes) -> tuple[bytes, bool]:
    """The whole lines that can be read of a file, and whether these are all."""
    if not content.startswith(b"\x1f\x8b"):
        return content, True
    plain = zlib.decompressobj(-15).decompress(content[10:])
    try:
        gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile):
        return plain[: plain.rfind(b"\n") + 1], False
    return plain, True


def _dump(con: sqlite3.Connection) -> dict[str, list[Any]]:
    """Every row, without the times since when a field of a job is known: a report of another run may move them."""
    found = dump(con)
    columns = [row[1] for row in con.execute("PRAGMA table_info(SlurmJobs)")]
    kept = ", ".join(name for name in columns if name != "FieldTimes")
    found["SlurmJobs"] = sorted(con.execute(f"SELECT {kept} FROM SlurmJobs"), key=repr)
    # What is not kept whole is told again of a file that is read again.
    found["ImportQuarantine"] = sorted(((*row[1:9], *row[10:]) for row in found["ImportQuarantine"]), key=repr)
    return found


def _told(con: sqlite3.Connection) -> list[list[Any]]:
    """What telemetry made, and what is rejected: without the numbers that rows are given as they come."""
    return [sorted(con.execute(f"SELECT {what}"), key=repr) for what in _TOLD]


def _check_good(con: sqlite3.Connection, lines: list[bytes]) -> None:
    recorded = con.execute(
        "SELECT local_job_id, wall_s, core_count FROM v1_jobs WHERE job_id LIKE 'sonar:good:900_:%'"
    ).fetchall()
    there = [(str(9000 + number), 1800, 2) for number, line in enumerate(_GOOD) if line in lines]
    assert sorted(recorded) == there, recorded
    if set(_SERIES) <= set(lines):
        sums = con.execute(
            "SELECT cpu_s, peak_memory_kib, samples FROM v1_sampled_jobs WHERE cluster = 'good' AND job_id = 4242"
        ).fetchall()
        assert sums == [(30, 207684, 8)], sums
    for one in _mixed_of(lines):
        where, good = one["meta"]["mixed"], one["meta"]["good"]
        found = con.execute(_FINDS[where], (str(good),)).fetchall()
        assert found == [(1,)], f"{good} of {where}: {found}"


def _mixed_of(lines: list[bytes]) -> list[dict[str, Any]]:
    """The good envelopes with damaged elements; a value that is too hard for a reader has its mark here."""
    found = []
    for line in lines:
        if b'"mixed"' in line:
            for mark, value in _HARD.items():
                line = line.replace(value.encode(), f'"{mark}"'.encode())  # noqa: PLW2901  step by step
            found.append(json.loads(line))
    return found


def _check_rejected(rows: list[Any], report: SonarReport, plain: bytes) -> None:
    """What is rejected is kept as it came, within bounds, and all of it is counted."""
    assert report.rejected >= sum(row[7] for row in rows) >= bool(report.rejected)
    assert len(rows) <= MOST_OF_A_FILE + 1
    if b"\n{%d\n" % (_FLOOD - 1) in plain:
        assert sum(row[7] for row in rows) >= _FLOOD
    for _source, _scope, file, position, *_why, size, content in rows:
        if size >= 0:
            assert len(content) == min(size, LONGEST_BYTES), f"{position}: {len(content)} bytes of {size}"
            assert not file or ", job " in position or content in plain, f"{position}: {content[:300]!r}"


def _check_parts(con: sqlite3.Connection, lines: list[bytes]) -> None:
    """Each damaged job of a good envelope is known, or kept with what is needed to tell it again."""
    kept = [
        json.loads(content)["data"]["attributes"]
        for (content,) in con.execute("SELECT Content FROM ImportQuarantine WHERE Position LIKE '%, job %'")
    ]
    known = {
        "slurm_jobs": {row[0] for row in con.execute("SELECT job_id FROM v1_slurm_jobs WHERE cluster = 'good'")},
        "jobs": {row[0] for row in con.execute("SELECT job_id FROM v1_sampled_jobs WHERE cluster = 'good'")},
    }
    recorded = {row[0] for row in con.execute("SELECT local_job_id FROM v1_jobs WHERE job_id LIKE 'sonar:good:%'")}
    # What is too hard for a reader is kept without it.
    mixed = [
        one
        for one in _mixed_of(lines)
        if one["meta"]["mixed"] in known and not any(mark in repr(one) for mark in _HARD)
    ]
    numbers = Counter(repr(_number_of(element)) for one in mixed for element in _elements(one))
    for one in mixed:
        where, attributes = one["meta"]["mixed"], one["data"]["attributes"]
        place = {key: attributes[key] for key in ("time", "cluster", "node") if key in attributes}
        for element in _elements(one):
            if place | {where: [element]} in kept:
                continue
            number = _number_of(element)
            assert _is_none(where, number) or number in known[where], f"{where}: {element} is nowhere"
            if where == "slurm_jobs" and numbers[repr(number)] == 1 and _is_to_be_recorded(element):
                assert str(int(number)) in recorded, f"{element} is no record"


def _elements(one: dict[str, Any]) -> list[Any]:
    elements: list[Any] = one["data"]["attributes"][one["meta"]["mixed"]]
    return elements


def _number_of(element: Any) -> Any:
    return element.get("job_id", element.get("job")) if isinstance(element, dict) else None


def _is_none(where: str, number: Any) -> bool:
    """Whether it is the number of no job: what runs in none is sampled for its node alone."""
    return where == "jobs" and (not number or number in range(2**63, 2**64))


def _is_to_be_recorded(element: dict[str, Any]) -> bool:
    return (
        element.get("job_state") == "COMPLETED"
        and not element.get("job_step")
        and bool(element.get("start_time"))
        and bool(element.get("end_time"))
    )


def _check_harmless(found: dict[str, list[Any]]) -> None:
    """No text that a terminal obeys, no number that makes a sum overflow."""
    for table, rows in found.items():
        for row in rows:
            assert not any(isinstance(value, str) and _CONTROL.search(value) for value in row), (table, row)
    for row in found["SlurmJobs"]:
        assert all(value <= LARGEST for value in row if isinstance(value, int)), row


def _with_faults(work: pathlib.Path, path: pathlib.Path, lines: list[bytes], told: list[list[Any]]) -> None:
    """Errors of our own cost what they hit; once they are repaired a retry brings it."""
    sums = "SELECT samples, cpu_s FROM v1_sampled_jobs WHERE cluster = 'good' AND job_id = 9300"
    with opened(work / "faults") as (here, con):
        with _faults(con):
            report = _import(con, here, path)
            _check_good(con, lines)
            kept = {content for (content,) in con.execute("SELECT Content FROM ImportQuarantine")}
            assert set(_FAULTS[:3]) <= kept, kept
            assert report.rejected >= len(_FAULTS)
            assert con.execute(sums).fetchall() == [(2, 30)]
            assert not con.execute("SELECT 1 FROM v1_jobs WHERE job_id LIKE 'sonar:fault:%'").fetchall()
            before = _told(con)
            Importer(con, here, Site(details=True), keeps=False).retry()
            assert _told(con) == before
        Importer(con, here, Site(details=True), keeps=False).retry()
        assert con.execute(sums).fetchall() == [(3, 30)]
        retried = _told(con)
        assert retried == told, [(one, other) for one, other in zip(retried, told, strict=True) if one != other]


@contextmanager
def _faults(con: sqlite3.Connection) -> Iterator[None]:
    """Errors that the program is not known to have: only one made by hand shows that another costs no more."""
    con.create_function("is_faulty", 1, lambda points: b'"fault"' in zlib.decompress(points))
    conditions = {
        "SlurmJobs": "NEW.JobID = 1 AND NEW.ClusterID = (SELECT ID FROM Clusters WHERE Name = 'fault')",
        "JobSamples": "is_faulty(NEW.Points)",
        "AAR": "NEW.JobID LIKE 'sonar:fault:2:%'",
    }
    for table, condition in conditions.items():
        con.execute(
            f"CREATE TEMP TRIGGER fault_{table} BEFORE INSERT ON main.{table} WHEN {condition}"
            " BEGIN SELECT RAISE(ABORT, 'a fault of ours'); END"
        )
    with patch.dict(envelopes._KINDS, {"sysinfo": _faulty_sysinfo}):
        yield
    for table in conditions:
        con.execute(f"DROP TRIGGER fault_{table}")


_read_sysinfo = envelopes._KINDS["sysinfo"]


def _faulty_sysinfo(value: dict[str, Any], fields: Strict) -> Any:
    if value.get("cluster") == "fault":
        raise KeyError("a fault of ours")
    return _read_sysinfo(value, fields)


def _in_pieces(content: bytes) -> None:
    """However the bytes come, the same is told of them."""
    chance = random.Random(len(content))
    whole, pieces = TelemetryStream(details=True), TelemetryStream(details=True)
    expected = [*whole.feed(content), *whole.feed(b"", final=True)]
    told, position = [], 0
    while position < len(content):
        size = chance.choice((1, 100, 5000, 50_000))
        told += pieces.feed(content[position : position + size])
        position += size
    told += pieces.feed(b"", final=True)
    assert repr(told) == repr(expected)
