"""`arcacct republish`, `quarantine` and `job why`, as an operator types them."""

from __future__ import annotations

import functools
import io
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
import rehearsal
from campaigns import cross
from in_process import answer
from rehearsal import NOVEMBER, Site

from arcacct.sandbox import Sandbox

JOB = "rUkNDmRiaoAoOSAtDmABFKDmABFKDmABFKDm86LKDmABFKDmIa4vyn"
PERIOD = ("--from", NOVEMBER[0], "--to", NOVEMBER[1])


@pytest.fixture
def site(tmp_path):
    """A recorded site with running receivers."""
    with Sandbox(str(tmp_path)) as box:
        yield rehearsal.site(tmp_path, box)


@pytest.fixture
def run(site: Site, capsys):
    """Runs a command in this process."""
    return functools.partial(answer, capsys, "--config", site.arc_conf)


def test_plan_sends_nothing(site, run) -> None:
    """--plan says what would be sent to whom, and no one receives anything."""
    code, out, _err = run("republish", *PERIOD, "--plan")

    assert code == 0
    assert "sgas:s: would send 35 ur records in 1 message" in out
    assert "apel:a: would send 35 car records in 1 message" in out
    assert not site.box.sgas.records
    assert not site.box.apel.job_records


def test_republish_shows_the_plan_then_sends(site, run) -> None:
    """Without a terminal nothing is asked: plan and result stand below each other."""
    code, out, _err = run("republish", *PERIOD)

    assert code == 0
    assert out.index("would send 35 ur records") < out.index("sgas:s: sent 35 ur records")
    assert len(site.box.sgas.records) == len(site.box.apel.job_records) == 35


@pytest.mark.parametrize("published", [False, True], ids=["nothing sent before", "all sent before"])
def test_what_is_planned_is_what_is_sent(site, run, published) -> None:
    """Records, sums and sync messages of each target; of SGAS the bytes, too (what goes to AMS is signed besides)."""
    if published:
        assert run("publish", "--now", "--since", NOVEMBER[0])[0] == 0

    _code, out, _err = run("republish", *PERIOD)

    lines = [line.partition(" (")[0] if line.startswith("apel:") else line for line in out.splitlines()]
    planned = [line.replace("would send", "sent") for line in lines if "would send" in line]
    sent = [line for line in lines if " sent " in line]
    assert planned == sent
    assert len(planned) == 3


def test_republish_leaves_the_cursor(site, run) -> None:
    """What was never published is still new after a republish: only the receivers know it already."""
    run("republish", *PERIOD, "--target", "sgas:s")
    code, out, _err = run("republish", *PERIOD, "--target", "s")

    assert code == 0
    assert "sgas:s: sent 35 ur records" in out
    assert site.box.sgas.ignored_repeats == 35


def test_write_to_writes_the_exact_bytes(site, run, tmp_path) -> None:
    """--write-to DIR leaves one file for each message, byte for byte what is posted, and sends nothing."""
    target = tmp_path / "written"
    umask = os.umask(0)
    try:
        code, _out, _err = run("republish", *PERIOD, "--target", "s", "--write-to", str(target))
    finally:
        os.umask(umask)

    assert code == 0
    (file,) = target.iterdir()
    # It has the names of users: for no one else, whatever the umask.
    assert [path.stat().st_mode & 0o777 for path in (target, file)] == [0o700, 0o600]
    assert file.read_bytes().startswith(b"<?xml")
    assert file.read_bytes().count(b"<JobUsageRecord") == 35
    assert not site.box.sgas.records


def test_arcctl_period_ends_with_its_last_second(run) -> None:
    """-b and -e keep arcctl's (from, till]: the job that ended at till counts, the one at from does not."""
    code, out, _err = run("republish", "-b", "1795169299", "-e", "1795169300", "--target", "s", "--plan")

    assert code == 0
    assert "2 ur records" in out  # ended at :300; the one of :299 is left out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param((), "pass a period", id="no period"),
        pytest.param(("--from", "2026-11-02", "--to", "2026-11-01"), "start before it ends", id="backwards"),
        pytest.param(("--from", "tea", "--to", "2026-11-01"), "is not a time", id="no time"),
        pytest.param((*PERIOD, "--target", "nobody"), "sgas:s, apel:a", id="unknown target"),
        pytest.param((*PERIOD, "--apel-topic", "X"), "--apel-topic needs --apel-url", id="option without its URL"),
    ],
)
def test_wrong_options_are_told(run, args, says) -> None:
    """A wrong command line is one clear line and exit code 64."""
    code, _out, err = run("republish", *args)

    assert code == 64
    assert says in err
    assert "Traceback" not in err


def test_an_option_of_a_url_is_judged_as_in_the_configuration(site, run) -> None:
    """The same words for the same mistake."""
    site.configure("")
    code, _out, err = run("republish", *PERIOD, "--sgas-url", site.box.sgas_url, "--urbatchsize", "many")

    assert code == 78
    assert "urbatchsize: 'many' is not a whole number; write only digits, like 3600" in err


