"""
Answers of every receiver, damaged: as values that are judged, and as bytes of HTTP through TLS and a real session.

What must hold: every answer is judged, whatever it is; what is kept of it and said of it has no secret of the run, no
character that steers a terminal, and an end; the ledger takes it; what says of each record that it was taken counts as
accepted, and nothing else does; what may have been done counts as unknown.
"""

from __future__ import annotations

import base64
import contextlib
import html
import io
import json
import pathlib
import random
import re
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

from fuzz.damage import TEXTS, damaged, damaged_json
from publishing_site import DIRECTORY, Site
from scripted_receiver import server_context

from arcacct import secrecy, wording
from arcacct.database import access
from arcacct.publishing import cursors, ledger
from arcacct.publishing.answers import Answer, Outcome, error_of
from arcacct.publishing.cursors import Cursor
from arcacct.publishing.ledger import Message
from arcacct.publishing.transport import TimeoutPolicy, Transport
from arcacct.sandbox.authority import Authority
from arcacct.targets.apel.ams import AMSSender, Signer, classify_ams, classify_authn
from arcacct.targets.auditor.sender import RECORD_EXISTS, UNEXPECTED_ERROR, classify
from arcacct.targets.sgas.sender import SGASSender, classify_sgas
from arcacct.tls import tls_context

TARGET = "arcacct/directory:d"
PROXY = "http://arc:s3cr3t-pr0xy-w0rd@127.0.0.1:3128"
PASSWORD = "s3cr3t-pr0xy-w0rd"
IDS = {"ur-ce.example.org-one": "https://ce.example.org/one", "ur-ce.example.org-two": "two"}
STATUSES = (200, 201, 204, 206, 301, 302, 400, 401, 403, 404, 406, 408, 409, 413, 422, 429, 500, 501, 502)
MORE_STATUSES = (503, 504, 505, 599, 100, 999)
DATE = "Wed, 01 Jan 2025 00:00:00 GMT"
TIMES = (
    "120", "Wed, 01 Jan 2025 00:02:00 GMT", "Wednesday, 01-Jan-25 00:02:00 GMT", "Wed Jan  1 00:02:00 2025",
    "Tue, 31 Dec 2024 23:59:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Wed, 01 Jan 99999999999999 00:00:00 GMT",
    "Wed, 01 Jan 2025 00:02:00 +999999999999", "9" * 400, "\u0665\u0665", "-1", "0x10",
)  # fmt: skip
JSONS: tuple[Any, ...] = (
    {"messageIds": ["18"]},
    {"error": {"code": 500, "message": "Backend Error", "status": "INTERNAL_SERVER_ERROR"}},
    {"error": {"code": 401, "message": "Unauthorized", "status": "UNAUTHORIZED"}},
    {"error": {"message": "Invalid topic name"}},
    {"token": "TOKEN"},
    {"token": "żółć 🚀"},
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
    b"<p>PASSWORD</p>",
    b"[" * 100_000,
    b"value too long for type character varying(200)\nCONTEXT: x",
    b"RECORD_EXISTS",
    b" RECORD_EXISTS\r\n",
    b"RECORD_EXISTSX",
    b"UNEXPECTED_ERROR",
    b"Json deserialize error: missing field `record_id` at line 1 column 2",
)
ROWS: tuple[Any, ...] = (1, "7", 2**70, "9" * 60, "\x1b[2J", None, [1], "żółć 🚀" * 10)
"""What SGAS may call a row."""
SPECIAL = "&<>\"'/+%=\\{}#?;"
"""What is written otherwise in a URL, in HTML and in JSON."""
LARGEST, MOST_LEVELS = 65_536, 64
"""Bytes and levels of an answer that is read; SGAS's may have some more, as it names records."""
HEADS = (b"HTTP/1.1 STATUS Said\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 STATUS Said\r\n", b"HTTP/1.0 STATUS\r\n")


