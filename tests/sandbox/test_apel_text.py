from __future__ import annotations

import time

import pytest
from sandbox_clients import job_message, summary_message, sync_message

from arcacct.sandbox import apel
from arcacct.sandbox.apel import JOBS, NORMALISED_SUMMARIES, SUMMARIES, SYNCS
from arcacct.sandbox.smime import Crashed, MessageRejected

NOW = int(time.time())
V02, V03, V04 = (f"APEL-summary-job-message: v0.{n}" for n in (2, 3, 4))
NORMALISED_04 = "APEL-normalised-summary-message: v0.4"
DICTIONARY = "ServiceLevel: {HEPscore23: 12.5}\n"
ABOVE = job_message("v0.4").replace(DICTIONARY, "ServiceLevelType: <>\n" + DICTIONARY)
"""A job record whose ServiceLevelType, to be put in place of ``<>``, stands above its dictionary."""


def values(text: str) -> dict:
    """The values of the only record of a message."""
    (record,) = apel.read(text.strip())
    return record.values


KNOWN = {
    "job v0.3": (job_message(), JOBS),
    "job v0.1": (job_message("v0.1"), JOBS),
    "job v9": (job_message("v9"), JOBS),
    "job without version": (job_message(""), JOBS),
    "job v0.4": (job_message("v0.4"), JOBS),
    "summary v0.2": (summary_message(V02), SUMMARIES),
    "summary v0.3": (summary_message(V03), NORMALISED_SUMMARIES),
    "summary v0.4": (summary_message(V04), SUMMARIES),
    "normalised v0.4": (summary_message(NORMALISED_04), NORMALISED_SUMMARIES),
    "sync": (sync_message(), SYNCS),
    "sync of any version": (sync_message().replace("v0.1", "whatever"), SYNCS),
}


@pytest.mark.parametrize(("text", "table"), KNOWN.values(), ids=KNOWN)
def test_headers_that_are_known(text, table):
    """Each header leads to its table."""
    (record,) = apel.read(text.strip())
    assert record.table == table


@pytest.mark.parametrize(
    "header",
    [
        "APEL-summary-job-message: v0.1",
        "APEL-summary-job-message: v0.5",
        "APEL-summary-job-message:v0.3",
        "APEL-normalised-summary-message: v0.3",
        "apel-summary-job-message: v0.2",
        "APEL-summary-job-message v0.2",
        "\ufeffAPEL-summary-job-message: v0.2",
        "APEL-accelerator-message: v0.1",
    ],
)
def test_headers_that_are_not_known(header):
    """Other versions, another case, a missing blank or colon, a byte order mark: rejected."""
    with pytest.raises(MessageRejected, match=r"recognised"):
        apel.read(summary_message(V02).replace(V02, header))


