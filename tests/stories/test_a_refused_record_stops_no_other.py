"""
Records that a receiver refuses, alone or many in a row, and machines that it does not take from us: each is set aside
by itself, and the others go on.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from campaigns import cross
from publishing_rig import BATCH, SLOW_S, repair, some
from publishing_site import AUDITOR, CARS, DAY_S, JUNE, QUICK, SGAS, SUMMARIES, Job, Site, at_auditor, at_sgas, truth

from arcacct.cli.targets import exit_code
from arcacct.database.access import open_publishing
from arcacct.errors import InputError, TargetBusy, TargetRefuses
from arcacct.publishing import held
from arcacct.publishing.delivery import MOST_UNHALVED, WEEK_S
from arcacct.publishing.ledger import SMALLER_MESSAGES
from arcacct.sandbox.sgas import PROCESSING_FAILED
from arcacct.targets.directory.target import DirectorySender

only = pytest.mark.parametrize


BAD = "4job00005"


def last_end_time(rig) -> int:
    """Jura's mark: everything that ended until then is delivered."""
    block = rig.site.settings.targets[0].block
    ((last,),) = rig.site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", block)
    return last


ONE_REFUSED = {
    "500-text": lambda rig: rig.box.faults.answer("sgas", 500, "smallint out of range", containing=BAD, times=None),
    "500-html": lambda rig: rig.box.faults.answer("sgas", 500, PROCESSING_FAILED, containing=BAD, times=None),
    "413": lambda rig: rig.box.faults.answer(rig.endpoint, 413, "too large", containing=BAD, times=None),
    "400": lambda rig: rig.box.faults.answer(
        "ams", 400, '{"error":{"message":"Invalid Message Arguments"}}', containing=BAD, times=None
    ),
}


@only(
    ("rig", "fault", "count"),
    [
        (*one, count)
        for one, count in cross(
            4, [("sgas", "500-text"), ("sgas", "500-html"), ("jobs", "400"), ("cars", "400")], [6, 7, 3 * BATCH]
        )
    ],
    indirect=["rig"],
)
def test_one_record_is_refused(rig, fault, count) -> None:
    """A record that is refused is held, and set aside when a later run hears the same; a retry delivers it."""
    rig.record(count)
    ONE_REFUSED[fault](rig)

    outcome = rig.publish()

    assert (outcome.error, outcome.summary.quarantined, outcome.summary.refused_once) == (None, 0, 1)
    assert exit_code([outcome]) == TargetBusy.exit_code
    rest = [job for job in rig.jobs if job.lrms_id != BAD]
    assert rig.received() == rig.wanted(rest)
    ((job_id, (state, why)),) = rig.site.held().items()
    assert (job_id, state) == ("job00005", "held")
    assert any(words in why for words in ("smallint", "Processing Failed", "Invalid Message"))
    assert last_end_time(rig) == JUNE + 4

    rig.record(BATCH)
    outcome = rig.publish()
    assert (outcome.summary.quarantined, outcome.summary.refused_once) == (1, 0)
    assert exit_code([outcome]) == InputError.exit_code
    rest = [job for job in rig.jobs if job.lrms_id != BAD]
    assert rig.received() == rig.wanted(rest)
    assert [state for state, _why in rig.site.held().values()] == ["quarantined"]
    assert last_end_time(rig) == JUNE + 4
    # It was sent alone, and cost no new record anything.
    assert rig.site.ledger(
        "SELECT DISTINCT RecordCount FROM Messages JOIN SentRecords USING (MessageID) WHERE JobID = 'job00005'"
        " AND MessageID > (SELECT max(MessageID) FROM Messages WHERE State = 'split') AND Target NOT LIKE '%other'"
        " AND State = 'refused'"
    ) == [(1,)]

    for _ in range(2):
        outcome = rig.publish()
        assert exit_code([outcome]) == 0
    repair(rig)
    con = open_publishing(rig.site.settings.places)
    held.change_state(con, None, ["job00005"], "retry")
    con.close()
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


