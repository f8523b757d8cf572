"""
What a receiver said, and what that means for us.

Functions from an HTTP answer to one value, `Answer`; nothing that a receiver says makes them fail. Each receiver has a
table of its own beside its formats (`answers.py` in its folder). Anything that no row of it knows is judged by its
status alone, and never as the fault of a record: quarantine needs a receiver's word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from arcacct.errors import ArcacctError, CredentialError, TargetBusy, TargetError, TargetRefuses
from arcacct.files.json_reader import parsed
from arcacct.wording import sanitise_line, without_secrets

TEXT_LIMIT = 500
_LOOKED_AT = 64 * TEXT_LIMIT
_LONGEST_DATE = 100
_MOST_JSON = 64 * 1024
"""Bytes. What names no records is a sentence or a token."""


class Outcome(StrEnum):
    """The six ways in which sending something can end (DESIGN section 5)."""

    ACCEPTED = "accepted"
    TRY_LATER = "try_later"
    TOO_LARGE = "too_large"
    TOKEN_REFUSED = "token_refused"  # noqa: S105  a kind of answer
    RECORDS_REFUSED = "records_refused"
    NOT_AUTHORISED_OR_MISCONFIGURED = "we_are_refused"


class Answer(NamedTuple):
    """
    One receiver's answer to one message.

    `status` is the HTTP status, None if none came; `text` the receiver's own words (at most 500 characters, no
    markup, no secrets) or ours if it said nothing; `receiver_id` the message id or file name it gave.
    `outcome_known` is False when the receiver may have done the work although we were not told so.
    `record_ids` are the ids, of those sent, that SGAS acknowledged, `receiver_rows` the numbers of their rows there, by
    id: a number that was there before says that SGAS kept what it had. `advice` says what the administrator can do;
    `about_credentials` that it concerns our certificate, key or token (exit code 77), `about_group` only what we may
    not report of this message's group of records (`plug.RecordFormat.authorisation_group`): others may be ours.
    """

    kind: Outcome
    status: int | None = None
    text: str = ""
    receiver_id: str | None = None
    retry_after_s: int | None = None
    outcome_known: bool = True
    record_ids: frozenset[str] | None = None
    receiver_rows: Mapping[str, str] = MappingProxyType({})
    advice: str = ""
    about_credentials: bool = False
    about_group: bool = False


def error_text(body: bytes) -> str:
    """
    What an answer's body says to a person, in at most 500 characters on one line.

    AMS and authn wrap it in JSON, SGAS says it plainly, balancers and Twisted in HTML.
    """
    said = error_message(body)
    if said is None:
        # A page may be megabytes of nothing; secrets go first, since one may lie across any cut.
        said = without_secrets(body.decode("utf-8", "replace"), _LOOKED_AT)[:_LOOKED_AT]
        if "<" in said:
            # Of a page of Twisted's the error, any other as it is.
            start = _TWISTED.search(said)
            end = said.find("</p>", start.end()) if start else -1
            said = _without_markup(said[start.end() : end] if start and end >= 0 else said)
    return sanitise_line(" ".join(said.split()), TEXT_LIMIT)


def _without_markup(page: str) -> str:
    # In steps that only go forward: a pattern that tries each beginning again takes minutes for a hostile page.
    kept, at = [], 0
    while start := _NO_TEXT.search(page, at):
        kept.append(page[at : start.start()])
        end = re.compile(f"(?i)</{start[1]}").search(page, start.end())
        at = end.start() if end else len(page)
    return re.sub(r"<[^<>]*>", " ", " ".join([*kept, page[at:]]))


def error_of(answer: Answer) -> ArcacctError:
    """The error to raise or to print for an answer that is not `ACCEPTED`: what, and what to do."""
    text = answer.text or "no explanation"
    if answer.status is not None:
        text = f"HTTP {answer.status}: {text}"
    if answer.advice:
        text = f"{text}; {answer.advice}"
    if answer.about_credentials:
        return CredentialError(text)
    if answer.kind == Outcome.TRY_LATER:
        return TargetBusy(text)
    return TargetRefuses(text) if answer.kind == Outcome.NOT_AUTHORISED_OR_MISCONFIGURED else TargetError(text)


_NO_TEXT = re.compile(r"(?i)<(script|style)\b")
_TWISTED = re.compile('(?i)<p class="error">')


def classify_status(status: int, headers: Mapping[str, str], said: str, advice: Mapping[int | None, str]) -> Answer:
    """What a status means whoever says it: the service, a balancer or a proxy before it."""
    if status == 413:
        return Answer(Outcome.TOO_LARGE, status, said)
    if status in {408, 429} or (status >= 500 and status not in {501, 505}):
        # 429 and 503 turn us away at the door; behind the others something may have been done.
        known = status in {429, 503}
        return Answer(Outcome.TRY_LATER, status, said, retry_after_s=_retry_after_s(headers), outcome_known=known)
    if 300 <= status < 400:
        where = sanitise_line(_header(headers, "Location"), TEXT_LIMIT - 100)
        said = f"redirects to {where or 'nowhere'}, which is not followed"
    # A success that is not ours (201, 204) may have been one.
    known = not 200 <= status < 300
    return Answer(
        Outcome.NOT_AUTHORISED_OR_MISCONFIGURED,
        status,
        said,
        outcome_known=known,
        advice=advice.get(status, advice[None]),
    )


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """
    Seconds to wait, None for what is neither a number nor a date.

    A date is compared with the answer's own Date, so no clock but the receiver's matters.
    """
    value = _header(headers, "Retry-After")[:_LONGEST_DATE].strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    import email.utils  # noqa: PLC0415  few answers have a date

    try:
        until = email.utils.parsedate_to_datetime(value)
        wait = until - email.utils.parsedate_to_datetime(_header(headers, "Date")[:_LONGEST_DATE])
    except (TypeError, ValueError, OverflowError, LookupError):
        # Python's parser lets numbers through that no date has.
        return None
    return max(0, int(wait.total_seconds()))


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name.lower()), "")


def error_message(body: bytes) -> str | None:
    """``error.message`` of AMS's and authn's JSON."""
    parsed = json_of(body)
    error = parsed.get("error") if isinstance(parsed, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else None


def json_of(body: bytes, most_bytes: int = _MOST_JSON) -> Any:
    """The JSON of a body; ``None`` for what is none, is longer, or is nested deeper than any answer."""
    try:
        return parsed(body, most_length=most_bytes)
    except ValueError:
        return None
