"""PBS: the accounting logs of Torque, PBS Professional and OpenPBS as runs of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from arcacct.records.batch_jobs import SIGNALLED
from arcacct.records.batch_runs import (
    LARGEST,
    NO_TASK,
    BatchRun,
    LogForm,
    LogSource,
    checked,
    known_time_s,
    log_lines,
    status_of,
    whole,
)
from arcacct.records.batch_systems import PBS
from arcacct.records.runs import NEVER_STARTED, Field, NoUsage, ParsedRun, values_of

# One line for each event of a job: ``stamp;type;id;key=value key=value ...``.
#
# Two types have usage: E (ended), and in PBS Professional R (rerun), which has the usage of the run before. A job that
# ran has an E also if it was deleted (D) or aborted by the server (A). A job without an E or R used nothing.
#
# The other types are not needed: queues (Q), starts and their phases (S, s, u, c, e), checkpoints (C, T), suspensions
# (z, r), changes (a), licences (L), provisioning (P, p) and reservations (B, U, Y, K, k, F). (Types by OpenPBS's
# accounting header and the Torque administrator's guide.)
#
# Until 2019 quotes and blanks within values were not escaped, so a job name may look like further keys. Torque and PBS
# Professional write the users' texts (account, project, name) between the group and the queue, and all measured values
# after ctime. So the part before the last ctime is searched only for texts.


_LINE = re.compile(r"\d{2}/\d{2}/\d{4} \d{2}:\d{2}:\d{2}(?:\.\d+)?;([A-Za-z]);([^;]*);(.*)", re.ASCII | re.DOTALL)
_ID = re.compile(r"(\d{1,17})(?:\[(\d{1,17})\]|-(\d{1,17}))?(?:\.([A-Za-z0-9][\w.:-]*))?", re.ASCII)
_KEY = re.compile(r"(?:^| )([A-Za-z_][\w.]*)=", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,15}):)?(\d{1,15}):(\d{1,2})(?:\.\d*)?|(\d{1,17})(?:\.\d*)?", re.ASCII)
_SIZE = re.compile(r"(\d{1,20})([kmgtp]?)([bw])?", re.ASCII | re.IGNORECASE)
_SLOT = re.compile(r"([^/+\s]{1,255})/(\d{1,9})(?:-(\d{1,9}))?(?:\*(\d{1,9}))?((?:,\d{1,9}(?:-\d{1,9})?)*)", re.ASCII)
_PPN = re.compile(r"(\d{1,9}|[A-Za-z][^:+]*)((?::[^:+]+)*)", re.ASCII)
_USERS_TEXTS = ("user", "group", "account", "project", "jobname", "queue")
"""The keys of texts before ctime, in this order."""
_TWICE = "\0"
"""A value that is reported twice with different contents."""
_MOST_CORES = 2**31
_LARGEST_SIGNAL = 127
_DEFAULT_SERVER = "default"
WHOLE_ARRAY = "of an array as a whole, which uses nothing itself"
WITHOUT_END = {
    "D": "deleted by request, without an end in these files",
    "A": "aborted by the server, without an end in these files",
    "M": "moved to another server",
}
"""The reason that is counted for a job without an E, by the type of its record."""
_MOST_WITHOUT_END = 100_000
"""The most such jobs that wait for their end. Further ones are counted at once."""
_NO_PROJECT = "_pbs_project_default"


def _needed(text: str | None) -> str:
    if text is None:
        raise ValueError("it is missing")
    if text == _TWICE:
        raise ValueError("two values: a text of a user may look like it")
    return text


def _needed_time(text: str | None) -> int:
    return known_time_s(_needed(text))


def _text(text: str) -> str | None:
    if text == _TWICE:
        raise ValueError("two values")
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].replace('\\"', '"')
    return text or None


def _project(text: str) -> str | None:
    found = _text(text)
    return None if found == _NO_PROJECT else found


def _seconds(text: str) -> int:
    """Return seconds. The text is ``HH:MM:SS`` with any number of hours, ``MM:SS``, or seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a duration")
    hours, minutes, seconds, alone = (int(part or 0) for part in match.groups())
    found = alone or (hours * 60 + minutes) * 60 + seconds
    if found > LARGEST:
        raise ValueError(f"{text[:40]!r} is longer than any job")
    return found


