"""Histories of HTCondor, and a host that imports them."""

from __future__ import annotations

import pathlib
from typing import Any

from control_directory import set_up
from slurm_files import arc_job as arc_job_of
from slurm_files import columns_of

from arcacct.config.paths import places
from arcacct.database.access import open_accounting
from arcacct.records.rejected import Fault, RetryResult
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite, ParsedRun
from arcacct.sources.htcondor.history import CondorJob, HistoryForm, read
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE

DATA = pathlib.Path(__file__).parent.parent / "data" / "htcondor"
HISTORY, LONG, JSON, JSONL = (DATA / name for name in ("history", "long.txt", "json.txt", "jsonl.txt"))
BEGIN = 1793577600
NOW = BEGIN + 40 * 86_400


def told(content: bytes | pathlib.Path, piece: int = 1 << 20, **form: Any) -> list[ParsedRun]:
    """Everything that a history tells; read in pieces of some bytes."""
    data = content.read_bytes() if isinstance(content, pathlib.Path) else content
    return list(read([data[start : start + piece] for start in range(0, len(data), piece)], HistoryForm(**form)))


def jobs(content: bytes | pathlib.Path, **form: Any) -> dict[str, CondorJob]:
    """The jobs of a history by cluster and process."""
    return {one.what.number: one.what for one in told(content, **form) if isinstance(one.what, CondorJob)}


def reasons(content: bytes | pathlib.Path, **form: Any) -> list[str]:
    """Why what cannot be used of it cannot."""
    return [one.what.reason for one in told(content, **form) if isinstance(one.what, Fault)]


def ad(cluster: int = 1, proc: int = 0, schedd: str = "ce.example.org", **values: object) -> str:
    """An ad of a job that ended well, as lines; ``None`` leaves an attribute out."""
    found: dict[str, object] = {
        "GlobalJobId": f'"{schedd}#{cluster}.{proc}#{BEGIN}"',
        "ClusterId": cluster,
        "ProcId": proc,
        "QDate": BEGIN,
        "JobStatus": 4,
        "JobUniverse": 5,
        "Owner": '"alice"',
        "JobStartDate": BEGIN + 10,
        "CompletionDate": BEGIN + 70,
        "EnteredCurrentStatus": BEGIN + 70,
        "RemoteWallClockTime": 60.0,
        "CpusProvisioned": 2,
        "RequestCpus": 2,
        "NumJobStarts": 1,
        "ExitCode": 0,
        "RemoteUserCpu": 99.0,
        "RemoteSysCpu": 1.0,
        "CumulativeRemoteUserCpu": 99.0,
        "CumulativeRemoteSysCpu": 1.0,
        "ResidentSetSize_RAW": 2048,
        "ExitBySignal": "false",
        "LastRemoteHost": '"slot1_1@wn01"',
    } | values
    return "".join(f"{name} = {value}\n" for name, value in found.items() if value is not None)


def history(*ads: str) -> bytes:
    """A history file of these ads."""
    text = b""
    for one in ads:
        names = dict(line.split(" = ", 1) for line in one.splitlines())
        numbers = f"ClusterId = {names.get('ClusterId')} ProcId = {names.get('ProcId')}"
        text += f'{one}*** Offset = {len(text)} {numbers} Owner = "alice" CompletionDate = 0\n'.encode()
    return text


class CondorHost:
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
            HTCONDOR_SOURCE, self.here, self.con, policy, HistoryForm(**form), self.said.append, lambda: self.now
        )

    def take(self, *outputs: bytes | pathlib.Path, **form: Any) -> RunsReport:
        """Import some histories."""
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
        return work.retry()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self.con.execute(sql).fetchall()

    def value(self, sql: str) -> Any:
        """The only value that a query finds."""
        ((found,),) = self.rows(sql)
        return found

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """Jobs with their children, and ads: all but the numbers that rows are given when they come."""
        queries = (
            "SELECT * FROM v1_jobs",
            "SELECT job_id, InfoKey, InfoValue FROM JobExtraInfo JOIN v1_jobs_ids USING (RecordID)",
            "SELECT job_id, EventKey, EventTime FROM JobEvents JOIN v1_jobs_ids USING (RecordID)",
            "SELECT job_id, Field, Source FROM FieldSources JOIN v1_jobs_ids USING (RecordID)",
            f"SELECT {', '.join(columns_of(self.con, 'v1_htcondor_jobs')[1:])} FROM v1_htcondor_jobs",
            "SELECT * FROM v1_usage_by_month",
        )
        ids = "(SELECT RecordID, JobID AS job_id FROM AAR)"
        return [sorted(self.rows(query.replace("v1_jobs_ids", ids)), key=repr) for query in queries]

    def logged(self) -> int:
        """How often a record was logged as finished or changed."""
        return int(self.value("SELECT ifnull(max(Seq), 0) FROM FinishedLog"))


def arc_job(host: CondorHost, job_id: str = "arc1", number: str = "1.ce.example.org", **columns: object) -> int:
    """A job as our recorder leaves it: finished, nothing measured but what is given."""
    times = {"SubmitTime": BEGIN - 5, "EndTime": BEGIN + 100}
    return arc_job_of(host, job_id, **({"LocalJobID": number} | times | columns))  # type: ignore[arg-type]
