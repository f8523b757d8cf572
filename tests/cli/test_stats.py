"""`arcacct stats`: arcctl's answers, and usage by whatever is asked."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from contextlib import closing

import arex_corpus as corpus
import counted_jobs
import pytest
import stored_jobs
from campaigns import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from installed import arcacct
from stored_jobs import END_S

from arcacct.database.access import initialise, open_accounting, read_accounting, writing
from arcacct.queries import questions
from arcacct.queries.questions import Selection
from arcacct.queries.usage import NEEDS, UsageTable, usage
from arcacct.records.usage import update_breakdown, update_monthly
from arcacct.records.writer import JobWriter

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
    """Nothing appears next to A-REX's file, and no byte or time of it changes: SQLite never opens it."""
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


def test_a_name_that_no_job_has_is_reported(arex_file) -> None:
    """A misspelt VO gives no jobs, and says why."""
    done = arcacct("--database", arex_file, "stats", "-o", "jobcount", "--filter-vo", "atals")

    assert done.stdout == "0\n"
    assert "the database has no jobs with WLCG VO atals" in done.stderr


def test_the_three_formats_say_the_same(unchanged) -> None:
    """Table, CSV and JSON have the same columns and rows."""
    asked = ("--config", unchanged.conf, "stats", "--by", "vo,role", "--details", "--format")

    as_json = json.loads(arcacct(*asked, "json").stdout)
    as_csv = list(csv.DictReader(io.StringIO(arcacct(*asked, "csv").stdout)))
    table = arcacct(*asked, "table").stdout.splitlines()

    assert [row["jobs"] for row in as_json] == [int(row["jobs"]) for row in as_csv]
    assert list(as_json[0]) == list(as_csv[0]) == table[0].split()
    # Two lines of header; the total is for people only.
    assert len(table) == len(as_json) + 3
    assert table[-1].split()[:2] == ["(total)", str(sum(row["jobs"] for row in as_json))]


def test_usage_by_vo_is_what_the_jobs_add_up_to(unchanged) -> None:
    """Jobs, hours, hours times benchmark and efficiency of a VO follow from its jobs."""
    rows = json.loads(
        arcacct("--config", unchanged.conf, "stats", "--by", "vo", "--details", "--format", "json").stdout
    )

    found = next(row for row in rows if row["vo"] == "atlas")
    with closing(corpus.arex_database()) as con:
        jobs, wall_s, cpu_s, core_s = con.execute(
            "SELECT count(*), sum(UsedWalltime), sum(UsedCPUUserTime + UsedCPUKernelTime), sum(UsedWalltime * CPUCount)"
            " FROM AAR JOIN WLCGVOs ON WLCGVOs.ID = VOID WHERE Name = 'atlas'"
        ).fetchone()
    assert (found["jobs"], found["wall_s"], found["cpu_s"]) == (jobs, wall_s, cpu_s) == (5, 59, 7)
    assert found["core_hours"] == round(core_s / 3600, 3)
    assert found["cpu_efficiency"] == round(cpu_s / core_s, 4)


NO_CPU = {"cpu_user_s": None, "cpu_kernel_s": None}
RUNS = {"extra": (("coreseconds", "28004"),)}
"""Their core time is 4 s more than wall time times cores."""


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([{"wall_s": None}], 0.725),
        ([{"wall_s": None}, NO_CPU, {"wall_s": None, **NO_CPU}], 0.725),
        ([RUNS], round(2 * 20_300 / (2 * 28_000 + 4), 4)),
        ([RUNS | NO_CPU], 0.725),
    ],
    ids=["no wall time", "each unknown", "runs", "runs without CPU time"],
)
def test_the_efficiency_is_of_jobs_with_both_times(tmp_path, others, expected) -> None:
    """Also from every job, and while no sum has them; a job without wall time alone has none."""
    here = corpus.place(tmp_path)
    initialise(here)
    jobs = [stored_jobs.job(number)._replace(**values) for number, values in enumerate([{}, *others])]
    alone = stored_jobs.job(99)._replace(vo="cms", wall_s=None)
    with closing(open_accounting(here)) as con:
        JobWriter(con, "pbs", "server").write([*jobs, alone])
        found = [usage(con, Selection(), ("vo",), details=False)]
        update_monthly(con, here)
        found.append(usage(con, Selection(), ("vo",), details=False))
        update_breakdown(con, here, everything=True)
        found += [usage(con, Selection(), ("vo",), details=details) for details in (False, True)]
        found.append(of_each_job(con, Selection(), ("vo",)))

    for table in found:
        assert {row["vo"]: row["cpu_efficiency"] for row in table.named()} == {"atlas": expected, "cms": None}


