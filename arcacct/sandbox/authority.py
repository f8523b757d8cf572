"""A certificate authority made on the spot, worth nothing outside this machine, and the DER that it needs."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from arcacct.config.credentials import slash_dn
from arcacct.errors import ConfigError
from arcacct.files.safe_open import open_directory, open_parent

# As much of DER as certificates' names and S/MIME messages need: tag, length, value.
#
# `cryptography` signs messages and encrypts them, but verifies no signature, and opens no envelope before its version
# 44; OpenSSL's program need not be there. Only definite lengths and one-byte tags: all that DER has here.


INTEGER = 0x02
OCTET_STRING = 0x04
OID = 0x06
UTF8_STRING = 0x0C
SEQUENCE = 0x30
SET = 0x31
CONTEXT_0 = 0xA0


class Item(NamedTuple):
    """One element: its tag, what it holds, and all its bytes with tag and length."""

    tag: int
    content: bytes
    whole: bytes


def items(data: bytes) -> Iterator[Item]:
    """
    The elements that follow each other in `data`.

    ValueError if the bytes end inside one, or a length is indefinite (BER, which DER forbids).
    """
    position = 0
    while position < len(data):
        if position + 1 >= len(data):
            raise ValueError("an element without a length")
        begin, size = position + 2, data[position + 1]
        if size >= 0x80:
            digits = size & 0x7F
            begin, size = begin + digits, int.from_bytes(data[begin : begin + digits], "big")
            if digits == 0 or begin > len(data):
                raise ValueError("an indefinite or broken length")
        end = begin + size
        if end > len(data):
            raise ValueError(f"an element at byte {position} needs {end - len(data)} bytes more than there are")
        yield Item(data[position], data[begin:end], data[position:end])
        position = end


def item(data: bytes, tag: int) -> Item:
    """The first element of `data`, which must have this tag; else ValueError."""
    first = next(items(data), None)
    if first is None or first.tag != tag:
        raise ValueError(
            f"expected an element with tag {tag:#04x}, found {'none' if first is None else hex(first.tag)}"
        )
    return first


def content_info(encoded: bytes, kind: str, words: str) -> list[Item]:
    """The parts of a message of CMS (RFC 5652 section 3); ValueError if it is not of this kind, in `words`."""
    found, wrapped = items(item(encoded, SEQUENCE).content)
    if oid(found.content) != kind:
        raise ValueError(f"not {words}")
    return list(items(item(wrapped.content, SEQUENCE).content))


def encode(tag: int, content: bytes) -> bytes:
    """An element of this tag."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(digits))) + digits + content


def oid(content: bytes) -> str:
    """The dotted form of an object identifier's content."""
    arcs: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2) if arcs else 0
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:]))) if arcs else ""


# A certificate authority made on the spot, worth nothing outside the machine that made it.
#
# It writes what a computing element has: a CA directory hashed as OpenSSL wants it, and host certificates with their
# keys. Its own key never leaves memory, so what it signed cannot be added to later.


DAY_S = 86_400
LOOPBACK = ("localhost", "127.0.0.1", "::1")

_BACKDATED_S = 3600
"""Certificates begin an hour ago: the other end's clock may be a little late."""


class Credential(NamedTuple):
    """A certificate with its private key, as two PEM files."""

    cert_path: str
    key_path: str

    @property
    def dn(self) -> str:
        """The subject as the slash line of an allow-list, e.g. ``/O=Sandbox/CN=ce.example.org``."""
        return slash_dn(self.certificate.subject)

    @property
    def subject(self) -> str:
        """The subject as nginx hands it to SGAS (RFC 2253), e.g. ``CN=ce.example.org,O=Sandbox``."""
        return self.certificate.subject.rfc4514_string()

    @property
    def certificate(self) -> x509.Certificate:
        """The certificate, read from its file."""
        with open(self.cert_path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read())


