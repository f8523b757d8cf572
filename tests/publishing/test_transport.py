"""The way to a target: what is trusted, what is refused, what a broken connection means."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import os
import shutil
import socket
import ssl
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scripted_receiver import ConnectProxy, Say, ScriptedReceiver, say, server_context

from arcacct import tls
from arcacct.config import values
from arcacct.errors import ConfigError, CredentialError
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.transport import Request, TimeoutPolicy, Transport
from arcacct.sandbox.authority import Credential, create
from arcacct.targets.apel.ams import classify_ams
from arcacct.tls import tls_context

STORED = {"messageIds": ["1"]}


OK = b"HTTP/1.1 200 OK\r\n"


def post(receiver, body: bytes = b"{}", path: str = "/x") -> Request:
    return Request("POST", f"{receiver.url}{path}", {"Content-Type": "application/json"}, body)


@pytest.fixture
def once(session_of):
    """A session that tries once."""
    return session_of(backoff_s=())


def test_messages_share_one_connection(session, receiver):
    """Fifty messages and their answers travel over one connection and one TLS handshake."""
    receiver.script = [say(200, STORED)] * 50
    for _ in range(50):
        assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert receiver.connections == 1
    assert len(receiver.heard) == 50


def test_a_connection_that_was_closed_meanwhile_is_opened_again(once, receiver):
    """Receivers close what is idle for a while: that is no failure, and nothing is sent twice."""
    receiver.script = [say(200, STORED)] * 2
    once.request(post(receiver), classify_ams)
    for connection in receiver._open:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
    assert once.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert (receiver.connections, len(receiver.heard)) == (2, 2)


def test_bytes_arrive_as_they_were_given(session, receiver):
    """A body of a megabyte and its headers reach the receiver unchanged, and nothing is compressed."""
    body = os.urandom(1_000_000)
    receiver.script = [say(200, STORED)]
    session.request(post(receiver, body), classify_ams)
    heard = receiver.heard[0]
    assert (heard.method, heard.path, heard.body) == ("POST", "/x", body)
    assert heard.headers["content-type"] == "application/json"
    assert heard.headers["user-agent"].startswith("arcacct/")
    assert heard.headers["accept-encoding"] == "identity"


ASKING = """
import sys
from arcacct.publishing.transport import Request, TimeoutPolicy, Transport
from arcacct.targets.apel.ams import classify_ams
from arcacct.tls import tls_context
url, cert, key, ca_dir, proxy = sys.argv[1:]
context = tls_context(cert, key, ca_dir=ca_dir or None, system_store=not ca_dir)
session = Transport(context, proxy=proxy or None, timeouts=TimeoutPolicy(5, 5, backoff_s=()))
answer = session.request(Request("POST", url + "/x", {}, b"{}"), classify_ams)
print(answer.kind.name, answer.text)
"""


def asked(receiver, host, environment: dict[str, object], ca_dir: str = "", proxy: str = "") -> str:
    """The answer to a request of a process of its own: libraries read the environment when they are loaded."""
    done = subprocess.run(
        [sys.executable, "-c", ASKING, receiver.url, *host, ca_dir, proxy],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_environment_does_not_decide_whom_we_trust(authority, host, receiver, tmp_path):
    """With ca_system=yes the system's CAs are trusted, and not those that variables name."""
    openssl = tmp_path / "openssl.cnf"
    openssl.write_text(
        "openssl_conf = init\n[init]\nssl_conf = tls\n[tls]\nsystem_default = us\n"
        f"[us]\nVerifyMode =\nVerifyCAFile = {authority.ca_file}\n"
    )
    for environment in (
        {"SSL_CERT_FILE": authority.ca_file},
        {"SSL_CERT_DIR": authority.ca_dir},
        {"REQUESTS_CA_BUNDLE": authority.ca_file, "CURL_CA_BUNDLE": authority.ca_file},
        {"OPENSSL_CONF": openssl, "PYTHONHTTPSVERIFY": 0},
    ):
        assert "NOT_AUTHORISED_OR_MISCONFIGURED" in (answer := asked(receiver, host, environment)), environment
        assert "its certificate cannot be verified" in answer
    assert receiver.heard == []


