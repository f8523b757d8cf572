"""`arcacct doctor`: a site in order, and each thing that can be wrong before it goes live."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import grp
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import breakages
import psutil
import pytest
from campaigns import cross
from clinic import ALL, APEL, AUDITOR, DAY_S, OPTIONS, SGAS, Clinic, change
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from in_process import said
from other_users import acting_as
from scripted_receiver import ConnectProxy, ScriptedReceiver, server_context

from arcacct import tls
from arcacct.arex import resident
from arcacct.arex.import_database import arex_databases
from arcacct.arex.resident import RecorderLock
from arcacct.arex.spool import LauncherSettings, launcher_settings
from arcacct.arex.sweep import save_sweep
from arcacct.config.check import check
from arcacct.config.parser import load
from arcacct.config.paths import BY_DEFAULT
from arcacct.config.review import STATES
from arcacct.config.settings import settings
from arcacct.config.values import Limit
from arcacct.database import access, location, moving, upkeep
from arcacct.database.durable import SNAPSHOT, log_done
from arcacct.database.schema import note
from arcacct.errors import ArcacctError
from arcacct.files.directories import resource
from arcacct.health import checks, doctor, doctor_checks, doctor_host, facts
from arcacct.health.doctor_checks import Process, Site
from arcacct.health.doctor_host import mount_of
from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING, Check, Disk, Thresholds, disk_check
from arcacct.records import recorder
from arcacct.sandbox import Sandbox, authority
from arcacct.targets import kinds


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Iterator[Sandbox]:
    """Receivers for all of these tests: none of them may be sent anything."""
    with Sandbox(str(tmp_path_factory.mktemp("box"))) as running:
        yield running
        received = pathlib.Path(running.received)
        assert [path for path in received.rglob("*") if path.is_file()] == []


@pytest.fixture
def clinic(tmp_path) -> Clinic:
    """A site that records and has no target."""
    return Clinic(tmp_path)


@pytest.fixture(scope="module")
def anybodys(tmp_path_factory) -> Clinic:
    """One for the tests that break its configuration or its launcher alone."""
    return Clinic(tmp_path_factory.mktemp("clinic"))


@pytest.fixture
def mended(anybodys) -> Clinic:
    """The same, in order again."""
    anybodys.in_order()
    return anybodys


@pytest.fixture
def live(tmp_path, box) -> Clinic:
    """A site that has everything."""
    box.faults.clear()
    made = Clinic(tmp_path, box, ALL)
    made.live()
    return made


def about(found: list[Check], what: str) -> Check:
    """The one verdict on a thing that is not ok."""
    (one,) = [one for one in found if one.subject == what and one.severity != OK]
    return one


def test_a_site_in_order(live, box) -> None:
    """Nothing but ok, from the ground up; the receivers were asked, and were sent nothing."""
    asked = box.servers["sgas"].requests
    before = contents(live.control)

    found = live.verdicts(offline=False)

    assert [one.text for one in found if one.severity != OK] == []
    assert {one.exit_code for one in found} == {0}
    names = list(dict.fromkeys(one.subject for one in found))
    assert names.index("configuration") < names.index("launcher") < names.index("database") < names.index("targets")
    assert names[-8:] == [
        *("apel:a name", "apel:a server", "apel:a server clock", "apel:a token", "apel:a token clock"),
        *("auditor:r name", "auditor:r server", "auditor:r server clock"),
    ]
    assert box.servers["sgas"].requests == asked + 1
    assert contents(live.control) == before


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file below, but for what SQLite makes of any database that is looked at."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): path.read_bytes() for path in files if not path.name.endswith(("-wal", "-shm"))}


def test_offline_asks_nobody(live, box) -> None:
    """No connection and no name; that the receivers were not asked is said."""
    asked = [server.connections for server in box.servers.values()]

    found = live.verdicts(offline=True)

    assert [one.subject for one in found if one.severity != OK] == ["receivers"]
    assert about(found, "receivers").severity == UNKNOWN
    assert [server.connections for server in box.servers.values()] == asked


def callout_for_no_state(site: Clinic) -> None:
    site.lines.append(f"statecallout=RUNNING {OPTIONS} {site.launcher} %C %I %S")


def jura(site: Clinic) -> None:
    site.lines += ["[arex/jura]", "[arex/jura/apel:b]", "targeturl=https://msg.example.org", "gocdb_name=S"]


def misspelt(site: Clinic) -> None:
    site.ours = "settel=1\n"


def same_receiver_twice(site: Clinic) -> None:
    site.targets = "".join(
        f"[arcacct/directory:{name}]\npath={site.path}\ngocdb_name=S\napel_messages={kind}\n"
        for name, kind in (("one", "individual"), ("two", "summaries"))
    )


def arex_writes_the_file(site: Clinic) -> None:
    site.ours = f"database={site.control}/accounting/accounting.db\n"


BROKEN_TEXTS = {
    breakages.a_callout_without_options: ("callouts", CRITICAL, "has no options between state and program", 78),
    breakages.a_callout_that_fails_jobs: ("callouts", WARNING, "would fail the user's job", 0),
    breakages.a_callout_with_other_arguments: ("callouts", CRITICAL, "end it with %C %I %S", 78),
    breakages.no_callouts: ("callouts", CRITICAL, "no statecallout= lines of arcacct", 78),
    breakages.no_callout_for_the_end: ("callouts", WARNING, "missing for FINISHED", 0),
    breakages.a_state_with_two_callouts: ("callouts", WARNING, "is the second for ACCEPTED", 0),
    callout_for_no_state: ("callouts", CRITICAL, "RUNNING is not a state", 78),
    jura: ("jura", CRITICAL, "would publish in addition to arcacct", 78),
    misspelt: ("configuration", CRITICAL, "did you mean settle?", 78),
    same_receiver_twice: ("configuration", CRITICAL, "goes to the same receiver as directory:one", 78),
    arex_writes_the_file: ("configuration", CRITICAL, "this is the file that A-REX writes", 78),
}


@pytest.mark.parametrize("broken", BROKEN_TEXTS, ids=lambda broken: broken.__name__)
def test_what_is_wrong_with_the_text(mended, broken) -> None:
    """Each mistake in arc.conf or arcacct.conf is a line with what to do, whatever else can still be looked at."""
    what, verdict, words, exit_code = BROKEN_TEXTS[broken]
    broken(mended)
    mended.configure()

    one = about(mended.verdicts(), what)

    assert (one.severity, one.exit_code) == (verdict, exit_code)
    assert words in one.text
    assert one.advice


def test_callouts_of_the_other_version(clinic) -> None:
    """A-REX 7, known by the database that it writes, has one state more; A-REX 6 does not start with a line for it."""
    (clinic.control / "accounting" / "accounting_v2.db").touch()
    assert "missing for INLRMS" in about(clinic.verdicts(), "callouts").detail

    clinic.lines.append(f"statecallout=INLRMS {OPTIONS} {clinic.launcher} %C %I %S")
    clinic.configure()
    assert [one.severity for one in clinic.verdicts() if one.subject == "callouts"] == [OK]

    (clinic.control / "accounting" / "accounting_v2.db").rename(clinic.control / "accounting" / "accounting.db")
    wrong = about(clinic.verdicts(), "callouts")
    assert (wrong.severity, wrong.exit_code) == (CRITICAL, 78)
    assert "INLRMS has no callout in A-REX 6 (by its database" in wrong.detail


def test_a_site_without_a_target(mended) -> None:
    """Nothing is wrong with recording alone, but it is said."""
    found = mended.verdicts()
    assert "nothing is published" in about(found, "targets").detail
    assert [about(found, what).severity for what in ("targets", "certificate")] == [WARNING, UNKNOWN]


def test_a_host_that_only_records(mended) -> None:
    """With publishes=no nothing is missing."""
    mended.ours += "publishes=no\n"
    mended.configure()
    assert [one.severity for one in mended.verdicts() if one.subject == "targets"] == [OK]


def test_jura_that_may_publish_too(mended) -> None:
    """With allow_jura the targets are named, as in `status`."""
    jura(mended)
    mended.ours = "allow_jura=yes\n"
    mended.configure()

    (one,) = [one for one in mended.verdicts() if one.subject == "jura"]

    assert (one.severity, "arex/jura/apel:b" in one.detail) == (OK, True)


def of_0_2(site: Clinic) -> None:
    site.put(LAUNCHER_OF_0_2)


def arcacct_record(site: Clinic) -> None:
    """As an environment of arcacct has it: the program of 0.2 now runs the launcher of its own installation."""
    for source, folder in (("arcacct-record", "bin"), ("arcacct-hook", "share/arcacct")):
        target = site.launcher.parent / folder
        target.mkdir(parents=True)
        shutil.copy(resource("etc", source), target / source)
    program = site.launcher.parent / "bin" / "arcacct-record"
    program.chmod(0o755)
    site.lines = [f"statecallout={state} {OPTIONS} {program} %C %I %S" for state in STATES]


EVENT = "version=2\ncontroldir=/control\njobid={job}\nstate=FINISHED\nfailed=no\nhashed=no\n\n\nwhole=\n"
LAUNCHER_OF_0_2 = """\
#!/bin/sh
# arcacct-hook CONTROLDIR JOBID STATE [CONF]              record one state change of a job; for statecallout of arc.conf
spool=${ARCACCT_SPOOL:-}
fallback=${ARCACCT_SPOOL_FALLBACK:-}
limit=8
exit 0
"""
"""What `arcacct doctor` looks at in one."""

BROKEN_LAUNCHERS = {
    breakages.no_launcher: (CRITICAL, "does not exist (no such file or directory): A-REX fails each job"),
    breakages.a_launcher_that_is_not_executable: (CRITICAL, "is not an executable program"),
    breakages.a_launcher_that_is_no_program: (CRITICAL, "cannot be started (Exec format error)"),
    breakages.a_launcher_that_fails: (CRITICAL, "exits with 3, and A-REX treats that as a failure"),
    of_0_2: (WARNING, "arcacct-hook is the launcher of 0.2: it starts another program for each event"),
    arcacct_record: (WARNING, "name the launcher in the statecallout lines: /usr/libexec/arcacct-hook"),
}


@pytest.mark.parametrize("broken", BROKEN_LAUNCHERS, ids=lambda broken: broken.__name__)
def test_what_is_wrong_with_the_launcher(mended, broken) -> None:
    """It is told before A-REX fails a job by it, and nothing of the site is written meanwhile."""
    verdict, words = BROKEN_LAUNCHERS[broken]
    broken(mended)
    mended.configure()
    before = contents(mended.control)

    one = about(mended.verdicts(), "launcher")

    assert (one.severity, one.exit_code) == (verdict, 78 if verdict == CRITICAL else 0)
    assert words in one.text
    assert contents(mended.control) == before


def test_what_a_launcher_says_of_itself(tmp_path) -> None:
    """As it comes, and with lines that an administrator has edited in either way; another program says nothing."""
    shipped = resource("etc", "arcacct-hook")
    assert launcher_settings(str(shipped)) == LauncherSettings()
    edited = pathlib.Path(shipped).read_text(encoding="ascii")
    edited = edited.replace("SPOOL_FALLBACK:-}", "SPOOL_FALLBACK:-/disk2/spool}")
    (tmp_path / "hook").write_text(edited.replace("\nspool=${ARCACCT_SPOOL:-}", "\nspool='/disk1/spool'"))
    assert launcher_settings(str(tmp_path / "hook")) == LauncherSettings("/disk1/spool", "/disk2/spool")
    (tmp_path / "old").write_text(LAUNCHER_OF_0_2.replace("SPOOL:-}", "SPOOL:-/disk1/spool}"))
    assert launcher_settings(str(tmp_path / "old")) == LauncherSettings("/disk1/spool", is_new=False)
    assert launcher_settings("/bin/sh") is None


@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["safe", "unsafe"])
@pytest.mark.parametrize("what", ["launcher", "directory"])
def test_a_launcher_that_others_can_change_is_not_run(mended, tmp_path, what, mode) -> None:
    """The doctor is run by root: it starts nothing that another user may have put there."""
    mended.put(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    (mended.launcher if what == "launcher" else mended.launcher.parent).chmod(mode)

    found = mended.verdicts()

    assert (tmp_path / "was-run").exists() == (mode == 0o755)
    wrong = [one for one in found if one.subject == "permissions" and one.severity != OK]
    assert [one.exit_code for one in wrong] == ([] if mode == 0o755 else [78])


def test_what_a_launcher_that_hangs_has_started_is_ended(mended) -> None:
    """It has groups of processes of its own; none of them is left. A-REX would wait as long at each state of a job."""
    mended.put("#!/bin/sh\ntimeout 3600 sleep 3600\n")

    one = about(mended.verdicts(question_s=1.0), "launcher")

    assert (one.severity, one.exit_code) == (CRITICAL, 78)
    assert "did not end within 1 s, although it had nothing to record" in one.detail
    assert [one.pid for one in psutil.Process().children(recursive=True) if "sleep" in one.name()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_a_launcher_of_another_user(clinic) -> None:
    """The owner decides what A-REX runs; if A-REX runs as this user, only this user can try the launcher."""
    os.chown(clinic.launcher, 65534, 65534)
    (one,) = wrong_permissions(clinic)
    assert (one.severity, one.exit_code, one.advice) == (CRITICAL, 78, f"chown root {clinic.launcher}")
    assert "nobody, the owner, can change" in one.detail
    clinic.processes = [Process(4242, (), 65534)]
    one = about(clinic.verdicts(), "launcher")
    assert (one.severity, one.advice) == (UNKNOWN, "run `arcacct doctor` as nobody")


def other_key(site: Clinic, box: Sandbox) -> None:
    host = site.path / "host"
    key = ec.generate_private_key(ec.SECP256R1())
    form, encoding = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    (host / "hostkey.pem").write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))


def key_for_all(site: Clinic, box: Sandbox) -> None:
    (site.path / "host" / "hostkey.pem").chmod(0o644)


def ends(days: float, site: Clinic, box: Sandbox) -> None:
    now = int(time.time())
    end = now + int(days * DAY_S) + 3600
    box.authority.issue(
        "ce.example.org", not_before=now - 99 * DAY_S, not_after=end, directory=str(site.path / "host"), rsa_key=False
    )


def ends_too_soon_for_the_site(site: Clinic, box: Sandbox) -> None:
    ends(21, site, box)
    site.ours = "warn_certificate=60\ncrit_certificate=4w"


def no_certificate(site: Clinic, box: Sandbox) -> None:
    (site.path / "host" / "hostcert.pem").unlink()


def no_authorities(site: Clinic, box: Sandbox) -> None:
    (site.path / "empty").mkdir()
    site.common = f"x509_cert_dir={site.path}/empty\n"


def stale_list(site: Clinic, box: Sandbox) -> None:
    folder = site.path / "certificates"
    shutil.copytree(box.ca_dir, folder)
    name = next(one.name for one in folder.iterdir())
    key, then = ec.generate_private_key(ec.SECP256R1()), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(box.authority.certificate.subject)
    builder = builder.last_update(then).next_update(then + dt.timedelta(30))
    (folder / f"{name[:8]}.r0").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    site.common = f"x509_cert_dir={folder}\n"


BROKEN_CREDENTIALS: dict[str, tuple[Callable[[Clinic, Sandbox], None], str, str, str, int]] = {
    "key of another": (other_key, "key", CRITICAL, "is not the key of", 77),
    "key for all": (key_for_all, "key", WARNING, "chmod 600", 0),
    "expired": (functools.partial(ends, -2), "certificate", CRITICAL, "expired at", 77),
    "an hour left": (functools.partial(ends, 0.04), "certificate", CRITICAL, "within a day", 77),
    "ten days left": (functools.partial(ends, 10), "certificate", WARNING, "10 days left; order a new one", 0),
    "three weeks left": (functools.partial(ends, 21), "certificate", WARNING, "21 days left; order a new one", 0),
    "limits of the site": (ends_too_soon_for_the_site, "certificate", CRITICAL, "order a new one", 77),
    "no certificate": (no_certificate, "certificate", CRITICAL, "cannot be read", 77),
    "no CAs": (no_authorities, "CA directory", CRITICAL, "has no CA certificate under a hashed name", 78),
    "stale CRL": (stale_list, "CRLs", WARNING, "run fetch-crl", 0),
}


@pytest.mark.parametrize("name", BROKEN_CREDENTIALS)
def test_what_is_wrong_with_credentials(tmp_path, box, name) -> None:
    """Certificate, key and CAs, each as a file that is really so."""
    broken, what, verdict, words, exit_code = BROKEN_CREDENTIALS[name]
    site = Clinic(tmp_path, box, SGAS)
    broken(site, box)
    site.configure()

    one = about(site.verdicts(), what)

    assert (one.severity, one.exit_code) == (verdict, exit_code)
    assert words in one.text


def test_a_key_that_cannot_be_used_keeps_from_asking(tmp_path, box) -> None:
    """That is told at the target, too, as a run would."""
    site = Clinic(tmp_path, box, SGAS)
    other_key(site, box)
    one = about(site.verdicts(offline=False), "sgas:s")
    assert (one.severity, one.exit_code, "is not the key of" in one.text) == (CRITICAL, 77, True)


def test_a_system_without_authorities(tmp_path, box, monkeypatch) -> None:
    """AMS has a certificate of a web CA: ca_system=yes is of no use where there is none."""
    monkeypatch.setattr(tls, "SYSTEM_DIRECTORIES", (str(tmp_path / "none"), str(tmp_path)))
    monkeypatch.setattr(tls, "SYSTEM_FILES", (str(tmp_path / "none"),))
    monkeypatch.setenv("SSL_CERT_FILE", box.ca_file)
    monkeypatch.setenv("SSL_CERT_DIR", box.ca_dir)
    site = Clinic(tmp_path, box, APEL.replace("ca_system=no\n", ""))
    one = about(site.verdicts(), "CAs of the system")
    assert (one.severity, "ca-certificates" in one.advice) == (WARNING, True)


def test_a_directory_that_no_one_can_write_to(mended) -> None:
    """A target that is none of the network lacks its directory."""
    mended.targets = f"[arcacct/directory:out]\npath={mended.path}/none\ngocdb_name=S\n"
    mended.configure()
    one = about(mended.verdicts(offline=False), "directory:out")
    assert (one.severity, one.exit_code, one.advice) == (CRITICAL, 78, "create it")
    (mended.path / "none").mkdir()
    found = [one for one in mended.verdicts(offline=False) if one.subject == "directory:out"]
    assert [(one.severity, one.detail) for one in found] == [(OK, f"file://{mended.path}/none: nothing to connect to")]
    (mended.path / "none").rmdir()


def test_a_rehearsal_that_was_left(mended) -> None:
    """Whoever goes live with it has another ledger."""
    mended.ours = f"rehearsal={mended.path}/ledger\n"
    mended.configure()
    one = about(mended.verdicts(), "rehearsal")
    assert (one.severity, f"{mended.path}/ledger" in one.detail) == (WARNING, True)


def test_the_dn_is_reported_as_each_receiver_has_it(live) -> None:
    """In the order of the certificate for APEL, and as nginx hands it to SGAS."""
    (one,) = [one for one in live.verdicts() if one.subject == "DN"]
    assert "/DC=org/DC=example/O=Sandbox/CN=ce.example.org" in one.text
    assert "CN=ce.example.org,O=Sandbox,DC=example,DC=org" in one.text


def expired_at_the_receiver(site: Clinic, box: Sandbox) -> None:
    ends(-2, site, box)


def of_another_authority(site: Clinic, box: Sandbox) -> None:
    authority.create(str(site.path / "other")).issue("ce.example.org", directory=str(site.path / "host"))


def not_registered(site: Clinic, box: Sandbox) -> None:
    box.authority.issue("stranger.example.org", directory=str(site.path / "host"), rsa_key=False)


def trusts_another_authority(site: Clinic, box: Sandbox) -> None:
    site.common = f"x509_cert_dir={authority.create(str(site.path / 'other')).ca_dir}\n"


def nobody_there(site: Clinic, box: Sandbox) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        site.targets = f"[arex/jura/sgas:s]\ntargeturl=https://localhost:{free.getsockname()[1]}/sgas\n"


def no_such_name(site: Clinic, box: Sandbox) -> None:
    site.targets = "[arex/jura/sgas:s]\ntargeturl=https://sgas.invalid/sgas\n"


def another_path(site: Clinic, box: Sandbox) -> None:
    site.targets = "[arex/jura/sgas:s]\ntargeturl={sgas}/elsewhere\n"


def no_answer(site: Clinic, box: Sandbox) -> None:
    box.faults.slow("sgas", 30)


def hangs_up(site: Clinic, box: Sandbox) -> None:
    box.faults.drop("sgas")


def is_down(site: Clinic, box: Sandbox) -> None:
    box.faults.answer("ams", 503, "down")


BROKEN_WAYS = {
    expired_at_the_receiver: (SGAS, "sgas:s server", "SSL certificate error", 77),
    of_another_authority: (APEL, "apel:a token", "our certificate is rejected", 77),
    not_registered: (APEL, "apel:a token", "register the exact subject", 69),
    trusts_another_authority: (AUDITOR, "auditor:r server", "its certificate cannot be verified", 69),
    nobody_there: (SGAS, "sgas:s server", "connection refused", 75),
    no_such_name: (SGAS, "sgas:s name", "the name cannot be resolved", 75),
    another_path: (SGAS, "sgas:s server", "check targeturl", 69),
    no_answer: (SGAS, "sgas:s server", "no complete answer within 1 s", 75),
    hangs_up: (SGAS, "sgas:s server", "closed without an answer", 75),
    is_down: (APEL, "apel:a server", "HTTP 503: down", 75),
}


@pytest.mark.parametrize("broken", BROKEN_WAYS, ids=lambda broken: broken.__name__)
def test_what_is_wrong_with_the_way(tmp_path, box, broken) -> None:
    """What a receiver, or the way to it, says to us is told before any record is sent."""
    targets, what, words, exit_code = BROKEN_WAYS[broken]
    box.faults.clear()
    site = Clinic(tmp_path, box, targets)
    broken(site, box)
    site.configure()

    one = about(site.verdicts(offline=False, question_s=1.0 if broken is no_answer else 60.0), what)

    assert (one.severity, one.exit_code) == (CRITICAL, exit_code), one
    assert words in one.text
    assert one.advice, one
    box.faults.clear()


def test_a_receiver_with_the_certificate_of_another(tmp_path, box) -> None:
    """TLS stops before anything is asked there."""
    other = box.authority.issue("localhost", hosts=("other.example.org",), directory=str(tmp_path / "o"), rsa_key=False)
    receiver = ScriptedReceiver(server_context(other, box.authority))
    try:
        site = Clinic(tmp_path, box, f"[arex/jura/sgas:s]\ntargeturl=https://localhost:{receiver.port}/sgas\n")
        one = about(site.verdicts(offline=False), "sgas:s server")
    finally:
        receiver.stop()
    assert (one.exit_code, "its certificate does not have this name" in one.detail) == (69, True)


def test_a_clock_that_differs_from_the_receivers(live, box) -> None:
    """By the Date of its answer: a minute is a warning, five an error."""
    for seconds, verdict in ((120, WARNING), (-600, CRITICAL)):
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))
        box.faults.answer("sgas", 405, headers={"Date": date})
        one = about(live.verdicts(offline=False), "sgas:s server clock")
        assert (one.severity, "chronyd" in one.advice) == (verdict, True)
        assert ("behind" if seconds > 0 else "ahead of") in one.detail


def test_nobody_holds_the_doctor_up(live, box) -> None:
    """A receiver that never answers is told as such when the time is over; everything else was looked at."""
    box.faults.slow("sgas", 60)

    found = live.verdicts(offline=False, limit_s=2.0)

    one = about(found, "sgas:s")
    assert (one.severity, one.exit_code, "time limit" in one.detail) == (UNKNOWN, 75, True)
    assert found[0].subject == "configuration"
    assert {"apel:a", "auditor:r"} <= {one.subject.split(" ")[0] for one in found}
    box.faults.clear()


def test_a_check_that_fails_is_a_verdict(mended, monkeypatch) -> None:
    """Whatever it raises, the others go on."""

    def broken(site: Site) -> Iterator[Check]:
        yield Check("first", OK, "told before")
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "CHECKS", (doctor.HostCheck("broken", broken), *doctor.CHECKS))

    found = mended.verdicts()

    assert found[0].subject == "first"
    assert (found[1].subject, found[1].severity, found[1].exit_code) == ("broken", UNKNOWN, 70)
    assert {"configuration", "database"} <= {one.subject for one in found}


@pytest.mark.parametrize(
    ("kind", "verdict", "words"),
    [
        ("nfs4", CRITICAL, "network file system"),
        ("tmpfs", CRITICAL, "lost at the next boot"),
        ("xfs", OK, "is on xfs at /"),
    ],
)
def test_the_place_of_the_database(mended, kind, verdict, words) -> None:
    """SQLite needs a disk of this host's own, and one that outlives a boot."""
    mended.mounted(kind)
    (one,) = [one for one in mended.verdicts() if one.subject == "place"]
    assert (one.severity, one.exit_code) == (verdict, 74 if verdict == CRITICAL else 0)
    assert words in one.text


