"""A number that a batch system uses again: each sample belongs to the run whose time holds it."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import sqlite3
import time
import zlib
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime

import pytest
from sonar_site import Host, places, read, sample, stream, sysinfo_of

from arcacct.config.values import NodeBenchmark
from arcacct.database import schema
from arcacct.records.recorder import set_children
from arcacct.sources.sonar.jobs import Site
from arcacct.sources.sonar.samples import Sample

pytestmark = pytest.mark.usefixtures("utc")
CASES = pathlib.Path(__file__).parents[2] / "data" / "cases"


@pytest.fixture
def host(tmp_path):
    """A host without any job."""
    return Host(tmp_path)


def take(host, name):
    """Import one of the cases, as the command for its kind does."""
    content = (CASES / name).read_bytes()
    if name.endswith(".txt"):
        host.sacct(content)
        # What comes with the next import of telemetry.
        return host.take(b"")
    return host.take(content)


ORDERS = pytest.mark.parametrize("order", [("txt", "jsonl"), ("jsonl", "txt"), ("jsonl", "txt", "jsonl", "txt")])


@ORDERS
def test_two_runs_on_one_day_have_their_own_samples(host, order):
    """A job that a node lost and Slurm started again: GPU use and energy of each run, and their sum once."""
    for kind in order:
        take(host, f"z.{kind}")
    found = host.rows(
        "SELECT end_time_iso, v1_job_telemetry.samples, gpu_busy_s, gpu_energy_j, peak_memory_kib FROM v1_job_telemetry"
        " JOIN v1_jobs USING (job_id) ORDER BY 1"
    )
    assert found == [
        ("2026-11-25T07:10:10Z", 6, 300, 90_000, 360_000),
        ("2026-11-25T10:10:10Z", 6, 30, 15_000, 360_000),
    ]
    assert host.rows("SELECT run_start_time_iso, samples, cpu_s FROM v1_sampled_jobs ORDER BY 1") == [
        ("2026-11-25T07:00:10Z", 6, 360),
        ("2026-11-25T10:00:10Z", 6, 360),
    ]
    hours = "SELECT sum(gpu_busy_s) / 3600, sum(gpu_energy_j) / 3.6e6 FROM v1_job_telemetry"
    assert host.rows(hours) == [(pytest.approx(0.0917, abs=1e-4), pytest.approx(0.0292, abs=1e-4))]


@ORDERS
def test_two_users_of_one_number_have_their_own_samples(host, order):
    """A number that comes again after ten months, of another user: memory and account are each user's own."""
    for kind in order:
        take(host, f"y.{kind}")
    assert host.rows("SELECT local_user, memory_kib FROM v1_jobs ORDER BY end_time") == [
        ("bob", 360_000),
        ("ada", 36_000),
    ]
    assert host.rows("SELECT user_name, peak_memory_kib FROM v1_sampled_jobs ORDER BY first_time") == [
        ("bob", 360_000),
        ("ada", 36_000),
    ]


def cpu_by_month(host):
    """CPU seconds of the jobs of each month."""
    return host.rows("SELECT substr(end_time_iso, 1, 7), sum(cpu_s) FROM v1_jobs GROUP BY 1 ORDER BY 1")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_record_of_telemetry_keeps_its_cpu_time(host, order):
    """January's job and November's: samples and reports of both, in any order."""
    lines = (CASES / "rec.jsonl").read_bytes().splitlines(keepends=True)
    parts = [b"".join(lines[:6]), lines[6], b"".join(lines[7:13]), lines[13]]
    for part in order:
        host.take(parts[part])
    assert cpu_by_month(host) == [("2026-01", 360), ("2026-11", 360)]


