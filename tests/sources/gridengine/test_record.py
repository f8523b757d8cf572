"""From records to jobs, and from jobs to accounting records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import permutations

import pytest
from control_directory import set_up
from gridengine_files import (
    BEGIN,
    COLON,
    DATA,
    ENCODINGS,
    JSON_90,
    JSON_91,
    SITE,
    World,
    changed_json,
    json_line,
    ran,
    records,
)

from arcacct.config.paths import QueueBenchmark, places
from arcacct.config.values import map_rule
from arcacct.database.access import open_accounting
from arcacct.export.dataset import Partition
from arcacct.export.jobs import pages
from arcacct.queries.questions import Selection, measured_parts
from arcacct.records.model import Job
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.gridengine.accounting_file import record
from arcacct.sources.gridengine.record import JobRuns, Record, is_reserved, jobs, local_job, used, wall_us

EXPECTED = {(one["job"], one["task"]): one for one in json.loads((DATA / "expected-runs.json").read_text())}
US = 1_000_000


def by_number(found: list[Record]) -> dict[tuple[int, int], list[Record]]:
    numbers: dict[tuple[int, int], list[Record]] = {}
    for one in found:
        numbers.setdefault((one.job_number, one.task_number), []).append(one)
    return numbers


def read(*lines: bytes) -> list[Record]:
    return [found for line in lines if (found := record(line)) is not None]


def only(found: list[JobRuns]) -> JobRuns:
    (job,) = found
    return job


def accounted(*lines: bytes, site: BatchSite = SITE) -> Job:
    """The one job of some lines."""
    found = local_job(only(jobs(read(*lines))), site)
    assert found is not None
    return found


REAL = {path: by_number(records(path)) for path in ENCODINGS}


@pytest.mark.parametrize("path", ENCODINGS, ids=lambda path: path.name.split(".", 1)[1])
@pytest.mark.parametrize("number", EXPECTED, ids=lambda number: f"{number[0]}.{number[1]}")
def test_the_runs_of_the_real_file(path, number) -> None:
    """Each job of the real file has the runs that were found by hand, tasks of parallel jobs folded into them."""
    expected = EXPECTED[number]
    found = only(jobs(REAL[path][number]))

    assert [
        {
            "failed": run.master.failed,
            "exit_status": run.master.exit_status,
            "start": run.master.start_time_us // US,
            "end": run.master.end_time_us // US,
            "submit": run.master.submission_time_us // US,
            "slots": run.master.slots,
            "wall": wall_us(run.master) // US,
            "utime": round(sum(one.ru_utime_s for one in run.records), 6),
            "stime": round(sum(one.ru_stime_s for one in run.records), 6),
            "cpu": round(sum(one.cpu_s or 0 for one in run.records), 6),
            "maxvmem_bytes": max(one.maxvmem_bytes or 0 for one in run.records),
            "maxrss_kb": max(one.ru_maxrss_kib for one in run.records),
            "hosts": list(used(run.records).hosts),
            "pe_tasks": len(run.tasks),
        }
        for run in found.runs
    ] == [{name: value for name, value in run.items() if name != "line"} for run in expected["runs"]]
    last = found.runs[-1].master
    assert (last.job_name, last.owner, last.qname) == (expected["name"], expected["owner"], expected["queue"])


@pytest.mark.parametrize("path", [JSON_90, JSON_91], ids=["9.0", "9.1"])
def test_all_encodings_give_the_same_jobs(path) -> None:
    """The accounting records of the JSON files are those of the colon file, value for value."""
    for number, found in REAL[COLON].items():
        assert [local_job(job, SITE) for job in jobs(REAL[path][number])] == [
            local_job(job, SITE) for job in jobs(found)
        ]


def test_a_requeued_job() -> None:
    """Both runs of a job that asked to be requeued are counted, and it started when it was first submitted."""
    found = local_job(only(jobs(REAL[COLON][17, 0])), SITE)

    assert found is not None
    assert found.job_id == "gesge:default:17:1795168169"
    assert (found.status, found.exit_code, found.submit_time, found.end_time, found.wall_s) == (
        "completed",
        0,
        1795168169,
        1795168200,
        2,
    )
    assert [event for event, _ in found.events] == ["LRMSSTART", "LRMSEND"] * 2


def test_a_tightly_integrated_job() -> None:
    """Tasks of a parallel job add their CPU time, but wall clock and slots are those of the job."""
    lines = [
        ran(
            8, 5, 10, 40, pe_taskid="1.wn2", hostname="wn2", slots=3, granted_pe="mpi", cpu=20, ru_utime=19, ru_stime=1
        ),
        ran(
            8, 5, 10, 50, pe_taskid="1.wn3", hostname="wn3", slots=3, granted_pe="mpi", cpu=30, ru_utime=25, ru_stime=5
        ),
        ran(8, 1, 10, 60, hostname="wn1", slots=3, granted_pe="mpi", cpu=2, ru_utime=1, ru_stime=1),
    ]
    found = accounted(*lines)

    assert (found.wall_s, found.cpu_user_s, found.cpu_kernel_s, found.core_count, found.node_count) == (50, 45, 7, 3, 3)
    assert found.node_names == ("wn1", "wn2", "wn3")
    assert found.submit_time == BEGIN + 1


def test_never_started_records_are_no_jobs() -> None:
    """What never started is not accounted, whatever it failed with."""
    assert local_job(only(jobs(REAL[COLON][15, 0])), SITE) is None
    assert local_job(only(jobs(read(ran(1, 5, 10, 11, failed=8)))), SITE) is None


def test_array_tasks_are_jobs_of_their_own() -> None:
    """The tasks of an array job are told apart by their index."""
    found = [local_job(only(jobs(REAL[COLON][6, task])), SITE) for task in (1, 4, 7)]

    assert [one and one.local_job_id for one in found] == ["6.1", "6.4", "6.7"]


@pytest.mark.parametrize("number", [45, 46])
@pytest.mark.parametrize("path", ENCODINGS, ids=lambda path: path.name.split(".", 1)[1])
def test_reserved_usage_is_not_used(path, number) -> None:
    """Where a site accounts reservations, CPU time and memory are those that the processes had."""
    (master,) = REAL[path][number, 0]
    found = local_job(only(jobs([master])), SITE)

    assert is_reserved(master)
    assert found is not None
    assert found.cpu_user_s + found.cpu_kernel_s == round(master.ru_utime_s + master.ru_stime_s)
    assert found.virtual_memory_kib is None
    assert found.memory_kib == master.ru_maxrss_kib


def test_measured_usage_is_not_taken_for_reserved() -> None:
    """No other job of the real file is taken for one with reserved usage."""
    assert {one.job_number for one in records(COLON) if is_reserved(one)} == {45, 46}


@pytest.mark.parametrize(
    ("fields", "status", "exit_code"),
    [
        pytest.param({}, "completed", 0, id="went well"),
        pytest.param({"exit_status": 3}, "failed", 3, id="exit 3"),
        pytest.param({"failed": 100, "exit_status": 137}, "failed", 137, id="killed"),
        pytest.param({"failed": 37, "exit_status": 137}, "failed", 137, id="over its limit"),
        pytest.param({"failed": 15}, "failed", 271, id="failed, but the script did not"),
        pytest.param(
            {"failed": 100, "exit_status": 137, "deleted_by": "alice@login"}, "aborted", 137, id="by its owner"
        ),
        pytest.param({"failed": 100, "exit_status": 137, "deleted_by": "root@vm"}, "aborted", 137, id="by root"),
        pytest.param({"failed": 37, "exit_status": 137, "deleted_by": "execd@wn1"}, "failed", 137, id="by a daemon"),
        pytest.param({"failed": 25, "exit_status": 99, "deleted_by": "root@vm"}, "failed", 99, id="rescheduled"),
        pytest.param({"failed": 22, "exit_status": 0}, "aborted", 271, id="removed manually"),
    ],
)
def test_how_a_job_went(fields, status, exit_code) -> None:
    """A job that a person deleted is aborted; a failed one never has exit code 0."""
    found = accounted(changed_json(json_line(), **fields))

    assert (found.status, found.exit_code) == (status, exit_code)


def test_wall_clock_ends_with_the_job() -> None:
    """What the daemon took to reap the job is not wall clock, unless there is no end."""
    usage = json.loads(json_line())["usage"]
    usage["eusage"]["wallclock"] = 500.0

    assert accounted(changed_json(json_line(), usage=usage)).wall_s == 13
    assert accounted(changed_json(json_line(), usage=usage, end_time=0)).wall_s == 500


def test_times_are_rounded_once() -> None:
    """Two runs of 0.6 s are one second together, not two or none."""
    lines = [
        changed_json(json_line(), start_time=BEGIN * US, end_time=BEGIN * US + 600_000, failed=25, exit_status=99),
        changed_json(json_line(), start_time=BEGIN * US + US, end_time=BEGIN * US + US + 600_000),
    ]

    assert accounted(*lines).wall_s == 1


def test_numbers_begin_again() -> None:
    """Two jobs that had one number at different times are two jobs."""
    first, second = ran(7, 1, 10, 20), ran(7, 500, 510, 530)
    found = [local_job(job, SITE) for job in jobs(read(second, first))]

    assert [one and (one.job_id, one.wall_s) for one in found] == [
        (f"gesge:default:7:{BEGIN + 1}", 10),
        (f"gesge:default:7:{BEGIN + 500}", 20),
    ]


def test_the_error_state_may_last() -> None:
    """A job that was cleared from its error state after days is the same job."""
    days = 6 * 86_400
    found = accounted(ran(7, 1, 10, 20, failed=30, exit_status=100), ran(7, days, days + 10, days + 40))

    assert (found.submit_time, found.wall_s, found.status) == (BEGIN + 1, 40, "completed")


@pytest.mark.parametrize("order", list(permutations(range(5))), ids=lambda order: "".join(map(str, order)))
def test_any_order_of_records_gives_the_same_jobs(order) -> None:
    """Runs, an empty record, a task and a later job with the same number: the order does not matter."""
    lines = [
        ran(7, 1, 10, 20, failed=25, exit_status=99, granted_pe="mpi", slots=2),
        ran(7, 0, 0, 0, failed=25),
        ran(7, 31, 31, 40, pe_taskid="1.wn2", hostname="wn2", granted_pe="mpi", slots=2, cpu=9, ru_utime=9),
        ran(7, 21, 30, 50, granted_pe="mpi", slots=2),
        ran(7, 90_000, 90_010, 90_020),
    ]
    expected = [local_job(job, SITE) for job in jobs(read(*lines))]

    assert [one and (one.wall_s, one.cpu_user_s) for one in expected] == [(30, 9), (10, 0)]
    assert [local_job(job, SITE) for job in jobs(read(*(lines[place] for place in order)))] == expected


@pytest.mark.parametrize(
    ("rule", "owner"),
    [
        ("owner alice vo=atlas", ("atlas", None, "")),
        ("owner alice vo=atlas group=higgs", ("atlas", "/atlas/higgs", "")),
        ("group us* vo=cms group=/cms/Role=pilot", ("cms", "/cms/Role=pilot", "")),
        ("project phys vo=alice user=/DC=org/CN=Some One", ("alice", None, "/DC=org/CN=Some One")),
        ("account sge vo=local user=withheld", ("local", None, "withheld")),
        ("owner bob vo=atlas", ("", None, "")),
    ],
)
def test_whom_a_job_is_accounted_to(rule, owner) -> None:
    """The first map line that matches says VO, group and user; without one they are unknown."""
    site = BatchSite("default", (map_rule(rule), map_rule("owner nobody vo=wrong")))
    found = accounted(ran(7, 1, 10, 20, project="phys"), site=site)

    assert (found.vo, dict(found.auth_tokens).get("mainfqan"), found.user_dn) == owner


def test_the_first_rule_holds() -> None:
    """Of two map lines that match the first is taken."""
    site = BatchSite("default", (map_rule("owner a* vo=first"), map_rule("owner alice vo=second")))

    assert accounted(ran(7, 1, 10, 20), site=site).vo == "first"


def test_what_else_is_known_of_a_job() -> None:
    """Name, owner, project, reservation, failure and the site's own usage go along."""
    usage = json.loads(json_line(34))["usage"] | {"gpu": {"util": 87}}
    found = accounted(changed_json(json_line(34), usage=usage, failed=100, project="phys"))

    assert (found.job_name, found.local_user, found.project) == ("arjob", "gebob:gephysics", "phys")
    assert (found.lrms, found.node_names, found.benchmark) == ("sge", ("vm",), "HEPSPEC:11.11")
    assert dict(found.extra) == {
        "arid": "1",
        "category": "-l h_rt=20 -ar 1",
        "failed": "100 assumedly after job",
        "usage.gpu.util": "87",
    }


