"""
What `arcacct import sonar` costs: samples of 100 nodes, each with 100 processes in 10 jobs, minutes apart.

The large size is 10,000 envelopes. Memory should not depend on their number.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time

from figures import Figure, cost_of

ENVELOPES = {"smoke": 200, "small": 2_000, "large": 10_000}
_NODES = 100
_FIRST_S = 1_795_168_800


def write(path: pathlib.Path, envelopes: int) -> int:
    """A file of telemetry; its size in MiB."""
    with path.open("w") as file:
        for number in range(envelopes):
            file.write(json.dumps(_sample(number % _NODES, number // _NODES), separators=(",", ":")) + "\n")
    return path.stat().st_size // 1024**2


def _sample(node: int, minute: int) -> dict[str, object]:
    when = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(_FIRST_S + 60 * minute))
    jobs = [
        {
            "job": 1000 * node + job,
            "user": f"user{job}",
            "processes": [_process(10 * job + n, minute) for n in range(10)],
        }
        for job in range(10)
    ]
    system = {"boot": "2026-11-01T00:00:00+00:00", "cpus": [minute * 50] * 64, "used_memory": 10**8, "load1": 60.5}
    attributes = {"time": when, "cluster": "bench", "node": f"n{node:03d}", "system": system, "jobs": jobs}
    meta = {"producer": "sonar", "version": "0.19.0"}
    return {"meta": meta, "data": {"type": "sample", "attributes": attributes}}


def _process(number: int, minute: int) -> dict[str, object]:
    return {
        "resident_memory": 1_000_000 + number, "virtual_memory": 2_000_000, "cmd": "python3", "pid": 5000 + number,
        "ppid": 4000, "num_threads": 3, "cpu_avg": 99.5, "cpu_time": 59 * minute, "data_read": 10 * minute,
    }  # fmt: skip


def bench(size: str) -> list[Figure]:
    """The figures, with those of a fifth of the envelopes as the peer: memory should be the same."""
    costs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, envelopes in (("all", ENVELOPES[size]), ("fifth", ENVELOPES[size] // 5)):
            place = pathlib.Path(folder, name)
            (place / "control" / "finished").mkdir(parents=True)
            (place / "arc.conf").write_text(
                f"[common]\nhostname = ce.example.org\n[arex]\ncontroldir = {place}/control\n"
            )
            mib = write(place / "samples.jsonl", envelopes)
            program = str(pathlib.Path(sys.executable).parent / "arcacct")
            command = [program, "--config", f"{place}/arc.conf", "import", "sonar", f"{place}/samples.jsonl"]
            costs[name] = envelopes, mib, cost_of(command)
    envelopes, mib, cost = costs["all"]
    fewer, _, less = costs["fifth"]
    assert cost.exit_code == less.exit_code == 0
    note = f"{envelopes} envelopes of 100 processes, {mib} MiB"
    return [
        Figure("sonar: CPU of an envelope", cost.cpu_s / envelopes * 1000, "ms", less.cpu_s / fewer * 1000, note),
        Figure("sonar: envelopes a second", envelopes / cost.wall_s, "1/s", note="wall time"),
        Figure("sonar: peak memory", cost.peak_mib, "MiB", less.peak_mib, "peer: a fifth of the envelopes"),
    ]


if __name__ == "__main__":
    from figures import table

    print(table(bench("small")))
