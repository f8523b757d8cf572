"""Tasks of arrays: known by number and index in samples, in the batch system's own records, in features."""

from __future__ import annotations

import pathlib

import pytest
from sonar_site import Host, sample, stream

from arcacct.records.recorder import set_children
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.features.collect import take_features
from arcacct.sources.gridengine.accounting_file import Origin
from arcacct.sources.gridengine.importer import SOURCE
from arcacct.sources.sonar.jobs import Site

REAL = pathlib.Path(__file__).parents[2] / "data" / "gridengine" / "accounting.sge819-real"
START = 1795168168
"""Of the array 6 with the tasks 1, 4 and 7, as Grid Engine really wrote it."""


@pytest.fixture
def host(tmp_path):
    """A host without any job."""
    return Host(tmp_path)


def of_task(task, memory_kib, number=6, cluster="c", node="n1"):
    """Samples of a task of an array on a node, as `arcacct node sample` writes them."""
    process = {"cmd": "x", "pid": 100 + task, "cpu_time": 1, "resident_memory": memory_kib}
    found = sample(START + 2 - 1795168800, [process], job=number, cluster=cluster, node=node)
    if task:
        found["data"]["attributes"]["jobs"][0]["array_task_id"] = task
    return found


def import_grid_engine(host):
    """Take over what Grid Engine really wrote."""
    policy = BatchPolicy(BatchSite("default"), START + 10**6, 0)
    work = RunsImport(SOURCE, host.here, host.con, policy, Origin(), host.said.append)
    work.files([str(REAL)])
    work.finish()


def memory_of(host, *local_ids):
    """What telemetry says of records, by local id."""
    marks = ", ".join("?" * len(local_ids))
    return dict(
        host.con.execute(
            "SELECT LocalJobID, PeakMemory FROM JobTelemetry JOIN AAR USING (RecordID)"
            f" WHERE LocalJobID IN ({marks}) ORDER BY 1",
            local_ids,
        ).fetchall()
    )


@pytest.mark.parametrize("first", ["records", "telemetry"])
def test_tasks_of_grid_engine_get_their_own_telemetry(host, first):
    """Each task what was sampled of it, and no other; whichever was there first."""
    telemetry = stream(of_task(1, 1001), of_task(4, 1004), of_task(7, 1007, node="n2"))
    if first == "records":
        import_grid_engine(host)
        report = host.take(telemetry)
    else:
        host.take(telemetry)
        import_grid_engine(host)
        report = host.take(b"")
    assert memory_of(host, "6.1", "6.4", "6.7") == {"6.1": 1001, "6.4": 1004, "6.7": 1007}
    assert report.unjoined == set()
    assert host.rows("SELECT job_id, array_task_id, peak_memory_kib FROM v1_sampled_jobs ORDER BY 2") == [
        (6, 1, 1001),
        (6, 4, 1004),
        (6, 7, 1007),
    ]
    assert host.take(telemetry).enriched == 0


@pytest.mark.parametrize("first", ["records", "telemetry"])
def test_an_array_that_was_sampled_as_a_whole_is_reported(host, first):
    """Samples that do not say which task are of none of them: that is counted and not divided."""
    telemetry = stream(of_task(0, 1000))
    if first == "records":
        import_grid_engine(host)
        # As of every import before: what is new since then is not looked at again.
        assert host.take(b"").unjoined == set()
        report = host.take(telemetry)
    else:
        host.take(telemetry)
        import_grid_engine(host)
        report = host.take(b"")
    assert memory_of(host, "6.1", "6.4", "6.7") == {}
    assert [why for why, _record_id in report.unjoined] == ["array"] * 3


def arc_job(host, local_id, job_id="ARC1", arrayid=None):
    """A finished job of A-REX's at the time of that array."""
    record_id = host.arc_job(local_id, job_id, submit=START, end=START + 600)
    if arrayid is not None:
        set_children(host.con, record_id, "JobExtraInfo", [("arrayid", arrayid)])
    return record_id


