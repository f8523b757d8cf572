"""
Answers of every receiver, damaged: as values that are judged, and as bytes of HTTP through TLS and a real session.

What must hold: every answer is judged, whatever it is; what is kept of it and said of it has no secret of the run, no
character that steers a terminal, and an end; the ledger takes it; nothing counts as accepted that does not say so.
"""

from __future__ import annotations

import base64
import contextlib
import html
import json
import pathlib
import socket
import tempfile
import threading
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

from fuzz.damage import TEXTS, damaged, damaged_json
from publishing_site import DIRECTORY, Site
from scripted_receiver import server_context

from arcacct import secrecy, wording
from arcacct.publish.ams import AMSClient
from arcacct.publish.answers import Answer, Kind, classify_ams, classify_authn, classify_sgas, error_of
from arcacct.publish.session import Patience, TargetSession, tls_context
from arcacct.publish.sgas import SGASClient
from arcacct.sandbox.authority import Authority
from arcacct.store import accounting, ledger
from arcacct.store.ledger import Cursor, Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    import ssl
    from collections.abc import Callable

TARGET = "arcacct/directory:d"
PROXY = "http://arc:s3cr3t-pr0xy-w0rd@127.0.0.1:3128"
PASSWORD = "s3cr3t-pr0xy-w0rd"
IDS = {"ur-ce.example.org-one": "https://ce.example.org/one", "ur-ce.example.org-two": "two"}
STATUSES = (200, 200, 200, 201, 204, 206, 301, 302, 400, 401, 403, 404, 406, 408, 409, 413, 422, 429, 500, 501, 502)
MORE_STATUSES = (503, 504, 505, 599, 100, 999)
DATE = "Wed, 01 Jan 2025 00:00:00 GMT"
TIMES = (
    "120",
    "Wed, 01 Jan 2025 00:02:00 GMT",
    "Wednesday, 01-Jan-25 00:02:00 GMT",
    "Wed Jan  1 00:02:00 2025",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Wed, 01 Jan 99999999999999 00:00:00 GMT",
    "Wed, 01 Jan 2025 00:02:00 +999999999999",
    "9" * 400,
    "\u0665\u0665",
    "-1",
    "0x10",
)
JSONS: tuple[Any, ...] = (
    {"messageIds": ["18"]},
    {"error": {"code": 500, "message": "Backend Error", "status": "INTERNAL_SERVER_ERROR"}},
    {"error": {"code": 401, "message": "Unauthorized", "status": "UNAUTHORIZED"}},
    {"token": "TOKEN"},
    {"user": {"name": "ce", "tokens": [{"access_token": "TOKEN"}]}, "error": {"message": "not for TOKEN"}},
    {"ur-ce.example.org-one": "1", "ur-ce.example.org-two": "2"},
    {"https://ce.example.org/one": 1, "two": 2},
)
BODIES = (
    b"null",
    b"",
    b"404 page not found\n",
    b"<html><body><h1>503 Service Unavailable</h1>\nNo server is available.\n</body></html>\n",
    b'<html><style>x</style><p class="error">exceptions.KeyError: x</p></html>',
    b"<pre>GET / HTTP/1.1\r\nx-api-key: TOKEN\r\nProxy-Authorization: Basic BASIC\r\n</pre>",
    b"<p>key=TOKEN</p><script>" * 50,
    b"psycopg2.OperationalError: server closed the connection",
    b"value too long for type character varying(200)\nCONTEXT: x",
)
HEADS = (b"HTTP/1.1 STATUS Said\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 STATUS Said\r\n", b"HTTP/1.0 STATUS\r\n")


