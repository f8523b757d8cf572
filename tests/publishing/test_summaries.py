"""The sums of months as they are made for APEL, and the zeros that take back former ones: without a receiver."""

from __future__ import annotations

import re

import pytest
import stored_jobs
from publishing_alone import run_alone

from arcacct.publishing.context import RunContext
from arcacct.publishing.ledger import COUNTS
from arcacct.publishing.sent import CountingKey
from arcacct.publishing.summaries import Summed, summed, zeros
from arcacct.records.model import UsageCell

APEL = "[arex/jura/apel:a]\ntargeturl=https://ams.example.org\nca_system=no\ngocdb_name=SITE\napel_messages=summaries\n"
MAY_END = 1_780_000_000
CELL = stored_jobs.cell(year=2026, month=5, cpu_s=5400, earliest_end_time=MAY_END, latest_end_time=MAY_END)
APRIL = CELL._replace(month=4, earliest_end_time=MAY_END - 40 * 86_400, latest_end_time=MAY_END - 40 * 86_400)


@pytest.fixture
def ctx(tmp_path):
    with run_alone(tmp_path, APEL) as found:
        yield found


def sums_of(ctx: RunContext, *cells: UsageCell, kind: str = "summaries") -> Summed:
    return summed(ctx.plugin, ctx.plugin.summaries(kind), cells, ctx.summary)


def jobs_of(sums: Summed) -> list[int]:
    return [one.jobs for _text, one in sums.sums]


def test_what_a_target_does_not_want_is_left_out_alone(tmp_path) -> None:
    """Wherever among the cells it stands."""
    with run_alone(tmp_path, f"{APEL}vofilter=atlas\n") as ctx:
        sums = sums_of(ctx, CELL, CELL._replace(vo="lhcb"), CELL._replace(jobs=4))

        assert (jobs_of(sums), sums.refused, ctx.summary.notes) == ([7], [], [])


def test_a_cell_that_would_be_refused_is_quarantined_and_reported(ctx) -> None:
    """The others are summed; one line has the month, the number of jobs of all such cells, and the reason."""
    refused = [CELL._replace(wall_s=2**60 + number, user_dn=f"/CN={number}", jobs=2) for number in range(5)]
    sums = sums_of(ctx, *refused, CELL)

    assert jobs_of(sums) == [3]
    assert sums.refused == refused
    (note,) = ctx.summary.notes
    assert note.startswith("2026-05: 10 jobs not sent: wall time 1152921504606846976")


def test_repairs_are_reported_by_month_and_kind_with_all_their_jobs(ctx) -> None:
    """One line for all the cells that have a repair in common."""
    odd = [CELL._replace(user_dn=f"/CN={number}", benchmark="odd") for number in range(4)]
    sums = sums_of(ctx, *odd, APRIL, CELL, APRIL._replace(benchmark="odd", jobs=5))

    assert sums.refused == []
    assert sum(jobs_of(sums)) == 23
    assert [re.sub(r": benchmark .*", "", note) for note in ctx.summary.notes] == [
        "2026-04: 5 jobs",
        "2026-05: 12 jobs",
    ]


@pytest.mark.parametrize(("kinds", "more"), [(10, 0), (11, 1), (13, 3)])
def test_no_run_tells_of_more_than_ten_kinds_of_repairs(ctx, kinds: int, more: int) -> None:
    """A line for each of the first, and one that says how many there are next to."""
    sums_of(ctx, *(CELL._replace(benchmark=f"odd{number}") for number in range(kinds)))

    *told, last = ctx.summary.notes if more else [*ctx.summary.notes, ""]
    assert len(told) == 10
    assert all(note.startswith("2026-05: 3 jobs: ") for note in told)
    assert last.startswith(f"and {more} more repairs of this kind; " if more else "")


def test_what_the_format_cannot_tell_is_said(ctx) -> None:
    """What a family of messages has to say of its sums reaches whoever runs it."""
    sums_of(ctx, CELL, CELL._replace(benchmark="HEPscore23:12"), kind="summaries-v03")

    (note,) = ctx.summary.notes
    assert note.startswith("2026-05: benchmarks of types ")


def test_keys_that_no_longer_hold_are_sent_again_with_zeros(ctx) -> None:
    """By kind of message, what is sent now left out; whoever runs it hears of how many, and of which months."""
    former = sums_of(ctx, CELL, APRIL, APRIL._replace(user_dn="/CN=two"), CELL._replace(vo="lhcb")).sums
    ((_, current),) = sums_of(ctx, CELL).sums
    ((_, count),) = ctx.plugin.counts.counts([(CountingKey("SITE", "ce.example.org", 2026, 5), 9)])
    live = [*(("summaries", one) for _text, one in former), (COUNTS, count)]

    found = dict(zeros(ctx, live, {current.key}))
    assert {kind: {part.sum for part in parts} for kind, parts in found.items()} == {
        "summaries": {one._replace(jobs=0, wall_s=0) for _, one in live[:-1] if one.key != current.key},
        COUNTS: {count._replace(jobs=0, wall_s=0)},
    }
    assert all("NumberOfJobs: 0\n" in part.text for parts in found.values() for part in parts)
    assert [note.partition(" sent again with zeros: ")[0] for note in ctx.summary.notes] == [
        "2026-04, 2026-05: 3 records of summaries",
        "2026-05: 1 record of sync",
    ]
