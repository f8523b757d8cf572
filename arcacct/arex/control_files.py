"""The paths and the bytes of a job's files in A-REX's control directory."""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from arcacct.arex.input_limits import MOST_FILE_BYTES, end_of, joined
from arcacct.config.paths import STATUS_FOLDERS
from arcacct.records.states import StatusFile

# The paths of a job's files.
#
# A-REX 6: ``job.ID.SUFFIX``, flat in the control directory. ARC 7: hashed, ``jobs/abc/def/ghi/REST/SUFFIX`` (the id in
# pieces of three characters; the fourth piece is the rest). During an upgrade a directory has jobs of both kinds.
#
# The status file moves between four folders: accepting (ACCEPTED), finished (FINISHED, DELETED), processing (the rest)
# and restarting. Its name is ``job.ID.status``; under ARC 7 ``ID.status``.


STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING", "FINISHED", "DELETED")
"""The states of a job, in the order of its life."""


_FOLDER_OF_STATE = {"ACCEPTED": "accepting", "FINISHED": "finished", "DELETED": "finished"}
_SUFFIX = ".status"
_FLAT_PREFIX = "job."


def job_file(controldir: str, job_id: str, suffix: str, *, hashed: bool = False) -> str:
    """Return the path of one of a job's files, e.g. ``local``, ``diag``, ``statistics``, ``failed``."""
    if not hashed:
        return f"{controldir}/job.{job_id}.{suffix}"
    pieces = [piece for piece in (job_id[:3], job_id[3:6], job_id[6:9], job_id[9:]) if piece]
    return f"{controldir}/jobs/{'/'.join(pieces)}/{suffix}"


def is_hashed(controldir: str, job_id: str) -> bool:
    """Whether the files of this job are in ARC 7's layout. It takes one system call."""
    return os.path.lexists(job_file(controldir, job_id, "local", hashed=True))


def status_files(controldir: str, job_id: str, state: str, *, hashed: bool = False) -> list[str]:
    """Return every possible path of a job's status file, the likely one for the state first."""
    likely = _FOLDER_OF_STATE.get(state, "processing")
    folders = [likely, *(folder for folder in STATUS_FOLDERS if folder != likely)]
    name = f"{'' if hashed else _FLAT_PREFIX}{job_id}{_SUFFIX}"
    return [f"{controldir}/{folder}/{name}" for folder in folders]


def is_job_id(text: str) -> bool:
    """
    Whether a text may be a job ID (A-REX's ids are letters and digits).

    It excludes anything that could leave the directory or hide in it, before the text becomes part of a path.
    """
    printable = text.isascii() and text.isprintable() and not set(text) & {"/", " "}
    return printable and 0 < len(text) <= 200 and text[0] != "."


def job_of(name: str) -> str | None:
    """Return the job ID in a status file's name; ``None`` for a mark (``ID.cancel``, ``IDcancel``)."""
    return name.removesuffix(_SUFFIX).removeprefix(_FLAT_PREFIX) if name.endswith(_SUFFIX) else None


def is_gone(controldir: str, job_id: str) -> bool:
    """Whether a job certainly has no files: neither its .local nor a status file, in either layout."""
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
    Whether a control directory is complete: all four folders are there.

    A mount point without its file system is an empty directory: jobs that are missing there have not vanished.
    """
    return all(os.path.lexists(f"{controldir}/{folder}") for folder in STATUS_FOLDERS)


def count_status_files(controldir: str) -> int:
    """Return about how many jobs the directory has. Raises OSError as `scan_status_files`."""
    return sum(1 for _entry in _entries(controldir))


def scan_status_files(
    controldir: str, wrong: Callable[[str, str, OSError], object] | None = None
) -> Iterator[tuple[str, str, os.stat_result]]:
    """
    Yield ``(job id, path, stat)`` of each status file in the directory.

    ``wrong`` is called with job id, path and error of each file that cannot be examined; without it, the error is
    raised. Bytes of a name that are not UTF-8 are surrogates. A job that moves to another folder during the scan may be
    seen twice or not at all: the next scan sees it. Raises OSError if the control directory itself cannot be read.
    """
    for job_id, entry in _entries(controldir):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            if wrong is None:
                raise
            wrong(job_id, entry.path, error)
        else:
            yield job_id, entry.path, found


def _entries(controldir: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    os.stat(controldir)
    # In the order of a job's life: a job that moves during the scan is seen twice rather than missed.
    for folder in STATUS_FOLDERS:
        try:
            entries = os.scandir(f"{controldir}/{folder}")
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                job_id = job_of(entry.name)
                if job_id:
                    yield job_id, entry


def _is_missing(path: str) -> bool:
    """Whether a file is certainly missing. On an error of the file system it may still be there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


# The bytes of a job's control files, read as A-REX needs it.
#
# A-REX truncates and rewrites .local under an fcntl lock: without the read lock a reader can get half a file.


