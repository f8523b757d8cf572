"""`arcacct status`: one screen and an exit code for monitoring, with performance data for plug-ins."""

from __future__ import annotations

from collections.abc import Iterator

import click

from arcacct.cli.console import Coloured, data, examples, print_line, report_error
from arcacct.cli.options import in_order, next_start, settings_of, together
from arcacct.cli.tables import FORMATS, LISTED, format_option, show
from arcacct.database import durable
from arcacct.errors import ConfigError
from arcacct.queries import health
from arcacct.queries.doctor import monitored
from arcacct.queries.doctor_checks import Site
from arcacct.queries.health import DAY_S, HOUR_S, Health, Limit, Thresholds
from arcacct.queries.health_queries import TargetState
from arcacct.records.hold_decisions import NONE
from arcacct.records.holds import HELD
from arcacct.wording import sanitise_line

# Figures for monitoring plug-ins: performance data as the Monitoring Plugins Development Guidelines have it.
#
# ``'label'=value[unit];warning;critical;minimum``, where a threshold is a range: ``9`` is an alarm above 9, ``9:``
# below.


SECONDS, BYTES = "s", "B"


def perfdata(found: Health, limits: Thresholds) -> Iterator[str]:
    """What is known in figures; what is not is absent."""
    if found.recorded is not None:
        yield _datum("jobs", found.recorded.jobs)
        yield _datum("database", found.size_bytes, BYTES)
        if found.recorded.last_sweep_s is not None:
            yield _datum("sweep age", found.now - found.recorded.last_sweep_s, SECONDS, limits.sweep_s)
        yield _datum("ended by callout", found.recorded.ends.jobs - found.recorded.ends.swept)
        yield _datum("ended by sweep", found.recorded.ends.swept)
        held = found.implausible.get(HELD, NONE).records
        yield _datum("implausible", held, "", limits.implausible)
    if found.basis is not None:
        yield _datum("without wall time", found.basis.without_wall_percent, "%", limits.unmeasured_percent)
    if not found.spool.unknown:
        oldest_s = found.spool.oldest_s
        yield _datum("spool", found.spool.files, "", limits.spool_files)
        yield _datum("spool age", 0 if oldest_s is None else found.now - oldest_s, SECONDS, limits.spool_s)
    for target in found.targets:
        yield from _of_target(found.now, target, limits)
    if durable.BACKUP in found.maintenance_log:
        yield _datum("backup age", found.now - found.maintenance_log[durable.BACKUP].at_s, SECONDS, limits.backup_s)
    for path, end in found.certificates.items():
        if end is not None:
            yield _datum(f"certificate {path}", end - found.now, SECONDS, limits.certificate_s, falling=True)
    for disk in found.disks[:1]:
        mib = limits.free_mib
        limit = Limit(mib.warning * 2**20, mib.critical * 2**20)
        yield _datum("disk free", disk.free_bytes, BYTES, limit, falling=True)


def _of_target(now: int, target: TargetState, limits: Thresholds) -> Iterator[str]:
    oldest_s = target.waiting.oldest_end_s
    late_s = 0 if oldest_s is None else now - max(oldest_s, target.due_s)
    yield _datum(f"{target.name} waiting", target.waiting.records)
    yield _datum(f"{target.name} late", max(late_s, 0), SECONDS, limits.unsent_s)
    yield _datum(f"{target.name} quarantined", target.held.get("quarantined", 0), "", limits.quarantined)
    yield _datum(f"{target.name} held months", len(target.held_months), "", Limit(1, 1))


def _datum(label: str, value: int, unit: str = "", limit: Limit | None = None, *, falling: bool = False) -> str:
    """``limit``: reached from below, or from above where the value is ``falling``."""
    edges = ("", "")
    if limit is not None:
        # Ours are reached at the limit itself, a range is left above its end.
        edges = (
            (f"{limit.warning}:", f"{limit.critical}:")
            if falling
            else (f"{limit.warning - 1}", f"{limit.critical - 1}")
        )
    # What a label must not have.
    name = label.translate({ord("="): "_", ord("'"): "_", ord("|"): "_"})
    least = "" if value < 0 else "0"
    return f"'{name}'={value}{unit};{edges[0]};{edges[1]};{least}"


# The options of `status` and `metrics` that say when something is worth a warning.


_OPTIONS = {
    "unsent_s": ("unsent", HOUR_S, "H", "when the oldest unsent record is older than {} hours"),
    "sweep_s": ("sweep", HOUR_S, "H", "when the last sweep is {} hours ago"),
    "spool_files": ("spool", 1, "N", "at {} events in the spool"),
    "spool_s": ("spool-age", HOUR_S, "H", "when the oldest event in the spool is older than {} hours"),
    "certificate_s": ("certificate", DAY_S, "D", "when a certificate expires within {} days"),
    "quarantined": ("quarantine", 1, "N", "at {} records that a target rejects"),
    "implausible": ("implausible", 1, "N", "at {} jobs held because of values that cannot be true"),
    "unmeasured_percent": ("unmeasured", 1, "P", "when {} percent of the jobs of two months have no wall time"),
    "backup_s": ("backup", DAY_S, "D", "when the last backup is older than {} days"),
    "free_mib": ("disk", 1, "MIB", "when less than {} MiB are free on the disk of the databases"),
}


