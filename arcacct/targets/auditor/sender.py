"""Records posted to AUDITOR, many in one request, and the meaning of its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from arcacct.files.json_reader import BeyondBoundsError, parsed
from arcacct.publishing.answers import TEXT_LIMIT, Answer, Outcome, classify_status, error_text
from arcacct.publishing.ledger import KEPT, OTHER, Message
from arcacct.publishing.plugin import Sender
from arcacct.publishing.transport import Request, Transport
from arcacct.targets.auditor.record import DOCUMENT
from arcacct.wording import sanitise_line

# AUDITOR's answers, and their meaning. Its own client treats everything except RECORD_EXISTS as success. Here only an
# empty 200 is a success, and RECORD_EXISTS is a separate answer: the record exists, from any sender.


RECORD_EXISTS = "RECORD_EXISTS"
"""The body of the 500 for an existing record, or for several with one existing."""
UNEXPECTED_ERROR = "UNEXPECTED_ERROR"
"""The body of the 500 for any error of its database."""

_ADVICE = {
    401: "check targeturl: the answer is not from AUDITOR",
    403: "ask AUDITOR's administrator to put the common name (CN) of this host's certificate into write_access_cn",
    404: "check targeturl: it must be https://HOST:PORT, without /record",
    None: "check targeturl: the answer is not from AUDITOR",
}


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge AUDITOR's answer to a request with records.

    `ACCEPTED` with status 500: a record exists already (if there are several, the others are not stored).
    """
    said = error_text(body)
    if status == 200 and not body.strip():
        return Answer(Outcome.ACCEPTED, 200)
    if status == 500 and said == RECORD_EXISTS:
        return Answer(Outcome.ACCEPTED, 500, RECORD_EXISTS)
    if status == 500 and said == UNEXPECTED_ERROR:
        # An error of the database: a value that it cannot hold, or another fault; the answer does not show which.
        return Answer(Outcome.RECORDS_REFUSED, 500, said, outcome_known=False)
    if status == 400 and b"<" not in body:
        return Answer(Outcome.RECORDS_REFUSED, 400, said)
    return classify_status(status, headers, said, _ADVICE)


