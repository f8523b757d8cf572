"""Creating the databases and taking them forward."""

from __future__ import annotations

import grp
import hashlib
import os
import pathlib
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest
import slurm_files
import sql_contract
from arex_corpus import arex_database
from control_directory import set_up
from generated import WRITE
from gridengine_files import World, changed_json, json_line, ran
from htcondor_files import CondorHost, ad, history
from other_users import acting_as
from slurm_files import BEGIN, SlurmHost
from sonar_site import Host, sample, stream

import arcacct
from arcacct.config.paths import places
from arcacct.database import integrity, schema
from arcacct.database.access import initialise, leave_open, open_accounting, open_publishing, require_own_schema
from arcacct.database.connection import ACCOUNTING_SCHEMA, PUBLISHING_SCHEMA, open_database, open_for_reading, uri
from arcacct.database.schema import (
    ACCOUNTING,
    PUBLISHING,
    SOURCES,
    DatabaseKind,
    create_views,
    ensure,
    in_memory,
    incarnation,
    texts,
    upgrades,
)
from arcacct.errors import ConfigError, SchemaError, StoreError
from arcacct.files.directories import resource

BOTH = pytest.mark.parametrize("kind", [ACCOUNTING, PUBLISHING], ids=["accounting", "publishing"])

RELEASED = pathlib.Path(__file__).parent.parent / "data" / "released"
LATER = list(upgrades(ACCOUNTING))
NEXT = ACCOUNTING_SCHEMA + 1


def _mode(path: str | pathlib.Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize(
    ("kind", "constant"),
    [(ACCOUNTING, ACCOUNTING_SCHEMA), (PUBLISHING, PUBLISHING_SCHEMA)],
    ids=["accounting", "publishing"],
)
def test_the_number_of_the_schema_is_the_last_script(kind: DatabaseKind, constant: int) -> None:
    """The hook knows the schema by a constant, the number of the last script; no number is there twice."""
    folder = resource("schema", "upgrade", kind.folder)

    assert list(upgrades(kind))[-1] == constant == kind.schema
    assert list(texts(kind)) == [kind.oldest, *upgrades(kind)]
    assert len(upgrades(kind)) + len(texts(kind)) == len(os.listdir(folder))


@BOTH
def test_the_text_of_this_schema_is_written_down(kind: DatabaseKind) -> None:
    """
    A later program needs it for databases and backups of this one, word for word, with the views of all sources.

    ``ARCACCT_WRITE_DOCS=1`` writes it again.
    """
    with closing(in_memory(kind)) as fresh:
        create_views(fresh, *(SOURCES if kind is ACCOUNTING else ()))
        fresh.execute(f"DELETE FROM DBConfig WHERE KeyName IN {_OF_ONE_DATABASE}")
        made = list(fresh.iterdump())
    name = f"{kind.schema:03}_as_of_{'.'.join(arcacct.__version__.split('.')[:2])}.sql"
    path = pathlib.Path(texts(kind).get(kind.schema, f"{resource('schema', 'upgrade', kind.folder)}/{name}"))
    if os.environ.get(WRITE):
        head = f"-- The {kind.folder} database as arcacct makes it (schema {kind.schema}), for later programs.\n"
        path.write_text(head + "".join(f"{line}\n" for line in made[1:-1] if '"sqlite_sequence"' not in line))

    with closing(sqlite3.connect(":memory:")) as con:
        con.executescript(path.read_text())
        assert sorted(con.iterdump()) == sorted(made)


_OF_ONE_DATABASE = "('ARCACCT_SCHEMA', 'ARCACCT_INCARNATION', 'ARCACCT_CREATED')"


@BOTH
def test_a_database_is_created_once(tmp_path: pathlib.Path, kind: DatabaseKind) -> None:
    """The first call makes it, the second does nothing."""
    path = str(tmp_path / "ours" / "x.db")

    assert ensure(path, kind) == [0, kind.schema]
    assert ensure(path, kind) == []
    open_database(path, kind.schema).close()


def test_the_tables_of_arex_keep_their_version(tmp_path: pathlib.Path) -> None:
    """DBSCHEMA_VERSION stays ARC's 1; ours is next to it, with a random name for this life of the database."""
    with closing(open_accounting(places(None, set_up(tmp_path)))) as con:
        config = dict(con.execute("SELECT KeyName, KeyValue FROM DBConfig").fetchall())

        assert config["DBSCHEMA_VERSION"] == "1"
        assert config["ARCACCT_SCHEMA"] == str(ACCOUNTING_SCHEMA)
        assert len(config["ARCACCT_INCARNATION"]) == 32
        assert incarnation(con) == config["ARCACCT_INCARNATION"]


def test_two_databases_have_two_incarnations(tmp_path: pathlib.Path) -> None:
    """A database that is made again is not the one that a cursor belongs to."""
    names = set()
    for folder in ("a", "b"):
        with closing(open_accounting(places(None, set_up(tmp_path / folder)))) as con:
            names.add(incarnation(con))

    assert len(names) == 2


def test_the_columns_of_aar_are_arex_own(tmp_path: pathlib.Path) -> None:
    """ARC's arcctl reads AAR by position: names and order are those of a real A-REX."""
    with closing(open_accounting(places(None, set_up(tmp_path)))) as con, closing(arex_database()) as arex:
        tables = [
            name
            for (name,) in arex.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if "sqlite" not in name
        ]
        for table in tables:
            theirs = arex.execute(f"SELECT name, type FROM pragma_table_info('{table}') ORDER BY cid").fetchall()
            assert (
                con.execute(f"SELECT name, type FROM pragma_table_info('{table}') ORDER BY cid").fetchall() == theirs
            ), table

    assert "AAR" in tables
    assert len(tables) >= 11


@BOTH
def test_a_newer_database_is_refused(tmp_path: pathlib.Path, kind: DatabaseKind) -> None:
    """Nothing goes backward: the complaint names the file, both versions and the way out."""
    path = str(tmp_path / "x.db")
    ensure(path, kind)
    _set_version(path, str(kind.schema + 1))

    for refused in (lambda: ensure(path, kind), lambda: open_database(path, kind.schema)):
        with pytest.raises(
            SchemaError, match=f"x.db: schema version {kind.schema + 1}; this program supports {kind.schema}"
        ):
            refused()


def _set_version(path: str, number: str) -> None:
    with closing(sqlite3.connect(path)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_SCHEMA'", (number,))
        con.commit()


@pytest.mark.parametrize("version", ["", "three", "-1", "²"])
def test_a_version_that_is_no_number_is_refused(tmp_path: pathlib.Path, version: str) -> None:
    """A file whose mark makes no sense is not ours."""
    path = str(tmp_path / "x.db")
    ensure(path, ACCOUNTING)
    _set_version(path, version)

    with pytest.raises(SchemaError, match="not a database of arcacct"):
        open_database(path, ACCOUNTING_SCHEMA)


def test_a_foreign_database_is_refused_and_left_alone(tmp_path: pathlib.Path) -> None:
    """A database of A-REX, or of anyone, is not imported: not a byte of it changes."""
    path = tmp_path / "accounting.db"
    with closing(sqlite3.connect(path)) as con:
        con.execute("CREATE TABLE DBConfig (KeyName TEXT PRIMARY KEY, KeyValue TEXT NOT NULL)")
        con.execute("INSERT INTO DBConfig VALUES ('DBSCHEMA_VERSION', '1')")
        con.commit()
    before = path.read_bytes()

    for refused in (
        lambda: ensure(str(path), ACCOUNTING),
        lambda: open_database(str(path), ACCOUNTING_SCHEMA),
        lambda: open_for_reading(str(path), ACCOUNTING_SCHEMA),
    ):
        with pytest.raises(SchemaError, match=r"accounting\.db: not a database of arcacct"):
            refused()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4096], ids=["text", "header"]
)
def test_a_corrupt_database_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    """A file that SQLite cannot read is a StoreError that says what to do, and it stays as it is."""
    path = tmp_path / "x.db"
    path.write_bytes(content)

    for refused in (lambda: ensure(str(path), ACCOUNTING), lambda: open_database(str(path), ACCOUNTING_SCHEMA)):
        with pytest.raises(StoreError, match=r"x\.db: .*`arcacct db check` shows what, and what to do"):
            refused()
    assert path.read_bytes() == content


