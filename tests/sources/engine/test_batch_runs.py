"""The view v1_batch_runs: created by the first import of any batch system whose runs are in the common table."""

from __future__ import annotations

from contextlib import closing

import pytest
from batch_files import BEGIN, DATA, BatchHost
from installed import arcacct, configured

from arcacct.sources.lsf.importer import SOURCE as LSF
from arcacct.sources.pbs.importer import SOURCE as PBS

_VIEWS = "SELECT name FROM sqlite_master WHERE name GLOB 'v1_batch*'"


@pytest.mark.parametrize(("source", "log"), [(PBS, "pbs/torque-20261102"), (LSF, "lsf/lsb.acct")], ids=["pbs", "lsf"])
def test_the_first_import_creates_the_view(tmp_path, source, log) -> None:
    """A database has the view from the import on, also one that has runs and no view since an older version."""
    host = BatchHost(tmp_path, source)
    with closing(host.con):
        assert host.rows(_VIEWS) == []
        host.take(DATA / log)
        shown = host.rows("SELECT source, job_id FROM v1_batch_runs")
        assert {name for name, _job_id in shown} == {source.system.source}
        assert {job_id for _name, job_id in shown} == {job_id for (job_id,) in host.rows("SELECT JobID FROM AAR")}

        host.con.execute("DROP VIEW v1_batch_runs")
        host.take()
        assert host.rows("SELECT source, job_id FROM v1_batch_runs") == shown


def test_what_is_not_reported_is_null(tmp_path) -> None:
    """An element of an array, a job with everything, and one with little."""
    host = BatchHost(tmp_path, LSF)
    with closing(host.con):
        host.take(DATA / "lsf/lsb.acct")
        columns = "array_index, wall_s, cpu_user_s, cpus, core_s, project, exit_signal"
        assert host.rows(f"SELECT {columns} FROM v1_batch_runs WHERE job_number IN (386, 388, 389) ORDER BY 1, 4") == [
            (None, 3600, 3500, 1, 3600, "atlas", None),
            (None, 600, None, 1, 600, None, 2),
            (7, 600, 7000, 12, 7200, None, None),
        ]
        assert host.rows("SELECT start_time, start_time_iso FROM v1_batch_runs WHERE job_number = 386") == [
            (BEGIN + 4, "2026-11-02T00:00:04Z")
        ]


def test_a_query_before_the_first_import(tmp_path) -> None:
    """The error names the commands that create the view."""
    conf = configured(tmp_path)
    assert arcacct("--config", conf, "db", "init").returncode == 0
    done = arcacct("--config", conf, "query", "SELECT * FROM v1_batch_runs")
    assert "the first `arcacct import pbs` or `arcacct import lsf` creates it" in done.stderr
