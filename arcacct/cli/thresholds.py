"""The options of `status` and `metrics` that say when something is worth a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from arcacct.asking.health import DAY_S, HOUR_S, Limit, Thresholds
from arcacct.cli.arguments import together

_Result = TypeVar("_Result")
_OPTIONS = {
    "unsent_s": ("unsent", HOUR_S, "H", "hours that records wait for a target"),
    "sweep_s": ("sweep", HOUR_S, "H", "hours since the last sweep"),
    "spool_files": ("spool", 1, "N", "events in the spool"),
    "spool_s": ("spool-age", HOUR_S, "H", "hours that an event is in the spool"),
    "certificate_s": ("certificate", DAY_S, "D", "days that a certificate is still good"),
    "quarantined": ("quarantine", 1, "N", "records that a target refuses"),
}


def threshold_options(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Add --warn-X and --crit-X for each threshold; the command gets what they say as ``limits``."""
    names = [f"{kind}_{field}" for field in _OPTIONS for kind in ("warn", "crit")]
    command = together(_thresholds, "limits", names)(command)
    for field, default in reversed(Thresholds()._asdict().items()):
        name, unit, metavar, what = _OPTIONS[field]
        for kind, word, value in (("crit", "Critical", default.critical), ("warn", "Warning", default.warning)):
            command = click.option(
                f"--{kind}-{name}",
                f"{kind}_{field}",
                type=click.FloatRange(0),
                default=value / unit,
                metavar=metavar,
                help=f"{word} at so many {what}; default {value / unit:g}.",
            )(command)
    return command


def _thresholds(**given: float) -> Thresholds:
    limits = {
        field: Limit(int(given[f"warn_{field}"] * unit), int(given[f"crit_{field}"] * unit))
        for field, (_name, unit, _metavar, _what) in _OPTIONS.items()
    }
    return Thresholds(**limits)
