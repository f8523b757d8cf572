"""
The bytes of a job's control files, read the way A-REX needs it.

A-REX truncates and rewrites .local under an fcntl lock: without the read lock a reader meets half a file.
"""

import fcntl
import posix
import time

from arcacct.arex.gate import MOST_FILE_BYTES, end_of, joined
from arcacct.arex.layout import is_hashed, job_file, status_files
from arcacct.records.states import StatusFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os


class JobFiles:
    """
    What is known of one state change of a job: which, when, and the bytes of the files that tell the rest.

    ``event_ns`` is the time of the event in nanoseconds; ``status`` is the status file when it still shows this state.
    ``hashed``: ARC 7 keeps the job, whose rules for benchmarks differ.
    """

    def __init__(self, controldir: str, job_id: str, state: str) -> None:
        self.controldir = controldir
        self.job_id = job_id
        self.state = state
        self.event_ns = 0
        self.status: StatusFile | None = None
        self.local: bytes | None = None
        self.diag: bytes | None = None
        self.statistics: bytes | None = None
        self.failed = False
        self.owner: str | None = None
        self.hashed = False


def owner_of(stat: "os.stat_result") -> str:
    """``user:group`` of a file; a name that the host does not know is left out, as A-REX does."""
    # Imported here: name look-ups may be slow and only a FINISHED job needs one.
    import grp  # noqa: PLC0415
    import pwd  # noqa: PLC0415

    try:
        owner = pwd.getpwuid(stat.st_uid).pw_name
    except KeyError:
        owner = ""
    try:
        return f"{owner}:{grp.getgrgid(stat.st_gid).gr_name}"
    except KeyError:
        return owner


def read_bytes(
    path: str, *, lock: bool = False, patience_s: float | None = None
) -> "tuple[bytes | None, os.stat_result | None]":
    """
    The content of a control file and its stat, or ``(None, None)`` when it is not there.

    With ``lock`` it waits until nobody writes the file, ``patience_s`` at most (``None``: until an alarm comes).
    Of a file that is too long: the whole lines at its beginning and its end, with a line between them that says so
    (`gate`). Raises OSError, which names the file, for anything but a missing one.
    """
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except FileNotFoundError:
        return None, None
    try:
        if lock:
            _wait_for_lock(fd, path, patience_s)
        stat = posix.fstat(fd)
        return _content(fd, stat.st_size), stat
    except OSError as error:
        # What failed knows the descriptor alone: no locks on this file server, a failing disk.
        error.filename = path
        raise
    finally:
        posix.close(fd)


def _content(fd: int, size: int) -> bytes:
    content = posix.read(fd, min(size, MOST_FILE_BYTES) + 1)
    # One byte more was asked for: there is none. All else (it is being written, or no plain file) is read to its end.
    if len(content) == size <= MOST_FILE_BYTES:
        return content
    chunks = [content]
    left = MOST_FILE_BYTES + 1 - len(content)
    while left > 0 and (chunk := posix.read(fd, min(left, 1 << 16))):
        chunks.append(chunk)
        left -= len(chunk)
    content = b"".join(chunks)
    if left:
        return content
    size = posix.fstat(fd).st_size
    start, length = end_of(size)
    # What is no plain file has no end to go to.
    return joined(content, posix.pread(fd, length, start) if size else b"", max(size, len(content)))


def _wait_for_lock(fd: int, path: str, patience_s: float | None) -> None:
    if patience_s is None:
        fcntl.lockf(fd, fcntl.LOCK_SH)
        return
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise TimeoutError(error.errno, f"locked by another process for {patience_s:g} s", path) from None
            time.sleep(0.01)
        else:
            return


def read_status(controldir: str, job_id: str, state: str, *, hashed: bool = False) -> StatusFile | None:
    """The status file of a job wherever it is now; ``None`` when there is none (the first ACCEPTED)."""
    # Of a job that is just being moved to ARC 7 the files may be there already and the status file not yet.
    for layout in (True, False) if hashed else (False,):
        for path in status_files(controldir, job_id, state, hashed=layout):
            status = read_status_file(path)
            if status is not None:
                return status
    return None


def read_status_file(path: str) -> StatusFile | None:
    """One status file; ``None`` when it is not there."""
    content, stat = read_bytes(path)
    if content is None or stat is None:
        return None
    text = content.decode("ascii", "backslashreplace").strip()
    state = text.removeprefix("PENDING:")
    return StatusFile(state, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, pending=state != text)


def read_job(
    controldir: str,
    job_id: str,
    state: str,
    owner: "object" = owner_of,
    patience_s: float | None = None,
    status: StatusFile | None = None,
) -> JobFiles:
    """
    Everything a state change needs of a job's files; only FINISHING and FINISHED need more than .local.

    ``owner`` turns the stat of .diag into ``user:group``; a .local that somebody else keeps locked is waited for
    ``patience_s`` at most; ``status`` is for callers that have read it. Raises OSError when a file is there but
    unreadable.
    """
    files = JobFiles(controldir, job_id, state)
    files.hashed = hashed = is_hashed(controldir, job_id)
    if status is None:
        status = read_status(controldir, job_id, state, hashed=hashed)
    if status is not None and status.state == state:
        files.status = status
        files.event_ns = status.mtime_ns
    elif status is not None or state != "ACCEPTED":
        # The job has moved on, so the file's time belongs to another state, or the file is gone.
        files.event_ns = time.time_ns()
    files.local = read_bytes(job_file(controldir, job_id, "local", hashed=hashed), lock=True, patience_s=patience_s)[0]
    # .diag has its content from FINISHING on: the batch system's times, which no hook of ARC 6 tells earlier.
    if state in ("FINISHING", "FINISHED"):
        files.diag, stat = read_bytes(job_file(controldir, job_id, "diag", hashed=hashed))
        if state == "FINISHED":
            if stat is not None:
                files.owner = owner(stat)  # type: ignore[operator]  # typing.Callable costs the hook an import
            files.statistics = read_bytes(job_file(controldir, job_id, "statistics", hashed=hashed))[0]
            try:
                posix.lstat(job_file(controldir, job_id, "failed", hashed=hashed))
                files.failed = True
            except FileNotFoundError:
                files.failed = False
    return files
