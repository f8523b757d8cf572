"""What publishing must know of a target, and the meaning of a receiver's answers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.errors import ArcacctError, CredentialError, InputError, TargetBusy, TargetError, TargetRefuses
from arcacct.files.json_reader import parsed
from arcacct.publishing.ledger import COUNTS, Names, SentRecord, SentSum
from arcacct.publishing.sent import digest_of
from arcacct.records.model import VO, VOs
from arcacct.wording import sanitise_line, without_secrets

if TYPE_CHECKING:
    from arcacct.config.options import Target
    from arcacct.config.settings import Settings
    from arcacct.database.connection import Connection
    from arcacct.publishing.context import RunDeadline
    from arcacct.publishing.ledger import Message
    from arcacct.publishing.safeguard import CountingKey
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy, Transport
    from arcacct.records.batch_jobs import BareIDs
    from arcacct.records.model import AAR, UsageCell
    from arcacct.times import Month


# The meaning of a receiver's answers.
#
# Functions turn an HTTP answer into one value, `Answer`. No content of an answer makes them fail. Each receiver has a
# table of its own next to its formats (`sender.py` in its folder; for AMS `ams.py`). If no row of it matches, the
# status alone decides, and never blames a record: quarantine needs a statement of the receiver.


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


# The interface of a target for publishing: one `TargetPlugin` for each kind of target.
#
# A kind of target is a folder below `arcacct.targets`. Its `options.py` has ``KIND``: the options of its block in the
# configuration, and the class of their values (`config.options.TargetKind`, `Target`). It imports nothing expensive.
# Its `target.py` has ``PLUGIN``, the class of its `TargetPlugin`, created from a target and all settings.
# `arcacct.targets` finds both, with a line for each folder. No other module names a kind of target.
#
# Nothing here sends anything: formats are functions from values to text, and a `Sender` sends them. Every receiver is
# assumed to accept a message as a whole or not at all: a refused message is cut in halves, down to the record that is
# at fault.


class DuplicatePolicy(Enum):
    """What a receiver does with a record whose key it already has."""

    REPLACES = "it replaces the record: corrections are sent as they are, and zeros remove a record"
    IGNORES = "it keeps the first silently: corrections go to quarantine until its administrator deletes the first one"
    ANSWERS = "it keeps the first and reports that: as IGNORES, and that answer means that it has the record"


class Acceptance(NamedTuple):
    """The expected answer of a receiver for a job's record: the record as it may be sent, or the reason against it."""

    aar: AAR
    """The record with repairs that change no accounted value."""
    notes: tuple[str, ...] = ()
    """The repairs."""
    refusal: str | None = None
    """Why it cannot be sent; ``None``: it can."""
    not_before: int | None = None
    """UTC seconds: the refusal ends then, since it is only about this host's clock; ``None``: it does not end."""


class CellAcceptance(NamedTuple):
    """The expected answer for a usage cell, as it may be summed."""

    cell: UsageCell
    notes: tuple[str, ...] = ()
    """The repairs. Cells that differ only in repaired values have one key at the receiver."""
    refusal: str | None = None
    not_before: int | None = None


class RenderedRecord(NamedTuple):
    """The parts of a job's record as it is sent, without notes of repairs."""

    key: str
    text: str
    authorisation_group: str | None
    names: Names


class Envelope(NamedTuple):
    """How texts are joined to one message, and how a refused message is cut again."""

    message_format: str
    """The ledger's name of the kind, never changed: ``ur``, ``car``, ``individual``, ``summaries``, ``sync``, ..."""
    head: str
    tail: str
    record_end: str
    """The end of each text. Values cannot contain it, since they are escaped."""
    between: str = ""
    """The separator of two texts; it is part of neither."""

    def join(self, texts: Sequence[str]) -> str:
        """Return one message with some texts."""
        return f"{self.head}{self.between.join(texts)}{self.tail}"

    def cut(self, message: str) -> list[str]:
        """Return the texts of a message."""
        inside = message.removeprefix(self.head).removesuffix(self.tail)
        return [text.removeprefix(self.between) + self.record_end for text in inside.split(self.record_end)[:-1]]


