"""The file of pledges: which line holds in which month, and every mistake with its line."""

from __future__ import annotations

import os

import pytest
import stored_jobs
from in_process import said

from arcacct.errors import InputError
from arcacct.reports.tables import Pledge, pledges

GOOD = """\
# what was promised
vo,from,hours,kind
atlas,2026-04,40000,core
atlas,2026-10,60000,core
atlas,2026-12,1,core

atlas,2026-01,500,hs06
alice,2027-01,3,cpu
"""


def test_the_last_line_that_began_holds(tmp_path) -> None:
    """Each VO and kind has the hours of the line that began last; what begins later does not count yet."""
    path = tmp_path / "pledge.csv"
    path.write_text(GOOD)

    assert pledges(str(path), (2026, 11)) == [Pledge("atlas", "core", 60000.0, 4), Pledge("atlas", "hs06", 500.0, 1)]
    assert pledges(str(path), (2026, 3)) == [Pledge("atlas", "hs06", 500.0, 1)]
    assert pledges(str(path), (2025, 12)) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("atlas,2026-13,5,core", "'2026-13' is not a month"),
        ("atlas,2026-11,many,core", "'many' is not an amount"),
        ("atlas,2026-11,nan,core", "'nan' is not an amount"),
        ("atlas,2026-11,-1,core", "'-1' is not an amount"),
        ("atlas,2026-11,5,gpu", "'gpu' is not a kind of hours; write one of core, cpu, hs06, hepscore23"),
        (",2026-11,5,core", "no VO is named"),
        ("atlas,2026-11,5", "3 columns; write vo,from,hours,kind"),
        ("atlas", "1 column; write vo,from,hours,kind"),
        ("atlas;2026-11;5;core", "the separator is a semicolon; it must be a comma: write vo,from,hours,kind"),
        ("atlas\t2026-11\t5\tcore", "the separator is a tab; it must be a comma: write vo,from,hours,kind"),
        ("atlas,2026-04,7,core", "has a pledge of core from 2026-04 already"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_every_mistake_is_told_with_its_line(tmp_path, line, what) -> None:
    """What is wrong, in which line, and what would be right."""
    path = tmp_path / "pledge.csv"
    path.write_bytes((GOOD + line + "\n").encode("utf-8", "surrogateescape"))

    with pytest.raises(InputError) as raised:
        pledges(str(path), (2026, 11))

    assert str(raised.value).startswith(f"{path}:9: ")
    assert what in str(raised.value)


def test_a_quote_without_an_end_is_told(tmp_path) -> None:
    """It would hide the lines after it; in a comment it is nothing."""
    path = tmp_path / "pledge.csv"
    path.write_text('# "first\n"a,b",2026-04,5,core\n"atlas,2026-04,6,core\ncms,2026-04,7,core\n')

    with pytest.raises(InputError, match=r"pledge.csv, line 3: a quote has no end, or text follows it"):
        pledges(str(path), (2026, 11))


def test_what_is_no_file_is_not_waited_for(tmp_path) -> None:
    """A pipe without a writer."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="pipe: cannot be read: a pipe, not a regular file; give"):
        pledges(str(tmp_path / "pipe"), (2026, 11))


def test_use_is_compared_with_the_pledge(capsys, site, tmp_path) -> None:
    """A VO without a job has used nothing; the share is of the hours that the pledge is in."""
    made = site()
    made.add(stored_jobs.job(1))
    path = tmp_path / "pledge.csv"
    path.write_text("atlas,2026-05,100,hs06\nnobody,2026-05,10,core\n")

    done = said(capsys, "--config", made.conf, "report", "--month", "2026-05", "--pledge", path)

    # 3500 s on 8 cores of 12.26 HS06.
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["atlas", "hs06", "100.0", "95.356", "0.9536"] in lines
    assert ["nobody", "core", "10.0", "0.0", "0.0"] in lines


def test_a_missing_file_is_told(capsys, site) -> None:
    """The report is not made without what was asked for."""
    made = site()
    made.add(stored_jobs.job(1))

    done = said(capsys, "--config", made.conf, "report", "--month", "2026-05", "--pledge", "/nowhere.csv")

    assert (done.returncode, done.stdout) == (65, "")
    assert "/nowhere.csv: cannot be read: No such file or directory" in done.stderr
