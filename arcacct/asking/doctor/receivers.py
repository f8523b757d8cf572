"""
The way to each receiver: its name, the connection, TLS both ways, and a question that changes nothing there.

Each kind of target has its checks in its plugin (`TargetPlugin.connectivity_checks`); no message and no record
is sent.
"""

from __future__ import annotations

from collections.abc import Iterator

from arcacct.asking.doctor.verdict import ERROR, OK, UNTOLD, WARNING, Site, Verdict, advised, of_error
from arcacct.config.options import TransportOptions
from arcacct.errors import ArcacctError, TargetBusy, TargetRefuses
from arcacct.publishing.plugin import Outcome, TargetPlugin, error_of

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
            yield _clock(f"{name} {probe.what}", heard.ahead_s)


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


def _clock(what: str, ahead_s: int) -> Verdict:
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
