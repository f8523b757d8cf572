"""Records that change after they were published: each receiver gets what it can make use of, and the rest is said."""

from __future__ import annotations

import pytest
from installed import arcacct
from publishing_site import AUDITOR, CARS, DAY_S, JUNE, SGAS, Job, Site, at_apel, at_sgas, jobs, truth, usage

from arcacct.database.access import open_publishing
from arcacct.publishing import held

BY_SLURM = "JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|AllocCPUS|ExitCode|TotalCPU|NodeList"
INDIVIDUAL = CARS.replace("=urs", "=individual")
V04 = CARS.replace("=urs", "=individual-v04")


@pytest.fixture
def sgas(memory, empty_box):
    """A site that publishes to SGAS."""
    return Site(memory, empty_box, SGAS)


@pytest.fixture(params=[CARS, INDIVIDUAL, V04], ids=["cars", "individual", "individual-v04"])
def apel(request, memory, empty_box):
    """A site that publishes every job to APEL."""
    return Site(memory, empty_box, request.param)


def mark(site: Site, job_id: str, state: str) -> None:
    """What `arcacct quarantine retry` and `drop` do."""
    con = open_publishing(site.settings.places)
    held.change_state(con, None, [job_id], state)
    con.close()


def test_sgas_a_correction_is_never_silently_sent(sgas) -> None:
    """SGAS would ignore it and say thanks: the correction is listed with the record that has to be deleted first."""
    sgas.send(*jobs(3))
    sgas.record(jobs(3)[1]._replace(wall_s=999))

    outcome = sgas.publish()

    assert outcome.summary.sent == {}
    assert outcome.summary.corrections == 1
    ((job_id, (state, why)),) = sgas.held().items()
    assert (job_id, state) == ("job00001", "correction")
    assert "ur-ce.example.org-job00001" in why
    assert any("give its administrator" in note for note in outcome.summary.notes)
    assert sgas.publish().summary.corrections == 0
    assert sgas.held().keys() == {"job00001"}


def test_what_a_batch_system_adds_that_no_receiver_stores_is_no_correction(memory, empty_box, tmp_path) -> None:
    """Start and end of the run, which A-REX did not know: SGAS stores neither, and AUDITOR is sent neither."""
    site = Site(memory, empty_box, f"{SGAS}{AUDITOR}")
    recorded = [job._replace(local_id=str(900 + number), hosts="wn1") for number, job in enumerate(jobs(10))]
    site.send(*recorded)
    sacct = tmp_path / "sacct.txt"
    rows = (
        f"{job.local_id}|c|COMPLETED|{job.end_time - 150}|{job.end_time - job.wall_s - 5}|{job.end_time - 5}"
        f"|{job.wall_s}|1|0:0|00:01:30|wn1"
        for job in recorded
    )
    sacct.write_text("\n".join([BY_SLURM, *rows, ""]))

    assert arcacct("--config", site.path / "arc.conf", "import", "slurm", sacct).returncode == 0
    assert site.database("SELECT count(*) FROM JobEvents WHERE EventKey = 'LRMSSTART'") == [(10,)]
    outcomes = site.publish_all()
    assert [(one.summary.corrections, one.summary.sent) for one in outcomes] == [(0, {})] * 2
    assert site.held() == {}


def test_sgas_a_correction_is_delivered_once_there_is_room(sgas) -> None:
    """After SGAS's administrator deleted the record and ours said `retry`, the new version is sent."""
    sgas.send(*jobs(3))
    corrected = jobs(3)[1]._replace(wall_s=999)
    sgas.send(corrected)
    del sgas.box.sgas._stored["ur-ce.example.org-job00001"]
    mark(sgas, "job00001", "retry")

    assert sgas.publish().summary.sent["ur"].records == 1
    assert at_sgas(sgas.box.sgas.records)["job00001"].wall_s == 999
    assert sgas.held() == {}
    assert sgas.publish().summary.sent == {}
    sgas.record(corrected._replace(wall_s=1000))
    assert sgas.publish().summary.corrections == 1


