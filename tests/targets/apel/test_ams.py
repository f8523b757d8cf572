"""Publishing to AMS: the token, one message a request, and what is never said aloud."""

from __future__ import annotations

import base64
import email
import json
import logging
import re
import subprocess
import time
from contextlib import suppress

import argo_ams_library
import pytest
from campaigns import examples
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_receiver import Say, say

from arcacct.errors import CredentialError, InputError, TargetBusy, TargetRefuses
from arcacct.publishing.answers import Outcome, error_of
from arcacct.publishing.transport import Transport
from arcacct.sandbox import Sandbox
from arcacct.targets.apel.ams import MAX_ENCODED_BYTES, AMSSender, Signer, new_empaid, signed_text
from arcacct.tls import tls_context

TOKEN = "t0ken-0123456789abcdef"
GIVEN = say(200, {"token": TOKEN})
STORED = say(200, {"messageIds": ["18"]})
UNAUTHORIZED = say(401, {"error": {"code": 401, "message": "Unauthorized", "status": "UNAUTHORIZED"}})
NAME = "20250131/0123456789abcd"


@pytest.fixture
def client(receiver, session, host):
    """A client whose AMS and authn are one scripted receiver."""
    return AMSSender(f"{receiver.url}{PUBLISH[5:]}", f"{receiver.url}{GET_TOKEN[4:]}", session, Signer(*host))


def asked(receiver) -> list[str]:
    return [f"{heard.method} {heard.path}" for heard in receiver.heard]


GET_TOKEN = "GET /v1/service-types/ams/hosts/localhost:authx509"
PUBLISH = "POST /v1/projects/accounting/topics/gLite-APEL:publish"


def test_a_message_is_published(client, receiver):
    """One request for the token, one for the message, in the form of AMS's interface."""
    receiver.script = [GIVEN, STORED]
    answer = client.publish(b"signed \xff bytes", NAME)
    assert (answer.kind, answer.receiver_id) == (Outcome.ACCEPTED, "18")
    assert asked(receiver) == [GET_TOKEN, PUBLISH]
    published = receiver.heard[1]
    assert published.headers["content-type"] == "application/json"
    assert published.headers["x-api-key"] == TOKEN
    (message,) = json.loads(published.body)["messages"]
    assert message["attributes"] == {"empaid": NAME}
    assert base64.b64decode(message["data"], validate=True) == b"signed \xff bytes"


def test_a_token_serves_a_whole_run(client, receiver):
    """The authn service is asked once, and one connection carries everything."""
    receiver.script = [GIVEN, STORED, STORED, STORED]
    for _ in range(3):
        assert client.publish(b"x", new_empaid()).kind == Outcome.ACCEPTED
    assert asked(receiver) == [GET_TOKEN, PUBLISH, PUBLISH, PUBLISH]
    assert receiver.connections == 1


def test_a_refused_token_is_fetched_again_once(client, receiver):
    """A token rotated during the run costs one more request and no message."""
    receiver.script = [GIVEN, STORED, UNAUTHORIZED, say(200, {"token": "newer"}), STORED, STORED]
    for _ in range(3):
        assert client.publish(b"x", NAME).kind == Outcome.ACCEPTED
    assert asked(receiver) == [GET_TOKEN, PUBLISH, PUBLISH, GET_TOKEN, PUBLISH, PUBLISH]
    assert [heard.headers.get("x-api-key") for heard in receiver.heard[-2:]] == ["newer", "newer"]


def test_a_token_refused_twice_is_the_administrators_business(client, receiver):
    """A second 401 ends it, as a matter of credentials."""
    receiver.script = [GIVEN, UNAUTHORIZED, GIVEN, UNAUTHORIZED, STORED]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.status, answer.about_credentials) == (Outcome.TOKEN_REFUSED, 401, True)
    assert len(receiver.heard) == 4


