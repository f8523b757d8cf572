"""`arcacct fleet stats`: of many CEs what `arcacct stats` says of each."""

from __future__ import annotations

import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from campaigns import cross, sample
from in_process import said

from arcacct.export.dataset import Partition, parse
from arcacct.fleet import dataset, engine, usage
from arcacct.fleet.dataset import Engine
from arcacct.fleet.engine import judged
from arcacct.fleet.usage import FLEET_NEEDS
from arcacct.queries.questions import Selection
from arcacct.queries.usage import usage as of_one_ce
from arcacct.records import states

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

import counted_jobs
import exported_site
import federation as generator
import hostile_datasets
import pyarrow as pa
import pyarrow.parquet as pq
import stored_jobs
from broken_datasets import BAD, JOBS, WHOLE
from written_partitions import write_partition

JUNE = Selection(from_s=1_780_272_000, before_s=1_782_864_000)
SELECTIONS = {
    "all": Selection(),
    "a month": JUNE,
    "arcctl's bounds": Selection(after_s=1_780_000_000 + 201_600, until_s=1_782_000_000),
    "states": Selection(states=("failed", "aborted")),
    "names": Selection(vos=("atlas",), queues=("main", "short"), endpoints=("org.nordugrid.arcrest",)),
    "user": Selection(users=("/DC=org/CN=User 1",), submitted_after_s=1_780_500_000),
    "fqan": Selection(fqans=("/atlas/g1/Role=pilot",)),
    "environments": Selection(extra=(("rte", "APPS/ROOT"), ("rte", "ENV/PROXY"))),
    "attributes": Selection(extra=(("vomsfqan", "/atlas/g1/Role=pilot"), ("jobname", "job 7"), ("jobname", "job 37"))),
    "a transfer": Selection(extra=(("dtrurl", "https://se.example.org/35"),)),
}


@pytest.fixture(scope="module")
def opened(federation) -> Iterator[Engine]:
    """All of it, in DuckDB."""
    found = engine.opened("duckdb", judged(dataset.dataset([str(federation.root)])))
    yield found
    found.close()


GROUPINGS = (
    *("month", "vo", "month,vo", "day,week,year", "group,role,user", "queue,endpoint,host", "status,project"),
    *("benchmark,infrastructure", "cores,wait", "walltime"),
)


def test_all_columns_are_asked_for() -> None:
    """None is forgotten below."""
    assert {name for by in GROUPINGS for name in by.split(",")} == set(FLEET_NEEDS) - {"site", "ce"}


@pytest.mark.parametrize("by", sample(GROUPINGS, 5))
def test_every_column_says_what_stats_says(federation, capsys, by) -> None:
    """Each --by prints for each CE what `arcacct stats` prints of its database, and for all CEs their sums."""
    # A dataset has no jobs that have not ended.
    options = ("--by", by, "--details", "--gpu", "--from", "2001", "--format", "json")
    names = by.split(",")
    sums: dict[tuple[str, ...], Counter[str]] = {}
    for site, ce in federation.databases:
        alone = said(capsys, "--database", federation.file(site, ce), "stats", *options)
        of_it = said(capsys, "fleet", "stats", federation.root, *options, "--filter-ce", ce)

        # A database knows when its recording started, a dataset does not.
        assert all(line.startswith("arcacct: recording began at ") for line in alone.stderr.splitlines())
        assert (of_it.returncode, of_it.stderr, alone.returncode) == (0, "", 0)
        assert of_it.stdout == alone.stdout
        for row in json.loads(alone.stdout):
            key = tuple(row.pop(name) for name in names)
            sums.setdefault(key, Counter()).update({name: amount or 0 for name, amount in row.items()})

    whole = json.loads(said(capsys, "fleet", "stats", federation.root, *options).stdout)

    assert {tuple(row.pop(name) for name in names) for row in [dict(row) for row in whole]} == sums.keys()
    for row in whole:
        wanted = sums[tuple(row[name] for name in names)]
        for name, amount in row.items():
            if name in ("jobs", "wall_s", "cpu_s", "failed_jobs", "stage_in_bytes", "stage_out_bytes"):
                assert amount == wanted[name], (row, name)
            elif name not in (*names, "cpu_efficiency"):
                # Rounded once for each CE.
                assert math.isclose(amount or 0, wanted[name], rel_tol=1e-9, abs_tol=0.002), (row, name)