ACCEPTED = {
    "crlf": (job_message().replace("\n", "\r\n"), "Site", "TEST-SITE"),
    "no final separator": (sync_message().removesuffix("%%\n"), "NumberOfJobs", 3),
    "duplicate key, last wins": (job_message(Queue="a\nQueue: b"), "Queue", "b"),
    "missing text": (job_message(SubmitHost=None), "SubmitHost", "None"),
    "null text in any case": (job_message(Queue="NULL"), "Queue", "None"),
    "empty text": (job_message(Queue=""), "Queue", "None"),
    "null count": (job_message(Processors="null"), "Processors", 0),
    "missing count": (job_message(NodeCount=None), "NodeCount", 0),
    "python's integers": (job_message(WallDuration="+1_000"), "WallDuration", 1000),
    "start at the epoch": (job_message(StartTime="0"), "StartTime", 0),
    "end tomorrow": (job_message(EndTime=str(NOW + 86_400)), "EndTime", NOW + 86_400),
    "largest duration": (job_message(WallDuration=str(2**31 - 1)), "WallDuration", 2**31 - 1),
    "benchmark in any case": (job_message(ServiceLevelType="hepSCORE23"), "ServiceLevelType", "hepSCORE23"),
    "benchmark of three decimals": (job_message(ServiceLevel="1.23456"), "ServiceLevel", 1.235),
    "benchmark of nothing": (job_message(ServiceLevel="0"), "ServiceLevel", 0),
    "ignored time of a job": (job_message(UpdateTime="2010-02-01T00:00:00Z"), "Site", "TEST-SITE"),
    "ignored time of a month": (summary_message(V02, UpdateTime="x"), "Site", "TEST-SITE"),
    "ignored field": (job_message(SubmitHostType="LRMS"), "Site", "TEST-SITE"),
    "v0.4 benchmark": (job_message("v0.4"), "ServiceLevelType", "hepscore23"),
    "v0.4 benchmark without braces": (job_message("v0.4", ServiceLevel="HEPSPEC: 9"), "ServiceLevel", 9),
    "v0.4 best of several": (job_message("v0.4", ServiceLevel="{si2k: 1, HEPspec: 9, HS23: 7}"), "ServiceLevel", 9),
    "v0.4 with the same type": (job_message("v0.4", ServiceLevelType="hepscore23"), "ServiceLevel", 12.5),
    "month with a zero": (summary_message(V02, Month="03"), "Month", 3),
    "v0.2 benchmark of any name": (summary_message(V02, ServiceLevelType="HS06"), "ServiceLevelType", "HS06"),
    "no jobs": (summary_message(V02, NumberOfJobs="0"), "NumberOfJobs", 0),
    "first second of the next month": (summary_message(V02, LatestEndTime="1270080000"), "LatestEndTime", 1270080000),
    "normalised without type": (summary_message(V03), "ServiceLevelType", "None"),
    "normalised v0.4 is cut": (summary_message(NORMALISED_04), "NormalisedWallDuration", 1000),
    "infrastructure of v0.3": (summary_message(V03, Infrastructure="grid"), "Infrastructure", "grid"),
    "sync of no month": (sync_message(Month="13"), "Month", 13),
    "sync of fewer than no jobs": (sync_message(NumberOfJobs="-3"), "NumberOfJobs", -3),
    "sync of a month below zero": (sync_message(Month="-1"), "Month", -1),
    "sync of a year below zero": (sync_message(Year="-1"), "Year", -1),
    "fewer than no nodes": (summary_message(V02, NodeCount="-1"), "NodeCount", -1),
    "fewer than no nodes of v0.3": (summary_message(V03, NodeCount="-1"), "NodeCount", -1),
    "largest benchmark": (job_message(ServiceLevel="9999999.999"), "ServiceLevel", 9999999.999),
    "largest benchmark of a month": (summary_message(V02, ServiceLevel="9999999.999"), "ServiceLevel", 9999999.999),
    "largest benchmark of v0.4": (
        job_message("v0.4", ServiceLevel="{HEPSPEC: 9999999.9991}"),
        "ServiceLevel",
        9999999.999,
    ),
    "empty benchmark type of a month": (summary_message(V02, ServiceLevelType=""), "ServiceLevelType", "None"),
    "no benchmark type of a month": (summary_message(V02, ServiceLevelType=None), "ServiceLevelType", "None"),
    "v0.4 type below the dictionary": (job_message("v0.4", ServiceLevelType="HEPSPEC"), "ServiceLevelType", "HEPSPEC"),
    "v0.4 dictionary below its type": (ABOVE.replace("<>", "hepscore23"), "ServiceLevelType", "hepscore23"),
    "v0.4 month with a type": (summary_message(V04, ServiceLevelType="HS06"), "ServiceLevelType", "HS06"),
    "sync without host": (sync_message(SubmitHost=None), "SubmitHost", "None"),
}


