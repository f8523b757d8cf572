"""Jobs of batch systems: whose they are, what their ids are as numbers, and which of A-REX's jobs they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from arcacct.config.values import MapRule, NodeBenchmark, QueueBenchmark
from arcacct.database.connection import Connection
from arcacct.records.batch_systems import BATCH_SYSTEMS
from arcacct.records.enrichment import AREX, CONFIGURED, DEFAULT
from arcacct.records.model import Job
from arcacct.records.packing import unescaped
from arcacct.records.states import SQL_IN_PROGRESS

# What the sources of batch systems do alike: whose a job is, what it is called, and which of A-REX's jobs it is.


LOCAL = "local"
"""Interface of Grid Engine's jobs that came through no endpoint of A-REX; Slurm's of Sonar have always had none."""
KINDS = tuple(one.kind for one in BATCH_SYSTEMS.values())
"""What identities of jobs begin with; Slurm's with ``sonar``, whichever program reported the job."""
_OF_PACKAGE = re.compile(r"([a-z][a-z0-9]{0,31}):([^:/]+):.+:[0-9]+", re.DOTALL)
"""A JobID of a source of another package (`job_id`): known by its form, since the package may be gone."""
BareIDs = tuple[tuple[str, int], ...]
"""
Places (`place_of`) whose jobs need no more than the batch system's id, and up to which end, UTC seconds.

The jobs of other places have the place's name before it, where ids must differ. Empty: no job needs one.
"""
CLOCKS_S = 600
"""How far the clocks of A-REX's host and of the nodes may be apart."""


class Owner(NamedTuple):
    """Whom a job is accounted to, as far as the site's ``map`` lines tell: the fields of a `Job` for that."""

    vo: str = ""
    user_dn: str = ""
    auth_tokens: tuple[tuple[str, str], ...] = ()


def accounted_to(values: Mapping[str, str | None], rules: Sequence[MapRule]) -> Owner:
    """
    VO, attribute and user by the first ``map`` line that matches; nobody if none does.

    ``values``: what the batch system knows of the job's owner, group, account and project.
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
    """The benchmark of a queue's nodes for a job with this end, else that of the site; and whose word that is."""
    for line in queues:
        if line.queue == queue and line.valid.has(end_time):
            return line.benchmark, CONFIGURED
    return default, DEFAULT


def model_benchmark(model: str, end_time: int, lines: Sequence[NodeBenchmark]) -> str | None:
    """The benchmark of nodes of a CPU model for a job with this end: the first line whose pattern matches."""
    return next(
        (one.benchmark for one in lines if fnmatchcase(model.lower(), one.pattern.lower()) and one.valid.has(end_time)),
        None,
    )


def job_id(kind: str, place: str, local_job_id: str | int, submit_time: int) -> str:
    """
    The identity of a job: its batch system, cell or cluster and number, and when it was first submitted.

    (Numbers begin again. It is in what was published, so it never changes.)
    """
    return f"{kind}:{place}:{local_job_id}:{submit_time}"


def place_of(job_id: str) -> str | None:
    """
    The kind and the cell, cluster or schedd of a job, as ``htcondor:schedd.example.org``.

    ``None`` for jobs that came through A-REX.
    """
    kind, _, rest = job_id.partition(":")
    place, found, _ = rest.partition(":")
    return f"{kind}:{place}" if found and (kind in KINDS or _OF_PACKAGE.fullmatch(job_id)) else None


def name_before(job_id: str, end_time: object, bare_ids: BareIDs) -> str:
    """What tells a job's id in its batch system from the same id of another place: its name and a colon, or nothing."""
    place = place_of(job_id) if bare_ids else None
    if place is None:
        return ""
    for known, until in bare_ids:
        if known == place and isinstance(end_time, int) and end_time <= until:
            return ""
    return f"{place.partition(':')[2]}:"


def places(con: Connection) -> list[str]:
    """The places of all jobs in the database, as `place_of` names them, in the order of their first records."""
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
    """Whether any job came through A-REX: where none did, none has to be looked for."""
    return con.execute("SELECT 1 FROM Endpoints WHERE Interface <> ? LIMIT 1", (LOCAL,)).fetchone() is not None


