from __future__ import annotations

import base64
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options as Option
from sandbox_clients import TEXT, encrypt, openssl_sign, sign, sync_message

from arcacct.sandbox import authority
from arcacct.sandbox.smime import Crashed, MessageRejected, accept

ACCEPTED = {
    "trailing newline lost": (b"hello\n", "hello"),
    "crlf becomes lf": (b"a\r\nb\r\n", "a\nb"),
    "blank lines inside": (b"\n\na\n\nb\n\n", "a\n\nb"),
    "form feed becomes a line end": (b"a: b\x0cc: d\n", "a: b\nc: d"),
    "vertical tab too": (b"a: b\x0bc: d\n", "a: b\nc: d"),
    "the words of encodings in the text": (b"base64 quoted-printable\n", "base64 quoted-printable"),
}


@pytest.mark.parametrize(("body", "text"), ACCEPTED.values(), ids=ACCEPTED)
def test_the_text_that_reaches_the_loader(ca, ce, body, text):
    """SSM trims the text and makes every kind of line end a newline."""
    accepted = accept(sign(ce, body), ca.ca_dir, {ce.dn})
    assert accepted == (text, ce.dn)


def test_quoted_printable_is_decoded(ca, ce):
    """A header of its own, made by hand, lets other characters through as UTF-8."""
    body = b"Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nJ=C3=B6rg\r\n"
    assert accept(sign(ce, body, [Option.DetachedSignature]), ca.ca_dir, None).text == "Jörg"


REJECTED = {
    "empty": (lambda ce: sign(ce, b""), "No blank line"),
    "without the text header": (lambda ce: sign(ce, b"hello\n", [Option.DetachedSignature]), "No blank line"),
    "opaque": (lambda ce: openssl_sign(ce, b"hello\n", "-nodetach"), "encrypted"),
    "speaks of pkcs7-mime": (lambda ce: sign(ce, b"application/pkcs7-mime\n"), "encrypted"),
    "binary": (lambda ce: sign(ce, b"a\nb\n", [*TEXT, Option.Binary]), "digest"),
    "not signed": (lambda _ce: b"hello", "clear-signed"),
}


@pytest.mark.parametrize(("makes", "words"), REJECTED.values(), ids=REJECTED)
def test_rejected_messages(ca, ce, makes, words):
    """What SSM puts into its reject queue is rejected here."""
    with pytest.raises(MessageRejected, match=words):
        accept(makes(ce), ca.ca_dir, {ce.dn})


CRASHES = {
    "utf-8": (lambda ce: sign(ce, "Jörg\n".encode()), "ASCII"),
    "latin-1": (lambda ce: sign(ce, "Jörg\n".encode("latin-1")), "ASCII"),
    "inner base64": (
        lambda ce: sign(
            ce,
            b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b"hello"),
            [Option.DetachedSignature],
        ),
        "base64",
    ),
}


@pytest.mark.parametrize(("makes", "words"), CRASHES.values(), ids=CRASHES)
def test_messages_that_kill_the_receiver(ca, ce, makes, words):
    """A byte beyond ASCII and a base64 body are not rejected: the daemon dies over them."""
    with pytest.raises(Crashed, match=words):
        accept(makes(ce), ca.ca_dir, {ce.dn})


@pytest.fixture(scope="module")
def receiver(ca, tmp_path_factory):
    """The certificate that messages to the receiver are encrypted to."""
    return ca.issue("apel.example.org", directory=str(tmp_path_factory.mktemp("receiver")))


@pytest.mark.parametrize("cipher", ["-aes128", "-aes192", "-aes256"])
@pytest.mark.parametrize("signs", [sign, lambda ce, body: openssl_sign(ce, body, "-text")], ids=["ours", "openssl"])
def test_an_encrypted_message_is_accepted(ca, ce, receiver, signs, cipher):
    """Signed, then encrypted with any of SSM's ciphers: text and signer are those of the message inside."""
    message = encrypt(receiver, signs(ce, b"hello\n" * 999), cipher)
    assert b"hello" not in message
    assert accept(message, ca.ca_dir, {ce.dn}, receiver) == (("hello\n" * 999).strip(), ce.dn)


