"""
A year of a federation of CEs as a dataset: ``python tests/support/federation.py DIR --ces 50 --jobs-per-day 33000``.

Realistic jobs of any number, from a seed, in whole columns at once: a million in some seconds. CEs differ in size by
ten, VOs by more; jobs take minutes to days on one, eight or many cores, fail by the twentieth, and need what their VO
needs. Their ids are those of A-REX 6, which are a third of what is written.
"""

from __future__ import annotations

import argparse
import calendar
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from written_partitions import write_partition

from arcacct.export.dataset import Partition

VOS = (
    *("atlas", "cms", "alice", "lhcb", "belle", "biomed", "dune", "enmr.eu", "glast.org", "icecube", "ilc", "ligo"),
    *("magic", "pheno", "virgo", "xenon.biggrid.nl", "t2k.org", "na62.vo.gridpp.ac.uk", "ops", "nordugrid.org"),
)
USERS_OF_VO = 40
"""Most work is a production manager's: the first user has half of a VO's jobs."""
CORES = (1, 8, 16, 64)
JOB_ID = b"000LDm000oAoOSAtDmABFKDmABFKDmABFKDm00LKDm0BFKDm00000m"
"""Where 0 stands, ids of A-REX 6 differ; the rest is the host's and the day's."""
LETTERS = np.frombuffer(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", np.uint8)
EVENTS = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "LRMSSTART", "LRMSEND", "FINISHING", "FINISHED", "DELETED")
ATTRIBUTES = (
    *(("token", "mainfqan"), ("token", "vomsfqan"), ("rte", None)),
    *(
        ("info", name)
        for name in ("jobname", "lrms", "nodenames", "clienthost", "localuser", "benchmark", "wninstance")
    ),
)
Ints = npt.NDArray[np.int64]


class Federation(NamedTuple):
    """How large, and of what kind."""

    ces: int = 50
    jobs_per_day: int = 33_000
    """Of all CEs together."""
    year: int = 2026
    months: int = 12
    children: bool = False
    """Events, transfers and attributes, too: twenty rows for each job."""
    seed: int = 1

    def sizes(self) -> list[int]:
        """Jobs a day of each CE; the largest has ten times those of the smallest."""
        weights = np.geomspace(10, 1, self.ces)
        return [max(1, round(size)) for size in self.jobs_per_day * weights / weights.sum()]

    def partitions(self) -> Iterator[tuple[Partition, int]]:
        """Each month of each CE, and its jobs."""
        for number, size in enumerate(self.sizes()):
            site, ce = f"Site-{number // 5 + 1:02d}", f"ce{number + 1:02d}.example.org"
            for month in range(1, self.months + 1):
                yield Partition(site, self.year, month, ce), size * calendar.monthrange(self.year, month)[1]


def write(root: pathlib.Path, federation: Federation) -> int:
    """Write its dataset; returns the number of jobs."""
    total = 0
    for partition, jobs in federation.partitions():
        tables = {"jobs": jobs_of(partition, jobs, federation.seed)}
        if federation.children:
            tables |= children_of(tables["jobs"])
        life = f"{int(partition.ce.partition('.')[0][2:]):032x}"
        write_partition(root, partition, tables, life=life, seq=(partition.month + 1) * 10**6)
        total += jobs
    return total


