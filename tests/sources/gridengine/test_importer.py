"""Importing Grid Engine's accounting files: each record once, whatever happens to the files."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from campaigns import examples
from control_directory import set_up
from gridengine_files import BEGIN, COLON, ENCODINGS, JSON_90, JSON_91, SITE, World, changed_json, json_line, ran
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_texts import car

from arcacct.config.paths import places
from arcacct.config.values import map_rule
from arcacct.database.access import open_accounting
from arcacct.errors import StoreError
from arcacct.records.reader import ended_between
from arcacct.sources.engine.runs import BatchSite, figures_of_file
from arcacct.sources.gridengine.importer import SOURCE
from arcacct.targets.apel.messages import APELOptions

MIXED = [
    line
    for lines in zip(*(path.read_bytes().splitlines(keepends=True) for path in ENCODINGS), strict=True)
    for line in lines[len(lines[0]) % 3 : len(lines[0]) % 3 + 1]
]
"""The real records, some as colon lines and some as JSON of both versions, with the headers."""


@contextmanager
def opened(folder: pathlib.Path) -> Iterator[World]:
    here = places(None, set_up(folder / "control"))
    with closing(open_accounting(here)) as con:
        yield World(here, con)


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    with opened(tmp_path) as world:
        yield world


def imported(*contents: bytes, twice: bool = False) -> list[object]:
    """Everything in a new database after an import of files with these contents, one command each."""
    with tempfile.TemporaryDirectory() as name, opened(pathlib.Path(name)) as world:
        for number, content in enumerate(contents):
            path = pathlib.Path(name, f"accounting.{number}")
            path.write_bytes(content)
            world.take(path)
            if twice:
                world.take(path)
        return world.everything()


def test_a_real_file(world) -> None:
    """41 jobs and tasks: 39 ran, two never started, every record is kept."""
    report = world.take(COLON)

    assert (report.lines, report.rejected, report.taken.new, report.taken.added) == (49, 0, 45, 39)
    assert world.value("SELECT count(*) FROM AAR") == 39
    assert world.value("SELECT count(*) FROM v1_gridengine_records") == 45
    assert world.value("SELECT count(DISTINCT job_number) FROM v1_gridengine_records WHERE job_id IS NULL") == 2


def test_jobs_are_published_as_local(world) -> None:
    """A job of Grid Engine has no endpoint: its record says local, and the site's name for its batch system."""
    world.take(COLON)
    aars = [aar for page in ended_between(world.con, 0, 2**33) for aar in page]
    text = car(aars[0], APELOptions(site="SITE", lrms_host="ge.example.org"), BEGIN)

    assert len(aars) == 39
    assert {aar.endpoint_url for aar in aars} == {None}
    assert 'type="local"' in text
    assert "ur-ge.example.org-gesge:default:" in text


@pytest.mark.parametrize("path", [JSON_90, JSON_91], ids=["9.0", "9.1"])
def test_all_encodings_give_the_same_database(path) -> None:
    """9.0, 9.1 and colon files of the same jobs end in the same jobs."""
    with tempfile.TemporaryDirectory() as name:
        with opened(pathlib.Path(name, "one")) as world:
            world.take(COLON)
            jobs = world.jobs()
        with opened(pathlib.Path(name, "other")) as world:
            world.take(path)
            assert world.jobs() == jobs


@pytest.mark.parametrize("copy", [False, True], ids=["the same file", "a copy"])
def test_nothing_is_imported_twice(world, tmp_path, copy) -> None:
    """A second import adds, changes and logs nothing, and does not read what it has read."""
    world.take(COLON)
    before, seq = world.everything(), world.seq()
    path = shutil.copy(COLON, tmp_path / "copy") if copy else COLON

    report = world.take(path)

    assert (report.lines, report.taken.new, report.taken.known) == (0, 0, 0)
    assert world.everything() == before
    assert world.seq() == seq


