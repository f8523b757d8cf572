"""What each target is sent: the format of a record, a usage cell or a count, and what its receiver would refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from arcacct.benchmark import Benchmark
from arcacct.conf.settings import Settings
from arcacct.conf.targets import APELTarget, DirectoryTarget, SGASTarget, Target
from arcacct.jobs.aar import AAR
from arcacct.jobs.fqan import VO, VOs
from arcacct.targets import acceptance
from arcacct.targets.apel import car, messages, summaries
from arcacct.targets.apel.car import CAROptions
from arcacct.targets.apel.messages import APELOptions, JobKey
from arcacct.targets.apel.summaries import SUMMARY_HEADERS, SYNC_HEADER, SummaryKey, SyncKey
from arcacct.targets.sgas import usage_record
from arcacct.targets.sgas.usage_record import UROptions


class Document(NamedTuple):
    """How texts become one message and how a refused message is cut again: ``head``, texts that end alike, ``tail``."""

    kind: str
    """The word of the ledger: ``ur``, ``car``, ``individual``, ``summaries``, ``sync``, ..."""
    head: str
    tail: str
    record_end: str

    def join(self, texts: list[str]) -> str:
        """One message of some texts."""
        return f"{self.head}{''.join(texts)}{self.tail}"

    def cut(self, message: str) -> list[str]:
        """The texts of a message: escaping keeps ``record_end`` out of every value."""
        inside = message.removeprefix(self.head).removesuffix(self.tail)
        return [text + self.record_end for text in inside.split(self.record_end)[:-1]]


class JobFamily(NamedTuple):
    """Messages of one record for each job."""

    document: Document
    accept: Callable[[AAR, int], acceptance.Verdict]
    text: Callable[[AAR, int], str]
    group: Callable[[AAR], str | None]
    """Records of different groups never share a message (SGAS authorises by MachineName)."""
    key: Callable[[AAR], str]
    """What the receiver knows the record by."""
    neutral: Callable[[AAR, str], AAR] | None
    """The job as it takes the usage sent under an old key back; ``None``: the receiver keeps the first version."""
    place: Callable[[AAR], tuple[str, str]]
    """Where the receiver counts the job: the name of the site, and the submit host (at SGAS: the machine)."""
    replacement: Callable[[AAR, int, str], str] | None = None
    """The text with another GlobalJobId, at which the receiver replaces what it has; ``None``: that is not wanted."""
    of_key: Callable[[str], JobFamily] | None = None
    """The same for the site that a key names: what was sent under another name is taken back under that name."""


class SummaryFamily(NamedTuple):
    """Messages of monthly sums."""

    document: Document
    version: str
    options: APELOptions


UR = Document("ur", usage_record.HEAD, usage_record.TAIL, "</JobUsageRecord>\n")
CAR = Document("car", car.HEAD, car.TAIL, "</UsageRecord>\n")
SYNC = Document("sync", SYNC_HEADER, "", "%%\n")
_SUMMARY_VERSIONS = {
    "summaries": "v0.2",
    "summaries-v03": "v0.3",
    "summaries-v04": "v0.4",
    "normalised-v04": "normalised-v0.4",
}
_JOB_VERSIONS = {"individual": "v0.3", "individual-v04": "v0.4"}
DOCUMENTS = {
    document.kind: document
    for document in (
        UR,
        CAR,
        SYNC,
        *(Document(kind, SUMMARY_HEADERS[version], "", "%%\n") for kind, version in _SUMMARY_VERSIONS.items()),
        *(Document(kind, messages.JOB_HEADERS[version], "", "%%\n") for kind, version in _JOB_VERSIONS.items()),
    )
}


def family_of(target: Target, settings: Settings) -> JobFamily | SummaryFamily:
    """What the target is sent beside sync messages."""
    if isinstance(target, SGASTarget):
        return job_family(UR.kind, target, settings)
    if target.apel_messages in _SUMMARY_VERSIONS:
        return summary_family(target.apel_messages, target, settings)
    return job_family(CAR.kind if target.apel_messages == "urs" else target.apel_messages, target, settings)


def summary_family(kind: str, target: APELTarget | DirectoryTarget, settings: Settings) -> SummaryFamily:
    """The family of sums of a kind, whatever the target is sent now."""
    return SummaryFamily(DOCUMENTS[kind], _SUMMARY_VERSIONS[kind], apel_options(target, settings))


def job_family(kind: str, target: Target, settings: Settings) -> JobFamily:
    """The family of job records of a kind, whatever the target is sent now; SGAS has but one."""
    if isinstance(target, SGASTarget):
        return _usage_records(target, settings)
    if kind == CAR.kind:
        return _compute_records(target, settings)
    return _individual_jobs(DOCUMENTS[kind], _JOB_VERSIONS[kind], apel_options(target, settings))


def zero_text(kind: str, key: str, dialect: str) -> str:
    """A sum of a kind that says there is nothing (any more) under a key of the ledger."""
    values = json.loads(key)
    if kind == SYNC.kind:
        return summaries.sync_record(summaries.zero_sync(SyncKey._make(values)))
    zero = summaries.zero_summary(SummaryKey._make(values))
    return summaries.summary_record(zero, _SUMMARY_VERSIONS[kind], dialect)


def _individual_jobs(document: Document, version: str, options: APELOptions) -> JobFamily:
    return JobFamily(
        document,
        lambda aar, now: acceptance.accept_for_apel_job(aar, options, now),
        lambda aar, _now: messages.individual_job(aar, options, version),
        lambda _aar: None,
        lambda aar: _job_key(aar, options),
        lambda aar, key: messages.neutral_job(aar, JobKey._make(json.loads(key)), options.localid_prefix),
        lambda aar: messages.place(aar.endpoint_url, options),
        of_key=lambda key: _individual_jobs(document, version, options._replace(site=json.loads(key)[0])),
    )


def _job_key(aar: AAR, options: APELOptions) -> str:
    site, local_job_id, end_time = messages.job_key(aar, options.site, options.localid_prefix)
    if isinstance(end_time, int):
        # As json.dumps writes it, at a fifth of the cost.
        return f"[{quoted(site)}, {quoted(local_job_id)}, {end_time}]"
    return json.dumps([site, local_job_id, end_time])


def _usage_records(target: SGASTarget, settings: Settings) -> JobFamily:
    options = UROptions(
        host=settings.lrms_host,
        localid_prefix=target.localid_prefix or "",
        vomsless_vo=_vomsless(target, settings),
        vo_groups=target.vo_group,
        start_time_source=target.start_time_source,
        vo_style=target.sgas_vo_style,
        host_style=target.sgas_host_style,
        memory_type=target.memory_type,
    )
    return JobFamily(
        UR,
        lambda aar, now: acceptance.accept_for_sgas(aar, options, now),
        lambda aar, now: usage_record.usage_record(aar, options, now),
        lambda aar: usage_record.machine_name(aar, options),
        lambda aar: usage_record.record_id(aar, options),
        None,
        lambda aar: ("", usage_record.machine_name(aar, options) or ""),
        (lambda aar, now, other_id: usage_record.usage_record(aar, options, now, other_id))
        if target.sgas_corrections == "replace"
        else None,
    )


def _compute_records(target: APELTarget | DirectoryTarget, settings: Settings, site: str | None = None) -> JobFamily:
    options = CAROptions(
        site=site or target.gocdb_name,
        host=settings.lrms_host,
        localid_prefix=target.localid_prefix or "",
        vomsless_vo=_vomsless(target, settings),
        vo_groups=target.vo_group,
        start_time_source=target.start_time_source,
        default_benchmark=_benchmark(settings),
        local_group_prefix=settings.local_group_prefix or "",
    )
    text_options = options.text_options()
    return JobFamily(
        CAR,
        lambda aar, now: acceptance.accept_for_car(aar, options, now),
        lambda aar, now: car.car(aar, options, now),
        lambda _aar: None,
        lambda aar: _job_key(aar, text_options),
        lambda aar, key: messages.neutral_job(aar, JobKey._make(json.loads(key)), options.localid_prefix),
        lambda aar: messages.place(aar.endpoint_url, text_options),
        of_key=lambda key: _compute_records(target, settings, json.loads(key)[0]),
    )


def apel_options(target: APELTarget | DirectoryTarget, settings: Settings) -> APELOptions:
    """A target's choices for text messages."""
    return APELOptions(
        site=target.gocdb_name,
        lrms_host=settings.lrms_host,
        localid_prefix=target.localid_prefix or "",
        vomsless_vo=_vomsless(target, settings),
        vo_groups=target.vo_group,
        start_time_source=target.start_time_source,
        default_benchmark=_benchmark(settings),
        local_group_prefix=settings.local_group_prefix or "",
        dialect=target.apel_dialect,
    )


def _vomsless(target: Target, settings: Settings) -> VOs:
    rules = tuple(VO(rule.name, rule.issuer, rule.authgroup) for rule in target.vomsless_vo)
    recorded = tuple(VO(name, issuer, authgroup) for authgroup, name, issuer in settings.places.rules.vomsless_vos)
    return VOs(rules, own=rules != recorded)


def _benchmark(settings: Settings) -> Benchmark:
    return Benchmark.parse(settings.places.rules.default_benchmark)


def wants(target: Target, vo: str | None) -> bool:
    """Whether a job of this VO is the target's business (``vofilter``)."""
    return not target.vofilter or vo in target.vofilter


def mixed_benchmarks_note(months: dict[tuple[int, int], tuple[str, ...]]) -> list[str]:
    """What to say of months whose jobs have benchmarks of several types, which v0.3 summaries cannot tell apart."""
    return [
        f"{year:04d}-{month:02d}: benchmarks of types {', '.join(types)} are summed as if all were {types[0]}:"
        " v0.3 messages carry no type; apel_messages=normalised-v04 does"
        for (year, month), types in months.items()
    ]