def earliest_unfinished(con: Connection) -> int | None:
    """When the first job was submitted that A-REX has not finished: it does not say its number yet."""
    row = con.execute(
        f"SELECT min(SubmitTime) FROM AAR WHERE StatusID = (SELECT ID FROM Status WHERE Name = {SQL_IN_PROGRESS})"
    ).fetchone()
    return None if row[0] is None else int(row[0])


def arc_job(con: Connection, job: Job, lrms_names: Collection[str]) -> int | None:
    """
    The record of A-REX's that a job of the batch system is: of several, the one that was submitted last before it.

    Both have the same number, and the batch system got its job while A-REX had one of that number. When the two ended
    says nothing: A-REX gives up jobs that run on for hours, and is told late of others. ``lrms_names``: what [lrms] of
    arc.conf may call the batch system, in small letters.
    """
    marks = ", ".join("?" * len(lrms_names))
    row = con.execute(
        "SELECT AAR.RecordID FROM AAR LEFT JOIN RecordSources USING (RecordID)"
        " WHERE LocalJobID = ? AND (Source IS NULL OR Source = ?) AND EndTime > 0 AND SubmitTime <= ? AND EndTime >= ?"
        " AND NOT EXISTS (SELECT 1 FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID"
        f" AND InfoKey = 'lrms' AND lower(InfoValue) NOT IN ({marks}))"
        " ORDER BY SubmitTime DESC, AAR.RecordID DESC LIMIT 1",
        (job.local_job_id, AREX, job.submit_time + CLOCKS_S, job.submit_time - CLOCKS_S, *lrms_names),
    ).fetchone()
    return None if row is None else int(row[0])


def arc_jobs_called(con: Connection, number: str, job: Job, lrms_names: Collection[str]) -> list[tuple[int, str]]:
    """
    The records of A-REX's that were there when a job of the batch system was submitted, the last submitted first.

    Those whose LocalJobID is this number, or the number, a dot and anything; with that LocalJobID.
    """
    marks = ", ".join("?" * len(lrms_names))
    rows = con.execute(
        "SELECT AAR.RecordID, LocalJobID FROM AAR LEFT JOIN RecordSources USING (RecordID)"
        " WHERE (LocalJobID = ?1 OR (LocalJobID >= ?1 || '.' AND LocalJobID < ?1 || '/'))"
        " AND (Source IS NULL OR Source = ?2) AND EndTime > 0 AND SubmitTime <= ?3 + ?4 AND EndTime >= ?3 - ?4"
        " AND NOT EXISTS (SELECT 1 FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID"
        f" AND InfoKey = 'lrms' AND lower(InfoValue) NOT IN ({marks}))"
        " ORDER BY SubmitTime DESC, AAR.RecordID DESC",
        (number, AREX, job.submit_time, CLOCKS_S, *lrms_names),
    )
    return [(int(record_id), str(name)) for record_id, name in rows]


def same_host(place: str, schedd: str) -> bool:
    """Whether what stands behind a number may be the host of a schedd or server (``name@host`` or ``host``)."""
    host = place.lower()
    if host in ("", "0", "condor"):
        return True
    other = schedd.rpartition("@")[2].lower()
    return host == other or (host.partition(".")[0] == other.partition(".")[0] and not ("." in host and "." in other))


TERM = 15
"""The signal of a job that was removed, where nothing says another."""
SIGNALLED = 256
"""What A-REX adds to the number of a signal that ended a job."""


def exit_code(status: int | None, signal: int | None, *, is_removed: bool) -> int | None:
    """The exit status; of a job that a signal ended its number and 256, as A-REX has it; never 0 of one removed."""
    code = SIGNALLED + signal if signal else status
    return code or TERM if is_removed else code


def measured(job: Job) -> dict[str, int | str | None]:
    """What the batch system measured of a job, for the record of A-REX's that it is (`filling.enrich`)."""
    has_cpu = job.cpu_user_s or job.cpu_kernel_s
    plain = ("exit_code", "node_count", "core_count", "memory_kib", "virtual_memory_kib")
    return {field: getattr(job, field) for field in plain} | {
        "wall_s": job.wall_s or None,
        "cpu_user_s": job.cpu_user_s if has_cpu else None,
        "cpu_kernel_s": job.cpu_kernel_s if has_cpu else None,
        "node_names": ":".join(job.node_names) or None,
        "project": job.project,
    }


