"""AUDITOR's receiver behaves as the server does, and the official client works with it."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import time
from datetime import UTC, datetime

import pytest
from sandbox_clients import Connection, auditor_client

from arcacct.sandbox.auditor import Auditor, AuditorAccess
from arcacct.sandbox.http_server import Faults, HTTPRequest, Journal, Peer, Server

NOW = int(time.time())
CE = Peer("/O=Sandbox/CN=ce.example.org", "CN=ce.example.org,O=Sandbox", "ce.example.org", NOW - 60, NOW + 86_400)
OTHER = CE._replace(common_name="other.example.org")
JSON = {"content-type": "application/json"}


@pytest.fixture
def auditor(journal) -> Auditor:
    """A server without a port, at which everybody may do everything."""
    return Auditor(journal)


@pytest.fixture
def journal(tmp_path) -> Journal:
    return Journal(str(tmp_path / "received"), ["auditor"])


def record(record_id: str = "r1", /, **fields: object) -> dict[str, object]:
    """A small record; a field None is left out."""
    known = {
        "record_id": record_id,
        "meta": {"site_id": ["S1"], "voms": ["/atlas/Role=NULL"]},
        "components": [{"name": "Cores", "amount": 4, "scores": [{"name": "hepscore23", "value": 11.5}]}],
        "start_time": "2026-01-01T00:00:00Z",
        "stop_time": "2026-01-01T01:00:00Z",
        **fields,
    }
    return {name: value for name, value in known.items() if value is not None}


def ask(auditor, method: str, path: str, body: object = None, *, query: dict[str, str] | None = None, peer=CE):
    """Status and body of the server's answer."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = auditor.answer(HTTPRequest(method, path, query or {}, JSON, content, peer))
    return answer.status, answer.body.decode()


def test_a_record_is_stored(auditor):
    """200 with nothing in it; the runtime is the server's own, and what it does not know is ignored."""
    assert ask(auditor, "POST", "/record", record(runtime=5, nonsense=1)) == (200, "")
    assert auditor.records["r1"].runtime_s == 3600
    status, body = ask(auditor, "GET", "/record/r1")
    assert (status, json.loads(body)) == (200, record() | {"runtime": 3600})


def test_a_record_that_is_there_is_an_error(auditor):
    """500 with the word for it, whatever else is different."""
    ask(auditor, "POST", "/record", record())
    assert ask(auditor, "POST", "/record", record(start_time="2025-01-01T00:00:00Z")) == (500, "RECORD_EXISTS")
    assert auditor.records["r1"].runtime_s == 3600


@pytest.mark.parametrize("ignores", [False, True], ids=["an-error", "ignored"])
def test_several_are_stored_together_or_not_at_all(auditor, ignores):
    """One that is there, or is named twice, keeps out the others; as an option of the server has it with 200."""
    auditor.ignores_repeats = ignores
    refusal = (200, "") if ignores else (500, "RECORD_EXISTS")
    assert ask(auditor, "POST", "/records", [record("r1"), record("r2")]) == (200, "")
    assert ask(auditor, "POST", "/records", [record("r3"), record("r2"), record("r4")]) == refusal
    assert ask(auditor, "POST", "/records", [record("r5"), record("r5")]) == refusal
    assert sorted(auditor.records) == ["r1", "r2"]
    assert ask(auditor, "POST", "/records", []) == (200, "")


GOOD = {
    "no meta": record(meta=None),
    "no components": record(components=[]),
    "no end": record(stop_time=None),
    "an end before its start": record(stop_time="2025-01-01T00:00:00Z"),
    "another zone": record(start_time="2026-01-01T02:00:00.5+02:00"),
    "letters of any kind": record("/ä,\n", meta={"(<>)": ["\\", '"']}),
    "256 letters": record("a" * 256),
    "256 letters with accents": record("a\u0301" * 256),
}
BAD = {
    "no id": record(record_id=None),
    "a blank id": record(" \t"),
    "257 letters": record("a" * 257),
    "a number as id": record(record_id=1),
    "no array of components": record(components=None),
    "no start": record(start_time=None),
    "a start without a zone": record(start_time="2026-01-01T00:00:00"),
    "a start that is none": record(start_time="yesterday"),
    "meta without an array": record(meta={"site_id": "S1"}),
    "a blank value": record(meta={"site_id": [""]}),
    "a blank key": record(meta={"": ["S1"]}),
    "no scores": record(components=[{"name": "Cores", "amount": 1}]),
    "less than nothing": record(components=[{"name": "Cores", "amount": -1, "scores": []}]),
    "half a core": record(components=[{"name": "Cores", "amount": 0.5, "scores": []}]),
    "too many": record(components=[{"name": "Cores", "amount": 2**63, "scores": []}]),
    "no score": record(components=[{"name": "Cores", "amount": 1, "scores": [{"name": "x", "value": None}]}]),
    "a bad score": record(components=[{"name": "Cores", "amount": 1, "scores": [{"name": "x", "value": -1}]}]),
    "no object": 5,
    "half a letter": b'{"record_id":"\\ud800"}',
    "half an object": b'{"record_id":',
}


