"""A control directory in use goes from A-REX 6 to A-REX 7."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import arex_corpus as corpus
import pytest
import rehearsal
import spool_0_2 as spool
from arex_corpus import Control
from campaigns import cross
from control_directory import set_up
from job_files import LOCAL, NOON_NS, Files, finished_log, lay, rows, statuses

from arcacct.arex.control_files import read_job
from arcacct.arex.sweep import record_event, sweep
from arcacct.arex.sweep_context import SweepReport
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting
from arcacct.publishing.run import publish
from arcacct.publishing.target_run import RunOptions, TargetResult
from arcacct.sandbox import Sandbox
from arcacct.targets import plugins

AREX_7 = b"auth=everybody\nauth=tokens\ntokenclaim.sub=4711\ntokenclaim.name=Ada Lovelace\n"
"""What A-REX 7 adds to a .local that it writes again."""
UNDER_WAY = "JFKMDmMkaoAoOSAtDmABFKDmABFKDmABFKDm86LKDmdBFKDmS0WA3n"
"""The only job of the corpus that has not ended."""
WITHOUT_WORD = "m5gMDmTjaoAoOSAtDmABFKDmABFKDmABFKDm86LKDmYBFKDmWHDGOm"
"""Its .local does not tell when it ended (`lifetime=<`, a fault of A-REX 6)."""
SITE_OF_7 = (
    "[authgroup:everybody]\nall=yes\n[arex/jura]\nvomsless_vo=everybody dteam.example.org\n"
    "[queue:main]\nbenchmark=HEPscore23 17.5\n"
)
SUMMARIES = """
[arex/jura/apel:a]
targeturl={ams}
authn_port={authn}
gocdb_name=EXAMPLE-SITE
apel_messages=summaries
"""
CHILDREN = ("AuthTokenAttributes", "JobEvents", "RunTimeEnvironments", "DataTransfers", "JobExtraInfo", "FinishedLog")


def everything(con: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Each row of each table about jobs that have ended, with its number."""
    ended = f"SELECT RecordID FROM AAR WHERE JobID <> '{UNDER_WAY}'"
    return {
        table: con.execute(f"SELECT rowid, * FROM {table} WHERE RecordID IN ({ended}) ORDER BY rowid").fetchall()
        for table in ("AAR", *CHILDREN)
    }


def upgrade(control: Control, *, copied: bool) -> None:
    """
    Move every job to where ARC 7 keeps it, as its start script does, with the lines that A-REX 7 writes.

    Each file is another one then; ``copied``: its time is that of the copy, too.
    """
    now = time.time()
    jobs = [*control.path.glob("job.*"), *control.path.glob("*/job.*.status")]
    for old in jobs:
        owner = control.owners.get(old.stat().st_ino)
        shutil.copy2(old, control.path / "copy")
        if copied:
            os.utime(control.path / "copy", (now - 7200, now - 7200))
        old.unlink()
        (control.path / "copy").rename(old)
        if owner is not None:
            control.owners[old.stat().st_ino] = owner
        if old.suffix == ".local":
            old.write_bytes(old.read_bytes() + AREX_7)
        corpus.move_to_hashed(control.path, old)


class Site:
    """The CE of the corpus, with its receivers."""

    def __init__(self, path: pathlib.Path, box: Sandbox, targets: str) -> None:
        self.rig = rehearsal.configured(path, box, targets)
        self.control = corpus.rebuild(path / "control")
        assert self.sweep().complaints == ()
        with closing(self.open()) as con:
            # A site that recorded every job from the first: its months are whole.
            con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")

    def open(self) -> sqlite3.Connection:
        return open_accounting(self.rig.settings().places)

    def sweep(self) -> SweepReport:
        """One sweep with the configuration of today."""
        with closing(self.open()) as con:
            return sweep(self.rig.settings().places, con, owner=self.control.owner)

    def publish(self) -> list[TargetResult]:
        """One run of the publisher; nothing is held or set aside."""
        made = self.rig.settings()
        outcomes = publish(made, plugins(made), RunOptions(now=True, since=0))
        assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
        return outcomes

    def become_7(self) -> None:
        """The configuration of ARC 7, part of it in arc.conf.d."""
        (self.rig.path / "arc.conf.d").mkdir()
        (self.rig.path / "arc.conf.d" / "50-arex7.conf").write_text("[arex]\nauthtokenmap=sub:user\n")
        with open(self.rig.path / "arcacct.conf", "a", encoding="utf-8") as file:
            file.write(SITE_OF_7)


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Iterator[Sandbox]:
    """The sandbox's receivers."""
    with Sandbox(str(tmp_path_factory.mktemp("box"))) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(box: Sandbox) -> None:
    """Each site starts with receivers that have nothing."""
    box.sgas.records.clear()
    box.apel.job_records.clear()
    box.apel.summaries.clear()


