"""`arcacct verify`: a month in every place that has it."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from contextlib import closing

import arex_corpus as corpus
import pytest
import rehearsal
from installed import arcacct
from rehearsal import SGAS_AND_CARS
from slurm_files import row, table

from arcacct.database import incarnation as database_incarnation
from arcacct.database.access import open_accounting, open_publishing, read_accounting
from arcacct.database.schema import incarnation
from arcacct.errors import InputError
from arcacct.publishing import cursors, ledger, run, target_run
from arcacct.publishing.sent import digest_of
from arcacct.publishing.transport import TimeoutPolicy
from arcacct.queries.portal import read_portal
from arcacct.records import holds, reader
from arcacct.records.enrichment import enrich
from arcacct.sandbox import Sandbox
from arcacct.targets import plugins

NOVEMBER = (1793491200, 1796083200)
BLOCK = "arex/jura/sgas:s"


@pytest.fixture
def ours(ours):
    """A site that recorded every job of the month."""
    changed(ours.database, "UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", str(NOVEMBER[0]))
    return ours


def asked(conf, *options) -> tuple[int, dict]:
    done = arcacct("--config", conf, "verify", "2026-11", "--format", "json", *options)
    return done.returncode, json.loads(done.stdout)


def test_control_directory_and_database_agree_after_a_sweep(ours) -> None:
    """Every finished job of the control directory is in the database with its hours."""
    code, report = asked(ours.conf)

    control = next(source for source in report["sources"] if source["name"] == "control directory")
    assert (code, report["agrees"], report["differences"]) == (0, True, [])
    assert control["jobs"] > 30
    assert control["wall_s"] == report["sources"][0]["wall_s"]


def test_a_month_before_recording_began_is_unknown(ours) -> None:
    """Nothing on either side is no agreement: there was no database; with imported jobs of that month there is one."""

    def of_may(*words: str) -> tuple[int, str, str]:
        done = arcacct("--config", ours.conf, *words)
        return done.returncode, done.stdout, done.stderr

    code, text, _err = of_may("verify", "2026-05", "--format", "json")
    report = json.loads(text)
    database = report["sources"][0]
    assert (code, report["agrees"], database["jobs"]) == (1, False, 0)
    assert "recording began at 2026-" in database["unknown"]
    assert "`arcacct import" in database["unknown"]
    assert "database" in [one["source"] for one in report["differences"]]

    code, text, _err = of_may("report", "--month", "2026-05")
    assert code == 0
    assert text.count("recording began at 2026-") > 1
    assert "No target is configured" not in text
    for words in (("--by", "vo"), ()):
        code, _text, err = of_may("stats", "--month", "2026-05", *words)
        assert (code, "recording began at 2026-" in err) == (0, True)
        assert "recording began" not in of_may("stats", "--month", "2026-11", *words)[2]

    imported(ours, 1778000000)
    code, text, _err = of_may("verify", "2026-05", "--format", "json")
    assert (code, json.loads(text)["sources"][0]["jobs"]) == (0, 1)


def imported(ours, ended_s: int) -> None:
    """Import a job of the batch system that ended then."""
    path = ours.conf.with_name("sacct.txt")
    path.write_bytes(table(row(9000, Submit=ended_s - 90, Start=ended_s - 60, End=ended_s)))
    done = arcacct("--config", ours.conf, "import", "slurm", "--timezone", "UTC", path)
    assert done.returncode == 0, done.stderr


FIFTEENTH = NOVEMBER[0] + 14 * 86400


def test_the_days_before_recording_began_are_unknown(ours) -> None:
    """Jobs of these days that only the control directory still had are no proof; an import of these days is."""

    def places(database_created_s: int, code: int) -> dict[str, str]:
        changed(ours.database, "UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", database_created_s)
        found, report = asked(ours.conf)
        assert (found, report["agrees"]) == (code, code == 0)
        assert {one["source"] for one in report["differences"]} == ({"database"} if code else set())
        return {one["name"]: one["unknown"] for one in report["sources"]}

    changed(ours.database, "UPDATE AAR SET EndTime = EndTime - 864000 WHERE EndTime > 0")
    for path in (ours.control / "finished").glob("*.status"):
        os.utime(path, ns=(path.stat().st_mtime_ns - 864000 * 10**9,) * 2)
    assert set(places(NOVEMBER[0], 0).values()) == {""}

    found = places(FIFTEENTH, 1)
    assert found.pop("database").startswith("recording began at 2026-11-15T00:00:00Z: ")
    assert set(found.values()) == {""}
    assert "unknown" in arcacct("--config", ours.conf, "verify", "2026-11").stdout.splitlines()[2]
    for words in (("report", "--month", "2026-11"), ("stats", "--month", "2026-11"), ("stats", "--from", "2026-11-14")):
        done = arcacct("--config", ours.conf, *words)
        assert (done.returncode, "recording began at 2026-11-15T00:00:00Z" in done.stdout + done.stderr) == (0, True)
    for words in (("report", "--month", "2026-11"), ("stats", "--from", "2026-11-15"), ("stats", "--by", "vo")):
        assert ("began" in arcacct("--config", ours.conf, *words).stderr) is False

    imported(ours, FIFTEENTH + 60)
    assert places(FIFTEENTH, 1)["database"]
    imported(ours, FIFTEENTH - 60)
    assert set(places(FIFTEENTH, 0).values()) == {""}


def test_an_operator_may_say_that_no_job_ended_before_recording_began(with_target) -> None:
    """By the command that `verify` prints: a new CE has nothing to import."""
    conf = with_target.conf
    conf.with_name("arcacct.conf").write_text(f"[arcacct/directory:d]\npath={conf.parent}/out\ngocdb_name=SITE\n")
    conf.with_name("out").mkdir()
    changed(with_target.database, "UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", FIFTEENTH)
    assert arcacct("--config", conf, "publish", "--since", "2026-11-01").returncode in (0, 69)
    code, report = asked(conf)
    assert (code, report["agrees"]) == (1, False)
    (command,) = re.findall("`arcacct (publish [^`]+)`", report["sources"][0]["unknown"])

    assert arcacct("--config", conf, *command.split()).returncode == 0

    code, report = asked(conf)
    assert (code, report["agrees"], report["differences"]) == (0, True, [])


def test_an_import_of_a_rex_makes_the_first_month_whole(beside) -> None:
    changed(beside.database, "UPDATE DBConfig SET KeyValue = ? WHERE KeyName = 'ARCACCT_CREATED'", FIFTEENTH)

    assert asked(beside.conf)[0] == 0


def test_a_host_without_a_rex_has_no_control_directory_to_compare(tmp_path) -> None:
    """Imports alone are compared; a control directory that arc.conf names must be there."""
    conf = tmp_path / "arc.conf"
    (tmp_path / "arcacct.conf").write_text(f"[arcacct]\ndatabase={tmp_path}/db/accounting.db\n")
    conf.write_text("[common]\nhostname=ce.example.org\n")
    assert arcacct("--config", conf, "db", "init").returncode == 0
    month = time.strftime("%Y-%m", time.gmtime())

    def places() -> dict[str, bool]:
        done = arcacct("--config", conf, "verify", month, "--format", "json")
        return {one["name"]: one["agrees"] for one in json.loads(done.stdout)["sources"]}

    assert places() == {"database": True}
    conf.write_text(f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={tmp_path}/unmounted\n")
    assert places() == {"database": True, "control directory": False}


def test_a_month_of_which_a_rex_had_no_job_agrees(beside) -> None:
    """After `arcacct import arex` the database has what A-REX had: a month without jobs is one."""
    assert arcacct("--config", beside.conf, "verify", "2026-05").returncode == 0


def test_a_lost_job_is_named(ours) -> None:
    """A job that only the control directory has is told with its id and the way to get it; exit code 1."""
    job_id = corpus.names()["multicore"]
    changed(ours.database, "DELETE FROM AAR WHERE JobID = ?", job_id)

    code, report = asked(ours.conf)

    assert code == 1
    assert [(one["source"], one["job_id"]) for one in report["differences"]] == [("control directory", job_id)]
    assert "arcacct sweep" in report["differences"][0]["text"]


def test_other_hours_are_reported_by_job(ours) -> None:
    """A job whose wall time was changed is told with both values."""
    job_id = corpus.names()["multicore"]
    changed(ours.database, "UPDATE AAR SET UsedWalltime = 4711 WHERE JobID = ?", job_id)

    _code, report = asked(ours.conf)

    assert [one["job_id"] for one in report["differences"]] == [job_id]
    assert "wall 2 s" in report["differences"][0]["text"]
    assert "4711" in report["differences"][0]["text"]


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_measurement_that_came_late_is_taken_by_a_sweep(ours, is_awaited: bool) -> None:
    """A job that was recorded without .diag: the month is wrong, the remedy is named, and it helps."""
    job_id = corpus.names()["multicore"]
    with closing(sqlite3.connect(ours.database)) as con:
        con.execute("UPDATE AAR SET UsedWalltime = 0, UsedCPUUserTime = 0 WHERE JobID = ?", (job_id,))
        con.execute(
            "INSERT INTO FieldSources SELECT RecordID, value, 'unknown' FROM AAR, json_each(?) WHERE JobID = ?",
            ('["wall_s", "cpu_user_s", "cpu_kernel_s"]', job_id),
        )
        if is_awaited:
            holds.hold_unmeasured(con, *con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (job_id,)).fetchone())
        con.commit()
    code, report = asked(ours.conf)
    assert (code, [one["job_id"] for one in report["differences"]]) == (1, [job_id])
    assert "`arcacct sweep`" in report["differences"][0]["text"]

    assert arcacct("--config", ours.conf, "sweep").returncode == 0

    code, report = asked(ours.conf)
    assert (code, report["differences"]) == (0, [])


def test_a_status_file_with_an_odd_name_is_reported(ours) -> None:
    """Its name, which is not UTF-8, is printed with the bytes written out; the other jobs are compared."""
    with open(os.fsencode(ours.control / "finished") + b"/job.\xff\xfe.status", "wb") as file:
        file.write(b"FINISHED")
        os.utime(file.fileno(), (NOVEMBER[0] + 60,) * 2)

    done = arcacct("--config", ours.conf, "verify", "2026-11")

    assert done.returncode == 1
    assert f"{ours.control}/finished/job.\\xff\\xfe.status: not a status file of A-REX" in done.stdout
    assert asked(ours.conf)[1]["sources"][1]["jobs"] > 30


@pytest.fixture
def with_target(ours, box):
    """The site with a target, and what the ledger needs to say that it has a job."""
    ours.conf.write_text(
        f"[common]\nhostname=ce.example.org\nx509_host_cert={box.cert_path}\nx509_host_key={box.key_path}\n"
        f"x509_cert_dir={box.ca_dir}\n[lrms]\nlrms=fork\nbenchmark=HEPSPEC:11.11\n[arex]\ncontroldir={ours.control}\n"
    )
    (ours.conf.parent / "arcacct.conf").write_text(f"[{BLOCK}]\ntargeturl=https://sgas.example.org/sgas\n")
    return ours


@pytest.fixture(scope="session")
def box(tmp_path_factory):
    """A host certificate."""
    from arcacct.sandbox.authority import create

    authority = create(str(tmp_path_factory.mktemp("authority")))
    now = int(time.time())
    issued = authority.issue("ce.example.org", not_before=now - 60, not_after=now + 86400 * 90, rsa_key=False)

    class Box:
        cert_path, key_path, ca_dir = issued.cert_path, issued.key_path, authority.ca_dir

    return Box


def deliver(asked_database, *, but: int = 0) -> list[str]:
    """Write into the ledger that the target accepted every job but the last few; returns those it has not got."""
    here = corpus.place(asked_database.control)
    with closing(read_accounting(here)) as con:
        aars = [aar for page in reader.ended_between(con, *NOVEMBER) for aar in page]
        life = incarnation(con)
        last = database_incarnation.highest_seq(con)
    sent, unsent = (aars[:-but], aars[-but:]) if but else (aars, [])
    records = tuple(
        ledger.SentRecord(
            aar.job_id, aar.record_id, number, aar.end_time, digest_of()(aar), aar.job_id, None, ("", "ce"), aar.wall_s
        )
        for number, aar in enumerate(sent, 1)
    )
    with closing(open_publishing(here)) as con:
        cursors.set_cursor(con, cursors.Cursor(BLOCK, life, last, 0, None))
        message = ledger.Message(0, "ur", "publish", last, "https://x", None, "", len(records), b"bytes", records)
        (written,) = ledger.record_intent(con, BLOCK, [message])
        ledger.accepted(con, BLOCK, written, 200, "ok", None)
        for aar in unsent[:1]:
            held = ledger.HeldRecord(
                ledger.SentRecord(aar.job_id, aar.record_id, 1, aar.end_time, b""), "quarantined", "poison"
            )
            ledger.record_intent(con, BLOCK, [], [held])
    return [aar.job_id for aar in unsent]


def test_the_ledger_agrees_when_everything_was_accepted(with_target) -> None:
    """A target that accepted every job has the same count and hours."""
    deliver(with_target)

    code, report = asked(with_target.conf)

    assert (code, report["differences"]) == (0, [])
    assert report["sources"][2]["jobs"] == report["sources"][0]["jobs"]
    assert report["sources"][2]["wall_s"] == report["sources"][0]["wall_s"]


def test_a_job_that_was_not_sent_is_explained(with_target) -> None:
    """Each job that a target has not got is named, with the quarantine's reason where there is one."""
    unsent = deliver(with_target, but=2)

    code, report = asked(with_target.conf)

    assert code == 1
    assert [one["job_id"] for one in report["differences"]] == unsent
    assert report["differences"][0]["text"] == "quarantined: poison"
    (command,) = re.findall("`arcacct ([^`]+)`", report["differences"][1]["text"])
    assert "--target" in command
    planned = arcacct("--config", with_target.conf, *command.split(), "--plan")
    assert "jobs that ended from 2026-11-01T00:00:00Z to before 2026-12-01T00:00:00Z" in planned.stderr


