"""PBS: the accounting logs of Torque, PBS Professional and OpenPBS as runs of jobs."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable, Iterator
from functools import partial

from arcacct.records.batch_jobs import SIGNALLED
from arcacct.records.batch_systems import PBS
from arcacct.resources import LARGEST
from arcacct.sources.engine import batch_runs
from arcacct.sources.engine.batch_runs import BatchRun, LogForm, LogSource
from arcacct.sources.engine.runs import NEVER_STARTED, Field, NoUsage, ParsedRun, values_of
from arcacct.sources.pbs.record import values_by_key
from arcacct.times import DAY_S

# One line for each event of a job: ``stamp;type;id;key=value key=value ...``.
#
# Two types have usage: E (ended), and in PBS Professional R (rerun), which has the usage of the run before. A job that
# ran has an E also if it was deleted (D) or aborted by the server (A). A job without an E or R used nothing.
#
# A job that releases nodes early has its usage until then in u, and that of its last phase in e. E has the nodes of the
# start.
#
# The other types are not needed: queues (Q), starts and the beginnings of phases (S, s, c), checkpoints (C, T),
# suspensions (z, r), changes (a), licences (L), provisioning (P, p) and reservations (B, U, Y, K, k, F). (Types by
# OpenPBS's accounting header and the Torque administrator's guide.)


_LINE = re.compile(r"(\d{2})/(\d{2})/(\d{4}) \d{2}:\d{2}:\d{2}(?:\.\d+)?;([A-Za-z]);([^;]*);(.*)", re.ASCII | re.DOTALL)
_ID = re.compile(r"(\d{1,17})(?:\[(\d{1,17})\]|-(\d{1,17}))?(?:\.([A-Za-z0-9][\w.:-]*))?", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,15}):)?(\d{1,15}):(\d{1,2})(?:\.\d*)?|(\d{1,17})(?:\.\d*)?", re.ASCII)
_SIZE = re.compile(r"(\d{1,20})([kmgtp]?)([bw])?", re.ASCII | re.IGNORECASE)
_SLOT = re.compile(r"([^/+\s]{1,255})/(\d{1,9})(?:-(\d{1,9}))?(?:\*(\d{1,9}))?((?:,\d{1,9}(?:-\d{1,9})?)*)", re.ASCII)
_LARGEST_SIGNAL = 127
WHOLE_ARRAY = "of an array as a whole, which uses nothing itself"
WITHOUT_END = {
    "D": "deleted by request, without a usable end in these files or the database",
    "A": "aborted by the server, without a usable end in these files or the database",
    "M": "moved to another server",
}
"""The reason that is counted for a job without an E, by the type of its record."""
_PHASES = frozenset(("u", "e"))
"""Records at the end of a phase of a run: its nodes changed."""
_ENDS = _PHASES | {"E", "R"}
_project = partial(batch_runs.chosen, default="_pbs_project_default")


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
        raise ValueError(f"{text[:40]!r} is not a size")
    size = int(match[1]) * (8 if match[3] in ("w", "W") else 1) * 1024 ** " kmgtp".index(match[2].lower() or " ")
    found = -(-size // 1024)
    if found > LARGEST:
        raise ValueError(f"{text[:40]!r} is larger than any measurement")
    return found or None


def _code(text: str) -> int:
    """Return an exit code. A negative one is a reason of the server."""
    found = -batch_runs.whole(text[1:]) if text.startswith("-") else batch_runs.whole(text)
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
            raise ValueError(f"{entry[:40]!r} is not a slot")
        nodes[match[1]] = None
        spans = [(match[2], match[3])]
        spans += [part.partition("-")[::2] for part in match[5].split(",") if part]
        count += sum(max(0, int(last or first) - int(first)) + 1 for first, last in spans) * int(match[4] or 1)
    if count >= batch_runs.MOST_CORES:
        raise ValueError("more slots than any job has")
    return tuple(nodes), count


def _of_chunks(text: str, key: str, each: int = 0) -> int | None:
    """
    Return the sum of a value over the chunks of a request, ``2:ppn=6+n7:ppn=8`` or ``2:ncpus=8:ngpus=1``. A chunk
    without the key has ``each``.
    """
    if not each and key not in text:
        return None
    total = 0
    for chunk in text.split("+"):
        parts = chunk.split(":")
        if not parts[0]:
            raise ValueError(f"{text[:40]!r} are not nodes")
        values = (batch_runs.whole(one.removeprefix(key)) for one in parts if one.startswith(key))
        total += (batch_runs.whole(parts[0]) if parts[0].isdigit() else 1) * next(values, each)
    return batch_runs.cores_of(str(total))


_CORES = ("Resource_List.mppwidth", "resources_used.ncpus", "total_execution_slots")
FIELDS = (
    Field("ctime", batch_runs.known_time_s, "submit_time", is_needed=True, unit="s since 1970"),
    Field("start", batch_runs.known_time_s, "start_time", is_needed=True, unit="s since 1970"),
    Field("end", batch_runs.known_time_s, "end_time", is_needed=True, unit="s since 1970"),
    Field("resources_used.walltime", _seconds, "wall_s", unit="s"),
    Field("resources_used.cput", _seconds, "cpu_user_s", unit="s"),
    Field("resources_used.mem", _kib, "memory_kib", unit="KiB"),
    Field("resources_used.vmem", _kib, "virtual_memory_kib", unit="KiB"),
    Field("exec_host", _slots, "slots"),
    *(Field(name, batch_runs.cores_of, "cores") for name in _CORES),
    Field("Resource_List.ncpus", batch_runs.cores_of, "requested_cores"),
    Field("Resource_List.nodes", partial(_of_chunks, key="ppn=", each=1), "cores_of_nodes"),
    Field("resources_used.ngpus", batch_runs.cores_of, "gpus"),
    Field("Resource_List.ngpus", batch_runs.cores_of, "gpus"),
    Field("Resource_List.select", partial(_of_chunks, key="ngpus="), "gpus"),
    Field("Resource_List.nodes", partial(_of_chunks, key="gpus="), "gpus"),
    Field("Resource_List.gpus", batch_runs.cores_of, "gpus"),
    Field("Exit_status", _code, "exit"),
    *(Field(name, batch_runs.text_of, name) for name in ("user", "group", "account")),
    Field("project", _project, "project"),
    Field("jobname", batch_runs.text_of, "name"),
    Field("queue", batch_runs.text_of, "queue"),
)


def run_of(line: str, unusable: set[str], place: str | None = None) -> BatchRun | NoUsage | None:
    """
    Return the run that a line reports; ``None`` for a record of another kind. ``place`` replaces PBS's name of the
    server.

    Raises ValueError when the line is not a record, when a required value is missing, or when a text of a user looks
    like a value of the server.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("not an accounting record: date and time, a letter, an id and keys, separated by ;")
    month, day, year, kind, job_id, message = match.groups()
    if kind in WITHOUT_END and _ID.fullmatch(job_id):
        # The stamp is in an unknown time zone.
        since = timegm((int(year), int(month), int(day), 0, 0, 0)) - DAY_S
        return NoUsage(WITHOUT_END[kind], _key(job_id, place), since)
    return _ended(kind, job_id, message, unusable, place) if kind in _ENDS else None


