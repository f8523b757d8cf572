"""
The doctor's checks of the host: the place of the databases, the launcher that A-REX calls, and the users who can change
the files that arcacct trusts.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import psutil

from arcacct.arex.resident import UNIT
from arcacct.arex.spool import launcher_settings
from arcacct.config.check import LAUNCHERS, launcher_problem
from arcacct.config.options import targets
from arcacct.config.paths import STATUS_FOLDERS
from arcacct.database import durable
from arcacct.database.location import CARE, PSEUDONYMS, REPORTS, spools
from arcacct.errors import ArcacctError
from arcacct.files.directories import unseen
from arcacct.files.safe_open import others_write
from arcacct.health.doctor_checks import CONF, STORE, Site
from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING, Check, launcher_check, there, user_name
from arcacct.secrecy import without_login

# The kind of file system that has the databases.


_NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "pvfs2",
)  # fmt: skip
_FORGETS = ("tmpfs", "ramfs")


class Mount(NamedTuple):
    """A file system and where it is."""

    point: str
    kind: str


def mount_of(path: str, mounts: str) -> Mount | None:
    """Return the file system of a path, by a file like ``/proc/self/mountinfo``; ``None`` if it is not listed."""
    real = os.path.realpath(path)
    found = None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                point = before.split(" ")[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                # A later mount covers an earlier one of the same place.
                if inside and (found is None or len(point) >= len(found.point)):
                    found = Mount(point, after.split(" ")[0])
    except (OSError, IndexError, UnicodeError):
        return None
    return found


def place(site: Site) -> Iterator[Check]:
    """Check the kind of file system of the databases."""
    here = site.here
    if here is None:
        return
    folder = there(here.directory)
    mount = mount_of(folder, site.mounts)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        detail = f"{here.directory} is on a read-only file system"
        yield Check("place", CRITICAL, detail, "mount it read-write: until then nothing is recorded", STORE)
    elif mount is None:
        yield Check("place", UNKNOWN, f"{site.mounts} does not show the file system of {here.directory}")
    elif mount.kind in _NETWORK:
        detail = (
            f"{here.directory} is on a network file system ({mount.kind} at {mount.point}): SQLite's write-ahead log "
            "works only on a local disk of one host"
        )
        yield Check("place", CRITICAL, detail, "`arcacct db move DIR` to a disk of this host", STORE)
    elif mount.kind in _FORGETS:
        detail = f"{here.directory} is on a memory disk ({mount.kind} at {mount.point}), and lost at the next boot"
        yield Check("place", CRITICAL, detail, "`arcacct db move DIR` to a disk", STORE)
    elif folder != here.directory:
        what = unseen(here.directory) or "does not exist"
        detail = f"{here.directory} {what}; {folder} is on {mount.kind} at {mount.point}"
        yield Check("place", UNKNOWN, detail)
    else:
        yield Check("place", OK, f"{here.directory} is on {mount.kind} at {mount.point}")


# The launcher that A-REX calls: whether it exists, is safe to be run by root, and is quick enough.  It is run with the
# state DELETED, for which it writes no event, with a temporary control directory and spools: nothing of the site is
# touched, however it ends.


_LONGEST_COMPLAINT = 300
OLD_PROGRAM = "arcacct-record"
"""The program that callouts of 0.2 could name instead of the launcher."""
ANEW = "replace it with a new copy of etc/arcacct-hook, with mv"
"""The advice for a launcher that does not work at all."""


def launcher(site: Site) -> Iterator[Check]:
    """Check each program that our callouts name, or will name."""
    for program in site.launchers:
        if problem := launcher_problem(program):
            yield launcher_check(problem, CONF)
            continue
        if is_changeable(program, os.geteuid()):
            user = user_of_arex(site)
            # Otherwise `permissions` has reported the problem.
            if not is_changeable(program, user):
                detail = f"{program} was not run as {user_name(os.geteuid())}, since {user_name(user)} can change it"
                yield Check("launcher", UNKNOWN, detail, f"run `arcacct doctor` as {user_name(user)}")
            continue
        if os.path.basename(program) == OLD_PROGRAM:
            detail = f"{program} only runs the launcher, and the release after 0.3 removes it"
            yield Check("launcher", WARNING, detail, f"name the launcher in the statecallout lines: {LAUNCHERS[0]}")
        elif (found := launcher_settings(program)) is not None and not found.is_new:
            detail = f"{program} is the launcher of 0.2: it starts another program for each event"
            yield Check("launcher", WARNING, detail, f"{ANEW}, and keep its lines spool= and fallback=")
        yield _run(site, program)
        if os.path.realpath(program).startswith(os.path.join(sys.prefix, "")):
            detail = f"{program} is inside the Python environment: during an upgrade it is missing, and each job fails"
            advice = "copy etc/arcacct-hook to /usr/local/libexec, and use that path in the callouts"
            yield Check("launcher", WARNING, detail, advice)


def _run(site: Site, program: str) -> Check:
    try:
        code, said, took_s = _ran(program, site.limit_s)
    except OSError as error:
        reason = error.strerror or str(error)
        detail = f"{program} cannot be started ({reason}): A-REX fails each job"
        return Check("launcher", CRITICAL, detail, ANEW, CONF)
    if code is None:
        detail = f"{program} did not end within {site.limit_s:g} s, although it had nothing to record"
        advice = f"run `{program} /tmp doctor DELETED` and check what delays it"
        return Check("launcher", CRITICAL, detail, advice, CONF)
    if code:
        detail = f"{program} exits with {code}, and A-REX treats that as a failure: {said or 'it prints nothing'}"
        return Check("launcher", CRITICAL, detail, ANEW, CONF)
    if os.path.basename(program) != OLD_PROGRAM and launcher_settings(program) is None:
        detail = f"{program} ran, but it is not the launcher of arcacct: it is unknown whether it records"
        return Check("launcher", UNKNOWN, detail, "compare it with etc/arcacct-hook, or use a copy of that")
    return Check("launcher", OK, f"{program} ran in {took_s:.2f} s")


def _ran(program: str, limit_s: float) -> tuple[int | None, str, float]:
    """
    Run a launcher as A-REX does, with a temporary control directory and spools.

    Raises OSError. Returns its exit code (``None``: it did not end in time), its output, and its duration in s.
    """
    with tempfile.TemporaryDirectory(prefix="arcacct-doctor-") as folder:
        control, spool = os.path.join(folder, "control"), os.path.join(folder, "spool")
        os.mkdir(control)
        started_s = time.monotonic()
        with subprocess.Popen(
            [program, control, "doctor", "DELETED"],
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
                return None, "", time.monotonic() - started_s
        words = " ".join(said.decode("utf-8", "replace").split())
        return process.returncode, words[:_LONGEST_COMPLAINT], time.monotonic() - started_s


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The launcher and its child processes, which `timeout` puts into a separate group."""
    with suppress(psutil.Error):
        for one in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                one.kill()
    process.kill()
    process.communicate()


