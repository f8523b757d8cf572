"""A host whose callouts are disturbed, and how it ought to look after a sweep."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

from job_files import LOCAL, NOON_NS, Files, finished_log, lay, rows
from recording_host import Host

from arcacct.arex.control_files import read_job
from arcacct.arex.sweep import record_event
from arcacct.database.access import open_accounting

BENCHMARK = "HEPSPEC:11.11"
LIFE = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")


def job_files(job_id: str, state: str, step: int = 0, *, failed: bool = False) -> Files:
    """A job in a state, with a name and an end of its own."""
    local = LOCAL.replace(b"jobname=first", b"jobname=" + job_id.encode())
    return Files(state, NOON_NS + step * 10**9, local=local, failed=b"no" if failed and state == "FINISHED" else None)


def undisturbed(directory: pathlib.Path, lives: dict[str, bool]) -> Host:
    """A host that has recorded every state of these jobs; ``lives`` says which of them failed."""
    directory.mkdir()
    host = Host(directory)
    host.places.rules.default_benchmark = BENCHMARK
    with closing(open_accounting(host.places)) as con:
        for job_id, failed in lives.items():
            for step, state in enumerate(LIFE):
                lay(host.control, job_files(job_id, state, step, failed=failed), job_id)
                record_event(host.places, read_job(str(host.control), job_id, state), con)
    return host


def check_equal(found: Host, wanted: Host) -> None:
    """
    All that can be known afterwards is the same: every record with all its children, one entry each in the log.

    Of a state that the job has left, the time is when the launcher ran, or no one knows it if that was killed. (It is
    far from the time of the test's files, which a sweep may have seen as well.)
    """
    ours, theirs = rows(str(found.database)), rows(str(wanted.database))
    for table in ours:
        if table != "JobEvents":
            assert ours[table] == theirs[table]
    left = {"PREPARING", "SUBMIT", "FINISHING"}
    for tables in (ours, theirs):
        tables["JobEvents"] = [*{row[:2] if row[1] in left else row for row in tables["JobEvents"]}]
    assert set(ours["JobEvents"]) <= set(theirs["JobEvents"])
    assert set(theirs["JobEvents"]) - set(ours["JobEvents"]) <= {row for row in theirs["JobEvents"] if row[1] in left}
    with closing(sqlite3.connect(found.database)) as con:
        assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert con.execute("PRAGMA foreign_key_check").fetchall() == []
        assert len(finished_log(con)) == len(ours["AAR"])
