"""
What sacct's output costs: a table of jobs with two steps each, imported, and imported again.

Budgets, for each CPU second on 2 cores: 4,000 jobs imported; the memory does not depend on the length of the output.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from figures import Figure, cost_of
from slurm_files import BEGIN, COLUMNS, row

SIZES = {"smoke": 500, "small": 20_000, "large": 330_000}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")


def bench(size: str) -> list[Figure]:
    """A table, and one of a tenth of it, each into a new database; and the first again."""
    count = SIZES[size]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        return [figure for jobs in (count // 10, count) for figure in _imported(folder, jobs)]


def _imported(folder: pathlib.Path, count: int) -> list[Figure]:
    path = folder / f"sacct.{count}"
    with path.open("w") as file:
        file.write(f"{COLUMNS}\n")
        for number in range(1, count + 1):
            times = {"Submit": BEGIN + number, "Start": BEGIN + number + 10, "End": BEGIN + number + 70}
            for step in ("", ".batch", ".extern"):
                file.write(row(f"{number}{step}", **times) + "\n")
    command = [ARCACCT, "--database", str(folder / f"{count}.db"), "import", "slurm", str(path)]
    first, again = cost_of(command), cost_of(command)
    return [
        Figure(
            f"{count} jobs imported, {3 * count} lines",
            count / first.cpu_s,
            "jobs/CPU s",
            note=f"{first.peak_mib:.0f} MiB, {first.wall_s:.1f} s, exit {first.exit_code}",
        ),
        Figure("the same again", again.cpu_s, "CPU s", note=f"exit {again.exit_code}"),
    ]