def test_a_job_that_changed_since_is_explained(with_target) -> None:
    """A correction that was not sent yet waits for the next run."""
    deliver(with_target)
    here = corpus.place(with_target.control)
    with closing(open_accounting(here)) as con:
        con.execute("UPDATE AAR SET UsedScratch = 7 WHERE JobID = ?", (corpus.names()["multicore"],))

    _code, report = asked(with_target.conf)

    assert [one["text"] for one in report["differences"]] == ["changed since it was sent: waits for the next run"]
    table = arcacct("--config", with_target.conf, "verify", "2026-11").stdout
    (row,) = [line.split() for line in table.splitlines() if line.startswith("sgas:s ")]
    assert row[3:5] == ["unknown", "NO"], table


PORTALS = {
    "months as columns": (
        "VO,Oct 2026,Nov 2026,Total,Percent\natlas,3,1 000,1003,90%\nbio,1,20,21,10%\nTotal,4,1020,1024,\n"
    ),
    "months as rows": "DATE,atlas,bio,Total,Percent\n2026-10,3,1,4,1%\n2026-11,1000,20,1020,99%\nTotal,1003,21,1024,\n",
    "a title, semicolons": (
        "Sum Number of Jobs\nVO;10/2026;11/2026;Total\natlas;3;1000;1003\nbio;1;20;21\nTotal;4;1020;1024\n"
    ),
    "long names": "VO,November 2026\natlas,1020\n",
}


