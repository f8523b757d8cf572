"""
Break one line of the program at a time, and see which test notices.

``python tests/mutate.py`` breaks the modules where a wrong line costs a site its numbers; ``python tests/mutate.py
arcacct/records/usage.py`` another. That is more than a night's work on a machine of two cores: ``--lines`` breaks each
line in one way, ``--sample 400`` that many places, chosen by ``--seed``, and ``--slice 2/8`` the second of eight parts
of these, so that what was interrupted continues with the next part. What no test notices is printed as lines for
`mutations_explained.txt`, next to this file: write a test that notices it, or say there in a few words why no one can.
Ends with 1 if anything is left that is in neither.

Each break is first shown to the tests of its module, in a copy of the checkout with an environment of its own: they
notice most, in seconds. What they do not notice is shown to the other tests that run its line. For this every test is
run once, to see which lines it runs, also in processes that it starts, and how long that takes. ``--seen DIRECTORY``
keeps this, and takes what is there already: of the same program, since lines have numbers.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence

import coverage

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "support"))

from breaks import Break, breaks_of, explained  # noqa: E402  after the path is set

EXPLAINED = pathlib.Path(__file__).with_name("mutations_explained.txt")
CRITICAL = (
    "arcacct/database/connection.py",
    *sorted(
        str(path.relative_to(ROOT))
        for folder in ("arex", "publishing", "records", "targets")
        for path in (ROOT / "arcacct" / folder).rglob("*.py")
    ),
)
"""Where a wrong line loses a record, counts one twice, or sends a number that is not true."""

MOST_TESTS = 40
"""Of those that run a line; a break that so many do not notice is not noticed."""
SLOW_S = 2.0
"""Of a test that is shown a break when faster ones did not notice it."""
PATIENCE_S = 900.0
"""For the tests of one break: one that makes the program hang is noticed."""
NOTICED_BY_PYTEST = (-9, 1, 2, 3)
"""Exit codes: killed out of patience, tests failed, were interrupted (nothing to import), or pytest itself fell."""
PYTEST = ("-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
FORKS = """
# Runs pytest in a fork for each line of arguments, and says its exit code: what is slow to import is there already.
import json, os, signal, sys, time
import cryptography.x509, hypothesis, psutil, pytest, requests, sqlite_utils