@pytest.mark.parametrize("options", [[], [Option.Binary]], ids=["plain", "binary"])
def test_a_message_encrypted_by_python_is_accepted(ca, ce, receiver, options):
    """The envelopes of `cryptography` are read as those of OpenSSL."""
    builder = pkcs7.PKCS7EnvelopeBuilder().set_data(sign(ce, b"hello\n")).add_recipient(receiver.certificate)
    message = builder.encrypt(serialization.Encoding.SMIME, options)
    assert accept(message, ca.ca_dir, {ce.dn}, receiver).text == "hello"


NOT_OPENED = {
    "to somebody else": (lambda ce, _receiver: encrypt(ce, sign(ce, b"hello\n")), "not encrypted to"),
    "another cipher": (lambda ce, receiver: encrypt(receiver, sign(ce, b"hello\n"), "-des3"), "cipher"),
    "not signed": (lambda _ce, receiver: encrypt(receiver, b"hello\n"), "clear-signed"),
    "opaque": (lambda ce, _receiver: openssl_sign(ce, b"hello\n", "-nodetach"), "not enveloped data"),
    "cut off": (lambda ce, receiver: encrypt(receiver, sign(ce, b"hello\n"))[:900], "cannot be read"),
    "a word in the text": (lambda ce, _receiver: sign(ce, b"application/pkcs7-mime\n"), "cannot be decrypted"),
}


@pytest.mark.parametrize(("makes", "words"), NOT_OPENED.values(), ids=NOT_OPENED)
def test_envelopes_that_do_not_open(ca, ce, receiver, makes, words):
    """What the receiver's key cannot open, or holds no signed message, is rejected with the reason."""
    with pytest.raises(MessageRejected, match=words):
        accept(makes(ce, receiver), ca.ca_dir, {ce.dn}, receiver)


def test_an_encrypted_byte_beyond_ascii_kills_the_receiver_too(ca, ce, receiver):
    """The envelope hides it from the first look, not from the second."""
    with pytest.raises(Crashed, match="ASCII"):
        accept(encrypt(receiver, sign(ce, "Jörg\n".encode())), ca.ca_dir, {ce.dn}, receiver)


def test_the_signer_must_be_on_the_list_letter_by_letter(ca, ce):
    """A DN that differs in case, or is missing, is not allowed to send."""
    message = sign(ce, b"hello\n")
    with pytest.raises(MessageRejected, match="Signer not in valid DNs list"):
        accept(message, ca.ca_dir, {ce.dn.lower()})
    assert accept(message, ca.ca_dir, None).signer == ce.dn


def test_certificates_that_are_not_trusted(ca, tmp_path):
    """An expired certificate, and one of another authority, are rejected."""
    now = int(time.time())
    expired = ca.issue("ce.example.org", not_after=now - 1, directory=str(tmp_path))
    stranger = authority.create(str(tmp_path / "other")).issue("ce.example.org")
    with pytest.raises(MessageRejected, match="expired"):
        accept(sign(expired, b"hello\n"), ca.ca_dir, None)
    with pytest.raises(MessageRejected, match="Unverified signer"):
        accept(sign(stranger, b"hello\n"), ca.ca_dir, None)


def test_a_second_certificate_is_taken_for_the_signer(ca, ce):
    """With the authority's certificate in the message SSM looks at the wrong one, and does not find it listed."""
    with open(ca.ca_file, "rb") as file:
        from cryptography import x509

        certificate = x509.load_pem_x509_certificate(file.read())
    message = sign(ce, b"hello\n", extra=[certificate])
    with pytest.raises(MessageRejected, match=r"Signer not in valid DNs list: .*sandbox CA"):
        accept(message, ca.ca_dir, {ce.dn})


def test_the_openssl_program_agrees(ca, ce, tmp_path):
    """What is accepted here passes `openssl smime -verify` with the same authority."""
    import subprocess

    message = sign(ce, sync_message().encode())
    accept(message, ca.ca_dir, {ce.dn})
    verified = subprocess.run(
        ["openssl", "smime", "-verify", "-CApath", ca.ca_dir, "-purpose", "any"],
        input=message,
        capture_output=True,
        check=False,
    )
    assert b"Verification successful" in verified.stderr
