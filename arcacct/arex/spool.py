"""
The files of the spool: one for each event, written by the launcher (``etc/arcacct-hook``) for the recorder.

The launcher's form (version 2) has the name ``PID[.N]-STATE-JOBID``. Its lines ``key=value`` end with an empty line;
the bytes of the job's files follow, then a last line, which says that the file is whole:
``whole=[NAME LENGTH ...]/STATE/SIZE/MTIME/text/CTIME/text/OWNER``, without values if the event has no files. What it
says of the status file is that of the open file: state, bytes, times in seconds and as text with their fraction.

0.2 wrote version 1, which may still wait: the name is ``TIME-PID-STATE-JOBID``. Each file follows a line
``file=NAME LENGTH``, or the lines end with ``parts=NAME LENGTH ...`` and the bytes of all files follow.

A file of a finished job is called ``.tmp-...`` until it is whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from arcacct.arex.control_files import STATES, JobFiles, is_job_id
from arcacct.arex.input_limits import whole_lines
from arcacct.database.connection import Connection
from arcacct.database.schema import note, noted
from arcacct.errors import InputError
from arcacct.files.safe_open import read_regular
from arcacct.records.states import StatusFile

_VERSIONS = ("1", "2")
_FILES = ("local", "diag", "statistics")
TEMPORARY = ".tmp-"
_MOST_LINES = 100
"""For a version 1 file, without the job's files: it has about ten. Each line copies what follows it."""
_UNKNOWN = "UNKNOWN"
"""The output of `stat` for an owner whose name the host does not know."""


def from_bytes(content: bytes, name: str, written_ns: int) -> tuple[JobFiles, bool]:
    """
    Return the event in a spool file, and whether A-REX may have written .local again while it was copied.

    ``written_ns``: the file's own time, in nanoseconds: it is that of an event without a time. ``name`` is used in
    errors. Raises InputError for a file that is not whole, or that no version of arcacct writes.
    """
    first = content.partition(b"\n")[0]
    if not is_foreign(content):
        return _version_1(content, name) if first == b"version=1" else _version_2(content, name, written_ns)
    if first.startswith(b"version="):
        raise InputError(f"{name}: spool {first[:40].decode('ascii', 'replace')}; this program supports 2")
    raise InputError(f"{name}: truncated or not a spool file of arcacct: line {first[:60]!r}")


def _version_1(content: bytes, name: str) -> tuple[JobFiles, bool]:
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
            blobs, rest = _parts(value, rest, name), b""
        else:
            values[key] = value
    if rest:
        raise InputError(f"{name}: not a spool file of arcacct: more than {_MOST_LINES} lines")
    files = _job_files(values, blobs, name)
    files.event_ns = _nanoseconds(values.get("time", ""), name)
    files.owner = _owner(values.get("owner"))
    status = [number for part in values.get("status", "").split() if (number := _number(part)) is not None]
    if len(status) == 3:
        files.status = StatusFile(files.state, *status)
    return files, values.get("apart") == "yes"


def _version_2(content: bytes, name: str, written_ns: int) -> tuple[JobFiles, bool]:
    head, _, rest = content.partition(b"\n\n")
    body, found, last = rest.rpartition(b"\nwhole=")
    if not found or not last.endswith(b"\n") or b"\n" in last[:-1]:
        raise InputError(f"{name}: incomplete: the launcher could not write its end")
    values = dict(line.partition("=")[::2] for line in head.decode("utf-8", "surrogateescape").split("\n"))
    parts, _, status = last[:-1].decode("utf-8", "surrogateescape").partition("/")
    files = _job_files(values, _parts(parts, body, name), name)
    files.event_ns = written_ns
    if status:
        said, size, mtime, mtime_text, ctime, ctime_text, owner = [*status.split("/", 6), *[""] * 7][:7]
        texts = size, _digits(mtime, mtime_text), _digits(ctime, ctime_text)
        numbers = [number for text in texts if (number := _number(text)) is not None]
        # Without a status file, or once it says another state, the file's own time is the best one.
        if said == files.state and len(numbers) == 3:
            files.status = StatusFile(said, *numbers)
            files.event_ns = files.status.mtime_ns
        files.owner = _owner(owner) if files.diag is not None else None
    return files, True


def _parts(value: str, content: bytes, name: str) -> dict[str, bytes]:
    """Return the job's files, by name: ``value`` has their names and lengths."""
    words = value.split(" ") if value else []
    lengths = [_number(text) for text in words[1::2]]
    known = [length for length in lengths if length is not None]
    if len(words) % 2 or known != lengths or not set(words[::2]) <= set(_FILES) or sum(known) != len(content):
        raise InputError(f"{name}: truncated or not a spool file: {value[:60]!r} and {len(content)} bytes")
    found = {}
    for which, length in zip(words[::2], known, strict=True):
        found[which], content = whole_lines(content[:length]), content[length:]
    return found


def is_foreign(content: bytes) -> bool:
    """Whether another program, or a newer one, wrote a file: its name proves nothing then."""
    first = content.partition(b"\n")[0]
    return first.strip(b"\0") != b"" and not any(f"version={one}".encode().startswith(first) for one in _VERSIONS)


