"""
Reads the databases that A-REX writes, without any effect on A-REX (INVARIANTS 1), and turns their records into jobs.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from arcacct.config.paths import AREX_DATABASES, Places
from arcacct.database.connection import Connection, DatabaseError, translated, uri
from arcacct.database.durable import ROLLBACK_JOURNAL, WAL, Header, header_of
from arcacct.database.foreign import LONGEST_S, Foreign, open_foreign, require_tables
from arcacct.database.schema import note, noted
from arcacct.errors import InputError, StoreBusy, StoreError
from arcacct.files.directories import private_directory
from arcacct.files.safe_open import private
from arcacct.records.model import Job
from arcacct.records.row_mapping import ArexRows, Event, Row, as_job
from arcacct.records.states import FINAL, FQAN_KEYS, IN_PROGRESS, SQL_FINAL
from arcacct.records.texts import unescaped

# Reading a database that A-REX writes, without any effect on A-REX (INVARIANTS 1).
#
# If the file is locked, A-REX repeats the whole text `BEGIN; ...; COMMIT`, and then loses every later row. In
# rollback-journal mode any reader locks the file: SQLite never opens it there, and we copy it with read(). In WAL mode
# readers lock nothing: SQLite opens it read-only, in short transactions, and never writes anything back.


PATIENCE_S = 60.0
"""How many seconds to wait until A-REX does not write, before giving up until the next time."""
_CHUNK_BYTES = 4 * 1024 * 1024

_ways: dict[tuple[int, int], str] = {}
"""
How this process reads each file, by device and inode. Never mix both ways: closing a descriptor of a file drops every
lock that SQLite has on it in this process.
"""


class ArexDatabase(NamedTuple):
    """An open database of A-REX, or our copy of one."""

    con: Foreign
    path: str
    version: int
    """1 (ARC 6) or 2 (ARC 7)."""
    stamp: str
    """The stamp of the copied file; empty if the database is read in place."""


def newest_stamp(path: str) -> str:
    """
    Return the present stamp of a file that would be copied, for comparison with an earlier copy; empty in WAL mode.

    Raises InputError.
    """
    header = header_of(path)
    return header.stamp if header.journal == ROLLBACK_JOURNAL and not os.path.exists(f"{path}-journal") else ""


@contextmanager
def opened(
    path: str, workspace: str, *, patience_s: float = PATIENCE_S, at_rest: bool = True
) -> Iterator[ArexDatabase]:
    """
    Open a database of A-REX for reading. ``workspace`` is a directory of ours with room for a copy.

    ``at_rest=False`` is for long-running processes: an unused WAL database is not copied, since it could then not be
    read in place later. Only one process at a time may use a workspace. Raises InputError if the file is no such
    database, StoreBusy if A-REX writes for ``patience_s`` seconds or does not run, StoreError if it cannot be read.
    """
    header = header_of(path)
    live = header.journal == WAL and _is_open_somewhere(path)
    if header.journal == WAL and not live and not at_rest:
        raise StoreBusy(f"{path}: A-REX does not use it now; try again when A-REX runs")
    way = "live" if live else "copy"
    if _ways.setdefault((header.device, header.inode), way) != way:
        raise StoreBusy(f"{path}: another program changed its journal mode meanwhile; run the command again")
    copy = os.path.join(workspace, f"arex-copy-{os.path.basename(path)}")
    try:
        stamp = "" if live else _copied(path, copy, patience_s)
        # Only this process uses the copy: it needs no locks, and no -shm as for a WAL database.
        copied = f"{uri(os.path.join(copy, 'accounting.db'), 'ro')}&immutable=1"
        try:
            with closing(open_foreign(uri(path, "ro") if live else copied)) as con:
                # Check the tables first: quick_check would run the module of a virtual table.
                version = require_tables(con, path)
                found = "ok" if live else con.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise _damaged(path, str(found))
                if con.execute("SELECT 1 FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchone():
                    raise InputError(f"{path}: a database of arcacct; give the path of the one that A-REX writes")
                con.more_time()
                yield ArexDatabase(con, path, version, stamp)
        except (DatabaseError, UnicodeDecodeError) as error:
            text = str(error)
            if "locked" in text or "busy" in text or "unable to open" in text:
                raise translated(error, path) from error
            if "interrupted" in text:
                raise StoreError(
                    f"{path}: reading it took more than {LONGEST_S:g} s at one point and was stopped"
                ) from error
            said = "a name in it is not text" if isinstance(error, UnicodeDecodeError) else text
            raise _damaged(path, said) from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _is_open_somewhere(path: str) -> bool:
    """Whether a WAL database is in use or has a WAL left. Otherwise the file alone is complete."""
    if os.path.exists(f"{path}-shm"):
        return True
    if not _has_wal(path):
        return False
    if os.geteuid() not in (0, os.stat(path).st_uid):
        # SQLite would create a -shm that the owner cannot write.
        raise StoreError(f"{path}: left open by a process that ended; run as its owner")
    return True


def _has_wal(path: str) -> bool:
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def _damaged(path: str, what: str) -> StoreError:
    return StoreError(f"{path}: it is damaged: {' '.join(what.split())}; stop A-REX and check it with `sqlite3`")


def _copied(path: str, folder: str, patience_s: float) -> str:
    """
    Copy a file while no process writes it; return the stamp of the copied file.

    Raises StoreBusy, and StoreError if there is no room for it (a file may claim to have a terabyte).
    """
    shutil.rmtree(folder, ignore_errors=True)
    private_directory(folder)
    needed, free = header_of(path).size_bytes, shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"{path}: cannot be copied to {folder}: it has {needed:,} bytes, and {free:,} are free there; make room"
        )
    deadline = time.monotonic() + patience_s
    pause_s = 0.01
    while True:
        stamp = _copied_once(path, os.path.join(folder, "accounting.db"))
        if stamp is not None:
            return stamp
        if time.monotonic() + pause_s > deadline:
            raise StoreBusy(
                f"{path}: A-REX writes it constantly, no complete copy within {patience_s:g} s; try again later, or "
                "once while A-REX is stopped"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 1.0)


def _copied_once(path: str, target: str) -> str | None:
    """
    Try to copy once; return ``None`` if another process wrote during the copy.

    The order matters. Before: read the header, then check that there is no journal, so that earlier writes are
    finished. After: check that there is no journal, then compare the header. One of the two shows any write in between.
    """
    before = header_of(path)
    if _in_use(path, before) or not _copy_bytes(path, target, before):
        return None
    return None if _in_use(path, before) or header_of(path) != before else before.stamp


def _in_use(path: str, header: Header) -> bool:
    if os.path.exists(f"{path}-journal"):
        return True
    # A WAL database is complete in its file only while it has no WAL.
    return header.journal == WAL and (_has_wal(path) or os.path.exists(f"{path}-shm"))


def _copy_bytes(path: str, target: str, before: Header) -> bool:
    """Copy with read() only; return False as soon as the file changes."""
    try:
        with open(path, "rb", buffering=0) as source, open(target, "wb", opener=private) as copy:
            while content := source.read(_CHUNK_BYTES):
                copy.write(content)
                status = os.fstat(source.fileno())
                if (status.st_size, status.st_mtime_ns) != (before.size_bytes, before.mtime_ns):
                    return False
            return copy.tell() == before.size_bytes
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be copied to {target}: {error.strerror}; {before.size_bytes} bytes are needed there"
        ) from error


# A-REX's own databases of this control directory's jobs, and when to read them (INVARIANTS 1).


_ASK_AFTER = "ARCACCT_ASK_AREX_AFTER"
_LONGEST_PAUSE_S = 86_400
_PAGE_RECORDS = 5000


class Ended(NamedTuple):
    """A job that has ended in A-REX's database."""

    end_time: int
    wall_s: int
    cpu_s: int