LATE = {
    "sgas-504": (SGAS, "sgas", lambda box: box.faults.answer("sgas", 504, "<html>", after_work=True, times=None)),
    "sgas-slow": (SGAS, "sgas", lambda box: box.faults.slow("sgas", SLOW_S, times=None)),
    "auditor-slow": (AUDITOR, "auditor", lambda box: box.faults.slow("auditor", SLOW_S, times=None)),
}
"""Receivers that need more time than they have: their target, and how they come late."""


def sizes(site: Site, condition: str) -> list[int]:
    """How many records each message has."""
    return [n for (n,) in site.ledger(f"SELECT RecordCount FROM Messages WHERE {condition} ORDER BY MessageID")]


@only("kind", LATE)
def test_a_message_that_is_not_answered_in_time_is_halved_for_the_next_run(tmp_path, empty_box, kind) -> None:
    """Down to what receivers could always take; and the messages after it are as small, until it is forgotten."""
    target, endpoint, come_late = LATE[kind]
    site = Site(tmp_path, empty_box, target)
    site.record(*some(MOST_UNHALVED * 2 + 2))
    come_late(empty_box)
    site.timeouts = QUICK._replace(read_s=0.1, backoff_s=())

    for left in ([51, 51], [51, 25, 26], [25, 26, 25, 26], [25, 26, 25, 26]):
        outcome = site.publish()
        assert (type(outcome.error), outcome.summary.quarantined) == (TargetBusy, 0)
        assert sizes(site, "State = 'sending'") == left

    empty_box.faults.clear()
    time.sleep(SLOW_S)
    site.timeouts = QUICK
    site.send(*some(60, first=200))
    assert sizes(site, "State = 'accepted'") == [25, 26, 25, 26, 25, 25, 10]
    received = at_sgas(empty_box.sgas.records) if endpoint == "sgas" else at_auditor(empty_box.auditor.records)
    assert received == truth([*some(102), *some(60, first=200)])
    assert site.audit() == []


@only(
    ("target", "spoil"),
    [
        (SGAS, lambda faults: faults.answer("sgas", 503, times=None)),
        (SGAS, lambda faults: faults.drop("sgas", after_work=True, times=None)),
        (CARS, lambda faults: faults.answer("ams", 504, times=None)),
    ],
    ids=["overload", "lost", "apel"],
)
def test_a_message_is_whole_after_another_failure(tmp_path, empty_box, target, spoil) -> None:
    """An overload, or a lost answer, says nothing about the size; and for AMS the number of records is no work."""
    site = Site(tmp_path, empty_box, target)
    site.record(*some(60))
    spoil(empty_box.faults)
    assert isinstance(site.publish().error, TargetBusy)
    assert sizes(site, "State = 'sending'") == [60]
    assert sizes(site, "State = 'split'") == []


def test_a_message_that_was_not_answered_in_time_is_forgotten(tmp_path, empty_box) -> None:
    """A receiver that was slow once is not spared for ever: after so many messages the size is the configured one."""
    site = Site(tmp_path, empty_box, SGAS)
    site.record(*some(52))
    empty_box.faults.answer("sgas", 504, "<html>", times=None)
    assert isinstance(site.publish().error, TargetBusy)
    empty_box.faults.clear()
    site.record(*some(40, first=100))
    for round_, expected in enumerate(([26, 26, 26, 14], [40]), 1):
        assert site.publish().error is None
        assert sizes(site, "State = 'accepted'")[-len(expected) :] == expected
        con = open_publishing(site.settings.places)
        con.executemany(
            "INSERT INTO Messages (Target, Kind, Origin, State, Created, RecordCount, ByteCount, Digest, Destination)"
            " VALUES (?, 'ur', 'publish', 'accepted', 0, 1, 1, '', '')",
            [(site.settings.targets[0].block,)] * SMALLER_MESSAGES,
        )
        con.close()
        site.record(*some(40, first=100 + 100 * round_))


