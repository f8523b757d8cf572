from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
import time

import pytest
from sandbox_clients import (
    Connection,
    encrypt,
    publication,
    sign,
    summary_message,
    sync_message,
    usage_record,
    usage_records,
)

from arcacct import sandbox as package
from arcacct.errors import ConfigError, TargetBusy
from arcacct.sandbox import Sandbox, http_server, sgas

PUBLISH = "/v1/projects/accounting/topics/gLite-APEL:publish"


def test_one_connection_serves_many_requests(sandbox):
    """Connections are kept alive, and both are counted."""
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        for job in range(5):
            connection.ask("POST", "/sgas/ur", usage_records(usage_record(f"job{job}")))
    server = sandbox.servers["sgas"]
    assert (server.connections, server.requests) == (1, 5)


def test_received_documents_are_kept_and_listed(sandbox):
    """Every document lies under its number, and the index has a line for each with records, answer and file."""
    document = usage_records(usage_record("a"), usage_record("b"))
    message = sign(sandbox.client, sync_message().encode())
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        connection.ask("POST", "/sgas/ur", document)
        connection.ask("POST", "/sgas/ur", "nonsense")
    with Connection(sandbox, "ams") as connection:
        connection.ask("POST", PUBLISH, publication(message), x_api_key=sandbox.token)
    with open(os.path.join(sandbox.received, "index.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert [(line["target"], line["records"], line["answer"], line["file"]) for line in lines] == [
        ("sgas", 2, 200, "sgas/0001.xml"),
        ("sgas", None, 500, "sgas/0002.xml"),
        ("apel", 1, 200, "apel/0001.smime"),
    ]
    assert [line["verdict"] for line in lines][::2] == ["stored", "loaded"]
    with open(os.path.join(sandbox.received, "sgas/0001.xml"), encoding="utf-8") as file:
        assert file.read() == document
    with open(os.path.join(sandbox.received, "apel/0001.smime"), "rb") as file:
        assert file.read() == message


def test_an_encrypted_message_is_loaded(sandbox):
    """A sender that encrypts to APEL's certificate is read as one that only signs."""
    signed = sign(sandbox.client, sync_message().encode())
    message = encrypt(sandbox.apel_certificate, signed)
    with Connection(sandbox, "ams") as connection:
        connection.ask("POST", PUBLISH, publication(message), x_api_key=sandbox.token)
    assert (sandbox.apel.rejected, len(sandbox.apel.sync_records)) == ([], 1)


def test_chunked_requests_are_read(sandbox):
    """A body of unknown length arrives whole."""
    document = usage_records(usage_record()).encode()
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        pieces = iter([document[:100], document[100:]])
        connection.http.request(
            "POST", "/sgas/ur", pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        assert connection.http.getresponse().status == 200
    assert len(sandbox.sgas.records) == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("Content-Length: 1000000000000", 413),
        ("Content-Length: -1", 400),
        ("Content-Length: much", 400),
        ("Transfer-Encoding: chunked\r\n\r\nE8D4A51000", 413),
        ("Transfer-Encoding: chunked\r\n\r\n" + "800000\r\n" + "x" * 0x800000 + "\r\n800001", 413),
        ("Transfer-Encoding: chunked\r\n\r\n-1", 400),
    ],
)
def test_a_neighbour_cannot_fill_the_memory(sandbox, head, status):
    """Who shows no certificate is answered before a body without end is read, and the connection is closed."""
    with Connection(sandbox, "ams") as connection:
        connection.http.connect()
        connection.http.sock.sendall(f"POST {PUBLISH} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n".encode())
        answer = connection.http.sock.makefile("rb").read()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_an_unknown_client_has_no_rights(sandbox):
    """A certificate of the right authority that is in no authz file gets 403."""
    stranger = sandbox.authority.issue("other.example.org", stem="other")
    with Connection(sandbox, "sgas", stranger) as connection:
        assert connection.ask("POST", "/sgas/ur", usage_records(usage_record())).status == 403


def test_sgas_wants_a_certificate(sandbox):
    """Without one nginx answers 400; the messaging service does not ask for one."""
    with Connection(sandbox, "sgas") as connection:
        assert connection.ask("GET", "/sgas").status == 400
    with Connection(sandbox, "ams") as connection:
        assert connection.ask("GET", "/v1/status").status == 200


def test_old_tls_is_refused(sandbox):
    """Below TLS 1.2 there is no connection."""
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        connection = Connection(sandbox, "sgas", sandbox.client, maximum=ssl.TLSVersion.TLSv1_1)
    with connection, pytest.raises((ssl.SSLError, OSError)):
        connection.ask("GET", "/sgas")


def test_a_silent_client_stops_no_one(sandbox):
    """Someone who connects and never speaks TLS does not hold up the next one."""
    with (
        socket.create_connection(("127.0.0.1", sandbox.servers["sgas"].port)),
        Connection(sandbox, "sgas", sandbox.client) as connection,
    ):
        assert connection.ask("GET", "/sgas").status == 200


