"""A target's way out, made once there is something to send: keys, certificates and TLS cost more than all the rest."""

from __future__ import annotations

from collections.abc import Callable

from arcacct.config.options import Target
from arcacct.errors import CredentialError
from arcacct.publishing.answers import Answer
from arcacct.publishing.clock import RunDeadline
from arcacct.publishing.ledger import Message
from arcacct.publishing.plug import Sender


class LazySender(Sender):
    """
    A `Sender` that is made when the first message is packed, or the first of an earlier run is looked at.

    Raises then, so before anything is sent or written down, what making it raises.
    """

    def __init__(self, target: Target, make: Callable[[], Sender]) -> None:
        """
        Raise CredentialError for a certificate or key that cannot be read: with nothing to send, too, that is told.

        What is in them is looked at when it is used; `arcacct status` warns of their end.
        """
        self._make = make
        self._made: Sender | None = None
        self._deadline = RunDeadline()
        shown = target.credentials()
        for path in () if shown is None else (shown.x509_host_cert, shown.x509_host_key):
            try:
                with open(path, "rb"):
                    pass
            except OSError as exc:
                what = f"{path}: cannot be read ({exc.strerror}); correct the path, or run as the file's owner"
                raise CredentialError(what) from exc

    @property
    def destination(self) -> str:  # type: ignore[override]  # known by the sender alone
        return self._sender().destination

    def send(self, message: Message) -> Answer:
        return self._sender().send(message)

    def name(self) -> str | None:
        return self._sender().name()

    def pack(self, text: str) -> bytes:
        return self._sender().pack(text)

    def unpack(self, data: bytes) -> str:
        return self._sender().unpack(data)

    def renewed(self, data: bytes) -> bytes:
        return self._sender().renewed(data)

    def set_deadline(self, deadline: RunDeadline) -> None:
        self._deadline = deadline

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _sender(self) -> Sender:
        if self._made is None:
            self._made = self._make()
            self._made.set_deadline(self._deadline)
        return self._made
