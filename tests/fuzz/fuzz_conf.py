"""
arc.conf and arcacct.conf, damaged.

What must hold: every complaint is about a line that there is; each line of ours that is none is complained about; no
secret is printed, whatever became of the URL that it stands in; what `config show` prints says the same when it is
read.
"""

from __future__ import annotations

import pathlib
import random
import re

from control_directory import set_up
from fuzz.command import Ended, arcacct, steers
from fuzz.damage import damaged

from arcacct import wording

SECRET = "Qz7secretQz7"
"""Stands where only a password or a token can: in a URL."""
_URLS = (
    b"https://user:Qz7secretQz7@HOST",
    b"https://user:Qz7secretQz7@HOST@HOST",
    b"https://us@er:Qz7secretQz7@HOST:6143/sgas",
    b"http://user:Qz7secretQz7@HOST:3128",
    b"http:/user:Qz7secretQz7@HOST",
    b"'https://user:Qz7secretQz7@HOST:port/x'",
    b"user:Qz7secretQz7@HOST:3128",
    b"user:Qz7secretQz7",
    b"https://user:Qz7secretQz7",
    b"https://HOST/x?token=Qz7secretQz7&x=1",
    b"https://HOST/sgas?Qz7secretQz7",
    b"https://HOST/x#Qz7secretQz7",
    b"ftp://user:Qz7secretQz7@[::1",
)
_NAMES = (b"targeturl", b"Targeturl", b"TARGETURL", b"targeturrl", b"proxy", b"http_proxy", b"HTTP_Proxy", b"myurl")
_LINES = (
    b"NAME = URL\n", b"NAME = URL\nNAME = https://sgas.example.org:6143\n", b"NAME URL\n", b"URL = x\n", b"URL\n",
    b"x = see URL\n", b"loglevel = URL\n", b"NAME = URL\n[arex/jura/sgas:one]\n",
    b"[arex/jura/sgas:two]\nNAME = URL\n", b"[other]\nNAME = URL\n",
)  # fmt: skip
"""Lines in which a password or a token may stand, also where there is no such option, or no option at all."""
_ARC = b"""[common]
hostname = ce.example.org
x509_host_cert = /etc/grid-security/hostcert.pem
http_proxy = SCHEMEuser:Qz7secretQz7@proxy.example.org:3128
[authgroup:all]
all = yes
[lrms]
lrms = slurm
benchmark = HEPSPEC:12.26
[arex]
controldir = CONTROL
statecallout = FINISHED timeout=10,onfailure=log /usr/local/libexec/arcacct-hook %C %I %S
authtokenmap = sub:user,wlcg.groups:group
[queue:main]
benchmark = HEPSPEC:11.1
benchmark = hepscore23:14
[arex/jura]
vomsless_vo = all dteam
"""
_OURS = b"""[arcacct]
read_group = root
lrms_host = ce.example.org
map = group atlas* vo=atlas group=/atlas
node_benchmark = "AMD EPYC" HEPSPEC:12
allow_jura = yes
[arex/jura/sgas:one]
targeturl = https://user:Qz7secretQz7@sgas.example.org:6143/sgas
urbatchsize = 50
vofilter = atlas
settle = 60
[arex/jura/apel:egi]
targeturl = https://msg.example.org
gocdb_name = EXAMPLE-SITE
project = accounting
apel_messages = summaries
urdelivery_frequency = 3600
proxy = http://user:Qz7secretQz7@proxy.example.org:3128
[arcacct/directory:out]
path = CONTROL/out
gocdb_name = EXAMPLE-SITE
"""
_COMPLAINT = re.compile(r"/(?P<name>(?:arc|arcacct)\.conf)(?::(?P<line>\d+))?: ")
_OPTION = re.compile(r"\S+ (?:warning: )?\[[^\]]*\] (?P<option>\w+): ")


