"""What is kept of processes only where a site wants it: percentages, indexes of cards, commands."""

from __future__ import annotations

import json
import random

import pytest
from sonar_site import REAL, SERIES, Host, objects, sample, stream, sysinfo_of

from arcacct.records.pseudonymise import Scope, _forget_others
from arcacct.records.pseudonyms import Names
from arcacct.sources.sonar.jobs import Site

DETAILED = Site(details=True)
COMMANDS = "SELECT command, samples, peak_processes, peak_memory_kib, cpu_avg_percent, cpu_util_percent"


@pytest.fixture
def host(tmp_path):
    """A host without any job."""
    return Host(tmp_path)


def process(command, pid, **more):
    """A process of Sonar's."""
    return {"cmd": command, "pid": pid} | more


SAMPLES = [
    sample(0, [process("x", 4, cpu_avg=50.0, resident_memory=100), process("x", 5, cpu_avg=30.0, resident_memory=200)]),
    sample(60, [process("x", 4, cpu_avg=40.0, cpu_util=90.0), process("sh", 6, cpu_avg=0.5, resident_memory=7)]),
    sample(120, [process("x", 4, cpu_avg=60.0, cpu_util=110.0)]),
]


def test_percentages_and_commands_by_job(host):
    """Means over the samples of sums over processes; cpu_util counts only where Sonar looked, and is 0 if left out."""
    host.take(stream(*SAMPLES), site=DETAILED)
    [(average, util, peak)] = host.rows(
        "SELECT cpu_avg_percent, cpu_util_percent, peak_cpu_util_percent FROM v1_sampled_jobs"
    )
    assert (average, util, peak) == (pytest.approx((80 + 40.5 + 60) / 3), 100.0, 110.0)
    assert host.rows(f"{COMMANDS} FROM v1_job_commands WHERE job_id = 7 ORDER BY 1") == [
        ("sh", 1, 1, 7, 0.5, 0.0),
        ("x", 3, 2, 300, 60.0, 100.0),
    ]


def test_they_are_kept_only_on_request(host):
    """Without the option no command is in the database, not even in what waits for late samples."""
    host.take(stream(sample(0, [process("secret-tool", 4, cpu_avg=50.0)])))
    assert host.rows("SELECT cpu_avg_percent, cpu_util_percent FROM v1_sampled_jobs") == [(None, None)]
    assert host.rows("SELECT count(*) FROM v1_job_commands") == [(0,)]
    host.take(stream(sample(0, [process("secret-tool", 4, cpu_avg=50.0)])), site=DETAILED)
    assert host.rows("SELECT command, cpu_avg_percent FROM v1_job_commands") == [("secret-tool", 50.0)]


def test_cards_by_index_and_memory(host):
    """Which card of the node it was, and how much of its memory the job had, in percent."""
    use = [
        [{"index": 3, "uuid": "G", "gpu_util": 40.0, "gpu_memory_util": 20.0}],
        [{"index": 3, "uuid": "G", "gpu_util": 40.0, "gpu_memory_util": 40.0}, {"uuid": "H"}],
    ]
    host.take(stream(*(sample(60 * n, [process("x", 4, gpus=gpus)]) for n, gpus in enumerate(use))), site=DETAILED)
    found = host.rows("SELECT uuid, card_index, memory_util_percent FROM v1_job_accelerators ORDER BY 1")
    assert found == [("G", 3, 30.0), ("H", 0, None)]


def test_real_samples_in_any_order(tmp_path):
    """Real samples, shuffled, repeated, and first without details: the same rows."""
    lines = SERIES.read_bytes().splitlines(keepends=True)
    one, other = (Host(tmp_path / name, make=True) for name in ("one", "other"))
    one.take(b"".join(lines), site=DETAILED)
    shuffled = lines * 2
    random.Random(19).shuffle(shuffled)
    other.take(b"".join(lines))
    for line in shuffled:
        other.take(line, site=DETAILED)
    tables = [f"SELECT * FROM {table}" for table in ("v1_job_commands", "v1_sampled_jobs")]
    assert [sorted(one.rows(sql), key=repr) for sql in tables] == [sorted(other.rows(sql), key=repr) for sql in tables]
    assert one.rows("SELECT count(*) > 0 FROM v1_job_commands WHERE job_id = 4242") == [(1,)]


def test_a_real_sample_as_sonar_says(host):
    """The mean CPU that Sonar really told of each command of a job is what the view has."""
    path = REAL / "real-slurmjob-1.json"
    [told] = objects(path)
    own = [job for job in told["data"]["attributes"]["jobs"] if job["job"] == 4242]
    expected: dict[str, float] = {}
    for one in own[0]["processes"]:
        expected[one["cmd"]] = expected.get(one["cmd"], 0.0) + one.get("cpu_avg", 0.0)
    host.take(path.read_bytes(), site=DETAILED)
    found = host.rows("SELECT command, cpu_avg_percent FROM v1_job_commands WHERE job_id = 4242")
    assert dict(found) == pytest.approx(expected)


def test_a_job_that_starts_many_programs_fills_no_database(host):
    """Of an hour those are kept that used most."""
    processes = [process(f"c{number:03}", number, cpu_avg=float(number)) for number in range(1, 301)]
    host.take(stream(sample(0, processes)), site=DETAILED)
    assert host.rows("SELECT count(*), min(command), max(command) FROM v1_job_commands") == [(100, "c201", "c300")]


def test_commands_are_forgotten(host):
    """They tell what somebody did, as the name of a job does."""
    host.take(stream(*SAMPLES), site=DETAILED)
    _forget_others(host.con, Names(b"k" * 32), Scope(2_000_000_000))
    assert host.rows("SELECT count(*) FROM v1_job_commands") == [(0,)]


def test_unusable_percentages_cost_themselves(host):
    """A percentage that is none is counted, and the process stays."""
    report = host.take(stream(sample(0, [process("x", 4, cpu_avg="a lot", resident_memory=5)])), site=DETAILED)
    assert (report.rejected, dict(report.dropped)) == (0, {"cpu_avg": 1})
    assert host.rows(f"{COMMANDS} FROM v1_job_commands") == [("x", 1, 1, 5, 0.0, None)]


def test_a_node_may_not_tell_its_architecture(host):
    """Not every Sonar does: the rest is taken, and nothing is counted as unusable."""
    told = sysinfo_of()
    del told["data"]["attributes"]["architecture"]
    report = host.take(json.dumps(told).encode())
    assert (report.rejected, dict(report.dropped), host.said) == (0, {}, [])
    assert host.rows("SELECT cpu_model, architecture FROM v1_nodes") == [("AMD EPYC 7763", "")]