def test_the_file_system_that_is_meant(tmp_path) -> None:
    """The nearest mount above the path, blanks in names undone; of two at one place the later."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /data rw shared:1 - xfs /dev/b rw\n"
        "3 1 8:3 / /data rw - nfs4 server:/x rw\n4 1 8:4 / /my\\040disk rw - btrfs /dev/c rw\n"
    )
    found = [mount_of(path, str(mounts)) for path in ("/data/arc", "/database", "/my disk/arc")]
    assert [one.kind for one in found if one is not None] == ["nfs4", "ext4", "btrfs"]
    assert mount_of("/", str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("free_bytes", "free_files", "days", "verdict", "words"),
    [
        (10**11, 10**6, None, OK, "93.1 GiB free"),
        (10**11, None, 4000, OK, "enough for years"),
        (10**11, 10**6, 30, OK, "enough for 30 days"),
        (10**11, 10**6, 29, WARNING, "arcacct db prune"),
        (10**11, 10**6, 7, WARNING, "arcacct db prune"),
        (10**11, 10**6, 6, CRITICAL, "free disk space: if database"),
        (10**8, 10**6, None, CRITICAL, "free disk space: if database"),
        (10**11, 5000, 4000, WARNING, "room for only 5000 files (inodes)"),
        (10**11, 1, 4000, CRITICAL, "room for only 1 file (inodes)"),
    ],
)
def test_the_room_that_is_left(free_bytes, free_files, days, verdict, words) -> None:
    """In bytes, in files and in days at the present pace."""
    one = disk_check(Disk("/db", free_bytes, free_files, days), Thresholds())
    assert one.severity == verdict
    assert words in one.text


@pytest.mark.parametrize("limit", Thresholds(), ids=Thresholds._fields)
def test_a_limit_is_reported_from_its_value_on_or_below_it(limit: Limit) -> None:
    """What should not grow is reported as soon as it reaches the limit; what should not run out only below it."""
    if limit.is_minimum:
        judged = {limit.warning: OK, limit.warning - 1: WARNING, limit.critical: WARNING, limit.critical - 1: CRITICAL}
    else:
        judged = {limit.warning - 1: OK, limit.warning: WARNING, limit.critical - 1: WARNING, limit.critical: CRITICAL}
    severity = facts.under if limit.is_minimum else facts.over

    assert {value: severity(value, limit) for value in judged} == judged


def test_how_long_the_disk_will_do(clinic) -> None:
    """By the jobs of the last week; without any no one knows."""
    (one,) = facts.look(clinic.here, None).disks
    assert one.days is None
    clinic.live(jobs=7)
    (one,) = facts.look(clinic.here, None).disks
    assert one.days == one.free_bytes // 1700


def test_no_database_yet(tmp_path) -> None:
    """Before `db init` that is the error, with the command."""
    site = Clinic(tmp_path)
    shutil.rmtree(site.control / "accounting")
    one = about(site.verdicts(), "database")
    assert (one.severity, one.exit_code, "`arcacct db init`" in one.advice) == (CRITICAL, 74, True)


def test_no_control_directory(clinic) -> None:
    """A directory that A-REX has not set up, or another than A-REX runs with."""
    (clinic.path / "arched-arex.cfg").write_text(f"[arex]\ncontroldir={clinic.path}/another\n")
    one = about(clinic.verdicts(), "control directory")
    assert (one.exit_code, f"A-REX runs with {clinic.path}/another" in one.detail) == (78, True)

    shutil.rmtree(clinic.control)
    assert "no such control directory" in about(clinic.verdicts(), "control directory").detail


def test_a_directory_that_does_not_exist_is_never_ok(clinic) -> None:
    """Place, disk, spool, recorder and clock could not look: each says so, with the directory, and none says ok."""
    looked = ("place", "disk", "spool", "recorder service", "clock", "control directory", "database")

    def said_of(subjects: tuple[str, ...]) -> dict[str, list[Check]]:
        found = clinic.verdicts()
        return {subject: [one for one in found if one.subject == subject] for subject in subjects}

    shutil.rmtree(clinic.here.directory)
    for subject, found in said_of(looked[:5]).items():
        assert [one.severity for one in found] == [UNKNOWN], (subject, found)
        assert subject == "clock" or clinic.here.directory in found[0].detail
    shutil.rmtree(clinic.control)
    for subject, found in said_of(looked).items():
        assert found, subject
        assert OK not in [one.severity for one in found], (subject, found)


def test_another_program_of_the_launchers_name_is_unknown(mended) -> None:
    """It ends well and in time, and may do nothing."""
    mended.put("#!/bin/sh\nexit 0\n")
    (one,) = [one for one in mended.verdicts() if one.subject == "launcher"]
    assert (one.severity, "is not the launcher of arcacct" in one.detail) == (UNKNOWN, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_configuration_of_a_rex_that_is_closed_is_unknown(public_dir) -> None:
    """Whether A-REX runs with this control directory cannot be compared."""
    made = Clinic(public_dir)
    (public_dir / "arched-arex.cfg").write_text("[arex]\n")
    (public_dir / "arched-arex.cfg").chmod(0o600)
    with acting_as("nobody"):
        found = [*doctor_checks.control_directory(made.site())]
    assert [(one.severity, "arched-arex.cfg" in one.detail) for one in found] == [(UNKNOWN, True)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_another_user_is_not_told_that_things_are_missing(public_dir) -> None:
    """The database and the directory of a target exist, and only their owner may use them."""
    made = Clinic(public_dir)
    made.live()
    messages = public_dir / "messages"
    messages.mkdir(mode=0o700)
    made.targets = f"[arcacct/directory:x]\npath={messages}\ngocdb_name=X\napel_messages=urs\n"
    made.configure()
    with acting_as("nobody"):
        verdicts = made.verdicts()
    assert about(verdicts, "history").detail == "the database cannot be read"
    said_of_it = about(verdicts, "directory:x").text
    assert f"this user may not write to the directory {messages}; run as the user of A-REX" in said_of_it


def test_a_spool_below_a_missing_directory_is_not_empty(clinic) -> None:
    """A spool is made with its first event, so it may be missing; what it would be in may not."""
    assert [one.severity for one in clinic.verdicts() if one.subject == "spool"] == [OK]
    clinic.ours += f"database={clinic.path}/unmounted/accounting.db\n"
    clinic.configure()
    (one,) = [one for one in clinic.verdicts() if one.subject == "spool"]
    assert (one.severity, f"{clinic.path}/unmounted: No such file or directory" in one.detail) == (UNKNOWN, True)


def test_callouts_without_a_control_directory_are_an_error(clinic, capsys) -> None:
    """With database= a host may be without A-REX; not one whose arc.conf calls the launcher."""
    clinic.ours += f"database={clinic.path}/db/accounting.db\n"
    clinic.configure()
    shutil.rmtree(clinic.control)
    one = about(clinic.verdicts(), "control directory")
    assert (one.severity, one.exit_code, "no such control directory" in one.detail) == (CRITICAL, 78, True)
    checked = said(capsys, "--config", clinic.conf, "config", "check")
    assert "no such control directory, but [arex] has callouts" in checked.stderr


def test_ca_certificates_that_cannot_be_read_are_not_counted(tmp_path, box) -> None:
    """Links to files that were removed are not CAs; none that can be read is an error."""
    made = Clinic(tmp_path, box, SGAS)
    folder = tmp_path / "cas"
    shutil.copytree(box.ca_dir, folder)
    (folder / "0a0a0a0a.0").symlink_to(folder / "removed.pem")
    made.common = f"x509_cert_dir={folder}\n"
    made.configure()
    one = about(made.verdicts(), "CA directory")
    assert (one.severity, "1 of 2 CA certificates cannot be read: 0a0a0a0a.0" in one.detail) == (WARNING, True)
    for path in folder.iterdir():
        if path.name.endswith(".0"):
            path.unlink()
    (folder / "0a0a0a0a.0").symlink_to(folder / "removed.pem")
    one = about(made.verdicts(), "CA directory")
    assert (one.severity, "1 of 1 CA certificate cannot be read" in one.detail) == (CRITICAL, True)


def test_a_host_without_arex(clinic) -> None:
    """With database= and no control directory nothing is expected of A-REX, unless arc.conf names a directory."""
    clinic.ours = f"database={clinic.path}/db/accounting.db\n"
    clinic.lines = []
    clinic.processes = []
    clinic.configure()
    shutil.rmtree(clinic.control)

    def wrong() -> set[str]:
        return {one.subject for one in clinic.verdicts() if one.severity in (WARNING, CRITICAL)}

    assert wrong() >= {"control directory", "A-REX", "callouts"}
    clinic.conf.write_text(clinic.conf.read_text().replace("controldir=", "#"))
    assert wrong() == {"database", "targets"}


def test_arex_that_does_not_run_or_writes_our_file(mended) -> None:
    """Seen by its processes and by what they have open."""
    mended.processes = []
    assert about(mended.verdicts(), "A-REX").severity == WARNING
    mended.processes = [Process(77, ("/var/log/arc/arex.log", mended.here.database))]
    one = about(mended.verdicts(), "A-REX")
    assert (one.severity, one.exit_code, "process 77" in one.detail) == (CRITICAL, 74, True)


def test_a_process_of_arex_is_found(tmp_path) -> None:
    """By the name that A-REX runs under, with the files that it has open."""
    program = shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "arched")
    (tmp_path / "open").touch()
    with open(tmp_path / "open", encoding="ascii") as file, subprocess.Popen([program, "60"], stdin=file) as running:
        try:
            # It has its name once it runs.
            while "arched" not in pathlib.Path(f"/proc/{running.pid}/comm").read_text(encoding="ascii"):
                time.sleep(0.01)
            found = {one.pid: one for one in doctor_checks.Site(load_nothing(), None).processes}
        finally:
            running.kill()
    assert str(tmp_path / "open") in found[running.pid].files
    assert found[running.pid].user == os.geteuid()


def load_nothing():
    """A configuration that is not there."""
    from arcacct.config.parser import Conf

    return Conf("/nonexistent/arc.conf", "/nonexistent/arcacct.conf")


def test_records_that_no_one_of_us_wrote(live) -> None:
    """A-REX, set to the same file, leaves records without what ours have."""
    with closing(access.open_accounting(live.here)) as con, access.writing(con, live.here):
        con.execute("DELETE FROM StatusFiles")
    one = about(live.verdicts(), "writers")
    assert (one.exit_code, "3 of the newest records" in one.detail) == (74, True)


def test_what_waits_in_the_spools(clinic) -> None:
    """Old events, files that were set aside, and a spool of the launcher's own that no sweep looks at."""
    spool = pathlib.Path(clinic.here.spool)
    (spool / "unusable").mkdir(parents=True)
    (spool / "1-FINISHED-new").touch()
    assert [one.severity for one in clinic.verdicts() if one.subject == "spool"] == [OK]

    (spool / "2-FINISHED-old").touch()
    os.utime(spool / "2-FINISHED-old", (time.time() - 7300,) * 2)
    (spool / "unusable" / "torn").touch()
    one, each = [one for one in clinic.wrong() if one.subject == "spool"]
    assert (one.severity, "2 events, the oldest" in one.detail, "1 file in spool/unusable" in one.detail) == (
        WARNING,
        True,
        True,
    )
    assert f"{spool}/unusable/torn: it is not an event of arcacct" in each.detail

    own = clinic.path / "own"
    own.mkdir()
    (own / "1-FINISHED-lost").touch()
    clinic.install(spool=str(own))
    found = about(clinic.verdicts(), "launcher spool")
    assert (found.severity, found.exit_code, "1 event, the oldest" in found.detail) == (CRITICAL, 78, True)


