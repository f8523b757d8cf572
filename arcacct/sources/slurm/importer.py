"""Slurm's runs: the table that stores them, the jobs made from them, and their import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from arcacct.database.connection import Connection
from arcacct.records import batch_jobs
from arcacct.records.batch_systems import SLURM as SYSTEM
from arcacct.records.enrichment import CONFIGURED, SLURM
from arcacct.records.model import Job, whole_cpu_s
from arcacct.records.slurm_formats import expand
from arcacct.records.states import ABORTED, COMPLETED, FAILED
from arcacct.resources import granted, parsed_tres, tres_gpus
from arcacct.sources.engine.runs import BatchSite, ParsedRun, RunTable, SourceType
from arcacct.sources.slurm.record import FIELDS, SlurmRun, true_signal
from arcacct.sources.slurm.sacct import OVERLAP_S, OutputForm, read

# Slurm's runs in the database.


_SPELT = {"job_id": "JobID", "shown": "ShownID", "elapsed_s": "Elapsed", "cores": "CPUs", "partition": "QPartition"}
_SPELT |= {"user": "UserName", "group": "GroupName", "qos": "QOS", "wckey": "WCKey", "name": "JobName"}
_SPELT |= {"tres": "AllocTRES", "cpu_us": "CPUUs", "cpu_kernel_us": "CPUKernelUs", "memory_kib": "MaxRSS"}
_SPELT |= {"virtual_memory_kib": "MaxVMSize"}
_OFF_S = 3600
"""Sonar uses the current UTC offset for all of Slurm's times, so a time of another season is this many seconds off."""


class _SlurmRuns(RunTable[SlurmRun]):
    def read(self, values: Sequence[Any]) -> SlurmRun:
        run = SlurmRun._make(values)
        # Former versions stored Slurm's own marks as signals.
        return run._replace(cores=run.cores or None, exit_signal=true_signal(run.exit_signal))

    def stored(self, run: SlurmRun) -> tuple[Any, ...]:
        # An unknown number of CPUs is stored as 0.
        return run if run.cores else run._replace(cores=0)


def sonars_record(con: Connection, run: SlurmRun) -> int | None:
    """
    Return the RecordID that Sonar's telemetry made of a run, under any name of the cluster; ``None`` if there is no
    such record.

    The end of the record is the run's end. Or it is one hour off, and the submission is equal or one hour off as well:
    Sonar uses today's UTC offset for times of another season. A run that ended an hour earlier is a different run.
    """
    rows = con.execute(
        "SELECT RecordID, abs(EndTime - ?2), abs(SubmitTime - ?5) FROM AAR JOIN RecordSources USING (RecordID)"
        " WHERE LocalJobID = ?1 AND Source = ?3 AND abs(EndTime - ?2) <= ?4 + 1 ORDER BY 2, 1",
        (str(run.job_id), run.end_time, SLURM, _OFF_S, run.submit_time),
    ).fetchall()
    for record_id, end_off, submit_off in rows:
        if end_off <= 1 or (abs(end_off - _OFF_S) <= 1 and (submit_off <= 1 or abs(submit_off - _OFF_S) <= 1)):
            return int(record_id)
    return None


# Make a job from a Slurm run.
#
# Each run is a job of its own. Slurm counts so, and so does Sonar, whose records of the same runs have the same
# identity.


_US = 10**6
_STATUS = {"COMPLETED": COMPLETED, "RESIZING": COMPLETED, "CANCELLED": ABORTED}
"""A resized job is complete: its other part is a separate run."""


def local_job(run: SlurmRun, site: BatchSite) -> Job:
    """Return the accounting record of a run."""
    # Slurm's account is the same as the project of other batch systems.
    whose = {"owner": run.user, "group": run.group, "account": run.account, "project": run.account}
    benchmark, _source = site.benchmark(run.partition, run.end_time)
    names = node_names(run)
    tres = parsed_tres(run.tres) if "gres/gpu" in run.tres or "energy=" in run.tres else {}
    user_s, kernel_s = whole_cpu_s(*(None if us is None else us / _US for us in (run.cpu_us, run.cpu_kernel_us)))
    return Job(
        batch_jobs.job_id("sonar", run.cluster, run.job_id, run.submit_time),
        _STATUS.get(run.state, FAILED),
        run.submit_time,
        run.end_time,
        local_job_id=str(run.job_id),
        queue=run.partition,
        **batch_jobs.accounted_to(whose, site.rules)._asdict(),
        exit_code=exit_code(run),
        node_count=run.nodes or len(names) or None,
        core_count=run.cores,
        memory_kib=run.memory_kib or None,
        virtual_memory_kib=run.virtual_memory_kib or None,
        wall_s=run.elapsed_s,
        cpu_user_s=user_s,
        cpu_kernel_s=kernel_s,
        job_name=run.name or None,
        lrms="slurm",
        node_names=names,
        local_user=run.user or None,
        project=run.account or None,
        benchmark=benchmark,
        extra=_extra(run),
        events=(("LRMSSTART", run.start_time), ("LRMSEND", run.end_time)),
        field_sources=(("benchmark", CONFIGURED),) if benchmark else (),
        accelerators=granted(tres_gpus(tres), run.elapsed_s, tres.get("energy")),
    )


def node_names(run: SlurmRun) -> tuple[str, ...]:
    """Return the nodes of a run; empty if its list cannot be read."""
    try:
        return tuple(expand([run.node_list]))
    except ValueError:
        return ()


def exit_code(run: SlurmRun) -> int:
    """
    Return the exit status. After a signal it is 256 plus the signal, as in A-REX. A failed job never gets 0.

    Slurm reports 0:0 for most jobs that it ended itself, and 0:15 for some.
    """
    if run.state == "CANCELLED":
        return run.exit_status or batch_jobs.TERM
    if run.exit_status:
        return run.exit_status
    if run.exit_signal:
        return batch_jobs.SIGNALLED + run.exit_signal
    return 0 if run.state in ("COMPLETED", "RESIZING") else 1


def _extra(run: SlurmRun) -> tuple[tuple[str, str], ...]:
    """Return the values for which A-REX has no key, under Sonar's names where it has them."""
    ids = {"arrayid": run.shown if "_" in run.shown else "", "hetid": run.shown if "+" in run.shown else ""}
    others = {"localgroup": run.group, "qos": run.qos, "slurmstate": run.state, "wckey": run.wckey}
    return batch_jobs.extra_of({"alloctres": run.tres, **ids, **others})


# Slurm as a source.


class SlurmSource(SourceType[SlurmRun]):
    """The source for sacct's output."""

    system = SYSTEM
    table = _SlurmRuns("SlurmRuns", SlurmRun, _SPELT, progress=("SlurmProgress", "Cluster"))
    run_type = SlurmRun
    never_asked = "sacct never ran before: pass --since with the first day of your accounting"
    overlap_s = OVERLAP_S
    form = OutputForm()
    fields = FIELDS
    what = "run"

    def read(self, chunks: Iterable[bytes], form: OutputForm) -> Iterator[ParsedRun]:
        """Yield each job of an output."""
        return read(chunks, form)

    def job(self, run: SlurmRun, site: BatchSite) -> Job:
        """Return the job of a run. Each run is a job of its own."""
        return local_job(run, site)

    def other_record(self, con: Connection, run: SlurmRun) -> int | None:
        """Return the record that Sonar's telemetry made of a run."""
        return sonars_record(con, run)


SOURCE = SlurmSource()
