"""Several schedds, clusters or cells in one database: equal ids are told apart at APEL, which counts every job."""

from __future__ import annotations

import json
import pathlib
import time
from contextlib import closing

import pytest
from htcondor_files import BEGIN, ad, history
from publishing_site import CARS, Site, jobs, publish_well, usage

from arcacct.database import access, schema, upkeep
from arcacct.publishing import sent
from arcacct.queries.job_history import MADE_AGAIN, SentTexts
from arcacct.records import batch_jobs
from arcacct.records.batch_systems import GRIDENGINE
from arcacct.records.enrichment import SACCT
from arcacct.records.model import Job
from arcacct.records.writer import JobWriter
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.htcondor.history import HistoryForm
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE
from arcacct.targets import plugins

WALL_S = 60
NOW = BEGIN + 40 * 86_400
FAMILIES = pytest.mark.parametrize("kind", ["urs", "individual", "individual-v04"])


def take(site: Site, *ads: str) -> None:
    """What `arcacct import htcondor` does."""
    here = site.settings.places
    with access.accounting(here) as con:
        policy = BatchPolicy(BatchSite(rules=site.settings.map), NOW, 0)
        work = RunsImport(HTCONDOR_SOURCE, here, con, policy, HistoryForm(), print, lambda: NOW)
        work.output("output", [history(*ads)])
        work.finish()


def jobs_of(schedd: str, *clusters: int, **values: object) -> list[str]:
    """Jobs that ended well; the same cluster has the same end at every schedd."""
    return [ad(cluster, schedd=schedd, **values) for cluster in clusters]


def made(memory: pathlib.Path, box: object, targets: str = CARS) -> Site:
    site = Site(memory, box, targets, lrms_host="batch.example.org", map="owner alice vo=atlas user=/DC=org/CN=Alice")
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    return site


def ids(site: Site) -> list[str]:
    """LocalJobId of every record that APEL counts."""
    assert site.box.apel.rejected == []
    return sorted(row["LocalJobId"] for row in site.box.apel.job_records.values() if row["WallDuration"])


@FAMILIES
@pytest.mark.parametrize("prefix", ["", "ce1:"])
def test_equal_ids_of_two_schedds_are_two_jobs(memory, empty_box, kind, prefix) -> None:
    """The schedd whose jobs were recorded first keeps its ids as they are, and the other one puts its name before."""
    targets = CARS.replace("=urs", f"={kind}") + (f"localid_prefix={prefix}\n" if prefix else "")
    site = made(memory, empty_box, targets)
    take(site, *jobs_of("s1.example.org", 1, 2), *jobs_of("s2.example.org", 1, 2))
    publish_well(site)

    assert ids(site) == sorted(f"{prefix}{place}{one}.0" for place in ("", "s2.example.org:") for one in (1, 2))
    assert usage(empty_box.apel)[0] == 4 * WALL_S
    assert site.held() == {}
    # In the database, and for whoever asks it, both have the batch system's id.
    assert sorted(site.database("SELECT local_job_id FROM v1_jobs")) == [("1.0",), ("1.0",), ("2.0",), ("2.0",)]


def test_clusters_and_cells_are_distinguished_too(memory, empty_box) -> None:
    """Slurm, Grid Engine and A-REX may all count their jobs from 1."""
    site = made(memory, empty_box)
    here = site.settings.places
    end = jobs(1)[0].end_time
    for kind, source, place in (
        ("sonar", SACCT, "one"),
        ("sonar", SACCT, "two"),
        ("gesge", GRIDENGINE.source, "default"),
    ):
        job = Job(
            batch_jobs.job_id(kind, place, 7, end - 900), "completed", end - 900, end, local_job_id="7",
            user_dn="/CN=Ada", vo="atlas", exit_code=0, wall_s=100, cpu_user_s=1, cpu_kernel_s=1,
        )  # fmt: skip
        with access.accounting(here) as con, access.writing(con, here):
            JobWriter(con, source, place).write([job])
    publish_well(site)

    assert ids(site) == ["7", "default:7", "two:7"]


@FAMILIES
def test_what_was_sent_keeps_its_id_when_a_schedd_is_added(memory, empty_box, kind) -> None:
    """Also when its month is sent again, or a job of it changes; one that is deleted is taken back under its own id."""
    site = made(memory, empty_box, CARS.replace("=urs", f"={kind}"))
    take(site, *jobs_of("s1.example.org", 1, 2))
    publish_well(site)
    # Its name comes first in the alphabet, and one of its jobs ended first.
    take(site, *jobs_of("a.example.org", 1, 2), ad(3, schedd="a.example.org", CompletionDate=BEGIN + 20))
    publish_well(site)
    expected = ["1.0", "2.0", "a.example.org:1.0", "a.example.org:2.0", "a.example.org:3.0"]
    assert ids(site) == expected

    # Ended again, as a job that was held and released.
    take(site, *jobs_of("s1.example.org", 1, CompletionDate=BEGIN + 90, RemoteWallClockTime=80.0))
    take(site, *jobs_of("a.example.org", 1, CompletionDate=BEGIN + 90, RemoteWallClockTime=80.0))
    publish_well(site)
    assert site.republish().error is None
    assert ids(site) == expected
    assert usage(empty_box.apel)[0] == 3 * WALL_S + 2 * 80

    for one in ("s1.example.org:2.0", "a.example.org:2.0"):
        site.sql(f"DELETE FROM AAR WHERE JobID LIKE 'htcondor:{one}:%'")
    publish_well(site)
    assert ids(site) == ["1.0", "a.example.org:1.0", "a.example.org:3.0"]
    assert len(empty_box.apel.job_records) == 7