def test_a_job_that_waits_takes_nothing_from_an_old_one(host):
    """A pending job has the number of one of ten months ago: the closed month stays."""
    lines = (CASES / "rec.jsonl").read_bytes().splitlines(keepends=True)
    host.take(b"".join(lines[:7]))
    log = host.rows("SELECT max(Seq) FROM FinishedLog")
    take(host, "recP.jsonl")
    assert cpu_by_month(host) == [("2026-01", 360)]
    assert host.rows("SELECT max(Seq) FROM FinishedLog") == log
    # Its samples are in no run that started.
    report = host.take(b"".join(lines[7:13]))
    assert cpu_by_month(host) == [("2026-01", 360)]
    assert list(report.outside.values()) == [6]


@pytest.mark.parametrize(("name", "covered_s"), [("gapA", 300), ("gapB", 600)])
def test_a_gap_of_hours_counts_nothing(host, name, covered_s):
    """Neither for the node nor for its cards."""
    take(host, f"{name}.jsonl")
    assert host.rows("SELECT sum(covered_s) FROM v1_node_usage WHERE measure = 'power_w'") == [(covered_s,)]
    assert host.rows("SELECT occupied_s, busy_s, energy_j FROM v1_job_accelerators") == [
        (covered_s, covered_s / 2, covered_s * 100)
    ]


def test_one_output_of_sacct_makes_one_record_by_either_way(tmp_path):
    """CPU time beyond cores times clock time, by `import slurm` and by `import sonar`: as sacct reports it."""
    hosts = [Host(tmp_path / name, make=True) for name in ("slurm", "sonar")]
    hosts[0].sacct((CASES / "x1.txt").read_bytes())
    hosts[1].take((CASES / "x1.json").read_bytes())
    records = [host.dicts("SELECT * FROM v1_jobs") for host in hosts]
    assert [one.pop("source") for (one,) in records] == ["sacct", "slurm"]
    assert records[0] == records[1]
    assert records[0][0]["cpu_s"] == 5400


NOON = 1795168800
"""As `sonar_site.sample` counts: the full hour."""


def seen(at, memory_kib=100, **more):
    """A sample of job 7 with a process of its own, seconds after NOON."""
    return sample(at, [{"cmd": "x", "pid": 1000 + at % 50_000, "cpu_time": 1, "resident_memory": memory_kib}], **more)


def ran(start, end, **more):
    """A job envelope of a run of job 7."""
    times = {"submit_time": start - 1, "start_time": start, "end_time": end}
    run = {"job_id": 7, "job_state": "COMPLETED", "nodes": ["n1"], "allocated_resources": "cpu=1,gres/gpu=2"}
    run |= {name: datetime.fromtimestamp(NOON + at, UTC).isoformat() for name, at in times.items()} | more
    attributes = {"time": datetime.fromtimestamp(NOON + end + 1, UTC).isoformat(), "cluster": "c", "slurm_jobs": [run]}
    return {"meta": {"producer": "sonar", "version": "0.19.0"}, "data": {"type": "job", "attributes": attributes}}


def telemetry(host, column="samples"):
    """What telemetry has of each record, in order of their ends."""
    return host.rows(
        f"SELECT v1_job_telemetry.{column} FROM v1_jobs LEFT JOIN v1_job_telemetry USING (job_id) ORDER BY end_time"
    )


@pytest.mark.parametrize(("at", "start"), [(239, None), (240, 300), (300, 300), (600, 300), (660, 300), (661, None)])
def test_a_minute_around_a_run_is_its_own(host, at, start):
    """Clocks differ, and processes outlive their job; what is farther away is counted, and no job's."""
    report = host.take(stream(ran(300, 600), seen(at)))
    assert host.rows("SELECT run_start_time FROM v1_sampled_jobs") == [(start and NOON + start,)]
    assert telemetry(host) == [(int(start is not None),)]
    assert list(report.outside.values()) == [int(start is None)]


def test_between_two_runs_the_nearer_one_counts(host):
    """After a requeue within a minute; in the middle it is the run before, whose processes may still be there."""
    host.take(stream(ran(0, 100), ran(150, 200), seen(125), seen(126)))
    assert host.rows("SELECT run_start_time, samples, first_time FROM v1_sampled_jobs ORDER BY 1") == [
        (NOON, 1, NOON + 125),
        (NOON + 150, 1, NOON + 126),
    ]