def _kib(text: str) -> int | None:
    """Return KiB, rounded up. The text is in bytes (b) or in words of 8 bytes (w)."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no size")
    size = int(match[1]) * (8 if match[3] in ("w", "W") else 1) * 1024 ** " kmgtp".index(match[2].lower() or " ")
    found = -(-size // 1024)
    if found > LARGEST:
        raise ValueError(f"{text[:40]!r} is larger than any measurement")
    return found or None


def _count(text: str) -> int | None:
    found = whole(text)
    if found >= _MOST_CORES:
        raise ValueError(f"{found} is more than any job has")
    return found or None


def _code(text: str) -> int:
    """Return an exit code. A negative one is a reason of the server."""
    found = -whole(text[1:]) if text.startswith("-") else whole(text)
    if abs(found) >= 2**31:
        raise ValueError(f"{text[:40]!r} is not an exit code")
    return found


def _slots(text: str) -> tuple[tuple[str, ...], int]:
    """Return the nodes and the number of slots of ``n1/0+n1/1``, ``n1/0-5,8`` or ``n1/0*4``."""
    nodes: dict[str, None] = {}
    count = 0
    for entry in text.split("+"):
        match = _SLOT.fullmatch(entry)
        if match is None:
            raise ValueError(f"{entry[:40]!r} is no slot")
        nodes[match[1]] = None
        spans = [(match[2], match[3])]
        spans += [part.partition("-")[::2] for part in match[5].split(",") if part]
        count += sum(max(0, int(last or first) - int(first)) + 1 for first, last in spans) * int(match[4] or 1)
    if count >= _MOST_CORES:
        raise ValueError("more slots than any job has")
    return tuple(nodes), count


def _of_nodes(text: str) -> int | None:
    """Return the cores of a request: ``2:ppn=6+n7:ppn=8``. A node without ``ppn`` has one core."""
    total = 0
    for part in text.split("+"):
        match = _PPN.fullmatch(part)
        if match is None:
            raise ValueError(f"{text[:40]!r} are no nodes")
        ppn = next((one[4:] for one in match[2].split(":") if one.startswith("ppn=")), "1")
        total += (int(match[1]) if match[1].isdigit() else 1) * whole(ppn)
    return _count(str(total))


FIELDS = (
    Field("ctime", _needed_time, "submit_time", is_needed=True, unit="s since 1970"),
    Field("start", _needed_time, "start_time", is_needed=True, unit="s since 1970"),
    Field("end", _needed_time, "end_time", is_needed=True, unit="s since 1970"),
    Field("resources_used.walltime", _seconds, "wall_s", unit="s"),
    Field("resources_used.cput", _seconds, "cpu_user_s", unit="s"),
    Field("resources_used.mem", _kib, "memory_kib", unit="KiB"),
    Field("resources_used.vmem", _kib, "virtual_memory_kib", unit="KiB"),
    Field("exec_host", _slots, "slots"),
    Field("resources_used.ncpus", _count, "cores"),
    Field("total_execution_slots", _count, "cores"),
    Field("Resource_List.ncpus", _count, "requested_cores"),
    Field("Resource_List.nodes", _of_nodes, "requested_cores"),
    Field("Resource_List.ngpus", _count, "gpus"),
    Field("Exit_status", _code, "exit"),
)
"""The keys that are read from ctime on."""
TEXTS = (
    Field("user", _text, "user"),
    Field("group", _text, "group"),
    Field("account", _text, "account"),
    Field("project", _project, "project"),
    Field("jobname", _text, "name"),
    Field("queue", _text, "queue"),
)
"""The keys that are read before ctime."""


def run_of(
    line: str, unusable: set[str], place: str | None = None, waiting: dict[str, str] | None = None
) -> BatchRun | NoUsage | None:
    """
    Return the run that a line reports; ``None`` for a record of another kind. ``place`` replaces PBS's name of the
    server.

    ``waiting`` has, by job ID, the reason why a job may have no end, until its end comes. Raises ValueError when the
    line is not a record, or when a required value is missing.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("no accounting record: date and time, a letter, an id and keys, with ; between")
    kind, job_id, message = match.groups()
    waiting = {} if waiting is None else waiting
    if kind in WITHOUT_END and _ID.fullmatch(job_id):
        if len(waiting) >= _MOST_WITHOUT_END:
            return NoUsage(WITHOUT_END[kind])
        waiting.setdefault(job_id, WITHOUT_END[kind])
    if kind == "E":
        waiting.pop(job_id, None)
    return _ended(kind, job_id, message, unusable, place) if kind in ("E", "R") else None