def of_each_job(con, selection: Selection, by: tuple[str, ...], **options: bool) -> UsageTable:
    """The answer from every job: no sum tells of the time of submission."""
    return usage(con, selection._replace(submitted_after_s=-1), by, **{"details": False, **options})


FIRSTS = (1_790_812_800, 1_793_491_200, 1_796_083_200)
"""The first seconds of October, November and December 2026."""


@pytest.fixture(scope="module")
def kept_sums(tmp_path_factory):
    """Two years of jobs, many at the ends of periods: counted, waiting for a sum, changed and deleted since."""
    here = corpus.place(tmp_path_factory.mktemp("kept"))
    initialise(here)
    chance = random.Random(2026)
    ends = [first + seconds for first in FIRSTS for seconds in (-86_401, -86_400, -1, 0, 1, 43_200, 86_399, 86_400)]
    ends += [chance.randrange(FIRSTS[0] - 60_000_000, FIRSTS[2]) for _ in range(150)]
    # Not every one is counted everywhere: by queue, wall time, cores, and status.
    jobs = [
        stored_jobs.job(number, end_s=end_s, status=chance.choice(["completed", "failed", "aborted"]))._replace(
            queue=chance.choice(["short", "long"]), wall_s=chance.choice([None, 7, 3500]), core_count=number % 2 + 1
        )
        for number, end_s in enumerate(ends * 2)
    ]
    chance.shuffle(jobs)
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, *jobs[:200])
        update_monthly(con, here)
        update_breakdown(con, here, everything=True)
        stored_jobs.add(con, here, *jobs[200:260])
        update_monthly(con, here)
        stored_jobs.add(con, here, *jobs[260:])
        with writing(con, here):
            con.execute("DELETE FROM AAR WHERE RecordID % 17 = 0")
            con.execute("UPDATE AAR SET EndTime = EndTime - 40000000, QueueID = 1 WHERE RecordID % 13 = 0")
        yield con


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    first=st.one_of(st.none(), st.sampled_from(FIRSTS), st.integers(FIRSTS[0] - 60_000_000, FIRSTS[2])),
    length_s=st.one_of(
        st.none(), st.sampled_from([86_400, 2_678_400, 2_592_000, 31_536_000]), st.integers(0, 60_000_000)
    ),
    shift_s=st.sampled_from([-86_400, -1, 0, 1, 43_199]),
    by=st.lists(st.sampled_from([*NEEDS]), min_size=1, max_size=3, unique=True),
    is_arcctl=st.booleans(),
    details=st.booleans(),
    everything=st.booleans(),
    queues=st.sampled_from([(), ("short",)]),
)
def test_any_interval_has_the_sums_of_its_jobs(
    kept_sums, first, length_s, shift_s, by, is_arcctl, details, everything, queues
) -> None:
    """In arcctl's form, ``(after, until]``, as in ours, ``[from, before)``, whatever periods the sums are kept by."""
    first = None if first is None else first + shift_s
    before = None if length_s is None else (FIRSTS[1] if first is None else first) + length_s
    selection = Selection(after_s=first, until_s=before) if is_arcctl else Selection(from_s=first, before_s=before)
    selection = selection._replace(queues=queues)
    answered = usage(kept_sums, selection, by, details=details, active=everything)
    assert answered == of_each_job(kept_sums, selection, tuple(by), details=details, active=everything)
    where = "".join(
        f" AND EndTime {comparison} {bound}"
        for comparison, bound in ((">" if is_arcctl else ">=", first), ("<=" if is_arcctl else "<", before))
        if bound is not None
    )
    if not queues and (everything or "status" in by):
        (jobs,) = kept_sums.execute(f"SELECT count(*) FROM AccountedAAR WHERE 1{where}").fetchone()
        assert answered.total[len(by)] == jobs


