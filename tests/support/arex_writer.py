"""
A-REX's writer of accounting.db, statement by statement, in a process of its own.

It has no busy timeout. It repeats the *whole* text of a transaction when any statement of it says busy; when the
repetition fails because the transaction is still open, it gives the text up, and everything after it is lost.

    python tests/support/arex_writer.py PATH rollback|wal JOBS PAUSE_S

Says `ready` when the database is open, writes at least JOBS jobs and until its standard input ends, and says what it
believes to have written.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable

FIRST_S = 1_795_170_000
"""2026-11-20 10:20:00 UTC."""
_V1 = pathlib.Path(__file__).parents[1] / "data" / "arex" / "accounting.sql"
_AAR_V1 = (
    "JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime, NodeCount,"
    " CPUCount, UsedMemory, UsedVirtMem, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, UsedScratch, StageInVolume,"
    " StageOutVolume"
)


def create(path: pathlib.Path | str, version: int = 1) -> sqlite3.Connection:
    """An empty database of A-REX in schema version 1 or 2, as A-REX makes it: in rollback-journal mode."""
    con = sqlite3.connect(path, isolation_level=None, timeout=0)
    for statement in _V1.read_text().split(";\n"):
        if statement.strip().startswith("CREATE"):
            con.execute(_as_version_2(statement) if version == 2 else statement)
    if version == 2:
        for table in ("FQANs", "Benchmarks"):
            con.execute(f"CREATE TABLE {table} (ID INTEGER PRIMARY KEY AUTOINCREMENT, Name TEXT NOT NULL UNIQUE)")
            con.execute(f"INSERT INTO {table} (Name) VALUES ('')")
        con.execute("INSERT INTO WLCGVOs (Name) VALUES ('')")
    con.execute(f"INSERT INTO DBConfig VALUES ('DBSCHEMA_VERSION', '{version}')")
    return con


def _as_version_2(statement: str) -> str:
    return statement.replace(
        "  /* Completion data */", "  FQANID            INTEGER NOT NULL,\n  BenchmarkID       INTEGER NOT NULL,"
    ).replace("REFERENCES AAR(RecordID)", "REFERENCES AAR(RecordID) ON DELETE CASCADE")


class Writer:
    """A-REX's thread that writes accounting records."""

    def __init__(self, con: sqlite3.Connection, wait: Callable[[], object] = lambda: time.sleep(0.01)) -> None:
        """``wait`` is what it does when something is locked, before it tries again."""
        self.con = con
        self.wait = wait
        self.lost = 0
        self.ids: dict[tuple[str, ...], int] = {}

    def exec(self, *statements: str) -> bool:
        """All statements as one text; repeated from its beginning as long as something is locked."""
        while True:
            try:
                for statement in statements:
                    self.con.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    self.lost += 1
                    return False
                self.wait()
            else:
                return True

    def name(self, table: str, *values: str) -> int:
        """The ID of a name, inserted when it is new."""
        if (table, *values) not in self.ids:
            columns = "Interface, URL" if table == "Endpoints" else "Name"
            quoted = ", ".join(f"'{value}'" for value in values)
            self.exec(f"INSERT INTO {table} ({columns}) VALUES ({quoted})")
            self.ids[table, *values] = self.con.execute("SELECT last_insert_rowid()").fetchone()[0]
        return self.ids[table, *values]

    def accept(self, number: int, record_id: int | None = None) -> None:
        """ACCEPTED: names, the record (of the same number unless another is given), a transaction for its children."""
        record = number if record_id is None else record_id
        ids = [
            self.name("Endpoints", "org.nordugrid.arcrest", "https://ce.example.org:443/arex"),
            self.name("Queues", "main"),
            self.name("Users", f"/DC=org/CN=User {number % 5}"),
            self.name("WLCGVOs", "atlas"),
            self.name("Status", "in-progress"),
        ]
        values = [f"'{job_id(number)}'", "''", *map(str, ids), "1", str(FIRST_S + number), "0", "1", "1", *["0"] * 8]
        self.exec(f"INSERT INTO AAR ({_AAR_V1}) VALUES ({', '.join(values)})")
        self.tokens(record)
        self.event(record, "ACCEPTED", FIRST_S + number)

    def tokens(self, record_id: int) -> None:
        """Whose job it is."""
        self.transaction(
            f"INSERT INTO AuthTokenAttributes VALUES ({record_id}, 'mainfqan', '/atlas/Role=production')",
            f"INSERT INTO AuthTokenAttributes VALUES ({record_id}, 'vomsfqan', '/atlas')",
        )

    def transaction(self, *statements: str) -> None:
        """One text with BEGIN and COMMIT in it."""
        self.exec("BEGIN TRANSACTION", *statements, "COMMIT")

    def event(self, number: int, key: str, seconds: int) -> None:
        """One state change, a transaction."""
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
        self.transaction(f"INSERT INTO JobEvents VALUES ({number}, '{key}', '{when}')")

    def finish(self, number: int, end_s: int, status: str = "completed", record_id: int | None = None) -> None:
        """FINISHED: the record, then its children in four more transactions, the events last."""
        record = number if record_id is None else record_id
        status_id = self.name("Status", status)
        self.exec(
            f"UPDATE AAR SET LocalJobID = '{number}', StatusID = {status_id}, ExitCode = 0, EndTime = {end_s},"
            f" CPUCount = 8, UsedWalltime = 50, UsedCPUUserTime = 300 WHERE RecordID = {record}"
        )
        self.transaction(f"INSERT INTO RunTimeEnvironments VALUES ({record}, 'ENV/PROXY')")
        self.transaction(
            f"INSERT INTO DataTransfers VALUES ({record}, 'https://se.example.org/{number}', 10, {end_s}, {end_s}, 10)"
        )
        self.transaction(
            *(
                f"INSERT INTO JobExtraInfo VALUES ({record}, '{key}', '{value}')"
                for key, value in (("benchmark", "HEPSPEC:12.26"), ("jobname", f"job {number}"), ("lrms", "fork"))
            )
        )
        self.event(record, "FINISHED", end_s)

    def end(self, number: int) -> None:
        """The rest of a job's life."""
        self.event(number, "INLRMS", FIRST_S + number + 2)
        self.finish(number, FIRST_S + number + 60)


