"""APEL behind the messaging service: loader, summariser and the database of its server (apel 2 and 3)."""

from __future__ import annotations

import base64
import calendar
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple
from xml.dom import minidom
from xml.parsers.expat import ExpatError

from arcacct.sandbox.authority import Credential
from arcacct.sandbox.http_server import Arrival, Journal
from arcacct.sandbox.sgas import apel_duration_s, iso_instant
from arcacct.sandbox.smime import Crashed, MessageRejected, VerifiedMessage, accept
from arcacct.targets.apel import messages
from arcacct.targets.apel.messages import BENCHMARK_TYPES, JOB, rounded
from arcacct.targets.common import FUTURE_S, Form, Rule

# APEL's text messages: a header line, then records whose lines are ``key: value``, separated by ``%%`` (apel 3.1, 3.2).


JOBS, SUMMARIES, NORMALISED_SUMMARIES, SYNCS = "job_records", "summaries", "normalised_summaries", "sync_records"

Value = str | int | float | dict[str, float] | None


class LoadedRecord(NamedTuple):
    """A record and the table it goes to."""

    table: str
    values: dict[str, Value]


class _Family(NamedTuple):
    """The contents that a header announces: the table, the fields, and the checks of a whole record."""

    table: str
    rules: Mapping[str, Rule]
    checks: tuple[Callable[[dict[str, Value], float], None], ...] = ()


def read_text(text: str, now: float) -> list[LoadedRecord]:
    """
    The records of a message, judged at `now` (UTC seconds).

    MessageRejected or Crashed if one of them is bad: then none of them counts.
    """
    if not text:
        # The loader removes the first line without checking that there is one.
        raise Crashed("IndexError: an empty message")
    header, _, rest = text.partition("\n")
    kind, colon, version = map(str.strip, header.partition(":"))
    if not colon:
        raise MessageRejected(f"Header not recognised: {header}")
    if kind == "APEL-individual-job-message":
        family = _JOB_04 if version.strip(": ") == "v0.4" else _JOB
    elif kind == "APEL-sync-message":
        family = _Family(SYNCS, messages.SYNC)
    elif header.strip() in _EXACT:
        family = _EXACT[header.strip()]
    else:
        raise MessageRejected(f"Message type not recognised: {header}")
    return [_record(family, chunk, now) for chunk in rest.split("%%") if chunk.strip()]


def _record(family: _Family, chunk: str, now: float) -> LoadedRecord:
    texts: dict[str, str] = {}
    for line in chunk.splitlines():
        if not line.strip():
            continue
        key, colon, value = map(str.strip, line.partition(":"))
        if not colon:
            raise MessageRejected(f"A line without a colon: {line}")
        texts[key] = value
    values = read_fields(family.rules, texts)
    for check in family.checks:
        check(values, now)
    return LoadedRecord(family.table, values)


def read_fields(rules: Mapping[str, Rule], texts: dict[str, str]) -> dict[str, Value]:
    """
    The values of one record, by the names of its fields; text that is null becomes ``'None'``, as APEL stores it.

    The named fields come first, in the order of the record, then the omitted ones.

    Raises MessageRejected for an unknown field, a missing one, or a value that parser or database refuse.
    """
    unknown = next((name for name in texts if name not in rules), None)
    if unknown is not None:
        raise MessageRejected(f"Unknown field: {unknown}")
    values: dict[str, Value] = {}
    for name in dict.fromkeys((*texts, *rules)):
        rule, text = rules[name], texts.get(name)
        if rule.form is Form.IGNORED:
            continue
        if text is None or text.lower() in {"none", "null", ""}:
            # A missing dictionary of benchmarks is found later, with a worse result; an empty one is found here.
            if rule.needed or (rule.form is Form.BENCHMARK and text is not None):
                raise MessageRejected(f"Mandatory field {name} not specified.")
            values[name] = "None" if rule.form is Form.TEXT else None
        else:
            values[name] = _value(name, rule, text)
    return values


def benchmark(name: str, text: str) -> dict[str, float]:
    """``{TYPE: value, ...}``, braces optional, no quotes: the type APEL takes (lower case) with its value."""
    found: dict[str, str] = {}
    for part in text.strip().removeprefix("{").removesuffix("}").split(","):
        key, colon, value = map(str.strip, part.partition(":"))
        if not colon or key in found:
            raise MessageRejected(f"{name}: not a dictionary of benchmarks: {text}")
        found[key] = value
    lowered = {key.lower(): value for key, value in found.items()}
    chosen = next((kind for kind in BENCHMARK_TYPES if kind in lowered), None)
    if chosen is None:
        raise MessageRejected(f"{name}: no known benchmark in {text}")
    return {chosen: _number(name, lowered[chosen], float, "number")}


