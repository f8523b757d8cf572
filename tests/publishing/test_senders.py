"""What a run needs that has nothing to send, and when keys and certificates are looked at."""

from __future__ import annotations

import os
import queue
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
import spool_0_2 as spool
from job_files import JOB, Files, lay
from publishing_rig import BATCH, repair
from publishing_site import CARS, SGAS, Site, at_sgas, jobs, truth

from arcacct.arex.control_files import read_job
from arcacct.errors import CredentialError, TargetBusy
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.ledger import Message
from arcacct.publishing.senders import SendAhead

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
    made.send(*jobs(3))
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
def test_a_file_that_is_missing_is_reported_with_nothing_to_send(site, own_credentials, which) -> None:
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


# Sending while the next messages are made: what the ledger does not know yet is one message at most.


class Receiver:
    """A way out whose receiver answers what a test tells it to."""

    destination = "nowhere"

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.answers: queue.Queue[Answer | Exception] = queue.Queue()

    def send(self, message: Message) -> Answer:
        self.sent.append(message.message_id)
        answer = self.answers.get(timeout=30)
        if isinstance(answer, Exception):
            raise answer
        return answer


OK = Answer(Outcome.ACCEPTED, 200)


def begun(receiver: Receiver, count: int = 3) -> SendAhead:
    """Some messages on their way."""
    messages = [
        Message(number, "ur", "publish", None, "nowhere", None, "", 1, b"", ()) for number in range(1, count + 1)
    ]
    return SendAhead(receiver, messages)


def wait_for_one(under_way: SendAhead) -> tuple[Message, Answer]:
    """The next that was accepted."""
    while True:
        found = under_way.accepted()
        if found is not None:
            return found


def test_the_next_waits_for_the_ledger() -> None:
    """No message is sent before the answer to the last one is in the ledger."""
    receiver = Receiver()
    under_way = begun(receiver)
    receiver.answers.put(OK)
    receiver.answers.put(OK)
    message, _answer = wait_for_one(under_way)
    assert (message.message_id, receiver.sent) == (1, [1])
    under_way.resume()
    assert wait_for_one(under_way)[0].message_id == 2
    under_way.stop()
    assert receiver.sent == [1, 2]
    assert (len(under_way.answers), under_way.noted) == (2, 1)


def test_what_is_not_accepted_ends_it() -> None:
    """After an answer that asks for a decision nothing more is sent."""
    receiver = Receiver()
    under_way = begun(receiver)
    receiver.answers.put(Answer(Outcome.TRY_LATER, 503))
    under_way.stop()
    assert receiver.sent == [1]
    assert under_way.accepted() is None
    assert [answer.status for answer in under_way.answers] == [503]


def test_a_fault_is_kept_for_who_waits() -> None:
    """What sending raises is told to the run, which is in another thread."""
    receiver = Receiver()
    under_way = begun(receiver)
    receiver.answers.put(ValueError("broken"))
    under_way.stop()
    assert (str(under_way.error), under_way.answers) == ("broken", [])


@pytest.mark.parametrize("rig", ["sgas", "jobs"], indirect=True)
def test_what_was_never_sent_may_still_be_corrected(rig) -> None:
    """When a target stops us, only the message that was tried is kept: the others are made anew, as things are then."""
    rig.record(6 * BATCH)
    rig.box.faults.answer(rig.endpoint, 503, "later", containing="4job00005", times=None)

    assert isinstance(rig.publish().error, TargetBusy)
    tried = rig.site.ledger(
        "SELECT JobID FROM SentRecords JOIN Messages USING (MessageID) WHERE State = 'sending' ORDER BY JobID"
    )
    assert tried == [(f"job{number:05d}",) for number in range(BATCH, 2 * BATCH)]
    assert rig.received() == rig.wanted(rig.jobs[:BATCH])

    with closing(sqlite3.connect(rig.site.settings.places.database)) as con, con:
        con.execute("UPDATE AAR SET UsedWalltime = 7 WHERE JobID = 'job00020'")
    rig.jobs[20] = rig.jobs[20]._replace(wall_s=7)
    repair(rig)
    assert rig.publish().error is None
    assert rig.site.held() == {}
    assert rig.received() == rig.wanted(rig.jobs)
