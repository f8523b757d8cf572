"""PBS's accounting logs: what is read of a line, what is left out, and the jobs that are made."""

from __future__ import annotations

import itertools
import pathlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import closing

import pytest
from batch_files import BEGIN, DATA, BatchHost, reasons, runs
from campaigns import sample
from slurm_files import arc_job

from arcacct.database.access import writing
from arcacct.export.dataset import Partition
from arcacct.export.jobs import look, pages
from arcacct.queries.lrms import lrms_month
from arcacct.queries.questions import Selection, measured_parts, walltimes
from arcacct.queries.usage import usage
from arcacct.records.benchmarks import Ratings, benchmark_changes
from arcacct.records.holds import decide
from arcacct.records.usage import by_benchmark
from arcacct.reports.tables import drawn, failures
from arcacct.sources.engine.batch_runs import LogForm
from arcacct.sources.engine.imports import BatchTaken
from arcacct.sources.engine.runs import figures_of_file
from arcacct.sources.pbs.importer import SOURCE, WITHOUT_END

CASES = DATA / "pbs" / "cases"
TORQUE, PRO = DATA / "pbs" / "torque-20261102", DATA / "pbs" / "pbspro-20261102"
ENDED = f"ctime={BEGIN} qtime={BEGIN} etime={BEGIN} start={BEGIN + 10} exec_host=n1/0 end={BEGIN + 70} Exit_status=0"
USED = "resources_used.cput=00:00:50 resources_used.mem=2048kb resources_used.walltime=00:01:00"


def line(
    job_id: str = "1.srv", head: str = "user=ada group=g jobname=j queue=q", kind: str = "E", **values: str
) -> bytes:
    """A line of a job that ended well, with other values for some keys behind ctime."""
    keys = dict(part.split("=", 1) for part in f"{ENDED} {USED}".split(" "))
    keys |= {
        name.replace("used_", "resources_used.").replace("List_", "Resource_List."): value
        for name, value in values.items()
    }
    tail = " ".join(f"{key}={value}" for key, value in keys.items())
    return f"11/02/2026 10:00:00;{kind};{job_id};{head} {tail}\n".encode()


@pytest.fixture
def host(tmp_path) -> Iterator[BatchHost]:
    found = BatchHost(tmp_path, SOURCE)
    with closing(found.con):
        yield found


def test_logs_of_torque_and_pbs_professional(host) -> None:
    """Two runs of one submission are one job; a job that never started, and an array as a whole, are none."""
    report = host.take(TORQUE, PRO)

    assert (report.jobs, report.rejected, report.noise) == (13, 0, 0)
    assert report.unused == {
        "never started": 1,
        "of an array as a whole, which uses nothing itself": 1,
        "deleted by request, without a usable end in these files or the database": 1,
        "aborted by the server, without a usable end in these files or the database": 1,
    }
    assert host.rows(
        "SELECT local_job_id, status, exit_code, wall_s, cpu_s, core_count, node_count, memory_kib, project"
        " FROM v1_jobs ORDER BY local_job_id"
    ) == [
        ("101.ce1.example.org", "completed", 0, 97384, 96604, 1, 1, 1843200, None),
        ("102.ce1.example.org", "failed", 271, 600, 5400, 12, 2, 2097152, "higgs"),
        ("104[7].ce1.example.org", "completed", 0, 104, 400, 4, 2, 55048, None),
        ("105.ce1.example.org", "failed", 1, 600, 598, 1, 1, 1, None),
        ("106.ce1.example.org", "failed", 3, 100, 50, 1, 1, None, None),
        ("107.ce1.example.org", "failed", 1, 71, None, 1, 1, None, None),
        ("2001.pbs01", "completed", 0, 400, 1530, 4, 1, 4580, "SC 0001"),
        ("2002[3].pbs01", "failed", 143, 5, 3, 2, 2, 4580, "climate"),
    ]


@pytest.mark.parametrize("start", ["", "0", "00"])
def test_a_start_of_zeros_is_none(host, start) -> None:
    """A run from 1970 on is none."""
    report = host.take(line(start=start))

    assert (report.rejected, report.unused) == (0, {"never started": 1})


def other(kind: str, job_id: str, message: str = "") -> bytes:
    """A line of a record that is no end."""
    return f"11/02/2026 09:59:00;{kind};{job_id};{message}\n".encode()


