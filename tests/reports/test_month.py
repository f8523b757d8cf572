"""`arcacct report`: its figures are those of `stats`, of plain SQL and of `verify`."""

from __future__ import annotations

import html
import json
import os
import pathlib
import random
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise, permutations

import pytest
import slurm_files
import stored_jobs
from in_process import said
from report_figures import figures

from arcacct.records.pseudonyms import Names, site_names
from arcacct.reports.tables import Column, Table

NOVEMBER = ("--from", "2026-11-01", "--to", "2026-12-01")
MAY = ("--month", "2026-05")


def database(conf) -> pathlib.Path:
    return next(pathlib.Path(conf).parent.rglob("accounting.db"))


@pytest.mark.parametrize("by", ["vo", "day"])
def test_usage_is_what_stats_says(capsys, swept, by) -> None:
    """Each figure of a VO and of a day is that of `arcacct stats --by` for the same time."""
    told = figures(capsys, swept, "--month", "2026-11")

    stats = said(capsys, "--config", swept, "stats", *NOVEMBER, "--by", by, "--details", "--format", "json")
    rows = json.loads(stats.stdout)
    names = ("jobs", "failed_jobs", "core_hours", "hs06_hours", "hepscore23_hours", "cpu_efficiency")
    expected = {
        (by, row[by] or "(no VO)", name): "" if row[name] is None else str(row[name]) for row in rows for name in names
    }
    assert rows
    assert {key: told[key] for key in expected} == expected
    assert {key[1] for key in told if key[0] == by} == {row[by] or "(no VO)" for row in rows} | {"(all)"}


def test_the_total_is_what_plain_sql_says(capsys, swept) -> None:
    """Jobs, core hours and CPU hours of all are the sums over v1_jobs."""
    told = figures(capsys, swept, "--month", "2026-11")

    with closing(sqlite3.connect(database(swept))) as con:
        jobs, core_h, cpu_h = con.execute(
            "SELECT count(*), round(sum(wall_s * core_count) / 3600.0, 3), round(sum(cpu_s) / 3600.0, 3) FROM v1_jobs"
            " WHERE end_time_iso LIKE '2026-11-%' AND (status IN ('completed', 'failed')"
            " OR (status = 'aborted' AND wall_s + cpu_s > 0))"
        ).fetchone()
        failed = con.execute("SELECT count(*) FROM v1_jobs WHERE status = 'failed'").fetchone()[0]
    assert (told["vo", "(all)", "jobs"], told["vo", "(all)", "failed_jobs"]) == (str(jobs), str(failed))
    assert float(told["vo", "(all)", "core_hours"]) == core_h
    assert float(told["vo", "(all)", "cpu_hours"]) == cpu_h
    by_reason = [
        int(value)
        for (section, key, metric), value in told.items()
        if (section, metric) == ("failure", "jobs")
        if key.startswith("failed")
    ]
    assert sum(by_reason) == failed > 0


def test_publishing_is_what_verify_says(capsys, swept) -> None:
    """Every place of `arcacct verify` is there with its jobs and its answer; a lost job is told."""
    with closing(sqlite3.connect(database(swept))) as con:
        con.execute("DELETE FROM AAR WHERE RecordID = (SELECT max(RecordID) FROM AAR WHERE UsedWalltime > 0)")
        con.commit()

    told = figures(capsys, swept, "--month", "2026-11")

    verify = json.loads(said(capsys, "--config", swept, "verify", "2026-11", "--format", "json").stdout)
    answers = {
        one["name"]: "unknown" if one["unknown"] else "yes" if one["agrees"] else "NO" for one in verify["sources"]
    }
    assert answers["database"] == "unknown"
    places = {one["name"]: (str(one["jobs"]), answers[one["name"]]) for one in verify["sources"]}
    keys = {key[1] for key in told if key[0] == "publishing"}
    assert {key: (told["publishing", key, "jobs"], told["publishing", key, "agrees"]) for key in keys} == places
    assert told["publishing", "control directory", "agrees"] == "NO"
    text = said(capsys, "--config", swept, "report", "--month", "2026-11").stdout
    lost = next(one for one in verify["differences"] if one["job_id"])
    assert lost["text"] in text
    assert "NOT all places agree" in text
    text = said(capsys, "--config", swept, "report", "--month", "2026-11", "--pseudonymous").stdout
    assert lost["job_id"] not in text
    assert "`arcacct verify 2026-11 --all` shows every difference." in text


