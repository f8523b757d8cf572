"""What the host proves itself by, and whom it trusts: certificate, key, CAs."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from cryptography import x509

from arcacct.asking.doctor.verdict import CONF, DAY_S, ERROR, KEYS, OK, UNTOLD, WARNING, Site, Verdict, advised
from arcacct.config import credentials as config_credentials
from arcacct.config import options
from arcacct.config.credentials import Finding
from arcacct.config.options import TransportOptions, targets
from arcacct.targets import kinds
from arcacct.wording import count_of

SOON_S = 30 * DAY_S
"""A certificate that ends sooner is ordered now: some CAs take weeks."""
_CRL = re.compile(r"[0-9a-f]{8}\.r\d+")


def credentials(site: Site) -> Iterator[Verdict]:
    """Each file once, whichever targets name it."""
    named = [(one, way) for one in targets(site.conf, kinds(), None, []) if (way := one.credentials()) is not None]
    if not named:
        yield Verdict("certificate", UNTOLD, "no target needs one")
        return
    # What one kind of target takes another may refuse: only APEL has its messages signed.
    pairs: dict[tuple[str, str], dict[tuple[str, Finding], None]] = {}
    for target, way in named:
        found = pairs.setdefault((way.x509_host_cert, way.x509_host_key), {})
        found.update(dict.fromkeys(config_credentials.pair_findings(target)))
    for cert in dict.fromkeys(cert for cert, _ in pairs):
        about = [found for (other, _), found in pairs.items() if other == cert]
        refused = [finding for found in about for option, finding in found if option == "x509_host_cert"]
        yield from _certificate(cert, site.now, refused)
    for (cert, key), found in pairs.items():
        findings = [finding for option, finding in found if option == "x509_host_key"]
        if findings or not found:
            yield from _judged("key", findings, f"{key} is the key of {cert}, for its owner alone", KEYS)
    shown = [way for _, way in named]
    for directory in dict.fromkeys(way.x509_cert_dir for way in shown):
        yield from _authorities(directory, site.now)
    for path in dict.fromkeys(way.ca_file for way in shown if way.ca_file is not None):
        yield from _judged("CA file", config_credentials.ca_file_findings(path), path, CONF)
    yield from _system(shown)


def _judged(what: str, findings: Iterable[Finding], well: str, exit_code: int) -> Iterator[Verdict]:
    findings = list(findings)
    for one in findings:
        is_error = one.severity == options.ERROR
        yield advised(what, ERROR if is_error else WARNING, one.text, exit_code if is_error else 0)
    if not findings:
        yield Verdict(what, OK, well)


def _certificate(path: str, now: int, refused: Iterable[Finding]) -> Iterator[Verdict]:
    findings = [*config_credentials.certificate_findings(path, now), *dict.fromkeys(refused)]
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_certificate(file.read())
    except (OSError, ValueError):
        yield from _judged("certificate", findings, "", KEYS)
        return
    end = int(found.not_valid_after_utc.timestamp())
    until = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M UTC")
    left = count_of((end - now) // DAY_S, "day")
    if not findings and end - now < SOON_S:
        findings = [Finding(options.WARNING, f"{path} ends at {until}, in {left}; order the next one")]
    yield from _judged("certificate", findings, f"{path} is good until {until}, {left}", KEYS)
    # Both spellings: what one receiver has registered in the other's is refused.
    text = f"{config_credentials.slash_dn(found.subject)} at APEL (GOCDB), {found.subject.rfc4514_string()} at SGAS"
    yield Verdict("DN", OK, f"{text}: it has to be registered so, letter by letter")


def _authorities(directory: str, now: int) -> Iterator[Verdict]:
    findings = config_credentials.ca_directory_findings(directory)
    names = [] if findings else sorted(os.listdir(directory))
    hashed = [name for name in names if config_credentials.HASHED.fullmatch(name)]
    ended = [name for name in hashed if _ends_before(os.path.join(directory, name), now)]
    if hashed and len(ended) == len(hashed):
        findings = [Finding(options.ERROR, f"{directory}: every CA certificate there has expired; install today's")]
    yield from _judged("CA directory", findings, f"{directory} has {count_of(len(hashed), 'CA certificate')}", CONF)
    stale = [name for name in names if _CRL.fullmatch(name) and _is_stale(os.path.join(directory, name), now)]
    if stale:
        shown = ", ".join(stale[:3]) + (", ..." if len(stale) > 3 else "")
        yield Verdict(
            "CRLs",
            WARNING,
            f"{count_of(len(stale), 'list')} of revoked certificates in {directory} out of date ({shown}): A-REX "
            "refuses users because of that, arcacct does not use them",
            "run fetch-crl, and see that its timer does",
        )


def _ends_before(path: str, now: int) -> bool:
    try:
        with open(path, "rb") as file:
            return x509.load_pem_x509_certificate(file.read()).not_valid_after_utc.timestamp() < now
    except (OSError, ValueError):
        return False


def _is_stale(path: str, now: int) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read()
        is_pem = data.lstrip().startswith(b"-----BEGIN")
        update = (x509.load_pem_x509_crl if is_pem else x509.load_der_x509_crl)(data).next_update_utc
    except (OSError, ValueError):
        return False
    return update is not None and update.timestamp() < now


def _system(shown: list[TransportOptions]) -> Iterator[Verdict]:
    """AMS has a certificate of a public web CA, which a grid's CA directory may lack."""
    if not any(way.ca_system for way in shown):
        return
    paths = ssl.get_default_verify_paths()
    names = os.listdir(paths.capath) if paths.capath else []
    if paths.cafile is None and not any(map(config_credentials.HASHED.fullmatch, names)):
        yield Verdict(
            "CAs of the system",
            WARNING,
            "the operating system has no CA certificates, and ca_system=yes counts on them",
            "install the package ca-certificates, or set ca_system=no",
        )