@pytest.mark.parametrize("name", PORTALS)
def test_an_export_of_the_portal_is_read(tmp_path, name) -> None:
    """Tables with months on either side give the month's jobs; totals and percentages do not count."""
    path = tmp_path / "portal.csv"
    path.write_text(PORTALS[name])

    assert read_portal(str(path), (2026, 11)).total == 1020


def test_the_portal_is_compared(ours, tmp_path) -> None:
    """Another number of jobs at the portal is a difference."""
    path = tmp_path / "portal.csv"
    path.write_text(PORTALS["long names"])

    code, report = asked(ours.conf, "--portal", path)

    assert code == 1
    nobody, found = (one["text"] for one in report["differences"][:2])
    assert nobody.startswith("no target for this portal is configured")
    assert found.startswith("1020 jobs, in the database ")


@pytest.mark.parametrize(
    "content", ["", "VO,Oct 2026\natlas,3\n", "a;b\n1;2\n"], ids=["empty", "other month", "no table"]
)
def test_an_export_without_the_month_is_refused(tmp_path, content) -> None:
    """The complaint says what to export."""
    path = tmp_path / "portal.csv"
    path.write_text(content)

    with pytest.raises(InputError, match="no 2026-11 in it; export a table"):
        read_portal(str(path), (2026, 11))


