"""Jobs of which no one measured the wall time: published as 0, held, or with the LRMS's times, as the site says."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from installed import arcacct
from job_files import JOB, LOCAL, NOON_NS, NOON_S, Files, lay
from publishing_rig import TARGETS, Rig
from publishing_site import JUNE, SGAS, SUMMARIES, Job, Site, at_sgas, jobs, truth
from recording_host import Host
from slurm_files import row, table

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts
from arcacct.config.parser import load
from arcacct.config.paths import WAIT, JobRules
from arcacct.config.settings import settings
from arcacct.database import access, incarnation
from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.errors import ConfigError
from arcacct.records import holds, model, reader, usage
from arcacct.records.enrichment import enrich
from arcacct.records.recorder import record
from arcacct.records.writer import JobWriter
from arcacct.targets import kinds

UNMEASURED = Job("unknown1", JUNE + 50, 0, 0, is_measured=False)
MEASURED = UNMEASURED._replace(wall_s=300, cpu_s=270, is_measured=True)
RAN = UNMEASURED._replace(ran=(JUNE - 1000, JUNE - 200))


def decide(site: Site, state: str) -> None:
    here = site.settings.places
    with access.accounting(here) as con, access.writing(con, here):
        (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (UNMEASURED.job_id,)).fetchone()
        assert holds.decide(con, record_id, state, "root")


def shown(site: Site) -> tuple[object, ...]:
    """Wall time, whether no one told it, and whether the record is held."""
    (row,) = site.database(
        "SELECT wall_s, (SELECT Source FROM FieldSources JOIN AAR USING (RecordID)"
        "  WHERE JobID = job_id AND Field = 'wall_s'), hold_reasons, hold_state FROM v1_jobs WHERE job_id = ?",
        UNMEASURED.job_id,
    )
    return row


def published(site: Site) -> None:
    for outcome in site.publish_all():
        assert outcome.error is None


def at_portal(site: Site) -> tuple[int, int]:
    """Jobs and wall time of the month at APEL's portal."""
    (total,) = [one for (_site, *month), one in site.box.apel.totals().items() if month == [2024, 6]]
    return total.jobs, total.wall_s


def test_it_is_published_as_0_and_corrected_when_it_is_measured(memory, empty_box) -> None:
    """What a site does that says nothing. (SGAS keeps the version that it has.)"""
    site = Site(memory, empty_box, SGAS + SUMMARIES)
    site.record(*jobs(3), UNMEASURED)
    published(site)
    assert at_sgas(empty_box.sgas.records) == truth([*jobs(3), UNMEASURED])
    assert at_portal(site) == (4, 300)
    assert shown(site) == (None, "unknown", None, None)

    site.record(MEASURED)
    published(site)

    assert at_portal(site) == (4, 600)
    assert shown(site) == (300, None, None, None)


@pytest.mark.parametrize("kind", TARGETS)
def test_where_the_site_waits_it_reaches_nobody_before_it_is_measured(kind, memory, empty_box) -> None:
    """Neither as a record nor in a sum; then everybody."""
    rig = Rig(kind, memory, empty_box)
    wait(rig.site)
    rig.record(3)
    rig.site.record(UNMEASURED)
    for _run in range(2):
        assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert shown(rig.site) == (None, "unknown", "not-measured", "held")

    rig.site.record(MEASURED)
    published(rig.site)

    assert rig.received() == rig.wanted([*rig.jobs, MEASURED])
    assert shown(rig.site) == (300, None, None, None)


def wait(site: Site, choice: str = WAIT) -> None:
    """The site changes its mind."""
    site.options["missing_wall_time"] = choice
    path = site.path / "arcacct.conf"
    path.write_text(path.read_text().replace("[arcacct]\n", f"[arcacct]\nmissing_wall_time={choice}\n", 1))
    site.settings = settings(load(str(site.path / "arc.conf"), {}), kinds())


def test_a_job_that_is_recorded_while_a_run_starts_waits_too(memory, empty_box, monkeypatch) -> None:
    """Between the last look at the log and the fence, by an import that runs at the same time."""
    site = Site(memory, empty_box, SGAS + SUMMARIES, missing_wall_time=WAIT)
    site.record(*jobs(3))
    begin_run = incarnation.begin_run

    def meanwhile(*args):
        site.record(UNMEASURED)
        return begin_run(*args)

    monkeypatch.setattr(incarnation, "begin_run", meanwhile)
    published(site)

    assert at_sgas(empty_box.sgas.records) == truth(jobs(3))
    assert at_portal(site) == (3, 300)


