"""The contract with third parties: columns stay, and go on meaning what they meant."""

from __future__ import annotations

import pathlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import arex_corpus as corpus
import counted_jobs
import pytest
import sql_contract
from control_directory import set_up

from arcacct.config.paths import places
from arcacct.database.access import initialise, open_accounting, read_accounting
from arcacct.database.schema import ACCOUNTING, PUBLISHING, create_views, in_memory
from arcacct.records import holds

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "sql_contract.txt"
KINDS = {"accounting": ACCOUNTING, "publishing": PUBLISHING}


def test_no_column_disappears_or_changes_its_meaning(unchanged) -> None:
    """
    The committed contract is what the views are now: names, order, documentation, and values of real jobs.

    A line that changes or goes breaks the queries of third parties. For new columns:
    ``python tests/support/sql_contract.py > tests/golden/sql_contract.txt``.
    """
    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        assert sql_contract.contract(con) == GOLDEN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_is_documented(kind) -> None:
    """Each column that a view has stands in the schema with a comment, and no other does."""
    with closing(sql_contract.with_all_views(KINDS[kind])) as con:
        documented = sql_contract.documented(KINDS[kind])
        views = [
            name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'view' AND name LIKE 'v1%'")
        ]
        assert sorted(documented) == sorted(views)
        for view in views:
            assert [one.name for one in documented[view]] == sql_contract.actual(con, view)


def test_v1_jobs_has_every_column_of_the_record() -> None:
    """Everything that a usage record can tell of a job is a column."""
    wanted = (
        "job_id local_job_id job_name endpoint_url endpoint_type lrms queue node_names client_host user_dn "
        "local_user vo fqan vo_group vo_role project status exit_code submit_time lrms_submit_time "
        "lrms_start_time lrms_end_time end_time node_count core_count wall_s cpu_s cpu_user_s cpu_kernel_s "
        "memory_kib virtual_memory_kib scratch_bytes stage_in_bytes stage_in_s stage_out_bytes stage_out_s "
        "run_time_environments system_software wn_instance benchmark_type benchmark_value benchmark_source "
        "source hold_reasons hold_state counted core_s allocated_gpus allocated_gpu_s busy_gpu_s gpus_energy_j "
        "nodes_energy_j gpus_source energy_source"
    )
    names = [one.name for one in sql_contract.documented(ACCOUNTING)["v1_jobs"]]

    assert [name for name in names if not name.endswith("_iso")] == wanted.split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_time_has_its_text_next_to_it(kind) -> None:
    """Times are integers with an ISO text of the same name."""
    for columns in sql_contract.documented(KINDS[kind]).values():
        names = [one.name for one in columns]
        times = [name for name in names if re.search(r"(^|_)time$", name)]
        assert {f"{name}_iso" for name in times} <= set(names)


def test_escapes_are_undone(unchanged) -> None:
    """What A-REX stores as %27, %25 and %23 is the character that the user typed."""
    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        (name,) = con.execute("SELECT job_name FROM v1_jobs WHERE job_id = ?", (corpus.names()["special"],)).fetchone()

    assert name == "a & b <c> 'q' \"dq\" k=v; x,y %I # \\ back / ]]>"


def test_a_percent_sign_that_looks_like_an_escape_survives(unchanged) -> None:
    """A name with a literal %27 in it is not taken for a quote."""
    with closing(in_memory(ACCOUNTING)) as con:
        con.execute("INSERT INTO Users (Name) VALUES ('%2527%27')")
        for table in ("Queues", "WLCGVOs"):
            con.execute(f"INSERT INTO {table} (Name) VALUES ('x')")
        con.execute("INSERT INTO Endpoints (Interface, URL) VALUES ('', '')")
        con.execute("INSERT INTO AAR VALUES (1, 'J', '', 1, 1, 1, 1, 2, 0, 1, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)")
        found = con.execute("SELECT user_dn, endpoint_url, source, local_job_id FROM v1_jobs").fetchone()

    assert found == ("%27'", None, "arc", None)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ([], ("arc", "diag")),
        ([("RecordSources", ("gridengine", "/cell/accounting"))], ("gridengine", "gridengine")),
        ([("FieldSources", ("benchmark", "arc.conf"))], ("arc", "arc.conf")),
    ],
    ids=["hook", "another-source", "another-benchmark"],
)
def test_where_values_come_from_is_reported(ours, written, found) -> None:
    """Source and benchmark_source say arc and diag unless a source or an enrichment wrote otherwise."""
    job = (corpus.names()["multicore"],)
    with closing(sqlite3.connect(ours.database)) as con:
        for table, values in written:
            con.execute(f"INSERT INTO {table} SELECT RecordID, ?, ? FROM AAR WHERE JobID = ?", (*values, *job))
        assert con.execute("SELECT source, benchmark_source FROM v1_jobs WHERE job_id = ?", job).fetchone() == found


def test_a_job_id_is_found_by_its_index(unchanged) -> None:
    """A condition on job_id reads one job, however many there are."""
    with closing(sqlite3.connect(unchanged.database)) as con:
        plan = " ".join(row[3] for row in con.execute("EXPLAIN QUERY PLAN SELECT vo FROM v1_jobs WHERE job_id = 'x'"))

    assert "SEARCH AAR USING INDEX" in plan


@pytest.fixture
def mixed(tmp_path) -> Iterator[tuple[sqlite3.Connection, dict[str, str]]]:
    """Jobs that count, and jobs that do not; their JobIDs by kind."""
    here = places(None, set_up(tmp_path / "control"))
    initialise(here)
    with closing(open_accounting(here)) as con:
        ids = counted_jobs.add(con, here)
        create_views(con, "sonar")
        yield con, ids


