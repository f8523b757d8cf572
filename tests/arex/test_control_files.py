"""Reading a job's control files while A-REX writes them."""

from __future__ import annotations

import os
import pathlib
import pwd
import subprocess
import sys
import time

import pytest
from job_files import DIAG, JOB, LOCAL, NOON_NS, Files, lay
from other_users import acting_as

from arcacct.arex import control_files
from arcacct.arex.control_files import (
    STATES,
    count_status_files,
    is_gone,
    is_hashed,
    is_job_id,
    is_whole,
    job_file,
    job_of,
    owner_of,
    read_bytes,
    read_job,
    read_status,
    scan_status_files,
    status_files,
)
from arcacct.config.paths import STATUS_FOLDERS

WRITER = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX)
os.ftruncate(fd, 0)
os.write(fd, b"jobname=half of ")
print("locked", flush=True)
time.sleep(0.3)
os.write(fd, b"it\\nqueue=main\\n")
os.close(fd)
"""


def test_a_reader_waits_for_the_writer_of_local(tmp_path: pathlib.Path) -> None:
    """While A-REX rewrites .local under its fcntl lock no one sees half a file."""
    lay(tmp_path, Files("PREPARING"))
    path = job_file(str(tmp_path), JOB, "local")
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"locked\n"

        found = read_job(str(tmp_path), JOB, "PREPARING")

    assert found.local == b"jobname=half of it\nqueue=main\n"


def test_readers_do_not_wait_for_each_other(tmp_path: pathlib.Path) -> None:
    """A second reader gets the file while a first one still holds its lock."""
    lay(tmp_path, Files("PREPARING"))
    path = job_file(str(tmp_path), JOB, "local")
    holder = "import fcntl,os,sys; fcntl.lockf(os.open(sys.argv[1], 0), fcntl.LOCK_SH); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()

        assert read_bytes(path, lock=True)[0] == LOCAL

        reader.communicate(b"\n")


def test_missing_files_are_no_error(tmp_path: pathlib.Path) -> None:
    """A job of which nothing is left is read as nothing, with the present time for its event."""
    before = time.time_ns()

    found = read_job(str(tmp_path), JOB, "FINISHED")

    assert (found.local, found.diag, found.statistics, found.owner, found.failed) == (None, None, None, None, False)
    assert found.status is None
    assert before <= found.event_ns <= time.time_ns()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to read as somebody else")
@pytest.mark.parametrize("suffix", ["local", "diag", "statistics"])
def test_an_unreadable_file_is_an_error(public_dir: pathlib.Path, suffix: str) -> None:
    """A file that is there but not for us is not taken for a missing one."""
    lay(public_dir, Files())
    path = job_file(str(public_dir), JOB, suffix)
    os.chmod(path, 0)

    with acting_as("nobody"), pytest.raises(PermissionError) as refused:
        read_job(str(public_dir), JOB, "FINISHED", owner=lambda _stat: "")

    assert refused.value.filename == path


def test_a_directory_in_place_of_a_file_is_an_error(tmp_path: pathlib.Path) -> None:
    """Whatever stands there that cannot be read raises OSError and nothing else."""
    lay(tmp_path, Files(local=None))
    os.mkdir(job_file(str(tmp_path), JOB, "local"))

    with pytest.raises(OSError, match="directory"):
        read_job(str(tmp_path), JOB, "FINISHED")


@pytest.mark.parametrize("suffix", ["local", "diag", "statistics", "status"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_plain_file_is_not_read(tmp_path: pathlib.Path, suffix: str, kind: str) -> None:
    """A link could lead to a file that only root may read, and opening a pipe could wait for a writer."""
    lay(tmp_path, Files("FINISHED"))
    path = tmp_path / job_file(str(tmp_path), JOB, suffix)
    if suffix == "status":
        path = tmp_path / status_files(str(tmp_path), JOB, "FINISHED")[0]
    secret = tmp_path / "secret"
    path.rename(secret)
    if kind == "link":
        path.symlink_to(secret)
    else:
        os.mkfifo(path)

    found = read_job(str(tmp_path), JOB, "FINISHED")

    assert getattr(found, suffix) is None
    assert suffix != "diag" or found.owner is None


def test_a_huge_file_is_read_in_whole_lines(tmp_path: pathlib.Path) -> None:
    """A job may not fill our memory with its .diag, and no number is cut in two."""
    huge = tmp_path / "diag"
    line = b"Walltime=123456789\n"
    huge.write_bytes(line * (20 * 1024 * 1024 // len(line)))

    content, stat = read_bytes(str(huge))

    assert content is not None
    assert stat is not None
    assert len(content) <= 1024 * 1024 < stat.st_size
    assert set(content.splitlines(keepends=True)) - {line, b"\n"} == {b"arcacct left out 19923096 of 20971516 bytes\n"}


def test_the_event_is_when_the_status_file_was_written(tmp_path: pathlib.Path) -> None:
    """The time of a state change is the mtime of the status file, to the nanosecond."""
    lay(tmp_path, Files("FINISHED", NOON_NS + 123_456_789))

    found = read_job(str(tmp_path), JOB, "FINISHED")

    assert found.event_ns == NOON_NS + 123_456_789
    assert found.status is not None
    assert (found.status.state, found.status.size) == ("FINISHED", 8)


def test_a_job_that_moved_on_keeps_its_file_time_for_the_new_state(tmp_path: pathlib.Path) -> None:
    """When the status file shows another state already, its time is not this event's."""
    lay(tmp_path, Files("INLRMS"))
    before = time.time_ns()

    found = read_job(str(tmp_path), JOB, "SUBMIT")

    assert found.status is None
    assert before <= found.event_ns


