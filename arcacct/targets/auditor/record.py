"""
Records of AUDITOR: the used resources (components), the user and the place (meta), the start and the end.

AUDITOR calculates the run time itself, as the end minus the start. So the start is the end minus the wall time, unless
a site wants the batch system's. Values without which its APEL plugin would stop are always there. Texts are ASCII on
one line, in the spelling of APEL's messages: the plugin writes them into its own messages without escapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple

from arcacct.benchmark import FALLBACK, Benchmark, parsed_benchmark
from arcacct.publishing.plugin import Envelope
from arcacct.publishing.sent import digest_of
from arcacct.records.model import AAR, VOs, job_record_id, machine_host, parsed_fqan, start_time, vo_name
from arcacct.targets.auditor.options import COMPONENTS, FURTHER, LONGEST_NAME, META, NO_NAME, SCORES
from arcacct.targets.common import iso_time, spelt

DOCUMENT = Envelope("auditor", "[", "]", "\n", ",")
"""An array, a record on each line."""

_KIB_PER_MB = 1024
"""As AUDITOR's Slurm collector has it: what Slurm calls MB."""


class RecordOptions(NamedTuple):
    """The site's choices for its records."""

    site: str
    host: str | None = None
    """``lrms_host``: headnode and part of the id of jobs without an endpoint."""
    localid_prefix: str = ""
    vomsless_vo: VOs = VOs()
    vo_groups: tuple[str, ...] = ()
    """The first group of a VO is the group of its jobs without VOMS attributes."""
    local_group_prefix: str = ""
    start_time_source: str = "wall"
    """``wall`` or ``lrms``."""
    default_benchmark: Benchmark = FALLBACK
    score_type: str | None = None
    """The only type of benchmark in records; ``None``: any."""
    names: tuple[tuple[str, str], ...] = ()
    """The components of a record, and their names, if they differ from `options`."""


_SENT = (
    "job_id", "endpoint_url", "user_dn", "vo", "end_time", "node_count", "core_count", "memory_kib", "wall_s",
    "cpu_user_s", "cpu_kernel_s", "fqans", "lrms", "local_user", "benchmark",
)  # fmt: skip
_DIGEST, _DIGEST_WITH_START = digest_of(_SENT), digest_of((*_SENT, "submit_time", "lrms_start_time"))


def digest(aar: AAR, options: RecordOptions) -> bytes:
    """The digest of the values that are sent: a change of any other value is no correction."""
    return (_DIGEST_WITH_START if options.start_time_source == "lrms" else _DIGEST)(aar)


def record_id(aar: AAR, options: RecordOptions) -> str:
    """The permanent record id at AUDITOR: that of a usage record, after the site's prefix."""
    return f"{options.localid_prefix}{job_record_id(aar, options.host)}"


