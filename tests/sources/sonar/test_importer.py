"""Telemetry in the database."""

from __future__ import annotations

import copy
import random
import re

import pytest
from campaigns import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sonar_site import REAL, REAL_FILES, SERIES, Host, objects, sample, stream

from arcacct.config.values import MapRule, NodeBenchmark
from arcacct.records.recorder import set_children
from arcacct.sources.sonar.importer import has_arex_records
from arcacct.sources.sonar.jobs import Site

LINES = SERIES.read_bytes().splitlines(keepends=True)
EPYC = NodeBenchmark("AMD EPYC*", "HEPscore23:14.5")


@pytest.fixture
def host(tmp_path):
    """A host without any job."""
    return Host(tmp_path)


def usage_of(host, job_id):
    """CPU seconds and peak memory of a sampled job."""
    return host.rows(f"SELECT cpu_s, peak_memory_kib FROM v1_sampled_jobs WHERE job_id = {job_id} AND epoch IS NULL")


@pytest.mark.parametrize("seed", range(5))
def test_the_series_in_any_order_and_repeated(host, seed):
    """Each line an import of its own, shuffled, some twice: always 30 s and 207684 KiB."""
    lines = LINES + LINES[:4]
    random.Random(seed).shuffle(lines)
    for line in lines:
        host.take(line)
    assert usage_of(host, 4242) == [(30, 207684)]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_split_of_a_stream_gives_the_same(tmp_path_factory, data):
    """However samples over several hours are ordered, repeated and divided among imports, the rows are the same."""
    lives = data.draw(
        st.lists(
            st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(1, 9)),
            min_size=1,
            max_size=5,
            unique_by=lambda life: life[0],
        )
    )
    envelopes = []
    for step in range(10):
        alive = [
            {
                "cmd": "x",
                "pid": pid,
                "ppid": 1 + pid // 2,
                "cpu_time": 3 * pid * (step - born),
                "resident_memory": pid * 100 + step,
                "gpus": [{"uuid": "g", "gpu_util": 10.0 * pid}],
            }
            for pid, born, length in lives
            if born <= step < born + length
        ]
        envelopes.append(
            sample(
                step * 1100,
                alive,
                epoch=data.draw(st.sampled_from([0, 5])),
                system={"cpus": [step * 7], "gpus": [{"uuid": "g", "power": 90 + step}]},
            )
        )
    whole, divided = (Host(tmp_path_factory.mktemp("host")) for _ in range(2))
    whole.take(stream(*envelopes))
    shuffled = data.draw(st.permutations([*envelopes, *envelopes[:3]]))
    cut = data.draw(st.integers(0, len(shuffled)))
    divided.take(stream(*shuffled[:cut]))
    divided.take(stream(*shuffled[cut:]))
    assert divided.everything() == whole.everything()


def test_all_real_files_in_any_order(tmp_path):
    """Everything that Sonar really wrote, forwards, backwards and twice, makes the same rows."""
    contents = [path.read_bytes() for path in REAL_FILES]
    hosts = []
    for name, some in (("a", contents), ("b", contents[::-1]), ("c", contents + contents)):
        (tmp_path / name).mkdir()
        hosts.append(Host(tmp_path / name))
        for content in some:
            assert hosts[-1].take(content).rejected == 0
    assert hosts[0].everything() == hosts[1].everything() == hosts[2].everything()


def test_importing_again_publishes_nothing_again(host):
    """The second import of the same changes no record: nothing is logged as changed."""
    contents = [path.read_bytes() for path in REAL_FILES]
    host.take(*contents)
    log = host.rows("SELECT Seq, RecordID FROM FinishedLog")
    report = host.take(*contents)
    assert (report.recorded, report.enriched) == (0, 0)
    assert host.rows("SELECT Seq, RecordID FROM FinishedLog") == log


def seconds(text):
    """Sacct's time: [[hh:]mm:]ss[.fff]."""
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total


