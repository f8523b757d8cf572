"""What SQLite does for each statement that runs often: it costs what is new, or asked for, and not what ever was."""

from __future__ import annotations

import calendar
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import manual
import pytest
from campaigns import cross, sample
from conf_files import SGAS, read

from arcacct.publishing.cursors import selections, set_selection
from arcacct.publishing.sent import published_jobs, published_sums
from arcacct.times import LAST_SECOND

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))

from generate import DAYS, FIRST_END, add_jobs, fill

from arcacct.arex import reconcile
from arcacct.arex.control_files import STATES
from arcacct.config.paths import Places
from arcacct.config.settings import settings
from arcacct.database import access, incarnation
from arcacct.database.connection import Connection
from arcacct.database.schema import SOURCES, create_views
from arcacct.health import databases
from arcacct.publishing import cursors, held, ledger, sent, target_months
from arcacct.queries import arcctl, job_history, questions
from arcacct.queries.questions import Selection
from arcacct.queries.usage import NEEDS, usage
from arcacct.records import benchmarks, reader, recorder, unfinished
from arcacct.records import usage as records_usage
from arcacct.records.batch_jobs import LocalID
from arcacct.sources.sonar import importer, spans
from arcacct.sources.sonar.jobs import Site as SonarSite
from arcacct.targets import kinds, plugins

GROWING = ("AAR", "JobEvents", "AuthTokenAttributes", "JobExtraInfo", "RunTimeEnvironments", "DataTransfers")
GROWING += ("FinishedLog", "StatusFiles", "RecordSources", "JobUsageShares", "Messages")
GROWING += ("SentRecords", "Record")
GROWING += ("PreviousVersions", "TruncationNotes")
SHORT, LONG, NEW = 600, 3_000, 20
MESSAGES_PER_JOBS = 10
TARGET = "arex/jura/sgas:x"
KINDS = ["car", "individual", "individual-v03", "individual-v04"]
"""Messages that the ledger has none of."""
SCAN = re.compile(
    rf"(SCAN|BLOOM FILTER ON) ({'|'.join(GROWING)})\b(?! USING (COVERING )?INDEX JobUsageShares_Waiting_IDX)"
)
"""The index of what no command has put into the finer cells yet has nothing else."""
NEWEST = re.compile(r"ORDER BY (RecordID|rowid|end_time) DESC LIMIT")
"""A walk from the newest row back that a LIMIT ends."""
STEPS = 20


class Site(NamedTuple):
    """A generated database, with jobs on top that no one has seen yet."""

    here: Places
    jobs: int

    @property
    def late(self) -> int:
        """A time after which some 30 jobs of the history ended."""
        return FIRST_END + DAYS * 86400 * (self.jobs - 30) // self.jobs


class Watched:
    """A connection, every statement that ran on it, and about how many steps of SQLite's machine that took."""

    def __init__(self, con: Connection, site: Site) -> None:
        self.con = con
        self.site = site
        self.steps = 0
        self.statements: list[str] = []
        con.set_trace_callback(self.statements.append)
        con.set_progress_handler(self._count, STEPS)

    def _count(self) -> int:
        self.steps += STEPS
        return 0

    def walks(self) -> list[str]:
        """The statements that walk through a growing table, with the step that does."""
        self.con.set_trace_callback(None)
        self.con.set_progress_handler(None, 0)
        found = []
        # What a trigger does is traced as a comment.
        for statement in dict.fromkeys(one for one in self.statements if not one.startswith("--")):
            text = " ".join(statement.split())
            if text.upper().startswith(("SELECT", "INSERT", "UPDATE", "DELETE")) and not NEWEST.search(text):
                steps = [row[3] for row in self.con.execute(f"EXPLAIN QUERY PLAN {statement}")]
                found += [f"{step}: {text[:300]}" for step in steps if SCAN.match(step)]
        return found


