"""Taking over from jura-ng: no job of the months around the switch counts twice at APEL."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
import time
from contextlib import closing
from typing import Any
from zoneinfo import ZoneInfo

import jura_site
import pytest
import rehearsal
from publishing_site import Job, write

from arcacct.arex.import_database import arex_databases, import_arex
from arcacct.database import access, schema
from arcacct.errors import FiguresHeld
from arcacct.publishing import run, target_run
from arcacct.publishing.former_publisher import former_publisher
from arcacct.sandbox import Sandbox
from arcacct.targets import plugins
from arcacct.targets.apel import jura
from arcacct.targets.apel.jura import TargetPlan

NAMES = {6: ("6.17-summaries.txt", "6.17-sync.txt"), 7: ("7.0-summaries.txt", "7.0-sync.txt")}
BLOCK = "arex/jura/apel:a"
URL = "https://ce.example.org:443/arex"


@pytest.fixture(params=[6, 7])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def box(tmp_path):
    with Sandbox(str(tmp_path)) as running:
        yield running


@pytest.fixture
def site(tmp_path, box, version) -> rehearsal.Site:
    """A CE whose summaries jura-ng has sent."""
    jura_site.deliver(box, *NAMES[version])
    return jura_site.site(tmp_path, box, version)


def plan(site: rehearsal.Site, **options: Any) -> TargetPlan:
    settings = site.settings()
    (found,) = jura.plan(settings, plugins(settings), arex_databases(settings.places.controldir), **options)
    return found


def take_over(site: rehearsal.Site, **options: Any) -> int:
    return sum(jura.take_over(site.settings(), [plan(site, **options)], "ada").values())


def decline(site: rehearsal.Site, *months: tuple[int, int]) -> None:
    """What an operator says to leave jura-ng's sums where they are."""
    jura.decline(site.settings(), {BLOCK: months or ((2026, 11),)}, "ada")


def publish(site: rehearsal.Site) -> target_run.TargetResult:
    settings = site.settings()
    (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(now=True))
    assert outcome.error is None
    return outcome


def held(site: rehearsal.Site, **options: Any) -> FiguresHeld:
    """A run that holds something back: why."""
    settings = site.settings()
    (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(now=True, **options))
    assert isinstance(outcome.error, FiguresHeld)
    return outcome.error


def at_apel(box: Sandbox) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Jobs, wall and CPU seconds of each month, as the portal adds them up."""
    return {(year, month): total[:3] for (_site, year, month), total in box.apel.totals().items()}


def in_database(site: rehearsal.Site) -> dict[tuple[int, int], tuple[int, int, int]]:
    """The same of A-REX's database: of jobs that ended."""
    con = sqlite3.connect(arex_databases(site.settings().places.controldir)[0])
    rows = con.execute(
        "SELECT strftime('%Y', EndTime, 'unixepoch'), strftime('%m', EndTime, 'unixepoch'), count(*),"
        " sum(UsedWalltime), sum(UsedCPUUserTime + UsedCPUKernelTime) FROM AAR WHERE EndTime > 0 GROUP BY 1, 2"
    ).fetchall()
    con.close()
    return {(int(year), int(month)): (jobs, wall_s, cpu_s) for year, month, jobs, wall_s, cpu_s in rows}


def test_no_sum_is_sent_before_jura_is_settled(site, box) -> None:
    """APEL keeps what jura-ng sent, and nothing of ours is added: neither sums nor counts; after the switch all is."""
    before, counts = at_apel(box), dict(box.apel.sync_records)
    for _ in range(2):
        error = held(site)
        assert f"2026-11 is held: jura-ng published to [{BLOCK}] the jobs that ended until 2026-11-2" in str(error)
        assert "`arcacct switch --target apel:a` takes them over" in str(error)
        assert "--accept-lower" not in str(error)
        assert (at_apel(box), dict(box.apel.sync_records)) == (before, counts)

    assert take_over(site) > 0
    publish(site)
    assert at_apel(box) == in_database(site)


def test_an_accepted_decrease_settles_nothing(site, box) -> None:
    """Whoever accepts lower figures has not said that jobs may count twice."""
    before = at_apel(box)

    assert "jura-ng published" in str(held(site, accept_lower=((2026, 11),)))
    assert at_apel(box) == before


def test_whoever_declines_is_remembered(site, box) -> None:
    """Without a switch jura-ng's rows stay next to ours: that is somebody's decision, with name and time."""
    decline(site)
    publish(site)

    ((jobs, wall_s, _cpu_s),) = at_apel(box).values()
    ((there, there_s, _there_cpu_s),) = in_database(site).values()
    assert jobs > there
    assert wall_s > there_s
    con = sqlite3.connect(site.settings().places.publishing_database)
    ((month, who, when_s, what),) = con.execute("SELECT Month, Who, Decided, Decision FROM MonthDecisions")
    con.close()
    assert (month, who, what) == (11, "ada", "declined")
    assert abs(when_s - time.time()) < 600


