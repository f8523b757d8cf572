"""A host that imports the jobs of a batch system, and the jobs that A-REX has there."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, ClassVar

from control_directory import set_up
from stored_jobs import endpoint_id

from arcacct.config.paths import places
from arcacct.database.access import open_accounting, writing
from arcacct.records.recorder import name_id
from arcacct.records.rejected import RetryResult
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite, SourceType


def pieces(content: bytes | pathlib.Path, piece: int = 1 << 20) -> list[bytes]:
    """The bytes of a file or of an output, in pieces of some bytes."""
    data = content.read_bytes() if isinstance(content, pathlib.Path) else content
    return [data[start : start + piece] for start in range(0, len(data), piece)]


class ImportHost:
    """A host with a database; each import is a run of its own, as of the command."""

    source: SourceType[Any]
    form: ClassVar[Callable[..., Any]]
    """Makes the form of an output from its options."""
    own: ClassVar[str]
    """The source's own rows, as third parties see them: all but the numbers that rows are given when they come."""
    now: int

    def __init__(self, folder: pathlib.Path, site: BatchSite | None = None) -> None:
        self.here = places(None, set_up(folder / "control"))
        self.con = open_accounting(self.here)
        self.site = BatchSite() if site is None else site
        self.said: list[str] = []
        self.prefer_arc = True

    def work(self, **form: Any) -> RunsImport[Any]:
        """An import that has done nothing yet."""
        policy = BatchPolicy(self.site, self.now, 86_400, self.prefer_arc)
        made = type(self).form(**form)
        return RunsImport(self.source, self.here, self.con, policy, made, self.said.append, lambda: self.now)

    def take(self, *outputs: bytes | pathlib.Path, **form: Any) -> RunsReport:
        """Import some outputs."""
        work = self.work(**form)
        for output in outputs:
            if isinstance(output, bytes):
                work.output("output", [output])
            else:
                work.files([str(output)])
        work.finish()
        return work.report

    def retry(self, **form: Any) -> RetryResult:
        """Try again what was rejected."""
        work = self.work(**form)
        found = work.retry()
        work.finish()
        return found

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self.con.execute(sql).fetchall()

    def value(self, sql: str) -> Any:
        """The only value that a query finds."""
        ((found,),) = self.rows(sql)
        return found

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """Jobs with their children, and the source's own rows."""
        queries = (
            "SELECT * FROM v1_jobs",
            "SELECT JobID, InfoKey, InfoValue FROM JobExtraInfo JOIN AAR USING (RecordID)",
            "SELECT JobID, EventKey, EventTime FROM JobEvents JOIN AAR USING (RecordID)",
            "SELECT JobID, Field, Source FROM FieldSources JOIN AAR USING (RecordID)",
            "SELECT * FROM v1_usage_by_month",
        )
        found = [sorted(self.rows(query), key=repr) for query in queries]
        return [*found, sorted((row[1:] for row in self.rows(self.own)), key=repr)]

    def logged(self) -> int:
        """How often a record was logged as finished or changed."""
        return int(self.value("SELECT ifnull(max(Seq), 0) FROM FinishedLog"))


def arc_job(host: ImportHost, job_id: str, columns: dict[str, object]) -> int:
    """A job as our recorder leaves it: finished, nothing measured but what is given."""
    values: dict[str, object] = {
        "StatusID": "completed",
        "ExitCode": 0,
        **dict.fromkeys(("UsedMemory", "UsedVirtMem", "UsedWalltime", "UsedCPUUserTime", "UsedCPUKernelTime"), 0),
        **dict.fromkeys(("UsedScratch", "StageInVolume", "StageOutVolume"), 0),
        **dict.fromkeys(("NodeCount", "CPUCount"), 1),
    } | columns
    with writing(host.con, host.here) as con:
        values["StatusID"] = name_id(con, "Status", str(values["StatusID"]))
        values["EndpointID"] = endpoint_id(con, "org.nordugrid.arcrest", "https://ce.example.org/arex")
        values |= {f"{name}ID": name_id(con, f"{name}s", "") for name in ("Queue", "User")}
        values["VOID"] = name_id(con, "WLCGVOs", "atlas")
        marks = ", ".join("?" * (len(values) + 1))
        into = f"INSERT INTO AAR (JobID, {', '.join(values)}) VALUES ({marks})"
        return con.execute(into, (job_id, *values.values())).lastrowid or 0
