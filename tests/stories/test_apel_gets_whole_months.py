"""What APEL replaces by: whole months, keys that vanish, families that change, months of the UTC calendar."""

from __future__ import annotations

import time
from calendar import timegm

import pytest
from campaigns import cross
from publishing_site import CARS, DAY_S, JUNE, SGAS, SUMMARIES, Job, Site, at_sgas, jobs, truth, usage

from arcacct.sandbox.apel import SYNCS

FAMILIES = ("urs", "individual", "individual-v04", "summaries", "summaries-v03", "summaries-v04", "normalised-v04")
ZONES = ("UTC", "Pacific/Kiritimati", "America/St_Johns")


@pytest.fixture
def summaries(memory, empty_box):
    """A site that publishes summaries."""
    return Site(memory, empty_box, SUMMARIES)


@pytest.fixture(params=ZONES)
def zone(request, monkeypatch):
    """Clocks on the wall that differ from UTC by 14 hours, and by three and a half with summer time."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def family(site: Site, name: str) -> None:
    """Change the family of messages."""
    site.configure(SUMMARIES.replace("=summaries", f"={name}"))


def sums(site: Site) -> dict[tuple[int, int], tuple[int, int]]:
    """Jobs and wall seconds of each month at the portal."""
    return {(year, month): total[:2] for (_site, year, month), total in site.box.apel.totals().items()}


def test_a_summary_is_always_of_the_whole_month(summaries) -> None:
    """One new job of a month long gone makes the whole month be sent again: a part would lower what APEL has."""
    summaries.send(*jobs(10))
    summaries.record(Job("late", JUNE + 50))

    summaries.publish()
    assert sums(summaries) == {(2024, 6): (11, 1100)}


def test_a_republish_is_of_whole_months(summaries) -> None:
    """Also if a single second is asked for."""
    summaries.record(*jobs(10))

    summaries.republish(JUNE, JUNE + 1)
    assert sums(summaries) == {(2024, 6): (10, 1000)}


@pytest.mark.parametrize("messages", ["urs", "summaries"])
def test_a_republish_counts_its_own_months(messages, memory, empty_box) -> None:
    """The sync message is of the months that are sent again, also where the last job of a month is gone."""
    site = Site(memory, empty_box, CARS.replace("=urs", f"={messages}"))
    later = Job("later", JUNE + 30 * DAY_S)
    site.send(*jobs(10), later, Job("last", JUNE + 60 * DAY_S))
    site.send(later._replace(end_time=JUNE + 1000))
    for begin, end, counts in (
        (JUNE, JUNE + 1, {6: 11}),
        (JUNE + 16 * DAY_S, JUNE + 40 * DAY_S, {7: 0}),
        (JUNE - DAY_S, JUNE + 90 * DAY_S, {6: 11, 7: 0, 8: 1}),
    ):
        empty_box.apel._tables[SYNCS].clear()
        assert site.republish(begin, end).error is None
        assert {row["Month"]: row["NumberOfJobs"] for row in empty_box.apel.sync_records.values()} == counts


def test_the_current_and_the_previous_month_are_sent_each_time(summaries) -> None:
    """APEL tells no one of a message that it dropped, so the next run brings the same months again."""
    now = int(time.time())
    summaries.send(Job("now", now - 60))
    summaries.box.apel._tables["summaries"].clear()

    summaries.publish()
    assert sum(number for number, _wall in sums(summaries).values()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"vo": "cms", "fqan": "/cms"},
        {"user_dn": "/CN=Somebody Else"},
        {"benchmark": "HEPscore23:12.5"},
        {"cores": 8},
        {"nodes": 2},
        {"endpoint_url": "https://ce2.example.org/arex"},
        {"fqan": "/atlas/Role=pilot"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_key_that_vanishes_is_neutralised(summaries, change) -> None:
    """A corrected job that was alone in its sum leaves zeros there, and counts once where it belongs."""
    summaries.send(*jobs(3), Job("alone", user_dn="/CN=Alone"))
    summaries.record(Job("alone", user_dn="/CN=Alone")._replace(**change))

    outcome = summaries.publish()

    assert sums(summaries) == {(2024, 6): (4, 400)}
    assert any("with zeros" in note for note in outcome.summary.notes)
    assert sum(row["NumberOfJobs"] == 0 for row in summaries.box.apel.summaries.values()) == 1
    assert not any("with zeros" in note for note in summaries.publish().summary.notes)


def test_keys_that_mysql_takes_for_one_are_summed(summaries) -> None:
    """Users who differ in letters' case or trailing blanks share a row at APEL: their jobs are one sum."""
    summaries.record(Job("one", user_dn="/CN=Jane"), Job("two", user_dn="/CN=JANE"), Job("three", user_dn="/CN=jane "))

    summaries.publish()
    assert sums(summaries) == {(2024, 6): (3, 300)}
    assert len(summaries.box.apel.summaries) == 1


