"""`arcacct verify --lrms`: a month as the batch system's own accounting has it."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from fake_sacct import FakeSacct
from gridengine_files import COLON
from htcondor_files import BEGIN as CONDOR_BEGIN
from htcondor_files import HISTORY, JSON, CondorHost, ad, history, jobs
from htcondor_files import arc_job as condors_arc_job
from installed import arcacct, configured
from slurm_files import BEGIN, DATA, TABLE, SlurmHost, arc_job, row, table, told

from arcacct.database.access import writing
from arcacct.queries.lrms import lrms_month
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR
from arcacct.sources.slurm.importer import SOURCE as SLURM
from arcacct.sources.slurm.record import SlurmRun


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    return pathlib.Path(configured(tmp_path))


@pytest.fixture
def slurm(conf) -> pathlib.Path:
    """A host with the jobs of a real Slurm."""
    assert arcacct("--config", conf, "import", "slurm", TABLE).returncode == 0
    return conf


def verified(conf: pathlib.Path, *words: object) -> tuple[int, dict]:
    done = arcacct("--config", conf, "verify", "2026-11", "--format", "json", *words)
    return done.returncode, json.loads(done.stdout)


def change(conf: pathlib.Path, sql: str) -> None:
    path = conf.parent / "control" / "accounting" / "arcacct" / "accounting.db"
    with closing(sqlite3.connect(path)) as con:
        con.execute(sql)
        con.commit()


def source(report: dict, name: str) -> dict:
    return next(one for one in report["sources"] if one["name"] == name)


def core_s(groups: list[dict], column: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in groups:
        found[one["account"]] += round(one[column] * 3600)
    return found


def test_figures_are_those_of_sreport(slurm) -> None:
    """Core seconds by account, in sacct's output and in the database."""
    name = f"slurm {TABLE}"
    code, report = verified(slurm, "--lrms", f"slurm:{TABLE}", "--timezone", "UTC")

    assert (code, report["agrees"], report["differences"]) == (0, True, [])
    for column in ("core_h", "here_core_h"):
        found = core_s(report["groups"][name], column)
        assert {account: abs(found[account] - seconds) <= 5 for account, seconds in SREPORT.items()} == dict.fromkeys(
            SREPORT, True
        )
    assert (source(report, name)["jobs"], source(report, name)["wall_s"]) == (59, 573)
    assert {(one["account"], one["user"]) for one in report["groups"][name]} == {
        *(("atlas", "alice"), ("atlasprod", "alice"), ("atlasprod", "carol"), ("lz", "bob"))
    }


SREPORT = {"atlas": 282, "atlasprod": 356, "lz": 321}


def test_what_differs_is_reported_job_by_job(slurm) -> None:
    """Missing on either side, or with other figures; exit code 1."""
    change(slurm, "DELETE FROM AAR WHERE LocalJobID = '8'")
    change(slurm, "UPDATE AAR SET UsedWalltime = UsedWalltime + 7 WHERE LocalJobID = '29'")
    change(slurm, "UPDATE AAR SET LocalJobID = '9999' WHERE LocalJobID = '31'")
    code, report = verified(slurm, "--lrms", f"slurm:{TABLE}", "--timezone", "UTC")

    told = {one["job_id"]: one["text"] for one in report["differences"] if one["source"] == f"slurm {TABLE}"}
    assert code == 1
    assert told == {
        "8": "wall 4 s and CPU 3 s, and not in the database",
        "31": "wall 5 s and CPU 0 s, and not in the database",
        "sonar:testgrid:29:1795326241": "wall 5 s, in the database 12 s; core seconds 20 s, in the database 48 s",
        "sonar:testgrid:31:1795326241": "wall 5 s and CPU 0 s in the database, and not there",
    }
    assert {one["account"] for one in report["groups"][f"slurm {TABLE}"] if one["agrees"] == "NO"} == {
        *("atlas", "atlasprod")
    }


