"""etc/datasette.yaml with the real Datasette: what is open, what is forbidden, and what a page costs."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from urllib.parse import quote

import pytest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "bench"))

import generate
import stored_jobs

from arcacct.config.paths import Places
from arcacct.database import access, schema
from arcacct.records import usage
from arcacct.records.writer import JobWriter
from arcacct.sandbox import commands as demo

pytestmark = pytest.mark.campaign
utils = pytest.importorskip("datasette.utils", reason="datasette is not installed (the extra `test` has it)")

ROOT = pathlib.Path(__file__).parents[2]
METADATA = ROOT / "etc/datasette.yaml"
UNIT = (ROOT / "etc/systemd/arcacct-portal.service").read_text(encoding="utf-8")
PAGES = pathlib.Path(__file__).parents[1] / "support/datasette_pages.py"
JOBS = 2000
STEPS = 400
"""
Of SQLite's machine, for each job of the database, in one query: of 100,000 jobs half a second.

What reads a table once, to count it, takes 30, and to count all attributes of all jobs 350; what makes all columns of
all jobs takes some thousands.
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Places:
    """Generated jobs, the views of every source, and a ledger with nothing in it."""
    made = generate.fill(tmp_path_factory.mktemp("portal"), JOBS)
    with closing(access.open_accounting(made)) as con:
        schema.create_views(con, *schema.SOURCES)
    access.open_publishing(made).close()
    return made


def files_of(here: Places) -> list[str]:
    return [here.database, here.publishing_database]


@pytest.fixture(scope="module")
def metadata() -> dict:
    """What the file says, as Datasette reads it."""
    return utils.parse_metadata(METADATA.read_text(encoding="utf-8"))


def settings() -> dict[str, int | bool]:
    """Those of the unit."""
    found = re.findall(r"--setting (\S+) (\S+)", UNIT)
    return {name: text == "on" if text in ("on", "off") else int(text) for name, text in found}


def pages(files: list[str], paths: list[str], served_with: dict[str, int | bool] | None = None) -> list[dict]:
    """What Datasette answers to an anonymous visitor of these databases, and the SQL that it ran for it."""
    chosen = settings() if served_with is None else served_with
    command = [sys.executable, PAGES, METADATA, json.dumps(chosen), *files]
    done = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def front_page(files: list[str], metadata: dict, folder: pathlib.Path, *more: str) -> list[str]:
    """What an anonymous visitor sees on the front page and on other pages, by another file of metadata."""
    (folder / "portal.json").write_text(json.dumps(metadata))
    command = [sys.executable, PAGES, folder / "portal.json", json.dumps(settings()), *files]
    asked = json.dumps(["/", *more])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    return [f"{one['status']} {one['text']}" for one in answers]


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
                named = {*said.get("columns", ()), *said["sortable_columns"], *said.get("facets", ())}
                assert named <= columns, table
                assert said["title"]
                assert said["description"]
            for query in found["queries"].values():
                con.execute(f"EXPLAIN {query['sql']}", dict.fromkeys(query.get("params", ()), ""))
                assert set(query.get("params", ())) == set(re.findall(r":([a-z_]+)", query["sql"]))


def test_each_view_is_offered(here, metadata) -> None:
    """A new view v1_ of a later schema is forbidden until this file names it: this test asks for that."""
    for name, path in (("accounting", here.database), ("publishing", here.publishing_database)):
        with closing(read_only(path)) as con:
            views = {view for (view,) in con.execute("SELECT name FROM sqlite_master WHERE name GLOB 'v1_*'")}
        assert set(metadata["databases"][name]["tables"]) == views


def test_the_front_page_leads_to_every_view_and_query(here, metadata) -> None:
    """Each link of the front page is relative and answers, and each view and query has one."""
    front = pages(files_of(here), ["/"])[0]["text"]
    links = set(re.findall(r'<li><a href="([^"/][^"]*)">', front))
    assert front.count("<details>") == len(metadata["databases"])
    offered = {
        f"{database}/{name}"
        for database, found in metadata["databases"].items()
        for kind in ("tables", "queries")
        for name in found[kind]
    }
    assert links == offered
    answers = pages(files_of(here), [f"/{link}" for link in sorted(links)])
    assert {one["path"]: one["status"] for one in answers if one["status"] != 200} == {}


