"""The sweep in a control directory of ARC 7, and in one that is being upgraded."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import arex_corpus as corpus
import pytest
import spool_0_2 as spool
from control_directory import set_up
from job_files import DIAG, LOCAL, NOON_NS, Files, events, lay, rows

from arcacct.arex.control_files import job_file, read_job
from arcacct.arex.sweep import record_event, sweep
from arcacct.arex.sweep_context import Gap
from arcacct.config.parser import load
from arcacct.config.paths import Places, places
from arcacct.database.access import open_accounting
from arcacct.queries import questions
from arcacct.queries.questions import Selection

JOB = "abcdef123456"
LONG_AGO_NS = NOON_NS - 10**15
TWO_BENCHMARKS = DIAG + b"benchmark=HEPscore23:17.5\n"
TOKEN = (
    LOCAL + b"tokenclaim.email=a@example.org\ntokenclaim.iss=https://wlcg.example.org/\n"
    b"tokenclaim.preferred_username=ada\ntokenclaim.sub=4711\n"
    b"tokenclaim.wlcg.groups=/wlcg\ntokenclaim.wlcg.groups=/wlcg/a\n"
)


@pytest.fixture
def here(tmp_path: pathlib.Path) -> Places:
    """The places of a fresh host."""
    return places(None, set_up(tmp_path / "control"))


@pytest.fixture
def con(here: Places) -> Iterator[sqlite3.Connection]:
    """Its accounting database."""
    with closing(open_accounting(here)) as found:
        yield found


def lay_hashed(control: pathlib.Path, files: Files, job_id: str = JOB) -> None:
    """Put a job's files as ARC 7 keeps them."""
    lay(control, files, job_id)
    upgrade(control, job_id)


def upgrade(control: pathlib.Path, job_id: str) -> None:
    """Move a job's files from where A-REX 6 keeps them to where ARC 7 does."""
    for old in control.glob(f"job.{job_id}.*"):
        new = pathlib.Path(job_file(str(control), job_id, old.name.rpartition(".")[2], hashed=True))
        new.parent.mkdir(parents=True, exist_ok=True)
        old.rename(new)
    for old in control.glob(f"*/job.{job_id}.status"):
        old.rename(old.parent / f"{job_id}.status")


def benchmark(con: sqlite3.Connection, job_id: str = JOB) -> object:
    """The benchmark of a job."""
    return {row[0]: row[2] for row in rows(con)["JobExtraInfo"] if row[1] == "benchmark"}[job_id]


def test_the_files_are_where_arc_7_puts_them(tmp_path: pathlib.Path) -> None:
    """Twelve characters make four folders; the status file has no job. before its name."""
    lay_hashed(tmp_path, Files())

    assert (tmp_path / "jobs/abc/def/123/456/local").exists()
    assert (tmp_path / "finished/abcdef123456.status").exists()


@pytest.mark.parametrize("how", ["hook", "spool", "sweep"])
def test_a_hashed_job_is_recorded(here: Places, con: sqlite3.Connection, how: str) -> None:
    """Hook, spool and sweep find the files and follow ARC 7's rule that the last benchmark counts."""
    control = pathlib.Path(here.controldir)
    lay_hashed(control, Files(diag=TWO_BENCHMARKS, failed=b""))

    if how == "hook":
        record_event(here, read_job(str(control), JOB, "FINISHED"), con)
    elif how == "spool":
        spool.write(here.spool, read_job(str(control), JOB, "FINISHED"))
    sweep(here, con)

    assert [(row[0], row[7]) for row in rows(con)["AAR"]] == [(JOB, "failed")]
    assert benchmark(con) == "HEPscore23:17.5"