def test_no_token_no_message(client, receiver):
    """If the certificate is not mapped, authn's answer is the answer, and nothing was sent."""
    receiver.script = [say(404, {"error": {"message": "Binding was not found", "code": 404}})]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.text, answer.outcome_known) == (
        Outcome.NOT_AUTHORISED_OR_MISCONFIGURED,
        "Binding was not found",
        True,
    )
    assert "GOCDB" in answer.advice
    assert asked(receiver) == [GET_TOKEN]


def test_a_silent_authn_leaves_no_doubt(client, receiver):
    """Whatever happens while asking for a token, no message was sent."""
    receiver.script = [Say(hang_up=True)] * 3
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)


def test_authn_that_fails_after_a_401_leaves_no_doubt(client, receiver):
    """A message refused for its token was not stored, whatever becomes of the next token."""
    receiver.script = [GIVEN, UNAUTHORIZED, *[Say(hang_up=True)] * 3]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.outcome_known) == (Outcome.TRY_LATER, True)


def test_doubt_from_before_a_401_stays(client, receiver):
    """A lost answer followed by 401 and another 401 may still have stored the message."""
    receiver.script = [GIVEN, Say(hang_up=True), UNAUTHORIZED, GIVEN, UNAUTHORIZED]
    answer = client.publish(b"x", NAME)
    assert (answer.kind, answer.outcome_known) == (Outcome.TOKEN_REFUSED, False)


def test_a_busy_ams_is_tried_again_with_the_same_message(client, receiver, naps):
    """The repeat after a 503 is the same request, byte for byte."""
    receiver.script = [GIVEN, say(503), STORED]
    assert client.publish(b"x", NAME).kind == Outcome.ACCEPTED
    assert receiver.heard[1] == receiver.heard[2]
    assert len(naps) == 1


@pytest.mark.parametrize(
    ("step", "error"),
    [
        pytest.param(say(403, {"error": {"message": "Your certificate has expired"}}), CredentialError, id="expired"),
        pytest.param(say(404, {"error": {"message": "Host was not found"}}), TargetRefuses, id="host"),
        pytest.param(say(500, {"error": {"message": "Internal Error: x"}}), TargetBusy, id="busy"),
    ],
)
def test_a_token_that_is_not_given_is_an_error(client, receiver, step, error):
    """Nothing is sent then, and the answer is what authn's refusal means."""
    receiver.script = [step] * 3
    assert isinstance(error_of(client.publish(b"x", NAME)), error)
    assert set(asked(receiver)) == {GET_TOKEN}


def test_the_token_is_never_said_aloud(client, receiver, caplog, capfd):
    """Not in logs at DEBUG, not in answers that quote our request, not in what is printed of a client."""
    caplog.set_level(logging.DEBUG)
    quoted = [TOKEN, TOKEN.upper(), base64.b64encode(TOKEN.encode()).decode(), TOKEN[:12], "x" * 480 + TOKEN]
    receiver.script = [GIVEN, *(say(400, f"Bad header: x-api-key: {one}".encode()) for one in quoted)]
    answers = [client.publish(b"x", NAME) for _ in quoted]
    assert {answer.kind for answer in answers} == {Outcome.NOT_AUTHORISED_OR_MISCONFIGURED}
    assert not [one for one in answers if re.search(f"(?i){TOKEN[:8]}|{quoted[2][:8]}", one.text)]
    said = [*map(repr, answers), repr(client), client.destination, caplog.text, *capfd.readouterr()]
    assert not any(TOKEN in text for text in said)
    assert not any(TOKEN in heard.path for heard in receiver.heard)


def test_a_message_that_ams_would_refuse_for_its_size_is_not_sent(client, receiver):
    """The limit of a megabyte holds for the base64 text, to the byte."""
    receiver.script = [GIVEN, STORED]
    most = MAX_ENCODED_BYTES // 4 * 3
    assert client.publish(b"x" * (most + 1), NAME).kind == Outcome.TOO_LARGE
    assert receiver.heard == []
    assert client.publish(b"x" * most, NAME).kind == Outcome.ACCEPTED
    (message,) = json.loads(receiver.heard[1].body)["messages"]
    assert len(message["data"]) == MAX_ENCODED_BYTES


