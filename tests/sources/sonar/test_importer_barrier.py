"""Whatever a record of telemetry does, it alone is left out, kept, and can be tried again."""

from __future__ import annotations

import json
import pathlib

import pytest
from sonar_site import Host, sample, stream, sysinfo_of

from arcacct.errors import StoreError
from arcacct.records.rejected import (
    LONGEST_BYTES,
    MOST,
    MOST_BYTES,
    MOST_OF_A_FILE,
    Fault,
    RejectedRecord,
    RejectedRecords,
    drop,
    dropped,
    listed,
)


@pytest.fixture
def host(tmp_path):
    """A host without any job."""
    return Host(tmp_path)


def job(job_id, **more):
    """A Slurm job that ran half an hour."""
    return {
        "job_id": job_id,
        "job_state": "COMPLETED",
        "user_name": "ada",
        "submit_time": "2026-11-20T09:59:00Z",
        "start_time": "2026-11-20T10:00:00Z",
        "end_time": "2026-11-20T10:30:00Z",
        "allocated_resources": "cpu=2,node=1",
    } | more


def slurm(*jobs):
    """Jobs in their envelope."""
    attributes = {"time": "2026-11-20T11:00:00Z", "cluster": "c", "slurm_jobs": list(jobs)}
    return {"meta": {"producer": "sonar", "version": "0.17.0"}, "data": {"type": "job", "attributes": attributes}}


def recorded(host):
    """The numbers of the jobs that are records."""
    return [number for (number,) in host.rows("SELECT local_job_id FROM v1_jobs ORDER BY local_job_id")]


def kept(host):
    """What is in the quarantine: place and reason."""
    return [(one.position, one.reason) for one in listed(host.con, "sonar")]


HUGE = {
    "job_state": " ",
    "allocated_resources": f"cpu={'9' * 5000}",
    "sacct": {"UserCPU": 2**63 - 1, "SystemCPU": 2**63 - 1, "AllocTRES": f"gres/gpu={'9' * 5000},energy={'9' * 30}"},
}


def test_values_that_nothing_can_hold_cost_themselves(host):
    """A blank state, an amount of 5,000 digits, two of 2^63-1: the job is there without them, and all others are."""
    report = host.take(stream(slurm(job(1)), slurm(job(2, **HUGE), job(3)), slurm(job(4))))

    assert (report.rejected, recorded(host)) == (0, ["1", "3", "4"])
    assert host.rows("SELECT state, user_name FROM v1_slurm_jobs WHERE job_id = 2") == [(None, "ada")]
    assert report.dropped == {"job_state": 1, "UserCPU": 1, "SystemCPU": 1}
    host.take(stream(slurm(job(2, **HUGE))))
    assert dropped(host.con) == {"job_state": 2, "UserCPU": 2, "SystemCPU": 2}


@pytest.mark.parametrize(
    "tres", [f"cpu={'9' * 5000}", "cpu=none,gres/gpu=9007199254740992", "gres/gpu:a=9007199254740992", "rubbish", "="]
)
def test_an_unusable_resource_costs_itself(host, tres):
    """Of what sacct allocated: the processors are those that scontrol allocated, and the job is recorded."""
    report = host.take(stream(slurm(job(1, sacct={"AllocTRES": tres, "UserCPU": 60}))))

    assert (report.rejected, kept(host)) == (0, [])
    assert host.rows("SELECT core_count, wall_s, cpu_user_s FROM v1_jobs") == [(2, 1800, 60)]


def test_processors_and_steps_beyond_all_measure(host):
    """However many, a job's CPU time is a number that the database holds."""
    most = 2**53
    steps = [job(1, job_step=str(n), sacct={"AveCPU": most}) for n in range(1100)]
    report = host.take(stream(slurm(job(1, allocated_resources=f"cpu={most}"), *steps)))

    assert (report.rejected, recorded(host)) == (0, ["1"])