def own_databases(here: Places) -> list[str]:
    """
    Return A-REX's existing databases, the last written one first; empty if A-REX writes none by the configuration.

    It never includes our own database, wherever ``database=`` puts it.
    """
    if not here.arex_accounting:
        return []
    ours = os.path.realpath(here.database)
    found = []
    for name in AREX_DATABASES:
        path = os.path.join(here.controldir, "accounting", name)
        try:
            written_ns = os.stat(path).st_mtime_ns
        except OSError:
            continue
        if os.path.realpath(path) != ours:
            found.append((written_ns, path))
    return [path for _written_ns, path in sorted(found, reverse=True)]


def own_origins(here: Places) -> list[str]:
    """Return the names of these databases in RecordSources, whether the files exist or not."""
    return [os.path.realpath(os.path.join(here.controldir, "accounting", name)) for name in AREX_DATABASES]


def ask_after(con: Connection) -> float:
    """Return when they may be read again, in UTC seconds; a time in the past means now."""
    after = float(noted(con, _ASK_AFTER) or 0)
    # After a clock was set back, do not stop reading A-REX's database.
    return after if after < time.time() + _LONGEST_PAUSE_S else 0.0


def save_pause(con: Connection, seconds: float) -> None:
    """Store a pause of some seconds before the next reading. The caller has a transaction."""
    note(con, _ASK_AFTER, round(time.time() + min(seconds, _LONGEST_PAUSE_S / 2)))


