"""
The ARGO Messaging Service: a token for our certificate, then one message a request.

AMS stores the messages of a request one by one and returns only an error if one fails, so more than one in a
request cannot be told apart afterwards. The token stays in memory for one run and travels in a header only.
"""

from __future__ import annotations

import base64
import re
import secrets
import time
from urllib.parse import urlsplit

from arcacct import secrecy
from arcacct.errors import ConfigError
from arcacct.publishing.answers import Answer, Kind, error_of
from arcacct.publishing.session import Request, TargetSession
from arcacct.targets.apel.answers import classify_ams, classify_authn, token_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_ENCODED_BYTES = 1_000_000
"""The documented limit of a message's base64 text; the server itself gives up at 1,500,000 bytes as stored."""

AUTHN_PORT = 8443


def encoded_size(n_bytes: int) -> int:
    """The length of `n_bytes` in base64: what MAX_ENCODED_BYTES limits."""
    return (n_bytes + 2) // 3 * 4


def new_empaid(now_s: int | None = None) -> str:
    """
    A name for one message, ``YYYYMMDD/<14 hex digits>``: the UTC day and 56 random bits.

    Keep it with the message: the same name at each try lets APEL's operators recognise a repeat.
    """
    day = time.strftime("%Y%m%d", time.gmtime(now_s))
    return f"{day}/{secrets.token_hex(7)}"


class AMSClient:
    """
    Publishes to one topic.

    `url` is AMS's address, ``https://HOST[:PORT]``; the authn service is expected on `authn_port` of the same host,
    or of `authn_host`. The name asked for is the host's without a port: that is how authn knows it.
    A `static_token` makes authn unnecessary. Raises ConfigError for what cannot be part of a URL.
    """

    def __init__(
        self,
        url: str,
        project: str,
        topic: str,
        session: TargetSession,
        *,
        authn_port: int = AUTHN_PORT,
        authn_host: str | None = None,
        static_token: str | None = None,
    ) -> None:
        """Speak to nobody yet."""
        host = _https_host(url)
        for what, name in (("project", project), ("topic", topic)):
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ConfigError(f"{what}={name}: AMS allows letters, digits, '-' and '_'")
        authn_name = authn_host or host
        authority = f"[{authn_name}]" if ":" in authn_name else authn_name
        self._session = session
        self._publish_url = f"{url.rstrip('/')}/v1/projects/{project}/topics/{topic}:publish"
        self._token_url = f"https://{authority}:{authn_port}/v1/service-types/ams/hosts/{authority}:authx509"
        self._static = static_token is not None
        self._token = static_token
        if static_token is not None:
            # A proxy's or balancer's error page may quote the request's headers.
            secrecy.keep(static_token)

    def token(self) -> str:
        """
        The token for our certificate, asked for once in a run.

        Raises TargetBusy, TargetRefuses or CredentialError. It opens the topic to anyone: never print it.
        """
        answer = self._obtain_token()
        if self._token is None:
            raise error_of(answer, "AMS authn")
        return self._token

    def publish(self, data: bytes, empaid: str) -> Answer:
        """
        Send one signed message; a refused token is fetched anew once.

        The answer may be the authn service's, if that gives no token: then nothing was sent. What exceeds
        MAX_ENCODED_BYTES is not sent either, and is TOO_LARGE.
        """
        if encoded_size(len(data)) > MAX_ENCODED_BYTES:
            text = f"{encoded_size(len(data))} bytes in base64, {MAX_ENCODED_BYTES} are allowed"
            return Answer(Kind.TOO_LARGE, text=text)
        body = _publish_body(data, empaid)
        answer = self._obtain_token()
        if self._token is None:
            return answer
        answer = self._post(body, self._token)
        if answer.kind != Kind.TOKEN_REFUSED or self._static:
            return answer
        return self._post_anew(body, answer)

    def _post_anew(self, body: bytes, refused: Answer) -> Answer:
        """The second try after a 401; what is not known about the first stays unknown."""
        self._token = None
        answer = self._obtain_token()
        if self._token is not None:
            answer = self._post(body, self._token)
        if answer.kind == Kind.ACCEPTED:
            return answer
        return answer._replace(outcome_known=answer.outcome_known and refused.outcome_known)

    def _post(self, body: bytes, token: str) -> Answer:
        headers = {"x-api-key": token, "Content-Type": "application/json"}
        return self._session.exchange(Request("POST", self._publish_url, headers, body), classify_ams)

    def _obtain_token(self) -> Answer:
        """Make sure that there is a token; the answer says why if there is none then."""
        if self._token is not None:
            return Answer(Kind.ACCEPTED)
        got: list[str | None] = []

        def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
            got.append(token_of(body))
            return classify_authn(status, headers, body)

        answer = self._session.exchange(Request("GET", self._token_url, {}), judge)
        if answer.kind == Kind.ACCEPTED:
            self._token = got[-1]
        return answer


def _https_host(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ConfigError(
            f"targeturl={secrecy.without_login(url)}: AMS is reached at https://HOST or https://HOST:PORT"
        )
    return parts.hostname


def _publish_body(data: bytes, empaid: str) -> bytes:
    # AMS does not escape attributes when it stores them; base64 and these names need no escapes.
    if not re.fullmatch(r"[A-Za-z0-9/._-]+", empaid):
        raise ValueError(f"an empaid consists of letters, digits and / . _ -, not {empaid!r}")
    head = b'{"messages":[{"attributes":{"empaid":"' + empaid.encode() + b'"},"data":"'
    return head + base64.b64encode(data) + b'"}]}'
