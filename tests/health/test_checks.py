"""Whatever is wrong, neither `status` nor the file of `metrics` says that all is well: one test for each such case."""

from __future__ import annotations

import os
import pathlib
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest
from full_disk import on_small_disk
from in_process import said
from installed import ARCACCT, arcacct
from job_files import Files, lay
from other_users import acting_as
from watched_site import BLOCK, DAY_S, TARGET, samples

from arcacct.arex.resident import RecorderLock
from arcacct.arex.spool import Spooled, look, saved_status
from arcacct.config.parser import load
from arcacct.config.settings import settings
from arcacct.database import connection
from arcacct.database.access import open_publishing, read_accounting
from arcacct.database.durable import MaintenanceEntry
from arcacct.health import checks as health_checks
from arcacct.health import facts
from arcacct.publishing import ledger
from arcacct.publishing.target_months import HeldMonth
from arcacct.targets import kinds

ETC = pathlib.Path(__file__).parents[2] / "etc"

REPUBLISH = ["republish", "--from", "2026-10-01", "--to", "2026-11-01", "--plan"]
FLAGS = {"arcacct_config_ok", "arcacct_database_ok", "arcacct_metrics_written_timestamp_seconds", "arcacct_build_info"}


def test_a_site_that_is_well(site) -> None:
    """All flags are up, and the file says when it was written."""
    before = int(time.time())
    found = site.metrics()

    assert site.status() == {}
    assert (found["arcacct_config_ok",], found["arcacct_database_ok",]) == (1, 1)
    assert before <= found["arcacct_metrics_written_timestamp_seconds",] <= time.time()
    assert {severity for (name, *_), severity in found.items() if name == "arcacct_check"} == {facts.OK}


def test_a_configuration_that_is_broken(site) -> None:
    """The file that said that all is well is replaced by one that says that nothing is known; the exit code is 78."""
    site.metrics()
    site.configure(f"{TARGET}no such line\n")

    found = site.metrics(78)

    assert {name for name, *_ in found} == FLAGS | {"arcacct_check"}
    assert (found["arcacct_config_ok",], found["arcacct_database_ok",]) == (0, 0)
    assert found["arcacct_check", "configuration"] == facts.UNKNOWN
    assert arcacct("--config", site.conf, "status").returncode == facts.UNKNOWN


def test_a_configuration_that_is_away(tmp_path) -> None:
    """Without any, metrics are written all the same, also to stdout."""
    done = arcacct("--config", tmp_path / "arc.conf", "metrics")

    assert done.returncode == 78
    assert samples(done.stdout)["arcacct_config_ok",] == 0


def test_an_error_of_our_own(site, monkeypatch, capfd) -> None:
    """Whatever fails, the file is written, and the error is told."""

    def broken(_settings: object) -> facts.Health:
        raise ZeroDivisionError

    monkeypatch.setattr(facts, "examine", broken)
    # What other tests of this process have opened, and damaged, is not to blame.
    monkeypatch.setattr(connection, "opened", {})
    output = site.conf.parent / "arcacct.prom"
    done = said(capfd, "--config", site.conf, "metrics", "--output", output)

    assert done.returncode == 70
    assert samples(output.read_text())["arcacct_database_ok",] == 0


def _gone(site) -> None:
    os.unlink(site.here.database)


def _moved(site) -> None:
    os.rename(site.here.directory, f"{site.here.directory}.elsewhere")


def _emptied(site) -> None:
    _moved(site)
    os.mkdir(site.here.directory)


def _not_mounted(site) -> None:
    shutil.rmtree(site.here.controldir)
    os.mkdir(site.here.controldir)


def _a_directory(site) -> None:
    _gone(site)
    os.mkdir(site.here.database)


def _damaged(site) -> None:
    for tail in ("", "-wal"):
        with open(site.here.database + tail, "wb") as file:
            file.write(b"no database" * 1000)


