"""What Slurm says of jobs, merged, and what a job used by it."""

from __future__ import annotations

import itertools

import pytest

from arcacct.config.values import NodeBenchmark
from arcacct.records.slurm_formats import MalformedError
from arcacct.sources.sonar.envelopes import merged, same_run, slurm_report
from arcacct.sources.sonar.jobs import node_benchmark, slurm_usage

START = "2026-11-20T10:00:00+00:00"
END = "2026-11-20T10:10:00+00:00"


def report(time=0, **values):
    """A report of job 5."""
    return slurm_report({"job_id": 5, "job_state": "PENDING"} | values, time)


def job(*reports):
    """All of them merged, in this order."""
    found = reports[0]
    for one in reports[1:]:
        found = merged(found, one)
    return found


def finished(**values):
    """A job that ran for ten minutes."""
    return job(report(job_state="COMPLETED", start_time=START, end_time=END, submit_time=START, **values))


@pytest.mark.parametrize("number", [2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1])
def test_numbers_that_slurm_does_not_know_are_unknown(number):
    """As sacct has them, and as Sonar passes them on."""
    sacct = {"AllocTRES": f"cpu={number},node={number}", "MaxRSS": number, "UserCPU": number, "ElapsedRaw": number}
    one = finished(requested_cpus=number, exit_code=number, suspend_time=number, sacct=sacct)
    usage = slurm_usage(one, (), 0)

    assert one.values.keys() == {"job_state", "start_time", "end_time", "submit_time", "AllocTRES"}
    assert (usage.core_count, usage.memory_kib, usage.wall_s, usage.exit_code) == (None, None, 600, 0)


def test_unreported_cpu_time_is_unknown():
    """A 0 that sacct, a step or samples told is one."""
    assert slurm_usage(finished(), (), None).cpu == (None, None, None)
    assert slurm_usage(finished(), (), 0).cpu[:2] == (0, 0)
    assert slurm_usage(finished(sacct={"UserCPU": 0}), (), None).cpu[:2] == (0, 0)


def test_fields_merge_in_any_order():
    """What is said later holds, what is not said stays, whatever came first."""
    reports = [
        report(1, job_state="PENDING", requested_resources="cpu=1", priority=12),
        report(2, job_state="RUNNING", priority=22, start_time=START),
        report(3, job_state="COMPLETED", end_time=END),
    ]
    wanted = {
        "job_state": "COMPLETED",
        "requested_resources": "cpu=1",
        "priority": 20,
        "start_time": 1795168800,
        "end_time": 1795169400,
    }
    for order in itertools.permutations(reports):
        assert job(*order).values == wanted
        assert job(*order, *order).values == wanted


@pytest.mark.parametrize("states", [("RUNNING", "COMPLETED"), ("COMPLETED", "RUNNING"), ("RUNNING", "PENDING")])
def test_at_one_time_the_later_state_holds(states):
    """Two states of the same second: the one that comes later in a job's life."""
    rank = ["PENDING", "RUNNING", "COMPLETED"]
    assert job(*(report(1, job_state=state) for state in states)).values["job_state"] == max(states, key=rank.index)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"job_state": "CANCELLED by 2101037"}, "job_state", "CANCELLED"),
        ({"time_limit": 7202}, "time_limit", 7200),
        ({"time_limit": 1}, "time_limit", -1),
        ({"time_limit": 0}, "time_limit", None),
        ({"priority": 4294901761}, "priority", 4294901759),
        ({"distribution": "Unknown"}, "distribution", None),
        ({"distribution": "Cyclic"}, "distribution", "Cyclic"),
        ({"nodes": ["c[1-2]", "c3"]}, "nodes", "c[1-3]"),
        ({"array_job_id": 5}, "array_task_id", None),
        ({"array_job_id": 5, "job_state": "COMPLETED"}, "array_task_id", 0),
        ({"array_job_id": 5, "array_task_id": 7}, "array_task_id", 7),
        ({"het_job_id": 6}, "het_job_offset", 0),
        ({"sacct": {"AveCPU": 5, "AllocTRES": "cpu=1"}}, "AveCPU", 5),
        ({"start_time": ""}, "start_time", None),
        ({"job_state": ""}, "job_state", None),
        ({"nodes": ["None assigned"]}, "nodes", None),
    ],
)
def test_fields_are_what_they_mean(given, name, value):
    """Slurm's and Sonar's ways of writing are undone."""
    assert report(**given).values.get(name) == value


@pytest.mark.parametrize("bad", [{"job_id": 0}, {"nodes": ["c[2-1]"]}, {"job_state": " "}, {"sacct": {"MaxRSS": "1K"}}])
def test_a_malformed_report_is_refused(bad):
    """A job without number or state, a range the wrong way round, a size in words."""
    with pytest.raises(MalformedError):
        report(**bad)