def test_what_jura_publishes_after_the_decision_is_asked_about_again(site, box) -> None:
    """A-REX was not restarted, and its jura-ng continued: its last sums may count twice again."""
    take_over(site)
    publish(site)
    folder = pathlib.Path(site.settings().places.controldir) / "accounting"
    with closing(sqlite3.connect(folder / "publishing.db")) as con:
        con.execute("UPDATE AccountingTargets SET LastReport = ?", (int(time.time()) + 60,))
        con.commit()

    assert "2026-11 is held: jura-ng published" in str(held(site))
    con = sqlite3.connect(site.settings().places.publishing_database)
    con.execute("UPDATE MonthDecisions SET Decided = Decided + 120")
    con.commit()
    con.close()
    publish(site)
    assert at_apel(box) == in_database(site)


def test_a_lost_ledger_asks_again(site, box) -> None:
    """It forgets what was taken over; the switch may be repeated, and every job still counts once."""
    take_over(site)
    publish(site)
    here = site.settings().places
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(here.publishing_database + suffix).unlink(missing_ok=True)

    assert "2026-11 is held: jura-ng published" in str(held(site))
    assert at_apel(box) == in_database(site)
    take_over(site)
    publish(site)
    assert at_apel(box) == in_database(site)


EARLIER_S = 61 * 86400
SEPTEMBER = (2026, 9)


@pytest.fixture
def later(tmp_path, box) -> rehearsal.Site:
    """jura-ng published until just now, and all jobs ended two months earlier."""
    site = jura_site.site(tmp_path, box, 6, imported=False)
    folder = pathlib.Path(site.settings().places.controldir) / "accounting"
    moved = f"EndTime = EndTime - {EARLIER_S}, SubmitTime = SubmitTime - {EARLIER_S}"
    for name, statement in (
        ("publishing.db", f"UPDATE AccountingTargets SET LastEndTime = {int(time.time())}"),
        ("accounting.db", f"UPDATE AAR SET {moved} WHERE EndTime > 0; DELETE FROM JobEvents"),
    ):
        with closing(sqlite3.connect(folder / name)) as con:
            con.executescript(statement)
    imported(site, folder / "accounting.db")
    return site


def asked(site: rehearsal.Site) -> list[tuple[int, int]]:
    """The months that every command asks about."""
    settings = site.settings()
    (plugin,) = plugins(settings)
    with closing(access.read_publishing(settings.places)) as ledger:
        found = former_publisher(plugin, ledger)
    assert found is not None
    return found.open


@pytest.mark.parametrize("way", ["since", "republish"])
def test_an_older_month_of_jura_waits_as_well(later, box, way) -> None:
    """Whoever sends a month from long ago is asked about that one, too; `switch` takes over what is held."""
    settings = later.settings()
    period = target_run.Period(*(second - EARLIER_S for second in jura_site.NOVEMBER))
    for settled in (False, True):
        if way == "since":
            (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(since=period.from_s))
        else:
            (outcome,) = run.republish(settings, plugins(settings), period)
        if settled:
            assert outcome.error is None
            assert {one["Month"] for one in box.apel.summaries.values() if one["NumberOfJobs"]} == {9}
        else:
            assert "2026-09 is held: jura-ng published" in str(outcome.error)
            assert not box.apel.summaries
            # What a republish asked for is remembered by nothing but its message.
            assert "`arcacct switch --target apel:a --month 2026-09` takes them over" in str(outcome.error)
            assert (SEPTEMBER in asked(later)) == (way == "since")
            take_over(later, months=[SEPTEMBER] if way == "republish" else ())


def test_a_month_that_a_former_program_sent_is_asked_about(later) -> None:
    """It asked no one: its sums may count twice, as long as they are in the ledger."""
    decline(later, SEPTEMBER)
    settings = later.settings()
    since_s = jura_site.NOVEMBER[0] - EARLIER_S
    (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(since=since_s))
    assert outcome.error is None
    con = sqlite3.connect(settings.places.publishing_database)
    con.execute("DELETE FROM MonthDecisions")
    con.commit()
    con.close()

    assert SEPTEMBER in asked(later)