@pytest.fixture(scope="module", params=["analyzed", "fresh"])
def sites(request, tmp_path_factory) -> list[Site]:
    """
    A short and a long history, both with the statistics of ANALYZE, or both without.

    """
    made = [Site(fill(tmp_path_factory.mktemp("plans"), jobs), jobs) for jobs in (SHORT, LONG)]
    for site in made:
        con = access.open_accounting(site.here)
        # The cells are up to date but for the last jobs.
        records_usage.update_monthly(con, site.here)
        if request.param != "analyzed":
            con.execute("DELETE FROM sqlite_stat1")
        con.execute(_CHANGED, (0,))
        con.close()
        add_jobs(site.here, NEW)
        _change_some(site)
        _make_ledger(site, analyzed=request.param == "analyzed")
    return made


_CHANGED = """
    INSERT INTO PreviousVersions SELECT RecordID, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, 1, 1
      FROM AAR WHERE RecordID > ? AND RecordID % 3 = 0
"""
"""Every third job of a history was something else once."""


def _change_some(site: Site) -> None:
    """Of the new jobs some are something else by now, and one that no one had read is deleted."""
    con = access.open_accounting(site.here)
    con.execute(_CHANGED, (site.jobs,))
    con.execute("INSERT INTO FinishedLog (RecordID) VALUES (1000000)")
    con.execute(
        "INSERT INTO PreviousVersions SELECT seq, 1000000, 'deleted', NULL, 1, 1, ?, 1, 1 FROM sqlite_sequence"
        " WHERE name = 'FinishedLog'",
        (FIRST_END,),
    )
    con.close()


def _make_ledger(site: Site, *, analyzed: bool) -> None:
    con = access.open_publishing(site.here)
    con.execute("PRAGMA synchronous = OFF")
    if analyzed:
        accounts = access.open_accounting(site.here)
        accounts.execute("ANALYZE")
        accounts.close()
    messages = site.jobs // MESSAGES_PER_JOBS
    for number in range(messages):
        (kept,) = ledger.record_intent(con, TARGET, [_message(number)], [], seq=None)
        if number < messages - 2:
            ledger.accepted(con, TARGET, kept, 200, "", None)
    if analyzed:
        con.execute("ANALYZE")
    con.close()


def _message(number: int) -> ledger.Message:
    records = tuple(
        ledger.SentRecord(
            f"{number}-{place}",
            number * 50 + place,
            number * 50 + place,
            FIRST_END,
            b"d" * 16,
            "key",
            None,
            ("", "ce.example.org"),
            100,
        )
        for place in range(50)
    )
    return ledger.Message(0, "ur", "publish", number * 50, "https://x", None, "d", 50, b"x" * 5000, records)


@pytest.fixture
def ours(sites) -> Iterator[list[Watched]]:
    """The accounting databases."""
    yield from _opened(sites, access.open_accounting)


@pytest.fixture
def ledgers(sites) -> Iterator[list[Watched]]:
    """The publishing databases."""
    yield from _opened(sites, access.open_publishing)


def _opened(sites: list[Site], opening: Callable[[Places], Connection]) -> Iterator[list[Watched]]:
    cons = [opening(site.here) for site in sites]
    yield [Watched(con, site) for con, site in zip(cons, sites, strict=True)]
    for con in cons:
        con.close()


def assert_flat(both: list[Watched], work: Callable[[Connection, Site], object]) -> None:
    """The work walks through nothing that grows, and takes no more steps after the long history."""
    for one in both:
        work(one.con, one.site)
    short, long = both

    assert short.steps
    assert long.walks() == []
    # Trees that are a level deeper, and a cell more here and there.
    assert long.steps <= 1.25 * short.steps + 200, f"{short.steps} steps after {SHORT} jobs, {long.steps} after {LONG}"


@pytest.mark.campaign
def test_pages_of_new_records_follow_the_log(ours) -> None:
    """Reading what is new walks from the log to the records and to their children."""

    def read(con: Connection, site: Site) -> None:
        horizon = incarnation.highest_seq(con)
        page = reader.logged_after(con, site.jobs, horizon, ended_from=FIRST_END)
        assert page is not None
        assert len(page.records) == NEW
        records_usage.deleted_jobs(con, site.jobs, horizon)
        reader.without_measure(con, site.jobs, horizon)

    assert_flat(ours, read)


