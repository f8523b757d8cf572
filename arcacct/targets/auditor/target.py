"""AUDITOR as a target: how it is dealt with, how records are sent, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.files.json_reader import BeyondBoundsError, parsed
from arcacct.publishing.ledger import KEPT, OTHER, Message
from arcacct.publishing.plugin import (
    TEXT_LIMIT,
    Acceptance,
    Answer,
    DuplicatePolicy,
    Outcome,
    RecordFormat,
    RenderedRecord,
    Sender,
    TargetPlugin,
    classify_status,
    error_text,
)
from arcacct.publishing.transport import Request, Transport
from arcacct.records.model import AAR
from arcacct.targets.auditor import record
from arcacct.targets.auditor.acceptance import accept
from arcacct.targets.auditor.options import LONGEST_NAME, AuditorTarget
from arcacct.targets.auditor.record import DOCUMENT, RecordOptions, headnode, record_id
from arcacct.targets.common import quoted
from arcacct.targets.parts import FieldCache
from arcacct.wording import count_of, sanitise_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy


# What AUDITOR said, and what that means for us.
#
# Its own client takes everything but RECORD_EXISTS for success. Here only an empty 200 is one, and RECORD_EXISTS is an
# answer of its own: whoever sent the record, it is there.


RECORD_EXISTS = "RECORD_EXISTS"
"""The body of the 500 for a record that is there, or for several of which one is."""
UNEXPECTED_ERROR = "UNEXPECTED_ERROR"
"""The body of the 500 for whatever its database says."""

_ADVICE = {
    401: "check targeturl: this is not what AUDITOR answers",
    403: "ask AUDITOR's administrator to put the common name (CN) of this host's certificate into write_access_cn",
    404: "check targeturl: it is https://HOST:PORT, without /record",
    None: "check targeturl: this is not what AUDITOR answers",
}


def classify(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge what AUDITOR answered to a request that brings records.

    `ACCEPTED` with status 500: a record is there already (of several, the others are not stored).
    """
    said = error_text(body)
    if status == 200 and not body.strip():
        return Answer(Outcome.ACCEPTED, 200)
    if status == 500 and said == RECORD_EXISTS:
        return Answer(Outcome.ACCEPTED, 500, RECORD_EXISTS)
    if status == 500 and said == UNEXPECTED_ERROR:
        # The database's: a value that it cannot hold, or a fault of its own, and nothing tells which.
        return Answer(Outcome.RECORDS_REFUSED, 500, said, outcome_known=False)
    if status == 400 and b"<" not in body:
        return Answer(Outcome.RECORDS_REFUSED, 400, said)
    return classify_status(status, headers, said, _ADVICE)


