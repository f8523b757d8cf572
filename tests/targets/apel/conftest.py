"""Fixtures of these tests."""

from __future__ import annotations

from closed_later import closed_databases
from publishing_fixtures import (
    authority,
    box,
    empty_box,
    host,
    issue,
    memory,
    naps,
    receiver,
    rsa_host,
    session,
    session_of,
)
from target_fixtures import arex_jobs, bare_job, car_schema, cell, golden, job

__all__ = [
    "arex_jobs",
    "authority",
    "bare_job",
    "box",
    "car_schema",
    "cell",
    "closed_databases",
    "empty_box",
    "golden",
    "host",
    "issue",
    "job",
    "memory",
    "naps",
    "receiver",
    "rsa_host",
    "session",
    "session_of",
]