class RecordFormat(ABC):
    """Messages with one record for each job, in one format."""

    envelope: Envelope
    site: str = ""
    """The name of the site in its records, if the receiver counts by it."""
    can_replace: bool = False
    """Whether a special text makes a receiver that keeps the first record replace it."""

    @abstractmethod
    def accept(self, aar: AAR, now: int) -> Acceptance:
        """Return the expected answer for a record before it is sent: the receiver would refuse a whole message."""

    @abstractmethod
    def text(self, aar: AAR, now: int) -> str:
        """Return the text of an accepted record; ``now``: its time of creation, UTC seconds."""

    def rendered(self, aar: AAR, now: int) -> RenderedRecord | None:  # noqa: ARG002  a format without a short way
        """
        Return `text`, `key`, `authorisation_group` and `names` at once, for a record that needs no repair.

        Returns ``None`` for any other record, and for some good ones: `accept` then decides. `accept` also decides if
        this raises TypeError or ValueError.
        """
        return None

    @abstractmethod
    def key(self, aar: AAR) -> str:
        """Return the receiver's key of a record. The ledger stores it, so it never changes for an unchanged job."""

    def digest(self, aar: AAR) -> bytes:
        """Return the digest of the values that the receiver has. A change of any other value sends nothing again."""
        return digest_of()(aar)

    @abstractmethod
    def names(self, aar: AAR) -> Names:
        """Return the names under which the receiver counts the job."""

    def authorisation_group(self, aar: AAR) -> str | None:  # noqa: ARG002  a receiver that does not care
        """Return the group (machine) by which the receiver grants rights. A message has records of one group only."""
        return None

    def site_of(self, key: str) -> str:  # noqa: ARG002  a key without the site's name
        """Return the name of the site in a key; empty if the key has none."""
        return ""

    def zeros(self, key: str, names: Names, now: int) -> str:
        """
        Return the record with zeros that takes back the usage under a key. Used if `DuplicatePolicy` is REPLACES.

        ``names`` are those that were sent with the key. ``now`` is as for `text`.
        """
        raise NotImplementedError

    def vo_of(self, names: Names) -> str | None:  # noqa: ARG002  a receiver that does not count by VO
        """Return the VO in the names that were sent."""
        return None

    def group_record(self, names: Names, end_time: int) -> tuple[str, str]:
        """Return ID and key of a record that no job has, for a group. Used if `TargetPlugin.groups_records`."""
        raise NotImplementedError

    def names_of_cell(self, cell: UsageCell, now: int) -> Names:
        """
        Return the names of the jobs in a usage cell. Used if `TargetPlugin.groups_records`.

        Raises InputError if the receiver would refuse the cell.
        """
        raise NotImplementedError

    def replaces(self, aar: AAR) -> bool:  # noqa: ARG002  for all alike
        """Whether that special text exists for this record (see `can_replace`)."""
        return self.can_replace

    def replacement(self, aar: AAR, now: int, digest: bytes) -> str:
        """Return that special text. ``digest`` is the record's: it gives each version a name of its own."""
        raise NotImplementedError


class SummaryFormat(ABC):
    """Messages about months, under keys by which the receiver replaces them."""

    envelope: Envelope

    @abstractmethod
    def site_and_host(self, endpoint_url: str | None) -> tuple[str, str]:
        """Return where the receiver counts a job: site and submit host."""

    @abstractmethod
    def zero(self, key: str) -> str:
        """Return the text that sets a key of the ledger to zero."""

    @abstractmethod
    def months(self, message: str) -> list[Month]:
        """Return the month of each sum in the text of a message."""

    @abstractmethod
    def stands_under(self, text: str, key: str) -> bool:
        """Whether the text of a sum has a key of the ledger."""


class MonthlySummaries(SummaryFormat):
    """Monthly sums of usage, in one format."""

    @abstractmethod
    def accept(self, cell: UsageCell, now: int) -> CellAcceptance:
        """Return the expected answer for a usage cell."""

    @abstractmethod
    def sums(self, cells: Iterable[UsageCell]) -> list[tuple[str, SentSum]]:
        """Return the sums of accepted cells, by the receiver's key: the text of each, and the ledger's note of it."""

    @abstractmethod
    def vo_of(self, key: str) -> str | None:
        """Return the VO in a key of the ledger."""

    def without_site(self, key: str) -> str:
        """Return a key of the ledger without the names of site and submit host."""
        return key

    def notes(self, cells: Sequence[UsageCell]) -> Iterable[str]:  # noqa: ARG002  nothing
        """Return notes to report about the sums of these cells before they are sent."""
        return ()


class SyncCounts(SummaryFormat):
    """The number of jobs that a receiver was given, for comparison with its own numbers (APEL's sync)."""

    @abstractmethod
    def counts(self, given: Iterable[tuple[CountingKey, int]]) -> list[tuple[str, SentSum]]:
        """Return the text and the ledger's note of each count, from the jobs that the receiver was given, by place."""


