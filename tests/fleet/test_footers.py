"""Partitions that other CEs made to harm: each is left out by name, and costs the others nothing."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import pytest
from in_process import said
from installed import ARCACCT

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

import federation as generator
import hostile_datasets
import memory
import pyarrow as pa
from broken_datasets import BAD, JOBS, WHOLE
from hostile_datasets import HOSTILE, with_column, write
from postgresql_server import reason, server
from written_partitions import write_partition

from arcacct.export.dataset import Partition, columns

pytestmark = pytest.mark.campaign

IN_FOOTER = [name for name, kind in HOSTILE.items() if kind.is_in_footer]
IN_PAGES = [name for name, kind in HOSTILE.items() if not kind.is_in_footer]
READS_ALL = "SELECT ce, count(*) AS jobs, " + ", ".join(
    f"max({'strlen' if column.type == 'string' else ''}({column.name})) AS {column.name}"
    for column in columns()["jobs"]
)
READS_ALL += " FROM jobs GROUP BY ce"


def made(root: pathlib.Path, *partitions: Partition) -> pathlib.Path:
    """A dataset with some jobs in each."""
    for number, partition in enumerate(partitions):
        write_partition(root, partition, {"jobs": generator.jobs_of(partition, JOBS)}, life=f"{number:032x}")
    return root


def printed(done: subprocess.CompletedProcess[str]) -> str:
    """Without the time at which a report was written, and without its note that files have problems."""
    return re.sub(r"\(written \S+\)|The figures may be incomplete: .*\n", "", done.stdout)


def answers(capsys, root: pathlib.Path) -> list[subprocess.CompletedProcess[str]]:
    """What all commands that ask say of the CEs and their jobs."""
    return [
        said(capsys, "fleet", "stats", root, "--by", "ce,user,vo,host", "--format", "json"),
        said(capsys, "fleet", "sql", root, READS_ALL + " ORDER BY ce", "--format", "json"),
        said(capsys, "report", "--fleet", root, "--month", "2026-01"),
    ]


@pytest.mark.parametrize("kind", IN_FOOTER)
def test_a_footer_that_differs_is_left_out_by_name(kind, tmp_path, capsys) -> None:
    """By `verify`, and by every question, which answers of the other CE what it answers of that alone."""
    made(tmp_path / "alone", WHOLE)
    root = made(tmp_path / "both", WHOLE, BAD)
    HOSTILE[kind].make(root, BAD)

    verified = said(capsys, "fleet", "verify", root)

    assert verified.returncode == 65
    assert f"arcacct: {root / BAD.manifest}: " in verified.stderr
    assert HOSTILE[kind].complaint in verified.stderr
    assert verified.stderr.count("\n") == 1
    assert f"jobs for queries: {JOBS}; 1 problem" in verified.stdout
    for done, alone in zip(answers(capsys, root), answers(capsys, tmp_path / "alone"), strict=True):
        assert (done.returncode, printed(done)) == (65, printed(alone))
        assert done.stderr == verified.stderr


@pytest.mark.parametrize("kind", IN_PAGES)
def test_what_the_footer_does_not_tell_is_found_when_it_is_read(kind, tmp_path, capsys) -> None:
    """By `verify --deep`; a question that it stops leaves it out by name, and answers of the other CE."""
    root = made(tmp_path, WHOLE, BAD)
    HOSTILE[kind].make(root, BAD)

    verified = said(capsys, "fleet", "verify", "--deep", root)

    assert verified.returncode == 65
    assert f"arcacct: {root / BAD.manifest}: " in verified.stderr
    assert HOSTILE[kind].complaint in verified.stderr
    assert verified.stderr.count("\n") == 1
    by_stats, by_sql, _report = answers(capsys, root)
    for done in (by_stats, by_sql):
        told = {row["ce"]: row["jobs"] for row in json.loads(done.stdout)}
        # What is not read does no harm.
        assert done.returncode == (0 if BAD.ce in told else 65)
        assert told.keys() - {BAD.ce} == {WHOLE.ce}
        assert (str(root / BAD.manifest) in done.stderr) == (BAD.ce not in told)


@pytest.mark.parametrize("table", ["events", "transfers", "attributes"])
def test_more_rows_than_jobs_can_have_are_refused_by_the_footer(table, tmp_path, capsys) -> None:
    """Three million in some kB would be hundreds of MB of a database: named, and the other CE is answered."""
    root = made(tmp_path, WHOLE, BAD)
    hostile_datasets.many_rows(root, BAD, table, 3_000_000)
    assert sum(file.stat().st_size for file in (root / BAD.folder(table)).iterdir()) < 100_000

    verified = said(capsys, "fleet", "verify", root)
    asked = said(capsys, "fleet", "sql", root, f"SELECT count(*) AS rows FROM {table}", "--format", "json")

    for done in (verified, asked):
        assert (done.returncode, done.stderr.count("\n")) == (65, 1)
        assert f"arcacct: {root / BAD.manifest}: " in done.stderr
        assert f"has 3000000 rows, of {JOBS} jobs in " in done.stderr
    assert json.loads(asked.stdout) == [{"rows": 0}]


def test_an_honest_text_is_a_text(tmp_path, capsys) -> None:
    """Whatever it would mean to psql, in a column that is a string."""
    root = made(tmp_path, WHOLE)
    table = hostile_datasets.read(root, WHOLE)
    text = hostile_datasets.escaping(3)
    write(root, WHOLE, with_column(table, "job_name", [text] * JOBS))

    assert said(capsys, "fleet", "verify", "--deep", root).returncode == 0
    done = said(capsys, "fleet", "sql", root, "SELECT DISTINCT job_name FROM jobs", "--format", "json")
    assert json.loads(done.stdout) == [{"job_name": text}]


def test_columns_of_a_later_version_are_not_read(tmp_path, capsys) -> None:
    """Of any name, also where files have several, and in any order; none of the others' types depend on them."""
    ces = [WHOLE._replace(ce=f"ce{number:02d}.example.org") for number in range(1, 5)]
    root = made(tmp_path, *ces)
    for number, (name, values) in enumerate(
        (("later", [1.5] * JOBS), ("later", ["x"] * JOBS), ("filename", [1] * JOBS))
    ):
        table = with_column(hostile_datasets.read(root, ces[number]), name, pa.array(values))
        write(root, ces[number], table.select(table.schema.names[::-1]))

    done = said(capsys, "fleet", "stats", root, "--by", "ce,user", "--format", "json")
    by_sql = said(capsys, "fleet", "sql", root, READS_ALL, "--format", "json")
    refused = said(capsys, "fleet", "sql", root, "SELECT later FROM jobs")

    assert (done.returncode, done.stderr, by_sql.returncode, by_sql.stderr) == (0, "", 0, "")
    assert {row["ce"] for row in json.loads(done.stdout)} == {one.ce for one in ces}
    assert [row["jobs"] for row in json.loads(by_sql.stdout)] == [JOBS] * 4
    assert refused.returncode == 64


