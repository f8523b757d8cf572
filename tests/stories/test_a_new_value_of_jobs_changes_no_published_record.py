"""
The next program keeps one more value of each job: what the present one has published does not become "changed".

The next program is this one, copied, with a field added to `Job` and `AAR`, a table for it, and other digests: what
CONTRIBUTING.md says of a value of jobs. It takes published databases forward, and publishes to the same
receivers.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
import stored_jobs
from installed import run_arcacct
from publishing_site import CARS, SGAS, SUMMARIES, Site, jobs

from arcacct.database import access
from arcacct.database.connection import ACCOUNTING_SCHEMA

pytestmark = pytest.mark.campaign

ROOT = pathlib.Path(__file__).parents[2]
RELEASED = ROOT / "tests" / "data" / "released"
VERSIONS = sorted(path.name for path in RELEASED.iterdir())
TARGETS = SGAS + CARS + SUMMARIES.replace("apel:a", "apel:sums").replace("=SITE", "=SUMS")

NEXT = ACCOUNTING_SCHEMA + 1
SCRIPT = """
CREATE TABLE JobLimits (RecordID INTEGER PRIMARY KEY, Seconds INTEGER NOT NULL);
INSERT INTO JobLimits SELECT RecordID, 3600 FROM AAR;
"""
FIELD = "    requested_wall_s: int | None = None\n"
READ = "\n    (SELECT Seconds FROM JobLimits WHERE RecordID = AAR.RecordID),"
WRITE = """        limits = [(record_ids[job.job_id], job.requested_wall_s) for job in jobs if job.requested_wall_s]
        self._con.executemany("INSERT OR REPLACE INTO JobLimits VALUES (?, ?)", limits)
"""
PATCHES = (
    ("records/model.py", r'(?<=a count that is a guess\."""\n)', FIELD),
    ("records/model.py", r"\n    @property\n    def cpu_s", FIELD),
    ("records/reader.py", r"\n    CASE WHEN Hold\.RecordID IS NOT NULL", READ),
    ("records/reader.py", r"hold = row\[22:\]", "limit, "),
    ("records/reader.py", r"(?<=_fields\(unknown\),\n)", "            limit,\n"),
    ("records/writer.py", r"        return Written\(\n            len\(new\),", WRITE),
    ("publishing/sent.py", r'(?<="lrms_end_time",\n)', '    "requested_wall_s",\n'),
    ("targets/sgas/usage_record.py", r'(?<="transfers",\n)(?=\)  # fmt: skip\n_DIGEST)', '    "requested_wall_s",\n'),
    ("database/connection.py", r"(?<=ACCOUNTING_SCHEMA = )(?=\d+\n)", "1 + "),
    # Usage records and CARs name it to their receivers.
    ("__init__.py", r'(?<=__version__ = ")', "99."),
)
"""By module before what something is put in."""