def test_the_environment_does_not_decide_where_records_go(authority, host, receiver, proxy, tmp_path):
    """No proxy, login or CA of the caller is used, nothing tells the keys of TLS, and NO_PROXY avoids no proxy."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login me password secret\n")
    environment: dict[str, object] = {
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), "http://127.0.0.1:9"),
        **dict.fromkeys(("SSL_CERT_FILE", "SSL_CERT_DIR"), tmp_path / "missing.pem"),
        **dict.fromkeys(("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"), tmp_path / "missing.pem"),
        "NETRC": netrc,
        "SSLKEYLOGFILE": tmp_path / "keys",
    }
    receiver.script = [say(200, STORED)] * 2
    assert asked(receiver, host, environment, authority.ca_dir).startswith("ACCEPTED")
    assert proxy.connections == 0
    around = {"NO_PROXY": "*", "no_proxy": "localhost"}
    assert asked(receiver, host, around, authority.ca_dir, f"http://localhost:{proxy.port}").startswith("ACCEPTED")
    assert proxy.connections == 1
    assert [{"authorization", "proxy-authorization"} & {*heard.headers} for heard in receiver.heard] == [set(), set()]
    assert not (tmp_path / "keys").exists() or not (tmp_path / "keys").read_bytes()


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("/sg\u00e4s ur", "/sg%C3%A4s%20ur"),
        ("/record/a%2Fb%3F", "/record/a%2Fb%3F"),
        ("/v1/topics/t:publish?x=1&y=\u20ac", "/v1/topics/t:publish?x=1&y=%E2%82%AC"),
        ("", "/"),
    ],
)
def test_a_path_is_asked_for_as_it_is_written(session, receiver, written, asked):
    """What was quoted stays so, and what no request can have is quoted."""
    receiver.script = [say(200, STORED)]
    session.request(post(receiver, path=written), classify_ams)
    assert receiver.heard[0].path == asked


@pytest.mark.parametrize("url", ["https://ce example.org/x", "https:///x", "ftp://localhost/x", "https://[::1/x", "x"])
def test_a_url_that_leads_nowhere_is_named(once, url):
    """It is the configuration's, and no one was asked anything."""
    answer = once.request(Request("POST", url, {}, b""), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True)
    assert "check targeturl" in answer.text


def test_no_header_becomes_two(once, receiver):
    """Whoever has a say in a header's value has none in the request."""
    request = Request("POST", f"{receiver.url}/x", {"x-api-key": "a\r\nX-Other: b"}, b"")
    assert once.request(request, classify_ams).kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert receiver.heard == []


def test_cookies_are_not_kept(session, receiver):
    """Each message stands alone, also behind a balancer that sets cookies."""
    receiver.script = [say(200, STORED, Set_Cookie="a=b; Path=/"), say(200, STORED)]
    session.request(post(receiver), classify_ams)
    session.request(post(receiver), classify_ams)
    assert "cookie" not in receiver.heard[1].headers


def test_redirects_are_not_followed(session, receiver):
    """Records go where the configuration says, or nowhere."""
    receiver.script = [say(307, b"", Location=f"{receiver.url}/elsewhere"), say(200, STORED)]
    answer = session.request(post(receiver), classify_ams)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert "/elsewhere" in answer.text
    assert len(receiver.heard) == 1


def test_a_redirect_to_no_address_is_a_redirect(session, receiver):
    """Where it leads is only shown: bytes that are no text, an address that is none, effects on a terminal."""
    receiver.script = [say(302, Location="https://x/\udcbd\x9b31m\u202e"), say(302, Location="https://[\udcbd")]
    for _ in range(2):
        answer = session.request(post(receiver), classify_ams)
        assert (answer.kind, answer.status) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 302)
        assert answer.text.startswith("redirects to https://")
        assert answer.text.isprintable()


# --- tries


