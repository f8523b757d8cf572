"""Records with values that cannot be true are held, whoever writes them, until they change or somebody decides."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from publishing_site import JUNE, MOST_S, Job, facts_of, write
from stored_jobs import job

from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records import holds, reader, usage
from arcacct.records.enrichment import enrich, rate
from arcacct.records.recorder import record, record_present
from arcacct.records.usage import left_since
from arcacct.records.writer import JobWriter, remove

JUNE_2024 = (2024, 6)
HONEST = Job("j")


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    with closing(in_memory(ACCOUNTING)) as con:
        yield con


def held(con: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Reasons and state of each record that was ever held, by JobID."""
    rows = con.execute("SELECT JobID, Reasons, State FROM RecordHolds JOIN AAR USING (RecordID)")
    return {job_id: (reasons, state) for job_id, reasons, state in rows}


def used(con: sqlite3.Connection) -> list[tuple[int, int, int]]:
    """Jobs, wall time and CPU time of each cell."""
    return [(cell.jobs, cell.wall_s, cell.cpu_s) for cell in usage.usage_cells(con)]


def logged(con: sqlite3.Connection) -> list[int]:
    return [seq for (seq,) in con.execute("SELECT Seq FROM FinishedLog")]


def published(con: sqlite3.Connection) -> list[tuple[str, int, int]]:
    """What a target would be sent: JobID, wall time and CPU time."""
    page = reader.logged_after(con, 0, 10**6)
    return [] if page is None else [(aar.job_id, aar.wall_s, aar.cpu_s) for _seq, aar in page.records]


def told(con: sqlite3.Connection) -> list[tuple[object, ...]]:
    columns = "wall_s, cpu_s, core_count, benchmark_value, hold_reasons, hold_state"
    return con.execute(f"SELECT {columns} FROM v1_jobs").fetchall()


LIES = {
    "wall": ({"wall_s": 2**32 - 1}, "out-of-range"),
    "epoch": ({"wall_s": JUNE}, "wall-beyond-life"),
    "cpu": ({"cpu_s": 10**12}, "out-of-range"),
    "cores": ({"cpu_s": 47 * 100}, "cpu-beyond-cores"),
    "no time": ({"wall_s": 0, "cpu_s": 500}, "cpu-beyond-cores"),
    "count": ({"cores": 4_294_967_294}, "cores-impossible"),
    "cores of a node": ({"cores": 1_000_000, "hosts": "n1"}, "cores-impossible"),
    "benchmark": ({"benchmark": "HEPscore23:1500"}, "benchmark-impossible"),
}


@pytest.mark.parametrize(("values", "reason"), LIES.values(), ids=LIES)
@pytest.mark.parametrize("way", ["hook", "sweep", "after others"])
def test_a_lie_is_held_whoever_records_it(con, way, values, reason) -> None:
    """It is in no figure and at no receiver, AAR has what was reported, and the log one entry."""
    lie = HONEST._replace(**values)
    if way == "after others":
        accepted = facts_of(lie)
        accepted.state, accepted.usage, accepted.event_ns = "ACCEPTED", None, accepted.submit_time * 10**9
        record(con, accepted)
    if way == "sweep":
        record_present(con, [(facts_of(lie), True)])
    else:
        record(con, facts_of(lie))

    assert held(con) == {"j": (reason, "held")}
    assert logged(con) == [1]
    assert used(con) == published(con) == []
    (stored,) = con.execute("SELECT UsedWalltime, UsedCPUUserTime, CPUCount FROM AAR").fetchall()
    assert stored == (lie.wall_s, lie.cpu_s, lie.cores)
    assert con.execute("SELECT * FROM PreviousVersions").fetchall() == []


def test_the_usage_of_a_held_job_is_null_in_the_view(con) -> None:
    """With the values that can be true: a sum of these alone would be wrong, too."""
    record(con, facts_of(HONEST._replace(wall_s=JUNE)))
    assert told(con) == [(None, None, 1, 10.0, "wall-beyond-life", "held")]

    holds.decide(con, 1, "bound", "root")
    assert told(con) == [(MOST_S, 90, 1, 10.0, "wall-beyond-life", "bound")]


