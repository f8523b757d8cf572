"""`arcacct quarantine` of records with values that cannot be true: listed with the bound, decided about, taken back."""

from __future__ import annotations

import json
import pathlib

import pytest
from control_directory import set_up
from installed import arcacct
from stored_jobs import END_S, add, job

from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting

TARGET = "[arcacct/directory:d]\npath={0}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
LIES = {
    "STORED000001": ("wall-beyond-life", "wall_s 100000, at most 3900"),
    "STORED000002": ("cpu-beyond-cores", "cpu_s 900300, at most 224060"),
    "STORED000003": ("out-of-range", "wall_s 4294967295, at most 3900"),
}


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    """A site with one honest job and three lies; all ended in May 2026."""
    path = tmp_path / "arc.conf"
    path.write_text(
        f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={set_up(tmp_path / 'control')}\n[lrms]\nlrms=slurm\n"
    )
    (tmp_path / "outgoing").mkdir()
    (tmp_path / "arcacct.conf").write_text(TARGET.format(tmp_path))
    here = places(load(str(path), {}))
    con = open_accounting(here)
    # A site that recorded every job from the first: its months are whole.
    con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    add(
        con,
        here,
        job(0),
        job(1)._replace(wall_s=100_000),
        job(2)._replace(cpu_user_s=900_000),
        job(3)._replace(wall_s=2**32 - 1),
    )
    con.close()
    return path


def listed(conf: pathlib.Path, *options: str) -> dict[str, str]:
    """State by JobID, of what `quarantine list` shows."""
    done = arcacct("--config", conf, "quarantine", "list", "--format", "json", *options)
    return {one["job_id"]: one["state"] for one in json.loads(done.stdout)}


def counted(conf: pathlib.Path) -> tuple[int, int]:
    """Jobs and wall time, as `stats` has them."""
    done = arcacct("--config", conf, "stats", "--by", "month", "--format", "json")
    (row,) = json.loads(done.stdout)
    return row["jobs"], row["wall_s"]


def decide(conf: pathlib.Path, *options: str) -> int:
    return arcacct("--config", conf, "quarantine", "decide", *options).returncode


def test_the_list_names_reason_value_and_bound(conf) -> None:
    done = arcacct("--config", conf, "quarantine", "list")

    lines = {line.split()[2]: line for line in done.stdout.splitlines()[1:]}
    for job_id, (reason, value) in LIES.items():
        assert lines[job_id].startswith("(all)")
        assert f"{reason} ({value})" in lines[job_id]
    assert lines.keys() == LIES.keys()
    (found,) = [one for one in json.loads(listed_json(conf)) if one["job_id"] == "STORED000001"]
    assert found["values"] == [{"reason": "wall-beyond-life", "value": "wall_s", "bound": 3900, "reported": "100000"}]
    assert (found["target"], found["end_time"]) == (None, END_S)


def listed_json(conf: pathlib.Path) -> str:
    return arcacct("--config", conf, "quarantine", "list", "--format", "json").stdout


def test_a_decision_counts_and_is_taken_back(conf) -> None:
    assert counted(conf) == (1, 3500)

    assert decide(conf, "--as", "bound", "STORED000001") == 0
    assert counted(conf) == (2, 7400)
    assert listed(conf).keys() == LIES.keys() - {"STORED000001"}
    assert listed(conf, "--decided")["STORED000001"] == "bound"
    assert decide(conf, "--as", "unknown", "STORED000001") == 0
    assert counted(conf) == (2, 3500)
    assert decide(conf, "--as", "held", "STORED000001") == 0
    assert counted(conf) == (1, 3500)
    assert listed(conf).keys() == LIES.keys()

    story = arcacct("--config", conf, "job", "--only", "why", "STORED000001").stdout
    assert "reported, and cannot be true: wall-beyond-life (wall_s 100000, at most 3900)" in story
    for state in ("bound", "unknown", "held"):
        assert f"decided: {state}" in story
    assert "not sent: held, because values cannot be true (wall-beyond-life)" in story
    shown = arcacct("--config", conf, "quarantine", "show", "STORED000001").stdout
    assert "wall time is at most end - submission + 300 s" in shown