def test_another_encoding_adds_only_what_it_knows_more(world) -> None:
    """The JSON of a file that was imported as colon lines completes the records and changes no job."""
    world.take(COLON)
    jobs, seq = world.jobs(), world.seq()

    report = world.take(JSON_91)

    assert (report.taken.new, report.taken.known, report.taken.changed) == (0, 45, 0)
    assert world.value("SELECT count(*) FROM v1_gridengine_records WHERE maxrss_bytes IS NULL") == 0
    assert (world.jobs(), world.seq()) == (jobs, seq)


@pytest.mark.campaign
@given(st.integers(0, len(b"".join(MIXED))))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_file_cut_anywhere(cut: int) -> None:
    """A file that was cut at any byte, imported, completed and imported again is as if it had been imported once."""
    content = b"".join(MIXED)
    with tempfile.TemporaryDirectory() as name, opened(pathlib.Path(name)) as world:
        path = pathlib.Path(name, "accounting.0")
        path.write_bytes(content[:cut])
        first = world.take(path)
        with path.open("ab") as file:
            file.write(content[cut:])
        second = world.take(path)

        assert (first.rejected, second.rejected) == (0, 0)
        assert (first.taken.new + second.taken.new, second.taken.known) == (45, 0)
        assert world.everything() == WHOLE


WHOLE = imported(b"".join(MIXED))


@given(st.lists(st.booleans(), min_size=len(MIXED), max_size=len(MIXED)))
@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_two_files_in_any_order(choice: list[bool]) -> None:
    """However records are spread over two files, either order of them ends in the same database."""
    one = b"".join(line for line, first in zip(MIXED, choice, strict=True) if first)
    other = b"".join(line for line, first in zip(MIXED, choice, strict=True) if not first)

    assert imported(one, other) == WHOLE
    assert imported(other, one, twice=True) == WHOLE


LATER = ran(8, 0, 0, 86_500, failed=26)
"""A record of a job that never ran: the log is a day further."""


def test_a_rescheduled_job_is_recorded_after_its_last_run(world, tmp_path) -> None:
    """Or after a day without one, by the time of the log."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 1, 10, 20, failed=25, exit_status=99, slots=4) + ran(9, 1, 10, 86_419))

    assert world.take(path).taken.followed == 1
    assert world.take(path).taken.followed == 1
    assert world.value("SELECT group_concat(local_job_id) FROM v1_jobs") == "9"
    with path.open("ab") as file:
        file.write(ran(7, 86_430, 86_440, 86_450, slots=2))
    assert world.take(path).taken.followed == 0
    assert world.con.execute("SELECT core_count, wall_s, status FROM v1_jobs WHERE local_job_id = '7'").fetchall() == [
        (4, 15, "completed")
    ]
    found = figures_of_file(SOURCE, str(path), SOURCE.form, 0, 2**33)
    assert [one.core_s for one in found if one.local_job_id == "7"] == [4 * 10 + 2 * 10]


def test_a_requeued_job_is_corrected(world, tmp_path) -> None:
    """A job that was imported after its first run is the same job after its second, and is logged once more."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 1, 10, 20, failed=25, exit_status=99) + LATER)
    world.take(path)
    record_id, seq = world.value("SELECT RecordID FROM AAR"), world.seq()
    with path.open("ab") as file:
        file.write(ran(7, 21, 30, 50))

    report = world.take(path)

    assert (report.taken.added, report.taken.changed) == (0, 1)
    assert (world.value("SELECT RecordID FROM AAR"), world.logged_after(seq)) == (record_id, 1)
    assert world.con.execute("SELECT status, wall_s, end_time FROM v1_jobs").fetchall() == [
        ("completed", 30, BEGIN + 50)
    ]