def test_a_missing_database_is_not_made_by_opening(tmp_path: pathlib.Path) -> None:
    """The hook opens and never creates: the complaint says which command does."""
    path = str(tmp_path / "x.db")

    with pytest.raises(StoreError, match="no such database; create it with `arcacct db init`"):
        open_database(path, ACCOUNTING_SCHEMA)
    assert not os.path.exists(path)


def test_an_interrupted_creation_is_taken_up_again(tmp_path: pathlib.Path) -> None:
    """A creation that ended after its first sign of life is completed by the next."""
    bare = str(tmp_path / "bare.db")
    with closing(sqlite3.connect(bare)) as con:
        con.execute("PRAGMA journal_mode = WAL")
    assert os.path.getsize(bare) > 0

    assert ensure(bare, ACCOUNTING) == [0, ACCOUNTING_SCHEMA]


def test_many_creators_make_one_database(tmp_path: pathlib.Path) -> None:
    """Commands that start together on a fresh host all find it created."""
    script = (
        "import sys; from arcacct.database.schema import ACCOUNTING, ensure\n"
        "print(len(ensure(sys.argv[1], ACCOUNTING)))"
    )
    path = str(tmp_path / "ours" / "x.db")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    answers = [process.communicate() for process in running]

    assert [stderr for _stdout, stderr in answers] == [""] * 6
    assert sorted(stdout.strip() for stdout, _stderr in answers) == ["0"] * 5 + ["2"]


def of_0_2(path: str, kind: DatabaseKind = ACCOUNTING) -> None:
    """An empty database of arcacct 0.2."""
    with closing(in_memory(kind, kind.oldest)) as made, closing(sqlite3.connect(path)) as con:
        made.backup(con)
        con.execute("PRAGMA journal_mode = WAL")


