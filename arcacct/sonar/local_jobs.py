"""Slurm's jobs as records of ours, where no A-REX makes them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from arcacct.conf.values import MapRule
from arcacct.db.engine import Connection
from arcacct.jobs.filling import fill_column, set_source, source_of
from arcacct.jobs.recorder import endpoint_id, escaped, event_time, name_id, set_children
from arcacct.sonar.job_telemetry import Hardware, store_telemetry, telemetry_of
from arcacct.sonar.site import SOURCE, Site
from arcacct.sonar.slurm_jobs import SlurmJob
from arcacct.sonar.slurm_record import SlurmUsage, local_ids, node_benchmark, slurm_usage
from arcacct.sonar.slurm_rows import steps


def record_run(
    con: Connection,
    site: Site,
    cluster_id: int,
    cluster: str,
    main: SlurmJob,
    earlier: list[SlurmJob],
    *,
    sampled: bool,
) -> bool:
    """One finished run of a Slurm job as a record; True when a row of it changed."""
    told, hardware = telemetry_of(con, cluster_id, main.job_id, main, None, sampled)
    usage = slurm_usage(main, steps(con, cluster_id, main), told.cpu_s or 0)
    if usage is None:
        return False
    before = con.total_changes
    record_id = _write(con, site, _job_id(cluster, main, usage, earlier), cluster, main, usage, hardware)
    store_telemetry(con, record_id, told._replace(cpu_source=usage.cpu.source))
    fill_column(con, record_id, "UsedMemory", "memory_kib", told.peak_memory_kib)
    return con.total_changes != before


def _job_id(cluster: str, main: SlurmJob, usage: SlurmUsage, earlier: list[SlurmJob]) -> str:
    """The identity of a run: of two runs with one time of submission the later has its start as well."""
    found = f"sonar:{cluster}:{main.job_id}:{usage.submit_time}"
    same = any(one.number("submit_time") == main.number("submit_time") for one in earlier)
    return f"{found}:{usage.start_time}" if same else found


def _write(
    con: Connection,
    site: Site,
    job_id: str,
    cluster: str,
    main: SlurmJob,
    usage: SlurmUsage,
    hardware: list[Hardware],
) -> int:
    owner = _owner(main, site.rules)
    row = con.execute("SELECT RecordID, UsedMemory FROM AAR WHERE JobID = ?", (escaped(job_id),)).fetchone()
    record_id = row[0] if row is not None else _insert(con, job_id, usage.submit_time)
    con.execute("INSERT OR IGNORE INTO RecordSources VALUES (?, ?, ?)", (record_id, SOURCE, cluster))
    benchmark, source = _benchmark(site, main, hardware)
    set_children(con, record_id, "AuthTokenAttributes", [("mainfqan", escaped(owner.fqan))] if owner.fqan else [])
    set_children(con, record_id, "JobExtraInfo", _extra(main, usage, hardware, benchmark))
    if source is not None and source_of(con, record_id, "benchmark") != source:
        set_source(con, record_id, "benchmark", source)
    for key, seconds in (("LRMSSTART", usage.start_time), ("LRMSEND", usage.end_time)):
        _set_event(con, record_id, key, seconds)
    # What samples filled in stays until sacct knows better.
    if usage.memory_kib:
        con.execute("DELETE FROM FieldSources WHERE RecordID = ? AND Field = 'memory_kib'", (record_id,))
    memory = usage.memory_kib or (row[1] if row is not None else 0)
    values = (
        str(main.job_id),
        endpoint_id(con, "", ""),
        name_id(con, "Queues", main.text("partition") or ""),
        name_id(con, "Users", owner.user_dn),
        name_id(con, "WLCGVOs", owner.vo),
        name_id(con, "Status", usage.status),
        usage.exit_code,
        usage.submit_time,
        usage.end_time,
        usage.node_count,
        usage.core_count,
        memory,
        usage.virtual_memory_kib,
        usage.wall_s,
        usage.cpu.user_s,
        usage.cpu.kernel_s,
    )
    columns = (
        "LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime, NodeCount, CPUCount,"
        " UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime"
    )
    marks = ", ".join("?" * len(values))
    con.execute(
        f"UPDATE AAR SET ({columns}) = ({marks}) WHERE RecordID = ? AND ({columns}) IS NOT ({marks})",
        (*values, record_id, *values),
    )
    return int(record_id)


def _insert(con: Connection, job_id: str, submit_time: int) -> int:
    """The record in progress: its children come first, the final status last, so it is logged once."""
    names = [name_id(con, table, "") for table in ("Queues", "Users", "WLCGVOs")]
    cursor = con.execute(
        "INSERT INTO AAR (JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime,"
        " EndTime, NodeCount, CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime,"
        " UsedScratch, StageInVolume, StageOutVolume)"
        " VALUES (?, '', ?, ?, ?, ?, ?, 1, ?, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)",
        (escaped(job_id), endpoint_id(con, "", ""), *names, name_id(con, "Status", "in-progress"), submit_time),
    )
    return cursor.lastrowid or 0


def _set_event(con: Connection, record_id: int, key: str, seconds: int) -> None:
    when = event_time(seconds)
    rows = con.execute(
        "SELECT EventTime FROM JobEvents WHERE RecordID = ? AND EventKey = ?", (record_id, key)
    ).fetchall()
    if rows != [(when,)]:
        con.execute("DELETE FROM JobEvents WHERE RecordID = ? AND EventKey = ?", (record_id, key))
        con.execute("INSERT INTO JobEvents VALUES (?, ?, ?)", (record_id, key, when))


class Owner(NamedTuple):
    """Whom a job is accounted to, as far as the site's ``map`` lines tell."""

    vo: str = ""
    fqan: str | None = None
    user_dn: str = ""


def _owner(main: SlurmJob, rules: tuple[MapRule, ...]) -> Owner:
    """By the first ``map`` line that matches. Slurm's account is what other batch systems call project, too."""
    values = {"owner": main.text("user_name"), "account": main.text("account"), "project": main.text("account")}
    for rule in rules:
        value = values.get(rule.field)
        if value is not None and fnmatchcase(value, rule.pattern):
            group = rule.group
            fqan = None if group is None else group if group.startswith("/") else f"/{rule.vo}/{group}"
            return Owner(rule.vo, fqan, rule.user or "")
    return Owner()


def _benchmark(site: Site, main: SlurmJob, hardware: list[Hardware]) -> tuple[str | None, str | None]:
    """The benchmark of a job and where it is from: its nodes, else its queue, else the site."""
    found = node_benchmark([one.cpu_model for one in hardware], site.node_benchmarks)
    if found is not None:
        return found, "sonar"
    configured = dict(site.queue_benchmarks).get(main.text("partition") or "", site.default_benchmark)
    return configured, "arc.conf" if configured is not None else None


def _extra(
    main: SlurmJob, usage: SlurmUsage, hardware: list[Hardware], benchmark: str | None
) -> list[tuple[object, ...]]:
    """What goes into JobExtraInfo, under A-REX's keys where it has one."""
    found = {
        "benchmark": benchmark,
        "jobname": main.text("job_name"),
        "localuser": main.text("user_name"),
        "lrms": "slurm",
        "nodenames": ":".join(usage.node_names) or None,
        "projectname": main.text("account"),
        "slurmstate": main.text("job_state"),
        "systemsoftware": ";".join(dict.fromkeys(one.system for one in hardware)) or None,
        "wninstance": ";".join(dict.fromkeys(one.cpu_model for one in hardware if one.cpu_model)) or None,
        **local_ids(main),
    }
    return [(key, escaped(value)) for key, value in sorted(found.items()) if value is not None]
