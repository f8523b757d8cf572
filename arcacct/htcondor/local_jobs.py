"""
A job of HTCondor's as a whole job, and what A-REX calls it.

A-REX knows a job by its cluster and the host that it submitted on (``123.ce.example.org``; older versions write
``123.condor``), and submits one job to each cluster.
"""

from __future__ import annotations

from arcacct.htcondor.record import REMOVED, CondorJob
from arcacct.records import batch_jobs
from arcacct.records.imports import BatchSite
from arcacct.records.model import Job, parsed_fqan
from arcacct.records.states import ABORTED, COMPLETED, FAILED

LRMS = "condor"
"""As [lrms] of arc.conf has it."""
_TERM = 15
_SIGNALLED = 256
"""What A-REX adds to the number of a signal that ended a job."""


def local_job(job: CondorJob, site: BatchSite) -> Job:
    """The accounting record of a job."""
    whose = {"owner": job.user, "account": job.account, "project": job.project or job.account, "group": job.account}
    owner = batch_jobs.accounted_to({name: value or None for name, value in whose.items()}, site.rules)
    if not owner.vo:
        # No map line says whose it is: the credential that it was submitted with does.
        owner = _of_proxy(job) if job.vo or job.user_dn or job.fqan else _of_token(job)
    benchmark, source = (job.benchmark, "") if job.benchmark else site.benchmark(job.queue or None, job.end_time)
    names = node_names(job)
    return Job(
        batch_jobs.job_id("htcondor", job.schedd, job.number, job.queued),
        ABORTED if job.status == REMOVED else FAILED if exit_code(job) else COMPLETED,
        job.submit_time,
        job.end_time,
        local_job_id=job.number,
        endpoint_type=batch_jobs.LOCAL,
        queue=job.queue,
        **owner._asdict(),
        exit_code=exit_code(job),
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
        extra=tuple(_extra(job)),
        events=(("LRMSSTART", job.start_time), ("LRMSEND", job.end_time)),
        field_sources=(("benchmark", source),) if benchmark and source else (),
    )


def _of_proxy(job: CondorJob) -> batch_jobs.Owner:
    return batch_jobs.Owner(job.vo, job.user_dn, (("mainfqan", job.fqan),) if job.fqan else ())


def _of_token(job: CondorJob) -> batch_jobs.Owner:
    """
    The user by issuer and subject, as A-REX 7 names him, and the VO by the first group.

    Groups are in the order in which the user asked for them, and the first is the one that he works for (WLCG Common
    JWT Profile 1.0, `wlcg.groups`). What A-REX submitted has a token of A-REX's own.
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
    """The nodes of its last run, without their slots: ``slot1_3@node.example.org``."""
    names = (slot.strip().rpartition("@")[2] for slot in job.hosts.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def exit_code(job: CondorJob) -> int | None:
    """The exit status; of a job that a signal ended its number and 256, as A-REX has it; never 0 of one removed."""
    code = _SIGNALLED + job.exit_signal if job.exit_signal else job.exit_status
    return code or _TERM if job.status == REMOVED else code


def _extra(job: CondorJob) -> list[tuple[str, str]]:
    """What A-REX has no key for."""
    found = {
        "account": job.account if job.account != (job.project or job.account) else "",
        "gpus": str(job.gpus) if job.gpus else "",
        "jobstarts": str(job.starts) if (job.starts or 0) > 1 else "",
        "schedd": job.schedd,
    }
    return [(key, value) for key, value in found.items() if value]


def cluster_of(local_job_id: str) -> int | None:
    """The cluster that A-REX's LocalJobID names; ``None``: it is none of HTCondor."""
    number, _, place = local_job_id.partition(".")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        return None
    return None if place.isdecimal() and int(place) else int(number)


def may_be_of(local_job_id: str, job: CondorJob) -> bool:
    """
    Whether A-REX's job with this LocalJobID may be this one: its cluster, from the host of its schedd.

    A job that A-REX submitted says so (NordugridQueue): then the host may be called otherwise.
    """
    if job.proc or cluster_of(local_job_id) != job.cluster:
        return False
    return bool(job.queue) or same_host(local_job_id.partition(".")[2], job.schedd)


def same_host(place: str, schedd: str) -> bool:
    """Whether what stands behind the cluster may be the host of a schedd (``name@host`` or ``host``)."""
    host = place.lower()
    if host in ("", "0", "condor"):
        return True
    other = schedd.rpartition("@")[2].lower()
    return host == other or (host.partition(".")[0] == other.partition(".")[0] and not ("." in host and "." in other))
