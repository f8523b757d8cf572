"""
Ten thousand jobs, of which one in twenty lies, in twelve ways: no receiver gets an impossible second, in any form.

The others are there to the second, and each lie is counted under its reason.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from installed import arcacct
from publishing_rig import written
from publishing_site import AUDITOR, DIRECTORY, SGAS, SUMMARIES, Job, Site, at_apel, at_auditor, at_sgas, facts_of

from arcacct.database import access
from arcacct.records import hold_decisions
from arcacct.records.model import Job as WholeJob
from arcacct.records.recorder import record_present
from arcacct.records.states import StateChange
from arcacct.records.writer import JobWriter

pytestmark = pytest.mark.campaign

JOBS, LIES = 10_000, 500
OCTOBER = 1_791_000_000
"""2026-10-03."""
SPAN_S = 40 * 86_400
"""The jobs end within two months."""


def summaries(name: str, messages: str) -> str:
    """A target of APEL's that is sent these sums, as another site."""
    return (
        SUMMARIES.replace("apel:a", f"apel:{name.lower()}").replace("SITE", name).replace("=summaries", f"={messages}")
    )


RECORDS = {"CARS": "urs", "JOBS": "individual", "JOBS4": "individual-v04"}
SUMS = {"SUMS": "summaries", "SUMS3": "summaries-v03", "SUMS4": "summaries-v04", "NORM4": "normalised-v04"}
TARGETS = f"{SGAS}urbatchsize=1000\n{AUDITOR}urbatchsize=1000\n{DIRECTORY}" + "".join(
    summaries(name, messages) for name, messages in {**RECORDS, **SUMS}.items()
)


class Told(NamedTuple):
    """What control files tell of a job, and the reason for which it is to be held."""

    facts: StateChange
    reason: str | None


def _wall(facts: StateChange, value: int) -> None:
    facts.usage.wall_s = value


def _end(facts: StateChange, value: int) -> None:
    facts.event_ns, facts.usage.end_time = value * 10**9, value


def _cpu(facts: StateChange, user_s: int, kernel_s: int = 0) -> None:
    facts.usage.cpu_user_s, facts.usage.cpu_kernel_s = user_s, kernel_s


def _unknown_wall(facts: StateChange) -> None:
    life_s = facts.usage.end_time - facts.submit_time
    _wall(facts, 0)
    _cpu(facts, 47 * life_s * facts.usage.core_count)


LIES_BY_WAY: dict[str, tuple[str, Callable[[StateChange], None]]] = {
    "32 bits": ("out-of-range", lambda facts: _wall(facts, 2**32 - 1)),
    "epoch": ("wall-beyond-life", lambda facts: _wall(facts, facts.usage.end_time)),
    "milliseconds": ("wall-beyond-life", lambda facts: _wall(facts, 1000 * facts.usage.wall_s)),
    "a terasecond of CPU": ("out-of-range", lambda facts: _cpu(facts, 10**12)),
    "CPU of others": ("cpu-beyond-cores", lambda facts: _cpu(facts, 47 * facts.usage.wall_s * facts.usage.core_count)),
    "kernel time": ("out-of-range", lambda facts: _cpu(facts, 1, 2**31)),
    "CPU without a wall time": ("cpu-beyond-cores", _unknown_wall),
    "NO_VAL cores": ("cores-impossible", lambda facts: setattr(facts.usage, "core_count", 4_294_967_294)),
    "INFINITE nodes": ("nodes-impossible", lambda facts: setattr(facts.usage, "node_count", 4_294_967_295)),
    "benchmark of a machine": ("benchmark-impossible", lambda facts: facts.extra.update(benchmark="HEPscore23:1500")),
    "end before submission": (
        "end-before-submission",
        lambda facts: setattr(facts, "submit_time", facts.usage.end_time + 86_400),
    ),
    "end in 1970": ("end-impossible", lambda facts: _end(facts, 4711)),
}


def generated() -> Iterator[tuple[Job, Told]]:
    """The jobs as they are, each with what is told of it."""
    dice = random.Random(33)
    lying = {number: list(LIES_BY_WAY)[place % 12] for place, number in enumerate(dice.sample(range(JOBS), LIES))}
    for number in range(JOBS):
        wall_s, cores = dice.randint(600, 20_000), dice.choice((1, 1, 1, 8, 8, 64))
        # Hyperthreads, and what a job uses beyond its cores where nothing confines it.
        load = dice.choice((0.1, 0.9, 0.99, 1.0, 1.0, 1.7))
        job = Job(
            f"gen{number:05d}",
            OCTOBER + number * SPAN_S // JOBS,
            wall_s=wall_s,
            cpu_s=int(wall_s * cores * load),
            cores=cores,
            user_dn=f"/DC=org/CN=User {number % 7}",
            benchmark=dice.choice(("HEPSPEC:10.0", "HEPSPEC:12.5")),
        )
        facts = facts_of(job)
        facts.submit_time = job.end_time - wall_s - dice.randint(0, 5000)
        reason = None
        if number in lying:
            reason, lie = LIES_BY_WAY[lying[number]]
            lie(facts)
        yield job, Told(facts, reason)


