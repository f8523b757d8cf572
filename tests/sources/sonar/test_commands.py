"""`arcacct import sonar` and `arcacct node`."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import time

import pytest
from installed import ARCACCT, arcacct, configured
from sonar_site import REAL, REAL_FILES, SERIES, sample, stream


def rows(tmp_path: pathlib.Path, sql: str) -> list[tuple[object, ...]]:
    """What a query finds in the host's database; nothing before the first import has created the view."""
    con = sqlite3.connect(tmp_path / "control" / "accounting" / "arcacct" / "accounting.db")
    try:
        return con.execute(sql).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table: v1_" not in str(error):
            raise
        return []
    finally:
        con.close()


def piped(conf: pathlib.Path, text: str) -> subprocess.CompletedProcess[str]:
    """The command with telemetry on its standard input."""
    command = [ARCACCT, "--config", str(conf), "import", "sonar", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_files_directories_and_packed_files(tmp_path):
    """Files by name, all of a directory, and packed ones are taken in; the summary says what."""
    conf = configured(tmp_path)
    folder = tmp_path / "in" / "deep"
    folder.mkdir(parents=True)
    (folder / "jobs.json").write_bytes((REAL / "real-jobs-completed.json").read_bytes())
    (folder / "notes.txt").write_text("not ours")
    (tmp_path / "series.jsonl.gz").write_bytes(gzip.compress(SERIES.read_bytes()))

    done = arcacct("--config", conf, "import", "sonar", str(tmp_path / "in"), str(tmp_path / "series.jsonl.gz"))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 jobs envelope, 8 sample envelopes; ")
    assert rows(tmp_path, "SELECT cpu_s FROM v1_sampled_jobs WHERE job_id = 4242") == [(30,)]
    assert rows(tmp_path, "SELECT count(*) FROM v1_jobs WHERE source = 'slurm'")[0][0] > 5


def test_nothing_in_a_directory_is_waited_for(tmp_path):
    """A pipe without a writer and a device without an end, put there by somebody, are said and left out."""
    conf = configured(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    os.mkfifo(folder / "a.json")
    (folder / "b.json").symlink_to("/dev/zero")
    (folder / "c.jsonl").write_bytes(SERIES.read_bytes())

    command = [ARCACCT, "--config", str(conf), "import", "sonar", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 65
    assert done.stderr.splitlines() == [
        f"arcacct: {folder}/{name}: a pipe or a device, so it is skipped; name it explicitly to read it"
        for name in ("a.json", "b.json")
    ]
    assert rows(tmp_path, "SELECT cpu_s FROM v1_sampled_jobs WHERE job_id = 4242") == [(30,)]


def test_standard_input_and_bad_lines(tmp_path):
    """Telemetry comes through a pipe as well; what cannot be used is said, and the rest is taken in."""
    conf = configured(tmp_path)
    text = SERIES.read_text() + "this is no envelope\n"
    done = piped(conf, text)
    assert done.returncode == 65
    assert "object 9: not JSON" in done.stderr
    assert rows(tmp_path, "SELECT cpu_s FROM v1_sampled_jobs WHERE job_id = 4242") == [(30,)]


def test_a_file_that_is_not_there(tmp_path):
    """A mistake in a name is told in one line."""
    done = arcacct("--config", configured(tmp_path), "import", "sonar", str(tmp_path / "none.json"))
    assert done.returncode == 65
    assert done.stderr == f"arcacct: {tmp_path}/none.json: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT], ids=lambda end: end.name)
def test_a_file_is_followed(tmp_path, end):
    """What is added to a file, also after it was replaced, is taken in while the command runs; then it ends well."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    lines = SERIES.read_bytes().splitlines(keepends=True)
    feed = tmp_path / "feed.jsonl"
    feed.write_bytes(b"".join(lines[:3]) + lines[3][:100])

    def wait_for(samples: int) -> None:
        for _ in range(200):
            if rows(tmp_path, "SELECT sum(samples) FROM v1_sampled_jobs WHERE job_id = 4242") == [(samples,)]:
                return
            time.sleep(0.1)
        raise AssertionError(f"never {samples} samples")

    command = [ARCACCT, "--config", str(conf), "import", "sonar", "--follow", str(feed)]
    # Deaf to SIGINT, as a shell leaves what it puts into the background.
    with subprocess.Popen(["env", "--ignore-signal=INT", *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_for(3)
            with feed.open("ab") as file:
                file.write(lines[3][100:])
            wait_for(4)
            (tmp_path / "next.jsonl").write_bytes(b"".join(lines[4:]))
            (tmp_path / "next.jsonl").replace(feed)
            wait_for(8)
        finally:
            process.send_signal(end)
        assert process.stdout is not None
        assert process.stdout.read().startswith("8 sample envelopes; ")
    assert process.returncode == 0


def test_standard_input_is_followed(tmp_path):
    """Each piece that comes through a pipe is stored at once; the end of the pipe is the end, and alone it is."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    lines = SERIES.read_bytes().splitlines(keepends=True)
    command = [ARCACCT, "--config", str(conf), "import", "sonar", "--follow", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        for count, line in enumerate(lines, 1):
            process.stdin.write(line)
            for _ in range(300):
                found = rows(tmp_path, "SELECT sum(samples) FROM v1_sampled_jobs WHERE job_id = 4242")
                if found == [(count,)]:
                    break
                time.sleep(0.1)
            assert found == [(count,)]
        process.stdin.close()
        assert process.wait() == 0
    done = arcacct("--config", conf, "import", "sonar", "--follow", "-", "other")
    assert (done.returncode, done.stderr) == (
        65,
        "arcacct: -: standard input and files cannot be followed together; use two commands\n",
    )


def test_node_prints_what_import_takes(tmp_path):
    """The producer's lines are the consumer's food: nothing is left out."""
    conf = configured(tmp_path)
    lines = [arcacct("node", kind, "--cluster", "here").stdout for kind in ("sysinfo", "sample")]
    assert [line.count("\n") for line in lines] == [1, 1]
    done = piped(conf, "".join(lines))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 sample envelope, 1 sysinfo envelope; ")
    assert rows(tmp_path, "SELECT DISTINCT cluster FROM v1_nodes") == [("here",)]


def test_node_repeats(tmp_path):
    """--interval continues, one envelope a line, each whole at once."""
    with subprocess.Popen(
        [ARCACCT, "node", "sample", "--interval", "0.2"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 0
    assert [one["data"]["type"] for one in found] == ["sample"] * 3


def test_every_real_file_at_once(tmp_path):
    """All that Sonar really wrote, in one command, without a complaint."""
    done = arcacct("--config", configured(tmp_path), "import", "sonar", *map(str, REAL_FILES))
    assert (done.returncode, done.stderr) == (0, "")


def test_samples_of_no_run_are_reported(tmp_path):
    """January's run of a number holds its own samples; November's are counted, until their run is there."""
    conf = configured(tmp_path)
    lines = (REAL.parent / "cases" / "rec.jsonl").read_text().splitlines(keepends=True)
    done = piped(conf, "".join(lines[:-1]))
    assert done.returncode == 0
    assert done.stderr.endswith(
        "6 samples of 1 job number outside every known run of this number: not added to a job until a run of that"
        " time is imported\n"
    )
    assert piped(conf, lines[-1]).stderr == ""
    assert rows(tmp_path, "SELECT cpu_s FROM v1_jobs") == [(360,), (360,)]


HOSTILE = (
    '{"meta":{"producer":"sonar","version":"0.15.0"},"data":{"type":"job","attributes":{"time":'
    '"2026-11-20T11:00:00Z","cluster":"c","slurm_jobs":[{"job_id":5,"job_state":" ","allocated_resources":"cpu='
    + "9"
    * 5000
    + '","sacct":{"UserCPU":9223372036854775807,"SystemCPU":9223372036854775807}},{"job_id":6,"job_state":"PENDING",'
    '"nodes":["None assigned"]}]}}}\n'
)


def test_a_hostile_record_costs_its_values(tmp_path):
    """A blank state, 5,000 digits, numbers that no sum can hold: all samples around it are there."""
    conf = configured(tmp_path)
    lines = SERIES.read_text().splitlines(keepends=True)
    done = piped(conf, "".join([*lines[:4], HOSTILE, *lines[4:]]))

    assert done.returncode == 0
    assert "treated as absent: SystemCPU 1, UserCPU 1, job_state 1" in done.stderr
    assert rows(tmp_path, "SELECT cpu_s FROM v1_sampled_jobs WHERE job_id = 4242") == [(30,)]
    assert rows(tmp_path, "SELECT job_id, nodes FROM v1_slurm_jobs WHERE job_id = 6") == [(6, None)]


@pytest.mark.parametrize("damage", ["cut", "bytes", "no gzip"])
def test_a_damaged_packed_file_costs_its_rest(tmp_path, damage):
    """What was readable before the damage counts, the rest is complained about, and the next file is read."""
    conf = configured(tmp_path)
    lines = SERIES.read_bytes().splitlines(keepends=True)
    packed = gzip.compress(b"".join(lines[:4]), mtime=0) + gzip.compress(b"".join(lines[4:6]) * 50, mtime=0)
    if damage == "cut":
        packed = packed[:-20]
    elif damage == "bytes":
        packed = packed[:-40] + bytes(30) + packed[-10:]
    else:
        packed = packed[: len(gzip.compress(b"".join(lines[:4]), mtime=0))] + b"no gzip at all"
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[6:])))
    done = arcacct("--config", conf, "import", "sonar", str(tmp_path / "a.jsonl.gz"), str(tmp_path / "b.jsonl.gz"))

    assert done.returncode == 65
    wanted = r"arcacct: .*a.jsonl.gz: (truncated in compressed data|damaged: .*); everything before is imported"
    assert any(re.fullmatch(wanted, said) for said in done.stderr.splitlines())
    assert rows(tmp_path, "SELECT sum(samples) FROM v1_sampled_jobs WHERE job_id = 4242")[0][0] >= 6


@pytest.mark.campaign
def test_following_survives_everything(tmp_path):
    """Rubbish, a damaged file, one that goes away, is cut, cannot be read: each is said once, and the rest comes in."""
    conf = configured(tmp_path)
    arcacct("--config", conf, "db", "init")
    lines = SERIES.read_bytes().splitlines(keepends=True)
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    feed = folder / "feed.jsonl"
    feed.write_bytes(lines[0] + b"rubbish {\n" + HOSTILE.encode())
    (folder / "damaged.jsonl.gz").write_bytes(gzip.compress(b"x" * 100_000)[:50])

    def wait_for(samples: int) -> None:
        for _ in range(300):
            if rows(tmp_path, "SELECT sum(samples) FROM v1_sampled_jobs WHERE job_id = 4242") == [(samples,)]:
                return
            time.sleep(0.1)
        raise AssertionError(f"never {samples} samples")

    words = [ARCACCT, "--config", str(conf), "import", "sonar", "--follow", str(folder), str(tmp_path / "later.jsonl")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(1)
            (folder / "sub" / "gone.jsonl").write_bytes(lines[1])
            wait_for(2)
            (folder / "sub" / "gone.jsonl").unlink()
            feed.write_bytes(lines[2])
            wait_for(3)
            (tmp_path / "later.jsonl").write_bytes(lines[3])
            wait_for(4)
            (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
            (folder / "damaged.jsonl.gz").write_bytes(gzip.compress(lines[4]))
            wait_for(5)
            feed.rename(folder / "feed.old")
            feed.write_bytes(lines[5])
            wait_for(6)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait() == 65
    assert said.count("damaged.jsonl.gz: truncated") == 1
    assert said.count("loop.jsonl: cannot be read") == 1
    assert said.count("object 2: not JSON") == 1


def test_what_cannot_be_joined_is_said(tmp_path):
    """Tasks of a real array of Grid Engine, sampled without their task: counted on stderr, and no error."""
    conf = configured(tmp_path)
    data = REAL.parent / "gridengine" / "accounting.sge819-real"
    assert arcacct("--config", conf, "import", "gridengine", data).returncode == 0
    whole = sample(1795168171 - 1795168800, [{"cmd": "x", "pid": 7}], job=6)
    done = piped(conf, stream(whole).decode())
    assert done.returncode == 0
    assert done.stderr == (
        "arcacct: no telemetry added to 3 records of tasks of arrays, without the task in the samples\n"
    )