def test_an_honest_job_costs_no_row(con) -> None:
    record(con, facts_of(HONEST))

    assert held(con) == {}
    assert published(con) == [("j", 100, 90)]
    assert told(con) == [(100, 90, 1, 10.0, None, None)]


def test_many_cores_on_unnamed_nodes_are_possible(con) -> None:
    """A-REX writes one node when it knows none."""
    record(con, facts_of(HONEST._replace(cores=1_000_000)))
    holds.judge(con, [1])

    assert held(con) == {}


def test_a_job_that_comes_right_is_counted(con) -> None:
    """A corrected .diag: the hold goes with the values that it was about, and nothing was ever taken away."""
    record(con, facts_of(HONEST._replace(wall_s=JUNE)))
    write(con, HONEST)

    assert held(con) == {}
    assert published(con) == [("j", 100, 90)]
    assert used(con) == [(1, 100, 90)]
    # The lie counted nothing: it explains no fall.
    assert left_since(con, JUNE_2024, 0) == []


def test_a_job_that_goes_wrong_explains_what_is_missing(con) -> None:
    """What receivers may have of it is noted, with the values that were published."""
    record(con, facts_of(HONEST))
    write(con, HONEST._replace(wall_s=JUNE))

    assert held(con) == {"j": ("wall-beyond-life", "held")}
    assert published(con) == used(con) == []
    assert [(one.jobs, one.wall_s) for one in left_since(con, JUNE_2024, 1)] == [(1, 100)]


DECIDED = {"unknown": (0, 90), "bound": (MOST_S, 90), "reported": (JUNE, 90)}


@pytest.mark.parametrize(("decision", "values"), DECIDED.items(), ids=DECIDED)
def test_a_decision_is_what_counts(con, decision, values) -> None:
    """In records and in sums alike, the log has it once more, and it is taken back as it was made."""
    record(con, facts_of(HONEST._replace(wall_s=JUNE)))
    holds.decide(con, 1, decision, "root")

    assert published(con) == [("j", *values)]
    assert used(con) == [(1, *values)]
    assert logged(con) == [2]
    assert left_since(con, JUNE_2024, 0) == []

    holds.decide(con, 1, "held", "ada")
    assert published(con) == used(con) == []
    assert logged(con) == [3]
    assert [(one.jobs, one.wall_s) for one in left_since(con, JUNE_2024, 2)] == [(1, values[0])]
    made = con.execute("SELECT State, DecidedBy FROM HoldDecisions ORDER BY rowid").fetchall()
    assert made == [(decision, "root"), ("held", "ada")]


def test_an_excluded_job_stays_out(con) -> None:
    record(con, facts_of(HONEST._replace(wall_s=JUNE)))
    holds.decide(con, 1, "excluded", "root")

    assert published(con) == used(con) == []
    assert held(con) == {"j": ("wall-beyond-life", "excluded")}


def test_a_decision_is_about_the_values_that_it_was_made_about(con) -> None:
    record(con, facts_of(HONEST._replace(wall_s=JUNE)))
    holds.decide(con, 1, "bound", "root")

    # Something else of the job changes: the decision stays.
    write(con, HONEST._replace(wall_s=JUNE, cpu_s=80))
    assert held(con) == {"j": ("wall-beyond-life", "bound")}
    assert published(con) == [("j", MOST_S, 80)]

    # Another lie: somebody has to look at that.
    write(con, HONEST._replace(wall_s=JUNE + 5, cpu_s=80))
    assert held(con) == {"j": ("wall-beyond-life", "held")}
    assert published(con) == []


def test_jobs_of_imports_are_judged_at_every_write(con) -> None:
    """Whatever writes a record: the import itself, what others tell of it, and another benchmark."""
    good = job(1)

    def imported(**values: object) -> None:
        JobWriter(con, "gridengine", "cell").write([good._replace(**values)])

    imported(wall_s=10**6)
    assert held(con) == {good.job_id: ("wall-beyond-life", "held")}
    assert logged(con) == [1]
    imported()
    assert held(con) == {}
    imported(cpu_user_s=10**6)
    assert held(con) == {good.job_id: ("cpu-beyond-cores", "held")}
    imported()

    enrich(con, 1, "sonar", {"cpu_user_s": 3 * 10**6}, over_arex=True)
    enrich(con, 1, "gridengine", {"wall_s": 10**6})
    assert held(con) == {good.job_id: ("wall-beyond-life", "held")}
    enrich(con, 1, "gridengine", {"wall_s": 3500})
    assert held(con) == {}
    rate(con, 1, "HEPscore23:1700", "arc.conf")
    assert held(con) == {good.job_id: ("benchmark-impossible", "held")}
    rate(con, 1, "HEPscore23:17", "arc.conf")
    assert held(con) == {}


