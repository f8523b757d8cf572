"""Values that cannot be true are found, each under its reason, and honest ones, however odd, are not."""

from __future__ import annotations

import pytest

from arcacct.records.states import (
    ABORTED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    LARGEST_S,
    UNKNOWN_NUMBER,
    implausible_values,
    overrides,
    status_of_end,
)

END = 1_795_176_000
"""2026-11-20 12:00:00 UTC."""
HONEST = {
    "submit_time": END - 3700,
    "end_time": END,
    "wall_s": 3600,
    "cpu_user_s": 3000,
    "cpu_kernel_s": 100,
    "cores": 1,
    "nodes": 1,
    "benchmark": "HEPSPEC:12.26",
}


def reasons(**values: object) -> list[tuple[str, str]]:
    """Reason and field of all that cannot be true of a job that is honest but for these values."""
    found = implausible_values(**{**HONEST, **values})  # type: ignore[arg-type]
    return [(reason, field) for reason, field, _bound, _reported in found]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"wall_s": 0, "cpu_user_s": 0, "cpu_kernel_s": 0},
        # One CPU more than it was given, for half of the time (case x1); two threads of a core; POWER's eight.
        {"cpu_user_s": 5400, "cpu_kernel_s": 0},
        {"cpu_user_s": 2 * 3600},
        {"cpu_user_s": 8 * 3600, "cpu_kernel_s": 0},
        # Cut to seconds, and what a job left behind.
        {"wall_s": 0, "cpu_user_s": 50, "cpu_kernel_s": 0},
        {"wall_s": 1, "cpu_user_s": 60, "cpu_kernel_s": 0},
        # Clocks that are five minutes apart.
        {"submit_time": END - 3300},
        {"submit_time": END + 200, "wall_s": 30, "cpu_user_s": 0},
        # Nothing says when it was submitted, nor how many cores it had.
        {"submit_time": 0, "wall_s": 10**8},
        # No one measured the wall time: the job's life is the bound.
        {"wall_s": None, "cpu_user_s": 7 * 3700},
        {"cores": 0, "cpu_user_s": 512 * 3600},
        # A-REX had given it up, and it ran on.
        {"end_time": END - 3000, "ran_until": END},
        {"end_time": END - 3000, "ran_until": END, "wall_s": 10},
        # As large as machines are.
        {"cores": 7_630_848, "nodes": 158_976, "cpu_user_s": 2 * 10**9},
        {"cpu_user_s": LARGEST_S, "cpu_kernel_s": 0, "cores": 10**6, "nodes": 200},
        {"cores": 8192},
        # No one says on how many nodes.
        {"cores": 10**6, "nodes": 0},
        {"benchmark": None},
        {"benchmark": "HEPSPEC:1.0"},
        {"benchmark": "no benchmark"},
        {"benchmark": "HEPscore23:no number"},
        # The site's default replaces it.
        {"benchmark": "SPECint:10"},
        # A fraction in a column of whole numbers.
        {"wall_s": 3600.5},
    ],
)
def test_honest_values_are_plausible(values) -> None:
    assert reasons(**values) == []


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"wall_s": 2**32 - 1}, [("out-of-range", "wall_s")]),
        ({"wall_s": -1}, [("out-of-range", "wall_s")]),
        ({"wall_s": "3600 s"}, [("out-of-range", "wall_s")]),
        ({"cores": "3" * 5000}, [("cores-impossible", "core_count")]),
        ({"wall_s": b"\x00"}, [("out-of-range", "wall_s")]),
        ({"wall_s": float("inf")}, [("out-of-range", "wall_s")]),
        ({"wall_s": END}, [("wall-beyond-life", "wall_s")]),
        # A wall time of 0 was measured, and an unknown one is bounded by the job's life.
        ({"wall_s": 0, "cpu_user_s": 3000}, [("cpu-beyond-cores", "cpu_s")]),
        ({"wall_s": None, "cpu_user_s": 9 * 3700}, [("cpu-beyond-cores", "cpu_s")]),
        ({"wall_s": 100_000, "cpu_user_s": 100, "submit_time": END - 130}, [("wall-beyond-life", "wall_s")]),
        # Without a submission the start of the run counts, and without that nothing is older than 1995.
        (
            {"wall_s": 100_000, "cpu_user_s": 0, "submit_time": 0, "start_time": END - 130},
            [("wall-beyond-life", "wall_s")],
        ),
        ({"wall_s": END, "submit_time": 0}, [("wall-beyond-life", "wall_s")]),
        ({"cpu_user_s": 10**12}, [("out-of-range", "cpu_s")]),
        ({"cpu_kernel_s": -5}, [("out-of-range", "cpu_s")]),
        ({"cpu_user_s": 2**31 - 1, "cpu_kernel_s": 1, "cores": 10**6, "nodes": 200}, [("out-of-range", "cpu_s")]),
        ({"cpu_user_s": 47 * 3600}, [("cpu-beyond-cores", "cpu_s")]),
        # Case s1: 41 hours on two cores in half an hour.
        ({"wall_s": 1594, "cpu_user_s": 147_587, "cores": 2}, [("cpu-beyond-cores", "cpu_s")]),
        # Of a job whose wall time is unknown the time that it existed counts.
        ({"wall_s": 0, "cpu_user_s": 47 * 3600}, [("cpu-beyond-cores", "cpu_s")]),
        ({"cores": 0, "cpu_user_s": 10_000 * 3600}, [("cpu-beyond-cores", "cpu_s")]),
        ({"cores": 4_294_967_294}, [("cores-impossible", "core_count")]),
        ({"cores": 8193}, [("cores-impossible", "core_count")]),
        ({"cores": 16_385, "nodes": 2}, [("cores-impossible", "core_count")]),
        ({"nodes": 4_294_967_294}, [("nodes-impossible", "node_count")]),
        ({"submit_time": END + 3600}, [("end-before-submission", "end_time")]),
        ({"end_time": 100_000}, [("end-impossible", "end_time")]),
        ({"end_time": 10**15}, [("end-impossible", "end_time")]),
        ({"benchmark": "HEPscore23:1500"}, [("benchmark-impossible", "benchmark")]),
        ({"benchmark": "HEPSPEC:0.01"}, [("benchmark-impossible", "benchmark")]),
        ({"benchmark": "Si2k:10"}, [("benchmark-impossible", "benchmark")]),
        ({"benchmark": "HEPSPEC:nan"}, [("benchmark-impossible", "benchmark")]),
        # Each value under its own reason: the wall time says nothing of the CPU time then.
        ({"wall_s": END, "cpu_user_s": 47 * 3700}, [("wall-beyond-life", "wall_s"), ("cpu-beyond-cores", "cpu_s")]),
        ({"wall_s": END, "cpu_user_s": 3000}, [("wall-beyond-life", "wall_s")]),
    ],
)
def test_what_cannot_be_true_is_found_under_its_reason(values, found) -> None:
    assert reasons(**values) == found