@pytest.mark.parametrize("name", SELECTIONS)
def test_every_selection_selects_what_stats_selects(federation, opened, name) -> None:
    """Each filter and range of time counts the jobs that it counts in the databases, and fewer files are enough."""
    selection = SELECTIONS[name]
    by_ce = {}
    for (site, ce), con in federation.databases.items():
        wanted = of_one_ce(con, selection, ("vo",), details=False)
        if wanted.rows:
            by_ce[site, ce] = wanted.total[1:]

    whole = usage.usage(opened, selection, ("site", "ce"), details=False)
    every = dataset.dataset([str(federation.root)])
    found = usage.concerned(every, selection, usage.FleetSelection())
    fewer, _problems = engine.answered(
        "duckdb", found, lambda opened: usage.usage(opened, selection, ("site", "ce"), details=False)
    )

    assert {row[:2]: row[2:] for row in whole.rows} == by_ce
    assert fewer.rows == whole.rows
    assert by_ce
    assert (len(found.partitions) < len(every.partitions)) == (selection[:4] != (None,) * 4)


def test_an_aborted_job_without_usage_lacks_no_measurement(tmp_path, capsys) -> None:
    """As `arcacct stats` has it: it counts nowhere, so nothing is missing of it."""
    site = exported_site.Site(tmp_path)
    with closing(site.con):
        counted_jobs.add(site.con, site.here)
        site.export()
    options = ("--by", "vo,status", "--from", "2001", "--format", "json")
    names = ("vo", "status", "jobs", "wall_s", "cpu_s", "jobs_without_wall", "jobs_without_cpu")
    alone, of_dataset = (
        [{name: row[name] for name in names} for row in json.loads(said(capsys, *command, *options).stdout)]
        for command in (("--database", site.here.database, "stats"), ("fleet", "stats", site.dataset))
    )

    assert of_dataset == alone
    assert [row["jobs_without_wall"] for row in alone if row["status"] == "aborted"] == [0]
    assert sum(row["jobs_without_wall"] for row in alone) == 1


def test_jobs_of_several_runs_have_the_hours_of_stats_next_to_files_of_an_older_version(tmp_path, capsys) -> None:
    """The months of one dataset differ in columns: in the older one a job counts as before, with wall time x cores."""
    site = exported_site.Site(tmp_path)
    old = stored_jobs.job(801, end_s=exported_site.JUNE_S)
    nothing = {"wall_s": 0, "cpu_user_s": 0, "cpu_kernel_s": 0}
    with closing(site.con):
        counted_jobs.add(site.con, site.here)
        site.add(
            old,
            stored_jobs.job(802, end_s=exported_site.JUNE_S + 1)._replace(core_count=None),
            stored_jobs.job(803, end_s=exported_site.JUNE_S + 2, status="aborted")._replace(**nothing),
            stored_jobs.job(804, end_s=exported_site.JUNE_S + 3, status="aborted"),
        )
        site.export()
        asked = ("--by", "month,vo,queue", "--details", "--from", "2001", "--format", "json")
        alone = said(capsys, "--database", site.here.database, "stats", *asked)
        june = Partition("SITE", 2026, 6, "ce.example.org")
        made = parse(site.manifest(6).read_bytes(), june, "")
        jobs = {"jobs": pq.read_table(site.dataset / june.part("jobs", made.tables["jobs"].file), partitioning=None)}
        later = [name for name in jobs["jobs"].column_names if "gpu" in name or "energy" in name]
        write_partition(site.dataset, june, jobs, life=made.life, without=("counted", "core_s", *later))
    of_dataset = said(capsys, "fleet", "stats", site.dataset, *asked)
    told = said(
        capsys,
        "fleet",
        "sql",
        site.dataset,
        "SELECT count(*) AS n, count(counted) AS m, count(nodes_energy_j) AS e FROM jobs",
        "--format",
        "json",
    )
    by_cores = {row["queue"]: row["core_hours"] for row in json.loads(of_dataset.stdout) if row["vo"] == "atlas"}

    assert (of_dataset.returncode, of_dataset.stderr) == (0, "")
    assert of_dataset.stdout == alone.stdout
    # The job of two runs has 27,000 s, and 3,500 s on 8 cores; that without cores has one.
    assert by_cores["short"] == round((27_000 + 3 * 28_000) / 3600, 3)
    assert [(row["n"] - row["m"], row["n"] - row["e"] >= 4, row["e"] > 0) for row in json.loads(told.stdout)] == [
        (4, True, True)
    ]