def test_a_job_that_was_deleted_while_it_ran_has_an_end(host) -> None:
    """Then it is the end that counts; one that was deleted, aborted or moved while it was queued is counted once."""
    report = host.take(
        other("D", "1.srv", "x=ada@ui.example.org") + line("1.srv", Exit_status="271"),
        *(other(kind, f"{number}.srv") * 2 for number, kind in enumerate("DAM", 2)),
        *(other(kind, "R9.srv") for kind in "BUYKkFDA"),
        *(other(kind, "3.srv", "x=1") for kind in "QSsuceCTzraLPp"),
    )

    assert host.rows("SELECT local_job_id, status, exit_code, wall_s FROM v1_jobs") == [("1.srv", "failed", 271, 60)]
    assert report.unused == dict.fromkeys(WITHOUT_END.values(), 1)
    assert (report.jobs, report.rejected, report.noise) == (4, 0, 0)


def test_an_end_in_the_log_of_the_next_day_is_found(host) -> None:
    """Also one that was imported before, but none of an earlier job of the same number."""
    one, other_day = CASES / "p37" / "20261101", CASES / "p37" / "20261102"

    assert (host.take(one, other_day).unused, host.take(one).unused) == ({}, {})
    assert host.take(one).jobs == 0
    later = one.read_bytes().replace(b"11/01/2026", b"11/08/2026")
    assert host.take(later).unused == {WITHOUT_END["D"]: 1}


def test_ends_are_found_however_many_jobs_were_deleted(host, monkeypatch) -> None:
    monkeypatch.setattr("arcacct.sources.engine.imports._MOST_LEFT", 3)
    deleted = [other("D", f"{number}.srv") for number in range(1, 9)]
    report = host.take(line("2.srv"), *deleted[:7], line("8.srv"), deleted[7])

    assert report.unused == {WITHOUT_END["D"]: 6}
    assert (report.jobs, report.taken.added) == (8, 2)


def test_a_last_line_without_a_line_end_is_left_and_said(host) -> None:
    """It may still be written; a copy that lost its end would lose a job that no one misses."""
    report = host.take(line("1.srv") + line("2.srv").removesuffix(b"\n"))

    assert (report.jobs, report.taken.added, report.rejected, report.noise) == (1, 1, 0, 1)
    (said,) = host.said
    assert said.startswith("output: line 2: '11/02/2026 10:00:00;E;2.srv;user=ada group=g jobname=j queue' has no line")
    assert said.endswith("left for the next import")
    assert host.take(line("1.srv") + line("2.srv")).taken.added == 1


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_log_that_a_program_of_windows_has_written(piece) -> None:
    """A mark at its beginning, also of one that was joined to another, and another line end."""
    content = BOM_UTF8 + line("1.srv") + BOM_UTF8 + line("2.srv")

    assert runs(SOURCE, content.replace(b"\n", b"\r\n"), piece) == runs(SOURCE, line("1.srv") + line("2.srv"))


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_however_it_is_cut_into_pieces(piece) -> None:
    content = TORQUE.read_bytes() + PRO.read_bytes()

    assert runs(SOURCE, content, piece) == runs(SOURCE, content)


def test_once_more_and_in_any_order_changes_nothing(host, tmp_path) -> None:
    host.take(TORQUE, PRO)
    found, logged = host.everything(), host.logged()
    host.take(PRO, TORQUE)
    other = BatchHost(tmp_path / "other", SOURCE)
    with closing(other.con):
        for part in reversed((TORQUE.read_bytes() + PRO.read_bytes()).splitlines(keepends=True)):
            other.take(part)

        assert (host.everything(), host.logged()) == (found, logged)
        assert other.everything() == found