def ended_between(database: ArexDatabase, start: int, end: int, settled_before: int) -> Iterator[dict[str, Ended]]:
    """
    Yield every job with ``start <= EndTime < end`` by its plain id, some thousand at a time, in short transactions.

    Records that A-REX has lost are left out, and those whose end A-REX is still writing: ``settled_before`` and the
    event FINISHED show these, as in an import.
    """
    after = (start, 0)
    while True:
        page = database.con.execute(
            "SELECT EndTime, RecordID, JobID, UsedWalltime, UsedCPUUserTime + UsedCPUKernelTime,"
            f" Status.Name IN {SQL_FINAL} AND (EndTime < ? OR EXISTS (SELECT 1 FROM JobEvents"
            " WHERE JobEvents.RecordID = AAR.RecordID AND +EventKey = 'FINISHED'))"
            " FROM AAR JOIN Status ON Status.ID = +StatusID"
            " WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime < ? ORDER BY EndTime, AAR.RecordID LIMIT ?",
            (settled_before, *after, end, _PAGE_RECORDS),
        ).fetchall()
        if not page:
            return
        after = page[-1][:2]
        yield {unescaped(row[2]): Ended(row[0], row[3], row[4]) for row in page if row[5]}


# A record of A-REX's own database as a complete job.
#
# Differences from ours are corrected. Event times are local there and UTC here. A resumed or restarted job has all its
# rows once more for each end. ARC 7 keeps the first FQAN and the benchmark in the record instead of separate rows.


TimedEvent = tuple[str, int | str]
"""Key and time in UTC seconds; a text that is no time remains unchanged."""
_QUARTER_HOUR_S = 900
_SECONDS = {f":{second:02}": second for second in range(60)}
_LARGEST_OFFSET_S = 15 * 3600
_MINUTES_REMEMBERED = 10_000
"""A week, of 2 MB: jobs come in the order of their records, and few take longer."""


def lost(rows: ArexRows) -> str | None:
    """
    Return why a record cannot be used, or ``None``.

    A job submitted through INTERNAL has a row without status, user, queue and end. A-REX loses it, and only the control
    directory has it.
    """
    if rows.status == "":
        return "A-REX recorded neither status nor user (a job of the INTERNAL interface)"
    if rows.status not in (IN_PROGRESS, *FINAL):
        return f"status {rows.status!r} is unknown"
    if rows.status in FINAL and rows.numbers.end_time <= 0:
        return f"status {rows.status} without an end time"
    return None


