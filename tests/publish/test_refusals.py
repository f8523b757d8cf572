"""
Records that a receiver refuses, alone or many in a row, and machines that it does not take from us: each is set aside
by itself, and the others go on.
"""

from __future__ import annotations

from typing import Any

import pytest
from publishing_rig import BATCH, repair, some
from publishing_site import JUNE

from arcacct.errors import InputError, TargetRefuses
from arcacct.publish.senders import DirectorySender
from arcacct.sandbox.sgas import PROCESSING_FAILED
from arcacct.store import story
from arcacct.store.accounting import open_publishing

only = pytest.mark.parametrize


BAD = "4job00005"


ONE_REFUSED = {
    "500-text": lambda rig: rig.box.faults.answer("sgas", 500, "smallint out of range", containing=BAD, times=None),
    "500-html": lambda rig: rig.box.faults.answer("sgas", 500, PROCESSING_FAILED, containing=BAD, times=None),
    "413": lambda rig: rig.box.faults.answer(rig.endpoint, 413, "too large", containing=BAD, times=None),
    "400": lambda rig: rig.box.faults.answer(
        "ams", 400, '{"error":{"message":"Invalid Message Arguments"}}', containing=BAD, times=None
    ),
}


@only(
    ("rig", "fault"),
    [("sgas", "500-text"), ("sgas", "500-html"), ("sgas", "413"), ("jobs", "413"), ("jobs", "400"), ("cars", "400")],
    indirect=["rig"],
)
@only("count", [6, 7, 3 * BATCH], ids=["the-last", "the-last-but-one", "in-the-middle"])
def test_one_record_is_refused(rig, fault, count) -> None:
    """A record that the receiver refuses is set aside alone with its words; an operator's retry delivers it."""
    rig.record(count)
    ONE_REFUSED[fault](rig)

    outcome = rig.publish()

    assert outcome.error is None
    assert outcome.tally.quarantined == 1
    rest = [job for job in rig.jobs if job.lrms_id != BAD]
    assert rig.received() == rig.wanted(rest)
    ((job_id, (state, why)),) = rig.site.held().items()
    assert (job_id, state) == ("job00005", "quarantined")
    assert any(words in why for words in ("smallint", "Processing Failed", "too large", "Invalid Message"))
    ((last,),) = rig.site.ledger(
        "SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", rig.site.settings.targets[0].block
    )
    assert last == JUNE + 4

    rig.record(BATCH)
    assert rig.publish().tally.quarantined == 0
    repair(rig)
    con = open_publishing(rig.site.settings.places)
    story.change_state(con, None, ["job00005"], "retry")
    con.close()
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas"], indirect=True)
def test_a_server_that_breaks_sets_nothing_aside(rig) -> None:
    """Records refused after others were taken are not at fault: the server takes nothing at all any more."""
    rig.record(4 * BATCH)
    rig.box.faults.slow("sgas", 0.0)
    rig.box.faults.answer("sgas", 500, "could not extend file", times=None)

    assert isinstance(rig.publish().error, TargetRefuses)
    assert rig.received() == rig.wanted(rig.jobs[:BATCH])
    assert rig.site.held() == {}

    repair(rig)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas"], indirect=True)
def test_many_bad_records_in_a_row_stop_nobody(rig) -> None:
    """A whole batch of poison is set aside record by record: SGAS still takes what it took before."""
    rig.record(BATCH)
    rig.publish()
    rig.record(4 * BATCH)
    for number in range(6, 15):
        rig.box.faults.answer("sgas", 500, "refused", containing=f"4job{number:05d}", times=None)

    outcome = rig.publish()

    assert outcome.error is None
    assert set(rig.site.held()) == {f"job{number:05d}" for number in range(6, 15)}
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.job_id not in rig.site.held()])


@only("rig", ["sgas"], indirect=True)
def test_the_only_new_record_is_refused(rig) -> None:
    """On a quiet site, too, it is found out in the same run whether the record or the server is at fault."""
    rig.record(1)
    rig.publish()
    rig.record(1)
    rig.box.faults.answer("sgas", 500, "smallint out of range", containing="4job00001", times=None)

    assert rig.publish().error is None
    assert [state for state, _why in rig.site.held().values()] == ["quarantined"]


@only("rig", ["sgas"], indirect=True)
def test_machines_that_are_not_ours(rig) -> None:
    """A 406 is about one machine: its records wait, those of the others go on, and all arrive once it is allowed."""
    rig.box.sgas.rights[rig.box.client.subject] = "jobinsert:machine_name=ce.example.org"
    ours = some(3 * BATCH)
    theirs = [job._replace(endpoint_url="https://ce2.other.net/arex") for job in some(3 * BATCH, 3 * BATCH)]
    mixed = [job for pair in zip(ours, theirs, strict=True) for job in pair]
    rig.jobs = mixed
    rig.site.record(*mixed)

    for _ in range(2):
        outcome = rig.publish()
        assert isinstance(outcome.error, TargetRefuses)
        assert "ce2.other.net" in str(outcome.error)
        assert rig.received() == rig.wanted(ours)
        assert {job: state for job, (state, _why) in rig.site.held().items()} == {job.job_id: "held" for job in theirs}
    asked = rig.box.servers["sgas"].requests
    rig.publish()
    assert rig.box.servers["sgas"].requests == asked + 1

    rig.box.sgas.rights[rig.box.client.subject] = "jobinsert:all"
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert rig.box.sgas.ignored_repeats == 0


class Squeamish:
    """A way to a directory that cannot pack one record, as if a rule had been forgotten."""

    def __init__(self, target: Any) -> None:
        self._sender = DirectorySender(target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def pack(self, text: str) -> bytes:
        if BAD in text:
            raise InputError("line 7 cannot be carried")
        return self._sender.pack(text)


@only("rig", ["dirq"], indirect=True)
def test_a_record_that_cannot_be_packed(rig) -> None:
    """What no rule foresaw and no message can carry is set aside alone, with the reason."""
    rig.record(3 * BATCH)

    outcome = rig.publish(
        make_sender=lambda target: (DirectorySender if target.name == "directory:other" else Squeamish)(target)
    )

    assert outcome.error is None
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.lrms_id != BAD])
    assert rig.site.held() == {"job00005": ("quarantined", "line 7 cannot be carried")}


@only("rig", ["dirq"], indirect=True)
def test_a_fault_of_ours_stops_one_target_only(rig) -> None:
    """An error that nobody foresaw becomes the outcome of its target; the others go on, and the next run is whole."""
    rig.record(BATCH)

    def make_sender(target: Any) -> Any:
        return DirectorySender(target) if target.name == "directory:other" else 1 // 0

    outcome = rig.publish(make_sender=make_sender)
    assert "internal error: ZeroDivisionError" in str(outcome.error)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
