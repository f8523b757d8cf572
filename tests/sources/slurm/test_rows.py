"""Rows of tables whose texts have delimiters and line ends: put together where it is certain, else set aside."""

from __future__ import annotations

import sys

import pytest
from memory import cost_of
from slurm_files import COLUMNS, DATA, TABLE, row

from arcacct.errors import InputError
from arcacct.records.slurm_formats import new_delimiter
from arcacct.sources.engine.runs import Noise
from arcacct.sources.slurm.record import Misfit, TableRow, TableRows, header_of


def rows(*lines: str, columns: str = COLUMNS) -> list[TableRow | Misfit | Noise]:
    return list(TableRows(header_of(columns)).of(enumerate("\n".join(lines).split("\n"), 2)))


def names(found: list[TableRow | Misfit | Noise]) -> list[str | None]:
    return [one.values["JobName"] if isinstance(one, TableRow) else None for one in found]


def test_every_row_of_a_real_table_is_put_together() -> None:
    """Nine lines have not its 109 fields: names, comments and command lines with delimiters and line ends."""
    first, *lines = TABLE.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = rows(*lines, columns=first)

    assert sum(line.count("|") != 108 for line in lines) == 9
    assert not [one for one in found if isinstance(one, Misfit)]
    of_job = {one.values["JobID"]: one.values["JobName"] for one in found if isinstance(one, TableRow)}
    assert (of_job["32"], of_job["35"], of_job["28.4"]) == ("pipe|in|name", "line1\nline2", "step|pipe")
    assert of_job["37"] == "quote`s 'single' back\\slash, comma; semi"
    assert (of_job["33"], of_job["53"]) == ("ünï Größe ? ?? ?", "ünï Größe Δ 日本 🚀 utf8mb4")


