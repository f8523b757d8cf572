"""What publishing must know of a target, and what the answer of a receiver means."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.errors import ArcacctError, CredentialError, InputError, TargetBusy, TargetError, TargetRefuses
from arcacct.files.json_reader import parsed
from arcacct.publishing.ledger import COUNTS, SentRecord, SentSum
from arcacct.records.model import VO, VOs
from arcacct.wording import sanitise_line, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.config.options import Target
    from arcacct.config.settings import Settings
    from arcacct.database.connection import Connection
    from arcacct.publishing.context import RunDeadline
    from arcacct.publishing.ledger import Message
    from arcacct.publishing.ledger_rows import Month
    from arcacct.publishing.safeguard import CountingKey
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy, Transport
    from arcacct.records.batch_jobs import BareIDs
    from arcacct.records.model import AAR, Row, UsageCell


# What a receiver said, and what that means for us.
#
# Functions from an HTTP answer to one value, `Answer`; nothing that a receiver says makes them fail. Each receiver has
# a table of its own beside its formats (`sender.py` in its folder; of AMS `ams.py`). What no row of it knows is
# judged by its status alone, and never as the fault of a record: quarantine needs a receiver's word.


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


# What publishing has to know of a target, and all that it knows: one `TargetPlugin` for each kind of target.
#
# A kind of target is a folder below `arcacct.targets`. Its `options.py` has ``KIND``: what its block of the
# configuration may have, and the class of its values (`config.options.TargetKind`, `Target`); it imports nothing that
# is dear. Its `target.py` has ``PLUGIN``, the class of its `TargetPlugin`, made of a target and all settings. Both are
# found by `arcacct.targets`, which has a line for each folder. Nothing else names a kind of target.
#
# Nothing here speaks to anybody: formats are functions from values to text, and a `Sender` is what sends them. Every
# receiver is taken for one that takes a message as a whole or not at all: what is refused is cut in halves, down to the
# record that is at fault.


class DuplicatePolicy(Enum):
    """What a receiver does with a record that it has already, by its key."""

    REPLACES = "it takes the new one in its place: corrections are sent as they are, a record goes by zeros"
    IGNORES = "it keeps the first and says nothing of it: corrections are set aside, and somebody there makes room"
    ANSWERS = "it keeps the first and says so: as IGNORES, and that answer means that the record is there"


class Acceptance(NamedTuple):
    """What a receiver would say of a job's record: the record as it may be sent, or why not."""

    aar: AAR
    """Repaired, where that changes nothing that is accounted."""
    notes: tuple[str, ...] = ()
    """What was repaired."""
    refusal: str | None = None
    """Why it cannot be sent; ``None``: it can."""
    not_before: int | None = None
    """UTC seconds: the refusal is only about this host's clock, and holds until then; ``None``: it holds for good."""


class CellAcceptance(NamedTuple):
    """The same of a usage cell, as it may be summed."""

    cell: UsageCell
    notes: tuple[str, ...] = ()
    """What was repaired: cells that differ in nothing else have one key at the receiver."""
    refusal: str | None = None
    not_before: int | None = None


class RenderedRecord(NamedTuple):
    """A job's record as it goes, of which nothing is noted."""

    key: str
    text: str
    authorisation_group: str | None
    site_and_host: tuple[str, str]


class Envelope(NamedTuple):
    """How texts become one message and how a refused message is cut again."""

    message_format: str
    """The word of the ledger, which never changes: ``ur``, ``car``, ``individual``, ``summaries``, ``sync``, ..."""
    head: str
    tail: str
    record_end: str
    """How each text ends; escaping keeps it out of every value."""
    between: str = ""
    """What stands between two texts, and is part of neither."""

    def join(self, texts: Sequence[str]) -> str:
        """One message of some texts."""
        return f"{self.head}{self.between.join(texts)}{self.tail}"

    def cut(self, message: str) -> list[str]:
        """The texts of a message."""
        inside = message.removeprefix(self.head).removesuffix(self.tail)
        return [text.removeprefix(self.between) + self.record_end for text in inside.split(self.record_end)[:-1]]