NO_CPU = {"cpu_user_s": 0, "cpu_kernel_s": 0}


@pytest.mark.parametrize(
    ("field", "found", "least", "most", "others"),
    [
        # APEL's INT, for the wall time and for user and kernel time together.
        ("wall_s", "wall_s", 0, 2**31 - 1, {"submit_time": 0, "end_time": 2**32, **NO_CPU}),
        ("cpu_user_s", "cpu_s", 0, 2**31 - 1, {"cpu_kernel_s": 0, "cores": 10**6, "nodes": 0}),
        ("cpu_kernel_s", "cpu_s", 0, 2**31 - 2, {"cpu_user_s": 1, "cores": 10**6, "nodes": 0}),
        # The job's life and 5 minutes: from its run if nothing else is known, until an end that A-REX did not see.
        ("wall_s", "wall_s", 0, 4000, NO_CPU),
        ("wall_s", "wall_s", 0, 1300, {"submit_time": 0, "start_time": END - 1000, **NO_CPU}),
        ("wall_s", "wall_s", 0, 4100, {"ran_until": END + 100, **NO_CPU}),
        ("wall_s", "wall_s", 0, END - 788_918_400 + 300, {"submit_time": 0, **NO_CPU}),
        # Eight threads of each core, and a minute.
        ("cpu_user_s", "cpu_s", 0, 8 * 3600 + 60, {"cpu_kernel_s": 0}),
        ("cpu_kernel_s", "cpu_s", 0, 8 * 4 * 3600 + 50, {"cpu_user_s": 10, "cores": 4}),
        ("cpu_user_s", "cpu_s", 0, 60, {"wall_s": 0, "cpu_kernel_s": 0}),
        ("cpu_user_s", "cpu_s", 0, 8 * 3700 + 60, {"wall_s": None, "cpu_kernel_s": 0}),
        ("cpu_user_s", "cpu_s", 0, 8 * 3800 + 60, {"ran_until": END + 100, "cpu_kernel_s": 0}),
        # Linux's processors of each node, where no one says how many cores.
        ("cpu_user_s", "cpu_s", 0, 3 * 8192 * 3600 + 60, {"cores": 0, "nodes": 3, "cpu_kernel_s": 0}),
        ("cpu_user_s", "cpu_s", 0, 8192 * 3600 + 60, {"cores": 0, "nodes": 0, "cpu_kernel_s": 0}),
        ("cores", "core_count", 0, 8192, NO_CPU),
        ("cores", "core_count", 0, 5 * 8192, {"nodes": 5, **NO_CPU}),
        ("cores", "core_count", 0, 10_000_000, {"nodes": 0, **NO_CPU}),
        ("cores", "core_count", 0, 10_000_000, {"nodes": 200_000, **NO_CPU}),
        ("nodes", "node_count", 0, 200_000, {}),
        # The years 1995 to 9999, and two clocks at most 5 minutes apart.
        ("end_time", "end_time", 788_918_400, 253_402_300_799, {"submit_time": 0, "wall_s": 0, **NO_CPU}),
        ("submit_time", "end_time", 1, END + 300, {"wall_s": 0, **NO_CPU}),
    ],
)
def test_a_value_at_its_bound_is_possible_and_one_beyond_is_not(field, found, least, most, others) -> None:
    """The bounds that the manual gives, in numbers: the least and the most of each, and one less and one more."""

    def fields(value: int) -> list[str]:
        return [one for _reason, one in reasons(**{**others, field: value})]

    assert {value: fields(value) for value in (least, most)} == {least: [], most: []}
    assert fields(most + 1) == [found]
    # A submission of 0 is unknown.
    assert fields(least - 1) == ([found] if field != "submit_time" else [])


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("HEPSPEC", 200, 1_000_000), ("HEPscore23", 200, 1_000_000), ("Si2k", 50_000, 250_000_000)],
)
def test_a_benchmark_at_its_bound_is_possible_and_one_beyond_is_not(kind, least, most) -> None:
    """In thousandths, which are the smallest part that is sent."""
    found = {value: reasons(benchmark=f"{kind}:{value / 1000}") for value in (least - 1, least, most, most + 1)}
    impossible = [("benchmark-impossible", "benchmark")]

    assert found == {least - 1: impossible, least: [], most: [], most + 1: impossible}