@pytest.mark.parametrize("sent", GOOD.values(), ids=GOOD)
def test_what_is_taken(auditor, sent):
    assert ask(auditor, "POST", "/record", sent) == (200, "")


@pytest.mark.parametrize("sent", BAD.values(), ids=BAD)
@pytest.mark.parametrize("path", ["/record", "/records"])
def test_what_is_refused(auditor, sent, path):
    """400, and nothing is stored, alone or next to a good one."""
    several = b"[" + sent + b"]" if isinstance(sent, bytes) else [record("good"), sent]
    status, _words = ask(auditor, "POST", path, sent if path == "/record" else several)
    assert (status, auditor.records) == (400, {})


def test_what_the_database_refuses(auditor):
    """PostgreSQL has no letter NUL: an error without a reason."""
    assert ask(auditor, "POST", "/record", record("a\0b")) == (500, "UNEXPECTED_ERROR")


def test_only_the_end_changes(auditor):
    """PUT wants components and an end, and takes the end alone; it never adds a record."""
    ask(auditor, "POST", "/record", record())
    later = record(stop_time="2026-01-01T02:00:00Z", components=[], start_time=None, meta={"x": ["y"]})

    assert ask(auditor, "PUT", "/record", later) == (200, "")
    assert auditor.records["r1"].runtime_s == 7200
    assert auditor.records["r1"].components[0].amount == 4
    assert ask(auditor, "PUT", "/record", later | {"record_id": "r2"}) == (404, "")
    assert ask(auditor, "PUT", "/record", record(stop_time=None))[0] == 400
    assert ask(auditor, "PUT", "/record", record(components=None))[0] == 400


def test_one_record_is_read(auditor):
    """An unknown one is an error of the server's, an impossible one is null; slashes are percent-encoded."""
    ask(auditor, "POST", "/record", record("a/b#c"))
    assert ask(auditor, "GET", "/record/a%2Fb%23c")[0] == 200
    assert ask(auditor, "GET", "/record/unknown") == (500, "UNEXPECTED_ERROR")
    assert ask(auditor, "GET", f"/record/{'a' * 257}") == (200, "null")


def some(auditor):
    """Three records, an hour, two hours and no end long."""
    for number, stop in enumerate(["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z", None]):
        components = [{"name": name, "amount": number, "scores": []} for name in ("Cores", "TotalCPU")]
        meta = {"site_id": ["S1", f"T{number}"]}
        ask(auditor, "POST", "/record", record(f"r{number}", stop_time=stop, meta=meta, components=components))


QUERIES = {
    "nothing": ({}, "r0 r1 r2"),
    "an id": ({"record_id": "r1"}, "r1"),
    "after": ({"stop_time[gt]": "2026-01-01T01:00:00Z"}, "r1"),
    "from": ({"stop_time[gte]": "2026-01-01T01:00:00+00:00"}, "r0 r1"),
    "between": ({"stop_time[gte]": "2026-01-01T01:00:00Z", "stop_time[lt]": "2026-01-01T02:00:00Z"}, "r0"),
    "runtime": ({"runtime[gt]": "0"}, "r0 r1"),
    "an equal runtime": ({"runtime[equals]": "7200"}, "r1"),
    "a value": ({"meta[site_id][c][0]": "T1"}, "r1"),
    "not a value": ({"meta[site_id][dnc][0]": "T1"}, "r0 r2"),
    "several values are all wanted": ({"meta[site_id][c][0]": "T1", "meta[site_id][c][1]": "T0"}, ""),
    "the first component": ({"component[Cores][gte]": "1"}, "r1 r2"),
    "the second component is not looked at": ({"component[TotalCPU][gte]": "1"}, ""),
    "an equal time is not looked at": ({"stop_time[equals]": "2026-01-01T01:00:00Z"}, "r0 r1 r2"),
    "two lower bounds are not looked at": (
        {"stop_time[gt]": "2027-01-01T01:00:00Z", "stop_time[gte]": "2027-01-01T01:00:00Z"},
        "r0 r1 r2",
    ),
    "the last first": ({"sort_by[desc]": "record_id"}, "r2 r1 r0"),
    "a few": ({"limit": "2"}, "r0 r1"),
}


@pytest.mark.parametrize(("query", "found"), QUERIES.values(), ids=QUERIES)
def test_a_query(auditor, query, found):
    """Objects one after the other, with the traps that the server has."""
    some(auditor)
    status, body = ask(auditor, "GET", "/records", query=query)
    objects = [json.loads(text)["record_id"] for text in body.replace("}{", "}\n{").splitlines()]
    assert (status, " ".join(objects)) == (200, found)


