"""The power is cut while the databases are cared for: backed up, restored, moved, pruned, or started."""

from __future__ import annotations

import functools
import os
import pathlib
import sqlite3
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import closing, suppress

import spool_0_2 as spool
from disturbed_host import BENCHMARK, LIFE
from installed import ARCACCT
from power_cut_hosts import Jobs, Loss, Recording, Sweeping, compared, in_child, jobs_in, record, run
from power_cut_positions import files_of
from power_cuts import Cut
from recording_host import Host

from arcacct.arex.control_files import read_job
from arcacct.arex.sweep import sweep
from arcacct.config.paths import Places, places
from arcacct.database import moving, upkeep
from arcacct.database.access import initialise, open_accounting, open_publishing
from arcacct.database.durable import refuse_maintenance
from arcacct.errors import ArcacctError
from arcacct.records import retention
from arcacct.records.pseudonyms import PSEUDONYM
from arcacct.records.recorder import CHILDREN

USER = "/DC=org/DC=example/CN=Ada Lovelace"
RELEASED = pathlib.Path(__file__).parents[1] / "data" / "released" / "0.2.0"


class Beginning(Sweeping):
    """The first sweep of a host makes the database."""

    def fill(self, host: Host) -> None:
        for job_id in self.jobs:
            self.lay(host, job_id, "FINISHED")
        for path in pathlib.Path(host.places.directory).iterdir():
            path.unlink()
        pathlib.Path(host.places.place_note).unlink(missing_ok=True)

    def make_wanted(self) -> Jobs:
        self.well.sweep()
        return jobs_in(self.well.database)


class Care(Recording):
    """
    A command of the operator on a database of finished jobs that are gone from the control directory.

    After the cut the timer's sweep comes first, whatever it says; then the operator, who does the same once more.
    """

    JOBS = 12
    ARGUMENTS: tuple[str, ...]

    def command(self) -> tuple[list[str], dict[str, str]]:
        for job_id in self.jobs:
            self.record(self.host, job_id, LIFE)
        with closing(open_publishing(self.host.places)):
            # There is a ledger.
            pass
        self.prepare()
        for job_id in self.jobs:
            self.clean(self.host, job_id)
        return [ARCACCT, "--config", str(self.host.conf), "db", *self.ARGUMENTS], {}

    def prepare(self) -> None:
        """What the command needs besides."""

    def may_be_gone(self, cut: Cut) -> Iterable[str]:
        return ()

    def after(self, cut: Cut) -> list[Loss]:
        with suppress(ArcacctError):
            self.host.sweep()
        self.here = self.repeat()
        refuse_maintenance(self.here.database)
        with closing(open_accounting(self.here)) as con:
            sweep(self.here, con)
        return self.compare(self.here)

    @abstractmethod
    def repeat(self) -> Places:
        """What the operator does; where the databases are since."""

    def compare(self, here: Places) -> list[Loss]:
        """What is lost of the jobs."""
        return compared(jobs_in(pathlib.Path(here.database)), self.wanted)


class BackingUp(Care):
    """`arcacct db backup`: a copy that has its name is whole."""

    def prepare(self) -> None:
        self.folder = self.host.control.parent / "backups"
        self.ARGUMENTS = ("backup", str(self.folder))

    def repeat(self) -> Places:
        return self.host.places

    def compare(self, here: Places) -> list[Loss]:
        copies = self.folder.glob("accounting-*.db") if self.folder.exists() else ()
        return [*super().compare(here), *(loss for copy in copies for loss in compared(jobs_in(copy), self.wanted))]


class Restoring(Care):
    """`arcacct db restore`: everything is in what was restored or in what is kept."""

    def prepare(self) -> None:
        (copy, _ledger) = upkeep.backups(self.host.places, str(self.host.control.parent / "backups"))
        self.copy = copy.path
        self.ARGUMENTS = ("restore", self.copy, "--yes")
        # What the backup lacks is in the old database alone, and of that in its WAL.
        self.late = [f"Late{number}" for number in range(4)]
        self.jobs |= dict.fromkeys(self.late, False)
        in_child(lambda: record(self.here, dict.fromkeys(self.late, False), self.files))
        assert os.path.getsize(f"{self.host.database}-wal")

    def repeat(self) -> Places:
        upkeep.restore(self.host.places, self.copy)
        return self.host.places

    def compare(self, here: Places) -> list[Loss]:
        folder = pathlib.Path(here.directory)
        kept = [jobs_in(path) for path in folder.glob("accounting.db.before-restore.*") if path.suffix.endswith("Z")]
        restored = {job_id: one for job_id, one in self.wanted.items() if job_id not in self.late}
        whole = [one for one in kept if not compared(one, self.wanted)]
        lost = compared(jobs_in(pathlib.Path(here.database)), restored)
        return lost if whole else [*lost, Loss("not kept", ", ".join(str(len(one)) for one in kept))]


