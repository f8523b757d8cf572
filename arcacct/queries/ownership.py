"""The users who can change the files that arcacct trusts: by owner, by mode, or by a directory above."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress

from arcacct.config.options import targets
from arcacct.config.paths import STATUS_FOLDERS
from arcacct.database import durable
from arcacct.database.location import CARE, PSEUDONYMS, REPORTS, spools
from arcacct.errors import ArcacctError
from arcacct.files.safe_open import others_write
from arcacct.queries.doctor_checks import CONF, STORE, Site
from arcacct.queries.health import CRITICAL, OK, UNKNOWN, WARNING, Check, user_name
from arcacct.secrecy import without_login

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
    """Return the user that A-REX runs as; the owner of its control directory, if nothing else tells."""
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
    """Whether others than this user and root can change or replace a file. Raises OSError if it cannot be examined."""
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
        # A wrong place file is among the problems of the database.
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
    # Not so for a circle of links.
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
            detail = f"the doctor runs as {user_name(os.geteuid())}, and A-REX as {name}: what it may read differs"
            yield Check("permissions", WARNING, detail, f"run `arcacct doctor` as {name}")
        if os.path.isdir(here.directory) and os.stat(here.directory).st_mode & 0o005:
            detail = f"{here.directory} is readable by all users, and contains names of users"
            advice = f"chmod o-rwx {here.directory}; add its readers to the group of read_group="
            yield Check("permissions", WARNING, detail, advice)
