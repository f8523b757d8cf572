"""The table of precedence, walked with the writers themselves: whatever the order, the source that it names holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations

import pytest
from campaigns import sample

from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records import recorder
from arcacct.records.enrichment import (
    ARC,
    AREX,
    CONFIGURED,
    DEFAULT,
    EVENTS,
    FEATURES,
    OF_AREX,
    PRECEDENCE,
    SOURCES,
    UNASKED,
    enrich,
    kept_as,
    present,
)
from arcacct.records.model import Job
from arcacct.records.recorder import INFO_KEYS
from arcacct.records.row_mapping import COLUMNS, Numbers
from arcacct.records.states import OF_RUNS, StateChange, Usage
from arcacct.records.texts import event_time
from arcacct.records.writer import JobWriter
from arcacct.sources.features.collect import take_features

JOB = "job1"
END = 1_780_000_000
SITE_BENCHMARK = "HEPSPEC:1.0"
RECORDS = PRECEDENCE[0].order
WALKED = [row for row in PRECEDENCE[1:] if not {*row.fields} & {*EVENTS}]


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


def value(field: str, source: str) -> int | str:
    """What a source says of a field: each something else."""
    rank = list(SOURCES).index(source)
    if field in COLUMNS:
        return 100_000 * (rank + 2)
    if field == "benchmark":
        return SITE_BENCHMARK if source == DEFAULT else f"HEPSPEC:{rank + 10}.0"
    return f"told-by-{source}"


def own(con: sqlite3.Connection, source: str, field: str | None, label: str | None = None) -> None:
    """The record's own source writes the job; of the field ``None`` it knows nothing. ``label``: whose value it is."""
    told = {} if field is None else {field: value(field, label or source)}
    if source == ARC:
        record(con, told)
        return
    labels = () if label is None or field is None else ((field, label),)
    names = {name: (text,) if name == "node_names" else text for name, text in told.items()}
    job = Job(JOB, "completed", END - 1000, END, field_sources=labels, **names)
    JobWriter(con, source, "somewhere").write([job])


def record(con: sqlite3.Connection, told: dict[str, int | str]) -> None:
    """The control files of the finished job, as a sweep reads them."""
    facts = StateChange(JOB, "FINISHED", END * 10**9, None)
    facts.known, facts.submit_time = True, END - 1000
    facts.default_benchmark = facts.extra["benchmark"] = SITE_BENCHMARK
    usage = facts.usage = Usage()
    usage.end_time = END
    for field, one in told.items():
        if field in COLUMNS:
            setattr(usage, field, one)
        else:
            facts.extra[INFO_KEYS[field]] = str(one)
            facts.benchmarks = (str(one),) * 2 if field == "benchmark" else ()
    recorder.record(con, facts, present=True)


def other(con: sqlite3.Connection, source: str, field: str) -> None:
    """Another source tells of the record."""
    told = value(field, source)
    if source == FEATURES and field == "benchmark":
        take_features(con, JOB, {"hs06_job": str(told).removeprefix("HEPSPEC:"), "allocated_cpu": "1"}, {})
    else:
        enrich(con, record_id(con), source, {field: told}, default_benchmark=SITE_BENCHMARK)


def record_id(con: sqlite3.Connection) -> int:
    return int(con.execute("SELECT RecordID FROM AAR").fetchone()[0])


def held(con: sqlite3.Connection, field: str) -> tuple[object, object]:
    """What the record says now, and from whom."""
    now = present(con, record_id(con))
    return str(now.values[field]).removesuffix(".0"), now.holders.get(field, now.source)


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Field, record's own source, and two that tell of the field, the stronger first: own may be one of them."""
    for row in WALKED:
        for field in row.fields:
            name = "mjf_key" if field == "mjf_*" else field
            for strong, weak in combinations(row.order, 2):
                for source in RECORDS:
                    outside = {strong, weak} - {source, *UNASKED}
                    # Each of two sources of records has the job, if it is A-REX's; else it is one of them alone.
                    if outside & {*OF_AREX} or ({strong, weak} & {*UNASKED} and (source in OF_AREX or not outside)):
                        continue
                    if source in OF_AREX or not outside & {*RECORDS}:
                        yield name, source, strong, weak


CASES = list(cases())


