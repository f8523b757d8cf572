"""`arcacct node`: telemetry of this host, as Sonar writes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import click

from arcacct.cli.speech import data, examples
from arcacct.cli.working import until_asked
from arcacct.errors import TargetBusy
from arcacct.sonar.producing import sysinfo as probe_sysinfo
from arcacct.sonar.sampling import sample as probe_sample
from arcacct.sonar.telling import Host, line

_CLUSTER = click.option("--cluster", default="", metavar="NAME", help="Name of the cluster, as in all its telemetry.")
_NODE = click.option("--node", default="", metavar="NAME", help="Name of this node, if not that of the host.")
_INTERVAL = click.option(
    "--interval", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Repeat, this often, until SIGTERM or Ctrl-C."
)


@click.group(epilog=examples("arcacct node sysinfo --cluster hpc.example.org"))
def node() -> None:
    """
    Print what this host is and does, as Sonar would.

    One JSON envelope a line, for `arcacct import sonar` or any other reader of Sonar's format. Jobs and clusters of
    a batch system are not told: Sonar has `sonar jobs` and `sonar cluster` for them.
    """


@node.command(epilog=examples("arcacct node sysinfo --cluster hpc.example.org"))
@_CLUSTER
@_NODE
@_INTERVAL
@click.option("--topology", is_flag=True, help="With the text of lstopo, if it is installed.")
def sysinfo(cluster: str, node: str, interval: float | None, topology: bool) -> int:
    """Print what this host is: processors, memory, GPUs."""
    host = Host(cluster, node)
    return _tell(partial(probe_sysinfo, host, topology=topology), "sysinfo", host, interval)


@node.command(epilog=examples("arcacct node sample --cluster hpc.example.org --interval 60"))
@_CLUSTER
@_NODE
@_INTERVAL
@click.option("--exclude-system-jobs", is_flag=True, help="Without the processes of system accounts.")
@click.option(
    "--job-variable",
    metavar="NAME",
    help="Environment variable with the batch job id, if the cgroup lacks it (JOB_ID for Grid "
    "Engine, with the task of an array); only root may see it of others.",
)
def sample(cluster: str, node: str, interval: float | None, exclude_system_jobs: bool, job_variable: str | None) -> int:
    """Print what this host does: load, memory, GPUs, disks, and its jobs with their processes."""
    host = Host(cluster, node)
    probe = partial(probe_sample, host, system_jobs=not exclude_system_jobs, variable=job_variable)
    return _tell(probe, "sample", host, interval)


def _tell(probe: Callable[[], dict[str, object]], kind: str, host: Host, interval_s: float | None) -> int:
    if interval_s is None:
        text, succeeded = line(probe, kind, host)
        data(text)
        return 0 if succeeded else TargetBusy.exit_code
    with until_asked() as goes_on:
        due = time.monotonic()
        while goes_on():
            data(line(probe, kind, host)[0])
            # On the beat, whatever a probe takes: gaps would look like lost samples.
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return 0
