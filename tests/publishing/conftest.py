"""Fixtures of these tests."""

from __future__ import annotations

from publishing_fixtures import *
