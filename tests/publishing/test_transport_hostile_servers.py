"""
What a hostile server or proxy can do to an exchange, in tables: each row is one behaviour.

Each exchange ends within its limits of time and bytes, and its meaning is known. No other host gets the token.
"""

from __future__ import annotations

import gzip
import itertools
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import pytest
from dripping_receiver import ANSWERS, GUARD_S, HANDSHAKE, TUNNEL, Drip, DrippingReceiver, dripping
from scripted_receiver import ConnectProxy, Say, ScriptedReceiver, say, server_context

from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.transport import Request
from arcacct.sandbox.authority import create
from arcacct.targets.apel.ams import classify_ams
from arcacct.targets.auditor.sender import classify as classify_auditor

TOKEN = "e5a1c9d70b"
STORED = b'{"messageIds": ["1"]}'
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ACCEPTED, LATER = Outcome.ACCEPTED, Outcome.TRY_LATER
STOPPED = Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
NO_HTTP = "the answer is not HTTP"
TOO_MUCH = "more bytes arrived than any response has"
OUT_OF_TIME = "no complete answer within 3 s (exchange_timeout)"
TIME_S = 3.0


class Meaning(NamedTuple):
    """The expected meaning of an exchange."""

    kind: Outcome
    words: str
    """A part of the answer's text; for an accepted message the receiver's number."""
    known: bool = False
    """Whether the receiver is known to have done the work, or not to have done it."""


UNKNOWN_OUTCOME = Meaning(LATER, OUT_OF_TIME)


def post(url: str, body: bytes = b"{}") -> Request:
    return Request("POST", f"{url}/x", {"Content-Type": "application/json", "x-api-key": TOKEN}, body)


def check(answer: Answer, expected: Meaning) -> None:
    assert (answer.kind, answer.outcome_known) == (expected.kind, expected.known or expected.kind == ACCEPTED), answer
    assert expected.words in (answer.receiver_id if answer.kind == ACCEPTED else answer.text), answer
    assert TOKEN not in repr(answer)


@pytest.fixture
def start():
    """Start servers that are stopped at the end."""
    found = []
    yield lambda server: found.append(server) or server
    for server in found:
        server.stop()


@pytest.fixture
def elsewhere(host, start):
    """Another host, which would answer well."""
    server = start(ScriptedReceiver(server_context(host)))
    server.script = [Say(200, STORED)] * 10
    return server


# --- a server that takes its time

