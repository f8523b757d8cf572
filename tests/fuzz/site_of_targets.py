"""
A site for fuzzers: two jobs that are whole, room for a hostile one, a target of each kind, and readers of what is sent.

The readers are the tests' own, written from the receivers' rules: each message must be one that its receiver takes.
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

from arcacct.sandbox.authority import Authority

GOOD = ("aaGoodJobBefore", "zzGoodJobBehind")
ALL = ("--since", "2000-01-01")
SINCE_S = 946_684_800
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


def begin(work: pathlib.Path) -> pathlib.Path:
    """Lay the site out with empty databases and the files of its two good jobs; the control directory."""
    _site(work)
    for kind in DIRECTORIES:
        (work / f"out-{kind}").mkdir()
    control = work / "control"
    shutil.copytree(_empty_databases(), control, dirs_exist_ok=True)
    for name in GOOD:
        lay_good(control, name)
    return control


def lay_good(control: pathlib.Path, name: str) -> None:
    """The files of a job that is whole; it is its own id in the batch system."""
    local = job_files.LOCAL.replace(job_files.JOB.encode(), name.encode()).replace(b"4711", name.encode())
    job_files.lay(control, job_files.Files(local=local), name)


def database_of(work: pathlib.Path) -> pathlib.Path:
    """Our accounting database."""
    return work / "control" / "accounting" / "arcacct" / "accounting.db"


def publish_to_all(work: pathlib.Path) -> None:
    """
    Publish to every kind of target: what can be published arrives, or somebody is told why not.

    May be repeated: nothing is really sent to SGAS, and of the messages in directories all count.
    """
    before = records(work)
    publish = ("--config", str(work / "arc.conf"), "publish", *ALL, "--target")
    shutil.rmtree(work / "sgas", ignore_errors=True)
    told = arcacct(*publish, "sgas:s", "--write-to", str(work / "sgas"), allowed=(0, 65))
    rows = [row for path in sorted(work.glob("sgas/*")) for row in sgas_rules.parse(path.read_bytes())]
    assert [row["wall_s"] for row in rows if row["local_job_id"] in GOOD] == [WALL_S] * len(GOOD), rows
    _complete("sgas", before, len(rows), told.out)
    for kind in DIRECTORIES:
        again = any((work / f"out-{kind}").iterdir())
        told = arcacct(*publish, f"directory:{kind}", allowed=(0, 65, 69) if again else (0, 65))
        sent = _check_sums(kind, _messages(work / f"out-{kind}"), before)
        if not again:
            _complete(kind, before, sent, told.out + told.err)


def records(work: pathlib.Path) -> dict[str, tuple[Any, ...]]:
    """``(status, wall, CPU, end time)`` of each record by JobID, as it stands in the database."""
    con = sqlite3.connect(f"file:{database_of(work)}?mode=ro", uri=True)
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
        for status, wall, cpu, end in before.values()
        if not isinstance(end, int | float) or end >= SINCE_S
    )
    counts = re.findall(r"(\d+) records? (?:quarantined|in the future|held|on hold)", told)
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
