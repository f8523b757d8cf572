"""
Where we differ from A-REX on purpose: a line of the manual's table of differences for each test here.

Each test shows what A-REX wrote and what we write for the same job; `test_parity.py` shows that the rest is equal.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

import arex_corpus as corpus
import pytest

from arcacct.arex.control_files import read_job
from arcacct.arex.sweep import record_event, sweep
from arcacct.database.access import open_accounting

ID = corpus.names()
STATUS, EXIT_CODE, SUBMIT_TIME, END_TIME, STAGE_OUT = 6, 7, 8, 9, 19
"""Positions in a row of `corpus.records`."""
HOOKED = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")


@pytest.fixture(scope="module")
def arex() -> Iterator[sqlite3.Connection]:
    """What A-REX recorded."""
    with closing(corpus.arex_database()) as con:
        yield con


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Our database after one sweep."""
    control = corpus.rebuild(tmp_path_factory.mktemp("swept") / "control")
    with closing(corpus.swept(control)) as con:
        yield con


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Our database after every hook call."""
    control = corpus.Control(tmp_path_factory.mktemp("replayed"), {})
    with closing(corpus.replayed(control)) as con:
        yield con


@pytest.fixture(params=["swept", "replayed"])
def ours(request: pytest.FixtureRequest) -> sqlite3.Connection:
    """Our database, by sweep and by replay."""
    found: sqlite3.Connection = request.getfixturevalue(request.param)
    return found


def events(con: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
    """The events of a case."""
    return corpus.children(con, "JobEvents")[ID[name]]


def keys(con: sqlite3.Connection, name: str) -> Counter[object]:
    """How often each event of a case is there."""
    return Counter(key for key, _when in events(con, name))


def seconds(text: object) -> int:
    """An event time, read as UTC."""
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())


def time_of(con: sqlite3.Connection, name: str, key: str) -> int:
    """The one time of an event."""
    (when,) = [when for found, when in events(con, name) if found == key]
    return seconds(when)


INDIA_S = 19_800
"""The zone of the A-REX that ran job `tz`: five and a half hours before UTC."""


@pytest.mark.parametrize("key", ["ACCEPTED", "FINISHED", "DTRDOWNLOADSTART", "DTRDOWNLOADEND", "LRMSSTART", "LRMSEND"])
def test_event_times_are_utc(arex, ours, key) -> None:
    """A-REX writes JobEvents in the zone of its host without saying which; we write UTC."""
    assert time_of(arex, "tz", key) - time_of(ours, "tz", key) == INDIA_S
    if key == "FINISHED":
        assert time_of(ours, "tz", key) == corpus.records(ours)[ID["tz"]][END_TIME]
    if key == "ACCEPTED":
        assert time_of(ours, "tz", key) == corpus.records(ours)[ID["tz"]][SUBMIT_TIME]


@pytest.mark.parametrize("name", sorted(set(ID) - {"tz", "hookexp-sleep-SUBMIT", "hookexp-fail-ACCEPTED"}))
def test_an_event_is_when_its_state_began(arex, replayed, name) -> None:
    """A-REX takes the time after its callouts; ours is the status file's, so never later and here a second earlier."""
    theirs = {str(key): seconds(when) for key, when in reversed(events(arex, name))}
    found = {str(key): seconds(when) for key, when in reversed(events(replayed, name))}
    both = [key for key in HOOKED if key in theirs and key in found]

    assert "ACCEPTED" in both or name == "internal"
    assert {theirs[key] - found[key] for key in both} <= {0, 1}


def test_a_callout_that_sleeps_does_not_move_the_event(arex, replayed) -> None:
    """Job hookexp-sleep-SUBMIT: A-REX's row is six seconds late, when the callout was killed."""
    assert time_of(arex, "hookexp-sleep-SUBMIT", "SUBMIT") - time_of(replayed, "hookexp-sleep-SUBMIT", "SUBMIT") == 6


