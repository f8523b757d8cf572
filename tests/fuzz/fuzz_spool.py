"""
Spools of all kinds of files, whole events among damaged ones, drained by the real sweep.

What must hold: every whole event is recorded with what its job used, and its file is gone; of every other file it is
told what became of it, and it is still there, as it was, or set aside; nothing that lies beside the spool is touched,
neither are links, pipes and files of others; a second sweep finds nothing more.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sqlite3
import tempfile
from functools import lru_cache
from typing import Any

import job_files
from control_directory import set_up
from fuzz.command import arcacct
from fuzz.damage import damaged

from arcacct.controldir.files import JobFiles, StatusFile
from arcacct.controldir.layout import STATES
from arcacct.errors import InputError
from arcacct.store.query import unescaped
from arcacct.store.spool import from_bytes, from_name, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random

DATA = pathlib.Path(__file__).parent.parent / "data"
SUFFIXES = ("local", "diag", "statistics")
CONTROL = "/CONTROL"
"""Stands in spool files for the control directory, whose path is another one each time."""
WALL_S = 61
OTHERS = ("link", "pipe", "folder", "theirs", "second")
"""What else may lie in a spool: a link, a pipe, a directory, a file of another user, another name of root's file."""
NOT_EVENTS = ("README", ".hidden", ".tmp-", "core", "x" * 255, ".\x1b]0;title\x07", "-rf")
SECRET = "root_alone_may_read_this"


