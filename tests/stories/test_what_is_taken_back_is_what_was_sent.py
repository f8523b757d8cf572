"""
What is taken back is what was sent (INVARIANTS 18): every group of names that APEL sums has the usage that is here.

APEL's portal shows a table that no one empties: a group that has lost its records keeps its last sum.
"""

from __future__ import annotations

import json
import pathlib
import sqlite3
import time
from contextlib import closing, nullcontext
from typing import Any

import pytest
from campaigns import cross
from in_process import said
from publishing_site import AUDITOR, CARS, JUNE, SGAS, SUMMARIES, Job, Site, at_sgas, jobs, truth

from arcacct.database import access
from arcacct.records.pseudonymise import Scope, plan, pseudonymise

FAMILIES = ("urs", "individual", "individual-v04")
GROUP = ("GlobalUserName", "VO", "VOGroup", "VORole", "NodeCount", "Processors", "ServiceLevelType", "ServiceLevel")


@pytest.fixture(params=FAMILIES)
def site(request, memory, empty_box) -> Site:
    """A site that publishes job records to APEL, whose summariser ran after each message."""
    return Site(memory, empty_box, CARS.replace("=urs", f"={request.param}"))


def publish(site: Site) -> Any:
    """One run, without an error, and the summariser's next run."""
    outcome = site.publish()
    assert outcome.error is None
    site.box.apel.summarise()
    return outcome


def usage(site: Site) -> dict[tuple[Any, ...], int]:
    """Wall seconds of each group at the portal with any."""
    found: dict[tuple[Any, ...], int] = {}
    for row in site.box.apel.hybrid.values():
        group = tuple(row[name] for name in ("GlobalUserName", "VO", "Processors", "NodeCount", "ServiceLevel"))
        found[group] = found.get(group, 0) + row["WallDuration"]
    return {group: wall_s for group, wall_s in found.items() if wall_s}


def expected(*here: Job) -> dict[tuple[Any, ...], int]:
    """The same of the jobs of the database."""
    found: dict[tuple[Any, ...], int] = {}
    for job in here:
        group = (job.user_dn, job.vo, job.cores, job.nodes, float(job.benchmark.partition(":")[2]))
        found[group] = found.get(group, 0) + job.wall_s
    return found


def portal_jobs(site: Site) -> int:
    return sum(row["NumberOfJobs"] for row in site.box.apel.hybrid.values())


OTHERWISE: dict[str, dict[str, Any]] = {
    "cores": {"cores": 8},
    "nodes": {"nodes": 2},
    "VO": {"vo": "cms", "fqan": "/cms/Role=NULL"},
    "role": {"fqan": "/atlas/Role=pilot"},
    "user": {"user_dn": "/DC=org/DC=example/CN=Charles Babbage"},
    "benchmark": {"benchmark": "HEPSPEC:11.5"},
}


@pytest.mark.parametrize(("site", "what"), cross(6, FAMILIES, [*OTHERWISE]), indirect=["site"])
def test_jobs_that_move_to_another_group_leave_no_usage(site, what) -> None:
    """Ten jobs get another core count and so on: APEL's usage stays right, and the surplus of jobs is said."""
    before = jobs(10)
    site.record(*before)
    publish(site)
    after = [job._replace(**OTHERWISE[what]) for job in before]
    site.record(*after)

    outcome = publish(site)
    assert usage(site) == expected(*after)
    # One record with zeros, in the group that is empty now.
    assert portal_jobs(site) == 11
    assert "2024-06: usage is right, 1 job too many at the receiver: it never deletes a record" in outcome.summary.notes
    assert sum(row["NumberOfJobs"] for row in site.box.apel.sync_records.values()) == 10

    assert publish(site).summary.withdrawn == set()
    assert site.republish().error is None
    assert (usage(site), portal_jobs(site)) == (expected(*after), 11)
    assert site.audit() == []


def test_a_group_that_keeps_a_job_needs_no_record_of_its_own(site) -> None:
    """The summariser sums the jobs that are left."""
    first, second = jobs(2)
    site.record(first, second)
    publish(site)
    site.record(second._replace(cores=4))
    publish(site)
    assert usage(site) == expected(first, second._replace(cores=4))
    assert portal_jobs(site) == 2


