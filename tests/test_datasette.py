"""etc/datasette.yaml with the real Datasette: every page is there, none is dear, and nobody is disturbed."""

from __future__ import annotations

import json
import pathlib
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from urllib.parse import quote

import pytest

sys.path.append(str(pathlib.Path(__file__).parent / "bench"))

import generate
from datasette.utils import parse_metadata

from arcacct.conf.places import Places
from arcacct.db import opening

ROOT = pathlib.Path(__file__).parent.parent
METADATA = ROOT / "etc/datasette.yaml"
UNIT = (ROOT / "etc/arcacct-portal.service").read_text(encoding="utf-8")
PAGES = pathlib.Path(__file__).parent / "support/datasette_pages.py"
JOBS = 2000
STEPS = 400
"""
Of SQLite's machine, for each job of the database, in one query: of 100,000 jobs half a second.

What reads a table once, to count it, takes 30, and to count all attributes of all jobs 350; what makes all columns of
all jobs takes some thousands.
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Places:
    """Generated jobs, and a ledger with nothing in it."""
    made = generate.fill(tmp_path_factory.mktemp("portal"), JOBS)
    opening.open_publishing(made).close()
    return made


@pytest.fixture(scope="module")
def metadata() -> dict:
    """What the file says, as Datasette reads it."""
    return parse_metadata(METADATA.read_text(encoding="utf-8"))


def settings() -> dict[str, int | bool]:
    """Those of the unit."""
    found = re.findall(r"--setting (\S+) (\S+)", UNIT)
    return {name: text == "on" if text in ("on", "off") else int(text) for name, text in found}


def pages(here: Places, paths: list[str]) -> list[dict]:
    """What Datasette answers, and the SQL that it ran for it."""
    command = [sys.executable, PAGES, METADATA, json.dumps(settings()), here.database, here.publishing_database]
    done = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def read_only(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def test_what_is_named_is_there(here, metadata) -> None:
    """Tables, columns and sortable columns exist, each view has a title and a description, each query is understood."""
    assert set(metadata["databases"]) == {"accounting", "publishing"}
    for name, path in (("accounting", here.database), ("publishing", here.publishing_database)):
        found = metadata["databases"][name]
        with closing(read_only(path)) as con:
            for table, said in found["tables"].items():
                columns = {row[1] for row in con.execute(f"PRAGMA table_info({table})")}
                assert columns, table
                named = {*said.get("columns", ()), *said.get("sortable_columns", ()), *said.get("facets", ())}
                assert named <= columns, table
                assert said.get("hidden") or (said["title"] and said["description"])
            for query in found["queries"].values():
                con.execute(f"EXPLAIN {query['sql']}", dict.fromkeys(query.get("params", ()), ""))
                assert set(query.get("params", ())) == set(re.findall(r":([a-z_]+)", query["sql"]))


def test_no_table_is_shown_by_accident(here, metadata) -> None:
    """What readers are to see are views, whose columns stay: of the tables each is hidden, or has a title."""
    for name, path in (("accounting", here.database), ("publishing", here.publishing_database)):
        with closing(sqlite3.connect(path)) as con:
            tables = {table for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # SQLite's statistics Datasette hides by itself.
        tables = {table for table in tables if not table.startswith("sqlite_stat")}
        told = metadata["databases"][name]["tables"]
        assert {table for table in tables if not {"hidden", "title"} & told.get(table, {}).keys()} == set()


def test_every_page(here, metadata) -> None:
    """Front page, databases, views, each sorted by each column that is offered, facets and queries: 200, and cheap."""
    with closing(read_only(here.database)) as con:
        job_id, local_id, dn, vo, day, month = con.execute(
            "SELECT job_id, local_job_id, user_dn, vo, substr(end_time_iso, 1, 10), substr(end_time_iso, 1, 7)"
            " FROM v1_jobs WHERE vo IS NOT NULL LIMIT 1"
        ).fetchone()
    given = {"job_id": job_id, "local_job_id": local_id, "user_dn": dn, "vo": vo, "day": day, "month": month}
    paths = ["/", "/accounting", "/publishing", f"/accounting/v1_usage_by_month?_facet=vo_group&month={month}"]
    paths += [f"/accounting/v1_job_events?job_id={quote(job_id)}", f"/accounting/v1_jobs?vo={vo}&_sort_desc=end_time"]
    for database, found in metadata["databases"].items():
        for table, said in found["tables"].items():
            if not said.get("hidden"):
                paths.append(f"/{database}/{table}")
                paths += [
                    f"/{database}/{table}?_sort{how}={one}" for one in said["sortable_columns"] for how in ("", "_desc")
                ]
        for name, query in found["queries"].items():
            asked = "&".join(f"{one}={quote(given[one])}" for one in query.get("params", ()))
            paths.append(f"/{database}/{name}?{asked}")
    answers = pages(here, paths)

    assert {one["path"]: one["status"] for one in answers if one["status"] != 200} == {}
    assert [(one["path"], one["errors"]) for one in answers if one["errors"]] == []
    assert sum(len(one["sql"]) for one in answers) > len(paths)
    by_file = {"accounting": read_only(here.database), "publishing": read_only(here.publishing_database)}
    dear = []
    for one in answers:
        for database, sql, params in one["sql"]:
            if database in by_file and not sql.startswith(("PRAGMA", "pragma")) and "sqlite_master" not in sql:
                count = steps(by_file[database], sql, params)
                dear += [(one["path"], sql, count)] if count > STEPS * JOBS + 200_000 else []
    for con in by_file.values():
        con.close()
    assert dear == []
    shown = {one["path"]: one["text"] for one in answers}
    assert "Accounting of this computing element" in shown["/"]
    assert "Usage by month" in shown["/accounting/v1_usage_by_month"]
    assert job_id in shown[f"/accounting/a_job?job_id={quote(job_id)}"]


def steps(con: sqlite3.Connection, sql: str, params: object) -> int:
    """How many steps of SQLite's machine a query takes, in thousands of them."""
    count = 0

    def counted() -> int:
        nonlocal count
        count += 1000
        return 0

    con.set_progress_handler(counted, 1000)
    try:
        con.execute(sql, params or {}).fetchmany(1001)
    finally:
        con.set_progress_handler(None, 0)
    return count


