"""What SQLite does for each statement that runs often: never a walk through a table that grows with the history."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

import pytest

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))

from generate import FIRST_END, add_jobs, generate

from arcacct.conf.places import Places
from arcacct.store import (
    accounting,
    cells,
    fence,
    health,
    held,
    job_record,
    ledger,
    lookup,
    query,
    recorder,
    sent,
    story,
)
from arcacct.store.connect import Connection

GROWING = ("AAR", "JobEvents", "AuthTokenAttributes", "JobExtraInfo", "RunTimeEnvironments", "DataTransfers")
GROWING += ("FinishedLog", "StatusFiles", "Contributions", "Messages", "MessageRecords")
JOBS, NEW = 600, 20
TARGET = "arex/jura/sgas:x"
SCAN = re.compile(rf"SCAN ({'|'.join(GROWING)})\b")


@pytest.fixture(scope="module", params=["analyzed", "fresh"])
def site(request, tmp_path_factory) -> Places:
    """A generated database, with the statistics of ANALYZE or without, with jobs on top that nobody has seen yet."""
    here = generate(tmp_path_factory.mktemp("plans"), JOBS)
    add_jobs(here, NEW)
    if request.param == "fresh":
        con = accounting.open_accounting(here)
        con.execute("DELETE FROM sqlite_stat1")
        con.close()
    return here


class Watched:
    """A connection and every statement that ran on it."""

    def __init__(self, con: Connection) -> None:
        self.con = con
        self.statements: list[str] = []
        con.set_trace_callback(self.statements.append)

    def walks(self) -> list[str]:
        """The statements that walk through a growing table, with the step that does."""
        self.con.set_trace_callback(None)
        found = []
        # What a trigger does is traced as a comment.
        for statement in dict.fromkeys(one for one in self.statements if not one.startswith("--")):
            if statement.lstrip().upper().startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
                steps = [row[3] for row in self.con.execute(f"EXPLAIN QUERY PLAN {statement}")]
                found += [f"{step}: {' '.join(statement.split())[:300]}" for step in steps if SCAN.match(step)]
        return found


@pytest.fixture
def ours(site) -> Iterator[Watched]:
    """The accounting database."""
    con = accounting.open_accounting(site)
    yield Watched(con)
    con.close()


@pytest.fixture
def ledger_con(site, request) -> Iterator[Watched]:
    """The publishing database with some answered messages, analysed or not as the other one is."""
    con = accounting.open_publishing(site)
    if con.execute("SELECT count(*) FROM Messages").fetchone()[0] == 0:
        for number in range(60):
            message = _message(number)
            (kept,) = ledger.intend(con, TARGET, [message], [], seq=None)
            if number < 58:
                ledger.accepted(con, TARGET, kept, 200, "", None)
        if "analyzed" in request.node.name:
            con.execute("ANALYZE")
    yield Watched(con)
    con.close()


def _message(number: int) -> ledger.Message:
    records = tuple(
        ledger.SentRecord(f"{number}-{place}", number * 50 + place, number * 50 + place, FIRST_END, b"d" * 16, "key")
        for place in range(50)
    )
    return ledger.Message(0, "ur", "publish", number * 50, "https://x", None, "d", 50, b"x" * 5000, records)


def test_pages_of_new_records_follow_the_log(ours) -> None:
    """Reading what is new walks from the log to the records and to their children."""
    horizon = query.highest_seq(ours.con)
    page = query.logged_after(ours.con, JOBS, horizon, ended_from=FIRST_END)
    assert page is not None
    assert len(page.records) == NEW
    query.months_logged_after(ours.con, JOBS, horizon, ended_from=FIRST_END)
    query.deleted_records(ours.con, JOBS, horizon)
    query.without_measure(ours.con, JOBS, horizon)
    query.earliest_unhandled_end(ours.con, JOBS, ended_from=FIRST_END)
    query.latest_end(ours.con)
    query.highest_seq(ours.con)

    assert ours.walks() == []


def test_records_by_their_names_and_ends_use_the_indexes(ours) -> None:
    """Single records are found by JobID, RecordID and the time of their end."""
    page = next(query.ended_between(ours.con, FIRST_END, FIRST_END + 86400 * 20))
    query.by_job_id(ours.con, [aar.job_id for aar in page])
    query.by_record_id(ours.con, [aar.record_id for aar in page])
    query.count_ended(ours.con, FIRST_END, FIRST_END + 86400)

    assert ours.walks() == []


def test_advancing_the_cells_costs_what_is_new(site, ours) -> None:
    """The monthly cells are read and advanced without looking at jobs that are in them."""
    cells.months_changed_after(ours.con, JOBS)
    cells.advance(ours.con, site)
    cells.usage_cells(ours.con)
    cells.usage_cells(ours.con, [(2026, 8)])
    fence.pass_fence(ours.con, site)

    assert ours.walks() == []


def test_recording_finds_the_job_by_its_id(ours) -> None:
    """What the recorder asks of a job, and how it replaces its children, uses their indexes."""
    job_id = ours.con.execute("SELECT JobID FROM AAR WHERE RecordID = 7").fetchone()[0]
    recorder.has_ended(ours.con, job_id)
    for table in ("JobExtraInfo", "AuthTokenAttributes"):
        recorder.set_children(ours.con, 7, table, [("lrms", "slurm")])
    recorder.set_children(ours.con, 7, "RunTimeEnvironments", [("ENV/PROXY",)])
    accounting.remembered_status_files(ours.con, [job_id, "other"])

    assert ours.walks() == []


def test_telling_of_one_job_reads_one_job(ours) -> None:
    """`job info` and `job why` look at one job's rows only."""
    job_id = ours.con.execute("SELECT JobID FROM AAR WHERE RecordID = 9").fetchone()[0]
    found = lookup.find_job(ours.con, job_id)
    job_record.arcctl_record(ours.con, found.record_id)
    story.events_of(ours.con, found.record_id)
    story.seq_of(ours.con, found.record_id)
    story.sighting(ours.con, found.record_id)

    assert ours.walks() == []


def test_waiting_records_are_counted_from_the_log(ours) -> None:
    """How much a target still has to be sent is asked of what is new; a new target's of the ends of today."""
    health.waiting(ours.con, JOBS, FIRST_END, ())
    health.waiting(ours.con, JOBS, FIRST_END, ("atlas", "cms"))
    health.waiting(ours.con, 0, FIRST_END + 86400 * 90, ())

    assert ours.walks() == []


def test_the_ledger_is_asked_by_its_indexes(ledger_con) -> None:
    """What publishing asks of the ledger and writes into it costs what is sent, not what ever was."""
    con = ledger_con.con
    job_ids = [f"{number}-1" for number in range(60)]
    sent.versions(con, TARGET, job_ids)
    sent.unanswered_keys(con, TARGET)
    sent.accepted_after(con, TARGET, 3)
    sent.last_accepted(con, TARGET, "ur")
    held.states(con, TARGET, job_ids)
    held.held_to_send(con, TARGET, FIRST_END)
    held.held_months(con, TARGET, FIRST_END)
    held.earliest_undelivered_end(con, TARGET)
    (message,) = ledger.intend(con, TARGET, [_message(99)], [], seq=None)
    ledger.accepted(con, TARGET, message, 200, "", None)
    list(ledger.unanswered(con, TARGET))
    ledger.count_unanswered(con, TARGET)
    ledger.finish_run(con, TARGET, error=None, last_end_time=1)
    ledger.forget_bytes(con, FIRST_END)
    story.messages_of(con, TARGET, "1-1")

    assert ledger_con.walks() == []