def test_failures_have_the_reason_of_the_batch_system(capsys, site) -> None:
    """What sacct really printed of failed jobs is told by its states, which the record does not have."""
    conf = site("map=account * vo=atlas").conf
    done = said(
        capsys, "--config", conf, "import", "slurm", "--cluster", "testgrid", "--timezone", "UTC", slurm_files.TABLE
    )
    assert done.returncode == 0, done.stderr

    told = figures(capsys, conf, "--month", "2026-11")

    reasons = {key[1]: int(value) for key, value in told.items() if key[0] == "failure" and key[2] == "jobs"}
    with closing(sqlite3.connect(database(conf))) as con:
        states = dict(
            con.execute(
                "SELECT 'Slurm says ' || CASE WHEN instr(state, ' ') THEN substr(state, 1, instr(state, ' ') - 1)"
                " ELSE state END, count(*) FROM v1_slurm_runs JOIN v1_jobs USING (job_id)"
                " WHERE status IN ('failed', 'aborted') AND state NOT IN ('COMPLETED', 'FAILED') GROUP BY 1"
            ).fetchall()
        )
    found: dict[str, int] = {}
    for reason, count in reasons.items():
        words = reason.partition(": ")[2]
        found[words] = found.get(words, 0) + count
    assert len(states) > 1
    assert {reason: found[reason] for reason in states} == states


def test_exit_codes_are_reported_with_their_signal(capsys, site) -> None:
    """A job that was killed, one that never ran, and one of which nothing was learned are three reasons."""
    made = site()
    failed = [stored_jobs.job(number, status="failed") for number in range(4)]
    made.add(
        failed[0]._replace(exit_code=137),
        failed[1]._replace(exit_code=271),
        failed[2]._replace(exit_code=1),
        failed[3]._replace(exit_code=1, wall_s=0, cpu_user_s=0, cpu_kernel_s=0),
    )

    told = figures(capsys, made.conf, *MAY)

    assert {key[1]: value for key, value in told.items() if key[0] == "failure" and key[2] == "jobs"} == {
        "failed: exit code 137 (signal 9)": "1",
        "failed: exit code 271 (signal 15)": "1",
        "failed: exit code 1 or unknown": "1",
        "failed: it did not run": "1",
    }


def test_pseudonyms_are_the_site_s_own(capsys, site) -> None:
    """No name of a user is left; the same user is the same in the next report; another key makes others."""
    made = site()
    made.add(*(stored_jobs.job(number) for number in range(6)))

    plain = figures(capsys, made.conf, *MAY)
    told = figures(capsys, made.conf, *MAY, "--pseudonymous")

    users = {key[1]: value for key, value in told.items() if key[0] == "user" and key[2] == "jobs"}
    assert len(users) == 3
    assert sorted(users.values()) == sorted(
        value for key, value in plain.items() if key[0] == "user" and key[2] == "jobs"
    )
    assert not any("CN=" in name for name in users)
    assert figures(capsys, made.conf, *MAY, "--pseudonymous") == told
    key_file = pathlib.Path(made.settings().places.directory) / "pseudonyms.key"
    assert key_file.stat().st_mode & 0o777 == 0o600
    dn = "/DC=org/CN=User 1"
    assert f"{site_names(made.settings().places).of(dn)} atlas" in users
    assert f"{Names(bytes(32)).of(dn)} atlas" not in users
    report = made.path / "report.csv"
    assert report.stat().st_mode & 0o777 == 0o644
    figures(capsys, made.conf, *MAY)
    assert report.stat().st_mode & 0o777 == 0o600


def test_the_key_moves_with_the_databases(capsys, site, tmp_path) -> None:
    """After `db move` users are called as before, and the next report knows what the last one said."""
    made = site()
    made.add(stored_jobs.job(1))
    before = figures(capsys, made.conf, *MAY, "--pseudonymous")
    done = said(capsys, "--config", made.conf, "db", "move", tmp_path / "elsewhere", "--yes")
    assert done.returncode == 0, done.stderr
    conf = made.path / "arcacct.conf"
    conf.write_text(conf.read_text().replace(f"{tmp_path}/accounting/", f"{tmp_path}/elsewhere/"))

    made.add(stored_jobs.job(4))
    told = figures(capsys, made.conf, *MAY, "--pseudonymous")

    assert {key for key in told if key[0] == "user"} == {key for key in before if key[0] == "user"}
    assert told["change", "atlas", "jobs_then"] == "1"
    assert (tmp_path / "elsewhere" / "pseudonyms.key").stat().st_mode & 0o777 == 0o600


