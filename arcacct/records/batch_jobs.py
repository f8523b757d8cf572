"""Jobs of batch systems: their owners, their IDs as numbers, and the A-REX jobs that they belong to."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from arcacct.config.paths import QueueBenchmark
from arcacct.config.values import MapRule, NodeBenchmark
from arcacct.database.connection import Connection
from arcacct.records.batch_systems import BATCH_SYSTEMS
from arcacct.records.enrichment import AREX, CONFIGURED, DEFAULT
from arcacct.records.model import Job
from arcacct.records.states import CORE_SECONDS, OF_RUNS, SQL_IN_PROGRESS
from arcacct.records.texts import unescaped

# The common parts of the sources of batch systems: a job's owner, its ID, and A-REX's record of the same job.


LOCAL = "local"
"""Interface of Grid Engine's jobs without an endpoint of A-REX; Slurm's jobs from Sonar always have an empty one."""
KINDS = tuple(one.kind for one in BATCH_SYSTEMS.values())
"""The first words of job IDs. Slurm's is always ``sonar``, for any program that reported the job."""
_OF_PACKAGE = re.compile(r"([a-z][a-z0-9]{0,31}):([^:/]+):.+:[0-9]+", re.DOTALL)
"""A JobID of another package's source (`job_id`), recognised by its form, since the package may be gone."""
BareIDs = tuple[tuple[str, int], ...]
"""
Places (`place_of`) whose jobs need only the batch system's ID, each with the latest end for this, UTC seconds.

Where IDs must differ, the IDs of all other places have the place's name as a prefix. Empty: no job has a prefix.
"""
CLOCKS_S = 600
"""The largest difference between the clocks of A-REX's host and the nodes, in seconds."""


class Owner(NamedTuple):
    """The owner of a job by the site's ``map`` lines, as fields of a `Job`."""

    vo: str = ""
    user_dn: str = ""
    auth_tokens: tuple[tuple[str, str], ...] = ()


def accounted_to(values: Mapping[str, str | None], rules: Sequence[MapRule]) -> Owner:
    """
    Return VO, attribute and user by the first ``map`` line that matches; an empty `Owner` if no line matches.

    ``values``: the batch system's values of the job's owner, group, account and project.
    """
    for rule in rules:
        value = values.get(rule.field)
        if value is not None and fnmatchcase(value, rule.pattern):
            group = rule.group
            fqan = None if group is None else group if group.startswith("/") else f"/{rule.vo}/{group}"
            return Owner(rule.vo, rule.user or "", () if fqan is None else (("mainfqan", fqan),))
    return Owner()


def queue_benchmark(
    queue: str | None, end_time: int, queues: Sequence[QueueBenchmark], default: str | None
) -> tuple[str | None, str]:
    """Return a queue's benchmark for a job with this end (UTC seconds), else the site's; and its source."""
    for line in queues:
        if line.queue == queue and line.valid.has(end_time):
            return line.benchmark, CONFIGURED
    return default, DEFAULT


def model_benchmark(model: str, end_time: int, lines: Sequence[NodeBenchmark]) -> str | None:
    """Return the benchmark of a CPU model for a job with this end (UTC seconds), from the first line that matches."""
    return next(
        (one.benchmark for one in lines if fnmatchcase(model.lower(), one.pattern.lower()) and one.valid.has(end_time)),
        None,
    )


def job_id(kind: str, place: str, local_job_id: str | int, submit_time: int) -> str:
    """
    Return the ID of a job: its batch system, cell or cluster, number, and first submission in UTC seconds.

    Batch systems reuse numbers, so the submission is part of it. The ID is published, so it never changes.
    """
    return f"{kind}:{place}:{local_job_id}:{submit_time}"


def place_of(job_id: str) -> str | None:
    """
    Return the kind and the cell, cluster or schedd of a job, such as ``htcondor:schedd.example.org``.

    ``None`` for jobs that came through A-REX.
    """
    kind, _, rest = job_id.partition(":")
    place, found, _ = rest.partition(":")
    return f"{kind}:{place}" if found and (kind in KINDS or _OF_PACKAGE.fullmatch(job_id)) else None


def name_before(job_id: str, end_time: object, bare_ids: BareIDs) -> str:
    """Return the prefix for a job's local ID that makes it unique among places: the place and a colon, or nothing."""
    place = place_of(job_id) if bare_ids else None
    if place is None:
        return ""
    for known, until in bare_ids:
        if known == place and isinstance(end_time, int) and end_time <= until:
            return ""
    return f"{place.partition(':')[2]}:"


