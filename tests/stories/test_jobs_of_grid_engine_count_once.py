"""Jobs of Grid Engine at the receivers: local, under the site's own name, once in effect."""

from __future__ import annotations

import pathlib

import pytest
from gridengine_files import BEGIN, COLON, NOW, SITE, ran
from publishing_site import CARS, SGAS, SUMMARIES, Site, at_apel, at_sgas, usage

from arcacct.database.access import open_accounting
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.gridengine.accounting_file import Origin
from arcacct.sources.gridengine.importer import SOURCE


def take(site: Site, path: pathlib.Path) -> None:
    """What `arcacct import gridengine` does."""
    here = site.settings.places
    con = open_accounting(here)
    try:
        known = BatchSite("default", site.settings.map, SITE.default_benchmark)
        work = RunsImport(SOURCE, here, con, BatchPolicy(known, NOW, 0), Origin(), print)
        work.files([str(path)])
        work.finish()
    finally:
        con.close()


def made(memory: pathlib.Path, box: object, target: str) -> Site:
    return Site(memory, box, target, lrms_host="ge.example.org", map="owner gebob vo=atlas user=/DC=org/CN=Bob")


def test_sgas_gets_every_job(memory, empty_box) -> None:
    """Each job that ran is a usage record of the machine that the site gave its batch system."""
    site = made(memory, empty_box, SGAS)
    take(site, COLON)
    outcome = site.publish()

    assert outcome.error is None
    assert len(empty_box.sgas.records) == 39
    assert {row.machine_name for row in empty_box.sgas.records.values()} == {"ge.example.org"}
    assert at_sgas(empty_box.sgas.records)["gesge:default:17:1795168169"] == (1795168200, 2, 0)


def test_apel_gets_local_jobs(memory, empty_box) -> None:
    """APEL takes every record, as local, with the user and VO of the site's map lines."""
    site = made(memory, empty_box, CARS)
    take(site, COLON)
    site.publish()
    rows = list(empty_box.apel.job_records.values())

    assert empty_box.apel.rejected == []
    assert len(rows) == 39
    assert {row["InfrastructureType"] for row in rows} == {"local"}
    assert {row["MachineName"] for row in rows} == {"ge.example.org"}
    assert {(row["VO"], row["GlobalUserName"]) for row in rows if row["LocalUserId"] == "gebob"} == {
        ("atlas", "/DC=org/CN=Bob")
    }


@pytest.mark.parametrize("target", [CARS, SUMMARIES], ids=["jobs", "summaries"])
def test_a_requeued_job_is_counted_once(memory, empty_box, tmp_path, target) -> None:
    """A job that was published in error state and ran again is one job at APEL, with the usage of both runs."""
    site = made(memory, empty_box, target)
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 1, 10, 20, failed=30, exit_status=100, cpu=4, ru_utime=4))
    take(site, path)
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    site.publish()
    with path.open("ab") as file:
        file.write(ran(7, 21, 30, 50, cpu=6, ru_utime=6))
    take(site, path)
    site.publish()

    assert empty_box.apel.rejected == []
    if target == CARS:
        assert at_apel(empty_box.apel.job_records) == {"7": (BEGIN + 50, 30, 10)}
    else:
        assert usage(empty_box.apel) == (30, 10)


@pytest.mark.parametrize("target", [CARS, SGAS, SUMMARIES], ids=["jobs", "usage records", "summaries"])
def test_other_words_send_nothing_again(memory, empty_box, target) -> None:
    """A site that published its jobs as ARC's and continues with their own words: what the receivers have is theirs."""
    site = made(memory, empty_box, target if target == SUMMARIES else f"{target}local_jobs=arc\n")
    take(site, COLON)
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    site.publish()
    before = sgas, apel = dict(empty_box.sgas.records), dict(empty_box.apel.job_records)
    site.configure(target)
    outcome = site.publish()

    assert outcome.error is None
    assert {kind: sent.records for kind, sent in outcome.summary.sent.items()}.keys() <= {"summaries", "sync"}
    assert before == (empty_box.sgas.records, empty_box.apel.job_records)
    assert len(sgas) + len(apel) == (0 if target == SUMMARIES else 39)


def test_what_is_sent_again_takes_the_place_of_what_was(memory, empty_box) -> None:
    """`republish`: each job is there once, with its own start and infrastructure."""
    site = made(memory, empty_box, f"{CARS}local_jobs=arc\n")
    take(site, COLON)
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    site.publish()
    assert {row["InfrastructureDescription"] for row in empty_box.apel.job_records.values()} == {"JURA-ARC-SGE"}
    site.configure(CARS)
    site.republish()
    rows = {row["LocalJobId"]: row for row in empty_box.apel.job_records.values()}

    assert empty_box.apel.rejected == []
    assert len(rows) == len(empty_box.apel.job_records) == 39
    assert {row["InfrastructureDescription"] for row in rows.values()} == {"SGE"}
    assert (rows["5"]["StartTime"], rows["5"]["EndTime"]) == (1_795_168_170, 1_795_168_192)
