"""A row of `sacct --parsable2` as a part of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import TypeVar

from arcacct.errors import InputError
from arcacct.records.import_quarantine import optional
from arcacct.records.slurm_formats import (
    NOT_SAID,
    Instants,
    amount,
    clean,
    count,
    cpu_us,
    duration_us,
    exit_code,
    instants,
    job_number,
    parse,
    size_kib,
    state,
)
from arcacct.slurm.record import SacctPart, SacctUse, SlurmRun, cpu_use
from arcacct.slurm.rows import NEEDED, TableHeader

T = TypeVar("T")

CORES = ("AllocCPUS", "NCPUS", "AllocTRES")
"""One of these is needed, too."""


def check(header: TableHeader) -> None:
    """Raise InputError when an output lacks columns without which it does not say what a job used."""
    names = {name.lower() for name in header.columns}
    missing = [name for name in NEEDED if name.lower() not in names]
    if not names & {name.lower() for name in CORES}:
        missing.append("AllocCPUS")
    if missing:
        raise InputError(f"it lacks the columns {', '.join(missing)}: print it with these, too")


def part(row: Mapping[str, str], zone: tzinfo | None, unusable: set[str]) -> SacctPart:
    """
    One row; ``zone`` is the one of its local times, ``None`` this machine's.

    Columns whose values cannot be used go into ``unusable``. Raises ValueError, with the column, for a value without
    which nothing can be accounted.
    """

    def needed(column: str, reader: Callable[[str], T]) -> T:
        try:
            return reader(row.get(column, ""))
        except ValueError as error:
            raise ValueError(f"{column}: {error}") from error

    def read(column: str, reader: Callable[[str], T | None]) -> T | None:
        said = row.get(column, "")
        value = optional(column, lambda: reader(said), unusable)
        if value is None and said not in NOT_SAID:
            unusable.add(column)
        return value

    def text(column: str) -> str:
        return clean(row.get(column, ""))

    def seconds(column: str) -> int | None:
        found = read(column, duration_us)
        return None if found is None else found // 10**6

    def time(column: str) -> Instants | None:
        return None if step else needed(column, lambda text: instants(text, zone))

    job_id, step = needed("JobIDRaw", job_number)
    status, signal = read("ExitCode", exit_code) or (None, None)
    elapsed_s = read("ElapsedRaw", amount)
    user_us, kernel_us, total_us = (read(column, duration_us) for column in ("UserCPU", "SystemCPU", "TotalCPU"))
    parts_us = None if user_us is None and kernel_us is None else (user_us or 0) + (kernel_us or 0)
    cores = read("AllocCPUS", count), read("NCPUS", count), parse(text("AllocTRES")).get("cpu")
    run = SlurmRun(
        text("Cluster"),
        job_id,
        shown=text("JobID"),
        state="" if step else needed("State", state),
        exit_status=status,
        exit_signal=signal,
        nodes=read("NNodes", count),
        node_list=text("NodeList"),
        partition=text("Partition"),
        user=text("User"),
        group=text("Group"),
        account=text("Account"),
        qos=text("QOS"),
        wckey=text("WCKey").removeprefix("*"),
        name=text("JobName"),
        tres=text("AllocTRES"),
    )
    return SacctPart(
        step=step,
        submit=time("Submit"),
        start=time("Start"),
        end=time("End"),
        elapsed_s=seconds("Elapsed") if elapsed_s is None else elapsed_s,
        suspended_s=seconds("Suspended"),
        cores=next((one for one in cores if one is not None), None),
        use=SacctUse(
            0,
            cpu_use((total_us, parts_us), cpu_us(text("TRESUsageInTot"))),
            kernel_us,
            read("MaxRSS", size_kib),
            read("MaxVMSize", size_kib),
        ),
        run=run,
    )
