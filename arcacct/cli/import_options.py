"""What commands that import files have in common: how they go on, end, and say what they do."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import click

from arcacct.cli.ending import end_when_asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arcacct.jobs.imports import Progress


@contextmanager
def until_asked() -> Iterator[None]:
    """What goes on until SIGTERM or Ctrl-C, and ends well with these."""
    end_when_asked()
    try:
        yield
    except KeyboardInterrupt:
        return


@contextmanager
def progress(files: Sequence[str], *, follow: bool) -> Iterator[Progress]:
    """A progress bar on a terminal, nothing elsewhere, and where there is no end to come to."""
    if not sys.stderr.isatty() or follow or "-" in files:
        yield lambda _path, _done, _all: None
        return
    with click.progressbar(length=0, label="Bytes", file=sys.stderr) as bar:
        current = ""

        def show(path: str, done: int, size: int) -> None:
            nonlocal current
            if path != current:
                bar.pos, current = 0, path
            bar.length = max(size, done)
            bar.update(done - bar.pos)

        yield show
