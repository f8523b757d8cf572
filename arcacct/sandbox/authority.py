"""A temporary certificate authority, worth nothing outside this machine."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import time
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from asn1crypto import core
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from arcacct.config.credentials import slash_dn
from arcacct.errors import ConfigError
from arcacct.files.safe_open import open_directory, open_parent

# A temporary certificate authority, worth nothing outside this machine. It writes the files of a computing element: a
# CA directory hashed as OpenSSL wants it, and host certificates with their keys. Its own key never leaves memory, so it
# cannot sign anything later.


DAY_S = 86_400
LOOPBACK = ("localhost", "127.0.0.1", "::1")

_BACKDATED_S = 3600
"""Certificates start an hour ago: the other end's clock may be a little slow."""


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
    """A temporary CA: its certificate in `ca_file` and, hashed, in `ca_dir`; it issues host certificates."""

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

        `hosts` are its names and addresses (subjectAltName; none: `name` and the loopback ones). `not_before` and
        `not_after` are UTC seconds (none: an hour ago, and ninety days ahead), so it may be expired or not yet valid.
        It is written to ``<stem>cert.pem`` and ``<stem>key.pem``, for this user only, in `directory` (none: the
        authority's own). Without `rsa_key` the key is EC P-256, which takes no time.
        """
        now = int(time.time())
        key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        begin = now - _BACKDATED_S if not_before is None else not_before
        end = now + 90 * DAY_S if not_after is None else not_after
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
    Create an authority in `directory`, replacing an existing one.

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
        _Attributes([{"type": one.oid.dotted_string, "value": _canonical(str(one.value))} for one in rdn]).dump()
        for rdn in name.rdns
    )
    digest = hashlib.sha1(canonical, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def validity(certificate: x509.Certificate) -> tuple[int, int]:
    """First and last second (UTC) at which a certificate is good."""
    return int(certificate.not_valid_before_utc.timestamp()), int(certificate.not_valid_after_utc.timestamp())


class _Attribute(core.Sequence):  # type: ignore[misc]  # asn1crypto has no types
    _fields: ClassVar = [("type", core.ObjectIdentifier), ("value", core.UTF8String)]


class _Attributes(core.SetOf):  # type: ignore[misc]
    _child_spec = _Attribute


def _canonical(text: str) -> str:
    # OpenSSL lowers ASCII only; other letters stay as they are.
    return "".join(letter.lower() if letter.isascii() else letter for letter in " ".join(text.split()))


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