def test_a_job_that_moves_to_another_month_leaves_the_old_one(summaries) -> None:
    """A resumed job ends in a new month; the old month, which nothing was logged in, is sent again without it."""
    summaries.send(*jobs(3), Job("resumed", JUNE, status="failed"))
    summaries.record(Job("resumed", JUNE + 40 * DAY_S, wall_s=500))

    summaries.publish()
    assert sums(summaries) == {(2024, 6): (3, 300), (2024, 7): (1, 500)}


def test_a_deleted_job_leaves_its_month(summaries) -> None:
    """The month of a record that is no more is sent again, also if it was the month's only one."""
    summaries.send(*jobs(3), Job("alone", JUNE + 40 * DAY_S))
    summaries.sql("DELETE FROM AAR WHERE JobID IN ('alone', 'job00001')")

    summaries.publish()
    assert sums(summaries) == {(2024, 6): (2, 200), (2024, 7): (0, 0)}
    months = {(row["Year"], row["Month"]): row["NumberOfJobs"] for row in summaries.box.apel.sync_records.values()}
    assert months == {(2024, 6): 2, (2024, 7): 0}


def test_a_benchmark_that_changes_within_a_month(summaries) -> None:
    """Jobs before and after the change are two sums of one month; nothing is counted twice."""
    summaries.send(*jobs(3))
    summaries.send(*jobs(2, 3, benchmark="HEPscore23:20.0"))

    levels = {row["ServiceLevel"]: row["NumberOfJobs"] for row in summaries.box.apel.summaries.values()}
    assert levels == {10.0: 3, 20.0: 2}
    assert usage(summaries.box.apel) == (500, 450)


def test_a_new_default_benchmark_is_announced_and_counts_nothing_twice(summaries) -> None:
    """Jobs without a benchmark of their own get another key with another default: the old sums go with zeros."""
    summaries.record(*jobs(3))
    summaries.sql("DELETE FROM JobExtraInfo WHERE InfoKey = 'benchmark'")
    summaries.publish()
    text = (summaries.path / "arc.conf").read_text()
    from arcacct.config.parser import load
    from arcacct.config.settings import settings
    from arcacct.targets import kinds

    (summaries.path / "arc.conf").write_text(text.replace("[lrms]\n", "[lrms]\nbenchmark=HEPSPEC:15\n"))
    summaries.settings = settings(load(str(summaries.path / "arc.conf"), {}), kinds())
    summaries.record(Job("more", JUNE + 60, benchmark="HEPSPEC:15"))

    outcome = summaries.publish()
    assert any("with zeros" in note and "2024-06" in note for note in outcome.summary.notes)
    assert usage(summaries.box.apel) == (400, 360)
    assert sums(summaries) == {(2024, 6): (4, 400)}


@pytest.mark.parametrize(("before", "after"), cross(7, FAMILIES, FAMILIES))
def test_a_change_of_family_keeps_the_total(memory, empty_box, before, after) -> None:
    """Whatever was sent before and is sent now: APEL's usage is the database's, before, during and after the change."""
    site = Site(memory, empty_box, SUMMARIES)
    family(site, before)
    site.send(*jobs(5), *[Job(f"july{n}", JUNE + 30 * DAY_S + n) for n in range(3)])
    family(site, after)
    site.record(Job("new", JUNE + 70))

    outcome = site.publish()

    assert outcome.error is None
    assert usage(site.box.apel) == (900, 810)
    site.send(*jobs(2), Job("july1", JUNE + 30 * DAY_S + 1, wall_s=200))
    assert usage(site.box.apel) == (1000, 810)
    family(site, before)
    site.send(Job("newer", JUNE + 71))
    assert usage(site.box.apel) == (1100, 900)
    assert empty_box.apel.rejected == []


@pytest.mark.parametrize(
    ("families", "broken_at", "by"),
    cross(4, [("summaries", "individual"), ("individual", "summaries")], range(2), ["publish", "republish"]),
)
def test_a_change_of_family_that_is_interrupted(memory, empty_box, families, broken_at, by) -> None:
    """Wherever the first run after a change stops, the next one leaves every job at APEL once."""
    before, after = families
    batches = "urbatchsize=2\n"
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", f"={before}") + batches)
    others = [job._replace(job_id=f"u{job.job_id}", user_dn="/CN=Other", vo="cms", fqan="/cms") for job in jobs(4)]
    site.send(*jobs(4), *others)
    site.configure(SUMMARIES.replace("=summaries", f"={after}") + batches)
    july = [Job(f"july{number}", JUNE + 30 * DAY_S + number) for number in range(5)]
    if by == "publish":
        site.record(Job("new", JUNE + 70), *july)
    empty_box.faults.slow("ams", 0.0, times=broken_at)
    empty_box.faults.answer("ams", 503, times=None)
    assert getattr(site, by)().error is not None

    empty_box.faults.clear()
    assert site.publish().error is None
    assert usage(site.box.apel) == ((1400, 1260) if by == "publish" else (800, 720))
    assert site.ledger("SELECT * FROM TargetMonths WHERE IsUnfinished") == []


