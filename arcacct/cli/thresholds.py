"""The options of `status` and `metrics` that say when something is worth a warning."""

from __future__ import annotations

import click

from arcacct.cli.arguments import in_order, together
from arcacct.queries.health import DAY_S, HOUR_S, Limit, Thresholds

_OPTIONS = {
    "unsent_s": ("unsent", HOUR_S, "H", "when the oldest unsent record is older than {} hours"),
    "sweep_s": ("sweep", HOUR_S, "H", "when the last sweep is {} hours ago"),
    "spool_files": ("spool", 1, "N", "at {} events in the spool"),
    "spool_s": ("spool-age", HOUR_S, "H", "when the oldest event in the spool is older than {} hours"),
    "certificate_s": ("certificate", DAY_S, "D", "when a certificate expires within {} days"),
    "quarantined": ("quarantine", 1, "N", "at {} records that a target refuses"),
    "implausible": ("implausible", 1, "N", "at {} jobs that are held, since values cannot be true"),
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