def test_try_later_is_tried_again_after_a_pause(session, receiver, naps):
    """Two failures of a balancer cost two pauses and no record."""
    receiver.script = [say(503), say(502), say(200, STORED)]
    assert session.request(post(receiver, b"same"), classify_ams).kind == Outcome.ACCEPTED
    assert naps == [1.0, 5.0]
    assert [heard.body for heard in receiver.heard] == [b"same"] * 3


def test_tries_end(session, receiver, naps):
    """After the last try the answer is handed over, and no one waits for nothing."""
    receiver.script = [say(503, b"down")] * 9
    answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.status, answer.text) == (Outcome.TRY_LATER, 503, "down")
    assert len(receiver.heard) == 3
    assert naps == [1.0, 5.0]


@pytest.mark.parametrize(
    ("retry_after", "waited", "tries"),
    [
        pytest.param("20", [20.0], 2, id="longer than ours"),
        pytest.param("0", [1.0], 2, id="shorter than ours"),
        pytest.param("3600", [], 1, id="longer than a run should last"),
    ],
)
def test_retry_after_is_honoured(session, receiver, naps, retry_after, waited, tries):
    """We come back when told to; if that is too far away, in another run."""
    receiver.script = [say(429, b"", Retry_After=retry_after), say(200, STORED)]
    session.request(post(receiver), classify_ams)
    assert naps == waited
    assert len(receiver.heard) == tries


def test_refused_records_are_sent_a_second_time_at_once(session, receiver, naps):
    """A refusal may be the database's mood: it counts when it is repeated."""
    refusal = {"error": {"message": "Invalid Message Arguments"}}
    receiver.script = [say(400, refusal), say(200, STORED), say(400, refusal), say(400, refusal)]
    assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert session.request(post(receiver), classify_ams).kind == Outcome.RECORDS_REFUSED
    assert len(receiver.heard) == 4
    assert naps == []


@pytest.mark.parametrize("status", [401, 403, 404, 413])
def test_other_refusals_are_final(session, receiver, status):
    """What another try cannot change is not tried again."""
    receiver.script = [say(status)] * 3
    session.request(post(receiver), classify_ams)
    assert len(receiver.heard) == 1


def test_doubt_about_an_earlier_try_stays(session_of, receiver):
    """If a lost answer is followed by an honest 'unavailable', the work may still have been done."""
    receiver.script = [Say(hang_up=True), say(503)]
    answer = session_of(backoff_s=(1.0,)).request(post(receiver), classify_ams)
    assert answer == Answer(Outcome.TRY_LATER, 503, outcome_known=False)


def test_an_accepted_message_leaves_no_doubt(session, receiver):
    """What was done twice is done."""
    receiver.script = [Say(hang_up=True), say(200, STORED)]
    assert session.request(post(receiver), classify_ams) == classify_ams(200, {}, b'{"messageIds":["1"]}')


# --- broken connections


@pytest.mark.parametrize(
    ("step", "says"),
    [
        pytest.param(Say(hang_up=True), "closed without an answer", id="hung up"),
        # What Python says of it: from 3.13 on that it was a reset.
        pytest.param(Say(reset=True), ("closed without an answer", "connection reset by peer"), id="reset"),
        pytest.param(Say(silent=True), "no answer within the time limit", id="silence"),
        pytest.param(Say(200, b'{"messageIds":', cut=True), "the answer is incomplete", id="half an answer"),
        pytest.param(Say(raw=b"hello\r\n", cut=True), "the answer is not HTTP", id="HTTP/0.9"),
        pytest.param(Say(raw=OK + b"X: x\r\n" * 200), "the answer is not HTTP", id="too many headers"),
        pytest.param(Say(raw=OK + b"X: " + b"x" * 70_000), "the answer is not HTTP", id="a header without end"),
        pytest.param(
            Say(raw=OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}\n"),
            "the answer is not HTTP",
            id="two lengths",
        ),
        pytest.param(
            say(200, gzip.compress(b"x" * 100)[:-9], Content_Encoding="gzip"), "cannot be decoded", id="half a gzip"
        ),
        pytest.param(say(200, b"{}", Content_Encoding="gzip"), "cannot be decoded", id="no gzip"),
    ],
)
def test_a_lost_answer_leaves_the_outcome_unknown(session_of, receiver, step, says):
    """When the request went out and no whole answer came, the receiver may have done the work."""
    receiver.script = [step]
    answer = session_of(backoff_s=(), read_s=0.3).request(post(receiver), classify_ams)
    assert (answer.kind, answer.status, answer.outcome_known) == (Outcome.TRY_LATER, None, False)
    assert any(words in answer.text for words in ((says,) if isinstance(says, str) else says))
    assert f"localhost:{receiver.port}" in answer.text