@only(("rig", "fault"), [("sgas", "500-text"), ("jobs", "400")], indirect=["rig"])
def test_a_refusal_that_is_believed_is_not_the_last_word(rig, fault) -> None:
    """Servers are repaired: once a week the record is tried again, and no one is told the same twice."""
    rig.record(6)
    ONE_REFUSED[fault](rig)
    rig.publish()
    assert rig.publish().summary.quarantined == 1

    rig.site.wait(WEEK_S)
    outcome = rig.publish()
    assert exit_code([outcome]) == 0
    assert [state for state, _why in rig.site.held().values()] == ["quarantined"]

    repair(rig)
    rig.publish()
    assert rig.site.held() != {}
    rig.site.wait(WEEK_S)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas", "jobs", "cars"], indirect=True)
def test_a_small_record_is_never_too_large(rig) -> None:
    """A 413 for a record of 3 kB is about something else: tried again later and later, and never set aside."""
    rig.record(3 * BATCH)
    ONE_REFUSED["413"](rig)

    waits = []
    for _ in range(8):
        outcome = rig.publish()
        assert (outcome.error, outcome.summary.quarantined, outcome.summary.refused_once) == (None, 0, 1)
        ((state, next_try, tried),) = rig.site.ledger("SELECT State, NextTry, Tried FROM HeldRecords")
        assert state == "held"
        waits.append(next_try - tried)
        if waits[-1]:
            # Not before its time.
            assert exit_code([rig.publish()]) == 0
        rig.site.wait(waits[-1])
    assert waits == [0, *(3600 << doubled for doubled in range(5)), DAY_S, DAY_S]
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.lrms_id != BAD])

    repair(rig)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas"], indirect=True)
def test_a_large_record_may_be_too_large(rig) -> None:
    """A 413 for a single record of more than half a megabyte is believed when it is repeated."""
    rig.record(3 * BATCH)
    rig.site.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO DataTransfers"
        " SELECT RecordID, 'https://se/' || i || hex(zeroblob(1000)), 1, EndTime, EndTime, 10 FROM AAR, n"
        " WHERE JobID = 'job00005'"
    )
    ONE_REFUSED["413"](rig)

    assert [rig.publish().summary.quarantined for _ in range(3)] == [0, 1, 0]
    assert [(job, state) for job, (state, _why) in rig.site.held().items()] == [("job00005", "quarantined")]


@pytest.mark.campaign
@only("rig", ["sgas", "jobs", "cars"], indirect=True)
@only("seed", range(4))
def test_a_balancer_on_a_bad_day(rig, seed) -> None:
    """Half of all requests get a 500 or a 413: all of 120 sound records arrive, and none is set aside in the end."""
    luck = random.Random(seed)
    path = "/ur" if rig.kind == "sgas" else ":publish"
    for status, words in ((500, "Internal Server Error"), (413, "Request Entity Too Large")):
        rig.box.faults.answer(rig.endpoint, status, words, path=path, times=None, chance=lambda: luck.random() < 0.35)
    for number in range(30):
        if number < 12:
            rig.record(10)
        rig.publish()
        rig.site.wait(DAY_S)
        if number > 12 and len(rig.received()) == len(rig.jobs) == 120 and not rig.site.held():
            break

    repair(rig)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert len(rig.jobs) == 120


@only("rig", ["sgas", "jobs"], indirect=True)
def test_one_poisonous_record_among_many(rig) -> None:
    """It alone is set aside, by the second run that it is refused in; balancers may do what they like."""
    luck = random.Random(1)
    status, words = (500, "smallint") if rig.kind == "sgas" else (400, '{"error":{"message":"Invalid Message"}}')
    rig.box.faults.answer(rig.endpoint, status, words, containing=BAD, times=None)
    rig.box.faults.answer(rig.endpoint, 413, "too large", times=None, chance=lambda: luck.random() < 0.3)
    rig.record(120)

    rig.publish()
    assert rig.site.held()["job00005"][0] == "held"
    rig.publish()
    assert rig.site.held()["job00005"][0] == "quarantined"
    for _ in range(4):
        rig.site.wait(DAY_S)
        rig.publish()

    assert [(job, state) for job, (state, _why) in rig.site.held().items()] == [("job00005", "quarantined")]
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.lrms_id != BAD])


