"""LSF's lsb.acct: what is read of a line, what is left out, and the jobs that are made."""

from __future__ import annotations

from contextlib import closing

import pytest
from batch_files import BEGIN, DATA, BatchHost, reasons, runs
from slurm_files import arc_job

from arcacct.sources.lsf.importer import SOURCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = DATA / "lsf" / "lsb.acct"
LINES = LOG.read_bytes().splitlines(keepends=True)


@pytest.fixture
def host(tmp_path) -> Iterator[BatchHost]:
    found = BatchHost(tmp_path, SOURCE)
    with closing(found.con):
        yield found


def test_a_log(host) -> None:
    """Two runs of a job that was requeued are one job; one that never started is none."""
    report = host.take(LOG)

    assert (report.jobs, report.rejected, report.unused["never started"]) == (8, 0, 1)
    assert host.rows(
        "SELECT local_job_id, status, exit_code, wall_s, cpu_s, core_count, node_count, memory_kib, project"
        " FROM v1_jobs ORDER BY local_job_id"
    ) == [
        ("386", "completed", 0, 3600, 3513, 1, 1, 108544, "atlas"),
        ("387", "completed", 0, 600, 2020, 4, 2, 4096, "cms"),
        ("388[7]", "failed", 3, 600, 7100, 12, 2, 65536, None),
        ("389", "aborted", 2 + 256, 600, None, 1, 1, None, None),
        ("390", "failed", 9 + 256, 600, 1001, 2, 1, 2048, "higgs"),
        ("392", "completed", 0, 1700, 1403, 2, 1, 3072, "higgs"),
    ]
    assert host.rows("SELECT JobName FROM BatchRuns WHERE JobNumber = 387") == [('say "hi" 5',)]


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_however_it_is_cut_into_pieces(piece) -> None:
    assert runs(SOURCE, LOG.read_bytes(), piece) == runs(SOURCE, LOG.read_bytes())


def test_once_more_and_in_any_order_changes_nothing(host, tmp_path) -> None:
    host.take(LOG)
    found, logged = host.everything(), host.logged()
    host.take(LOG)
    other = BatchHost(tmp_path / "other", SOURCE)
    with closing(other.con):
        for part in reversed(LINES):
            other.take(part)

        assert (host.everything(), host.logged()) == (found, logged)
        assert other.everything() == found


@pytest.mark.parametrize("keep", ["exitStatus", "idx", "exitInfo"])
def test_the_end_of_a_record_may_lack(keep) -> None:
    """The blank in its command counts, too. Older versions end earlier; newer ones have more than is read."""
    upto = {"exitStatus": 51, "idx": 55, "exitInfo": 64}[keep]
    (whole,) = runs(SOURCE, LINES[0])
    (run,) = runs(SOURCE, b" ".join(LINES[0].split(b" ")[: upto + 1]) + b"\n")

    assert run[:9] == whole[:9]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b" 108544 204800 ", b" 1e30 204800 ", "maxRMem"),
        (b" 3500.25 ", b" abc ", "ru_utime"),
        (b'"atlas" 0 1 ', b'"atlas" -5 1 ', "exitStatus"),
        (b'"n1" 64 ', '"n1" ١٢٣ '.encode(), "jStatus"),
    ],
)
def test_an_odd_value_costs_itself(host, old, new, field) -> None:
    report = host.take(LINES[0].replace(old, new))

    assert report.unusable == {field: 1}
    assert host.rows("SELECT local_job_id, wall_s FROM v1_jobs") == [("386", 3600)]


def test_a_start_of_zeros_is_none(host) -> None:
    """However many: a run from 1970 on is none."""
    report = host.take(LINES[0].replace(b" 1793577604 ", b" 00 "))

    assert (report.rejected, report.unused) == (0, {"never started": 1})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (LINES[0].replace(b'0 1 "n1"', b'0 9999 "n1"'), "numExHosts: 9999 hosts, and the record ends before"),
        (LINES[0].replace(b" 386 ", b" x ", 1), "jobId: 'x' is not a number"),
        (LINES[0].replace(b" 1793577600 ", b" 0 ", 1), "submitTime: it is missing"),
        (LINES[2].replace(b" 7 ", " ² ".encode()), "idx: '²' is not a number"),
        (LINES[0][:200] + b"\n", "it ends before its exit status"),
        (LINES[0].replace(b'"pilot"', b'"pi"lot"'), "field 28 cannot be read"),
        (b"Killed\n", "'Killed' is not a type of a record"),
    ],
)
def test_what_cannot_be_used_costs_itself(host, content, reason) -> None:
    report = host.take(LINES[1] + content + LINES[2])

    assert reasons(SOURCE, content)[0].startswith(reason)
    assert (report.rejected, report.news, report.taken.added) == (1, 1, 2)
    assert host.take(LINES[1] + content + LINES[2]).news == 0


def test_a_job_of_arex_is_completed(host) -> None:
    record = arc_job(host, number="386", SubmitTime=BEGIN - 5, EndTime=BEGIN + 4000)
    host.take(LINES[0])

    assert host.rows(
        f"SELECT wall_s, memory_kib FROM v1_jobs JOIN AAR ON JobID = job_id WHERE RecordID = {record}"
    ) == [(3600, 108544)]
    assert host.rows("SELECT count(*) FROM v1_jobs") == [(1,)]