def test_sgas_a_correction_that_is_taken_back_is_forgotten(sgas) -> None:
    """A record that is again what SGAS has is in no list."""
    sgas.send(*jobs(3))
    sgas.send(jobs(3)[1]._replace(wall_s=999))
    sgas.record(jobs(3)[1])

    assert sgas.publish().summary.sent == {}
    assert sgas.held() == {}


@pytest.mark.parametrize("publish_first", [True, False], ids=["after-publish", "before-publish"])
def test_sgas_a_republished_correction_stays_in_the_list(sgas, publish_first) -> None:
    """A republish sends what SGAS may have lost, but the list of corrections goes on: SGAS keeps what it has."""
    sgas.send(*jobs(3))
    sgas.record(jobs(3)[1]._replace(wall_s=999))
    if publish_first:
        sgas.publish()

    outcome = sgas.republish()

    assert outcome.summary.sent["ur"].records == 3
    assert outcome.summary.corrections == 1
    assert sgas.held()["job00001"][0] == "correction"
    sgas.publish()
    assert sgas.held()["job00001"][0] == "correction"
    assert at_sgas(sgas.box.sgas.records) == truth(jobs(3))


def test_a_dropped_record_is_never_sent(sgas) -> None:
    """What an operator dropped is not sent: not when it changes, and not by a republish."""
    sgas.record(*jobs(2))
    sgas.refusable(Job("bad"))
    sgas.publish()
    mark(sgas, "bad", "dropped")
    sgas.record(Job("bad", wall_s=5))

    sgas.publish()
    sgas.republish()
    assert set(at_sgas(sgas.box.sgas.records)) == {"job00000", "job00001"}
    assert sgas.held()["bad"][0] == "dropped"


def test_apel_a_correction_replaces(apel) -> None:
    """APEL gets the new version under the same key and has each job once."""
    apel.send(*jobs(3))
    corrected = [jobs(3)[0], jobs(3)[1]._replace(wall_s=999), jobs(3)[2]]
    apel.record(corrected[1])

    apel.publish()
    assert at_apel(apel.box.apel.job_records) == truth(corrected, by_lrms=True)
    assert len(apel.box.apel.job_records) == 3


def test_apel_a_resumed_job_counts_once(apel) -> None:
    """A job that was published as failed and ended again has another key: the old one goes with zeros, as is said."""
    failed = Job("resumed", JUNE, 60, 50, status="failed")
    apel.send(*jobs(2), failed)
    resumed = failed._replace(end_time=JUNE + 40 * DAY_S, wall_s=300, cpu_s=200, status="completed")
    apel.record(resumed)

    outcome = apel.publish()

    assert at_apel(apel.box.apel.job_records) == truth([*jobs(2), resumed], by_lrms=True)
    assert usage(apel.box.apel) == (500, 380)
    assert len(apel.box.apel.job_records) == 4
    assert any("with zeros" in note for note in outcome.summary.notes)
    assert "2024-06: usage is right, 1 job too many at the receiver: it never deletes a record" in outcome.summary.notes
    assert apel.box.apel.rejected == []
    again = failed._replace(wall_s=61, cpu_s=51)
    apel.send(again)
    assert at_apel(apel.box.apel.job_records) == truth([*jobs(2), again], by_lrms=True)


def test_apel_a_correction_that_apel_would_refuse_takes_nothing_back(apel) -> None:
    """What a job has become cannot be sent: what APEL has of it stays until there is something to replace it."""
    apel.send(*jobs(2))
    apel.refusable(Job("job00001", JUNE + 500), wall_s=2**40)

    apel.publish()
    assert at_apel(apel.box.apel.job_records) == truth(jobs(2), by_lrms=True)
    assert apel.held()["job00001"][0] == "quarantined"

    mended = Job("job00001", JUNE + 500, wall_s=7)
    apel.send(mended)
    assert at_apel(apel.box.apel.job_records) == truth([jobs(2)[0], mended], by_lrms=True)
    assert apel.held() == {}


