"""`arcacct import pbs` and `lsf`, their followers, and `verify --lrms` with them."""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest
from batch_files import DATA
from installed import arcacct, configured

from arcacct.config.paths import places
from arcacct.database.access import open_accounting

LOGS = {"pbs": DATA / "pbs" / "torque-20261102", "lsf": DATA / "lsf" / "lsb.acct"}
JOBS = {"pbs": 6, "lsf": 6}


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    return configured(tmp_path)


def jobs(conf: pathlib.Path) -> int:
    with closing(open_accounting(places(None, str(conf.parent / "control")))) as con:
        return int(con.execute("SELECT count(*) FROM v1_jobs").fetchone()[0])


@pytest.mark.parametrize("name", sorted(LOGS))
def test_an_import_and_a_comparison(conf, tmp_path, name) -> None:
    """What was rejected once is no news the next time; the month agrees with the log of the good jobs."""
    damaged = tmp_path / "damaged"
    damaged.write_bytes(LOGS[name].read_bytes() + b"what is this\n")

    first = arcacct("--config", conf, "import", name, damaged)
    second = arcacct("--config", conf, "import", name, damaged)
    good = arcacct("--config", conf, "verify", "2026-11", "--lrms", f"{name}:{LOGS[name]}", "--format", "csv")
    bad = arcacct("--config", conf, "verify", "2026-11", "--lrms", f"{name}:{damaged}")

    assert (first.returncode, second.returncode) == (65, 0)
    assert "1 job not usable; all others are imported" in first.stderr
    assert "left out" in first.stderr
    assert "left out" not in second.stderr.replace("job left out", "")
    assert jobs(conf) == JOBS[name]
    line = next(line for line in good.stdout.splitlines() if line.startswith(f"{name} "))
    assert ",yes," in line
    assert bad.returncode == 65
    assert f"`arcacct import {name}` says why" in bad.stderr
    assert "1" in arcacct("--config", conf, "import", "rejected", "--source", name, "--format", "csv").stdout


def test_an_import_of_pbs_says_which_values_of_the_server_are_missing(conf, tmp_path) -> None:
    line = (DATA / "pbs" / "cases" / "p24.acc").read_text()
    log = tmp_path / "20261101"
    log.write_text(line.replace(" user=ada", ""))

    assert "1 job without user: it is unusable or missing" in arcacct("--config", conf, "import", "pbs", log).stdout


def test_a_name_that_is_none(conf) -> None:
    done = arcacct("--config", conf, "import", "lsf", "--cluster", "a b", LOGS["lsf"])

    assert done.returncode == 64
    assert "--cluster 'a b': use letters, digits, dots, - and _" in done.stderr


def test_nothing_to_do(conf) -> None:
    done = arcacct("--config", conf, "import", "pbs")

    assert done.returncode == 64
    assert "no FILE: pass an accounting log of PBS" in done.stderr


def test_a_directory_is_followed_through_days(conf, tmp_path) -> None:
    """The log of the next day is read as it comes, and a line that is half written is not."""
    folder = tmp_path / "accounting"
    folder.mkdir()
    lines = LOGS["pbs"].read_bytes().splitlines(keepends=True)
    (folder / "20261102").write_bytes(b"".join(lines[:3]) + lines[3][:50])
    command = [sys.executable, "-m", "arcacct", "--config", str(conf), "import", "pbs", "--follow", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            _until(lambda: jobs(conf) == 1)
            with (folder / "20261102").open("ab") as file:
                file.write(lines[3][50:])
            shutil.copy(DATA / "pbs" / "pbspro-20261102", folder / "20261103")
            _until(lambda: jobs(conf) == 4)
        finally:
            process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert b"4 jobs added" in out


def _until(is_done) -> None:
    for _ in range(600):
        if is_done():
            return
        time.sleep(0.1)
    raise AssertionError("it never came")


def test_verify_takes_phases_of_an_earlier_log_from_the_database(conf, tmp_path) -> None:
    phases = LOGS["pbs"].parent / "cases" / "p15.acc"
    assert arcacct("--config", conf, "import", "pbs", phases).returncode == 0
    today = tmp_path / "20261102"
    today.write_bytes(phases.read_bytes().splitlines(keepends=True)[-1])

    done = arcacct("--config", conf, "verify", "2026-11", "--lrms", f"pbs:{today}")
    assert "core seconds" not in done.stdout
    assert [line.split()[-3] for line in done.stdout.splitlines() if line.startswith(f"pbs {today}")][:1] == ["yes"]
