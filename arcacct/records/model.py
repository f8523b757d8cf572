"""The values of a job: as read (AAR), as written by a source (Job), its VOMS attributes, and who ran it where."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from arcacct.resources import Accelerators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.config.paths import VO

# The values that every format is made from: the A-REX Accounting Record and the monthly usage cell.
#
# Texts are plain: the reader removes ARC's percent-escapes of the database. Times are UTC seconds since 1970. An
# unknown value is ``None`` or an empty tuple.


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
    """0 also if it was not measured (``unknown``), since receivers need a number. The same for the next two."""
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
    """For jobs without a VO: the authgroups of arc.conf in which A-REX found the user."""
    accelerators: Accelerators | None = None
    """GPUs and energy that count; ``None``: no source reports any."""
    held: str = ""
    """The reasons for a hold (`holds`), separated by blanks; empty: the record is not held."""
    unknown: tuple[str, ...] = ()
    """
    The unknown fields, sorted, of: ``wall_s``, ``cpu_user_s``, ``cpu_kernel_s``, ``core_count``, ``node_count``.

    They are 0 here (one core, one node), and are published with these values.
    """

    @property
    def cpu_s(self) -> int:
        """All CPU time: user and kernel."""
        return self.cpu_user_s + self.cpu_kernel_s

    @property
    def has_wall(self) -> bool:
        """Whether the wall time was measured."""
        return "wall_s" not in self.unknown

    @property
    def has_cpu(self) -> bool:
        """Whether the CPU time was measured."""
        return "cpu_user_s" not in self.unknown


class UsageCell(NamedTuple):
    """The jobs of one month (of EndTime, in UTC) that have the same key of a summary."""

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
    """As in an AAR."""
    jobs_without_wall: int = 0
    """Jobs without a measured wall time, which counts as 0."""
    jobs_without_cpu: int = 0


# A whole job, in the form in which every source hands it over for writing.
#
# `enrichment.PRECEDENCE` has the sources that may give each value, the strongest first. `writer.JobWriter` writes jobs,
# one slice in each transaction of its caller.


class Job(NamedTuple):
    """
    One job, with the field names of an `AAR`: texts are plain (no percent-escapes), times are in UTC seconds.

    ``None``, or an empty tuple: the source has no value. Then another source's value stays, or the value is unknown.

    A tuple and not a dataclass: an import makes one for every job, and this is the cheapest immutable value.
    """

    job_id: str
    """The unique ID of the job: A-REX's, or that of `batch_jobs.job_id`. It never changes."""
    status: str
    """One of `states`: IN_PROGRESS, COMPLETED, FAILED or ABORTED."""
    submit_time: int
    end_time: int = 0
    """0 while the job is in progress."""
    local_job_id: str = ""
    """The local ID: the batch system's identifier."""
    endpoint_type: str = ""
    """The submission interface; for a job without an endpoint, a word of its source."""
    endpoint_url: str = ""
    """Empty: a job without a grid endpoint, published as local."""
    queue: str = ""
    user_dn: str = ""
    vo: str = ""
    exit_code: int | None = None
    node_count: int | None = None
    core_count: int | None = None
    """The cores of all nodes together."""
    memory_kib: int | None = None
    """Maximum resident memory."""
    virtual_memory_kib: int | None = None
    wall_s: int | None = None
    """Wall time, independent of the number of cores."""
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
    """Other values of the source, by its own keys (``InfoKey``)."""
    auth_tokens: tuple[tuple[str, str], ...] = ()
    """``mainfqan`` with the first FQAN, ``vomsfqan`` with each other, and the claims of a token that the site keeps."""
    run_time_environments: tuple[str, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    events: tuple[tuple[str, int | str], ...] = ()
    """``(key, time)`` in order, e.g. LRMSSTART; the time is a text if the source's value is not a time."""
    field_sources: tuple[tuple[str, str], ...] = ()
    """``(field, source)`` of values that are not the source's own: a benchmark of arc.conf, a count that is a guess."""
    accelerators: Accelerators | None = None
    """``None``: no GPU, and no known energy."""


def whole_cpu_s(total_s: float | None, kernel_s: float | None) -> tuple[int | None, int | None]:
    """
    Return user and kernel time in whole seconds. Their sum is the rounded total: two rounded parts may lose a second.

    ``total_s``: user and kernel time together, in seconds; ``None``: unknown.
    """
    kernel = None if kernel_s is None else round(kernel_s)
    return None if total_s is None else max(0, round(total_s) - (kernel or 0)), kernel


# VOMS attributes, and the VO that a site names for jobs without them.


class FQAN(NamedTuple):
    """
    A fully qualified attribute name: ``/atlas/uk/Role=production/Capability=NULL``.

    The word ``NULL`` is kept as written: receivers store it, so it is part of earlier published records.
    """

    group: str
    """The group with its leading slash: ``/atlas/uk``."""
    role: str | None = None
    capability: str | None = None

    @property
    def vo(self) -> str:
        """The first component of the group."""
        return self.group.split("/", 2)[1]

    def __str__(self) -> str:
        """The attribute as VOMS writes it."""
        role = "" if self.role is None else f"/Role={self.role}"
        capability = "" if self.capability is None else f"/Capability={self.capability}"
        return f"{self.group}{role}{capability}"


@lru_cache(maxsize=4096)
def parsed_fqan(text: str) -> FQAN | None:
    """Parse an attribute; ``None`` if the text is not one (a token's claim, an empty line)."""
    if not text.startswith("/"):
        return None
    groups: list[str] = []
    values: dict[str, str] = {}
    for part in text[1:].split("/"):
        name, equals, value = part.partition("=")
        if equals and name in ("Role", "Capability"):
            values.setdefault(name, value)
        elif not values:
            groups.append(part)
    if not all(groups) or not groups:
        return None
    return FQAN("/" + "/".join(groups), values.get("Role") or None, values.get("Capability") or None)


class VOs(NamedTuple):
    """The ``vomsless_vo`` rules of a site or of a target."""

    rules: tuple[VO, ...] = ()
    own: bool = False
    """Whether these are the target's own rules: they override a VO that was chosen when the job was recorded."""

    def rule(self, vo: str | None, auth_groups: tuple[str, ...]) -> VO | None:
        """
        Return the rule for a job without VOMS attributes, as A-REX 7 chooses it; ``None``: ``vo`` is valid.

        This is the first rule for an authgroup of the job, else the last rule for any job. A job has ``auth_groups`` if
        its VO, if any, was chosen by such rules.
        """
        if vo and not (self.own and auth_groups):
            return None
        mine = (one for one in self.rules if one.authgroup in auth_groups)
        for_any = (one for one in reversed(self.rules) if one.authgroup is None)
        return next(mine, None) or next(for_any, None)


# The user and the host of a job: the parts of a record that every format derives in the same way.


# domainNameType of both schemas: labels of two characters or more, so wn001.example.org matches and 127.0.0.1 does not.
_DOMAIN_NAME = re.compile(r"(?:[a-zA-Z0-9][a-zA-Z0-9'\-]*[a-zA-Z0-9]\.)*[a-zA-Z0-9][a-zA-Z0-9'\-]*[a-zA-Z0-9]")
_LONGEST_DOMAIN_NAME = 255

_NO_VALUE = {"", "none", "null"}


@lru_cache(maxsize=8192)
def is_domain_name(text: str) -> bool:
    """Whether the schemas of both record formats accept this as a host's name."""
    return len(text) <= _LONGEST_DOMAIN_NAME and _DOMAIN_NAME.fullmatch(text) is not None


@lru_cache(maxsize=8192)
def is_address(text: str) -> bool:
    """Whether this is an IPv4 or IPv6 address, without the zone of a local one, which may be any text."""
    from ipaddress import ip_address  # noqa: PLC0415  most runs check no host

    try:
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def endpoint_host(url: str | None) -> str | None:
    """
    Return the host of a submission endpoint, in the letters of the URL, or None.

    It is part of recordId, which SGAS compares byte for byte with the one that jura-ng sent: so it is not lower-cased.
    """
    _, scheme, rest = (url or "").partition("://")
    if not scheme:
        return None
    authority = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0] or None
    return authority.partition(":")[0] or None


