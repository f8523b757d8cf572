"""`arcacct status` and `arcacct metrics`: each kind of trouble is told from every other."""

from __future__ import annotations

import json
import os
import pathlib
import re
import sqlite3
import stat
import time
from contextlib import closing

import arex_corpus as corpus
import pytest
from attackers import SECRET, relinking, secret_of_root, theirs
from in_process import said
from installed import arcacct
from watched_site import BLOCK, DAY_S, TARGET, samples

from arcacct.arex.sweep import save_sweep
from arcacct.config.parser import load
from arcacct.config.settings import settings
from arcacct.database.access import open_accounting, open_publishing, writing
from arcacct.errors import TargetBusy, TargetRefuses
from arcacct.health import facts
from arcacct.publishing import ledger
from arcacct.targets import kinds


def test_nothing_new_is_well(site) -> None:
    """With nothing to do all is well: exit 0, and the first line says so."""
    done = arcacct("--config", site.conf, "status")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "OK")
    assert "nothing waiting" in done.stdout


def test_a_target_that_is_down_for_two_days(site) -> None:
    """Records have waited for longer than a day: a warning with the target's name and its error."""
    site.update("UPDATE AAR SET EndTime = ? WHERE EndTime > 0", int(time.time()) - 2 * DAY_S)
    site.published(
        seconds_ago=2 * DAY_S + 600, behind=5, error=TargetBusy("https://sgas.example.org/sgas/ur: connection refused")
    )

    found = site.status()

    assert list(found) == ["sgas:s"]
    assert found["sgas:s"].severity == facts.WARNING
    assert "5 records waiting" in found["sgas:s"].text
    assert "connection refused" in found["sgas:s"].text


def test_a_refusal_is_a_warning_at_once(site) -> None:
    """A receiver that is busy may answer in an hour; one that refuses us waits for an administrator."""
    site.published(seconds_ago=600, error=TargetBusy("https://sgas.example.org/sgas/ur: connection refused"))
    assert site.status() == {}

    site.published(seconds_ago=600, error=TargetRefuses("https://sgas.example.org/sgas/ur: HTTP 403"))
    found = site.status()
    assert [(check.subject, check.severity) for check in found.values()] == [("sgas:s", facts.WARNING)]
    assert "last error: https://sgas.example.org/sgas/ur: HTTP 403" in found["sgas:s"].text


def test_corrections_that_the_receiver_has_not_taken(site) -> None:
    """It still has the older version until somebody makes room there: a warning with their number."""
    with closing(open_publishing(site.here)) as con:
        record = ledger.SentRecord("J", 1, 1, 1, b"")
        ledger.record_intent(con, BLOCK, [], [ledger.HeldRecord(record, "correction", "an older version is there")])
    found = site.status()
    assert [(check.subject, check.severity) for check in found.values()] == [("sgas:s quarantine", facts.WARNING)]
    assert found["sgas:s quarantine"].text.startswith("1 correction; see")


def test_a_poisoned_record(site) -> None:
    """A record that the target refuses is a warning of its own, and says how to see it."""
    with closing(open_publishing(site.here)) as con:
        record = ledger.SentRecord("J", 1, 1, 1, b"")
        ledger.record_intent(con, BLOCK, [], [ledger.HeldRecord(record, "quarantined", "bad benchmark")])

    found = site.status()

    assert list(found) == ["sgas:s quarantine"]
    assert found["sgas:s quarantine"].text == "1 quarantined; see `arcacct quarantine list`"


