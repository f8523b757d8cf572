"""Where a target begins, and under which name it goes on: as the ledger has it, without a receiver."""

from __future__ import annotations

import pytest
from publishing_alone import run_alone
from publishing_site import JUNE

from arcacct.db import lives, schema
from arcacct.db.lives import MEANING, Doubt
from arcacct.publishing import ledger
from arcacct.publishing.instants import DAY_S
from arcacct.publishing.ledger import Cursor, Message
from arcacct.publishing.position import position
from arcacct.publishing.this_run import ThisRun

TARGET = "[arex/jura/sgas:new]\ntargeturl=https://sgas.example.org/sgas\n"
BLOCK = "arex/jura/sgas:new"
OLD = "arex/jura/sgas:old"


@pytest.fixture
def this(tmp_path):
    """A run in which 5 records are logged."""
    with run_alone(tmp_path, TARGET) as found:
        found.accounting.execute("UPDATE sqlite_sequence SET seq = 5 WHERE name = 'FinishedLog'")
        found.accounting.execute("INSERT OR IGNORE INTO sqlite_sequence VALUES ('FinishedLog', 5)")
        yield found


def publish(this: ThisRun, block: str, *, life: str = "this") -> Cursor:
    """A target of the ledger that was sent the first 3 records, to where the configured one goes."""
    known = Cursor(block, life, 3, JUNE, None)
    ledger.set_cursor(this.publishing, known)
    message = Message(0, "ur", "publish", 3, this.plug.target.url, None, "", 0, b"bytes", ())
    (written,) = ledger.intend(this.publishing, block, [message])
    ledger.accepted(this.publishing, block, written, 200, "ok", None)
    return ledger.cursor(this.publishing, block)


@pytest.mark.parametrize("was_lost", [False, True])
def test_a_new_target_is_in_doubt_where_a_ledger_was_lost(this, was_lost: bool) -> None:
    """The lost ledger may have known it; where none was lost it is new."""
    if was_lost:
        schema.note(this.publishing, "LEDGER_LOST", 1)

    position(this, JUNE)
    assert lives.doubt_seq(this.publishing, BLOCK) == (0 if was_lost else None)


def test_a_target_that_the_ledger_knows_is_in_no_doubt(this) -> None:
    """Whatever was lost before: another life of the accounting database says nothing about the ledger."""
    schema.note(this.publishing, "LEDGER_LOST", 1)
    publish(this, BLOCK, life="another")

    begun = position(this, None)
    assert (begun.incarnation, begun.last_seq, begun.start_end_time) == ("this", 0, JUNE)
    assert lives.doubt_seq(this.publishing, BLOCK) is None
    assert this.tally.notes == [MEANING[Doubt.ACCOUNTING_OTHER]]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_target_under_another_name_goes_on_where_it_stopped(this, dry_run: bool) -> None:
    """Nothing that it was sent is gone through again; a rehearsal says so, too, and changes nothing."""
    known = publish(this, OLD)

    found = position(this._replace(dry_run=dry_run), None)
    assert found == known._replace(target=BLOCK)
    assert (found.last_seq, found.start_end_time) == (3, JUNE)
    assert this.tally.notes == [
        f"goes on where [{OLD}] stopped: it went to the same receiver and is not configured any more"
    ]
    assert ledger.cursor(this.publishing, OLD if dry_run else BLOCK) == (known if dry_run else found)
    assert ledger.cursor(this.publishing, BLOCK if dry_run else OLD) is None


@pytest.mark.parametrize("others", [["arex/jura/apel:old"], [OLD, "arex/jura/sgas:older"]], ids=["kind", "two"])
def test_a_target_goes_on_with_none_of_another_kind_nor_of_two(this, others: list[str]) -> None:
    """Nobody knows that it is theirs: it begins, and says when."""
    for block in others:
        publish(this, block)

    assert position(this, JUNE) == Cursor(BLOCK, "this", 0, JUNE, last_success=None)
    (note,) = this.tally.notes
    assert note.startswith("new target: jobs that ended since 2024-06-1")
    assert "(as --since says; " in note


def test_a_target_begins_a_day_before_jura_stopped(this) -> None:
    """Repeats are harmless: a job that jura-ng was about to send is sent."""
    this.publishing.execute("INSERT INTO AccountingTargets VALUES (?, ?, 0)", (BLOCK, JUNE))

    assert position(this, None).start_end_time == JUNE - DAY_S
    assert "a day before jura-ng stopped" in this.tally.notes[0]