def from_name(name: str, controldir: str, written_ns: int) -> JobFiles | None:
    """Return the event data in the name and the time of a spool file; ``None`` if the name is not ours."""
    first, _, rest = name.removeprefix(TEMPORARY).partition("-")
    second, _, old_rest = rest.partition("-")
    has_time = second.isdecimal()
    state, _, job_id = (old_rest if has_time else rest).partition("-")
    if state not in STATES or not is_job_id(job_id) or not first.partition(".")[0].isdecimal():
        return None
    files = JobFiles(controldir, job_id, state)
    files.event_ns = written_ns
    if has_time:
        try:
            files.event_ns = _nanoseconds(first, name)
        except InputError:
            return None
    return files


def _job_files(values: dict[str, str], blobs: dict[str, bytes], name: str) -> JobFiles:
    if values.get("version") not in _VERSIONS:
        raise InputError(f"{name}: spool version {values.get('version')!r}; this program supports {_VERSIONS[-1]}")
    job_id = values.get("jobid", "")
    controldir, state = values.get("controldir", ""), values.get("state", "")
    if not is_job_id(job_id) or state not in STATES or not controldir.startswith("/") or "\0" in controldir:
        raise InputError(f"{name}: no jobid, state or controldir in it")
    files = JobFiles(controldir, job_id, state)
    files.failed = values.get("failed") == "yes"
    files.hashed = values.get("hashed") == "yes"
    files.local, files.diag, files.statistics = (blobs.get(which) for which in _FILES)
    return files


def _owner(text: str | None) -> str | None:
    """Return ``user:group`` as `control_files.owner_of`: names that the host does not know are left out."""
    if text is None or _UNKNOWN not in text:
        return text
    user, _, group = text.partition(":")
    user = "" if user == _UNKNOWN else user
    return user if group == _UNKNOWN else f"{user}:{group}"


def _number(text: str) -> int | None:
    """Return a whole number that fits into a column of the database, or ``None``."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    number = int(text)
    return number if number < 2**63 else None


def _digits(seconds: str, text: str) -> str:
    """Return nanoseconds from the two forms of `stat`: seconds, and a text with the fraction if it knows one."""
    fraction = text.partition(".")[2][:9]
    return seconds and seconds + (fraction if len(fraction) == 9 and fraction.isdigit() else "0" * 9)


def _nanoseconds(text: str, name: str) -> int:
    number = _number(text)
    # The clock of 0.2's launcher may have only seconds: a number too small for nanoseconds is seconds.
    if number is not None and number < 2**33:
        number *= 10**9
    if number is None:
        raise InputError(f"{name}: time={text[:40]!r} is not a time")
    return number


# The content of the spools, for people: it is read and not changed.


_NOTE = "ARCACCT_SPOOL_LEFT"
_LARGEST_LAUNCHER = 65_536
_SETTING = re.compile(
    r"""(?m)^(spool|fallback)=(?:\$\{ARCACCT_[A-Z_]+:-([^}\n]*)\}|"([^"\n]*)"|'([^'\n]*)'|([^\s;&|$"']*))[ \t]*$"""
)


class Spooled(NamedTuple):
    """The content of one or more spools."""

    files: int = 0
    oldest_s: int | None = None
    """Time of the oldest event, UTC seconds."""
    unusable: int = 0
    """Files in `unusable`."""
    unknown: tuple[str, ...] = ()
    """Each directory that cannot be listed, with the reason."""


def is_event(name: str) -> bool:
    """Whether a file of a spool has the name of an event, also of one that is not whole yet."""
    return name.removeprefix(TEMPORARY)[:1].isdigit()


def look(folders: Iterable[str]) -> Spooled:
    """Return the present content of these directories. A missing directory counts as empty."""
    unusable, times, unknown = 0, [], []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if is_event(entry.name):
                        with suppress(FileNotFoundError):
                            times.append(int(entry.stat(follow_symlinks=False).st_mtime))
            unusable += len(os.listdir(aside)) if os.path.isdir(aside := os.path.join(folder, "unusable")) else 0
        except FileNotFoundError:
            continue
        except OSError as error:
            unknown.append(f"{folder}: {error.strerror}")
    return Spooled(len(times), min(times, default=None), unusable, tuple(unknown))


def save_status(con: Connection, left: Spooled) -> None:
    """Store what a sweep left, for users who may not list the spools. The caller has a transaction."""
    if not left.unknown:
        note(con, _NOTE, f"{left.files} {left.oldest_s or 0} {left.unusable}")


def saved_status(con: Connection) -> Spooled | None:
    """Return what the last sweep left, ``None`` if no sweep stored it."""
    words = (noted(con, _NOTE) or "").split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return None
    files, oldest_s, unusable = map(int, words)
    return Spooled(files, oldest_s or None, unusable)


class LauncherSettings(NamedTuple):
    """The lines at the start of a launcher of ours."""

    spool: str = ""
    fallback: str = ""
    is_new: bool = True
    """Whether it is the launcher since 0.3, which only spools."""


def launcher_settings(path: str) -> LauncherSettings | None:
    """
    Return the lines of a launcher that an administrator may have edited; ``None`` for a program that is none of ours.

    (A-REX's environment may say otherwise; it hardly does. Empty: the launcher spools below the control directory.)
    """
    text = ""
    with suppress(OSError):
        text = read_regular(path)[:_LARGEST_LAUNCHER].decode(errors="surrogateescape")
    if "arcacct-hook CONTROLDIR" not in text:
        return None
    found = {name: "".join(value).strip("'\"") for name, *value in _SETTING.findall(text)}
    return LauncherSettings(found.get("spool", ""), found.get("fallback", ""), "version=2" in text)