def test_another_delimiter_leaves_line_ends_only() -> None:
    first, *lines = (DATA / "sacct-X-delimiter-x1f.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = rows(*lines, columns=first)

    assert header_of(first).delimiter == "\x1f"
    assert [len(one.lines) for one in found if len(one.lines) > 1] == [2, 2]
    assert not [one for one in found if isinstance(one, Misfit)]


def test_a_delimiter_behind_the_last_column() -> None:
    """As `sacct -p` writes it."""
    (one,) = rows("1|x|COMPLETED|", columns="JobIDRaw|JobName|State|")

    assert isinstance(one, TableRow)
    assert one.values == {"JobIDRaw": "1", "JobName": "x", "State": "COMPLETED"}


def test_names_are_taken_in_any_letters() -> None:
    (one,) = rows("1|x|COMPLETED", columns="jobidraw|jobname|state")

    assert isinstance(one, TableRow)
    assert one.values == {"JobIDRaw": "1", "JobName": "x", "State": "COMPLETED"}


@pytest.mark.parametrize(
    "line", ["", "JobID", "1|2|3", "JobID           JobName  Partition", "JobID|JobID", "Job ID|State"]
)
def test_what_is_no_header(line: str) -> None:
    with pytest.raises(InputError, match="header"):
        header_of(line)


def test_a_delimiter_with_letters_has_to_be_told() -> None:
    assert header_of("JobIDxyStatexyEnd", "xy").columns == ("JobID", "State", "End")


@pytest.mark.parametrize(
    "bad",
    [
        ("", ""),
        ("sacct: error: slurmdbd: Connection refused", "sacct: error: x"),
        (row(100)[:60], row(101)[:60]),
        (row(100)[20:], row(101)[20:]),
        (row(100).partition("job")[0] + "jo", row(101)[:60]),
    ],
)
def test_a_bad_line_costs_nothing_but_itself(bad: tuple[str, str]) -> None:
    """Of two with forty good rows between them: all forty are read, and so are those before and behind."""
    good = [row(number) for number in range(1, 43)]
    found = rows(good[0], bad[0], *good[1:41], bad[1], good[41])

    assert [one.lines[0] for one in found if isinstance(one, TableRow)] == good
    assert len(found) == 44


def test_blank_lines_and_those_without_the_delimiter_are_noise() -> None:
    found = rows(row(1), "", "sacct: error: x", row(2))

    assert [type(one) for one in found] == [TableRow, Noise, Noise, TableRow]
    assert [(one.line, one.number) for one in found if isinstance(one, Noise)] == [("", 3), ("sacct: error: x", 4)]


def test_a_torn_row_and_the_row_behind_it_are_not_one() -> None:
    """Also where the second one is torn as well, and they could be put together."""
    in_its_name = row(2).partition("job")[0] + "jo"
    found = rows(row(1), in_its_name, row(3), in_its_name, row(4)[:-6], row(5))

    assert [one.values["JobIDRaw"] for one in found if isinstance(one, TableRow)] == ["1", "3", "5"]
    assert [one.job for one in found if isinstance(one, Misfit)] == ["2", "2", "4"]


def test_a_name_with_line_ends_is_put_together() -> None:
    found = rows(row(1), row(2, JobName="x\n\ny z"), row(3))

    assert names(found) == ["job", "x\n\ny z", "job"]


@pytest.mark.parametrize("name", ["User", "Group", "Account", "WCKey", "Reservation", "Partition"])
def test_a_blank_in_a_name_is_read(name: str) -> None:
    """Groups of an Active Directory have them."""
    (one,) = rows("1|domain users|COMPLETED", columns=f"JobIDRaw|{name}|State")

    assert isinstance(one, TableRow)
    assert one.values[name] == "domain users"


def test_with_a_secret_delimiter_the_number_of_fields_decides() -> None:
    """Whatever is in them, and however many lines a text has; a row with fewer costs itself."""
    between = new_delimiter()
    columns, *lines = (
        between.join(fields)
        for fields in (
            ("JobIDRaw", "JobName", "ReqNodes", "State", "User"),
            ("1", "a|b\n\n2|x\nc", "0.00K", "COMPLETED", "domain users"),
            ("2", "x"),
            ("3", "y", "-", "FAILED", "u|v"),
        )
    )
    found = rows(*lines, columns=columns)

    assert names(found) == ["a|b\n\n2|x\nc", None, "y"]
    assert [one.values["User"] for one in found if isinstance(one, TableRow)] == ["domain users", "u|v"]


def test_any_text_may_hold_the_delimiter() -> None:
    """Between values with a proven shape the reading is certain; else the row is rejected, with a way out."""
    (certain,) = rows("1|a100|h100|COMPLETED", columns="JobIDRaw|Constraints|State")
    (doubtful,) = rows("1|ada|a100|h100|COMPLETED", columns="JobIDRaw|User|Constraints|State")

    assert isinstance(certain, TableRow)
    assert isinstance(doubtful, Misfit)
    assert all(way in doubtful.reason for way in ("--json", "--delimiter", "--run"))


def test_two_texts_with_delimiters_between_which_anything_fits_are_not_certain() -> None:
    (one,) = rows("1|a|b|c|COMPLETED", columns="JobIDRaw|JobName|Comment|State")

    assert isinstance(one, Misfit)


def test_a_text_that_is_not_used_need_not_be_certain() -> None:
    (one,) = rows("1|a|b|c|COMPLETED", columns="JobIDRaw|AdminComment|Comment|State")

    assert isinstance(one, TableRow)
    assert one.values == {"JobIDRaw": "1", "State": "COMPLETED"}


def test_many_broken_lines_are_read_in_time_that_grows_with_them() -> None:
    """No line is tried with more than some behind it."""
    found = rows(*[row(number)[:30] for number in range(1, 3000)])

    assert all(isinstance(one, Misfit) for one in found)


@pytest.mark.parametrize(("line", "times"), [("", 60_000), ("x", 60_000), ("a|b|c", 60_000), ("1|testgrid", 5_000)])
def test_thousands_of_lines_that_are_no_rows(line, times) -> None:
    """What is left of one row, or seems to be, takes time and memory in proportion; rows before and behind are read."""
    code = f"""
from arcacct.sources.slurm.sacct import OutputForm, read
first, good = {COLUMNS!r}, {row(1)!r}
whole = "".join(one + "\\n" for one in (first, good, good, {row(2)[:50]!r}, *[{line!r}] * {times}, *[good] * 200))
found = list(read([whole.encode()], OutputForm()))
assert "SlurmRun" in {{type(one.what).__name__ for one in (found[0], found[-1])}}
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=25).peak_kib < 200 * 1024
