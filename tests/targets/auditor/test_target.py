"""Publishing to AUDITOR from end to end: what it has, what its own client reads back, what becomes of corrections."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from publishing_site import AUDITOR, DAY_S, JUNE, jobs
from sandbox_clients import auditor_client

from arcacct.cli.main import arcacct
from arcacct.database.access import open_publishing
from arcacct.errors import TargetRefuses
from arcacct.publishing import held
from arcacct.sandbox.auditor import AuditorAccess

WRITES = AuditorAccess(frozenset({"ce.example.org"}))
SECOND = "ur-ce.example.org-job00001"


def mark(site, job_id: str, state: str) -> None:
    """What `arcacct quarantine retry` and `drop` do."""
    con = open_publishing(site.settings.places)
    held.change_state(con, None, [job_id], state)
    con.close()


def command(site, *words: str):
    """A command of the program at this site."""
    return CliRunner().invoke(arcacct, ["--config", str(site.path / "arc.conf"), *words])


def runtimes(server) -> dict[str, int]:
    return {record_id.rpartition("-")[2]: one.runtime_s for record_id, one in server.records.items()}


def test_the_official_client_reads_what_was_published(site) -> None:
    """Every value arrives as it was meant."""
    pyauditor = pytest.importorskip("pyauditor")
    (job,) = jobs(
        1, cores=8, nodes=2, cpu_s=5000, wall_s=700, user_dn="/DC=org/CN=Jane", fqan="/atlas/de/Role=production"
    )
    site.send(job)

    async def read():
        query = pyauditor.QueryBuilder().with_meta_query(
            pyauditor.MetaQuery().meta_operator("site_id", pyauditor.MetaOperator().contains(["SITE"]))
        )
        return await auditor_client(site.box).advanced_query(query.build())

    (found,) = asyncio.run(read())
    assert found.record_id == "ur-ce.example.org-job00000"
    assert found.runtime == 700
    # The client's times have no zone, and are in UTC.
    assert found.stop_time == datetime.fromtimestamp(JUNE, UTC).replace(tzinfo=None)
    assert {one.name: one.amount for one in found.components} == {
        "Cores": 8,
        "TotalCPU": 5000,
        "NNodes": 2,
        "Memory": 0,
    }
    assert [(one.name, one.value) for one in found.components[0].scores] == [("HEPSPEC06", 10.0)]
    assert {key: found.meta.get(key) for key in ("voms", "headnode", "subject")} == {
        "voms": ["/atlas/de/Role=production"],
        "headnode": ["ce.example.org"],
        "subject": ["/DC=org/CN=Jane"],
    }


def test_gpus_that_become_known_after_the_first_sending_are_not_sent(site, server) -> None:
    """AUDITOR keeps the first version: that is no correction, and what it has stays."""
    site.configure(f"{AUDITOR}rename=GPUs GPUs\nrename=Energy Energy\n")
    site.record(*jobs(2))
    known = "INSERT INTO JobAccelerators SELECT RecordID, 'sonar', 'c', 2, 60, NULL, NULL, 7000 FROM AAR"
    site.sql(f"{known} WHERE JobID = 'job00000'")
    site.publish()
    site.sql(f"{known} WHERE JobID = 'job00001'")

    outcome = site.publish()

    found = {record_id[-1]: [one.amount for one in of.components[4:]] for record_id, of in server.records.items()}
    assert found == {"0": [2, 7000], "1": []}
    assert (outcome.error, outcome.summary.corrections, site.held()) == (None, 0, {})


def test_what_it_is_not_sent_is_no_correction(site, server) -> None:
    """The name of a job changes nothing there: the ledger knows that it is as it should be."""
    site.send(*jobs(3))
    site.record(jobs(3)[1]._replace(name="another"))

    outcome = site.publish()
    assert (outcome.error, outcome.summary.corrections, site.held()) == (None, 0, {})
    assert site.publish().summary.sent == {}


def test_the_end_is_put_right(site, server) -> None:
    """Where the job began when it did, and ended later."""
    site.send(*jobs(3, wall_s=100))
    job = jobs(3, wall_s=100)[1]
    site.record(job._replace(end_time=job.end_time + 50, wall_s=150))

    assert site.publish().summary.corrections == 0
    assert (runtimes(server)["job00001"], site.held()) == (150, {})


@pytest.mark.parametrize("access", ["reads", "writes"])
@pytest.mark.parametrize("ignores", [False, True], ids=["as-it-is", "ignore_record_exists_error"])
def test_any_other_correction_is_quarantined(site, server, access, ignores) -> None:
    """With what to do; once that was done, and `retry` said, the new version is there."""
    server.ignores_repeats = ignores
    server.access = WRITES if access == "writes" else server.access
    site.send(*jobs(3, wall_s=100))
    corrected = jobs(3, wall_s=999)[1]
    site.record(corrected)

    outcome = site.publish()
    assert outcome.summary.corrections == 1
    assert site.held()["job00001"][0] == "correction"
    assert SECOND in site.held()["job00001"][1]
    assert runtimes(server)["job00001"] == 100
    assert site.publish().summary.sent == {}

    mark(site, "job00001", "retry")
    assert site.publish().summary.corrections == 1
    sql = command(site, "quarantine", "sql", "auditor:a").output
    assert f"'{SECOND}'" in sql
    assert "DELETE FROM auditor_accounting" in sql

    server.forget(SECOND)
    mark(site, "job00001", "retry")
    site.publish()
    assert runtimes(server)["job00001"] == 999
    if access == "reads" or not ignores:
        assert site.held() == {}


def test_a_correction_under_another_id_is_quarantined(site, server) -> None:
    """It would be a record more: the one that is there has to go first, and it is that which is named."""
    site.send(*jobs(3))
    site.record(jobs(3)[1]._replace(endpoint_url="https://other.example.org:443/arex"))

    assert site.publish().summary.corrections == 1
    assert f"it deletes record {SECOND}" in site.held()["job00001"][1]
    assert len(server.records) == 3

    server.forget(SECOND)
    mark(site, "job00001", "retry")
    assert site.publish().error is None
    assert "ur-other.example.org-job00001" in server.records
    assert (len(server.records), site.held()) == (3, {})


def test_a_correction_that_is_taken_back_is_forgotten(site, server) -> None:
    site.send(*jobs(3, wall_s=100))
    site.send(jobs(3, wall_s=999)[1])
    site.record(jobs(3, wall_s=100)[1])

    assert site.publish().summary.sent == {}
    assert site.held() == {}


def test_a_record_that_should_not_be_there(site, server) -> None:
    """A job that was deleted here is for AUDITOR's administrator to delete."""
    site.send(*jobs(3))
    site.sql("DELETE FROM AAR WHERE JobID = 'job00001'")

    assert site.publish().summary.corrections == 1
    assert f"it deletes record {SECOND}" in site.held()["job00001"][1]
    assert len(server.records) == 3