@pytest.mark.parametrize("first", ["run", "samples"])
def test_a_run_that_starts_with_an_hour(host, first):
    """What lies between its first sample and the one before is not its own, though the hours are not divided."""
    card = [{"cmd": "x", "pid": 4, "gpus": [{"uuid": "g", "gpu_util": 100}]}]
    parts = {
        "run": lambda: host.arc_job("7", submit=NOON + 3640, end=NOON + 4000),
        "samples": lambda: host.take(stream(*(sample(at, card) for at in (3480, 3540, 3600, 3660)))),
    }
    for part in (first, *(parts.keys() - {first})):
        parts[part]()
    host.take(b"")
    assert telemetry(host, "gpu_occupied_s") == [(60,)]


def test_of_two_runs_at_once_the_later_one_counts(host):
    """Two records of one number overlap by a second of A-REX's clock: a sample has one of them."""
    host.arc_job("7", "ONE", submit=NOON, end=NOON + 900)
    host.arc_job("7", "TWO", submit=NOON + 600, end=NOON + 800)
    host.take(stream(seen(500), seen(700), seen(850)))
    assert host.rows("SELECT job_id, samples FROM v1_job_telemetry ORDER BY 1") == [("ONE", 2), ("TWO", 1)]


@pytest.mark.parametrize("nodes", [("n1", "n2"), ("n2", "n1")])
def test_the_benchmark_does_not_depend_on_which_node_came_first(host, nodes):
    """Of a node whose model no line matches there is none, whenever its samples come."""
    site = Site(node_benchmarks=(NodeBenchmark("AMD*", "HEPscore23:14.5"),), default_benchmark="HEPSPEC:1.0")
    record_id = host.arc_job("7", submit=NOON, end=NOON + 900)
    set_children(host.con, record_id, "JobExtraInfo", [("benchmark", "HEPSPEC:1.0")])
    host.take(stream(sysinfo_of(), sysinfo_of(node="n2", cpu_model="Other")), site=site)
    for node in nodes:
        host.take(stream(seen(60, node=node)), site=site)
    assert host.rows("SELECT benchmark_value, wn_instance FROM v1_jobs") == [(1.0, "AMD EPYC 7763;Other")]


def test_hours_that_a_run_holds_whole_are_not_made_again(host):
    """A record that comes after its samples costs no more than giving it their hours."""
    host.take(stream(*(seen(at, node=node) for node in ("n1", "n2") for at in range(0, 40_000, 1200))))
    host.con.execute("CREATE TRIGGER made BEFORE INSERT ON JobUsage BEGIN SELECT RAISE(ABORT, 'made anew'); END")
    host.arc_job("7", submit=NOON - 30, end=NOON + 40_000)
    host.take(b"")
    assert (telemetry(host), host.said) == ([(68,)], [])


def test_a_run_that_continues_holds_what_comes(host):
    """A running job has no end: until the next run of its number starts, samples are its own."""
    host.take(stream(ran(0, 0, job_state="RUNNING", end_time="")))
    report = host.take(stream(seen(50_000)))
    assert host.rows("SELECT run_start_time FROM v1_sampled_jobs") == [(NOON,)]
    assert list(report.outside.values()) == [0]


def test_what_turns_out_to_be_another_run_is_taken_back(host):
    """A sample just behind a record's end is its own until a run is known that holds it."""
    host.arc_job("7", "FIRST", submit=NOON, end=NOON + 100)
    host.take(stream(seen(130, 4000)))
    assert host.rows("SELECT job_id, memory_kib FROM v1_jobs") == [("FIRST", 4000)]
    host.arc_job("7", "SECOND", submit=NOON + 120, end=NOON + 200)
    host.take(b"")
    assert host.rows("SELECT job_id, memory_kib FROM v1_jobs ORDER BY 1") == [("FIRST", None), ("SECOND", 4000)]
    assert host.rows("SELECT job_id, samples FROM v1_job_telemetry") == [("SECOND", 1)]
    assert host.rows("SELECT count(*) FROM FieldSources") == [(1,)]