@pytest.mark.skipif("decimal that says int64" not in HOSTILE, reason="pyarrow cannot write a decimal as an int64")
@pytest.mark.parametrize("ce", ["ce00.example.org", "ce09.example.org"])
def test_a_type_that_only_duckdb_sees_decides_nothing_for_others(ce, tmp_path, capsys) -> None:
    """First or last by its path: a decimal has no room for the 2^60 seconds of another CE, and is left out by name."""
    root = made(tmp_path, WHOLE, BAD._replace(ce=ce))
    HOSTILE["decimal that says int64"].make(root, BAD._replace(ce=ce))
    write(root, WHOLE, with_column(hostile_datasets.read(root, WHOLE), "wall_s", [2**60] * JOBS, pa.int64()))

    done = said(capsys, "fleet", "sql", root, "SELECT ce, sum(wall_s) AS s FROM jobs GROUP BY ce", "--format", "json")

    told = {row["ce"]: row["s"] for row in json.loads(done.stdout)}
    assert int(told[WHOLE.ce]) == 2**60 * JOBS
    assert (done.returncode, ce in told) in ((65, False), (0, True))
    verified = said(capsys, "fleet", "verify", "--deep", root)
    assert (verified.returncode, ce in verified.stderr) == (65, True)


SIX = ("large_string", "dictionary", "struct", "int as text", "big texts", "no UTF-8")


