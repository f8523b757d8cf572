"""The checks of `arcacct doctor` of configuration, credentials and A-REX, and the site that they get."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from difflib import get_close_matches
from functools import cached_property
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
from arcacct.config.paths import AREX_DATABASES, CONTROLDIR, STATUS_FOLDERS, is_without_arex, places
from arcacct.config.review import Callout, Release, callouts, release, wrong_callouts
from arcacct.config.settings import examine
from arcacct.config.values import Thresholds
from arcacct.database import access, schema
from arcacct.database.location import has_database, misplaced
from arcacct.errors import ArcacctError, ConfigError, CredentialError, StoreError, use_as
from arcacct.files.directories import unseen
from arcacct.files.safe_open import read_regular
from arcacct.health import facts
from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING, Check, Health, advised, cannot_look, look
from arcacct.records import reader
from arcacct.targets import kinds
from arcacct.tls import system_authorities
from arcacct.wording import count_of, span_of

# VOs that a target is limited to and that no recorded job has: a misspelling stops all records to that target.


def unknown_vos(conf: Conf, kinds: Kinds, database: str | None = None) -> list[Problem]:
    """Return a warning for each ``vofilter`` that selects no job of the database; nothing if there is no database."""
    try:
        found, _problems = examine(conf, kinds, database=database)
        if found is None or not any(target.vofilter for target in found.targets):
            return []
        here = found.places
        with access.translating(here.database), closing(access.read_accounting(here)) as con:
            known = reader.vos(con)
    except ArcacctError:
        # Other checks report why it cannot be read.
        return []
    problems = []
    for target in found.targets:
        for vo in target.vofilter if known else ():
            if vo not in known:
                block = conf.blocks[target.block]
                line = next(one for one in block.options["vofilter"] if one.value == vo)
                like = get_close_matches(vo, known, 1)
                text = f"no recorded job has VO {vo!r}; {f'did you mean {like[0]}?' if like else 'is it right?'}"
                problems.append(Problem(options.WARNING, line.file, line.line, block.name, "vofilter", text))
    return problems


# The values that every check of `arcacct doctor` gets.


CONF, KEYS, STORE = ConfigError.exit_code, CredentialError.exit_code, StoreError.exit_code
"""The exit codes for errors of the configuration (and of the files it names), of credentials, and of databases."""


def of_error(subject: str, error: ArcacctError) -> Check:
    """Return an error as a check."""
    return advised(subject, CRITICAL, " ".join(map(str, error.args)), error.exit_code)


class Process(NamedTuple):
    """A running A-REX."""

    pid: int
    files: tuple[str, ...]
    """Its open files, as far as this user may see them."""
    user: int | None = None
    """Its effective uid."""


def arex_processes() -> list[Process]:
    """The processes ``arched`` of this host."""
    found = []
    for process in psutil.process_iter(["name", "uids"]):
        if process.info["name"] != "arched":
            continue
        try:
            files = tuple(one.path for one in process.open_files())
        except (psutil.Error, OSError):
            files = ()
        uids = process.info["uids"]
        found.append(Process(process.pid, files, None if uids is None else uids.effective))
    return found


class Site:
    """
    The facts about a host, each found once; ``None`` replaces a part that a wrong configuration lacks.

    `doctor`, `setup`, `config check` and `status` judge these facts with the same checks.
    """

    def __init__(
        self,
        conf: Conf,
        database: str | None = None,
        *,
        launcher: str | None = None,
        limit_s: float = 20.0,
        now: int | None = None,
        processes: Callable[[], Sequence[Process]] = arex_processes,
        mounts: str = "/proc/self/mountinfo",
        run_time_conf: str = parser.RUN_TIME_FILE,
    ) -> None:
        """
        ``conf``: the configuration as the next start of A-REX reads it. ``database`` of the command line wins.

        ``launcher``: that of callouts which are not written yet; ``None``: nothing is planned. ``limit_s``: how
        long one question to a receiver may take. ``now``: UTC seconds, ``None`` for the present. The others are where
        this host's state is read.
        """
        self.conf = conf
        self.database = database
        self.limit_s = limit_s
        self.now = int(time.time()) if now is None else now
        self._processes = processes
        self.mounts = mounts
        self.run_time_conf = run_time_conf
        self.kinds = kinds(conf)
        self.settings, _problems = examine(conf, self.kinds, database=database, to_publish=False)
        self.callouts = callouts(conf)
        self._launcher = launcher
        self.limits = Thresholds() if self.settings is None else self.settings.thresholds
        try:
            self.here = places(conf, None, database) if conf.files else None
        except ConfigError:
            # It is already among the problems of the configuration.
            self.here = None

    @property
    def is_without_arex(self) -> bool:
        """Whether no A-REX is expected here."""
        return self.here is not None and is_without_arex(self.here, has_callouts=bool(self.callouts))

    @cached_property
    def processes(self) -> Sequence[Process]:
        """The running A-REX."""
        return self._processes()

    @cached_property
    def release(self) -> Release:
        """The release of A-REX at its next start."""
        return release(self.conf)

    @property
    def launchers(self) -> tuple[str, ...]:
        """The programs of our callouts, or the one that will be written into them; none without A-REX."""
        programs = dict.fromkeys(one.program for one in self.callouts)
        planned = () if self.is_without_arex or self._launcher is None else (self._launcher,)
        return tuple(programs) or planned

    @cached_property
    def problems(self) -> list[Problem]:
        """Every problem of the text of the configuration."""
        found = check_text(self.conf, self.kinds, self.release)
        return [*found, *unknown_vos(self.conf, self.kinds, self.database)]

    @cached_property
    def started(self) -> Conf | None:
        """
        The configuration of the running or last started A-REX; ``None``: there is no such file.

        Raises OSError if it cannot be read, ConfigError.
        """
        conf = Conf("", "")
        with suppress(FileNotFoundError):
            text = read_regular(self.run_time_conf).decode(errors="surrogateescape")
            conf.blocks |= {block.name: block for block in parse(text, self.run_time_conf, [])}
            return conf
        return None

    @cached_property
    def health(self) -> Health | None:
        """The state of recording and publishing; ``None``: the configuration does not name the database."""
        return None if self.here is None else look(self.here, self.settings)


RESTART = "systemctl restart arc-arex"
_CLOCK_S = 300

Step = Callable[[Site], Iterable[Check]]
"""A check of one subject. Any exception is a verdict, too."""


# The configuration: whether it can be read, and whether it is right.


def configuration(site: Site) -> Iterator[Check]:
    """Every problem of the text, as in `config check`; problems with a check of their own are under its name."""
    if site.conf.files and not options.errors(site.problems):
        yield Check("configuration", OK, ", ".join(site.conf.files))
    # The check of launchers reports ours.
    ours = tuple(f"{program}: " for program in site.launchers)
    for one in site.problems:
        if one.option == "statecallout" and one.text.startswith(ours):
            continue
        is_error = one.severity == options.ERROR
        # Without its own "warning:", which is in the verdict.
        text = str(one._replace(severity=options.ERROR))
        yield advised(_subject(one), CRITICAL if is_error else WARNING, text, CONF if is_error else 0)


def _subject(problem: options.Problem) -> str:
    if problem.option == "statecallout":
        return "callouts"
    if (problem.block, problem.option) == ("lrms", "benchmark") and problem.line is None:
        return "benchmark"
    return "jura" if "jura-ng" in problem.text else "configuration"


def targets(site: Site) -> Iterator[Check]:
    """Check the configured targets, for real publishing, and everything that they need on this host."""
    if site.here is not None and site.here.rehearsal is not None:
        detail = f"rehearsal= is set: publications are recorded in {site.here.rehearsal}, and not in the site's ledger"
        yield Check("rehearsal", WARNING, detail, "remove it and its targets before this host publishes for real")
    for one in found_targets(site.conf, site.kinds, []):
        for option, text in one.wrong():
            yield advised(one.name, CRITICAL, f"{option}: {text}", CONF)
    if site.settings is None:
        yield Check("targets", UNKNOWN, "the configuration has errors", "fix them first")
    elif site.settings.targets:
        yield Check("targets", OK, ", ".join(f"{one.name} ({one.route})" for one in site.settings.targets))


# The credentials of the host, and the CAs that it trusts: certificate, key, CA directory.


_CRL = re.compile(r"[0-9a-f]{8}\.r\d+")


def credentials(site: Site) -> Iterator[Check]:
    """Check each file once, even if several targets name it."""
    named = [(one, way) for one in options.targets(site.conf, site.kinds, []) if (way := one.credentials()) is not None]
    if not named:
        yield Check("certificate", UNKNOWN, "no target needs one")
        return
    # One kind of target may accept what another refuses: only APEL needs signed messages.
    pairs: dict[tuple[str, str], dict[tuple[str, Finding], None]] = {}
    for target, way in named:
        found = pairs.setdefault((way.x509_host_cert, way.x509_host_key), {})
        found.update(dict.fromkeys(config_credentials.pair_findings(target)))
    for cert in dict.fromkeys(cert for cert, _ in pairs):
        about = [found for (other, _), found in pairs.items() if other == cert]
        refused = [finding for found in about for option, finding in found if option == "x509_host_cert"]
        yield from _certificate(cert, site, refused)
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


def _certificate(path: str, site: Site, refused: Iterable[Finding]) -> Iterator[Check]:
    findings = [*config_credentials.certificate_findings(path, site.now), *dict.fromkeys(refused)]
    try:
        found = x509.load_pem_x509_certificate(read_regular(path))
    except (OSError, ValueError):
        yield from _judged("certificate", findings, "", KEYS)
        return
    if findings:
        yield from _judged("certificate", findings, "", KEYS)
    else:
        end = int(found.not_valid_after_utc.timestamp())
        yield facts.certificate_check(path, end, site.now, site.limits)
    # Both spellings: what one receiver has registered in the other's is refused.
    text = f"{config_credentials.slash_dn(found.subject)} at APEL (GOCDB), {found.subject.rfc4514_string()} at SGAS"
    yield Check("DN", OK, text, "register exactly this string")


def _authorities(directory: str, now: int) -> Iterator[Check]:
    findings = config_credentials.ca_directory_findings(directory, now)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    hashed = sum(1 for name in names if config_credentials.HASHED.fullmatch(name))
    yield from _judged("CA directory", findings, f"{directory} has {count_of(hashed, 'CA certificate')}", CONF)
    stale = [name for name in names if _CRL.fullmatch(name) and _is_stale(os.path.join(directory, name), now)]
    if stale:
        shown = ", ".join(stale[:3]) + (", ..." if len(stale) > 3 else "")
        detail = (
            f"{count_of(len(stale), 'list')} of revoked certificates in {directory} out of date ({shown}): A-REX "
            "rejects users because of that; arcacct does not use these lists"
        )
        yield Check("CRLs", WARNING, detail, "run fetch-crl, and check its timer")


def _is_stale(path: str, now: int) -> bool:
    try:
        data = read_regular(path)
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
        detail = "the operating system has no CA certificates, but ca_system=yes needs them"
        yield Check("CAs of the system", WARNING, detail, "install the package ca-certificates, or set ca_system=no")


# A-REX: whether it runs, with this control directory, and calls our launcher.


def control_directory(site: Site) -> Iterator[Check]:
    """Check whether A-REX has set up this directory, and works with it."""
    here = site.here
    if here is None:
        yield Check("control directory", UNKNOWN, "the configuration cannot be used", "fix it first")
        return
    if site.is_without_arex:
        yield Check("control directory", OK, f"no A-REX here: {here.controldir} does not exist, and database= is set")
        return
    shown = f"{here.controldir} (from {here.controldir_from})"
    if hidden := unseen(os.path.join(here.controldir, STATUS_FOLDERS[0])):
        yield Check("control directory", UNKNOWN, f"{shown} {hidden}", use_as(here.controldir), CONF)
        return
    lacking = [name for name in STATUS_FOLDERS if not os.path.isdir(os.path.join(here.controldir, name))]
    wrong = misplaced(here)
    if not wrong and len(lacking) == len(STATUS_FOLDERS):
        is_there = os.path.isdir(here.controldir)
        wrong = f"it has no folder {', '.join(lacking)}" if is_there else "no such control directory"
    if wrong:
        advice = "start A-REX once, or set controldir= in [arex] to its control directory"
        yield Check("control directory", CRITICAL, f"{shown}: {wrong}", advice, CONF)
        return
    try:
        started = site.started
    except (OSError, ConfigError) as error:
        detail = f"cannot read which control directory A-REX uses: {error}"
        yield Check("control directory", UNKNOWN, detail, "run as the user of A-REX", CONF)
        return
    running = None if started is None else absolute(started.get("arex", "controldir") or CONTROLDIR)
    if running is not None and os.path.realpath(running) != os.path.realpath(here.controldir):
        detail = f"{shown}, but A-REX runs with {running} ({site.run_time_conf})"
        advice = "pass the arc.conf of the running A-REX with --config, or restart A-REX"
        yield Check("control directory", CRITICAL, detail, advice, CONF)
        return
    yield Check("control directory", OK, shown)


def running(site: Site) -> Iterator[Check]:
    """Check whether A-REX runs, and whether it has our database open."""
    if site.is_without_arex:
        return
    found = site.processes
    if not found:
        detail = "does not run here (there is no process arched)"
        yield Check("A-REX", WARNING, detail, "start it, or run the doctor on its host")
        return
    yield Check("A-REX", OK, f"runs: process {', '.join(str(one.pid) for one in found)}")
    here = site.here
    if here is not None:
        ours = {os.path.realpath(f"{here.database}{end}") for end in ("", "-wal", "-shm")}
        for one in found:
            if ours & {os.path.realpath(path) for path in one.files}:
                used = f"process {one.pid} of A-REX has {here.database} open"
                detail = f"{used}: two programs write it, and A-REX loses rows"
                advice = "give arcacct another file (database=), and import A-REX's jobs with `arcacct import arex`"
                yield Check("A-REX", CRITICAL, detail, advice, STORE)


def states(site: Site) -> Iterator[Check]:
    """
    Check whether A-REX calls our launcher, and was started with our lines; problems of single lines are reported
    before.
    """
    if site.is_without_arex:
        yield Check("callouts", OK, "no A-REX is expected on this host")
    elif not site.callouts:
        detail = "no statecallout= lines of arcacct: a job whose files are cleaned between two sweeps is lost"
        advice = f"add the lines of `arcacct setup` to [arex] of {site.conf.arc_conf}, run `arcacct config check`,"
        if site.release.major >= 7:
            advice = f"`arcacct setup --write` makes {site.conf.arc_conf}.d/arcacct.conf; run `arcacct config check`,"
        yield Check("callouts", CRITICAL, detail, f"{advice} and restart A-REX ({RESTART})", CONF)
    else:
        try:
            started = site.started
        except (OSError, ConfigError) as error:
            yield Check("A-REX", UNKNOWN, f"cannot check whether it was started with the callouts: {error}")
        else:
            now = [] if started is None else callouts(started)
            if started is not None and (lacking := {*map(_calls, site.callouts)} - {*map(_calls, now)}):
                states = ", ".join(one.state for one in site.callouts if _calls(one) in lacking)
                detail = f"was started without the callouts that are in the configuration ({site.run_time_conf})"
                if now:
                    detail = f"was started without the current callouts for {states} ({site.run_time_conf})"
                yield Check("A-REX", CRITICAL, detail, f"restart A-REX: {RESTART}", CONF)
        if not any(wrong_callouts(site.conf, site.release)):
            found = ", ".join(one.state for one in site.callouts)
            yield Check("callouts", OK, f"{found}: with options that cannot harm a job")


def _calls(callout: Callout) -> tuple[str, str]:
    """State and program: by these A-REX finds a callout."""
    return callout.state, callout.program


# Earlier jobs, which A-REX or a batch system knows.


_BATCH_SYSTEMS = {
    "sacct": ("slurm", "arcacct import slurm --run --since DATE"),
    "condor_history": ("condor", "arcacct import htcondor --run --since DATE"),
    "qacct": ("sge", "arcacct import gridengine $SGE_ROOT/default/common/accounting"),
    "pbsnodes": ("pbs", "arcacct import pbs /var/spool/pbs/server_priv/accounting"),
    "bacct": ("lsf", "arcacct import lsf --cluster NAME $LSB_SHAREDIR/NAME/logdir/lsb.acct"),
}
"""By the program that shows that a host has a batch system: its name in ARC, and the command that imports its jobs."""


_UNREADABLE = "the database cannot be read"


def history(site: Site) -> Iterator[Check]:
    """Check whether jobs of A-REX's database, or without A-REX those of the batch system, were imported."""
    here = site.here
    if here is None or not has_database(here.database):
        is_hidden = here is not None and unseen(here.database)
        yield Check("history", UNKNOWN, _UNREADABLE if is_hidden else "there is no database yet")
        return
    if site.is_without_arex:
        recorded = None if site.health is None else site.health.recorded
        if recorded is None:
            yield Check("history", UNKNOWN, _UNREADABLE)
        elif not recorded.jobs:
            ours = (site.conf.get("lrms", "lrms") or "").split()[:1]
            systems = _BATCH_SYSTEMS.items()
            found = [command for program, (lrms, command) in systems if shutil.which(program) or ours == [lrms]]
            advice = " or ".join(f"`{one}`" for one in found) or "`arcacct import --help` lists the batch systems"
            detail = "no job is recorded: without A-REX, only imports from a batch system record jobs"
            yield Check("history", CRITICAL, detail, f"{advice}; then run it from a timer", CONF)
        else:
            yield Check("history", OK, "the jobs of a batch system were imported")
        return
    known = []
    for name in AREX_DATABASES:
        path = os.path.join(here.controldir, "accounting", name)
        try:
            os.stat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            detail = f"cannot check whether A-REX has a database: {path}: {error.strerror}"
            yield Check("history", UNKNOWN, detail, "run as the user of A-REX")
            return
        known.append(path)
    if not known:
        yield Check("history", OK, "A-REX has no database of its own with earlier jobs")
        return
    with closing(access.read_accounting(here)) as con:
        is_done = schema.complete_since(con) < schema.created(con)
    if is_done:
        yield Check("history", OK, "A-REX's own database was imported")
    else:
        detail = f"earlier jobs are only in {', '.join(known)}"
        yield Check("history", WARNING, detail, "`arcacct import arex` imports them; it sends nothing")


