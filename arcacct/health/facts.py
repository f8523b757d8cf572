"""
The state of a site for `arcacct status`, `metrics` and `doctor`, and how severe a finding is.

Nothing is changed. The judgements are in `checks`.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from types import MappingProxyType
from typing import NamedTuple

from cryptography import x509

from arcacct.arex import resident, spool
from arcacct.arex.resident import Seen
from arcacct.arex.spool import LauncherSettings, Spooled, launcher_settings
from arcacct.config.check import launcher_problem
from arcacct.config.credentials import Finding, certificate_findings, pair_findings
from arcacct.config.options import ERROR
from arcacct.config.paths import Places, is_without_arex
from arcacct.config.settings import Settings
from arcacct.config.values import Limit, Thresholds
from arcacct.database import access, durable, incarnation, location
from arcacct.database.connection import Connection
from arcacct.database.durable import MaintenanceEntry
from arcacct.database.incarnation import DatabaseMismatch
from arcacct.database.schema import SNAPSHOT, noted
from arcacct.errors import ArcacctError, ConfigError, CredentialError, StoreBusy
from arcacct.files.directories import unseen
from arcacct.files.safe_open import read_regular
from arcacct.health import databases as health_databases
from arcacct.health.databases import Basis, RecordingState, TargetState, basis
from arcacct.publishing.former_publisher import FormerPublisher, former_publisher
from arcacct.records import hold_decisions, unfinished
from arcacct.records.hold_decisions import Counts
from arcacct.targets import plugins
from arcacct.times import DAY_S, iso, recent_months
from arcacct.wording import count_of, span_of

OK, WARNING, CRITICAL, UNKNOWN = range(4)
"""The exit codes of monitoring plug-ins."""
WORDS = ("ok", "WARNING", "CRITICAL", "UNKNOWN")
_BYTES_A_JOB = 1700
"""
The size of a job in both databases, if too few are recorded to calculate it: three targets, a year (DESIGN section 8).
"""
_MANY_JOBS = 10_000
"""Minimum number of jobs to estimate the size of one from the size of the files."""
_GROWTH_DAYS = 7
_YEARS_DAYS = 3650


class Check(NamedTuple):
    """The finding of one check."""

    subject: str
    severity: int
    detail: str
    """The state."""
    advice: str = ""
    """What to do about it; empty: nothing."""
    exit_code: int = 0
    """Its part of the exit code of `arcacct doctor`; 0 for everything except errors and failed checks."""
    manual: str = ""
    """The page of the manual, below `docs/`."""

    @property
    def text(self) -> str:
        """Detail and advice, for people."""
        return f"{self.detail}; {self.advice}" if self.advice else self.detail


def advised(subject: str, severity: int, text: str, exit_code: int = 0) -> Check:
    """Return a check from a text with a problem, and after a semicolon what to do."""
    detail, _, advice = text.partition("; ")
    return Check(subject, severity, detail, advice, exit_code)


def launcher_check(problem: Finding, exit_code: int = 0) -> Check:
    """The check of a launcher that A-REX cannot start, or that this user cannot see."""
    return advised("launcher", CRITICAL if problem.severity == ERROR else UNKNOWN, problem.text, exit_code)


class Launcher(NamedTuple):
    """The program that A-REX starts at changes of state."""

    path: str
    problem: Finding | None
    """Why A-REX cannot start it, or why this is unknown; ``None``: it can."""
    astray: Spooled
    """Files in spools of its own ..."""
    places: tuple[str, ...]
    """... that no sweep drains."""


class Disk(NamedTuple):
    """Free space for this user on the disk of a folder."""

    folder: str
    free_bytes: int
    free_files: int | None
    """``None``: its file system does not count them."""
    days: int | None = None
    """How many days it will last at the rate of the last week; ``None``: almost nothing is written here."""
    looked_at: str = ""
    """The directory above that was examined, if the folder does not exist."""


class Health(NamedTuple):
    """All facts."""

    now: int
    database: str
    size_bytes: int
    recorded: RecordingState | None
    problem: str | None
    """Why the databases could not be read."""
    writer: int | None
    """The process that prevents all others from writing."""
    maintenance: bool
    spool: Spooled
    targets: tuple[TargetState, ...]
    certificates: dict[str, int | None]
    """By file: when it ends; ``None``: it cannot be read."""
    refused: tuple[tuple[str, str], ...] = ()
    """What a run would refuse: the option, the reason, and after a semicolon what to do."""
    former: tuple[FormerPublisher, ...] = ()
    """The records of jura-ng at the receivers of the targets."""
    doubts: tuple[DatabaseMismatch, ...] = ()
    """The mismatches between accounting.db and publishing.db."""
    settings: Settings | None = None
    """``None``: the configuration has errors, and only the places are known."""
    launchers: tuple[Launcher, ...] = ()
    maintenance_log: Mapping[str, MaintenanceEntry] = MappingProxyType({})
    """The last time of each kind of maintenance."""
    leftovers: tuple[str, ...] = ()
    """Files that killed commands left next to the databases."""
    disks: tuple[Disk, ...] = ()
    """The databases' own first; empty: unknown."""
    on_hold: int = 0
    """Jobs that ended with unknown usage."""
    implausible: Mapping[str, Counts] = MappingProxyType({})
    """By state (`records.holds`) the records with values that cannot be true."""
    basis: Basis | None = None
    """How the jobs of this month and the one before were measured; ``None``: unknown."""
    recorder: Seen | None = None
    """``None``: unknown."""
    misshapen: tuple[str, ...] = ()
    """The problem of a spool that is no directory, or a lock that is no file, and after a semicolon what to do."""
    is_without_arex: bool = False
    """Whether there is no control directory, and the database is elsewhere."""
    no_directory: str = ""
    """Why the databases' directory cannot be read; empty: it can."""


