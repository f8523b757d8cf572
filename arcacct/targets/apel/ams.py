"""The ARGO Messaging Service: tokens, signed messages, requests and the meaning of the answers."""

from __future__ import annotations

import base64
import re
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping

from cryptography import x509
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import PublicKeyAlgorithmOID

from arcacct import secrecy
from arcacct.errors import CredentialError
from arcacct.files.safe_open import read_regular
from arcacct.publishing.answers import TEXT_LIMIT, Answer, Outcome, classify_status, error_message, error_text, json_of
from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import Sender
from arcacct.publishing.transport import Request, Transport
from arcacct.targets.apel.messages import ssm_text
from arcacct.tls import load_credential
from arcacct.wording import sanitise_line

# The answers of AMS and its authn service (argo-messaging, argo-api-authn): their own rows of `publishing.plugin`.


_LONGEST_TOKEN = 4096


def classify_ams(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge AMS's answer to ``topics/T:publish`` with one message."""
    said = error_text(body)
    if status == 200:
        parsed = json_of(body)
        ids = parsed.get("messageIds") if isinstance(parsed, dict) and "error" not in parsed else None
        if isinstance(ids, list) and len(ids) == 1 and type(ids[0]) in (str, int) and ids[0] != "":
            return Answer(Outcome.ACCEPTED, 200, receiver_id=sanitise_line(str(ids[0]), TEXT_LIMIT))
        said = said or "an empty answer"
    if status == 401:
        return Answer(Outcome.TOKEN_REFUSED, 401, said, advice=_ADVICE_TOKEN, about_credentials=True)
    if status == 400 and error_message(body) and not said.startswith(("Invalid topic name", "Invalid project name")):
        return Answer(Outcome.RECORDS_REFUSED, 400, said)
    return classify_status(status, headers, said, _ADVICE_AMS)


def classify_authn(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge the authn service's answer to the request for a token.

    An accepted answer has no text: its body is the secret. Text that looks like a token in any other answer is a secret
    from now on, and an unknown success code is not reported. AMS never does half of a request.
    """
    for token in _tokens(body):
        secrecy.keep(token)
    if status == 200 and token_of(body) is not None:
        return Answer(Outcome.ACCEPTED, 200)
    said = "an answer that may contain a token, so it is not shown" if 200 <= status < 300 else error_text(body)
    if status == 200:
        said = "no token in the answer"
    answer = classify_status(status, headers, said, _ADVICE_AUTHN, to_message=False)
    return answer._replace(outcome_known=True, about_credentials=status in {400, 401, 403})


def classify_ams_status(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge AMS's answer to a health request, which needs no authentication."""
    parsed = json_of(body)
    if status == 200 and isinstance(parsed, dict) and "status" in parsed:
        said = sanitise_line(str(parsed["status"]), TEXT_LIMIT)
        return Answer(Outcome.ACCEPTED if said == "ok" else Outcome.TRY_LATER, 200, f"AMS says {said}")
    said = error_text(body) or ("an empty answer" if status == 200 else "")
    return classify_status(status, headers, said, {None: _ADVICE_AMS[None]}, to_message=False)


def token_of(body: bytes) -> str | None:
    """Return the token in authn's answer, None if there is none that can be sent in a header."""
    parsed = json_of(body)
    token = parsed.get("token") if isinstance(parsed, dict) else None
    can_be_sent = isinstance(token, str) and len(token) <= _LONGEST_TOKEN and re.fullmatch(r"[\x21-\x7e]+", token)
    return token if can_be_sent else None


def _tokens(body: bytes) -> Iterator[str]:
    """Everything named token, even outside valid JSON, because the answer was cut or is a page."""
    waiting = [json_of(body)]
    if waiting == [None]:
        text = body.decode("utf-8", "replace")
        yield from re.findall(r'(?i)token(?:"|&quot;)\s*:\s*(?:"|&quot;)((?:(?!&quot;)[^"\s])+)', text)
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from (
                value
                for name, value in part.items()
                if "token" in name.lower() and isinstance(value, str) and not re.search(r"\s", value)
            )
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


_ADVICE_TOKEN = "the token was rotated, or its user is not a member of the project: ask the AMS team"  # noqa: S105  no token

_ADVICE_AMS = {
    400: "check project, topic and targeturl",
    403: "our AMS user may not publish to this topic: ask the AMS team for the publisher role",
    404: "check project, topic and targeturl: AMS has no such project or topic",
    None: "check targeturl: the answer is not from AMS",
}

_ADVICE_AUTHN = {
    400: "check x509_host_cert, and that this host's address resolves back to its name",
    403: "renew the host certificate, or ask its CA: the authn service does not accept it",
    404: "register the exact subject of the host certificate as Host DN of a gLite-APEL service in GOCDB "
    "(this takes up to four hours), and check targeturl",
    None: "check targeturl and authn_port: the answer is not from the AMS authn service",
}


# Signed messages in SSM's form, and the host certificate that signs.  The form is that of ``openssl smime -sign
# -text``: multipart/signed, the text in clear, a detached PKCS#7 signature with SHA-256 and PKCS#1 v1.5 (or ECDSA), and
# only the signer's certificate in it. If an issuer's certificate is next to it, SSM takes the first one as the signer,
# often the issuer.


_UTC = "%Y-%m-%dT%H:%M:%SZ"
MIN_LIFETIME_S = 86_400
"""SSM refuses to start with a certificate that ends sooner; messages signed with it are rejected unread."""


class Signer:
    """Signs messages with one host certificate, read and checked once."""

    def __init__(self, cert_path: str, key_path: str) -> None:
        """
        Read a certificate (the first of the file, if it holds a chain) and its key, both PEM.

        Raises CredentialError as `signing_pair` does, and if the certificate is not valid from now until a day later.
        """
        self._certificate, self._key = signing_pair(cert_path, key_path)
        now_s = int(time.time())
        begin, end = self._certificate.not_valid_before_utc, self._certificate.not_valid_after_utc
        if begin.timestamp() > now_s:
            raise CredentialError(f"{cert_path}: not valid before {begin:{_UTC}}; check the clock of this host")
        if end.timestamp() < now_s:
            raise CredentialError(f"{cert_path}: expired {end:{_UTC}}; renew the host certificate")
        if end.timestamp() < now_s + MIN_LIFETIME_S:
            raise CredentialError(f"{cert_path}: expires {end:{_UTC}}, within a day; renew the host certificate")

    def signed(self, message: bytes) -> bool:
        """Whether a message of `sign` has this certificate: the receiver accepts no other one."""
        encoded = message.rpartition(b'filename="smime.p7s"\r\n\r\n')[2].partition(b"--")[0]
        certificates = pkcs7.load_der_pkcs7_certificates(base64.b64decode(encoded))
        return certificates == [self._certificate]

    def sign(self, text: str) -> bytes:
        """
        Return the S/MIME message of a text; InputError if SSM could not transport the text.

        Two signatures of one text differ (time, boundary): keep the digest of the text to recognise it.
        """
        # The signature is of the whole first part, with MIME's line ends. `cryptography` gives the same with the
        # options DetachedSignature and Text, but uses the email package: 30 ms a megabyte instead of 1.4.
        part = b"Content-Type: text/plain\r\n\r\n" + ssm_text(text).replace(b"\n", b"\r\n")
        # Detached, with SHA-256, and never RSA-PSS (SSM rejects it).
        signature = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(part)
            .add_signer(self._certificate, self._key, hashes.SHA256())
            .sign(serialization.Encoding.DER, [pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary])
        )
        # RFC 8551 multipart/signed. No message contains such a line: the boundary has 128 random bits.
        boundary = b"----" + secrets.token_hex(16).upper().encode()
        return b"\r\n".join(
            (
                b"MIME-Version: 1.0",
                b'Content-Type: multipart/signed; protocol="application/x-pkcs7-signature"; micalg="sha-256"; '
                b'boundary="' + boundary + b'"',
                b"",
                b"This is an S/MIME signed message",
                b"",
                b"--" + boundary,
                part,
                b"--" + boundary,
                b'Content-Type: application/x-pkcs7-signature; name="smime.p7s"',
                b"Content-Transfer-Encoding: base64",
                b'Content-Disposition: attachment; filename="smime.p7s"',
                b"",
                base64.encodebytes(signature).replace(b"\n", b"\r\n"),
                b"--" + boundary + b"--",
                b"",
            )
        )


def signing_pair(
    cert_path: str, key_path: str
) -> tuple[x509.Certificate, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]:
    """
    Return certificate and key, both from PEM files, after a trial signature; their dates are not checked.

    TLS uses the same pair: it checks first whether both can be read and belong together (`tls.load_credential`). Raises
    CredentialError, with the path first, as TLS does, or if SSM would not accept the key's signature (it is neither RSA
    nor EC, for RSA-PSS only, or damaged).
    """
    load_credential(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cert_path, key_path)
    try:
        certificate = x509.load_pem_x509_certificate(read_regular(cert_path))
    except ValueError as exc:
        raise CredentialError(f"{cert_path}: no certificate in PEM form; set x509_host_cert to one") from exc
    try:
        # To check an RSA key by its numbers takes 30 ms, and by using it (below) less than one.
        key = serialization.load_pem_private_key(
            read_regular(key_path), password=None, unsafe_skip_rsa_key_validation=True
        )
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise CredentialError(
            f"{key_path}: a kind of key that cannot sign messages; ask for a certificate with an RSA or EC key"
        ) from exc
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise CredentialError(
            f"{key_path}: the key is neither RSA nor EC, and APEL can check only RSA and EC signatures; ask for a "
            "certificate with one of these"
        )
    if certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        # Such a key signs only with RSA-PSS, and SSM treats every RSA-PSS signature as invalid.
        raise CredentialError(f"{cert_path}: its key is for RSA-PSS only; ask for a certificate with a plain RSA key")
    if isinstance(key, rsa.RSAPrivateKey):
        probe, form = b"arcacct", padding.PKCS1v15()
        try:
            key.public_key().verify(key.sign(probe, form, hashes.SHA256()), probe, form, hashes.SHA256())
        except (InvalidSignature, InternalError, ValueError) as exc:
            raise CredentialError(f"{key_path}: the key is damaged: its signatures are invalid") from exc
    return certificate, key


def signed_text(message: bytes) -> str:
    """Return the text of a message of `Signer.sign`, with LF line ends, as SSM reads it."""
    boundary = message.partition(b'boundary="')[2].partition(b'"')[0]
    part = message.partition(b"--" + boundary + b"\r\n")[2].partition(b"\r\n--" + boundary)[0]
    return part.partition(b"\r\n\r\n")[2].replace(b"\r\n", b"\n").decode("ascii")


# The ARGO Messaging Service: a token for our certificate, then one message in each request. AMS stores the messages of
# a request one by one, and returns only an error if one fails. So with several messages it would be unknown which were
# stored. The token stays in memory for one run and is sent only in a header.


MAX_ENCODED_BYTES = 1_000_000
"""The documented limit of a message's base64 text; the server itself gives up at 1,500,000 bytes as stored."""


def new_empaid(now_s: int | None = None) -> str:
    """
    Return a name for one message, ``YYYYMMDD/<14 hex digits>``: the UTC day and 56 random bits.

    Keep it with the message: the same name at each try lets APEL's operators recognise a repeat.
    """
    day = time.strftime("%Y%m%d", time.gmtime(now_s))
    return f"{day}/{secrets.token_hex(7)}"


class AMSSender(Sender):
    """The sender of one target to its topic: signed messages, with a token of AMS's authn service."""

    transport: Transport

    def __init__(self, publish_url: str, token_url: str, session: Transport, signer: Signer) -> None:
        """Prepare without connecting."""
        self.transport = session
        self.destination = publish_url
        self._token_url = token_url
        self._token: str | None = None
        self._signer = signer

    def name(self) -> str | None:
        return new_empaid()

    def pack(self, text: str) -> bytes:
        return self._signer.sign(text)

    def unpack(self, data: bytes) -> str:
        return signed_text(data)

    def renewed(self, data: bytes) -> bytes:
        # APEL drops a message whose signer's certificate has expired, without a report.
        return data if self._signer.signed(data) else self.pack(self.unpack(data))

    def send(self, message: Message) -> Answer:
        return self.publish(message.data, message.empaid or new_empaid())

    def publish(self, data: bytes, empaid: str) -> Answer:
        """
        Send one signed message; a refused token is requested again once.

        The answer may be that of the authn service, if it gives no token: then nothing was sent. A message above
        MAX_ENCODED_BYTES is not sent either, and is TOO_LARGE.
        """
        size = (len(data) + 2) // 3 * 4
        if size > MAX_ENCODED_BYTES:
            return Answer(Outcome.TOO_LARGE, text=f"{size} bytes in base64, {MAX_ENCODED_BYTES} are allowed")
        # AMS does not escape attributes when it stores them; base64 and these names need no escapes.
        if not re.fullmatch(r"[A-Za-z0-9/._-]+", empaid):
            raise ValueError(f"an empaid consists of letters, digits and / . _ -, not {empaid!r}")
        head = b'{"messages":[{"attributes":{"empaid":"' + empaid.encode() + b'"},"data":"'
        # Joined at once: adding three parts would copy the megabyte twice.
        body = b"".join((head, base64.b64encode(data), b'"}]}'))
        answer = self._post(body)
        if answer.kind != Outcome.TOKEN_REFUSED:
            return answer
        refused, self._token = answer, None
        answer = self._post(body)
        if answer.kind == Outcome.ACCEPTED:
            return answer
        # An unknown result of the first try stays unknown.
        return answer._replace(outcome_known=answer.outcome_known and refused.outcome_known)

    def _post(self, body: bytes) -> Answer:
        """Send with the earlier token, or a new one; the answer says why if there is none."""
        if self._token is None:
            answer = self.transport.request(Request("GET", self._token_url, {}), self._read_token)
            if self._token is None:
                return answer
        headers = {"x-api-key": self._token, "Content-Type": "application/json"}
        return self.transport.request(Request("POST", self.destination, headers, body), classify_ams)

    def _read_token(self, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = classify_authn(status, headers, body)
        if answer.kind == Outcome.ACCEPTED:
            self._token = token_of(body)
        return answer
