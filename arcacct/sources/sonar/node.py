"""`arcacct node`: telemetry of this host, as Sonar writes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from arcacct.cli.console import data, examples
from arcacct.cli.options import need_kind
from arcacct.cli.progress import until_signal
from arcacct.errors import TargetBusy
from arcacct.sources.sonar.sampler import Host, line
from arcacct.sources.sonar.sampler import sample as probe_sample
from arcacct.sources.sonar.sysinfo import JOBS_OF_AN_ENVELOPE, WINDOW_S, slurm_jobs
from arcacct.sources.sonar.sysinfo import cluster as probe_cluster
from arcacct.sources.sonar.sysinfo import sysinfo as probe_sysinfo

_FOR = {
    "node": ("sysinfo", "sample"),
    "topology": ("sysinfo",),
    "exclude_system_jobs": ("sample",),
    "job_variable": ("sample",),
    "window": ("jobs",),
    "sacct": ("jobs",),
    "sinfo": ("cluster",),
}
"""By option: the kinds of data that it is for; the other options are for all."""


@click.command(
    epilog=examples(
        "arcacct node sysinfo --cluster hpc.example.org",
        "arcacct node sample --cluster hpc.example.org --interval 60",
        "arcacct node jobs --cluster hpc.example.org --interval 600",
        "arcacct node cluster --cluster hpc.example.org --interval 600",
    )
)
@click.argument(
    "kind", type=click.Choice(("sysinfo", "sample", "jobs", "cluster")), metavar="sysinfo|sample|jobs|cluster"
)
@click.option("--cluster", default="", metavar="NAME", help="Name of the cluster, as in all its telemetry.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Repeat, this often, until SIGTERM or Ctrl-C."
)
@click.option("--node", default="", metavar="NAME", help="sysinfo, sample: name of this node; default: the host's.")
@click.option("--topology", is_flag=True, help="sysinfo: with the text of lstopo, if it is installed.")
@click.option("--exclude-system-jobs", is_flag=True, help="sample: exclude processes of system accounts.")
@click.option(
    "--job-variable",
    metavar="NAME",
    help="sample: environment variable with the batch job id, if the cgroup lacks it (JOB_ID for Grid Engine, with the "
    "task of an array); only root can read it for other users.",
)
@click.option(
    "--window",
    type=click.IntRange(min=60),
    default=WINDOW_S,
    show_default=True,
    metavar="SECONDS",
    help="jobs: length of the period to read. Longer than the interval, because Slurm's accounting lags; repeats do no "
    "harm.",
)
@click.option("--sacct", default="sacct", show_default=True, metavar="PROGRAM", help="jobs: name or path of sacct.")
@click.option("--sinfo", default="sinfo", show_default=True, metavar="PROGRAM", help="cluster: name or path of sinfo.")
@click.pass_context
def node(ctx: click.Context, /, kind: str, cluster: str, interval: float | None, **given: Any) -> int:
    """
    Print data about this host in Sonar's format.

    One JSON envelope per line, for `arcacct import sonar` or any other reader of Sonar's format. sysinfo: the hardware
    of this host. sample: its activity (load, memory, GPUs, disks, its jobs with their processes). jobs: Slurm's jobs
    and their steps, from sacct. cluster: Slurm's partitions and the states of its nodes, from sinfo. The last two are
    for a whole Slurm cluster, so run them on one node.
    """
    need_kind(ctx, kind, _FOR)
    host = Host(cluster, given["node"])
    if kind == "jobs":
        return _repeat(partial(_tell_jobs, host, given["window"], given["sacct"]), interval)
    probes: dict[str, Callable[[], dict[str, object]]] = {
        "sysinfo": partial(probe_sysinfo, host, topology=given["topology"]),
        "sample": partial(
            probe_sample, host, system_jobs=not given["exclude_system_jobs"], variable=given["job_variable"]
        ),
        "cluster": partial(probe_cluster, given["sinfo"]),
    }

    def once() -> bool:
        text, succeeded = line(probes[kind], kind, host, of_node=kind != "cluster")
        data(text)
        return succeeded

    return _repeat(once, interval)


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


def _repeat(once: Callable[[], bool], interval_s: float | None) -> int:
    """Tell once, or on and on; the exit code."""
    if interval_s is None:
        return 0 if once() else TargetBusy.exit_code
    with until_signal() as goes_on:
        due = time.monotonic()
        while goes_on():
            once()
            # At fixed times, however long a probe takes: gaps would look like lost samples.
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return 0
