from __future__ import annotations

import base64
import json
import os

import pytest
from sandbox_clients import job_message, openssl_sign, sign, summary_message, sync_message

from arcacct.sandbox import apel
from arcacct.sandbox.smime import MessageRejected


def receive(apel, ce, *texts: str):
    """Hand signed texts to the receiver; what became of each."""
    return [apel.receive(base64.b64encode(sign(ce, text.encode())).decode(), "1/2").verdict for text in texts]


REPLACED = {
    "corrected job": (
        "job_records",
        job_message(EndTime="1700000000", StartTime="0", WallDuration="1"),
        job_message(EndTime="1700000000", StartTime="0", WallDuration="2"),
    ),
    "another machine of the site": (
        "job_records",
        job_message(EndTime="1700000000", StartTime="0", WallDuration="1"),
        job_message(EndTime="1700000000", StartTime="0", WallDuration="2", SubmitHost="other"),
    ),
    "summary": ("summaries", summary_message(WallDuration="1"), summary_message(WallDuration="2")),
    "summary in another case": (
        "summaries",
        summary_message(WallDuration="1", VO="atlas"),
        summary_message(WallDuration="2", VO="ATLAS"),
    ),
    "summary v0.2 and v0.4": (
        "summaries",
        summary_message(WallDuration="1"),
        summary_message("APEL-summary-job-message: v0.4", WallDuration="2"),
    ),
    "normalised": (
        "normalised_summaries",
        summary_message("APEL-summary-job-message: v0.3", WallDuration="1"),
        summary_message("APEL-summary-job-message: v0.3", WallDuration="2"),
    ),
    "sync": ("sync_records", sync_message(NumberOfJobs="1"), sync_message(NumberOfJobs="2")),
}


@pytest.mark.parametrize(("table", "first", "second"), REPLACED.values(), ids=REPLACED)
def test_a_record_with_the_same_key_replaces(apel, ce, table, first, second):
    """Of two records with one key the last stays, and there is one row."""
    assert receive(apel, ce, first, second) == ["loaded", "loaded"]
    (row,) = getattr(apel, table).values()
    assert 2 in {row.get("WallDuration"), row.get("NumberOfJobs")}


ADDED = {
    "job with another end": (
        "job_records",
        job_message(EndTime="1700000000", StartTime="0"),
        job_message(EndTime="1700000001", StartTime="0"),
    ),
    "another benchmark": ("summaries", summary_message(ServiceLevel="10"), summary_message(ServiceLevel="11")),
    "another node count": ("summaries", summary_message(NodeCount="1"), summary_message(NodeCount="2")),
    "another infrastructure": ("summaries", summary_message(), summary_message(InfrastructureType="grid")),
    "normalised v0.3 and v0.4": (
        "normalised_summaries",
        summary_message("APEL-summary-job-message: v0.3"),
        summary_message("APEL-normalised-summary-message: v0.4"),
    ),
    "sync of another host": ("sync_records", sync_message(SubmitHost="a"), sync_message(SubmitHost="b")),
}


@pytest.mark.parametrize(("table", "first", "second"), ADDED.values(), ids=ADDED)
def test_a_record_with_another_key_is_counted_twice(apel, ce, table, first, second):
    """A key field that changes adds a row: what the real server would count double."""
    receive(apel, ce, first, second)
    assert len(getattr(apel, table)) == 2


def test_rejected_messages_change_nothing_and_stop_nobody(apel, ce):
    """A message with a bad record loads none of its records; the next message is loaded."""
    bad = job_message(LocalJobId="1") + job_message(LocalJobId="2", Site=None).partition("\n")[2]
    verdicts = receive(apel, ce, bad, sync_message())
    assert verdicts == ["rejected: Mandatory field Site not specified.", "loaded"]
    assert apel.job_records == {}
    assert len(apel.sync_records) == 1
    (rejection,) = apel.rejected
    assert rejection.empaid == "1/2"
    assert rejection.file == "apel/0001.smime"