def test_the_first_accepted_has_no_status_file(tmp_path: pathlib.Path) -> None:
    """The callout of the web service runs before A-REX writes a status file: its time is in .local."""
    lay(tmp_path, Files("ACCEPTED", status=None))

    found = read_job(str(tmp_path), JOB, "ACCEPTED")

    assert (found.status, found.event_ns) == (None, 0)
    assert found.local == LOCAL


@pytest.mark.parametrize(
    ("content", "state", "pending"),
    [
        (b"INLRMS", "INLRMS", False),
        (b"INLRMS\n", "INLRMS", False),
        (b"PENDING:INLRMS", "INLRMS", True),
        (b"", "", False),
        (b"\xff", "\\xff", False),
    ],
)
def test_what_a_status_file_says(tmp_path: pathlib.Path, content: bytes, state: str, pending: bool) -> None:
    """The state with or without a line end; PENDING: means that the job waits to go on."""
    path = tmp_path / "processing" / f"job.{JOB}.status"
    path.parent.mkdir()
    path.write_bytes(content)

    found = read_status(str(tmp_path), JOB, "INLRMS")

    assert found is not None
    assert (found.state, found.pending) == (state, pending)


def test_the_status_file_is_found_in_any_folder(tmp_path: pathlib.Path) -> None:
    """A job in restarting is found although its state would put it elsewhere."""
    unlikely = status_files(str(tmp_path), JOB, "INLRMS")[-1]
    os.mkdir(os.path.dirname(unlikely))
    with open(unlikely, "w") as file:
        file.write("INLRMS")

    found = read_status(str(tmp_path), JOB, "INLRMS")

    assert found is not None
    assert found.state == "INLRMS"


@pytest.mark.parametrize(("state", "diag"), [("SUBMIT", None), ("FINISHING", DIAG)])
def test_only_the_end_needs_more_than_local(tmp_path: pathlib.Path, state: str, diag: bytes | None) -> None:
    """.diag is read from FINISHING on, when A-REX has filled it; .statistics and owner when the job has ended."""
    lay(tmp_path, Files(state))

    found = read_job(str(tmp_path), JOB, state)

    assert found.local is not None
    assert (found.diag, found.statistics, found.owner) == (diag, None, None)