class Sender(ABC):
    """
    The way to one target. A message is packed once, kept in the ledger, and sent as often as needed.

    Only one thread uses it at a time. Creating it raises CredentialError and ConfigError. Nothing later raises these:
    later failures are an `Answer`.
    """

    transport: Transport | None = None
    """The connection, if there is one."""
    destination: str
    """Where messages go, for the ledger. It identifies a target that has a new name."""

    @abstractmethod
    def send(self, message: Message) -> Answer:
        """Send a message of the ledger. Network failures are answers too."""

    def name(self) -> str | None:
        """Return a new name for one message, if the transport uses names."""
        return None

    def pack(self, text: str) -> bytes:
        """Return exactly the bytes that are sent for a text. Raises InputError for a text that cannot be sent."""
        return text.encode("utf-8")

    def unpack(self, data: bytes) -> str:
        """Return the text of packed bytes."""
        return data.decode("utf-8")

    def renewed(self, data: bytes) -> bytes:
        """Return packed bytes, which may be old, as the receiver accepts them today, with the same text."""
        return data

    def set_deadline(self, deadline: RunDeadline) -> None:
        """Start nothing after the deadline of this run."""
        if self.transport is not None:
            self.transport.set_deadline(deadline)

    def close(self) -> None:
        """Close connections."""
        if self.transport is not None:
            self.transport.close()


class ReceiverRows(NamedTuple):
    """Rows of a receiver's own tables under places of ours. Those that we do not publish are retracted."""

    sums: Sequence[tuple[str, SentSum]] = ()
    """The kind of message that replaces each sum, and the sum."""
    records: Sequence[SentRecord] = ()
    """Records of jobs, with all names that the receiver has."""
    others: Mapping[str, int] = MappingProxyType({})
    """The number of rows of other CEs, by SubmitHost. They are left alone."""
    unsendable: Sequence[tuple[Month, str]] = ()
    """The month and the place of each row of this CE with a name that no message can carry."""
    unread: Mapping[str, int] = MappingProxyType({})
    """The number of rows in each file that cannot be read and are not of this CE, by the place of the first one."""


