"""Jobs and cluster of a Slurm, as `arcacct node` tells of them: from what sacct and sinfo really printed."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import datetime

import pytest
from fake_sacct import FakeSacct
from installed import arcacct
from slurm_files import CLUSTER, DATA, SONAR, SlurmHost
from sonar_site import REAL, Host, objects, read, validate

from arcacct.sources.sonar.envelopes import Cluster, Jobs
from arcacct.sources.sonar.sysinfo import COLUMNS, cluster, slurm_job, slurm_jobs

CASES = DATA.parent / "cases"
SINFO = """#!{python}
import os, sys
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
assert "node" in options or "Node" in options
columns = {{"%R": 34, "%N": 31, "%T": 36}}
first, *lines = open({data!r}).read().splitlines()
text = options["format"]
for line in lines:
    values, told = [one.strip() for one in line.split("|")], text
    for name, place in columns.items():
        told = told.replace(name, values[place])
    print(told)
"""


def rows_of_sonar():
    """What sacct printed next to a real Sonar, by our columns; it was asked for fewer."""
    first, *lines = (REAL / "real-sacct-raw.txt").read_text().splitlines()
    names = first.split("|")
    for line in lines:
        told = dict(zip(names, line.split("|", len(names) - 1), strict=True))
        for name in ("Start", "End"):
            with suppress(ValueError):
                told[name] = str(int(datetime.fromisoformat(f"{told[name]}Z").timestamp()))
        yield dict.fromkeys(COLUMNS, "") | told


def test_jobs_are_reported_as_sonar_tells_them():
    """Every value that sacct printed is, in every job and step, what the real Sonar made of it but for mistakes."""
    theirs = {
        (job["job_id"], job.get("job_step", "")): job
        for path in sorted(REAL.glob("real-jobs-deluge-*.json"))
        for envelope in objects(path)
        for job in envelope["data"]["attributes"]["slurm_jobs"]
    }
    # Signs of names, seconds of times with fractions, the priority that the job lost as time went by.
    other = {"job_name", "priority"}
    compared = 0
    for row in rows_of_sonar():
        ours = slurm_job(row)
        real = theirs[ours["job_id"], ours.get("job_step", "")]
        for key, value in ours.items():
            if key not in other and key != "sacct":
                assert (key, value) == (key, real.get(key))
                compared += 1
        for key, value in ours.get("sacct", {}).items():
            told = real.get("sacct", {}).get(key, 0)
            assert told == value or (key in {"UserCPU", "SystemCPU"} and told <= value)
            compared += 1
    assert compared > 200


def test_what_sonar_loses_is_reported():
    """The real jobs of which it lost the seconds, and the sign in a name."""
    found = {(one["job_id"], one.get("job_step", "")): one for one in map(slurm_job, rows_of_sonar())}
    assert found[1, ""]["sacct"]["UserCPU"] == 10
    assert found[2, ""]["job_name"] == "fail|pipe x"
    assert (found[12, ""]["array_job_id"], found[12, ""]["array_task_id"]) == (5, 1)
    assert (found[7, ""]["het_job_id"], found[7, ""]["het_job_offset"], "start_time" in found[7, ""]) == (6, 1, False)
    assert found[11, ""]["time_limit"] == 1


@pytest.fixture
def sacct(tmp_path):
    """A sacct that prints what the real one printed of 70 jobs of every kind."""
    return FakeSacct(tmp_path)


def produced(sacct, *more):
    """The envelopes of the command."""
    done = arcacct("node", "jobs", "--cluster", "testgrid", "--sacct", sacct.program, *more)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_envelopes_are_of_the_format(sacct):
    """Valid by the schema, read without a complaint; sacct is asked for all users, all runs and the window."""
    done, [envelope] = produced(sacct, "--window", "600")
    assert (done.returncode, done.stderr) == (0, "")
    validate(envelope, "job")
    [found] = read([done.stdout.encode()])
    assert isinstance(found, Jobs)
    assert len(found.reports) > 100
    [(words, environment)] = sacct.asked()
    assert {"--allusers", "--duplicates"} <= set(words)
    assert (environment["TZ"], environment["SLURM_TIME_FORMAT"]) == ("UTC", "%s")
    start, end = (datetime.fromisoformat(time) for time in sacct.windows()[0])
    assert (end - start).total_seconds() == 600


@pytest.mark.parametrize(("path", "jobs"), [(DATA / "sacct.txt", 50), (CASES / "s2.txt", 1), (CASES / "x1.txt", 1)])
def test_jobs_are_the_same_as_by_sacct_itself(tmp_path, utc, path, jobs):
    """What comes through the envelopes is, job by job, what `import slurm` makes of the same output."""
    _, envelopes = produced(FakeSacct(tmp_path, path))
    host = Host(tmp_path / "sonar", make=True)
    host.take(*(json.dumps(one).encode() for one in envelopes))
    (tmp_path / "slurm").mkdir()
    other = SlurmHost(tmp_path / "slurm")
    other.take(path, cluster=CLUSTER)
    # What one of both does not report counts as A-REX counts it.
    columns = (
        "job_id, status, submit_time, end_time, wall_s, ifnull(core_count, 1), ifnull(node_count, 1), memory_kib,"
        " project, ifnull(cpu_s, 0)"
    )
    ours, theirs = (
        {row[0]: row for row in world.con.execute(f"SELECT {columns} FROM v1_jobs").fetchall()}
        for world in (host, other)
    )
    for world in (host, other):
        world.con.close()
    assert len(theirs) >= jobs
    assert ours.keys() == theirs.keys()
    for job_id, row in ours.items():
        # CPU: the format has user and system time in whole seconds each.
        assert row[:9] == theirs[job_id][:9]
        assert abs(row[9] - theirs[job_id][9]) <= 1


def test_many_jobs_are_several_envelopes(sacct, monkeypatch, capsys):
    """No envelope is larger than a reader likes."""
    from arcacct.cli.main import arcacct as command
    from arcacct.sources.sonar import node

    monkeypatch.setattr(node, "JOBS_OF_AN_ENVELOPE", 50)
    command.main(["node", "jobs", "--sacct", str(sacct.program)], standalone_mode=False)
    envelopes = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counts = [len(one["data"]["attributes"]["slurm_jobs"]) for one in envelopes]
    assert sum(counts) > 150
    assert counts[:-1] == [50] * (len(counts) - 1)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("sys.exit('slurmdbd is away')", "exit code 1: slurmdbd is away"),
        ("print('JobID'); sys.exit(0)", "sacct printed the columns 'JobID'"),
        ("columns[:] = ['JobIDRaw']", "sacct printed the columns"),
    ],
)
def test_a_sacct_that_fails_is_reported(sacct, behaviour, told):
    """As an errors envelope, and by the exit code."""
    sacct.behaviour.write_text(behaviour)
    done, [envelope] = produced(sacct)
    assert done.returncode == 75
    assert told in envelope["errors"][0]["detail"]
    validate(envelope, "errors")


def test_a_host_without_slurm_says_so(tmp_path):
    """The commands are not there: an errors envelope each."""
    for kind, option in (("jobs", "--sacct"), ("cluster", "--sinfo")):
        done = arcacct("node", kind, option, tmp_path / "none")
        assert done.returncode == 75
        assert "cannot be started: No such file or directory" in json.loads(done.stdout)["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("kind", "option", "right"),
    [("jobs", "--node", "sysinfo and sample"), ("sample", "--sinfo", "cluster"), ("cluster", "--window", "jobs")],
)
def test_an_option_for_other_data_is_refused(kind, option, right):
    """It would have no effect."""
    done = arcacct("node", kind, option, "60")
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == f"arcacct: {option} is not for {kind}; it is for {right}\n"


def test_names_with_newlines_make_no_rows(tmp_path):
    """A job whose name looks like a row is one job with that name."""
    sacct = FakeSacct(tmp_path)
    path = tmp_path / "rows.json"
    rows = json.loads(path.read_text())[:2]
    rows[0]["JobName"] = "x\n999|999|fake"
    path.write_text(json.dumps(rows))
    found = slurm_jobs(1795326000, program=str(sacct.program))
    assert [one["job_name"] for one in found] == ["x\n999|999|fake", rows[1]["JobName"]]


@pytest.mark.parametrize(
    ("memory", "cores", "nodes", "kib"),
    [("4000M", "2", "1", 4096000), ("4000Mn", "2", "1", 4096000), ("1000Mc", "4", "2", 2048000), ("", "1", "1", None)],
)
def test_memory_of_every_slurm(memory, cores, nodes, kib):
    """Older ones say whether it is of a node or of a core."""
    row = dict.fromkeys(COLUMNS, "") | {"JobIDRaw": "1", "JobID": "1", "ReqMem": memory}
    assert slurm_job(row | {"ReqCPUS": cores, "ReqNodes": nodes}).get("requested_memory_per_node") == kib


@pytest.fixture
def sinfo(tmp_path):
    """A sinfo that prints what the real one printed."""
    program = tmp_path / "sinfo"
    program.write_text(SINFO.format(python=sys.executable, data=str(DATA / "sinfo-N-all.txt")))
    program.chmod(0o755)
    return program


def test_a_cluster_as_sinfo_tells_it(sinfo):
    """Partitions with their nodes, nodes by state, in the form that the real Sonar gives them."""
    done = arcacct("node", "cluster", "--cluster", "testgrid", "--sinfo", sinfo)
    assert (done.returncode, done.stderr) == (0, "")
    envelope = json.loads(done.stdout)
    validate(envelope, "cluster")
    [real] = objects(SONAR / "real-cluster-slurm.json")
    ours, theirs = (one["data"]["attributes"] for one in (envelope, real))
    assert ours.keys() == theirs.keys()
    assert {key: type(value) for key, value in ours.items()} == {key: type(value) for key, value in theirs.items()}
    [found] = read([done.stdout.encode()])
    assert isinstance(found, Cluster)
    assert {one.name: one.nodes for one in found.partitions} == {
        "grid": ("wn01", "wn02"),
        "short": ("wn01", "wn02"),
        "low": ("wn01",),
        "badprolog": ("wn01",),
        "down": ("wn01",),
    }
    assert {one.names: one.states for one in found.nodes} == {("wn01",): ("IDLE",), ("wn02",): ("ALLOCATED",)}


def test_states_with_signs(tmp_path):
    """What sinfo says of a node by a sign behind its state is a state of its own."""
    program = tmp_path / "sinfo"
    told = "".join(
        f'echo "p${{d}}n{number}${{d}}{state}"\n'
        for number, state in enumerate(("down*", "idle~", "mixed", "idle+drain"), 1)
    )
    # The delimiter is what stands between the first two fields that it is asked for.
    program.write_text(f'#!/bin/sh\nfor last in "$@"; do :; done\nd=${{last#*%R}}\nd=${{d%%%N*}}\n{told}')
    program.chmod(0o755)
    found = {tuple(one["names"]): one["states"] for one in cluster(str(program))["nodes"]}
    assert found == {
        ("n1",): ["DOWN", "NOT_RESPONDING"],
        ("n2",): ["IDLE", "POWERED_DOWN"],
        ("n3",): ["MIXED"],
        ("n4",): ["IDLE", "DRAIN"],
    }