def test_a_record_that_others_sent(site, server) -> None:
    """Under our id, and with other values: the ledger does not take it for ours."""
    site.send(*jobs(2, wall_s=100))
    for record_id, one in server.records.items():
        server._stored[record_id] = one._replace(components=())
    site.sql("UPDATE DBConfig SET KeyValue = KeyValue WHERE KeyName = 'DBSCHEMA_VERSION'")
    con = open_publishing(site.settings.places)
    con.execute("DELETE FROM SentRecords")
    con.execute("DELETE FROM Messages")
    con.execute("UPDATE Targets SET LastSeq = 0")
    con.close()

    site.publish()
    assert {state for state, _why in site.held().values()} == {"correction"}


def test_again(site, server) -> None:
    """A republish changes nothing there, and nothing here."""
    site.send(*jobs(5))
    before = server.records

    assert site.republish().error is None
    assert (server.records, site.held()) == (before, {})
    assert site.publish().summary.sent == {}


def test_an_older_ledger(site, server) -> None:
    """What was sent since is not known: of jobs that changed, it is another version that is there."""
    site.record(*jobs(4, wall_s=100))
    copy = site.path / "ledger.db"
    con = open_publishing(site.settings.places)
    con.execute("VACUUM INTO ?", (str(copy),))
    con.close()
    site.publish()
    site.record(jobs(4, wall_s=999)[1])
    copy.replace(site.settings.places.publishing_database)
    for suffix in ("-wal", "-shm"):
        (site.path / f"{site.settings.places.publishing_database}{suffix}").unlink(missing_ok=True)

    site.publish()
    assert set(site.held()) == {"job00001"}
    assert site.held()["job00001"][0] == "correction"