def made(chance: random.Random) -> dict[str, bytes]:
    """Both files; one of them damaged, or both."""
    which = chance.randrange(1, 4)
    arc = _ARC.replace(b"SCHEME", chance.choice((b"http://", b"http:/", b"//", b"")))
    files = {"arc.conf": arc, "arcacct.conf": _OURS}
    if chance.random() < 0.5:
        # A secret that stands elsewhere as well is known by that: then nothing is seen of what hides this one.
        files = {name: content.replace(b"user:Qz7secretQz7@", b"") for name, content in files.items()}
        name = chance.choice(sorted(files))
        return files | {name: _with_url(chance, files[name])}
    return {
        "arc.conf": damaged(chance, arc) if which & 1 else arc,
        "arcacct.conf": damaged(chance, _OURS) if which & 2 else _OURS,
    }


def _with_url(chance: random.Random, content: bytes) -> bytes:
    """One more line somewhere, with a secret in it."""
    lines = content.splitlines(keepends=True)
    url = chance.choice(_URLS).replace(b"HOST", b"one.example.org")
    line = chance.choice(_LINES).replace(b"NAME", chance.choice(_NAMES)).replace(b"URL", url)
    lines.insert(chance.randint(1, len(lines)), line)
    return b"".join(lines)


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Exit code 0 or 78, each complaint with its file, and no secret."""
    control = set_up(work / "control")
    for name, content in files.items():
        (work / name).write_bytes(content.replace(b"CONTROL", control.encode()))
    conf = str(work / "arc.conf")
    for command in (("config", "check"), ("config", "show"), ("status",)):
        # The process of a command knows only its own secrets.
        wording._secrets = wording.Secrets()
        allowed = (0, 1, 2, 3) if command == ("status",) else (0, 78)
        ended = arcacct("--config", conf, *command, allowed=allowed)
        assert SECRET not in ended.out + ended.err, f"{command}: {ended}"
        assert not steers(ended.out + ended.err), f"{command}: {ended}"
        if command[-1] == "check":
            _check_complaints(ended, files, work)
        if command[-1] == "show" and ended.code == 0:
            _check_shown(ended.out, work)


def _check_complaints(ended: Ended, files: dict[str, bytes], work: pathlib.Path) -> None:
    """Each of a line that there is, and one of each line that is none."""
    complained = set()
    for line in ended.out.splitlines():
        found = _COMPLAINT.match(line.replace(str(work), ""))
        assert found, f"no file: {line!r}"
        number = int(found["line"] or 0)
        content = _lines(files[found["name"]])
        assert number <= len(content), f"no such line: {line!r}"
        complained.add((found["name"], number))
        option = _OPTION.match(line.replace(str(work), ""))
        if option and number and len(line) < 500 and not content[number - 1].strip().startswith("["):
            there = content[number - 1].partition("=")[0].strip()
            assert wording.sanitise_line(there) == option["option"], f"{line!r} is about {content[number - 1]!r}"
    if any(text in ended.out for text in (" is not a block", " is not the name of a block", " is there twice")):
        # In the blocks of other services, so in arc.conf, lines are none of ours.
        return
    for number, text in enumerate(_lines(files["arcacct.conf"]), 1):
        line = text.strip()
        if line and line[0] not in "#[" and " " in line and "=" not in line:
            assert ("arcacct.conf", number) in complained, f"{number}: {line!r} is none, and nobody says so\n{ended}"


def _lines(content: bytes) -> list[str]:
    """As Python counts them in a file of text, and most editors do."""
    return re.split("\r\n|\r|\n", content.decode("utf-8", "surrogateescape").replace("\0", "\ufffd"))


def _check_shown(text: str, work: pathlib.Path) -> None:
    """The settings that are shown are the same ones when they are read, but for what is hidden or in letters."""
    if wording.HIDDEN in text or "\\" in text:
        return
    again = work / "again"
    again.mkdir()
    (again / "arc.conf").write_text("")
    (again / "arcacct.conf").write_text(text)
    ended = arcacct("--config", str(again / "arc.conf"), "config", "show", allowed=(0,))
    shown, read = (_settings(one) for one in (text, ended.out))
    assert shown == read, shown ^ read


def _settings(text: str) -> set[tuple[str, str]]:
    """Each line that sets something with its block."""
    block, found = "", set()
    for line in text.split("\n"):
        if line.startswith("["):
            block = line
        elif line and not line.startswith("#"):
            found.add((block, line))
    return found