@pytest.mark.parametrize(
    ("local_id", "task"),
    [("6", 0), ("6.0", 0), ("6.ce.example.org", 0), ("6.4", 4), ("6[4]", 4), ("6[4].pbs.example.org", 4)],
)
@pytest.mark.parametrize("first", ["record", "telemetry"])
def test_ids_of_every_form_are_joined(host, local_id, task, first):
    """A record has its batch system's form of the id, telemetry has numbers."""
    if first == "record":
        arc_job(host, local_id)
        host.take(stream(of_task(task, 500)))
    else:
        host.take(stream(of_task(task, 500)))
        arc_job(host, local_id)
        host.take(b"")
    assert memory_of(host, local_id) == {local_id: 500}


@pytest.mark.parametrize("first", ["record", "telemetry"])
def test_elements_of_slurm_are_joined_by_the_number_behind_the_name(host, first):
    """Who calls an element 5_3 means the job to which Slurm gave a number of its own."""
    when = "2026-11-20T10:00:00+00:00"
    run = {"job_id": 13, "job_name": "a", "job_state": "COMPLETED", "array_job_id": 5, "array_task_id": 3}
    run |= {"start_time": "2026-11-20T09:49:28+00:00", "end_time": "2026-11-20T09:52:00+00:00"}
    told = {"type": "job", "attributes": {"time": when, "cluster": "c", "slurm_jobs": [run]}}
    telemetry = stream({"meta": {"producer": "sonar", "version": "0.19.0"}, "data": told}, of_task(0, 700, number=13))
    # As where A-REX has the jobs: none is to be made of what Slurm tells.
    site = Site(make_records=False)
    if first == "record":
        arc_job(host, "5_3")
        assert host.take(telemetry, site=site).unrecorded == 0
    else:
        host.take(telemetry, site=site)
        arc_job(host, "5_3")
        host.take(b"", site=site)
    assert memory_of(host, "5_3") == {"5_3": 700}


def test_what_cannot_be_joined_is_counted(host):
    """An id of no known form, a number that two clusters have telemetry of, an element that Slurm tells nothing of."""
    host.take(stream(of_task(0, 500), of_task(0, 600, cluster="d")))
    forms, clusters = arc_job(host, "batch-6", "ODD"), arc_job(host, "6", "TWO")
    elements = arc_job(host, "5_3", "ELEMENT")
    # A job that never reached the batch system is no question.
    arc_job(host, "", "NONE")
    assert host.take(b"").unjoined == {("form", forms), ("clusters", clusters), ("element", elements)}
    assert host.take(b"").unjoined == set()


def test_the_order_of_tasks_does_not_matter(host, tmp_path):
    """Envelopes of several tasks, in any order, cut anywhere: the same rows."""
    envelopes = [of_task(task, 1000 + task) for task in (7, 1, 4)]
    other = Host(tmp_path / "other", make=True)
    for one in envelopes:
        host.take(stream(one))
    other.take(stream(*reversed(envelopes)))
    assert host.everything()["v1_sampled_jobs"] == other.everything()["v1_sampled_jobs"]


@pytest.mark.parametrize(
    ("local_id", "arrayid", "told", "is_taken"),
    [
        ("6.4", None, "6.4", True),
        ("6.4", None, "6.5", False),
        ("6.4", None, "6", True),
        ("13", "5_3", "5_3", True),
        ("13", "5_3", "13", True),
        ("13", "5_3", "5_4", False),
        ("6", None, "6.pbs", True),
    ],
)
def test_features_of_another_task_are_not_taken(host, local_id, arrayid, told, is_taken):
    """job_id of features is compared with the task, not with the array alone."""
    arc_job(host, local_id, arrayid=arrayid)
    taken = take_features(host.con, "ARC1", {"job_id": told, "hs06_job": "20", "allocated_cpu": "2"}, {})
    assert (taken.changed, taken.complaint is None) == (is_taken, is_taken)