def test_the_gpus_of_another_run_are_taken_back(host):
    """With the samples: a job has no GPU time by samples that are of a job that became known later."""
    card = [{"cmd": "x", "pid": 4, "gpus": [{"uuid": "g", "gpu_util": 100}]}]
    asked = "SELECT job_id, busy_gpu_s > 0 FROM v1_jobs ORDER BY 1"
    host.arc_job("7", "FIRST", submit=NOON, end=NOON + 100)
    host.take(stream(*(sample(at, card) for at in (120, 135, 150))))
    assert host.rows(asked) == [("FIRST", 1)]
    host.arc_job("7", "SECOND", submit=NOON + 115, end=NOON + 200)
    host.take(b"")
    assert host.rows(asked) == [("FIRST", None), ("SECOND", 1)]


def test_what_is_another_run_by_telemetry_is_taken_back(host):
    """The same where records are made of telemetry."""
    host.take(stream(ran(0, 100), seen(130, 4000)))
    assert host.rows("SELECT memory_kib, cpu_s FROM v1_jobs") == [(4000, 1)]
    host.take(stream(ran(140, 200)))
    assert host.rows("SELECT memory_kib, cpu_s FROM v1_jobs ORDER BY end_time") == [(None, None), (4000, 1)]


def test_a_benchmark_that_is_taken_back_is_that_of_the_site(host):
    """The nodes of the samples gave it; without them it is what it was, and so are system and kind of worker."""
    site = Site(node_benchmarks=(NodeBenchmark("AMD*", "HEPscore23:14.5"),), default_benchmark="HEPSPEC:1.0")
    told = "SELECT benchmark_value, benchmark_source, wn_instance, system_software FROM v1_jobs WHERE job_id = 'FIRST'"
    first = host.arc_job("7", "FIRST", submit=NOON, end=NOON + 100)
    set_children(host.con, first, "JobExtraInfo", [("benchmark", "HEPSPEC:1.0")])
    before = host.rows(told)
    host.take(stream(sysinfo_of(), seen(130)), site=site)
    assert host.rows(told) == [(14.5, "sonar", "AMD EPYC 7763", "Linux 6.1 x86_64")]
    host.arc_job("7", "SECOND", submit=NOON + 120, end=NOON + 200)
    host.take(b"", site=site)
    assert host.rows(told) == before


def test_a_job_of_arc_has_the_samples_of_all_its_runs(host):
    """Slurm started it twice for one job of A-REX: samples, GPUs and energy of both are its own."""
    energy = {"sacct": {"AllocTRES": "cpu=1,gres/gpu=2,energy=500"}}
    host.arc_job("7", submit=NOON - 30, end=NOON + 900)
    host.take(
        stream(ran(0, 100, **energy), ran(400, 800, **energy), seen(50), seen(500)), site=Site(make_records=False)
    )
    [told] = host.dicts("SELECT * FROM v1_job_telemetry")
    assert (told["samples"], told["gpu_count"], told["gpu_allocated_s"], told["energy_j"]) == (2, 2, 1000, 1000)


def test_energy_0_of_slurm_is_unknown(host):
    """Slurm reports 0 where no plugin measures it: neither the view nor a sum of several runs has a measurement."""
    energy = {"sacct": {"AllocTRES": "cpu=1,energy=0"}}
    host.arc_job("7", submit=NOON - 30, end=NOON + 900)
    host.take(stream(ran(0, 100, **energy), ran(400, 800, **energy), seen(50)), site=Site(make_records=False))
    assert host.rows("SELECT energy_j FROM v1_job_telemetry") == [(None,)]
    assert host.rows("SELECT nodes_energy_j, energy_source FROM v1_jobs") == [(None, None)]


