"""Slurm's jobs as whole jobs, where no A-REX has them."""

from __future__ import annotations

from collections.abc import Sequence

from arcacct.database.connection import Connection
from arcacct.records import batch_jobs
from arcacct.records.enrichment import SAMPLES, SLURM, enrich
from arcacct.records.model import Job
from arcacct.records.writer import JobWriter
from arcacct.sonar.job_telemetry import Hardware, Part, store_telemetry, telemetry_of
from arcacct.sonar.site import Site
from arcacct.sonar.slurm_jobs import SlurmJob
from arcacct.sonar.slurm_record import SlurmUsage, local_ids, node_benchmark, slurm_usage
from arcacct.sonar.slurm_rows import steps


def record_run(con: Connection, site: Site, cluster: str, part: Part, earlier: Sequence[SlurmJob]) -> bool:
    """
    One finished run of a Slurm job (``part`` has it alone) as a record; True when a row of it changed.

    ``earlier``: what Slurm reported of runs before it.
    """
    (main,) = part.slurm
    told, hardware = telemetry_of(con, part, None)
    usage = slurm_usage(main, steps(con, part.cluster_id, main), told.cpu_s)
    if usage is None:
        return False
    before = con.total_changes
    job_id = batch_jobs.job_id("sonar", cluster, main.job_id, usage.submit_time)
    # Of two runs with one time of submission the later has its start as well.
    if any(one.number("submit_time") == main.number("submit_time") for one in earlier):
        job_id = f"{job_id}:{usage.start_time}"
    job = slurm_job(site, job_id, main, usage, hardware)
    record_id = JobWriter(con, SLURM, cluster).write([job]).record_ids[job.job_id]
    store_telemetry(con, record_id, told._replace(cpu_source=usage.cpu.source))
    enrich(con, record_id, SAMPLES, {"memory_kib": told.peak_memory_kib or None}, takes_back=True)
    return con.total_changes != before


def slurm_job(site: Site, job_id: str, main: SlurmJob, usage: SlurmUsage, hardware: list[Hardware]) -> Job:
    """One finished run of a Slurm job."""
    account, partition = main.text("account"), main.text("partition")
    # Slurm's account is what other batch systems call project, too.
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
        # What both call the same.
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
        extra=tuple(
            (key, value) for key, value in {"slurmstate": main.text("job_state"), **local_ids(main)}.items() if value
        ),
        events=(("LRMSSTART", usage.start_time), ("LRMSEND", usage.end_time)),
        field_sources=(("benchmark", source),) if benchmark else (),
    )