@only("rig", ["summaries"], indirect=True)
@only("user", range(3))
def test_a_sum_is_refused(rig, user) -> None:
    """
    The next run sends it again, also of a month that is long over; it is an error when that is refused as well.
    """
    rig.record(9)
    words = '{"error":{"message":"Invalid Message Arguments"}}'
    rig.box.faults.answer("ams", 400, words, containing=f"CN=User {user}", times=None)

    found = [rig.publish() for _ in range(3)]
    assert [exit_code([one]) for one in found] == [75, 65, 65]
    ((refusals, why),) = rig.site.ledger(
        "SELECT json_extract(value, '$[1]'), json_extract(value, '$[0]') FROM TargetMonths, json_each(Refusals)"
    )
    assert (refusals, "Invalid" in why) == (3, True)

    repair(rig)
    assert exit_code([rig.publish()]) == 0
    rig.assert_all_is_delivered()
    assert rig.site.ledger("SELECT * FROM TargetMonths WHERE IsUnfinished OR Refusals <> '{}'") == []


def test_a_month_whose_sum_is_refused_is_sent_next_to_one_that_is_taken(memory, empty_box) -> None:
    """Of two months of a year that are long over: what one gets through leaves the other to be sent again."""
    site = Site(memory, empty_box, SUMMARIES)
    july = JUNE + 31 * DAY_S
    site.record(Job("june", user_dn="/CN=One"), Job("july", july, user_dn="/CN=Two"))
    empty_box.faults.answer("ams", 400, '{"error":{"message":"Invalid"}}', containing="CN=Two", times=None)
    for _ in range(2):
        site.publish()
        assert [(row["Month"], row["NumberOfJobs"]) for row in empty_box.apel.summaries.values()] == [(6, 1)]

    empty_box.faults.clear()
    assert site.publish().error is None
    assert sorted((row["Month"], row["NumberOfJobs"]) for row in empty_box.apel.summaries.values()) == [(6, 1), (7, 1)]


@only("rig", ["jobs"], indirect=True)
def test_a_count_is_refused(rig) -> None:
    """A count that is refused once is sent with the next run, as all counts are."""
    rig.record(3)
    rig.box.faults.answer("ams", 400, '{"error":{"message":"Invalid"}}', containing="NumberOfJobs", times=2)

    outcome = rig.publish()
    assert isinstance(outcome.error, TargetBusy)

    rig.record(1)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    (count,) = [row["NumberOfJobs"] for row in rig.box.apel.sync_records.values()]
    assert count == len(rig.jobs)


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

    assert [rig.publish().error for _ in range(2)] == [None, None]

    assert {state for state, _why in rig.site.held().values()} == {"quarantined"}
    assert set(rig.site.held()) == {f"job{number:05d}" for number in range(6, 15)}
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.job_id not in rig.site.held()])


@only("rig", ["sgas"], indirect=True)
def test_the_only_new_record_is_refused(rig) -> None:
    """On a quiet site, too, it is found out in the next run whether the record or the server is at fault."""
    rig.record(1)
    rig.publish()
    rig.record(1)
    rig.box.faults.answer("sgas", 500, "smallint out of range", containing="4job00001", times=None)

    for state in ("held", "quarantined"):
        assert rig.publish().error is None
        assert [found for found, _why in rig.site.held().values()] == [state]


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

    def __init__(self, plugin: Any) -> None:
        self._sender = DirectorySender(plugin.target.path, plugin.target.layout)

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
        make_sender=lambda plugin: plugin.sender() if plugin.target.name == "directory:other" else Squeamish(plugin)
    )

    assert outcome.error is None
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.lrms_id != BAD])
    assert rig.site.held() == {"job00005": ("quarantined", "line 7 cannot be carried")}


@only("rig", ["dirq"], indirect=True)
def test_a_fault_of_ours_stops_one_target_only(rig) -> None:
    """An error that no one foresaw becomes the outcome of its target; the others go on, and the next run is whole."""
    rig.record(BATCH)

    def make_sender(plugin: Any) -> Any:
        return plugin.sender() if plugin.target.name == "directory:other" else 1 // 0

    outcome = rig.publish(make_sender=make_sender)
    assert "internal error: ZeroDivisionError" in str(outcome.error)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
