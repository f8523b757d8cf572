"""
What telemetry knows of one job, and filling it into the job's record.

Nothing that is right already is written, so that nothing is published again without need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.records.batch_jobs import LocalID
from arcacct.records.enrichment import SAMPLES, enrich
from arcacct.records.reader import unescaped
from arcacct.records.slurm_formats import expand, gpu_count
from arcacct.sonar.fields import LARGEST
from arcacct.sonar.site import Site
from arcacct.sonar.slurm_jobs import SlurmJob
from arcacct.sonar.slurm_record import allocated, node_benchmark, slurm_usage
from arcacct.sonar.spans import sampled_job


class Hardware(NamedTuple):
    """A node at a moment."""

    cpu_model: str
    system: str


class Telemetry(NamedTuple):
    """What is known of a job: a row of JobTelemetry."""

    cluster_id: int
    job_id: int
    cpu_model: str | None
    samples: int
    cpu_s: int | None
    peak_memory_kib: int | None
    read_kib: int | None
    written_kib: int | None
    gpu_count: int | None
    gpu_allocated_s: int | None
    gpu_model: str | None
    gpu_occupied_s: float | None
    gpu_busy_s: float | None
    gpu_peak_memory_kib: int | None
    gpu_energy_j: float | None
    energy_j: int | None
    cpu_source: str | None
    task: int = 0


class Part(NamedTuple):
    """What a record has of the telemetry of a number."""

    cluster_id: int
    job: LocalID
    starts: tuple[int, ...]
    """The starts of its runs, by which its samples are known."""
    slurm: tuple[SlurmJob, ...]
    """Its runs as job envelopes report them, in order of time."""


def tell(con: Connection, site: Site, record_id: int, told: tuple[Telemetry, list[Hardware]]) -> bool:
    """Add telemetry to a record of another source; True when it changed."""
    telemetry, hardware = told
    before = con.total_changes
    store_telemetry(con, record_id, telemetry)
    (end_time,) = con.execute("SELECT EndTime FROM AAR WHERE RecordID = ?", (record_id,)).fetchone()
    systems = ";".join(dict.fromkeys(one.system for one in hardware))
    values: dict[str, int | str | None] = {
        "memory_kib": telemetry.peak_memory_kib or None,
        "benchmark": node_benchmark([one.cpu_model for one in hardware], end_time, site.node_benchmarks),
        "system_software": systems or None,
        "wn_instance": telemetry.cpu_model,
    }
    enrich(con, record_id, SAMPLES, values, default_benchmark=site.default_benchmark, takes_back=True)
    return con.total_changes != before


def take_back(con: Connection, site: Site, record_id: int) -> bool:
    """Remove what telemetry added to a record; True when it changed."""
    before = con.total_changes
    if con.execute("DELETE FROM JobTelemetry WHERE RecordID = ?", (record_id,)).rowcount:
        values = dict.fromkeys(("memory_kib", "benchmark", "system_software", "wn_instance"))
        enrich(con, record_id, SAMPLES, values, default_benchmark=site.default_benchmark, takes_back=True)
    return con.total_changes != before


def telemetry_of(con: Connection, part: Part, record_id: int | None) -> tuple[Telemetry, list[Hardware]]:
    """What is known of a job, and its nodes as they were when it started."""
    cluster_id, job, starts, slurm = part
    own = f"SampledJobID = ? AND RunStart IN ({', '.join('?' * len(starts))})"
    values = (sampled_job(con, cluster_id, job), *starts)
    use = con.execute(
        "SELECT coalesce(sum(Samples), 0), sum(CPUS), max(PeakMemory), sum(ReadKiB), sum(WrittenKiB), min(FirstTime)"
        f" FROM JobUsage WHERE {own}",
        values,
    ).fetchone()
    cards = con.execute(
        "SELECT UUID, sum(OccupiedS), sum(BusyS), max(PeakMemory), sum(EnergyJ) FROM JobCardUsage"
        f" WHERE {own} GROUP BY UUID ORDER BY UUID",
        values,
    ).fetchall()
    newest = "SELECT Model FROM NodeCards WHERE UUID = ? ORDER BY NodesID DESC LIMIT 1"
    card_models = [model for card in cards for (model,) in con.execute(newest, card[:1])]
    gpus, allocated_s, energy_j = _allocated(slurm)
    start = (slurm[0].number("start_time") if slurm else None) or use[5] or 0
    # Each node as it was when the job started.
    names = _node_names(con, (own, values), slurm, record_id)
    hardware = [found for name in names if (found := hardware_at(con, cluster_id, name, start)) is not None]
    models = dict.fromkeys(one.cpu_model for one in hardware if one.cpu_model)
    card_model = ";".join(dict.fromkeys(filter(None, card_models))) or None
    seconds = (sum(card[1] for card in cards), sum(card[2] for card in cards)) if cards else (None, None)
    peak_kib = max((card[3] for card in cards), default=None)
    energies = [card[4] for card in cards if card[4] is not None]
    of_cards = (gpus, allocated_s, card_model, *seconds, peak_kib, sum(energies) if energies else None)
    of_job = (cluster_id, job.number, ";".join(models) or None, *use[:5])
    return Telemetry._make((*of_job, *of_cards, energy_j, None, job.task)), hardware


def _allocated(slurm: Sequence[SlurmJob]) -> tuple[int | None, int | None, int | None]:
    """GPUs of the last run, seconds of GPUs and joules of all runs, as Slurm gave and measured them."""
    counts = []
    seconds = []
    joules = []
    for run in slurm:
        tres, usage = allocated(run), slurm_usage(run, (), 0)
        counts.append(gpu_count(tres))
        if usage is not None:
            seconds.append(gpu_count(tres) * usage.wall_s)
        if "energy" in tres:
            joules.append(tres["energy"])
    return counts[-1] if counts else None, _sum(seconds), _sum(joules)


def _sum(amounts: Sequence[int]) -> int | None:
    # A count beyond all measure makes a product that no column holds.
    return min(sum(amounts), LARGEST) if amounts else None


def _node_names(
    con: Connection, own: tuple[str, tuple[int, ...]], slurm: Sequence[SlurmJob], record_id: int | None
) -> list[str]:
    """The nodes of a job: as Slurm lists them, else the samples (``own``: which ones), else the record."""
    listed = [nodes for run in slurm if (nodes := run.text("nodes"))]
    if listed:
        return list(dict.fromkeys(expand(listed)))
    joined = "JobUsage JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID"
    rows = con.execute(f"SELECT DISTINCT Name FROM {joined} WHERE {own[0]} ORDER BY Name", own[1]).fetchall()
    if rows or record_id is None:
        return [row[0] for row in rows]
    row = con.execute(
        "SELECT InfoValue FROM JobExtraInfo WHERE RecordID = ? AND InfoKey = 'nodenames'", (record_id,)
    ).fetchone()
    return list(dict.fromkeys(unescaped(row[0]).split(":"))) if row is not None and row[0] else []


def hardware_at(con: Connection, cluster_id: int, node: str, at: int) -> Hardware | None:
    """A node at a moment; before it was first seen it was as it was then. Names may lack their domain."""
    leaf = node.partition(".")[0]
    row = con.execute(
        "SELECT CPUModel, trim(OSName || ' ' || OSRelease || ' ' || Architecture) FROM Nodes JOIN NodeNames"
        " ON NodeNames.ID = NodeID WHERE ClusterID = ?1 AND (Name = ?2 OR Name = ?3 OR Name GLOB ?3 || '.*')"
        " ORDER BY Name = ?2 DESC, ValidFrom > ?4, abs(ValidFrom - ?4) LIMIT 1",
        (cluster_id, node, leaf, at),
    ).fetchone()
    return None if row is None else Hardware(*row)


def store_telemetry(con: Connection, record_id: int, telemetry: Telemetry) -> None:
    """Keep what is known of the job of a record."""
    old = con.execute("SELECT * FROM JobTelemetry WHERE RecordID = ?", (record_id,)).fetchone()
    if old is None or tuple(old[1:]) != tuple(telemetry):
        con.execute(f"INSERT OR REPLACE INTO JobTelemetry VALUES ({', '.join('?' * 19)})", (record_id, *telemetry))
