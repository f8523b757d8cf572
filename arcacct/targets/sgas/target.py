"""SGAS as a target: how its server is dealt with, how usage records are sent, and what its answers mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.publishing.ledger import Message
from arcacct.publishing.plugin import (
    TEXT_LIMIT,
    Acceptance,
    Answer,
    DuplicatePolicy,
    Envelope,
    Outcome,
    RecordFormat,
    RenderedRecord,
    Sender,
    TargetPlugin,
    classify_status,
    error_text,
    json_of,
)
from arcacct.publishing.transport import Request, TimeoutPolicy, Transport, transport_to
from arcacct.records.model import AAR
from arcacct.targets.common import now_time, quoted
from arcacct.targets.parts import FieldCache
from arcacct.targets.sgas import acceptance, usage_record
from arcacct.targets.sgas.options import SGASTarget
from arcacct.targets.sgas.usage_record import UROptions, Where
from arcacct.wording import sanitise_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.publishing.transport import ConnectivityCheck


# What SGAS answers (the LUTS server behind nginx): its own rows of `publishing.plugin`.


_LONGEST_ROW = 40
_LEAST_JSON = 64 * 1024
"""Bytes that an answer may have whatever was sent."""


def classify_sgas(status: int, headers: Mapping[str, str], body: bytes, sent_ids: Collection[str]) -> Answer:
    """
    Judge what SGAS answered to a document with the records `sent_ids`.

    A mapping from recordId to GlobalJobId as `sent_ids` lets an answer keyed by GlobalJobId count as the record's:
    SGAS renames records whose LocalJobId is longer than 120 characters or starts with a slash.
    """
    if status == 200:
        return _sgas_inserted(body, sent_ids)
    said = error_text(body)
    if status == 500:
        if _SGAS_TRANSIENT.search(said):
            return Answer(Outcome.TRY_LATER, 500, said, outcome_known=False)
        return Answer(Outcome.RECORDS_REFUSED, 500, said)
    answer = classify_status(status, headers, said, _ADVICE_SGAS)
    # 406: only this machine is not ours to report.
    about_credentials = status == 400 and "certificate" in said.lower()
    return answer._replace(about_credentials=about_credentials, about_group=status == 406)


def classify_probe(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    """
    Judge what it answered to a GET where records are posted: 405 says that this is the place, and that we got there.

    nginx before it wants our certificate, and answers 400 to one that it cannot verify.
    """
    if status == 405:
        return Answer(Outcome.ACCEPTED, 405)
    said = error_text(body)
    answer = classify_status(status, headers, said, _ADVICE_SGAS)
    if answer.kind == Outcome.TOO_LARGE:
        answer = answer._replace(kind=Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, advice=_ADVICE_SGAS[None])
    return answer._replace(about_credentials=status in {400, 401, 403} and "certificate" in said.lower())


# PostgreSQL's and psycopg2's words for what passes by itself: a lost connection, a deadlock, two inserts at once.
_SGAS_TRANSIENT = re.compile(
    r"(?i)OperationalError|deadlock detected|duplicate key value|unique constraint|could not serialize"
    r"|server closed the connection|terminating connection|connection (already closed|not open|refused)"
)


_ADVICE_SGAS = {
    400: "check x509_host_cert and x509_cert_dir: the server wants a client certificate it can verify",
    403: "ask the SGAS administrator for the jobinsert right, for the subject exactly as the server sees it "
    "(/O=.../CN=host and CN=host,O=... are different to SGAS)",
    404: "check targeturl: it ends in /ur, without a slash behind",
    406: "the certificate's domain is not that of these machines: ask the SGAS administrator for "
    "jobinsert:machine_name=..., or correct the host names",
    None: "check targeturl: this is not what SGAS answers",
}


def _sgas_inserted(body: bytes, sent_ids: Collection[str]) -> Answer:
    names = sent_ids if isinstance(sent_ids, Mapping) else {one: one for one in sent_ids}
    # An id, or its job's, with the number of its row; a character may be written as two escapes.
    lengths = (12 * max(len(one), len(job_id or "")) + 2 * _LONGEST_ROW for one, job_id in names.items())
    parsed = json_of(body, _LEAST_JSON + sum(lengths))
    if parsed is None and body.strip() == b"null":
        # SGAS lost its database connection, inserted again and lost that result: the rows are there.
        said = "null: inserted, but the ids were lost"
        return Answer(Outcome.TRY_LATER, 200, said, outcome_known=False)
    if not isinstance(parsed, dict):
        said = error_text(body) or "an empty answer"
        return Answer(
            Outcome.NOT_AUTHORISED_OR_MISCONFIGURED, 200, said, outcome_known=False, advice=_ADVICE_SGAS[None]
        )
    # By themselves, or by the GlobalJobId that SGAS put in their place.
    found = {
        one: parsed[one if one in parsed else job_id]
        for one, job_id in names.items()
        if one in parsed or job_id in parsed
    }
    stored = frozenset(found)
    missing = sorted(names.keys() - stored)
    if not missing:
        rows = {one: str(row) for one, row in found.items() if isinstance(row, str | int)}
        return Answer(Outcome.ACCEPTED, 200, record_ids=stored, receiver_rows=_shown(rows))
    # One transaction for all: an id that is not named is a record that SGAS did not see as a record.
    said = f"{len(missing)} of {len(names)} records not named in the answer: {', '.join(missing)}"
    return Answer(Outcome.RECORDS_REFUSED, 200, sanitise_line(said, TEXT_LIMIT), outcome_known=False, record_ids=stored)


def _shown(rows: Mapping[str, str]) -> Mapping[str, str]:
    """The numbers of rows as they may be kept: nearly always there is nothing to hide in any of them."""
    said = " ".join(rows.values())
    if max(map(len, rows.values()), default=0) <= _LONGEST_ROW and sanitise_line(said, None) == said:
        return rows
    return {one: sanitise_line(row)[:_LONGEST_ROW] for one, row in rows.items()}


# SGAS: usage records posted to the LUTS server, one document in one transaction, one after the other.
#
# SGAS ignores a record that it has, so a document may be sent again at any time; it never corrects one.


_HEADERS = {"Content-Type": "application/xml; charset=UTF-8"}
_RECORD_ID = re.compile('urf:recordId="([^"]*)"')


class SGASSender(Sender):
    """One target's way to its server."""

    def __init__(self, target: SGASTarget, timeouts: TimeoutPolicy | None = None) -> None:
        """Raise CredentialError and ConfigError as `transport_to` does."""
        self.transport = self._transport = transport_to(target.transport_options, timeouts)
        self.destination = target.url

    def send(self, message: Message) -> Answer:
        sent_ids = {one.key: one.job_id for one in message.records}
        if not all(map(str.isprintable, sent_ids)):
            import html  # noqa: PLC0415  it knows all of HTML's characters by name, and such names are rare

            # Of a name with characters that XML cannot carry the document has what is left.
            ids = [html.unescape(found) for found in _RECORD_ID.findall(self.unpack(message.data))]
            sent_ids = dict(zip(ids, (one.job_id for one in message.records), strict=True))
        return insert(self._transport, self.destination, message.data, sent_ids)