def test_what_is_only_asked_for_is_never_half_done(session_of, receiver):
    """Whoever asks for a token and hears nothing need not fear for records."""
    receiver.script = [Say(hang_up=True)]
    answer = session_of(backoff_s=()).request(Request("GET", f"{receiver.url}/token", {}), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert answer.text.endswith("the connection was closed without an answer")


def test_early_hints_are_no_answer(session, receiver):
    """What a server says while it works comes before the answer, whatever it is (RFC 9110, 15.2)."""
    hints = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    receiver.script = [Say(raw=hints + OK + b'Content-Length: 21\r\n\r\n{"messageIds": ["1"]}')]
    assert session.request(post(receiver), classify_ams).receiver_id == "1"
    assert len(receiver.heard) == 1


@pytest.mark.parametrize("way", ["direct", "through a proxy with TLS"])
def test_a_second_answer_to_one_request_is_nobodys(session_of, receiver, tls_proxy, way):
    """It must not be taken for that to the next: what OpenSSL has unpacked already no look at the socket shows."""
    second = OK + b'Content-Length: 25\r\n\r\n{"messageIds": ["wrong"]}'
    head, body = OK + b"Content-Length: 21\r\nX: ", b'\r\n\r\n{"messageIds": ["1"]}'
    # As much as is read at once: the second is left in the TLS record.
    first = head + b"x" * (8192 - len(head) - len(body)) + body
    receiver.script = [Say(raw=first + second), say(200, {"messageIds": ["2"]})]
    session = session_of(proxy=None if way == "direct" else tls_proxy.url)
    said = [session.request(post(receiver), classify_ams).receiver_id for _ in range(2)]
    assert said == ["1", "2"]


def test_a_closed_port_is_known_to_have_done_nothing(once, receiver):
    """Nothing was sent where no one listens."""
    receiver.stop()
    answer = once.request(post(receiver), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert "connection refused" in answer.text


def test_an_unknown_host_is_known_to_have_done_nothing(once):
    """A name that the DNS does not know is tried again later, and is named."""
    answer = once.request(Request("POST", "https://ams.invalid/v1?x=1", {}, b""), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert answer.text == "ams.invalid: the host name cannot be resolved"


def test_a_full_backlog_is_known_to_have_done_nothing(session_of):
    """A host that does not complete the connection has not seen our records."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as busy:
        address = busy.getsockname()
        with socket.create_connection(address), contextless_sockets(address, 3):
            patient = session_of(backoff_s=())
            patient._timeouts = patient._timeouts._replace(connect_s=0.3)
            url = f"https://localhost:{address[1]}/x"
            answer = patient.request(Request("POST", url, {}, b""), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert "no connection within the time limit" in answer.text


def test_one_address_that_hangs_leaves_time_for_the_others(session_of, receiver, monkeypatch):
    """A name may have several, and an exchange less time than a connection."""
    port = receiver.port
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
    receiver.script = [say(200, STORED)]
    with socket.create_server(("127.0.0.2", port), backlog=0) as hangs:
        address = hangs.getsockname()
        with socket.create_connection(address), contextless_sockets(address, 3):
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_how, **_options: found)
            session = session_of(backoff_s=(), exchange_s=4.0)
            assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 on this host")
@pytest.mark.parametrize("way", ["direct", "through a proxy", "through a proxy with TLS"])
def test_an_ipv6_address_is_a_place(authority, host, session_of, tmp_path, way):
    """It stands in brackets in a URL and in what a proxy is asked for, without them in a certificate."""
    there = authority.issue("::1", hosts=["::1"], directory=str(tmp_path), rsa_key=False)
    server = ScriptedReceiver(server_context(there, authority), "::1")
    server.script = [say(200, STORED)] * 2
    used = None if way == "direct" else ConnectProxy(server_context(there) if "TLS" in way else None, "::1")
    session = session_of(backoff_s=(), proxy=used and f"{'https' if 'TLS' in way else 'http'}://[::1]:{used.port}")
    request = Request("POST", f"https://[::1]:{server.port}/x", {}, b"{}")
    answers = [session.request(request, classify_ams) for _ in range(2)]
    if used is not None:
        used.stop()
    server.stop()
    assert [answer.kind for answer in answers] == [Outcome.ACCEPTED] * 2, answers
    assert server.heard[0].headers["host"] == f"[::1]:{server.port}"
    assert used is None or used.tunnels == [f"[::1]:{server.port}"]


def test_an_answer_before_the_end_of_the_body_is_heard(once, receiver):
    """A server that refuses a large body without reading it is understood as such."""
    receiver.script = [Say(413, b"too large", before_body=True)]
    answer = once.request(post(receiver, b"x" * 20_000_000), classify_ams)
    assert (answer.kind, answer.status, answer.text) == (Outcome.TOO_LARGE, 413, "too large")


def test_an_endless_answer_is_cut(once, receiver):
    """Whoever answers with megabytes is no receiver of records, and our memory is not his."""
    receiver.script = [say(200, b"x" * 6_000_000), say(200, STORED)]
    assert once.request(post(receiver), classify_ams).kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert once.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED


# --- TLS


def test_a_server_of_another_authority_is_not_trusted(session_of, receiver, tmp_path):
    """Records go to no one whose certificate the CA directory does not vouch for, and nothing was sent."""
    stranger = create(str(tmp_path / "other"))
    receiver.script = [say(200, STORED)]
    answer = session_of(ca_dir=stranger.ca_dir).request(post(receiver), classify_ams)
    assert (answer.kind, answer.outcome_known, answer.about_credentials) == (
        Outcome.NOT_AUTHORISED_OR_MISCONFIGURED,
        True,
        False,
    )
    assert "x509_cert_dir" in answer.text
    assert receiver.heard == []


def test_a_server_with_another_name_is_not_trusted(authority, session_of, tmp_path):
    """A certificate for another host is not good enough."""
    other = authority.issue("other.example.org", hosts=["other.example.org"], directory=str(tmp_path), rsa_key=False)
    server = ScriptedReceiver(server_context(other))
    answer = session_of().request(post(server), classify_ams)
    server.stop()
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert "its certificate does not have this name" in answer.text


def test_a_common_name_is_no_name_of_a_server(authority, session_of, tmp_path):
    """A certificate without alternative names is for no one, and what is to be done is said; nothing was sent."""
    server = ScriptedReceiver(server_context(without_alternative_names(authority, "localhost", tmp_path)))
    server.script = [say(200, STORED)]
    answer = session_of(backoff_s=()).request(post(server), classify_ams)
    server.stop()
    assert (answer.kind, answer.outcome_known, answer.about_credentials) == (
        Outcome.NOT_AUTHORISED_OR_MISCONFIGURED,
        True,
        False,
    )
    assert "subject alternative names (a common name alone does not count)" in answer.text
    assert server.heard == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_refused_certificate_is_distinguished_from_a_broken_connection(
    authority, host, session_of, tmp_path, naps, version, size
):
    """A TLS alert about our certificate is final and concerns our credentials, whenever it arrives."""
    stranger = create(str(tmp_path / "other")).issue("ce.example.org", rsa_key=False)
    context = server_context(host, authority)
    context.maximum_version = version
    server = ScriptedReceiver(context)
    answer = session_of(stranger).request(post(server, b"x" * size), classify_ams)
    server.stop()
    assert (answer.kind, answer.about_credentials) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True)
    assert "unknown ca" in answer.text
    assert naps == []


def test_an_expired_certificate_is_refused_by_the_server(receiver, session_of, issue):
    """The server's word on an expired certificate reaches the administrator."""
    answer = session_of(issue(ends_s=-60)).request(post(receiver), classify_ams)
    assert (answer.kind, answer.about_credentials) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True)
    assert "expired" in answer.text


def test_a_missing_certificate_is_refused_by_the_server(authority, receiver):
    """A server that demands a certificate says so."""
    with closing(Transport(bare_context(authority), timeouts=TimeoutPolicy(5.0, 5.0))) as session:
        answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.about_credentials) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True)


