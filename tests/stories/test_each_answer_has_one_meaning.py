"""Each row of the receivers' tables of answers."""

from __future__ import annotations

import json

import pytest

from arcacct.errors import CredentialError, TargetBusy, TargetError, TargetRefuses
from arcacct.publishing.answers import Answer, Outcome, error_of, error_text
from arcacct.targets.apel.ams import classify_ams, classify_ams_status, classify_authn, token_of
from arcacct.targets.sgas.sender import classify_sgas

OK, LATER, LARGE = Outcome.ACCEPTED, Outcome.TRY_LATER, Outcome.TOO_LARGE
TOKEN, RECORDS, US = Outcome.TOKEN_REFUSED, Outcome.RECORDS_REFUSED, Outcome.NOT_AUTHORISED_OR_MISCONFIGURED
KNOWN, UNKNOWN = True, False

BALANCER = b"<html><body><h1>503 Service Unavailable</h1>\nNo server is available.\n</body></html>\n"
TWISTED = b"<html><head><title>Processing Failed</title></head><body><b>Processing Failed</b></body></html>"


def error(code: int, message: str, status: str = "X") -> bytes:
    """The JSON that AMS and authn wrap their errors in."""
    return json.dumps({"error": {"code": code, "message": message, "status": status}}).encode()


def row(name: str, *values):
    return pytest.param(*values, id=name)


AMS = [
    row("stored", 200, b'{\n   "messageIds": [\n      "18"\n   ]\n}', OK, KNOWN),
    row("no message stored", 200, b'{"messageIds": []}', US, UNKNOWN),
    row("an empty id", 200, b'{"messageIds": [""]}', US, UNKNOWN),
    row("an id and an error", 200, b'{"messageIds": ["18"], "error": {"code": 500}}', US, UNKNOWN),
    row("a web page", 200, b"<html>Welcome to nginx!</html>", US, UNKNOWN),
    row("nothing in it", 200, b"", US, UNKNOWN),
    row("another success", 204, b"", US, UNKNOWN),
    row("redirect", 302, b"", US, KNOWN),
    row("arguments", 400, error(400, "Invalid Message Arguments", "INVALID_ARGUMENT"), RECORDS, KNOWN),
    row("topic's schema", 400, error(400, "Message 0 data is not valid,(root): name is required"), RECORDS, KNOWN),
    row("body not read", 400, error(400, "Invalid Request Body", "BAD_REQUEST"), RECORDS, KNOWN),
    row("topic's name", 400, error(400, "Invalid topic name", "INVALID_ARGUMENT"), US, KNOWN),
    row("project's name", 400, error(400, "Invalid project name", "INVALID_ARGUMENT"), US, KNOWN),
    row("balancer's 400", 400, b"<h1>400 Bad request</h1>", US, KNOWN),
    row("token", 401, error(401, "Unauthorized", "UNAUTHORIZED"), TOKEN, KNOWN),
    row("role", 403, error(403, "Access to this resource is forbidden", "FORBIDDEN"), US, KNOWN),
    row("project", 404, error(404, "project doesn't exist", "NOT_FOUND"), US, KNOWN),
    row("topic", 404, error(404, "Topic doesn't exist", "NOT_FOUND"), US, KNOWN),
    row("path", 404, b"404 page not found\n", US, KNOWN),
    row("verb", 405, b"", US, KNOWN),
    row("slow upload", 408, BALANCER, LATER, UNKNOWN),
    row("conflict", 409, error(409, "Topic already exists", "ALREADY_EXISTS"), US, KNOWN),
    row("too large", 413, error(413, "Message size is too large", "INVALID_ARGUMENT"), LARGE, KNOWN),
    row("balancer's 413", 413, b"<h1>413</h1>", LARGE, KNOWN),
    row("too many", 429, b"", LATER, KNOWN),
    row("broker", 500, error(500, "Backend Error", "INTERNAL_SERVER_ERROR"), LATER, UNKNOWN),
    row("broker's topic", 500, error(500, "Broker reports wrong topic", "INTERNAL_SERVER_ERROR"), LATER, UNKNOWN),
    row("datastore", 500, error(500, "Internal error while querying datastore"), LATER, UNKNOWN),
    row("not implemented", 501, b"", US, KNOWN),
    row("bad gateway", 502, BALANCER, LATER, UNKNOWN),
    row("nobody there", 503, BALANCER, LATER, KNOWN),
    row("gateway timeout", 504, BALANCER, LATER, UNKNOWN),
]


