"""
What records say of jobs that came to their batch system without ARC: their own start, infrastructure and middleware.

Nothing of it is part of a key, at any receiver, nor of the digest of a record: with other words a job is the same one,
and is not sent again for their sake.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arcacct.config.values import LocalJobs
from arcacct.records.batch_jobs import LOCAL
from arcacct.records.model import AAR

_UNNAMED = "LOCAL"
"""The infrastructure of a job of which no batch system is known."""


class LocalJobValues(NamedTuple):
    """The values of a record in which jobs of ARC and other jobs differ."""

    start_time_source: str
    """``submit`` or ``lrms`` (`identity.start_time`)."""
    infrastructure: str | None
    """A description; ``None``: ARC's, as the format has it."""
    middleware: str | None
    """``None``: ARC; empty: none is known."""


def is_local(aar: AAR) -> bool:
    """Whether a job came through no endpoint: one of ARC's has the interface even where the URL is not known."""
    return not aar.endpoint_url and aar.endpoint_type in (None, LOCAL)


def local_job_values(aar: AAR, lines: Iterable[LocalJobs], start_time_source: str) -> LocalJobValues:
    """By the first line of the job's batch system, else the first for any, else ``own``."""
    if not is_local(aar):
        return LocalJobValues(start_time_source, None, None)
    lrms = (aar.lrms or "").lower()
    of_lrms = [line for line in lines if line.lrms == lrms] or [line for line in lines if line.lrms is None]
    line = of_lrms[0] if of_lrms else LocalJobs("own")
    if line.profile == "arc":
        return LocalJobValues(start_time_source, line.infrastructure, None)
    return LocalJobValues("lrms", line.infrastructure or lrms.upper() or _UNNAMED, lrms)
