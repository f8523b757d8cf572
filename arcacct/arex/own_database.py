"""
The databases that A-REX writes itself: reading them without being noticed (INVARIANTS 1), and a record there as a
job.
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
from arcacct.database.query import LONGEST_S, Foreign, open_foreign, require_tables
from arcacct.database.schema import note, noted
from arcacct.errors import InputError, StoreBusy, StoreError
from arcacct.files.directories import private_directory
from arcacct.files.safe_open import private
from arcacct.records.model import Job
from arcacct.records.reader import unescaped
from arcacct.records.row_mapping import ArexRows, Event, Row, as_job
from arcacct.records.states import FINAL, FQAN_KEYS, IN_PROGRESS, SQL_FINAL

# Reading a database that A-REX writes, so that A-REX never notices (INVARIANTS 1).
#
# A-REX repeats the whole text `BEGIN; ...; COMMIT` when the file is locked, and then loses every later row. In
# rollback-journal mode any reader locks the file: SQLite never opens it there, we copy it with read(). In WAL mode
# readers lock nothing: SQLite opens it read-only, in short transactions, and never writes anything back.


PATIENCE_S = 60.0
"""How long to wait for a moment in which A-REX does not write, before giving up until the next time."""
_CHUNK_BYTES = 4 * 1024 * 1024

_ways: dict[tuple[int, int], str] = {}
"""
How this process reads each file, by device and inode. Never both ways: closing a descriptor of a file drops every lock
that SQLite has on it in this process.
"""


class ArexDatabase(NamedTuple):
    """An open database of A-REX, or our copy of one."""

    con: Foreign
    path: str
    version: int
    """1 (ARC 6) or 2 (ARC 7)."""
    stamp: str
    """The file that was copied; empty for one that is read as it lives."""


def newest_stamp(path: str) -> str:
    """
    The stamp of a file that would be copied, to be compared with that of an earlier copy; empty for one in WAL mode.

    Raises InputError.
    """
    header = header_of(path)
    return header.stamp if header.journal == ROLLBACK_JOURNAL and not os.path.exists(f"{path}-journal") else ""


@contextmanager
def opened(
    path: str, workspace: str, *, patience_s: float = PATIENCE_S, at_rest: bool = True
) -> Iterator[ArexDatabase]:
    """
    A database of A-REX for reading; ``workspace`` is a directory of ours with room for a copy.

    ``at_rest=False`` is for processes that come back: a WAL database that nobody uses now is not copied, since once it
    is used it could not be read in place any more. Only one process at a time may use a workspace. Raises InputError
    when it is none, StoreBusy when A-REX writes all the time or not now, StoreError when it cannot be read.
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
        # Nobody else knows the copy: without locks, and without the -shm that a WAL database would need.
        copied = f"{uri(os.path.join(copy, 'accounting.db'), 'ro')}&immutable=1"
        try:
            with closing(open_foreign(uri(path, "ro") if live else copied)) as con:
                # The tables first: the check would run what a virtual table stands for.
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
            said = "a name in it is no text" if isinstance(error, UnicodeDecodeError) else text
            raise _damaged(path, said) from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _is_open_somewhere(path: str) -> bool:
    """Whether somebody uses a WAL database, or left a WAL behind: else the file alone is all there is."""
    if os.path.exists(f"{path}-shm"):
        return True
    if not _has_wal(path):
        return False
    if os.geteuid() not in (0, os.stat(path).st_uid):
        # SQLite would make a -shm that the owner cannot write.
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
    Copy a file in a moment in which nobody writes it; the stamp of what was copied.

    Raises StoreBusy, and StoreError where there is no room for it (a file may say that it has a terabyte).
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
    One attempt; ``None`` when somebody wrote meanwhile.

    The order matters. Before: the header, then no journal, so that whatever began before is finished. After: no
    journal, then the same header, so that whatever began meanwhile is seen by one or the other.
    """
    before = header_of(path)
    if _in_use(path, before) or not _copy_bytes(path, target, before):
        return None
    return None if _in_use(path, before) or header_of(path) != before else before.stamp


def _in_use(path: str, header: Header) -> bool:
    if os.path.exists(f"{path}-journal"):
        return True
    # A WAL database is in its file alone only as long as it has no WAL.
    return header.journal == WAL and (_has_wal(path) or os.path.exists(f"{path}-shm"))


def _copy_bytes(path: str, target: str, before: Header) -> bool:
    """By read() alone; False as soon as the file changes."""
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


# The databases that A-REX itself keeps of this control directory's jobs, and when to ask them (INVARIANTS 1).


_ASK_AFTER = "ARCACCT_ASK_AREX_AFTER"
_LONGEST_PAUSE_S = 86_400
_PAGE_RECORDS = 5000


class Ended(NamedTuple):
    """A job that is at its end in A-REX's database."""

    end_time: int
    wall_s: int
    cpu_s: int


