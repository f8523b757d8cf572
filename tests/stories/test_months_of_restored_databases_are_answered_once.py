"""Both databases were restored: each month that this touches is held by name, and answered once."""

from __future__ import annotations

import pathlib
import tempfile
import time

import pytest
from campaigns import cross, sample
from publishing_site import CARS, SGAS, SUMMARIES, Job, Site, at_sgas
from receiver_rows import export

from arcacct.database import upkeep
from arcacct.errors import FiguresHeld
from arcacct.times import month_bounds, month_name, month_of

NOW = int(time.time())
THIS = month_of(NOW)
LAST = month_of(month_bounds(*THIS)[0] - 1)
BEFORE = month_of(month_bounds(*LAST)[0] - 1)
OLD = month_of(month_bounds(*BEFORE)[0] - 1)


def ended(month: tuple[int, int], count: int, first: int = 0, **values) -> list[Job]:
    """Jobs that ended at the beginning of a month, a second apart."""
    begin = month_bounds(*month)[0]
    return [
        Job(f"{month_name(month)}-{number:03d}", begin + number, **values) for number in range(first, first + count)
    ]


def backups(site: Site) -> list[str]:
    """Copies of both databases, as `db backup` makes them."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="copies", dir=site.path))
    return [copy.path for copy in upkeep.backups(site.settings.places, str(folder))]


def restore(site: Site, copies: list[str], *, lost: bool = False) -> None:
    """`db restore` of both; ``lost``: nothing is left of those that they replace."""
    here = site.settings.places
    if lost:
        for path in (here.database, here.publishing_database):
            for suffix in ("", "-wal", "-shm"):
                pathlib.Path(path + suffix).unlink(missing_ok=True)
    for copy in copies:
        upkeep.restore(here, copy)


def at_portal(site: Site) -> dict[tuple[int, int], int]:
    """The wall seconds of each month at the portal."""
    return {(year, month): one.wall_s for (_site, year, month), one in site.box.apel.totals().items() if one.wall_s}


def answer(site: Site) -> Site:
    """The operator accepts the months that are held, all at once."""
    held = site.ledger("SELECT Year, Month FROM TargetMonths WHERE Cause IS NOT NULL ORDER BY 1, 2")
    assert held
    assert site.publish(accept_lower=tuple(held)).error is None
    return site


def late_jobs_lost(site: Site) -> list[str]:
    """Late jobs of an old month and of the last one went out after the backup: 36 and 20 jobs at APEL."""
    site.send(*ended(OLD, 18), *ended(BEFORE, 7), *ended(LAST, 20))
    copies = backups(site)
    site.send(*ended(OLD, 18, 18), Job("now", NOW - 60))
    return copies


def test_every_month_that_a_restore_touches_is_held(memory, empty_box) -> None:
    """Also one from long before the backup was made; with what would change; and no month that is as it was."""
    site = Site(memory, empty_box, SUMMARIES)
    restore(site, late_jobs_lost(site))
    site.record(*ended(OLD, 1, 99), *ended(BEFORE, 1, 99))
    before = at_portal(site)

    error = site.publish().error
    assert isinstance(error, FiguresHeld)
    assert f"{month_name(OLD)} is held: 36 -> 19 jobs" in str(error)
    assert f"{month_name(THIS)} is held: 1 -> 0 jobs" in str(error)
    for month in (BEFORE, LAST):
        assert month_name(month) not in str(error)
    assert at_portal(site) == {**before, BEFORE: 800}


def test_a_month_resumes_once_its_jobs_are_back(memory, empty_box) -> None:
    """A sweep finds them: as many as the receiver was given, and no one has to accept anything."""
    site = Site(memory, empty_box, SUMMARIES)
    restore(site, late_jobs_lost(site))
    assert isinstance(site.publish().error, FiguresHeld)
    site.record(*ended(OLD, 18, 18), Job("now", NOW - 60))

    assert site.publish().error is None
    assert site.ledger("SELECT * FROM TargetMonths WHERE Cause IS NOT NULL") == []
    assert at_portal(site)[OLD] == 3600


@pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])
def test_without_the_ledger_of_before_the_months_of_its_runs_are_held(memory, empty_box, messages) -> None:
    """Nothing is left to compare with: runs send the month before, too; this month is named though it is empty."""
    site = Site(memory, empty_box, messages)
    site.send(*ended(OLD, 3), *ended(LAST, 20))
    copies = backups(site)
    site.send(*ended(LAST, 10, 20))
    restore(site, copies, lost=True)

    error = site.publish().error
    assert f"{month_name(LAST)} is held: unknown -> 20 jobs" in str(error)
    assert f"{month_name(THIS)} is held: unknown -> 0 jobs" in str(error)
    assert month_name(OLD) not in str(error)
    assert at_portal(site)[LAST] == 3000
    counts = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()}
    assert counts[LAST] == 30


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_answered_stays_answered(memory, empty_box, lost) -> None:
    """The month of the restore gets its first jobs later; and months later one database alone is lost and restored."""
    site = Site(memory, empty_box, SUMMARIES)
    copies = late_jobs_lost(site)
    restore(site, copies, lost=lost)
    assert isinstance(site.publish().error, FiguresHeld)
    answer(site)
    assert at_portal(site)[OLD] == (3600 if lost else 1800)
    site.send(Job("again", NOW - 50))

    (accounting, _ledger) = backups(site)
    upkeep.restore(site.settings.places, accounting)
    site.send(Job("more", NOW - 40))
    assert at_portal(site)[THIS] == 200


def test_an_older_month_waits_once_it_is_touched(memory, empty_box) -> None:
    """Nothing was left to compare it with: untouched it stays as it is at APEL, and a late job of it is asked about."""
    site = Site(memory, empty_box, SUMMARIES)
    restore(site, late_jobs_lost(site), lost=True)
    assert isinstance(site.publish().error, FiguresHeld)
    answer(site)
    site.record(*ended(OLD, 1, 99))

    for _ in range(2):
        error = site.publish().error
        assert f"{month_name(OLD)} is held: unknown -> 19 jobs" in str(error)
        assert at_portal(site)[OLD] == 3600
    answer(site)
    assert at_portal(site)[OLD] == 1900
    site.send(*ended(OLD, 1, 100))
    assert at_portal(site)[OLD] == 2000


def test_a_doubt_of_the_former_program_is_asked_once_more(memory, empty_box) -> None:
    """What it noted as a span of time, in accounting.db, becomes months, but for those that were accepted."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*ended(BEFORE, 3), *ended(LAST, 3))
    assert site.publish(accept_lower=(BEFORE,)).error is None
    span = f"{month_bounds(*BEFORE)[0]} {month_bounds(*LAST)[1] - 1}"
    site.sql(f"INSERT INTO DBConfig VALUES ('FORGOTTEN', '{span}')")
    site.record(*ended(BEFORE, 1, 3), *ended(LAST, 1, 3))

    error = site.publish().error
    assert f"{month_name(LAST)} is held: unknown -> 4 jobs" in str(error)
    assert month_name(BEFORE) not in str(error)
    answer(site)
    assert at_portal(site) == {BEFORE: 400, LAST: 400}
    assert site.database("SELECT * FROM DBConfig WHERE KeyName = 'FORGOTTEN'") == []


