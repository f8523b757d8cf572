"""How a command that goes on by itself is ended."""

from __future__ import annotations

import signal


def end_when_asked() -> None:
    """
    From now on SIGTERM, as service managers send it, interrupts as Ctrl-C does.

    So does SIGINT where it was ignored: a shell starts what it puts into the background (``&``) deaf to it.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
