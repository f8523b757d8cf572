"""
Control files of a job, damaged, between those of two that are whole: through sweep, the database and every message.

What must hold: the two jobs are recorded and published with what they used; the damaged one is recorded with what its
files say, or it is told why not; no more of it is kept than the limits allow, and nothing that means something to SQL;
it is in every receiver's messages or set aside for it, or never was a finished job; each message is one that its
receiver would take; no command ends in an error of ours or writes a character that steers a terminal.

What the files say is read here again, and only where that is simple.
"""

from __future__ import annotations

import pathlib
import random
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache

from fuzz.command import arcacct, steers
from fuzz.damage import TOKENS, damaged
from fuzz.site_of_targets import GOOD, WALL_S, begin, database_of, publish_to_all, records

from arcacct.arex.control_files import STATES
from arcacct.records.texts import unescaped

DATA = pathlib.Path(__file__).parent.parent / "data"
SUFFIXES = ("local", "diag", "statistics", "failed")
REFUSED = "refusedJob"
"""A job that the database refuses, whatever is the matter with it."""
NAMES = ("ho;st$(id)%41", "-rf", "x" * 150, "\x1b]0;x\x07", "j.ob.local", "'", "a b", "ü", REFUSED)
NUMBERS = (b"0", b"1", b"61.5s", b"2147483647", b"2147483648", b"9007199254740993", b"9223372036854775807")
WILD = (*NUMBERS, b"9223372036854775808", b"-1", b"1e9", b" 5", b"9" * 40, b"9" * 41, b"9" * 5000)
TIMES = (
    *(b"20261120110000Z", b"20261331000000Z", b"20260230000000Z", b"20261120250000Z", b"20261120116000Z"),
    *(b"19691231235959Z", b"99991231235959Z", b"20261120110000", b"2026112 110000Z", b"+0261120110000Z"),
    *(b"2026-11-20T11:00:00Z", "2026112011000\u0663Z".encode()),
)
WORDS = (*TOKENS, b"a'b#c%d", b"x'); DROP TABLE AAR; --", "é".encode() * 500, b"a\x00b", b"/" * 300, b"<&>", b"n[1-9]")
KEYS: dict[str, dict[bytes, tuple[bytes, ...]]] = {
    "local": {
        b"starttime": TIMES,
        **dict.fromkeys((b"subject", b"queue", b"headnode", b"localid", b"jobname", b"voms", b"projectname"), WORDS),
        **dict.fromkeys((b"interface", b"clientname", b"auth", b"tokenclaim.iss"), WORDS),
    },
    "diag": {
        **dict.fromkeys((b"WallTime", b"UserTime", b"kerneltime", b"Processors", b"exitcode", b"usedscratch"), WILD),
        **dict.fromkeys((b"MaxResidentMemory", b"averagetotalmemory"), WILD),
        **dict.fromkeys((b"LRMSStartTime", b"LRMSEndTime"), TIMES),
        **dict.fromkeys((b"nodename", b"runtimeenvironments", b"wninstance"), WORDS),
        b"Benchmark": (b"HEPSPEC:0", b"HEPSPEC:1e9", b"HEPSPEC:99999999", b"nonsense", b"", *WORDS),
    },
}
"""Lines that are put at the end of a file, where the last one counts."""
LOOKED_AT = (b"WallTime", b"UserTime", b"kerneltime", b"starttime", b"starttime", b"subject")
"""Of these it is seen whether they were read right."""
TRANSFER = b"%sfile:url=%s,size=%s,starttime=2026-11-20T11:00:05Z,endtime=%s%s\n"


