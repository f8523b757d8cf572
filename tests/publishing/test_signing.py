"""Signed messages, read back by openssl, and host certificates that cannot sign."""

from __future__ import annotations

import email
import re
import subprocess
from contextlib import suppress

import pytest
from campaigns import examples
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcacct.errors import CredentialError, InputError
from arcacct.targets.apel.ams import Signer, signed_text

MESSAGE = "APEL-individual-job-message: v0.3\nSite: EXAMPLE\nLocalJobId: 1\n%%\n"


def opened(signed: bytes, ca_file: str, *options: str) -> str:
    """The text of a message whose signature and chain openssl found good, as SSM would get it."""
    command = ["openssl", "smime", "-verify", "-CAfile", ca_file, "-purpose", "any", *options]
    done = subprocess.run(command, input=signed, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    header, _, body = done.stdout.decode("ascii").partition("\r\n\r\n")
    assert header == "Content-Type: text/plain"
    return body.replace("\r\n", "\n")


@pytest.fixture(scope="module", params=["ec", "rsa"])
def signer(request, host, rsa_host):
    """Signers with both kinds of keys."""
    return Signer(*(host if request.param == "ec" else rsa_host))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MESSAGE, id="a message"),
        pytest.param(MESSAGE.rstrip("\n"), id="no line break at its end"),
        pytest.param("\n\nSite: x\n\n\n", id="empty lines"),
        pytest.param(".\n..\n--foo\n----BEGIN\nFrom me\n", id="lines that mail programs change"),
        pytest.param("a" * 5000 + " \t \n", id="a long line and blanks at its end"),
        pytest.param("base64 quoted-printable Content-Type: x\n", id="MIME's words"),
        pytest.param("<a>\n <b c='&amp;'/>\n</a>\n", id="XML"),
        pytest.param("UserDN: /CN=J\\xC3\\xB6rg =3D\n", id="escapes"),
        pytest.param(MESSAGE * 10_000, id="most of a megabyte"),
    ],
)
def test_openssl_reads_what_we_signed(signer, authority, text):
    """A signed text verifies with the CA's certificate alone and comes out unchanged."""
    signed = signer.sign(text)
    assert opened(signed, authority.ca_file) == text
    assert signed_text(signed) == text


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.just("\n"), min_size=1).filter(str.strip))
def test_any_text_survives_signing(host, authority, text):
    """No combination of ASCII letters and line breaks harms the signature or is harmed by it."""
    assert opened(Signer(*host).sign(text), authority.ca_file) == text


def test_the_message_is_what_cryptography_makes_of_detached_and_text(signer, host):
    """Line by line the form of DetachedSignature and Text, but for the boundary and the signature itself."""

    def form(signed: bytes) -> str:
        boundary = re.search(rb'boundary="([^"]+)"', signed)[1]
        head, _, signature = signed.replace(boundary, b"BOUNDARY").decode("ascii").partition('filename="smime.p7s"')
        return head + re.sub(r"[A-Za-z0-9+/=]{4,}", "", signature).replace("\r\n", "|").replace("||", "|")

    certificate = x509.load_pem_x509_certificate(read(host.cert_path))
    key = serialization.load_pem_private_key(read(host.key_path), None)
    theirs = pkcs7.PKCS7SignatureBuilder().set_data(MESSAGE.encode()).add_signer(certificate, key, hashes.SHA256())
    options = [pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Text]
    expected = form(theirs.sign(serialization.Encoding.SMIME, options)).split("|")[0]
    assert form(signer.sign(MESSAGE)).split("|")[0] == expected


def test_the_message_is_mime(signer):
    """A mail parser finds a text part and a signature with SHA-256, all ASCII in lines that end with CRLF."""
    signed = signer.sign(MESSAGE)
    parsed = email.message_from_bytes(signed)
    text, signature = parsed.get_payload()
    assert parsed.get_content_type() == "multipart/signed"
    assert parsed.get_param("micalg") == "sha-256"
    assert text.get_payload().replace("\r\n", "\n") == MESSAGE
    assert signature.get_content_type() == "application/x-pkcs7-signature"
    assert signed.isascii()
    assert signed.count(b"\n") == signed.count(b"\r\n")