def test_a_receiver_of_the_command_line(site, run) -> None:
    """--sgas-url sends to a receiver that is not configured, with the options given."""
    site.configure("")
    code, _out, err = run(
        "republish", *PERIOD, "--sgas-url", site.box.sgas_url, "--localid-prefix", "ce-", "--vofilter", "atlas"
    )

    assert (code, err.count("Traceback")) == (0, 0)
    assert {row.local_job_id[:3] for row in site.box.sgas.records.values()} == {"ce-"}
    assert len(site.box.sgas.records) == 5


def test_the_prefix_of_an_apel_of_the_command_line(site, run, tmp_path) -> None:
    """--apel-url takes the prefix of job ids too."""
    site.configure("")
    code, _out, err = run(
        "republish", *PERIOD, "--apel-url", site.box.ams_url, "--gocdb-name", "SITE", "--apel-messages", "individual",
        "--localid-prefix", "ce-", "--write-to", str(tmp_path / "out"),
    )  # fmt: skip

    assert (code, err.count("Traceback")) == (0, 0)
    texts = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    ids = [line for text in texts for line in text.splitlines() if line.startswith("LocalJobId: ")]
    assert len(ids) == 35
    # The other five never got as far as the batch system.
    assert sum(line.startswith("LocalJobId: ce-") for line in ids) == 30


def test_why_tells_the_whole_story(site, run) -> None:
    """Job why names files, events, and each message that carried the job, with its answer."""
    run("publish", "--since", "2026-11-01")
    code, out, _err = run("job", "--only", "why", JOB[:6])

    assert code == 0
    assert f"job {JOB}" in out
    assert "finished/job." in out
    assert "ACCEPTED" in out
    # Both are sent to side by side: whoever starts first has the first number.
    assert re.search(r"sgas:s: message [12] \(ur, publish\)", out)
    assert "accepted with HTTP 200" in out
    assert "apel:a: message" in out


def test_why_says_why_not(site, run) -> None:
    """A job that was not sent has a reason for each target."""
    site.configure(rehearsal.SGAS_AND_CARS.replace("[arex/jura/apel", "vofilter=atlas\n[arex/jura/apel"))
    run("publish", "--since", "2026-11-01", "--target", "s")
    _code, out, _err = run("job", "--only", "why", JOB)

    assert "sgas:s: not sent: its VO is not selected by the target (vofilter=atlas)" in out
    assert "apel:a: not sent: nothing was published to this target yet" in out


def test_quarantine_names_retries_and_drops(site, run) -> None:
    """A record that the receiver refuses is listed with its words, sent again on request, or never."""
    site.box.faults.answer("sgas", 500, "value too long for type character varying(200)", times=None, containing=JOB)
    code, out, err = run("publish", "--since", "2026-11-01", "--target", "s")
    assert code == 75
    assert "1 record rejected, to be tried again" in out
    assert JOB in err
    assert len(site.box.sgas.records) == 34
    assert " held " in run("quarantine", "list")[1]

    code, out, err = run("publish", "--now", "--target", "s")
    assert code == 65
    assert "1 record quarantined" in out
    assert JOB in err

    code, out, _err = run("quarantine", "list", "--format", "json")
    assert [(one["job_id"], one["state"]) for one in json.loads(out)] == [(JOB, "quarantined")]
    assert "value too long" in run("quarantine", "show", JOB)[1]
    assert "quarantined" in run("job", "--only", "why", JOB)[1]

    site.box.faults.clear()
    assert run("quarantine", "retry", JOB)[0] == 0
    assert run("publish", "--now", "--target", "s")[0] == 0
    assert len(site.box.sgas.records) == 35
    assert run("quarantine", "list")[1] == ""


def test_dropped_records_are_never_sent(site, run) -> None:
    """Drop is permanently: the next runs do not send the record, and it stays listed."""
    site.box.faults.answer("sgas", 500, "smallint out of range", times=None, containing=JOB)
    run("publish", "--since", "2026-11-01", "--target", "s")
    run("quarantine", "drop", JOB)
    site.box.faults.clear()
    run("publish", "--now", "--target", "s")

    assert len(site.box.sgas.records) == 34
    assert "dropped" in run("quarantine", "list")[1]


def test_all_are_dropped_only_when_asked_or_told(site, run, monkeypatch) -> None:
    """Without a terminal no one can be asked, so nothing is dropped; with --yes all are."""
    site.box.faults.answer("sgas", 500, "smallint out of range", times=None, containing=JOB)
    run("publish", "--since", "2026-11-01", "--target", "s")
    run("publish", "--now", "--target", "s")

    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, _out, err = run("quarantine", "drop", "--all")
    assert (code, "that is quarantined, for all targets? not a terminal" in err) == (64, True)
    assert "quarantined" in run("quarantine", "list")[1]
    assert run("quarantine", "drop", "--all", "--target", "sgas:s", "--yes")[:2] == (0, "1 record: dropped\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files to a group")