SLOW = {
    **ANSWERS,
    "name of a header": Drip(OK, b"x"),
    "header of 100 Continue": Drip(CONTINUE[:-2] + b"X: ", b"x"),
    "102 Processing": Drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "103 Early Hints": Drip(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    "size of a chunk": Drip(CHUNKED, b"0"),
    "one chunk": Drip(CHUNKED + b"f4240\r\n", b"x"),
    "one trailer": Drip(CHUNKED + b"0\r\nT: ", b"x"),
    "compressed body": Drip(
        OK + b"Content-Encoding: gzip\r\nContent-Length: 1000000\r\n\r\n" + gzip.compress(b""), b"x"
    ),
    "body of a redirect": Drip(b"HTTP/1.1 307 There\r\nLocation: /x\r\nContent-Length: 1000000\r\n\r\n", b"x"),
    "body of an error": Drip(b"HTTP/1.1 503 Busy\r\nContent-Length: 1000000\r\n\r\n", b"x"),
}
SILENT = {
    "silence in a head": Drip(OK, b"X"),
    "silence in a body": Drip(OK + b"Content-Length: 1000000\r\n\r\n", b"x"),
    "silence in chunks": Drip(CHUNKED + b"5\r\n", b"x"),
    "silence in trailers": Drip(CHUNKED + b"0\r\n", b"T"),
}


class SlowHandshake(DrippingReceiver):
    """Sends its part of the handshake after the client has sent its own, as servers do."""

    def _converse(self, connection, reader) -> bool:
        reader.read(1)
        return super()._converse(connection, reader)


def test_an_exchange_with_a_slow_server_ends_with_its_time(host, session_of, start, receiver) -> None:
    """One byte now and then, or silence, at any point; all servers at once, since each exchange uses all its time."""
    tls = server_context(host)
    slow: dict[str, tuple[ScriptedReceiver, ScriptedReceiver | None, bool]] = {
        **{name: (DrippingReceiver(tls, drip), None, False) for name, drip in SLOW.items()},
        **{name: (DrippingReceiver(tls, drip, pause_s=GUARD_S), None, False) for name, drip in SILENT.items()},
        "silence before an answer": (dripping(host, "100 Continue", pause_s=GUARD_S), None, False),
        "reading": (dripping(host, "body", slow=True), None, False),
        "a handshake": (SlowHandshake(None, HANDSHAKE, deaf=True), None, True),
        "silence in a handshake": (SlowHandshake(None, HANDSHAKE, deaf=True, pause_s=GUARD_S), None, True),
        "a proxy's status": (receiver, DrippingReceiver(None, Drip(b"HTTP/1.1 200 ", b"O")), True),
        "a proxy's header": (receiver, DrippingReceiver(None, TUNNEL), True),
        "a proxy's silence": (receiver, DrippingReceiver(None, TUNNEL, pause_s=GUARD_S), True),
        "a proxy's handshake": (receiver, SlowHandshake(None, HANDSHAKE, deaf=True), True),
        "a header of a proxy with TLS": (receiver, DrippingReceiver(tls, TUNNEL), True),
        "a handshake in a tunnel": (SlowHandshake(None, HANDSHAKE, deaf=True), ConnectProxy(), True),
        "a handshake in a tunnel with TLS": (SlowHandshake(None, HANDSHAKE, deaf=True), ConnectProxy(tls), True),
        "a body in a tunnel": (dripping(host, "body"), ConnectProxy(), False),
        "a body in a tunnel with TLS": (dripping(host, "body"), ConnectProxy(tls), False),
        "reading in a tunnel with TLS": (dripping(host, "body", slow=True), ConnectProxy(tls), False),
    }
    with_tls = {"a proxy's handshake"} | {name for name in slow if name.endswith("with TLS")}
    sessions = {}
    for name, (server, proxy, _known) in slow.items():
        for one in filter(None, (server, proxy)):
            start(one)
        scheme = "https" if name in with_tls else "http"
        sessions[name] = session_of(
            proxy=proxy and f"{scheme}://localhost:{proxy.port}", backoff_s=(), read_s=600.0, exchange_s=TIME_S
        )
        sessions[name]._timeouts = sessions[name]._timeouts._replace(connect_s=600.0)

    def answered(name: str) -> Answer:
        body = b"x" * 20_000_000 if name.startswith("reading") else b"{}"
        return sessions[name].request(post(slow[name][0].url, body), classify_ams)

    with ThreadPoolExecutor(len(slow)) as threads:
        answers = dict(zip(slow, threads.map(answered, slow), strict=True))
    found = {name: (answer.kind, answer.outcome_known, OUT_OF_TIME in answer.text) for name, answer in answers.items()}
    assert found == {name: (LATER, known, True) for name, (_server, _proxy, known) in slow.items()}
    dripping_ones = [(name, one) for name, row in slow.items() for one in row[:2] if isinstance(one, DrippingReceiver)]
    assert [name for name, one in dripping_ones if one.outwaited] == []


# --- a server that sends without end

FLOODS = {
    "status line": (Drip(b"HTTP/1.1 200 ", b"O" * 1000), NO_HTTP),
    "header": (Drip(OK + b"X: ", b"x" * 1000), NO_HTTP),
    "headers": (Drip(OK, b"X: x\r\n"), NO_HTTP),
    "large headers": (Drip(OK, b"X: " + b"x" * 60_000 + b"\r\n"), TOO_MUCH),
    "100 Continue": (Drip(b"", CONTINUE), TOO_MUCH),
    "102 Processing": (Drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), TOO_MUCH),
    "headers of 100 Continue": (Drip(CONTINUE[:-2], b"X: x\r\n"), NO_HTTP),
    "chunk extension": (Drip(CHUNKED + b"1;x=", b"x" * 1000), NO_HTTP),
    "chunks with large extensions": (Drip(CHUNKED, b"1;x=" + b"x" * 1000 + b"\r\nx\r\n"), TOO_MUCH),
    "size of a chunk": (Drip(CHUNKED, b"0" * 1000), NO_HTTP),
    "a chunk of a negative size": (Drip(CHUNKED + b"-1\r\n", b"x" * 1000), TOO_MUCH),
    "trailers": (Drip(CHUNKED + b"0\r\n", b"T: x\r\n"), TOO_MUCH),
    "one trailer": (Drip(CHUNKED + b"0\r\nT: ", b"x" * 1000), NO_HTTP),
}