def test_what_a_ce_says_to_count_counts(tmp_path, capsys) -> None:
    """Its `counted` decides, whatever the status; no figure is of the others, and `-a` shows them."""
    jobs = generator.jobs_of(WHOLE, JOBS)
    told = [0] * 4 + [1] * (JOBS - 4)
    write_partition(tmp_path, WHOLE, {"jobs": hostile_datasets.with_column(jobs, "counted", told, pa.int64())})
    counted, everything = (
        json.loads(said(capsys, "fleet", "stats", tmp_path, "--by", "ce", *more, "--format", "json").stdout)
        for more in ((), ("-a",))
    )

    assert [row["jobs"] for row in (*counted, *everything)] == [JOBS - 4, JOBS]
    assert counted[0]["wall_s"] == sum(jobs["wall_s"].to_pylist()[4:])


def test_gpus_and_energy(tmp_path) -> None:
    """What is measured is summed where it is told and a measurement, and is not known elsewhere."""
    import pyarrow as pa
    from federation import jobs_of
    from written_partitions import schema_of, write_partition

    told = [("North", "ce01.example.org", 0), ("South", "ce02.example.org", 3)]
    for site, ce, cards in told:
        partition = Partition(site, 2026, 6, ce)
        jobs = jobs_of(partition, 20)
        rows = [
            {"record_id": record, "gpu_count": 2, "gpu_allocated_s": 7200, "gpu_busy_s": 1800.5, "energy_j": energy}
            for record, energy in zip(jobs["record_id"].to_pylist()[:cards], (3_600_000, None, 2**60), strict=False)
        ]
        write_partition(
            tmp_path,
            partition,
            {"jobs": jobs, "accelerators": pa.Table.from_pylist(rows, schema_of("accelerators"))},
            life=site * 8,
        )

    table, _problems = engine.answered(
        "duckdb",
        dataset.dataset([str(tmp_path)]),
        lambda opened: usage.usage(opened, Selection(), ("site",), details=False, measured=True),
    )

    north, south = ({name: row[table.columns.index(name)] for name in table.columns[-4:]} for row in table.rows)
    assert set(north.values()) == {None}
    assert south == {"gpu_hours": 6.0, "gpu_busy_hours": 1.5, "gpu_energy_kwh": None, "energy_kwh": 1.0}


@pytest.mark.parametrize("schemas", [(17, 17), (17, 18)], ids=["all older", "some older"])
def test_files_of_an_older_version(tmp_path, capsys, schemas) -> None:
    """What they lack is not known of their jobs; all jobs count."""
    from federation import jobs_of
    from written_partitions import write_partition

    for number, schema in enumerate(schemas, 1):
        partition = Partition("North", 2026, 6, f"ce{number:02d}.example.org")
        lacks = ("queue", "gpu_busy_s") if schema == 17 else ()
        jobs = {"jobs": jobs_of(partition, 20)}
        write_partition(tmp_path, partition, jobs, life=str(number) * 32, schema=schema, without=lacks)

    done = said(capsys, "fleet", "stats", tmp_path, "--by", "ce,queue", "--gpu", "--format", "json")

    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)
    for number, schema in enumerate(schemas, 1):
        of_ce = [row for row in rows if row["ce"] == f"ce{number:02d}.example.org"]
        assert sum(row["jobs"] for row in of_ce) == 20
        assert {row["queue"] is None for row in of_ce} == {schema == 17}


