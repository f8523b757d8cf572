"""Grid Engine's records: the table that stores them, the jobs made from them, and their import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from arcacct.database.connection import Connection
from arcacct.files.follow import Reader
from arcacct.records.batch_jobs import Figures, figures
from arcacct.records.batch_systems import GRIDENGINE as SYSTEM
from arcacct.records.model import Job
from arcacct.sources.engine.runs import BatchSite, JobNumber, KeptRun, ParsedRun, RunTable, SourceType
from arcacct.sources.gridengine.accounting_file import FIELDS, Origin, read
from arcacct.sources.gridengine.record import DID_NOT_RUN, FOLLOWED, Record, deciding, jobs, key, local_job, richer

# Grid Engine's records in the database: a column for each value, and rows in GridEngineUsage for those without one.


_SPELT = {"group": "GroupName", "pe_taskid": "PeTaskID", "qname": "QName", "granted_pe": "GrantedPE", "arid": "ArID"}
_SPELT |= {"ioops": "IoOps", "maxvmem_bytes": "MaxVmem", "maxrss_bytes": "MaxRss", "maxpss_bytes": "MaxPss"}
_SPELT |= {"file_id": "FileID", "custom": ""}
_UNITS = ("_s", "_kib", "_gib", "_bytes", "_gib_s")


def column(field: str) -> str:
    """Return the column of GridEngineRecords that holds a field of a record."""
    if field in _SPELT:
        return _SPELT[field]
    unit = max((unit for unit in _UNITS if field.endswith(unit)), key=len, default="")
    return "".join(part.capitalize() for part in field.removesuffix(unit).split("_"))


class _Records(RunTable[Record]):
    def __init__(self) -> None:
        super().__init__(
            "GridEngineRecords",
            Record,
            {field: column(field) for field in Record._fields},
            no="RecordNo",
            numbers=2,
            progress=("GridEngineProgress", "Cell"),
            # These jobs ran, and wait for A-REX's job or for another run.
            waits=f"StartTimeUs > 0 AND PeTaskID IS NULL AND Failed NOT IN {(*sorted(DID_NOT_RUN),)}",
            end=("EndTimeUs", 10**6),
        )

    def once(self, run: Record) -> Any:
        return key(run)

    def read(self, values: Sequence[Any]) -> Record:
        return Record(*values)

    def stored(self, run: Record) -> tuple[Any, ...]:
        return run[:-1]

    def needed(
        self, con: Connection, place: str, new: Mapping[tuple[int, ...], Sequence[Record]]
    ) -> list[KeptRun[Record]]:
        # Tasks come before the record of their job. Until then no job is made, and there may be thousands of them.
        early = {number for number, some in new.items() if some and all(one.pe_taskid for one in some)}
        if early:
            numbers = ", ".join(map(str, early))
            where = f"(JobNumber, TaskNumber) IN (VALUES {numbers}) AND coalesce(PeTaskID, '') = '' AND Cell = ?"
            early -= set(con.execute(f"SELECT JobNumber, TaskNumber FROM GridEngineRecords WHERE {where}", (place,)))
        others = new.keys() - early
        found = self.of_numbers(con, place, others) if others else []
        for number in early:
            names = [one.pe_taskid for one in new[number]]
            same = f"coalesce(PeTaskID, '') IN ({', '.join('?' * len(names))})"
            found += self.of_numbers(con, place, [number], same, *names)
        return found

    def of_numbers(
        self, con: Connection, place: str, numbers: Iterable[tuple[int, ...]], where: str = "1", *values: object
    ) -> list[KeptRun[Record]]:
        found = super().of_numbers(con, place, numbers, where, *values)
        marks = ", ".join(str(one.no) for one in found)
        usage = f"SELECT * FROM GridEngineUsage WHERE RecordNo IN ({marks}) ORDER BY RecordNo, UsageGroup, Name"
        custom: dict[int, list[Any]] = {}
        for no, *own in con.execute(usage):
            custom.setdefault(no, []).append(tuple(own))
        return [
            one._replace(run=one.run._replace(custom=tuple(custom[one.no]))) if one.no in custom else one
            for one in found
        ]

    def keep(self, con: Connection, new: Sequence[KeptRun[Record]], changed: Sequence[KeptRun[Record]]) -> None:
        super().keep(con, new, changed)
        con.executemany("DELETE FROM GridEngineUsage WHERE RecordNo = ?", [(one.no,) for one in changed])
        usage = [(one.no, *custom) for one in (*new, *changed) for custom in one.run.custom]
        con.executemany("INSERT INTO GridEngineUsage VALUES (?, ?, ?, ?)", usage)


# Grid Engine as a source.


_RUNS_S = 31 * 86_400
"""The first run of a job may end this many seconds before its last run."""


def _first_end(path: str) -> int:
    """Return the end of the first record of a file, in microseconds; 0 if unknown."""
    with Reader(path) as reader:
        found = (one.what for one in read([reader.beginning()], Origin()))
        return next((one.end_time_us for one in found if isinstance(one, Record) and one.end_time_us), 0)


class GridEngineSource(SourceType[Record]):
    """The source for Grid Engine's accounting files."""

    system = SYSTEM
    table = _Records()
    run_type = Record
    form = Origin()
    fields = FIELDS
    what = "record"
    files = "GridEngineFiles"
    order = staticmethod(_first_end)
    kept = "records"

    def read(self, chunks: Iterable[bytes], form: Origin) -> Iterator[ParsedRun]:
        """Yield each line of a file."""
        return read(chunks, form)

    def joined(self, one: Record, other: Record) -> Record:
        """Return the more complete of two encodings of a record, with the place where it was read first."""
        if one[:-3] == other[:-3] and one.custom == other.custom:
            return one
        return richer(one, other)._replace(file_id=one.file_id, line=one.line)

    def jobs(
        self, runs: Sequence[KeptRun[Record]], site: BatchSite
    ) -> Iterator[tuple[Job | None, Sequence[KeptRun[Record]]]]:
        """Yield the jobs of all records of one number: attempts that belong together, with tasks of parallel jobs."""
        kept = {id(one.run): one for one in runs}
        for job_runs in jobs(one.run for one in runs):
            members = [kept[id(record)] for run in job_runs.runs for record in run.records]
            if counted := job_runs.counted:
                members.append(kept[id(deciding(counted).master)])
            yield local_job(job_runs, site), members

    def is_final(self, run: Record) -> bool:
        """Whether no other run follows the one that decides."""
        return run.failed not in FOLLOWED

    def called(self, job: JobNumber) -> str:
        """Return the text that names a job in messages."""
        _cell, number, task = job
        return f"job {f'{number}.{task}' if task else number}"

    def compared(self, runs: Iterable[Record], start: int, end: int) -> Iterator[Figures]:
        """Yield the jobs that ended at or after ``start`` and before ``end``. Their records are held in memory."""
        found: dict[tuple[int, ...], dict[Any, Record]] = {}
        for one in runs:
            if start - _RUNS_S <= one.end_time < end:
                found.setdefault(self.table.number_of(one), {})[key(one)] = one
        for records in found.values():
            for job_runs in jobs(records.values()):
                job = local_job(job_runs, BatchSite())
                if job is not None and start <= job.end_time < end:
                    yield figures(job)._replace(is_final=self.is_final(deciding(job_runs.counted).master))


SOURCE = GridEngineSource()
