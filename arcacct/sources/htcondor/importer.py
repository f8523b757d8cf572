"""HTCondor's jobs: the table that stores them, the records made from them, and their import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from arcacct.database.connection import Connection
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import Figures, figures, same_host
from arcacct.records.batch_systems import HTCONDOR as SYSTEM
from arcacct.records.model import Job, parsed_fqan
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.resources import granted
from arcacct.sources.engine.runs import BatchSite, ParsedRun, RunTable, SourceType
from arcacct.sources.htcondor.history import FIELDS, OVERLAP_S, REMOVED, CondorJob, HistoryForm, read

_SPELT = {"wall_s": "Wall", "cores": "CPUs", "gpus": "GPUs", "cpu_user_s": "CPUUser", "cpu_kernel_s": "CPUKernel"}
_SPELT |= {"memory_kib": "MaxRSS", "virtual_memory_kib": "MaxVMSize", "memory_mib": "MemoryMiB", "status": "JobStatus"}
_SPELT |= {"user": "UserName", "name": "JobName", "queue": "QueueName", "user_dn": "UserDN", "vo": "VO", "fqan": "FQAN"}
_SPELT |= {"token_id": "TokenID"}

# Make a job from an HTCondor job, and match it with A-REX's name of it.
#
# A-REX identifies a job by its cluster and the host of its submission (``123.ce.example.org``; older versions write
# ``123.condor``), and submits one job to each cluster.


LRMS = SYSTEM.lrms_names[0]
"""As in [lrms] of arc.conf."""


def local_job(job: CondorJob, site: BatchSite) -> Job:
    """Return the accounting record of a job."""
    whose = {"owner": job.user, "account": job.account, "project": job.project or job.account, "group": job.account}
    owner = batch_jobs.accounted_to({name: value or None for name, value in whose.items()}, site.rules)
    if not owner.vo:
        # No map line names the owner, so the credential of the submission decides.
        of_proxy = batch_jobs.Owner(job.vo, job.user_dn, (("mainfqan", job.fqan),) if job.fqan else ())
        owner = of_proxy if any(of_proxy) else _of_token(job)
    benchmark, source = (job.benchmark, "") if job.benchmark else site.benchmark(job.queue or None, job.end_time)
    names = node_names(job)
    code = batch_jobs.exit_code(job.exit_status, job.exit_signal, is_removed=job.status == REMOVED)
    return Job(
        batch_jobs.job_id("htcondor", job.schedd, job.number, job.queued),
        ABORTED if job.status == REMOVED else FAILED if code else COMPLETED,
        job.submit_time,
        job.end_time,
        local_job_id=job.number,
        endpoint_type=batch_jobs.LOCAL,
        queue=job.queue,
        **owner._asdict(),
        exit_code=code,
        node_count=len(names) or None,
        core_count=job.cores,
        memory_kib=job.memory_kib,
        virtual_memory_kib=job.virtual_memory_kib,
        wall_s=job.wall_s,
        cpu_user_s=job.cpu_user_s,
        cpu_kernel_s=job.cpu_kernel_s,
        job_name=job.name or None,
        lrms=LRMS,
        node_names=names,
        local_user=job.user or None,
        project=job.project or job.account or None,
        benchmark=benchmark or None,
        extra=_extra(job),
        events=(("LRMSSTART", job.start_time), ("LRMSEND", job.end_time)),
        field_sources=(("benchmark", source),) if benchmark and source else (),
        accelerators=granted(job.gpus or 0, job.wall_s),
    )


def _of_token(job: CondorJob) -> batch_jobs.Owner:
    """
    Return the owner from the token: the user by issuer and subject, as A-REX 7 names users, and the VO from the first
    group.

    Groups are in the order of the user's request. The user works for the first group (WLCG Common JWT Profile 1.0,
    `wlcg.groups`). A job that A-REX submitted has A-REX's own token.
    """
    if not job.token_subject or job.queue:
        return batch_jobs.Owner()
    issuer = job.token_issuer.rstrip("/")
    user = f"{issuer}/{job.token_subject}" if issuer else job.token_subject
    group = job.token_groups.partition(",")[0].strip()
    # Anything else may name a person.
    found = None if "=" in group else parsed_fqan(group)
    return batch_jobs.Owner("", user) if found is None else batch_jobs.Owner(found.vo, user, (("mainfqan", group),))


def node_names(job: CondorJob) -> tuple[str, ...]:
    """Return the nodes of the last run, without their slots: ``slot1_3@node.example.org``."""
    names = (slot.strip().rpartition("@")[2] for slot in job.hosts.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def _extra(job: CondorJob) -> tuple[tuple[str, str], ...]:
    """Return the values for which A-REX has no key."""
    account = job.account if job.account != (job.project or job.account) else ""
    starts = str(job.starts) if (job.starts or 0) > 1 else ""
    gpus = str(job.gpus) if job.gpus else ""
    return batch_jobs.extra_of({"account": account, "gpus": gpus, "jobstarts": starts, "schedd": job.schedd})


def cluster_of(local_job_id: str) -> int | None:
    """Return the cluster in A-REX's LocalJobID; ``None`` if it is not an HTCondor job."""
    number, _, place = local_job_id.partition(".")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        return None
    return None if place.isdecimal() and int(place) else int(number)


