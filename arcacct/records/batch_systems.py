"""The batch systems whose accounting is a source, one line for each."""

from __future__ import annotations

from typing import NamedTuple


class BatchSystem(NamedTuple):
    """The description of a batch system, independent of whether the site imports it."""

    name: str
    """The name in its commands (`import NAME`, `verify --lrms NAME`) and of its folder below arcacct/sources/."""
    title: str
    """The name in texts."""
    source: str
    """
    RecordSources.Source of its jobs, and FieldSources.Source of its measured values for A-REX's jobs.

    For a source of another package, this and ``kind`` are its name.
    """
    accounting: str
    """The origin of its values, as a text for the manual."""
    kind: str
    """The first word of JobIDs of its jobs. It is published, so it never changes."""
    lrms_names: tuple[str, ...]
    """Its names in [lrms] of arc.conf and in records, in lower case."""
    is_plain: bool = False
    """Whether its command has only the common options, and no module in arcacct/cli/."""


_SGE = ("sge", "gridengine", "ge", "ogs", "uge")
GRIDENGINE = BatchSystem("gridengine", "Grid Engine", "gridengine", "Grid Engine's accounting files", "gesge", _SGE)
HTCONDOR = BatchSystem("htcondor", "HTCondor", "htcondor", "HTCondor's history", "htcondor", ("condor", "htcondor"))
SLURM = BatchSystem("slurm", "Slurm", "sacct", "Slurm's own accounting (`sacct`)", "sonar", ("slurm",))
_PBS_LOGS = "PBS's accounting logs (Torque, PBS Professional, OpenPBS)"
PBS = BatchSystem("pbs", "PBS", "pbs", _PBS_LOGS, "pbs", ("pbs", "pbspro", "torque"), True)
LSF = BatchSystem("lsf", "LSF", "lsf", "LSF's lsb.acct", "lsf", ("lsf",), True)
BATCH_SYSTEMS = {one.name: one for one in (GRIDENGINE, HTCONDOR, LSF, PBS, SLURM)}
"""
The built-in batch systems, by name. A new source adds its line here, and its folder below arcacct/sources/.

`arcacct.sources.batch_source` finds those of other packages.
"""
