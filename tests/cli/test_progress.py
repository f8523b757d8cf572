"""What a terminal shows of a command that takes long."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import suppress
from threading import Event

import pytest

from arcacct.cli import progress
from arcacct.cli.console import print_line
from arcacct.cli.progress import at_work, until_signal


class Terminal(io.StringIO):
    """What came on a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch) -> Terminal:
    """Standard error, and no one is patient. Called by the test: pytest puts its own there before each."""
    there = Terminal()
    monkeypatch.setattr(sys, "stderr", there)
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    return there


def test_a_terminal_shows_that_a_command_is_at_work(monkeypatch) -> None:
    """What it does, for how long and how far it is; nothing of that stays."""
    asked, terminal = Event(), on_a_terminal(monkeypatch)

    def so_far() -> str:
        asked.set()
        return ", 3 records"

    with at_work("publishing", so_far):
        assert asked.wait(60)
    err = terminal.getvalue()
    assert "\r\033[Kpublishing | 0 s, 3 records" in err
    assert err.endswith("\r\033[K")


def test_what_is_said_meanwhile_has_a_line_of_its_own(monkeypatch) -> None:
    """Words come in the place of that line, and not behind it."""
    drawn, terminal = Event(), on_a_terminal(monkeypatch)

    def so_far() -> str:
        # The first line stands there when the second is made.
        if twice:
            drawn.set()
        twice.append(1)
        return ""

    twice: list[int] = []
    with at_work("publishing", so_far):
        assert drawn.wait(60)
        print_line("sgas:a: new target", err=True)
    assert "\r\033[Ksgas:a: new target\n" in terminal.getvalue()


def test_nothing_of_it_goes_into_a_file(capsys, monkeypatch) -> None:
    """A log has what was said and nothing else."""
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    with at_work("publishing", lambda: pytest.fail("asked how far it is")):
        print_line("sgas:a: new target", err=True)
    assert capsys.readouterr().err == "sgas:a: new target\n"


def test_a_request_to_end_is_not_lost() -> None:
    """Where the exception gets lost, what continues hears of the request in its next turn."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with until_signal() as goes_on:
            assert goes_on()
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            assert not goes_on()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
