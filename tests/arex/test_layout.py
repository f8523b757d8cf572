"""Where A-REX keeps a job's files."""

from __future__ import annotations

import os

import pytest

from arcacct.arex.control_files import (
    STATES,
    count_status_files,
    is_gone,
    is_hashed,
    is_job_id,
    is_whole,
    job_file,
    job_of,
    scan_status_files,
    status_files,
)
from arcacct.config.paths import STATUS_FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pathlib

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
