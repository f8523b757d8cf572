"""Fixtures of these tests."""

from __future__ import annotations

from recording_host import host
