"""The common parts of long-running commands: how they stop, and how they show their progress."""

from __future__ import annotations

import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType
from typing import TYPE_CHECKING

import click

from arcacct.cli.console import print_error, print_line, redraw
from arcacct.wording import count_of

if TYPE_CHECKING:
    from arcacct.records.rejected import RetryResult
    from arcacct.sources.engine.imports import BatchTaken

_PATIENCE_S = 1.0
_TURN_S = 0.25
_TURNS = "|/-\\"

wait_option = click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Hours to wait before recording a possible ARC job as local.",
)


@contextmanager
def until_signal() -> Iterator[Callable[[], bool]]:
    """
    Run until SIGTERM, as service managers send it, or Ctrl-C, and then exit with 0.

    SIGINT works even if it was ignored: a shell starts a background process (``&``) with SIGINT ignored. Yields a
    function that returns whether to continue, to call in each round: an exception may be lost in Python's callbacks
    from C.
    """
    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.default_int_handler(number, frame)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    try:
        yield lambda: not asked.is_set()
    except KeyboardInterrupt:
        return


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """
    Yield a function that returns whether SIGTERM or Ctrl-C came, for a command that can stop between two slices. A
    second signal ends it at once.
    """
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
    """Progress as done of total: a bar on a terminal, nothing elsewhere or without a total."""
    if not has_end or not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    with click.progressbar(length=0, label=label, file=sys.stderr) as bar:

        def show(done: int, of: int) -> None:
            if done < bar.pos:
                # The bar of the next file.
                bar.pos = 0
            bar.length = max(of, done)
            bar.update(done - bar.pos)

        yield show


@contextmanager
def at_work(doing: str, so_far: Callable[[], str] = str) -> Iterator[None]:
    """
    For work of unknown size: show on a terminal that it is at work, once it takes longer than a second.

    ``so_far``: a text to add, asked from another thread.
    """
    if not sys.stderr.isatty():
        yield
        return
    began, ended = time.monotonic(), Event()

    def draw() -> None:
        wait_s = _PATIENCE_S
        for turn in itertools.cycle(_TURNS):
            if ended.wait(wait_s):
                return
            redraw(f"{doing} {turn} {time.monotonic() - began:.0f} s{so_far()}")
            wait_s = _TURN_S

    drawing = Thread(target=draw, daemon=True)
    drawing.start()
    try:
        yield
    finally:
        ended.set()
        drawing.join()
        redraw("")


STOPPED = 130
"""The exit code of a command that Ctrl-C stopped."""


def print_retried(done: RetryResult) -> None:
    """Print the result of a retry of rejected records."""
    print_line(f"{count_of(done.tried, 'rejected record')} tried again: {done.good} now usable")
    if done.needs_file:
        print_error(
            f"{count_of(done.needs_file, 'further record')} too long to be stored whole: import the files in "
            "`arcacct import rejected` again, with --retry"
        )


def print_unmeasured(taken: BatchTaken) -> None:
    """Print how many of the new or changed jobs the batch system did not measure."""
    for what, jobs in (("wall", taken.without_wall), ("CPU", taken.without_cpu)):
        if jobs:
            print_line(f"{count_of(jobs, 'job')} without {what} time: it is unknown, and receivers get 0")
    if taken.with_part_of_cpu:
        print_line(
            f"{count_of(taken.with_part_of_cpu, 'job')} with the CPU time of only some runs: it is a lower bound, and"
            " receivers get it"
        )


def print_unusable(unusable: Mapping[str, int]) -> None:
    """Print how many jobs have a value that cannot be used, by field."""
    for name, jobs in sorted(unusable.items()):
        print_line(f"{count_of(jobs, 'job')} without {name}: it is unusable or missing, and treated as unknown")


def print_counts(*counts: tuple[int, str, str]) -> None:
    """Print counts of failures and omissions of an import, each with its name and further text; nothing for 0."""
    print_error(*(f"{count_of(number, what)}{rest}" for number, what, rest in counts if number))
