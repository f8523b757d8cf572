"""Importing what sacct printed: each run once, whatever order outputs come in, and what A-REX and Sonar have of it."""

from __future__ import annotations

import codecs
import itertools
import json
import pathlib
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from campaigns import sample
from slurm_files import BEGIN, CASES, CLUSTER, COLUMNS, DATA, JSON, SONAR, TABLE, SlurmHost, arc_job, row, table

from arcacct.config.paths import QueueBenchmark
from arcacct.config.values import map_rule
from arcacct.database.access import writing
from arcacct.errors import StoreError
from arcacct.records.recorder import name_id
from arcacct.sources.engine import imports
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.slurm.importer import SOURCE, sonars_record
from arcacct.sources.slurm.record import SlurmRun
from arcacct.sources.slurm.sacct import OutputForm
from arcacct.sources.sonar.importer import Importer
from arcacct.sources.sonar.jobs import Site

OUTPUTS = (TABLE, JSON, DATA / "sacct-no-D.txt", DATA / "sacct-X-epoch.txt", DATA / "sacct-while-running.txt")


@pytest.fixture
def host(tmp_path) -> Iterator[SlurmHost]:
    found = SlurmHost(tmp_path)
    with closing(found.con):
        yield found


def imported(folder: pathlib.Path, *outputs: bytes | pathlib.Path) -> list[list[tuple[object, ...]]]:
    """Everything in a new database after an import of each output by a command of its own."""
    folder.mkdir()
    found = SlurmHost(folder)
    with closing(found.con):
        for output in outputs:
            found.take(output, cluster=CLUSTER)
        return found.everything()


def test_a_real_output(host) -> None:
    """59 runs; the sums by account are those of sreport."""
    report = host.take(TABLE)

    assert (report.jobs, report.rejected) == (64, 0)
    assert report.unused == {"unfinished": 2, "never started": 3}
    assert (report.taken.new, report.taken.added) == (59, 59)
    assert host.rows("SELECT project, sum(wall_s * core_count) FROM v1_jobs GROUP BY 1 ORDER BY 1") == [
        ("atlas", 282),
        ("atlasprod", 356),
        ("lz", 321),
    ]
    assert host.rows("SELECT account, sum(core_s) FROM v1_slurm_runs GROUP BY 1 ORDER BY 1") == [
        ("atlas", 282),
        ("atlasprod", 356),
        ("lz", 321),
    ]
    assert host.said == []


def test_a_list_of_millions_of_nodes_costs_itself_alone(host) -> None:
    """A NodeList of 29 kB that repeats one range: refused before a name is made, without its job."""
    began = time.process_time()
    report = host.take(table(row(1), row(2, NodeList=",".join(["n[1-99999]"] * 2_000)), row(3)))

    assert time.process_time() - began < 5
    assert (report.jobs, report.rejected) == (3, 0)
    assert host.rows("SELECT local_job_id, node_names, wall_s FROM v1_jobs ORDER BY 1") == [
        ("1", "wn01", 60),
        ("2", None, 60),
        ("3", "wn01", 60),
    ]


def test_a_job_as_a_record(host) -> None:
    """Two GPUs, two cores, steps: each value where others look for it."""
    rule = map_rule("account lz vo=lz.example.org group=sim user=withheld")
    host.site = BatchSite("", (rule,), "HEPSPEC:1.0", (QueueBenchmark("grid", "HEPSPEC:2.5"),))
    host.take(TABLE)
    (found,) = host.rows(
        "SELECT job_id, queue, vo, fqan, user_dn, local_user, project, status, exit_code, submit_time, lrms_start_time,"
        " lrms_end_time, end_time, node_names, node_count, core_count, wall_s, cpu_user_s, cpu_kernel_s, memory_kib,"
        " benchmark_value, benchmark_source, lrms, source FROM v1_jobs WHERE local_job_id = '28'"
    )

    assert found == (
        *("sonar:testgrid:28:1795326241", "grid", "lz.example.org", "/lz.example.org/sim", "withheld", "bob", "lz"),
        *("completed", 0, 1795326241, 1795326244, 1795326252, 1795326252, "wn01", 1, 2, 8, 6, 0, 13976),
        *(2.5, "arc.conf", "slurm", "sacct"),
    )
    extra = dict(
        host.rows("SELECT InfoKey, InfoValue FROM JobExtraInfo JOIN AAR USING (RecordID) WHERE LocalJobID = '43'")
    )
    assert extra["alloctres"] == "billing=2,cpu=2,gres/gpu=2,mem=200M,node=1"
    assert (extra["qos"], extra["wckey"], extra["slurmstate"], extra["localgroup"]) == (
        "normal",
        "simulation",
        "COMPLETED",
        "bob",
    )


