"""Whether all is well, as `arcacct status` and `arcacct metrics` report it; nothing is changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple

from cryptography import x509

from arcacct.arex import spool_replay
from arcacct.arex.spool_replay import Spooled
from arcacct.config.settings import Settings
from arcacct.database import access, durable, incarnation
from arcacct.database.durable import MaintenanceEntry
from arcacct.database.incarnation import MEANING, DatabaseMismatch
from arcacct.database.location import fence, spools
from arcacct.errors import ArcacctError, StoreBusy
from arcacct.publishing.ledger_rows import iso
from arcacct.publishing.safeguard import held_text
from arcacct.publishing.selection import NOT_SELECTED
from arcacct.queries import health_queries
from arcacct.queries.health_queries import Basis, RecordingState, TargetState, basis
from arcacct.records import hold_decisions, unfinished
from arcacct.records.hold_decisions import Counts
from arcacct.records.holds import HELD, PUBLISHED
from arcacct.targets import plugins
from arcacct.wording import count_of

DAY_S = 86400
HOUR_S = 3600
OK, WARNING, CRITICAL, UNKNOWN = range(4)
"""The exit codes of monitoring plug-ins."""
WORDS = ("ok", "WARNING", "CRITICAL", "UNKNOWN")
_CLOCK_TOLERANCE_S = 300
_FEW_FILES = 1000
_SNAPSHOT_S = 2 * DAY_S
"""A copy for readers that is older is not what its readers take it for."""
UNMEASURED_TODO = (
    "look at the .diag of a job without wall time: is GNU time on the worker nodes? What is published of such jobs is"
    " the site's choice (missing_wall_time= in [arcacct])"
)
_SNAPSHOT = "run `arcacct db snapshot DIR` by its timer, or remove it"


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
    implausible: Limit = Limit(1, 1000)
    """Records that are held, since values of theirs cannot be true."""
    unmeasured_percent: Limit = Limit(5, 50)
    """Of the jobs of this month and the last, those that nobody measured the wall time of, if they are ten at least."""
    backup_s: Limit = Limit(7 * DAY_S, 30 * DAY_S)
    """Since the last `arcacct db backup`, or since the database was made."""
    free_mib: Limit = Limit(1024, 128)
    """What is left on the disk of the databases."""


class Check(NamedTuple):
    """One line of the screen."""

    subject: str
    severity: int
    text: str


class Launcher(NamedTuple):
    """The program that A-REX starts at changes of state."""

    path: str
    problem: str
    """Why A-REX cannot start it; empty when it can."""
    astray: Spooled
    """What is in spools of its own ..."""
    places: tuple[str, ...]
    """... that no sweep drains."""


class Publishing(NamedTuple):
    """Who publishes what this host records."""

    ours: bool = True
    """Whether arcacct is meant to."""
    targets: int = 0
    """How many arcacct has."""
    of_jura: tuple[str, ...] = ()
    """The blocks of those that A-REX's jura-ng publishes to ..."""
    left: frozenset[str] = frozenset()
    """... the names of the targets that arcacct leaves to it meanwhile ..."""
    allowed: bool = False
    """... and whether both may (allow_jura)."""


class Free(NamedTuple):
    """Room on a disk for this user."""

    bytes: int
    files: int | None
    """``None``: as many as one likes."""


class Health(NamedTuple):
    """All that was found out."""

    now: int
    database: str
    size_bytes: int
    recorded: RecordingState | None
    problem: str | None
    """Why the databases could not be asked."""
    writer: int | None
    """The process that does not let anybody write."""
    maintenance: bool
    spool: Spooled
    targets: tuple[TargetState, ...]
    certificates: dict[str, int | str]
    """By file: when it ends, or why that is not known."""
    doubts: tuple[DatabaseMismatch, ...] = ()
    """What is wrong between accounting.db and publishing.db."""
    publishing: Publishing = Publishing()
    launchers: tuple[Launcher, ...] = ()
    maintenance_log: Mapping[str, MaintenanceEntry] = MappingProxyType({})
    """By kind when the databases were cared for last."""
    free: Free | None = None
    """Room on their disk; ``None``: not known."""
    on_hold: int = 0
    """Jobs that have ended and of which nothing tells what they used."""
    implausible: Mapping[str, Counts] = MappingProxyType({})
    """By state (`records.holds`) the records with values that cannot be true."""
    basis: Basis | None = None
    """How the jobs of this month and the one before it were measured; ``None``: not known."""


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
        health_queries.writer_of(here.database),
        os.path.exists(here.maintenance),
        spool_replay.look(folders),
        (),
        _certificates(settings),
        publishing=_publishing(settings),
        launchers=tuple(_launcher(path, folders) for path in settings.launchers),
        maintenance_log=durable.last_done(here),
        free=_free(here.directory),
    )
    try:
        try:
            return _looked(settings, found)
        except StoreBusy:
            # Nobody had it open when it was opened, and somebody has begun to write.
            return _looked(settings, found)
    except ArcacctError as error:
        # Also a ConfigError: that of a control directory that is none, or of another place.
        return found._replace(problem=str(error))


