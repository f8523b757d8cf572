"""PBS's accounting logs: what is read of a line, what is left out, and the jobs that are made."""

from __future__ import annotations

from codecs import BOM_UTF8
from contextlib import closing

import pytest
from batch_files import BEGIN, DATA, BatchHost, reasons, runs
from slurm_files import arc_job

from arcacct.export.dataset import Partition
from arcacct.export.jobs import look, pages
from arcacct.queries.questions import Selection, measured_parts
from arcacct.records.batch_runs import BatchRun
from arcacct.records.runs import NoUsage
from arcacct.sources.pbs.importer import SOURCE, WITHOUT_END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
        "deleted by request, without an end in these files": 1,
        "aborted by the server, without an end in these files": 1,
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


def test_deletions_without_end_are_held_up_to_a_bound(monkeypatch) -> None:
    monkeypatch.setattr("arcacct.sources.pbs.importer._MOST_WITHOUT_END", 3)
    data = b"".join(other("D", f"{number}.srv") for number in range(1, 9)) + line("2.srv")
    found = [one.what for one in SOURCE.read([data], SOURCE.form)]

    assert found.count(NoUsage(WITHOUT_END["D"])) == 7
    assert sum(isinstance(one, BatchRun) for one in found) == 1


def test_a_last_line_without_a_line_end_is_left_and_said(host) -> None:
    """It may still be written; a copy that lost its end would lose a job that nobody misses."""
    report = host.take(line("1.srv") + line("2.srv").removesuffix(b"\n"))

    assert (report.jobs, report.taken.added, report.rejected, report.noise) == (1, 1, 0, 1)
    (said,) = host.said
    assert said.startswith("log: line 2: '11/02/2026 10:00:00;E;2.srv;user=ada group=g jobname=j queue' has no line")
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
        ({"exec_host": "n1/0*4", "exec_vnode": "(n1:ncpus=8)", "List_ncpus": "8"}, "cores", 8),
        ({"used_ncpus": "3", "List_ncpus": "8"}, "cores", 3),
        ({"exec_host": "x", "List_nodes": "2:ppn=6"}, "cores", 12),
        ({"exec_host": "x", "List_nodes": "n1:ppn=2+n2:ppn=3:gpus=1+n3"}, "cores", 6),
        ({"used_walltime": "61"}, "wall_s", 61),
        ({"used_walltime": "19:23:4"}, "wall_s", 69784),
        ({"used_mem": "16w"}, "memory_kib", 1),
        ({"used_mem": "3mb"}, "memory_kib", 3072),
        ({"used_mem": "2kw"}, "memory_kib", 16),
        ({"List_ngpus": "2"}, "gpus", 2),
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
        (line(end=f"{BEGIN + 70} end={BEGIN + 99}"), "end: two values: a text of a user may look like it"),
        (
            b"11/02/2026 10:00:00;0008;PBS_Server;Job;1.srv;Job Queued\n",
            "no accounting record: date and time, a letter, an",
        ),
        (b"garbage\n", "no accounting record: date and time, a letter, an"),
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
    assert look(host.con).seen[202611]["runs"] == 2


def test_a_job_of_arex_is_completed(host) -> None:
    """By number and server; a job of the same number of another server is another one."""
    record = arc_job(host, number="1.srv.example.org", SubmitTime=BEGIN - 5, EndTime=BEGIN + 100)
    host.take(line("1.srv"), line("1.other"))

    assert host.rows(
        f"SELECT wall_s, memory_kib FROM v1_jobs JOIN AAR ON JobID = job_id WHERE RecordID = {record}"
    ) == [(60, 2048)]
    assert host.rows("SELECT local_job_id FROM v1_jobs WHERE source = 'pbs'") == [("1.other",)]


def test_however_many_lines_are_rejected_they_are_news_once(host, tmp_path) -> None:
    """Of a file 1,000 are kept and the others only counted, of a long line the beginning: none is news again."""
    path = tmp_path / "20261102"
    path.write_bytes(b"".join(b"what is %d\n" % number for number in range(1100)) + b"x" * 2_000_000 + b"\n")

    assert [host.take(path).news for _ in range(3)] == [1101, 0, 0]
    with path.open("ab") as file:
        file.write(b"one more\n")
    assert [host.take(path).news for _ in range(2)] == [1, 0]
