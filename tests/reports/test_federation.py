"""`arcacct report --fleet`: a month of all CEs as tables, a page and CSV."""

from __future__ import annotations

import csv
import io
import shutil

import pytest
from federation_fixtures import federation
from in_process import said

from arcacct.export.dataset import Partition
from arcacct.queries import questions
from arcacct.queries.questions import Selection
from arcacct.queries.usage import usage
from arcacct.times import month_bounds

__all__ = ["federation"]

pytest.importorskip("duckdb", reason="the extra parquet is not installed")
pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

AUGUST = Selection(from_s=1_785_542_400, before_s=1_788_220_800)


def figures(text: str) -> dict[tuple[str, str, str], str]:
    """By section, key and metric: the value."""
    rows = csv.DictReader(io.StringIO(text))
    return {(row["section"], row["key"], row["metric"]): row["value"] for row in rows}


def test_its_figures_are_those_of_each_ce(federation, tmp_path, capsys) -> None:
    """Jobs and hours by CE are what each database says; all together are their sum. No configuration is needed."""
    out = tmp_path / "august.csv"

    done = said(capsys, "report", "--fleet", federation.root, "--month", "2026-08", "--csv", out)

    assert (done.returncode, done.stderr) == (0, "")
    found = figures(out.read_text())
    jobs = 0
    for (site, ce), con in federation.databases.items():
        rows = usage(con, AUGUST, ("month",), details=True).rows
        if rows:
            jobs += rows[0][1]
            assert found["ce", f"{ce} ({site})", "jobs"] == str(rows[0][1])
            assert float(found["ce", f"{ce} ({site})", "core_hours"]) == rows[0][4]
        else:
            assert ("ce", f"{ce} ({site})", "jobs") not in found
    assert found["ce", "(all)", "jobs"] == found["vo", "(all)", "jobs"] == found["day", "(all)", "jobs"] == str(jobs)
    assert found["site", "South", "jobs"] == found["ce", "ce.example.com (South)", "jobs"]


@pytest.mark.parametrize(
    ("site", "ce", "month"), [("North", "ce1.example.org", (2026, 11)), ("South", "ce.example.com", (2026, 8))]
)
def test_the_sections_of_jobs_are_those_of_the_ce(federation, tmp_path, capsys, site, ce, month) -> None:
    """Of a dataset with one CE: waiting times, sizes, months and the year are what its database says."""
    dataset = tmp_path / "alone"
    for path in federation.root.rglob("*"):
        if path.is_file() and ce in str(path.relative_to(federation.root)):
            copied = dataset / path.relative_to(federation.root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copied)
    con, bounds = federation.databases[site, ce], month_bounds(*month)
    (tmp_path / "pledge.csv").write_text("atlas,2026-05,10,core\n")
    options = ("--month", "{}-{:02}".format(*month), "--pledge", tmp_path / "pledge.csv")

    done = said(capsys, "report", "--fleet", dataset, *options, "--csv", tmp_path / "out.csv")

    assert (done.returncode, done.stderr) == (0, "")
    found = figures((tmp_path / "out.csv").read_text())

    def of(section: str, metric: str) -> dict[str, str]:
        return {key[1]: value for key, value in found.items() if (key[0], key[2]) == (section, metric)}

    waited = questions.waits(con, *bounds)
    # What a sweep alone has seen has no event of its submission to the batch system.
    assert bool(waited) == (site == "South")
    named = {"(all)" if one.vo == "" else one.vo or "(no VO)": one for one in waited}
    assert of("wait", "jobs") == {name: str(one.jobs) for name, one in named.items()}
    assert of("wait", "wait_p90_min") == {name: str(round(one.most_s / 60, 2)) for name, one in named.items()}
    walltimes = questions.walltimes(con, *bounds)
    assert of("walltime", "jobs") == {name or "(unknown)": str(jobs) for name, (jobs, _core_s) in walltimes.items()}
    in_month = Selection(from_s=bounds[0], before_s=bounds[1])
    by_cores = usage(con, in_month, ("cores",), details=False).rows
    assert of("cores", "jobs") == {row[0] or "(unknown)": str(row[1]) for row in by_cores}
    year = Selection(from_s=month_bounds(2026, 1)[0], before_s=bounds[1])
    by_month = {row[0]: row for row in usage(con, year, ("month",), details=False).rows}
    # What was before the first job of the dataset is unknown.
    assert {name: value for name, value in of("history", "jobs").items() if value and value != "0"} == {
        name: str(row[1]) for name, row in by_month.items()
    }
    assert {value for name, value in of("history", "jobs").items() if name < min(by_month)} == {""}
    (total,) = usage(con, year, (), details=False).rows
    assert of("year", "jobs") == {f"2026-01 to 2026-{month[1]:02d}": str(total[0])}
    assert of("pledge", "used_share").keys() == {"atlas core"}
    assert (
        "the dataset does not have the installed cores" in said(capsys, "report", "--fleet", dataset, *options).stdout
    )


