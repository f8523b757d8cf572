"""The manual as a site, in headless Chromium: built strictly, and read on a phone and a screen, in light and dark."""

from __future__ import annotations

import functools
import http.server
import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import chromium
import manual
import pytest

pytestmark = pytest.mark.campaign

pytest.importorskip("mkdocs", reason="mkdocs is not installed (the extra `docs` has it)")

SHOWN = (
    "index", "howto/install", "reference/commands", "reference/views", "explanation/how-it-works",
    "explanation/performance", "explanation/what-can-be-lost",
)  # fmt: skip
"""The front page, one to be followed, the longest ones, one with a picture, and those with the widest tables."""
PHONE, SCREEN = 390, 1280
WIDE = """
(() => {
  const root = document.documentElement, width = root.clientWidth;
  const wide = [...document.querySelectorAll('body *')].filter(one => {
    const box = one.getBoundingClientRect();
    // Tables and blocks scroll by themselves; the drawer of a phone lies beside the page until it is pulled in.
    return box.width > 0 && box.right > width + 1
      && !one.closest('.md-typeset__scrollwrap, pre, .md-sidebar, .md-search');
  });
  return [width, root.scrollWidth, wide.map(one => one.outerHTML.slice(0, 120))];
})()
"""
LOOKS = """
(() => {
  function light(style) {
    const parts = style.match(/[0-9.]+/g).slice(0, 3).map(part => part / 255);
    const [r, g, b] = parts.map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  const back = getComputedStyle(document.body).backgroundColor;
  const contrast = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const content = document.querySelector('.md-content');
  const texts = [...content.querySelectorAll('h1, p, li, th, td, a:not(.headerlink)')];
  const bar = getComputedStyle(document.querySelector('.md-header'));
  const contrasts = texts.map(one => contrast(getComputedStyle(one).color, back));
  return [light(back) > 0.5 ? 'light' : 'dark', Math.min(contrast(bar.color, bar.backgroundColor), ...contrasts)];
})()
"""
SEARCH = """
new Promise((found, failed) => {
  const field = document.querySelector('[data-md-component=search-query]');
  document.querySelector('#__search').click();
  field.focus();
  field.value = 'quarantine';
  let waited = 0;
  const look = setInterval(() => {
    field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    const links = [...document.querySelectorAll('.md-search-result__link')].map(one => one.getAttribute('href'));
    if (links.length || ++waited > 500) { clearInterval(look); found(links); }
  }, 100);
})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The site, built with every warning as an error; some seconds."""
    built = tmp_path_factory.mktemp("manual") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)],
        cwd=manual.ROOT,
        check=False,
        capture_output=True,
        text=True,
        # It would advertise its next version on stderr.
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return built


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is http.server's
        pass


@pytest.fixture(scope="module")
def address(site: pathlib.Path) -> Iterator[str]:
    """Where the site is served, on the loopback address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def browser() -> str:
    """The path of Chromium."""
    found = chromium.program()
    if found is None:
        pytest.skip("there is no chromium on this machine")
    return found


def test_the_site_is_whole(site: pathlib.Path) -> None:
    """Every page is there, no link is broken (mkdocs looks them up), and nothing is loaded from another host."""
    for path in manual.DOCS.rglob("*.md"):
        assert (site / path.relative_to(manual.DOCS)).with_suffix(".html").is_file()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//[^>]*>", text) == [], page
        assert re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect)[^>]*href=\"?(?:https?:)?//[^>]*>", text) == [], (
            page
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_every_page_whole(browser: str, address: str, tmp_path: pathlib.Path, scheme: str) -> None:
    """
    On a phone and a screen nothing but tables and blocks is wider than the page, and text stands out.

    No script complains, and nothing is asked of another host. ``ARCACCT_PICTURES=DIR`` keeps what it looks like.
    """
    pictures = os.environ.get("ARCACCT_PICTURES")
    with chromium.Chromium(browser, tmp_path) as shown:
        for page in SHOWN:
            for width in (PHONE, SCREEN):
                shown.show(f"{address}/{page}.html", width, scheme)
                if pictures:
                    shown.picture(pathlib.Path(pictures) / f"{page.replace('/', '-')}-{width}-{scheme}.png")

                assert shown.told(WIDE) == [width, width, []], (page, width)
                looks, contrast = shown.told(LOOKS)
                assert looks == scheme, (page, width)
                assert contrast >= 4.5, (page, width)
        assert shown.complaints == []
        assert [url for url in shown.asked if not url.startswith((f"{address}/", "data:"))] == []


@pytest.mark.parametrize("way", ["from a server", "from files"])
def test_a_word_is_found(browser: str, site: pathlib.Path, address: str, tmp_path: pathlib.Path, way: str) -> None:
    """Typed into the search field, it leads to the pages that have it, also where the site is only a directory."""
    if way == "from files":
        address = site.as_uri()
    with chromium.Chromium(browser, tmp_path) as shown:
        shown.show(f"{address}/index.html", SCREEN, "light")

        links = shown.told(SEARCH)

        assert any("howto/set-aside.html" in link for link in links)
        assert shown.complaints == []
        assert [url for url in shown.asked if not url.startswith((f"{address}/", "data:", "about:"))] == []
