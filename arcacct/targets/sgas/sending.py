"""
SGAS: usage records posted to the LUTS server, one document in one transaction, one after the other.

SGAS ignores a record that it has, so a document may be sent again at any time; it never corrects one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Answer, Sender
from arcacct.publishing.transport import Request, TimeoutPolicy, Transport, transport_to
from arcacct.targets.sgas.answers import classify_sgas
from arcacct.targets.sgas.options import SGASTarget

_HEADERS = {"Content-Type": "application/xml; charset=UTF-8"}
_RECORD_ID = re.compile('urf:recordId="([^"]*)"')


class SGASSender(Sender):
    """One target's way to its server."""

    def __init__(self, target: SGASTarget, timeouts: TimeoutPolicy | None = None) -> None:
        """Raise CredentialError and ConfigError as `transport_to` does."""
        self.transport = self._transport = transport_to(target.transport_options, timeouts)
        self.destination = target.url

    def send(self, message: Message) -> Answer:
        sent_ids = {one.key: one.job_id for one in message.records}
        if not all(map(str.isprintable, sent_ids)):
            import html  # noqa: PLC0415  it knows all of HTML's characters by name, and such names are rare

            # Of a name with characters that XML cannot carry the document has what is left.
            ids = [html.unescape(found) for found in _RECORD_ID.findall(self.unpack(message.data))]
            sent_ids = dict(zip(ids, (one.job_id for one in message.records), strict=True))
        return insert(self._transport, self.destination, message.data, sent_ids)


def insert(transport: Transport, url: str, document: bytes, sent_ids: Collection[str]) -> Answer:
    """
    Post a document (UTF-8) that holds the records `sent_ids`, and compare SGAS's answer with them.

    A mapping from recordId to GlobalJobId allows for records that SGAS renames (see `classify_sgas`).
    SGAS's ``null`` (inserted, result lost) is asked again like all that is to be tried later.
    """

    def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        return classify_sgas(status, headers, body, sent_ids)

    return transport.request(Request("POST", url, _HEADERS, document), judge)