def test_an_interval_of_arcctl_is_answered_from_sums(kept_sums) -> None:
    """`-b MONTH -e MONTH` starts and ends one second later than the sums do: no other job is read for it."""
    october = Selection(after_s=FIRSTS[0], until_s=FIRSTS[1])
    for keys in (("vo",), ("user_dn", "queue"), ("day",), ("node_names",)):
        kept = questions.kept_parts(kept_sums, october, keys, details=True, everything=False)
        assert kept is not None
    assert (
        questions.kept_parts(kept_sums, Selection(after_s=5, until_s=9), ("vo",), details=True, everything=False)
        is None
    )


def test_an_interval_has_the_pruned_jobs_that_ended_in_it(tmp_path) -> None:
    """Those that `db prune` moved into an archive stay in the sums, and so in what is taken of them."""
    here = corpus.place(tmp_path)
    initialise(here)
    ends = [FIRSTS[0], FIRSTS[0] + 1, FIRSTS[1], FIRSTS[1] + 1]
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, *(stored_jobs.job(number, end_s=end_s) for number, end_s in enumerate(ends)))
        update_monthly(con, here)
        update_breakdown(con, here, everything=True)
        with writing(con, here):
            con.execute("DELETE FROM AAR WHERE RecordID <= 2")
            con.execute("DELETE FROM FinishedLog WHERE RecordID <= 2")
        for by in ("month", "day", "user", "host"):
            october = usage(con, Selection(after_s=FIRSTS[0], until_s=FIRSTS[1]), (by,), details=False)
            assert october.total[1] == 2, by


BY = ["month", "vo", "group", "role", "user", "endpoint", "benchmark", "infrastructure", "cores"]


@pytest.mark.parametrize("by", BY)
def test_monthly_sums_and_single_jobs_agree(unchanged, by) -> None:
    """What is answered from the monthly sums is what counting every job answers."""
    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        quick = usage(con, Selection(), (by, "month"), details=False)
        slow = of_each_job(con, Selection(), (by, "month"))

    assert quick == slow
    assert len(quick.rows) > 0


@pytest.mark.parametrize("by", ["day", "queue", "status", "host", "project", "cores", "wait", "walltime"])
def test_every_other_column_can_be_asked_by(unchanged, by) -> None:
    """Whatever jobs are told apart by, all of them are in the table."""
    rows = json.loads(arcacct("--config", unchanged.conf, "stats", "--by", by, "--format", "json").stdout)

    counted = sum(row["jobs"] for row in rows)
    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        total = questions.totals(con, Selection()).count
    assert total - 1 <= counted <= total


def test_classes_are_those_of_each_job(unchanged) -> None:
    """Waiting and wall times by class and cores by number are what the jobs' own values say, in their order."""
    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        jobs = con.execute(
            "SELECT core_count, lrms_start_time - lrms_submit_time, wall_s FROM v1_jobs"
            " WHERE status IN ('completed', 'failed')"
        ).fetchall()
        found = {
            by: {
                row[0]: row[1]
                for row in usage(con, Selection(states=("completed", "failed")), (by,), details=False).rows
            }
            for by in ("cores", "wait", "walltime")
        }

    def classed(value: int | None, classes: dict[int | None, str]) -> str | None:
        if value is None or value < 0:
            return None
        return next(name for limit, name in classes.items() if limit is None or value < limit)

    assert found["cores"] == Counter(str(cores) for cores, _wait, _wall in jobs)
    assert [*map(int, found["cores"])] == sorted(map(int, found["cores"]))
    assert found["wait"] == Counter(classed(wait, questions.WAIT_CLASSES) for _cores, wait, _wall in jobs)
    assert found["walltime"] == Counter(classed(wall, questions.WALLTIME_CLASSES) for _cores, _wait, wall in jobs)