@dataclass(slots=True)
class JobFiles:
    """
    The data of one state change of a job: job, state and time, and the bytes of its files.

    ``event_ns`` is the time of the event in nanoseconds. ``status`` is the status file if it still has this state.
    ``hashed``: ARC 7 keeps the job, which has other rules for benchmarks.
    """

    controldir: str
    job_id: str
    state: str
    event_ns: int = 0
    status: StatusFile | None = None
    local: bytes | None = None
    diag: bytes | None = None
    statistics: bytes | None = None
    failed: bool = False
    owner: str | None = None
    hashed: bool = False


def owner_of(found: os.stat_result) -> str:
    """Return ``user:group`` of a file. A name that the host does not know is left out, as A-REX does."""
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = ""
    try:
        return f"{owner}:{grp.getgrgid(found.st_gid).gr_name}"
    except KeyError:
        return owner


def read_bytes(path: str, *, lock: bool = False) -> tuple[bytes | None, os.stat_result | None]:
    """
    Return the content of a control file and its stat, or ``(None, None)`` if it is not there.

    A link, a named pipe and a character device count as missing, as for the launcher: A-REX writes plain files only,
    and a link may lead to a file that its owner may not read.

    With ``lock`` it waits until no process writes the file, `PATIENCE_S` at most.
    Of a file that is too long it returns the whole lines at its start and its end, with a line about the omission
    between them (`InputLimiter.lines`). Raises OSError with the file's name for any error but a missing file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None, None
        raise
    try:
        found = os.fstat(fd)
        if stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode):
            return None, None
        if lock:
            _wait_for_lock(fd, path)
            found = os.fstat(fd)
        return _content(fd, found.st_size), found
    except OSError as error:
        # The failing call knows only the descriptor: no locks on this file server, or a failing disk.
        error.filename = path
        raise
    finally:
        os.close(fd)


def _content(fd: int, size: int) -> bytes:
    content = os.read(fd, min(size, MOST_FILE_BYTES) + 1)
    # One byte more was requested and did not come, so this is all. Other files (being written, not plain) are read on.
    if len(content) == size <= MOST_FILE_BYTES:
        return content
    chunks = [content]
    left = MOST_FILE_BYTES + 1 - len(content)
    while left > 0 and (chunk := os.read(fd, min(left, 1 << 16))):
        chunks.append(chunk)
        left -= len(chunk)
    content = b"".join(chunks)
    if left:
        return content
    size = os.fstat(fd).st_size
    start, length = end_of(size)
    # A file that is not plain has no known end.
    return joined(content, os.pread(fd, length, start) if size else b"", max(size, len(content)))


PATIENCE_S = 2.0
"""Seconds that a .local may be locked by another process before it counts as unreadable."""


def _wait_for_lock(fd: int, path: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise TimeoutError(error.errno, f"locked by another process for {PATIENCE_S:g} s", path) from None
            time.sleep(0.01)
        else:
            return


def read_status(controldir: str, job_id: str, state: str, *, hashed: bool = False) -> StatusFile | None:
    """Return the status file of a job from any folder; ``None`` if there is none (the first ACCEPTED)."""
    # While a job is moved to ARC 7, its files may be there already and its status file not yet.
    for layout in (True, False) if hashed else (False,):
        for path in status_files(controldir, job_id, state, hashed=layout):
            status = read_status_file(path)
            if status is not None:
                return status
    return None


def read_status_file(path: str) -> StatusFile | None:
    """Return one status file; ``None`` if it is not there."""
    content, found = read_bytes(path)
    if content is None or found is None:
        return None
    text = content.decode("ascii", "backslashreplace").strip()
    state = text.removeprefix("PENDING:")
    return StatusFile(state, found.st_size, found.st_mtime_ns, found.st_ctime_ns, pending=state != text)


def read_job(
    controldir: str,
    job_id: str,
    state: str,
    owner: Callable[[os.stat_result], str] = owner_of,
    status: StatusFile | None = None,
) -> JobFiles:
    """
    Read what a state change needs of a job's files. Only FINISHING and FINISHED need more than .local.

    ``owner`` turns the stat of .diag into ``user:group``. ``status``: the status file, if the caller has read it.
    Raises OSError if a file is there but unreadable.
    """
    files = JobFiles(controldir, job_id, state)
    files.hashed = hashed = is_hashed(controldir, job_id)
    if status is None:
        status = read_status(controldir, job_id, state, hashed=hashed)
    if status is not None and status.state == state:
        files.status = status
        files.event_ns = status.mtime_ns
    elif status is not None or state != "ACCEPTED":
        # The job has moved on, so the file has the time of another state; or the file is gone.
        files.event_ns = time.time_ns()
    files.local = read_bytes(job_file(controldir, job_id, "local", hashed=hashed), lock=True)[0]
    # .diag has its content from FINISHING on: the batch system's times, which no earlier callout of ARC 6 has.
    if state in ("FINISHING", "FINISHED"):
        files.diag, found = read_bytes(job_file(controldir, job_id, "diag", hashed=hashed))
        if state == "FINISHED":
            if found is not None:
                files.owner = owner(found)
            files.statistics = read_bytes(job_file(controldir, job_id, "statistics", hashed=hashed))[0]
            try:
                os.lstat(job_file(controldir, job_id, "failed", hashed=hashed))
                files.failed = True
            except FileNotFoundError:
                files.failed = False
    return files
