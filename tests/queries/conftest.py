"""Fixtures of these tests."""

from __future__ import annotations

from corpus_fixtures import arex7_file, arex_file, authority, ours, site, unchanged
from publishing_fixtures import box, closed_databases, empty_box, memory, rig

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