@pytest.mark.parametrize(("status", "body", "kind", "known"), AMS)
def test_an_answer_of_ams_means_what_its_table_says(status, body, kind, known):
    """Every answer that AMS or its balancer gives to a publish request is judged as its table says."""
    answer = classify_ams(status, {}, body)
    assert (answer.kind, answer.status, answer.outcome_known) == (kind, status, known)


def test_an_accepted_message_has_the_brokers_id():
    """The message id of AMS is kept, to be found again in the receiver's log."""
    assert classify_ams(200, {}, b'{"messageIds":["18"]}').receiver_id == "18"


AUTHN = [
    row("token", 200, b'{"token": "s3cret"}', OK, False),
    row("no token", 200, b"{}", US, False),
    row("unusable token", 200, b'{"token": "a\\nb"}', US, False),
    row("no certificate", 400, error(400, "No certificate provided", "BAD REQUEST"), US, True),
    row("reverse look-up", 400, error(400, "lookup 192.0.2.1: no such host", "BAD REQUEST"), US, True),
    row("expired", 403, error(403, "Your certificate has expired", "ACCESS_FORBIDDEN"), US, True),
    row("not yet", 403, error(403, "Your certificate is not active yet", "ACCESS_FORBIDDEN"), US, True),
    row("revoked", 403, error(403, "Your certificate has been revoked", "ACCESS_FORBIDDEN"), US, True),
    row("no CRL", 403, error(403, "Your certificate is invalid. No CRLDistributionPoints found"), US, True),
    row("service type", 404, error(404, "Service-type was not found", "NOT FOUND"), US, False),
    row("host", 404, error(404, "Host was not found", "NOT FOUND"), US, False),
    row("method", 404, error(404, "Auth method was not found", "NOT FOUND"), US, False),
    row("binding", 404, error(404, "Binding was not found", "NOT FOUND"), US, False),
    row("unprocessable", 422, error(422, "Binding already exists", "UNPROCESSABLE ENTITY"), US, False),
    row("too large, as if a record were at fault", 413, b"", US, False),
    row("too many", 429, b"", LATER, False),
    row("AMS behind it", 500, error(500, "Internal Error: Error while contacting AMS"), LATER, False),
    row("its database", 500, error(500, "Database Error: no reachable servers"), LATER, False),
    row("balancer", 503, BALANCER, LATER, False),
]


@pytest.mark.parametrize(("status", "body", "kind", "credentials"), AUTHN)
def test_an_answer_of_authn_means_what_its_table_says(status, body, kind, credentials):
    """Every answer of the authn service is judged as its table says, and nothing is ever half done there."""
    answer = classify_authn(status, {}, body)
    assert (answer.kind, answer.about_credentials, answer.outcome_known) == (kind, credentials, True)


def test_a_token_is_in_no_answer():
    """An accepted answer of authn does not carry the secret into ledgers and logs."""
    body = b'{"token": "s3cret"}'
    assert token_of(body) == "s3cret"
    assert "s3cret" not in repr(classify_authn(200, {}, body))


@pytest.mark.parametrize(
    "body",
    [
        row("created", b'{"token": "%s"}'),
        row("cut", b'{"name": "ce", "token": "%s'),
        row("deeper", b'{"user": [{"access_token": "%s", "more": 1}]}'),
        row("in a page", b'<html>{"token":"%s"}</html>'),
    ],
)
@pytest.mark.parametrize("status", [200, 201, 202, 302, 403, 500])
def test_a_token_in_an_unexpected_answer_is_not_reported(status, body):
    """Whatever authn's status is and however the token comes: neither this answer nor a later one says it."""
    token = "c0ffee-of-the-host-" + "0123456789abcdef" * 40
    answer = classify_authn(status, {}, body.replace(b"%s", token.encode()))
    later = classify_ams(400, {}, f"<p>your request: x-api-key: {token}</p>".encode())
    assert "c0ffee-of" not in repr([answer, later])


def test_a_success_that_we_do_not_know_is_not_quoted():
    """A token that nothing marks as one is not reported either: where authn says yes, its body may be the secret."""
    assert "s3cret" not in repr(classify_authn(201, {}, b"s3cret-word"))