@pytest.mark.parametrize("how", ["hook", "spool", "sweep"])
def test_the_vo_of_an_authgroup_is_recorded(
    here: Places, con: sqlite3.Connection, tmp_path: pathlib.Path, how: str
) -> None:
    """Of a real job with a token: by hook, spool and sweep the VO that A-REX 7 recorded; questions find it."""
    (tmp_path / "arc.conf").write_text(
        f"[arex]\ncontroldir = {here.controldir}\n[arex/jura]\n"
        "vomsless_vo = testCA other\nvomsless_vo = tokens dteam.example.org\n"
    )
    here = places(load(str(tmp_path / "arc.conf"), {}))
    control = pathlib.Path(here.controldir)
    job_id = "6a1decfe9869"
    corpus.rebuild(control, corpus.AREX7)
    keep_only(control, job_id)

    if how == "hook":
        record_event(here, read_job(str(control), job_id, "FINISHED"), con)
    elif how == "spool":
        spool.write(here.spool, read_job(str(control), job_id, "FINISHED"))
    sweep(here, con)

    with closing(corpus.arex7_database()) as arex:
        assert corpus.records(con)[job_id][5] == corpus.records(arex)[job_id][5] == "dteam.example.org"
    assert list(questions.job_ids(con, Selection(vos=("dteam.example.org",)))) == [job_id]


def keep_only(control: pathlib.Path, job_id: str) -> None:
    """Let a control directory have but one job."""
    for status in control.glob("*/*.status"):
        if status.name != f"{job_id}.status":
            status.unlink()


def test_the_spool_keeps_the_rule_when_the_files_are_gone(here: Places, con: sqlite3.Connection) -> None:
    """An event of ARC 7 that waited in the spool is still one of ARC 7."""
    control = pathlib.Path(here.controldir)
    lay_hashed(control, Files(diag=TWO_BENCHMARKS))
    spool.write(here.spool, read_job(str(control), JOB, "FINISHED"))
    os.unlink(control / "finished" / f"{JOB}.status")
    for name in ("local", "diag", "statistics"):
        os.unlink(job_file(str(control), JOB, name, hashed=True))

    sweep(here, con)

    assert benchmark(con) == "HEPscore23:17.5"


MAPS = pytest.mark.parametrize(
    ("conf", "kept"),
    [
        pytest.param("", [("email", "a@example.org"), ("username", "ada")], id="default of ARC"),
        pytest.param("authtokenmap = sub:user\n", [("user", "4711")], id="another"),
        pytest.param(
            "authtokenmap = sub:user\nauthtokenmap = wlcg.groups:group, sub:id\n",
            [("group", "/wlcg"), ("group", "/wlcg/a"), ("id", "4711"), ("user", "4711")],
            id="several lines",
        ),
        pytest.param("authtokenmap =\n", [], id="none"),
    ],
)


@MAPS
def test_the_claims_that_the_site_keeps_are_attributes(
    here: Places, con: sqlite3.Connection, tmp_path: pathlib.Path, conf: str, kept: list[tuple[str, str]]
) -> None:
    """Those of authtokenmap under its names, no other, of ARC's default without; the first FQAN stays mainfqan."""
    (tmp_path / "arc.conf").write_text(f"[arex]\ncontroldir = {here.controldir}\n{conf}")
    here = places(load(str(tmp_path / "arc.conf"), {}))
    lay_hashed(pathlib.Path(here.controldir), Files(local=TOKEN))

    sweep(here, con)

    attributes = sorted(row[1:] for row in rows(con)["AuthTokenAttributes"])
    assert attributes == sorted([*kept, ("mainfqan", "/atlas/Role=production"), ("vomsfqan", "/atlas")])


def test_the_hook_of_arc_7_tells_when_a_job_is_in_the_batch_system(here: Places, con: sqlite3.Connection) -> None:
    """ARC 7 has a callout for INLRMS."""
    control = pathlib.Path(here.controldir)
    lay_hashed(control, Files("INLRMS"))

    record_event(here, read_job(str(control), JOB, "INLRMS"), con)

    assert (JOB, "INLRMS") in events(con)


