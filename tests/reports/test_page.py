"""The page: whatever users, VOs and hosts are called, it is one page, and says what the tables say."""

from __future__ import annotations

import html
import importlib.metadata
import importlib.util
import re
import sys
from html.parser import HTMLParser

import pytest
import rehearsal
import stored_jobs
from in_process import said

from arcacct.publishing import run, target_run
from arcacct.reports import charts
from arcacct.reports.month import ReportRequest, month_report
from arcacct.reports.page import _shown, page
from arcacct.reports.tables import Column, Table, readable, tidy
from arcacct.sandbox import Sandbox
from arcacct.targets import plugins

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m\u202e"
MAY = ("--month", "2026-05")
NOW = 1_790_000_000


class Shape(HTMLParser):
    """Elements and attributes of a page, and what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


def shape(text: str) -> Shape:
    found = Shape()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def written(capsys, made, *options: object) -> str:
    path = made.path / "report.html"
    done = said(capsys, "--config", made.conf, "report", *MAY, *options, "--html", path)
    assert (done.returncode, done.stdout) == (0, "")
    return path.read_text(encoding="utf-8")


def test_hostile_names_stay_text(capsys, site, tmp_path) -> None:
    """A DN, a VO and a pledge that are HTML are shown in letters, in tables, charts and the title alike."""
    made = site("core_watts=5\ncarbon_intensity=40")
    made.add(stored_jobs.job(1)._replace(vo=HOSTILE, user_dn=f"/CN={HOSTILE}"), stored_jobs.job(2)._replace(vo="=1+1"))
    pledge = tmp_path / "pledge.csv"
    pledge.write_text("<script>x</script>,2026-05,5,core\n")

    text = written(capsys, made, "--pledge", pledge)

    found = shape(text)
    assert not {tag for tag, _attrs in found.tags} & {"script", "img", "iframe", "object", "link", "foreignobject"}
    assert not [name for _tag, attrs in found.tags for name in attrs if name.startswith("on")]
    assert "<script>alert(1)</script>" in found.text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_page_needs_nothing_else(capsys, site) -> None:
    """No address that a browser would fetch, no script, no style that fetches one, and a policy that says so."""
    made = site()
    made.add(*(stored_jobs.job(number) for number in range(4)))

    text = written(capsys, made)

    found = shape(text)
    fetched = {"src", "href", "srcset", "data", "poster", "xlink:href", "action"}
    assert [(tag, attrs) for tag, attrs in found.tags if fetched & set(attrs)] == []
    assert not re.search(r"url\(|@import|javascript:", text)
    assert {value for tag, attrs in found.tags for name, value in attrs.items() if "://" in (value or "")} == {
        "http://www.w3.org/2000/svg"
    }
    policy = next(attrs["content"] for tag, attrs in found.tags if "http-equiv" in attrs)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_tables_and_charts_can_be_heard(capsys, site) -> None:
    """Every table has a caption and headers with a scope; every chart a title and a description; no id comes twice."""
    made = site("core_watts=5")
    made.add(*(stored_jobs.job(number)._replace(vo=f"vo{number}") for number in range(9)))

    text = written(capsys, made)

    found = shape(text)
    tags = [tag for tag, _attrs in found.tags]
    assert tags.count("table") == tags.count("caption") > 3
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in found.tags if tag == "th")
    drawn = [attrs for tag, attrs in found.tags if tag == "svg"]
    ids = [attrs["id"] for _tag, attrs in found.tags if "id" in attrs]
    assert len(drawn) == 4
    assert len(ids) == len(set(ids))
    for chart in drawn:
        assert chart["role"] == "img"
        assert set((chart["aria-labelledby"] or "").split()) <= set(ids)
    assert ("html", {"lang": "en"}) in found.tags
    # More VOs than colours: the rest is one series.
    assert ">others<" in text


def test_the_page_has_the_figures_of_the_tables(site) -> None:
    """What the CSV has of VOs and users is on the page, as people write numbers; the same data gives the same bytes."""
    made = site("core_watts=5\npue=1.2")
    made.add(
        *(
            stored_jobs.job(number)._replace(wall_s=350_000, submit_time=stored_jobs.END_S - 10**6)
            for number in range(40)
        )
    )
    settings = made.settings()
    from contextlib import closing

    from arcacct.database import access

    def report(now: int):
        with (
            closing(access.read_accounting(settings.places)) as ours,
            closing(access.read_publishing(settings.places)) as ledger,
        ):
            return month_report(settings, ours, ledger, ReportRequest((2026, 5)), now).report

    first = report(NOW)
    text = page(first)
    assert page(report(NOW)) == text
    assert [*tidy(report(NOW + 99))] == [*tidy(first)]
    assert page(report(NOW + 99)) == text.replace("2026-09-21T14:13:20Z", "2026-09-21T14:14:59Z")
    assert "2026-09-21T14:13:20Z" in text
    # 40 jobs of 350,000 s on 8 cores.
    assert "31\u202f111" in text
    # Times 5 W.
    assert '<abbr class="mark" title="estimated, not measured">≈</abbr>\u202f155.6' in text


def test_nothing_is_green_that_should_not_be(capsys, tmp_path) -> None:
    """Without a target, with jura-ng's, with unsent jobs, and with all sent: only the last is well."""
    green = '<p class="verdict good">Every receiver has the same jobs as the database.</p>'
    page_of = tmp_path / "report.html"

    def verdict(conf: str) -> str:
        assert said(capsys, "--config", conf, "report", "--month", "2026-11", "--html", page_of).returncode == 0
        return re.findall(r'<p class="verdict.*', page_of.read_text(encoding="utf-8"))[0]

    with Sandbox(str(tmp_path)) as box:
        made = rehearsal.site(tmp_path, box, "")
        none = verdict(made.arc_conf)
        arc_conf = made.path / "arc.conf"
        before = arc_conf.read_text()
        arc_conf.write_text(f"{before}[arex/jura/sgas:old]\ntargeturl=https://sgas.example.org/sgas\n")
        of_jura = verdict(made.arc_conf)
        arc_conf.write_text(before)
        made.configure(rehearsal.SGAS_AND_CARS)
        unsent = verdict(made.arc_conf)
        settings = made.settings()
        outcomes = run.publish(settings, plugins(settings), target_run.RunOptions(since=0))
        sent = verdict(made.arc_conf)

    assert [outcome.error for outcome in outcomes] == [None, None]
    assert none == '<p class="verdict bad">No target is configured: nothing of this month is published.</p>'
    assert of_jura.startswith('<p class="verdict bad">A-REX&#x27;s jura-ng publishes')
    assert unsent == '<p class="verdict bad">NOT all places agree with the database.</p>'
    assert sent == green
    # What was sent since the last report is among what changed.
    assert re.search(r"given to sgas:s</th><td>0</td><td>\d+</td>", page_of.read_text(encoding="utf-8"))


