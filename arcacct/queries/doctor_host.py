"""The doctor's checks of the databases and of the launcher that A-REX calls."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import NamedTuple

import psutil

from arcacct.config.paths import DEADLINE_S, Places
from arcacct.config.review import Callout, callouts
from arcacct.database import access, durable, incarnation
from arcacct.database.location import fence, spools
from arcacct.errors import ArcacctError, TargetBusy
from arcacct.files.safe_open import open_parent
from arcacct.queries import health_queries
from arcacct.queries.doctor_checks import (
    CONF,
    DAY_S,
    ERROR,
    OK,
    STORE,
    UNTOLD,
    WARNING,
    Site,
    Verdict,
    advised,
    ago,
    is_hidden,
    of_error,
    user_name,
)
from arcacct.queries.health import Limit
from arcacct.queries.health_queries import ended_since
from arcacct.wording import count_of

# The databases: where they lie, whether they are whole and ours alone, and whether there is room for what comes.


_NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "gpfs",
    "beegfs",
    "pvfs2",
)
_FORGETS = ("tmpfs", "ramfs")
_LEAST_BYTES = 200 * 2**20
_LEAST_FILES = Limit(10_000, 100)
_LEAST_DAYS = Limit(90, 7)
_YEARS_DAYS = 3650
_BYTES_A_JOB = 1700
"""What a job takes in both databases, where too few are recorded to tell: three targets, a year (DESIGN section 8)."""
_GROWTH_DAYS = 7
_MANY_JOBS = 10_000
"""So many have to be there for the size of the files to tell what one takes."""
_BACKUP_DAYS = 2


class Mount(NamedTuple):
    """A file system and where it is."""

    point: str
    kind: str


def mount_of(path: str, mounts: str) -> Mount | None:
    """The file system that a path is on, by a file as ``/proc/self/mountinfo``; ``None`` where that tells nothing."""
    real = os.path.realpath(path)
    found = None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                point = before.split(" ")[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                # A later line lies over an earlier one of the same place.
                if inside and (found is None or len(point) >= len(found.point)):
                    found = Mount(point, after.split(" ")[0])
    except (OSError, IndexError, UnicodeError):
        return None
    return found


def place(site: Site) -> Iterator[Verdict]:
    """On what kind of file system the databases are."""
    here = site.here
    if here is None:
        return
    folder = _there(here.directory)
    mount = mount_of(folder, site.mounts)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        detail = f"{here.directory} is on a file system that is mounted for reading only"
        yield Verdict("place", ERROR, detail, "mount it for writing: until then nothing is recorded", STORE)
    elif mount is None:
        yield Verdict("place", UNTOLD, f"{site.mounts} does not tell on what file system {here.directory} is")
    elif mount.kind in _NETWORK:
        yield Verdict(
            "place",
            ERROR,
            f"{here.directory} is on a network file system ({mount.kind} at {mount.point}): SQLite's write-ahead log "
            "works on one host's own disk alone",
            "`arcacct db move DIR` to a disk of this host",
            STORE,
        )
    elif mount.kind in _FORGETS:
        detail = f"{here.directory} is in memory ({mount.kind} at {mount.point}), and gone after the next boot"
        yield Verdict("place", ERROR, detail, "`arcacct db move DIR` to a disk", STORE)
    else:
        yield Verdict("place", OK, f"{here.directory} is on {mount.kind} at {mount.point}")


def _there(path: str) -> str:
    """The path, or what there is above it."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def databases(site: Site) -> Iterator[Verdict]:
    """Whether both can be read, are of this version, belong together, and are written by us alone."""
    here = site.here
    if here is None:
        yield Verdict("database", UNTOLD, "the configuration does not say where it is", "mend it first")
        return
    if is_hidden(here.database):
        detail = f"{here.database} cannot be looked at by {user_name(os.geteuid())}"
        yield Verdict("database", UNTOLD, detail, "run the doctor as the user of A-REX, usually root", STORE)
        return
    writer = health_queries.writer_of(here.database)
    if writer is not None:
        detail = f"process {writer} keeps {here.database} locked: hooks spool until it ends"
        yield Verdict("database", ERROR, detail, f"see what it does (ps {writer})", STORE)
    if os.path.exists(here.maintenance):
        detail = f"{here.maintenance} is there: the database is being worked on, and hooks spool"
        yield Verdict("database", WARNING, detail, "wait for that `arcacct db` command, or repeat one that was killed")
    try:
        with (
            access.translating(here.database),
            closing(access.read_accounting(here)) as ours,
            closing(access.read_publishing(here)) as ledger,
        ):
            found = health_queries.recorded(ours)
            doubts = incarnation.mismatches(
                incarnation.incarnation_state(
                    ours, ledger, rehearsing=here.rehearsal is not None, fences_noted=fence(here)
                )
            )
    except ArcacctError as error:
        yield of_error("database", error)
        return
    size = f"{_size_bytes(here) / 2**20:.1f} MiB, schema {found.schema}, {count_of(found.jobs, 'job')}"
    yield Verdict("database", OK, f"{here.database}: {size}")
    for doubt in doubts:
        yield advised("ledger", ERROR, incarnation.MEANING[doubt], STORE)
    if found.foreign_records:
        yield Verdict(
            "database",
            ERROR,
            f"{found.foreign_records} of the newest records in {here.database} were written by another program: if "
            "A-REX writes that file, too, it loses rows",
            "give arcacct another file (database= in [arcacct])",
            STORE,
        )


