"""`arcacct features`."""

from __future__ import annotations

import http.server
import pathlib
import sqlite3
import threading
from contextlib import closing
from functools import partial

import in_process
import psutil
import pytest
from installed import arcacct, configured
from sonar_site import REAL


def test_a_machine_and_a_job(tmp_path):
    """Written by a node's start and a job's prologue, shown and checked as the job sees them, removed after it."""
    machine, job = str(tmp_path / "machine"), str(tmp_path / "job")
    done = arcacct(
        "features", "write", "machine", machine, "total_cpu=8", "--benchmark", "HEPSPEC:10.5", "grace_secs=600"
    )
    assert (done.returncode, done.stdout) == (0, "total_cpu 8\nhs06 84\ngrace_secs 600\n")

    slurm = {"SLURM_JOB_ID": "77", "SLURM_CPUS_ON_NODE": "2", "MACHINEFEATURES": machine, "JOBFEATURES": job}
    done = arcacct("features", "write", "job", job, "wall_limit_secs=3600", environment=slurm)
    assert (done.returncode, done.stderr) == (0, "")
    assert (pathlib.Path(job) / "hs06_job").read_text() == "21\n"

    shown = arcacct("features", "show", environment=slurm)
    assert "allocated_cpu 2\n" in shown.stdout
    assert shown.stdout.endswith("remaining_secs unlimited\n")
    assert "cpu_limit_secs is missing" in shown.stderr
    checked = arcacct("features", "check", environment=slurm)
    assert checked.returncode == 0
    assert len(checked.stdout.splitlines()) == 35

    refused = arcacct("features", "write", "job", f"{job}2", "allocated_cpu=many", environment=slurm)
    assert (refused.returncode, "allocated_cpu='many'" in refused.stderr) == (64, True)
    write = ("features", "write", "job", "--no-environment", job)
    assert arcacct(*write, "allocated_cpu=1").returncode == 64
    assert arcacct(*write, "site_zone=b").returncode == 0
    assert arcacct("features", "remove", job).returncode == 0
    assert not pathlib.Path(job).exists()


def test_a_number_of_processors_that_was_written_stays_until_it_is_given_again(tmp_path):
    """The default is for a directory without a usable one; the rating is for as many processors."""
    write, total = ("features", "write", "machine", str(tmp_path)), tmp_path / "total_cpu"
    everything = psutil.cpu_count() + 1
    assert arcacct(*write, f"total_cpu={everything}").returncode == 0

    done = arcacct(*write, "--benchmark", "HEPSPEC:10", "grace_secs=600")
    assert done.returncode == 0
    assert f"total_cpu is {everything}, as {tmp_path} has it, and the system has {everything - 1}; give" in done.stderr
    assert (total.read_text(), (tmp_path / "hs06").read_text()) == (f"{everything}\n", f"{10 * everything}\n")

    assert arcacct(*write, "total_cpu=1").returncode == 0
    assert total.read_text() == "1\n"
    total.write_text("many\n")
    assert arcacct(*write, "grace_secs=60").returncode == 0
    assert total.read_text() == f"{psutil.cpu_count()}\n"
    assert "total_cpu is" not in arcacct(*write, "grace_secs=60").stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("machine", "allocated_cpu=2"), "allocated_cpu: not a key of a machine; its keys are total_cpu, hs06,"),
        (("job", "total_cpu=2"), "total_cpu: not a key of a job; its keys are allocated_cpu, hs06_job,"),
        (("machine", "total_cpu"), "'total_cpu' is not KEY=VALUE; write like allocated_cpu=4"),
        (("machine", "grace_secs=1", "grace_secs=2"), "grace_secs is given twice; give each key once"),
        (("machine", "total_cpu=0"), "total_cpu='0': not a whole number from 1 on"),
        (("machine", "--owner", "root"), "--owner is not for machine; it is for job"),
        (("job", "--benchmark", "HEPSPEC:3"), "--benchmark is not for job; it is for machine"),
    ],
)
def test_what_cannot_be_a_feature_is_not_written(tmp_path, words, complaint):
    """A key or option of the other kind, a word without a value, a key with two values."""
    kind, *more = words
    done = arcacct("features", "write", kind, str(tmp_path / "place"), *more)
    assert (done.returncode, done.stdout) == (64, "")
    assert complaint in done.stderr
    assert not (tmp_path / "place").exists()


