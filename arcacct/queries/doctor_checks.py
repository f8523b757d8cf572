"""The checks of `arcacct doctor` of configuration, credentials and A-REX, and the site that they are given."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from difflib import get_close_matches
from typing import NamedTuple

import psutil
from cryptography import x509

from arcacct.config import credentials as config_credentials
from arcacct.config import options, parser
from arcacct.config.check import check_text
from arcacct.config.credentials import Finding
from arcacct.config.options import Kinds, Problem, TransportOptions
from arcacct.config.options import targets as found_targets
from arcacct.config.parser import Conf, absolute, parse
from arcacct.config.paths import CONTROLDIR, STATUS_FOLDERS, places
from arcacct.config.review import NEW_STATES, callouts, wrong_callouts
from arcacct.config.settings import examine
from arcacct.database import access
from arcacct.database.location import misplaced
from arcacct.errors import ArcacctError, ConfigError, CredentialError, StoreError
from arcacct.queries.health import (
    BEFORE_LIVE,
    CRITICAL,
    OK,
    UNKNOWN,
    WARNING,
    Check,
    advised,
    certificate_check,
    is_without_arex,
    user_name,
)
from arcacct.records import reader
from arcacct.secrecy import without_login
from arcacct.targets import kinds
from arcacct.tls import system_authorities
from arcacct.wording import count_of

# VOs that a target is limited to and that no recorded job has: a slip of the pen stops everything there.


def unknown_vos(conf: Conf, kinds: Kinds, database: str | None = None) -> list[Problem]:
    """A warning for each ``vofilter`` that selects no job of the database; none where there is no database to ask."""
    try:
        found, _problems = examine(conf, kinds, database=database)
        if found is None or not any(target.vofilter for target in found.targets):
            return []
        here = found.places
        with access.translating(here.database), closing(access.read_accounting(here)) as con:
            known = reader.vos(con)
    except ArcacctError:
        # Why it cannot be asked is for others to say.
        return []
    problems = []
    for target in found.targets:
        for vo in target.vofilter if known else ():
            if vo not in known:
                block = conf.blocks[target.block]
                line = next(one for one in block.options["vofilter"] if one.value == vo)
                like = get_close_matches(vo, known, 1)
                text = f"no recorded job is of VO {vo!r}; {f'did you mean {like[0]}?' if like else 'is it right?'}"
                problems.append(Problem(options.WARNING, line.file, line.line, block.name, "vofilter", text))
    return problems


# What every check of `arcacct doctor` is given.


CONF, KEYS, STORE = ConfigError.exit_code, CredentialError.exit_code, StoreError.exit_code
"""What errors of the configuration (and of what it names), of credentials, and of databases add to the exit code."""


def of_error(subject: str, error: ArcacctError) -> Check:
    """The check that an error is."""
    return advised(subject, CRITICAL, " ".join(map(str, error.args)), error.exit_code)


class Process(NamedTuple):
    """A running A-REX."""

    pid: int
    files: tuple[str, ...]
    """What it has open, as far as we may see that."""


def arex_processes() -> list[Process]:
    """The processes ``arched`` of this host."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] != "arched":
            continue
        try:
            files = tuple(one.path for one in process.open_files())
        except (psutil.Error, OSError):
            files = ()
        found.append(Process(process.pid, files))
    return found


class Site:
    """The configured host; ``None`` replaces a part that a wrong configuration lacks."""

    def __init__(
        self,
        conf: Conf,
        database: str | None = None,
        *,
        limit_s: float = 20.0,
        now: int | None = None,
        processes: Callable[[], Sequence[Process]] = arex_processes,
        mounts: str = "/proc/self/mountinfo",
        run_time_conf: str = parser.RUN_TIME_FILE,
    ) -> None:
        """
        ``database`` of the command line wins. ``limit_s``: how long one question to a receiver may take.

        ``now``: UTC seconds, ``None`` for the present. The others are where this host's state is read.
        """
        self.conf = conf
        self.database = database
        self.limit_s = limit_s
        self.now = int(time.time()) if now is None else now
        self.processes = processes
        self.mounts = mounts
        self.run_time_conf = run_time_conf
        self.kinds = kinds(conf)
        self.settings, _problems = examine(conf, self.kinds, database=database, to_publish=False)
        try:
            self.here = places(conf, None, database) if conf.files else None
        except ConfigError:
            # Is among the problems of the configuration.
            self.here = None

    @property
    def is_without_arex(self) -> bool:
        """Whether no A-REX is expected here."""
        return self.here is not None and is_without_arex(self.here, has_callouts=bool(callouts(self.conf)))


