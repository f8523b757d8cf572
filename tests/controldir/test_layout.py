"""Where A-REX keeps a job's files."""

from __future__ import annotations

import os

import pytest

from arcacct.controldir.layout import STATES, is_job_id, job_file, scan_status_files, status_files

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
