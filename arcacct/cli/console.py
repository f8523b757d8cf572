"""The output of commands: the only place that writes to stdout and stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TextIO

import click

from arcacct.errors import ArcacctError, UsageError
from arcacct.wording import LONGEST, sanitise_line

_LONGEST_ON_A_TERMINAL = 10_000
_WIPE = "\r\033[K"
"""Empties the line of a terminal."""
_drawing = Lock()
_drawn = False
"""Whether the terminal shows a progress line."""
ERROR, WARNING, INFO = 3, 4, 6
"""Priorities of syslog, as the journal reads them from the beginning of a line (sd-daemon(3))."""


class Coloured(str):
    """Words of ours in colours; click leaves the colours out if the output is not a terminal."""

    __slots__ = ()


def print_line(*parts: str, err: bool = False, priority: int = INFO) -> None:
    """
    Print one line for people, on stdout or stderr; on stderr and terminals its length is limited.

    ``priority``: the journal's priority of a line on stderr, if stderr is the journal.

    A script that reads it finds ordinary names unchanged, and each text on one line, whatever it contains.
    """
    limit = LONGEST if err else _LONGEST_ON_A_TERMINAL if sys.stdout.isatty() else None
    before = f"<{priority}>" if err and _is_journal(sys.stderr) else ""
    _echo(before + _line(parts, limit), err=err)


def _line(parts: Iterable[str], limit: int | None) -> str:
    return "".join(part if isinstance(part, Coloured) else sanitise_line(part, limit, "\t") for part in parts)


def print_lines(lines: Iterable[Sequence[str]]) -> None:
    """Print lines like `print_line`, each from some parts; a terminal that is too small shows them in a pager."""
    import shutil  # noqa: PLC0415  a hundredth of a second, of every command

    made = list(lines)
    if sys.stdout.isatty() and len(made) >= shutil.get_terminal_size().lines:
        click.echo_via_pager(f"{_line(parts, _LONGEST_ON_A_TERMINAL)}\n" for parts in made)
        return
    for parts in made:
        print_line(*parts)


def print_error(*complaints: str) -> None:
    """Print problems to stderr, one line each, in addition to the answer."""
    for complaint in complaints:
        print_line(f"arcacct: {complaint}", err=True, priority=WARNING)


def print_deprecated(old: str, new: str) -> None:
    """Print to stderr that a spelling works in this release only, and the new one."""
    print_line(f"{old} is deprecated; write {new}", err=True)


def data(line: str) -> None:
    """Print a line for programs, unchanged; on a terminal, where no program reads it, like `print_line`."""
    if sys.stdout.isatty():
        print_line(line)
    else:
        # Otherwise click would remove the codes of terminal colours from it.
        _echo(line, color=True)


def _echo(line: str, *, err: bool = False, color: bool | None = None) -> None:
    """A line, in the place of the one that says that a command is at work."""
    if _drawn:
        redraw("")
    click.echo(line, err=err, color=color)


def block(text: str, out: Callable[[str], None] = print_line) -> None:
    """Some lines, each printed by ``out``; the length of the last may be limited."""
    for line in text.removesuffix("\n").split("\n"):
        out(line)


def report_error(error: ArcacctError, before: str = "arcacct: ", *, err: bool = True) -> None:
    """The lines of an error."""
    for number, line in enumerate(error.args):
        print_line(f"{'' if number else before}{line}", err=err, priority=ERROR)


def _is_journal(stream: TextIO) -> bool:
    """Whether a stream leads to the journal of systemd: it says by which device and inode (systemd.exec(5))."""
    told = os.environ.get("JOURNAL_STREAM")
    if not told:
        return False
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return told == f"{status.st_dev}:{status.st_ino}"


def confirm(question: str) -> None:
    """Ask on stderr whether to continue. Raises click.Abort if the answer is no."""
    click.confirm(sanitise_line(question), abort=True, err=True)


def ask(question: str, *, yes: bool) -> None:
    """`confirm`, unless ``yes``. Raises UsageError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} not a terminal: pass --yes to proceed")
    confirm(question)


def redraw(text: str) -> None:
    """Write over the line of a terminal that shows that a command is at work; empty: remove it."""
    global _drawn  # noqa: PLW0603  there is one terminal
    with _drawing:
        click.echo(f"{_WIPE}{sanitise_line(text)}", nl=False, err=True)
        _drawn = bool(text)


def examples(*lines: str) -> str:
    """Command lines below a command's help, as an epilog that click does not wrap."""
    # \b before a paragraph tells click to leave its lines alone.
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
