"""`arcacct import slurm`, as a user types it."""

from __future__ import annotations

import json
import pathlib
import sqlite3
import subprocess
from contextlib import closing

import pytest
from fake_sacct import FakeSacct
from installed import ARCACCT, arcacct, configured
from slurm_files import CASES, DATA, JSON, TABLE, row, table

DONE = "64 jobs read, 2 unfinished, 3 never started: 59 new runs, 0 known; 59 jobs added, 0 changed, 0 jobs of others"

UNMEASURED = "2 jobs without CPU time: it is unknown, and receivers get 0\n"
"""Their node failed."""


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    return pathlib.Path(configured(tmp_path))


def import_(conf: pathlib.Path, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return arcacct("--config", conf, "import", "slurm", *map(str, words))


def value(conf: pathlib.Path, sql: str) -> object:
    path = conf.parent / "control" / "accounting" / "arcacct" / "accounting.db"
    with closing(sqlite3.connect(path)) as con:
        return con.execute(sql).fetchone()[0]


def test_files(conf) -> None:
    """What was done is said in one line; the same again is nothing new."""
    done = import_(conf, TABLE)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{DONE} completed\n{UNMEASURED}")
    done = import_(conf, JSON, TABLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 new runs, 118 known; 0 jobs added, 0 changed" in done.stdout


def test_telemetry_that_came_before_its_jobs_is_added_to_them(conf) -> None:
    """Each run has its own samples, without a further import of telemetry."""
    assert arcacct("--config", conf, "import", "sonar", "--no-records", str(CASES / "z.jsonl")).returncode == 0
    done = import_(conf, CASES / "z.txt")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("telemetry of an earlier import added to 2 records\n")
    assert value(conf, "SELECT group_concat(samples) FROM v1_job_telemetry") == "6,6"
    assert "telemetry" not in import_(conf, CASES / "z.txt").stdout


def test_jobs_alone_make_no_views_of_telemetry(conf) -> None:
    """Opening a database parses its whole schema: it has the views of a source from the first import of that source."""
    import_(conf, TABLE)

    of_telemetry = "SELECT count(*) FROM sqlite_master WHERE type = 'view' AND name LIKE '%telemetry%'"
    assert (value(conf, of_telemetry), value(conf, "SELECT count(*) FROM v1_slurm_runs")) == (0, 59)


def test_a_job_whose_row_was_cut_is_counted_as_left_out(conf) -> None:
    done = import_(conf, CASES / "s_cut.txt")

    assert (done.returncode, "9 jobs added" in done.stdout) == (65, True)
    assert "1 job not usable" in done.stderr
    assert "line" not in done.stderr.split("1 job not usable")[1]


def test_an_output_without_cpu_time(conf) -> None:
    """How many jobs have none is said; `stats` says that their CPU time lacks, and shows none."""
    done = import_(conf, CASES / "x2.txt")
    assert done.stdout.endswith("1 job without CPU time: it is unknown, and receivers get 0\n")
    assert "without CPU time" not in import_(conf, CASES / "x2.txt").stdout

    done = arcacct("--config", conf, "stats", "--by", "month", "--details", "--format", "json")
    (found,) = json.loads(done.stdout)
    assert (found["cpu_s"], found["cpu_efficiency"], found["jobs_without_cpu"], found["core_hours"]) == (
        None,
        None,
        1,
        4.0,
    )
    told = arcacct("--config", conf, "stats", "--by", "month").stderr
    assert "1 of 1 job without a measured CPU time, counted as 0 here" in told


def test_times_of_another_zone(conf) -> None:
    done = import_(conf, "--timezone", "America/St_Johns", "--cluster", "testgrid", DATA / "sacct-X-TZ-StJohns.txt")
    # Of the job whose name has delimiters, next to the name of its user.
    assert (done.returncode, "1 job not usable" in done.stderr) == (65, True)
    assert value(conf, "SELECT submit_time_iso FROM v1_jobs WHERE local_job_id = '1'") == "2026-11-22T05:41:59Z"


def test_sacct_itself(conf, tmp_path) -> None:
    sacct = FakeSacct(tmp_path)
    done = import_(conf, "--run", "--since", "2026-11-22", "--sacct", sacct.program)
    assert (done.returncode, done.stderr) == (0, "")
    assert value(conf, "SELECT count(*) FROM v1_jobs") == 59
    assert sacct.windows()[0] == ("2026-11-22T00:00:00", "2026-11-23T00:00:00")


def test_what_cannot_be_used(conf, tmp_path) -> None:
    """It is said, kept, and tried again; the exit code is 65 unless one is lenient."""
    path = tmp_path / "sacct.txt"
    path.write_bytes(table(row(1), row(2, Cluster="")))
    done = import_(conf, path)
    assert done.returncode == 65
    assert done.stderr.startswith(f"arcacct: {path}: line 3: its cluster is unknown")
    again = import_(conf, path)
    assert (again.returncode, again.stderr) == (0, "arcacct: 1 job not usable; all others are imported\n")
    path.write_bytes(table(row(1), row(2, Cluster="", User="bob")))
    assert import_(conf, "--lenient", path).returncode == 0
    assert arcacct("--config", conf, "import", "rejected", "--drop", "2").returncode == 0
    listed = arcacct("--config", conf, "import", "rejected", "--source", "slurm")
    assert str(path) in listed.stdout
    done = import_(conf, "--retry", "--cluster", "testgrid")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 rejected record tried again: 1 now usable")
    assert value(conf, "SELECT count(*) FROM v1_jobs") == 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no FILE"),
        (["--since", "2026-11-01", "x"], "needs --run"),
        (["--run"], "pass --since"),
        (["--timezone", "Europe/Atlantis", "x"], "no such zone"),
        (["--delimiter", "", "x"], "--delimiter is empty"),
    ],
)
def test_usage(conf, words, complaint) -> None:
    done = import_(conf, *words)
    assert done.returncode == 64
    assert complaint in done.stderr


def test_standard_input(conf) -> None:
    words = ("--config", str(conf), "import", "slurm", "-")
    done = subprocess.run([ARCACCT, *words], input=JSON.read_bytes(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"{DONE} completed\n{UNMEASURED}"