def one_benchmark(values: dict[str, Value], *names: str) -> None:
    """
    Put the value of a benchmark dictionary in place of it, and its type into ServiceLevelType, in lower case.

    The record is read from top to bottom: a ServiceLevelType below the dictionaries stays as it is, one above has to
    name their type in lower case. Raises MessageRejected for that, or if the dictionaries name different types.
    """
    types: set[str] = set()
    for name in names:
        chosen = values[name]
        if not isinstance(chosen, dict):
            # The loader reads the dictionary without checking that it exists.
            raise Crashed(f"KeyError: {name}")
        types.update(chosen)
        values[name] = next(iter(chosen.values()))
    given = values["ServiceLevelType"]
    order = list(values)
    if given != "None" and order.index("ServiceLevelType") < max(map(order.index, names)):
        types.add(str(given))
    if len(types) > 1:
        raise MessageRejected("Mixture of benchmark types detected")
    if given == "None":
        values["ServiceLevelType"] = types.pop()


def _value(name: str, rule: Rule, text: str) -> Value:
    if rule.form is Form.TEXT:
        if len(text) > rule.most:
            raise MessageRejected(f"Data too long for column {name}: {len(text)} characters of {rule.most}")
        return text
    if rule.form is Form.INTEGER:
        return int(_in_range(name, rule, _number(name, text, int, "integer")))
    if rule.form is Form.TIME:
        return _number(name, text, _seconds, "time")
    if rule.form is Form.BENCHMARK:
        return {kind: _in_range(name, rule, round(value, 3)) for kind, value in benchmark(name, text).items()}
    return _in_range(name, rule, round(_number(name, text, float, "number"), 3))


def _in_range(name: str, rule: Rule, value: float) -> float:
    if not rule.least <= value <= rule.most:
        raise MessageRejected(f"Out of range value for column {name}: {value}")
    return value


def _number(name: str, text: str, convert: Callable[[str], float], what: str) -> float:
    try:
        return convert(text)
    except ValueError as error:
        raise MessageRejected(f"{name}: {text!r} is no {what}") from error


def _seconds(text: str) -> int:
    return int(text) if text.lstrip("+-").isdecimal() else iso_instant(text)


def check_job(values: dict[str, Value], now: float) -> None:
    """Check APEL's rules for any job record, and set VO and missing counts as APEL does; raises MessageRejected."""
    start, end = int_of(values, "StartTime"), int_of(values, "EndTime")
    if end < start:
        raise MessageRejected("EndTime is before StartTime.")
    if end > now + FUTURE_S:
        raise MessageRejected("EndTime is more than two days in the future.")
    kind = values["ServiceLevelType"]
    if str(kind).lower() not in BENCHMARK_TYPES:
        raise MessageRejected(f"ScalingFactorUnit {kind} not valid")
    if values["FQAN"] != "None":
        derived = messages.derived(str(values["FQAN"]))
        values |= zip(("VO", "VOGroup", "VORole"), ("None" if one is None else one for one in derived), strict=True)
    for count in ("Processors", "NodeCount"):
        values[count] = values[count] or 0


def int_of(values: dict[str, Value], name: str) -> int:
    """A whole number which the record is known to have."""
    value = values[name]
    assert isinstance(value, int | float)
    return int(value)


def _job(values: dict[str, Value], _now: float) -> None:
    if values["ServiceLevelType"] == "None" and values["ServiceLevel"] is None:
        values["ServiceLevelType"], values["ServiceLevel"] = "custom", 1.0
    if values["ServiceLevel"] is None:
        raise MessageRejected("ServiceLevelType without ServiceLevel")


def _level(values: dict[str, Value], _now: float) -> None:
    one_benchmark(values, "ServiceLevel")
    values["ServiceLevel"] = round(float(str(values["ServiceLevel"])), 3)


