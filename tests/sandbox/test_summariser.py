"""What the portal would show: the three steps of APEL's summariser over what was received."""

from __future__ import annotations

import base64

import pytest
from sandbox_clients import job_message, sign, summary_message

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
