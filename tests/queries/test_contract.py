"""The contract with third parties: columns stay, and go on meaning what they meant."""

from __future__ import annotations

import pathlib
import re
import sqlite3
from contextlib import closing

import arex_corpus as corpus
import pytest
import sql_contract

from arcacct.database.access import read_accounting
from arcacct.database.schema import ACCOUNTING, PUBLISHING, in_memory

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "sql_contract.txt"
KINDS = {"accounting": ACCOUNTING, "publishing": PUBLISHING}


def test_no_column_disappears_or_changes_its_meaning(ours) -> None:
    """
    The committed contract is what the views are now: names, order, documentation, and values of real jobs.

    A line that changes or goes breaks the queries of third parties. For new columns:
    ``python tests/support/sql_contract.py > tests/golden/sql_contract.txt``.
    """
    with closing(read_accounting(corpus.place(ours.control))) as con:
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
        "source hold_reasons hold_state"
    )
    names = [one.name for one in sql_contract.documented(ACCOUNTING)["v1_jobs"]]

    assert [name for name in names if not name.endswith("_iso")] == wanted.split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_time_has_its_text_beside_it(kind) -> None:
    """Times are integers with an ISO text of the same name."""
    for columns in sql_contract.documented(KINDS[kind]).values():
        names = [one.name for one in columns]
        times = [name for name in names if re.search(r"(^|_)time$", name)]
        assert {f"{name}_iso" for name in times} <= set(names)


def test_escapes_are_undone(ours) -> None:
    """What A-REX stores as %27, %25 and %23 is the character that the user typed."""
    with closing(read_accounting(corpus.place(ours.control))) as con:
        (name,) = con.execute("SELECT job_name FROM v1_jobs WHERE job_id = ?", (corpus.names()["special"],)).fetchone()

    assert name == "a & b <c> 'q' \"dq\" k=v; x,y %I # \\ back / ]]>"


def test_a_percent_sign_that_looks_like_an_escape_survives(ours) -> None:
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
def test_where_values_come_from_is_told(ours, written, found) -> None:
    """Source and benchmark_source say arc and diag unless a source or an enrichment wrote otherwise."""
    job = (corpus.names()["multicore"],)
    with closing(sqlite3.connect(ours.database)) as con:
        for table, values in written:
            con.execute(f"INSERT INTO {table} SELECT RecordID, ?, ? FROM AAR WHERE JobID = ?", (*values, *job))
        assert con.execute("SELECT source, benchmark_source FROM v1_jobs WHERE job_id = ?", job).fetchone() == found


def test_a_job_id_is_found_by_its_index(ours) -> None:
    """A condition on job_id reads one job, however many there are."""
    with closing(sqlite3.connect(ours.database)) as con:
        plan = " ".join(row[3] for row in con.execute("EXPLAIN QUERY PLAN SELECT vo FROM v1_jobs WHERE job_id = 'x'"))

    assert "SEARCH AAR USING INDEX" in plan