def made(chance: random.Random) -> dict[str, bytes]:
    token = _token(chance)
    body = _body(chance)
    if chance.random() < 0.4:
        body = damaged(chance, body)
    body = body.replace(b"TOKEN", _quoted(chance, token)).replace(b"BASIC", base64.b64encode(PROXY[7:28].encode()))
    body = body.replace(b"PASSWORD", _quoted(chance, PASSWORD.encode()))
    status = chance.choice(chance.choice(((200,), (200,), (201, 202, 400, 500), STATUSES, MORE_STATUSES)))
    often = chance.choice((0, 0.5, 0.5, 0.8))
    headers = {
        name: chance.choice(chance.choice((TIMES, (*TEXTS, quote(token.decode())))))
        for name in ("Retry-After", "Date", "Location", "Content-Type")
        if chance.random() < often
    }
    if "Date" in headers and chance.random() < 0.7:
        headers["Date"] = DATE
    files = {"token": token, "status": b"%d" % status, "headers": json.dumps(headers).encode(), "body": body}
    if chance.random() < 0.5:
        files |= _raw(chance, status, headers, body)
    return files


def _token(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return base64.b64encode(chance.randbytes(chance.choice((12, 24, 60, 500))))
    letters = [
        chance.choice(SPECIAL if chance.random() < 0.6 else "abcXYZ0189") for _ in range(chance.choice((16, 40)))
    ]
    return "".join(letters).encode()


def _body(chance: random.Random) -> bytes:
    way = chance.random()
    if way < 0.3:
        return chance.choice(BODIES)
    if way < 0.55:
        return json.dumps(_named(chance)).encode()
    if way < 0.7:
        return json.dumps({"messageIds": [chance.choice(ROWS) for _ in range(chance.choice((0, 1, 1, 1, 2)))]}).encode()
    value = chance.choice(JSONS)
    return json.dumps(damaged_json(chance, value) if chance.random() < 0.7 else value).encode()


def _named(chance: random.Random) -> dict[str, Any]:
    """What SGAS says of our records: each by one of its names, or not at all."""
    names = [chance.choice((record_id, record_id, job_id, job_id, None)) for record_id, job_id in IDS.items()]
    others = {"ur-of-another": 1} if chance.random() < 0.3 else {}
    return {name: chance.choice(ROWS) for name in names if name} | others


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
            json.dumps(text)[1:-1],
            base64.b64encode(token).decode(),
            text[start:],
            text[:start],
            f"{'x' * chance.choice((100, 470, 490, 31_990))}{text}",
        )
    ).encode()


def _raw(chance: random.Random, status: int, headers: dict[str, str], body: bytes) -> dict[str, bytes]:
    """An answer as bytes; with a file ``plain`` if that is what any client reads."""
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
    if chance.random() < 0.4:
        return {"raw": damaged(chance, raw)}
    return {"raw": raw} | ({"plain": b""} if not headers and way != 2 else {})


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    token = files["token"].decode()
    _begin(token)
    status, headers, body = int(files["status"]), json.loads(files["headers"]), files["body"]
    for one in sorted({status, 200, 202}):
        _check_judged(one, headers, body, token)
    _check_unknown_token(status, headers, token)
    if "raw" in files:
        _begin(token)
        answers = _exchanged(files["raw"], token)
        for number, answer in enumerate(answers):
            _check(answer, token)
            _kept(answer, token, number)
        _check_exchanged(answers, files)
        if len(files["raw"]) % 8 == 0:
            _check_said_before()


def _check_judged(status: int, headers: dict[str, str], body: bytes, token: str) -> None:
    ams, authn = classify_ams(status, headers, body), classify_authn(status, headers, body)
    sgas = classify_sgas(status, headers, body, IDS)
    auditor = classify(status, headers, body)
    for answer in (ams, authn, sgas, auditor):
        _check(answer, token)
        _check_wait(answer, headers)
    _check_ams(ams, status, body)
    _check_authn(authn, status, body)
    _check_sgas(sgas, status, body)
    _check_auditor(auditor, status, body)


