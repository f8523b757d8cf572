"""The output of `arcctl accounting` of ARC 6 and 7, value for value, so that scripts that read it continue to work."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from arcacct.arex.own_database import tokens_of_version_1, tokens_of_version_2, with_benchmark
from arcacct.database.connection import Connection
from arcacct.queries.questions import JobTotals
from arcacct.records.row_mapping import Row, schema_version
from arcacct.records.states import IN_PROGRESS
from arcacct.records.texts import plain_text
from arcacct.secrecy import without_credentials
from arcacct.times import DAY_S, LAST_SECOND

# The output of `arcctl accounting` of ARC 6 or ARC 7, value by value, so that scripts that read it still work.  Times
# are UTC (arcctl 6: the zone of the process, without a marker). Texts are shown as they are stored, percent- escapes
# and all, as arcctl does.


ArcctlJob = dict[str, Any]
"""A record under the keys of arcctl's JSON (`job_record`)."""
_UNITS = ("K", "M", "G", "T", "P", "E")


def when(seconds: object) -> str:
    """Return ``2026-11-20 10:08:05``, UTC; a value that is no time, or beyond any calendar, unchanged."""
    if not isinstance(seconds, int) or not 0 <= seconds <= LAST_SECOND:
        return str(seconds)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def size(amount: object) -> str:
    """``333``, ``19.9K``: powers of 1024. arcctl treats memory in KiB as bytes; so do we. Other values unchanged."""
    if not isinstance(amount, int) or amount < 1024:
        return str(amount)
    number = float(amount)
    power = 0
    while number >= 1024 and power < len(_UNITS):
        number /= 1024
        power += 1
    return f"{number:.1f}{_UNITS[power - 1]}"


def duration(seconds: object) -> str:
    """Return ``0:01:15`` or ``3 days, 0:00:00``; a value that is no time unchanged."""
    if not isinstance(seconds, int):
        return str(seconds)
    if abs(seconds) > LAST_SECOND:
        return f"{seconds // DAY_S} days, {timedelta(seconds=seconds % DAY_S)}"
    return str(timedelta(seconds=seconds))


def brief(totals: JobTotals, version: int, *, active: bool) -> Iterator[str]:
    """
    Return the lines of ``-o brief``.

    ``version`` is arcctl's, 6 or 7; ``active``: jobs that have not ended may be included.
    """
    began, name = totals.first_submission, "Execution"
    if version != 6 and not active:
        began, name = totals.first_end, "Accounting"
    yield "A-REX Accounting Statistics:"
    yield f"  Number of Jobs: {totals.count}"
    yield f"  {name} timeframe: {when(began)} - {when(totals.last_end)}"
    yield f"  Total WallTime: {duration(totals.walltime)}"
    yield f"  Total CPUTime: {duration(totals.cputime)} (including {duration(totals.cpukerneltime)} of kernel time)"
    yield f"  Data staged in: {size(totals.stagein)}"
    yield f"  Data staged out: {size(totals.stageout)}"


def stats_json(
    totals: JobTotals, version: int, *, users: list[str], vos: list[str], fqans: list[str]
) -> dict[str, int | list[str]]:
    """The data of ``-o json``; only arcctl 7 prints ``fqans``."""
    names = ("count", "walltime", "cpuusertime", "cpukerneltime", "stagein", "stageout")
    found: dict[str, int | list[str]] = {name: getattr(totals, name) for name in names}
    if version == 6:
        times = {"rangestart": totals.first_submission, "rangeend": totals.last_end}
    else:
        times = {"minstarttime": totals.first_submission, "maxendtime": totals.last_end, "minendtime": totals.first_end}
    found |= times | {"cputime": totals.cputime, "users": users, "wlcgvos": vos}
    return found if version == 6 else found | {"fqans": fqans}


def unfinished(job: ArcctlJob) -> str | None:
    """Return arcctl's text for a job in progress; ``None`` for any other job."""
    if job["Status"] != IN_PROGRESS:
        return None
    return (
        f"Job {job['JobID']} (submitted on {job['SubmitTime']}) is not finished yet. "
        "Accounting data is not available yet."
    )