@pytest.mark.parametrize(
    ("before", "after"), [("summaries", "urs"), ("urs", "summaries"), ("summaries-v04", "individual")]
)
def test_a_month_stays_in_the_family_it_began_in(memory, empty_box, before, after) -> None:
    """
    Late jobs and corrections of a published month go out as it did; the change starts with the next month.

    APEL's summariser writes each family over the others: zeroed sums would hide jobs in what the portal shows.
    """
    site = Site(memory, empty_box, SUMMARIES)
    family(site, before)
    site.send(*jobs(3))
    family(site, after)
    site.send(Job("late", JUNE + 50), jobs(3)[0]._replace(wall_s=150), Job("july", JUNE + 30 * DAY_S))
    site.republish()

    kinds = site.ledger(
        "SELECT DISTINCT Kind, Year, Month FROM TargetMonths UNION SELECT Kind, Year, Month FROM SentSummaries"
        " WHERE Kind <> 'sync'"
    )
    name = {"urs": "car"}
    assert set(kinds) == {(name.get(before, before), 2024, 6), (name.get(after, after), 2024, 7)}
    shown = sums(site)
    assert shown == {(2024, 6): (4, 450), (2024, 7): (1, 100)}
    assert empty_box.apel.rejected == []


def test_a_run_says_which_months_stay_in_their_family(memory, empty_box) -> None:
    """Who changes apel_messages in the middle of a month is told when the change starts."""
    site = Site(memory, empty_box, SUMMARIES)
    site.send(Job("now", int(time.time()) - 60))
    family(site, "urs")

    (note,) = [note for note in site.publish().summary.notes if "one kind of message" in note]
    assert note.startswith(f"{time.strftime('%Y-%m', time.gmtime(time.time() - 60))} was published as summaries")
    family(site, "summaries")
    assert not any("one kind of message" in note for note in site.publish().summary.notes)


INSTANTS = [
    ("2024-01-31T23:59:59Z", (2024, 1)), ("2024-02-01T00:00:00Z", (2024, 2)), ("2024-02-29T00:00:00Z", (2024, 2)),
    ("2024-02-29T23:59:59Z", (2024, 2)), ("2024-03-01T00:00:00Z", (2024, 3)), ("2023-12-31T23:59:59Z", (2023, 12)),
    ("2024-01-01T00:00:00Z", (2024, 1)), ("2024-03-10T07:00:00Z", (2024, 3)), ("2024-03-31T01:30:00Z", (2024, 3)),
    ("2024-10-27T00:30:00Z", (2024, 10)), ("2024-10-27T01:30:00Z", (2024, 10)), ("2024-11-03T05:30:00Z", (2024, 11)),
    ("2024-10-31T23:59:59Z", (2024, 10)), ("2024-11-01T00:00:00Z", (2024, 11)),
]  # fmt: skip
"""Ends of months and years, a leap day, hours that summer time skips or repeats."""


def test_jobs_count_in_the_month_of_their_end_in_utc(memory, empty_box, zone) -> None:
    """Wherever the host's clock hangs: summaries, sync, records and documents tell the same UTC second and month."""
    one = SUMMARIES.replace("apel:a", "apel:sums")
    site = Site(memory, empty_box, f"{SGAS}{one}{CARS.replace('SITE', 'OTHER')}")
    ended = [timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) for text, _month in INSTANTS]
    recorded = [Job(f"j{number:02d}", end) for number, end in enumerate(ended)]
    site.record(*recorded)

    assert [one.error for one in site.publish_all()] == [None, None, None]

    assert at_sgas(empty_box.sgas.records) == truth(recorded)
    expected: dict[tuple[int, int], int] = {}
    for _text, month in INSTANTS:
        expected[month] = expected.get(month, 0) + 1
    assert {month: number for month, (number, _wall) in sums(site).items()} == expected
    for name in ("SITE", "OTHER"):
        months = {
            (row["Year"], row["Month"]): row["NumberOfJobs"]
            for row in empty_box.apel.sync_records.values()
            if row["Site"] == name
        }
        assert months == expected
    assert sorted(row["EndTime"] for row in empty_box.apel.job_records.values()) == sorted(ended)
    assert empty_box.apel.rejected == []


