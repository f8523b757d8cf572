"""Which records go into a target's batches, and in which family's: both databases in memory, without a receiver."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
from kept_batches import APEL, SGAS, Kept, aar, this_run
from ledger_rows import MAY, record, send, set_aside
from publishing_site import Job, write

from arcacct.publishing import held, target_months
from arcacct.publishing.context import RunContext
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.ledger import SentVersion
from arcacct.publishing.records import Candidate, RecordRouter, act, add_held, add_logged, add_period, fate
from arcacct.publishing.sent import digest_of
from arcacct.publishing.target_months import MonthFormat
from arcacct.records.model import AAR

DAY_S = 86_400
APRIL, JUNE = MAY - 20 * DAY_S, MAY + 40 * DAY_S
FAMILIES = {(2026, 4): MonthFormat("car", None, None, None), (2026, 5): MonthFormat("summaries", None, None, None)}


def run_of(path: pathlib.Path, target: str, *jobs: Job, **values: Any) -> tuple[RunContext, RecordRouter, Kept]:
    """A run of a target, with some jobs in the database."""
    ctx, kept = this_run(path, target.format(path=path), **values), Kept()
    for job in jobs:
        write(ctx.accounting, job)
    return ctx, RecordRouter(ctx, kept), kept


def begins(ctx: RunContext, seq: int = 0, start: int = 1) -> Cursor:
    """Where the target stands."""
    return Cursor(ctx.block, ctx.incarnation, seq, start, None)


def version(ctx: RunContext, **values: Any) -> SentVersion:
    """What the receiver has of the job as it is."""
    one = aar()
    return SentVersion(ctx.plugin.any_records().key(one), digest_of()(one), one.end_time)._replace(**values)


def handle(
    ctx: RunContext,
    router: RecordRouter,
    one: AAR,
    seq: int,
    known: Sequence[SentVersion] = (),
    twin: str | None = None,
) -> bool:
    """Do with a held job of the log what its fate is."""
    job = Candidate(seq, one.job_id, one, known, "held", twin)
    what, batcher = fate(ctx, router, job)
    return act(ctx, batcher, job, what)


def aside(ctx: RunContext) -> dict[str, str]:
    """The state of each job that is held back."""
    return {one.job_id: one.state for one in held.held_entries(ctx.publishing)}


def test_each_month_stays_in_its_family(tmp_path: pathlib.Path) -> None:
    """Only the target's own moves the cursor, and takes things back; of a job of sums there is nothing to send."""
    ctx, router, kept = run_of(tmp_path, APEL, months=FAMILIES)
    assert handle(ctx, router, aar("april", end_time=APRIL), 8)
    assert handle(ctx, router, aar("bad", end_time=APRIL), 9, twin="april")
    assert handle(ctx, router, aar("june", end_time=JUNE), 10)
    assert handle(ctx, router, aar("worse", end_time=JUNE), 11, twin="june")
    assert handle(ctx, router, aar("may"), 12) is False
    assert router.retract("gone", None, [version(ctx, end_time=APRIL)])
    router.flush()

    found = {what.envelope.message_format: what for what in kept.consignments if what.batches or what.held}
    ids = {
        kind: [part.record.job_id for batch in what.batches for part in batch if part.record is not None]
        for kind, what in found.items()
    }
    assert ids == {"car": ["april"], "individual": ["june", "gone"]}
    assert {kind: [one.record.job_id for one in what.held] for kind, what in found.items()} == {
        "car": ["bad"],
        "individual": ["worse"],
    }
    assert {kind: what.seq for kind, what in found.items()} == {"car": None, "individual": 11}


def test_a_record_whose_month_is_in_sums_now_is_taken_back(tmp_path: pathlib.Path) -> None:
    """Unless the database's version is an older one, of a backup: then it stays there, and is sent."""
    ctx, router, kept = run_of(tmp_path, APEL, months=FAMILIES)
    assert handle(ctx, router, aar(), 3, [version(ctx, digest=b"newer")]) is True
    router.flush()
    assert kept.records == []
    for one in (version(ctx), version(ctx, digest=b"older")):
        assert handle(ctx, router, aar(), 8, [one]) is False
    router.flush()
    assert [one.digest for one in kept.records] == [b"", b""]
    assert handle(ctx, router, aar(), 3, [version(ctx)]) is False


def test_what_was_kept_is_noted_before_the_cursor_moves(tmp_path: pathlib.Path) -> None:
    """A run that is killed leaves months held whose records it ignored."""
    ctx, router, _kept = run_of(tmp_path, SGAS)
    router.add(aar(), 3, [version(ctx, digest=b"newer")])
    router.flush()
    assert [*target_months.held(target_months.load(ctx.publishing, ctx.block))] == [(2026, 5)]


@pytest.mark.parametrize("target", [APEL, SGAS])
def test_keys_of_before_are_sent_with_zeros(tmp_path: pathlib.Path, target: str) -> None:
    """Of jobs that ended in the target's time, unless the ledger has the key, or it is one of today."""
    jobs = [Job(name, MAY, local_id=f"4{name}") for name in ("a", "b", "c")]
    ctx, router, kept = run_of(tmp_path, target, *jobs, Job("early", MAY - 1, local_id="4early"))
    for job in (*jobs, Job("early", MAY - 1)):
        write(ctx.accounting, job._replace(local_id=f"5{job.job_id}"))
    for key in ("4b", "4c"):
        write(ctx.accounting, Job(key[1:], MAY, local_id=key))
    write(ctx.accounting, Job("c", MAY, local_id="6c"))
    family = ctx.plugin.any_records()
    keys = {name: family.key(aar(local_job_id=name)) for name in ("4a", "4b", "4c", "5b", "5c", "6c")}
    send(ctx.publishing, record("c", key=keys["5c"]), target=ctx.block)

    router.zero_out_previous(0, MAY)
    router.flush()
    if target == SGAS:
        assert kept.records == []
        return
    assert sorted((one.key, one.seq) for one in kept.records) == [(keys[name], 0) for name in ("4a", "4c", "5b")]
    assert ctx.summary.notes[-1] == "zeros sent for 3 keys that the receiver may still have"


