"""`arcacct stats`: arcctl's answers, and usage by whatever is asked."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing

import arex_corpus as corpus
import pytest
from installed import arcacct

from arcacct.asking import questions
from arcacct.asking.questions import Selection
from arcacct.asking.usage import usage
from arcacct.db.opening import read_accounting

EXPECTED = corpus.AREX / "expected"
OUTPUTS = (
    "brief jobcount walltime cputime data-staged-in data-staged-out wlcgvos users jobids json".split()  # noqa: SIM905  as typed
)
FILTERED = {
    "stats-state-completed.json": ("--filter-state", "completed"),
    "stats-state-failed.json": ("--filter-state", "failed"),
    "stats-state-in-progress.json": ("--filter-state", "in-progress"),
    "stats-vo-atlas.json": ("--filter-vo", "atlas"),
}


def printed(name: str) -> str:
    """What arcctl printed, without the lines of its log."""
    lines = (EXPECTED / name).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if "[ARCCTL.Accounting]" not in line)


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_is_what_arcctl_printed(arex_file, output) -> None:
    """Asked of A-REX's own file, each -o prints the same bytes as arcctl did."""
    done = arcacct("--database", arex_file, "stats", "-o", output)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed(f"stats-{output}.txt")


@pytest.mark.parametrize("name", FILTERED)
def test_every_filter_selects_what_arcctl_selected(arex_file, name) -> None:
    """Asked with a filter, the JSON is the same bytes as arcctl's; that there are no such jobs is said on stderr."""
    done = arcacct("--database", arex_file, "stats", "-o", "json", *FILTERED[name])

    assert done.returncode == 0
    assert done.stdout == printed(name)
    assert ("There are no jobs matching defined filtering criteria" in done.stderr) == ('"count": 0' in done.stdout)


def test_asking_leaves_a_rex_s_file_as_it_is(arex_file) -> None:
    """Nothing appears beside A-REX's file, and no byte or time of it changes: SQLite never opens it."""
    before = arex_file.read_bytes(), arex_file.stat().st_mtime_ns

    arcacct("--database", arex_file, "stats")

    assert (arex_file.read_bytes(), arex_file.stat().st_mtime_ns) == before
    assert [path.name for path in arex_file.parent.iterdir()] == ["accounting.db"]


@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        (("-b", "2026-11-20T10:08:19", "-e", "2026-11-20T10:08:20"), 2),
        (("--from", "2026-11-20T10:08:20", "--to", "2026-11-20T10:08:21"), 2),
        (("--filter-extra", "jobname", "multicore 4"), 1),
        (("--filter-extra", "rte", "APPS/TEST-1.0"), 2),
        (("--filter-extra", "vomsfqan", "/atlas/Role=production"), 3),
        (("--filter-extra", "dtrurl", "http://ce.example.org:8080/in1.dat"), 3),
        (("--filter-endpoint", "org.nordugrid.arcrest", "--filter-queue", "fork"), None),
        (("--filter-user", "/DC=org/DC=nordugrid/DC=ARC/O=TestCA/CN=Ana Mar\\xC3\\x83\\xC2\\xADa O'Neill"), 2),
    ],
    ids=["arcctl-bounds", "half-open", "jobname", "rte", "fqan", "transfer", "two-filters", "unescaped-name"],
)
def test_filters_count_the_jobs_they_name(arex_file, options, jobs) -> None:
    """Each filter counts what the same condition counts in SQL; names may be given with or without A-REX's escapes."""
    done = arcacct("--database", arex_file, "stats", "-o", "jobcount", *options)

    expected = jobs
    if jobs is None:
        with closing(corpus.arex_database()) as con:
            expected = con.execute(
                "SELECT count(*) FROM AAR JOIN Endpoints ON Endpoints.ID = EndpointID"
                " JOIN Queues ON Queues.ID = QueueID WHERE Interface = 'org.nordugrid.arcrest' AND Queues.Name = 'fork'"
            ).fetchone()[0]
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_a_name_that_no_job_has_is_told(arex_file) -> None:
    """A misspelt VO gives no jobs, and says why."""
    done = arcacct("--database", arex_file, "stats", "-o", "jobcount", "--filter-vo", "atals")

    assert done.stdout == "0\n"
    assert "there are no jobs with WLCG VO atals" in done.stderr


def test_the_three_formats_say_the_same(ours) -> None:
    """Table, CSV and JSON have the same columns and rows."""
    asked = ("--config", ours.conf, "stats", "--by", "vo,role", "--details", "--format")

    as_json = json.loads(arcacct(*asked, "json").stdout)
    as_csv = list(csv.DictReader(io.StringIO(arcacct(*asked, "csv").stdout)))
    table = arcacct(*asked, "table").stdout.splitlines()

    assert [row["jobs"] for row in as_json] == [int(row["jobs"]) for row in as_csv]
    assert list(as_json[0]) == list(as_csv[0]) == table[0].split()
    assert len(table) == len(as_json) + 2


def test_usage_by_vo_is_what_the_jobs_add_up_to(ours) -> None:
    """Jobs, hours, hours times benchmark and efficiency of a VO follow from its jobs."""
    rows = json.loads(arcacct("--config", ours.conf, "stats", "--by", "vo", "--details", "--format", "json").stdout)

    found = next(row for row in rows if row["vo"] == "atlas")
    with closing(corpus.arex_database()) as con:
        jobs, wall_s, cpu_s, core_s = con.execute(
            "SELECT count(*), sum(UsedWalltime), sum(UsedCPUUserTime + UsedCPUKernelTime), sum(UsedWalltime * CPUCount)"
            " FROM AAR JOIN WLCGVOs ON WLCGVOs.ID = VOID WHERE Name = 'atlas'"
        ).fetchone()
    assert (found["jobs"], found["wall_s"], found["cpu_s"]) == (jobs, wall_s, cpu_s) == (5, 59, 7)
    assert found["core_hours"] == round(core_s / 3600, 3)
    assert found["cpu_efficiency"] == round(cpu_s / core_s, 4)


BY = ["month", "vo", "group", "role", "user", "endpoint", "benchmark", "infrastructure"]


@pytest.mark.parametrize("by", BY)
def test_monthly_sums_and_single_jobs_agree(ours, by) -> None:
    """What is answered from the monthly sums is what counting every job answers."""
    with closing(read_accounting(corpus.place(ours.control))) as con:
        quick = usage(con, Selection(), (by, "month"), details=False)
        # A bound within a month: every job is read.
        slow = usage(con, Selection(after_s=1), (by, "month"), details=False)

    assert quick == slow
    assert len(quick.rows) > 0


@pytest.mark.parametrize("by", ["day", "queue", "status", "host", "project"])
def test_every_other_column_can_be_asked_by(ours, by) -> None:
    """Whatever jobs are told apart by, all of them are in the table."""
    rows = json.loads(arcacct("--config", ours.conf, "stats", "--by", by, "--format", "json").stdout)

    counted = sum(row["jobs"] for row in rows)
    with closing(read_accounting(corpus.place(ours.control))) as con:
        total = questions.totals(con, Selection()).count
    assert total - 1 <= counted <= total


def test_an_unknown_column_names_the_known_ones(ours) -> None:
    """A mistake in --by ends with 64 and the list of what can be asked by."""
    done = arcacct("--config", ours.conf, "stats", "--by", "colour")

    assert done.returncode == 64
    assert "--by colour: it can be any of month, day, vo" in done.stderr
