"""GPUs and energy of a job: its values, and how the texts of Slurm and Grid Engine report them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

# The values of a job, from one source, and the bounds of all numbers that a batch system reports.


LARGEST = 2**53
"""A larger number is not a measurement."""
LATEST_S = 2**34
"""A later time (year 2514) is not a time of a job."""


class Accelerators(NamedTuple):
    """GPUs and energy of a job, as one source reports them; ``None``: unknown. The columns of JobAccelerators."""

    gpu_count: int | None = None
    """GPUs that the batch system granted. A job with a part of a GPU has one."""
    gpu_allocated_s: float | None = None
    """GPU seconds: granted GPUs, or parts of one, times wall time."""
    gpu_busy_s: float | None = None
    """GPU seconds of full use, by samples."""
    gpu_energy_j: float | None = None
    """The job's share of the energy of its GPUs in J, by samples."""
    energy_j: int | None = None
    """Energy of its nodes in J, as the batch system measured it."""


def granted(gpus: float, elapsed_s: int, energy_j: int | None = None) -> Accelerators | None:
    """
    Return the values of one run; ``None`` if it had no GPU and its energy is unknown.

    ``gpus`` may be a part of one. GPU seconds above LARGEST are unknown.
    """
    if not gpus and energy_j is None:
        return None
    gpu_s = float(gpus * elapsed_s)
    return Accelerators(ceil(gpus) or None, gpu_s if 0 < gpu_s <= LARGEST else None, energy_j=energy_j)


def of_runs(runs: Sequence[Accelerators | None]) -> Accelerators | None:
    """Return the values of a job from those of its runs, in order: the last number of GPUs, and sums."""
    known = [run for run in runs if run is not None]
    if len(known) < 2:
        return known[0] if known else None
    gpu_s = [run.gpu_allocated_s for run in known if run.gpu_allocated_s is not None]
    energies = [run.energy_j for run in known if run.energy_j is not None]
    return Accelerators(
        known[-1].gpu_count, sum(gpu_s) if gpu_s else None, energy_j=sum(energies) if energies else None
    )


# Slurm's trackable resources: ``billing=32,cpu=32,gres/gpu:a100=1,gres/gpu=1,mem=472.50G,node=1,energy=12``.


UNSET = frozenset((0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF))
"""Slurm's NO_VAL, INFINITE, NO_VAL64 and INFINITE64 (slurm/slurm.h): an unknown number, in any column."""
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
"""Exponents of 1024, by Slurm's unit."""
_RESOURCE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?)([KMGTP]?)i?B?", re.ASCII | re.IGNORECASE)


def parsed_tres(text: str) -> dict[str, int]:
    """
    Return each resource with its amount: sizes in bytes, energy in J. Leaves out unknown and malformed amounts.

    (Where no plugin of Slurm measures energy, it is NO_VAL64, 18446744073709551614, or 0.)
    """
    found = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        match = _RESOURCE.fullmatch(value.strip())
        if not match:
            continue
        number = int(match[1]) if match[1].isdigit() else float(match[1])
        amount = round(number * 1024 ** POWERS[match[2].upper()])
        if number not in UNSET and amount <= LARGEST and (amount or key.strip() != "energy"):
            found[key.strip()] = amount
    return found


def tres_gpus(tres: dict[str, int]) -> int:
    """Return the GPUs of all types: the untyped amount if it exists, else the sum of the typed ones (never both)."""
    if "gres/gpu" in tres:
        return tres["gres/gpu"]
    return sum(amount for key, amount in tres.items() if key.startswith("gres/gpu:"))


# The number of GPUs that Grid Engine granted to a job. The newest versions report it. For others, the request counts.
#
# No other value shows it: Grid Engine treats a site's GPU resource like any other resource.


_NAME = re.compile(r"(?:n|num_?)?gpus?", re.IGNORECASE)
"""Names that sites give to the GPU resource."""
_REQUESTS = re.compile(r"(?:^|\s)-l\s+(\S+)")
_AMOUNT = re.compile(r"([A-Za-z_]+)=([0-9]{1,9})(?:\.0*)?")
_GRANTED = re.compile(r"([^()]*)\(([^()]*)\)")
_BETWEEN = re.compile(r"[\s,;+]+")


def gridengine_gpus(category: str, resource_map: str, granted_req: str, gpus: str) -> int:
    """
    Return the number of GPUs of a job from the first of these fields that shows it; 0: no GPUs, or unknown.

    A request such as ``-l gpu=2`` counts for the whole job, as in Open XDMoD.
    """
    asked = ",".join(_REQUESTS.findall(category))
    return _mapped(resource_map) or _requested(granted_req) or _requested(asked) or _listed(gpus)


def _requested(requests: str) -> int:
    """Return the requested GPUs of a text such as ``h_rt=600,gpu=2``."""
    found = [match.groups() for match in map(_AMOUNT.fullmatch, map(str.strip, requests.split(","))) if match]
    return max((int(amount) for name, amount in found if _NAME.fullmatch(name)), default=0)


def _mapped(text: str) -> int:
    """Count the GPU ids in a resource map such as ``gpu=node1=(0 1),node2=(0)``."""
    found, is_gpu = 0, False
    for before, ids in _GRANTED.findall(text):
        names = [name for name in before.strip(", ").split("=") if name]
        # A host without a resource name belongs to the resource before it.
        is_gpu = bool(names and _NAME.fullmatch(names[0])) or (is_gpu and len(names) < 2)
        found += len(_BETWEEN.split(ids.strip())) if is_gpu and ids.strip() else 0
    return found


def _listed(text: str) -> int:
    """Count the GPUs of a list such as ``node1=0,1``. A single number gives 0: it may be a count or an ID."""
    found = [one.rpartition("=")[2] for one in _BETWEEN.split(re.sub(r"[()]", " ", text)) if one.rpartition("=")[2]]
    return 0 if text.isdecimal() else len(found)


# The same as functions in SQL, for the script that upgrades a database of 0.2.


SQL_FUNCTIONS: dict[str, tuple[int, Callable[..., int | None]]] = {
    "slurm_gpus": (1, lambda text: tres_gpus(parsed_tres(text))),
    "slurm_energy_j": (1, lambda text: parsed_tres(text).get("energy")),
    "gridengine_gpus": (4, gridengine_gpus),
}
"""The number of arguments and the function, by name."""
