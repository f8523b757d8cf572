"""
OGF usage records (GFD.98) for SGAS, with the extensions that SGAS reads.

Order of elements: the schema with extensions at the end of UserIdentity and of the record. Strings are joined
from f-strings and not built as trees: six times the records per second, and every text goes through one escape.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from arcacct import __version__
from arcacct.benchmark import parsed_benchmark
from arcacct.jobs.aar import AAR, Transfer
from arcacct.jobs.fqan import FQAN, VOs, parsed_fqan
from arcacct.jobs.identity import (
    client_host_name,
    is_address,
    is_domain_name,
    job_record_id,
    machine_host,
    start_time,
    vo_name,
)
from arcacct.targets.sgas.rules import NAMESPACES, RULES
from arcacct.targets.xml import carried, duration, element, escape, hosts, instant, iso_time, positive

_NAMED = NAMESPACES | {"logger": "http://www.sgas.se/namespaces/2010/08/logger"}
_DECLARED = "".join(f' xmlns:{prefix}="{name}"' for prefix, name in _NAMED.items())
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<UsageRecords xmlns="{NAMESPACES["urf"]}"{_DECLARED}>\n'
TAIL = "</UsageRecords>\n"
"""A document is HEAD, records, TAIL: callers that batch by bytes add up ``len(record.encode())``."""

_SCRATCH = ' urf:storageUnit="B" urf:metric="total" urf:type="scratch"'
_NETWORK = ' urf:storageUnit="B" urf:metric="total"'
_PHYSICAL = ' urf:storageUnit="KB" urf:metric="max" urf:type="physical"'
_VIRTUAL = {kind: f' urf:storageUnit="KB" urf:metric="max" urf:type="{kind}"' for kind in ("shared", "virtual")}
_LOGGER = f'<logger:LoggerName logger:version="{__version__}">arcacct</logger:LoggerName>'
# One more SGAS would cut, and mark as cut.
_LONGEST_JOINED_HOSTS = int(RULES["host"].most) - 1
_LARGEST_SPLIT_CPU_S = min(RULES["user_time"].most, RULES["kernel_time"].most)


class UROptions(NamedTuple):
    """What a site may choose about its usage records; the defaults continue what jura-ng sent."""

    host: str | None = None
    """``lrms_host``, else the host's own name: MachineName and recordId of jobs without an endpoint."""
    localid_prefix: str = ""
    vomsless_vo: VOs = VOs()
    vo_groups: tuple[str, ...] = ()
    """Groups that are added to every VO."""
    start_time_source: str = "submit"
    """``submit`` or ``lrms``."""
    vo_style: str = "arc"
    """``arc``: ``/Role=production``, NULL kept, as jura-ng; ``doc``: ``production``, no NULL, as SGAS documents it."""
    host_style: str = "multi"
    """``multi``: a Host each, the primary last because SGAS keeps the last; ``joined``: all in one, invalid."""
    memory_type: str = "shared"
    """``shared`` or ``virtual`` (jura-ng's word, which SGAS does not keep)."""


def machine_name(aar: AAR, options: UROptions) -> str | None:
    """The MachineName that SGAS authorises by; None if the job has no endpoint and the site gave no name."""
    return machine_host(aar.endpoint_url, options.host)


def record_id(aar: AAR, options: UROptions) -> str:
    """The recordId, which never changes for a job: SGAS ignores a second record with the same one."""
    return job_record_id(aar, options.host)


