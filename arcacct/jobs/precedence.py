"""
Who may tell which value of a job, and whose word holds where two tell the same: one table.

Whatever order sources come in, the same values stay. A value that nobody told yet is taken from anyone; one's own word
may always be corrected. `FieldSources` remembers who told what the record's own source did not.
"""

from __future__ import annotations

from typing import NamedTuple

from arcacct.jobs.states import DERIVED

ARC = "arc"
AREX = "arex"
GRIDENGINE = "gridengine"
HTCONDOR = "htcondor"
SACCT = "sacct"
SLURM = "slurm"
SAMPLES = "sonar"
FEATURES = "features"
CONFIGURED = "arc.conf"
DEFAULT = "default"

SOURCES = {
    ARC: "A-REX's control directory",
    AREX: "A-REX's own database",
    GRIDENGINE: "Grid Engine's accounting files",
    HTCONDOR: "HTCondor's history",
    SACCT: "Slurm's own accounting (`sacct`)",
    SLURM: "what Sonar has of Slurm's jobs",
    SAMPLES: "what Sonar has of processes and nodes",
    FEATURES: "machine/job features",
    CONFIGURED: "the benchmark of [queue:NAME] of arc.conf",
    DEFAULT: "the benchmark of [lrms] of arc.conf; a count or a wall time that is a guess",
    DERIVED: "a wall time from the start and end of the run in the batch system (`missing_wall_time=lrms`)",
}
"""Sources of records (column ``source`` of v1_jobs; RecordSources) and of single values (FieldSources)."""
PROGRAMS = {GRIDENGINE: "Grid Engine", HTCONDOR: "HTCondor", SACCT: "Slurm", SLURM: "Slurm"}
PROGRAMS |= {SAMPLES: "Sonar", FEATURES: "features"}
"""What people call the sources that measure what A-REX may have measured, too."""
OF_AREX = (ARC, AREX)
"""Sources whose records are those of A-REX's jobs."""
UNASKED = (CONFIGURED, DEFAULT)
"""Not told by anyone: what a record's own source takes for want of a value, and takes back."""


class Precedence(NamedTuple):
    """Of some values the sources that may tell them, the first the strongest; and why."""

    fields: tuple[str, ...]
    """Fields of a `Job`; ``mjf_*`` stands for keys of features that the specification does not have."""
    order: tuple[str, ...]
    reason: str


_RECORDS = (ARC, AREX, GRIDENGINE, HTCONDOR, SACCT, SLURM)

PRECEDENCE = (
    Precedence(
        ("user_dn", "vo", "auth_tokens", "queue", "endpoint_type", "endpoint_url", "submit_time", "status", "end_time"),
        _RECORDS,
        "Who, where and when is told by the record's own source alone: a batch system knows no credential, and its"
        " times are those of its own part of the job.",
    ),
    Precedence(
        ("exit_code", "node_count", "core_count", "virtual_memory_kib", "cpu_user_s", "cpu_kernel_s"),
        _RECORDS,
        "A-REX's measured values are what ARC would have published; what its backend drops or cannot see, the batch"
        " system fills in (`import gridengine --prefer-gridengine`, `import htcondor --prefer-htcondor` and `import"
        " slurm --prefer-slurm` turn the two of them round).",
    ),
    Precedence(
        ("wall_s",),
        (*_RECORDS, DERIVED),
        "As the other measured values. What nobody measured may be the time between the start and the end of the run.",
    ),
    Precedence(
        ("memory_kib",),
        (*_RECORDS, SAMPLES),
        "As the other measured values; the largest sum over sampled processes is better than nothing, and no more than"
        " a lower bound.",
    ),
    Precedence(
        ("node_names", "project"),
        _RECORDS,
        "Facts of the batch system, which A-REX has from it: only what it has not is filled in.",
    ),
    Precedence(
        ("lrms_start_time", "lrms_end_time"),
        _RECORDS,
        "The same; times are events of the job, so they are added where there are none, and none is taken away.",
    ),
    Precedence(
        ("benchmark",),
        (FEATURES, *_RECORDS, CONFIGURED, SAMPLES, DEFAULT),
        "Features are of the very slot that the job had; then what the job's own record says, and what the site says of"
        " its queue. The CPU models of its nodes (`node_benchmark`) are better than one benchmark for the whole site.",
    ),
    Precedence(
        ("system_software", "wn_instance"),
        (*_RECORDS, SAMPLES),
        "What the job's own record says; else the nodes as Sonar saw them when the job started.",
    ),
    Precedence(("mjf_*",), (FEATURES,), "Nobody else knows of them."),
)

_RANKS = {(field, source): rank for row in PRECEDENCE for field in row.fields for rank, source in enumerate(row.order)}
_NO_RANK = len(SOURCES)


def precedes(field: str, source: str, holder: str) -> bool:
    """Whether what a source tells of a field takes the place of what another, the holder, told."""
    return _rank(field, source) < _rank(field, holder)


def _rank(field: str, source: str) -> int:
    return _RANKS.get(("mjf_*" if field.startswith("mjf_") else field, source), _NO_RANK)


def kept_as(field: str, source: str) -> str:
    """What FieldSources calls a source: a benchmark is of arc.conf, whether of the queue or of the site."""
    return CONFIGURED if (field, source) == ("benchmark", DEFAULT) else source
