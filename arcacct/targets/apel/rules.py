"""
What APEL's loader takes of each kind of record: its parser, the procedures and the columns of its database (MariaDB).

A field that a kind of record does not have refuses the message; so does one bad record. Nobody is told.
"""

from __future__ import annotations

import math

from arcacct.targets.rules import INT4, INT8, Breach, Care, Form, Rule

LONG, QUEUE, DESCRIPTION, INFRASTRUCTURE = 255, 100, 100, 20
"""Characters of its columns of text; ours are ASCII."""

BENCHMARK_TYPES = ("hepscore23", "hepspec", "si2k")
"""In any case; of several in a dictionary the first of these is taken."""

_LEVEL = 10**7 - 0.001
"""The largest that DECIMAL(10,3) holds."""


def _text(most: int, care: Care = Care.OURS, value: str = "", *, needed: bool = False) -> Rule:
    return Rule(Form.TEXT, most, care, value, needed)


def _number(most: float, care: Care, value: str, *, needed: bool = True, least: float = 0) -> Rule:
    return Rule(Form.INTEGER, most, care, value, needed, least, source="procedure")


_TIME = Rule(Form.TIME, math.inf, Care.OTHERWISE, least=-math.inf, source="parser")
_IGNORED = Rule(Form.IGNORED, math.inf, breach=Breach.LOST, source="parser")
_DECIMAL = Rule(Form.DECIMAL, _LEVEL, Care.OTHERWISE, "benchmark", least=-_LEVEL)
_DICTIONARY = _DECIMAL._replace(form=Form.BENCHMARK)

JOB = {
    "Site": _text(LONG, needed=True),
    "GlobalUserName": _text(LONG, Care.CUT, "user_dn"),
    "VO": _text(LONG, Care.CUT, "vo"),
    "VOGroup": _text(LONG),
    "VORole": _text(LONG),
    # Cut, it would lose its role: VO, group and role go in its place.
    "FQAN": _text(LONG, Care.OTHERWISE, "fqans"),
    "SubmitHost": _text(LONG, Care.CUT, "endpoint_url"),
    "SubmitHostType": _IGNORED,
    "MachineName": _text(LONG),
    "Queue": _text(QUEUE, Care.CUT, "queue"),
    # Cut, two jobs could become one: the JobID goes in its place, and that is refused if it is too long itself.
    "LocalJobId": _text(LONG, Care.OTHERWISE, "local_job_id", needed=True),
    "LocalUserId": _text(LONG, Care.CUT, "local_user"),
    "WallDuration": _number(INT4, Care.REFUSE, "wall_s"),
    "CpuDuration": _number(INT4, Care.REFUSE, "cpu_s"),
    "Processors": _number(INT4, Care.UNKNOWN, "core_count", needed=False),
    "NodeCount": _number(INT4, Care.UNKNOWN, "node_count", needed=False),
    "StartTime": _TIME._replace(value="submit_time", needed=True),
    "EndTime": _TIME._replace(care=Care.REFUSE, value="end_time", needed=True),
    "InfrastructureDescription": _text(DESCRIPTION),
    "InfrastructureType": _text(INFRASTRUCTURE),
    "MemoryReal": _number(INT4, Care.LARGEST, "memory_kib", needed=False),
    "MemoryVirtual": _number(INT4, Care.LARGEST, "virtual_memory_kib", needed=False),
    "ServiceLevelType": _text(50),
    "ServiceLevel": _DECIMAL,
    "UpdateTime": _IGNORED,
}
"""An individual job message of any version but v0.4, and a CAR, of which the elements come to the same columns."""

JOB_04 = {**JOB, "ServiceLevel": _DICTIONARY}

_MONTH = {
    "Site": _text(LONG, needed=True),
    "Month": _number(math.inf, Care.REFUSE, "month", least=-math.inf),
    "Year": _number(math.inf, Care.REFUSE, "year", least=-math.inf),
    "GlobalUserName": _text(LONG, Care.CUT, "user_dn"),
    "VO": _text(LONG, Care.CUT, "vo"),
    "VOGroup": _text(LONG, Care.CUT, "fqan"),
    "VORole": _text(LONG),
    "SubmitHost": _text(LONG, Care.CUT, "endpoint_url"),
    "InfrastructureDescription": _text(DESCRIPTION),
    # Not NULL and without default in the database; of a job they have no sign, here they have.
    "NodeCount": _number(INT4, Care.UNKNOWN, "node_count", least=-INT4),
    "Processors": _number(INT4, Care.UNKNOWN, "core_count", least=-INT4),
    "EarliestEndTime": _TIME._replace(value="earliest_end_time"),
    "LatestEndTime": _TIME._replace(value="latest_end_time"),
    "WallDuration": _number(INT8, Care.REFUSE, "wall_s"),
    "CpuDuration": _number(INT8, Care.REFUSE, "cpu_s"),
    "NumberOfJobs": _number(INT4, Care.REFUSE, "jobs"),
    "UpdateTime": _IGNORED,
}
SUMMARY = {
    **_MONTH,
    "InfrastructureType": _text(INFRASTRUCTURE),
    "ServiceLevelType": _text(50),
    "ServiceLevel": _DECIMAL._replace(needed=True),
}
SUMMARY_04 = {**SUMMARY, "ServiceLevel": _DICTIONARY._replace(needed=True)}
NORMALISED = {
    **_MONTH,
    "Infrastructure": _text(INFRASTRUCTURE),
    "ServiceLevelType": _text(50),
    "NormalisedWallDuration": _number(INT8, Care.OURS, ""),
    "NormalisedCpuDuration": _number(INT8, Care.OURS, ""),
}
_NORMALISED_DICTIONARY = Rule(Form.BENCHMARK, INT8, needed=True)
NORMALISED_04 = {
    **NORMALISED,
    "NormalisedWallDuration": _NORMALISED_DICTIONARY,
    "NormalisedCpuDuration": _NORMALISED_DICTIONARY,
}

SYNC = {
    "Site": _text(LONG, needed=True),
    "SubmitHost": _text(LONG),
    # Neither the count nor the month of a sync record is looked at.
    "NumberOfJobs": _number(INT8, Care.OURS, "", least=-INT8),
    "Month": _number(INT4, Care.OURS, "", least=-INT4),
    "Year": _number(INT4, Care.OURS, "", least=-INT4),
}


def derived(fqan: str) -> tuple[str, str | None, str | None]:
    """VO, group and role that the server makes of the first of some FQANs; what begins with no slash is a VO."""
    first = fqan.partition(";")[0]
    if not first.startswith("/"):
        return first, None, None
    parts = first.strip("/").split("/")
    group = "/".join(part for part in parts if not part.startswith(("Role=", "Capability=")))
    return parts[0], f"/{group}", next((part for part in parts if part.startswith("Role=")), None)


def rounded(amount: int, unit: int) -> int:
    """Divided and rounded to the nearest, halves up, as MySQL does it; exact for any size."""
    return (2 * amount + unit) // (2 * unit)
