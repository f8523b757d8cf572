"""
Databases of others: what A-REX 6 or 7 wrote, damaged in its schema, its rows and its bytes, imported and asked.

What must hold: what is no plain table, or no sound file, is not read; each job is taken over as it is there, once, also
when the import is repeated; or it is set aside, and somebody is told its number. Our own two databases, damaged: what
reads them says so in one line.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import random
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from typing import Any

import arex_writer
import conf_files
import stored_jobs
from arex_corpus import arex7_database
from control_directory import set_up
from fuzz.command import Ended, arcacct, steers

from arcacct.config.paths import places
from arcacct.database.access import initialise, open_accounting, open_publishing
from arcacct.database.foreign import LARGEST_VALUE_BYTES
from arcacct.database.schema import incarnation
from arcacct.publishing import cursors
from arcacct.publishing.cursors import Cursor

JOBS = 6
_VALUES = (
    "NULL", "''", "0", "-1", "9223372036854775807", "-9223372036854775808", "9e999", "-0.5", "'7x'", "x'00ff41'",
    "CAST(x'41ff42' AS TEXT)", "hex(zeroblob(600))", "hex(zeroblob(700000))", "zeroblob(1100000)", "char(27,91,50,74)",
    "'%zz%41%'", "'2026-13-45 99:99:99'", "char(0)", "'completed'", "1790000000",
)  # fmt: skip
_LONG = "hex(zeroblob(700000))"
"""Longer than any value may be."""
_NAMES = ("char(27,91,50,74)||{column}", "char(8238,155)||{column}", "CAST(x'41ff42' AS TEXT)", "{column}||char(10)")
"""What somebody may be called."""
_NOT_PLAIN = (
    "DROP TABLE {table}; CREATE VIEW {table} AS SELECT 1 AS ID, 'x' AS Name",
    "ALTER TABLE {table} RENAME TO Real; CREATE VIEW {table} AS SELECT * FROM Real",
    (
        "DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        " SELECT i AS RecordID, i AS ID, i AS Name FROM n"
    ),
    "ALTER TABLE {table} ADD COLUMN Made TEXT AS (hex(zeroblob(2000000)))",
    "ALTER TABLE {table} ADD COLUMN Made TEXT AS (upper('x'))",
    "CREATE VIRTUAL TABLE Found USING fts5(x)",
    "DROP TABLE {table}; CREATE VIRTUAL TABLE {table} USING fts5(ID, Name)",
)
"""What somebody's expressions stand for."""
_SCHEMA = (
    "DROP TABLE {table}", "ALTER TABLE {table} RENAME TO Other", "DELETE FROM {table}",
    "ALTER TABLE {table} RENAME TO Old; CREATE TABLE {table} AS SELECT * FROM Old",
    "ALTER TABLE {table} ADD COLUMN Extra TEXT DEFAULT 'x'",
    "CREATE INDEX Odd ON {table}(hex({column}))", "CREATE VIEW More AS SELECT * FROM {table}",
    "CREATE TRIGGER Evil AFTER UPDATE ON {table} BEGIN DELETE FROM AAR; END",
    (
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'TEXT COLLATE odd')"
        " WHERE name = '{table}'"
    ),
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = {value} WHERE name = '{table}'",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET rootpage = 3 WHERE name = '{table}'",
    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET name = CAST(x'41ff42' AS TEXT) WHERE name = '{table}'",
)  # fmt: skip
_RECORDS = (
    # Two jobs that become one as soon as their names are read as texts: a slice in which only one can be written.
    "UPDATE AAR SET JobID = (SELECT CAST(JobID AS BLOB) FROM AAR WHERE RecordID = 2) WHERE RecordID = 5",
    "UPDATE AAR SET RecordID = -RecordID WHERE RecordID = {number}",
    "UPDATE AAR SET RecordID = RecordID + 1000 WHERE RecordID = {number}",
    "UPDATE AAR SET EndTime = 0, JobID = char(27,91,50,74) WHERE RecordID = {number}",
    "UPDATE AAR SET {name} = 4711 WHERE RecordID = {number}",
    "DELETE FROM JobEvents WHERE EventKey = 'FINISHED'; UPDATE AAR SET EndTime = 1900000000 WHERE RecordID = {number}",
    "UPDATE {names} SET Name = {value} WHERE ID = 1",
    "UPDATE JobExtraInfo SET InfoValue = {value} WHERE RecordID = {number}",
    "UPDATE DataTransfers SET URL = {value}, FileSize = {value} WHERE RecordID = {number}",
)
"""What may become of single records."""
_PAID = """
    SELECT JobID, Status.Name, EndTime, SubmitTime, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, CPUCount,
           Users.Name, WLCGVOs.Name, Queues.Name, Endpoints.URL,
           (SELECT count(DISTINCT RTEName) FROM RunTimeEnvironments AS Its WHERE Its.RecordID = AAR.RecordID),
           (SELECT count(DISTINCT URL) FROM DataTransfers AS Its WHERE Its.RecordID = AAR.RecordID),
           (SELECT count(DISTINCT EventKey) FROM JobEvents AS Its WHERE Its.RecordID = AAR.RecordID)
      FROM AAR
      JOIN Status ON Status.ID = StatusID JOIN Users ON Users.ID = UserID JOIN WLCGVOs ON WLCGVOs.ID = VOID
      JOIN Queues ON Queues.ID = QueueID JOIN Endpoints ON Endpoints.ID = EndpointID
     WHERE Status.Name IN ('completed', 'failed')
"""
_QUESTIONS = (
    "stats --by month,vo",
    "stats --by day,user,group,role,queue,host,status --details",
    "stats --by benchmark,infrastructure,endpoint,project",
    "stats",
    "stats -o users",
    "stats -o fqans --arcctl 7",
    "stats -o wlcgvos",
    "stats -o jobids",
    "stats -o json",
    "job info JOB00002DmABFKDmABFKDm",
    "job info -o json JOB00002DmABFKDmABFKDm",
    "job events JOB00002DmABFKDmABFKDm",
    "job transfers JOB00002DmABFKDmABFKDm",
    "job info 669699d3d79f",
    "query SELECT*FROM(AAR)JOIN(Users)ON(UserID=Users.ID)",
    "query SELECT*FROM(More)",
)
_READ = ("aar", "users", "queues", "wlcgvos", "status", "endpoints", "jobevents", "jobextrainfo", "datatransfers")
_BESIDE = ("accounting.db-wal", "accounting.db-shm", "publishing.db-wal", "publishing.db-shm")
_OURS = ("status", "metrics", "stats --by month,vo", "job STORED000003", "verify 2026-05", "db check", "sweep")


