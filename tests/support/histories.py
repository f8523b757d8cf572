"""What may happen at a site that publishes, for tests that play any history of it."""

from __future__ import annotations

import os

from campaigns import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from publishing_site import DAY_S, JUNE, Job
from publishing_world import Fault

from arcacct.publishing.target_run import Period

PLAY = settings(
    max_examples=examples(60),
    derandomize="ARCACCT_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)

ENDS = st.sampled_from([JUNE, JUNE + 1, JUNE + 20 * DAY_S, JUNE + 60 * DAY_S])
NUMBERS = st.integers(0, 7)
JOBS = st.builds(
    lambda number, end, wall_s, vo, benchmark: Job(
        f"j{number}",
        end + number,
        wall_s,
        wall_s - 1,
        vo=vo,
        fqan=f"/{vo}",
        benchmark=benchmark,
        # The last two are jobs of the batch system alone.
        endpoint_url="" if number > 5 else "https://ce.example.org:443/arex",
    ),
    NUMBERS,
    ENDS,
    st.integers(2, 9),
    st.sampled_from(["atlas", "cms"]),
    st.sampled_from(["HEPSPEC:10.0", "HEPSPEC:11.0"]),
)
FAULTS = st.one_of(
    st.just(Fault()),
    st.builds(Fault, statement=st.integers(0, 250)),
    st.builds(
        Fault,
        message=st.integers(0, 6),
        how=st.sampled_from(["kill-before", "kill-after", "busy", "lost", "refused", "dropped", "twice"]),
    ),
)
MONTHS = st.sampled_from(
    [Period(JUNE, JUNE + 5), Period(JUNE - 40 * DAY_S, JUNE + 90 * DAY_S), Period(JUNE + 20 * DAY_S, JUNE + 61 * DAY_S)]
)
EVENTS = st.one_of(
    st.none(),
    st.tuples(st.just("republish"), MONTHS, FAULTS),
    st.tuples(st.just("sweep"), st.booleans()),
    st.tuples(st.just("power_cut")),
    st.tuples(st.just("backup")),
    st.tuples(st.just("restore"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("late"), st.integers(0, 9)),
    st.tuples(st.just("restore_receiver"), st.integers(0, 3)),
)
"""What happens to a CE or a receiver, as a method of `World` with its arguments; at times nothing."""
RUNS = st.one_of(st.none(), st.just(Fault()), FAULTS)
"""A run of the publisher, or none."""
