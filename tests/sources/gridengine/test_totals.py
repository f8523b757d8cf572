"""What qacct prints of a file, and what we make of the same question."""

from __future__ import annotations

import pathlib
from contextlib import closing

import pytest
from gridengine_files import COLON, DATA, ENCODINGS
from gridengine_questions import ANSWERS, QUESTIONS

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