@pytest.mark.parametrize(
    ("values", "field", "expected"),
    [
        ({"exec_host": "n1/0-5"}, "cores", 6),
        ({"exec_host": "n1/0-1,7+n2/3"}, "cores", 4),
        ({"exec_host": "n1/0*4+n2/1*2"}, "cores", 6),
        ({"exec_host": "n1/0*4 exec_vnode=(n1:ncpus=8)", "List_ncpus": "8"}, "cores", 8),
        ({"used_ncpus": "3", "List_ncpus": "8"}, "cores", 3),
        ({"exec_host": "x", "List_nodes": "2:ppn=6"}, "cores", 12),
        ({"exec_host": "x", "List_nodes": "n1:ppn=2+n2:ppn=3:gpus=1+n3"}, "cores", 6),
        ({"used_walltime": "61"}, "wall_s", 61),
        ({"used_walltime": "19:23:4"}, "wall_s", 69784),
        ({"used_mem": "16w"}, "memory_kib", 1),
        ({"used_mem": "3mb"}, "memory_kib", 3072),
        ({"used_mem": "2kw"}, "memory_kib", 16),
        ({"List_ngpus": "2"}, "gpus", 2),
        ({"used_ngpus": "1", "List_ngpus": "2"}, "gpus", 1),
        ({"List_select": "2:ncpus=8:ngpus=2+ngpus=1:ncpus=1"}, "gpus", 5),
        ({"List_gpus": "3"}, "gpus", 3),
        ({"exec_host": "x", "List_ncpus": "8", "List_nodes": "1"}, "cores", 8),
        ({"Exit_status": "271"}, "exit_signal", 15),
        ({"Exit_status": "-11"}, "exit_status", 1),
        ({"Exit_status": "139"}, "exit_status", 139),
    ],
)
def test_forms_of_values(values, field, expected) -> None:
    (run,) = runs(SOURCE, line(**values))

    assert getattr(run, field) == expected


@pytest.mark.parametrize(
    ("values", "name", "field"),
    [
        ({"used_mem": "16E"}, "resources_used.mem", "memory_kib"),
        ({"used_walltime": "-1"}, "resources_used.walltime", "wall_s"),
        ({"used_cput": "99999999999999999:00:00"}, "resources_used.cput", "cpu_user_s"),
        ({"Exit_status": "x"}, "Exit_status", "exit_status"),
        ({"List_ngpus": "0.5"}, "Resource_List.ngpus", "gpus"),
    ],
)
def test_an_odd_value_costs_itself(host, values, name, field) -> None:
    report = host.take(line(**values))

    assert report.unusable == {name: 1}
    assert getattr(runs(SOURCE, line(**values))[0], field) is None
    assert host.rows("SELECT count(*) FROM v1_jobs") == [(1,)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (line(end="x"), "end: 'x' is not a number"),
        (line(ctime="00"), "ctime: it is missing"),
        (line(ctime=""), "ctime: it is missing"),
        (line(end=str(BEGIN)), "it ended 10 s before it started"),
        (line(job_id="?"), "'?' is not an id of a job"),
        (line(end=f"{BEGIN + 70} end={BEGIN + 99}"), "end is at character 119 and 134 after the job's ID"),
        (
            b"11/02/2026 10:00:00;0008;PBS_Server;Job;1.srv;Job Queued\n",
            "not an accounting record: date and time, a letter, an",
        ),
        (b"garbage\n", "not an accounting record: date and time, a letter, an"),
    ],
)
def test_what_cannot_be_used_costs_itself(host, content, reason) -> None:
    report = host.take(line("7.srv") + content + line("8.srv"))

    assert reasons(SOURCE, content)[0].startswith(reason)
    assert (report.rejected, report.news, report.taken.added) == (1, 1, 2)
    assert host.take(line("7.srv") + content + line("8.srv")).news == 0


def test_the_name_of_a_job_pretends_nothing() -> None:
    name = f"x queue=gold ctime=1 start=2 resources_used.walltime=99:00:00 end={BEGIN}"
    (run,) = runs(SOURCE, line(head=f"user=ada group=g jobname={name} queue=q"))

    assert (run.user, run.queue, run.wall_s, run.submit_time, run.end_time) == ("ada", "q", 60, BEGIN, BEGIN + 70)


WORKQ = ("ada", "phys", "workq", 1793520100, 1793523700, "n1", 8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, WORKQ) for name in ("p4", "p4b", "p4c", "p4d", "p4e", "p26", "p24", "p9")),
        *((name, (*WORKQ[:2], "R7", *WORKQ[3:])) for name in ("p25", "p25b")),
    ],
)
def test_a_value_of_the_server_is_read_where_the_server_writes_it(name, expected) -> None:
    """A text of a user, a reservation, or another order of the keys changes nothing."""
    (run,) = runs(SOURCE, (CASES / f"{name}.acc").read_bytes())

    assert (run.user, run.group, run.queue, run.start_time, run.end_time, run.node_list, run.cores) == expected
    assert (run.submit_time, run.wall_s, run.state) == (1793520000, None if name == "p4e" else 3600, "completed")


