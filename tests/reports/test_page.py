"""The page: whatever users, VOs and hosts are called, it is one page, and says what the tables say."""

from __future__ import annotations

import base64
import calendar
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import chromium
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
    """A VO that is called like a formula starts with an apostrophe."""
    made = site()
    made.add(stored_jobs.job(1)._replace(vo="=HYPERLINK(1)"))
    path = made.path / "r.csv"

    said(capsys, "--config", made.conf, "report", *MAY, "--csv", path)

    assert '"vo","\'=HYPERLINK(1)","jobs","jobs",1,"no"' in path.read_text()


@pytest.mark.parametrize("option", ["--html", "--csv"])
def test_a_file_that_cannot_be_written_is_reported(capsys, site, option) -> None:
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
    """Twelve of them have room next to each other on a phone, also where rounding adds a digit."""
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


# The page in headless Chromium, as a phone, a tablet, a screen, a reader in the dark and paper see it.


WIDTHS = (390, 768, 1280)
HEIGHTS = {390: 844, 768: 1024, 1280: 900}
PAPER = 703
"""Pixels of CSS between the margins of A4."""
DN = "/DC=org/DC=example/C=SE/O=A University with a long name/CN=Somebody with a robot certificate " + "x" * 120
MEASURE = """(() => {
const colours = style => style.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = style => {
  const [r, g, b] = colours(style).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
const every = (names, of = document) => [...of.querySelectorAll(names)];
const root = document.documentElement, back = getComputedStyle(document.body).backgroundColor;
// The boxes of all letters that are seen, with the element that they are in.
const letters = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const range = document.createRange(), within = walker.currentNode.parentElement;
  range.selectNodeContents(walker.currentNode);
  if (!walker.currentNode.data.trim() || within.closest('caption')) continue;
  for (const box of range.getClientRects()) if (box.width) letters.push([box, within]);
}
const name = one => `${one.closest('figure, section')?.className}: ${one.textContent.slice(0, 60)}`;
const overlaps = [], cut = [];
letters.sort((one, other) => one[0].top - other[0].top);
letters.forEach(([box, within], place) => {
  const holder = within.closest('td, th, dd, dt, .legend li, figure, .scroll, main, header, footer')
    .getBoundingClientRect();
  if (box.left < holder.left - 1 || box.right > holder.right + 1) cut.push(name(within));
  for (const [other, there] of letters.slice(place + 1)) {
    if (other.top >= box.bottom - 3) break;
    if (within !== there && other.left < box.right - 1 && other.right > box.left + 1)
      overlaps.push(`${name(within)} | ${name(there)}`);
  }
});
return {
  scroll: root.scrollWidth, back: back, text: document.body.innerText, scripts: document.scripts.length,
  overlaps: overlaps, cut: cut,
  scrolled: every('.scroll').filter(one => one.scrollWidth > one.clientWidth + 1).map(name),
  broken: every('.date').filter(one => one.getClientRects().length > 1).map(name),
  contrast: Math.min(...letters.map(([box, within]) => contrast(getComputedStyle(within).color, back))),
  bars: Math.min(...every('figure i').map(one => contrast(getComputedStyle(one).backgroundColor, back))),
  letters: Math.min(...letters.map(([box, within]) => parseFloat(getComputedStyle(within).fontSize))),
  first: Math.max(...every('figure.vo, figure.history').map(one => one.getBoundingClientRect().bottom)),
  figures: every('figure').map(one => [one.className, one.getBoundingClientRect().height]),
  hatched: every('.columns .unknown').map(one => one.getBoundingClientRect().toJSON()),
  lefts: [...new Set(every('.details > section').map(one => Math.round(one.getBoundingClientRect().left)))],
  wide: every('.details > section').map(one => one.getBoundingClientRect().width),
};
})()"""


@pytest.fixture
def browser() -> str:
    """The path of Chromium."""
    found = chromium.program()
    if found is None:
        pytest.skip("there is no chromium on this machine")
    return found


