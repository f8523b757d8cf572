"""Fixtures of these tests."""

from __future__ import annotations

from corpus_fixtures import ours
