"""GPUs and energy of jobs: as texts of batch systems report them, for one run and for several."""

from __future__ import annotations

import pytest

from arcacct.resources import Accelerators, granted, gridengine_gpus, of_runs, parsed_tres, tres_gpus


@pytest.mark.parametrize(
    ("gpus", "elapsed_s", "energy_j", "values"),
    [
        (2, 60, None, Accelerators(2, 120)),
        (0.5, 61, None, Accelerators(1, 30.5)),
        (0, 60, 7, Accelerators(None, None, energy_j=7)),
        (2, 0, None, Accelerators(2, None)),
        (2**53, 2**62, None, Accelerators(2**53, None)),
        (0, 60, None, None),
    ],
    ids=["GPUs", "part of a GPU", "energy", "no time", "impossible", "nothing"],
)
def test_a_run_has_its_gpus_times_its_time(gpus, elapsed_s, energy_j, values) -> None:
    """Of a part of a GPU the job has one, and the part of the time; what is no measurement is unknown."""
    assert granted(gpus, elapsed_s, energy_j) == values


def test_a_job_has_the_gpus_of_its_last_run_and_the_sums_of_all() -> None:
    """A run without a value adds nothing, and unknown is not 0."""
    runs = [granted(4, 10), None, granted(0, 5, 3), granted(2, 100, 8)]

    assert of_runs(runs) == Accelerators(2, 240, energy_j=11)
    assert of_runs(runs[:2]) == runs[0]
    assert of_runs([granted(4, 10), granted(1, 10)]) == Accelerators(1, 50)
    assert of_runs([None]) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "billing=32,cpu=32,gres/gpu:a100=1,gres/gpu=1,mem=128G,node=1",
            {"billing": 32, "cpu": 32, "gres/gpu:a100": 1, "gres/gpu": 1, "mem": 128 * 1024**3, "node": 1},
        ),
        ("mem=472.50G", {"mem": round(472.5 * 1024**3)}),
        ("energy=18446744073709551614,cpu=1", {"cpu": 1}),
        ("cpu=1,energy=0", {"cpu": 1}),
        ("cpu=1,gres/gpu=0,mem=0", {"cpu": 1, "gres/gpu": 0, "mem": 0}),
        ("mem=4000Mn,cpu=2", {"cpu": 2}),
        ("", {}),
    ],
    ids=["all", "fraction", "no value", "no energy plugin", "zero", "old suffix", "empty"],
)
def test_trackable_resources(text, found) -> None:
    """Sizes in bytes, what is not measured left out."""
    assert parsed_tres(text) == found


@pytest.mark.parametrize(
    ("text", "gpus"), [("gres/gpu:a100=1,gres/gpu=2", 2), ("gres/gpu:a100=1,gres/gpu:h100=3", 4), ("cpu=1", 0)]
)
def test_gpus_are_counted_once(text, gpus) -> None:
    """The untyped count, or the sum of the typed ones, never both."""
    assert tres_gpus(parsed_tres(text)) == gpus


@pytest.mark.parametrize(
    ("category", "gpus"),
    [
        ("-l gpu=2", 2),
        ("-U users -l h_rt=600,gpu=1,h_vmem=4G -pe smp 8", 1),
        ("-l ngpus=4", 4),
        ("-l gpu=1.000000", 1),
        ("-l GPU=1 -l gpu=3", 3),
        ("-l gpu=0", 0),
        ("-l gpu=0.25", 0),
        ("-l gpu=a100", 0),
        ("-l gpu_mem=16,mygpu=2,gpu_type=3", 0),
        ("-q gpu=2", 0),
        ("-P gpu -q gpu.q", 0),
        ("", 0),
    ],
)
def test_what_was_asked_for(category, gpus) -> None:
    """Whole GPUs of resources called so, and nothing that only looks like it."""
    assert gridengine_gpus(category, "", "", "") == gpus


@pytest.mark.parametrize(
    ("resource_map", "granted_req", "listed", "gpus"),
    [
        pytest.param("gpu=wn1=(0 3)", "", "", 2, id="one host"),
        pytest.param("gpu=wn1=(0 1),wn2=(0)", "", "", 3, id="two hosts"),
        pytest.param("licence=wn1=(a b),gpu=gpunode2=(0)", "gpu=7", "", 1, id="another resource"),
        pytest.param("licence=gpunode1=(a b)", "h_rt=600,gpu=4", "", 4, id="granted"),
        pytest.param("", "", "wn1=0,1", 5, id="asked for, which says more than a list"),
        pytest.param("gpu=wn1=()", "", "", 5, id="nothing mapped"),
    ],
)
def test_what_was_granted(resource_map, granted_req, listed, gpus) -> None:
    """What was mapped to the job holds, then what was granted to it, then what it asked for."""
    assert gridengine_gpus("-l gpu=5", resource_map, granted_req, listed) == gpus


@pytest.mark.parametrize(
    ("listed", "gpus"), [("wn1=0,1", 2), ("wn1(0 1),wn2(0)", 5), ("GPU-77a0", 1), ("3", 0), ("", 0)]
)
def test_a_list(listed, gpus) -> None:
    """Where nothing else tells it a list is counted; a mere number may be the name of a GPU, too."""
    assert gridengine_gpus("", "", "", listed) == gpus
