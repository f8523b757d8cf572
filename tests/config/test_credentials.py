"""Certificate, key and CA directory, before anybody else refuses them."""

from __future__ import annotations

import datetime as dt
import os
import pathlib
import ssl
import subprocess
import time
from typing import NamedTuple

import conf_files
import pytest
from conf_files import APEL, SGAS
from control_directory import set_up
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from arcacct.config.check import check
from arcacct.config.credentials import ca_directory_findings, ca_file_findings, certificate_findings, pair_findings
from arcacct.config.options import ERROR, targets
from arcacct.config.settings import settings
from arcacct.errors import CredentialError
from arcacct.health.doctor_checks import Site, credentials
from arcacct.sandbox import authority
from arcacct.targets import kinds, plugins

NOW = 1_770_000_000
DAY = 86400


def write_key(path, key, passphrase=None):
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    data = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    path.write_bytes(data)
    path.chmod(0o600)
    return str(path)


def write_certificate(path, key, start=NOW - DAY, end=NOW + 365 * DAY):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ce.example.org")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(7)
    builder = builder.public_key(key.public_key())
    builder = builder.not_valid_before(dt.datetime.fromtimestamp(start, dt.UTC))
    builder = builder.not_valid_after(dt.datetime.fromtimestamp(end, dt.UTC))
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return str(path)


def key_findings(directory, key, cert):
    """What is wrong with a pair, for a target that gets signed messages."""
    arc = f"[common]\nhostname = ce.example.org\nx509_host_key = {key}\nx509_host_cert = {cert}\n"
    (target,) = targets(conf_files.read(directory, APEL, arc), kinds(), [])
    return [finding for _, finding in pair_findings(target)]


@pytest.fixture(scope="module")
def host_key():
    return ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("start", "end", "findings"),
    [
        pytest.param(-DAY, 365 * DAY, [], id="good"),
        pytest.param(-DAY, 2 * DAY, [("warning", "order a new host certificate")], id="two-days-left"),
        pytest.param(-DAY, 3600, [("error", "within a day")], id="an-hour-left"),
        pytest.param(-DAY, -1, [("error", "expired at 2026-02-0")], id="expired"),
        pytest.param(DAY, 3 * DAY, [("error", "not valid yet")], id="not-yet"),
    ],
)
def test_validity_of_the_certificate(tmp_path, host_key, start, end, findings):
    """Expired, expiring within a day and not yet valid are errors, and it is a warning that the end is near."""
    cert = write_certificate(tmp_path / "cert.pem", host_key, NOW + start, NOW + end)
    found = certificate_findings(cert, NOW, 14 * DAY)
    assert [(severity, words in text) for (severity, text), (_, words) in zip(found, findings, strict=True)] == [
        (severity, True) for severity, _ in findings
    ]


def test_key_of_the_certificate(tmp_path, host_key):
    """The pair that belongs together passes; a key of another certificate is an error."""
    cert = write_certificate(tmp_path / "cert.pem", host_key)
    assert key_findings(tmp_path, write_key(tmp_path / "key.pem", host_key), cert) == []
    other = write_key(tmp_path / "other.pem", ec.generate_private_key(ec.SECP256R1()))
    (finding,) = key_findings(tmp_path, other, cert)
    assert (finding.severity, "is not the key of" in finding.text) == ("error", True)


def test_a_key_that_others_can_read_is_a_warning(tmp_path, host_key):
    """It works, and should not stay so."""
    key = write_key(tmp_path / "key.pem", host_key)
    os.chmod(key, 0o644)
    (finding,) = key_findings(tmp_path, key, write_certificate(tmp_path / "cert.pem", host_key))
    assert (finding.severity, "chmod 600" in finding.text) == ("warning", True)


def test_keys_that_cannot_be_used(tmp_path, host_key):
    """One with a passphrase, one that is none, one that is missing."""
    cert = write_certificate(tmp_path / "cert.pem", host_key)
    locked = write_key(tmp_path / "locked.pem", host_key, b"secret")
    (tmp_path / "text.pem").write_text("hello")
    for key, words in (
        (locked, "the key is encrypted"),
        (str(tmp_path / "text.pem"), "no private key in PEM form"),
        (str(tmp_path / "missing.pem"), "cannot be read: No such file"),
    ):
        assert any(words in text for severity, text in key_findings(tmp_path, key, cert) if severity == "error"), words


