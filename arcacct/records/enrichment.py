"""The precedence of sources for each value of a job, and the values that other sources add to a record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.records.batch_systems import BATCH_SYSTEMS
from arcacct.records.holds import judge
from arcacct.records.recorder import INFO_KEYS
from arcacct.records.row_mapping import COLUMNS, INFO_FIELDS, NOTHING_TOLD, NUMBERS, Numbers
from arcacct.records.states import CORE_SECONDS, DERIVED, MEASURED, OF_RUNS, UNKNOWN
from arcacct.records.texts import escaped, event_time, unescaped
from arcacct.resources import Accelerators

# One table with the sources that may give each value of a job, the strongest first.
#
# The result does not depend on the order of imports. An unknown value is taken from any source. A source may always
# correct its own value. `FieldSources` has the source of each value that is not from the record's own source.


ARC = "arc"
AREX = "arex"
SACCT = BATCH_SYSTEMS["slurm"].source
SLURM = "slurm"
SAMPLES = "sonar"
FEATURES = "features"
CONFIGURED = "arc.conf"
DEFAULT = "default"

SOURCES = {
    ARC: "A-REX's control directory",
    AREX: "A-REX's own database",
    **{one.source: one.accounting for one in BATCH_SYSTEMS.values()},
    SLURM: "Sonar's data on Slurm's jobs",
    SAMPLES: "Sonar's data on processes and nodes",
    FEATURES: "machine/job features",
    CONFIGURED: "the benchmark of [queue:NAME] of arc.conf",
    DEFAULT: "the benchmark of [lrms] of arc.conf; a count or a wall time that is a guess",
    DERIVED: "a wall time from the start and end of the run in the batch system (`missing_wall_time=lrms`)",
    OF_RUNS: "calculated from the runs of a job: a wall time from core seconds, or the CPU time of only some runs",
}
"""Sources of records (column ``source`` of v1_jobs; RecordSources) and of single values (FieldSources)."""
PROGRAMS = {one.source: one.title for one in BATCH_SYSTEMS.values()}
PROGRAMS |= {SLURM: "Slurm", SAMPLES: "Sonar", FEATURES: "features"}
"""The titles of the sources that measure values that A-REX may have measured, too."""
OF_AREX = (ARC, AREX)
"""The sources of A-REX's jobs."""
UNASKED = (CONFIGURED, DEFAULT)
"""Not measured: a record's own source uses these in place of an unknown value, and may revoke them."""


class Precedence(NamedTuple):
    """The sources that may give some values, the strongest first, and the reason."""

    fields: tuple[str, ...]
    """Fields of a `Job`; ``mjf_*`` means keys of features that the specification does not have."""
    order: tuple[str, ...]
    reason: str


_RECORDS = (ARC, AREX, *(one.source for one in BATCH_SYSTEMS.values()), SLURM)

PRECEDENCE = (
    Precedence(
        ("user_dn", "vo", "auth_tokens", "queue", "endpoint_type", "endpoint_url", "submit_time", "status", "end_time"),
        _RECORDS,
        "Only the record's own source has these: a batch system knows no credential, and its times are those of its own"
        " part of the job.",
    ),
    Precedence(
        ("exit_code", "node_count", "core_count", "virtual_memory_kib"),
        _RECORDS,
        "ARC would have published A-REX's measured values; the batch system fills in values that A-REX's backend"
        " drops or cannot see. `import NAME --prefer-NAME` reverses the two, like `import slurm --prefer-slurm`.",
    ),
    Precedence(
        ("cpu_user_s", "cpu_kernel_s"),
        (*_RECORDS, OF_RUNS),
        "As the other measured values. If some runs of a job have none, the sum of the others is a lower bound.",
    ),
    Precedence(
        ("wall_s",),
        (*_RECORDS, OF_RUNS, DERIVED),
        "As the other measured values. If the runs of a job had different cores, it is their core seconds divided by"
        " the largest number of cores. Without a measurement, it may be the time between start and end of the run.",
    ),
    Precedence(
        ("memory_kib",),
        (*_RECORDS, SAMPLES),
        "As the other measured values; the largest sum over sampled processes is only a lower bound, but better than"
        " nothing.",
    ),
    Precedence(
        ("node_names", "project"),
        _RECORDS,
        "A-REX gets these from the batch system, so only missing values are filled in.",
    ),
    Precedence(
        ("lrms_start_time", "lrms_end_time"),
        _RECORDS,
        "The same; times are events of the job, so missing ones are added, and none is removed.",
    ),
    Precedence(
        ("benchmark",),
        (FEATURES, *_RECORDS, CONFIGURED, SAMPLES, DEFAULT),
        "Features describe the job's own slot; next are the job's own record and the site's setting for its queue."
        " The CPU models of its nodes (`node_benchmark`) are better than one benchmark for the whole site.",
    ),
    Precedence(
        ("system_software", "wn_instance"),
        (*_RECORDS, SAMPLES),
        "From the job's own record; otherwise the nodes as Sonar reported them when the job started.",
    ),
    Precedence(("mjf_*",), (FEATURES,), "No other source has them."),
)

