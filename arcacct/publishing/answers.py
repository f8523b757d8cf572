"""
What a receiver said, and what that means for us.

Functions from an HTTP answer to one value, `Answer`; nothing that a receiver says makes them fail. Each rule is a row
of a receiver's own table: AMS and its authn service (argo-messaging, argo-api-authn), SGAS (the LUTS server behind
nginx). Anything that no row knows is judged by its status alone, and never as the fault of a record: quarantine needs
a receiver's word.
"""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from arcacct import secrecy
from arcacct.errors import ArcacctError, CredentialError, TargetBusy, TargetError, TargetRefuses
from arcacct.wording import fit, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

TEXT_LIMIT = 500
_LOOKED_AT = 64 * TEXT_LIMIT
_LONGEST_TOKEN = 4096
_LONGEST_ROW = 40
_LONGEST_DATE = 100


class Kind(StrEnum):
    """The six ways in which sending something can end (DESIGN section 5)."""

    ACCEPTED = "accepted"
    TRY_LATER = "try_later"
    TOO_LARGE = "too_large"
    TOKEN_REFUSED = "token_refused"  # noqa: S105  a kind of answer
    RECORDS_REFUSED = "records_refused"
    WE_ARE_REFUSED = "we_are_refused"


class Answer(NamedTuple):
    """
    One receiver's answer to one message.

    `status` is the HTTP status, None if none came; `text` the receiver's own words (at most 500 characters, no
    markup, no secrets) or ours if it said nothing; `receiver_id` the message id or file name it gave.
    `outcome_known` is False when the receiver may have done the work although we were not told so.
    `record_ids` are the ids, of those sent, that SGAS acknowledged, `receiver_rows` the numbers of their rows there, by
    id: a number that was there before says that SGAS kept what it had. `advice` says what the administrator can do;
    `about_credentials` that it concerns our certificate, key or token (exit code 77).
    """

    kind: Kind
    status: int | None = None
    text: str = ""
    receiver_id: str | None = None
    retry_after_s: int | None = None
    outcome_known: bool = True
    record_ids: frozenset[str] | None = None
    receiver_rows: Mapping[str, str] = MappingProxyType({})
    advice: str = ""
    about_credentials: bool = False


