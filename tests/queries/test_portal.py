"""What EGI's portal shows, held against the database: by VO, in jobs and in hours, with likely causes."""

from __future__ import annotations

import os

import pytest

from arcacct.errors import InputError
from arcacct.queries.portal import NotedJobs, PortalContext, compare_portal, read_portal
from arcacct.records.model import UsageCell

NOVEMBER = (2026, 11)


def cell(
    vo: str | None, jobs: int, wall_h: int, cpu_h: int, cores: int = 1, benchmark: str = "HEPSPEC:10"
) -> UsageCell:
    return UsageCell(
        2026, 11, "/CN=x", vo, None, "https://ce.example.org/arex", 1, cores, benchmark, jobs, wall_h * 3600,
        cpu_h * 3600, 1, 1,
    )  # fmt: skip


CELLS = [cell("atlas", 1000, 800, 700, cores=8), cell("bio", 20, 40, 30), cell(None, 5, 3, 2)]


@pytest.fixture
def portal(tmp_path):
    """A CSV export with this text."""

    def write(text: str) -> str:
        path = tmp_path / "portal.csv"
        path.write_text(text)
        return str(path)

    return write


def table(title: str, atlas: object, bio: object, none: object = 5) -> str:
    return f"{title}\nVO,Oct 2026,Nov 2026,Total\natlas,1,{atlas},2\nbio,1,{bio},2\nno VO,0,{none},1\nTotal,2,9,9\n"


@pytest.mark.parametrize(
    ("title", "measure", "values"),
    [
        ("Sum Number of Jobs by VO and Month", "jobs", (1000, 20, 5)),
        ("Sum Elapsed (hours)", "wall hours", (800, 40, 3)),
        ("Sum CPU (hours)", "CPU hours", (700, 30, 2)),
        ("Sum Elapsed * Number of Processors (hours)", "core hours", (6400, 40, 3)),
        ("Normalised Sum CPU (HEPSPEC06 hours)", "normalised CPU hours", (7000, 300, 20)),
        ("Normalised Sum Elapsed * Number of Processors (HS06 hours)", "normalised core hours", (64000, 400, 30)),
    ],
)
def test_every_measure_of_the_portal_is_understood(portal, title, measure, values) -> None:
    """The title says what the table is of; hours agree when less than one is between them."""
    found = compare_portal(portal(table(title, *values)), NOVEMBER, CELLS)
    assert (found.measure, found.differences) == (measure, [])
    if measure != "jobs":
        atlas, *others = values
        assert compare_portal(portal(table(title, atlas + 0.6, *others)), NOVEMBER, CELLS).differences == []


def test_differences_are_grouped_by_their_cause(portal) -> None:
    """Less, more, only there, not there at all: one line for each, with what to do, the VOs and both figures."""
    text = "VO,Nov 2026\natlas,900\nbio,30\nlhcb,7\n"
    found = compare_portal(portal(text), NOVEMBER, CELLS)

    by_cause = {line.partition(" (")[0]: line for line in found.differences}
    assert by_cause["less at the portal"].endswith("): atlas 900, in the database 1000")
    assert by_cause["more at the portal"].endswith("): bio 30, in the database 20")
    assert by_cause["at the portal only"].endswith("): lhcb 7, in the database 0")
    assert by_cause["not at the portal at all"].endswith("): no vo 0, in the database 5")
    assert "`arcacct republish`" in by_cause["less at the portal"]
    assert (found.found, found.ours) == (937, 1025)
    assert [(row.name, row.there, row.here, row.causes) for row in found.rows][2] == (
        "lhcb", 7, 0, ("at the portal only",),
    )  # fmt: skip


def test_what_is_known_here_of_a_difference_is_its_cause(portal) -> None:
    """Jobs that are held or set aside, VOs that no one sends, what came after the export: each with an example."""
    noted = [
        NotedJobs("atlas", "apel:egi", "quarantined", 60, 7_200, 3_600, "JOB1"),
        NotedJobs("atlas", "apel:egi", "held", 1, 3_600, 3_600, "JOB2"),
        NotedJobs("bio", "apel:egi", "sent, but no longer in the database", 10, 0, 0, "JOB3"),
    ]
    known = PortalContext(noted, {"atlas": 30, "bio": 3}, ["SITE"], {"no vo": "JOB4"})
    found = compare_portal(portal("VO,Nov 2026\natlas,900\nbio,30\n"), NOVEMBER, CELLS, known)

    texts = {line.partition(" (")[0]: line for line in found.differences}
    assert texts["quarantined"].endswith("atlas 900, in the database 1000 (60 jobs by apel:egi, as JOB1)")
    assert texts["held"].endswith("atlas 900, in the database 1000 (1 job by apel:egi, as JOB2)")
    assert texts["sent after the export was made"].endswith("(up to 30 of its 1000 jobs)")
    assert texts["sent, but no longer in the database"].endswith("(10 jobs by apel:egi, as JOB3)")
    assert texts["not selected"].endswith("no vo 0, in the database 5 (job JOB4)")
    hours = compare_portal(portal(table("Sum CPU (hours)", 690, 30, 2)), NOVEMBER, CELLS, known)
    assert "(60 jobs of 1 CPU h by apel:egi, as JOB1)" in hours.differences[0]