class RecordFormat(ABC):
    """Messages with one record for each job, in one format."""

    envelope: Envelope
    can_replace: bool = False
    """Whether there is a text at which a receiver that keeps the first record puts another in its place."""

    @abstractmethod
    def accept(self, aar: AAR, now: int) -> Acceptance:
        """What the receiver would say of a record, asked before it is sent: it refuses whole messages."""

    @abstractmethod
    def text(self, aar: AAR, now: int) -> str:
        """The text of a record that was accepted; ``now``: when it is made, UTC seconds."""

    def rendered(self, row: Row, now: int) -> RenderedRecord | None:  # noqa: ARG002  a format without a short way
        """
        The same at once, with `text`, `key`, `authorisation_group` and `site_and_host`, of a record that plainly needs
        no repair.

        ``None`` of any other one, and of some good ones: `accept` decides about these, and where this raises TypeError
        or ValueError.
        """
        return None

    @abstractmethod
    def key(self, aar: AAR) -> str:
        """What the receiver knows the record by; it stands in the ledger, so it never changes for a job as it is."""

    @abstractmethod
    def site_and_host(self, aar: AAR) -> tuple[str, str]:
        """Where the receiver counts the job: the name of the site, and the submit host (at SGAS: the machine)."""

    def authorisation_group(self, aar: AAR) -> str | None:  # noqa: ARG002  a receiver that does not care
        """Records of different groups never share a message: the receiver grants rights by group (by machine)."""
        return None

    def site_of(self, key: str) -> str:  # noqa: ARG002  a key without the site's name
        """The name of the site in a key, where it has one."""
        return ""

    def of_key(self, key: str) -> RecordFormat:  # noqa: ARG002  a key without the site's name
        """The same for the site that a key names: what was sent under another name is taken back under that name."""
        return self

    def zero_out(self, aar: AAR, key: str) -> AAR:
        """
        The job as it takes back the usage that was sent under an old key; asked where `DuplicatePolicy` is REPLACES.
        """
        raise NotImplementedError

    def replaces(self, aar: AAR) -> bool:  # noqa: ARG002  for all alike
        """Whether it would do so for this record."""
        return self.can_replace

    def replacement(self, aar: AAR, now: int, digest: bytes) -> str:
        """The text that does; ``digest`` is that of the record: with it each version has a name of its own."""
        raise NotImplementedError


class SummaryFormat(ABC):
    """Messages about months, under keys that the receiver replaces by."""

    envelope: Envelope

    @abstractmethod
    def site_and_host(self, endpoint_url: str | None) -> tuple[str, str]:
        """Where the receiver counts a job: site and submit host."""

    @abstractmethod
    def zero(self, key: str) -> str:
        """The text that says there is nothing (any more) under a key of the ledger."""

    @abstractmethod
    def months(self, message: str) -> list[Month]:
        """The month of each sum in the text of a message."""

    @abstractmethod
    def stands_under(self, text: str, key: str) -> bool:
        """Whether the text of a sum is that of a key of the ledger."""


class MonthlySummaries(SummaryFormat):
    """Monthly sums of usage, in one format."""

    @abstractmethod
    def accept(self, cell: UsageCell, now: int) -> CellAcceptance:
        """What the receiver would say of a usage cell."""

    @abstractmethod
    def sums(self, cells: Iterable[UsageCell]) -> list[tuple[str, SentSum]]:
        """The sums of cells that were accepted, by the receiver's key: the text of each, and what is noted of it."""

    @abstractmethod
    def vo_of(self, key: str) -> str | None:
        """The VO in a key of the ledger."""

    def notes(self, cells: Sequence[UsageCell]) -> Iterable[str]:  # noqa: ARG002  nothing
        """What has to be said of the sums of these cells before they are sent."""
        return ()


class SyncCounts(SummaryFormat):
    """How many jobs a receiver was given, for it to compare with its own numbers (APEL's sync)."""

    @abstractmethod
    def counts(self, given: Iterable[tuple[CountingKey, int]]) -> list[tuple[str, SentSum]]:
        """The text of each count, and what is noted of it; of the jobs that the receiver was given, by place."""


