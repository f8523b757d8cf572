"""Jobs that were killed before A-REX took them: failed and published, or aborted and in no figure, by an option."""

from __future__ import annotations

import json

import pytest
from campaigns import cross
from installed import arcacct
from job_files import DIAG, JOB, LOCAL, NOON_NS, Files, lay
from publishing_site import SGAS, SUMMARIES, Site, at_sgas
from recording_host import Host

OPTION = "killed_before_arex=recorded"
TAKEN = LOCAL + b"lifetime=604800\n"
"""What A-REX makes of .local when it takes the job."""
KILLED = Files("FINISHED", NOON_NS, LOCAL, None, None, b"User requested to cancel the job\n")
ACCEPTED = Files("ACCEPTED", NOON_NS - 10**11, LOCAL, None, None, None, None)
OTHER = "Other"


@pytest.fixture
def site(memory, empty_box) -> Site:
    """One that publishes records and sums."""
    return Site(memory, empty_box, SGAS + SUMMARIES)


def choose(site: Site, option: str) -> Host:
    """The hook of the site, with an option of its configuration."""
    host = Host(site.path)
    # The month is whole here.
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    site.options |= dict([option.split("=")] if option else [])
    site.configure(SGAS + SUMMARIES)
    host.conf = site.path / "arc.conf"
    return host


def live(host: Host, *states: Files, job_id: str = JOB) -> None:
    for files in states:
        lay(host.control, files, job_id)
        host.run(files.state, job_id)


def figures(site: Site) -> tuple[list[tuple[object, ...]], set[str], int, int]:
    """Statuses, what SGAS has, jobs at APEL's portal, and those of v1_usage_by_month."""
    for outcome in site.publish_all():
        assert outcome.error is None
    portal = sum(total.jobs for total in site.box.apel.totals().values())
    ((jobs,),) = site.database("SELECT ifnull(sum(jobs), 0) FROM v1_usage_by_month")
    statuses = site.database("SELECT job_id, status FROM v1_jobs ORDER BY job_id")
    return statuses, set(at_sgas(site.box.sgas.records)), portal, jobs


@pytest.mark.parametrize(
    ("option", "way"),
    cross(4, ["", "killed_before_arex=published", OPTION], ["hook", "hook and sweep", "sweep", "other order"]),
)
def test_a_job_that_was_killed_before_arex_took_it(site, option, way) -> None:
    """Recorded either way; in messages and sums only as failed, and `verify` agrees with both."""
    host = choose(site, option)
    live(host, Files("FINISHED", NOON_NS, TAKEN, DIAG), job_id=OTHER)
    if way == "other order":
        live(host, KILLED, KILLED)
        host.run("ACCEPTED")
    elif way != "sweep":
        live(host, ACCEPTED, KILLED, KILLED)
    else:
        lay(host.control, KILLED)
    if "sweep" in way:
        host.sweep(str(host.conf))
        host.sweep(str(host.conf))

    is_aborted = option == OPTION
    statuses, at_sgas_now, portal, jobs = figures(site)
    assert statuses == [(OTHER, "completed"), (JOB, "aborted" if is_aborted else "failed")]
    assert len(at_sgas_now) == portal == jobs == (1 if is_aborted else 2)
    done = arcacct("--config", host.conf, "verify", "2026-11", "--format", "json")
    assert json.loads(done.stdout)["differences"] == []


@pytest.mark.parametrize(
    "files",
    [
        KILLED._replace(local=TAKEN),
        KILLED._replace(diag=b""),
        KILLED._replace(failed=None),
        KILLED._replace(local=LOCAL.rpartition(b"starttime")[0]),
    ],
    ids=["taken, and killed while it waited", "prepared", "not failed", "a torn .local"],
)
def test_any_other_job_is_counted(site, files) -> None:
    """Of which A-REX has a record, or nothing says that it has none."""
    host = choose(site, OPTION)
    live(host, ACCEPTED, files)

    assert len(figures(site)[1]) == 1


def test_a_job_that_was_published_stays_as_it_was(site) -> None:
    """The choice is for jobs that end after it: all files are read again after an upgrade of ARC."""
    host = choose(site, "")
    live(host, ACCEPTED, KILLED)
    before = figures(site)
    site.options |= dict([OPTION.split("=")])
    site.configure(SGAS + SUMMARIES)
    host.run("FINISHED")

    assert figures(site) == before
    assert before[2:] == (1, 1)


@pytest.mark.parametrize("was_swept", [True, False], ids=["swept", "not swept"])
@pytest.mark.parametrize(("first", "then"), [(OPTION, ""), ("", OPTION)], ids=["published again", "recorded only"])
def test_verify_agrees_after_the_option_changed(site, first, then, was_swept) -> None:
    """The option applies to later jobs, and no sweep changes the earlier ones: that is no difference."""
    host = choose(site, first)
    live(host, ACCEPTED, KILLED)
    live(host, Files("FINISHED", NOON_NS, TAKEN, DIAG), job_id=OTHER)
    if was_swept:
        host.sweep(str(host.conf))
    before = figures(site)
    site.options.pop("killed_before_arex", None)
    host = choose(site, then)
    host.run("FINISHED")
    host.sweep(str(host.conf))
    assert figures(site) == before

    done = arcacct("--config", host.conf, "verify", "2026-11", "--format", "json")

    assert (done.returncode, json.loads(done.stdout)["differences"]) == (0, [])


def test_why_it_is_not_at_the_receiver(site) -> None:
    host = choose(site, OPTION)
    live(host, ACCEPTED, KILLED)
    figures(site)

    assert "killed before A-REX accepted it" in arcacct("--config", host.conf, "job", "--only", "why", JOB).stdout
