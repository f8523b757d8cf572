"""Real output of sacct of Slurm 22.05.8, and what a job of it is to us."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from typing import Any

from control_directory import set_up
from stored_jobs import endpoint_id

from arcacct.config.paths import places
from arcacct.database.access import open_accounting, writing
from arcacct.records.recorder import name_id
from arcacct.records.rejected import Fault, RetryResult
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import UNFINISHED, BatchSite, NoUsage, ParsedRun
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.sources.slurm.record import SlurmRun
from arcacct.sources.slurm.sacct import OutputForm, read

DATA = pathlib.Path(__file__).parent.parent / "data" / "slurm"
CASES = pathlib.Path(__file__).parent.parent / "data" / "cases"
SONAR = pathlib.Path(__file__).parent.parent / "data" / "sonar"
TABLE = DATA / "sacct.txt"
JSON = DATA / "sacct.json"
CLUSTER = "testgrid"
COLUMNS = (
    "JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|AllocCPUS|ExitCode|TotalCPU|SystemCPU|MaxRSS|User|Account"
    "|JobName|NodeList"
)
BEGIN = 1795326000
NOW = BEGIN + 86_400
"""A day after the jobs of the real outputs."""


def told(content: bytes | pathlib.Path, piece: int = 1 << 20, **form: Any) -> list[ParsedRun]:
    """Everything that an output tells; read in pieces of some bytes."""
    data = content.read_bytes() if isinstance(content, pathlib.Path) else content
    return list(read([data[start : start + piece] for start in range(0, len(data), piece)], OutputForm(**form)))


def runs(content: bytes | pathlib.Path, **form: Any) -> dict[tuple[int, int], SlurmRun]:
    """The runs of an output, by number and submission."""
    return {one.what[1:3]: one.what for one in told(content, **form) if isinstance(one.what, SlurmRun)}


def run(content: bytes | pathlib.Path, job_id: int, **form: Any) -> SlurmRun:
    """The only run of a job."""
    (found,) = [one for (number, _), one in runs(content, **form).items() if number == job_id]
    return found


def faults(content: bytes | pathlib.Path, **form: Any) -> list[ParsedRun]:
    """What of an output cannot be used."""
    return [one for one in told(content, **form) if isinstance(one.what, Fault)]


def unused(content: bytes | pathlib.Path, **form: Any) -> list[bool]:
    """Of each job that has no usage whether it is unfinished."""
    return [one.what.why == UNFINISHED for one in told(content, **form) if isinstance(one.what, NoUsage)]


def row(number: int | str = 1, **values: object) -> str:
    """A row of the columns above, of a job that ended well."""
    found: dict[str, object] = {"JobIDRaw": number, "Cluster": CLUSTER, "State": "COMPLETED", "Submit": BEGIN}
    found |= {"Start": BEGIN + 10, "End": BEGIN + 70, "ElapsedRaw": 60, "AllocCPUS": 2, "ExitCode": "0:0"}
    found |= {"TotalCPU": "01:40.500", "SystemCPU": "00:00.500", "User": "alice", "Account": "atlas"}
    found |= {"JobName": "job", "NodeList": "wn01"} | values
    return "|".join(str(found.get(name, "")) for name in COLUMNS.split("|"))


def table(*rows: str, columns: str = COLUMNS) -> bytes:
    """An output of these rows."""
    return "".join(f"{line}\n" for line in (columns, *rows)).encode("utf-8", "surrogateescape")


def later_json(content: str) -> str:
    """An output as Slurm 23.02 and later print it: numbers wrapped, states and outcomes listed."""
    found = json.loads(content)
    for job in found["jobs"]:
        job["state"]["current"] = [job["state"]["current"]]
        for one in (job, *job["steps"]):
            one["exit_code"] = _later_code(one["exit_code"])
            one["state"] = one["state"] if type(one["state"]) is dict else [one["state"]]
        for name in ("start", "end", "submission", "suspended", "limit"):
            job["time"][name] = _wrapped(job["time"][name])
        job["array"]["task_id"] = _wrapped(job["array"]["task_id"])
        job["het"]["job_offset"] = _wrapped(job["het"]["job_offset"])
        del job["required"]
    return json.dumps(found)


def _later_code(code: dict[str, Any]) -> dict[str, Any]:
    signal = code.get("signal") or {"signal_id": None, "name": ""}
    return {
        "status": [code["status"]],
        "return_code": _wrapped(code["return_code"]),
        "signal": {"id": _wrapped(signal["signal_id"]), "name": signal["name"]},
    }


def _wrapped(number: int | None) -> dict[str, Any]:
    return {"set": number is not None, "infinite": False, "number": number or 0}


class SlurmHost:
    """A host with a database; each import is a run of its own, as of the command."""

    def __init__(self, folder: pathlib.Path, site: BatchSite | None = None) -> None:
        self.here = places(None, set_up(folder / "control"))
        self.con = open_accounting(self.here)
        self.site = BatchSite() if site is None else site
        self.said: list[str] = []
        self.now = NOW
        self.prefer_arc = True

    def work(self, **form: Any) -> RunsImport[Any]:
        """An import that has done nothing yet."""
        policy = BatchPolicy(self.site, self.now, 86_400, self.prefer_arc)
        return RunsImport(
            SLURM_SOURCE, self.here, self.con, policy, OutputForm(**form), self.said.append, lambda: self.now
        )

    def take(self, *outputs: bytes | pathlib.Path, **form: Any) -> RunsReport:
        """Import some outputs."""
        work = self.work(**form)
        for output in outputs:
            if isinstance(output, bytes):
                work.output("output", [output])
            else:
                work.files([str(output)])
        work.finish()
        return work.report

    def retry(self, **form: Any) -> RetryResult:
        """Try again what was rejected."""
        work = self.work(**form)
        found = work.retry()
        work.finish()
        return found

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self.con.execute(sql).fetchall()

    def value(self, sql: str) -> Any:
        """The only value that a query finds."""
        ((found,),) = self.rows(sql)
        return found

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """Jobs with their children, and runs: all but the numbers that rows are given when they come."""
        queries = (
            "SELECT * FROM v1_jobs",
            "SELECT job_id, InfoKey, InfoValue FROM JobExtraInfo JOIN v1_jobs_ids USING (RecordID)",
            "SELECT job_id, EventKey, EventTime FROM JobEvents JOIN v1_jobs_ids USING (RecordID)",
            "SELECT job_id, Field, Source FROM FieldSources JOIN v1_jobs_ids USING (RecordID)",
            f"SELECT {', '.join(columns_of(self.con, 'v1_slurm_runs')[1:])} FROM v1_slurm_runs",
            "SELECT * FROM v1_usage_by_month",
        )
        ids = "(SELECT RecordID, JobID AS job_id FROM AAR)"
        return [sorted(self.rows(query.replace("v1_jobs_ids", ids)), key=repr) for query in queries]

    def logged(self) -> int:
        """How often a record was logged as finished or changed."""
        return int(self.value("SELECT ifnull(max(Seq), 0) FROM FinishedLog"))


def columns_of(con: sqlite3.Connection, view: str) -> list[str]:
    """The columns of a view."""
    return [row[1] for row in con.execute(f"PRAGMA table_info({view})")]


def arc_job(host: SlurmHost, job_id: str = "arc1", number: int = 1, **columns: object) -> int:
    """A job as our recorder leaves it: finished, nothing measured but what is given."""
    values: dict[str, object] = {
        "LocalJobID": str(number),
        "StatusID": "completed",
        "ExitCode": 0,
        "SubmitTime": BEGIN - 5,
        "EndTime": BEGIN + 100,
        **dict.fromkeys(("UsedMemory", "UsedVirtMem", "UsedWalltime", "UsedCPUUserTime", "UsedCPUKernelTime"), 0),
        **dict.fromkeys(("UsedScratch", "StageInVolume", "StageOutVolume"), 0),
        **dict.fromkeys(("NodeCount", "CPUCount"), 1),
    } | columns
    with writing(host.con, host.here) as con:
        values["StatusID"] = name_id(con, "Status", str(values["StatusID"]))
        values["EndpointID"] = endpoint_id(con, "org.nordugrid.arcrest", "https://ce.example.org/arex")
        values |= {f"{name}ID": name_id(con, f"{name}s", "") for name in ("Queue", "User")}
        values["VOID"] = name_id(con, "WLCGVOs", "atlas")
        marks = ", ".join("?" * (len(values) + 1))
        cursor = con.execute(
            f"INSERT INTO AAR (JobID, {', '.join(values)}) VALUES ({marks})", (job_id, *values.values())
        )
    return cursor.lastrowid or 0