@pytest.fixture(scope="module")
def two_datasets(tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path, list[Partition]]:
    """Six sound CEs with all that belongs to their jobs; the same with six hostile ones between them; these."""
    ces = [Partition(f"Site-{number % 3}", 2026, 1, f"ce{number:02d}.example.org") for number in range(1, 13)]
    alone, all_of_them = (tmp_path_factory.mktemp(name) for name in ("six", "twelve"))
    for number, one in enumerate(ces):
        jobs = generator.jobs_of(one, JOBS)
        tables = {"jobs": jobs, **generator.children_of(jobs)}
        for root in (alone, all_of_them) if number % 2 else (all_of_them,):
            write_partition(root, one, tables, life=f"{number:032x}")
    for kind, one in zip(SIX, ces[::2], strict=True):
        HOSTILE[kind].make(all_of_them, one)
    return alone, all_of_them, ces[::2]


def _names_them(done: subprocess.CompletedProcess[str], root: pathlib.Path, hostile: list[Partition]) -> None:
    assert done.returncode == 65
    assert done.stderr.count("\n") == len(hostile)
    for one in hostile:
        assert f"arcacct: {root / one.manifest}: " in done.stderr


def test_six_of_twelve_ces_are_hostile(two_datasets, capsys) -> None:
    """Questions that read jobs answer for the other six what they answer of these alone, and name the six."""
    alone, root, hostile = two_datasets
    questions = (
        ("fleet", "stats", "DIR", "--by", "site,ce,month,user,vo,host", "--details", "--gpu"),
        ("fleet", "stats", "DIR", "--by", "ce,user", "--filter-extra", "rte", "ENV/PROXY", "--format", "csv"),
        ("fleet", "sql", "DIR", "SELECT * EXCLUDE (user_dn) FROM jobs ORDER BY ce, record_id", "--format", "csv"),
        ("fleet", "sql", "DIR", "SELECT * FROM jobs ORDER BY ce, record_id", "--format", "csv"),
        ("fleet", "sql", "DIR", "SELECT ce, event, max(event_time) FROM events GROUP BY ALL ORDER BY ALL"),
        ("report", "--fleet", "DIR", "--month", "2026-01"),
    )
    readable = 0
    for question in questions:
        done, wanted = (
            said(capsys, *(str(where) if word == "DIR" else word for word in question)) for where in (root, alone)
        )
        assert (wanted.returncode, wanted.stderr) == (0, "")
        if "events" in str(question):
            # It reads no file of jobs, and those of events are sound.
            assert (done.returncode, done.stderr) == (0, "")
            assert {line for line in wanted.stdout.splitlines() if ".org" in line} < {*done.stdout.splitlines()}
        elif "user_dn" in str(question):
            # The one whose user_dn is no UTF-8 has other columns, which are sound.
            _names_them(done, root, hostile[:-1])
            readable += 1
        else:
            _names_them(done, root, hostile)
            assert printed(done) == printed(wanted), question
    assert readable == 1
    _names_them(said(capsys, "fleet", "verify", "--deep", root), root, hostile)


