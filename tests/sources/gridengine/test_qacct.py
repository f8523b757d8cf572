"""
`arcacct import gridengine --summary` against qacct itself, of Debian's package gridengine-client.

ARCACCT_QACCT names it, else the one on the path is asked; without any the tests are skipped.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from campaigns import sample
from gridengine_files import COLON, DATA, ENCODINGS, ran
from gridengine_questions import ANSWERS, QUESTIONS
from in_process import said

from arcacct.sources.gridengine.qacct import (
    FileRecords,
    Question,
    Row,
    database_sums,
    qacct_lines,
    table,
    table_columns,
    window,
)

_BOOTSTRAP = (
    "admin_user none\ndefault_domain none\nignore_fqdn true\nspooling_method classic\nspooling_lib libspoolc\n"
    "spooling_params /nowhere;/nowhere\nbinary_path /nowhere\nqmaster_spool_dir /nowhere\nsecurity_mode none\n"
    "listener_threads 2\nworker_threads 2\nscheduler_threads 1\n"
)
_NAMED = "-o owner -u owner -g group -P project -D department -A account -h host -q queue -pe pe -slots slots -ar ar"
_OURS = dict(zip(_NAMED.split()[::2], _NAMED.split()[1::2], strict=True))
GROUPS = (
    *("", "-o", "-o gealice", "-o nobody", "-u gebob", "-g", "-g gephysics", "-P", "-P atlas", "-D"),
    *(
        "-D defaultdepartment",
        "-A grid_atlas",
        "-h",
        "-h VM",
        "-q",
        "-q all.q",
        "-q *.q@vm",
        "-q sh*",
        "-pe",
        "-pe smp",
    ),
    *(
        "-slots",
        "-slots 3",
        "-ar",
        "-ar 1",
        "-o -P -pe -slots",
        "-o gealice -g",
        "-h -q",
        "-q -D -ar",
        "-g -o gebob -m",
    ),
)
TIMES = (
    *("-b 11200950", "-b 2611200950.30", "-b 202611200949", "-e 202611200949.30", "-b 2611200949 -e 11200951"),
    *("-b 202611200000 -d 1", "-e 202611210000 -d 1", "-d 2 -b 202611192359 -e 202611200951", "-d 30"),
    *("-E -b 202611200950", "-E -e 202611200949.30", "-E -d 1 -e 202611200950", "-b 6911200950", "-e 7001020000"),
)
ZONES = ("UTC", "NST3:30NDT,M3.2.0,M11.1.0", "<+14>-14")


@pytest.fixture(scope="module")
def qacct(tmp_path_factory) -> Callable[..., list[str]]:
    """What it prints of a file; it asks for a cell with some settings, and connects to nothing."""
    program = os.environ.get("ARCACCT_QACCT") or shutil.which("qacct")
    if program is None:
        pytest.skip("there is no qacct (Debian: gridengine-client), and ARCACCT_QACCT names none")
    cell = tmp_path_factory.mktemp("sge") / "default" / "common"
    cell.mkdir(parents=True)
    (cell / "bootstrap").write_text(_BOOTSTRAP)
    (cell / "act_qmaster").write_text("localhost\n")
    of_sge = {"SGE_ROOT": str(cell.parents[1]), "SGE_QMASTER_PORT": "6444", "SGE_EXECD_PORT": "6445"}

    def asked(path: pathlib.Path, *words: str) -> list[str]:
        command = [program, "-f", str(path), *words]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, **of_sge}
        )
        return done.stdout.splitlines()

    return asked


@pytest.fixture(params=ZONES)
def zone(request) -> Iterator[str]:
    """The zone of the host."""
    with pytest.MonkeyPatch.context() as here:
        here.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def translated(words: list[str]) -> list[str]:
    """A question of qacct's in our options, as the manual has them."""
    ours: list[str] = []
    by: list[str] = []
    for place, word in enumerate(words):
        value = words[place + 1] if place + 1 < len(words) and not words[place + 1].startswith("-") else None
        if word in _OURS:
            by.append(_OURS[word])
            if value is not None:
                ours += [f"--{_OURS[word]}", value]
                # It shows the hosts of the queues that a pattern found.
                by += ["host"] if word == "-q" else []
        elif word.startswith("-"):
            ours += {"-E": ["--on", "end"]}.get(word, [word] if value is None else [word, value])
    return [*ours, *(["--by", ",".join(by)] if by else [])]


def rows(lines: list[str]) -> list[str]:
    """Those of a table, behind its header."""
    return lines[next(place for place, line in enumerate(lines) if line.startswith("=")) + 1 :]