@pytest.mark.parametrize(
    ("days", "severity"), [(0, facts.OK), (2, facts.WARNING), (4, facts.CRITICAL)], ids=["today", "2 days", "4 days"]
)
def test_a_record_that_waits_for_another_try(site, days, severity) -> None:
    """A refusal that no one believes yet is no alarm, but one that lasts for days is; it says when the next try is."""
    with closing(open_publishing(site.here)) as con:
        record = ledger.SentRecord("J", 1, 1, 1, b"")
        ledger.record_intent(
            con, BLOCK, [], [ledger.HeldRecord(record, "held", "rejected by the receiver: HTTP 413", 2**31, 3, 1)]
        )
        con.execute("UPDATE HeldRecords SET Since = Since - ?", (days * DAY_S,))

    done = arcacct("--config", site.conf, "status", "--format", "json")

    said = {check["subject"]: check for check in json.loads(done.stdout)}["sgas:s quarantine"]
    assert said["severity"] == done.returncode == severity
    assert said["text"].startswith("1 rejected, to be tried again from 2038-01-19T03:14:08Z")
    header, line = arcacct("--config", site.conf, "quarantine", "list").stdout.splitlines()
    assert header.split() == ["target", "state", "job", "ended", "reason"]
    assert line.split()[:2] == ["sgas:s", "held"]
    assert line.endswith("rejected by the receiver: HTTP 413; tried again from 2038-01-19T03:14:08Z")


def test_a_sum_that_is_refused_again_and_again(site) -> None:
    """Once may be chance; from the second run on it is a warning that names month and words."""
    with closing(open_publishing(site.here)) as con:
        for run in (1, 2):
            message = ledger.Message(0, "summaries", "publish", None, "https://x", None, "", 1, b"bytes", ())
            (sent,) = ledger.record_intent(con, BLOCK, [message])
            ledger.refused(con, BLOCK, sent, 400, "no such field", [], [(2026, 10)], run)
            found = site.status()
            assert [check.severity for check in found.values()] == ([] if run == 1 else [facts.WARNING])
    assert "2026-10: a record of summaries rejected in 2 runs: no such field" in found["sgas:s sums"].text


@pytest.mark.parametrize(
    ("days", "severity"),
    [(10, facts.WARNING), (0.5, facts.CRITICAL), (-1, facts.CRITICAL)],
    ids=["two weeks", "a day", "expired"],
)
def test_a_certificate_that_expires(site, days, severity) -> None:
    """Two weeks before the end a warning, on the last day and after it critical."""
    site.certificate(days)

    found = site.status()

    assert [(check.subject, check.severity) for check in found.values()] == [("certificate", severity)]


def test_a_spool_that_fills(site) -> None:
    """Events that no one takes out are a warning by their number, critical by their age."""
    os.makedirs(site.here.spool, exist_ok=True)
    for number in range(120):
        with open(f"{site.here.spool}/{number}-FINISHED-J{number}", "w") as file:
            file.write("version=2\n")

    found = site.status()

    assert [(check.subject, check.severity) for check in found.values()] == [("spool", facts.WARNING)]
    os.utime(f"{site.here.spool}/7-FINISHED-J7", (time.time() - 2 * DAY_S,) * 2)
    assert site.status()["spool"].severity == facts.CRITICAL


def test_a_note_of_the_place_that_is_none(site) -> None:
    """It stops every sweep, so it is critical here, and the rest of the screen is told all the same."""
    pathlib.Path(site.here.place_note).write_text("rubbish\n")

    found = site.status()

    assert [(check.subject, check.severity) for check in found.values()] == [("database", facts.CRITICAL)]
    assert site.here.place_note in found["database"].text
    assert site.metrics(74)["arcacct_check", "database"] == facts.CRITICAL


def test_a_job_that_no_one_knows_the_usage_of(site) -> None:
    """A job that has ended, whose files are gone, is a warning with what to do; `job why` and metrics tell it, too."""
    job_id = corpus.names()["multicore"]
    site.update(
        "UPDATE AAR SET (StatusID, EndTime) = ((SELECT ID FROM Status WHERE Name = 'in-progress'), 0) WHERE JobID = ?",
        job_id,
    )
    site.update(
        "UPDATE StatusFiles SET State = 'VANISHED' WHERE RecordID = (SELECT RecordID FROM AAR WHERE JobID = ?)", job_id
    )

    found = site.status()

    assert found["vanished"].severity == facts.WARNING
    assert "1 job ended with unknown usage" in found["vanished"].text
    assert "--give-up JOBID" in found["vanished"].text
    told = arcacct("--config", site.conf, "job", "--only", "why", job_id).stdout
    assert "its files are gone, and its usage is unknown" in told
    assert "arcacct_jobs_on_hold 1.0" in arcacct("--config", site.conf, "metrics").stdout


