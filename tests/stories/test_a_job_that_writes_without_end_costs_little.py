"""A job that writes without end: what the recorder needs for it, and what the database has of it afterwards."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from campaigns import cross
from installed import ARCACCT, arcacct
from job_files import DIAG, JOB, LOCAL, STATISTICS, Files, cleaned, lay

from arcacct.records.integrity import check

HUGE = 16 << 20
MEASURE = """
import os, sys
child = os.fork()
if not child:
    os.execve(sys.argv[1], sys.argv[1:], {"PATH": "/usr/bin:/bin"})
print(os.wait4(child, 0)[2].ru_maxrss)
"""
"""A small process starts the program: a child of this one would begin with the memory of this one."""
TIMES = ",starttime=2026-11-20T11:00:05Z,endtime=2026-11-20T11:00:09Z,fromcache=no\n"


def numbered(line: str) -> bytes:
    """16 MiB of lines that are all different."""
    count = HUGE // len(line) + 1
    return "".join(line.replace("{}", str(number)) for number in range(count)).encode()


NAMES = ("jobname", "lrms", "clientname", "projectname", "subject", "queue", "headnode", "interface", "localid")
HOSTILE = ("one line", "times", "nodes", "environments", "short lines", "FQANs", "claims", "transfers", "everything")


def hostile(name: str) -> Files:
    """Files of a job that are far too large; made only where a test needs them."""
    made = {
        "one line": lambda: Files(diag=DIAG + b"systemsoftware=" + b"x" * HUGE),
        "times": lambda: Files(diag=DIAG + numbered("LRMSEndTime=20261120115900Z\nLRMSStartTime=202611201{}0000Z\n")),
        "nodes": lambda: Files(diag=DIAG + numbered("nodename=n{}\n")),
        "environments": lambda: Files(diag=DIAG + numbered("runtimeenvironments=R{};a;b\n")),
        "short lines": lambda: Files(diag=DIAG + b"a=\n" * (HUGE // 3)),
        "FQANs": lambda: Files(local=LOCAL + numbered("voms=/a{}\n")),
        "claims": lambda: Files(local=LOCAL + numbered("tokenclaim.name={}'''''''''\n")),
        "transfers": lambda: Files(
            statistics=STATISTICS + numbered("inputfile:url=https://se.example.org/{}" + "x" * 850 + TIMES)
        ),
        "everything": lambda: Files(
            local=LOCAL
            + numbered("tokenclaim.email={}" + "#" * 450 + "\n")
            + "".join(f"{n}={'%' * 999}\n" for n in NAMES).encode(),
            diag=DIAG + numbered("runtimeenvironments={}" + "x" * 880 + ";\nnodename={}" + "n" * 880 + "\n"),
            statistics=STATISTICS + numbered("inputfile:url=https://se.example.org/{}" + "é'" * 400 + TIMES),
        ),
    }
    return made[name]()


def memory_kib(*command: str) -> int:
    """The most memory that a process had, KiB."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", MEASURE, *command], capture_output=True, check=True)
    assert done.stderr == b""
    return int(done.stdout.splitlines()[-1])


def used_bytes(database: pathlib.Path) -> int:
    """What the pages of a database take that are in use."""
    with closing(sqlite3.connect(database)) as con:
        pages, free, size = con.execute(
            "SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        ).fetchone()
    return int((pages - free) * size)


@pytest.fixture
def swept(host) -> tuple[str, ...]:
    """The command of one sweep of the host."""
    host.conf.write_text(f"[common]\n[arex]\ncontroldir={host.control}\n")
    return (ARCACCT, "--config", str(host.conf), "sweep")


@pytest.mark.parametrize(("name", "way"), cross(9, HOSTILE, ["spooled", "read"]))
def test_a_job_that_writes_without_end(host, swept, name, way) -> None:
    """
    Of files of 16 MiB a sweep needs less than 30 MiB of memory, the spool 4 MiB, and the database less than 100 KiB.

    The record has what was measured, says what is left out, and nothing of it is a child that would be published.
    """
    lay(host.control, Files(), "Usual")
    usual = memory_kib(*swept)
    lay(host.control, hostile(name))
    before = used_bytes(host.database)
    if way == "spooled":
        host.call()
        cleaned(host.control)
        (event,) = host.spool
        assert os.path.getsize(event) < 4 << 20

    used = memory_kib(*swept)

    assert host.spool == []
    assert used - usual < 30 << 10
    assert used_bytes(host.database) - before < 100 << 10
    with closing(sqlite3.connect(host.database)) as con:
        query = "SELECT wall_s, exit_code, vo FROM v1_jobs WHERE job_id = ?"
        assert con.execute(query, (JOB,)).fetchall() == [(61, 0, "atlas")]
        assert con.execute("SELECT count(*) FROM v1_record_notes WHERE job_id = ?", (JOB,)).fetchone() != (0,)
        assert con.execute("SELECT count(*) FROM FinishedLog").fetchone() == (2,)
    # The next sweep reads the same files again: nothing is new.
    assert host.sweep().recorded == 0
    assert [one.problems for one in check(host.places)] == [()] * len(list(check(host.places)))


def test_jobs_that_write_without_end_do_not_add_up(host) -> None:
    """Each further job takes as much as the first at most, also when it has other names each time."""
    before = used_bytes(host.database)
    jobs = 6
    files = hostile("everything")
    assert files.local is not None
    for number in range(jobs):
        names = "".join(f"{name}={number}{'%' * 999}\n" for name in NAMES) + f"voms=/{number}{'v' * 999}\n"
        lay(host.control, files._replace(local=names.encode() + files.local), f"JOB{number}")
        host.run(job_id=f"JOB{number}")

    assert host.spool == []
    assert (used_bytes(host.database) - before) / jobs < 100 << 10


def test_the_story_of_a_job_says_what_was_left_out(host) -> None:
    """`job why` has a line for each thing that the record lacks."""
    lay(host.control, Files(local=LOCAL + b"jobname=" + b"x" * 999 + b"\n"))
    host.run()
    with open(host.conf, "a") as conf:
        conf.write(f"[arex]\ncontroldir={host.control}\n")

    done = arcacct("--config", host.conf, "job", "--only", "why", JOB)

    assert "  left out: job_name: cut from 999 bytes\n" in done.stdout