@pytest.mark.parametrize(
    ("name", "content", "what", "advice"),
    [
        (
            "1-FINISHED-job0",
            EVENT.format(job="job0"),
            "job0 FINISHED at 2026-",
            "the end of the job is recorded (`arcacct job job0`)",
        ),
        ("1-FINISHED-begun", EVENT.format(job="begun"), "without the job's files", "to try it again: `mv "),
        (
            "1-FINISHED-lost",
            EVENT.format(job="lost"),
            "without the job's files",
            "the job is not recorded: `arcacct import arex`",
        ),
        ("1-FINISHED-torn", "version=2\n", "only its name can be used", "the job is not recorded"),
        ("1-FINISHED-new", "version=3\n", "another program, or a newer arcacct", "install the arcacct that wrote it"),
    ],
    ids=["recorded", "known", "unknown", "torn", "foreign"],
)
def test_what_to_do_with_each_file_that_no_sweep_can_use(clinic, name, content, what, advice) -> None:
    """It depends on what else is known of the job."""
    clinic.live(1)
    with closing(access.open_accounting(clinic.here)) as con, access.writing(con, clinic.here):
        recorder.record(con, change("begun", "PREPARING", int(time.time())))
    unusable = pathlib.Path(clinic.here.spool, "unusable")
    unusable.mkdir(parents=True)
    (unusable / name).write_text(content)

    found = [one for one in clinic.verdicts() if one.detail.startswith(f"{unusable}/{name}: ")]

    assert [(one.severity, one.exit_code, what in one.detail, advice in one.advice) for one in found] == [
        (WARNING, 0, True, True)
    ], found
    (spool,) = [one for one in clinic.verdicts() if one.subject == "spool" and "1 file in spool/unusable" in one.detail]
    assert spool.advice == "`arcacct doctor` says what to do with each file in spool/unusable"