def test_a_user_who_may_only_read_is_reported(capsys, site) -> None:
    """A reader's report is whole; that the next one does not know of it is said."""
    made = site()
    made.add(stored_jobs.job(1))
    folder = pathlib.Path(made.settings().places.directory)
    (folder / "reports.json").write_text("[" * 200_000)
    assert said(capsys, "--config", made.conf, "report", *MAY).returncode == 0
    (folder / "reports.json").unlink()
    (folder / "reports.json").mkdir()

    done = said(capsys, "--config", made.conf, "report", *MAY)

    assert done.returncode == 0
    assert "Usage by VO" in done.stdout
    assert "this report is not stored" in done.stderr
    assert sorted(path.name for path in folder.iterdir() if "reports" in path.name) == ["reports.json"]


def test_a_damaged_key_is_reported(capsys, site) -> None:
    """No pseudonyms are made by half a key, since no one would find them again."""
    made = site()
    made.add(stored_jobs.job(1))
    (pathlib.Path(made.settings().places.directory) / "pseudonyms.key").write_text("abc")

    done = said(capsys, "--config", made.conf, "report", *MAY, "--pseudonymous")

    assert done.returncode == 74
    assert "pseudonyms.key: it must have 32 bytes" in done.stderr


def test_what_the_figures_rest_on_is_said(capsys, site) -> None:
    """Jobs that no one measured, jobs without a benchmark, and a benchmark that was changed within the month."""
    host = site()
    day = 86_400
    jobs = [stored_jobs.job(number, end_s=stored_jobs.END_S - number * day) for number in range(5)]
    jobs[4] = jobs[4]._replace(wall_s=10**6)
    jobs[0] = jobs[0]._replace(cpu_user_s=None, cpu_kernel_s=None, benchmark="HEPscore23:14.5")
    jobs[1] = jobs[1]._replace(wall_s=None, cpu_user_s=None, cpu_kernel_s=None, benchmark="HEPSPEC:1.0")
    jobs[3] = jobs[3]._replace(benchmark="HEPSPEC:120")
    host.add(*jobs)
    told = figures(capsys, host.conf, *MAY)

    assert told["vo", "atlas", "jobs_without_cpu"] == "2"
    assert told["vo", "atlas", "jobs_without_wall"] == "1"
    by_user = [told["user", f"/DC=org/CN=User {number} atlas", "jobs_without_cpu"] for number in range(3)]
    assert by_user == ["1", "1", "0"]
    core_h = 8 * 3500 / 3600
    assert float(told["vo", "atlas", "core_hours"]) == pytest.approx(3 * core_h, abs=0.01)
    # Of the two jobs that have CPU time.
    assert float(told["vo", "atlas", "cpu_efficiency"]) == pytest.approx(20_300 / (8 * 3500), abs=0.001)
    assert told["benchmark", "HEPSPEC:120", "last_end"] < told["benchmark", "HEPSPEC:12.26", "first_end"]
    assert told["benchmark", "HEPSPEC:12.26", "last_end"] < told["benchmark", "HEPscore23:14.5", "first_end"]
    assert told["benchmark", "none (HEPSPEC 1.0 or the site's default is sent)", "jobs"] == "1"
    text = said(capsys, "--config", host.conf, "report", *MAY).stdout
    rests_on = (
        "wall time of 3 measured, CPU time of 2, values that were not measured count as 0, 1 without a benchmark:"
    )
    rests_on += " HEPSPEC 1.0 or the site's default is"
    assert f"These figures are based on 4 jobs: {rests_on} sent; 1 job held as implausible, not counted." in text
    assert "Jobs of this month have 3 benchmarks" in text
    assert "HEPSPEC:120 is outside the range of a core" in text


