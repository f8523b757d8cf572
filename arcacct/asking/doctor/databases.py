"""The databases: where they lie, whether they are whole and ours alone, and whether there is room for what comes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from arcacct.asking import health_rows
from arcacct.asking.doctor.verdict import (
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
from arcacct.asking.health import Limit
from arcacct.asking.who_recorded import ended_since
from arcacct.config.paths import Places
from arcacct.database import access, incarnation, upkeep
from arcacct.database.location import fence
from arcacct.errors import ArcacctError
from arcacct.wording import count_of

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
    writer = health_rows.writer_of(here.database)
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
            found = health_rows.recorded(ours)
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
            jobs = health_rows.recorded(con).jobs
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
    known = upkeep.last_done(here).get(upkeep.BACKUP)
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