_RANKS = {(field, source): rank for row in PRECEDENCE for field in row.fields for rank, source in enumerate(row.order)}
_NO_RANK = len(SOURCES)


def precedes(field: str, source: str, holder: str) -> bool:
    """Whether a source's value of a field replaces the value of another source, the ``holder``."""
    return _rank(field, source) < _rank(field, holder)


def _rank(field: str, source: str) -> tuple[int, str]:
    """
    Return the rank of a source for a field; lower is stronger.

    A source that is not in SOURCES is a batch system of another package, which may no longer be installed. It ranks
    directly after the built-in batch systems. Two such sources rank by name, so the order of imports does not matter.
    """
    known = "mjf_*" if field.startswith("mjf_") else field
    if source in SOURCES:
        return _RANKS.get((known, source), _NO_RANK), ""
    return _RANKS.get((known, SLURM), _NO_RANK), source


def kept_as(field: str, source: str) -> str:
    """Return a source as FieldSources has it: a queue's and the site's benchmark of arc.conf are both CONFIGURED."""
    return CONFIGURED if (field, source) == ("benchmark", DEFAULT) else source


# Values that other sources add to a record: taken by PRECEDENCE, and stored with their source.
#
# Values that are right already are not written, so the log shows no change.


Value = int | str
EVENTS = {"lrms_start_time": "LRMSSTART", "lrms_end_time": "LRMSEND"}
"""JobEvents.EventKey of the values that are kept there."""
_AMOUNTS = ("memory_kib", "virtual_memory_kib", "wall_s")
_SLACK = {"wall_s": 5, "cpu_user_s": 5, "cpu_kernel_s": 5, "memory_kib": 10_240, "virtual_memory_kib": 10_240}
"""A-REX cuts to seconds and samples differently: a difference below this (s, KiB), or below 5 %, is no conflict."""
_UNKNOWN_EXIT_CODE = 1


class Conflict(NamedTuple):
    """A value for which A-REX and another source have different measurements."""

    job_id: str
    field: str
    ours: Value
    theirs: Value
    source: str

    def __str__(self) -> str:
        """The text for a message."""
        theirs = f"{self.theirs} by {PROGRAMS.get(self.source, self.source)}"
        return f"{self.job_id}: {self.field} is {self.ours} by A-REX, {theirs}"


class Enriched(NamedTuple):
    """The result of `enrich`."""

    changed: bool
    conflicts: tuple[Conflict, ...]


class CurrentValues(NamedTuple):
    """The current values of a record, with their sources."""

    job_id: str
    source: str
    """The record's own: ARC, or that of RecordSources."""
    values: dict[str, Value]
    """By field of a `Job`; other values of JobExtraInfo by their key."""
    unmeasured: frozenset[str]
    """Numbers without a measurement."""
    unknown: frozenset[str]
    """The numbers that FieldSources marks as UNKNOWN."""
    holders: dict[str, str]
    """FieldSources: the sources, by field, of values that are not from the record's own source."""
    events: tuple[tuple[str, str], ...]
    """LRMSSTART and LRMSEND as they are stored."""

    def holder(self, field: str, default_benchmark: str | None = None) -> str | None:
        """Return the source of a value; ``None``: unmeasured. The benchmark of the whole site counts as DEFAULT."""
        if field not in self.values or field in self.unmeasured:
            return None
        holder = self.holders.get(field, self.source)
        is_default = field == "benchmark" and self.values[field] == default_benchmark
        return DEFAULT if is_default and holder in (self.source, *UNASKED) else holder


