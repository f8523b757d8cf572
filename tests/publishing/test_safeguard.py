"""What a run may change of published months, and the figures by which it says what it left: without a receiver."""

from __future__ import annotations

import pytest

from arcacct.publishing.ledger import SentVersion
from arcacct.publishing.plugin import bare
from arcacct.publishing.safeguard import DecreaseGuard
from arcacct.publishing.sent import Amount, CountingKey, digest_of
from arcacct.publishing.target_months import AcceptedDecreases

MAY = 1_778_000_000
MONTH = (2026, 5)
BACKUP_SEQ = 7


def guard(jobs: int = 3, *, accepted: bool = False) -> DecreaseGuard:
    """Of a target with so many jobs in May at each of two submit hosts; records up to Seq 7 are those of a backup."""
    given = {CountingKey("SITE", host, *MONTH): Amount(jobs, 60 * jobs) for host in ("ce1", "ce2")}
    months = frozenset({MONTH} if accepted else ())
    return DecreaseGuard(
        accepted=AcceptedDecreases(months, months),
        life_seq=BACKUP_SEQ,
        selection={"vofilter": []},
        proven={"vofilter": []},
        given_jobs=given,
        given_sums={},
        folded=str.lower,
    )


AAR = bare("one", MAY)
OTHER = SentVersion("key", b"other", MAY)
SAME = SentVersion("key", digest_of()(AAR), MAY)


@pytest.mark.parametrize(("seq", "is_forbidden"), [(0, False), (1, True), (BACKUP_SEQ, True), (BACKUP_SEQ + 1, False)])
def test_records_of_a_backup_correct_nothing(seq: int, is_forbidden: bool) -> None:
    """The last record of a backup is one of it; what was logged since, and what is asked for again, is a correction."""
    assert guard().blocks_correction(AAR, "key", seq, [OTHER], asked=False, site_of=str) is is_forbidden
    assert guard().blocks_retraction(AAR, seq, [OTHER], unwanted=False) is is_forbidden
    assert not guard(accepted=True).blocks_correction(AAR, "key", seq, [OTHER], asked=False, site_of=str)


def test_a_record_as_it_is_moves_to_no_other_key() -> None:
    """No one hears of it but who asked for the record."""
    quiet, loud = guard(), guard()

    assert quiet.blocks_correction(AAR, "another", 0, [SAME], asked=False, site_of=str)
    assert not quiet.has_kept_more()
    assert loud.blocks_correction(AAR, "another", 0, [SAME], asked=True, site_of=str)
    assert loud.has_kept_more()
    assert not guard().blocks_correction(AAR, "key", 0, [SAME], asked=True, site_of=str)


def test_the_figures_of_what_was_kept_grow() -> None:
    """A month that is held says how many of its jobs were kept, of all places, and says it anew when there are more."""
    one = guard()
    one.blocks_correction(AAR, "key", 1, [OTHER], asked=False, site_of=str)
    assert one.has_kept_more()
    one.hold_blocked_months()
    (held,) = one.held.values()
    assert (held.published_jobs, held.found_jobs) == (6, 5)
    assert held.cause.startswith("6 jobs published, and 1 would be changed, moved or removed without proof")
    assert not one.has_kept_more()
    assert held.cause.endswith("; their wall time does not fall: 0.00 h published, 0.00 h would be sent")

    for _ in range(6):
        one.blocks_retraction(None, 2, [OTHER], unwanted=False)
    one.hold_blocked_months()
    (held,) = one.held.values()
    assert (held.published_jobs, held.found_jobs) == (6, 0)
    assert held.cause.startswith("6 jobs published, and 7 would be")


def test_a_held_month_says_what_would_fall() -> None:
    """The wall time that is published of the jobs that were kept, and what would be sent in its place."""
    one = guard()
    there = OTHER._replace(wall_s=7200)
    one.blocks_correction(AAR._replace(wall_s=3600), "key", 1, [there], asked=False, site_of=str)
    one.blocks_retraction(None, 2, [there], unwanted=False)
    one.hold_blocked_months()
    (held,) = one.held.values()
    assert "their wall time falls: 4.00 h published, 1.00 h would be sent" in held.cause