def test_why_the_portal_differs_is_told_by_cause(tmp_path) -> None:
    """A VO that vofilter leaves out, a job that waits, what was sent after the export: each with an example."""
    path = tmp_path / "portal.csv"
    with Sandbox(str(tmp_path)) as box:
        site = rehearsal.site(tmp_path, box, SGAS_AND_CARS + "vofilter=atlas\n")
        settings = site.settings()
        assert not any(one.error for one in run.publish(settings, plugins(settings), target_run.RunOptions(since=0)))
    with closing(sqlite3.connect(site.settings().places.database)) as con:
        columns = [row[1] for row in con.execute("PRAGMA table_info(AAR)") if row[1] not in ("RecordID", "JobID")]
        counts = dict(
            con.execute("SELECT Name, count(*) FROM AAR JOIN WLCGVOs ON ID = VOID WHERE EndTime > 0 GROUP BY 1")
        )
        # The recorder's triggers put it into the log.
        con.execute(
            f"INSERT INTO AAR (JobID, {', '.join(columns)}) SELECT 'late', {', '.join(columns)} FROM AAR"
            " WHERE VOID = (SELECT ID FROM WLCGVOs WHERE Name = 'atlas') AND EndTime > 0 LIMIT 1"
        )
        con.commit()
    path.write_text(f"VO,Nov 2026\natlas,{counts['atlas']}\n")

    code, told = asked(site.arc_conf, "--portal", path)
    before = asked(site.arc_conf, "--portal", path, "--exported", "2026-11-20")[1]

    rows = {row["vo"]: row for row in told["portals"]["portal jobs"]}
    assert code == 1
    assert (rows["atlas"]["portal"], rows["atlas"]["here"]) == (counts["atlas"], counts["atlas"] + 1)
    assert rows["atlas"]["cause"] == "not sent yet"
    assert {row["cause"] for vo, row in rows.items() if vo != "atlas"} == {"not selected"}
    texts = [one["text"] for one in told["differences"] if one["source"] == "portal jobs"]
    assert any(text.endswith("(1 job by apel:a, as late)") for text in texts)
    assert any(text.startswith("not selected (no target of this portal selects this VO") for text in texts)
    assert {row["vo"]: row["cause"] for row in before["portals"]["portal jobs"]}["atlas"] == (
        "not sent yet; sent after the export was made"
    )