def test_the_benchmark_of_the_queue() -> None:
    """A queue's own benchmark wins over the site's."""
    site = BatchSite("default", (), "HEPSPEC:1.0", (QueueBenchmark("all.q", "HEPscore23:12.5"),))

    assert accounted(ran(7, 1, 10, 20), site=site).benchmark == "HEPscore23:12.5"
    assert accounted(ran(7, 1, 10, 20, qname="long.q"), site=site).benchmark == "HEPSPEC:1.0"


def test_uncounted_nodes() -> None:
    """A parallel job without records of its tasks has at least one node, and that this is a guess is said."""
    alone = accounted(ran(9, 1, 10, 20, granted_pe="mpi", slots=64))

    assert (alone.node_count, dict(alone.field_sources)["node_count"]) == (1, "default")
    assert "node_count" not in dict(accounted(ran(9, 1, 10, 20)).field_sources)


def test_memory_that_was_never_sampled() -> None:
    """Without samples the kernel's own maximum is the resident memory, and virtual memory is unknown."""
    found = accounted(ran(9, 1, 10, 20, ru_maxrss=4096, maxvmem=0))

    assert (found.memory_kib, found.virtual_memory_kib) == (4096, None)


# GPUs of Grid Engine's jobs: of what its records say, counted as Slurm's are.


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    here = places(None, set_up(tmp_path / "control"))
    with closing(open_accounting(here)) as con:
        yield World(here, con)