def test_new_jobs_of_a_month_under_another_name_wait() -> None:
    """The receiver compares names as it folds them; a month of which it has nothing has no name yet."""
    one = guard()
    assert not one.blocks_new_record(MAY, "site")
    assert not one.blocks_new_record(MAY + 40 * 86_400, "OTHER")
    assert not one.has_kept_more()

    assert one.blocks_new_record(MAY, "OTHER")
    assert one.blocks_new_record(MAY, "OTHER")
    assert one.has_kept_more()
    one.hold_blocked_months()
    (held,) = one.held.values()
    assert (held.published_jobs, held.found_jobs) == (6, 8)
    assert "6 jobs published under the name SITE, and 2 more waiting" in held.cause
    assert not guard(accepted=True).blocks_new_record(MAY, "OTHER")


def test_a_filter_takes_nothing_back_that_has_not_changed() -> None:
    """What only the selection excludes stays; once the record itself has changed, that is a proof."""
    assert guard().blocks_retraction(AAR, 0, [SAME], unwanted=True)
    assert not guard().blocks_retraction(AAR, 0, [SAME], unwanted=False)
    assert not guard().blocks_retraction(AAR, 0, [OTHER], unwanted=True)


@pytest.mark.parametrize(
    ("found", "left", "falls"),
    [
        (Amount(3, 180), Amount(0, 0), False),
        (Amount(2, 180), Amount(0, 0), True),
        (Amount(2, 180), Amount(1, 0), False),
        (Amount(3, 179), Amount(0, 0), True),
        (Amount(3, 179), Amount(0, 1), False),
        (Amount(3, None), Amount(0, 0), False),
        (Amount(3, 0), Amount(0, None), False),
        (Amount(4, 200), Amount(0, 0), False),
    ],
)
def test_sums_fall_by_no_more_than_was_left(found: Amount, left: Amount, falls: bool) -> None:
    """Of jobs and of wall time, at each place; a wall time that no one knows proves nothing."""
    place = CountingKey("SITE", "ce1", *MONTH)
    one = guard()

    assert (
        one.would_decrease(MONTH, {place: Amount(3, 180)}, {place._replace(site="site"): found}, {place: left}) is falls
    )
    assert (MONTH in one.held) is falls
    assert not guard(accepted=True).would_decrease(MONTH, {place: Amount(3, 180)}, {}, {})


def test_a_fall_is_reported_in_what_fell() -> None:
    """In jobs where there are fewer of them, else in hours of wall time; of the places that fell alone."""
    ce1, ce2 = (CountingKey("SITE", host, *MONTH) for host in ("ce1", "ce2"))
    jobs, hours = guard(), guard()

    assert jobs.would_decrease(
        MONTH, {ce1: Amount(3, 180), ce2: Amount(5, 300)}, {ce1: Amount(1, 60), ce2: Amount(9, 300)}, {}
    )
    assert jobs.held[MONTH].cause.startswith(
        "3 jobs published, 1 in the database now (ce1): nothing logged explains it"
    )
    assert (jobs.held[MONTH].published_jobs, jobs.held[MONTH].found_jobs) == (3, 1)

    assert hours.would_decrease(MONTH, {ce1: Amount(3, 36_000_000)}, {ce1: Amount(3, 18_000_000)}, {})
    assert hours.held[MONTH].cause.startswith("10000.0 h of wall time published, 5000.0 h in the database now (ce1)")

    seconds = guard()
    assert seconds.would_decrease(MONTH, {ce1: Amount(3, 36_000_005)}, {ce1: Amount(3, 36_000_000)}, {})
    assert seconds.held[MONTH].cause.startswith("36000005 s of wall time published, 36000000 s in the database now")


def test_a_month_whose_beginning_is_missing_waits_for_a_word() -> None:
    """Nothing of it was published yet."""
    one = guard()

    assert one.is_incomplete(MONTH, 4, "its beginning is missing")
    assert (one.held[MONTH].published_jobs, one.held[MONTH].found_jobs) == (0, 4)
    assert not guard(accepted=True).is_incomplete(MONTH, 4, "its beginning is missing")
