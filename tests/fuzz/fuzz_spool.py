"""
Spools of all kinds of files, whole events among damaged ones, drained by the real sweep.

What must hold: every whole event is recorded with what its job used, and its file is gone; no job is recorded that no
whole event is of; of every other file it is told what became of it, and it is still there, as it was, or set aside;
nothing that lies next to the spool is touched, neither are links, pipes and files of others; a spool of a stranger is
left alone; a dry run changes nothing, and a second sweep finds nothing more.

The events are those of the launcher (version 2) and those that 0.2 left (version 1). Which one is whole, and what it
says, is read here again, by the words of the format alone.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import tempfile
import time
from functools import lru_cache
from typing import Any, NamedTuple

import job_files
import spool_0_2
from control_directory import set_up
from fuzz.command import Ended, arcacct, steers
from fuzz.damage import damaged

from arcacct.arex.control_files import STATES, JobFiles
from arcacct.records.states import StatusFile
from arcacct.records.texts import unescaped

DATA = pathlib.Path(__file__).parent.parent / "data"
SUFFIXES = ("local", "diag", "statistics")
CONTROL = "/CONTROL"
"""Stands in spool files for the control directory, whose path is another one each time."""
WALL_S = 61
OTHERS = ("link", "pipe", "folder", "theirs", "second")
"""What else may lie in a spool: a link, a pipe, a directory, a file of another user, another name of root's file."""
NOT_EVENTS = ("README", ".hidden", ".tmp-", ".tmp-x", "1", "core", "x" * 255, ".\x1b]0;title\x07", "-rf")
SECRET = "root_alone_may_read_this"
AGES_S = (5, 300, 3600, 7 * 86400)
INCOMPLETE_S, JUDGED_S, NOTHING_S = 60, 600, 86_400
"""A file that is younger may still become whole, be explained by another one, or become an event at all."""
AREX, STRANGER = 65534, 65533
REFUSED = "refusedJob"
"""A job that the database refuses, whatever is the matter with it."""
HEAD = {
    b"version": (b"3", b"2", b"1", b"", b"01", b"1 "),
    b"controldir": (b"", b"relative", b"/none\0", b"/\0", b"/none", b"/" + b"x" * 300),
    b"jobid": (b"", b"../../beside", b".", b"..", b"a b", b"a/b", b"x" * 201, b"\xff", b"\x1b[2J", b"j\0b"),
    b"state": (b"", b"finished", b"DONE", b"FINISHED "),
    b"time": (
        *(b"", b"-1", b"nan", b"8589934591", b"8589934592", b"9223372036854775807", b"9223372036854775808"),
        *(b"9" * 5000, "١٢".encode()),
    ),
    b"failed": (b"yes", b"", b"maybe"),
    b"status": (b"", b"1", b"1 2", b"1 2 3 4", b"1 2 x", b"-1 2 3", b"9223372036854775808 1 1"),
    b"owner": (b"UNKNOWN:atlas", b"ada:UNKNOWN", b"\xff:\xfe", b":", b"\x1b[2J:x"),
}
"""What a line of an event may say instead."""
WHOLE = (
    *(b"", b"-1", b"1 2", b"x", b"9" * 19, b"9" * 5000, "١٢".encode(), b"\xff", b"\0", b"DONE", b"UNKNOWN:UNKNOWN"),
    *(b"2026-11-20 12:00:00", b"2026-11-20 12:00:00.5 +0000", b"2026-11-20 12:00:00.999999999 +0000", b"\x1b[2J:x"),
)
"""What the last line of version 2 may have between two slashes instead."""


class Event(NamedTuple):
    """What a spool file says, or its name alone."""

    job_id: str
    state: str
    seconds: int
    controldir: bytes = CONTROL.encode()
    failed: bool = False
    files: dict[str, bytes] = {}  # noqa: RUF012  never changed

    @property
    def tells(self) -> bool:
        """Whether a record can be made of it alone. (That a job was deleted says nothing of what it used.)"""
        return bool(self.files.get("local"))