def places(con: Connection) -> list[str]:
    """Return the places of all jobs in the database, as `place_of` does, in the order of their first records."""
    first: dict[str, int] = {}
    progress = con.execute("SELECT DISTINCT substr(Place, 1, instr(Place, ':') - 1) FROM BatchProgress ORDER BY 1")
    for kind in dict.fromkeys((*KINDS, *(kind for (kind,) in progress))):
        # One step in the index of JobID for each place. A semicolon comes right after the colon.
        after = f"{kind}:"
        while (found := _first_between(con, "JobID", after, f"{kind};")) is not None:
            stored = place_of(found)
            if stored is None:
                after = f"{found}\0"
                continue
            after = f"{stored};"
            first[place_of(unescaped(found)) or stored] = _first_between(con, "RecordID", f"{stored}:", after)
    return sorted(first, key=first.__getitem__)


def _first_between(con: Connection, column: str, low: str, high: str) -> Any:
    return con.execute(f"SELECT min({column}) FROM AAR WHERE JobID >= ? AND JobID < ?", (low, high)).fetchone()[0]


def has_arc_jobs(con: Connection) -> bool:
    """Whether any job came through A-REX; if not, no search for A-REX's records is needed."""
    return con.execute("SELECT 1 FROM Endpoints WHERE Interface <> ? LIMIT 1", (LOCAL,)).fetchone() is not None


def earliest_unfinished(con: Connection) -> int | None:
    """Return the earliest submission of A-REX's unfinished jobs, UTC seconds. They have no recorded number yet."""
    row = con.execute(
        f"SELECT min(SubmitTime) FROM AAR WHERE StatusID = (SELECT ID FROM Status WHERE Name = {SQL_IN_PROGRESS})"
    ).fetchone()
    return None if row[0] is None else int(row[0])


def arc_job(con: Connection, job: Job, lrms_names: Collection[str]) -> int | None:
    """
    Return A-REX's record of the same job; of several, the last one submitted before the batch system's job.

    Both have the same number, and the batch system's job was submitted while A-REX's job existed. The ends are not
    compared: A-REX gives up jobs that run on for hours, and gets other ends late. ``lrms_names``: the names of the
    batch system in [lrms] of arc.conf, in lower case.
    """
    found = arc_jobs_called(con, job.local_job_id, job, lrms_names, with_host=False)
    return found[0][0] if found else None


def arc_jobs_called(
    con: Connection, number: str, job: Job, lrms_names: Collection[str], *, with_host: bool = True
) -> list[tuple[int, str]]:
    """
    Return A-REX's records that existed when a batch system's job was submitted, the last submitted first.

    Their LocalJobID is ``number``, or ``with_host`` also ``number``, a dot and any text. The result is ``(RecordID,
    LocalJobID)``.
    """
    marks = ", ".join("?" * len(lrms_names))
    or_with_host = " OR (LocalJobID >= ?1 || '.' AND LocalJobID < ?1 || '/')" if with_host else ""
    rows = con.execute(
        "SELECT AAR.RecordID, LocalJobID FROM AAR LEFT JOIN RecordSources USING (RecordID)"
        f" WHERE (LocalJobID = ?1{or_with_host})"
        " AND (Source IS NULL OR Source = ?2) AND EndTime > 0 AND SubmitTime <= ?3 + ?4 AND EndTime >= ?3 - ?4"
        " AND NOT EXISTS (SELECT 1 FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID"
        f" AND InfoKey = 'lrms' AND lower(InfoValue) NOT IN ({marks}))"
        " ORDER BY SubmitTime DESC, AAR.RecordID DESC",
        (number, AREX, job.submit_time, CLOCKS_S, *lrms_names),
    )
    return [(int(record_id), str(name)) for record_id, name in rows]


def same_host(place: str, schedd: str) -> bool:
    """Whether ``place``, the text after a number, may be the host of a schedd or server (``name@host``, ``host``)."""
    host = place.lower()
    if host in ("", "0", "condor"):
        return True
    other = schedd.rpartition("@")[2].lower()
    return host == other or (host.partition(".")[0] == other.partition(".")[0] and not ("." in host and "." in other))


TERM = 15
"""The exit code of a removed job without a signal or an exit status other than 0."""
SIGNALLED = 256
"""A-REX adds this to the number of a signal that ended a job."""


def exit_code(status: int | None, signal: int | None, *, is_removed: bool) -> int | None:
    """Return the exit status, or the signal plus 256 as A-REX does; a removed job never has 0."""
    code = SIGNALLED + signal if signal else status
    return code or TERM if is_removed else code


