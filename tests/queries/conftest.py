"""Fixtures of these tests."""

from __future__ import annotations

from closed_later import closed_databases
from corpus_fixtures import arex7_file, arex_file, ours, unchanged
from publishing_fixtures import box, empty_box, memory, rig
from watched_site import authority, site

__all__ = [
    "arex7_file",
    "arex_file",
    "authority",
    "box",
    "closed_databases",
    "empty_box",
    "memory",
    "ours",
    "rig",
    "site",
    "unchanged",
]