@pytest.mark.parametrize("decision", ["unknown", "bound", "reported"])
def test_an_operator_may_end_the_wait(decision, memory, empty_box) -> None:
    """It is sent as 0 then, and the decision stays when something else of the record changes."""
    site = Site(memory, empty_box, SGAS + SUMMARIES, missing_wall_time=WAIT)
    site.record(*jobs(3), UNMEASURED)
    published(site)
    assert at_portal(site) == (3, 300)

    decide(site, decision)
    published(site)
    assert at_sgas(empty_box.sgas.records) == truth([*jobs(3), UNMEASURED])
    assert at_portal(site) == (4, 300)

    site.record(UNMEASURED._replace(vo="cms", fqan="/cms"))
    published(site)
    assert shown(site)[-1] == decision
    site.record(MEASURED)
    published(site)
    assert at_portal(site) == (4, 600)


@pytest.mark.parametrize("choice", ["wait", "lrms"])
def test_what_was_published_stays_when_the_site_changes_its_mind(choice, memory, empty_box) -> None:
    site = Site(memory, empty_box, SGAS + SUMMARIES)
    site.record(*jobs(3), RAN)
    published(site)
    log = site.database("SELECT * FROM FinishedLog")

    wait(site, choice)
    published(site)

    assert site.database("SELECT * FROM FinishedLog") == log
    assert at_portal(site) == (4, 300)


@pytest.mark.parametrize("wall_s", [300, 0])
def test_the_batch_systems_times_stand_in(wall_s, memory, empty_box) -> None:
    """Where it has them; a measurement that comes later counts more."""
    site = Site(memory, empty_box, SGAS + SUMMARIES, missing_wall_time="lrms")
    without = UNMEASURED._replace(job_id="without1")
    site.record(*jobs(3), RAN, without)
    published(site)
    assert at_sgas(empty_box.sgas.records) == truth([*jobs(3), RAN._replace(wall_s=800), without])
    assert at_portal(site) == (5, 1100)
    assert shown(site) == (800, "derived", None, None)
    site.record(RAN)
    assert shown(site) == (800, "derived", None, None)

    site.record(MEASURED._replace(wall_s=wall_s, cpu_s=0))
    published(site)
    assert at_portal(site) == (5, 300 + wall_s)
    assert shown(site) == (wall_s, None, None, None)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        ((JUNE, JUNE - 1), (None, "unknown", None, None)),
        ((JUNE - 10**6, JUNE), (None, "derived", "wall-beyond-life", "held")),
    ],
    ids=["backwards", "longer than the job"],
)
def test_times_that_cannot_be_true_are_not_published(ran, expected, memory, empty_box) -> None:
    site = Site(memory, empty_box, SUMMARIES, missing_wall_time="lrms")
    site.record(*jobs(3), UNMEASURED._replace(ran=ran))
    published(site)

    assert at_portal(site)[1] == 300
    assert shown(site) == expected


@pytest.fixture
def con():
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


def finished(con: sqlite3.Connection, diag: bytes | None, choice: str = WAIT, *, failed: bool = False) -> None:
    files = JobFiles("/control", JOB, "FINISHED")
    files.event_ns, files.local, files.diag, files.failed = NOON_NS, LOCAL, diag, failed
    record(con, job_facts(files, JobRules("HEPSPEC:12.26", missing_wall_time=choice)))


@pytest.mark.parametrize("is_known", [False, True], ids=["a job never seen", "a job in progress"])
def test_the_recorder_holds_it_at_once(con, is_known) -> None:
    """So no run that is under way has it in its sums; the log has it once. A measured 0 does not wait."""
    if is_known:
        files = JobFiles("/control", JOB, "ACCEPTED")
        files.event_ns, files.local = NOON_NS - 10**12, LOCAL
        record(con, job_facts(files, JobRules("HEPSPEC:12.26")))
    finished(con, None)
    assert con.execute("SELECT Seq FROM FinishedLog").fetchall() == [(1,)]
    assert usage.usage_cells(con) == []
    assert not reader.logged_after(con, 0, 100).records
    finished(con, None)
    assert con.execute("SELECT State FROM RecordHolds").fetchall() == [("held",)]

    finished(con, b"WallTime=0.04s\nUserTime=0.01s\n")
    assert con.execute("SELECT count(*) FROM RecordHolds").fetchone() == (0,)
    assert [cell.jobs for cell in usage.usage_cells(con)] == [1]


def test_a_job_that_never_ran_does_not_wait(con) -> None:
    finished(con, None, failed=True)
    assert con.execute("SELECT count(*) FROM RecordHolds").fetchone() == (0,)


def test_what_the_batch_system_measured_ends_the_wait(con) -> None:
    """An import that fills in the wall time."""
    finished(con, None)
    enrich(con, 1, "sacct", {"wall_s": 60, "cpu_user_s": 50, "cpu_kernel_s": 0})

    assert con.execute("SELECT count(*) FROM RecordHolds").fetchone() == (0,)
    assert [(cell.jobs, cell.wall_s) for cell in usage.usage_cells(con)] == [(1, 60)]


