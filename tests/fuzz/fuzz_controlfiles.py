"""
Control files of a job, damaged, between those of two that are whole: through sweep, the database and every message.

What must hold: the two jobs are recorded and published with what they used; the damaged one is in every receiver's
messages or set aside for it, or never was a finished job; each message is one that its receiver would take; no command
ends in an error of ours.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sqlite3
import tempfile
import time
from functools import lru_cache
from typing import Any

import apel_rules
import job_files
import sgas_rules
from control_directory import set_up
from fuzz.command import arcacct
from fuzz.damage import damaged

from arcacct.sandbox.authority import Authority

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random

DATA = pathlib.Path(__file__).parent.parent / "data"
GOOD = ("aaGoodJobBefore", "zzGoodJobBehind")
SUFFIXES = ("local", "diag", "statistics", "failed")
NAMES = ("hostileJob", "ho;st$(id)%41", "-rf", "x" * 150, "\x1b]0;x\x07", "j.ob.local", "'")
ALL = ("--since", "2000-01-01")
WALL_S = 61
"""Of each of the good jobs."""
DIRECTORIES = ("individual", "summaries", "normalised-v04")
CONF = """\
[common]
hostname = ce.example.org

[arex]
controldir = {dir}/control

[lrms]
lrms = fork
benchmark = HEPSPEC:12.26
"""
OURS = """\
[arex/jura/sgas:s]
targeturl = https://sgas.example.org:6143/sgas
x509_host_cert = {cert}
x509_host_key = {key}
x509_cert_dir = {cas}
"""
TARGET = """
[arcacct/directory:{kind}]
path = {dir}/out-{kind}
layout = directory
gocdb_name = SITE
apel_messages = {kind}
"""


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
        files[name] = damaged(chance, files[name])
    state = b"FINISHED" if chance.random() < 0.9 else chance.choice((b"INLRMS", b"DELETED", b"PENDING:FINISHED"))
    files["status"] = state if chance.random() < 0.9 else damaged(chance, state)
    name = chance.choice(NAMES) if chance.random() < 0.2 else NAMES[0]
    return {f"{name}/{suffix}": content for suffix, content in files.items()}


@lru_cache
def _credentials() -> tuple[dict[str, bytes], ...]:
    """A host certificate with its key, and the CAs, as files."""
    with tempfile.TemporaryDirectory() as place:
        authority = Authority(place, "Fuzz")
        host = authority.issue("ce.example.org", rsa_key=False)
        one = {
            "cert.pem": pathlib.Path(host.cert_path).read_bytes(),
            "key.pem": pathlib.Path(host.key_path).read_bytes(),
        }
        cas = {path.name: path.read_bytes() for path in pathlib.Path(authority.ca_dir).iterdir()}
    return one, cas


@lru_cache
def _empty_databases() -> pathlib.Path:
    """A control directory with both databases as they are on the first day: their making costs more than a try."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    _site(place)
    arcacct("--config", str(place / "arc.conf"), "db", "init", allowed=(0,))
    control = place / "control"
    # These are for any control directory, and no month is older than they are.
    (control / "accounting" / "arcacct.place").unlink()
    con = sqlite3.connect(control / "accounting" / "arcacct" / "accounting.db")
    con.execute("UPDATE DBConfig SET KeyValue = '1' WHERE KeyName = 'ARCACCT_CREATED'")
    con.commit()
    con.close()
    return control


