"""
What a batch system tells a job, or the prologue of one: in its environment, HTCondor in two files that it names there.
"""

from __future__ import annotations

from collections.abc import Mapping

from arcacct.errors import InputError
from arcacct.files.safe_open import read_file

_MIB = 1024 * 1024
_LARGEST_AD = 1024 * 1024
_SYSTEMS: tuple[dict[str, tuple[str, ...]], ...] = (
    # Slurm: an element of an array by its own number, as records have it
    {
        "job_id": ("SLURM_JOB_ID", "SLURM_JOBID"),
        "cores": ("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"),
        "start": ("SLURM_JOB_START_TIME",),
        "end": ("SLURM_JOB_END_TIME",),
        "memory_mib": ("SLURM_MEM_PER_NODE",),
    },
    # Torque
    {"job_id": ("PBS_JOBID",), "cores": ("PBS_NP", "PBS_NUM_PPN", "NCPUS"), "wall_s": ("PBS_WALLTIME",)},
    # LSF
    {"job_id": ("LSB_JOBID",), "index": ("LSB_JOBINDEX",), "cores": ("LSB_DJOB_NUMPROC",)},
    # Grid Engine
    {"job_id": ("JOB_ID",), "task": ("SGE_TASK_ID",), "cores": ("NSLOTS",)},
)
"""Where each tells a job about itself: for each value the variables to try, in order."""
NAMES = "Slurm, Torque, LSF, Grid Engine, HTCondor"


def job_values_of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """
    What a batch system tells a job, by key of the specification; empty when there is none that we know.

    Raises InputError when the files that HTCondor names cannot be read.
    """
    for system in _SYSTEMS:
        told = {what: next(filter(None, map(environ.get, names)), "") for what, names in system.items()}
        if told["job_id"]:
            return _values(told)
    return _values(_of_htcondor(environ))


def _values(told: Mapping[str, str]) -> dict[str, str]:
    numbers = {what: text for what, text in told.items() if text.isascii() and text.isdigit() and len(text) < 16}
    start, end, memory, disk = map(numbers.get, ("start", "end", "memory_mib", "disk_kib"))
    limit_s = int(end) - int(start) if start and end else 0
    # Slurm's form for several nodes: 4(x2),1. The first is this node's only if there is one kind.
    cores = told.get("cores", "").partition("(")[0] if "," not in told.get("cores", "") else ""
    # A task of an array, as its batch system writes it; Grid Engine says "undefined" to other jobs, LSF 0.
    index, task = (int(numbers.get(what, 0)) for what in ("index", "task"))
    found = {
        "job_id": told.get("job_id", "") + (f"[{index}]" if index else "") + (f".{task}" if task else ""),
        "allocated_cpu": cores if cores.isdigit() and int(cores) else None,
        "jobstart_secs": start,
        "wall_limit_secs": numbers.get("wall_s") or (str(limit_s) if limit_s > 0 else None),
        "max_rss_bytes": str(int(memory) * _MIB) if memory and int(memory) else None,
        "scratch_limit_bytes": str(int(disk) * 1024) if disk and int(disk) else None,
    }
    return {key: value for key, value in found.items() if value}


def _of_htcondor(environ: Mapping[str, str]) -> dict[str, str]:
    """What the ads of the job and of its slot say, as they were when it started."""
    if not environ.get("_CONDOR_JOB_AD"):
        return {}
    job = _ad(environ["_CONDOR_JOB_AD"])
    slot = _ad(environ["_CONDOR_MACHINE_AD"]) if environ.get("_CONDOR_MACHINE_AD") else {}
    if "clusterid" not in job:
        raise InputError(f"{environ['_CONDOR_JOB_AD']}: has no ClusterId: is it the ad of a job?")
    # Of two limits the first that ends the job; the job's own request where its slot does not tell.
    limits = [int(job[name]) for name in ("allowedjobduration", "allowedexecuteduration") if name in job]
    return {
        "job_id": f"{job['clusterid']}.{job.get('procid', '0')}",
        "cores": slot.get("cpus") or job.get("cpusprovisioned") or job.get("requestcpus", ""),
        "start": job.get("jobcurrentstartdate") or job.get("jobstartdate", ""),
        "wall_s": str(min(limits)) if limits else "",
        "memory_mib": slot.get("memory") or job.get("memoryprovisioned") or job.get("requestmemory", ""),
        "disk_kib": slot.get("disk", ""),
    }


def _ad(path: str) -> dict[str, str]:
    """The attributes of an ad that are whole numbers, by name in small letters; the last of several holds."""
    try:
        content = read_file(path, _LARGEST_AD)
    except OSError as error:
        raise InputError(f"{path}: HTCondor's ad cannot be read: {error.strerror}") from error
    pairs = (line.partition("=") for line in content.decode("utf-8", "replace").splitlines())
    found = {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}
    return {name: value for name, value in found.items() if value.isascii() and value.isdigit() and len(value) < 16}
