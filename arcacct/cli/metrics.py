"""
`arcacct metrics`: for Prometheus' textfile collector.

The file is written whatever is wrong: where it goes is known from the command line alone, and an old file would say
that all is as it was. What cannot be known is absent then, and flags say so.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator

import click
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from arcacct import __version__
from arcacct.cli.console import block, data, examples, print_error
from arcacct.cli.options import settings_of
from arcacct.cli.status import threshold_options
from arcacct.database.durable import CHECK
from arcacct.errors import ConfigError, InputError, StoreError
from arcacct.files.safe_open import open_parent
from arcacct.queries import health
from arcacct.queries.health import Check, Health
from arcacct.queries.health_queries import Basis, TargetState
from arcacct.records.hold_decisions import NONE
from arcacct.records.holds import HELD
from arcacct.records.states import BOUNDS

HELP: dict[str, tuple[str, tuple[str, ...]]] = {
    "arcacct_build_info": ("1; which arcacct wrote this, under which Python", ("version", "python")),
    "arcacct_metrics_written_timestamp_seconds": ("When this was written: what is older tells nothing of today", ()),
    "arcacct_config_ok": ("1: the configuration could be read; 0: it could not, and all of its targets is absent", ()),
    "arcacct_database_ok": ("1: both databases could be read; 0: they could not, and all of theirs is absent", ()),
    "arcacct_targets": ("Targets that arcacct publishes to, as configured", ()),
    "arcacct_publishes": ("0: the configuration says that this host only records (publishes=no)", ()),
    "arcacct_jura_targets": ("Targets in arc.conf, to which A-REX's jura publishes", ()),
    "arcacct_check": ("0 ok, 1 warning, 2 critical, 3 unknown, as `arcacct status` judges", ("subject",)),
    "arcacct_jobs": ("Jobs in the accounting database", ()),
    "arcacct_database_bytes": ("Size of the accounting database with its WAL", ()),
    "arcacct_last_event_timestamp_seconds": ("Time of the state change that was recorded last", ()),
    "arcacct_last_sweep_timestamp_seconds": ("End of the last sweep", ()),
    "arcacct_jobs_on_hold": ("Jobs that have ended and of which nothing tells what they used", ()),
    "arcacct_implausible_jobs": (
        "Jobs with values that cannot be true, by reason: held, decided about, or published before this was checked",
        ("reason", "state"),
    ),
    "arcacct_recent_jobs": ("Jobs that ended in this month or the one before, as the sums count them", ()),
    "arcacct_recent_jobs_without": (
        "Those of them without a measured wall time, without CPU time, and with no benchmark but the default",
        ("what",),
    ),
    "arcacct_cut_records": ("Records of the last day of which something was left out, since it was too much", ()),
    "arcacct_import_rejected_records": ("Records of imports that could not be used", ("source",)),
    "arcacct_import_rejected_oldest_timestamp_seconds": ("Time when the oldest of them was met", ()),
    "arcacct_sonar_dropped_values_total": ("Values of telemetry that could not be used", ("field",)),
    "arcacct_spool_files": ("Events that wait in the spool", ()),
    "arcacct_spool_oldest_timestamp_seconds": ("Time of the oldest event in the spool", ()),
    "arcacct_spool_unusable_files": ("Files of the spool that were set aside", ()),
    "arcacct_spool_known": ("1: every spool could be listed; 0: the figures are those that the last sweep left", ()),
    "arcacct_launcher_ok": ("1: A-REX can start its callout", ("launcher",)),
    "arcacct_launcher_spool_files": ("Events in a spool of the launcher's own, which no sweep drains", ("launcher",)),
    "arcacct_launcher_spool_oldest_timestamp_seconds": ("Time of the oldest of them", ("launcher",)),
    "arcacct_ended_jobs": (
        "Jobs of A-REX that ended within the last day, by who told of their end: callout or sweep",
        ("told_by",),
    ),
    "arcacct_last_care_timestamp_seconds": ("Last backup, check, prune and snapshot of the databases", ("kind",)),
    "arcacct_check_found_damage": ("1: the last `arcacct db check` found something wrong", ()),
    "arcacct_database_free_bytes": ("Room on the disk of the databases", ()),
    "arcacct_target_last_success_timestamp_seconds": ("Last run of a target without error", ("target",)),
    "arcacct_target_due_timestamp_seconds": ("When a target is due next", ("target",)),
    "arcacct_target_waiting_records": ("Records that a target has still to be sent", ("target",)),
    "arcacct_target_oldest_waiting_timestamp_seconds": ("End time of the oldest of them", ("target",)),
    "arcacct_target_unanswered_messages": ("Messages without an answer", ("target",)),
    "arcacct_target_held_records": ("Records that are set aside", ("target", "state")),
    "arcacct_target_never_sent_records": ("Jobs from before a target's beginning that it never got", ("target",)),
    "arcacct_target_held_months": ("Months that are not sent, since figures would fall without proof", ("target",)),
    "arcacct_target_held_month_jobs": (
        "Jobs of such a month: published (given), and in the database now (found)",
        ("target", "month", "kind"),
    ),
    "arcacct_ledger_doubts": ("What is wrong between accounting.db and publishing.db; 0 is well", ()),
    "arcacct_certificate_not_after_timestamp_seconds": ("When a certificate ends", ("file",)),
}
"""Every metric with its help text and its labels."""
_STATES = ("held", "quarantined", "correction", "retry", "dropped")
Value = tuple[str, float | None, tuple[str, ...]]
"""Name, value (``None``: not known), values of the labels."""


@click.command(epilog=examples("arcacct metrics", "arcacct metrics --output /var/lib/node_exporter/arcacct.prom"))
@click.option("--output", metavar="FILE", help="Write this file, as a whole or not at all, instead of stdout.")
@click.pass_context
@threshold_options
def metrics(ctx: click.Context, output: str | None, limits: health.Thresholds) -> int:
    """
    Print the health metrics for Prometheus, or write them for its textfile collector.

    FILE is written whatever is wrong: without a configuration or a database it has arcacct_config_ok or
    arcacct_database_ok 0 and the rest that is known, and the exit code is that of the error (78, 74). What is not known
    is left out. Run it from a timer, as a user who may read the databases and write the file.
    """
    found, wrong = None, None
    try:
        found = health.examine(settings_of(ctx))
    except Exception as error:  # noqa: BLE001  whatever it is, the file must not go on to say that all is well
        wrong = error
    _write(output, generate_latest(_Known(_values(found, _checks(found, limits), wrong))))
    if wrong is not None:
        raise wrong
    if found is not None and found.problem is not None:
        print_error(found.problem)
        return StoreError.exit_code
    return 0


def _checks(found: Health | None, limits: health.Thresholds) -> list[Check]:
    return [Check("configuration", health.UNKNOWN, "")] if found is None else health.judge(found, limits)


def _write(output: str | None, content: bytes) -> None:
    """Raises InputError for a file that cannot be written."""
    if output is None:
        block(content.decode(), data)
        return
    try:
        folder, name = open_parent(output)
        with folder:
            # The collector is another user, and its directory may be his.
            folder.replace(name, content, 0o644)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}; name a directory of this user") from error


class _Known(Collector):
    """Everything that is known: gauges, and what only grows as counters."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._families: dict[str, Metric] = {}
        for name, value, labels in values:
            if value is not None:
                if name not in self._families:
                    text, names = HELP[name]
                    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                    self._families[name] = kind(name, text, labels=names)
                self._families[name].add_metric(labels, value)  # type: ignore[attr-defined]

    def collect(self) -> Iterable[Metric]:
        return self._families.values()


