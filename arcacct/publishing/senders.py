"""How a message reaches each kind of target: packed once, kept in the ledger, sent as often as it takes."""

from __future__ import annotations

import html
import re
from typing import Protocol

from arcacct.conf.targets import APELTarget, DirectoryTarget, SGASTarget, Target, Transport
from arcacct.publishing.answers import Answer
from arcacct.publishing.clock import Clock
from arcacct.publishing.ledger import Message
from arcacct.publishing.session import Patience, TargetSession
from arcacct.targets.apel.ams import AMSClient, new_empaid
from arcacct.targets.apel.ssm_text import ssm_text
from arcacct.targets.directory.sending import MessageDirectory, new_name
from arcacct.targets.sgas.sending import SGASClient
from arcacct.tls import tls_context

SGAS_MAX_BYTES = 1_500_000
"""nginx before SGAS refuses bodies above 2 MB."""
APEL_MAX_BYTES = 735_000
"""Text that stays below 1,000,000 bytes of base64 once it is signed (CRLF line ends are counted by the batcher)."""

_RECORD_ID = re.compile('urf:recordId="([^"]*)"')


class Sender(Protocol):
    """One target's way out."""

    destination: str

    def name(self) -> str | None:
        """A new name for one message, where the transport has one."""

    def pack(self, text: str) -> bytes:
        """Exactly what is sent for a text."""

    def unpack(self, data: bytes) -> str:
        """The text of what was packed."""

    def renewed(self, data: bytes) -> bytes:
        """What was packed, perhaps long ago, as the receiver takes it today: the same text."""

    def send(self, message: Message) -> Answer:
        """Send a message of the ledger; network failures are answers too."""

    def heed(self, clock: Clock) -> None:
        """Begin nothing once the time of this run is over."""

    def close(self) -> None:
        """Let go of connections."""


def max_bytes_of(target: Target) -> int:
    """How large a text may be for the message to be taken; what is larger all the same is cut when it is refused."""
    return SGAS_MAX_BYTES if isinstance(target, SGASTarget) else APEL_MAX_BYTES


def sender_of(target: Target, patience: Patience | None = None) -> Sender:
    """
    The way to a target; ``patience`` overrides the waits of the configuration (tests do).

    Raises CredentialError for a certificate or key that cannot be used, ConfigError for CAs that cannot.
    """
    if isinstance(target, SGASTarget):
        return SGASSender(target, patience)
    if isinstance(target, APELTarget):
        return AMSSender(target, patience)
    return DirectorySender(target)


def _session(transport: Transport, patience: Patience | None) -> TargetSession:
    context = tls_context(
        transport.host_cert,
        transport.host_key,
        ca_dir=transport.cert_dir,
        ca_file=transport.ca_file,
        system_store=transport.ca_system,
    )
    waits = patience or Patience(transport.connect_timeout_s, transport.timeout_s, transport.exchange_timeout_s)
    return TargetSession(context, proxy=transport.proxy, patience=waits)


class SGASSender:
    """Usage records posted to SGAS."""

    def __init__(self, target: SGASTarget, patience: Patience | None = None) -> None:
        self._session = _session(target.transport, patience)
        self._client = SGASClient(target.url, self._session)
        self.destination = self._client.url

    def name(self) -> str | None:
        return None

    def pack(self, text: str) -> bytes:
        return text.encode("utf-8")

    def unpack(self, data: bytes) -> str:
        return data.decode("utf-8")

    def renewed(self, data: bytes) -> bytes:
        return data

    def send(self, message: Message) -> Answer:
        ids = [one.key for one in message.records]
        if not all(map(str.isprintable, ids)):
            # Of a name with characters that XML cannot carry the document has what is left.
            ids = [html.unescape(found) for found in _RECORD_ID.findall(self.unpack(message.data))]
        return self._client.insert(message.data, dict(zip(ids, (one.job_id for one in message.records), strict=True)))

    def heed(self, clock: Clock) -> None:
        self._session.heed(clock)

    def close(self) -> None:
        self._session.close()


class AMSSender:
    """Signed messages published to AMS."""

    def __init__(self, target: APELTarget, patience: Patience | None = None) -> None:
        # For AMS only: the library behind it takes longer to import than a thousand records to publish.
        from arcacct.publishing import signing  # noqa: PLC0415

        self._signing = signing
        self._signer = signing.Signer(target.transport.host_cert, target.transport.host_key)
        self._session = _session(target.transport, patience)
        address = f"https://{target.address.netloc}"
        self._client = AMSClient(address, target.project, target.topic, self._session, authn_port=target.authn_port)
        self.destination = target.url

    def name(self) -> str | None:
        return new_empaid()

    def pack(self, text: str) -> bytes:
        return self._signer.sign(text)

    def unpack(self, data: bytes) -> str:
        return self._signing.signed_text(data)

    def renewed(self, data: bytes) -> bytes:
        # APEL drops a message whose signer's certificate has ended, and tells nobody.
        return data if self._signer.signed(data) else self.pack(self.unpack(data))

    def send(self, message: Message) -> Answer:
        return self._client.publish(message.data, message.empaid or new_empaid())

    def heed(self, clock: Clock) -> None:
        self._session.heed(clock)

    def close(self) -> None:
        self._session.close()


class DirectorySender:
    """Unsigned message files for a site's own ssmsend."""

    def __init__(self, target: DirectoryTarget) -> None:
        self._directory = MessageDirectory(target.path, target.layout)
        self.destination = target.url

    def name(self) -> str | None:
        return new_name()

    def pack(self, text: str) -> bytes:
        return ssm_text(text)

    def unpack(self, data: bytes) -> str:
        return data.decode("ascii")

    def renewed(self, data: bytes) -> bytes:
        return data

    def send(self, message: Message) -> Answer:
        return self._directory.write(self.unpack(message.data), message.empaid or new_name())

    def heed(self, clock: Clock) -> None:
        """A directory answers at once, or the file system hangs: nobody can help that."""

    def close(self) -> None:
        return