@pytest.mark.skipif(bool(reason()), reason=reason() or "PostgreSQL is here")
def test_six_of_twelve_ces_are_hostile_to_postgresql(two_datasets, tmp_path, monkeypatch, capsys) -> None:
    """Six are loaded, whatever the others hold; six are named, and nothing runs or is made but the six."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgresql")
    alone, root, hostile = two_datasets
    monkeypatch.chdir(tmp_path)
    everything = "SELECT * FROM jobs JOIN attributes USING (site, ce, year, month, record_id)"
    with server() as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        done = said(capsys, "fleet", "load", root)
        assert done.stdout.startswith(f"6 partitions loaded with {6 * JOBS} jobs")
        _names_them(done, root, hostile)
        found = sorted(map(str, running.rows(everything)))
        again = said(capsys, "fleet", "load", root)
        assert again.stdout.startswith("0 partitions loaded with 0 jobs; 6 already loaded")
        _names_them(again, root, hostile)
        running.run("DROP SCHEMA arcacct CASCADE")
        assert said(capsys, "fleet", "load", alone).returncode == 0
        assert sorted(map(str, running.rows(everything))) == found

        # Each kind next to a sound CE, and texts that only psql would take for more than texts.
        running.run("DROP SCHEMA arcacct CASCADE")
        kinds = [WHOLE._replace(ce=f"ce{number + 20}.example.org") for number in range(len(HOSTILE))]
        every = made(tmp_path / "every", WHOLE, *kinds)
        for kind, one in zip(HOSTILE.values(), kinds, strict=True):
            kind.make(every, one)
        texts = [*hostile_datasets.SEPARATORS, *map(hostile_datasets.escaping, range(len(columns()["jobs"])))]
        jobs = generator.jobs_of(WHOLE, len(texts))
        write_partition(every, WHOLE, {"jobs": with_column(jobs, "job_name", texts)}, life="0" * 32)
        done = said(capsys, "fleet", "load", every)
        assert done.stdout.startswith(f"1 partition loaded with {len(texts)} jobs")
        _names_them(done, every, kinds)
        loaded = running.rows("SELECT job_name FROM jobs ORDER BY end_time, record_id")
        assert loaded == [(text.replace("\0", "\ufffd"),) for text in texts]
        assert running.run("SELECT to_regclass('public.pwned') IS NULL").strip() == "t"
    assert [path.name for path in tmp_path.iterdir()] == ["every"]


@pytest.mark.skipif(bool(reason()), reason=reason() or "PostgreSQL is here")
@pytest.mark.parametrize("kind", ["texts by prefixes", "dictionary of long texts", "big texts of a liar"])
def test_a_load_takes_little_memory(kind, tmp_path, monkeypatch) -> None:
    """Whatever a file unpacks to: it is refused before a partition is started, and another CE's is loaded."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgresql")
    root = made(tmp_path, WHOLE, BAD)
    HOSTILE[kind].make(root, BAD)
    with server() as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        cost = memory.cost_of(ARCACCT, "fleet", "load", root, exit_code=65)
        assert running.rows("SELECT ce, count(*) FROM jobs GROUP BY ce") == [(WHOLE.ce, JOBS)]
    assert str(root / BAD.manifest) in cost.stderr
    assert cost.peak_kib < 1200 * 1024
    assert cost.cpu_s < 60


@pytest.mark.parametrize("makes", [hostile_datasets.big_texts, hostile_datasets.big_texts_of_a_liar])
def test_texts_of_2_gigabytes_are_refused_with_little_memory(makes, tmp_path) -> None:
    """80 kB of Parquet, whether the footer says so or not."""
    root = made(tmp_path, WHOLE, BAD)
    makes(root, BAD, 200_000_000)

    assert (root / BAD.folder("jobs")).stat().st_size < 100_000
    for command in (("verify", "--deep", root), ("sql", root, READS_ALL)):
        cost = memory.cost_of(ARCACCT, "fleet", *command, exit_code=65)
        assert cost.peak_kib < 1200 * 1024, command
        assert cost.cpu_s < 60, command