Step = Callable[[Site], Iterable[Check]]
"""Looks at one thing. May raise what it likes: that is a verdict, too."""


# The configuration: can it be read, is it right, who may change it.


def configuration(site: Site) -> Iterator[Check]:
    """Every problem of the text, as `config check` has them; those of callouts and of jura-ng under their own names."""
    found = [*check_text(site.conf, site.kinds), *unknown_vos(site.conf, site.kinds, site.database)]
    wrong = options.errors(found)
    if site.conf.files and not wrong:
        yield Check("configuration", OK, ", ".join(site.conf.files))
    for one in found:
        is_error = one.severity == options.ERROR
        # Without its own "warning:", which the verdict says.
        text = str(one._replace(severity=options.ERROR))
        yield advised(_subject(one), CRITICAL if is_error else WARNING, text, CONF if is_error else 0)


def _subject(problem: options.Problem) -> str:
    if problem.option == "statecallout":
        return "callouts"
    return "jura" if "jura-ng" in problem.text else "configuration"


def targets(site: Site) -> Iterator[Check]:
    """Which targets there are, in earnest, and with all that they need of this host."""
    if site.here is not None and site.here.rehearsal is not None:
        detail = f"rehearsal= is set: publications are recorded in {site.here.rehearsal}, and not in the site's ledger"
        yield Check("rehearsal", WARNING, detail, "remove it and its targets before this host publishes for real")
    for one in found_targets(site.conf, site.kinds, None, []):
        for option, text in one.wrong():
            yield advised(one.name, CRITICAL, f"{option}: {text}", CONF)
    if site.settings is None:
        yield Check("targets", UNKNOWN, "the configuration has errors", "fix them first")
    elif site.settings.targets:
        yield Check("targets", OK, ", ".join(f"{one.name} ({one.url})" for one in site.settings.targets))


def permissions(site: Site) -> Iterator[Check]:
    """Check which users may change the configuration and the databases, and whether the recorder may write them."""
    for path in site.conf.files:
        found = _changeable("permissions", path, CONF)
        if found.severity == OK and (loose := [*changeable_parts(path)]):
            detail = f"{path} can be replaced by other users, who may write in {', '.join(loose)}"
            found = Check("permissions", CRITICAL, detail, f"chmod go-w {' '.join(map(shlex.quote, loose))}", CONF)
        yield found
        mode = os.stat(path).st_mode
        proxy = site.conf.option("common", "http_proxy")
        if proxy is not None and proxy.file == path and mode & 0o044 and without_login(proxy.value) != proxy.value:
            yield Check(
                "permissions", WARNING, f"{path} contains a password, and other users may read it", f"chmod 600 {path}"
            )
    yield from _doctor(site)
    here = site.here
    if here is None or not os.path.isdir(here.directory):
        return
    yield _changeable("permissions", here.directory, STORE)
    mode = stat.S_IMODE(os.stat(here.directory).st_mode)
    if mode & 0o005:
        yield Check(
            "permissions",
            WARNING,
            f"{here.directory} is readable by all users, and contains names of users",
            f"chmod o-rwx {here.directory}; add its readers to the group of read_group=",
        )
    yield from _owners(site)


def changeable_parts(path: str) -> Iterator[str]:
    """A file and the directories above it that others than their owner may write to, from the file up."""
    path = os.path.realpath(path)
    while True:
        status = os.stat(path)
        # In a directory with the sticky bit each may replace only what is theirs.
        if _others_write(status) and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            yield path
        if path == "/":
            return
        path = os.path.dirname(path)


