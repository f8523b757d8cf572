from __future__ import annotations

import os
import stat
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from sandbox_clients import Connection

from arcacct.config import credentials
from arcacct.errors import ConfigError
from arcacct.sandbox import authority


@pytest.mark.parametrize(
    "name",
    ["arcacct sandbox CA", "  Blanks   and  MORE ", "Ümläut Ça", "a" * 64],
    ids=["plain", "blanks", "non-ascii", "long"],
)
def test_the_ca_directory_has_the_name_openssl_looks_for(tmp_path, name):
    """OpenSSL finds the authority in the hashed directory, whatever its name looks like."""
    ca = authority.create(str(tmp_path), name=name)
    host = ca.issue("ce.example.org", rsa_key=False)
    wanted = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", ca.ca_file], capture_output=True, text=True, check=True
    )
    assert os.listdir(ca.ca_dir) == [f"{wanted.stdout.strip()}.0"]
    verified = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CApath", ca.ca_dir, host.cert_path], capture_output=True, check=False
    )
    assert verified.returncode == 0


def test_python_trusts_the_hashed_directory(sandbox):
    """The directory serves as capath of an SSL context."""
    with Connection(sandbox, "sgas", sandbox.client, capath=sandbox.ca_dir) as connection:
        assert connection.ask("GET", "/sgas").status == 200


def test_private_keys_are_for_their_owner_only(tmp_path):
    """Key files have mode 0600, also where a readable file stood before."""
    (tmp_path / "hostkey.pem").touch(mode=0o644)
    host = authority.create(str(tmp_path)).issue("ce.example.org")
    assert stat.S_IMODE(os.stat(host.key_path).st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path):
    """Who was first in /tmp could exchange keys and certificates: he is named, and gets none."""
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(ConfigError, match=f"{tmp_path} belongs to user 65534; choose a directory of your own"):
        authority.create(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_the_authority_keeps_its_key_to_itself(tmp_path):
    """No file of the directory holds the authority's private key."""
    authority.create(str(tmp_path))
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert contents
    assert not any(b"PRIVATE" in content for content in contents)


@pytest.mark.parametrize(("begin", "end"), [(-200, -100), (100, 200)], ids=["expired", "not yet valid"])
def test_certificates_of_another_time(ca, tmp_path, begin, end):
    """A certificate can be had that is over, or not yet good."""
    now = int(time.time())
    host = ca.issue("x.example.org", not_before=now + begin, not_after=now + end, directory=str(tmp_path))
    assert authority.validity(host.certificate) == (now + begin, now + end)
    assert subprocess.run(["openssl", "verify", "-CApath", ca.ca_dir, host.cert_path], check=False).returncode != 0


def test_names_are_spelled_as_each_receiver_compares_them(ce):
    """The slash form is in certificate order, the RFC 2253 form the other way round."""
    assert ce.dn == "/DC=org/DC=example/O=Sandbox/CN=ce.example.org"
    assert ce.subject == "CN=ce.example.org,O=Sandbox,DC=example,DC=org"


def test_slash_names_know_openssls_short_names():
    """Attribute types are written as OpenSSL abbreviates them."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "SE"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@example.org"),
            x509.NameAttribute(NameOID.COMMON_NAME, "Jörg"),
        ]
    )
    assert credentials.slash_dn(name) == "/C=SE/emailAddress=a@example.org/CN=Jörg"


def test_subjects_are_written_as_openssl_writes_them(tmp_path):
    """Country, e-mail and the rest have OpenSSL's short names, in the certificate's order."""
    subject = "/DC=org/C=SE/ST=Sk/L=Lund/O=A B, C/OU=x-y/UID=u/serialNumber=7/GN=g/SN=s/CN=ce/emailAddress=a@b.c"
    certificate = tmp_path / "c.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", os.devnull, "-out", str(certificate)]
    subprocess.run([*make, "-subj", subject], capture_output=True, check=True)
    show = ["openssl", "x509", "-noout", "-subject", "-nameopt", "compat", "-in", str(certificate)]
    shown = subprocess.run(show, capture_output=True, check=True, text=True).stdout.removeprefix("subject=").strip()
    assert credentials.slash_dn(x509.load_pem_x509_certificate(certificate.read_bytes()).subject) == shown == subject


def test_a_second_authority_in_the_same_directory_replaces_the_first(tmp_path):
    """Starting a rehearsal again leaves one authority, and it vouches for the new certificates only."""
    old = authority.create(str(tmp_path)).issue("old.example.org", stem="old", rsa_key=False)
    ca = authority.create(str(tmp_path))
    new = ca.issue("new.example.org", stem="new", rsa_key=False)
    verdicts = [
        subprocess.run(["openssl", "verify", "-CApath", ca.ca_dir, one.cert_path], check=False).returncode
        for one in (old, new)
    ]
    assert verdicts[0] != 0
    assert verdicts[1] == 0
