"""Fixtures of these tests."""

from __future__ import annotations

from corpus_fixtures import arex7_file, arex_file, ours, unchanged
from publishing_fixtures import box, empty_box, memory, rig
from watched_site import authority, site