def test_hours_of_jobs_without_a_benchmark_are_not_normalised(capsys, site) -> None:
    """They are sent with HEPSPEC 1.0, which is no measurement: no one reads HS06 hours in the report."""
    host = site()
    host.add(*(stored_jobs.job(number)._replace(benchmark="HEPSPEC:1.0") for number in range(3)))
    told = figures(capsys, host.conf, *MAY)

    assert (told["vo", "atlas", "hs06_hours"], told["vo", "atlas", "hepscore23_hours"]) == ("", "")
    text = said(capsys, "--config", host.conf, "report", *MAY).stdout
    assert (
        "No job has a benchmark: there are no normalised figures, and HEPSPEC 1.0 or the site's default is sent."
        in text
    )
    assert "no benchmark: no normalised figures" in text


def test_an_empty_month_says_so(capsys, site) -> None:
    """A month in which no job ended has tables that say so, and one before recording started that it may lack jobs."""
    made = site()
    made.add(stored_jobs.job(1))

    done = said(capsys, "--config", made.conf, "report", "--month", "2020-01")

    assert done.returncode == 0
    assert done.stdout.count("No job ended in this month.") == 7
    assert "The month may be incomplete: recording began at " in done.stdout.partition("Usage by VO")[0]
    assert "The month may be incomplete: recording began at " in done.stdout.partition("Usage by VO")[2]
    known = said(capsys, "--config", made.conf, "report", *MAY).stdout
    assert "No target is configured: nothing of this month is published." in known


def test_late_jobs_are_reported_once(capsys, site) -> None:
    """The first report has nothing to compare with; a later one tells the late job; the same data says the same."""
    made = site()
    made.add(stored_jobs.job(1))
    first = figures(capsys, made.conf, *MAY)
    assert figures(capsys, made.conf, *MAY) == first
    assert not any(section == "change" for section, _key, _metric in first)

    made.add(stored_jobs.job(2), stored_jobs.job(3)._replace(vo="alice"))
    second = figures(capsys, made.conf, *MAY)

    changed = {key[1:]: value for key, value in second.items() if key[0] == "change" and key[2].startswith("jobs")}
    assert changed == {
        ("atlas", "jobs_then"): "1",
        ("atlas", "jobs_now"): "2",
        ("alice", "jobs_then"): "0",
        ("alice", "jobs_now"): "1",
    }
    # The same once more: a report that is written again, as a page say, is the same report.
    assert figures(capsys, made.conf, *MAY) == second
    assert "Since then 2 jobs were recorded late" in said(capsys, "--config", made.conf, "report", *MAY).stdout
    made.add(stored_jobs.job(1)._replace(wall_s=9))
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout
    assert "0 jobs were recorded late or completed, 1 job was corrected" in text
    assert os.stat(f"{made.settings().places.directory}/reports.json").st_mode & 0o777 == 0o600


def test_rows_are_sorted_by_the_names_of_columns() -> None:
    """A column more, wherever it stands, leaves the order as it is; what is not known counts as nothing."""
    columns = (Column("jobs", "Jobs"), Column("core_hours", "Core hours"), Column("vo", "VO"))
    figures = [
        ("b", {"jobs": 1, "core_hours": 5.0, "vo": "x"}),
        ("a", {"jobs": 9, "core_hours": None, "vo": "x"}),
        ("a", {"jobs": 2, "core_hours": 5.0, "vo": "x"}),
    ]
    for order in permutations(columns):
        table = Table("t", "T", "User", order).filled(figures, "core_hours", notes=["a note"], empty="nothing")
        assert [(row.key, table.number(row, "jobs")) for row in table.rows] == [("a", 2), ("b", 1), ("a", 9)]
        assert table.notes == ("a note",)
    assert Table("t", "T", "User", columns).filled([], "jobs", empty="nothing").notes == ("nothing",)


