"""A number that a batch system uses again: each sample belongs to the run whose time holds it."""

from __future__ import annotations

import pathlib

import pytest
from sonar_site import Host

CASES = pathlib.Path(__file__).parents[1] / "data" / "cases"


def test_one_output_of_sacct_makes_one_record_by_either_way(tmp_path):
    """CPU time beyond cores times clock time, by `import slurm` and by `import sonar`: as sacct reports it."""
    hosts = [Host(tmp_path / name, make=True) for name in ("slurm", "sonar")]
    hosts[0].sacct((CASES / "x1.txt").read_bytes())
    hosts[1].take((CASES / "x1.json").read_bytes())
    records = [host.dicts("SELECT * FROM v1_jobs") for host in hosts]
    assert [one.pop("source") for (one,) in records] == ["sacct", "slurm"]
    assert records[0] == records[1]
    assert records[0][0]["cpu_s"] == 5400


@pytest.mark.parametrize(("name", "covered_s"), [("gapA", 300), ("gapB", 600)])
def test_a_gap_of_hours_counts_nothing(tmp_path, name, covered_s):
    """Neither for the node nor for its cards."""
    host = Host(tmp_path)
    host.take((CASES / f"{name}.jsonl").read_bytes())
    assert host.rows("SELECT sum(covered_s) FROM v1_node_usage WHERE measure = 'power_w'") == [(covered_s,)]
    assert host.rows("SELECT occupied_s, busy_s, energy_j FROM v1_job_accelerators") == [
        (covered_s, covered_s / 2, covered_s * 100)
    ]