def _looked(settings: Settings, found: Health) -> Health:
    here = settings.places
    files = (here.database, f"{here.database}-wal")
    with (
        access.translating(here.database),
        closing(access.read_accounting(here)) as ours,
        closing(access.read_publishing(here)) as ledger,
    ):
        return found._replace(
            size_bytes=sum(os.stat(file).st_size for file in files if os.path.exists(file)),
            recorded=health_queries.recorded(ours),
            on_hold=len(unfinished.on_hold(ours)),
            implausible=hold_decisions.counts(ours),
            basis=basis(ours, recent_months(found.now)),
            targets=tuple(health_queries.target_state(ledger, ours, plugin) for plugin in plugins(settings)),
            doubts=tuple(
                incarnation.mismatches(
                    incarnation.incarnation_state(
                        ours, ledger, rehearsing=here.rehearsal is not None, fences_noted=fence(here)
                    )
                )
            ),
        )


def recent_months(now: int) -> list[tuple[int, int]]:
    """This month and the one before it, UTC."""
    year, month = time.gmtime(now)[:2]
    return [(year - (month == 1), (month - 2) % 12 + 1), (year, month)]


def _launcher(path: str, drained: Sequence[str]) -> Launcher:
    known = {os.path.realpath(folder) for folder in drained}
    try:
        places = tuple(place for place in spool_replay.of_launcher(path) if os.path.realpath(place) not in known)
    except OSError as error:
        return Launcher(path, f"{error.strerror}", Spooled(), ())
    return Launcher(path, "" if os.access(path, os.X_OK) else "nobody may run it", spool_replay.look(places), places)


def _free(directory: str) -> Free | None:
    try:
        room = os.statvfs(directory)
    except OSError:
        return None
    return Free(room.f_bavail * room.f_frsize, room.f_favail if room.f_files else None)


def _publishing(settings: Settings) -> Publishing:
    left = () if settings.allow_jura else settings.jura_targets
    return Publishing(
        settings.publishes,
        len(settings.targets),
        tuple(dict.fromkeys(settings.jura_targets)),
        frozenset(target.name for target in settings.targets if target.block in left),
        settings.allow_jura,
    )


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
        *_publishing_checks(found.publishing),
        *(_target_check(found, target, limits) for target in found.targets),
        *(check for target in found.targets for check in _figures_checks(target)),
        *(_quarantine_check(found.now, target, limits) for target in found.targets),
        *_care_checks(found, limits),
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
            f"{one.year:04d}-{one.month:02d}: a record of {one.message_format} refused in "
            f"{count_of(one.refusals, 'run')}: {one.reason}"
        )
        severity = OK if one.refusals == 1 else WARNING
        yield Check(f"{target.name} sums", severity, f"{what}; each run sends it again")
    if target.not_selected:
        yield Check(f"{target.name} selection", OK, f"{count_of(target.not_selected, 'job')} {NOT_SELECTED}")
    if target.ledger_problem:
        yield Check(f"{target.name} ledger", CRITICAL, target.ledger_problem)
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
            f"{count_of(found.on_hold, 'job')} ended and of unknown usage: {unfinished.REMEDIES}; `arcacct verify` of"
            " the month names them"
        )
        yield Check("vanished", WARNING, text)
    yield from _implausible_checks(found, limits)
    if found.basis is not None and (found.basis.jobs or found.basis.held):
        year, month = recent_months(found.now)[0]
        severity = _over(found.basis.without_wall_percent, limits.unmeasured_percent)
        todo = f"; {UNMEASURED_TODO}" if severity else ""
        yield Check("measured", severity, f"{year:04d}-{month:02d} and later: {found.basis}{todo}")
    yield from _callout_checks(found)
    yield _spool_check(found, limits)
    for launcher in found.launchers:
        if launcher.places:
            astray, places = launcher.astray, " and ".join(launcher.places)
            severity = max(WARNING, _waits(astray, found.now, limits))
            text = (
                f"{launcher.path} spools in {places}, where no sweep looks: {_events(found.now, astray)}; name the same"
                " directory as spool_fallback= in [arcacct], or leave spool= of the launcher empty"
            )
            yield Check("launcher spool", severity, text)


