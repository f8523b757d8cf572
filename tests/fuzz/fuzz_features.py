"""
Directories of features as hostile as can be: shown, checked, written to, removed, and recorded between two good jobs.

What must hold: the good jobs' features are in their records; nothing that root alone may read comes out or gets into
a record; nothing comes out that steers a terminal; no value is shown or recorded that its key may not have; nothing
beside the directory is changed; no command ends in an error of ours.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import sqlite3
import tempfile
from functools import lru_cache
from typing import Any

import job_files
from control_directory import set_up
from fuzz.command import arcacct, steers
from fuzz.damage import TOKENS, damaged

from arcacct.node.feature_keys import DEPRECATED, KEYS, problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random

GOOD = ("aaGoodJobBefore", "zzGoodJobBehind")
BAD = "hostileJob"
SECRET = "root_alone_may_read_this"
VALUES = {
    "total_cpu": b"16\n",
    "hs06": b"160.5\n",
    "shutdowntime": b"4102444800\n",
    "grace_secs": b"600\n",
    "allocated_cpu": b"4\n",
    "hs06_job": b"50\n",
    "jobstart_secs": b"1795168549\n",
    "job_id": b"4711\n",
    "wall_limit_secs": b"3600\n",
    "cpu_limit_secs": b"14400\n",
    "max_rss_bytes": b"8589934592\n",
    "allocated_CPU": b"4\n",
    "mem_limit_MB": b"2000\n",
    "hepscore23_job": b"51.5\n",
    "site_zone": b"b\n",
}
KINDS = ("link", "dead link", "pipe", "folder", "device", "second", "unreadable", "theirs", "huge")
NAMES = (
    ".new-0123456789abcdef",
    "Bad-Name",
    "\x1b]0;title\x07\x1b[2J",
    "x" * 255,
    "\udcff\udcfe",
    "\u202e",
    " ",
    "-rf",
    "a\nb",
)


def made(chance: random.Random) -> dict[str, bytes]:
    """``job/KEY`` are the files of a directory, ``lines`` the same saved as lines, ``others`` what else is in it."""
    values = {name: VALUES[name] for name in chance.sample(sorted(VALUES), chance.randint(1, len(VALUES)))}
    for name in chance.sample(sorted(values), chance.randint(0, min(4, len(values)))):
        values[name] = chance.choice(TOKENS) if chance.random() < 0.3 else damaged(chance, values[name])
    files = {f"job/{name}": content for name, content in values.items()}
    for name in chance.sample(NAMES, chance.choice((0, 0, 1, 3))):
        files[f"job/{name}"] = chance.choice(TOKENS)
    lines = b"".join(name.encode() + chance.choice((b"=", b"=", b":", b"")) + values[name] for name in values)
    files["lines"] = damaged(chance, lines) if chance.random() < 0.6 else lines
    free = [name for name in (*VALUES, "site_key", "b") if f"job/{name}" not in files]
    others = {name: chance.choice(KINDS) for name in chance.sample(free, chance.choice((0, 0, 1, 2)) if free else 0)}
    kind = chance.choice(("directory", "directory", "lines", "link", "pipe", "other"))
    plan = {"others": others, "saved": kind, "of_user": chance.random() < 0.7, "many": chance.random() < 0.02}
    return {**files, "plan": json.dumps(plan).encode()}


@lru_cache
def _site() -> pathlib.Path:
    """A control directory with the records of three jobs that ended."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    _configure(place)
    for name in (*GOOD, BAD):
        local = job_files.LOCAL.replace(job_files.JOB.encode(), name.encode())
        job_files.lay(place / "control", job_files.Files(local=local), name)
    arcacct("--config", str(place / "arc.conf"), "sweep", allowed=(0,))
    (place / "control" / "accounting" / "arcacct.place").unlink()
    return place / "control"


def _configure(work: pathlib.Path) -> None:
    set_up(work / "control")
    (work / "arc.conf").write_text(f"[arex]\ncontroldir = {work}/control\n\n[lrms]\nlrms = fork\n")
    (work / "arcacct.conf").write_text("")


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    plan = json.loads(files["plan"])
    _configure(work)
    shutil.copytree(_site() / "accounting", work / "control" / "accounting", dirs_exist_ok=True)
    conf = ("--config", str(work / "arc.conf"))
    beside = work / "beside"
    beside.mkdir(mode=0o700)
    (beside / "site_key").write_text(f"{SECRET}\n")
    (beside / "site_key").chmod(0o600)
    before = _look(beside)
    job = _lay(files, plan, work, beside / "site_key")
    place = str(job)

    said = [
        arcacct(*conf, "features", "show", "--machine", place, "--job", place, allowed=(0, 65)),
        arcacct(*conf, "features", "check", "--machine", place, "--job", place, allowed=(0, 65)),
        _recorded(conf, plan, work, beside),
        arcacct(*conf, "features", "job", "set", place, "wall_limit_secs", "7200", allowed=(0, 64, 65, 74)),
        arcacct(*conf, "features", "job", "write", place, "--no-environment", "--allocated-cpu", "3", "--force",
                *(("--owner", "nobody") if os.geteuid() == 0 else ()), "--machine", place, allowed=(0, 65, 74)),
        arcacct(*conf, "features", "shutdown", "clear", place, allowed=(0, 65, 74)),
    ]  # fmt: skip
    _check_shown(said[0].out)
    removed = arcacct(*conf, "features", "job", "remove", place, allowed=(0, 65, 74))
    assert job.exists() == (removed.code != 0), removed.err
    for one in (*said, removed):
        assert SECRET not in one.out + one.err
        assert not steers(one.out + one.err), repr(one.out + one.err)
    assert _look(beside) == before, "a file beside the directory was changed"


