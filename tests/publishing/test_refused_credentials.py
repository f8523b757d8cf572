"""Certificates and keys that OpenSSL or the signature of messages refuses: `config check` says it as a run does."""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import NamedTuple

import conf_files
import pytest
from conf_files import APEL, SGAS
from control_directory import set_up

from arcacct.config.check import check
from arcacct.config.options import ERROR
from arcacct.config.settings import settings
from arcacct.errors import CredentialError
from arcacct.health.doctor_checks import Site, credentials
from arcacct.sandbox import authority
from arcacct.targets import kinds, plugins

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


@pytest.mark.parametrize("target", ["sgas", "apel"])
def test_the_check_and_a_run_agree(host, target, tmp_path, monkeypatch) -> None:
    """One reason, from `config check`, from `doctor` and when a sender is made; a good pair is refused by none."""
    chosen, cert, key = host
    said = getattr(chosen, target)
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