def test_why_figures_may_fall_is_asked_of_what_is_new(ours) -> None:
    """What changed or was deleted since a place in the log, and the keys and months that it had before."""

    def ask(con: Connection, site: Site) -> None:
        horizon = incarnation.highest_seq(con)
        assert records_usage.deleted_jobs(con, site.jobs, horizon) == ["deleted"]
        assert sum(one.jobs for one in records_usage.left_since(con, (2026, 7), site.jobs)) == 1
        assert len(records_usage.former_keys(con, site.jobs)) > 1
        assert records_usage.former_places(con, site.jobs)

    assert_flat(ours, ask)


def test_twins_are_looked_for_at_their_ends(ours) -> None:
    """Which jobs ended in the same seconds as some is asked of the index of ends."""

    def ask(con: Connection, site: Site) -> None:
        page = next(reader.ended_between(con, site.late, FIRST_END + DAYS * 86400))
        assert reader.ended_at(con, [aar.end_time for aar in page])

    assert_flat(ours, ask)


def test_the_jobs_of_a_month_are_counted_from_its_cells(ours) -> None:
    """What a month had at an earlier time reads that month, and no other."""
    for one in ours:
        assert records_usage.counted_until(one.con, (2026, 9), LAST_SECOND)
        records_usage.emptied_cells(one.con, [(2026, 9)])

        assert one.walks() == []


@pytest.mark.parametrize("ended_from", [0, FIRST_END], ids=["any", "since the beginning"])
def test_times_of_new_records_follow_the_log(ours, ended_from) -> None:
    """The months of what is new, and how far everything is handled."""

    def ask(con: Connection, site: Site) -> None:
        reader.months_logged_after(con, site.jobs, incarnation.highest_seq(con), ended_from=ended_from)
        reader.earliest_unhandled_end(con, site.jobs, ended_from=ended_from)
        reader.latest_end(con)

    assert_flat(ours, ask)


def test_a_new_target_looks_at_the_ends_of_its_time(ours) -> None:
    """A target that has had nothing yet is asked from the time that it starts with."""

    def ask(con: Connection, site: Site) -> None:
        reader.months_logged_after(con, 0, incarnation.highest_seq(con), ended_from=site.late)
        reader.earliest_unhandled_end(con, 0, ended_from=site.late)
        databases.waiting(con, 0, site.late, ())

    assert_flat(ours, ask)


def test_records_by_their_names_and_ends_use_the_indexes(ours) -> None:
    """Single records are found by JobID, RecordID and the time of their end."""

    def read(con: Connection, site: Site) -> None:
        page = next(reader.ended_between(con, site.late, FIRST_END + DAYS * 86400))
        reader.by_job_id(con, [aar.job_id for aar in page])
        reader.by_record_id(con, [aar.record_id for aar in page])

    assert_flat(ours, read)


def test_figures_of_a_month_are_read_without_the_children_of_its_jobs(ours) -> None:
    """What `report` and `verify` count where no records are sent: the same values, at a fraction of the cost."""
    one = ours[0]
    period = (FIRST_END, FIRST_END + DAYS * 86400)
    one.con.execute("BEGIN")
    for number, (is_held, wall_s, kernel_s) in enumerate([(0, 7, None), (0, -1, -1), (1, None, None), (0, None, 3)], 1):
        one.con.execute(
            "INSERT INTO RecordHolds (RecordID, Reasons, Doubts, State, IsHeld, Since, UsedWalltime, UsedCPUKernelTime)"
            " VALUES (?, '', '', 'bound', ?, 0, ?, ?)",
            (number, is_held, wall_s, kernel_s),
        )
    one.con.execute("UPDATE AAR SET UsedWalltime = 1.5, UsedCPUUserTime = 2.5 WHERE RecordID = 5")
    one.steps = 0
    whole = [aar for page in reader.ended_between(one.con, *period) for aar in page]
    cost, one.steps = one.steps, 0
    lean = [aar for page in reader.usage_ended_between(one.con, *period) for aar in page]
    one.con.execute("ROLLBACK")

    assert lean == [(aar.record_id, aar.job_id, aar.end_time, aar.vo, aar.wall_s, aar.cpu_s) for aar in whole]
    assert len(lean) > 500
    assert one.steps * 4 < cost


def test_what_changed_is_asked_of_what_is_new(ours) -> None:
    """Which months changed, also before the cells are advanced."""

    def read(con: Connection, site: Site) -> None:
        assert records_usage.position(con) < incarnation.highest_seq(con)
        records_usage.months_changed_after(con, site.jobs)

    assert_flat(ours, read)


