"""
Directories of features as hostile as can be: shown, checked, written to, removed, and recorded between two good jobs.

What must hold: the good jobs' features are in their records; of the hostile one just those values are shown and
recorded that its keys may have, and nothing else of its record is changed; what cannot be used is kept among the
rejected records; nothing that root alone may read comes out or gets into a record; nothing comes out that steers a
terminal; what is no key of features is neither written over nor removed, and nothing next to the directory is changed;
no command ends in an error of ours.

Which values those are is said here again, by the words of the specification.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import stat
import tempfile
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import job_files
from control_directory import set_up
from fuzz.command import Ended, arcacct, steers
from fuzz.damage import TOKENS, damaged

GOOD = ("aaGoodJobBefore", "zzGoodJobBehind")
BAD = "hostileJob"
SECRET = "root_alone_may_read_this"
VALUES = {
    "total_cpu": b"16\n", "hs06": b"160.5\n", "shutdowntime": b"4102444800\n", "grace_secs": b"600\n",
    "allocated_cpu": b"4\n", "hs06_job": b"50\n", "jobstart_secs": b"1795168549\n", "job_id": b"4711\n",
    "wall_limit_secs": b"3600\n", "cpu_limit_secs": b"14400\n", "max_rss_bytes": b"8589934592\n",
    "allocated_CPU": b"4\n", "mem_limit_MB": b"2000\n", "disk_limit_GB": b"20\n", "hepscore23_job": b"51.5\n",
    "site_zone": b"b\n",
}  # fmt: skip
KINDS = ("link", "dead link", "pipe", "folder", "device", "second", "stolen", "unreadable", "theirs", "huge")
NAMES = (
    ".new-0123456789abcdef", "Bad-Name", "\x1b]0;title\x07\x1b[2J", "x" * 255, "\udcff\udcfe", "\u202e", " ", "-rf",
    "a\nb",
)  # fmt: skip


SPECIAL = {
    "hs06": (b"0.000001\n", b"0\n", b"1e5\n", b"999999999999\n"),
    "total_cpu": (b"0\n", b"1\n", b"999999999999999999\n"),
    "hs06_job": (b"99999999999\n", b"0.000001\n", b"0\n", b"1e5\n", b"-1\n"),
    "allocated_cpu": (b"1\n", b"0\n", b"64\n", b"1.5\n", b"999999999999999999\n"),
    "allocated_CPU": (b"8\n", b"0\n", b"99999999999\n", b"999999999999\n"),
    "job_id": (b"4711.ce\n", b"4712\n", b"4711 x\n"),
    "max_rss_bytes": (b"1000\n", b"1048575\n", b"1048576\n"),
    "mem_limit_MB": (b"999999999999\n", b"99999999999\n", b"0\n"),
    "shutdowntime": (b"0\n", b"100000000000\n"),
    "wall_limit_secs": (b"7200\n", b"1h\n"),
    "site_zone": (b"z" * 2000, b"a\x1b[2J\n", b"a'b%#c\n", b"a\nb\n", "é".encode(), b"a\n\r\n"),
}
"""What the keys may say, or nearly."""
SET = (
    *(("wall_limit_secs", "soon"), ("wall_limit_secs", ""), ("max_rss_bytes", "10"), ("Bad-Name", "1")),
    *(("../site_key", "1"), ("site_zone", "a\nb"), ("site_zone", "\x1b[2J"), ("site_zone", "é")),
)
"""What no one may write."""
DRAFT = {
    "allocated_CPU": ("allocated_cpu", 1),
    "mem_limit_MB": ("max_rss_bytes", 10**6),
    "disk_limit_GB": ("scratch_limit_bytes", 10**9),
}
DIGITS, DECIMAL = "[0-9]{1,18}", r"[0-9]{1,12}(\.[0-9]{0,12})?"
SECONDS = (DIGITS, 0, 10**18)
INSTANT = (DIGITS, 1, 10**11 - 1)
BYTES = (DIGITS, 2**20, 10**18)
COUNT = (DIGITS, 1, 10**18)
RATING = (DECIMAL, 1e-13, 10**12)
FORMS: dict[str, tuple[str, float, int]] = {
    **dict.fromkeys(("total_cpu", "allocated_cpu"), COUNT),
    **dict.fromkeys(("hs06", "hs06_job"), RATING),
    **dict.fromkeys(("shutdowntime", "shutdowntime_job", "jobstart_secs"), INSTANT),
    **dict.fromkeys(("grace_secs", "grace_secs_job", "wall_limit_secs", "cpu_limit_secs"), SECONDS),
    **dict.fromkeys(("max_rss_bytes", "max_swap_bytes", "scratch_limit_bytes"), BYTES),
}
"""What a number may look like, the least that it may be, and the most."""
KNOWN = (*FORMS, "job_id")
BENCHMARK = "HEPSPEC:12.26"
"""What the records have already."""
LARGEST_FILE = 256 * 1024


def made(chance: random.Random) -> dict[str, bytes]:
    """``job/KEY`` are the files of a directory, ``lines`` the same saved as lines, ``others`` what else is in it."""
    values = {name: VALUES[name] for name in chance.sample(sorted(VALUES), chance.randint(1, len(VALUES)))}
    for name in chance.sample(sorted(values), chance.randint(0, min(4, len(values)))):
        values[name] = chance.choice(TOKENS) if chance.random() < 0.3 else damaged(chance, values[name])
    for name in chance.sample(sorted(SPECIAL), chance.choice((0, 1, 1, 2, 4))):
        values[name] = chance.choice(SPECIAL[name])
    if chance.random() < 0.05:
        values |= {"hs06_job": chance.choice(SPECIAL["hs06_job"]), "allocated_cpu": chance.choice((b"1\n", b"64\n"))}
    files = {f"job/{name}": content for name, content in values.items()}
    for name in chance.sample(NAMES, chance.choice((0, 0, 1, 3))):
        files[f"job/{name}"] = chance.choice(TOKENS)
    lines = b"".join(name.encode() + chance.choice((b"=", b"=", b":", b"")) + values[name] for name in values)
    many = chance.choice((150, 150, 150, 1100)) if chance.random() < 0.08 else 0
    lines += b"".join(b"k%d=1\n" % number for number in range(many))
    files["lines"] = damaged(chance, lines) if chance.random() < 0.6 else lines
    if chance.random() < 0.05:
        # What is read of it ends within the last value.
        files["lines"] = b"#" * (LARGEST_FILE - 22) + b"\nallocated_cpu=1\nb=1234567890\n"
    free = [name for name in (*VALUES, "site_key", "b") if f"job/{name}" not in files]
    others = {name: chance.choice(KINDS) for name in chance.sample(free, chance.choice((0, 0, 1, 2)) if free else 0)}
    kind = chance.choice(("directory", "directory", "lines", "lines", "link", "pipe", "second", "stolen", "other"))
    plan = {"others": others, "saved": kind, "of_user": chance.random() < 0.7, "many": many}
    plan["set"] = chance.choice(SET)
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
    plan = {"set": SET[0], **json.loads(files["plan"])}
    _configure(work)
    shutil.copytree(_site() / "accounting", work / "control" / "accounting", dirs_exist_ok=True)
    conf = ("--config", str(work / "arc.conf"))
    beside = work / "beside"
    beside.mkdir(mode=0o700)
    (beside / "site_key").write_text(f"site_key={SECRET}\n")
    (beside / "site_key").chmod(0o600)
    before = _look(beside)
    job = _lay(files, plan, work, beside / "site_key")
    place = str(job)
    wanted = _believed(_raw(files, plan))

    said = [
        arcacct(*conf, "features", "show", "--machine", place, "--job", place, allowed=(0, 65)),
        arcacct(*conf, "features", "check", "--machine", place, "--job", place, allowed=(0, 65)),
        _recorded(conf, files, plan, work, wanted),
        *_changed(conf, job, plan, wanted),
    ]
    _check_shown(said[0].out, place, wanted)
    there = _listing(job)
    removed = arcacct(*conf, "features", "remove", place, allowed=(0, 65, 74))
    is_known = all(
        one.kind == stat.S_IFREG and (re.fullmatch("[a-z0-9_]{1,255}", name) or name.startswith(".new-"))
        for name, one in there.items()
    )
    assert (removed.code == 0) == is_known, removed.err
    assert job.exists() != is_known
    assert is_known or _listing(job) == there, "something was removed"
    for one in (*said, removed):
        assert SECRET not in one.out + one.err
        assert not steers(one.out + one.err), repr(one.out + one.err)
    assert _look(beside) == before, "a file beside the directory was changed"


def _changed(conf: tuple[str, str], job: pathlib.Path, plan: dict[str, Any], wanted: dict[str, str]) -> list[Ended]:
    """The commands that write: just what they are to write is changed, and nothing when they refuse."""
    place, owner = str(job), (job.stat().st_uid, job.stat().st_gid)
    there = _listing(job)
    write = (*conf, "features", "write", "job", "--no-environment", place)
    said = [arcacct(*write, "--", "=".join(plan["set"]), allowed=(64, 65))]
    assert _listing(job) == there, f"{plan['set']} was written"

    said.append(arcacct(*write, "wall_limit_secs=7200", allowed=(0, 64, 65, 74)))
    is_other = wanted.get("wall_limit_secs", "7200") != "7200"
    assert not is_other or said[-1].code == 64, "what a job relies on was changed"
    _check_written(job, there, said[-1], {} if is_other else {"wall_limit_secs": "7200"})

    there = _listing(job)
    to_nobody = ("--owner", "nobody") if os.geteuid() == 0 else ()
    options = ("allocated_cpu=3", "--force", *to_nobody, "--machine", place)
    said.append(arcacct(*write, *options, allowed=(0, 65, 74)))
    _check_written(job, there, said[-1], {"allocated_cpu": "3"} | _share(wanted))
    assert (job.stat().st_uid, job.stat().st_gid) == owner, "a directory that was there was given away"

    there = _listing(job)
    said.append(arcacct(*conf, "features", "shutdown", "--cancel", place, allowed=(0, 65, 74)))
    is_announced = there["shutdowntime"].kind == stat.S_IFREG if "shutdowntime" in there else None
    assert (said[-1].code == 0) == (is_announced is not False), said[-1].err
    assert _listing(job) == {name: one for name, one in there.items() if name != "shutdowntime" or not is_announced}
    return said


def _share(wanted: dict[str, str]) -> dict[str, str]:
    """What three processors are of a machine that is told there."""
    if not {"hs06", "total_cpu"} <= wanted.keys():
        return {}
    share = f"{round(float(wanted['hs06']) * 3000 / int(wanted['total_cpu'])) / 1000:.3f}".rstrip("0").rstrip(".")
    return {"hs06_job": share} if _may_be("hs06_job", share) else {}


class There(NamedTuple):
    """What is under a name."""

    kind: int
    inode: int
    content: bytes
    """Its beginning, of a plain file."""


def _listing(directory: pathlib.Path) -> dict[str, There]:
    found = {}
    for path in sorted(directory.iterdir()):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        is_read = kind == stat.S_IFREG and status.st_mode & stat.S_IRUSR
        with path.open("rb") if is_read else open(os.devnull, "rb") as file:
            found[path.name] = There(kind, status.st_ino, file.read(100_000))
    return found


def _check_written(job: pathlib.Path, there: dict[str, There], told: Ended, values: dict[str, str]) -> None:
    """No other names than these are touched, and these have the values, unless it was refused for what they are."""
    found = _listing(job)
    assert {name: one for name, one in found.items() if name not in values} == {
        name: one for name, one in there.items() if name not in values
    }, "another key was changed"
    strange = {name: one for name, one in there.items() if name in values and one.kind != stat.S_IFREG}
    assert all(found.get(name) == one for name, one in strange.items()), "what is no file was written over"
    assert not values or (told.code == 0) != bool(strange), told.err
    if told.code == 0:
        for name, value in values.items():
            assert found[name].content == f"{value}\n".encode(), f"{name} is {found[name].content!r}, not {value}"


def _raw(files: dict[str, bytes], plan: dict[str, Any]) -> dict[str, str]:
    """The values that a job finds in its directory, good or not."""
    root = os.geteuid() == 0
    # No one else may bring a file into a directory of a user's; of ours each is what root or we have put there.
    is_shared = root and plan["of_user"]
    contents = {name.removeprefix("job/"): content for name, content in files.items() if name.startswith("job/")}
    contents |= {f"k{number}": b"1" for number in range(plan["many"])}
    names = {*contents, *plan["others"]}
    for name, kind in plan["others"].items():
        plain = (
            kind in {"theirs", "unreadable"}
            or (kind in {"second", "stolen"} and not is_shared)
            or (kind == "device" and not root)
        )
        if plain and not is_shared and (root or kind != "unreadable"):
            contents[name] = b"8\n"
    if len(names) > 1000:
        contents = {name: content for name, content in contents.items() if name in KNOWN or name in DRAFT}
    return {
        name: content.decode("ascii").strip()
        for name, content in contents.items()
        if len(content) <= 4096 and content.isascii() and (re.fullmatch("[a-z0-9_]{1,255}", name) or name in DRAFT)
    }


def _may_be(name: str, value: str) -> bool:
    if name in FORMS:
        form, least, most = FORMS[name]
        return bool(re.fullmatch(form, value)) and least <= float(value) <= most
    if name == "job_id":
        return bool(re.fullmatch("[!-~]{1,1024}", value))
    return value != "" and value.isprintable()


def _believed(raw: dict[str, str]) -> dict[str, str]:
    """The values that a job would rely on; those of the draft of old under their names of today."""
    old = {
        today: str(int(raw[name]) * factor)
        for name, (today, factor) in DRAFT.items()
        if today not in raw and re.fullmatch("[0-9]{1,11}", raw.get(name, ""))
    }
    found = {name: value for name, value in (raw | old).items() if name not in DRAFT}
    return {name: value for name, value in found.items() if _may_be(name, value)}


def _of_lines(content: bytes) -> dict[str, str]:
    """The values in lines of ``key=value``, or of ``path:value``."""
    if len(content) >= LARGEST_FILE:
        content = content[: content.rfind(b"\n", 0, LARGEST_FILE) + 1]
    found = {}
    for line in content.decode("ascii", "replace").splitlines():
        key, equals, value = line.partition("=")
        if not equals:
            key, _, value = line.rpartition(":")
        name, value = key.split("/")[-1].strip(), value.strip()
        if re.fullmatch("[a-z0-9_]{1,255}", name) and _may_be(name, value):
            found[name] = value
    return found


def _in_record(wanted: dict[str, str]) -> dict[str, str]:
    """What a record has of these features; of another job nothing."""
    told = wanted.get("job_id", "4711")
    is_task = re.fullmatch(r"4711\[[1-9][0-9]{0,17}\](\.[A-Za-z][A-Za-z0-9._-]*)?", told)
    if told.partition(".")[0] != "4711" and not is_task:
        return {"benchmark": BENCHMARK}
    further = sorted(f"mjf_{name}" for name in wanted if name not in KNOWN)[:100]
    found = {name: wanted[name.removeprefix("mjf_")][:1000] for name in further}
    for letter, instead in (("%", "%25"), ("'", "%27"), ("#", "%23")):
        found = {name: value.replace(letter, instead) for name, value in found.items()}
    found["benchmark"] = BENCHMARK
    if {"hs06_job", "allocated_cpu"} <= wanted.keys():
        value = Decimal(wanted["hs06_job"]) / Decimal(wanted["allocated_cpu"])
        if Decimal("0.0005") <= value < 10**7:
            rounded = value.quantize(Decimal("0.001"), ROUND_HALF_UP)
            found["benchmark"] = "HEPSPEC:" + f"{rounded:f}".rstrip("0").rstrip(".")
    return found


def _lay(files: dict[str, bytes], plan: dict[str, Any], work: pathlib.Path, secret: pathlib.Path) -> pathlib.Path:
    """The directory of features, in one of its user's own."""
    home = work / "session" / BAD
    job = home / "features"
    job.mkdir(parents=True)
    for name, content in files.items():
        if name.startswith("job/"):
            (job / name.removeprefix("job/")).write_bytes(content)
    for number in range(plan["many"]):
        (job / f"k{number}").write_bytes(b"1")
    if plan["of_user"] and os.geteuid() == 0:
        for path in (home, job, *job.iterdir()):
            os.chown(path, 65534, 65534)
    for name, kind in plan["others"].items():
        _put(job / name, kind, secret)
    (home / "lines").write_bytes(files["lines"])
    (home / "link").symlink_to(secret.parent)
    os.mkfifo(home / "pipe")
    for kind in ("second", "stolen"):
        _put(home / kind, kind, secret)
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
    elif kind == "stolen" and path.parent.stat().st_uid != os.geteuid():
        # As if it was moved there: a user may do that with what is in a directory of his.
        path.write_bytes(secret.read_bytes())
        path.chmod(0o600)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.write_bytes(b"8\n")
        path.chmod(0 if kind == "unreadable" else 0o644)
        if root:
            os.chown(path, 12345, 12345)