def test_a_port_without_tls_is_named(once):
    """Plain HTTP where TLS is expected is a mistake in the URL."""
    server = ScriptedReceiver(None)
    answer = once.request(post(server), classify_ams)
    server.stop()
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert f"localhost:{server.port}: no common TLS" in answer.text


def test_old_tls_is_not_spoken(authority, host, once):
    """TLS 1.1 is refused, as a matter of the target and not of our certificate."""
    context = server_context(host)
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    server = ScriptedReceiver(context)
    answer = once.request(post(server), classify_ams)
    server.stop()
    assert (answer.kind, answer.about_credentials) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, False)
    assert "no common TLS" in answer.text


def test_plain_http_is_not_spoken(once, receiver):
    """Neither records nor tokens travel in clear."""
    answer = once.request(Request("POST", f"http://localhost:{receiver.port}/x", {}, b""), classify_ams)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert receiver.connections == 0


# --- places of trust


@pytest.mark.parametrize("place", ["ca_dir", "ca_file"])
@pytest.mark.parametrize("way", ["direct", "proxy", "tls_proxy"])
def test_a_request_adds_no_authority(authority, host, receiver, request, way, place):
    """The one CA of the configuration is trusted, before a request and after it: `requests` would add certifi's 117."""
    used = None if way == "direct" else request.getfixturevalue(way)
    context = tls_context(*host, **{place: getattr(authority, place)})
    receiver.script = [say(200, STORED)] * 2
    url = used and f"{'http' if way == 'proxy' else 'https'}://localhost:{used.port}"
    with closing(Transport(context, proxy=url)) as session:
        for _ in range(2):
            assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert len(context.get_ca_certs()) == 1
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not context.hostname_checks_common_name