@pytest.mark.parametrize("content", [b"", b"\nJob failed\n"])
def test_failed_counts_by_being_there(tmp_path: pathlib.Path, content: bytes) -> None:
    """An empty .failed fails the job as much as one with text."""
    lay(tmp_path, Files(failed=content))

    assert read_job(str(tmp_path), JOB, "FINISHED").failed is True


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
def test_the_owner_of_diag_is_the_local_user(tmp_path: pathlib.Path) -> None:
    """User and group names of .diag's owner; a number that the host has no name for is left out."""
    nobody = pwd.getpwnam("nobody")
    lay(tmp_path, Files())
    diag = job_file(str(tmp_path), JOB, "diag")

    os.chown(diag, nobody.pw_uid, 0)
    named = read_job(str(tmp_path), JOB, "FINISHED").owner
    os.chown(diag, 3_999_999_999, 0)
    nameless = read_job(str(tmp_path), JOB, "FINISHED").owner
    os.chown(diag, nobody.pw_uid, 3_999_999_999)
    groupless = read_job(str(tmp_path), JOB, "FINISHED").owner

    assert (named, nameless, groupless) == ("nobody:root", ":root", "nobody")


def test_the_owner_can_be_looked_up_elsewhere(tmp_path: pathlib.Path) -> None:
    """Files that were copied from another host keep the owner that the caller knows."""
    lay(tmp_path, Files())

    found = read_job(str(tmp_path), JOB, "FINISHED", owner=lambda stat: f"size {stat.st_size}")

    assert found.owner == f"size {len(Files().diag or b'')}"
    assert owner_of is control_files.owner_of


# Where A-REX keeps a job's files.


REAL_ID = "rUkNDmRiaoAoOSAtDmABFKDmABFKDmABFKDm86LKDmABFKDmIa4vyn"


def test_the_files_of_a_job_lie_flat() -> None:
    """A-REX 6 names them job.ID.SUFFIX, in the control directory itself."""
    assert job_file("/control", REAL_ID, "local") == f"/control/job.{REAL_ID}.local"


@pytest.mark.parametrize(
    ("state", "folder"),
    [
        ("ACCEPTED", "accepting"),
        ("PREPARING", "processing"),
        ("SUBMIT", "processing"),
        ("INLRMS", "processing"),
        ("CANCELING", "processing"),
        ("FINISHING", "processing"),
        ("FINISHED", "finished"),
        ("DELETED", "finished"),
    ],
)
def test_the_status_file_is_looked_for_where_its_state_puts_it(state: str, folder: str) -> None:
    """The likely folder comes first, and the job may also be in any of the others."""
    paths = status_files("/control", "ID", state)

    assert paths[0] == f"/control/{folder}/job.ID.status"
    assert sorted(paths) == [
        f"/control/{name}/job.ID.status" for name in ("accepting", "finished", "processing", "restarting")
    ]
    assert state in STATES


@pytest.mark.parametrize("text", [REAL_ID, "1234567890", "a", "0123456789.job-1_x"])
def test_ids_of_jobs_are_ids(text: str) -> None:
    """A-REX's own ids, old numeric ones, and others of harmless characters are accepted."""
    assert is_job_id(text)


@pytest.mark.parametrize(
    "text", ["", ".", "..", "../etc", "a/b", "/a", ".hidden", "a b", "a\nb", "a\0b", "jøb", "a\x7f", "x" * 201]
)
def test_what_could_leave_the_directory_is_no_id(text: str) -> None:
    """Slashes, leading dots, blanks, control characters, non-ASCII and endless names are refused."""
    assert not is_job_id(text)


