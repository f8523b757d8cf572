"""
The interface of a target for publishing: one `TargetPlugin` for each kind of target.

A kind of target is a folder below `arcacct.targets`. Its `options.py` has ``KIND``: the options of its block in the
configuration, and the class of their values (`config.options.TargetKind`, `Target`). It imports nothing expensive.
Its `target.py` has ``PLUGIN``, the class of its `TargetPlugin`, created from a target and all settings.
`arcacct.targets` finds both, with a line for each folder. No other module names a kind of target.

Nothing here sends anything: formats are functions from values to text, and a `Sender` sends them. Every receiver is
assumed to accept a message as a whole or not at all: a refused message is cut in halves, down to the record that is
at fault.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.errors import InputError
from arcacct.publishing.ledger import COUNTS, Names, SentRecord, SentSum
from arcacct.publishing.sent import digest_of
from arcacct.records.model import AAR, VOs
from arcacct.records.states import FAILED

if TYPE_CHECKING:
    from arcacct.config.options import Target
    from arcacct.config.settings import Settings
    from arcacct.database.connection import Connection
    from arcacct.publishing.answers import Answer, RunDeadline
    from arcacct.publishing.ledger import Message
    from arcacct.publishing.sent import CountingKey
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy, Transport
    from arcacct.records.batch_jobs import BareIDs
    from arcacct.records.model import UsageCell
    from arcacct.times import Month


class DuplicatePolicy(Enum):
    """The receiver's treatment of a record whose key it already has."""

    REPLACES = "it replaces the record: corrections are sent unchanged, and zeros remove a record"
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


def bare(job_id: str, end_time: int, local_job_id: str | None = None) -> AAR:
    """Return a record with nothing but the job's IDs and its end time."""
    return AAR(
        record_id=0, job_id=job_id, local_job_id=local_job_id, endpoint_type=None, endpoint_url=None, queue=None,
        user_dn=None, vo=None, status=FAILED, exit_code=1, submit_time=0, end_time=end_time, node_count=1,
        core_count=1, memory_kib=0, virtual_memory_kib=0, wall_s=0, cpu_user_s=0, cpu_kernel_s=0, scratch_bytes=0,
        stage_in_bytes=0, stage_out_bytes=0,
    )  # fmt: skip


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
    """The destination of messages, for the ledger. It identifies a target that has a new name."""

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
    One configured target, as publishing uses it. It is created for each run, and may cache its objects.

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
    """The receiver's treatment of a record that it already has."""
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
    takeover_advice: str = "nothing to do: jura-ng does not publish to this kind of receiver"
    """The meaning of a takeover from jura-ng if there is nothing to take over; empty: its sums would count as well."""

    @abstractmethod
    def records(self, kind: str) -> RecordFormat:
        """Return the format of job records of a kind of `record_formats`, for any present kind of messages."""

    def summaries(self, kind: str) -> MonthlySummaries:
        """Return the format of monthly sums of any other kind, for any present kind of messages."""
        raise NotImplementedError(kind)

    @property
    def former_block(self) -> str:
        """The name under which jura-ng knows a target with the same receiver."""
        return self.target.block

    @property
    def keeps_first(self) -> bool:
        """Whether the receiver keeps its record, and ignores later ones under its key."""
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

    def record_selection(self) -> dict[str, object]:
        """Return the part of `selection` that decides whether a job's record goes there, and under which key."""
        selection = self.selection()
        return {name: selection[name] for name in self.record_names}

    def vo_of(self, cell: UsageCell) -> str | None:
        """Return the VO under which the receiver counts the jobs of a cell; ``None``: none."""
        return cell.vo

    def vos(self) -> VOs:
        """The VOs of users who came without one, for records to this target."""
        rules = self.target.vomsless_vo
        return VOs(rules, own=rules != self.settings.places.rules.vomsless_vos)

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
        raise InputError(f"{self.target.name}: not an SGAS server; APEL accepts corrections unchanged")