def test_a_text_of_a_user_ends_where_its_quotes_end() -> None:
    found = runs(SOURCE, (CASES / "p38.acc").read_bytes() + (CASES / "p9.acc").read_bytes())

    assert [(run.account, run.project, run.queue) for run in found] == [
        ("", "a account=gold", "workq"),
        ("real", "a account=gold", "workq"),
        ("x project=gold queue=vip", "", "workq"),
        ("proj42", "", "workq"),
    ]


@pytest.mark.parametrize(
    ("head", "texts"),
    [
        ('gridname="G x" user=ada group=g account="a b" project=p', ("ada", "g", "a b", "p")),
        ('user=ada group=domain users project="my p" accounting_id="0x1"', ("ada", "domain users", "", "my p")),
        ('user=ada group="R Users" project=p accounting_id="0x1"', ("ada", "R Users", "", "p")),
        ('user=ada group=g account="" accounting_id="0x1"', ("ada", "g", "", "")),
        ("user=ada group=g account=a project=b", ("ada", "g", "a project=b", "")),
    ],
)
def test_the_order_of_the_texts_decides_where_each_ends(head, texts) -> None:
    (run,) = runs(SOURCE, line(head=f"{head} jobname=j queue=q"))

    assert (run.user, run.group, run.account, run.project, run.name, run.queue) == (*texts, "j", "q")


FORGED = f"queue=vip ctime={BEGIN} qtime={BEGIN} etime={BEGIN} start={BEGIN + 9} exec_host=n9/0"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (line(head=f"user=ada group=g jobname=j {FORGED} x=1 queue=q"), "ctime"),
        (line(exec_host=f'n1/0 Resource_List.software="a {FORGED} b"'), "ctime"),
        (line(exec_host="n1/0 Resource_List.software=a end=5 Exit_status=0 b"), "end"),
        (line(used_walltime="60 resources_used.walltime=1"), "resources_used.walltime"),
        (line(head='user=ada group=g account="a" project=x" project=p jobname=j queue=q'), "project"),
        (line(head="user=ada group=g account=a jobname=x jobname=j queue=q"), "jobname"),
        (line(head='gridname="a" user=eve group=h" user=ada group=g jobname=j queue=q'), "user"),
        (line(head='user=ada group=g project="a accounting_id="b" jobname=j queue=q'), "accounting_id"),
        (line(head=f'user=ada group=g project="{"a " * 250_000} accounting_id="b jobname=j queue=q'), "accounting_id"),
        (line(head="user=ada group=g jobname=j queue=vip resvname=r queue=R7 resvname=s resvID=R7.srv"), "queue"),
    ],
)
def test_a_line_that_can_be_read_in_two_ways_is_rejected(content, key) -> None:
    """By the key that decides, and its places."""
    (reason,) = reasons(SOURCE, content)

    text = content.decode().split(";", 3)[3]
    assert reason.startswith(f"{key} is at character ")
    assert reason.endswith(" and a user's text may contain it; correct the line, or drop the record")
    for place in reason.removeprefix(f"{key} is at character ").partition(" after")[0].split(" and "):
        assert f" {text}"[int(place) - 1 :].startswith(f" {key}=")


def test_a_request_behind_a_text_without_quotes_is_unsure(host) -> None:
    """It is unknown and counted; a key within quotes is a part of the text."""
    report = host.take(
        line("1.srv", exec_host="n1/0 Resource_List.software=a b Resource_List.ngpus=9"),
        line("2.srv", exec_host='n1/0 Resource_List.ngpus=2 Resource_List.software="a Resource_List.ngpus=9"'),
        line("3.srv", exec_host="n1/0 Resource_List.a=\" Resource_List.ngpus=2 Resource_List.b='x \" y'"),
    )

    assert host.rows("SELECT JobNumber, GPUs FROM BatchRuns ORDER BY 1") == [(1, None), (2, 2), (3, None)]
    assert report.unusable == {"Resource_List.ngpus": 2}


