"""Fixtures of these tests."""

from __future__ import annotations

from closed_later import closed_databases
from other_users import public_dir
from publishing_fixtures import memory

__all__ = ["closed_databases", "memory", "public_dir"]