@pytest.mark.parametrize("where", FLOODS)
def test_a_flood_ends_with_its_bytes(host, session_of, start, where) -> None:
    """Neither the time nor the memory of a run is used for it."""
    drip, words = FLOODS[where]
    server = start(DrippingReceiver(server_context(host), drip, pause_s=0))
    check(session_of(backoff_s=()).request(post(server.url), classify_ams), Meaning(LATER, words))


@pytest.mark.parametrize(
    "start_of_body",
    [OK + b"Content-Length: 1000000000000\r\n\r\n", OK + b"\r\n", CHUNKED + b"e8d4a51000\r\n"],
    ids=["a length", "until it closes", "one chunk"],
)
def test_a_body_without_end_is_cut(host, session_of, start, start_of_body) -> None:
    """It is no answer of AMS, but a server may have accepted the message."""
    server = start(DrippingReceiver(server_context(host), Drip(start_of_body, b"x" * 1000), pause_s=0))
    check(session_of(backoff_s=()).request(post(server.url), classify_ams), Meaning(STOPPED, "x"))


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("drip", [TUNNEL, Drip(OK, b"X: x\r\n"), Drip(b"HTTP/1.1 200 ", b"O")])
def test_a_flood_of_a_proxy_ends_with_its_bytes(host, session_of, start, receiver, scheme, drip) -> None:
    """The target was not contacted."""
    flood = drip._replace(endless=drip.endless * 1000)
    proxy = start(DrippingReceiver(server_context(host) if scheme == "https" else None, flood, pause_s=0))
    session = session_of(proxy=f"{scheme}://localhost:{proxy.port}", backoff_s=())
    check(session.request(post(receiver.url), classify_ams), Meaning(LATER, "the proxy cannot connect us", known=True))
    assert receiver.connections == 0


# --- answers that no good server gives