def test_a_cpu_time_has_one_bound(conf) -> None:
    """The number in the list is that of the rule below it, and what a decision counts."""
    shown = arcacct("--config", conf, "quarantine", "show", "STORED000002").stdout
    assert "(cpu_s 900300, at most 224060): CPU time is at most wall time x cores x 8 + 60 s" in shown
    assert 3500 * 8 * 8 + 60 == 224060
    assert decide(conf, "--as", "bound", "STORED000002") == 0
    question = "SELECT cpu_user_s + cpu_kernel_s AS cpu_s FROM v1_jobs WHERE job_id = 'STORED000002'"
    done = arcacct("--config", conf, "query", question, "--format", "json")
    assert json.loads(done.stdout) == [{"cpu_s": 224060}]


def test_a_month_or_a_reason_at_once(conf) -> None:
    """It asks first, and without a terminal needs --yes."""
    assert decide(conf, "--as", "excluded", "--reason", "out-of-range") == 64
    assert listed(conf).keys() == LIES.keys()
    assert decide(conf, "--as", "excluded", "--reason", "out-of-range", "--yes") == 0
    assert decide(conf, "--as", "bound", "--month", "2026-06", "--yes") == 0
    assert listed(conf).keys() == {"STORED000001", "STORED000002"}
    assert decide(conf, "--as", "bound", "--month", "2026-05", "--yes") == 0
    assert listed(conf) == {}
    assert counted(conf) == (3, 3500 + 3900 + 3500)
    assert listed(conf, "--decided")["STORED000003"] == "excluded"
    assert decide(conf, "--as", "held", "--month", "2026-05", "--yes") == 0
    assert listed(conf).keys() == LIES.keys()


def test_what_cannot_be_decided_is_refused(conf) -> None:
    """A value that no receiver can hold is never sent as reported; a job that is not held is named."""
    done = arcacct("--config", conf, "quarantine", "decide", "--as", "reported", "STORED000003")
    assert (done.returncode, "does not fit into the columns of receivers" in done.stderr) == (65, True)
    done = arcacct("--config", conf, "quarantine", "decide", "--as", "bound", "STORED000000")
    assert (done.returncode, "STORED000000: it has no implausible value" in done.stderr) == (65, True)
    for options in (("--as", "bound"), ("--as", "bound", "STORED000001", "--reason", "out-of-range")):
        assert decide(conf, *options) == 64
    assert listed(conf).keys() == LIES.keys()


def test_every_command_counts_them(conf) -> None:
    """`status`, `metrics`, `verify`, `doctor`, `publish` and `report` say how many are held, and why."""
    status = json.loads(arcacct("--config", conf, "status", "--format", "json").stdout)
    (check,) = [one for one in status if one["subject"] == "implausible"]
    assert check["severity"] == 1
    assert "3 jobs held" in check["text"]
    assert "1 cpu-beyond-cores, 1 out-of-range, 1 wall-beyond-life" in check["text"]
    metrics = arcacct("--config", conf, "metrics").stdout
    for reason, _value in LIES.values():
        assert f'arcacct_implausible_jobs{{reason="{reason}",state="held"}} 1.0' in metrics
    assert 'arcacct_implausible_jobs{reason="cores-impossible",state="held"} 0.0' in metrics
    verified = arcacct("--config", conf, "verify", "2026-05")
    assert verified.returncode == 1
    for job_id, (reason, value) in LIES.items():
        assert f"held as implausible: {job_id}: {reason} ({value})" in verified.stdout
    doctor = arcacct("--config", conf, "doctor", "--offline", "--format", "json")
    (verdict,) = [one for one in json.loads(doctor.stdout) if one["what"] == "implausible"]
    assert (verdict["verdict"], "3 jobs held" in verdict["detail"]) == ("warning", True)
    published = arcacct("--config", conf, "publish", "--now", "--since", "2026-01-01")
    assert published.returncode == 65
    assert "3 records held: values that cannot be true" in published.stdout
    report = arcacct("--config", conf, "report", "--month", "2026-05").stdout
    assert "Not in these figures: 3 jobs held" in report