def examine(settings: Settings) -> Health:
    """Collect all facts; raises no error that can be reported."""
    return look(settings.places, settings)


def look(here: Places, settings: Settings | None) -> Health:
    """The same if the configuration has errors, so that only the places are known."""
    problem = None
    without = is_without_arex(here, has_callouts=settings is not None and bool(settings.launchers))
    try:
        folders = location.spools(here)
    except ArcacctError as error:
        # An error in the note of a move also stops every sweep.
        folders, problem = [here.spool], str(error)
    now, certificates = int(time.time()), {} if settings is None else _certificates(settings)
    found = Health(
        now,
        here.database,
        0,
        None,
        problem,
        health_databases.writer_of(here.database),
        os.path.exists(here.maintenance),
        _spooled(here, folders, is_without_arex=without),
        (),
        certificates,
        refused=() if settings is None else _refused(settings, certificates, now),
        settings=settings,
        launchers=tuple(_launcher(path, folders) for path in (() if settings is None else settings.launchers)),
        maintenance_log=durable.last_done(here.directory),
        leftovers=tuple(durable.leftovers(here.directory)),
        disks=tuple(disks(here)),
        recorder=resident.seen(here),
        is_without_arex=without,
        no_directory=cannot_look(here.directory),
        misshapen=(
            *(f"{path} is not a directory; remove it" for path in folders if _is_other(path, os.path.isdir)),
            *(f"{path} is not a file; remove it" for path in (here.queue_lock,) if _is_other(path, os.path.isfile)),
        ),
    )
    try:
        if settings is not None and not os.path.exists(here.publishing_database):
            former = [former_publisher(plugin, None) for plugin in plugins(settings)]
            found = found._replace(former=tuple(filter(None, former)))
        try:
            return _looked(here, settings, found)
        except StoreBusy:
            # Another process started to write after the check for a writer.
            return _looked(here, settings, found)
    except ArcacctError as error:
        # Also a ConfigError, for an invalid control directory or another place.
        return found._replace(problem=_hidden(here.database) or str(error))


def _hidden(path: str) -> str:
    """Whether this user may not even see if a file is there."""
    try:
        os.stat(path)
    except PermissionError:
        return f"{path} cannot be read by {user_name(os.geteuid())}; run as the user of A-REX, usually root"
    except OSError:
        pass
    return ""


