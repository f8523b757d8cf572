"""The place file: which accounting database a control directory has (INVARIANTS 11)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from sqlite3 import Connection, DatabaseError, connect
from typing import NamedTuple

from arcacct.config.paths import AREX_DATABASES, STATUS_FOLDERS, Places, usual_database
from arcacct.database.connection import refuse_hidden, translated, uri, version
from arcacct.database.durable import refuse_foreign
from arcacct.database.schema import incarnation, incarnation_history, noted, sync
from arcacct.errors import ConfigError, SchemaError, StoreError
from arcacct.files.directories import private_directory, unseen
from arcacct.files.safe_open import private

_DIGITS = 19
"""A number of fewer digits is one that SQLite holds."""
_FIRST_PAGE_BYTES = 4096
"""The size of a database before its first script is committed; SQLite's size of a page."""
_WAYS = (
    "if it is elsewhere, fix database= in [arcacct]; if it is lost, restore a backup with `arcacct db restore FILE`; "
    "without a backup create a new one with `arcacct db init --new-life`, then run `arcacct import arex` and `arcacct "
    "sweep` to recover what A-REX has"
)


PSEUDONYMS, REPORTS, CARE = "pseudonyms.key", "reports.json", "care.json"
"""Files next to the databases: the key of pseudonyms, the content of the last reports, and the times of maintenance."""


class LocationFile(NamedTuple):
    """The content of the note."""

    database: str
    """Absolute path."""
    incarnation: str
    """The incarnation of the accounting database, when the note was written."""
    former: tuple[str, ...] = ()
    """Earlier directories of the databases: a launcher with an old configuration may still spool there."""


def read(here: Places) -> LocationFile | None:
    """
    Return the note; ``None`` if there is none that this user may read.

    Raises ConfigError for a file that is no note, StoreError for an error of the file system.
    """
    lines = _lines(here)
    if lines is None:
        return None
    values = {key: value for key, _equals, value in lines}
    if not values.get("database", "").startswith("/") or not values.get("incarnation"):
        raise ConfigError(
            f"{here.place_note}: the lines database= and incarnation= are missing; check that [arcacct] database= is "
            "right, then remove this file: the next sweep writes it again"
        )
    former = tuple(value for key, _equals, value in lines if key == "former" and value.startswith("/"))
    return LocationFile(values["database"], values["incarnation"], former)


