"""
`arcacct doctor`: every check before a site goes live, with those of recording and receivers. It changes and sends
nothing.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial

from arcacct.arex.spool_replay import trusted_owners
from arcacct.config.options import TransportOptions
from arcacct.config.review import callouts
from arcacct.database import access
from arcacct.database.access import blamed
from arcacct.database.location import spools
from arcacct.errors import ArcacctError, StoreError, TargetBusy, TargetRefuses
from arcacct.publishing.ledger_rows import iso
from arcacct.publishing.plugin import Outcome, TargetPlugin, error_of
from arcacct.queries import doctor_checks, doctor_host, health_queries
from arcacct.queries.doctor_checks import (
    DAY_S,
    ERROR,
    HOUR_S,
    OK,
    STORE,
    UNTOLD,
    WARNING,
    Check,
    Site,
    Verdict,
    advised,
    ago,
    is_hidden,
    of_error,
    user_name,
)
from arcacct.queries.doctor_host import settings_of
from arcacct.queries.health import UNMEASURED_TODO, Limit, Thresholds, recent_months
from arcacct.queries.health_queries import PASSING, HookCoverage, basis, hook_coverage
from arcacct.records.hold_decisions import NONE, counts
from arcacct.records.holds import HELD, PUBLISHED
from arcacct.targets import plugins
from arcacct.wording import count_of

# Recording: what waits in the spools, who told of the last jobs, and whether the clock agrees with them.


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
            state = health_queries.recorded(con)
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


# The way to each receiver: its name, the connection, TLS both ways, and a question that changes nothing there.
#
# Each kind of target has its checks in its plugin (`TargetPlugin.connectivity_checks`); no message and no record is
# sent.


_CLOCK_WARNING_S, _CLOCK_ERROR_S = 60, 300


def receiver(site: Site, plugin: TargetPlugin) -> Iterator[Verdict]:
    """Everything about one target; done within three times the limit of a question."""
    from arcacct.publishing import transport as publishing_transport  # noqa: PLC0415  HTTP is slow to import

    name, transport = plugin.target.name, plugin.target.transport_options
    probes = plugin.connectivity_checks()
    if transport is None or not probes:
        yield Verdict(name, OK, f"{plugin.target.url}: nothing to connect to")
        return
    if plugin.target.credentials() is None:
        yield Verdict(
            name, WARNING, f"{plugin.target.url}: in clear, without TLS", "write https:// if the receiver has it"
        )
    asked: set[str] = set()
    for probe in probes:
        found = _name(f"{name} name", transport, probe.url, asked)
        if found is not None:
            yield found
            if found.verdict == ERROR:
                return
        try:
            heard = publishing_transport.ask(transport, probe, site.limit_s)
        except ArcacctError as error:
            # A certificate, key or CA directory that cannot be used: the same for every question.
            yield of_error(name, error)
            return
        answer = heard.answer
        if answer.kind == Outcome.ACCEPTED:
            fine = "connection and answer" if probe.url.startswith("http://") else "connection, TLS and answer"
            yield Verdict(f"{name} {probe.what}", OK, f"{_where(probe.url)}: {fine} are right; {probe.shows}")
        else:
            wrong = error_of(answer)
            where = _where(probe.url)
            text = str(wrong) if where in str(wrong) else f"{where}: {wrong}"
            yield advised(f"{name} {probe.what}", ERROR, text, wrong.exit_code)
        if heard.ahead_s is not None:
            yield _receiver_clock(f"{name} {probe.what}", heard.ahead_s)


def _where(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def _name(what: str, transport: TransportOptions, url: str, asked: set[str]) -> Verdict | None:
    """Whether the host has an address; ``None`` if that was told already."""
    from arcacct.publishing.transport import addresses  # noqa: PLC0415  HTTP is slow to import

    try:
        host, found = addresses(transport, url)
    except ValueError as error:
        return Verdict(what, ERROR, str(error), "check targeturl and http_proxy", TargetRefuses.exit_code)
    except OSError as error:
        host = _where(transport.proxy or url).rpartition("@")[2]
        detail = f"{host}: the name cannot be resolved ({error.strerror or error})"
        return Verdict(what, ERROR, detail, "check targeturl, and /etc/resolv.conf of this host", TargetBusy.exit_code)
    if host in asked:
        return None
    asked.add(host)
    via = " (the proxy)" if transport.proxy else ""
    return Verdict(what, OK, f"{host}{via} is {', '.join(found)}")


def _receiver_clock(what: str, ahead_s: int) -> Verdict:
    """This host's clock beside the receiver's."""
    if abs(ahead_s) < _CLOCK_WARNING_S:
        return Verdict(f"{what} clock", OK, f"{abs(ahead_s)} s from this host's")
    detail = f"this host's clock is {abs(ahead_s)} s {'ahead of' if ahead_s > 0 else 'behind'} the receiver's"
    advice = "see that chronyd or ntpd runs on this host: certificates, and ends of jobs, are judged by it"
    if abs(ahead_s) < _CLOCK_ERROR_S:
        return Verdict(f"{what} clock", WARNING, detail, advice)
    return Verdict(f"{what} clock", ERROR, detail, advice, TargetRefuses.exit_code)


def not_asked(reason: str, advice: str = "") -> Verdict:
    """What is said in the place of all of it."""
    return Verdict("receivers", UNTOLD, reason, advice)


# `arcacct doctor`: everything that has to be right before a site goes live, looked at from the ground up.
#
# A check is a function of a `Site` that gives verdicts; one that fails is a verdict, and so is one that takes too long:
# the others go on. Nothing is changed and nothing is sent. Each runs in a thread of its own, since a file system or a
# resolver that does not answer cannot be interrupted; receivers are asked meanwhile, side by side.


CHECKS: tuple[tuple[str, Check], ...] = (
    ("configuration", doctor_checks.configuration),
    ("permissions", doctor_checks.permissions),
    ("control directory", doctor_checks.control_directory),
    ("A-REX", doctor_checks.running),
    ("callouts", doctor_checks.states),
    ("launcher", doctor_host.launcher),
    ("place", doctor_host.place),
    ("space", doctor_host.space),
    ("database", doctor_host.databases),
    ("backup", doctor_host.backups),
    ("spool", spooled),
    ("recording", recorded_by),
    ("values", values),
    ("targets", doctor_checks.targets),
    ("credentials", doctor_checks.credentials),
)
"""From the ground up; each with the name under which it is told that it could not be done."""


def examine(site: Site, *, limit_s: float, offline: bool) -> Iterator[Verdict]:
    """
    Every verdict, in the order of the checks; done after ``limit_s`` seconds, whoever does not answer.

    ``offline``: nothing is connected to, nor any name looked up.
    """
    ends = time.monotonic() + limit_s
    # Receivers first: what they take is over by the time that they are told.
    asked = [] if offline else _asked(site)
    for name, check in CHECKS:
        yield from _gathered(name, _begun(partial(check, site)), ends)
    if offline:
        yield not_asked("not asked (--offline)")
    elif site.settings is None:
        yield not_asked("not asked, since the configuration has errors", "mend it first")
    for name, results in asked:
        yield from _gathered(name, results, ends)


Results = queue.SimpleQueue[Verdict | Exception | None]
"""Verdicts as they come; ``None`` or what was raised is the last."""


def _asked(site: Site) -> list[tuple[str, Results]]:
    if site.settings is None:
        return []
    return [(plugin.target.name, _begun(partial(receiver, site, plugin))) for plugin in plugins(site.settings)]


def _begun(check: Callable[[], Iterable[Verdict]]) -> Results:
    results: Results = queue.SimpleQueue()

    def work() -> None:
        try:
            for verdict in check():
                results.put(verdict)
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            results.put(error)
        else:
            results.put(None)

    # Nobody waits for it at the end of the process.
    threading.Thread(target=work, daemon=True).start()
    return results


def _gathered(name: str, results: Results, ends: float) -> Iterator[Verdict]:
    while True:
        try:
            found = results.get(timeout=max(0.01, ends - time.monotonic()))
        except queue.Empty:
            advice = "see what does not answer (a file system, a resolver, a receiver), or give it longer by --timeout"
            yield Verdict(name, UNTOLD, "not done within the time limit", advice, TargetBusy.exit_code)
            return
        if found is None:
            return
        if isinstance(found, Exception):
            yield _failed(name, found)
            return
        yield found


def _failed(name: str, error: Exception) -> Verdict:
    if isinstance(error, OSError):
        reason = f"{error.filename or 'the system'}: {error.strerror or error}"
        return Verdict(name, UNTOLD, reason, "run the doctor as the user of A-REX, usually root", StoreError.exit_code)
    # What comes out of a damaged database may make anything fail.
    known = error if isinstance(error, ArcacctError) else blamed(error)
    if known is not None:
        return of_error(name, known)
    reason = f"the check itself failed ({type(error).__name__}: {error})"
    return Verdict(name, UNTOLD, reason, "please report it", ArcacctError.exit_code)