def objects(con: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """The text by which each object was made."""
    rows = con.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
    return {(type_, name): sql for type_, name, sql in rows}


@BOTH
@pytest.mark.parametrize("release", sorted(os.listdir(RELEASED)))
def test_a_database_taken_forward_is_a_new_one_object_by_object(
    tmp_path: pathlib.Path, kind: DatabaseKind, release: str
) -> None:
    """Also one that a released program wrote: the texts are the same, none has a comment, and nothing is damaged."""
    path = str(tmp_path / "x.db")
    with closing(sqlite3.connect(path)) as con:
        con.executescript((RELEASED / release / f"{kind.folder}.sql").read_text())
        before = {
            name: con.execute(f"SELECT count(*) FROM {name}").fetchone() for name in ("DBConfig", "sqlite_sequence")
        }

    ensure(path, kind)

    with closing(sqlite3.connect(path)) as con, closing(in_memory(kind)) as fresh:
        assert objects(con) == objects(fresh)
        assert not any(name in sql for sql in objects(con).values() for name in ("v1_slurm_runs", "v1_nodes"))
        assert not [name for name, sql in objects(con).items() if "--" in sql]
        assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert con.execute("SELECT count(*) FROM sqlite_sequence").fetchone() >= before["sqlite_sequence"]


@BOTH
def test_views_that_others_added_stay_and_do_not_stop_the_upgrade(tmp_path: pathlib.Path, kind: DatabaseKind) -> None:
    """One that reads a view of ours, and one that has been broken for long."""
    path = str(tmp_path / "x.db")
    ours = "v1_jobs" if kind is ACCOUNTING else "v1_publications"
    theirs = {
        "theirs": f"CREATE VIEW theirs AS SELECT count(*) AS n FROM {ours}",
        "broken": "CREATE VIEW broken AS SELECT x FROM long_gone",
    }
    with closing(sqlite3.connect(path)) as con:
        con.executescript((RELEASED / "0.2.0" / f"{kind.folder}.sql").read_text())
        con.executescript(";".join(theirs.values()))
        (expected,) = con.execute("SELECT n FROM theirs").fetchone()

    ensure(path, kind)

    with closing(sqlite3.connect(path)) as con:
        assert {name: sql for (_, name), sql in objects(con).items() if name in theirs} == theirs
        assert con.execute("SELECT n FROM theirs").fetchone() == (expected,)
        assert expected


def test_an_upgrade_keeps_the_views_of_sources_that_were_imported(tmp_path: pathlib.Path) -> None:
    """Those of others go: the first import creates them."""
    path = str(tmp_path / "x.db")
    with closing(sqlite3.connect(path)) as con:
        con.executescript((RELEASED / "0.2.0" / "accounting.sql").read_text())
        con.execute("INSERT INTO Clusters VALUES (1, 'c')")
        con.execute("INSERT INTO NodeNames VALUES (1, 1, 'n')")
        con.commit()
        assert con.execute("SELECT count(*) FROM v1_slurm_runs").fetchone() == (0,)

    ensure(path, ACCOUNTING)

    with closing(sqlite3.connect(path)) as con, closing(in_memory(ACCOUNTING)) as fresh:
        views = {("view", name): sql for name, sql in schema.views_of("sonar").items()}
        assert objects(con) == objects(fresh) | views
        assert con.execute("SELECT count(*) FROM v1_nodes").fetchone() == (0,)


@BOTH
def test_an_index_that_somebody_dropped_is_created_by_an_upgrade(tmp_path: pathlib.Path, kind: DatabaseKind) -> None:
    """Whether it stays, gets another name, or goes."""
    path = str(tmp_path / "x.db")
    of_0_2(path, kind)
    with closing(sqlite3.connect(path)) as con:
        for (_, name), _sql in filter(lambda one: one[0][0] == "index", objects(con).items()):
            con.execute(f"DROP INDEX {name}")

    ensure(path, kind)

    with closing(sqlite3.connect(path)) as con, closing(in_memory(kind)) as fresh:
        assert objects(con) == objects(fresh)


def test_an_object_that_is_not_as_arcacct_makes_it_stops_the_upgrade(tmp_path: pathlib.Path) -> None:
    """A column that somebody added to a table: nothing changes, and the complaint names the table."""
    path = str(tmp_path / "x.db")
    of_0_2(path)
    with closing(sqlite3.connect(path)) as con:
        con.execute("ALTER TABLE StatusFiles ADD COLUMN Extra TEXT")
        con.commit()

    with pytest.raises(SchemaError, match="StatusFiles differs from arcacct's schema"):
        ensure(path, ACCOUNTING)
    with closing(sqlite3.connect(path)) as con:
        assert ("KeyValue",) not in con.execute("SELECT KeyValue FROM DBConfig").fetchall()
        assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize(("kind", "other"), [(ACCOUNTING, PUBLISHING), (PUBLISHING, ACCOUNTING)])
def test_the_other_database_in_this_place_is_named(
    tmp_path: pathlib.Path, kind: DatabaseKind, other: DatabaseKind
) -> None:
    """Its version is another kind's: neither an upgrade nor another version of arcacct would help."""
    path = str(tmp_path / "x.db")
    ensure(path, other)
    said = f"x.db: it is a {other.folder} database, and the {kind.folder} database belongs here"

    for use in (
        ensure,
        lambda path, kind: open_database(path, kind.schema),
        lambda p, k: open_for_reading(p, k.schema),
    ):
        with pytest.raises(SchemaError, match=said):
            use(path, kind)


def test_a_database_of_0_1_is_refused(tmp_path: pathlib.Path) -> None:
    """0.2 takes it forward first."""
    path = str(tmp_path / "x.db")
    of_0_2(path)
    _set_version(path, "6")

    with pytest.raises(SchemaError, match=r"first upgrade it with arcacct 0\.2"):
        ensure(path, ACCOUNTING)


@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, number) for kind in (ACCOUNTING, PUBLISHING) for number in (kind.oldest + 1, kind.schema - 1)],
    ids=lambda value: value if isinstance(value, int) else value.folder,
)
def test_a_database_of_an_unreleased_schema_is_refused_with_the_way_out(
    tmp_path: pathlib.Path, kind: DatabaseKind, number: int
) -> None:
    """Only a backup of a release continues; nothing is changed."""
    path = tmp_path / "x.db"
    of_0_2(str(path), kind)
    _set_version(str(path), str(number))
    before = path.read_bytes()

    with pytest.raises(
        SchemaError,
        match=f"x.db: schema version {number}; it is of no release, and cannot be upgraded: restore a backup",
    ):
        ensure(str(path), kind)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.db"]