@pytest.mark.parametrize(
    ("place", "key"), [("etime", "Exit_status"), ("queue", "Exit_status"), ("exec_host", "session"), (None, "account")]
)
def test_a_fork_may_write_a_key_elsewhere(place, key) -> None:
    plain = line().decode().replace(" Exit_status=0", "").rstrip("\n").split(" ")
    value = {"Exit_status": "0", "session": "9", "account": "my proj"}[key]
    at = len(plain) if place is None else [one.partition("=")[0] for one in plain].index(place) + 1
    (run,) = runs(SOURCE, (" ".join([*plain[:at], f"{key}={value}", *plain[at:]]) + "\n").encode())

    assert (run.exit_status, run.account) == (0 if key == "Exit_status" else None, "my proj" if place is None else "")
    assert (run.user, run.queue, run.node_list, run.wall_s, run.end_time) == ("ada", "q", "n1", 60, BEGIN + 70)


def test_a_server_value_that_another_writer_leaves_out_is_counted(host) -> None:
    keys = (CASES / "p24.acc").read_text().strip().split(";", 3)[3].split(" ")
    without = [one for one in keys if not one.startswith(("user=", "group="))]
    report = host.take(other("E", "1.srv", " ".join(without)))

    assert report.unusable == {"user": 1, "group": 1}
    assert host.rows("SELECT UserName, GroupName, QueueName, CPUs FROM BatchRuns") == [("", "", "workq", 8)]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("x account=gold", "account"),
        ("x exec_vnode=(n9:ncpus=9)", "exec_vnode"),
        ("x owner=eve project=gold", "project"),
        ("x lucky=1", "lucky"),
        ("x qtime=1", "qtime"),
    ],
)
def test_a_key_in_a_text_is_out_of_order_in_a_sorted_line(name, key) -> None:
    content = (CASES / "p24.acc").read_text().replace("jobname=sim", f"jobname={name}").encode()

    assert reasons(SOURCE, content)[0].startswith(f"{key} is at character ")


@pytest.mark.parametrize(("name", "wall_s"), [("p28", [3600]), ("p35", [3599, 3600])])
def test_a_wall_time_of_zero_between_other_times_is_by_the_times(host, name, wall_s) -> None:
    """It is marked as not measured."""
    host.take(CASES / f"{name}.acc")

    assert [row[0] for row in host.rows("SELECT wall_s FROM v1_jobs ORDER BY job_id")] == wall_s
    marked = host.rows("SELECT count(*) FROM FieldSources WHERE Field = 'wall_s' AND Source = 'default'")
    assert marked == [(len(wall_s),)]


def core_hours(host: BatchHost) -> float:
    """What `stats` shows."""
    return usage(host.con, Selection(), ("month",), details=False).total[4]


def differences(host: BatchHost, *logs: pathlib.Path) -> list[str]:
    """What `verify --lrms` finds in November 2026."""
    found = itertools.chain.from_iterable(
        figures_of_file(SOURCE, str(log), LogForm(), 0, 2**34, SOURCE.parts(host.con)) for log in logs
    )
    return [one.text for one in lrms_month("pbs", found, host.con, SOURCE.system, (2026, 11)).differences]


def test_core_seconds_of_runs_with_different_cores_are_exact(host) -> None:
    """16 cores for 600 s and 8 for 3,600 s: the record has the larger number, and a wall time that is marked."""
    host.take(CASES / "p36.acc")

    assert host.rows("SELECT core_count, wall_s, cpu_s FROM v1_jobs") == [(16, 2400, 32400)]
    assert host.rows("SELECT Field, Source FROM FieldSources") == [("wall_s", "runs")]
    assert core_hours(host) == round(38400 / 3600, 3)
    assert differences(host, CASES / "p36.acc") == []
    assert host.rows("SELECT core_s FROM v1_batch_runs ORDER BY start_time") == [(9600,), (28800,)]


def test_what_the_wall_time_of_different_cores_cannot_say_is_counted(host) -> None:
    """3 cores for 61 s and 2 for 60 s are 303 s: a wall time of 101 s. With 1 s more, 306 s: 102 s."""
    first = line(kind="R", exec_host="n1/0*2", end=str(BEGIN + 70), used_walltime="60")
    host.take(first + line(start=str(BEGIN + 100), exec_host="n1/0*3", end=str(BEGIN + 161), used_walltime="61"))
    for _ in range(2):
        assert host.rows("SELECT core_count, wall_s FROM v1_jobs") == [(3, 101)]
        assert core_hours(host) == round(303 / 3600, 3)
        host.take(b"")
    with writing(host.con, host.here) as con:
        con.execute(
            "INSERT INTO RecordHolds (RecordID, Reasons, Doubts, State, IsHeld, Since, UsedWalltime)"
            " SELECT RecordID, '', '', 'bound', 0, 0, 50 FROM AAR"
        )

    assert core_hours(host) == round(150 / 3600, 3)


