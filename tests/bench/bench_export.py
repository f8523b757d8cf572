"""
What `arcacct export` costs: CPU, memory and bytes of a first export, and CPU of one after a thousand new jobs.

The peer of what comes after is the first export: only the month of the new jobs is read again.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from figures import Figure, cost_of
from generate import Look, add_jobs, generate

SIZES = {"smoke": 300, "small": 50_000, "large": 1_000_000}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
NEW_JOBS = 1_000


def bench(size: str) -> list[Figure]:
    """CPU, peak memory and bytes a job."""
    jobs = SIZES[size]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        site, log, dataset = folder / "site", folder / "log", folder / "dataset"
        here = generate(site, jobs, Look(children=True))
        (site / "arc.conf").write_text(f"[common]\nhostname = ce.example.org\n[arex]\ncontroldir = {site}\n")
        command = [ARCACCT, "--config", str(site / "arc.conf"), "export", "--site", "SITE"]
        first = cost_of([*command, str(dataset)], log=log)
        total = sum(path.stat().st_size for path in dataset.rglob("*.parquet"))
        again = cost_of([*command, str(dataset)], log=log)
        add_jobs(here, NEW_JOBS)
        new = cost_of([*command, str(dataset)], log=log)
        codes = {one.exit_code for one in (first, again, new)}
        note = (
            f"{jobs:,} jobs with children{'' if codes == {0} else f', FAILED with {codes}: {log.read_text()[-300:]}'}"
        )
    return [
        Figure("export: CPU", first.cpu_s, "s", None, note),
        Figure("export: peak memory", first.peak_mib, "MiB", None, note),
        Figure("export: bytes of a job with its children", total / jobs, "B", None, note),
        Figure("export again, nothing new: CPU", again.cpu_s, "s", first.cpu_s, note),
        Figure(f"export after {NEW_JOBS:,} new jobs: CPU", new.cpu_s, "s", first.cpu_s, note),
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
    from figures import table

    print(table(bench("small")))
