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
from sandbox_clients import TEXT, openssl_sign, sign

from arcacct.errors import InputError
from arcacct.sandbox import authority, smime

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
    "options",
    [["-text"], ["-text", "-md", "sha512"], ["-text", "-md", "sha1"], ["-text", "-noattr"]],
    ids=" ".join,
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
    """All messages that jura published from a real A-REX verify, and hold what was captured beside them."""
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