def info(job: ArcctlJob, wanted: str) -> Iterator[str]:
    """
    Return the lines of ``job info -o WANTED``: all, description, resources, rtes or authtokens.

    A record with the keys FQAN and Benchmark is printed as by arcctl 7, one without as by arcctl 6.
    """
    everything = wanted == "all"
    tab = "  " if everything else ""
    if everything:
        header = f"Job {job['JobID']} accounting info:"
        yield header
        yield "=" * len(header)
    for name, title, lines in (
        ("description", "Job description:", _description),
        ("resources", "Resource usage:", _resources),
        ("rtes", "Used RunTime Environments:", _rtes),
        ("authtokens", "Auth token attributes provided:", _tokens),
    ):
        if everything:
            yield title
        if everything or wanted == name:
            yield from lines(job, tab)


def _description(job: ArcctlJob, tab: str) -> Iterator[str]:
    vo = f'as a member of "{job["WLCGVO"]}" WLCG VO' if job["WLCGVO"] else "with no WLCG VO affiliation"
    if job["WLCGVO"] and job.get("FQAN"):
        vo += f" ({job['FQAN']})"
    yield (
        f'{tab}Job was submitted at {job["SubmitTime"]} via "{job["Interface"]}" interface'
        f' using "{job["EndpointURL"]}" endpoint.'
    )
    yield f'{tab}Job owned by "{job["UserSN"]}" {vo}.'
    yield f'{tab}It was targeted to the "{job["Queue"]}" queue with "{job["LocalJobID"]}" LRMS ID.'
    yield f"{tab}Job {job['Status']} with exit code {job['ExitCode']} at {job['EndTime']}."
    if job["JobExtraInfo"]:
        yield "  Following job properties are recorded:"
    for key, value in job["JobExtraInfo"].items():
        yield f"    {key.capitalize()}: {value}"
    if "Benchmark" in job:
        yield f"    BENCHMARK: {job['Benchmark']}"


def _resources(job: ArcctlJob, tab: str) -> Iterator[str]:
    yield f"{tab}Execution timeframe: {job['SubmitTime']} - {job['EndTime']}"
    yield f"{tab}Used WallTime: {job['UsedWalltime']}"
    yield f"{tab}Used CPUTime: {job['UsedCPUTime']} (including {job['UsedCPUKernelTime']} of kernel time)"
    yield f"{tab}Used WN Scratch: {size(job['UsedScratch'])}"
    yield f"{tab}Max physical memory: {size(job['UsedMemory'])}"
    yield f"{tab}Max virtual memory: {size(job['UsedVirtMem'])}"
    yield f"{tab}Used CPUs: {job['CPUCount']} on {job['NodeCount']} node(s)"
    yield f"{tab}Data staged in: {size(job['StageInVolume'])}"
    yield f"{tab}Data staged out: {size(job['StageOutVolume'])}"


def _rtes(job: ArcctlJob, tab: str) -> Iterator[str]:
    for name in job["RunTimeEnvironments"]:
        yield tab + name
    if not job["RunTimeEnvironments"]:
        yield f"{tab}There are no RTEs used by the job."


def _tokens(job: ArcctlJob, tab: str) -> Iterator[str]:
    for key, value in job["AuthTokenAttributes"]:
        name = "VOMS FQAN" if key in ("mainfqan", "vomsfqan") else key
        yield f"{tab}{name}: {value}"
    if not job["AuthTokenAttributes"]:
        yield f"{tab}There are no authentication token attributes recorded for the job."


def events(job: ArcctlJob) -> Iterator[str]:
    """The lines of ``job events``; none when there are none."""
    for event, time_text in job["JobEvents"]:
        yield f"{time_text}\t{event}"


def transfers(job: ArcctlJob) -> Iterator[str]:
    """The lines of ``job transfers``; none when there are none."""
    moved = job["DataTransfers"]
    if not moved:
        return
    for stage, verb, word in (("stage-in", "Download", "downloads"), ("stage-out", "Upload", "uploads")):
        some = [one for one in moved if (one["type"] == "output") == (stage == "stage-out")]
        if some:
            yield f"Data transfers ({word}) performed during A-REX {stage}:"
        else:
            yield f"No {stage} data transfers ({word}) performed by A-REX."
        for one in some:
            yield f"  {one['url']}{' (from cache)' if one['type'] == 'cache_input' else ''}:"
            yield f"    Size: {size(one['size'])}"
            yield f"    {verb} timeframe: {one['timestart']} - {one['timeend']}"


# One job with all its children, under arcctl's JSON keys; on our database and on A-REX's, of ARC 6 or ARC 7.