@pytest.mark.parametrize(
    "query",
    [{"offset": "1"}, {"stop_time[gte]": "x"}, {"stop_time[near]": "2026-01-01T00:00:00Z"}, {"sort_by[asc]": "x"}],
    ids=str,
)
def test_what_is_no_query(auditor, query):
    assert ask(auditor, "GET", "/records", query=query)[0] == 400


def test_who_may_write_and_who_may_read(auditor):
    """By the certificate's common name; no one may ask for the server's health; over plain HTTP everybody may all."""
    auditor.access = AuditorAccess(write=frozenset({"ce.example.org"}), read=frozenset({"other.example.org"}))

    assert ask(auditor, "POST", "/record", record(), peer=OTHER)[0] == 403
    assert ask(auditor, "PUT", "/record", record(), peer=OTHER)[0] == 403
    assert ask(auditor, "POST", "/record", record())[0] == 200
    assert ask(auditor, "GET", "/record/r1")[0] == 403
    assert ask(auditor, "GET", "/record/r1", peer=OTHER)[0] == 200
    assert ask(auditor, "GET", "/health_check", peer=OTHER)[0] == 403
    assert ask(auditor, "GET", "/health_check", peer=None)[0] == 200
    assert ask(auditor, "POST", "/record", record("r2"), peer=None)[0] == 200


def test_what_is_too_large_or_something_else(auditor):
    """413 for the first; 404 for other paths and methods, 400 for what does not say that it is JSON."""
    auditor.largest_body = 100
    assert ask(auditor, "POST", "/record", record())[0] == 413
    assert ask(auditor, "POST", "/health_check", record())[0] == 404
    assert ask(auditor, "PUT", "/records", [])[0] == 404
    assert ask(auditor, "DELETE", "/record", record())[0] == 404
    assert ask(auditor, "GET", "/elsewhere")[0] == 404
    assert auditor.answer(HTTPRequest("POST", "/record", {}, {}, b"{}", CE)).status == 400


def test_what_came_is_kept(auditor, tmp_path):
    """Each document is a file, and a line says what became of it; a month has its sum."""
    ask(auditor, "POST", "/records", [record("r1"), record("r2")])
    assert json.loads((tmp_path / "received" / "auditor" / "0001.json").read_text())[1]["record_id"] == "r2"
    assert auditor.totals() == ["AUDITOR 2026-01: records 2, runtime 7200 s"]
    answer = auditor.answer(HTTPRequest("POST", "/record", {}, JSON, json.dumps(record()).encode(), CE))
    assert answer.arrivals[0][1:] == (1, "auditor/0002.json", "RECORD_EXISTS")


def test_tls_turns_away_who_shows_no_good_certificate(sandbox):
    """No certificate, or one whose time is over, ends in the handshake."""
    old = sandbox.authority.issue("ce.example.org", stem="old", not_before=NOW - 9 * 86_400, not_after=NOW - 86_400)
    for credential in (None, old):
        with Connection(sandbox, "auditor", credential) as connection, pytest.raises((ssl.SSLError, OSError)):
            connection.ask("GET", "/record/r1")
    with Connection(sandbox, "auditor", sandbox.client) as connection:
        assert connection.ask("GET", "/record/r1").status == 500


def test_plain_http(auditor):
    """A port without TLS, open to everyone."""
    auditor.access = AuditorAccess()
    server = Server(auditor, None, 0, Faults(["auditor"]), auditor.journal)
    server.start()
    try:
        connection = http.client.HTTPConnection("localhost", server.port, timeout=10)
        connection.request("POST", "/record", json.dumps(record()), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.stop()
    assert list(auditor.records) == ["r1"]


def test_the_official_client(sandbox):
    """It adds, repeats, changes, reads and asks, over mutual TLS, as with the real server."""
    pyauditor = pytest.importorskip("pyauditor")
    start, stop, later = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(3))
    made = pyauditor.Record("r/1#ä", start).with_stop_time(stop).with_component(pyauditor.Component("Cores", 4))

    async def use() -> None:
        # The blocking one keeps every other thread of Python from running, the server's too.
        client = auditor_client(sandbox)
        await client.add(made)
        with pytest.raises(RuntimeError):
            await client.add(made)
        await client.bulk_insert([pyauditor.Record(f"r{number}", start) for number in (2, 3)])
        await client.update(made.with_stop_time(later))

        assert [one.record_id for one in await client.get()] == ["r/1#ä", "r2", "r3"]
        wanted = pyauditor.Operator().gt(pyauditor.Value.set_runtime(0))
        (found,) = await client.advanced_query(pyauditor.QueryBuilder().with_runtime(wanted).build())
        assert (found.runtime, found.components[0].amount) == (7200, 4)
        assert (await client.get_single_record("r%2F1%23%C3%A4")).runtime == 7200

    asyncio.run(use())
