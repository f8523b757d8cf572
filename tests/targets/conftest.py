"""Fixtures of these tests."""

from __future__ import annotations

from target_fixtures import cell, golden, job
