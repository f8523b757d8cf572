"""The page in headless Chromium, as a phone, a screen and a reader in the dark see it."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess

import pytest
import stored_jobs
from in_process import said

WIDTHS = (360, 1280)
SCHEMES = ("light", "dark")
DN = "/DC=org/DC=example/C=SE/O=A University with a long name/CN=Somebody with a robot certificate " + "x" * 120
MEASURE = """
<!DOCTYPE html><meta charset="utf-8"><body>%(frames)s<pre id="told"></pre><script>
function colours(style) { return style.match(/[0-9.]+/g).slice(0, 3).map(Number); }
function light(style) {
  const [r, g, b] = colours(style).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(one, other) {
  const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}
window.onload = () => {
  const told = [];
  for (const frame of document.querySelectorAll('iframe')) {
    const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
    const back = view.getComputedStyle(page.body).backgroundColor;
    const wide = [...page.querySelectorAll('body *')].filter(one =>
      !one.closest('.scroll table, .scroll svg') && one.getBoundingClientRect().right > root.clientWidth + 1);
    const texts = [...page.querySelectorAll('h1, p, td, th, dt, dd, figcaption')];
    const letters = [...page.querySelectorAll('svg text')];
    told.push({
      width: root.clientWidth, scroll: root.scrollWidth, back: back, text: page.body.innerText,
      wide: wide.map(one => one.outerHTML.slice(0, 120)),
      contrast: Math.min(...texts.map(one => contrast(view.getComputedStyle(one).color, back)),
                         ...letters.map(one => contrast(view.getComputedStyle(one).fill, back))),
      bars: Math.min(...[...page.querySelectorAll('.bar rect')].map(
        one => contrast(view.getComputedStyle(one).fill, back))),
      letters: Math.min(...letters.map(one =>
        parseFloat(view.getComputedStyle(one).fontSize) * one.getScreenCTM().a)),
      cut: letters.filter(one => {
        const box = one.getBoundingClientRect(), chart = one.ownerSVGElement.getBoundingClientRect();
        return box.left < chart.left - 1 || box.right > chart.right + 1;
      }).map(one => one.textContent),
      charts: [...page.querySelectorAll('svg')].map(one => one.getBoundingClientRect().height),
      scripts: page.scripts.length,
    });
  }
  document.getElementById('told').textContent = JSON.stringify(told);
};
</script>
"""


def measured(browser: str, path) -> dict[tuple[int, str], dict]:
    """What Chromium says of a page, by width and colour scheme: one start for all."""
    frames = "".join(
        f'<iframe src="report.html" width="{width}" height="900" style="border: 0; color-scheme: {scheme}"></iframe>'
        for width in WIDTHS
        for scheme in SCHEMES
    )
    (path / "measure.html").write_text(MEASURE % {"frames": frames}, encoding="utf-8")
    done = subprocess.run(
        [
            browser,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--allow-file-access-from-files", "--hide-scrollbars", "--window-size=1400,1000"),
            *(f"--user-data-dir={path}/browser", "--dump-dom", f"file://{path}/measure.html"),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(path)},
    )
    found = re.search('<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[:2000]
    keys = [(width, scheme) for width in WIDTHS for scheme in SCHEMES]
    return dict(zip(keys, json.loads(html.unescape(found[1])), strict=True))


def test_a_browser_shows_the_page_without_overflow(capsys, site) -> None:
    """
    On a phone and on a screen, in light and dark: nothing is wider than the page, text and bars stand out, no script.

    The figures are those of the text; letters of charts are large enough, and none is cut.
    """
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium on this machine")
    made = site("core_watts=5\npue=1.4\ncarbon_intensity=45")
    jobs = [stored_jobs.job(number, end_s=stored_jobs.END_S - number * 80_000) for number in range(30)]
    made.add(*(one._replace(vo=f"a-vo-with-a-long-name-{place % 8}.example.org") for place, one in enumerate(jobs)))
    made.add(
        stored_jobs.job(77)._replace(
            user_dn=DN,
            vo="atlas",
            status="failed",
            exit_code=137,
            wall_s=900_000,
            submit_time=stored_jobs.END_S - 10**6,
        )
    )
    (made.path / "pledge.csv").write_text("atlas,2026-01,1000,core\n")
    report = made.path / "report.html"
    command = ("--config", made.conf, "report", "--month", "2026-05", "--pledge", made.path / "pledge.csv")
    assert said(capsys, *command, "--html", report).returncode == 0

    told = measured(browser, made.path)

    for (width, scheme), found in told.items():
        where = f"{width} px, {scheme}"
        assert (found["width"], found["scroll"], found["wide"]) == (width, width, []), where
        assert found["scripts"] == 0
        # 900,000 s on 8 cores, against 1,000 h.
        for text in ("Accounting of ce.example.org, 2026-05", DN, "2\u202f000", "200.0\u202f%", "(signal 9)"):
            assert text in found["text"], where
        assert min(found["charts"]) > 60, where
        assert len(found["charts"]) == 6
        assert found["letters"] >= 9, where
        assert found["cut"] == [], where
        assert found["contrast"] >= 4.5, where
        assert found["bars"] >= 3, where
    backs = {scheme: {told[width, scheme]["back"] for width in WIDTHS} for scheme in SCHEMES}
    assert backs == {"light": {"rgb(255, 255, 255)"}, "dark": {"rgb(20, 24, 29)"}}
