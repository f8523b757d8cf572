"""Real output of sacct of Slurm 22.05.8, and what a job of it is to us."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from arcacct.jobs.faults import Fault
from arcacct.slurm.output import Form, Told, read
from arcacct.slurm.record import NoUsage, Run

DATA = pathlib.Path(__file__).parent.parent / "data" / "slurm"
SONAR = pathlib.Path(__file__).parent.parent / "data" / "sonar"
TABLE = DATA / "sacct.txt"
JSON = DATA / "sacct.json"
CLUSTER = "testgrid"
COLUMNS = (
    "JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|AllocCPUS|ExitCode|TotalCPU|SystemCPU|MaxRSS|User|Account"
    "|JobName|NodeList"
)
BEGIN = 1795326000


def told(content: bytes | pathlib.Path, piece: int = 1 << 20, **form: Any) -> list[Told]:
    """Everything that an output tells; read in pieces of some bytes."""
    data = content.read_bytes() if isinstance(content, pathlib.Path) else content
    return list(read([data[start : start + piece] for start in range(0, len(data), piece)], Form(**form)))


def runs(content: bytes | pathlib.Path, **form: Any) -> dict[tuple[int, int], Run]:
    """The runs of an output, by number and submission."""
    return {one.what.key[1:]: one.what for one in told(content, **form) if isinstance(one.what, Run)}


def run(content: bytes | pathlib.Path, job_id: int, **form: Any) -> Run:
    """The only run of a job."""
    (found,) = [one for (number, _), one in runs(content, **form).items() if number == job_id]
    return found


def faults(content: bytes | pathlib.Path, **form: Any) -> list[Told]:
    """What of an output cannot be used."""
    return [one for one in told(content, **form) if isinstance(one.what, Fault)]


def unused(content: bytes | pathlib.Path, **form: Any) -> list[bool]:
    """Of each job that has no usage whether it is unfinished."""
    return [one.what.is_unfinished for one in told(content, **form) if isinstance(one.what, NoUsage)]


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