@pytest.mark.parametrize("status", [200, 201, 204, 302, 400, 401, 403, 404, 406, 413, 429, 500, 503])
def test_no_answer_ends_in_an_exception(status, tmp_path):
    """Numbers, names and texts that Python's or SQLite's own limits do not like are answers like any other."""
    nasty = [
        b'{"messageIds": ["\\ud800"]}',
        b'{"messageIds": [%s]}' % (b"9" * 4000),
        b'{"messageIds": [NaN]}',
        b'{"messageIds": [{"a": [[]]}]}',
        b'{"a": %s, "a": "\\ud800\\u001b]0;x\\u0007"}' % (b"9" * 4000),
        b'{"a": true, "b": null}',
        b'{"\\ud800": 1}',
        b'{"error": {"message": "\\ud800\\u0000"}}',
        b'{"token": "\\ud800\\n"}',
        b"\xff\xfe{\x00}\x00",
        b"[" * 100_000,
        b"1" * 10_000,
    ]
    headers = {"Retry-After": "Wed, 01 Jan 99999999999999 00:00:00 GMT", "Date": DATE, "Location": "\x1b]0;x\x07\ud800"}
    for body in nasty:
        for answer in (
            classify_ams(status, headers, body),
            classify_authn(status, headers, body),
            classify_sgas(status, headers, body, {"a": "b"}),
        ):
            texts = [answer.text, answer.receiver_id or "", *answer.receiver_rows.values(), str(error_of(answer))]
            assert all(text.isprintable() and len(text) <= 1000 for text in texts), answer


@pytest.mark.parametrize("more", [b'"x": ' + b"[" * 65 + b"]" * 65, b'"x": [%s1]' % (b"[],[]," * 500_000)])
def test_an_answer_that_is_larger_or_deeper_than_any_is_none(more):
    """Whatever else stands in it: nothing is accepted for it, it is not parsed, and its token is still a secret."""
    for answer in (
        classify_ams(200, {}, b'{"messageIds": ["1"], %s}' % more),
        classify_sgas(200, {}, b'{"a": 1, %s}' % more, {"a": "b"}),
        classify_authn(200, {}, b'{"token": "s3cret-enough", %s}' % more),
        classify_ams_status(200, {}, b'{"status": "ok", %s}' % more),
    ):
        assert answer.kind == US
        assert "s3cret" not in str(error_of(answer))


def test_an_unmapped_certificate_sends_the_administrator_to_gocdb():
    """A missing binding says where the host certificate must be registered."""
    answer = classify_authn(404, {}, error(404, "Binding was not found"))
    assert "GOCDB" in str(error_of(answer))


SGAS = [
    row("inserted", 200, b'{"a": "1", "b": "2"}', OK, KNOWN, {"a", "b"}),
    row("one id missing", 200, b'{"a": "1"}', RECORDS, UNKNOWN, {"a"}),
    row("nothing inserted", 200, b"{}", RECORDS, UNKNOWN, set()),
    row("another's ids too", 200, b'{"a": "1", "b": "2", "c": "3"}', OK, KNOWN, {"a", "b"}),
    row("result lost", 200, b"null", LATER, UNKNOWN, None),
    row("a web page", 200, b"<html>hello</html>", US, UNKNOWN, None),
    row("client certificate", 400, b"<center>No required SSL certificate was sent</center>", US, KNOWN, None),
    row("certificate error", 400, b"<center>The SSL certificate error</center>", US, KNOWN, None),
    row("plain HTTP", 400, b"The plain HTTP request was sent to HTTPS port", US, KNOWN, None),
    row("no token service", 401, b"", US, KNOWN, None),
    row("no right", 403, b"Rejecting job usage insert for /CN=x. No insert rights.", US, KNOWN, None),
    row("path", 404, b"<html>No Such Resource</html>", US, KNOWN, None),
    row("verb", 405, b"<html>Method Not Allowed</html>", US, KNOWN, None),
    row("machine", 406, b"Subject /CN=x is not allowed to perform insertion for machines: a,b", US, KNOWN, None),
    row("slow upload", 408, b"", LATER, UNKNOWN, None),
    row("too large", 413, b"<center><h1>413 Request Entity Too Large</h1></center>", LARGE, KNOWN, None),
    row("too many", 429, b"", LATER, KNOWN, None),
    row("column too short", 500, b"value too long for type character varying(200)\nCONTEXT: x", RECORDS, KNOWN, None),
    row("null in column", 500, b'null value in column "create_time" violates not-null', RECORDS, KNOWN, None),
    row("out of range", 500, b"smallint out of range", RECORDS, KNOWN, None),
    row("metric", 500, b"'SgasMemory' object has no attribute 'metric'", RECORDS, KNOWN, None),
    row("processing failed", 500, TWISTED, RECORDS, KNOWN, None),
    row("database gone", 500, b"psycopg2.OperationalError: server closed the connection", LATER, UNKNOWN, None),
    row("deadlock", 500, b"deadlock detected\nDETAIL: Process 1 waits", LATER, UNKNOWN, None),
    row("two at once", 500, b"duplicate key value violates unique constraint", LATER, UNKNOWN, None),
    row("verb unknown", 501, b"", US, KNOWN, None),
    row("bad gateway", 502, BALANCER, LATER, UNKNOWN, None),
    row("database down", 503, b"Database currently unavailable. Please try again later.", LATER, KNOWN, None),
    row("gateway timeout", 504, BALANCER, LATER, UNKNOWN, None),
]