@pytest.fixture(scope="module")
def current(tmp_path_factory) -> Places:
    """
    Jobs of the last month, and some of this month; in the sums: of the ten months before nothing is known.

    One of this month has no wall time.
    """
    made = generate.fill(tmp_path_factory.mktemp("current"), 300, generate.USUAL._replace(new=True))
    generate.add_jobs(made, 40)
    with closing(access.open_accounting(made)) as con:
        unmeasured = stored_jobs.job(1, end_s=int(time.time()))._replace(wall_s=None)
        JobWriter(con, "pbs", "server").write([unmeasured])
        usage.update_monthly(con, made)
    access.open_publishing(made).close()
    return made


def test_the_front_page_has_the_totals_of_this_month(current, metadata, tmp_path) -> None:
    """Jobs and core hours as plain SQL says, by VO, and a chart with each of the last twelve months."""
    (text,) = front_page(files_of(current), metadata, tmp_path)

    with closing(read_only(current.database)) as con:
        jobs, core_h = con.execute(
            "SELECT sum(jobs), sum(wall_s * core_count) / 3600.0 FROM v1_usage_by_month"
            " WHERE month = strftime('%Y-%m', 'now')"
        ).fetchone()
        vos = con.execute(
            "SELECT vo, sum(jobs) FROM v1_usage_by_month WHERE month = strftime('%Y-%m', 'now') GROUP BY vo"
        ).fetchall()
        months = con.execute(
            "SELECT month, sum(wall_s * core_count) / 3600.0 FROM v1_usage_by_month GROUP BY month"
        ).fetchall()
    assert 40 <= jobs < 340
    assert f"<dt>Jobs</dt><dd>{jobs}</dd>" in text
    assert f"<dt>Core hours</dt><dd>{core_h:,.0f}</dd>" in text
    for vo, count in vos:
        assert f'<th scope="row">{vo}</th><td>{count}</td>' in text
    both = "sum(CASE WHEN core_s IS NOT NULL THEN cpu_s END) / sum(CASE WHEN cpu_s IS NOT NULL THEN core_s END)"
    of_month = "FROM v1_jobs WHERE substr(end_time_iso, 1, 7) = strftime('%Y-%m', 'now')"
    queries = metadata["databases"]["accounting"]["queries"]
    with closing(read_only(current.database)) as con:
        efficiency, of_some = con.execute(f"SELECT 100.0 * {both}, count(*) > count(core_s) {of_month}").fetchone()
        for query, name, which in (("usage_of_a_month", "vo", ""), ("users_of_a_vo", "user_dn", "AND vo = 'atlas'")):
            asked = {"month": time.strftime("%Y-%m", time.gmtime()), "vo": "atlas"}
            answers = con.execute(f"SELECT {name}, efficiency_percent FROM ({queries[query]['sql']})", asked).fetchall()
            expected = con.execute(f"SELECT {name}, round(100.0 * {both}, 1) {of_month} {which} GROUP BY 1")
            assert dict(answers) == dict(expected)
    assert of_some
    assert f"<dt>CPU efficiency</dt><dd>{efficiency:.1f} %</dd>" in text
    title = f"Accounting of {os.uname().nodename}"
    assert f"<title>{title}</title>" in text
    assert f"<h1>{title}</h1>" in text
    # What was before the first record is unknown, and not 0.
    known = {month: f"{hours:,.0f} core hours" for month, hours in months}
    told = dict(re.findall(r'<div title="([0-9-]+): ([^"]+)">', text))
    assert len(told) == 12
    nothing = {month: "unknown" if month < min(known) else "0 core hours" for month in told}
    assert told == {month: known.get(month, nothing[month]) for month in told}
    assert text.count('class="unknown"') == [*told.values()].count("unknown") == 10


def test_the_front_page_shows_what_the_visitor_may_see(current, metadata, tmp_path) -> None:
    """Without the right to ask for usage no totals, without that to see users no report; no view that is not there."""
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "2026-10.html").write_text("<!DOCTYPE html>the October report")
    metadata = json.loads(json.dumps(metadata))
    metadata["plugins"]["arcacct_portal"]["reports"] = str(reports)
    (shown, report) = front_page(files_of(current), metadata, tmp_path, "/reports/2026-10")
    queries = metadata["databases"]["accounting"]["queries"]
    del queries["usage_of_a_month"]["allow"]
    queries["users_of_a_vo"]["allow"] = {"id": "somebody"}
    (hidden, refused) = front_page(files_of(current), metadata, tmp_path, "/reports/2026-10")

    assert '<a href="reports/2026-10">' in shown
    assert report == "200 <!DOCTYPE html>the October report"
    for text in (
        "<dt>Core hours</dt>",
        'class="columns"',
        "reports/2026-10",
        "accounting/usage_of_a_month",
        "users_of_a_vo",
    ):
        assert (text in shown, text in hidden) == (True, False), text
    assert refused.startswith("403 ")
    assert "October report" not in refused
    assert "accounting/v1_jobs" in shown
    assert "accounting/v1_slurm_runs" not in shown


