"""`arcacct sweep --follow` next to a host's callouts, as its unit runs it."""

from __future__ import annotations

import fcntl
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from installed import ARCACCT
from recording_host import PATIENCE_S, Host, until, waiting

from arcacct.arex import resident


class Service:
    """A recorder that runs."""

    def __init__(self, host: Host, *more: str, program: tuple[str, ...] = (ARCACCT,), **environment: str) -> None:
        self.host = host
        text = f"[common]\n[lrms]\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={host.control}\n"
        if host.conf.read_text() != text:
            host.conf.write_text(text)
        self._command = [*program, "--config", str(host.conf), "sweep", "--follow", "--interval", "3600", *more]
        self._environment = {"PATH": "/usr/bin:/bin", **environment}
        self.start()

    def start(self) -> None:
        """Begin (again)."""
        self._said = open(self.host.control.parent / "recorder.said", "ab")  # noqa: SIM115  as long as the process
        self.process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, env=self._environment
        )

    @property
    def said(self) -> str:
        """All that it has said."""
        return (self.host.control.parent / "recorder.said").read_text()

    def lives(self) -> bool:
        """Whether it is the recorder of the host, and can record."""
        seen = resident.seen(self.host.places)
        return seen is not None and seen.process == self.process.pid and not seen.reason

    def ready(self) -> Service:
        """Once it does."""
        until(lambda: self.lives() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said
        return self

    def pause(self) -> None:
        """Stop it, while no one else waits for it: it has no turn in the queue of writers."""

        def is_paused() -> bool:
            self.process.send_signal(signal.SIGSTOP)
            with open(self.host.places.queue_lock, "ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.process.send_signal(signal.SIGCONT)
                    return False
            return True

        until(is_paused)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit code, or minus the signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self._said.close()
        return code


@contextmanager
def recorder(host: Host, *more: str, **environment: str) -> Iterator[Service]:
    """A recorder that lives while the block runs, unless the block ends it."""
    service = Service(host, *more, **environment)
    try:
        yield service.ready()
    finally:
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGCONT)
            service.end()


def drained(host: Host) -> None:
    """Wait until the recorder has taken everything."""
    until(lambda: not waiting(host.places.spool))