def test_jobs_without_cores_are_not_among_those_with_one(tmp_path) -> None:
    """They count as one core in hours, and their size is not known; also once the sums have them."""
    here = corpus.place(tmp_path)
    initialise(here)
    jobs = [stored_jobs.job(number)._replace(core_count=(None, 1, 8)[number]) for number in range(3)]
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, *jobs)
        new = usage(con, Selection(), ("cores", "vo"), details=False)
        update_breakdown(con, here, everything=True)
        update_monthly(con, here)
        kept = usage(con, Selection(), ("cores", "vo"), details=False)
        each = of_each_job(con, Selection(), ("cores", "vo"))

    assert new == kept == each
    assert [row[:3] for row in kept.rows] == [(None, "atlas", 1), ("1", "atlas", 1), ("8", "atlas", 1)]


@pytest.mark.parametrize("zone_s", [0, 3600, 19_800, 50_400, -12_600, -36_000])
def test_waiting_times_do_not_depend_on_the_workers_zone(tmp_path, zone_s) -> None:
    """Workers write their local time as if it were UTC: a job that waited 30 minutes did so, wherever its worker is."""
    here = corpus.place(tmp_path)
    initialise(here)
    queued, start, end = END_S - 7200, END_S - 5400, END_S - 300
    waits = {
        "normal": (start, end, queued),
        "no wait": (queued - 20, end, queued),
        "the start alone": (start, None, queued),
        "never ran": (None, None, queued),
        "before its submission": (queued - 2 * 86_400, end, queued),
        "a clock of another day": (start + 3 * 86_400, end + 3 * 86_400, queued),
        "stage-out of 20 minutes": (start - 1200, end - 1200, queued - 1200),
    }
    jobs = []
    for number, (began, ended, submitted) in enumerate(waits.values()):
        told = (("SUBMIT", submitted), ("LRMSSTART", began and began + zone_s), ("LRMSEND", ended and ended + zone_s))
        jobs.append(stored_jobs.job(number)._replace(events=tuple(one for one in told if one[1] is not None)))
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, *jobs)
        found = {row[0]: row[1] for row in usage(con, Selection(), ("wait",), details=False).rows}

    assert found == {None: 4, "below 1 min": 1, "10 to 60 min": 2}


def test_a_job_of_the_batch_system_waited_since_its_submission(tmp_path) -> None:
    """What never came through A-REX has no event of its submission: the record has its time."""
    here = corpus.place(tmp_path)
    initialise(here)
    job = stored_jobs.job(1)._replace(
        endpoint_url="", submit_time=END_S - 90_000, events=(("LRMSSTART", END_S - 3600), ("LRMSEND", END_S))
    )
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, job, job._replace(job_id="other", endpoint_url="https://ce.example.org/arex"))
        found = [row[:2] for row in usage(con, Selection(), ("wait",), details=False).rows]

    assert found == [(None, 1), ("1 day or more", 1)]


def test_classes_come_in_the_order_of_time(ours) -> None:
    """Not in that of the alphabet; what is not known comes first, as with every column."""
    with closing(open_accounting(corpus.place(ours.control))) as con:
        records = [one for (one,) in con.execute("SELECT RecordID FROM AAR WHERE EndTime > 0 LIMIT 6")]
        for record, wall_s in zip(records, (5, 600, 3600, 21_600, 86_400, 999_999), strict=True):
            con.execute("UPDATE AAR SET UsedWalltime = ? WHERE RecordID = ?", (wall_s, record))
        found = [row[0] for row in usage(con, Selection(), ("walltime",), details=False).rows]

    assert [one for one in found if one is not None] == [*questions.WALLTIME_CLASSES.values()]


def test_an_unknown_column_names_the_known_ones(unchanged) -> None:
    """A mistake in --by ends with 64 and the list of what can be asked by."""
    done = arcacct("--config", unchanged.conf, "stats", "--by", "colour")

    assert done.returncode == 64
    assert "--by colour: it can be any of month, week, day, year, vo" in done.stderr


