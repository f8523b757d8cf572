"""The power is cut at a CE between exports and loads into a PostgreSQL elsewhere: the tables follow the CE."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from postgresql_server import Server
from power_cut_hosts import Loss, record, run
from power_cut_positions import Exporting, benchmarked
from power_cuts import Cut

from arcacct.cli.main import main
from arcacct.export.dataset import TABLES

LOADED, EMPTY = "loaded", "empty"
"""The database that is loaded, and one without anything."""


class Loading(Exporting):
    """
    `arcacct export`, then `arcacct fleet load`, in rounds.

    The server is another host: it keeps what it was given before the cut. After the cut the CE exports once more, and
    the load brings the tables to what a first load of a first export has.
    """

    JOBS = 6

    def __init__(self, directory: pathlib.Path, stack: ExitStack) -> None:
        from postgresql_server import server

        self.server: Server = stack.enter_context(server())
        self.server.run(f"CREATE DATABASE {LOADED}", f"CREATE DATABASE {EMPTY}")
        super().__init__(directory, control=True)

    def command(self) -> tuple[list[str], dict[str, str]]:
        (command, _) = super().command()
        return [*command, str(self.marks)], self.server.env | {"PGDATABASE": LOADED}

    @classmethod
    def rounds(cls, control: str, conf: str, *arguments: str) -> Iterator[Callable[[], object]]:
        import psycopg

        *export, marks = arguments
        for number, jobs in enumerate(cls.jobs_by_round(), 1):
            yield functools.partial(record, benchmarked(control), jobs, cls.files)
            yield functools.partial(main, ["--config", conf, *export])
            os.mkdir(f"{marks}/loading{number}")
            yield functools.partial(main, ["--config", conf, "fleet", "load", export[-1]])
            os.mkdir(f"{marks}/loaded{number}")
            with psycopg.connect(dbname="postgres", autocommit=True) as con:
                con.execute(f"CREATE DATABASE after{number} TEMPLATE {LOADED}")

    def run_again(self) -> None:
        super().run_again()
        self._load(self.copies / "data" / "set", LOADED)

    def losses(self, cut: Cut) -> list[Loss]:
        self._put_server(cut)
        return super().losses(cut)

    def differing(self) -> list[Loss]:
        lost = super().differing()
        self._renew("fresh", EMPTY)
        self._load(self._anew(), "fresh")
        there, wanted = (self._tables(database) for database in (LOADED, "fresh"))
        return [*lost, *(Loss("not in PostgreSQL", table) for table in TABLES if there[table] != wanted[table])]

    def _put_server(self, cut: Cut) -> None:
        """The tables as they were at the cut; a load that it found at work has ended, or has done nothing."""
        done = self._made(cut)
        number = sum(name.startswith("loaded") for name in done)
        if sum(name.startswith("loading") for name in done) > number:
            number += cut.seed % 2
        self._renew(LOADED, f"after{number}" if number else EMPTY)

    def _made(self, cut: Cut) -> set[str]:
        """The marks that were made by the time of the cut."""
        return {os.path.basename(str(call.arguments[0])) for call in self.trace.calls[: cut.after] if self._marks(call)}

    def _renew(self, database: str, template: str) -> None:
        self.server.run(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database} TEMPLATE {template}")

    def _load(self, dataset: pathlib.Path, database: str) -> None:
        environment = self.server.env | {"PGDATABASE": database}
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            run(self.host.conf, ["fleet", "load", str(dataset)])
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

    def _tables(self, database: str) -> dict[str, str]:
        text = "string_agg(one::text, chr(10) ORDER BY one::text)"
        rows = "SELECT coalesce({}, '') FROM arcacct.{} AS one"
        return {table: self.server.run(rows.format(text, table), database=database) for table in TABLES}