@pytest.mark.parametrize(
    ("former", "new"),
    [
        ("machine write {} --total-cpu 8 --grace-secs 600", "write machine {} total_cpu=8 grace_secs=600"),
        ("job write {} --job-id 7 --no-environment", "write job {} job_id=7 --no-environment"),
        ("shutdown set {} 2100-01-01", "shutdown {} 2100-01-01"),
        ("shutdown clear --job {}", "shutdown --cancel --job {}"),
        ("job remove {}", "remove {}"),
    ],
)
def test_the_former_words_do_the_same_and_say_what_to_write(tmp_path, former, new):
    """One line for each that is another now."""
    done = []
    for name, words in (("former", former), ("new", new)):
        place = tmp_path / name
        place.mkdir()
        for key, text in (("grace_secs", "600"), ("shutdowntime_job", "4102444800")):
            (place / key).write_text(f"{text}\n")
        answer = arcacct("features", *words.format(place).split())
        done.append((answer, {path.name: path.read_text() for path in place.iterdir()} if place.exists() else None))
    (before, left), (after, right) = done
    assert (before.returncode, before.stdout, left) == (after.returncode, after.stdout, right)
    assert (after.returncode, after.stderr) == (0, "")
    assert [line.partition(" is deprecated; write ")[1] for line in before.stderr.splitlines()] == [
        " is deprecated; write "
    ] * (1 + former.count(" --") - former.count("--no-") - former.count("--job "))


def test_one_key_is_written_as_in_the_former_release(tmp_path):
    """`job set` takes nothing from an environment, and prints nothing."""
    done = arcacct("features", "job", "set", str(tmp_path), "--", "site_zone", "-1", environment={"SLURM_JOB_ID": "7"})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (0, "", 1)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"site_zone": "-1\n"}


def test_a_shutdown(tmp_path):
    """Announced not sooner than promised, and taken back."""
    machine = str(tmp_path / "machine")
    arcacct("features", "write", "machine", machine, "grace_secs=600")
    refused = arcacct("features", "shutdown", machine, "2020-01-01")
    assert refused.returncode == 64
    assert "2020-01-01T00:00:00Z is sooner than grace_secs=600 promises; the soonest is 20" in refused.stderr
    assert arcacct("features", "shutdown", machine, "2100-01-01").returncode == 0
    assert (pathlib.Path(machine) / "shutdowntime").read_text() == "4102444800\n"
    assert arcacct("features", "shutdown", "--cancel", machine).returncode == 0
    assert not (pathlib.Path(machine) / "shutdowntime").exists()


def test_a_limit_that_cannot_be_read_is_no_missing_limit(tmp_path):
    """A job whose end is announced, but not readable, does not have all the time of the world."""
    (tmp_path / "total_cpu").write_text("4\n")
    (tmp_path / "shutdowntime").write_text("tomorrow\n")

    done = arcacct("features", "show", "--machine", str(tmp_path))

    assert done.returncode == 65
    assert done.stdout.endswith("remaining_secs unknown\n")


def test_a_bad_directory_fails_the_check(tmp_path):
    """One verdict a line, exit code 65 if one is bad; values that cannot be used are told by show as well."""
    (tmp_path / "total_cpu").write_text("many\n")
    done = arcacct("features", "check", "--machine", str(tmp_path))
    assert done.returncode == 65
    assert " 4 fail   processors are at least 1: total_cpu: not a whole number from 1 on\n" in done.stdout
    assert arcacct("features", "show", "--machine", str(tmp_path)).returncode == 65


def test_nothing_to_show():
    """Without variables and options the command says what is missing."""
    done = arcacct("features", "show")
    assert done.returncode == 64
    assert "--machine" in done.stderr


def test_saved_features_go_into_records(tmp_path):
    """hs06_job over allocated_cpu is the benchmark of the record, which says so; a foreign job's is not taken."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "import", "sonar", str(REAL / "real-jobs-completed.json"))
    folder = tmp_path / "saved"
    for job_id, text in (
        ("1", "job_id=1\nallocated_cpu=4\nhs06_job=50\nhepscore23_job=51\n"),
        ("2", "job_id=999\nallocated_cpu=4\nhs06_job=50\n"),
    ):
        place = folder / f"sonar:testcl:{job_id}:1795168549"
        place.mkdir(parents=True)
        (place / "features").write_text(text)
    command = ["--config", conf, "features", "record", "--pattern", str(folder / "{jobid}" / "features")]

    done = arcacct(*command)

    assert done.returncode == 65
    assert "the features are of job 999" in done.stderr
    assert done.stdout.endswith(" jobs checked, 2 with features, 1 record changed\n")
    con = sqlite3.connect(tmp_path / "control" / "accounting" / "arcacct" / "accounting.db")
    found = con.execute(
        "SELECT local_job_id, benchmark_value FROM v1_jobs WHERE benchmark_source = 'features'"
    ).fetchall()
    kept = con.execute("SELECT name, value FROM v1_job_attributes WHERE name GLOB 'mjf_*'").fetchall()
    con.close()
    assert (found, kept) == ([("1", 12.5)], [("mjf_hepscore23_job", "51")])
    assert arcacct(*command).stdout.startswith("1 job checked, ")


def test_features_of_a_record(tmp_path):
    """What our record of a job knows can be written as its features."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "import", "sonar", str(REAL / "real-jobs-completed.json"))
    job = str(tmp_path / "job")
    done = arcacct("--config", conf, "features", "write", "job", job, "--record", "sonar:testcl:10:1795168549")
    assert done.returncode == 0
    assert done.stdout.splitlines()[:3] == ["allocated_cpu 2", "job_id 10", "jobstart_secs 1795168749"]


