"""Fixtures of these tests."""

from __future__ import annotations

from other_users import public_dir
from publishing_fixtures import closed_databases

__all__ = ["closed_databases", "public_dir"]