def test_every_report_has_the_exact_core_seconds(host) -> None:
    """2 cores and 3 cores for 61 s: 305 s, while the record says 3 x 102 s. In kept sums, and in the newest change."""
    first = line(kind="R", exec_host="n1/0*2", end=str(BEGIN + 71), used_walltime="61")
    last = line(start=str(BEGIN + 100), exec_host="n1/0*3", end=str(BEGIN + 161), used_walltime="61", Exit_status="1")
    host.take(first + last)

    def reported() -> list[float]:
        whole = (0, 2**33)
        return [
            sum(one.core_s for one in by_benchmark(host.con, [(2026, 11)])),
            sum(core_s for _, core_s in walltimes(host.con, *whole).values()),
            sum(one.core_s for one in failures(host.con, *whole)),
            sum(one.core_s for one in drawn(host.con, *whole, with_hosts=False)),
            sum(
                one.core_s
                for page in benchmark_changes(host.con, Ratings(*whole, (), everything="HEPSPEC:2"))
                for one in page
            ),
        ]

    assert host.rows("SELECT core_count, wall_s FROM v1_jobs") == [(3, 102)]
    assert reported() == [2 * 61 + 3 * 61] * 5
    with writing(host.con, host.here) as con:
        con.execute("UPDATE AAR SET ExitCode = 2")
    assert reported() == [2 * 61 + 3 * 61] * 5


def test_a_run_without_cpu_time_leaves_a_lower_bound(host) -> None:
    report = host.take(CASES / "p3.acc")

    assert host.rows("SELECT cpu_s, wall_s, core_count FROM v1_jobs") == [(25200, 4200, 8)]
    assert ("cpu_user_s", "runs") in host.rows("SELECT Field, Source FROM FieldSources")
    assert (report.taken.with_part_of_cpu, report.taken.without_cpu) == (1, 0)
    assert differences(host, CASES / "p3.acc") == []


def test_nodes_that_are_released_early_count_until_then(host) -> None:
    """16 cores for 600 s and 8 for 3,000 s; whatever comes first."""
    report = host.take(CASES / "p15.acc")

    assert (report.jobs, report.rejected, report.taken.new) == (1, 0, 1)
    assert host.rows("SELECT core_count, wall_s, cpu_s FROM v1_jobs") == [(16, 2100, 25200)]
    assert host.rows("SELECT Field, Source FROM FieldSources") == [("wall_s", "runs")]
    assert host.rows("SELECT wall_s, core_s FROM v1_batch_runs") == [(3600, 33600)]
    assert core_hours(host) == round(33600 / 3600, 3)
    assert differences(host, CASES / "p15.acc") == []


def test_phases_in_the_log_of_the_day_before_are_no_difference(host, tmp_path) -> None:
    """They were imported. What the log of the day itself says is compared: another end is one."""
    host.take(CASES / "p15.acc")
    today = tmp_path / "20261102"
    *_, last = (CASES / "p15.acc").read_bytes().splitlines(keepends=True)
    today.write_bytes(last)

    assert differences(host, today) == []
    today.write_bytes(last.replace(b"walltime=01:00:00", b"walltime=01:00:10"))
    assert differences(host, today) == ["core seconds 33760 s, in the database 33600 s"]


@pytest.mark.parametrize("order", sample([*itertools.permutations(range(4))], 8))
def test_phases_of_a_run_count_in_any_order(host, order) -> None:
    lines = (CASES / "p15.acc").read_bytes().splitlines(keepends=True)
    for place in order:
        host.take(lines[place])

    assert host.rows("SELECT core_count, wall_s FROM v1_jobs") == [(16, 2100)]
    assert host.rows("SELECT wall_s, core_s FROM v1_batch_runs") == [(3600, 33600)]
    found, logged = host.everything(), host.logged()
    host.take(CASES / "p15.acc")
    assert (host.everything(), host.logged()) == (found, logged)