def test_vomsless_vo_and_groups(memory, empty_box) -> None:
    """Jobs without VOMS attributes get the configured VO, issuer and groups, at SGAS as at APEL."""
    options = "vomsless_vo=dteam#/DC=ch/CN=voms.example.org\nvo_group=/dteam/prod\nvo_group=/dteam/test\n"
    site = Site(memory, empty_box, f"{SGAS}{options}{CARS}{options}")
    site.record(Job("plain", vo="", fqan=""), Job("voms"))

    assert [one.error for one in site.publish_all()] == [None, None]
    rows = {row.global_job_id: row for row in empty_box.sgas.records.values()}
    assert (rows["plain"].vo_name, rows["plain"].vo_issuer) == ("dteam", "/DC=ch/CN=voms.example.org")
    assert [group for group, _role in rows["plain"].vo_attributes] == ["/dteam/prod", "/dteam/test"]
    assert rows["voms"].vo_name == "atlas"
    vos = {row["LocalJobId"]: (row["VO"], row["VOGroup"]) for row in empty_box.apel.job_records.values()}
    assert vos["4plain"] == ("dteam", "/dteam/prod")
    assert vos["4voms"] == ("atlas", "/atlas")


TWINS = pytest.mark.parametrize("kind", ["urs", "individual", "individual-v04"])


@TWINS
@pytest.mark.parametrize("together", [True, False], ids=["in one run", "one run later"])
def test_a_job_that_apel_would_take_for_another_is_quarantined(memory, empty_box, kind, together) -> None:
    """With the same id in the batch system and the same end: the one recorded first goes, and the other is named."""
    site = Site(memory, empty_box, CARS.replace("=urs", f"={kind}"))
    first, second = Job("first", local_id="77a"), Job("second", local_id="77A ")
    others = [Job("of-that-second", local_id="78"), Job("later", first.end_time + 1, local_id="77a")]
    site.record(first, *others)
    if not together:
        site.publish()
    site.send(second)

    assert {job_id: state for job_id, (state, _why) in site.held().items()} == {"second": "quarantined"}
    assert "treat it as job first" in site.held()["second"][1]
    assert usage(empty_box.apel)[0] == 3 * first.wall_s


def test_sums_count_two_jobs_with_one_key(memory, empty_box) -> None:
    """As the reason says, from the first month of which nothing was published."""
    site = Site(memory, empty_box, CARS)
    pair = [Job("first", local_id="77"), Job("second", local_id="77")]
    site.send(*pair)
    assert "count both, from the first month with nothing published" in site.held()["second"][1]

    site.configure(SUMMARIES)
    site.send(*(one._replace(job_id=f"later-{one.job_id}", end_time=one.end_time + 30 * 86_400) for one in pair))
    assert [row["NumberOfJobs"] for row in empty_box.apel.summaries.values()] == [2]


def wanted_by_apel(memory, empty_box) -> Site:
    """A site whose APEL wants the jobs of one VO."""
    return Site(memory, empty_box, CARS + "vofilter=atlas\n")


@pytest.mark.parametrize("together", [True, False], ids=["in one run", "one run later"])
def test_a_job_that_is_not_sent_keeps_none_of_the_same_id_out(memory, empty_box, together) -> None:
    """What goes elsewhere, as another VO's, replaces nothing at this receiver."""
    site = wanted_by_apel(memory, empty_box)
    site.record(Job("first", vo="cms", local_id="77"))
    if not together:
        site.publish()
    site.send(Job("second", local_id="77"))

    assert (site.held(), len(empty_box.apel.job_records)) == ({}, 1)


def test_of_several_with_one_id_the_one_that_was_sent_counts(memory, empty_box) -> None:
    """Though the first of all is another VO's."""
    site = wanted_by_apel(memory, empty_box)
    site.send(Job("first", vo="cms", local_id="77"), Job("second", local_id="77"))
    site.send(Job("third", local_id="77", wall_s=50))

    assert "treat it as job second" in site.held()["third"][1]
    assert usage(empty_box.apel)[0] == Job("second").wall_s


def test_a_job_that_is_refused_keeps_none_of_the_same_id_out(memory, empty_box) -> None:
    """Once it may go all the same, it is set aside for the one that went."""
    site = Site(memory, empty_box, CARS)
    # More seconds than APEL has room for.
    first, second = Job("first", local_id="77"), Job("second", local_id="77", wall_s=50)
    site.refusable(first, wall_s=2**31)
    site.send(second)

    assert list(site.held()) == ["first"]
    assert usage(empty_box.apel)[0] == second.wall_s

    site.send(first._replace(cpu_s=1))
    assert "treat it as job second" in site.held()["first"][1]
    assert usage(empty_box.apel)[0] == second.wall_s