def test_outcomes(host) -> None:
    """Statuses and exit codes of every way in which a job can end; a signal is its number and 256, as A-REX has it."""
    host.take(TABLE)
    found = {
        int(number): outcome
        for number, *outcome in host.rows("SELECT local_job_id, status, exit_code FROM v1_jobs ORDER BY submit_time")
    }

    assert {number: tuple(found[number]) for number in (8, 9, 11, 12, 3, 4, 57, 60, 62, 63)} == {
        8: ("completed", 0), 9: ("failed", 3), 11: ("failed", 256 + 9), 12: ("completed", 0), 3: ("failed", 256 + 15),
        4: ("failed", 1), 57: ("failed", 1), 60: ("failed", 1), 62: ("failed", 1), 63: ("aborted", 15),
    }  # fmt: skip
    assert host.rows("SELECT exit_code, status, wall_s FROM v1_jobs WHERE local_job_id = '2' ORDER BY submit_time") == [
        (1, "failed", 6),
        (0, "completed", 3),
    ]


def test_elements_of_arrays_and_components(host) -> None:
    """Under their own numbers, which is what A-REX has, with sacct's next to it."""
    host.take(TABLE)
    found = host.rows(
        "SELECT LocalJobID, InfoKey, InfoValue FROM AAR JOIN JobExtraInfo USING (RecordID)"
        " WHERE InfoKey IN ('arrayid', 'hetid') ORDER BY 1"
    )

    assert found == [
        ("21", "arrayid", "21_5"),
        *((str(number), "arrayid", f"21_{number - 23}") for number in range(24, 28)),
        ("51", "hetid", "51+0"),
        ("52", "hetid", "51+1"),
    ]


def test_the_same_again_changes_nothing(host) -> None:
    host.take(TABLE)
    before, logged = host.everything(), host.logged()
    report = host.take(TABLE, TABLE)

    assert (report.taken.new, report.taken.known, report.taken.changed) == (0, 118, 0)
    assert host.everything() == before
    assert host.logged() == logged


def test_outputs_in_any_order(tmp_path) -> None:
    """Tables and JSON, with and without duplicates and steps: what all of them say is the same."""
    orders = sample(list(itertools.permutations(OUTPUTS))[::17], 4)
    first, *others = (imported(tmp_path / str(number), *order) for number, order in enumerate(orders))

    assert len(first[0]) == 59
    assert all(other == first for other in others)


def test_steps_that_come_later(host) -> None:
    """Without them nothing is known of CPU time and memory; an output without them takes nothing back."""
    query = "SELECT cpu_s, memory_kib FROM v1_jobs WHERE local_job_id = '28'"
    host.take(DATA / "sacct-X-epoch.txt", cluster=CLUSTER)
    assert host.rows(query) == [(None, None)]
    host.take(TABLE)
    assert host.rows(query) == [(6, 13976)]
    host.take(DATA / "sacct-X-epoch.txt", cluster=CLUSTER)
    assert host.rows(query) == [(6, 13976)]


def test_a_job_that_continues_is_taken_when_it_is_over(host) -> None:
    report = host.take(table(row(State="RUNNING", End="Unknown", ElapsedRaw=10)))
    assert (report.unused["unfinished"], report.taken.new) == (1, 0)
    report = host.take(table(row()))
    assert (report.unused["unfinished"], report.taken.added) == (0, 1)


def test_a_name_of_our_own_for_the_cluster(host) -> None:
    host.take(TABLE, cluster="hpc.example.org")

    assert host.value("SELECT count(*) FROM v1_jobs WHERE job_id GLOB 'sonar:hpc.example.org:*'") == 59


MEASURED = (
    "SELECT job_id, wall_s, cpu_user_s, cpu_kernel_s, memory_kib, core_count, node_names, project, source FROM v1_jobs"
)
STEP = row("1.batch", TotalCPU="01:40.500", SystemCPU="00:00.500", MaxRSS="2M")