def sacct():
    """What sacct said, by raw job id with its step."""
    lines = (REAL / "real-sacct-raw.txt").read_text().splitlines()
    names = lines[0].split("|")
    rows = {}
    for line in lines[1:]:
        # One job has a bar in its name, which is the last field.
        row = dict(zip(names, line.split("|", len(names) - 1), strict=True))
        rows[row["JobIDRaw"]] = row
    return rows


def test_real_jobs_have_what_sacct_says(host):
    """Every job that ran is a record with sacct's times, states, sizes, and CPU time within what Sonar loses."""
    for path in REAL_FILES:
        host.take(path.read_bytes())
    truth = {key: row for key, row in sacct().items() if "." not in key and row["Start"] != "None"}
    jobs = {row["local_job_id"]: row for row in host.dicts("SELECT * FROM v1_jobs")}
    assert jobs.keys() == truth.keys()
    for key, row in truth.items():
        job = jobs[key]
        steps = [one for one_key, one in sacct().items() if one_key.startswith(f"{key}.")]
        cpu = seconds(row["TotalCPU"])
        assert cpu - 1 - len(steps) <= job["cpu_s"] <= cpu + 1, key
        assert job["wall_s"] == int(row["ElapsedRaw"])
        assert (job["lrms_start_time_iso"], job["end_time_iso"]) == (row["Start"] + "Z", row["End"] + "Z")
        assert (job["queue"], job["project"], job["local_user"]) == (row["Partition"], row["Account"], row["User"])
        memory = max((int(one["MaxRSS"].removesuffix("K") or 0) for one in steps if one["MaxRSS"]), default=0)
        assert job["memory_kib"] == (memory or None)
        assert job["core_count"] == int(re.search(r"cpu=(\d+)", row["AllocTRES"])[1])
        status = {"COMPLETED": "completed", "CANCELLED": "aborted"}.get(row["State"].split()[0], "failed")
        assert job["status"] == status
        assert (job["exit_code"] == 0) == (row["State"] == "COMPLETED")
        assert job["job_name"] == row["JobName"].replace("|", "")
    assert jobs["2"]["exit_code"] == 3


def test_arrays_keep_their_elements(host):
    """The last element of an array keeps the number of the whole; a het job that never ran is no record."""
    for path in REAL_FILES:
        host.take(path.read_bytes())
    found = host.rows("SELECT job_id, value FROM v1_job_attributes WHERE name = 'arrayid' ORDER BY value")
    assert [(job.split(":")[2], value) for job, value in found] == [("12", "5_1"), ("13", "5_3"), ("5", "5_5")]
    assert host.rows("SELECT het_job_offset, state FROM v1_slurm_jobs WHERE het_job_id = 6 ORDER BY 1") == [
        (0, "CANCELLED"),
        (1, "CANCELLED"),
    ]


def slurm(time, *jobs, cluster="c"):
    """A jobs envelope, minutes after ten o'clock."""
    return {
        "meta": {"producer": "sonar", "version": "0.19.0"},
        "data": {
            "type": "job",
            "attributes": {"time": f"2026-11-20T10:{time:02d}:00+00:00", "cluster": cluster, "slurm_jobs": list(jobs)},
        },
    }


def ran(job_id=7, start=0, end=30, **more):
    """A Slurm job that completed."""
    return {
        "job_id": job_id,
        "job_state": "COMPLETED",
        "user_name": "ada",
        "account": "atlas",
        "partition": "main",
        "submit_time": "2026-11-20T09:59:00+00:00",
        "start_time": f"2026-11-20T10:{start:02d}:00+00:00",
        "end_time": f"2026-11-20T10:{end:02d}:00+00:00",
        "nodes": ["n1"],
        "allocated_resources": "cpu=2,node=1,gres/gpu=2",
    } | more


def sysinfo(time="2026-11-20T09:00:00+00:00", node="n1", cluster="c", **more):
    """What a node is."""
    attributes = {
        "time": time, "cluster": cluster, "node": node, "os_name": "Linux", "os_release": "6.1", "sockets": 1,
        "cores_per_socket": 4, "threads_per_core": 2, "cpu_model": "AMD EPYC 7763", "architecture": "x86_64",
        "memory": 1024,
    } | more  # fmt: skip
    return {"meta": {"producer": "sonar", "version": "0.19.0"}, "data": {"type": "sysinfo", "attributes": attributes}}