def _implausible_checks(found: Health, limits: Thresholds) -> Iterator[Check]:
    """Whether figures lack jobs whose values cannot be true, or have some."""
    held = found.implausible.get(HELD, hold_decisions.NONE)
    if held.records:
        text = (
            f"{count_of(held.records, 'job')} held, in no figure and at no receiver, {held.why}"
            f" ({held.text}): see `arcacct quarantine list`, and settle them by `arcacct quarantine decide`"
        )
        yield Check("implausible", _over(held.records, limits.implausible), text)
    published = found.implausible.get(PUBLISHED, hold_decisions.NONE)
    if published.records:
        text = (
            f"{count_of(published.records, 'job')} published before values were checked, with values that cannot be"
            f" true ({published.text}): see `arcacct quarantine list --decided`, and correct or keep them by"
            " `arcacct quarantine decide --published`"
        )
        yield Check("implausible", _over(published.records, limits.implausible._replace(critical=2**63)), text)


def _callout_checks(found: Health) -> Iterator[Check]:
    """Whether A-REX calls us, by what came of it."""
    for launcher in found.launchers:
        if launcher.problem:
            text = f"{launcher.path}: {launcher.problem}: A-REX fails each job whose callout it cannot start"
            yield Check("launcher", CRITICAL, text)
    ends = None if found.recorded is None else found.recorded.ends
    if ends is not None and ends.jobs:
        told = ends.jobs - ends.swept
        text = (
            f"of {count_of(ends.jobs, 'job')} that ended within a day they told the end of {told}, the sweep found"
            f" {ends.swept}"
        )
        todo = "" if told else ": does A-REX call arcacct-hook? See `statecallout` in arc.conf, and restart A-REX"
        yield Check("callouts", OK if told else WARNING, text + todo)


def _spool_check(found: Health, limits: Thresholds) -> Check:
    spool = found.spool
    severity = _waits(spool, found.now, limits)
    text = _events(found.now, spool)
    if spool.unknown:
        # By the sweep, whose own age is a check.
        left = None if found.recorded is None else found.recorded.left
        hidden = f"this user cannot list {', '.join(spool.unknown)}"
        if left is None:
            return Check("spool", severity or UNKNOWN, f"{text}; {hidden}, and no sweep has told what is there")
        severity = max(severity, _waits(left, found.now, limits))
        text = f"{_events(found.now, left)}, as the last sweep left them ({hidden})"
    return Check("spool", severity, text)


def _waits(spool: Spooled, now: int, limits: Thresholds) -> int:
    severity = _over(spool.files, limits.spool_files)
    if spool.oldest_s is not None:
        severity = max(severity, _over(now - spool.oldest_s, limits.spool_s))
    return max(severity, WARNING) if spool.unusable else severity


def _events(now: int, spool: Spooled) -> str:
    text = "empty"
    if spool.oldest_s is not None:
        text = f"{count_of(spool.files, 'event')}, the oldest from {_ago(now, spool.oldest_s)}"
    return f"{text}; {count_of(spool.unusable, 'file')} set aside in spool/unusable" if spool.unusable else text


def _care_checks(found: Health, limits: Thresholds) -> Iterator[Check]:
    """Whether there is a backup, and what the last check of the databases said."""
    if found.recorded is not None:
        last = found.maintenance_log.get(durable.BACKUP)
        since = found.recorded.created_s if last is None else last.at_s
        text = "none is known" if last is None else f"last one {_ago(found.now, last.at_s)}"
        # Another program may make them: of what is not known the worst is not said.
        severity = min(_over(found.now - since, limits.backup_s), WARNING if last is None else CRITICAL)
        yield Check("backup", severity, text + (": run `arcacct db backup DIR` every night" if severity else ""))
    last = found.maintenance_log.get(durable.CHECK)
    if last is not None:
        text = f"last one {_ago(found.now, last.at_s)}"
        todo = "" if last.is_well else " found damage: see `arcacct db check`, and `arcacct db restore FILE`"
        yield Check("check", OK if last.is_well else CRITICAL, text + todo)
    last = found.maintenance_log.get(durable.SNAPSHOT)
    if found.recorded is not None and last is not None:
        text = f"last one {_ago(found.now, last.at_s)}"
        if last.incarnation != found.recorded.life:
            yield Check("snapshot", WARNING, f"{text}, of the database before it was restored: {_SNAPSHOT}")
        else:
            is_old = found.now - last.at_s >= _SNAPSHOT_S
            yield Check("snapshot", WARNING if is_old else OK, f"{text}: {_SNAPSHOT}" if is_old else text)