def test_a_ca_directory_without_hashes_is_read(authority, host, receiver, session_of, tmp_path):
    """CA files that no one rehashed are found by their names."""
    os.link(authority.ca_file, tmp_path / "MyCA.pem")
    receiver.script = [say(200, STORED)]
    assert session_of(ca_dir=str(tmp_path)).request(post(receiver), classify_ams).kind == Outcome.ACCEPTED


def test_a_ca_file_is_enough(authority, host):
    """A single file of CAs replaces the directory; without any there is no one to trust."""
    assert tls_context(*host, ca_file=authority.ca_file).get_ca_certs()
    with pytest.raises(ConfigError, match="x509_cert_dir"):
        tls_context(*host)


def test_the_system_store_is_an_offer(authority, host, monkeypatch):
    """AMS is certified by a public CA: the system's store is trusted if it is asked for, not otherwise."""
    monkeypatch.setattr(tls, "SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr(tls, "SYSTEM_FILES", (f"{authority.ca_file}.missing", authority.ca_file))
    assert tls_context(*host, system_store=True).get_ca_certs()
    assert not tls_context(*host, ca_dir=authority.ca_dir).get_ca_certs()


@pytest.mark.parametrize(
    ("bundle", "hashed", "is_read"),
    [
        pytest.param("certificates/bundle.crt", True, False, id="file and directory made together"),
        pytest.param("certificates/bundle.crt", False, True, id="a directory without hashes"),
        pytest.param("certificates/more.crt", True, True, id="more in the file"),
        pytest.param("bundle.crt", True, True, id="a file elsewhere"),
    ],
)
def test_of_the_systems_store_is_read_what_is_needed(
    authority, host, receiver, tmp_path, monkeypatch, bundle, hashed, is_read
):
    """A directory in which OpenSSL finds all of the system's CAs by their names; else all of them, at once."""
    directory, file = tmp_path / "certificates", tmp_path / bundle
    directory.mkdir()
    if hashed:
        shutil.copytree(authority.ca_dir, directory, dirs_exist_ok=True)
    with open(authority.ca_file) as one:
        pem = one.read()
    file.write_text(pem * 2 if file.name == "more.crt" else pem)
    monkeypatch.setattr(tls, "SYSTEM_DIRECTORIES", (str(tmp_path / "none"), str(directory)))
    monkeypatch.setattr(tls, "SYSTEM_FILES", (str(file),))
    context = tls_context(*host, system_store=True)
    assert bool(context.get_ca_certs()) == is_read
    receiver.script = [say(200, STORED)]
    session = Transport(context)
    with closing(session):
        assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED


@pytest.mark.parametrize("place", ["missing", "empty", "file"])
def test_a_place_without_cas_is_named(host, tmp_path, place):
    """A CA directory that is missing, empty or no directory is a mistake in the configuration."""
    path = tmp_path / place
    if place == "empty":
        path.mkdir()
    if place == "file":
        path.write_text("x")
    with pytest.raises(ConfigError, match=f"{path}.*x509_cert_dir"):
        tls_context(*host, ca_dir=str(path))


def test_a_broken_ca_file_is_named(host, tmp_path):
    """A CA file that holds none is a mistake in the configuration."""
    path = tmp_path / "ca.pem"
    path.write_text("nothing\n")
    with pytest.raises(ConfigError, match=str(path)):
        tls_context(*host, ca_file=str(path))


@pytest.mark.parametrize("place", ["cert", "key", "ca_file"])
def test_no_pipe_is_waited_for(authority, host, tmp_path, place):
    """OpenSSL would open it, and wait for its writer."""
    os.mkfifo(tmp_path / "pipe")
    files = {"cert": host.cert_path, "key": host.key_path, "ca_file": authority.ca_file, place: str(tmp_path / "pipe")}
    with pytest.raises(ConfigError if place == "ca_file" else CredentialError, match=r"pipe: cannot be read \(a pipe"):
        tls_context(files["cert"], files["key"], ca_file=files["ca_file"])


def test_wrong_credentials_are_named_before_anyone_is_asked(authority, host, rsa_host, tmp_path):
    """Keys that are missing, of another certificate or encrypted are found when the session is made."""
    encrypted = tmp_path / "encrypted.pem"
    with open(rsa_host.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    how = serialization.BestAvailableEncryption(b"x")
    encrypted.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))
    for key_path, why in (
        (rsa_host.key_path, "not the key of the certificate"),
        (str(tmp_path / "nowhere"), "No such file"),
        (authority.ca_file, "no private key in PEM form"),
        (str(encrypted), "the key is encrypted"),
    ):
        with pytest.raises(CredentialError, match=why):
            tls_context(host.cert_path, key_path, ca_dir=authority.ca_dir)


