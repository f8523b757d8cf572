"""`arcacct sweep --follow` beside a host's callouts, as its unit runs it, and the launcher as A-REX calls it."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import subprocess
import time
from contextlib import contextmanager

from hook_host import HOOK, Host
from installed import ARCACCT

from arcacct.arex.resident import BEAT
from arcacct.files.directories import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAUNCHER = resource("etc", "arcacct-hook")
PATIENCE_S = 60.0
"""How long a busy machine may take for what takes a moment."""


def until(what: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until something is true, and fail when it does not become so."""
    end = time.monotonic() + patience_s
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


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
        """Whether the launcher may leave its events to it."""
        try:
            words = (pathlib.Path(self.host.places.spool) / BEAT).read_text().split()
        except FileNotFoundError:
            return False
        return words[1:2] == [str(self.process.pid)] and words[3] == words[5]

    def ready(self) -> Service:
        """Once it does."""
        until(lambda: self.lives() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said
        return self

    def pause(self) -> None:
        """Stop it, while nobody else waits for it: it has no turn in the queue of writers."""

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


def counting(path: pathlib.Path) -> pathlib.Path:
    """A program for the place of arcacct-record that notes each start, and records by the real one."""
    path.write_text(f'#!/bin/sh\necho "$2 $3" >>"{path}.starts"\nexec "{HOOK}" "$@"\n')
    path.chmod(0o755)
    return path


def started(path: pathlib.Path) -> list[str]:
    """What `counting` has noted: job and state of each."""
    starts = pathlib.Path(f"{path}.starts")
    return starts.read_text().splitlines() if starts.exists() else []


def environment(record: pathlib.Path) -> dict[str, str]:
    """That of a launcher. On a busy machine a recorder that lives may have no turn for two seconds."""
    return {"PATH": "/usr/bin:/bin", "ARCACCT_RECORD": str(record), "ARCACCT_LEASE": "6000"}


def launch(
    host: Host, job_id: str, state: str, record: pathlib.Path, *, shell: tuple[str, ...] = ("/bin/sh",), **more: str
) -> str:
    """One callout; what it said. It never fails."""
    done = subprocess.run(
        [*shell, LAUNCHER, str(host.control), job_id, state, str(host.conf)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**environment(record), **more},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def waiting(host: Host) -> list[str]:
    """The events in the spool, those without a name too."""
    return sorted(name for name in os.listdir(host.places.spool) if name[:1].isdigit() or name.startswith(".tmp-"))


def drained(host: Host) -> None:
    """Wait until the recorder has taken everything."""
    until(lambda: not waiting(host))
