"""
SGAS: usage records posted to the LUTS server, one document in one transaction.

SGAS ignores a record that it has, so a document may be sent again at any time; it never corrects one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from arcacct.errors import ConfigError
from arcacct.publishing.answers import Answer, classify_sgas
from arcacct.publishing.session import Request, TargetSession
from arcacct.secrecy import without_login

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MAX_DOCUMENT_BYTES = 1_500_000
"""Half a megabyte below what nginx is configured to take (client_max_body_size 2m)."""

_HEADERS = {"Content-Type": "application/xml; charset=UTF-8"}


def insert_url(url: str) -> str:
    """
    Where records are posted: `url` without slashes at its end, and ``/ur`` behind it if it is not there (as ARC does).

    An address without a path gets SGAS's usual one, ``/sgas/ur``. Raises ConfigError if it is not https.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ConfigError(f"targeturl={without_login(url)}: SGAS is reached at https://HOST:PORT/sgas")
    path = parts.path.rstrip("/") or "/sgas"
    return f"https://{parts.netloc}{path if path.endswith('/ur') else f'{path}/ur'}"


class SGASClient:
    """Inserts documents of usage records at one server, one after the other: SGAS works on one at a time."""

    def __init__(self, url: str, session: TargetSession) -> None:
        """Take targeturl as it is configured; raises ConfigError as `insert_url` does."""
        self.url = insert_url(url)
        self._session = session

    def insert(self, document: bytes, sent_ids: Collection[str]) -> Answer:
        """
        Post a document (UTF-8) that holds the records `sent_ids`, and compare SGAS's answer with them.

        A mapping from recordId to GlobalJobId allows for records that SGAS renames (see `classify_sgas`).
        SGAS's ``null`` (inserted, result lost) is asked again like all that is to be tried later.
        """

        def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
            return classify_sgas(status, headers, body, sent_ids)

        return self._session.exchange(Request("POST", self.url, _HEADERS, document), judge)
