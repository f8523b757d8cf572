"""
What publishing has to know of a target, and all that it knows: one `TargetPlugin` for each kind of target.

A kind of target is a folder below `arcacct.targets`. Its `options.py` has ``KIND``: what its block of the configuration
may have, and the class of its values (`config.options.TargetKind`, `Target`); it imports nothing that is dear. Its
`plug.py` has ``PLUG``, the class of its `TargetPlugin`, made of a target and all settings. Both are found by
`arcacct.targets`, which has a line for each folder. Nothing else names a kind of target.

Nothing here speaks to anybody: formats are functions from values to text, and a `Sender` is what sends them. Every
receiver is taken for one that takes a message as a whole or not at all: what is refused is cut in halves, down to the
record that is at fault.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.errors import InputError
from arcacct.publishing.ledger import COUNTS, SentRecord, SentSum
from arcacct.records.model import VO, VOs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from arcacct.config.options import Target
    from arcacct.config.settings import Settings
    from arcacct.database.connection import Connection
    from arcacct.publishing.answers import Answer
    from arcacct.publishing.clock import RunDeadline
    from arcacct.publishing.given import CountingKey
    from arcacct.publishing.instants import Month
    from arcacct.publishing.ledger import Message
    from arcacct.publishing.probing import ConnectivityCheck
    from arcacct.publishing.session import TimeoutPolicy, Transport
    from arcacct.records.batch_jobs import BareIDs
    from arcacct.records.model import AAR, UsageCell


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

    def rendered(self, aar: AAR, now: int) -> RenderedRecord | None:  # noqa: ARG002  a format without a short way
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
        raise InputError(f"{self.target.name}: rows of a receiver can be taken back at APEL only")

    def folded(self, text: str) -> str:
        """A name of a site or a submit host as the receiver compares it."""
        return text

    def corrections(self, con: Connection) -> str:  # noqa: ARG002  nobody there needs anything
        """
        What the receiver's administrator runs to make room for what is set aside as a correction (`quarantine sql`).

        Raises InputError where the receiver needs none of it, and when nothing is set aside.
        """
        raise InputError(f"{self.target.name}: not an SGAS server; APEL takes corrections as they are")