def test_phases_whose_times_are_since_the_start_count_once(host) -> None:
    content = (CASES / "p15.acc").read_bytes().replace(b"walltime=00:50:00", b"walltime=01:00:00")
    host.take(content)

    assert host.rows("SELECT core_s FROM v1_batch_runs") == [(33600,)]


def test_a_run_of_which_only_a_phase_is_known_is_no_run_yet(host) -> None:
    first, *_ = (CASES / "p15.acc").read_bytes().splitlines(keepends=True)
    report = host.take(first)

    assert (report.jobs, report.taken) == (0, BatchTaken())
    assert host.rows("SELECT count(*) FROM v1_jobs") == host.rows("SELECT count(*) FROM v1_batch_runs") == [(0,)]
    assert differences(host, CASES / "p37" / "20261102") == ["wall 3600 s and CPU 25200 s, and not in the database"]


def test_a_job_that_is_run_again_is_recorded_after_its_end(host) -> None:
    """Its first run is no failed job: over the end of a month, that would be counted in both."""
    report = host.take(CASES / "p41a.acc")

    assert (report.taken.followed, report.taken.added) == (1, 0)
    assert differences(host, CASES / "p41a.acc") == []
    assert host.take(CASES / "p41a.acc").taken.followed == 1
    report = host.take(CASES / "p41b.acc")
    assert (report.taken.followed, report.taken.added) == (0, 1)
    assert host.rows("SELECT status, wall_s, core_count FROM v1_jobs") == [("completed", 1800 + 36000, 8)]
    assert host.logged() == 1
    assert differences(host, CASES / "p41a.acc", CASES / "p41b.acc") == []


@pytest.mark.parametrize(("after_s", "recorded"), [(86_399, 0), (86_400, 1)])
def test_a_day_of_its_servers_log_without_another_run_is_the_end(host, after_s, recorded) -> None:
    """The time of the log counts, not the clock of this host; nor does the log of another server."""
    run = line("1.srv", kind="R", Exit_status="-11")
    host.take(run, line("2.other", end=str(BEGIN + 70 + 10 * 86_400)))
    assert host.rows("SELECT local_job_id FROM v1_jobs") == [("2.other",)]
    host.take(line("3.srv", end=str(BEGIN + 70 + after_s)))

    assert host.rows("SELECT status FROM v1_jobs WHERE local_job_id = '1.srv'") == [("failed",)] * recorded
    host.take(line("1.srv", start=str(BEGIN + 500), end=str(BEGIN + 600)))
    assert host.rows("SELECT status, wall_s FROM v1_jobs WHERE local_job_id = '1.srv'") == [("completed", 120)]


@pytest.mark.parametrize(
    ("name", "cores", "gpus"),
    [("p7", 8, 4), ("p11", 64, None), ("p12", 48, 4), ("p21", 4, None), ("p42", 2, None), ("p22", 2, None)],
)
def test_cores_and_gpus_are_those_of_the_request_where_the_server_counts_none(name, cores, gpus) -> None:
    (run,) = runs(SOURCE, (CASES / f"{name}.acc").read_bytes())

    assert (run.cores, run.gpus) == (cores, gpus)


def test_a_last_line_without_its_end_is_left() -> None:
    assert len(runs(SOURCE, line("1.srv") + line("2.srv")[:-1])) == 1


def test_gpus_are_in_sums_and_in_datasets(host) -> None:
    """Those that PBS Professional was asked for, times the wall time; without one from start to end."""
    host.take(line("1.srv", List_ngpus="2"), line("2.srv", List_ngpus="3", used_walltime="x"))
    exported = {
        job.children["accelerators"][0][1:4]
        for page in pages(host.con, Partition("site", 2026, 11, "ce"))
        for job in page
    }
    parts = measured_parts(host.con, Selection(), ("month",), everything=False)

    assert sum(part.gpu_s or 0 for part in parts) == (2 + 3) * 60
    assert exported == {("srv", 2, 120), ("srv", 3, 180)}
    assert look(host.con).seen[202611]["accelerators"] == 2 + (2 + 120) + (3 + 180)


