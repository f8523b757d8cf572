"""
The values that every format is made from: the A-REX Accounting Record and the monthly usage cell.

Texts are plain: ARC's percent-escapes of the database are undone before a value gets here.
Times are UTC seconds since 1970; what is unknown is ``None`` or an empty tuple.
"""

from __future__ import annotations

from typing import NamedTuple


class Transfer(NamedTuple):
    """One file that A-REX moved for a job (table DataTransfers)."""

    url: str
    size_bytes: int
    start_time: int
    end_time: int
    kind: str
    """``input``, ``cached_input`` (taken from the cache, not counted in volumes) or ``output``."""


class AAR(NamedTuple):
    """
    One job that reached a final status, with its children (seed 001, Table 4).

    A tuple and not a dataclass: publishing builds one for every job, and this is the cheapest immutable value.
    """

    record_id: int
    job_id: str
    local_job_id: str | None
    endpoint_type: str | None
    """The submission interface, e.g. ``org.nordugrid.arcrest``."""
    endpoint_url: str | None
    """``None``: a job without a grid endpoint, published as local."""
    queue: str | None
    user_dn: str | None
    """OpenSSL's one-line form, non-ASCII bytes as the text ``\\xHH``."""
    vo: str | None
    status: str
    """``completed``, ``failed`` or ``aborted``."""
    exit_code: int
    """1 when unknown, as A-REX writes it."""
    submit_time: int
    end_time: int
    node_count: int
    core_count: int
    memory_kib: int
    """Maximum resident memory; 0 is unknown."""
    virtual_memory_kib: int
    wall_s: int
    """0 also where nobody measured it (``unknown``): receivers need a number. The same of the next two."""
    cpu_user_s: int
    cpu_kernel_s: int
    scratch_bytes: int
    stage_in_bytes: int
    stage_out_bytes: int
    fqans: tuple[str, ...] = ()
    """The main FQAN first (``mainfqan``, then each ``vomsfqan``)."""
    job_name: str | None = None
    lrms: str | None = None
    node_names: tuple[str, ...] = ()
    """Distinct, in the order of the batch system."""
    client_host: str | None = None
    """``host:port`` or ``[IPv6]:port`` of the client's connection."""
    local_user: str | None = None
    """``user`` or ``user:group``."""
    project: str | None = None
    system_software: str | None = None
    wn_instance: str | None = None
    benchmark: str | None = None
    """``TYPE:VALUE`` as recorded."""
    run_time_environments: tuple[str, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    lrms_submit_time: int | None = None
    lrms_start_time: int | None = None
    lrms_end_time: int | None = None
    auth_groups: tuple[str, ...] = ()
    """The authgroups of arc.conf that A-REX found the user in; of jobs without a VO."""
    held: str = ""
    """Why the record is in no figure and at no receiver (`holds`), words with blanks between; empty: it is not held."""
    unknown: tuple[str, ...] = ()
    """
    The fields above that nobody told, sorted: ``wall_s``, ``cpu_user_s``, ``cpu_kernel_s``, ``core_count``,
    ``node_count``. They are 0 here (one core, one node), and are published so.
    """

    @property
    def cpu_s(self) -> int:
        """All CPU time: user and kernel."""
        return self.cpu_user_s + self.cpu_kernel_s

    @property
    def has_wall(self) -> bool:
        """Whether anybody measured the clock time."""
        return "wall_s" not in self.unknown

    @property
    def has_cpu(self) -> bool:
        """Whether anybody measured the CPU time."""
        return "cpu_user_s" not in self.unknown


class StoredAAR(AAR):
    """One that was read from the database, with the digest that tells its versions apart once that is known."""

    digest: bytes | None = None
    """``None`` also for one that `_replace` made: it is no longer what was read."""


class PackedAAR(StoredAAR):
    """One that was read from its pack, the digest of which is of the same bytes."""


class UsageCell(NamedTuple):
    """The jobs of one month (of EndTime, in UTC) that agree in everything a summary is keyed by."""

    year: int
    month: int
    user_dn: str | None
    vo: str | None
    fqan: str | None
    """The main FQAN."""
    endpoint_url: str | None
    """``None``: local jobs."""
    node_count: int
    core_count: int
    benchmark: str | None
    """``TYPE:VALUE`` as recorded."""
    jobs: int
    wall_s: int
    cpu_s: int
    earliest_end_time: int
    latest_end_time: int
    auth_groups: tuple[str, ...] = ()
    """As of an AAR."""
    jobs_without_wall: int = 0
    """Those of the jobs whose clock time nobody measured: it counts 0."""
    jobs_without_cpu: int = 0