@functools.cache
def _arex(version: str, encoding: str, page_size: str) -> bytes:
    """A database of A-REX with some finished jobs, as bytes."""
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work) / "accounting.db"
        with closing(sqlite3.connect(path)) as con:
            con.execute(f"PRAGMA encoding = '{encoding}'")
            con.execute(f"PRAGMA page_size = {page_size}")
            con.execute("VACUUM")
        if version == "2":
            path.unlink()
            arex7_database(str(path)).close()
            return path.read_bytes()
        with closing(arex_writer.create(path)) as con:
            writer = arex_writer.Writer(con)
            for number in range(1, JOBS + 1):
                writer.accept(number)
                writer.finish(number, arex_writer.FIRST_S + 60 + number)
        return path.read_bytes()


@functools.cache
def _ours() -> tuple[bytes, bytes]:
    """Both databases of ours with some jobs."""
    with tempfile.TemporaryDirectory() as work:
        found = places(None, set_up(pathlib.Path(work) / "control"))
        initialise(found)
        with closing(open_accounting(found)) as con, closing(open_publishing(found)) as publishing:
            stored_jobs.add(con, found, *map(stored_jobs.job, range(1, 20)))
            cursors.set_cursor(publishing, Cursor("arcacct/directory:out", incarnation(con), 10, 0, None))
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            publishing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return pathlib.Path(found.database).read_bytes(), pathlib.Path(found.publishing_database).read_bytes()