OCTOBER, NOVEMBER = 1_790_812_800, 1_793_491_200
"""The first seconds of 2026-10 and 2026-11."""


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        (("--month", "2026-11"), (NOVEMBER, 1_796_083_200)),
        (("--week", "2026-W47"), (1_794_787_200, 1_795_392_000)),
        (("--year", "2026"), (1_767_225_600, 1_798_761_600)),
        (("--from", "2026-10", "--to", "2026-11"), (OCTOBER, NOVEMBER)),
        (("--from", "2026-W47", "--to", "2026-W48"), (1_794_787_200, 1_795_392_000)),
        (("--from", "202611201008.20", "--to", "2026-11-20T11:08:21+01:00"), (1_795_169_300, 1_795_169_301)),
    ],
    ids=lambda one: "-".join(one) if isinstance(one[0], str) else None,
)
def test_a_period_has_the_jobs_that_ended_in_it(unchanged, options, bounds) -> None:
    """A month, week or year, or a range from the beginning of one to that of another, counts what SQL counts."""
    rows = json.loads(
        arcacct("--config", unchanged.conf, "stats", "--by", "status", *options, "--format", "json").stdout
    )

    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        counted = con.execute("SELECT count(*) FROM AAR WHERE EndTime >= ? AND EndTime < ?", bounds).fetchone()[0]
    assert sum(row["jobs"] for row in rows) == counted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "2026-11", "--to", "2026-10"), "--from is later than --to"),
        (("--from", "2026-11", "--to", "2026-11"), "--from and --to are the same"),
        (("-b", "2026-11", "-e", "2026-10"), "-b is later than -e"),
        (("--gridengine", "-b", "2026-11", "-e", "2026-10"), "-b is later than -e"),
        (("--month", "2026-11", "--year", "2026"), "--month is a complete period: do not combine it with --year"),
        (("--week", "last", "-b", "-7d"), "--week is a complete period: do not combine it with -b"),
        (("--sort", "jobs"), "--sort needs --by"),
        (("--by", "vo", "--sort", "colour"), "--sort colour: the table has the columns vo, jobs, wall_s"),
        (("--by", "vo", "--sort", "jobs:up"), "write COLUMN, COLUMN:asc or COLUMN:desc"),
        (("--gridengine", "--month", "last"), "--month reads jobs"),
    ],
)
def test_questions_that_mean_nothing_are_refused(unchanged, options, words) -> None:
    """A range that ends before it starts, two ranges, an order by nothing: 64, and why."""
    done = arcacct("--config", unchanged.conf, "stats", *options)

    assert (done.returncode, done.stdout) == (64, "")
    assert words in done.stderr


@pytest.mark.parametrize("options", [(), ("--by", "vo")])
def test_a_period_in_the_future_is_reported(unchanged, options) -> None:
    """It has no jobs, and the reason is on stderr."""
    done = arcacct("--config", unchanged.conf, "stats", *options, "--from", "2999")

    assert done.returncode == 0
    assert "no job has ended after 2999-01-01T00:00:00Z: this is in the future by this host's clock" in done.stderr


def test_sorted_by_any_column_the_top_and_the_others(unchanged) -> None:
    """Amounts from the largest, names from A; the rows that are left out come as one, and the total has all."""
    asked = ("--config", unchanged.conf, "stats", "--by", "vo,user", "--format")
    every = json.loads(arcacct(*asked, "json").stdout)

    by_wall = json.loads(arcacct(*asked, "json", "--sort", "wall_s").stdout)
    up = json.loads(arcacct(*asked, "json", "--sort", "wall_s:asc").stdout)
    named = json.loads(arcacct(*asked, "json", "--sort", "user").stdout)
    top = json.loads(arcacct(*asked, "json", "--sort", "wall_s", "--top", "2").stdout)
    shown = arcacct(*asked, "table", "--top", "2").stdout.splitlines()

    amounts = [row["wall_s"] for row in by_wall]
    assert amounts == sorted(amounts, reverse=True)
    assert [row["wall_s"] for row in up] == amounts[::-1]
    names = [row["user"] for row in named if row["user"] is not None]
    assert names == sorted(names)
    assert [row["user"] for row in named[len(names) :]] == [None] * (len(named) - len(names))
    assert top[:2] == by_wall[:2]
    others = top[2]
    assert (others["vo"], others["user"]) == (f"({len(every) - 2} others)", None)
    for column in ("jobs", "wall_s", "cpu_s"):
        assert others[column] == sum(row[column] for row in by_wall[2:])
        total = sum(row[column] for row in every)
        assert sum(row[column] for row in top) == total
    assert shown[-1].split()[:2] == ["(total)", str(sum(row["jobs"] for row in every))]
    assert len(shown) == 2 + 3 + 1