def test_a_wall_time_of_zero_is_a_measurement_and_an_unknown_one_is_not(con) -> None:
    """A-REX's own database has 0 for both, so there it says nothing about the CPU time."""
    zero, unknown, arex = job(1)._replace(wall_s=0), job(2)._replace(wall_s=None), job(3)._replace(wall_s=0)
    JobWriter(con, "pbs", "server").write([zero, unknown])
    JobWriter(con, "arex", "accounting.db").write([arex])

    assert held(con) == {zero.job_id: ("cpu-beyond-cores", "held")}
    holds.judge(con, [1, 2, 3])
    assert held(con) == {zero.job_id: ("cpu-beyond-cores", "held")}


def test_a_job_in_progress_is_not_judged(con) -> None:
    JobWriter(con, "arex", "a").write([job(1, status="in-progress")._replace(wall_s=10**9)])
    assert held(con) == {}

    JobWriter(con, "arex", "a").write([job(1)._replace(wall_s=10**9)])
    assert held(con) == {job(1).job_id: ("wall-beyond-life", "held")}
    assert left_since(con, (2026, 5), 0) == []


def test_a_record_that_is_forgotten_leaves_no_hold(con) -> None:
    JobWriter(con, "gridengine", "cell").write([job(1)._replace(wall_s=10**9), job(2)])
    remove(con, [1, 2])

    assert held(con) == {}
    assert con.execute("SELECT count(*) FROM RecordHolds").fetchone() == (0,)
    assert [(one.jobs, one.wall_s) for one in left_since(con, (2026, 5), 0)] == [(1, 3500)]


def test_cells_are_a_recount_of_what_counts(con) -> None:
    """Whatever was held, decided and taken back meanwhile."""
    record(con, facts_of(HONEST._replace(wall_s=JUNE)))
    record(con, facts_of(HONEST._replace(job_id="k")))
    holds.decide(con, 1, "bound", "root")
    assert used(con) == [(2, MOST_S + 100, 180)]
    holds.decide(con, 1, "unknown", "root")
    assert used(con) == [(2, 100, 180)]


def test_one_core_of_a_batch_record_counts_only_with_a_named_node(con) -> None:
    """Batch systems report one core where they know no number; A-REX counts cores."""
    record(con, facts_of(HONEST._replace(cpu_s=47 * 100)))
    con.execute("DELETE FROM JobExtraInfo WHERE InfoKey IN ('nodename', 'nodenames')")
    con.execute("INSERT OR REPLACE INTO RecordSources VALUES (1, 'slurm', 'test')")
    holds.judge(con, [1])
    assert held(con) == {}

    con.execute("INSERT INTO JobExtraInfo VALUES (1, 'nodename', 'n1')")
    holds.judge(con, [1])
    assert held(con) == {"j": ("cpu-beyond-cores", "held")}


def test_without_a_submission_the_start_bounds_the_wall_time(con) -> None:
    """A-REX's event LRMSSTART, and no other event of the job."""
    record(con, facts_of(HONEST))
    con.execute("DELETE FROM JobEvents")
    for key, seconds in (("ACCEPTED", JUNE - 10**6), ("LRMSSTART", JUNE - 30_000), ("FINISHED", JUNE)):
        con.execute(
            "INSERT INTO JobEvents VALUES (1, ?, strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'))", (key, seconds)
        )

    for wall_s, found in ((20_000, {}), (100_000, {"j": ("wall-beyond-life", "held")})):
        con.execute("UPDATE AAR SET SubmitTime = 0, EndTime = ?, UsedWalltime = ?", (JUNE, wall_s))
        holds.judge(con, [1])
        assert held(con) == found