def test_what_arex_could_not_measure(host) -> None:
    """A job of A-REX's gets what Slurm measured, and there is no second job."""
    arc_job(host)
    report = host.take(table(row(), STEP))

    assert (report.taken.added, report.taken.enriched) == (0, 1)
    assert host.rows(MEASURED) == [("arc1", 60, 100, 0, 2048, 2, "wn01", "atlas", "arc")]
    assert {row[0] for row in host.rows("SELECT Field FROM FieldSources WHERE Source = 'sacct'")} >= {
        *("wall_s", "memory_kib", "core_count", "node_names", "lrms_end_time")
    }
    assert host.value("SELECT job_id FROM v1_slurm_runs") == "arc1"


def test_what_arex_measured_stays(host) -> None:
    """Its own values win, and what differs is said; with the preference turned round Slurm's do."""
    arc_job(host, UsedWalltime=61, UsedMemory=999_999)
    host.take(table(row(), STEP))
    assert host.rows("SELECT wall_s, memory_kib FROM v1_jobs") == [(61, 999_999)]
    assert host.said == ["arc1: memory_kib is 999999 by A-REX, 2048 by Slurm; the first is kept"]
    host.prefer_arc = False
    host.work().again()
    assert host.rows("SELECT wall_s, memory_kib FROM v1_jobs") == [(60, 2048)]


def test_a_job_of_arex_that_was_requeued(host) -> None:
    """Two runs are one job there: their times are summed."""
    arc_job(host, EndTime=BEGIN + 400)
    again = row(Submit=BEGIN + 100, Start=BEGIN + 200, End=BEGIN + 230, ElapsedRaw=30, TotalCPU="00:10", SystemCPU="")
    report = host.take(table(row(State="NODE_FAIL"), again))

    assert (report.taken.new, report.taken.added, report.taken.enriched) == (2, 0, 1)
    assert host.rows("SELECT job_id, wall_s, cpu_s FROM v1_jobs") == [("arc1", 90, 110)]


@pytest.mark.parametrize(("submit", "end"), [(BEGIN + 5000, BEGIN + 6000), (BEGIN - 5000, BEGIN - 4000)])
def test_the_same_number_is_not_the_same_job(host, submit, end) -> None:
    """Numbers begin again: the times have to fit."""
    arc_job(host, SubmitTime=submit, EndTime=end)
    host.take(table(row()))

    assert sorted(host.rows("SELECT job_id FROM v1_jobs")) == [("arc1",), (f"sonar:{CLUSTER}:1:{BEGIN}",)]


def test_a_job_waits_for_arex(host) -> None:
    """One that A-REX has not finished may be it; then it is completed, and after the wait it is one of its own."""
    arc_job(host, StatusID="in-progress", EndTime=0, LocalJobID="")
    host.now = BEGIN + 200
    report = host.take(table(row(), row(2)))
    assert (report.taken.waiting, report.taken.added) == (2, 0)
    with writing(host.con, host.here) as con:
        con.execute(
            "UPDATE AAR SET (StatusID, EndTime, LocalJobID) = (?, ?, '1')",
            (name_id(con, "Status", "completed"), BEGIN + 100),
        )
    report = host.take()
    assert (report.taken.waiting, report.taken.added, report.taken.enriched) == (0, 1, 1)
    assert sorted(host.rows("SELECT job_id, wall_s FROM v1_jobs")) == [("arc1", 60), (f"sonar:{CLUSTER}:2:{BEGIN}", 60)]


def test_a_job_that_turns_out_to_be_arexs(host) -> None:
    """A-REX's record came later: what was made of the run before is taken back."""
    host.take(table(row()))
    arc_job(host)
    report = host.take()

    assert report.taken.enriched == 1
    assert host.rows("SELECT job_id, wall_s FROM v1_jobs") == [("arc1", 60)]
    assert host.value("SELECT job_id FROM v1_slurm_runs") == "arc1"


def sonars_jobs(host: SlurmHost) -> None:
    """Sonar's telemetry of the jobs that real-sacct-raw.txt has, too."""
    run = Importer(host.con, host.here, Site(make_records=True), host.said.append)
    run.files([str(SONAR / "real-jobs-completed.json")])
    run.finish()