def jobs_of(partition: Partition, jobs: int, seed: int = 1) -> pa.Table:
    """The jobs of a month of a CE, as the dataset has them."""
    ce = _number(partition)
    random = np.random.default_rng([seed, ce, partition.year, partition.month])
    begin = calendar.timegm((partition.year, partition.month, 1, 0, 0, 0))
    seconds = 86_400 * calendar.monthrange(partition.year, partition.month)[1]
    end = begin + np.sort(random.integers(0, seconds, jobs))
    # Few VOs use most, and each CE has its own three of them for the rest.
    vo = np.where(random.random(jobs) < 0.9, _skewed(random, jobs, 4), (ce + _skewed(random, jobs, 3)) % len(VOS))
    user = vo * USERS_OF_VO + np.where(random.random(jobs) < 0.5, 0, _skewed(random, jobs, USERS_OF_VO))
    cores = np.asarray(CORES)[(random.random(jobs)[:, None] > np.array([0.6, 0.95, 0.99])).sum(axis=1)]
    wall = np.minimum(random.lognormal(8.5, 1.4, jobs), 5 * 86_400).astype(np.int64)
    cpu = (wall * cores * random.beta(8, 1.5, jobs)).astype(np.int64)
    kernel = cpu // 40
    memory = (2_000_000 * cores * random.beta(3, 2, jobs)).astype(np.int64)
    staged_in = np.where(random.random(jobs) < 0.6, random.lognormal(18, 2, jobs), 0).astype(np.int64)
    staged_out = random.lognormal(15, 2, jobs).astype(np.int64)
    waited = random.exponential(1_800, jobs).astype(np.int64)
    prepared, finished = random.integers(1, 60, jobs), random.integers(1, 90, jobs)
    failed = random.random(jobs) < 0.05
    exit_code = np.where(failed, np.asarray([1, 2, 65, 127, 137, 143])[random.integers(0, 6, jobs)], 0)
    node = random.integers(1, 400, jobs)
    queue = (cores > 1) + 2 * (random.random(jobs) < 0.02)
    role = user % USERS_OF_VO == 0
    groups = [f"/{name}" for name in VOS]
    lrms_end = end - finished
    submitted = lrms_end - wall - waited
    # Numbers are given when a job comes, and to others' jobs of the cluster, too; rows stand as jobs end.
    number = np.empty(jobs, np.int64)
    number[np.argsort(submitted - prepared, kind="stable")] = 10**6 * partition.month + np.arange(jobs)
    local = np.empty(jobs, np.int64)
    local[np.argsort(submitted, kind="stable")] = 10**8 * partition.month + np.cumsum(random.integers(1, 4, jobs))
    columns: dict[str, Any] = {
        "record_id": number,
        "job_id": _ids(random, jobs),
        "local_job_id": pa.array(local).cast(pa.string()),
        "job_name": _of(
            [f"{kind}_{n:04d}" for kind in ("prod", "ana", "mc") for n in range(200)], random.integers(0, 600, jobs)
        ),
        "endpoint_url": _same(f"https://{partition.ce}:443/arex", jobs),
        "endpoint_type": _same("org.nordugrid.arcrest", jobs),
        "lrms": _same("slurm", jobs),
        "queue": _of(["grid", "grid-mcore", "grid-express", "grid-express-mcore"], queue),
        "node_names": _of([f"wn{n:03d}" for n in range(400)], node),
        "client_host": _of([f"192.0.2.{n}:{40_000 + 7 * n}" for n in range(250)], random.integers(0, 250, jobs)),
        "user_dn": _of([f"/DC=org/DC=example/O={name}/CN=user {n}" for name in VOS for n in range(USERS_OF_VO)], user),
        "local_user": _of([f"{name[:5]}{n:03d}:{name[:5]}" for name in VOS for n in range(USERS_OF_VO)], user),
        "vo": _of(list(VOS), vo),
        "fqan": _of([f"{group}{end}" for group in groups for end in ("", "/Role=production")], 2 * vo + role),
        "vo_group": _of(groups, vo),
        "vo_role": _of([None, "production"], role),
        "project": _same(None, jobs),
        "status": _of(["completed", "failed"], failed),
        "exit_code": exit_code,
        "submit_time": submitted - prepared,
        "lrms_submit_time": submitted,
        "lrms_start_time": lrms_end - wall,
        "lrms_end_time": lrms_end,
        "end_time": end,
        "node_count": np.maximum(1, cores // 32),
        "core_count": cores,
        "wall_s": wall,
        "cpu_s": cpu,
        "cpu_user_s": cpu - kernel,
        "cpu_kernel_s": kernel,
        "memory_kib": memory,
        "virtual_memory_kib": memory + 350_000,
        "scratch_bytes": np.zeros(jobs, np.int64),
        "stage_in_bytes": staged_in,
        "stage_in_s": staged_in // 40_000_000 + 1,
        "stage_out_bytes": staged_out,
        "stage_out_s": staged_out // 40_000_000 + 1,
        "run_time_environments": _same("ENV/PROXY", jobs),
        "system_software": _of(["AlmaLinux 9.6", "Rocky Linux 9.6"], node % 2),
        "wn_instance": _same(None, jobs),
        "benchmark_type": _same("HEPscore23", jobs),
        "benchmark_value": np.asarray([11.5, 14.25, 17.0])[node % 3],
        "benchmark_source": _same("diag", jobs),
        "source": _same("arc", jobs),
        "counted": np.ones(jobs, np.int64),
        "core_s": wall * cores,
        "allocated_gpus": pa.nulls(jobs, pa.int64()),
        **dict.fromkeys(("allocated_gpu_s", "busy_gpu_s", "gpus_energy_j"), pa.nulls(jobs, pa.float64())),
        "nodes_energy_j": pa.nulls(jobs, pa.int64()),
        **dict.fromkeys(("gpus_source", "energy_source"), _same(None, jobs)),
    }
    return pa.table(columns)


def _number(partition: Partition) -> int:
    return int(partition.ce.partition(".")[0].removeprefix("ce"))


def children_of(jobs: pa.Table) -> dict[str, pa.Table]:
    """What is known of these jobs in rows of their own: events, a transfer, attributes."""
    count, random = jobs.num_rows, np.random.default_rng(jobs.num_rows)
    submitted, handed, begun, lrms_end, end = (
        jobs[f"{name}_time"].to_numpy() for name in ("submit", "lrms_submit", "lrms_start", "lrms_end", "end")
    )
    little = random.integers(0, 5, (3, count))
    # Cleaned away within days, of most by the client itself.
    gone = end + random.exponential(20_000, count).astype(np.int64)
    events = (
        *(submitted, submitted + little[0], handed, handed + little[1], begun, lrms_end),
        *(np.minimum(lrms_end + little[2], end), end, gone),
    )
    times = np.stack(events, axis=1)
    numbers = random.integers(0, 10**9, count)
    urls = [
        f"davs://se.example.org:443/data/{name}/{number:09d}.root"
        for name, number in zip(jobs["job_name"].to_pylist(), numbers.tolist(), strict=True)
    ]
    said = {
        "mainfqan": jobs["fqan"],
        "vomsfqan": jobs["fqan"],
        None: jobs["run_time_environments"],
        "jobname": jobs["job_name"],
        "lrms": jobs["lrms"],
        "nodenames": jobs["node_names"],
        "clienthost": jobs["client_host"],
        "localuser": jobs["local_user"],
        "benchmark": _same("HEPscore23:14.25", count),
        "wninstance": _same("vm.large", count),
    }
    in_turn = np.arange(count * len(ATTRIBUTES)).reshape(len(ATTRIBUTES), count).T.ravel()
    values = pa.chunked_array([chunk for _kind, name in ATTRIBUTES for chunk in _chunks(said[name])])
    seconds = jobs["stage_out_s"].to_numpy()
    return {
        "events": _of_each(jobs, len(EVENTS))
        .append_column("event", _of(list(EVENTS), np.tile(np.arange(9), count)))
        .append_column("event_time", pa.array(times.ravel())),
        "transfers": pa.table(
            {
                "record_id": jobs["record_id"],
                "url": pa.array(urls),
                "kind": _same("output", count),
                "size_bytes": jobs["stage_out_bytes"],
                "start_time": lrms_end,
                "end_time": lrms_end + seconds,
                "duration_s": seconds,
            }
        ),
        "attributes": _of_each(jobs, len(ATTRIBUTES))
        .append_column("kind", _of([kind for kind, _ in ATTRIBUTES], np.tile(np.arange(len(ATTRIBUTES)), count)))
        .append_column("name", _of([name for _, name in ATTRIBUTES], np.tile(np.arange(len(ATTRIBUTES)), count)))
        .append_column("value", values.take(pa.array(in_turn)).combine_chunks()),
    }


def _chunks(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def _of_each(jobs: pa.Table, rows: int) -> pa.Table:
    return jobs.select(["record_id"]).take(pa.array(np.repeat(np.arange(jobs.num_rows), rows)))


def _skewed(random: np.random.Generator, size: int, among: int) -> Ints:
    """The first of them most often, the last seldom."""
    return (among * random.random(size) ** 2).astype(np.int64)


def _of(values: list[str | None], index: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(index.astype(np.int64)))


def _same(value: str | None, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), rows)


def _ids(random: np.random.Generator, rows: int) -> pa.Array:
    pattern = np.frombuffer(JOB_ID, np.uint8)
    ids = np.tile(pattern, (rows, 1))
    varied = np.flatnonzero(pattern == ord("0"))
    ids[:, varied] = LETTERS[random.integers(0, len(LETTERS), (rows, len(varied)))]
    ends = np.arange(0, (rows + 1) * len(pattern), len(pattern), dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(ids.tobytes()))


def main() -> None:
    usual = Federation()
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--ces", type=int, default=usual.ces)
    parser.add_argument("--jobs-per-day", type=int, default=usual.jobs_per_day, help="of all CEs together")
    parser.add_argument("--year", type=int, default=usual.year)
    parser.add_argument("--months", type=int, default=usual.months)
    parser.add_argument("--children", action="store_true", help="events, transfers and attributes, too")
    parser.add_argument("--seed", type=int, default=usual.seed, help="another one makes other jobs")
    options = vars(parser.parse_args())
    print(f"{write(options.pop('folder'), Federation(**options)):,} jobs")


if __name__ == "__main__":
    main()
