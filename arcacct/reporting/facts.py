"""
What the records of a month say that no kept sum tells: how jobs failed, energy, what changed.

Each question reads the records that end in the month, by the index of their ends, and none of another month.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.records import slurm_formats
from arcacct.records.reader import unescaped
from arcacct.records.states import SQL_ABORTED, SQL_FAILED

_HOST = (
    "(SELECT substr(InfoValue, 1, instr(InfoValue || ':', ':') - 1) FROM JobExtraInfo AS Extra"
    " WHERE Extra.RecordID = Used.RecordID AND +InfoKey IN ('nodenames', 'nodename') ORDER BY Extra.rowid LIMIT 1)"
)
_TOLD_BY_SLURM = (
    "(SELECT CASE WHEN nullif(EnergyJ, 0) IS NULL AND instr(AllocTRES, 'energy=') THEN AllocTRES END FROM SlurmRuns"
    " WHERE SlurmRuns.RecordID = Used.RecordID ORDER BY RunNo DESC LIMIT 1)"
)
"""What sacct tells of jobs whose energy telemetry does not know."""
_VO = "(SELECT Name FROM WLCGVOs WHERE ID = VOID)"


class Failed(NamedTuple):
    """Jobs that failed in the same way."""

    status: str
    exit_code: int
    has_run: bool
    slurm_state: str | None
    gridengine_failure: str | None
    jobs: int
    core_s: float


class EnergyUse(NamedTuple):
    """What jobs of a day, VO and CPU used; energy in J, ``None``: nobody measured it."""

    day: int
    """Since 1970."""
    vo: str | None
    cpu_model: str | None
    """As telemetry knows it of the job."""
    host: str | None
    """Of jobs without a CPU model: the node that the batch system named first."""
    core_s: float
    measured_core_s: float
    """Of jobs whose energy the batch system measured."""
    energy_j: float | None
    gpu_energy_j: float | None
    """Of GPUs of the other jobs."""


class Changes(NamedTuple):
    """What was logged since a moment, of jobs that end in a month now."""

    recorded: int
    """New ones."""
    corrected: int
    """Those that were finished before, and were otherwise."""


def failures(con: Connection, start_s: int, before_s: int) -> Iterator[Failed]:
    """The jobs that failed or were aborted, by how; reads every record of the time."""
    rows = con.execute(
        "SELECT Name, ExitCode, HasRun, State, Failure, count(*), sum(UsedWalltime * 1.0 * CPUCount) FROM"
        " (SELECT Status.Name, ExitCode, CPUCount, UsedWalltime, UsedWalltime > 0 OR EXISTS"
        " (SELECT 1 FROM JobEvents WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART') AS HasRun,"
        " (SELECT State FROM SlurmRuns WHERE SlurmRuns.RecordID = AAR.RecordID ORDER BY RunNo DESC LIMIT 1) AS State,"
        " (SELECT Meaning FROM GridEngineRecords JOIN GridEngineFailures USING (Failed)"
        " WHERE GridEngineRecords.RecordID = AAR.RecordID AND PeTaskID IS NULL AND Failed <> 0"
        " ORDER BY RecordNo DESC LIMIT 1) AS Failure"
        " FROM AccountedAAR AS AAR"
        f" CROSS JOIN Status ON Status.ID = StatusID AND Status.Name IN ({SQL_FAILED}, {SQL_ABORTED})"
        " WHERE EndTime >= ? AND EndTime < ?) GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5",
        (start_s, before_s),
    )
    for status, exit_code, has_run, state, failure, jobs, core_s in rows:
        yield Failed(status, exit_code, bool(has_run), state, failure, jobs, core_s or 0)


def has_measurements(con: Connection) -> bool:
    """Whether telemetry or sacct told anything of any job."""
    asked = "SELECT 1 FROM (SELECT 1 FROM JobTelemetry LIMIT 1) UNION ALL SELECT 1 FROM SlurmRuns LIMIT 1"
    return con.execute(asked).fetchone() is not None


def drawn(con: Connection, start_s: int, before_s: int, *, with_hosts: bool) -> Iterator[EnergyUse]:
    """What jobs drew; reads every record of the time, ``with_hosts`` also the nodes of those without telemetry."""
    host = f"CASE WHEN CPUModel IS NULL THEN {_HOST} END" if with_hosts else "NULL"
    told = _TOLD_BY_SLURM if con.execute("SELECT 1 FROM SlurmRuns LIMIT 1").fetchone() is not None else "NULL"
    rows = con.execute(
        f"SELECT Day, {_VO}, CPUModel, Host, sum(CoreS), sum(CASE WHEN EnergyJ IS NULL THEN 0 ELSE CoreS END),"
        " sum(EnergyJ), sum(CASE WHEN EnergyJ IS NULL THEN GPUEnergyJ END), Told, count(*) FROM"
        " (SELECT CAST(EndTime / 86400 AS INTEGER) AS Day, VOID, Wall * 1.0 * CPUCount AS CoreS, CPUModel,"
        f" {host} AS Host, nullif(EnergyJ, 0) AS EnergyJ, GPUEnergyJ,"
        f" {told} AS Told"
        " FROM RecordUsage AS Used LEFT JOIN JobTelemetry ON JobTelemetry.RecordID = Used.RecordID"
        " WHERE EndTime >= ? AND EndTime < ?) GROUP BY Day, VOID, CPUModel, Host, Told"
        " ORDER BY 1, 2, 3, 4, Told",
        (start_s, before_s),
    )
    for day, vo, model, node, *amounts, tres_text, jobs in rows:
        one = EnergyUse(day, unescaped(vo) or None, model, None if node is None else unescaped(node), *amounts)
        energy_j = slurm_formats.parse(tres_text).get("energy", 0) if tres_text else 0
        if energy_j:
            one = one._replace(measured_core_s=one.core_s, energy_j=energy_j * jobs, gpu_energy_j=None)
        yield one


def cpu_models(con: Connection, before_s: int) -> dict[str, str]:
    """By the name of a node, without its domain: the CPU model that telemetry saw last before a moment."""
    rows = con.execute(
        "SELECT Name, CPUModel FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID WHERE CPUModel <> ''"
        " ORDER BY ValidFrom >= ? DESC, ValidFrom, Name",
        (before_s,),
    )
    return {name.partition(".")[0]: model for name, model in rows}


def last_seq(con: Connection) -> int:
    """The place of what was logged last."""
    return int(
        con.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'FinishedLog'").fetchone()[0]
    )


def changes(con: Connection, seq: int, start_s: int, before_s: int) -> Changes:
    """What was logged after a place; reads all that was logged after it."""
    every, corrected = con.execute(
        "SELECT count(*), count(CASE WHEN EXISTS (SELECT 1 FROM FormerVersions"
        " WHERE FormerVersions.RecordID = AAR.RecordID AND FormerVersions.Seq > ?1) THEN 1 END)"
        " FROM FinishedLog CROSS JOIN AAR USING (RecordID)"
        " WHERE FinishedLog.Seq > ?1 AND +EndTime >= ?2 AND +EndTime < ?3",
        (seq, start_s, before_s),
    ).fetchone()
    return Changes(every - corrected, corrected)
