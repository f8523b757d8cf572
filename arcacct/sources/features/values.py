"""The locations of machine and job features, and their values: from this host, a batch system or a record."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psutil

from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.errors import InputError, UsageError
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import open_parent, read_file
from arcacct.records.model import AAR
from arcacct.sources.features.reader import VARIABLES, Features, location_of, problem, read, remove_keys, write
from arcacct.times import iso

# The locations of the features of this machine and job: from the command line, the environment, or a cloud's metadata.
#
# Metadata should be read only once in the life of a virtual machine, so the answer is kept in a file.


_LARGEST_FILE = 1 << 16


def locations(
    environ: Mapping[str, str],
    *,
    machine: str | None = None,
    job: str | None = None,
    metadata_url: str | None = None,
    metadata_file: str | None = None,
    fetch: Callable[[str], str | None] | None = None,
) -> dict[str, str]:
    """
    Return the values of both variables unchanged, by ``machine`` and ``job``.

    The command line has precedence, then the environment, then the metadata.
    """
    found = _of_metadata(metadata_url, metadata_file, fetch) if metadata_url and fetch else {}
    found |= {kind: environ[name] for kind, name in VARIABLES.items() if environ.get(name)}
    return found | {kind: from_here(value) for kind, value in (("machine", machine), ("job", job)) if value}


def from_here(place: str) -> str:
    """Return a location from the command line: a relative path as an absolute one, anything else unchanged."""
    return place if place.startswith("/") or ":" in place.partition("/")[0] else os.path.join(os.getcwd(), place)


def valid(given: Mapping[str, str]) -> dict[str, str]:
    """Return the values as locations to read from. Raises UsageError for a value that is neither path nor URL."""
    return {kind: location_of(value, f"${VARIABLES[kind]}") for kind, value in given.items() if value}


def default_file(environ: Mapping[str, str]) -> str:
    """Return the default file for an answer of the metadata. It belongs to this user, and a reboot removes it."""
    return os.path.join(environ.get("XDG_RUNTIME_DIR") or "/run", "arcacct-features.json")


def _of_metadata(url: str, path: str | None, fetch: Callable[[str], str | None]) -> dict[str, str]:
    """Return the locations under the keys ``machinefeatures`` and ``jobfeatures`` of the first request."""
    try:
        known = parsed(read_file(path, _LARGEST_FILE)) if path is not None else None
    except (OSError, ValueError, InputError):
        known = None
    kept = known.get(url) if isinstance(known, dict) else None
    if isinstance(kept, dict):
        return {kind: str(value) for kind, value in kept.items()}
    found = {}
    for kind, name in VARIABLES.items():
        value = fetch(f"{url.rstrip('/')}/{name.lower()}")
        if value:
            found[kind] = location_of(value.strip(), name.lower())
    if path is not None:
        # If this fails, the next call asks again: better than no features at all.
        with suppress(OSError, InputError):
            folder, name = open_parent(path)
            with folder:
                folder.replace(name, json.dumps({url: found}).encode())
    return found


# The values that a batch system gives to a job, or to its prologue: in the environment, or for HTCondor in two files
# named there.


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
"""The variables of each batch system: for each value those to try, in order."""
NAMES = "Slurm, Torque, LSF, Grid Engine, HTCondor"


def job_values_of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """
    Return the batch system's values of a job, by key of the specification; empty without a known batch system.

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
    # Slurm's form for several nodes is 4(x2),1. The first number is certain for this node only if there is one kind.
    cores = told.get("cores", "").partition("(")[0] if "," not in told.get("cores", "") else ""
    # The index of an array job, as its batch system writes it. For other jobs Grid Engine writes "undefined", and LSF
    # 0.
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
    """Return the values of the ads of the job and its slot, from the start of the job."""
    if not environ.get("_CONDOR_JOB_AD"):
        return {}
    job = _ad(environ["_CONDOR_JOB_AD"])
    slot = _ad(environ["_CONDOR_MACHINE_AD"]) if environ.get("_CONDOR_MACHINE_AD") else {}
    if "clusterid" not in job:
        raise InputError(f"{environ['_CONDOR_JOB_AD']}: has no ClusterId: is it the ad of a job?")
    # Of two limits, take the one that ends the job first. Without a value of the slot, take the job's own request.
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
    """
    Return the attributes of an ad that are whole numbers, by name in lower case. The last of several values counts.
    """
    try:
        content = read_file(path, _LARGEST_AD)
    except OSError as error:
        raise InputError(f"{path}: HTCondor's ad cannot be read: {error.strerror}") from error
    pairs = (line.partition("=") for line in content.decode("utf-8", "replace").splitlines())
    found = {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}
    return {name: value for name, value in found.items() if value.isascii() and value.isdigit() and len(value) < 16}


# The values of machine and job features: from this host, a batch system's environment, or a record of arcacct.
#
# A rating in HEPscore23 counts as HS06 only if the user says so. The scales are alike, but the names are different.


