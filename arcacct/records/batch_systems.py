"""The batch systems whose own accounting is a source: one line for each."""

from __future__ import annotations

from typing import NamedTuple


class BatchSystem(NamedTuple):
    """What the program knows of a batch system, whether or not it is imported here."""

    name: str
    """Of its command (`import NAME`, `verify --lrms NAME`) and of its folder below arcacct/sources/."""
    title: str
    """What people call it."""
    source: str
    """
    RecordSources.Source of its jobs, and FieldSources.Source of what it measured of A-REX's.

    A source of another package has its name here, and as ``kind``.
    """
    accounting: str
    """What its values are read from, in words for the manual."""
    kind: str
    """The first word of JobIDs of its jobs. It is published, so it never changes."""
    lrms_names: tuple[str, ...]
    """Its names in [lrms] of arc.conf and in records, in small letters."""
    is_plain: bool = False
    """Whether its command has only the options that all have, and no module in arcacct/cli/."""


GRIDENGINE = BatchSystem(
    "gridengine",
    "Grid Engine",
    "gridengine",
    "Grid Engine's accounting files",
    "gesge",
    ("sge", "gridengine", "ge", "ogs", "uge"),
)
HTCONDOR = BatchSystem("htcondor", "HTCondor", "htcondor", "HTCondor's history", "htcondor", ("condor", "htcondor"))
SLURM = BatchSystem("slurm", "Slurm", "sacct", "Slurm's own accounting (`sacct`)", "sonar", ("slurm",))
PBS = BatchSystem(
    "pbs",
    "PBS",
    "pbs",
    "PBS's accounting logs (Torque, PBS Professional, OpenPBS)",
    "pbs",
    ("pbs", "pbspro", "torque"),
    True,
)
LSF = BatchSystem("lsf", "LSF", "lsf", "LSF's lsb.acct", "lsf", ("lsf",), True)
BATCH_SYSTEMS = {one.name: one for one in (GRIDENGINE, HTCONDOR, LSF, PBS, SLURM)}
"""
By name, those that are built in. A source adds its line here, and its folder below arcacct/sources/.

Those of other packages are found by `arcacct.sources.batch_source`.
"""