def _others_write(status: os.stat_result) -> bool:
    is_of_group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
    return bool(status.st_mode & stat.S_IWOTH or is_of_group)


def _changeable(what: str, path: str, exit_code: int) -> Check:
    """Whether others than root and its owner may change a file or directory."""
    status = os.stat(path)
    if _others_write(status):
        return Check(what, CRITICAL, f"{path} can be changed by other users", f"chmod go-w {path}", exit_code)
    return Check(what, OK, f"{path} belongs to {user_name(status.st_uid)}, who alone may change it")


def _doctor(site: Site) -> Iterator[Check]:
    """Whether what the doctor may read and write is what the recorder may."""
    here = site.here
    if here is None or not os.path.isdir(here.controldir):
        return
    user = os.stat(here.controldir).st_uid
    if os.geteuid() not in (0, user):
        yield Check(
            "permissions",
            WARNING,
            f"the doctor runs as {user_name(os.geteuid())}, and A-REX as {user_name(user)}: what it may read differs",
            f"run `arcacct doctor` as {user_name(user)}",
        )


def _owners(site: Site) -> Iterator[Check]:
    """The launcher runs as the user of A-REX, to whom the control directory belongs."""
    here = site.here
    if here is None or not os.path.isdir(here.controldir):
        return
    user = os.stat(here.controldir).st_uid
    ours = (
        here.directory,
        here.database,
        f"{here.database}-wal",
        here.spool,
        here.queue_lock,
        here.publishing_database,
    )
    others = [path for path in ours if os.path.exists(path) and os.stat(path).st_uid != user]
    if user and others:
        yield Check(
            "permissions",
            CRITICAL,
            f"{', '.join(others)}: not owned by {user_name(user)}, who owns {here.controldir}, so as whom A-REX runs "
            "its launcher",
            f"chown {user_name(user)} {' '.join(others)}, and run every command of arcacct as that user",
            STORE,
        )


# What the host proves itself by, and whom it trusts: certificate, key, CAs.


_CRL = re.compile(r"[0-9a-f]{8}\.r\d+")


def credentials(site: Site) -> Iterator[Check]:
    """Each file once, whichever targets name it."""
    named = [
        (one, way) for one in options.targets(site.conf, site.kinds, None, []) if (way := one.credentials()) is not None
    ]
    if not named:
        yield Check("certificate", UNKNOWN, "no target needs one")
        return
    # What one kind of target takes another may refuse: only APEL has its messages signed.
    pairs: dict[tuple[str, str], dict[tuple[str, Finding], None]] = {}
    for target, way in named:
        found = pairs.setdefault((way.x509_host_cert, way.x509_host_key), {})
        found.update(dict.fromkeys(config_credentials.pair_findings(target)))
    for cert in dict.fromkeys(cert for cert, _ in pairs):
        about = [found for (other, _), found in pairs.items() if other == cert]
        refused = [finding for found in about for option, finding in found if option == "x509_host_cert"]
        yield from _certificate(cert, site.now, refused)
    for (cert, key), found in pairs.items():
        findings = [finding for option, finding in found if option == "x509_host_key"]
        if findings or not found:
            yield from _judged("key", findings, f"{key} is the key of {cert}, readable only by its owner", KEYS)
    shown = [way for _, way in named]
    for directory in dict.fromkeys(way.x509_cert_dir for way in shown):
        yield from _authorities(directory, site.now)
    for path in dict.fromkeys(way.ca_file for way in shown if way.ca_file is not None):
        yield from _judged("CA file", config_credentials.ca_file_findings(path), path, CONF)
    yield from _system(shown)


def _judged(what: str, findings: Iterable[Finding], well: str, exit_code: int) -> Iterator[Check]:
    findings = list(findings)
    for one in findings:
        is_error = one.severity == options.ERROR
        yield advised(what, CRITICAL if is_error else WARNING, one.text, exit_code if is_error else 0)
    if not findings:
        yield Check(what, OK, well)