def test_keys_that_only_the_replaced_ledger_knew_are_zeroed(memory, empty_box) -> None:
    """The benchmark had changed after the backup: APEL keeps no old keys once the months are accepted."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*ended(LAST, 4))
    copies = backups(site)
    site.send(*ended(LAST, 8, benchmark="HEPSPEC:11.0"))
    restore(site, copies)

    assert f"{month_name(LAST)} is held: 8 -> 4 jobs" in str(site.publish().error)
    answer(site)
    assert at_portal(site) == {LAST: 400}
    site.send(*ended(LAST, 8, benchmark="HEPSPEC:12.0"))
    assert at_portal(site) == {LAST: 800}
    counts = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()}
    assert {month: count for month, count in counts.items() if count} == {LAST: 8}


@pytest.mark.parametrize("lost", [False, True])
def test_a_version_that_both_forgot_stays_at_sgas(memory, empty_box, lost) -> None:
    """A job was sent after the backup and resumed after the restore: SGAS keeps what no one here knows; no yes."""
    site = Site(memory, empty_box, SGAS)
    site.send(*ended(OLD, 2), *ended(LAST, 2))
    copies = backups(site)
    site.send(*ended(LAST, 1, 2))
    restore(site, copies, lost=lost)
    (job,) = ended(LAST, 1, 2)
    site.send(job._replace(end_time=job.end_time + 60, wall_s=500))
    assert at_sgas(site.box.sgas.records)[job.job_id].wall_s == 100

    assert answer_of(site, LAST).startswith("unknown until compared with the receiver")
    assert answer_of(site, OLD) == "yes"

    # The ledger is lost, too: what was unsure stays so.
    assert site.publish().error is None
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(site.settings.places.publishing_database + suffix).unlink(missing_ok=True)
    assert site.publish().error is None
    assert answer_of(site, LAST).startswith("unknown until compared with the receiver")
    assert answer_of(site, OLD) == "yes"


def answer_of(site: Site, month: tuple[int, int]) -> str:
    """What `verify` says of the only target: why it is unknown, or another answer."""
    with site.verified(month) as report:
        (found,) = [one for one in report.sources if one.name.startswith("sgas")]
        return found.unknown if found.answer == "unknown" else found.answer


@pytest.mark.parametrize("kind", sample(["summaries", "summaries-v03", "normalised-v04", "individual"], 2))
def test_the_receivers_own_rows_take_back_keys_that_no_one_here_knows(memory, empty_box, kind) -> None:
    """Keys of the time that both databases lost: the receiver's tables name them, and they are sent with zeros."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", f"={kind}"))
    site.record(*ended(LAST, 3))
    assert site.publish().error is None
    copies = backups(site)
    resumed = [job._replace(end_time=job.end_time + 7200, wall_s=900) for job in ended(LAST, 3)]
    site.record(*[job._replace(user_dn="/CN=Another", benchmark="HEPSPEC:11") for job in resumed])
    assert site.publish().error is None
    restore(site, copies, lost=True)
    site.record(*[job._replace(end_time=job.end_time + 60, benchmark="HEPSPEC:12") for job in resumed])
    site.publish()
    answer(site)
    wrong = at_portal(site)

    begin, end = month_bounds(*LAST)
    outcome = site.republish(begin, end, receiver_rows=export(empty_box.apel, site.path))

    assert outcome.error is None, outcome.summary.notes
    assert wrong[LAST] > at_portal(site)[LAST] == 2700
    assert site.publish().error is None
    assert at_portal(site)[LAST] == 2700


