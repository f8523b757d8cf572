"""What AMS and its authn service answer (argo-messaging, argo-api-authn): their own rows of `publishing.plugin`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from arcacct import secrecy
from arcacct.publishing.plugin import TEXT_LIMIT, Answer, Outcome, classify_status, error_message, error_text, json_of
from arcacct.wording import sanitise_line

_LONGEST_TOKEN = 4096


def classify_ams(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge what AMS answered to ``topics/T:publish`` with one message."""
    said = error_text(body)
    if status == 200:
        parsed = json_of(body)
        ids = parsed.get("messageIds") if isinstance(parsed, dict) else None
        if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], str | int):
            return Answer(Outcome.ACCEPTED, 200, receiver_id=sanitise_line(str(ids[0]), TEXT_LIMIT))
        advice = _ADVICE_AMS[None]
        return Answer(
            Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 200, said or "an empty answer", outcome_known=False, advice=advice
        )
    if status == 401:
        return Answer(Outcome.TOKEN_REFUSED, 401, said, advice=_ADVICE_TOKEN, about_credentials=True)
    if status == 400 and error_message(body) and not said.startswith(("Invalid topic name", "Invalid project name")):
        return Answer(Outcome.RECORDS_REFUSED, 400, said)
    return classify_status(status, headers, said, _ADVICE_AMS)


def classify_authn(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge what the authn service answered when asked for a token.

    An accepted answer has no text: its body is the secret. What looks like a token in any other is a secret of the run
    from here on, and of a success that we do not know nothing is told. Nothing is ever half done here.
    """
    for token in _tokens(body):
        secrecy.keep(token)
    if status == 200:
        if token_of(body) is not None:
            return Answer(Outcome.ACCEPTED, 200)
        return Answer(
            Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 200, "no token in the answer", advice=_ADVICE_AUTHN[None]
        )
    said = "an answer that may hold a token, so it is not shown" if 200 <= status < 300 else error_text(body)
    answer = classify_status(status, headers, said, _ADVICE_AUTHN)
    if answer.kind == Outcome.TOO_LARGE:
        # No message of ours was there: cutting it would help nobody, and leave single records in doubt.
        answer = answer._replace(kind=Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, advice=_ADVICE_AUTHN[None])
    return answer._replace(outcome_known=True, about_credentials=status in {400, 401, 403})


def classify_ams_status(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge what AMS answered when asked how it is; it asks nobody who he is for that."""
    parsed = json_of(body)
    if status == 200 and isinstance(parsed, dict) and "status" in parsed:
        said = sanitise_line(str(parsed["status"]), TEXT_LIMIT)
        return Answer(Outcome.ACCEPTED if said == "ok" else Outcome.TRY_LATER, 200, f"AMS says {said}")
    if status == 200:
        return Answer(
            Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 200, error_text(body) or "an empty answer", advice=_ADVICE_STATUS
        )
    answer = classify_status(status, headers, error_text(body), {None: _ADVICE_STATUS})
    return answer._replace(kind=Outcome.NOT_AUTHORISED_OR_MISCONFIGURED) if answer.kind == Outcome.TOO_LARGE else answer


def token_of(body: bytes) -> str | None:
    """The token in authn's answer, None if there is none that can be sent in a header."""
    parsed = json_of(body)
    token = parsed.get("token") if isinstance(parsed, dict) else None
    can_be_sent = isinstance(token, str) and len(token) <= _LONGEST_TOKEN and re.fullmatch(r"[\x21-\x7e]+", token)
    return token if can_be_sent else None


def _tokens(body: bytes) -> Iterator[str]:
    """Everything that calls itself a token, also in what is no JSON, since it was cut or stands in a page."""
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
    None: "check targeturl: this is not what AMS answers",
}

_ADVICE_STATUS = "check targeturl: this is not what AMS answers"

_ADVICE_AUTHN = {
    400: "check x509_host_cert, and that this host's address resolves back to its name",
    403: "renew the host certificate, or ask its CA: the authn service does not accept it",
    404: "register the exact subject of the host certificate as Host DN of a gLite-APEL service in GOCDB "
    "(it takes up to four hours to arrive), and check targeturl",
    None: "check targeturl and authn_port: this is not what the AMS authn service answers",
}
