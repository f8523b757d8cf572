"""``arcacct sandbox``: receivers on this machine, by hand."""

from __future__ import annotations

import signal

import click

from arcacct.cli.examples import examples
from arcacct.cli.speech import block, say
from arcacct.sandbox import Sandbox

_PORT = click.IntRange(0, 65535)


@click.command(epilog=examples("arcacct sandbox --dir /tmp/receivers"))
@click.option("--dir", "directory", required=True, metavar="DIR", help="Keep certificates and received documents here.")
@click.option("--sgas-port", type=_PORT, default=0, metavar="PORT", help="Port of SGAS; a free one if not given.")
@click.option("--ams-port", type=_PORT, default=0, metavar="PORT", help="Port of the messaging service.")
@click.option("--authn-port", type=_PORT, default=0, metavar="PORT", help="Port of the service that gives tokens.")
def sandbox(directory: str, sgas_port: int, ams_port: int, authn_port: int) -> None:
    """
    Run receivers on this machine to rehearse publishing.

    SGAS, and APEL behind the ARGO Messaging Service, on the loopback address, until Ctrl-C or SIGTERM. Prints the
    blocks of a test's own arcacct.conf to publish to them ($ARCACCT_CONFIG names it), with a ledger of its own: that of
    the site is neither read nor written. What they receive lies in DIR/received. At the end, and at each SIGUSR1,
    prints what the portals would show of it.
    """
    wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}
    # Blocked before any thread starts, so that every thread leaves them to the wait below.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    try:
        with Sandbox(directory, sgas_port=sgas_port, ams_port=ams_port, authn_port=authn_port) as running:
            block(f"[arcacct]\nrehearsal = {running.directory}/ledger\n\n{running.configuration()}")
            say(f"SGAS {running.sgas_url}/ur, AMS {running.ams_url}, authn port {running.authn_port}", err=True)
            say(f"Received documents: {running.received}. Stop with Ctrl-C.", err=True)
            while signal.sigwait(wanted) == signal.SIGUSR1:
                _show(running)
            _show(running)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _show(running: Sandbox) -> None:
    for line in running.totals():
        say(line, err=True)