def _begin(token: str) -> None:
    """A run that knows its secrets."""
    wording._secrets = wording.Secrets()
    secrecy.keep(token)
    secrecy.keep_login(PROXY)


def _value(body: bytes) -> Any:
    """What JSON says, if it is no longer and no deeper than an answer may be."""
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=int) if len(body) <= LARGEST else None
    except (ValueError, RecursionError):
        return None
    return value if _levels(value) <= MOST_LEVELS else None


def _levels(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_levels, inside), default=0)


def _part(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_ams(answer: Answer, status: int, body: bytes) -> None:
    ids = _part(_value(body), "messageIds")
    accepted = status == 200 and isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], str | int)
    assert (answer.kind == Outcome.ACCEPTED) == accepted, answer
    assert not accepted or answer.receiver_id, answer
    assert (answer.kind == Outcome.TOKEN_REFUSED) == (status == 401), answer
    if answer.kind == Outcome.RECORDS_REFUSED:
        assert status == 400, answer
        message = _part(_value(body), "error", "message")
        assert isinstance(message, str), f"{answer}: AMS has not said that"
        assert message, f"{answer}: AMS has not said that"
        assert not message.startswith(("Invalid topic name", "Invalid project name")), answer
    _check_doubt(answer, status)


def _check_authn(answer: Answer, status: int, body: bytes) -> None:
    token = _part(_value(body), "token")
    is_token = isinstance(token, str) and 0 < len(token) <= 4096 and all("!" <= letter <= "~" for letter in token)
    assert (answer.kind == Outcome.ACCEPTED) == (status == 200 and is_token), answer
    # There is no record that it could be about, and nothing to be done twice.
    assert answer.kind in {Outcome.ACCEPTED, Outcome.TRY_LATER, Outcome.NOT_AUTHORISED_OR_MISCONFIGURED}, answer
    assert answer.outcome_known, answer


def _check_sgas(answer: Answer, status: int, body: bytes) -> None:
    if LARGEST < len(body) <= LARGEST + 1_000:
        return
    value = _value(body)
    named = {
        record_id: value.get(record_id, value.get(job_id))
        for record_id, job_id in IDS.items()
        if isinstance(value, dict) and (record_id in value or job_id in value)
    }
    # SGAS numbers the rows of its table: one of its own for each record.
    rows = {
        one: str(row) for one, row in named.items() if type(row) in (int, str) and re.fullmatch("[0-9]{1,19}", str(row))
    }
    rows = {one: row for one, row in rows.items() if list(rows.values()).count(row) == 1}
    assert (answer.kind == Outcome.ACCEPTED) == (status == 200 and rows.keys() == IDS.keys()), answer
    if answer.kind == Outcome.ACCEPTED:
        assert answer.receiver_rows == rows, answer
    if status == 200 and isinstance(value, dict):
        assert answer.record_ids == rows.keys(), answer
    if answer.kind == Outcome.RECORDS_REFUSED:
        assert status == 500 or (status == 200 and isinstance(value, dict)), answer
    if status == 500:
        passes = "OperationalError" in answer.text or "server closed the connection" in answer.text
        assert answer.kind == (Outcome.TRY_LATER if passes else Outcome.RECORDS_REFUSED), answer
    if status != 500 or answer.kind == Outcome.TRY_LATER:
        _check_doubt(answer, status)


def _check_auditor(answer: Answer, status: int, body: bytes) -> None:
    exists = status == 500 and body.strip() == RECORD_EXISTS.encode()
    assert (answer.kind == Outcome.ACCEPTED) == (exists or (status == 200 and not body.strip())), answer
    # The sender takes this one, and no other, for a record that is there.
    assert (answer.kind == Outcome.ACCEPTED and answer.status == 500) == exists, answer
    if answer.kind == Outcome.RECORDS_REFUSED:
        assert status == 400 or (status == 500 and body.strip() == UNEXPECTED_ERROR.encode()), answer
    _check_doubt(answer, status)