@pytest.mark.parametrize("table", ["RunTimeEnvironments", "DataTransfers", "JobExtraInfo"])
def test_a_resumed_job_has_its_children_once(arex, ours, table) -> None:
    """Job flaky was resumed: A-REX wrote its children at both ends; we keep those of the last."""
    theirs, found = corpus.children(arex, table)[ID["flaky"]], corpus.children(ours, table)[ID["flaky"]]

    assert max(Counter(theirs).values()) == 2
    assert set(Counter(found).values()) == {1}
    assert set(found) <= set(theirs)
    if table != "DataTransfers":
        assert set(found) == set(theirs)


def test_an_event_is_there_once(arex, replayed) -> None:
    """A-REX repeats a resumed job's batch-system and transfer events with the same times; we have each time once."""
    assert max(Counter(events(arex, "flaky")).values()) == 2
    assert set(Counter(events(replayed, "flaky")).values()) == {1}
    assert set(events(arex, "flaky")) - set(events(replayed, "flaky")) == {
        event for event in events(arex, "flaky") if event[0] == "INLRMS"
    }


def test_a_restart_does_not_multiply(arex, ours) -> None:
    """Job hookexp-fail-FINISHING was ended again at each restart: A-REX has three copies of every child, we none."""
    theirs = corpus.children(arex, "JobExtraInfo")[ID["hookexp-fail-FINISHING"]]

    assert set(Counter(theirs).values()) == {3}
    assert corpus.children(ours, "JobExtraInfo")[ID["hookexp-fail-FINISHING"]] == []


def test_urls_with_commas_are_whole(arex, ours) -> None:
    """Job oddurl: A-REX cuts URLs at the first comma and believes the fields that the URL itself contains."""
    url = "http://ce.example.org:8080"
    theirs = [(row[0], row[4]) for row in corpus.children(arex, "DataTransfers")[ID["oddurl"]]]
    found = [(row[0], row[4]) for row in corpus.children(ours, "DataTransfers")[ID["oddurl"]]]

    assert theirs == [(f"{url}/a", 10), (f"{url}/put/o", 11)]
    assert found == [(f"{url}/a,b=c d.dat?x=1&y=2,size=3", 10), (f"{url}/put/o,d=d.dat?k=v,fromcache=yes", 20)]


def test_volumes_of_urls_with_commas_count(arex, ours) -> None:
    """Job oddurl: the upload that A-REX takes for a cached input is counted as staged out; the rest is equal."""
    theirs, found = corpus.records(arex)[ID["oddurl"]], corpus.records(ours)[ID["oddurl"]]

    assert (theirs[STAGE_OUT], found[STAGE_OUT]) == (0, 77)
    assert theirs[:STAGE_OUT] == found[:STAGE_OUT]


def test_the_internal_job_is_recorded(arex, ours) -> None:
    """A job submitted through the INTERNAL interface is lost to A-REX: no user, no status, no end. We have them all."""
    theirs, found = corpus.records(arex)[ID["internal"]], corpus.records(ours)[ID["internal"]]

    assert theirs == ("", "", "", "", "", "", "", 1, 0, 0, 1, 1, *[0] * 8)
    assert found[:EXIT_CODE] == (
        "", "org.nordugrid.internal", "", "fork", "/DC=org/DC=nordugrid/DC=ARC/O=TestCA/CN=Grid User One", "", "failed",
    )  # fmt: skip
    assert found[SUBMIT_TIME] == 1795169350
    assert found[END_TIME] == 1795169361
    assert corpus.children(arex, "JobExtraInfo")[ID["internal"]] == []
    assert ("jobname", "via INTERNAL") in corpus.children(ours, "JobExtraInfo")[ID["internal"]]


def test_a_job_that_is_finishing_has_not_ended(arex, ours) -> None:
    """Job hookexp-fail-FINISHING: A-REX accounts it as failed though it is stuck in FINISHING; we go by its state."""
    theirs = corpus.records(arex)[ID["hookexp-fail-FINISHING"]]
    found = corpus.records(ours)[ID["hookexp-fail-FINISHING"]]

    assert (theirs[STATUS], theirs[END_TIME] > 0) == ("failed", True)
    assert (found[STATUS], found[END_TIME]) == ("in-progress", 0)
    assert "FINISHED" in keys(arex, "hookexp-fail-FINISHING")
    assert "FINISHED" not in keys(ours, "hookexp-fail-FINISHING")


