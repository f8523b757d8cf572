"""`arcacct report`: installed cores, earlier months, the year, waiting times, sizes: each as plain sums say it."""

from __future__ import annotations

import calendar
import json
import math
import random
import re
from collections.abc import Sequence
from contextlib import closing

import pytest
import stored_jobs
from in_process import said
from report_figures import figures

from arcacct.database.access import open_accounting, read_accounting
from arcacct.queries import questions
from arcacct.queries.questions import Selection, first_end_s
from arcacct.queries.usage import UsageTable, usage
from arcacct.records.model import Job
from arcacct.reports.capacity import installed
from arcacct.reports.trends import Recording, over_time
from arcacct.times import month_bounds

MAY = ("--month", "2026-05")
MAY_S = calendar.timegm((2026, 5, 1, 0, 0, 0))
DAY_S = 86_400


def job(number: int, end_s: int, hours: float, cores: int = 1, wait_s: int = 60, **more: object) -> Job:
    """A job that ran so long on so many cores, after it waited so long."""
    wall_s = int(hours * 3600)
    start_s = end_s - wall_s
    events = (("SUBMIT", start_s - wait_s), ("LRMSSTART", start_s), ("LRMSEND", end_s))
    plain = {"wall_s": wall_s, "core_count": cores, "cpu_user_s": wall_s * cores // 2, "cpu_kernel_s": 0}
    made = stored_jobs.job(number, end_s=end_s)
    return made._replace(**{"submit_time": start_s - wait_s - 5, "events": events, **plain, **more})


def of(told: dict[tuple[str, str, str], str], section: str, metric: str) -> dict[str, str]:
    return {key[1]: value for key, value in told.items() if (key[0], key[2]) == (section, metric)}


def test_utilisation_is_of_the_cores_of_each_day(capsys, site) -> None:
    """Two numbers of cores in one month: hours of each time against its own cores, and of all against both."""
    made = site("cores=10 from=2026-05-01 to=2026-05-11\ncores=20 from=2026-05-11")
    made.add(job(1, MAY_S + 3600, 1), job(2, MAY_S + 5 * DAY_S, 24, cores=5), job(3, MAY_S + 10 * DAY_S, 10, cores=20))

    told = figures(capsys, made.conf, *MAY)

    first, second = "2026-05-01 to 2026-05-10", "2026-05-11 to 2026-05-31"
    assert of(told, "utilisation", "cores") == {first: "10", second: "20", "(all)": ""}
    assert of(told, "utilisation", "installed_core_hours") == {first: "2400.0", second: "10080.0", "(all)": "12480.0"}
    assert of(told, "utilisation", "core_hours") == {first: "121.0", second: "200.0", "(all)": "321.0"}
    shares = {name: float(value) for name, value in of(told, "utilisation", "utilisation").items()}
    assert shares == {first: round(121 / 2400, 4), second: round(200 / 10080, 4), "(all)": round(321 / 12480, 4)}
    assert told["history", "2026-05", "utilisation"] == told["utilisation", "(all)", "utilisation"]
    assert told["year", "2026-01 to 2026-05", "utilisation"] == told["utilisation", "(all)", "utilisation"]


def test_days_without_known_cores_are_left_out_with_their_jobs(capsys, site) -> None:
    """Otherwise hours of 31 days would be compared with the cores of ten."""
    made = site("cores=10 from=2026-05-22")
    made.add(job(1, MAY_S + 3600, 100, cores=10), job(2, MAY_S + 25 * DAY_S, 24, cores=10))

    told = figures(capsys, made.conf, *MAY)
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout

    assert of(told, "utilisation", "core_hours") == {"2026-05-22 to 2026-05-31": "240.0"}
    assert told["utilisation", "2026-05-22 to 2026-05-31", "utilisation"] == "0.1"
    assert "Not in these figures: 21 days without known cores; write cores= for these days" in text


def test_days_before_the_first_record_are_not_idle(capsys, site) -> None:
    """Who starts to record on the 30th has not wasted the month."""
    made = site("cores=10")
    made.add(job(1, MAY_S + 29 * DAY_S + 50_000, 1), job(2, MAY_S + 31 * DAY_S - 1, 24, cores=10))

    told = figures(capsys, made.conf, *MAY)

    assert of(told, "utilisation", "installed_core_hours") == {"2026-05-30 to 2026-05-31": "480.0"}
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout
    assert "Not in these figures: 29 days before the first recorded job." in text
    assert "write cores=" not in text


def test_more_than_all_is_explained(capsys, site) -> None:
    """A long job counts whole on the day of its end."""
    made = site("cores=1")
    made.add(job(1, MAY_S + 3600, 1), job(2, MAY_S + 30 * DAY_S, 24 * 31, cores=4))

    done = said(capsys, "--config", made.conf, "report", *MAY)

    assert "A utilisation above 100 %: a job counts completely on the day of its end" in done.stdout


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("cores=many", "'many' is not a number of cores; write NUMBER"),
        ("cores=0", "'0' is not a number of cores"),
        ("cores=5 from=2026-02-30", "'2026-02-30' is not a day"),
        ("cores=5 from=2026-03-01 to=2026-03-01", "applies to no job"),
        ("cores=5\ncores=6 from=2026-03-01", "there is another number of cores at the same time in line"),
    ],
)
def test_a_wrong_line_of_cores_is_named(capsys, site, lines, what) -> None:
    """With what is right; two numbers for one day are an error, too."""
    made = site(lines)

    done = said(capsys, "--config", made.conf, "config", "check")

    assert done.returncode == 78
    assert what in done.stdout + done.stderr