@pytest.mark.parametrize("copied", [False, True], ids=["moved", "copied"])
@pytest.mark.parametrize("targets", [rehearsal.SGAS_AND_CARS, SUMMARIES], ids=["records", "summaries"])
def test_no_record_that_was_published_changes_and_none_is_sent_again(tmp_path, box, targets, copied) -> None:
    """
    A whole site of A-REX 6: swept, published, upgraded with new files, lines and settings, swept and published again.

    (Seen: files that were copied to a new host without their times gave every finished job another end, and the
    publisher sent each of them once more, under another key at APEL.)
    """
    site = Site(tmp_path, box, targets)
    site.publish()
    with closing(site.open()) as con:
        before = everything(con)
    received = at_receivers(box)
    assert len(before["FinishedLog"]) == 35
    if copied:
        os.unlink(site.control.path / "finished" / f"job.{WITHOUT_WORD}.status")

    upgrade(site.control, copied=copied)
    site.become_7()
    first, second = site.sweep(), site.sweep()

    assert first.complaints == ()
    assert first.looked_at == first.jobs > 30
    assert second.looked_at == second.recorded == 0
    with closing(site.open()) as con:
        assert everything(con) == before
    for outcome in site.publish():
        assert outcome.summary.sent.keys() <= {"sync", "summaries"}
    assert at_receivers(box) == received


def at_receivers(box: Sandbox) -> tuple[dict[Any, Any], ...]:
    """What they have, and how often SGAS was sent what it has; of a sum what it counts."""
    sums = {
        key: (row["NumberOfJobs"], row["WallDuration"], row["CpuDuration"]) for key, row in box.apel.summaries.items()
    }
    return dict(box.sgas.records), dict(box.apel.job_records), sums, {"repeats": box.sgas.ignored_repeats}


def test_a_control_directory_of_arex_7_goes_to_another_host(tmp_path: pathlib.Path) -> None:
    """Its status files are some seconds younger than what .local tells; copied without times no job ends again."""
    control = corpus.rebuild(tmp_path / "control", corpus.AREX7)
    # Its .local was edited by hand and tells no end.
    (control.path / "finished" / "66a381c0c67e.status").unlink()
    with closing(corpus.swept(control)) as con:
        before = everything(con)
        for status in control.path.glob("*/*.status"):
            os.utime(status, (time.time() - 7200, time.time() - 7200))

        report = sweep(corpus.place(control.path), con, owner=control.owner)

        assert report.looked_at == report.jobs > 30
        assert everything(con) == before


