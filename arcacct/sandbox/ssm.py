"""
The Secure STOMP Messenger's steps between the messaging service and APEL (apel 2.2).

A message ends in one of three ways: its text goes on to the loader, it is rejected, or the daemon dies over it,
which leaves it unacknowledged, so that it comes back and nothing behind it gets through.
"""

from __future__ import annotations

import quopri
from collections.abc import Container
from typing import NamedTuple

from arcacct.config.credentials import slash_dn
from arcacct.errors import InputError
from arcacct.sandbox import envelopes, signatures
from arcacct.sandbox.authority import Credential


class MessageRejected(Exception):
    """The message goes to the reject queue; the sender never hears of it."""


class Crashed(Exception):
    """The receiver dies, and dies again each time it is started."""


class VerifiedMessage(NamedTuple):
    """A message's text, and the DN of whoever signed it."""

    text: str
    signer: str


def accept(
    message: bytes, ca_dir: str, allowed_dns: Container[str] | None, credential: Credential | None = None
) -> VerifiedMessage:
    """
    Unwrap a signed message; `allowed_dns` are slash DNs compared letter by letter (None: whoever the CAs vouch for).

    One that is encrypted is decrypted with `credential` before. Raises MessageRejected or Crashed.
    """
    try:
        signed = signatures.verify(_decrypted(message, credential))
        # Of several certificates the first is taken for the signer's, rightly or not.
        first = signed.certificates[0]
        signatures.check_chain(first, ca_dir)
    except InputError as error:
        raise MessageRejected(str(error)) from error
    signer = slash_dn(first.subject)
    if allowed_dns is not None and signer not in allowed_dns:
        raise MessageRejected(f"Signer not in valid DNs list: {signer}")
    return VerifiedMessage(_body(signed.content.decode("ascii")), signer)


def _decrypted(message: bytes, credential: Credential | None) -> bytes:
    _check_ascii(message)
    if b"application/pkcs7-mime" not in message and b"application/x-pkcs7-mime" not in message:
        return message
    if credential is None:
        raise MessageRejected("taken for an encrypted message, which cannot be decrypted: the receiver has no key")
    try:
        opened = envelopes.decrypt(message, credential)
    except InputError as error:
        raise MessageRejected(f"taken for an encrypted message, which cannot be decrypted: {error}") from error
    _check_ascii(opened)
    return opened


def _check_ascii(message: bytes) -> None:
    try:
        message.decode("ascii")
    except UnicodeDecodeError as error:
        raise Crashed(f"a byte that is not ASCII, {message[error.start]:#04x}") from error


def _body(content: str) -> str:
    """What stands behind the first blank line, its lines ending in LF, trimmed at both ends."""
    header, blank, body = content.strip().replace("\r\n", "\n").partition("\n\n")
    if not blank:
        raise MessageRejected("No blank line between message header and body")
    if "quoted-printable" in header:
        body = quopri.decodestring(body.encode("ascii")).decode("utf-8")
    elif "base64" in header:
        raise Crashed("a base64 body, which its Python can no longer decode")
    # str.splitlines breaks at more than CR and LF: form feeds and their like become line ends too.
    return "\n".join(body.splitlines()).strip()
