"""What an export writes keeps within the bounds of its readers."""

from __future__ import annotations

import arex_corpus as corpus
import pytest
import stored_jobs
from in_process import said

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra parquet")
pytest.importorskip("duckdb", reason="duckdb is not installed: the extra parquet")

import pyarrow.parquet as pq

from arcacct.database.access import initialise, open_accounting
from arcacct.export.dataset import TEXT_BYTES, columns, group_bytes
from arcacct.export.jobs import Job
from arcacct.export.parquet import PartsWriter


def test_a_text_that_is_too_long_is_cut(tmp_path, capsys) -> None:
    """The month can be read, with all of the other texts; no character is cut in two."""
    here = corpus.place(tmp_path / "ce")
    initialise(here)
    con = open_accounting(here)
    long = stored_jobs.job(2)._replace(job_name="a" + "ż" * TEXT_BYTES)
    stored_jobs.add(con, here, stored_jobs.job(1), long)
    con.close()
    root = tmp_path / "dataset"
    exported = said(capsys, "--database", here.database, "export", "--site", "S", "--ce", "ce.example.org", root)
    assert exported.returncode == 0, exported.stderr

    checked = said(capsys, "fleet", "verify", "--deep", root)
    (part,) = (root / "jobs").rglob("*.parquet")

    assert (checked.returncode, checked.stderr) == (0, "")
    names = pq.ParquetFile(part).read(["job_name"])["job_name"].to_pylist()
    assert sorted(names) == ["a" + "ż" * ((TEXT_BYTES - 1) // 2), "job 1"]


@pytest.mark.campaign
def test_a_group_of_long_texts_has_fewer_rows(tmp_path) -> None:
    """However the long ones lie among the others."""
    names = [column.name for column in columns()["jobs"]]
    empty = [None] * len(names)
    text = "n" * (TEXT_BYTES - 1)
    writer = PartsWriter(str(tmp_path))
    for number in range(2400):
        values = [*empty]
        values[names.index("record_id")] = number
        values[names.index("node_names")] = text if number >= 1200 else "n1"
        writer.add([Job(number, number, tuple(values), {})])
    writer.close()

    written = pq.ParquetFile(tmp_path / "jobs.parquet")
    groups = [written.metadata.row_group(number) for number in range(written.metadata.num_row_groups)]
    assert sum(group.num_rows for group in groups) == 2400
    for number, group in enumerate(groups):
        told = written.read_row_group(number, ["node_names"]).nbytes
        assert max(told, group.total_byte_size) <= group_bytes(group.num_rows)