def _size_bytes(here: Places) -> int:
    files = [f"{path}{end}" for path in (here.database, here.publishing_database) for end in ("", "-wal")]
    return sum(os.stat(file).st_size for file in files if os.path.exists(file))


def space(site: Site) -> Iterator[Verdict]:
    """Whether the disk has room for as long as an administrator is away."""
    here = site.here
    if here is None:
        return
    for folder in dict.fromkeys((here.directory, here.spool_fallback or here.directory)):
        disk = os.statvfs(_there(folder))
        free_bytes = disk.f_bavail * disk.f_frsize
        days = days_left(here, free_bytes, site.now) if folder == here.directory else None
        yield room(folder, free_bytes, disk.f_favail if disk.f_files else None, days)


def room(folder: str, free_bytes: int, free_files: int | None, days: int | None) -> Verdict:
    """
    Whether there is room in a folder, for bytes and for files (``None``: its file system does not count them).

    ``days``: how long it will do at today's pace; ``None``: nothing is recorded, or nothing much comes here.
    """
    said = f"{folder}: {free_bytes / 2**30:.1f} GiB free"
    if days is not None:
        said += (
            ", enough for years" if days >= _YEARS_DAYS else f", enough for {days} days at the pace of the last week"
        )
    if free_files is not None and free_files < _LEAST_FILES.warning:
        few = f"{said}, and room for {count_of(free_files, 'file')} (inodes) only"
        is_error = free_files < _LEAST_FILES.critical
        advice = "remove small files: each event of the spool is one"
        return Verdict("space", ERROR if is_error else WARNING, few, advice, STORE if is_error else 0)
    if free_bytes < _LEAST_BYTES or (days is not None and days < _LEAST_DAYS.critical):
        return Verdict("space", ERROR, said, "make room now: with database and spool full, events are lost", STORE)
    if days is not None and days < _LEAST_DAYS.warning:
        return Verdict("space", WARNING, said, "make room, or `arcacct db prune` what no target needs")
    return Verdict("space", OK, said)