@pytest.mark.parametrize(
    ("recorded_s", "copied_s", "is_kept"),
    [
        # A-REX 7 writes the status file up to some minutes after the end that .local tells.
        *((0, 601, True), (0, 10**6, True), (600, 10**6, True)),
        # Not late enough for a copy: A-REX has ended the job again.
        *((0, 1, False), (0, 599, False), (0, 600, False)),
        # The recorded end is that of another run than .local tells of.
        *((-1, 10**6, False), (601, 10**6, False)),
    ],
)
def test_a_status_file_is_a_copy_if_it_is_minutes_later_than_the_end(
    tmp_path: pathlib.Path, recorded_s: int, copied_s: int, is_kept: bool
) -> None:
    """Ten minutes are between the slowest A-REX and a copy, on either side; times are after the end in .local."""
    here = places(None, set_up(tmp_path / "control"))
    end_s = NOON_NS // 10**9 - 10**7
    cleanup = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end_s + 604800)).encode()
    local = LOCAL.replace(b"starttime=20261120", b"starttime=20260701") + b"lifetime=604800\ncleanuptime=%s\n" % cleanup
    with closing(open_accounting(here)) as con:
        for after_s in (recorded_s, copied_s):
            lay(pathlib.Path(here.controldir), Files(mtime_ns=(end_s + after_s) * 10**9, local=local))
            sweep(here, con)
        ends = [row[2] for row in statuses(con)]

    assert ends == [end_s + (recorded_s if is_kept else copied_s)]


def test_a_job_that_is_resumed_and_ends_again_has_its_new_end(tmp_path: pathlib.Path) -> None:
    """A-REX writes again what .local tells of the end: that is no copy, whatever version it is."""
    here = places(None, set_up(tmp_path / "control"))
    control = pathlib.Path(here.controldir)
    local = LOCAL + b"lifetime=604800\n"
    with closing(open_accounting(here)) as con:
        for hours in (1, 5):
            end_ns = NOON_NS - 10**15 + hours * 3600 * 10**9
            cleanup = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(end_ns // 10**9 + 604800)).encode()
            lay(control, Files(mtime_ns=end_ns, local=local + b"cleanuptime=" + cleanup + b"\n"))
            sweep(here, con)
            assert [row[2] for row in statuses(con)] == [end_ns // 10**9]
        assert len(finished_log(con)) == 1


LIFE = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "FINISHING", "FINISHED")
JOB = "abcdef123456"


@pytest.mark.parametrize(("how", "moved_at"), cross(5, ["hook", "spool", "sweep"], range(1, len(LIFE))))
def test_a_job_that_runs_through_the_upgrade_is_one_record(tmp_path: pathlib.Path, how: str, moved_at: int) -> None:
    """Whoever tells of it, also between the moves of its files: in the end it is as one of ARC 7 from its first day."""
    through, log = record_life(tmp_path / "through", how, moved_at)
    always, _log = record_life(tmp_path / "always", how, 0)

    assert through == always
    assert [(row[0], row[7]) for row in through["AAR"]] == [(JOB, "completed")]
    assert len(log) == 1


def record_life(path: pathlib.Path, how: str, moved_at: int) -> tuple[dict[str, list[Any]], list[tuple[int, int]]]:
    """All rows of a job whose files are moved to the layout of ARC 7 in one of its states, and the log of ends."""
    control = pathlib.Path(set_up(path / "control"))
    (path / "arc.conf").write_text(f"[arex]\ncontroldir={control}\nauthtokenmap=sub:user\n{SITE_OF_7}")
    here = places(load(str(path / "arc.conf"), {}))
    with closing(open_accounting(here)) as con:
        for number, state in enumerate(LIFE):
            for status in control.glob(f"*/*{JOB}.status"):
                status.unlink()
            local = LOCAL + AREX_7 if number >= moved_at else LOCAL
            lay(control, Files(state, NOON_NS - 10**15 + number * 10**11, local), JOB)
            for old in [*sorted(control.glob(f"job.{JOB}.*")), *control.glob(f"*/job.{JOB}.status")]:
                if number == moved_at:
                    tell(here, con, state, how)
                if number >= moved_at:
                    corpus.move_to_hashed(control, old)
            tell(here, con, state, how)
        assert sweep(here, con).complaints == ()
        return rows(con), finished_log(con)


def tell(here: Places, con: sqlite3.Connection, state: str, how: str) -> None:
    """What a hook, a hook that spools, or a timer does at this moment."""
    if how == "hook":
        record_event(here, read_job(here.controldir, JOB, state), con)
    elif how == "spool":
        spool.write(here.spool, read_job(here.controldir, JOB, state))
    else:
        sweep(here, con)