def files_of_jobs(site: Site) -> Iterator[Check]:
    """
    Check whether A-REX wrote anything later than now: then the clock was wrong at that time, or is wrong now.

    Records have the times of these files, and certificates are judged by this clock.
    """
    if site.here is None or site.is_without_arex:
        return
    newest, at, refused = _newest_file(site.here.controldir)
    if newest - site.now >= _CLOCK_S:
        detail = f"{at} has a time {span_of(int(newest - site.now))} in the future: this host's clock is or was wrong"
        advice = "set the clock (chronyc tracking, timedatectl), and make sure that chronyd or ntpd starts at boot"
        yield Check("clock of A-REX's files", CRITICAL, detail, advice, CONF)
    elif refused:
        yield Check("clock of A-REX's files", UNKNOWN, f"cannot read: {', '.join(refused)}")
    elif not at:
        text = f"no file of a job in {site.here.controldir} to compare with"
        yield Check("clock of A-REX's files", UNKNOWN, text)
    else:
        yield Check("clock of A-REX's files", OK, "no file in the control directory has a time in the future")


def _newest_file(controldir: str) -> tuple[float, str, list[str]]:
    """Return when A-REX last wrote the status of a job, the file, and what could not be examined, with the reason."""
    newest, at = 0.0, ""
    refused = [reason] if (reason := cannot_look(controldir)) else []
    for name in () if refused else STATUS_FOLDERS:
        try:
            with os.scandir(f"{controldir}/{name}") as found:
                for one in found:
                    changed_s = one.stat(follow_symlinks=False).st_mtime
                    if changed_s > newest:
                        newest, at = changed_s, one.path
        except FileNotFoundError:
            continue
        except OSError as error:
            refused.append(f"{error.filename}: {error.strerror}")
    return newest, at, refused