@pytest.mark.parametrize("local_id", ["", "Upper-Case.17"], ids=["by-job-id", "by-lrms-id"])
def test_apel_a_key_is_met_again_whatever_its_letters(apel, local_id) -> None:
    """Zeros replace the row they are meant for, also for a job without an id in the batch system."""
    apel.send(Job("MixedCase", local_id=local_id))
    apel.record(Job("MixedCase", JUNE + 7, local_id=local_id))

    apel.publish()
    assert len(apel.box.apel.job_records) == 2
    assert usage(apel.box.apel) == (100, 90)


def test_apel_a_job_of_another_vo_is_taken_back(memory, empty_box) -> None:
    """A job whose VO turns out to be none of the target's is not left there."""
    site = Site(memory, empty_box, f"{CARS}vofilter=atlas\n")
    site.send(*jobs(2))
    site.record(jobs(2)[1]._replace(vo="cms", fqan="/cms"))

    site.publish()
    assert at_apel(empty_box.apel.job_records) == truth(jobs(1), by_lrms=True)
    site.send(jobs(2)[1])
    assert at_apel(empty_box.apel.job_records) == truth(jobs(2), by_lrms=True)


def test_a_job_without_usage_any_more_is_taken_back(memory, empty_box) -> None:
    """A job that is found to have vanished unfinished and unmeasured is not published, nor left where it was."""
    site = Site(memory, empty_box, SGAS + CARS)
    site.send(*jobs(2))
    site.record(jobs(2)[1]._replace(status="aborted", wall_s=0, cpu_s=0))

    site.publish_all()
    assert at_apel(empty_box.apel.job_records) == truth(jobs(1), by_lrms=True)
    assert site.held()["job00001"][0] == "correction"


def test_sgas_a_correction_is_not_sent_again_under_another_name(sgas) -> None:
    """A job of the batch system alone, whose host has another name now: a republish would make it two at SGAS."""
    job = Job("local", endpoint_url="")
    sgas.send(job)
    sgas.options["lrms_host"] = "other.example.org"
    sgas.configure(SGAS)
    sgas.send(job._replace(wall_s=999))

    sgas.republish()

    assert list(sgas.box.sgas.records) == ["ur-ce.example.org-local"]
    assert {job_id: state for job_id, (state, _why) in sgas.held().items()} == {"local": "correction"}


def test_a_correction_says_what_was_and_what_is(sgas) -> None:
    """Field by field; the digest proves that nothing else changed. The reason that two have stands once."""
    sgas.send(*jobs(4))
    first, second, third = jobs(4)[:3]
    sgas.send(first._replace(wall_s=999), second._replace(end_time=second.end_time + 60, cpu_s=7))
    conf = str(sgas.path / "arc.conf")

    shown = arcacct("--config", conf, "quarantine", "show", first.job_id).stdout
    listed = arcacct("--config", conf, "quarantine", "list").stdout

    assert f"wall time: was {first.wall_s} s, is 999 s" in shown
    assert "perhaps also in values" not in shown
    assert listed.count("keeps the first version") == 1
    assert "(1); wall time: was" in listed
    assert "CPU time: was" in listed
    assert (
        f"wall time: was {first.wall_s} s, is 999 s"
        in arcacct("--config", conf, "job", "--only", "why", first.job_id).stdout
    )
    compared = arcacct("--config", conf, "verify", "2024-06").stdout
    assert f"changed since it was sent (wall time: was {first.wall_s} s, is 999 s): " in compared
    sgas.send(third._replace(name="other"))
    assert "previous version is not stored" in arcacct("--config", conf, "quarantine", "show", third.job_id).stdout
    # Also by its id in the batch system, as `job why` takes it.
    assert arcacct("--config", conf, "quarantine", "show", first.lrms_id).stdout == shown
    assert arcacct("--config", conf, "quarantine", "drop", first.lrms_id).stdout == "1 record: dropped\n"
    assert arcacct("--config", conf, "quarantine", "retry", first.lrms_id).stdout == "1 record: retry\n"
    assert "several jobs" in arcacct("--config", conf, "quarantine", "show", first.job_id[:-1]).stderr
    assert arcacct("--config", conf, "job", "--only", "why", "").returncode == 65