@pytest.mark.parametrize(("status", "body", "kind", "known", "stored"), SGAS)
def test_an_answer_of_sgas_means_what_its_table_says(status, body, kind, known, stored):
    """Every answer of SGAS or of the nginx before it to the records a and b is judged as its table says."""
    answer = classify_sgas(status, {}, body, {"a": "one", "b": "two"})
    assert (answer.kind, answer.status, answer.outcome_known, answer.record_ids) == (kind, status, known, stored)


def test_a_record_that_sgas_renames_counts_as_sent():
    """SGAS answers by GlobalJobId for a record whose LocalJobId looks like a path, and that is its receipt."""
    sent = {"ur-host-1": "gsiftp://host/1", "ur-host-2": None}
    answer = classify_sgas(200, {}, b'{"gsiftp://host/1": "7", "ur-host-2": "8"}', sent)
    assert answer.kind == Outcome.ACCEPTED
    assert answer.record_ids == {"ur-host-1", "ur-host-2"}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(None, id="nothing"),
        pytest.param(True, id="a truth"),
        pytest.param(-17, id="less than nothing"),
        pytest.param(17.5, id="a fraction"),
        pytest.param(10**30, id="more than a column holds"),
        pytest.param("", id="an empty text"),
        pytest.param("duplicate key", id="an error"),
        pytest.param("\u0661\u0667", id="digits of another script"),
        pytest.param("https://arc:pw-of-a-proxy@host", id="a password"),
        pytest.param({"row": 17}, id="an object"),
        pytest.param(16, id="the row of another record"),
    ],
)
def test_a_record_without_a_row_of_its_own_was_not_stored(row):
    """SGAS numbers the rows of its table, so anything else does not say that the record is there."""
    answer = classify_sgas(
        200, {}, json.dumps({"one": 18, "two": row, "three": 16}).encode(), dict.fromkeys(["one", "two", "three"])
    )

    assert answer.kind == RECORDS
    assert not answer.outcome_known
    assert answer.record_ids == ({"one", "three"} if row != 16 else {"one"})
    assert answer.receiver_rows == {}
    assert "records without a row of their own in the answer: " in answer.text
    assert "pw-of-a-proxy" not in answer.text


def test_numbers_of_rows_are_kept():
    body = json.dumps({"one": "16", "two": 17}).encode()
    answer = classify_sgas(200, {}, body, {"one": None, "two": None})

    assert answer.kind == OK
    assert answer.receiver_rows == {"one": "16", "two": "17"}


def test_a_record_that_sgas_does_not_name_is_named_by_us():
    """A receipt that lacks a record says which one."""
    answer = classify_sgas(200, {}, b'{"ur-host-1": "7"}', {"ur-host-1": None, "ur-host-2": None})
    assert "ur-host-2" in answer.text
    assert "ur-host-1" not in answer.text