def _month(values: dict[str, Value], now: float) -> None:
    month, year = int_of(values, "Month"), int_of(values, "Year")
    try:
        begin = calendar.timegm(dt.date(year, month, 1).timetuple())
    except OverflowError as error:
        raise Crashed(f"OverflowError: Month {month} of year {year}") from error
    except ValueError as error:
        raise MessageRejected(f"Month {month} of year {year}") from error
    if begin > now:
        raise MessageRejected("The month begins in the future.")
    end = calendar.timegm((year + month // 12, month % 12 + 1, 1, 0, 0, 0))
    earliest, latest = values["EarliestEndTime"], values["LatestEndTime"]
    for instant in (earliest, latest):
        if isinstance(instant, int) and not begin <= instant <= end:
            raise MessageRejected("EarliestEndTime or LatestEndTime outside the month")
    if isinstance(earliest, int) and isinstance(latest, int) and earliest > latest:
        raise MessageRejected("EarliestEndTime is after LatestEndTime.")


def _normalised(values: dict[str, Value], _now: float) -> None:
    names = ("NormalisedWallDuration", "NormalisedCpuDuration")
    one_benchmark(values, *names)
    for name in names:
        values[name] = int_of(values, name)


_JOB = _Family(JOBS, messages.JOB, (_job, check_job))
_JOB_04 = _Family(JOBS, messages.JOB_04, (_level, check_job))
# These need their blank and their exact version.
_EXACT = {
    "APEL-summary-job-message: v0.2": _Family(SUMMARIES, messages.SUMMARY, (_month,)),
    "APEL-summary-job-message: v0.3": _Family(NORMALISED_SUMMARIES, messages.NORMALISED, (_month,)),
    "APEL-summary-job-message: v0.4": _Family(SUMMARIES, messages.SUMMARY_04, (_level, _month)),
    "APEL-normalised-summary-message: v0.4": _Family(
        NORMALISED_SUMMARIES, messages.NORMALISED_04, (_normalised, _month)
    ),
}


# EMI compute accounting records as APEL's server reads them (sgas-ur-car 2c).  Elements are found by name in their
# namespace at any depth, the first of each counts; attributes only with the namespace. Memory, the record's identity
# and everything about status are ignored.


CAR = "http://eu-emi.eu/namespaces/2012/11/computerecord"
_TEXTS = (
    *("Site", "SubmitHost", "MachineName", "Queue", "LocalJobId", "LocalUserId", "GlobalUserName"),
    *("Processors", "NodeCount"),
)
_GROUP_ATTRIBUTES = {"FQAN": "FQAN", "VOGroup": "group", "VORole": "role"}
AUR = "http://eu-emi.eu/namespaces/2012/11/aggregatedcomputerecord"


def read_car(text: str, now: float) -> list[LoadedRecord]:
    """The job records of an XML message at `now`; MessageRejected if one of them is bad, or if it is no CAR."""
    try:
        document = minidom.parseString(text.encode())  # noqa: S318  only what this machine's own publisher sends
    except ExpatError as error:
        raise MessageRejected(f"XML not well-formed: {error}") from error
    # The first node, not the root: a comment before the root hides it from APEL.
    namespace = getattr(document.firstChild, "namespaceURI", None)
    if namespace == AUR:
        raise MessageRejected("Aggregated usage record not yet supported.")
    if namespace != CAR:
        raise MessageRejected("XML format not recognised.")
    records = document.getElementsByTagNameNS(CAR, "UsageRecord")
    if not records:
        raise MessageRejected("No usage record in the message")
    return [_car_record(record, now) for record in records]


def _car_record(record: minidom.Element, now: float) -> LoadedRecord:
    level = next(_elements(record, "ServiceLevel"), None)
    infrastructure = next(_elements(record, "Infrastructure"), None)
    groups = list(_elements(record, "GroupAttribute"))
    texts = {
        **{name: _text(record, name) for name in _TEXTS},
        **{name: _converted(_text(record, name), iso_instant) for name in ("StartTime", "EndTime")},
        "VO": _text(record, "Group"),
        **{
            name: next((_content(one) for one in groups if _attribute(one, "type") == kind), None)
            for name, kind in _GROUP_ATTRIBUTES.items()
        },
        "WallDuration": _converted(_text(record, "WallDuration"), apel_duration_s),
        "CpuDuration": _converted(_cpu(record), apel_duration_s),
        "InfrastructureDescription": _attribute(infrastructure, "description"),
        "InfrastructureType": _attribute(infrastructure, "type"),
        # Without any ServiceLevel the record counts as one of a custom unit, which the next check refuses.
        "ServiceLevelType": "custom" if level is None else _attribute(level, "type"),
        "ServiceLevel": "1" if level is None else _content(level),
    }
    values = read_fields(JOB, {name: text for name, text in texts.items() if text is not None})
    if values["ServiceLevel"] is None or values["ServiceLevelType"] == "None":
        raise MessageRejected("ServiceLevel without value or type")
    check_job(values, now)
    return LoadedRecord(JOBS, values)


def _cpu(record: minidom.Element) -> str | None:
    durations = list(_elements(record, "CpuDuration"))
    total = [one for one in durations if _attribute(one, "usageType") == "all"]
    if len(total) > 1:
        raise MessageRejected("Mandatory field CpuDuration not specified.")
    return _content((total or durations)[0]) if durations else None


def _converted(text: str | None, convert: Callable[[str], int]) -> str | None:
    try:
        return None if not text else str(convert(text))
    except ValueError as error:
        raise MessageRejected(str(error)) from error


def _text(record: minidom.Element, name: str) -> str | None:
    return next((_content(element) for element in _elements(record, name)), None)


def _elements(record: minidom.Element, name: str) -> Iterator[minidom.Element]:
    return iter(record.getElementsByTagNameNS(CAR, name))


def _attribute(element: minidom.Element | None, name: str) -> str | None:
    return None if element is None else element.getAttributeNS(CAR, name) or None


def _content(element: minidom.Element) -> str:
    return "".join(node.data for node in element.childNodes if isinstance(node, minidom.Text)).strip()


# How APEL's server makes the portal's table from its tables, in the three steps of its summariser. Each step replaces
# rows of one table by their key, and none deletes. So a later step has priority, and a row stays until a run replaces
# it.


Row = dict[str, "Value"]
Key = tuple["Value", ...]

NAMES = ("Site", "GlobalUserName", "VO", "VORole", "VOGroup", "SubmitHost")
"""Columns whose texts the database stores once, in their first spelling: later spellings change nothing."""
WHOSE = ("Site", "Month", "Year", *NAMES[1:])
SIZE = ("NodeCount", "Processors")
HYBRID_KEY = (*WHOSE, "Infrastructure", "ServiceLevelType", "ServiceLevel", *SIZE)
"""The columns by which rows of the portal's table are replaced."""

_JOB_GROUP = (*NAMES, "InfrastructureType", "ServiceLevelType", "ServiceLevel", *SIZE)
"""The columns by which job records are summed, besides the month of their end."""
_SUMMED = ("WallDuration", "CpuDuration", "NumberOfJobs")
_COPIED = (*WHOSE, "ServiceLevelType", *SIZE, "EarliestEndTime", "LatestEndTime", *_SUMMED)
_SHOWN = ("NumberOfJobs", "WallDuration", "CpuDuration", "NormalisedWallDuration", "NormalisedCpuDuration")
"""In the order of `PortalTotals`."""
_SI2K_PER_HEPSPEC = 250
_LEVEL_DECIMALS = 1000
"""Service levels are stored with three decimals."""


class PortalTotals(NamedTuple):
    """The data of the portal about a site's month, or about more."""

    jobs: int = 0
    wall_s: int = 0
    cpu_s: int = 0
    normalised_wall_s: int = 0
    """Seconds times the benchmark (HEPSPEC06 or HEPscore23)."""
    normalised_cpu_s: int = 0


def folded(values: Row, columns: Iterable[str]) -> Key:
    """Return the columns' values as MySQL compares them: case and trailing blanks do not count."""
    parts = (values[column] for column in columns)
    return tuple(part.casefold().rstrip() if isinstance(part, str) else part for part in parts)


def hybrid_rows(job_records: Iterable[Row], summaries: Iterable[Row], normalised: Iterable[Row]) -> Iterator[Row]:
    """Return the rows that one run puts into the portal's table, in its order; see `HYBRID_KEY`."""
    yield from map(_normalised_row, _jobs_summed(job_records))
    yield from map(_normalised_row, summaries)
    # A normalised summary arrives complete, and has no service level: 0.
    came = (*_COPIED, "Infrastructure", "NormalisedWallDuration", "NormalisedCpuDuration")
    for row in normalised:
        yield {**{column: row[column] for column in came}, "ServiceLevel": 0.0}


def totals(hybrid: Iterable[Row]) -> dict[tuple[str, int, int], PortalTotals]:
    """Sums of the portal's table by (site, year, month), in this order."""
    found: dict[tuple[str, int, int], PortalTotals] = {}
    for row in hybrid:
        month = (str(row["Site"]), int_of(row, "Year"), int_of(row, "Month"))
        usage = PortalTotals(*(int_of(row, name) for name in _SHOWN))
        found[month] = PortalTotals(*map(sum, zip(found.get(month, PortalTotals()), usage, strict=True)))
    return dict(sorted(found.items()))


def _jobs_summed(job_records: Iterable[Row]) -> Iterator[Row]:
    """Job records as summaries, a row for each key."""
    columns = ("Month", "Year", *_JOB_GROUP)
    groups: dict[Key, Row] = {}
    for record in job_records:
        end_time = int_of(record, "EndTime")
        year, month, *_ = time.gmtime(end_time)
        own: Row = {"Year": year, "Month": month, "EarliestEndTime": end_time, "LatestEndTime": end_time}
        job = {**record, **own, "NumberOfJobs": 1}
        group = groups.setdefault(folded(job, columns), job)
        if group is not job:
            for column in _SUMMED:
                group[column] = int_of(group, column) + int_of(job, column)
            group["EarliestEndTime"] = min(int_of(group, "EarliestEndTime"), end_time)
            group["LatestEndTime"] = max(int_of(group, "LatestEndTime"), end_time)
    return iter(groups.values())


def _normalised_row(summary: Row) -> Row:
    """A row of a summary, its durations times its service level."""
    level = round(float(str(summary["ServiceLevel"])) * _LEVEL_DECIMALS)
    si2k = str(summary["ServiceLevelType"]).casefold() == "si2k"
    divisor = _LEVEL_DECIMALS * (_SI2K_PER_HEPSPEC if si2k else 1)
    own: Row = {
        "Infrastructure": summary["InfrastructureType"],
        "ServiceLevel": summary["ServiceLevel"],
        "NormalisedWallDuration": rounded(int_of(summary, "WallDuration") * level, divisor),
        "NormalisedCpuDuration": rounded(int_of(summary, "CpuDuration") * level, divisor),
    }
    return {**{column: summary[column] for column in _COPIED}, **own}


# APEL behind the messaging service: SSM, the loader, the summariser and the server's database (apel 2 and 3).  A
# message is loaded whole or not at all, and a record replaces the one with its key. The sender does not learn of a
# rejection, so neither does the publisher here: see `rejected`. The portal's data is in `hybrid`.


HYBRID = "hybrid"
KEYS = {
    JOBS: ("Site", "LocalJobId", "EndTime"),
    SUMMARIES: (*WHOSE, "InfrastructureType", "ServiceLevelType", "ServiceLevel", *SIZE),
    NORMALISED_SUMMARIES: (*WHOSE, "Infrastructure", *SIZE, "ServiceLevelType"),
    SYNCS: ("Site", "SubmitHost", "Month", "Year"),
    HYBRID: HYBRID_KEY,
}
"""The columns by which a table's rows are replaced (apel 3.6)."""

Table = dict[Key, Row]


class Rejection(NamedTuple):
    """A message that was not loaded."""

    reason: str
    empaid: str | None
    file: str


class APEL:
    """The receiver with its tables, each row by the columns of `KEYS` (letters' case and trailing blanks apart)."""

    def __init__(self, journal: Journal, ca_dir: str) -> None:
        self.journal = journal
        self.ca_dir = ca_dir
        self.allowed_dns: set[str] | None = set()
        """Slash DNs that may send; None: every certificate of a known authority."""
        self.credential: Credential | None = None
        """The certificate for encrypted messages, with its key; None: none can be read."""
        self.rejected: list[Rejection] = []
        self.stopped: Rejection | None = None
        """The message that stopped the receiver: it is delivered again and again, and later ones wait."""
        self.waiting: list[str] = []
        """Files of messages after the one that stopped the receiver."""
        self.received: list[VerifiedMessage] = []
        self._tables: dict[str, Table] = {table: {} for table in KEYS}
        self.summarises_each_message = True
        """Whether the summariser runs after each message; if not, only when its result is needed."""
        self._spelt: dict[tuple[str, Key], Value] = {}
        self._lock = threading.RLock()

    @property
    def job_records(self) -> Table:
        """Jobs by (Site, LocalJobId, EndTime)."""
        return self._table(JOBS)

    @property
    def summaries(self) -> Table:
        """Months of v0.2 and v0.4 summaries."""
        return self._table(SUMMARIES)

    @property
    def normalised_summaries(self) -> Table:
        """Months of v0.3 summaries and of normalised v0.4 ones."""
        return self._table(NORMALISED_SUMMARIES)

    @property
    def sync_records(self) -> Table:
        """Counts of jobs by (Site, SubmitHost, Month, Year)."""
        return self._table(SYNCS)

    @property
    def hybrid(self) -> Table:
        """
        Return the portal's rows by `HYBRID_KEY`, after another run of the summariser.

        The real one runs about once a day. A group of jobs that loses its last record keeps the sum of the last run.
        """
        self.summarise()
        return self._table(HYBRID)

    def summarise(self) -> None:
        """Run the summariser: SummariseJobs, NormaliseSummaries, CopyNormalisedSummaries; nothing is ever deleted."""
        with self._lock:
            sources = (self._tables[table].values() for table in (JOBS, SUMMARIES, NORMALISED_SUMMARIES))
            for row in hybrid_rows(*sources):
                self._tables[HYBRID][key(LoadedRecord(HYBRID, row))] = row

    def totals(self) -> dict[tuple[str, int, int], PortalTotals]:
        """Return the portal's data, summed by (site, year, month); see `hybrid`."""
        return totals(self.hybrid.values())

    def receive(self, data: str, empaid: str | None) -> Arrival:
        """A message from the service, base64 as it was published: kept, verified, loaded."""
        with self._lock:
            number = self.journal.number("apel")
            try:
                message = base64.b64decode(data, validate=True)
            except ValueError as error:
                file = self.journal.keep("apel", f"{number}.smime", data.encode())
                return self._reject(Rejection(f"not base64: {error}", empaid, file))
            file = self.journal.keep("apel", f"{number}.smime", message)
            if self.stopped is not None:
                self.waiting.append(file)
                return Arrival("apel", None, file, f"waits: the receiver stopped at {self.stopped.file}")
            return self._take(message, number, empaid, file)

    def _take(self, message: bytes, number: str, empaid: str | None, file: str) -> Arrival:
        """Through SSM and into the tables, or to the rejected ones."""
        try:
            accepted = accept(message, self.ca_dir, self.allowed_dns, self.credential)
            suffix = "xml" if accepted.text.startswith("<") else "txt"
            self.journal.keep("apel", f"{number}.{suffix}", accepted.text.encode())
            self.received.append(accepted)
            records = read(accepted.text)
        except MessageRejected as refusal:
            return self._reject(Rejection(str(refusal), empaid, file))
        except Crashed as crash:
            self.stopped = Rejection(f"the receiver stopped: {crash}", empaid, file)
            return self._reject(self.stopped)
        self.load(records)
        return Arrival("apel", len(records), file, "loaded")

    def load(self, records: Iterable[LoadedRecord]) -> None:
        """Put the records of a message into their tables; each replaces the row that has its key."""
        with self._lock:
            rows = [(record.table, key(record), self._as_spelt(record.values)) for record in records]
            jobs = self._tables[JOBS]
            # The time of the summariser's run matters only for a group that a job record leaves.
            if self.summarises_each_message and any(
                table == JOBS and own in jobs and folded(jobs[own], _JOB_GROUP) != folded(row, _JOB_GROUP)
                for table, own, row in rows
            ):
                self.summarise()
            for table, own, row in rows:
                self._tables[table][own] = row

    def _as_spelt(self, row: Row) -> Row:
        names = [name for name in NAMES if name in row]
        return {**row, **{name: self._spelt.setdefault((name, folded(row, (name,))), row[name]) for name in names}}

    def _reject(self, rejection: Rejection) -> Arrival:
        self.rejected.append(rejection)
        return Arrival("apel", None, rejection.file, f"rejected: {rejection.reason}")

    def _table(self, name: str) -> Table:
        with self._lock:
            return dict(self._tables[name])


def read(text: str, now: float | None = None) -> list[LoadedRecord]:
    """The records of a message, XML or text, all good at `now` (UTC; None: now); else MessageRejected or Crashed."""
    at = time.time() if now is None else now
    return read_car(text, at) if text.startswith("<") else read_text(text, at)


def key(record: LoadedRecord) -> Key:
    """Return the key of a record in its table, in MySQL's comparison: case and trailing blanks do not count."""
    return folded(record.values, KEYS[record.table])