def may_be_of(local_job_id: str, job: CondorJob) -> bool:
    """
    Whether A-REX's job with this LocalJobID may be this job: the same cluster, and the host of its schedd.

    A job that A-REX submitted has NordugridQueue. Then the name of the host may differ.
    """
    if job.proc or cluster_of(local_job_id) != job.cluster:
        return False
    return bool(job.queue) or same_host(local_job_id.partition(".")[2], job.schedd)


# HTCondor as a source.


class HTCondorSource(SourceType[CondorJob]):
    """The source for HTCondor's history."""

    system = SYSTEM
    table = RunTable("HTCondorJobs", CondorJob, _SPELT, no="JobNo", numbers=2, progress=("HTCondorProgress", "Schedd"))
    run_type = CondorJob
    never_asked = "condor_history never ran before: pass --since with the first day of your accounting"
    overlap_s = OVERLAP_S
    form = HistoryForm()
    fields = FIELDS

    def read(self, chunks: Iterable[bytes], form: HistoryForm) -> Iterator[ParsedRun]:
        """Yield each ad of a history."""
        return read(chunks, form)

    def job(self, run: CondorJob, site: BatchSite) -> Job:
        """Return the job of a run. Each job that left the queue is one job."""
        return local_job(run, site)

    def is_change(self, old: CondorJob, new: CondorJob) -> bool:
        """
        Whether a new output changes a job. A token alone does not change a job that was imported before arcacct read
        tokens.

        `--derive-again` applies such a token.
        """
        # The job is recorded, and perhaps published.
        return new.without_token != old.without_token if old.token_subject is None else new != old

    def arc_record(self, con: Connection, run: CondorJob, job: Job) -> int | None:
        """Return the A-REX record of a job. A-REX writes the cluster and the host of the submission."""
        found = batch_jobs.arc_jobs_called(con, str(run.cluster), job, SYSTEM.lrms_names)
        return next((record_id for record_id, name in found if may_be_of(name, run)), None)

    def may_be_arc(self, run: CondorJob) -> bool:
        """Whether A-REX may have submitted the job. A-REX submits one job to each cluster."""
        return not run.proc

    def number_of(self, local_job_id: str) -> tuple[int, ...] | None:
        """Return the cluster in A-REX's LocalJobID."""
        cluster = cluster_of(local_job_id)
        return None if cluster is None else (cluster, 0)

    def figures(self, run: CondorJob) -> Figures:
        """
        Return the figures of a job. A job of A-REX gets no place, because the host name in A-REX may differ from the
        schedd.
        """
        return figures(local_job(run, BatchSite()))._replace(place="" if run.queue else run.schedd)


SOURCE = HTCondorSource()