def test_a_sweep_that_is_dead(site) -> None:
    """No sweep for a day is critical, none at all is a warning; a sweep ends both."""
    site.update("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_LAST_SWEEP'", str(int(time.time()) - DAY_S))
    assert [(check.subject, check.severity) for check in site.status().values()] == [("sweep", facts.CRITICAL)]

    site.update("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_LAST_SWEEP'")
    assert [(check.subject, check.severity) for check in site.status().values()] == [("sweep", facts.WARNING)]

    with closing(open_accounting(site.here)) as con, writing(con, site.here):
        save_sweep(con)
    assert not site.status()


def test_a_database_that_is_locked(site) -> None:
    """Somebody who keeps the database locked for writing is named by the number of the process."""
    with closing(sqlite3.connect(site.here.database, isolation_level=None)) as con:
        con.execute("BEGIN IMMEDIATE")
        con.execute("INSERT INTO Users (Name) VALUES ('x')")
        found = site.status()

    assert list(found) == ["lock"]
    assert f"process {os.getpid()} keeps the database locked" in found["lock"].text


def test_a_database_that_a_rex_writes(site) -> None:
    """Records that none of our programs wrote mean that A-REX writes our file: critical, with the way out."""
    with closing(sqlite3.connect(site.here.database)) as con:
        con.execute(
            "INSERT INTO AAR SELECT NULL, 'from-a-rex', LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID,"
            " ExitCode, SubmitTime, 0, NodeCount, CPUCount, 0, 0, 0, 0, 0, 0, 0, 0 FROM AAR LIMIT 1"
        )
        con.execute(
            "UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress') WHERE JobID = 'from-a-rex'"
        )
        con.commit()
    site.published(seconds_ago=60)

    found = site.status()

    assert list(found) == ["writers"]
    assert "A-REX" in found["writers"].text


def test_a_database_that_is_missing(site) -> None:
    """Without its database the status is critical, and says what brings it back."""
    os.unlink(site.here.database)

    assert "`arcacct db restore FILE`" in site.status()["database"].text


def test_a_configuration_that_cannot_be_read_is_unknown(tmp_path) -> None:
    """The monitoring gets 3 and one line when nothing can be known."""
    done = arcacct("--config", tmp_path / "arc.conf", "status")

    assert done.returncode == 3
    assert done.stdout.startswith("UNKNOWN: ")


def test_a_site_sets_its_limits(site) -> None:
    """What is a warning for one site is nothing for another, and critical for a third; figures tell the same."""
    for limits, severity in (("", facts.OK), ("warn_sweep=30s", 1), ("warn_sweep=1s\ncrit_sweep=30s", 2)):
        site.configure(f"[arcacct]\n{limits}\n{TARGET}")

        assert [(one.subject, one.severity) for one in site.status().values()] == [("sweep", severity)] * bool(severity)
        assert site.metrics()["arcacct_check", "sweep"] == severity
    assert "s;0;29;0 " in arcacct("--config", site.conf, "status", "--format", "nagios").stdout


def test_every_command_judges_a_certificate_by_the_same_limits(site) -> None:
    """Twenty days before its end: a warning by default, and whatever the site sets."""

    def said() -> list[object]:
        checked = arcacct("--config", site.conf, "config", "check").stdout
        doctor = json.loads(arcacct("--config", site.conf, "doctor", "--offline", "--format", "json").stdout)
        found = {check["what"]: check["verdict"] for check in doctor}
        known = {name: check.severity for name, check in site.status().items()}
        assert site.metrics()["arcacct_check", "certificate"] == known.get("certificate", facts.OK)
        return [known.get("certificate"), found["certificate"], "order a new host certificate" in checked]

    site.certificate(20)
    assert said() == [facts.WARNING, "warning", True]
    site.configure(f"[arcacct]\nwarn_certificate=10\n{TARGET}")
    assert said() == [None, "ok", False]
    site.configure(f"[arcacct]\nwarn_certificate=6w\ncrit_certificate=4w\n{TARGET}")
    assert said() == [facts.CRITICAL, "error", True]