def test_both_layouts_in_one_directory(here: Places, con: sqlite3.Connection) -> None:
    """While a site is being upgraded each job is found where it is, and marks of both kinds are no jobs."""
    control = pathlib.Path(here.controldir)
    lay(control, Files(diag=TWO_BENCHMARKS), "OldJob1")
    lay_hashed(control, Files(diag=TWO_BENCHMARKS), "NewJob1")
    (control / "accepting" / "NewJob1cancel").touch()
    (control / "accepting" / "job.OldJob1.cancel").touch()

    report = sweep(here, con)

    assert (report.jobs, report.found, report.complaints) == (2, {Gap.NEW_JOB: 2}, ())
    assert (benchmark(con, "OldJob1"), benchmark(con, "NewJob1")) == ("HEPSPEC:12.26", "HEPscore23:17.5")


def test_a_job_that_is_upgraded_is_the_same_job(here: Places, con: sqlite3.Connection) -> None:
    """Moving its files makes no second record, and no aborted one, in whatever order they are moved."""
    control = pathlib.Path(here.controldir)
    lay(control, Files("INLRMS", LONG_AGO_NS))
    lay(control, Files("INLRMS", LONG_AGO_NS), JOB)
    sweep(here, con)
    for old in sorted(control.glob(f"job.{JOB}.*")):
        new = pathlib.Path(job_file(str(control), JOB, old.name.rpartition(".")[2], hashed=True))
        new.parent.mkdir(parents=True, exist_ok=True)
        old.rename(new)
        assert sweep(here, con).complaints == ()
        assert read_job(str(control), JOB, "INLRMS").event_ns == LONG_AGO_NS
    upgrade(control, JOB)

    report = sweep(here, con)

    assert (report.jobs, report.recorded, report.complaints) == (2, 0, ())
    assert {row[7] for row in rows(con)["AAR"]} == {"in-progress"}


def test_an_upgrade_changes_no_finished_record(tmp_path: pathlib.Path) -> None:
    """
    The directory of a real A-REX 6, swept, moved to the layout of ARC 7, and swept again: all is read, nothing changes.

    (Seen: two records went from 12.26 to 17.5, since under ARC 7 the last benchmark of .diag counts.)
    """
    control = corpus.rebuild(tmp_path / "control")
    here = corpus.place(control.path)
    with closing(corpus.swept(control)) as con:
        before, log = rows(con), con.execute("SELECT * FROM FinishedLog").fetchall()
        assert any("17.5" in path.read_text() for path in control.path.glob("*.diag"))
        for old in [*control.path.glob("job.*"), *control.path.glob("*/job.*.status")]:
            if old.suffix == ".status":
                # Another inode of the same time.
                shutil.copy2(old, tmp_path / "copy")
                os.replace(tmp_path / "copy", old)
            corpus.move_to_hashed(control.path, old)

        for again in range(2):
            report = sweep(here, con, owner=control.owner)
            assert (report.recorded, report.complaints) == (0, ())
            if not again:
                assert report.looked_at == report.jobs > 30
        assert rows(con) == before
        assert con.execute("SELECT * FROM FinishedLog").fetchall() == log


def test_a_job_that_is_resumed_after_an_upgrade_is_one_of_arc_7(here: Places, con: sqlite3.Connection) -> None:
    """Its next end has the benchmark of ARC 7's rule: that run was measured by ARC 7."""
    control = pathlib.Path(here.controldir)
    lay(control, Files(mtime_ns=LONG_AGO_NS, diag=TWO_BENCHMARKS), JOB)
    sweep(here, con)
    assert benchmark(con) == "HEPSPEC:12.26"
    upgrade(control, JOB)
    sweep(here, con)
    assert benchmark(con) == "HEPSPEC:12.26"
    (control / "finished" / f"{JOB}.status").unlink()

    lay_hashed(control, Files(mtime_ns=LONG_AGO_NS + 10**12, diag=TWO_BENCHMARKS))
    sweep(here, con)

    assert benchmark(con) == "HEPscore23:17.5"