def slurms_jobs() -> bytes:
    """What sacct said of the same jobs, with the submission that Sonar saw, which the file lacks."""
    columns, *lines = (SONAR / "real-sacct-raw.txt").read_text(encoding="utf-8").strip().splitlines()
    rows = [f"{line}|2026-11-20T09:55:49Z" for line in lines]
    return table(*rows, columns=f"{columns}|Submit")


def slurm(host: SlurmHost) -> None:
    """They are imported."""
    host.take(slurms_jobs(), cluster="testcl")


def test_sonars_records_of_the_same_jobs(tmp_path) -> None:
    """Whichever comes first: each job once, with what sacct says of its CPU time and how it ended."""
    found = []
    for number, steps in enumerate(itertools.permutations((sonars_jobs, slurm))):
        host = SlurmHost(tmp_path / str(number))
        with closing(host.con):
            for step in steps:
                step(host)
            columns = "job_id, status, exit_code, wall_s, cpu_user_s, cpu_kernel_s, memory_kib, submit_time, end_time"
            found.append(host.rows(f"SELECT {columns}, node_names, project, core_count FROM v1_jobs ORDER BY 1"))

    assert len(found[0]) == 10
    assert [one[:7] for one in found[0] if ":1:" in one[0] or ":8:" in one[0]] == [
        ("sonar:testcl:1:1795168549", "completed", 0, 11, 10, 0, 132_600),
        ("sonar:testcl:8:1795168549", "failed", 256 + 9, 0, 0, 0, None),
    ]
    assert found[0] == found[1]


def test_sonars_name_of_the_cluster_may_be_another(host) -> None:
    """Its records are known by number and end."""
    sonars_jobs(host)
    report = host.take(slurms_jobs(), cluster="slurm")

    assert (report.taken.new, report.taken.added) == (10, 0)
    assert host.value("SELECT count(*) FROM v1_jobs") == 10


THE_SAME_RUN = (
    # The same end, whatever Sonar says of the submission; times are cut to seconds.
    *((0, 0), (1, 0), (-1, 0), (0, 5000), (1, -5000)),
    # Another season: the end is an hour off, and the submission too if Slurm was in that season then.
    *((3600, 0), (3600, 3600), (-3600, -3600), (-3600, 0), (3600, -3600)),
    *((3599, 1), (3601, -1), (3601, 3601), (-3599, -3599)),
)
ANOTHER_RUN = (
    *((2, 0), (-2, 0), (1800, 0), (1800, 1800)),
    # It ended an hour before or after, and was submitted at another time.
    *((3600, 2), (3600, -2), (3600, 3598), (3600, 3602), (-3600, -5000)),
    *((3598, 0), (3602, 0), (3602, 3602), (-3602, -3600), (7200, 7200)),
)
"""Seconds by which end and submission of Sonar's record are later than Slurm's."""


def test_sonars_record_is_known_by_its_times(host) -> None:
    """Sonar's record of a run ends with it, or both of its times are of another season; any other is another run."""
    sonars_jobs(host)
    read = [one.what for one in SOURCE.read([slurms_jobs()], OutputForm(cluster="slurm"))]
    (run,) = [one for one in read if isinstance(one, SlurmRun) and one.job_id == 1]
    found = {}
    for end_off, submit_off in (*THE_SAME_RUN, *ANOTHER_RUN):
        with writing(host.con, host.here) as con:
            times = (run.end_time + end_off, run.submit_time + submit_off)
            con.execute("UPDATE AAR SET (EndTime, SubmitTime) = (?, ?) WHERE LocalJobID = '1'", times)
        found[end_off, submit_off] = sonars_record(host.con, run) is not None

    assert found == dict.fromkeys(THE_SAME_RUN, True) | dict.fromkeys(ANOTHER_RUN, False)


def test_a_record_that_was_pruned_stays_away(host) -> None:
    host.take(TABLE)
    with writing(host.con, host.here) as con:
        con.execute("DELETE FROM AAR WHERE LocalJobID = '8'")
    report = host.take(JSON)

    assert (report.taken.pruned, report.taken.added) == (1, 0)


def test_a_job_out_of_memory_failed_without_a_signal(host) -> None:
    """Also one that was stored with Slurm's mark as its signal."""
    host.take(CASES / "t3.txt")
    assert host.value("SELECT exit_code FROM v1_jobs") == 1
    with writing(host.con, host.here) as con:
        con.execute("UPDATE SlurmRuns SET ExitSignal = 125")
        con.execute("UPDATE AAR SET ExitCode = 381")
    host.work().again()

    assert host.value("SELECT exit_code FROM v1_jobs") == 1