def _values(found: Health | None, checks: list[Check], wrong: Exception | None) -> Iterator[Value]:
    """``found``: ``None`` where nothing could be looked at, because of ``wrong``."""
    yield "arcacct_build_info", 1, (__version__, platform.python_version())
    yield "arcacct_metrics_written_timestamp_seconds", int(time.time()), ()
    yield "arcacct_config_ok", 0 if isinstance(wrong, ConfigError) else 1, ()
    yield "arcacct_database_ok", 0 if found is None or found.recorded is None else 1, ()
    severities: dict[str, int] = {}
    for check in checks:
        severities[check.subject] = max(check.severity, severities.get(check.subject, 0))
    for subject, severity in severities.items():
        yield "arcacct_check", severity, (subject,)
    if found is not None:
        yield from _found(found)


def _found(found: Health) -> Iterator[Value]:
    yield "arcacct_targets", found.publishing.targets, ()
    yield "arcacct_publishes", found.publishing.ours, ()
    yield "arcacct_jura_targets", len(found.publishing.of_jura), ()
    if found.recorded is not None:
        yield "arcacct_jobs", found.recorded.jobs, ()
        yield "arcacct_database_bytes", found.size_bytes, ()
        yield "arcacct_last_event_timestamp_seconds", found.recorded.last_event_s, ()
        yield "arcacct_last_sweep_timestamp_seconds", found.recorded.last_sweep_s, ()
        yield "arcacct_jobs_on_hold", found.on_hold, ()
        yield from _implausible_values(found)
        yield "arcacct_cut_records", found.recorded.cut_records, ()
        yield "arcacct_ended_jobs", found.recorded.ends.jobs - found.recorded.ends.swept, ("callout",)
        yield "arcacct_ended_jobs", found.recorded.ends.swept, ("sweep",)
        for source, count in found.recorded.rejected.by_source.items():
            yield "arcacct_import_rejected_records", count, (source,)
        yield "arcacct_import_rejected_oldest_timestamp_seconds", found.recorded.rejected.oldest_s, ()
        for field, count in found.recorded.dropped.items():
            yield "arcacct_sonar_dropped_values_total", count, (field,)
    yield from _basis_values(found.basis)
    yield from _spool_values(found)
    for kind, done in found.maintenance_log.items():
        yield "arcacct_last_care_timestamp_seconds", done.at_s, (kind,)
        if kind == CHECK:
            yield "arcacct_check_found_damage", not done.is_well, ()
    yield "arcacct_database_free_bytes", None if found.free is None else found.free.bytes, ()
    if found.recorded is not None:
        yield "arcacct_ledger_doubts", len(found.doubts) + sum(one.in_doubt for one in found.targets), ()
    for target in found.targets:
        yield from _target_values(target)
    for path, end in found.certificates.items():
        yield "arcacct_certificate_not_after_timestamp_seconds", end if isinstance(end, int) else None, (path,)