def test_a_recorder_that_runs_is_seen_by_its_lock(clinic) -> None:
    """Without one, events wait for the next sweep: wrong only where its service is enabled."""

    def service() -> Check:
        (one,) = [one for one in clinic.verdicts() if one.subject == "recorder service"]
        return one

    assert (service().severity, service().detail) == (OK, "no recorder runs: events wait for the next sweep")
    lock = RecorderLock(clinic.here)
    lock.hold()
    assert (service().severity, f"process {os.getpid()} records" in service().detail) == (OK, True)
    lock.release()
    assert service().detail.startswith("no recorder runs")


def test_a_service_that_is_enabled_and_does_not_run(clinic, monkeypatch, tmp_path) -> None:
    """The advice starts it."""
    (tmp_path / "wanted").symlink_to("/dev/null")
    monkeypatch.setattr(resident, "_WANTED", str(tmp_path / "wanted"))
    one = about(clinic.verdicts(), "recorder service")
    assert (one.severity, one.exit_code, one.advice) == (WARNING, 0, "systemctl enable --now arcacct-recorder.service")


def wrong_permissions(site: Clinic, *parts: str) -> list[Check]:
    """What `arcacct doctor` and `arcacct setup` find wrong with owners and modes."""
    found = site.site()
    return [
        one for part in parts or doctor_host.PARTS for one in doctor_host.ownership(found, part) if one.severity != OK
    ]