def test_features_that_cannot_be_used_are_tried_again(tmp_path):
    """One job's are no file, another's the database refuses: all others' are taken, and these once they can be."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "import", "sonar", str(REAL / "real-jobs-completed.json"))
    database = tmp_path / "control" / "accounting" / "arcacct" / "accounting.db"
    with closing(sqlite3.connect(database)) as con, con:
        job_ids = [job_id for (job_id,) in con.execute("SELECT job_id FROM v1_jobs ORDER BY 1 LIMIT 3")]
        con.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON JobExtraInfo WHEN new.InfoValue = '66'"
            " BEGIN SELECT RAISE(ABORT, ''); END"
        )
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / job_ids[0]).symlink_to("/etc/passwd")
    (folder / job_ids[1]).write_text("allocated_cpu=4\nhs06_job=50\nzone=66\n")
    (folder / job_ids[2]).write_text("allocated_cpu=4\nhs06_job=50\n")
    command = ["--config", conf, "features", "record", "--pattern", str(folder / "{jobid}")]

    done = arcacct(*command)

    assert done.returncode == 65
    assert done.stdout.endswith(" 1 with features, 1 record changed\n")
    assert [line.split()[-1] for line in done.stderr.splitlines()] == ["file", "values"]
    (folder / job_ids[0]).unlink()
    (folder / job_ids[0]).write_text("allocated_cpu=4\nhs06_job=50\n")
    again = arcacct(*command, "--retry")
    assert (again.returncode, again.stdout) == (65, "2 jobs checked, 1 with features, 1 record changed\n")
    with closing(sqlite3.connect(database)) as con, con:
        con.execute("DROP TRIGGER refuse")
    folder.rename(tmp_path / "away")
    gone = arcacct(*command, "--retry")
    assert (gone.returncode, gone.stdout) == (65, "1 job checked, 0 with features, 0 records changed\n")
    assert gone.stderr.endswith(": nothing is saved there now: still rejected\n")
    command[-1] = str(tmp_path / "away" / "{jobid}")
    again = arcacct(*command, "--retry")
    assert (again.returncode, again.stdout) == (0, "1 job checked, 1 with features, 1 record changed\n")
    assert arcacct("--config", conf, "import", "rejected").stderr == "no record is rejected\n"


def test_the_former_name_of_the_pattern_is_taken(tmp_path):
    """--from is a time everywhere else: it still works here, and says what to write."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "import", "sonar", str(REAL / "real-jobs-completed.json"))
    record = ["--config", conf, "features", "record"]
    now = arcacct(*record, "--pattern", str(tmp_path / "{jobid}"))
    then = arcacct(*record, "--from", str(tmp_path / "{jobid}"))
    assert (then.returncode, now.returncode, now.stderr) == (0, 0, "")
    assert then.stdout.endswith(" 0 with features, 0 records changed\n")
    assert then.stderr == "--from is deprecated; write `--pattern PATTERN`\n"
    neither = arcacct(*record)
    assert (neither.returncode, "--pattern" in neither.stderr) == (64, True)