def test_gpu_hours_of_jobs(world, tmp_path) -> None:
    """Of every run that counts, once for the job and not for its tasks; in sums, as attribute, and in datasets."""
    path = tmp_path / "accounting"
    asked = "-l gpu=2,h_rt=600"
    path.write_bytes(
        ran(1, 1, 10, 3610, category=asked)
        + ran(2, 1, 10, 1810, category=asked, granted_pe="mpi", slots=8, pe_taskid="1.wn2")
        + ran(2, 1, 10, 1810, category=asked, granted_pe="mpi", slots=8)
        + ran(3, 1, 10, 1810, category=asked, failed=25, exit_status=99)
        + ran(3, 1815, 1820, 3620, category="-l gpu=1")
        + ran(4, 1, 10, 1810, category=asked, failed=26)
        + ran(5, 1, 10, 1810, category="-l h_rt=600 -q gpu.q")
        + changed_json(json_line(), job_number=6, resource_map="gpu=wn1=(0 3)")
    )
    world.take(path)

    told = [part.gpu_s for part in measured_parts(world.con, Selection(), ("month",), everything=False)]
    attributes = "SELECT local_job_id, value FROM v1_job_attributes JOIN v1_jobs USING (job_id) WHERE name = 'gpus'"
    numbers = dict(world.con.execute("SELECT RecordID, LocalJobID FROM AAR"))
    exported = {
        numbers[job.record_id]: job.children["accelerators"][0][1:4]
        for page in pages(world.con, Partition("site", 2026, 11, "ce"))
        for job in page
        if "accelerators" in job.children
    }

    last_s = world.value("SELECT UsedWalltime FROM AAR WHERE LocalJobID = '6'")
    assert isinstance(last_s, int)
    assert sum(value or 0 for value in told) == 2 * 3600 + 2 * 1800 + 2 * 1800 + 1800 + 2 * last_s
    assert exported == {
        "1": ("default", 2, 7200),
        "2": ("default", 2, 3600),
        "3": ("default", 1, 5400),
        "6": ("default", 2, 2 * last_s),
    }
    assert sorted(world.con.execute(attributes)) == [("1", "2"), ("2", "2"), ("3", "1"), ("6", "2")]


def test_telemetry_knows_better(world, tmp_path) -> None:
    """Where telemetry has the batch system's word of a job, that is counted, and nothing twice."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 3610, category="-l gpu=2"))
    world.take(path)
    world.con.execute("INSERT INTO JobAccelerators SELECT RecordID, 'sonar', 'c', 4, 14400, NULL, NULL, NULL FROM AAR")

    told = [part.gpu_s for part in measured_parts(world.con, Selection(), ("month",), everything=False)]

    assert sum(value or 0 for value in told) == 14_400