@pytest.mark.parametrize(
    "poison", [sync_message(Site="Jörg"), job_message("v0.4", ServiceLevel=None)], ids=["not ascii", "KeyError"]
)
def test_poison_holds_up_everything_behind_it(apel, ce, poison):
    """What kills the receiver is delivered again permanently, so later messages wait."""
    first, second = receive(apel, ce, poison, sync_message())
    assert first.startswith("rejected: the receiver stopped")
    assert second.startswith("waits")
    assert apel.sync_records == {}
    assert apel.waiting == ["apel/0002.smime"]


def test_messages_of_the_openssl_program_are_loaded(apel, ce):
    """What jura's way of signing produces is received, too."""
    message = openssl_sign(ce, job_message().encode(), "-text")
    assert apel.receive(base64.b64encode(message).decode(), None).verdict == "loaded"
    assert len(apel.job_records) == 1


def test_what_is_not_base64_is_rejected(apel):
    """The service does not look at the data; the receiver rejects it."""
    assert "not base64" in apel.receive("%%%", None).verdict


def test_the_real_messages_of_a_computing_element_load(apel, ce, test_data):
    """Each message jura sent, signed again, is loaded, or rejected for jura's known faults only."""
    payloads = sorted(test_data.glob("arex/wire/*/*.payload"))
    verdicts = {
        path.name: receive(apel, ce, path.read_bytes().decode("ascii", "backslashreplace"))[0] for path in payloads
    }
    assert len(verdicts) > 0
    odd = {name: verdict for name, verdict in verdicts.items() if verdict != "loaded"}
    assert all("not well-formed" in verdict or "in the future" in verdict for verdict in odd.values()), odd


def test_message_and_body_lie_side_by_side(apel, ce, journal):
    """The signed message and its verified text are kept under one number."""
    receive(apel, ce, sync_message())
    folder = os.path.join(journal.directory, "apel")
    assert sorted(os.listdir(folder)) == ["0001.smime", "0001.txt"]
    with open(os.path.join(folder, "0001.txt"), encoding="ascii") as file:
        assert file.read() == sync_message().strip()