def test_sums_that_wait_are_the_cause_at_the_portal(tmp_path) -> None:
    """Of sums no one knows the job, but how many jobs of a VO they lack: none was sent, then all but one."""
    path = tmp_path / "portal.csv"
    path.write_text("VO,Nov 2026\natlas,0\n")
    targets = (
        "[arex/jura/apel:s]\ntargeturl={ams}\nauthn_port={authn}\ngocdb_name=EXAMPLE-SITE\napel_messages=summaries\n"
    )
    with Sandbox(str(tmp_path)) as box:
        site = rehearsal.site(tmp_path, box, targets)
        never = asked(site.arc_conf, "--portal", path)[1]
        settings = site.settings()
        run.publish(settings, plugins(settings), target_run.RunOptions(since=0))
        sent = asked(site.arc_conf, "--portal", path, "--exported", "2030")[1]

    causes = [{row["vo"]: row["cause"] for row in told["portals"]["portal jobs"]} for told in (never, sent)]
    assert [found["atlas"] for found in causes] == ["not sent yet", "less at the portal"]
    assert any("jobs by apel:s, as " in one["text"] for one in never["differences"])


@pytest.mark.parametrize("command", [("verify", "2099-05"), ("report", "--month", "2099-05")], ids=" ".join)
def test_a_month_to_come_is_refused(ours, command) -> None:
    """Nothing would differ in it, and every row would say yes."""
    done = arcacct("--config", ours.conf, *command)
    assert done.returncode == 64
    assert "2099-05 has not started by this host's clock" in done.stderr


def test_a_month_before_1970_is_no_month(site) -> None:
    """Nothing is counted before, and the months before the first year have no name."""
    for command in (("verify", "0001-01"), ("report", "--month", "0001-01")):
        done = arcacct("--config", site.conf, *command)

        assert done.returncode == 64
        assert "'0001-01' is before 1970; write it like 2026-11" in done.stderr


def test_the_table_is_for_people(ours) -> None:
    """Without --format there is a table: one line for each place."""
    done = arcacct("--config", ours.conf, "verify", "2026-11")

    assert done.returncode == 0
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "place",
        "-----------------",
        "database",
        "control directory",
    ]


