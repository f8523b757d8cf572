"""What each receiver would refuse is refused here, alone and with the reason; what can be repaired is."""

from __future__ import annotations

import hashlib
from typing import Any

import apel_rules
import car_rules
import pytest
import sgas_rules
from apel_message import message
from hostile_text import JOBS
from hypothesis import HealthCheck, given, settings
from record_texts import car, individual_job, usage_record

from arcacct.publishing.plugin import CellAcceptance
from arcacct.records.model import AAR, Transfer, UsageCell
from arcacct.targets.apel.acceptance import accept_cell, accept_for_apel_job, accept_for_car
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions
from arcacct.targets.apel.summaries import summaries
from arcacct.targets.apel.target import CAR as CAR_DOCUMENT
from arcacct.targets.sgas.acceptance import accept_for_sgas
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

DOCUMENT = UsageRecords.envelope

CREATED = 1_704_198_660
NOW = 1_704_200_000
SGAS = UROptions(host="lrms.example.org")
CAR = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
APEL = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
DAY = 86_400


def test_a_good_job_passes_untouched(job: AAR, bare_job: AAR) -> None:
    """Without a note, by every receiver's rules; a job without a benchmark is noted, because 1.0 is assumed."""
    for verdict in (
        accept_for_sgas(job, SGAS, NOW),
        accept_for_car(job, CAR, NOW),
        accept_for_apel_job(job, APEL, NOW),
        accept_for_sgas(bare_job, SGAS, NOW),
    ):
        assert (verdict.notes, verdict.refusal) == ((), None)
    assert accept_for_car(bare_job, CAR, NOW).notes == ("no benchmark: HEPSPEC:1 is used",)


EVERYBODY = "sgas car job"
APEL_ONLY = "car job"


@pytest.mark.parametrize(
    ("changes", "receivers", "reason"),
    [
        pytest.param({"job_id": ""}, EVERYBODY, "JobID", id="no-job-id"),
        pytest.param({"job_id": "a\x01b"}, EVERYBODY, "JobID", id="job-id-that-xml-cannot-carry"),
        pytest.param({"status": "in-progress"}, EVERYBODY, "not final", id="running"),
        pytest.param({"end_time": 0, "submit_time": 0}, EVERYBODY, "is not a time", id="no-end"),
        pytest.param({"end_time": 2**50}, EVERYBODY, "is not a time", id="end-beyond-the-calendar"),
        pytest.param({"wall_s": -1}, EVERYBODY, "wall time -1", id="negative-wall"),
        pytest.param({"wall_s": 2**31}, EVERYBODY, "wall time 2147483648", id="wall-beyond-int"),
        pytest.param({"cpu_kernel_s": -5}, EVERYBODY, "kernel CPU time -5", id="negative-cpu"),
        pytest.param({"cpu_user_s": 2**53 + 1}, EVERYBODY, "CPU time", id="cpu-beyond-measurement"),
        pytest.param({"cpu_user_s": 2**31}, APEL_ONLY, "CPU time", id="cpu-beyond-int"),
        pytest.param({"job_id": "x" * 256}, APEL_ONLY, "longer than 255", id="job-id-beyond-the-column"),
        pytest.param(
            {"endpoint_url": f"https://{'h' * 201}.org/arex"}, "sgas", "MachineName", id="machine-beyond-the-column"
        ),
    ],
)
def test_refusals(job: AAR, changes: dict[str, Any], receivers: str, reason: str) -> None:
    """The reason names the value, and only the receivers that would refuse it do."""
    broken = job._replace(**changes)
    refusals = {
        "sgas": accept_for_sgas(broken, SGAS, NOW).refusal,
        "car": accept_for_car(broken, CAR, NOW).refusal,
        "job": accept_for_apel_job(broken, APEL, NOW).refusal,
    }
    assert {name for name, refusal in refusals.items() if refusal} == set(receivers.split())
    assert all(reason in refusal for refusal in refusals.values() if refusal)