def _looked(here: Places, settings: Settings | None, found: Health) -> Health:
    with (
        access.translating(here.database),
        closing(access.read_accounting(here)) as ours,
        closing(access.read_publishing(here)) as ledger,
    ):
        recorded = health_databases.recorded(ours)
        targets = [] if settings is None else plugins(settings)
        former = [former_publisher(plugin, ledger) for plugin in targets]
        lately = health_databases.ended_since(ours, found.now - _GROWTH_DAYS * DAY_S)
        return found._replace(
            problem=found.problem or _misplaced(here, ours),
            size_bytes=_size_bytes(here.database),
            recorded=recorded,
            disks=tuple(
                disk._replace(days=_days_left(here, disk.free_bytes, lately, recorded.jobs))
                if disk.folder == here.directory
                else disk
                for disk in found.disks
            ),
            on_hold=len(unfinished.held_jobs(ours)),
            implausible=hold_decisions.counts(ours),
            basis=basis(ours, sorted(recent_months(found.now))),
            targets=tuple(
                health_databases.target_state(ledger, ours, plugin, one)
                for plugin, one in zip(targets, former, strict=True)
            ),
            former=tuple(filter(None, former)),
            doubts=tuple(
                incarnation.mismatches(
                    incarnation.incarnation_state(
                        ours, ledger, rehearsing=here.rehearsal is not None, fences_noted=location.fence(here)
                    )
                )
            ),
        )


def _misplaced(here: Places, con: Connection) -> str | None:
    """Why commands refuse to write into the database; ``None``: they do not, or it is a snapshot for readers."""
    try:
        if noted(con, SNAPSHOT) is None:
            location.refuse_another(here)
            location.refuse_unrelated(here, con)
    except ConfigError as error:
        return str(error)
    return None


def user_name(uid: int) -> str:
    """Return a user's name, or the number if the user has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _launcher(path: str, drained: Sequence[str]) -> Launcher:
    known = {os.path.realpath(folder) for folder in drained}
    settings = launcher_settings(path) or LauncherSettings()
    places = tuple(one for one in (settings.spool, settings.fallback) if one and os.path.realpath(one) not in known)
    return Launcher(path, launcher_problem(path), spool.look(places), places)


def _is_other(path: str, is_right: Callable[[str], bool]) -> bool:
    return os.path.lexists(path) and not is_right(path)


def cannot_look(folder: str) -> str:
    """
    Return why the content of a directory is unknown: it does not exist, or this user may not read it; empty: it can be
    read.
    """
    try:
        os.stat(folder)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def _spooled(here: Places, folders: Sequence[str], *, is_without_arex: bool) -> Spooled:
    """A spool is created with its first event: it may be missing, but not the directory that it would be in."""
    found = spool.look(folders)
    unknown = [*found.unknown]
    no_controldir = "" if is_without_arex else cannot_look(here.controldir)
    if no_controldir:
        unknown.append(no_controldir)
    is_below = here.directory.startswith(f"{here.controldir}/")
    if not (no_controldir and is_below) and (no_directory := cannot_look(here.directory)):
        unknown.append(no_directory)
    return found._replace(unknown=tuple(unknown))


def there(path: str) -> str:
    """Return the path, or the closest existing directory above it."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def disks(here: Places) -> Iterator[Disk]:
    """Return the space for the databases and for the second spool, if there is one."""
    for folder in dict.fromkeys((here.directory, here.spool_fallback or here.directory)):
        try:
            room = os.statvfs(looked_at := there(folder))
        except OSError:
            continue
        free_files = room.f_favail if room.f_files else None
        yield Disk(
            folder, room.f_bavail * room.f_frsize, free_files, looked_at="" if looked_at == folder else looked_at
        )


def _size_bytes(*databases: str) -> int:
    files = [f"{path}{end}" for path in databases for end in ("", "-wal")]
    return sum(os.stat(file).st_size for file in files if os.path.exists(file))


