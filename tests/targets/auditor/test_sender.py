"""Records on their way to AUDITOR: whatever it answers, what is called accepted is there, and as it is said."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Any

import pytest
from publishing_site import QUICK, jobs

from arcacct.database import access
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.ledger import KEPT, OTHER, Message, SentRecord
from arcacct.records import reader
from arcacct.sandbox.auditor import AuditorAccess
from arcacct.sandbox.http_server import Faults, Server
from arcacct.targets import plugin_of
from arcacct.targets.auditor.sender import classify

COUNT = 4
WRITES = AuditorAccess(frozenset({"ce.example.org"}))


@pytest.fixture
def plugin(site):
    return plugin_of(site.settings.targets[0], site.settings)


@pytest.fixture
def sender(plugin):
    """The way to the server, as a run has it."""
    with closing(plugin.sender(QUICK)) as sender:
        yield sender


@pytest.fixture
def texts(site, plugin) -> list[str]:
    """Some records."""
    site.record(*jobs(COUNT))
    con = access.read_accounting(site.settings.places)
    with closing(con):
        (page,) = reader.ended_between(con, 0, 2**40)
    return [plugin.records(plugin.message_format).text(aar, 0) for aar in page]


def ids(texts) -> list[str]:
    return [json.loads(text)["record_id"] for text in texts]


def changed(text: str, **values: Any) -> str:
    return json.dumps(json.loads(text) | values) + "\n"


def send(sender, plugin, *texts: str, in_doubt: bool = False) -> Answer:
    """The answer to a message; ``in_doubt``: as far as the ledger knows the server has these records."""
    records = tuple(SentRecord(one, 1, 1, 1, b"d", one, replaced_id=1 if in_doubt else None) for one in ids(texts))
    document = plugin.records(plugin.message_format).envelope
    data = sender.pack(document.join(texts))
    return sender.send(Message(1, document.message_format, "publish", 1, "", None, "", len(texts), data, records))


def requests(box) -> int:
    """How many there were since the last time."""
    count, box.servers["auditor"].requests = box.servers["auditor"].requests, 0
    return count


def test_several_go_together(box, server, sender, plugin, texts) -> None:
    """One request for all of them, and one for the proof that they were stored."""
    assert send(sender, plugin, *texts)[:2] == (Outcome.ACCEPTED, 200)
    assert list(server.records) == ids(texts)
    assert requests(box) == 2


def test_one_goes_alone(box, server, sender, plugin, texts) -> None:
    assert send(sender, plugin, texts[0]).kind == Outcome.ACCEPTED
    assert list(server.records) == ids(texts[:1])
    assert requests(box) == 1


@pytest.mark.parametrize("ignores", [False, True], ids=["as-it-is", "ignore_record_exists_error"])
@pytest.mark.parametrize("there", [0, 1, COUNT - 1], ids=["the-first", "one", "the-last"])
def test_what_is_there_keeps_nothing_out(server, sender, plugin, texts, ignores, there) -> None:
    """One record of a message is there, and the server stores none of it, whatever it says: they go one by one."""
    server.ignores_repeats = ignores
    send(sender, plugin, texts[there])
    answer = send(sender, plugin, *texts)
    assert answer.kind == Outcome.ACCEPTED
    assert sorted(server.records) == sorted(ids(texts))
    # Of those that it would not have told of, no one knows whether they are what was sent.
    assert set(answer.receiver_rows.values()) <= ({KEPT} if ignores else set())


def test_who_hides_repeats_is_sent_one_by_one(box, server, sender, plugin, texts) -> None:
    """From the first message on."""
    server.ignores_repeats = True
    send(sender, plugin, *texts[:2])
    requests(box)
    send(sender, plugin, *texts[2:])
    assert (requests(box), len(server.records)) == (2, COUNT)


def test_a_message_again(box, server, sender, plugin, texts) -> None:
    """It was sent before, and no answer came: all of it is there, as it was sent."""
    box.faults.drop("auditor", after_work=True, times=None)
    assert send(sender, plugin, *texts).kind == Outcome.TRY_LATER
    box.faults.clear()
    answer = send(sender, plugin, *texts)
    assert (answer.kind, answer.receiver_rows) == (Outcome.ACCEPTED, {})
    assert len(server.records) == COUNT


@pytest.mark.parametrize("path", ["/records", "/record"])
@pytest.mark.parametrize("after_work", [False, True])
def test_an_answer_that_is_lost_once(box, server, sender, plugin, texts, path, after_work) -> None:
    """It is asked for again at once, and a repeat is no error."""
    box.faults.drop("auditor", path=path, after_work=after_work)
    assert send(sender, plugin, *texts).kind == Outcome.ACCEPTED
    assert len(server.records) == COUNT


def test_the_end_is_put_right(server, sender, plugin, texts) -> None:
    """The one thing that can be changed."""
    send(sender, plugin, texts[0])
    answer = send(sender, plugin, changed(texts[0], stop_time="2026-01-01T00:00:00Z"), in_doubt=True)
    assert (answer.kind, answer.receiver_rows) == (Outcome.ACCEPTED, {})
    assert server.records[ids(texts)[0]].stop_time.year == 2026


@pytest.mark.parametrize("ignores", [False, True], ids=["as-it-is", "ignore_record_exists_error"])
@pytest.mark.parametrize("in_doubt", [False, True], ids=["unknown", "known"])
def test_another_version_is_kept(server, sender, plugin, texts, ignores, in_doubt) -> None:
    """The ledger is told, unless a server hides it of a record that no one knew to be there."""
    server.ignores_repeats = ignores
    send(sender, plugin, texts[0])
    before = server.records
    answer = send(sender, plugin, changed(texts[0], components=[], stop_time="2026-01-01T00:00:00Z"), in_doubt=in_doubt)
    assert answer.kind == Outcome.ACCEPTED
    expected = {} if ignores and not in_doubt else {ids(texts)[0]: OTHER}
    assert (answer.receiver_rows, server.records) == (expected, before)


@pytest.mark.parametrize("ignores", [False, True], ids=["as-it-is", "ignore_record_exists_error"])
def test_without_the_right_to_read(box, server, sender, plugin, texts, ignores) -> None:
    """Whether it is another version is not known, and it is asked for once only."""
    server.access, server.ignores_repeats = WRITES, ignores
    assert send(sender, plugin, *texts).kind == Outcome.ACCEPTED
    answer = send(sender, plugin, *texts, in_doubt=True)
    assert answer.receiver_rows == dict.fromkeys(ids(texts), KEPT)
    requests(box)
    send(sender, plugin, texts[0], in_doubt=True)
    assert requests(box) == (2 if ignores else 1)


@pytest.mark.parametrize("ignores", [False, True], ids=["as-it-is", "ignore_record_exists_error"])
@pytest.mark.parametrize("reads", [False, True], ids=["writes", "reads"])
def test_room_was_made(server, sender, plugin, texts, ignores, reads) -> None:
    """The old version is gone, as the ledger does not know: the new one is stored, and known to be."""
    server.ignores_repeats = ignores
    server.access = server.access if reads else WRITES
    answer = send(sender, plugin, texts[0], in_doubt=True)
    assert list(server.records) == ids(texts[:1])
    assert answer.receiver_rows == ({ids(texts)[0]: KEPT} if ignores and not reads else {})


REFUSALS = {
    "a fault of its database": (500, "UNEXPECTED_ERROR", Outcome.RECORDS_REFUSED),
    "no record": (400, "Json deserialize error", Outcome.RECORDS_REFUSED),
    "no right": (403, "", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED),
    "too large": (413, "", Outcome.TOO_LARGE),
    "away": (503, "", Outcome.TRY_LATER),
}


@pytest.mark.parametrize(("status", "body", "kind"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("path", ["/records", "/record/", "/record"])
def test_a_refusal(box, server, sender, plugin, texts, path, status, body, kind) -> None:
    """Whichever request it ends, nothing is called accepted that is not there."""
    send(sender, plugin, texts[1])
    # The path of several starts with that of one; a record that is read is below it.
    box.faults.answer("auditor", status, body, path=path, times=None, containing="" if path != "/record" else texts[2])
    answer = send(sender, plugin, *texts)
    if path == "/record/":
        assert answer.kind == (kind if kind == Outcome.TRY_LATER else Outcome.ACCEPTED)
    else:
        assert answer.kind == kind
    if answer.kind == Outcome.ACCEPTED:
        assert len(server.records) == COUNT


def test_an_answer_that_is_cut(box, server, sender, plugin, texts) -> None:
    """What is read back in half is as good as not read."""
    send(sender, plugin, texts[0])
    box.faults.answer("auditor", 200, '{"record_id":', path="/record/", times=None)
    assert send(sender, plugin, texts[0], in_doubt=True).receiver_rows == {ids(texts)[0]: KEPT}


def test_a_record_without_a_bottom(box, server, sender, plugin, texts) -> None:
    """What is read back may be anything: as deep as a parser takes it, it is another record, and stops no one."""
    send(sender, plugin, texts[0])
    deep = '{"record_id": ' + "[" * 900 + "]" * 900 + "}"
    box.faults.answer("auditor", 200, deep, path="/record/", times=None)
    answer = send(sender, plugin, texts[0], in_doubt=True)
    assert (answer.kind, answer.receiver_rows) == (Outcome.ACCEPTED, {ids(texts)[0]: OTHER})


LISTS = ",".join(["[]"] * 330_000)
HOSTILE = {
    "1 MB of lists in 300 levels": "[" * 300 + LISTS + "]" * 300,
    "1 MB of lists": f"[{LISTS}]",
    "deep, and short": "[" * 8 + "]" * 8,
    "many keys": json.dumps({f"key {number}": [number] for number in range(50_000)}),
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_an_answer_that_no_record_can_be_is_not_compared(box, server, sender, plugin, texts, value) -> None:
    """Larger or deeper than what was sent: it costs next to nothing, and is another record to the ledger, by name."""
    send(sender, plugin, *texts)
    body = json.dumps(json.loads(texts[0]) | {"meta": "HERE"}).replace('"HERE"', value)
    box.faults.answer("auditor", 200, body, path="/record/", times=None)
    began = time.process_time()
    answer = send(sender, plugin, texts[0], in_doubt=True)

    assert time.process_time() - began < 2
    assert (answer.kind, answer.receiver_rows) == (Outcome.ACCEPTED, {ids(texts)[0]: OTHER})
    assert f"{ids(texts)[0]}: the server has JSON of" in answer.text


def test_a_record_that_is_spelt_otherwise_is_the_same(box, server, sender, plugin, texts) -> None:
    """Times with other offsets, floats for whole numbers, another order of members and arrays, more values."""
    send(sender, plugin, texts[0])
    record = json.loads(texts[0])
    record["components"] = [
        dict(reversed(one.items())) | {"amount": float(one["amount"])} for one in record["components"]
    ]
    record |= {"components": record["components"][::-1], "runtime": 7}
    record["stop_time"] = record["stop_time"].replace("Z", "+00:00")
    box.faults.answer("auditor", 200, json.dumps(record, indent=2), path="/record/", times=None)

    assert send(sender, plugin, texts[0], in_doubt=True).receiver_rows == {}

    record["components"][0]["amount"] += 1
    box.faults.clear()
    box.faults.answer("auditor", 200, json.dumps(record), path="/record/", times=None)

    assert send(sender, plugin, texts[0], in_doubt=True).receiver_rows == {ids(texts)[0]: OTHER}


@pytest.mark.parametrize(("more", "rows"), [(0, {}), (1, OTHER)], ids=["longest", "longer"])
def test_a_record_may_be_spelt_four_times_as_long(box, server, sender, plugin, texts, more, rows) -> None:
    """With escapes and blanks, and 4 KiB of values that the server adds; what is longer is not read."""
    send(sender, plugin, texts[0])
    body = texts[0].ljust(4 * len(texts[0]) + 4096 + more)
    box.faults.answer("auditor", 200, body, path="/record/", times=None)

    answer = send(sender, plugin, texts[0], in_doubt=True)

    assert answer.receiver_rows == (rows and {ids(texts)[0]: rows})


def test_in_clear(box, server, site) -> None:
    """Over plain HTTP no one is asked who he is, and no certificate is needed."""
    open_to_all = Server(server, None, 0, Faults(["auditor"]), server.journal)
    open_to_all.start()
    try:
        site.configure(f"[arcacct/auditor:a]\ntargeturl=http://localhost:{open_to_all.port}\nsite_id=SITE\n")
        (site.path / "arc.conf").write_text((site.path / "arc.conf").read_text().replace("x509_host_", "#"))
        site.send(*jobs(COUNT))
    finally:
        open_to_all.stop()
    assert len(server.records) == COUNT


# What AUDITOR says, and what is made of it: nothing that its own client takes for success is one here.


JUDGED = {
    "stored": (200, b"", Outcome.ACCEPTED, True),
    "it is there": (500, b"RECORD_EXISTS", Outcome.ACCEPTED, True),
    "a fault of its database": (500, b"UNEXPECTED_ERROR", Outcome.RECORDS_REFUSED, False),
    "a balancer's fault": (500, b"<html>Internal Server Error</html>", Outcome.TRY_LATER, False),
    "another word": (500, b"RECORD_EXISTS?", Outcome.TRY_LATER, False),
    "no record": (400, b"Json deserialize error: missing field `record_id` at line 1", Outcome.RECORDS_REFUSED, True),
    "somebody else's 400": (400, b"<html>Bad Request</html>", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "no right": (403, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "not there": (404, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "a conflict, which it does not know": (409, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True),
    "too large": (413, b"JSON payload (3 bytes) is larger than allowed", Outcome.TOO_LARGE, True),
    "away": (503, b"", Outcome.TRY_LATER, True),
    "lost behind a balancer": (504, b"", Outcome.TRY_LATER, False),
    "created, as it never says": (201, b"", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False),
    "a page of somebody else's": (200, b"<html>Welcome</html>", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False),
    "the word with a wrong status": (200, b"RECORD_EXISTS", Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False),
}


@pytest.mark.parametrize(("status", "body", "kind", "known"), JUDGED.values(), ids=JUDGED)
def test_an_answer_to_records(status, body, kind, known) -> None:
    answer = classify(status, {}, body)
    assert (answer.kind, answer.status, answer.outcome_known) == (kind, status, known)


def test_a_user_who_may_not_write_learns_whom_to_ask() -> None:
    assert "write_access_cn" in classify(403, {}, b"").advice