def test_an_earlier_run_that_comes_late(world, tmp_path) -> None:
    """A job whose first run is imported last gets the identity it would have had, and stays one record."""
    for name, line in (("new", ran(7, 21, 30, 50)), ("old", ran(7, 1, 10, 20, failed=25, exit_status=99))):
        (tmp_path / name).write_bytes(line)
        world.take(tmp_path / name)

    assert world.con.execute("SELECT job_id, wall_s FROM v1_jobs").fetchall() == [(f"gesge:default:7:{BEGIN + 1}", 30)]
    assert world.value("SELECT count(*) FROM RecordSources") == 1


def test_two_jobs_that_turn_out_to_be_one(world, tmp_path) -> None:
    """When a record comes to light that ties two jobs together, one goes, with everything that belonged to it."""
    far = 2 * 30 * 86_400
    lines = [ran(7, 1, 10, 20, failed=25), ran(7, far, far + 10, far + 20)]
    lines.append(ran(7, 25 * 86_400, 0, 0, failed=26))
    lines.append(ran(7, 50 * 86_400, 0, 0, failed=26))
    counts = []
    for number, line in enumerate(lines):
        path = tmp_path / str(number)
        path.write_bytes(line)
        world.take(path)
        counts.append(world.value("SELECT count(*) FROM AAR"))

    assert counts == [0, 2, 2, 1]
    assert world.value("SELECT wall_s FROM v1_jobs") == 20
    for table in ("RecordSources", "JobExtraInfo", "JobEvents", "FieldSources"):
        assert world.value(f"SELECT count(*) FROM {table} WHERE RecordID NOT IN (SELECT RecordID FROM AAR)") == 0


def test_tasks_before_their_job(world, tmp_path) -> None:
    """Tasks of a parallel job are no job until the record of the job itself is there."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(8, 10, 10, 40, pe_taskid="1.wn2", hostname="wn2", granted_pe="mpi", slots=2, cpu=20))
    world.take(path)
    before = world.value("SELECT count(*) FROM AAR")
    with path.open("ab") as file:
        file.write(ran(8, 1, 10, 60, granted_pe="mpi", slots=2))
    world.take(path)

    assert before == 0
    assert world.con.execute("SELECT wall_s, cpu_s, node_count FROM v1_jobs").fetchall() == [(50, 20, 2)]
    assert world.value("SELECT count(*) FROM GridEngineRecords WHERE RecordID IS NULL") == 0


def test_tasks_that_are_reported_again_before_their_job(world, tmp_path) -> None:
    """They are the same tasks, next to new ones, and all of them belong to the job once it is there."""
    tasks = [
        ran(8, 10, 10, 40, pe_taskid=f"1.wn{number}", hostname=f"wn{number}", granted_pe="mpi", slots=3, cpu=20)
        for number in (2, 3, 4)
    ]
    job = ran(8, 1, 10, 60, hostname="wn1", granted_pe="mpi", slots=3)
    contents = [tasks[:2], [b"# another head\n", *reversed(tasks)], [job], [tasks[2], tasks[0]]]
    taken = []
    for number, lines in enumerate(contents):
        path = tmp_path / str(number)
        path.write_bytes(b"".join(lines))
        taken.append(world.take(path).taken)

    assert [(one.new, one.known, one.added) for one in taken] == [(2, 0, 0), (1, 2, 0), (1, 0, 1), (0, 2, 0)]
    assert world.con.execute("SELECT cpu_s, node_count FROM v1_jobs").fetchall() == [(60, 4)]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_compressed_files(world, tmp_path, compress) -> None:
    """A file is read in whatever way it was compressed, and known again uncompressed."""
    packed = tmp_path / "accounting.0.packed"
    packed.write_bytes(compress(COLON.read_bytes()))

    assert world.take(packed).taken.new == 45
    assert world.take(COLON).lines == 0


def test_a_damaged_compressed_file(world, tmp_path) -> None:
    """What can be read of a cut archive is imported, and the rest is said."""
    path = tmp_path / "accounting.0.gz"
    path.write_bytes(gzip.compress(COLON.read_bytes() * 50)[:3000])

    report = world.take(path)

    assert report.unreadable == 1
    assert report.taken.new > 0
    assert f"{path}: truncated in compressed data" in world.said[0]


@pytest.mark.parametrize("damage", ["bytes", "checksum", "no archive"])
def test_damage_near_the_beginning(world, tmp_path, damage) -> None:
    """Of a short archive that is damaged behind its first half that half is imported; the damage is said each time."""
    path = tmp_path / "accounting.0.gz"
    rest = gzip.compress(ran(99, 1, 10, 20) * 50, mtime=0)
    broken = {"bytes": rest[:30] + bytes(40) + rest[30:], "checksum": rest[:-8] + bytes(8), "no archive": b"rubbish"}
    path.write_bytes(gzip.compress(COLON.read_bytes()) + broken[damage])

    for _ in range(2):
        assert world.take(path).unreadable == 1
    assert world.value("SELECT count(*) FROM GridEngineRecords WHERE JobNumber <> 99") == 45
    assert all(f"{path}: damaged: " in said for said in world.said)


def rotate(path: pathlib.Path, how: str) -> None:
    """What logrotate and Grid Engine's own logchecker do."""
    target = path.with_name(path.name + {"date": "-20261120"}.get(how, ".0"))
    if how == "copytruncate":
        shutil.copy2(path, target)
        os.truncate(path, 0)
        return
    path.rename(target)
    if how == "gz":
        packed = target.with_name(target.name + ".gz")
        packed.write_bytes(gzip.compress(target.read_bytes()))
        shutil.copystat(target, packed)
        target.unlink()


