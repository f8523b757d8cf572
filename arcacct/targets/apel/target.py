"""APEL as a target: its behaviour, and its records, summaries and sync messages for publishing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from json.encoder import encode_basestring_ascii as quoted
from typing import TYPE_CHECKING, Any

from arcacct.config.settings import Settings
from arcacct.errors import InputError
from arcacct.publishing import plugin
from arcacct.publishing.ledger import Names, SentSum
from arcacct.publishing.sent import CountingKey
from arcacct.records.model import AAR, UsageCell
from arcacct.targets.apel import acceptance, car, messages, summaries
from arcacct.targets.apel.messages import END, APELOptions, apel_local_job_id, folded, membership
from arcacct.targets.apel.options import SPECIFIED, APELContent, APELTarget
from arcacct.targets.apel.summaries import Summary, SummaryKey, Sync, SyncKey
from arcacct.targets.common import now_time
from arcacct.targets.parts import Plain, RecordOfParts
from arcacct.times import Month

if TYPE_CHECKING:
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy


# APEL's messages for publishing: records of jobs, sums of months, and the counts of sync messages.


CAR = plugin.Envelope("car", car.HEAD, car.TAIL, "</UsageRecord>\n")
JOB_VERSIONS = {"individual": "v0.3", "individual-v04": "v0.4"}
"""Kinds of texts with a record for each job, and the version of the format."""
JOB_KINDS = (CAR.message_format, *JOB_VERSIONS)
"""Kinds of messages with a record for each job, all in one table at APEL."""


_VO = 4
"""Index of the VO in the names of a job record."""


class APELRecords(RecordOfParts[APELOptions]):
    """Records of jobs of a kind: APEL identifies a job by site, id and end, in any format."""

    def __init__(self, kind: str, options: APELOptions) -> None:
        self.version = JOB_VERSIONS.get(kind)
        """The version of individual job messages; ``None``: compute accounting records in XML."""
        self.site = messages.place(None, options)[0]
        self._site = quoted(folded(self.site) or "")
        super().__init__(options, car.SHARED if self.version is None else messages.JOB_PARTS[self.version])
        self.envelope = (
            CAR if self.version is None else plugin.Envelope(kind, messages.JOB_HEADERS[self.version], "", END)
        )

    def accept(self, aar: AAR, now: int) -> plugin.Acceptance:
        measure = acceptance.accept_for_car if self.version is None else acceptance.accept_for_apel_job
        return measure(aar, self.options, now)

    def local_id(self, aar: AAR) -> str:
        return apel_local_job_id(aar, self.options)

    def plain(self, aar: AAR, parts: Sequence[Any], local_id: str | None) -> Plain:
        assert local_id is not None
        if not acceptance.ids_sound(aar.job_id, aar.local_job_id, local_id):
            return None
        return self._key(local_id, aar.end_time), None, self._names(aar, parts)

    def _key(self, local_id: str, end_time: object) -> str:
        # The form of json.dumps, at a fifth of the cost.
        end = end_time if isinstance(end_time, int) else json.dumps(end_time)
        return f"[{self._site}, {quoted(folded(local_id) or '')}, {end}]"

    def _names(self, aar: AAR, parts: Sequence[Any]) -> Names:
        where, user = parts[:2]
        return (*where.names, *user.names, *where.level_names, aar.node_count, aar.core_count)

    def written(self, aar: AAR, parts: Sequence[Any], local_id: str | None, now: int) -> str:
        assert local_id is not None
        if self.version is None:
            return car.car_record(aar, parts, local_id, now_time(now))
        return messages.written(aar, parts, local_id)

    def key(self, aar: AAR) -> str:
        return self._key(self.local_id(aar), aar.end_time)

    def names(self, aar: AAR) -> Names:
        return self._names(aar, self.parts(aar))

    def site_of(self, key: str) -> str:
        site: str = json.loads(key)[0]
        return site

    def zeros(self, key: str, names: Names, now: int) -> str:
        _site, local_id, end_time = json.loads(key)
        if self.version is None:
            return car.zero_record(names, local_id, end_time, now_time(now))
        return messages.zero_record(names, local_id, end_time, self.version, self.options.dialect)

    def vo_of(self, names: Names) -> str | None:
        vo = names[_VO] if len(names) > _VO else None
        return None if vo is None else str(vo)

    def group_record(self, names: Names, end_time: int) -> tuple[str, str]:
        # No batch system gives such an ID, and the same group always has the same one.
        group = [folded(one) if isinstance(one, str) else one for one in names]
        local_id = f"arcacct-zero-{sha256(json.dumps(group).encode()).hexdigest()[:16]}"
        return local_id, json.dumps([group[0], local_id, end_time])

    def names_of_cell(self, cell: UsageCell, now: int) -> Names:
        verdict = acceptance.accept_cell(cell, self.options, now)
        if verdict.refusal is not None:
            raise InputError(verdict.refusal)
        key = summaries.spelling(verdict.cell, self.options)
        return (
            *(key.site or "", key.submit_host or "", key.infrastructure, key.user, key.vo, key.group, key.role),
            *(key.benchmark_type, key.benchmark_value, key.node_count, key.processors),
        )


_AMOUNT = re.compile(r"(?:\w+Duration|NumberOfJobs): ")


class APELSummaryFormat(plugin.SummaryFormat):
    """What summaries and sync messages have in common."""

    options: APELOptions

    def site_and_host(self, endpoint_url: str | None) -> tuple[str, str]:
        return messages.place(endpoint_url, self.options)

    def months(self, message: str) -> list[Month]:
        months = re.findall("^Month: ([0-9]+)$", message, re.MULTILINE)
        years = re.findall("^Year: ([0-9]+)$", message, re.MULTILINE)
        return [(int(year), int(month)) for year, month in zip(years, months, strict=True)]

    def stands_under(self, text: str, key: str) -> bool:
        return _names(text) == _names(self.zero(key))


def _names(text: str) -> set[str]:
    """The lines of a sum without its amounts, as MySQL compares them."""
    lines = (re.sub("[0-9]+", "", line) if _AMOUNT.match(line) else line for line in text.splitlines())
    return {line.rstrip(" ").lower() for line in lines if not line.startswith(("EarliestEndTime:", "LatestEndTime:"))}


class APELSummaries(APELSummaryFormat, plugin.MonthlySummaries):
    """Summaries, of the version that the kind says."""

    def __init__(self, kind: str, options: APELOptions) -> None:
        self.kind = kind
        self.envelope = plugin.Envelope(kind, summaries.SUMMARY_HEADERS[kind], "", END)
        self.options = options

    def accept(self, cell: UsageCell, now: int) -> plugin.CellAcceptance:
        return acceptance.accept_cell(cell, self.options, now)

    def sums(self, cells: Iterable[UsageCell]) -> list[tuple[str, SentSum]]:
        return [
            (self._text(one), _noted(one, one.wall_s)) for one in summaries.summaries(cells, self.options, self.kind)
        ]

    def _text(self, summary: Summary) -> str:
        return summaries.summary_record(summary, self.kind, self.options.dialect)

    def zero(self, key: str) -> str:
        return self._text(summaries.zero_summary(SummaryKey._make(json.loads(key))))

    def vo_of(self, key: str) -> str | None:
        return SummaryKey._make(json.loads(key)).vo

    def without_site(self, key: str) -> str:
        return json.dumps(SummaryKey._make(json.loads(key))._replace(site=None, submit_host=None))

    def notes(self, cells: Sequence[UsageCell]) -> Iterable[str]:
        """Return notes on months whose jobs have benchmarks of several types, which v0.3 cannot distinguish."""
        if self.kind != "summaries-v03":
            return
        for (year, month), types in summaries.mixed_benchmarks(cells, self.options).items():
            yield (
                f"{year:04d}-{month:02d}: benchmarks of types {', '.join(types)} are summed as if all were {types[0]}:"
                " v0.3 messages carry no type; apel_messages=normalised-v04 does"
            )


def _noted(one: Summary | Sync, wall_s: int) -> SentSum:
    key, spelling = one.key, one.spelling
    names = spelling.site or "", spelling.submit_host or ""
    return SentSum(json.dumps(key), key.year, key.month, one.jobs, wall_s, *names)


class APELSyncCounts(APELSummaryFormat, plugin.SyncCounts):
    """How many jobs were sent of each month and submit host, which APEL compares with what it has."""

    envelope = plugin.Envelope("sync", summaries.SYNC_HEADER, "", END)

    def __init__(self, options: APELOptions) -> None:
        self.options = options

    def counts(self, given: Iterable[tuple[CountingKey, int]]) -> list[tuple[str, SentSum]]:
        """
        Return the counts. An older ledger has the site's name in the form for comparison; today's has the configured
        spelling.
        """
        site = self.options.site
        found = [
            (SyncKey(site if folded(place.site) == folded(site) else place.site, *place[1:]), jobs)
            for place, jobs in given
        ]
        return [(summaries.sync_record(one), _noted(one, 0)) for one in summaries.syncs(found)]

    def zero(self, key: str) -> str:
        place = SyncKey._make(json.loads(key))
        return summaries.sync_record(Sync(place, place, 0))


# The behaviour of APEL, over AMS or by a site's own sender. APEL replaces records by their keys, deletes nothing,
# reports no rejected message, and sums everything: job records under another key, and sums together with records of the
# same month, count twice.


class APELMessages(plugin.TargetPlugin):
    """A target with APEL's messages, however they get there."""

    target: APELContent
    record_formats = JOB_KINDS
    # Text that stays below 1,000,000 bytes of base64 after signing.
    max_bytes = 735_000
    crlf = True
    duplicate_policy = plugin.DuplicatePolicy.REPLACES
    keys_may_collide = True
    groups_records = True
    one_format_per_month = True
    names = ("gocdb_name", "lrms_host", "localid_prefix", "apel_messages")
    kind_option = "apel_messages"
    record_names = ("vofilter", "gocdb_name", "lrms_host", "localid_prefix")
    takeover_advice = ""

    def __init__(self, target: APELContent, settings: Settings) -> None:
        super().__init__(target, settings)
        chosen = target.apel_messages
        if target.apel_dialect == "seed":
            chosen = SPECIFIED[chosen]
        self.message_format = CAR.message_format if chosen == "urs" else chosen
        self.options = APELOptions(
            site=target.gocdb_name,
            lrms_host=settings.lrms_host,
            localid_prefix=target.localid_prefix or "",
            vomsless_vo=self.vos(),
            vo_groups=target.vo_group,
            start_time_source=target.start_time_source,
            default_benchmark=self.default_benchmark(),
            local_group_prefix=settings.local_group_prefix or "",
            dialect=target.apel_dialect,
            local_jobs=target.local_jobs,
        )
        self.site = target.gocdb_name
        self.counts: APELSyncCounts = APELSyncCounts(self.options)

    @property
    def former_block(self) -> str:
        # A directory is also read by APEL.
        return f"arex/jura/apel:{self.target.block.partition(':')[2]}"

    def records(self, kind: str) -> plugin.RecordFormat:
        return APELRecords(kind, self.options._replace(bare_ids=self.bare_ids))

    def summaries(self, kind: str) -> plugin.MonthlySummaries:
        return APELSummaries(kind, self.options)

    def keyed(self, names: Mapping[str, object]) -> dict[str, object]:
        # All kinds of job records share a table at APEL, and its key.
        is_of_jobs = names.get("apel_messages") in ("urs", *JOB_KINDS)
        return {**names, "apel_messages": "urs"} if is_of_jobs else dict(names)

    def selection(self) -> dict[str, object]:
        return super().selection() | {
            "gocdb_name": self.target.gocdb_name,
            "apel_messages": self.target.apel_messages,
            "local_group_prefix": self.options.local_group_prefix,
            "benchmark": self.settings.places.rules.default_benchmark,
        }

    def receiver_rows(self, paths: Sequence[str], endpoint_urls: Iterable[str | None]) -> plugin.ReceiverRows:
        from arcacct.targets.apel import receiver_rows  # noqa: PLC0415  for one option alone

        return receiver_rows.read(paths, {folded(self.counts.site_and_host(url)[1]) for url in endpoint_urls})

    def folded(self, text: str) -> str:
        return folded(text) or ""

    def vo_of(self, cell: UsageCell) -> str | None:
        return membership(cell.vo, cell.fqan, cell.auth_groups, cell.endpoint_url, self.options).vo