COUNTED = """
SELECT coalesce(vo, '(no VO)') AS vo, user_dn, substr(end_time_iso, 1, 10) AS day, substr(end_time_iso, 1, 7) AS month,
       status = 'failed' AS failed, wall_s * core_count AS core_s, cpu_s,
       CASE WHEN wall_s IS NOT NULL THEN cpu_s END AS measured_cpu_s,
       CASE WHEN cpu_s IS NOT NULL THEN wall_s * core_count END AS measured_core_s,
       CASE WHEN benchmark_type = 'HEPSPEC' AND benchmark_source <> 'default'
            THEN wall_s * core_count * benchmark_value END AS hs06_s,
       CASE benchmark_type WHEN 'HEPscore23' THEN wall_s * core_count * benchmark_value END AS hepscore23_s
  FROM v1_jobs
 WHERE ifnull(hold_state, '') NOT IN ('held', 'excluded')
   AND (status IN ('completed', 'failed') OR (status = 'aborted' AND ifnull(wall_s, 0) + ifnull(cpu_s, 0) > 0))
"""
"""The jobs that count, by the views of the contract."""
SUMS = """
SELECT {key}, count(*) AS jobs, sum(failed) AS failed_jobs, total(core_s) / 3600 AS core_hours,
       total(cpu_s) / 3600 AS cpu_hours, total(hs06_s) / 3600 AS hs06_hours,
       total(hepscore23_s) / 3600 AS hepscore23_hours,
       round((total(hs06_s) + total(hepscore23_s)) / 3600, 3) AS normalised_hours,
       total(measured_cpu_s) / nullif(total(measured_core_s), 0) AS cpu_efficiency
  FROM counted WHERE {which} GROUP BY 1
"""
TITLES = {
    "Usage by VO": "vo",
    "Usage by day (of the end, UTC)": "day",
    "The last 12 months": "history",
    "Use against the pledge": "pledge",
    "Top users": "user",
}
METRICS = {
    "Jobs": "jobs", "Failed": "failed_jobs", "Core hours": "core_hours", "CPU hours": "cpu_hours",
    "HS06 hours": "hs06_hours", "HEPscore23 hours": "hepscore23_hours", "Normalised hours": "normalised_hours",
    "Efficiency": "cpu_efficiency", "Used": "used_hours", "Used this year": "used_year_hours",
}  # fmt: skip
Told = dict[tuple[str, str], dict[str, str]]


def of_terminal(text: str) -> Told:
    """By section and key: the figures of the tables as they are printed."""
    told: Told = {}
    for part in text.split("\n\n"):
        title, *lines = part.splitlines()
        if title in TITLES and len(lines) > 1:
            spans = [found.span() for found in re.finditer("-+", lines[1])]
            gaps = list(pairwise([place for span in spans for place in span]))[1::2]
            # A note has letters between the columns.
            of_table = [line for line in lines if not any(line[begin:end].strip() for begin, end in gaps)]
            rows = [[line[begin:end].strip() for begin, end in spans] for line in of_table if line != lines[1]]
            told |= named(TITLES[title], rows)
    return told


def of_page(text: str) -> Told:
    """By section and key: the figures of the tables of the page."""
    told: Told = {}
    for title, table in re.findall(r"<h2 [^>]*>([^<]*)</h2>.*?<table>(.*?)</table>", text, re.DOTALL):
        plain = re.sub('<span class="unit">.*?</span>', "", table)
        lines = [re.findall(r"<t[hd][ >].*?</t[hd]>", line) for line in re.findall(r"<tr>(.*?)</tr>", plain)]
        rows = [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in line] for line in lines]
        rows[0] = [METRICS.get(name, name) for name in rows[0]]
        told |= named(TITLES.get(html.unescape(title), title), rows)
    return told


def named(section: str, rows: list[list[str]]) -> Told:
    """Figures by the names in the first row; pledges and users are called by two columns, as in the CSV."""
    told: Told = {}
    for key, *values in rows[1:]:
        name = f"{key} {values[0]}" if section in ("pledge", "user") else "(all)" if key == "All" else key
        told[section, name] = dict(zip(rows[0][1:], values, strict=False))
    return told


def of_rows(rows: Iterable[dict[str, object]]) -> Told:
    """By section and key: the figures of the CSV or of JSON."""
    told: Told = {}
    for row in rows:
        value = "" if row["value"] is None else str(row["value"])
        told.setdefault((str(row["section"]), str(row["key"])), {})[str(row["metric"])] = value
    return told