def test_the_command_prints_tables(federation, capsys) -> None:
    """By site and CE, sorted, the first, for people and for programs; a table has its total."""
    done = said(capsys, "fleet", "stats", federation.root, "--by", "site,ce", "--sort", "jobs", "--top", "2")

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].split()[:3] == ["site", "ce", "jobs"]
    assert [line.split()[0] for line in lines[4:]] == ["(1", "(total)"]
    assert int(lines[2].split()[2]) >= int(lines[3].split()[2]) > 0

    done = said(capsys, "fleet", "stats", federation.root, "--by", "ce", "--filter-site", "South", "--format", "json")

    assert [row["ce"] for row in json.loads(done.stdout)] == ["ce.example.com"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--by", "colour"), "it can be any of site, ce, month"),
        (("--by", "vo", "--sort", "colour"), "the table has the columns"),
        (("--by", "vo", "--master", "spark://head:7077"), "needs --engine spark"),
        (("--by", "vo", "--month", "2026-06", "--from", "2026-05"), "do not combine it with"),
        ((), "Missing option '--by'"),
    ],
)
def test_wrong_command_lines(federation, capsys, options, complaint) -> None:
    """Each is told what is wrong with it."""
    done = said(capsys, "fleet", "stats", federation.root, *options)

    assert done.returncode == 64
    assert complaint in done.stderr


def test_a_directory_without_a_dataset(tmp_path: pathlib.Path, capsys) -> None:
    """It is said what is missing, and how it is made."""
    done = said(capsys, "fleet", "stats", tmp_path, "--by", "vo")

    assert done.returncode == 65
    assert "no exported dataset" in done.stderr


def test_a_dataset_at_a_url(federation, tmp_path, capsys) -> None:
    """It answers as the same files in a directory do, without and with an own limit of memory; bad files are named."""
    fsspec = pytest.importorskip("fsspec", reason="the extra parquet is not installed")
    url = f"memory://{tmp_path}"
    memory, folder = fsspec.filesystem("memory"), str(tmp_path)
    memory.put(f"{federation.root}/", folder, recursive=True)
    commands = (
        ("stats", "--by", "month,host,role", "--details", "--gpu", "--filter-extra", "rte", "ENV/PROXY"),
        ("sql", "SELECT ce, event, count(*), max(event_time) FROM events GROUP BY ALL ORDER BY ALL"),
        ("verify", "--deep"),
    )
    for command, *options in commands:
        there, here = (said(capsys, "fleet", command, place, *options) for place in (url, federation.root))
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
        assert there.returncode == 0

    memory.pipe(f"{tmp_path}/secret", b"do not tell")
    for path in (f"{url}/secret", "dataset0://secret"):
        refused = said(capsys, "fleet", "sql", url, f"SELECT * FROM read_text('{path}')")
        assert (refused.returncode, "no other file" in refused.stderr) == (64, True)
    by_spark = said(capsys, "fleet", "stats", url, "--by", "vo", "--engine", "spark")
    assert (by_spark.returncode, by_spark.stderr.count("\n")) == (64, 1)

    gone = next(path for path in memory.find(folder) if "/jobs/v1/site=South/" in path)
    memory.rm(gone)
    done = said(capsys, "fleet", "stats", url, "--by", "ce")
    assert done.returncode == 65
    assert f"it names memory://{gone}, which is missing" in done.stderr


def test_a_question_that_no_file_concerns(federation, capsys) -> None:
    """The answer is empty, and no error."""
    done = said(capsys, "fleet", "stats", federation.root, "--by", "vo", "--to", "1999", "--format", "json")

    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--filter-site", "Souht"), "there is no site Souht in the dataset"),
        (("--filter-site", "South", "--filter-ce", "ce9.example.org"), "there is no CE ce9.example.org in the dataset"),
        (("--filter-vo", "atals"), "no job of the dataset matches the filters"),
    ],
)
def test_a_mistyped_filter_is_reported(federation, capsys, options, words) -> None:
    """As `arcacct stats` tells it: else it would look like no jobs."""
    done = said(capsys, "fleet", "stats", federation.root, "--by", "ce", *options, "--format", "json")

    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert words in done.stderr


