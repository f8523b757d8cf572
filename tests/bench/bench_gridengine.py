"""
What accounting files of Grid Engine cost: lines parsed and grouped into jobs, files imported and summed.

The lines are those of a real file, with other numbers and times, so a tenth of them are tasks, requeues and records
that never started. Budgets, for each CPU second on 2 cores: 20,000 colon lines and 15,000 JSON lines parsed and
grouped, 5,000 jobs imported; the memory of an import does not depend on the length of the file.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice

from figures import Figure, cost_of
from gridengine_files import COLON, JSON_91

from arcacct.sources.gridengine.accounting_file import record
from arcacct.sources.gridengine.record import Record, jobs

SIZES = {"smoke": 2_000, "small": 50_000, "large": 1_000_000}
ARCACCT = os.path.join(os.path.dirname(sys.executable), "arcacct")
_NUMBERS = 50
"""More than the highest job number of the real file."""
_SECONDS = 60
_SLICE = 500


def bench(size: str) -> list[Figure]:
    """Both formats, parsed, imported into a new database, imported again, and summed."""
    count = SIZES[size]
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, path, lines in (
            ("colon", folder / "accounting", _colon_lines),
            ("JSON", folder / "accounting.jsonl", _json_lines),
        ):
            _write(path, lines, count)
            figures += [_parsed(what, path, count), *_imported(what, path, count, folder / what)]
        small = folder / "few"
        _write(small, _colon_lines, count // 10)
        figures += _imported("colon", small, count // 10, folder / "small")[:1]
    return figures


def _write(path: pathlib.Path, lines: Callable[[], Iterator[str]], count: int) -> None:
    with path.open("w") as file:
        file.writelines(islice(lines(), count))


def _colon_lines() -> Iterator[str]:
    real = [line.split(":") for line in COLON.read_text().splitlines(keepends=True) if not line.startswith("#")]
    generation = 0
    while True:
        for fields in real:
            times = [str(int(text) + generation * _SECONDS) if text != "0" else text for text in fields[8:11]]
            yield ":".join(
                [*fields[:5], str(int(fields[5]) + generation * _NUMBERS), *fields[6:8], *times, *fields[11:]]
            )
        generation += 1


def _json_lines() -> Iterator[str]:
    real = [json.loads(line) for line in JSON_91.read_text().splitlines() if not line.startswith("#")]
    generation = 0
    while True:
        for line in real:
            moved = {name: line[name] + generation * _SECONDS * 10**6 for name in _TIMES if line[name]}
            moved["job_number"] = line["job_number"] + generation * _NUMBERS
            yield json.dumps(line | moved, separators=(",", ":")) + "\n"
        generation += 1


_TIMES = ("submission_time", "start_time", "end_time")


def _parsed(what: str, path: pathlib.Path, count: int) -> Figure:
    begun = time.process_time()
    found = 0
    with path.open("rb") as file:
        while lines := list(islice(file, _SLICE)):
            numbers: dict[tuple[int, int], list[Record]] = {}
            for line in lines:
                one = record(line)
                if one is not None:
                    numbers.setdefault((one.job_number, one.task_number), []).append(one)
            found += sum(len(jobs(some)) for some in numbers.values())
    cpu_s = time.process_time() - begun
    return Figure(f"{what}: {count} lines parsed and grouped", count / cpu_s, "lines/CPU s", note=f"{found} jobs")


def _imported(what: str, path: pathlib.Path, count: int, folder: pathlib.Path) -> list[Figure]:
    command = [ARCACCT, "--database", str(folder / "accounting.db"), "import", "gridengine", str(path)]
    first, again = cost_of(command), cost_of(command)
    summed = cost_of([ARCACCT, "import", "gridengine", "--summary", "--by", "owner", str(path)])
    job_count = count * 39 // 45
    return [
        Figure(
            f"{what}: {job_count} jobs imported",
            job_count / first.cpu_s,
            "jobs/CPU s",
            note=f"{first.peak_mib:.0f} MiB, {first.wall_s:.1f} s, exit {first.exit_code}",
        ),
        Figure(f"{what}: the same file again", again.cpu_s, "CPU s", note=f"exit {again.exit_code}"),
        Figure(f"{what}: summed by owner", count / summed.cpu_s, "lines/CPU s", note=f"{summed.peak_mib:.0f} MiB"),
    ]
