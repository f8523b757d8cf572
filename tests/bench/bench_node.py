"""
What `arcacct node sample` costs: CPU of one sample, in a process that continues (--interval) and in one of its own.

No peer runs here: Sonar is compiled, and is not on the machines of this project.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import tempfile
import time
from functools import partial

from figures import Figure, cost_of

from arcacct.sources.sonar.sampler import Host, line, sample

ROOT = pathlib.Path(__file__).parents[2]
SAMPLES = {"smoke": 5, "small": 100, "large": 1000}


def installed(prefix: pathlib.Path) -> str:
    """The program as pip installs it; who works on it has the package elsewhere."""
    packages = prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "arcacct").symlink_to(ROOT / "arcacct")
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python3").symlink_to(sys.executable)
    return shutil.copy(str(ROOT / "etc" / "arcacct"), str(prefix / "bin"))


def bench(size: str) -> list[Figure]:
    """The figures."""
    host = Host("bench")
    probe = partial(sample, host)
    text, _ = line(probe, "sample", host)
    processes = sum(len(job["processes"]) for job in json.loads(text)["data"]["attributes"]["jobs"])
    count = SAMPLES[size]
    begun = time.process_time()
    for _ in range(count):
        line(probe, "sample", host)
    spent_ms = (time.process_time() - begun) / count * 1000
    with tempfile.TemporaryDirectory() as folder:
        program = installed(pathlib.Path(folder))
        alone = min(cost_of([program, "node", "sample"]).cpu_s for _ in range(3)) * 1000
    bare = min(cost_of([sys.executable, "-I", "-S", "-c", "pass"]).cpu_s for _ in range(3)) * 1000
    note = f"{processes} processes"
    return [
        Figure("node: CPU of a sample, repeated", spent_ms, "ms", note=note),
        Figure("node: CPU of a process of a sample", spent_ms / processes * 1000, "us", note=note),
        Figure("node: CPU of a sample in a process of its own", alone, "ms", bare, "peer: python -I -S -c pass"),
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from figures import table

    print(table(bench("small")))
