from __future__ import annotations

import base64
import json
import os

import pytest
from sandbox_clients import job_message, openssl_sign, sign, summary_message, sync_message


def receive(apel, ce, *texts: str):
    """Hand signed texts to the receiver; what became of each."""
    return [apel.receive(base64.b64encode(sign(ce, text.encode())).decode(), "1/2").verdict for text in texts]


REPLACED = {
    "corrected job": (
        "job_records",
        job_message(EndTime="1700000000", StartTime="0", WallDuration="1"),
        job_message(EndTime="1700000000", StartTime="0", WallDuration="2"),
    ),
    "another machine of the site": (
        "job_records",
        job_message(EndTime="1700000000", StartTime="0", WallDuration="1"),
        job_message(EndTime="1700000000", StartTime="0", WallDuration="2", SubmitHost="other"),
    ),
    "summary": ("summaries", summary_message(WallDuration="1"), summary_message(WallDuration="2")),
    "summary in another case": (
        "summaries",
        summary_message(WallDuration="1", VO="atlas"),
        summary_message(WallDuration="2", VO="ATLAS"),
    ),
    "summary v0.2 and v0.4": (
        "summaries",
        summary_message(WallDuration="1"),
        summary_message("APEL-summary-job-message: v0.4", WallDuration="2"),
    ),
    "normalised": (
        "normalised_summaries",
        summary_message("APEL-summary-job-message: v0.3", WallDuration="1"),
        summary_message("APEL-summary-job-message: v0.3", WallDuration="2"),
    ),
    "sync": ("sync_records", sync_message(NumberOfJobs="1"), sync_message(NumberOfJobs="2")),
}


@pytest.mark.parametrize(("table", "first", "second"), REPLACED.values(), ids=REPLACED)
def test_a_record_with_the_same_key_replaces(apel, ce, table, first, second):
    """Of two records with one key the last stays, and there is one row."""
    assert receive(apel, ce, first, second) == ["loaded", "loaded"]
    (row,) = getattr(apel, table).values()
    assert 2 in {row.get("WallDuration"), row.get("NumberOfJobs")}


ADDED = {
    "job with another end": (
        "job_records",
        job_message(EndTime="1700000000", StartTime="0"),
        job_message(EndTime="1700000001", StartTime="0"),
    ),
    "another benchmark": ("summaries", summary_message(ServiceLevel="10"), summary_message(ServiceLevel="11")),
    "another node count": ("summaries", summary_message(NodeCount="1"), summary_message(NodeCount="2")),
    "another infrastructure": ("summaries", summary_message(), summary_message(InfrastructureType="grid")),
    "normalised v0.3 and v0.4": (
        "normalised_summaries",
        summary_message("APEL-summary-job-message: v0.3"),
        summary_message("APEL-normalised-summary-message: v0.4"),
    ),
    "sync of another host": ("sync_records", sync_message(SubmitHost="a"), sync_message(SubmitHost="b")),
}


@pytest.mark.parametrize(("table", "first", "second"), ADDED.values(), ids=ADDED)
def test_a_record_with_another_key_is_counted_twice(apel, ce, table, first, second):
    """A key field that changes adds a row: what the real server would count double."""
    receive(apel, ce, first, second)
    assert len(getattr(apel, table)) == 2


def test_rejected_messages_change_nothing_and_stop_nobody(apel, ce):
    """A message with a bad record loads none of its records; the next message is loaded."""
    bad = job_message(LocalJobId="1") + job_message(LocalJobId="2", Site=None).partition("\n")[2]
    verdicts = receive(apel, ce, bad, sync_message())
    assert verdicts == ["rejected: Mandatory field Site not specified.", "loaded"]
    assert apel.job_records == {}
    assert len(apel.sync_records) == 1
    (rejection,) = apel.rejected
    assert rejection.empaid == "1/2"
    assert rejection.file == "apel/0001.smime"


@pytest.mark.parametrize(
    "poison", [sync_message(Site="Jörg"), job_message("v0.4", ServiceLevel=None)], ids=["not ascii", "KeyError"]
)
def test_poison_holds_up_everything_behind_it(apel, ce, poison):
    """What kills the receiver is delivered again for ever, so later messages wait."""
    first, second = receive(apel, ce, poison, sync_message())
    assert first.startswith("rejected: the receiver stopped")
    assert second.startswith("waits")
    assert apel.sync_records == {}
    assert apel.waiting == ["apel/0002.smime"]


def test_messages_of_the_openssl_program_are_loaded(apel, ce):
    """What jura's way of signing produces is received, too."""
    message = openssl_sign(ce, job_message().encode(), "-text")
    assert apel.receive(base64.b64encode(message).decode(), None).verdict == "loaded"
    assert len(apel.job_records) == 1


def test_what_is_not_base64_is_rejected(apel):
    """The service does not look at the data; the receiver rejects it."""
    assert "not base64" in apel.receive("%%%", None).verdict


def test_the_real_messages_of_a_computing_element_load(apel, ce, test_data):
    """Each message jura sent, signed anew, is loaded, or rejected for jura's known faults only."""
    payloads = sorted(test_data.glob("arex/wire/*/*.payload"))
    verdicts = {
        path.name: receive(apel, ce, path.read_bytes().decode("ascii", "backslashreplace"))[0] for path in payloads
    }
    assert len(verdicts) > 0
    odd = {name: verdict for name, verdict in verdicts.items() if verdict != "loaded"}
    assert all("not well-formed" in verdict or "in the future" in verdict for verdict in odd.values()), odd


def test_message_and_body_lie_side_by_side(apel, ce, journal):
    """The signed message and its verified text are kept under one number."""
    receive(apel, ce, sync_message())
    folder = os.path.join(journal.directory, "apel")
    assert sorted(os.listdir(folder)) == ["0001.smime", "0001.txt"]
    with open(os.path.join(folder, "0001.txt"), encoding="ascii") as file:
        assert file.read() == sync_message().strip()


def test_a_journal_continues_an_older_one(journal):
    """Numbers go on where an earlier rehearsal in the same directory stopped."""
    from arcacct.sandbox.http_server import Arrival, Journal

    journal.keep("sgas", f"{journal.number('sgas')}.xml", b"<a/>")
    journal.note(Arrival("sgas", 1, "sgas/0001.xml", "stored"), 200)
    again = Journal(journal.directory, ("sgas", "apel"))
    assert again.number("sgas") == "0002"
    again.note(Arrival("sgas", 2, "sgas/0002.xml", "stored"), None)
    with open(os.path.join(journal.directory, "index.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert [(line["records"], line["answer"]) for line in lines] == [(1, 200), (2, None)]
