"""arc.conf and arcacct.conf, damaged: every complaint has a file and a line, and no secret is printed."""

from __future__ import annotations

import pathlib
import random
import re

from control_directory import set_up
from fuzz.command import arcacct
from fuzz.damage import damaged

SECRET = "Qz7secretQz7"
"""Stands where only a password can: in a URL."""
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
_COMPLAINT = re.compile(r"(error|warning)?:? ?\S*/?(arc|arcacct)\.conf(:\d+)?")


def made(chance: random.Random) -> dict[str, bytes]:
    """Both files; one of them damaged, or both."""
    which = chance.randrange(1, 4)
    arc = _ARC.replace(b"SCHEME", chance.choice((b"http://", b"http:/", b"//", b"")))
    return {
        "arc.conf": damaged(chance, arc) if which & 1 else arc,
        "arcacct.conf": damaged(chance, _OURS) if which & 2 else _OURS,
    }


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """Exit code 0 or 78, each complaint with its file, and no secret."""
    control = set_up(work / "control")
    for name, content in files.items():
        (work / name).write_bytes(content.replace(b"CONTROL", control.encode()))
    conf = str(work / "arc.conf")
    for command in (("config", "check"), ("config", "show"), ("status",)):
        allowed = (0, 1, 2, 3) if command == ("status",) else (0, 78)
        ended = arcacct("--config", conf, *command, allowed=allowed)
        assert SECRET not in ended.out + ended.err, f"{command}: {ended}"
        if command[-1] == "check":
            for line in ended.out.splitlines():
                assert _COMPLAINT.match(line.replace(str(work), "")), f"no file: {line!r}"
        controls = [character for character in ended.out + ended.err if ord(character) < 32 and character not in "\n\t"]
        assert not controls or command[-1] == "show", f"{command}: {controls}"