def packed(wbits: int, n_bytes: int = 20_000_000) -> bytes:
    """So many zero bytes, compressed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return packer.compress(bytes(n_bytes)) + packer.flush()


def coded(encoding: str, body: bytes) -> Say:
    return say(200, body, Content_Encoding=encoding)


def last(*parts: bytes) -> Say:
    """Exactly these bytes; then the server closes the connection."""
    return Say(raw=b"".join(parts), cut=True)


CUT_SHORT, NOT_UNPACKED = (Meaning(LATER, "the answer is incomplete"), Meaning(LATER, "the answer cannot be decoded"))
CLOSED, FOREIGN = Meaning(LATER, "the connection was closed without an answer"), Meaning(LATER, NO_HTTP)
FINE = Meaning(ACCEPTED, "1")
ODD = {
    "another protocol": (last(b"SSH-2.0-OpenSSH_9.6\r\n"), FOREIGN),
    "a page without a head": (last(b"<html>", STORED), FOREIGN),
    "HTTP/2": (last(b"HTTP/2.0 200 OK\r\n\r\n"), FOREIGN),
    "a status in letters": (last(b"HTTP/1.1 OK\r\n\r\n"), FOREIGN),
    "a status of two digits": (last(b"HTTP/1.1 99 OK\r\n\r\n"), FOREIGN),
    "a status of four digits": (last(b"HTTP/1.1 1000 OK\r\n\r\n"), FOREIGN),
    "a negative status": (last(b"HTTP/1.1 -200 OK\r\n\r\n"), FOREIGN),
    "too many headers": (last(OK, b"X: x\r\n" * 200), FOREIGN),
    "a header that is too long": (last(OK, b"X: ", b"x" * 70_000), FOREIGN),
    "two lengths": (last(OK, b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}\n"), FOREIGN),
    "a length that is too large": (last(OK, b"Content-Length: 1", b"0" * 30, b"\r\n\r\n"), CUT_SHORT),
    "a length of 5000 digits": (last(OK, b"Content-Length: ", b"9" * 5000, b"\r\n\r\n", STORED), FINE),
    "a negative length": (last(OK, b"Content-Length: -1\r\n\r\n", STORED), FINE),
    "a length without a number": (last(OK, b"Content-Length: many\r\n\r\n", STORED), FINE),
    "a length and chunks": (
        Say(raw=CHUNKED[:-2] + b"Content-Length: 3\r\n\r\n15\r\n" + STORED + b"\r\n0\r\n\r\n"),
        FINE,
    ),
    "a chunk without a size": (last(CHUNKED, b"x\r\n"), CUT_SHORT),
    "a chunk that is too large": (last(CHUNKED, b"f" * 20, b"\r\nx"), CUT_SHORT),
    "a chunk that ends": (last(CHUNKED, b"ff\r\n", STORED), CUT_SHORT),
    "chunks that end": (last(CHUNKED, b"15\r\n", STORED, b"\r\n"), CUT_SHORT),
    "half a body": (Say(200, STORED[:-1], cut=True), CUT_SHORT),
    "half a head": (last(OK, b"Content-Le"), CUT_SHORT),
    "no answer": (Say(hang_up=True), CLOSED),
    "half a gzip": (coded("gzip", gzip.compress(STORED)[:-9]), NOT_UNPACKED),
    "no gzip": (coded("gzip", STORED), NOT_UNPACKED),
    "no deflate": (coded("deflate", STORED), NOT_UNPACKED),
    "an unknown encoding": (coded("br", gzip.compress(STORED)), Meaning(STOPPED, "")),
    "a bomb": (coded("gzip", packed(zlib.MAX_WBITS | 16)), Meaning(STOPPED, "")),
    "a bomb of deflate": (coded("deflate", packed(zlib.MAX_WBITS)), Meaning(STOPPED, "")),
    "a bomb in a bomb": (coded("gzip, gzip", gzip.compress(packed(zlib.MAX_WBITS | 16))), Meaning(STOPPED, "")),
    "many parts of gzip": (coded("gzip", gzip.compress(STORED) + gzip.compress(b"") * 10_000), FINE),
    "another protocol from here": (
        Say(raw=b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n"),
        Meaning(STOPPED, "", True),
    ),
    "no content, with content": (Say(204, STORED), Meaning(STOPPED, "")),
    "not modified": (Say(304), Meaning(STOPPED, "redirects to nowhere", True)),
    "an unknown status": (Say(999, STORED), Meaning(LATER, "")),
}


@pytest.mark.parametrize("behaviour", ODD)
def test_an_odd_answer_has_one_meaning(session_of, receiver, behaviour) -> None:
    """A message is accepted only by a whole answer, and the next exchange gets its own answer."""
    step, expected = ODD[behaviour]
    receiver.script = [step, Say(200, b'{"messageIds": ["2"]}')]
    session = session_of(backoff_s=())
    check(session.request(post(receiver.url), classify_ams), expected)
    check(session.request(post(receiver.url), classify_ams), Meaning(ACCEPTED, "2"))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200", OK, OK + b"Content-Le", OK + b"Content-Length: 0\r\n"])
@pytest.mark.parametrize("before", [b"", CONTINUE])
def test_half_a_head_accepts_nothing(session_of, receiver, before, head) -> None:
    """An empty 200 is AUDITOR's answer to records that are stored: a page whose rest is lost must not look like it."""
    receiver.script = [last(before, head), Say(200)]
    session = session_of(backoff_s=())
    check(session.request(post(receiver.url), classify_auditor), CUT_SHORT)
    assert session.request(post(receiver.url), classify_auditor).kind == ACCEPTED