def own_databases(here: Places) -> list[str]:
    """
    Those that there are, the one that was written last first; none where A-REX writes none (the configuration says so).

    Our own database is none of them, wherever ``database=`` puts it.
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
    """What RecordSources calls these databases, whether they are there now or not."""
    return [os.path.realpath(os.path.join(here.controldir, "accounting", name)) for name in AREX_DATABASES]


def ask_after(con: Connection) -> float:
    """When they may be asked again, in UTC seconds; in the past: now."""
    after = float(noted(con, _ASK_AFTER) or 0)
    # A clock that was put back must not silence A-REX.
    return after if after < time.time() + _LONGEST_PAUSE_S else 0.0


def save_pause(con: Connection, seconds: float) -> None:
    """Do not ask again for so long; inside the caller's transaction."""
    note(con, _ASK_AFTER, round(time.time() + min(seconds, _LONGEST_PAUSE_S / 2)))


def ended_between(database: ArexDatabase, start: int, end: int, settled_before: int) -> Iterator[dict[str, Ended]]:
    """
    Every job with ``start <= EndTime < end`` by its plain id, some thousand at a time, each in a short transaction.

    Without the records that A-REX has lost itself, and those whose end it is still writing: ``settled_before`` and the
    event FINISHED tell as in an import.
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


# A record of the database that A-REX itself writes, as a whole job.
#
# What differs from ours is put right: event times are local to A-REX there and UTC here; a resumed or restarted job has
# all its children once more for each end; ARC 7 keeps the first FQAN and the benchmark in the record, not beside it.


TimedEvent = tuple[str, int | str]
"""Key and time in UTC seconds; a text that is no time is as it was."""
_QUARTER_HOUR_S = 900
_SECONDS = {f":{second:02}": second for second in range(60)}
_LARGEST_OFFSET_S = 15 * 3600
_MINUTES_REMEMBERED = 10_000
"""A week, of 2 MB: jobs come in the order of their records, and few take longer."""


def lost(rows: ArexRows) -> str | None:
    """
    Why a record cannot be used, or ``None``.

    A job submitted through INTERNAL has a row without status, user, queue and end: A-REX loses it, and only the
    control directory knows it.
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
    Whether A-REX has written all of a job's end: it does so in five transactions, and this event is in the last.

    (A record without its benchmark would be published with a wrong one.)
    """
    return any(key == "FINISHED" for key, _when in rows.events)


def job_of(rows: ArexRows, clock: EventClock) -> Job:
    """The job, whatever version of A-REX wrote it."""
    ends = [key for key, _when in rows.events].count("FINISHED") or 1
    # The values of the last end: A-REX writes those of one in the order of their keys, each key once.
    keys = [_key(row) for row in rows.extra]
    last_end = max((at for at in range(1, len(keys)) if keys[at] <= keys[at - 1]), default=0)
    once = rows._replace(
        # A-REX 7 writes ``VO#ISSUER`` of a line `vomsless_vo` as it stands (``#`` escaped).
        vo=rows.vo if rows.fqan is None else rows.vo.partition("%23")[0].strip(),
        auth_tokens=(
            tuple(dict.fromkeys(rows.auth_tokens))
            if rows.fqan is None
            else tokens_of_version_1(rows.auth_tokens, rows.fqan)
        ),
        rtes=_once(rows.rtes, ends),
        transfers=_once(rows.transfers, ends),
        extra=with_benchmark(rows.extra[last_end:], rows.benchmark),
    )
    return as_job(once, clock.utc(rows.events, rows.numbers.submit_time, rows.numbers.end_time))


def tokens_of_version_1(rows: Sequence[Row], fqan: str) -> tuple[Row, ...]:
    """
    The rows of AuthTokenAttributes of version 2 as version 1 has them, each once.

    The first FQAN as ``mainfqan``, the others as ``vomsfqan``, then the claims of a token. Version 2 has every FQAN,
    also the first, as ``vomsfqan``, and the first (``fqan``; empty: none) beside the record.
    """
    distinct = tuple(dict.fromkeys(rows))
    fqans = dict.fromkeys(value for key, value in distinct if key in FQAN_KEYS)
    ordered = list(dict.fromkeys([fqan, *fqans])) if fqan else list(fqans)
    named = [("vomsfqan" if position else "mainfqan", value) for position, value in enumerate(ordered)]
    return (*named, *(row for row in distinct if row[0] not in FQAN_KEYS))


def tokens_of_version_2(rows: Sequence[Row]) -> tuple[str, tuple[Row, ...]]:
    """The first FQAN (empty: none) and the rows of AuthTokenAttributes of version 1 as version 2 has them."""
    # `mainfqan` before `vomsfqan`, else the order of the rows.
    fqans = [str(value) for _key, value in sorted((row for row in rows if row[0] in FQAN_KEYS), key=_key)]
    others = [row for row in rows if row[0] not in FQAN_KEYS]
    return fqans[0] if fqans else "", (*(("vomsfqan", value) for value in fqans), *others)


def _once(rows: Sequence[Row], ends: int) -> tuple[Row, ...]:
    """
    The rows of one end of a job that ended ``ends`` times, each end having repeated what was there before.

    A row may rightly be there twice: a file that was fetched twice within a second.
    """
    if ends == 1:
        return tuple(rows)
    return tuple(row for row, count in Counter(rows).items() for _ in range(-(-count // ends)))


def with_benchmark(rows: Sequence[Row], benchmark: str | None) -> tuple[Row, ...]:
    """The rows of JobExtraInfo of version 2 with the benchmark where version 1 has it; it may be unknown."""
    if not benchmark:
        return tuple(rows)
    return tuple(sorted([*(row for row in rows if row[0] != "benchmark"), ("benchmark", benchmark)], key=_key))


def _key(row: Row) -> str:
    return str(row[0])


class EventClock:
    """
    A-REX's event times, local to its zone and without a marker, in UTC.

    The zone is given (``None``: this host's), but the job's own times win: ACCEPTED is the time of submission and
    FINISHED the end, both known in UTC, so a zone that does not fit them was not A-REX's when it wrote. They also tell
    the two hours apart that share a name at the end of summer time; in between, the order of the rows does.
    """

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._minutes: dict[str, tuple[int, ...]] = {}
        self.elsewhere = 0
        """Jobs whose own times did not fit the zone."""

    def utc(self, events: Sequence[Event], submit_time: int, end_time: int) -> tuple[TimedEvent, ...]:
        """Each event once, in the order of the rows, with its time in UTC seconds; what is no time stays a text."""
        found: list[TimedEvent] = []
        for key, text in events:
            minutes = self._minutes.get(text[:16]) or self._utc_minutes(text[:16])
            second = _SECONDS.get(text[16:])
            if len(minutes) != 1 or second is None:
                break
            found.append((key, minutes[0] + second))
        else:
            # The job's own times, as far as it has these events.
            accepted = next((when for key, when in found if key == "ACCEPTED"), submit_time)
            finished = next((when for key, when in reversed(found) if key == "FINISHED"), end_time)
            if (not submit_time or accepted == submit_time) and (not end_time or finished == end_time):
                return tuple(dict.fromkeys(found))
        return tuple(dict.fromkeys(self._one_by_one(events, submit_time, end_time)))

    def _utc_minutes(self, minute: str) -> tuple[int, ...]:
        """What a local ``YYYY-MM-DD hh:mm`` is in UTC: two instants in the hour that comes twice, none for no time."""
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
        """The slow way: each event is the earliest instant it can be that is not before the one it follows."""
        # The first ACCEPTED and the last FINISHED, with the instants that they are.
        accepted = [event for event in events if event[0] == "ACCEPTED"][:1]
        finished = [event for event in events if event[0] == "FINISHED"][-1:]
        known = [(event, submit_time) for event in accepted] + [(event, end_time) for event in finished]
        anchors = {event: instant for event, instant in known if instant > 0}
        # The offsets from UTC, in seconds, that the job's own times show: those that a zone may have.
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
            # Events that follow each other in the rows do so in time within: states, batch system, transfers.
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
    """``YYYY-MM-DD hh:mm:ss`` taken for UTC, in seconds since 1970."""
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