def test_what_was_never_answered_is_not_delivered(tmp_path) -> None:
    """Messages that AMS never answered do not count as delivered, neither records nor sums."""
    targets = SGAS_AND_CARS + (
        "[arex/jura/apel:sums]\ntargeturl={ams}\nauthn_port={authn}\ngocdb_name=OTHER-SITE\napel_messages=summaries\n"
    )
    with Sandbox(str(tmp_path)) as box:
        site = rehearsal.site(tmp_path, box, targets)
        box.faults.drop("ams", times=None)
        settings = site.settings()
        options = target_run.RunOptions(since=0, make_sender=lambda plugin: plugin.sender(TimeoutPolicy(backoff_s=())))
        assert [bool(outcome.error) for outcome in run.publish(settings, plugins(settings), options)] == [
            False,
            True,
            True,
        ]
        code, told = asked(site.arc_conf)

        assert code == 1
        agree = {one["name"]: one["agrees"] for one in told["sources"]}
        assert agree["sgas:s"]
        assert not any(ok for name, ok in agree.items() if name.startswith("apel:"))
        texts = [one["text"] for one in told["differences"]]
        assert "sent, no answer yet: the next run sends it again" in texts
        assert any("sums without an answer" in text for text in texts)
        assert not any("reason unknown" in text for text in texts)

        # What was accepted is there, whatever becomes of the same records in a later message.
        box.faults.clear()
        assert [outcome.error for outcome in run.publish(settings, plugins(settings), options)] == [None, None, None]
        assert asked(site.arc_conf)[0] == 0
        box.faults.drop("ams", times=None)
        again = run.republish(settings, plugins(settings), target_run.Period(0, 2**33), options)
        assert [bool(outcome.error) for outcome in again] == [False, True, True]
        _code, told = asked(site.arc_conf)
        agree = {one["name"]: one["agrees"] for one in told["sources"]}
        assert agree["apel:a"]


@pytest.fixture
def beside(ours):
    """The same site with A-REX's own database where A-REX keeps it, and what only that knows taken over."""
    path = ours.control / "accounting" / "accounting.db"
    with closing(sqlite3.connect(path)) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
    assert arcacct("--config", ours.conf, "import", "arex", "--timezone", "UTC").returncode == 0
    return ours


def changed(database, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(database)) as con:
        con.execute(statement, values)
        con.commit()


def arexs(report: dict) -> dict:
    (found,) = (source for source in report["sources"] if source["name"] == "A-REX's database")
    return found


def test_arexs_own_database_agrees(beside) -> None:
    """Its jobs and hours are those of ours; the job that A-REX itself has lost is no difference."""
    code, report = asked(beside.conf)

    assert (code, report["differences"]) == (0, [])
    assert arexs(report)["agrees"]
    assert arexs(report)["jobs"] == 35 == report["sources"][0]["jobs"] - 1
    assert arexs(report)["wall_s"] == report["sources"][0]["wall_s"]


def test_without_a_database_of_arex_there_is_no_row(ours) -> None:
    """Nor where the configuration says that A-REX writes none."""
    assert "A-REX's database" not in {source["name"] for source in asked(ours.conf)[1]["sources"]}
    (ours.control / "accounting" / "accounting.db").write_bytes(b"left by a former A-REX")
    (ours.conf.parent / "arcacct.conf").write_text("[arcacct]\narex_writes_no_accounting=yes\n")

    assert "A-REX's database" not in {source["name"] for source in asked(ours.conf)[1]["sources"]}


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        pytest.param("DELETE FROM AAR WHERE JobID = ?", "is not in the database", id="missing"),
        pytest.param(
            "UPDATE AAR SET (StatusID, EndTime) = ((SELECT ID FROM Status WHERE Name = 'in-progress'), 0)"
            " WHERE JobID = ?",
            "is in-progress in the database",
            id="without an end",
        ),
        pytest.param(
            "UPDATE AAR SET (StatusID, UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime)"
            " = ((SELECT ID FROM Status WHERE Name = 'aborted'), 0, 0, 0) WHERE JobID = ?",
            "is aborted in the database",
            id="aborted",
        ),
        pytest.param("UPDATE AAR SET UsedWalltime = 1 WHERE JobID = ?", "wall 2 s, in the database 1 s", id="hours"),
    ],
)
def test_what_only_arexs_own_database_has_is_a_no(beside, statement, text) -> None:
    """A job that is missing here, or less of it, is named, with what to do."""
    job_id = corpus.names()["multicore"]
    changed(beside.database, statement, job_id)

    code, report = asked(beside.conf)

    assert (code, arexs(report)["agrees"]) == (1, False)
    (found,) = (one for one in report["differences"] if one["source"] == "A-REX's database")
    assert found["job_id"] == job_id
    assert text in found["text"]
    assert "`arcacct import arex`" in found["text"] or "wall" in text