def whole(facts: StateChange) -> WholeJob:
    """The same as an import has it."""
    usage = facts.usage
    assert usage is not None
    return WholeJob(
        facts.job_id,
        usage.status,
        facts.submit_time,
        usage.end_time,
        local_job_id=facts.local_job_id,
        endpoint_type=facts.endpoint_type,
        endpoint_url=facts.endpoint_url,
        queue=facts.queue,
        user_dn=facts.user_dn,
        vo=facts.vo,
        exit_code=usage.exit_code,
        node_count=usage.node_count,
        core_count=usage.core_count,
        wall_s=usage.wall_s,
        cpu_user_s=usage.cpu_user_s,
        cpu_kernel_s=usage.cpu_kernel_s,
        benchmark=facts.extra["benchmark"],
        node_names=("wn1",),
        auth_tokens=tuple(facts.auth_tokens),
    )


@pytest.fixture
def site(memory, empty_box) -> Site:
    """A site that publishes in every form."""
    (memory / "outgoing").mkdir()
    made = Site(memory, empty_box, TARGETS)
    # Some thousand records go in one message: a busy machine needs its time for them.
    made.timeouts = made.timeouts._replace(read_s=120.0)
    return made


def record(site: Site, told: list[Told]) -> None:
    """Half of the jobs by the sweep, half by an import."""
    here = site.settings.places
    with closing(access.open_accounting(here)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
        for start in range(0, len(told), 200):
            some = [one.facts for one in told[start : start + 200]]
            with access.writing(con, here):
                record_present(con, [(facts, True) for facts in some[::2]])
                JobWriter(con, "gridengine", "cell").write([whole(facts) for facts in some[1::2]])


def test_no_impossible_second_reaches_any_receiver(site) -> None:
    made = list(generated())
    honest = [job for job, told in made if told.reason is None]
    reasons = Counter(told.reason for _job, told in made if told.reason is not None)
    assert (len(honest), sum(reasons.values()), len(reasons)) == (JOBS - LIES, LIES, 8)
    record(site, [told for _job, told in made])

    outcomes = site.publish_all()

    box = site.box
    assert [(one.target, one.error, one.summary.quarantined) for one in outcomes] == [
        (one.target, None, 0) for one in outcomes
    ]
    assert box.apel.rejected == []
    right = {job.job_id: (job.end_time, job.wall_s, job.cpu_s) for job in honest}
    by_lrms = {job.lrms_id: right[job.job_id] for job in honest}
    assert at_sgas(box.sgas.records) == right
    assert at_auditor(box.auditor.records) == right
    assert at_apel(written(site.path / "outgoing")) == by_lrms
    for name in RECORDS:
        assert at_apel({key: row for key, row in box.apel.job_records.items() if row["Site"] == name}) == by_lrms
    whole_sum = (len(honest), sum(job.wall_s for job in honest), sum(job.cpu_s for job in honest))
    shown: dict[str, list[tuple[int, ...]]] = {}
    for (name, *_month), total in box.apel.totals().items():
        shown.setdefault(name, []).append(total[:3])
    for name, totals in shown.items():
        assert tuple(map(sum, zip(*totals, strict=True))) == whole_sum, name
    counted: Counter[str] = Counter()
    for row in box.apel.sync_records.values():
        counted[row["Site"]] += row["NumberOfJobs"]
    assert counted == dict.fromkeys((*RECORDS, *SUMS), len(honest))

    with closing(access.read_accounting(site.settings.places)) as con:
        held = hold_decisions.counts(con)["held"]
        assert (held.records, dict(held.by_reason)) == (LIES, reasons)
        used = con.execute("SELECT sum(jobs), sum(wall_s), sum(cpu_s) FROM v1_usage_by_month").fetchone()
        assert used == whole_sum
        (wall_s,) = con.execute("SELECT sum(wall_s) FROM v1_jobs WHERE hold_state IS NULL").fetchone()
        assert wall_s == whole_sum[1]
        assert con.execute("SELECT max(wall_s), max(cpu_s) FROM v1_jobs").fetchone() < (40_000, 64 * 40_000)
    metrics = arcacct("--config", site.path / "arc.conf", "metrics").stdout
    for reason, count in reasons.items():
        assert f'arcacct_implausible_jobs{{reason="{reason}",state="held"}} {count}.0' in metrics
