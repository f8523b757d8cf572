"""
What the values of machine and job features are: of this host, of a batch system's environment, of a record of ours.

A rating of the machine in HEPscore23 stands for HS06 only if one says so: the scales are alike, the names are not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import psutil

from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.errors import InputError, UsageError
from arcacct.features.files import remove_keys, write
from arcacct.features.keys import problem
from arcacct.features.reader import Features, read
from arcacct.records.model import AAR


def machine_values(
    total_cpu: int | None = None,
    hs06: str | None = None,
    benchmark: str | None = None,
    *,
    hepscore_is_hs06: bool = False,
) -> dict[str, str]:
    """
    The features of this machine; processors as the system sees them unless given.

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
        raise UsageError(f"{benchmark!r} is no benchmark; write TYPE:VALUE, as HEPSPEC:12.5")
    if not _is_hs06(found, hepscore_is_hs06):
        raise UsageError(f"{benchmark} is not HS06; give --hs06, or --hepscore-is-hs06 if your users know of it")
    return values | {"hs06": Benchmark(found.type, found.thousandths * cores).value}


def _is_hs06(benchmark: Benchmark, hepscore_is_hs06: bool) -> bool:
    return benchmark.type == "HEPSPEC" or (benchmark.type == "HEPscore23" and hepscore_is_hs06)


def job_values_of_record(aar: AAR, *, hepscore_is_hs06: bool = False) -> dict[str, str]:
    """What our record of a job says; the job should be finished, since before that the batch system knows more."""
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
    """The job's part of the machine's rating, by its processors, where the job has none of its own."""
    if machine is None or "hs06_job" in values or problem("allocated_cpu", values.get("allocated_cpu", "")):
        return {}
    hs06, total = machine.values.get("hs06"), machine.number("total_cpu")
    if hs06 is None or total is None:
        return {}
    share = Benchmark("HEPSPEC", round(float(hs06) * 1000 * int(values["allocated_cpu"]) / total)).value
    # What somebody wrote there may be next to nothing, and a rating of 0 is none.
    return {} if problem("hs06_job", share) else {"hs06_job": share}


def write_machine(directory: str, values: Mapping[str, str], *, force: bool = False) -> None:
    """Write the features of a machine; a time of shutdown needs grace_secs, so that jobs could rely on it."""
    _there(directory, values, "")
    write(directory, values, force=force)


def write_job(
    directory: str, values: Mapping[str, str], *, force: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """Write the features of a job."""
    there = _there(directory, values, "_job")
    for key, value in values.items():
        # Static keys stay as the job found them when it started.
        if not force and there.get(key, value) != value and key != "shutdowntime_job":
            raise UsageError(
                f"{directory}/{key} is {there[key]} and does not change while the job lives; "
                "--force if the batch system has told the job of it"
            )
    write(directory, values, force=force, owner=owner)


def _there(directory: str, values: Mapping[str, str], suffix: str) -> dict[str, str]:
    """What stands in a directory into which these values may be written."""
    there = read(os.path.abspath(directory)).values if os.path.isdir(directory) else {}
    if f"shutdowntime{suffix}" in values and f"grace_secs{suffix}" not in {*there, *values}:
        raise UsageError(f"shutdowntime{suffix} needs grace_secs{suffix}: how long before it jobs are told at least")
    return there


def set_shutdown(directory: str, at: int, *, job: bool = False, now: int | None = None, force: bool = False) -> None:
    """
    Announce when a machine, or a job, has to be done.

    Raises UsageError if that is sooner than its grace_secs promise, InputError if there is no such promise.
    """
    suffix = "_job" if job else ""
    features = read(os.path.abspath(directory))
    grace = features.number(f"grace_secs{suffix}")
    if grace is None:
        raise InputError(f"{directory}/grace_secs{suffix} is not there: write it before jobs start, then announce")
    soonest = (now if now is not None else int(time.time())) + grace
    if at < soonest and not force:
        raise UsageError(f"{at} is sooner than grace_secs{suffix}={grace} promises; the soonest is {soonest}")
    write(directory, {f"shutdowntime{suffix}": str(at)})


def clear_shutdown(directory: str, *, job: bool = False) -> None:
    """Take the announcement back: the file goes, since an empty or zero one would be read as a time."""
    remove_keys(directory, ("shutdowntime_job" if job else "shutdowntime",))