def test_a_certificate_that_is_none(tmp_path):
    """A missing file and one without a certificate are told apart."""
    (tmp_path / "text.pem").write_text("hello")
    assert "contains no certificate" in certificate_findings(str(tmp_path / "text.pem"), NOW)[0].text
    assert "contains no certificate" in ca_file_findings(str(tmp_path / "text.pem"))[0].text
    assert "cannot be read" in certificate_findings(str(tmp_path / "missing.pem"), int(time.time()))[0].text


def test_a_pipe_is_not_waited_for(tmp_path, host_key):
    """In place of the certificate, the key or a file of CAs: each is named as what it is."""
    os.mkfifo(pipe := tmp_path / "pipe")
    key, cert = write_key(tmp_path / "key.pem", host_key), write_certificate(tmp_path / "cert.pem", host_key)
    wrong = f"{pipe} cannot be read: a pipe, not a regular file; use a file that this user may read"
    assert [one.text for one in certificate_findings(str(pipe), NOW)] == [wrong]
    assert [one.text for one in ca_file_findings(str(pipe))] == [wrong]
    assert [one.text for one in key_findings(tmp_path, str(pipe), cert)] == [wrong]
    assert key_findings(tmp_path, key, str(pipe)) == []


def test_ca_directory(tmp_path, host_key):
    """OpenSSL looks for hashed names only: a directory without one trusts no one."""
    assert "cannot be read" in ca_directory_findings(str(tmp_path / "missing"), NOW)[0].text
    (empty := tmp_path / "empty").mkdir()
    assert "fill it" in ca_directory_findings(str(empty), NOW)[0].text
    (plain := tmp_path / "plain").mkdir()
    write_certificate(plain / "ca.pem", host_key)
    assert "openssl rehash" in ca_directory_findings(str(plain), NOW)[0].text
    write_certificate(plain / "0a1b2c3d.0", host_key)
    assert ca_directory_findings(str(plain), NOW) == []


# Certificates and keys that OpenSSL or the signature of messages refuses: `config check` says it as a run does.


NEW_KEYS = {
    "RSA 2048": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    "RSA 1024": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"],
    "RSA-PSS": ["-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"],
    "EC P-256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "EC P-192": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime192v1"],
    "Ed25519": ["-algorithm", "ED25519"],
}


class Host(NamedTuple):
    """A host certificate: its key, the hash of its CA's signature, and key and hash of a CA between them, if any."""

    key: str
    signed_with: str = "sha256"
    between: tuple[str, str] | None = None
    sgas: tuple[str, ...] = ()
    """What is said of it for SGAS, which is reached by TLS alone; empty: it is good."""
    apel: tuple[str, ...] = ()
    """The same for APEL, which gets signed messages."""


SMALL = ("security level", "its key is too small", "RSA 1024 bits with sha1", "ask for one with RSA of 2048 bits")
WEAK = ("security level", "signed with a weak hash", "RSA 2048 bits with sha1", "SHA-256")
HOSTS = {
    "RSA of 2048 bits": Host("RSA 2048"),
    "EC P-256": Host("EC P-256"),
    "behind a good CA": Host("RSA 2048", between=("RSA 2048", "sha256")),
    "1,024 bits and SHA-1": Host("RSA 1024", "sha1", sgas=SMALL, apel=SMALL),
    "SHA-1": Host("RSA 2048", "sha1", sgas=WEAK, apel=WEAK),
    "behind a CA signed with SHA-1": Host("RSA 2048", between=("RSA 2048", "sha1"), sgas=WEAK, apel=WEAK),
    "behind a CA of 1,024 bits": Host(
        "RSA 2048",
        between=("RSA 1024", "sha256"),
        sgas=("a key in its chain is too small", "RSA 2048 bits with sha256, RSA 1024 bits with sha256"),
        apel=("a key in its chain is too small", "RSA 2048 bits with sha256, RSA 1024 bits with sha256"),
    ),
    "EC P-192": Host("EC P-192", sgas=("its key is too small", "EC 192 bits"), apel=("its key is too small",)),
    "RSA-PSS": Host("RSA-PSS", apel=("for RSA-PSS only", "plain RSA key")),
    "Ed25519": Host("Ed25519", apel=("neither RSA nor EC", "ask for a certificate with one of these")),
}


