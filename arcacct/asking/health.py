"""
Is all well? What `arcacct status` and `arcacct metrics` say, found out by reading alone.

`examine` looks, `judge` compares with the thresholds: one line for each thing, with how grave it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from cryptography import x509

from arcacct.asking import health_rows
from arcacct.asking.health_rows import Recorded, TargetState
from arcacct.conf.settings import Settings
from arcacct.db import lives, opening
from arcacct.db.lives import MEANING, Doubt
from arcacct.db.place import spools
from arcacct.errors import ArcacctError, StoreError
from arcacct.jobs import aborting
from arcacct.publishing.floor import held_text
from arcacct.publishing.instants import iso
from arcacct.targets import plugs
from arcacct.wording import count_of

DAY_S = 86400
HOUR_S = 3600
OK, WARNING, CRITICAL, UNKNOWN = range(4)
"""The exit codes of monitoring plug-ins."""
WORDS = ("ok", "WARNING", "CRITICAL", "UNKNOWN")
_CLOCK_TOLERANCE_S = 300


class Limit(NamedTuple):
    """When something is worth a warning, and when it is critical."""

    warning: int
    critical: int


class Thresholds(NamedTuple):
    """The limits of all that has some."""

    unsent_s: Limit = Limit(DAY_S, 3 * DAY_S)
    """Since records wait for a target that is due."""
    sweep_s: Limit = Limit(HOUR_S, 6 * HOUR_S)
    """Since the last sweep."""
    spool_files: Limit = Limit(100, 10_000)
    spool_s: Limit = Limit(HOUR_S, DAY_S)
    """Age of the oldest event in the spool."""
    certificate_s: Limit = Limit(14 * DAY_S, DAY_S)
    """Until a certificate ends."""
    quarantined: Limit = Limit(1, 1000)
    """Records that a target refuses."""


class Check(NamedTuple):
    """One line of the screen."""

    subject: str
    severity: int
    text: str


class Spool(NamedTuple):
    """What waits for the next sweep."""

    files: int
    oldest_s: int | None
    unusable: int


class Health(NamedTuple):
    """All that was found out."""

    now: int
    database: str
    size_bytes: int
    recorded: Recorded | None
    problem: str | None
    """Why the databases could not be asked."""
    writer: int | None
    """The process that does not let anybody write."""
    maintenance: bool
    spool: Spool
    targets: tuple[TargetState, ...]
    certificates: dict[str, int | str]
    """By file: when it ends, or why that is not known."""
    doubts: tuple[Doubt, ...] = ()
    """What is wrong between accounting.db and publishing.db."""
    on_hold: int = 0
    """Jobs that have ended and of which nothing tells what they used."""


def examine(settings: Settings) -> Health:
    """Look at everything; raises nothing that one could report."""
    here = settings.places
    problem = None
    try:
        folders = spools(here)
    except ArcacctError as error:
        # What is wrong with the note of a move stops every sweep, too.
        folders, problem = [here.spool], str(error)
    found = Health(
        int(time.time()),
        here.database,
        0,
        None,
        problem,
        health_rows.writer_of(here.database),
        os.path.exists(here.maintenance),
        _spool(folders),
        (),
        _certificates(settings),
    )
    files = (here.database, f"{here.database}-wal")
    try:
        with (
            opening.translating(here.database),
            closing(opening.read_accounting(here)) as ours,
            closing(opening.read_publishing(here)) as ledger,
        ):
            return found._replace(
                size_bytes=sum(os.stat(file).st_size for file in files if os.path.exists(file)),
                recorded=health_rows.recorded(ours),
                on_hold=len(aborting.on_hold(ours)),
                targets=tuple(health_rows.target_state(ledger, ours, plug) for plug in plugs(settings)),
                doubts=tuple(lives.doubts(lives.known(ours, ledger, rehearsing=here.rehearsal is not None))),
            )
    except StoreError as error:
        return found._replace(problem=str(error))


def _spool(folders: Sequence[str]) -> Spool:
    unusable, times = 0, []
    for folder in folders:
        for name in _names(folder):
            if name[:1].isdigit():
                digits = name.partition("-")[0]
                times.append(int(digits[:10]) if digits.isdecimal() else 0)
        unusable += len(_names(os.path.join(folder, "unusable")))
    return Spool(len(times), min(times, default=None), unusable)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _certificates(settings: Settings) -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    shown = [target.credentials() for target in settings.targets]
    for path in dict.fromkeys(one.x509_host_cert for one in shown if one is not None):
        try:
            with open(path, "rb") as file:
                found[path] = int(x509.load_pem_x509_certificate(file.read()).not_valid_after_utc.timestamp())
        except OSError as error:
            found[path] = f"cannot be read: {error.strerror}"
        except ValueError:
            found[path] = "holds no certificate in PEM form"
    return found


def judge(found: Health, limits: Thresholds) -> list[Check]:
    """Every check, in the order of a job's life."""
    return [
        *_database_checks(found),
        # Whether both databases are the two that belong together, and neither is an old copy.
        *(Check("ledger", CRITICAL, MEANING[doubt]) for doubt in found.doubts),
        *_recorder_checks(found, limits),
        *(_target_check(found.now, target, limits) for target in found.targets),
        *(check for target in found.targets for check in _figures_checks(target)),
        *(_quarantine_check(found.now, target, limits) for target in found.targets),
        *_host_checks(found, limits),
    ]