def _certificate(path: str, now: int, refused: Iterable[Finding]) -> Iterator[Check]:
    findings = [*config_credentials.certificate_findings(path, now), *dict.fromkeys(refused)]
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_certificate(file.read())
    except (OSError, ValueError):
        yield from _judged("certificate", findings, "", KEYS)
        return
    if findings:
        yield from _judged("certificate", findings, "", KEYS)
    else:
        end = int(found.not_valid_after_utc.timestamp())
        yield certificate_check(path, end, now, BEFORE_LIVE)
    # Both spellings: what one receiver has registered in the other's is refused.
    text = f"{config_credentials.slash_dn(found.subject)} at APEL (GOCDB), {found.subject.rfc4514_string()} at SGAS"
    yield Check("DN", OK, text, "register exactly this string")


def _authorities(directory: str, now: int) -> Iterator[Check]:
    findings = config_credentials.ca_directory_findings(directory)
    names = [] if findings else sorted(os.listdir(directory))
    hashed = [name for name in names if config_credentials.HASHED.fullmatch(name)]
    ends = {name: _end_of(os.path.join(directory, name)) for name in hashed}
    unusable = [name for name, end_s in ends.items() if end_s is None]
    if unusable:
        some = f"{len(unusable)} of {count_of(len(hashed), 'CA certificate')} cannot be read: {unusable[0]}"
        text = f"{directory}: {some}{', ...' if len(unusable) > 1 else ''}; install it again, or remove broken links"
        findings = [Finding(options.WARNING if len(unusable) < len(hashed) else options.ERROR, text)]
    if hashed and all(end_s is not None and end_s < now for end_s in ends.values()):
        findings = [Finding(options.ERROR, f"{directory}: all CA certificates there have expired; install new ones")]
    yield from _judged("CA directory", findings, f"{directory} has {count_of(len(hashed), 'CA certificate')}", CONF)
    stale = [name for name in names if _CRL.fullmatch(name) and _is_stale(os.path.join(directory, name), now)]
    if stale:
        shown = ", ".join(stale[:3]) + (", ..." if len(stale) > 3 else "")
        yield Check(
            "CRLs",
            WARNING,
            f"{count_of(len(stale), 'list')} of revoked certificates in {directory} out of date ({shown}): A-REX "
            "rejects users because of that; arcacct does not use these lists",
            "run fetch-crl, and check its timer",
        )


def _end_of(path: str) -> float | None:
    """Until when a certificate is valid, UTC seconds; ``None``: it cannot be read."""
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return None


def _is_stale(path: str, now: int) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read()
        is_pem = data.lstrip().startswith(b"-----BEGIN")
        update = (x509.load_pem_x509_crl if is_pem else x509.load_der_x509_crl)(data).next_update_utc
    except (OSError, ValueError):
        return False
    return update is not None and update.timestamp() < now


def _system(shown: list[TransportOptions]) -> Iterator[Check]:
    """AMS has a certificate of a public web CA, which a grid's CA directory may lack."""
    if not any(way.ca_system for way in shown):
        return
    if not any(system_authorities()):
        yield Check(
            "CAs of the system",
            WARNING,
            "the operating system has no CA certificates, but ca_system=yes needs them",
            "install the package ca-certificates, or set ca_system=no",
        )


# A-REX: does it run, with this control directory, and does it call us?