# The programs that record and publish: another installation may be too old for the database.


UNITS = (UNIT, "arcacct-sweep.timer", "arcacct-publish.timer")
"""The units that start them."""


def systemctl(*words: str) -> tuple[str, str]:
    """Return the output of systemctl on each stream; empty texts: this host has none."""
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return "", ""
    return done.stdout.strip(), done.stderr


def programs(site: Site) -> Iterator[Check]:
    """Check whether the programs of the services can use the database, if they are of another installation."""
    here = site.here
    services = [unit.replace(".timer", ".service") for unit in UNITS]
    shown = systemctl("show", "--property=ExecStart", *services)[0] if here is not None else ""
    found = dict.fromkeys(re.findall(r"path=(\S*/arcacct) ;", shown))
    for program in found:
        if here is None or os.path.realpath(program).startswith(os.path.join(sys.prefix, "")):
            continue
        try:
            done = subprocess.run(
                [program, "--database", here.database, "query", "SELECT 1"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=site.limit_s,
                check=False,
            )
            wrong = "" if not done.returncode else " ".join(done.stderr.split())[:_LONGEST_COMPLAINT]
        except (OSError, subprocess.SubprocessError) as error:
            wrong = str(error)
        if wrong:
            detail = f"the services run {program}, which cannot use {here.database}: {wrong}"
            advice = f"upgrade that installation, or name {sys.prefix}/bin/arcacct in the units"
            yield Check("programs", CRITICAL, detail, advice, CONF)
        else:
            detail = f"the services run {program}, this command is in {sys.prefix}: two installations, one may be old"
            yield Check("programs", WARNING, detail, "use one installation, and remove the other")


# The users who can change the files that arcacct trusts: by owner, by mode, or by a directory above.


PARTS = ("configuration", "launcher", "database", "targets")
_NAMES = (
    *("import.lock", "publishing.lock", "publishing.locks"),
    *("maintenance", "backups", "archive.db", "check.json"),
)
_READ, _WRITTEN, _MADE, _SHARED = range(4)
"""A path is only read; its owner writes it; arcacct also creates it; another program reads it, and may own it."""


def ownership(site: Site, part: str) -> Iterator[Check]:
    """Check that only root and the user of A-REX can change or replace a part; a verdict for each command to run."""
    user = user_of_arex(site)
    found: dict[tuple[str, str], dict[str, None]] = {}
    code, trusted = STORE if part == "database" else CONF, [*_trusted(site, part)]
    try:
        for path, use in trusted:
            for who, command, wrong in _faults(path, use, user, user if part == "database" else 0):
                found.setdefault((who, command), {})[wrong] = None
        if not found and any(os.path.exists(path) for path, _use in trusted):
            yield Check("permissions", OK, f"{part}: only root and the user of A-REX can change it")
    except OSError as error:
        detail = f"{part}: {error.filename} cannot be examined: {error.strerror}"
        yield Check("permissions", UNKNOWN, detail, "run as the user of A-REX, usually root", code)
    for (who, command), paths in found.items():
        todo = f"{command} {' '.join(map(shlex.quote, paths))}"
        yield Check("permissions", CRITICAL, f"{who} {', '.join(paths)}", todo, code)
    yield from _readers(site, part, user)


def user_of_arex(site: Site) -> int:
    """Return the user that A-REX runs as; if unknown, the owner of its control directory."""
    if running := [one.user for one in site.processes if one.user is not None]:
        return running[0]
    confs = [site.conf]
    with suppress(OSError, ArcacctError):
        confs.insert(0, site.started or site.conf)
    for conf in confs:
        with suppress(KeyError):
            return pwd.getpwnam((conf.get("arex", "user") or "").partition(":")[0]).pw_uid
    for path in (site.here.controldir, site.here.directory) if site.here is not None else ():
        with suppress(OSError):
            return os.stat(path).st_uid
    return os.geteuid()


def is_changeable(path: str, user: int) -> bool:
    """Whether users other than this one and root can change a file. Raises OSError if it cannot be examined."""
    return any(_faults(path, _READ, user))


def _trusted(site: Site, part: str) -> Iterator[tuple[str, int]]:
    """Yield the files and directories of a part, whether they exist or not, and how they are used."""
    here, read, written, made, shared = site.here, list[str](), list[str](), list[str](), list[str]()
    if part == "configuration":
        # The next command also reads a new file.
        read = [*site.conf.files, site.conf.our_conf, f"{site.conf.arc_conf}.d"] if site.conf.files else []
    elif part == "launcher":
        read = [*site.launchers]
    elif part == "targets":
        urls = [one.url.partition("file://") for one in targets(site.conf, site.kinds, [])]
        shared = [path for _before, is_file, path in urls if is_file]
        for shown in filter(None, (one.credentials() for one in targets(site.conf, site.kinds, []))):
            pair = (shown.x509_host_cert, shown.x509_host_key, shown.x509_cert_dir)
            read += [path for path in (*pair, shown.ca_file) if path is not None]
    elif here is not None:
        folders = [here.directory, *filter(None, (here.rehearsal,))]
        databases = (here.database, *(f"{folder}/publishing.db" for folder in folders))
        written = [here.queue_lock, *(f"{path}{end}" for path in databases for end in ("", "-wal", "-shm"))]
        read = [f"{folder}/{name}" for folder in folders for name in (*_NAMES, CARE, PSEUDONYMS, REPORTS)]
        read += [here.controldir, here.place_note, *(f"{here.controldir}/{name}" for name in STATUS_FOLDERS)]
        with suppress(KeyError):
            read.append(os.path.dirname(durable.last_done(here.directory)[durable.SNAPSHOT].path))
        made = [*folders, here.spool]
        # A wrong place file is already among the problems of the database.
        with suppress(ArcacctError):
            made += spools(here)
    for use, paths in ((_READ, read), (_WRITTEN, written), (_MADE, made), (_SHARED, shared)):
        yield from ((os.path.abspath(path), use) for path in paths)


def _faults(path: str, use: int, user: int, owner: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield who can change, or cannot write, a file of ``owner``; the command to run; its path. Raises OSError."""
    users, way, is_sticky = {0, user}, [*_way(path)], False
    if use == _SHARED and os.path.exists(path):
        users.add(os.stat(path).st_uid)
    for step in way:
        is_last = step == way[-1]
        name = user_name(owner if is_last else 0).removeprefix("user ")
        try:
            status = os.lstat(step)
        except (FileNotFoundError, NotADirectoryError):
            if is_sticky and use == _MADE:
                yield "every user can create", f"install -d -o {name} -m 700", step
            return
        mode, is_link, is_ours = status.st_mode, stat.S_ISLNK(status.st_mode), is_last and use in (_WRITTEN, _MADE)
        # The owner of a link cannot change it, but can replace it in a directory like /tmp.
        if status.st_uid not in users and (is_sticky or not is_link):
            yield f"{user_name(status.st_uid)}, the owner, can change", f"chown {'-h ' * is_link}{name}", step
        elif is_ours and (status.st_uid != owner or (owner and not mode & stat.S_IWUSR)):
            todo = "chmod u+w" if status.st_uid == owner else f"chown {name}"
            yield f"{user_name(owner)}, the user of A-REX, cannot write", todo, step
        if is_link:
            continue
        who, classes = _others(step, status, is_shared=is_last and use == _SHARED)
        # In a directory like /tmp, users can replace only their own files.
        is_sticky = bool(who and mode & stat.S_ISVTX and not is_last)
        if who and not is_sticky:
            yield f"{who} can change", f"chmod {classes}-w", step


def _way(path: str) -> Iterator[str]:
    """Yield the directories and links on the way to a path, and the path."""
    if (folder := os.path.dirname(path)) != path:
        yield from _way(folder)
    yield path
    # This is not true for a circle of links.
    if os.path.islink(path) and os.path.exists(path):
        yield from _way(os.path.join(os.path.realpath(folder), os.readlink(path)))


def _others(path: str, status: os.stat_result, *, is_shared: bool) -> tuple[str, str]:
    """Return who can write a path besides its owner, and the classes of its mode that permit it; empty: only root."""
    mode, group = status.st_mode, str(status.st_gid)
    is_group = mode & stat.S_IWGRP and not is_shared and others_write(path, status)
    classes = f"{'g' * bool(is_group)}{'o' * bool(mode & stat.S_IWOTH)}"
    with suppress(KeyError):
        group = grp.getgrgid(status.st_gid).gr_name
    members = f"each member of group {group}" if status.st_gid != status.st_uid else "a user of the access control list"
    return ("every user" if "o" in classes else members if classes else ""), classes


def _readers(site: Site, part: str, user: int) -> Iterator[Check]:
    """Check who can read secrets and names of users, and whether this user sees what A-REX sees."""
    here = site.here
    if part == "configuration":
        lines = [line for block in site.conf.blocks.values() for line in block.options.get("http_proxy", ())]
        for file in dict.fromkeys(line.file for line in lines if without_login(line.value) != line.value):
            if os.stat(file).st_mode & 0o044:
                detail = f"{file} contains a password, and other users may read it"
                yield Check("permissions", WARNING, detail, f"chmod 600 {shlex.quote(file)}")
    elif part == "database" and here is not None:
        if os.path.isdir(here.controldir) and os.geteuid() not in (0, user):
            name = user_name(user)
            detail = f"the doctor runs as {user_name(os.geteuid())}, and A-REX as {name}: they may read different files"
            yield Check("permissions", WARNING, detail, f"run `arcacct doctor` as {name}")
        if os.path.isdir(here.directory) and os.stat(here.directory).st_mode & 0o005:
            detail = f"{here.directory} is readable by all users, and contains names of users"
            advice = f"chmod o-rwx {here.directory}; add its readers to the group of read_group="
            yield Check("permissions", WARNING, detail, advice)