def test_message_names_are_unique_and_begin_with_the_day():
    """An empaid is the UTC day and fourteen hexadecimal digits, and no two are the same."""
    names = {new_empaid(1_735_689_599) for _ in range(1000)}
    assert len(names) == 1000
    assert all(re.fullmatch(r"20241231/[0-9a-f]{14}", name) for name in names)
    assert new_empaid(1_735_689_600).startswith("20250101/")


def test_a_name_that_ams_would_store_unescaped_is_a_mistake(client):
    """AMS writes attributes without escapes, so quotes in them are refused here."""
    with pytest.raises(ValueError, match="empaid"):
        client.publish(b"x", 'a"b')


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """The receivers of APEL, as they answer when they are well."""
    with Sandbox(str(tmp_path_factory.mktemp("sandbox"))) as running:
        yield running


def sandbox_client(sandbox, credential) -> tuple[AMSSender, Transport]:
    session = Transport(tls_context(*credential, ca_dir=sandbox.ca_dir))
    publish = f"{sandbox.ams_url}/v1/projects/{sandbox.project}/topics/{sandbox.topic}:publish"
    token = f"https://localhost:{sandbox.authn_port}/v1/service-types/ams/hosts/localhost:authx509"
    return AMSSender(publish, token, session, Signer(*sandbox.client)), session


def test_the_official_client_reads_what_we_published(sandbox, tmp_path):
    """The AMS library pulls our message with its name and its bytes, and the signature verifies."""
    library = argo_ams_library.ArgoMessagingService(endpoint="localhost", project=sandbox.project, token=sandbox.token)
    library.port = sandbox.servers["ams"].port
    library.endpoint = f"localhost:{library.port}"
    verify = {"verify": sandbox.ca_file}
    library.create_sub("reader", sandbox.topic, **verify)
    client, session = sandbox_client(sandbox, sandbox.client)
    signed = Signer(*sandbox.client).sign("APEL-sync-message: v0.1\nSite: SANDBOX\n%%\n")
    answer = client.publish(signed, NAME)
    ((_, message),) = library.pull_sub("reader", num=1, return_immediately=True, **verify)
    session.close()
    assert answer.kind == Outcome.ACCEPTED
    assert message.get_msgid() == answer.receiver_id
    assert message.get_attr() == {"empaid": NAME}
    assert message.get_data() == signed
    opened = ["openssl", "smime", "-verify", "-CApath", sandbox.ca_dir, "-purpose", "any"]
    assert b"SANDBOX" in subprocess.run(opened, input=signed, capture_output=True, check=True).stdout


def test_an_expired_certificate_gets_no_token(sandbox):
    """The authn service says what is wrong with a certificate, and that is what the administrator reads."""
    expired = sandbox.authority.issue("late.example.org", stem="late", not_after=int(time.time()) - 60, rsa_key=False)
    client, session = sandbox_client(sandbox, expired)
    answer = client.publish(b"x", NAME)
    session.close()
    assert (answer.kind, answer.about_credentials) == (Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, True)
    assert "expired" in answer.text


def test_a_rotated_token_is_noticed(sandbox):
    """A token that AMS made invalid between two messages is replaced without a word."""
    client, session = sandbox_client(sandbox, sandbox.client)
    signed = Signer(*sandbox.client).sign("APEL-sync-message: v0.1\nSite: SANDBOX\n%%\n")
    assert client.publish(signed, new_empaid()).kind == Outcome.ACCEPTED
    sandbox.rotate_token()
    assert client.publish(signed, new_empaid()).kind == Outcome.ACCEPTED
    session.close()


# Signed messages, read back by openssl, and host certificates that cannot sign.


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
    """No one is there to type a pass phrase."""
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