def _recorded(
    conf: tuple[str, str], files: dict[str, bytes], plan: dict[str, Any], work: pathlib.Path, wanted: dict[str, str]
) -> Ended:
    """`features record` of all three jobs, and what their records have then."""
    saved = {"directory": "features", "other": "nothing"}.get(plan["saved"], plan["saved"])
    for number, name in enumerate(GOOD):
        place = work / "session" / name
        place.mkdir()
        text = f"hs06_job={30 + number}\nallocated_cpu=2\nsite_zone=good\n"
        (place / "features").write_text(text)
        for other in ("lines", "link", "pipe", "second", "stolen", "nothing"):
            (place / other).write_text(text)
    database = work / "control" / "accounting" / "arcacct" / "accounting.db"
    untouched = _others_of(database)
    record = (*conf, "features", "record", "--pattern", str(work / "session" / "{jobid}" / saved))
    told = arcacct(*record, allowed=(0, 65))
    found = _records(database)
    for number, name in enumerate(GOOD):
        assert found[name] == {"benchmark": f"HEPSPEC:{15 + number / 2:g}", "mjf_site_zone": "good"}, found[name]
    assert SECRET not in str(found)
    # What it leads to is no business of the job's; nor is a file of root's, whatever name it has there.
    is_refused = saved in {"link", "pipe"} or (saved in {"second", "stolen"} and os.geteuid() == 0 and plan["of_user"])
    assert _rejected(database) == ([BAD] if is_refused else []), "what cannot be used is not among the rejected"
    assert not is_refused or told.code == 65, "nothing was said of what is no saved features"
    if saved == "features":
        assert found[BAD] == _in_record(wanted), f"{found[BAD]}, not {_in_record(wanted)}"
        assert told.code == 65 or _raw(files, plan).keys() <= wanted.keys(), "nothing was said of a value left out"
    elif saved == "lines":
        assert found[BAD] == _in_record(_of_lines(files["lines"])), f"{found[BAD]} of lines"
    else:
        assert found[BAD] == {"benchmark": BENCHMARK}, found[BAD]
    assert _others_of(database) == untouched, "something else of the records was changed"
    assert " 0 records changed" in arcacct(*record, allowed=(0, 65)).out, "the same features changed a record again"
    assert _records(database) == found
    return told


