"""Logs of batch systems whose runs are in one table, and a host that imports them."""

from __future__ import annotations

import pathlib

from import_host import ImportHost, pieces

from arcacct.records.rejected import Fault
from arcacct.sources.engine.batch_runs import BatchRun, LogForm, LogSource

DATA = pathlib.Path(__file__).parent.parent / "data"
BEGIN = 1793577600
NOW = BEGIN + 40 * 86_400


def runs(source: LogSource, content: bytes, piece: int = 1 << 20) -> list[BatchRun]:
    """The runs of a log; read in pieces of some bytes."""
    return [one.what for one in source.read(pieces(content, piece), LogForm()) if isinstance(one.what, BatchRun)]


def reasons(source: LogSource, content: bytes) -> list[str]:
    """Why what cannot be used of it cannot."""
    return [one.what.reason for one in source.read([content], LogForm()) if isinstance(one.what, Fault)]


class BatchHost(ImportHost):
    """A host of PBS or LSF."""

    form = LogForm
    own = (
        "SELECT RunNo, Source, Place, JobNumber, Task, StartTime, EndTime, Wall, CPUUser, CPUs, NodeList, JobName"
        " FROM BatchRuns"
    )
    now = NOW

    def __init__(self, folder: pathlib.Path, source: LogSource) -> None:
        super().__init__(folder)
        self.source = source