def test_a_ledger_that_0_2_has_not_carried_over_is_refused(tmp_path: pathlib.Path) -> None:
    """What 0.1 wrote into it would be lost."""
    path = str(tmp_path / "x.db")
    of_0_2(path, PUBLISHING)
    with closing(sqlite3.connect(path)) as con:
        con.execute(
            "INSERT INTO FormerRecords VALUES (1, 0, 'j', 1, 1, 1, x'', 'k', NULL, NULL, NULL, NULL, NULL, NULL)"
        )
        con.commit()

    with pytest.raises(StoreError, match="carried over the ledger"):
        ensure(path, PUBLISHING)


def test_an_older_database_goes_forward_after_a_backup(tmp_path: pathlib.Path) -> None:
    """Only the missing scripts run, what was recorded stays, and the database of before lies next to it, private."""
    path = str(tmp_path / "x.db")
    of_0_2(path)
    with closing(sqlite3.connect(path)) as con:
        con.execute("INSERT INTO Users (Name) VALUES ('/CN=Ada')")
        con.commit()

        # The row is in the WAL only: a copy of the file alone would not have it.
        assert ensure(path, ACCOUNTING) == LATER

    (copy,) = tmp_path.glob("x.db.before-schema-*")
    assert _mode(copy) == 0o600
    with closing(sqlite3.connect(copy)) as con:
        assert con.execute("SELECT Name FROM Users").fetchall() == [("/CN=Ada",)]
        assert con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'ARCACCT_SCHEMA'").fetchall() == [("21",)]
        assert con.execute("SELECT count(*) FROM sqlite_master WHERE name = 'RecordHolds'").fetchone() == (0,)
    with closing(open_database(path, ACCOUNTING_SCHEMA)) as con:
        assert con.execute("SELECT Name FROM Users").fetchall() == [("/CN=Ada",)]


@pytest.mark.parametrize("release", sorted(os.listdir(RELEASED)))
def test_the_views_of_a_released_database_show_what_they_did(tmp_path: pathlib.Path, release: str) -> None:
    """Taken forward its views are those of a new one, with the same values, without usage of jobs that do not count."""
    path = str(tmp_path / "x.db")
    with closing(sqlite3.connect(path)) as con:
        con.executescript((RELEASED / release / "accounting.sql").read_text())
        before = {view: _rows(con, view) for (view,) in con.execute(_VIEWS).fetchall()}

    assert ensure(path, ACCOUNTING)[-1] == ACCOUNTING_SCHEMA

    assert len(before["v1_jobs"]) > 1
    with closing(open_database(path, ACCOUNTING_SCHEMA)) as con:
        assert integrity.schema(con, ACCOUNTING) == []
        # Nothing was imported: the views of sources showed nothing, and are not there.
        kept = [view for (view,) in con.execute(_VIEWS).fetchall()]
        assert not any(rows for view, rows in before.items() if view not in kept)
        after = {view: _rows(con, view) for view in kept if view in before}
        names = sql_contract.actual(con, "v1_jobs")
        assert set(sql_contract.affinities(con, "v1_jobs").values()) == {"INT", "REAL", "TEXT"}
    for number, row in enumerate(after["v1_jobs"]):
        if not row[names.index("counted")]:
            usage = [place for place, name in enumerate(names) if name.endswith(("_s", "_bytes", "_kib"))]
            former = before["v1_jobs"][number]
            before["v1_jobs"][number] = tuple(None if place in usage else value for place, value in enumerate(former))
    for view, rows in after.items():
        # What a later version added to a view is behind what it had.
        assert [row[: len(before[view][0])] for row in rows] == before[view], view


