"""The dataset in ClickHouse, where it stands, by the script for it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec

import pytest
from twelve_questions import QUESTIONS, canonical

pytestmark = pytest.mark.campaign

pytest.importorskip("pyarrow", reason="pyarrow is not installed: the extra parquet")
CHDB = os.environ.get("ARCACCT_CHDB", "")
"""Where pip has put it: it is too large for the environment of all tests."""
if not CHDB and find_spec("chdb") is None:
    pytest.skip("ARCACCT_CHDB is not set: pip install --no-deps --target DIR chdb-core-lite", allow_module_level=True)

sys.path.append(str(pathlib.Path(__file__).parents[1] / "bench"))

import generate  # noqa: E402
from written_partitions import write_database  # noqa: E402

from arcacct.files.directories import resource  # noqa: E402

ASK = """
import json, sys
from chdb.session import Session
script, settings, questions = json.load(sys.stdin)
session = Session()
for statement in [*script.split(";\\n"), settings, "USE arcacct"]:
    if statement.strip():
        session.query(statement)
print(json.dumps([json.loads(session.query(one, "JSONCompact").bytes())["data"] for one in questions]))
"""
SETTINGS = "SET join_use_nulls = 1, prefer_column_name_to_alias = 1, output_format_json_quote_64bit_integers = 0"


def test_the_twelve_questions_are_answered_as_by_the_views(tmp_path) -> None:
    """Of the files that manifests name: what else lies there, and is newer or older, does not count."""
    here = generate.fill(tmp_path / "ce", 400)
    root = tmp_path / "dataset"
    with closing(sqlite3.connect(here.database)) as con:
        write_database(root, con, "Site-01", "ce01.example.org")
        expected = [canonical(con.execute(question.sql)) for question in QUESTIONS]
    # As a former export leaves it.
    for part in [*root.glob("jobs/**/*.parquet")]:
        shutil.copy(part, part.with_name(f"part-{'0' * 16}.parquet"))
    # As a site that changed its name may leave it.
    shutil.copytree(root / "jobs/v1/site=Site-01", root / "jobs/v1/site=Former")
    with open(resource("schema", "fleet", "clickhouse.sql"), encoding="utf-8") as file:
        script = file.read().replace("DATASET", str(root))
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([script, SETTINGS, [question.sql for question in QUESTIONS]]),
        # ClickHouse knows zones by name alone, and does not start in one that is written out.
        env={**os.environ, "PYTHONPATH": CHDB, "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    for question, wanted, rows in zip(QUESTIONS, expected, json.loads(done.stdout), strict=True):
        assert canonical(rows) == wanted, question.name