def test_a_bound_is_named_where_there_is_one() -> None:
    """The life of the job with a slack for clocks, and the threads of its cores for as long as it can have run."""
    found = implausible_values(
        **{**HONEST, "submit_time": END - 130, "wall_s": 100_000, "cpu_user_s": 10**12, "cores": 4}
    )  # type: ignore[arg-type]

    assert found == (("wall-beyond-life", "wall_s", 430, 100_000), ("out-of-range", "cpu_s", 4220, 10**12 + 100))
    assert overrides(found, (10**12, 100), take_bound=True) == {"wall_s": 430, "cpu_user_s": 4220, "cpu_kernel_s": 0}
    assert overrides(found, (10**12, 100), take_bound=False) == dict.fromkeys(
        ("wall_s", "cpu_user_s", "cpu_kernel_s"), UNKNOWN_NUMBER
    )


def test_the_kernel_keeps_its_share_of_a_bound() -> None:
    found = implausible_values(**{**HONEST, "cpu_user_s": 90_000, "cpu_kernel_s": 10_000})  # type: ignore[arg-type]

    assert overrides(found, (90_000, 10_000), take_bound=True) == {"cpu_user_s": 25_974, "cpu_kernel_s": 2886}
    assert overrides(found, (0, 0), take_bound=True) == {"cpu_user_s": 28_860, "cpu_kernel_s": 0}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("wall_s", {"wall_s": 10**6}),
        ("wall_s", {"wall_s": 2**40}),
        ("wall_s", {"wall_s": 10**6, "submit_time": 0, "start_time": END - 130}),
        ("cpu_s", {"wall_s": 1000, "cpu_user_s": 10**6}),
        ("cpu_s", {"wall_s": 1000, "cpu_user_s": 10**12, "cores": 4}),
        ("cpu_s", {"wall_s": 0, "cpu_user_s": 3000}),
        ("cpu_s", {"wall_s": None, "cpu_user_s": 10**6}),
        ("cpu_s", {"wall_s": 10, "cpu_user_s": 10**7, "end_time": END - 3000, "ran_until": END}),
    ],
)
def test_the_bound_is_the_largest_value_that_is_not_held(field, values) -> None:
    """One number is checked, listed and counted by a decision."""
    found = implausible_values(**{**HONEST, **values})  # type: ignore[arg-type]
    (bound,) = [one[2] for one in found if one[1] == field]

    def with_value(value: int) -> list[str]:
        instead = {"wall_s": value} if field == "wall_s" else {"cpu_user_s": value, "cpu_kernel_s": 0}
        return [one for _reason, one in reasons(**{**values, **instead}) if one == field]

    assert with_value(bound) == []
    assert with_value(bound + 1) == [field]


@pytest.mark.parametrize(
    ("by_files", "recorded", "state", "status"),
    [
        (ABORTED, COMPLETED, "FINISHED", FAILED),
        (ABORTED, FAILED, "FINISHED", FAILED),
        (ABORTED, ABORTED, "FINISHED", ABORTED),
        (ABORTED, IN_PROGRESS, "FINISHED", ABORTED),
        (FAILED, ABORTED, "FINISHED", ABORTED),
        (FAILED, ABORTED, "INLRMS", FAILED),
        (FAILED, ABORTED, None, FAILED),
        (COMPLETED, FAILED, "FINISHED", COMPLETED),
        (COMPLETED, ABORTED, "FINISHED", COMPLETED),
        (FAILED, COMPLETED, "FINISHED", FAILED),
    ],
)
def test_the_choice_for_killed_jobs_is_for_new_ends(by_files, recorded, state, status) -> None:
    """An end that was recorded as failed stays one, and an aborted one stays aborted, whatever the site says now."""
    assert status_of_end(by_files, recorded, state) == status
