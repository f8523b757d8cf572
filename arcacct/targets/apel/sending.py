"""Signed messages, published to AMS."""

from __future__ import annotations

from arcacct.publishing.plug import Sender
from arcacct.publishing.session import session_to
from arcacct.targets.apel.ams import AMSClient, new_empaid
from arcacct.targets.apel.signing import Signer, signed_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.publishing.answers import Answer
    from arcacct.publishing.ledger import Message
    from arcacct.publishing.session import Patience
    from arcacct.targets.apel.options import APELTarget


class AMSSender(Sender):
    """One target's way to its topic."""

    def __init__(self, target: APELTarget, patience: Patience | None = None) -> None:
        """Raise CredentialError and ConfigError as `Signer` and `tls_context` do."""
        self._signer = Signer(target.transport.x509_host_cert, target.transport.x509_host_key)
        self.session = session_to(target.transport, patience)
        self._client = AMSClient(target.url, target.authn_url, self.session)
        self.destination = target.url

    def name(self) -> str | None:
        return new_empaid()

    def pack(self, text: str) -> bytes:
        return self._signer.sign(text)

    def unpack(self, data: bytes) -> str:
        return signed_text(data)

    def renewed(self, data: bytes) -> bytes:
        # APEL drops a message whose signer's certificate has ended, and tells nobody.
        return data if self._signer.signed(data) else self.pack(self.unpack(data))

    def send(self, message: Message) -> Answer:
        return self._client.publish(message.data, message.empaid or new_empaid())