def test_only_the_first_certificate_of_a_chain_travels(host, authority, tmp_path):
    """SSM takes any certificate of a message for the signer's, so a chain in the file stays at home."""
    chain = tmp_path / "chain.pem"
    chain.write_bytes(read(host.cert_path) + read(authority.ca_file))
    signed = Signer(str(chain), host.key_path).sign(MESSAGE)
    pk7 = subprocess.run(["openssl", "smime", "-pk7out"], input=signed, capture_output=True, check=True).stdout
    certificates = subprocess.run(["openssl", "pkcs7", "-print_certs"], input=pk7, capture_output=True, check=True)
    assert certificates.stdout.count(b"BEGIN CERTIFICATE") == 1
    assert opened(signed, authority.ca_file) == MESSAGE


def test_a_changed_message_does_not_verify(signer, authority):
    """One changed number is noticed."""
    changed = signer.sign(MESSAGE).replace(b"LocalJobId: 1", b"LocalJobId: 2")
    with pytest.raises(AssertionError, match="digest failure"):
        opened(changed, authority.ca_file)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("Site: x\nUserDN: /CN=J\u00f6rg\n", "line 2, character 14 is '\u00f6'", id="not ASCII"),
        pytest.param("a\rb", r"line 1, character 2 is '\r'", id="carriage return"),
        pytest.param("a\n\x0bb", r"line 2, character 1 is '\x0b'", id="vertical tab"),
        pytest.param("a\x00", r"line 1, character 2 is '\x00'", id="NUL"),
        pytest.param("a\x7f", r"'\x7f'", id="DEL"),
        pytest.param("JobName: application/x-pkcs7-mime\n", "line 1, character 10", id="looks encrypted"),
        pytest.param(" \n", "empty", id="nothing"),
    ],
)
def test_text_that_ssm_cannot_carry_is_not_signed(signer, text, found):
    """What would crash or mislead SSM's receiver is refused with its place."""
    with pytest.raises(InputError) as caught:
        signer.sign(text)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("begins_s", "ends_s", "why"),
    [
        pytest.param(-9000, -60, "expired", id="expired"),
        pytest.param(-9000, 86_300, "within a day", id="expires within a day"),
        pytest.param(3600, 9 * 86400, "not valid before", id="of tomorrow"),
    ],
)
def test_a_certificate_out_of_its_time_is_refused(issue, begins_s, ends_s, why):
    """A certificate that SSM would reject is named with its date before anything is signed."""
    credential = issue(begins_s=begins_s, ends_s=ends_s)
    with pytest.raises(CredentialError, match=why) as caught:
        Signer(*credential)
    assert credential.cert_path in str(caught.value)


def test_a_certificate_of_more_than_a_day_is_good(issue):
    """A day and a minute are enough."""
    assert Signer(*issue(ends_s=86_400 + 60)).sign(MESSAGE)


def test_key_and_certificate_must_belong_together(host, rsa_host):
    """A key of another certificate is noticed, and both files are named."""
    with pytest.raises(CredentialError, match="not the key of the certificate") as caught:
        Signer(host.cert_path, rsa_host.key_path)
    assert host.cert_path in str(caught.value)
    assert rsa_host.key_path in str(caught.value)


def test_missing_files_are_named(host, tmp_path):
    """A path that leads nowhere is named."""
    nowhere = str(tmp_path / "nowhere.pem")
    with pytest.raises(CredentialError, match=r"nowhere\.pem.*No such file"):
        Signer(nowhere, host.key_path)
    with pytest.raises(CredentialError, match=r"nowhere\.pem.*No such file"):
        Signer(host.cert_path, nowhere)


