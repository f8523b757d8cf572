"""
`arcacct metrics`: for Prometheus' textfile collector.

The file is written in spite of any error: the command line alone names it, and an old file would repeat the old state.
Unknown values are absent then, and flags show this.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping

import click
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from arcacct import __version__
from arcacct.cli.console import block, data, examples, print_error
from arcacct.cli.options import next_start, settings_of
from arcacct.cli.status import limits_of, threshold_options
from arcacct.errors import ConfigError, StoreError
from arcacct.files.safe_open import replace_file
from arcacct.health import checks as health_checks
from arcacct.health import facts
from arcacct.health.doctor import monitored
from arcacct.health.doctor_checks import Site
from arcacct.health.facts import Check, Health

_FLAGS = (
    ("arcacct_build_info", "1; version of arcacct and of Python", ("version", "python")),
    ("arcacct_metrics_written_timestamp_seconds", "Time of writing; an old file is not current", ()),
    ("arcacct_config_ok", "1: the configuration could be read; 0: it could not, and metrics of targets are absent", ()),
    ("arcacct_database_ok", "1: both databases could be read; 0: they could not, and their metrics are absent", ()),
    ("arcacct_check", "0 ok, 1 warning, 2 critical, 3 unknown, as in `arcacct status`", ("subject",)),
)
METRICS = (*_FLAGS, *((one.name, one.help, one.labels) for row in health_checks.CHECKS for one in row.metrics))
"""Every metric with its help text and its labels: first the permanent ones, then those of the checks."""


@click.command(epilog=examples("arcacct metrics", "arcacct metrics --output /var/lib/node_exporter/arcacct.prom"))
@click.option("--output", metavar="FILE", help="Write this file atomically, instead of stdout.")
@click.pass_context
@threshold_options
def metrics(ctx: click.Context, output: str | None, **given: int | None) -> int:
    """
    Print health metrics for Prometheus, or write them for its textfile collector.

    FILE is always rewritten, so a stale "OK" cannot persist: without a configuration or a database it has
    arcacct_config_ok or arcacct_database_ok 0, and the exit code is 78 or 74. Unknown metrics are left out. Run it from
    a timer, as a user who may read the databases and write the file.
    """
    found, wrong, checks = None, None, [Check("configuration", facts.UNKNOWN, "")]
    try:
        settings = settings_of(ctx)
        found = facts.examine(settings)
        site = Site(next_start(ctx), ctx.obj["database"])
        checks = monitored(site, found, limits_of(settings, given))
    except Exception as error:  # noqa: BLE001  on any error, a stale OK must not persist in the file
        wrong = error
    content = generate_latest(_Known(_values(found, checks, wrong)))
    if output is None:
        block(content.decode(), data)
    else:
        # The collector runs as another user, who may own the directory.
        replace_file(output, content, 0o644)
    if wrong is not None:
        raise wrong
    if found is not None and found.problem is not None:
        print_error(found.problem)
        return StoreError.exit_code
    return 0


class _Known(Collector):
    """Everything that is known: gauges, and what only grows as counters."""

    def __init__(self, values: Mapping[str, Iterable[tuple[tuple[str, ...], float | None]]]) -> None:
        self._values = values

    def collect(self) -> Iterable[Metric]:
        for name, text, labels in METRICS:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, text, labels=labels)
            for names, value in self._values.get(name, ()):
                if value is not None:
                    family.add_metric(names, value)
            if family.samples:
                yield family


def _values(
    found: Health | None, checks: list[Check], wrong: Exception | None
) -> dict[str, Iterable[tuple[tuple[str, ...], float | None]]]:
    """``found``: ``None`` if nothing could be examined, because of ``wrong``."""
    severities: dict[tuple[str, ...], float | None] = {}
    for check in checks:
        severities[check.subject,] = max(check.severity, severities.get((check.subject,)) or 0)
    flags: tuple[Iterable[tuple[tuple[str, ...], float | None]], ...] = (
        [((__version__, platform.python_version()), 1)],
        [((), int(time.time()))],
        [((), 0 if isinstance(wrong, ConfigError) else 1)],
        [((), 0 if found is None or found.recorded is None else 1)],
        severities.items(),
    )
    known = dict(zip((name for name, _text, _labels in _FLAGS), flags, strict=True))
    if found is not None:
        known |= {one.name: one.samples(found) for row in health_checks.CHECKS for one in row.metrics}
    return known
