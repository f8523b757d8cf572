"""
A record of the database that A-REX itself writes, as a whole job.

What differs from ours is put right: event times are local to A-REX there and UTC here; a resumed or restarted job has
all its children once more for each end; ARC 7 keeps the first FQAN and the benchmark in the record, not beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from arcacct.records.model import Job
from arcacct.records.row_mapping import ArexRows, Event, Row, as_job
from arcacct.records.states import FINAL, FQAN_KEYS, IN_PROGRESS

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