def classify_probe(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge its answer to a health request: 200, or 403 if it admits only certain certificates.

    (Its rule for such a request has another path than the request, so no client may then send it.)
    """
    if status in {200, 403}:
        return Answer(Outcome.ACCEPTED, status)
    return classify_status(status, headers, error_text(body), _ADVICE, to_message=False)


# AUDITOR: many records in one request, all of them stored or none. An existing record makes the whole request fail, or,
# with ignore_record_exists_error, succeed without storing anything. So an empty 200 to several records counts only
# after one of them was sent again alone and reported as existing: such a server would have reported it before. In every
# other case each record is sent alone, and both 200 and RECORD_EXISTS mean that it exists. None of this needs the right
# to read.  If the server may have another version of a sent record, that is read back, if we have the right. If it
# differs only in its end, it is corrected; otherwise the ledger stores that the server keeps it (`ledger.KEPT`,
# `ledger.OTHER`). An answer that is much larger or deeper than a record is not compared.


_HEADERS = {"Content-Type": "application/json"}
_MOST_DEPTH = 8
"""Levels of what is read back. A record has 5: itself, components, one of them, its scores, one of them."""


class AuditorSender(Sender):
    """The sender of one target to its server."""

    transport: Transport

    def __init__(self, url: str, session: Transport) -> None:
        """``url``: the server's, without a slash at its end."""
        self.transport = session
        self.destination = url
        self._hides_repeats = False
        """Whether it has answered 200 to an existing record."""
        self._may_read = True

    def send(self, message: Message) -> Answer:
        texts = DOCUMENT.cut(self.unpack(message.data))
        in_doubt = [one.replaced_id is not None for one in message.records]
        if len(texts) > 1 and not self._hides_repeats:
            answer = self._send("POST", "/records", message.data)
            if answer.kind != Outcome.ACCEPTED or (answer.status == 200 and self._is_proven(texts[0])):
                return answer
        return self._send_each(texts, in_doubt)

    def _is_proven(self, text: str) -> bool:
        """Whether the server calls a record there that it was just sent."""
        again = self._send("POST", "/record", text.encode())
        self._hides_repeats = (again.kind, again.status) == (Outcome.ACCEPTED, 200)
        return (again.kind, again.status) == (Outcome.ACCEPTED, 500)

    def _send_each(self, texts: Sequence[str], in_doubt: Sequence[bool]) -> Answer:
        rows: dict[str, str] = {}
        unlike: list[str] = []
        for text, is_doubtful in zip(texts, in_doubt, strict=True):
            answer = self._send("POST", "/record", text.encode())
            if answer.kind != Outcome.ACCEPTED:
                return answer
            if answer.status == 500 or (is_doubtful and not self._is_proven(text)):
                answer = self._compare(text, rows, unlike)
                if answer.kind != Outcome.ACCEPTED:
                    return answer
            elif self._hides_repeats:
                # It is there now; without more data from the server, the time is unknown.
                rows[json.loads(text)["record_id"]] = KEPT
        said = "; ".join((f"{len(texts)} sent one by one", *unlike))
        return Answer(Outcome.ACCEPTED, 200, sanitise_line(said, TEXT_LIMIT), receiver_rows=rows)

    def _compare(self, text: str, rows: dict[str, str], unlike: list[str]) -> Answer:
        """
        Look at a record that was there, and note in ``rows`` if it is not what was sent, or cannot be looked at.

        ``unlike`` gets a sentence about an answer that no record can be. The answer is a failure only if that passes.
        """
        found: list[bytes] = []

        def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
            if status != 200:
                return classify_status(status, headers, error_text(body), _ADVICE)
            found.append(body)
            return Answer(Outcome.ACCEPTED, 200)

        sent = json.loads(text)
        record_id = sent["record_id"]
        if self._may_read:
            url = f"{self.destination}/record/{quote(record_id, safe='')}"
            answer = self.transport.request(Request("GET", url, {}), judge)
            self._may_read = answer.status not in (401, 403)
            if answer.kind == Outcome.TRY_LATER and answer.status != 500:
                return answer
        there: Any = None
        try:
            # The server changes the spelling of a few values, and adds some.
            there = parsed(found[-1], most_depth=_MOST_DEPTH, most_length=4 * len(text) + 4096) if found else None
        except BeyondBoundsError as error:
            unlike.append(f"{record_id}: the server has {error} for it, which is not our record")
            there = {}
        except ValueError:
            # A record that was read only in part counts as not read.
            pass
        if not isinstance(there, dict):
            rows[record_id] = KEPT
        elif not _same(there, sent, but="stop_time"):
            rows[record_id] = OTHER
        elif not _same(there, sent):
            return self._send("PUT", "/record", text.encode())
        return Answer(Outcome.ACCEPTED)

    def _send(self, method: str, path: str, data: bytes) -> Answer:
        return self.transport.request(Request(method, self.destination + path, _HEADERS, data), classify)


def _same(there: Mapping[str, Any], sent: Mapping[str, Any], *, but: str = "") -> bool:
    """Whether the server has what was sent; it adds a run time, and may order what has no order."""
    return all(_spelt(there.get(key)) == _spelt(value) for key, value in sent.items() if key != but)


def _spelt(value: Any) -> str:
    """A value as the text that all like it have: times in seconds, arrays and members sorted, 1.0 as 1."""
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{json.dumps(key)}:{_spelt(one)}' for key, one in value.items()))}}}"
    if isinstance(value, list):
        return f"[{','.join(sorted(map(_spelt, value)))}]"
    if isinstance(value, str):
        with suppress(ValueError, OverflowError, OSError):
            return f"time {datetime.fromisoformat(value).timestamp()}"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else json.dumps(value)