# --- proxies


@pytest.fixture
def proxy():
    """A proxy on loopback."""
    server = ConnectProxy()
    yield server
    server.stop()


@pytest.fixture
def tls_proxy(host):
    """A proxy that is spoken to by TLS."""
    server = ConnectProxy(server_context(host))
    yield server
    server.stop()


def test_through_a_proxy_with_tls_one_connection_carries_all(receiver, tls_proxy, session_of):
    """TLS to the target is within that to the proxy."""
    session = session_of(proxy=tls_proxy.url)
    receiver.script = [say(200, STORED)] * 3
    assert [session.request(post(receiver), classify_ams).kind for _ in range(3)] == [Outcome.ACCEPTED] * 3
    assert (len(tls_proxy.tunnels), receiver.connections) == (1, 1)


def test_the_configured_proxy_is_used(receiver, proxy, session_of):
    """TLS goes through the proxy to the target, which alone is trusted and sees the message."""
    receiver.script = [say(200, STORED)] * 2
    session = session_of(proxy=f"http://127.0.0.1:{proxy.port}")
    assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert proxy.tunnels == [f"localhost:{receiver.port}"]
    assert receiver.connections == 1


@pytest.mark.parametrize(("no_proxy", "tunnels"), [("localhost", 0), ("*", 0), ("127.0.0.0/8,example.org", 1)])
def test_a_host_of_no_proxy_is_reached_without_it(receiver, proxy, session_of, no_proxy, tunnels):
    """By its name as the URL has it: names are not resolved."""
    receiver.script = [say(200, STORED)]
    session = session_of(proxy=f"http://127.0.0.1:{proxy.port}", no_proxy=values.no_proxy(no_proxy))
    assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    assert (len(proxy.tunnels), receiver.connections) == (tunnels, 1)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_proxy_alone_hears_its_password(receiver, proxy, tls_proxy, session_of, scheme):
    """With the request for the tunnel it gets name and password, in base64, as they are meant; the target does not."""
    used = proxy if scheme == "http" else tls_proxy
    receiver.script = [say(200, STORED)]
    session = session_of(proxy=f"{scheme}://me:p%40ss:w%C3%B6rd@localhost:{used.port}")
    assert session.request(post(receiver), classify_ams).kind == Outcome.ACCEPTED
    login = base64.b64decode(used.told[0]["proxy-authorization"].removeprefix("Basic "))
    assert login.decode("latin-1") == "me:p@ss:w\u00f6rd"
    assert "proxy-authorization" not in receiver.heard[0].headers


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (403, Outcome.NOT_AUTHORISED_OR_MISCONFIGURED),
        (407, Outcome.NOT_AUTHORISED_OR_MISCONFIGURED),
        (429, Outcome.TRY_LATER),
        (503, Outcome.TRY_LATER),
    ],
)
def test_a_proxys_refusal_is_distinguished_from_the_targets(receiver, proxy, session_of, status, kind):
    """What the proxy says about the connection is named as the proxy's, without its password."""
    proxy.script = [say(status)]
    session = session_of(proxy=f"http://me:s3cret@127.0.0.1:{proxy.port}", backoff_s=())
    answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.outcome_known) == (kind, True)
    assert "proxy" in answer.text
    assert str(status) in answer.text
    assert "s3cret" not in answer.text


