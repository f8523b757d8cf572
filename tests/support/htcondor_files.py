"""Histories of HTCondor, and a host that imports them."""

from __future__ import annotations

import pathlib
from typing import Any

import import_host
from import_host import ImportHost, pieces

from arcacct.records.rejected import Fault
from arcacct.sources.engine.runs import ParsedRun
from arcacct.sources.htcondor.history import CondorJob, HistoryForm, read
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE

DATA = pathlib.Path(__file__).parent.parent / "data" / "htcondor"
HISTORY, LONG, JSON, JSONL = (DATA / name for name in ("history", "long.txt", "json.txt", "jsonl.txt"))
BEGIN = 1793577600
NOW = BEGIN + 40 * 86_400


def told(content: bytes | pathlib.Path, piece: int = 1 << 20, **form: Any) -> list[ParsedRun]:
    """Everything that a history tells; read in pieces of some bytes."""
    return list(read(pieces(content, piece), HistoryForm(**form)))


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


class CondorHost(ImportHost):
    """A host of HTCondor."""

    source = HTCONDOR_SOURCE
    form = HistoryForm
    own = "SELECT * FROM v1_htcondor_jobs"
    now = NOW


def arc_job(host: CondorHost, job_id: str = "arc1", number: str = "1.ce.example.org", **columns: object) -> int:
    """A job of A-REX that HTCondor ran."""
    times = {"SubmitTime": BEGIN - 5, "EndTime": BEGIN + 100}
    return import_host.arc_job(host, job_id, {"LocalJobID": number} | times | columns)