@lru_cache
def _originals() -> list[dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(DATA.glob("arex/control/job.*.*")):
        _job, name, suffix = path.name.split(".")
        found.setdefault(name, {})[suffix] = path.read_bytes()
    return [{name: files[name] for name in SUFFIXES if name in files} for files in found.values() if "local" in files]


def _event(chance: random.Random, job_id: str, files: dict[str, bytes], state: str) -> bytes:
    """A spool file as the hook writes it, or as the launcher does."""
    event = JobFiles(CONTROL, job_id, state)
    event.event_ns = job_files.NOON_NS + chance.randrange(10**9)
    event.local, event.diag, event.statistics = (files.get(suffix) for suffix in SUFFIXES)
    event.owner = chance.choice((None, "ada:atlas", "UNKNOWN:UNKNOWN"))
    event.failed = chance.random() < 0.1
    if chance.random() < 0.7:
        event.status = StatusFile(state, 8, event.event_ns, event.event_ns)
    if chance.random() < 0.5:
        return to_bytes(event, event.event_ns)
    there = [(name, content) for name, content in files.items() if name in SUFFIXES]
    event.local = event.diag = event.statistics = None
    head = to_bytes(event, event.event_ns)
    parts = " ".join(f"{name} {len(content)}" for name, content in there)
    return head + f"parts={parts}\n".encode() + b"".join(content for _name, content in there)


def made(chance: random.Random) -> dict[str, bytes]:
    """``good/NAME`` are whole; ``spool/NAME`` are damaged; ``others`` says what else there is."""
    files: dict[str, bytes] = {}
    for number in range(chance.randint(1, 3)):
        job_id = f"goodJob{number}"
        local = job_files.LOCAL.replace(job_files.JOB.encode(), job_id.encode()).replace(b"4711", job_id.encode())
        whole = {"local": local, "diag": job_files.DIAG, "statistics": job_files.STATISTICS}
        files[f"good/{_name(chance, job_id, 'FINISHED')}"] = _event(chance, job_id, whole, "FINISHED")
    for number in range(chance.randint(1, 4)):
        job_id = f"badJob{number}"
        state = chance.choice(STATES)
        content = dict(chance.choice(_originals()))
        if chance.random() < 0.3:
            name = chance.choice(sorted(content))
            content[name] = damaged(chance, content[name])
        event = _event(chance, job_id, content, state)
        if chance.random() < 0.8:
            event = damaged(chance, event)
        name = _name(chance, job_id, state)
        if chance.random() < 0.15:
            name = os.fsdecode(damaged(chance, name.encode()).replace(b"/", b"").replace(b"\0", b""))[:100].strip(".")
        files[f"spool/{name or '1'}"] = event
    if chance.random() < 0.3:
        files[f"spool/{chance.choice(NOT_EVENTS)}"] = chance.randbytes(chance.randrange(200))
    others = {_name(chance, f"other{kind}", "FINISHED"): kind for kind in OTHERS if chance.random() < 0.3}
    files["others"] = json.dumps(others).encode()
    return files


def _name(chance: random.Random, job_id: str, state: str) -> str:
    begun = ".tmp-" if chance.random() < 0.1 else ""
    when = job_files.NOON_NS if chance.random() < 0.8 else job_files.NOON_S
    return f"{begun}{when}-{chance.randrange(1, 99999)}-{state}-{job_id}"


@lru_cache
def _empty() -> pathlib.Path:
    """A control directory with databases as they are on the first day."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    _configure(place)
    arcacct("--config", str(place / "arc.conf"), "db", "init", allowed=(0,))
    (place / "control" / "accounting" / "arcacct.place").unlink()
    return place / "control"


def _configure(work: pathlib.Path) -> None:
    set_up(work / "control")
    (work / "arc.conf").write_text(f"[arex]\ncontroldir = {work}/control\n\n[lrms]\nlrms = fork\n")
    (work / "arcacct.conf").write_text("")


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    _configure(work)
    shutil.copytree(_empty(), work / "control", dirs_exist_ok=True)
    ours = work / "control" / "accounting" / "arcacct"
    spool = ours / "spool"
    spool.mkdir(mode=0o700)
    beside = work / "beside"
    beside.write_text(SECRET)
    beside.chmod(0o600)
    control = str(work / "control").encode()
    given: dict[str, bytes] = {}
    good = []
    for path, content in files.items():
        folder, _, name = path.partition("/")
        if folder in {"good", "spool"}:
            given[name] = content.replace(CONTROL.encode(), control)
            good += [name] if folder == "good" else []
    for name, content in given.items():
        (spool / name).write_bytes(content)
        os.utime(spool / name, (job_files.NOON_S, job_files.NOON_S))
    others = {name: kind for name, kind in json.loads(files["others"]).items() if name not in given}
    for name, kind in others.items():
        _lay(spool / name, kind, beside)
    if others and os.geteuid() == 0 and "second" in others.values():
        # Only in a directory of somebody else's a second name means anything.
        os.chown(spool, 65534, 65534)

    told = arcacct("--config", str(work / "arc.conf"), "sweep", allowed=(0, 65))
    walls = _walls(ours / "accounting.db")

    assert beside.read_text() == SECRET
    assert SECRET not in told.err + told.out
    for name in good:
        job_id = name.rpartition("-")[2]
        assert walls.get(job_id) == WALL_S, f"{name}: {walls}\n{told.err}"
        assert not (spool / name).exists(), f"{name} is recorded and still there"
    for name, kind in others.items():
        if os.geteuid() == 0 or kind not in {"theirs", "second"}:
            assert os.path.lexists(spool / name), f"{name} was touched"
            assert name.removeprefix(".tmp-") in told.err, f"{name} was not told\n{told.err}"
    for name in set(given) - set(good):
        _accounted_for(spool, name, given[name], walls, told.err)
    again = arcacct("--config", str(work / "arc.conf"), "sweep", allowed=(0, 65))
    assert _walls(ours / "accounting.db") == walls, again.err


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


def _accounted_for(spool: pathlib.Path, name: str, content: bytes, walls: dict[str, Any], err: str) -> None:
    """A damaged event is recorded, or it is there and told, or set aside and told, or was no event."""
    aside = spool / "unusable" / name
    if aside.exists():
        assert aside.read_bytes() == content, f"{name} was changed"
        assert "set aside" in err
    elif (spool / name).exists():
        assert (spool / name).read_bytes() == content, f"{name} was changed"
        begun = name.startswith(".tmp-")
        if begun or name[:1].isdigit():
            assert "again by the next sweep" in err or begun or "left alone" in err, f"{name} waits unsaid\n{err}"
    else:
        event = _event_of(content, name)
        if event is None:
            assert name.startswith(".tmp-"), f"{name} is gone"
        else:
            # That a job was deleted says nothing of what it used.
            assert event.job_id in walls or event.state == "DELETED", f"{name} is gone, no record of {event.job_id}"


def _event_of(content: bytes, name: str) -> JobFiles | None:
    try:
        return from_bytes(content, name)[0]
    except InputError:
        return from_name(name, "/")


def _walls(database: pathlib.Path) -> dict[str, Any]:
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    con.text_factory = lambda content: content.decode("utf-8", "replace")
    try:
        return {unescaped(job_id): wall for job_id, wall in con.execute("SELECT JobID, UsedWalltime FROM AAR")}
    finally:
        con.close()
