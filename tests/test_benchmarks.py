"""The benchmarks stay alive: each runs at its smallest size. What they measure is nobody's to assert."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

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