@lru_cache
def _originals() -> list[dict[str, bytes]]:
    """The files of every job of both corpora."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(DATA.glob("arex/control/job.*.*")):
        _job, name, suffix = path.name.split(".")
        found.setdefault(name, {})[suffix] = path.read_bytes()
    for path in sorted(DATA.glob("arex7/control/jobs/**/*")):
        if path.is_file():
            found.setdefault(str(path.parent), {})[path.name] = path.read_bytes()
    return [{name: files[name] for name in SUFFIXES if name in files} for files in found.values() if "local" in files]


def made(chance: random.Random) -> dict[str, bytes]:
    files = dict(chance.choice(_originals()))
    for name in chance.sample(sorted(files), chance.randint(1, len(files))):
        way = chance.random()
        if way < 0.35:
            files[name] = damaged(chance, files[name])
        elif way < 0.5:
            files[name] = _ended(chance, files[name])
        else:
            files[name] = _longer(chance, name, files[name])
    state = (
        b"FINISHED" if chance.random() < 0.9 else chance.choice((b"INLRMS", b"DELETED", b"PENDING:FINISHED", b"", b"X"))
    )
    files["status"] = state if chance.random() < 0.9 else damaged(chance, state)
    name = chance.choice(NAMES) if chance.random() < 0.3 else "hostileJob"
    return {f"{name}/{suffix}": content for suffix, content in files.items()}


def _ended(chance: random.Random, content: bytes) -> bytes:
    """Its end is not written yet, perhaps no more than the line end: half of what matters, where it stands last."""
    lines = content.splitlines(keepends=True)
    that_matter = [line for line in lines if line.startswith((b"subject=", b"starttime="))]
    last = chance.choice(that_matter or lines or [b""])
    lines = [line for line in lines if line != last]
    return b"".join([*lines, last])[: -chance.randint(1, 12)]


def _longer(chance: random.Random, name: str, content: bytes) -> bytes:
    """Further lines, a few or far more than any job has."""
    times = chance.choice((1, 1, 1, 3, 20, 300, 6000))
    if name not in KEYS:
        kind, url = chance.choice((b"input", b"output")), chance.choice((b"gsiftp://se/x", b"a,size=1", *WORDS))
        rest = chance.choice((b"", b",fromcache=yes", b",fromcache=no"))
        return content + TRANSFER % (kind, url[:2000], chance.choice(WILD), chance.choice(TIMES), rest) * min(
            times, 1200
        )
    for _ in range(chance.randint(1, 4)):
        keys = [key for key in LOOKED_AT if key in KEYS[name]] if chance.random() < 0.4 else sorted(KEYS[name])
        key = chance.choice(keys)
        value = chance.choice(KEYS[name][key])
        content += (key + b"=" + value + b"\n") * min(times, 1 + 200_000 // (len(value) + 10))
    return content


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    control = begin(work)
    for path, content in files.items():
        name, _, suffix = path.rpartition("/")
        folder = control / "finished" if suffix == "status" else control
        (folder / f"job.{name}.{suffix}").write_bytes(content)
    name = next(iter(files)).rpartition("/")[0]
    if name == REFUSED:
        _refuse(database_of(work))
    conf = ("--config", str(work / "arc.conf"))
    told = arcacct(*conf, "sweep", allowed=(0, 65))
    assert "please report" not in told.err, told.err
    before = records(work)
    again = arcacct(*conf, "sweep", allowed=(0, 65))
    assert before == records(work), "a second sweep of the same files changed the records"
    assert all(before[name][:2] == ("completed", WALL_S) for name in GOOD), before
    _check_recorded(name, {path.rpartition("/")[2]: files[path] for path in files}, work, told.err)
    _check_limits(work)
    publish_to_all(work)
    asked = (
        ("status",),
        ("job", "info", "--", name),
        ("job", "--only", "why", "--", name),
        ("stats", "--by", "user,vo"),
    )
    shown = [told, again, *(arcacct(*conf, *command, allowed=(0, 1, 2, 3, 64, 65)) for command in asked)]
    assert not any(steers(one.out + one.err) for one in shown), shown


def _refuse(database: pathlib.Path) -> None:
    with closing(sqlite3.connect(database)) as con, con:
        con.execute(
            f"CREATE TRIGGER Refuse BEFORE INSERT ON AAR WHEN NEW.JobID = '{REFUSED}'"
            " BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )


def _check_recorded(name: str, files: dict[str, bytes], work: pathlib.Path, err: str) -> None:
    """The job is recorded with what its files say, or it is told why not."""
    query = (
        "SELECT JobID, Status.Name, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, SubmitTime, Users.Name,"
        " StageInVolume, StageOutVolume FROM AAR JOIN Status ON Status.ID = StatusID JOIN Users ON Users.ID = UserID"
    )
    with closing(sqlite3.connect(f"file:{database_of(work)}?mode=ro", uri=True)) as con:
        found = {unescaped(row[0]): row[1:] for row in con.execute(query)}
    state = files["status"].decode("ascii", "backslashreplace").strip().removeprefix("PENDING:")
    is_job = bool(re.fullmatch("(?![.])[!-.0-~]{1,200}", name)) and state in STATES and name != REFUSED
    if not (is_job and files["local"]):
        assert set(found) == set(GOOD), f"{sorted(found)}: {name!r} is no job"
        assert state in {"", "DELETED"} or "the next sweep checks the job again" in err, f"{name!r} was not told\n{err}"
        return
    assert set(found) == {*GOOD, name}, f"{sorted(found)}, not {name}\n{err}"
    status, wall_s, user_s, kernel_s, submitted_s, user, stage_in, stage_out = found[name]
    lines = files["local"].replace(b"\0", b"").split(b"\n")[:-1]
    assert _last(lines, b"subject") in {None, user.encode()}, user
    assert _instant(_last(lines, b"starttime") or b"?") in {None, submitted_s}, submitted_s
    if state not in {"FINISHED", "DELETED"}:
        assert (status, wall_s) == ("in-progress", 0), found[name]
        return
    assert status == ("failed" if "failed" in files else "completed"), status
    diag = files.get("diag", b"").replace(b"\0", b"")
    if len(diag) < 60_000:
        used = [_number(diag, key) for key in (b"walltime", b"usertime", b"kerneltime")]
        assert [wall_s, user_s, kernel_s] == used, f"{found[name]}, not {used}"
    staged = _staged(files.get("statistics", b""))
    assert staged in {None, (stage_in, stage_out)}, f"{stage_in}, {stage_out}, not {staged}"


def _last(lines: list[bytes], key: bytes) -> bytes | None:
    """The last value of a key among whole lines; ``None`` where it is not for a fuzzer to say how it is stored."""
    values = [line.partition(b"=")[2] for line in lines if line.startswith(key + b"=") and line != key + b"="]
    value = values[-1] if values else b""
    is_plain = value.isascii() and value.decode("ascii").isprintable() and not set(value) & set(b"%'#")
    return value if is_plain and len(value) < 200 and sum(map(len, lines)) < 60_000 else None


def _instant(value: bytes) -> int | None:
    """UTC seconds, 0 for what is no time, ``None`` where a fuzzer does not say."""
    if not re.fullmatch(rb"[0-9]{14}Z", value):
        return None if value == b"?" or b"T" in value or value != value.strip() else 0
    if value[12:14] == b"60":
        return None
    try:
        return max(0, int(datetime.strptime(value.decode(), "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()))
    except ValueError:
        return 0


def _number(diag: bytes, key: bytes) -> int:
    """The digits that the last value of a key with any starts with, at most what a column holds."""
    found = re.findall(rb"(?im)^" + key + rb"=([0-9]+)", diag)
    return min(int(found[-1][:41]), 2**63 - 1) if found else 0


_TRANSFER = re.compile(
    rb"(input|output)file:url=[^,\n]+,size=([0-9]{1,19}),starttime="
    rb"202[0-9]-1[0-2]-[12][0-9]T[01][0-9]:[0-5][0-9]:[0-5][0-9]Z,endtime="
    rb"202[0-9]-1[0-2]-[12][0-9]T[01][0-9]:[0-5][0-9]:[0-5][0-9]Z(,fromcache=(yes|no))?"
)


def _staged(statistics: bytes) -> tuple[int, int] | None:
    """Bytes fetched and brought back; ``None`` where a line is not as A-REX writes it."""
    sums = {b"input": 0, b"output": 0}
    for line in statistics.split(b"\n"):
        match = _TRANSFER.fullmatch(line)
        if line and (match is None or len(statistics) > 60_000):
            return None
        if match is not None and (match[1] == b"output" or match[4] != b"yes"):
            sums[match[1]] += min(int(match[2]), 2**63 - 1)
    return min(sums[b"input"], 2**63 - 1), min(sums[b"output"], 2**63 - 1)


def _check_limits(work: pathlib.Path) -> None:
    """What is kept of one job is bounded, is text, and has nothing in it that a reader of it would stumble over."""
    texts = {
        "Users": "Name",
        "Queues": "Name",
        "WLCGVOs": "Name",
        "Endpoints": "URL || Interface",
        "AuthTokenAttributes": "AttrValue",
        "RunTimeEnvironments": "RTEName",
        "DataTransfers": "URL",
        "JobExtraInfo": "InfoValue",
        "JobEvents": "EventKey || EventTime",
    }
    with closing(sqlite3.connect(f"file:{database_of(work)}?mode=ro", uri=True)) as con:
        con.text_factory = bytes
        for table, column in texts.items():
            key = "InfoKey" if table == "JobExtraInfo" else "''"
            rows = con.execute(f"SELECT {column}, {key} FROM {table}").fetchall()
            assert len(rows) <= 1100, f"{len(rows)} rows in {table}"
            assert sum(len(text) for text, _key in rows) <= 100_000, f"{table} is full"
            for text, which in rows:
                text.decode("utf-8")
                assert not re.search(rb"['#\0\r\n\b]|%(?![0-9A-F]{2})", text), f"{table}: {text!r}"
                assert len(text) <= (17_000 if which == b"nodenames" else 1800 if table == "Endpoints" else 900), table
        (most,) = con.execute(
            "SELECT max(n) FROM (SELECT count(*) AS n FROM JobEvents WHERE EventKey GLOB 'LRMS*' GROUP BY RecordID)"
        ).fetchone()
        assert (most or 0) <= 4, f"{most} starts and ends in the batch system"
