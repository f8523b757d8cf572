"""A PostgreSQL of one's own, of the machine's package: in a directory, on a Unix socket, gone afterwards."""

from __future__ import annotations

import glob
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SETTINGS = {"listen_addresses": "", "fsync": "off", "shared_buffers": "32MB", "max_connections": "10"}


def _programs() -> str | None:
    """Where initdb and pg_ctl are; Debian has them outside of PATH."""
    places = [os.path.dirname(shutil.which("initdb") or ""), *sorted(glob.glob("/usr/lib/postgresql/*/bin"))]
    return next((place for place in reversed(places) if os.path.exists(os.path.join(place, "pg_ctl"))), None)


def reason() -> str:
    """Why there can be none here; empty when there can."""
    if _programs() is None or shutil.which("psql") is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if os.getuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "root may not start PostgreSQL, and there is no user postgres"
    return ""


class Server:
    """A running server; `env` leads every libpq to it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.env = {"PGHOST": str(folder), "PGUSER": "accounting", "PGDATABASE": "postgres"}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query on the tables of the dataset answers."""
        told = self.run("SET search_path = arcacct", f"SELECT coalesce(json_agg(said), '[]') FROM ({sql}) AS said")
        # Columns may have one name.
        rows: list[tuple[Any, ...]] = json.loads(told, object_pairs_hook=lambda row: tuple(value for _, value in row))
        return rows

    def run(self, *statements: str, database: str = "postgres") -> str:
        """What psql prints, without names of columns."""
        command = ["psql", "-d", database, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        command += [option for statement in statements for option in ("-c", statement)]
        done = subprocess.run(command, env=os.environ | self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def server() -> Iterator[Server]:
    """Initialised, started and stopped as a user that is not root."""
    programs = _programs()
    assert programs is not None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-pg-"))
    as_user: dict[str, Any] = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def run(program: str, *options: str) -> None:
        command = [os.path.join(programs, program), "-D", str(folder / "data"), *options]
        with open(folder.with_suffix(".log"), "ab") as log:
            done = subprocess.run(command, stdout=log, stderr=log, cwd="/", check=False, **as_user)
        assert done.returncode == 0, folder.with_suffix(".log").read_text()

    settings = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in _SETTINGS.items())
    try:
        run("initdb", "--username=accounting", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        run("pg_ctl", "-w", "-o", f"-k {folder} {settings}", "start")
        try:
            yield Server(folder)
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink()