def test_a_group_gets_one_record_of_its_own_however_often_it_is_left(site) -> None:
    """It goes back and forth; a group that has had a record with zeros keeps it."""
    (job,) = jobs(1)
    for cores in (1, 4, 1, 4, 1):
        site.record(job._replace(cores=cores))
        publish(site)
        assert usage(site) == expected(job._replace(cores=cores))
    assert portal_jobs(site) == 3


@pytest.mark.parametrize(("site", "what"), cross(6, FAMILIES, [*OTHERWISE]), indirect=["site"])
def test_zeros_carry_the_names_that_were_sent(site, what) -> None:
    """A job alone in its group is resumed, and ends with another end and other names: two keys, two groups."""
    (job,) = jobs(1)
    site.record(job)
    publish(site)
    resumed = job._replace(end_time=JUNE + 500, wall_s=70, **OTHERWISE[what])
    site.record(resumed)

    publish(site)
    assert usage(site) == expected(resumed)
    assert portal_jobs(site) == 2
    assert site.republish().error is None
    assert usage(site) == expected(resumed)


def test_a_deleted_job_takes_its_usage_with_it(site) -> None:
    """Nothing of it is left here; the ledger has its names."""
    first, second = jobs(2)
    site.record(first, second._replace(user_dn="/CN=Somebody Else", cores=16))
    publish(site)
    site.sql(f"DELETE FROM AAR WHERE JobID = '{second.job_id}'")
    publish(site)
    assert usage(site) == expected(first)
    assert {row["GlobalUserName"] for row in site.box.apel.hybrid.values()} == {first.user_dn, "/CN=Somebody Else"}


def test_zeros_are_repeated_under_the_names_that_were_sent_last(site) -> None:
    """A job is taken back in one group, returns in another and is deleted: the summariser ran after each run."""
    site.box.apel.summarises_each_message = False
    first, second = jobs(2)
    site.record(first, second)
    publish(site)
    site.record(second._replace(wall_s=JUNE))
    publish(site)
    site.record(second._replace(cores=8))
    publish(site)
    site.sql(f"DELETE FROM AAR WHERE JobID = '{second.job_id}'")

    for _ in range(2):
        outcome = publish(site)
        assert usage(site) == expected(first)
    assert portal_jobs(site) == 2
    assert outcome.summary.withdrawn == set()


@pytest.mark.parametrize(("site", "state"), cross(3, FAMILIES, ["held", "excluded"]), indirect=["site"])
def test_a_published_job_that_no_figure_has_any_more_is_taken_back(site, state) -> None:
    """Its values turned impossible, or an operator excluded it; once decided otherwise it is sent again."""
    first, second = jobs(2)
    site.record(first, second)
    publish(site)
    lie = second._replace(wall_s=JUNE)
    site.record(lie)
    if state == "excluded":
        site.decide(second, state)
    publish(site)
    assert usage(site) == expected(first)

    site.decide(second, "bound")
    publish(site)
    ((bound_s,),) = site.database(f"SELECT UsedWalltime FROM AccountedAAR WHERE JobID = '{second.job_id}'")
    assert sum(usage(site).values()) == first.wall_s + bound_s < first.wall_s + JUNE


def lose_ledger(site: Site) -> None:
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{site.settings.places.publishing_database}{suffix}").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("site", "what", "neighbours", "lost_first", "again"),
    cross(15, FAMILIES, ["deleted", "held", "excluded", "resumed", "cores"], [0, 2], [False, True], [False, True]),
    indirect=["site"],
)
def test_a_lost_ledger_leaves_no_usage(site, what, neighbours, lost_first, again) -> None:
    """Whatever happened to a job that was sent: the sums of the database know the group that it was in."""
    one, *others = jobs(1 + neighbours)
    site.record(one, *others)
    publish(site)
    if lost_first:
        lose_ledger(site)
    now = [*others]
    if what == "deleted":
        site.sql(f"DELETE FROM AAR WHERE JobID = '{one.job_id}'")
    elif what in ("held", "excluded"):
        site.record(one._replace(wall_s=JUNE))
        if what == "excluded":
            site.decide(one, what)
    else:
        now.append(one._replace(cores=8) if what == "cores" else one._replace(end_time=JUNE + 900, wall_s=70))
        site.record(now[-1])
    if not lost_first:
        lose_ledger(site)

    # The first run finds that the ledger is lost, and sends everything again.
    outcome = site.republish() if again else site.publish()
    assert outcome.error is None
    site.box.apel.summarise()
    assert usage(site) == expected(*now)