def _check_doubt(answer: Answer, status: int) -> None:
    """What may have been done although no one says so is in doubt; what was turned away at the door is not."""
    assert (answer.kind == Outcome.TOO_LARGE) == (status == 413), answer
    doubtful = 200 <= status < 300 or status == 408 or (status >= 500 and status not in {501, 503, 505})
    assert answer.kind == Outcome.ACCEPTED or answer.outcome_known != doubtful, answer


def _check_wait(answer: Answer, headers: dict[str, str]) -> None:
    """Two minutes, in each of the ways in which a receiver may say that."""
    after = headers.get("Retry-After")
    if answer.kind == Outcome.TRY_LATER and (after == "120" or (after in TIMES[1:3] and headers.get("Date") == DATE)):
        # SGAS's own moods are none that it says the end of.
        assert answer.retry_after_s == 120 or answer.status in {200, 500}, answer


def _check_unknown_token(status: int, headers: dict[str, str], token: str) -> None:
    """A token that no one has heard of before this very answer is told by none, however deep it lies."""
    plain = {name: value for name, value in headers.items() if name != "Location"}
    written = json.dumps(token)[1:-1]
    body = json.dumps({"a": [{"token": token}], "error": {"message": f"we gave {token[:20]}"}})
    cut = body[: body.index(written) + len(written) // 2 + 8]
    # Of a success that we do not know nothing is told, whatever it calls the token.
    answers = [(status, body), (201, json.dumps({"given": token}))]
    if not {'"', "\\", "&"} & set(token):
        # In what is no JSON no one can say where another token ends.
        answers += [(status, cut), (status, f"<pre>{html.escape(cut)}</pre>")]
    for code, said in answers:
        wording._secrets = wording.Secrets()
        _check(classify_authn(code, plain, said.encode()), token)


def _check_exchanged(answers: list[Answer], files: dict[str, bytes]) -> None:
    """What came through HTTP counts as accepted if it says so of each record."""
    raw, body, sgas = files["raw"], files["body"], answers[-1]
    if b"ncoding" not in raw and sgas.kind == Outcome.ACCEPTED:
        assert b"200" in raw, sgas
        assert all(record_id.encode() in raw or job_id.encode() in raw for record_id, job_id in IDS.items()), sgas
    if "plain" in files and files["status"] == b"200":
        _check_ams(answers[0], 200, body)
        _check_sgas(sgas, 200, body)


def _check(answer: Answer, token: str) -> None:
    texts = [answer.text, answer.receiver_id or "", *answer.receiver_rows.values()]
    for text in (*texts, str(error_of(answer))):
        _check_text(text, token)
    assert len(answer.text) <= 600, answer
    assert all(len(row) <= 40 for row in answer.receiver_rows.values())
    assert answer.retry_after_s is None or 0 <= answer.retry_after_s < 10**12
    assert not answer.record_ids or answer.record_ids <= IDS.keys()


def _check_text(text: str, token: str) -> None:
    assert text.isprintable(), f"{text!r} steers a terminal"
    assert len(text) <= 2000, len(text)
    low = text.lower()
    told = _parts(token).intersection(low[at : at + 8] for at in range(len(low) - 7))
    assert not told, f"{text!r} tells {told} of {token!r}"


@lru_cache
def _parts(token: str) -> frozenset[str]:
    """Eight letters in a row of the token and of the password, as they are or as somebody may write them."""
    login = base64.b64encode(PROXY[7:28].encode()).decode()
    forms = {login}
    for secret in (token, PASSWORD):
        forms |= {secret, quote(secret, safe=""), html.escape(secret), json.dumps(secret)[1:-1]}
        forms.add(base64.b64encode(secret.encode()).decode())
    return frozenset(form[at : at + 8].lower() for form in forms for at in range(len(form) - 7))


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
                if GIVEN_MARK not in answer:
                    connection.unwrap()
                    return


GIVEN_MARK = b"X-Given: yes\r\n"
"""In an answer after which the connection stays open."""
GIVEN = b"HTTP/1.1 200 OK\r\n" + GIVEN_MARK


@lru_cache
def receiver() -> tuple[_Says, Callable[[], ssl.SSLContext], Signer]:
    place = tempfile.mkdtemp(prefix="arcacct-fuzz-")
    authority = Authority(place, "Fuzz")
    server = authority.issue("localhost", rsa_key=False)
    return _Says(server_context(server)), partial(tls_context, None, None, ca_file=authority.ca_file), Signer(*server)


def _exchanged(raw: bytes, token: str) -> list[Answer]:
    """What the real clients make of these bytes, as the answer to a message, to a question for a token, and of SGAS."""
    says, context, signer = receiver()
    timeouts = TimeoutPolicy(connect_s=10, read_s=10, backoff_s=())
    given = json.dumps({"token": token}).encode()
    found = []
    for answers in ([GIVEN + b"Content-Length: %d\r\n\r\n%s" % (len(given), given), raw], [raw]):
        says.answers = answers
        session = Transport(context(), timeouts=timeouts)
        with contextlib.closing(session):
            client = AMSSender(f"https://localhost:{says.port}/p", f"https://localhost:{says.port}/t", session, signer)
            found.append(client.publish(b"x", "20250101/0123"))
    # Refused records are sent once more, at once.
    says.answers = [raw, raw]
    session = Transport(context(), timeouts=timeouts)
    with contextlib.closing(session):
        found.append(SGASSender(f"https://localhost:{says.port}/sgas/ur", session).insert(b"<x/>", IDS))
    return found


def _check_said_before() -> None:
    """What a receiver says before it is asked is no answer: a record would count as accepted that never was."""
    says, context, _signer = receiver()
    taken = json.dumps(dict.fromkeys(IDS, 1)).encode()
    ahead = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(taken), taken)
    # As long as what is read at once: then OpenSSL keeps what is behind it.
    head = GIVEN.replace(b"200 OK", b"503 Busy") + b"Content-Length: %d\r\n\r\n"
    says.answers = [(head % (io.DEFAULT_BUFFER_SIZE - len(head) - 2)).ljust(io.DEFAULT_BUFFER_SIZE) + ahead]
    session = Transport(context(), timeouts=TimeoutPolicy(connect_s=10, read_s=10, backoff_s=()))
    with contextlib.closing(session):
        url = f"https://localhost:{says.port}/sgas/ur"
        answers = [SGASSender(url, session).insert(b"<x/>", IDS) for _ in range(2)]
    assert [answer.status for answer in answers] == [503, None], answers