class Moving(Care):
    """`arcacct db move`: the same life in the new place, with what was in the spool."""

    def prepare(self) -> None:
        self.directory = self.host.control.parent / "new"
        self.ARGUMENTS = ("move", str(self.directory), "--yes")
        waiting = [f"Waits{number}" for number in range(4)]
        self.jobs |= dict.fromkeys(waiting, False)
        for job_id in waiting:
            self.record(self.host, job_id, LIFE[:-1])
            self.lay(self.host, job_id, "FINISHED")
            spool.write(self.host.places.spool, read_job(str(self.host.control), job_id, "FINISHED"))

    def repeat(self) -> Places:
        moving.move(self.host.places, str(self.directory))
        here = places(None, str(self.host.control), str(self.directory / "accounting.db"))
        here.rules.default_benchmark = BENCHMARK
        return here


class Pruning(Care):
    """`arcacct db prune`: each job is in the database or in the archive."""

    def prepare(self) -> None:
        self.archive = self.host.control.parent / "archive.db"
        self.ARGUMENTS = ("prune", "--before", "2027-01-01", "--archive", str(self.archive), "--yes")

    def repeat(self) -> Places:
        here = self.host.places
        options = retention.PruneOptions(archive=str(self.archive), ended_before=1_900_000_000)
        with closing(open_accounting(here)) as con, closing(open_publishing(here)) as publishing:
            retention.prune(here, con, publishing, options)
        return here

    def compare(self, here: Places) -> list[Loss]:
        both = (jobs_in(pathlib.Path(here.database)), jobs_in(self.archive))
        twice = [Loss("twice", job_id) for job_id in both[0].keys() & both[1].keys()]
        return [*twice, *compared(both[0] | both[1], self.wanted)]


class Shrinking(Care):
    """`arcacct db optimize --shrink`: the database written again has every job."""

    ARGUMENTS = ("optimize", "--shrink")

    def prepare(self) -> None:
        with closing(open_accounting(self.host.places)) as con:
            con.execute("CREATE TABLE Room AS SELECT zeroblob(300000)")
            con.execute("DROP TABLE Room")

    def repeat(self) -> Places:
        with closing(open_accounting(self.host.places)) as con:
            upkeep.shrink(self.host.places, con)
        return self.host.places


class Forgetting(Care):
    """`arcacct db forget DN`: every job is there, and its user has the same pseudonym everywhere."""

    ARGUMENTS = ("forget", USER, "--yes")
    # Names of this month and the last one stay.
    files = staticmethod(functools.partial(files_of, months_ago=2))

    def make_wanted(self) -> Jobs:
        return {}

    def repeat(self) -> Places:
        run(self.host.conf, ["db", *self.ARGUMENTS])
        return self.host.places

    def compare(self, here: Places) -> list[Loss]:
        jobs = jobs_in(pathlib.Path(here.database))
        with closing(sqlite3.connect(here.database)) as con:
            users = [name for (name,) in con.execute("SELECT DISTINCT Name FROM AAR JOIN Users ON Users.ID = UserID")]
        named = [Loss("named", name) for name in users if not PSEUDONYM.fullmatch(name)]
        several = [Loss("several pseudonyms", " ".join(users))] if len(users) > 1 else []
        return [*(Loss("missing", job_id) for job_id in self.jobs if job_id not in jobs), *named, *several]


class Upgrading(Care):
    """`arcacct db upgrade` of databases that a released program wrote."""

    JOBS = 0
    ARGUMENTS = ("upgrade",)

    def prepare(self) -> None:
        here = self.host.places
        for path, name in ((here.database, "accounting"), (here.publishing_database, "publishing")):
            os.unlink(path)
            with closing(sqlite3.connect(path)) as con:
                con.execute("PRAGMA journal_mode = WAL")
                con.executescript((RELEASED / f"{name}.sql").read_text())
        with closing(sqlite3.connect(here.database, isolation_level=None)) as con:
            # One job was deleted by hand, as far as its own row goes.
            for table in (*CHILDREN, "RecordSources"):
                con.execute(f"DELETE FROM {table} WHERE RecordID NOT IN (SELECT RecordID FROM AAR)")
        self.released = jobs_in(self.host.database)
        assert self.released

    def make_wanted(self) -> Jobs:
        return self.released

    def repeat(self) -> Places:
        initialise(self.host.places)
        return self.host.places