def test_a_slurm_job_with_everything(host):
    """Owner and VO by the map lines, benchmark by the node's CPU, GPUs allocated and used, memory by samples."""
    site = Site((MapRule("account", "at*", "atlas", "prod", "withheld"),), (EPYC,), (), "HEPSPEC:1.0")
    gpu = {"uuid": "G-1", "gpu_util": 50, "gpu_memory": 2000}
    samples = [
        sample(
            at,
            [{"cmd": "x", "pid": 4, "ppid": 1, "cpu_time": at, "resident_memory": 500, "gpus": [gpu]}],
            system={"gpus": [{"uuid": "G-1", "power": 100}]},
        )
        for at in (60, 120, 180)
    ]
    card = {"index": 0, "uuid": "G-1", "manufacturer": "NVIDIA", "model": "A100"}
    host.take(stream(sysinfo(cards=[card]), *samples, slurm(40, ran())), site=site)

    [job] = host.dicts("SELECT * FROM v1_jobs")
    assert job["job_id"] == "sonar:c:7:1795168740"
    assert (job["vo"], job["fqan"], job["user_dn"], job["source"]) == ("atlas", "/atlas/prod", "withheld", "slurm")
    assert (job["benchmark_type"], job["benchmark_value"], job["benchmark_source"]) == ("HEPscore23", 14.5, "sonar")
    assert (job["cpu_s"], job["memory_kib"], job["core_count"], job["wall_s"]) == (180, 500, 2, 1800)
    assert (job["system_software"], job["wn_instance"]) == ("Linux 6.1 x86_64", "AMD EPYC 7763")
    assert host.rows("SELECT Field, Source FROM FieldSources") == [("benchmark", "sonar"), ("memory_kib", "sonar")]
    [told] = host.dicts("SELECT * FROM v1_job_telemetry")
    assert (told["gpu_count"], told["gpu_allocated_s"], told["gpu_model"]) == (2, 3600, "A100")
    assert (told["gpu_busy_s"], told["gpu_occupied_s"], told["gpu_energy_j"], told["gpu_peak_memory_kib"]) == (
        60,
        120,
        12000,
        2000,
    )
    assert (told["cpu_source"], told["samples"], told["cpu_model"]) == ("samples", 3, "AMD EPYC 7763")


def test_sacct_corrects_what_samples_filled_in(host):
    """Memory by samples stands until sacct tells it, and does not come back."""
    host.take(stream(sample(60, [{"cmd": "x", "pid": 4, "resident_memory": 500}]), slurm(40, ran())))
    step = {
        "job_id": 7,
        "job_step": "batch",
        "job_state": "COMPLETED",
        "start_time": "2026-11-20T10:00:00+00:00",
        "sacct": {"MaxRSS": 900},
    }
    for _ in range(2):
        host.take(stream(slurm(41, step)))
        assert host.rows("SELECT memory_kib FROM v1_jobs") == [(900,)]
    host.take(stream(sample(90, [{"cmd": "x", "pid": 4, "resident_memory": 700}])))
    assert host.rows("SELECT memory_kib FROM v1_jobs") == [(900,)]


def test_a_requeued_job_is_two_records(host):
    """The same number, started again after its end: two runs, two records, one identity each."""
    failed = ran(end=10) | {"job_state": "FAILED"}
    again = ran(start=20, end=30)
    for order in ([slurm(12, failed), slurm(32, again)], [slurm(32, again), slurm(12, failed)]):
        host.take(stream(*order))
    found = host.rows("SELECT job_id, status, wall_s FROM v1_jobs ORDER BY end_time")
    assert found == [("sonar:c:7:1795168740", "failed", 600), ("sonar:c:7:1795168740:1795170000", "completed", 600)]