def extra_of(values: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    """Return the values for which A-REX has no key, as `Job.extra`: those that are known."""
    return tuple((key, value) for key, value in values.items() if value)


def measured(job: Job) -> dict[str, int | str | None]:
    """Return the batch system's values of a job, for A-REX's record of it (`enrichment.enrich`)."""
    has_cpu = job.cpu_user_s or job.cpu_kernel_s
    plain = ("exit_code", "node_count", "core_count", "memory_kib", "virtual_memory_kib")
    return {field: getattr(job, field) for field in plain} | {
        "wall_s": job.wall_s or None,
        "cpu_user_s": job.cpu_user_s if has_cpu else None,
        "cpu_kernel_s": job.cpu_kernel_s if has_cpu else None,
        "node_names": ":".join(job.node_names) or None,
        "project": job.project,
        CORE_SECONDS: dict(job.extra).get(CORE_SECONDS),
    }


class Figures(NamedTuple):
    """The batch system's values of a job, or of one of its runs, for a comparison with the record."""

    local_job_id: str
    account: str
    user: str
    submit_time: int
    end_time: int
    wall_s: int
    core_s: int
    """Core seconds."""
    cpu_s: int | None
    """``None``: not known."""
    place: str = ""
    """The host, for a batch system whose numbers A-REX writes with a host; empty: any host."""
    is_final: bool = True
    """False: the batch system says that another run follows."""


FOLLOWED_S = 86_400
"""
A job whose last run is followed by another one waits for it, but not longer than this time of its log, in seconds.

Its record would be published as that of a job that ended, and would change its key at the receivers.
"""


def core_s(job: Job) -> int:
    """Return the core seconds of a job; one core if the number is unknown."""
    told = dict(job.extra).get(CORE_SECONDS)
    return (job.wall_s or 0) * (job.core_count or 1) if told is None else int(told)


def calculated_wall(core_s: int, cores: int | None) -> tuple[int, tuple[str, str], tuple[str, str]]:
    """
    Return the wall time of a job whose runs had different cores, in seconds, for the largest number of these; with the
    `Job.extra` that has the exact core seconds, and the `Job.field_sources` that marks it.
    """
    return round(core_s / (cores or 1)), (CORE_SECONDS, str(core_s)), ("wall_s", OF_RUNS)


def figures(job: Job) -> Figures:
    """Return the figures of a whole job."""
    whose = (job.project or "", (job.local_user or "").partition(":")[0])
    cpu_s = None if job.cpu_user_s is None else job.cpu_user_s + (job.cpu_kernel_s or 0)
    return Figures(job.local_job_id, *whose, job.submit_time, job.end_time, job.wall_s or 0, core_s(job), cpu_s)


# The local IDs of jobs, parsed into numbers, so that different spellings of one job are recognised.
#
# ``123``                  Slurm (also for an array's element), Grid Engine, LSF
# ``123.4``                Grid Engine: an element of an array; HTCondor: cluster and process
# ``123.ce.example.org``   Torque; HTCondor as A-REX writes it
# ``123[4]``, ``123[4].x`` LSF and Torque: an element of an array
# ``123_4``                Slurm's display of an element of an array, which also has its own number


_INDEX = "0|[1-9][0-9]{0,17}"
_FORM = re.compile(
    r"(?P<number>[1-9][0-9]{0,17})"
    rf"(?:\.(?P<task>{_INDEX})|\[(?P<index>{_INDEX})\]|_(?P<element>{_INDEX}))?"
    r"(?:\.(?P<host>[A-Za-z][A-Za-z0-9._-]*))?",
    re.ASCII,
)


class LocalID(NamedTuple):
    """A parsed local ID."""

    number: int
    """The job's number; for an element as Slurm displays it, that of its array."""
    task: int = 0
    """Index in an array; 0: no array, or the first index of an array that counts from 0."""
    is_element: bool = False
    """Whether it is Slurm's display of an element, whose own number differs."""


def local_id(text: str | None) -> LocalID | None:
    """Parse a local ID; ``None``: unknown form."""
    match = _FORM.fullmatch(text or "")
    if match is None:
        return None
    task = match["task"] or match["index"] or match["element"]
    # Index 0 is ambiguous, since ``task`` 0 means no array.
    if match["index"] and not int(match["index"]):
        return None
    return LocalID(int(match["number"]), int(task or 0), match["element"] is not None)


def spellings(job: LocalID) -> list[tuple[str, str]]:
    """Return the texts that name a job, as ranges: the first text, and the first text after the range."""
    if job.is_element:
        return [_one(f"{job.number}_{job.task}")]
    if job.task:
        array = f"{job.number}[{job.task}]"
        return [_one(f"{job.number}.{job.task}"), (array, f"{array}~")]
    # A host starts with a letter; digits there are elements of an array, or HTCondor's processes.
    return [_one(str(job.number)), _one(f"{job.number}.0"), (f"{job.number}.A", f"{job.number}.~")]


def tasks_of(number: int) -> tuple[str, str]:
    """Return the range of texts that name elements of an array in Grid Engine, as `spellings` does."""
    return f"{number}.1", f"{number}.:"


def _one(text: str) -> tuple[str, str]:
    return text, f"{text}\0"


def contradict(one: str, other: str) -> bool:
    """
    Whether two local IDs belong to different jobs.

    The ID of an array does not contradict the ID of one of its elements. If one has an unknown form, they are compared
    up to the first dot, since a host may follow it.
    """
    known, told = local_id(one), local_id(other)
    if known is None or told is None:
        return one.partition(".")[0] != other.partition(".")[0]
    is_other_task = bool(known.task and told.task) and known.task != told.task
    return known.is_element != told.is_element or known.number != told.number or is_other_task