@pytest.mark.parametrize("how", ["rename", "date", "gz", "copytruncate"])
def test_rotation_between_two_imports(world, tmp_path, how) -> None:
    """What was written before a rotation, after the last import, is imported although the file has another name."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20))
    world.take(path)
    with path.open("ab") as file:
        file.write(ran(2, 1, 10, 20))
    rotate(path, how)
    with path.open("ab") as file:
        file.write(ran(3, 1, 10, 20))
    (tmp_path / "accounting.jsonl").write_bytes(ran(4, 1, 10, 20))

    report = world.take(path)

    assert report.taken.new == 2
    assert [row[0] for row in world.con.execute("SELECT local_job_id FROM v1_jobs ORDER BY 1")] == ["1", "2", "3"]
    assert world.take(path).lines == 0


def test_what_is_written_late_into_a_rotated_file(world, tmp_path) -> None:
    """A line that came into the old file when the new one was imported already is imported by the next import."""
    path, old = tmp_path / "accounting", tmp_path / "accounting.0"
    old.write_bytes(ran(1, 1, 10, 20))
    world.take(old)
    path.write_bytes(ran(2, 1, 10, 20))
    world.take(path)
    with old.open("ab") as file:
        file.write(ran(3, 1, 10, 20))
    # An archive that somebody copies there was never asked for.
    path.with_name("accounting.2025").write_bytes(ran(4, 1, 10, 20))

    assert (world.take(path).taken.new, world.take(path).lines) == (1, 0)


def test_positions_are_those_of_every_version(world, tmp_path) -> None:
    """What databases keep of a file, byte by byte: an upgrade that computed it otherwise would read all files again."""
    path = tmp_path / "accounting"
    long = ran(2, 1, 10, 20, category="x" * 5000)
    path.write_bytes(b"# head\n\n" + ran(1, 1, 10, 20) + b"rubbish\n" + long + b"torn")
    world.take(path)
    content = path.read_bytes()[:-4]

    assert world.con.execute(
        "SELECT Head, Tail, Checksum, Position, Lines, Records, BadLines, Device, Inode FROM GridEngineFiles"
    ).fetchall() == [
        (
            hashlib.blake2b(ran(1, 1, 10, 20), digest_size=16).digest(),
            hashlib.blake2b(long[-4096:], digest_size=16).digest(),
            zlib.crc32(content),
            len(content),
            *(5, 2, 1),
            *(path.stat().st_dev, path.stat().st_ino),
        )
    ]


def test_a_named_pipe(world, tmp_path) -> None:
    """What comes through a pipe is imported as from standard input, each time from its beginning."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for known in (0, 45):
        with subprocess.Popen(["cp", COLON, path]) as process:
            assert world.take(path).taken.known == known
        assert process.returncode == 0


