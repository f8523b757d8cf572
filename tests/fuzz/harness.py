"""
What runs the fuzzers: each try in a child process with limits of memory and time, and the inputs that fail kept.

A fuzzer is a module ``fuzz_NAME.py`` here with two functions: ``made(chance)`` makes one input, a dictionary from file
names to bytes, from nothing but a ``random.Random``; ``tried(files, work)`` does with it, below an empty directory,
what the program would do, and raises AssertionError for what must never be. Whatever else it raises is a finding, too.
"""

from __future__ import annotations

import importlib
import mmap
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, cast

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
CPU_LIMIT_S = 20
"""What one try may take before it counts as a hang."""
WALL_LIMIT_S = 300
"""The same for one that waits instead: generous, for a machine that is busy."""
MEMORY_LIMIT_BYTES = 2**30
"""Of addresses; a fuzzer of what starts threads, each with room of its own, has a ``MEMORY_LIMIT_BYTES`` itself."""
_BATCH_TRIES = 100
"""In one process: commands leave databases open at their end, and a process may have some 1,000 files open."""


class Fuzzer(Protocol):
    """What the module of a fuzzer has."""

    def made(self, chance: random.Random) -> dict[str, bytes]:
        """One input."""

    def tried(self, files: dict[str, bytes], work: pathlib.Path) -> None:
        """Try it; raises for what must never be."""


class Budget(NamedTuple):
    """How long a campaign continues: so many inputs, or so much CPU time."""

    tries: int | None
    cpu_s: float | None


class Finding(NamedTuple):
    """An input that broke something."""

    what: str
    """The kind of it: the same for inputs that break the same place."""
    place: pathlib.Path
    text: str


class Told(NamedTuple):
    """What a campaign came to."""

    name: str
    seed: str
    cases: int
    tries: int
    cpu_s: float
    findings: tuple[Finding, ...]

    def line(self) -> str:
        """All of it for people."""
        found = f"{len(self.findings)} findings" if self.findings else "nothing found"
        head = (
            f"{self.name}: {self.cases} cases and {self.tries} inputs of seed {self.seed}, "
            f"{self.cpu_s:.0f} CPU seconds: {found}"
        )
        return "\n".join([head, *(f"--- {one.what}\n    {one.place}\n{one.text}" for one in self.findings)])


class _Input(NamedTuple):
    """An input that can be made again, whatever became of the process that tried it."""

    name: str
    make: Callable[[], dict[str, bytes]]


def names() -> list[str]:
    """The fuzzers: every ``fuzz_NAME.py`` here."""
    return sorted(file.stem.removeprefix("fuzz_") for file in HERE.glob("fuzz_*.py"))


def fuzzer(name: str) -> Fuzzer:
    """The module of a fuzzer."""
    return cast("Fuzzer", importlib.import_module(f"fuzz.fuzz_{name}"))


