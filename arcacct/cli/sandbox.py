"""``arcacct sandbox``: receivers on this machine, by hand."""

from __future__ import annotations

import signal

import click

from arcacct.cli.arguments import in_order
from arcacct.cli.speech import block, examples, print_line
from arcacct.sandbox import RECEIVERS, Sandbox


@click.command(epilog=examples("arcacct sandbox --dir /tmp/receivers"))
@click.option("--dir", "directory", required=True, metavar="DIR", help="Keep certificates and received documents here.")
@in_order(
    *(
        click.option(
            f"--{receiver.endpoint}-port",
            type=click.IntRange(0, 65535),
            default=0,
            metavar="PORT",
            help=f"Port of {receiver.title}{'; a free one if not given' if receiver is RECEIVERS[0] else ''}.",
        )
        for receiver in RECEIVERS
    )
)
def sandbox(directory: str, **ports: int) -> None:
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
        with Sandbox(directory, **ports) as running:
            block(f"[arcacct]\nrehearsal = {running.directory}/ledger\n\n{running.configuration()}")
            print_line(running.addresses, err=True)
            print_line(f"Received documents: {running.received}. Stop with Ctrl-C.", err=True)
            goes_on = True
            while goes_on:
                goes_on = signal.sigwait(wanted) == signal.SIGUSR1
                for line in running.totals():
                    print_line(line, err=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
