"""A whole site in a directory: the corpus' control directory recorded, receivers to publish to, both conf files."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import arex_corpus as corpus

from arcacct.arex.sweep import sweep
from arcacct.config.parser import load
from arcacct.config.settings import Settings, settings
from arcacct.database import access
from arcacct.sandbox import Sandbox
from arcacct.targets import kinds

NOVEMBER = ("2026-11-01", "2026-12-01")
"""Every job of the corpus ended then."""


class Site(NamedTuple):
    """A site that was recorded and published nothing yet."""

    path: pathlib.Path
    box: Sandbox

    @property
    def arc_conf(self) -> str:
        return str(self.path / "arc.conf")

    def configure(self, targets: str) -> None:
        """Write arcacct.conf; ``{sgas}``, ``{ams}`` and ``{authn}`` stand for the sandbox's addresses."""
        text = targets.format(sgas=self.box.sgas_url, ams=self.box.ams_url, authn=self.box.authn_port)
        (self.path / "arcacct.conf").write_text(text)

    def settings(self) -> Settings:
        return settings(load(self.arc_conf, {}), kinds())


SGAS_AND_CARS = """
[arex/jura/sgas:s]
targeturl={sgas}
[arex/jura/apel:a]
targeturl={ams}
authn_port={authn}
gocdb_name=EXAMPLE-SITE
apel_messages=urs
"""


def configured(path: pathlib.Path, box: Sandbox, targets: str) -> Site:
    """A CE's arc.conf, with the receivers of the rehearsal as targets; nothing is recorded yet."""
    (path / "arc.conf").write_text(
        f"[common]\nhostname=ce.example.org\nx509_host_key={box.client.key_path}\n"
        f"x509_host_cert={box.client.cert_path}\nx509_cert_dir={box.ca_dir}\n"
        f"[lrms]\nlrms=fork\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={path}/control\n"
    )
    made = Site(path, box)
    made.configure(targets)
    return made


def site(path: pathlib.Path, box: Sandbox, targets: str = SGAS_AND_CARS) -> Site:
    """Lay a site out and record it."""
    control = corpus.rebuild(path / "control")
    made = configured(path, box, targets)
    con = access.open_accounting(made.settings().places)
    sweep(made.settings().places, con, owner=control.owner)
    # A site that recorded every job from the first: its months are whole.
    con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    con.close()
    return made