def test_sacct_itself(slurm, tmp_path) -> None:
    """It is asked for the month, and a day on either side, in windows; each run counts once."""
    sacct = FakeSacct(tmp_path)
    code, report = verified(slurm, "--lrms", "slurm", "--sacct", sacct.program)

    assert (code, report["differences"]) == (0, [])
    assert source(report, f"slurm {sacct.program}")["jobs"] == 59
    assert sacct.windows()[0][0] == "2026-10-31T00:00:00"
    assert sacct.windows()[-1][1] == "2026-12-02T00:00:00"


def test_an_output_without_steps_says_nothing_of_cpu_time(slurm, tmp_path) -> None:
    """The name of job 32 has delimiters, next to the name of its user: there it has another one."""
    path = tmp_path / "sacct.txt"
    path.write_bytes((DATA / "sacct-X-epoch.txt").read_bytes().replace(b"|pipe|in|name|", b"|pipe in name|"))
    code, report = verified(slurm, "--lrms", f"slurm:{path}")

    assert (code, report["differences"]) == (0, [])


def test_a_table(slurm) -> None:
    done = arcacct("--config", slurm, "verify", "2026-11", "--lrms", f"slurm:{TABLE}", "--timezone", "UTC")

    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["lz", "bob", "18", "18"] in [line[:4] for line in lines]


def test_another_month_is_not_compared(slurm) -> None:
    done = arcacct(
        *("--config", slurm, "verify", "2026-10", "--format", "json", "--lrms", f"slurm:{TABLE}", "--timezone", "UTC")
    )
    report = json.loads(done.stdout)

    assert source(report, f"slurm {TABLE}")["jobs"] == 0
    # Recording started later: that is all that there is to say.
    assert ["recording began at 2026-" in one["text"] for one in report["differences"]] == [True]


def test_grid_engine(conf) -> None:
    """Its accounting files are compared in the same way."""
    assert arcacct("--config", conf, "import", "gridengine", COLON).returncode == 0
    code, report = verified(conf, "--lrms", f"gridengine:{COLON}")
    assert (code, report["differences"]) == (0, [])
    assert source(report, f"gridengine {COLON}")["jobs"] == 39
    change(conf, "UPDATE AAR SET UsedWalltime = UsedWalltime + 7 WHERE LocalJobID = '1'")
    code, report = verified(conf, "--lrms", f"gridengine:{COLON}")
    assert code == 1
    assert len(report["differences"]) == 1


def test_what_cannot_be_used_is_no_measure(conf, tmp_path) -> None:
    """A comparison with a part of it would tell lies."""
    assert arcacct("--config", conf, "db", "init").returncode == 0
    path = tmp_path / "sacct.txt"
    path.write_bytes(table(row(1), row(2, Submit="")))
    done = arcacct("--config", conf, "verify", "2026-11", "--lrms", f"slurm:{path}")

    assert done.returncode == 65
    assert "1 entry not usable" in done.stderr


def test_a_job_of_arex_is_compared_with_all_its_runs(tmp_path) -> None:
    """A-REX measures otherwise: only what is more than 5 s and 5 % is a difference of its jobs."""
    host = SlurmHost(tmp_path)
    again = row(
        Submit=BEGIN + 100, Start=BEGIN + 200, End=BEGIN + 1200, ElapsedRaw=1000, TotalCPU="05:00", SystemCPU=""
    )
    content = table(row(State="NODE_FAIL"), again)
    with closing(host.con):
        arc_job(host, EndTime=BEGIN + 1300, UsedWalltime=1100, UsedMemory=1)
        host.take(content)

        def differences() -> list[str]:
            runs = [one.what for one in told(content) if isinstance(one.what, SlurmRun)]
            return [
                one.text
                for one in lrms_month("slurm", map(SLURM.figures, runs), host.con, SLURM.system, (2026, 11)).differences
            ]

        assert differences() == []
        with writing(host.con, host.here) as con:
            con.execute("UPDATE AAR SET UsedWalltime = 1200")
        assert differences() == ["wall 1060 s, in the database 1200 s; core seconds 2120 s, in the database 2400 s"]