def test_a_scan_finds_every_status_file_and_nothing_else(tmp_path: pathlib.Path) -> None:
    """Jobs of all four folders are found with their stat; marks, other files and missing folders do not matter."""
    for folder, job in (("accepting", "A"), ("processing", "B"), ("finished", "C")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"job.{job}.status").write_text("STATE")
    (tmp_path / "accepting" / "job.A.cancel").touch()
    (tmp_path / "finished" / "readme.txt").touch()
    (tmp_path / "job.C.local").touch()

    found = list(scan_status_files(str(tmp_path)))

    assert sorted(job_id for job_id, _path, _stat in found) == ["A", "B", "C"]
    assert all(os.stat(path).st_ino == stat.st_ino for _job_id, path, stat in found)


def test_a_missing_control_directory_is_an_error(tmp_path: pathlib.Path) -> None:
    """A wrong path must not look like a site without jobs."""
    with pytest.raises(FileNotFoundError):
        list(scan_status_files(str(tmp_path / "nowhere")))


@pytest.mark.parametrize(
    ("job_id", "folder"),
    [
        ("abcdef123456", "abc/def/123/456"),
        (REAL_ID, f"{REAL_ID[:3]}/{REAL_ID[3:6]}/{REAL_ID[6:9]}/{REAL_ID[9:]}"),
        ("abcdefghi", "abc/def/ghi"),
        ("abcdefghij", "abc/def/ghi/j"),
        ("abcd", "abc/d"),
        ("a", "a"),
    ],
    ids=["12 characters", "54 characters", "9", "10", "4", "1"],
)
def test_the_files_of_a_job_of_arc_7_lie_in_folders(job_id: str, folder: str) -> None:
    """Three characters of the id make a folder, the fourth folder is the rest."""
    assert job_file("/control", job_id, "local", hashed=True) == f"/control/jobs/{folder}/local"


def test_the_status_files_of_arc_7_have_no_prefix() -> None:
    """They are in the same folders."""
    assert status_files("/control", "ID", "FINISHED", hashed=True)[0] == "/control/finished/ID.status"


@pytest.mark.parametrize(
    ("name", "job_id"),
    [
        ("job.ID.status", "ID"),
        ("ID.status", "ID"),
        ("job.ID.cancel", None),
        ("IDcancel", None),
        ("IDrestart", None),
        ("readme.txt", None),
    ],
)
def test_marks_are_no_status_files(name: str, job_id: str | None) -> None:
    """The marks of A-REX 6 have a dot, those of ARC 7 have none."""
    assert job_of(name) == job_id


def test_a_job_is_looked_for_where_it_is(tmp_path: pathlib.Path) -> None:
    """Each job of a directory tells for itself which A-REX has written it."""
    (tmp_path / "jobs/new/job/123").mkdir(parents=True)
    (tmp_path / "jobs/new/job/123/local").touch()
    (tmp_path / "job.oldjob123.local").touch()

    assert is_hashed(str(tmp_path), "newjob123")
    assert not is_hashed(str(tmp_path), "oldjob123")
    assert not is_gone(str(tmp_path), "newjob123")
    assert not is_gone(str(tmp_path), "oldjob123")
    assert is_gone(str(tmp_path), "another")


@pytest.mark.parametrize("missing", STATUS_FOLDERS)
def test_an_empty_directory_is_no_control_directory(tmp_path: pathlib.Path, missing: str) -> None:
    """A-REX makes all four folders when it starts; where one is missing the file system may be."""
    for folder in STATUS_FOLDERS:
        (tmp_path / folder).mkdir()
    assert is_whole(str(tmp_path))
    (tmp_path / missing).rmdir()

    assert not is_whole(str(tmp_path))


def test_jobs_are_counted_without_a_look_at_them(tmp_path: pathlib.Path) -> None:
    """For a progress bar: both layouts, no marks."""
    for name in ("accepting/job.A.status", "accepting/job.A.cancel", "processing/B.status", "accepting/Bcancel"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert count_status_files(str(tmp_path)) == 2


def test_what_cannot_be_looked_at_is_not_gone(tmp_path: pathlib.Path) -> None:
    """Only a file that is missing is missing: any other error (a name that is too long) tells nothing."""
    assert is_gone(str(tmp_path), "JOB")
    assert not is_gone(str(tmp_path), "J" * 300)