def test_without_the_library_the_page_has_the_tables(capsys, site, monkeypatch) -> None:
    """It says what is missing and how to get it, on the page and on stderr."""
    made = site()
    made.add(stored_jobs.job(1))
    monkeypatch.setattr(charts, "find_spec", lambda _name: None)

    text = written(capsys, made)

    assert "<svg" not in text
    assert "atlas" in text
    assert html.escape(f"{sys.prefix}/bin/pip install 'arcacct[report]'") in text


def test_the_csv_is_safe_in_a_spreadsheet(capsys, site) -> None:
    """A VO that is called like a formula begins with an apostrophe."""
    made = site()
    made.add(stored_jobs.job(1)._replace(vo="=HYPERLINK(1)"))
    path = made.path / "r.csv"

    said(capsys, "--config", made.conf, "report", *MAY, "--csv", path)

    assert '"vo","\'=HYPERLINK(1)","jobs","jobs",1,"no"' in path.read_text()


def test_pygal_is_what_the_extra_brings() -> None:
    """The tests see charts: the library is there."""
    assert importlib.util.find_spec("pygal") is not None
    assert charts.available()


def test_charts_leave_the_packages_of_the_process_alone(capsys, site) -> None:
    """Targets of other packages are found by their entry points, after a report too."""
    made = site()
    made.add(stored_jobs.job(1))

    said(capsys, "--config", made.conf, "report", *MAY, "--html", made.path / "r.html")

    assert "<svg" in (made.path / "r.html").read_text()
    assert importlib.metadata.entry_points(group="pytest11")