@pytest.fixture(scope="module")
def next_program(tmp_path_factory) -> pathlib.Path:
    """The program with one more value of each job."""
    place = tmp_path_factory.mktemp("next")
    for folder in ("arcacct", "schema", "etc"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, before, text in PATCHES:
        path = place / "arcacct" / name
        content = path.read_text(encoding="utf-8")
        (found,) = re.finditer(before, content)
        path.write_text(content[: found.start()] + text + content[found.start() :], encoding="utf-8")
    (place / "schema" / "upgrade" / "accounting" / f"{NEXT:03}_job_limits.sql").write_text(SCRIPT, encoding="utf-8")
    table = SCRIPT.partition("INSERT")[0]
    (place / "schema" / "accounting" / "90_job_limits.sql").write_text(table, encoding="utf-8")
    return place


@pytest.fixture(params=[*VERSIONS, "this"])
def site(request, memory, empty_box) -> Site:
    """A site that published to all kinds of targets: jobs of A-REX, and those of a database that was imported."""
    made = Site(memory, empty_box, TARGETS)
    here = made.settings.places
    if request.param in VERSIONS:
        pathlib.Path(here.directory).mkdir(parents=True)
        for path, name in ((here.database, "accounting"), (here.publishing_database, "publishing")):
            with closing(sqlite3.connect(path)) as con:
                con.execute("PRAGMA journal_mode = WAL")
                con.executescript((RELEASED / request.param / f"{name}.sql").read_text())
    else:
        made.record(*jobs(3))
        with closing(access.open_accounting(here)) as con:
            stored_jobs.add(con, here, *map(stored_jobs.job, (1, 2)))
    assert [one.error for one in made.publish_all()] == [None] * 3
    return made


def run(program: pathlib.Path, code: str, *arguments: str) -> str:
    """Run code with another program than this one."""
    paths = os.pathsep.join((str(program), str(ROOT / "tests" / "support")))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        cwd=program,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def arcacct(program: pathlib.Path, site: Site, *arguments: str) -> str:
    code = (
        f"import sys, arcacct.cli.main as cli; assert cli.__file__.startswith({str(program)!r}); cli.main(sys.argv[1:])"
    )
    return run(program, code, "--config", str(site.path / "arc.conf"), *arguments)


def log(site: Site) -> list[tuple[object, ...]]:
    return site.database("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq")


def published(site: Site, *, sums: bool = True) -> tuple[object, ...]:
    """
    What was sent of records (and sums), and what the receivers have.

    Counts (sync), and zeros that are repeated, which carry no record, are sent in each run.
    """
    kinds = "'ur', 'car', 'summaries'" if sums else "'ur', 'car'"
    messages = site.ledger(
        f"SELECT MessageID, Target, Kind, State FROM Messages WHERE Kind IN ({kinds}) AND (Kind = 'summaries'"
        " OR MessageID IN (SELECT MessageID FROM SentRecords)) ORDER BY 1"
    )
    apel = site.box.apel
    totals = dict(apel.summaries) if sums else {}
    held = {job: state for job, (state, _why) in site.held().items()}
    return messages, dict(site.box.sgas.records), dict(apel.job_records), totals, held


def test_a_value_more_changes_nothing_that_was_published(site, next_program) -> None:
    """Upgraded, told of again with the new value, and logged without a change: nothing of it goes out."""
    before, logged = published(site), log(site)
    assert logged
    assert before[0]

    assert arcacct(next_program, site, "--version").startswith("arcacct, version 99.")
    arcacct(next_program, site, "db", "upgrade")
    assert site.database("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'") == [(str(NEXT),)]
    assert site.database("SELECT min(Seconds) FROM JobLimits") == [(3600,)]
    arcacct(next_program, site, "publish", "--now")
    assert (published(site), log(site)) == (before, logged)

    # Logged once more, and still what it was: the digest that is compared is the one that was kept. (The sums of a
    # month with anything new in the log are sent, whatever they are.)
    before = published(site, sums=False)
    with closing(sqlite3.connect(site.settings.places.database)) as con:
        for step in (1, -1):
            con.execute("UPDATE AAR SET NodeCount = NodeCount + ? WHERE EndTime > 0", (step,))
        con.commit()
    assert log(site) != logged
    arcacct(next_program, site, "publish", "--now")
    assert published(site, sums=False) == before


TELL = """
import sys, stored_jobs
from contextlib import closing
from arcacct.config.paths import places
from arcacct.database import access as opening
here = places(None, sys.argv[1])
with closing(opening.open_accounting(here)) as con:
    told = [stored_jobs.job(number)._replace(requested_wall_s=7200) for number in (1, 2)]
    stored_jobs.add(con, here, *told)
"""


@pytest.mark.parametrize("site", ["this"], indirect=True)
def test_a_source_that_tells_the_new_value(site, next_program) -> None:
    """The same jobs come once more from the same source: they are completed, and not published again."""
    before, logged = published(site), log(site)
    arcacct(next_program, site, "db", "upgrade")
    run(next_program, TELL, str(site.path / "control"))

    assert site.database("SELECT Seconds FROM JobLimits ORDER BY 1") == [(3600,)] * 3 + [(7200,)] * 2
    arcacct(next_program, site, "publish", "--now")
    assert (published(site), log(site)) == (before, logged)


AGAIN = """
import sys, stored_jobs
from contextlib import closing
from arcacct.config.paths import places
from arcacct.database import access as opening
here = places(None, sys.argv[1])
with closing(opening.open_accounting(here)) as con:
    stored_jobs.add(con, here, stored_jobs.job(3))
"""


def ctx(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    """This program, whatever its exit code is."""
    return run_arcacct("--config", str(site.path / "arc.conf"), *words, cwd=site.path)


@pytest.mark.parametrize("site", ["this"], indirect=True)
def test_the_way_back(site, next_program) -> None:
    """
    This program refuses what the next one took forward, and changes nothing of it; the copy of before is the way back.

    A job that the next one recorded and published in between is imported once more, and counts once. What it noted of
    the job cannot be compared with a value less: so SGAS, which keeps its first version, has a correction to wait for.
    """
    here = site.settings.places
    arcacct(next_program, site, "db", "upgrade")
    run(next_program, AGAIN, str(site.path / "control"))
    arcacct(next_program, site, "publish", "--now")
    after, untouched = published(site), pathlib.Path(here.database).read_bytes()

    for words in (("publish",), ("sweep",), ("db", "upgrade")):
        refused = ctx(site, *words)
        assert (
            f"schema version {NEXT}; this program supports {NEXT - 1}: install the version of arcacct that created it"
            in refused.stderr
        )
        assert refused.returncode == 74
    assert pathlib.Path(here.database).read_bytes() == untouched
    (copy,) = pathlib.Path(here.directory).glob(f"accounting.db.before-schema-{NEXT}.*")
    arcacct(ROOT, site, "db", "restore", str(copy), "--yes")
    run(ROOT, AGAIN, str(site.path / "control"))
    assert ctx(site, "publish", "--now").returncode == 65

    assert site.database("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'") == [(str(NEXT - 1),)]
    assert published(site)[1:4] == after[1:4]
    assert published(site)[4] == {"STORED000003": "correction"}
    assert ctx(site, "publish", "--now").returncode == 0
