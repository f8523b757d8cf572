"""Asking sacct: a script in its place that prints real bytes, and notes how it was asked."""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from fake_sacct import FakeSacct, real_rows
from slurm_files import BEGIN, CASES, DATA, NOW, TABLE, SlurmHost

from arcacct.errors import UsageError
from arcacct.records.slurm_formats import environment, new_delimiter
from arcacct.sources.slurm.record import COLUMNS
from arcacct.sources.slurm.sacct import SacctCommand, windows
from arcacct.times import DAY_S


@pytest.fixture
def host(tmp_path) -> Iterator[SlurmHost]:
    found = SlurmHost(tmp_path)
    with closing(found.con):
        yield found


@pytest.fixture
def sacct(tmp_path) -> FakeSacct:
    return FakeSacct(tmp_path)


def test_all_that_sacct_has(host, sacct, tmp_path_factory) -> None:
    """What it prints is what a file of it says, names with delimiters and line ends among it."""
    work = host.work()
    work.ask(sacct.command(), BEGIN)
    work.finish()
    other = SlurmHost(tmp_path_factory.mktemp("other"))
    with closing(other.con):
        other.take(TABLE)

        assert host.everything() == other.everything()
    assert work.report.taken.added == 59
    assert host.said == []


def test_it_is_asked_in_the_right_way(host, sacct, monkeypatch) -> None:
    """All users, all runs, steps; nothing of our surroundings changes what it prints."""
    for name in ("SACCT_FORMAT", "SLURM_CLUSTERS", "LC_ALL", "LC_TIME", "TZ", "SLURM_TIME_FORMAT"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    host.work().ask(sacct.command(), NOW - 100)
    ((words, variables),) = sacct.asked()

    assert words[:3] == ["--allusers", "--duplicates", "--parsable2"]
    assert words[4:6] == ["--starttime=2026-11-23T05:38:20", "--endtime=2026-11-23T05:40:00"]
    assert words[6] == f"--format={','.join(COLUMNS)}"
    assert "-X" not in words
    fixed = {"TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_CONF": "/etc/slurm/slurm.conf"}
    assert {name: variables[name] for name in fixed} == fixed
    assert not {"SACCT_FORMAT", "SLURM_CLUSTERS", "LC_TIME"} & variables.keys()
    assert "PATH" in environment()


def test_it_is_asked_for_the_cpu_time_that_slurm_sampled(host, tmp_path) -> None:
    """Slurm 25.05 may have it in TRESUsageInTot alone."""
    sacct = FakeSacct(tmp_path, CASES / "s2.txt")
    rows = [one | {"NCPUS": "4"} for one in json.loads((tmp_path / "rows.json").read_text())]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    host.now = 1793534400
    host.work().ask(sacct.command(), host.now - DAY_S)

    assert host.rows("SELECT local_job_id, cpu_s, core_count FROM v1_jobs") == [("200", 13_800, 4)]


def test_a_group_with_a_blank(host, tmp_path) -> None:
    """With a delimiter that no one knows the number of fields decides, whatever is in them."""
    sacct = FakeSacct(tmp_path, CASES / "s3.txt")
    rows = [one | {"Partition": "p|q", "WCKey": "a b"} for one in json.loads((tmp_path / "rows.json").read_text())]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    host.now = 1793534400
    host.work().ask(sacct.command(), host.now - DAY_S)

    assert host.rows("SELECT wall_s, queue FROM v1_jobs") == [(3600, "p|q")]
    assert host.rows("SELECT InfoValue FROM JobExtraInfo WHERE InfoKey = 'localgroup'") == [("domain users",)]


def test_nobody_knows_the_delimiter() -> None:
    assert len({new_delimiter() for _ in range(100)}) == 100


def test_a_name_that_is_a_row_is_a_name(host, tmp_path) -> None:
    """Whoever writes rows into the name of his job cannot know what divides their fields."""
    sacct = FakeSacct(tmp_path)
    rows = json.loads((tmp_path / "rows.json").read_text())
    job = next(one for one in rows if one["JobIDRaw"] == "8")
    fake = "|".join((job | {"JobIDRaw": "999999"})[name] for name in COLUMNS)
    job["JobName"] = f"x\n{fake}\n{fake}"
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    work = host.work()
    work.ask(sacct.command(), BEGIN)

    assert (work.report.taken.added, work.report.rejected) == (59, 0)
    assert host.value("SELECT job_name FROM v1_jobs WHERE local_job_id = '8'") == job["JobName"]


def test_time_is_asked_for_in_windows(host, sacct) -> None:
    """A day each, the next time from a day before the last, and from where it is told."""
    host.now = BEGIN + 2 * DAY_S + 100
    host.work().ask(sacct.command(), BEGIN)
    assert sacct.windows() == [
        ("2026-11-22T05:40:00", "2026-11-23T05:40:00"),
        ("2026-11-23T05:40:00", "2026-11-24T05:40:00"),
        ("2026-11-24T05:40:00", "2026-11-24T05:41:40"),
    ]
    host.now += 3600
    host.work().ask(sacct.command(), None)
    assert sacct.windows()[3:] == [
        ("2026-11-23T05:41:40", "2026-11-24T05:41:40"),
        ("2026-11-24T05:41:40", "2026-11-24T06:41:40"),
    ]
    host.work().ask(sacct.command(), BEGIN)
    assert sacct.windows()[5][0] == "2026-11-22T05:40:00"


def test_the_first_time_has_to_be_said_from_when(host, sacct) -> None:
    with pytest.raises(UsageError, match="--since"):
        host.work().ask(sacct.command(), None)


def test_windows() -> None:
    assert list(windows(5, 5)) == []
    assert [window.end - window.start for window in windows(0, 2 * DAY_S + 1)] == [DAY_S, DAY_S, 1]


@pytest.mark.parametrize(
    ("behaviour", "complaint"),
    [
        ("sys.exit('sacct: error: slurm_persist_conn_open: failed')", "exit code 1: sacct: error: slurm_persist_conn"),
        ("put_all = 1; sys.stdout.close(); os.abort()", "exit code -6: without a message"),
        ("import time; time.sleep(600)", "did not end after"),
        ("sys.stdout.write('nothing\\n'); sys.exit(0)", "not a header"),
        ("sys.exit(0)", "empty"),
        (
            "put(columns); sys.exit(print('sacct: error: slurmdbd: Connection refused', file=sys.stderr))",
            "exit code 0, but with the message: sacct: error: slurmdbd: Connection refused",
        ),
    ],
)
def test_what_goes_wrong_is_said(host, sacct, behaviour, complaint) -> None:
    """It is not taken for done, so that the next time asks for the same."""
    sacct.behaviour.write_text(behaviour)
    work = host.work()
    work.ask(sacct.command(timeout_s=3.0), BEGIN)

    assert work.report.unreadable == 1
    assert complaint in host.said[0]
    with pytest.raises(UsageError):
        host.work().ask(sacct.command(), None)


def test_what_it_printed_before_it_failed_is_taken(host, sacct) -> None:
    """And the rest the next time."""
    script = sacct.program.read_text()
    failing = "if row['JobID'] == '30': print('x', file=sys.stderr); sys.exit(3)\n    put([row"
    sacct.program.write_text(script.replace("put([row", failing))
    host.work().ask(sacct.command(), BEGIN)
    assert host.value("SELECT count(*) FROM v1_jobs") == 20
    assert "exit code 3: x" in host.said[0]
    sacct.program.write_text(script)
    host.work().ask(sacct.command(), BEGIN)
    assert host.value("SELECT count(*) FROM v1_jobs") == 59


def test_what_it_started_is_ended_with_it(host, sacct, tmp_path) -> None:
    """No one is left behind that continues asking slurmdbd."""
    sacct.behaviour.write_text(
        "import subprocess, time\n"
        f"child = subprocess.Popen(['sleep', '600']); open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    host.work().ask(sacct.command(timeout_s=2.0), BEGIN)
    number = (tmp_path / "child").read_text()
    stat = pathlib.Path("/proc", number, "stat")
    until = time.monotonic() + 10
    while stat.exists() and stat.read_text().split()[2] != "Z" and time.monotonic() < until:
        time.sleep(0.05)

    assert not stat.exists() or stat.read_text().split()[2] == "Z"


def test_a_program_that_is_not_there(host) -> None:
    work = host.work()
    work.ask(SacctCommand("/nowhere/sacct"), BEGIN)

    (text,) = host.said
    assert text.startswith("/nowhere/sacct: cannot be started: No such file or directory; install the program")


def test_a_program_of_the_path(host, sacct, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(sacct.program.parent), prepend=":")
    host.work().ask(SacctCommand(), BEGIN)

    assert shutil.which("sacct") == str(sacct.program)
    assert host.value("SELECT count(*) FROM v1_jobs") == 59


def test_real_rows() -> None:
    assert len(real_rows(TABLE)) == 206
    # Two names there have delimiters and stand next to other texts.
    assert len(real_rows(DATA / "sacct-no-D.txt")) == 191
