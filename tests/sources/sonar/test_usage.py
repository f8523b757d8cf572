"""From samples to what jobs and nodes used."""

from __future__ import annotations

import json

import pytest
from sonar_site import REAL, SERIES, read, sample, stream

from arcacct.sources.sonar.samples import Sample, SampledKey
from arcacct.sources.sonar.usage import job_use, longest_step, node_use

SEVEN = SampledKey(7, 0)


def snapshots(content, key=SEVEN):
    """The snapshots of one job in a stream."""
    return [(one.time, one.jobs[key]) for one in read([content]) if isinstance(one, Sample) and key in one.jobs]


def used(*samples):
    """What job 7 used over some samples."""
    return use_of(snapshots(stream(*samples)))


def use_of(shots, before=None, *, group=False):
    """What a job used over some snapshots, after one before them."""
    times = [time for time, _ in shots]
    return job_use(shots, before, longest_step(times if before is None else [before[0], *times]), group=group)


def process(pid, cpu, ppid=1, **more):
    """A process that has used some CPU."""
    return {"cmd": "python3", "pid": pid, "ppid": ppid, "cpu_time": cpu} | more


def test_the_real_series():
    """Two processes of which one ends: CPU, memory, and what each interval added are as observed."""
    expected = json.loads((REAL / "expected-job4242.json").read_text())
    shots = snapshots(SERIES.read_bytes(), SampledKey(4242, 0))
    found = use_of(shots)
    assert (found.use.cpu_s, found.peak_memory_kib, found.samples) == (30, 207684, 8)
    before = None
    for shot, interval in zip(shots, expected["intervals"], strict=True):
        step = use_of([shot], before)
        assert (step.use.cpu_s, step.peak_memory_kib) == (interval["cpu_delta"], interval["rss_sum_kib"])
        assert shot[1].process_count == interval["nproc"]
        before = shot


@pytest.mark.parametrize(
    ("samples", "cpu_s"),
    [
        ([[process(5, 10)], [process(5, 25)]], 25),
        ([[process(5, 10)], []], 10),
        ([[process(5, 10)], [process(6, 4)]], 14),
        ([[process(5, 1), process(6, 9, 5)], [process(5, 12)]], 12),
        ([[process(5, 1), process(6, 9, 5)], [process(5, 5)]], 10),
        ([[process(5, 0), process(6, 1, 5), process(7, 8, 6)], [process(5, 11)]], 11),
        (
            [[process(5, 10, cmd="bash")], [process(5, 30, cmd="python3")], [process(5, 31, cmd="python3 <defunct>")]],
            31,
        ),
        ([[process(5, 10)], [process(5, 3)]], 13),
        ([[process(0, 40, 4, rolledup=3)], [process(0, 30, 4, rolledup=2)], [process(0, 36, 4, rolledup=2)]], 46),
        ([[process(0, 4, 2), process(0, 5, 3)], [process(0, 6, 2), process(0, 5, 3)]], 11),
    ],
    ids=[
        "grows",
        "ends",
        "another pid",
        "a child that was waited for",
        "a child that was not",
        "a grandchild",
        "exec and zombie",
        "pid used again",
        "rolled up",
        "rolled up under two parents",
    ],
)
def test_cpu_time_is_counted_once(samples, cpu_s):
    """Counters of processes become the CPU time of their job, children that were waited for once."""
    assert used(*(sample(60 * n, processes) for n, processes in enumerate(samples))).use.cpu_s == cpu_s


def test_what_was_before_is_not_counted_again():
    """A later row of samples adds only what came after the sample before it."""
    earlier, later = snapshots(stream(sample(0, [process(5, 10)]), sample(60, [process(5, 25)])))
    assert use_of([later], earlier).use.cpu_s == 15


def test_a_process_group_after_a_long_gap_is_another_job():
    """Two hours without a sample: the number is used again, and counting starts again."""
    shots = snapshots(
        stream(sample(0, [process(5, 10)], epoch=9), sample(7201, [process(5, 25)], epoch=9)), SampledKey(7, 9)
    )
    assert use_of(shots[1:], shots[0], group=True)[3:5] == (True, (25, 0, 0))
    assert use_of(shots[1:], shots[0])[3:5] == (False, (15, 0, 0))


def test_bytes_threads_and_memory():
    """Memory is the largest sum over processes, bytes are counters as CPU is, threads come minus one."""
    one = [
        process(5, 0, resident_memory=100, data_read=10, num_threads=3),
        process(6, 0, resident_memory=50, data_written=7),
    ]
    other = [process(5, 0, resident_memory=120, data_read=30)]
    found = used(sample(0, one), sample(60, other))
    assert found.use == (0, 30, 7)
    assert (found.peak_memory_kib, found.peak_processes, found.peak_threads) == (150, 2, 5)


def gpu(uuid, util, **more):
    """What a process does on a card."""
    return {"index": 0, "uuid": uuid, "gpu_util": util} | more