def classify_ams(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge what AMS answered to ``topics/T:publish`` with one message."""
    if status == 200:
        return _ams_accepted(body)
    said = words(body)
    if status == 401:
        return Answer(Kind.TOKEN_REFUSED, 401, said, advice=_ADVICE_TOKEN, about_credentials=True)
    if status == 400 and _error_message(body) and not said.startswith(("Invalid topic name", "Invalid project name")):
        return Answer(Kind.RECORDS_REFUSED, 400, said)
    return _by_status(status, headers, said, _ADVICE_AMS)


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
            return Answer(Kind.ACCEPTED, 200)
        return Answer(Kind.WE_ARE_REFUSED, 200, "no token in the answer", advice=_ADVICE_AUTHN[None])
    said = "an answer that may hold a token, so it is not shown" if 200 <= status < 300 else words(body)
    answer = _by_status(status, headers, said, _ADVICE_AUTHN)
    if answer.kind == Kind.TOO_LARGE:
        # No message of ours was there: cutting it would help nobody, and leave single records in doubt.
        answer = answer._replace(kind=Kind.WE_ARE_REFUSED, advice=_ADVICE_AUTHN[None])
    return answer._replace(outcome_known=True, about_credentials=status in {400, 401, 403})


def classify_sgas(status: int, headers: Mapping[str, str], body: bytes, sent_ids: Collection[str]) -> Answer:
    """
    Judge what SGAS answered to a document with the records `sent_ids`.

    A mapping from recordId to GlobalJobId as `sent_ids` lets an answer keyed by GlobalJobId count as the record's:
    SGAS renames records whose LocalJobId is longer than 120 characters or starts with a slash.
    """
    if status == 200:
        return _sgas_inserted(body, sent_ids)
    said = words(body)
    if status == 500:
        if _SGAS_TRANSIENT.search(said):
            return Answer(Kind.TRY_LATER, 500, said, outcome_known=False)
        return Answer(Kind.RECORDS_REFUSED, 500, said)
    answer = _by_status(status, headers, said, _ADVICE_SGAS)
    return answer._replace(about_credentials=status == 400 and "certificate" in said.lower())


def token_of(body: bytes) -> str | None:
    """The token in authn's answer, None if there is none that can be sent in a header."""
    parsed = _json(body)
    token = parsed.get("token") if isinstance(parsed, dict) else None
    can_be_sent = isinstance(token, str) and len(token) <= _LONGEST_TOKEN and re.fullmatch(r"[\x21-\x7e]+", token)
    return token if can_be_sent else None


def _tokens(body: bytes) -> Iterator[str]:
    """Everything that calls itself a token, also in what is no JSON, since it was cut or stands in a page."""
    waiting = [_json(body)]
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


def words(body: bytes) -> str:
    """
    What an answer's body says to a person, in at most 500 characters on one line.

    AMS and authn wrap it in JSON, SGAS says it plainly, balancers and Twisted in HTML.
    """
    said = _error_message(body)
    if said is None:
        # A page may be megabytes of nothing; secrets go first, since one may lie across any cut.
        said = without_secrets(body.decode("utf-8", "replace"), _LOOKED_AT)[:_LOOKED_AT]
        if "<" in said:
            said = _without_markup(_of_twisted(said))
    return fit(" ".join(said.split()), TEXT_LIMIT)


def _of_twisted(page: str) -> str:
    """The error in a page of Twisted's; any other page as it is."""
    start = _TWISTED.search(page)
    end = page.find("</p>", start.end()) if start else -1
    return page[start.end() : end] if start and end >= 0 else page


def _without_markup(page: str) -> str:
    # In steps that only go forward: a pattern that tries each beginning again takes minutes for a hostile page.
    kept, at = [], 0
    while start := _NO_TEXT.search(page, at):
        kept.append(page[at : start.start()])
        end = re.compile(f"(?i)</{start[1]}").search(page, start.end())
        at = end.start() if end else len(page)
    return re.sub(r"<[^<>]*>", " ", " ".join([*kept, page[at:]]))


def error_of(answer: Answer, service: str = "") -> ArcacctError:
    """The error to raise or to print for an answer that is not `ACCEPTED`: what, and what to do."""
    said = answer.text or "no explanation"
    parts = (service, "" if answer.status is None else f"HTTP {answer.status}", said)
    what = ": ".join(part for part in parts if part)
    text = f"{what}; {answer.advice}" if answer.advice else what
    if answer.about_credentials:
        return CredentialError(text)
    if answer.kind == Kind.TRY_LATER:
        return TargetBusy(text)
    return TargetRefuses(text) if answer.kind == Kind.WE_ARE_REFUSED else TargetError(text)


_NO_TEXT = re.compile(r"(?i)<(script|style)\b")
_TWISTED = re.compile('(?i)<p class="error">')

# PostgreSQL's and psycopg2's words for what passes by itself: a lost connection, a deadlock, two inserts at once.
_SGAS_TRANSIENT = re.compile(
    r"(?i)OperationalError|deadlock detected|duplicate key value|unique constraint|could not serialize"
    r"|server closed the connection|terminating connection|connection (already closed|not open|refused)"
)

_ADVICE_TOKEN = "the token was rotated, or its user is not a member of the project: ask the AMS team"  # noqa: S105  no token
_ADVICE_AMS = {
    400: "check project, topic and targeturl",
    403: "our AMS user may not publish to this topic: ask the AMS team for the publisher role",
    404: "check project, topic and targeturl: AMS has no such project or topic",
    None: "check targeturl: this is not what AMS answers",
}
_ADVICE_AUTHN = {
    400: "check x509_host_cert, and that this host's address resolves back to its name",
    403: "renew the host certificate, or ask its CA: the authn service does not accept it",
    404: "register the exact subject of the host certificate as Host DN of a gLite-APEL service in GOCDB "
    "(it takes up to four hours to arrive), and check targeturl",
    None: "check targeturl and authn_port: this is not what the AMS authn service answers",
}
_ADVICE_SGAS = {
    400: "check x509_host_cert and x509_cert_dir: the server wants a client certificate it can verify",
    403: "ask the SGAS administrator for the jobinsert right, for the subject exactly as the server sees it "
    "(/O=.../CN=host and CN=host,O=... are different to SGAS)",
    404: "check targeturl: it ends in /ur, without a slash behind",
    406: "the certificate's domain is not that of these machines: ask the SGAS administrator for "
    "jobinsert:machine_name=..., or correct the host names",
    None: "check targeturl: this is not what SGAS answers",
}


def _ams_accepted(body: bytes) -> Answer:
    parsed = _json(body)
    ids = parsed.get("messageIds") if isinstance(parsed, dict) else None
    if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], str | int):
        return Answer(Kind.ACCEPTED, 200, receiver_id=fit(str(ids[0]), TEXT_LIMIT))
    said = words(body) or "an empty answer"
    return Answer(Kind.WE_ARE_REFUSED, 200, said, outcome_known=False, advice=_ADVICE_AMS[None])


