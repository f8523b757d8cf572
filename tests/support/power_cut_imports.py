"""
The power is cut around imports: each tells a job once, whatever the cut took of the source, of ours, or of both.

A source writes in rounds and syncs as little as the real one does; an import follows each round. After the cut the
source continues, the import runs once more, and the database is that of a host where nothing ever happened.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import random
import sqlite3
import stat
import sys
from calendar import timegm
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import htcondor_files
import slurm_files
import sonar_site
from arex_writer import FIRST_S, Writer, create
from arex_writer import job_id as arex_job_id
from disturbed_host import BENCHMARK, LIFE, job_files
from gridengine_files import ran
from job_files import Files
from power_cut_hosts import Jobs, Loss, jobs_in, played, record, run
from power_cut_positions import ROUNDS, Reading, benchmarked, files_of
from power_cuts import Cut
from recording_host import Host

from arcacct.config.paths import Places
from arcacct.database.access import accounting
from arcacct.database.connection import make_durable
from arcacct.errors import InputError
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.htcondor.history import HistoryCommand, HistoryForm
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR_SOURCE
from arcacct.sources.slurm.importer import SOURCE as SLURM_SOURCE
from arcacct.sources.slurm.sacct import OutputForm, SacctCommand

NUMBERS = range(1, 13)
DAY_S = 86_400
_ENDED_S = timegm((2026, 11, 20, 11, 59, 0))
"""When A-REX's jobs of these tests ended in the batch system."""
_VIEWS = ("v1_jobs", "v1_job_attributes", "v1_usage_by_month")
_WHOSE = (
    "SELECT JobID, Field, FieldSources.Source FROM FieldSources JOIN AAR USING (RecordID)",
    "SELECT JobID, Source FROM RecordSources JOIN AAR USING (RecordID)",
)


def of_arex(lrms: bytes, local_id: bytes) -> Callable[..., Files]:
    """The control files of jobs of A-REX's that are jobs of a batch system."""

    def files(job_id: str, state: str, *, failed: bool) -> Files:
        found = job_files(job_id, state, LIFE.index(state), failed=failed)
        number = local_id % (int(job_id[3:]) + 1)
        local = (found.local or b"").replace(b"lrms=fork", b"lrms=" + lrms)
        return found._replace(local=local.replace(b"localid=4711", b"localid=" + number))

    return files


