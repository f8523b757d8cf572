"""A password in the configuration is read, used, and never told: not by any command, however wrong the line is."""

from __future__ import annotations

import pytest
from in_process import said
from installed import arcacct

TARGET = "[arex/jura/sgas:s]\ntargeturl = https://sgas.example.org/sgas\n"
SECRET = "s3cr3t-w0rd"
LINES = {
    "right": f"http_proxy = http://me:{SECRET}@proxy.example.org:3128",
    "no scheme": f"http_proxy = me:{SECRET}@proxy.example.org:3128",
    "another scheme": f"http_proxy = socks5h://me:{SECRET}@proxy.example.org:3128",
    "no host": f"http_proxy = http://me:{SECRET}@",
    "neither host nor at sign": f"http_proxy = http://me:{SECRET}",
    "a path for a host": f"http_proxy = me:{SECRET}/proxy.example.org",
    "no port": f"http_proxy = http://me:{SECRET}@proxy.example.org:port",
    "a slash in it": f"http_proxy = http://me:{SECRET}/x@proxy.example.org:3128",
    "a hash in it": f"http_proxy = http://me:{SECRET}#x@proxy.example.org:3128",
    "two at signs": f"http_proxy = http://me:{SECRET}@x@proxy.example.org:3128",
    "a bracket": f"http_proxy = http://me:{SECRET}@[proxy.example.org:3128",
    "in quotes": f'http_proxy = "http://me:{SECRET}@proxy.example.org:3128"',
    "no equals sign": f"http_proxy http://me:{SECRET}@proxy.example.org:3128",
    "an equals sign in it": f"http_proxy http://me:x={SECRET}@proxy.example.org:3128",
    "the equals sign behind": f"http_proxy http://me:{SECRET}=x@proxy.example.org:3128",
    "a slip": f"htp_proxy = http://me:{SECRET}@proxy.example.org:3128",
    "as a block": f"[http://me:{SECRET}@proxy.example.org:3128",
    "percents": "http_proxy = http://me:s3cr3t%2Dw0rd@proxy.example.org:3128",
}
COMMANDS = [("config", "check"), ("config", "show"), ("status",), ("publish",)]


URLS = ("https://me:{}", "https://me:{}/sgas", "https://me:{}%00", "me:{}")
"""A receiver has no password; whoever writes one there may have forgotten the host, too."""
MARKS = ("?token=", "#", "/x?a=b&key=")
"""A receiver's URL has no query; whoever writes one there may have put a token in it."""
FILES = [
    *(pytest.param(f"[common]\n{line}\n", TARGET, id=name) for name, line in LINES.items()),
    *(pytest.param("", f"[arex/jura/sgas:s]\ntargeturl = {url.format(SECRET)}\n", id=url) for url in URLS),
    *(pytest.param("", TARGET.replace("/sgas\n", f"/sgas{mark}{SECRET}\n"), id=mark) for mark in MARKS),
]


@pytest.mark.parametrize(("common", "target"), FILES)
def test_the_password_of_a_proxy_or_a_receiver_is_never_told(tmp_path, capfd, common, target) -> None:
    """By no command that reads it, whether the line can be used or not."""
    (tmp_path / "control").mkdir()
    (tmp_path / "arc.conf").write_text(f"{common}[arex]\ncontroldir = {tmp_path}/control\n")
    (tmp_path / "arcacct.conf").write_text(f"{common}{target}")
    for command in COMMANDS:
        done = said(capfd, "--config", tmp_path / "arc.conf", *command)
        assert "s3cr3t" not in done.stdout + done.stderr, command


@pytest.mark.parametrize("option", ["--sgas-url", "--apel-url"])
@pytest.mark.parametrize(
    "url", ["https://me:{}@sgas.example.org/sgas", "me:{}@sgas.example.org", "https://me:{}/x@y", "https://me:{}"]
)
def test_a_password_of_the_command_line_is_never_shown(tmp_path, option, url) -> None:
    """A receiver that is named on the command line is complained about without it."""
    (tmp_path / "control").mkdir()
    (tmp_path / "arc.conf").write_text(f"[arex]\ncontroldir = {tmp_path}/control\n")
    period = ("--from", "2026-10-01", "--to", "2026-11-01")
    done = arcacct("--config", tmp_path / "arc.conf", "republish", *period, option, url.format(SECRET))

    assert done.returncode in {64, 78}
    assert SECRET not in done.stdout + done.stderr