def arc_job(host, job_id="ARC1", local_id="7", benchmark="HEPSPEC:1.0", end=1795170600):
    """A finished job as A-REX's files make it."""
    record_id = host.arc_job(local_id, job_id, end=end)
    host.con.execute("INSERT INTO StatusFiles (RecordID, State, EventNs) VALUES (?, 'FINISHED', 1)", (record_id,))
    set_children(host.con, record_id, "JobExtraInfo", [("benchmark", benchmark), ("nodenames", "n1:n1")])
    return record_id


TELEMETRY = stream(
    sysinfo(),
    *(
        sample(
            at,
            [{"cmd": "x", "pid": 4, "cpu_time": at, "resident_memory": 500, "gpus": [{"uuid": "G", "gpu_util": 100}]}],
        )
        for at in (60, 120)
    ),
)


@pytest.mark.parametrize("first", ["record", "telemetry"])
def test_a_job_of_arc_is_enriched(host, first):
    """GPU, memory, node and benchmark are added, with their source; whichever was there first."""
    site = Site(node_benchmarks=(EPYC,), default_benchmark="HEPSPEC:1.0")
    if first == "record":
        arc_job(host)
        assert host.take(TELEMETRY, site=site).enriched == 1
    else:
        host.take(TELEMETRY, site=site)
        arc_job(host)
        assert host.take(b"", site=site).enriched == 1
    [job] = host.dicts("SELECT * FROM v1_jobs")
    assert (job["memory_kib"], job["benchmark_value"], job["benchmark_source"]) == (500, 14.5, "sonar")
    assert (job["cpu_s"], job["source"], job["wn_instance"]) == (11, "arc", "AMD EPYC 7763")
    assert host.rows("SELECT gpu_busy_s, gpu_count, samples FROM v1_job_telemetry") == [(60, None, 2)]
    assert host.take(b"", site=site).enriched == host.take(TELEMETRY, site=site).enriched == 0


def test_what_a_record_has_stays(host):
    """A benchmark that A-REX knew and a memory that it measured are not replaced."""
    record_id = arc_job(host, benchmark="HEPSPEC:12.5")
    host.con.execute("UPDATE AAR SET UsedMemory = 7 WHERE RecordID = ?", (record_id,))
    host.take(TELEMETRY, site=Site(node_benchmarks=(EPYC,), default_benchmark="HEPSPEC:1.0"))
    [job] = host.dicts("SELECT * FROM v1_jobs")
    assert (job["memory_kib"], job["benchmark_value"], job["benchmark_source"]) == (7, 12.5, "diag")


def test_a_job_of_grid_engine_is_enriched(host):
    """Records of another batch system's files are found by their number as well."""
    record_id = arc_job(host)
    host.con.execute("INSERT INTO RecordSources VALUES (?, 'gridengine', 'default')", (record_id,))
    host.take(TELEMETRY)
    assert host.rows("SELECT memory_kib FROM v1_jobs") == [(500,)]


def test_another_job_with_the_same_number_is_not_enriched(host):
    """A number that was used again months later, or in another cluster, is not this job."""
    arc_job(host, "OLD", end=1795170600 - 90 * 86400)
    host.con.execute("UPDATE AAR SET SubmitTime = EndTime - 1000")
    arc_job(host, "TWO", local_id="8")
    other = sample(60, [{"cmd": "x", "pid": 4, "resident_memory": 5}], job=8, cluster="d")
    host.take(TELEMETRY, stream(sample(60, [{"cmd": "x", "pid": 4}], job=8)))
    host.take(stream(other))
    assert host.rows("SELECT memory_kib FROM v1_jobs WHERE job_id = 'OLD'") == [(None,)]


def test_jobs_of_arc_are_not_counted_twice(host):
    """Where A-REX's jobs are recorded, Slurm's jobs make no records unless asked, and never of the same job."""
    assert not has_arex_records(host.con)
    arc_job(host)
    assert has_arex_records(host.con)
    report = host.take(stream(slurm(40, ran(), ran(9))), site=Site(make_records=False))
    assert (report.recorded, report.unrecorded) == (0, 1)
    assert host.take(stream(slurm(40, ran(), ran(9))), site=Site(make_records=True)).recorded == 1
    assert host.rows("SELECT local_job_id FROM v1_jobs ORDER BY 1") == [("7",), ("9",)]