@pytest.mark.parametrize(
    ("decision", "gpu_s"), [("bound", 4 * 370), ("unknown", None), ("reported", 4 * 360_000), ("excluded", None)]
)
def test_gpu_time_follows_the_decision_about_the_wall_time(host, decision, gpu_s) -> None:
    """GPU seconds are GPUs times wall time, so an impossible wall time gives impossible ones."""
    host.take(line(List_ngpus="4", used_walltime="100:00:00"))
    (record_id,) = host.con.execute("SELECT RecordID FROM RecordHolds WHERE IsHeld").fetchone()
    decide(host.con, record_id, decision, "root")

    assert host.rows("SELECT allocated_gpus, allocated_gpu_s FROM v1_jobs") == [(4, gpu_s)]


def test_a_job_of_arex_is_completed(host) -> None:
    """By number and server; a job of the same number of another server is another one."""
    record = arc_job(host, number="1.srv.example.org", SubmitTime=BEGIN - 5, EndTime=BEGIN + 100)
    host.take(line("1.srv"), line("1.other"))

    assert host.rows(
        f"SELECT wall_s, memory_kib FROM v1_jobs JOIN AAR ON JobID = job_id WHERE RecordID = {record}"
    ) == [(60, 2048)]
    assert host.rows("SELECT local_job_id FROM v1_jobs WHERE source = 'pbs'") == [("1.other",)]


WIDE = {"start": str(BEGIN + 10), "end": str(BEGIN + 610), "used_walltime": "600", "exec_host": "n1/0*16"}
NARROW = {"start": str(BEGIN + 700), "end": str(BEGIN + 4301), "used_walltime": "3601", "exec_host": "n1/0*8"}
OF_AREX = "SELECT core_count, wall_s, cpu_s FROM v1_jobs WHERE source IS NOT 'pbs'"
MARKED = "SELECT Field FROM FieldSources WHERE Source = 'runs' ORDER BY 1"


def of_two_runs(*, has_cpu: bool = True) -> tuple[bytes, bytes]:
    """A job of A-REX that ran with 16 cores, and then with 8."""
    narrow = NARROW if has_cpu else NARROW | {"used_cput": ""}
    return line(kind="R", Exit_status="-11", **WIDE), line(**narrow)


CORE_S = "SELECT UsedWalltime * CPUCount + CoreRest FROM AccountedAAR"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_job_of_arex_gets_the_exact_core_seconds_of_its_runs(host, order) -> None:
    """With the wall time and the cores, which are calculated; and the CPU time of only some runs is marked."""
    arc_job(host, number="1.srv", SubmitTime=BEGIN - 5, EndTime=BEGIN + 4400)
    logs = of_two_runs(has_cpu=False)
    host.take(logs[order[0]])
    host.take(logs[order[1]])

    assert host.rows(OF_AREX) == [(16, 2400, 50)]
    assert host.rows(CORE_S) == [(16 * 600 + 8 * 3601,)]
    assert host.rows(MARKED) == [("cpu_user_s",), ("wall_s",)]
    host.take(of_two_runs()[1])
    assert (host.rows(OF_AREX), host.rows(MARKED)) == ([(16, 2400, 100)], [("wall_s",)])


@pytest.mark.parametrize("measured", [{"UsedWalltime": 4000}, {"CPUCount": 4}])
def test_core_seconds_of_runs_belong_to_their_wall_time_and_cores(host, measured) -> None:
    """What A-REX measured stays, and then the sum is that of the record."""
    arc_job(host, number="1.srv", SubmitTime=BEGIN - 5, EndTime=BEGIN + 4400, **measured)
    host.take(*of_two_runs())

    ((cores, wall_s, _cpu_s),) = host.rows(OF_AREX)
    assert (cores, wall_s) == (measured.get("CPUCount", 16), measured.get("UsedWalltime", 2400))
    assert host.rows(CORE_S) == [(cores * wall_s,)]


def test_however_many_lines_are_rejected_they_are_news_once(host, tmp_path) -> None:
    """Of a file 1,000 are kept and the others only counted, of a long line the beginning: none is news again."""
    path = tmp_path / "20261102"
    path.write_bytes(b"".join(b"what is %d\n" % number for number in range(1100)) + b"x" * 2_000_000 + b"\n")

    assert [host.take(path).news for _ in range(3)] == [1101, 0, 0]
    with path.open("ab") as file:
        file.write(b"one more\n")
    assert [host.take(path).news for _ in range(2)] == [1, 0]