def days_left(here: Places, free_bytes: int, now: int) -> int | None:
    """How long the disk will do; ``None`` while nothing is recorded."""
    try:
        with access.translating(here.database), closing(access.read_accounting(here)) as con:
            lately = ended_since(con, now - _GROWTH_DAYS * DAY_S)
            jobs = health_queries.recorded(con).jobs
    except ArcacctError:
        # Told where it is looked at.
        return None
    if not lately:
        return None
    of_a_job = max(_BYTES_A_JOB, _size_bytes(here) // jobs if jobs >= _MANY_JOBS else 0)
    return int(free_bytes * _GROWTH_DAYS // (lately * of_a_job))


def backups(site: Site) -> Iterator[Verdict]:
    """How old the last backup is, where `db backup` puts them by itself."""
    here = site.here
    if here is None or not os.path.exists(here.database):
        return
    folder = os.path.join(here.directory, "backups")
    known = durable.last_done(here).get(durable.BACKUP)
    try:
        times = [os.stat(one).st_mtime for one in os.scandir(folder) if one.name.startswith("accounting-")]
    except FileNotFoundError:
        times = []
    times += [known.at_s] if known is not None else []
    if not times:
        detail = f"there is no backup in {folder}, and arcacct knows of no other place"
        yield Verdict("backup", UNTOLD, detail, "have `arcacct db backup DIR` run every night, DIR on another disk")
        return
    age = site.now - int(max(times))
    detail = f"the last one is {ago(age)} old"
    if age > _BACKUP_DAYS * DAY_S:
        yield Verdict("backup", WARNING, detail, "see that `arcacct db backup` runs every night")
    else:
        yield Verdict("backup", OK, detail)


# The launcher that A-REX calls: is it there, is it safe to be run by root, and is it quick enough?
#
# It is run with the state DELETED, of which neither launcher nor hook records anything, with a control directory and
# spools that are made for it and thrown away: nothing of the site is touched, however it ends.


_LARGEST = 64 * 1024
_SETTING = re.compile(r"(?m)^(record|spool|fallback|limit)=(?:\$\{ARCACCT_[A-Z_]+:-([^}\n]*)\}|([^\s;&|$]*))[ \t]*$")
_LONGEST_COMPLAINT = 300
_MOST_S = 60.0


class Launcher(NamedTuple):
    """What a launcher of ours has at its beginning; empty: as it comes, or another program."""

    record: str = ""
    spool: str = ""
    fallback: str = ""
    limit_s: float | None = None


def settings_of(program: str) -> Launcher:
    """The lines that an administrator may have edited. (A-REX's environment may say otherwise; it hardly does.)"""
    try:
        with open(program, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST)
    except OSError:
        return Launcher()
    if "arcacct-hook CONTROLDIR" not in text:
        return Launcher()
    found = {name: (default or plain).strip("'\"") for name, default, plain in _SETTING.findall(text)}
    limit = found.get("limit", "")
    return Launcher(
        found.get("record", ""),
        found.get("spool", ""),
        found.get("fallback", ""),
        float(limit) if limit.isdigit() else None,
    )


def launcher(site: Site) -> Iterator[Verdict]:
    """Each program that our callouts name."""
    for program in dict.fromkeys(one.program for one in callouts(site.conf)):
        lines = [one for one in callouts(site.conf) if one.program == program]
        wrong = _unsafe(site, program)
        if wrong is not None:
            yield wrong
            continue
        found = settings_of(program)
        yield from _settings(site, program, found, lines)
        unsafe = _unsafe(site, found.record, "what the launcher starts (record=)") if found.record else None
        if unsafe is not None:
            yield unsafe
        else:
            yield _run(site, program, lines)
        if os.path.realpath(program).startswith(os.path.join(sys.prefix, "")):
            yield Verdict(
                "launcher",
                WARNING,
                f"{program} is inside of the Python environment: while that is upgraded it is away, and each job fails",
                "copy etc/arcacct-hook to /usr/local/libexec, and name that in the callouts",
            )


def _unsafe(site: Site, program: str, what: str = "the launcher") -> Verdict | None:
    """Why a program cannot be run, or may not be; ``None``: it may."""
    fails = "A-REX fails each job whose callout cannot be started"
    if not program.startswith("/"):
        return _error(f"{program}: {what} is named without its whole path", "write the path from / on")
    try:
        status = os.stat(program)
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        advice = "put etc/arcacct-hook there by mv, or mend the path"
        return _error(f"{program}: {what} cannot be found ({reason}): {fails}", advice)
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o111:
        return _error(f"{program}: {what} is no program that can be started: {fails}", f"chmod 755 {program}")
    if status.st_uid not in (0, os.geteuid()):
        return _of_another(site, program, what, status.st_uid)
    try:
        folder, _name = open_parent(os.path.realpath(program))
        with folder:
            sure = folder.sure
    except (OSError, ArcacctError):
        sure = False
    if not sure or status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid):
        detail = f"{program}: others than root can exchange {what}, on the way to it or in its place; it was not run"
        return _error(detail, f"chmod go-w {program} and each directory above it")
    return None


def _of_another(site: Site, program: str, what: str, uid: int) -> Verdict:
    owner = user_name(uid)
    if uid == _user_of_arex(site):
        detail = f"{program} belongs to {owner}, as whom A-REX runs; as {user_name(os.geteuid())} it was not run"
        return Verdict("launcher", UNTOLD, detail, f"run `arcacct doctor` as {owner}")
    detail = f"{program}: {what} belongs to {owner}, who decides what A-REX runs with its own rights; it was not run"
    return _error(detail, f"chown root {program}, when you have seen what is in it")


def _error(detail: str, advice: str) -> Verdict:
    return Verdict("launcher", ERROR, detail, advice, CONF)


def _user_of_arex(site: Site) -> int | None:
    try:
        return None if site.here is None else os.stat(site.here.controldir).st_uid
    except OSError:
        return None


def _settings(site: Site, program: str, found: Launcher, lines: list[Callout]) -> Iterator[Verdict]:
    """Whether launcher, callouts and arcacct.conf agree."""
    here = site.here
    if found.fallback and here is not None and found.fallback != here.spool_fallback:
        yield Verdict(
            "launcher",
            ERROR,
            f"{program} spools in {found.fallback} (fallback=) when the disk is full, and no sweep looks there",
            f"write spool_fallback={found.fallback} into [arcacct]",
            CONF,
        )
    if found.spool and here is not None and found.spool not in spools(here):
        yield Verdict(
            "launcher",
            ERROR,
            f"{program} spools in {found.spool} (spool=), and no sweep looks there",
            "empty spool= in the launcher: then it is below the control directory",
            CONF,
        )
    times = [float(text) for one in lines if re.fullmatch(r"[0-9.]+", text := one.option("timeout", ""))]
    deadline_s = _deadline_s(site)
    if found.limit_s is not None and not deadline_s < found.limit_s < min(times, default=_MOST_S):
        yield Verdict(
            "launcher",
            WARNING,
            f"{program} kills the hook after {found.limit_s:g} s (limit=), which is not between its deadline of "
            f"{deadline_s:g} s and the callout's timeout",
            "choose deadline < limit < timeout, as 5 < 8 < 10",
        )


def _deadline_s(site: Site) -> float:
    return DEADLINE_S if site.here is None else site.here.deadline_s


class _Ran(NamedTuple):
    """How a launcher ended."""

    code: int | None
    """``None``: not in time."""
    said: str
    took_s: float


def _run(site: Site, program: str, lines: list[Callout]) -> Verdict:
    deadline_s = _deadline_s(site)
    command = [program, *(word for word in lines[0].arguments if word == "spool-only")]
    anew = "copy etc/arcacct-hook there anew, by mv"
    try:
        ran = _ran(command, min(deadline_s, site.limit_s))
    except OSError as error:
        reason = error.strerror or str(error)
        detail = f"{program} cannot be started ({reason}): A-REX fails each job"
        return Verdict("launcher", ERROR, detail, anew, CONF)
    if ran.code is None:
        is_over = ran.took_s >= deadline_s
        exit_code = CONF if is_over else TargetBusy.exit_code
        within = f"its deadline of {deadline_s:g} s" if is_over else f"{site.limit_s:g} s"
        detail = f"{program} did not end within {within}, with nothing to record"
        advice = f"run `{' '.join(command)} /tmp doctor DELETED` and see what holds it up"
        return Verdict("launcher", ERROR if is_over else UNTOLD, detail, advice, exit_code)
    if ran.code:
        detail = f"{program} ends with {ran.code}, and A-REX takes that for a failure: {ran.said or 'it says nothing'}"
        return Verdict("launcher", ERROR, detail, anew, CONF)
    if ran.said:
        advice = "mend record= in the launcher, or the environment it names: until then all events wait for the sweep"
        return Verdict("launcher", ERROR, f"{program} cannot record: {ran.said}", advice, CONF)
    if ran.took_s > deadline_s / 2:
        detail = f"{program} took {ran.took_s:.1f} s with nothing to record; its deadline is {deadline_s:g} s"
        return Verdict("launcher", WARNING, detail, "see what the host is busy with, or use spool-only")
    return Verdict("launcher", OK, f"{program} ran in {ran.took_s:.2f} s; its deadline is {deadline_s:g} s")


def _ran(command: list[str], limit_s: float) -> _Ran:
    """Run a launcher as A-REX does, with a control directory and spools of the moment. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="arcacct-doctor-") as folder:
        control, spool = os.path.join(folder, "control"), os.path.join(folder, "spool")
        os.mkdir(control)
        begun = time.monotonic()
        with subprocess.Popen(
            [*command, control, "doctor", "DELETED"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "ARCACCT_SPOOL": spool, "ARCACCT_SPOOL_FALLBACK": spool},
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                _out, said = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                _kill(process)
                return _Ran(None, "", time.monotonic() - begun)
        words = " ".join(said.decode("utf-8", "replace").split())
        return _Ran(process.returncode, words[:_LONGEST_COMPLAINT], time.monotonic() - begun)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The launcher and what it has started, of which `timeout` makes a group of its own."""
    with suppress(psutil.Error):
        for one in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                one.kill()
    process.kill()
    process.communicate()