def test_the_first_record_of_a_federation_is_the_first_that_counts(tmp_path, capsys) -> None:
    """Jobs that a CE holds are in no figure, and tell nothing of the time before the others."""
    import pyarrow as pa
    from federation import jobs_of
    from hostile_datasets import with_column
    from written_partitions import write_partition

    ends = {3: 1_773_014_400, 6: 1_781_308_800, 8: 1_786_579_200}
    for month, end_s in ends.items():
        partition = Partition("South", 2026, month, "ce01.example.org")
        jobs = with_column(jobs_of(partition, 2), "end_time", [end_s, end_s + 86_400], pa.int64())
        # Of March both are held, and the first of June.
        counted = [int(month == 8), int(month > 3)]
        write_partition(tmp_path, partition, {"jobs": with_column(jobs, "counted", counted, pa.int64())})

    done = said(capsys, "report", "--fleet", tmp_path, "--month", "2026-08", "--csv", tmp_path / "out.csv")
    text = said(capsys, "report", "--fleet", tmp_path, "--month", "2026-08").stdout

    assert (done.returncode, done.stderr) == (0, "")
    told = figures((tmp_path / "out.csv").read_text())
    months = [f"2026-{month:02d}" for month in range(1, 9)]
    assert [told["history", month, "jobs"] for month in months] == ["", "", "", "", "", "1", "0", "2"]
    assert "2026-06 is counted from the first recorded job, of 2026-06-14." in text


def test_the_page_stands_alone(federation, tmp_path, capsys) -> None:
    """One file with a section for each table, of the last month that was exported where none is named."""
    out = tmp_path / "page.html"

    done = said(capsys, "report", "--fleet", federation.root, "--html", out)

    page = out.read_text()
    assert (done.returncode, done.stderr) == (0, "")
    assert "<title>Accounting of 2 sites with 2 CEs, 2026-11</title>" in page
    for name in ("vo", "site", "ce", "day", "user", "export"):
        assert f'<section class="{name}"' in page
    assert "http://" not in page.replace("http://www.w3.org/", "")


def test_a_job_that_ended_as_the_next_month_began(tmp_path, capsys) -> None:
    """It is of that month, whose CE is none of this one."""
    import pyarrow as pa
    from federation import jobs_of
    from written_partitions import write_partition

    begin, end = Partition("South", 2026, 9, "").bounds
    for number, (month, end_s) in enumerate(((8, begin - 1), (9, begin), (9, end - 1), (10, end))):
        partition = Partition("South", 2026, month, f"ce{number:02d}.example.org")
        jobs = jobs_of(partition, 1)
        ends = jobs.set_column(jobs.column_names.index("end_time"), "end_time", pa.array([end_s]))
        write_partition(tmp_path, partition, {"jobs": ends}, life=str(number) * 32)

    done = said(capsys, "report", "--fleet", tmp_path, "--month", "2026-09")

    assert done.stdout.startswith("1 site with 2 CEs, 2026-09")
    assert [f"ce{number:02d}.example.org" in done.stdout for number in range(4)] == [False, True, True, False]


def test_it_tells_what_it_does_not_have(federation, tmp_path, capsys) -> None:
    """A month that cannot be read is named, the others are there, and the exit code is 65."""
    dataset = shutil.copytree(federation.root, tmp_path / "dataset")
    next((dataset / "jobs" / "v1").glob("site=South/year=2026/month=08/*/*")).write_bytes(b"no parquet")

    whole = said(capsys, "report", "--fleet", federation.root, "--month", "2026-08")

    done = said(capsys, "report", "--fleet", dataset, "--month", "2026-08")
    page = said(capsys, "report", "--fleet", dataset, "--month", "2026-08", "--html", tmp_path / "page.html")

    assert (done.returncode, page.returncode) == (65, 65)
    assert "it is truncated or changed" in done.stderr
    assert "ce2.example.org" in done.stdout
    assert "ce.example.com" not in done.stdout
    # Who gets the page sees no exit code.
    note = "The figures may be incomplete: 1 problem with the exported files"
    assert note in done.stdout
    assert note in (tmp_path / "page.html").read_text()
    assert "may be incomplete" not in whole.stdout


def test_pseudonyms_are_made_with_the_key_of_a_ce(federation, tmp_path, capsys) -> None:
    """Without one it is said what else there is; with one no one is named."""
    command = ("report", "--fleet", federation.root, "--month", "2026-08")
    named = said(capsys, *command)
    refused = said(capsys, "--database", tmp_path / "none" / "accounting.db", *command, "--pseudonymous")
    hidden = said(capsys, "--database", federation.file("South", "ce.example.com"), *command, "--pseudonymous")

    assert "/DC=org/CN=User" in named.stdout
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (65, "", 1)
    assert "--names hashed" in refused.stderr
    assert (hidden.returncode, "/DC=org/CN=User" in hidden.stdout) == (0, False)


def test_a_month_is_still_required_of_one_ce(capsys) -> None:
    """Without --fleet it is said that the month lacks."""
    done = said(capsys, "report")

    assert done.returncode == 64
    assert "Missing option '--month'" in done.stderr


def test_the_clock_of_one_ce_does_not_choose_the_month(tmp_path, capsys) -> None:
    """A month that has not started is reported only to who asks for it, or where there is no other."""
    import federation as generator
    from written_partitions import write_partition

    ahead, right = Partition("S", 2116, 2, "ce1.example.org"), Partition("S", 2026, 1, "ce2.example.org")
    write_partition(tmp_path, ahead, {"jobs": generator.jobs_of(ahead, 3)}, life="1" * 32)
    assert "1 site with 1 CE, 2116-02" in said(capsys, "report", "--fleet", tmp_path).stdout
    write_partition(tmp_path, right, {"jobs": generator.jobs_of(right, 3)}, life="2" * 32)

    assert "1 site with 1 CE, 2026-01" in said(capsys, "report", "--fleet", tmp_path).stdout