for line in sys.stdin:
    started, child = time.monotonic(), os.fork()
    if not child:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        code = 3
        try:
            code = pytest.main(json.loads(line))
        finally:
            os._exit(code)
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() - started > float(sys.argv[1]):
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Copy:
    """A copy of the checkout with an environment where it is installed: what tests start runs from it, too."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.tree = directory / "tree"
        environment = directory / "venv"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
            if name and (ROOT / name).exists():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        self.python = environment / "bin" / "python"
        ours = sysconfig.get_path("purelib", vars={"base": str(environment)})
        # After what is installed here: whatever this interpreter has, with what coverage does at the start of each.
        line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        pathlib.Path(ours, "of_the_parent.pth").write_text(line, encoding="utf-8")
        install = ["-m", "pip", "install", "-q", "--no-deps", "--editable", self.tree]
        subprocess.run([self.python, *install], check=True)
        # Compiled once and told by their contents: a broken file that is as long and as old as it was is no other's.
        compiled = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "arcacct", "tests"]
        subprocess.run([self.python, *compiled], cwd=self.tree, check=True)
        self.run("--collect-only", "-n", "0", PYTHONDONTWRITEBYTECODE="")
        self._forks: subprocess.Popen[str] | None = None

    @property
    def _environment(self) -> dict[str, str]:
        path = f"{self.python.parent}:{os.environ['PATH']}"
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.tree), "PATH": path}

    def run(self, *arguments: str, **more: str) -> tuple[int, str]:
        """The exit code of pytest, and what it printed."""
        command = [self.python, "-m", "pytest", *PYTEST, *arguments]
        environment = {**self._environment, **more}
        done = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def notices(self, one: Break, tests: Sequence[str]) -> bool:
        """Whether one of these tests fails, or hangs, once the line is broken."""
        path = self.tree / one.module
        whole = path.read_bytes()
        try:
            path.write_bytes(one.applied(whole))
            return self.fails(tests)
        finally:
            path.write_bytes(whole)

    def fails(self, tests: Sequence[str]) -> bool:
        """Whether one of these tests fails, or hangs, with the copy as it is."""
        if self._forks is None:
            command = [self.python, "-c", FORKS, str(PATIENCE_S)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._forks = subprocess.Popen(command, cwd=self.tree, env=self._environment, text=True, **pipes)
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps([*PYTEST, "-x", "-n", "0", "-m", "not campaign", *tests]) + "\n")
        self._forks.stdin.flush()
        return int(self._forks.stdout.readline()) in NOTICED_BY_PYTEST

    def close(self) -> None:
        """End the process that was kept for runs of pytest."""
        if self._forks is not None:
            self._forks.communicate()


class Runs:
    """Which tests run which lines."""

    def __init__(self, directory: pathlib.Path) -> None:
        """``directory``: what `see` left there."""
        self._data = coverage.CoverageData(str(directory / "lines"))
        self._data.read()
        # Where the program lay that was measured; tests make copies of it elsewhere.
        self._tree = pathlib.Path((directory / "tree").read_text(encoding="utf-8"))
        self._slow = set((directory / "slow").read_text(encoding="utf-8").splitlines())
        self._tests: dict[str, dict[int, list[str]]] = {}

    def tests_of(self, one: Break) -> list[str]:
        """
        The other modules' tests that run a line: fast ones first, of each function one case, then the folder's.

        Lines that run at import are run by the tests of all lines of the module.
        """
        if one.module not in self._tests:
            self._tests[one.module] = self._data.contexts_by_lineno(str(self._tree / one.module))
        by_line = self._tests[one.module]
        names = {_test_of(context) for context in by_line.get(one.line, ())} - {""}
        names = names or {_test_of(context) for contexts in by_line.values() for context in contexts} - {""}
        folder = _folder_of(one.module)
        own = tuple(tests_of_module(one.module))
        functions: dict[str, int] = {}
        ranked = []
        for name in sorted(name for name in names if not name.startswith(own)):
            function = name.partition("[")[0]
            functions[function] = functions.get(function, 0) + 1
            ranked.append((name in self._slow, functions[function], not name.startswith(folder), name))
        return [name for *_rank, name in sorted(ranked)][:MOST_TESTS]


def tests_of_module(module: str) -> list[str]:
    """The files with tests of a module."""
    folder = ROOT / _folder_of(module)
    return sorted(str(path.relative_to(ROOT)) for path in folder.glob(f"test_{pathlib.Path(module).stem}*.py"))


def _folder_of(module: str) -> str:
    """The folder of a module's tests, with a slash at its end."""
    return f"tests/{module.removeprefix('arcacct/').rpartition('/')[0]}/"


def _test_of(context: str) -> str:
    """``tests/…::test_x[case]`` of ``tests/…::test_x[case] (call)``, as pytest says it to the processes of a test."""
    return context.rpartition(" (")[0]


SEES_TESTS = """
import os, coverage

def pytest_runtest_logstart(nodeid, location):
    _told(nodeid + " (call)")

def pytest_runtest_logfinish(nodeid, location):
    _told("")

def _told(context):
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(context)
"""