def test_bad_lines_are_counted_as_lines(host) -> None:
    """Noise is counted and shown; a line of no job is rejected; all jobs are there."""
    good = [row(number) for number in range(1, 41)]
    report = host.take(table("", *good[:20], "sacct: error: x", row(50)[20:], *good[20:], row(51)[:60]))

    assert (report.jobs, report.taken.added) == (41, 40)
    assert (report.rejected, report.bad_lines, report.noise) == (1, 1, 2)
    assert any("line 23: 'sacct: error: x' is not a row" in text for text in host.said)


def test_a_table_that_a_program_of_windows_has_written(host) -> None:
    """A mark at its beginning and another line end: the same jobs."""
    report = host.take(codecs.BOM_UTF8 + table(row(1), row(2)).replace(b"\n", b"\r\n"))

    assert (report.taken.added, report.rejected, report.noise) == (2, 0, 0)
    assert host.rows("SELECT DISTINCT job_name, node_names FROM v1_jobs") == [("job", "wn01")]


def test_outputs_that_are_joined_to_one_file(host) -> None:
    """The same header again is noise. With other columns it ends the reading: no value may come from another column."""
    report = host.take(table(row(1)) + table(row(2)))
    assert (report.taken.added, report.rejected, report.noise) == (2, 0, 1)

    swapped = COLUMNS.replace("User|Account", "Account|User")
    host.take(table(row(3)) + table(row(4), columns=swapped))
    assert "line 3 is another header, with other columns: import each output separately" in host.said[-1]
    assert host.rows("SELECT local_job_id, local_user, project FROM v1_jobs ORDER BY 1") == [
        (number, "alice", "atlas") for number in "123"
    ]


def test_no_cores_of_a_job_that_ran_are_unknown_cores(host) -> None:
    host.take(table(row(1, AllocCPUS=0)))

    assert host.rows("SELECT core_count, wall_s FROM v1_jobs") == [(None, 60)]


def test_what_cannot_be_used_is_kept_and_tried_again(host) -> None:
    """It stands for itself: after a change of options it is taken without its file."""
    lines = [row(number, Cluster="") for number in range(1, 4)]
    report = host.take(table(*lines, row(9)))
    assert (report.rejected, report.taken.added) == (3, 1)
    assert host.said[0].startswith("3 records, as output: line 2: its cluster is unknown")
    assert host.value("SELECT count(*) FROM ImportQuarantine WHERE Source = 'slurm'") == 3
    assert host.take(table(*lines, row(9))).rejected == 3
    assert host.value("SELECT count(*) FROM ImportQuarantine") == 3
    assert host.retry() == (3, 0, 0)
    assert host.retry(cluster=CLUSTER) == (3, 3, 0)
    assert host.value("SELECT count(*) FROM v1_jobs") == 4
    assert host.value("SELECT count(*) FROM ImportQuarantine") == 0


def test_an_error_of_the_database_costs_the_job_that_it_is_about(host) -> None:
    """Whatever is wrong with one, the others of its slice come; it is kept, and comes with a retry."""
    host.con.execute(
        "CREATE TEMP TRIGGER fault BEFORE INSERT ON main.AAR WHEN NEW.LocalJobID = '5'"
        " BEGIN SELECT RAISE(ABORT, 'x'); END"
    )
    report = host.take(table(*(row(number) for number in range(1, 10))))
    assert (report.rejected, report.taken.added) == (1, 8)
    host.con.execute("DROP TRIGGER fault")
    assert host.retry() == (1, 1, 0)
    assert host.value("SELECT count(*) FROM v1_jobs") == 9


@pytest.mark.parametrize("place", [0, 1, 3])
def test_an_import_that_is_interrupted_loses_nothing(host, monkeypatch, place) -> None:
    """A database that refuses ends it; the next one brings the rest."""
    taken = iter(range(100))
    whole = imports.take

    def refusing(*arguments):
        if next(taken) == place:
            raise StoreError("disk full")
        return whole(*arguments)

    monkeypatch.setattr("arcacct.sources.engine.imports.take", refusing)
    rows = [row(number) for number in range(1, 500)]
    with pytest.raises(StoreError, match="disk full"):
        host.take(table(*rows))
    monkeypatch.undo()
    host.take(table(*rows))

    assert host.value("SELECT count(*) FROM v1_jobs") == 499
    assert host.value("SELECT count(*) FROM v1_slurm_runs WHERE job_id IS NULL") == 0