def test_only_reports_of_months_are_served(current, metadata, tmp_path) -> None:
    """No other file of the directory, none behind a link, none that is no file, and none elsewhere."""
    reports = tmp_path / "reports"
    reports.mkdir()
    (tmp_path / "2026-01.html").write_text(CANARY)
    (reports / "2026-02.html").symlink_to(tmp_path / "2026-01.html")
    (reports / "2026-03.html").mkdir()
    (reports / "notes.html").write_text(CANARY)
    metadata = json.loads(json.dumps(metadata))
    metadata["plugins"]["arcacct_portal"]["reports"] = str(reports)
    names = ("2026-02", "2026-03", "2026-04", "notes", "notes.html", "../2026-01", "..%2f2026-01", "2026-01.html")

    answers = front_page(files_of(current), metadata, tmp_path, *(f"/reports/{name}" for name in names))

    statuses = {name: answer[:3] for name, answer in zip(names, answers[1:], strict=True)}
    # Datasette itself writes %2f in another way.
    assert statuses.pop("..%2f2026-01") in ("302", "404")
    assert set(statuses.values()) == {"404"}
    assert not any(CANARY in answer for answer in answers)


def test_every_page(here, metadata) -> None:
    """Front page, views, each sorted by each column that is offered, facets and queries: 200, and cheap."""
    with closing(read_only(here.database)) as con:
        job_id, local_id, dn, vo, day, month = con.execute(
            "SELECT job_id, local_job_id, user_dn, vo, substr(end_time_iso, 1, 10), substr(end_time_iso, 1, 7)"
            " FROM v1_jobs WHERE vo IS NOT NULL LIMIT 1"
        ).fetchone()
    given = {"job_id": job_id, "local_job_id": local_id, "user_dn": dn, "vo": vo, "day": day, "month": month}
    paths = ["/", f"/accounting/v1_usage_by_month?_facet=vo_group&month={month}"]
    paths += [f"/accounting/v1_job_events?job_id={quote(job_id)}", f"/accounting/v1_jobs?vo={vo}&_sort_desc=end_time"]
    for database, found in metadata["databases"].items():
        for table, said in found["tables"].items():
            paths.append(f"/{database}/{table}")
            paths += [
                f"/{database}/{table}?_sort{how}={one}" for one in said["sortable_columns"] for how in ("", "_desc")
            ]
        for name, query in found["queries"].items():
            asked = "&".join(f"{one}={quote(given[one])}" for one in query.get("params", ()))
            paths.append(f"/{database}/{name}?{asked}")
    answers = pages(files_of(here), paths)

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
    assert f"Accounting of {os.uname().nodename}" in shown["/"]
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


CANARY = "Nobody-sees-this-51c7"
"""A value that stands in tables only: no page of the portal may have it."""


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> list[str]:
    """Both databases as the program makes them: jobs recorded, messages published, and a canary in tables."""
    directory = tmp_path_factory.mktemp("forbidden") / "demo"
    demo.rehearse(str(directory))
    files = [str(directory / "accounting.db"), str(directory / "publishing.db")]
    with closing(sqlite3.connect(files[0])) as con, con:
        con.execute("INSERT INTO Users (Name) VALUES (?)", (CANARY,))
        con.execute("INSERT INTO DBConfig VALUES (?, ?)", (CANARY, CANARY))
    with closing(sqlite3.connect(files[1])) as con, con:
        con.execute("INSERT INTO DBConfig VALUES (?, ?)", (CANARY, CANARY))
        assert con.execute("SELECT count(*) FROM MessageBytes").fetchone() > (0,)
    return files


@pytest.fixture(scope="module")
def later(published, tmp_path_factory) -> list[str]:
    """The same databases after a later schema: a table, a view, a virtual table with its shadow tables."""
    directory = tmp_path_factory.mktemp("later")
    files = [shutil.copy(path, directory) for path in published]
    with closing(sqlite3.connect(files[0])) as con, con:
        schema.create_views(con, *schema.SOURCES)
    for path in files:
        with closing(sqlite3.connect(path)) as con, con:
            con.execute("CREATE TABLE LaterTable (ID INTEGER PRIMARY KEY, Name TEXT)")
            con.execute("INSERT INTO LaterTable VALUES (1, ?)", (CANARY,))
            con.execute("CREATE VIEW v1_later AS SELECT Name AS name FROM LaterTable")
            con.execute("CREATE VIRTUAL TABLE LaterSearch USING fts5(Name)")
            con.execute("INSERT INTO LaterSearch VALUES (?)", (CANARY,))
    return files


