"""Recording state changes: idempotent, in any order, one set of children, one entry in the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_files import DIAG, JOB, LOCAL, NOON_NS, NOON_S, STATISTICS, finished_log, rows

from arcacct.arex.control_files import JobFiles
from arcacct.arex.job_facts import job_facts
from arcacct.arex.reconcile import remembered_status_files
from arcacct.config.paths import VO, JobRules
from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records.enrichment import enrich
from arcacct.records.recorder import CORRECTION, NEW_END, NEW_EVENT, NEW_JOB, NOTHING, knows, record, record_present
from arcacct.records.states import StateChange, StatusFile
from arcacct.records.texts import escaped, event_time, unescaped

SECOND_NS = 10**9


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    """An empty accounting database."""
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


def event(
    state: str,
    after_s: float = 0,
    *,
    job_id: str = JOB,
    local: bytes | None = LOCAL,
    diag: bytes | None = DIAG,
    statistics: bytes | None = STATISTICS,
    failed: bool = False,
    hashed: bool = False,
    default: str = "HEPSPEC:11.11",
    rules: JobRules | None = None,
) -> StateChange:
    """The facts of a job that reached a state so many seconds after noon."""
    files = JobFiles("/control", job_id, state)
    files.event_ns = NOON_NS + int(after_s * SECOND_NS)
    files.status = StatusFile(state, len(state), files.event_ns, files.event_ns)
    files.local, files.failed, files.hashed = local, failed, hashed
    if state == "FINISHED":
        files.diag, files.statistics, files.owner = diag, statistics, "ada:atlas"
    return job_facts(files, rules or JobRules(default))


LIFE = (("ACCEPTED", 0), ("ACCEPTED", 0.5), ("PREPARING", 1), ("SUBMIT", 2), ("FINISHING", 30), ("FINISHED", 32))
"""A job as its hooks tell it, with seconds after noon."""


def whole_life(con: sqlite3.Connection) -> None:
    """Record every event of a job's life."""
    for state, after_s in LIFE:
        record(con, event(state, after_s))


