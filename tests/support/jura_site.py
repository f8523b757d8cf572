"""What jura-ng leaves behind on a CE: A-REX's database, its own publishing.db, and its messages at APEL."""

from __future__ import annotations

import base64
import calendar
import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from zoneinfo import ZoneInfo

import arex_corpus as corpus
from rehearsal import Site, configured
from sandbox_clients import sign

from arcacct.arex import own_database
from arcacct.arex.import_database import import_arex
from arcacct.database import access
from arcacct.sandbox import Sandbox

JURA = pathlib.Path(__file__).parents[1] / "data" / "jura"
NOVEMBER = (calendar.timegm((2026, 11, 1, 0, 0, 0)), calendar.timegm((2026, 12, 1, 0, 0, 0)))
"""Every job of both databases ended then."""
DATABASES = {
    6: ("accounting.db", corpus.AREX / "accounting.sql"),
    7: ("accounting_v2.db", corpus.AREX7 / "accounting_v2.sql"),
}


def write_arex_database(folder: pathlib.Path, version: int) -> pathlib.Path:
    """The database of a real A-REX 6.17 or 7.0 in a folder."""
    name, script = DATABASES[version]
    folder.mkdir(parents=True, exist_ok=True)
    con = sqlite3.connect(folder / name)
    con.executescript(script.read_text())
    con.close()
    return folder / name


@contextmanager
def arex_database(folder: pathlib.Path, version: int) -> Iterator[own_database.ArexDatabase]:
    """The same, open for reading."""
    path = write_arex_database(folder / "arex", version)
    with own_database.opened(str(path), str(folder)) as database:
        yield database


def served_by_jura(folder: pathlib.Path, until_s: int, *blocks: str) -> None:
    """jura-ng's memory of its targets."""
    con = sqlite3.connect(folder / "publishing.db")
    con.execute(
        "CREATE TABLE AccountingTargets (TargetID TEXT UNIQUE NOT NULL, LastEndTime INTEGER NOT NULL,"
        " LastReport INTEGER NOT NULL)"
    )
    con.executemany("INSERT INTO AccountingTargets VALUES (?, ?, ?)", [(block, until_s, until_s) for block in blocks])
    con.commit()
    con.close()


def deliver(box: Sandbox, *names: str) -> None:
    """jura-ng's messages, signed with the CE's certificate, loaded by APEL."""
    for name in names:
        message = base64.b64encode(sign(box.client, (JURA / name).read_bytes())).decode()
        assert box.apel.receive(message, None).verdict == "loaded"


STOPPED_S = {6: 1795169671, 7: 1795320363}
"""When the last job ended that each of the two published."""
SUMMARIES = """
[arex/jura/apel:a]
targeturl={ams}
authn_port={authn}
gocdb_name=EXAMPLE-SITE
apel_messages=summaries
"""


def site(path: pathlib.Path, box: Sandbox, version: int, targets: str = SUMMARIES, *, imported: bool = True) -> Site:
    """A CE that jura-ng served until now; ``imported``: its database was taken over."""
    made = configured(path, box, targets)
    folder = path / "control" / "accounting"
    database = write_arex_database(folder, version)
    served_by_jura(folder, STOPPED_S[version], "arex/jura/apel:a")
    here = made.settings().places
    with closing(access.open_accounting(here)) as con:
        if imported:
            import_arex(here, con, str(database), ZoneInfo("UTC"))
    return made