def test_a_retry_of_jobs_with_nothing_rejected(tmp_path):
    """A job whose features were used keeps them, whether others wait for a retry or none; each such job is named."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "import", "sonar", str(REAL / "real-jobs-completed.json"))
    database = tmp_path / "control" / "accounting" / "arcacct" / "accounting.db"
    with closing(sqlite3.connect(database)) as con:
        good, bad = (job_id for (job_id,) in con.execute("SELECT job_id FROM v1_jobs ORDER BY 1 LIMIT 2"))
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / good).write_text("allocated_cpu=4\nhs06_job=50\n")
    command = ["--config", conf, "features", "record", "--pattern", str(folder / "{jobid}")]
    assert arcacct(*command).returncode == 0

    done = arcacct(*command, good, "--retry")

    nothing = "0 jobs checked, 0 with features, 0 records changed\n"
    none_of_it = f"{good}: no features of this job are rejected, nothing to retry\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, nothing, none_of_it)
    done = arcacct(*command, "--retry")
    assert (done.returncode, done.stdout, done.stderr) == (0, nothing, "no features are rejected, nothing to retry\n")
    (folder / bad).symlink_to("/etc/passwd")
    assert arcacct(*command, bad).returncode == 65
    (folder / bad).unlink()
    (folder / bad).write_text("allocated_cpu=4\nhs06_job=50\n")
    done = arcacct(*command, good, bad, "--retry")
    told = (done.returncode, done.stdout, done.stderr)
    assert told == (0, "1 job checked, 1 with features, 1 record changed\n", none_of_it)
    with closing(sqlite3.connect(database)) as con:
        kept = con.execute("SELECT benchmark_value FROM v1_jobs WHERE benchmark_source = 'features'").fetchall()
    assert kept == [(12.5,), (12.5,)]
    assert arcacct("--config", conf, "import", "rejected").stderr == "no record is rejected\n"


def test_a_job_of_htcondor(tmp_path):
    """Its ads tell what it was given: the slot's before what was asked for, the sooner of two limits."""
    job_ad, slot_ad = tmp_path / ".job.ad", tmp_path / ".machine.ad"
    job_ad.write_text(
        'GlobalJobId = "schedd.example.org#102.1#1793588000"\nClusterId = 102\nProcId = 0\nRequestCpus = 2\n'
        "JobStartDate = 1793588000\nJobCurrentStartDate = 1793588100\nprocid = 1\nRequestMemory = 1024\n"
        "AllowedJobDuration = 172800\nAllowedExecuteDuration = 86400\nMemoryUsage = ((ResidentSetSize + 1023) / 1024)\n"
    )
    slot_ad.write_text('Machine = "wn1"\nCpus = 4\nMemory = 16384\nDisk = 20971520\n')
    condor = {"_CONDOR_JOB_AD": str(job_ad), "_CONDOR_MACHINE_AD": str(slot_ad)}
    done = arcacct("features", "write", "job", str(tmp_path / "job"), environment=condor)
    assert (done.returncode, done.stderr) == (0, "")
    assert dict(line.split() for line in done.stdout.splitlines()) == {
        "job_id": "102.1",
        "allocated_cpu": "4",
        "jobstart_secs": "1793588100",
        "wall_limit_secs": "86400",
        "max_rss_bytes": str(16 * 2**30),
        "scratch_limit_bytes": str(20 * 2**30),
    }
    # Without the slot's ad there is what was asked for.
    done = arcacct("features", "write", "job", str(tmp_path / "other"), environment={"_CONDOR_JOB_AD": str(job_ad)})
    assert "allocated_cpu 2\n" in done.stdout
    assert f"max_rss_bytes {2**30}\n" in done.stdout
    # An ad that cannot be read, and one of something else, are no job.
    slot_only = arcacct("features", "write", "job", str(tmp_path / "x"), environment={"_CONDOR_JOB_AD": str(slot_ad)})
    gone = arcacct("features", "write", "job", str(tmp_path / "x"), environment={"_CONDOR_JOB_AD": f"{job_ad}.gone"})
    assert [one.returncode for one in (slot_only, gone)] == [65, 65]
    assert "has no ClusterId" in slot_only.stderr
    assert "ad cannot be read: No such file or directory" in gone.stderr
    assert not (tmp_path / "x").exists()


def test_nothing_to_write_is_an_error(tmp_path):
    """A prologue that finds no job says so: an empty directory would look like a job without limits."""
    for arguments in ([], ["--no-environment"]):
        done = arcacct("features", "write", "job", str(tmp_path / "job"), *arguments, environment={"JOB_ID": ""})
        assert (done.returncode, done.stdout) == (64, "")
        assert "nothing to write" in done.stderr
    assert not (tmp_path / "job").exists()