def insert(transport: Transport, url: str, document: bytes, sent_ids: Collection[str]) -> Answer:
    """
    Post a document (UTF-8) that holds the records `sent_ids`, and compare SGAS's answer with them.

    A mapping from recordId to GlobalJobId allows for records that SGAS renames (see `classify_sgas`).
    SGAS's ``null`` (inserted, result lost) is asked again like all that is to be tried later.
    """

    def judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        return classify_sgas(status, headers, body, sent_ids)

    return transport.request(Request("POST", url, _HEADERS, document), judge)


# How SGAS is dealt with.
#
# SGAS ignores a record that it has, so a message may be sent again at any time, and never corrects one: unless it comes
# under another GlobalJobId (`sgas_corrections=replace`), its administrator has to delete the old one.


_SUFFIX_DIGITS = 12


class UsageRecords(RecordFormat):
    """OGF usage records; SGAS authorises by MachineName."""

    envelope = Envelope("ur", usage_record.HEAD, usage_record.TAIL, "</JobUsageRecord>\n")

    def __init__(self, options: UROptions, *, can_replace: bool) -> None:
        """``can_replace``: whether corrections are sent, under another GlobalJobId."""
        self.options = options
        self.can_replace = can_replace
        self._shared = FieldCache(self.accept, usage_record.SHARED, options)

    def accept(self, aar: AAR, now: int) -> Acceptance:
        return acceptance.accept_for_sgas(aar, self.options, now)

    def text(self, aar: AAR, now: int) -> str:
        local_id = usage_record.local_job_id(aar, self.options)
        return usage_record.written(aar, self._shared.made(aar), local_id, now_time(now), self.options)

    def rendered(self, aar: AAR, now: int) -> RenderedRecord | None:
        shared = self._shared.of(aar, now)
        local_id = usage_record.local_job_id(aar, self.options)
        if shared is None or not acceptance.rest_sound(aar, local_id):
            return None
        where: Where = shared[0]
        text = usage_record.written(aar, shared, local_id, now_time(now), self.options)
        return RenderedRecord(where.id_head + aar.job_id, text, where.machine, where.place)

    def key(self, aar: AAR) -> str:
        return usage_record.record_id(aar, self.options)

    def authorisation_group(self, aar: AAR) -> str | None:
        return usage_record.machine_name(aar, self.options)

    def site_and_host(self, aar: AAR) -> tuple[str, str]:
        return "", usage_record.machine_name(aar, self.options) or ""

    def replaces(self, aar: AAR) -> bool:
        """Only a record without children is put in the place of the one that is there."""
        return self.can_replace and not aar.run_time_environments and not aar.transfers

    def replacement(self, aar: AAR, now: int, digest: bytes) -> str:
        other_id = f"{aar.job_id}#{digest.hex()[:_SUFFIX_DIGITS]}"
        return usage_record.usage_record(aar, self.options, now, other_id)


