"""What stands behind a port, what the servers hand to it, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Self

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.sandbox import Sandbox


class Peer(NamedTuple):
    """The client's certificate, as far as the receivers look at it."""

    dn: str
    """In certificate order, ``/O=Sandbox/CN=ce.example.org``: APEL's spelling."""
    subject: str
    """In the order of RFC 2253, ``CN=ce.example.org,O=Sandbox``: what nginx hands to SGAS."""
    common_name: str
    not_before: int
    not_after: int


class HTTPRequest(NamedTuple):
    """One HTTP request, read to its end."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: Peer | None
    """None: the client showed no certificate."""


class Arrival(NamedTuple):
    """A document that a request brought: one line of the journal."""

    target: str
    """The receiver's `documents`."""
    records: int | None
    """None: nobody could count them."""
    file: str | None
    """Below ``received/``; None: the document was not kept, because a fault came first."""
    verdict: str
    """What became of it, in words."""


class HTTPAnswer(NamedTuple):
    """Status, body and headers of an answer, and what the request delivered."""

    status: int
    body: bytes = b""
    content_type: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()
    arrivals: tuple[Arrival, ...] = ()


class Receiver(ABC):
    """
    What stands behind a port. A new one is a module with a class of this kind, and a line in `sandbox.RECEIVERS`.

    Requests come from many threads at once.
    """

    endpoint: ClassVar[str]
    """Its name among ports, faults and the options of ``arcacct sandbox``."""
    title: ClassVar[str]
    """What the command line calls it."""
    documents: ClassVar[str | None] = None
    """The folder of ``received/`` in which it keeps what it gets; None: requests here bring no documents."""
    wants_certificate: ClassVar[bool] = True
    """Whether clients are asked for their certificates."""
    demands_certificate: ClassVar[bool] = False
    """Whether TLS itself turns away who shows none, or one whose time is over."""

    @classmethod
    @abstractmethod
    def beside(cls, box: Sandbox) -> Self:
        """One for this sandbox, whose authority, journal and earlier receivers are there."""

    @abstractmethod
    def answer(self, request: HTTPRequest) -> HTTPAnswer:
        """What it says to a request."""

    @abstractmethod
    def address(self, port: int) -> str:
        """Where it is, for people."""

    def delivers(self, _request: HTTPRequest) -> bool:
        """Whether a request brings documents: then it is a line of the journal, also if a fault comes first."""
        return False

    def text(self, request: HTTPRequest) -> str:
        """What can be read in a request, for faults that follow a record."""
        return request.body.decode("utf-8", "replace")

    def block(self, _box: Sandbox) -> list[str]:
        """The lines of arcacct.conf with which it is published to; none if it is no target of its own."""
        return []

    def totals(self) -> list[str]:
        """A line for each thing that its portal would show; all begin with the portal's name."""
        return []
