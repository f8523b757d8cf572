"""
What operators' commands cost on a small and on a large database: verify, `republish --plan`, `db check`, `db prune`.

Everything was published before, by the program itself, to SGAS and as summaries. Verify and plan are of one month, a
third of the jobs; prune moves the first month. The peer of each figure is ours on the small database: memory must be
the same, and CPU as many times as much as there are jobs. (The first sweep: `sweep`; `import arex`: `import_arex`.)
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from bench_publish import APEL, SGAS, configure, receivers
from figures import Cost, Figure, cost_of
from generate import Look, generate

SIZES = {"smoke": (300, 600), "small": (5_000, 50_000), "large": (100_000, 1_000_000)}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
COMMANDS = {
    "verify": ("verify", "2026-08"),
    "republish --plan": ("republish", "--from", "2026-08-01", "--to", "2026-09-01", "--plan"),
    "db check": ("db", "check"),
    "db prune": ("db", "prune", "--before", "2026-08-01", "--yes"),
}


def bench(size: str) -> list[Figure]:
    """CPU and peak memory of each command."""
    few, many = SIZES[size]
    small, large = _costs(few), _costs(many)
    figures = []
    for what, cost in large.items():
        note = f"{many:,} jobs; peer: {few:,}{'' if cost.exit_code == 0 else f', FAILED with {cost.exit_code}'}"
        figures += [
            Figure(f"{what}: CPU", cost.cpu_s, "s", small[what].cpu_s, note),
            Figure(f"{what}: peak memory", cost.peak_mib, "MiB", small[what].peak_mib, note),
        ]
    return figures


def _costs(jobs: int) -> dict[str, Cost]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        site, log = folder / "site", folder / "log"
        generate(site, jobs, Look(children=False))
        with receivers(folder / "box") as box:
            configure(site, box, SGAS.format(sgas=box["sgas"]) + APEL.format(ams=box["ams"], messages="summaries"))
            command = [ARCACCT, "--config", str(site / "arc.conf")]
            cost_of([*command, "publish", "--now", "--since", "2026-01-01"], log=log)
        return {what: cost_of([*command, *arguments], log=log) for what, arguments in COMMANDS.items()}


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
    from figures import table

    print(table(bench("small")))
