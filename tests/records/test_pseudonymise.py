"""Names become pseudonyms wherever they stand: in archives, in sums of pruned jobs, in the records of batch systems."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext

import pytest
import stored_jobs
from control_directory import set_up
from installed import arcacct, configured
from sonar_site import sample, stream
from stored_jobs import END_S

from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting, open_publishing
from arcacct.database.schema import incarnation
from arcacct.publishing import cursors
from arcacct.publishing.cursors import Cursor
from arcacct.records import usage
from arcacct.records.integrity import check
from arcacct.records.pseudonymise import Scope, plan, pseudonymise
from arcacct.records.pseudonyms import Names, site_names
from arcacct.records.retention import PruneOptions, prune

TARGET = "arex/jura/sgas:one"
JUNE = 1_780_272_000
"""2026-06-01: the stored jobs ended in May."""
DATA = pathlib.Path(__file__).parents[1] / "data"
DN = "/DC=org/CN=User 1"


@pytest.fixture
def here(tmp_path) -> Places:
    """Six jobs of three users, delivered."""
    found = places(None, set_up(tmp_path / "control"))
    initialise(found)
    with closing(open_accounting(found)) as con, closing(open_publishing(found)) as publishing:
        stored_jobs.add(con, found, *(stored_jobs.job(number, end_s=END_S + number) for number in range(1, 7)))
        cursors.set_cursor(publishing, Cursor(TARGET, incarnation(con), 6, 0, None))
    return found


def done(here: Places, scope: Scope, **more: object) -> int:
    with closing(open_accounting(here)) as con, closing(open_publishing(here)) as publishing:
        return pseudonymise(here, con, publishing, scope, alone=nullcontext, **more)


def log(path: str) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(path)) as con:
        return con.execute("SELECT Seq, RecordID FROM FinishedLog ORDER BY Seq").fetchall()


def sums(here: Places) -> list[tuple[object, ...]]:
    with closing(open_accounting(here)) as con:
        return sorted((one._replace(user_dn=None) for one in usage.usage_cells(con)), key=repr)


def test_pruned_jobs_too(here) -> None:
    """Their records are in an archive, and their sums here: no name is left in either, and the sums are the same."""
    archive = f"{here.directory}/archive.db"
    with closing(open_accounting(here)) as con, closing(open_publishing(here)) as publishing:
        assert prune(here, con, publishing, PruneOptions(END_S + 4, archive, (TARGET,))).jobs == 3
    before, places_in_log = sums(here), log(here.database)

    assert done(here, Scope(JUNE, DN, (TARGET,))) == 1

    assert sums(here) == before
    assert log(here.database) == places_in_log
    for path in (here.database, archive):
        with closing(sqlite3.connect(path)) as con:
            names = {name for (name,) in con.execute("SELECT Name FROM Users")}
        assert DN not in names
        assert any(name.startswith("pseudonym-") for name in names)
        assert "/DC=org/CN=User 2" in names
    assert {one.problems for one in check(here)} == {()}


def test_it_continues_where_it_was_stopped(here, monkeypatch) -> None:
    """Behind any slice; the names that are left go with the next call, and a pseudonym stays what it is."""
    monkeypatch.setattr("arcacct.records.pseudonymise._SLICE", 1)
    stops: Iterator[bool] = iter([False, False, True])
    everybody = Scope(JUNE, None, (TARGET,))

    assert done(here, everybody, stopping=lambda: next(stops)) == 2
    assert done(here, everybody) == 4
    assert done(here, everybody) == 0

    with closing(sqlite3.connect(here.database)) as con:
        assert {name[:10] for (name,) in con.execute("SELECT Name FROM Users")} == {"pseudonym-"}
        assert con.execute("SELECT count(*) FROM Users").fetchone() == (3,)
    assert {one.problems for one in check(here)} == {()}


def test_what_waits_for_a_target_keeps_the_month(here) -> None:
    """A record that one target has not had yet would go out with a pseudonym; the plan says so, and nothing is done."""
    with closing(open_accounting(here)) as con, closing(open_publishing(here)) as publishing:
        found = plan(con, publishing, Scope(JUNE, DN, (TARGET, "arex/jura/sgas:new")))
    assert found.left == (("not sent to [arex/jura/sgas:new] yet", 6),)
    assert (found.jobs, done(here, Scope(JUNE, DN, (TARGET, "arex/jura/sgas:new")))) == (0, 0)


def test_the_records_of_batch_systems(tmp_path) -> None:
    """After its months nothing in any table is called as an account of a batch system."""
    conf = configured(tmp_path)
    assert arcacct("--config", conf, "import", "slurm", DATA / "slurm/sacct.txt").returncode == 0
    assert arcacct("--config", conf, "import", "gridengine", DATA / "gridengine/accounting.sge819-real").returncode == 0
    assert arcacct("--config", conf, "import", "htcondor", DATA / "htcondor/history").returncode == 0
    assert arcacct("--config", conf, "import", "pbs", DATA / "pbs/torque-20261102").returncode == 0
    assert arcacct("--config", conf, "import", "lsf", DATA / "lsf/lsb.acct").returncode == 0
    here = places(None, str(pathlib.Path(conf).parent / "control"))
    with closing(sqlite3.connect(here.database)) as con:
        asked = "SELECT Owner FROM GridEngineRecords UNION SELECT UserName FROM SlurmRuns"
        asked += " UNION SELECT UserName FROM HTCondorJobs UNION SELECT UserDN FROM HTCondorJobs WHERE UserDN <> ''"
        asked += " UNION SELECT UserName FROM BatchRuns"
        accounts = {name for (name,) in con.execute(asked)}
    assert len(accounts) > 1

    done(here, Scope(2**31))

    with closing(sqlite3.connect(here.database)) as con:
        for account in accounts:
            assert found(con, account) == []
    assert {one.problems for one in check(here)} == {()}


def test_telemetry_of_a_users_jobs(tmp_path) -> None:
    """Commands, and what waits for late samples, go with the names of the user's jobs; those of others stay."""
    conf = configured(tmp_path, "map = owner gebob vo=v user=/CN=Bob\nmap = owner * vo=v user=/CN=Alice")
    assert arcacct("--config", conf, "import", "gridengine", DATA / "gridengine/accounting.sge819-real").returncode == 0
    told = [sample(1795168171 - 1795168800, [{"cmd": "alices", "pid": 7}], job=6, user="gealice")]
    told.append(sample(1795168171 - 1795168800 - 200 * 86_400, [{"cmd": "carols", "pid": 7}], job=6, user="gecarol"))
    for one in told:
        one["data"]["attributes"]["jobs"][0]["array_task_id"] = 4
    told.append(sample(1795168185 - 1795168800, [{"cmd": "bobs", "pid": 8}], job=25, user="gebob"))
    (tmp_path / "samples.json").write_bytes(stream(*told))
    command = ("--config", conf, "import", "sonar", "--details", tmp_path / "samples.json")
    assert arcacct(*command).stdout.endswith("2 records enriched\n")
    here = places(None, str(pathlib.Path(conf).parent / "control"))

    done(here, Scope(2**31, "/CN=Alice"))

    with closing(sqlite3.connect(here.database)) as con:
        assert con.execute("SELECT command FROM v1_job_commands ORDER BY 1").fetchall() == [("bobs",), ("carols",)]
        users = [name for (name,) in con.execute("SELECT user_name FROM v1_sampled_jobs ORDER BY first_time")]
        assert (users[0], users[1].startswith("pseudonym-"), users[2]) == ("gecarol", True, "gebob")
        assert con.execute("SELECT count(*) FROM JobSamples").fetchall() == [(2,)]


