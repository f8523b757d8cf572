"""Logs of batch systems whose runs are in one table, and a host that imports them."""

from __future__ import annotations

import pathlib
from typing import Any

from control_directory import set_up

from arcacct.config.paths import places
from arcacct.database.access import open_accounting
from arcacct.records.rejected import Fault
from arcacct.sources.engine.batch_runs import BatchRun, LogForm, LogSource
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite

DATA = pathlib.Path(__file__).parent.parent / "data"
BEGIN = 1793577600
NOW = BEGIN + 40 * 86_400


def runs(source: LogSource, content: bytes, piece: int = 1 << 20) -> list[BatchRun]:
    """The runs of a log; read in pieces of some bytes."""
    chunks = [content[start : start + piece] for start in range(0, len(content), piece)]
    return [one.what for one in source.read(chunks, LogForm()) if isinstance(one.what, BatchRun)]


def reasons(source: LogSource, content: bytes) -> list[str]:
    """Why what cannot be used of it cannot."""
    return [one.what.reason for one in source.read([content], LogForm()) if isinstance(one.what, Fault)]


class BatchHost:
    """A host with a database; each import is a run of its own, as of the command."""

    def __init__(self, folder: pathlib.Path, source: LogSource) -> None:
        self.here = places(None, set_up(folder / "control"))
        self.con = open_accounting(self.here)
        self.source = source
        self.said: list[str] = []
        self.now = NOW

    def work(self) -> RunsImport[BatchRun]:
        """An import that has done nothing yet."""
        policy = BatchPolicy(BatchSite(), self.now, 86_400)
        return RunsImport(self.source, self.here, self.con, policy, LogForm(), self.said.append, lambda: self.now)

    def take(self, *outputs: bytes | pathlib.Path) -> RunsReport:
        """Import some logs."""
        work = self.work()
        for output in outputs:
            if isinstance(output, bytes):
                work.output("log", [output])
            else:
                work.files([str(output)])
        work.finish()
        return work.report

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self.con.execute(sql).fetchall()

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """Jobs and runs: all but the numbers that rows are given when they come."""
        columns = "Source, Place, JobNumber, Task, StartTime, EndTime, Wall, CPUUser, CPUs, NodeList, JobName"
        queries = ("SELECT * FROM v1_jobs", f"SELECT {columns} FROM BatchRuns", "SELECT * FROM v1_usage_by_month")
        return [sorted(self.rows(query), key=repr) for query in queries]

    def logged(self) -> int:
        """How often a record was logged as finished or changed."""
        return int(self.rows("SELECT ifnull(max(Seq), 0) FROM FinishedLog")[0][0])