def job_id(number: int) -> str:
    """The id of the job that gets this RecordID."""
    return f"JOB{number:05d}DmABFKDmABFKDm"


def start(path: pathlib.Path, mode: str, jobs: int, pause_s: float) -> subprocess.Popen[str]:
    """A writer in a process of its own; it has the database open when this returns."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(path), mode, str(jobs), str(pause_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def believed(process: subprocess.Popen[str]) -> dict[str, int]:
    """Let a writer end; what it says that it wrote."""
    out, _err = process.communicate(timeout=300)
    assert process.returncode == 0
    return dict(json.loads(out))


def main(path: str, mode: str, jobs: str, pause_s: str) -> None:
    """Write jobs, four of them at a time under way."""
    create(path).close()
    con = sqlite3.connect(path, isolation_level=None, timeout=0)
    if mode == "wal":
        con.execute("PRAGMA journal_mode = WAL")
        # From the first use on there is a -shm, by which a reader sees that the database is in use.
        con.execute("SELECT count(*) FROM AAR").fetchone()
    print("ready", flush=True)
    writer = Writer(con)
    number = 0
    while number < int(jobs) or not select.select([sys.stdin], [], [], 0)[0]:
        number += 1
        writer.accept(number)
        writer.event(number, "PREPARING", FIRST_S + number + 1)
        if number > 4:
            writer.end(number - 4)
        time.sleep(float(pause_s))
    for last in range(max(number - 3, 1), number + 1):
        writer.end(last)
    # At exit an open transaction is rolled back.
    con.close()
    print(json.dumps({"jobs": number, "events": 4 * number, "lost": writer.lost}))


if __name__ == "__main__":
    os.umask(0o077)
    main(*sys.argv[1:])