UNUSABLE = [
    pytest.param({"benchmark": "SPECint:10"}, {"benchmark": None}, "APEL accepts the types", id="unknown-benchmark"),
    pytest.param({"benchmark": "HEPSPEC:abc"}, {"benchmark": None}, "form TYPE:VALUE", id="benchmark-of-no-number"),
    pytest.param({"benchmark": "HEPSPEC:0"}, {"benchmark": None}, "above 0", id="worthless-benchmark"),
    pytest.param({"benchmark": "HEPSPEC:1e99"}, {"benchmark": None}, "form TYPE:VALUE", id="benchmark-beyond-all"),
    pytest.param({"benchmark": "HEPSPEC:" + "9" * 10**5}, {"benchmark": None}, "HEPSPEC:9999", id="endless-benchmark"),
    pytest.param({"core_count": -1}, {"core_count": 0}, "core count -1", id="negative-cores"),
    pytest.param({"node_count": 2**31}, {"node_count": 0}, "node count 2147483648", id="nodes-beyond-int"),
    pytest.param({"core_count": "many"}, {"core_count": 0}, "core count 'many'", id="cores-in-words"),
]


@pytest.mark.parametrize(("changes", "repaired", "note"), UNUSABLE)
def test_an_unusable_optional_value_withholds_no_job(
    job: AAR, cell: UsageCell, changes: dict[str, Any], repaired: dict[str, Any], note: str
) -> None:
    """The job goes as one without that value, by every receiver's rules and in sums alike, and a note says so."""
    bad = job._replace(**changes)
    for verdict in (
        accept_for_sgas(bad, SGAS, NOW),
        accept_for_car(bad, CAR, NOW),
        accept_for_apel_job(bad, APEL, NOW),
        accept_cell(cell._replace(**changes), APEL, NOW),
    ):
        assert verdict.refusal is None
        assert [note in one and len(one) < 300 for one in verdict.notes] == [True]
    row = car_rules.parse(CAR_DOCUMENT.join([car(accept_for_car(bad, CAR, NOW).aar, CAR, CREATED)]))[0]
    wanted = car_rules.parse(CAR_DOCUMENT.join([car(job._replace(**repaired), CAR, CREATED)]))[0]
    assert row == wanted
    counted = [accept_cell(one, APEL, NOW).cell for one in (cell._replace(**changes), cell._replace(**repaired))]
    (merged,) = summaries(counted, APEL)
    assert merged.jobs == 2 * cell.jobs


@pytest.mark.parametrize(
    ("changes", "kept", "note"),
    [
        pytest.param(
            {"node_names": ("wn1.example.org", "w\x00n", "x" * 256)},
            {"node_names": ("wn1.example.org",)},
            "node names: 2",
            id="hosts",
        ),
        pytest.param({"node_names": ("wn1",) * 5000}, {"node_names": ("wn1",) * 1000}, "node names: 4000", id="crowd"),
        pytest.param({"memory_kib": "much"}, {"memory_kib": 0}, "memory_kib 'much'", id="words-for-memory"),
        pytest.param({"scratch_bytes": float("inf")}, {"scratch_bytes": 0}, "scratch_bytes inf", id="no-end-of-disk"),
        pytest.param({"exit_code": b"\x01"}, {"exit_code": 1}, "exit code", id="bytes-for-an-exit-code"),
        pytest.param(
            {"submit_time": "then"}, {"submit_time": 1_704_198_605}, "StartTime 'then'", id="words-for-a-time"
        ),
    ],
)
def test_optional_values_that_are_no_values(job: AAR, changes: dict[str, Any], kept: dict[str, Any], note: str) -> None:
    """SQLite holds anything in any column, and a user's job writes what it likes: the job is accounted all the same."""
    for verdict in (
        accept_for_sgas(job._replace(**changes), SGAS, NOW),
        accept_for_car(job._replace(**changes), CAR, NOW),
        accept_for_apel_job(job._replace(**changes), APEL, NOW),
    ):
        assert verdict.refusal is None
        assert verdict.aar == job._replace(**kept)
        assert [note in one for one in verdict.notes] == [True]


def test_a_record_id_beyond_sgas_column_is_refused(job: AAR) -> None:
    """Cut, it would be the id of another record."""
    verdict = accept_for_sgas(job._replace(job_id="x" * 1000), SGAS, NOW)
    assert verdict.refusal == "recordId is longer than 1000 characters"


def test_a_job_without_any_machine_is_refused_by_sgas(bare_job: AAR) -> None:
    """And the reason says which option is missing."""
    assert (
        accept_for_sgas(bare_job, UROptions(), NOW).refusal == "no MachineName: the job has no endpoint, set lrms_host"
    )