OF_JOBS = (
    "wall_s, cpu_s, cpu_user_s, cpu_kernel_s, memory_kib, virtual_memory_kib, scratch_bytes, stage_in_bytes,"
    " stage_in_s, stage_out_bytes, stage_out_s, core_s"
)
OF_TELEMETRY = (
    "sampled_cpu_s, peak_memory_kib, read_kib, written_kib, gpu_allocated_s, gpu_occupied_s, gpu_busy_s,"
    " gpu_peak_memory_kib, gpu_energy_j, energy_j"
)


def test_a_job_that_does_not_count_has_no_usage(mixed) -> None:
    """Held, excluded, in progress, aborted without usage: counted is 0, and each column of usage NULL."""
    con, ids = mixed
    out = {"held", "held for its CPU time", "excluded", "in progress", "aborted without usage"}
    asked = "SELECT job_id FROM v1_jobs WHERE NOT counted"
    assert {job_id for (job_id,) in con.execute(asked)} == {ids[kind] for kind in out}
    for view, columns in (("v1_jobs", OF_JOBS), ("v1_job_telemetry", OF_TELEMETRY)):
        found = set(con.execute(f"SELECT {columns} FROM {view} WHERE NOT counted"))
        assert found == {(None,) * len(columns.split(", "))}, view
    assert con.execute("SELECT min(counted), max(counted) FROM v1_job_telemetry").fetchone() == (0, 1)


def test_what_counts_is_what_the_sums_have(mixed) -> None:
    """Job by job as the tables and the decisions have it, and as a whole as the months have it."""
    con, _ids = mixed
    expected = {job.job_id: job[7:11] for job in counted_jobs.counted(con)}
    asked = "SELECT job_id, wall_s, cpu_s, core_s, energy_j FROM v1_jobs JOIN v1_job_telemetry USING (job_id)"
    assert {row[0]: row[1:] for row in con.execute(f"{asked} WHERE v1_jobs.counted")} == expected
    assert (
        con.execute("SELECT sum(counted) FROM v1_jobs").fetchone()
        == con.execute("SELECT count(*) FROM RecordUsage").fetchone()
    )
    sums = "sum(wall_s), sum(cpu_s), sum(core_s)"
    jobs = con.execute(f"SELECT sum(counted), {sums} FROM v1_jobs").fetchone()
    measured = con.execute(
        "SELECT sum(cpu_s), sum(core_s) FROM v1_jobs WHERE cpu_s IS NOT NULL AND core_s IS NOT NULL"
    ).fetchone()
    unmeasured = con.execute("SELECT sum(wall_s IS NULL), sum(cpu_s IS NULL) FROM v1_jobs WHERE counted").fetchone()
    assert measured[0] < jobs[2]
    assert measured[1] < jobs[3]
    # As the sums are stored, and as they are while the last records, or all, are not in them.
    for behind in (0, 9, 99):
        con.execute("UPDATE UsageCursor SET Seq = max(Seq - ?, 0)", (behind,))
        assert con.execute(f"SELECT sum(jobs), {sums} FROM v1_usage_by_month").fetchone() == jobs
        both = "sum(cpu_with_core_s), sum(core_with_cpu_s)"
        assert con.execute(f"SELECT {both} FROM v1_usage_by_month").fetchone() == measured
        without = "sum(jobs_without_wall), sum(jobs_without_cpu)"
        assert con.execute(f"SELECT {without} FROM v1_usage_by_month").fetchone() == unmeasured


def test_held_values_are_shown_as_told(mixed) -> None:
    """Each value of a job with an impossible one, with the reason beside the one that is impossible, decided or not."""
    con, ids = mixed
    asked = "SELECT field, told, reason FROM v1_held_values WHERE job_id = ?"
    told = {"end_time": str(counted_jobs.END_S + 8), "node_count": "1", "core_count": "8", "memory_kib": "2000000"}
    told |= {"virtual_memory_kib": "2000000", "scratch_bytes": "0", "stage_in_bytes": "10", "stage_out_bytes": "20"}
    told |= {"wall_s": "3500", "cpu_user_s": "10000000", "cpu_kernel_s": "300", "benchmark": "HEPSPEC:12.26"}
    beyond = {"cpu_user_s": "cpu-beyond-cores", "cpu_kernel_s": "cpu-beyond-cores"}
    expected = {(field, value, beyond.get(field)) for field, value in told.items()}

    assert set(con.execute(asked, (ids["held for its CPU time"],))) == expected
    with_holds = {job_id for (job_id,) in con.execute("SELECT job_id FROM v1_jobs WHERE hold_reasons IS NOT NULL")}
    assert {job_id for (job_id,) in con.execute("SELECT job_id FROM v1_held_values")} == with_holds
    for kind, wall_s in (("held", 10**8), ("excluded", 10**8), ("bound", 10**8), ("reported", 10**6)):
        found = {row[0]: row[1:] for row in con.execute(asked, (ids[kind],))}
        assert found["wall_s"] == (str(wall_s), "wall-beyond-life")


def test_an_unreported_value_is_no_held_value(mixed) -> None:
    """A-REX's table has 0 for it."""
    con, ids = mixed
    (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (ids["without wall time"],)).fetchone()
    holds.hold_unmeasured(con, record_id)
    fields = con.execute("SELECT field FROM v1_held_values WHERE job_id = ?", (ids["without wall time"],)).fetchall()
    assert "cpu_user_s" in {field for (field,) in fields}
    assert "wall_s" not in {field for (field,) in fields}