def written_whole(rows: ArexRows) -> bool:
    """
    Whether A-REX has written the complete end of a job: it takes five transactions, and this event is in the last.

    (A record without its benchmark would be published with a wrong one.)
    """
    return any(key == "FINISHED" for key, _when in rows.events)


def job_of(rows: ArexRows, clock: EventClock) -> Job:
    """Return the job in a record of any version of A-REX."""
    ends = [key for key, _when in rows.events].count("FINISHED") or 1
    # The values of the last end: for each end A-REX writes them in the order of their keys, each key once.
    keys = [_key(row) for row in rows.extra]
    last_end = max((at for at in range(1, len(keys)) if keys[at] <= keys[at - 1]), default=0)
    once = rows._replace(
        # A-REX 7 stores the whole ``VO#ISSUER`` of a line `vomsless_vo` (``#`` escaped).
        vo=rows.vo if rows.fqan is None else rows.vo.partition("%23")[0].strip(),
        auth_tokens=tokens_of_version_1(rows.auth_tokens, rows.fqan),
        rtes=_once(rows.rtes, ends),
        transfers=_once(rows.transfers, ends),
        extra=with_benchmark(rows.extra[last_end:], rows.benchmark),
    )
    return as_job(once, clock.utc(rows.events, rows.numbers.submit_time, rows.numbers.end_time))


def tokens_of_version_1(rows: Sequence[Row], fqan: str | None) -> tuple[Row, ...]:
    """
    Return the rows of AuthTokenAttributes in the form of version 1, each once.

    The first FQAN is ``mainfqan``, the others are ``vomsfqan``, then the claims of a token follow. Version 2 has every
    FQAN as ``vomsfqan``, and the first one also in the record (``fqan``; empty: none). ``None``: they are of version 1.
    """
    distinct = tuple(dict.fromkeys(rows))
    if fqan is None:
        return distinct
    fqans = dict.fromkeys(value for key, value in distinct if key in FQAN_KEYS)
    ordered = list(dict.fromkeys([fqan, *fqans])) if fqan else list(fqans)
    named = [("vomsfqan" if position else "mainfqan", value) for position, value in enumerate(ordered)]
    return (*named, *(row for row in distinct if row[0] not in FQAN_KEYS))


def tokens_of_version_2(rows: Sequence[Row]) -> tuple[str, tuple[Row, ...]]:
    """Return the first FQAN (empty: none) and the rows of AuthTokenAttributes of version 1 in the form of version 2."""
    # `mainfqan` before `vomsfqan`, else the order of the rows.
    fqans = [str(value) for _key, value in sorted((row for row in rows if row[0] in FQAN_KEYS), key=_key)]
    others = [row for row in rows if row[0] not in FQAN_KEYS]
    return fqans[0] if fqans else "", (*(("vomsfqan", value) for value in fqans), *others)