NEXT_TO_THE_DATABASE = (
    *("", "accounting.db", "accounting.db-wal", "accounting.db-shm"),
    *("publishing.db", "publishing.db-wal", "publishing.db-shm", "queue.lock", "import.lock", "publishing.lock"),
    *("publishing.locks", "maintenance", "care.json", "check.json", "reports.json", "pseudonyms.key", "archive.db"),
    *("backups", "spool"),
)
TRUSTED_PATHS = {
    **dict.fromkeys(("arc.conf", "arcacct.conf", "arc.conf.d", "arc.conf.d/more.conf"), 78),
    **dict.fromkeys(("libexec", "libexec/arcacct-hook"), 78),
    **dict.fromkeys(("control", "control/accepting", "control/finished", "control/accounting"), 74),
    "control/accounting/arcacct.place": 74,
    **dict.fromkeys((f"control/accounting/arcacct/{name}".rstrip("/") for name in NEXT_TO_THE_DATABASE), 74),
    **dict.fromkeys(("rehearsed", "rehearsed/publishing.db", "fallback", "former/spool", "readers"), 74),
}
"""What arcacct reads as its own or writes, below the site's directory, and the exit code if others can change it."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Clinic:
    """A site with each file that arcacct trusts, where A-REX runs as root."""
    made = Clinic(tmp_path_factory.mktemp("guarded"))
    made.processes = [Process(4242, (), os.geteuid())]
    made.ours = f"rehearsal={made.path}/rehearsed\nspool_fallback={made.path}/fallback\n"
    made.configure()
    note = location.read(made.here)
    assert note is not None
    location.write(made.here, note._replace(former=(f"{made.path}/former",)))
    log_done(made.here.directory, SNAPSHOT, life="of a copy", path=f"{made.path}/readers/accounting.db")
    for name in TRUSTED_PATHS:
        path = made.path / name
        if not path.exists():
            is_file = path.name == "maintenance" or (path.suffix and path.suffix not in (".d", ".locks"))
            (path.parent if is_file else path).mkdir(parents=True, exist_ok=True)
            if is_file:
                path.touch()
    (made.path / "readers/accounting.db").touch()
    assert wrong_permissions(made) == []
    return made


def owned_by_another(path: pathlib.Path) -> str:
    os.chown(path, 65534, -1)
    return "nobody, the owner, can change"


def writable_by_a_group(path: pathlib.Path) -> str:
    os.chown(path, -1, 65534)
    path.chmod(path.stat().st_mode | 0o020)
    return f"each member of group {grp.getgrgid(65534).gr_name} can change"


def writable_by_all(path: pathlib.Path) -> str:
    path.chmod(path.stat().st_mode | 0o002)
    return "every user can change"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
@pytest.mark.parametrize(
    ("name", "broken"),
    cross(len(TRUSTED_PATHS), [*TRUSTED_PATHS], [owned_by_another, writable_by_a_group, writable_by_all]),
)
def test_each_path_that_others_can_change_is_an_error(guarded, name, broken) -> None:
    """The verdict says who can change which path, and its command corrects it."""
    path = guarded.path / name
    who = broken(path)

    (one,) = wrong_permissions(guarded)

    assert (one.severity, one.detail, one.exit_code) == (CRITICAL, f"{who} {path}", TRUSTED_PATHS[name])
    subprocess.run(one.advice, shell=True, check=True)
    assert wrong_permissions(guarded) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
@pytest.mark.parametrize("broken", [owned_by_another, writable_by_a_group, writable_by_all])
def test_a_directory_above_that_others_can_change_is_an_error(guarded, broken) -> None:
    """Such users can replace the configuration, the launcher and the databases."""
    who = broken(guarded.path)
    found = wrong_permissions(guarded)
    assert [(one.detail, one.exit_code) for one in found] == [(f"{who} {guarded.path}", code) for code in (78, 78, 74)]
    assert len({one.advice for one in found}) == 1
    subprocess.run(found[0].advice, shell=True, check=True)
    assert wrong_permissions(guarded) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_several_paths_with_one_fault_are_one_verdict(guarded) -> None:
    """One command corrects all of them."""
    for name in ("control", "control/finished", "control/accounting/arcacct/publishing.db"):
        owned_by_another(guarded.path / name)
    (one,) = wrong_permissions(guarded)
    assert one.advice.count(str(guarded.path)) == 3
    subprocess.run(one.advice, shell=True, check=True)
    assert wrong_permissions(guarded) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_the_user_of_arex_is_that_of_its_process(clinic) -> None:
    """Without a process, its configuration names it. The owner of the control directory may be wrong itself."""
    os.chown(clinic.control, 65534, -1)
    clinic.processes = [Process(4242, (), 0)]
    (one,) = wrong_permissions(clinic)
    assert one.advice == f"chown root {clinic.control}"
    clinic.processes = []
    (clinic.path / "arched-arex.cfg").write_text("[arex]\nuser=root\n")
    assert [one.advice for one in wrong_permissions(clinic)] == [f"chown root {clinic.control}"]
    (clinic.path / "arched-arex.cfg").write_text("[arex]\nuser=nobody:nogroup\n")
    (one,) = wrong_permissions(clinic)
    assert "nobody, the user of A-REX, cannot write" in one.detail
    assert one.advice.startswith(f"chown nobody {clinic.here.database} ")
    (clinic.path / "arched-arex.cfg").unlink()
    assert [found.advice for found in wrong_permissions(clinic)] == [one.advice]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_a_spool_that_its_owner_cannot_write(clinic) -> None:
    """A launcher that runs as root writes there in spite of the mode."""
    os.makedirs(clinic.here.spool, 0o500)
    assert wrong_permissions(clinic) == []
    subprocess.run(["chown", "-R", "nobody", clinic.control], check=True)
    (one,) = wrong_permissions(clinic)
    assert (one.advice, one.exit_code) == (f"chmod u+w {clinic.here.spool}", 74)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_in_a_directory_like_tmp_only_new_names_and_names_of_others_are_wrong(clinic) -> None:
    """A spool that another user could create first, and a link that its owner can replace."""
    (clinic.path / "tmp").mkdir()
    (clinic.path / "tmp").chmod(0o1777)
    clinic.ours = f"spool_fallback={clinic.path}/tmp/spool\n"
    clinic.configure()
    (one,) = wrong_permissions(clinic)
    assert one.detail == f"every user can create {clinic.path}/tmp/spool"
    subprocess.run(one.advice, shell=True, check=True)
    assert wrong_permissions(clinic) == []

    (clinic.path / "tmp/spool").rename(clinic.path / "tmp/other")
    (clinic.path / "tmp/spool").symlink_to("other")
    assert wrong_permissions(clinic) == []
    os.chown(clinic.path / "tmp/spool", 65534, -1, follow_symlinks=False)
    (one,) = wrong_permissions(clinic)
    assert one.advice == f"chown -h root {clinic.path}/tmp/spool"
    subprocess.run(one.advice, shell=True, check=True)
    assert wrong_permissions(clinic) == []


@pytest.mark.parametrize("target", ["../elsewhere/arcacct.conf", "{}/elsewhere/arcacct.conf"])
def test_a_configuration_behind_a_link(clinic, target) -> None:
    """The directories of its target count as well."""
    (clinic.path / "elsewhere").mkdir()
    (clinic.path / "links").mkdir()
    (clinic.path / "arcacct.conf").rename(clinic.path / "elsewhere/arcacct.conf")
    (clinic.path / "links/conf").symlink_to(target.format(clinic.path))
    (clinic.path / "arcacct.conf").symlink_to("links/conf")
    assert wrong_permissions(clinic) == []
    for name in ("links", "elsewhere"):
        writable_by_all(clinic.path / name)
        (one,) = wrong_permissions(clinic)
        subprocess.run(one.advice, shell=True, check=True)
        assert os.path.samefile(one.detail.split()[-1], clinic.path / name)
    assert wrong_permissions(clinic) == []


def test_an_access_control_list_that_lets_others_write_is_an_error(clinic) -> None:
    """The mode of the group is then the most that its users may do."""
    users = ((1, 7, 2**32 - 1), (2, 6, 65534), (4, 5, 2**32 - 1), (16, 7, 2**32 - 1), (32, 5, 2**32 - 1))
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in users)
    os.chown(clinic.conf, -1, os.geteuid())
    try:
        os.setxattr(clinic.conf, "system.posix_acl_access", content)
    except OSError:
        pytest.skip("this file system has no access control lists")
    (one,) = wrong_permissions(clinic)
    assert (one.detail, one.exit_code) == (f"a user of the access control list can change {clinic.conf}", 78)
    subprocess.run(one.advice, shell=True, check=True)
    assert wrong_permissions(clinic) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_a_directory_of_messages_may_belong_to_their_reader(clinic) -> None:
    """Also to a group. It is an error if every user can change messages, or a third user the directories above."""
    folder = clinic.path / "above" / "out"
    folder.mkdir(parents=True)
    clinic.targets = f"[arcacct/directory:out]\npath={folder}\ngocdb_name=S\n"
    clinic.configure()
    owned_by_another(folder.parent)
    (one,) = wrong_permissions(clinic)
    assert (one.exit_code, one.advice) == (78, f"chown root {folder.parent}")
    owned_by_another(folder)
    assert wrong_permissions(clinic) == []
    os.chown(folder, 0, 65534)
    os.chown(folder.parent, 0, 0)
    folder.chmod(0o2770)
    assert wrong_permissions(clinic) == []
    folder.chmod(0o2777)
    (one,) = wrong_permissions(clinic)
    assert one.advice == f"chmod o-w {folder}"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_who_may_not_look(public_dir) -> None:
    """What he cannot see is not reported as missing."""
    site = Clinic(public_dir)
    site.live()
    with acting_as("nobody"):
        found = site.verdicts()
    one = about(found, "database")
    assert (one.severity, one.exit_code, "cannot be read by nobody" in one.detail) == (CRITICAL, 74, True)
    assert [one.advice for one in found if "the doctor runs as nobody" in one.detail] == [
        "run `arcacct doctor` as root"
    ]
    assert "db init" not in "".join(one.text for one in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_launcher_in_a_closed_directory_is_unknown(public_dir) -> None:
    """A-REX is root, and can start what this user cannot see: it is not reported as missing, nor as well."""
    site = Clinic(public_dir)
    site.launcher.parent.chmod(0o700)
    text = (
        f"{site.launcher}: the launcher cannot be examined (permission denied): it is unknown whether A-REX can start"
        " it; run as root"
    )
    conf = load(str(site.conf), {})

    with acting_as("nobody"):
        one = about(site.verdicts(), "launcher")
        (found,) = [found for found in check(conf, kinds()) if found.option == "statecallout"]
        state = facts.examine(settings(conf, kinds()))

    assert (one.severity, one.exit_code, one.text) == (UNKNOWN, 78, text)
    assert (found.severity, found.text) == ("warning", text)
    (shown,) = [shown for shown in checks.judge(state, Thresholds()) if shown.subject == "launcher"]
    assert (shown.severity, shown.text) == (UNKNOWN, text)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_closed_control_directory_is_not_reported_as_missing(public_dir) -> None:
    """By the doctor, by what looks for A-REX's database, and by what creates or moves ours."""
    site = Clinic(public_dir)
    site.live()
    here, hidden = site.here, "cannot be examined (permission denied)"
    open_to_all = dataclasses.replace(
        here, database=str(public_dir / "db" / "accounting.db"), controldir_from=BY_DEFAULT
    )
    os.mkdir(open_to_all.directory)
    (public_dir / "closed").mkdir(mode=0o700)
    os.rename(site.control, public_dir / "closed" / "control")
    site.control.symlink_to(public_dir / "closed" / "control")

    with acting_as("nobody"):
        (one,) = doctor_checks.control_directory(site.site())
        assert (one.severity, one.exit_code, one.advice) == (UNKNOWN, 78, "run as the user of A-REX")
        assert location.misplaced(here) == hidden
        assert not facts.is_without_arex(open_to_all, has_callouts=False)
        (disk,) = facts.disks(here)
        assert disk_check(disk, Thresholds()).text.startswith(f"{here.directory} {hidden}; ")
        with pytest.raises(ArcacctError, match=re.escape(hidden)):
            arex_databases(str(site.control))
        with pytest.raises(ArcacctError, match=re.escape(hidden)):
            upkeep.restore(open_to_all, str(public_dir / "closed" / "accounting-1.db"))
        with pytest.raises(ArcacctError, match=re.escape(hidden)):
            moving._refuse_directory(here, str(public_dir / "closed" / "db" / "new"))


