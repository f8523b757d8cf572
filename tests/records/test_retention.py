"""Moving old jobs, finished and delivered, into an archive."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from zoneinfo import ZoneInfo

import arex_writer
import job_files
import pytest
import stored_jobs
from control_directory import set_up
from recording_host import LAUNCHER, host, until
from stored_jobs import END_S

from arcacct.arex.import_database import import_arex
from arcacct.config.paths import Places, places
from arcacct.database.access import initialise, open_accounting, open_publishing
from arcacct.database.schema import create_views, incarnation
from arcacct.errors import InputError, SchemaError, StoreBusy
from arcacct.publishing import cursors, ledger
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.ledger import HeldRecord, SentRecord
from arcacct.publishing.locks import publisher, publishing_lock
from arcacct.queries import questions
from arcacct.queries.questions import Selection
from arcacct.queries.usage import usage
from arcacct.records import usage as records_usage
from arcacct.records.integrity import check
from arcacct.records.retention import KEPT, MOVED, TELEMETRY, Pruned, PruneOptions, plan, prune
from arcacct.records.writer import OF_RECORD

__all__ = ["host"]

TARGET = "arex/jura/sgas:one"


class Site:
    """Both databases, and what is wished."""

    def __init__(self, here: Places) -> None:
        self.here = here
        initialise(here)
        self.con = open_accounting(here)
        self.publishing = open_publishing(here)
        self.archive = os.path.join(here.directory, "archive.db")

    def options(self, **changed: object) -> PruneOptions:
        return PruneOptions(END_S + 50, self.archive, (TARGET,))._replace(**changed)

    def plan(self, **changed: object) -> Pruned:
        return plan(self.con, self.publishing, self.options(**changed))

    def prune(self, **given: object) -> Pruned:
        how = {word: given.pop(word) for word in ("alone", "progress", "stopping") if word in given}
        return prune(self.here, self.con, self.publishing, self.options(**given), **how)

    def delivered(self, seq: int) -> None:
        """The target was sent everything up to a Seq."""
        cursors.set_cursor(self.publishing, Cursor(TARGET, incarnation(self.con), seq, 0, None))

    def jobs(self) -> list[str]:
        return [row[0] for row in job_files.rows(self.con)["AAR"]]

    def archived(self) -> dict[str, list[tuple[object, ...]]]:
        return job_files.rows(self.archive)


def name(number: int) -> str:
    return f"STORED{number:06d}"


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    """Jobs 1 to 4 ended one after the other; the first three long ago; everything was delivered."""
    made = Site(places(None, set_up(tmp_path / "control")))
    ends = (END_S, END_S + 10, END_S + 20, END_S + 1000)
    stored_jobs.add(made.con, made.here, *(stored_jobs.job(n, end_s=end) for n, end in enumerate(ends, 1)))
    made.delivered(4)
    yield made
    made.con.close()
    made.publishing.close()


def test_old_jobs_move(site) -> None:
    """With all their rows, unchanged; the others stay, and nothing is logged as changed or deleted."""
    before = job_files.rows(site.con)
    old = {table: [row for row in rows if row[0] != name(4)] for table, rows in before.items()}

    assert site.plan() == Pruned(3, END_S, END_S + 20)
    assert site.prune() == Pruned(3, END_S, END_S + 20)

    assert site.jobs() == [name(4)]
    assert site.archived() == old
    assert job_files.finished_log(site.con) == [(4, 4)]
    assert {one.problems for one in check(site.here)} == {()}
    assert site.prune() == Pruned()


def test_usage_still_counts_what_was_pruned(site) -> None:
    """The sums of the month are the same before and after, also when the month gets another job."""
    before = records_usage.usage_cells(site.con)

    site.prune()
    assert records_usage.usage_cells(site.con) == before
    stored_jobs.add(site.con, site.here, stored_jobs.job(5))
    records_usage.update_monthly(site.con, site.here)

    assert sum(cell.jobs for cell in records_usage.usage_cells(site.con)) == sum(cell.jobs for cell in before) + 1


def test_what_no_sum_tells_apart_yet_is_summed_before_it_goes(site) -> None:
    """After an upgrade a prune puts into the finer cells first what it moves: no one would know its queue any more."""
    records_usage.update_monthly(site.con, site.here)
    before = usage(site.con, Selection(), ("queue", "status"), details=True)

    assert site.prune().jobs == 3
    assert usage(site.con, Selection(), ("queue", "status"), details=True) == before


def test_what_no_sum_keeps_is_counted_as_lacking(site) -> None:
    """Classes of waiting time are of the jobs that are here: how many are in archives is known."""
    assert questions.count_pruned(site.con) == 0
    site.prune()
    site.prune()
    assert questions.count_pruned(site.con) == 3


def test_the_archive_knows_where_records_came_from(site) -> None:
    """Sources, notes and authgroups go with the record; a record of our own hook has no source there either."""
    site.con.execute("DELETE FROM RecordSources WHERE RecordID = 1")
    site.con.execute("INSERT INTO FieldSources VALUES (2, 'memory_kib', 'sonar')")
    site.con.execute("INSERT INTO TruncationNotes VALUES (3, 'transfers', '5 of 9 kept', 1795176000)")
    site.con.execute("INSERT INTO AuthGroups VALUES (3, 'tokens')")

    site.prune()

    with closing(sqlite3.connect(site.archive)) as con:
        query = "SELECT JobID, Source, Origin FROM RecordSources JOIN AAR USING (RecordID) ORDER BY 1"
        assert con.execute(query).fetchall() == [(name(n), "arex", "/elsewhere/accounting.db") for n in (2, 3)]
        fields = con.execute("SELECT JobID, Field, FieldSources.Source FROM FieldSources JOIN AAR USING (RecordID)")
        assert fields.fetchall() == [(name(2), "memory_kib", "sonar")]
        noted = con.execute("SELECT job_id, field, note, noted_time FROM v1_record_notes").fetchall()
        assert noted == [(name(3), "transfers", "5 of 9 kept", 1795176000)]
        groups = con.execute("SELECT JobID, Names FROM AuthGroups JOIN AAR USING (RecordID)").fetchall()
        assert groups == [(name(3), "tokens")]
    for table in ("FieldSources", "TruncationNotes", "AuthGroups"):
        assert site.con.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_telemetry_of_a_job_goes_with_it(site) -> None:
    """What GPUs a job used is in the archive afterwards, under the cluster's name, whatever number that has there."""
    question = "SELECT job_id, cluster, gpu_model, gpu_busy_s FROM v1_job_telemetry"
    create_views(site.con, "sonar")
    site.con.execute("INSERT INTO Clusters (ID, Name) VALUES (7, 'other'), (8, 'hpc.example.org')")
    site.con.execute(
        "INSERT INTO JobTelemetry (RecordID, ClusterID, JobID, Samples, GPUModel) VALUES (2, 8, 42, 3, 'A100')"
    )
    site.con.execute("INSERT INTO JobAccelerators VALUES (2, 'sonar', 'hpc.example.org', NULL, NULL, 1, NULL, NULL)")
    before = site.con.execute(question).fetchall()
    assert before == [(name(2), "hpc.example.org", "A100", 1.0)]

    site.prune()

    assert site.con.execute(question).fetchall() == []
    with closing(sqlite3.connect(site.archive)) as con:
        assert con.execute(question).fetchall() == before


