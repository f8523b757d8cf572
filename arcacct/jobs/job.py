"""
A whole job, as every source hands it over to be written: one value, whoever tells it.

Who may tell what of a job, and whose word holds where two tell the same, stands in `precedence`; `writing.JobWriter`
writes jobs, a slice of them in each transaction of its caller.
"""

from __future__ import annotations

from typing import NamedTuple

from arcacct.jobs.aar import Transfer


class Job(NamedTuple):
    """
    One job, in the names of an `AAR`: texts plain (no percent-escapes), times in UTC seconds.

    ``None``, or an empty tuple, is what the source does not tell: then what another told of it stays, or it is unknown.

    A tuple and not a dataclass: an import makes one for every job, and this is the cheapest immutable value.
    """

    job_id: str
    """What the job is known by among all jobs: A-REX's, or `local.job_id`; it never changes."""
    status: str
    """One of `states`: IN_PROGRESS, COMPLETED, FAILED or ABORTED."""
    submit_time: int
    end_time: int = 0
    """0 while the job is in progress."""
    local_job_id: str = ""
    """The batch system's id."""
    endpoint_type: str = ""
    """The submission interface; of a job that came through no endpoint whatever its source calls that."""
    endpoint_url: str = ""
    """Empty: a job without a grid endpoint, published as local."""
    queue: str = ""
    user_dn: str = ""
    vo: str = ""
    exit_code: int | None = None
    node_count: int | None = None
    core_count: int | None = None
    """Of all nodes together."""
    memory_kib: int | None = None
    """Maximum resident memory."""
    virtual_memory_kib: int | None = None
    wall_s: int | None = None
    """Clock time that it ran, whatever its cores."""
    cpu_user_s: int | None = None
    cpu_kernel_s: int | None = None
    scratch_bytes: int | None = None
    stage_in_bytes: int | None = None
    stage_out_bytes: int | None = None
    job_name: str | None = None
    lrms: str | None = None
    """The batch system as [lrms] of arc.conf calls it."""
    node_names: tuple[str, ...] = ()
    """In the order of the batch system."""
    client_host: str | None = None
    local_user: str | None = None
    """``user`` or ``user:group``."""
    project: str | None = None
    system_software: str | None = None
    wn_instance: str | None = None
    benchmark: str | None = None
    """``TYPE:VALUE``."""
    extra: tuple[tuple[str, str], ...] = ()
    """Whatever else the source knows, by keys of its own (``InfoKey``)."""
    auth_tokens: tuple[tuple[str, str], ...] = ()
    """``mainfqan`` with the first FQAN, ``vomsfqan`` with each other, and the claims of a token that the site keeps."""
    run_time_environments: tuple[str, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    events: tuple[tuple[str, int | str], ...] = ()
    """``(key, time)`` in order, e.g. LRMSSTART; a text where the source has one that is no time."""
    field_sources: tuple[tuple[str, str], ...] = ()
    """``(field, source)`` of values that are not the source's own: a benchmark of arc.conf, a count that is a guess."""
