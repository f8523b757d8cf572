"""The same questions on the databases, on DuckDB and on Spark: the same answers."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

import pytest
import twelve_questions

from arcacct.asking.questions import Selection
from arcacct.fleet import engine, manifests, usage
from arcacct.fleet.engine import Engine

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

HAS_SPARK = find_spec("pyspark") is not None and shutil.which("java") is not None
spark = pytest.mark.skipif(not HAS_SPARK, reason="Spark is not there: pyspark and Java (default-jre-headless)")
_NOISE = ("ResourceWarning", "DeprecationWarning", "FutureWarning", "pytest.PytestUnraisableExceptionWarning")
not_ours = pytest.mark.filterwarnings(*(f"ignore::{kind}" for kind in _NOISE))
"""Of pyspark and py4j."""


@pytest.fixture(scope="module")
def asked_databases(federation) -> dict[str, list[tuple[object, ...]]]:
    """By question: the answer of SQLite's views, from the databases of all CEs in one."""
    tables = ("jobs", "events", "transfers", "attributes")
    with closing(sqlite3.connect(":memory:")) as con:
        for site, ce in federation.databases:
            with closing(sqlite3.connect(f"file:{federation.file(site, ce)}?mode=ro", uri=True)) as of_ce:
                of_ce.executescript(twelve_questions.sqlite_views(site, ce))
                for table in tables:
                    cursor = of_ce.execute(f"SELECT * FROM {table}")
                    names = [column[0] for column in cursor.description]
                    con.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(names)})")
                    con.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", cursor)
        return {
            question.name: twelve_questions.canonical(con.execute(question.sql))
            for question in twelve_questions.QUESTIONS
        }


@pytest.fixture(scope="module")
def duckdb(federation) -> Iterator[Engine]:
    found = engine.opened("duckdb", manifests.dataset([str(federation.root)]))
    yield found
    found.close()


def agree(opened: Engine, expected: dict[str, list[tuple[object, ...]]]) -> None:
    """All twelve answers are those."""
    assert len(expected) == 12
    for question in twelve_questions.QUESTIONS:
        answer = twelve_questions.canonical(opened.rows(question.sql, {}))
        assert answer == expected[question.name], question.name
        assert answer, question.name


def test_twelve_questions_on_duckdb(duckdb, asked_databases) -> None:
    """DuckDB on the exported files answers what SQLite answers on the databases."""
    agree(duckdb, asked_databases)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[str]:
    """The address of a standalone master with two workers on this host; this process where they take too long."""
    import pyspark

    home = os.path.dirname(pyspark.__file__)
    work = tmp_path_factory.mktemp("cluster")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    environment = os.environ | {"SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_WORKER_DIR": str(work), "SPARK_DAEMON_MEMORY": "256m"}
    run = f"{home}/bin/spark-class"
    url, here = f"spark://127.0.0.1:{port}", ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [run, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
    worker = [run, "org.apache.spark.deploy.worker.Worker", *here, "--cores", "1", "--memory", "1g", url]
    with (work / "log").open("wb") as log:
        started = [
            subprocess.Popen(words, env=environment, stdout=log, stderr=log) for words in (master, worker, worker)
        ]
        try:
            for _try in range(300):
                if (work / "log").read_bytes().count(b"Successfully registered with master") == 2:
                    break
                assert all(one.poll() is None for one in started), (work / "log").read_text()
                time.sleep(0.1)
            else:
                url = "local[2]"
            yield url
        finally:
            for one in started:
                one.kill()
            for one in started:
                one.wait()


@spark
@not_ours
def test_twelve_questions_and_stats_on_spark(federation, duckdb, asked_databases, cluster, monkeypatch) -> None:
    """Spark, with a master and two workers, answers what SQLite answers, and sums as DuckDB does."""
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with closing(engine.opened("spark", manifests.dataset([str(federation.root)]), cluster)) as opened:
        agree(opened, asked_databases)
        for selection in (
            Selection(),
            Selection(from_s=1_780_272_000, before_s=1_782_864_000, vos=("atlas",), queues=("main", "short")),
            Selection(extra=(("vomsfqan", "/atlas/g1/Role=pilot"), ("jobname", "job 7"), ("jobname", "job 37"))),
            Selection(extra=(("dtrurl", "https://se.example.org/35"),)),
        ):
            answers = [
                usage.usage(one, selection, ("site", "ce", "month", "host", "role"), details=True, measured=True)
                for one in (opened, duckdb)
            ]
            assert answers[0] == answers[1]
            assert answers[0].rows
        days, wanted = (usage.usage(one, Selection(), ("day", "benchmark"), details=False) for one in (opened, duckdb))
        assert days == wanted