def test_every_table_of_a_record_has_its_place() -> None:
    """A new table that knows records must be moved, dropped or kept on purpose."""
    from arcacct.database.schema import ACCOUNTING, in_memory
    from arcacct.records.recorder import CHILDREN

    with closing(in_memory(ACCOUNTING)) as con:
        tables = {
            table
            for (table,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if "RecordID" in {row[1] for row in con.execute(f"PRAGMA table_info({table})")}
        }

    placed = {"AAR", "FinishedLog", *OF_RECORD, *KEPT}
    assert {*CHILDREN, *MOVED, TELEMETRY} < {*OF_RECORD}
    # Their RecordID is one of A-REX's own file.
    assert tables - {"ImportedFiles", "UnfinishedImports"} == placed


@pytest.mark.parametrize(
    ("prepare", "changed", "reason", "stay"),
    [
        pytest.param(lambda site: site.delivered(1), {}, f"not sent to [{TARGET}] yet", 2, id="not delivered"),
        pytest.param(
            lambda _site: None, {"targets": ("arex/jura/apel:new",)}, "not sent to [arex/jura/apel", 3, id="new target"
        ),
        pytest.param(
            lambda site: site.publishing.execute("UPDATE Targets SET Incarnation = 'another life'"),
            {},
            f"not sent to [{TARGET}] yet",
            3,
            id="restored",
        ),
        pytest.param(
            lambda _site: None,
            {"present": (name(2),)},
            "the control directory still has them",
            1,
            id="in the control directory",
        ),
        pytest.param(
            lambda site: site.con.execute("DELETE FROM FinishedLog WHERE RecordID = 2"),
            {},
            "not in the log",
            1,
            id="not in the log",
        ),
    ],
)
def test_what_must_stay_stays(site, prepare, changed, reason, stay) -> None:
    """The plan says how many and why, and the prune leaves exactly these."""
    prepare(site)

    planned = site.plan(**changed)
    done = site.prune(**changed)

    assert planned == done
    assert done.jobs == 3 - stay
    assert len(done.left) == 1
    assert done.left[0][0].startswith(reason)
    assert done.left[0][1] == stay
    assert len(site.jobs()) == 1 + stay


@pytest.mark.parametrize(
    ("state", "moves"),
    [("held", False), ("quarantined", False), ("correction", False), ("retry", False), ("dropped", True)],
)
def test_what_is_held_back_stays(site, state, moves) -> None:
    """A record that a target still may get, or that an operator has to look at; dropped is decided."""
    record = SentRecord(name(2), 2, 2, END_S + 10, b"")
    ledger.record_intent(site.publishing, TARGET, [], [HeldRecord(record, state, "why")])

    site.prune()

    assert (name(2) in site.jobs()) is not moves


def test_a_target_that_is_gone_need_not_be_waited_for(site) -> None:
    """It is named on the command line."""
    cursors.set_cursor(site.publishing, Cursor("arex/jura/sgas:old", incarnation(site.con), 1, 0, None))
    assert site.plan().jobs == 1

    assert site.prune(without=("arex/jura/sgas:old",)).jobs == 3


def test_jobs_in_progress_stay(site) -> None:
    """However old."""
    stored_jobs.add(site.con, site.here, stored_jobs.job(9, status="in-progress"))

    site.prune()

    assert name(9) in site.jobs()


def test_a_job_that_changes_meanwhile_stays(site) -> None:
    """What was corrected after it was delivered must be delivered again first."""
    site.con.execute("UPDATE AAR SET ExitCode = 5 WHERE RecordID = 2")

    assert site.prune().jobs == 2
    assert name(2) in site.jobs()


@pytest.mark.parametrize("point", ["archived", "deleting"])
def test_a_prune_that_is_killed_continues(site, point) -> None:
    """Killed between the two databases or within the second: no job is lost, and the next prune finishes."""
    before = {table: [row for row in rows if row[0] != name(4)] for table, rows in job_files.rows(site.con).items()}
    code = (
        "import os, sys; from arcacct.config.paths import places\n"
        "from arcacct.database import access\nfrom arcacct.records import retention\n"
        "here = places(None, sys.argv[1]); con = access.open_accounting(here)\n"
        "def die(*_): os.kill(os.getpid(), 9)\n"
        "real = retention._delete\n"
        "def delete(one, ids): real(one, ids); die() if one is con else None\n"
        "if sys.argv[4] == 'deleting': retention._delete = delete\n"
        "else: access.writing = die; retention.usage.update_monthly = lambda *_: 0\n"
        "retention.prune(here, con, access.open_publishing(here),\n"
        "                retention.PruneOptions(int(sys.argv[2]), sys.argv[3], ()))"
    )
    records_usage.update_monthly(site.con, site.here)
    arguments = [site.here.controldir, str(END_S + 50), site.archive, point]
    assert subprocess.run([sys.executable, "-c", code, *arguments], check=False).returncode == -9
    assert len(site.jobs()) == 4
    assert os.path.exists(site.here.maintenance)
    # Corrected, and delivered again: the archive must not keep what the killed one left there.
    site.con.execute("UPDATE AAR SET ExitCode = 5 WHERE RecordID = 1")
    site.delivered(5)

    done = site.prune()

    corrected = [(*row[:8], 5, *row[9:]) if row[0] == name(1) else row for row in before["AAR"]]
    assert done.jobs == 3
    assert site.archived() == {**before, "AAR": corrected}
    assert site.jobs() == [name(4)]
    assert not os.path.exists(site.here.maintenance)


def test_the_archive_can_be_attached(site) -> None:
    """It has the same tables and views."""
    site.prune()
    site.con.execute("ATTACH ? AS archive", (f"file:{site.archive}?mode=ro",))

    found = site.con.execute(
        "SELECT job_id FROM main.v1_jobs UNION ALL SELECT job_id FROM archive.v1_jobs ORDER BY 1"
    ).fetchall()

    assert [job_id for (job_id,) in found] == [name(n) for n in (1, 2, 3, 4)]


def other_database(path: str) -> None:
    found = places(None, "/nowhere", path)
    with closing(open_accounting(found)) as con:
        stored_jobs.add(con, found, stored_jobs.job(77))


def test_another_database_is_no_archive(site, tmp_path) -> None:
    """Nor is the database itself; both stay as they are."""
    other = str(tmp_path / "other" / "accounting.db")
    other_database(other)

    with pytest.raises(SchemaError, match="not an archive"):
        site.prune(archive=other)
    with pytest.raises(InputError, match="the database itself"):
        site.prune(archive=site.here.database)
    assert len(site.jobs()) == 4
    assert len(job_files.rows(other)["AAR"]) == 1


def test_commands_wait_meanwhile(site) -> None:
    """While one prune is at work another is refused."""
    from arcacct.database.durable import maintenance

    with maintenance(site.here.database, "prune"), pytest.raises(StoreBusy):
        site.prune()


@pytest.mark.parametrize("archive", ["there", "away"])
def test_an_import_does_not_bring_pruned_jobs_back(site, tmp_path, archive) -> None:
    """A-REX's own database still has them: they are counted and published, and one of another time is taken over."""
    path = tmp_path / "accounting.db"
    with closing(arex_writer.create(path)) as con:
        con.execute("PRAGMA synchronous = OFF")
        writer = arex_writer.Writer(con)
        for number, job_id in enumerate((name(1), name(2), "OLDJOB", "NEWJOB"), 1):
            writer.accept(number)
            con.execute(f"UPDATE AAR SET JobID = '{job_id}' WHERE RecordID = {number}")
            writer.finish(number, END_S if number < 4 else END_S + 2000)
    site.prune()
    if archive == "away":
        os.rename(site.archive, site.archive + ".away")

    report = import_arex(site.here, site.con, str(path), ZoneInfo("UTC"))

    # Without its archive no one can tell whether an old job was pruned.
    old = ["OLDJOB"] if archive == "there" else []
    assert sorted(site.jobs()) == sorted([name(4), "NEWJOB", *old])
    assert report.archived == 3 - len(old)


def test_events_during_a_prune_are_not_lost(host, tmp_path) -> None:
    """Each event waits in the spool; after the sweep every job is there."""
    site = Site(host.places)
    stored_jobs.add(site.con, site.here, *(stored_jobs.job(number) for number in range(1, 400)))
    site.delivered(399)
    names = [f"JOB{number}" for number in range(8)]
    for one in names:
        job_files.lay(host.control, job_files.Files(), one)
    code = (
        "import subprocess, sys\n"
        "launcher, control, *names = sys.argv[1:]\n"
        "for name in names: subprocess.run([launcher, control, name, 'FINISHED'], check=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, LAUNCHER, str(host.control), *names])
    moved = 0
    while process.poll() is None:
        moved += site.prune(ended_before=END_S + 50).jobs
    assert process.returncode == 0
    until(lambda: not any(path.name.startswith(".tmp-") for path in host.spool))

    host.sweep()

    assert moved == 399
    assert site.jobs() == names
    assert len(site.archived()["AAR"]) == 399
    site.con.close()
    site.publishing.close()


def many(site: Site) -> list[str]:
    """So many jobs that a prune takes several pages."""
    stored_jobs.add(site.con, site.here, *(stored_jobs.job(number) for number in range(10, 1210)))
    site.delivered(site.con.execute("SELECT max(Seq) FROM FinishedLog").fetchone()[0])
    records_usage.update_monthly(site.con, site.here)
    return site.jobs()


def test_a_prune_that_is_stopped_continues(site) -> None:
    """Stopped behind a page, it says how many are moved; the next one moves the others, and no job is in both."""
    jobs = many(site)
    told: list[int] = []

    first = site.prune(progress=told.append, stopping=lambda: bool(told))
    second = site.prune()

    assert (first.is_whole, second.is_whole) == (False, True)
    assert told == [first.jobs]
    assert first.jobs + second.jobs == len(jobs) - 1
    assert site.jobs() == [name(4)]
    assert len(site.archived()["AAR"]) == len(jobs) - 1


def test_publishers_have_their_turn_between_two_pages(site) -> None:
    """One that comes while a page is moved waits for the end of that page, not of the prune; jobs stay whole."""
    many(site)
    left: list[int] = []

    def publish() -> None:
        with publisher(site.here), closing(open_accounting(site.here)) as con:
            left.append(con.execute("SELECT count(*) FROM AAR").fetchone()[0])

    threads: list[threading.Thread] = []

    @contextmanager
    def alone() -> Iterator[None]:
        with publishing_lock(site.here.publishing_lock):
            if not threads:
                threads.append(threading.Thread(target=publish))
                threads[0].start()
            yield

    site.prune(alone=alone)
    threads[0].join()

    assert 1 < left[0] < 1204
    assert site.jobs() == [name(4)]
