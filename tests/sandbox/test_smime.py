from __future__ import annotations

import base64
import time
import warnings
from random import Random

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options as Option
from sandbox_clients import TEXT, encrypt, openssl_sign, sign, sync_message

from arcacct.errors import InputError
from arcacct.sandbox import authority, smime
from arcacct.sandbox.smime import Crashed, MessageRejected, accept

BODIES = {
    "one line": b"hello\n",
    "no newline at the end": b"hello",
    "crlf": b"a\r\nb\r\n",
    "mixed line ends": b"a\nb\r\nc\n",
    "blank lines": b"\na\n\n\nb\n\n",
    "lines that look like boundaries": b"--foo\n.\n------\n",
    "a long line": b"x" * 5000 + b"\n",
    "trailing blanks": b"a   \n\t\n",
    "markup": b"<?xml version='1.0'?>\n<a b='&lt;'/>\n",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize(
    "signs", [sign, lambda ce, body: openssl_sign(ce, body, "-text")], ids=["cryptography", "openssl"]
)
def test_good_signatures_are_good(ca, ce, signs, body):
    """Whatever a text looks like, its signature verifies and the text arrives, whoever signed it."""
    signed = smime.verify(signs(ce, body))
    smime.check_chain(signed.certificates[0], ca.ca_dir)
    text = signed.content.partition(b"\r\n\r\n")[2]
    assert text.replace(b"\r\n", b"\n") == body.replace(b"\r\n", b"\n")


def test_line_ends_changed_on_the_way_do_no_harm(ce):
    """A message whose CRLF became LF verifies: lines are made canonical again."""
    message = sign(ce, b"one\ntwo\n")
    assert smime.verify(message.replace(b"\r\n", b"\n")).content == smime.verify(message).content


@pytest.mark.parametrize("algorithm", [hashes.SHA224, hashes.SHA256, hashes.SHA384, hashes.SHA512])
@pytest.mark.parametrize("rsa_key", [True, False], ids=["rsa", "ec"])
def test_the_digests_and_keys_that_apel_takes(ca, tmp_path, rsa_key, algorithm):
    """RSA and elliptic curves with any SHA-2 are good."""
    host = ca.issue("ce.example.org", directory=str(tmp_path), rsa_key=rsa_key)
    message = _builder(host, algorithm()).sign(serialization.Encoding.SMIME, list(TEXT))
    assert smime.verify(message).certificates == (host.certificate,)


@pytest.mark.parametrize("option", [Option.NoCapabilities, Option.NoAttributes])
def test_signatures_with_fewer_attributes_are_good(ce, option):
    """Neither the capabilities nor any signed attribute is needed."""
    assert smime.verify(sign(ce, b"hello\n", [*TEXT, option])).content.endswith(b"hello\r\n")


@pytest.mark.parametrize(
    "options", [["-text"], ["-text", "-md", "sha512"], ["-text", "-md", "sha1"], ["-text", "-noattr"]], ids=" ".join
)
def test_openssls_variants_are_good(ce, options):
    """What the openssl program signs, and `openssl cms` reads, verifies here too."""
    assert smime.verify(openssl_sign(ce, b"hello\n", *options)).content.endswith(b"hello\r\n")


BROKEN = {
    "changed body": (lambda message: message.replace(b"hello", b"hullo"), "digest"),
    "bare carriage return": (lambda message: message.replace(b"hello", b"hel\rlo"), "carriage return"),
    "no second part": (lambda message: message.replace(b"pkcs7-signature;", b"octet-stream;"), "PKCS#7"),
    "no mime": (lambda _message: b"hello", "multipart/signed"),
    "cut off": (lambda message: message[: message.index(b"smime.p7s")], "signature"),
}


@pytest.mark.parametrize(("breaks", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_messages_are_refused_with_the_reason(ce, breaks, words):
    """A message that was changed, cut or never signed is refused, and the words say why."""
    with pytest.raises(InputError, match=words):
        smime.verify(breaks(sign(ce, b"hello\n")))


def test_a_signature_by_another_key_is_refused(ca, ce, tmp_path):
    """The certificate in the message has to fit the key that signed."""
    other = ca.issue("other.example.org", directory=str(tmp_path))
    with open(other.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    message = sign(ce, b"hello\n")
    signed = smime.verify(message)
    forged = _forge(signed, key, message)
    with pytest.raises(InputError, match="does not fit"):
        smime.verify(forged)


def test_a_signature_without_certificate_is_refused(ce):
    """SSM takes the certificate from the message; one without is rejected."""
    with pytest.raises(InputError, match="no certificate"):
        smime.verify(sign(ce, b"hello\n", [*TEXT, Option.NoCerts]))


def test_rsa_pss_is_refused(ce):
    """OpenSSL's PKCS#7 code does not know RSA-PSS."""
    builder = _builder(ce, hashes.SHA256(), rsa_padding=padding.PSS(padding.MGF1(hashes.SHA256()), 32))
    with pytest.raises(InputError, match="neither RSA"):
        smime.verify(builder.sign(serialization.Encoding.SMIME, list(TEXT)))


def test_real_messages_of_a_computing_element_verify(test_data):
    """All messages that jura published from a real A-REX verify, and hold what was captured next to them."""
    captured = sorted(test_data.glob("arex/wire/*/*.smime"))
    assert len(captured) == 32
    for path in captured:
        text = smime.verify(path.read_bytes()).content.partition(b"\r\n\r\n")[2]
        payload = path.with_suffix(".payload").read_bytes()
        assert text.replace(b"\r\n", b"\n").strip() == payload.replace(b"\r\n", b"\n").strip(), path.name


def test_chains(ca, ce, tmp_path):
    """Expired, future and foreign certificates are not trusted; a good one is."""
    now = int(time.time())
    smime.check_chain(ce.certificate, ca.ca_dir)
    with pytest.raises(InputError, match="expired"):
        smime.check_chain(ce.certificate, ca.ca_dir, now + 91 * authority.DAY_S)
    with pytest.raises(InputError, match="not yet valid"):
        smime.check_chain(ce.certificate, ca.ca_dir, now - authority.DAY_S)
    stranger = authority.create(str(tmp_path)).issue("ce.example.org", rsa_key=False)
    with pytest.raises(InputError, match="not trusted"):
        smime.check_chain(stranger.certificate, ca.ca_dir)


def _builder(credential, algorithm, **options):
    with open(credential.key_path, "rb") as file:
        key = serialization.load_pem_private_key(file.read(), None)
    builder = pkcs7.PKCS7SignatureBuilder().set_data(b"hello\n")
    return builder.add_signer(credential.certificate, key, algorithm, **options)


def _forge(signed, key, message):
    """The message with its signature value replaced by one of another key."""
    import base64

    header, _, tail = message.rpartition(b'filename="smime.p7s"\r\n\r\n')
    encoded, _, end = tail.partition(b"\r\n\r\n--")
    der = base64.b64decode(encoded)
    forged = der[:-256] + key.sign(signed.content, padding.PKCS1v15(), hashes.SHA256())
    return header + b'filename="smime.p7s"\r\n\r\n' + base64.encodebytes(forged) + b"\r\n--" + end


def test_damaged_messages_are_refused_with_a_reason(ce):
    """Any byte changed, lost or added gives a verdict, and never another text: no error of a library gets out."""
    random = Random(1)
    whole = sign(ce, b"hello\n").replace(b"\r\n", b"\n")
    content, encoded = smime._split(whole)
    good = base64.b64decode(encoded)
    said = set()
    for _ in range(500):
        damaged = bytearray(good)
        at = random.randrange(len(damaged))
        damaged[at : at + random.choice((0, 1, 1, 1, 4))] = random.randbytes(random.choice((0, 1, 1, 1, 4)))
        message = whole.replace(encoded.strip(), base64.encodebytes(damaged).strip())
        try:
            with warnings.catch_warnings():
                # cryptography warns of odd certificates.
                warnings.simplefilter("ignore")
                assert smime.verify(message).content == content
        except InputError as error:
            said.add(str(error).partition(":")[0])
    assert {"the signature cannot be read", "signature failure"} <= said


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
