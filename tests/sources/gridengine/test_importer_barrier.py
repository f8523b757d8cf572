"""Whatever a line of an accounting file does, it alone is left out, kept, and can be tried again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from gridengine_files import COLON, World, json_line, ran

from arcacct.config.paths import JobRules, Places
from arcacct.database.access import open_accounting
from arcacct.errors import StoreError
from arcacct.files.follow import LONGEST_LINE
from arcacct.records.rejected import LONGEST_BYTES, MOST_OF_A_FILE, listed


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    """A host without any job."""
    directory = tmp_path / "ours"
    directory.mkdir(mode=0o700)
    here = Places(str(tmp_path / "control"), str(directory / "accounting.db"), JobRules("HEPSPEC:1.0"), None)
    with closing(open_accounting(here)) as con:
        yield World(here, con)


def numbers(world: World) -> list[int]:
    """The numbers of the jobs that are there."""
    return [
        int(number) for (number,) in world.con.execute("SELECT local_job_id FROM v1_jobs ORDER BY 1 + local_job_id")
    ]


def kept(world: World) -> list[tuple[str, str]]:
    """Place and reason of what is in the quarantine."""
    return [(one.position, one.reason) for one in listed(world.con, "gridengine")]


BAD = [
    b"rubbish\n",
    b'{"job_number":' + b"9" * 5000 + b"}\n",
    b"[" * 50_000 + b"\n",
    b'{"a":' * 50_000 + b"\n",
    json_line().replace(b'"slots":1', b'"slots":9223372036854775808'),
    json_line().replace(b'"job_number":1', b'"job_number":1e999'),
    ran(7, 1, 10, 20, failed="9" * 400),
    ran(7, 1, 10, 20, slots="-1"),
    b"\xff\xfe:" * 40 + b"\n",
]


@pytest.mark.parametrize("line", BAD, ids=lambda line: repr(line[:20]))
def test_a_bad_line_is_kept_and_nothing_else_is_lost(world, tmp_path, line) -> None:
    """The jobs before and after it are there; it is kept as it was, once, however often it is met."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + line + ran(2, 1, 10, 20))
    (tmp_path / "other").write_bytes(ran(3, 1, 10, 20) + line)
    report = world.take(path, tmp_path / "other")

    assert (report.rejected, report.unreadable, numbers(world)) == (2, 0, [1, 2, 3])
    [one] = listed(world.con, "gridengine")
    assert (one.file, one.position, one.is_ours) == (str(path), "line 2", False)
    assert world.value("SELECT Content FROM ImportQuarantine") == line[: one.bytes]


def test_what_the_database_refuses_is_left_out_alone(world, tmp_path) -> None:
    """Of a hundred lines in one slice two cannot be stored: 98 are, in any order, and the two once they can be."""
    path = tmp_path / "accounting"
    path.write_bytes(b"".join(ran(number, 1, 10, 20) for number in range(1, 101)))
    condition = "new.JobNumber IN (17, 70)"
    world.con.execute(
        f"CREATE TRIGGER refuse BEFORE INSERT ON GridEngineRecords WHEN {condition} BEGIN SELECT RAISE(ABORT, ''); END"
    )
    report = world.take(path)

    assert (report.rejected, report.lines, report.taken.new, report.taken.added) == (2, 100, 98, 98)
    assert numbers(world) == [number for number in range(1, 101) if number not in (17, 70)]
    reason = "the database does not allow its values"
    assert kept(world) == [("line 17", reason), ("line 70", reason)]
    assert world.take(path).lines == 0

    world.con.execute("DROP TRIGGER refuse")
    done = world.work().retry()
    assert (done.tried, done.good, kept(world)) == (2, 2, [])
    assert numbers(world) == list(range(1, 101))
    lines = "SELECT line FROM v1_gridengine_records WHERE job_number IN (17, 70) ORDER BY line"
    assert world.con.execute(lines).fetchall() == [(17,), (70,)]