def test_jobs_of_a_batch_system_wait_too(memory, empty_box) -> None:
    """Also while an import is repeated; what was decided stays, until the import has a wall time."""
    site = Site(memory, empty_box, SUMMARIES, missing_wall_time=WAIT)
    site.record(*jobs(3))

    def imported(wall_s: int | None) -> None:
        told = model.Job(
            UNMEASURED.job_id, "completed", JUNE - 900, JUNE, user_dn="/CN=Ada", vo="cms", wall_s=wall_s, exit_code=0
        )
        here = site.settings.places
        with access.accounting(here) as con, access.writing(con, here):
            JobWriter(con, "htcondor", "schedd").write([told])
        published(site)

    imported(None)
    assert shown(site)[2:] == ("not-measured", "held")
    assert at_portal(site) == (3, 300)
    decide(site, "unknown")
    imported(None)
    assert shown(site)[2:] == ("not-measured", "unknown")
    assert at_portal(site) == (4, 300)
    imported(600)
    assert shown(site) == (600, None, None, None)
    assert at_portal(site) == (4, 900)


def test_another_word_is_refused(tmp_path) -> None:
    (tmp_path / "arc.conf").write_text("[common]\nhostname=ce.example.org\n[lrms]\nlrms=fork\n")
    (tmp_path / "arcacct.conf").write_text("[arcacct]\nmissing_wall_time=perhaps\n")
    conf = load(str(tmp_path / "arc.conf"), {})
    with pytest.raises(ConfigError, match="missing_wall_time"):
        settings(conf, kinds())


def test_job_why_does_not_take_unknown_for_0(tmp_path) -> None:
    """Neither for the wall and CPU time nor for the submission."""
    site = Site(tmp_path, None, "")
    site.record(UNMEASURED)
    with closing(sqlite3.connect(site.settings.places.database)) as con, con:
        con.execute("UPDATE AAR SET SubmitTime = 0")
    told = arcacct("--config", str(tmp_path / "arc.conf"), "job", "--only", "why", UNMEASURED.job_id).stdout

    assert "submitted at an unknown time, ended 2024-06-15T12:00:50Z, wall unknown, CPU unknown, 1 core" in told


TIMES = b"nodename=n1\nexitcode=0\nLRMSStartTime=20261120110500Z\nLRMSEndTime=20261120111820Z\nProcessors=1\n"
"""A .diag without measurements, of a job that ran for 800 s."""


def verified(site: Site, *options: str) -> tuple[int, list[dict]]:
    done = arcacct("--config", site.path / "arc.conf", "verify", "2026-11", "--format", "json", *options)
    return done.returncode, json.loads(done.stdout)["differences"]


@pytest.mark.parametrize("late", [b"WallTime=700s\nUserTime=650.0s\n", b"UserTime=650.0s\n", b""])
def test_verify_takes_the_batch_systems_times_for_what_they_are(late, memory, empty_box) -> None:
    """What the files do not have is no difference; a measurement that came later is one, until a sweep records it."""
    site = Site(memory, empty_box, SGAS + SUMMARIES, missing_wall_time="lrms")
    host = Host(site.path)
    site.configure(SGAS + SUMMARIES)
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    lay(host.control, Files("FINISHED", NOON_NS, diag=TIMES), JOB)
    host.run("FINISHED")
    host.sweep(str(site.path / "arc.conf"))
    published(site)
    assert site.database("SELECT wall_s FROM v1_jobs") == [(800,)]
    assert verified(site) == (0, [])

    lay(host.control, Files("FINISHED", NOON_NS, diag=TIMES + late), JOB)
    code, differences = verified(site)
    assert (code, [one["job_id"] for one in differences]) == ((1, [JOB]) if late else (0, []))
    assert all("`arcacct sweep`" in one["text"] for one in differences)
    if late:
        assert arcacct("--config", site.path / "arc.conf", "sweep").returncode == 0
        assert [one for one in verified(site)[1] if one["source"] == "control directory"] == []


def test_verify_takes_what_the_batch_system_measured(memory, empty_box) -> None:
    """After an import, the files have no wall time, and the record has one."""
    site = Site(memory, empty_box, SUMMARIES)
    host = Host(site.path)
    site.configure(SUMMARIES)
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    lay(host.control, Files("FINISHED", NOON_NS, LOCAL.replace(b"lrms=fork", b"lrms=slurm"), None), JOB)
    host.sweep(str(site.path / "arc.conf"))
    start_s = NOON_S - 900
    ran = row(4711, Submit=start_s, Start=start_s, End=start_s + 800, ElapsedRaw=800)
    (memory / "sacct.txt").write_bytes(table(ran))
    done = arcacct("--config", site.path / "arc.conf", "import", "slurm", "--timezone", "UTC", memory / "sacct.txt")
    assert done.returncode == 0, done.stderr
    published(site)

    assert site.database("SELECT wall_s FROM v1_jobs") == [(800,)]
    assert verified(site) == (0, [])