def _site(work: pathlib.Path) -> None:
    set_up(work / "control")
    (work / "arc.conf").write_text(CONF.format(dir=work))
    one, cas = _credentials()
    (work / "cas").mkdir()
    for folder, files in ((work, one), (work / "cas", cas)):
        for name, content in files.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
    text = OURS.format(cert=work / "cert.pem", key=work / "key.pem", cas=work / "cas")
    text += "".join(TARGET.format(kind=kind, dir=work) for kind in DIRECTORIES)
    (work / "arcacct.conf").write_text(text)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    _lay(files, work)
    conf = ("--config", str(work / "arc.conf"))
    database = work / "control" / "accounting" / "arcacct" / "accounting.db"
    arcacct(*conf, "sweep", allowed=(0, 65))
    before = _records(database)
    arcacct(*conf, "sweep", allowed=(0, 65))
    assert before == _records(database), "a second sweep of the same files changed the records"
    assert all(before[name][:2] == ("completed", WALL_S) for name in GOOD), before
    publish = (*conf, "publish", *ALL, "--target")
    told = arcacct(*publish, "sgas:s", "--write-to", str(work / "sgas"), allowed=(0, 65))
    rows = [row for path in sorted(work.glob("sgas/*")) for row in sgas_rules.parse(path.read_bytes())]
    assert {row["wall_s"] for row in rows if row["local_job_id"] in GOOD} == {WALL_S}
    _complete("sgas", before, len(rows), told.out)
    for kind in DIRECTORIES:
        told = arcacct(*publish, f"directory:{kind}", allowed=(0, 65))
        _complete(kind, before, _check_sums(kind, _messages(work / f"out-{kind}"), before), told.out + told.err)
    name = next(iter(files)).rpartition("/")[0]
    for command in (("status",), ("job", "info", "--", name), ("job", "why", "--", name), ("stats", "--by", "user,vo")):
        arcacct(*conf, *command, allowed=(0, 1, 2, 3, 64, 65))


def _lay(files: dict[str, bytes], work: pathlib.Path) -> None:
    """The site with its two good jobs, and the damaged one."""
    _site(work)
    for kind in DIRECTORIES:
        (work / f"out-{kind}").mkdir()
    control = work / "control"
    shutil.copytree(_empty_databases(), control, dirs_exist_ok=True)
    for name in GOOD:
        local = job_files.LOCAL.replace(job_files.JOB.encode(), name.encode()).replace(b"4711", name.encode())
        job_files.lay(control, job_files.Files(local=local), name)
    for path, content in files.items():
        name, _, suffix = path.rpartition("/")
        folder = control / "finished" if suffix == "status" else control
        (folder / f"job.{name}.{suffix}").write_bytes(content)


def _records(database: pathlib.Path) -> dict[str, tuple[Any, ...]]:
    con = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    con.text_factory = lambda content: content.decode("utf-8", "replace")
    try:
        rows = con.execute(
            "SELECT JobID, Status.Name, UsedWalltime, UsedCPUUserTime + UsedCPUKernelTime, EndTime"
            " FROM AAR JOIN Status ON Status.ID = StatusID"
        ).fetchall()
    finally:
        con.close()
    return {row[0]: row[1:] for row in rows}


def _complete(name: str, before: dict[str, tuple[Any, ...]], sent: int, told: str) -> None:
    """Each job that can be published was sent, or somebody was told why not."""
    publishable = sum(
        status in {"completed", "failed"} or (status == "aborted" and bool(wall or cpu))
        for status, wall, cpu, _end in before.values()
    )
    counts = re.findall(r"(\d+) records? (?:set aside|of the future)", told)
    # A job with a wild duration counts in the sums, as none, and is set aside all the same.
    assert sent <= publishable <= sent + sum(map(int, counts)), f"{name}: {sent} of {publishable} jobs\n{told}"


def _messages(directory: pathlib.Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """What a receiver of APEL's would make of each message there."""
    texts = [path.read_bytes().decode("ascii") for path in sorted(directory.glob("*"))]
    return [apel_rules.parse(text, int(time.time())) for text in texts]


def _check_sums(kind: str, messages: list[tuple[str, list[dict[str, Any]]]], before: dict[str, tuple[Any, ...]]) -> int:
    """How many jobs the messages are about; the two good ones are in them with the time that they took."""
    records = [record for found, some in messages for record in some if found != "sync"]
    if kind == "individual":
        walls = {record["LocalJobId"]: record["WallDuration"] for record in records}
        assert all(walls[name] == before[name][1] for name in GOOD), walls
        return len(records)
    if kind == "summaries":
        of_good = [record for record in records if record.get("GlobalUserName") == "/DC=org/DC=example/CN=Ada Lovelace"]
        assert sum(record["WallDuration"] for record in of_good) >= len(GOOD) * WALL_S, of_good
    return sum(record["NumberOfJobs"] for record in records)