def test_obsolete_options_win_over_the_settings(site, tmp_path) -> None:
    """One line says which options replace them, except to a program that reads the answer."""
    site.configure(f"[arcacct]\nwarn_sweep=2h\ncrit_sweep=3h\n{TARGET}")
    given = ("--warn-sweep", "0.01", "--crit-sweep", "9")
    told = "arcacct: --warn-sweep, --crit-sweep: obsolete; set warn_sweep, crit_sweep in [arcacct] of arcacct.conf\n"

    done = arcacct("--config", site.conf, "status", *given)
    assert (done.returncode, "WARNING: last one" in done.stdout, done.stderr) == (1, True, told)
    for form in ("json", "nagios"):
        done = arcacct("--config", site.conf, "status", "--format", form, *given)
        assert (done.returncode, done.stderr) == (1, "")
    done = arcacct("--config", site.conf, "metrics", *given)
    assert (samples(done.stdout)["arcacct_check", "sweep"], done.stderr) == (1, told)
    assert "--warn-sweep" not in arcacct("status", "--help").stdout


def test_reading_is_all_that_is_needed(site) -> None:
    """Neither status nor metrics changes a byte of the databases."""
    paths = [site.here.database, site.here.publishing_database]
    before = [pathlib.Path(path).read_bytes() for path in paths]

    arcacct("--config", site.conf, "status")
    arcacct("--config", site.conf, "metrics")

    assert [pathlib.Path(path).read_bytes() for path in paths] == before