def test_sums_of_a_former_kind_are_sent_after_a_lost_ledger(memory, empty_box) -> None:
    """The month keeps its kind, and its count stays what is here, though one of its jobs was deleted."""
    site = Site(memory, empty_box, SUMMARIES)
    first, second = jobs(2)
    site.record(first, second)
    publish(site)
    site.sql(f"DELETE FROM AAR WHERE JobID = '{second.job_id}'")
    publish(site)
    site.configure(CARS)
    publish(site)
    lose_ledger(site)

    publish(site)
    assert usage(site) == expected(first)
    assert [row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()] == [1]


def test_no_count_of_an_incomplete_month_is_taken_for_known(site) -> None:
    """Only a lost ledger knew the count, and the month's one job is held: the run asks, and then announces 0 jobs."""
    (job,) = jobs(1)
    site.record(job)
    publish(site)
    site.record(job._replace(wall_s=JUNE))
    lose_ledger(site)
    site.sql(f"UPDATE DBConfig SET KeyValue = '{JUNE}' WHERE KeyName = 'ARCACCT_CREATED'")

    error = str(site.publish(since=1).error)
    assert "2024-06 is held" in error
    assert "--accept-lower 2024-06" in error
    assert site.publish(accept_lower=((2024, 6),)).error is None
    assert [row["NumberOfJobs"] for row in site.box.apel.sync_records.values()] == [0]
    assert usage(site) == {}


@pytest.mark.parametrize(("site", "what"), cross(3, FAMILIES, ["deleted", "moved", "held"]), indirect=["site"])
def test_a_republish_takes_back_before_any_publish(site, what) -> None:
    """A job was deleted, ended in another month or is held since the last run: its month is right after a republish."""
    one, other = jobs(2)
    site.record(one, other)
    publish(site)
    now = [other]
    if what == "deleted":
        site.sql(f"DELETE FROM AAR WHERE JobID = '{one.job_id}'")
    elif what == "held":
        site.record(one._replace(wall_s=JUNE))
    else:
        now.append(one._replace(end_time=JULY + 900, wall_s=70))
        site.record(now[-1])

    assert site.republish(JULY - 30 * 86_400, JULY).error is None
    site.box.apel.summarise()
    assert usage(site) == expected(*now)
    publish(site)
    assert usage(site) == expected(*now)
    assert site.audit() == []


KEEPERS = [pytest.param(SGAS, id="sgas"), pytest.param(AUDITOR, id="auditor")]


@pytest.mark.parametrize("target", KEEPERS)
@pytest.mark.parametrize("state", ["held", "excluded", "deleted"])
def test_a_receiver_that_keeps_records_is_asked_to_delete_them(target, state, memory, empty_box) -> None:
    """The job is a correction; once the administrator has deleted its record there, nothing is left to do."""
    site = Site(memory, empty_box, target)
    first, second = jobs(2)
    site.send(first, second)
    if state == "deleted":
        site.sql(f"DELETE FROM AAR WHERE JobID = '{second.job_id}'")
    else:
        site.record(second._replace(wall_s=JUNE))
    if state == "excluded":
        site.decide(second, state)

    outcome = site.publish()
    assert outcome.summary.corrections == 1
    ((job_id, (found, why)),) = site.held().items()
    assert (job_id, found) == (second.job_id, "correction")
    assert "arcacct quarantine retry" in why

    key = f"ur-ce.example.org-{second.job_id}"
    if target == SGAS:
        empty_box.sgas._stored.pop(key)
    else:
        empty_box.auditor.forget(key)
    con = access.open_publishing(site.settings.places)
    con.execute("UPDATE HeldRecords SET State = 'retry'")
    con.close()
    assert site.publish().error is None
    assert site.held() == {}
    assert site.audit() == []
    if state != "deleted":
        site.decide(second, "bound")
        assert site.publish().error is None
        if target == SGAS:
            assert at_sgas(empty_box.sgas.records).keys() == truth([first, second]).keys()


JULY = 1_719_792_000
"""2024-07-01 00:00:00 UTC."""


def forget(site: Site) -> tuple[int, dict[str, int]]:
    """Replace the names of June; how many jobs changed, and the reasons of those that kept their names."""
    here = site.settings.places
    scope = Scope(JULY, None, tuple(one.block for one in site.settings.targets))
    with closing(access.open_accounting(here)) as con, closing(access.open_publishing(here)) as ledger:
        left = dict(plan(con, ledger, scope).left)
        return pseudonymise(here, con, ledger, scope, alone=nullcontext), left


