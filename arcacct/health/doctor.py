"""
`arcacct doctor`: every check before a site goes live, with those of recording and receivers. It changes and sends
nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from arcacct.arex.spool_replay import unusable_files
from arcacct.config.options import TransportOptions
from arcacct.config.values import Thresholds, proxy_for
from arcacct.database import access
from arcacct.database.access import blamed
from arcacct.database.location import spools
from arcacct.errors import ArcacctError, StoreError, TargetBusy, TargetRefuses
from arcacct.health import checks, doctor_checks, doctor_host
from arcacct.health.doctor_checks import STORE, Site, Step, of_error
from arcacct.health.doctor_host import PARTS, ownership
from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING, Check, Health, advised
from arcacct.publishing.answers import Outcome, error_of
from arcacct.publishing.plugin import TargetPlugin
from arcacct.targets import plugins
from arcacct.wording import span_of

# The checks that `arcacct status` shares, and the files that no sweep can use.


def state(site: Site) -> Iterator[Check]:
    """The checks of recording and publishing, which `arcacct status` also has."""
    if site.health is None:
        yield Check("database", UNKNOWN, "the configuration does not name it", "fix it first")
        return
    rows = (row for row in checks.CHECKS if row.by_doctor)
    for one in checks.judge(site.health, site.limits, rows):
        yield one._replace(exit_code=one.exit_code or STORE) if one.severity == CRITICAL else one
    for target in site.health.targets:
        # A receiver may answer the doctor and still refuse records: AUDITOR never checks who may write.
        if error := checks.last_error(target):
            yield Check(target.name, WARNING, f"last error: {error}", "the next run of `arcacct publish` tries again")


def monitored(site: Site, found: Health, limits: Thresholds) -> list[Check]:
    """The content of `arcacct status` and `metrics`: errors of the configuration, and the state of the databases."""
    about = (*doctor_checks.configuration(site), *doctor_checks.states(site))
    wrong = [one._replace(manual="reference/configuration.md") for one in about if one.severity == CRITICAL]
    return [*wrong, *checks.judge(found, limits)]


def spools_of(site: Site) -> Iterator[Check]:
    """Report what to do with each file of a spool that no sweep can use."""
    here = site.here
    if here is None:
        return
    try:
        known = spools(here)
    except ArcacctError:
        # It is already among the problems of the database.
        known = [here.spool]
    with ExitStack() as stack:
        con = None
        with suppress(ArcacctError):
            con = stack.enter_context(closing(access.read_accounting(here)))
        for path, what, todo in unusable_files(known, con):
            yield Check("spool", WARNING, f"{path}: {what}", todo)


# The connection to each receiver: its name, the connection, TLS in both directions, and a request that changes nothing
# there.  Each kind of target has its checks in its plugin (`TargetPlugin.connectivity_checks`); no message and no
# record is sent.


_CLOCK_WARNING_S, _CLOCK_ERROR_S = 60, 300
_WAYS = {TargetBusy.exit_code: "check host and port of targeturl, the firewalls, and whether the receiver runs"}
"""What to do about a missing answer, if the answer does not say it."""
_ASK = "check targeturl, and ask the administrator of the receiver"


def receiver(site: Site, plugin: TargetPlugin) -> Iterator[Check]:
    """Check everything about one target; takes at most three times the limit of one request."""
    from arcacct.publishing import transport as publishing_transport  # noqa: PLC0415  HTTP is slow to import

    name, transport = plugin.target.name, plugin.target.transport_options
    probes = plugin.connectivity_checks()
    if transport is None or not probes:
        yield Check(name, OK, f"{plugin.target.url}: nothing to connect to")
        return
    if plugin.target.credentials() is None:
        detail = f"{plugin.target.url}: not encrypted (no TLS)"
        yield Check(name, WARNING, detail, "use https:// if the receiver supports it")
    asked: set[str] = set()
    for probe in probes:
        found = host_name(f"{name} name", transport, probe.url, asked)
        if found is not None:
            yield found
            if found.severity == CRITICAL:
                return
        try:
            answer, ahead_s = publishing_transport.ask(transport, probe, site.limit_s)
        except ArcacctError as error:
            # A certificate, key or CA directory that cannot be used: the same for every request.
            yield of_error(name, error)
            return
        if answer.kind == Outcome.ACCEPTED:
            fine = "connection and answer" if probe.url.startswith("http://") else "connection, TLS and answer"
            yield Check(f"{name} {probe.what}", OK, f"{_where(probe.url)}: {fine} are right; {probe.shows}")
        else:
            wrong = error_of(answer)
            where = _where(probe.url)
            text = str(wrong) if where in str(wrong) else f"{where}: {wrong}"
            found = advised(f"{name} {probe.what}", CRITICAL, text, wrong.exit_code)
            yield found if found.advice else found._replace(advice=_WAYS.get(wrong.exit_code, _ASK))
        if ahead_s is not None:
            yield _receiver_clock(f"{name} {probe.what}", ahead_s)


def _where(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]


def host_name(what: str, transport: TransportOptions, url: str, asked: set[str]) -> Check | None:
    """Check whether the host has an address; ``None`` if this was reported before."""
    from arcacct.http_client import addresses  # noqa: PLC0415  HTTP is slow to import

    proxy = proxy_for(url, transport.proxy, transport.no_proxy)
    try:
        host, found = addresses(proxy or url)
    except ValueError:
        # The text of the error may contain a password.
        text, advice = "not a usable URL", "check targeturl and http_proxy"
        return Check(what, CRITICAL, text, advice, TargetRefuses.exit_code)
    except OSError as error:
        host = urlsplit(proxy or url).hostname or ""
        if host in asked:
            return None
        asked.add(host)
        detail = f"{host}: the name cannot be resolved ({error.strerror or error})"
        return Check(what, CRITICAL, detail, "check targeturl, and /etc/resolv.conf of this host", TargetBusy.exit_code)
    if host in asked:
        return None
    asked.add(host)
    via = " (the proxy)" if proxy else ""
    return Check(what, OK, f"{host}{via} is {', '.join(found)}")


def _receiver_clock(what: str, ahead_s: int) -> Check:
    """This host's clock compared with the receiver's."""
    if abs(ahead_s) < _CLOCK_WARNING_S:
        return Check(f"{what} clock", OK, f"{span_of(abs(ahead_s))} from this host's")
    detail = f"this host's clock is {span_of(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the receiver's"
    advice = "check that chronyd or ntpd runs on this host: certificates and ends of jobs depend on its clock"
    if abs(ahead_s) < _CLOCK_ERROR_S:
        return Check(f"{what} clock", WARNING, detail, advice)
    return Check(f"{what} clock", CRITICAL, detail, advice, TargetRefuses.exit_code)


def not_asked(reason: str, advice: str = "") -> Check:
    """The text in place of all these checks."""
    return Check("receivers", UNKNOWN, reason, advice)


# One list of checks for all commands, in the order of their dependencies. A check is a function of a `Site` that
# returns verdicts. A check that fails or takes too long gives a verdict as well, and the others continue. Checks change
# and send nothing. Each runs in its own thread, because a file system or a resolver that does not answer cannot be
# interrupted; receivers are checked meanwhile, in parallel.


class HostCheck(NamedTuple):
    """A row of the table of checks."""

    name: str
    """The subject of the verdict for a check that failed."""
    judge: Step
    step: str = ""
    """The step of `arcacct setup` that shows its verdicts; empty: none."""


CHECKS = (
    HostCheck("configuration", doctor_checks.configuration, "configuration"),
    *(HostCheck("permissions", partial(ownership, part=part), part) for part in PARTS),
    HostCheck("clock", doctor_checks.files_of_jobs, "clock"),
    HostCheck("control directory", doctor_checks.control_directory, "database"),
    HostCheck("A-REX", doctor_checks.running),
    HostCheck("callouts", doctor_checks.states, "callouts"),
    HostCheck("launcher", doctor_host.launcher, "launcher"),
    HostCheck("programs", doctor_host.programs, "timers"),
    HostCheck("place", doctor_host.place, "database"),
    HostCheck("database", state, "database"),
    HostCheck("spool", spools_of, "database"),
    HostCheck("history", doctor_checks.history, "history"),
    HostCheck("targets", doctor_checks.targets, "targets"),
    HostCheck("credentials", doctor_checks.credentials, "targets"),
)
"""Every check of a host that contacts no receiver."""


def examine(site: Site, *, limit_s: float, offline: bool) -> Iterator[Check]:
    """
    Every verdict, in the order of the checks; ends after ``limit_s`` seconds, even without answers.

    ``offline``: no connection is opened, and no name is looked up.
    """
    ends = time.monotonic() + limit_s
    # Receivers first: they answer while the other checks run.
    receivers = () if offline or site.settings is None else plugins(site.settings)
    asked = [(plugin.target.name, _begun(partial(receiver, site, plugin))) for plugin in receivers]
    for row in CHECKS:
        yield from gathered(row, site, ends)
    if offline:
        yield not_asked("not asked (--offline)")
    elif site.settings is None:
        yield not_asked("not checked, because the configuration has errors", "fix it first")
    for name, results in asked:
        yield from _gathered(name, results, ends)


def gathered(row: HostCheck, site: Site, ends: float) -> Iterator[Check]:
    """Return the verdicts of one check until a time of `time.monotonic`, and one more if it fails."""
    return _gathered(row.name, _begun(partial(row.judge, site)), ends)


Results = queue.SimpleQueue[Check | Exception | None]
"""Verdicts as they arrive; ``None`` or an exception is the last."""


def _begun(check: Callable[[], Iterable[Check]]) -> Results:
    results: Results = queue.SimpleQueue()

    def work() -> None:
        try:
            for verdict in check():
                results.put(verdict)
        except Exception as error:  # noqa: BLE001  on any error, the others continue
            results.put(error)
        else:
            results.put(None)

    # At its end, the process does not wait for it.
    threading.Thread(target=work, daemon=True).start()
    return results


def _gathered(name: str, results: Results, ends: float) -> Iterator[Check]:
    while True:
        try:
            found = results.get(timeout=max(0.01, ends - time.monotonic()))
        except queue.Empty:
            advice = "check what does not answer (a file system, a resolver, a receiver), or raise --timeout"
            yield Check(name, UNKNOWN, "not finished within the time limit", advice, TargetBusy.exit_code)
            return
        if found is None:
            return
        if isinstance(found, Exception):
            yield _failed(name, found)
            return
        yield found


def _failed(name: str, error: Exception) -> Check:
    if isinstance(error, OSError):
        reason = f"{error.filename or 'the system'}: {error.strerror or error}"
        return Check(name, UNKNOWN, reason, "run the doctor as the user of A-REX, usually root", StoreError.exit_code)
    # A value from a damaged database may make any code fail.
    known = error if isinstance(error, ArcacctError) else blamed(error)
    if known is not None:
        return of_error(name, known)
    reason = f"the check itself failed ({type(error).__name__}: {error})"
    return Check(name, UNKNOWN, reason, "please report it", ArcacctError.exit_code)