def test_of_two_with_one_key_the_first_that_can_go_goes(tmp_path: pathlib.Path) -> None:
    """What no receiver would take, or cannot even be asked about, keeps no one out."""
    _ctx, router, _kept = run_of(tmp_path, APEL)
    first, second = aar("first", local_job_id="7"), aar("second", local_job_id="7", record_id=2)
    assert router.key_collisions([first, second]) == {"second": "first"}
    assert router.key_collisions([first, second._replace(end_time=MAY + 1)]) == {}
    for bad in ({"wall_s": -1}, {"benchmark": b"\xff"}):
        assert router.key_collisions([first._replace(**bad), second]) == {}


@pytest.mark.parametrize("how", ["logged", "held", "period"])
def test_a_twin_is_quarantined_however_it_comes(tmp_path: pathlib.Path, how: str) -> None:
    """From the log, once its time has come, or in a period that is sent again; what is there is sent as it is."""
    twins = [Job("first", MAY, local_id="7"), Job("second", MAY, local_id="7")]
    ctx, router, kept = run_of(tmp_path, APEL, *twins, Job("alone", MAY, local_id="8"))
    for job in ("first", "second", "alone"):
        set_aside(ctx.publishing, job, "retry", target=ctx.block)
    if how == "logged":
        add_logged(ctx, router, begins(ctx), 99)
    elif how == "held":
        add_held(ctx, router)
    else:
        add_period(ctx, router, MAY, MAY + 1)
    router.flush()
    assert sorted(one.job_id for one in kept.records) == ["alone", "first"]
    assert [(one.record.job_id, one.state) for one in kept.held] == [("second", "quarantined")]
    assert {one.seq for one in kept.records} == ({1, 3} if how == "logged" else {0})


def test_what_nobody_wants_is_passed_and_waits_no_longer(tmp_path: pathlib.Path) -> None:
    """Jobs of other VOs, and those from before the target's time, that were held back for what they were."""
    jobs = (Job("other", MAY, vo="cms", fqan="/cms"), Job("early", APRIL), Job("dropped", APRIL))
    ctx, router, kept = run_of(tmp_path, f"{SGAS}vofilter=atlas\n", *jobs)
    for job in jobs:
        set_aside(ctx.publishing, job.job_id, "dropped" if job.job_id == "dropped" else "quarantined")
    add_logged(ctx, router, begins(ctx, start=MAY), 99)
    router.flush()
    assert aside(ctx) == {"dropped": "dropped"}
    assert (kept.records, [what.seq for what in kept.consignments]) == ([], [3])


def test_a_held_job_that_no_one_wants_any_more_waits_no_longer(tmp_path: pathlib.Path) -> None:
    """Once its time has come."""
    other = Job("other", MAY, vo="cms", fqan="/cms")
    ctx, router, kept = run_of(tmp_path, f"{SGAS}vofilter=atlas\n", other, Job("bad", MAY))
    # Another program's: no one judged it.
    ctx.accounting.execute("UPDATE AAR SET UsedWalltime = -1 WHERE JobID = 'bad'")
    for job in ("other", "bad"):
        set_aside(ctx.publishing, job, "retry")
    add_held(ctx, router)
    assert (kept.records, [one.record.job_id for one in kept.held]) == ([], ["bad"])
    assert aside(ctx) == {"bad": "retry"}


@pytest.mark.parametrize("how", ["logged", "held", "period"])
@pytest.mark.parametrize("why", ["pseudonym", "dropped", "resumed"])
def test_what_must_stay_as_it_is_stays_however_it_comes(tmp_path: pathlib.Path, how: str, why: str) -> None:
    """
    A job with a pseudonym, one that an operator dropped, one that is resumed: nothing is sent or taken back.

    The receiver has it at an end in the period, and its record ends later now.
    """
    ctx, router, kept = run_of(tmp_path, APEL, Job("one", JUNE, local_id="7"))
    send(ctx.publishing, record("one", wall_s=50), target=ctx.block, message_format="individual")
    if why == "pseudonym":
        ctx.accounting.execute("INSERT INTO PseudonymisedRecords (RecordID) SELECT RecordID FROM AAR")
    elif why == "resumed":
        ctx.accounting.execute("INSERT OR IGNORE INTO Status (Name) VALUES ('in-progress')")
        ctx.accounting.execute("UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress')")
    set_aside(ctx.publishing, "one", "dropped" if why == "dropped" else "retry", target=ctx.block)
    if how == "logged":
        add_logged(ctx, router, begins(ctx), 99)
    elif how == "held":
        add_held(ctx, router)
    else:
        add_period(ctx, router, MAY, MAY + 1)
    router.flush()
    assert (kept.records, kept.held) == ([], [])
    assert list(aside(ctx)) == ["one"]
