"""What an SGAS server counts by day and machine, and which rows it answers with, over repeats and corrections."""

from __future__ import annotations

import json
import time

import pytest
from sandbox_clients import usage_record, usage_records

from arcacct.sandbox.http_server import HTTPRequest, Peer
from arcacct.sandbox.sgas import PATH

DAY_S = 86_400
MONDAY_S = 1_767_571_200
"""2026-01-05 00:00:00 UTC."""
MACHINE = "ce.example.org"
CHILDREN = {
    "environment": "<arc:RuntimeEnvironment>A</arc:RuntimeEnvironment>",
    "transfer": "<tr:FileTransfers><tr:FileUpload><tr:URL>gsiftp://a/b</tr:URL></tr:FileUpload></tr:FileTransfers>",
}


@pytest.fixture
def post(sgas):
    """Post records on the morning of a day (0: Monday, 5 January 2026); the status, and row id by record id."""
    now = int(time.time())
    peer = Peer("/CN=ce.example.org", "CN=ce.example.org", "ce.example.org", now - 60, now + DAY_S)
    sgas.rights[peer.subject] = "jobinsert:all"

    def posted(*records: str, day: int = 0) -> tuple[int, dict[str, int]]:
        sgas.clock = lambda: MONDAY_S + day * DAY_S + 6 * 3600
        answer = sgas.answer(HTTPRequest("POST", PATH, {}, {}, usage_records(*records).encode(), peer))
        ids = json.loads(answer.body) if answer.status == 200 else {}
        return answer.status, {record_id.rpartition("-")[2]: int(row_id) for record_id, row_id in ids.items()}

    return posted


def shown(sgas) -> dict[tuple[str, str], tuple[int, int, int]]:
    """(jobs, CPU, wall) by (day, machine), after the periodic task."""
    sgas.update_aggregates()
    return sgas.aggregates


def other_job(record: str) -> str:
    """The record under the id of another job."""
    return record.replace("<GlobalJobId>job", "<GlobalJobId>another-job")


def test_jobs_are_counted_by_day_of_insertion_and_machine(sgas, post):
    """Not by the day on which they ended; a job's wall time counts for each of its processors."""
    body = "<CpuDuration>PT50S</CpuDuration><Processors>4</Processors>"
    post(usage_record("job1", body=body), usage_record("job2"), usage_record("job3", machine="b.example.org"))
    post(usage_record("job4"), day=1)
    assert shown(sgas) == {
        ("2026-01-05", MACHINE): (2, 50, 4 * 60 + 60),
        ("2026-01-05", "b.example.org"): (1, 0, 60),
        ("2026-01-06", MACHINE): (1, 0, 60),
    }


@pytest.mark.parametrize(
    ("body", "wall_s"),
    [("<Processors>0</Processors>", 0), ("<NodeCount>3</NodeCount>", 180), ("<WallDuration>60</WallDuration>", 0)],
    ids=["no processors", "nodes alone", "unreadable"],
)
def test_wall_times_that_do_not_count_once(sgas, post, body, wall_s):
    """No processors make no wall time, a lone node count is taken for processors, NULL counts as nothing."""
    post(usage_record(body=body))
    assert shown(sgas) == {("2026-01-05", MACHINE): (1, 0, wall_s)}


def test_nothing_is_counted_before_the_periodic_task(sgas, post):
    """A record that came is in the queue, and in the aggregates only when the queue was worked off."""
    post(usage_record())
    assert (sgas.aggregates, sgas.outdated_aggregates) == ({}, {("2026-01-05", MACHINE)})
    sgas.update_aggregates()
    assert (list(sgas.aggregates), sgas.outdated_aggregates) == ([("2026-01-05", MACHINE)], set())