def test_another_benchmark(site, server) -> None:
    """A job without the score that the plugin was told of would end its run: it is set aside, the others go on."""
    site.configure("[arcacct/auditor:a]\ntargeturl={auditor}\nsite_id=SITE\nscore_type=HEPscore23\n")
    site.record(*jobs(2, benchmark="HEPscore23:12"), *jobs(1, 2, benchmark="HEPSPEC:12"))

    assert site.publish().summary.quarantined == 1
    assert list(runtimes(server)) == ["job00000", "job00001"]
    assert "score_type" in site.held()["job00002"][1]


def test_only_some_vos_and_only_since_then(site, server) -> None:
    site.configure("[arcacct/auditor:a]\ntargeturl={auditor}\nsite_id=SITE\nvofilter=cms\n")
    early, *others = jobs(4, vo="cms", fqan="/cms")
    site.record(early._replace(end_time=JUNE - DAY_S), *others[:2], others[2]._replace(vo="atlas", fqan="/atlas"))

    assert site.publish(since=JUNE).error is None
    assert list(runtimes(server)) == ["job00001", "job00002"]


def test_who_may_not_write(site, server) -> None:
    """Nothing is lost, and the administrator is told whom to ask."""
    server.access = AuditorAccess()
    site.record(*jobs(3))
    outcome = site.publish()
    assert isinstance(outcome.error, TargetRefuses)
    assert "write_access_cn" in str(outcome.error)
    server.access = WRITES
    assert site.publish().error is None
    assert len(server.records) == 3


def test_the_commands_know_it(site, server) -> None:
    """As any other target."""
    site.record(*jobs(3))
    written = site.path / "messages"
    written.mkdir()
    assert command(site, "publish", "--dry-run", "--write-to", str(written), "--since", "2024-06-01").exit_code == 0
    (message,) = written.iterdir()
    assert message.name == "auditor-a-0001-auditor"
    assert message.read_bytes().startswith(b'[{"record_id":"ur-ce.example.org-job00000"')
    assert server.records == {}

    site.publish()
    assert "auditor:a" in command(site, "status").output
    assert 'target="auditor:a"' in command(site, "metrics").output
    assert "auditor:a" in command(site, "job", "--only", "why", "job00001").output
    verified = command(site, "verify", "2024-06")
    assert "stored" in next(line for line in verified.output.splitlines() if "auditor:a" in line)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("targeturl=http://localhost:8000\nsite_id=S\n", "is not encrypted"),
        ("targeturl=https://h:8443\nsite_id=S\nrename=Cores\n", "WHAT NAME"),
        ("targeturl=https://h:8443\nsite_id=S\nrename=voms -\n", "cannot be left out"),
        ("targeturl=https://h:8443\nsite_id=S\nrename=subject voms\n", "two values"),
        ("targeturl=https://h:8443\nsite_id=S\nrename=GPUs Cores\n", "two values"),
        ("targeturl=https://h:8443\nsite_id=S\nscore_type=HS06\n", "score_type"),
        ("targeturl=ftp://h\nsite_id=S\n", "targeturl"),
        ("targeturl=https://h:8443\n", "site_id"),
        ("targeturl=https://h:8443\nsite_id=S\nstart_time_source=submit\n", "wall"),
    ],
)
def test_what_config_check_says(site, options, words) -> None:
    (site.path / "arcacct.conf").write_text(f"[arcacct/auditor:a]\n{options}")
    assert words in command(site, "config", "check").output


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://h:8443", "https://H:8443/"),
        ("https://h:443", "https://h"),
        ("https://h/auditor", "https://H:443/auditor/"),
        ("http://h:8000", "http://H:8000"),
    ],
)
def test_a_server_is_the_same_in_each_spelling(site, first, second) -> None:
    """With two prefixes of ids it would have every job twice."""
    blocks = [
        f"[arcacct/auditor:{name}]\ntargeturl={url}\nsite_id=S\nlocalid_prefix={name}\n"
        for name, url in (("a", first), ("b", second))
    ]
    (site.path / "arcacct.conf").write_text("".join(blocks))
    assert "AUDITOR would have every job twice" in command(site, "config", "check").output