def worst(checks: list[Check]) -> int:
    """The exit code: the gravest of what is known; UNKNOWN only when nothing is worse than that."""
    severities = {check.severity for check in checks}
    return next((severity for severity in (CRITICAL, WARNING, UNKNOWN) if severity in severities), OK)


def _database_checks(found: Health) -> Iterator[Check]:
    if found.problem is not None:
        yield Check("database", CRITICAL, found.problem)
    elif found.recorded is not None:
        size = (
            f"{found.size_bytes / 2**20:.1f} MiB, schema {found.recorded.schema}, "
            f"{count_of(found.recorded.jobs, 'job')}"
        )
        yield Check("database", OK, f"{found.database}: {size}")
    if found.writer is not None:
        yield Check("lock", CRITICAL, f"process {found.writer} keeps the database locked: hooks spool until it ends")
    if found.maintenance:
        yield Check("maintenance", WARNING, "the database is being worked on: hooks spool until that is done")
    if found.recorded is not None and found.recorded.foreign_records:
        text = (
            f"{found.recorded.foreign_records} of the newest records were written by another program: if A-REX writes"
            " this file it loses rows; give arcacct another path (database= in arcacct.conf)"
        )
        yield Check("writers", CRITICAL, text)


def _figures_checks(target: TargetState) -> Iterator[Check]:
    """Whether the receiver's figures may be sent, or would fall without proof."""
    for held in target.held_months:
        yield Check(f"{target.name} figures", CRITICAL, held_text(held))
    if target.names_in_doubt:
        yield Check(f"{target.name} figures", CRITICAL, target.names_in_doubt)
    for one in target.refused_sums:
        what = (
            f"{one.year:04d}-{one.month:02d}: a record of {one.kind} refused in "
            f"{count_of(one.refusals, 'run')}: {one.reason}"
        )
        severity = OK if one.refusals == 1 else WARNING
        yield Check(f"{target.name} sums", severity, f"{what}; each run sends it again")
    if target.in_doubt:
        text = "an older ledger was put back: what was sent since is unknown until the next run has sent it again"
        yield Check(f"{target.name} ledger", WARNING, text)


def _recorder_checks(found: Health, limits: Thresholds) -> Iterator[Check]:
    if found.recorded is not None:
        event = found.recorded.last_event_s
        text = "no event recorded yet" if event is None else f"last event {_ago(found.now, event)}"
        yield Check("recorder", OK, text)
        swept = found.recorded.last_sweep_s
        age = None if swept is None else found.now - swept
        severity = WARNING if age is None else _over(age, limits.sweep_s)
        text = "never ran" if swept is None else f"last one {_ago(found.now, swept)}"
        todo = "" if severity == OK else ": is arcacct-sweep.timer active?"
        yield Check("sweep", severity, text + todo)
        if found.recorded.cut_records:
            # Nothing is wrong with us, but a megabyte of .diag is worth a look.
            cut_files = found.recorded.cut_files
            files = f", {cut_files} of them with a file above 1 MiB" if cut_files else ""
            text = (
                f"{count_of(found.recorded.cut_records, 'record')} of the last day cut short, since a file or "
                f"value was too long{files}"
            )
            severity = WARNING if cut_files else OK
            yield Check("cut", severity, f'{text}: see `arcacct query "SELECT * FROM v1_record_notes"`')
        rejected = found.recorded.rejected
        if rejected.by_source and rejected.oldest_s is not None:
            # They are in no sum until somebody looks at them.
            counts = ", ".join(f"{count} of {source}" for source, count in rejected.by_source.items())
            ours = f", {rejected.ours} by an error of arcacct's own (please report it)" if rejected.ours else ""
            todo = "see `arcacct import rejected`, and try them again (--retry) after an upgrade or a correction"
            text = f"{counts} could not be used{ours}, the oldest {_ago(found.now, rejected.oldest_s)}: {todo}"
            yield Check("imports", WARNING, text)
    if found.on_hold:
        text = (
            f"{count_of(found.on_hold, 'job')} ended and of unknown usage: {aborting.WAYS_OUT}; `arcacct verify` of the"
            " month names them"
        )
        yield Check("vanished", WARNING, text)
    spool = found.spool
    severity = _over(spool.files, limits.spool_files)
    text = "empty"
    if spool.oldest_s is not None:
        severity = max(severity, _over(found.now - spool.oldest_s, limits.spool_s))
        text = f"{count_of(spool.files, 'event')}, the oldest from {_ago(found.now, spool.oldest_s)}"
    if spool.unusable:
        severity = max(severity, WARNING)
        text += f"; {count_of(spool.unusable, 'file')} set aside in spool/unusable"
    yield Check("spool", severity, text)