def test_a_target_under_another_name_is_no_new_receiver(tmp_path, box) -> None:
    """jura-ng knew the block by another name: it may be the same receiver, which a person has to say."""
    jura_site.deliver(box, *NAMES[6])
    site = jura_site.site(tmp_path, box, 6, jura_site.SUMMARIES.replace("apel:a]", "apel:other]"))
    before = at_apel(box)
    settings = site.settings()
    (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(since=jura_site.NOVEMBER[0]))

    assert "2026-11 is held: jura-ng published to [arex/jura/apel:a]" in str(outcome.error)
    assert "if it is the same receiver, call the target a as in arc.conf; if not," in str(outcome.error)
    assert "`arcacct switch --target apel:other --decline`" in str(outcome.error)
    assert at_apel(box) == before
    jura.decline(settings, {"arex/jura/apel:other": [(2026, 11)]}, "ada")
    publish(site)


def test_records_of_jobs_need_no_switch(tmp_path, box) -> None:
    """Ours have the keys of jura-ng's: APEL replaces them, and nothing waits."""
    site = jura_site.site(tmp_path, box, 6, jura_site.SUMMARIES.replace("=summaries", "=urs"))
    assert asked(site) == []
    publish(site)

    assert box.apel.job_records


def test_after_a_switch_every_job_counts_once(site, box) -> None:
    """Month by month APEL has what the database has: jobs, wall and CPU time."""
    assert take_over(site) > 0
    publish(site)

    assert at_apel(box) == in_database(site)
    assert box.apel.rejected == []


def test_the_counts_of_the_sync_message_are_those_of_the_database(site, box) -> None:
    """No SubmitHost of jura-ng's own keeps a count of jobs that are under ours now."""
    take_over(site)
    publish(site)

    counts = {row["SubmitHost"]: row["NumberOfJobs"] for row in box.apel.sync_records.values() if row["NumberOfJobs"]}
    ((jobs, _wall_s, _cpu_s),) = in_database(site).values()
    assert counts == {URL: jobs}


def test_a_switch_after_the_first_run_is_in_time(site, box) -> None:
    """Whoever declined it by mistake: the next run takes jura-ng's rows back."""
    decline(site)
    publish(site)
    take_over(site)
    publish(site)

    assert at_apel(box) == in_database(site)


def test_once_more_changes_nothing(site, box) -> None:
    """Neither before nor after what was noted was taken back."""
    assert take_over(site) > 0
    assert take_over(site) == 0
    publish(site)
    assert take_over(site) == 0
    received = len(box.apel.received)
    outcome = publish(site)

    assert not any("zeros" in note for note in outcome.summary.notes)
    # The sums, the sync message, and the zeros, which each sending of the month repeats.
    assert len(box.apel.received) == received + 3
    assert at_apel(box) == in_database(site)