def _days_left(here: Places, free_bytes: int, lately: int, jobs: int) -> int | None:
    """Return how long the disk will last; ``None`` if no job ended lately."""
    if not lately:
        return None
    size_bytes = _size_bytes(here.database, here.publishing_database) if jobs >= _MANY_JOBS else 0
    return int(free_bytes * _GROWTH_DAYS // (lately * max(_BYTES_A_JOB, size_bytes // jobs if size_bytes else 0)))


def _certificates(settings: Settings) -> dict[str, int | None]:
    """When each certificate ends; ``None`` if it cannot be read."""
    found: dict[str, int | None] = {}
    for target in settings.targets:
        if (shown := target.credentials()) is not None:
            found[shown.x509_host_cert] = None
            with suppress(OSError, ValueError):
                certificate = x509.load_pem_x509_certificate(read_regular(shown.x509_host_cert))
                found[shown.x509_host_cert] = int(certificate.not_valid_after_utc.timestamp())
    return found


def _refused(settings: Settings, ends: Mapping[str, int | None], now: int) -> tuple[tuple[str, str], ...]:
    """Return why a run would refuse certificates and keys, each once; unreadable files are left out."""
    found: dict[tuple[str, str], None] = {}
    for target in settings.targets:
        shown = target.credentials()
        if shown is None or any(map(_is_hidden, (shown.x509_host_cert, shown.x509_host_key))):
            continue
        wrong = pair_findings(target)
        if ends[shown.x509_host_cert] is None:
            wrong += [("x509_host_cert", one) for one in certificate_findings(shown.x509_host_cert, now)]
        for option, one in wrong:
            if one.severity == ERROR:
                found[option, one.text] = None
    return tuple(found)


def _is_hidden(path: str) -> bool:
    return os.path.exists(path) and not os.access(path, os.R_OK)


def worst(checks: Iterable[Check]) -> int:
    """Return the exit code: the most severe known one; UNKNOWN only if all others are OK."""
    severities = {check.severity for check in checks}
    return next((severity for severity in (CRITICAL, WARNING, UNKNOWN) if severity in severities), OK)


def certificate_check(path: str, end: int, now: int, limits: Thresholds) -> Check:
    """Check how long a certificate that ends at ``end`` (UTC seconds) is still valid."""
    left = count_of((end - now) // DAY_S, "day")
    text = f"expired {ago(now, end)}" if end <= now else f"valid until {iso(end)}, {left} left"
    severity = under(end - now, limits.certificate_s)
    exit_code = CredentialError.exit_code if severity == CRITICAL else 0
    return Check("certificate", severity, f"{path}: {text}", "order a new one" if severity else "", exit_code)


def disk_check(disk: Disk, limits: Thresholds) -> Check:
    """Check whether there is space for as long as an administrator may be away: bytes, files, days."""
    mib = disk.free_bytes // 2**20
    what = unseen(disk.folder) or "does not exist"
    where = f"{disk.folder} {what}; {disk.looked_at}" if disk.looked_at else disk.folder
    text = f"{where}: {mib / 1024:.1f} GiB free" if mib >= 1024 else f"{where}: {mib} MiB free"
    severity = under(disk.free_bytes, limits.free_bytes)
    advice = "free disk space: if database and spool are full, events are lost"
    if disk.days is not None:
        severity = max(severity, under(disk.days * DAY_S, limits.free_s))
        lasts = "years" if disk.days >= _YEARS_DAYS else f"{disk.days} days at the rate of the last week"
        text, advice = f"{text}, enough for {lasts}", f"{advice}; `arcacct db prune` removes jobs that no target needs"
    if disk.free_files is not None and (few := under(disk.free_files, limits.free_files)):
        severity, text = max(severity, few), f"{text}, and room for only {count_of(disk.free_files, 'file')} (inodes)"
        advice = "remove small files: each event in the spool is a file"
    if disk.looked_at and severity == OK:
        # Another disk may be mounted there later.
        return Check("disk", UNKNOWN, text)
    return Check("disk", severity, text, advice if severity else "")


def over(value: int, limit: Limit) -> int:
    return CRITICAL if value >= limit.critical else WARNING if value >= limit.warning else OK


def under(value: int, limit: Limit) -> int:
    return CRITICAL if value < limit.critical else WARNING if value < limit.warning else OK


def ago(now: int, seconds: int) -> str:
    """``2026-11-20T10:30:00Z (3 h ago)``."""
    age = now - seconds
    return f"{iso(seconds)} ({span_of(age)} ago)" if age >= 0 else f"{iso(seconds)} (in {span_of(-age)})"


Values = float | None | Mapping[tuple[str, ...], float | None]
"""One value, or one for each combination of labels; ``None``: unknown."""


class Metric(NamedTuple):
    """A metric for Prometheus."""

    form: str
    """Name and labels: ``NAME{LABEL,LABEL}``."""
    help: str
    read: Callable[[Health], Values]

    @property
    def name(self) -> str:
        """Without the labels."""
        return self.form.partition("{")[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""
        return tuple(filter(None, self.form.partition("{")[2].rstrip("}").split(",")))

    def samples(self, found: Health) -> Iterable[tuple[tuple[str, ...], float | None]]:
        """Each value with those of its labels."""
        values = self.read(found)
        return values.items() if isinstance(values, Mapping) else [((), values)]