def pixels(png: bytes) -> Iterator[bytes]:
    """Each pixel of a PNG file with 8 bits for each of three or four colours."""
    assert png[24] == 8
    width, size = int.from_bytes(png[16:20]), {2: 3, 6: 4}[png[25]]
    packed, place = b"", 8
    while place < len(png):
        length = int.from_bytes(png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            packed += png[place + 8 : place + 8 + length]
        place += length + 12
    data, before = zlib.decompress(packed), bytes(width * size)
    for start in range(0, len(data), width * size + 1):
        kind, line = data[start], bytearray(data[start + 1 : start + 1 + width * size])
        for at in range(len(line)):
            left, up = line[at - size] if at >= size else 0, before[at]
            corner = before[at - size] if at >= size else 0
            near = min((left, up, corner), key=lambda one, sum_=left + up - corner: abs(sum_ - one))
            line[at] = (line[at] + (0, left, up, (left + up) // 2, near)[kind]) % 256
        before = bytes(line)
        yield from (before[at : at + size] for at in range(0, len(before), size))


def shares(shown: chromium.Chromium, box: dict[str, float]) -> list[float]:
    """How much of a box each colour has, the most first."""
    clip = {name: box[name] for name in ("x", "y", "width", "height")} | {"scale": 1}
    png = base64.b64decode(shown.ask("Page.captureScreenshot", clip=clip)["data"])
    found = Counter(pixels(png))
    return [count / found.total() for _colour, count in found.most_common()]


def reported(capsys, site) -> Any:
    """The page of a site with ten VOs, six known months of twelve, and pledges of all."""
    made = site("core_watts=5\npue=1.4\ncarbon_intensity=45\ncores=40")
    for month, (year, number) in enumerate(((2025, 12), (2026, 1), (2026, 2), (2026, 3), (2026, 4), (2026, 5))):
        begin_s = calendar.timegm((year, number, 1, 0, 0, 0))
        made.add(
            *(
                stored_jobs.job(1000 * month + place, end_s=begin_s + place * 80_000 + 9000)._replace(
                    vo=f"a-vo-with-a-long-name-{place % 9}.example.org",
                    user_dn=f"{DN[:-100]} {place % 12}",
                    wall_s=3000 + 9 * place,
                    core_count=1 + 7 * (place % 3),
                    cpu_user_s=2000,
                )
                for place in range(33)
            )
        )
    end_s = stored_jobs.END_S
    killed = stored_jobs.job(77)._replace(status="failed", exit_code=137, wall_s=900_000, submit_time=end_s - 10**6)
    made.add(killed._replace(user_dn=DN), stored_jobs.job(78)._replace(wall_s=10**7))
    vos = ["atlas", *(f"a-vo-with-a-long-name-{place}.example.org" for place in range(9))]
    pledges = "".join(f"{vo},2025-10,{1000 - 90 * place},core\n" for place, vo in enumerate(vos))
    (made.path / "pledge.csv").write_text(f"{pledges}atlas,2026-04,9000,hepscore23\n")
    command = ("--config", made.conf, "report", "--month", "2026-05", "--pledge", made.path / "pledge.csv")
    assert said(capsys, *command, "--html", made.path / "report.html").returncode == 0
    return made.path / "report.html"


@pytest.mark.campaign
def test_a_browser_shows_all_of_the_page_at_every_width(capsys, site, tmp_path, browser) -> None:
    """
    On a phone, a tablet and a screen, in light and dark: no text is cut or lies on another, no date breaks.

    The first screen has the figures of the month and two charts; unknown months are hatched, in the picture, too.
    """
    page = reported(capsys, site)

    with chromium.Chromium(browser, tmp_path) as shown:
        backs = set()
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                where = f"{width} px, {scheme}"
                shown.show(f"file://{page}", width, scheme)
                found = shown.told(MEASURE)
                assert (found["scroll"], found["scripts"]) == (width, 0), where
                assert (found["overlaps"], found["cut"], found["broken"]) == ([], [], []), where
                # Twelve months next to each other need more than a phone; all else fits.
                assert [one for one in found["scrolled"] if width > 700 or "pledge_trend" not in one] == [], where
                for text in ("Accounting of ce.example.org, 2026-05", DN, "2\u202f0", "200.0\u202f%", "(signal 9)"):
                    assert text in found["text"], where
                assert [name for name, height in found["figures"] if height > 60] == ["vo", "history", "day"], where
                assert found["letters"] >= 9, where
                assert found["contrast"] >= 4.5, where
                assert found["bars"] >= 3, where
                assert len(found["lefts"]) == (2 if width > 1000 else 1), where
                assert found["first"] <= HEIGHTS[width], where
                backs.add((scheme, found["back"]))
                assert len(found["hatched"]) == 6, where
                drawn = shares(shown, found["hatched"][0])
                assert 0.5 < drawn[0] < 0.95, where
        assert backs == {("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 29)")}


@pytest.mark.campaign
def test_paper_has_all_of_it_on_four_pages(capsys, site, tmp_path, browser) -> None:
    """A4, ten VOs with pledges: nothing is cut, and the colours are printed."""
    page = reported(capsys, site)

    with chromium.Chromium(browser, tmp_path) as shown:
        shown.show(f"file://{page}", PAPER, "dark")
        shown.ask("Emulation.setEmulatedMedia", media="print")
        found = shown.told(MEASURE)
        pdf = base64.b64decode(shown.ask("Page.printToPDF", preferCSSPageSize=True)["data"])

    assert (found["scroll"], found["back"]) == (PAPER, "rgb(255, 255, 255)")
    assert (found["overlaps"], found["cut"], found["broken"], found["scrolled"]) == ([], [], [], [])
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4
    assert len(pdf) < 2_000_000
