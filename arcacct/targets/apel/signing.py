"""
Signed messages as SSM wants them, and the host certificate that signs.

The form is that of ``openssl smime -sign -text``: multipart/signed, the text in clear, a detached PKCS#7 signature
with SHA-256 and PKCS#1 v1.5 (or ECDSA), and in it the signer's certificate alone. With an issuer's certificate
beside it SSM takes the first one it finds as the signer, often the issuer.
"""

from __future__ import annotations

import base64
import secrets
import time

from cryptography import x509
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import PublicKeyAlgorithmOID

from arcacct.errors import CredentialError
from arcacct.targets.apel.text import ssm_text

_UTC = "%Y-%m-%dT%H:%M:%SZ"
MIN_LIFETIME_S = 86_400
"""SSM refuses to start with a certificate that has less left; messages signed with it are rejected unseen."""


class Signer:
    """Signs messages with one host certificate, read and checked once."""

    def __init__(self, cert_path: str, key_path: str) -> None:
        """
        Read a certificate (the first of the file, if it holds a chain) and its key, both PEM.

        Raises CredentialError as `signing_pair` does, and if the certificate is not valid from now until a day later.
        """
        self._certificate, self._key = signing_pair(cert_path, key_path)
        _check_lifetime(cert_path, self._certificate)

    def signed(self, message: bytes) -> bool:
        """Whether a message of `sign` carries this certificate: the receiver takes no other one's for ours."""
        encoded = message.rpartition(b'filename="smime.p7s"\r\n\r\n')[2].partition(b"--")[0]
        certificates = pkcs7.load_der_pkcs7_certificates(base64.b64decode(encoded))
        return certificates == [self._certificate]

    def sign(self, text: str) -> bytes:
        """
        The S/MIME message of a text; InputError if SSM could not carry the text.

        Two signatures of one text differ (time, boundary): keep the digest of the text to recognise it.
        """
        # What is signed is the whole first part, in MIME's line ends. `cryptography` makes the same of the options
        # DetachedSignature and Text, but runs it through the email package: 30 ms a megabyte instead of 1.4.
        part = b"Content-Type: text/plain\r\n\r\n" + ssm_text(text).replace(b"\n", b"\r\n")
        # Detached, with SHA-256, and never RSA-PSS (SSM rejects it).
        signature = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(part)
            .add_signer(self._certificate, self._key, hashes.SHA256())
            .sign(serialization.Encoding.DER, [pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary])
        )
        # RFC 8551 multipart/signed. Messages hold no such line: it would need 128 random bits of luck.
        boundary = b"----" + secrets.token_hex(16).upper().encode()
        return b"\r\n".join(
            (
                b"MIME-Version: 1.0",
                b'Content-Type: multipart/signed; protocol="application/x-pkcs7-signature"; micalg="sha-256"; '
                b'boundary="' + boundary + b'"',
                b"",
                b"This is an S/MIME signed message",
                b"",
                b"--" + boundary,
                part,
                b"--" + boundary,
                b'Content-Type: application/x-pkcs7-signature; name="smime.p7s"',
                b"Content-Transfer-Encoding: base64",
                b'Content-Disposition: attachment; filename="smime.p7s"',
                b"",
                base64.encodebytes(signature).replace(b"\n", b"\r\n"),
                b"--" + boundary + b"--",
                b"",
            )
        )


def signing_pair(
    cert_path: str, key_path: str
) -> tuple[x509.Certificate, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]:
    """
    Certificate and key, both of PEM files, after a signature for trial; when they are valid is not looked at.

    Raises CredentialError, its text with the path first, if one is unreadable or encrypted, they do not match, or the
    key makes no signature that SSM takes (it is neither RSA nor EC, for RSA-PSS only, or damaged).
    """
    try:
        certificate = x509.load_pem_x509_certificate(_read(cert_path, "x509_host_cert"))
    except ValueError as exc:
        raise CredentialError(f"{cert_path}: no certificate in PEM form; set x509_host_cert to one") from exc
    data = _read(key_path, "x509_host_key")
    try:
        # Whether an RSA key is one takes 30 ms to find out by its numbers, and less than one by using it (below).
        key = serialization.load_pem_private_key(data, password=None, unsafe_skip_rsa_key_validation=True)
    except TypeError as exc:
        raise CredentialError(
            f"{key_path}: the key is encrypted; a service needs it in clear (openssl pkey -in ... -out ...)"
        ) from exc
    except (ValueError, UnsupportedAlgorithm) as exc:
        if b"PRIVATE KEY-----" in data:
            raise CredentialError(
                f"{key_path}: a key of a form that cannot sign messages; ask for a certificate with an RSA or EC key"
            ) from exc
        raise CredentialError(f"{key_path}: no private key in PEM form; set x509_host_key to one") from exc
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise CredentialError(
            f"{key_path}: the key is neither RSA nor EC, and APEL can check the signatures of no other; ask for a "
            "certificate with one of these"
        )
    if certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        # Such a key signs by RSA-PSS only, and SSM takes every RSA-PSS signature for a broken one.
        raise CredentialError(f"{cert_path}: its key is for RSA-PSS only; ask for a certificate with a plain RSA key")
    if key.public_key() != certificate.public_key():
        raise CredentialError(
            f"{key_path}: this is not the key of the certificate {cert_path}; set x509_host_key and x509_host_cert "
            "to files that belong together"
        )
    if isinstance(key, rsa.RSAPrivateKey) and not _signs(key):
        raise CredentialError(f"{key_path}: the key is damaged: what it signs is none of its signatures")
    return certificate, key


def _read(path: str, option: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as exc:
        raise CredentialError(f"{path}: cannot be read ({exc.strerror}); set {option}, or run as its owner") from exc


def _signs(key: rsa.RSAPrivateKey) -> bool:
    """Whether what a key signs is taken for its signature."""
    probe, form = b"arcacct", padding.PKCS1v15()
    try:
        key.public_key().verify(key.sign(probe, form, hashes.SHA256()), probe, form, hashes.SHA256())
    except (InvalidSignature, InternalError, ValueError):
        return False
    return True


def _check_lifetime(path: str, certificate: x509.Certificate) -> None:
    now_s = int(time.time())
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if begin.timestamp() > now_s:
        raise CredentialError(f"{path}: not valid before {begin:{_UTC}}; check the clock of this host")
    if end.timestamp() < now_s:
        raise CredentialError(f"{path}: expired {end:{_UTC}}; renew the host certificate")
    if end.timestamp() < now_s + MIN_LIFETIME_S:
        raise CredentialError(f"{path}: expires {end:{_UTC}}, within a day; renew the host certificate")


def signed_text(message: bytes) -> str:
    """The text of a message made by `Signer.sign`, in LF line ends, as SSM reads it."""
    boundary = message.partition(b'boundary="')[2].partition(b'"')[0]
    part = message.partition(b"--" + boundary + b"\r\n")[2].partition(b"\r\n--" + boundary)[0]
    return part.partition(b"\r\n\r\n")[2].replace(b"\r\n", b"\n").decode("ascii")