def control_directory(site: Site) -> Iterator[Check]:
    """Whether it is one that A-REX has set up, and the one that it works with."""
    here = site.here
    if here is None:
        yield Check("control directory", UNKNOWN, "the configuration cannot be used", "fix it first")
        return
    if site.is_without_arex:
        yield Check(
            "control directory", OK, f"none ({here.controldir} is not there), since database= is set: no A-REX here"
        )
        return
    lacking = [name for name in STATUS_FOLDERS if not os.path.isdir(os.path.join(here.controldir, name))]
    wrong = misplaced(here)
    if not wrong and len(lacking) == len(STATUS_FOLDERS):
        is_there = os.path.isdir(here.controldir)
        wrong = f"it has no folder {', '.join(lacking)}" if is_there else "no such control directory"
    if wrong:
        yield Check(
            "control directory",
            CRITICAL,
            f"{here.controldir} (from {here.controldir_from}): {wrong}",
            "start A-REX once, or set controldir= in [arex] to its control directory",
            CONF,
        )
        return
    try:
        started = started_with(site)
    except (OSError, ConfigError) as error:
        detail = f"cannot look with which control directory A-REX runs: {error}"
        yield Check("control directory", UNKNOWN, detail, "run as the user of A-REX", CONF)
        return
    running = None if started is None else absolute(started.get("arex", "controldir") or CONTROLDIR)
    if running is not None and os.path.realpath(running) != os.path.realpath(here.controldir):
        yield Check(
            "control directory",
            CRITICAL,
            f"{here.controldir} (from {here.controldir_from}), and A-REX runs with {running} ({site.run_time_conf})",
            "pass the arc.conf of the running A-REX with --config, or restart A-REX",
            CONF,
        )
        return
    yield Check("control directory", OK, f"{here.controldir} (from {here.controldir_from})")


def started_with(site: Site) -> Conf | None:
    """
    The configuration of the A-REX that was started last; ``None``: there is no file of it.

    Raises OSError if it cannot be read, ConfigError.
    """
    conf = Conf("", "")
    try:
        with open(site.run_time_conf, encoding="utf-8", errors="surrogateescape") as file:
            conf.blocks |= {block.name: block for block in parse(file.read(), site.run_time_conf, [])}
    except FileNotFoundError:
        return None
    return conf


def running(site: Site) -> Iterator[Check]:
    """Whether A-REX runs, and has our database open."""
    if site.is_without_arex:
        return
    found = site.processes()
    if not found:
        yield Check(
            "A-REX",
            WARNING,
            "does not run here (there is no process arched)",
            "start it, or run the doctor on its host",
        )
        return
    yield Check("A-REX", OK, f"runs: process {', '.join(str(one.pid) for one in found)}")
    here = site.here
    if here is not None:
        ours = {os.path.realpath(f"{here.database}{end}") for end in ("", "-wal", "-shm")}
        for one in found:
            if ours & {os.path.realpath(path) for path in one.files}:
                yield Check(
                    "A-REX",
                    CRITICAL,
                    f"process {one.pid} of A-REX has {here.database} open: two programs write it, and A-REX loses rows",
                    "give arcacct another file (database= in [arcacct]); `arcacct import arex` imports A-REX's",
                    STORE,
                )


def states(site: Site) -> Iterator[Check]:
    """Whether A-REX calls us at all, and in the state that only its version 7 has; the lines were looked at before."""
    if site.is_without_arex:
        return
    found = [one.state for one in callouts(site.conf)]
    new = ", ".join(NEW_STATES)
    is_new = _has_file(site, "accounting_v2.db")
    if not found:
        yield Check(
            "callouts",
            WARNING,
            "none: A-REX reports nothing to arcacct, and a job whose files are cleaned between two sweeps is lost",
            "add the lines of etc/arc.conf.statecallout to [arex] and restart A-REX",
        )
    elif is_new and not {*NEW_STATES} <= {*found}:
        detail = f"none for {new}, which A-REX 7 has: only a sweep sees this state"
        yield Check("callouts", WARNING, detail, "add its line from etc/arc.conf.d/arcacct.conf and restart A-REX")
    elif {*NEW_STATES} & {*found} and _has_file(site, "accounting.db") and not is_new:
        detail = f"one for {new}: this is A-REX 6 (by its database), which does not start with that"
        yield Check("callouts", WARNING, detail, "remove the line, unless A-REX 7 is about to be started here")
    elif not any(wrong_callouts(site.conf)):
        yield Check("callouts", OK, f"{', '.join(found)}: with options that cannot harm a job")


def _has_file(site: Site, name: str) -> bool:
    """Whether A-REX has written a database of this name: 7 has one of its own."""
    return site.here is not None and os.path.exists(os.path.join(site.here.controldir, "accounting", name))