def _rows(database: pathlib.Path, query: str) -> list[tuple[Any, ...]]:
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return con.execute(query).fetchall()
    finally:
        con.close()


def _records(database: pathlib.Path) -> dict[str, dict[str, str]]:
    """Benchmarks and features in the records."""
    query = "SELECT JobID, InfoKey, InfoValue FROM AAR JOIN JobExtraInfo USING (RecordID)"
    rows = _rows(database, f"{query} WHERE InfoKey = 'benchmark' OR InfoKey GLOB 'mjf_*'")
    found: dict[str, dict[str, str]] = {name: {} for name in (*GOOD, BAD)}
    for job_id, key, value in rows:
        assert key not in found[job_id], f"{job_id} has two of {key}"
        found[job_id][key] = value
    return found


def _others_of(database: pathlib.Path) -> list[tuple[Any, ...]]:
    """All else in them."""
    extra = "SELECT RecordID, InfoKey, InfoValue FROM JobExtraInfo WHERE InfoKey <> 'benchmark'"
    return [
        *_rows(database, "SELECT * FROM AAR ORDER BY RecordID"),
        *_rows(database, f"{extra} AND InfoKey NOT GLOB 'mjf_*' ORDER BY 1, 2"),
    ]


def _rejected(database: pathlib.Path) -> list[str]:
    return [job_id for (job_id,) in _rows(database, "SELECT Position FROM ImportQuarantine WHERE Source = 'features'")]


def _check_shown(out: str, place: str, wanted: dict[str, str]) -> None:
    """A job is shown all values that it may rely on, and no other."""
    _before, machine, job = re.split(rf"^(?:machine|job) {re.escape(place)}$", out, flags=re.MULTILINE)
    for shown in (machine, job.partition("\nremaining_secs ")[0]):
        values = dict(line.split(" ", 1) for line in shown.splitlines() if line)
        assert values == wanted, f"{values}, not {wanted}"


def _look(directory: pathlib.Path) -> dict[str, tuple[int, ...]]:
    found = {}
    for path in (directory, *sorted(directory.iterdir())):
        status = path.stat()
        found[path.name] = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)
    return found