DATE = "Wed, 01 Jan 2025 00:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        row("seconds", {"Retry-After": "120"}, 120),
        row("any case", {"retry-after": " 7 "}, 7),
        row("date", {"Retry-After": "Wed, 01 Jan 2025 00:02:00 GMT", "Date": DATE}, 120),
        row("past date", {"Retry-After": "Tue, 31 Dec 2024 23:00:00 GMT", "Date": DATE}, 0),
        row("date alone", {"Retry-After": "Wed, 01 Jan 2025 00:02:00 GMT"}, None),
        row("another zone for UTC", {"Retry-After": "Wed, 01 Jan 2025 00:02:00 -0000", "Date": DATE}, 120),
        row("nonsense", {"Retry-After": "soon"}, None),
        row("negative", {"Retry-After": "-5"}, None),
        row("year of many digits", {"Retry-After": "Wed, 01 Jan 99999999999999 00:00:00 GMT", "Date": DATE}, None),
        row("year beyond C", {"Retry-After": "Wed, 01 Jan 9223372036854775808 00:00:00 GMT", "Date": DATE}, None),
        row("our own year", {"Retry-After": DATE, "Date": "Wed, 01 Jan 99999999999999 00:00:00 GMT"}, None),
        row("year 0", {"Retry-After": "Wed, 01 Jan 0000 00:00:00 GMT", "Date": DATE}, 0),
        row("end of time", {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT", "Date": DATE}, 251_666_611_199),
        row("zone beyond time", {"Retry-After": "Fri, 31 Dec 9999 23:59:59 -9999999999", "Date": DATE}, None),
        row("number of many digits", {"Retry-After": "9" * 5000, "Date": DATE}, None),
        row("Arabic digits", {"Retry-After": "\u0665\u0665", "Date": DATE}, None),
        row("two of them", {"Retry-After": "5, 10", "Date": DATE}, None),
        row("without end", {"Retry-After": "Wed, " * 100_000, "Date": DATE}, None),
        row("no text", {"Retry-After": "\ud800\x00", "Date": "\ud800"}, None),
        row("absent", {}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_understood(status, headers, seconds):
    """A receiver may say how long to stay away, in seconds or as a date by its own clock."""
    assert classify_ams(status, headers, b"").retry_after_s == seconds
    assert classify_sgas(status, headers, b"", {}).retry_after_s == seconds


@pytest.mark.parametrize(
    ("body", "said"),
    [
        row("json", error(500, "Backend Error"), "Backend Error"),
        row("plain text", b"smallint out of range\nCONTEXT:  SQL", "smallint out of range CONTEXT: SQL"),
        row("page", b"<html><style>p {x}</style><h1>Bad\n Gateway</h1></html>", "Bad Gateway"),
        row("traceback", b'<html>much<p class="error">exceptions.KeyError: x</p></html>', "exceptions.KeyError: x"),
        row("json without message", b'{"error": "no"}', '{"error": "no"}'),
        row("control characters", b"a\x00\x1b[31mb\xff", "a\\x00\\x1b[31mb\ufffd"),
        row("halves of characters", b'{"error": {"message": "\\ud800 \\u202e"}}', r"\ud800 \u202e"),
        row("empty", b"", ""),
        row("deep", b"[" * 100_000, "[" * 494 + " [cut]"),
        row("endless", b"x" * 100_000, "x" * 494 + " [cut]"),
        row("a number of many digits", b'{"error": ' + b"9" * 5000, '{"error": ' + "9" * 484 + " [cut]"),
    ],
)
def test_a_receivers_words_fit_on_one_line(body, said):
    """What a receiver says is cut to 500 characters without markup and control characters."""
    assert error_text(body) == said


def test_a_redirect_is_named_and_not_followed():
    """A target that moved is the administrator's business."""
    answer = classify_sgas(301, {"Location": "https://new.example.org/sgas/ur"}, b"", {})
    assert "https://new.example.org/sgas/ur" in answer.text


@pytest.mark.parametrize(
    ("answer", "error_class", "exit_code"),
    [
        row("later", Answer(Outcome.TRY_LATER, 503, "down"), TargetBusy, 75),
        row("refused", Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 404, "no topic"), TargetRefuses, 69),
        row(
            "certificate",
            Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 403, "expired", about_credentials=True),
            CredentialError,
            77,
        ),
        row("token", classify_ams(401, {}, error(401, "Unauthorized")), CredentialError, 77),
        row("records", Answer(Outcome.RECORDS_REFUSED, 500, "bad"), TargetError, 69),
    ],
)
def test_an_answer_becomes_an_error_with_its_exit_code(answer, error_class, exit_code):
    """The error for an answer names the status and the receiver's words, and has the documented code."""
    error = error_of(answer)
    assert type(error) is error_class
    assert error.exit_code == exit_code
    assert str(error).startswith(f"HTTP {answer.status}: {answer.text}")