def classify_read(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """Judge what it answered to a question: 200 with an answer, or why there is none; nothing is changed by asking."""
    if status == 200:
        return Answer(Outcome.ACCEPTED, 200)
    return classify_status(status, headers, error_text(body), _ADVICE)


def classify_probe(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge what it answered to a question for its health: 200, or 403 where it lets certain certificates alone in.

    (Its rule for such a question has another path than the question, so nobody may ask it then.)
    """
    if status in {200, 403}:
        return Answer(Outcome.ACCEPTED, status)
    answer = classify_status(status, headers, error_text(body), _ADVICE)
    return answer._replace(kind=Outcome.NOT_AUTHORISED_OR_MISCONFIGURED) if answer.kind == Outcome.TOO_LARGE else answer


# AUDITOR: many records in one request, all of them stored or none.
#
# What is there already makes the whole request fail, or, as the server may be configured (ignore_record_exists_error),
# succeed without anything being stored. So an empty 200 to several records is believed only after one of them was sent
# once more, alone, and called there: a server that says so would have said so before. In every other case each record
# goes alone, where 200 and RECORD_EXISTS both mean that it is there. None of it needs the right to read.
#
# Where the server may hold another version of a record than the one sent it is read back, if we may. One that differs
# in its end alone is put right; of another the ledger is told that the server keeps it (`ledger.KEPT`, `ledger.OTHER`).
# An answer that is much larger or deeper than a record is another one, and is not compared.


_HEADERS = {"Content-Type": "application/json"}
_MOST_DEPTH = 8
"""Levels of what is read back. A record has 5: itself, components, one of them, its scores, one of them."""


def _most_bytes(text: str) -> int:
    """How long the answer to a question for this record may be: the server spells and adds a few values its own way."""
    return 4 * len(text) + 4096


class AuditorSender(Sender):
    """One target's way to its server."""

    transport: Transport

    def __init__(self, url: str, session: Transport) -> None:
        """``url``: the server's, without a slash at its end."""
        self.transport = session
        self.destination = url
        self._hides_repeats = False
        """Whether it was seen to answer 200 to a record that was there."""
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
                # It is there now; of a server that says no more nobody knows since when.
                rows[json.loads(text)["record_id"]] = KEPT
        said = "; ".join((f"{len(texts)} sent one by one", *unlike))
        return Answer(Outcome.ACCEPTED, 200, sanitise_line(said, TEXT_LIMIT), receiver_rows=rows)

    def _compare(self, text: str, rows: dict[str, str], unlike: list[str]) -> Answer:
        """
        Look at a record that was there, and note in ``rows`` if it is not what was sent, or cannot be looked at.

        ``unlike`` gets a sentence about an answer that no record can be.
        """
        sent = json.loads(text)
        record_id = sent["record_id"]
        answer, body = self._read(record_id)
        there: Any = None
        try:
            there = None if body is None else parsed(body, most_depth=_MOST_DEPTH, most_length=_most_bytes(text))
        except BeyondBoundsError as error:
            rows[record_id] = OTHER
            unlike.append(f"{record_id}: the server has {error} there, which is no record of ours")
            return answer
        except ValueError:
            # What is read back in half is as good as not read.
            pass
        if not isinstance(there, dict):
            rows[record_id] = KEPT
            return answer
        if _same(there, sent, but="stop_time"):
            return answer if _same(there, sent) else self._send("PUT", "/record", text.encode())
        rows[record_id] = OTHER
        return answer

    def _read(self, record_id: str) -> tuple[Answer, bytes | None]:
        """
        What the server says that a record of its is; ``None`` where it shows none to us.

        The answer is only a failure that passes.
        """
        there: list[bytes | None] = []

        def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
            there.append(body if status == 200 else None)
            return classify_read(status, headers, body)

        if not self._may_read:
            return Answer(Outcome.ACCEPTED), None
        url = f"{self.destination}/record/{quote(record_id, safe='')}"
        answer = self.transport.request(Request("GET", url, {}), judge)
        self._may_read = answer.status not in (401, 403)
        if answer.kind == Outcome.TRY_LATER and answer.status != 500:
            return answer, None
        return Answer(Outcome.ACCEPTED), there[-1] if there else None

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


# How AUDITOR is dealt with.
#
# AUDITOR keeps the first version of a record and says so. Only its end can be changed; for anything else its
# administrator has to delete the record from the database.


class AuditorRecords(RecordFormat):
    """A record for each job; a correction is sent as it is, and the server says whether it can have it."""

    envelope = DOCUMENT
    can_replace = True

    def __init__(self, options: RecordOptions) -> None:
        self.options = options
        self._shared = FieldCache(self.accept, record.SHARED, options)

    def accept(self, aar: AAR, now: int) -> Acceptance:
        return accept(aar, self.options, now)

    def text(self, aar: AAR, now: int) -> str:  # noqa: ARG002  a record does not say when it was made
        return record.record(aar, self.options)

    def rendered(self, aar: AAR, now: int) -> RenderedRecord | None:
        shared = self._shared.of(aar, now)
        if shared is None or aar.core_count < 1 or aar.node_count < 1:
            return None
        where: record.Where = shared[0]
        key = where.id_head + aar.job_id
        if len(key) > LONGEST_NAME:
            return None
        return RenderedRecord(key, record.written(aar, shared, self.options), None, (self.options.site, where.headnode))

    def replacement(self, aar: AAR, now: int, digest: bytes) -> str:  # noqa: ARG002  it has no other name
        return record.record(aar, self.options)

    def key(self, aar: AAR) -> str:
        return record_id(aar, self.options)

    def site_and_host(self, aar: AAR) -> tuple[str, str]:
        return self.options.site, headnode(aar, self.options) or ""


class AuditorPlugin(TargetPlugin):
    """Records to AUDITOR."""

    target: AuditorTarget
    message_format = DOCUMENT.message_format
    record_formats = (message_format,)
    # What one character more or less of a batch is, nobody has to count: well below `rules.LARGEST_BODY`.
    max_bytes = 1_500_000
    duplicate_policy = DuplicatePolicy.ANSWERS
    confirmation_level = "stored"
    correction_advice = "give its administrator what `arcacct quarantine sql` prints (it deletes record {key})"
    replacement_note = "a correction: it is taken where nothing but the end of the job is another"

    def __init__(self, target: AuditorTarget, settings: Settings) -> None:
        super().__init__(target, settings)
        default = self.default_benchmark()
        self._options = RecordOptions(
            site=target.site_id,
            host=settings.lrms_host,
            localid_prefix=target.localid_prefix or "",
            vomsless_vo=self.vos(),
            vo_groups=target.vo_group,
            local_group_prefix=settings.local_group_prefix or "",
            start_time_source=target.start_time_source,
            default_benchmark=default,
            score_type=None if target.score_type == "any" else target.score_type or default.type,
            names=target.rename,
        )

    def records(self, _kind: str) -> RecordFormat:
        return AuditorRecords(self._options)

    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        # HTTP is slow to import.
        from arcacct.publishing.transport import transport_to  # noqa: PLC0415

        url = self.target.url
        return AuditorSender(
            url, transport_to(self.target.transport_options, timeouts, in_clear=url.startswith("http://"))
        )

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        from arcacct.publishing import transport  # noqa: PLC0415  HTTP is slow to import

        shows = "it takes our certificate; whether its CN is in write_access_cn, the first record will show"
        if self.target.credentials() is None:
            shows = "it answers in clear, to anybody"
        return (transport.ConnectivityCheck("server", f"{self.target.url}/health_check", classify_probe, shows),)

    def corrections(self, con: Connection) -> str:
        from arcacct.publishing.held import outdated  # noqa: PLC0415  asked for once a year

        keys = outdated(con, self.target)
        ids = ",\n  ".join(map(quoted, keys))
        return f"""\
-- For the administrator of {self.target.url}: {count_of(len(keys), "record")} corrected after publishing.
-- They are sent once more; plugins report months before the previous one again only when they are asked to.
BEGIN;
DELETE FROM auditor_accounting WHERE record_id IN (
  {ids}
);
COMMIT;
"""


PLUGIN = AuditorPlugin
