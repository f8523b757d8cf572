"""What EGI's portal shows, held against the database: by VO, in jobs and in hours, with likely causes."""

from __future__ import annotations

import pytest

from arcacct.asking.portal import compare_portal, read_portal
from arcacct.jobs.aar import UsageCell

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
    """Less, more, only there, not there at all: one line for each, with the VOs and both figures."""
    text = "VO,Nov 2026\natlas,900\nbio,30\nlhcb,7\n"
    found = compare_portal(portal(text), NOVEMBER, CELLS)

    less, more, only, missing = sorted(found.differences, key=lambda line: ("less", "more", "at ", "not ").index(
        next(start for start in ("less", "more", "at ", "not ") if line.startswith(start))
    ))  # fmt: skip
    assert less.endswith("atlas 900, in the database 1000")
    assert more.endswith("bio 30, in the database 20")
    assert only.endswith("lhcb 7, in the database 0")
    assert missing.endswith("no vo 0, in the database 5")
    assert (found.found, found.ours) == (937, 1025)


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
