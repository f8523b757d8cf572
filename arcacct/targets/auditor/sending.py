"""
AUDITOR: many records in one request, all of them stored or none.

What is there already makes the whole request fail, or, as the server may be configured (ignore_record_exists_error),
succeed without anything being stored. So an empty 200 to several records is believed only after one of them was sent
once more, alone, and called there: a server that says so would have said so before. In every other case each record
goes alone, where 200 and RECORD_EXISTS both mean that it is there. None of it needs the right to read.

Where the server may hold another version of a record than the one sent it is read back, if we may. One that differs in
its end alone is put right; of another the ledger is told that the server keeps it (`ledger.KEPT`, `ledger.OTHER`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from arcacct.publishing.answers import Answer, Kind, json_of
from arcacct.publishing.ledger import KEPT, OTHER, Message
from arcacct.publishing.plug import Sender
from arcacct.publishing.session import Request, TargetSession
from arcacct.targets.auditor.answers import classify, classify_read
from arcacct.targets.auditor.record import DOCUMENT

_HEADERS = {"Content-Type": "application/json"}


class AuditorSender(Sender):
    """One target's way to its server."""

    session: TargetSession

    def __init__(self, url: str, session: TargetSession) -> None:
        """``url``: the server's, without a slash at its end."""
        self.session = session
        self.destination = url
        self._hides_repeats = False
        """Whether it was seen to answer 200 to a record that was there."""
        self._may_read = True

    def send(self, message: Message) -> Answer:
        texts = DOCUMENT.cut(self.unpack(message.data))
        in_doubt = [one.replaced_id is not None for one in message.records]
        if len(texts) > 1 and not self._hides_repeats:
            answer = self._send("POST", "/records", message.data)
            if answer.kind != Kind.ACCEPTED or (answer.status == 200 and self._is_proven(texts[0])):
                return answer
        return self._send_each(texts, in_doubt)

    def _is_proven(self, text: str) -> bool:
        """Whether the server calls a record there that it was just sent."""
        again = self._send("POST", "/record", text.encode())
        self._hides_repeats = (again.kind, again.status) == (Kind.ACCEPTED, 200)
        return (again.kind, again.status) == (Kind.ACCEPTED, 500)

    def _send_each(self, texts: Sequence[str], in_doubt: Sequence[bool]) -> Answer:
        rows: dict[str, str] = {}
        for text, is_doubtful in zip(texts, in_doubt, strict=True):
            answer = self._send("POST", "/record", text.encode())
            if answer.kind != Kind.ACCEPTED:
                return answer
            if answer.status == 500 or (is_doubtful and not self._is_proven(text)):
                answer = self._compare(json.loads(text), rows)
                if answer.kind != Kind.ACCEPTED:
                    return answer
            elif self._hides_repeats:
                # It is there now; of a server that says no more nobody knows since when.
                rows[json.loads(text)["record_id"]] = KEPT
        return Answer(Kind.ACCEPTED, 200, f"{len(texts)} sent one by one", receiver_rows=rows)

    def _compare(self, sent: dict[str, Any], rows: dict[str, str]) -> Answer:
        """Look at a record that was there, and note in ``rows`` if it is not what was sent, or cannot be looked at."""
        record_id = sent["record_id"]
        answer, there = self._read(record_id)
        if there is None:
            rows[record_id] = KEPT
            return answer
        if _same(there, sent, but="stop_time"):
            return answer if _same(there, sent) else self._send("PUT", "/record", json.dumps(sent).encode())
        rows[record_id] = OTHER
        return answer

    def _read(self, record_id: str) -> tuple[Answer, Mapping[str, Any] | None]:
        """A record of the server's; ``None`` where it shows none to us. The answer is only a failure that passes."""
        there: list[Any] = []

        def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
            there.append(json_of(body) if status == 200 else None)
            return classify_read(status, headers, body)

        if not self._may_read:
            return Answer(Kind.ACCEPTED), None
        url = f"{self.destination}/record/{quote(record_id, safe='')}"
        answer = self.session.exchange(Request("GET", url, {}), judge)
        self._may_read = answer.status not in (401, 403)
        if answer.kind == Kind.TRY_LATER and answer.status != 500:
            return answer, None
        found = there[-1] if there else None
        return Answer(Kind.ACCEPTED), found if isinstance(found, Mapping) else None

    def _send(self, method: str, path: str, data: bytes) -> Answer:
        return self.session.exchange(Request(method, self.destination + path, _HEADERS, data), classify)


def _same(there: Mapping[str, Any], sent: Mapping[str, Any], *, but: str = "") -> bool:
    """Whether the server has what was sent; it adds a run time, and may order what has no order."""
    try:
        return all(_plain(there.get(key)) == _plain(value) for key, value in sent.items() if key != but)
    except RecursionError:
        # Arrays in arrays, by the hundred: nothing that we sent.
        return False


def _plain(value: Any) -> Any:
    """A value to be compared: times as seconds, arrays without their order, 1 as 1.0."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted((_plain(one) for one in value), key=repr)
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
    except ValueError:
        return value