def test_another_benchmark_is_known_by_its_ratio(portal) -> None:
    """Normalised hours that are all the same portion there, or whose jobs agree, differ by the benchmark."""
    title = "Normalised Sum CPU (HEPSPEC06 hours)"
    scaled = compare_portal(portal(table(title, 6300, 270, 18)), NOVEMBER, CELLS)
    one = compare_portal(portal(table(title, 6300, 300, 20)), NOVEMBER, CELLS)
    checked = compare_portal(portal(table(title, 6300, 300, 20)), NOVEMBER, CELLS, PortalContext(same_jobs=["atlas"]))

    assert scaled.differences[0].startswith("another benchmark (")
    assert "atlas 6300, in the database 7000 (0.9000 of it)" in scaled.differences[0]
    assert [row.causes for row in scaled.rows] == [("another benchmark",)] * 3
    assert [row.causes for row in one.rows] == [("less at the portal",), (), ()]
    assert [row.causes for row in checked.rows] == [("another benchmark",), (), ()]


def test_a_table_of_sites_is_compared_by_ours(portal) -> None:
    """Of several sites the one that we are; where it is not among them, that is the cause."""
    path = portal("SITE,Nov 2026\nOUR-SITE,1025\nB-SITE,25\n")

    assert compare_portal(path, NOVEMBER, CELLS, PortalContext(sites=["our-site"])).differences == []
    (other,) = compare_portal(path, NOVEMBER, CELLS, PortalContext(sites=["MY-SITE"])).differences
    assert other.startswith("another site name (export the table of the site in gocdb_name=)")


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": "atlas", "2026-11": 1000}, {"id": "bio", "2026-11": "20"}, {"id": "", "var": "Jobs"}]',
        '{"title": "Number of Jobs", "data": [{"VO": "atlas", "Nov 2026": 1000}, {"VO": "bio", "Nov 2026": 20}]}',
        '{"atlas": {"2026-11": 1000}, "bio": {"2026-11": 20, "2026-12": null}}',
    ],
    ids=["rows", "titled", "by name"],
)
def test_json_has_the_same_table(portal, text) -> None:
    """An export in JSON, whichever way round its objects are."""
    assert read_portal(portal(text), NOVEMBER) == ("jobs", {"atlas": 1000.0, "bio": 20.0})


@pytest.mark.parametrize("text", ["[]", "{", '["2026-11"]', '{"a": 1}', "[" * 100_000, "[1e400]"])
def test_json_without_a_table_is_refused(portal, text) -> None:
    """One error, whatever is in it."""
    with pytest.raises(InputError, match=r"no table in this JSON|no 2026-11 in it"):
        read_portal(portal(text), NOVEMBER)


@pytest.mark.parametrize("amount", ["nan", "inf", "1e999", "-5", "9" * 400, "12 h"])
def test_what_is_no_amount_is_refused(portal, amount) -> None:
    """No figure of an export can be beyond all measure."""
    with pytest.raises(InputError, match="is not an amount"):
        read_portal(portal(f"VO,Nov 2026\natlas,{amount}\n"), NOVEMBER)


@pytest.mark.parametrize(
    "text", ["VO,Nov 2026\natlas,9\nATLAS,4\n", "Month,atlas,atlas\nNov 2026,9,4\n"], ids=["rows", "columns"]
)
def test_a_name_that_comes_twice_is_refused(portal, text) -> None:
    """The last of them might be what the database has, and all would agree."""
    with pytest.raises(InputError, match="appears twice; export one table, with one row for each name"):
        read_portal(portal(text), NOVEMBER)


def test_a_table_of_something_else_is_compared_as_a_whole(portal) -> None:
    """Names that are no VOs of ours, such as sites: only the sum can tell."""
    good = compare_portal(portal("SITE,Nov 2026\nA-SITE,1000\nB-SITE,25\n"), NOVEMBER, CELLS)
    bad = compare_portal(portal("SITE,Nov 2026\nA-SITE,1000\nB-SITE,20\n"), NOVEMBER, CELLS)

    assert good.differences == []
    assert bad.differences[0].endswith("in all 1020, in the database 1025")


def test_months_on_the_other_side(portal) -> None:
    """VOs as columns, months as rows, with a title above."""
    text = "Sum CPU (hours)\n\nDATE;atlas;bio;Total;Percent\n2026-10;1;1;2;1\n2026-11;700;30;730;99%\nTotal;1;1;2;\n"
    assert read_portal(portal(text), NOVEMBER).values == {"atlas": 700.0, "bio": 30.0}
    assert read_portal(portal(text), NOVEMBER).measure == "CPU hours"


def test_lines_of_an_export_end_where_its_writer_ends_them(portal) -> None:
    """At no separator of Unicode's and not within quotes; a quote within a name is a part of it."""
    text = 'Jobs of "all" VOs\r\nVO,Nov 2026\r\na\u2028b,1\r\n"c\nd ""e""",2\r\nf"g,3\r\n'

    assert read_portal(portal(text), NOVEMBER).values == {"a\u2028b": 1.0, 'c\nd "e"': 2.0, 'f"g': 3.0}


def test_a_broken_quote_of_an_export_is_named_by_its_line(portal) -> None:
    """What follows it would be swallowed."""
    with pytest.raises(InputError, match=r"portal.csv, line 2: a quote has no end, or text follows it"):
        read_portal(portal('VO,Nov 2026\n"atlas,9\ncms,4\n'), NOVEMBER)


def test_an_export_that_is_no_file_or_too_large_is_refused(tmp_path) -> None:
    """None is read in part, and none is waited for."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_text("VO,Nov 2026\natlas,9\n")
    os.truncate(large, 8 * 2**20 + 1)

    for path, says in (
        (pipe, "a pipe, not a regular file"),
        (large, "larger than 8 MiB"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(InputError, match=says):
            read_portal(str(path), NOVEMBER)