class Sender(ABC):
    """
    One target's way out: a message is packed once, kept in the ledger, and sent as often as it takes.

    Used by one thread at a time. Raises CredentialError and ConfigError when it is made, and nothing later: what goes
    wrong then is an `Answer`.
    """

    transport: Transport | None = None
    """The connection, where there is one."""
    destination: str
    """Where messages go, for the ledger: by it a target that has another name is known again."""

    @abstractmethod
    def send(self, message: Message) -> Answer:
        """Send a message of the ledger; network failures are answers too."""

    def name(self) -> str | None:
        """A new name for one message, where the transport has one."""
        return None

    def pack(self, text: str) -> bytes:
        """Exactly what is sent for a text. Raises InputError for one that cannot be."""
        return text.encode("utf-8")

    def unpack(self, data: bytes) -> str:
        """The text of what was packed."""
        return data.decode("utf-8")

    def renewed(self, data: bytes) -> bytes:
        """What was packed, perhaps long ago, as the receiver takes it today: the same text."""
        return data

    def set_deadline(self, deadline: RunDeadline) -> None:
        """Start nothing after the deadline of this run."""
        if self.transport is not None:
            self.transport.set_deadline(deadline)

    def close(self) -> None:
        """Let go of connections."""
        if self.transport is not None:
            self.transport.close()


class ReceiverRows(NamedTuple):
    """What counts at a receiver by its own tables, under places of ours: what we do not publish is taken back."""

    sums: Sequence[tuple[str, SentSum]] = ()
    """With the kind of message that replaces each."""
    records: Sequence[tuple[AAR, SentRecord]] = ()
    """Records of jobs, with all names that the receiver has."""
    others: Mapping[str, int] = MappingProxyType({})
    """Rows left alone, by SubmitHost: another CE's."""