class Importing(Reading):
    """An import of a source in rounds; the first JOBS jobs of the source are A-REX's."""

    JOBS = 0
    # That the source was cut is reported.
    CODES = (0, InputError.exit_code)
    left: tuple[str, ...] = ("all", "first", "mixed")
    """Of contents that are not safe, where the cut is in the middle of our commits."""
    views: tuple[str, ...] = ()
    """What is kept of the source itself."""

    def __init__(self, directory: pathlib.Path, *, control: bool) -> None:
        super().__init__(directory, control=control)
        self.wanted_rows = self.rows(self.well.database)

    def command(self) -> tuple[list[str], dict[str, str]]:
        self.folder = self.folder_of(self.host)
        self.prepare(self.folder)
        for job_id in self.jobs:
            self.lay(self.host, job_id, "FINISHED")
        return played(type(self), self.host.control, self.host.conf, self.folder), {}

    @classmethod
    def rounds(cls, control: str, conf: str, *arguments: str) -> Iterator[Callable[[], object]]:
        here, (folder,) = benchmarked(control), map(pathlib.Path, arguments)
        for number, jobs in enumerate(cls.jobs_by_round()):
            yield functools.partial(record, here, jobs, cls.files)
            yield functools.partial(cls.write, folder, number)
            yield functools.partial(cls.take, here, pathlib.Path(conf), folder, number)

    def cuts(self, count: int, rule: str, seed: int) -> list[Cut]:
        """
        The first one when all is done, and what is not safe is gone.

        Every second one of the others right after a write into our WAL: what is left of the database ends there.
        """
        chance = random.Random(f"{seed} {rule} wal")
        wal = f"{self.host.database}-wal"
        writes = [at for at in self.trace.moments("write") if self.trace.calls[at - 1].arguments[0] == wal]
        others = self.trace.cuts(count // 2, rule, seed)
        mine = [
            Cut(chance.choice(writes), rule, "all", chance.choice(self.left), chance.randrange(1 << 16))
            for _ in range(count - 1 - len(others))
        ]
        return [Cut(len(self.trace.calls), rule, seed=seed), *mine, *others]

    def folder_of(self, host: Host) -> pathlib.Path:
        folder = host.control.parent / "source"
        folder.mkdir()
        return folder

    def make_wanted(self) -> Jobs:
        super().make_wanted()
        folder = self.folder_of(self.well)
        self.prepare(folder)
        for number in range(ROUNDS):
            self.write(folder, number)
        self.take(self.well.places, self.well.conf, folder, ROUNDS)
        return jobs_in(self.well.database)

    def record_again(self, seed: int) -> None:
        super().record_again(seed)
        self.resume(self.folder, random.Random(seed))

    def run_again(self) -> None:
        self.take(self.host.places, self.host.conf, self.folder, ROUNDS)

    def differing(self) -> list[Loss]:
        found = self.rows(self.host.database)
        return [
            Loss("different", f"{query.rpartition('FROM ')[2]}: {len(wanted)} wanted, {len(found[query])} there")
            for query, wanted in self.wanted_rows.items()
            if found[query] != wanted
        ]

    def rows(self, database: pathlib.Path) -> dict[str, list[tuple[object, ...]]]:
        """All that the import left, but for numbers that rows are given when they come."""
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as con:
            queries = [*(_query(con, view) for view in (*_VIEWS, *self.views)), *_WHOSE]
            return {query: sorted(con.execute(query).fetchall(), key=repr) for query in queries}

    # -- the source

    @staticmethod
    def prepare(folder: pathlib.Path) -> None:
        """What there is before the first round."""

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        """What the source writes in a round."""
        raise NotImplementedError

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        """After the cut the source writes what it lacks, in another order."""
        raise NotImplementedError

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        """The import, after a round."""
        raise NotImplementedError


def _query(con: sqlite3.Connection, view: str) -> str:
    names = [row[1] for row in con.execute(f"PRAGMA table_info({view})")]
    return f"SELECT {', '.join(name for name in names if name != 'record_id' and name[-3:] != '_no')} FROM {view}"


def _of_round(number: int) -> range:
    size = len(NUMBERS) // ROUNDS
    return NUMBERS[number * size : (number + 1) * size]


def _append(path: pathlib.Path, lines: Sequence[bytes]) -> None:
    with open(path, "ab") as file:
        file.write(b"".join(lines))


def _written_anew(path: pathlib.Path, lines: Sequence[bytes], chance: random.Random) -> None:
    """A file with the whole lines that the cut left, then those that it lacks in an order of chance."""
    content = path.read_bytes() if path.exists() else b""
    kept = [line for line in content.splitlines(keepends=True) if line in lines]
    kept = kept if content.startswith(b"".join(kept)) else []
    left = [line for line in lines if line not in kept]
    path.write_bytes(b"".join([*kept, *chance.sample(left, len(left))]))


# -- Slurm


def _slurm_row(number: int, ended_s: int) -> bytes:
    times = {"Submit": ended_s - 3540, "Start": ended_s - 2940, "End": ended_s, "ElapsedRaw": 2940}
    return f"{slurm_files.row(number, JobName=f'job{number}', **times)}\n".encode()


class ImportingSlurm(Importing):
    """`arcacct import slurm FILE`: each round the file is printed again, and renamed."""

    JOBS = 6
    files = staticmethod(of_arex(b"slurm", b"%d"))
    views = ("v1_slurm_runs",)

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        lines = [_slurm_row(one, _ENDED_S) for one in NUMBERS[: _of_round(number).stop - 1]]
        _append(folder / "new", [f"{slurm_files.COLUMNS}\n".encode(), *lines])
        os.rename(folder / "new", folder / "sacct.txt")

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        (folder / "new").unlink(missing_ok=True)
        ImportingSlurm.write(folder, ROUNDS - 1)

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        run(conf, ["import", "slurm", "--timezone", "UTC", str(folder / "sacct.txt")], Importing.CODES)


_PRINTED = """#!{python}
import json, re, sys, datetime
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
first, last = (
    datetime.datetime.fromisoformat(options[name] + "+00:00").timestamp() for name in ("starttime", "endtime")
)
columns = options["format"].split(",")
print(options["delimiter"].join(columns))
for row in json.load(open({rows!r})):
    if int(row["Submit"]) < last and int(row["End"]) >= first:
        print(options["delimiter"].join(row.get(name, "") for name in columns))
"""


class AskingSlurm(Importing):
    """`arcacct import slurm --run`: slurmdbd is another host, and is asked for no more than what is new."""

    views = ("v1_slurm_runs",)

    @staticmethod
    def prepare(folder: pathlib.Path) -> None:
        _program(folder / "sacct", _PRINTED)
        AskingSlurm.write(folder, -1)

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        names = slurm_files.COLUMNS.split("|")
        rows = [
            dict(zip(names, _slurm_row(one, _asked_at(of, 3) - 2 * DAY_S).decode().strip().split("|"), strict=True))
            for of in range(number + 1)
            for one in _of_round(of)
        ]
        _replace(folder / "rows.json", json.dumps(rows))

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        AskingSlurm.prepare(folder)
        AskingSlurm.write(folder, ROUNDS - 1)

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        _ask(here, SLURM_SOURCE, OutputForm(), SacctCommand(str(folder / "sacct")), "SlurmProgress", number, 3)


# -- Grid Engine


class ImportingGridEngine(Importing):
    """`arcacct import gridengine`: the batch system adds to its file."""

    JOBS = 12
    files = staticmethod(files_of)

    @staticmethod
    def lines(numbers: Sequence[int]) -> list[bytes]:
        return [ran(number, 1, 60, 60 + number * 7, job_name=f"job{number}") for number in numbers]

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        _append(folder / "accounting", ImportingGridEngine.lines(_of_round(number)))

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        _written_anew(folder / "accounting", ImportingGridEngine.lines(NUMBERS), chance)

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        run(conf, ["import", "gridengine", str(folder / "accounting")], Importing.CODES)


# -- HTCondor


def _condor_ad(number: int, ended_s: int) -> dict[str, object]:
    text = htcondor_files.ad(
        number,
        QDate=ended_s - 3540,
        JobStartDate=ended_s - 2940,
        CompletionDate=ended_s,
        EnteredCurrentStatus=ended_s,
        RemoteWallClockTime=2940.0,
    )
    return {name: json.loads(value) for name, value in (line.split(" = ", 1) for line in text.splitlines())}


class ImportingHTCondor(Importing):
    """`arcacct import htcondor FILE`: a history that a schedd adds to."""

    JOBS = 6
    views = ("v1_htcondor_jobs",)
    files = staticmethod(of_arex(b"condor", b"%d.ce"))

    @staticmethod
    def lines(numbers: Sequence[int]) -> list[bytes]:
        return [json.dumps(_condor_ad(number, _ENDED_S)).encode() + b"\n" for number in numbers]

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        _append(folder / "history", ImportingHTCondor.lines(_of_round(number)))

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        _written_anew(folder / "history", ImportingHTCondor.lines(NUMBERS), chance)

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        run(conf, ["import", "htcondor", str(folder / "history")], Importing.CODES)


_HISTORY = """#!{python}
import json, re, sys
since = int(re.search(r">= (\\d+)", " ".join(sys.argv))[1])
print(json.dumps([one for one in json.load(open({rows!r})) if one["EnteredCurrentStatus"] >= since]))
"""


class AskingHTCondor(Importing):
    """`arcacct import htcondor --run`: the schedd is another host, and is asked for no more than what is new."""

    views = ("v1_htcondor_jobs",)

    @staticmethod
    def prepare(folder: pathlib.Path) -> None:
        _program(folder / "condor_history", _HISTORY)
        AskingHTCondor.write(folder, -1)

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        ads = [_condor_ad(one, _asked_at(of, 20) - 15 * DAY_S) for of in range(number + 1) for one in _of_round(of)]
        _replace(folder / "rows.json", json.dumps(ads))

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        AskingHTCondor.prepare(folder)
        AskingHTCondor.write(folder, ROUNDS - 1)

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        command = HistoryCommand(str(folder / "condor_history"))
        _ask(here, HTCONDOR_SOURCE, HistoryForm(), command, "HTCondorProgress", number, 20)


def _ask(here: Places, source: Any, form: Any, command: Any, progress: str, number: int, every_days: int) -> None:
    """Ask a source after a round; as an operator does it: with `--since` once, where nothing was asked before."""
    now = _asked_at(number, every_days)
    with accounting(here) as con:
        known = con.execute(f"SELECT 1 FROM {progress} WHERE AskedUntil IS NOT NULL").fetchone()
        policy = BatchPolicy(BatchSite("", (), BENCHMARK), now, 0)
        work = RunsImport(source, here, con, policy, form, print, lambda: now)
        work.ask(command, None if known else _asked_at(-1, every_days))
        work.finish()


def _asked_at(number: int, every_days: int) -> int:
    """When a source is asked after a round; what ended is so old then that it is asked for once."""
    return slurm_files.BEGIN + number * every_days * DAY_S


def _program(path: pathlib.Path, script: str) -> None:
    _replace(path, script.format(python=sys.executable, rows=str(path.parent / "rows.json")))
    path.chmod(stat.S_IRWXU)


def _replace(path: pathlib.Path, text: str) -> None:
    """Of what another host has no cut takes anything."""
    new = path.with_suffix(".tmp")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)
    fd = os.open(path.parent, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


# -- A-REX


class ImportingArex(Importing):
    """`arcacct import arex`: A-REX writes its database, with a rollback journal and each commit synced."""

    journal, synchronous = "DELETE", "FULL"

    @classmethod
    def write(cls, folder: pathlib.Path, number: int) -> None:
        # A-REX closes nothing: a WAL that is closed is synced.
        _LEFT_OPEN.append(cls._jobs(folder, _of_round(number), _of_round(number - 1) if number else ()))

    @classmethod
    def resume(cls, folder: pathlib.Path, chance: random.Random) -> None:
        con = cls._opened(folder)
        known = {job_id for (job_id,) in con.execute("SELECT JobID FROM AAR")}
        whole = {job_id for (job_id,) in con.execute(_WHOLE)}
        # What was written in part is written to its end; an event is written once.
        for table in ("AuthTokenAttributes", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo"):
            con.execute(
                f"DELETE FROM {table} WHERE RecordID NOT IN (SELECT RecordID FROM AAR WHERE JobID IN ({_WHOLE}))"
            )
        con.close()
        missing = [number for number in NUMBERS if arex_job_id(number) not in known]
        ending = [number for number in NUMBERS if arex_job_id(number) not in whole]
        cls._jobs(folder, chance.sample(missing, len(missing)), chance.sample(ending, len(ending))).close()

    @classmethod
    def take(cls, here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        if number == ROUNDS:
            # Where nothing happened the jobs of the last round end as well.
            cls.resume(folder, random.Random(0))
        run(conf, ["import", "arex", str(folder / "arex.db")])

    @classmethod
    def _jobs(cls, folder: pathlib.Path, accepted: Sequence[int], ended: Sequence[int]) -> sqlite3.Connection:
        """Jobs are accepted, each with the next number of a record, and others end; gives the open database."""
        con = cls._opened(folder)
        writer = Writer(con)
        for table in ("Endpoints", "Queues", "Users", "WLCGVOs", "Status"):
            writer.ids |= {(table, *names): number for number, *names in con.execute(f"SELECT * FROM {table}")}
        for number in accepted:
            (record_id,) = con.execute("SELECT ifnull(max(RecordID), 0) + 1 FROM AAR").fetchone()
            writer.accept(number, record_id)
        for number in ended:
            (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (arex_job_id(number),)).fetchone()
            if not con.execute("SELECT 1 FROM AuthTokenAttributes WHERE RecordID = ?", (record_id,)).fetchone():
                writer.tokens(record_id)
            if not con.execute("SELECT 1 FROM JobEvents WHERE RecordID = ?", (record_id,)).fetchone():
                writer.event(record_id, "ACCEPTED", FIRST_S + number)
            writer.finish(number, FIRST_S + number + 60, record_id=record_id)
        assert not writer.lost
        return con

    @classmethod
    def _opened(cls, folder: pathlib.Path) -> sqlite3.Connection:
        path = folder / "arex.db"
        con = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            con.execute("SELECT KeyValue FROM DBConfig WHERE KeyName = 'DBSCHEMA_VERSION'").fetchone()[0]
        except (TypeError, sqlite3.Error):
            # It was never made, or not to its end.
            con.close()
            for one in folder.iterdir():
                one.unlink()
            con = create(path)
        con.execute(f"PRAGMA journal_mode = {cls.journal}")
        con.execute(f"PRAGMA synchronous = {cls.synchronous}")
        return con


_LEFT_OPEN: list[sqlite3.Connection] = []
_WHOLE = "SELECT JobID FROM AAR JOIN JobEvents USING (RecordID) WHERE EventKey = 'FINISHED'"


class ImportingLossyArex(ImportingArex):
    """
    The same after somebody chose a WAL that is not synced, while ours is, as by `publish`.

    A-REX gives numbers that it lost to other jobs.
    """

    journal, synchronous = "WAL", "NORMAL"
    left = ("none", "first", "mixed")

    @classmethod
    def take(cls, here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        super().take(here, conf, folder, number)
        make_durable(here.database)


# -- Sonar


class ImportingSonar(Importing):
    """`arcacct import sonar`: a file that Sonar adds to, of samples and of Slurm's jobs."""

    views = ("v1_slurm_jobs", "v1_sampled_jobs", "v1_node_usage", "v1_job_telemetry")

    @staticmethod
    def lines() -> list[bytes]:
        """In the order in which they are written."""
        jobs = (sonar_site.REAL / "real-jobs-completed.json").read_bytes()
        return [*sonar_site.SERIES.read_bytes().splitlines(keepends=True), jobs.strip() + b"\n"]

    @staticmethod
    def write(folder: pathlib.Path, number: int) -> None:
        lines = ImportingSonar.lines()
        size = len(lines) // ROUNDS
        _append(folder / "samples.jsonl", lines[number * size : (number + 1) * size])

    @staticmethod
    def resume(folder: pathlib.Path, chance: random.Random) -> None:
        _written_anew(folder / "samples.jsonl", ImportingSonar.lines(), chance)

    @staticmethod
    def take(here: Places, conf: pathlib.Path, folder: pathlib.Path, number: int) -> None:
        run(conf, ["import", "sonar", "--records", str(folder)], Importing.CODES)
