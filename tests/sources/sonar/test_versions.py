"""Every released Sonar from 0.13 on is read, and comes to the same jobs, nodes and samples."""

from __future__ import annotations

import pytest
from sonar_site import Host, stream
from sonar_versions import VERSIONS, everything, jobs, number

from arcacct.config.values import NodeBenchmark
from arcacct.sources.sonar.jobs import Site

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
