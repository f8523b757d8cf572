"""The benchmarks stay alive: each runs at its smallest size. What they measure is no one's to assert."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parent / "bench"))

from bench_publish import note_of, run_and_job
from figures import Cost, Turns

pytestmark = pytest.mark.campaign

BENCH = pathlib.Path(__file__).parent / "bench"
NAMES = sorted(file.stem.removeprefix("bench_") for file in BENCH.glob("bench_*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_runs(name: str, tmp_path: pathlib.Path) -> None:
    """Prints a table with a row for each figure, writes them as JSON, and no program that it ran has failed."""
    told = tmp_path / "figures.json"
    command = [sys.executable, str(BENCH), name, "--size", "smoke", "--json", str(told)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )

    assert run.returncode == 0, run.stderr
    figures = json.loads(told.read_text())
    assert figures
    assert "FAILED" not in run.stdout
    assert all(figure["what"] in run.stdout for figure in figures)


@pytest.mark.parametrize(
    ("exit_code", "connections", "note"),
    [
        pytest.param(0, [[3, 3], [2, 2]], "", id="both"),
        pytest.param(0, [[3, 3], []], "", id="no jura-ng"),
        pytest.param(0, [[3, 3], [2, 0]], "jura-ng sent nothing", id="jura-ng without a connection"),
        pytest.param(1, [[3, 3], [0, 0]], "jura-ng exit code 1, jura-ng sent nothing", id="jura-ng failed"),
        pytest.param(0, [[3, 0], [2, 2]], "OURS FAILED: what it said", id="ours without a connection"),
    ],
)
def test_a_run_that_sent_nothing_is_not_quoted(tmp_path, exit_code, connections, note) -> None:
    """Whoever sends nothing is quick."""
    (tmp_path / "ours.log").write_text("what it said")
    costs = [[Cost(1.0, 1.0, 50.0, code) for _ in made] for code, made in zip((0, exit_code), connections, strict=True)]

    assert note_of(Turns(*costs), connections, tmp_path / "ours.log") == note


def test_the_costs_of_a_run_and_of_a_job_follow_from_two_sizes() -> None:
    """A run of 0.2 s, and 0.1 ms for each job."""
    assert run_and_job((1_000, 0.3), (10_000, 1.2)) == pytest.approx((0.2, 0.0001))


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        pytest.param("options.py", 'messages("500", ', 'messages("7", ', "the same", id="other messages"),
        pytest.param("usage_record.py", "GlobalJobId", "GlobalJobID", "DIFFERENCES", id="other records"),
    ],
)
def test_two_checkouts_are_compared_by_their_records(tmp_path, file, old, new, told) -> None:
    """How many records share a message is no difference; one byte of a record is."""
    root = BENCH.parents[1]
    shutil.copytree(root / "arcacct", tmp_path / "arcacct")
    for name in ("schema", "etc", "tests"):
        (tmp_path / name).symlink_to(root / name)
    changed = tmp_path / "arcacct/targets/sgas" / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new))

    options = ["--seeds", "1", "--sources", "arex"]
    command = [sys.executable, str(BENCH / "compare_messages.py"), str(root), str(tmp_path), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert told in run.stdout, run.stderr
    assert run.returncode == (told != "the same")