def test_gpu_time_is_busy_and_occupied():
    """Percent over time is busy time; a card that a job has processes on is occupied, also when it idles."""
    samples = [
        sample(60 * n, [process(5, 0, gpus=[gpu("a", util, gpu_memory=1000), gpu("b", 0)])])
        for n, util in enumerate([50, 50, 100])
    ]
    cards = used(*samples).cards
    assert (cards["a"].busy_s, cards["a"].occupied_s, cards["a"].peak_memory_kib) == (90, 120, 1000)
    assert (cards["b"].busy_s, cards["b"].occupied_s) == (0, 120)


def test_a_gap_in_samples_is_unknown():
    """A gap of more than three sampling intervals counts nothing as use of a card; one of three is none."""
    times = [0, 60, 120, 3000, 3180, 3240]
    cards = used(*(sample(at, [process(5, 0, gpus=[gpu("a", 100)])]) for at in times)).cards
    assert cards["a"].busy_s == 60 + 60 + 180 + 60


@pytest.mark.parametrize(
    ("times", "longest_s"), [([], 0), ([5], 0), ([0, 60], 180), ([0, 60, 3600, 3660], 180), ([0, 9000], 7200)]
)
def test_what_is_no_gap(times, longest_s):
    """Three times the usual interval, and no more than two hours."""
    assert longest_step(times) == longest_s


def test_the_interval_is_that_of_the_hour_before():
    """Two samples of an hour, far behind those of the hour before: what lies between is a gap."""
    hours = [[60 * minute for minute in range(6)], [7100, 7160]]
    shots = [snapshots(stream(*(sample(at, [process(5, 0)], system={"load1": 1.0}) for at in hour))) for hour in hours]
    assert longest_step([time for hour in shots for time, _ in hour]) == 180
    earlier, later = (
        [(one.time, one.reading) for one in read([stream(*(sample(at, [], system={"load1": 1.0}) for at in hour))])]
        for hour in hours
    )
    assert {one.covered_s for one in node_use(later, earlier)} == {60}


def test_energy_is_shared_by_use():
    """What a card draws goes to those who use it, by their use; alone one has it all."""

    def at(time, mine, other):
        entry = sample(time, [process(5, 0, gpus=[gpu("a", mine)])], system={"gpus": [{"uuid": "a", "power": 300}]})
        if other is not None:
            entry["data"]["attributes"]["jobs"].append(
                {"job": 0, "user": "root", "epoch": 3, "processes": [process(9, 0, gpus=[gpu("a", other)])]}
            )
        return entry

    assert used(at(0, 10, None), at(10, 10, None)).cards["a"].energy_j == 3000
    assert used(at(0, 20, 60), at(10, 20, 60)).cards["a"].energy_j == 750
    assert used(at(0, 0, 0), at(10, 0, 0)).cards["a"].energy_j == 1500
    silent = [sample(time, [process(5, 0, gpus=[gpu("a", 5)])]) for time in (0, 10)]
    assert used(*silent).cards["a"].energy_j is None


def measures(*systems):
    """The measures of a node by device and name, of readings a minute apart."""
    readings = [
        (one.time, one.reading)
        for one in read([stream(*(sample(60 * n, [], system=s) for n, s in enumerate(systems)))])
    ]
    return {(one.device, one.measure): one for one in node_use(readings, [])}


def test_readings_of_a_node():
    """What goes up and down has mean and extremes, counters their growth, cards their energy."""
    one = {
        "used_memory": 100,
        "load1": 1.5,
        "cpus": [10, 20],
        "gpus": [{"uuid": "a", "power": 100, "compute_mode": "Default"}],
    }
    other = {"used_memory": 300, "load1": 0.5, "cpus": [40, 30], "gpus": [{"uuid": "a", "power": 200, "ce_util": 50}]}
    found = measures(one, other)
    assert found["", "used_memory_kib"][4:7] == (200, 100, 300)
    assert found["", "load1"].mean == 1
    assert found["", "cpu_busy_s"].increase == 40
    assert found["a", "power_w"].increase == 200 * 60
    assert (found["a", "ce_util_percent"].mean, found["a", "compute_mode"].text) == (25, "Default")


def test_counters_begin_again_when_a_node_boots():
    """After a boot a counter counts from zero: what is on it then is growth."""
    one = {"boot": "2026-11-20T09:00:00Z", "cpus": [1000]}
    other = {"boot": "2026-11-20T09:59:00Z", "cpus": [1500]}
    assert measures(one, other)["", "cpu_busy_s"].increase == 1500
    jitter = {"boot": "2026-11-20T09:00:01Z", "cpus": [1010]}
    assert measures(one, jitter)["", "cpu_busy_s"].increase == 10


def test_a_heartbeat_is_a_sample():
    """A node without jobs, and a sample without system, is seen all the same."""
    [one] = read([stream(sample(0, []))])
    assert one.reading == {"": {"processes": 0.0, "jobs": 1.0}}