class TargetPlugin(ABC):
    """
    One configured target, as publishing deals with it. Made anew for each run; it may remember what it made.

    A target is sent one kind of message beside counts: records of jobs, or sums of months (`message_format`). Months
    that were begun in another kind stay in it, so `records` and `summaries` make any kind that this receiver ever had.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        """Touch nothing and read nothing: files and connections are a `sender`'s."""
        self.target = target
        self.settings = settings

    message_format: str
    """The kind of messages that the target is sent now, beside counts."""
    record_formats: tuple[str, ...]
    """The kinds with a record for each job; all of them share one table at the receiver, and one key for a job."""
    max_bytes: int
    """How large a text may be for a message to be taken; what is larger all the same is cut when it is refused."""
    duplicate_policy: DuplicatePolicy
    """What the receiver does with a record that it has."""
    confirmation_level: str
    """How far delivery is confirmed, as `verify` shows it: ``stored`` (it named each record), ``handed to AMS``, ..."""
    counts: SyncCounts | None = None
    """Who tells the receiver how many jobs it was given; ``None``: it does not ask."""

    keys_may_collide: bool = False
    """Whether two jobs may have one key there, so that one would replace the other."""
    one_format_per_month: bool = False
    """Whether records and sums of one month would count twice there: the month stays in the kind it was begun in."""
    site: str = ""
    """The name of the site, where the receiver counts by it."""
    returns_row_ids: bool = False
    """Whether its answers name rows of its database: the number of before says that it kept what it had."""
    correction_advice: str = ""
    """
    Where `duplicate_policy` keeps the first: what is to be done before a correction is taken. ``{key}``: the record's.
    """
    bare_ids: BareIDs = ()
    """Of which places the ids go as they are (`selection.bare_ids`): to be set before keys or texts are made."""
    replacement_note: str | None = None
    """What is noted in the ledger of a record that was sent as `RecordFormat.replacement`; never changes."""

    names: tuple[str, ...] = ("lrms_host", "localid_prefix")
    """What of `selection` names jobs at the receiver: under other names it would have them twice."""
    kind_option: str | None = None
    """The one of `names` that chooses the kind of messages; a month keeps the kind it began with."""
    record_names: tuple[str, ...] = ("vofilter", "lrms_host", "localid_prefix")
    """What of `selection` decides whether a record of a job goes to the target, and under what key."""
    takeover_advice: str = "nothing to do: jura-ng publishes to no such receiver"
    """What taking over from jura-ng means, where there is nothing to take over (`switch --plan`)."""

    @abstractmethod
    def records(self, kind: str) -> RecordFormat:
        """Records of jobs of a kind of `record_formats`, whatever the target is sent now."""

    def summaries(self, kind: str) -> MonthlySummaries:
        """Sums of months of any other kind, whatever the target is sent now."""
        raise NotImplementedError(kind)

    @property
    def keeps_first(self) -> bool:
        """Whether a record that the receiver has stays as it is, whatever is sent under its key."""
        return self.duplicate_policy is not DuplicatePolicy.REPLACES

    def any_records(self) -> RecordFormat:
        """Of whatever kind: for what they have in common, keys and places."""
        return self.records(self.record_formats[0])

    def has_records(self, kind: str) -> bool:
        """Whether messages of a kind have a record for each job, and no sums."""
        return kind in self.record_formats

    def sums(self, kind: str) -> SummaryFormat:
        """Of a kind that has no record for each job: the counts, or the sums of months."""
        return self.counts if self.counts is not None and kind == COUNTS else self.summaries(kind)

    def envelope(self, kind: str) -> Envelope:
        """The form of messages of any kind."""
        return (self.records(kind) if self.has_records(kind) else self.sums(kind)).envelope

    def text_of(self, data: bytes) -> str:
        """The text of a message of the ledger, for who sends nothing. Raises ValueError for what is no message."""
        return data.decode("utf-8")

    @abstractmethod
    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        """
        The way to the receiver; ``patience`` overrides the waits of the configuration (tests do).

        Raises CredentialError for a certificate or key that cannot be used, ConfigError for CAs that cannot.
        """

    def keyed(self, names: Mapping[str, object]) -> dict[str, object]:
        """What of `names` decides the keys at the receiver: values that lead to the same keys are equal in it."""
        return dict(names)

    def selection(self) -> dict[str, object]:
        """
        The options, with their values as JSON has them, that decide which jobs go to the target and under what keys.

        The ledger keeps them: a change is a cause to be named when figures fall, and no proof.
        """
        target = self.target
        return {
            "vofilter": sorted(target.vofilter),
            "lrms_host": self.settings.lrms_host,
            "localid_prefix": target.localid_prefix or "",
            "vomsless_vo": ", ".join(f"{rule.authgroup or ''} {rule.name}".strip() for rule in target.vomsless_vo),
            "vo_group": list(target.vo_group),
        }

    def vos(self) -> VOs:
        """The VOs of users who came without one, for what is sent to this target."""
        rules = tuple(VO(rule.name, rule.issuer, rule.authgroup) for rule in self.target.vomsless_vo)
        site = self.settings.places.rules.vomsless_vos
        recorded = tuple(VO(name, issuer, authgroup) for authgroup, name, issuer in site)
        return VOs(rules, own=rules != recorded)

    def default_benchmark(self) -> Benchmark:
        """The benchmark of jobs that have none."""
        return Benchmark.parse(self.settings.places.rules.default_benchmark)

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        """The checks of the receiver that change nothing there (`arcacct doctor`), in this order."""
        return ()

    def receiver_rows(self, paths: Sequence[str], endpoint_urls: Iterable[str | None]) -> ReceiverRows:  # noqa: ARG002
        """
        Read what the receiver's administrator exported of its tables; jobs of this CE had these endpoints.

        Raises InputError for a file that cannot be used, and where the receiver has no keys that can be zeroed.
        """
        raise InputError(f"{self.target.name}: rows of a receiver can be cancelled only at APEL")

    def folded(self, text: str) -> str:
        """A name of a site or a submit host as the receiver compares it."""
        return text

    def corrections(self, con: Connection) -> str:  # noqa: ARG002  nobody there needs anything
        """
        What the receiver's administrator runs to make room for what is set aside as a correction (`quarantine sql`).

        Raises InputError where the receiver needs none of it, and when nothing is quarantined.
        """
        raise InputError(f"{self.target.name}: not an SGAS server; APEL takes corrections as they are")