@pytest.mark.parametrize("way", ["", " DESC"])
@pytest.mark.parametrize("column", ["end_time", "submit_time", "local_job_id"])
def test_jobs_are_sorted_by_an_index(here, column, way) -> None:
    """However many there are: the columns that the page offers to sort by need no sorting."""
    with closing(read_only(here.database)) as con:
        asked = f"EXPLAIN QUERY PLAN SELECT * FROM v1_jobs ORDER BY {column}{way} LIMIT 51"
        # Those of the query itself: it has others for the children of each job that it shows.
        plan = [text for _id, parent, _unused, text in con.execute(asked) if parent == 0]
    assert "OrNull_IDX" in plan[0]
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan


def test_nobody_asks_by_sql_of_their_own(here) -> None:
    """The pages and queries of the file, and no statement from the web; no file to take away."""
    paths = ["/accounting?sql=select+1", "/accounting/v1_jobs?_where=1", "/accounting.db"]
    answers = {one["path"]: one for one in pages(here, paths)}
    assert answers["/accounting?sql=select+1"]["status"] == 403
    assert answers["/accounting/v1_jobs?_where=1"]["status"] == 403
    assert answers["/accounting.db"]["status"] == 403


def test_the_unit_reads_what_is_written_meanwhile() -> None:
    """Never immutable: of a live file that shows half of the rows (INVARIANTS 7)."""
    command = UNIT[UNIT.index("ExecStart=") : UNIT.index("Restart=")]
    assert "immutable" not in command
    assert " -i " not in command
    assert "--host 127.0.0.1" in command