@pytest.mark.parametrize("spoil", [_gone, _moved, _emptied, _not_mounted, _a_directory, _damaged])
def test_a_database_that_cannot_be_read(site, spoil) -> None:
    """Gone, moved, not mounted, or damaged: critical, and a flag is down; what is known stays."""
    before = site.metrics()
    spoil(site)

    found = site.metrics(74)

    assert site.status()["database"].severity == facts.CRITICAL
    assert (found["arcacct_config_ok",], found["arcacct_database_ok",]) == (1, 0)
    assert found["arcacct_check", "database"] == facts.CRITICAL
    assert ("arcacct_jobs",) in before
    assert ("arcacct_jobs",) not in found
    assert {name for name, *_ in found} >= {"arcacct_spool_known", "arcacct_certificate_not_after_timestamp_seconds"}
    # Without the directory that it would be in, a spool is not empty but unknown.
    assert (("arcacct_spool_files",) in found) == os.path.isdir(site.here.directory)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_database_that_every_writing_command_refuses(site, is_there) -> None:
    """`database=` names another one than the note of the control directory: critical, in the words of a sweep."""
    other = site.conf.parent / "other"
    shutil.copytree(site.here.directory, other)
    assert arcacct("--config", site.conf, "db", "snapshot", other / "snapshot").returncode == 0
    if not is_there:
        os.rename(site.here.directory, f"{site.here.directory}.gone")
        with closing(sqlite3.connect(other / "accounting.db")) as con, con:
            con.execute("UPDATE DBConfig SET KeyValue = 'another' WHERE KeyName = 'ARCACCT_INCARNATION'")
            con.execute("DELETE FROM DBConfig WHERE KeyName LIKE 'ARCACCT_%INCARNATIONS'")
    site.configure(f"[arcacct]\ndatabase={other}/accounting.db\n{TARGET}")
    swept = arcacct("--config", site.conf, "sweep")

    found = site.metrics(74)

    assert swept.returncode == 78
    told = site.status()["database"]
    assert told.severity == facts.CRITICAL
    assert told.text.partition(";")[0] in swept.stderr
    assert found["arcacct_check", "database"] == facts.CRITICAL
    # What can be read is known all the same.
    assert ("arcacct_jobs",) in found
    # A snapshot for readers is no database of the control directory, and is only read.
    of_readers = arcacct("--config", site.conf, "--database", other / "snapshot" / "accounting.db", "status")
    assert f"{other}/snapshot/accounting.db: " in of_readers.stdout
    assert "database" not in of_readers.stdout.splitlines()[0]


def test_a_ledger_that_cannot_be_read(site) -> None:
    """publishing.db is half of what is known: without it nothing is said of targets, and that is said."""
    with open(site.here.publishing_database, "r+b") as file:
        file.write(b"no database")

    found = site.metrics(74)

    assert site.here.publishing_database in site.status()["database"].text
    assert found["arcacct_database_ok",] == 0


def test_no_target(site) -> None:
    """Nothing is published, and no one may have noticed; who means it says so in the configuration."""
    site.configure("")
    found = site.status()
    assert found["targets"].severity == facts.WARNING
    assert site.metrics()["arcacct_targets",] == 0

    site.configure("[arcacct]\npublishes=no\n")
    assert site.status() == {}
    assert site.metrics()["arcacct_publishes",] == 0


def test_jura_still_publishes(site) -> None:
    """A state of its own: neither well nor unknown; the commands that ask work, and those that send refuse."""
    with open(site.conf, "a", encoding="utf-8") as file:
        file.write(f"[arex/jura]\n{TARGET}")
    site.configure("")

    found = site.status()

    assert [(check.subject, check.severity) for check in found.values()] == [("jura", facts.CRITICAL)]
    assert "[arex/jura/sgas:s]: is a target of A-REX's jura-ng, which would publish in addition" in found["jura"].text
    assert site.metrics()["arcacct_jura_targets",] == 1
    job = arcacct("--config", site.conf, "query", "--format", "csv", "SELECT job_id FROM v1_jobs LIMIT 1")
    (job_id,) = job.stdout.splitlines()[1:]
    for command in (
        ["job", "--only", "why", job_id],
        ["quarantine", "list", "--target", "sgas:s"],
        ["verify", "2026-10"],
    ):
        done = arcacct("--config", site.conf, *command)
        assert done.returncode in (0, 1), done.stderr
        assert "jura-ng" not in done.stderr
    for command in (["publish"], ["publish", "--dry-run"], REPUBLISH, ["switch", "--yes"]):
        done = arcacct("--config", site.conf, *command)
        assert (done.returncode, done.stdout) == (78, "")
        assert "would publish in addition to arcacct" in done.stderr

    site.configure("[arcacct]\npublishes=no\n")
    assert site.status() == {}
    assert arcacct("--config", site.conf, "config", "check").returncode == 0


