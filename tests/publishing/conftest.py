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
    rig,
    rsa_host,
    session,
    session_of,
)

__all__ = [
    "authority",
    "box",
    "closed_databases",
    "empty_box",
    "host",
    "issue",
    "memory",
    "naps",
    "receiver",
    "rig",
    "rsa_host",
    "session",
    "session_of",
]