@pytest.mark.parametrize(
    "text",
    [r'"\u001b]0;x"', "5", "NaN", "1" * 5000, "[" * 9000 + "]" * 9000, '"' + "x" * 70_000 + '"', r'"\ud800"'],
    ids=["escape", "number", "NaN", "digits", "deep", "long", "half a character"],
)
def test_an_unusable_name_costs_the_name(host, text):
    """Whatever stands where a text should, the job is taken without it, as are its neighbours."""
    bad = json.dumps(slurm(job(2, job_name="NAME"), job(3))).replace('"NAME"', text)
    report = host.take(stream(slurm(job(1))) + bad.encode() + b"\n" + stream(slurm(job(4))))

    assert (host.said, dict(report.dropped), recorded(host)) == ([], {"job_name": 1}, ["1", "2", "3", "4"])


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("start_time", 1795168800, "start_time is not a time: the job cannot be recorded without it"),
        ("end_time", "yesterday", "end_time is not a time: the job cannot be recorded without it"),
        ("end_time", "2026-11-20T09:30:00Z", "end_time is before start_time: the job cannot be recorded"),
    ],
)
def test_a_job_that_ended_without_a_span_is_kept(host, name, value, reason):
    """It is no record, so it is said and kept; a good report makes it one, and the bad one takes nothing back."""
    bad, step = job(2, **{name: value}), job(1, job_step="batch", **{name: value})
    waits = job(3, job_state="PENDING", **{name: value})
    report = host.take(stream(slurm(job(1), bad, step, waits)))

    assert (report.rejected, recorded(host), kept(host)) == (1, ["1"], [("object 1, job 2", reason)])
    assert host.rows("SELECT user_name FROM v1_slurm_jobs WHERE job_id = 2") == [("ada",)]
    later = slurm(job(2))
    later["data"]["attributes"]["time"] = "2026-11-20T11:01:00Z"
    host.take(stream(later))
    done = host.retry()
    assert (done.tried, done.good, host.rows("SELECT wall_s FROM v1_jobs")) == (1, 0, [(1800,), (1800,)])


@pytest.mark.parametrize("value", [-1, 2**53 + 1, 2**64, 1.5, "1", True, [1], float("nan")])
def test_an_unusable_number_costs_the_number(host, value):
    """Of a process, a job's memory; its CPU time counts."""
    process = {"cmd": "x", "pid": 4, "cpu_time": 30, "resident_memory": value}
    report = host.take(stream(sample(0, [process])))

    assert (report.rejected, dict(report.dropped)) == (0, {"resident_memory": 1})
    assert host.rows("SELECT cpu_s, peak_memory_kib FROM v1_sampled_jobs") == [(30, 0)]


def test_cards_that_cannot_be_distinguished_are_left_out_alone(host):
    """Jobs without number, processes without pid, cards, disks and entries that are none."""
    envelope = sample(0, [{"pid": "x", "cpu_time": 9}, 17, {"pid": 4, "cpu_time": 5, "gpus": [7, {"uuid": "g"}]}])
    envelope["data"]["attributes"]["jobs"] += [{"job": -3, "processes": []}, "job"]
    envelope["data"]["attributes"]["system"] = {"disks": [{"name": "a", "stats": [1]}], "gpus": "none", "load1": "high"}
    report = host.take(
        stream(envelope, slurm({"job_state": "COMPLETED"}, None, job(5)), sysinfo_of(cards=[{"index": -1}]))
    )

    assert host.rows("SELECT cpu_s FROM v1_sampled_jobs") == [(5,)]
    assert host.rows("SELECT count(*) FROM v1_nodes") == [(1,)]
    assert recorded(host) == ["5"]
    assert report.dropped == {"processes": 2, "gpus": 2, "disks": 1, "load1": 1, "cards": 1}
    assert kept(host) == [
        ("object 1, job 2", "job is out of range"),
        ("object 1, job 3", "not an object"),
        ("object 2, job 1", "job_id is missing"),
        ("object 2, job 2", "not an object"),
    ]


def test_what_is_rejected_is_kept_once(host):
    """The same file again, and the same rubbish elsewhere, adds no row; two records of the same place are two."""
    content = b"rubbish\n" + stream(slurm(job(1))) + b"{]\n"
    reports = [host.take(content) for _ in range(3)]
    # What has not changed is no news, and raises no exit code again.
    assert [(report.rejected, report.news) for report in reports] == [(2, 2), (2, 0), (2, 0)]
    assert len(host.said) == 2
    assert [place for place, _reason in kept(host)] == ["object 1", "object 3"]
    host.take(b"other rubbish\n")
    assert [place for place, _reason in kept(host)] == ["object 1", "object 3", "object 1"]


def test_a_file_of_rubbish_does_not_fill_the_disk(host):
    """Of one file so many records are kept, the rest is counted."""
    host.take(b"".join(b"{ %d ]\n" % number for number in range(MOST_OF_A_FILE + 25)))

    *rows, rest = listed(host.con, "sonar")
    assert (len(rows), rest.bytes, rest.records) == (MOST_OF_A_FILE, -1, 25)


