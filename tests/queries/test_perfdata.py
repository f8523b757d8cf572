"""`arcacct status --format nagios`: what monitoring plug-ins print, read as the guidelines for them say."""

from __future__ import annotations

import os
import re
import time

from installed import arcacct
from watched_site import DAY_S, TARGET

from arcacct.health import facts

DATUM = re.compile(r"'([^'=|]+)'=(-?\d+)(s|B|c|%|)((?:;[\d:~@.-]*){0,4})(?: |$)")
"""``'label'=value[unit];[warning];[critical];[minimum];[maximum]`` (Monitoring Plugins Development Guidelines, 2.6)."""


def _read(text: str) -> tuple[str, dict[str, tuple[int, str, list[str]]]]:
    """The first line before its bar, and the figures behind it; no other line may have a bar."""
    first, *rest = text.splitlines()
    assert not any("|" in line for line in rest)
    words, bar, figures = first.partition(" | ")
    assert bar
    assert DATUM.sub("", figures) == ""
    return words, {
        label: (int(value), unit, limits.split(";")[1:]) for label, value, unit, limits in DATUM.findall(figures)
    }


def _alarms(value: int, limit: str) -> bool:
    """Whether a value is outside of a range, as a monitoring reads it."""
    low, colon, high = limit.rpartition(":")
    return value < float(low or 0) or (value > float(high) if high else not colon)


def test_figures_of_a_site_that_is_well(site) -> None:
    """A verdict with the figures, no threshold reached, and a line for each check."""
    done = arcacct("--config", site.conf, "status", "--format", "nagios")

    words, figures = _read(done.stdout)

    assert done.returncode == facts.OK
    assert words.startswith("OK: ")
    assert {"jobs", "spool", "sweep age", "sgas:s waiting", "sgas:s quarantined", "disk free"} <= {*figures}
    assert not any(_alarms(value, limit) for value, _unit, limits in figures.values() for limit in limits[:2] if limit)
    assert figures["sgas:s late"][1:] == ("s", [str(DAY_S - 1), str(3 * DAY_S - 1), "0"])
    assert figures["disk free"][1:] == ("B", [f"{1024 * 2**20}:", f"{128 * 2**20}:", "0"])


def test_figures_alarm_where_the_checks_do(site) -> None:
    """The thresholds in the figures and the verdict agree, at the limit itself, too."""
    os.makedirs(site.here.spool)
    for number in range(100):
        with open(f"{site.here.spool}/{time.time_ns() + number}-1-FINISHED-J{number}", "w", encoding="utf-8") as file:
            file.write("version=1\n")
    site.certificate(10)

    done = arcacct("--config", site.conf, "status", "--format", "nagios")
    words, figures = _read(done.stdout)

    assert done.returncode == facts.WARNING
    assert words.startswith("WARNING: spool: 100 events, ")
    alarmed = {label for label, (value, _unit, limits) in figures.items() if limits[0] and _alarms(value, limits[0])}
    assert {label.partition(" ")[0] for label in alarmed} == {"spool", "certificate"}
    assert not _alarms(99, figures["spool"][2][0])


def test_what_cannot_be_known_is_one_line_and_3(site) -> None:
    """A broken configuration is UNKNOWN, whatever is written in it."""
    site.configure(f"{TARGET}a | b\nc\n")

    done = arcacct("--config", site.conf, "status", "--format", "nagios")

    assert done.returncode == facts.UNKNOWN
    (line,) = done.stdout.splitlines()
    assert line.startswith("UNKNOWN: ")
    assert "|" not in line