def sonar_nodes(made, *nodes: tuple[str, int, int, int]) -> None:
    """Nodes with their cores (0: the node itself said nothing), and the first and last second they were listed."""
    with closing(open_accounting(made.settings().places)) as con:
        con.execute("INSERT OR IGNORE INTO Clusters VALUES (1, 'cluster.example.org')")
        for number, (name, cores, first_s, last_s) in enumerate(nodes, 1):
            con.execute("INSERT INTO ClusterNodes VALUES (1, ?, ?, ?, 'IDLE')", (name, first_s, last_s))
            if cores:
                con.execute("INSERT INTO NodeNames VALUES (?, 1, ?)", (number, f"{name}.example.org"))
                con.execute(
                    "INSERT INTO Nodes (NodeID, ValidFrom, LastSeen, Content, OSName, OSRelease, NumaNodes, Sockets,"
                    " CoresPerSocket, ThreadsPerCore, CPUModel, Architecture, Memory, Distances, TopoSVG, TopoText)"
                    " VALUES (?, ?, ?, '', '', '', 1, 2, ?, 1, '', '', 1, '', '', '')",
                    (number, first_s, last_s, cores // 2),
                )


def test_cores_are_those_of_the_nodes_that_telemetry_knows(capsys, site) -> None:
    """Without a line of cores: sockets times cores of each listed node, from its first day to its last."""
    made = site()
    made.add(job(1, MAY_S + 3600, 1), job(2, MAY_S + 20 * DAY_S, 48, cores=10))
    sonar_nodes(
        made,
        ("n1", 16, MAY_S - 90 * DAY_S, MAY_S + 40 * DAY_S),
        ("n2", 32, MAY_S + 15 * DAY_S, MAY_S + 40 * DAY_S),
        ("n3", 64, MAY_S - 90 * DAY_S, MAY_S - DAY_S),
    )

    told = figures(capsys, made.conf, *MAY)

    cores = {"2026-05-01 to 2026-05-15": "16", "2026-05-16 to 2026-05-31": "48", "(all)": ""}
    assert of(told, "utilisation", "cores") == cores
    assert float(told["utilisation", "(all)", "installed_core_hours"]) == 24 * (15 * 16 + 16 * 48)


def test_a_node_without_telemetry_makes_the_cores_unknown(capsys, site) -> None:
    """Hours of all nodes against the cores of some would be more than there is; the node is named."""
    made = site()
    made.add(job(1, MAY_S + 3600, 1))
    sonar_nodes(made, ("n1", 16, MAY_S, MAY_S + 40 * DAY_S), ("silent", 0, MAY_S, MAY_S + 40 * DAY_S))

    text = said(capsys, "--config", made.conf, "report", *MAY).stdout

    assert not of(figures(capsys, made.conf, *MAY), "utilisation", "utilisation")
    assert "unknown: the cores of 1 node are not known (silent); write cores=NUMBER into [arcacct]" in text


def test_months_and_years_are_what_stats_says(capsys, site) -> None:
    """A month without jobs is there, with 0; the year before has the same months."""
    made = site()
    ends = [(2024, 12), (2025, 2), (2025, 7), (2025, 9), (2026, 1), (2026, 5), (2026, 6)]
    seconds = [calendar.timegm((year, month, 15, 0, 0, 0)) for year, month in ends]
    marks = ("HEPSPEC:10", "HEPscore23:12", None)
    made.add(*(job(n, end_s, n + 1, cores=4, benchmark=marks[n % 3]) for n, end_s in enumerate(seconds)))

    told = figures(capsys, made.conf, *MAY)

    stats = said(capsys, "--config", made.conf, "stats", "--by", "month", "--format", "json")
    by_month = {row["month"]: row for row in json.loads(stats.stdout)}
    months = [f"2025-{month:02d}" for month in range(6, 13)] + [f"2026-{month:02d}" for month in range(1, 6)]
    assert [*of(told, "history", "jobs")] == months
    for month in months:
        row = by_month.get(month, {"jobs": 0, "core_hours": 0.0, "hs06_hours": 0, "hepscore23_hours": 0})
        assert told["history", month, "jobs"] == str(row["jobs"])
        assert told["history", month, "core_hours"] == str(row["core_hours"])
        normalised = (row["hs06_hours"] or 0) + (row["hepscore23_hours"] or 0)
        assert float(told["history", month, "normalised_hours"] or 0) == pytest.approx(normalised)
    assert of(told, "year", "jobs") == {"2026-01 to 2026-05": "2", "2025-01 to 2025-05": "1"}
    assert told["year", "2026-01 to 2026-05", "core_hours"] == "44.0"
    assert ("history", "2026-05", "utilisation") not in told


def test_sums_of_hours_are_rounded_once(capsys, site) -> None:
    """Hours by two benchmarks, and hours of two months, of which each alone is next to nothing."""
    made = site()
    second = 1 / 3600
    made.add(
        job(1, MAY_S - DAY_S, 2 * second, benchmark="HEPSPEC:1.44"),
        job(2, MAY_S + DAY_S, second, benchmark="HEPSPEC:1.44"),
        job(3, MAY_S + DAY_S, second, benchmark="HEPscore23:1.44"),
    )
    path = made.path / "pledge.csv"
    path.write_text("atlas,2026-04,1,core\natlas,2026-04,1,hs06\n")

    told = figures(capsys, made.conf, *MAY, "--pledge", path)

    assert told["history", "2026-05", "normalised_hours"] == "0.001"
    assert told["year", "2026-01 to 2026-05", "normalised_hours"] == "0.002"
    assert told["pledge", "atlas hs06", "used_hours"] == "0.001"
    # 0.00111 h, of which each month has 0.00056 h.
    assert told["pledge", "atlas core", "used_year_hours"] == "0.001"


def percentile(times: list[int], share: float) -> float:
    return round(sorted(times)[math.ceil(share * len(times)) - 1] / 60, 2)


@pytest.mark.parametrize("largest", [50_000, 100])
def test_waiting_times_are_those_of_the_jobs(capsys, site, monkeypatch, largest) -> None:
    """Median and 90th percentile by VO and of all; held jobs, other months and unknown times are not among them."""
    made = site()
    rng = random.Random(7)
    waits: dict[str, list[int]] = {"atlas": [], "cms": [], "(all)": []}
    jobs = []
    for number in range(1, 401):
        vo, wait_s = rng.choice(("atlas", "cms")), int(rng.expovariate(1 / 3000))
        made_s = job(number, MAY_S + number * 6000, 2, wait_s=wait_s, vo=vo)
        if number % 40 == 0:
            made_s = made_s._replace(events=())
        elif number % 50 == 0:
            # Implausible: it is held.
            made_s = made_s._replace(wall_s=10**7)
        elif number % 30 == 0:
            made_s = made_s._replace(status="in-progress", end_time=0)
        else:
            waits[vo].append(wait_s)
            waits["(all)"].append(wait_s)
        jobs.append(made_s)
    made.add(*jobs, job(1000, MAY_S - 5, 1, wait_s=10**5, vo="cms"))
    monkeypatch.setattr("arcacct.reports.month._LARGEST_SAMPLE", largest)

    told = figures(capsys, made.conf, *MAY)
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout

    if largest > 400:
        assert of(told, "wait", "jobs") == {name: str(len(times)) for name, times in waits.items()}
        for name, times in waits.items():
            assert float(told["wait", name, "wait_median_min"]) == percentile(times, 0.5)
            assert float(told["wait", name, "wait_p90_min"]) == percentile(times, 0.9)
        assert "Of 10 of 386 jobs the waiting time is unknown" in text
    else:
        # One of three: as good as a hundred jobs can be.
        assert "Of many jobs, one in 3 was used." in text
        assert "wait_median_min*" in text
        ranks = sorted(waits["(all)"])
        assert ranks[120] / 60 <= float(told["wait", "(all)", "wait_median_min"]) <= ranks[250] / 60


def test_sizes_are_what_stats_says(capsys, site) -> None:
    """The same classes with the same jobs and hours as `stats --by cores` and `--by walltime`; shares add up."""
    made = site()
    rng = random.Random(3)
    jobs = [
        job(n, MAY_S + n * 5000, rng.expovariate(1 / 9), cores=rng.choice((1, 8, 32)), wait_s=rng.randrange(9000))
        for n in range(1, 300)
    ]
    jobs[7] = jobs[7]._replace(core_count=None)
    jobs[8] = jobs[8]._replace(wall_s=None)
    jobs[9] = jobs[9]._replace(wall_s=10**8)
    made.add(*jobs)

    told = figures(capsys, made.conf, *MAY)

    for by in ("cores", "walltime"):
        asked = ("stats", "--by", by, "--from", "2026-05-01", "--to", "2026-06-01", "--format", "json")
        rows = json.loads(said(capsys, "--config", made.conf, *asked).stdout)
        named = {row[by] or "(unknown)": row for row in rows}
        assert of(told, by, "jobs") == {name: str(row["jobs"]) for name, row in named.items()}
        assert "(unknown)" in named
        for name, row in named.items():
            assert float(told[by, name, "core_hours"]) == pytest.approx(row["core_hours"] or 0, abs=0.001)
        for share in ("jobs_share", "core_hours_share"):
            assert sum(map(float, of(told, by, share).values())) == pytest.approx(1, abs=0.001)
    order = [*questions.WALLTIME_CLASSES.values(), "(unknown)"]
    assert [*of(told, "walltime", "jobs")] == [name for name in order if name in of(told, "walltime", "jobs")]


def test_pledges_are_followed_over_the_year(capsys, site) -> None:
    """Each month against the pledge that held then; the year of the pledge so far against the sum of its months."""
    made = site()
    ends = [(2025, 11, 5), (2026, 1, 10), (2026, 4, 30), (2026, 5, 20)]
    made.add(
        *(
            job(n, calendar.timegm((year, month, 15, 0, 0, 0)), hours, cores=2, benchmark=mark)
            for n, ((year, month, hours), mark) in enumerate(
                zip(ends, ("HEPSPEC:10", "HEPSPEC:10", "HEPscore23:12", "HEPscore23:12"), strict=True)
            )
        )
    )
    path = made.path / "pledge.csv"
    path.write_text("atlas,2025-11,20,core\natlas,2026-04,100,core\natlas,2026-01,400,hepscore23\nnew,2026-05,7,cpu\n")

    told = figures(capsys, made.conf, *MAY, "--pledge", path)

    assert {key: told["pledge", "atlas core", key] for key in ("pledged_hours", "used_hours", "used_share")} == {
        "pledged_hours": "100.0",
        "used_hours": "40.0",
        "used_share": "0.4",
    }
    # A line starts in April, as a year of WLCG does; without one the first line says when the year starts.
    years = {key[1]: value for key, value in told.items() if (key[0], key[2]) == ("pledge", "year_from")}
    assert years == {"atlas core": "2026-04", "atlas hepscore23": "2026-01", "new cpu": "2026-05"}
    assert told["pledge", "atlas core", "pledged_year_hours"] == "200.0"
    assert told["pledge", "atlas core", "used_year_hours"] == "100.0"
    assert told["pledge", "atlas hepscore23", "pledged_year_hours"] == "2000.0"
    assert told["pledge", "new cpu", "used_share"] == "0.0"
    trend = {key[2]: value for key, value in told.items() if key[:2] == ("pledge_trend", "atlas core")}
    trend.pop("kind")
    assert trend == {
        "2025-11": "0.5", "2025-12": "0.0", "2026-01": "1.0", "2026-02": "0.0", "2026-03": "0.0", "2026-04": "0.6",
        "2026-05": "0.4",
    }  # fmt: skip
    # HS06 hours of January count for a pledge in HEPscore23: one is worth the other.
    scored = {key[2]: value for key, value in told.items() if key[:2] == ("pledge_trend", "atlas hepscore23")}
    assert (scored["2025-11"], scored["2026-01"], scored["2026-05"]) == ("", "0.5", "1.2")


def test_months_before_the_first_record_are_unknown(capsys, site) -> None:
    """They are no zeros in the last 12 months, and neither their use nor their pledge is in the share of the year."""
    made = site("cores=10")
    # The end of the third cannot be true: it is held, and tells nothing of the time before. The last counts nowhere.
    made.add(
        job(1, calendar.timegm((2026, 3, 9, 0, 0, 0)), 30),
        job(2, MAY_S + DAY_S, 20),
        job(3, calendar.timegm((1990, 12, 9, 0, 0, 0)), 30),
        job(4, calendar.timegm((2026, 2, 9, 0, 0, 0)), 0, status="aborted", cpu_user_s=0),
    )
    path = made.path / "pledge.csv"
    path.write_text("atlas,2026-01,100,core\ncms,2026-01,300,core\n")

    told = figures(capsys, made.conf, *MAY, "--pledge", path)
    text = said(capsys, "--config", made.conf, "report", *MAY, "--pledge", path).stdout

    months = [f"2025-{month:02d}" for month in range(6, 13)] + [f"2026-{month:02d}" for month in range(1, 6)]
    assert of(told, "history", "jobs") == dict.fromkeys(months, "") | {"2026-03": "1", "2026-04": "0", "2026-05": "1"}
    assert [told["history", month, "core_hours"] for month in months[-4:]] == ["", "30.0", "0.0", "20.0"]
    trend = [told["pledge_trend", "atlas core", month] for month in months[-5:]]
    assert trend == ["", "", "0.3", "0.0", "0.2"]
    # Of five months of the year three are known.
    names = ("year_from", "pledged_year_hours", "used_year_hours", "used_year_share")
    assert [told["pledge", "atlas core", name] for name in names] == ["2026-01", "300.0", "50.0", "0.1667"]
    # All pledges of a kind together.
    names = ("pledged_hours", "used_hours", "used_share", "pledged_year_hours", "used_year_hours", "used_year_share")
    sums = [told["pledge", "(all) core", name] for name in names]
    assert sums == ["400.0", "20.0", "0.05", "1200.0", "50.0", "0.0417"]
    assert "Unknown, and not 0: 2025-06 to 2026-02; jobs of that time were not recorded." in text
    assert "Unknown, and not 0: 2026-01 to 2026-02; jobs of that time were not recorded." in text
    assert "2026-03 is counted from the first recorded job, of 2026-03-09." in text


def test_a_month_between_an_import_and_the_first_recorded_job_is_unknown(capsys, site) -> None:
    """An import until March and a recorder since July leave April to June unknown; a month within the import is 0."""
    made = site()
    made.add(*(job(n, calendar.timegm((2026, month, 9, 12, 0, 0)), 30) for n, month in enumerate((1, 3))))
    with closing(open_accounting(made.settings().places)) as con:
        con.execute(
            "UPDATE DBConfig SET KeyValue = ? WHERE KeyName = ?",
            (calendar.timegm((2026, 7, 5, 0, 0, 0)), "ARCACCT_CREATED"),
        )
        con.commit()

    told = figures(capsys, made.conf, "--month", "2026-08")

    assert list(of(told, "history", "jobs").values()) == ["", "", "", "", "1", "0", "1", "", "", "", "", "0"]


def test_the_running_month_is_compared_with_what_is_over_of_it(site) -> None:
    """Cores of days to come were not idle."""
    made = site("cores=10")
    made.add(job(1, MAY_S + 3600, 1), job(2, MAY_S + 2 * DAY_S, 12, cores=10))
    now_s = MAY_S + 2 * DAY_S + 6 * 3600
    with closing(read_accounting(made.settings().places)) as con:
        capacity = installed(made.settings().cores, con, month_bounds(2025, 1)[0], month_bounds(2026, 5)[1])

        def ask(selection: Selection, by: Sequence[str]) -> UsageTable:
            return usage(con, selection, by, details=False)

        found = over_time(ask, (2026, 5), capacity, now_s, Recording(first_end_s(con) or 0))

    (row,) = found.utilisation.rows
    assert found.utilisation.number(row, "installed_core_hours") == 10 * (48 + 6)
    assert any("2026-05 is not over" in note for note in found.history.notes)


def test_what_is_not_known_is_one_line(capsys, site) -> None:
    """A section without figures says why, on the page too."""
    made = site()
    made.add(stored_jobs.job(1))
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout
    page = made.path / "page.html"
    said(capsys, "--config", made.conf, "report", *MAY, "--html", page)

    for part in (
        "unknown: write cores=NUMBER into [arcacct]",
        "unknown: no job has a submission to the batch system and a start that fit each other",
    ):
        assert part in text
        assert page.read_text().count(part) == 1


def test_the_page_has_cards_and_charts_of_it(capsys, site) -> None:
    """The pledge is among the first numbers, charts come before tables."""
    made = site("cores=10")
    made.add(*(job(n, MAY_S - n * 25 * DAY_S + 20 * DAY_S, 1 + 5 * n, cores=1 + n % 3, wait_s=1800) for n in range(9)))
    path = made.path / "pledge.csv"
    path.write_text("atlas,2025-11,20,core\n")
    page = made.path / "page.html"

    said(capsys, "--config", made.conf, "report", *MAY, "--pledge", path, "--html", page)

    text = page.read_text()
    assert "<dt>Median waiting time</dt><dd>30.0 min</dd>" in text
    assert "<dt>Utilisation</dt>" in text
    assert "<dt>Pledge used</dt>" in text
    assert re.findall('<figure class="([a-z_]+)">', text) == ["vo", "history", "day"]
    assert text.index("<dt>Pledge used</dt>") < text.index("<figure") < text.index("<table")
    # The pledge comes before the long table of the days.
    assert text.index('<section class="pledge') < text.index('<section class="day')


def test_the_report_of_many_jobs_reads_a_bounded_number_of_events(site) -> None:
    """However many jobs a month has, the events of so many are read: SQLite's own counters say so."""
    made = site()
    made.add(*(job(n, MAY_S + n * 1000, 1) for n in range(1, 601)))

    def steps(one_of: int) -> int:
        count = 0

        def counted() -> int:
            nonlocal count
            count += 1
            return 0

        with closing(read_accounting(made.settings().places)) as con:
            con.set_progress_handler(counted, 100)
            found = questions.waits(con, MAY_S, MAY_S + 31 * DAY_S, one_of=one_of)
            con.set_progress_handler(None, 0)
        assert found[0].jobs == 600 // one_of
        return count

    assert steps(20) * 4 < steps(1)