@pytest.mark.parametrize(("text", "field", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_the_server_accepts_and_stores(text, field, value):
    """A value is stored as the server stores it."""
    assert values(text)[field] == value


REJECTED = {
    "unknown field": (job_message(Colour="blue"), "Unknown field: Colour"),
    "seed's Infrastructure in a job": (job_message(Infrastructure="grid"), "Unknown field: Infrastructure"),
    "UserFQAN": (job_message(UserFQAN="/atlas"), "Unknown field"),
    "Group in a summary": (summary_message(V02, Group="/atlas"), "Unknown field: Group"),
    "Role in a summary": (summary_message(V03, Role="Role=production"), "Unknown field: Role"),
    "InfrastructureType in v0.3": (summary_message(V03, InfrastructureType="grid"), "Unknown field"),
    "Infrastructure in v0.2": (summary_message(V02, Infrastructure="grid"), "Unknown field"),
    "ServiceLevel in v0.3": (summary_message(V03, ServiceLevel="1"), "Unknown field"),
    "normalised in v0.2": (summary_message(V02, NormalisedWallDuration="1"), "Unknown field"),
    "no site": (job_message(Site=None), "Mandatory field Site"),
    "null site": (job_message(Site="none"), "Mandatory field Site"),
    "no local id": (job_message(LocalJobId="NULL"), "Mandatory field LocalJobId"),
    "no wall time": (job_message(WallDuration=None), "Mandatory field WallDuration"),
    "no end": (job_message(EndTime=None), "Mandatory field EndTime"),
    "line without colon": (job_message(Queue="a\nb"), "colon"),
    "separator inside a value": (job_message(Queue="a%%b"), "colon|Mandatory|Unknown"),
    "decimal seconds": (job_message(WallDuration="1.5"), "no integer"),
    "seconds with a unit": (job_message(CpuDuration="10s"), "no integer"),
    "negative wall": (job_message(WallDuration="-1"), "Out of range"),
    "too long a wall": (job_message(WallDuration=str(2**31)), "Out of range"),
    "time with decimals": (job_message(EndTime="1700000010.5"), "no time"),
    "end before start": (job_message(StartTime=str(NOW), EndTime=str(NOW - 1)), "before"),
    "end in three days": (job_message(EndTime=str(NOW + 3 * 86_400)), "future"),
    "long site": (job_message(Site="x" * 256), "Data too long"),
    "no benchmark": (job_message(ServiceLevel=None, ServiceLevelType=None), "custom not valid"),
    "benchmark without type": (job_message(ServiceLevelType=None), "not valid"),
    "type without benchmark": (job_message(ServiceLevel=None), "ServiceLevel"),
    "other benchmark": (job_message(ServiceLevelType="HepSpec06"), "HepSpec06 not valid"),
    "not a number": (job_message(ServiceLevel="nan"), "Out of range"),
    "infinite": (job_message(ServiceLevel="inf"), "Out of range"),
    "ten million when rounded": (job_message(ServiceLevel="9999999.9996"), "Out of range"),
    "fewer than no nodes of a job": (job_message(NodeCount="-1"), "Out of range"),
    "sync of a year of 20 digits": (sync_message(Year="9" * 20), "Out of range"),
    "UpdateTime in a sync": (sync_message(UpdateTime="2010-02-01T00:00:00Z"), "Unknown field: UpdateTime"),
    "empty UpdateTime in a sync": (sync_message(UpdateTime=""), "Unknown field: UpdateTime"),
    "empty benchmark type of a job": (job_message(ServiceLevelType=""), "not valid"),
    "v0.4 plain number": (job_message("v0.4", ServiceLevel="10"), "dictionary"),
    "v0.4 empty": (job_message("v0.4", ServiceLevel="{}"), "dictionary"),
    "v0.4 null": (job_message("v0.4", ServiceLevel="null"), "Mandatory"),
    "v0.4 quoted": (job_message("v0.4", ServiceLevel='{"HEPscore23": 1}'), "no known benchmark"),
    "v0.4 twice": (job_message("v0.4", ServiceLevel="{HEPSPEC: 1, HEPSPEC: 2}"), "dictionary"),
    "v0.4 below another type": (ABOVE.replace("<>", "HEPSPEC"), "Mixture of benchmark types"),
    "v0.4 below its type in another case": (ABOVE.replace("<>", "HEPscore23"), "Mixture of benchmark types"),
    "v0.4 above an unknown type": (job_message("v0.4", ServiceLevelType="HS06"), "HS06 not valid"),
    "no node count": (summary_message(V02, NodeCount=None), "Mandatory field NodeCount"),
    "null processors": (summary_message(V03, Processors="null"), "Mandatory field Processors"),
    "summary without benchmark": (summary_message(V02, ServiceLevel=None), "Mandatory field ServiceLevel"),
    "v0.3 without normalised": (summary_message(V03, NormalisedCpuDuration=None), "Mandatory"),
    "month of a summary below zero": (summary_message(V02, Month="-1"), "Month -1"),
    "year of a summary below zero": (summary_message(V03, Year="-1"), "year -1"),
    "month 13": (summary_message(V02, Month="13"), "Month 13"),
    "month to come": (summary_message(V02, Year="2099"), "future"),
    "earliest before the month": (summary_message(V02, EarliestEndTime="1267401599"), "outside"),
    "latest after the month": (summary_message(V02, LatestEndTime="1270080001"), "outside"),
    "earliest after latest": (
        summary_message(V02, EarliestEndTime="1268000001", LatestEndTime="1268000000"),
        "after LatestEndTime",
    ),
    "negative jobs": (summary_message(V02, NumberOfJobs="-1"), "Out of range"),
    "mixed benchmarks": (
        summary_message(NORMALISED_04, NormalisedCpuDuration="{HEPSPEC: 1}"),
        "Mixture of benchmark types",
    ),
}


@pytest.mark.parametrize(("text", "words"), REJECTED.values(), ids=REJECTED)
def test_what_the_server_rejects(text, words):
    """A record that parser or database refuse rejects the message, with the reason."""
    with pytest.raises(MessageRejected, match=words):
        apel.read(text.strip())


def test_a_benchmark_dictionary_that_is_missing_kills_the_loader():
    """A v0.4 job without ServiceLevel is not rejected: the daemon dies over it."""
    with pytest.raises(Crashed, match="KeyError"):
        apel.read(job_message("v0.4", ServiceLevel=None).strip())


@pytest.mark.parametrize("field", ["Month", "Year"])
@pytest.mark.parametrize("header", [V02, V03, V04, NORMALISED_04])
def test_a_month_that_no_calendar_holds_kills_the_loader(header, field):
    """Twenty digits are a number for the parser and none for its calendar: the daemon dies over the message."""
    with pytest.raises(Crashed, match="OverflowError"):
        apel.read(summary_message(header, **{field: "9" * 20}).strip())


def test_an_empty_message_kills_the_loader():
    """A message without so much as a header is not rejected either."""
    with pytest.raises(Crashed, match="empty"):
        apel.read("")


def test_one_bad_record_spoils_the_message():
    """Good neighbours of a bad record are not loaded."""
    good, bad = job_message(LocalJobId="1"), job_message(LocalJobId="2", EndTime="0")
    both = good + bad.partition("\n")[2]
    with pytest.raises(MessageRejected, match="before"):
        apel.read(both.strip())


def test_a_header_alone_is_fine():
    """A message without records loads nothing and is not rejected."""
    assert apel.read("APEL-sync-message: v0.1") == []


@pytest.mark.parametrize(
    ("fqan", "vo", "group", "role"),
    [
        ("/atlas/uk/Role=production/Capability=NULL", "atlas", "/atlas/uk", "Role=production"),
        ("/atlas", "atlas", "/atlas", "None"),
        ("/atlas/Role=NULL", "atlas", "/atlas", "Role=NULL"),
        ("atlas", "atlas", "None", "None"),
        ("/bio/a;/atlas", "bio", "/bio/a", "None"),
    ],
)
def test_an_fqan_decides_the_vo(fqan, vo, group, role):
    """VO, group and role come from the first FQAN, over what the record says itself."""
    found = values(job_message(FQAN=fqan, VO="other", VOGroup="/other"))
    assert (found["VO"], found["VOGroup"], found["VORole"]) == (vo, group, role)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("good_job_v03", None),
        ("seed_job_v02", None),
        ("seed_summary_v03_fixed", None),
        ("seed_sync_v01", None),
        ("seed_job_v03_infrastructure", "Unknown field: Infrastructure"),
        ("seed_summary_v03", "Unknown field: Group"),
    ],
)
def test_the_samples_that_were_tried_on_the_real_server(test_data, name, verdict):
    """Samples end here as they ended on the real server."""
    text = (test_data / "apel" / f"{name}.msg").read_text(encoding="ascii").strip()
    if verdict is None:
        assert len(apel.read(text)) == 1
    else:
        with pytest.raises(MessageRejected, match=verdict):
            apel.read(text)