def stored(path: str) -> dict[str, list[str]]:
    """Every table, view, virtual and shadow table of a database, with its columns."""
    with closing(read_only(path)) as con:
        names = [name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
        return {name: [row[1] for row in con.execute(f'PRAGMA table_info("{name}")')] for name in names}


def ways_to_read(database: str, table: str, columns: list[str]) -> list[str]:
    """Requests that show a row of a table, a count of it, or whether it has a value, if it is open."""
    at, column = f"/{database}/{table}", quote(columns[0])
    selected = f"sql={quote(f'select * from [{table}]')}"
    return [
        *(f"{at}{ending}" for ending in ("", ".json", ".jsono", ".csv", "/1", "/1.json", "/1.csv", "/1,1")),
        f"{at}.blob?_blob_column={column}",
        f"{at}/1.blob?_blob_column={column}",
        f"{at}/1.json?_extras=foreign_key_tables",
        f"{at}.csv?_stream=on&_labels=on&_size=max",
        *(f"{at}.json?_shape={shape}" for shape in ("array", "arrayfirst", "object")),
        *(
            f"{at}.json?{asked}"
            for asked in (
                "_where=1",
                f"_facet={column}&_size=0",
                f"_facet_array={column}",
                f"_facet_date={column}",
                "_labels=on",
                f"_label={column}",
                "_nl=on&_shape=array",
                "_search=a",
                f"_search_{column}=a",
                f"{column}__contains=a",
                f"_sort={column}",
                f"_col={column}",
                "_extra=count,foreign_key_tables",
                "_nocount=1",
                selected,
            )
        ),
        *(f"/{database}{ending}?{selected}" for ending in ("", ".json", ".csv")),
        f"/{database}.csv?_stream=on&{selected}",
        f"/{database}/{''.join(f'~{ord(one):02X}' for one in table)}.json",
    ]


def forms(files: list[str], metadata: dict, known: Mapping[str, Collection[str]]) -> list[str]:
    """All ways to read what is stored in these databases, but for what is offered or ``known``."""
    return [
        path
        for database, file in zip(metadata["databases"], files, strict=True)
        for table, columns in stored(file).items()
        if table not in metadata["databases"][database]["tables"] and table not in known.get(database, ())
        for path in ways_to_read(database, table, columns)
    ]


def check_forbidden(files: list[str], paths: list[str], statuses: Collection[int] = (403,)) -> None:
    """By the permissions alone: Datasette's own settings allow more than the unit's do."""
    answers = pages(files, paths, served_with={})
    assert {one["path"]: one["status"] for one in answers if one["status"] not in statuses} == {}
    assert [one["path"] for one in answers if CANARY in one["text"]] == []


def test_what_is_not_a_view_or_a_query_is_forbidden(published, metadata) -> None:
    """Each table, each view of our own use and SQLite's tables, of both databases: 403 in every form."""
    paths = forms(published, metadata, {})
    assert {"/accounting/Users.json", "/publishing/MessageBytes/1.json", "/accounting/CurrentUsage.csv"} <= {*paths}
    check_forbidden(published, paths)
    # Datasette knows none of these, or forbids them, according to its version.
    other = [f"/accounting/{name}.json" for name in ("users", "USERS", "~75sers", "[Users]", "main.Users")]
    for name in ("sqlite_master", "sqlite_schema", "sqlite_temp_master"):
        other += ways_to_read("accounting", name, ["name"])
    check_forbidden(published, other, {403, 404})


def test_what_a_later_schema_adds_is_forbidden(published, later, metadata) -> None:
    """A table, a view, a virtual table and its shadow tables, that this file does not know."""
    known = {database: stored(file) for database, file in zip(metadata["databases"], published, strict=True)}
    paths = forms(later, metadata, known)
    added = ("LaterTable", "v1_later", "LaterSearch", "LaterSearch_content", "LaterSearch_data")
    assert {f"/{database}/{name}.json" for database in known for name in added} <= {*paths}
    check_forbidden(later, paths)


def test_no_open_page_shows_what_stands_in_tables(later, metadata) -> None:
    """The front page, views and queries in every form, and Datasette's own pages."""
    own = ["databases", "metadata", "settings", "config", "versions", "plugins", "actor", "threads"]
    paths = ["/", "/.json", *(f"/-/{name}{ending}" for name in own for ending in ("", ".json"))]
    paths += [f"/-/{name}" for name in ("allow-debug", "messages", "patterns", "logout", "auth-token")]
    for database, found in metadata["databases"].items():
        for view in found["tables"]:
            at = f"/{database}/{view}"
            paths += [f"{at}.json?_size=max", f"{at}.csv?_size=max", f"{at}.csv?_stream=on", f"{at}/1", f"{at}/1.json"]
            paths.append(f"{at}.json?_extra=count,foreign_key_tables&_labels=on")
        for query in found["queries"]:
            at, named = f"/{database}/{query}", "job_id=1&month=&vo=&day="
            paths += [
                f"{at}.json?{named}",
                f"{at}.csv?{named}&_stream=on",
                f"{at}.json?{named}&sql=select+*+from+Users",
            ]
    assert [one["path"] for one in pages(later, paths) if CANARY in one["text"]] == []


def test_pages_that_reach_behind_the_views_are_forbidden(later, metadata) -> None:
    """A database as a whole, as a file and by SQL, Datasette's own tables, and the permissions that it has checked."""
    paths = ["/_internal", "/_internal.json", "/_internal/tables.json", "/_internal/columns.json", "/-/permissions"]
    for database, found in metadata["databases"].items():
        paths += [f"/{database}{ending}" for ending in ("", ".json", ".csv", ".db", ".json?sql=select+1")]
        paths += [f"/{database}/{view}.json?_where=1" for view in found["tables"]]
    answers = pages(later, paths, served_with={})
    assert {one["path"]: one["status"] for one in answers} == dict.fromkeys(paths, 403)


def test_a_view_does_not_answer_for_a_table(later, metadata) -> None:
    """By a join, a search or a facet of another table: the same answer whether the table has the value or not."""
    answers = {}
    for value in (CANARY, CANARY[::-1]):
        paths = []
        for database, found in metadata["databases"].items():
            for at in (f"/{database}/{view}.json" for view in found["tables"]):
                for table, column in (("Users", "Name"), ("LaterSearch", "Name"), ("DBConfig", "KeyName")):
                    through = quote(json.dumps({"table": table, "column": column, "value": value}))
                    paths += [f"{at}?_through={through}", f"{at}?_fts_table={table}&_search={value}"]
                    paths.append(f"{at}?_fts_table={table}&_search_{column}={value}")
                    paths.append(f"{at}?_facet={table}.{column}&_facet={value}")
        answers[value] = [
            (one["status"], re.sub(r"[0-9.]+", "", one["text"].replace(value, ""))) for one in pages(later, paths)
        ]
    differ = [path for path, one, other in zip(paths, *answers.values(), strict=True) if one != other]
    assert differ == []


def test_names_of_columns_are_quoted(later) -> None:
    """Datasette before 0.65.3 made SQL of them: whoever saw a view could read each table."""
    paths = []
    for name in ("x] y", "x] --", 'x" y', "x' y", "x\n y", "x;y", "x) y", "vo] from Users --"):
        asked = ("_facet", "_facet_date", "_facet_array", "_fts_table", "_fts_pk", "_sort", "_col", f"{name}__exact")
        paths += [f"/accounting/v1_jobs.json?_search=a&_fts_table=v1_jobs&{quote(one)}={quote(name)}" for one in asked]
    paths += [path.replace("&_fts_table=v1_jobs", "") for path in paths]
    broken = re.compile(r"syntax error|unrecognized token|incomplete input|one statement at a time")
    assert {one["path"]: one["text"] for one in pages(later, paths) if broken.search(one["text"])} == {}


def test_the_manual_installs_the_version_that_is_tested() -> None:
    """With the same lower bound: older versions have holes."""
    wanted = re.search(r'"(datasette[^"]*)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert wanted is not None
    assert f"'{wanted[1]}'" in (ROOT / "docs/howto/portal.md").read_text(encoding="utf-8")


def test_the_unit_serves_what_the_file_names(metadata) -> None:
    """Datasette names a database after its file, and one that the metadata do not name is open to all."""
    served = [pathlib.PurePath(path).stem for path in re.findall(r"^    (/\S+\.db)", UNIT, re.MULTILINE)]
    assert served == list(metadata["databases"])
    assert settings()["default_allow_sql"] is False


def test_the_unit_reads_what_is_written_meanwhile() -> None:
    """Never immutable: of a live file that shows half of the rows (INVARIANTS 7)."""
    command = UNIT[UNIT.index("ExecStart=") : UNIT.index("Restart=")]
    assert "immutable" not in command
    assert " -i " not in command
    assert "--host 127.0.0.1" in command