_COLUMNS = (
    "RecordID, JobID, LocalJobID, EndpointID, Interface, URL AS EndpointURL, QueueID, Queues.Name AS Queue, UserID,"
    " Users.Name AS UserSN, VOID, WLCGVOs.Name AS WLCGVO, FQANID, FQANs.Name AS FQAN, StatusID, Status.Name AS Status,"
    " ExitCode, BenchmarkID, Benchmarks.Name AS Benchmark, SubmitTime, EndTime, NodeCount, CPUCount, UsedMemory,"
    " UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime,"
    " UsedCPUUserTime + UsedCPUKernelTime AS UsedCPUTime, UsedScratch, StageInVolume, StageOutVolume"
)
_VALUES = {column.rpartition(" ")[2]: column for column in _COLUMNS.split(", ")}
"""arcctl's keys in its order, and where their values are."""
_OF_VERSION_2 = ("FQANID", "FQAN", "BenchmarkID", "Benchmark")
# LEFT: a name that is missing must not make the job disappear.
_NAMES = (
    " FROM AAR LEFT JOIN Endpoints ON Endpoints.ID = EndpointID LEFT JOIN Queues ON Queues.ID = QueueID"
    " LEFT JOIN Users ON Users.ID = UserID LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID"
    " LEFT JOIN Status ON Status.ID = StatusID"
)
_NAMES_2 = " LEFT JOIN FQANs ON FQANs.ID = FQANID LEFT JOIN Benchmarks ON Benchmarks.ID = BenchmarkID"
_TRANSFER_TYPES = {11: "cache_input", 20: "output"}


def arcctl_record(con: Connection, record_id: int, arcctl: int | None = None) -> ArcctlJob:
    """
    Return a record in the form of ``arcctl accounting job info -o json``, in its order; times as text, UTC.

    ``arcctl`` is the version to imitate, 6 or 7; by default that of the database. Texts are as stored; FQANID and
    BenchmarkID are ``None`` if the database has no such numbers. The record must exist.
    """
    version = schema_version(con)
    arcctl = arcctl or version + 5
    known = {key: column for key, column in _VALUES.items() if version != 1 or key not in _OF_VERSION_2}
    row = con.execute(
        f"SELECT {', '.join(known.values())}{_NAMES}{_NAMES_2 if version != 1 else ''} WHERE RecordID = ?", (record_id,)
    ).fetchone()
    found: ArcctlJob = dict.fromkeys(_VALUES)
    found |= dict(zip(known, map(_printable, row), strict=True))

    def rows(columns: str, table: str) -> list[tuple[Any, ...]]:
        children = con.execute(f"SELECT {columns} FROM {table} WHERE RecordID = ? ORDER BY rowid", (record_id,))
        return [tuple(map(_printable, row)) for row in children]

    tokens: Sequence[Row] = rows("AttrKey, AttrValue", "AuthTokenAttributes")
    found |= {
        # Its place among the keys; the rows follow below.
        "AuthTokenAttributes": None,
        "JobEvents": [list(row) for row in rows("EventKey, EventTime", "JobEvents")],
        "RunTimeEnvironments": [plain_text(name) for (name,) in rows("RTEName", "RunTimeEnvironments")],
        "DataTransfers": [
            {
                "url": without_credentials(url),
                "size": size,
                "timestart": when(start),
                "timeend": when(end),
                "type": _TRANSFER_TYPES.get(kind, "input"),
            }
            for url, size, start, end, kind in rows(
                "URL, FileSize, TransferStart, TransferEnd, TransferType", "DataTransfers"
            )
        ],
        "JobExtraInfo": {plain_text(key): value for key, value in rows("InfoKey, InfoValue", "JobExtraInfo")},
    }
    found |= {key: when(found[key]) for key in ("SubmitTime", "EndTime")}
    if version == 1 and arcctl != 6:
        # The values that ARC 7 stores elsewhere: the first FQAN and the benchmark of a record of version 1.
        found["FQAN"], tokens = tokens_of_version_2(tokens)
        found["Benchmark"] = found["JobExtraInfo"].pop("benchmark", "")
    elif version != 1 and arcctl == 6:
        tokens = tokens_of_version_1(tokens, found["FQAN"])
        extra: list[Row] = list(found["JobExtraInfo"].items())
        found["JobExtraInfo"] = {str(key): value for key, value in with_benchmark(extra, found["Benchmark"])}
    found["AuthTokenAttributes"] = [list(row) for row in tokens]
    if arcctl == 6:
        found["JobEvents"].sort(key=lambda event: event[1])
        return {key: value for key, value in found.items() if key not in _OF_VERSION_2}
    return found


def _printable(value: object) -> object:
    """SQLite keeps bytes in any column; neither people nor JSON can read them."""
    return plain_text(value) if isinstance(value, bytes) else value