def test_a_repeat_answers_with_the_old_row(sgas, post):
    """On another day and with other values: the old row, nothing queued, nothing counted twice."""
    assert post(usage_record("job1"), usage_record("job2")) == (200, {"job1": 1, "job2": 2})
    before = shown(sgas)
    again = usage_record("job1", body="<WallDuration>PT9S</WallDuration>")
    assert post(again, usage_record("job3"), day=1) == (200, {"job1": 1, "job3": 3})
    assert sgas.outdated_aggregates == {("2026-01-06", MACHINE)}
    assert shown(sgas) == {**before, ("2026-01-06", MACHINE): (1, 0, 60)}


def test_a_record_of_another_job_replaces_the_row(sgas, post):
    """A new row id, and the aggregates of both days are right."""
    post(usage_record("job1"), usage_record("job2"))
    before = shown(sgas)
    replaced = other_job(usage_record("job1", body="<WallDuration>PT9S</WallDuration>"))
    assert post(replaced, day=3) == (200, {"job1": 3})
    assert sgas.row_ids == {f"ur-{MACHINE}-job1": 3, f"ur-{MACHINE}-job2": 2}
    assert before == {("2026-01-05", MACHINE): (2, 0, 120)}
    assert shown(sgas) == {("2026-01-05", MACHINE): (1, 0, 60), ("2026-01-08", MACHINE): (1, 0, 9)}


def test_a_replaced_record_may_move_to_another_machine(sgas, post):
    """The machine that lost its only job is shown no more."""
    post(usage_record("job1"))
    shown(sgas)
    moved = other_job(usage_record("job1")).replace(f"<MachineName>{MACHINE}", "<MachineName>b.example.org")
    post(moved)
    assert shown(sgas) == {("2026-01-05", "b.example.org"): (1, 0, 60)}


@pytest.mark.parametrize("child", CHILDREN.values(), ids=CHILDREN)
def test_a_row_with_children_is_not_replaced(sgas, post, child):
    """500 for the whole document; rows and aggregates stay, and the numbers that were used up are used up."""
    post(usage_record("job1", body=child))
    before = shown(sgas)
    assert post(usage_record("job2"), other_job(usage_record("job1")), day=1)[0] == 500
    assert sgas.outdated_aggregates == set()
    assert (shown(sgas), list(sgas.row_ids.values())) == (before, [1])
    assert post(usage_record("job2"), day=1) == (200, {"job2": 3})


@pytest.mark.parametrize("child", ["", *CHILDREN.values()], ids=["plain", *CHILDREN])
def test_the_administrator_deletes_records(sgas, post, child):
    """Days later, with or without children: the rows go, and the aggregates repair themselves at the next update."""
    post(usage_record("job1", body=child), usage_record("job2"))
    post(usage_record("job3"), day=3)
    before = shown(sgas)
    assert sgas.delete_records([f"ur-{MACHINE}-job1", "ur-of-nobody"]) == 1
    assert (sgas.aggregates, sgas.outdated_aggregates) == (before, {("2026-01-05", MACHINE)})
    assert shown(sgas) == {("2026-01-05", MACHINE): (1, 0, 60), ("2026-01-08", MACHINE): (1, 0, 60)}


def test_a_deleted_record_can_be_sent_again(sgas, post):
    """A correction by way of the administrator: the new values count, in a row that never was, on their own day."""
    post(usage_record("job1", body=CHILDREN["environment"]))
    sgas.delete_records([f"ur-{MACHINE}-job1"])
    assert post(usage_record("job1", body="<WallDuration>PT9S</WallDuration>"), day=3) == (200, {"job1": 2})
    assert sgas.ignored_repeats == 0
    assert shown(sgas) == {("2026-01-08", MACHINE): (1, 0, 9)}


def test_a_day_without_jobs_is_not_shown(sgas, post):
    """When its last record is deleted, the row of day and machine goes too."""
    post(usage_record("job1"))
    shown(sgas)
    sgas.delete_records([f"ur-{MACHINE}-job1"])
    assert shown(sgas) == {}