def test_paths_may_be_relative_everywhere(tmp_path):
    """From the current directory, in every command alike; a protection that holds for one form holds for the other."""

    def run(*arguments: str) -> tuple[int, str]:
        done = arcacct("features", *arguments, cwd=tmp_path, environment={"SLURM_JOB_ID": "7"})
        return done.returncode, done.stdout

    assert run("machine", "write", "m", "--total-cpu", "8", "--hs06", "80", "--grace-secs", "60")[0] == 0
    assert run("job", "write", "j", "--allocated-cpu", "2", "--machine", "m") == (
        0,
        "job_id 7\nallocated_cpu 2\nhs06_job 20\n",
    )
    assert run("job", "set", "j", "allocated_cpu", "4")[0] == 64
    assert run("shutdown", "set", "m", "2100-01-01")[0] == 0
    shown = run("show", "--machine", "m", "--job", "./j")
    assert shown[0] == 0
    assert f"machine {tmp_path}/m\n" in shown[1]
    assert "shutdowntime 4102444800\n" in shown[1]
    assert run("check", "--machine", "m", "--job", "j")[0] == 0
    assert run("shutdown", "clear", "m")[0] == 0
    assert run("job", "remove", "j")[0] == 0
    assert not (tmp_path / "j").exists()
    # What is no path stays what it is.
    assert run("show", "--machine", "ftp://example.org/m")[0] == 64


def test_values_are_read_as_jobs_read_them(tmp_path):
    """PanDA's pilot and DIRAC strip blanks; `check` says that they do not belong there."""
    job = tmp_path / "job"
    job.mkdir()
    for name, content in (("allocated_cpu", " 2 \n"), ("wall_limit_secs", "3600\r\n"), ("job_id", "7\t\n\n")):
        (job / name).write_text(content)
    shown = arcacct("features", "show", "--job", str(job))
    assert "allocated_cpu 2\n" in shown.stdout
    assert "wall_limit_secs 3600\njob_id 7\n" in shown.stdout or "job_id 7\nwall_limit_secs 3600\n" in shown.stdout
    assert "treated as absent" not in shown.stderr
    checked = arcacct("features", "check", "--job", str(job))
    assert checked.returncode == 65
    assert " 2 fail" in checked.stdout


def test_a_cloud_names_both_places(tmp_path):
    """Metadata and features of a plain web server: asked once, then read where they point to."""
    tree, asked = tmp_path / "www", []
    for path, content in {
        "latest/machinefeatures": "{}/machine\n",
        "latest/jobfeatures": "{}/job/ \n",
        "machine/total_cpu": "8\n",
        "machine/hs06": "80.5 \n",
        "job/allocated_cpu": "2\n",
        "job/job_id": "vm-7\n",
    }.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)

    class Plain(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Plain, directory=str(tree)))
    base = f"http://127.0.0.1:{server.server_port}"
    for name in ("machinefeatures", "jobfeatures"):
        (tree / "latest" / name).write_text((tree / "latest" / name).read_text().format(base))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        where = ["--metadata-url", f"{base}/latest", "--metadata-file", str(tmp_path / "kept.json")]
        for times in (1, 2):
            shown = arcacct("features", "show", *where)
            assert shown.returncode == 0, shown.stderr
            assert f"machine {base}/machine\ntotal_cpu 8\nhs06 80.5\n" in shown.stdout
            assert f"job {base}/job\nallocated_cpu 2\njob_id vm-7\n" in shown.stdout
            assert asked.count("/latest/machinefeatures") == asked.count("/latest/jobfeatures") == 1
            assert asked.count("/machine/total_cpu") == times
        variables = {"MACHINEFEATURES": f"{base}/machine", "JOBFEATURES": f"{base}/job"}
        shown = arcacct("features", "show", environment=variables)
        assert "hs06 80.5\n" in shown.stdout
        # The share of the machine, for a job whose site writes files.
        done = arcacct("features", "write", "job", str(tmp_path / "j"), "allocated_cpu=2", environment=variables)
        assert "hs06_job 20.125\n" in done.stdout
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    "command",
    [
        ("features", "write", "machine", "DIR", "--benchmark", "fast"),
        ("db", "benchmark", "--from", "2026-11", "--to", "2026-12", "--as", "fast"),
    ],
    ids=lambda command: command[0],
)
def test_a_benchmark_is_read_as_in_the_configuration(capsys, tmp_path, command) -> None:
    """The same words for the same mistake."""
    said = in_process.said(capsys, *command)
    (tmp_path / "arc.conf").write_text("[lrms]\nbenchmark = fast\n")
    checked = in_process.said(capsys, "--config", tmp_path / "arc.conf", "config", "check")

    assert (said.returncode, checked.returncode) == (64, 78)
    wrong = "'fast' is not a benchmark; write TYPE:VALUE or TYPE VALUE, like HEPscore23:11.5"
    assert wrong in said.stderr
    assert wrong in checked.stdout
