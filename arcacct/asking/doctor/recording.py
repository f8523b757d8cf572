"""Recording: what waits in the spools, who told of the last jobs, and whether the clock agrees with them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing

from arcacct.arex.spool_replay import trusted_owners
from arcacct.asking import health_rows
from arcacct.asking.basis import basis
from arcacct.asking.doctor.launcher import settings_of
from arcacct.asking.doctor.verdict import (
    DAY_S,
    ERROR,
    HOUR_S,
    OK,
    STORE,
    UNTOLD,
    WARNING,
    Site,
    Verdict,
    advised,
    ago,
    is_hidden,
    user_name,
)
from arcacct.asking.health import UNMEASURED_TODO, Limit, Thresholds, recent_months
from arcacct.asking.who_recorded import PASSING, HookCoverage, hook_coverage
from arcacct.config.review import callouts
from arcacct.database import access
from arcacct.database.location import spools
from arcacct.errors import ArcacctError
from arcacct.publishing.ledger_rows import iso
from arcacct.records.hold_decisions import NONE, counts
from arcacct.records.holds import HELD, PUBLISHED
from arcacct.wording import count_of

LATELY_DAYS = 7
_CLOCK_TOLERANCE_S = 300
_WAITS_S = HOUR_S
"""A sweep runs every quarter of an hour: what is older than this, none has taken."""
_LONGEST_BREAK_S = 60
_SWEEP_S = Limit(HOUR_S, DAY_S)


def spooled(site: Site) -> Iterator[Verdict]:
    """Every folder in which events may wait: those of the sweep, and what the launcher says besides."""
    here = site.here
    if here is None:
        return
    try:
        known = spools(here)
    except ArcacctError as error:
        yield advised("spool", ERROR, str(error), error.exit_code)
        known = [here.spool]
    yield from _breaker(here.breaker, site.now)
    own = [settings_of(one.program) for one in callouts(site.conf)]
    others = dict.fromkeys(path for one in own for path in (one.spool, one.fallback) if path and path not in known)
    trusted = trusted_owners(here)
    for folder in (*known, *others):
        yield from _folder(folder, trusted, site.now, is_swept=folder in known)


def _breaker(path: str, now: int) -> Iterator[Verdict]:
    """After a hook that was too slow the next ones spool at once, for some seconds."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(32).strip()
    except OSError:
        return
    if text.isdigit() and now < int(text) <= now + _LONGEST_BREAK_S:
        detail = f"a hook was too slow a moment ago, so all events are spooled until {iso(int(text))} ({path})"
        yield Verdict("spool", WARNING, detail, "if that comes again, see what the disk of the database is busy with")


def _folder(folder: str, trusted: set[int], now: int, *, is_swept: bool) -> Iterator[Verdict]:
    try:
        owner = os.stat(folder).st_uid
        names = os.listdir(folder)
        aside = len(os.listdir(os.path.join(folder, "unusable"))) if "unusable" in names else 0
    except FileNotFoundError:
        # Made by the first event.
        if is_swept:
            yield Verdict("spool", OK, f"{folder} is not there yet: nothing has waited")
        return
    if owner not in trusted:
        detail = (
            f"{folder} belongs to {user_name(owner)}, who is neither root nor the user of A-REX: no event is believed"
        )
        yield Verdict("spool", ERROR, detail, "look who made it, and chown it to the user of A-REX", STORE)
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        detail = f"{folder} cannot be written by {user_name(os.geteuid())}"
        yield Verdict("spool", ERROR, detail, "run as the user of A-REX, or mend its mode", STORE)
        return
    times = [int(found[0]) for name in names if (found := re.match(r"\d{10}", name))]
    waiting = count_of(len(times), "event")
    oldest = now - min(times, default=now)
    if times and not is_swept:
        detail = f"{waiting} in {folder}, the oldest {ago(oldest)} old, and no sweep looks there"
        yield Verdict(
            "spool", ERROR, detail, f"write spool_fallback={folder} into [arcacct] and run `arcacct sweep`", STORE
        )
    elif times and oldest > _WAITS_S:
        detail = f"{waiting} in {folder}, the oldest {ago(oldest)} old: no sweep takes them"
        yield Verdict(
            "spool", WARNING, detail, "run `arcacct sweep` and read what it says; is arcacct-sweep.timer active?"
        )
    else:
        yield Verdict("spool", OK, f"{folder}: {waiting if times else 'nothing'} waits for the next sweep")
    if aside:
        detail = f"{count_of(aside, 'file')} in {folder}/unusable that no sweep can use"
        yield Verdict("spool", WARNING, detail, "look at them: each is an event of a job; remove what is of no use")


