"""
Encrypted messages, taken apart as OpenSSL's ``smime -decrypt`` does it, without OpenSSL's program.

As much of CMS (RFC 5652 section 6) as SSM writes: an AES key in CBC mode, encrypted to the receiver's RSA key.
"""

from __future__ import annotations

import base64
import re

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


def decrypt(message: bytes, credential: Credential) -> bytes:
    """
    What an encrypted message (application/pkcs7-mime) to this certificate holds; its own header is not part of it.

    InputError says what is wrong: no such message, another recipient, another cipher.
    """
    try:
        encoded = base64.b64decode(re.split(rb"\r?\n\r?\n", message, maxsplit=1)[1])
        # Recipients and content of EnvelopedData (RFC 5652 section 6.1).
        parts = der.content_info(encoded, _ENVELOPED_DATA, "enveloped data")
        recipients = next(part for part in parts if part.tag == der.SET)
        _kind, algorithm, content = der.items(next(part for part in parts if part.tag == der.SEQUENCE).content)
        cipher, iv = der.items(algorithm.content)
        name = der.oid(cipher.content)
        # KeyTransRecipientInfo: version, who, algorithm, and the key for him.
        keys = (tuple(der.items(one.content)) for one in der.items(recipients.content))
        by_recipient = {identity.content: key.content for _version, identity, _algorithm, key in keys}
        encrypted_key = by_recipient[issuer_and_serial(credential.certificate)]
    except (ValueError, IndexError, StopIteration) as error:
        raise InputError(f"the envelope cannot be read: {error}") from error
    except KeyError:
        raise InputError(f"not encrypted to {credential.dn}") from None
    if name not in _AES_CBC:
        raise InputError(f"the cipher {name} is not AES in CBC mode")
    with open(credential.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise InputError(f"{credential.key_path}: only RSA keys open envelopes")
    try:
        return _opened(content.content, key.decrypt(encrypted_key, padding.PKCS1v15()), _AES_CBC[name], iv.content)
    except ValueError as error:
        raise InputError(f"the key does not fit: {error}") from error


def _opened(content: bytes, key: bytes, bits: int, iv: bytes) -> bytes:
    if len(key) * 8 != bits:
        raise ValueError(f"{len(key) * 8} bits")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).decryptor()
    unpadder = PKCS7(_BLOCK_BITS).unpadder()
    padded = decryptor.update(content) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()