def test_names_are_kept_until_they_are_no_longer_needed(site) -> None:
    """A job that was deleted must be taken back under the names that were sent; then they are replaced."""
    first, second = jobs(2)
    site.record(first, second._replace(user_dn="/CN=Somebody Else"))
    publish(site)
    site.sql(f"DELETE FROM AAR WHERE JobID = '{second.job_id}'")

    assert forget(site) == (0, {"not sent to [arex/jura/apel:a] yet": 1})
    publish(site)
    assert usage(site) == expected(first)
    assert forget(site) == (1, {})
    names = " ".join(text for (text,) in site.ledger("SELECT Names FROM SentNames"))
    assert "pseudonym-" in names
    assert "CN=" not in names
    assert site.audit() == []


def test_names_that_are_gone_take_nothing_back(site) -> None:
    """The run says so, and sends nothing under a pseudonym."""
    before = jobs(2)
    site.record(*before)
    publish(site)
    assert forget(site)[0] == 2
    site.sql(f"DELETE FROM AAR WHERE JobID = '{before[1].job_id}'")

    outcome = publish(site)
    assert [note for note in outcome.summary.notes if "`arcacct db forget` replaced them" in note] != []
    assert site.republish().error is None
    assert usage(site) == expected(*before)


def test_verify_and_status_say_how_many_jobs_are_too_many(site, capsys) -> None:
    """A job of this month moves to another group: usage is right, nothing is wrong, and the surplus is said."""
    now = int(time.time())
    job = Job("one", now - 60)
    site.record(job)
    publish(site)
    month = time.strftime("%Y-%m", time.gmtime(job.end_time))
    config = ("--config", site.path / "arc.conf")
    before = said(capsys, *config, "verify", month, "--format", "csv")
    assert "too many" not in before.stdout
    site.record(job._replace(cores=4))
    publish(site)

    verified = said(capsys, *config, "verify", month, "--format", "csv")
    (line,) = [line for line in verified.stdout.splitlines() if line.startswith("apel:a,")]
    assert "usage yes, 1 job too many" in line
    told = said(capsys, *config, "status", "--format", "json").stdout
    (check,) = [one for one in json.loads(told) if one["subject"] == "apel:a surplus"]
    assert check["text"] == f"{month}: usage is right, 1 job too many: the receiver never deletes a record"
    assert check["severity"] == 0


@pytest.mark.parametrize(
    ("site", "change"),
    cross(3, FAMILIES, [{"cores": 8}, {"end_time": JUNE + 900, "cores": 8}, None]),
    indirect=["site"],
)
def test_records_that_a_former_program_sent_leave_no_usage(site, change) -> None:
    """It stored no names: those of the sums of the database are used, which had the job before it changed."""
    (job,) = jobs(1)
    site.record(job)
    publish(site)
    ledger = sqlite3.connect(site.settings.places.publishing_database)
    ledger.execute("UPDATE SentNames SET Names = json_array(Site, SubmitHost)")
    ledger.commit()
    ledger.close()
    if change is None:
        site.sql(f"DELETE FROM AAR WHERE JobID = '{job.job_id}'")
    else:
        site.record(job._replace(**change))

    publish(site)
    assert usage(site) == (expected() if change is None else expected(job._replace(**change)))
    assert site.audit() == []


def test_the_portal_may_show_the_surplus(site, capsys) -> None:
    """An export of jobs by VO agrees with the surplus that is known here, and no other number does."""
    first, second = jobs(2)
    site.record(first, second)
    publish(site)
    site.record(first._replace(vo="cms", fqan="/cms/Role=NULL"), second._replace(vo="cms", fqan="/cms/Role=NULL"))
    publish(site)
    export = site.path / "portal.csv"
    shown = {}
    for row in site.box.apel.hybrid.values():
        shown[row["VO"]] = shown.get(row["VO"], 0) + row["NumberOfJobs"]
    assert shown == {"atlas": 1, "cms": 2}

    for more, agrees in ((0, True), (1, False)):
        export.write_text(f"VO,2024-06\natlas,{1 + more}\ncms,2\n")
        verified = said(
            capsys, *("--config", site.path / "arc.conf", "verify", "2024-06", "--portal", export, "--format", "json")
        )
        (source,) = [one for one in json.loads(verified.stdout)["sources"] if one["name"].startswith("portal")]
        assert source["agrees"] is agrees