def test_a_group_can_read_after_publishing(site, run) -> None:
    """With read_group the files that readers without write access need stay when a publish has ended."""
    site.configure("[arcacct]\nread_group=daemon\n" + rehearsal.SGAS_AND_CARS)
    program = [sys.executable, "-c", "import sys; from arcacct.cli.main import main; main(sys.argv[1:])"]
    subprocess.run([*program, "--config", site.arc_conf, "publish", "--since", "2026-11-01"], check=True)

    ours = site.path / "control" / "accounting" / "arcacct"
    left = {file.name for file in ours.iterdir()}
    assert {"accounting.db-wal", "accounting.db-shm", "publishing.db-wal", "publishing.db-shm"} <= left


def test_a_spool_that_cannot_be_read_is_reported(site, run) -> None:
    """It is not taken for an empty one; what is recorded is published."""
    pathlib.Path(site.path, "control", "accounting", "arcacct", "spool").write_text("not a directory")

    code, _out, err = run("publish", "--now")

    assert code == 65
    assert "accounting/arcacct/spool: cannot read the spool: Not a directory" in err
    assert site.box.sgas.records


@pytest.mark.parametrize("command", [("publish", "--now"), ("republish", *PERIOD)], ids=["publish", "republish"])
def test_unusable_files_of_the_spool_are_reported(site, run, command) -> None:
    """Publishing drains the spool; what it cannot use it names as the sweep would, since no sweep finds it again."""
    spool = os.path.join(site.path, "control", "accounting", "arcacct", "spool")
    os.makedirs(spool, exist_ok=True)
    with open(os.path.join(spool, "1-2-SUBMIT-Unknown"), "w", encoding="ascii") as file:
        file.write("version=99\n")

    code, _out, err = run(*command)

    assert code == 65
    assert "spool/unusable/1-2-SUBMIT-Unknown: " in err
    assert "spool version=99" in err
    assert run(*command)[0] == 0


SUMS = "[arex/jura/apel:a]\ntargeturl={ams}\nauthn_port={authn}\ngocdb_name=SITE\napel_messages=summaries\n"


def test_what_the_plan_said_is_not_said_again(site, run) -> None:
    """No target, a new target, and a month on hold are each said once."""
    site.configure(SUMS)
    with closing(sqlite3.connect(site.settings().places.database)) as con, con:
        con.execute("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", (int(time.time()),))
    code, _out, err = run("republish", *PERIOD, "--yes")
    assert (code, err.count("2026-11 is held"), err.count("new target")) == (69, 1, 1)
    assert "`arcacct publish` sends jobs that ended since" in err
    site.configure("")
    code, _out, err = run("republish", *PERIOD, "--yes")
    assert (code, err.count("no targets are configured")) == (0, 1)


def test_the_end_of_a_month_is_not_the_next_month(site, run) -> None:
    """Arcctl's -e includes its second: the next month is concerned only beyond its first second."""
    site.configure(SUMS)
    year, month = time.gmtime()[:2]
    following = f"{year + month // 12:04d}-{month % 12 + 1:02d}"
    for second, is_concerned in (("00", False), ("01", True)):
        _code, _out, err = run("republish", "-b", "2026-11-01", "-e", f"{following}-01T00:00:{second}", "--plan")
        assert (f"{following}: is in the future" in err) == is_concerned


EMPTY = {
    "a month before": ("--from", "2025-03-01", "--to", "2025-04-01"),
    "an hour without jobs": ("--from", "2026-11-02T01:00", "--to", "2026-11-02T02:00"),
    "in the future": ("--from", "2098-12-15", "--to", "2099-02-01"),
    "arcctl's words": ("-b", "2025-03-01", "-e", "2025-04-01"),
}


@pytest.mark.parametrize(("period", "targets"), cross(4, [*EMPTY.values()], [rehearsal.SGAS_AND_CARS, SUMS]))
def test_a_period_without_jobs_sends_nothing(site, run, targets, period) -> None:
    """No sync message of another month either. Only sums are of whole months, however short the period."""
    site.configure(targets)
    assert run("publish", "--now", "--since", NOVEMBER[0])[0] == 0
    received = len(site.box.apel.received)
    whole_month = targets == SUMS and "2026-11-02T01:00" in period

    for options in (("--plan",), ()):
        code, out, err = run("republish", *period, *options)

        assert code == 0
        assert ("would send" in out, "nothing to send" in out) == (whole_month, not whole_month), out
        assert "send this?" not in err
    assert len(site.box.apel.received) == received + 2 * whole_month
    assert site.box.sgas.ignored_repeats == 0


def test_a_period_with_jobs_of_others_sends_them_nothing(site, run) -> None:
    """A target whose vofilter selects no job of the period: the other one gets them again."""
    site.configure(rehearsal.SGAS_AND_CARS + "vofilter=nosuchvo\n")
    assert run("publish", "--now", "--since", NOVEMBER[0])[0] == 0
    received = len(site.box.apel.received)

    code, out, _err = run("republish", *PERIOD)

    assert code == 0
    assert "sgas:s: sent 35 ur records" in out
    assert "apel:a: nothing to send" in out
    assert (len(site.box.apel.received), site.box.sgas.ignored_repeats) == (received, 35)