def test_advancing_the_cells_costs_what_is_new(ours) -> None:
    """The monthly cells are advanced without looking at jobs that are in them."""

    def advance(con: Connection, site: Site) -> None:
        con.execute("UPDATE UsageCursor SET Seq = ?", (site.jobs,))
        records_usage.update_monthly(con, site.here)
        records_usage.months_changed_after(con, site.jobs)
        incarnation.raise_fence(con, site.here)

    assert_flat(ours, advance)


MONTHS = Selection(from_s=FIRST_END, before_s=calendar.timegm((2026, 9, 1, 0, 0, 0)))
DAY = Selection(from_s=FIRST_END + 86_400 * 5, before_s=FIRST_END + 86_400 * 6)
FILTERED = MONTHS._replace(vos=("atlas",), queues=("long",), states=("failed",), endpoints=("rest",), fqans=("/cms",))
ASKED = [
    # Classes of waiting and wall time are in no sum: they are counted job by job.
    *(
        (selection, (name,))
        for name in NEEDS
        if name not in ("wait", "walltime")
        for selection in (Selection(), MONTHS)
    ),
    *(
        (MONTHS, by)
        for by in (("user", "queue", "project"), ("month", "host", "status"), ("day", "vo", "queue", "status"))
    ),
    *((DAY, by) for by in (("day",), ("vo", "queue"), ("project",), ("status",))),
    (FILTERED, ("user", "month")),
]


@pytest.mark.parametrize(
    ("asked", "options"),
    cross(16, sample(ASKED, 16), [{"details": False}, {"details": True}, {"details": True, "active": True}]),
)
def test_usage_by_anything_reads_no_job_that_is_summed(ours, asked, options) -> None:
    """`stats --by`, whatever of, is answered from the cells, and from what is not in them yet."""
    selection, by = asked
    for one in ours:
        usage(one.con, selection, by, **options)

        assert one.walks() == []


def test_gpus_and_energy_read_what_is_reported_of_the_range(ours) -> None:
    """`stats --gpu` looks up the telemetry of the jobs of a range of time, and no other job."""
    for one in ours:
        one.con.execute("BEGIN")
        one.con.execute(
            "INSERT INTO JobAccelerators SELECT RecordID, Source, 'c', 1, 60, NULL, NULL, NULL"
            " FROM AAR CROSS JOIN (SELECT 'sonar' AS Source UNION ALL SELECT 'sacct')"
        )

        def ask(con: Connection, site: Site) -> None:
            found = questions.measured_parts(con, Selection(from_s=site.late), ("vo",), everything=False)
            assert sum(part.gpu_s or 0 for part in found) > 0

        one.statements.clear()
        one.steps = 0
        ask(one.con, one.site)
    short, long = ours
    assert [step for step in long.walks() if "INSERT" not in step] == []
    assert long.steps <= 1.25 * short.steps + 200
    for one in ours:
        one.con.execute("ROLLBACK")


def test_a_correction_of_benchmarks_reads_the_jobs_of_its_time(ours) -> None:
    """`db benchmark` walks the index of ends, from the one bound to the other."""

    def ask(con: Connection, site: Site) -> None:
        options = benchmarks.Ratings(site.late, FIRST_END + DAYS * 86400, (), everything="HEPSPEC:77")
        list(benchmarks.benchmark_changes(con, options))

    assert_flat(ours, ask)


def test_what_was_sent_after_an_export_is_asked_by_month(ledgers) -> None:
    """`verify --portal` reads the messages and sums of the month that it compares."""

    def ask(con: Connection, _site: Site) -> None:
        list(sent.jobs_sent_after(con, TARGET, KINDS, (FIRST_END - 100, FIRST_END - 50), 0))
        sent.sums_sent_after(con, TARGET, 2020, 1, 0)

    assert_flat(ledgers, ask)


def test_usage_by_month_reads_no_job(ours) -> None:
    """v1_usage_by_month is answered from the cells."""
    for one in ours:
        one.con.execute("SELECT month, vo, sum(jobs) FROM v1_usage_by_month GROUP BY 1, 2").fetchall()

        assert one.walks() == []


