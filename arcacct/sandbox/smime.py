"""The Secure STOMP Messenger's steps between the messaging service and APEL: decrypt and verify S/MIME."""

from __future__ import annotations

import base64
import glob
import hashlib
import os
import quopri
import re
import time
from collections.abc import Container
from email.parser import BytesHeaderParser
from typing import Any, NamedTuple

from asn1crypto import cms, core
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from arcacct.config.credentials import slash_dn
from arcacct.errors import InputError
from arcacct.sandbox.authority import Credential, validity

# Decrypt messages like OpenSSL's ``smime -decrypt``, without OpenSSL's program. It handles the part of CMS (RFC 5652
# section 6) that SSM writes: an AES key in CBC mode, encrypted to the receiver's RSA key. (`cryptography` opens
# envelopes, too, but without AES-192, which SSM may use.)


_MALFORMED = (LookupError, TypeError, ValueError, x509.InvalidVersion)
"""Errors of asn1crypto and cryptography for bytes that are not such a message."""
_AES_CBC = {"aes128_cbc": 128, "aes192_cbc": 192, "aes256_cbc": 256}
_BLOCK_BITS = 128


def decrypt(message: bytes, credential: Credential) -> bytes:
    """
    Return the content of an encrypted message (application/pkcs7-mime) to this certificate, without its own header.

    Raises InputError with the reason: no such message, another recipient, another cipher.
    """
    try:
        encoded = base64.b64decode(re.split(rb"\r?\n\r?\n", message, maxsplit=1)[1])
        envelope = _content_of(encoded, "enveloped_data")
        content = envelope["encrypted_content_info"]
        name = content["content_encryption_algorithm"]["algorithm"].native
        iv = content["content_encryption_algorithm"]["parameters"].native
        encrypted = content["encrypted_content"].native
        recipients = [one.chosen for one in envelope["recipient_infos"]]
        keys = {_identity(one["rid"]): one["encrypted_key"].native for one in recipients}
    except _MALFORMED as error:
        raise InputError(f"the envelope cannot be read: {error}") from error
    encrypted_key = keys.get((credential.certificate.issuer.public_bytes(), credential.certificate.serial_number))
    if encrypted_key is None:
        raise InputError(f"not encrypted to {credential.dn}")
    if name not in _AES_CBC:
        raise InputError(f"the cipher {name} is not AES in CBC mode")
    with open(credential.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InputError(f"{credential.key_path}: only RSA keys open envelopes")
    try:
        return _opened(encrypted, key.decrypt(encrypted_key, padding.PKCS1v15()), _AES_CBC[name], iv)
    except _MALFORMED as error:
        raise InputError(f"the key does not fit: {error}") from error


def _opened(content: bytes, key: bytes, bits: int, iv: bytes) -> bytes:
    if len(key) * 8 != bits:
        raise ValueError(f"{len(key) * 8} bits")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).decryptor()
    unpadder = PKCS7(_BLOCK_BITS).unpadder()
    padded = decryptor.update(content) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _content_of(encoded: bytes, kind: str) -> Any:
    """The content of a CMS message (RFC 5652 section 3) of a kind; ValueError if it is another one."""
    info = cms.ContentInfo.load(encoded)
    if info["content_type"].native != kind:
        raise ValueError(f"not {kind.replace('_', ' ')}")
    return info["content"]


def _identity(of: Any) -> tuple[bytes, int]:
    """Issuer, in DER, and serial number, by which CMS names a certificate; empty if it names a key."""
    if of.name != "issuer_and_serial_number":
        return b"", 0
    return of.chosen["issuer"].dump(), of.chosen["serial_number"].native


# Check S/MIME signatures like OpenSSL's ``smime -verify``, without OpenSSL's program.  `cryptography` writes signed
# messages but does not check them, and a rehearsal must run with Python alone. asn1crypto reads the detached CMS
# signature (RFC 5652), so the check shares no code with the signer.


_HASHES: dict[str, hashes.HashAlgorithm] = {
    "sha1": hashes.SHA1(),  # noqa: S303  OpenSSL still takes it
    "sha224": hashes.SHA224(),
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}


class Signed(NamedTuple):
    """A message whose signature is good."""

    content: bytes
    """The signed part with its own header, lines ending in CRLF."""
    certificates: tuple[x509.Certificate, ...]
    """In the order of the message, including the signer's."""


def verify(message: bytes) -> Signed:
    """
    Check the signature of a clear-signed message (multipart/signed with a PKCS#7 part).

    Only the signature: `check_chain` checks whether its certificate can be trusted. Raises InputError with the reason:
    no such message, no certificate in it, another digest, a signature that does not fit.
    """
    content, encoded = _split(message)
    try:
        signed = _content_of(base64.b64decode(encoded), "signed_data")
        signers = list(signed["signer_infos"])
        found = [one.chosen.dump() for one in signed["certificates"] or () if one.name == "certificate"]
        certificates = tuple(map(x509.load_der_x509_certificate, found))
    except _MALFORMED as error:
        raise InputError(f"the signature cannot be read: {error}") from error
    if not certificates:
        raise InputError("the signature has no certificate")
    if not signers:
        raise InputError("the signature has no signer")
    for signer in signers:
        try:
            _check(signer, certificates, content)
        except _MALFORMED as error:
            raise InputError(f"the signature cannot be read: {error}") from error
    return Signed(content, certificates)


