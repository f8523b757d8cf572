"""What the fuzzers of batch systems have in common: how their files are imported, and what must hold after it."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fuzz.database import differing, dump, opened

from arcacct.config.paths import Places
from arcacct.sources.engine.imports import BatchPolicy, RunsImport, RunsReport
from arcacct.sources.engine.runs import BatchSite, SourceType

GOOD = 900_000
"""Numbers of jobs that no damage makes: those of the real outputs are small."""


class Imports(NamedTuple):
    """How the files of a batch system are tried."""

    source: SourceType[Any]
    form: Any
    now: int
    progress: str
    """The table of positions, which a second import may change."""
    runs: str
    """The table of its runs."""
    wrong: str
    """Which of its rows can be of no job."""
    check_good: Callable[[sqlite3.Connection, int], None]
    """Looks for the jobs with the first numbers from `GOOD`."""

    def tried(self, files: Mapping[str, bytes], good: Mapping[str, int], cut: str, work: pathlib.Path) -> None:
        """Each file alone, with the number of its good jobs; one cut and then whole is what it is at once."""
        for name in (*good, "whole"):
            path = work / name
            path.write_bytes(files[name])
            with opened(work / f"{name}-world") as (here, con):
                report = self._take(here, con, path)
                self._check(con)
                if name != "whole":
                    # A list of objects in the place of the last object makes JSON unreadable; no job is lost by it.
                    assert report.unreadable == 0 or name == "json"
                    self.check_good(con, good[name])
                found = dump(con, self.progress)
                self._take(here, con, path)
                self._unchanged(con, found)
                self._work(here, con).retry()
                self._unchanged(con, found)
        with opened(work / "cut-world") as (here, con):
            path = work / cut
            for content in (files[cut][: int(files["cut"])], files[cut]):
                path.write_bytes(content)
                self._take(here, con, path)
            self.check_good(con, good[cut])

    def _work(self, here: Places, con: sqlite3.Connection) -> RunsImport[Any]:
        return RunsImport(self.source, here, con, BatchPolicy(BatchSite(), self.now, 0), self.form, lambda _text: None)

    def _take(self, here: Places, con: sqlite3.Connection, path: pathlib.Path) -> RunsReport:
        work = self._work(here, con)
        work.files([str(path)])
        work.finish()
        return work.report

    def _unchanged(self, con: sqlite3.Connection, before: dict[str, list[Any]]) -> None:
        after = dump(con, self.progress)
        assert after == before, differing(before, after)

    def _check(self, con: sqlite3.Connection) -> None:
        """No number that is none of a job's came in, and no text that some readers of a database cut."""
        rows = con.execute(f"SELECT * FROM {self.runs}").fetchall()
        assert not any(isinstance(value, str) and "\0" in value for one in rows for value in one)
        found = con.execute(f"SELECT * FROM {self.runs} WHERE {self.wrong}").fetchall()
        assert not found, found


def is_there_or_kept(con: sqlite3.Connection, query: str, number: str, expected: tuple[int, ...], mark: bytes) -> None:
    """A job is there with its figures, or its text, which has a mark, is in the quarantine."""
    found = con.execute(query, (number,)).fetchall()
    if found:
        assert found == [expected], (number, found)
    else:
        kept = con.execute("SELECT count(*) FROM ImportQuarantine WHERE instr(Content, ?)", (mark,)).fetchone()
        assert kept != (0,), number
