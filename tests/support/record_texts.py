"""The text of one accepted job in each format, by a format of its own: no other job has left it any part."""

from __future__ import annotations

from arcacct.records.model import AAR
from arcacct.targets.apel.messages import APELOptions
from arcacct.targets.apel.target import APELRecords
from arcacct.targets.auditor.record import RecordOptions
from arcacct.targets.auditor.target import AuditorRecords
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

_KINDS = {"v0.3": "individual", "v0.4": "individual-v04"}


def usage_record(aar: AAR, options: UROptions, created: int) -> str:
    """A JobUsageRecord for SGAS."""
    return UsageRecords(options, can_replace=False).text(aar, created)


def car(aar: AAR, options: APELOptions, created: int) -> str:
    """A UsageRecord for APEL."""
    return APELRecords("car", options).text(aar, created)


def individual_job(aar: AAR, options: APELOptions, version: str = "v0.3") -> str:
    """An individual job message for APEL."""
    return APELRecords(_KINDS[version], options).text(aar, 0)


def record(aar: AAR, options: RecordOptions) -> str:
    """A record for AUDITOR."""
    return AuditorRecords(options).text(aar, 0)