def databases(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    """Every file, without those that SQLite makes to read one."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(("-shm", "-wal"))]
    return {file: file.read_bytes() for file in files}


def test_a_plan_writes_nothing(site) -> None:
    """Our directory is as it was, the ledger not even made."""
    folder = site.path / "control" / "accounting"
    before = databases(folder)
    assert plan(site).sums

    assert databases(folder) == before


def test_the_plan_counts_what_apel_has_twice(site, box, version) -> None:
    """The jobs and hours that it tells are those by which APEL is too high without a switch."""
    months = plan(site).sums
    decline(site)
    publish(site)

    jobs = sum(one.jobs for month in months for one in month.left)
    wall_s = sum(one.wall_s for month in months for one in month.left)
    ((too_many, too_long, _cpu_s),) = at_apel(box).values()
    ((there, there_s, _there_cpu_s),) = in_database(site).values()
    assert (too_many - there, too_long - there_s) == (jobs, wall_s)
    assert [month.month for month in months] == [(2026, 10), (2026, 11)]


def test_a_database_without_the_jobs_is_reported(tmp_path, box, version) -> None:
    """Before the import nothing is sent of the month: the plan says so, and the switch does no harm."""
    jura_site.deliver(box, *NAMES[version])
    site = jura_site.site(tmp_path, box, version, imported=False)
    before = at_apel(box)
    assert any("arcacct import arex" in note for note in plan(site).notes)
    take_over(site)
    settings = site.settings()
    (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(now=True))

    assert isinstance(outcome.error, FiguresHeld)
    assert at_apel(box) == before


def imported(site: rehearsal.Site, path: pathlib.Path) -> None:
    here = site.settings().places
    with closing(access.open_accounting(here)) as con:
        import_arex(here, con, str(path), ZoneInfo("UTC"))


def first_end_s(path: pathlib.Path) -> int:
    with closing(sqlite3.connect(path)) as con:
        (first,) = con.execute("SELECT min(EndTime) FROM AAR WHERE EndTime > 0").fetchone()
    return int(first)


def test_a_database_that_a_rex_created_again_completes_no_month(tmp_path, box, version) -> None:
    """Its import lifts no hold: jura-ng published jobs that it does not have. That of the former one does."""
    jura_site.deliver(box, *NAMES[version])
    site = jura_site.site(tmp_path, box, version, imported=False)
    folder = pathlib.Path(site.settings().places.controldir) / "accounting"
    path = folder / jura_site.DATABASES[version][0]
    stopped_s = first_end_s(path) - 6 * 86400
    with closing(sqlite3.connect(folder / "publishing.db")) as con:
        con.execute("UPDATE AccountingTargets SET LastEndTime = ?", (stopped_s,))
        con.commit()
    imported(site, path)
    before = at_apel(box)

    assert any("newly created its database" in note for note in plan(site).notes)
    settings = site.settings()
    (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(now=True))
    assert isinstance(outcome.error, FiguresHeld)
    assert "A-REX's own database was newly created" in str(outcome.error)
    assert at_apel(box) == before

    former = tmp_path / "former"
    former.mkdir()
    shutil.copyfile(path, former / path.name)
    shutil.copyfile(folder / "publishing.db", former / "publishing.db")
    with closing(sqlite3.connect(former / path.name)) as con:
        con.execute("UPDATE AAR SET EndTime = ? WHERE RecordID = 1", (stopped_s - 1,))
        con.commit()
    imported(site, former / path.name)
    # Of the new one jura-ng's messages are unknown, so that it settles nothing.
    take_over(site)
    assert "jura-ng published" in str(held(site))
    jura.take_over(settings, jura.plan(settings, plugins(settings), [str(former / path.name)]), "ada")
    publish(site)


def test_a_database_of_a_rex_that_lacks_a_job_of_ours_completes_no_month(tmp_path, box, version) -> None:
    """A job that was recorded here ended before A-REX's first one: A-REX has started again, also without jura-ng."""
    site = jura_site.site(tmp_path, box, version, imported=False)
    folder = pathlib.Path(site.settings().places.controldir) / "accounting"
    (folder / "publishing.db").unlink()
    path = folder / jura_site.DATABASES[version][0]
    here = site.settings().places
    with closing(access.open_accounting(here)) as con:
        created = schema.created(con)
        imported(site, path)
        assert schema.complete_since(con) == 0
        with access.writing(con, here):
            write(con, Job("early", first_end_s(path) - 86400))
        assert schema.complete_since(con) == min(created, first_end_s(path))


def test_a_directory_stands_for_the_target_of_its_name(tmp_path, box) -> None:
    """A site that continues with its own ssmsend takes over from the target that is called as the directory."""
    (tmp_path / "outgoing").mkdir()
    directory = "[arcacct/directory:a]\npath={path}/outgoing\ngocdb_name=EXAMPLE-SITE\napel_messages=summaries\n"
    site = jura_site.site(tmp_path, box, 6, directory.replace("{path}", str(tmp_path)))
    assert take_over(site) == 8
    publish(site)

    texts = [file.read_text() for file in (tmp_path / "outgoing").rglob("*") if file.is_file()]
    zeros = [one for text in texts for one in text.split("%%\n") if "NumberOfJobs: 0\n" in one]
    assert len(zeros) == 8
    assert any("O%27Neill".lower() in one.lower() for one in zeros)


def test_only_jobs_of_the_filter_are_looked_at(tmp_path, box) -> None:
    """A target with `vofilter` never had the others."""
    site = jura_site.site(tmp_path, box, 6, jura_site.SUMMARIES + "vofilter=bio.example.org\n")
    (month,) = [month for month in plan(site).sums if month.sums]

    assert [one.spelling.vo for one in month.sums] == ["bio.example.org"]


def test_a_month_from_long_ago_is_corrected_by_republishing(tmp_path, box) -> None:
    """Months that the regular runs do not send any more: noted, then republished."""
    site = jura_site.site(tmp_path, box, 6)
    decline(site)
    publish(site)
    jura_site.deliver(box, *NAMES[6])
    assert take_over(site, months=[(2026, 11)]) == 8
    settings = site.settings()
    (outcome,) = run.republish(settings, plugins(settings), target_run.Period(*jura_site.NOVEMBER))

    assert outcome.error is None
    assert at_apel(box) == in_database(site)


def test_other_summaries_replace_none_of_them(tmp_path, box, version) -> None:
    """A target that continues with normalised summaries takes back all that jura-ng sent, and counts each job once."""
    jura_site.deliver(box, *NAMES[version])
    site = jura_site.site(tmp_path, box, version, jura_site.SUMMARIES.replace("=summaries", "=normalised-v04"))
    take_over(site)
    publish(site)

    assert {row["NumberOfJobs"] for row in box.apel.summaries.values()} == {0}
    assert at_apel(box) == in_database(site)