def present(con: Connection, record_id: int) -> CurrentValues:
    """Return the current values of a record, which must exist."""
    job_id, source, *numbers = con.execute(
        f"SELECT JobID, coalesce(Source, ?), {NUMBERS} FROM AAR LEFT JOIN RecordSources USING (RecordID)"
        " WHERE RecordID = ?",
        (ARC, record_id),
    ).fetchone()
    sources = con.execute("SELECT Field, Source FROM FieldSources WHERE RecordID = ?", (record_id,)).fetchall()
    unknown = frozenset(field for field, source in sources if source == UNKNOWN)
    holders = {field: source for field, source in sources if field not in unknown}
    values: dict[str, Value] = Numbers._make(numbers)._asdict()
    extra = con.execute(
        "SELECT InfoKey, InfoValue FROM JobExtraInfo WHERE RecordID = ? AND InfoValue <> '' ORDER BY rowid",
        (record_id,),
    ).fetchall()
    for key, value in extra:
        values.setdefault(INFO_FIELDS.get(key, key), unescaped(value))
    query = "SELECT EventKey, EventTime FROM JobEvents WHERE RecordID = ? AND EventKey IN ('LRMSSTART', 'LRMSEND')"
    events = tuple(con.execute(f"{query} ORDER BY rowid", (record_id,)).fetchall())
    told = unmeasured(
        Numbers._make(numbers),
        has_nodes="node_names" in values and "node_names" not in holders,
        has_end="LRMSEND" in dict(events) and "lrms_end_time" not in holders,
    )
    return CurrentValues(job_id, source, values, frozenset(unknown | told - holders.keys()), unknown, holders, events)


