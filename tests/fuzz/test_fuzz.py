"""The fuzzers: every case that once broke something, and a few inputs of each; hours of them run by hand."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
NAMES = sorted(file.stem.removeprefix("fuzz_") for file in HERE.glob("fuzz_*.py"))
TRIES = {"rows": "12", "controlfiles": "25", "databases": "30", "datasets": "25"}
"""Inputs of each fuzzer, 60 of those that are not named: some begin a process or make a database for each."""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found(name: str, tmp_path: pathlib.Path) -> None:
    """No exit of 70, no hang, no silent loss: as ``python tests/fuzz NAME --tries 60`` tells it."""
    tries = TRIES.get(name, "60")
    command = [sys.executable, str(HERE), name, "--tries", tries, "--findings", str(tmp_path / "findings")]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{tries} inputs of seed 0" in run.stdout
    assert "nothing found" in run.stdout


def test_every_case_has_a_fuzzer() -> None:
    """A case of a fuzzer that was renamed would never be tried again."""
    assert {path.name for path in (HERE / "cases").glob("*") if path.is_dir()} <= set(NAMES)


BAD = """
import os, pathlib, sys, time
from fuzz import harness

class Bad:
    def made(self, chance):
        return {"n": b"%d" % chance.randrange(10**6)}

    def tried(self, files, work):
        (work / "left").write_bytes(b"")
        what = sys.argv[1]
        if what == "wrong":
            assert files["n"] != files["n"], "wrong sum"
        if what == "exits":
            sys.exit(0)
        if what == "dies":
            os._exit(0)
        if what == "spins":
            while True:
                pass
        if what == "waits":
            time.sleep(3600)
        if what == "grows":
            bytes(2 * harness.MEMORY_LIMIT_BYTES)

harness.fuzzer = lambda name: Bad()
harness.CPU_LIMIT_S = 0.1
harness.WALL_LIMIT_S = 1
told = harness.campaign("bad", "7", harness.Budget(2, None), pathlib.Path(sys.argv[2]))
print(told.line())
"""


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nothing", "nothing found"),
        ("wrong", "wrong sum"),
        ("exits", "SystemExit"),
        ("dies", "ended without"),
        ("spins", "hang: more than 0.1 CPU seconds"),
        ("waits", "hang: nothing came for 1 s"),
        ("grows", "MemoryError"),
    ],
)
def test_the_harness_finds(what: str, said: str, tmp_path: pathlib.Path) -> None:
    """Whatever a try does, it is found, and its input is kept and made again the same."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", BAD, what, str(tmp_path / place)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"},
        ).stdout
        for place in ("one", "other")
    ]

    assert said in runs[0], runs[0]
    # What one input leaves behind is no finding of the next.
    assert what == "nothing" or "1 findings" in runs[0], runs[0]
    assert "2 inputs of seed 7" in runs[0]
    kept = [
        sorted((path.name, path.parent.name, path.read_text()) for path in (tmp_path / place).rglob("n"))
        for place in ("one", "other")
    ]
    assert kept[0] == kept[1]
    assert bool(kept[0]) == (what != "nothing")