def _target_check(now: int, state: TargetState, limits: Thresholds) -> Check:
    parts = ["never published" if state.last_success_s is None else f"last success {_ago(now, state.last_success_s)}"]
    severity = OK
    if state.waiting.records and state.waiting.oldest_end_s is not None:
        parts.append(
            f"{count_of(state.waiting.records, 'record')} waiting, the oldest ended "
            f"{_ago(now, state.waiting.oldest_end_s)}"
        )
        # Not before they could have gone: when they ended, or when the target was due.
        severity = _over(now - max(state.waiting.oldest_end_s, state.due_s), limits.unsent_s)
    else:
        parts.append("nothing waiting")
    if state.unanswered:
        parts.append(f"{count_of(state.unanswered, 'message')} without an answer")
    # What is held is told by a check of its own.
    if (
        state.last_error
        and " is held: " not in state.last_error
        and (state.last_run_s or 0) > (state.last_success_s or 0)
    ):
        # Also when nothing waits: the run failed all the same, sync message and all.
        severity = max(severity, _over(now - state.due_s, limits.unsent_s) if state.last_success_s else WARNING)
        parts.append(f"last error: {' '.join(state.last_error.split())}")
    if state.never_sent:
        parts.append(
            f"{count_of(state.never_sent, 'job')} from before {iso(state.start_s)} never sent (`arcacct republish` "
            "sends them)"
        )
    parts.append("due" if state.due_s <= now else f"due {iso(state.due_s)}")
    return Check(state.name, severity, "; ".join(parts))


def _quarantine_check(now: int, target: TargetState, limits: Thresholds) -> Check:
    held, once, ahead = target.held, target.refused_once, target.ahead
    refused = held.get("quarantined", 0)
    settling = held.get("held", 0) - sum(one.records for one in (once, ahead) if one is not None)
    counts = {**held, "held": settling}
    parts = [f"{count} {state}" for state, count in sorted(counts.items()) if count]
    severity = _over(refused, limits.quarantined)
    if once is not None:
        # Tried again for days: whoever refuses them, it is not by chance.
        severity = max(severity, _over(now - once.since_s, limits.unsent_s))
        when = "with the next run" if once.next_s <= now else f"from {iso(once.next_s)}"
        parts.append(f"{once.records} refused, to be tried again {when}, the first refused {_ago(now, once.since_s)}")
    if ahead is not None:
        parts.append(f"{ahead.records} with an end in the future by this host's clock, held until {iso(ahead.next_s)}")
    text = ", ".join(parts) or "nothing set aside"
    todo = "" if severity == OK else ": see `arcacct quarantine list`"
    return Check(f"{target.name} quarantine", severity, text + todo)


def _host_checks(found: Health, limits: Thresholds) -> Iterator[Check]:
    for path, end in found.certificates.items():
        if isinstance(end, str):
            yield Check("certificate", UNKNOWN, f"{path} {end}")
            continue
        left = end - found.now
        limit = limits.certificate_s
        severity = CRITICAL if left < limit.critical else WARNING if left < limit.warning else OK
        text = f"expired {_ago(found.now, end)}" if left <= 0 else f"{count_of(left // DAY_S, 'day')} left"
        yield Check("certificate", severity, f"{path}: {text}")
    event = None if found.recorded is None else found.recorded.last_event_s
    if event is not None and event > found.now + _CLOCK_TOLERANCE_S:
        text = f"the last event is {event - found.now} s in the future: check the clock of this host"
        yield Check("clock", CRITICAL, text)
    else:
        yield Check("clock", OK, iso(found.now))


def _over(value: int, limit: Limit) -> int:
    return CRITICAL if value >= limit.critical else WARNING if value >= limit.warning else OK


def _ago(now: int, seconds: int) -> str:
    """``2026-11-20T10:30:00Z (3 h ago)``."""
    age = now - seconds
    for unit, size in (("d", DAY_S), ("h", HOUR_S), ("min", 60)):
        if age >= 2 * size:
            return f"{iso(seconds)} ({age // size} {unit} ago)"
    return f"{iso(seconds)} ({max(age, 0)} s ago)" if age >= 0 else f"{iso(seconds)} (in {-age} s)"
