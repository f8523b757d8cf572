"""
The ARGO Messaging Service: a token for our certificate, then one message a request.

AMS stores the messages of a request one by one and returns only an error if one fails, so more than one in a
request cannot be told apart afterwards. The token stays in memory for one run and travels in a header only.
"""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Mapping

from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Answer, Outcome, Sender
from arcacct.publishing.transport import Request, TimeoutPolicy, Transport, transport_to
from arcacct.targets.apel.answers import classify_ams, classify_authn, token_of
from arcacct.targets.apel.options import APELTarget
from arcacct.targets.apel.signing import Signer, signed_text

MAX_ENCODED_BYTES = 1_000_000
"""The documented limit of a message's base64 text; the server itself gives up at 1,500,000 bytes as stored."""


def encoded_size(n_bytes: int) -> int:
    """The length of `n_bytes` in base64: what MAX_ENCODED_BYTES limits."""
    return (n_bytes + 2) // 3 * 4


def new_empaid(now_s: int | None = None) -> str:
    """
    A name for one message, ``YYYYMMDD/<14 hex digits>``: the UTC day and 56 random bits.

    Keep it with the message: the same name at each try lets APEL's operators recognise a repeat.
    """
    day = time.strftime("%Y%m%d", time.gmtime(now_s))
    return f"{day}/{secrets.token_hex(7)}"


class AMSClient:
    """Publishes to one topic, with a token of the authn service beside AMS."""

    def __init__(self, publish_url: str, token_url: str, session: Transport) -> None:
        """Speak to nobody yet."""
        self._transport = session
        self._publish_url = publish_url
        self._token_url = token_url
        self._token: str | None = None

    def publish(self, data: bytes, empaid: str) -> Answer:
        """
        Send one signed message; a refused token is fetched anew once.

        The answer may be the authn service's, if that gives no token: then nothing was sent. What exceeds
        MAX_ENCODED_BYTES is not sent either, and is TOO_LARGE.
        """
        if encoded_size(len(data)) > MAX_ENCODED_BYTES:
            text = f"{encoded_size(len(data))} bytes in base64, {MAX_ENCODED_BYTES} are allowed"
            return Answer(Outcome.TOO_LARGE, text=text)
        # AMS does not escape attributes when it stores them; base64 and these names need no escapes.
        if not re.fullmatch(r"[A-Za-z0-9/._-]+", empaid):
            raise ValueError(f"an empaid consists of letters, digits and / . _ -, not {empaid!r}")
        head = b'{"messages":[{"attributes":{"empaid":"' + empaid.encode() + b'"},"data":"'
        # At once: a sum of three would copy the megabyte twice.
        body = b"".join((head, base64.b64encode(data), b'"}]}'))
        answer = self._post(body)
        if answer.kind != Outcome.TOKEN_REFUSED:
            return answer
        refused, self._token = answer, None
        answer = self._post(body)
        if answer.kind == Outcome.ACCEPTED:
            return answer
        # What is not known about the first try stays unknown.
        return answer._replace(outcome_known=answer.outcome_known and refused.outcome_known)

    def _post(self, body: bytes) -> Answer:
        """With the token of before, or a new one; the answer says why if there is none."""
        if self._token is None:
            answer = self._transport.request(Request("GET", self._token_url, {}), self._read_token)
            if self._token is None:
                return answer
        headers = {"x-api-key": self._token, "Content-Type": "application/json"}
        return self._transport.request(Request("POST", self._publish_url, headers, body), classify_ams)

    def _read_token(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = classify_authn(status, headers, body)
        if answer.kind == Outcome.ACCEPTED:
            self._token = token_of(body)
        return answer


class AMSSender(Sender):
    """One target's way to its topic, by signed messages."""

    def __init__(self, target: APELTarget, timeouts: TimeoutPolicy | None = None) -> None:
        """Raise CredentialError and ConfigError as `tls_context` and `Signer` do, as `Target.check_credentials` too."""
        self.transport = transport_to(target.transport_options, timeouts)
        self._signer = Signer(target.transport_options.x509_host_cert, target.transport_options.x509_host_key)
        self._client = AMSClient(target.url, target.authn_url, self.transport)
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
