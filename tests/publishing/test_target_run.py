"""Where a target starts, and under which name it continues: as the ledger has it, without a receiver."""

from __future__ import annotations

import pytest
from publishing_alone import run_alone
from publishing_site import JUNE

from arcacct.database import incarnation, schema
from arcacct.database.incarnation import MEANING, DatabaseMismatch
from arcacct.publishing import cursors, ledger
from arcacct.publishing.context import RunContext
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.ledger import Message
from arcacct.publishing.target_run import continue_former_name, open_cursor
from arcacct.times import DAY_S

TARGET = "[arex/jura/sgas:new]\ntargeturl=https://sgas.example.org/sgas\n"
BLOCK = "arex/jura/sgas:new"
OLD = "arex/jura/sgas:old"


@pytest.fixture
def ctx(tmp_path):
    """A run in which 5 records are logged."""
    with run_alone(tmp_path, TARGET) as found:
        found.accounting.execute("UPDATE sqlite_sequence SET seq = 5 WHERE name = 'FinishedLog'")
        found.accounting.execute("INSERT OR IGNORE INTO sqlite_sequence VALUES ('FinishedLog', 5)")
        yield found


def publish(ctx: RunContext, block: str, *, life: str = "this") -> Cursor:
    """A target of the ledger that was sent the first 3 records, to where the configured one goes."""
    known = Cursor(block, life, 3, JUNE, None)
    cursors.set_cursor(ctx.publishing, known)
    message = Message(0, "ur", "publish", 3, ctx.plugin.target.url, None, "", 0, b"bytes", ())
    (written,) = ledger.record_intent(ctx.publishing, block, [message])
    ledger.accepted(ctx.publishing, block, written, 200, "ok", None)
    return cursors.cursor(ctx.publishing, block)


@pytest.mark.parametrize("was_lost", [False, True])
def test_a_new_target_is_in_doubt_where_a_ledger_was_lost(ctx, was_lost: bool) -> None:
    """The lost ledger may have known it; where none was lost it is new."""
    if was_lost:
        schema.note(ctx.publishing, "LEDGER_LOST", 1)

    open_cursor(ctx, JUNE)
    assert incarnation.uncertain_after_seq(ctx.publishing, BLOCK) == (0 if was_lost else None)


def test_a_target_that_the_ledger_knows_is_in_no_doubt(ctx) -> None:
    """Whatever was lost before: another life of the accounting database says nothing about the ledger."""
    schema.note(ctx.publishing, "LEDGER_LOST", 1)
    publish(ctx, BLOCK, life="another")

    begun = open_cursor(ctx, None)
    assert (begun.incarnation, begun.last_seq, begun.start_end_time) == ("this", 0, JUNE)
    assert incarnation.uncertain_after_seq(ctx.publishing, BLOCK) is None
    assert ctx.summary.notes == [MEANING[DatabaseMismatch.ACCOUNTING_OTHER]]


@pytest.mark.parametrize(
    ("last_seq", "again", "found"),
    [
        (4, 4, []),
        (5, 5, []),
        (6, 6, [DatabaseMismatch.ACCOUNTING_OLD]),
        # One of the two is damaged.
        (2**40, 5, []),
        (5, 2**40, []),
    ],
)
def test_what_has_logged_less_than_was_sent_is_an_older_copy(ctx, last_seq, again, found) -> None:
    """The positions of targets tell it where an older program counted no fences."""
    cursors.set_cursor(ctx.publishing, Cursor(BLOCK, schema.incarnation(ctx.accounting), last_seq, JUNE, None))
    ctx.publishing.execute("UPDATE Targets SET LastSeqAgain = ?", (again,))

    assert incarnation.mismatches(incarnation.incarnation_state(ctx.accounting, ctx.publishing)) == found


def test_a_damaged_target_starts_at_an_earlier_time_if_that_is_wanted(ctx) -> None:
    """It goes through the whole log in any case: an earlier start needs no further run."""
    publish(ctx, BLOCK)
    ctx.publishing.execute("UPDATE Targets SET LastSeqAgain = 2")

    begun = open_cursor(ctx, JUNE - DAY_S)
    assert (begun.last_seq, begun.start_end_time) == (0, JUNE - DAY_S)
    assert cursors.cursor(ctx.publishing, BLOCK) == begun
    assert ctx.summary.notes == [ledger.DAMAGED]


def test_a_target_under_another_name_continues_where_it_stopped(ctx) -> None:
    """Nothing that it was sent is gone through again."""
    known = publish(ctx, OLD)

    continue_former_name(ctx.plugin, ctx.publishing, ctx.summary)
    found = open_cursor(ctx, None)
    assert found == known._replace(target=BLOCK)
    assert (found.last_seq, found.start_end_time) == (3, JUNE)
    assert ctx.summary.notes == [
        f"continues where [{OLD}] stopped: it went to the same receiver and is no longer configured"
    ]
    assert cursors.cursor(ctx.publishing, BLOCK) == found
    assert cursors.cursor(ctx.publishing, OLD) is None


@pytest.mark.parametrize("others", [["arex/jura/apel:old"], [OLD, "arex/jura/sgas:older"]], ids=["kind", "two"])
def test_a_target_continues_with_none_of_another_kind_nor_of_two(ctx, others: list[str]) -> None:
    """No one knows that it is theirs: it starts, and says when."""
    for block in others:
        publish(ctx, block)

    continue_former_name(ctx.plugin, ctx.publishing, ctx.summary)
    assert open_cursor(ctx, JUNE) == Cursor(BLOCK, "this", 0, JUNE, last_success=None)
    (note,) = ctx.summary.notes
    assert note.startswith("new target: `arcacct publish` sends jobs that ended since 2024-06-1")
    assert "(set by --since; " in note


def test_a_target_starts_a_day_before_jura_stopped(ctx) -> None:
    """Repeats are harmless: a job that jura-ng was about to send is sent."""
    ctx.publishing.execute("INSERT INTO AccountingTargets VALUES (?, ?, 0)", (BLOCK, JUNE))

    assert open_cursor(ctx, None).start_end_time == JUNE - DAY_S
    assert "a day before jura-ng stopped" in ctx.summary.notes[0]