def _publishing_checks(found: Publishing) -> Iterator[Check]:
    """Whether there is a target, and nobody else publishes to it."""
    names = ", ".join(f"[{block}]" for block in found.of_jura)
    if found.of_jura and not found.ours:
        yield Check("jura", OK, f"A-REX's jura publishes to {names}; arcacct only records (publishes=no)")
    elif found.of_jura and found.allowed:
        yield Check("jura", OK, f"A-REX's jura publishes to the same targets, as allow_jura=yes allows: {names}")
    elif found.of_jura:
        text = (
            f"A-REX's jura publishes to the same targets: {names} in arc.conf; arcacct records, and does not publish"
            " until they are moved to arcacct.conf (`arcacct config check` tells the lines); for a host that is only to"
            " record set publishes=no in [arcacct]"
        )
        yield Check("jura", WARNING, text)
    elif not found.ours:
        yield Check("targets", OK, "none: this host only records (publishes=no)")
    elif not found.targets:
        text = (
            "no target is configured, so nothing is published: name one in arcacct.conf; for a host that is only to"
            " record set publishes=no in [arcacct]"
        )
        yield Check("targets", WARNING, text)


def _target_check(found: Health, state: TargetState, limits: Thresholds) -> Check:
    now = found.now
    if state.name in found.publishing.left and state.last_run_s is None:
        # The check of jura-ng is the warning.
        return Check(state.name, OK, "left to A-REX's jura, while its block is in arc.conf")
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
    if state.last_success_s is not None:
        overdue = _over(now - state.due_s, limits.unsent_s)
        if overdue and (state.last_run_s or 0) <= state.due_s:
            # Nothing may wait, and still nobody is there who would send it.
            severity = max(severity, overdue)
            parts.append("no run since it was due: is arcacct-publish.timer active?")
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
    if found.free is not None:
        mib = found.free.bytes // 2**20
        limit_mib = limits.free_mib
        severity = CRITICAL if mib < limit_mib.critical else WARNING if mib < limit_mib.warning else OK
        text = f"{mib} MiB free for the databases"
        if found.free.files is not None and found.free.files < _FEW_FILES:
            severity, text = CRITICAL, f"{text}, and room for {count_of(found.free.files, 'file')} more"
        yield Check("disk", severity, text)
    ahead = [
        f"{what} is {at_s - found.now} s" for what, at_s in _instants(found) if at_s > found.now + _CLOCK_TOLERANCE_S
    ]
    if ahead:
        yield Check("clock", CRITICAL, f"{', '.join(ahead)} in the future: check the clock of this host")
    else:
        yield Check("clock", OK, iso(found.now))


def _instants(found: Health) -> Iterator[tuple[str, int]]:
    """What is past, unless the clock is or was wrong: an age that is counted from it would look young for long."""
    if found.recorded is not None:
        yield "the last event", found.recorded.last_event_s or 0
        yield "the last sweep", found.recorded.last_sweep_s or 0
    for target in found.targets:
        yield f"the last run of {target.name}", max(target.last_run_s or 0, target.last_success_s or 0)
    for kind, done in found.maintenance_log.items():
        yield f"the last {kind}", done.at_s


def _over(value: int, limit: Limit) -> int:
    return CRITICAL if value >= limit.critical else WARNING if value >= limit.warning else OK


def _ago(now: int, seconds: int) -> str:
    """``2026-11-20T10:30:00Z (3 h ago)``."""
    age = now - seconds
    for unit, size in (("d", DAY_S), ("h", HOUR_S), ("min", 60)):
        if age >= 2 * size:
            return f"{iso(seconds)} ({age // size} {unit} ago)"
    return f"{iso(seconds)} ({max(age, 0)} s ago)" if age >= 0 else f"{iso(seconds)} (in {-age} s)"