def test_a_job_that_is_accepted_is_in_progress(con: sqlite3.Connection) -> None:
    """The first event makes the record as A-REX does: who and where, nothing measured, exit code 1."""
    assert record(con, event("ACCEPTED")) == NEW_JOB

    found = rows(con)
    assert found["AAR"] == [
        (JOB, "", "org.nordugrid.arcrest", "https://ce.example.org:443/arex", "main",
         "/DC=org/DC=example/CN=Ada Lovelace", "atlas", "in-progress", 1, NOON_S - 3600,
         0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
    ]  # fmt: skip
    assert found["AuthTokenAttributes"] == [(JOB, "mainfqan", "/atlas/Role=production"), (JOB, "vomsfqan", "/atlas")]
    assert found["JobEvents"] == [(JOB, "ACCEPTED", "2026-11-20 11:00:00")]
    assert finished_log(con) == []


def test_a_job_that_is_finished_has_everything(con: sqlite3.Connection) -> None:
    """The last event fills in status, usage and every child row."""
    whole_life(con)

    found = rows(con)
    assert found["AAR"] == [
        (JOB, "4711", "org.nordugrid.arcrest", "https://ce.example.org:443/arex", "main",
         "/DC=org/DC=example/CN=Ada Lovelace", "atlas", "completed", 0, NOON_S - 3600, NOON_S + 32, 2, 3, 86232, 86232,
         61, 59, 1, 0, 1000, 20)
    ]  # fmt: skip
    assert found["RunTimeEnvironments"] == [(JOB, "APPS/SCI-1.0"), (JOB, "ENV/PROXY")]
    assert [(url, size, kind) for _job, url, size, _start, _end, kind in found["DataTransfers"]] == [
        ("https://se.example.org/in", 1000, 10),
        ("https://se.example.org/old", 7, 11),
        ("https://se.example.org/out", 20, 20),
    ]
    assert [row[1:] for row in found["JobExtraInfo"]] == [
        ("benchmark", "HEPSPEC:12.26"),
        ("clienthost", "192.0.2.7:45678"),
        ("jobname", "first"),
        ("localuser", "ada:atlas"),
        ("lrms", "fork"),
        ("nodenames", "wn1:wn2:wn2"),
    ]
    assert [row[1] for row in found["JobEvents"]] == [
        "ACCEPTED", "DTRDOWNLOADEND", "DTRDOWNLOADSTART", "DTRUPLOADEND", "DTRUPLOADSTART", "FINISHED", "FINISHING",
        "LRMSEND", "LRMSSTART", "PREPARING", "SUBMIT",
    ]  # fmt: skip


def test_a_job_that_was_killed_before_arex_took_it_is_recorded(con: sqlite3.Connection) -> None:
    """The callout of the web service knows it, and its end: it failed and used nothing."""
    record(con, event("ACCEPTED"))
    record(con, event("FINISHED", 3, diag=None, statistics=None, failed=True))

    (found,) = rows(con)["AAR"]
    assert (found[7], found[8], found[13]) == ("failed", 1, 0)
    assert len(finished_log(con)) == 1


@pytest.mark.parametrize("position", range(len(LIFE)))
def test_the_same_event_twice_changes_nothing(con: sqlite3.Connection, position: int) -> None:
    """Every event of a job's life may come again, at once or at the end: not a row is written, nothing is logged."""
    for state, after_s in LIFE[: position + 1]:
        record(con, event(state, after_s))
    before, log = con.total_changes, finished_log(con)

    assert record(con, event(*LIFE[position])) == NOTHING
    assert (con.total_changes, finished_log(con)) == (before, log)

    for state, after_s in LIFE[position + 1 :]:
        record(con, event(state, after_s))
    before, log = con.total_changes, finished_log(con)

    assert record(con, event(*LIFE[position])) == NOTHING
    assert (con.total_changes, finished_log(con)) == (before, log)


def test_a_finished_job_is_logged_once(con: sqlite3.Connection) -> None:
    """Children first, the final status last: one entry in the log for each finished job."""
    whole_life(con)
    record(con, event("FINISHED", job_id="Other"))

    assert finished_log(con) == [(1, 1), (2, 2)]


OTHER_DIAG = b"nodename=wn9\nwalltime=5\nexitcode=0\nruntimeenvironments=APPS/SCI-2.0;\n"
RESUMED = (*LIFE[:-1], ("FINISHED", 32, True), ("PREPARING", 100), ("FINISHING", 110), ("FINISHED", 120, False))


def told(one: tuple[object, ...], local: bytes = LOCAL) -> StateChange:
    """An event of RESUMED: the job failed at first, was resumed, and ended well with other files."""
    state, after_s = str(one[0]), float(str(one[1]))
    later = after_s >= 100
    return event(
        state,
        after_s,
        local=local,
        failed=len(one) > 2 and bool(one[2]),
        diag=OTHER_DIAG if later else DIAG,
        statistics=b"" if later else STATISTICS,
    )


@settings(deadline=None)
@given(st.permutations(RESUMED), st.lists(st.sampled_from(RESUMED), max_size=4))
def test_events_in_any_order_end_in_the_same_rows(
    order: list[tuple[object, ...]], again: list[tuple[object, ...]]
) -> None:
    """However the events of a job that was resumed arrive, and however often, every row is as if they came in order."""
    with closing(in_memory(ACCOUNTING)) as straight, closing(in_memory(ACCOUNTING)) as shuffled:
        for one in RESUMED:
            record(straight, told(one))
        for one in (*order, *again):
            record(shuffled, told(one))

        assert rows(shuffled) == rows(straight)


@settings(deadline=None)
@given(st.permutations(RESUMED[:-1]))
def test_a_job_that_runs_again_keeps_its_last_end(order: list[tuple[object, ...]]) -> None:
    """Until a resumed job ends again, the record has its first end, also when that was told after the resumption."""
    with closing(in_memory(ACCOUNTING)) as con:
        for one in order:
            record(con, told(one))

        ((status, end_time),) = con.execute(
            "SELECT Status.Name, EndTime FROM AAR JOIN Status ON Status.ID = StatusID"
        ).fetchall()
        assert (status, end_time) == ("failed", NOON_S + 32)


def test_a_resumed_job_has_one_set_of_children(con: sqlite3.Connection) -> None:
    """What its last end says replaces the children of the first; its events are all kept."""
    for one in RESUMED:
        record(con, told(one))

    found = rows(con)
    assert found["RunTimeEnvironments"] == [(JOB, "APPS/SCI-2.0")]
    assert found["DataTransfers"] == []
    assert [row[2] for row in found["JobExtraInfo"] if row[1] == "nodenames"] == ["wn9"]
    assert [row[2] for row in found["JobEvents"] if row[1] == "FINISHED"] == [
        "2026-11-20 12:00:32",
        "2026-11-20 12:02:00",
    ]
    assert [(row[7], row[10], row[15]) for row in found["AAR"]] == [("completed", NOON_S + 120, 5)]
    # Logged at its first end; the new children and the new end moved the entry. One entry in all.
    assert len(finished_log(con)) == 1


def test_an_older_status_adds_only_its_event(con: sqlite3.Connection) -> None:
    """A state told after a later one leaves record, children and log as they are."""
    record(con, event("FINISHED", 32))
    before, log = rows(con), finished_log(con)

    assert record(con, event("FINISHING", 30)) == NEW_EVENT

    after = rows(con)
    assert set(after["JobEvents"]) - set(before["JobEvents"]) == {(JOB, "FINISHING", "2026-11-20 12:00:30")}
    assert {**after, "JobEvents": []} == {**before, "JobEvents": []}
    assert finished_log(con) == log


def test_an_older_end_adds_only_its_events(con: sqlite3.Connection) -> None:
    """The first end of a resumed job, told after its second, changes neither status nor children."""
    record(con, told(RESUMED[-1]))
    before, log = rows(con), finished_log(con)

    record(con, told(RESUMED[5]))

    after = rows(con)
    assert {**after, "JobEvents": []} == {**before, "JobEvents": []}
    assert finished_log(con) == log
    assert (JOB, "FINISHED", "2026-11-20 12:00:32") in after["JobEvents"]


def test_the_sweep_may_go_back(con: sqlite3.Connection) -> None:
    """Whoever has the present status file before it is right, also when its time is older than what was recorded."""
    record(con, event("FINISHED", 32, failed=True))

    assert record(con, event("FINISHED", 30), present=True) == CORRECTION

    assert [(row[7], row[10]) for row in rows(con)["AAR"]] == [("completed", NOON_S + 30)]


def test_many_at_once_are_recorded_as_one_after_the_other(con: sqlite3.Connection) -> None:
    """New jobs go in together: the same rows, one entry in the log each, the same numbers and the same news."""
    early = [event("SUBMIT", 2, job_id="known"), event("FINISHED", 9, job_id="ended")]
    late = [
        (event("FINISHED", 32, job_id="new", local=LOCAL + b"subject=/CN=Somebody else\n"), True),
        (event("SUBMIT", 3, job_id="running"), False),
        (event("FINISHED", 33, job_id="known", failed=True), True),
        (event("FINISHED", 9, job_id="ended"), True),
        (event("FINISHED", 34, job_id="moves"), True),
        (event("FINISHED", 35, job_id="moves", failed=True), True),
        (event("FINISHED", 36, job_id="nobody's", local=None), True),
        (event("DELETED", 37, job_id="gone"), True),
        (event("FINISHED", 38, job_id="bare", diag=None, statistics=None), True),
    ]
    with closing(in_memory(ACCOUNTING)) as one_by_one:
        for facts in early:
            record(one_by_one, facts)
            record(con, facts)

        wanted = [record(one_by_one, facts, present=True, settled=settled) for facts, settled in late]
        found = record_present(con, late)

        assert sorted(found) == sorted(wanted)
        assert rows(con) == rows(one_by_one)
        assert sorted(record_id for _seq, record_id in finished_log(con)) == sorted(
            record_id for _seq, record_id in finished_log(one_by_one)
        )
        ids = [facts.job_id for facts, _settled in late]
        assert remembered_status_files(con, ids) == remembered_status_files(one_by_one, ids)


def test_a_number_is_never_given_twice(con: sqlite3.Connection) -> None:
    """The record after one that was removed has a new number: the log and the ledger know the old one."""
    record(con, event("FINISHED", job_id="first"))
    record(con, event("FINISHED", job_id="second"))
    con.execute("DELETE FROM AAR WHERE JobID = 'second'")

    record_present(con, [(event("FINISHED", job_id="third"), True)])

    assert con.execute("SELECT JobID, RecordID FROM AAR ORDER BY RecordID").fetchall() == [("first", 1), ("third", 3)]


def test_only_a_settled_status_file_is_remembered(con: sqlite3.Connection) -> None:
    """A hook, or a sweep of a job that may still change, does not say that the file need not be read again."""
    facts = event("FINISHED", 32)

    record(con, facts)
    assert remembered_status_files(con, [JOB]) == {}
    record(con, facts, present=True)
    assert remembered_status_files(con, [JOB]) == {}
    record(con, facts, present=True, settled=True)
    assert remembered_status_files(con, [JOB]) == {JOB: ((8, facts.event_ns, facts.event_ns), 1, "")}


def test_remembering_a_file_is_no_news_of_the_job(con: sqlite3.Connection) -> None:
    """A sweep that finds everything recorded says so."""
    record(con, event("FINISHED", 32))

    assert record(con, event("FINISHED", 32), present=True, settled=True) == NOTHING


def test_a_waiting_job_has_no_time_for_its_state(con: sqlite3.Connection) -> None:
    """A status file that was rewritten as PENDING: does not say when the state started: no event is invented."""
    waiting = event("PREPARING", 1)
    assert waiting.status is not None
    waiting.status.pending = True

    record(con, waiting, present=True)

    assert [row[1] for row in rows(con)["JobEvents"]] == ["ACCEPTED"]


def test_a_deleted_job_keeps_its_record(con: sqlite3.Connection) -> None:
    """DELETED makes no row, neither for a job that is known nor for one that is not."""
    assert record(con, event("DELETED", 99, job_id="Unknown")) == NOTHING
    whole_life(con)
    before = con.total_changes

    assert record(con, event("DELETED", 99)) == NOTHING
    assert con.total_changes == before
    assert not knows(con, "Unknown")


def test_a_job_without_local_makes_no_record(con: sqlite3.Connection) -> None:
    """Without .local no one knows whose job it is; of a known job the event is added."""
    assert record(con, event("SUBMIT", local=None)) == NOTHING
    assert not knows(con, JOB)

    record(con, event("ACCEPTED"))
    assert record(con, event("SUBMIT", 5, local=None)) == NEW_EVENT
    assert (JOB, "SUBMIT", "2026-11-20 12:00:05") in rows(con)["JobEvents"]


def test_a_local_that_was_not_whole_is_completed_later(con: sqlite3.Connection) -> None:
    """A record made without time of submission gets who and where from the next event that has it, and only once."""
    record(con, event("ACCEPTED", local=b"queue=main\n"))
    assert [(row[5], row[9]) for row in rows(con)["AAR"]] == [("", 0)]
    assert rows(con)["JobEvents"] == []

    record(con, event("PREPARING", 1))
    complete = rows(con)
    assert [(row[5], row[6], row[9]) for row in complete["AAR"]] == [
        ("/DC=org/DC=example/CN=Ada Lovelace", "atlas", NOON_S - 3600)
    ]
    assert len(complete["AuthTokenAttributes"]) == 2

    record(con, event("SUBMIT", 2, local=b"queue=other\nstarttime=20261120110000Z\n"))
    assert rows(con)["AAR"] == complete["AAR"]


TORN = [LOCAL[:size] for size in range(1, len(LOCAL))]
"""A-REX truncates .local and writes it again: what a reader without its lock may meet."""


@pytest.mark.parametrize("later", ["PREPARING", "FINISHED", "sweep"])
def test_a_torn_local_heals(con: sqlite3.Connection, later: str) -> None:
    """Whatever part of .local the first event met, a later one, the end, or a sweep makes the record whole."""
    state = "PREPARING" if later == "PREPARING" else "FINISHED"
    with closing(in_memory(ACCOUNTING)) as whole:
        for number, torn in enumerate(TORN):
            job_id = f"J{number}"
            record(whole, event("ACCEPTED", job_id=job_id))
            record(whole, event(state, 32, job_id=job_id))
            if later == "sweep":
                record(con, event("ACCEPTED", job_id=job_id, local=torn))
                record(con, event(state, 32, job_id=job_id, local=torn))
                record_present(con, [(event(state, 32, job_id=job_id), True)])
            else:
                record(con, event("ACCEPTED", job_id=job_id, local=torn))
                record(con, event(state, 32, job_id=job_id))

        assert rows(con) == rows(whole)
        assert len(finished_log(con)) == (0 if later == "PREPARING" else len(TORN))


@pytest.mark.parametrize("by_sweep", [False, True])
def test_a_torn_local_undoes_nothing(con: sqlite3.Connection, by_sweep: bool) -> None:
    """A part of .local after a whole one, at any event, changes no row and logs nothing."""
    whole_life(con)
    record(con, event("SUBMIT", 2, job_id="running"))
    before, log = rows(con), finished_log(con)

    for torn in TORN:
        for state, after_s, job_id in (("FINISHED", 32, JOB), ("SUBMIT", 2, JOB), ("SUBMIT", 2, "running")):
            if not by_sweep:
                assert record(con, event(state, after_s, job_id=job_id, local=torn)) == NOTHING
            elif state == "FINISHED" or job_id != JOB:
                facts = event(state, after_s, job_id=job_id, local=torn)
                assert record_present(con, [(facts, True)]) == [NOTHING]

    assert rows(con) == before
    assert finished_log(con) == log


def test_half_a_name_is_no_name(con: sqlite3.Connection) -> None:
    """A line without its end would make a user that does not exist."""
    record(con, event("ACCEPTED", local=LOCAL[: LOCAL.index(b"Lovelace")]))

    assert con.execute("SELECT Name FROM Users").fetchall() == [("",)]


def test_a_whole_local_corrects_what_was_wrong(con: sqlite3.Connection) -> None:
    """The latest .local of a job that has not ended, or ends now, is right; one that is older only fills in."""
    other = LOCAL.replace(b"Ada Lovelace", b"Ada").replace(b"atlas", b"cms").replace(b"queue=main", b"queue=long")
    record(con, event("ACCEPTED", local=other))
    record(con, event("FINISHED", 32))
    found = rows(con)
    assert [(row[4], row[5], row[6]) for row in found["AAR"]] == [
        ("main", "/DC=org/DC=example/CN=Ada Lovelace", "atlas")
    ]
    assert [row[2] for row in found["AuthTokenAttributes"]] == ["/atlas/Role=production", "/atlas"]

    before = con.total_changes
    for late in (event("PREPARING", 1, local=other), event("FINISHED", 32, local=other)):
        record(con, late)

    assert {**rows(con), "JobEvents": []} == {**found, "JobEvents": []}
    assert con.total_changes - before == 1
    assert len(finished_log(con)) == 1


OTHER_USER = b"".join(
    line for line in LOCAL.replace(b"Ada Lovelace", b"Somebody Else").splitlines(keepends=True) if b"voms=" not in line
)


def who(con: sqlite3.Connection) -> tuple[str, str, list[str]]:
    """User, VO and FQANs of the only record."""
    user, vo = con.execute(
        "SELECT Users.Name, WLCGVOs.Name FROM AAR JOIN Users ON Users.ID = UserID JOIN WLCGVOs ON WLCGVOs.ID = VOID"
    ).fetchone()
    return user, vo, [fqan for (fqan,) in con.execute("SELECT AttrValue FROM AuthTokenAttributes ORDER BY rowid")]


def test_another_user_comes_without_the_vo_of_the_first(con: sqlite3.Connection) -> None:
    """The .local of a job that ended is written again, for somebody without VOMS: no file ever had both."""
    record(con, event("FINISHED", 10))
    assert who(con)[1:] == ("atlas", ["/atlas/Role=production", "/atlas"])

    record(con, event("FINISHED", 20, local=OTHER_USER))

    assert who(con) == ("/DC=org/DC=example/CN=Somebody Else", "", [])


def test_an_older_event_of_another_user_adds_no_vo(con: sqlite3.Connection) -> None:
    """What came too late fills in what is not known, of the user that is known alone."""
    record(con, event("FINISHED", 20, local=OTHER_USER))

    record(con, event("PREPARING", 10))

    assert who(con) == ("/DC=org/DC=example/CN=Somebody Else", "", [])


@pytest.mark.parametrize("gone", [b"subject=", b"voms=", b"headnode=", b"queue="])
def test_what_a_job_does_not_have_is_no_change(con: sqlite3.Connection, gone: bytes) -> None:
    """A job without a user, VO, endpoint or queue (INTERNAL has no headnode) is recorded once, and never again."""
    local = b"".join(line for line in LOCAL.splitlines(keepends=True) if not line.startswith(gone))
    record(con, event("ACCEPTED", local=local))
    record(con, event("FINISHED", 32, local=local))
    before, log = con.total_changes, finished_log(con)

    record(con, event("ACCEPTED", local=local))
    record(con, event("FINISHED", 32, local=local))
    record(con, event("FINISHED", 32, local=local), present=True)

    assert (con.total_changes, finished_log(con)) == (before, log)


@settings(deadline=None)
@given(
    st.permutations(RESUMED),
    st.lists(st.tuples(st.sampled_from(RESUMED[:-1]), st.sampled_from(TORN)), max_size=6),
    st.randoms(use_true_random=False),
)
def test_torn_files_in_any_order_end_in_the_same_rows(order, torn, random) -> None:
    """Events with parts of .local among those with the whole one, in any order: the rows are those of whole ones."""
    everything = [*((one, None) for one in order), *torn]
    random.shuffle(everything)
    with closing(in_memory(ACCOUNTING)) as straight, closing(in_memory(ACCOUNTING)) as shuffled:
        for one in RESUMED:
            record(straight, told(one))
        for one, part in everything:
            record(shuffled, told(one) if part is None else told(one, part))

        assert rows(shuffled) == rows(straight)
        assert len(finished_log(shuffled)) == 1


TWO_BENCHMARKS = DIAG + b"benchmark=HEPscore23:17.5\n"


def benchmark_of(con: sqlite3.Connection) -> list[object]:
    """The benchmarks of the record."""
    return [row[2] for row in rows(con)["JobExtraInfo"] if row[1] == "benchmark"]


@pytest.mark.parametrize(
    ("diag", "default"),
    [
        pytest.param(TWO_BENCHMARKS, "HEPSPEC:11.11", id="the last counts now"),
        pytest.param(TWO_BENCHMARKS, "HEPSPEC:12.26", id="the first is the default"),
        pytest.param(DIAG.replace(b"Benchmark", b"Other"), "HEPSPEC:9", id="another default now"),
    ],
)
def test_the_benchmark_of_an_end_is_fixed(con: sqlite3.Connection, diag: bytes, default: str) -> None:
    """Neither ARC 7, which has the files now and another rule, nor another configuration changes a finished record."""
    record(con, event("FINISHED", 32, diag=diag))
    before, log = rows(con), finished_log(con)

    for present in (False, True):
        facts = event("FINISHED", 32, diag=diag, hashed=True, default=default)
        assert record(con, facts, present=present) == NOTHING

    assert (rows(con), finished_log(con)) == (before, log)


def test_a_default_benchmark_makes_way(con: sqlite3.Connection) -> None:
    """A job that had only the default gets its own; a later end brings its own."""
    record(con, event("FINISHED", 32, diag=b""))
    assert benchmark_of(con) == ["HEPSPEC:11.11"]
    record(con, event("FINISHED", 32))
    assert benchmark_of(con) == ["HEPSPEC:12.26"]
    record(con, event("FINISHED", 120, diag=TWO_BENCHMARKS, hashed=True))
    assert benchmark_of(con) == ["HEPscore23:17.5"]


def test_what_other_sources_filled_in_stays(con: sqlite3.Connection) -> None:
    """A sweep that reads an end again leaves the benchmark and the keys that telemetry or features brought."""
    record(con, event("FINISHED", 32, diag=b""))
    con.execute("UPDATE JobExtraInfo SET InfoValue = 'HEPscore23:14' WHERE InfoKey = 'benchmark'")
    con.execute("INSERT INTO JobExtraInfo SELECT RecordID, 'mjf_total', '8' FROM AAR")
    log = finished_log(con)

    assert record(con, event("FINISHED", 32, diag=b""), present=True) == NOTHING
    assert finished_log(con) == log


def test_what_others_measured_stays(con: sqlite3.Connection) -> None:
    """An end without measurements of its own keeps those of others when it is read again; other jobs have theirs."""
    for job_id in (JOB, "Other"):
        record(con, event("FINISHED", 32, job_id=job_id, diag=b""))
    enrich(con, 1, "sonar", {"wall_s": 50, "cpu_user_s": 40, "system_software": "AlmaLinux 9.6"})
    enrich(con, 2, "sonar", {"memory_kib": 4096})
    before, log = rows(con), finished_log(con)

    for job_id in (JOB, "Other"):
        assert record(con, event("FINISHED", 32, job_id=job_id, diag=b""), present=True) == NOTHING
    assert (rows(con), finished_log(con)) == (before, log)


def test_a_record_that_was_imported_is_known(con: sqlite3.Connection) -> None:
    """A job whose record came from another database, not from its files, gets no second one; who ended it stays."""
    whole_life(con)
    con.execute("DELETE FROM StatusFiles")
    owner = rows(con)["AAR"][0][2:7]

    other = LOCAL.replace(b"Ada Lovelace", b"Somebody Else")
    record(con, event("FINISHED", 32, local=other))
    assert [one[2:7] for one in rows(con)["AAR"]] == [owner]


def test_an_attribute_that_comes_twice_is_kept_twice(con: sqlite3.Connection) -> None:
    """As A-REX keeps it; also where half a .local, with one of the two, was read before."""
    record(con, event("ACCEPTED", 0, local=LOCAL.replace(b"voms=/atlas\n", b"voms=/atlas\nvo")))
    record(con, event("PREPARING", 1, local=LOCAL.replace(b"voms=/atlas\n", b"voms=/atlas\nvoms=/atlas\n")))

    assert [one[1:] for one in rows(con)["AuthTokenAttributes"]].count(("vomsfqan", "/atlas")) == 2


def moved_on(one: tuple[object, ...], **files: bytes) -> StateChange:
    """An end that only the launcher has told, with the files of the run that the job is in today."""
    facts = told(one)
    late = event("FINISHED", float(str(one[1])), **files)
    facts.usage, facts.status = late.usage, None
    facts.extra = late.extra
    return facts


LATER_RUN = {"diag": OTHER_DIAG, "statistics": b""}


@pytest.mark.parametrize("known", [RESUMED[6:7], RESUMED[6:8], RESUMED[6:]], ids=["started", "ending", "ended"])
def test_a_later_run_is_not_recorded_under_an_earlier_end(con: sqlite3.Connection, known) -> None:
    """Of a job that is known to run again, an end without files of its own gives its event and nothing else."""
    for one in (*LIFE[:3], *known):
        record(con, told(one))
    before, log = rows(con), finished_log(con)

    assert record(con, moved_on(RESUMED[5], **LATER_RUN)) == NEW_EVENT

    after = rows(con)
    assert {**after, "JobEvents": []} == {**before, "JobEvents": []}
    assert finished_log(con) == log
    assert (JOB, "FINISHED", "2026-11-20 12:00:32") in after["JobEvents"]


def test_an_end_that_is_reported_late_is_not_that_of_the_next_run(con: sqlite3.Connection) -> None:
    """A callout that meets the job in its next run (its event is of now) does not end that run."""
    for one in RESUMED[:7]:
        record(con, told(one))
    before = rows(con)

    assert record(con, moved_on(("FINISHED", 101), **LATER_RUN)) == NEW_EVENT
    assert {**rows(con), "JobEvents": []} == {**before, "JobEvents": []}
    record(con, told(RESUMED[8]))

    assert [(row[7], row[10], row[15]) for row in rows(con)["AAR"]] == [("completed", NOON_S + 120, 5)]


def test_an_end_whose_files_have_gone_counts(con: sqlite3.Connection) -> None:
    """A job that was cleaned since, and of which no later run is known, ends with what its event has kept."""
    for one in LIFE[:-1]:
        record(con, event(*one))

    # The launcher's clock may know seconds only: here FINISHING had a later fraction of the same second.
    facts = moved_on(("FINISHED", 29.5, False))
    assert facts.event_ns < NOON_NS + 30 * SECOND_NS

    assert record(con, facts) == NEW_END


@settings(deadline=None)
@given(st.permutations((*RESUMED, "late", "late")))
def test_ends_without_files_of_their_own_in_any_order(order: list[object]) -> None:
    """However late such an end is told, the rows are those of the events that had their files."""
    with closing(in_memory(ACCOUNTING)) as straight, closing(in_memory(ACCOUNTING)) as shuffled:
        for one in RESUMED:
            record(straight, told(one))
        for one in order:
            record(shuffled, moved_on(RESUMED[5], **LATER_RUN) if one == "late" else told(one))

        assert rows(shuffled) == rows(straight)


def test_an_event_without_time_of_submission_twice_changes_nothing(con: sqlite3.Connection) -> None:
    """Also of a job whose .local has no starttime the same event again writes nothing."""
    record(con, event("FINISHED", 3, local=b"queue=main\n"))
    before = con.total_changes

    assert record(con, event("FINISHED", 3, local=b"queue=main\n")) == NOTHING
    assert con.total_changes == before


def test_names_are_kept_once(con: sqlite3.Connection) -> None:
    """Jobs of one user, queue, VO and endpoint share the names; another interface of one URL is another endpoint."""
    record(con, event("ACCEPTED", job_id="A"))
    record(con, event("ACCEPTED", job_id="B"))
    record(con, event("ACCEPTED", job_id="C", local=LOCAL.replace(b"arcrest", b"internal")))

    assert {
        table: con.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("Users", "Queues", "WLCGVOs")
    } == {"Users": 1, "Queues": 1, "WLCGVOs": 1}
    assert con.execute("SELECT count(*) FROM Endpoints").fetchone() == (2,)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("O'Neill", "O%27Neill"),
        ("%I #", "%25I %23"),
        ("a\r\n\bb", "a%0d%0a%08b"),
        ("Łukasz & <co>", "Łukasz & <co>"),
        ("\0", "%00"),
    ],
)
def test_texts_are_escaped_as_arex_does(text: str, wanted: str) -> None:
    """What A-REX's C++ percent-escapes is escaped, once, and nothing else is."""
    assert escaped(text) == wanted