def _lines(here: Places) -> list[tuple[str, str, str]] | None:
    try:
        with open(here.place_note, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except OSError as error:
        raise StoreError(f"{here.place_note}: cannot be read: {error.strerror}") from error
    return [line.partition("=") for line in content.decode("utf-8", "surrogateescape").split("\n")]


def fence(here: Places) -> int:
    """
    Return how many fences the accounting database had passed at the last run of publishing in the note; 0: unknown.

    Raises StoreError as `read`.
    """
    found = {key: value for key, _equals, value in _lines(here) or ()}.get("fence", "")
    return int(found) if found.isdecimal() and len(found) < _DIGITS else 0


def write(here: Places, note: LocationFile, passed: int = 0) -> None:
    """
    Write the note, completely or not at all; it is on disk afterwards.

    ``passed`` is its fence, if that is a later one. Raises OSError if this is impossible: no control directory, no
    right, a full disk.
    """
    lines = [f"database={note.database}", f"incarnation={note.incarnation}", *(f"former={one}" for one in note.former)]
    # A restored database has passed fewer fences than the note has: the note exists for this case.
    if passed := max(passed, fence(here)):
        lines.append(f"fence={passed}")
    if any("\n" in line for line in lines):
        raise OSError(0, "a path with a line end in it", note.database)
    folder = os.path.dirname(here.place_note)
    os.stat(here.controldir)
    if not os.path.isdir(folder):
        private_directory(folder)
        own_as(folder, here.controldir)
    temporary = os.path.join(folder, f".arcacct.place.{os.getpid()}")
    try:
        # The file of a killed process. Mode "x" makes it ours: the directory may belong to A-REX's user.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with open(temporary, "xb", opener=private) as file:
            file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
            file.flush()
            own_as(file.fileno(), folder)
            os.fsync(file.fileno())
        os.rename(temporary, here.place_note)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    sync(folder)


def own_as(path: str | int, other: str) -> None:
    """Give a file of root (path or descriptor) to the user of A-REX, who owns the other path. Raises OSError."""
    if os.geteuid() == 0:
        status = os.stat(other)
        # That user may have put a link in its place: do not give away the file that it leads to.
        os.chown(path, status.st_uid, status.st_gid, follow_symlinks=isinstance(path, int))


def settle(here: Places, con: Connection) -> None:
    """
    Note the place of an open database if there is no note yet, or if the files were moved by hand.

    A note that cannot be written is no error: there may be no control directory. Raises as `refuse_unrelated`.
    """
    note = refuse_unrelated(here, con)
    if note is None or not _same(note.database, here.database):
        note_down(here, con, note)


def refuse_unrelated(here: Places, con: Connection) -> LocationFile | None:
    """
    Return the note, if there is one that fits the open database.

    Raises ConfigError if the noted database is missing and this one does not continue from it.
    """
    note = read(here)
    if note and not _same(note.database, here.database) and note.incarnation not in incarnation_history(con):
        raise ConfigError(
            f"{here.database}: not the database that {here.controldir} had: {here.place_note} names {note.database}, "
            f"which is gone; {_WAYS}"
        )
    return note


def note_down(here: Places, con: Connection, before: LocationFile | None) -> None:
    """Note an open database, with its places ``before``; does nothing if no note can be written."""
    try:
        write(here, LocationFile(here.database, incarnation(con), former_of(before, here.directory)))
    except OSError:
        return


def note_fence(here: Places, life: str, passed: int) -> None:
    """
    Note how many fences the accounting database has passed; on disk afterwards.

    If no note can be written, this is no error. Raises ConfigError as `read`.
    """
    before = read(here)
    if before is not None:
        with suppress(OSError):
            write(here, before._replace(incarnation=life), passed)


def former_of(before: LocationFile | None, directory: str) -> tuple[str, ...]:
    """Return the former directories of the databases that are now in ``directory``; a note calls them ``before``."""
    if before is None:
        return ()
    known = dict.fromkeys((*before.former, os.path.dirname(before.database)))
    return tuple(one for one in known if not _same(one, directory))


def former_spools(here: Places) -> list[str]:
    """The spools of earlier places: a launcher with an old configuration still spools there."""
    note = read(here)
    return [] if note is None else [os.path.join(one, "spool") for one in note.former]


def spools(here: Places) -> list[str]:
    """
    The directories in which events may wait.

    A launcher that cannot read the configuration spools below the control directory, wherever the database is; one
    with an old configuration spools at the former place.
    Raises ConfigError for an invalid place file, StoreError for a file system error.
    """
    usual = os.path.join(os.path.dirname(usual_database(here.controldir)), "spool")
    fallback = [] if here.spool_fallback is None else [here.spool_fallback]
    return [*dict.fromkeys((here.spool, *fallback, usual, *former_spools(here)))]


def refuse_another(here: Places) -> None:
    """
    Refuse to create or use a database while the control directory has another one, wherever that is.

    Raises ConfigError with both paths.
    """
    note = read(here)
    if note is None:
        usual = usual_database(here.controldir)
        if not has_database(here.database) and not _same(usual, here.database) and _is_ours(usual):
            raise _elsewhere(here, usual, "exists")
    elif not _same(note.database, here.database) and _is_ours(note.database):
        if has_database(here.database):
            raise ConfigError(
                f"{here.database} and {note.database} both exist, but {here.controldir} can have only one: "
                f"{here.place_note} names {note.database}; set database={note.database} in [arcacct], or run "
                "`arcacct db init --new-life` to continue with the other one"
            )
        raise _elsewhere(here, note.database, f"is recorded in {here.place_note}")


def refuse_lost(here: Places) -> bool:
    """
    Refuse to create a database if there was one, or below a directory that is not A-REX's.

    Returns whether it exists. Raises ConfigError with the solutions.
    """
    if has_database(here.database):
        return True
    why = _lost(here)
    if why:
        raise ConfigError(f"{here.database}: the database is missing; refusing to create an empty one: {why}; {_WAYS}")
    refuse_misplaced(here)
    return False


def refuse_misplaced(here: Places) -> None:
    """Raise ConfigError with the solution, if a database would be created `misplaced`."""
    what = misplaced(here)
    if what:
        raise ConfigError(
            f"{here.controldir}: {what}, so no database is created there; the path is from {here.controldir_from}. "
            "Give A-REX's control directory: with --config and its arc.conf, with [arex] controldir, or with "
            "--controldir if the command has it. On a host without A-REX, give the path of the database, with "
            "database= in [arcacct] or --database"
        )


def misplaced(here: Places) -> str:
    """
    The problem, if a database would be created in a directory that is not a control directory; else empty.

    (It would stay empty: A-REX uses another directory, or the file system is not mounted.)
    """
    usual = _same(here.database, usual_database(here.controldir))
    # A-REX makes all four folders when it starts; a copy may lack the empty ones. Otherwise it at least writes its own
    # accounting there.
    made = (*STATUS_FOLDERS, *(f"accounting/{name}" for name in AREX_DATABASES))
    if not usual or has_database(here.database) or any(os.path.exists(f"{here.controldir}/{name}") for name in made):
        return ""
    if not os.path.isdir(here.controldir):
        return unseen(here.controldir) or "no such control directory"
    folders = f"{', '.join(STATUS_FOLDERS[:-1])} or {STATUS_FOLDERS[-1]}"
    return f"not a control directory of A-REX (it has no folder {folders})"


def refuse_no_file(*paths: str) -> None:
    """Raise StoreError for anything but a plain file: SQLite would block on a pipe."""
    for path in paths:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            # Opening it reports the problem.
            continue
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise StoreError(f"{path}: {what}, not a database; give the path of the database, or move this away")


def refuse_missing(here: Places) -> None:
    """Raise the StoreError of a command that only reads, if there is no database that the user may read."""
    refuse_hidden(here.database)
    if has_database(here.database):
        return
    todo = "create it with `arcacct db init`"
    try:
        refuse_another(here)
        why = _lost(here)
        todo = f"{why}; {_WAYS}" if why else todo
        if not why:
            refuse_misplaced(here)
    except ConfigError as error:
        raise StoreError(str(error)) from None
    except StoreError:
        # A ledger that this user may not read gives no information.
        pass
    raise StoreError(f"{here.database}: no such database; {todo}")


def _elsewhere(here: Places, other: str, how: str) -> ConfigError:
    return ConfigError(
        f"{here.database}: no such database; that of {here.controldir} is {other}, which {how}: set database={other} "
        "in [arcacct]; to move it use `arcacct db move DIR`. Only to give that one up: `arcacct db init "
        "--new-life` creates a new one, and `arcacct import arex` fills it"
    )


def _lost(here: Places) -> str:
    """Why a database must have existed; empty if nothing records one."""
    if read(here) is not None:
        return f"{here.place_note} records that one existed"
    if ledger_incarnations(here.publishing_database):
        return f"{here.publishing_database} records what was published from one"
    return ""


def has_database(path: str) -> bool:
    """
    Whether there is a database, or another file with content.

    After an interrupted creation there may be only the first page: this counts as no database.
    """
    try:
        size = os.stat(path).st_size
    except OSError:
        return False
    if size != _FIRST_PAGE_BYTES:
        return size > 0
    try:
        with _looked_at(path) as con:
            return con.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
    except (SchemaError, DatabaseError):
        # Opening it reports the problem.
        return True


def _is_ours(path: str) -> bool:
    """Whether there is a database of ours, even a damaged one."""
    if not has_database(path):
        return False
    try:
        with _looked_at(path) as con:
            version(con, path)
    except SchemaError:
        return False
    except DatabaseError:
        pass
    return True


LEDGER_INCARNATIONS = "ACCOUNTING_LIVES"
"""Key in the DBConfig of a ledger: all incarnations of the accounting database that it knows, with blanks between."""


def ledger_incarnations(path: str) -> list[str]:
    """
    Return the incarnations that the cursors of a ledger belong to; empty for one that is missing, not ours or without
    cursors.

    Raises StoreError if it cannot be read.
    """
    if not has_database(path):
        return []
    try:
        with _looked_at(path) as con:
            return [life for (life,) in con.execute("SELECT DISTINCT Incarnation FROM Targets ORDER BY 1")]
    except SchemaError:
        return []
    except DatabaseError as error:
        if "no such table" in str(error):
            return []
        raise translated(error, path) from error


def ledger_history(path: str) -> frozenset[str]:
    """The incarnations that a ledger has published from, the former ones too; empty as `ledger_incarnations`."""
    incarnations = frozenset(ledger_incarnations(path))
    if incarnations:
        with _looked_at(path) as con:
            incarnations |= frozenset((noted(con, LEDGER_INCARNATIONS) or "").split())
    return incarnations - {""}


def incarnations_of(path: str) -> frozenset[str]:
    """Return the history of the database at a path; empty if there is no readable one."""
    if not has_database(path):
        return frozenset()
    try:
        with _looked_at(path) as con:
            return incarnation_history(con)
    except (SchemaError, DatabaseError):
        return frozenset()


@contextmanager
def _looked_at(path: str) -> Iterator[Connection]:
    """Open a database, of any version. Raises SchemaError for a foreign one, DatabaseError."""
    refuse_foreign(path)
    with closing(connect(uri(path, "ro"), uri=True)) as con:
        yield con


def _same(path: str, other: str) -> bool:
    return path == other or os.path.realpath(path) == os.path.realpath(other)