def openssl(*arguments: str | pathlib.Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def made(directory: pathlib.Path, host: Host) -> tuple[str, str]:
    """Paths of certificate (with its chain) and key."""
    issuer = directory / "root"
    openssl("genpkey", *NEW_KEYS["RSA 2048"], "-out", f"{issuer}.key")
    openssl(
        "req", "-x509", "-new", "-key", f"{issuer}.key", "-subj", "/CN=root", "-days", "90", "-out", f"{issuer}.pem"
    )
    chain = b""
    names = [] if host.between is None else [("between", *host.between)]
    for name, key, signed_with in [*names, ("host", host.key, host.signed_with)]:
        path = directory / name
        openssl("genpkey", *NEW_KEYS[key], "-out", f"{path}.key")
        openssl("req", "-new", "-key", f"{path}.key", "-subj", f"/CN={name}", "-out", f"{path}.csr")
        by = ["-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial", "-days", "90", f"-{signed_with}"]
        openssl("x509", "-req", "-in", f"{path}.csr", *by, "-out", f"{path}.pem")
        issuer = path
    chain = b"".join((directory / f"{name}.pem").read_bytes() for name, *_ in [("host",), *names])
    (directory / "chain.pem").write_bytes(chain)
    os.chmod(directory / "host.key", 0o600)
    return str(directory / "chain.pem"), str(directory / "host.key")


@pytest.fixture(scope="module", params=HOSTS)
def host(request, tmp_path_factory) -> tuple[Host, str, str]:
    """A case with the paths of its files."""
    chosen = HOSTS[request.param]
    return (chosen, *made(tmp_path_factory.mktemp("host"), chosen))


def is_accepted(cert: str, key: str) -> bool:
    """Whether the OpenSSL of this Python takes a pair."""
    try:
        ssl.create_default_context().load_cert_chain(cert, key)
    except ssl.SSLError:
        return False
    return True


@pytest.mark.parametrize("target", ["sgas", "apel"])
def test_the_check_and_a_run_agree(host, target, tmp_path, monkeypatch) -> None:
    """One reason, from `config check`, from `doctor` and when a sender is made; a good pair is refused by none."""
    chosen, cert, key = host
    said = getattr(chosen, target)
    if "sha1" in (chosen.signed_with, *(chosen.between or ())) and is_accepted(cert, key):
        # OpenSSL 3.5 of Debian 13.
        said = ()
    ca = authority.create(str(tmp_path / "ca"))
    arc = (
        f"[common]\nhostname = ce.example.org\nx509_host_cert = {cert}\nx509_host_key = {key}\n"
        f"x509_cert_dir = {ca.ca_dir}\n[arex]\ncontroldir = {set_up(tmp_path / 'c')}\n"
    )
    conf = conf_files.read(tmp_path, SGAS if target == "sgas" else APEL, arc)

    problems = [one for one in check(conf, kinds()) if one.option in {"x509_host_cert", "x509_host_key"}]
    (plugin,) = plugins(settings(conf, kinds()))
    verdicts = [one for one in credentials(Site(conf)) if one.subject in {"certificate", "key"}]

    if not said:
        assert problems == []
        assert [(one.severity, one.subject) for one in verdicts if one.severity] == []
        plugin.sender()
        return
    with pytest.raises(CredentialError) as refused:
        plugin.sender()
    assert [(one.severity, one.text) for one in problems] == [(ERROR, str(refused.value))]
    assert [word for word in said if word not in str(refused.value)] == []
    (wrong,) = [one for one in verdicts if one.severity]
    assert (wrong.exit_code, f"{wrong.detail}; {wrong.advice}") == (77, str(refused.value))