def _thresholds(**given: float) -> Thresholds:
    limits = {
        field: Limit(int(given[f"warn_{field}"] * unit), int(given[f"crit_{field}"] * unit))
        for field, (_name, unit, _metavar, _what) in _OPTIONS.items()
    }
    return Thresholds(**limits)


_DEFAULTS: dict[str, Limit] = Thresholds()._asdict()
threshold_options = in_order(
    *(
        click.option(
            f"--{kind}-{name}",
            f"{kind}_{field}",
            type=click.FloatRange(0),
            default=_DEFAULTS[field][place] / unit,
            metavar=metavar,
            help=f"{word} {what.format(metavar)}; default {_DEFAULTS[field][place] / unit:g}.",
        )
        for field, (name, unit, metavar, what) in _OPTIONS.items()
        for place, (kind, word) in enumerate((("warn", "Warn"), ("crit", "Critical")))
    ),
    together(_thresholds, "limits", [f"{kind}_{field}" for field in _OPTIONS for kind in ("warn", "crit")]),
)
"""--warn-X and --crit-X for each threshold; the command gets what they say as ``limits``."""


# `arcacct status`: one screen, and an exit code for the monitoring.


_GRAVITY = {health.OK: 0, health.UNKNOWN: 1, health.WARNING: 2, health.CRITICAL: 3}
_COLUMNS = ("subject", "severity", "text", "manual")
COLOURS = ("green", "yellow", "red", "magenta")


@click.command(
    epilog=examples(
        "arcacct status",
        "arcacct status --warn-unsent 6 --crit-unsent 48",
        "arcacct status --format json",
        "arcacct status --format nagios",
    )
)
@format_option((*LISTED, "nagios"), "a list of checks: subject, severity (0-3), text, manual", ("json", "nagios"))
@click.pass_context
@threshold_options
def status(ctx: click.Context, form: str, limits: health.Thresholds) -> int:
    """
    Show the health of everything, on one screen and by exit code.

    Exits as monitoring plug-ins do: 0 OK, 1 warning, 2 critical, 3 unknown. The first line is the overall result. It
    needs only the right to read the databases (read_group=) and the certificates.
    """
    try:
        settings = settings_of(ctx)
        site = Site(next_start(ctx), ctx.obj["database"])
    except ConfigError as error:
        # For a plug-in all on one line, without what would begin the figures.
        one_line = " ".join(error.args)
        if form in FORMATS:
            show(_COLUMNS, [("configuration", health.UNKNOWN, one_line, "")], form)
        else:
            known = ConfigError(_no_bar(one_line)) if form == "nagios" else error
            report_error(known, "UNKNOWN: ", err=False)
        return health.UNKNOWN
    found = health.examine(settings)
    checks = [
        check._replace(detail=sanitise_line(check.detail), advice=sanitise_line(check.advice))
        for check in monitored(site, found, limits)
    ]
    verdict = health.worst(checks)
    if form in FORMATS:
        show(_COLUMNS, ((one.subject, one.severity, one.text, one.manual) for one in checks), form)
        return verdict
    if form == "nagios":
        _plug_in(checks, " ".join(perfdata(found, limits)))
        return verdict
    grave = [check.subject for check in checks if check.severity]
    print_line(_coloured(verdict), ": " if grave else "", ", ".join(grave))
    width = max(len(check.subject) for check in checks)
    for check in checks:
        mark = () if check.severity == health.OK else (_coloured(check.severity), ": ")
        print_line(f"{check.subject:<{width}}  ", *mark, check.text)
    return verdict


def _plug_in(checks: list[health.Check], figures: str) -> None:
    """
    One line with the figures behind a bar, then the long output: what is not well, then the rest.

    (A pager shows the first line, so that has the first problem with its text.)
    """
    graver = sorted(checks, key=lambda check: -_GRAVITY[check.severity])
    grave = [check for check in graver if check.severity]
    first = (
        "; ".join([f"{grave[0].subject}: {grave[0].text}", *(check.subject for check in grave[1:])]) if grave else ""
    )
    words = f"{health.WORDS[health.worst(checks)].upper()}: {first or f'{len(checks)} checks'}"
    data(f"{_no_bar(words)} | {sanitise_line(figures, None)}")
    for check in graver:
        data(_no_bar(f"{health.WORDS[check.severity].upper()}: {check.subject}: {check.text}"))


def _no_bar(text: str) -> str:
    # Behind it the monitoring looks for figures.
    return text.replace("|", "/")


def _coloured(severity: int) -> Coloured:
    return Coloured(click.style(health.WORDS[severity].upper(), fg=COLOURS[severity], bold=True))