def test_a_requeued_job_has_another_run():
    """A later start after a final state is another run; a job that only waits, runs or ends is the same."""
    failed = job(report(1, job_state="FAILED", start_time=START, end_time=END))
    assert not same_run(failed, report(2, job_state="RUNNING", start_time="2026-11-20T11:00:00+00:00"))
    assert not same_run(failed, report(1795170000, job_state="PENDING"))
    assert same_run(failed, report(2, job_state="FAILED", start_time=START))
    running = job(report(1, job_state="RUNNING", start_time=START))
    assert same_run(running, report(2, job_state="RUNNING", start_time="2026-11-20T11:00:00+00:00"))
    assert same_run(job(report(1)), report(2, job_state="RUNNING", start_time=START))


@pytest.mark.parametrize(
    ("main", "steps", "sampled", "found"),
    [
        ({}, [5, 4], 0, (9, 0, "steps")),
        ({}, [5, 4], 12, (12, 0, "samples")),
        ({"UserCPU": 60, "SystemCPU": 20}, [5], 0, (60, 20, "sacct")),
        ({"UserCPU": 30, "SystemCPU": 10}, [5], 80, (60, 20, "samples")),
        ({"AllocTRES": "cpu=2"}, [90_000], 0, (1200, 0, "steps")),
        ({"AllocTRES": "cpu=2"}, [], 90_000, (1200, 0, "samples")),
        ({"AllocTRES": "cpu=2", "UserCPU": 5400, "SystemCPU": 600}, [90_000], 0, (5400, 600, "sacct")),
        ({}, [], 0, (0, 0, "sacct")),
    ],
    ids=[
        *("steps", "samples", "sacct", "split as sacct says", "steps: not more than there was"),
        *("samples: not more than there was", "sacct: as it is reported", "nothing"),
    ],
)
def test_the_best_cpu_time(main, steps, sampled, found):
    """Of three lower bounds the best, and its source; estimates are not more than cores times clock time."""
    of_steps = [
        job(slurm_report({"job_id": 5, "job_step": str(n), "job_state": "COMPLETED", "sacct": {"AveCPU": cpu}}, 0))
        for n, cpu in enumerate(steps)
    ]
    usage = slurm_usage(finished(sacct={"AllocTRES": "cpu=200"} | main), of_steps, sampled)
    assert usage is not None
    assert usage.cpu == found


@pytest.mark.parametrize(
    ("state", "code", "status", "exit_code"),
    [
        ("COMPLETED", 0, "completed", 0),
        ("FAILED", 3, "failed", 3),
        ("FAILED", 0, "failed", 1),
        ("TIMEOUT", 0, "failed", 1),
        ("OUT_OF_MEMORY", 0, "failed", 1),
        ("CANCELLED by 0", 0, "aborted", 15),
    ],
)
def test_success_is_what_the_state_says(state, code, status, exit_code):
    """Sonar loses the signal that killed a job: an exit code of 0 is no success."""
    usage = slurm_usage(job(report(job_state=state, start_time=START, end_time=END, exit_code=code)), [], 0)
    assert usage is not None
    assert (usage.status, usage.exit_code) == (status, exit_code)


def test_suspension_is_no_wall_time():
    """The time that a job was suspended is not its use."""
    usage = slurm_usage(finished(suspend_time=100), [], 0)
    assert usage is not None
    assert usage.wall_s == 500


@pytest.mark.parametrize(
    "values", [{"job_state": "RUNNING", "start_time": START}, {"job_state": "CANCELLED", "end_time": END}]
)
def test_jobs_without_use(values):
    """A job that still runs, or never ran, has no record."""
    assert slurm_usage(job(report(**values)), [], 0) is None


LINES = (
    NodeBenchmark("AMD EPYC 7*", "HEPscore23:14.5"),
    NodeBenchmark("*xeon*", "HEPscore23:10"),
    NodeBenchmark("ARM*", "HEPSPEC:9"),
)


@pytest.mark.parametrize(
    ("models", "benchmark"),
    [
        (["AMD EPYC 7763"], "HEPscore23:14.5"),
        (["Intel(R) Xeon(R) Gold"], "HEPscore23:10"),
        (["AMD EPYC 7763", "Intel Xeon"], "HEPscore23:12.25"),
        (["AMD EPYC 7763", "AMD EPYC 7763", "Intel Xeon"], "HEPscore23:13"),
        (["AMD EPYC 7763", "unknown"], None),
        (["AMD EPYC 7763", "ARMv8"], None),
        ([], None),
    ],
)
def test_the_benchmark_of_nodes(models, benchmark):
    """By CPU model, any case; the mean of different models, nothing where one is unknown or of another type."""
    assert node_benchmark(models, 1, LINES) == benchmark