class TargetPlugin(ABC):
    """
    One configured target, as publishing uses it. It is created anew for each run, and may cache its objects.

    A target is sent counts and one other kind of message: records of jobs, or sums of months (`message_format`). A
    month keeps its first kind, so `records` and `summaries` support every kind that this receiver ever had.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        """Store the arguments. Open no file and no connection: a `sender` does that."""
        self.target = target
        self.settings = settings

    message_format: str
    """The kind of messages that the target is sent now, apart from counts."""
    record_formats: tuple[str, ...]
    """The kinds with a record for each job. They share one table at the receiver, and one key for a job."""
    max_bytes: int
    """The largest text in bytes that should be accepted. A message that is refused as too large is cut."""
    crlf: bool = False
    """Whether a line end takes two bytes of ``max_bytes`` (S/MIME)."""
    duplicate_policy: DuplicatePolicy
    """What the receiver does with a record that it already has."""
    confirmation_level: str
    """How far delivery is confirmed, as `verify` shows it: ``stored`` (it named each record), ``handed to AMS``, ..."""
    counts: SyncCounts | None = None
    """The format that reports how many jobs the receiver was given; ``None``: the receiver does not use counts."""

    keys_may_collide: bool = False
    """Whether two jobs may have one key there, so that one would replace the other."""
    groups_records: bool = False
    """Whether the receiver sums records by their names and never deletes a sum, even of records that moved away."""
    one_format_per_month: bool = False
    """Whether records and sums of one month would count twice there. If so, a month keeps its first kind."""
    site: str = ""
    """The name of the site, if the receiver counts by it."""
    returns_row_ids: bool = False
    """Whether its answers name rows of its database. An unchanged number means that it kept its version."""
    correction_advice: str = ""
    """
    If `duplicate_policy` keeps the first version: the steps before a correction is accepted. ``{key}``: the record's.
    """
    bare_ids: BareIDs = ()
    """The places whose ids are sent unchanged (`selection.bare_ids`). Set it before keys or texts are made."""
    replacement_note: str | None = None
    """The ledger's note on a record that was sent as `RecordFormat.replacement`. It never changes."""

    names: tuple[str, ...] = ("lrms_host", "localid_prefix")
    """The options of `selection` that name jobs at the receiver: under other names it would have them twice."""
    kind_option: str | None = None
    """The option of `names` that chooses the kind of messages. A month keeps its first kind."""
    record_names: tuple[str, ...] = ("vofilter", "lrms_host", "localid_prefix")
    """The options of `selection` that decide whether a job's record goes to the target, and under which key."""
    takeover_advice: str = "nothing to do: jura-ng publishes to no such receiver"
    """What taking over from jura-ng means if there is nothing to take over; empty: its sums would count as well."""

    @abstractmethod
    def records(self, kind: str) -> RecordFormat:
        """Return the format of job records of a kind of `record_formats`, whatever the target is sent now."""

    def summaries(self, kind: str) -> MonthlySummaries:
        """Return the format of monthly sums of any other kind, whatever the target is sent now."""
        raise NotImplementedError(kind)

    @property
    def former_block(self) -> str:
        """The name under which jura-ng knows a target with the same receiver."""
        return self.target.block

    @property
    def keeps_first(self) -> bool:
        """Whether the receiver keeps a record that it has, whatever is sent under its key."""
        return self.duplicate_policy is not DuplicatePolicy.REPLACES

    def any_records(self) -> RecordFormat:
        """Return a record format: that of the present kind, or else of any, for their common parts: keys and places."""
        return self.records(self.message_format if self.has_records(self.message_format) else self.record_formats[0])

    def has_records(self, kind: str) -> bool:
        """Whether messages of a kind have a record for each job, and no sums."""
        return kind in self.record_formats

    def sums(self, kind: str) -> SummaryFormat:
        """Return the format of a kind without job records: counts or monthly sums."""
        return self.counts if self.counts is not None and kind == COUNTS else self.summaries(kind)

    def envelope(self, kind: str) -> Envelope:
        """Return the envelope of messages of any kind."""
        return (self.records(kind) if self.has_records(kind) else self.sums(kind)).envelope

    def text_of(self, data: bytes) -> str:
        """Return the text of a message of the ledger, without a sender. Raises ValueError if it is no message."""
        return data.decode("utf-8")

    @abstractmethod
    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        """
        Return the way to the receiver; ``timeouts`` override the configured waits (tests do that).

        Raises CredentialError for an unusable certificate or key, ConfigError for unusable CAs.
        """

    def keyed(self, names: Mapping[str, object]) -> dict[str, object]:
        """Return the part of `names` that decides the receiver's keys. Values with the same keys become equal."""
        return dict(names)

    def selection(self) -> dict[str, object]:
        """
        Return the options, as JSON values, that decide which jobs go to the target and under which keys.

        The ledger stores them. If figures fall, a change of them is reported as the cause, but it is no proof.
        """
        target = self.target
        return {
            "vofilter": sorted(target.vofilter),
            "lrms_host": self.settings.lrms_host,
            "localid_prefix": target.localid_prefix or "",
            "vomsless_vo": ", ".join(f"{rule.authgroup or ''} {rule.name}".strip() for rule in target.vomsless_vo),
            "vo_group": list(target.vo_group),
        }

    def vo_of(self, cell: UsageCell) -> str | None:
        """Return the VO under which the receiver counts the jobs of a cell; ``None``: none."""
        return cell.vo

    def vos(self) -> VOs:
        """The VOs of users who came without one, for records to this target."""
        rules = tuple(VO(rule.name, rule.issuer, rule.authgroup) for rule in self.target.vomsless_vo)
        site = self.settings.places.rules.vomsless_vos
        recorded = tuple(VO(name, issuer, authgroup) for authgroup, name, issuer in site)
        return VOs(rules, own=rules != recorded)

    def default_benchmark(self) -> Benchmark:
        """The benchmark of jobs that have none."""
        return Benchmark.parse(self.settings.places.rules.default_benchmark)

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        """Return the checks of the receiver that change nothing there (`arcacct doctor`), in this order."""
        return ()

    def receiver_rows(self, paths: Sequence[str], endpoint_urls: Iterable[str | None]) -> ReceiverRows:  # noqa: ARG002
        """
        Read the tables that the receiver's administrator exported. ``endpoint_urls`` are those of this CE's jobs.

        Raises InputError for an unusable file, and if the receiver has no keys that can be set to zero.
        """
        raise InputError(f"{self.target.name}: rows of a receiver can be cancelled only at APEL")

    def folded(self, text: str) -> str:
        """Return a name of a site or a submit host as the receiver compares it."""
        return text

    def corrections(self, con: Connection) -> str:  # noqa: ARG002  most receivers need nothing
        """
        Return what the receiver's administrator runs to make room for quarantined corrections (`quarantine sql`).

        Raises InputError if the receiver needs none of it, and if nothing is quarantined.
        """
        raise InputError(f"{self.target.name}: not an SGAS server; APEL takes corrections as they are")
