"""`arcacct status`: one screen and an exit code for monitoring, with performance data for plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from arcacct.cli.console import Coloured, data, examples, print_error, print_line, report_error
from arcacct.cli.options import Parsed, in_order, next_start, settings_of
from arcacct.cli.tables import FORMATS, LISTED, format_option, show
from arcacct.config.options import LIMITS
from arcacct.config.settings import Settings
from arcacct.config.values import Limit, Thresholds
from arcacct.database import durable
from arcacct.errors import ConfigError
from arcacct.health import facts
from arcacct.health.databases import TargetState
from arcacct.health.doctor import monitored
from arcacct.health.doctor_checks import Site
from arcacct.health.facts import Health
from arcacct.records.hold_decisions import NONE
from arcacct.records.holds import HELD
from arcacct.wording import sanitise_line

# Figures for monitoring plug-ins: performance data by the Monitoring Plugins Development Guidelines.
# ``'label'=value[unit];warning;critical;minimum``, where a threshold is a range: ``9`` is an alarm above 9, ``9:``
# below.


SECONDS, BYTES = "s", "B"


def perfdata(found: Health, limits: Thresholds) -> Iterator[str]:
    """Return the known figures; unknown ones are absent."""
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
            yield _datum(f"certificate {path}", end - found.now, SECONDS, limits.certificate_s)
    for disk in found.disks[:1]:
        yield _datum("disk free", disk.free_bytes, BYTES, limits.free_bytes)


def _of_target(now: int, target: TargetState, limits: Thresholds) -> Iterator[str]:
    oldest_s = target.waiting.oldest_end_s
    late_s = 0 if oldest_s is None else now - max(oldest_s, target.due_s)
    yield _datum(f"{target.name} waiting", target.waiting.records)
    yield _datum(f"{target.name} late", max(late_s, 0), SECONDS, limits.unsent_s)
    yield _datum(f"{target.name} quarantined", target.held.get("quarantined", 0), "", limits.quarantined)
    yield _datum(f"{target.name} held months", len(target.held_months), "", Limit(1, 1))


def _datum(label: str, value: int, unit: str = "", limit: Limit | None = None) -> str:
    edges = ["", ""]
    if limit is not None:
        # Our limits include the limit itself; a range includes its end.
        edges = [f"{edge}:" if limit.is_minimum else f"{edge - 1}" for edge in (limit.warning, limit.critical)]
    # Characters that a label must not contain.
    name = label.translate({ord("="): "_", ord("'"): "_", ord("|"): "_"})
    return f"'{name}'={value}{unit};{edges[0]};{edges[1]};{'' if value < 0 else '0'}"


# Options from before warn_X and crit_X of [arcacct]; remove them in 0.4.


# Limits after the first ten never had an option.
_OBSOLETE = {f"--{spec.name.replace('_', '-')}": spec for spec in LIMITS[:20]}
threshold_options = in_order(
    *(
        click.option(name, spec.field, type=Parsed("limit", spec.read), hidden=True, help=f"As {spec.name}=.")
        for name, spec in _OBSOLETE.items()
    )
)
"""--warn-X and --crit-X; `limits_of` interprets them."""


def limits_of(settings: Settings, given: Mapping[str, int | None], *, is_quiet: bool = False) -> Thresholds:
    """Return the limits of the settings, replaced by those of obsolete options, which are named unless ``is_quiet``."""
    used = {name: spec.name for name, spec in _OBSOLETE.items() if given[spec.field] is not None}
    if used and not is_quiet:
        print_error(f"{', '.join(used)}: obsolete; set {', '.join(used.values())} in [arcacct] of arcacct.conf")
    return settings.thresholds.changed(given)


# `arcacct status`: one screen, and an exit code for the monitoring.


_GRAVITY = {facts.OK: 0, facts.UNKNOWN: 1, facts.WARNING: 2, facts.CRITICAL: 3}
_COLUMNS = ("subject", "severity", "text", "manual")
COLOURS = ("green", "yellow", "red", "magenta")


@click.command(epilog=examples("arcacct status", "arcacct status --format json", "arcacct status --format nagios"))
@format_option((*LISTED, "nagios"), "a list of checks: subject, severity (0-3), text, manual", ("json", "nagios"))
@click.pass_context
@threshold_options
def status(ctx: click.Context, form: str, **given: int | None) -> int:
    """
    Show the health of everything, on one screen and by exit code.

    Exits as monitoring plug-ins do: 0 OK, 1 warning, 2 critical, 3 unknown. The first line is the overall result. It
    needs only the right to read the databases (read_group=) and the certificates.
    """
    try:
        settings = settings_of(ctx)
        site = Site(next_start(ctx), ctx.obj["database"])
    except ConfigError as error:
        # A plug-in prints all on one line, without the character that starts the figures.
        one_line = " ".join(error.args)
        if form in FORMATS:
            show(_COLUMNS, [("configuration", facts.UNKNOWN, one_line, "")], form)
        else:
            known = ConfigError(_no_bar(one_line)) if form == "nagios" else error
            report_error(known, "UNKNOWN: ", err=False)
        return facts.UNKNOWN
    limits = limits_of(settings, given, is_quiet=form in ("json", "nagios"))
    found = facts.examine(settings)
    checks = [
        check._replace(detail=sanitise_line(check.detail), advice=sanitise_line(check.advice))
        for check in monitored(site, found, limits)
    ]
    verdict = facts.worst(checks)
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
        mark = () if check.severity == facts.OK else (_coloured(check.severity), ": ")
        print_line(f"{check.subject:<{width}}  ", *mark, check.text)
    return verdict


def _plug_in(checks: list[facts.Check], figures: str) -> None:
    """
    Return one line with the figures after a bar, then the long output: first the problems, then the rest.

    (A pager shows the first line, so that has the first problem with its text.)
    """
    graver = sorted(checks, key=lambda check: -_GRAVITY[check.severity])
    grave = [check for check in graver if check.severity]
    first = (
        "; ".join([f"{grave[0].subject}: {grave[0].text}", *(check.subject for check in grave[1:])]) if grave else ""
    )
    words = f"{facts.WORDS[facts.worst(checks)].upper()}: {first or f'{len(checks)} checks'}"
    data(f"{_no_bar(words)} | {sanitise_line(figures, None)}")
    for check in graver:
        data(_no_bar(f"{facts.WORDS[check.severity].upper()}: {check.subject}: {check.text}"))


def _no_bar(text: str) -> str:
    # The monitoring reads figures after it.
    return text.replace("|", "/")


def _coloured(severity: int) -> Coloured:
    return Coloured(click.style(facts.WORDS[severity].upper(), fg=COLOURS[severity], bold=True))
