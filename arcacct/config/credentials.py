"""
Check whether certificate, key and CA directory can be used: they exist, match and are valid, and no other user can read
the key.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from arcacct.config.options import ERROR, WARNING, Target
from arcacct.errors import CredentialError
from arcacct.files.safe_open import read_regular
from arcacct.times import DAY_S
from arcacct.wording import count_of

HASHED = re.compile(r"[0-9a-f]{8}\.\d+")
"""The name of a CA certificate in a directory of OpenSSL."""

_SHORT_NAMES = {NameOID.SURNAME: "SN", NameOID.SERIAL_NUMBER: "serialNumber", NameOID.STREET_ADDRESS: "street"}
_SHORT_NAMES |= {NameOID.TITLE: "title", NameOID.GIVEN_NAME: "GN", NameOID.EMAIL_ADDRESS: "emailAddress"}
_SHORT_NAMES |= {NameOID.UNSTRUCTURED_NAME: "unstructuredName"}
"""OpenSSL's, where RFC 4514 has another or none."""


class Finding(NamedTuple):
    """One problem of a file, and after a semicolon the solution."""

    severity: str
    text: str


def certificate_findings(cert: str, now: int, soon_s: int = 0) -> list[Finding]:
    """
    Return the problems of the host certificate at a time (UTC seconds); a warning if it ends within ``soon_s`` seconds.

    Less than a day of validity is an error: APEL checks a signature when it reads the message, which may be hours
    later, and drops it without an error (its own sender refuses to start with such a certificate).
    """
    found = _certificate(cert)
    if isinstance(found, Finding):
        return [found]
    start, end = int(found.not_valid_before_utc.timestamp()), int(found.not_valid_after_utc.timestamp())
    until = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if start > now:
        return [Finding(ERROR, f"{cert} is not valid yet; check the clock of this host")]
    if end <= now:
        return [Finding(ERROR, f"{cert} expired at {until}; install a new host certificate")]
    if end - now < DAY_S:
        return [Finding(ERROR, f"{cert} expires at {until}, within a day; install a new host certificate")]
    if end - now < soon_s:
        return [Finding(WARNING, f"{cert} expires at {until}; order a new host certificate")]
    return []


def pair_findings(target: Target) -> list[tuple[str, Finding]]:
    """
    Return the reasons why a run of a target would refuse certificate and key, and the other users who may read the key,
    each with its option.

    This is a trial with the OpenSSL of this host and the receiver's form of signature, not a list of ours. A
    certificate that cannot be read is left to `certificate_findings`.
    """
    shown = target.credentials()
    if shown is None:
        return []
    key, cert = shown.x509_host_key, shown.x509_host_cert
    data = _read(key)
    if isinstance(data, Finding):
        return [("x509_host_key", data)]
    found = []
    if stat.S_IMODE(os.stat(key).st_mode) & 0o077:
        text = f"{key} can be read by users other than its owner; chmod 600 {key}"
        found.append(("x509_host_key", Finding(WARNING, text)))
    if not isinstance(_certificate(cert), Finding):
        try:
            target.check_credentials()
        except CredentialError as error:
            about_cert = str(error).startswith(f"{cert}: ")
            found.append(("x509_host_cert" if about_cert else "x509_host_key", Finding(ERROR, str(error))))
    return found


def slash_dn(name: x509.Name) -> str:
    """
    Return a name in certificate order, as ``/TYPE=value`` with OpenSSL's short names and unchanged letters.

    SSM compares this form with its allow-list (apel 2.2).
    """
    return "".join(f"/{_SHORT_NAMES.get(part.oid, part.rfc4514_attribute_name)}={part.value!s}" for part in name)


def ca_directory_findings(directory: str, now: int) -> list[Finding]:
    """
    Whether OpenSSL finds any CA certificate there that is valid at a time (UTC seconds).

    It looks for names that are hashes, and ignores all others.
    """
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        return [Finding(ERROR, f"{directory} cannot be read: {error.strerror}; install the CA certificates there")]
    ends = {name: _end_of(os.path.join(directory, name)) for name in names if HASHED.fullmatch(name)}
    if not ends:
        some = any(name.endswith((".pem", ".crt")) for name in names)
        todo = f"run openssl rehash {directory}" if some else "fill it"
        return [Finding(ERROR, f"{directory} has no CA certificate under a hashed name; {todo}")]
    if all(end_s is not None and end_s < now for end_s in ends.values()):
        return [Finding(ERROR, f"{directory}: all CA certificates there have expired; install new ones")]
    unusable = [name for name, end_s in ends.items() if end_s is None]
    if not unusable:
        return []
    text = f"{len(unusable)} of {count_of(len(ends), 'CA certificate')} cannot be read: {unusable[0]}"
    more = ", ..." if len(unusable) > 1 else ""
    severity = WARNING if len(unusable) < len(ends) else ERROR
    return [Finding(severity, f"{directory}: {text}{more}; install it again, or remove broken links")]


def _end_of(path: str) -> float | None:
    """Until when a certificate is valid, UTC seconds; ``None``: it cannot be read."""
    found = _certificate(path)
    return None if isinstance(found, Finding) else found.not_valid_after_utc.timestamp()


def ca_file_findings(path: str) -> list[Finding]:
    """Whether the file has CA certificates."""
    found = _certificate(path)
    return [found] if isinstance(found, Finding) else []


def _certificate(path: str) -> x509.Certificate | Finding:
    data = _read(path)
    if isinstance(data, Finding):
        return data
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        return Finding(ERROR, f"{path} contains no certificate in PEM form; set the file of the certificate")


def _read(path: str) -> bytes | Finding:
    try:
        return read_regular(path)
    except OSError as error:
        return Finding(ERROR, f"{path} cannot be read: {error.strerror}; use a file that this user may read")
