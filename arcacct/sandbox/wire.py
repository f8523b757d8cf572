"""What the servers hand to a receiver, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Peer(NamedTuple):
    """The client's certificate, as far as the receivers look at it."""

    dn: str
    """In certificate order, ``/O=Sandbox/CN=ce.example.org``: APEL's spelling."""
    subject: str
    """In the order of RFC 2253, ``CN=ce.example.org,O=Sandbox``: what nginx hands to SGAS."""
    common_name: str
    not_before: int
    not_after: int


class Request(NamedTuple):
    """One HTTP request, read to its end."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: Peer | None
    """None: the client showed no certificate."""


class Delivery(NamedTuple):
    """A document that a request brought: one line of the journal."""

    target: str
    """``sgas`` or ``apel``."""
    records: int | None
    """None: nobody could count them."""
    file: str | None
    """Below ``received/``; None: the document was not kept, because a fault came first."""
    verdict: str
    """What became of it, in words."""


class Answer(NamedTuple):
    """Status, body and headers of an answer, and what the request delivered."""

    status: int
    body: bytes = b""
    content_type: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()
    deliveries: tuple[Delivery, ...] = ()