def test_an_end_in_the_future_is_refused_until_then(job: AAR, cell: UsageCell) -> None:
    """It may be the clock that is behind: the verdict says from when on the same job is taken, also in a sum."""
    end = NOW + 40 * DAY
    ahead = job._replace(end_time=end)
    for accept, options in ((accept_for_sgas, SGAS), (accept_for_car, CAR), (accept_for_apel_job, APEL)):
        verdict = accept(ahead, options, NOW)
        assert "is in the future" in (verdict.refusal or "")
        assert verdict.not_before == end - 2 * DAY
        assert accept(ahead, options, verdict.not_before).refusal is None
        # What is wrong for good is no question of time.
        assert accept(ahead._replace(wall_s=-1), options, NOW).not_before is None
    verdict = accept_cell(cell._replace(month=2), APEL, NOW)
    assert "is in the future" in (verdict.refusal or "")
    assert verdict.not_before == 1_706_745_600
    assert accept_cell(cell._replace(month=2), APEL, verdict.not_before).refusal is None


def test_an_end_that_apel_still_takes_is_taken(job: AAR) -> None:
    """Clocks differ: two days ahead are allowed."""
    assert accept_for_car(job._replace(end_time=NOW + 2 * DAY), CAR, NOW).refusal is None


@pytest.mark.parametrize(
    ("changes", "field", "repaired", "note"),
    [
        pytest.param({"submit_time": NOW + 9}, "submit_time", 1_704_198_605, "StartTime", id="start-after-end"),
        pytest.param({"job_name": "x" * 1001}, "job_name", "x" * 1000, "job_name: cut", id="job-name"),
        pytest.param({"queue": "q" * 300}, "queue", "q" * 200, "queue: cut", id="queue"),
        pytest.param({"local_user": "u" * 101 + ":g"}, "local_user", "u" * 100 + ":g", "local_user", id="local-user"),
        pytest.param({"node_count": 40_000}, "node_count", 32_767, "node count 40000", id="smallint"),
        pytest.param({"memory_kib": 2**53}, "memory_kib", 0, "memory_kib", id="impossible-memory"),
        pytest.param({"scratch_bytes": -1}, "scratch_bytes", 0, "scratch_bytes", id="negative-scratch"),
        pytest.param({"lrms_start_time": 2**60}, "lrms_start_time", None, "lrms_start_time", id="impossible-lrms-time"),
        pytest.param(
            {"fqans": ("/" + "g" * 120 + "/Role=" + "r" * 120,)},
            "fqans",
            ("/" + "g" * 99 + "/Role=" + "r" * 94,),
            "VOMS attribute",
            id="group-and-role",
        ),
        pytest.param(
            {"run_time_environments": ("", "E" * 513)},
            "run_time_environments",
            ("E" * 512,),
            "run-time environments",
            id="environments",
        ),
        pytest.param(
            {"transfers": (Transfer("", 1, 1, 1, "input"), Transfer("u" * 2501, 1, 1, 1, "output"))},
            "transfers",
            (Transfer("u" * 2500, 1, 1, 1, "output"),),
            "transfers",
            id="transfers",
        ),
    ],
)
def test_repairs_for_sgas(job: AAR, changes: dict[str, Any], field: str, repaired: object, note: str) -> None:
    """Only the value in question changes, and a note says so."""
    verdict = accept_for_sgas(job._replace(**changes), SGAS, NOW)
    assert verdict.refusal is None
    assert verdict.aar == job._replace(**{field: repaired})
    assert [note in one for one in verdict.notes] == [True]
    sgas_rules.parse(DOCUMENT.join([usage_record(verdict.aar, SGAS, CREATED)]).encode())


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        pytest.param({"local_job_id": "/dev"}, "LocalJobId", id="local-id-with-a-slash"),
        pytest.param({"local_job_id": "x" * 121}, "LocalJobId", id="long-local-id"),
        pytest.param({"benchmark": "SPECint:10"}, "APEL accepts", id="benchmark"),
        pytest.param({"job_name": "a\x00b"}, "job_name: control characters", id="control-characters"),
    ],
)
def test_values_that_sgas_does_not_get_are_noted(job: AAR, changes: dict[str, Any], note: str) -> None:
    """The record goes without the value, and a note says so."""
    verdict = accept_for_sgas(job._replace(**changes), SGAS, NOW)
    assert verdict.refusal is None
    assert [note in one for one in verdict.notes] == [True]


