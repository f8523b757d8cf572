"""
One file per event that the database could not take, written by the hook, recorded by the next sweep. On the hook's path.

The name is ``<time ns>-<pid>-<STATE>-<JOBID>``; the content is ``key=value`` lines, then the bytes of the control
files that the hook could read, each after a line ``file=NAME LENGTH``. The sh launcher writes the lines alone.
A file is complete once it has its name: it is written as ``.tmp-...`` and renamed.
"""

import os
import time

from arcacct.controldir.files import JobFiles, StatusFile
from arcacct.controldir.layout import is_job_id
from arcacct.errors import InputError

VERSION = "1"
_FILES = ("local", "diag", "statistics")


def write(spool: str, files: JobFiles) -> str:
    """
    Write an event to the spool and return the path; the directory is made if it is missing.

    Raises OSError when even that is impossible.
    """
    now_ns = time.time_ns()
    name = f"{now_ns}-{os.getpid()}-{files.state}-{files.job_id}"
    content = to_bytes(files, now_ns)
    try:
        return _write(spool, name, content)
    except FileNotFoundError:
        private_directory(spool)
        return _write(spool, name, content)


def private_directory(path: str) -> None:
    """Make a directory and its parents, each for its owner only (`os.makedirs` gives the mode to the last alone)."""
    if os.path.isdir(path):
        return
    private_directory(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        # Another process was first.
        return


def _write(spool: str, name: str, content: bytes) -> str:
    temporary = f"{spool}/.tmp-{name}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        # The job's own files may be gone when this is read: it has to survive a power cut.
        os.fsync(fd)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    path = f"{spool}/{name}"
    os.rename(temporary, path)
    return path


def to_bytes(files: JobFiles, now_ns: int) -> bytes:
    """The content of a spool file."""
    status = files.status
    lines = [
        f"version={VERSION}",
        f"controldir={files.controldir}",
        f"jobid={files.job_id}",
        f"state={files.state}",
        f"time={files.event_ns or now_ns}",
        f"failed={'yes' if files.failed else 'no'}",
    ]
    if status is not None:
        lines.append(f"status={status.size} {status.mtime_ns} {status.ctime_ns}")
    if files.owner:
        lines.append(f"owner={files.owner}")
    parts = ["\n".join(lines).encode("utf-8", "surrogateescape"), b"\n"]
    for name in _FILES:
        content: bytes | None = getattr(files, name)
        if content is not None:
            parts += [f"file={name} {len(content)}\n".encode(), content, b"\n"]
    return b"".join(parts)


def from_bytes(content: bytes, name: str) -> tuple[JobFiles, bool]:
    """
    A spool file as the job's files, and whether it holds their bytes (False: the launcher's lines alone).

    ``name`` is for the complaint: raises InputError when the content is not what `to_bytes` or the launcher writes.
    """
    values: dict[str, str] = {}
    blobs: dict[str, bytes] = {}
    rest = content
    while rest:
        line, _, rest = rest.partition(b"\n")
        key, equals, value = line.decode("utf-8", "surrogateescape").partition("=")
        if not equals:
            raise InputError(f"{name}: not a spool file of arcacct: line {line[:60]!r}")
        if key == "file":
            rest = _take(blobs, value, rest, name)
        else:
            values[key] = value
    return _job_files(values, blobs, name), bool(blobs)


def _take(blobs: dict[str, bytes], value: str, rest: bytes, name: str) -> bytes:
    which, _, length = value.partition(" ")
    if which not in _FILES or not length.isdigit() or len(rest) < int(length):
        raise InputError(f"{name}: torn or not a spool file: file={value}")
    blobs[which] = rest[: int(length)]
    return rest[int(length) + 1 :]


def _job_files(values: dict[str, str], blobs: dict[str, bytes], name: str) -> JobFiles:
    if values.get("version") != VERSION:
        raise InputError(f"{name}: spool version {values.get('version')!r}; this program knows {VERSION}")
    job_id = values.get("jobid", "")
    if not is_job_id(job_id) or not values.get("state") or not values.get("controldir"):
        raise InputError(f"{name}: no jobid, state or controldir in it")
    files = JobFiles(values["controldir"], job_id, values["state"])
    files.event_ns = _nanoseconds(values.get("time", ""), name)
    files.failed = values.get("failed") == "yes"
    files.owner = values.get("owner")
    files.local, files.diag, files.statistics = (blobs.get(which) for which in _FILES)
    status = values.get("status", "").split()
    if len(status) == 3 and all(part.isdigit() for part in status):
        files.status = StatusFile(files.state, int(status[0]), int(status[1]), int(status[2]))
    return files


def _nanoseconds(text: str, name: str) -> int:
    if not text.isdigit():
        raise InputError(f"{name}: time={text!r} is no time")
    # The sh launcher has no clock finer than seconds: a number too small for nanoseconds is seconds.
    number = int(text)
    return number if number > 10**14 else number * 10**9