def made(chance: random.Random) -> dict[str, bytes]:
    token = base64.b64encode(chance.randbytes(chance.choice((12, 24, 60, 500))))
    body = _body(chance)
    if chance.random() < 0.7:
        body = damaged(chance, body)
    body = body.replace(b"TOKEN", _quoted(chance, token)).replace(b"BASIC", base64.b64encode(PROXY[7:28].encode()))
    status = chance.choice((*STATUSES, *MORE_STATUSES))
    headers = {
        name: chance.choice((*TIMES, *TEXTS, quote(token.decode())))
        for name in ("Retry-After", "Date", "Location", "Content-Type")
        if chance.random() < 0.5
    }
    if "Date" in headers and chance.random() < 0.7:
        headers["Date"] = DATE
    files = {"token": token, "status": b"%d" % status, "headers": json.dumps(headers).encode(), "body": body}
    if chance.random() < 0.5:
        files["raw"] = _raw(chance, status, headers, body)
    return files


def _body(chance: random.Random) -> bytes:
    if chance.random() < 0.4:
        return chance.choice(BODIES)
    value = chance.choice(JSONS)
    return json.dumps(damaged_json(chance, value) if chance.random() < 0.7 else value).encode()


def _quoted(chance: random.Random, token: bytes) -> bytes:
    """A token as somebody may quote it: encoded, or cut."""
    text = token.decode()
    start = chance.randrange(len(text))
    return chance.choice(
        (
            text,
            text,
            text,
            text.upper(),
            quote(text, safe=""),
            html.escape(text),
            base64.b64encode(token).decode(),
            text[start:],
            text[:start],
            f"{'x' * chance.choice((100, 470, 490, 31_990))}{text}",
        )
    ).encode()