def _sgas_inserted(body: bytes, sent_ids: Collection[str]) -> Answer:
    parsed = _json(body)
    if parsed is None and body.strip() == b"null":
        # SGAS lost its database connection, inserted again and lost that result: the rows are there.
        said = "null: inserted, but the ids were lost"
        return Answer(Kind.TRY_LATER, 200, said, outcome_known=False)
    if not isinstance(parsed, dict):
        said = words(body) or "an empty answer"
        return Answer(Kind.WE_ARE_REFUSED, 200, said, outcome_known=False, advice=_ADVICE_SGAS[None])
    stored = _acknowledged(parsed.keys(), sent_ids)
    missing = sorted(set(sent_ids) - stored)
    if not missing:
        return Answer(Kind.ACCEPTED, 200, record_ids=stored, receiver_rows=_rows(parsed, sent_ids))
    # One transaction for all: an id that is not named is a record that SGAS did not see as a record.
    said = f"{len(missing)} of {len(set(sent_ids))} records not named in the answer: {', '.join(missing)}"
    return Answer(Kind.RECORDS_REFUSED, 200, fit(said, TEXT_LIMIT), outcome_known=False, record_ids=stored)


def _acknowledged(keys: Collection[str], sent_ids: Collection[str]) -> frozenset[str]:
    """The sent ids that `keys` name, by themselves or by the GlobalJobId that SGAS put in their place."""
    if not isinstance(sent_ids, Mapping):
        return frozenset(sent_ids) & frozenset(keys)
    return frozenset(record_id for record_id, job_id in sent_ids.items() if record_id in keys or job_id in keys)


def _rows(parsed: Mapping[str, object], sent_ids: Collection[str]) -> dict[str, str]:
    """The number of each record's row, by the id that was sent."""
    names = sent_ids if isinstance(sent_ids, Mapping) else {}
    found = {one: parsed.get(one, parsed.get(names.get(one, ""))) for one in sent_ids}
    return {one: fit(str(row))[:_LONGEST_ROW] for one, row in found.items() if isinstance(row, str | int)}


def _by_status(status: int, headers: Mapping[str, str], said: str, advice: Mapping[int | None, str]) -> Answer:
    """What a status means whoever says it: the service, a balancer or a proxy before it."""
    if status == 413:
        return Answer(Kind.TOO_LARGE, status, said)
    if status in {408, 429} or (status >= 500 and status not in {501, 505}):
        # 429 and 503 turn us away at the door; behind the others something may have been done.
        known = status in {429, 503}
        return Answer(Kind.TRY_LATER, status, said, retry_after_s=_retry_after_s(headers), outcome_known=known)
    if 300 <= status < 400:
        where = fit(_header(headers, "Location"), TEXT_LIMIT - 100)
        said = f"redirects to {where or 'nowhere'}, which is not followed"
    # A success that is not ours (201, 204) may have been one.
    known = not 200 <= status < 300
    return Answer(Kind.WE_ARE_REFUSED, status, said, outcome_known=known, advice=advice.get(status, advice[None]))


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """
    Seconds to wait, None for what is neither a number nor a date.

    A date is compared with the answer's own Date, so no clock but the receiver's matters.
    """
    value = _header(headers, "Retry-After")[:_LONGEST_DATE].strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    try:
        until = email.utils.parsedate_to_datetime(value)
        wait = until - email.utils.parsedate_to_datetime(_header(headers, "Date")[:_LONGEST_DATE])
    except (TypeError, ValueError, OverflowError, LookupError):
        # Python's parser lets numbers through that no date has.
        return None
    return max(0, int(wait.total_seconds()))


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name.lower()), "")


def _error_message(body: bytes) -> str | None:
    """``error.message`` of AMS's and authn's JSON."""
    parsed = _json(body)
    error = parsed.get("error") if isinstance(parsed, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
