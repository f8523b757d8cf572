"""Fixtures of these tests."""

from __future__ import annotations

from federation_fixtures import federation