@pytest.mark.parametrize(("field", "source", "strong", "weak"), sample(CASES, 30))
@pytest.mark.parametrize("turned", [False, True], ids=["strong-first", "weak-first"])
def test_the_stronger_holds(con, field: str, source: str, strong: str, weak: str, turned: bool) -> None:
    """Told by two, in both orders, and by both once more: the first of the table is what the record says."""
    order = [weak, strong] if turned else [strong, weak]
    if source not in (strong, weak) and not {strong, weak} & {*UNASKED}:
        own(con, source, None)
    elif order[0] not in (source, *UNASKED):
        # The record is there before anything is told of it.
        own(con, source, None)

    def tell(speaker: str) -> None:
        if speaker == source:
            own(con, source, field)
        elif speaker in UNASKED:
            own(con, source, field, speaker)
        else:
            other(con, speaker, field)

    for speaker in order:
        tell(speaker)
    expected = (str(value(field, strong)).removesuffix(".0"), source if strong == source else kept_as(field, strong))
    assert held(con, field) == expected

    seq = con.execute("SELECT max(Seq) FROM FinishedLog").fetchone()
    for speaker in order:
        tell(speaker)
    assert held(con, field) == expected
    assert con.execute("SELECT max(Seq) FROM FinishedLog").fetchone() == seq


def test_the_walk_goes_over_the_whole_table() -> None:
    """Each field that more than one may tell, and each source of it but those of a record alone, was one of a pair."""
    walked = {(field, source) for field, _own, *pair in CASES for source in pair}
    expected = {(field, source) for row in WALKED if len(row.order) > 1 for field in row.fields for source in row.order}

    assert walked == expected
    assert {field for row in PRECEDENCE for field in row.fields} - {"auth_tokens", "mjf_*", *EVENTS} <= {*Job._fields}
    assert {*Numbers._fields, *INFO_KEYS} - {field for row in PRECEDENCE for field in row.fields} == {
        *("scratch_bytes", "stage_in_bytes", "stage_out_bytes"),
        *("client_host", "job_name", "local_user", "lrms"),
    }


@pytest.mark.parametrize("turned", [False, True], ids=["files-first", "database-first"])
def test_the_control_directory_and_the_database(con, turned: bool) -> None:
    """Of A-REX's two ways to tell of a job its files hold, whichever was first."""
    for source in (AREX, ARC) if turned else (ARC, AREX):
        own(con, source, "memory_kib")

    assert con.execute("SELECT UsedMemory FROM AAR").fetchall() == [(value("memory_kib", ARC),)]


def test_times_are_added_where_there_are_none(con) -> None:
    """Start and end in the batch system are events: the first that tells of them is believed."""
    own(con, ARC, None)
    for when in (END - 9, END - 8):
        enrich(con, record_id(con), "gridengine", {}, events=[("LRMSSTART", when)])

    assert con.execute("SELECT EventTime FROM JobEvents WHERE EventKey = 'LRMSSTART'").fetchall() == [
        (event_time(END - 9),)
    ]
    # Receivers get this time: the record was logged again, once.
    assert con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchall() == [(2,)]


def test_a_run_that_ended_otherwise_is_another(con) -> None:
    """A resumed job has another end: what others told of its former run is forgotten, and told again."""
    own(con, ARC, None)
    other(con, "gridengine", "memory_kib")
    facts = StateChange(JOB, "FINISHED", (END + 100) * 10**9, None)
    facts.known, facts.usage = True, Usage()
    facts.usage.end_time, facts.usage.memory_kib = END + 100, 7
    facts.extra["benchmark"] = facts.default_benchmark = SITE_BENCHMARK
    recorder.record(con, facts)
    other(con, "gridengine", "memory_kib")

    assert held(con, "memory_kib") == ("7", ARC)


def test_labels_of_arc_conf(con) -> None:
    """Whether of the queue or of the site, a benchmark of arc.conf is called so, as it always was."""
    own(con, "gridengine", "benchmark", DEFAULT)

    told = con.execute("SELECT Source FROM FieldSources WHERE Field = 'benchmark'").fetchall()
    assert told == [(CONFIGURED,)]


@pytest.mark.parametrize("source", [ARC, AREX])
def test_core_seconds_of_a_batch_system_go_with_its_wall_time(con, source: str) -> None:
    """They stay while the record's own source says nothing, and go when it has a wall time of its own."""
    told = {"wall_s": 2400, "core_count": 16, "coreseconds": "38408"}
    own(con, source, None)
    enrich(con, record_id(con), "pbs", told, marks={"wall_s": OF_RUNS})
    own(con, source, None)
    assert held(con, "coreseconds") == ("38408", "pbs")
    assert held(con, "wall_s") == ("2400", OF_RUNS)
    own(con, source, "wall_s")

    now = present(con, record_id(con))
    assert (now.values["wall_s"], now.values["core_count"]) == (value("wall_s", source), 16)
    assert "coreseconds" not in now.values
    assert now.holders == {"core_count": "pbs"}
    enrich(con, record_id(con), "pbs", told, marks={"wall_s": OF_RUNS})
    assert "coreseconds" not in present(con, record_id(con)).values