def close(host):
    """Two weeks go by without a sample."""
    for table in ("JobSamples", "NodeSamples"):
        host.con.execute(f"UPDATE {table} SET Written = 0")
    host.take(b"")
    assert host.rows("SELECT count(*) FROM JobSamples") == [(0,)]


def test_a_closed_hour_goes_to_the_run_that_it_is_of(host):
    """A record that comes after weeks gets its hours, with cards; another run of another hour takes none of them."""
    card = [{"cmd": "x", "pid": 4, "gpus": [{"uuid": "g", "gpu_util": 100}]}]
    host.take(stream(*(sample(at, card) for at in (0, 60, 3600, 3660, 90_000, 90_060))))
    close(host)
    host.arc_job("7", "ONE", submit=NOON - 30, end=NOON + 4000)
    host.take(b"")
    assert telemetry(host, "gpu_busy_s") == [(120,)]
    host.arc_job("7", "TWO", submit=NOON + 89_000, end=NOON + 91_000)
    host.take(b"")
    assert telemetry(host, "gpu_busy_s") == [(120,), (60,)]
    assert host.rows("SELECT run_start_time, busy_s FROM v1_job_accelerators ORDER BY 1") == [
        (NOON - 30, 120),
        (NOON + 89_000, 60),
    ]


def test_a_closed_hour_stays_with_the_run_that_has_it(host):
    """It cannot be divided any more: a run that becomes known later takes nothing from a month that is closed."""
    host.arc_job("7", "ONE", submit=NOON, end=NOON + 100)
    host.take(stream(seen(50), seen(1000)))
    assert telemetry(host) == [(1,)]
    other = Host(pathlib.Path(host.here.database).parent.parent / "other", make=True)
    other.take(stream(seen(50), seen(1000)))
    for one in (host, other):
        close(one)
    other.arc_job("7", "ONE", submit=NOON, end=NOON + 100)
    for one in (host, other):
        one.take(b"")
        one.arc_job("7", "TWO", submit=NOON + 900, end=NOON + 1100)
        one.take(b"")
    # Divided before it was closed, and not.
    assert telemetry(host) == [(1,), (1,)]
    assert telemetry(other) == [(2,), (None,)]
    other.arc_job("7", "ZERO", submit=NOON - 20, end=NOON + 60)
    other.con.execute("UPDATE AAR SET SubmitTime = ? WHERE JobID = 'ONE'", (NOON + 70,))
    other.take(b"")
    assert host.rows("SELECT job_id, samples FROM v1_job_telemetry ORDER BY 1") == [("ONE", 1), ("TWO", 1)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_number_of_two_clusters(host, order):
    """The record of sacct says which cluster; one of A-REX that may be of either gets none, whatever came first."""
    table = "JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|ExitCode|AllocCPUS|TotalCPU|User|Account|NodeList\n"
    row = "7|d|COMPLETED|2026-11-20T10:00:00|2026-11-20T10:00:00|2026-11-20T10:10:00|600|0:0|1|00:01|b|a|n1\n"
    parts = [
        lambda: host.take(stream(seen(60, 111, cluster="c"), seen(60, 111, cluster="c", job=9))),
        lambda: host.take(stream(seen(60, 222, cluster="d"), seen(60, 222, cluster="d", job=9))),
        lambda: (host.sacct((table + row).encode()), host.arc_job("9", submit=NOON, end=NOON + 700)),
    ]
    for part in order:
        parts[part]()
    host.take(b"")
    assert host.rows("SELECT source, memory_kib FROM v1_jobs ORDER BY source") == [("arc", None), ("sacct", 222)]
    assert host.rows("SELECT cluster, lrms_job_id FROM v1_job_telemetry") == [("d", 7)]


def test_times_that_come_later_divide_again(host):
    """A batch system tells of another run of a job: nothing of the record itself changes, its telemetry does."""
    record_id = host.arc_job("7", submit=NOON, end=NOON + 2000)
    host.con.execute("INSERT INTO RecordSources VALUES (?, 'gridengine', 'default')", (record_id,))
    first = [("LRMSSTART", "2026-11-20 10:00:00"), ("LRMSEND", "2026-11-20 10:05:00")]
    host.con.executemany("INSERT INTO JobEvents VALUES (?, ?, ?)", [(record_id, *one) for one in first])
    host.take(stream(seen(60), seen(1860)))
    assert telemetry(host) == [(1,)]
    host.take(b"")
    again = [("LRMSSTART", "2026-11-20 10:30:00"), ("LRMSEND", "2026-11-20 10:33:00")]
    host.con.executemany("INSERT INTO JobEvents VALUES (?, ?, ?)", [(record_id, *one) for one in again])
    assert host.take(b"").enriched == 1
    assert telemetry(host) == [(2,)]


def test_telemetry_of_an_older_program_is_divided(tmp_path):
    """Two records had all samples of their number: after an upgrade each has its own, and no sample is lost."""
    here = places(tmp_path)
    with (
        closing(schema.in_memory(schema.ACCOUNTING, 21)) as made,
        closing(sqlite3.connect(here.database, isolation_level=None)) as con,
    ):
        made.backup(con)
        con.execute("PRAGMA journal_mode = WAL")
        _fill_like_021(con)
    host = Host(tmp_path)
    assert host.rows("SELECT samples, run_start_time FROM v1_sampled_jobs") == [(13, None)]
    host.take(b"")
    assert telemetry(host) == [(6,), (6,)]
    assert telemetry(host, "gpu_energy_j") == [(90_000,), (15_000,)]
    assert host.rows("SELECT memory_kib FROM v1_jobs ORDER BY end_time") == [(500_000,), (360_000,)]
    assert host.rows("SELECT run_start_time_iso, samples FROM v1_sampled_jobs ORDER BY 1") == [
        (None, 1),
        ("2026-11-25T07:00:10Z", 6),
        ("2026-11-25T10:00:10Z", 6),
    ]
    assert host.rows("SELECT count(*) FROM TelemetryToDivide") == [(0,)]


def _fill_like_021(con):
    """What the program of schema 21 made of a number with two runs and a sample behind; the first hour is closed."""
    shots = [one for one in read([(CASES / "z.jsonl").read_bytes()]) if isinstance(one, Sample)]
    late = shots[-1]._replace(time=shots[-1].time + 1800)
    hours: dict[int, dict[int, list[object]]] = {}
    for one in (*shots, late):
        [shot] = one.jobs.values()
        hours.setdefault(one.time // 3600 * 3600, {})[one.time] = list(shot._replace(memory_kib=shot.memory_kib))
    con.execute("INSERT INTO Clusters VALUES (1, 'c')")
    con.execute("INSERT INTO NodeNames VALUES (1, 1, 'n1')")
    con.execute("INSERT INTO SampledJobs VALUES (1, 1, 7, 0, 0, 0)")
    con.executemany(
        "INSERT INTO JobUsage (SampledJobID, NodeID, Hour, UserName, Samples, FirstTime, LastTime, Starts, CPUS,"
        " ReadKiB, WrittenKiB, PeakMemory, PeakVirtMem, PeakProcesses, PeakThreads, CancelledKiB, InContainer)"
        " VALUES (1, 1, ?, 'bob', ?, ?, ?, 0, 360, 0, 0, ?, 2000, 1, 1, 0, 0)",
        [
            (hour, len(own), min(own), max(own), peak)
            for (hour, own), peak in zip(hours.items(), (500_000, 360_000), strict=True)
        ],
    )
    con.executemany(
        "INSERT INTO JobCardUsage (SampledJobID, NodeID, Hour, UUID, Samples, OccupiedS, BusyS, EnergyJ, PeakMemory)"
        " VALUES (1, 1, ?, 'GPU-aaa', 6, 300, 300, ?, 8000000)",
        zip(hours, (90_000, 24_000), strict=True),
    )
    last = max(hours)
    points = {str(at): shot for at, shot in hours[last].items()}
    con.execute(
        "INSERT INTO JobPoints VALUES (1, 1, ?, ?, ?)",
        (last, int(time.time()), zlib.compress(json.dumps(points).encode())),
    )
    for table in ("Endpoints (ID, Interface, URL)", "Queues (ID, Name)", "Users (ID, Name)", "WLCGVOs (ID, Name)"):
        con.execute(
            f"INSERT INTO {table} VALUES (1, {', '.join(['?'] * table.count(','))})", ("local",) * table.count(",")
        )
    for record_id, (start, end) in enumerate([("07:00:10", "07:10:10"), ("10:00:10", "10:10:10")], 1):
        con.execute(
            "INSERT INTO AAR VALUES (?, ?, '7', 1, 1, 1, 1, 2, 0, strftime('%s', ?), strftime('%s', ?), 1, 1,"
            " 500000, 0, 600, 360, 0, 0, 0, 0)",
            (record_id, f"sonar:c:7:{record_id}", f"2026-11-25 {start}", f"2026-11-25 {end}"),
        )
        con.execute("INSERT INTO RecordSources VALUES (?, 'sacct', 'c')", (record_id,))
        con.execute("INSERT INTO FieldSources VALUES (?, 'memory_kib', 'sonar')", (record_id,))
        con.executemany(
            "INSERT INTO JobEvents VALUES (?, ?, ?)",
            [(record_id, key, f"2026-11-25 {at}") for key, at in (("LRMSSTART", start), ("LRMSEND", end))],
        )
        con.execute(
            "INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples, CPUS, PeakMemory, GPUBusyS, GPUEnergyJ)"
            " VALUES (?, 1, 7, 13, 720, 500000, 600, 114000)",
            (record_id,),
        )
    con.execute("INSERT INTO DBConfig VALUES ('SONAR_ENRICHED_SEQ', (SELECT max(Seq) FROM FinishedLog))")


def measured(host):
    """CPU time, GPU time and energy of all samples."""
    return host.rows("SELECT sum(CPUS) FROM JobUsage") + host.rows("SELECT sum(BusyS), sum(EnergyJ) FROM JobGPUUsage")


def test_a_use_of_a_card_beyond_the_card_is_unusable(host):
    """Of one sample of a minute; it is counted, and all others stay."""
    report = take(host, "n_util.jsonl")
    assert report.dropped == {"gpu_util": 1}
    assert measured(host) == [(720,), (240 + 30, 300 * 300 + 50 * 300)]


def test_a_power_beyond_any_card_is_unusable(host):
    report = take(host, "n_245.jsonl")
    assert report.dropped == {"gpu_util": 1, "ce_util": 1, "power": 1}
    assert measured(host) == [(720,), (240 + 30, 240 * 300 + 50 * 300)]


@pytest.mark.parametrize(("place", "cpu_s"), [(1, 720), (2, 720), (5, 660), (6, 720), (7, 720)])
@pytest.mark.parametrize("step", [1, -1])
def test_a_cpu_time_that_no_node_can_give_is_unusable(host, place, cpu_s, step):
    """Also if it is the first or last of an hour; it is counted once, and in any order nothing else is lost."""
    lines = (CASES / "z.jsonl").read_bytes().splitlines(keepends=True)
    lines[place] = re.sub(rb'"cpu_time": \d+', b'"cpu_time": 4294967295', lines[place])
    counts = sum((host.take(line).dropped for line in lines[::step]), Counter())
    assert measured(host)[0] == (cpu_s,)
    assert counts["cpu_time"] <= 1
    assert not host.take(*lines).dropped


def test_a_cpu_time_that_no_node_can_give_is_counted(host):
    lines = (CASES / "z.jsonl").read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b'"cpu_time": 180', b'"cpu_time": 4294967295')
    assert [host.take(*lines).dropped, host.take(*lines).dropped] == [{"cpu_time": 1}, {}]
