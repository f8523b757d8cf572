"""Telemetry of jobs: make records of Slurm's jobs where A-REX has none, and add values to other records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.config.paths import QueueBenchmark
from arcacct.config.values import MapRule, NodeBenchmark
from arcacct.database.connection import Connection
from arcacct.records import batch_jobs
from arcacct.records.batch_jobs import LocalID, model_benchmark
from arcacct.records.enrichment import SAMPLES, SLURM, enrich, set_accelerators
from arcacct.records.model import Job
from arcacct.records.slurm_formats import expand
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.records.texts import unescaped
from arcacct.records.writer import JobWriter
from arcacct.resources import LARGEST, Accelerators, parsed_tres, tres_gpus
from arcacct.sources.sonar.envelopes import SACCT_FIELDS, SlurmJob
from arcacct.sources.sonar.spans import sampled_job, steps

# The settings of this host for an import of telemetry.


class Site(NamedTuple):
    """The configuration for jobs of telemetry."""

    rules: tuple[MapRule, ...] = ()
    node_benchmarks: tuple[NodeBenchmark, ...] = ()
    queue_benchmarks: tuple[QueueBenchmark, ...] = ()
    default_benchmark: str | None = None
    make_records: bool = True
    """
    Whether finished Slurm jobs become records. Not on a host where A-REX submits them, because it has its own records.
    """
    details: bool = False
    """Whether commands and percentages of sampled processes are stored."""


# Make a record from a Slurm job of Sonar's telemetry, for sites without ARC in front of Slurm.
#
# CPU times that sacct prints with fractions arrive without their seconds (a bug of Sonar). So the best of three lower
# bounds is used, and its name is stored.


_STATUS = {"COMPLETED": COMPLETED, "CANCELLED": ABORTED}


class CPUTime(NamedTuple):
    """CPU seconds and their source."""

    user_s: int | None
    kernel_s: int | None
    source: str | None
    """``sacct`` (UserCPU and SystemCPU), ``steps`` (the sum of the steps' AveCPU) or ``samples``; ``None``: unknown."""


class SlurmUsage(NamedTuple):
    """The usage of a finished job under the field names of a `Job`, with some further values."""

    status: str
    exit_code: int
    submit_time: int
    start_time: int
    end_time: int
    wall_s: int
    cpu: CPUTime
    memory_kib: int | None
    virtual_memory_kib: int | None
    core_count: int | None
    node_names: tuple[str, ...]
    node_count: int


def slurm_usage(main: SlurmJob, steps: Sequence[SlurmJob], sampled_cpu_s: int | None) -> SlurmUsage | None:
    """
    Return the usage of a job; ``None`` while it is unfinished, or if it never ran.

    ``sampled_cpu_s``: CPU seconds from samples of its processes, ``None`` without samples.
    """
    start, end = main.number("start_time"), main.number("end_time")
    if not main.finished or start is None or end is None or end < start:
        return None
    tres, state = allocated(main), main.text("job_state") or ""
    names = tuple(expand([main.text("nodes") or ""])) if main.text("nodes") else ()
    cores = tres.get("cpu") or main.number("requested_cpus") or None
    # suspend_time may be later than the end of a job that was killed while suspended.
    wall = max(0, end - start - (main.number("suspend_time") or 0))
    return SlurmUsage(
        status=_STATUS.get(state, FAILED),
        # Sonar loses the signal. Only the state shows success, because exit_code is 0 for a job that was killed.
        exit_code=main.number("exit_code") or {"COMPLETED": 0, "CANCELLED": batch_jobs.TERM}.get(state, 1),
        submit_time=main.number("submit_time") or start,
        start_time=start,
        end_time=end,
        wall_s=wall,
        cpu=_cpu_time(main, steps, sampled_cpu_s, wall * cores if cores else LARGEST),
        memory_kib=max(step.number("MaxRSS") or 0 for step in (main, *steps)) or None,
        virtual_memory_kib=max(step.number("MaxVMSize") or 0 for step in (main, *steps)) or None,
        core_count=cores,
        node_names=names,
        node_count=tres.get("node") or len(names) or 1,
    )


def allocated(main: SlurmJob) -> dict[str, int]:
    """
    Return the allocated resources of a job. Each one is from sacct, else from scontrol, since sacct's amount of it may
    be unusable.
    """
    return parsed_tres(main.text("allocated_resources") or "") | parsed_tres(main.text("AllocTRES") or "")


def _cpu_time(main: SlurmJob, steps: Sequence[SlurmJob], sampled: int | None, limit_s: int) -> CPUTime:
    # A field that is 0 is left out. So if sacct was asked, a missing time is 0.
    if sampled is None and not any(SACCT_FIELDS.keys() & one.values.keys() for one in (main, *steps)):
        return CPUTime(None, None, None)
    user, kernel, sampled_s = main.number("UserCPU") or 0, main.number("SystemCPU") or 0, sampled or 0
    # AveCPU is of one task. The number of tasks is not sent, so this is a lower bound as well.
    of_steps = sum(step.number("AveCPU") or 0 for step in steps)
    # A bound may not exceed the CPU time that was available. sacct's value stays unchanged, as in a direct import.
    bounds = ((user + kernel, "sacct"), (min(of_steps, limit_s), "steps"), (min(sampled_s, limit_s), "samples"))
    total, source = max(bounds, key=lambda one: one[0])
    total = min(total, LARGEST)
    if user and kernel:
        part = total * kernel // (user + kernel)
        return CPUTime(total - part, part, source)
    return CPUTime(total, 0, source)


def local_ids(main: SlurmJob) -> dict[str, str]:
    """Return the IDs of a job in an array or a heterogeneous job, as extra information for the record."""
    found = {}
    if main.number("array_job_id"):
        found["arrayid"] = f"{main.number('array_job_id')}_{main.number('array_task_id') or 0}"
    if main.number("het_job_id"):
        found["hetid"] = f"{main.number('het_job_id')}+{main.number('het_job_offset') or 0}"
    return found


def node_benchmark(models: Iterable[str], end_time: int, lines: Sequence[NodeBenchmark]) -> str | None:
    """
    Return the benchmark per core of a job. ``models`` are the CPU models of its nodes, ``end_time`` its end in UTC
    seconds.

    The first line with a matching pattern applies to a node. Different nodes give the mean. ``None`` when a model has
    no line, or when the types differ, because a partial mean would be wrong.
    """
    found: list[Benchmark] = []
    for model in models:
        benchmark = parsed_benchmark(model_benchmark(model, end_time, lines))
        if benchmark is None or (found and found[0].type != benchmark.type):
            return None
        found.append(benchmark)
    if not found:
        return None
    mean = (sum(one.thousandths for one in found) * 2 + len(found)) // (2 * len(found))
    return str(Benchmark(found[0].type, mean))


# Read the telemetry of one job, and add it to the job's record.
#
# A value that is already correct is not written, so that nothing is published again without need.


class Hardware(NamedTuple):
    """The hardware and system of a node at one moment."""

    cpu_model: str
    system: str


class Telemetry(NamedTuple):
    """The telemetry of a job: a row of JobTelemetry, and one of JobAccelerators."""

    cluster_id: int
    job_id: int
    cpu_model: str | None
    samples: int
    cpu_s: int | None
    peak_memory_kib: int | None
    read_kib: int | None
    written_kib: int | None
    gpu_model: str | None
    gpu_occupied_s: float | None
    gpu_peak_memory_kib: int | None
    accelerators: Accelerators
    cpu_source: str | None
    task: int = 0


class Part(NamedTuple):
    """The part of a number's telemetry that belongs to one record."""

    cluster_id: int
    job: LocalID
    starts: tuple[int, ...]
    """The starts of its runs, which identify its samples."""
    slurm: tuple[SlurmJob, ...]
    """Its runs as job envelopes report them, in order of time."""


def tell(con: Connection, site: Site, record_id: int, told: tuple[Telemetry, list[Hardware]]) -> bool:
    """Add telemetry to a record of another source. Return True when the record changed."""
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
    """Remove from a record the values that telemetry added. Return True when the record changed."""
    before = con.total_changes
    if con.execute("DELETE FROM JobTelemetry WHERE RecordID = ?", (record_id,)).rowcount:
        set_accelerators(con, record_id, SAMPLES, "", None)
        values = dict.fromkeys(("memory_kib", "benchmark", "system_software", "wn_instance"))
        enrich(con, record_id, SAMPLES, values, default_benchmark=site.default_benchmark, takes_back=True)
    return con.total_changes != before


def telemetry_of(con: Connection, part: Part, record_id: int | None) -> tuple[Telemetry, list[Hardware]]:
    """Return the telemetry of a job, and its nodes as they were when it started."""
    cluster_id, job, starts, slurm = part
    own = f"SampledJobID = ? AND RunStart IN ({', '.join('?' * len(starts))})"
    values = (sampled_job(con, cluster_id, job), *starts)
    use = con.execute(
        "SELECT coalesce(sum(Samples), 0), sum(CPUS), max(PeakMemory), sum(ReadKiB), sum(WrittenKiB), min(FirstTime)"
        f" FROM JobUsage WHERE {own}",
        values,
    ).fetchone()
    cards = con.execute(
        "SELECT UUID, sum(OccupiedS), sum(BusyS), max(PeakMemory), sum(EnergyJ) FROM JobGPUUsage"
        f" WHERE {own} GROUP BY UUID ORDER BY UUID",
        values,
    ).fetchall()
    newest = "SELECT Model FROM NodeGPUs WHERE UUID = ? ORDER BY NodesID DESC LIMIT 1"
    card_models = [model for card in cards for (model,) in con.execute(newest, card[:1])]
    gpus, allocated_s, energy_j = _allocated(slurm)
    start = (slurm[0].number("start_time") if slurm else None) or use[5] or 0
    # The state of each node when the job started.
    names = _node_names(con, (own, values), slurm, record_id)
    hardware = [found for name in names if (found := hardware_at(con, cluster_id, name, start)) is not None]
    models = dict.fromkeys(one.cpu_model for one in hardware if one.cpu_model)
    card_model = ";".join(dict.fromkeys(filter(None, card_models))) or None
    occupied_s, busy_s = (sum(card[1] for card in cards), sum(card[2] for card in cards)) if cards else (None, None)
    peak_kib = max((card[3] for card in cards), default=None)
    energies = [card[4] for card in cards if card[4] is not None]
    accelerators = Accelerators(gpus, allocated_s, busy_s, sum(energies) if energies else None, energy_j)
    of_job = (cluster_id, job.number, ";".join(models) or None, *use[:5])
    return Telemetry._make((*of_job, card_model, occupied_s, peak_kib, accelerators, None, job.task)), hardware


def _allocated(slurm: Sequence[SlurmJob]) -> tuple[int | None, int | None, int | None]:
    """Return the GPUs of the last run, and the GPU seconds and joules of all runs, from Slurm's values."""
    counts = []
    seconds = []
    joules = []
    for run in slurm:
        tres, usage = allocated(run), slurm_usage(run, (), 0)
        counts.append(tres_gpus(tres))
        if usage is not None:
            seconds.append(tres_gpus(tres) * usage.wall_s)
        if "energy" in tres:
            joules.append(tres["energy"])
    return counts[-1] if counts else None, _sum(seconds), _sum(joules)


def _sum(amounts: Sequence[int]) -> int | None:
    # An impossible count makes a product that is too large for a column.
    return min(sum(amounts), LARGEST) if amounts else None


def _node_names(
    con: Connection, own: tuple[str, tuple[int, ...]], slurm: Sequence[SlurmJob], record_id: int | None
) -> list[str]:
    """
    Return the nodes of a job: from Slurm's list, else from the samples (``own`` selects them), else from the record.
    """
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
    """Return a node at a moment. Before its first observation, the first one counts. Names may lack their domain."""
    leaf = node.partition(".")[0]
    row = con.execute(
        "SELECT CPUModel, trim(OSName || ' ' || OSRelease || ' ' || Architecture) FROM Nodes JOIN NodeNames"
        " ON NodeNames.ID = NodeID WHERE ClusterID = ?1 AND (Name = ?2 OR Name = ?3 OR Name GLOB ?3 || '.*')"
        " ORDER BY Name = ?2 DESC, ValidFrom > ?4, abs(ValidFrom - ?4) LIMIT 1",
        (cluster_id, node, leaf, at),
    ).fetchone()
    return None if row is None else Hardware(*row)


def store_telemetry(con: Connection, record_id: int, telemetry: Telemetry) -> None:
    """Store the telemetry of the job of a record."""
    *values, accelerators, cpu_source, task = telemetry
    row = (record_id, *values, cpu_source, task)
    if row != con.execute("SELECT * FROM JobTelemetry WHERE RecordID = ?", (record_id,)).fetchone():
        con.execute(f"INSERT OR REPLACE INTO JobTelemetry VALUES ({', '.join('?' * len(row))})", row)
    (cluster,) = con.execute("SELECT Name FROM Clusters WHERE ID = ?", (telemetry.cluster_id,)).fetchone()
    set_accelerators(con, record_id, SAMPLES, cluster, accelerators)


# Make jobs from Slurm's jobs where A-REX has none.


def record_run(con: Connection, site: Site, cluster: str, part: Part, earlier: Sequence[SlurmJob]) -> bool:
    """
    Make a record of one finished run of a Slurm job (the only run in ``part``). Return True when a row of it changed.

    ``earlier``: Slurm's reports of runs before it.
    """
    (main,) = part.slurm
    told, hardware = telemetry_of(con, part, None)
    usage = slurm_usage(main, steps(con, part.cluster_id, main), told.cpu_s)
    if usage is None:
        return False
    before = con.total_changes
    job_id = batch_jobs.job_id("sonar", cluster, main.job_id, usage.submit_time)
    # Of two runs with the same submission time, the later has its start in its ID as well.
    if any(one.number("submit_time") == main.number("submit_time") for one in earlier):
        job_id = f"{job_id}:{usage.start_time}"
    job = slurm_job(site, job_id, main, usage, hardware)
    record_id = JobWriter(con, SLURM, cluster).write([job]).record_ids[job.job_id]
    store_telemetry(con, record_id, told._replace(cpu_source=usage.cpu.source))
    enrich(con, record_id, SAMPLES, {"memory_kib": told.peak_memory_kib or None}, takes_back=True)
    return con.total_changes != before


def slurm_job(site: Site, job_id: str, main: SlurmJob, usage: SlurmUsage, hardware: list[Hardware]) -> Job:
    """Return the job of one finished run of a Slurm job."""
    account, partition = main.text("account"), main.text("partition")
    # Slurm's account is the same as the project of other batch systems.
    whose = {"owner": main.text("user_name"), "account": account, "project": account}
    # The benchmark of its nodes, else of its queue, else of the site.
    of_nodes = node_benchmark([one.cpu_model for one in hardware], usage.end_time, site.node_benchmarks)
    benchmark, source = (
        (of_nodes, SAMPLES)
        if of_nodes
        else batch_jobs.queue_benchmark(partition, usage.end_time, site.queue_benchmarks, site.default_benchmark)
    )
    return Job(
        job_id,
        # The fields with the same name in both.
        **{field: value for field, value in usage._asdict().items() if field in Job._fields},
        local_job_id=str(main.job_id),
        queue=partition or "",
        **batch_jobs.accounted_to(whose, site.rules)._asdict(),
        cpu_user_s=usage.cpu.user_s,
        cpu_kernel_s=usage.cpu.kernel_s,
        job_name=main.text("job_name"),
        lrms="slurm",
        local_user=main.text("user_name"),
        project=account,
        system_software=";".join(dict.fromkeys(one.system for one in hardware)) or None,
        wn_instance=";".join(dict.fromkeys(one.cpu_model for one in hardware if one.cpu_model)) or None,
        benchmark=benchmark,
        extra=batch_jobs.extra_of({"slurmstate": main.text("job_state"), **local_ids(main)}),
        events=(("LRMSSTART", usage.start_time), ("LRMSEND", usage.end_time)),
        field_sources=(("benchmark", source),) if benchmark else (),
    )