def found(con: sqlite3.Connection, text: str) -> list[str]:
    """The columns with a text, of every table; the batch system's own projects and queues may be called so, too."""
    columns = [
        (table, column[1])
        for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for column in con.execute(f"PRAGMA table_info({table})").fetchall()
    ]
    return [
        f"{table}.{column}"
        for table, column in columns
        if column not in ("Account", "Project", "Department", "QName", "FQAN", "WCKey")
        and con.execute(f"SELECT 1 FROM {table} WHERE {column} = ? LIMIT 1", (text,)).fetchone()
    ]


def test_pseudonyms() -> None:
    """The same name, the same pseudonym; by another key another one; nothing for no one, and itself for one."""
    names = Names(b"k" * 32)
    made = names.of(DN)
    assert made == names.of(DN) != names.of("/DC=org/CN=User 2")
    assert made != Names(b"l" * 32).of(DN)
    assert names.of(made) == made
    assert names.of("") == ""


def test_the_key_is_made_once(here) -> None:
    """It stays what it is; one that others may read is refused."""
    first = site_names(here).of(DN)
    assert site_names(here).of(DN) == first
    key = pathlib.Path(here.directory, "pseudonyms.key")
    key.chmod(0o644)
    with pytest.raises(Exception, match="only its owner may read"):
        site_names(here)


def test_an_import_of_the_same_jobs_changes_nothing(here) -> None:
    """Whatever a source says of a forgotten job, it is as it was, and nothing is logged."""
    done(here, Scope(JUNE, None, (TARGET,)))
    before = log(here.database)
    with closing(open_accounting(here)) as con:
        stored_jobs.add(con, here, *(stored_jobs.job(number, end_s=END_S + number) for number in range(1, 7)))
    assert log(here.database) == before
    with closing(sqlite3.connect(here.database)) as con:
        assert {name[:10] for (name,) in con.execute("SELECT user_dn FROM v1_jobs")} == {"pseudonym-"}