IMPOSSIBLE = {
    "a wall time beyond 68 years": {"wall_s": 2**62},
    "a wall time below 0": {"wall_s": -5},
    "a CPU time of a trillion seconds": {"cpu_user_s": 10**12},
    "a CPU time below 0": {"cpu_kernel_s": -1},
    "a core time below 0": {"core_s": -1},
    "a core time beyond any number of cores": {"core_s": 2**62},
    "more cores than any machine has": {"core_count": 2**62},
    "more nodes than any machine has": {"node_count": 2**40},
    "a benchmark that is no number": {"benchmark_type": "HEPscore23", "benchmark_value": float("nan")},
    "a benchmark without end": {"benchmark_type": "hepspec", "benchmark_value": float("inf")},
}
EDGES = (
    *(({name: states.LARGEST_S}, {name: states.LARGEST_S + 1}) for name in ("wall_s", "cpu_user_s", "cpu_kernel_s")),
    *(
        ({"core_count": most, "node_count": nodes}, {"core_count": most + 1, "node_count": nodes})
        for most, nodes in (
            (states.MOST_CORES, states.MOST_NODES),
            (states.MOST_CORES, None),
            (3 * states.THREADS_OF_NODE, 3),
        )
    ),
    ({"node_count": states.MOST_NODES}, {"node_count": states.MOST_NODES + 1}),
    *(
        ({"benchmark_type": kind, "benchmark_value": edge}, {"benchmark_type": kind, "benchmark_value": edge * beyond})
        for kind, bounds in states.BENCHMARKS.items()
        for edge, beyond in zip(bounds, (0.99, 1.01), strict=True)
    ),
)
"""The last possible value of each kind, by the rules of a CE, and one beyond it."""


@pytest.mark.parametrize(("name", "command"), cross(len(IMPOSSIBLE), [*IMPOSSIBLE], ["report", "verify"]))
def test_jobs_that_cannot_be_are_not_counted_and_their_ce_is_named(name, command, tmp_path, capsys) -> None:
    """Every figure of the others is exact, and so are those of the honest jobs of that CE."""
    write_partition(tmp_path, WHOLE, {"jobs": generator.jobs_of(WHOLE, JOBS)}, life="1" * 32)
    write_partition(tmp_path, BAD, {"jobs": generator.jobs_of(BAD, JOBS)}, life="2" * 32)
    asked = ("fleet", "stats", tmp_path, "--by", "ce,status", "-a", "--format", "json")
    table = hostile_datasets.read(tmp_path, BAD)
    hostile_datasets.write(tmp_path, BAD, pa.concat_tables([table.slice(0, 5), table.slice(6)]))
    honest = said(capsys, *asked)
    for column, value in IMPOSSIBLE[name].items():
        told = table[column].to_pylist()
        table = hostile_datasets.with_column(table, column, [*told[:5], value, *told[6:]], table[column].type)
    hostile_datasets.write(tmp_path, BAD, table)
    done = said(capsys, *asked)

    assert (honest.returncode, honest.stderr) == (0, "")
    assert (done.returncode, done.stdout) == (65, honest.stdout)
    assert f"{tmp_path / BAD.manifest}: 1 job of {BAD} with a wall time, CPU time, core time" in done.stderr
    words = ("report", "--month", "2026-01", "--fleet") if command == "report" else ("fleet", "verify", "--deep")
    other = said(capsys, *words, tmp_path)
    assert (other.returncode, other.stderr) == (65, done.stderr)


@pytest.mark.parametrize("values", sample(EDGES, 6), ids=str)
def test_the_ranges_are_those_of_a_ce(values, tmp_path, capsys) -> None:
    """A federation leaves out what a CE holds, and nothing else: the SQL and the constants have one range."""
    write_partition(tmp_path, BAD, {"jobs": generator.jobs_of(BAD, JOBS)})
    whole, codes = hostile_datasets.read(tmp_path, BAD), []
    for changed in values:
        table = whole
        for name, value in changed.items():
            told = whole[name].to_pylist()
            table = hostile_datasets.with_column(table, name, [*told[:5], value, *told[6:]], whole[name].type)
        hostile_datasets.write(tmp_path, BAD, table)
        codes.append(said(capsys, "fleet", "stats", tmp_path, "--by", "ce", "-a").returncode)

    assert codes == [0, 65]


def test_a_record_that_a_file_has_twice_is_found_by_verify(tmp_path, capsys) -> None:
    write_partition(tmp_path, BAD, {"jobs": generator.jobs_of(BAD, JOBS)})
    table = hostile_datasets.read(tmp_path, BAD)
    hostile_datasets.write(tmp_path, BAD, pa.concat_tables([table, table]))
    verified = said(capsys, "fleet", "verify", "--deep", tmp_path)

    assert verified.returncode == 65
    assert f"has {JOBS} rows with a record_id of their own, the manifest says {2 * JOBS}" in verified.stderr