def test_closing_with_connections_open(tmp_path):
    """The sandbox ends although a client keeps its connection, and leaves no thread behind."""
    before = threading.active_count()
    with Sandbox(str(tmp_path)) as sandbox:
        connection = Connection(sandbox, "sgas", sandbox.client)
        assert connection.ask("GET", "/sgas").status == 200
    connection.http.close()
    assert threading.active_count() == before


def test_chosen_ports(tmp_path):
    """The ports asked for are used, and given back at the end."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for _ in range(2):
        with Sandbox(str(tmp_path), sgas_port=port) as sandbox:
            assert sandbox.sgas_url == f"https://localhost:{port}/sgas"


def test_a_port_that_is_taken(sandbox, tmp_path):
    """A taken port is named, with what to do, and the other ports are free again."""
    taken = sandbox.servers["ams"].port
    with pytest.raises(TargetBusy, match=f"port {taken} .*choose another"):
        Sandbox(str(tmp_path / "second"), ams_port=taken)


def test_a_directory_that_cannot_be_written(tmp_path):
    """The directory is named, with what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/x: .*choose a directory"):
        Sandbox(str(tmp_path / "file" / "x"))


def test_loopback_only(sandbox):
    """No other address of the machine is served."""
    assert {server._listener.server_address[0] for server in sandbox.servers.values()} == {"127.0.0.1"}


def test_the_totals_are_those_of_the_portals(sandbox):
    """APEL's months from what its summariser made, SGAS's days from its aggregates; nothing without records."""
    assert sandbox.totals() == []
    message = sign(sandbox.client, summary_message().encode())
    with Connection(sandbox, "ams") as connection:
        connection.ask("POST", PUBLISH, publication(message), x_api_key=sandbox.token)
    sandbox.sgas.clock = lambda: 1_767_571_200
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        connection.ask("POST", "/sgas/ur", usage_records(usage_record()))
    assert sandbox.totals() == [
        "APEL TEST-SITE 2010-03: jobs 5, wall 100 s, CPU 90 s, normalised wall 1000 s, normalised CPU 900 s",
        "SGAS ce.example.org 2026-01-05: jobs 1, wall 60 s, CPU 0 s",
    ]


def test_the_configuration_it_prints_is_understood(sandbox, tmp_path):
    """The printed blocks are targets with addresses, port and credentials."""
    from arcacct.config.parser import parse

    blocks = {block.name: block for block in parse(sandbox.configuration(), "arcacct.conf")}
    assert set(blocks) == {"arex/jura/sgas:sandbox", "arex/jura/apel:sandbox", "arcacct/auditor:sandbox"}
    apel = {name: options[0].value for name, options in blocks["arex/jura/apel:sandbox"].options.items()}
    assert apel["targeturl"] == sandbox.ams_url
    assert apel["authn_port"] == str(sandbox.authn_port)
    assert all(os.path.exists(apel[f"x509_{name}"]) for name in ("host_cert", "host_key", "cert_dir"))


class Echo(http_server.Receiver):
    """A receiver as somebody may add one."""

    endpoint, title, documents = "echo", "a receiver that repeats", "echoes"

    @classmethod
    def beside(cls, box):
        echo = cls()
        echo.journal = box.journal
        return echo

    def address(self, port):
        return f"echo {port}"

    def delivers(self, request):
        return request.method == "POST"

    def answer(self, request):
        file = self.journal.keep("echoes", self.journal.number("echoes"), request.body)
        return http_server.HTTPAnswer(200, request.body, arrivals=(http_server.Arrival("echoes", 1, file, "repeated"),))

    def block(self, box):
        return ["[arcacct/echo:sandbox]", *box.credentials]

    def totals(self):
        return ["ECHO 1"]