def test_a_journal_continues_an_older_one(journal):
    """Numbers go on where an earlier rehearsal in the same directory stopped."""
    from arcacct.sandbox.http_server import Arrival, Journal

    journal.keep("sgas", f"{journal.number('sgas')}.xml", b"<a/>")
    journal.note(Arrival("sgas", 1, "sgas/0001.xml", "stored"), 200)
    again = Journal(journal.directory, ("sgas", "apel"))
    assert again.number("sgas") == "0002"
    again.note(Arrival("sgas", 2, "sgas/0002.xml", "stored"), None)
    with open(os.path.join(journal.directory, "index.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert [(line["records"], line["answer"]) for line in lines] == [(1, 200), (2, None)]


CAR = "http://eu-emi.eu/namespaces/2012/11/computerecord"
PARTS = {
    "LocalJobId": "<JobIdentity><LocalJobId>17</LocalJobId></JobIdentity>",
    "User": '<UserIdentity><GlobalUserName urf:type="opensslCompat">/CN=Jane</GlobalUserName>'
    '<Group>atlas</Group><GroupAttribute urf:type="FQAN">/atlas/Role=production</GroupAttribute></UserIdentity>',
    "WallDuration": "<WallDuration>PT1H</WallDuration>",
    "CpuDuration": '<CpuDuration urf:usageType="user">PT1M</CpuDuration>'
    '<CpuDuration urf:usageType="all">PT2M</CpuDuration>',
    "StartTime": "<StartTime>2026-01-02T03:00:00Z</StartTime>",
    "EndTime": "<EndTime>2026-01-02T04:00:00Z</EndTime>",
    "Site": '<Site urf:type="gocdb">TEST-SITE</Site>',
    "Infrastructure": '<Infrastructure urf:type="grid" urf:description="ARC-SLURM"/>',
    "ServiceLevel": '<ServiceLevel urf:type="HEPscore23">12.5</ServiceLevel>',
}

GROUP = '<UserIdentity><Group>bio</Group><GroupAttribute urf:type="{}">/b</GroupAttribute></UserIdentity>'


def car(namespace: str = CAR, before: str = "", **parts: str) -> str:
    """A message of one record, parts replaced or (empty) left out."""
    body = "".join({**PARTS, **parts}.values())
    root = f'UsageRecords xmlns="{namespace}" xmlns:urf="{namespace}"'
    return f"{before}<{root}><UsageRecord>{body}</UsageRecord></UsageRecords>"


def values(text: str) -> dict:
    """The values of the only record of a message."""
    (record,) = apel.read(text)
    return record.values


ACCEPTED = {
    "wall": (car(), "WallDuration", 3600),
    "total cpu": (car(), "CpuDuration", 120),
    "first cpu without a total": (
        car(CpuDuration='<CpuDuration urf:usageType="user">PT5S</CpuDuration><CpuDuration>PT9S</CpuDuration>'),
        "CpuDuration",
        5,
    ),
    "end": (car(), "EndTime", 1767326400),
    "end with a zone": (car(EndTime="<EndTime>2026-01-02T06:00:00+02:00</EndTime>"), "EndTime", 1767326400),
    "end with a zone without colon": (
        car(EndTime="<EndTime>2026-01-02T06:00:00+0200</EndTime>"),
        "EndTime",
        1767326400,
    ),
    "end without zone": (car(EndTime="<EndTime>2026-01-02 04:00:00</EndTime>"), "EndTime", 1767326400),
    "role of the fqan": (car(), "VORole", "Role=production"),
    "infrastructure": (car(), "InfrastructureType", "grid"),
    "description": (car(), "InfrastructureDescription", "ARC-SLURM"),
    "benchmark type": (car(), "ServiceLevelType", "HEPscore23"),
    "benchmark": (car(), "ServiceLevel", 12.5),
    "no processors": (car(), "Processors", 0),
    "processors": (car(More="<Processors>4</Processors>"), "Processors", 4),
    "memory is not looked at": (car(More='<Memory urf:storageUnit="KB">9</Memory>'), "MemoryReal", None),
    "vo-group is not looked at": (car(User=GROUP.format("vo-group")), "VOGroup", "None"),
    "group is": (car(User=GROUP.format("group")), "VOGroup", "/b"),
    "attribute without namespace": (car(Infrastructure='<Infrastructure type="grid"/>'), "InfrastructureType", "None"),
    "a declaration before the root": (car(before='<?xml version="1.0"?>'), "Site", "TEST-SITE"),
    "seconds with decimals": (car(WallDuration="<WallDuration>PT1.6S</WallDuration>"), "WallDuration", 2),
    "an empty period": (car(WallDuration="<WallDuration>P</WallDuration>"), "WallDuration", 0),
}


@pytest.mark.parametrize(("text", "field", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_apel_reads_from_a_car(text, field, value):
    """Each column comes from where APEL looks for it."""
    assert values(text)[field] == value


REJECTED = {
    "another namespace": (car("http://eu-emi.eu/namespaces/2012/10/computerecord"), "not recognised"),
    "aggregated": (car("http://eu-emi.eu/namespaces/2012/11/aggregatedcomputerecord"), "not yet supported"),
    "ogf usage record": (car("http://schema.ogf.org/urf/2003/09/urf"), "not recognised"),
    "comment before the root": (car(before="<!-- hello -->"), "not recognised"),
    "not well-formed": (car(Site="<Site>a & b</Site>"), "well-formed"),
    "no records": (f'<UsageRecords xmlns="{CAR}"/>', "No usage record"),
    "no site": (car(Site=""), "Mandatory field Site"),
    "no local id": (car(LocalJobId=""), "Mandatory field LocalJobId"),
    "two totals": (car(CpuDuration='<CpuDuration urf:usageType="all">PT1S</CpuDuration>' * 2), "CpuDuration"),
    "duration in seconds": (car(WallDuration="<WallDuration>3600</WallDuration>"), "duration"),
    "negative duration": (car(WallDuration="<WallDuration>-PT1S</WallDuration>"), "duration"),
    "hours with decimals": (car(WallDuration="<WallDuration>PT1.5H</WallDuration>"), "duration"),
    "epoch": (car(EndTime="<EndTime>1700000000</EndTime>"), "date and time"),
    "end before start": (car(EndTime="<EndTime>2026-01-02T02:00:00Z</EndTime>"), "before"),
    "no benchmark": (car(ServiceLevel=""), "custom not valid"),
    "benchmark without type": (car(ServiceLevel="<ServiceLevel>1</ServiceLevel>"), "ServiceLevel"),
    "benchmark type without namespace": (
        car(ServiceLevel='<ServiceLevel type="HEPSPEC">1</ServiceLevel>'),
        "ServiceLevel",
    ),
    "benchmark without value": (car(ServiceLevel='<ServiceLevel urf:type="HEPSPEC"/>'), "ServiceLevel"),
    "other benchmark": (car(ServiceLevel='<ServiceLevel urf:type="HS06">1</ServiceLevel>'), "HS06 not valid"),
    "processors in words": (car(More="<Processors>four</Processors>"), "no integer"),
}


@pytest.mark.parametrize(("text", "words"), REJECTED.values(), ids=REJECTED)
def test_what_apel_rejects_of_a_car(text, words):
    """A record APEL cannot read rejects the message, with the reason."""
    with pytest.raises(MessageRejected, match=words):
        apel.read(text)


def test_the_recommended_record_is_accepted(test_data):
    """The sample that the real parser accepted is accepted, and nothing of it is lost that APEL keeps."""
    found = values((test_data / "usage-records/good/car.xml").read_text(encoding="utf-8"))
    assert found["Site"] != "None"
    assert found["ServiceLevel"] is not None
    assert isinstance(found["EndTime"], int)


# What the portal would show: the three steps of APEL's summariser over what was received.


MARCH_S = 1_268_000_000
"""2010-03-07 22:13:20 UTC, in the month of `summary_message`."""
V02, V03, V04 = (f"APEL-summary-job-message: v0.{version}" for version in (2, 3, 4))
NORMALISED_04 = "APEL-normalised-summary-message: v0.4"
WHO = {"GlobalUserName": "/CN=Jane", "VO": "atlas", "SubmitHost": "ce", "NodeCount": "1", "Processors": "1"}
MONTH = ("TEST-SITE", 2010, 3)
NOTHING = {"NumberOfJobs": "0", "WallDuration": "0", "CpuDuration": "0"}


def job(local_job_id: str, **fields: str | None) -> str:
    """A job record of March 2010 whose sums have the key of `summary_message`."""
    own = {"ServiceLevel": "10", "EndTime": str(MARCH_S), "StartTime": "0", "InfrastructureType": None}
    return job_message(LocalJobId=local_job_id, **{**WHO, **own, **fields})


@pytest.fixture
def load(apel, ce):
    """Hand texts to the receiver, signed; each must be loaded."""

    def hand(*texts: str) -> None:
        for text in texts:
            message = base64.b64encode(sign(ce, text.encode())).decode()
            assert apel.receive(message, "1/2").verdict == "loaded", text

    return hand


def test_job_records_are_summed(apel, load):
    """Jobs of one key are one row of the portal, with the first and the last end and normalised durations."""
    load(job("1"), job("2", EndTime=str(MARCH_S + 9), WallDuration="7", CpuDuration="5"))
    (row,) = apel.hybrid.values()
    assert (row["NumberOfJobs"], row["WallDuration"], row["CpuDuration"]) == (2, 67, 55)
    assert (row["NormalisedWallDuration"], row["NormalisedCpuDuration"]) == (670, 550)
    assert (row["EarliestEndTime"], row["LatestEndTime"]) == (MARCH_S, MARCH_S + 9)
    assert (row["Site"], row["Year"], row["Month"], row["Infrastructure"]) == (*MONTH, "None")
    assert apel.totals() == {MONTH: (2, 67, 55, 670, 550)}


SEPARATE = {
    "month": {"EndTime": "1270080000"},
    "user": {"GlobalUserName": "/CN=Joe"},
    "VO": {"VO": "cms"},
    "group": {"VOGroup": "/atlas/uk"},
    "role": {"VORole": "Role=production"},
    "submit host": {"SubmitHost": "other"},
    "infrastructure": {"InfrastructureType": "grid"},
    "type of service level": {"ServiceLevelType": "HEPscore23"},
    "service level": {"ServiceLevel": "10.001"},
    "nodes": {"NodeCount": "2"},
    "processors": {"Processors": "2"},
    "site": {"Site": "OTHER-SITE"},
}


@pytest.mark.parametrize("fields", SEPARATE.values(), ids=SEPARATE)
def test_what_makes_another_row(apel, load, fields):
    """Each column of the key parts the jobs, and the totals are those of both rows."""
    load(job("1"), job("2", **fields))
    assert len(apel.hybrid) == 2
    assert sum(row.jobs for row in apel.totals().values()) == 2


TOGETHER = {
    "letters' case": {"VO": "ATLAS", "Site": "test-site", "ServiceLevelType": "hepspec"},
    "queue": {"Queue": "other"},
    "machine": {"MachineName": "other"},
    "local user": {"LocalUserId": "other"},
    "description": {"InfrastructureDescription": "ARC-SLURM"},
}


@pytest.mark.parametrize("fields", TOGETHER.values(), ids=TOGETHER)
def test_what_makes_no_other_row(apel, load, fields):
    """What is not in the key, or differs in letters' case only, is one row, under the site's first spelling."""
    load(job("1"), job("2", **fields))
    assert len(apel.hybrid) == 1
    assert apel.totals()[MONTH].jobs == 2


NORMALISED = {
    "HEPSPEC": ({"ServiceLevelType": "HEPSPEC", "ServiceLevel": "10.5"}, 1050),
    "Si2k": ({"ServiceLevelType": "Si2k", "ServiceLevel": "2500"}, 1000),
    "Si2k in another case": ({"ServiceLevelType": "SI2K", "ServiceLevel": "2500"}, 1000),
    "HEPscore23": ({"ServiceLevelType": "HEPscore23", "ServiceLevel": "0.333"}, 33),
    "a half goes up": ({"ServiceLevelType": "HEPSPEC", "ServiceLevel": "0.125"}, 13),
    "nothing": ({"ServiceLevelType": "HEPSPEC", "ServiceLevel": "0"}, 0),
}


@pytest.mark.parametrize(("level", "seconds"), NORMALISED.values(), ids=NORMALISED)
@pytest.mark.parametrize("family", ["jobs", "summaries"])
def test_normalised_durations(apel, load, family, level, seconds):
    """100 s of wall time times the service level, a 250th of it for Si2k; the same for jobs and for summaries."""
    load(job("1", WallDuration="100", **level) if family == "jobs" else summary_message(V02, **level))
    assert apel.totals()[MONTH].normalised_wall_s == seconds


def test_the_sum_is_rounded_not_each_job(apel, load):
    """Three jobs of 0.4 normalised seconds are one second, not none."""
    load(*(job(number, WallDuration="1", ServiceLevel="0.4") for number in "123"))
    assert apel.totals()[MONTH].normalised_wall_s == 1


def test_normalised_summaries_are_copied(apel, load):
    """What came normalised is shown as it came, with service level 0; v0.3 and v0.4 of one month count twice."""
    load(summary_message(V03))
    (row,) = apel.hybrid.values()
    assert (row["ServiceLevelType"], row["ServiceLevel"]) == ("None", 0)
    assert apel.totals() == {MONTH: (5, 100, 90, 1000, 900)}
    load(summary_message(NORMALISED_04))
    assert apel.totals()[MONTH].jobs == 10


def test_summaries_over_summaries_are_right(apel, load):
    """A later summary of the same key replaces what the portal showed, also one of another version."""
    load(summary_message(V02))
    assert apel.totals()[MONTH].wall_s == 100
    load(summary_message(V02, WallDuration="300", NumberOfJobs="6"))
    assert apel.totals()[MONTH][:2] == (6, 300)
    load(summary_message(V04, WallDuration="200"))
    assert apel.totals()[MONTH][:2] == (5, 200)


def test_summaries_after_job_records_are_right(apel, load):
    """The summaries of a month whose jobs were sent one by one overwrite what was made of the jobs."""
    load(job("1"), job("2"))
    assert apel.totals()[MONTH].jobs == 2
    load(summary_message(V02, NumberOfJobs="2", WallDuration="120", CpuDuration="100"))
    assert apel.totals() == {MONTH: (2, 120, 100, 1200, 1000)}


def test_zeroed_summaries_hide_job_records(apel, load):
    """
    A month sent as summaries, then as job records with the summaries set to zero: the portal shows too little.

    The zeros are copied after the jobs are summed, in every run; only jobs whose key differs by accident are seen
    (here: a job record with an FQAN of no role has the role None, the summary has Role=NULL).
    """
    fields = {"GlobalUserName": "/CN=Joe", "VO": "cms", "VOGroup": "/cms", "VORole": "Role=NULL"}
    load(summary_message(V02), summary_message(V02, **fields))
    assert apel.totals()[MONTH].jobs == 10
    load(summary_message(V02, **NOTHING), summary_message(V02, **fields, **NOTHING))
    load(*(job(str(number)) for number in range(5)))
    load(*(job(str(number), GlobalUserName="/CN=Joe", FQAN="/cms") for number in range(5, 10)))
    assert len(apel.job_records) == 10
    for _run in range(2):
        assert apel.totals() == {MONTH: (5, 300, 250, 3000, 2500)}


def test_zeroed_job_records_do_not_hide_summaries(apel, load):
    """The other way round the summaries come last, so that a month whose keys are equal is right."""
    load(job("1"))
    assert apel.totals()[MONTH].jobs == 1
    load(job("1", WallDuration="0", CpuDuration="0"), summary_message(V02, NumberOfJobs="1"))
    assert apel.totals() == {MONTH: (1, 100, 90, 1000, 900)}


def test_a_zeroed_job_record_is_still_a_job(apel, load):
    """Zeros take back a job's seconds; the row stays, and rows are what the summariser counts."""
    load(job("1"), job("2"), job("1", WallDuration="0", CpuDuration="0"))
    assert apel.totals() == {MONTH: (2, 60, 50, 600, 500)}


@pytest.mark.parametrize("fields", [fields for name, fields in SEPARATE.items() if name not in ("month", "site")])
def test_a_job_that_moves_to_another_group_leaves_the_old_one(apel, load, fields):
    """Its old row stays at the portal with what it had: nothing is deleted, and no look at the portal is needed."""
    load(job("1"), job("1", **fields))
    assert len(apel.job_records) == 1
    assert apel.totals()[MONTH][:2] == (2, 120)


def test_a_group_is_summed_again_without_the_job_that_left(apel, load):
    """As long as it has a record; a record with zeros is one."""
    load(job("1"), job("2"), job("2", VO="cms"))
    assert apel.totals()[MONTH][:2] == (2, 120)
    load(job("1", VO="cms"), job("3", WallDuration="0", CpuDuration="0"))
    assert apel.totals()[MONTH][:2] == (3, 120)


def test_a_group_that_was_never_summarised_leaves_no_trace(apel, load):
    """The real summariser runs about once a day, and sees only what is there then."""
    apel.summarises_each_message = False
    load(job("1"), job("1", VO="cms"))
    assert apel.totals()[MONTH].jobs == 1
    load(job("1"))
    assert apel.totals()[MONTH].jobs == 2


def test_names_keep_their_first_spelling(apel, load):
    """Zeros in other letters take back the same rows and do not rename them."""
    load(summary_message(V02, **WHO), summary_message(V02, **{**WHO, "VO": "Atlas", "Site": "test-site"}, **NOTHING))
    (row,) = apel.hybrid.values()
    assert (row["Site"], row["VO"]) == ("TEST-SITE", "atlas")
    assert apel.totals() == {MONTH: (0, 0, 0, 0, 0)}


def test_nothing_received_is_nothing_shown(apel):
    """No rows, no months."""
    assert (apel.hybrid, apel.totals()) == ({}, {})
