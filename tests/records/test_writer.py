"""Jobs of other sources on their way into our tables: what becomes of those that are there, and what is told of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
import stored_jobs

from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.records import recorder
from arcacct.records.enrichment import enrich, present
from arcacct.records.model import Job
from arcacct.records.states import StateChange, Usage
from arcacct.records.texts import event_time
from arcacct.records.writer import Difference, JobWriter, Written

END = stored_jobs.END_S
JOB = Job("job1", "completed", END - 1000, END, local_job_id="17", queue="main", wall_s=900)


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    with closing(in_memory(ACCOUNTING)) as found:
        yield found


def write(con: sqlite3.Connection, *jobs: Job, source: str = "arex") -> Written:
    return JobWriter(con, source, "somewhere").write(jobs)


def test_what_became_of_jobs_is_counted(con) -> None:
    """New, changed, and as they were: each job counts once, and where it was; those without a measure besides."""
    measured = JOB._replace(cpu_user_s=10, cpu_kernel_s=1)
    other = JOB._replace(job_id="job2", wall_s=None)
    both = {"job1": 1, "job2": 2}
    assert write(con, measured) == Written(added=1, record_ids={"job1": 1})
    assert write(con, measured, other) == Written(added=1, record_ids=both, without_wall=1, without_cpu=1)
    assert write(con, measured._replace(wall_s=901), other) == Written(changed=1, record_ids=both)
    assert write(con, measured, other._replace(wall_s=1)) == Written(changed=2, record_ids=both, without_cpu=1)


def test_a_job_that_does_not_count_lacks_no_measurement(con) -> None:
    """Receivers get nothing of a job that was aborted without usage; of one with usage they do."""
    gone = JOB._replace(job_id="gone", status="aborted", wall_s=None)
    stopped = JOB._replace(job_id="stopped", status="aborted")

    assert write(con, gone, stopped)[5:7] == (0, 1)


def test_what_tells_nothing_new_of_a_job_leaves_it_as_it_is(con) -> None:
    """A job of another source, and one that ended but is told as if it still ran."""
    write(con, JOB)
    before = con.total_changes

    assert write(con, JOB._replace(wall_s=1), source="sacct") == Written(record_ids={"job1": 1})
    assert write(con, JOB._replace(status="in-progress", end_time=0)) == Written(record_ids={"job1": 1})
    assert con.total_changes == before


def record(con: sqlite3.Connection, vo: str = "") -> None:
    """The job as our own recorder saw it in its control files."""
    facts = StateChange(JOB.job_id, "FINISHED", END * 10**9, None)
    facts.known, facts.submit_time, facts.local_job_id, facts.queue, facts.vo = True, JOB.submit_time, "17", "main", vo
    facts.usage = Usage()
    facts.usage.end_time, facts.usage.wall_s = END, 900
    recorder.record(con, facts, present=True)


@pytest.mark.parametrize(("tells_vo", "vo_by_claims", "is_told"), [
    ("", False, False), ("", True, False), ("lhcb", False, True), ("lhcb", True, False),
])  # fmt: skip
def test_another_vo_is_reported_where_no_rule_of_ours_may_have_made_it(con, tells_vo, vo_by_claims, is_told) -> None:
    """A site's rules about claims of tokens are nothing that A-REX's database knows of."""
    record(con, "atlas")
    writer = JobWriter(con, "arex", "somewhere", **({"vo_by_claims": True} if vo_by_claims else {}))

    done = writer.write([JOB._replace(vo=tells_vo)])
    expected = Difference("job1", ("VO is 'atlas' here, 'lhcb' there",))
    assert done.differences == ((expected,) if is_told else ())


def test_other_children_are_reported_with_the_rows_that_differ(con) -> None:
    """Those that only we have, and those that only the source has."""
    record(con)

    done = write(con, JOB._replace(run_time_environments=("B", "A"), wall_s=901))
    assert done == Written(
        differences=(
            Difference(
                "job1", ("UsedWalltime is 900 here, 901 there", "RunTimeEnvironments has nothing more here, A, B there")
            ),
        ),
        record_ids={"job1": 1},
    )


def test_who_told_a_value_of_a_job_that_is_written_again_is_remembered(con) -> None:
    """Also where no one else had told anything of the job before."""
    write(con, JOB)
    write(con, JOB._replace(benchmark="HEPSPEC:9", field_sources=(("benchmark", "default"),)))

    assert present(con, 1).holders == {"benchmark": "arc.conf"}


def events(con: sqlite3.Connection) -> list[tuple[str, str]]:
    return con.execute("SELECT EventKey, EventTime FROM JobEvents ORDER BY rowid").fetchall()


@pytest.mark.parametrize("told", [(), (("LRMSSTART", END - 800),)], ids=["silent", "told"])
def test_times_of_others_stay_until_the_own_source_tells_them(con, told) -> None:
    """They are there once, and who told them is known."""
    write(con, JOB)
    enrich(con, 1, "gridengine", {}, events=[("LRMSSTART", END - 900), ("LRMSEND", END - 5)])
    write(con, JOB._replace(wall_s=901, events=told))

    start = END - 800 if told else END - 900
    assert events(con) == [("LRMSSTART", event_time(start)), ("LRMSEND", event_time(END - 5))]
    assert present(con, 1).holders == {
        **({} if told else {"lrms_start_time": "gridengine"}),
        "lrms_end_time": "gridengine",
    }


@pytest.mark.parametrize(("told", "kept"), [((), "Xeon"), ((("cpu_model", "EPYC"),), "EPYC")], ids=["silent", "told"])
def test_values_of_others_that_only_they_have_stay(con, told, kept) -> None:
    """Beside what the job's own source has under keys of its own."""
    write(con, JOB)
    enrich(con, 1, "sonar", {"cpu_model": "Xeon"})
    write(con, JOB._replace(extra=(("own", "1"), *told)))

    values = present(con, 1).values
    assert (values["cpu_model"], values["own"]) == (kept, "1")
    assert write(con, JOB._replace(extra=(("own", "1"), *told))).changed == 0


@pytest.mark.parametrize(
    ("source", "field", "other", "told", "kept"),
    [
        pytest.param("arex", "memory_kib", "sonar", {"memory_kib": 0}, 500, id="A-REX measured none"),
        pytest.param("arex", "memory_kib", "sonar", {"memory_kib": 7}, 7, id="A-REX measured it"),
        pytest.param("arex", "exit_code", "gridengine", {"exit_code": 1}, 500, id="A-REX guessed"),
        pytest.param(
            "arex", "exit_code", "gridengine", {"exit_code": 1, "events": (("LRMSEND", END - 5),)}, 1, id="it was told"
        ),
        pytest.param("sacct", "exit_code", "slurm", {"exit_code": 1}, 1, id="others guess nothing"),
        pytest.param("arex", "project", "gridengine", {}, "500", id="A-REX has no project"),
        pytest.param("arex", "project", "gridengine", {"project": "own"}, "own", id="A-REX has one"),
    ],
)
def test_what_others_measured_stays_until_the_own_source_measures_it(con, source, field, other, told, kept) -> None:
    """What A-REX writes for want of a measurement is none."""
    write(con, JOB, source=source)
    enrich(con, 1, other, {field: 500 if isinstance(kept, int) else "500"})
    write(con, JOB._replace(wall_s=901, **told), source=source)

    assert present(con, 1).values[field] == kept
    assert present(con, 1).holders == ({field: other} if str(kept) == "500" else {})