def measured_by(con: Connection, record_ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return, by RecordID and field of `MEASURED`, the sources of values that are not from the record's own source."""
    found: dict[int, dict[str, str]] = {}
    ids = ", ".join(map(str, record_ids))
    query = f"SELECT RecordID, Field, Source FROM FieldSources WHERE RecordID IN ({ids}) AND Field IN {MEASURED}"
    for record_id, field, source in con.execute(query):
        found.setdefault(record_id, {})[field] = source
    return found


def unmeasured(numbers: Numbers, *, has_nodes: bool, has_end: bool) -> set[str]:
    """
    Return the fields whose number A-REX writes without a measurement.

    These are zeros, one node and one core without a named node, and exit code 1 without an end in the batch system.
    """
    found = {field for field in _AMOUNTS if not getattr(numbers, field)}
    if not (numbers.cpu_user_s or numbers.cpu_kernel_s):
        found |= {"cpu_user_s", "cpu_kernel_s"}
    if not has_nodes:
        found |= {field for field in ("node_count", "core_count") if getattr(numbers, field) <= 1}
    if not has_end and numbers.exit_code == _UNKNOWN_EXIT_CODE:
        found.add("exit_code")
    return found


def enrich(
    con: Connection,
    record_id: int,
    source: str,
    told: Mapping[str, Value | None],
    *,
    events: Iterable[tuple[str, int | str]] = (),
    marks: Mapping[str, str] = MappingProxyType({}),
    default_benchmark: str | None = None,
    over_arex: bool = False,
    takes_back: bool = False,
) -> Enriched:
    """
    Add the values of another source to a record, by PRECEDENCE; inside the caller's transaction.

    `told`: values by field of a `Job` (node names joined by ":"), or by key of JobExtraInfo; ``None``: no value.
    ``events``: LRMSSTART and LRMSEND of these are added if the record lacks them. ``marks``: by field, OF_RUNS for
    values that the source calculated. Core seconds are taken only with the wall time and the cores that they belong to.
    ``default_benchmark``: the benchmark
    of a record without another one. ``over_arex``: the numbers also replace those that A-REX measured.
    ``takes_back``: a value that this source gave before, and that is ``None`` now, becomes unknown again.
    """
    now = present(con, record_id)
    gone = [field for field, value in told.items() if takes_back and value is None and now.holders.get(field) == source]
    _take_back(con, record_id, now, gone, default_benchmark)
    changes: dict[str, Value] = {}
    conflicts: list[Conflict] = []
    same: list[str] = []
    for field, value in told.items():
        if value is None or field == CORE_SECONDS:
            continue
        if value == now.values.get(field) and field not in now.unknown:
            same += [field] if now.holders.get(field) in (source, OF_RUNS) else []
            continue
        holder = now.holder(field, default_benchmark)
        is_turned_round = over_arex and holder in OF_AREX and field in COLUMNS
        if holder in (None, source) or is_turned_round or precedes(field, source, holder or ""):
            changes[field] = value
        elif holder in OF_AREX and isinstance(value, int) and not _agree(field, now.values[field], value):
            conflicts.append(Conflict(now.job_id, field, now.values[field], value, source))
    if CORE_SECONDS in told:
        exact, values = told[CORE_SECONDS], now.values | changes
        is_whole = "wall_s" in (*changes, *same) and all(values[one] == told[one] for one in ("wall_s", "core_count"))
        if is_whole and exact is not None and exact != now.values.get(CORE_SECONDS):
            changes[CORE_SECONDS] = exact
        elif CORE_SECONDS in now.holders and (exact is None or not is_whole):
            _take_back(con, record_id, now, [CORE_SECONDS], None)
            gone.append(CORE_SECONDS)
    _set(con, record_id, changes)
    fields = [*changes, *_add_missing_events(con, record_id, now, events)]
    set_holders(con, record_id, {field: marks.get(field, source) for field in (*fields, *same)})
    if fields or gone:
        judge(con, [record_id])
    return Enriched(bool(fields or gone), tuple(conflicts))


def _take_back(
    con: Connection, record_id: int, now: CurrentValues, fields: Iterable[str], default_benchmark: str | None
) -> None:
    """Make values that another source gave unknown again; the benchmark becomes the site's default."""
    for field in fields:
        con.execute("DELETE FROM FieldSources WHERE RecordID = ? AND Field = ?", (record_id, field))
        default = default_benchmark or None if field == "benchmark" else NOTHING_TOLD._asdict().get(field)
        _set(con, record_id, {field: default})
        if field == "benchmark" and default is not None and now.source not in OF_AREX:
            set_holders(con, record_id, {field: CONFIGURED})


def _agree(field: str, value: Value, other: int) -> bool:
    tolerance = 0.05 if field in _SLACK else 0.0
    return isinstance(value, int) and math.isclose(value, other, rel_tol=tolerance, abs_tol=_SLACK.get(field, 0))


def _set(con: Connection, record_id: int, changes: Mapping[str, Value | None]) -> None:
    """Set values of a record; ``None`` deletes a value of JobExtraInfo."""
    columns = {COLUMNS[field]: value for field, value in changes.items() if field in COLUMNS}
    if columns:
        assignments = ", ".join(f"{column} = ?" for column in columns)
        con.execute(f"UPDATE AAR SET {assignments} WHERE RecordID = ?", (*columns.values(), record_id))
    for field, value in changes.items():
        if field not in COLUMNS:
            key = INFO_KEYS.get(field, field)
            con.execute("DELETE FROM JobExtraInfo WHERE RecordID = ? AND InfoKey = ?", (record_id, key))
            if value is not None:
                con.execute("INSERT INTO JobExtraInfo VALUES (?, ?, ?)", (record_id, key, escaped(str(value))))


def rate(con: Connection, record_id: int, benchmark: str, source: str) -> None:
    """Give a record another benchmark, from the site's configuration; inside the caller's transaction."""
    _set(con, record_id, {"benchmark": benchmark})
    set_holders(con, record_id, {"benchmark": source})
    judge(con, [record_id])


def _add_missing_events(
    con: Connection, record_id: int, now: CurrentValues, events: Iterable[tuple[str, int | str]]
) -> list[str]:
    """Add the events that the record lacks, and log the record: receivers get these times. Returns their fields."""
    have = dict(now.events)
    missing = [(key, when) for key, when in events if key in EVENTS.values() and key not in have]
    con.executemany(
        "INSERT INTO JobEvents VALUES (?, ?, ?)",
        [(record_id, key, event_time(when) if isinstance(when, int) else when) for key, when in missing],
    )
    if missing:
        con.execute("DELETE FROM FinishedLog WHERE RecordID = ?", (record_id,))
        con.execute("INSERT INTO FinishedLog (RecordID) SELECT ? WHERE changes() > 0", (record_id,))
    return [field for field, key in EVENTS.items() if key in dict(missing)]


def set_holders(con: Connection, record_id: int, holders: Mapping[str, str]) -> None:
    """Store the sources of values of a record; ``holders``: sources by field."""
    con.executemany(
        "INSERT INTO FieldSources (RecordID, Field, Source) VALUES (?, ?, ?)"
        " ON CONFLICT (RecordID, Field) DO UPDATE SET Source = excluded.Source WHERE Source <> excluded.Source",
        [(record_id, field, kept_as(field, source)) for field, source in holders.items()],
    )


def set_accelerators(con: Connection, record_id: int, source: str, place: str, told: Accelerators | None) -> None:
    """
    Store a source's GPUs and energy of a record; ``None`` deletes them. Inside the caller's transaction.

    ``place``: the cluster, cell, schedd or server. The view KnownAccelerators has the precedence of sources.
    """
    key = (record_id, source)
    row = (*key, place, *told) if told is not None and any(value is not None for value in told) else None
    if row != con.execute("SELECT * FROM JobAccelerators WHERE (RecordID, Source) = (?, ?)", key).fetchone():
        con.execute("DELETE FROM JobAccelerators WHERE (RecordID, Source) = (?, ?)", key)
        if row is not None:
            con.execute(f"INSERT INTO JobAccelerators VALUES ({', '.join('?' * len(row))})", row)
