"""Accounting files of a real Grid Engine, and lines made from them."""

from __future__ import annotations

import json
import pathlib
import sqlite3

from arcacct.config.paths import Places
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.gridengine.accounting_file import Origin, record
from arcacct.sources.gridengine.importer import SOURCE
from arcacct.sources.gridengine.record import Record

DATA = pathlib.Path(__file__).parents[1] / "data" / "gridengine"
COLON = DATA / "accounting.sge819-real"
JSON_90 = DATA / "accounting.ocs90-synthetic.jsonl"
JSON_91 = DATA / "accounting.ocs91-synthetic.jsonl"
ENCODINGS = (COLON, JSON_90, JSON_91)
NOW = 1_795_200_000
"""A few hours after the jobs of the real file."""
BEGIN = 1_795_168_000
SITE = BatchSite("default", default_benchmark="HEPSPEC:11.11")

_USUAL = {
    "qname": "all.q", "hostname": "wn1", "group": "users", "owner": "alice", "job_name": "job", "job_number": "1",
    "account": "sge",
    **dict.fromkeys(("priority", "submission_time", "start_time", "end_time", "failed", "exit_status"), "0"),
    **dict.fromkeys(("ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss", "ru_idrss"), "0"),
    **dict.fromkeys(("ru_isrss", "ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock"), "0"),
    **dict.fromkeys(("ru_msgsnd", "ru_msgrcv", "ru_nsignals", "ru_nvcsw", "ru_nivcsw"), "0"), "project": "NONE",
    "department": "defaultdepartment", "granted_pe": "NONE", "slots": "1", "task_number": "0",
    **dict.fromkeys(("cpu", "mem", "io"), "0.000000"), "category": "NONE", "iow": "0.000000", "pe_taskid": "NONE",
    "maxvmem": "0.000000", "arid": "0", "ar_submission_time": "0",
}  # fmt: skip
"""A colon line of 45 fields."""


def records(path: pathlib.Path) -> list[Record]:
    """All records of a file."""
    with path.open("rb") as file:
        return [found for line in file if (found := record(line)) is not None]


def colon(**fields: object) -> bytes:
    """A colon line of 45 fields; times are seconds after BEGIN unless they are large or 0."""
    values = dict(_USUAL)
    for name, value in fields.items():
        assert name in values, name
        values[name] = str(value)
    for name in ("submission_time", "start_time", "end_time"):
        if 0 < int(values[name]) < BEGIN:
            values[name] = str(BEGIN + int(values[name]))
    if "ru_wallclock" not in fields and values["start_time"] != "0":
        values["ru_wallclock"] = str(int(values["end_time"]) - int(values["start_time"]))
    return ":".join(values.values()).encode() + b"\n"


def ran(number: int, submitted: int, started: int, ended: int, **fields: object) -> bytes:
    """The line of a run; times in seconds after BEGIN."""
    times = {"submission_time": submitted, "start_time": started, "end_time": ended}
    return colon(job_number=number, **times, **fields)


def changed_json(line: bytes, **fields: object) -> bytes:
    """A JSON line with other or further fields; ``None`` leaves one out."""
    found = json.loads(line) | fields
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode() + b"\n"


def json_line(job_number: int = 1, path: pathlib.Path = JSON_91) -> bytes:
    """The line of a job of the real file."""
    lines = path.read_bytes().splitlines(keepends=True)
    return next(line for line in lines if f'"job_number":{job_number},'.encode() in line)


class World:
    """A database and imports into it."""

    def __init__(self, here: Places, con: sqlite3.Connection, site: BatchSite = SITE) -> None:
        self.here = here
        self.con = con
        self.site = site
        self.said: list[str] = []
        self.wait_s = 86_400
        self.prefer_arc = True
        self.now = NOW

    def work(self) -> RunsImport[Record]:
        """An import that has done nothing yet."""
        policy = BatchPolicy(self.site, self.now, self.wait_s, self.prefer_arc)
        form = Origin(self.site.cell)
        return RunsImport(SOURCE, self.here, self.con, policy, form, self.said.append, lambda: self.now)

    def take(self, *paths: pathlib.Path) -> RunsReport:
        """Import files."""
        work = self.work()
        work.files([str(path) for path in paths])
        work.finish()
        return work.report

    def jobs(self) -> list[tuple[object, ...]]:
        """Everything that third parties see of jobs, sorted."""
        return self.con.execute("SELECT * FROM v1_jobs ORDER BY job_id").fetchall()

    def everything(self) -> list[list[tuple[object, ...]]]:
        """Jobs with their children, and records: all but the numbers that rows are given when they come."""
        questions = (
            "SELECT * FROM v1_jobs",
            "SELECT * FROM v1_job_events",
            "SELECT * FROM v1_job_attributes",
            "SELECT JobID, Field, FieldSources.Source FROM FieldSources JOIN AAR USING (RecordID)",
            "SELECT JobID, Source, Origin FROM RecordSources JOIN AAR USING (RecordID)",
            "SELECT AAR.JobID, GridEngineRecords.* FROM GridEngineRecords LEFT JOIN AAR USING (RecordID)",
            "SELECT job_id, job_number, task_number, usage_group, name, number, text FROM v1_gridengine_usage",
        )
        found = []
        for question in questions:
            cursor = self.con.execute(question)
            names = [column[0] for column in cursor.description]
            kept = [place for place, name in enumerate(names) if name not in ("RecordNo", "RecordID", "FileID", "Line")]
            found.append(sorted(([row[place] for place in kept] for row in cursor), key=repr))
        return found

    def seq(self) -> int:
        """How far the log of what is published has come."""
        row = self.con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()
        return row[0] if row else 0

    def logged_after(self, seq: int) -> int:
        """How many jobs became final, or changed, after that."""
        return self.con.execute("SELECT count(*) FROM FinishedLog WHERE Seq > ?", (seq,)).fetchone()[0]

    def value(self, sql: str, *values: object) -> object:
        """The first value of an answer."""
        return self.con.execute(sql, values).fetchone()[0]