STATEMENTS = re.findall(r"([^\n]*)\n\n```sql\n-- (\w+)\.db\n(.*?)^```$", manual.text(), re.MULTILINE | re.DOTALL)
READS_ALL = {
    "SELECT strftime('%Y-%m', EndTime, 'unixepoch') AS Month",
    "SELECT target, kind, state",
    "SELECT job_id, target, end_time_iso",
    "SELECT substr(end_time_iso, 1, 7) AS month, vo, count(*) AS jobs, round(sum(nodes_energy_j)",
    "SELECT job_id, end_time_iso, hold_reasons",
}
"""How the statements of the manual begin that cost what the database has."""


@pytest.mark.parametrize(("said", "database", "statement"), sample(STATEMENTS, 14))
def test_what_the_manual_asks_costs_what_it_asks_for(ours, ledgers, said, database, statement) -> None:
    """No statement of the manual walks through what grows, but for those of which it says so."""
    for one in ours:
        create_views(one.con, *SOURCES)
    for one in ours if database == "accounting" else ledgers:
        one.con.execute(statement).fetchall()
        reads_all = any(statement.startswith(begin) for begin in READS_ALL)

        assert reads_all == ("reads every" in said)
        assert reads_all or one.walks() == []


RANGE = f"BETWEEN {FIRST_END} AND {FIRST_END + 86_400}"
QUESTIONS = [
    f"SELECT * FROM v1_jobs WHERE end_time {RANGE}",
    f"SELECT * FROM v1_jobs WHERE submit_time {RANGE}",
    "SELECT * FROM v1_jobs WHERE end_time > CAST(strftime('%s', '2026-10-08') AS INTEGER)",
    "SELECT * FROM v1_jobs WHERE end_time > strftime('%s', '2026-10-08')",
    f"SELECT vo, queue, count(*) FROM v1_jobs WHERE end_time {RANGE} AND user_dn <> 'x' GROUP BY 1, 2",
    "SELECT * FROM v1_jobs WHERE end_time IS NULL",
    "SELECT * FROM v1_jobs WHERE job_id = 'x'",
    "SELECT * FROM v1_jobs WHERE local_job_id = '10000007'",
    f"SELECT job_id, name FROM v1_jobs JOIN v1_job_attributes USING (job_id) WHERE v1_jobs.end_time {RANGE}",
    f"SELECT job_id, event FROM v1_jobs JOIN v1_job_events USING (job_id) WHERE end_time {RANGE}",
    *(
        f"SELECT * FROM {view} WHERE {condition}"
        for view in ("v1_job_events", "v1_transfers", "v1_job_attributes", "v1_record_notes")
        for condition in ("job_id = 'x'", f"job_id IN (SELECT job_id FROM v1_jobs WHERE end_time {RANGE})")
    ),
    "SELECT * FROM v1_usage_by_month WHERE month = '2026-08'",
    "SELECT * FROM v1_jobs WHERE user_dn = '/DC=org/DC=example/O=Lab & Co <x>/CN=User 7'",
    f"SELECT * FROM v1_jobs WHERE user_dn = '/DC=org/DC=example/O=Lab & Co <x>/CN=User 7' AND end_time {RANGE}",
]


@pytest.mark.parametrize("question", sample(QUESTIONS, 10))
def test_views_find_what_is_asked_for_by_index(ours, question) -> None:
    """Jobs by id, by id in the batch system, by time, what is under way, and what belongs to such jobs."""
    for one in ours:
        one.con.execute(question).fetchall()

        assert one.walks() == []


def test_a_value_that_several_columns_are_made_of_is_read_once_for_each(ours) -> None:
    """All columns of a day's jobs: each part of a role or a benchmark is one search, not one for each mention."""
    one = ours[1]
    columns = "vo_group, vo_role, fqan, benchmark_type, benchmark_value, benchmark_source"
    plan = one.con.execute(f"EXPLAIN QUERY PLAN SELECT {columns} FROM v1_jobs WHERE end_time {RANGE}").fetchall()
    searches = [table for *_numbers, text in plan for table in ("AuthTokenAttributes", "JobExtraInfo") if table in text]

    assert searches.count("AuthTokenAttributes") == 3
    assert searches.count("JobExtraInfo") == 3