def test_rows_of_another_ce_stay(memory, empty_box) -> None:
    """One site has several CEs: rows under another SubmitHost are named and left alone, a row of ours is zeroed."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(*ended(LAST, 3))
    ((key, row),) = empty_box.apel.summaries.items()
    other, stale = {**row, "SubmitHost": "gsiftp://other/jobs"}, {**row, "VO": "former"}
    table = empty_box.apel._tables["Summaries" if "Summaries" in empty_box.apel._tables else "summaries"]
    table[("other", *key)], table[("stale", *key)] = other, stale
    # This CE has no local jobs: what stands under the name of its batch system is another one's.
    table[("local", *key)] = {**row, "SubmitHost": "ce.example.org"}
    rows = export(empty_box.apel, site.path)
    sent = len(empty_box.apel.received)

    outcome = site.republish(*month_bounds(*LAST), receiver_rows=rows)

    text = "".join(message.text for message in empty_box.apel.received[sent:])
    assert outcome.error is None
    assert any("1 row of SubmitHost gsiftp://other/jobs" in note for note in outcome.summary.notes)
    assert "VO: former" in text
    assert "gsiftp://other" not in text
    assert "SubmitHost: ce.example.org" not in text


def test_names_of_before_are_taken_back_with_the_receivers_rows(memory, empty_box) -> None:
    """The site's name was mistyped for a run, then the ledger lost: rows are zeroed, then the doubt is answered."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*ended(LAST, 3))
    site.configure(SUMMARIES.replace("gocdb_name=SITE", "gocdb_name=SIET"))
    assert site.publish().error is None
    site.configure(SUMMARIES)
    restore(site, [], lost=False)
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(site.settings.places.publishing_database + suffix).unlink(missing_ok=True)
    assert "--receiver-rows" in str(site.publish().error)

    assert site.republish(*month_bounds(*LAST), receiver_rows=export(empty_box.apel, site.path)).error is None
    assert site.publish(accept_lower=(LAST,)).error is None

    totals = {name: one.wall_s for (name, *_month), one in empty_box.apel.totals().items()}
    assert {name: wall for name, wall in totals.items() if wall} == {"SITE": at_portal(site)[LAST]}
    announced = {row["Site"].upper(): row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()}
    assert announced == {"SIET": 0, "SITE": 3}


@pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])
def test_the_count_of_a_month_in_doubt_stays(memory, empty_box, messages) -> None:
    """36 jobs of an old month were counted, the backup knows 18: until the month is accepted APEL keeps the 36."""
    site = Site(memory, empty_box, messages)
    restore(site, late_jobs_lost(site), lost=True)

    def count() -> int:
        found = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()}
        return found[OLD]

    assert count() == 36
    site.publish()
    assert count() == 36
    answer(site)
    assert count() == 36
    site.republish(*month_bounds(*LAST))
    assert count() == 36
    site.record(*ended(OLD, 1, 99))
    site.publish()
    assert count() == 36
    answer(site)
    assert count() == 19


@pytest.mark.parametrize(
    ("messages", "option", "lost"), cross(4, [SUMMARIES, CARS], ["hostname", "localid_prefix"], [False, True])
)
def test_a_name_that_no_job_has_stops_no_target(memory, empty_box, messages, option, lost) -> None:
    """The host has a new name: every job has its endpoint's. Neither sums nor SGAS's record ids have a prefix."""
    site = Site(memory, empty_box, SGAS + messages)
    site.record(*ended(LAST, 20))
    assert [one.error for one in site.publish_all()] == [None, None]
    copies = backups(site)
    site.record(*ended(LAST, 10, 20))
    assert [one.error for one in site.publish_all()] == [None, None]
    restore(site, copies, lost=lost)
    more = "localid_prefix=new:\n" if option == "localid_prefix" else ""
    site.hostname = "new.example.org" if option == "hostname" else site.hostname
    site.configure(f"{SGAS}{more}{messages}{more}")

    sgas, apel = (one.error for one in site.publish_all())
    assert sgas is None
    is_key = option == "localid_prefix" and messages == CARS
    held = f"{month_name(LAST)} is held: {'unknown' if lost else 30} -> 20 jobs"
    assert ("localid_prefix was not set and is new:" if is_key else held) in str(apel)
    assert ("nothing is sent" in str(apel)) is is_key
    assert at_portal(site)[LAST] == 3000
    assert "lrms_host" not in str(apel)


def test_a_name_that_a_job_has_stops_both_targets(memory, empty_box) -> None:
    """A job of the batch system has no endpoint: under the host's new name receivers would have it twice."""
    site = Site(memory, empty_box, SGAS + SUMMARIES)
    site.record(*ended(LAST, 20), *ended(LAST, 1, 20, endpoint_url=""))
    assert [one.error for one in site.publish_all()] == [None, None]
    copies = backups(site)
    restore(site, copies, lost=True)
    site.hostname = "new.example.org"
    site.configure(SGAS + SUMMARIES)

    for one in site.publish_all():
        assert "lrms_host was ce.example.org and is new.example.org" in str(one.error)
    assert at_portal(site)[LAST] == 2100


def test_a_host_name_that_no_job_has_is_no_cause_of_a_fall(memory, empty_box) -> None:
    """The database was restored and the host renamed: what is said of the month is the restore."""
    site = Site(memory, empty_box, SUMMARIES)
    site.record(*ended(LAST, 20))
    copy = site.backup()
    site.send(*ended(LAST, 10, 20))
    site.put_back(copy)
    site.hostname = "new.example.org"
    site.configure(SUMMARIES)

    error = str(site.publish().error)
    assert "30 jobs published, 20 in the database now" in error
    assert "lrms_host" not in error
    assert "was the database lost, restored or exchanged?" in error
