"""What a run needs that has nothing to send, and when keys and certificates are looked at."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import spool_0_2 as spool
from job_files import JOB, Files, lay
from publishing_site import CARS, SGAS, Site, at_sgas, jobs, truth

from arcacct.arex.control_files import read_job
from arcacct.errors import CredentialError

COSTLY = {"cryptography", "email", "html", "http", "psutil", "requests", "sqlite_utils", "ssl", "urllib3", "zoneinfo"}
PROGRAM = (
    "import sys\n"
    "from arcacct.cli.main import main\n"
    "try: main(sys.argv[1:])\n"
    "except SystemExit as end: assert not end.code, end.code\n"
    "print(*{name.partition('.')[0] for name in sys.modules}, sep='\\n')"
)


@pytest.fixture
def own_credentials(empty_box, tmp_path, monkeypatch):
    """A certificate and key of this test alone, which it may spoil."""
    issued = empty_box.authority.issue("ce.example.org", stem="own", directory=str(tmp_path), rsa_key=False)
    monkeypatch.setattr(empty_box, "client", issued)
    empty_box.sgas.rights[issued.subject] = "jobinsert:all"
    return issued


@pytest.fixture
def site(memory, empty_box, own_credentials):
    """A site that has published three jobs to SGAS."""
    made = Site(memory, empty_box, SGAS)
    made.record(*jobs(3))
    assert made.publish().error is None
    return made


def loaded(site: Site, *options: str) -> set[str]:
    """The packages that a process of `arcacct publish` has loaded in the end."""
    command = [sys.executable, "-c", PROGRAM, "--config", str(site.path / "arc.conf"), "publish", *options]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def test_with_nothing_to_send_nothing_is_loaded_to_send_it(site) -> None:
    """Neither TLS nor HTTP, nor anything else that costs more than to look whether something is new."""
    assert loaded(site, "--now") & COSTLY == set()


def test_with_nothing_due_nothing_is_loaded_either(site, empty_box) -> None:
    """A target whose time has not come is not looked at."""
    site.configure(f"{SGAS}urdelivery_frequency=1000000\n{CARS}urdelivery_frequency=1000000\n")
    assert {outcome.error for outcome in site.publish_all()} == {None}
    assert loaded(site) & COSTLY == set()


def test_a_record_loads_http_and_nothing_to_sign_it(site) -> None:
    """Whoever has a record to send loads TLS and HTTP, and no other costly library."""
    site.record(*jobs(1, first=3))
    assert loaded(site, "--now") & COSTLY == {"ssl", "http", "email", "requests", "urllib3"}
    assert at_sgas(site.box.sgas.records) == truth(jobs(4))


@pytest.mark.parametrize("which", ["cert_path", "key_path"])
def test_a_file_that_is_missing_is_told_with_nothing_to_send(site, own_credentials, which) -> None:
    """Who moves certificates hears of it in the next run, not when the next job ends."""
    path = getattr(own_credentials, which)
    os.rename(path, f"{path}.away")
    error = site.publish().error
    assert isinstance(error, CredentialError)
    assert path in str(error)
    os.rename(f"{path}.away", path)
    assert site.publish().error is None


@pytest.mark.parametrize("targets", [SGAS, CARS])
def test_what_is_in_a_key_counts_when_it_is_used(site, own_credentials, targets) -> None:
    """With a key that is none nothing is written down as sent, what was recorded waits, and no record is lost."""
    site.configure(targets)
    site.record(*jobs(2, first=3))
    with open(own_credentials.key_path, "r+b") as file:
        good = file.read()
        file.seek(0)
        file.write(b"x")
    error = site.publish().error
    assert isinstance(error, CredentialError)
    assert own_credentials.key_path in str(error)
    assert site.ledger("SELECT count(*) FROM Messages WHERE State = 'sending'") == [(0,)]
    with open(own_credentials.key_path, "wb") as file:
        file.write(good)
    assert site.publish().error is None
    known = site.ledger(
        "SELECT count(DISTINCT JobID) FROM SentRecords JOIN Messages USING (MessageID)"
        " WHERE State = 'accepted' AND Target = ?",
        site.settings.targets[0].block,
    )
    assert known == [(5,)]


@pytest.mark.parametrize("kind", ["none", "empty", "waits"])
def test_what_waits_in_the_spool_is_new_too(site, kind) -> None:
    """A job whose end no hook could record is published by the next run, without a sweep in between."""
    here = site.settings.places
    if kind == "empty":
        os.makedirs(here.spool, mode=0o700)
    if kind == "waits":
        control = site.path / "control"
        lay(control, Files("FINISHED"))
        spool.write(here.spool, read_job(str(control), JOB, "FINISHED"))
    assert site.publish().error is None
    assert len(site.box.sgas.records) == 3 + (kind == "waits")
    assert not os.path.isdir(here.spool) or os.listdir(here.spool) == []
