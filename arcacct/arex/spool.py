"""
One file for each event that the database could not take; the next sweep records it. The hook uses this module.

The name is ``<time ns>-<pid>-<STATE>-<JOBID>``. The content is ``key=value`` lines, then the bytes of the control
files that could be read. The hook writes each file after a line ``file=NAME LENGTH``. The sh launcher ends its lines
with ``parts=NAME LENGTH NAME LENGTH ...``, and the bytes of all files follow. If the launcher's clock has only seconds,
the name starts with seconds: as text they sort before every nanosecond of their second.
A file is complete once it has its name: it is written as ``.tmp-...`` and renamed. Both ways give the number of bytes,
so that a file without its name, or cut by a power failure, is known to be complete or torn.
"""

import os
import time

from arcacct.arex.control_files import STATES, JobFiles, is_job_id, whole_lines
from arcacct.errors import InputError
from arcacct.files.directories import private_directory
from arcacct.records.states import StatusFile

VERSION = "1"
_FILES = ("local", "diag", "statistics")
TEMPORARY = ".tmp-"
_MOST_LINES = 100
"""Of a spool file, without the job's files: we write some ten. Each line copies what follows it."""
_UNKNOWN = "UNKNOWN"
"""The output of `stat` for an owner whose name the host does not know."""


def write(spool: str, files: JobFiles) -> str:
    """
    Write an event to the spool and return the path. The directory is created if it is missing.

    Raises OSError if that is impossible, InputError for a control directory whose name does not fit into a line.
    """
    now_ns = time.time_ns()
    name = f"{now_ns}-{os.getpid()}-{files.state}-{files.job_id}"
    content = to_bytes(files, now_ns)
    try:
        return _write(spool, name, content)
    except FileNotFoundError:
        private_directory(spool)
        return _write(spool, name, content)


def _write(spool: str, name: str, content: bytes) -> str:
    temporary = f"{spool}/{TEMPORARY}{name}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    path = f"{spool}/{name}"
    os.rename(temporary, path)
    return path


def to_bytes(files: JobFiles, now_ns: int) -> bytes:
    """Return the content of a spool file. Raises InputError for a control directory with a line end in its name."""
    if "\n" in files.controldir:
        raise InputError(f"{files.controldir!r}: a control directory with a line end in its name cannot be spooled")
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
    if files.hashed:
        lines.append("hashed=yes")
    parts = ["\n".join(lines).encode("utf-8", "surrogateescape"), b"\n"]
    for name in _FILES:
        content: bytes | None = getattr(files, name)
        if content is not None:
            parts += [f"file={name} {len(content)}\n".encode(), content, b"\n"]
    return b"".join(parts)


def from_bytes(content: bytes, name: str) -> tuple[JobFiles, bool]:
    """
    Return a spool file as the job's files, and whether it contains .local (False: only the launcher's lines, or less).

    ``name`` is used in errors. Raises InputError if neither `to_bytes` nor the launcher writes such content.
    """
    values: dict[str, str] = {}
    blobs: dict[str, bytes] = {}
    rest = content
    for _line in range(_MOST_LINES):
        if not rest:
            break
        line, end, rest = rest.partition(b"\n")
        key, equals, value = line.decode("utf-8", "surrogateescape").partition("=")
        if not equals or not end:
            raise InputError(f"{name}: truncated or not a spool file of arcacct: line {line[:60]!r}")
        if key == "file":
            which, _, text = value.partition(" ")
            length = _number(text)
            if which not in _FILES or length is None or rest[length : length + 1] != b"\n":
                raise InputError(f"{name}: truncated or not a spool file: file={value[:60]!r}")
            blobs[which], rest = rest[:length], rest[length + 1 :]
        elif key == "parts":
            words = value.split(" ") if value else []
            lengths = [_number(text) for text in words[1::2]]
            known = [length for length in lengths if length is not None]
            if len(words) % 2 or known != lengths or not set(words[::2]) <= set(_FILES) or sum(known) != len(rest):
                raise InputError(f"{name}: truncated or not a spool file: parts={value[:60]!r} and {len(rest)} bytes")
            for which, length in zip(words[::2], known, strict=True):
                blobs[which], rest = whole_lines(rest[:length]), rest[length:]
        else:
            values[key] = value
    if rest:
        raise InputError(f"{name}: not a spool file of arcacct: more than {_MOST_LINES} lines")
    return _job_files(values, blobs, name), "local" in blobs


def is_whole(content: bytes) -> bool:
    """
    Whether the launcher's file is complete: its last line says how many bytes follow.

    (The hook says so of each file, but nothing shows whether another file was to come.)
    """
    lines, found, rest = content.partition(b"\nparts=")
    value, end, content = rest.partition(b"\n")
    lengths = [_number(word) for word in value.decode("ascii", "replace").split(" ")[1::2]]
    known = [length for length in lengths if length is not None]
    return bool(found and end) and b"\nfile=" not in lines and known == lengths and sum(known) == len(content)


def was_written_apart(content: bytes) -> bool:
    """Whether the launcher copied the job's files while A-REX may have written .local again."""
    return b"\napart=yes\n" in content.partition(b"\nparts=")[0] + b"\n"


def from_name(name: str, controldir: str) -> JobFiles | None:
    """Return the event data in the name of a spool file; ``None`` if the name is not ours."""
    time_text, _, rest = name.removeprefix(TEMPORARY).partition("-")
    _pid, _, rest = rest.partition("-")
    state, _, job_id = rest.partition("-")
    if state not in STATES or not is_job_id(job_id):
        return None
    try:
        event_ns = _nanoseconds(time_text, name)
    except InputError:
        return None
    files = JobFiles(controldir, job_id, state)
    files.event_ns = event_ns
    return files


def _job_files(values: dict[str, str], blobs: dict[str, bytes], name: str) -> JobFiles:
    if values.get("version") != VERSION:
        raise InputError(f"{name}: spool version {values.get('version')!r}; this program supports {VERSION}")
    job_id = values.get("jobid", "")
    controldir, state = values.get("controldir", ""), values.get("state", "")
    if not is_job_id(job_id) or state not in STATES or not controldir.startswith("/") or "\0" in controldir:
        raise InputError(f"{name}: no jobid, state or controldir in it")
    files = JobFiles(controldir, job_id, state)
    files.event_ns = _nanoseconds(values.get("time", ""), name)
    files.failed = values.get("failed") == "yes"
    files.owner = values.get("owner")
    if files.owner is not None and _UNKNOWN in files.owner:
        # As in `control_files.owner_of`: names that the host does not know are left out.
        user, _, group = files.owner.partition(":")
        user = "" if user == _UNKNOWN else user
        files.owner = user if group == _UNKNOWN else f"{user}:{group}"
    files.hashed = values.get("hashed") == "yes"
    files.local, files.diag, files.statistics = (blobs.get(which) for which in _FILES)
    status = [_number(part) for part in values.get("status", "").split()]
    if len(status) == 3:
        size, mtime_ns, ctime_ns = status
        if size is not None and mtime_ns is not None and ctime_ns is not None:
            files.status = StatusFile(state, size, mtime_ns, ctime_ns)
    return files


def _number(text: str) -> int | None:
    """Return a whole number that fits into a column of the database, or ``None``."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    number = int(text)
    return number if number < 2**63 else None


def _nanoseconds(text: str, name: str) -> int:
    number = _number(text)
    # The clock of the sh launcher may have only seconds: a number too small for nanoseconds is seconds.
    if number is not None and number < 2**33:
        number *= 10**9
    if number is None or number >= 2**63:
        raise InputError(f"{name}: time={text[:40]!r} is not a time")
    return number