# Once, before the harness makes children: an input that fails is made again, and must be the same.
_ours()


def _scribbled(chance: random.Random, content: bytes) -> bytes:
    """Other bytes here and there; a file that is cut, or that has pages of something else."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 12)):
        place = chance.randrange(len(damaged))
        if chance.random() < 0.2:
            place = chance.randrange(min(len(damaged), 108))
        elif chance.random() < 0.5:
            # Where a page says what it is and where its rows are.
            place = place - place % 512 + chance.randrange(16)
        length = chance.choice((1, 1, 2, 8, 64, 600))
        new = chance.choice((chance.randbytes(length), b"\0" * length, b"\xff" * length))
        damaged[place : place + length] = new[: len(damaged) - place]
    return bytes(damaged[: chance.randrange(len(damaged))]) if chance.random() < 0.1 else bytes(damaged)


def _altered(chance: random.Random, content: bytes) -> bytes:
    """Another schema, or other values in its rows, by SQL."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as con:
        # As every database of others is read here: whatever came before, this input is the same.
        con.execute("PRAGMA hard_heap_limit = 536870912")
        con.deserialize(content)
        tables = [name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        # Few at once: what is refused for one reason says nothing of the others.
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            table = chance.choice(tables)
            if chance.random() < 0.3:
                words = {
                    "value": chance.choice((_LONG, *_VALUES) if chance.random() < 0.7 else (_LONG,)),
                    "number": chance.randint(1, JOBS),
                }
                words["names"] = chance.choice(("Users", "Queues", "WLCGVOs"))
                words["name"] = chance.choice(("StatusID", "UserID", "VOID", "QueueID", "EndpointID"))
                _executed(con, chance.choice(_RECORDS).format(**words))
                continue
            with contextlib.suppress(sqlite3.Error, MemoryError):
                columns = [row[1] for row in con.execute(f"PRAGMA table_info({table})")]
                words = {"table": table, "column": chance.choice(columns or ["x"]), "value": chance.choice(_VALUES)}
                statement = "UPDATE OR IGNORE {table} SET {column} = {value} WHERE rowid % 3 = 1"
                if "Name" in columns and chance.random() < 0.8:
                    statement = statement.replace("{value}", chance.choice(_NAMES))
                    words["column"] = "Name"
                elif chance.random() < 0.4:
                    statement = chance.choice(chance.choice((_SCHEMA, _NOT_PLAIN)))
                _executed(con, statement.format(**words))
        return bytes(con.serialize())


def _executed(con: sqlite3.Connection, statements: str) -> None:
    with contextlib.suppress(sqlite3.Error, MemoryError):
        for one in statements.split("; "):
            con.execute(one)


def made(chance: random.Random) -> dict[str, bytes]:
    """A file of A-REX, or both of ours."""
    if chance.random() < 0.4:
        both = list(_ours())
        which = chance.randrange(2)
        both[which] = _scribbled(chance, both[which])
        asked = "\n".join(chance.sample(_OURS, 3))
        files = {"accounting.db": both[0], "publishing.db": both[1], "ask": asked.encode()}
        for name in chance.sample(_BESIDE, 1 if chance.random() < 0.2 else 0):
            files[name] = chance.randbytes(chance.choice((0, 31, 4096, 40_000)))
        return files
    origin = (chance.choice(("1", "2")), chance.choice(("UTF-8", "UTF-16")), chance.choice(("512", "4096", "65536")))
    content = _arex(*origin)
    ways = chance.choice(((_altered,), (_altered,), (_scribbled,), (_altered, _scribbled)))
    for way in ways:
        content = way(chance, content)
    questions = "\n".join(chance.sample(_QUESTIONS, 2))
    if b"CREATE VIEW More" in content:
        questions = _QUESTIONS[-1]
    files = {"their.db": content, "origin": " ".join(origin).encode(), "questions": questions.encode()}
    if chance.random() < 0.1:
        files["their.db-wal"] = chance.randbytes(200)
    return files


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    """What is read says what is wrong in a line; a file that can be read gives all its jobs, or a complaint of each."""
    here = places(None, set_up(work / "control"))
    conf = conf_files.write(work, conf_files.DIRECTORY.replace("/var/spool/apel/outgoing", str(work / "out")))
    if "ask" in files:
        pathlib.Path(here.directory).mkdir(parents=True)
        for name in files.keys() - {"ask"}:
            pathlib.Path(here.directory, name).write_bytes(files[name])
        for command in files["ask"].decode().splitlines():
            _run(conf, *command.split())
        return
    path = work / "their.db"
    for name in files.keys() - {"origin", "questions"}:
        (work / name).write_bytes(files[name])
    plain = not _not_plain(files["their.db"])
    told = _imported(conf, path)
    if re.search("[0-9] records? read", told):
        assert plain, "what is no plain table was read"
        assert path.with_name("their.db-wal").exists() or _is_sound(files["their.db"]), "what is damaged was read"
        _check_taken(pathlib.Path(here.database), files, told)
        if " 0 changed" in told and not path.with_name("their.db-wal").exists():
            _check_repeated(conf, path, pathlib.Path(here.database))
    for question in files["questions"].decode().splitlines():
        ended = _run(conf, "--database", str(path), *question.split())
        assert plain or ended.code, f"what is no plain table was read\n{ended.out}"
        assert "FROM(More)" not in question or ended.code, f"a view of others was run\n{ended.out}"
    assert path.read_bytes() == files["their.db"], "the file of others was changed"


def _imported(conf: str, path: pathlib.Path) -> str:
    ended = _run(conf, "import", "arex", str(path), "--timezone", "UTC")
    return ended.out + ended.err


def _check_taken(database: pathlib.Path, files: dict[str, bytes], told: str) -> None:
    """Each job of which nothing was changed is there as it was, and of all others something is known."""
    sound, there = _records(_arex(*files["origin"].decode().split())), _records(files["their.db"])
    ours, aside = _records(database), _aside(database)
    lost = {job: values for job, values in sound.items() if there.get(job) == values != ours.get(job)}
    # What is said to be left out, each record by its number, is kept to be tried again.
    for job in _jobs_of(aside, files["their.db"]):
        lost.pop(job, None)
    assert not lost, f"{lost} are {[ours.get(job) for job in lost]} now\n{told}"
    unkept = set(re.findall(r"their[.]db: (record -?[0-9]+): ", told)) - aside
    assert not unkept, f"{unkept} are told of and not kept\n{told}"
    named = set(re.findall(r"record -?[0-9]+", told))
    # The first of many, and how many there are.
    count = re.search(r"([0-9]+) rejected records? in all", told)
    assert aside <= named or int(count[1] if count else 0) == len(aside), f"{aside} are kept and not told of\n{told}"
    # Two that are one job as soon as their names are texts: the second changes the first.
    others = sum(map(int, re.findall(r"([0-9]+) (?:changed|unfinished)", told)))
    known = _jobs(database) + len(named | aside) + others
    assert known >= _jobs(files["their.db"]), f"a job is neither here nor told of\n{told}"
    assert _longest(database) <= LARGEST_VALUE_BYTES, "a value without end was taken"


def _check_repeated(conf: str, path: pathlib.Path, database: pathlib.Path) -> None:
    """A copy of the same file: nothing comes twice, and nothing goes."""
    before, aside = _everything(database), _aside(database)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    told = _imported(conf, copy)
    assert _everything(database) == before, told
    assert _aside(database) == aside, told


def _not_plain(content: bytes) -> list[str]:
    """Views in the place of tables, tables of modules, and computed columns: what somebody's expression stands for."""
    with closing(sqlite3.connect(":memory:")) as con:
        con.deserialize(content)
        try:
            rows = con.execute("SELECT type, lower(name), rootpage FROM sqlite_master").fetchall()
            odd = [name for kind, name, _root in rows if kind == "view" and name in _READ]
            odd += [name for kind, name, root in rows if kind == "table" and not root]
            columns = {table: con.execute(f"PRAGMA table_xinfo({table})").fetchall() for table in _READ}
            return odd + [table for table, found in columns.items() if any(column[6] for column in found)]
        except (sqlite3.Error, UnicodeError):
            return []


def _is_sound(content: bytes) -> bool:
    """Whether SQLite itself finds the pages of a file in order."""
    with closing(sqlite3.connect(":memory:")) as con:
        con.set_progress_handler(lambda: 1, 1_000_000)
        try:
            con.deserialize(content)
            return bool(con.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except (sqlite3.Error, MemoryError, UnicodeError):
            return False


def _aside(database: pathlib.Path) -> set[str]:
    """The records that an import has set aside, as ``record N``."""
    with closing(sqlite3.connect(database)) as con:
        return {place for (place,) in con.execute("SELECT Position FROM ImportQuarantine")}


def _jobs_of(records: set[str], theirs: bytes) -> set[bytes]:
    """The jobs of these records, and those that several records are of."""
    numbers = ",".join(place.removeprefix("record ") for place in records)
    with closing(sqlite3.connect(":memory:")) as con:
        con.text_factory = bytes
        con.deserialize(theirs)
        try:
            found = con.execute(
                f"SELECT JobID FROM AAR WHERE RecordID IN ({numbers})"
                " UNION SELECT JobID FROM AAR GROUP BY CAST(JobID AS BLOB) HAVING count(*) > 1"
            )
            return {job for (job,) in found}
        except sqlite3.Error:
            return set()


def _everything(database: pathlib.Path) -> list[tuple[object, ...]]:
    """The jobs of ours, with how much there is of each."""
    counts = ", ".join(
        f"(SELECT count(*) FROM {table} AS Its WHERE Its.RecordID = AAR.RecordID)"
        for table in ("JobEvents", "DataTransfers", "JobExtraInfo", "RunTimeEnvironments", "AuthTokenAttributes")
    )
    with closing(sqlite3.connect(database)) as con:
        return con.execute(f"SELECT AAR.*, {counts} FROM AAR ORDER BY RecordID").fetchall()


def _longest(database: pathlib.Path) -> int:
    """The length of the longest text that was taken over."""
    texts = ("Users.Name", "WLCGVOs.Name", "Queues.Name", "JobExtraInfo.InfoValue", "DataTransfers.URL", "AAR.JobID")
    with closing(sqlite3.connect(database)) as con:
        longest = (
            con.execute(f"SELECT max(length(CAST({text} AS BLOB))) FROM {text.partition('.')[0]}") for text in texts
        )
        return max(one.fetchone()[0] or 0 for one in longest)


def _asked(database: bytes | pathlib.Path, query: str) -> list[tuple[Any, ...]]:
    """The rows of an answer; none of a file that is not sound, or in which tables are something else."""
    with closing(sqlite3.connect(":memory:" if isinstance(database, bytes) else database)) as con:
        con.text_factory = bytes
        # An endless view ends, and its file counts as one that has nothing.
        con.set_progress_handler(lambda: 1, 1_000_000)
        try:
            if isinstance(database, bytes):
                con.deserialize(database)
            if con.execute("PRAGMA integrity_check(1)").fetchone() != (b"ok",):
                # Then each way to a row may find another one.
                return []
            return con.execute(query).fetchall()
        except (sqlite3.Error, MemoryError, UnicodeError):
            # SQLite's own messages may be no text either.
            return []


def _jobs(database: bytes | pathlib.Path) -> int:
    """How many jobs there are, whatever else is known of them."""
    return len(_asked(database, "SELECT DISTINCT JobID FROM AAR"))


def _records(database: bytes | pathlib.Path) -> dict[str, tuple[object, ...]]:
    """Of each job that can be read, what it is paid by."""
    return {row[0]: row[1:] for row in _asked(database, _PAID)}


def _run(conf: str, *arguments: str) -> Ended:
    told = arcacct("--config", conf, *arguments, allowed=(0, 1, 2, 64, 65, 74, 75, 78))
    assert not steers(told.out + told.err), told
    return told