def test_metrics_tell_the_same(site, tmp_path) -> None:
    """Prometheus' own parser reads the file, and finds the severities of status and the ledger's numbers."""
    site.published(seconds_ago=60, behind=3)
    output = tmp_path / "arcacct.prom"

    done = arcacct("--config", site.conf, "metrics", "--output", output)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert oct(output.stat().st_mode & 0o777) == "0o644"
    found = samples(output.read_text())
    assert found["arcacct_target_waiting_records", "sgas:s"] == 3
    assert found["arcacct_check", "database"] == 0
    assert found["arcacct_spool_files",] == 0
    assert found["arcacct_target_last_success_timestamp_seconds", "sgas:s"] > time.time() - 300
    assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["arcacct.prom"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom users attack")
def test_metrics_open_no_file_of_roots(site, public_dir, capfd) -> None:
    """Root writes where the collector's user may write, who puts links into the place of what is being written."""
    secret = secret_of_root(public_dir / "of_root")
    place = theirs(public_dir / "textfiles")
    with relinking(place, secret):
        for _ in range(20):
            said(capfd, "--config", site.conf, "metrics", "--output", place / "arcacct.prom")
    assert secret.read_text() == f"{SECRET}\n"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    done = arcacct("--config", site.conf, "metrics", "--output", place / "arcacct.prom")
    assert (done.returncode, done.stderr) == (0, "")
    assert [(path.name, path.is_file(), path.is_symlink()) for path in place.glob("arcacct*")] == [
        ("arcacct.prom", True, False)
    ]


def test_records_that_lack_something(site) -> None:
    """What was left out is counted for a day, without alarm; a file that was too long is a warning."""

    def cut() -> list[tuple[int, str]]:
        done = arcacct("--config", site.conf, "status", "--format", "json")
        return [(one["severity"], one["text"]) for one in json.loads(done.stdout) if one["subject"] == "cut"]

    see = '; see `arcacct query "SELECT * FROM v1_record_notes"`'
    assert cut() == []

    note = "INSERT INTO TruncationNotes SELECT min(RecordID) + ?, ?, 'x', ? FROM AAR"
    site.update(note, 0, "diag", int(time.time()) - 2 * DAY_S)
    assert cut() == []
    for field in ("transfers", "node_names"):
        site.update(note, 1, field, int(time.time()))
    assert cut() == [(facts.OK, f"1 record of the last day cut, because a file or value was too long{see}")]
    site.update(note, 2, "diag", int(time.time()))
    assert cut() == [
        (
            facts.WARNING,
            (
                "2 records of the last day cut, because a file or value was too long, 1 of them with a file above"
                f" 1 MiB{see}"
            ),
        )
    ]
    assert "arcacct_cut_records 2.0" in arcacct("--config", site.conf, "metrics").stdout


def test_what_the_figures_rest_on_is_said(site) -> None:
    """How many jobs no one measured, and how many have the benchmark that is sent for want of one."""

    def measured() -> str:
        done = arcacct("--config", site.conf, "status", "--format", "json")
        (found,) = [one for one in json.loads(done.stdout) if one["subject"] == "measured"]
        assert found["severity"] == facts.OK
        return found["text"]

    jobs = int(measured().partition(": ")[2].split()[0])
    assert f"wall time of {jobs} measured, CPU time of {jobs}" in measured()
    assert "there are no normalised figures" not in measured()

    site.update("INSERT OR REPLACE INTO FieldSources SELECT min(RecordID), 'cpu_user_s', 'unknown' FROM RecordUsage")
    site.update("UPDATE JobExtraInfo SET InfoValue = 'HEPSPEC:1.0' WHERE InfoKey = 'benchmark'")
    assert f"CPU time of {jobs - 1}, values that were not measured count as 0" in measured()
    assert "no benchmark: no normalised figures, and HEPSPEC 1.0 or the site's default is sent" in measured()
    found = site.metrics()
    assert [found["arcacct_recent_jobs_without", what] for what in ("wall", "cpu", "benchmark")] == [0, 1, jobs]
    assert found["arcacct_recent_jobs",] == jobs


def test_jobs_that_no_one_measured_raise_an_alarm(site) -> None:
    """From ten jobs on, when they are 5 % of all; half of all is critical. Metrics, doctor and plug-in agree."""
    jobs = int(site.metrics()["arcacct_recent_jobs",])

    def unmeasured(count: int) -> None:
        site.update(
            "INSERT OR IGNORE INTO FieldSources SELECT RecordID, 'wall_s', 'unknown' FROM RecordUsage"
            " ORDER BY RecordID LIMIT ?",
            count,
        )

    def alarm(*options: str) -> tuple[int, str]:
        done = arcacct("--config", site.conf, "status", "--format", "json", *options)
        (found,) = [one for one in json.loads(done.stdout) if one["subject"] == "measured"]
        return found["severity"], found["text"]

    unmeasured(9)
    assert alarm()[0] == facts.OK
    unmeasured(10)
    severity, text = alarm()
    assert severity == facts.WARNING
    assert f"wall time of {jobs - 10} measured" in text
    assert "missing_wall_time" in text
    assert alarm("--warn-unmeasured", "90")[0] == facts.OK
    assert site.metrics()["arcacct_check", "measured"] == facts.WARNING
    doctor = arcacct("--config", site.conf, "doctor", "--offline").stdout
    assert any("measured" in line and "warning" in line.lower() for line in doctor.splitlines())
    unmeasured(jobs)
    assert alarm()[0] == facts.CRITICAL
    plug_in = arcacct("--config", site.conf, "status", "--format", "nagios").stdout
    assert "'without wall time'=100%;4;49;0" in plug_in


def test_a_clock_that_is_wrong(site) -> None:
    """Events from the future mean that the clock was set back."""
    site.update("UPDATE JobEvents SET EventTime = datetime('now', '+2 days')")

    assert [(check.subject, check.severity) for check in site.status().values()] == [("clock", facts.CRITICAL)]


def test_a_worker_whose_zone_is_east(site) -> None:
    """A worker writes local time as if it were UTC: what it says of the future says nothing about this host's clock."""
    of_workers = "INSERT INTO JobEvents SELECT RecordID, ?, datetime('now', '+1 hour') FROM AAR WHERE EndTime > 0"
    site.update(of_workers, "LRMSSTART")
    site.update(of_workers, "LRMSEND")

    assert site.status() == {}
    done = arcacct("--config", site.conf, "status", "--format", "json")
    said = {check["subject"]: check["text"] for check in json.loads(done.stdout)}
    assert said["recorder"].endswith("(24 h ago)")


def test_the_settings_are_those_of_the_site(site) -> None:
    """The target of these tests is configured as sites do."""
    assert [target.name for target in settings(load(str(site.conf), {}), kinds()).targets] == ["sgas:s"]


# `arcacct status --format nagios`: what monitoring plug-ins print, read as the guidelines for them say.


DATUM = re.compile(r"'([^'=|]+)'=(-?\d+)(s|B|c|%|)((?:;[\d:~@.-]*){0,4})(?: |$)")
"""``'label'=value[unit];[warning];[critical];[minimum];[maximum]`` (Monitoring Plugins Development Guidelines, 2.6)."""


def _read(text: str) -> tuple[str, dict[str, tuple[int, str, list[str]]]]:
    """The first line before its bar, and the figures behind it; no other line may have a bar."""
    first, *rest = text.splitlines()
    assert not any("|" in line for line in rest)
    words, bar, figures = first.partition(" | ")
    assert bar
    assert DATUM.sub("", figures) == ""
    return words, {
        label: (int(value), unit, limits.split(";")[1:]) for label, value, unit, limits in DATUM.findall(figures)
    }


def _alarms(value: int, limit: str) -> bool:
    """Whether a value is outside of a range, as a monitoring reads it."""
    low, colon, high = limit.rpartition(":")
    return value < float(low or 0) or (value > float(high) if high else not colon)


def test_figures_of_a_site_that_is_well(site) -> None:
    """A verdict with the figures, no threshold reached, and a line for each check."""
    done = arcacct("--config", site.conf, "status", "--format", "nagios")

    words, figures = _read(done.stdout)

    assert done.returncode == facts.OK
    assert words.startswith("OK: ")
    assert {"jobs", "spool", "sweep age", "sgas:s waiting", "sgas:s quarantined", "disk free"} <= {*figures}
    assert not any(_alarms(value, limit) for value, _unit, limits in figures.values() for limit in limits[:2] if limit)
    assert figures["sgas:s late"][1:] == ("s", [str(DAY_S - 1), str(3 * DAY_S - 1), "0"])
    assert figures["disk free"][1:] == ("B", [f"{1024 * 2**20}:", f"{128 * 2**20}:", "0"])


def test_figures_alarm_where_the_checks_do(site) -> None:
    """The thresholds in the figures and the verdict agree, at the limit itself, too."""
    os.makedirs(site.here.spool)
    for number in range(100):
        with open(f"{site.here.spool}/{time.time_ns() + number}-1-FINISHED-J{number}", "w", encoding="utf-8") as file:
            file.write("version=1\n")
    site.certificate(10)

    done = arcacct("--config", site.conf, "status", "--format", "nagios")
    words, figures = _read(done.stdout)

    assert done.returncode == facts.WARNING
    assert words.startswith("WARNING: spool: 100 events, ")
    alarmed = {label for label, (value, _unit, limits) in figures.items() if limits[0] and _alarms(value, limits[0])}
    assert {label.partition(" ")[0] for label in alarmed} == {"spool", "certificate"}
    assert not _alarms(99, figures["spool"][2][0])


def test_what_cannot_be_known_is_one_line_and_3(site) -> None:
    """A broken configuration is UNKNOWN, whatever is written in it."""
    site.configure(f"{TARGET}a | b\nc\n")

    done = arcacct("--config", site.conf, "status", "--format", "nagios")

    assert done.returncode == facts.UNKNOWN
    (line,) = done.stdout.splitlines()
    assert line.startswith("UNKNOWN: ")
    assert "|" not in line