def test_callouts_that_are_never_called(site) -> None:
    """Jobs end and only sweeps find them: a warning, until a callout tells of an end."""
    site.update("UPDATE AAR SET EndTime = ? WHERE EndTime > 0", int(time.time()) - 2 * DAY_S)
    site.update("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", str(int(time.time()) - DAY_S))
    control = pathlib.Path(site.here.controldir)
    just_now_ns = (int(time.time()) - 600) * 10**9
    lay(control, Files(mtime_ns=just_now_ns), "JobOfTheSweep")
    assert arcacct("--config", site.conf, "sweep").returncode == 0
    site.published(seconds_ago=60)

    found = site.status()

    assert [(check.subject, check.severity) for check in found.values()] == [("callouts", facts.WARNING)]
    assert "does A-REX call arcacct-hook?" in found["callouts"].text
    assert (site.metrics()["arcacct_ended_jobs", "callout"], site.metrics()["arcacct_ended_jobs", "sweep"]) == (0, 1)

    lay(control, Files(mtime_ns=just_now_ns), "JobOfTheHook")
    assert arcacct("--config", site.conf, "record", control, "JobOfTheHook", "FINISHED").returncode == 0
    assert arcacct("--config", site.conf, "sweep").returncode == 0
    site.published(seconds_ago=60)
    assert site.status() == {}
    assert (site.metrics()["arcacct_ended_jobs", "callout"], site.metrics()["arcacct_ended_jobs", "sweep"]) == (1, 1)


def test_jobs_that_ended_before_recording_began(site) -> None:
    """No callout could report them: on the first day they say nothing about A-REX's callouts."""
    now = int(time.time())
    site.update("UPDATE AAR SET EndTime = ? WHERE EndTime > 0", now - 2 * DAY_S)
    site.update("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", str(now - 300))
    control = pathlib.Path(site.here.controldir)
    lay(control, Files(mtime_ns=(now - 600) * 10**9), "JobFromBefore")
    assert arcacct("--config", site.conf, "sweep").returncode == 0
    site.published(seconds_ago=60)
    assert site.status() == {}

    lay(control, Files(mtime_ns=(now - 100) * 10**9), "JobOfTheHook")
    assert arcacct("--config", site.conf, "record", control, "JobOfTheHook", "FINISHED").returncode == 0
    assert (site.metrics()["arcacct_ended_jobs", "callout"], site.metrics()["arcacct_ended_jobs", "sweep"]) == (1, 0)