@pytest.mark.parametrize(("source", "agrees"), [("sacct", True), ("derived", False), ("unknown", False)])
def test_what_the_batch_system_measured_is_no_difference(beside, source, agrees) -> None:
    """Neither to the files nor to A-REX's database. A value that no one measured is one, and a sweep takes theirs."""
    job_id = corpus.names()["multicore"]
    with closing(open_accounting(corpus.place(beside.control))) as con:
        (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (job_id,)).fetchone()
        # As `import slurm --prefer-slurm`.
        enrich(con, record_id, source, {"wall_s": 1, "cpu_user_s": 1}, over_arex=True)

    code, report = asked(beside.conf)
    assert (code, report["agrees"]) == ((0, True) if agrees else (1, False))
    if not agrees:
        assert [one["job_id"] for one in report["differences"]] == [job_id] * 2
        assert arcacct("--config", beside.conf, "sweep").returncode == 0
        assert asked(beside.conf)[0] == 0


def test_pruned_jobs_are_no_difference(beside, tmp_path) -> None:
    """They are in an archive, and that is said."""
    job_id = corpus.names()["multicore"]
    changed(beside.database, "INSERT INTO Archives VALUES (?, ?, 1, 0)", str(tmp_path / "away.db"), NOVEMBER[1])
    changed(beside.database, "DELETE FROM AAR WHERE JobID = ?", job_id)
    corpus.remove(job_id, corpus.Control(beside.control, {}))

    code, report = asked(beside.conf)

    assert code == 0
    (found,) = report["differences"]
    assert found["text"].startswith("1 of its jobs are in an archive")


def test_a_database_of_arex_that_cannot_be_read_now_is_said(beside) -> None:
    """That is no NO: it says nothing of the month."""
    (beside.control / "accounting" / "accounting.db").write_bytes(b"rubbish")

    code, report = asked(beside.conf)

    assert (code, arexs(report)["jobs"]) == (0, None)
    (found,) = report["differences"]
    assert found["text"].startswith("cannot be compared now: ")
    assert "not an SQLite database" in found["text"]


def test_jobs_of_unknown_usage_are_a_no(ours) -> None:
    """A job on hold, and one of which only an event FINISHED is left that could not be used: of their month alone."""
    job_id = corpus.names()["multicore"]
    changed(
        ours.database,
        "UPDATE AAR SET (StatusID, EndTime) = ((SELECT ID FROM Status WHERE Name = 'in-progress'), 0) WHERE JobID = ?",
        job_id,
    )
    changed(
        ours.database,
        "UPDATE StatusFiles SET State = 'VANISHED' WHERE RecordID = (SELECT RecordID FROM AAR WHERE JobID = ?)",
        job_id,
    )
    corpus.remove(job_id, corpus.Control(ours.control, {}))
    aside = ours.database.parent / "spool" / "unusable"
    aside.mkdir(parents=True)
    for when, state, name in (
        (NOVEMBER[0] + 5, "FINISHED", "Lost"),
        ((NOVEMBER[0] + 5) * 10**9, "SUBMIT", "Running"),
        (NOVEMBER[1] + 5, "FINISHED", "Later"),
        (NOVEMBER[0] + 5, "FINISHED", corpus.names()["rte"]),
    ):
        (aside / f"{when}-77-{state}-{name}").write_text("version=1\n")

    code, report = asked(ours.conf)

    assert (code, report["sources"][0]["agrees"]) == (1, False)
    first, second = report["differences"]
    assert (first["source"], first["job_id"]) == ("database", job_id)
    assert "`arcacct sweep --give-up JOBID`" in first["text"]
    assert (second["source"], second["job_id"]) == ("database", "Lost")
    assert f"{aside}/" in second["text"]