def test_hardware_has_its_time(host):
    """A node that changes has two rows; a job has the one that was valid when it started; late news cuts in."""
    old = sysinfo("2026-11-20T09:00:00+00:00", cpu_model="Old")
    new = sysinfo("2026-11-20T10:30:00+00:00", cpu_model="New", software=[{"key": "cuda", "version": "12"}])
    host.take(stream(new, old, slurm(50, ran(7, 10, 20), ran(8, 40, 45))))
    assert host.rows("SELECT cpu_model, valid_from_iso, valid_until IS NULL FROM v1_nodes ORDER BY 2") == [
        ("Old", "2026-11-20T09:00:00Z", 0),
        ("New", "2026-11-20T10:30:00Z", 1),
    ]
    assert host.rows("SELECT local_job_id, wn_instance FROM v1_jobs ORDER BY 1") == [("7", "Old"), ("8", "New")]
    assert host.rows("SELECT node, key, version FROM v1_node_software") == [("n1", "cuda", "12")]
    host.take(stream(sysinfo("2026-11-20T09:30:00+00:00", cpu_model="Old")))
    host.take(stream(sysinfo("2026-11-20T09:15:00+00:00", cpu_model="Other")))
    assert [row[0] for row in host.rows("SELECT cpu_model FROM v1_nodes ORDER BY valid_from")] == [
        "Old",
        "Other",
        "Old",
        "New",
    ]


def test_nodes_are_found_without_their_domain(host):
    """Slurm's short names and the nodes' own full ones are the same nodes."""
    host.take(stream(sysinfo(node="n1.example.org"), slurm(40, ran())))
    assert host.rows("SELECT wn_instance FROM v1_jobs") == [("AMD EPYC 7763",)]


def test_clusters_have_their_time(host):
    """Partitions and states of nodes are kept from change to change."""

    def cluster(minute, nodes, states):
        return {
            "meta": {"producer": "sonar", "version": "1.0.0"},
            "data": {
                "type": "cluster",
                "attributes": {
                    "time": f"2026-11-20T10:{minute:02d}:00Z",
                    "cluster": "c",
                    "slurm": True,
                    "partitions": [{"name": "main", "nodes": [nodes]}],
                    "nodes": [{"names": [nodes], "states": states}],
                },
            },
        }

    host.take(
        stream(
            cluster(0, "n[1-2]", ["IDLE"]),
            cluster(10, "n[1-2]", ["IDLE"]),
            cluster(20, "n[1-3]", ["ALLOCATED", "DRAIN"]),
        )
    )
    assert host.rows("SELECT nodes, last_seen - valid_from FROM v1_cluster_partitions ORDER BY valid_from") == [
        ("n[1-2]", 600),
        ("n[1-3]", 0),
    ]
    assert host.rows("SELECT states FROM v1_cluster_nodes WHERE node = 'n1' ORDER BY valid_from") == [
        ("IDLE",),
        ("ALLOCATED,DRAIN",),
    ]


def test_complaints_of_producers_are_kept(host):
    """Errors envelopes, and what a sample could not read, are there for whoever misses telemetry."""
    envelope = sample(0, [])
    envelope["data"]["attributes"]["errors"] = [{"detail": "no GPU", "time": "2026-11-20T10:00:00+00:00", "node": "n1"}]
    host.take((REAL / "real-cluster-noslurm.json").read_bytes() + stream(envelope))
    assert host.rows("SELECT node, detail FROM v1_producer_errors ORDER BY detail") == [
        ("n1", "no GPU"),
        ("vm", "sinfo"),
    ]