@pytest.mark.parametrize("option", ["--html", "--csv"])
def test_a_file_that_cannot_be_written_is_told(capsys, site, option) -> None:
    """With its name and what to do."""
    made = site()
    made.add(stored_jobs.job(1))

    done = said(capsys, "--config", made.conf, "report", *MAY, option, "/nowhere/report")

    assert done.returncode == 65
    assert "/nowhere/report: cannot be written: No such file or directory" in done.stderr
    assert (
        "/tmp: a directory; give the name of a file"
        in said(capsys, "--config", made.conf, "report", *MAY, option, "/tmp").stderr
    )


def test_the_chart_has_a_place_for_each_day_of_the_month(capsys, site) -> None:
    """A day without jobs is an empty place, and the last day is named: an outage is seen."""
    made = site()
    made.add(*(stored_jobs.job(number) for number in range(3)))

    text = written(capsys, made)

    (chart,) = re.findall(r'<svg[^>]*id="chart-day".*?</svg>', text, re.DOTALL)
    assert "Stacked bars for 31 days, 30 of them without core hours" in chart
    named = {found.text for found in [shape(chart)]}.pop()
    assert all(day in named for day in ("1", "15", "31"))
    assert 'viewBox="0 0 720 ' in chart


def test_names_are_as_people_write_them() -> None:
    """Escapes are decoded once for display; what is none stays, and nothing that is decoded becomes markup."""
    assert readable(r"/CN=Mar\xC3\xADa") == "/CN=María"
    assert readable(r"/CN=Mar\xC3\x83\xC2\xADa") == "/CN=María"
    assert readable(r"/CN=\xE6\x9D\x8E \xFF \x41") == r"/CN=李 \xFF A"
    assert readable(r"C:\xyz") == r"C:\xyz"


def test_names_with_escapes_stay_text_and_are_read(capsys, site) -> None:
    """In the page, and a control character in an escape is none there."""
    made = site()
    made.add(stored_jobs.job(1)._replace(user_dn=r"/CN=Mar\xC3\xADa \x3Cscript\x3E \x1B[31m"))

    text = written(capsys, made)

    assert "María" in text
    assert "<script" not in text
    assert "\x1b" not in text


def test_little_is_not_nothing() -> None:
    """A figure that rounds to 0 says that it is there."""
    hours = Column("cpu_hours", "CPU hours", "h")
    assert _shown(hours, 0.0031) == "&lt;\u202f0.01"
    assert _shown(hours, 0.0) == "0.00"
    assert _shown(hours, 0.02) == "0.02"


def test_all_ces_are_in_the_chart_or_are_counted() -> None:
    """Thirteen of thirteen; of very many the title says how many are left out."""
    columns = (Column("cpu_efficiency", "Efficiency", "ratio"),)

    def drawn(number: int) -> charts.Chart:
        rows = [(f"ce{one:03}", {"cpu_efficiency": 0.5}) for one in range(number)]
        chart = charts._shares(Table("ce", "CE", "CE", columns).filled(rows), "cpu_efficiency", "CPU efficiency by CE")
        assert chart is not None
        return chart

    assert all(f"ce{one:03}" in drawn(13).svg for one in range(13))
    assert " of " not in drawn(13).title
    assert "60 of 200; the table has all" in drawn(200).title


def test_an_empty_section_is_one_line(capsys, site) -> None:
    """It has no heading of its own, and no table."""
    made = site()
    made.add(stored_jobs.job(1))

    text = written(capsys, made)

    (section,) = re.findall(r'<section class="energy".*?</section>', text, re.DOTALL)
    assert "<h2" not in section
    assert shape(section).text.strip().startswith("Energy and carbon: unknown")
    assert len(shape(section).text) < 150


def test_two_benchmarks_have_one_total(capsys, site) -> None:
    """HS06 and HEPscore23 hours are added, as APEL adds them."""
    made = site()
    made.add(
        stored_jobs.job(1)._replace(benchmark="HEPSPEC:10.0"), stored_jobs.job(2)._replace(benchmark="HEPscore23:10.0")
    )

    assert "Normalised hours, all" in written(capsys, made)