def test_an_upgrade_changes_no_id(memory, empty_box) -> None:
    """An older program sent the ids of all schedds as they are, and noted nothing: its jobs keep them."""
    schedds = ("s1.example.org", "s2.example.org")
    site = made(memory, empty_box)
    with access.accounting(site.settings.places) as con, access.writing(con, site.settings.places):
        schema.note(con, "BARE_LOCAL_IDS", json.dumps([(f"htcondor:{one}", NOW) for one in schedds]))
    take(site, *jobs_of(schedds[0], 1))
    take(site, *jobs_of(schedds[1], 2))
    publish_well(site)
    for open_one in (access.open_accounting, access.open_publishing):
        with closing(open_one(site.settings.places)) as con:
            con.execute("DELETE FROM DBConfig WHERE KeyName = 'BARE_LOCAL_IDS'")
    before = int(time.time())

    publish_well(site)
    assert site.republish().error is None
    assert ids(site) == ["1.0", "2.0"]
    assert len(empty_box.apel.job_records) == 2
    ((text,),) = site.database("SELECT KeyValue FROM DBConfig WHERE KeyName = 'BARE_LOCAL_IDS'")
    assert text == site.ledger("SELECT KeyValue FROM DBConfig WHERE KeyName = 'BARE_LOCAL_IDS'")[0][0]
    (first, _always), (second, until) = json.loads(text)
    assert (first, second) == ("htcondor:s1.example.org", "htcondor:s2.example.org")
    assert before <= until <= time.time()


def test_jobs_that_end_after_an_upgrade_carry_the_name(memory, empty_box) -> None:
    site = made(memory, empty_box)
    noted = [("htcondor:s1.example.org", NOW), ("htcondor:s2.example.org", BEGIN + 70)]
    with access.accounting(site.settings.places) as con, access.writing(con, site.settings.places):
        schema.note(con, "BARE_LOCAL_IDS", json.dumps(noted))
    take(site, *jobs_of("s2.example.org", 1), ad(2, schedd="s2.example.org", CompletionDate=BEGIN + 71))
    publish_well(site)

    assert ids(site) == ["1.0", "s2.example.org:2.0"]


@pytest.mark.parametrize("lost", ["accounting", "ledger"])
def test_a_lost_database_changes_no_id(memory, empty_box, lost) -> None:
    """Each of the two databases remembers which schedd was first, though they are imported in another order then."""
    site = made(memory, empty_box)
    here = site.settings.places
    take(site, *jobs_of("s1.example.org", 1))
    take(site, *jobs_of("s2.example.org", 1))
    publish_well(site)
    before = ids(site)
    name = here.database if lost == "accounting" else here.publishing_database
    for path in pathlib.Path(name).parent.glob(f"{pathlib.Path(name).name}*"):
        path.unlink()
    if lost == "accounting":
        upkeep.start_new_incarnation(here)
        site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
        take(site, *jobs_of("s2.example.org", 1, 2))
        take(site, *jobs_of("s1.example.org", 1, 2))
    else:
        take(site, *jobs_of("s2.example.org", 2))
        take(site, *jobs_of("s1.example.org", 2))
    publish_well(site)
    publish_well(site)

    assert set(ids(site)) == {*before, "2.0", "s2.example.org:2.0"}
    assert usage(empty_box.apel)[0] == 4 * WALL_S


def test_what_was_sent_is_shown_with_the_name(memory, empty_box) -> None:
    """`arcacct job why --sent` makes the very text again that APEL got."""
    site = made(memory, empty_box)
    take(site, *jobs_of("s1.example.org", 1), *jobs_of("s2.example.org", 1))
    publish_well(site)
    here = site.settings.places
    with closing(access.open_publishing(here)) as ledger:
        ledger.execute("DELETE FROM MessageBytes")
    with closing(access.read_accounting(here)) as ours, closing(access.read_publishing(here)) as ledger:
        texts = SentTexts(plugins(site.settings)[0], ours, ledger)
        ((message_id, count),) = ledger.execute("SELECT MessageID, RecordCount FROM Messages WHERE Kind = 'car'")
        shown = [texts.of_record(message_id, position, None) for position in sent.message(ledger, message_id).records]
    assert (count, {one.how for one in shown}) == (2, {MADE_AGAIN})
    assert sum("s2.example.org:1.0<" in (one.text or "") for one in shown) == 1
