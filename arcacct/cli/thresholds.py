"""The options of `status` and `metrics` that say when something is worth a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from arcacct.asking.health import DAY_S, HOUR_S, Thresholds

_OPTIONS = {
    "unsent": ("unsent_s", HOUR_S, "H", "hours that records wait for a target"),
    "sweep": ("sweep_s", HOUR_S, "H", "hours since the last sweep"),
    "spool": ("spool_files", 1, "N", "events in the spool"),
    "spool-age": ("spool_s", HOUR_S, "H", "hours that an event is in the spool"),
    "certificate": ("certificate_s", DAY_S, "D", "days that a certificate is still good"),
    "quarantine": ("quarantined", 1, "N", "records that a target refuses"),
}


def threshold_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --warn-X and --crit-X for each threshold."""
    for name, (field, unit, metavar, what) in reversed(_OPTIONS.items()):
        for place, kind, word in ((1, "crit", "Critical"), (0, "warn", "Warning")):
            default = Thresholds()._asdict()[field][place] / unit
            command = click.option(
                f"--{kind}-{name}",
                type=click.FloatRange(0),
                default=default,
                metavar=metavar,
                help=f"{word} at so many {what}; default {default:g}.",
            )(command)
    return command


def thresholds(given: dict[str, Any]) -> Thresholds:
    """The thresholds that the options give."""
    values = {}
    for name, (field, unit, _metavar, _what) in _OPTIONS.items():
        option = name.replace("-", "_")
        values[field] = (int(given[f"warn_{option}"] * unit), int(given[f"crit_{option}"] * unit))
    return Thresholds(**values)