def _ended(kind: str, job_id: str, message: str, unusable: set[str], place: str | None) -> BatchRun | NoUsage | None:
    at = f" {message}".rfind(" ctime=")
    if at < 0:
        if kind == "R":
            # Torque only reports the attempt.
            return None
        raise ValueError("ctime: it is missing")
    head, tail = message[: max(0, at - 1)], message[at:]
    said = _keys(tail)
    if kind == "R" and ("end" not in said or "start" not in said):
        return None
    if not said.get("start", "").strip("0"):
        return NoUsage(NEVER_STARTED)
    if "[]" in job_id:
        return NoUsage(WHOLE_ARRAY)
    number, task, server = _id(job_id)
    run = values_of(FIELDS, said.get, unusable) | values_of(TEXTS, _texts(head).get, unusable)
    nodes, slots = run.pop("slots", None) or ((), None)
    requested = run.pop("requested_cores", None)
    run["cores"] = run.get("cores") or (requested if "exec_vnode" in said else slots) or slots or requested
    if run.get("cpu_user_s") is not None:
        # Both times are reported as one.
        run["cpu_kernel_s"] = 0
    status, signal = _exit(run.pop("exit", None))
    texts = {name: run.get(name) or "" for name in ("user", "group", "account", "project", "name", "queue")}
    return checked(
        BatchRun(
            **run
            | texts
            | {
                "place": place or server or _DEFAULT_SERVER,
                "number": number,
                "task": task,
                "local_id": job_id,
                "state": status_of(status, signal),
                "exit_status": status,
                "exit_signal": signal,
                "node_list": ",".join(nodes),
            }
        )
    )


def _id(text: str) -> tuple[int, int, str]:
    """Return number, array index and server of ``123.server``, ``123[4].server`` or ``123-4.server`` (old Torque)."""
    match = _ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not an id of a job")
    return int(match[1]), int(match[2] or match[3] or NO_TASK), match[4] or ""


def _keys(text: str) -> dict[str, str]:
    """Return the values from ctime on. A value that is there twice with different contents is _TWICE."""
    found: dict[str, str] = {}
    names = list(_KEY.finditer(text))
    for place, match in enumerate(names):
        value = text[match.end() : names[place + 1].start() if place + 1 < len(names) else None].rstrip()
        found[match[1]] = value if found.get(match[1], value) == value else _TWICE
    return found


def _texts(head: str) -> dict[str, str]:
    """Return the values before ctime. Users choose the texts between group and queue."""
    found: dict[str, str] = {}
    names = [match for match in _KEY.finditer(head) if match[1] in _USERS_TEXTS]
    queues = [match for match in names if match[1] == "queue"]
    names = [match for match in names if match[1] != "queue" or match is queues[-1]]
    for place, match in enumerate(names):
        value = head[match.end() : names[place + 1].start() if place + 1 < len(names) else None].rstrip()
        if match[1] not in found:
            found[match[1]] = value
        elif match[1] not in ("user", "group"):
            found[match[1]] = _TWICE
    return found


def _exit(code: int | None) -> tuple[int | None, int | None]:
    """
    Return exit status and signal. Torque adds 256 to a signal, PBS Professional 256, or 128 as a shell does.

    A negative code is a reason of the server: the job failed, and its script gave no status.
    """
    if code is None:
        return None, None
    if 0 < code - SIGNALLED <= _LARGEST_SIGNAL:
        return None, code - SIGNALLED
    return (1, None) if code < 0 else (code, None)


class PBSSource(LogSource):
    """The source for PBS's accounting logs."""

    fields = (*FIELDS, *TEXTS)
    place_option = "server"
    file_help = "an accounting log of PBS (server_priv/accounting/YYYYMMDD)"
    example = "/var/spool/pbs/server_priv/accounting/20261126"

    def read(self, chunks: Iterable[bytes], form: LogForm) -> Iterator[ParsedRun]:
        """Yield each run of a log, then the jobs that were deleted, aborted or moved and have no end in it."""
        waiting: dict[str, str] = {}
        yield from log_lines(chunks, partial(run_of, place=form.place, waiting=waiting))
        yield from (ParsedRun(NoUsage(why), job_id, "", 0) for job_id, why in waiting.items())


SOURCE: LogSource = PBSSource(PBS)
