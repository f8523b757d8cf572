"""Correct benchmarks of recorded jobs by the configuration: a preview, and the change itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from arcacct.benchmark import parsed_benchmark
from arcacct.config.paths import Places, QueueBenchmark
from arcacct.config.values import NodeBenchmark
from arcacct.database.connection import Connection, transaction
from arcacct.records.batch_jobs import model_benchmark, queue_benchmark
from arcacct.records.enrichment import CONFIGURED, DEFAULT, SAMPLES, rate
from arcacct.records.reader import LARGEST_EXACT, core_seconds
from arcacct.records.texts import unescaped

_PAGE, _SLICE = 500, 100
_TURN_S = 0.005
_STANDING_IN = (CONFIGURED, DEFAULT, SAMPLES)
"""Sources whose benchmark is the site's setting, not the job's own."""


class Ratings(NamedTuple):
    """The jobs to correct, and their new benchmarks."""

    from_s: int
    before_s: int
    """Range of the end times, UTC seconds."""
    replaced: tuple[str, ...]
    """Benchmarks that were recorded as defaults: a job with one of these, or without one, has no own benchmark."""
    queues: tuple[QueueBenchmark, ...] = ()
    nodes: tuple[NodeBenchmark, ...] = ()
    everything: str | None = None
    """The benchmark of all these jobs, for any queue; ``None``: by ``queues`` and ``nodes``."""

    def of(self, queue: str, model: str | None, end_time: int) -> tuple[str, str] | None:
        """Return the benchmark and its source; ``None``: the job does not change."""
        if self.everything is not None:
            return self.everything, CONFIGURED
        found, source = queue_benchmark(queue, end_time, self.queues, None)
        # If a job used several models, the share of each is no longer known.
        if found is None and model and ";" not in model:
            found, source = model_benchmark(model, end_time, self.nodes), SAMPLES
        return None if found is None else (found, source)


class BenchmarkChange(NamedTuple):
    """A job whose benchmark changes."""

    record_id: int
    end_time: int
    vo: str | None
    before: str | None
    after: str
    source: str
    core_s: int


class MonthRating(NamedTuple):
    """The usage of a VO in a month, by type of benchmark: hours times benchmark, in millionths."""

    month: str
    vo: str | None
    type: str
    jobs: int
    before: int
    after: int


def benchmark_changes(con: Connection, options: Ratings) -> Iterator[list[BenchmarkChange]]:
    """
    Yield pages of the jobs whose benchmark would change, by their ends; a page may be empty.

    A job's own benchmark does not change, nor does one from features.
    """
    query = (
        "SELECT AAR.RecordID, EndTime, Queues.Name, WLCGVOs.Name, CPUModel, UsedWalltime, CPUCount,"
        " (SELECT InfoValue FROM JobExtraInfo AS Extra WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'"
        " ORDER BY Extra.rowid LIMIT 1), FieldSources.Source FROM AAR"
        " LEFT JOIN Queues ON Queues.ID = QueueID"
        " LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID LEFT JOIN JobTelemetry ON JobTelemetry.RecordID = AAR.RecordID"
        " LEFT JOIN FieldSources ON FieldSources.RecordID = AAR.RecordID AND Field = 'benchmark'"
        f" WHERE (EndTime, AAR.RecordID) > (?, ?) AND EndTime < ? ORDER BY EndTime, AAR.RecordID LIMIT {_PAGE}"
    )
    # Unfinished jobs have the end 0.
    position = (max(options.from_s - 1, 0), LARGEST_EXACT)
    exact = core_seconds(con, options.from_s, options.before_s)
    while rows := con.execute(query, (*position, options.before_s)).fetchall():
        position = (rows[-1][1], rows[-1][0])
        found = []
        for record_id, end_time, queue, vo, model, wall_s, cores, recorded, source in rows:
            before = unescaped(recorded) if recorded else None
            told = options.of(unescaped(queue) if queue else "", model, end_time)
            if told is None or told[0] == before or not _stands_in(before, source, options.replaced):
                continue
            core_s = wall_s * max(cores, 1) if 0 <= wall_s <= LARGEST_EXACT and cores < LARGEST_EXACT else 0
            core_s = exact.get(record_id, core_s)
            found.append(BenchmarkChange(record_id, end_time, unescaped(vo) if vo else None, before, *told, core_s))
        yield found


def _stands_in(benchmark: str | None, source: str | None, replaced: Collection[str]) -> bool:
    return source in _STANDING_IN if source is not None else benchmark is None or benchmark in replaced


def plan(
    con: Connection, options: Ratings, progress: Callable[[int], object] = lambda _jobs: None
) -> list[MonthRating]:
    """Return what `correct` would change, by month, VO and type; calls ``progress`` with the jobs so far."""
    found: dict[tuple[str, str | None, str], list[int]] = {}
    jobs = 0
    for page in benchmark_changes(con, options):
        for one in page:
            month = time.strftime("%Y-%m", time.gmtime(one.end_time))
            before, after = parsed_benchmark(one.before), parsed_benchmark(one.after)
            kinds = {known.type for known in (before, after) if known is not None}
            for kind in kinds:
                sums = found.setdefault((month, one.vo, kind), [0, 0, 0])
                sums[0] += 1
                sums[1] += before.normalised(one.core_s) if before is not None and before.type == kind else 0
                sums[2] += after.normalised(one.core_s) if after is not None and after.type == kind else 0
        jobs += len(page)
        progress(jobs)
    return [
        MonthRating(*key, *sums)
        for key, sums in sorted(found.items(), key=lambda one: (one[0][0], one[0][1] or "", one[0][2]))
    ]


def correct(
    con: Connection,
    here: Places,
    options: Ratings,
    progress: Callable[[int], object] = lambda _jobs: None,
    stopping: Callable[[], bool] = lambda: False,
) -> int:
    """
    Correct the benchmarks of these jobs, page by page, so that other processes can write; returns how many.

    It puts each job into the log again, so that the next run publishes it. A second call changes nothing.
    """
    done = 0
    for page in benchmark_changes(con, options):
        for start in range(0, len(page), _SLICE):
            with transaction(con, here.database, here.queue_lock):
                for one in page[start : start + _SLICE]:
                    rate(con, one.record_id, one.after, one.source)
            progress(min(done + start + _SLICE, done + len(page)))
            time.sleep(_TURN_S)
        done += len(page)
        if stopping():
            break
    return done