def test_files(host, tmp_path) -> None:
    """What cannot be read is said; what stands before the end of a damaged one is taken."""
    content = json.dumps(json.loads(JSON.read_text(encoding="utf-8")))
    (tmp_path / "cut.json").write_text(content[: len(content) // 2])
    (tmp_path / "empty").write_text("")
    report = host.take(tmp_path / "cut.json", tmp_path / "empty", tmp_path / "none")

    assert report.unreadable == 3
    assert report.taken.added > 20
    assert [line.rpartition("/")[2].partition(":")[0] for line in host.said] == ["cut.json", "empty", "none"]


def test_a_change_of_map_lines(host) -> None:
    host.take(table(row()))
    host.site = BatchSite("", (map_rule("owner alice vo=atlas"),))
    host.take(table(row()))
    assert host.value("SELECT vo FROM v1_jobs") is None
    host.work().again()
    assert host.value("SELECT vo FROM v1_jobs") == "atlas"


ALLOCATED = f"{COLUMNS}|AllocTRES"
OF_JOBS = (
    "SELECT job_id, allocated_gpus, allocated_gpu_s, busy_gpu_s, gpus_energy_j, nodes_energy_j, gpus_source,"
    " energy_source FROM v1_jobs ORDER BY job_id"
)


def test_gpus_and_energy_of_jobs_come_from_their_runs(host) -> None:
    """Of a job of A-REX from all its runs; energy 0 is unknown, as is Slurm's NO_VAL64."""
    arc_job(host)
    host.take(
        table(
            f"{row(1, Submit=BEGIN - 2)}|cpu=2,energy=500,gres/gpu:a100=2,gres/gpu=2",
            f"{row(1, ElapsedRaw=30)}|cpu=2,energy=7,gres/gpu=4",
            f"{row(2)}|cpu=2,gres/gpu:a100=1,gres/gpu:h100=3,energy=18446744073709551614",
            f"{row(3)}|cpu=2,energy=0",
            f"{row(4)}|cpu=2",
            columns=ALLOCATED,
        )
    )

    assert [values for _job_id, *values in host.rows(OF_JOBS)] == [
        [4, 240, None, None, 507, "sacct", "sacct"],
        [4, 240, None, None, None, "sacct", None],
        [None] * 7,
        [None] * 7,
    ]


def test_a_run_takes_its_gpus_to_another_job_of_arex(host) -> None:
    """A job that A-REX recorded later is a better match: the first one has no GPUs any more."""
    arc_job(host)
    host.take(table(f"{row(1)}|cpu=2,energy=7,gres/gpu=4", columns=ALLOCATED))
    assert [values[:2] for values in host.rows(OF_JOBS)] == [("arc1", 4)]
    arc_job(host, "arc2", SubmitTime=BEGIN - 1)
    host.take()

    assert [values[:2] for values in host.rows(OF_JOBS)] == [("arc1", None), ("arc2", 4)]


@pytest.mark.parametrize(
    ("gpus", "gpu_s", "energy_j", "values"),
    [
        (3, 30, 9, [3, 30, 1.5, 2.5, 9, "sonar", "sonar"]),
        (3, 30, None, [3, 30, 1.5, 2.5, 7, "sonar", "sacct"]),
        (4, None, None, [4, 240, 1.5, 2.5, 7, "sonar", "sacct"]),
        (0, None, None, [None, None, 1.5, 2.5, 7, None, "sacct"]),
        (None, None, None, [4, 240, 1.5, 2.5, 7, "sacct", "sacct"]),
    ],
)
def test_telemetry_precedes_sacct_where_it_knows(host, gpus, gpu_s, energy_j, values) -> None:
    """Value by value; what only samples tell is always telemetry's. Of a run without an end it has no GPU seconds."""
    host.take(table(f"{row(1)}|cpu=2,energy=7,gres/gpu=4", columns=ALLOCATED))
    host.con.execute(
        "INSERT INTO JobAccelerators SELECT RecordID, 'sonar', 'c', ?, ?, 1.5, 2.5, ? FROM AAR",
        (gpus, gpu_s, energy_j),
    )

    assert [found for _job_id, *found in host.rows(OF_JOBS)] == [values]
