"""A private MariaDB with tables that have APEL's columns: in a directory, on a Unix socket, gone afterwards."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_NAME = "VARCHAR(255) NOT NULL"
_MONTH = {"Month": "INT NOT NULL", "Year": "INT NOT NULL"}
_SIZE = {"NodeCount": "INT NOT NULL", "Processors": "INT NOT NULL"}
_ENDS = {"EarliestEndTime": "DATETIME", "LatestEndTime": "DATETIME"}
_USED = {"WallDuration": "BIGINT UNSIGNED", "CpuDuration": "BIGINT UNSIGNED"}
_WHOSE = dict.fromkeys(("Site", "GlobalUserName", "VO", "VOGroup", "VORole", "SubmitHost"), _NAME)
_LEVEL = {"ServiceLevelType": "VARCHAR(50) NOT NULL", "ServiceLevel": "DECIMAL(10,3) NOT NULL"}
_DESCRIPTION = {"InfrastructureDescription": "VARCHAR(100)"}
_UPDATED = {"UpdateTime": "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"}
COLUMNS: dict[str, dict[str, str]] = {
    "VSummaries": {
        **_UPDATED,
        **_WHOSE,
        **_MONTH,
        "InfrastructureType": "VARCHAR(20)",
        **_DESCRIPTION,
        **_LEVEL,
        **_SIZE,
        **_ENDS,
        **_USED,
        "NumberOfJobs": "BIGINT UNSIGNED NOT NULL",
    },
    "VNormalisedSummaries": {
        **_UPDATED,
        **_WHOSE,
        **_MONTH,
        "Infrastructure": "VARCHAR(20)",
        **_DESCRIPTION,
        "ServiceLevelType": "VARCHAR(50) NOT NULL",
        **_SIZE,
        **_ENDS,
        **_USED,
        "NormalisedWallDuration": "BIGINT UNSIGNED",
        "NormalisedCpuDuration": "BIGINT UNSIGNED",
        "NumberOfJobs": "BIGINT UNSIGNED NOT NULL",
    },
    "VJobRecords": {
        **_UPDATED,
        **_WHOSE,
        "MachineName": _NAME,
        "Queue": "VARCHAR(100) NOT NULL",
        "LocalJobId": _NAME,
        "LocalUserId": "VARCHAR(255)",
        "FQAN": "VARCHAR(255)",
        **_USED,
        **_SIZE,
        "StartTime": "DATETIME NOT NULL",
        "EndTime": "DATETIME NOT NULL",
        **_DESCRIPTION,
        "InfrastructureType": "VARCHAR(20)",
        "MemoryReal": "BIGINT UNSIGNED",
        "MemoryVirtual": "BIGINT UNSIGNED",
        **_LEVEL,
    },
}
"""The columns of the views that an administrator of APEL exports, here tables, with types that hold the same values."""
DATABASE = "apel"
_START_S = 60


def reason() -> str:
    """Why there can be none here; empty if there can."""
    if _daemon() is None or shutil.which("mariadb") is None:
        return "MariaDB is not installed (apt-get install mariadb-server-core mariadb-client-core)"
    return ""


def _daemon() -> str | None:
    """Where the server is; Debian has it outside the PATH of users."""
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


class Server:
    """A running server."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.env = {"HOME": str(folder)}
        """Leads every client to it, whatever its options."""

    def run(self, sql: str) -> bytes:
        """What the client prints of a query on our database; the query may be large."""
        command = ["mariadb", "--batch", "--default-character-set=utf8mb4", DATABASE]
        done = subprocess.run(command, env=os.environ | self.env, input=sql.encode(), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def fill(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Exchange the rows of a table; columns that it does not have are left out."""
        columns = COLUMNS[table]
        lines = [f"DELETE FROM {table};"]
        for row in rows:
            values = {name: literal(value) for name, value in row.items() if name in columns}
            lines.append(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())});")
        self.run("\n".join(lines))


def literal(value: Any) -> str:
    """A value in SQL, without any character that a client could take for something else."""
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int | float) else f"_utf8mb4 0x{value.encode().hex()}" if value else "''"


@contextmanager
def server() -> Iterator[Server]:
    """Start it as a user that is not root, without a network and without accounts, and stop it."""
    daemon = _daemon()
    assert daemon is not None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-db-"))
    (folder / "data").mkdir()
    as_user: dict[str, Any] = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("nobody")
        for path in (folder, folder / "data"):
            os.chown(path, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    socket = folder / "socket"
    (folder / ".my.cnf").write_text(f"[client]\nsocket={socket}\n")
    options = {"datadir": folder / "data", "socket": socket, "pid-file": folder / "pid", "innodb-log-file-size": "4M"}
    command = [daemon, "--no-defaults", "--skip-networking", "--skip-grant-tables"]
    command += [f"--{name}={value}" for name, value in options.items()]
    log = folder / "log"
    try:
        with log.open("wb") as output:
            running = subprocess.Popen(command, stdout=output, stderr=output, cwd="/", **as_user)
        try:
            until = time.monotonic() + _START_S
            while not socket.exists():
                assert running.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.05)
            started = Server(folder)
            tables = [
                f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())});"
                for table, columns in COLUMNS.items()
            ]
            create = ["mariadb", "-e", f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"]
            subprocess.run(create, env=os.environ | started.env, check=True)
            started.run("\n".join(tables))
            yield started
        finally:
            running.terminate()
            running.wait()
    finally:
        shutil.rmtree(folder)