@pytest.mark.parametrize(
    ("changes", "field", "stored", "note"),
    [
        pytest.param({"local_job_id": "NULL"}, "LocalJobId", "good1", "LocalJobId", id="local-id-that-means-nothing"),
        pytest.param(
            {"user_dn": "/CN=" + "x" * 300},
            "GlobalUserName",
            "/CN=" + "x" * 238 + "~" + hashlib.sha256(b"/cn=" + b"x" * 300).hexdigest()[:12],
            "user_dn: cut from 304 to 255",
            id="dn",
        ),
        pytest.param({"queue": "🚀"}, "Queue", r"\xF0\x9F\x9A\x80", None, id="astral"),
        pytest.param({"queue": "数"}, "Queue", r"\xE6\x95\xB0", None, id="other-letters"),
        pytest.param(
            {"queue": "é" * 13}, "Queue", r"\xC3\xA9" * 12 + r"\xC3", "queue: cut from 104", id="whole-escapes"
        ),
        pytest.param(
            {"fqans": ("/atlas/" + "g" * 300 + "/Role=production",)},
            "VORole",
            "Role=production",
            "main FQAN",
            id="a-long-group-keeps-its-role",
        ),
    ],
)
def test_repairs_for_car(job: AAR, changes: dict[str, Any], field: str, stored: str, note: str | None) -> None:
    """What APEL stores of the repaired record, and what the note says."""
    verdict = accept_for_car(job._replace(**changes), CAR, NOW)
    row = car_rules.parse(CAR_DOCUMENT.join([car(verdict.aar, CAR, CREATED)]))[0]
    assert row[field] == stored
    assert [note in one for one in verdict.notes if note] == ([True] if note else [])


def test_memory_beyond_the_column_is_taken_to_its_end(job: AAR) -> None:
    """2 TiB are the most that APEL's job records hold; the XML has no limit, and no one reads it there."""
    huge = job._replace(memory_kib=2**40)
    assert accept_for_apel_job(huge, APEL, NOW).aar.memory_kib == 2**31 - 1
    assert accept_for_car(huge, CAR, NOW).aar.memory_kib == 2**40


@given(job=JOBS)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_what_is_accepted_is_taken_by_the_receiver(job: AAR) -> None:
    """Any values at all: either we refuse with a reason, or the receiver's own rules take the record."""
    sgas = accept_for_sgas(job, SGAS, NOW)
    if sgas.refusal is None:
        assert len(sgas_rules.parse(DOCUMENT.join([usage_record(sgas.aar, SGAS, CREATED)]).encode())) == 1
    xml = accept_for_car(job, CAR, NOW)
    if xml.refusal is None:
        assert len(car_rules.parse(CAR_DOCUMENT.join([car(xml.aar, CAR, CREATED)]))) == 1
    text = accept_for_apel_job(job, APEL, NOW)
    if text.refusal is None:
        for version, header in JOB_HEADERS.items():
            apel_rules.parse(message(header, [individual_job(text.aar, APEL, version)]), NOW)
    assert sgas.refusal != ""
    assert (xml.refusal is None) == (text.refusal is None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"month": 13}, "is not a month", id="month"),
        pytest.param({"jobs": 2**31}, "jobs 2147483648", id="jobs"),
        pytest.param({"wall_s": -1}, "wall time -1", id="wall"),
        pytest.param({"cpu_s": 2**53 + 1}, "CPU time", id="cpu"),
    ],
)
def test_refused_cells(cell: UsageCell, changes: dict[str, Any], reason: str) -> None:
    """A cell that would put the whole summary message aside, with the reason."""
    assert reason in (accept_cell(cell._replace(**changes), APEL, NOW).refusal or "")


def test_ends_outside_the_month_are_taken_to_its_bounds(cell: UsageCell) -> None:
    """APEL refuses the message otherwise; the first second of the next month still belongs to it."""
    verdict = accept_cell(cell._replace(earliest_end_time=1, latest_end_time=1_706_745_600), APEL, NOW)
    assert (verdict.cell.earliest_end_time, verdict.cell.latest_end_time) == (1_704_067_200, 1_706_745_600)
    assert len(verdict.notes) == 1


def test_a_good_cell_passes_untouched(cell: UsageCell) -> None:
    """Without a note."""
    assert accept_cell(cell, APEL, NOW) == CellAcceptance(cell)
