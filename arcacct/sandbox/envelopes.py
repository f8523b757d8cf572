"""
Encrypted messages, taken apart as OpenSSL's ``smime -decrypt`` does it, without OpenSSL's program.

As much of CMS (RFC 5652 section 6) as SSM writes: an AES key in CBC mode, encrypted to the receiver's RSA key.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from arcacct.errors import InputError
from arcacct.sandbox import der
from arcacct.sandbox.authority import Credential, issuer_and_serial

_ENVELOPED_DATA = "1.2.840.113549.1.7.3"
_AES_CBC = {f"2.16.840.1.101.3.4.1.{arc}": bits for arc, bits in ((2, 128), (22, 192), (42, 256))}
_BLOCK_BITS = 128


class _Envelope(NamedTuple):
    """EnvelopedData, taken apart."""

    keys: dict[bytes, bytes]
    """The encrypted key for each recipient, by the issuer and serial number of his certificate."""
    cipher: str
    iv: bytes
    content: bytes


def decrypt(message: bytes, credential: Credential) -> bytes:
    """
    What an encrypted message (application/pkcs7-mime) to this certificate holds; its own header is not part of it.

    InputError says what is wrong: no such message, another recipient, another cipher.
    """
    try:
        envelope = _take_apart(base64.b64decode(re.split(rb"\r?\n\r?\n", message, maxsplit=1)[1]))
        encrypted_key = envelope.keys[issuer_and_serial(credential.certificate)]
    except (ValueError, IndexError, StopIteration) as error:
        raise InputError(f"the envelope cannot be read: {error}") from error
    except KeyError:
        raise InputError(f"not encrypted to {credential.dn}") from None
    if envelope.cipher not in _AES_CBC:
        raise InputError(f"the cipher {envelope.cipher} is not AES in CBC mode")
    try:
        return _opened(envelope, _private_key(credential).decrypt(encrypted_key, padding.PKCS1v15()))
    except ValueError as error:
        raise InputError(f"the key does not fit: {error}") from error


def _take_apart(encoded: bytes) -> _Envelope:
    """Recipients and content of EnvelopedData (RFC 5652 section 6.1)."""
    parts = der.content_info(encoded, _ENVELOPED_DATA, "enveloped data")
    recipients = next(part for part in parts if part.tag == der.SET)
    _kind, algorithm, content = der.items(next(part for part in parts if part.tag == der.SEQUENCE).content)
    cipher, iv = der.items(algorithm.content)
    # KeyTransRecipientInfo: version, who, algorithm, and the key for him.
    keys = (tuple(der.items(one.content)) for one in der.items(recipients.content))
    return _Envelope(
        {identity.content: key.content for _version, identity, _algorithm, key in keys},
        der.oid(cipher.content),
        iv.content,
        content.content,
    )


def _opened(envelope: _Envelope, key: bytes) -> bytes:
    if len(key) * 8 != _AES_CBC[envelope.cipher]:
        raise ValueError(f"{len(key) * 8} bits")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(envelope.iv)).decryptor()
    unpadder = PKCS7(_BLOCK_BITS).unpadder()
    padded = decryptor.update(envelope.content) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _private_key(credential: Credential) -> rsa.RSAPrivateKey:
    with open(credential.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InputError(f"{credential.key_path}: only RSA keys open envelopes")
    return key
