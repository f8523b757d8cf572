"""Fixtures of these tests."""

from __future__ import annotations

from closed_later import closed_databases
from publishing_fixtures import authority, host, naps, receiver, session, session_of
from target_fixtures import arex_jobs, bare_job, golden, job, ur_schema

__all__ = [
    "arex_jobs",
    "authority",
    "bare_job",
    "closed_databases",
    "golden",
    "host",
    "job",
    "naps",
    "receiver",
    "session",
    "session_of",
    "ur_schema",
]