def test_a_launcher_with_a_spool_of_its_own(site, tmp_path) -> None:
    """What it spools where no sweep looks is counted, with the age of the oldest; and one that is away is critical."""
    launcher, spool = site.conf.parent / "arcacct-hook", tmp_path / "elsewhere"
    launcher.unlink()
    assert site.status()["launcher"].severity == facts.CRITICAL
    assert site.metrics()["arcacct_launcher_ok", str(launcher)] == 0

    launcher.write_text((ETC / "arcacct-hook").read_text().replace("ARCACCT_SPOOL:-}", f"ARCACCT_SPOOL:-{spool}}}"))
    launcher.chmod(0o755)
    assert site.status()["launcher spool"].severity == facts.CRITICAL
    began_s = int(time.time()) - 2 * DAY_S
    subprocess.run([launcher, site.here.controldir, "J", "SUBMIT"], check=True, env={"PATH": "/usr/bin:/bin"})
    (event,) = spool.iterdir()
    os.utime(event, (began_s, began_s))

    found = site.status()["launcher spool"]

    assert (found.severity, f"{launcher} spools in {spool}" in found.text) == (facts.CRITICAL, True)
    assert "1 event, the oldest" in found.text
    samples_now = site.metrics()
    assert samples_now["arcacct_launcher_spool_files", str(launcher)] == 1
    assert samples_now["arcacct_launcher_spool_oldest_timestamp_seconds", str(launcher)] == began_s

    site.configure(f"[arcacct]\nspool_fallback={spool}\n{TARGET}")
    # Now a sweep looks there: the event is one of the spool's.
    assert list(site.status()) == ["spool"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_spool_that_cannot_be_listed(site) -> None:
    """No one takes it for empty: what the last sweep left counts, and without its word nothing is known."""
    os.makedirs(site.here.spool, mode=0o700)
    limits, found = facts.Thresholds(), facts.examine(settings(load(str(site.conf), {}), kinds()))
    with acting_as("nobody"):
        hidden = look([site.here.spool])

    def judged(left: Spooled | None) -> int:
        assert found.recorded is not None
        seen = found._replace(spool=hidden, recorded=found.recorded._replace(left=left))
        return next(check.severity for check in health_checks.judge(seen, limits) if check.subject == "spool")

    assert "Permission denied" in hidden.unknown[0]
    assert judged(None) == facts.UNKNOWN
    assert judged(Spooled()) == facts.OK
    assert judged(Spooled(3, found.now - 2 * DAY_S)) == facts.CRITICAL


def test_what_a_sweep_left_in_the_spool(site) -> None:
    """It is noted, for those who may not list it."""
    os.makedirs(site.here.spool)
    pathlib.Path(site.here.spool, f"{time.time_ns()}-1-FINISHED-Unheard").write_text("version=99\n")

    assert arcacct("--config", site.conf, "sweep").returncode == 65

    with closing(read_accounting(site.here)) as con:
        assert saved_status(con) == Spooled(0, None, 1)


def test_a_key_of_another(site) -> None:
    """`status` finds it before the next message is sent; one that this user may not read says nothing."""
    site.certificate(200)
    key = site.conf.parent / "host200" / "hostkey.pem"
    other = site.authority.issue("x.example.org", directory=str(site.conf.parent / "x"), rsa_key=False)
    assert "key" not in site.status()

    key.write_bytes(pathlib.Path(other.key_path).read_bytes())

    found = site.status()["key"]
    assert (found.severity, "is not the key of" in found.text) == (facts.CRITICAL, True)


def test_marks_of_jura_ng_that_cannot_be_read(site) -> None:
    """It is unknown what it published then: no check is green, and nothing is sent."""
    marks = pathlib.Path(site.here.controldir, "accounting", "publishing.db")
    with closing(sqlite3.connect(marks)) as con, con:
        con.execute("CREATE TABLE AccountingTargets (TargetID TEXT PRIMARY KEY, LastEndTime INT, LastReport INT)")
    assert site.status() == {}
    marks.write_bytes(b"\0" + marks.read_bytes()[1:])

    found = site.status()["database"]

    assert (found.severity, f"{marks}: what jura-ng published cannot be read" in found.text) == (facts.CRITICAL, True)
    done = arcacct("--config", site.conf, "publish", "--dry-run")
    assert (done.returncode, "may count twice" in done.stderr) == (74, True)


@pytest.mark.parametrize("shape", ["a file", "a link to nowhere"])
def test_a_spool_that_is_no_directory(site, shape) -> None:
    """No launcher can write there: every event would be lost."""
    spool = pathlib.Path(site.here.spool)
    shutil.rmtree(spool, ignore_errors=True)
    spool.write_text("") if shape == "a file" else spool.symlink_to("/nowhere/spool")
    found = [one for one in health_checks.judge(_examined(site), facts.Thresholds()) if one.subject == "spool"]
    assert max(one.severity for one in found) == facts.CRITICAL
    assert any(f"{spool} is not a directory" in one.text for one in found)


def test_a_lock_that_is_no_file(site) -> None:
    """Neither a sweep nor publish can work."""
    lock = pathlib.Path(site.here.queue_lock)
    lock.unlink(missing_ok=True)
    lock.mkdir()
    found = [one for one in health_checks.judge(_examined(site), facts.Thresholds()) if one.subject == "spool"]
    assert any(one.severity == facts.CRITICAL and f"{lock} is not a file" in one.text for one in found)


def test_a_launcher_that_is_a_pipe(site) -> None:
    """It is not opened, and is an error."""
    launcher = site.conf.parent / "arcacct-hook"
    launcher.unlink()
    os.mkfifo(launcher, 0o755)
    assert "is not a regular file" in site.status()["launcher"].text


def test_events_that_a_recorder_leaves(site) -> None:
    """A recorder that runs takes an event at once: one that waits is a warning with the recorder's own reason."""
    lock = RecorderLock(site.here)
    lock.hold()
    event = pathlib.Path(site.here.spool, "4242-SUBMIT-J")
    event.write_text("version=2\njobid=J\nstate=SUBMIT\n\nwhole=\n")
    assert "recorder service" not in site.status()
    os.utime(event, (time.time() - 1000,) * 2)
    assert "the running recorder does not record them" in site.status()["spool"].text

    lock.hold("schema version 28; this program supports 27")
    found = site.status()["recorder service"]
    assert (found.severity, "this program supports 27" in found.text) == (facts.WARNING, True)
    lock.hold()
    assert "recorder service" not in site.status()
    lock.release()


@pytest.mark.parametrize(("days", "severity"), [(0.5, facts.OK), (2, facts.WARNING), (5, facts.CRITICAL)])
def test_a_publisher_that_does_not_run(site, days, severity) -> None:
    """Nothing waits, so nothing is late; but no one would send it either."""
    site.published(seconds_ago=int(days * DAY_S) + 4000)
    with closing(open_publishing(site.here)) as con, con:
        con.execute("UPDATE Targets SET LastRun = LastSuccess")
    found = {check.subject: check for check in health_checks.judge(_examined(site), facts.Thresholds())}["sgas:s"]

    assert found.severity == severity, found.text
    assert ("is arcacct-publish.timer active?" in found.text) == bool(severity)


def test_a_receiver_that_refuses_everything(site) -> None:
    """Each record is set aside, so nothing waits and no run fails: the number of those that are refused tells it."""
    with closing(open_publishing(site.here)) as con:
        for count in (1, 1000):
            records = [ledger.SentRecord(f"J{number}", number, 1, 1, b"") for number in range(count)]
            ledger.record_intent(con, BLOCK, [], [ledger.HeldRecord(one, "quarantined", "no") for one in records])
            assert site.status()["sgas:s quarantine"].severity == (1 if count == 1 else 2)
    assert site.metrics()["arcacct_target_held_records", "quarantined", "sgas:s"] == 1000


def test_a_spool_that_no_one_drains(site) -> None:
    """One event that waits for a day is critical, however few there are."""
    os.makedirs(site.here.spool)
    event = pathlib.Path(site.here.spool, "1-FINISHED-J")
    event.write_text("version=2\n")
    os.utime(event, (time.time() - 2 * DAY_S,) * 2)

    assert [(check.subject, check.severity) for check in site.status().values()] == [("spool", facts.CRITICAL)]
    assert site.metrics()["arcacct_spool_oldest_timestamp_seconds",] < time.time() - DAY_S


def test_a_month_that_is_held(site) -> None:
    """Its figures are not sent, and no run fails for it a second time: critical until somebody decides."""
    found = _examined(site)
    (target,) = found.targets
    held = HeldMonth(2026, 10, "fewer jobs", 41, 40)
    checks = health_checks.judge(found._replace(targets=(target._replace(held_months=(held,)),)), facts.Thresholds())

    assert [(check.subject, check.severity) for check in checks if check.severity] == [
        ("sgas:s figures", facts.CRITICAL)
    ]


@pytest.mark.parametrize("what", ["sweep", "publish"])
def test_a_clock_that_was_ahead(site, what) -> None:
    """What was noted then looks young for as long as the clock was ahead: that is told."""
    ahead_s = int(time.time()) + DAY_S
    if what == "sweep":
        site.update("UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_LAST_SWEEP'", str(ahead_s))
    else:
        site.published(seconds_ago=-DAY_S)

    found = site.status()

    assert [(check.subject, check.severity) for check in found.values()] == [("clock", facts.CRITICAL)]
    assert ("the last sweep is" if what == "sweep" else "the last run of sgas:s is") in found["clock"].text


def test_a_disk_that_is_full(site) -> None:
    """The old file of metrics stays, which says when it was written; the command fails. `status` sees the disk."""
    site.configure(f"[arcacct]\nwarn_disk={2**20}TiB\ncrit_disk={2**20}TiB\n{TARGET}")
    assert arcacct("--config", site.conf, "status").returncode == facts.CRITICAL
    folder = site.conf.parent / "textfiles"
    folder.mkdir()
    code = (
        "import subprocess, sys\n"
        "with open(sys.argv[1] + '/arcacct.prom', 'w') as file: file.write('old')\n"
        "try:\n"
        "    with open(sys.argv[1] + '/full', 'wb', 0) as file:\n"
        "        while True: file.write(bytes(4096))\n"
        "except OSError: pass\n"
        "done = subprocess.run([sys.argv[2], '--config', sys.argv[3], 'metrics', '--output', sys.argv[1] +"
        " '/arcacct.prom'], capture_output=True, text=True)\n"
        "print(done.returncode, open(sys.argv[1] + '/arcacct.prom').read(), done.stderr)\n"
    )

    told = on_small_disk(folder, 64, code, str(folder), ARCACCT, str(site.conf))

    assert told.startswith("65 old ")
    assert "arcacct.prom: cannot be written: No space left on device" in told


def test_snapshots(site) -> None:
    """Readers have an old copy, or one from before a restore: a warning, unless there is none any more."""
    folder = site.conf.parent / "snapshot"
    assert arcacct("--config", site.conf, "db", "snapshot", folder).returncode == 0
    assert site.metrics()["arcacct_last_care_timestamp_seconds", "snapshot"] > time.time() - 600

    examined = _examined(site)
    last = examined.maintenance_log["snapshot"]
    for done, severity in (
        (last, facts.OK),
        (last._replace(at_s=examined.now - 3 * DAY_S), facts.WARNING),
        (last._replace(incarnation="another"), facts.WARNING),
    ):
        checks = health_checks.judge(examined._replace(maintenance_log={"snapshot": done}), facts.Thresholds())
        assert [check.severity for check in checks if check.subject == "snapshot"] == [severity]
    # Who has removed it is not reported any more.
    folder.rename(folder.with_name("file"))
    folder.write_text("")
    assert "snapshot" not in {check.subject for check in health_checks.judge(_examined(site), facts.Thresholds())}
    assert ("arcacct_last_care_timestamp_seconds", "snapshot") not in site.metrics()


def test_backups_and_checks(site) -> None:
    """A database that is old and has no backup is a warning; one that a check found damaged stays critical."""
    assert arcacct("--config", site.conf, "db", "backup", site.conf.parent / "backups").returncode == 0
    assert arcacct("--config", site.conf, "db", "check").returncode == 0
    found = site.metrics()
    assert found["arcacct_last_care_timestamp_seconds", "backup"] > time.time() - 600
    assert found["arcacct_check_found_damage",] == 0

    examined = _examined(site)
    for days, severity in ((0, facts.OK), (10, facts.WARNING), (40, facts.CRITICAL)):
        old = {"backup": MaintenanceEntry(examined.now - days * DAY_S, is_well=True)}
        checks = health_checks.judge(examined._replace(maintenance_log=old), facts.Thresholds())
        assert next(check.severity for check in checks if check.subject == "backup") == severity
    site.update("UPDATE DBConfig SET KeyValue = '1' WHERE KeyName = 'ARCACCT_CREATED'")
    os.unlink(f"{site.here.directory}/care.json")
    assert [(check.subject, check.severity) for check in site.status().values()] == [("backup", facts.WARNING)]

    site.update("DELETE FROM StatusFiles")
    site.update("INSERT INTO StatusFiles VALUES (999999, 'FINISHED', 0, NULL, NULL, NULL)")
    site.update("PRAGMA foreign_keys = OFF")
    site.update("INSERT INTO JobEvents VALUES (999999, 'FINISHED', '2026-11-20')")
    assert arcacct("--config", site.conf, "db", "check").returncode == 74
    assert site.status()["check"].severity == facts.CRITICAL


def _examined(site) -> facts.Health:
    return facts.examine(settings(load(str(site.conf), {}), kinds()))
