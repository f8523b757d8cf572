"""`arcacct node`: telemetry of this host, as Sonar writes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import click

from arcacct.cli.console import data, examples
from arcacct.cli.progress import until_signal
from arcacct.errors import TargetBusy
from arcacct.sources.sonar.sampler import Host, line
from arcacct.sources.sonar.sampler import sample as probe_sample
from arcacct.sources.sonar.sysinfo import JOBS_OF_AN_ENVELOPE, WINDOW_S, slurm_jobs
from arcacct.sources.sonar.sysinfo import cluster as probe_cluster
from arcacct.sources.sonar.sysinfo import sysinfo as probe_sysinfo

_CLUSTER = click.option("--cluster", default="", metavar="NAME", help="Name of the cluster, as in all its telemetry.")
_NODE = click.option("--node", default="", metavar="NAME", help="Name of this node; default: the host's.")
_INTERVAL = click.option(
    "--interval", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Repeat, this often, until SIGTERM or Ctrl-C."
)


@click.group(epilog=examples("arcacct node sysinfo --cluster hpc.example.org"))
def node() -> None:
    """
    Print data about this host in Sonar's format.

    Prints one JSON envelope per line, for `arcacct import sonar` or any other reader of Sonar's format. `sysinfo` and
    `sample` describe the node where they run; `jobs` and `cluster` a whole Slurm cluster, so run them on one node.
    """


@node.command(epilog=examples("arcacct node sysinfo --cluster hpc.example.org"))
@_CLUSTER
@_NODE
@_INTERVAL
@click.option("--topology", is_flag=True, help="With the text of lstopo, if it is installed.")
def sysinfo(cluster: str, node: str, interval: float | None, topology: bool) -> int:
    """Print the hardware of this host: processors, memory, GPUs."""
    host = Host(cluster, node)
    return _tell(partial(probe_sysinfo, host, topology=topology), "sysinfo", host, interval)


@node.command(epilog=examples("arcacct node sample --cluster hpc.example.org --interval 60"))
@_CLUSTER
@_NODE
@_INTERVAL
@click.option("--exclude-system-jobs", is_flag=True, help="Exclude processes of system accounts.")
@click.option(
    "--job-variable",
    metavar="NAME",
    help="Environment variable with the batch job id, if the cgroup lacks it (JOB_ID for Grid "
    "Engine, with the task of an array); only root can read it for other users.",
)
def sample(cluster: str, node: str, interval: float | None, exclude_system_jobs: bool, job_variable: str | None) -> int:
    """Print the activity of this host: load, memory, GPUs, disks, and its jobs with their processes."""
    host = Host(cluster, node)
    probe = partial(probe_sample, host, system_jobs=not exclude_system_jobs, variable=job_variable)
    return _tell(probe, "sample", host, interval)


@node.command(epilog=examples("arcacct node jobs --cluster hpc.example.org --interval 600"))
@_CLUSTER
@_INTERVAL
@click.option(
    "--window",
    type=click.IntRange(min=60),
    default=WINDOW_S,
    show_default=True,
    metavar="SECONDS",
    help="Length of the period to read. Longer than the interval, because Slurm's accounting lags; repeats do no harm.",
)
@click.option("--sacct", default="sacct", show_default=True, metavar="PROGRAM", help="Name or path of sacct.")
def jobs(cluster: str, interval: float | None, window: int, sacct: str) -> int:
    """Print Slurm's jobs and their steps, from sacct."""
    return _repeat(partial(_tell_jobs, Host(cluster), window, sacct), interval)


def _tell_jobs(host: Host, window_s: int, program: str) -> bool:
    found: list[dict[str, object]] = []

    def ask() -> dict[str, object]:
        found.extend(slurm_jobs(int(time.time()), window_s, program))
        return part(0)

    def part(start: int) -> dict[str, object]:
        return {"slurm_jobs": found[start : start + JOBS_OF_AN_ENVELOPE]}

    text, succeeded = line(ask, "job", host, of_node=False)
    data(text)
    for start in range(JOBS_OF_AN_ENVELOPE, len(found), JOBS_OF_AN_ENVELOPE):
        data(line(partial(part, start), "job", host, of_node=False)[0])
    return succeeded


@node.command(epilog=examples("arcacct node cluster --cluster hpc.example.org --interval 600"))
@_CLUSTER
@_INTERVAL
@click.option("--sinfo", default="sinfo", show_default=True, metavar="PROGRAM", help="Name or path of sinfo.")
def cluster(cluster: str, interval: float | None, sinfo: str) -> int:
    """Print Slurm's partitions and the states of its nodes, from sinfo."""
    host = Host(cluster)
    return _tell(partial(probe_cluster, sinfo), "cluster", host, interval, of_node=False)


def _tell(
    probe: Callable[[], dict[str, object]], kind: str, host: Host, interval_s: float | None, *, of_node: bool = True
) -> int:
    def once() -> bool:
        text, succeeded = line(probe, kind, host, of_node=of_node)
        data(text)
        return succeeded

    return _repeat(once, interval_s)


def _repeat(once: Callable[[], bool], interval_s: float | None) -> int:
    """Tell once, or on and on; the exit code."""
    if interval_s is None:
        return 0 if once() else TargetBusy.exit_code
    with until_signal() as goes_on:
        due = time.monotonic()
        while goes_on():
            once()
            # On the beat, whatever a probe takes: gaps would look like lost samples.
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return 0