def _lay(files: dict[str, bytes], plan: dict[str, Any], work: pathlib.Path, secret: pathlib.Path) -> pathlib.Path:
    """The directory of features, in one of its user's own."""
    home = work / "session" / BAD
    job = home / "features"
    job.mkdir(parents=True)
    for name, content in files.items():
        if name.startswith("job/"):
            (job / name.removeprefix("job/")).write_bytes(content)
    if plan["many"]:
        for number in range(1100):
            (job / f"k{number}").write_bytes(b"1")
    if plan["of_user"] and os.geteuid() == 0:
        for path in (home, job, *job.iterdir()):
            os.chown(path, 65534, 65534)
    for name, kind in plan["others"].items():
        _put(job / name, kind, secret)
    (home / "lines").write_bytes(files["lines"])
    (home / "link").symlink_to(secret.parent)
    os.mkfifo(home / "pipe")
    if plan["of_user"] and os.geteuid() == 0:
        os.chown(home / "lines", 65534, 65534)
    return job


def _put(path: pathlib.Path, kind: str, secret: pathlib.Path) -> None:
    root = os.geteuid() == 0
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "dead link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device" and root:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    elif kind == "second" and path.parent.stat().st_uid != os.geteuid():
        os.link(secret, path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.write_bytes(b"8\n")
        path.chmod(0 if kind == "unreadable" else 0o644)
        if root:
            os.chown(path, 12345, 12345)


def _recorded(conf: tuple[str, str], plan: dict[str, Any], work: pathlib.Path, beside: pathlib.Path) -> Any:
    """`features record` of all three jobs, and what their records have then."""
    saved = {"directory": "features", "other": "nothing"}.get(plan["saved"], plan["saved"])
    for number, name in enumerate(GOOD):
        place = work / "session" / name
        place.mkdir()
        text = f"hs06_job={30 + number}\nallocated_cpu=2\nsite_zone=good\n"
        (place / "features").write_text(text)
        for other in ("lines", "link", "pipe", "nothing"):
            (place / other).write_text(text)
    told = arcacct(*conf, "features", "record", "--from", str(work / "session" / "{jobid}" / saved), allowed=(0, 65))
    found = _records(work / "control" / "accounting" / "arcacct" / "accounting.db")
    for number, name in enumerate(GOOD):
        assert found[name] == {"benchmark": f"HEPSPEC:{15 + number / 2:g}", "mjf_site_zone": "good"}, found[name]
    assert SECRET not in str(found)
    of_bad = found[BAD]
    if plan["saved"] in {"link", "pipe"}:
        assert told.code == 65, "nothing was said of what is no saved features"
    if plan["saved"] in {"link", "pipe", "other"}:
        assert not any(key.startswith("mjf_") for key in of_bad), of_bad
    for key, value in of_bad.items():
        if key.startswith("mjf_"):
            assert problem(key.removeprefix("mjf_"), value.removesuffix("...")) is None, (key, value)
    assert len(of_bad) <= 101
    assert re.fullmatch(r"HEPSPEC:[0-9.]+", of_bad["benchmark"]), of_bad
    return told


def _records(database: pathlib.Path) -> dict[str, dict[str, str]]:
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        rows = con.execute(
            "SELECT JobID, InfoKey, InfoValue FROM AAR JOIN JobExtraInfo USING (RecordID)"
            " WHERE InfoKey = 'benchmark' OR InfoKey GLOB 'mjf_*'"
        ).fetchall()
    finally:
        con.close()
    found: dict[str, dict[str, str]] = {name: {} for name in (*GOOD, BAD)}
    for job_id, key, value in rows:
        found[job_id][key] = value
    return found


def _check_shown(out: str) -> None:
    """Each value that a job is shown is one that its key may have."""
    for line in out.splitlines():
        name, _, value = line.partition(" ")
        assert name not in DEPRECATED, line
        if name in KEYS:
            assert problem(name, value) is None, line


def _look(directory: pathlib.Path) -> dict[str, tuple[int, ...]]:
    found = {}
    for path in (directory, *sorted(directory.iterdir())):
        status = path.stat()
        found[path.name] = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)
    return found
