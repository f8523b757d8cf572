"""APEL's messages as publishing takes them: records of jobs, sums of months, and the counts of sync messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from arcacct.publishing.ledger import SentSum
from arcacct.publishing.ledger_rows import Month
from arcacct.publishing.plugin import (
    Acceptance,
    CellAcceptance,
    Envelope,
    MonthlySummaries,
    RecordFormat,
    RenderedRecord,
    SummaryFormat,
    SyncCounts,
)
from arcacct.publishing.safeguard import CountingKey
from arcacct.records.model import AAR, UsageCell
from arcacct.targets.apel import acceptance, car, messages, summaries
from arcacct.targets.apel.messages import APELOptions, JobKey, apel_local_job_id
from arcacct.targets.apel.summaries import Summary, SummaryKey, Sync, SyncKey
from arcacct.targets.apel.text import END, folded
from arcacct.targets.parts import SOUND, FieldCache
from arcacct.targets.xml import now_time

CAR = Envelope("car", car.HEAD, car.TAIL, "</UsageRecord>\n")
JOB_VERSIONS = {"individual": "v0.3", "individual-v04": "v0.4"}
"""Kinds of texts with a record for each job, and the version of the format."""
SUMMARY_VERSIONS = {
    "summaries": "v0.2",
    "summaries-v03": "v0.3",
    "summaries-v04": "v0.4",
    "normalised-v04": "normalised-v0.4",
}
JOB_KINDS = (CAR.message_format, *JOB_VERSIONS)
"""Kinds of messages with a record for each job, all in one table at APEL."""


class APELRecords(RecordFormat):
    """Records of jobs of a kind: APEL knows a job by site, id and end, whatever the format."""

    def __init__(self, kind: str, options: APELOptions) -> None:
        self.options = options
        self.version = JOB_VERSIONS.get(kind)
        """Of individual job messages; ``None``: compute accounting records in XML."""
        self._site = quoted(messages.job_key(SOUND, options).site)
        shared = car.SHARED if self.version is None else messages.JOB_PARTS[self.version]
        self._shared = FieldCache(self.accept, shared, options)
        self.envelope = CAR if self.version is None else Envelope(kind, messages.JOB_HEADERS[self.version], "", END)

    def accept(self, aar: AAR, now: int) -> Acceptance:
        measure = acceptance.accept_for_car if self.version is None else acceptance.accept_for_apel_job
        return measure(aar, self.options, now)

    def text(self, aar: AAR, now: int) -> str:
        local_id = apel_local_job_id(aar, self.options)
        return self._written(aar, self._shared.made(aar), local_id, now)

    def _written(self, aar: AAR, shared: Sequence[Any], local_id: str, now: int) -> str:
        if self.version is None:
            return car.written(aar, shared, local_id, now_time(now))
        return messages.written(aar, shared, local_id)

    def rendered(self, aar: AAR, now: int) -> RenderedRecord | None:
        options = self.options
        shared = self._shared.of(aar, now)
        local_id = apel_local_job_id(aar, options)
        if shared is None or not acceptance.ids_sound(aar, local_id):
            return None
        text = self._written(aar, shared, local_id, now)
        key = f"[{self._site}, {quoted(folded(local_id) or '')}, {aar.end_time}]"
        return RenderedRecord(key, text, None, shared[0].place)

    def key(self, aar: AAR) -> str:
        site, local_job_id, end_time = messages.job_key(aar, self.options)
        if isinstance(end_time, int):
            # As json.dumps writes it, at a fifth of the cost.
            return f"[{quoted(site)}, {quoted(local_job_id)}, {end_time}]"
        return json.dumps([site, local_job_id, end_time])

    def site_and_host(self, aar: AAR) -> tuple[str, str]:
        return messages.place(aar.endpoint_url, self.options)

    def site_of(self, key: str) -> str:
        site: str = json.loads(key)[0]
        return site

    def of_key(self, key: str) -> RecordFormat:
        return APELRecords(self.envelope.message_format, self.options._replace(site=self.site_of(key)))

    def zero_out(self, aar: AAR, key: str) -> AAR:
        return messages.zeroed_job(aar, JobKey._make(json.loads(key)), self.options)


_AMOUNT = re.compile(r"(?:\w+Duration|NumberOfJobs): ")


class APELSummaryFormat(SummaryFormat):
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


class APELSummaries(APELSummaryFormat, MonthlySummaries):
    """Summaries, of the version that the kind says."""

    def __init__(self, kind: str, options: APELOptions) -> None:
        self.version = SUMMARY_VERSIONS[kind]
        self.envelope = Envelope(kind, summaries.SUMMARY_HEADERS[self.version], "", END)
        self.options = options

    def accept(self, cell: UsageCell, now: int) -> CellAcceptance:
        return acceptance.accept_cell(cell, self.options, now)

    def sums(self, cells: Iterable[UsageCell]) -> list[tuple[str, SentSum]]:
        return [
            (self._text(one), _noted(one, one.wall_s)) for one in summaries.summaries(cells, self.options, self.version)
        ]

    def _text(self, summary: Summary) -> str:
        return summaries.summary_record(summary, self.version, self.options.dialect)

    def zero(self, key: str) -> str:
        return self._text(summaries.zero_summary(SummaryKey._make(json.loads(key))))

    def vo_of(self, key: str) -> str | None:
        return SummaryKey._make(json.loads(key)).vo

    def notes(self, cells: Sequence[UsageCell]) -> Iterable[str]:
        """Of months whose jobs have benchmarks of several types, which v0.3 summaries cannot tell apart."""
        if self.version != "v0.3":
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


class APELSyncCounts(APELSummaryFormat, SyncCounts):
    """How many jobs were sent of each month and submit host, which APEL compares with what it has."""

    envelope = Envelope("sync", summaries.SYNC_HEADER, "", END)

    def __init__(self, options: APELOptions) -> None:
        self.options = options

    def counts(self, given: Iterable[tuple[CountingKey, int]]) -> list[tuple[str, SentSum]]:
        """An older ledger knows the site's name as it is compared; today's is spelled as it is configured."""
        site = self.options.site
        found = [
            (SyncKey(site if folded(place.site) == folded(site) else place.site, *place[1:]), jobs)
            for place, jobs in given
        ]
        return [(summaries.sync_record(one), _noted(one, 0)) for one in summaries.syncs(found)]

    def zero(self, key: str) -> str:
        return summaries.sync_record(summaries.zero_sync(SyncKey._make(json.loads(key))))
