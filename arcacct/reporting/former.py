"""
What the last report of a month said, to tell what has changed since: a small file beside the databases.

Two reports of the same data are one: the second compares with what the first compared with, so it says the same.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

from arcacct.config.paths import Places
from arcacct.database.location import REPORTS, own_as
from arcacct.files.json_reader import parsed
from arcacct.files.safe_open import private

Figures = dict[str, list[float]]
"""By VO (of usage) or place (of publishing): its figures."""
_LARGEST_BYTES = 2**24


class PreviousReport(NamedTuple):
    """What a report said of its month."""

    written_s: int
    incarnation: str
    seq: int
    """Of FinishedLog: what was logged later was recorded or changed later. Of this incarnation alone."""
    usage: Figures
    """By VO: jobs, core hours, CPU hours."""
    places: Figures
    """By target: jobs that it was given; empty when publishing was not compared."""


class ReportHistory(NamedTuple):
    """The reports of a month that were remembered."""

    last: PreviousReport | None = None
    before: PreviousReport | None = None
    """One that said something else."""


def _path(here: Places) -> str:
    return f"{here.directory}/{REPORTS}"


def former(here: Places, month: str) -> ReportHistory:
    """What is remembered of a month (YYYY-MM); nothing where the file is missing, unreadable or damaged."""
    found = _read(here).get(month)
    with suppress(TypeError, ValueError, AttributeError):
        last, before = found or (None, None)
        return ReportHistory(_said(last), _said(before))
    return ReportHistory()


def _said(one: Any) -> PreviousReport | None:
    if one is None:
        return None
    written_s, incarnation, seq, usage, places = one
    for figures in (usage, places):
        for name, numbers in figures.items():
            if not isinstance(name, str) or not all(isinstance(number, int | float) for number in numbers):
                raise TypeError(name)
    return PreviousReport(int(written_s), str(incarnation), int(seq), usage, places)


def compared_with(known: ReportHistory, now: PreviousReport, *, is_unchanged: bool) -> PreviousReport | None:
    """The report to compare with; ``is_unchanged``: no job of the month was logged since the last one."""
    if known.last is not None and is_unchanged and _same(known.last, now):
        return known.before
    return known.last


def _same(last: PreviousReport, now: PreviousReport) -> bool:
    return last.usage == now.usage and (last.places == now.places or not now.places)


def save(here: Places, month: str, known: ReportHistory, now: PreviousReport, *, is_unchanged: bool) -> None:
    """Keep what this report says. Raises OSError where this user may not write."""
    if known.last is not None and is_unchanged and _same(known.last, now):
        return
    every = _read(here)
    # The places of a report that did not ask for them are those of the one before.
    said = now if now.places or known.last is None else now._replace(places=known.last.places)
    every[month] = [said, known.last]
    path = _path(here)
    temporary = f"{path}.{os.getpid()}"
    try:
        # What a killed process left.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with open(temporary, "xb", opener=private) as file:
            file.write(json.dumps(every, sort_keys=True).encode())
            own_as(file.fileno(), here.directory)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _read(here: Places) -> dict[str, Any]:
    try:
        with open(_path(here), "rb") as file:
            found = parsed(file.read(_LARGEST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
