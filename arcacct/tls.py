"""TLS as grids use it: the certificate of the host, and the trusted authorities."""

from __future__ import annotations

import os
import re
import ssl
from contextlib import suppress

from arcacct.errors import ArcacctError, ConfigError, CredentialError
from arcacct.files.safe_open import read_regular

_TOO_WEAK = {
    "EE_KEY_TOO_SMALL": "its key is too small",
    "CA_KEY_TOO_SMALL": "a key in its chain is too small",
    "CA_MD_TOO_WEAK": "it or its chain is signed with a weak hash",
}
"""What OpenSSL's security level refuses in a certificate, by OpenSSL's reason."""
_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")
"""The name that OpenSSL looks for in a directory of CAs."""
_BUILT_IN = ssl.get_default_verify_paths()
SYSTEM_FILES = (
    _BUILT_IN.openssl_cafile,
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""
The possible files of the operating system's CAs: where this OpenSSL looks, then the places in Debian, EL, SUSE and
Alpine, since an OpenSSL that comes with Python may look elsewhere.
"""
SYSTEM_DIRECTORIES = (_BUILT_IN.openssl_capath, "/etc/ssl/certs", "/etc/pki/tls/certs")
"""The same for their directory, with hashed names."""


def tls_context(
    cert_path: str | None,
    key_path: str | None,
    *,
    ca_dir: str | None = None,
    ca_file: str | None = None,
    system_store: bool = False,
) -> ssl.SSLContext:
    """
    Return the TLS settings: the host certificate with its chain, and CAs from up to three places.

    TLS 1.2 or newer; the host must be among the alternative names of its certificate (RFC 9525: a common name does not
    count). AMS has a certificate of a public web CA, which a grid's CA directory may lack: `system_store` is for it. A
    CA directory without OpenSSL's hashed names is read file by file. Raises CredentialError for certificate and key,
    ConfigError for places of CAs.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    if cert_path is not None:
        load_credential(context, cert_path, key_path or cert_path)
    if ca_dir is not None:
        _trust_directory(context, ca_dir)
    if ca_file is not None:
        _trust_file(context, ca_file)
    if system_store:
        _trust_system(context)
    if ca_dir is None and ca_file is None and not system_store:
        raise ConfigError("no certificate authority is trusted: set x509_cert_dir")
    return context


def load_credential(context: ssl.SSLContext, cert_path: str, key_path: str) -> None:
    """
    Make a context use a certificate with its chain, both files PEM.

    Raises CredentialError, with the path first, if this host's OpenSSL refuses it.
    """

    def never() -> str:
        # Without this OpenSSL would ask on the terminal, or block without one.
        raise CredentialError(f"{key_path}: the key is encrypted; a service needs it without a passphrase")

    for path in (cert_path, key_path):
        _check_readable(path, CredentialError)
    try:
        context.load_cert_chain(cert_path, key_path, password=never)
    except ssl.SSLError as exc:
        raise CredentialError(_refusal(exc.reason, context.security_level, cert_path, key_path)) from exc


def _refusal(reason: str | None, security_level: int, cert_path: str, key_path: str) -> str:
    """What OpenSSL refused and what to do; ``reason`` is OpenSSL's, ``None`` where it found no PEM."""
    if reason in _TOO_WEAK:
        return (
            f"{cert_path}: OpenSSL refuses this certificate at its security level {security_level}: "
            f"{_TOO_WEAK[reason]} ({_strengths(cert_path)}); ask for one with RSA of 2048 bits or more, or EC P-256, "
            "signed with SHA-256"
        )
    # The second is OpenSSL's word for a key of another kind than the certificate's.
    if reason in {"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED", "KEY_TYPE_MISMATCH"}:
        return f"{key_path}: this is not the key of the certificate {cert_path}; name a matching pair"
    for path, mark, what in ((cert_path, b"CERTIFICATE-----", "certificate"), (key_path, b"KEY-----", "private key")):
        if mark not in read_regular(path):
            return f"{path}: no {what} in PEM form; name the file of the host's"
    why = "" if reason is None else f" (OpenSSL: {reason.lower().replace('_', ' ')})"
    return f"{cert_path}, {key_path}: not a certificate and its key in PEM form{why}; name the files of both"


def _strengths(cert_path: str) -> str:
    """Key and hash of each certificate of a file, the host's first: ``RSA 1024 bits with sha1, RSA 2048 bits ...``."""
    from cryptography import x509  # noqa: PLC0415  slow to import, and needed for this error only
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415

    found = []
    try:
        for certificate in x509.load_pem_x509_certificates(read_regular(cert_path)):
            key, signed_with = certificate.public_key(), certificate.signature_hash_algorithm
            kind = type(key).__name__.removesuffix("PublicKey")
            size = f" {key.key_size} bits" if hasattr(key, "key_size") else ""
            found.append(f"{kind}{size}" + (f" with {signed_with.name}" if signed_with is not None else ""))
    except (OSError, ValueError, UnsupportedAlgorithm):
        found.append("a key or signature that cannot be read")
    return ", ".join(found)


def _trust_directory(context: ssl.SSLContext, path: str) -> None:
    try:
        names = sorted(os.listdir(path))
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read ({exc.strerror}); set x509_cert_dir to the CA directory") from exc
    if any(map(_HASHED.fullmatch, names)):
        # OpenSSL opens what it needs when it needs it.
        context.load_verify_locations(capath=path)
        return
    found = [os.path.join(path, name) for name in names if name.endswith((".pem", ".crt", ".0"))]
    if not found:
        raise ConfigError(f"{path}: no CA certificates there; set x509_cert_dir to the CA directory")
    for file in found:
        _trust_file(context, file)


def system_authorities() -> tuple[str | None, str | None]:
    """
    Return the file and the directory of the operating system's CAs; ``None``: there is none.

    OpenSSL's own search would use SSL_CERT_FILE and SSL_CERT_DIR: the environment would decide who gets our records.
    """
    return (next(filter(os.path.isfile, SYSTEM_FILES), None), next(filter(_has_hashed_names, SYSTEM_DIRECTORIES), None))


def _has_hashed_names(directory: str) -> bool:
    try:
        return any(map(_HASHED.fullmatch, os.listdir(directory)))
    except OSError:
        return False


def _trust_system(context: ssl.SSLContext) -> None:
    """
    The system's CAs, from its file and its directory.

    If the file is in the directory (Debian makes both together) and has as many CAs, the directory is enough:
    OpenSSL opens only the CAs it needs, instead of reading 140 to use one.
    """
    file, directory = system_authorities()
    if directory is not None:
        context.load_verify_locations(capath=directory)
    if file is not None and (directory is None or not _is_all_of(directory, file)):
        # The site's own CAs may suffice without it.
        with suppress(ConfigError):
            _trust_file(context, file)


def _is_all_of(directory: str, path: str) -> bool:
    if os.path.dirname(os.path.realpath(path)) != os.path.realpath(directory):
        return False
    try:
        in_file = read_regular(path).count(b"-----BEGIN CERTIFICATE-----")
        hashed = filter(_HASHED.fullmatch, os.listdir(directory))
        return in_file == sum(os.path.isfile(os.path.join(directory, name)) for name in hashed)
    except OSError:
        return False


def _trust_file(context: ssl.SSLContext, path: str) -> None:
    _check_readable(path, ConfigError)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as exc:
        raise ConfigError(f"{path}: no CA certificates in PEM form") from exc


def _check_readable(path: str, error: type[ArcacctError]) -> None:
    # Before OpenSSL opens it: that would wait for the writer of a pipe.
    try:
        read_regular(path)
    except OSError as exc:
        raise error(f"{path}: cannot be read ({exc.strerror}); correct the path, or run as the file's owner") from exc