def test_a_job_that_ran_on_without_arex(tmp_path) -> None:
    """What A-REX gave up long before its end is compared with its record, and is not one that is missing."""
    host = SlurmHost(tmp_path)
    content = table(
        row(Submit=BEGIN + 100, Start=BEGIN + 200, End=BEGIN + 4200, ElapsedRaw=4000, TotalCPU="05:00", SystemCPU="")
    )
    with closing(host.con):
        arc_job(host, EndTime=BEGIN + 210, UsedWalltime=10, UsedMemory=1)
        report = host.take(content)
        runs = [one.what for one in told(content) if isinstance(one.what, SlurmRun)]
        (difference,) = lrms_month("slurm", map(SLURM.figures, runs), host.con, SLURM.system, (2026, 11)).differences

    assert (report.taken.added, report.taken.enriched) == (0, 1)
    assert difference.text.startswith("wall 4000 s, in the database 10 s")


@pytest.mark.parametrize("text", ["moab:x", "gridengine", "slurm:", ""])
def test_usage(conf, text) -> None:
    done = arcacct("--config", conf, "verify", "2026-11", "--lrms", text)

    assert done.returncode == 64
    assert "slurm:FILE" in done.stderr


@pytest.fixture
def condor(conf) -> pathlib.Path:
    """A host with the jobs of an HTCondor."""
    assert arcacct("--config", conf, "import", "htcondor", HISTORY).returncode == 0
    return conf


def test_htcondor(condor) -> None:
    """Its history, in whatever form, against the jobs that it made."""
    for path in (HISTORY, JSON):
        code, report = verified(condor, "--lrms", f"htcondor:{path}")
        assert (code, report["differences"]) == (0, [])
        assert source(report, f"htcondor {path}")["jobs"] == 9
    change(condor, "UPDATE AAR SET UsedWalltime = UsedWalltime + 7 WHERE LocalJobID = '103.0'")
    code, report = verified(condor, "--lrms", f"htcondor:{HISTORY}")

    assert code == 1
    assert [one["text"] for one in report["differences"]] == [
        "wall 542 s, in the database 549 s; core seconds 2168 s, in the database 2196 s"
    ]


def test_condor_history_itself(condor, tmp_path) -> None:
    program = tmp_path / "condor_history"
    program.write_text(f"#!/bin/sh\ncat {JSON}\n")
    program.chmod(0o755)
    code, report = verified(condor, "--lrms", "htcondor", "--condor-history", program)

    assert (code, report["differences"]) == (0, [])
    assert source(report, f"htcondor {program}")["jobs"] == 9


def test_arexs_jobs_of_htcondor(tmp_path) -> None:
    """By the cluster in their LocalJobID, and not those of another host."""
    host = CondorHost(tmp_path)
    with closing(host.con):
        condors_arc_job(host, UsedWalltime=62, CPUCount=2, UsedCPUUserTime=100)
        host.take(history(ad(1), ad(1, schedd="other.example.org")))
        told_of = [
            HTCONDOR.figures(one)
            for text in (ad(1), ad(1, schedd="other.example.org"))
            for one in jobs(history(text)).values()
        ]
        report = lrms_month("htcondor", told_of, host.con, HTCONDOR.system, (2026, 11))

        assert [(one.job_id, one.text) for one in report.differences] == []
        assert report.source.jobs == 2


def test_a_job_that_was_removed_long_after_arexs_end(tmp_path) -> None:
    """It is A-REX's in the comparison as it is in the import."""
    host = CondorHost(tmp_path)
    with closing(host.con):
        condors_arc_job(host, UsedWalltime=60, CPUCount=2, UsedCPUUserTime=100)
        late = ad(1, JobStatus=3, CompletionDate=0, EnteredCurrentStatus=CONDOR_BEGIN + 20_000)
        assert host.take(history(late)).taken.enriched == 1
        report = lrms_month(
            "htcondor", map(HTCONDOR.figures, jobs(late.encode()).values()), host.con, HTCONDOR.system, (2026, 11)
        )

        assert (report.differences, report.source.jobs) == ([], 1)


@pytest.mark.parametrize("text", ["htcondor:", "condor", "gridengine", "slurm:"])
def test_no_such_batch_system(conf, text) -> None:
    done = arcacct("--config", conf, "verify", "2026-11", "--lrms", text)

    assert done.returncode == 64
    assert "write slurm, htcondor, or one of gridengine:FILE, htcondor:FILE, " in done.stderr
