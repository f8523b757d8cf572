"""
GPUs that Grid Engine granted to a job: what the newest versions say of it, else what was asked for.

Nothing else does: a site's resource for GPUs is counted like any other.
"""

from __future__ import annotations

import re

from arcacct.gridengine.record import DID_NOT_RUN, Record

_NAME = re.compile(r"(?:n|num_?)?gpus?", re.IGNORECASE)
"""What sites call the resource."""
_REQUESTS = re.compile(r"(?:^|\s)-l\s+(\S+)")
_AMOUNT = re.compile(r"([A-Za-z_]+)=([0-9]{1,9})(?:\.0*)?")
_GRANTED = re.compile(r"([^()]*)\(([^()]*)\)")
_BETWEEN = re.compile(r"[\s,;+]+")
_SAID = ("resource_map", "granted_req", "gpus")
"""Names of a record's further fields that tell it."""


def gpu_count(category: str, resource_map: str, granted_req: str, gpus: str) -> int:
    """
    How many GPUs a job had by these fields of its record, of the first that says so; 0: none, or not known.

    What was asked for, ``-l gpu=2``, is taken as for the whole job, as Open XDMoD takes it.
    """
    asked = ",".join(_REQUESTS.findall(category))
    return _mapped(resource_map) or _amount(granted_req) or _amount(asked) or _listed(gpus)


def gpus_of(record: Record) -> int:
    """How many GPUs a job had by its record."""
    said = {name: str(value) for group, name, value in record.custom if not group}
    return gpu_count(record.category or "", *(said.get(name, "") for name in _SAID))


def _amount(requests: str) -> int:
    """The amount in requests, as ``h_rt=600,gpu=2``."""
    found = [match.groups() for match in map(_AMOUNT.fullmatch, map(str.strip, requests.split(","))) if match]
    return max((int(amount) for name, amount in found if _NAME.fullmatch(name)), default=0)


def _mapped(text: str) -> int:
    """The ids in what a resource was mapped to, as ``gpu=node1=(0 1),node2=(0)``."""
    found, is_gpu = 0, False
    for before, ids in _GRANTED.findall(text):
        names = [name for name in before.strip(", ").split("=") if name]
        # A host alone is the next one of the same resource.
        is_gpu = bool(names and _NAME.fullmatch(names[0])) or (is_gpu and len(names) < 2)
        found += len(_BETWEEN.split(ids.strip())) if is_gpu and ids.strip() else 0
    return found


def _listed(text: str) -> int:
    """The GPUs of a list, as ``node1=0,1``; a mere number may be how many they are as well as which one it is."""
    found = [one.rpartition("=")[2] for one in _BETWEEN.split(re.sub(r"[()]", " ", text)) if one.rpartition("=")[2]]
    return 0 if text.isdecimal() else len(found)


_FIELD = (
    "(SELECT CAST(Value AS TEXT) FROM GridEngineUsage AS Said WHERE Said.RecordNo = Run.RecordNo AND UsageGroup = ''"
)
GPU_FIELDS = ("Category", *(f"Said_{name}" for name in _SAID))
"""Columns of RUNS_WITH_GPUS, in the order in which `gpu_count` takes them."""
RUNS_WITH_GPUS = (
    "(SELECT RecordID, RecordNo, Cell, CAST(round((EndTimeUs - StartTimeUs) / 1000000.0) AS INTEGER) AS Elapsed,"
    " coalesce(Category, '') AS Category, "
    + ", ".join(f"coalesce({_FIELD} AND Name = '{name}'), '') AS Said_{name}" for name in _SAID)
    # Most runs are later than 0: its index would lead to them one by one.
    + " FROM GridEngineRecords AS Run WHERE RecordID IS NOT NULL AND PeTaskID IS NULL AND +StartTimeUs > 0"
    f" AND EndTimeUs > StartTimeUs AND Failed NOT IN ({', '.join(map(str, sorted(DID_NOT_RUN)))})"
    " AND (instr(lower(Category), 'gpu') OR EXISTS (SELECT 1 FROM GridEngineUsage AS Said WHERE"
    f" Said.RecordNo = Run.RecordNo AND UsageGroup = '' AND Name IN {_SAID!r}))"
    ")"
)
"""The runs of records that may say something of GPUs, as a table in SQL."""