def client_host_name(socket: str) -> str:
    """Return the host of ``host:port`` or ``[IPv6]:port``; a bare IPv6 address is returned unchanged."""
    if socket[:1] == "[":
        return socket[1:].partition("]")[0]
    host, _, port = socket.partition(":")
    return socket if ":" in port else host


def machine_host(endpoint_url: str | None, host: str | None) -> str | None:
    """Return the machine of a record: the endpoint's host, or ``host`` for jobs without an endpoint."""
    return endpoint_host(endpoint_url) or host


def job_record_id(aar: AAR, host: str | None) -> str:
    """Return ``ur-HOST-JOBID``, as jura-ng writes it: SGAS recognises a job by it."""
    return f"ur-{machine_host(aar.endpoint_url, host) or ''}-{aar.job_id}"


def has_value(text: str | None) -> bool:
    """Whether APEL would store this text: it treats ``none`` and ``null``, in upper or lower case, as empty."""
    return text is not None and text.strip().lower() not in _NO_VALUE


def start_time(aar: AAR, source: str) -> int:
    """
    Return the start of a job in UTC seconds: its submission, or with ``source`` ``lrms`` its start in the batch system.

    Workers write LRMS times in local time with a false Z, so an unknown start, or one that is not between submission
    and end, is not used.
    """
    started = aar.lrms_start_time
    if source == "lrms" and started is not None and aar.submit_time <= started <= aar.end_time:
        return started
    return aar.submit_time


def vo_name(vo: str | None, main_fqan: str | None, auth_groups: tuple[str, ...], vomsless: VOs) -> str | None:
    """Return the VO of a job: its own, that of its attributes, or that of the site's rules for jobs without either."""
    if main_fqan:
        parsed = parsed_fqan(main_fqan)
        return vo or (None if parsed is None else parsed.vo)
    rule = vomsless.rule(vo, auth_groups)
    return vo if rule is None else rule.name
