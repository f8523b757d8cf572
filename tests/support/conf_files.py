"""arc.conf and arcacct.conf in a directory of a test."""

from __future__ import annotations

import pathlib

from arcacct.config.parser import Conf, load

ARC = "[common]\nhostname = ce.example.org\n\n[arex]\ncontroldir = {dir}/control\n"
SGAS = "[arex/jura/sgas:one]\ntargeturl = https://sgas.example.org:6143/sgas\n"
APEL = "[arex/jura/apel:egi]\ntargeturl = https://msg.example.org\ngocdb_name = EXAMPLE-SITE\n"
DIRECTORY = "[arcacct/directory:out]\npath = /var/spool/apel/outgoing\ngocdb_name = EXAMPLE-SITE\n"


def write(directory: pathlib.Path, ours: str | None = None, arc: str = ARC) -> str:
    """Write both files (``{dir}`` in arc.conf is the directory); the path of arc.conf."""
    (directory / "arc.conf").write_text(arc.replace("{dir}", str(directory)), encoding="utf-8")
    if ours is not None:
        (directory / "arcacct.conf").write_text(ours, encoding="utf-8")
    return str(directory / "arc.conf")


def read(directory: pathlib.Path, ours: str | None = None, arc: str = ARC) -> Conf:
    """Write both files and read them."""
    return load(write(directory, ours, arc), {})


def lines(problems: object, directory: pathlib.Path) -> list[str]:
    """Problems as a user sees them, the directory cut away."""
    return [str(problem).replace(f"{directory}/", "") for problem in problems]  # type: ignore[attr-defined]
