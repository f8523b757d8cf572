"""Fixtures of these tests."""

from __future__ import annotations

from other_users import public_dir
from publishing_fixtures import closed_databases, memory

__all__ = ["closed_databases", "memory", "public_dir"]