class APELPlugin(APELMessages):
    """Messages by AMS."""

    target: APELTarget
    confirmation_level = "handed to AMS"

    def text_of(self, data: bytes) -> str:
        from arcacct.targets.apel.ams import signed_text  # noqa: PLC0415  cryptography is slow to import

        return signed_text(data)

    def sender(self, timeouts: TimeoutPolicy | None = None) -> plugin.Sender:
        # For AMS only: the library behind it takes longer to import than a thousand records to publish.
        from arcacct.publishing.transport import transport_to  # noqa: PLC0415
        from arcacct.targets.apel.ams import AMSSender, Signer  # noqa: PLC0415

        target, shown = self.target, self.target.transport_options
        session = transport_to(shown, timeouts)
        return AMSSender(target.url, target.authn_url, session, Signer(shown.x509_host_cert, shown.x509_host_key))

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        from arcacct.publishing import transport  # noqa: PLC0415  HTTP is slow to import
        from arcacct.targets.apel.ams import classify_ams_status, classify_authn  # noqa: PLC0415

        target = self.target
        known = "a token was issued (and discarded): our certificate's DN is registered"
        return (
            transport.ConnectivityCheck(
                "server", f"https://{target.address.netloc}/v1/status", classify_ams_status, "AMS is up"
            ),
            # Each run also requests a token at its start; the request changes nothing.
            transport.ConnectivityCheck("token", target.authn_url, classify_authn, known),
        )


PLUGIN = APELPlugin
