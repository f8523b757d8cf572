"""qacct's questions, asked of the records in the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from arcacct.database.connection import Connection
from arcacct.errors import InputError
from arcacct.gridengine.rows import column
from arcacct.gridengine.totals import COLUMNS, Question, Row, Sum

_VALUES = {name: f"coalesce({column(one.field)}, {one.unknown!r})" for name, one in COLUMNS.items()}
_SUMS = (
    "count(*), total(RuWallclock), total(RuUtime), total(RuStime), total(Cpu), total(Mem), total(Io), total(Iow),"
    " total(CASE WHEN PeTaskID IS NULL THEN RuWallclock * Slots ELSE 0 END)"
)
_IN_SHORT = (
    *("job_number", "task_number", "pe_taskid", "job_name", "owner", "qname", "hostname", "slots"),
    *("submission_time_iso", "start_time_iso", "end_time_iso", "failed_text", "exit_status"),
    *("ru_wallclock_s", "cpu_s", "maxvmem_bytes", "job_id"),
)


class Tasks(NamedTuple):
    """A range of tasks of array jobs: ``N[-M[:STEP]]``."""

    first: int
    last: int
    step: int

    def has(self, task: int) -> bool:
        """Whether a task is one of them."""
        return self.first <= task <= self.last and (task - self.first) % self.step == 0


class RecordRows(NamedTuple):
    """Records of a job, by the columns of v1_gridengine_records."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def sums(con: Connection, question: Question) -> list[Row]:
    """What `totals.sums` makes of the records of the database."""
    where, values = _where(question)
    columns = "".join(f"{_VALUES[name]}, " for name in question.columns)
    numbers = ", ".join(str(place) for place in range(1, len(question.columns) + 1))
    rows = con.execute(
        f"SELECT {columns}{_SUMS} FROM GridEngineRecords WHERE {where}"
        + (f" GROUP BY {numbers} ORDER BY {numbers}" if numbers else ""),
        values,
    )
    width = len(question.columns)
    return [(row[:width], Sum._make(row[width:])) for row in rows]


def records(con: Connection, job: str, tasks: Tasks | None, question: Question, *, everything: bool) -> RecordRows:
    """
    The records of a job: of a number, else of every job with a name that matches, in order of time.

    ``everything``: all columns of v1_gridengine_records, else a few. Raises InputError when there is none.
    """
    where, values = _where(question)
    if job.isascii() and job.isdecimal():
        chosen: list[object] = [int(job)]
        where = f"JobNumber = ? AND {where}"
    else:
        chosen = [job, job]
        where = f"(JobName = ? OR JobName GLOB ?) AND {where}"
    if tasks is not None:
        where += " AND TaskNumber BETWEEN ? AND ? AND (TaskNumber - ?) % ? = 0"
        values = [*values, tasks.first, tasks.last, tasks.first, tasks.step]
    condition = f"record_no IN (SELECT RecordNo FROM GridEngineRecords WHERE {where})"
    if con.execute(f"SELECT 1 FROM GridEngineRecords WHERE {where} LIMIT 1", [*chosen, *values]).fetchone() is None:
        which = "" if tasks is None else f", with a task from {tasks.first} to {tasks.last} in steps of {tasks.step}"
        raise InputError(f"{job}: no record of Grid Engine has this job number or name{which}")
    all_columns = con.execute("SELECT name FROM pragma_table_info('v1_gridengine_records')")
    columns = tuple(name for (name,) in all_columns) if everything else _IN_SHORT
    rows = con.execute(
        f"SELECT {', '.join(columns)} FROM v1_gridengine_records WHERE {condition}"
        " ORDER BY job_number, task_number, coalesce(start_time, submission_time, 0), end_time, pe_taskid IS NULL",
        [*chosen, *values],
    )
    return RecordRows(columns, rows)


def _where(question: Question) -> tuple[str, list[object]]:
    conditions = ["1"]
    values: list[object] = []
    when = "EndTimeUs" if question.on_end else "StartTimeUs"
    if question.from_s is not None:
        conditions.append(f"{when} >= ?")
        values.append(question.from_s * 1_000_000)
    if question.until_s is not None:
        conditions.append(f"{when} < ?")
        values.append((question.until_s + 1) * 1_000_000)
    if question.masters:
        conditions.append("PeTaskID IS NULL")
    for name, pattern in question.wanted:
        value = f"CAST({_VALUES[name]} AS TEXT)"
        if name == "queue":
            conditions.append(f"({value} = ? OR {value} GLOB ? OR {value} || '@' || coalesce(Hostname, '') GLOB ?)")
            values += [pattern] * 3
        else:
            # Names of hosts have no case.
            is_host = name == "host"
            conditions.append("(lower({0}) = ? OR lower({0}) GLOB ?)" if is_host else "({0} = ? OR {0} GLOB ?)")
            conditions[-1] = conditions[-1].format(value)
            values += [pattern.lower() if is_host else pattern] * 2
    return " AND ".join(conditions), values