def test_weeks_and_years_are_sums_of_days_and_months(unchanged) -> None:
    """The corpus ended in ISO week 47 of 2026."""
    by_week = arcacct("--config", unchanged.conf, "stats", "--by", "week,year", "--format", "csv").stdout.splitlines()

    assert by_week[1].startswith("2026-W47,2026,")


def _measured(con) -> None:
    """Two jobs with telemetry, one of them without a word of the batch system; sacct told of a third, and of both."""
    ids = [row[0] for row in con.execute("SELECT RecordID FROM AAR WHERE EndTime > 0 ORDER BY RecordID LIMIT 4")]
    rows = [
        (ids[0], "sonar", 4, 14_400, 3_600.0, 1_800_000.0, 3_600_000),
        (ids[1], "sonar", None, None, 1_800.0, 2.0**60, None),
        (ids[0], "sacct", 2, 7_200, None, None, 7_200_000),
        (ids[1], "sacct", 2, 3_600, None, None, 7_200_000),
        (ids[2], "sacct", 1, 3_600, None, None, None),
        (ids[3], "sacct", 2**53, 2.0**60, None, None, None),
    ]
    con.executemany("INSERT INTO JobAccelerators VALUES (?, ?, 'c', ?, ?, ?, ?, ?)", rows)


@pytest.mark.parametrize("options", [(), ("--from", "2026-11-20T00:00:01", "--to", "2027")], ids=["all", "a range"])
def test_gpu_hours_and_energy_are_those_reported_for_the_jobs(ours, options) -> None:
    """From telemetry, else from sacct, never from both; what is no measurement harms nothing; unknown is not 0."""
    asked = ("--config", ours.conf, "stats", "--by", "year", "--gpu", "--format", "json", *options)
    (without,) = json.loads(arcacct(*asked).stdout)
    with closing(open_accounting(corpus.place(ours.control))) as con:
        _measured(con)

    (found,) = json.loads(arcacct(*asked).stdout)

    names = ("gpu_hours", "gpu_busy_hours", "gpu_energy_kwh", "energy_kwh")
    assert [without[name] for name in names] == [None] * 4
    # 4 h of telemetry, 2 GPUs for half an hour and one for an hour of sacct; what is beyond all measure is nothing.
    assert [found[name] for name in names] == [6.0, 1.5, 0.5, 3.0]
    assert {name: value for name, value in found.items() if name not in names} == {
        name: value for name, value in without.items() if name not in names
    }


@pytest.mark.parametrize("by", ["vo", "queue", "status"])
@pytest.mark.parametrize("form", ["json", "csv", "spreadsheet"])
def test_programs_read_how_many_jobs_were_not_measured(tmp_path, by, form) -> None:
    """Also without --details, and whatever is summed: jobs that do not count lack no measurement."""
    here = corpus.place(tmp_path / "control")
    initialise(here)
    with closing(open_accounting(here)) as con:
        counted_jobs.add(con, here)
        jobs = counted_jobs.counted(con)

    done = arcacct("--database", here.database, "stats", "--by", by, "--show-active", "--format", form)

    rows = json.loads(done.stdout) if form == "json" else csv.DictReader(io.StringIO(done.stdout))
    found = {row[by]: (int(row["jobs_without_wall"]), int(row["jobs_without_cpu"])) for row in rows}
    wanted = {name: [0, 0] for name in found}
    for job in jobs:
        wanted[getattr(job, by)][0] += job.wall_s is None
        wanted[getattr(job, by)][1] += job.cpu_s is None
    assert found == {name: tuple(numbers) for name, numbers in wanted.items()}
    assert any(map(any, found.values()))


def test_people_read_above_the_table_how_many_jobs_were_not_measured(tmp_path) -> None:
    """The table has columns of them with --details."""
    here = corpus.place(tmp_path / "control")
    initialise(here)
    with closing(open_accounting(here)) as con:
        counted_jobs.add(con, here)

    brief, whole = (arcacct("--database", here.database, "stats", "--by", "vo", *more) for more in ((), ("--details",)))

    assert "without a measured wall time, counted as 0 here" in brief.stderr
    assert "jobs_without_wall" not in brief.stdout
    assert "jobs_without_wall" in whole.stdout.splitlines()[0]