def usage_record(aar: AAR, options: UROptions, create_time: int, global_job_id: str | None = None) -> str:
    """
    One JobUsageRecord for the inside of a document; texts of any kind leave it well-formed.

    Under another ``global_job_id`` SGAS takes it for another job with the same record id, and replaces its row.
    """
    # SGAS keeps user and kernel time only from its own elements, in columns of four bytes.
    split_cpu = (
        ""
        if max(aar.cpu_user_s, aar.cpu_kernel_s) > _LARGEST_SPLIT_CPU_S
        else (
            f"<sgas:UserTime>{duration(aar.cpu_user_s)}</sgas:UserTime>"
            f"<sgas:KernelTime>{duration(aar.cpu_kernel_s)}</sgas:KernelTime>"
        )
    )
    return (
        f'<JobUsageRecord><RecordIdentity urf:recordId="{escape(record_id(aar, options))}"'
        f' urf:createTime="{iso_time(create_time)}"/>'
        f"<JobIdentity><GlobalJobId>{escape(global_job_id or aar.job_id)}</GlobalJobId>"
        f"{element('LocalJobId', local_job_id(aar, options))}</JobIdentity>"
        f"{_user_identity(aar.local_user, aar.user_dn, aar.vo, aar.fqans, aar.auth_groups, options)}"
        f"{element('JobName', aar.job_name)}<Status>{escape(aar.status)}</Status>"
        # These stand between Status and WallDuration, each told apart by its type.
        f"{positive('Disk', aar.scratch_bytes, _SCRATCH)}"
        f"{positive('Memory', aar.virtual_memory_kib, _VIRTUAL[options.memory_type])}"
        f"{positive('Memory', aar.memory_kib, _PHYSICAL)}"
        f"{positive('Network', aar.stage_in_bytes + aar.stage_out_bytes, _NETWORK)}"
        f"{_staging(aar.transfers) if aar.transfers else ''}"
        f'<TimeInstant urf:type="submit">{iso_time(aar.submit_time)}</TimeInstant>'
        f"{instant('lrmssubmit', aar.lrms_submit_time)}"
        f"{instant('lrmsstart', aar.lrms_start_time)}{instant('lrmsend', aar.lrms_end_time)}"
        f"{_service_levels(aar.wn_instance, aar.benchmark)}"
        # No CpuDuration of usageType "all": SGAS adds up what it finds. No zero counts: it multiplies by Processors.
        f"<WallDuration>{duration(aar.wall_s)}</WallDuration>"
        f'<CpuDuration urf:usageType="user">{duration(aar.cpu_user_s)}</CpuDuration>'
        f'<CpuDuration urf:usageType="system">{duration(aar.cpu_kernel_s)}</CpuDuration>'
        f"{positive('NodeCount', aar.node_count)}{positive('Processors', aar.core_count)}"
        f"<EndTime>{iso_time(aar.end_time)}</EndTime>"
        f"<StartTime>{iso_time(start_time(aar, options.start_time_source))}</StartTime>"
        f"<MachineName>{escape(machine_name(aar, options) or '')}</MachineName>"
        f"{element('SubmitHost', submit_host(aar.client_host))}"
        f"{element('Queue', aar.queue)}{element('ProjectName', aar.project)}"
        f"{_hosts(aar.node_names, options.host_style)}"
        # What GFD.98 has no element for, in the namespaces that SGAS reads.
        f"<deisa:SubmitTime>{iso_time(aar.submit_time)}</deisa:SubmitTime>"
        f"{split_cpu}<sgas:ExitCode>{aar.exit_code}</sgas:ExitCode>"
        f"{''.join(element('arc:RuntimeEnvironment', name) for name in aar.run_time_environments)}"
        f"{_LOGGER}{_transfers(aar.transfers) if aar.transfers else ''}</JobUsageRecord>\n"
    )


def local_job_id(aar: AAR, options: UROptions) -> str | None:
    """The LocalJobId as it is sent, or None where SGAS would drop it and rename the record."""
    if not aar.local_job_id:
        return None
    text = options.localid_prefix + aar.local_job_id
    return None if len(text) > RULES["local_job_id"].most or carried(text).startswith("/") else text


# Users come back with every job: a site has thousands of jobs for each combination.
@lru_cache(maxsize=4096)
def _user_identity(
    local_user: str | None,
    user_dn: str | None,
    vo: str | None,
    fqans: tuple[str, ...],
    auth_groups: tuple[str, ...],
    options: UROptions,
) -> str:
    user = (local_user or "").partition(":")[0]
    own = element("LocalUserId", user) + element("GlobalUserName", user_dn)
    inside = own + _virtual_organisation(vo, fqans, auth_groups, options)
    return f"<UserIdentity>{inside}</UserIdentity>" if inside else ""


