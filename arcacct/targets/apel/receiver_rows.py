"""
Rows of APEL's tables, as exported by its administrator: the counted rows of all senders.

Both databases of a CE can be restored to one moment, or a ledger can be lost with former names: then only the receiver
knows every key. The columns are those of the views VJobRecords, VSummaries and VNormalisedSummaries (apel 2.5 to 3.6),
as `mysql --batch` prints them (tabs) or as CSV.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from datetime import UTC, datetime

from arcacct.errors import InputError
from arcacct.files.text_tables import batch_rows, csv_rows, read_text, unescaped
from arcacct.publishing.ledger import COUNTS, SentRecord, SentSum
from arcacct.publishing.plugin import ReceiverRows
from arcacct.targets.apel.messages import BENCHMARK_TYPES, LONG, JobKey, field, folded
from arcacct.targets.apel.summaries import SummaryKey, SyncKey, folded_key
from arcacct.times import Month

_MOST_BYTES = 64 * 2**20
_UNKNOWN = {"", "none", "null"}
"""APEL stores ``None`` for each of them; writers of CSV leave NULL empty, the MySQL client prints ``NULL``."""
_DECIMAL = re.compile(r"(-?[0-9]{1,7})(?:\.([0-9]{0,3})0*)?")
_DOUBLED = re.compile(r"\\\\x[0-9A-F]{2}")
_LONGEST_SHOWN = 80
_NAMES = ("GlobalUserName", "VO", "VOGroup", "VORole", "SubmitHost")
_GROUP = ("Site", *_NAMES, "InfrastructureType", "ServiceLevelType", "NodeCount", "Processors")
_JOB_COLUMNS = (*_GROUP, "ServiceLevel", "LocalJobId", "EndTime", "WallDuration", "CpuDuration")
_NORMALISED_COLUMNS = (*_GROUP, "Year", "Month", "NormalisedWallDuration", "NumberOfJobs")
_SUMMARY_COLUMNS = (*_GROUP, "ServiceLevel", "Year", "Month", "NumberOfJobs")


class _Row:
    """A row under a SubmitHost of ours. Each method raises InputError with file, line and column."""

    def __init__(self, place: str, cells: Mapping[str, str], decode: Callable[[str], str]) -> None:
        self._place = place
        self._cells = cells
        self._decode = decode
        self.unsendable = ""
        """The first name that no message can carry: a message with another spelling would create another key."""

    def wrong(self, column: str, why: str) -> InputError:
        return InputError(f"{self._place}, column {column}: {why}")

    def text(self, column: str) -> str | None:
        """Return a text as MySQL compares it, without blanks at the end; ``None``: unknown."""
        try:
            value = self._decode(self._cells[column]).rstrip(" ")
        except ValueError as error:
            raise self.wrong(column, str(error)) from None
        return None if value.lower() in _UNKNOWN else value

    def known(self, column: str) -> str:
        value = self.text(column)
        if value is None:
            raise self.wrong(column, "it is unknown")
        return value

    def name(self, column: str, among: Iterable[str] | None = None) -> str | None:
        """Return a name as it is sent; ``among``: the names that APEL accepts in messages, in upper or lower case."""
        value = self.text(column)
        sent = field(value, LONG)
        if sent != value or (among is not None and (value or "").lower() not in among):
            self.unsendable = self.unsendable or f"{self._place}, column {column}: {_shown(value)}"
        return sent

    def count(self, column: str) -> int:
        value = self.known(column)
        if not (value.isascii() and value.isdecimal() and len(value) < 20):
            raise self.wrong(column, f"{_shown(value)} is not a number")
        return int(value)

    def decimal(self, column: str) -> str:
        """Return a number in the form of our messages, without zeros at the end."""
        value = self.known(column)
        found = _DECIMAL.fullmatch(value)
        if found is None:
            raise self.wrong(column, f"{_shown(value)} is not a number with three decimals")
        fraction = (found[2] or "").rstrip("0")
        return f"{found[1]}.{fraction}" if fraction else found[1]

    def seconds(self, column: str) -> int:
        """Return UTC seconds of a number of seconds, or of a DATETIME as MySQL prints it, which APEL keeps in UTC."""
        value = self.known(column)
        try:
            if value.isascii() and value.isdecimal():
                datetime.fromtimestamp(int(value), UTC)
                return int(value)
            moment = datetime.fromisoformat(value)
        except (OSError, OverflowError, ValueError):
            moment = None
        if moment is None or moment.tzinfo is not None or moment.microsecond:
            raise self.wrong(column, f"{_shown(value)} is not a time such as 2026-11-03 07:00:10")
        return int(moment.replace(tzinfo=UTC).timestamp())


def _shown(value: str | None) -> str:
    return repr(value if value is None or len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}...")


_Parsed = tuple[Month, str, SentSum | SentRecord]
"""The month of a row; the kind of the message that replaces a sum; and what the receiver has."""


def read(paths: Iterable[str], our_hosts: Set[str | None]) -> ReceiverRows:
    """
    Return the keys in files that count at APEL: those of rows with jobs under ``our_hosts``, folded.

    A job record without times counts as a job, too. Rows of other SubmitHosts belong to another CE and are only
    counted, with any values. Raises InputError for a file that cannot be read or has none of the three sets of columns,
    and for a row of ours that cannot be read.
    """
    sums: dict[tuple[str, str], SentSum] = {}
    records: dict[str, SentRecord] = {}
    unsendable: list[tuple[Month, str]] = []
    others: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    for path in paths:
        for row, parse in _rows(path, our_hosts, others, unread):
            found = parse(row)
            if found is None:
                continue
            month, kind, there = found
            if row.unsendable:
                unsendable.append((month, row.unsendable))
                continue
            if isinstance(there, SentSum):
                sums[kind, there.key] = there
            else:
                records[there.key] = there
            sync = json.dumps(SyncKey(folded(row.text("Site")), folded(row.text("SubmitHost")), *month))
            sums[COUNTS, sync] = SentSum(sync, *month, 1, is_adopted=1)
    return ReceiverRows(
        tuple((kind, one) for (kind, _key), one in sums.items()), tuple(records.values()), others, unsendable, unread
    )


_Parser = Callable[[_Row], _Parsed | None]


def _rows(
    path: str, our_hosts: Set[str | None], others: Counter[str], unread: Counter[str]
) -> Iterator[tuple[_Row, _Parser]]:
    """The rows of ours in a file. Adds those of other CEs to ``others`` and ``unread``."""
    text = read_text(path, _MOST_BYTES, "export one month at a time", errors="surrogateescape")
    if not text:
        # The MySQL client prints no header if there are no rows.
        raise InputError(f"{path}: it is empty: no row matched, or the export failed; leave it out or export again")
    if "\t" in text.partition("\n")[0]:
        rows, decode = batch_rows(text), unescaped
    else:
        rows, decode = csv_rows(text), _not_escaped
    try:
        _first, header = next(rows, (1, []))
        # Only the view of normalised summaries has the first of these names.
        columns = ["InfrastructureType" if name == "Infrastructure" else name for name in header]
        needed, parse = next((view for view in _VIEWS if {*columns} >= {*view[0]}), ((), None))
        if parse is None:
            raise InputError(
                f"{path}: the first line must name the columns of VSummaries ({', '.join(_SUMMARY_COLUMNS)}), of"
                f" VNormalisedSummaries ({', '.join(_NORMALISED_COLUMNS)}), or of VJobRecords"
                f" ({', '.join(_JOB_COLUMNS)})"
            )
        twice = next((name for name in needed if columns.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{path}: the first line has the column {twice} twice")
        host_at = columns.index("SubmitHost")
        first = ""
        for line, cells in rows:
            place = f"{path}, line {line}"
            if len(cells) != len(columns):
                if not our_hosts.isdisjoint(folded(cell) for cell in cells if cell):
                    raise InputError(f"{place}: {len(cells)} cells instead of {len(columns)}")
                first = first or place
                unread[first] += 1
                continue
            host = cells[host_at]
            # None of our hosts has a backslash that is no escape.
            with suppress(ValueError):
                host = decode(host).rstrip(" ")
            host = "" if host.lower() in _UNKNOWN else host
            if folded(host) in our_hosts:
                yield _Row(place, dict(zip(columns, cells, strict=True)), decode), parse
            else:
                others[host] += 1
    except ValueError as error:
        raise InputError(f"{path}, {error}") from None


def _not_escaped(cell: str) -> str:
    """The text of a cell of CSV. Raises ValueError for a name of ours with an escape of another format."""
    found = _DOUBLED.search(cell)
    if found is not None:
        raise ValueError(f"{found[0]} has the escapes of `mysql --batch`; give its unchanged output, not CSV")
    return cell


def _job(row: _Row) -> _Parsed:
    end = row.seconds("EndTime")
    site, local_id = row.name("Site"), row.name("LocalJobId")
    if local_id is None:
        raise row.wrong("LocalJobId", "it is unknown")
    # In the order of `APELRecords.names`. Its former group would keep its sum: the summariser deletes none.
    names = (
        *(site, row.name("SubmitHost") or "", row.name("InfrastructureType")),
        *(row.name(column) for column in _NAMES[:-1]),
        *(row.name("ServiceLevelType", BENCHMARK_TYPES), row.decimal("ServiceLevel")),
        *(row.count("NodeCount"), row.count("Processors")),
    )
    key = json.dumps(JobKey(folded(site) or "", folded(local_id) or "", end))
    moment = datetime.fromtimestamp(end, UTC)
    return (moment.year, moment.month), "", SentRecord(local_id, 0, 0, end, b"", key, names=names)


def _summary(row: _Row) -> _Parsed | None:
    return _sum(row, "Summaries", "summaries", row.name("ServiceLevelType"), row.decimal("ServiceLevel"))


def _normalised(row: _Row) -> _Parsed | None:
    if row.text("ServiceLevelType") is None:
        return _sum(row, "NormalisedSummaries", "summaries-v03", None, None)
    benchmark_type = row.name("ServiceLevelType", BENCHMARK_TYPES)
    return _sum(row, "NormalisedSummaries", "normalised-v04", benchmark_type, None)


def _sum(row: _Row, table: str, kind: str, benchmark_type: str | None, value: str | None) -> _Parsed | None:
    jobs = row.count("NumberOfJobs")
    if not jobs:
        return None
    month = row.count("Year"), row.count("Month")
    names = (row.name(column) for column in (*_NAMES, "InfrastructureType"))
    size = row.count("NodeCount"), row.count("Processors")
    key = folded_key(SummaryKey._make([table, row.name("Site"), *month, *names, benchmark_type, value, *size]))
    return month, kind, SentSum(json.dumps(key), *month, jobs, site=row.text("Site") or "", is_adopted=1)


_VIEWS: tuple[tuple[tuple[str, ...], _Parser], ...] = (
    (_JOB_COLUMNS, _job),
    (_NORMALISED_COLUMNS, _normalised),
    (_SUMMARY_COLUMNS, _summary),
)