@pytest.mark.parametrize(("size", "most"), [(20, MOST), (LONGEST_BYTES, MOST_BYTES // LONGEST_BYTES)])
def test_many_files_of_rubbish_do_not_fill_the_disk(host, size, most):
    """Of all files together so many records and bytes are kept, the rest is counted."""
    rejects = [
        RejectedRecord(f"f{n % 20}", f"{n}", Fault("bad"), f"{n} ".ljust(size).encode()) for n in range(most + 40)
    ]
    RejectedRecords(host.con, "sonar").keep(rejects)

    found = listed(host.con)
    assert sum(one.is_whole for one in found) == most
    assert sum(one.records for one in found) == most + 40


def test_what_is_only_counted_is_counted_once(host):
    """The same file again and again has no more of it; corrected, it has none that is only counted."""
    content = b"".join(b"{ %d ]\n" % number for number in range(MOST_OF_A_FILE + 25)) + b"{" + b"x" * LONGEST_BYTES
    for _ in range(3):
        host.take(content)
        assert sum(one.records for one in listed(host.con, "sonar")) == MOST_OF_A_FILE + 26
    host.take(stream(slurm(job(1))))
    assert {one.is_whole for one in listed(host.con, "sonar")} == {True}


def test_what_is_good_now_is_rejected_no_longer(host):
    """Records that an older program could not use are taken in by a retry, the others stay."""
    faults = [
        RejectedRecord("f", f"object {n}", Fault("not understood"), text)
        for n, text in enumerate((stream(slurm(job(8))), b"{]"), 1)
    ]
    RejectedRecords(host.con, "sonar").keep(faults)
    done = host.retry()

    assert (done.tried, done.good, recorded(host)) == (2, 1, ["8"])
    assert [complaint.partition(": not JSON")[0] for complaint in host.said] == ["f: object 2"]
    assert [place for place, _reason in kept(host)] == ["object 2"]


REFUSED = {
    "report": "BEFORE INSERT ON SlurmJobs WHEN new.JobID = 2",
    "record": "BEFORE INSERT ON AAR WHEN new.JobID LIKE '%c:2:%'",
    "sample": "BEFORE INSERT ON JobUsage WHEN new.PeakMemory = 77",
    "node": "BEFORE INSERT ON Nodes WHEN new.CPUModel = 'x'",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_database_refuses_is_left_out_alone(host, what):
    """A value that cannot be stored costs its own record; with it gone a retry stores all."""
    samples = [
        sample(60 * n, [{"cmd": "x", "pid": 4, "resident_memory": 77 if n == 2 else n}], job=2) for n in range(4)
    ]
    content = stream(slurm(job(1), job(2), job(3)), *samples, sysinfo_of(cpu_model="x"), slurm(job(4)))
    host.con.execute(f"CREATE TRIGGER refuse {REFUSED[what]} BEGIN SELECT RAISE(ABORT, 'no'); END")
    report = host.take(content)

    assert report.rejected == 1
    assert [reason for _place, reason in kept(host)] == ["the database does not allow its values"]
    assert {"1", "3", "4"} <= set(recorded(host))
    host.con.execute("DROP TRIGGER refuse")
    done = host.retry()
    assert done.tried == done.good >= 1
    assert kept(host) == []
    found, expected = host.everything(), _clean(host, content)
    if what == "node":
        # What a node is does not reach the records of Slurm that were made before.
        found, expected = ({"v1_nodes": one["v1_nodes"]} for one in (found, expected))
    assert found == expected


def test_names_that_were_taken_back_are_given_again(host):
    """Of two new clusters one has a job that cannot be stored: the other's job is still its own."""
    other, third = slurm(job(2)), slurm(job(4))
    for envelope in (other, third):
        envelope["data"]["attributes"]["cluster"] = "other"
    host.con.execute(f"CREATE TRIGGER refuse {REFUSED['report']} BEGIN SELECT RAISE(ABORT, 'no'); END")
    host.take(stream(slurm(job(1)), other, third))

    assert host.rows("SELECT cluster, job_id FROM v1_slurm_jobs ORDER BY job_id") == [("c", 1), ("other", 4)]


def test_what_was_dropped_meanwhile_is_not_tried_again(host):
    """Somebody drops rejected records while a retry is at work: it continues with the others."""
    host.take(b"one\n{]\n{2]\n")
    quarantine = RejectedRecords(host.con, "sonar")
    waiting = quarantine.waiting()
    next(waiting)
    drop(host.con, [listed(host.con)[1].rejected_id])

    assert [content.strip() for _kept, content in waiting] == [b"{2]"]


def _clean(host, content):
    """What a host has that never had trouble."""
    other = Host(pathlib.Path(host.here.database).parent.parent / "other", make=True)
    other.take(content)
    return other.everything()


def test_a_full_disk_is_no_fault_of_the_record(host):
    """The import ends with an error of the database, nothing is rejected, and the next one takes everything."""
    content = stream(*(slurm(job(n, job_name="x" * 5000)) for n in range(1, 200)))
    pages = host.con.execute("PRAGMA page_count").fetchone()[0]
    host.con.execute(f"PRAGMA max_page_count = {pages + 50}")
    with pytest.raises(StoreError, match="full"):
        host.take(content)
    host.con.execute("PRAGMA max_page_count = 1000000")

    assert kept(host) == []
    assert (host.take(content).rejected, len(recorded(host))) == (0, 199)
