"""Usage records posted to SGAS, one document in one transaction, and the meaning of its answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial

from arcacct.publishing.answers import TEXT_LIMIT, Answer, Outcome, classify_status, error_text, json_of
from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Sender
from arcacct.publishing.transport import Request, Transport
from arcacct.wording import sanitise_line

# The answers of SGAS (the LUTS server behind nginx): its own rows of `publishing.plugin`.


_LONGEST_ROW = 19
_LEAST_JSON = 64 * 1024
"""Bytes that an answer may have whatever was sent."""


def classify_sgas(status: int, headers: Mapping[str, str], body: bytes, sent_ids: Mapping[str, str | None]) -> Answer:
    """
    Judge SGAS's answer to a document with the records `sent_ids`, GlobalJobIds by recordId.

    An answer keyed by GlobalJobId counts as the record's: SGAS renames records whose LocalJobId is longer than 120
    characters or starts with a slash.
    """
    if status == 200:
        return _sgas_inserted(body, sent_ids)
    said = error_text(body)
    if status == 500 and not _SGAS_TRANSIENT.search(said):
        return Answer(Outcome.RECORDS_REFUSED, 500, said)
    answer = classify_status(status, headers, said, _ADVICE_SGAS)
    # 406: this machine is one that we may not report.
    about_credentials = status == 400 and "certificate" in said.lower()
    return answer._replace(about_credentials=about_credentials, about_group=status == 406)


def classify_probe(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge its answer to a GET at the URL of records: 405 shows that the URL is right, and that we reached it. nginx
    before it asks for our certificate, and answers 400 to one that it cannot verify.
    """
    if status == 405:
        return Answer(Outcome.ACCEPTED, 405)
    said = error_text(body)
    answer = classify_status(status, headers, said, _ADVICE_SGAS, to_message=False)
    return answer._replace(about_credentials=status in {400, 401, 403} and "certificate" in said.lower())


# PostgreSQL's and psycopg2's texts for temporary errors: a lost connection, a deadlock, two inserts at once.
_SGAS_TRANSIENT = re.compile(
    r"(?i)OperationalError|deadlock detected|duplicate key value|unique constraint|could not serialize"
    r"|server closed the connection|terminating connection|connection (already closed|not open|refused)"
)


_ADVICE_SGAS = {
    400: "check x509_host_cert and x509_cert_dir: the server wants a client certificate it can verify",
    403: "ask the SGAS administrator for the jobinsert right, for the subject exactly as the server sees it "
    "(/O=.../CN=host and CN=host,O=... are different to SGAS)",
    404: "check targeturl: it must end in /ur, without a slash after it",
    406: "the certificate's domain is not that of these machines: ask the SGAS administrator for "
    "jobinsert:machine_name=..., or correct the host names",
    None: "check targeturl: the answer is not from SGAS",
}


def _sgas_inserted(body: bytes, names: Mapping[str, str | None]) -> Answer:
    # An id, or its job's, with the number of its row; a character may be written as two escapes.
    lengths = (12 * max(len(one), len(job_id or "")) + 2 * _LONGEST_ROW for one, job_id in names.items())
    parsed = json_of(body, _LEAST_JSON + sum(lengths))
    if parsed is None and body.strip() == b"null":
        # SGAS lost its database connection, inserted again and lost that result: the rows are there.
        said = "null: inserted, but the ids were lost"
        return Answer(Outcome.TRY_LATER, 200, said, outcome_known=False)
    if not isinstance(parsed, dict):
        return classify_status(200, {}, error_text(body) or "an empty answer", _ADVICE_SGAS)
    # Unchanged, or by the GlobalJobId with which SGAS replaced them.
    found = {
        one: parsed[one if one in parsed else job_id]
        for one, job_id in names.items()
        if one in parsed or job_id in parsed
    }
    # SGAS numbers the rows of its table, from 1.
    texts = {one: str(row) if type(row) in (int, str) else "" for one, row in found.items()}
    rows = {one: row for one, row in texts.items() if row.isascii() and row.isdigit() and len(row) <= _LONGEST_ROW}
    taken = Counter(rows.values())
    rows = {one: row for one, row in rows.items() if taken[row] == 1}
    stored = frozenset(rows)
    missing = sorted(names.keys() - stored)
    if not missing:
        return Answer(Outcome.ACCEPTED, 200, record_ids=stored, receiver_rows=rows)
    # One transaction for all: for an id without a row, SGAS did not recognise a record.
    said = f"{len(missing)} of {len(names)} records without a row of their own in the answer: {', '.join(missing)}"
    return Answer(Outcome.RECORDS_REFUSED, 200, sanitise_line(said, TEXT_LIMIT), outcome_known=False, record_ids=stored)


# SGAS: usage records posted to the LUTS server, one document in one transaction, one after the other.
#
# SGAS ignores a record that it has, so a document may be sent again at any time; it never corrects one.


_HEADERS = {"Content-Type": "application/xml; charset=UTF-8"}
_RECORD_ID = re.compile('urf:recordId="([^"]*)"')


class SGASSender(Sender):
    """The sender of one target to its server."""

    transport: Transport

    def __init__(self, url: str, session: Transport) -> None:
        """``url``: where records are posted."""
        self.transport = session
        self.destination = url

    def send(self, message: Message) -> Answer:
        sent_ids = {one.key: one.job_id for one in message.records}
        if not all(map(str.isprintable, sent_ids)):
            import html  # noqa: PLC0415  it knows all of HTML's characters by name, and such names are rare

            # A name with characters that XML does not allow is in the document without them.
            ids = [html.unescape(found) for found in _RECORD_ID.findall(self.unpack(message.data))]
            sent_ids = dict(zip(ids, (one.job_id for one in message.records), strict=True))
        return self.insert(message.data, sent_ids)

    def insert(self, document: bytes, sent_ids: Mapping[str, str]) -> Answer:
        """
        Post a document (UTF-8) that holds the records `sent_ids`, and compare SGAS's answer with them.

        After SGAS's ``null`` (inserted, result lost) the request is repeated, like all that is tried later.
        """
        request = Request("POST", self.destination, _HEADERS, document)
        return self.transport.request(request, partial(classify_sgas, sent_ids=sent_ids))
