"""What commands that take long, go on or import have in common: how they end, and say how far they are."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

import click

from arcacct.cli.speech import complain, say
from arcacct.jobs.rejected import Retried
from arcacct.wording import count_of

wait_option = click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Hours to wait before recording a possible ARC job as local.",
)


@contextmanager
def until_asked() -> Iterator[None]:
    """
    What goes on until SIGTERM, as service managers send it, or Ctrl-C, and ends well with these.

    So does SIGINT where it was ignored: a shell starts what it puts into the background (``&``) deaf to it.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return


@contextmanager
def stopping_when_asked() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or Ctrl-C came, for what can stop between two slices; a second one ends it at once."""
    asked = Event()

    def ask(number: int, _frame: object) -> None:
        asked.set()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress(label: str, *, has_end: bool = True) -> Iterator[Callable[[int, int], None]]:
    """To be told how many of how many are done: a bar on a terminal, nothing elsewhere, or with no end to come to."""
    if not has_end or not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    with click.progressbar(length=0, label=label, file=sys.stderr) as bar:

        def show(done: int, of: int) -> None:
            if done < bar.pos:
                # Of the next file.
                bar.pos = 0
            bar.length = max(of, done)
            bar.update(done - bar.pos)

        yield show


STOPPED = 130
"""The exit code of what was stopped by Ctrl-C."""


def tell_retried(done: Retried) -> None:
    """What became of rejected records that were tried again."""
    say(f"{count_of(done.tried, 'rejected record')} tried again: {done.good} can be used now")
    if done.needs_file:
        complain(
            f"{count_of(done.needs_file, 'further record')} too long to be kept whole: import the files that "
            "`arcacct import rejected` names again, with --retry"
        )


def tell_counts(*counts: tuple[int, str, str]) -> None:
    """Number, name of one and the rest of what an import could not do or left out; nothing where the number is 0."""
    complain(*(f"{count_of(number, what)}{rest}" for number, what, rest in counts if number))
