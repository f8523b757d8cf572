"""The same questions on the databases, on DuckDB, on PostgreSQL and on Spark: the same answers."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from importlib.util import find_spec

import postgresql_server
import pytest
import twelve_questions
from in_process import said

from arcacct.fleet import dataset, engine, usage
from arcacct.fleet.dataset import Engine
from arcacct.fleet.engine import judged
from arcacct.queries.questions import Selection

pytestmark = pytest.mark.campaign

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

HAS_SPARK = find_spec("pyspark") is not None and shutil.which("java") is not None
spark = pytest.mark.skipif(not HAS_SPARK, reason="Spark is not there: pyspark and Java (default-jre-headless)")
_NOISE = ("ResourceWarning", "DeprecationWarning", "FutureWarning", "pytest.PytestUnraisableExceptionWarning")
not_ours = pytest.mark.filterwarnings(*(f"ignore::{kind}" for kind in _NOISE))
"""Of pyspark and py4j."""
SELECTIONS = (
    Selection(),
    Selection(from_s=1_780_272_000, before_s=1_782_864_000, vos=("atlas",), queues=("main", "short")),
    Selection(extra=(("vomsfqan", "/atlas/g1/Role=pilot"), ("jobname", "job 7"), ("jobname", "job 37"))),
    Selection(extra=(("dtrurl", "https://se.example.org/35"),)),
)


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
    found = engine.opened("duckdb", judged(dataset.dataset([str(federation.root)])))
    yield found
    found.close()


def agree(ask: Callable[[str], Iterable[Sequence[object]]], expected: dict[str, list[tuple[object, ...]]]) -> None:
    """All twelve answers are those."""
    assert len(expected) == 12
    for question in twelve_questions.QUESTIONS:
        answer = twelve_questions.canonical(ask(question.sql))
        assert answer == expected[question.name], question.name
        assert answer, question.name


def test_twelve_questions_on_duckdb(duckdb, asked_databases) -> None:
    """DuckDB on the exported files answers what SQLite answers on the databases."""
    agree(lambda sql: duckdb.rows(sql, {}), asked_databases)


@pytest.fixture(scope="module")
def running() -> Iterator[postgresql_server.Server]:
    """A PostgreSQL of our own."""
    with postgresql_server.server() as started:
        yield started


@pytest.mark.skipif(bool(postgresql_server.reason()), reason=postgresql_server.reason() or "PostgreSQL is here")
def test_twelve_questions_on_postgresql(federation, running, asked_databases, monkeypatch, capsys) -> None:
    """PostgreSQL, of what `arcacct fleet load` took from the exported files, answers what SQLite answers."""
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)

    loaded = said(capsys, "fleet", "load", federation.root)

    assert (loaded.returncode, loaded.stderr) == (0, "")
    agree(running.rows, asked_databases)


@pytest.fixture(scope="module")
def java() -> Iterator[dict[str, str]]:
    """The environment in which Java compiles little, as it runs shortly, and Spark is on this host alone."""
    import pyspark

    wanted = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_LOCAL_IP": "127.0.0.1"}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in (wanted | {"SPARK_HOME": os.path.dirname(pyspark.__file__)}).items():
            patched.setenv(name, value)
        yield dict(os.environ)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, java) -> Iterator[tuple[str, pathlib.Path]]:
    """The address of a standalone master with two workers on this host, and what they say."""
    work = tmp_path_factory.mktemp("cluster")
    log, started = work / "log", []
    daemons = {"SPARK_WORKER_DIR": str(work), "SPARK_DAEMON_MEMORY": "256m"}
    # It would listen at a port that is always the same.
    daemons["SPARK_DAEMON_JAVA_OPTS"] = "-Dspark.master.rest.enabled=false"

    def start(kind: str, *words: str, until: str, times: int = 1) -> str:
        # Each in a group of its own, to which its executors belong. Ports are whatever is free.
        command = [f"{java['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with log.open("ab") as out:
            done = subprocess.Popen(
                [*command, "--webui-port", "0", *words],
                env=java | daemons,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        started.append(done)
        # Without a limit: a worker that finds no master gives up by itself.
        while len(found := re.findall(until, log.read_text())) < times:
            assert done.poll() is None, log.read_text()
            time.sleep(0.1)
        return str(found[0])

    try:
        url = start("master.Master", "--port", "0", until=r"Starting Spark master at (\S+)")
        for number in (1, 2):
            worker = ("worker.Worker", "--cores", "1", "--memory", "1g", url)
            start(*worker, until="Successfully registered with master", times=number)
        yield url, log
    finally:
        for one in started:
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


@spark
@not_ours
def test_twelve_questions_and_stats_on_spark(federation, duckdb, asked_databases, cluster) -> None:
    """Spark answers what SQLite answers, and sums as DuckDB does: with a master and two workers, and by itself."""
    found = judged(dataset.dataset([str(federation.root)]))
    url, log = cluster
    with closing(engine.opened("spark", found, master=url)) as opened:
        agree(lambda sql: opened.rows(sql, {}), asked_databases)
    assert len({*re.findall(r"Launching executor \S+ on worker (worker-\d+-127\.0\.0\.1-\d+)", log.read_text())}) == 2
    with closing(engine.opened("spark", found)) as opened:
        agree(lambda sql: opened.rows(sql, {}), asked_databases)
        for selection in SELECTIONS:
            by = ("site", "ce", "month", "day", "host", "role", "benchmark")
            answers = [usage.usage(one, selection, by, details=True, measured=True) for one in (opened, duckdb)]
            assert answers[0] == answers[1]
            assert answers[0].rows
