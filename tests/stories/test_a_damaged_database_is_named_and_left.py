"""Databases that are damaged: every command says so in one line and leaves them as they are."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
from contextlib import closing

import conf_files
import pytest
import stored_jobs
from control_directory import set_up
from in_process import answer

from arcacct.cli.main import COMMANDS, HIDDEN
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting, open_publishing
from arcacct.database.schema import incarnation
from arcacct.publishing import cursors
from arcacct.publishing.cursors import Cursor

pytestmark = pytest.mark.campaign

PAGE = 4096
ASKED = {
    "record": ["record {control} STORED000001 FINISHED"],
    "sweep": ["sweep"],
    "switch": ["switch --plan {arex}"],
    "publish": ["publish --now", "publish --dry-run"],
    "republish": ["republish --from 2026-05-01 --to 2026-06-01 --yes"],
    "quarantine": ["quarantine list", "quarantine retry --all"],
    "job": [
        "job info STORED000001",
        "job --only why --sent STORED000001",
        "job events STORED000001",
        "job transfers STORED000001",
    ],
    "stats": ["stats", "stats --by month,vo"],
    "report": ["report --month 2026-05"],
    "export": ["export --site SITE --ce ce.example.org {new}.parquet"],
    "query": ["query 'SELECT * FROM v1_jobs'", "query --ledger 'SELECT * FROM v1_publications'"],
    "fleet": [],
    "status": ["status"],
    "metrics": ["metrics"],
    "verify": ["verify 2026-05"],
    "import": ["import arex {arex}", "import rejected", "import gridengine --retry"],
    "node": [],
    "features": [],
    "db": [
        "db check",
        "db init",
        "db upgrade",
        "db optimize --shrink",
        "db backup {safe}",
        "db snapshot {safe}",
        "db prune --before 2026-06-01 --yes",
        "db benchmark --from 2026-05 --to 2026-06 --as HEPSPEC:1.0 --yes",
        "db move {new} --yes",
        "db restore {db} --yes",
    ],
    "config": ["config check"],
    "doctor": ["doctor --offline"],
    "setup": ["setup --check"],
    "sandbox": [],
    "demo": [],
    "help": [],
}
"""Command lines of every command; {db} is the damaged file. Those without one open no database of the site."""
READING = (
    "doctor", "setup", "status", "metrics", "stats", "report", "query", "job", "verify", "db check",
    "quarantine list",
)  # fmt: skip


def wild(content: bytes, chance: random.Random) -> bytes:
    """Random bytes here and there, everywhere but in the header."""
    damaged = bytearray(content)
    for _ in range(40):
        place = chance.randrange(100, len(damaged) - 64)
        damaged[place : place + 64] = chance.randbytes(64)
    return bytes(damaged)


def pages(content: bytes, chance: random.Random, fill: int) -> bytes:
    """Every second page is something else."""
    damaged = bytearray(content)
    for number in range(1, len(content) // PAGE, 2):
        damaged[number * PAGE : (number + 1) * PAGE] = bytes([fill]) * PAGE
    return bytes(damaged)


DAMAGES = {
    "random-bytes": wild,
    "more-random-bytes": lambda content, chance: wild(wild(wild(content, chance), chance), chance),
    "pages-of-zeros": lambda content, chance: pages(content, chance, 0),
    "pages-of-ones": lambda content, chance: pages(content, chance, 255),
    "leaves-of-nothing": lambda content, chance: pages(content, chance, 13),
    "schema-no-utf8": lambda content, _chance: content.replace(b"CREATE TABLE", b"CREATE TABL\xff", 3),
    "schema-name-no-utf8": lambda content, _chance: content.replace(b"DBConfig", b"DBConfi\xff"),
    "no-text": lambda content, _chance: content.replace(b"completed", b"comp\xffeted").replace(b"atlas", b"at\xffas"),
    "schema-no-sql": lambda content, _chance: content.replace(b"INTEGER PRIMARY", b"INTEGER PRIM#RY"),
    "a-view-gone": lambda content, _chance: content.replace(b"v1_jobs", b"v1_jobz"),
    "half": lambda content, _chance: content[: len(content) // 2],
    "no-whole-page": lambda content, _chance: content[: PAGE * 3 + 100],
    "header-alone": lambda content, _chance: content[:100],
    "empty": lambda _content, _chance: b"",
    "text": lambda _content, _chance: b"This is no database, but a text of some length.\n" * 200,
    "page-size": lambda content, _chance: content[:16] + b"\x02\x00" + content[18:],
    "versions": lambda content, _chance: content[:18] + b"\x09\x09" + content[20:],
    "encoding": lambda content, _chance: content[:56] + b"\0\0\0\x03" + content[60:],
    "schema-format": lambda content, _chance: content[:44] + b"\0\0\0\x63" + content[48:],
    "file-of-zeros": lambda content, _chance: bytes(len(content)),
    "numbers-are-texts": lambda content, _chance: content.replace(b"ARCACCT_SCHEMA", b"ARCACCT_SCHEMB"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> pathlib.Path:
    """A site with a hundred jobs that were delivered to a directory."""
    site = tmp_path_factory.mktemp("sound")
    found = places(None, set_up(site / "control"))
    initialise(found)
    with closing(open_accounting(found)) as con, closing(open_publishing(found)) as publishing:
        stored_jobs.add(con, found, *map(stored_jobs.job, range(1, 101)))
        cursors.set_cursor(publishing, Cursor("arcacct/directory:out", incarnation(con), 50, 0, None))
    return site


def here_of(site: pathlib.Path) -> Places:
    return places(None, str(site / "control"))


@pytest.fixture
def run(monkeypatch, capfd):
    """Run a command line on a site; its exit code, standard output and standard error."""
    for name in ("ARC_CONFIG", "ARCACCT_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(site: pathlib.Path, line: str, damaged: str) -> tuple[object, str, str]:
        conf = conf_files.write(site, conf_files.DIRECTORY.replace("/var/spool/apel/outgoing", str(site / "out")))
        (site / "out").mkdir(exist_ok=True)
        names = {"control": site / "control", "db": damaged, "safe": site / "safe", "new": site / "new"}
        first, _quote, sql = line.partition(" '")
        words = [word.format(**names, arex=damaged) for word in first.split()]
        return answer(capfd, "--config", conf, *words, *([sql.rstrip("'")] if sql else []))

    return run


def problems(line: str, code: object, out: str, err: str, path: str) -> str:
    """What is wrong with how a command ended, or nothing."""
    told = f"{line}: {code}: {out[-300:]!r} {err[-600:]!r}"
    if "internal error" in out + err or "Traceback" in out + err or code == 70:
        return told
    complaints = [one for one in err.splitlines() if one.startswith("arcacct: ")]
    if line.startswith("doctor"):
        # A line for each verdict, and not one alone.
        return told if code == 74 and os.path.basename(path) not in out else ""
    if code == 74 and line != "db check" and (len(complaints) != 1 or os.path.basename(path) not in complaints[0]):
        return told
    if line == "status" and (code not in {0, 1, 2} or "spool" not in out):
        return told
    return ""


def test_every_command_is_asked() -> None:
    """A new one gets a line above."""
    assert set(ASKED) == {*COMMANDS, *HIDDEN}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["accounting.db", "publishing.db"])
def test_a_damaged_database(sound, tmp_path, run, name, damage) -> None:
    """No command fails as if the program were at fault; 74 names the file; what only reads changes nothing."""
    found = []
    for number, line in enumerate(line for lines in ASKED.values() for line in lines):
        site = tmp_path / str(number)
        shutil.copytree(sound, site)
        # Its note of the place names the databases that were copied, which are still there.
        for note in site.glob("**/arcacct.place"):
            note.write_text(note.read_text().replace(str(sound), str(site)))
        place = pathlib.Path(here_of(site).directory) / name
        content = DAMAGES[damage](place.read_bytes(), random.Random(damage))
        place.write_bytes(content)

        code, out, err = run(site, line, str(place))

        found.append(problems(line, code, out, err, str(place)))
        if line.startswith(READING) and place.read_bytes() != content:
            found.append(f"{line}: wrote to it")
        shutil.rmtree(site)
    assert [one for one in found if one] == []
