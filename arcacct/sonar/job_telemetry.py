"""
What telemetry knows of one job, and filling it into the job's record.

Nothing that is right already is written, so that nothing is published again without need.
"""

from __future__ import annotations

from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.jobs.filling import enrich
from arcacct.jobs.hostlists import expand
from arcacct.jobs.local_ids import LocalID
from arcacct.jobs.precedence import SAMPLES
from arcacct.jobs.reading import unescaped
from arcacct.jobs.tres import gpu_count
from arcacct.sonar.fields import LARGEST
from arcacct.sonar.site import Site
from arcacct.sonar.slurm_jobs import SlurmJob
from arcacct.sonar.slurm_record import allocated, node_benchmark, slurm_usage


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
    enrich(con, record_id, SAMPLES, values, default_benchmark=site.default_benchmark)
    return con.total_changes != before


def telemetry_of(
    con: Connection, cluster_id: int, job: LocalID, main: SlurmJob | None, record_id: int | None, sampled: bool
) -> tuple[Telemetry, list[Hardware]]:
    """
    What is known of a job, and its nodes as they were when it started.

    ``main`` is the run that Slurm knows of, ``sampled`` says whether the samples of the number are this job's.
    """
    own = (cluster_id, *job[:2]) if sampled else (0, 0, 0)
    use = con.execute(
        "SELECT coalesce(sum(Samples), 0), sum(CPUS), max(PeakMemory), sum(ReadKiB), sum(WrittenKiB), min(FirstTime)"
        " FROM JobUsage JOIN SampledJobs ON SampledJobs.ID = SampledJobID"
        " WHERE ClusterID = ? AND JobID = ? AND Task = ? AND Epoch = 0",
        own,
    ).fetchone()
    cards = con.execute(
        "SELECT UUID, sum(OccupiedS), sum(BusyS), max(PeakMemory), sum(EnergyJ) FROM JobCardUsage"
        " JOIN SampledJobs ON SampledJobs.ID = SampledJobID"
        " WHERE ClusterID = ? AND JobID = ? AND Task = ? AND Epoch = 0 GROUP BY UUID ORDER BY UUID",
        own,
    ).fetchall()
    newest = "SELECT Model FROM NodeCards WHERE UUID = ? ORDER BY NodesID DESC LIMIT 1"
    card_models = [model for card in cards for (model,) in con.execute(newest, card[:1])]
    tres = allocated(main) if main is not None else {}
    usage = slurm_usage(main, (), 0) if main is not None else None
    gpus = gpu_count(tres) if main is not None else None
    start = (main.number("start_time") if main is not None else None) or use[5] or 0
    # Each node as it was when the job started.
    names = _node_names(con, own, main, record_id)
    hardware = [found for name in names if (found := hardware_at(con, cluster_id, name, start)) is not None]
    models = dict.fromkeys(one.cpu_model for one in hardware if one.cpu_model)
    # A count beyond all measure makes a product that no column holds.
    allocated_s = min(gpus * usage.wall_s, LARGEST) if gpus is not None and usage is not None else None
    card_model = ";".join(dict.fromkeys(filter(None, card_models))) or None
    seconds = (sum(card[1] for card in cards), sum(card[2] for card in cards)) if cards else (None, None)
    peak_kib = max((card[3] for card in cards), default=None)
    energies = [card[4] for card in cards if card[4] is not None]
    of_cards = (gpus, allocated_s, card_model, *seconds, peak_kib, sum(energies) if energies else None)
    of_job = (cluster_id, job.number, ";".join(models) or None, *use[:5])
    return Telemetry._make((*of_job, *of_cards, tres.get("energy"), None, job.task)), hardware


def _node_names(con: Connection, own: tuple[int, ...], main: SlurmJob | None, record_id: int | None) -> list[str]:
    """The nodes of a job: as Slurm lists them, else the samples (``own``: cluster, number, task), else the record."""
    if main is not None and main.text("nodes"):
        return expand([main.text("nodes") or ""])
    rows = con.execute(
        "SELECT DISTINCT Name FROM JobUsage JOIN SampledJobs ON SampledJobs.ID = SampledJobID"
        " JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID"
        " WHERE SampledJobs.ClusterID = ? AND JobID = ? AND Task = ? AND Epoch = 0 ORDER BY Name",
        own,
    ).fetchall()
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