def test_a_refused_job_is_known_to_the_hook_alone(arex, swept, replayed) -> None:
    """A submission that a callout refuses leaves nothing at A-REX; our hook, asked before, has it in progress."""
    (refused,) = set(corpus.records(replayed)) - set(corpus.records(arex))

    assert refused not in corpus.records(swept)
    assert corpus.records(replayed)[refused][STATUS] == "in-progress"
    assert [key for key, _when in corpus.children(replayed, "JobEvents")[refused]] == ["ACCEPTED"]
    logged = "SELECT count(*) FROM FinishedLog JOIN AAR USING (RecordID) WHERE JobID = ?"
    assert replayed.execute(logged, (refused,)).fetchone() == (0,)


def test_failed_by_a_later_callout_is_learnt_by_the_sweep(arex, swept, replayed) -> None:
    """Job hookexp-fail-FINISHED: .failed is written after our hook, which says completed; the sweep corrects it."""
    theirs = corpus.records(arex)[ID["hookexp-fail-FINISHED"]]

    assert theirs[STATUS] == "failed"
    assert corpus.records(replayed)[ID["hookexp-fail-FINISHED"]] == (*theirs[:STATUS], "completed", *theirs[EXIT_CODE:])
    assert corpus.records(swept)[ID["hookexp-fail-FINISHED"]] == theirs


def test_a_project_of_a_later_callout_is_learnt_by_the_sweep(arex, swept, replayed) -> None:
    """Job project: a callout after ours adds projectname to .local; the sweep that comes in time records it."""
    row = ("projectname", "PROJ-1")

    assert row in corpus.children(arex, "JobExtraInfo")[ID["project"]]
    assert row not in corpus.children(replayed, "JobExtraInfo")[ID["project"]]
    assert row in corpus.children(swept, "JobExtraInfo")[ID["project"]]


def test_a_sweep_after_the_hooks_makes_both_whole(arex, tmp_path) -> None:
    """Hooks and then a sweep, as a site runs them: all events that have a hook, and every value as A-REX has it."""
    control = corpus.Control(tmp_path, {})
    with closing(corpus.replayed(control)) as con:
        corrected = corpus.rebuild(tmp_path)
        report = sweep(corpus.place(tmp_path), con, owner=_owner(control, corrected))

        theirs, found = corpus.records(arex), corpus.records(con)
        differ = {ID[name] for name in ("internal", "hookexp-fail-FINISHING", "oddurl")}
        assert report.complaints == ()
        assert {job_id: found[job_id] for job_id in theirs if job_id not in differ} == {
            job_id: row for job_id, row in theirs.items() if job_id not in differ
        }
        extra, expected = corpus.children(con, "JobExtraInfo"), corpus.children(arex, "JobExtraInfo")
        assert all(set(extra[job_id]) == set(expected[job_id]) for job_id in theirs if job_id not in differ)
        assert keys(con, "ok") == Counter([*HOOKED, "LRMSSTART", "LRMSEND"])
        # Each record is in the log once, however often it was corrected.
        assert con.execute("SELECT count(*) = count(DISTINCT RecordID) FROM FinishedLog").fetchone() == (1,)


def _owner(*controls):
    """Owners of files of both layouts."""
    return lambda stat: next(one.owners[stat.st_ino] for one in reversed(controls) if stat.st_ino in one.owners)


@pytest.mark.parametrize("key", ["INLRMS", "CANCELING"])
def test_states_without_a_hook_have_no_event(arex, swept, replayed, key) -> None:
    """ARC 6 calls no hook for INLRMS and CANCELING: their rows are missing unless a sweep meets the job there."""
    assert any(key in keys(arex, name) for name in ID if ID[name])
    assert not any(key in keys(con, name) for con in (swept, replayed) for name in ID if ID[name])


