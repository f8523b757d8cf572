"""Real output of sacct of Slurm 22.05.8, and what a job of it is to us."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import import_host
from import_host import ImportHost, pieces

from arcacct.records.rejected import Fault
from arcacct.sources.engine.runs import UNFINISHED, NoUsage, ParsedRun
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
    return list(read(pieces(content, piece), OutputForm(**form)))


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


class SlurmHost(ImportHost):
    """A host of Slurm."""

    source = SLURM_SOURCE
    form = OutputForm
    own = "SELECT * FROM v1_slurm_runs"
    now = NOW


def arc_job(host: SlurmHost, job_id: str = "arc1", number: int = 1, **columns: object) -> int:
    """A job of A-REX that Slurm ran."""
    times = {"SubmitTime": BEGIN - 5, "EndTime": BEGIN + 100}
    return import_host.arc_job(host, job_id, {"LocalJobID": str(number)} | times | columns)