def test_a_file_that_was_replaced(world, tmp_path) -> None:
    """A shorter file under the same name and inode is read from its beginning."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + ran(2, 1, 10, 20))
    world.take(path)
    path.write_bytes(ran(3, 1, 10, 20))

    assert world.take(path).taken.new == 1


def test_a_torn_last_line(world, tmp_path) -> None:
    """A last line without its end is left for the next import, also when it looks whole."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + ran(2, 1, 10, 20)[:-1])
    first = world.take(path)
    with path.open("ab") as file:
        file.write(b"\n")
    second = world.take(path)

    assert (first.taken.new, second.taken.new) == (1, 1)
    assert world.said == [
        f"{path}: the last line is incomplete ({len(ran(2, 1, 10, 20)) - 1} bytes): left for the next import"
    ]


def test_bad_lines_cost_only_themselves(world, tmp_path) -> None:
    """Bad lines are counted, one of them is shown with file and line, and the rest is imported."""
    path = tmp_path / "accounting"
    path.write_bytes(b"# head\n" + b"".join(b"x:%d\n" % number + ran(number, 1, 10, 20) for number in range(1, 16)))

    report = world.take(path)

    assert (report.rejected, report.taken.new) == (15, 15)
    assert world.said == [f"15 records, as {path}: line 2: 2 fields; a record has 43, 45 or more; left out"]
    assert world.value("SELECT bad_lines FROM v1_gridengine_files") == 15
    assert report.news == 15
    copy = tmp_path / "copy"
    copy.write_bytes(b"# another head\n" + b"".join(path.read_bytes().splitlines(keepends=True)[3:]))
    again = world.take(copy)
    assert (again.rejected, again.news, again.taken.new) == (14, 0, 0)


@pytest.mark.parametrize("fixed", [b"2:x:y:z\n", None], ids=["the same length", "another length"])
def test_a_corrected_file(world, tmp_path, fixed) -> None:
    """When a bad line was corrected, its record comes in, and no other comes in twice."""
    path = tmp_path / "accounting"
    good = ran(2, 1, 10, 20)
    bad = good.replace(b":sge:", b":sg::") if fixed else good[:30] + b"\n"
    path.write_bytes(ran(1, 1, 10, 20) + bad + ran(3, 1, 10, 20))
    world.take(path)
    path.write_bytes(ran(1, 1, 10, 20) + good + ran(3, 1, 10, 20))

    report = world.take(path)

    assert (report.rejected, report.taken.new, report.taken.known) == (0, 1, 2)
    assert world.take(path).lines == 0


def test_names_that_are_not_utf8(world, tmp_path) -> None:
    """A job whose name is not UTF-8 is imported, in both encodings."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20).replace(b":job:", b":\xf8:") + json_line().replace(b"okcpu", b"\xf8\\ud800"))
    world.take(path)

    assert sorted(row[0] for row in world.con.execute("SELECT job_name FROM v1_jobs")) == ["\\xf8", "\\xf8\\ud800"]


def test_names_with_meaning_in_sql(world, tmp_path) -> None:
    """Quotes and percent signs come back as they were."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20, job_name="o'n%ce #1"))
    world.take(path)

    assert world.value("SELECT job_name FROM v1_jobs") == "o'n%ce #1"


