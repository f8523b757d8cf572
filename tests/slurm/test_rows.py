"""Rows of tables whose texts have delimiters and line ends: put together where it is certain, else set aside."""

from __future__ import annotations

import sys

import pytest
from memory import cost_of
from slurm_files import COLUMNS, DATA, TABLE, row

from arcacct.errors import InputError
from arcacct.slurm.rows import HORIZON, Misfit, TableRow, TableRows, header_of


def rows(*lines: str, columns: str = COLUMNS) -> list[TableRow | Misfit]:
    return list(TableRows(header_of(columns)).of(enumerate("\n".join(lines).split("\n"), 2)))


def names(found: list[TableRow | Misfit]) -> list[str | None]:
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


def test_a_name_that_looks_like_a_row_makes_none() -> None:
    """The whole of it is in doubt, and what stands behind it is not."""
    fake = row(99, User="bob", Account="lz", ElapsedRaw=9999)
    found = rows(row(1), row(2, JobName=f"a\n{fake}\nb"), row(3, JobName="x" * HORIZON), row(4))

    assert names(found) == ["job", None, "x" * HORIZON, "job"]
    assert not any(isinstance(one, TableRow) and one.values["JobIDRaw"] == "99" for one in found)


def test_a_name_that_looks_like_the_end_of_its_row_changes_no_number() -> None:
    """What stands behind it has no place then: all of it is in doubt."""
    found = rows(row(1), row(2, JobName="a|wn09\nb"), row(3))

    assert names(found) == ["job", None, "job"]
    assert [one.values["NodeList"] for one in found if isinstance(one, TableRow)] == ["wn01", "wn01"]


def test_a_torn_row_takes_no_other_with_it_unseen() -> None:
    """Torn in its name it may go on in the next line, so that neither is certain; torn before it costs itself."""
    in_its_name, before = row(2).partition("job")[0] + "jo", row(2)[:40]
    assert names(rows(row(1), before, row(3), row(4))) == ["job", None, "job", "job"]
    found = rows(row(1), in_its_name, row(3), row(4))

    assert names(found) == ["job", None, "job"]
    assert found[1].lines == (in_its_name, row(3))


def test_lines_that_are_nothing_cost_themselves_and_the_row_before() -> None:
    """Of whose name they may be the rest."""
    found = rows(row(1), row(2), "slurm_load_jobs error: x", "", row(3))

    assert [type(one) for one in found] == [TableRow, Misfit, TableRow]
    assert found[1].lines == (row(2), "slurm_load_jobs error: x", "")


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
from arcacct.slurm.output import OutputForm, read
first, good = {COLUMNS!r}, {row(1)!r}
whole = "".join(one + "\\n" for one in (first, good, good, {row(2)[:50]!r}, *[{line!r}] * {times}, *[good] * 200))
found = list(read([whole.encode()], OutputForm()))
assert "SlurmRun" in {{type(one.what).__name__ for one in (found[0], found[-1])}}
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=25).peak_kib < 200 * 1024