def see(copy: Copy, kept: pathlib.Path, tests: Sequence[str]) -> None:
    """Run tests once, which have to pass, and note in a directory which lines each of them runs, and which are slow."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as directory:
        work = pathlib.Path(directory)
        work.chmod(0o755)
        settings, lines = work / "coverage.ini", kept / "lines"
        settings.write_text(
            "[run]\nsource_pkgs = arcacct\nparallel = true\npatch = subprocess, _exit\n"
            f"context = ${{PYTEST_CURRENT_TEST-}}\ndata_file = {work / 'lines'}\n",
            encoding="utf-8",
        )
        (copy.tree / "tests/support/sees_tests.py").write_text(SEES_TESTS, encoding="utf-8")
        durations = ("--durations=0", f"--durations-min={SLOW_S}")
        code, printed = copy.run("-p", "sees_tests", *durations, *tests, COVERAGE_PROCESS_START=str(settings))
        if code != 0:
            sys.exit(f"{printed[-10_000:]}\nnothing was broken yet, and not all tests pass")
        combine = [copy.python, "-m", "coverage", "combine", "-q", f"--rcfile={settings}", f"--data-file={lines}"]
        subprocess.run([*combine, work], check=True)
    slow = re.findall(r"^ *[0-9.]+s (?:call|setup|teardown) +(\S.*)$", printed, re.MULTILINE)
    (kept / "slow").write_text("\n".join(slow), encoding="utf-8")
    (kept / "tree").write_text(str(copy.tree), encoding="utf-8")


def tried(chosen: Sequence[Break], copies: Sequence[Copy], tests_of: Callable[[Break], Sequence[str]]) -> list[Break]:
    """What none of its tests noticed, said at once on standard error."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    first = next(filter(None, map(tests_of, chosen)), ())
    for copy in copies:
        # Else any break would be noticed.
        if first and copy.fails(first):
            sys.exit(f"nothing was broken yet, and tests fail: {' '.join(first)}")
        free.put(copy)

    def is_noticed(one: Break) -> bool:
        tests = tests_of(one)
        copy = free.get()
        try:
            return bool(tests) and copy.notices(one, tests)
        finally:
            free.put(copy)

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        left = []
        for number, (one, noticed) in enumerate(zip(chosen, pool.map(is_noticed, chosen), strict=True), 1):
            if not noticed:
                left.append(one)
                print(f"unnoticed: {one.line}: {one.described((ROOT / one.module).read_bytes())}", file=sys.stderr)
            if number % 10 == 0:
                print(f"{number} of {len(chosen)} places broken, {len(left)} unnoticed", file=sys.stderr)
    return left


def main() -> int:
    """Break the modules that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=CRITICAL, help="paths of modules, as arcacct/records/usage.py")
    parser.add_argument("--sample", type=int, help="how many places to break, chosen among all")
    parser.add_argument("--lines", action="store_true", help="one break of each line, also chosen")
    parser.add_argument("--seed", type=int, default=0, help="by what they are chosen")
    parser.add_argument("--slice", default="1/1", metavar="I/N", help="break the I-th of N parts of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--tests", nargs="*", default=[], help="of other modules' tests only these; by default all")
    parser.add_argument("--seen", type=pathlib.Path, help="a directory for which tests run which lines")
    parser.add_argument("--list", action="store_true", help="only say what would be broken")
    arguments = parser.parse_args()
    sources = {module: (ROOT / module).read_bytes() for module in arguments.modules}
    chosen = [one for module, source in sources.items() for one in breaks_of(module, source)]
    if arguments.lines:
        shuffled = random.Random(arguments.seed).sample(chosen, len(chosen))
        one_of_each = {*{(one.module, one.line): one for one in shuffled}.values()}
        chosen = [one for one in chosen if one in one_of_each]
    if arguments.sample is not None and arguments.sample < len(chosen):
        chosen = sorted(random.Random(arguments.seed).sample(chosen, arguments.sample))
    part, parts = map(int, arguments.slice.split("/"))
    chosen = chosen[part - 1 :: parts]
    if arguments.list:
        print(*(f"{one.line}: {one.described(sources[one.module])}" for one in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as directory:
        # Some tests are other users, who must get at the program.
        pathlib.Path(directory).chmod(0o755)
        copies = [Copy(pathlib.Path(directory, str(number))) for number in range(arguments.jobs)]
        kept = arguments.seen or pathlib.Path(directory, "seen")
        kept.mkdir(exist_ok=True)
        try:
            left = tried(chosen, copies, lambda one: tests_of_module(one.module))
            if left and not (kept / "tree").exists():
                see(copies[0], kept, arguments.tests)
            left = tried(left, copies, Runs(kept).tests_of) if left else []
        finally:
            for copy in copies:
                copy.close()
    known = explained(EXPLAINED.read_text(encoding="utf-8"))
    new = sorted({text for one in left if (text := one.described(sources[one.module])) not in known})
    print(f"\n{len(chosen)} broken, {len(left)} unnoticed, {len(left) - len(new)} of them explained")
    print(*new, sep="\n")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