def test_a_sweep_meets_a_job_in_the_batch_system(tmp_path) -> None:
    """A job that is INLRMS when the sweep comes gets that event, with the time of its status file."""
    control = corpus.rebuild(tmp_path / "control")
    job = ID["ok"]
    for file in control.path.glob(f"finished/job.{job}.status"):
        file.unlink()
    status = control.path / "processing" / f"job.{job}.status"
    status.write_text("INLRMS")
    os.utime(status, (1795169287, 1795169287))
    with closing(corpus.swept(control)) as con:
        assert time_of(con, "ok", "INLRMS") == 1795169287
        assert corpus.records(con)[job][STATUS] == "in-progress"


def test_a_sweep_knows_the_last_state_only(arex, swept) -> None:
    """What no hook told is gone: a job found by the sweep has no PREPARING, SUBMIT, FINISHING and no earlier end."""
    assert {"PREPARING", "SUBMIT", "FINISHING"} <= set(keys(arex, "ok"))
    assert set(keys(swept, "ok")) == {"ACCEPTED", "FINISHED", "LRMSSTART", "LRMSEND"}
    assert keys(arex, "flaky")["FINISHED"] == 2
    assert keys(swept, "flaky")["FINISHED"] == 1


def test_a_submit_that_a_callout_refused_is_a_submit(arex, replayed) -> None:
    """Job hookexp-fail-SUBMIT: A-REX writes the row under the state it continues to; our hook was called for SUBMIT."""
    assert keys(arex, "hookexp-fail-SUBMIT") == Counter(["ACCEPTED", "PREPARING", "FINISHING", "FINISHED"])
    assert keys(replayed, "hookexp-fail-SUBMIT") == Counter(["ACCEPTED", "PREPARING", "SUBMIT", "FINISHED"])
    assert time_of(arex, "hookexp-fail-SUBMIT", "FINISHING") == time_of(replayed, "hookexp-fail-SUBMIT", "SUBMIT")


def test_a_restart_in_the_batch_system_is_no_event(arex, replayed) -> None:
    """Job restarted: A-REX writes INLRMS again when it starts again, without a hook."""
    assert keys(arex, "restarted")["INLRMS"] == 2
    assert keys(replayed, "restarted")["INLRMS"] == 0


def test_the_statuses_are_there_from_the_beginning(arex, ours) -> None:
    """A-REX adds statuses as they come up, the empty one too; ours has all four, `aborted` among them, and no other."""
    query = "SELECT Name FROM Status ORDER BY ID"

    assert [name for (name,) in arex.execute(query)] == ["in-progress", "completed", "failed", ""]
    assert [name for (name,) in ours.execute(query)] == ["in-progress", "completed", "failed", "aborted"]


def test_our_database_has_more_tables_and_no_other_columns(arex, ours) -> None:
    """A-REX's tables have A-REX's columns in A-REX's order; what we need next to them is in tables of our own."""

    def tables(con: sqlite3.Connection) -> dict[str, list[str]]:
        found = [name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [name for (name,) in con.execute(f"SELECT name FROM pragma_table_info('{table}') ORDER BY cid")]
            for table in found
            if not table.startswith("sqlite_")
        }

    theirs, found = tables(arex), tables(ours)
    assert {table: found[table] for table in theirs} == theirs
    assert {"FinishedLog", "StatusFiles", "Fence"} <= set(found) - set(theirs)


def test_the_version_of_arex_schema_stays(arex, ours) -> None:
    """DBSCHEMA_VERSION is A-REX's own; the mark that the file is ours stands next to it."""
    theirs, found = dict(arex.execute("SELECT * FROM DBConfig")), dict(ours.execute("SELECT * FROM DBConfig"))

    assert found.items() >= theirs.items()
    assert "ARCACCT_SCHEMA" in found


def test_the_same_hook_call_twice_is_one(tmp_path) -> None:
    """ACCEPTED fires twice for each job, and any callout may be repeated: the second changes nothing."""
    control = corpus.Control(tmp_path, {})
    here = corpus.place(control.path)
    with closing(open_accounting(here)) as con:
        for call in corpus.hook_calls()[:60]:
            corpus.lay_out(call, control)
            files = read_job(here.controldir, call.job_id, call.state, control.owner)
            record_event(here, files, con)
            before = con.total_changes

            assert record_event(here, files, con) == "", call
            assert con.total_changes == before
