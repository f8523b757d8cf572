"""
Rows of APEL's tables, as exported by its administrator: the counted rows of all senders.

Both databases of a CE can be put back to one moment, a ledger can be lost with names of before: then only the receiver
knows every key. The columns are those of the views VJobRecords, VSummaries and VNormalisedSummaries (apel 2.5 to 3.6),
as the MySQL client prints them (tabs) or as CSV.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime

from arcacct.benchmark import parsed_benchmark
from arcacct.errors import InputError
from arcacct.publishing.batches import bare
from arcacct.publishing.ledger import COUNTS, SentRecord, SentSum
from arcacct.publishing.ledger_rows import Month
from arcacct.publishing.plugin import ReceiverRows
from arcacct.records.model import AAR
from arcacct.targets.apel.messages import JobKey, field, folded
from arcacct.targets.apel.summaries import SummaryKey, SyncKey, folded_key

_LONG = 255
_MOST_BYTES = 64_000_000
_NO_VALUES = {"", "NULL", "\\N", "None"}
_WHOSE = ("Site", "Month", "Year", "GlobalUserName", "VO", "VOGroup", "VORole", "SubmitHost")
_SIZE = ("NodeCount", "Processors", "NumberOfJobs")
_JOB_COLUMNS = ("Site", "SubmitHost", "LocalJobId", "EndTime", "WallDuration")
_SUMMARY_COLUMNS = (*_WHOSE, "ServiceLevelType", "ServiceLevel", *_SIZE)
_NORMALISED_COLUMNS = (*_WHOSE, "NormalisedWallDuration", *_SIZE)
Row = Mapping[str, str | None]
Parsed = tuple[Month, str, SentSum | tuple[AAR, SentRecord]]
"""The month of a row, the kind of messages that replaces it, and its key."""


def read(paths: Iterable[str], our_hosts: Set[str | None]) -> ReceiverRows:
    """
    The keys in files that count at APEL: of rows with jobs (of job records: wall time) under ``our_hosts``, folded.

    Rows of other SubmitHosts are another CE's and are counted only. Raises InputError for a file that cannot be read
    or has none of the three sets of columns, and for a row without a month or an end.
    """
    sums: dict[tuple[str, str], SentSum] = {}
    records: dict[str, tuple[AAR, SentRecord]] = {}
    others: Counter[str] = Counter()
    for path in paths:
        for row, ((year, month), kind, one) in _parsed(path):
            host = field(row["SubmitHost"], _LONG) or ""
            if folded(host) not in our_hosts:
                others[host] += 1
                continue
            if isinstance(one, SentSum):
                sums[kind, one.key] = one
            else:
                records[one[1].key] = one
            sync = json.dumps(SyncKey(folded(row["Site"]), folded(row["SubmitHost"]), year, month))
            sums[COUNTS, sync] = SentSum(sync, year, month, 1, is_adopted=1)
    return ReceiverRows(tuple((kind, one) for (kind, _key), one in sums.items()), tuple(records.values()), others)


def _parsed(path: str) -> Iterator[tuple[Row, Parsed]]:
    """The rows of a file that count."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if len(text) > _MOST_BYTES:
        raise InputError(f"{path}: longer than {_MOST_BYTES} characters; export one month at a time")
    lines = text.splitlines()
    reader = csv.DictReader(lines, delimiter="\t" if lines and "\t" in lines[0] else ",")
    try:
        parse = next((parse for needed, parse in _VIEWS if {*(reader.fieldnames or ())} >= {*needed}), None)
        if parse is None:
            raise InputError(
                f"{path}: the first line must name the columns of VSummaries ({', '.join(_SUMMARY_COLUMNS)}), of"
                f" VNormalisedSummaries (with NormalisedWallDuration), or of VJobRecords ({', '.join(_JOB_COLUMNS)})"
            )
        for raw in reader:
            row = {name: None if value is None or value in _NO_VALUES else value for name, value in raw.items() if name}
            found = parse(row)
            if found is not None:
                yield row, found
    except csv.Error as error:
        # It is counted once it is read.
        raise InputError(f"{path}, line {reader.line_num + 1}: {error}") from error
    except (KeyError, OSError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}") from error


def _job(row: Row) -> Parsed | None:
    if not _count(row, "WallDuration"):
        return None
    end = _seconds(row["EndTime"] or "")
    local_id = row["LocalJobId"]
    if local_id is None:
        raise ValueError("no LocalJobId")
    key = JobKey(folded(field(row["Site"], _LONG)) or "", folded(local_id) or "", end)
    vo, group, role = row.get("VO"), row.get("VOGroup"), row.get("VORole")
    fqan = row.get("FQAN") or "/".join(filter(None, (group, role)))
    # The other names have to stay: APEL's summariser never deletes a group, it would keep the sum of an empty one.
    aar = bare(local_id, end, local_id)._replace(
        endpoint_url=row["SubmitHost"],
        endpoint_type="",
        queue=row.get("Queue"),
        user_dn=row.get("GlobalUserName"),
        vo=vo,
        fqans=(fqan,) if fqan else (),
        benchmark=f"{row.get('ServiceLevelType')}:{row.get('ServiceLevel')}" if row.get("ServiceLevel") else None,
        node_count=_count(row, "NodeCount") if row.get("NodeCount") else 0,
        core_count=_count(row, "Processors") if row.get("Processors") else 0,
    )
    moment = datetime.fromtimestamp(end, UTC)
    return (moment.year, moment.month), "", (aar, SentRecord(local_id, 0, 0, end, b"", json.dumps(key)))


def _summary(row: Row) -> Parsed | None:
    benchmark = parsed_benchmark(f"{row['ServiceLevelType']}:{row['ServiceLevel']}")
    if benchmark is None:
        raise ValueError(f"ServiceLevel {row['ServiceLevelType']} {row['ServiceLevel']} is not a benchmark")
    infrastructure = row.get("InfrastructureType") or row.get("Infrastructure")
    return _sum(row, "Summaries", "summaries", (infrastructure, benchmark.type, benchmark.value))


def _normalised(row: Row) -> Parsed | None:
    kind = row.get("ServiceLevelType")
    infrastructure = row.get("Infrastructure") or row.get("InfrastructureType")
    return _sum(row, "NormalisedSummaries", "normalised-v04" if kind else "summaries-v03", (infrastructure, kind, None))


def _sum(row: Row, table: str, kind: str, rest: tuple[str | None, str | None, str | None]) -> Parsed | None:
    jobs = _count(row, "NumberOfJobs")
    if not jobs:
        return None
    month = _count(row, "Year"), _count(row, "Month")
    names = (field(row[name], _LONG) for name in _WHOSE[3:])
    size = _count(row, "NodeCount"), _count(row, "Processors")
    key = folded_key(SummaryKey._make((table, field(row["Site"], _LONG), *month, *names, *rest, *size)))
    return month, kind, SentSum(json.dumps(key), *month, jobs, site=row["Site"] or "", is_adopted=1)


_VIEWS: tuple[tuple[Sequence[str], Callable[[Row], Parsed | None]], ...] = (
    (_JOB_COLUMNS, _job),
    (_NORMALISED_COLUMNS, _normalised),
    (_SUMMARY_COLUMNS, _summary),
)


def _count(row: Row, name: str) -> int:
    value = row[name]
    if value is None or not value.strip().isdecimal():
        raise ValueError(f"{name} {value!r} is not a number")
    return int(value)


def _seconds(text: str) -> int:
    """UTC seconds of a number of seconds, or of a DATETIME as MySQL prints it, which APEL keeps in UTC."""
    if text.isdecimal():
        return int(text)
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
