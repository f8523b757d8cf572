"""What an import of telemetry is told about its host."""

from __future__ import annotations

from typing import NamedTuple

from arcacct.config.values import MapRule, NodeBenchmark, QueueBenchmark


class Site(NamedTuple):
    """What the configuration says about jobs of telemetry."""

    rules: tuple[MapRule, ...] = ()
    node_benchmarks: tuple[NodeBenchmark, ...] = ()
    queue_benchmarks: tuple[QueueBenchmark, ...] = ()
    default_benchmark: str | None = None
    make_records: bool = True
    """Whether finished Slurm jobs become records: not where A-REX submits them, it has its own."""
    details: bool = False
    """Whether commands and percentages of sampled processes are kept."""