def test_a_new_receiver_is_one_line(tmp_path, monkeypatch):
    """Its port, faults, documents, block and totals are the sandbox's as those of the others are."""
    monkeypatch.setattr(package, "RECEIVERS", (*package.RECEIVERS, Echo))
    with Sandbox(str(tmp_path)) as box, Connection(box, "echo", box.client) as connection:
        box.faults.answer("echo", 503)
        assert [connection.ask("POST", "/", "hello").status for _ in range(2)] == [503, 200]
        assert (tmp_path / "received" / "echoes" / "0001").read_text() == "hello"
        assert box.echo.journal is box.journal
        assert "[arcacct/echo:sandbox]\nx509_host_cert = " in box.configuration()
        assert box.addresses.endswith(f"echo {box.servers['echo'].port}")
        assert box.totals() == ["ECHO 1"]
    lines = (tmp_path / "received" / "index.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == [503, 200]


RECORD = "ur-ce.example.org-job1"


def index(sandbox) -> list[dict]:
    """The lines of the journal."""
    with open(os.path.join(sandbox.received, "index.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def post(connection: Connection, *jobs: str):
    """Send usage records of these jobs."""
    return connection.ask("POST", "/sgas/ur", usage_records(*(usage_record(job) for job in jobs)))


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (503, sgas.UNAVAILABLE, {}),
        (429, "slow down", {"Retry-After": "7"}),
        (500, sgas.PROCESSING_FAILED, {}),
        (413, "<html>413</html>", {}),
        (502, "", {}),
    ],
)
def test_an_answer_on_order(sandbox, status, body, headers):
    """The next request gets the ordered answer and is not worked on; the one after it is served."""
    sandbox.faults.answer("sgas", status, body, headers=headers)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        answer = post(connection, "job1")
        assert (answer.status, answer.text) == (status, body)
        assert headers.items() <= {"Retry-After": answer.headers.get("retry-after")}.items()
        assert sandbox.sgas.records == {}
        assert post(connection, "job1").status == 200
    assert [line["answer"] for line in index(sandbox)] == [status, 200]
    assert sandbox.faults.pending("sgas") == 0


def test_an_answer_for_several_requests(sandbox):
    """A fault is met as many times as it was ordered for, or until it is cleared."""
    sandbox.faults.answer("sgas", 503, times=2)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        assert [post(connection, "job1").status for _ in range(3)] == [503, 503, 200]
        sandbox.faults.answer("sgas", 503, times=None)
        assert [post(connection, "job1").status for _ in range(3)] == [503] * 3
        sandbox.faults.clear()
        assert post(connection, "job1").status == 200


def test_a_poisonous_record(sandbox):
    """A fault can follow a record: every document with it is refused, others are not."""
    sandbox.faults.answer("sgas", 500, "smallint out of range", containing=f'"{RECORD}"', times=None)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        answers = [post(connection, *jobs).status for jobs in (("job1", "job2"), ("job2",), ("job1",), ("job3",))]
    assert answers == [500, 200, 500, 200]
    assert set(sandbox.sgas.records) == {"ur-ce.example.org-job2", "ur-ce.example.org-job3"}


def test_null_after_the_work(sandbox):
    """The server that lost its result: 200 `null`, and the records are there."""
    sandbox.faults.answer("sgas", 200, sgas.NULL, after_work=True)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        assert post(connection, "job1").text == "null"
        assert list(sandbox.sgas.records) == [RECORD]
        assert post(connection, "job1").json == {RECORD: "1"}


@pytest.mark.parametrize("after_work", [False, True], ids=["before the work", "after the work"])
def test_a_lost_connection(sandbox, after_work):
    """The connection closes without an answer; the records are there only if the work was done."""
    sandbox.faults.drop("sgas", after_work=after_work)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        with pytest.raises((http.client.RemoteDisconnected, OSError)):
            post(connection, "job1")
        assert bool(sandbox.sgas.records) is after_work
    (line,) = index(sandbox)
    assert line["answer"] is None
    assert line["file"] == ("sgas/0001.xml" if after_work else None)


def test_a_balancer_without_patience(sandbox):
    """504 after the message was stored: the sender's repeat is there twice, and loaded once."""
    sandbox.faults.answer("ams", 504, "<html>Gateway Timeout</html>", after_work=True, path=":publish")
    body = publication(sign(sandbox.client, sync_message().encode()))
    with Connection(sandbox, "ams") as connection:
        answers = [connection.ask("POST", PUBLISH, body, x_api_key=sandbox.token).status for _ in range(2)]
    assert answers == [504, 200]
    assert len(sandbox.ams.messages("accounting", "gLite-APEL")) == 2
    assert len(sandbox.apel.sync_records) == 1


def test_faults_look_into_signed_messages(sandbox):
    """`containing` sees through base64, and `path` keeps a fault to one kind of request."""
    sandbox.faults.answer("ams", 500, containing="Site: BAD", path=":publish", times=None)
    with Connection(sandbox, "ams") as connection:
        answers = [
            connection.ask(
                "POST",
                PUBLISH,
                publication(sign(sandbox.client, sync_message(Site=site).encode())),
                x_api_key=sandbox.token,
            ).status
            for site in ("BAD", "GOOD")
        ]
        assert connection.ask("GET", "/v1/status").status == 200
    assert answers == [500, 200]


def test_a_slow_answer(sandbox):
    """The answer comes late, after the work if ordered so, and is the real one."""
    sandbox.faults.slow("sgas", 0.2, after_work=True)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        begin = time.monotonic()
        assert post(connection, "job1").json == {RECORD: "1"}
        assert time.monotonic() - begin >= 0.2


def test_a_slow_answer_does_not_outlive_the_sandbox(sandbox):
    """Closing ends a wait of an hour at once."""
    sandbox.faults.slow("sgas", 3600)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        asking = threading.Thread(target=_ask_in_vain, args=(connection,))
        asking.start()
        while sandbox.faults.pending("sgas"):
            time.sleep(0.01)
        begin = time.monotonic()
        sandbox.close()
        assert time.monotonic() - begin < 60
        asking.join()


def _ask_in_vain(connection: Connection) -> None:
    with contextlib.suppress(OSError):
        post(connection, "job1")