@pytest.mark.parametrize("release", sorted(os.listdir(RELEASED)))
def test_the_records_of_a_released_ledger_stay_as_they_were_sent(tmp_path: pathlib.Path, release: str) -> None:
    """Under their keys, whatever these have in common; what held the parts of keys and the jobs is gone."""
    path = str(tmp_path / "x.db")
    jobs = ["one", "two", "one2", '["SITE", "7", 5]']
    with closing(sqlite3.connect(path)) as con:
        con.executescript((RELEASED / release / "publishing.sql").read_text())
        (last,) = con.execute("SELECT max(MessageID) FROM Messages").fetchone()
        con.executemany("INSERT INTO Jobs VALUES (?, ?, 0)", [(900 + number, job) for number, job in enumerate(jobs)])
        con.executemany(
            "INSERT INTO KeyForms VALUES (?, ?)",
            [(901, "ur-ce-\1"), (902, '["SITE", "\3", \2]'), (903, "\2-\1-\3"), (904, "urn:\1:\2")],
        )
        # By message: the template and the rest of each record's key. Template 1 is the rest alone.
        sent = [
            [(901, "")] * 4, [(902, "7")] * 4, [(1, "one"), (901, "")], [(903, "x"), (903, "")], [(904, "")],
            [(1, "")], [(901, ""), (902, "8")],
        ]  # fmt: skip
        for number, records in enumerate(sent, last + 1):
            con.execute(
                "INSERT INTO Messages (MessageID, Target, Kind, Origin, State, Created, RecordCount, ByteCount, Digest,"
                " Destination) VALUES (?, 'a', 'ur', 'publish', 'accepted', 5, 1, 1, '', '')",
                (number,),
            )
            con.executemany(
                "INSERT INTO SentRecords VALUES (?, ?, ?, ?, ?, ?, ?, 7, 60, NULL, NULL)",
                [
                    ((number << 20) + place, 900 + place, 5 + place, b"d" * (16 * (place > 0)), *key, "cut" * place)
                    for place, key in enumerate(records)
                ],
            )
        con.commit()
        before = _rows(con, "v1_publications")
        positions = "SELECT MessageID, Position, JobID, Digest, Notes, {}, Wall FROM {} ORDER BY 1, 2"
        stored = con.execute(positions.format("GivenID", "SentRows")).fetchall()

    assert ensure(path, PUBLISHING)[-1] == PUBLISHING_SCHEMA

    with closing(open_database(path, PUBLISHING_SCHEMA)) as con:
        assert _rows(con, "v1_publications") == before
        assert con.execute(positions.format("PublishedTotalID", "SentRecords")).fetchall() == stored
        asked = "SELECT KeyPrefix, group_concat(quote(KeyRest)) FROM Messages JOIN SentRecords USING (MessageID)"
        rows = con.execute(f"{asked} WHERE MessageID > ? GROUP BY MessageID", (last,)).fetchall()
        assert rows[:2] == [
            ("ur-ce-", "NULL,NULL,NULL,NULL"),
            ('["SITE", "', ",".join(f"'7\", {5 + place}]'" for place in range(4))),
        ]
        tables = {name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert not tables & {"Jobs", "JobHashes", "NewJobHashes", "KeyForms", "KeyTemplates", "FormerRecords"}


def test_places_numbers_and_bytes_of_a_ledger_of_0_2_stay(tmp_path: pathlib.Path) -> None:
    """Spellings of a place that differ in case alone become one; no number of a message is used again."""
    path = str(tmp_path / "x.db")
    of_0_2(path, PUBLISHING)
    with closing(sqlite3.connect(path)) as con:
        con.executemany(
            "INSERT INTO Given VALUES (?, 'a', ?, ?, 2026, 5, ?, ?)",
            [(1, "SITE", "ce", 2, 20), (2, "site", "CE", 1, 7), (3, "B", "ce", 4, 1)],
        )
        con.executemany("INSERT INTO Jobs VALUES (?, ?, 0)", [(1, "one"), (2, "two")])
        for number, content in ((5, b"xy"), (9, None)):
            con.execute(
                "INSERT INTO Messages (MessageID, Target, Kind, Origin, State, Created, RecordCount, ByteCount, Digest,"
                " Destination, Bytes) VALUES (?, 'a', 'car', 'publish', 'accepted', 5, 1, 1, '', '', ?)",
                (number, content),
            )
        con.execute("DELETE FROM Messages WHERE MessageID = 9")
        con.executemany(
            "INSERT INTO SentRecords VALUES (?, ?, 7, x'00', 1, 'k', NULL, ?, 60, ?, 50)",
            [((5 << 20) + 0, 1, 2, 2), ((5 << 20) + 1, 2, 1, 3)],
        )
        con.execute("INSERT INTO Targets (Target, Incarnation, LastSeq, StartEndTime) VALUES ('a', 'life', 4, 0)")
        con.commit()

    ensure(path, PUBLISHING)

    with closing(sqlite3.connect(path)) as con:
        totals = "SELECT PublishedTotalID, Site, SubmitHost, Jobs, Wall, IsSent FROM PublishedTotals JOIN SentNames"
        assert con.execute(f"{totals} USING (NamesID) ORDER BY 1").fetchall() == [
            (1, "SITE", "ce", 3, 27, 1),
            (3, "B", "ce", 4, 1, 1),
        ]
        assert con.execute("SELECT PublishedTotalID, ReplacedID FROM SentRecords").fetchall() == [(1, 1), (1, 3)]
        assert con.execute("SELECT * FROM MessageBytes").fetchall() == [(5, 1, b"xy")]
        assert con.execute("SELECT seq FROM sqlite_sequence WHERE name = 'Messages'").fetchall() == [(9,)]
        assert con.execute("SELECT LastSeq, LastSeqAgain FROM Targets").fetchall() == [(4, 4)]


_VIEWS = "SELECT name FROM sqlite_master WHERE type = 'view' AND name GLOB 'v1_*'"


def _rows(con: sqlite3.Connection, view: str) -> list[tuple[object, ...]]:
    return sorted(con.execute(f"SELECT * FROM {view}").fetchall(), key=repr)


def next_kind(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, script: str) -> DatabaseKind:
    """The accounting database of the next program, with a script that creates a table."""
    folder = tmp_path / "scripts"
    shutil.copytree(resource("schema"), folder, dirs_exist_ok=True)
    (folder / "upgrade" / "accounting" / f"{NEXT:03}_next.sql").write_text(script)
    (folder / "accounting" / "90_next.sql").write_text("CREATE TABLE Next (A);\n")
    found = ACCOUNTING._replace(schema=NEXT)
    monkeypatch.setattr(schema, "resource", lambda _top, *folders: str(folder.joinpath(*folders)))
    monkeypatch.setattr(schema, "ACCOUNTING", found)
    return found


@pytest.mark.parametrize("sources", [(), ("sonar", "slurm")], ids=["without sources", "with sources"])
def test_the_next_program_takes_a_database_and_a_backup_of_this_one(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, sources: tuple[str, ...]
) -> None:
    """It is compared word for word, with the views of the sources that it has; what others added is found."""
    path = str(tmp_path / "x.db")
    ensure(path, ACCOUNTING)
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        create_views(con, *sources)
        con.execute("CREATE VIEW theirs AS SELECT 1 AS n")
        kind = next_kind(tmp_path, monkeypatch, "CREATE TABLE Next (A);\n")
        with pytest.raises(SchemaError, match="it has 'VIEW theirs', which arcacct did not create"):
            require_own_schema(con, path, kind, exactly=True)
        assert require_own_schema(con, path, kind, exactly=False) == ACCOUNTING_SCHEMA
        con.execute("BEGIN")
        con.execute("DROP TRIGGER RecordHolds_insert")
        with pytest.raises(SchemaError, match="RecordHolds_insert is missing"):
            require_own_schema(con, path, kind, exactly=False)
        con.execute("ROLLBACK")
        if sources:
            con.execute("INSERT INTO Clusters VALUES (1, 'c')")
            con.execute("INSERT INTO NodeNames VALUES (1, 1, 'n')")

    assert ensure(path, kind) == [NEXT]

    with closing(open_database(path, NEXT)) as con:
        assert con.execute("SELECT n FROM theirs").fetchall() == [(1,)]
        views = {name for type_, name in objects(con) if type_ == "view"}
        assert views & {"v1_nodes", "v1_slurm_runs"} == ({"v1_nodes"} if sources else set())


@pytest.mark.campaign
def test_a_script_that_fails_leaves_the_version_before(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script and its number commit together: of one that fails nothing remains, and it can be run again."""
    path = str(tmp_path / "x.db")
    ensure(path, ACCOUNTING)
    script = "CREATE TABLE Next (A);\nINSERT INTO Next VALUES (1);\n"
    kind = next_kind(tmp_path, monkeypatch, f"{script}NO SQL AT ALL;\n")

    with pytest.raises(StoreError, match=f"{NEXT:03}_next"):
        ensure(path, kind)
    with closing(open_database(path, ACCOUNTING_SCHEMA)) as con:
        assert con.execute("SELECT count(*) FROM sqlite_master WHERE name = 'Next'").fetchone() == (0,)

    next_kind(tmp_path, monkeypatch, script)
    assert ensure(path, kind) == [NEXT]
    open_database(path, NEXT).close()
    assert len(list(tmp_path.glob(f"x.db.before-schema-{NEXT}.*"))) >= 1


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777], ids=oct)
def test_the_databases_are_their_owners_alone(tmp_path: pathlib.Path, umask: int) -> None:
    """Directory 0700 and files 0600 whatever the umask, -wal and -shm too."""
    here = places(None, set_up(tmp_path))
    os.mkdir(tmp_path / "accounting")
    before = os.umask(umask)
    try:
        with closing(open_accounting(here)) as one, closing(open_publishing(here)) as other:
            one.execute("INSERT INTO Users (Name) VALUES ('x')")
            other.execute("INSERT INTO DBConfig VALUES ('x', 'y')")
            modes = {path.name: _mode(path) for path in pathlib.Path(here.directory).iterdir()}
    finally:
        os.umask(before)

    assert _mode(here.directory) == 0o700
    assert set(modes) == {f"{name}.db{tail}" for name in ("accounting", "publishing") for tail in ("", "-wal", "-shm")}
    assert set(modes.values()) == {0o600}


def test_an_unknown_read_group_makes_nothing(tmp_path: pathlib.Path) -> None:
    """A slip in read_group= is an error of the configuration, before a database is made that no one can read."""
    path = tmp_path / "ours" / "x.db"

    with pytest.raises(ConfigError, match="read_group=nosuchgroup: this host has no such group"):
        ensure(str(path), ACCOUNTING, read_group="nosuchgroup")
    assert not path.exists()


def _group() -> str:
    """A group that no one's own group is not."""
    return next(group.gr_name for group in grp.getgrall() if group.gr_name in ("games", "users", "daemon"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be a member of a group")
def test_read_group_reads_and_nobody_else(public_dir: pathlib.Path) -> None:
    """Members of read_group= read the database after the command has ended, cannot write it; others cannot read."""
    database = str(public_dir / "ours" / "accounting.db")
    here = places(None, str(public_dir), database)
    here.read_group = _group()
    initialise(here)
    con = open_accounting(here)
    con.execute("INSERT INTO Users (Name) VALUES ('/CN=Ada')")
    leave_open(con, here.database)
    member = grp.getgrnam(_group()).gr_gid

    assert (_mode(here.directory), _mode(database)) == (0o750, 0o640)
    assert _as_nobody(database, (member,), "SELECT Name FROM Users") == "[('/CN=Ada',)]"
    assert "readonly" in _as_nobody(database, (member,), "DELETE FROM Users")
    assert "unable to open" in _as_nobody(database, (), "SELECT Name FROM Users")


def _as_nobody(database: str, groups: tuple[int, ...], statement: str) -> str:
    with acting_as("nobody", groups=groups):
        try:
            with closing(sqlite3.connect(uri(database, "ro"), uri=True)) as con:
                return str(con.execute(statement).fetchall())
        except sqlite3.Error as error:
            return str(error)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to a group")
def test_read_group_can_come_later(tmp_path: pathlib.Path) -> None:
    """`db init` on databases that are there applies read_group= to all their files, and its absence too."""
    here = places(None, set_up(tmp_path))
    with closing(open_accounting(here)) as con:
        con.execute("INSERT INTO Users (Name) VALUES ('x')")
        here.read_group = _group()
        initialise(here)
        opened = [os.stat(here.database + tail) for tail in ("", "-wal", "-shm")]
        here.read_group = None
        initialise(here)

        assert {stat.S_IMODE(found.st_mode) for found in opened} == {0o640}
        assert {grp.getgrgid(found.st_gid).gr_name for found in opened} == {_group()}
        assert _mode(here.database) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to a group")
def test_a_directory_that_is_not_ours_keeps_its_mode(tmp_path: pathlib.Path) -> None:
    """With database= in a directory of others that directory is not given to the group."""
    tmp_path.chmod(0o755)
    here = places(None, str(tmp_path / "control"), str(tmp_path / "accounting.db"))
    here.read_group = _group()

    initialise(here)

    assert (_mode(tmp_path), os.stat(tmp_path).st_gid) == (0o755, 0)
    assert _mode(here.database) == 0o640


@pytest.mark.parametrize("name", ["a?b#c%d.db", "jø b.db", "a%41.db"])
def test_a_database_may_have_any_name(tmp_path: pathlib.Path, name: str) -> None:
    """Question marks, hashes, percent signs and letters of any kind in a path are letters of the path."""
    path = str(tmp_path / name)
    ensure(path, ACCOUNTING)

    open_database(path, ACCOUNTING_SCHEMA).close()
    assert os.listdir(tmp_path) == [name]


def test_a_path_with_two_slashes_is_a_path(tmp_path: pathlib.Path) -> None:
    """SQLite does not take the first folder of //folder for a host."""
    path = f"/{tmp_path}/x.db"
    ensure(path, ACCOUNTING)

    open_for_reading(path, ACCOUNTING_SCHEMA).close()
    assert (tmp_path / "x.db").exists()


def test_a_reader_cannot_write(tmp_path: pathlib.Path) -> None:
    """What is opened for reading refuses to change anything."""
    path = str(tmp_path / "x.db")
    ensure(path, ACCOUNTING)

    with (
        closing(open_for_reading(path, ACCOUNTING_SCHEMA)) as con,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        con.execute("INSERT INTO Users (Name) VALUES ('x')")


@BOTH
def test_a_script_that_landed_never_changes(kind: DatabaseKind) -> None:
    """Sites have run it: upgrade/CHECKSUMS (as `sha256sum` writes it) has a line for each; a change is a new script."""
    with open(resource("schema", "upgrade", "CHECKSUMS"), encoding="ascii") as file:
        noted = dict(line.split()[::-1] for line in file)
    found = map(pathlib.Path, [*texts(kind).values(), *upgrades(kind).values()])

    assert {f"{kind.folder}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in found} == {
        name: digest for name, digest in noted.items() if name.startswith(f"{kind.folder}/")
    }


def _of_sacct(folder: pathlib.Path) -> sqlite3.Connection:
    """Jobs of sacct with GPUs and energy, two of them runs of one job of A-REX."""
    host = SlurmHost(folder)
    slurm_files.arc_job(host)
    told = {
        1: ("cpu=2,energy=500,gres/gpu:a100=2,gres/gpu=2", BEGIN - 2),
        2: ("cpu=2,gres/gpu:a100=1,gres/gpu:h100=3,energy=18446744073709551614", BEGIN),
        3: ("cpu=2,energy=0", BEGIN),
        4: ("cpu=2,gres/gpu=0", BEGIN),
    }
    rows = [f"{slurm_files.row(number, Submit=submit)}|{tres}" for number, (tres, submit) in told.items()]
    rows.append(f"{slurm_files.row(1, ElapsedRaw=30)}|cpu=2,energy=7,gres/gpu=4")
    host.take(slurm_files.table(*rows, columns=f"{slurm_files.COLUMNS}|AllocTRES"))
    return host.con


def _of_gridengine(folder: pathlib.Path) -> sqlite3.Connection:
    """Jobs of Grid Engine with GPUs that were asked for and granted; one has two runs, one is parallel."""
    here = places(None, set_up(folder / "control"))
    path = folder / "accounting"
    asked = "-l gpu=2,h_rt=600"
    path.write_bytes(
        ran(1, 1, 10, 3610, category=asked)
        + ran(2, 1, 10, 1810, category=asked, granted_pe="mpi", slots=8, pe_taskid="1.wn2")
        + ran(2, 1, 10, 1810, category=asked, granted_pe="mpi", slots=8)
        + ran(3, 1, 10, 1810, category=asked, failed=25, exit_status=99)
        + ran(3, 1815, 1820, 3620, category="-l gpu=1")
        + ran(4, 1, 10, 1810, category=asked, failed=26)
        + ran(5, 1, 10, 1810, category="-l h_rt=600 -q gpu.q")
        + changed_json(json_line(), job_number=6, resource_map="gpu=wn1=(0 3)")
    )
    con = open_accounting(here)
    World(here, con).take(path)
    return con


def _of_htcondor(folder: pathlib.Path) -> sqlite3.Connection:
    """Jobs of HTCondor with GPUs, with a part of one, and without."""
    host = CondorHost(folder)
    host.take(history(ad(1, GPUsProvisioned=2), ad(2, GPUsProvisioned=1.5, RemoteWallClockTime=61.0), ad(3)))
    return host.con


def _of_telemetry(folder: pathlib.Path) -> sqlite3.Connection:
    """Jobs of A-REX and of Slurm with telemetry: of samples alone, and of the batch system."""
    host = Host(folder)
    job = {"job_id": 7, "job_state": "COMPLETED", "nodes": ["n1"], "allocated_resources": "cpu=1,gres/gpu=2,energy=9"}
    job |= {f"{name}_time": f"2026-11-20T10:0{at}:00Z" for at, name in enumerate(("submit", "start", "end"))}
    attributes = {"time": "2026-11-20T10:10:00Z", "cluster": "c", "slurm_jobs": [job]}
    of_slurm = {"meta": {"producer": "sonar", "version": "0.19.0"}, "data": {"type": "job", "attributes": attributes}}
    host.arc_job("8", submit=1795168770, end=1795169700)
    card = [{"cmd": "x", "pid": 4, "gpus": [{"uuid": "g", "gpu_util": 100}]}]
    host.take(stream(of_slurm, sample(50, card, job=8), sample(110, card, job=8)))
    return open_accounting(host.here)


@pytest.mark.parametrize("imported", [_of_sacct, _of_gridengine, _of_htcondor, _of_telemetry])
@pytest.mark.usefixtures("utc")
def test_an_upgrade_gives_jobs_the_gpus_and_energy_of_a_new_import(tmp_path: pathlib.Path, imported) -> None:
    """0.2 kept them in the tables of each source, as the batch system's texts."""
    path = str(tmp_path / "x.db")
    of_0_2(path)
    asked = "SELECT * FROM JobAccelerators ORDER BY RecordID, Source"
    with closing(imported(tmp_path)) as con, closing(sqlite3.connect(path)) as old:
        wanted = con.execute(asked).fetchall()
        telemetry = con.execute("SELECT * FROM JobTelemetry ORDER BY RecordID").fetchall()
        con.execute(
            "CREATE TEMP VIEW JobTelemetry AS"
            " SELECT * FROM main.JobTelemetry LEFT JOIN JobAccelerators USING (RecordID)"
        )
        sources = ("SlurmRuns", "GridEngineRecords", "GridEngineUsage", "HTCondorJobs", "Clusters", "JobTelemetry")
        for table in ("Endpoints", "Queues", "Users", "WLCGVOs", "Status", "AAR", *sources):
            names = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
            rows = con.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
            old.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
        old.commit()

    ensure(path, ACCOUNTING)

    with closing(sqlite3.connect(path)) as new:
        assert new.execute(asked).fetchall() == wanted
        assert new.execute("SELECT * FROM JobTelemetry ORDER BY RecordID").fetchall() == telemetry
    assert len(wanted) > 1


def test_an_upgrade_makes_energy_0_of_telemetry_unknown(tmp_path: pathlib.Path) -> None:
    """0.2 stored the 0 of a Slurm that measures no energy."""
    path = str(tmp_path / "x.db")
    of_0_2(path)
    with closing(sqlite3.connect(path)) as old:
        old.execute("INSERT OR IGNORE INTO Clusters (ID, Name) VALUES (900, 'c')")
        rows = ((9001, 0, None), (9002, 9, None), (9003, 0, 0))
        old.executemany(
            "INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples, EnergyJ, GPUCount)"
            " SELECT ?1, 900, ?1, 1, ?2, ?3",
            rows,
        )
        old.commit()

    ensure(path, ACCOUNTING)

    asked = "SELECT RecordID, EnergyJ, GPUCount FROM JobAccelerators WHERE RecordID > 9000 ORDER BY RecordID"
    with closing(sqlite3.connect(path)) as new:
        assert new.execute(asked).fetchall() == [(9002, 9, None), (9003, None, 0)]