def _virtual_organisation(
    vo: str | None, fqans: tuple[str, ...], auth_groups: tuple[str, ...], options: UROptions
) -> str:
    """The SGAS VO extension: without a name SGAS would drop all of it."""
    name = vo_name(vo, fqans[0] if fqans else None, auth_groups, options.vomsless_vo)
    if not (name and escape(name)):
        return ""
    issuer = None
    if not fqans:
        # Who the site says vouches for it. Of a VO that was chosen when the job was recorded only the name was kept.
        rule = options.vomsless_vo.rule(vo, auth_groups)
        issuer = (
            rule.issuer if rule else next((one.issuer for one in options.vomsless_vo.rules if one.name == vo), None)
        )
    parsed = [fqan for fqan in map(parsed_fqan, fqans) if fqan is not None]
    known = {fqan.group for fqan in parsed}
    extra = [FQAN(group) for group in dict.fromkeys(options.vo_groups) if group not in known]
    attributes = "".join(_attribute(fqan, options.vo_style) for fqan in [*parsed, *extra])
    return f'<vo:VO vo:type="voms"><vo:Name>{escape(name)}</vo:Name>{element("vo:Issuer", issuer)}{attributes}</vo:VO>'


def _attribute(fqan: FQAN, style: str) -> str:
    role, capability = fqan.role, fqan.capability
    if style == "doc":
        role = None if role == "NULL" else role
        capability = None if capability == "NULL" else capability
    else:
        role = role and f"/Role={role}"
        capability = capability and f"/Capability={capability}"
    inside = element("vo:Group", fqan.group) + element("vo:Role", role) + element("vo:Capability", capability)
    return f"<vo:Attribute>{inside}</vo:Attribute>"


def _staging(transfers: tuple[Transfer, ...]) -> str:
    """How long data staging lasted, from the first request to the last byte, in each direction."""
    parts = []
    for name, wanted in (("stagein", False), ("stageout", True)):
        chosen = [transfer for transfer in transfers if (transfer.kind == "output") is wanted]
        if chosen:
            seconds = max(transfer.end_time for transfer in chosen) - min(transfer.start_time for transfer in chosen)
            parts.append(f'<TimeDuration urf:type="{name}">{duration(max(seconds, 0))}</TimeDuration>')
    return "".join(parts)


@lru_cache(maxsize=1024)
def _service_levels(wn_instance: str | None, benchmark: str | None) -> str:
    parsed = parsed_benchmark(benchmark)
    instance = f'<ServiceLevel urf:type="wninstance">{escape(wn_instance)}</ServiceLevel>' if wn_instance else ""
    level = "" if parsed is None else f'<ServiceLevel urf:type="{parsed.type}">{parsed.value}</ServiceLevel>'
    return instance + level


def submit_host(client_host: str | None) -> str | None:
    """
    The host or address that a client connected from, or None for what is neither, or too long for SGAS's column.

    SGAS stores addresses as they are; the schema's pattern takes names only, and of IPv4 the addresses that look so.
    """
    host = client_host_name(client_host) if client_host else ""
    return host if len(host) <= RULES["submit_host"].most and (is_domain_name(host) or is_address(host)) else None


@lru_cache(maxsize=4096)
def _hosts(names: tuple[str, ...], style: str) -> str:
    if style == "joined":
        # As many whole names as SGAS's column holds.
        joined = ",".join(dict.fromkeys(name for name in names if name))
        if len(joined) > _LONGEST_JOINED_HOSTS:
            joined = joined[:_LONGEST_JOINED_HOSTS].rpartition(",")[0]
        return element("Host", joined)
    found = hosts(names)
    return "".join([*found[1:], *found[:1]])


def _transfers(transfers: tuple[Transfer, ...]) -> str:
    """File transfers; SGAS refuses one without a URL, and an element that holds nothing else."""
    parts = []
    for one in transfers:
        url = escape(one.url)
        name = "tr:FileUpload" if one.kind == "output" else "tr:FileDownload"
        cached = "true" if one.kind == "cached_input" else "false"
        from_cache = "" if one.kind == "output" else f"<tr:RetrievedFromCache>{cached}</tr:RetrievedFromCache>"
        if url:
            parts.append(
                f"<{name}><tr:URL>{url}</tr:URL><tr:Size>{one.size_bytes}</tr:Size>"
                f"<tr:StartTime>{iso_time(one.start_time)}</tr:StartTime>"
                f"<tr:EndTime>{iso_time(one.end_time)}</tr:EndTime>{from_cache}</{name}>"
            )
    return f"<tr:FileTransfers>{''.join(parts)}</tr:FileTransfers>" if parts else ""