def test_the_latest_jobs_are_found_from_the_end(ours) -> None:
    """The last jobs of v1_jobs cost the same after a long history: SQLite walks back from the newest."""
    latest = "SELECT job_id, vo, queue, user_dn, end_time_iso FROM v1_jobs ORDER BY end_time DESC LIMIT 10"

    assert_flat(ours, lambda con, _site: con.execute(latest).fetchall())


def test_recording_finds_the_job_by_its_id(ours) -> None:
    """What the recorder asks of a job, and how it replaces its children, uses their indexes."""

    def record(con: Connection, _site: Site) -> None:
        job_id = con.execute("SELECT JobID FROM AAR WHERE RecordID = 7").fetchone()[0]
        recorder.has_ended(con, job_id)
        for table in ("JobExtraInfo", "AuthTokenAttributes"):
            recorder.set_children(con, 7, table, [("lrms", "slurm")])
        recorder.set_children(con, 7, "RunTimeEnvironments", [("ENV/PROXY",)])
        reconcile.remembered_status_files(con, [job_id, "other"])

    assert_flat(ours, record)


def test_telemetry_finds_its_records_by_their_local_ids(ours) -> None:
    """A job that was sampled costs its own records, whatever the form of their ids, and no walk through all jobs."""

    def find(con: Connection, _site: Site) -> None:
        for job in (LocalID(7), LocalID(7, 4), LocalID(7, 4, is_element=True)):
            importer.settle(con, SonarSite(), 1, "c", job)
            spans.with_telemetry(con, job)

    assert_flat(ours, find)


def test_jobs_under_way_are_found_by_their_status(ours) -> None:
    """What a sweep and status ask of jobs in progress costs those alone, and ending one costs its own rows."""
    for one in ours:
        one.con.execute("BEGIN")
        one.con.execute(
            "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress') WHERE RecordID < 4"
        )
        one.con.execute("INSERT OR REPLACE INTO StatusFiles SELECT RecordID, 'INLRMS', 1, NULL, NULL, NULL FROM AAR")
        one.steps = 0
        one.statements.clear()

    def ask(con: Connection, _site: Site) -> None:
        found = list(unfinished.in_progress(con, ["/a", "/b"]).values())
        assert len(found) == 3
        assert unfinished.hold(con, found[0])
        assert len(unfinished.held_jobs(con)) == 1
        unfinished.is_gone_since(con, found[1], 1)
        unfinished.abort(con, found[1], STATES)

    assert_flat(ours, ask)
    for one in ours:
        one.con.execute("ROLLBACK")


def test_telling_of_one_job_reads_one_job(ours) -> None:
    """`job info` and `job why` look at one job's rows only, however the job is named."""

    def tell(con: Connection, _site: Site) -> None:
        job_id, local_id = con.execute("SELECT JobID, LocalJobID FROM AAR WHERE RecordID = 109").fetchone()
        found = reader.find_job(con, job_id)
        assert found == reader.find_job(con, local_id) == reader.find_job(con, job_id[:40])
        arcctl.arcctl_record(con, found.record_id)
        job_history.events_of(con, found.record_id)
        job_history.seq_of(con, found.record_id)
        job_history.notes_of(con, found.record_id)
        job_history.status_file_seen(con, found.record_id)

    assert_flat(ours, tell)


def test_status_looks_at_the_newest(ours) -> None:
    """How recording goes is told by the last rows and by a count that is kept."""

    def ask(con: Connection, site: Site) -> None:
        assert databases.recorded(con).jobs == site.jobs + NEW
        databases.waiting(con, site.jobs, FIRST_END, ())
        databases.waiting(con, site.jobs, FIRST_END, ("atlas", "cms"))

    assert_flat(ours, ask)


