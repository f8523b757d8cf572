"""
Where A-REX keeps the files of a job.

A-REX 6: ``job.ID.SUFFIX``, flat in the control directory. ARC 7: hashed, ``jobs/abc/def/ghi/REST/SUFFIX`` (the id in
pieces of three characters, the fourth piece is the rest). A directory that is being upgraded has jobs of both kinds.

The status file moves between four folders: accepting (ACCEPTED), finished (FINISHED, DELETED), processing (the rest)
and restarting. Its name is ``job.ID.status``, under ARC 7 ``ID.status``.
"""

# `posix` is what `os` is made of: importing `os` as well would cost the hook a tenth of its time.
import posix

from arcacct.config.paths import STATUS_FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING", "FINISHED", "DELETED")
"""The states of a job, in the order of its life."""


_FOLDER_OF_STATE = {"ACCEPTED": "accepting", "FINISHED": "finished", "DELETED": "finished"}
_SUFFIX = ".status"
_FLAT_PREFIX = "job."


def job_file(controldir: str, job_id: str, suffix: str, *, hashed: bool = False) -> str:
    """The path of one of a job's files, e.g. ``local``, ``diag``, ``statistics``, ``failed``."""
    if not hashed:
        return f"{controldir}/job.{job_id}.{suffix}"
    pieces = [piece for piece in (job_id[:3], job_id[3:6], job_id[6:9], job_id[9:]) if piece]
    return f"{controldir}/jobs/{'/'.join(pieces)}/{suffix}"


def is_hashed(controldir: str, job_id: str) -> bool:
    """Whether the files of this job are where ARC 7 keeps them: one question to the file system."""
    return _is_there(job_file(controldir, job_id, "local", hashed=True))


def status_files(controldir: str, job_id: str, state: str, *, hashed: bool = False) -> list[str]:
    """Every place where a job's status file may be, the likely one for the state first."""
    likely = _FOLDER_OF_STATE.get(state, "processing")
    folders = [likely, *(folder for folder in STATUS_FOLDERS if folder != likely)]
    name = f"{'' if hashed else _FLAT_PREFIX}{job_id}{_SUFFIX}"
    return [f"{controldir}/{folder}/{name}" for folder in folders]


def is_job_id(text: str) -> bool:
    """
    Whether a text may name a job (A-REX's ids are letters and digits).

    Anything that could leave the directory or hide in it is refused before it becomes part of a path.
    """
    printable = text.isascii() and text.isprintable() and not set(text) & {"/", " "}
    return printable and 0 < len(text) <= 200 and text[0] != "."


def job_of(name: str) -> str | None:
    """The id of the job whose status file has this name; ``None`` for a mark (``ID.cancel``, ``IDcancel``)."""
    return name.removesuffix(_SUFFIX).removeprefix(_FLAT_PREFIX) if name.endswith(_SUFFIX) else None


def is_gone(controldir: str, job_id: str) -> bool:
    """Whether nothing is left of a job for certain: neither its .local nor a status file, in either layout."""
    return all(
        _is_missing(path)
        for hashed in (False, True)
        for path in (
            *status_files(controldir, job_id, "FINISHED", hashed=hashed),
            job_file(controldir, job_id, "local", hashed=hashed),
        )
    )


def is_whole(controldir: str) -> bool:
    """
    Whether nothing of a control directory is away: all four folders are there.

    A mount point without its file system is an empty directory: what is missing there has not vanished.
    """
    return all(_is_there(f"{controldir}/{folder}") for folder in STATUS_FOLDERS)


def count_status_files(controldir: str) -> int:
    """About how many jobs the directory has. Raises OSError as `scan_status_files`."""
    return sum(1 for _entry in _entries(controldir))


def scan_status_files(
    controldir: str, wrong: "Callable[[str, str, OSError], object] | None" = None
) -> "Iterator[tuple[str, str, os.stat_result]]":
    """
    ``(job id, path, stat)`` of each status file in the directory, one at a time.

    ``wrong`` is told job id, path and error of each that cannot be looked at; without it, the error is raised. Bytes of
    a name that are not UTF-8 are surrogates. A job that moves from one folder to another during the scan may be
    seen twice or not at all: the next scan sees it. Raises OSError when the control directory itself cannot be read.
    """
    for job_id, entry in _entries(controldir):
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            if wrong is None:
                raise
            wrong(job_id, entry.path, error)
        else:
            yield job_id, entry.path, stat


def _entries(controldir: str) -> "Iterator[tuple[str, os.DirEntry[str]]]":
    posix.stat(controldir)
    # In the order of a job's life: one that moves on during the scan is seen again rather than missed.
    for folder in STATUS_FOLDERS:
        try:
            entries = posix.scandir(f"{controldir}/{folder}")
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                job_id = job_of(entry.name)
                if job_id:
                    yield job_id, entry


def _is_there(path: str) -> bool:
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def _is_missing(path: str) -> bool:
    """Unlike not `_is_there`: what a failing file system does not show may still be there."""
    try:
        posix.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