@lru_cache
def _originals() -> list[dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(DATA.glob("arex/control/job.*.*")):
        _job, name, suffix = path.name.split(".")
        found.setdefault(name, {})[suffix] = path.read_bytes()
    return [{name: files[name] for name in SUFFIXES if name in files} for files in found.values() if "local" in files]


def _event(
    chance: random.Random, job_id: str, files: dict[str, bytes], state: str, when_ns: int | None = None
) -> tuple[int, bytes]:
    """A spool file of one of the versions: the launcher's, or one of the two that 0.2 wrote."""
    event = JobFiles(CONTROL, job_id, state)
    event.event_ns = when_ns or job_files.NOON_NS + chance.randrange(10**9)
    event.local, event.diag, event.statistics = (files.get(suffix) for suffix in SUFFIXES)
    event.owner = chance.choice((None, "ada:atlas", "UNKNOWN:UNKNOWN"))
    event.failed = chance.random() < 0.1
    if when_ns or chance.random() < 0.7:
        event.status = StatusFile(state, 8, event.event_ns, event.event_ns)
    if chance.random() < 0.5:
        return 2, _version_2(chance, event)
    if chance.random() < 0.5:
        return 1, spool_0_2.to_bytes(event, event.event_ns)
    there = [(name, content) for name, content in files.items() if name in SUFFIXES]
    event.local = event.diag = event.statistics = None
    head = spool_0_2.to_bytes(event, event.event_ns)
    parts = " ".join(f"{name} {len(content)}" for name, content in there)
    return 1, head + f"parts={parts}\n".encode() + b"".join(content for _name, content in there)


def _version_2(chance: random.Random, event: JobFiles) -> bytes:
    """As the launcher writes it: only that of a finished job has the job's files."""
    lines = f"version=2\ncontroldir={event.controldir}\njobid={event.job_id}\nstate={event.state}"
    if event.state != "FINISHED":
        return f"{lines}\n\n\nwhole=\n".encode()
    lines += f"\nfailed={'yes' if event.failed else 'no'}\nhashed={chance.choice(('no', 'no', 'yes'))}"
    files = [(name, content) for name in SUFFIXES if (content := getattr(event, name)) is not None]
    said, status = "", f"0/0/{_text(chance, 0)}/0/{_text(chance, 0)}"
    if event.status is not None:
        # A-REX may have gone on before the files were copied.
        said = event.state if event.event_ns == job_files.NOON_NS or chance.random() < 0.8 else "DELETED"
        at_s = event.event_ns // 10**9
        status = f"{event.status.size}/{at_s}/{_text(chance, event.event_ns)}/{at_s}/{_text(chance, event.event_ns)}"
    parts = " ".join(f"{name} {len(content)}" for name, content in files)
    end = f"\nwhole={parts}/{said}/{status}/{event.owner or 'root:root'}\n"
    return f"{lines}\n\n".encode() + b"".join(content for _name, content in files) + end.encode()


def _text(chance: random.Random, at_ns: int) -> str:
    """A time as `stat` prints it; that of busybox may know no fraction."""
    seconds, rest_ns = divmod(at_ns, 10**9)
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    return f"{text}.{rest_ns:09} +0000" if chance.random() < 0.8 else text


def made(chance: random.Random) -> dict[str, bytes]:
    """``good/NAME`` are whole; ``spool/NAME`` are damaged; ``plan`` says what else there is."""
    files: dict[str, bytes] = {}
    for number in range(chance.randint(1, 3)):
        files |= _good(chance, f"goodJob{number}")
    if chance.random() < 0.2:
        files |= _good(chance, REFUSED)
    for number in range(chance.randint(1, 4)):
        files |= _bad(chance, f"badJob{number}")
    control = {f"controlJob{state}": state for state in ("INLRMS", "FINISHED") if chance.random() < 0.4}
    for job_id in control:
        files |= _bad(chance, job_id)
    if chance.random() < 0.3:
        files[f"spool/{chance.choice(NOT_EVENTS)}"] = chance.randbytes(chance.randrange(200))
    plan = {
        "others": {_name(chance, f"other{kind}", "FINISHED"): kind for kind in OTHERS if chance.random() < 0.3},
        "control": control,
        "ages": {name: chance.choice(AGES_S) for name in files if name.startswith("spool/")},
        "owner": STRANGER if chance.random() < 0.05 else None,
        "dry": chance.random() < 0.1,
    }
    return {**files, "plan": json.dumps(plan).encode()}


def _good(chance: random.Random, job_id: str) -> dict[str, bytes]:
    """The end of a job; perhaps told twice, or with what it did before or after it."""
    local = job_files.LOCAL.replace(job_files.JOB.encode(), job_id.encode()).replace(b"4711", job_id.encode())
    whole = {"local": local, "diag": job_files.DIAG, "statistics": job_files.STATISTICS}
    files = _named(chance, job_id, "FINISHED", whole, job_files.NOON_NS)
    for state, later_s in (("FINISHED", 0), ("INLRMS", -100), ("PREPARING", 100)):
        if chance.random() < 0.15:
            when_ns = job_files.NOON_NS + later_s * 10**9
            content = whole if state == "FINISHED" else {"local": local}
            files |= _named(chance, job_id, state, content, when_ns)
    return files


def _named(chance: random.Random, job_id: str, state: str, content: dict[str, bytes], when_ns: int) -> dict[str, bytes]:
    version, event = _event(chance, job_id, content, state, when_ns)
    name = _name(chance, job_id, state, version)
    # While a copy lies there that is refused, the other events of its job wait.
    return {f"good/{name.removeprefix('.tmp-') if job_id == REFUSED else name}": event}


def _bad(chance: random.Random, job_id: str) -> dict[str, bytes]:
    state = chance.choice(STATES) if chance.random() < 0.5 else "FINISHED"
    content = dict(chance.choice(_originals()))
    if chance.random() < 0.3:
        name = chance.choice(sorted(content))
        content[name] = damaged(chance, content[name])
    version, event = _event(chance, job_id, content, state)
    if chance.random() < 0.9:
        ways = (_other_head, _other_head, _other_head, _other_length, _other_part, _torn, _torn, _other, damaged)
        event = chance.choice((*ways, _other_end, _other_end) if version == 2 else ways)(chance, event)
    name = _name(chance, job_id, state, version if chance.random() < 0.9 else chance.choice((1, 2)))
    if chance.random() < 0.15:
        name = os.fsdecode(damaged(chance, name.encode()).replace(b"/", b"").replace(b"\0", b""))[:100].strip(".")
    return {f"spool/{name or '1'}": event}


def _other_head(chance: random.Random, event: bytes) -> bytes:
    """One line of the event says something else, or is not there."""
    key = chance.choice(sorted(HEAD))
    line = b"" if chance.random() < 0.1 else key + b"=" + chance.choice(HEAD[key]) + b"\n"
    pattern = b"(?m)^" + key + b"=.*\n"
    if not re.search(pattern, event):
        return event.replace(b"\n", b"\n" + line, 1)
    return re.sub(pattern, lambda _: line, event, count=1)


def _other_length(chance: random.Random, event: bytes) -> bytes:
    """A file in the event has another length than is said."""
    found = list(re.finditer(rb"(?<=local |.diag )[0-9]+|(?<=statistics )[0-9]+", event))
    if not found:
        return event
    one = chance.choice(found)
    length = b"%d" % max(0, int(one[0]) + chance.choice((-100, -10, -1, 1, 10, 10**6)))
    return event[: one.start()] + chance.choice((length, length, b"-1", b"9" * 19, b"9" * 5000)) + event[one.end() :]


def _other_part(chance: random.Random, event: bytes) -> bytes:
    """A file in the event is none of those that a job has."""
    return event.replace(
        chance.choice((b"diag ", b"local ", b"statistics ")), chance.choice((b"failed ", b"x ", b" ")), 1
    )


def _other_end(chance: random.Random, event: bytes) -> bytes:
    """The last line says something else between two of its slashes, or has fewer or more of them."""
    before, _, last = event.rpartition(b"\nwhole=")
    fields = last.removesuffix(b"\n").split(b"/")
    place = chance.randrange(len(fields))
    fields[place : place + chance.choice((0, 1, 1, 1, 1, 2))] = [chance.choice(WHOLE)] * chance.choice((0, 1, 1, 1, 2))
    return before + b"\nwhole=" + b"/".join(fields) + b"\n"


def _torn(chance: random.Random, event: bytes) -> bytes:
    """Its end is missing, or is zeros: as a file system leaves it that had no power."""
    in_time = event.find(b"\ntime=") + chance.randint(6, 20)
    kept = max(0, chance.choice((chance.randrange(len(event)), in_time, len(event) - chance.randint(1, 3), 0)))
    return event[:kept] + (bytes(len(event) - kept) if chance.random() < 0.2 else b"")


def _other(chance: random.Random, event: bytes) -> bytes:
    """What another program, or another version of ours, has put there."""
    newer = chance.choice((b"version=3\njob=1\n", b"version=2\njob=1\n"))
    return chance.choice((newer, b"\x7fELF\2\1", b"#!/bin/sh\n", b"{}", b"\n" + event))


def _name(chance: random.Random, job_id: str, state: str, version: int = 1) -> str:
    begun = ".tmp-" if chance.random() < 0.1 else ""
    process = str(chance.randrange(1, 99999))
    if version == 2:
        return f"{begun}{process}{chance.choice(('', '', '', '.1', '.12'))}-{state}-{job_id}"
    when = job_files.NOON_NS if chance.random() < 0.8 else job_files.NOON_S
    return f"{begun}{when}-{process}-{state}-{job_id}"


@lru_cache
def _empty() -> pathlib.Path:
    """A control directory with databases as they are on the first day, but that one of them refuses a job."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    _configure(place)
    arcacct("--config", str(place / "arc.conf"), "db", "init", allowed=(0,))
    accounting = place / "control" / "accounting"
    (accounting / "arcacct.place").unlink()
    con = sqlite3.connect(accounting / "arcacct" / "accounting.db")
    con.execute(
        f"CREATE TRIGGER Refuse BEFORE INSERT ON AAR WHEN NEW.JobID = '{REFUSED}' BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    con.commit()
    con.close()
    return place / "control"


def _configure(work: pathlib.Path) -> None:
    set_up(work / "control")
    (work / "arc.conf").write_text(f"[arex]\ncontroldir = {work}/control\n\n[lrms]\nlrms = fork\n")
    (work / "arcacct.conf").write_text("")


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    plan: dict[str, Any] = {"others": {}, "control": {}, "ages": {}, "owner": None, "dry": False}
    plan |= json.loads(files["plan"])
    _configure(work)
    shutil.copytree(_empty(), work / "control", dirs_exist_ok=True)
    for job_id, state in plan["control"].items():
        _lay_job(work / "control", job_id, state)
    spool = work / "control" / "accounting" / "arcacct" / "spool"
    spool.mkdir(mode=0o700)
    beside = work / "beside"
    beside.write_text(SECRET)
    beside.chmod(0o600)
    given, good, written_s = _lay_events(files, plan, work)
    others = {name: kind for name, kind in plan["others"].items() if name not in given}
    for name, kind in others.items():
        _lay(spool / name, kind, beside)
    is_strange = _give_away(work, spool, others, plan["owner"])

    if plan["dry"]:
        before = _look(spool)
        _sweep(work, "--dry-run")
        assert _look(spool) == before, "a dry run changed the spool"
        assert not _records(work), "a dry run recorded something"
    told = _sweep(work)
    found = _records(work)

    assert beside.read_text() == SECRET
    for name, kind in others.items():
        if os.geteuid() == 0 or kind not in {"theirs", "second"}:
            assert os.path.lexists(spool / name), f"{name} was touched"
            assert is_strange or name.removeprefix(".tmp-") in told.err, f"{name} was not told\n{told.err}"
    if is_strange:
        assert "its events are rejected" in told.err
        assert all((spool / name).read_bytes() == content for name, content in given.items()), "a strange spool"
        assert set(found) == set(plan["control"]), "an event of a stranger was believed"
        return
    _check_good(spool, good, found, told.err)
    ages = {name: plan["ages"].get(f"spool/{name}", AGES_S[-1]) for name in given}
    control = str(work / "control").encode()
    events = {
        name: _event_in(given[name], control, written_s[name]) if _is_looked_at(name, age_s) else None
        for name, age_s in ages.items()
    }
    _check_records(events, set(plan["control"]), found)
    for name in set(given) - set(good):
        file = File(name, given[name], events[name], _event_of_name(name, written_s[name]), ages[name])
        _accounted_for(spool, file, plan["control"], found, told.err)
    for job_id, state in plan["control"].items():
        wanted = ("completed", WALL_S) if state == "FINISHED" else ("in-progress", 0)
        whole = [event for event in events.values() if event and event.job_id == job_id and event.tells]
        assert whole or found[job_id].ended == wanted, f"{job_id} is {found[job_id]}, not {wanted}"
    if any(one and one.job_id in plan["control"] and ages[name] < JUDGED_S for name, one in events.items()):
        # The events of other control directories that waited: what the sweep found afterwards explains them.
        _sweep(work)
        found = _records(work)
    after = (_look(spool), found)
    _sweep(work)
    assert after == (_look(spool), _records(work)), "a second sweep found something more"


def _sweep(work: pathlib.Path, *options: str) -> Ended:
    told = arcacct("--config", str(work / "arc.conf"), "sweep", *options, allowed=(0, 65))
    assert SECRET not in told.err + told.out
    assert not steers(told.err + told.out), repr(told.err)
    # What the trigger says for the database is foreseen.
    assert "please report" not in told.err, told.err
    return told


def _lay_job(control: pathlib.Path, job_id: str, state: str) -> None:
    """The files of a job of the control directory; of one that was resumed with what an earlier run of it has left."""
    local = job_files.LOCAL.replace(job_files.JOB.encode(), job_id.encode()).replace(b"4711", job_id.encode())
    job_files.lay(control, job_files.Files(state, job_files.NOON_NS + 3600 * 10**9, local=local), job_id)


def _lay_events(
    files: dict[str, bytes], plan: dict[str, Any], work: pathlib.Path
) -> tuple[dict[str, bytes], list[str], dict[str, int]]:
    """The contents of the spool by name, which of them are whole for certain, and when each was written."""
    spool = work / "control" / "accounting" / "arcacct" / "spool"
    control = str(work / "control").encode()
    given, good, written_s = {}, [], {}
    for path, content in files.items():
        folder, _, name = path.partition("/")
        if folder not in {"good", "spool"}:
            continue
        given[name] = content.replace(CONTROL.encode(), control)
        good += [name] if folder == "good" else []
        (spool / name).write_bytes(given[name])
        since_s = time.time() - plan["ages"].get(path, AGES_S[-1])
        os.utime(spool / name, (since_s, since_s))
        written_s[name] = (spool / name).stat().st_mtime_ns // 10**9
    return given, good, written_s


def _give_away(work: pathlib.Path, spool: pathlib.Path, others: dict[str, str], owner: int | None) -> bool:
    """Whether the spool belongs to a stranger now."""
    if os.geteuid() != 0:
        return False
    if "second" in others.values():
        # Only in a directory of somebody else's a second name means anything, and only A-REX's user is believed.
        os.chown(work / "control", AREX, AREX)
        os.chown(spool, AREX, AREX)
    if owner is not None:
        os.chown(spool, owner, owner)
    return owner is not None


def _lay(path: pathlib.Path, kind: str, beside: pathlib.Path) -> None:
    if kind == "link":
        path.symlink_to(beside)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "theirs":
        path.write_bytes(b"version=1\n")
        if os.geteuid() == 0:
            os.chown(path, 12345, 12345)
    elif os.geteuid() == 0:
        os.link(beside, path)


def _look(spool: pathlib.Path) -> dict[str, bytes | None]:
    """Everything below the spool; the content of plain files."""
    found = {path: path.lstat().st_mode for path in sorted(spool.rglob("*"))}
    return {str(path): path.read_bytes() if mode & 0o170000 == 0o100000 else None for path, mode in found.items()}


_HEAD_LINE = re.compile(rb"([^=\n]*)=([^\n]*)\n")
_FILE = re.compile(rb"(local|diag|statistics) ([0-9]{1,19})")
_PARTS = re.compile(rb"((local|diag|statistics) [0-9]{1,19}( (?=[lds])|$))*")
_JOB_ID = re.compile(rb"(?![.])[!-.0-~]{1,200}")
_NAMED = re.compile(rf"(?:\.tmp-)?(\d[^-]*)-(\d+-)?({'|'.join(STATES)})-(.*)", re.DOTALL)
_WHOLE = re.compile(rb"(.*)\nwhole=([^\n]*)\n", re.DOTALL)


def _event_in(content: bytes, control: bytes, written_s: int) -> Event | None:
    """A whole event of ours; ``None`` for what is torn, hostile or of somebody else."""
    if not content.startswith(b"version=1\n"):
        return _event_of_version_2(content, control, written_s)
    head: dict[bytes, bytes] = {}
    files: dict[str, bytes] = {}
    while content:
        line = _HEAD_LINE.match(content)
        if line is None:
            return None
        key, value = line.groups()
        content = content[line.end() :]
        if key == b"parts":
            lengths = [(name.decode(), int(length)) for name, length in _FILE.findall(value)]
            if not _PARTS.fullmatch(value) or sum(length for _name, length in lengths) != len(content):
                return None
            for name, length in lengths:
                files[name], content = content[:length], content[length:]
        elif key == b"file":
            one = _FILE.fullmatch(value)
            if one is None or content[int(one[2]) :][:1] != b"\n":
                return None
            files[one[1].decode()], content = content[: int(one[2])], content[int(one[2]) + 1 :]
        else:
            head[key] = value
    seconds = _seconds(head.get(b"time", b"").decode("latin-1"))
    return None if seconds is None else _event_of_head(head, control, seconds, files)


def _event_of_version_2(content: bytes, control: bytes, written_s: int) -> Event | None:
    lines, _, rest = content.partition(b"\n\n")
    head = dict(line.partition(b"=")[::2] for line in lines.split(b"\n"))
    found = _WHOLE.fullmatch(rest)
    if found is None:
        return None
    rest, last = found.groups()
    parts, _, end = last.partition(b"/")
    lengths = [(name.decode(), int(length)) for name, length in _FILE.findall(parts)]
    if not _PARTS.fullmatch(parts) or sum(length for _name, length in lengths) != len(rest):
        return None
    files = {}
    for name, length in lengths:
        files[name], rest = rest[:length], rest[length:]
    said, size, *times = [*end.split(b"/"), b"", b"", b"", b"", b"", b""][:6]
    numbers = [_number(size), *(_number(one + _fraction(text)) for one, text in (times[:2], times[2:]))]
    is_present = said == head.get(b"state") and None not in numbers
    return _event_of_head(head, control, (numbers[1] or 0) // 10**9 if is_present else written_s, files)


def _number(text: bytes) -> int | None:
    return int(text) if re.fullmatch(rb"[0-9]{1,19}", text) and int(text) < 2**63 else None


def _fraction(text: bytes) -> bytes:
    found = re.search(rb"\.([0-9]{9})", text[: text.find(b".") + 10])
    return found[1] if found else b"0" * 9


def _event_of_head(head: dict[bytes, bytes], control: bytes, seconds: int, files: dict[str, bytes]) -> Event | None:
    job_id, state = head.get(b"jobid", b""), head.get(b"state", b"").decode("latin-1")
    place = head.get(b"controldir", b"")
    if head.get(b"version") not in {b"1", b"2"} or not _JOB_ID.fullmatch(job_id) or state not in STATES:
        return None
    if not place.startswith(b"/") or b"\0" in place:
        return None
    place = CONTROL.encode() if place == control else place
    return Event(job_id.decode(), state, seconds, place, head.get(b"failed") == b"yes", files)


def _event_of_name(name: str, written_s: int) -> Event | None:
    match = _NAMED.fullmatch(name)
    if match is None or not _JOB_ID.fullmatch(os.fsencode(match[4])):
        return None
    # The launcher's name has no time.
    seconds = _seconds(match[1]) if match[2] else written_s
    return None if seconds is None else Event(match[4], match[3], seconds)


def _seconds(text: str) -> int | None:
    """The time of an event, of which the launcher may know seconds only."""
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) >= 2**63:
        return None
    number = int(text)
    return number if number < 2**33 else number // 10**9


class Record(NamedTuple):
    """What the database has of a job."""

    ended: tuple[str, int]
    """Status and wall time."""
    logged: int
    """How often it is in the log of finished records."""
    events: frozenset[tuple[str, str]]


def _records(work: pathlib.Path) -> dict[str, Record]:
    database = work / "control" / "accounting" / "arcacct" / "accounting.db"
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    con.text_factory = lambda content: content.decode("utf-8", "replace")
    try:
        users = con.execute("SELECT InfoValue FROM JobExtraInfo WHERE InfoKey = 'localuser'").fetchall()
        events = con.execute("SELECT RecordID, EventKey, EventTime FROM JobEvents").fetchall()
        rows = con.execute(
            "SELECT RecordID, JobID, Status.Name, UsedWalltime, (SELECT count(*) FROM FinishedLog WHERE"
            " FinishedLog.RecordID = AAR.RecordID) FROM AAR JOIN Status ON Status.ID = StatusID"
        ).fetchall()
    finally:
        con.close()
    found = {
        unescaped(job_id): Record((status, wall), logged, frozenset(row[1:] for row in events if row[0] == number))
        for number, job_id, status, wall, logged in rows
    }
    assert len(found) == len(rows), "a job has two records"
    # What `stat` says of a user whom the host does not know is no one's name.
    assert not any("UNKNOWN" in user.partition(":")[::2] for (user,) in users), users
    return found


def _check_good(spool: pathlib.Path, good: list[str], found: dict[str, Record], err: str) -> None:
    for name in good:
        job_id = name.rpartition("-")[2]
        if job_id == REFUSED:
            assert (spool / "unusable" / name).exists(), f"{name}, which the database refuses, is lost"
            continue
        assert job_id in found, f"{name}: {found}\n{err}"
        assert found[job_id].ended[1] == WALL_S, f"{name}: {found}\n{err}"
        assert not (spool / name).exists(), f"{name} is recorded and still there"


def _check_records(events: dict[str, Event | None], control: set[str], found: dict[str, Record]) -> None:
    """There is a record of every job that a whole event is of, and of no other; each with what its event says."""
    whole = [event for event in events.values() if event is not None and event.tells and event.state != "DELETED"]
    wanted = {event.job_id for event in whole} | control
    assert set(found) == wanted - {REFUSED}, f"recorded: {sorted(found)}; whole: {sorted(wanted)}"
    for event in whole:
        if event.job_id == REFUSED:
            continue
        record = found[event.job_id]
        assert event.state == "ACCEPTED" or _told(event) in record.events, f"{event} is not in {record}"
        ends = [one for one in whole if one.job_id == event.job_id and one.state == "FINISHED"]
        if ends == [event] and event.job_id not in control:
            assert record.ended[0] == ("failed" if event.failed else "completed"), f"{event}: {record}"
            wall_s = _wall_s(event.files.get("diag", b""))
            assert wall_s in {None, record.ended[1]}, f"{wall_s}: {record}"


def _told(event: Event) -> tuple[str, str]:
    return event.state, time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event.seconds))


def _wall_s(diag: bytes) -> int | None:
    """The last wall time; ``None`` where it is not for a fuzzer to say."""
    if b"\0" in diag or len(diag) > 8000:
        return None
    walls = re.findall(rb"(?im)^walltime=([0-9]+)", diag)
    return min(int(walls[-1]), 2**63 - 1) if walls else 0


def _is_looked_at(name: str, age_s: int) -> bool:
    """Whether a sweep takes a file for an event: its writer gave it its name, or will never do so."""
    return name.removeprefix(".tmp-")[:1].isdigit() and (age_s >= INCOMPLETE_S or not name.startswith(".tmp-"))


class File(NamedTuple):
    """A file of the spool that may be damaged."""

    name: str
    content: bytes
    event: Event | None
    """If it is whole."""
    named: Event | None
    """What its name says."""
    age_s: int

    @property
    def is_copy(self) -> bool:
        """Whether it has no final name."""
        return self.name.startswith(".tmp-")

    @property
    def is_foreign(self) -> bool:
        """Whether a program wrote it that is none of ours."""
        first = self.content.partition(b"\n")[0]
        return not any(one.startswith(first) for one in (b"version=1", b"version=2")) and first.strip(b"\0") != b""


def _accounted_for(
    spool: pathlib.Path, file: File, control: dict[str, str], found: dict[str, Record], err: str
) -> None:
    """A damaged event is recorded, or it is there and told, or set aside and told, or was no event."""
    there = [path for path in (spool / "unusable" / file.name, spool / file.name) if path.exists()]
    assert len(there) <= 1, f"{file.name} is there twice"
    assert all(path.read_bytes() == file.content for path in there), f"{file.name} was changed"
    fate = {"unusable": "aside", "spool": "waits"}[there[0].parent.name] if there else "gone"
    fates = _fates(file, control, found)
    assert fate in fates, f"{file.name}: {fate}, not {fates}: {file.event or file.named}\n{err}"
    assert fate != "aside" or "moved to spool/unusable" in err
    is_told = file.age_s < JUDGED_S or fates == {"waits"} or "the next sweep" in err
    assert fate != "waits" or is_told, f"{file.name} waits unsaid\n{err}"


def _fates(file: File, control: dict[str, str], found: dict[str, Record]) -> set[str]:
    """What may become of a file: it ``waits``, is set ``aside``, or is ``gone`` as it is recorded, or was nothing."""
    fates = _fates_by_name(file)
    if fates:
        return fates
    event = file.event or file.named
    assert event is not None
    if event.tells:
        return {"gone"}
    record = found.get(event.job_id)
    is_explained = event.controldir == CONTROL.encode() and "local" not in event.files
    if record is None:
        explained = {"waits"} if file.age_s < JUDGED_S else {"aside"}
        return explained if is_explained else {"aside", "waits"}
    told = {_told(event)}
    if control.get(event.job_id) == event.state:
        # The status file is there, and has the better time.
        told.add(_told(event._replace(seconds=job_files.NOON_S + 3600)))
    is_told = event.state in {"ACCEPTED", "DELETED"} or told & record.events
    assert is_told or not is_explained, f"{event} is not in {record}"
    return {"gone"} if is_explained else {"gone", "aside", "waits"}


def _fates_by_name(file: File) -> set[str]:
    """What may become of a file that is no event; nothing if it is one."""
    if not _is_looked_at(file.name, file.age_s):
        return {"waits"}
    if file.event is not None:
        return set()
    if file.named is None and file.is_copy:
        return {"gone"} if file.age_s >= NOTHING_S else {"waits"}
    if file.named is None or file.is_foreign:
        return {"aside"}
    return {"waits"} if file.age_s < (JUDGED_S if file.is_copy else INCOMPLETE_S) else set()