def check(qacct: Callable[..., list[str]], capfd, path: pathlib.Path, question: str) -> None:
    words = question.split()
    theirs = qacct(path, *words)
    done = said(capfd, "import", "gridengine", "--summary", *translated(words), path)

    ours = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), question
    if not rows(theirs):
        # Where no wall clock was used at all it shows no row, whatever else was; and how wide they would be.
        assert {row.split()[-7] for row in rows(ours)} <= {"0"}, question
        return
    assert ours == theirs, question


@pytest.mark.parametrize("question", sample(GROUPS, 10))
def test_every_selection(qacct, capfd, question) -> None:
    """By whatever qacct sums, and whatever it selects, of a real file."""
    check(qacct, capfd, COLON, question)
    check(qacct, capfd, COLON, f"{question} -m")


@pytest.mark.parametrize("question", sample(TIMES, 8))
def test_every_time(qacct, capfd, zone, question) -> None:
    """In each form and zone; the file is of one day."""
    check(qacct, capfd, COLON, question)
    check(qacct, capfd, COLON, f"{question} -o -q")


def test_clocks_that_are_set_back(qacct, capfd, tmp_path, zone) -> None:
    """Around the ends of summer time, of a year and of a leap day, too."""
    path = tmp_path / "accounting"
    at = (1_793_500_000, 1_793_515_000, 1_804_000_000, 1_799_000_000, 1_798_761_599, 1_835_400_000)
    path.write_bytes(b"".join(ran(n, when - 5, when, when + n, owner=f"o{n}") for n, when in enumerate(at, 1)))

    for begin in ("2611010130", "202611010030", "202703140330", "2701010000", "202802290000", "202612312359.59"):
        check(qacct, capfd, path, f"-b {begin} -o")
        check(qacct, capfd, path, f"-E -e {begin} -o")


# What qacct prints of a file, and what we make of the same question.


QACCT = DATA / "qacct-out"


def sums(path: pathlib.Path, question: Question) -> list[Row]:
    """The sums of a file's records."""
    with closing(FileRecords([str(path)], print).con) as con:
        return database_sums(con, question)


def printed(name: str) -> list[str]:
    """What qacct printed, without the command and the exit code."""
    lines = (QACCT / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith(("$", "rc="))]


@pytest.mark.parametrize("path", ENCODINGS, ids=lambda path: path.name.split(".", 1)[1])
@pytest.mark.parametrize("name", ANSWERS)
def test_the_same_table(name, path) -> None:
    """Our table of a real file is qacct's, character for character, from every encoding."""
    question = QUESTIONS[name]

    assert list(qacct_lines(question, sums(path, question))) == printed(name)


def test_every_answer_that_sums_is_tried() -> None:
    """No answer of qacct is forgotten: the others list records, explain options, or asked a live qmaster."""
    others = {path.stem for path in QACCT.glob("*.txt")} - set(ANSWERS) - {"E_e"}

    assert {name for name in others if not name.startswith(("j_", "m_j"))} == {"help", "t_only", "l_h_rt"}


def test_a_total_without_wall_clock() -> None:
    """Unlike qacct, which prints no row then, we print the sums of records that took less than a second."""
    question = QUESTIONS["E_e"]
    ours = list(qacct_lines(question, sums(COLON, question)))

    assert ours[:-1] == printed("E_e")
    assert ours[-1].split() == ["0", "0.000", "0.005", "0.005", "0.000", "0.000", "0.000"]


def test_what_qacct_lacks() -> None:
    """Wall clock times slots counts each job once, and CPU time over it is the efficiency."""
    question = QUESTIONS["slots_3"]
    ((slots, *numbers),) = table(sums(COLON, question))
    row = dict(zip(table_columns(question)[1:], numbers, strict=True))

    assert slots == 3
    assert (row["records"], row["wallclock_s"], row["slot_wallclock_s"]) == (5, 11, 3 * (1 + 2 + 5))
    assert row["cpu_efficiency"] == round(row["cpu_s"] / row["slot_wallclock_s"], 4)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param((None, None, 2), (1_000_000 - 172_800, None), id="up to now"),
        pytest.param((500, None, 1), (500, 86_900), id="from a time"),
        pytest.param((None, 100_000, 1), (13_600, 100_000), id="up to a time"),
        pytest.param((1, 2, 3), (1, 2), id="both: ignored"),
        pytest.param((1, None, None), (1, None), id="no days"),
    ],
)
def test_days(given, expected) -> None:
    """Days count from the begin, else back from the end, else back from now."""
    assert window(*given, 1_000_000) == expected