def machine_values(
    total_cpu: int | None = None,
    hs06: str | None = None,
    benchmark: str | None = None,
    *,
    hepscore_is_hs06: bool = False,
) -> dict[str, str]:
    """
    Return the features of this machine. Without ``total_cpu``, the system gives the number of processors.

    The rating is ``hs06``, or ``benchmark`` (TYPE:VALUE for one core) times the processors. Raises UsageError for a
    benchmark in HEPscore23 unless ``hepscore_is_hs06``.
    """
    cores = total_cpu if total_cpu is not None else psutil.cpu_count() or 1
    values = {"total_cpu": str(cores)}
    if hs06:
        return values | {"hs06": hs06}
    if not benchmark:
        return values
    found = parsed_benchmark(benchmark)
    if found is None:
        raise UsageError(f"{benchmark!r} is not a benchmark; write TYPE:VALUE, as HEPSPEC:12.5")
    if not _is_hs06(found, hepscore_is_hs06):
        raise UsageError(f"{benchmark} is not HS06; give hs06=VALUE, or --hepscore-is-hs06 if your users know of it")
    return values | {"hs06": Benchmark(found.type, found.thousandths * cores).value}


def _is_hs06(benchmark: Benchmark, hepscore_is_hs06: bool) -> bool:
    return benchmark.type == "HEPSPEC" or (benchmark.type == "HEPscore23" and hepscore_is_hs06)


def job_values_of_record(aar: AAR, *, hepscore_is_hs06: bool = False) -> dict[str, str]:
    """
    Return the features of a job from its record. The job should be finished: before that the batch system knows more.
    """
    found: dict[str, str] = {"allocated_cpu": str(max(1, aar.core_count))}
    if aar.local_job_id:
        found["job_id"] = aar.local_job_id
    if aar.lrms_start_time:
        found["jobstart_secs"] = str(aar.lrms_start_time)
    benchmark = parsed_benchmark(aar.benchmark)
    if benchmark is not None and _is_hs06(benchmark, hepscore_is_hs06):
        found["hs06_job"] = Benchmark(benchmark.type, benchmark.thousandths * max(1, aar.core_count)).value
    return found


def share_of_machine(values: Mapping[str, str], machine: Features | None) -> dict[str, str]:
    """Return the job's share of the machine's rating, by its processors, if the job has no rating of its own."""
    if machine is None or "hs06_job" in values or problem("allocated_cpu", values.get("allocated_cpu", "")):
        return {}
    hs06, total = machine.values.get("hs06"), machine.number("total_cpu")
    if hs06 is None or total is None:
        return {}
    share = Benchmark("HEPSPEC", round(float(hs06) * 1000 * int(values["allocated_cpu"]) / total)).value
    # The machine's rating may be almost 0, and a share of 0 is not a rating.
    return {} if problem("hs06_job", share) else {"hs06_job": share}


def write_machine(directory: str, values: Mapping[str, str], *, force: bool = False) -> None:
    """Write the features of a machine. A shutdown time needs grace_secs, so that jobs can rely on it."""
    _there(directory, values, "")
    write(directory, values, force=force)


def write_job(
    directory: str, values: Mapping[str, str], *, force: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """Write the features of a job."""
    there = _there(directory, values, "_job")
    for key, value in values.items():
        # Static keys keep the values that the job found when it started.
        if not force and there.get(key, value) != value and key != "shutdowntime_job":
            raise UsageError(
                f"{directory}/{key} is {there[key]} and does not change while the job exists; "
                "pass --force if the batch system informed the job of the change"
            )
    write(directory, values, force=force, owner=owner)


def _there(directory: str, values: Mapping[str, str], suffix: str) -> dict[str, str]:
    """
    Return the features in a directory, if these values may be written there. Raises UsageError for a shutdown time
    without grace_secs.
    """
    there = read(os.path.abspath(directory)).values if os.path.isdir(directory) else {}
    if f"shutdowntime{suffix}" in values and f"grace_secs{suffix}" not in {*there, *values}:
        raise UsageError(f"shutdowntime{suffix} needs grace_secs{suffix}: the minimum warning time for jobs")
    return there


def set_shutdown(directory: str, at: int, *, job: bool = False, now: int | None = None, force: bool = False) -> None:
    """
    Announce the time of the shutdown of a machine, or the time when a job must be finished, in seconds since 1970.

    Raises UsageError if the time is sooner than grace_secs allows, InputError without grace_secs.
    """
    suffix = "_job" if job else ""
    features = read(os.path.abspath(directory))
    grace = features.number(f"grace_secs{suffix}")
    if grace is None:
        raise InputError(f"{directory}/grace_secs{suffix} is missing: write it before jobs start, then announce")
    soonest = (now if now is not None else int(time.time())) + grace
    if at < soonest and not force:
        told, first = map(iso, (at, soonest))
        raise UsageError(f"{told} is sooner than grace_secs{suffix}={grace} promises; the soonest is {first}")
    write(directory, {f"shutdowntime{suffix}": str(at)})


def clear_shutdown(directory: str, *, job: bool = False) -> None:
    """Withdraw the announcement. The file is removed, because an empty or zero one would be read as a time."""
    remove_keys(directory, ("shutdowntime_job" if job else "shutdowntime",))