def files_of(directory: pathlib.Path) -> dict[str, bytes]:
    """A kept input."""
    found = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def keep(files: dict[str, bytes], directory: pathlib.Path) -> None:
    """Write an input, so that `files_of` reads it again."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def try_case(name: str, directory: pathlib.Path) -> None:
    """Try one kept input in this process: for looking at it. Raises what the fuzzer raises."""
    with tempfile.TemporaryDirectory() as work:
        fuzzer(name).tried(files_of(directory), pathlib.Path(work))


def campaign(name: str, seed: str, budget: Budget, findings: pathlib.Path) -> Told:
    """Try all cases of a fuzzer, then inputs of its own until the budget is used up."""
    module = fuzzer(name)
    cases = sorted(path for path in CASES.joinpath(name).glob("*") if path.is_dir())
    known: dict[str, Finding] = {}

    def note(given: _Input, what: str, text: str) -> None:
        if what not in known:
            place = findings / name / given.name
            keep(given.make(), place)
            known[what] = Finding(what, place, text)

    began = _cpu_s()
    _batch(module, [_Input(path.name, lambda path=path: files_of(path)) for path in cases], note)
    tries = 0
    while (budget.tries is None or tries < budget.tries) and (budget.cpu_s is None or _cpu_s() - began < budget.cpu_s):
        count = _BATCH_TRIES if budget.tries is None else min(_BATCH_TRIES, budget.tries - tries)
        _batch(module, [_seeded(module, name, seed, number) for number in range(tries, tries + count)], note)
        tries += count
    return Told(name, seed, len(cases), tries, _cpu_s() - began, tuple(known.values()))


def _seeded(module: Fuzzer, name: str, seed: str, number: int) -> _Input:
    # A text as seed gives the same numbers in every version of Python.
    return _Input(f"{seed}-{number}", lambda: module.made(random.Random(f"{name}/{seed}/{number}")))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _batch(module: Fuzzer, inputs: list[_Input], note: Callable[[_Input, str, str], None]) -> None:
    """Try some inputs in children; one that dies is a finding, and a new one continues behind it."""
    position = 0
    with tempfile.TemporaryDirectory(prefix="arcacct-fuzz-") as place, mmap.mmap(-1, 8) as shared:
        work = pathlib.Path(place)
        told = work / "told"
        while position < len(inputs):
            shared[:] = position.to_bytes(8, "little")
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                _child(module, inputs, work, shared)
            died = _wait(child, shared)
            position = int.from_bytes(shared[:], "little")
            if died is None and position < len(inputs):
                died = "ended without a word"
            for number, what, text in _read(told):
                note(inputs[number], what, text)
            told.unlink(missing_ok=True)
            if died is None:
                return
            note(inputs[position], died, "")
            position += 1


def _child(module: Fuzzer, inputs: list[_Input], work: pathlib.Path, shared: mmap.mmap) -> None:
    """Try inputs from the position in ``shared`` on; never returns."""
    code = 1
    try:
        _limit_memory(getattr(module, "MEMORY_LIMIT_BYTES", MEMORY_LIMIT_BYTES))
        # What a fuzzer makes once goes with the batch.
        tempfile.tempdir = str(work)
        for number in range(int.from_bytes(shared[:], "little"), len(inputs)):
            shared[:] = number.to_bytes(8, "little")
            empty = work / "try"
            # What a child left that was ended.
            _clear(empty)
            empty.mkdir()
            # The action of SIGPROF is to end the process: also one that is inside of SQLite.
            signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
            try:
                module.tried(inputs[number].make(), empty)
            except BaseException as error:  # noqa: BLE001  an exit is as much a finding as an error
                signal.setitimer(signal.ITIMER_PROF, 0)
                _tell(work / "told", number, error)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _clear(empty)
        shared[:] = len(inputs).to_bytes(8, "little")
        code = 0
    except BaseException:  # noqa: BLE001  what breaks the harness itself is seen, too
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _clear(directory: pathlib.Path) -> None:
    """Remove it, whatever a process or thread that was left behind still does in it."""
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)


def _limit_memory(more_bytes: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _tell(told: pathlib.Path, number: int, error: BaseException) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    what = f"{type(error).__name__} in {' < '.join(f'{frame.name}:{frame.lineno}' for frame in frames[:-4:-1])}"
    text = "".join(traceback.format_exception(error, limit=-12))[:8000]
    with told.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{number}\0{what}\0{text}\0\0")


def _read(told: pathlib.Path) -> Iterator[tuple[int, str, str]]:
    if not told.exists():
        return
    for one in told.read_text(encoding="utf-8", errors="replace").split("\0\0"):
        if one:
            number, what, text = one.split("\0", 2)
            yield int(number), what, text


def _wait(child: int, shared: mmap.mmap) -> str | None:
    """How a child died, ``None`` if it came to its end; one that stands still is ended."""
    seen, since = shared[:], time.monotonic()
    pause_s = 0.001
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if shared[:] != seen:
            seen, since = shared[:], time.monotonic()
        if time.monotonic() - since > WALL_LIMIT_S:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"hang: nothing came for {WALL_LIMIT_S} s"
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 0.1)
    if os.WIFSIGNALED(status):
        by = signal.Signals(os.WTERMSIG(status))
        return f"hang: more than {CPU_LIMIT_S} CPU seconds" if by == signal.SIGPROF else f"ended by {by.name}"
    return None if os.WEXITSTATUS(status) == 0 else f"ended with exit code {os.WEXITSTATUS(status)}"
