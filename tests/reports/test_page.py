"""The page: whatever users, VOs and hosts are called, it is one page, and says what the tables say."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import rehearsal
import stored_jobs
from in_process import said

from arcacct.publishing import run, target_run
from arcacct.reports.charts import short, shown
from arcacct.reports.month import ReportRequest, month_report
from arcacct.reports.page import page
from arcacct.reports.tables import Column, readable, tidy
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
        if tag not in ("meta", "br", "img", "wbr"):
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
    assert not [value for _tag, attrs in found.tags for value in attrs.values() if "://" in (value or "")]
    policy = next(attrs["content"] for tag, attrs in found.tags if "http-equiv" in attrs)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_tables_and_charts_can_be_heard(capsys, site) -> None:
    """Every table has a caption and headers with a scope; every chart a title and a text; no id comes twice."""
    made = site("core_watts=5")
    made.add(*(stored_jobs.job(number)._replace(vo=f"vo{number}") for number in range(9)))

    text = written(capsys, made)

    found = shape(text)
    tags = [tag for tag, _attrs in found.tags]
    assert tags.count("table") == tags.count("caption") > 3
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in found.tags if tag == "th")
    ids = [attrs["id"] for _tag, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert tags.count("figure") == tags.count("figcaption") == 3
    told = [attrs["aria-label"] or "" for _tag, attrs in found.tags if attrs.get("role") == "img"]
    assert [one.partition(":")[0] for one in told] == ["Core hours by month", "Core hours by day and VO"]
    assert all("2026-05" in one for one in told)
    assert all("aria-label" in attrs for tag, attrs in found.tags if tag == "svg")
    assert ("html", {"lang": "en"}) in found.tags
    # More VOs than colours: the rest is one part.
    assert ">4 others<" in text


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
    assert page(report(NOW + 99)) == text.replace("T14:13:20Z", "T14:14:59Z")
    assert "2026-09-21T14:13:20Z" in shape(text).text
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


def test_the_csv_is_safe_in_a_spreadsheet(capsys, site) -> None:
    """A VO that is called like a formula begins with an apostrophe."""
    made = site()
    made.add(stored_jobs.job(1)._replace(vo="=HYPERLINK(1)"))
    path = made.path / "r.csv"

    said(capsys, "--config", made.conf, "report", *MAY, "--csv", path)

    assert '"vo","\'=HYPERLINK(1)","jobs","jobs",1,"no"' in path.read_text()


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

    (chart,) = re.findall(r'<figure class="day">.*?</figure>', text)
    days = re.findall(r'<div title="(2026-05-\d\d): ([^"]*)">', chart)
    assert [day for day, _amount in days] == [f"2026-05-{day:02d}" for day in range(1, 32)]
    # 2026-05-28 is the day of the first recorded job: what was before it is unknown, and not nothing.
    assert [amount for _day, amount in days] == ["unknown"] * 27 + ["23.333", "0", "0", "0"]
    assert chart.count('class="unknown"') == 27 + 1
    assert re.findall("<span>([0-9]+)</span>", chart) == ["1", "5", "10", "15", "20", "25", "31"]


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
    assert shown(hours, 0.0031) == "&lt;\u202f0.01"
    assert shown(hours, 0.0) == "0.00"
    assert shown(hours, 0.02) == "0.02"


def test_numbers_of_charts_have_four_characters_at_most() -> None:
    """Twelve of them have room beside each other on a phone, also where rounding adds a digit."""
    numbers = (0, 0.04, 3.26, 9.97, 99.6, 999.4, 999.6, 1234, 9960, 99_960, 999_600, 1.26e6, 4.2e9)
    told = ["0", "&lt;0.1", "3.3", "10", "100", "999", "1k", "1.2k", "10k", "100k", "1M", "1.3M", "4.2G"]
    assert [short(one) for one in numbers] == told


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

    # 3500 s on 8 cores of 10.
    assert "<dt>Normalised hours</dt><dd>155.6</dd>" in written(capsys, made)