def recorded_by(site: Site) -> Iterator[Verdict]:
    """By whom the last jobs were recorded, when the sweep ran last, and what the newest events say of the clock."""
    here = site.here
    if here is None or not os.path.exists(here.database):
        hidden = here is not None and is_hidden(here.database)
        yield Verdict(
            "recording", UNTOLD, "the database cannot be read, as told above" if hidden else "no database yet"
        )
        return
    try:
        with access.translating(here.database), closing(access.read_accounting(here)) as con:
            found = hook_coverage(con, site.now - LATELY_DAYS * DAY_S)
            state = health_rows.recorded(con)
    except ArcacctError:
        yield Verdict("recording", UNTOLD, "the database cannot be read, as told above")
        return
    if not site.is_without_arex:
        yield _share(site, found)
        yield _sweep(site.now, state.last_sweep_s)
    yield _clock(site.now, state.last_event_s)


def _share(site: Site, found: HookCoverage) -> Verdict:
    last = f"the last {LATELY_DAYS} days"
    if not found.jobs:
        return Verdict("recording", UNTOLD, f"no job of A-REX's ended in {last}")
    share = f"the callouts told of {found.by_hook} of {count_of(found.jobs, 'job')} that ended in {last}"
    called = {one.state for one in callouts(site.conf)}
    if len(called & {*PASSING}) < len(PASSING):
        which = "some states have" if called else "there is"
        detail = f"{which} no callout, so it cannot be seen of which jobs the callouts told"
        return Verdict("recording", UNTOLD, detail, "add the callouts that are missing")
    if not found.by_hook:
        return Verdict(
            "recording",
            ERROR,
            f"{share}: A-REX never calls the launcher, and only the sweep records",
            "restart A-REX, and look for statecallout and `Plugin at state` in its log",
            STORE,
        )
    if found.by_sweep * 10 > found.jobs:
        advice = "look for `Plugin at state` in A-REX's log: callouts that fail or are too slow are there"
        return Verdict("recording", WARNING, f"{share}: the others were found by the sweep alone", advice)
    return Verdict("recording", OK, share)


def _sweep(now: int, last_s: int | None) -> Verdict:
    advice = "run `systemctl enable --now arcacct-sweep.timer`"
    if last_s is None:
        return Verdict("sweep", WARNING, "never ran", advice)
    age_s = now - last_s
    text = f"the last one ended {ago(age_s)} ago"
    if age_s > _SWEEP_S.critical:
        return Verdict("sweep", ERROR, text, advice, STORE)
    if age_s > _SWEEP_S.warning:
        return Verdict("sweep", WARNING, text, advice)
    return Verdict("sweep", OK, text)


def _clock(now: int, event_s: int | None) -> Verdict:
    if event_s is None:
        return Verdict("clock", UNTOLD, f"{iso(now)}, and no event to compare it with")
    if event_s > now + _CLOCK_TOLERANCE_S:
        detail = f"{iso(now)}, and A-REX's newest event is of {iso(event_s)}: this clock is behind, or was ahead"
        return Verdict(
            "clock", ERROR, detail, "see that chronyd or ntpd runs: records of the future are not sent", STORE
        )
    return Verdict("clock", OK, f"{iso(now)}, after A-REX's newest event ({iso(event_s)})")


def values(site: Site) -> Iterator[Verdict]:
    """Whether values of recorded jobs cannot be true, or nobody measured them."""
    if site.here is None or not os.path.exists(site.here.database):
        return
    with closing(access.read_accounting(site.here)) as con:
        found = counts(con)
        rests_on = basis(con, recent_months(site.now))
    held, published = found.get(HELD, NONE), found.get(PUBLISHED, NONE)
    if held.records:
        detail = f"{count_of(held.records, 'job')} held, {held.why}: {held.text}"
        yield Verdict("values", WARNING, detail, "look at `arcacct quarantine list`, and at what reports such values")
    if published.records:
        detail = f"{count_of(published.records, 'job')} published with values that cannot be true: {published.text}"
        yield Verdict("values", WARNING, detail, "decide about them: `arcacct quarantine decide --published`")
    if not held.records and not published.records:
        yield Verdict("values", OK, "no job has values that cannot be true")
    if rests_on.jobs:
        is_much = rests_on.without_wall_percent >= Thresholds().unmeasured_percent.warning
        detail = f"jobs of this month and the last: {rests_on}"
        yield Verdict("measured", WARNING if is_much else OK, detail, UNMEASURED_TODO if is_much else "")
