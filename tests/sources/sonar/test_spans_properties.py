"""Sums over the runs of a number are sums over the samples inside them, whatever the runs, whatever came first."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import NamedTuple

from campaigns import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sonar_site import Host, sample, stream

FIRST = 1795168800
"""As `sonar_site.sample` counts: the full hour."""
NEAR_S = 60
"""So far outside a run a sample is still its own."""
SACCT = "JobIDRaw|Cluster|State|Submit|Start|End|ElapsedRaw|ExitCode|AllocCPUS|TotalCPU|JobName|User|Account|NodeList"


class Run(NamedTuple):
    """A run of a number, in seconds after FIRST, and who reports it."""

    number: int
    start: int
    end: int
    source: str
    nodes: tuple[str, ...]

    @property
    def submit(self):
        """Never the same for two runs of a number."""
        return self.start if self.source == "arc" else self.start - 1


class Seen(NamedTuple):
    """A sample of a number on a node."""

    number: int
    at: int
    node: str


def text(at, zone="+00:00"):
    """A time as sacct and Sonar write it."""
    return datetime.fromtimestamp(FIRST + at, UTC).strftime(f"%Y-%m-%dT%H:%M:%S{zone}")


@st.composite
def histories(draw):
    """Runs of two numbers, one after the other on nodes that overlap, and samples within and between them."""
    runs = []
    seen = set()
    for number in (7, 8):
        # One of A-REX's jobs has a number of its own; a site has the others by sacct, by Sonar, or by both.
        sources = draw(st.sampled_from([["arc"], ["sacct"], ["envelope"], ["sacct", "envelope", "both"]]))
        at = draw(st.integers(2, 4000))
        for _ in range(draw(st.integers(1, 4))):
            length = draw(st.sampled_from([1, 50, 600, 3599, 3600, 9000]))
            nodes = draw(st.sampled_from([("n1",), ("n2",), ("n1", "n2")]))
            runs.append(Run(number, at, at + length, draw(st.sampled_from(sources)), nodes))
            step = draw(st.sampled_from([20, 60, 300]))
            times = range(at + draw(st.integers(-90, 90)), at + length + draw(st.integers(-90, 400)), step)
            seen |= {Seen(number, one, node) for node in nodes for one in [*times][:6] + [*times][-6:]}
            # A requeue comes at once, another job after days.
            at += length + draw(st.sampled_from([2, 59, 130, 3700, 86_400 * 30]))
    return runs, sorted(seen)


def held(runs, one):
    """The run that a sample is in, or else the nearest one if it is near."""
    own = [run for run in runs if run.number == one.number]
    inside = [run for run in own if run.start <= one.at <= run.end]
    if inside:
        return inside[-1]
    away = [(max(run.start - one.at, one.at - run.end), run) for run in own]
    return min(away)[1] if away and min(away)[0] <= NEAR_S else None


def envelope(*runs):
    """What Sonar says of runs."""
    jobs = [
        {
            "job_id": run.number,
            "job_state": "COMPLETED",
            "submit_time": text(run.submit),
            "start_time": text(run.start),
            "end_time": text(run.end),
            "nodes": list(run.nodes),
            "allocated_resources": "cpu=1,gres/gpu=1",
        }
        for run in runs
    ]
    attributes = {"time": text(max(run.end for run in runs) + 1), "cluster": "c", "slurm_jobs": jobs}
    return stream(
        {"meta": {"producer": "sonar", "version": "0.19.0"}, "data": {"type": "job", "attributes": attributes}}
    )


def deliver(host, part):
    """One import: of samples, or of what one source says of runs."""
    if isinstance(part[0], Seen):
        processes = {one: {"cmd": "x", "pid": 1 + n, "ppid": 1, "cpu_time": 3} for n, one in enumerate(part)}
        host.take(
            stream(
                *(
                    sample(
                        one.at,
                        [
                            processes[one]
                            | {"pid": 10 + one.at + FIRST, "resident_memory": memory(one)}
                            | {"gpus": [{"uuid": one.node, "gpu_util": 50}]}
                        ],
                        job=one.number,
                        node=one.node,
                    )
                    for one in part
                )
            )
        )
        return
    for run in part:
        if run.source in ("envelope", "both"):
            host.take(envelope(run))
        if run.source in ("sacct", "both"):
            values = (run.number, "c", "COMPLETED", text(run.submit, ""), text(run.start, ""), text(run.end, ""))
            row = "|".join(map(str, (*values, run.end - run.start, "0:0", 1, "00:01", "x", "bob", "atlas", "n1")))
            host.sacct(f"{SACCT}\n{row}\n".encode())
        if run.source == "arc":
            host.arc_job(
                str(run.number), f"ARC{run.number}-{run.start}", submit=FIRST + run.submit, end=FIRST + run.end
            )


def memory(one):
    """KiB of a sample, different for each."""
    return 1000 + one.at % 7919 * 10 + one.number + (5 if one.node == "n2" else 0)


@settings(
    max_examples=examples(15),
    derandomize="ARCACCT_EXAMPLES" not in os.environ,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_sums_over_runs_are_sums_over_samples_inside_runs(utc, tmp_path_factory, data):
    """Each run has its samples, CPU time, memory and cards; what no run holds is no one's, and nothing is lost."""
    runs, seen = data.draw(histories())
    first, other = (Host(tmp_path_factory.mktemp("host")) for _ in range(2))
    deliver(first, runs)
    deliver(first, seen)
    first.take(b"")

    shuffled = data.draw(st.permutations(seen))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(seen)), max_size=3)))
    parts = [shuffled[one:to] for one, to in zip([0, *cuts], [*cuts, len(seen)], strict=True)]
    parts = data.draw(st.permutations([*filter(None, parts), *([run] for run in runs)]))
    for part in parts:
        deliver(other, part)
    other.take(b"")

    of_run = {run: [] for run in runs}
    outside = []
    for one in seen:
        run = held(runs, one)
        (outside if run is None else of_run[run]).append(one)
    wanted = [
        (FIRST + run.end, run.number, len(own), 3 * len(own), max(map(memory, own)))
        for run, own in of_run.items()
        if own
    ]
    told = (
        "SELECT end_time, lrms_job_id, v1_job_telemetry.samples, sampled_cpu_s, peak_memory_kib FROM v1_job_telemetry"
        " JOIN v1_jobs USING (job_id) WHERE v1_job_telemetry.samples > 0 ORDER BY 1, 2"
    )
    for host in (first, other):
        assert host.rows(told) == sorted(wanted)
        assert host.rows("SELECT sum(samples) FROM v1_sampled_jobs WHERE run_start_time IS NULL") == [
            (len(outside) or None,)
        ]
        assert host.rows("SELECT sum(samples), sum(cpu_s) FROM v1_sampled_jobs") == [(len(seen), 3 * len(seen))]
        memories = dict(host.rows("SELECT end_time || '/' || local_job_id, memory_kib FROM v1_jobs"))
        assert memories == {
            f"{FIRST + run.end}/{run.number}": max(map(memory, own), default=None) for run, own in of_run.items()
        }
    for view in ("v1_sampled_jobs", "v1_job_accelerators"):
        assert other.everything()[view] == first.everything()[view]
    busy = "SELECT sum(gpu_busy_s) FROM v1_job_telemetry"
    assert first.rows(busy) == other.rows(busy)
    for host in (first, other):
        assert host.rows(busy) == host.rows(
            "SELECT sum(busy_s) FROM v1_job_accelerators WHERE run_start_time IS NOT NULL"
        )