def _ended(kind: str, job_id: str, message: str, unusable: set[str], place: str | None) -> BatchRun | NoUsage | None:
    if kind in _PHASES:
        unusable = set()
    said = values_by_key(message, unusable)
    if kind != "E" and ("end" not in said or "start" not in said):
        # Torque only reports the attempt. A phase at the start has no usage.
        return None
    if "ctime" not in said:
        raise ValueError("ctime: it is missing")
    if "[]" in job_id:
        return NoUsage(WHOLE_ARRAY)
    server, number, task = _key(job_id, place)
    if not said.get("start", "").strip("0"):
        return NoUsage(NEVER_STARTED, (server, number, task), LARGEST)
    run = values_of(FIELDS, said.get, unusable)
    nodes, slots = run.pop("slots", None) or ((), None)
    requested = max(run.pop("requested_cores", None) or 0, run.pop("cores_of_nodes", None) or 0)
    run["cores"] = run.get("cores") or (requested if "exec_vnode" in said else slots) or slots or requested or None
    if kind in _PHASES:
        if not run.get("wall_s"):
            return None
        start, submitted, end = run["start_time"], run["submit_time"], run["end_time"]
        phase = f"{end}:{run['wall_s']}:{run['cores'] or 1}"
        part = BatchRun(server, number, task, start, submitted, end, job_id, "", is_final=0, phases=phase)
        return batch_runs.checked(part)
    if run.get("wall_s") == 0 and run["start_time"] < run["end_time"]:
        # After a restart of its daemon on the node, PBS reports 0 for any job.
        run["wall_s"] = None
    if run.get("cpu_user_s") is not None:
        # Both times are reported as one.
        run["cpu_kernel_s"] = 0
    status, signal = _exit(run.pop("exit", None))
    texts = {name: run.get(name) or "" for name in ("user", "group", "account", "project", "name", "queue")}
    unusable.update(name for name in ("user", "group", "queue") if not texts[name])
    return batch_runs.checked(
        BatchRun(
            **run
            | texts
            | {
                "place": server,
                "number": number,
                "task": task,
                "local_id": job_id,
                "state": batch_runs.status_of(status, signal),
                "exit_status": status,
                "exit_signal": signal,
                "node_list": ",".join(nodes),
                "is_final": int(kind == "E"),
            }
        )
    )


def _key(text: str, place: str | None) -> tuple[str, int, int]:
    """
    Return server, number and array index of ``123.server``, ``123[4].server`` or ``123-4.server`` (old Torque).
    ``place`` replaces the server.
    """
    match = _ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not an id of a job")
    return place or match[4] or "default", int(match[1]), int(match[2] or match[3] or batch_runs.NO_TASK)


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

    fields = FIELDS
    place_option = "server"
    file_help = "an accounting log of PBS (server_priv/accounting/YYYYMMDD)"
    example = "/var/spool/pbs/server_priv/accounting/20261126"

    def read(self, chunks: Iterable[bytes], form: LogForm) -> Iterator[ParsedRun]:
        """Yield each run of a log, and the jobs that were deleted, aborted or moved."""
        return batch_runs.log_lines(chunks, partial(run_of, place=form.place))


SOURCE: LogSource = PBSSource(PBS)