def test_files_that_hold_something_else_are_named(host, tmp_path):
    """A certificate in place of the key and nonsense in place of the certificate are told apart."""
    other = tmp_path / "other.pem"
    other.write_text("nothing\n")
    with pytest.raises(CredentialError, match="no certificate in PEM form"):
        Signer(str(other), host.key_path)
    with pytest.raises(CredentialError, match="no private key in PEM form"):
        Signer(host.cert_path, host.cert_path)


@pytest.mark.parametrize("broken", ["d", "dmp1", "dmq1", "iqmp"])
def test_a_damaged_key_is_refused_or_signs_all_the_same(rsa_host, authority, tmp_path, broken):
    """What leaves us is never a signature that is none: APEL would drop the message and say nothing."""
    numbers = serialization.load_pem_private_key(read(rsa_host.key_path), None).private_numbers()
    values = {name: getattr(numbers, name) for name in ("p", "q", "d", "dmp1", "dmq1", "iqmp")}
    values[broken] += 2
    key = rsa.RSAPrivateNumbers(**values, public_numbers=numbers.public_numbers)
    damaged = tmp_path / "damaged.pem"
    damaged.write_bytes(pem(key.private_key(unsafe_skip_rsa_key_validation=True)))
    with suppress(CredentialError):
        # The key has its secret twice over, and OpenSSL uses what is whole.
        assert opened(Signer(rsa_host.cert_path, str(damaged)).sign(MESSAGE), authority.ca_file) == MESSAGE


def test_a_key_that_signs_nothing_is_refused(rsa_host, tmp_path):
    """Both ways in which it has its secret are damaged."""
    numbers = serialization.load_pem_private_key(read(rsa_host.key_path), None).private_numbers()
    values = {"p": numbers.p, "q": numbers.q, "d": numbers.d + 2, "dmp1": numbers.dmp1 + 2, "dmq1": numbers.dmq1 + 2}
    key = rsa.RSAPrivateNumbers(**values, iqmp=numbers.iqmp, public_numbers=numbers.public_numbers)
    damaged = tmp_path / "damaged.pem"
    damaged.write_bytes(pem(key.private_key(unsafe_skip_rsa_key_validation=True)))
    with pytest.raises(CredentialError, match="damaged"):
        Signer(rsa_host.cert_path, str(damaged))


def test_an_encrypted_key_is_refused(rsa_host, tmp_path):
    """Nobody is there to type a pass phrase."""
    encrypted = tmp_path / "encrypted.pem"
    key = serialization.load_pem_private_key(read(rsa_host.key_path), None)
    how = serialization.BestAvailableEncryption(b"x")
    encrypted.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))
    with pytest.raises(CredentialError, match="encrypted"):
        Signer(rsa_host.cert_path, str(encrypted))


def test_keys_that_ssm_cannot_verify_are_refused(tmp_path):
    """Ed25519 and keys bound to RSA-PSS cannot make a signature that SSM accepts."""
    edwards, certificate = tmp_path / "ed.pem", tmp_path / "edcert.pem"
    edwards.write_bytes(pem(ed25519.Ed25519PrivateKey.generate()))
    self_signed(edwards, certificate)
    with pytest.raises(CredentialError, match="neither RSA nor EC"):
        Signer(str(certificate), str(edwards))

    pss, certificate = tmp_path / "pss.pem", tmp_path / "psscert.pem"
    make = ["openssl", "genpkey", "-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(pss)]
    subprocess.run(make, capture_output=True, check=True)
    self_signed(pss, certificate)
    with pytest.raises(CredentialError, match="RSA-PSS"):
        Signer(str(certificate), str(pss))


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def pem(key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def self_signed(key, certificate) -> None:
    make = ["openssl", "req", "-x509", "-key", str(key), "-out", str(certificate), "-days", "9", "-subj", "/CN=x"]
    subprocess.run(make, capture_output=True, check=True)