def written(aar: AAR, shared: Sequence[Any], options: RecordOptions) -> str:
    """Return one line of JSON in the order of AUDITOR's own client, from its parts by `SHARED`."""
    (id_head, _headnode, meta), components = shared
    # Every job ran on at least one core of one node.
    amounts = {
        "Cores": max(aar.core_count, 1),
        "TotalCPU": aar.cpu_s,
        "NNodes": max(aar.node_count, 1),
        "Memory": -(-aar.memory_kib // _KIB_PER_MB),
    }
    return (
        f'{{"record_id":{quoted(id_head + aar.job_id)},"meta":{meta},'
        f'"components":[{components % amounts}{_further(aar, options)}],'
        f'"start_time":"{iso_time(start(aar, options))}","stop_time":"{iso_time(aar.end_time)}"}}\n'
    )


def start(aar: AAR, options: RecordOptions) -> int:
    """
    Return when the job started, UTC seconds: the batch system's value, if it is wanted and known, else the end minus
    the duration.
    """
    by_wall_time = aar.end_time - aar.wall_s
    if options.start_time_source != "lrms":
        return by_wall_time
    found = start_time(aar, "lrms")
    return by_wall_time if found != aar.lrms_start_time else found


def benchmark(aar: AAR, options: RecordOptions) -> Benchmark:
    """Return the benchmark of a core: the job's own, or the site's for jobs without one."""
    return parsed_benchmark(aar.benchmark) or options.default_benchmark


def headnode(aar: AAR, options: RecordOptions) -> str | None:
    """The submit host: the CE, or the batch system's host for local jobs."""
    return name(machine_host(aar.endpoint_url, options.host))


@lru_cache(maxsize=16384)
def name(text: str | None) -> str | None:
    """Return a text in the form that AUDITOR and its plugin accept; ``None`` for a blank one."""
    return spelt(text, LONGEST_NAME) or None if text else None


class Where(NamedTuple):
    """The place where a job was sent, and the user who sent it."""

    id_head: str
    """The start of the record's id, before the JobID."""
    headnode: str
    meta: str


def where(aar: AAR, options: RecordOptions) -> Where:
    """Return the parts of a record about the place where the job was sent, and the user."""
    id_head = record_id(aar._replace(job_id=""), options)
    return Where(id_head, headnode(aar, options) or "", _meta(aar, options))


def _meta(aar: AAR, options: RecordOptions) -> str:
    user, _, group = (aar.local_user or "").partition(":")
    values = {
        "site_id": [name(options.site)],
        "headnode": [headnode(aar, options)],
        "voms": _voms(aar, options),
        "subject": [name(aar.user_dn)],
        "user_id": [name(user)],
        "group_id": [name(group)],
        "collector_type": [name(aar.lrms)],
    }
    names = META | dict(options.names)
    # An empty array, or none at all, stops the plugin.
    kept = {names[key]: found for key, texts in values.items() if (found := [text for text in texts if text])}
    kept.pop(NO_NAME, None)
    return _json(kept)


def _voms(aar: AAR, options: RecordOptions) -> list[str | None]:
    """
    The user's attributes, the main one first, as the plugin's patterns take them apart: ``/GROUP/Role=ROLE``.

    A capability would count as part of the group where there is no role.
    """
    parsed = [found for found in map(parsed_fqan, aar.fqans) if found is not None]
    if parsed:
        return [*dict.fromkeys(name(f"{one.group}/Role={one.role or 'NULL'}") for one in parsed)]
    found = vo_name(aar.vo, aar.fqans[0] if aar.fqans else None, aar.auth_groups, options.vomsless_vo)
    if not found:
        return []
    if not aar.endpoint_url:
        found = options.local_group_prefix + found
    own = (group for group in options.vo_groups if group == f"/{found}" or group.startswith(f"/{found}/"))
    return [name(f"{next(own, f'/{found}')}/Role=NULL")]


def components(aar: AAR, options: RecordOptions) -> str:
    """
    Return the components, with ``%(WHAT)d`` in place of each amount.

    The score is the benchmark of *one* core, on Cores: the plugin multiplies run time and CPU time by it.
    """
    names = COMPONENTS | SCORES | dict(options.names)
    worth = benchmark(aar, options)
    score = {"name": names[worth.type], "value": worth.thousandths / 1000}
    found = [
        f'{{"name":{_kept(names[what])},"amount":%({what})d,"scores":{_kept([score] if what == "Cores" else [])}}}'
        for what in COMPONENTS
        if names[what] != NO_NAME
    ]
    return ",".join(found)


def _further(aar: AAR, options: RecordOptions) -> str:
    """The components FURTHER that have a name and a known amount: GPUs, their time in s, energy of the nodes in J."""
    if aar.accelerators is None:
        return ""
    gpu_s, names = aar.accelerators.gpu_allocated_s, FURTHER | dict(options.names)
    amounts = (aar.accelerators.gpu_count, gpu_s and round(gpu_s), aar.accelerators.energy_j)
    return "".join(
        f',{{"name":{_json(names[what])},"amount":{amount},"scores":[]}}'
        for what, amount in zip(FURTHER, amounts, strict=True)
        if amount and names[what] != NO_NAME
    )


def _kept(value: Any) -> str:
    return _json(value).replace("%", "%%")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


SHARED: dict[Callable[[AAR, RecordOptions], Any], tuple[str, ...]] = {
    where: ("endpoint_url", "lrms", "local_user", "user_dn", "vo", "fqans", "auth_groups"),
    # The status is not sent, only judged.
    components: ("benchmark", "status"),
}
"""The parts of a record that many jobs share, and the values of each."""