class Authority:
    """A throw-away CA: its certificate in `ca_file` and, hashed, in `ca_dir`; it issues host certificates."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.ca_file = os.path.join(directory, "ca.pem")
        self.ca_dir = os.path.join(directory, "certificates")
        self._key = ec.generate_private_key(ec.SECP256R1())
        now = int(time.time())
        self.certificate = _certificate(
            _subject(name), _subject(name), self._key, self._key, (now - _BACKDATED_S, now + 365 * DAY_S)
        )
        _make(self.ca_dir)
        pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        _write(self.ca_file, pem)
        _write(os.path.join(self.ca_dir, f"{subject_hash(self.certificate.subject)}.0"), pem)

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = (),
        not_before: int | None = None,
        not_after: int | None = None,
        directory: str | None = None,
        stem: str = "host",
        rsa_key: bool = True,
    ) -> Credential:
        """
        Make a certificate for servers and clients with the common name `name`.

        `hosts` are the names and addresses it is good for (subjectAltName; none: `name` and the loopback ones).
        `not_before` and `not_after` are UTC seconds (none: an hour ago, and thirty days ahead), so an expired
        certificate or one of tomorrow can be had. Written to ``<stem>cert.pem`` and ``<stem>key.pem``, for this user
        alone, in `directory` (none: the authority's own). Without `rsa_key` the key is EC P-256, which is
        made in no time.
        """
        now = int(time.time())
        key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        begin = now - _BACKDATED_S if not_before is None else not_before
        end = now + 30 * DAY_S if not_after is None else not_after
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = _certificate(
            _subject(name),
            self.certificate.subject,
            key,
            self._key,
            (begin, end),
            x509.ExtendedKeyUsage(purposes),
            x509.SubjectAlternativeName([_general_name(host) for host in tuple(hosts) or (name, *LOOPBACK)]),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        )
        where = self.directory if directory is None else directory
        _make(where)
        credential = Credential(os.path.join(where, f"{stem}cert.pem"), os.path.join(where, f"{stem}key.pem"))
        _write(credential.cert_path, certificate.public_bytes(serialization.Encoding.PEM))
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        _write(credential.key_path, key.private_bytes(pem, form, serialization.NoEncryption()))
        return credential


def create(directory: str, *, name: str = "arcacct sandbox CA") -> Authority:
    """
    Make an authority in `directory`; one that was there before is replaced.

    Raises ConfigError for a directory of another user, who could exchange keys and certificates.
    """
    _make(directory)
    return Authority(directory, name)


def subject_hash(name: x509.Name) -> str:
    """
    The eight hexadecimal digits by which OpenSSL (since 1.0.0) looks for a CA's file in a directory.

    SHA-1 over the canonical name: each value as a UTF-8 string, trimmed, blanks collapsed, ASCII letters lowered,
    without the outer SEQUENCE; the digest's first four bytes, least significant first (x509_cmp.c).
    """
    canonical = b"".join(
        encode(SET, b"".join(_canonical_attribute(attribute) for attribute in rdn)) for rdn in name.rdns
    )
    digest = hashlib.sha1(canonical, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def validity(certificate: x509.Certificate) -> tuple[int, int]:
    """First and last second (UTC) at which a certificate is good."""
    return int(certificate.not_valid_before_utc.timestamp()), int(certificate.not_valid_after_utc.timestamp())


def issuer_and_serial(certificate: x509.Certificate) -> bytes:
    """How CMS names a certificate: its issuer and its serial number, in DER."""
    serial = certificate.serial_number
    number = serial.to_bytes(serial.bit_length() // 8 + 1, "big")
    return certificate.issuer.public_bytes() + encode(INTEGER, number)


def _canonical_attribute(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    text = " ".join(str(attribute.value).split())
    # OpenSSL lowers ASCII only; other letters stay as they are.
    lowered = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in text.encode())
    (rdn,) = items(item(x509.Name([attribute]).public_bytes(), SEQUENCE).content)
    kind, _value = items(item(rdn.content, SEQUENCE).content)
    return encode(SEQUENCE, kind.whole + encode(UTF8_STRING, lowered))


def _subject(common_name: str) -> x509.Name:
    organisation = x509.Name.from_rfc4514_string("O=Sandbox,DC=example,DC=org")
    return x509.Name([*organisation, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    signing_key: ec.EllipticCurvePrivateKey,
    good: tuple[int, int],
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    """A certificate for `key`, good from the first to the last second (UTC); who signs its own is an authority."""
    is_authority = key is signing_key
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=not is_authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(dt.datetime.fromtimestamp(good[0], dt.UTC))
        .not_valid_after(dt.datetime.fromtimestamp(good[1], dt.UTC))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signing_key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _make(directory: str) -> None:
    with open_directory(directory, make=0o700) as found:
        owner = found.status.st_uid
    if owner not in (0, os.geteuid()):
        raise ConfigError(f"{directory} belongs to user {owner}; choose a directory of your own")


def _write(path: str, content: bytes) -> None:
    folder, name = open_parent(path)
    with folder:
        folder.replace(name, content)