def test_a_retry_leaves_what_is_still_bad(world, tmp_path) -> None:
    """Nothing is lost, and nothing changes, when nothing has changed."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + b"rubbish\n")
    world.take(path)
    before = (world.everything(), world.seq())
    done = world.work().retry()

    assert (done.tried, done.good, len(kept(world))) == (1, 0, 1)
    assert (world.everything(), world.seq()) == before


def test_jobs_that_cannot_be_made_cost_themselves(world, tmp_path) -> None:
    """The database refuses a job of those that are made again: all others are, and it is said."""
    path = tmp_path / "accounting"
    path.write_bytes(b"".join(ran(number, 1, 10, 20) for number in range(1, 21)))
    world.take(path)
    world.con.execute("UPDATE AAR SET UsedWalltime = 3")
    world.con.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON AAR WHEN new.LocalJobID = '7' BEGIN SELECT RAISE(ABORT, ''); END"
    )
    work = world.work()
    work.again()
    work.finish()

    assert work.report.failed_jobs == 1
    assert world.said == [
        "job 7: cannot be rebuilt from its records: the database does not allow its values; it does not change"
    ]
    walls = "SELECT UsedWalltime, count(*), min(LocalJobID) FROM AAR GROUP BY 1 ORDER BY 1"
    assert world.con.execute(walls).fetchall() == [(3, 1, "7"), (10, 19, "1")]


def test_a_full_disk_is_no_fault_of_the_line(world, tmp_path) -> None:
    """The import ends with an error of the database, rejects nothing, and the next one takes all."""
    path = tmp_path / "accounting"
    path.write_bytes(b"".join(ran(number, 1, 10, 20, category="x" * 3000) for number in range(1, 400)))
    pages = world.value("PRAGMA page_count")
    world.con.execute(f"PRAGMA max_page_count = {pages + 100}")
    with pytest.raises(StoreError, match="full"):
        world.take(path)
    world.con.execute("PRAGMA max_page_count = 1000000")

    assert kept(world) == []
    world.take(path)
    assert numbers(world) == list(range(1, 400))


@pytest.mark.campaign
@pytest.mark.parametrize("size", [LONGEST_LINE - 100, LONGEST_LINE + 1, 3 * LONGEST_LINE])
def test_an_endless_line_is_passed_over(world, tmp_path, size) -> None:
    """It costs itself and no memory: its beginning is kept, and it is not read again."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + b"{" * size + b"\n" + ran(2, 1, 10, 20))
    report = world.take(path)

    assert (report.rejected, numbers(world)) == (1, [1, 2])
    [one] = listed(world.con, "gridengine")
    assert (one.bytes, one.is_whole, one.position) == (size + 1, False, "line 2")
    # It was never looked at as a record: that would have needed it as a whole.
    assert ("not a record of Grid Engine" in one.reason) == (size > 2 * LONGEST_LINE)
    assert len(world.value("SELECT Content FROM ImportQuarantine")) == LONGEST_BYTES
    with path.open("ab") as file:
        file.write(ran(3, 1, 10, 20))
    assert (world.take(path).lines, numbers(world)) == (1, [1, 2, 3])
    assert world.work().retry().needs_file == 1


def test_what_is_not_kept_whole_is_read_again(world, tmp_path) -> None:
    """Too long to be kept, or only counted: a retry with the file judges them again, and nothing is counted twice."""
    path = tmp_path / "accounting"
    rubbish = [b"rubbish %d\n" % number for number in range(MOST_OF_A_FILE + 30)]
    long = ran(2, 1, 10, 20, category="x" * LONGEST_BYTES)
    path.write_bytes(ran(1, 1, 10, 20) + b"".join(rubbish) + long)
    world.con.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON GridEngineRecords WHEN new.JobNumber = 2"
        " BEGIN SELECT RAISE(ABORT, ''); END"
    )
    world.take(path)
    rejected = "SELECT sum(Records) FROM ImportQuarantine"
    for _ in range(2):
        work = world.work()
        assert work.retry().needs_file == 31
        work.files([str(path)])
        assert (world.value(rejected), numbers(world)) == (MOST_OF_A_FILE + 31, [1])

    world.con.execute("DROP TRIGGER refuse")
    work = world.work()
    work.retry()
    work.files([str(path)])
    assert (world.value(rejected), numbers(world)) == (MOST_OF_A_FILE + 30, [1, 2])
    path.write_bytes(ran(1, 1, 10, 20) + long)
    world.take(path)
    assert world.value(rejected) == MOST_OF_A_FILE


def test_a_line_without_an_end_is_left(world, tmp_path) -> None:
    """A writer that stopped in an endless line: nothing is taken of it, and it is said."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + b"{" * (LONGEST_LINE + 5))
    report = world.take(path)

    assert (report.rejected, report.unreadable, numbers(world)) == (0, 0, [1])
    assert "is incomplete" in world.said[-1]


def test_two_cells_keep_what_they_reject_apart(world, tmp_path) -> None:
    """The same rubbish of two cells is two rows: a retry knows which cell it is of."""
    path = tmp_path / "accounting"
    path.write_bytes(b"rubbish\n" + COLON.read_bytes())
    world.take(path)
    world.site = world.site._replace(cell="other")
    world.take(path)

    assert [one.scope for one in listed(world.con, "gridengine")] == ["default", "other"]
    assert world.work().retry().tried == 1