def test_process_groups_that_reuse_a_number_are_two_jobs(host):
    """Samples hours apart are of two jobs with the same number; a batch job may pause for days."""

    def at(hours, cpu, epoch):
        return sample(hours * 3600, [{"cmd": "x", "pid": 4, "cpu_time": cpu}], epoch=epoch)

    host.take(stream(at(0, 10, 9), at(5, 20, 9), at(0, 10, 0), at(5, 20, 0)))
    assert host.rows("SELECT epoch, cpu_s FROM v1_sampled_jobs ORDER BY epoch, first_time") == [
        (None, 20),
        (9, 10),
        (9, 20),
    ]


def test_closed_hours_take_nothing_more(host):
    """Two weeks after its last change an hour is closed: late samples are counted and left out, sums stay."""
    host.take(stream(sample(0, [{"cmd": "x", "pid": 4, "cpu_time": 5}])))
    host.con.execute("UPDATE JobSamples SET Written = 0")
    host.con.execute("UPDATE NodeSamples SET Written = 0")
    host.take(b"")
    assert host.rows("SELECT count(*) FROM JobSamples") == [(0,)]
    assert host.take(stream(sample(60, [{"cmd": "x", "pid": 4, "cpu_time": 50}]))).late == 2
    assert usage_of(host, 7) == [(5, 0)]


def test_the_hour_before_an_open_one_stays(host):
    """What the next hour's first interval starts with is kept as long as that hour is open."""
    host.take(stream(*(sample(at, [{"cmd": "x", "pid": 4, "cpu_time": at // 100}]) for at in (0, 3600, 7200))))
    host.con.execute("UPDATE JobSamples SET Written = 0 WHERE Hour < (SELECT max(Hour) FROM JobSamples)")
    host.take(b"")
    assert host.rows("SELECT count(*) FROM JobSamples") == [(2,)]
    host.take(stream(sample(7260, [{"cmd": "x", "pid": 4, "cpu_time": 80}])))
    assert usage_of(host, 7) == [(80, 0)]


def test_no_raw_sample_is_kept(host):
    """Commands of processes are not in the database: only counters by pid, and sums."""
    host.take(stream(sample(0, [{"cmd": "secret-program", "pid": 4}])))
    dump = "".join(
        str(row) for table in ("JobUsage", "NodeUsage", "SampledJobs") for row in host.rows(f"SELECT * FROM {table}")
    )
    assert "secret" not in dump


def test_objects_of_every_field_fill_every_column(host):
    """A Slurm job with every field of the format leaves no column of SlurmJobs empty."""
    full = ran(
        job_step="0",
        job_name="n",
        array_job_id=1,
        array_task_id=2,
        het_job_id=3,
        het_job_offset=4,
        time_limit=7202,
        reservation="r",
        priority=9,
        distribution="Block",
        gres_detail=["gpu:1"],
        requested_resources="cpu=1",
        requested_cpus=2,
        minimum_cpus_per_node=1,
        requested_memory_per_node=5,
        requested_node_count=1,
        suspend_time=1,
        exit_code=1,
        sacct={
            "MinCPU": 1,
            "AllocTRES": "cpu=1",
            "AveCPU": 1,
            "AveDiskRead": 1,
            "AveDiskWrite": 1,
            "AveRSS": 1,
            "AveVMSize": 1,
            "ElapsedRaw": 1,
            "SystemCPU": 1,
            "UserCPU": 1,
            "MaxRSS": 1,
            "MaxVMSize": 1,
        },
    )
    host.take(stream(slurm(40, full)))
    [row] = host.dicts("SELECT * FROM SlurmJobs")
    assert [name for name, value in row.items() if value is None] == []


def test_a_real_file_with_a_broken_line_costs_that_line(host):
    """The rest of a file is taken in, and the complaint names the object."""
    broken = copy.deepcopy(objects(SERIES)[3])
    broken["data"]["attributes"]["time"] = "noon"
    report = host.take(b"".join(LINES[:3]) + stream(broken) + b"".join(LINES[3:]))
    assert (report.rejected, host.said) == (1, ["test: object 4: time is not a time: 'noon'; left out"])
    assert usage_of(host, 4242) == [(30, 207684)]
