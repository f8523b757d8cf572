"""
`arcacct doctor`: everything that has to be right before a site goes live, looked at from the ground up.

A check is a function of a `Site` that gives verdicts; one that fails is a verdict, and so is one that takes too long:
the others go on. Nothing is changed and nothing is sent. Each runs in a thread of its own, since a file system or a
resolver that does not answer cannot be interrupted; receivers are asked meanwhile, side by side.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from arcacct.asking.doctor import arex, configuration, credentials, databases, launcher, receivers, recording
from arcacct.asking.doctor.verdict import UNTOLD, Check, Site, Verdict, of_error
from arcacct.database.access import blamed
from arcacct.errors import ArcacctError, StoreError, TargetBusy
from arcacct.targets import plugins

__all__ = ["CHECKS", "Site", "Verdict", "examine"]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("configuration", configuration.configuration),
    ("permissions", configuration.permissions),
    ("control directory", arex.control_directory),
    ("A-REX", arex.running),
    ("callouts", arex.states),
    ("launcher", launcher.launcher),
    ("place", databases.place),
    ("space", databases.space),
    ("database", databases.databases),
    ("backup", databases.backups),
    ("spool", recording.spooled),
    ("recording", recording.recorded_by),
    ("values", recording.values),
    ("targets", configuration.targets),
    ("credentials", credentials.credentials),
)
"""From the ground up; each with the name under which it is told that it could not be done."""


def examine(site: Site, *, limit_s: float, offline: bool) -> Iterator[Verdict]:
    """
    Every verdict, in the order of the checks; done after ``limit_s`` seconds, whoever does not answer.

    ``offline``: nothing is connected to, nor any name looked up.
    """
    ends = time.monotonic() + limit_s
    # Receivers first: what they take is over by the time that they are told.
    asked = [] if offline else _asked(site)
    for name, check in CHECKS:
        yield from _gathered(name, _begun(partial(check, site)), ends)
    if offline:
        yield receivers.not_asked("not asked (--offline)")
    elif site.settings is None:
        yield receivers.not_asked("not asked, since the configuration has errors", "mend it first")
    for name, results in asked:
        yield from _gathered(name, results, ends)


Results = queue.SimpleQueue[Verdict | Exception | None]
"""Verdicts as they come; ``None`` or what was raised is the last."""


def _asked(site: Site) -> list[tuple[str, Results]]:
    if site.settings is None:
        return []
    return [
        (plugin.target.name, _begun(partial(receivers.receiver, site, plugin))) for plugin in plugins(site.settings)
    ]


def _begun(check: Callable[[], Iterable[Verdict]]) -> Results:
    results: Results = queue.SimpleQueue()

    def work() -> None:
        try:
            for verdict in check():
                results.put(verdict)
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            results.put(error)
        else:
            results.put(None)

    # Nobody waits for it at the end of the process.
    threading.Thread(target=work, daemon=True).start()
    return results


def _gathered(name: str, results: Results, ends: float) -> Iterator[Verdict]:
    while True:
        try:
            found = results.get(timeout=max(0.01, ends - time.monotonic()))
        except queue.Empty:
            advice = "see what does not answer (a file system, a resolver, a receiver), or give it longer by --timeout"
            yield Verdict(name, UNTOLD, "not done within the time limit", advice, TargetBusy.exit_code)
            return
        if found is None:
            return
        if isinstance(found, Exception):
            yield _failed(name, found)
            return
        yield found


def _failed(name: str, error: Exception) -> Verdict:
    if isinstance(error, OSError):
        reason = f"{error.filename or 'the system'}: {error.strerror or error}"
        return Verdict(name, UNTOLD, reason, "run the doctor as the user of A-REX, usually root", StoreError.exit_code)
    # What comes out of a damaged database may make anything fail.
    known = error if isinstance(error, ArcacctError) else blamed(error)
    if known is not None:
        return of_error(name, known)
    reason = f"the check itself failed ({type(error).__name__}: {error})"
    return Verdict(name, UNTOLD, reason, "please report it", ArcacctError.exit_code)