def _once(rows: Sequence[Row], ends: int) -> tuple[Row, ...]:
    """
    Return the rows of one end of a job that ended ``ends`` times, where each end repeated the earlier rows.

    A row may correctly appear twice: a file that was fetched twice within a second.
    """
    if ends == 1:
        return tuple(rows)
    return tuple(row for row, count in Counter(rows).items() for _ in range(-(-count // ends)))


def with_benchmark(rows: Sequence[Row], benchmark: str | None) -> tuple[Row, ...]:
    """Return the rows of JobExtraInfo of version 2 with the benchmark, if known, as in version 1."""
    if not benchmark:
        return tuple(rows)
    return tuple(sorted([*(row for row in rows if row[0] != "benchmark"), ("benchmark", benchmark)], key=_key))


def _key(row: Row) -> str:
    return str(row[0])


class EventClock:
    """
    Converts A-REX's event times, which are local and without a zone, to UTC.

    The zone is given (``None``: this host's), but the job's own times have priority. ACCEPTED is the time of submission
    and FINISHED the end, both known in UTC: a zone that does not fit them was not A-REX's at that time. They also
    distinguish the two hours with the same name at the end of summer time. In between, the order of the rows does.
    """

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._minutes: dict[str, tuple[int, ...]] = {}
        self.elsewhere = 0
        """Jobs whose own times did not fit the zone."""

    def utc(self, events: Sequence[Event], submit_time: int, end_time: int) -> tuple[TimedEvent, ...]:
        """Return each event once, in the order of the rows, with UTC seconds; a text that is no time remains a text."""
        found: list[TimedEvent] = []
        for key, text in events:
            minutes = self._minutes.get(text[:16]) or self._utc_minutes(text[:16])
            second = _SECONDS.get(text[16:])
            if len(minutes) != 1 or second is None:
                break
            found.append((key, minutes[0] + second))
        else:
            # The job's own times, if it has these events.
            accepted = next((when for key, when in found if key == "ACCEPTED"), submit_time)
            finished = next((when for key, when in reversed(found) if key == "FINISHED"), end_time)
            if (not submit_time or accepted == submit_time) and (not end_time or finished == end_time):
                return tuple(dict.fromkeys(found))
        return tuple(dict.fromkeys(self._one_by_one(events, submit_time, end_time)))

    def _utc_minutes(self, minute: str) -> tuple[int, ...]:
        """Return a local ``YYYY-MM-DD hh:mm`` in UTC: two times in the repeated hour, empty if it is no time."""
        try:
            local = datetime.fromisoformat(minute)
            found = {int(local.replace(tzinfo=self._zone, fold=fold).timestamp()) for fold in (0, 1)}
        except (ValueError, OverflowError, OSError):
            return ()
        if len(self._minutes) >= _MINUTES_REMEMBERED:
            self._minutes.clear()
        self._minutes[minute] = tuple(sorted(found))
        return self._minutes[minute]

    def _one_by_one(self, events: Sequence[Event], submit_time: int, end_time: int) -> list[TimedEvent]:
        """Convert slowly: each event gets the earliest possible time that is not before the event that it follows."""
        # The first ACCEPTED and the last FINISHED, with their known times.
        accepted = [event for event in events if event[0] == "ACCEPTED"][:1]
        finished = [event for event in events if event[0] == "FINISHED"][-1:]
        known = [(event, submit_time) for event in accepted] + [(event, end_time) for event in finished]
        anchors = {event: instant for event, instant in known if instant > 0}
        # The offsets from UTC, in seconds, that the job's own times show and that a zone can have.
        offsets = set()
        for (_name, text), instant in anchors.items():
            local = _seconds(text)
            offset = instant if local is None else local - instant
            if offset % _QUARTER_HOUR_S == 0 and abs(offset) <= _LARGEST_OFFSET_S:
                offsets.add(offset)
        fits = all(instant in self._instants(text) for (_key, text), instant in anchors.items())
        self.elsewhere += bool(offsets) and not fits
        floors: dict[str, int] = {}
        found: list[TimedEvent] = []
        for key, text in events:
            when = _seconds(text)
            if when is None:
                found.append((key, text))
                continue
            possible = self._instants(text) if fits or not offsets else sorted(when - offset for offset in offsets)
            # Within each group, events are in the order of their times: states, batch system, transfers.
            chain = key.removesuffix("START").removesuffix("END") if key.startswith(("LRMS", "DTR")) else ""
            instant = anchors.get((key, text), -1)
            if instant not in possible:
                guard = floors.get(chain, submit_time)
                instant = next((one for one in possible if one >= guard), possible[-1] if possible else when)
            floors[chain] = instant
            found.append((key, instant))
        return found

    def _instants(self, text: str) -> list[int]:
        when = _seconds(text)
        minutes = self._minutes.get(text[:16]) or self._utc_minutes(text[:16])
        return [] if when is None else [minute + when % 60 for minute in minutes]


def _seconds(text: str) -> int | None:
    """Return ``YYYY-MM-DD hh:mm:ss``, read as UTC, in seconds since 1970."""
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