class SGASPlugin(TargetPlugin):
    """Usage records to SGAS."""

    target: SGASTarget
    message_format = UsageRecords.envelope.message_format
    record_formats = (message_format,)
    # nginx before SGAS refuses bodies above 2 MB (client_max_body_size 2m).
    max_bytes = 1_500_000
    duplicate_policy = DuplicatePolicy.IGNORES
    confirmation_level = "stored"
    returns_row_ids = True
    correction_advice = "give its administrator what `arcacct quarantine sql` prints (it deletes record {key})"
    replacement_note = "sent with another GlobalJobId, at which the receiver replaces the record that it has"
    takeover_advice = "nothing to do: record ids are the same as jura-ng's, and SGAS ignores what it has"

    def __init__(self, target: SGASTarget, settings: Settings) -> None:
        super().__init__(target, settings)
        self._options = UROptions(
            host=settings.lrms_host,
            localid_prefix=target.localid_prefix or "",
            vomsless_vo=self.vos(),
            vo_groups=target.vo_group,
            start_time_source=target.start_time_source,
            vo_style=target.sgas_vo_style,
            host_style=target.sgas_host_style,
            memory_type=target.memory_type,
            local_jobs=target.local_jobs,
        )

    def records(self, _kind: str) -> RecordFormat:
        return UsageRecords(self._options, can_replace=self.target.sgas_corrections == "replace")

    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        return SGASSender(self.target, timeouts)

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        from arcacct.publishing import transport  # noqa: PLC0415  HTTP is slow to import

        shows = "it verifies our certificate; whether it grants jobinsert to it, the first record will show"
        return (transport.ConnectivityCheck("server", self.target.url, classify_probe, shows),)

    def corrections(self, con: Connection) -> str:
        from arcacct.publishing.held import outdated  # noqa: PLC0415  asked for once a year

        # Children go first, since the server's foreign keys do not cascade; the days concerned are put into the queue
        # of its own aggregation before, since a deleted row tells no day.
        url, keys = self.target.url, outdated(con, self.target)
        ids = ",\n  ".join(map(quoted, keys))
        rows = "SELECT id FROM usagedata WHERE record_id IN (SELECT record_id FROM outdated)"
        return f"""\
-- For the administrator of {url}: {len(keys)} usage records that were corrected after they were published.
-- Their runtime environments and transfers go with them; the daily sums are made anew by the server's own task.
BEGIN;
CREATE TEMPORARY TABLE outdated (record_id varchar(1000)) ON COMMIT DROP;
INSERT INTO outdated SELECT unnest(ARRAY[
  {ids}
]);
INSERT INTO uraggregated_update (insert_time, machine_name_id)
  SELECT DISTINCT insert_time::date, machine_name_id FROM usagedata
   WHERE record_id IN (SELECT record_id FROM outdated);
DELETE FROM runtimeenvironment_usagedata WHERE usagedata_id IN ({rows});
DELETE FROM jobtransferdata WHERE usage_data_id IN ({rows});
DELETE FROM usagedata WHERE record_id IN (SELECT record_id FROM outdated);
COMMIT;
"""


PLUGIN = SGASPlugin
