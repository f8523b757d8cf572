"""The page in headless Chromium, as a phone, a tablet, a screen, a reader in the dark and paper see it."""

from __future__ import annotations

import base64
import calendar
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import chromium
import pytest
import stored_jobs
from in_process import said

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
                # Twelve months beside each other need more than a phone; all else fits.
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