@pytest.mark.parametrize("code", range(256))
def test_every_character_is_escaped_as_arex_does(code: int) -> None:
    """A-REX escapes six characters and its mark, by the mark and two small hexadecimal digits."""
    text = f"a{chr(code)}b"

    assert escaped(text) == (f"a%{code:02x}b" if chr(code) in "'#\r\n\b\0%" else text)
    assert unescaped(escaped(text)) == text
    # Former versions wrote capital digits.
    assert unescaped(f"a%{code:02X}b") == text


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(0, "1970-01-01 00:00:00"), (1795169671, "2026-11-20 10:14:31"), (253402300799, "9999-12-31 23:59:59")],
)
def test_event_times_are_utc(seconds: int, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A-REX's form of a time, in UTC whatever the zone of the host."""
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert event_time(seconds) == wanted
    finally:
        monkeypatch.undo()
        time.tzset()


def test_hostile_text_is_stored_as_it_is(con: sqlite3.Connection) -> None:
    """Names with quotes, semicolons and SQL in them are names."""
    evil = b"subject=/CN='; DROP TABLE AAR; --\njobname=\"); DELETE FROM Users; --\n"

    record(con, event("FINISHED", local=LOCAL + evil))

    found = rows(con)
    assert found["AAR"][0][5] == "/CN=%27; DROP TABLE AAR; --"
    assert (JOB, "jobname", '"); DELETE FROM Users; --') in found["JobExtraInfo"]


TOO_MUCH = b"".join(b"nodename=n%d\n" % number for number in range(9000))


def notes(con: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """What was left out of records."""
    return con.execute("SELECT job_id, field, note FROM v1_record_notes").fetchall()


@pytest.mark.parametrize("by", [record, lambda con, facts: record_present(con, [(facts, True)])], ids=["hook", "sweep"])
def test_what_was_left_out_is_noted(con: sqlite3.Connection, by) -> None:
    """A record says what its files said and it does not have; the same again writes nothing, and logs nothing."""
    record(con, event("ACCEPTED", job_id="Other"))
    facts = event("FINISHED", 32, diag=DIAG + TOO_MUCH)
    by(con, facts)
    log = finished_log(con)

    assert notes(con) == [(JOB, "node_names", "2916 of 9003 kept")]
    assert record(con, facts) == NOTHING
    assert finished_log(con) == log
    assert len(log) == 1


def test_notes_are_those_of_the_last_end(con: sqlite3.Connection) -> None:
    """A resumed job that ends again has the notes of that end alone, whichever was told first."""
    first, last = (
        event("FINISHED", 32, diag=DIAG + TOO_MUCH),
        event("FINISHED", 120, local=LOCAL + b"queue=%b\n" % (b"q" * 999)),
    )
    record(con, first)
    record(con, last)
    record(con, first)

    assert notes(con) == [(JOB, "queue", "cut from 999 bytes")]


def test_notes_of_a_running_job(con: sqlite3.Connection) -> None:
    """What is left out of .local is noted from the first event on, and goes with the record."""
    record(con, event("ACCEPTED", local=LOCAL + b"queue=%b\n" % (b"q" * 999)))
    record(con, event("SUBMIT", 2, local=LOCAL + b"queue=%b\nsubject=%b\n" % (b"q" * 999, b"s" * 999)))
    assert notes(con) == [(JOB, "queue", "cut from 999 bytes"), (JOB, "user_dn", "cut from 999 bytes")]

    con.execute("DELETE FROM AAR")

    assert con.execute("SELECT count(*) FROM TruncationNotes").fetchone() == (0,)


@settings(deadline=None)
@given(st.binary(), st.binary(), st.binary())
def test_any_files_can_be_recorded(local: bytes, diag: bytes, statistics: bytes) -> None:
    """Whatever bytes the files of a job have, the database takes what they say, and the same again changes nothing."""
    with closing(in_memory(ACCOUNTING)) as con:
        facts = event("FINISHED", local=LOCAL + local, diag=DIAG + diag, statistics=STATISTICS + statistics)
        assert record(con, facts) == NEW_JOB
        before = con.total_changes

        assert record(con, facts) == NOTHING
        assert con.total_changes == before


BARE = b"".join(line for line in LOCAL.splitlines(keepends=True) if not line.startswith(b"voms="))
DTEAM = JobRules("HEPSPEC:11.11", vomsless_vos=(VO("dteam"),))
OTHER = JobRules("HEPSPEC:11.11", vomsless_vos=(VO("other"),))


def vo_and_groups(con: sqlite3.Connection) -> tuple[object, ...]:
    """The VO of the only job, and the authgroups that are kept of it."""
    row: tuple[object, ...] = con.execute(
        "SELECT Name, Names FROM AAR JOIN WLCGVOs ON ID = VOID LEFT JOIN AuthGroups USING (RecordID)"
    ).fetchone()
    return row


def test_a_new_rule_is_none_of_a_job_that_has_ended(con: sqlite3.Connection) -> None:
    """The VO that a job got with its end stays, also none; a change of the configuration rewrites no history."""
    files = {"local": BARE + b"auth=tokens\n", "hashed": True}
    record(con, event("FINISHED", 9, **files))
    before = con.execute("SELECT * FROM FinishedLog").fetchall()

    assert record(con, event("FINISHED", 9, **files, rules=DTEAM), present=True) == NOTHING
    assert vo_and_groups(con) == ("", "tokens")
    assert con.execute("SELECT * FROM FinishedLog").fetchall() == before


def test_claims_that_are_kept_as_fqans_now_are_none_of_a_job_that_has_ended(con: sqlite3.Connection) -> None:
    """They look like FQANs that a torn .local lacked, but it is the site that has started to keep them."""
    files = {"local": BARE + b"tokenclaim.wlcg.groups=/atlas\n", "hashed": True}
    record(con, event("FINISHED", 9, **files))
    before = con.execute("SELECT * FROM FinishedLog").fetchall()

    rules = JobRules("HEPSPEC:11.11", claim_names={"wlcg.groups": ("vomsfqan",)})
    assert record(con, event("FINISHED", 9, **files, rules=rules), present=True) == NOTHING
    assert rows(con)["AuthTokenAttributes"] == []
    assert con.execute("SELECT * FROM FinishedLog").fetchall() == before


def test_a_job_under_way_follows_the_rules(con: sqlite3.Connection) -> None:
    """At each state change, as A-REX 7 asks each time; the end of a resumed job is a new one."""
    local = BARE + b"auth=tokens\nauth=everybody\n"
    record(con, event("ACCEPTED", 0, local=local, hashed=True))
    assert vo_and_groups(con) == ("", "tokens everybody")

    record(con, event("FINISHED", 9, local=local, hashed=True, rules=DTEAM))
    assert vo_and_groups(con) == ("dteam", "tokens everybody")

    record(con, event("FINISHED", 20, local=local, hashed=True, rules=OTHER))
    assert vo_and_groups(con) == ("other", "tokens everybody")


def test_the_authgroups_go_with_their_record(con: sqlite3.Connection) -> None:
    """And where a credential tells the VO after all there are none."""
    record(con, event("ACCEPTED", 0, local=BARE + b"auth=tokens\n", hashed=True))
    record(con, event("PREPARING", 1, local=LOCAL + b"auth=tokens\n", hashed=True))
    assert vo_and_groups(con) == ("atlas", None)

    record(con, event("ACCEPTED", 0, job_id="other", local=BARE + b"auth=tokens\n", hashed=True))
    con.execute("DELETE FROM AAR")
    assert con.execute("SELECT count(*) FROM AuthGroups").fetchone() == (0,)