# --- answers that lead to another host

LEADS = {
    **{str(status): (status, "Location", "{url}/x", True) for status in (300, 301, 302, 303, 305, 307, 308)},
    "without a scheme": (302, "Location", "//localhost:{port}/x", True),
    "in clear": (302, "Location", "http://localhost:{port}/x", True),
    "with a login": (302, "Location", "https://me:secret@localhost:{port}/x", True),
    "201": (201, "Location", "{url}/x", False),
    "Refresh": (200, "Refresh", "0; url={url}/x", False),
    "Content-Location": (200, "Content-Location", "{url}/x", False),
    "Alt-Svc": (503, "Alt-Svc", 'h2="localhost:{port}"', True),
    "a login": (401, "WWW-Authenticate", 'Basic realm="{url}"', True),
    "a login for a proxy": (407, "Proxy-Authenticate", 'Basic realm="{url}"', True),
    "a cookie": (503, "Set-Cookie", "a=b; Domain=localhost; Path=/", True),
}


@pytest.mark.parametrize("way", LEADS)
def test_no_answer_leads_to_another_host(session_of, receiver, elsewhere, way) -> None:
    """Records and token go to the configured host only, and nothing of an answer returns with the next request."""
    status, name, value, known = LEADS[way]
    lead = value.format(url=elsewhere.url, port=elsewhere.port)
    receiver.script = [Say(status, b"", ((name, lead),)), Say(200, STORED)]
    session = session_of(backoff_s=())
    answer = session.request(post(receiver.url), classify_ams)
    assert answer.kind in {STOPPED, LATER, Outcome.TOKEN_REFUSED}
    assert answer.outcome_known == known
    check(session.request(post(receiver.url), classify_ams), FINE)
    assert elsewhere.connections == 0
    assert receiver.heard[0].headers == receiver.heard[1].headers


# --- proxies