def test_every_form_has_the_figures_of_the_contract(capsys, site) -> None:
    """
    The terminal, the page, the CSV and JSON agree with SQL, to the last digit that they show.

    Some jobs are held, excluded, unfinished, unmeasured or without a VO.
    """
    host = site()
    rng = random.Random(11)
    jobs = []
    for number in range(1, 241):
        end_s = stored_jobs.END_S - rng.randrange(120 * 86_400)
        wall_s = rng.randrange(60, 3600)
        one = stored_jobs.job(number, end_s=end_s, status=rng.choice(("completed", "completed", "failed")))._replace(
            vo=rng.choice(("atlas", "cms", "")), wall_s=wall_s, cpu_user_s=wall_s // 2, core_count=rng.choice((1, 8)),
            benchmark=rng.choice(("HEPSPEC:11.5", "HEPscore23:14.25", "HEPSPEC:1.0")), submit_time=end_s - 4000,
        )  # fmt: skip
        if number % 10 == 1:
            one = one._replace(wall_s=10**7)
        elif number % 10 == 2:
            one = one._replace(cpu_user_s=None, cpu_kernel_s=None)
        elif number % 10 == 3:
            one = one._replace(wall_s=None)
        elif number % 10 == 4:
            one = one._replace(status="in-progress", end_time=0)
        elif number % 10 == 5:
            one = one._replace(
                status="aborted", **({"wall_s": 0, "cpu_user_s": 0, "cpu_kernel_s": 0} if number % 4 else {})
            )
        jobs.append(one)
    host.add(*jobs)
    decide = ("quarantine", "decide", "STORED000011", "--as", "excluded", "--yes")
    assert said(capsys, "--config", host.conf, *decide).returncode == 0
    (host.path / "pledge.csv").write_text("atlas,2025-04,500,core\ncms,2026-04,700,cpu\n")
    options = (*MAY, "--top", "99", "--pledge", host.path / "pledge.csv")

    with closing(sqlite3.connect(database(host.conf))) as con:
        con.row_factory = sqlite3.Row
        con.execute(f"CREATE TEMP VIEW counted AS {COUNTED}")

        def sums(key: str, which: str) -> dict[str, dict[str, float | None]]:
            return {
                row[0]: {name: row[name] for name in row.keys()[1:]}
                for row in con.execute(SUMS.format(key=key, which=which))
            }

        expected: dict[tuple[str, str], dict[str, float | None]] = {}
        for section, key in (("vo", "vo"), ("day", "day"), ("user", "user_dn || ' ' || vo")):
            expected |= {(section, name): of for name, of in sums(key, "month = '2026-05'").items()}
        expected |= {("history", name): of for name, of in sums("month", "true").items()}
        for section in ("vo", "day"):
            expected[section, "(all)"] = sums("'(all)'", "month = '2026-05'")["(all)"]
        april = sums("vo", "month IN ('2026-04', '2026-05')")
        for vo, kind in (("atlas", "core"), ("cms", "cpu")):
            used = {"used_hours": expected["vo", vo][f"{kind}_hours"], "used_year_hours": april[vo][f"{kind}_hours"]}
            expected["pledge", f"{vo} {kind}"] = used
    assert len(expected) > 30

    command = ("--config", host.conf, "report", *options)
    forms = {
        "csv": of_rows(
            {"section": key[0], "key": key[1], "metric": key[2], "value": value}
            for key, value in figures(capsys, host.conf, *options).items()
        ),
        "json": of_rows(json.loads(said(capsys, *command, "--format", "json").stdout)),
        "terminal": of_terminal(said(capsys, *command).stdout),
    }
    assert said(capsys, *command, "--html", host.path / "r.html").returncode == 0
    forms["page"] = of_page((host.path / "r.html").read_text())
    for form, told in forms.items():
        compared = 0
        for key, sums_of in expected.items():
            for metric in {*sums_of} & {*told[key]}:
                compared += 1
                assert agrees(told[key][metric], sums_of[metric]), (form, key, metric, told[key], sums_of)
        assert compared > 150, form


def agrees(shown: str, value: float | None) -> bool:
    """Whether a figure is this one, rounded to the digits that are shown."""
    text = re.sub("[\u202f,]", "", shown)
    if text in ("", "-", "–"):  # noqa: RUF001  a dash
        return not value
    if text.startswith("<"):
        return 0 < (value or 0) < 0.005
    scale = 100 if text.endswith("%") else 1
    number = text.rstrip("%")
    digits = len(number.partition(".")[2])
    # The page rounds what the CSV has with three digits, a share with four.
    exact = round(value or 0, 4 if scale == 100 else 3) if digits < 3 else value or 0
    return abs(float(number) - scale * exact) <= 0.5001 * 10**-digits