@lru_cache
def _ledger() -> Any:
    place = pathlib.Path(tempfile.mkdtemp(prefix="arcacct-fuzz-"))
    (place / "outgoing").mkdir()
    con = access.open_publishing(Site(place, None, DIRECTORY).settings.places)
    cursors.set_cursor(con, Cursor(TARGET, "life", 0, 0, None))
    con.execute("PRAGMA synchronous = OFF")
    return con


def _kept(answer: Answer, token: str, number: int) -> None:
    """The ledger takes an answer, and what it keeps is what may be said."""
    con = _ledger()
    (message,) = ledger.record_intent(con, TARGET, [Message(0, "ur", "publish", None, "x", None, "d", 1, b"x", ())])
    if answer.kind == Outcome.ACCEPTED:
        rows = answer.receiver_rows
        ledger.accepted(con, TARGET, message, answer.status, answer.text, answer.receiver_id, rows)
    elif number:
        ledger.attempted(con, message.message_id, answer.status, answer.text)
    else:
        ledger.refused(con, TARGET, message, answer.status, answer.text, [], [(2025, 1)])
    cursors.finish_run(con, TARGET, error=error_of(answer), last_end_time=None)
    con.execute("PRAGMA synchronous = OFF")
    row = con.execute("SELECT Answer, ReceiverID FROM Messages WHERE MessageID = ?", (message.message_id,)).fetchone()
    for text in (*row, *con.execute("SELECT LastError FROM Targets").fetchone()):
        _check_text(text or "", token)