def test_a_proxy_that_is_down_is_named(receiver, proxy, session_of):
    """A closed port of the proxy is no closed port of the target."""
    proxy.stop()
    session = session_of(proxy=f"http://me:s3cret@127.0.0.1:{proxy.port}", backoff_s=())
    answer = session.request(post(receiver), classify_ams)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)
    assert "proxy" in answer.text
    assert "s3cret" not in answer.text


def test_a_proxy_that_is_none_is_named(receiver, session_of):
    """A proxy setting that is no URL does not end in a traceback."""
    answer = session_of(proxy="http://", backoff_s=()).request(post(receiver), classify_ams)
    assert answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
    assert "http_proxy" in answer.text


def without_alternative_names(authority, name: str, folder) -> Credential:
    """A certificate as they were made for decades: a common name and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(
            authority.certificate.subject,
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]),
            key.public_key(),
            x509.random_serial_number(),
            now - dt.timedelta(hours=1),
            now + dt.timedelta(days=1),
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority._key.public_key()), critical=False)
        .sign(authority._key, hashes.SHA256())
    )
    made = Credential(str(folder / "cert.pem"), str(folder / "key.pem"))
    encoding, clear = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(certificate.public_bytes(encoding))
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, clear))
    return made


def bare_context(authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=authority.ca_file)
    return context


class contextless_sockets:  # noqa: N801  a with-block reads better in lower case
    """Connections that are started and never finished: they fill a listener's backlog."""

    def __init__(self, address, count: int) -> None:
        self._sockets = [socket.socket() for _ in range(count)]
        for waiting in self._sockets:
            waiting.setblocking(False)
            waiting.connect_ex(address)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        for waiting in self._sockets:
            waiting.close()