class Figures(NamedTuple):
    """What a batch system says of a job, or of one run of it, to be compared with what is recorded."""

    local_job_id: str
    account: str
    user: str
    submit_time: int
    end_time: int
    wall_s: int
    cores: int
    cpu_s: int | None
    """``None``: not known."""
    place: str = ""
    """Of a batch system whose numbers A-REX writes with a host: the host; empty: whatever host."""


def figures(job: Job) -> Figures:
    """Those of a whole job."""
    return Figures(
        job.local_job_id,
        job.project or "",
        (job.local_user or "").partition(":")[0],
        job.submit_time,
        job.end_time,
        job.wall_s or 0,
        job.core_count or 1,
        None if job.cpu_user_s is None else job.cpu_user_s + (job.cpu_kernel_s or 0),
    )


# The ids that batch systems give their jobs, as numbers: so that two programs that write one job differently agree.
#
# =======================  ===================================================================== ``123``
# Slurm (also of an array's element), Grid Engine, LSF ``123.4``                Grid Engine: a task of an array;
# HTCondor: cluster and process ``123.ce.example.org``   Torque; HTCondor as A-REX has it ``123[4]``, ``123[4].x``  LSF
# and Torque: a task of an array ``123_4``                Slurm, as it shows an element of an array, which has a number
# of its own =======================  =====================================================================


_INDEX = "0|[1-9][0-9]{0,17}"
_FORM = re.compile(
    r"(?P<number>[1-9][0-9]{0,17})"
    rf"(?:\.(?P<task>{_INDEX})|\[(?P<index>{_INDEX})\]|_(?P<element>{_INDEX}))?"
    r"(?:\.(?P<host>[A-Za-z][A-Za-z0-9._-]*))?",
    re.ASCII,
)


class LocalID(NamedTuple):
    """A job of a batch system."""

    number: int
    """Of an element that Slurm shows, that of its array."""
    task: int = 0
    """Index in an array; 0: none, or the first of those that count from 0."""
    is_element: bool = False
    """Whether it is Slurm's way to show an element, of which this is not the number."""


def local_id(text: str | None) -> LocalID | None:
    """The job that a text names, ``None`` when that cannot be told."""
    match = _FORM.fullmatch(text or "")
    if match is None:
        return None
    task = match["task"] or match["index"] or match["element"]
    # Index 0 would be no task for those who have 0 for none.
    if match["index"] and not int(match["index"]):
        return None
    return LocalID(int(match["number"]), int(task or 0), match["element"] is not None)


def spellings(job: LocalID) -> list[tuple[str, str]]:
    """The texts that name a job, each a range of them: the first, and what is behind the last."""
    if job.is_element:
        return [_one(f"{job.number}_{job.task}")]
    if job.task:
        array = f"{job.number}[{job.task}]"
        return [_one(f"{job.number}.{job.task}"), (array, f"{array}~")]
    # A host begins with a letter; digits there are tasks of an array, or HTCondor's processes.
    return [_one(str(job.number)), _one(f"{job.number}.0"), (f"{job.number}.A", f"{job.number}.~")]


def tasks_of(number: int) -> tuple[str, str]:
    """The texts that name tasks of an array, as Grid Engine writes them: the first, and what is behind the last."""
    return f"{number}.1", f"{number}.:"


def _one(text: str) -> tuple[str, str]:
    return text, f"{text}\0"


def contradict(one: str, other: str) -> bool:
    """
    Whether two ids are of different jobs.

    Who names the array alone does not contradict who names the task. Where one is in no form that is known, they are
    compared up to the first point, behind which one may have a host.
    """
    known, told = local_id(one), local_id(other)
    if known is None or told is None:
        return one.partition(".")[0] != other.partition(".")[0]
    is_other_task = bool(known.task and told.task) and known.task != told.task
    return known.is_element != told.is_element or known.number != told.number or is_other_task