def test_files_that_others_can_change(clinic) -> None:
    """A configuration or a directory that anybody may write is an error, and so is a password for all eyes."""
    clinic.ours = "[common]\nhttp_proxy=http://me:s3cr3t-w0rd@proxy.example.org:3128\n"
    clinic.configure()
    assert "contains a password" in about(clinic.verdicts(), "permissions").detail
    clinic.conf.chmod(0o666)
    os.chmod(clinic.here.directory, 0o777)
    found = [one for one in clinic.wrong() if one.subject == "permissions"]
    assert [one.exit_code for one in found] == [78, 0, 74, 0]
    assert all("chmod" in one.advice for one in found)


def test_who_reported_the_last_ends(clinic) -> None:
    """Callouts that A-REX never calls are seen by what sweeps found; what ended before recording started is no sign."""
    clinic.live(ended_s=60)
    assert [one.subject for one in clinic.verdicts() if "ended within a day" in one.detail] == []

    with closing(access.open_accounting(clinic.here)) as con, access.writing(con, clinic.here):
        note(con, "ARCACCT_CREATED", int(time.time()) - 3600)
    (one,) = [one for one in clinic.verdicts() if one.subject == "callouts" and "ended" in one.detail]
    assert (one.severity, "3, and the sweep found 0" in one.detail) == (OK, True)

    with closing(access.open_accounting(clinic.here)) as con, access.writing(con, clinic.here):
        save_sweep(con, {(int(time.time()) - 60) // 3600: 3})
    one = about(clinic.verdicts(), "callouts")
    assert (one.severity, one.exit_code) == (WARNING, 0)


def test_events_of_the_future(clinic) -> None:
    """A clock that is behind the one that A-REX's events were dated by."""
    clinic.live(ended_s=-7200)
    one = about(clinic.verdicts(), "clock")
    assert (one.severity, one.exit_code) == (CRITICAL, 74)


def test_a_sweep_that_never_ran(clinic) -> None:
    """The timer was not enabled."""
    one = about(clinic.verdicts(), "sweep")
    assert (one.severity, "arcacct-sweep.timer" in one.advice) == (WARNING, True)


@pytest.mark.parametrize(("hours", "verdict"), [(0.5, OK), (2, WARNING), (30, CRITICAL)])
def test_the_last_sweep(clinic, hours, verdict) -> None:
    """The timer runs it every quarter of an hour."""
    with closing(access.open_accounting(clinic.here)) as con, access.writing(con, clinic.here):
        note(con, "ARCACCT_LAST_SWEEP", int(time.time() - hours * 3600))
    (one,) = [one for one in clinic.verdicts() if one.subject == "sweep"]
    assert (one.severity, one.exit_code) == (verdict, 74 if verdict == CRITICAL else 0)
    assert bool(one.advice) == (verdict != OK)


def test_an_old_backup(live) -> None:
    """The last is some days old, as `db backup` noted it; the limits of the site decide whether that is too old."""
    care = pathlib.Path(live.here.directory) / "care.json"
    noted = json.loads(care.read_text())
    noted["backup"][0] -= 5 * DAY_S
    care.write_text(json.dumps(noted))
    for limit, severity in (("", OK), ("warn_backup=4", WARNING), ("warn_backup=1d\ncrit_backup=4d", CRITICAL)):
        live.ours = limit
        live.configure()
        (one,) = [one for one in live.verdicts() if one.subject == "backup"]
        assert (one.severity, "(5 d ago)" in one.detail) == (severity, True)


@pytest.fixture
def run(monkeypatch, capfd) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, next to an A-REX that runs."""
    for name in ("ARC_CONFIG", "ARCACCT_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(site: Clinic, *arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(doctor_checks, "Site", functools.partial(Site, **site.around))
        return said(capfd, "--config", site.conf, "doctor", *arguments)

    return run


def test_a_line_for_each_verdict_and_the_sum(live, run, box) -> None:
    """Text and JSON say the same; the token is in neither."""
    text = run(live)
    found = json.loads(run(live, "--format", "json").stdout)

    assert (text.returncode, text.stderr) == (0, "")
    *lines, last = text.stdout.splitlines()
    assert last == f"{len(lines)} ok, 0 warnings, 0 errors"
    # Of what differs from one moment to the next the names.
    moving = ("launcher", "clock", "sweep", "backup", "disk", "recorder")
    said_so = [
        f"{one['verdict']:<7}  {one['what']}: {'; '.join(filter(None, (one['detail'], one['advice'])))}"
        for one in found
    ]
    assert len(said_so) == len(lines)
    for line, again, one in zip(lines, said_so, found, strict=True):
        assert line == again or (one["what"].endswith(moving) and line.split(":")[0] == again.split(":")[0])
    assert box.token not in text.stdout
    assert box.authn.asked >= 2


def test_errors_decide_the_exit_code(live, run) -> None:
    """The most severe: 78 before 77; warnings, and what was not asked, leave 0."""
    key = live.path / "host" / "hostkey.pem"
    key.chmod(0o644)
    warned = run(live, "--offline")
    assert warned.returncode == 0
    assert warned.stdout.splitlines()[-1].endswith(" ok, 1 warning, 0 errors, 1 unknown")
    key.write_text("no key")
    assert run(live, "--offline").returncode == 77
    live.launcher.unlink()
    done = run(live, "--offline")
    assert (done.returncode, ", 2 errors," in done.stdout) == (78, True)


def test_the_time_that_is_given(live, run, box) -> None:
    """A receiver that does not answer within it is told, and to be tried again."""
    box.faults.slow("sgas", 60)
    done = run(live, "--timeout", "2")
    box.faults.clear()
    assert (done.returncode, "sgas:s" in done.stdout.split("error  ")[-1]) == (75, True)


def test_a_configuration_that_cannot_be_read(clinic, run) -> None:
    """That is the only verdict, in both forms."""
    clinic.conf.unlink()
    done, as_json = run(clinic), run(clinic, "--format", "json")
    assert (done.returncode, as_json.returncode) == (78, 78)
    assert done.stdout.splitlines()[-1] == "0 ok, 0 warnings, 1 error"
    (one,) = json.loads(as_json.stdout)
    assert (one["verdict"], "no such file" in one["detail"]) == ("error", True)


def test_a_receiver_that_refuses_records_and_answers_questions(tmp_path, run, capfd) -> None:
    """AUDITOR answers 403 to those who may not write; its answer to the doctor does not show that."""
    with Sandbox(str(tmp_path / "box")) as box:
        site = Clinic(tmp_path, box, AUDITOR)
        site.live()
        box.faults.answer("auditor", 403, times=None)
        assert said(capfd, "--config", site.conf, "publish", "--since", "2026-01-01").returncode == 69
        for arguments in ((), ("--offline",)):
            done = run(site, *arguments)
            (line,) = [line for line in done.stdout.splitlines() if "last error: " in line]
            assert ("auditor:r" in line, "write_access_cn" in line, done.returncode) == (True, True, 0)


def test_each_target_has_its_proxy(live, box) -> None:
    """It is shown for each, and used: one target goes directly, those after it through the proxy of [common]."""
    proxy = ConnectProxy()
    live.common = f"http_proxy=http://127.0.0.1:{proxy.port}\n"
    live.targets = f"{SGAS}no_proxy=localhost, 127.0.0.0/8\n{APEL}"
    live.configure()
    found = live.verdicts(offline=False)
    proxy.stop()
    assert [one.text for one in found if one.severity != OK] == []
    host, port = urlsplit(box.ams_url).netloc.split(":")
    assert sorted(set(proxy.tunnels)) == sorted({f"{host}:{port}", f"{host}:{box.authn_port}"})
    (targets,) = [one.detail for one in found if one.subject == "targets"]
    assert f"sgas:s ({box.sgas_url}/ur without the proxy: no_proxy has its host)" in targets
    assert f"through the proxy http://127.0.0.1:{proxy.port})" in targets
    (name,) = [one.detail for one in found if one.subject == "apel:a name"]
    assert name == "127.0.0.1 (the proxy) is 127.0.0.1"


def test_a_password_in_the_proxy_of_a_target_is_for_few_eyes(clinic) -> None:
    clinic.targets = f"{SGAS.format(sgas='https://localhost')}http_proxy=http://me:s3cr3t-w0rd@proxy.example.org:3128\n"
    clinic.configure()
    assert "arcacct.conf contains a password" in about(clinic.verdicts(), "permissions").detail


def test_the_password_of_a_proxy_is_never_told(live, run) -> None:
    """Not even where the proxy cannot be reached."""
    live.common = "http_proxy=http://me:s3cr3t-w0rd@proxy.invalid:3128\n"
    live.configure()
    done = run(live)
    assert "proxy.invalid" in done.stdout
    assert "s3cr3t" not in done.stdout + done.stderr + run(live, "--format", "json").stdout
