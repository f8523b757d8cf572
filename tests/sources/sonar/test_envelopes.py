"""Reading telemetry from bytes."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sonar_site import REAL_FILES, SERIES, Host, kind_of, objects, read, sample, stream, validate
from sonar_versions import VERSIONS, everything, jobs, number

from arcacct.config.values import NodeBenchmark
from arcacct.records.slurm_formats import MalformedError
from arcacct.sources.sonar.envelopes import Dropped, Errors, Jobs, Sysinfo, envelope
from arcacct.sources.sonar.fields import RejectedObject
from arcacct.sources.sonar.jobs import Site
from arcacct.sources.sonar.samples import Sample

SYSINFO = {
    "time": "2026-11-20T09:00:00+00:00", "node": "n1", "os_name": "Linux", "os_release": "6", "sockets": 1,
    "cores_per_socket": 2, "threads_per_core": 1, "architecture": "x86_64", "memory": 1024,
}  # fmt: skip


def enveloped(kind: str, attributes: dict[str, object]) -> dict[str, object]:
    """Attributes in their envelope."""
    return {"meta": {"producer": "sonar", "version": "1.0.0"}, "data": {"type": kind, "attributes": attributes}}


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_every_real_file_is_read_without_a_complaint(path):
    """Whatever Sonar really wrote is understood, and is of the format as our schemas have it."""
    found = list(read([path.read_bytes()]))
    assert found
    assert not [one for one in found if isinstance(one, RejectedObject)]
    for one in objects(path):
        validate(one, kind_of(one))


def test_objects_may_be_pretty_printed_and_joined():
    """Objects over many lines, several on one line, and blanks between them are read as they come."""
    one, other = sample(0, []), sample(60, [])
    text = json.dumps(one, indent=2) + json.dumps(other) + "\n\n \t" + json.dumps(one) + json.dumps(other)
    assert len([found for found in read([text.encode()]) if isinstance(found, Sample)]) == 4


@given(st.lists(st.integers(1, 500), max_size=40))
def test_chunks_may_be_cut_anywhere(sizes):
    """Wherever the bytes of a stream are cut, even inside of a character, the same envelopes come out."""
    whole = (
        stream(sample(0, [{"cmd": "naïve →", "pid": 5}]), sample(60, []))
        + json.dumps(sample(90, []), indent=1).encode()
    )
    chunks, position = [], 0
    for size in sizes:
        chunks.append(whole[position : position + size])
        position += size
    assert list(read([*chunks, whole[position:]])) == list(read([whole]))


@pytest.mark.parametrize(
    "bad",
    [
        b'{"meta":{"producer":"sonar","version":"1"},"data":{"type":"sample","attributes":{"time"\n',
        b'{"meta":{}, "data": nonsense}\n',
        b"sonar: warning: no GPU\n",
        b'{"meta":{"producer":"sonar"},"data":{"type":"sample","attributes":{"node":"n1","time":"yesterday"}}}\n',
        b'{"meta":{"producer":"so\n',
        b"[1,2]\n",
        b'{"a":NaN}\n',
        b"\xff\xfe{}\n",
        b'{"meta":{"producer":"sonar","version":"1"}}\n',
        b"[" * 100_000 + b"\n",
    ],
    ids=["cut", "no JSON", "a log line", "no time", "cut in a string", "a list", "NaN", "no text", "empty", "deep"],
)
def test_what_is_malformed_costs_only_itself(bad):
    """One bad envelope is left out with a reason; those before and after it are read."""
    good = stream(sample(0, []))
    found = list(read([good + bad + good]))
    assert [type(one) for one in found if not isinstance(one, RejectedObject)] == [Sample, Sample]
    assert [one.fault.reason for one in found if isinstance(one, RejectedObject)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sockets": 0}, "sockets"),
        ({"memory": -1}, "memory"),
        ({"memory": "1024"}, "memory"),
        ({"memory": True}, "memory"),
        ({"time": "2026-11-20 09:00:00"}, "time"),
        ({"time": "2026-13-20T09:00:00Z"}, "time"),
        ({"time": ""}, "time"),
        ({"node": ""}, "node"),
        ({"cpu_model": "\ud800"}, "cpu_model"),
        ({"memory": 2**64}, "memory"),
        ({"cards": {"index": 1}}, "cards"),
        ({"distances": [["far"]]}, "distances"),
    ],
)
def test_a_value_of_the_wrong_type_refuses_its_envelope(change, reason):
    """Types, ranges, times and text are as the format says, or the envelope is refused with the name of the field."""
    with pytest.raises(MalformedError, match=reason):
        envelope(enveloped("sysinfo", SYSINFO | change))


def test_fields_that_are_absent_have_their_defaults():
    """The shortest sysinfo is one."""
    found = envelope(enveloped("sysinfo", SYSINFO))
    assert isinstance(found, Sysinfo)
    assert (found.cluster, found.cpu_model, found.cards, found.software) == ("", "", (), ())


@pytest.mark.parametrize("tag", ["job", "jobs"])
def test_jobs_have_two_tags(tag):
    """What Sonar says (job) and what its specification says (jobs) are both read."""
    found = envelope(
        enveloped(tag, {"time": "2026-11-20T09:00:00Z", "slurm_jobs": [{"job_id": 1, "job_state": "PENDING"}]})
    )
    assert isinstance(found, Jobs)
    assert found.reports[0].job_id == 1


def test_data_with_errors_is_an_error():
    """Data and errors exclude each other; errors alone are kept."""
    errors = {"errors": [{"detail": "sinfo", "time": "2026-11-20T09:00:00+00:00", "node": "n1"}]}
    assert isinstance(envelope({"meta": {}} | errors), Errors)
    with pytest.raises(MalformedError, match="both"):
        envelope(enveloped("sysinfo", SYSINFO) | errors)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-20T09:55:49+00:00", 1795168549),
        ("2026-11-20T09:55:49Z", 1795168549),
        ("2026-11-20T15:25:49+05:30", 1795168549),
        ("2026-11-19T23:55:49-10:00", 1795168549),
    ],
)
def test_times_have_offsets(text, seconds):
    """Local times with their offset, and Z, are seconds in UTC."""
    found = envelope(enveloped("sysinfo", SYSINFO | {"time": text}))
    assert isinstance(found, Sysinfo)
    assert found.time == seconds


@pytest.mark.campaign
def test_rubbish_costs_the_same_wherever_it_stands():
    """Short bad lines by the hundred thousand in one piece take hardly longer than in many small ones."""
    lines = b"{\n" * 100_000

    def cpu_s(size):
        began = time.process_time()
        found = list(read(lines[start : start + size] for start in range(0, len(lines), size)))
        assert len(found) == 100_000
        return time.process_time() - began

    cpu_s(4000)
    assert cpu_s(len(lines)) < 4 * cpu_s(4000)


def test_the_series_is_a_line_for_each_sample():
    """Eight samples of two processes are eight envelopes."""
    assert len(list(read([SERIES.read_bytes()]))) == 8


def test_a_list_of_millions_of_hosts_costs_itself_alone():
    """300 times the same range, 3 kB: refused before a name is made; its job is read without it, and all others."""
    hosts = {"job_id": 1, "job_state": "COMPLETED", "nodes": ["n[1-99999]"] * 300}
    jobs = [{"job_id": 2, "job_state": "PENDING"}, hosts, {"job_id": 3, "job_state": "PENDING"}]
    whole = stream(enveloped("job", {"time": "2026-11-20T09:00:00Z", "slurm_jobs": jobs}), sample(0, []))

    began = time.process_time()
    found = list(read([whole]))

    assert time.process_time() - began < 1
    assert [job.job_id for one in found if isinstance(one, Jobs) for job in one.reports] == [2, 1, 3]
    assert [one.counts for one in found if isinstance(one, Dropped)] == [{"nodes": 1}]
    assert isinstance(found[-1], Sample)


# Every released Sonar from 0.13 on is read, and comes to the same jobs, nodes and samples.


SITE = Site(node_benchmarks=(NodeBenchmark("AMD EPYC 75*", "HEPscore23:20"),))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_day_of_each_version(tmp_path, version):
    """Jobs, nodes, samples and errors, without a complaint and without a dropped value."""
    host = Host(tmp_path, SITE)
    report = host.take(stream(*everything(version)))

    assert (host.said, dict(report.dropped), report.recorded) == ([], {}, 2)
    jobs_of = "SELECT local_job_id, wall_s, cpu_s, core_count, node_count, memory_kib, queue, project, benchmark_value"
    assert host.rows(f"{jobs_of} FROM v1_jobs ORDER BY local_job_id") == [
        ("71", 1800, 1800, 8, 1, 3200000, "accel", "nn9999k", 20.0),
        ("74", 1800, 1800, 8, 1, None, "accel", "nn9999k", 20.0),
    ]
    state = "PENDING"
    priority = 20 if number(version) < 15 else 10
    assert host.rows("SELECT state, priority, nodes FROM v1_slurm_jobs WHERE job_id = 72") == [(state, priority, None)]
    assert host.rows("SELECT value FROM v1_job_attributes WHERE name = 'arrayid'") == [("73_4",)]
    # 250 W for twenty minutes; 80 % of them busy.
    [(model, energy, busy)] = host.rows(
        "SELECT gpu_model, gpu_energy_j, gpu_busy_s FROM v1_job_telemetry WHERE gpu_model NOTNULL"
    )
    assert (model, energy, busy) == ("MI250", 250 * 1200, 960)
    assert host.rows("SELECT cpu_s, peak_memory_kib FROM v1_sampled_jobs WHERE job_id = 71") == [(1500, 200000)]
    assert host.rows("SELECT cpu_model FROM v1_nodes") == [("AMD EPYC 7543",)]
    assert host.rows("SELECT nodes FROM v1_cluster_partitions") == [("c1-[7-8]",)]
    assert host.rows("SELECT detail FROM v1_producer_errors") == [("sacct: error",)]


def test_pending_jobs_without_nodes_cost_nobody_anything(tmp_path):
    """A production Sonar before 0.17 says "None assigned" for the nodes of each pending job: all jobs are taken."""
    host = Host(tmp_path)
    [envelope] = jobs("0.16.1")
    pending = envelope["data"]["attributes"]["slurm_jobs"][2]
    envelope["data"]["attributes"]["slurm_jobs"] += [pending | {"job_id": 1000 + n} for n in range(1446)]

    host.take(stream(envelope))
    assert host.said == []
    assert host.rows("SELECT count(DISTINCT job_id) FROM v1_slurm_jobs") == [(1449,)]