def test_custom_usage(world, tmp_path) -> None:
    """What a site measures next to goes into rows of its own, and a second import finds it the same."""
    path = tmp_path / "accounting.jsonl"
    usage = {"rusage": {}, "eusage": {}, "gpu": {"util": 87, "model": "A100"}}
    path.write_bytes(changed_json(json_line(), usage=usage))
    world.take(path)
    seq = world.seq()
    (tmp_path / "copy").write_bytes(b"# another beginning\n\n" + path.read_bytes() + ran(2, 1, 10, 20))
    world.take(tmp_path / "copy")

    assert world.con.execute("SELECT usage_group, name, number, text FROM v1_gridengine_usage").fetchall() == [
        ("gpu", "model", None, "A100"),
        ("gpu", "util", 87, None),
    ]
    assert world.logged_after(seq) == 1


def test_an_import_that_was_stopped(world, tmp_path, monkeypatch) -> None:
    """An import that dies between two statements loses nothing and doubles nothing."""
    path = tmp_path / "accounting"
    path.write_bytes(b"".join(ran(number, 1, 10, 20) for number in range(1, 500)))
    real, calls = SOURCE.table.keep, []

    def fails_later(*args: object) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise sqlite3.OperationalError("disk I/O error")
        real(*args)

    monkeypatch.setattr(SOURCE.table, "keep", fails_later)
    with pytest.raises(StoreError, match="disk I/O error"):
        world.take(path)
    done = world.value("SELECT count(*) FROM GridEngineRecords")
    report = world.take(path)

    assert 0 < done < 499
    assert report.taken.new == 499 - done
    assert report.taken.known == 0
    assert world.value("SELECT count(*) FROM AAR") == 499


def test_a_new_map_line(world) -> None:
    """Making the jobs again applies the configuration of today, and logs those that it changes."""
    world.take(COLON)
    seq = world.seq()
    world.site = BatchSite("default", (map_rule("owner gebob vo=atlas group=higgs"),), SITE.default_benchmark)
    work = world.work()
    work.again()

    assert work.report.taken.changed == 3
    assert world.logged_after(seq) == 3
    assert world.con.execute("SELECT DISTINCT vo, fqan FROM v1_jobs WHERE vo IS NOT NULL").fetchall() == [
        ("atlas", "/atlas/higgs")
    ]


def test_cells_are_apart(world, tmp_path) -> None:
    """Two cells have the same numbers, and their jobs are not the same."""
    world.take(COLON)
    world.site = SITE._replace(cell="other")
    path = tmp_path / "accounting"
    path.write_bytes(COLON.read_bytes())

    assert world.take(path).taken.added == 39


def test_a_pruned_job_does_not_come_back(world, tmp_path) -> None:
    """A job that was put away is not made again, not even when another of its records comes."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(7, 1, 10, 20, failed=30, exit_status=100))
    world.take(path)
    world.con.execute("DELETE FROM AAR")
    with path.open("ab") as file:
        file.write(ran(7, 21, 30, 50))

    report = world.take(path)

    assert (report.taken.added, report.taken.pruned) == (0, 1)
    assert world.value("SELECT count(*) FROM AAR") == 0


def test_the_oldest_file_first(world, tmp_path) -> None:
    """Files are read in the order they were written in, whatever order a shell gives them in."""
    (tmp_path / "accounting").write_bytes(ran(7, 21, 30, 50))
    (tmp_path / "accounting.0").write_bytes(ran(7, 1, 10, 20, failed=30, exit_status=100))

    report = world.take(tmp_path / "accounting", tmp_path / "accounting.0")

    assert (report.taken.added, report.taken.changed) == (1, 1)
    assert world.value("SELECT group_concat(file) FROM v1_gridengine_records").endswith("accounting")


def test_a_file_that_is_not_there(world, tmp_path) -> None:
    """A path that cannot be read is said, and the others are imported."""
    report = world.take(tmp_path / "missing", tmp_path, COLON)

    assert (report.unreadable, report.taken.new) == (2, 45)
    assert len(world.said) == 2
    assert "missing: cannot be read: No such file" in world.said[0]
