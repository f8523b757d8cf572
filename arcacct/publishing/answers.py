"""
The meaning of a receiver's answers, and the deadline of the run that waits for them.

Functions turn an HTTP answer into one value, `Answer`. No content of an answer makes them fail. Each receiver has a
table of its own next to its formats (`sender.py` in its folder; for AMS `ams.py`). If no row of it matches, the
status alone decides, and never blames a record: quarantine needs a statement of the receiver.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from enum import StrEnum
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple

from arcacct.errors import ArcacctError, CredentialError, TargetBusy, TargetError, TargetRefuses
from arcacct.files.json_reader import parsed
from arcacct.wording import sanitise_line, without_secrets

TEXT_LIMIT = 500
_LOOKED_AT = 64 * TEXT_LIMIT
_LONGEST_DATE = 100
_MOST_JSON = 64 * 1024
"""Bytes. An answer that lists no records is short: a sentence or a token."""


class Outcome(StrEnum):
    """The six possible results of sending something (DESIGN section 5)."""

    ACCEPTED = "accepted"
    TRY_LATER = "try_later"
    TOO_LARGE = "too_large"
    TOKEN_REFUSED = "token_refused"  # noqa: S105  a kind of answer
    RECORDS_REFUSED = "records_refused"
    NOT_AUTHORISED_OR_MISCONFIGURED = "we_are_refused"


class Answer(NamedTuple):
    """
    One receiver's answer to one message.

    `status` is the HTTP status, None if none came. `text` is the receiver's text (at most 500 characters, no markup, no
    secrets), or ours if it sent none. `receiver_id` is the message id or file name that it gave.
    `outcome_known` is False if the receiver may have done the work without confirming it.
    `record_ids` are the sent ids that SGAS acknowledged. `receiver_rows` are the numbers of their rows there, by id: an
    existing number means that SGAS kept its version. `advice` says what the administrator can do. `about_credentials`:
    it concerns our certificate, key or token (exit code 77). `about_group`: it concerns only this message's group of
    records, which we may not report (`plug.RecordFormat.authorisation_group`); other groups may be allowed.
    `timed_out`: the receiver had the whole time that it may take, and may need more for so many records.
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
    timed_out: bool = False


def error_text(body: bytes) -> str:
    """
    Return the readable text of an answer's body, at most 500 characters on one line.

    AMS and authn wrap it in JSON, SGAS sends plain text, load balancers and Twisted send HTML.
    """
    said = error_message(body)
    if said is None:
        # A page can be megabytes long. Remove secrets before cutting, since a cut could split one.
        said = without_secrets(body.decode("utf-8", "replace"), _LOOKED_AT)[:_LOOKED_AT]
        if "<" in said:
            # From a page of Twisted take the error; take any other page whole.
            start = _TWISTED.search(said)
            end = said.find("</p>", start.end()) if start else -1
            said = _without_markup(said[start.end() : end] if start and end >= 0 else said)
    return sanitise_line(" ".join(said.split()), TEXT_LIMIT)


def _without_markup(page: str) -> str:
    # It only moves forward: a pattern that retries every start takes minutes for a hostile page.
    kept, at = [], 0
    while start := _NO_TEXT.search(page, at):
        kept.append(page[at : start.start()])
        end = re.compile(f"(?i)</{start[1]}").search(page, start.end())
        at = end.start() if end else len(page)
    return re.sub(r"<[^<>]*>", " ", " ".join([*kept, page[at:]]))


def error_of(answer: Answer) -> ArcacctError:
    """Return the error to raise or print for an answer that is not `ACCEPTED`: what happened, and what to do."""
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


def classify_status(
    status: int, headers: Mapping[str, str], said: str, advice: Mapping[int | None, str], *, to_message: bool = True
) -> Answer:
    """
    Return the meaning of a status, whether the service or a load balancer or proxy in front of it sends it.

    ``to_message``: the request had a message, which can be cut if it is too large.
    """
    if status == 413 and to_message:
        return Answer(Outcome.TOO_LARGE, status, said)
    if status in {408, 429} or (status >= 500 and status not in {501, 505}):
        # 429 and 503 refuse the request before any work; after the others some work may have been done.
        known = status in {429, 503}
        wait_s, timed_out = _retry_after_s(headers), status == 504
        return Answer(Outcome.TRY_LATER, status, said, None, wait_s, outcome_known=known, timed_out=timed_out)
    if 300 <= status < 400:
        where = sanitise_line(_header(headers, "Location"), TEXT_LIMIT - 100)
        said = f"redirects to {where or 'nowhere'}, which is not followed"
    # An unexpected success (201, 204) may have been a real one.
    known, todo = not 200 <= status < 300, advice.get(status, advice[None])
    return Answer(Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, status, said, outcome_known=known, advice=todo)


def _retry_after_s(headers: Mapping[str, str]) -> int | None:
    """
    Return the seconds to wait from Retry-After; None if it is neither a number nor a date.

    A date is compared with the answer's own Date, so only the receiver's clock matters.
    """
    value = _header(headers, "Retry-After")[:_LONGEST_DATE].strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    until_s, now_s = header_time(headers, "Retry-After"), header_time(headers, "Date")
    return None if until_s is None or now_s is None else max(0, until_s - now_s)


def header_time(headers: Mapping[str, str], name: str) -> int | None:
    """Return the date in a header, in UTC seconds; ``None`` if there is no valid one."""
    import calendar  # noqa: PLC0415  few answers need it
    import email.utils  # noqa: PLC0415

    try:
        date = email.utils.parsedate_to_datetime(_header(headers, name)[:_LONGEST_DATE])
        # The zone -0000 is UTC, too (RFC 5322, 3.3).
        return calendar.timegm(date.utctimetuple())
    except (TypeError, ValueError, OverflowError, LookupError):
        # Python's parser accepts numbers that are in no valid date.
        return None


def _header(headers: Mapping[str, str], name: str) -> str:
    return next((value for key, value in headers.items() if key.lower() == name.lower()), "")


def error_message(body: bytes) -> str | None:
    """Return ``error.message`` of AMS's and authn's JSON."""
    parsed = json_of(body)
    error = parsed.get("error") if isinstance(parsed, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else None


def json_of(body: bytes, most_bytes: int = _MOST_JSON) -> Any:
    """Return the JSON of a body; ``None`` if it is no JSON, is too long, or is nested deeper than any answer."""
    try:
        return parsed(body, most_length=most_bytes)
    except ValueError:
        return None


class RunDeadline:
    """
    The time limit of one target's run. It starts when the object is created.

    It is checked before each exchange and each wait. It never interrupts an exchange.
    """

    def __init__(self, run_s: float | None = None, stopping: Event | None = None) -> None:
        """``run_s``: the longest time of the run in seconds, ``None``: no limit. ``stopping`` ends the run at once."""
        self._run_s = run_s
        self._ends = float("inf") if run_s is None else time.monotonic() + run_s
        self._stopping = stopping or Event()

    def expired_reason(self) -> str | None:
        """Return why nothing more may start, as text; ``None`` if it may."""
        if self._stopping.is_set():
            return "stopped; the next run continues"
        if self.left_s() <= 0:
            return f"the time of this run is over (run_timeout={self._run_s:g}); the next run continues"
        return None

    def left_s(self) -> float:
        """Return the seconds that are left."""
        return self._ends - time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for some seconds, or until the run is stopped."""
        self._stopping.wait(seconds)