PROXIES = {
    "a redirect": (say(302, b"", Location="https://localhost:{port}/x"), LATER, "HTTP 302"),
    "a refusal": (say(403), STOPPED, "the proxy rejects the connection (HTTP 403)"),
    "a login": (say(407, b"", Proxy_Authenticate="Basic"), STOPPED, "HTTP 407"),
    "an overload": (say(503), LATER, "the proxy cannot connect us (HTTP 503)"),
    "another success": (say(204), LATER, "the proxy cannot connect us (HTTP 204)"),
    "another protocol": (Say(raw=b"SSH-2.0-OpenSSH_9.6\r\n"), LATER, "the proxy cannot connect us"),
    # TLS fails, or the connection is reset: the proxy may close it before it has read the start of TLS.
    "an answer of its own": (Say(raw=OK + b"\r\n" + OK + b"\r\n" + STORED), LATER, ""),
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("behaviour", PROXIES)
def test_a_hostile_proxy_gets_no_token(host, session_of, start, receiver, elsewhere, behaviour, scheme) -> None:
    """Whatever it answers, the request is sent only to a target with the right certificate."""
    step, kind, words = PROXIES[behaviour]
    proxy = start(ConnectProxy(server_context(host) if scheme == "https" else None))
    moved = tuple((name, value.format(port=elsewhere.port)) for name, value in step.headers)
    proxy.script = [step._replace(headers=moved)]
    session = session_of(proxy=f"{scheme}://localhost:{proxy.port}", backoff_s=())
    check(session.request(post(receiver.url), classify_ams), Meaning(kind, words, known=True))
    assert TOKEN not in repr(proxy.told)
    assert receiver.connections == elsewhere.connections == 0


class Diverting(ConnectProxy):
    """A proxy that connects to another host."""

    port_of_target = 0

    def _converse(self, connection, reader) -> bool:
        lines = itertools.chain([b"CONNECT localhost:%d HTTP/1.1\r\n" % self.port_of_target], reader)
        next(iter(reader))
        return super()._converse(connection, Lines(lines))


class Lines:
    """The lines of a request."""

    def __init__(self, lines) -> None:
        self._lines = iter(lines)

    def readline(self) -> bytes:
        return next(self._lines, b"")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_connects_to_another_host_gets_no_token(
    authority, host, session_of, start, receiver, tmp_path, scheme
) -> None:
    """The other host has a certificate of the same authority, with its own name."""
    other = authority.issue("other.example.org", hosts=["other.example.org"], directory=str(tmp_path), rsa_key=False)
    target = start(ScriptedReceiver(server_context(other)))
    proxy = start(Diverting(server_context(host) if scheme == "https" else None))
    proxy.port_of_target = target.port
    session = session_of(proxy=f"{scheme}://localhost:{proxy.port}", backoff_s=())
    answer = session.request(post(receiver.url), classify_ams)
    check(answer, Meaning(STOPPED, "its certificate does not have this name", known=True))
    assert target.heard == receiver.heard == []


# --- certificates


@pytest.mark.parametrize("way", ["target", "proxy"])
@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        ("another authority", "its certificate cannot be verified"),
        ("expired", "certificate has expired"),
        ("not yet valid", "certificate is not yet valid"),
        ("another name", "its certificate does not have this name"),
    ],
)
def test_a_wrong_certificate_ends_the_exchange(
    authority, session_of, start, receiver, issue, tmp_path, way, certificate, words
) -> None:
    """Nothing is sent to a target or a proxy without the right one."""
    wrong = {
        "another authority": lambda: create(str(tmp_path)).issue("localhost", rsa_key=False),
        "expired": lambda: issue("localhost", ends_s=-60),
        "not yet valid": lambda: issue("localhost", begins_s=86400),
        "another name": lambda: authority.issue("x", hosts=["x.example.org"], directory=str(tmp_path), rsa_key=False),
    }[certificate]()
    kind = ScriptedReceiver if way == "target" else ConnectProxy
    server = start(kind(server_context(wrong)))
    session = session_of(proxy=None if way == "target" else f"https://localhost:{server.port}", backoff_s=())
    url = server.url if way == "target" else receiver.url
    check(session.request(post(url), classify_ams), Meaning(STOPPED, words, known=True))
    assert server.heard == receiver.heard == []
    assert way == "target" or server.told == []


# --- closed connections


class Closing(ScriptedReceiver):
    """Closes each connection at once, or after some bytes that are no TLS."""

    says = b""

    def _serve(self, plain) -> None:
        with suppress(OSError), plain:
            self.connections += 1
            plain.sendall(self.says)
            plain.recv(65536)


@pytest.mark.parametrize(
    ("says", "kind", "words"),
    [
        (b"", LATER, ""),
        (HANDSHAKE.start, LATER, ""),
        (b"HTTP/1.1 200 OK\r\n\r\n", STOPPED, "no common TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x28", STOPPED, "our certificate is rejected"),
        (b"\x15\x03\x03\x00\x02\x02\x50", LATER, "TLS failed"),
    ],
    ids=["nothing", "half a record", "an answer in clear", "an alert", "an alert of its own fault"],
)
def test_a_connection_that_ends_in_the_handshake_has_done_nothing(session_of, start, says, kind, words) -> None:
    """The request was not sent."""
    server = start(Closing(None))
    server.says = says
    check(session_of(backoff_s=()).request(post(server.url), classify_ams), Meaning(kind, words, known=True))