def _implausible_values(found: Health) -> Iterator[Value]:
    """Each reason for which jobs may be held, also where none is; of those that were settled what there is."""
    held = dict(found.implausible.get(HELD, NONE).by_reason)
    for reason in BOUNDS:
        yield "arcacct_implausible_jobs", held.get(reason, 0), (reason, HELD)
    for state, counts in found.implausible.items():
        for reason, count in counts.by_reason if state != HELD else ():
            yield "arcacct_implausible_jobs", count, (reason, state)


def _basis_values(found: Basis | None) -> Iterator[Value]:
    if found is not None:
        yield "arcacct_recent_jobs", found.jobs, ()
        yield "arcacct_recent_jobs_without", found.without_wall, ("wall",)
        yield "arcacct_recent_jobs_without", found.without_cpu, ("cpu",)
        yield "arcacct_recent_jobs_without", found.without_benchmark, ("benchmark",)


def _spool_values(found: Health) -> Iterator[Value]:
    listed = not found.spool.unknown
    left = found.spool if listed else None if found.recorded is None else found.recorded.left
    yield "arcacct_spool_known", listed, ()
    if left is not None:
        yield "arcacct_spool_files", left.files, ()
        yield "arcacct_spool_oldest_timestamp_seconds", left.oldest_s, ()
        yield "arcacct_spool_unusable_files", left.unusable, ()
    for launcher in found.launchers:
        name = (launcher.path,)
        yield "arcacct_launcher_ok", not launcher.problem, name
        yield "arcacct_launcher_spool_files", launcher.astray.files, name
        yield "arcacct_launcher_spool_oldest_timestamp_seconds", launcher.astray.oldest_s, name


def _target_values(target: TargetState) -> Iterator[Value]:
    name = (target.name,)
    yield "arcacct_target_last_success_timestamp_seconds", target.last_success_s, name
    yield "arcacct_target_due_timestamp_seconds", target.due_s or None, name
    yield "arcacct_target_waiting_records", target.waiting.records, name
    yield "arcacct_target_oldest_waiting_timestamp_seconds", target.waiting.oldest_end_s, name
    yield "arcacct_target_unanswered_messages", target.unanswered, name
    yield "arcacct_target_never_sent_records", target.never_sent, name
    yield "arcacct_target_held_months", len(target.held_months), name
    for one in target.held_months:
        month = f"{one.year:04d}-{one.month:02d}"
        yield "arcacct_target_held_month_jobs", one.published_jobs, (target.name, month, "given")
        yield "arcacct_target_held_month_jobs", one.found_jobs, (target.name, month, "found")
    for held in _STATES:
        yield "arcacct_target_held_records", target.held.get(held, 0), (target.name, held)