def test_the_ledger_is_asked_by_its_indexes(ledgers) -> None:
    """What publishing asks of the ledger and writes into it costs what is sent, not what ever was."""

    def publish(con: Connection, site: Site) -> None:
        job_ids = [f"{number}-1" for number in range(60)]
        sent.pending(con, TARGET)
        sent.last_accepted(con, TARGET, "ur")
        held.states(con, TARGET, job_ids)
        due = held.RetryThresholds(FIRST_END, FIRST_END, 1)
        held.held_to_send(con, TARGET, due, refused=False)
        held.held_to_send(con, TARGET, due, refused=True)
        held.held_months(con, TARGET, due)
        held.refusals(con, TARGET, "1-1")
        held.retry_summaries(con, TARGET)
        held.earliest_undelivered_end(con, TARGET)
        (message,) = ledger.record_intent(con, TARGET, [_message(site.jobs)], [], seq=None)
        ledger.accepted(con, TARGET, message, 200, "", None)
        list(ledger.pending_messages(con, TARGET))
        ledger.count_pending(con, TARGET)
        cursors.finish_run(con, TARGET, error=None, last_end_time=1)
        ledger.forget_bytes(con, FIRST_END)
        job_history.messages_of(con, TARGET, "1-1")

    assert_flat(ledgers, publish)


def test_the_floor_is_asked_of_counts(ledgers) -> None:
    """What a receiver was given is a row for each month, and how its months are held and accepted, too."""

    def ask(con: Connection, site: Site) -> None:
        assert sum(amount.jobs for amount in published_jobs(con, TARGET).values())
        published_sums(con, TARGET)
        target_months.kinds(con, TARGET)
        target_months.load(con, TARGET)
        target_months.set_held(con, TARGET, [target_months.HeldMonth(2026, 9, "x", 2, 1)])
        target_months.decide(con, TARGET, [(2026, 9)], target_months.LOWER, "me", "life")
        target_months.accepted(con, TARGET, "life")
        target_months.end_run(con, TARGET, [], 1, is_whole=True)
        selections(con, TARGET)
        set_selection(con, TARGET, "LastGoodSelection", {})
        incarnation.uncertain_after_seq(con, TARGET)
        target_months.unfinished(con, TARGET)
        sent.sums_of_kind(con, TARGET, "sync")
        sent.zeroed(con, TARGET, (1, FIRST_END * 2), ledger.last_message(con))

    assert_flat(ledgers, ask)


def test_rows_at_the_receiver_are_noted_job_by_job(ledgers) -> None:
    """A record that is sent again is compared with what the receiver said of it before."""

    def send(con: Connection, site: Site) -> None:
        for replaced in (None, 1):
            again = [one._replace(replaced_id=replaced) for one in _message(1).records]
            (message,) = ledger.record_intent(con, TARGET, [_message(1)._replace(records=tuple(again))], [], seq=None)
            ledger.accepted(con, TARGET, message, 200, "", None, {"key": "7"}, "still there: {key}")
        ledger.record_intent(con, TARGET, [], seq=site.jobs)

    assert_flat(ledgers, send)
    for one in ledgers:
        ledger.highest_row(one.con, TARGET, "ur")
        assert one.walks() == []


def test_what_the_receiver_has_is_asked_by_job_id(ledgers) -> None:
    """Which versions of some jobs were sent is looked up job by job, and what came after a message from its end."""

    def ask(con: Connection, _site: Site) -> None:
        last = con.execute("SELECT max(MessageID) FROM Messages").fetchone()[0]
        sent.versions(con, TARGET, [f"{number}-1" for number in range(60)], keeps_first=True)
        sent.accepted_after(con, TARGET, last - 5)

    assert_flat(ledgers, ask)


def test_the_state_of_a_target_is_asked_by_its_indexes(ledgers, ours, tmp_path) -> None:
    """What `status` says of a target costs what waits for it."""
    (plugin,) = plugins(settings(read(tmp_path, ours=SGAS.replace(":one]", ":x]")), kinds()))
    for one, accounts in zip(ledgers, ours, strict=True):
        con, site = accounts.con, accounts.site
        if cursors.cursor(one.con, TARGET) is None:
            cursors.set_cursor(one.con, cursors.Cursor(TARGET, "life", site.jobs, FIRST_END, last_success=None))
        one.steps = 0
        cursors.begin_run(one.con, TARGET)
        assert databases.target_state(one.con, con, plugin, None).waiting.records >= NEW

    assert_flat(ledgers, lambda _con, _site: None)
    assert_flat(ours, lambda _con, _site: None)