def _raw(chance: random.Random, status: int, headers: dict[str, str], body: bytes) -> bytes:
    lines = [f"{name}: {value}".encode("utf-8", "backslashreplace") for name, value in headers.items()]
    way = chance.randrange(4)
    if way == 0:
        lines.append(b"Content-Length: %d" % len(body))
    elif way == 1:
        lines.append(b"Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (len(body), body)
    elif way == 2:
        lines.append(b"Content-Encoding: " + chance.choice((b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"x")))
    head = chance.choice(HEADS).replace(b"STATUS", b"%d" % status)
    raw = head + b"\r\n".join([*lines, b"", b""]) + body
    return damaged(chance, raw) if chance.random() < 0.5 else raw


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    wording._secrets = wording.Secrets()
    token = files["token"].decode()
    secrecy.keep(token)
    secrecy.keep_login(PROXY)
    status, headers, body = int(files["status"]), json.loads(files["headers"]), files["body"]
    for answer in (
        classify_ams(status, headers, body),
        classify_authn(status, headers, body),
        classify_sgas(status, headers, body, IDS),
    ):
        _check(answer, token)
        assert answer.kind != Kind.ACCEPTED or status == 200, answer
    _check_unknown_token(status, headers, token)
    if "raw" in files:
        for number, answer in enumerate(_exchanged(files["raw"], token)):
            _check(answer, token)
            _kept(answer, token, number)


def _check_unknown_token(status: int, headers: dict[str, str], token: str) -> None:
    """A token that nobody has heard of before this very answer is told by none, however deep it lies."""
    wording._secrets = wording.Secrets()
    body = json.dumps({"a": [{"token": token}], "error": {"message": f"we gave {token[:20]}"}}).encode()
    for cut in (body, body[: body.index(token.encode()) + len(token) // 2 + 12]):
        plain = {name: value for name, value in headers.items() if name != "Location"}
        _check(classify_authn(status, plain, cut), token)


def _check(answer: Answer, token: str) -> None:
    texts = [answer.text, answer.receiver_id or "", *answer.receiver_rows.values()]
    for text in (*texts, str(error_of(answer, "sgas:s"))):
        _check_text(text, token)
    assert len(answer.text) <= 600, answer
    assert all(len(row) <= 40 for row in answer.receiver_rows.values())
    assert answer.retry_after_s is None or 0 <= answer.retry_after_s < 10**12
    assert not answer.record_ids or answer.record_ids <= IDS.keys()


def _check_text(text: str, token: str) -> None:
    assert text.isprintable(), f"{text!r} steers a terminal"
    assert len(text) <= 2000, len(text)
    low, secrets = text.lower(), (token, PASSWORD, base64.b64encode(token.encode()).decode())
    for secret in (one.lower() for one in secrets):
        told = {secret[at : at + 8] for at in range(len(secret) - 7)}
        assert told.isdisjoint(low[at : at + 8] for at in range(len(low) - 7)), f"{text!r} tells {secret!r}"


class _Says:
    """A TLS server that answers each connection's requests with bytes that it is given, and hangs up."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.answers: list[bytes] = []
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            plain, _ = self._listener.accept()
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError), self._context.wrap_socket(plain, server_side=True) as connection:
                connection.settimeout(10)
                self._converse(connection)

    def _converse(self, connection: ssl.SSLSocket) -> None:
        with connection.makefile("rb") as reader:
            while line := reader.readline():
                length = 0
                while line.strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                    line = reader.readline()
                reader.read(length)
                answer = self.answers.pop(0) if self.answers else b""
                connection.sendall(answer)
                if not answer.startswith(GIVEN):
                    connection.unwrap()
                    return


GIVEN = b"HTTP/1.1 200 OK\r\nX-Given: yes\r\n"


@lru_cache
def _receiver() -> tuple[_Says, Callable[[], ssl.SSLContext]]:
    place = tempfile.mkdtemp(prefix="arcacct-fuzz-")
    authority = Authority(place, "Fuzz")
    server = authority.issue("localhost", rsa_key=False)
    return _Says(server_context(server)), partial(tls_context, None, None, ca_file=authority.ca_file)


def _exchanged(raw: bytes, token: str) -> list[Answer]:
    """What the real clients make of these bytes, as the answer to a message, to a question for a token, and of SGAS."""
    says, context = _receiver()
    patience = Patience(connect_s=10, read_s=10, backoff_s=())
    given = json.dumps({"token": token}).encode()
    found = []
    for answers in ([GIVEN + b"Content-Length: %d\r\n\r\n%s" % (len(given), given), raw], [raw]):
        says.answers = answers
        session = TargetSession(context(), patience=patience)
        with contextlib.closing(session):
            client = AMSClient(f"https://localhost:{says.port}", "p", "t", session, authn_port=says.port)
            found.append(client.publish(b"x", "20250101/0123"))
    says.answers = [raw]
    session = TargetSession(context(), patience=patience)
    with contextlib.closing(session):
        found.append(SGASClient(f"https://localhost:{says.port}/sgas", session).insert(b"<x/>", IDS))
    return found


@lru_cache
def _ledger() -> Any:
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    (place / "outgoing").mkdir()
    con = accounting.open_publishing(Site(place, None, DIRECTORY).settings.places)
    ledger.set_cursor(con, Cursor(TARGET, "life", 0, 0, None))
    con.execute("PRAGMA synchronous = OFF")
    return con


def _kept(answer: Answer, token: str, number: int) -> None:
    """The ledger takes an answer, and what it keeps is what may be said."""
    con = _ledger()
    (message,) = ledger.intend(con, TARGET, [Message(0, "ur", "publish", None, "x", None, "d", 1, b"x", ())])
    if answer.kind == Kind.ACCEPTED:
        rows = answer.receiver_rows
        ledger.accepted(con, TARGET, message, answer.status, answer.text, answer.receiver_id, rows)
    elif number:
        ledger.attempted(con, message.message_id, answer.status, answer.text)
    else:
        ledger.refused(con, TARGET, message, answer.status, answer.text, [], [(2025, 1)])
    ledger.finish_run(con, TARGET, error=str(error_of(answer)), last_end_time=None)
    con.execute("PRAGMA synchronous = OFF")
    row = con.execute("SELECT Answer, ReceiverID FROM Messages WHERE MessageID = ?", (message.message_id,)).fetchone()
    for text in (*row, *con.execute("SELECT LastError FROM Targets").fetchone()):
        _check_text(text or "", token)