def check_chain(certificate: x509.Certificate, ca_dir: str, now: int | None = None) -> None:
    """
    Follow a certificate's issuers through a hashed CA directory up to a self-signed one; InputError if that fails.

    As ``openssl verify -CApath``: intermediate authorities must be in the directory too.
    """
    at = int(time.time()) if now is None else now
    authorities = []
    for path in sorted(glob.glob(os.path.join(glob.escape(ca_dir), "*.[0-9]"))):
        with open(path, "rb") as file:
            authorities.append(x509.load_pem_x509_certificate(file.read()))
    for _ in range(10):
        begin, end = validity(certificate)
        if not begin <= at <= end:
            raise InputError(f"{certificate.subject.rfc4514_string()} is {'expired' if at > end else 'not yet valid'}")
        issuer = next((ca for ca in authorities if _issued(ca, certificate)), None)
        if issuer is None:
            raise InputError(f"Unverified signer: the issuer of {certificate.subject.rfc4514_string()} is not trusted")
        if issuer == certificate:
            return
        certificate = issuer
    raise InputError("the chain of issuers has no end")


def _split(message: bytes) -> tuple[bytes, bytes]:
    """The signed part in canonical form, and the base64 of the signature part."""
    header = BytesHeaderParser().parsebytes(re.split(rb"\r?\n\r?\n", message, maxsplit=1)[0] + b"\n\n")
    boundary = header.get_boundary()
    if header.get_content_type() != "multipart/signed" or boundary is None:
        raise InputError("not a clear-signed message (multipart/signed)")
    delimiter = re.compile(rb"(?:^|\r?\n)--" + re.escape(boundary.encode()) + rb"(?:--)?[ \t]*(?:\r?\n|$)")
    parts = delimiter.split(message)
    if len(parts) < 3:
        raise InputError("the message does not have two parts")
    signature_header, _, encoded = parts[2].replace(b"\r\n", b"\n").partition(b"\n\n")
    if b"pkcs7-signature" not in signature_header:
        raise InputError("the second part is no PKCS#7 signature")
    if re.search(rb"\r(?!\n)", parts[1]):
        raise InputError("signature failure: a bare carriage return does not survive the way")
    return re.sub(rb"\r?\n", b"\r\n", parts[1]), encoded


def _check(signer: Any, certificates: tuple[x509.Certificate, ...], content: bytes) -> None:
    """Raise InputError unless a SignerInfo's signature is good."""
    identity, digest = _identity(signer["sid"]), signer["digest_algorithm"]["algorithm"]
    certificate = next(
        (one for one in certificates if (one.issuer.public_bytes(), one.serial_number) == identity), None
    )
    if certificate is None:
        raise InputError("the signer's certificate is not in the message")
    if digest.native not in _HASHES:
        raise InputError(f"signature failure: the digest {digest.dotted} is neither SHA-1 nor one of SHA-2")
    algorithm = _HASHES[digest.native]
    signed = content
    attributes = signer["signed_attrs"]
    if not isinstance(attributes, core.Void):
        digests = (one["values"][0].native for one in attributes if one["type"].native == "message_digest")
        if next(digests, None) != hashlib.new(algorithm.name, content).digest():
            raise InputError("signature failure: the content is not what was signed (digest)")
        # The signature is of the SET itself, not of its context tag in the message (RFC 5652 section 5.4).
        signed = attributes.untag().dump()
    signature = signer["signature"].native
    try:
        key = certificate.public_key()
        if isinstance(key, rsa.RSAPublicKey) and signer["signature_algorithm"]["algorithm"].native != "rsassa_pss":
            key.verify(signature, signed, padding.PKCS1v15(), algorithm)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, signed, ec.ECDSA(algorithm))
        else:
            raise InputError("signature failure: neither RSA (PKCS #1 v1.5) nor ECDSA")
    except (InvalidSignature, UnsupportedAlgorithm) as error:
        raise InputError("signature failure: the signature does not fit") from error


def _issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


# The Secure STOMP Messenger's steps between the messaging service and APEL (apel 2.2).  A message ends in one of three
# ways: its text goes to the loader, it is rejected, or the daemon crashes. Then it stays unacknowledged, so it comes
# back, and no later message arrives.


class MessageRejected(Exception):
    """The message goes to the reject queue; the sender never learns this."""


class Crashed(Exception):
    """The receiver crashes, and crashes again each time it is started."""


class VerifiedMessage(NamedTuple):
    """A message's text, and the DN of its signer."""

    text: str
    signer: str


def accept(
    message: bytes, ca_dir: str, allowed_dns: Container[str] | None, credential: Credential | None = None
) -> VerifiedMessage:
    """
    Unwrap a signed message; `allowed_dns` are slash DNs, compared exactly (None: every certificate of the CAs).

    An encrypted message is first decrypted with `credential`. Raises MessageRejected or Crashed.
    """
    try:
        signed = verify(_decrypted(message, credential))
        # If there are several certificates, the first one counts as the signer's, right or wrong.
        first = signed.certificates[0]
        check_chain(first, ca_dir)
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
        opened = decrypt(message, credential)
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
    """The text after the first blank line, with LF line ends, trimmed at both ends."""
    header, blank, body = content.strip().replace("\r\n", "\n").partition("\n\n")
    if not blank:
        raise MessageRejected("No blank line between message header and body")
    if "quoted-printable" in header:
        body = quopri.decodestring(body.encode("ascii")).decode("utf-8")
    elif "base64" in header:
        raise Crashed("a base64 body, which its Python can no longer decode")
    # str.splitlines also breaks at form feeds and similar characters: these become line ends too.
    return "\n".join(body.splitlines()).strip()
